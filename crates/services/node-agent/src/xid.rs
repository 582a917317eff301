//! The action that an Xid, the NVIDIA driver's number for an error, needs: NVIDIA's catalogue as data.
//!
//! Codes that the catalogue calls unused, or that have no action, are left out: they are only logged.

use std::ops::RangeInclusive;

use crate::finding::Remedy;

/// The first action in NVIDIA's catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: it is information, or another Xid has the action.
    Ignore,
    /// The application is to be restarted: it is usually at fault, and the GPU is healthy.
    RestartApp,
    /// The GPU needs help.
    Help(Remedy),
    /// The message itself says what to do.
    ByMessage,
}

/// A range of codes, the action, and a description.
type Row = (RangeInclusive<u32>, Action, &'static str);

const RESET: Action = Action::Help(Remedy::ResetGpu);
const RESTART: Action = Action::Help(Remedy::RestartNode);
const INSPECT: Action = Action::Help(Remedy::Inspect);

/// NVIDIA's "immediate action" by code, in order. Its workflow for 48 ends in draining and resetting the GPU,
/// those for NVLink in an inspection of the link.
const TABLE: &[Row] = &[
    (8..=8, Action::RestartApp, "GPU stopped processing"),
    (11..=11, Action::RestartApp, "invalid push buffer stream"),
    (13..=13, Action::RestartApp, "graphics engine exception"),
    (14..=14, Action::Ignore, "a test"),
    (25..=25, Action::RestartApp, "illegal push buffer stream"),
    (31..=31, Action::RestartApp, "GPU memory page fault"),
    (32..=32, Action::RestartApp, "corrupted push buffer stream"),
    (37..=38, Action::Ignore, "driver firmware error"),
    (39..=41, Action::RestartApp, "copy engine exception"),
    (43..=43, Action::Ignore, "GPU stopped processing"),
    (44..=44, Action::Ignore, "fault during a context switch"),
    (45..=45, Action::Ignore, "clean-up after another error"),
    (46..=46, RESET, "GPU stopped processing"),
    (48..=48, RESET, "double-bit ECC error"),
    (54..=54, INSPECT, "auxiliary power is not connected"),
    (60..=60, Action::RestartApp, "video processor exception"),
    (62..=62, RESET, "internal micro-controller halt"),
    (63..=63, Action::Ignore, "memory row marked for remapping"),
    (64..=64, RESET, "memory row remapping failed"),
    (66..=67, Action::Ignore, "illegal access by the driver"),
    (68..=68, Action::RestartApp, "video decoder exception"),
    (69..=69, Action::RestartApp, "graphics engine class error"),
    (70..=72, Action::RestartApp, "copy engine error"),
    (74..=74, INSPECT, "NVLink error"),
    (75..=77, Action::RestartApp, "copy engine error"),
    (79..=79, RESTART, "GPU has fallen off the bus"),
    (80..=80, Action::RestartApp, "corrupted data sent to the GPU"),
    (82..=84, Action::RestartApp, "video engine error"),
    (85..=85, Action::RestartApp, "copy engine error"),
    (86..=86, Action::RestartApp, "optical flow exception"),
    (88..=89, Action::RestartApp, "video engine error"),
    (92..=92, Action::Ignore, "high rate of single-bit ECC errors"),
    (93..=93, Action::Ignore, "InfoROM wear limit"),
    (94..=94, Action::RestartApp, "contained memory error"),
    (95..=95, RESET, "uncontained memory error"),
    (96..=105, Action::RestartApp, "video engine error"),
    (106..=107, Action::Ignore, "a test"),
    (108..=108, Action::Ignore, "NVLink remote translation error"),
    (109..=109, RESET, "context switch timeout"),
    (110..=110, RESET, "security fault"),
    (119..=119, RESET, "GSP does not answer"),
    (120..=120, RESET, "GSP error"),
    (121..=121, Action::Ignore, "chip-to-chip link error"),
    (126..=135, Action::RestartApp, "copy engine error"),
    (136..=136, RESET, "link training failed"),
    (137..=137, Action::Ignore, "NVLink privilege error"),
    (139..=139, Action::RestartApp, "optical flow error"),
    (140..=140, RESET, "unrecovered ECC error"),
    (141..=141, Action::Ignore, "CUDA fast path error"),
    (143..=143, RESET, "GPU initialisation error"),
    (144..=150, INSPECT, "NVLink error"),
    (151..=151, RESTART, "key rotation error"),
    (152..=153, Action::Ignore, "DLA error"),
    (154..=154, Action::ByMessage, "GPU recovery action changed"),
    (155..=155, RESET, "NVLink error found by software"),
    (156..=156, RESET, "resource retired"),
    (157..=157, Action::Ignore, "resource could not be retired"),
    (158..=158, RESET, "fatal timeout"),
    (160..=161, Action::Ignore, "channel retirement"),
    (171..=172, Action::Ignore, "details of Xid 48"),
];

/// The codes whose messages say whether they are fatal; the others need no action.
const SAY_WHETHER_FATAL: RangeInclusive<u32> = 144..=150;

/// The action for a code, and a description; `None` for a code that is not in the table.
pub fn action(code: u32) -> Option<(Action, &'static str)> {
    TABLE.iter().find(|(codes, ..)| codes.contains(&code)).map(|(_, action, about)| (*action, *about))
}

/// The remedy for a GPU after an Xid with this message, which may be empty, and a description.
pub fn remedy(code: u32, message: &str) -> Option<(Remedy, &'static str)> {
    let message = message.to_ascii_lowercase();
    let (action, about) = action(code)?;
    let is_harmless = SAY_WHETHER_FATAL.contains(&code) && message.contains("nonfatal");
    let remedy = match action {
        Action::Help(remedy) if !is_harmless => remedy,
        Action::ByMessage => recovery_action(&message)?,
        Action::Ignore | Action::RestartApp | Action::Help(_) => return None,
    };
    Some((remedy, about))
}

/// Reads "gpu recovery action changed from 0x0 (none) to 0x1 (gpu reset required)".
fn recovery_action(message: &str) -> Option<Remedy> {
    let (_, to) = message.rsplit_once(" to ")?;
    if to.contains("reboot") {
        Some(Remedy::RestartNode)
    } else {
        to.contains("reset").then_some(Remedy::ResetGpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every code with this first action, copied from NVIDIA's catalogue instead of the table.
    fn codes(of: Action) -> Vec<u32> {
        (0..1_000).filter(|code| action(*code).is_some_and(|(action, _)| action == of)).collect()
    }

    #[test]
    fn an_application_is_started_again_after_the_48_codes_that_say_so() {
        let mut expected = vec![8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80];
        expected.extend([82, 83, 84, 85, 86, 88, 89, 94]);
        expected.extend(96..=105);
        expected.extend(126..=135);
        expected.push(139);
        assert_eq!(expected.len(), 48);
        assert_eq!(codes(Action::RestartApp), expected);
    }

    #[test]
    fn a_gpu_is_reset_after_the_14_codes_that_say_so_and_after_a_double_bit_error() {
        let expected = [46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158];
        assert_eq!(codes(RESET), expected);
    }

    #[test]
    fn a_machine_is_restarted_when_a_gpu_fell_off_the_bus_or_lost_its_keys() {
        assert_eq!(codes(RESTART), [79, 151]);
    }

    #[test]
    fn somebody_looks_at_power_and_links() {
        assert_eq!(codes(INSPECT), [54, 74, 144, 145, 146, 147, 148, 149, 150]);
    }

    #[test]
    fn nothing_follows_from_information_and_from_what_is_not_in_the_catalogue() {
        let expected = [
            14, 37, 38, 43, 44, 45, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157, 160,
            161, 171, 172,
        ];
        assert_eq!(codes(Action::Ignore), expected);
        for code in expected.into_iter().chain([0, 1, 7, 61, 142, 173, 999]) {
            assert_eq!(remedy(code, ""), None, "{code}");
        }
    }

    #[test]
    fn no_code_has_two_rows() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].0.end() < pair[1].0.start(), "{pair:?}");
        }
    }

    #[test]
    fn some_codes_depend_on_the_message() {
        let changed = |to: &str| remedy(154, &format!("GPU recovery action changed from 0x0 (None) to {to}"));
        let about = "GPU recovery action changed";
        assert_eq!(changed("0x1 (GPU Reset Required)"), Some((Remedy::ResetGpu, about)));
        assert_eq!(changed("0x2 (Node Reboot Required)"), Some((Remedy::RestartNode, about)));
        assert_eq!(
            remedy(154, "GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"),
            None
        );
        assert_eq!(remedy(154, ""), None);
        assert!(remedy(149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x00000000)").is_some());
        assert_eq!(remedy(145, "RLW_REMAP Nonfatal XC1 i0 Link 00 (0x00000004 0x80000000)"), None);
        assert_eq!(remedy(31, "Fatal"), None);
    }
}
