//! The policy: by name or from a file, with single settings changed.

use std::fs;

use placement::Policy;
use simulator::policies::{self, PolicyFile};

use super::args::SimulateArgs;
use crate::exit::{Exit, Failure};

/// The policy, and its name for people.
pub(super) fn read(args: &SimulateArgs) -> Result<(String, Policy), Failure> {
    let mut name = args.policy.clone();
    let mut policy = match policies::preset(&args.policy) {
        Some(policy) => policy,
        None => from_file(&args.policy)?,
    };
    for set in &args.set {
        let (key, value) =
            set.split_once('=').ok_or_else(|| wrong(format!("--set {set}: write it as KEY=VALUE")))?;
        policies::set(&mut policy, key.trim(), value.trim()).map_err(wrong)?;
        name = format!("{name}, {}", set.trim());
    }
    Ok((name, policy))
}

fn from_file(path: &str) -> Result<Policy, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        let names = policies::PRESETS.map(|(name, _)| name).join(", ");
        wrong(format!("there is no policy `{path}`, and it cannot be read as a file: {error}"))
            .hint(format!("named policies: {names}"))
    })?;
    let file: PolicyFile =
        serde_norway::from_str(&text).map_err(|error| wrong(format!("{path}: {error}")))?;
    file.policy().map_err(|error| wrong(format!("{path}: {error}")))
}

fn wrong(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}
