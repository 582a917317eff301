//! The operations. Each checks the caller's rights first, and then does one thing.

pub mod asks;
pub mod board;
pub mod capacity;
pub mod cost;
pub mod events;
pub mod health;
pub mod identity;
pub mod logs;
pub mod members;
pub mod nodes;
pub mod queues;
pub mod reports;
pub mod runs;
pub mod session;
pub mod snapshot;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::problem::ApiError;

/// The most items on a page.
pub const LIMIT_MAX: u16 = 500;
/// Items on a page if the caller does not say.
pub const LIMIT_DEFAULT: u16 = 100;

/// How many items a page holds.
pub type Limit = LimitOf<LIMIT_DEFAULT, LIMIT_MAX>;

/// How many items a page holds, with a default and a maximum.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(try_from = "u16")]
pub struct LimitOf<const DEFAULT: u16, const MAX: u16>(u16);

impl<const DEFAULT: u16, const MAX: u16> LimitOf<DEFAULT, MAX> {
    /// As a count.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl<const DEFAULT: u16, const MAX: u16> Default for LimitOf<DEFAULT, MAX> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<const DEFAULT: u16, const MAX: u16> TryFrom<u16> for LimitOf<DEFAULT, MAX> {
    type Error = String;

    fn try_from(limit: u16) -> Result<Self, String> {
        if (1..=MAX).contains(&limit) { Ok(Self(limit)) } else { Err(format!("limit must be 1 to {MAX}")) }
    }
}

/// The page of a list without filters.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// The most items on the page; a page has fewer when it would be larger than 50 KB.
    #[serde(default)]
    #[param(value_type = u16, minimum = 1, maximum = 500, required = false)]
    limit: Limit,
    /// The `continue` of the page before.
    #[serde(default, rename = "continue")]
    continue_token: Option<String>,
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

impl From<crate::http::page_token::Error> for ApiError {
    fn from(error: crate::http::page_token::Error) -> Self {
        Self::bad_request("InvalidContinue", error.to_string())
            .hint("leave `continue` out to start from the beginning")
    }
}
