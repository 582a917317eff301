//! Where a page ended, as an opaque text: a position in the list's order, independent of the cache's content.

use std::fmt::Write;

/// A token that this server did not write.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the continue token was not made by this API")]
pub struct Error;

/// The longest token read: a second and a user's name (1,024 bytes, most of them escaped) in hexadecimal are below it.
const TOKEN_LENGTH_MAX: usize = 8_192;

/// Writes the parts of a position; none of them may contain `/`.
pub fn encode(parts: &[&str]) -> String {
    debug_assert!(parts.iter().all(|part| !part.contains('/')));
    parts.join("/").bytes().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}

/// Reads the `N` parts of a position.
pub fn decode<const N: usize>(token: &str) -> Result<[String; N], Error> {
    if token.len() > TOKEN_LENGTH_MAX || !token.len().is_multiple_of(2) || !token.is_ascii() {
        return Err(Error);
    }
    let bytes: Vec<u8> = (0..token.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&token[at..at + 2], 16).map_err(|_| Error))
        .collect::<Result<_, _>>()?;
    let text = String::from_utf8(bytes).map_err(|_| Error)?;
    let parts: Vec<String> = text.split('/').map(str::to_owned).collect();
    parts.try_into().map_err(|_| Error)
}

#[cfg(test)]
mod tests {
    use super::{Error, decode, encode};

    #[test]
    fn a_token_gives_back_its_parts() {
        let token = encode(&["1700000000", "nlp", "llama-ft"]);
        assert_eq!(decode(&token), Ok(["1700000000".to_owned(), "nlp".to_owned(), "llama-ft".to_owned()]));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let other_list = encode(&["nlp"]);
        for token in ["zz", "abc", "é", "2f", "+1+1", &other_list, &"61".repeat(5_000)] {
            assert_eq!(decode::<3>(token), Err(Error), "{token}");
        }
    }
}
