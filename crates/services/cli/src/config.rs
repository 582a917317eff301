//! The file that a login writes, which only its owner can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The server, the token and the namespace.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The server's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The token for that server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The default namespace of commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("server", &self.server)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// The file's place: `$XDG_CONFIG_HOME/warpyard/config.json`, else `~/.config/warpyard/config.json`.
pub fn path() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")))?;
    Some(base.join("warpyard").join("config.json"))
}

/// The config, or an empty one if there is no file.
pub fn load(path: &Path) -> io::Result<Config> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Config::default()),
        Err(error) => Err(error),
    }
}

/// Whether others than the owner can read the file.
pub fn is_exposed(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

/// Replaces the file atomically. From its first byte on, only its owner can read it.
pub fn save(path: &Path, config: &Config) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let written = write_private(&new, config).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn write_private(path: &Path, config: &Config) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&serde_json::to_vec_pretty(config)?)?;
    file.write_all(b"\n")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{Config, is_exposed, load, save};

    #[test]
    fn a_saved_login_is_read_back_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("warpyard/config.json");
        assert_eq!(load(&path).expect("no file is an empty config"), Config::default());
        let config = Config {
            server: Some("https://a".to_owned()),
            token: Some("secret".to_owned()),
            namespace: Some("nlp".to_owned()),
        };
        save(&path, &Config::default()).expect("saved");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
        assert!(is_exposed(&path));
        save(&path, &config).expect("saved again");
        assert_eq!(load(&path).expect("read"), config);
        assert!(!is_exposed(&path));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(path.parent().expect("folder")).expect("listed").count(),
            1,
            "no file is left over"
        );
    }

    #[test]
    fn a_token_is_not_printed_by_debug() {
        let config = Config { token: Some("secret".to_owned()), ..Config::default() };
        assert!(!format!("{config:?}").contains("secret"));
    }
}
