//! Whose failure it was: the machines', which costs nothing, or the Run's own, which costs a retry or ends it.

use api_types::names::REQUEUE_EXIT_CODE;
use jiff::Timestamp;

use super::interruption::{Interruption, behind_failure};
use super::member::Member;
use super::sight::Sight;
use crate::nodes::NodesByName;

/// A member failed by itself.
pub const MEMBER_FAILED: &str = "MemberFailed";
/// The Run has used up its time.
pub const TIME_LIMIT: &str = "TimeLimitExceeded";

/// What a failed attempt means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Another attempt, for free.
    Interrupted(Interruption),
    /// Another attempt if a retry is left.
    Failed(Interruption),
    /// No further attempt: its own rules or its time limit say so.
    Final(Interruption),
}

/// Judges an attempt whose Job failed. `why` is the Job controller's word, for when no pod is left to tell.
pub fn judge(sight: Sight<'_>, nodes: &NodesByName, why: &str) -> Verdict {
    if let Some(outside) = behind_failure(sight, nodes) {
        return Verdict::Interrupted(outside);
    }
    let (reason, message) =
        first_failure(sight).unwrap_or_else(|| ("JobFailed".to_owned(), format!("the Job failed ({why})")));
    let failure = Interruption { reason, message };
    if failure.reason == TIME_LIMIT {
        return Verdict::Final(failure);
    }
    let codes = || failed_by_themselves(sight).filter_map(|pod| pod.exit.as_ref()).map(|exit| exit.code);
    if let Some(code) = codes().find(|code| sight.run.spec.fail_on.contains(code)) {
        let message = format!("{}; code {code} is in failOn", failure.message);
        return Verdict::Final(Interruption { message, ..failure });
    }
    if first(sight).and_then(|pod| pod.exit.as_ref()).is_some_and(|exit| exit.code == REQUEUE_EXIT_CODE) {
        return Verdict::Interrupted(Interruption::new("Requeued", "saved, and asked to be queued again"));
    }
    Verdict::Failed(failure)
}

/// The failure that came first, as the pods tell it, else as it was told before the pod was gone.
pub fn first_failure(sight: Sight<'_>) -> Option<(String, String)> {
    seen_failure(sight).or_else(|| {
        let old = sight.run.status.as_ref()?;
        let reason =
            old.reason.as_ref().filter(|reason| [MEMBER_FAILED, TIME_LIMIT].contains(&reason.as_str()))?;
        Some((reason.clone(), old.message.clone()?))
    })
}

fn seen_failure(sight: Sight<'_>) -> Option<(String, String)> {
    let first = first(sight)?;
    if first.reason.as_deref() == Some("DeadlineExceeded") {
        let limit =
            sight.run.spec.time_limit_seconds.map(|limit| format!(" of {limit} s")).unwrap_or_default();
        return Some((
            TIME_LIMIT.to_owned(),
            format!("member {} ran past the run's time limit{limit}", first.index),
        ));
    }
    Some((MEMBER_FAILED.to_owned(), first.failure()?))
}

/// The member that failed first. The pods that were deleted were ended because of the one that was not. Times are whole
/// seconds, so ties are likely; they are broken by index.
fn first(sight: Sight<'_>) -> Option<&Member> {
    let when = |pod: &&Member| pod.exit.as_ref().and_then(|exit| exit.at).unwrap_or(Timestamp::MAX);
    let failed = sight.own_pods().filter(|pod| pod.failed_itself());
    failed.min_by_key(|pod| (pod.deleted, when(pod), pod.index))
}

fn failed_by_themselves(sight: Sight<'_>) -> impl Iterator<Item = &Member> {
    sight.own_pods().filter(|pod| pod.failed_itself() && !pod.deleted)
}

#[cfg(test)]
mod tests;
