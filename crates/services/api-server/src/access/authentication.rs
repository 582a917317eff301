//! Tokens, checked by the API server with TokenReview: sent as bearer tokens, or kept for a session's cookie.
//!
//! Answers are kept for seconds, under the SHA-256 of the token: the token itself is neither kept nor logged.
//! Refused tokens have a cache of their own, so that guessing cannot push out people who are logged in. They
//! also have a budget: when it is used up, tokens that were not accepted lately are refused without asking
//! Kubernetes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tracing::debug;

use crate::access::expiring_cache::ExpiringCache;
use crate::access::identity::{self, Identity};
use crate::access::refusal_budget::RefusalBudget;
use crate::access::token_expiry;
use crate::http::problem::ApiError;

/// An accepted token is reviewed again after this, so a revoked one works for at most this long.
const ACCEPTED_LIFETIME: Duration = Duration::from_secs(10);
/// A refused token is reviewed again after this.
const REFUSED_LIFETIME: Duration = Duration::from_secs(2);
/// Logged-in callers at one time; 16,384 × ~1 KiB = 16 MiB at most.
const ACCEPTED_MAX: usize = 16_384;
/// Refused tokens at one time; 32 bytes each and a little.
const REFUSED_MAX: usize = 4_096;
/// For this long an accepted token is reviewed again however many others are refused.
const KNOWN_LIFETIME: Duration = Duration::from_hours(1);
/// Questions to the API server at one time; others wait their turn within the request's time.
const REVIEWS_AT_ONCE: usize = 32;
/// The longest token looked at. Tokens of service accounts are about 1 KiB, those of OIDC some KiB.
const TOKEN_LENGTH_MAX: usize = 16 * 1024;

type TokenHash = [u8; 32];

/// Finds out the caller's identity.
pub struct Authenticator {
    client: Client,
    /// The audience that tokens must have; the default is Kubernetes' own API.
    audience: Option<&'static str>,
    accepted: Mutex<ExpiringCache<TokenHash, Arc<Identity>>>,
    refused: Mutex<ExpiringCache<TokenHash, ()>>,
    known: Mutex<ExpiringCache<TokenHash, ()>>,
    refusals: Mutex<RefusalBudget>,
    reviews: Semaphore,
}

/// The caller; only available behind [`super::require_login`].
#[derive(Clone, Debug)]
pub struct Caller(pub Arc<Identity>);

impl Authenticator {
    /// Reviews with this client, which needs the right to create `TokenReviews`.
    pub fn new(client: Client) -> Self {
        Self::with(client, None)
    }

    /// The same for tokens that were made for this audience only.
    pub fn for_audience(client: Client, audience: &'static str) -> Self {
        Self::with(client, Some(audience))
    }

    fn with(client: Client, audience: Option<&'static str>) -> Self {
        Self {
            client,
            audience,
            accepted: Mutex::new(ExpiringCache::new(ACCEPTED_MAX, ACCEPTED_LIFETIME)),
            refused: Mutex::new(ExpiringCache::new(REFUSED_MAX, REFUSED_LIFETIME)),
            known: Mutex::new(ExpiringCache::new(ACCEPTED_MAX, KNOWN_LIFETIME)),
            refusals: Mutex::new(RefusalBudget::new(Instant::now())),
            reviews: Semaphore::new(REVIEWS_AT_ONCE),
        }
    }

