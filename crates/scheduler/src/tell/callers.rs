//! Who may ask: the API server, which asks for those who may see what they ask about. Its token must be made for us
//! (by audience), so that a token which leaks here opens nothing else.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api_types::names::{API_SERVER_SERVICE_ACCOUNT, LEADER_AUDIENCE, SYSTEM_NAMESPACE};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tracing::warn;

/// An accepted token is asked about again after this.
const LIFETIME: Duration = Duration::from_secs(10);
/// Accepted tokens at one time: a few API servers, with an old and a new token each.
const ACCEPTED_MAX: usize = 64;
/// Refused tokens that are asked about in a lifetime; whoever guesses costs the API server no more than that.
const REFUSED_MAX: u32 = 20;
/// What the API server gets to say who it is; who asks us waits for a second.
const REVIEW_TIME_MAX: Duration = Duration::from_secs(2);
/// Tokens of service accounts are about 1 KiB.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Finds out who calls.
pub struct Callers {
    client: Client,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Tokens by hash, with when the API server was asked.
    accepted: HashMap<[u8; 32], Instant>,
    refused: u32,
    refused_since: Option<Instant>,
}

/// Why somebody may not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The token is missing, wrong, or another's.
    NotTheApiServer,
    /// It could not be found out, or too many tokens were wrong.
    NotNow,
}

impl Callers {
    /// Asks with this client, which needs the right to create `TokenReviews`.
    pub fn new(client: Client) -> Self {
        Self { client, seen: Mutex::default() }
    }

    /// Whether the bearer of this token may ask.
    pub async fn check(&self, token: &str) -> Result<(), Refusal> {
        if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::NotTheApiServer);
        }
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = Instant::now();
        self.lock().look_up(&hash, now)?;
        if self.lock().accepted.contains_key(&hash) {
            return Ok(());
        }
        let reviewed = tokio::time::timeout(REVIEW_TIME_MAX, self.review(token)).await;
        let is_the_api_server = reviewed.map_err(|_| Refusal::NotNow)?.map_err(|error| {
            warn!(%error, "Cannot find out who asks; nobody is answered.");
            Refusal::NotNow
        })?;
        self.lock().note(hash, is_the_api_server, now);
        if is_the_api_server { Ok(()) } else { Err(Refusal::NotTheApiServer) }
    }

    async fn review(&self, token: &str) -> kube::Result<bool> {
        let spec =
            TokenReviewSpec { token: token.to_owned(), audiences: Some(vec![LEADER_AUDIENCE.to_owned()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let status = answer.status.unwrap_or_default();
        let is_for_us = status.audiences.iter().flatten().any(|audience| audience == LEADER_AUDIENCE);
        let user = status.user.and_then(|user| user.username).unwrap_or_default();
        let api_server = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{API_SERVER_SERVICE_ACCOUNT}");
        Ok(status.authenticated.unwrap_or(false) && is_for_us && user == api_server)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Forgets what is old; an error if the token is not known and no more may be asked about.
    fn look_up(&mut self, hash: &[u8; 32], now: Instant) -> Result<(), Refusal> {
        self.accepted.retain(|_, asked| *asked + LIFETIME > now);
        if self.refused_since.is_none_or(|since| since + LIFETIME <= now) {
            (self.refused, self.refused_since) = (0, Some(now));
        }
        let may_ask = self.accepted.contains_key(hash) || self.refused < REFUSED_MAX;
        if may_ask { Ok(()) } else { Err(Refusal::NotNow) }
    }

    fn note(&mut self, hash: [u8; 32], accepted: bool, asked: Instant) {
        if !accepted {
            self.refused += 1;
        } else if self.accepted.len() < ACCEPTED_MAX {
            self.accepted.insert(hash, asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accepted_token_is_known_for_a_while_and_guesses_are_bounded() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let (known, guess) = ([1; 32], [2; 32]);
        assert_eq!(seen.look_up(&known, start), Ok(()));
        seen.note(known, true, start);
        for _ in 0..REFUSED_MAX {
            assert_eq!(seen.look_up(&guess, start), Ok(()));
            seen.note(guess, false, start);
        }
        assert_eq!(seen.look_up(&guess, start), Err(Refusal::NotNow));
        assert_eq!(seen.look_up(&known, start), Ok(()), "guesses do not keep the API server out");
        let later = start + LIFETIME;
        assert_eq!(seen.look_up(&guess, later), Ok(()));
        assert!(!seen.accepted.contains_key(&known), "it is asked about again");
    }
}
