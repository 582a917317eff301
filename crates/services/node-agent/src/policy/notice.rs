//! A machine that leaves.

use jiff::{SignedDuration, Timestamp};

use super::words::{Condition, Said, Words};
use crate::finding::{Due, Notice, NoticeKind, View};

/// The words about notices; `None` if nothing is known yet.
///
/// ```text
///             notice is due within the lead              notice withdrawn, all sources answer
///   no taint ───────────────────────────────► leaving ─────────────────────────────────────► no taint
/// ```
pub(super) fn words(said: Said, view: &View<Notice>, lead: SignedDuration, now: Timestamp) -> Option<Words> {
    let mut coming: Vec<(Timestamp, &Notice)> =
        view.found.iter().map(|notice| (deadline(notice, said, now), notice)).collect();
    coming.sort();
    let leaves = |(at, notice): &&(Timestamp, &Notice)| {
        notice.kind == NoticeKind::Spot
            || notice.kind == NoticeKind::Maintenance && at.duration_since(now) <= lead
    };
    let goes = coming.iter().find(leaves);
    if let Some((at, notice)) = goes {
        let reason = if notice.kind == NoticeKind::Spot { "SpotInterruption" } else { "Maintenance" };
        let message = format!("{} Nothing new is placed here.", sentence(*at, notice));
        return Some(Words {
            taint: notice.kind.taint_value(),
            annotation: Some(at.to_string()),
            condition: Some(Condition { status: "True", reason, message }),
        });
    }
    if !view.complete || said.is_by_others() {
        return None;
    }
    let later = coming.iter().find(|(_, notice)| notice.kind == NoticeKind::Maintenance);
    let condition = match (later, coming.first()) {
        (Some((at, notice)), _) => Condition {
            status: "True",
            reason: "MaintenanceScheduled",
            message: format!("{} The machine stays in use until shortly before.", sentence(*at, notice)),
        },
        (None, Some((_, advice))) => Condition {
            status: "False",
            reason: "Advice",
            message: format!("{}. The machine stays in use.", advice.what),
        },
        (None, None) => Condition {
            status: "False",
            reason: "NoNotice",
            message: "The cloud has announced nothing for this machine.".to_owned(),
        },
    };
    Some(Words { taint: None, annotation: None, condition: Some(condition) })
}

/// The deadline of a notice. Without a time it counts from the first report, which the Node keeps over restarts
/// of the agent.
fn deadline(notice: &Notice, said: Said, now: Timestamp) -> Timestamp {
    match notice.due {
        Due::At(at) => at,
        Due::Within(time) => {
            let is_told = said.taint.is_some() && said.taint == notice.kind.taint_value();
            let told = said.annotation.filter(|_| is_told).and_then(|text| text.parse().ok());
            // Whole seconds, as the clouds themselves write.
            let seconds = now.as_second().saturating_add(time.as_secs());
            let latest = Timestamp::from_second(seconds).unwrap_or(now);
            // The reported notice may have been another one with a later time.
            told.map_or(latest, |told: Timestamp| told.min(latest))
        }
    }
}

fn sentence(at: Timestamp, notice: &Notice) -> String {
    format!("{}, by {at}.", notice.what)
}
