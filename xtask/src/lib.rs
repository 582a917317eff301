//! The parts of `cargo xtask`: one module per verb. It links no crate of the product, so that it compiles in
//! seconds. Work that needs one is a program of its own, which a verb builds and starts (`dev-platform`,
//! `generated-files`). It is a library so that `dev-platform` reads the same arguments as the verb.

pub mod bench;
pub mod bugs;
pub mod builds;
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
