//! How a write ended, judged from the server's answer alone.

use std::time::Duration;

/// The fence's message when another process leads (`deploy/fence.yaml`).
const FENCE_MESSAGE: &str = "this scheduler is not the leader";
/// Messages, with 403 or 422, of an API server that cannot evaluate a policy yet: it has just
/// started, or has not read the policies or the epoch. They say nothing about the leader.
const NOT_EVALUATED_MESSAGES: [&str; 3] =
    ["not yet ready to handle request", "failed to configure policy", "failed to configure binding"];
/// The wait when the server names none.
const THROTTLE_MIN: Duration = Duration::from_secs(1);
/// The server may ask for a longer wait; the request is repeated after this one anyway.
const THROTTLE_MAX: Duration = Duration::from_secs(10);

/// How a bind ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The pod is on the node we chose.
    Bound,
    /// The pod is on another node, which we did not choose.
    OnAnotherNode(String),
    /// The pod is gone, or being deleted, or a different one has its name.
    Gone,
    /// The server refused, and will probably do so again.
    Refused(String),
    /// The server was too busy, or could not evaluate its policies, several times.
    Throttled(String),
    /// Several tries had no clear answer. The pod has no node, and these tries can no longer give
    /// it one.
    Unknown(String),
    /// Another process leads.
    Fenced(String),
}

impl BindOutcome {
    /// A word for logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::OnAnotherNode(_) => "on-another-node",
            Self::Gone => "gone",
            Self::Refused(_) => "refused",
            Self::Throttled(_) => "throttled",
            Self::Unknown(_) => "unknown",
            Self::Fenced(_) => "fenced",
        }
    }
}

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    Request(kube::Error),
    NoAnswer(Duration),
}

impl Failure {
    /// For callers whose errors have no deadline of ours.
    pub(crate) fn into_error(self) -> kube::Error {
        match self {
            Self::Request(error) => error,
            Self::NoAnswer(limit) => kube::Error::Service(format!("no answer within {limit:?}").into()),
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
    /// Not executed; try again after this long.
    Throttled(Duration, String),
    Unknown(String),
    Fenced(String),
}

/// Reads an answer. An error after which the request may still have been executed is `Unknown`.
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
        403 | 422 if message.contains(FENCE_MESSAGE) => Answer::Fenced(message),
        403 | 422 if NOT_EVALUATED_MESSAGES.iter().any(|text| message.contains(text)) => {
            Answer::Throttled(THROTTLE_MIN, message)
        }
        404 => Answer::NotFound,
        409 => Answer::Conflict(message),
        429 => {
            let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            let patience = Duration::from_secs(seconds.into()).clamp(THROTTLE_MIN, THROTTLE_MAX);
            Answer::Throttled(patience, message)
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

    use api_types::names::EPOCH_LABEL;
    use kube::core::Status;
    use serde::Deserialize;
    use serde_json::Value;

    use super::{Answer, FENCE_MESSAGE, Failure, answer};

    fn status(code: u16, message: &str) -> Result<(), Failure> {
        Err(Failure::Request(kube::Error::Api(Status::failure(message, "").with_code(code).boxed())))
    }

    #[test]
    fn an_answer_is_an_error_only_if_nothing_was_executed() {
        let text = |message: &str| message.to_owned();
        let fence = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'warpyard-fence' with binding 'warpyard-fence' denied request: refused: this scheduler is not the leader of epoch 7";
        let starting = "pods \"a\" is forbidden: not yet ready to handle request";
        let no_copy = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'warpyard-fence' with binding 'warpyard-fence' denied request: failed to configure binding: paramKind kind `&ParamKind{APIVersion:warpyard.dev/v1alpha1,Kind:SchedulerEpoch,}` not yet synced to use for admission";
        let no_kind = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'warpyard-fence' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'warpyard.dev/v1alpha1, Kind=SchedulerEpoch'";
        let later = |message: &str| Answer::Throttled(Duration::from_secs(1), text(message));
        for (result, expect) in [
            (Ok(()), Answer::Done),
            (status(404, "no pod"), Answer::NotFound),
            (status(409, "assigned"), Answer::Conflict(text("assigned"))),
            (status(403, "rbac"), Answer::Refused(text("rbac"))),
            (status(422, "invalid"), Answer::Refused(text("invalid"))),
            (status(403, fence), Answer::Fenced(text(fence))),
            (status(422, fence), Answer::Fenced(text(fence))),
            (status(403, starting), later(starting)),
            (status(422, no_copy), later(no_copy)),
            (status(422, no_kind), later(no_kind)),
            (status(429, "later"), later("later")),
            (status(500, "etcd"), Answer::Unknown(text("500: etcd"))),
            (status(504, "timeout"), Answer::Unknown(text("504: timeout"))),
            (status(408, "timeout"), Answer::Unknown(text("timeout"))),
            (Err(Failure::NoAnswer(Duration::from_secs(5))), Answer::Unknown(text("no answer within 5s"))),
        ] {
            assert_eq!(answer(&result), expect, "{result:?}");
        }
    }

    #[test]
    fn the_fence_speaks_as_we_expect_in_every_rule_about_the_leader_and_in_no_other() {
        let documents = serde_norway::Deserializer::from_str(include_str!("../../../../deploy/fence.yaml"));
        let mut objects = documents.map(|document| Value::deserialize(document).expect("an object"));
        let is_fence = |object: &Value| {
            object["kind"] == "ValidatingAdmissionPolicy" && object["metadata"]["name"] == "warpyard-fence"
        };
        let fence = objects.find(is_fence).expect("the fence");
        let refused = fence["spec"]["matchConditions"][0]["expression"].as_str().expect("what is refused");
        assert!(refused.contains("params.spec.holder") && refused.contains(EPOCH_LABEL), "{refused}");
        let mut about_the_leader = 0;
        for rule in fence["spec"]["validations"].as_array().expect("its rules") {
            let text = |field: &str| rule[field].as_str();
            let expression = text("expression").expect("an expression");
            let refuses_a_former_leader =
                expression.contains("params.spec.holder") || expression.contains("'binding'");
            about_the_leader += usize::from(refuses_a_former_leader);
            assert!(text("message").is_some(), "it has words of its own: {expression}");
            // If a policy has both, the server falls back to `message` when `messageExpression`
            // fails.
            for said in [text("message"), text("messageExpression")].into_iter().flatten() {
                assert_eq!(said.contains(FENCE_MESSAGE), refuses_a_former_leader, "{said}");
            }
        }
        assert_eq!(about_the_leader, 2, "who holds the epoch, and of which epoch a bind is");
    }

    #[test]
    fn the_servers_patience_is_honoured_within_reason() {
        let throttled = |seconds| {
            let details = serde_json::json!({ "code": 429, "details": { "retryAfterSeconds": seconds } });
            let status: Status = serde_json::from_value(details).expect("a status");
            answer::<()>(&Err(Failure::Request(kube::Error::Api(status.boxed()))))
        };
        assert_eq!(throttled(3), Answer::Throttled(Duration::from_secs(3), String::new()));
        assert_eq!(throttled(3_600), Answer::Throttled(Duration::from_secs(10), String::new()));
    }
}
