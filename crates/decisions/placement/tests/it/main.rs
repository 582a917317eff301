//! Behaviour of the planner: tables for each rule, properties for any cluster.

mod agree;
mod build;
mod cases;
mod closed_loop;
mod consolidate;
mod deadlines;
mod evict;
mod evict_oracle;
mod fairness;
mod local;
mod near;
mod oracle;
mod order;
mod outruns;
mod properties;
mod search;
mod tables;
mod tidy;
