//! Named cases: each once showed a disagreement, and describes it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::case::{Case, Judged};

/// A case with an explanation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// What was wrong, and how upstream sees it.
    pub why: String,
    /// The case as it was generated, before the API server's defaults.
    pub given: Case,
    /// Upstream's answer.
    pub judged: Judged,
}

impl Named {
    /// Reads a case.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("cannot understand {}", path.display()))
    }

    /// Writes it in a readable form.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The named cases of this crate, in order of their names.
pub fn files() -> anyhow::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|it| it == "json"));
    files.sort();
    Ok(files)
}
