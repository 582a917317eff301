//! Behaviour of the cluster model: tables for what each change means, properties for any series of changes.

mod build;
mod find;
mod holds;
mod objects;
mod properties;
mod reasons;
mod saved;
mod steps;
mod tables;
mod take_up;
