//! What became of a write, judged from the server's answer alone.

use std::time::Duration;

use crate::writes::Failure;

/// What the fence's policy says when another process leads (`deploy/fence.yaml`), and what the API server says
/// when there is no epoch at all.
const FENCE_MESSAGES: [&str; 2] = ["this scheduler is not the leader", "no params found for policy binding"];
/// The server may ask for any patience; more than this is tried anyway.
const THROTTLE_MAX: Duration = Duration::from_secs(10);

/// How a bind ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod is on the node we chose.
    Bound,
    /// The pod is on another node, which someone else chose.
    OnAnotherNode(String),
    /// The pod is gone, or being deleted, or a different one has its name.
    Gone,
    /// The server refused, and will probably do so again.
    Refused(String),
    /// The server had no time for us, several times.
    Throttled,
    /// Several tries, and no answer that says what happened.
    Unknown(String),
    /// Another process leads.
    Fenced(String),
}

impl Outcome {
    /// A word for logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::OnAnotherNode(_) => "on-another-node",
            Self::Gone => "gone",
            Self::Refused(_) => "refused",
            Self::Throttled => "throttled",
            Self::Unknown(_) => "unknown",
            Self::Fenced(_) => "fenced",
        }
    }
}

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Conflict(String),
    NotFound,
    Refused(String),
    Throttled(Duration),
    Unknown(String),
    Fenced(String),
}

/// Reads an answer. Whatever may have been executed although it looks like an error is `Unknown`.
pub(crate) fn answer<T>(result: &Result<T, Failure>) -> Answer {
    let error = match result {
        Ok(_) => return Answer::Done,
        Err(Failure::NoAnswer(limit)) => return Answer::Unknown(format!("no answer within {limit:?}")),
        Err(Failure::Request(error)) => error,
    };
    let kube::Error::Api(status) = error else {
        return Answer::Unknown(error.to_string());
    };
    let message = status.message.clone();
    match status.code {
        403 | 422 if FENCE_MESSAGES.iter().any(|text| message.contains(text)) => Answer::Fenced(message),
        404 => Answer::NotFound,
        409 => Answer::Conflict(message),
        429 => {
            let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds).max(1);
            Answer::Throttled(Duration::from_secs(seconds.into()).min(THROTTLE_MAX))
        }
        // A request timeout says nothing about what was done before it.
        408 => Answer::Unknown(message),
        400..=499 => Answer::Refused(message),
        code => Answer::Unknown(format!("{code}: {message}")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::core::Status;

    use super::{Answer, Failure, answer};

    fn status(code: u16, message: &str) -> Result<(), Failure> {
        Err(Failure::Request(kube::Error::Api(Status::failure(message, "").with_code(code).boxed())))
    }

    #[test]
    fn an_answer_is_an_error_only_if_nothing_was_executed() {
        let text = |message: &str| message.to_owned();
        let fence = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'warpyard-fence' with binding 'warpyard-fence' denied request: refused: this scheduler is not the leader of epoch 7";
        let no_epoch = "policy 'warpyard-fence' denied request: no params found for policy binding with `Deny` parameterNotFoundAction";
        for (result, expect) in [
            (Ok(()), Answer::Done),
            (status(404, "no pod"), Answer::NotFound),
            (status(409, "assigned"), Answer::Conflict(text("assigned"))),
            (status(403, "rbac"), Answer::Refused(text("rbac"))),
            (status(422, "invalid"), Answer::Refused(text("invalid"))),
            (status(403, fence), Answer::Fenced(text(fence))),
            (status(422, fence), Answer::Fenced(text(fence))),
            (status(403, no_epoch), Answer::Fenced(text(no_epoch))),
            (status(429, "later"), Answer::Throttled(Duration::from_secs(1))),
            (status(500, "etcd"), Answer::Unknown(text("500: etcd"))),
            (status(504, "timeout"), Answer::Unknown(text("504: timeout"))),
            (status(408, "timeout"), Answer::Unknown(text("timeout"))),
            (Err(Failure::NoAnswer(Duration::from_secs(5))), Answer::Unknown(text("no answer within 5s"))),
        ] {
            assert_eq!(answer(&result), expect, "{result:?}");
        }
    }

    #[test]
    fn the_fence_speaks_as_we_expect() {
        let policy = include_str!("../../../deploy/fence.yaml");
        assert!(policy.contains(super::FENCE_MESSAGES[0]), "deploy/fence.yaml and FENCE_MESSAGES differ");
    }

    #[test]
    fn the_servers_patience_is_honoured_within_reason() {
        let throttled = |seconds| {
            let details = serde_json::json!({ "code": 429, "details": { "retryAfterSeconds": seconds } });
            let status: Status = serde_json::from_value(details).expect("a status");
            answer::<()>(&Err(Failure::Request(kube::Error::Api(status.boxed()))))
        };
        assert_eq!(throttled(3), Answer::Throttled(Duration::from_secs(3)));
        assert_eq!(throttled(3_600), Answer::Throttled(Duration::from_secs(10)));
    }
}
