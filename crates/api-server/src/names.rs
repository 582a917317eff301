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

/// Why a name is none.
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

/// Whether Kubernetes takes it as a namespace's name.
pub fn is_dns_label(name: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| is_alphanumeric(byte) || *byte == b'-')
        && bytes.first().is_some_and(is_alphanumeric)
        && bytes.last().is_some_and(is_alphanumeric)
}

/// Whether Kubernetes takes it as the name of a custom object.
pub fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

#[cfg(test)]
mod tests {
    use super::{is_dns_label, is_dns_subdomain};

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
