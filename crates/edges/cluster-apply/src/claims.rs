//! Karpenter's `NodeClaim`s: machines that are ordered and given back.
//!
//! ```text
//!   order ─► POST ─409: it was ordered before─► done
//!   give back ─► DELETE (404 is a success); an order that was not sent yet is forgotten
//!                   └409: Karpenter has begun with it meanwhile─► decided anew
//!   open ─► PATCH the node: remove the taint of the gang that has started on it
//! ```

use std::sync::Arc;
use std::time::Duration;

use api_types::names::SCHEDULER_FIELD_MANAGER;
use cluster_model::NodeName;
use http::Method;
use http::header::CONTENT_TYPE;
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::outcome::{Answer, answer};
use crate::pending::{Done, Pace, Paced};
use crate::writer::{Ends, Writer};
use crate::writes::{Fenced, Writes};

/// Writes of claims at a time. Karpenter gathers a batch for a second or more, and a gang's orders
/// should be in one batch.
const IN_FLIGHT_MAX: usize = 32;
/// A claim that was given back is deleted again only after this long. Every decision asks for the
/// deletion until the watch shows it, which takes seconds on a busy API server.
const AGAIN_AFTER: Duration = Duration::from_secs(15);
/// An order is remembered for this long, or until it is given back. By then the watch has shown the
/// claim, even if Karpenter deleted it because there was no such machine.
const ORDER_SEEN_AFTER: Duration = Duration::from_mins(10);
const CONTENT_JSON: &str = "application/json";
const CONTENT_JSON_PATCH: &str = "application/json-patch+json";

/// The object to write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Claim(Arc<str>),
    Node(NodeName),
}

#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    /// A claim with this manifest.
    Ordered(Arc<Json>),
    /// No such claim. If Karpenter had not begun with it, it is deleted only at this version.
    GivenBack { untouched: Option<String> },
    /// A node after this JSON patch.
    Patched(Arc<Json>),
}

impl Wanted {
    /// For how long the same is not written again.
    fn remembered_for(&self) -> Duration {
        match self {
            Self::Ordered(_) => ORDER_SEEN_AFTER,
            Self::GivenBack { .. } => AGAIN_AFTER,
            Self::Patched(_) => Duration::ZERO,
        }
    }
}

impl Paced for Wanted {
    fn pace(&self, old: &Self) -> Option<Pace> {
        let is_again = matches!((self, old), (Self::GivenBack { .. }, Self::GivenBack { .. }));
        (self != old && !is_again).then_some(Pace::NOW)
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Patched(_))
    }
}

/// Takes orders and writes them in the background. Clones share the queue.
#[derive(Clone)]
pub struct ClaimWriter(Writer<Object, Wanted>);

impl ClaimWriter {
    /// Starts writing.
    pub fn start(writes: Writes, fenced: Fenced) -> Self {
        let (stop, settled_after) = (CancellationToken::new(), writes.settled_after());
        let ends = Ends { fenced: fenced.clone(), stop: stop.clone(), settled_after };
        Self(Writer::start(IN_FLIGHT_MAX, ends, move |object, wanted| {
            let (writes, fenced, stop) = (writes.clone(), fenced.clone(), stop.clone());
            async move { write(&writes, &fenced, &stop, &object, wanted).await }
        }))
    }

    /// Begins no further write, and waits until those in flight are answered or their time is up.
    pub async fn stop(&self) {
        self.0.stop().await;
    }

    /// Orders a machine by the claim's manifest.
    pub fn order(&self, name: Arc<str>, manifest: Json) {
        self.submit(Object::Claim(name), Wanted::Ordered(Arc::new(manifest)));
    }

    /// Gives a machine back. `untouched` is the claim's version if Karpenter has not put its
    /// finalizer on it yet. The API server looks at finalizers before it deletes, and one that is
    /// added in between does not stop it. Karpenter would then launch a machine without a claim,
    /// and we would pay for it until Karpenter's garbage collection finds it.
    pub fn give_back(&self, name: Arc<str>, untouched: Option<String>) {
        self.0.change(|pending, now| {
            pending.forget_written(|written, at| now.duration_since(at) >= written.remembered_for());
            pending.submit(Object::Claim(name), Wanted::GivenBack { untouched }, now);
        });
    }

    /// Changes a node by a JSON patch.
    pub fn patch_node(&self, node: NodeName, patch: Json) {
        self.submit(Object::Node(node), Wanted::Patched(Arc::new(patch)));
    }

    fn submit(&self, object: Object, wanted: Wanted) {
        self.0.change(|pending, now| pending.submit(object, wanted, now));
    }
}

async fn write(
    writes: &Writes,
    fenced: &Fenced,
    stop: &CancellationToken,
    object: &Object,
    wanted: Wanted,
) -> Done {
    crate::failpoint!("before-claim");
    let answer = attempt(writes, object, &wanted).await;
    crate::failpoint!("after-claim");
    match answer {
        Answer::Done => {
            debug!(?object, "Wrote claim.");
            Done::Written
        }
        // It was ordered before, and the answer was lost.
        Answer::Conflict(_) if matches!(wanted, Wanted::Ordered(_)) => Done::Written,
        Answer::NotFound if !matches!(wanted, Wanted::Ordered(_)) => Done::Written,
        Answer::Conflict(message) if matches!(wanted, Wanted::GivenBack { .. }) => {
            debug!(?object, answer = message, "Karpenter has begun with the claim.");
            Done::Dropped
        }
        Answer::Fenced(message) => {
            warn!(?object, answer = message, "Claim refused by the fence.");
            fenced.report(&message);
            Done::Dropped
        }
        // The node has changed meanwhile: the next decision looks at it as it is now.
        Answer::Refused(message) | Answer::Conflict(message) if matches!(object, Object::Node(_)) => {
            debug!(?object, answer = message, "Node has changed.");
            Done::Dropped
        }
        Answer::NotFound => {
            warn!(?object, "There are no NodeClaims here: is Karpenter installed?");
            Done::Failed
        }
        Answer::Refused(message) | Answer::Conflict(message) => {
            warn!(?object, answer = message, "Claim refused.");
            Done::Failed
        }
        Answer::Throttled(patience, message) => {
            debug!(?object, answer = message, "Claim throttled.");
            let rest = tokio::time::sleep(patience.saturating_sub(Duration::from_secs(1)));
            stop.run_until_cancelled(rest).await;
            Done::Failed
        }
        Answer::Unknown(message) => {
            // Writing it again, or deleting it again, has the same effect.
            debug!(?object, answer = message, "Claim without a clear answer.");
            Done::Failed
        }
    }
}

