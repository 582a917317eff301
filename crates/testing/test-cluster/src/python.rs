//! The Python environment of the SDK for tests; `cargo xtask python` installs it.

use std::path::{Path, PathBuf};

use toolbox::python::{COMPLETE, interpreter, place};

use crate::Error;

/// The environment, installed.
pub fn environment() -> Result<PathBuf, Error> {
    let place = place()?;
    if place.join(COMPLETE).exists() { Ok(place) } else { Err(Error::NoPython { place }) }
}

/// Every folder of the environment, with links resolved: its own, and that of its interpreter, which may be
/// anywhere.
pub fn folders(environment: &Path) -> Result<Vec<PathBuf>, Error> {
    let resolve = |path: PathBuf| {
        path.canonicalize().map_err(|source| Error::Io { what: format!("find {}", path.display()), source })
    };
    let base = resolve(interpreter(environment))?;
    let prefix = base.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
    Ok(vec![resolve(environment.to_owned())?, prefix])
}
