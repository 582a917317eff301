//! The stories in `scenarios/`: each file holds what happens and what the planner makes of it.

use std::fs;
use std::path::{Path, PathBuf};

/// Plays each story and compares. With `UPDATE_SCENARIOS=1` it writes what came out instead, to be read in the diff.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads its files")]
fn every_story_goes_as_it_is_written() {
    let update = std::env::var("UPDATE_SCENARIOS").is_ok_and(|value| value == "1");
    let mut different = Vec::new();
    let stories = stories();
    assert!(stories.len() >= 8, "stories are missing: {stories:?}");
    for path in stories {
        let written = fs::read_to_string(&path).unwrap();
        let played = match simulator::scenario::play(&written) {
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
        "stories went otherwise; if that is right, UPDATE_SCENARIOS=1 writes them anew\n{}",
        different.join("\n")
    );
}

fn stories() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of stories exists")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|it| it == "story"))
        .collect();
    paths.sort();
    paths
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
