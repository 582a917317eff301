//! Metrics of the API: how many requests, how they ended, how long they took.

use std::time::Duration;

use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Clones share the numbers.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    latency: Family<RouteLabels, Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: String,
    route: String,
}

impl Metrics {
    /// Metrics that `registry` shows.
    pub fn new(registry: &mut Registry) -> Self {
        // 1 ms to 33 s in 16 doublings; a request takes at most 30 s.
        let histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let metrics = Self { requests: Family::default(), latency: Family::new_with_constructor(histogram) };
        registry.register("warpyard_api_requests", "Requests answered", metrics.requests.clone());
        registry.register_with_unit(
            "warpyard_api_request",
            "Time to answer a request",
            Unit::Seconds,
            metrics.latency.clone(),
        );
        metrics
    }

    /// Counts an answer. `route` is a pattern, so the labels are as many as the routes.
    pub fn answered(&self, method: &Method, route: &str, status: u16, took: Duration) {
        // Methods of one's own invention are one label.
        let method = match *method {
            Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE | Method::HEAD => {
                method.as_str()
            }
            _ => "other",
        };
        let (method, route) = (method.to_owned(), route.to_owned());
        self.requests
            .get_or_create(&RequestLabels { method: method.clone(), route: route.clone(), status })
            .inc();
        self.latency.get_or_create(&RouteLabels { method, route }).observe(took.as_secs_f64());
    }
}
