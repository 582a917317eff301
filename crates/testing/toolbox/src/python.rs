//! The place of the SDK's Python environment: `cargo xtask python` installs it, tests only use it.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::checkout::repository_root;
use crate::engine_bin::{self, Error};

/// The file that marks a complete environment.
pub const COMPLETE: &str = "complete";

/// The SDK in this checkout.
pub fn sdk() -> PathBuf {
    repository_root().join("sdk/python")
}

/// The folder of the environment, which may not exist yet: its name covers the content.
pub fn place() -> Result<PathBuf, Error> {
    let path = sdk().join("requirements.txt");
    let pins = fs::read(&path).map_err(|source| Error::Pins { path, source })?;
    let digest = Sha256::digest(&pins);
    let hash = digest.iter().take(8).fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
    let engine = engine_bin::cache_dir()?;
    Ok(engine.parent().unwrap_or(Path::new("/")).join("python").join(format!("{hash:016x}")))
}

/// The interpreter of an environment.
pub fn interpreter(environment: &Path) -> PathBuf {
    environment.join("bin/python")
}
