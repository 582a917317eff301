//! The Grafana dashboard of the scheduler, described once: `cargo xtask codegen` writes
//! `deploy/grafana/warpyard-scheduler.json`. A test checks that every metric it names exists.

use serde_json::{Value, json};

/// Two panels fill a row; a row of Grafana has 24 columns.
const WIDTH: u32 = 12;
const HEIGHT: u32 = 8;

/// One panel: its title, its unit, and what it draws (expression, legend).
struct Panel {
    title: &'static str,
    unit: &'static str,
    draws: &'static [(&'static str, &'static str)],
}

const PANELS: &[Panel] = &[
    Panel {
        title: "GPUs in use",
        unit: "percentunit",
        draws: &[(
            "sum by (gpu_type) (warpyard_scheduler_gpus_used) / sum by (gpu_type) (warpyard_scheduler_gpus)",
            "{{gpu_type}}",
        )],
    },
    Panel {
        title: "Free GPUs that no gang of whole nodes can use",
        unit: "short",
        draws: &[("sum by (gpu_type) (warpyard_scheduler_gpus_free_in_part)", "{{gpu_type}}")],
    },
    Panel {
        title: "Waiting gangs by reason",
        unit: "short",
        draws: &[("sum by (reason) (warpyard_scheduler_gangs_waiting)", "{{reason}}")],
    },
    Panel {
        title: "Gangs in part, and holds",
        unit: "short",
        draws: &[
            ("sum(warpyard_scheduler_gangs_in_part)", "in part"),
            ("sum(warpyard_scheduler_holds)", "holds"),
        ],
    },
    Panel {
        title: "GPUs of queues: held, and due by weight",
        unit: "short",
        draws: &[
            ("topk(20, sum by (queue) (warpyard_scheduler_queue_gpus_used))", "{{queue}} holds"),
            ("topk(20, sum by (queue) (warpyard_scheduler_queue_gpus_due))", "{{queue}} is due"),
        ],
    },
    Panel {
        title: "GPU time lost by evictions, per second",
        unit: "short",
        draws: &[("sum by (reason) (rate(warpyard_scheduler_evicted_gpu_seconds_total[5m]))", "{{reason}}")],
    },
    Panel {
        title: "Evictions per minute",
        unit: "short",
        draws: &[("60 * sum by (reason) (rate(warpyard_scheduler_evictions_total[5m]))", "{{reason}}")],
    },
    Panel {
        title: "Binds per second by outcome",
        unit: "ops",
        draws: &[("sum by (outcome) (rate(warpyard_scheduler_binds_total[1m]))", "{{outcome}}")],
    },
    Panel {
        title: "Time of a plan",
        unit: "s",
        draws: &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(warpyard_scheduler_plan_seconds_bucket[5m])))",
                "p50",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(warpyard_scheduler_plan_seconds_bucket[5m])))",
                "p99",
            ),
        ],
    },
    Panel {
        title: "Time of a bind, and until the watch shows it",
        unit: "s",
        draws: &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(warpyard_scheduler_bind_seconds_bucket[5m])))",
                "bind p50",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(warpyard_scheduler_bind_seconds_bucket[5m])))",
                "bind p99",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(warpyard_scheduler_watch_lag_seconds_bucket[5m])))",
                "watch p99",
            ),
        ],
    },
    Panel {
        title: "Watches: backlog, and errors per minute; forecasts that failed",
        unit: "short",
        draws: &[
            ("sum(warpyard_scheduler_watch_backlog)", "backlog"),
            ("60 * sum(rate(warpyard_scheduler_watch_errors_total[5m]))", "errors"),
            ("60 * sum(rate(warpyard_scheduler_watch_decode_errors_total[5m]))", "not decoded"),
            ("60 * sum(rate(warpyard_scheduler_forecast_panics_total[5m]))", "forecasts"),
            ("60 * sum(rate(warpyard_scheduler_plans_judged_total[5m]))", "judged plans"),
            ("60 * sum(rate(warpyard_scheduler_plans_wrong_total[5m]))", "wrong plans"),
        ],
    },
    Panel {
        title: "Bought machines, and how many are allowed",
        unit: "short",
        draws: &[
            (
                "sum by (machine_type, capacity_type) (warpyard_scheduler_machines)",
                "{{machine_type}} {{capacity_type}}",
            ),
            ("max(warpyard_scheduler_machines_most)", "allowed"),
        ],
    },
    Panel {
        title: "What bought machines cost per hour, and what is allowed",
        unit: "short",
        draws: &[
            ("sum(warpyard_scheduler_machines_per_hour)", "spent"),
            ("max(warpyard_scheduler_machines_per_hour_most)", "allowed"),
        ],
    },
    Panel {
        title: "Launches of machines per hour by outcome",
        unit: "short",
        draws: &[("3600 * sum by (outcome) (rate(warpyard_scheduler_launches_total[15m]))", "{{outcome}}")],
    },
    Panel {
        title: "Leaders, and their epoch",
        unit: "short",
        draws: &[
            ("sum(warpyard_scheduler_is_leader)", "leaders"),
            ("max(warpyard_scheduler_epoch)", "epoch"),
        ],
    },
];

