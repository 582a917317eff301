//! The policy: by name, from a file, with single things set.

use std::collections::BTreeMap;
use std::fs;

use placement::Policy;
use simulator::policies;

use super::args::SimulateArgs;
use crate::exit::{Exit, Failure};

/// A file is a list of things to set; `base` names the policy it starts from.
type PolicyFile = BTreeMap<String, serde_norway::Value>;

/// The policy, and what to call it.
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
        wrong(format!("no policy is called `{path}`, and it cannot be read as a file: {error}"))
            .hint(format!("policies with a name: {names}"))
    })?;
    let file: PolicyFile =
        serde_norway::from_str(&text).map_err(|error| wrong(format!("{path}: {error}")))?;
    let entries = file.iter().map(|(key, value)| (key.clone(), scalar(value))).collect();
    policies::from_entries(&entries, "installed").map_err(|error| wrong(format!("{path}: {error}")))
}

/// A value as it was written.
fn scalar(value: &serde_norway::Value) -> String {
    match value {
        serde_norway::Value::String(text) => text.clone(),
        serde_norway::Value::Bool(value) => value.to_string(),
        serde_norway::Value::Number(value) => value.to_string(),
        _ => "something with parts".to_owned(),
    }
}

fn wrong(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}
