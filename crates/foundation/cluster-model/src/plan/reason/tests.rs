use std::collections::BTreeSet;

use super::{Nature, WaitReason};

#[test]
fn every_reason_is_told_in_a_sentence_of_its_own_and_has_a_topic() {
    let examples = WaitReason::examples();
    let sentences: BTreeSet<_> = examples.iter().map(ToString::to_string).collect();
    assert_eq!(sentences.len(), WaitReason::CODES.len());
    for (reason, code) in examples.iter().zip(WaitReason::CODES) {
        assert_eq!(reason.code(), *code);
        assert!(!reason.topic().is_empty() && reason.topic() != reason.code(), "{code}");
        assert!(!reason.to_string().contains(code), "{code}: the sentence is for people");
    }
}

#[test]
fn every_number_has_a_label_of_its_own_and_a_unit() {
    for reason in WaitReason::examples() {
        let numbers = reason.numbers();
        let labels: BTreeSet<_> = numbers.iter().map(|number| number.label).collect();
        assert_eq!(labels.len(), numbers.len(), "{}", reason.code());
        assert!(numbers.iter().all(|number| !number.label.is_empty() && !number.unit.is_empty()));
    }
}

#[test]
fn only_reasons_about_a_queue_tell_of_its_use() {
    for reason in WaitReason::examples() {
        let tells = reason.numbers().iter().any(|number| number.of_queue);
        assert_eq!(tells, reason.over_quota().is_some(), "{}", reason.code());
        assert!(!tells || reason.about().queue.is_some(), "{}", reason.code());
    }
}

#[test]
fn what_is_short_of_quota_says_by_how_much_but_a_spent_budget() {
    for reason in WaitReason::examples() {
        let is_quota = reason.nature() == Nature::Quota && reason.topic() != "budget";
        assert_eq!(is_quota, reason.over_quota().is_some(), "{}", reason.code());
    }
}

#[test]
fn a_gang_in_the_way_is_named_in_the_sentence_so_that_it_can_be_hidden_there() {
    for reason in WaitReason::examples() {
        if let Some(gang) = reason.about().gang {
            assert!(reason.to_string().contains(&format!("gang {gang}")), "{}", reason.code());
            assert_eq!(reason.nature(), Nature::Order);
        }
    }
}

#[test]
fn no_trait_contradicts_the_nature() {
    for reason in WaitReason::examples() {
        let code = reason.code();
        assert!(!(reason.is_cured_by_machines() && reason.stands_beside_machines()), "{code}");
        assert!(!(reason.is_never() && reason.is_cured_by_machines()), "{code}");
        assert!(!reason.has_no_such_node() || reason.is_cured_by_machines(), "{code}");
        assert!(!reason.gives_precedence() || reason.nature() == Nature::Order, "{code}");
        assert!(!(reason.is_stuck() && reason.nature() == Nature::Coming), "{code}");
    }
}

#[test]
fn a_gang_at_its_maximum_waits_for_the_end_of_a_member_and_is_not_stuck() {
    assert!(!WaitReason::AtMembersMax { members_max: 8 }.is_stuck());
    assert!(WaitReason::Gated { members: 1 }.is_stuck());
}
