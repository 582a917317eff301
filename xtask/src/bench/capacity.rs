//! `cargo xtask bench capacity`: what decisions about machines must show, part by part.

use anyhow::bail;

use crate::commands::{self, cargo};

/// Something that is measured by itself, and prints its figures.
struct Part {
    name: &'static str,
    /// For `cargo`.
    arguments: &'static [&'static str],
}

const PARTS: &[Part] = &[
    // Random markets against a solver, and large ones against the clock.
    Part { name: "mix", arguments: &["run", "--release", "-p", "capacity", "--example", "mix"] },
];

/// Runs these parts, or all.
pub fn run(names: &[String]) -> anyhow::Result<()> {
    for part in chosen(names)? {
        commands::run_and_keep_figures(&mut cargo(part.arguments))?;
    }
    Ok(())
}

/// In the order of the table, however they were asked for.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Part>> {
    if let Some(unknown) = names.iter().find(|name| !PARTS.iter().any(|part| part.name == name.as_str())) {
        let all: Vec<_> = PARTS.iter().map(|part| part.name).collect();
        bail!("there is no part {unknown:?}\n\nhint: the parts are {}", all.join(", "));
    }
    let is_wanted = |part: &&Part| names.is_empty() || names.iter().any(|name| name == part.name);
    Ok(PARTS.iter().filter(is_wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::{PARTS, chosen};

    #[test]
    fn parts_are_chosen_by_name_or_all() {
        assert_eq!(chosen(&[]).unwrap().len(), PARTS.len());
        assert_eq!(chosen(&["mix".to_owned()]).unwrap()[0].name, "mix");
        let error = chosen(&["mox".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("\"mox\"") && error.contains("mix"), "{error}");
    }
}
