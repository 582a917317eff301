//! Behaviour of the planner: tables for each rule, properties for any cluster.

mod build;
mod properties;
mod tables;
