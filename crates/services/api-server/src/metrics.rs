//! Metrics of the API: the number of requests, their results, their times.

use std::time::Duration;

use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use service_kit::metric_table::{MetricEntry, MetricKind, MetricTable};

const METHOD: (&str, &str) = ("method", "`GET`, `POST`, …; others are `other`");
const ROUTE: (&str, &str) = ("route", "the pattern of the path");

/// All metrics.
pub const TABLE: MetricTable = MetricTable {
    prefix: "warpyard_api",
    entries: &[
        MetricEntry::new("requests", MetricKind::Counter, "Requests answered").labels(&[
            METHOD,
            ROUTE,
            ("status", "the HTTP status"),
        ]),
        MetricEntry::new("request_seconds", MetricKind::Histogram, "Time to answer a request")
            .labels(&[METHOD, ROUTE]),
    ],
};

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
        registry.register("warpyard_api_requests", TABLE.help("requests"), metrics.requests.clone());
        registry.register_with_unit(
            "warpyard_api_request",
            TABLE.help("request_seconds"),
            Unit::Seconds,
            metrics.latency.clone(),
        );
        metrics
    }

    /// Counts an answer. `route` is a pattern, so the labels are as many as the routes.
    pub fn answered(&self, method: &Method, route: &str, status: u16, took: Duration) {
        // All unknown methods share one label.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;
    use prometheus_client::registry::Registry;

    use super::{Metrics, TABLE};

    #[test]
    fn the_table_names_every_metric_of_the_registry_and_no_other() {
        let mut registry = Registry::default();
        Metrics::new(&mut registry).answered(&Method::GET, "/v1/runs", 200, Duration::from_millis(3));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
        assert_eq!(TABLE.differences(&text), Vec::<String>::new());
    }
}
