//! A dispatcher whose API server never answers, for tests.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster_apply::{EffectWriter, Fenced, Reports, StatusWriter, WriterSettings, Writes};
use cluster_model::{ClusterChange, GangKey, Node, Pod, PodKey, Resources};
use kube::client::Body;
use placement::Policy;
use tokio::sync::mpsc;

use super::{Dispatcher, Lag, Observers, Outbox, Settings};
use crate::metrics::Metrics;
use crate::tell::learned::Teller;

/// A dispatcher with an empty cluster and the installed policy.
pub(super) fn dispatcher() -> Dispatcher {
    dispatcher_and_requests().0
}

/// The gang of two of [`member`].
pub(super) fn pair() -> GangKey {
    GangKey::new("ns", "gang")
}

/// A member of a gang of two that waits.
pub(super) fn member(name: &str) -> Pod {
    Pod { gang_size: Some(2), ..Pod::new(PodKey::new("ns", name, name), pair()) }
}

/// A dispatcher with a gang of two: `first` is on `node`, `rest` waits.
pub(super) fn dispatcher_of_a_gang_in_part() -> Dispatcher {
    let mut dispatcher = dispatcher();
    let allocatable = Resources { pods: 10, ..Resources::default() };
    dispatcher.state.apply(ClusterChange::Node(Node { allocatable, ..Node::new("node") }));
    dispatcher.state.apply(ClusterChange::Pod(Pod { node: Some("node".into()), ..member("first") }));
    dispatcher.state.apply(ClusterChange::Pod(member("rest")));
    dispatcher
}

/// The same as [`dispatcher`], and how many requests the API server got.
pub(super) fn dispatcher_and_requests() -> (Dispatcher, Arc<AtomicUsize>) {
    let requests = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&requests);
    let service = tower::service_fn(move |_: http::Request<Body>| {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<Result<http::Response<Body>, Infallible>>()
    });
    let writes = Writes::new(kube::Client::new(service, "default"), Duration::from_secs(4));
    let (binds, _) = mpsc::unbounded_channel();
    let (evictions, _) = mpsc::unbounded_channel();
    let leader = WriterSettings { epoch: 1, instance: String::new(), binds_in_flight_max: 1 };
    let fenced = Fenced::default();
    let status = StatusWriter::start(writes.clone(), fenced.clone());
    let effects = EffectWriter::start(&writes, leader, status.clone(), &fenced, Reports { binds, evictions });
    let (questions, _) = mpsc::unbounded_channel();
    let outbox = Outbox { effects, status, machines: None, questions };
    let observers = Observers {
        metrics: Metrics::new().0,
        teller: Teller::new(Arc::default()),
        record: None,
        spans: None,
        lag: Lag::default(),
        measured: None,
    };
    let settings =
        Settings { policy: Policy::installed(), unwind_after: Duration::from_secs(45), buys_machines: false };
    (Dispatcher::new(settings, observers, outbox), requests)
}
