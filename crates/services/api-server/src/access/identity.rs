//! The caller, as Kubernetes knows them, and how to act as them.
//!
//! ```text
//!   TokenReview ──► UserInfo ──► Identity ──► fingerprint           (key of cached decisions)
//!                      │                └───► impersonation headers (writes)
//!                      └─ refused: no name, `system:…` that is no service account
//! ```

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::UserInfo;
use sha2::{Digest, Sha256};

use crate::names::is_dns_label;

/// A caller whose token was accepted.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    username: String,
    uid: Option<String>,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
    is_service_account: bool,
    fingerprint: Fingerprint,
    token_expires_at: Option<Timestamp>,
}

/// SHA-256 of everything that an authorizer may look at.
pub type Fingerprint = [u8; 32];

/// Why an authenticated user may not use this API.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The name is empty; acting as nobody would mean acting as this server.
    #[error("the token belongs to a user without a name")]
    NoName,
    /// A component of Kubernetes, or a user with such a name.
    #[error("`{0}` is a name of Kubernetes itself; only people and service accounts may use this API")]
    SystemUser(String),
    /// A name, group, UID or extra that cannot be sent unchanged in a header.
    #[error("the {0} cannot be sent in a header as it is")]
    NotSendable(&'static str),
}

impl Identity {
    /// The identity in a TokenReview's answer, or a refusal.
    pub fn new(user: UserInfo) -> Result<Self, Error> {
        let username = user.username.unwrap_or_default();
        if username.is_empty() {
            return Err(Error::NoName);
        }
        let is_service_account = is_service_account(&username);
        if username.starts_with("system:") && !is_service_account {
            return Err(Error::SystemUser(username));
        }
        let uid = user.uid.filter(|uid| !uid.is_empty());
        let groups = user.groups.unwrap_or_default();
        let extra = user.extra.unwrap_or_default();
        let fingerprint = fingerprint(&username, uid.as_deref(), &groups, &extra);
        let identity =
            Self { username, uid, groups, extra, is_service_account, fingerprint, token_expires_at: None };
        // Otherwise the caller would learn late, from a strange error, that they cannot write.
        identity.impersonation_headers()?;
        Ok(identity)
    }

    /// The same user, with a token that expires at this time.
    #[must_use]
    pub fn expiring(mut self, token_expires_at: Option<Timestamp>) -> Self {
        self.token_expires_at = token_expires_at;
        self
    }

    /// When the token expires, if it says so.
    pub fn token_expires_at(&self) -> Option<Timestamp> {
        self.token_expires_at
    }

    /// The user's name.
    pub fn username(&self) -> &str {
        &self.username
    }

    /// The user's UID, if the authenticator knows one.
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    /// The user's groups.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// The extras from the authenticator.
    pub fn extra(&self) -> &BTreeMap<String, Vec<String>> {
        &self.extra
    }

    /// Identifies the user together with groups and extras.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Groups that are not sent and that Kubernetes does not add by itself: their rights do not count for
    /// writes.
    pub fn groups_left_out(&self) -> Vec<&str> {
        const ADDED_BY_KUBERNETES: [&str; 2] = ["system:authenticated", "system:serviceaccounts"];
        self.groups
            .iter()
            .map(String::as_str)
            .filter(|group| group.starts_with("system:"))
            .filter(|group| !ADDED_BY_KUBERNETES.contains(group))
            .filter(|group| !self.is_service_account || !group.starts_with("system:serviceaccounts:"))
            .collect()
    }

    /// The headers that make a request impersonate this user.
    ///
    /// For a service account only the name is sent: kube-apiserver adds the groups, and with constrained
    /// impersonation accepts nothing else. For others, groups of Kubernetes itself (`system:…`) are left out.
    pub fn impersonation_headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        headers.append("impersonate-user", header_value(&self.username, "user name")?);
        if self.is_service_account {
            return Ok(headers);
        }
        if let Some(uid) = &self.uid {
            headers.append("impersonate-uid", header_value(uid, "UID")?);
        }
        for group in self.groups.iter().filter(|group| !group.starts_with("system:")) {
            headers.append("impersonate-group", header_value(group, "group")?);
        }
        for (key, values) in &self.extra {
            let name = HeaderName::try_from(format!("impersonate-extra-{}", percent_encode(key)))
                .map_err(|_| Error::NotSendable("extra's key"))?;
            for value in values {
                headers.append(name.clone(), header_value(value, "extra")?);
            }
        }
        Ok(headers)
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("username", &self.username).finish_non_exhaustive()
    }
}

/// `system:serviceaccount:<namespace>:<name>`, as strictly as kube-apiserver reads it.
fn is_service_account(username: &str) -> bool {
    let Some(rest) = username.strip_prefix("system:serviceaccount:") else { return false };
    let mut parts = rest.split(':');
    matches!(
        (parts.next(), parts.next(), parts.next()),
        (Some(namespace), Some(name), None) if is_dns_label(namespace) && crate::names::is_dns_subdomain(name)
    )
}

