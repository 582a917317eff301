//! Traces to an OpenTelemetry collector, by OTLP over HTTP. Off unless an endpoint is given. A thread of the
//! SDK sends spans in batches. If the collector is away or slow, spans are dropped and nothing waits.

use std::time::Duration;

use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;

/// A collector answers in milliseconds.
const EXPORT_TIME_MAX: Duration = Duration::from_secs(5);

/// Why no traces are sent.
#[derive(Debug, thiserror::Error)]
#[error("cannot send traces to {endpoint}")]
pub struct Error {
    endpoint: String,
    #[source]
    source: ExporterBuildError,
}

/// A provider of tracers. Its shutdown sends the spans that still wait. `endpoint` is the collector's base
/// address, such as `http://127.0.0.1:4318`.
pub fn provider(endpoint: &str, service: &str) -> Result<SdkTracerProvider, Error> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_timeout(EXPORT_TIME_MAX)
        .build()
        .map_err(|source| Error { endpoint: endpoint.to_owned(), source })?;
    let resource = Resource::builder().with_service_name(service.to_owned()).build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}
