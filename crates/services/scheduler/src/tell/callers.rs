//! Authenticates callers: only the API server may ask, on behalf of people who may see the answer. Its token
//! must be made for our audience, so that a token that leaks here opens nothing else.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api_types::names::{API_SERVER_SERVICE_ACCOUNT, LEADER_AUDIENCE, SYSTEM_NAMESPACE};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::warn;

/// An accepted token is reviewed again after this.
const LIFETIME: Duration = Duration::from_secs(10);
/// A token that was accepted within this time is always reviewed again, whatever other callers do. This is the
/// lifetime of a token.
const KNOWN_FOR: Duration = Duration::from_mins(10);
/// Known accepted tokens: a few API servers, with an old and a new token each.
const ACCEPTED_MAX: usize = 64;
/// Unknown tokens that are reviewed for one address in a lifetime. This bounds what guesses cost the API
/// server, and does not shut out callers at other addresses.
const GUESSES_MAX: u32 = 20;
/// Addresses whose guesses are counted, about 50 bytes each. While this many guess at one time, a new address
/// has to wait.
const PEERS_MAX: usize = 1_024;
/// Concurrent reviews, for known and for unknown tokens each: one takes milliseconds.
const REVIEWS_AT_ONCE: usize = 4;
/// The time limit for a review, and for its turn; our caller waits for a second.
const REVIEW_TIME_MAX: Duration = Duration::from_secs(2);
/// Tokens of service accounts are about 1 KiB.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Authenticates callers.
pub struct Callers {
    client: Client,
    seen: Mutex<Seen>,
    reviews_of_known: Semaphore,
    reviews_of_unknown: Semaphore,
}

#[derive(Default)]
struct Seen {
    /// Tokens by hash, with the time of their review.
    accepted: HashMap<[u8; 32], Instant>,
    /// By address: since when, and how many unknown tokens were reviewed.
    guesses: HashMap<IpAddr, (Instant, u32)>,
}

/// What we know about a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// It was accepted just now.
    Accepted,
    /// It was accepted lately, and is due for another review.
    Known,
    /// It must be reviewed, and was counted as a guess.
    Unknown,
}

/// Why a caller is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The token is missing, wrong, or another's.
    NotTheApiServer,
    /// The review failed, or too many tokens came from that address.
    NotNow,
}

impl Callers {
    /// Reviews with this client, which needs the right to create `TokenReviews`.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            seen: Mutex::default(),
            reviews_of_known: Semaphore::new(REVIEWS_AT_ONCE),
            reviews_of_unknown: Semaphore::new(REVIEWS_AT_ONCE),
        }
    }

    /// Checks whether a caller with this token, from this address, may ask.
    pub async fn check(&self, token: &str, peer: IpAddr) -> Result<(), Refusal> {
        if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::NotTheApiServer);
        }
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = Instant::now();
        let turns = match self.lock().look_up(&hash, peer, now)? {
            Token::Accepted => return Ok(()),
            Token::Known => &self.reviews_of_known,
            Token::Unknown => &self.reviews_of_unknown,
        };
        let reviewed = tokio::time::timeout(REVIEW_TIME_MAX, async {
            let _turn = turns.acquire().await.ok()?;
            let log =
                |error: &kube::Error| warn!(%error, "Cannot authenticate callers; no question is answered.");
            self.review(token).await.inspect_err(log).ok()
        });
        let is_the_api_server = reviewed.await.ok().flatten().ok_or(Refusal::NotNow)?;
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
    /// Forgets old entries. Fails if the token is unknown and no more may be reviewed. Counts before the
    /// review, so that reviews under way count too.
    fn look_up(&mut self, hash: &[u8; 32], peer: IpAddr, now: Instant) -> Result<Token, Refusal> {
        self.accepted.retain(|_, asked| *asked + KNOWN_FOR > now);
        match self.accepted.get(hash) {
            Some(asked) if *asked + LIFETIME > now => return Ok(Token::Accepted),
            Some(_) => return Ok(Token::Known),
            None => {}
        }
        self.guesses.retain(|_, (since, _)| *since + LIFETIME > now);
        if self.guesses.len() >= PEERS_MAX && !self.guesses.contains_key(&peer) {
            return Err(Refusal::NotNow);
        }
        let (_, guesses) = self.guesses.entry(peer).or_insert((now, 0));
        if *guesses >= GUESSES_MAX {
            return Err(Refusal::NotNow);
        }
        *guesses += 1;
        Ok(Token::Unknown)
    }

    fn note(&mut self, hash: [u8; 32], accepted: bool, asked: Instant) {
        if !accepted {
            self.accepted.remove(&hash);
        } else if self.accepted.len() < ACCEPTED_MAX || self.accepted.contains_key(&hash) {
            self.accepted.insert(hash, asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn an_accepted_token_is_known_for_a_while_and_no_guess_keeps_it_out() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let (known, guess) = ([1; 32], [2; 32]);
        assert_eq!(seen.look_up(&known, HERE, start), Ok(Token::Unknown));
        seen.note(known, true, start);
        let later = start + LIFETIME;
        for _ in 0..GUESSES_MAX {
            assert_eq!(seen.look_up(&guess, HERE, later), Ok(Token::Unknown));
        }
        assert_eq!(seen.look_up(&guess, HERE, later), Err(Refusal::NotNow), "what is under way counts");
        assert_eq!(seen.look_up(&known, HERE, start), Ok(Token::Accepted));
        assert_eq!(
            seen.look_up(&known, HERE, later),
            Ok(Token::Known),
            "it is asked about in spite of guesses"
        );
        assert_eq!(seen.look_up(&guess, HERE, later + LIFETIME), Ok(Token::Unknown));
        seen.note(known, false, later);
        assert_eq!(seen.look_up(&known, HERE, later + LIFETIME), Ok(Token::Unknown), "it is refused by now");
        seen.note(known, true, later);
        assert_eq!(seen.look_up(&known, HERE, later + KNOWN_FOR), Ok(Token::Unknown), "it is long ago");
    }

    #[test]
    fn guesses_from_elsewhere_are_counted_elsewhere_and_not_without_bound() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        let peer = |number: usize| IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number).expect("small")));
        for _ in 0..=GUESSES_MAX {
            let _ = seen.look_up(&[0; 32], peer(0), now);
        }
        for number in 1..PEERS_MAX {
            assert_eq!(seen.look_up(&[1; 32], peer(number), now), Ok(Token::Unknown));
        }
        assert_eq!(seen.look_up(&[1; 32], peer(PEERS_MAX), now), Err(Refusal::NotNow));
        assert_eq!(seen.guesses.len(), PEERS_MAX);
        assert_eq!(seen.look_up(&[1; 32], peer(PEERS_MAX), now + LIFETIME), Ok(Token::Unknown));
    }
}
