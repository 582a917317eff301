//! The parts of a benchmark, which people name.

use anyhow::bail;

/// Fails if one of these names is no part.
pub fn check(names: &[String], all: &[&str]) -> anyhow::Result<()> {
    if let Some(unknown) = names.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("there is no part {unknown:?}\n\nhint: the parts are {}", all.join(", "));
    }
    Ok(())
}
