//! The parts of `cargo xtask`: one module per verb. A library only so that `tests/tidy.rs` can see what is
//! generated.

pub mod bench;
pub mod bugs;
pub mod ci;
pub mod codegen;
pub mod commands;
pub mod deny;
pub mod dev;
pub mod e2e;
pub mod engine;
pub mod experiments;
pub mod packages;
pub mod portal;
pub mod python;
pub mod quickstart;
