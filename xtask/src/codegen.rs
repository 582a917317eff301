//! `cargo xtask codegen`: builds and runs `generated-files`, which generates files from the code.

use crate::{builds, commands};

/// Writes every generated file that is not fresh.
pub fn write_all() -> anyhow::Result<()> {
    builds::build(&["--bin=generated-files", "--test=fresh"])?;
    commands::run(&mut builds::program("generated-files"))
}