    /// The identity of the token's owner.
    pub async fn identify(&self, token: &str) -> Result<Arc<Identity>, ApiError> {
        let hash: TokenHash = Sha256::digest(token).into();
        if let Some(answer) = self.remembered(&hash, Instant::now()) {
            return answer;
        }
        let _permit = self.reviews.acquire().await.expect("the semaphore is never closed");
        // While it waited, another request with the same token may have got the answer.
        if let Some(answer) = self.remembered(&hash, Instant::now()) {
            return answer;
        }
        // The time of the question, not of the answer, so that no answer is used for longer than its lifetime.
        let asked = Instant::now();
        if lock(&self.known).get(&hash, asked).is_none() && !lock(&self.refusals).is_left(asked) {
            return Err(too_many_refused());
        }
        let status = self.review(token).await?;
        // An authenticator without audiences accepts tokens of any audience.
        let is_for_us = |audience: &str| status.audiences.iter().flatten().any(|it| it == audience);
        let is_for_us = self.audience.is_none_or(is_for_us);
        let is_valid = status.authenticated.unwrap_or(false) && status.error.is_none();
        let user = status.user.filter(|_| is_valid && is_for_us);
        let Some(user) = user else {
            lock(&self.refused).insert(hash, (), asked);
            lock(&self.refusals).spend(asked);
            return Err(refused());
        };
        let identity = Identity::new(user).map_err(|error| not_for_this_api(&error))?;
        let identity = Arc::new(identity.expiring(token_expiry::expires_at(token)));
        debug!(user = identity.username(), "Logged in.");
        lock(&self.accepted).insert(hash, Arc::clone(&identity), asked);
        lock(&self.known).insert(hash, (), asked);
        Ok(identity)
    }

    fn remembered(&self, hash: &TokenHash, now: Instant) -> Option<Result<Arc<Identity>, ApiError>> {
        if let Some(identity) = lock(&self.accepted).get(hash, now) {
            return Some(Ok(identity));
        }
        lock(&self.refused).get(hash, now).map(|()| Err(refused()))
    }

    async fn review(
        &self,
        token: &str,
    ) -> Result<k8s_openapi::api::authentication::v1::TokenReviewStatus, ApiError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: self.audience.map(|audience| vec![audience.to_owned()]),
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer =
            answer.map_err(|error| ApiError::from_kube(&error, "check the token with Kubernetes"))?;
        Ok(answer.status.unwrap_or_default())
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // Missing only if a route were added outside the login: then nobody gets in.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| ApiError::unauthorized("nobody is logged in"))
    }
}

/// The token in the request's one Authorization header.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Result<&str, ApiError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value,
        (None, _) => return Err(ApiError::unauthorized("the request has no token")),
        (Some(_), Some(_)) => {
            return Err(ApiError::unauthorized("the request has several Authorization headers"));
        }
    };
    let malformed = || ApiError::unauthorized("the Authorization header is not `Bearer <token>`");
    let (scheme, token) = value.to_str().map_err(|_| malformed())?.split_once(' ').ok_or_else(malformed)?;
    let token = token.trim();
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    if is_bearer && is_well_formed(token) { Ok(token) } else { Err(malformed()) }
}

/// Whether Kubernetes should be asked about this text at all.
pub(crate) fn is_well_formed(token: &str) -> bool {
    (1..=TOKEN_LENGTH_MAX).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
}

fn refused() -> ApiError {
    ApiError::unauthorized("the token is not valid: it may have expired")
}

fn too_many_refused() -> ApiError {
    ApiError::unavailable("TooManyRefusedTokens", "too many tokens were refused in the last seconds")
}

fn not_for_this_api(error: &identity::Error) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "UserRefused", error.to_string())
        .hint("log in as a person, or with a service account's token")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A cache is changed by total functions only; a poisoned lock holds a usable one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use super::bearer_token;

    fn token(values: &[&str]) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(
                header::AUTHORIZATION,
                HeaderValue::from_str(value).expect("the test's header is valid"),
            );
        }
        bearer_token(&headers).map(str::to_owned).map_err(|error| error.0.detail)
    }

    #[test]
    fn a_bearer_token_is_read_whatever_the_case_of_the_scheme() {
        for value in ["Bearer abc.def", "bearer abc.def", "BEARER  abc.def "] {
            assert_eq!(token(&[value]), Ok("abc.def".to_owned()), "{value}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!("Bearer {}", "a".repeat(16 * 1024 + 1));
        for values in [
            vec![],
            vec![""],
            vec!["Bearer"],
            vec!["Bearer "],
            vec!["Basic abc"],
            vec!["Bearer a b"],
            vec!["Bearer a", "Bearer b"],
            vec![long.as_str()],
        ] {
            assert!(token(&values).is_err(), "{values:?}");
        }
    }
}
