//! Figures: every number the project claims is printed as `figure <id> <value> <unit>` by the command that
//! measured it, and kept in `target/figures/<id>.json`.

use std::fs;

use serde_json::json;

use crate::checkout::target_folder;

/// Prints a figure and writes its file. `reference` names what it was measured against in the same run.
pub fn print(id: &str, value: f64, unit: &str, reference: &str) {
    let rounded = (value * 1_000.0).round() / 1_000.0;
    println!("figure {id} {rounded} {unit}  ({reference})");
    let figure = json!({ "id": id, "reference": reference, "unit": unit, "value": rounded });
    let folder = target_folder().join("figures");
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join(format!("{id}.json")), format!("{figure:#}\n")));
    if let Err(error) = written {
        eprintln!("failed to write figure {id} below {}: {error}", folder.display());
    }
}

/// A count, as a figure's value.
pub fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Writes the file of the figure that another program printed on this line; returns whether there was one. For
/// scripts and tests that do not know the folder.
pub fn keep(line: &str) -> bool {
    let figure = parse(line);
    if let Some((id, value, unit, reference)) = figure {
        print(id, value, unit, reference);
    }
    figure.is_some()
}

/// The last printed value of a figure; `None` if it was never printed.
pub fn read(id: &str) -> Option<f64> {
    let text = fs::read_to_string(target_folder().join("figures").join(format!("{id}.json"))).ok()?;
    serde_json::from_str::<serde_json::Value>(&text).ok()?["value"].as_f64()
}

/// Test runners put other words before a figure on the same line.
fn parse(line: &str) -> Option<(&str, f64, &str, &str)> {
    let (_, figure) = line.rsplit_once("figure ")?;
    let (id, rest) = figure.split_once(' ')?;
    let (value, rest) = rest.split_once(' ')?;
    let (unit, reference) = rest.split_once("  (").unwrap_or((rest, ")"));
    Some((id, value.parse().ok()?, unit.trim(), reference.strip_suffix(')')?))
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
