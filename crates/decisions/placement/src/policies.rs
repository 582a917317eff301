//! Policies by name and as text, as files and stories write them. The values are those of production.

use std::collections::BTreeMap;

use cluster_model::Tier;
use cluster_model::policy::{Backfill, EvictionPolicy, OrderPolicy, Packing, Policy, TierPairs};
use serde::Deserialize;

/// Policies with a name, and what they are.
pub const PRESETS: [(&str, &str); 7] = [
    ("default", "nobody gives way"),
    (
        "installed",
        "as installed: priorities and reclaim make others give way, and gangs that save their state may be moved",
    ),
    ("fifo", "the oldest first, and a blocked gang holds up all after it: a baseline"),
    ("skip-ahead", "the oldest first, and gangs that fit go ahead of those that do not"),
    ("easy", "skip-ahead, and the first blocked gang has a reservation"),
    ("conservative", "skip-ahead, and every blocked gang has a reservation"),
    ("full", "every rule that makes gangs give way: priorities, reclaim, expected work"),
];

/// The policy that a file starts from by default.
const BASE: &str = "installed";

/// What can be set, and to what.
pub const KEYS: [(&str, &str); 14] = [
    ("order", "age, strict-age or expected-work"),
    ("packing", "best-fit, least-fragmentation, spread or least-power"),
    ("reservations", "how many blocked gangs get one; 0 is none"),
    ("gather", "for how many long-blocked gangs nodes are gathered as they fall free; 0 is none"),
    ("gather-after-seconds", "how long a gang waits before nodes are gathered for it"),
    ("priority-evicts", "true or false"),
    ("priority-takes-quota", "none, or pairs of tiers such as `production>exploration,production>research`"),
    ("reclaim", "true or false"),
    ("expected-work-evicts", "true or false"),
    ("hold-seconds", "how long capacity is held for a claimant"),
    ("candidates-max", "how many running gangs are looked at as victims for one claimant"),
    ("consolidation-moves", "the most gangs that are moved for one that is blocked"),
    ("consolidation-after-seconds", "how long it waits before others are moved for it"),
    ("cap-watts", "the most that all nodes may draw"),
];

/// A policy by its name. None of them explains: nobody reads the reasons of a million simulated jobs.
pub fn preset(name: &str) -> Option<Policy> {
    let base = Policy { explain: false, ..Policy::default() };
    let reservations = |reservations_max: u32| Backfill { reservations_max, ..Backfill::default() };
    let by_age = Policy { order: OrderPolicy::Age, ..base.clone() };
    let skip_ahead = Policy {
        backfill: Backfill { reservations_max: 0, gather_max: 0, ..base.backfill },
        ..by_age.clone()
    };
    Some(match name {
        "default" => base,
        "installed" => Policy { explain: false, ..Policy::installed() },
        "fifo" => Policy { order: OrderPolicy::StrictAge, ..skip_ahead },
        "skip-ahead" => skip_ahead,
        "easy" => Policy { backfill: reservations(1), ..by_age },
        "conservative" => Policy { backfill: reservations(1_000), ..by_age },
        // No gang is moved: moves lose 2.1 % of a week's GPU time with reclaim, against 1 % without, and in X3 they
        // cost a team that seldom waits more than it gains.
        "full" => Policy {
            eviction: EvictionPolicy {
                by_priority: true,
                reclaim: true,
                by_expected_work: true,
                ..base.eviction
            },
            ..base
        },
        _ => return None,
    })
}

/// A policy as a file writes it, in any format: things to set, and under `base` the name of the policy to set them
/// in, else `installed`.
#[derive(Deserialize)]
pub struct PolicyFile(BTreeMap<String, Entry>);

/// A value, as it is written in the file.
#[derive(Deserialize)]
#[serde(untagged, expecting = "write a word, a whole number, true or false")]
enum Entry {
    Bool(bool),
    Number(u64),
    Text(String),
}

impl PolicyFile {
    /// The policy; the error lists what is possible.
    pub fn policy(self) -> Result<Policy, String> {
        let text = |entry| match entry {
            Entry::Bool(value) => value.to_string(),
            Entry::Number(value) => value.to_string(),
            Entry::Text(text) => text,
        };
        from_entries(&self.0.into_iter().map(|(key, entry)| (key, text(entry))).collect())
    }
}

fn from_entries(entries: &BTreeMap<String, String>) -> Result<Policy, String> {
    let base = entries.get("base").map_or(BASE, String::as_str);
    let mut policy = preset(base).ok_or_else(|| {
        format!("no policy is called `{base}`; there are {}", PRESETS.map(|(name, _)| name).join(", "))
    })?;
    for (key, value) in entries.iter().filter(|(key, _)| *key != "base") {
        set(&mut policy, key, value)?;
    }
    Ok(policy)
}

