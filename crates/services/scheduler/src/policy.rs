//! The policy that this scheduler decides by: as installed, or from a file. Read once, at the start.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use placement::{Policy, policies};
use serde::Deserialize;

/// Where a file starts from unless it says otherwise.
const BASE: &str = "installed";

/// A value as it is written in the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Bool(bool),
    Number(u64),
    Text(String),
}

impl From<Scalar> for String {
    fn from(value: Scalar) -> Self {
        match value {
            Scalar::Bool(value) => value.to_string(),
            Scalar::Number(value) => value.to_string(),
            Scalar::Text(text) => text,
        }
    }
}

/// The policy in the file, or the installed one. Every gang that waits gets its reasons in any case.
pub fn read(file: Option<&Path>) -> anyhow::Result<Policy> {
    let Some(file) = file else { return Ok(Policy::installed()) };
    let text =
        fs::read_to_string(file).with_context(|| format!("reading the policy in {}", file.display()))?;
    parse(&text).with_context(|| format!("the policy in {}", file.display()))
}

fn parse(text: &str) -> anyhow::Result<Policy> {
    let entries: BTreeMap<String, Scalar> = serde_norway::from_str(text)?;
    let entries = entries.into_iter().map(|(key, value)| (key, value.into())).collect();
    let policy = policies::from_entries(&entries, BASE).map_err(|error| anyhow!(error))?;
    Ok(Policy { explain: true, ..policy })
}

#[cfg(test)]
mod tests {
    use placement::Policy;

    use super::{parse, read};

    #[test]
    fn without_a_file_it_is_as_installed_and_a_file_changes_what_it_names() {
        let installed = read(None).expect("no file is needed");
        assert_eq!(installed, Policy::installed());
        assert!(installed.explain && installed.eviction.reclaim && installed.eviction.by_priority);
        let changed = parse("reclaim: false\nhold-seconds: 60\norder: age\n").expect("a policy");
        assert!(changed.explain && !changed.eviction.reclaim && changed.eviction.by_priority);
        assert_eq!(changed.eviction.hold_seconds, 60);
    }

    #[test]
    fn what_is_wrong_in_a_file_is_said() {
        for text in ["colour: red", "reclaim: perhaps", "base: magic", "- a list", "reclaim: [1]"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
