//! The operations. Each asks first whether the caller may, then does one thing.

pub mod health;
pub mod identity;
pub mod queues;
pub mod runs;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use serde::Deserialize;

use crate::problem::ApiError;

/// The most items on a page.
pub const LIMIT_MAX: u16 = 500;
/// Items on a page if the caller does not say.
pub const LIMIT_DEFAULT: u16 = 100;

/// How many items a page holds.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(try_from = "u16")]
pub struct Limit(u16);

impl Limit {
    /// As a count.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(LIMIT_DEFAULT)
    }
}

impl TryFrom<u16> for Limit {
    type Error = String;

    fn try_from(limit: u16) -> Result<Self, String> {
        if (1..=LIMIT_MAX).contains(&limit) {
            Ok(Self(limit))
        } else {
            Err(format!("limit must be 1 to {LIMIT_MAX}"))
        }
    }
}

impl From<PathRejection> for ApiError {
    fn from(rejection: PathRejection) -> Self {
        Self::new(rejection.status(), "InvalidPath", rejection.body_text())
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), "InvalidQuery", rejection.body_text())
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        let hint = "see /v1/openapi.json, or `warpyard schema` for the fields of a job file";
        Self::new(rejection.status(), "InvalidBody", rejection.body_text()).hint(hint)
    }
}

impl From<crate::page_token::Error> for ApiError {
    fn from(error: crate::page_token::Error) -> Self {
        Self::bad_request("InvalidContinue", error.to_string())
            .hint("leave `continue` out to start from the beginning")
    }
}
