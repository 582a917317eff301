//! Reads from a kubelet's words why a container does not start, and whether it ever can.
//!
//! A kubelet alternates between `ErrImagePull`, with the registry's answer, and `ImagePullBackOff`, whose message
//! repeats that answer since Kubernetes 1.32. An answer that is not known to be final may pass: a registry that is
//! away must fail no run.

use slim_objects::SlimWaiting;

/// The most characters that are kept of the words. 10,000 members with 4 bytes a character: 12 MB.
const WORDS_MAX: usize = 300;

/// Why a container does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// The kubelet's reason, such as `ImagePullBackOff`.
    pub reason: String,
    /// Its words without what they always begin with: of an image, the registry's answer.
    pub words: String,
    /// Set if the image can never be had.
    pub image: Option<ImageFault>,
}

/// Why an image can never be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFault {
    /// The registry does not have it.
    NotFound,
    /// The registry does not give it to this namespace.
    Denied,
    /// Its reference cannot be read.
    Invalid,
}

impl ImageFault {
    const ALL: [Self; 3] = [Self::NotFound, Self::Denied, Self::Invalid];

    /// The fault whose end of a run has this reason.
    pub fn of_reason(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.reason() == reason)
    }

    /// The reason of a run that ends because of it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "ImageNotFound",
            Self::Denied => "ImageDenied",
            Self::Invalid => "InvalidImage",
        }
    }

    /// What to do next.
    pub fn advice(self) -> &'static str {
        match self {
            Self::NotFound => "push the image or correct `image`, and submit again",
            Self::Denied => {
                "check `image`, or add a pull secret to the namespace's default service account, and retry"
            }
            Self::Invalid => "correct `image`, and submit again",
        }
    }
}

impl Stuck {
    /// What a container waits for; `None` while it is being created, as every container is at first.
    pub fn of(waiting: &SlimWaiting) -> Option<Self> {
        let reason = waiting.reason.clone()?;
        if reason == "ContainerCreating" || reason == "PodInitializing" {
            return None;
        }
        let message = waiting.message.as_deref().unwrap_or_default();
        Some(Self { image: image_fault(&reason, message), words: words(message), reason })
    }

    /// Whether it waits for its image.
    pub fn is_pulling(&self) -> bool {
        is_of_pull(&self.reason)
    }

    /// The reason, and the words if there are any.
    pub fn tell(&self) -> String {
        let Self { reason, words, image: _ } = self;
        if words.is_empty() { reason.clone() } else { format!("{reason}: {words}") }
    }

    /// The words if there are any, else the reason.
    pub fn said(&self) -> &str {
        if self.words.is_empty() { &self.reason } else { &self.words }
    }
}

fn is_of_pull(reason: &str) -> bool {
    matches!(reason, "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable")
}

/// Answers of a registry or of the network that may pass, whatever else the message says.
const MAY_PASS: [&str; 6] =
    ["toomanyrequests", "timeout", "timed out", "deadline exceeded", "no such host", "connection refused"];
/// Final answers. Plain `permission denied` and `not found` are not: they may be about the node's own files.
const FINAL: [(&str, ImageFault); 17] = [
    ("invalid reference format", ImageFault::Invalid),
    ("access denied", ImageFault::Denied),
    ("resource is denied", ImageFault::Denied),
    ("denied on resource", ImageFault::Denied),
    ("401 unauthorized", ImageFault::Denied),
    ("403 forbidden", ImageFault::Denied),
    ("unauthorized: ", ImageFault::Denied),
    ("authorization failed", ImageFault::Denied),
    ("authentication required", ImageFault::Denied),
    ("no basic auth credentials", ImageFault::Denied),
    ("insufficient_scope", ImageFault::Denied),
    ("manifest unknown", ImageFault::NotFound),
    ("manifest_unknown", ImageFault::NotFound),
    ("name unknown", ImageFault::NotFound),
    ("name_unknown", ImageFault::NotFound),
    ("404 not found", ImageFault::NotFound),
    ("no match for platform in manifest", ImageFault::NotFound),
];

fn image_fault(reason: &str, message: &str) -> Option<ImageFault> {
    if reason == "InvalidImageName" {
        return Some(ImageFault::Invalid);
    }
    if !is_of_pull(reason) {
        return None;
    }
    let said = without_names(message);
    if MAY_PASS.iter().any(|answer| said.contains(answer)) || has_status_that_may_pass(&said) {
        return None;
    }
    let known = FINAL.iter().find(|(answer, _)| said.contains(answer)).map(|(_, fault)| *fault);
    // containerd's own words: no tag or digest of that name.
    let is_unresolved = said.contains("failed to resolve") && said.ends_with("not found");
    known.or_else(|| is_unresolved.then_some(ImageFault::NotFound))
}

/// The message in lower case, without quoted parts, addresses and references: an image may be called `denied`.
fn without_names(message: &str) -> String {
    let unquoted: String = message.split('"').step_by(2).collect();
    let kept: Vec<_> = unquoted.split_whitespace().filter(|word| !word.contains('/')).collect();
    kept.join(" ").to_lowercase()
}

/// Whether it has the number of an HTTP status that may pass: 408, 429 or 5xx.
fn has_status_that_may_pass(said: &str) -> bool {
    let numbers = said.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|word| word.parse().ok());
    let statuses = numbers.filter(|status: &u32| matches!(status, 408 | 429 | 500..=599));
    statuses.count() > 0
}

/// What messages about images begin with, and how each of these ends.
const LEADS: [(&str, &str); 7] = [
    ("Back-off pulling image ", "\": "),
    ("ErrImagePull: ", ""),
    ("rpc error: ", " desc = "),
    ("failed to pull and unpack image ", "\": "),
    ("failed to resolve reference ", "\": "),
    ("failed to resolve image ", "\": "),
    ("Failed to apply default image tag ", "\": "),
];

/// The message without its leads, and at most [`WORDS_MAX`] characters of it: the last ones, which say most.
fn words(message: &str) -> String {
    let mut rest = message.trim();
    while let Some(next) = without_lead(rest) {
        rest = next;
    }
    // The query of an address may have a signature.
    let words: Vec<_> = rest.split_whitespace().map(|word| word.split('?').next().unwrap_or(word)).collect();
    let text: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    let extra = text.chars().count().saturating_sub(WORDS_MAX);
    if extra == 0 { text } else { format!("…{}", text.chars().skip(extra + 1).collect::<String>()) }
}

fn without_lead(text: &str) -> Option<&str> {
    LEADS.iter().find_map(|(lead, end)| {
        let rest = text.strip_prefix(lead)?;
        rest.find(end).map(|at| &rest[at + end.len()..])
    })
}

#[cfg(test)]
mod tests;
