//! Sessions of the portal, in memory: users with their sealed tokens.
//!
//! ```text
//!   login ─► open(secret, user, token) ─► { SHA-256(secret): sealed token, times }
//!   request with the cookie ─► find(secret) ─► token ─► TokenReview, as for a bearer token
//!   logout, a refused token, 12 h, 1 h without a request, 20 newer ones of the same user ─► gone
//! ```
//!
//! It decides nothing about rights, and holds no token that can be read without the cookie. Sessions are not
//! shared with other processes: after a restart, people log in again. The clock is an argument.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::session::secret::{Secret, SessionId};

/// A session ends this long after its login, whatever happens: a working day.
pub const LIFETIME: Duration = Duration::from_hours(12);
/// A session without a request ends after this. An open page asks every quarter of an hour at least.
const IDLE_MAX: Duration = Duration::from_hours(1);
/// Sessions of one user: browsers and machines of one person. The oldest makes room.
const SESSIONS_PER_USER: usize = 20;
/// Sessions in all, × 16 KiB of token = 160 MiB at the very most; with usual tokens of 1 to 2 KiB, 20 MiB. The
/// one that has been unused for longest makes room.
const SESSIONS_MAX: usize = 10_000;

/// The sessions of all users.
#[derive(Default)]
pub struct Sessions {
    by_id: Mutex<BTreeMap<SessionId, Session>>,
}

/// The session of a request.
pub struct Found {
    /// The token that the session was opened with.
    pub token: String,
    /// Cancelled when the session ends, so that long answers end with it.
    pub ended: CancellationToken,
}

struct Session {
    user: String,
    sealed_token: Vec<u8>,
    opened: Instant,
    seen: Instant,
    /// Removing the session from the map also ends its streams.
    ends: DropGuard,
}

impl Sessions {
    /// Opens a session of `user`, and makes room for it.
    pub fn open(&self, secret: &Secret, user: &str, token: &str, now: Instant) {
        let session = Session {
            user: user.to_owned(),
            sealed_token: secret.seal(token),
            opened: now,
            seen: now,
            ends: CancellationToken::new().drop_guard(),
        };
        let mut sessions = self.lock();
        // A scan of all sessions is cheap enough: at most 10,000, and each login has asked Kubernetes before.
        sessions.retain(|_, session| session.is_alive(now));
        keep_below(SESSIONS_PER_USER, &mut sessions, |other| other.user == user, |other| other.opened);
        keep_below(SESSIONS_MAX, &mut sessions, |_| true, |other| other.seen);
        sessions.insert(secret.id(), session);
    }

    /// The session of this secret, unless it is over. It counts as used.
    pub fn find(&self, secret: &Secret, now: Instant) -> Option<Found> {
        let mut sessions = self.lock();
        let id = secret.id();
        let session = sessions.get_mut(&id)?;
        if !session.is_alive(now) {
            sessions.remove(&id);
            return None;
        }
        session.seen = now;
        let ended = session.ends.token().clone();
        Some(Found { token: secret.unseal(&session.sealed_token)?, ended })
    }

