//! The secret of a session: the cookie's content, and the only way to unseal the token that the server keeps.
//!
//! ```text
//!   256 random bits ─┬─ base64url ─► the cookie, in the browser only
//!                    ├─ SHA-256   ─► the session's id: the key of the server's map
//!                    └─ HKDF      ─► the key that seals the token (AES-256-GCM)
//! ```
//!
//! The server keeps the id and the sealed token, never the secret, so its memory alone reveals no token.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

const SECRET_BYTES: usize = 32;
/// The purpose of the derived key; another purpose would have another text, and so another key.
const KEY_PURPOSE: &[u8] = b"warpyard session v1: seal the token";

/// SHA-256 of a session's secret.
pub type SessionId = [u8; 32];

/// 256 random bits. There is no `Debug`, so that it cannot be logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// A new one.
    pub fn random() -> Self {
        let mut bytes = [0; SECRET_BYTES];
        rand::fill(&mut bytes).expect("the operating system has randomness once it has started");
        Self(bytes)
    }

    /// Reads what [`Secret::to_text`] wrote, and nothing else.
    pub fn from_text(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// 43 characters that a cookie may contain.
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// The session's id on the server. Neither the secret nor the key can be derived from it.
    pub fn id(&self) -> SessionId {
        Sha256::digest(self.0).into()
    }

    /// Seals the token, so that only this secret opens it. Call it once for a secret: see [`Self::key`].
    pub fn seal(&self, token: &str) -> Vec<u8> {
        let mut sealed = token.as_bytes().to_vec();
        self.key()
            .seal_in_place_append_tag(nonce(), Aad::from(self.id()), &mut sealed)
            .expect("a token is far below the 64 GiB that can be sealed");
        sealed
    }

    /// The token that was sealed with this secret.
    pub fn unseal(&self, sealed: &[u8]) -> Option<String> {
        let mut bytes = sealed.to_vec();
        let length = self.key().open_in_place(nonce(), Aad::from(self.id()), &mut bytes).ok()?.len();
        bytes.truncate(length);
        String::from_utf8(bytes).ok()
    }

    /// Each secret has a key of its own, and seals one token with it. That is why the nonce may be constant.
    fn key(&self) -> LessSafeKey {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]);
        let material = salt.extract(&self.0);
        let key = material.expand(&[KEY_PURPOSE], &AES_256_GCM).expect("32 bytes are not too many for HKDF");
        LessSafeKey::new(UnboundKey::from(key))
    }
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn a_token_is_opened_by_its_secret_and_by_no_other() {
        let secret = Secret::random();
        let sealed = secret.seal("a.token");
        assert_eq!(secret.unseal(&sealed).as_deref(), Some("a.token"));
        assert_eq!(Secret::random().unseal(&sealed), None);
        let mut changed = sealed.clone();
        changed[0] ^= 1;
        assert_eq!(secret.unseal(&changed), None, "a changed one is noticed");
        assert!(!sealed.windows(5).any(|part| part == b"token"), "it cannot be read");
    }

    #[test]
    fn a_secret_is_written_in_43_characters_that_a_cookie_may_hold_and_read_back() {
        let secret = Secret::random();
        let text = secret.to_text();
        assert_eq!(text.len(), 43);
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{text}");
        assert!(Secret::from_text(&text) == Some(secret));
    }

    #[test]
    fn nothing_else_is_read_as_a_secret() {
        let text = Secret::random().to_text();
        for wrong in ["", "abc", &text[1..], &format!("{text}A"), &format!("{text}="), &format!(" {text}")] {
            assert!(Secret::from_text(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn no_two_secrets_are_alike() {
        assert!(Secret::random() != Secret::random());
        assert_ne!(Secret::random().id(), Secret::random().id());
    }
}