/// Sets one thing; the error lists what is possible.
pub fn set(policy: &mut Policy, key: &str, value: &str) -> Result<(), String> {
    let (_, possible) = KEYS.into_iter().find(|(name, _)| *name == key).ok_or_else(|| {
        format!("no policy has `{key}`; there are {}", KEYS.map(|(name, _)| name).join(", "))
    })?;
    set_known(policy, key, value).ok_or_else(|| format!("{key} is `{value}`, and must be {possible}"))
}

fn set_known(policy: &mut Policy, key: &str, value: &str) -> Option<()> {
    let number = || value.parse::<u32>().ok();
    match key {
        "order" => policy.order = order(value)?,
        "packing" => policy.packing = packing(value)?,
        "reservations" => policy.backfill.reservations_max = number()?,
        "gather" => policy.backfill.gather_max = number()?,
        "gather-after-seconds" => policy.backfill.gather_after_seconds = number()?,
        "priority-evicts" => policy.eviction.by_priority = value.parse().ok()?,
        "priority-takes-quota" => policy.eviction.takes_quota = tier_pairs(value)?,
        "reclaim" => policy.eviction.reclaim = value.parse().ok()?,
        "expected-work-evicts" => policy.eviction.by_expected_work = value.parse().ok()?,
        "hold-seconds" => policy.eviction.hold_seconds = number()?,
        "candidates-max" => policy.eviction.candidates_max = number()?,
        "consolidation-moves" => policy.consolidation.moves_max = number()?,
        "consolidation-after-seconds" => policy.consolidation.after_seconds = number()?,
        "cap-watts" => policy.energy.cap_watts = Some(value.parse().ok()?),
        _ => return None,
    }
    Some(())
}

fn tier_pairs(text: &str) -> Option<TierPairs> {
    let mut pairs = text.split(',').map(str::trim).filter(|pair| *pair != "none");
    pairs.try_fold(TierPairs::default(), |pairs, pair| {
        let (claims, gives) = pair.split_once('>')?;
        let (claims, gives) = (Tier::named(claims.trim())?, Tier::named(gives.trim())?);
        (claims > gives).then(|| pairs.with(claims, gives))
    })
}

fn order(name: &str) -> Option<OrderPolicy> {
    Some(match name {
        "age" => OrderPolicy::Age,
        "strict-age" => OrderPolicy::StrictAge,
        "expected-work" => OrderPolicy::ExpectedWork,
        _ => return None,
    })
}

fn packing(name: &str) -> Option<Packing> {
    Some(match name {
        "best-fit" => Packing::BestFit,
        "least-fragmentation" => Packing::LeastFragmentation,
        "spread" => Packing::Spread,
        "least-power" => Packing::LeastPower,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use cluster_model::policy::{Backfill, Policy};

    use super::{KEYS, PRESETS, PolicyFile, preset, set};

    #[test]
    fn every_name_that_is_offered_exists() {
        for (name, _) in PRESETS {
            assert!(preset(name).is_some(), "{name}");
        }
        assert!(preset("magic").is_none());
        for (key, possible) in KEYS {
            let value = if possible.starts_with("true") { "true" } else { "7" };
            let value = possible
                .split([',', ' '])
                .next()
                .filter(|_| matches!(key, "order" | "packing" | "priority-takes-quota"))
                .unwrap_or(value);
            set(&mut Policy::default(), key, value).unwrap();
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        let mut policy = Policy::default();
        let error = set(&mut policy, "order", "random").unwrap_err();
        assert_eq!(error, "order is `random`, and must be age, strict-age or expected-work");
        assert!(
            set(&mut policy, "colour", "red")
                .unwrap_err()
                .starts_with("no policy has `colour`; there are order,")
        );
        set(&mut policy, "reservations", "5").unwrap();
        assert_eq!(policy.backfill, Backfill { reservations_max: 5, ..Backfill::default() });
    }

    #[test]
    fn a_file_sets_things_in_the_policy_that_it_names() {
        let read = |file: &str| serde_json::from_str::<PolicyFile>(file).unwrap().policy();
        assert!(read("{}").unwrap().eviction.reclaim, "without a base, the installed one");
        assert!(!read(r#"{"base": "default"}"#).unwrap().eviction.reclaim);
        assert!(!read(r#"{"reclaim": false}"#).unwrap().eviction.reclaim);
        assert!(!read(r#"{"reclaim": "false"}"#).unwrap().eviction.reclaim, "as a word too");
        assert_eq!(read(r#"{"hold-seconds": 60}"#).unwrap().eviction.hold_seconds, 60);
        assert!(read(r#"{"base": "magic"}"#).unwrap_err().starts_with("no policy is called `magic`"));
        assert!(read(r#"{"reclaim": "perhaps"}"#).is_err());
        let parts = serde_json::from_str::<PolicyFile>(r#"{"reclaim": [1]}"#).err().unwrap();
        assert!(parts.to_string().starts_with("write a word"), "{parts}");
    }
}
