//! Writes files that only their owner may read.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::Error;

/// Writes a file of mode 0600; one that exists is replaced.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), Error> {
    let write = || {
        let _ = std::fs::remove_file(path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(content)
    };
    write().map_err(|source| Error::Io { what: format!("write {}", path.display()), source })
}

/// Creates a directory that only its owner may enter, and its parents.
pub fn create_dir(path: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| Error::Io { what: format!("create {}", path.display()), source })
}

/// A secret of 128 bits from the operating system, as 32 hexadecimal digits.
pub fn random_secret() -> Result<String, Error> {
    let mut bytes = [0_u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|source| Error::Io { what: "read /dev/urandom".into(), source })?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
