//! Holds as objects, and as the model knows them. Both directions are here, so that what is written can be read
//! again.

use api_types::Hold;
use api_types::hold::{HeldMember, HoldReason, HoldSpec, HoldVictim};
use cluster_model::GangKey;
use cluster_model::plan::{EvictionRule, HoldRecord, VictimRecord};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The model's record of a `Hold` object.
pub fn hold_record(object: &Hold) -> HoldRecord {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let HoldSpec { claimant, why, members, victims, expires, epoch: _ } = &object.spec;
    let member = |HeldMember { uid, node }: &HeldMember| (uid.as_str().into(), node.as_str().into());
    let victim = |HoldVictim { namespace, gang, uids }: &HoldVictim| VictimRecord {
        gang: GangKey::new(&**namespace, &**gang),
        pods: uids.iter().map(|uid| uid.as_str().into()).collect(),
    };
    HoldRecord {
        gang: GangKey::new(namespace, &**claimant),
        rule: rule(*why),
        members: members.iter().map(member).collect(),
        victims: victims.iter().map(victim).collect(),
        expires: expires.0,
    }
}

/// The spec of a `Hold` object, as the leader of an epoch writes it.
pub fn hold_spec(record: &HoldRecord, epoch: i64) -> HoldSpec {
    let HoldRecord { gang, rule, members, victims, expires } = record;
    HoldSpec {
        claimant: gang.name.to_string(),
        why: rule.map_or(HoldReason::Room, reason),
        members: members
            .iter()
            .map(|(uid, node)| HeldMember { uid: uid.to_string(), node: node.to_string() })
            .collect(),
        victims: victims
            .iter()
            .map(|VictimRecord { gang, pods }| HoldVictim {
                namespace: gang.namespace.to_string(),
                gang: gang.name.to_string(),
                uids: pods.iter().map(ToString::to_string).collect(),
            })
            .collect(),
        expires: Time(*expires),
        epoch,
    }
}

fn rule(reason: HoldReason) -> Option<EvictionRule> {
    match reason {
        HoldReason::Priority => Some(EvictionRule::Priority),
        HoldReason::Reclaim => Some(EvictionRule::Reclaim),
        HoldReason::ExpectedWork => Some(EvictionRule::ExpectedWork),
        HoldReason::Consolidation => Some(EvictionRule::Consolidation),
        HoldReason::Room | HoldReason::Unknown => None,
    }
}

fn reason(rule: EvictionRule) -> HoldReason {
    match rule {
        EvictionRule::Priority => HoldReason::Priority,
        EvictionRule::Reclaim => HoldReason::Reclaim,
        EvictionRule::ExpectedWork => HoldReason::ExpectedWork,
        EvictionRule::Consolidation => HoldReason::Consolidation,
    }
}
