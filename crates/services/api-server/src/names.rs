//! Names from paths and queries, checked before they go anywhere.

use serde::Deserialize;

/// A namespace's name.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct NamespaceName(String);

/// A run's or queue's name.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct ObjectName(String);

/// A part of a run's name that is searched for.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct SearchText(String);

/// The name of a user, as Kubernetes knows them.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct UserName(String);

/// The longest text that is searched for; no run's name is longer.
const SEARCH_LENGTH_MAX: usize = 63;
/// The longest name of a user that is searched for.
const USER_LENGTH_MAX: usize = 253;

/// The name is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a name: it has lower-case letters, digits and `-`, and starts and ends with a letter or digit")]
pub struct Error;

impl NamespaceName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ObjectName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NamespaceName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        if is_dns_label(&name) { Ok(Self(name)) } else { Err(Error) }
    }
}

impl TryFrom<String> for ObjectName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        if is_dns_subdomain(&name) { Ok(Self(name)) } else { Err(Error) }
    }
}

impl SearchText {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a name contains it; names have no upper case.
    pub fn is_in(&self, name: &str) -> bool {
        name.contains(&self.0)
    }
}

impl UserName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SearchText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() > SEARCH_LENGTH_MAX {
            return Err(format!("a search has at most {SEARCH_LENGTH_MAX} bytes"));
        }
        Ok(Self(text.to_lowercase()))
    }
}

impl TryFrom<String> for UserName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let fits = (1..=USER_LENGTH_MAX).contains(&name.len());
        if fits { Ok(Self(name)) } else { Err(format!("a user's name has 1 to {USER_LENGTH_MAX} bytes")) }
    }
}

/// Whether Kubernetes accepts it as a namespace's name.
pub fn is_dns_label(name: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| is_alphanumeric(byte) || *byte == b'-')
        && bytes.first().is_some_and(is_alphanumeric)
        && bytes.last().is_some_and(is_alphanumeric)
}

/// Whether Kubernetes accepts it as the name of a custom object.
pub fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

#[cfg(test)]
mod tests {
    use super::{SearchText, is_dns_label, is_dns_subdomain};

    #[test]
    fn a_search_finds_parts_of_names_in_any_case_and_is_bounded() {
        let search = |text: &str| SearchText::try_from(text.to_owned());
        assert!(search("LLAMA").is_ok_and(|text| text.is_in("ft-llama-3")));
        assert!(search("").is_ok_and(|text| text.is_in("anything")));
        assert!(search("mistral").is_ok_and(|text| !text.is_in("ft-llama-3")));
        assert!(search(&"a".repeat(64)).is_err());
    }

    #[test]
    fn only_names_that_are_safe_in_a_url_pass() {
        for name in ["a", "team-a", "0", &"a".repeat(63)] {
            assert!(is_dns_label(name) && is_dns_subdomain(name), "{name}");
        }
        assert!(is_dns_subdomain("a.b-c.d"));
        for name in
            ["", "-a", "a-", "A", "a_b", "a/b", "..", ".", "a..b", "a%2f", "a?b", "é", &"a".repeat(64)]
        {
            assert!(!is_dns_label(name) && !is_dns_subdomain(name), "{name}");
        }
        assert!(!is_dns_subdomain(&vec!["a"; 128].join(".")));
    }
}