/// A value that arrives unchanged: HTTP trims white space at both ends, and an empty value means "not given".
fn header_value(value: &str, what: &'static str) -> Result<HeaderValue, Error> {
    if value.is_empty() || value.trim_matches([' ', '\t']) != value {
        return Err(Error::NotSendable(what));
    }
    HeaderValue::from_bytes(value.as_bytes()).map_err(|_| Error::NotSendable(what))
}

/// Escapes characters that a header's name may not contain, and `%` itself; kube-apiserver unescapes them.
fn percent_encode(key: &str) -> String {
    use std::fmt::Write;
    key.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("writing to a string does not fail");
        }
        text
    })
}

fn fingerprint(
    username: &str,
    uid: Option<&str>,
    groups: &[String],
    extra: &BTreeMap<String, Vec<String>>,
) -> Fingerprint {
    // Every part is hashed with its length, so that no two users have the same bytes.
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    part(username);
    part(uid.unwrap_or_default());
    part(&groups.len().to_string());
    for group in groups {
        part(group);
    }
    for (key, values) in extra {
        part(key);
        part(&values.len().to_string());
        for value in values {
            part(value);
        }
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::{Error, Identity, UserInfo};

    fn user(username: &str, groups: &[&str], extra: &[(&str, &[&str])]) -> UserInfo {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        UserInfo {
            username: Some(username.to_owned()),
            uid: Some("u-1".to_owned()),
            groups: Some(owned(groups)),
            extra: Some(extra.iter().map(|(key, values)| ((*key).to_owned(), owned(values))).collect()),
        }
    }

    fn headers(user: UserInfo) -> Vec<String> {
        let headers = Identity::new(user).expect("accepted").impersonation_headers().expect("sendable");
        headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().expect("the test's values are ASCII")))
            .collect()
    }

    #[test]
    fn a_person_is_sent_with_groups_uid_and_extras_but_without_system_groups() {
        let alice = user(
            "alice@example.com",
            &["nlp", "system:authenticated", "system:masters"],
            &[("example.com/project", &["a", "b"]), ("odd key%", &["c"])],
        );
        assert_eq!(
            headers(alice),
            [
                "impersonate-user: alice@example.com",
                "impersonate-uid: u-1",
                "impersonate-group: nlp",
                "impersonate-extra-example.com%2fproject: a",
                "impersonate-extra-example.com%2fproject: b",
                "impersonate-extra-odd%20key%25: c",
            ]
        );
    }

    #[test]
    fn a_service_account_is_sent_by_its_name_alone() {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:nlp", "system:authenticated"];
        let bot = user(
            "system:serviceaccount:nlp:bot",
            &groups,
            &[("authentication.kubernetes.io/pod-uid", &["1"])],
        );
        assert_eq!(headers(bot), ["impersonate-user: system:serviceaccount:nlp:bot"]);
    }

    #[test]
    fn names_of_kubernetes_and_names_that_would_change_on_the_way_are_refused() {
        for name in
            ["system:admin", "system:node:a", "system:serviceaccount:nlp", "system:serviceaccount:a:b:c"]
        {
            assert_eq!(
                Identity::new(user(name, &[], &[])),
                Err(Error::SystemUser(name.to_owned())),
                "{name}"
            );
        }
        assert_eq!(Identity::new(user("", &[], &[])), Err(Error::NoName));
        for name in [" alice", "alice\t", "ali\nce"] {
            assert_eq!(Identity::new(user(name, &[], &[])), Err(Error::NotSendable("user name")), "{name:?}");
        }
        assert_eq!(Identity::new(user("alice", &[""], &[])), Err(Error::NotSendable("group")));
    }

    #[test]
    fn two_users_share_a_fingerprint_only_if_an_authorizer_cannot_tell_them_apart() {
        let fingerprint = |user| Identity::new(user).expect("accepted").fingerprint();
        let same = fingerprint(user("alice", &["a", "b"], &[("k", &["v"])]));
        assert_eq!(same, fingerprint(user("alice", &["a", "b"], &[("k", &["v"])])));
        for other in [
            user("alic", &["a", "b"], &[("k", &["v"])]),
            user("alice", &["ab"], &[("k", &["v"])]),
            user("alice", &["a"], &[("b", &["v"])]),
            user("alice", &["a", "b"], &[("k", &["w"])]),
            user("alice", &["a", "b"], &[]),
        ] {
            assert_ne!(same, fingerprint(other));
        }
    }

    #[test]
    fn rights_that_come_by_groups_of_kubernetes_are_named_as_left_out() {
        let admin = Identity::new(user("alice", &["system:masters", "system:authenticated", "nlp"], &[]));
        assert_eq!(admin.expect("accepted").groups_left_out(), ["system:masters"]);
    }
}
