//! A planner whose API server never answers, for tests.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster_apply::{Binder, EventWriter, Evictor, Fenced, HoldWriter, StatusWriter, Writes};
use cluster_model::{Change, GangKey, Node, Pod, PodKey, Resources};
use kube::client::Body;
use placement::Policy;
use tokio::sync::mpsc;

use super::{Outputs, Planner, Settings};
use crate::metrics::Metrics;
use crate::tell::learned::Teller;

/// It has an empty cluster, and decides as installed.
pub(super) fn planner() -> Planner {
    planner_and_requests().0
}

/// The gang of two of [`member`].
pub(super) fn pair() -> GangKey {
    GangKey::new("ns", "gang")
}

/// A member of a gang of two that waits.
pub(super) fn member(name: &str) -> Pod {
    Pod { gang_size: Some(2), ..Pod::new(PodKey::new("ns", name, name), pair()) }
}

/// It knows a gang of two: `first` is on `node`, `rest` waits.
pub(super) fn planner_of_a_gang_in_part() -> Planner {
    let mut planner = planner();
    let allocatable = Resources { pods: 10, ..Resources::default() };
    planner.state.apply(Change::Node(Node { allocatable, ..Node::new("node") }));
    planner.state.apply(Change::Pod(Pod { node: Some("node".into()), ..member("first") }));
    planner.state.apply(Change::Pod(member("rest")));
    planner
}

/// The same as [`planner`], and how many requests the API server got.
pub(super) fn planner_and_requests() -> (Planner, Arc<AtomicUsize>) {
    let requests = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&requests);
    let service = tower::service_fn(move |_: http::Request<Body>| {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<Result<http::Response<Body>, Infallible>>()
    });
    let writes = Writes::new(kube::Client::new(service, "default"), Duration::from_secs(4));
    let status = StatusWriter::start(writes.clone(), Fenced::default());
    let (reports, _) = mpsc::unbounded_channel();
    let binder = Binder::start(writes.clone(), 1, status.clone(), Fenced::default(), reports);
    let holds = HoldWriter::start(writes.clone(), Fenced::default());
    let (evictions, _) = mpsc::unbounded_channel();
    let events = EventWriter::start(writes.clone(), Fenced::default(), String::new());
    let evictor = Evictor::start(writes, holds.clone(), Fenced::default(), evictions);
    let (questions, _) = mpsc::unbounded_channel();
    let (metrics, _) = Metrics::new();
    let outputs = Outputs {
        binder,
        evictor,
        holds,
        machines: None,
        events,
        epoch: 1,
        status,
        questions,
        metrics,
        teller: Teller::new(Arc::default()),
        record: None,
        spans: None,
    };
    let settings = Settings { policy: Policy::installed(), unwind_after: Duration::from_secs(45) };
    (Planner::new(settings, outputs), requests)
}
