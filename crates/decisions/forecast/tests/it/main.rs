//! Small clusters, worked out by hand.

mod build;
mod changes;
mod eta;
mod position;
