//! The cloud's own record: which machines were launched, at what price, and until when. Tests compare a ledger
//! with it.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;

use crate::Error;

/// One machine, from its launch until its end: what the cloud would put on its bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The name of its Node.
    pub node: String,
    /// The claim it was launched for.
    pub claim: String,
    /// That claim's UID.
    pub claim_uid: String,
    /// Its offer.
    pub offer: Offer,
    /// The price at its launch, which it keeps.
    pub micros_per_hour: i64,
    /// Paid for from here.
    pub launched: Timestamp,
    /// When its Node appeared.
    pub registered: Option<Timestamp>,
    /// When its Node was first ready.
    pub ready: Option<Timestamp>,
    /// Paid for until here, and why it ended.
    pub ended: Option<(Timestamp, String)>,
}

impl Life {
    /// How long it is paid for, until `now` or its earlier end.
    pub fn paid_seconds(&self, now: Timestamp) -> f64 {
        let until = self.ended.as_ref().map_or(now, |(at, _)| (*at).min(now));
        until.duration_since(self.launched).as_secs_f64().max(0.0)
    }

    /// Its cost until `now` or its earlier end, in micro-units, rounded down.
    pub fn cost_micros(&self, now: Timestamp) -> i128 {
        let until = self.ended.as_ref().map_or(now, |(at, _)| (*at).min(now));
        let nanoseconds = until.duration_since(self.launched).as_nanos().max(0);
        i128::from(self.micros_per_hour) * nanoseconds / (3600 * 1_000_000_000)
    }
}

/// One line of the price list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Offer {
    /// The type, such as `p5.48xlarge`.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// `spot` or `on-demand`.
    pub capacity_type: String,
    /// The rack.
    pub rack: String,
}

/// Everything that the cloud has recorded.
#[derive(Clone, Debug, Default)]
pub struct CloudRecord {
    /// The machines, in the order of their launches.
    pub lives: Vec<Life>,
    /// Refused launches: the claim and the reason, once for each refusal.
    pub refusals: Vec<(String, String)>,
    /// The processes that played the cloud.
    pub(super) started: Vec<u32>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "event")]
    what: String,
    at: Timestamp,
    #[serde(default)]
    instance: String,
    #[serde(default)]
    claim: String,
    #[serde(default)]
    why: String,
    #[serde(default)]
    process: u32,
    machine: Option<MachineLine>,
}

#[derive(Deserialize)]
struct MachineLine {
    claim: String,
    claim_uid: String,
    offer: Offer,
    price_micros_per_hour: i64,
}

/// Reads the record written so far.
pub(super) fn read(path: &Path) -> Result<CloudRecord, Error> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(Error::Io { what: format!("read {}", path.display()), source }),
    };
    // The last line may be being written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    fold(whole).map_err(|why| Error::Manifest { what: format!("read {}", path.display()), why })
}

fn fold(text: &str) -> Result<CloudRecord, String> {
    let mut record = CloudRecord::default();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        let event: Event = serde_json::from_str(line).map_err(|error| format!("{error} in {line}"))?;
        let life = places.get(&event.instance).map(|place| &mut record.lives[*place]);
        match (event.what.as_str(), event.machine, life) {
            ("started", ..) => record.started.push(event.process),
            ("refused", ..) => record.refusals.push((event.claim, event.why)),
            ("launched", Some(machine), _) => {
                places.insert(event.instance.clone(), record.lives.len());
                record.lives.push(Life {
                    node: event.instance,
                    claim: machine.claim,
                    claim_uid: machine.claim_uid,
                    offer: machine.offer,
                    micros_per_hour: machine.price_micros_per_hour,
                    launched: event.at,
                    registered: None,
                    ready: None,
                    ended: None,
                });
            }
            ("registered", _, Some(life)) => life.registered = Some(event.at),
            ("ready", _, Some(life)) => life.ready = Some(event.at),
            ("ended", _, Some(life)) => life.ended = Some((event.at, event.why)),
            _ => {}
        }
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_costs_its_price_from_launch_to_end_and_not_a_second_more() {
        let text = r#"{"event":"launched","at":"2026-01-01T00:00:00Z","instance":"n","machine":{"claim":"c","claim_uid":"u","offer":{"instance_type":"p5.48xlarge","zone":"zone-a","capacity_type":"spot","rack":"r"},"price_micros_per_hour":36000000,"answer":{}}}
{"event":"registered","at":"2026-01-01T00:00:02Z","instance":"n"}
{"event":"refused","at":"2026-01-01T00:00:03Z","claim":"d","why":"no stock"}
{"event":"ended","at":"2026-01-01T00:00:10.5Z","instance":"n","why":"deleted"}"#;
        let record = fold(text).unwrap();
        let later: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let early: Timestamp = "2026-01-01T00:00:01Z".parse().unwrap();
        assert_eq!(record.lives[0].cost_micros(later), 105_000);
        assert_eq!(record.lives[0].cost_micros(early), 10_000);
        assert_eq!(record.refusals, [("d".to_owned(), "no stock".to_owned())]);
    }
}