    /// Ends the session, if there is one.
    pub fn end(&self, secret: &Secret) {
        self.lock().remove(&secret.id());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Session>> {
        // The map is changed by total functions only; a poisoned lock holds a usable one.
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn is_alive(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.opened) < LIFETIME
            && now.saturating_duration_since(self.seen) < IDLE_MAX
    }
}

/// Removes the earliest of the matching sessions until fewer than `max` are left. Ties are broken by id.
fn keep_below(
    max: usize,
    sessions: &mut BTreeMap<SessionId, Session>,
    counts: impl Fn(&Session) -> bool,
    time: impl Fn(&Session) -> Instant,
) {
    loop {
        let counted = || sessions.iter().filter(|(_, session)| counts(session));
        if counted().count() < max {
            return;
        }
        let earliest = counted().min_by_key(|(id, session)| (time(session), **id)).map(|(id, _)| *id);
        earliest.and_then(|id| sessions.remove(&id));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{IDLE_MAX, LIFETIME, SESSIONS_MAX, SESSIONS_PER_USER, Sessions};
    use crate::session::secret::Secret;

    const MINUTE: Duration = Duration::from_mins(1);

    fn open(sessions: &Sessions, user: &str, now: Instant) -> Secret {
        let secret = Secret::random();
        sessions.open(&secret, user, "the-token", now);
        secret
    }

    fn is_found(sessions: &Sessions, secret: &Secret, now: Instant) -> bool {
        sessions.find(secret, now).is_some_and(|found| found.token == "the-token")
    }

    #[test]
    fn a_session_is_found_by_its_own_secret_until_it_is_ended() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let (ours, other) = (open(&sessions, "alice", now), open(&sessions, "alice", now));
        assert!(is_found(&sessions, &ours, now));
        assert!(!is_found(&sessions, &Secret::random(), now));
        let ended = sessions.find(&ours, now).expect("it is open").ended;
        sessions.end(&ours);
        assert!(!is_found(&sessions, &ours, now));
        assert!(ended.is_cancelled(), "what hangs on it is told");
        assert!(is_found(&sessions, &other, now), "others go on");
    }

    #[test]
    fn an_hour_without_a_request_ends_it_and_a_request_keeps_it() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let secret = open(&sessions, "alice", start);
        let busy = start + MINUTE * 59;
        assert!(is_found(&sessions, &secret, busy));
        let busy = busy + MINUTE * 59;
        assert!(is_found(&sessions, &secret, busy));
        assert!(!is_found(&sessions, &secret, busy + IDLE_MAX));
        assert!(sessions.lock().is_empty(), "an expired one is removed");
    }

    #[test]
    fn it_ends_twelve_hours_after_the_login_however_busy() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let secret = open(&sessions, "alice", start);
        let mut now = start;
        while now + MINUTE * 30 < start + LIFETIME {
            now += MINUTE * 30;
            assert!(is_found(&sessions, &secret, now));
        }
        assert!(!is_found(&sessions, &secret, start + LIFETIME));
    }

    #[test]
    fn a_user_has_twenty_and_the_oldest_makes_room_for_the_next() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let others = open(&sessions, "bob", start);
        let secrets: Vec<Secret> = (0..=20).map(|n| open(&sessions, "alice", start + MINUTE * n)).collect();
        let now = start + MINUTE * 21;
        let open_now: Vec<bool> = secrets.iter().map(|secret| is_found(&sessions, secret, now)).collect();
        assert_eq!(open_now.iter().filter(|is_open| **is_open).count(), SESSIONS_PER_USER);
        assert!(!open_now[0], "the oldest is the one that went");
        assert!(is_found(&sessions, &others, now), "bob is not alice");
    }

    #[test]
    fn there_are_ten_thousand_in_all_and_the_longest_unused_makes_room() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        // Put in without `open`, whose cost for a full map is not what is tested here.
        let first = open(&sessions, "user-0", start);
        let second = open(&sessions, "user-1", start);
        for n in 2..SESSIONS_MAX {
            let secret = Secret::random();
            let session = super::Session {
                user: format!("user-{n}"),
                sealed_token: Vec::new(),
                opened: start,
                seen: start + MINUTE,
                ends: super::CancellationToken::new().drop_guard(),
            };
            sessions.lock().insert(secret.id(), session);
        }
        assert!(is_found(&sessions, &first, start + MINUTE * 2), "used, so the second is the longest unused");
        let last = open(&sessions, "late", start + MINUTE * 3);
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
        assert!(is_found(&sessions, &first, start + MINUTE * 3));
        assert!(!is_found(&sessions, &second, start + MINUTE * 3));
        assert!(is_found(&sessions, &last, start + MINUTE * 3));
    }
}
