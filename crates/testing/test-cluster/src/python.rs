//! Where the Python environment of the SDK is: `cargo xtask python` installs it, tests only use it.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{Error, engine_bin};

/// Names the finished environment: without it, whatever is there was never completed.
pub const COMPLETE: &str = "complete";

/// The SDK in this checkout.
pub fn sdk() -> PathBuf {
    engine_bin::workspace_root().join("sdk/python")
}

/// Where the environment belongs, whether it is there or not: its name tells what is in it.
pub fn place() -> Result<PathBuf, Error> {
    let requirements = sdk().join("requirements.txt");
    let pins = fs::read(&requirements)
        .map_err(|source| Error::Io { what: format!("read {}", requirements.display()), source })?;
    let digest = Sha256::digest(&pins);
    let hash = digest.iter().take(8).fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
    let engine = engine_bin::cache_dir()?;
    Ok(engine.parent().unwrap_or(Path::new("/")).join("python").join(format!("{hash:016x}")))
}

/// The environment, installed.
pub fn environment() -> Result<PathBuf, Error> {
    let place = place()?;
    if place.join(COMPLETE).exists() { Ok(place) } else { Err(Error::NoPython { place }) }
}

/// The interpreter of an environment.
pub fn interpreter(environment: &Path) -> PathBuf {
    environment.join("bin/python")
}

/// Every folder that the environment is spread over, links followed: its own, and that of the interpreter it was made
/// with, which may be anywhere.
pub fn folders(environment: &Path) -> Result<Vec<PathBuf>, Error> {
    let resolve = |path: PathBuf| {
        path.canonicalize().map_err(|source| Error::Io { what: format!("find {}", path.display()), source })
    };
    let base = resolve(interpreter(environment))?;
    let prefix = base.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
    Ok(vec![resolve(environment.to_owned())?, prefix])
}
