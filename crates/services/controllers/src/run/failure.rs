//! Judges failures: one of the machines costs nothing; one of the Run itself costs a retry or ends it.

use api_types::names::REQUEUE_EXIT_CODE;
use jiff::Timestamp;

use super::cause::{Interruption, Verdict};
use super::interruption::behind_failure;
use super::member::Member;
use super::memory::Exhausted;
use super::sight::Sight;
use crate::nodes::NodesByName;

/// A member failed by itself.
pub const MEMBER_FAILED: &str = "MemberFailed";
/// A member ran out of memory.
pub const OUT_OF_MEMORY: &str = "OutOfMemory";
/// The Run has used up its time.
pub const TIME_LIMIT: &str = "TimeLimitExceeded";

/// Judges an attempt whose Job failed. `why` is the Job controller's reason, in case no pod is left.
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

/// The first failure, as the pods show it, or as it was recorded before the pod was gone.
pub fn first_failure(sight: Sight<'_>) -> Option<(String, String)> {
    seen_failure(sight).or_else(|| {
        let old = sight.run.status.as_ref()?;
        let known = [MEMBER_FAILED, OUT_OF_MEMORY, TIME_LIMIT];
        let reason = old.reason.as_ref().filter(|reason| known.contains(&reason.as_str()))?;
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
    if let Some(exhausted) = exhausted(first) {
        return Some((OUT_OF_MEMORY.to_owned(), format!("{} {}", first.place(), exhausted.tell())));
    }
    Some((MEMBER_FAILED.to_owned(), first.failure()?))
}

/// The member that failed first. Deleted pods were ended because of the one that was not deleted. Times are
/// whole seconds, so ties are likely: a member without memory is named before those that failed because of it,
/// and then the lowest index.
fn first(sight: Sight<'_>) -> Option<&Member> {
    let when = |pod: &&Member| pod.exit.as_ref().and_then(|exit| exit.at).unwrap_or(Timestamp::MAX);
    let failed = sight.own_pods().filter(|pod| pod.failed_itself());
    failed.min_by_key(|pod| (pod.deleted, when(pod), exhausted(pod).is_none(), pod.index))
}

fn exhausted(pod: &Member) -> Option<&Exhausted> {
    pod.exit.as_ref()?.exhausted.as_ref()
}

fn failed_by_themselves(sight: Sight<'_>) -> impl Iterator<Item = &Member> {
    sight.own_pods().filter(|pod| pod.failed_itself() && !pod.deleted)
}

#[cfg(test)]
mod tests;
