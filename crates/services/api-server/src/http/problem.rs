//! The API's errors: RFC 9457, with a code for machines, a sentence for people, and a hint.

use api_types::rest::Problem;
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use tracing::warn;

use crate::access::identity::Identity;

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError(pub Problem);

/// Answers that every operation behind the login can give.
#[derive(utoipa::IntoResponses)]
pub enum LoginProblems {
    /// No valid token.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(Problem),
    /// The caller may not do this, or may not see whether it exists.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(Problem),
    /// The server is starting, busy, or cannot reach Kubernetes; try again.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(Problem),
}

impl ApiError {
    /// An error without a hint.
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self(Problem { status: status.as_u16(), code: code.to_owned(), detail: detail.into(), hint: None })
    }

    /// The same error, with a hint about what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// No valid token.
    pub fn unauthorized(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", detail)
            .hint("send `Authorization: Bearer <token>`; with the CLI, run `warpyard login`")
    }

    /// The request itself is wrong.
    pub fn bad_request(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// There is no object with this name.
    pub fn not_found(what: &str, name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("there is no {what} `{name}`"))
    }

    /// The server cannot answer now.
    pub fn unavailable(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).hint("try again in a few seconds")
    }

    /// kube-apiserver's error for a write made as the caller.
    pub fn from_kube_write(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return Self::from_kube(&error, "write to Kubernetes") };
        let kind = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
        let message = if status.message.is_empty() { status.reason.clone() } else { status.message.clone() };
        match kind {
            StatusCode::FORBIDDEN if message.contains("cannot impersonate") => {
                warn!(message, "Not allowed to act as the caller.");
                Self::new(kind, "ImpersonationForbidden", message).hint(
                    "an administrator must let this server act as you: apply deploy/rbac-api-server.yaml",
                )
            }
            StatusCode::FORBIDDEN if message.contains("exceeded quota") => {
                Self::new(kind, Problem::QUOTA_EXCEEDED, message).hint(
                    "the namespace's ResourceQuota is used up: delete runs that are over, or ask for more",
                )
            }
            StatusCode::FORBIDDEN => Self::new(kind, "Forbidden", message),
            StatusCode::NOT_FOUND => Self::new(kind, "NotFound", message),
            StatusCode::CONFLICT if status.reason == "AlreadyExists" => {
                Self::new(kind, "AlreadyExists", message)
                    .hint("choose another name, or leave `name` out to get one")
            }
            StatusCode::CONFLICT => Self::new(kind, "Conflict", message).hint("try again"),
            StatusCode::UNPROCESSABLE_ENTITY => Self::new(kind, "Invalid", message),
            StatusCode::BAD_REQUEST => Self::new(kind, "BadRequest", message),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Self::unavailable("KubernetesUnavailable", message)
            }
            _ => Self::from_kube(&kube::Error::Api(status), "write to Kubernetes"),
        }
    }

    /// The same error. If rights are missing, it lists the caller's groups that do not count.
    #[must_use]
    pub fn without_groups(self, identity: &Identity) -> Self {
        match identity.groups_left_out().as_slice() {
            [] => self,
            groups if self.0.code == "Forbidden" => self.hint(format!(
                "rights through {} do not count here: bind a role to your name or to a group of your own",
                groups.join(", ")
            )),
            _ => self,
        }
    }

    /// kube-apiserver's error for a request of our own: never the caller's fault.
    pub fn from_kube(error: &kube::Error, attempted: &str) -> Self {
        warn!(%error, attempted, "Kubernetes did not answer as expected.");
        Self::unavailable("KubernetesUnavailable", format!("cannot {attempted} at the moment"))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.0)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"warpyard\""));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http::{StatusCode, header};
    use kube::core::Status;

    use super::ApiError;

    fn mapped(code: u16, reason: &str, message: &str) -> (u16, String, String) {
        let status =
            Status { code, reason: reason.to_owned(), message: message.to_owned(), ..Status::default() };
        let problem = ApiError::from_kube_write(kube::Error::Api(Box::new(status))).0;
        (problem.status, problem.code, problem.detail)
    }

    #[test]
    fn what_kubernetes_says_to_the_caller_arrives_faithfully() {
        for (code, reason, message, expect) in [
            (403, "Forbidden", "User \"a\" cannot create resource \"runs\"", "Forbidden"),
            (403, "Forbidden", "runs \"a\" is forbidden: exceeded quota: q, requested: 1", "QuotaExceeded"),
            (
                403,
                "Forbidden",
                "User \"x\" cannot impersonate:user-info resource \"users\"",
                "ImpersonationForbidden",
            ),
            (404, "NotFound", "runs \"a\" not found", "NotFound"),
            (409, "AlreadyExists", "runs \"a\" already exists", "AlreadyExists"),
            (409, "Conflict", "the object has been modified", "Conflict"),
            (422, "Invalid", "spec.members: Invalid value", "Invalid"),
        ] {
            assert_eq!(mapped(code, reason, message), (code, expect.to_owned(), message.to_owned()));
        }
    }

    #[test]
    fn our_own_failures_are_not_blamed_on_the_caller_and_tell_nothing() {
        for code in [401, 429, 500, 503, 504, 0] {
            let (status, code, _) = mapped(code, "", "m");
            assert_eq!((status, code.as_str()), (503, "KubernetesUnavailable"));
        }
        assert_eq!(mapped(401, "Unauthorized", "secret").2, "cannot write to Kubernetes at the moment");
    }

    #[test]
    fn a_missing_login_says_how_to_log_in() {
        let response = ApiError::unauthorized("no token").into_response();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Bearer realm=\"warpyard\"");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
}
