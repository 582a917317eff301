//! Holds against a scripted API server, on a clock that jumps.

use std::time::Duration;

use cluster_convert::hold_spec;
use cluster_model::GangKey;
use cluster_model::plan::{EvictionRule, HoldRecord, VictimRecord};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::HoldWriter;
use crate::testing::{FENCE, Script, status, writes};
use crate::writes::Fenced;

fn gang() -> GangKey {
    GangKey::new("ns", "claimant")
}

fn hold() -> HoldRecord {
    HoldRecord {
        gang: gang(),
        rule: Some(EvictionRule::Reclaim),
        members: Vec::new(),
        victims: Vec::new(),
        expires: Timestamp::UNIX_EPOCH,
    }
}

fn writer(script: Vec<(Method, u16, Value)>) -> (HoldWriter, Script, Fenced) {
    let (writes, left) = writes(script);
    let fenced = Fenced::default();
    (HoldWriter::start(writes, 1, fenced.clone()), left, fenced)
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_written_whatever_the_server_says_first_and_only_then_is_it_there() {
    for script in [
        vec![(Method::POST, 201, json!({}))],
        vec![(Method::POST, 409, status(409, "exists")), (Method::PATCH, 200, json!({}))],
        vec![
            (Method::POST, 500, status(500, "who knows")),
            (Method::POST, 409, status(409, "exists")),
            (Method::PATCH, 200, json!({})),
        ],
        vec![(Method::POST, 429, status(429, "later")), (Method::POST, 201, json!({}))],
    ] {
        let (holds, left, _) = writer(script);
        holds.write(hold());
        assert!(holds.is_written(&gang(), Timestamp::UNIX_EPOCH).await);
        assert!(left.lock().expect("the script").is_empty(), "it was there too early");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_hold_that_is_taken_back_learns_it() {
    let refused = (0..8).map(|_| (Method::POST, 403, status(403, "no right"))).collect();
    let (holds, _left, _) = writer(refused);
    holds.write(hold());
    let waits = holds.clone();
    let waiting = tokio::spawn(async move { waits.is_written(&gang(), Timestamp::UNIX_EPOCH).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!waiting.is_finished(), "nobody knows yet");
    holds.delete(&gang());
    assert!(!waiting.await.expect("no panic"));
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_gone_already_needs_no_deletion() {
    let (holds, left, _) = writer(vec![(Method::DELETE, 404, status(404, "gone"))]);
    holds.delete(&gang());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(left.lock().expect("the script").is_empty());
    assert!(!holds.is_written(&gang(), Timestamp::UNIX_EPOCH).await);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_fence_refuses_says_that_we_do_not_lead() {
    let (holds, _left, fenced) = writer(vec![(Method::POST, 422, status(422, FENCE))]);
    holds.write(hold());
    assert_eq!(fenced.fenced().await, FENCE);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_hold_is_not_served_by_the_next_one() {
    let (holds, _left, _) = writer(vec![(Method::POST, 201, json!({}))]);
    let later = Timestamp::from_second(60).expect("in range");
    holds.write(HoldRecord { expires: later, ..hold() });
    assert!(!holds.is_written(&gang(), Timestamp::UNIX_EPOCH).await, "another one is wanted");
    assert!(holds.is_written(&gang(), later).await);
}

#[test]
fn a_hold_that_replaces_another_leaves_nothing_of_it() {
    let members = vec![("uid".into(), "node".into())];
    let victims = vec![VictimRecord { gang: GangKey::new("ns", "victim"), pods: vec!["old".into()] }];
    let body = |record: &HoldRecord| super::body("name", &hold_spec(record, 1));
    let before = body(&HoldRecord { members, victims, ..hold() });
    let after = body(&hold());
    assert_eq!(after["spec"]["victims"], json!([]));
    // A merge patch changes only the fields that it names.
    let fields = |body: &Value| body["spec"].as_object().expect("a spec").keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&after), fields(&before));
}
