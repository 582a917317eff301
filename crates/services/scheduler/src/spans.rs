//! Traces of decisions, for an OpenTelemetry collector: one for each plan that starts something.
//!
//! ```text
//!   plan ─┬─ bind (a pod: from sending it to knowing its outcome) ── bound (until the watch shows it)
//!         ├─ bind …
//! ```
//!
//! Spans are made when they are over, from times that the planning thread knows anyway. Nothing passes through
//! the binder, and without a collector nothing is done.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use cluster_apply::{BindOutcome, BindReport};
use cluster_model::PodKey;
use cluster_model::plan::Plan;
use opentelemetry::trace::{Span, SpanContext, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

/// The most pods that await their bind, and the most that await the watch. More binds are not traced. If too
/// many await the watch, all of those are forgotten: the watch will not show them. About 200 bytes each.
const AWAITED_MAX: usize = 16_384;

/// The planning thread's spans.
pub struct Spans {
    tracer: SdkTracer,
    planned: HashMap<PodKey, SpanContext>,
    bound: HashMap<PodKey, (SpanContext, SystemTime)>,
}

impl Spans {
    /// Makes spans with this provider; the caller shuts it down.
    pub fn new(provider: &SdkTracerProvider) -> Self {
        Self { tracer: provider.tracer("warpyard-scheduler"), planned: HashMap::new(), bound: HashMap::new() }
    }

    /// A plan was made just now.
    pub fn planned(&mut self, plan: &Plan, took: Duration) {
        if plan.placements.is_empty() && plan.evictions.is_empty() {
            return;
        }
        let now = SystemTime::now();
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let builder = self.tracer.span_builder("plan").with_start_time(now - took).with_attributes([
            KeyValue::new("warpyard.generation", i64::try_from(plan.generation).unwrap_or(i64::MAX)),
            KeyValue::new("warpyard.gangs_started", count(plan.placements.len())),
            KeyValue::new("warpyard.gangs_waiting", count(plan.waiting.len())),
            KeyValue::new("warpyard.gangs_evicted", count(plan.evictions.len())),
        ]);
        let mut span = self.tracer.build_with_context(builder, &Context::new());
        span.end_with_timestamp(now);
        let members = plan.placements.iter().flat_map(|placement| &placement.members);
        for member in members.take(AWAITED_MAX.saturating_sub(self.planned.len())) {
            self.planned.insert(member.pod.clone(), span.span_context().clone());
        }
    }

    /// The outcome of a bind is known; the watch may still have to show it.
    pub fn settled(&mut self, report: &BindReport, is_awaited: bool) {
        let Some(plan) = self.planned.remove(&report.pod) else { return };
        let now = SystemTime::now();
        let attributes = [
            KeyValue::new("k8s.namespace.name", report.pod.namespace.to_string()),
            KeyValue::new("k8s.pod.name", report.pod.name.to_string()),
            KeyValue::new("k8s.node.name", report.node.to_string()),
            KeyValue::new("warpyard.outcome", report.outcome.as_str()),
        ];
        let builder =
            self.tracer.span_builder("bind").with_start_time(now - report.took).with_attributes(attributes);
        let mut span = self.tracer.build_with_context(builder, &parent(plan));
        span.end_with_timestamp(now);
        let bind = (span.span_context().clone(), now);
        if !is_awaited && report.outcome == BindOutcome::Bound {
            // The watch was faster than the answer.
            self.bound(bind);
        } else if is_awaited {
            if self.bound.len() >= AWAITED_MAX {
                self.bound.clear();
            }
            self.bound.insert(report.pod.clone(), bind);
        }
    }

    /// The watch shows a pod on its node.
    pub fn seen(&mut self, pod: &PodKey) {
        if let Some(bind) = self.bound.remove(pod) {
            self.bound(bind);
        }
    }

    /// The watch will not show it on its node any more.
    pub fn gone(&mut self, pod: &PodKey) {
        self.bound.remove(pod);
    }

    fn bound(&self, (bind, since): (SpanContext, SystemTime)) {
        let builder = self.tracer.span_builder("bound").with_start_time(since);
        self.tracer.build_with_context(builder, &parent(bind)).end();
    }
}

fn parent(span: SpanContext) -> Context {
    Context::new().with_remote_span_context(span)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster_apply::{BindOutcome, BindReport};
    use cluster_model::plan::{GangPlacement, MemberPlacement, Plan};
    use cluster_model::{GangKey, PodKey};
    use jiff::Timestamp;
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};

    use super::{AWAITED_MAX, Spans};

    const TOOK: Duration = Duration::from_millis(5);

    fn place<'a>(plan: &mut Plan, pods: impl IntoIterator<Item = &'a PodKey>) {
        let member =
            |pod: &PodKey| MemberPlacement { pod: pod.clone(), node: "n".into(), devices: Vec::new() };
        plan.placements.push(GangPlacement {
            gang: GangKey::new("ns", "g"),
            queue: "q".into(),
            run: None,
            members: pods.into_iter().map(member).collect(),
        });
    }

    fn report(pod: &PodKey) -> BindReport {
        BindReport { pod: pod.clone(), node: "n".into(), outcome: BindOutcome::Bound, took: TOOK }
    }

    #[test]
    fn a_plan_its_binds_and_their_sight_are_one_trace() {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let mut spans = Spans::new(&provider);
        let pod = PodKey::new("ns", "p", "u");
        let mut plan = Plan::empty(7, Timestamp::UNIX_EPOCH);
        spans.planned(&plan, Duration::from_millis(1));
        assert!(exporter.get_finished_spans().expect("spans").is_empty(), "it started nothing");
        place(&mut plan, [&pod]);
        spans.planned(&plan, Duration::from_millis(1));
        spans.settled(&report(&pod), true);
        spans.seen(&pod);
        spans.seen(&pod);
        let made = exporter.get_finished_spans().expect("spans");
        let names: Vec<_> = made.iter().map(|span| span.name.as_ref()).collect();
        assert_eq!(names, ["plan", "bind", "bound"]);
        for (child, parent) in made.iter().skip(1).zip(&made) {
            assert_eq!(child.parent_span_id, parent.span_context.span_id());
            assert_eq!(child.span_context.trace_id(), parent.span_context.trace_id());
        }
        let length = made[1].end_time.duration_since(made[1].start_time).expect("it ends after it began");
        assert_eq!(length, TOOK);
    }

    #[test]
    fn pods_that_are_never_seen_on_their_node_keep_no_others_from_being_traced() {
        let mut spans = Spans::new(&SdkTracerProvider::builder().build());
        let pod = |number: usize| PodKey::new("ns", format!("p{number}"), "u");
        let bind = |spans: &mut Spans, pods: &[PodKey]| {
            let mut plan = Plan::empty(7, Timestamp::UNIX_EPOCH);
            place(&mut plan, pods);
            spans.planned(&plan, Duration::from_millis(1));
            for pod in pods {
                spans.settled(&report(pod), true);
            }
        };
        bind(&mut spans, &[pod(0)]);
        spans.gone(&pod(0));
        assert!(spans.bound.is_empty(), "it was deleted before it was seen");
        bind(&mut spans, &(0..AWAITED_MAX).map(pod).collect::<Vec<_>>());
        bind(&mut spans, &[pod(AWAITED_MAX)]);
        assert!(spans.bound.contains_key(&pod(AWAITED_MAX)));
        assert!(spans.bound.len() <= AWAITED_MAX);
    }
}
