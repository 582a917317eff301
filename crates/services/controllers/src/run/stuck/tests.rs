use super::ImageFault::{Denied, Invalid, NotFound};
use super::{ImageFault, Stuck, WORDS_MAX};
use crate::run::testing::waits;

const LEAD: &str = r#"failed to pull and unpack image "registry.example.com/nlp/train:1": failed to resolve reference "registry.example.com/nlp/train:1": "#;

/// What both of the kubelet's alternating reasons say about this answer of containerd.
fn check(answer: &str, fault: Option<ImageFault>, words: &str) {
    let error = format!("rpc error: code = Unknown desc = {LEAD}{answer}");
    let backoff =
        format!(r#"Back-off pulling image "registry.example.com/nlp/train:1": ErrImagePull: {error}"#);
    for (reason, message) in [("ErrImagePull", &error), ("ImagePullBackOff", &backoff)] {
        let Stuck { image, words: found, .. } = waits(reason, message);
        assert_eq!((image, found.as_str()), (fault, words), "{reason}: {answer}");
    }
}

#[test]
fn an_image_that_the_registry_does_not_have_or_give_is_final() {
    for (answer, fault) in [
        ("registry.example.com/nlp/train:1: not found", NotFound),
        ("manifest unknown: manifest tagged by \"1\" is not found", NotFound),
        ("no match for platform in manifest: not found", NotFound),
        (
            "unexpected status from HEAD request to https://registry.example.com/v2/nlp/train/manifests/1: 404 Not Found",
            NotFound,
        ),
        (
            "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed",
            Denied,
        ),
        (
            "failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://registry.example.com/token: 401 Unauthorized",
            Denied,
        ),
        (
            "unexpected status from HEAD request to https://registry.example.com/v2/nlp/train/manifests/1: 403 Forbidden",
            Denied,
        ),
        ("denied: requested access to the resource is denied", Denied),
    ] {
        check(answer, Some(fault), answer);
    }
}

#[test]
fn a_registry_that_is_away_or_busy_may_come_back() {
    for answer in [
        "unexpected status from HEAD request to https://registry.example.com/v2/nlp/train/manifests/1: 503 Service Unavailable",
        "unexpected status from HEAD request to https://registry.example.com/v2/nlp/train/manifests/1: 429 Too Many Requests - Server message: toomanyrequests: You have reached your unauthenticated pull rate limit.",
        "failed to authorize: failed to fetch oauth token: unexpected status from POST request to https://registry.example.com/token: 502 Bad Gateway: unauthorized: authentication required",
        "failed to do request: Head \"https://registry.example.com/v2/nlp/train/manifests/1\": dial tcp: lookup registry.example.com: no such host",
        "failed to do request: Head \"https://registry.example.com/v2/nlp/train/manifests/1\": dial tcp 192.0.2.7:443: i/o timeout",
        "failed to do request: Head \"https://registry.example.com/v2/nlp/train/manifests/1\": dial tcp 192.0.2.7:443: connect: connection refused",
        "failed to do request: Head \"https://registry.example.com/v2/nlp/train/manifests/1\": net/http: TLS handshake timeout",
        "something that nobody has seen yet",
    ] {
        check(answer, None, answer);
    }
}

#[test]
fn a_reference_that_cannot_be_read_is_final() {
    let message = r#"Failed to apply default image tag "Nlp/Train:1": couldn't parse image name "Nlp/Train:1": invalid reference format: repository name must be lowercase"#;
    let stuck = waits("InvalidImageName", message);
    assert_eq!(stuck.image, Some(Invalid));
    assert_eq!(
        stuck.words,
        r#"couldn't parse image name "Nlp/Train:1": invalid reference format: repository name must be lowercase"#
    );
}

#[test]
fn the_name_of_an_image_is_no_answer() {
    let image = "registry.example.com/manifest unknown/401 unauthorized:1";
    let away = format!(
        r#"failed to pull and unpack image "{image}": failed to resolve reference "{image}": unexpected status from HEAD request to https://registry.example.com/v2/access-denied/500/manifests/1: Gone"#
    );
    assert_eq!(waits("ErrImagePull", &away).image, None);
    let gone = r#"failed to resolve reference "registry.example.com/500:503": registry.example.com/500:503: not found"#;
    assert_eq!(waits("ErrImagePull", gone).image, Some(NotFound), "its tag is no status");
}

#[test]
fn trouble_of_the_node_is_not_the_images() {
    for (reason, message) in [
        ("ErrImagePull", "failed to extract layer sha256:aa: mkdir data: permission denied: unknown"),
        ("ErrImagePull", "failed to extract layer sha256:aa: content digest sha256:bb: not found"),
        ("CreateContainerConfigError", "secret \"token\" not found: manifest unknown"),
        ("ImagePullBackOff", "Back-off pulling image \"registry.example.com/nlp/train:1\""),
    ] {
        assert_eq!(waits(reason, message).image, None, "{message}");
    }
}

#[test]
fn words_are_bounded_and_hold_no_signature() {
    let long = waits("ErrImagePull", &format!("{} the end", "long ".repeat(1000)));
    assert_eq!(long.words.chars().count(), WORDS_MAX);
    assert!(long.words.starts_with('…') && long.words.ends_with("the end"), "{}", long.words);
    let signed = waits("ErrImagePull", "failed: https://registry.example.com/blob?X-Signature=secret gone\n");
    assert_eq!(signed.words, "failed: https://registry.example.com/blob gone");
}

#[test]
fn the_reason_of_a_run_names_the_fault() {
    for fault in [NotFound, Denied, Invalid] {
        assert_eq!(ImageFault::of_reason(fault.reason()), Some(fault));
    }
    assert_eq!(ImageFault::of_reason("NodeLost"), None);
}
