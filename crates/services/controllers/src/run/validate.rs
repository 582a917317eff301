//! Checks that a schema cannot make; after them a Run is a [`ValidatedRun`], for which [`super::build`] cannot
//! fail.
//!
//! The API server checks everything else (quantities, image, label characters) when the Job is created. It
//! knows the rules better, and its refusal ends the Run with its own message.

use api_types::names::{RESERVED_ANNOTATION_PREFIX, RESERVED_VARIABLE_PREFIX};
use api_types::{Run, RunSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

/// A Run that can be built: its name makes valid host names, and nothing in it contradicts our own settings.
#[derive(Debug, Clone)]
pub struct ValidatedRun {
    /// The Run's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The owner reference of its children.
    pub owner: OwnerReference,
    /// The user who submitted it; an admission policy has checked it.
    pub submitted_by: Option<String>,
    /// The checked specification.
    pub spec: RunSpec,
}

/// Why a Run can never be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The name does not make a host name.
    #[error(
        "the name `{0}` does not make host names: use lower-case letters, digits and `-`, starting with a letter and ending with a letter or digit"
    )]
    Name(String),
    /// An annotation is ours.
    #[error("annotation `{0}` is set by warpyard itself: leave it out")]
    Annotation(String),
    /// An environment variable is ours.
    #[error(
        "environment variable `{0}` is reserved: names that start with `{prefix}` are set by warpyard itself",
        prefix = RESERVED_VARIABLE_PREFIX
    )]
    Environment(String),
    /// The object lacks a field that the API server always sets.
    #[error("the object has no {0}")]
    Incomplete(&'static str),
}

impl Invalid {
    /// The CamelCase reason for the Run's status.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Name(_) => "InvalidName",
            Self::Annotation(_) => "InvalidAnnotation",
            Self::Environment(_) => "InvalidEnvironment",
            Self::Incomplete(_) => "Invalid",
        }
    }
}

/// Checks a Run as read from the API server.
pub fn validate(run: &Run) -> Result<ValidatedRun, Invalid> {
    let name = run.metadata.name.clone().ok_or(Invalid::Incomplete("name"))?;
    let namespace = run.metadata.namespace.clone().ok_or(Invalid::Incomplete("namespace"))?;
    let mut owner = run.controller_owner_ref(&()).ok_or(Invalid::Incomplete("uid"))?;
    owner.block_owner_deletion = Some(true);
    if !is_host_name(&name) {
        return Err(Invalid::Name(name));
    }
    if let Some(annotation) =
        run.spec.annotations.iter().find(|a| a.name.starts_with(RESERVED_ANNOTATION_PREFIX))
    {
        return Err(Invalid::Annotation(annotation.name.clone()));
    }
    if let Some(variable) = run.spec.env.iter().find(|v| v.name.starts_with(RESERVED_VARIABLE_PREFIX)) {
        return Err(Invalid::Environment(variable.name.clone()));
    }
    let submitted_by = run.submitted_by().map(str::to_owned);
    Ok(ValidatedRun { name, namespace, owner, submitted_by, spec: run.spec.clone() })
}

/// Whether `<name>-<attempt>` is a valid name of a Service (RFC 1035 label). The Run's own rule bounds its
/// length.
fn is_host_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use api_types::run::{EnvironmentVariable, PodAnnotation};

    use super::validate;
    use crate::run::testing::run;

    fn check(change: impl FnOnce(&mut api_types::Run), expect: Result<(), &str>) {
        let mut run = run();
        change(&mut run);
        assert_eq!(validate(&run).map(|_| ()).map_err(|invalid| invalid.reason()), expect);
    }

    #[test]
    fn a_plain_run_is_valid_and_owns_its_children() {
        let valid = validate(&run()).unwrap();
        assert_eq!(valid.owner.uid, "run-uid");
        assert_eq!((valid.owner.controller, valid.owner.block_owner_deletion), (Some(true), Some(true)));
    }

    #[test]
    fn names_that_make_no_host_name_are_refused() {
        for name in ["a.b", "1a", "-a", "a-", "A", "a_b", ""] {
            check(|run| run.metadata.name = Some(name.to_owned()), Err("InvalidName"));
        }
        for name in ["a", "a-1", "train-llama3-70b"] {
            check(|run| run.metadata.name = Some(name.to_owned()), Ok(()));
        }
    }

    #[test]
    fn our_own_annotations_and_variables_are_refused() {
        let annotation = |name: &str| PodAnnotation { name: name.to_owned(), value: "1".to_owned() };
        let variable = |name: &str| EnvironmentVariable { name: name.to_owned(), value: "1".to_owned() };
        check(
            |run| run.spec.annotations = vec![annotation("warpyard.dev/gang-size")],
            Err("InvalidAnnotation"),
        );
        check(|run| run.spec.annotations = vec![annotation("fake.warpyard.dev/run-time")], Ok(()));
        check(|run| run.spec.env = vec![variable("WARPYARD_RUN")], Err("InvalidEnvironment"));
        check(|run| run.spec.env = vec![variable("MASTER_PORT")], Ok(()));
    }
}
