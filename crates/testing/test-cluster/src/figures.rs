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

/// How many, as a figure's value.
pub fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Keeps the figure that another program printed on this line, if there is one, and says whether there was: for
/// scripts and tests that can print but know nothing of the folder.
pub fn keep(line: &str) -> bool {
    let figure = parse(line);
    if let Some((id, value, unit, reference)) = figure {
        print(id, value, unit, reference);
    }
    figure.is_some()
}

/// Test runners put other words before a figure on the same line.
fn parse(line: &str) -> Option<(&str, f64, &str, &str)> {
    let (_, figure) = line.rsplit_once("figure ")?;
    let (id, rest) = figure.split_once(' ')?;
    let (value, rest) = rest.split_once(' ')?;
    let (unit, reference) = rest.split_once("  (").unwrap_or((rest, ")"));
    Some((id, value.parse().ok()?, unit.trim(), reference.strip_suffix(')')?))
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
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| crate::engine_bin::workspace_root().join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_figure_is_found_behind_the_words_of_a_test_runner() {
        let figure = Some(("ledger.mismatches", 0.0, "lines", "bar: 0"));
        assert_eq!(parse("figure ledger.mismatches 0 lines  (bar: 0)"), figure);
        assert_eq!(parse("test a::b ... figure ledger.mismatches 0 lines  (bar: 0)"), figure);
        assert_eq!(parse("figure a.b 1.5 ms"), Some(("a.b", 1.5, "ms", "")));
        assert_eq!(parse("go figure what this is"), None);
    }
}
