//! Figures: every number the project claims is printed as `figure <id> <value> <unit>` by the command that
//! measured it, and kept in `target/figures/<id>.json`.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

/// Prints a figure and writes its file. `reference` says what it was measured against in the same run.
pub fn print(id: &str, value: f64, unit: &str, reference: &str) {
    let rounded = (value * 1_000.0).round() / 1_000.0;
    println!("figure {id} {rounded} {unit}  ({reference})");
    let figure = Figure { id, value: rounded, unit, reference };
    let folder = target_folder().join("figures");
    let written = fs::create_dir_all(&folder).and_then(|()| {
        let json = serde_json::to_string_pretty(&figure).expect("a figure is plain data");
        fs::write(folder.join(format!("{id}.json")), json + "\n")
    });
    if let Err(error) = written {
        eprintln!("failed to write figure {id} below {}: {error}", folder.display());
    }
}

#[derive(Serialize)]
struct Figure<'a> {
    id: &'a str,
    value: f64,
    unit: &'a str,
    reference: &'a str,
}

/// Cargo's target folder of this checkout.
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || {
            let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
            crates.ancestors().nth(2).expect("the crate lies in crates/").join("target")
        },
        PathBuf::from,
    )
}
