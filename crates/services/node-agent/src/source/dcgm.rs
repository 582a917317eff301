//! The metrics of NVIDIA's DCGM exporter, in Prometheus' text format: Xids, uncorrected memory errors, failed row remapping.
//!
//! These are states, not events: an Xid stays until the exporter is restarted, even if the GPU is healthy again
//! (NVIDIA/dcgm-exporter issue 500). So the policy acts only once on each.

use std::collections::BTreeSet;

use crate::finding::{GpuFault, Origin, Remedy, line};
use crate::xid;

/// The last Xid of each GPU, 0 for none.
const LAST_XID: &str = "DCGM_FI_DEV_XID_ERRORS";
/// How often each Xid came within a time window.
const XID_COUNT: &str = "DCGM_EXP_XID_ERRORS_COUNT";
/// Counters that are 0 on a healthy GPU, with the remedy and their meaning.
const COUNTERS: [(&str, Remedy, &str); 2] = [
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", Remedy::ResetGpu, "double-bit ECC errors since its last reset"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", Remedy::Inspect, "memory row remapping failed"),
];
/// DCGM's values for "not known" begin here (`DCGM_INT32_BLANK`); no count and no code is as high.
const BLANK: f64 = 2_147_483_632.0;
/// The most faults of one answer: 16 GPUs with 16 each.
const FAULTS_MAX: usize = 256;

/// Reads the text.
pub fn faults(body: &[u8]) -> Vec<GpuFault> {
    let text = String::from_utf8_lossy(body);
    let found: BTreeSet<GpuFault> =
        text.lines().filter_map(sample).filter_map(|sample| fault(&sample)).collect();
    found.into_iter().take(FAULTS_MAX).collect()
}

/// One line of the text.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

impl Sample<'_> {
    fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(label, _)| *label == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    fn gpu(&self) -> String {
        let address = self.label("pci_bus_id").map(pci_address);
        let other = || self.label("UUID").or(self.label("gpu")).map(line);
        address.or_else(other).unwrap_or_else(|| "unknown".to_owned())
    }
}

fn fault(sample: &Sample) -> Option<GpuFault> {
    if !(sample.value > 0.0 && sample.value < BLANK) {
        return None;
    }
    let (remedy, what) = match sample.name {
        LAST_XID => by_xid(&sample.value.to_string(), sample.label("err_msg"))?,
        XID_COUNT => by_xid(sample.label("xid")?, sample.label("err_msg"))?,
        name => {
            let (_, remedy, what) = COUNTERS.iter().find(|(counter, ..)| *counter == name)?;
            (*remedy, (*what).to_owned())
        }
    };
    Some(GpuFault { gpu: sample.gpu(), what, remedy, origin: Origin::Dcgm })
}

fn by_xid(code: &str, message: Option<&str>) -> Option<(Remedy, String)> {
    let code = code.parse().ok()?;
    let (remedy, about) = xid::remedy(code, message.unwrap_or_default())?;
    Some((remedy, format!("Xid {code}, {about}")))
}

/// Reads `NAME{label="value",…} 12` and `NAME 12`, with or without a time after it.
fn sample(text: &str) -> Option<Sample<'_>> {
    let text = text.trim();
    let end = text.find(['{', ' ']).filter(|_| !text.starts_with('#'))?;
    let (name, rest) = text.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { name, labels, value })
}

/// The labels up to the closing brace, and what follows it.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        rest = loop {
            match characters.next()? {
                (end, '"') => break &quoted[end + 1..],
                (_, '\\') => value.push(match characters.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        };
        labels.push((name.trim(), value));
    }
}

