//! Google Compute Engine's metadata: preemption of a spot machine, and maintenance of its host.

use jiff::SignedDuration;

use super::Error;
use crate::finding::{Due, Notice, NoticeKind};

/// Where preemption is announced.
pub const PREEMPTED: &str = "/computeMetadata/v1/instance/preempted";
/// Where maintenance is announced, but only to machines that ask.
pub const MAINTENANCE: &str = "/computeMetadata/v1/instance/maintenance-event";

/// From the notice of a preemption to the power off.
const PREEMPTED_WITHIN: SignedDuration = SignedDuration::from_secs(30);
/// From the notice of maintenance to its start. Machines with GPUs may get it an hour ahead, but the notice
/// does not say so.
const MAINTENANCE_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// Reads the answer of [`PREEMPTED`].
pub fn preempted(body: &[u8]) -> Result<Vec<Notice>, Error> {
    match body.trim_ascii() {
        b"FALSE" => Ok(Vec::new()),
        b"TRUE" => Ok(vec![Notice {
            kind: NoticeKind::Spot,
            due: Due::Within(PREEMPTED_WITHIN),
            what: "GCP: preempted".to_owned(),
        }]),
        _ => Err(Error::Value { what: "instance/preempted" }),
    }
}

/// Reads the answer of [`MAINTENANCE`]. A live migration pauses the machine for less than a second.
pub fn maintenance(body: &[u8]) -> Result<Vec<Notice>, Error> {
    let (kind, what) = match body.trim_ascii() {
        b"NONE" => return Ok(Vec::new()),
        b"MIGRATE_ON_HOST_MAINTENANCE" => (NoticeKind::Advice, "GCP: live migration"),
        b"TERMINATE_ON_HOST_MAINTENANCE" => (NoticeKind::Maintenance, "GCP: host maintenance (terminate)"),
        _ => return Err(Error::Value { what: "instance/maintenance-event" }),
    };
    Ok(vec![Notice { kind, due: Due::Within(MAINTENANCE_WITHIN), what: what.to_owned() }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preemption_leaves_thirty_seconds() {
        assert_eq!(preempted(b"FALSE\n").unwrap(), []);
        let found = preempted(b"TRUE").unwrap();
        assert_eq!(
            (found[0].kind, found[0].due),
            (NoticeKind::Spot, Due::Within(SignedDuration::from_secs(30)))
        );
    }

    #[test]
    fn a_machine_that_is_moved_alive_does_not_leave() {
        assert_eq!(maintenance(b"NONE").unwrap(), []);
        assert_eq!(maintenance(b"MIGRATE_ON_HOST_MAINTENANCE").unwrap()[0].kind, NoticeKind::Advice);
        assert_eq!(maintenance(b"TERMINATE_ON_HOST_MAINTENANCE").unwrap()[0].kind, NoticeKind::Maintenance);
    }

    #[test]
    fn other_values_are_errors() {
        for body in [&b""[..], b"true", b"<html>", b"\xff"] {
            assert!(preempted(body).is_err());
            assert!(maintenance(body).is_err());
        }
    }
}