/// The dashboard as Grafana imports it.
pub fn dashboard_json() -> String {
    let panels: Vec<Value> = (0..).zip(PANELS).map(|(number, panel)| panel.to_json(number)).collect();
    let dashboard = json!({
        "uid": "warpyard-scheduler",
        "title": "Warpyard scheduler",
        "description": "Generated by `cargo xtask codegen` from crates/services/scheduler/src/dashboard.rs.",
        "tags": ["warpyard"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "templating": { "list": [{
            "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus",
        }] },
        "panels": panels,
    });
    let mut text = serde_json::to_string_pretty(&dashboard).expect("a dashboard is JSON");
    text.push('\n');
    text
}

impl Panel {
    fn to_json(&self, number: u32) -> Value {
        let source = json!({ "type": "prometheus", "uid": "${datasource}" });
        let targets: Vec<Value> = ('A'..)
            .zip(self.draws)
            .map(|(letter, (expression, legend))| {
                json!({
                    "refId": letter.to_string(), "expr": expression, "legendFormat": legend, "datasource": source,
                })
            })
            .collect();
        json!({
            "id": number + 1,
            "type": "timeseries",
            "title": self.title,
            "datasource": source,
            "gridPos": { "x": number % 2 * WIDTH, "y": number / 2 * HEIGHT, "w": WIDTH, "h": HEIGHT },
            "fieldConfig": { "defaults": { "unit": self.unit, "min": 0 }, "overrides": [] },
            "targets": targets,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;
    use service_kit::metric_table::{MetricEntry, MetricKind};

    use super::{PANELS, dashboard_json};
    use crate::metrics::table::{PREFIX, TABLE};

    /// Names of metrics in an expression.
    fn named(expression: &str) -> impl Iterator<Item = &str> {
        expression
            .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .filter(|word| word.starts_with(PREFIX))
    }

    #[test]
    fn every_metric_that_is_drawn_exists_and_every_one_is_drawn() {
        let scraped = |entry: &MetricEntry| match entry.kind {
            MetricKind::Histogram => format!("{}_bucket", TABLE.full_name(entry)),
            _ => TABLE.full_name(entry),
        };
        let there: BTreeSet<String> = TABLE.entries.iter().map(scraped).collect();
        let drawn: BTreeSet<String> = PANELS
            .iter()
            .flat_map(|panel| panel.draws)
            .flat_map(|(expression, _)| named(expression))
            .map(str::to_owned)
            .collect();
        assert_eq!(drawn, there);
    }

    #[test]
    fn alerts_name_metrics_that_there_are() {
        let alerts: Value =
            serde_norway::from_str(include_str!("../../../../deploy/prometheus/alerts.yaml")).unwrap();
        let there: BTreeSet<String> = TABLE.entries.iter().map(|entry| TABLE.full_name(entry)).collect();
        let rules = alerts["groups"][0]["rules"].as_array().unwrap();
        assert!(rules.len() >= 4, "{rules:?}");
        for rule in rules {
            let named: Vec<&str> = named(rule["expr"].as_str().unwrap()).collect();
            assert!(!named.is_empty() && named.iter().all(|name| there.contains(*name)), "{rule}");
            assert!(rule["annotations"]["summary"].is_string(), "{rule}");
        }
    }

    #[test]
    fn legends_name_labels_that_there_are() {
        for (expression, legend) in PANELS.iter().flat_map(|panel| panel.draws) {
            let labels: Vec<&str> =
                legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()).collect();
            if labels.is_empty() {
                continue;
            }
            assert!(expression.contains(&format!("by ({})", labels.join(", "))), "{legend} of {expression}");
            for name in named(expression) {
                let mut entries = TABLE.entries.iter();
                let entry = entries.find(|entry| TABLE.full_name(entry) == name).expect("it exists");
                assert_eq!(entry.labels.iter().map(|(name, _)| *name).collect::<Vec<_>>(), labels, "{name}");
            }
        }
    }

    #[test]
    fn panels_do_not_overlap_and_have_numbers_of_their_own() {
        let dashboard: serde_json::Value = serde_json::from_str(&dashboard_json()).expect("it is JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let places: BTreeSet<String> = panels.iter().map(|panel| panel["gridPos"].to_string()).collect();
        let numbers: BTreeSet<String> = panels.iter().map(|panel| panel["id"].to_string()).collect();
        assert_eq!((places.len(), numbers.len()), (PANELS.len(), PANELS.len()));
    }
}
