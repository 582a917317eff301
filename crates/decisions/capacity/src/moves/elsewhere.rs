//! A gang that is alone on its machines, and would get cheaper ones if it waited for machines now.

use std::collections::BTreeMap;

use cluster_model::ClusterState;

use super::alternative::{Alternative, in_words};
use super::candidate::Candidate;
use super::to_spot;
use super::worth::MoveStakes;
use crate::buy::buy;
use crate::claim::Purpose;
use crate::launches::RESTORE_SECONDS;
use crate::memory::Memory;
use crate::view::View;

/// What `buy` would buy for it, on a copy of the state in which it waits.
pub(super) fn offer(
    view: &View<'_>,
    memory: &Memory,
    candidate: &Candidate<'_>,
    copy: &ClusterState,
) -> Option<Alternative> {
    let mover = candidate.movers.first().filter(|_| candidate.may_buy)?;
    let as_if = View { state: copy, ..*view };
    let launches = buy(&as_if, &BTreeMap::new(), memory).launches;
    let launch = launches.into_iter().find(|it| it.key.purpose == Purpose::Gang(mover.gang.clone()))?;
    let boot_seconds = launch.ready_by.as_second() - view.now.as_second();
    let has_spot = launch.machines.iter().any(|(offer, _)| offer.place.is_spot());
    let seconds = if has_spot { to_spot::seconds(view, memory, &launch)? } else { i64::MAX };
    let stakes = MoveStakes {
        old_micros: candidate.old_micros,
        new_micros: launch.price_micros,
        seconds: seconds.min(mover.seconds_left),
        changeover_seconds: boot_seconds + i64::from(RESTORE_SECONDS),
        changeover_micros: launch.price_micros,
        lost_seconds: candidate.lost_seconds(),
        lost_micros: candidate.used_micros,
    };
    let words = format!("{}, instead of {}", launch.why, in_words(view, &candidate.leaves));
    Some(Alternative { stakes, words })
}
