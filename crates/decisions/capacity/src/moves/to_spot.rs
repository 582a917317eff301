//! Back to spot, or to other spot: only where spot lasts, and only for as long as it does.

use jiff::Timestamp;

use crate::claim::Launch;
use crate::launches::late_after;
use crate::memory::Memory;
use crate::spot::lifetimes::PRIOR_UP_SECONDS;
use crate::view::View;

/// For how long a launch of spot machines is valid; `None` if one of them was refused recently. After a failure, the
/// time of a launch must have passed, and as much time as it was dry before: to leave on-demand machines for spot
/// that is still dry costs two changeovers for nothing.
pub(super) fn seconds(view: &View<'_>, memory: &Memory, launch: &Launch) -> Option<i64> {
    let stands = launch.machines.iter().filter(|(offer, _)| offer.place.is_spot()).all(|(offer, _)| {
        let boot = view.catalogue.get(&offer.machine).map_or(0, |machine| machine.boot_seconds);
        let stands = |failed: Timestamp| {
            let dry = failed.duration_since(memory.failing_since(offer).unwrap_or(failed));
            view.now.duration_since(failed) >= late_after(boot).max(dry)
        };
        memory.last_failure(offer).is_none_or(stands)
    });
    // It was not seen for long.
    stands.then_some(i64::from(PRIOR_UP_SECONDS))
}
