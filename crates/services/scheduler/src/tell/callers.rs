//! Who may ask: the API server, which asks for those who may see what they ask about. Its token must be made for us
//! (by audience), so that a token which leaks here opens nothing else.

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

/// An accepted token is asked about again after this.
const LIFETIME: Duration = Duration::from_secs(10);
/// A token that was accepted within this time is asked about again whatever others do: as long as one lives.
const KNOWN_FOR: Duration = Duration::from_mins(10);
/// Accepted tokens that are known: a few API servers, with an old and a new token each.
const ACCEPTED_MAX: usize = 64;
/// Unknown tokens that are asked about in a lifetime for one address; whoever guesses costs the API server no more than
/// that, and keeps out nobody who is elsewhere.
const GUESSES_MAX: u32 = 20;
/// Addresses of which guesses are counted, some 50 bytes each; when so many guess at one time, who is new has to wait.
const PEERS_MAX: usize = 1_024;
/// Questions to the API server at one time, about known and about unknown tokens each: one takes milliseconds.
const REVIEWS_AT_ONCE: usize = 4;
/// What the API server gets to say who it is, and how long its turn is waited for; who asks us waits for a second.
const REVIEW_TIME_MAX: Duration = Duration::from_secs(2);
/// Tokens of service accounts are about 1 KiB.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Finds out who calls.
pub struct Callers {
    client: Client,
    seen: Mutex<Seen>,
    reviews_of_known: Semaphore,
    reviews_of_unknown: Semaphore,
}

#[derive(Default)]
struct Seen {
    /// Tokens by hash, with when the API server was asked.
    accepted: HashMap<[u8; 32], Instant>,
    /// Since when, and how many unknown tokens were asked about.
    guesses: HashMap<IpAddr, (Instant, u32)>,
}

/// What is known of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// It was accepted just now.
    Accepted,
    /// It was accepted lately, and is to be asked about.
    Known,
    /// It is to be asked about, which was counted.
    Unknown,
}

/// Why somebody may not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The token is missing, wrong, or another's.
    NotTheApiServer,
    /// It could not be found out, or too many tokens came from there.
    NotNow,
}

impl Callers {
    /// Asks with this client, which needs the right to create `TokenReviews`.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            seen: Mutex::default(),
            reviews_of_known: Semaphore::new(REVIEWS_AT_ONCE),
            reviews_of_unknown: Semaphore::new(REVIEWS_AT_ONCE),
        }
    }

    /// Whether the bearer of this token, who calls from there, may ask.
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
            let log = |error: &kube::Error| warn!(%error, "Cannot find out who asks; nobody is answered.");
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
    /// Forgets what is old; an error if the token is not known and no more may be asked about. Counted before the API
    /// server is asked: what is under way counts too.
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
