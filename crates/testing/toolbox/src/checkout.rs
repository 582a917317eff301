//! The checkout that this was compiled from: developer tools never run without it.

use std::path::{Path, PathBuf};

/// The repository's root.
pub fn repository_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(3).expect("crates/testing/toolbox is three levels deep").to_owned()
}

/// Cargo's target folder of this checkout.
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository_root().join("target"), PathBuf::from)
}
