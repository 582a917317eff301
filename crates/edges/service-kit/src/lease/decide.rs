//! The pure half of leader election: decides what to do next, from the Lease as it was seen, and when.
//!
//! Expiry counts on the local monotonic clock, from the moment at which a change of the record was *observed*,
//! as in client-go: clocks of two machines are never compared.

use std::time::{Duration, Instant};

/// The content of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Who holds it; empty when it was released.
    pub holder: String,
    /// How long it is valid after a renewal.
    pub duration: Duration,
    /// How often it changed hands.
    pub transitions: i32,
    /// Changes with every write; an update is refused unless it names the newest one.
    pub resource_version: String,
}

/// A record, and when this process first saw it in this form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The record.
    pub record: LeaseRecord,
    /// On the local monotonic clock.
    pub since: Instant,
}

impl Observed {
    /// The new observation: an unchanged record keeps the moment it was first seen.
    pub fn update(old: Option<Self>, record: LeaseRecord, now: Instant) -> Self {
        match old {
            Some(old) if old.record == record => old,
            _ => Self { record, since: now },
        }
    }
}

/// The next step of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no Lease: create it.
    Create,
    /// It is ours already: renew it.
    Renew,
    /// It is free or has run out: take it.
    Take,
    /// Another process holds it; it cannot run out before this much time has passed.
    Wait(Duration),
}

/// What the candidate `me` does next, given the observed Lease.
pub fn decide(observed: Option<&Observed>, now: Instant, me: &str) -> Step {
    let Some(Observed { record, since }) = observed else {
        return Step::Create;
    };
    if record.holder == me {
        return Step::Renew;
    }
    if record.holder.is_empty() {
        return Step::Take;
    }
    let age = now.saturating_duration_since(*since);
    match record.duration.checked_sub(age) {
        None | Some(Duration::ZERO) => Step::Take,
        Some(left) => Step::Wait(left),
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, LeaseRecord, Observed, Step, decide};

    fn record(holder: &str, version: &str) -> LeaseRecord {
        LeaseRecord {
            holder: holder.to_owned(),
            duration: Duration::from_secs(8),
            transitions: 3,
            resource_version: version.to_owned(),
        }
    }

    #[test]
    fn a_candidate_takes_only_what_is_free_or_was_unchanged_for_its_duration() {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        for (holder, age, expect) in [
            (None, seconds(0), Step::Create),
            (Some("me"), seconds(0), Step::Renew),
            (Some("me"), seconds(100), Step::Renew),
            (Some(""), seconds(0), Step::Take),
            (Some("other"), seconds(0), Step::Wait(seconds(8))),
            (Some("other"), seconds(7), Step::Wait(seconds(1))),
            (Some("other"), seconds(8), Step::Take),
            (Some("other"), seconds(9), Step::Take),
        ] {
            let observed = holder.map(|holder| Observed { record: record(holder, "1"), since: start });
            assert_eq!(decide(observed.as_ref(), start + age, "me"), expect, "{holder:?} after {age:?}");
        }
    }

    #[test]
    fn a_renewed_record_is_waited_for_anew_and_an_unchanged_one_is_not() {
        let start = Instant::now();
        let later = start + Duration::from_secs(7);
        let first = Observed::update(None, record("other", "1"), start);
        let unchanged = Observed::update(Some(first.clone()), record("other", "1"), later);
        assert_eq!(decide(Some(&unchanged), later, "me"), Step::Wait(Duration::from_secs(1)));
        let renewed = Observed::update(Some(first), record("other", "2"), later);
        assert_eq!(decide(Some(&renewed), later, "me"), Step::Wait(Duration::from_secs(8)));
    }

    #[test]
    fn the_duration_is_the_holders_not_ours() {
        let start = Instant::now();
        let mut long = record("other", "1");
        long.duration = Duration::from_mins(1);
        let observed = Observed { record: long, since: start };
        assert_eq!(
            decide(Some(&observed), start + Duration::from_secs(20), "me"),
            Step::Wait(Duration::from_secs(40))
        );
    }
}