/// One form for the addresses of the kernel log (`0000:cb:00`) and of DCGM (`00000000:CB:00.0`).
pub(crate) fn pci_address(text: &str) -> String {
    let address = line(text).to_ascii_lowercase();
    let address = address.split_once('.').map_or(address.as_str(), |(address, _)| address);
    match address.strip_prefix("0000") {
        Some(rest) if rest.find(':') == Some(4) => rest.to_owned(),
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: &str = r#"gpu="3",UUID="GPU-265c9814-6156-355b-e589-ff2064894f16",pci_bus_id="00000000:CB:00.0",device="nvidia3",modelName="NVIDIA H100 80GB HBM3",Hostname="node-0""#;

    fn found(metric: &str, more: &str, value: &str) -> Vec<(String, String, Remedy)> {
        let text =
            format!("# HELP {metric} Of a kind.\n# TYPE {metric} gauge\n{metric}{{{GPU}{more}}} {value}\n");
        faults(text.as_bytes()).into_iter().map(|fault| (fault.gpu, fault.what, fault.remedy)).collect()
    }

    #[test]
    fn a_well_gpu_has_no_fault() {
        for metric in [LAST_XID, XID_COUNT, COUNTERS[0].0, COUNTERS[1].0, "DCGM_FI_DEV_GPU_TEMP"] {
            assert_eq!(found(metric, "", "0"), [], "{metric}");
        }
        assert_eq!(found("DCGM_FI_DEV_GPU_TEMP", "", "79"), []);
    }

    #[test]
    fn the_last_xid_is_a_fault_if_the_gpu_needs_help() {
        let more = r#",err_code="79",err_msg="GPU has fallen off the bus""#;
        let expected =
            ("0000:cb:00".into(), "Xid 79, GPU has fallen off the bus".into(), Remedy::RestartNode);
        assert_eq!(found(LAST_XID, more, "79"), [expected]);
        assert_eq!(found(LAST_XID, "", "13"), [], "an application's");
        assert_eq!(found(LAST_XID, "", "31"), [], "an application's");
    }

    #[test]
    fn counted_xids_are_named_by_a_label() {
        let more = |code: &str| format!(r#",window_size_in_ms="300000",xid="{code}""#);
        assert_eq!(found(XID_COUNT, &more("95"), "2")[0].2, Remedy::ResetGpu);
        assert_eq!(found(XID_COUNT, &more("94"), "2"), []);
        assert_eq!(found(XID_COUNT, &more("95"), "0"), []);
        assert_eq!(found(XID_COUNT, "", "2"), []);
    }

    #[test]
    fn counters_of_memory_errors_are_faults() {
        assert_eq!(found(COUNTERS[0].0, "", "1")[0].2, Remedy::ResetGpu);
        assert_eq!(found(COUNTERS[1].0, "", "1")[0].2, Remedy::Inspect);
        for unknown in ["9223372036854775794", "2147483632", "NaN", "-1", "+Inf"] {
            assert_eq!(found(COUNTERS[0].0, "", unknown), [], "{unknown}");
        }
    }

    #[test]
    fn one_gpu_that_is_shown_for_each_of_its_parts_is_one_fault() {
        let line = |part| format!("{LAST_XID}{{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"{part}\"}} 48");
        let found = faults([3, 4, 5, 6].map(line).join("\n").as_bytes());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].gpu, "GPU-a");
    }

    #[test]
    fn strange_text_is_passed_over() {
        let text = "\u{0}\n# only words\nDCGM_FI_DEV_XID_ERRORS\nDCGM_FI_DEV_XID_ERRORS{gpu=\"0\n\
            DCGM_FI_DEV_XID_ERRORS{gpu=\"0\"} many\nDCGM_FI_DEV_XID_ERRORS{gpu} 79\n\
            DCGM_FI_DEV_XID_ERRORS{gpu=\"a\\\"},b\\\\\",} 79 1700000000000\n";
        let found = faults(text.as_bytes());
        assert_eq!(found.iter().map(|fault| fault.gpu.as_str()).collect::<Vec<_>>(), ["a\"},b\\"]);
        assert_eq!(faults(b"\xff\xfe"), []);
    }

    #[test]
    fn addresses_are_told_alike() {
        for text in ["0000:cb:00", "00000000:CB:00.0", "0000:CB:00.0"] {
            assert_eq!(pci_address(text), "0000:cb:00", "{text}");
        }
        assert_eq!(pci_address("0018:01:00"), "0018:01:00");
    }
}