async fn attempt(writes: &Writes, object: &Object, wanted: &Wanted) -> Answer {
    let query = format!("fieldManager={SCHEDULER_FIELD_MANAGER}&{}", writes.query());
    let claims = "/apis/karpenter.sh/v1/nodeclaims";
    let (method, content, path, body) = match (object, wanted) {
        (Object::Claim(_), Wanted::Ordered(manifest)) => {
            (Method::POST, CONTENT_JSON, format!("{claims}?{query}"), manifest.to_string())
        }
        (Object::Claim(name), wanted) => {
            let options = match wanted {
                Wanted::GivenBack { untouched: Some(version) } => delete_untouched(version).to_string(),
                _ => String::new(),
            };
            (Method::DELETE, CONTENT_JSON, format!("{claims}/{name}?{}", writes.query()), options)
        }
        (Object::Node(node), Wanted::Patched(patch)) => {
            (Method::PATCH, CONTENT_JSON_PATCH, format!("/api/v1/nodes/{node}?{query}"), patch.to_string())
        }
        (Object::Node(_), _) => return Answer::Done,
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, content)
        .body(body.into_bytes())
        .expect("names that the API server accepted make a valid URL");
    answer(&writes.send::<IgnoredAny>(request).await)
}

fn delete_untouched(version: &str) -> Json {
    json!({ "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": { "resourceVersion": version } })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;
    use serde_json::{Value, json};

    use super::ClaimWriter;
    use crate::testing::{FENCE, Script, status, writes};
    use crate::writes::Fenced;

    fn writer(script: Vec<(Method, u16, Value)>) -> (ClaimWriter, Script, Fenced) {
        let (writes, left) = writes(script);
        let fenced = Fenced::default();
        (ClaimWriter::start(writes, fenced.clone()), left, fenced)
    }

    async fn is_through(left: &Script) -> bool {
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if left.lock().expect("the script").is_empty() {
                return true;
            }
        }
        false
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_is_repeated_until_it_is_there_and_not_beyond() {
        for script in [
            vec![(Method::POST, 201, json!({}))],
            vec![(Method::POST, 500, status(500, "who knows")), (Method::POST, 409, status(409, "exists"))],
            vec![(Method::POST, 404, status(404, "no such kind")), (Method::POST, 201, json!({}))],
        ] {
            let (claims, left, _) = writer(script);
            claims.order("one".into(), json!({ "kind": "NodeClaim" }));
            assert!(is_through(&left).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_given_back_is_gone_even_if_it_never_came() {
        let (claims, left, _) = writer(vec![(Method::DELETE, 404, status(404, "gone"))]);
        claims.give_back("one".into(), None);
        assert!(is_through(&left).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_is_given_back_once_however_often_it_is_asked_for() {
        let (claims, left, _) = writer(vec![
            (Method::POST, 201, json!({})),
            (Method::DELETE, 200, json!({})),
            (Method::DELETE, 404, status(404, "asked for again")),
        ]);
        claims.order("one".into(), json!({ "kind": "NodeClaim" }));
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            claims.give_back("one".into(), None);
        }
        assert_eq!(left.lock().expect("the script").len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_is_forgotten_when_it_must_have_been_seen() {
        let (claims, left, _) = writer(vec![
            (Method::POST, 201, json!({})),
            (Method::DELETE, 200, json!({})),
            (Method::DELETE, 200, json!({})),
            (Method::POST, 409, status(409, "exists")),
        ]);
        let order = || claims.order("one".into(), json!({ "kind": "NodeClaim" }));
        order();
        for (minutes, another) in [(9, "two"), (2, "three")] {
            order();
            tokio::time::sleep(Duration::from_mins(minutes)).await;
            claims.give_back(another.into(), None);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(left.lock().expect("the script").len(), 1, "it was remembered for eleven minutes");
        order();
        assert!(is_through(&left).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_was_begun_with_meanwhile_is_given_back_when_it_is_asked_for_again() {
        let (claims, left, _) = writer(vec![
            (Method::DELETE, 409, status(409, "another version")),
            (Method::DELETE, 200, json!({})),
            (Method::DELETE, 404, status(404, "asked for again")),
        ]);
        let left = || left.lock().expect("the script").len();
        claims.give_back("one".into(), Some("7".to_owned()));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(left(), 2, "it is not tried again of itself");
        for _ in 0..10 {
            claims.give_back("one".into(), None);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(left(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_by_the_fence_is_reported() {
        let (claims, _left, fenced) = writer(vec![(Method::POST, 403, status(403, FENCE))]);
        claims.order("one".into(), json!({}));
        assert!(fenced.fenced().await.contains("not the leader"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_has_changed_is_looked_at_anew() {
        let (claims, left, _) = writer(vec![(Method::PATCH, 422, status(422, "test failed"))]);
        claims.patch_node("one".into(), json!([]));
        assert!(is_through(&left).await);
    }
}
