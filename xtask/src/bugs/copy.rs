//! The scratch copy of the checkout in which patches are tried.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;

/// These crates and what they need are copied, …
const PACKAGES: [&str; 5] = ["placement", "filter-fuzz", "effects-check", "capacity", "controllers"];
/// … without these dependencies, which no case needs.
const SLOW: [&str; 2] = ["criterion", "proptest"];

/// The crates that the cases need, and where they are copied.
pub(super) struct Copy {
    root: PathBuf,
    /// The copy itself.
    pub(super) scratch: PathBuf,
    /// Where each crate is, below the root.
    crates: BTreeMap<String, PathBuf>,
}

impl Copy {
    pub(super) fn new(root: &Path, scratch: &Path) -> anyhow::Result<Self> {
        let workspace = fs::read_to_string(root.join("Cargo.toml")).context("failed to read Cargo.toml")?;
        let mut crates = BTreeMap::new();
        let mut open = PACKAGES.map(ToOwned::to_owned).to_vec();
        while let Some(name) = open.pop() {
            let folder = folder_of(&workspace, &name).with_context(|| format!("Cargo.toml has no {name}"))?;
            let manifest = root.join(&folder).join("Cargo.toml");
            let manifest = fs::read_to_string(&manifest)
                .with_context(|| format!("failed to read {}", manifest.display()))?;
            let named = manifest.lines().filter_map(|line| line.split_once(".workspace").map(|it| it.0));
            let ours = named.filter(|name| folder_of(&workspace, name).is_some());
            open.extend(ours.map(ToOwned::to_owned).filter(|name| !crates.contains_key(name)));
            crates.insert(name, folder);
        }
        Ok(Self { root: root.to_owned(), scratch: scratch.to_owned(), crates })
    }

    /// Resets the copy to the checkout. Only files that differ are written, so that little is built again.
    pub(super) fn refresh(&self) -> anyhow::Result<()> {
        let workspace = fs::read_to_string(self.root.join("Cargo.toml"))?;
        let rest = workspace.find("[workspace.package]").context("Cargo.toml has no [workspace.package]")?;
        let members: Vec<String> =
            self.crates.values().map(|folder| format!("\"{}\"", folder.display())).collect();
        let manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n{}",
            members.join(", "),
            &workspace[rest..]
        );
        write(&self.scratch.join("Cargo.toml"), manifest.as_bytes())?;
        if !self.scratch.join("Cargo.lock").exists() {
            write(&self.scratch.join("Cargo.lock"), &fs::read(self.root.join("Cargo.lock"))?)?;
        }
        for part in self.crates.values() {
            for folder in ["src", "tests", "examples", "cases", "migrations"] {
                let folder = part.join(folder);
                if self.root.join(&folder).exists() {
                    mirror(&self.root.join(&folder), &self.scratch.join(&folder))?;
                }
            }
            let manifest = fs::read_to_string(self.root.join(part).join("Cargo.toml"))?;
            write(&self.scratch.join(part).join("Cargo.toml"), Self::manifest(&manifest).as_bytes())?;
        }
        Ok(())
    }

    /// Without what only tests and benchmarks need: it would take longer to build than all the rest.
    fn manifest(manifest: &str) -> String {
        let mut section = "";
        let mut kept = String::new();
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let is_slow = SLOW.iter().any(|name| line.starts_with(&format!("{name}.workspace")));
            if section != "[[bench]]" && !is_slow {
                kept.push_str(line);
                kept.push('\n');
            }
        }
        kept
    }
}

/// The folder of a crate of ours, from the workspace's table of dependencies.
fn folder_of(workspace: &str, name: &str) -> Option<PathBuf> {
    let (_, rest) = workspace.split_once(&format!("\n{name} = {{ path = \""))?;
    Some(PathBuf::from(rest.split_once('"')?.0))
}

/// Copies a folder, and removes files that are not in it.
fn mirror(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("failed to create {}", to.display()))?;
    let names = |folder: &Path| -> anyhow::Result<BTreeSet<_>> {
        let entries = fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?;
        Ok(entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?)
    };
    let wanted = names(from)?;
    for name in names(to)?.difference(&wanted) {
        let stale = to.join(name);
        if stale.is_dir() { fs::remove_dir_all(&stale) } else { fs::remove_file(&stale) }
            .with_context(|| format!("failed to remove {}", stale.display()))?;
    }
    for name in &wanted {
        let (from, to) = (from.join(name), to.join(name));
        if from.is_dir() {
            mirror(&from, &to)?;
        } else {
            write(&to, &fs::read(&from).with_context(|| format!("failed to read {}", from.display()))?)?;
        }
    }
    Ok(())
}

pub(super) fn write(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|old| old == contents) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    }
    fs::write(path, contents).with_context(|| format!("failed to write {}", path.display()))
}
