//! Every seeded bug applies to the code of today. `cargo xtask bugs`, which runs them, is no step of CI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolbox::checkout::repository_root;
use xtask::bugs::patch::git_apply;

#[test]
fn every_seeded_bug_applies() {
    let root = repository_root();
    let patches = patches(&root);
    assert!(patches.len() > 50, "only {} patches were found in folders tests/bugs/", patches.len());
    let stale: Vec<String> = patches.iter().filter_map(|patch| why_stale(&root, patch)).collect();
    assert!(
        stale.is_empty(),
        "{} of {} patches no longer apply, because the code that they change has changed:\n\n{}\n\
         Edit each patch so that it seeds the same bug in the new code: its first line says which bug. Lines of \
         code are better context than comments. Then run `cargo xtask bugs NAME` with a part of the patch's name.",
        stale.len(),
        patches.len(),
        stale.join("\n")
    );
}

#[test]
fn a_patch_for_other_code_is_stale_and_a_change_further_away_is_not() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("patches");
    fs::create_dir_all(&folder).expect("a folder for the test");
    let patch =
        "Two is three.\n\n--- a/it.rs\n+++ b/it.rs\n@@ -1,5 +1,5 @@\n // Zero.\n one\n-two\n+three\n four\n";
    fs::write(folder.join("it.patch"), patch).expect("a patch for the test");
    for (code, is_stale) in [
        ("// Zero.\none\ntwo\nfour\n", false),
        ("// Nothing.\none\ntwo\nfour\n", false),
        ("// Zero.\none\n2\nfour\n", true),
        ("// Zero.\n1\ntwo\nfour\n", true),
    ] {
        fs::write(folder.join("it.rs"), code).expect("code for the test");
        assert_eq!(why_stale(&folder, Path::new("it.patch")).is_some(), is_stale, "{code}");
    }
}

/// What git says about the patch, if it does not apply below the folder.
fn why_stale(folder: &Path, patch: &Path) -> Option<String> {
    let output = git_apply(folder, patch).arg("--check").output().expect("git is installed");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then(|| format!("{}\n{said}", patch.display()))
}

fn patches(root: &Path) -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--", "*/tests/bugs/*.patch"])
        .current_dir(root)
        .output()
        .expect("git lists the files");
    assert!(output.status.success(), "git ls-files failed");
    let paths = String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect::<Vec<_>>();
    // A file that was removed is listed until the removal is staged.
    paths.into_iter().filter(|path| root.join(path).exists()).collect()
}
