//! Azure's scheduled events. One document is served to all machines of a scale set, so each looks for its own name in it.

use jiff::SignedDuration;
use serde::Deserialize;

use super::{EVENTS_MAX, Error, mail_time};
use crate::finding::{Due, Notice, NoticeKind, line};

/// Where events are announced: 30 s ahead of an eviction, minutes ahead of the rest.
pub const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";
/// The machine's own name.
pub const NAME: &str = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    events: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    #[serde(rename = "EventType")]
    kind: String,
    #[serde(default)]
    resources: Vec<String>,
    /// Empty once the event has started.
    #[serde(default)]
    not_before: String,
    #[serde(default)]
    description: String,
}

/// Reads the answer of [`NAME`].
pub fn name(body: &[u8]) -> Result<String, Error> {
    let name = str::from_utf8(body).map(str::trim).unwrap_or_default();
    let is_name = !name.is_empty()
        && name.len() <= 255
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_name { Ok(name.to_owned()) } else { Err(Error::Value { what: "the machine's name" }) }
}

/// Reads the answer of [`EVENTS`], for the machine of this name.
pub fn events(body: &[u8], machine: &str) -> Result<Vec<Notice>, Error> {
    let what = "the scheduled events";
    let Document { events } = serde_json::from_slice(body).map_err(|source| Error::Json { what, source })?;
    let is_ours =
        |event: &&Event| event.resources.iter().any(|resource| resource.eq_ignore_ascii_case(machine));
    let ours = events.iter().filter(is_ours).take(EVENTS_MAX);
    ours.map(|event| {
        let kind = match event.kind.as_str() {
            "Preempt" => NoticeKind::Spot,
            // A pause of some seconds; memory, files and connections stay.
            "Freeze" => NoticeKind::Advice,
            // Reboot, Redeploy, Terminate, and future types.
            _ => NoticeKind::Maintenance,
        };
        let due = if event.not_before.trim().is_empty() {
            Due::Within(SignedDuration::ZERO)
        } else {
            Due::At(mail_time(&event.not_before).map_err(|source| Error::Time { what, source })?)
        };
        let what = match line(&event.description) {
            description if description.is_empty() => format!("Azure: {}", line(&event.kind)),
            description => format!("Azure: {} ({description})", line(&event.kind)),
        };
        Ok(Notice { kind, due, what })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(event_type: &str, not_before: &str) -> String {
        format!(
            r#"{{
              "DocumentIncarnation": 2,
              "Events": [{{
                "EventId": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
                "EventStatus": "Scheduled",
                "EventType": "{event_type}",
                "ResourceType": "VirtualMachine",
                "Resources": ["gpus_0", "gpus_7"],
                "NotBefore": "{not_before}",
                "Description": "Virtual machine is being evicted.",
                "EventSource": "Platform",
                "DurationInSeconds": -1
              }}]
            }}"#
        )
    }

    #[test]
    fn each_type_of_event_is_what_it_does_to_the_machine() {
        for (event_type, kind) in [
            ("Preempt", NoticeKind::Spot),
            ("Terminate", NoticeKind::Maintenance),
            ("Reboot", NoticeKind::Maintenance),
            ("Redeploy", NoticeKind::Maintenance),
            ("Freeze", NoticeKind::Advice),
            ("SomethingNew", NoticeKind::Maintenance),
        ] {
            let body = document(event_type, "Mon, 19 Sep 2016 18:29:47 GMT");
            let expected = Notice {
                kind,
                due: Due::At("2016-09-19T18:29:47Z".parse().unwrap()),
                what: format!("Azure: {event_type} (Virtual machine is being evicted.)"),
            };
            assert_eq!(events(body.as_bytes(), "gpus_7").unwrap(), [expected]);
        }
    }

    #[test]
    fn events_of_other_machines_are_not_ours() {
        let body = document("Preempt", "Mon, 19 Sep 2016 18:29:47 GMT");
        assert_eq!(events(body.as_bytes(), "gpus_1").unwrap(), []);
        assert_eq!(events(body.as_bytes(), "GPUS_0").unwrap().len(), 1);
    }

    #[test]
    fn an_event_that_has_started_is_due() {
        let found = events(document("Reboot", "").as_bytes(), "gpus_0").unwrap();
        assert_eq!(found[0].due, Due::Within(SignedDuration::ZERO));
    }

    #[test]
    fn no_events_are_no_notice_and_no_document_is_an_error() {
        assert_eq!(events(br#"{"DocumentIncarnation": 1, "Events": []}"#, "gpus_0").unwrap(), []);
        for body in [&b""[..], b"{}", b"<html>", b"\xff"] {
            assert!(events(body, "gpus_0").is_err());
        }
        assert!(events(document("Reboot", "soon").as_bytes(), "gpus_0").is_err());
    }

    #[test]
    fn a_name_is_a_name() {
        assert_eq!(name(b"gpus_0\n").unwrap(), "gpus_0");
        for body in [&b""[..], b"  ", b"<html>", b"a b", b"\xff"] {
            assert!(name(body).is_err());
        }
    }
}
