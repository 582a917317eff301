//! The policy of this scheduler: the installed one, or from a file. Read once, at the start.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use placement::Policy;
use placement::policies::PolicyFile;

/// The policy in the file, or the installed one. Reasons for all waiting gangs are always on.
pub fn read(file: Option<&Path>) -> anyhow::Result<Policy> {
    let Some(file) = file else { return Ok(Policy::installed()) };
    let text =
        fs::read_to_string(file).with_context(|| format!("reading the policy in {}", file.display()))?;
    parse(&text).with_context(|| format!("the policy in {}", file.display()))
}

fn parse(text: &str) -> anyhow::Result<Policy> {
    let file: PolicyFile = serde_norway::from_str(text)?;
    let policy = file.policy().map_err(|error| anyhow!(error))?;
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
