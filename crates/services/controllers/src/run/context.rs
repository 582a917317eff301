//! The context of a reconcile, and its errors.

use k8s_openapi::api::batch::v1::Job;
use kube::runtime::reflector::Store;

use super::blueprint::Surroundings;
use super::decide::Step;
use crate::members::Members;
use crate::nodes::Nodes;

/// A new Run needs six steps until it is followed, and the longest way from any state to rest is nine. More
/// steps mean that the decisions go in circles.
pub(super) const STEPS_MAX: u32 = 12;

/// The context of a reconcile.
pub struct Context {
    /// The client for reads and writes.
    pub client: kube::Client,
    /// Jobs, from the watch.
    pub jobs: Store<Job>,
    /// Pods of each Run, from the watch.
    pub members: Members,
    /// Nodes, from the watch.
    pub nodes: Nodes,
    /// The platform's services around Runs.
    pub around: Surroundings,
}

/// Why a reconcile stopped half-way; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to the API server failed.
    #[error("failed to {attempted} `{name}`")]
    Api {
        /// What was attempted.
        attempted: &'static str,
        /// The object's name.
        name: String,
        /// The error.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server refuses it for good; the Run is over.
    #[error("{message}")]
    Refused {
        /// The reason for the Run's status.
        reason: String,
        /// The sentence for the Run's status.
        message: String,
    },
    /// An object of an earlier Run of the same name still has the name.
    #[error("`{name}` of an earlier run of the same name is not gone yet")]
    NotGoneYet {
        /// The object's name.
        name: String,
    },
    /// The object has no name, namespace or UID, which the API server never sends.
    #[error("the run has no {0}")]
    Incomplete(&'static str),
    /// A reconcile panicked; its message is on stderr.
    #[error("the reconcile panicked")]
    Panicked,
    /// The steps do not end.
    #[error("gave up after {STEPS_MAX} steps; the last was {last:?}")]
    Endless {
        /// The last step.
        last: Box<Step>,
    },
}

impl Error {
    pub(super) fn api(attempted: &'static str, name: &str) -> impl FnOnce(kube::Error) -> Self {
        let name = name.to_owned();
        move |source| Self::Api { attempted, name, source: Box::new(source) }
    }

    /// The message of the API server or of the connection.
    pub fn answer(&self) -> Option<String> {
        let Self::Api { source, .. } = self else { return None };
        Some(match source.as_ref() {
            kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
            other => other.to_string(),
        })
    }

    /// The API server's message, if it forbids this for now.
    pub(super) fn forbidden(&self) -> Option<String> {
        let Self::Api { source, .. } = self else { return None };
        match source.as_ref() {
            kube::Error::Api(status) if status.code == 403 => Some(status.message.clone()),
            _ => None,
        }
    }

    /// Whether the object has changed since we decided: this is normal, and the watch brings the new one.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. } if is_code(source, 409))
    }
}

/// Whether the API server answered with this HTTP status.
pub fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
