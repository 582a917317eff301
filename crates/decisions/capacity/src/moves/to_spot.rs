//! Back to spot, or to other spot: only where it stands, and only for as long as spot lasts.

use jiff::Timestamp;

use crate::View;
use crate::claim::Launch;
use crate::launches::late_after;
use crate::memory::Memory;
use crate::spot::lifetimes::PRIOR_UP_SECONDS;

/// For how long a launch of spot machines is good; `None` if one of them was refused of late. After a failure as much time must
/// have passed as a launch may take, and as it was dry before: leaving on-demand machines for spot that is still dry costs two
/// changeovers for nothing.
pub(super) fn seconds(view: &View<'_>, memory: &Memory, launch: &Launch) -> Option<i64> {
    let stands = launch.machines.iter().filter(|(offer, _)| offer.place.is_spot()).all(|(offer, _)| {
        let boot = view.catalogue.get(&offer.machine).map_or(0, |machine| machine.boot_seconds);
        let stands = |failed: Timestamp| {
            let dry = failed.duration_since(memory.failing_since(offer).unwrap_or(failed));
            view.now.duration_since(failed) >= late_after(boot).max(dry)
        };
        memory.last_failure(offer).is_none_or(stands)
    });
    // Nobody has seen it for long.
    stands.then_some(i64::from(PRIOR_UP_SECONDS))
}
