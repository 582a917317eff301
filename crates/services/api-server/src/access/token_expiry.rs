//! The expiry of a token, if it is a JWT: its claim `exp`. Pure.
//!
//! This checks nothing: Kubernetes has accepted the token. It only ends streams that would outlive it.

use jiff::Timestamp;
use serde::Deserialize;

/// When the token expires; `None` for tokens that do not say.
pub fn expires_at(token: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let claims: Claims = serde_json::from_slice(&base64_url(claims)?).ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "what is out of range is refused by the next step")]
    Timestamp::from_second(claims.exp as i64).ok()
}

fn base64_url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for character in text.trim_end_matches('=').bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{base64_url, expires_at};

    #[test]
    fn base64_is_read_as_rfc_4648_writes_it() {
        for (text, expect) in [
            ("", ""),
            ("Zg", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYmFy", "foobar"),
            ("fn5-Pz8_", "~~~???"),
        ] {
            assert_eq!(base64_url(text).as_deref(), Some(expect.as_bytes()), "{text}");
        }
        assert_eq!(base64_url("Zm 9v"), None);
    }

    #[test]
    fn a_jwt_says_when_it_ends_and_other_tokens_do_not() {
        // {"exp":1700000000} and {"sub":"x"}
        let at = expires_at("eyJhbGciOiJub25lIn0.eyJleHAiOjE3MDAwMDAwMDB9.c2ln");
        assert_eq!(at.map(Timestamp::as_second), Some(1_700_000_000));
        for token in ["opaque", "a.b", "a.b.c", "a.eyJzdWIiOiJ4In0.c", "a.eyJleHAiOjE3MDAwMDAwMDB9.c.d", ""] {
            assert_eq!(expires_at(token), None, "{token}");
        }
    }
}
