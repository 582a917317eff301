//! Amazon EC2's instance metadata: interruption of a spot instance, rebalance recommendation, scheduled events.
//!
//! The first two answer 404 without an event, which the caller passes as `None`.

use jiff::Timestamp;
use serde::Deserialize;

use super::{EVENTS_MAX, Error, mail_time};
use crate::finding::{Due, Notice, NoticeKind, line};

/// Where the interruption of a spot instance is announced, two minutes ahead.
pub const SPOT: &str = "/latest/meta-data/spot/instance-action";
/// Where a higher risk of interruption is announced.
pub const REBALANCE: &str = "/latest/meta-data/events/recommendations/rebalance";
/// Where scheduled events are listed, often days ahead.
pub const SCHEDULED: &str = "/latest/meta-data/events/maintenance/scheduled";

/// `{"action": "terminate", "time": "2017-09-18T08:22:00Z"}`.
#[derive(Deserialize)]
struct InstanceAction {
    action: String,
    time: Timestamp,
}

/// `{"noticeTime": "2020-10-27T08:22:00Z"}`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rebalance {
    notice_time: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    not_before: String,
    code: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    state: String,
}

/// Reads the answer of [`SPOT`].
pub fn spot(body: Option<&[u8]>) -> Result<Vec<Notice>, Error> {
    let Some(body) = body else { return Ok(Vec::new()) };
    let what = "the spot instance action";
    let InstanceAction { action, time } =
        serde_json::from_slice(body).map_err(|source| Error::Json { what, source })?;
    let what = format!("AWS: spot interruption ({})", line(&action));
    Ok(vec![Notice { kind: NoticeKind::Spot, due: Due::At(time), what }])
}

/// Reads the answer of [`REBALANCE`].
pub fn rebalance(body: Option<&[u8]>) -> Result<Vec<Notice>, Error> {
    let Some(body) = body else { return Ok(Vec::new()) };
    let what = "the rebalance recommendation";
    let Rebalance { notice_time } =
        serde_json::from_slice(body).map_err(|source| Error::Json { what, source })?;
    let what = "AWS: rebalance recommendation".to_owned();
    Ok(vec![Notice { kind: NoticeKind::Advice, due: Due::At(notice_time), what }])
}

/// Reads the answer of [`SCHEDULED`]. Events that are over stay in it for a week, with another state.
pub fn scheduled(body: Option<&[u8]>) -> Result<Vec<Notice>, Error> {
    let Some(body) = body else { return Ok(Vec::new()) };
    let what = "the scheduled events";
    let events: Vec<Event> = serde_json::from_slice(body).map_err(|source| Error::Json { what, source })?;
    let active = events.iter().take(EVENTS_MAX).filter(|event| event.state == "active");
    active
        .map(|event| {
            let at = mail_time(&event.not_before).map_err(|source| Error::Time { what, source })?;
            let what = format!("AWS: {} ({})", line(&event.code), line(&event.description));
            Ok(Notice { kind: NoticeKind::Maintenance, due: Due::At(at), what })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Due {
        Due::At(time.parse().unwrap())
    }

    #[test]
    fn an_interruption_has_its_time() {
        for action in ["terminate", "stop", "hibernate"] {
            let body = format!(r#"{{"action": "{action}", "time": "2017-09-18T08:22:00Z"}}"#);
            let expected = Notice {
                kind: NoticeKind::Spot,
                due: at("2017-09-18T08:22:00Z"),
                what: format!("AWS: spot interruption ({action})"),
            };
            assert_eq!(spot(Some(body.as_bytes())).unwrap(), [expected]);
        }
    }

    #[test]
    fn a_recommendation_is_advice() {
        let expected = Notice {
            kind: NoticeKind::Advice,
            due: at("2020-10-27T08:22:00Z"),
            what: "AWS: rebalance recommendation".into(),
        };
        assert_eq!(rebalance(Some(br#"{"noticeTime": "2020-10-27T08:22:00Z"}"#)).unwrap(), [expected]);
    }

    #[test]
    fn scheduled_events_count_while_they_are_active() {
        let body = br#"[
          {
            "NotBefore" : "21 Jan 2019 09:00:43 GMT",
            "Code" : "system-reboot",
            "Description" : "scheduled reboot",
            "EventId" : "instance-event-0d59937288b749b32",
            "NotAfter" : "21 Jan 2019 09:17:23 GMT",
            "State" : "active"
          },
          {
            "NotBefore" : "20 Jan 2019 09:00:43 GMT",
            "Code" : "instance-stop",
            "Description" : "[Canceled] The instance is running on degraded hardware",
            "EventId" : "instance-event-0d59937288b749b33",
            "NotAfter" : "20 Jan 2019 09:17:23 GMT",
            "State" : "canceled"
          },
          {
            "NotBefore" : "29 Jan 2019 09:00:43 GMT",
            "Code" : "instance-retirement",
            "Description" : "The instance is running on degraded hardware",
            "EventId" : "instance-event-0d59937288b749b34",
            "State" : "active"
          }
        ]"#;
        let expected = [
            ("2019-01-21T09:00:43Z", "AWS: system-reboot (scheduled reboot)"),
            (
                "2019-01-29T09:00:43Z",
                "AWS: instance-retirement (The instance is running on degraded hardware)",
            ),
        ]
        .map(|(time, what)| Notice {
            kind: NoticeKind::Maintenance,
            due: at(time),
            what: what.into(),
        });
        assert_eq!(scheduled(Some(body)).unwrap(), expected);
    }

    #[test]
    fn nothing_there_is_no_notice() {
        assert_eq!(spot(None).unwrap(), []);
        assert_eq!(rebalance(None).unwrap(), []);
        assert_eq!(scheduled(None).unwrap(), []);
        assert_eq!(scheduled(Some(b"[]")).unwrap(), []);
    }

    #[test]
    fn what_is_no_such_document_is_an_error_and_not_the_end_of_a_notice() {
        for body in [&b""[..], b"<html>", b"{}", br#"{"action": "stop", "time": "soon"}"#, b"\xff\xff"] {
            assert!(spot(Some(body)).is_err());
            assert!(rebalance(Some(body)).is_err());
            assert!(scheduled(Some(body)).is_err());
        }
        let body = br#"[{"NotBefore": "tomorrow", "Code": "instance-stop", "State": "active"}]"#;
        assert!(matches!(scheduled(Some(body)), Err(Error::Time { .. })));
    }
}
