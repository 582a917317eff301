//! The stories in `stories/`: each file has what happens and what the planner decides.

use std::fs;
use std::path::{Path, PathBuf};

/// Plays each story and compares. With `STORY=deadline` it plays only the stories whose names contain that. With
/// `UPDATE_STORIES=1` it writes what came out instead, to be read in the diff.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads its files")]
fn every_story_goes_as_it_is_written() {
    let update = std::env::var("UPDATE_STORIES").is_ok_and(|value| value == "1");
    let mut different = Vec::new();
    let stories = match std::env::var("STORY") {
        Ok(name) => only(&name),
        Err(_) => stories(),
    };
    for path in stories {
        let written = fs::read_to_string(&path).unwrap();
        let played = match simulator::stories::play(&written) {
            Ok(played) => played,
            Err(error) => panic!("{}, {error}", path.display()),
        };
        if played != written {
            if update {
                fs::write(&path, &played).unwrap();
            }
            different.push(format!("{}:\n{}", path.display(), difference(&written, &played)));
        }
    }
    assert!(
        different.is_empty() || update,
        "stories went otherwise; if that is right, UPDATE_STORIES=1 writes them anew\n{}",
        different.join("\n")
    );
}

fn stories() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../stories");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of stories exists")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|it| it == "story"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 8, "stories are missing: {paths:?}");
    paths
}

/// The stories whose names contain this.
fn only(name: &str) -> Vec<PathBuf> {
    let is_meant =
        |path: &PathBuf| path.file_stem().is_some_and(|stem| stem.to_string_lossy().contains(name));
    let meant: Vec<PathBuf> = stories().into_iter().filter(is_meant).collect();
    assert!(!meant.is_empty(), "no story is called {name:?}: see the folder `stories`");
    meant
}

/// The first lines that differ.
fn difference(written: &str, played: &str) -> String {
    let (mut a, mut b) = (written.lines(), played.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (a.next(), b.next()) {
            (None, None) => return String::new(),
            (x, y) if x == y => {}
            (x, y) => {
                return format!(
                    "line {number}\n  written: {}\n  played:  {}",
                    x.unwrap_or("-"),
                    y.unwrap_or("-")
                );
            }
        }
    }
}
