//! Changes effects on their way, to prove that the check notices errors.

use cluster_model::plan::Effect;
use seeded_random::Random;

use crate::objects::pick;
use crate::view::Asked;

/// How the effects of each plan are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tampering {
    /// Not at all.
    None,
    /// Each is sent twice. Effects are safe to repeat, so the result must be the same.
    Double,
    /// Binds and evictions of all earlier plans are sent again, after the cluster has changed. They name pods
    /// by UID and Holds by their end, so they must change nothing.
    Stale,
    /// One effect is lost. The check must find it.
    Drop,
    /// A Hold of an earlier plan that is over is written again. Only the fence stops a former leader from doing
    /// this, so the check must find it.
    StaleHold,
}

/// The effects that are sent instead of those of the plan.
pub(crate) struct Sent {
    pub effects: Vec<Effect>,
    /// The error that the check must find.
    pub wrong: Option<String>,
}

impl Tampering {
    /// Every way to tamper.
    pub const ALL: [Self; 5] = [Self::None, Self::Double, Self::Stale, Self::Drop, Self::StaleHold];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Double => "double",
            Self::Stale => "stale",
            Self::Drop => "drop",
            Self::StaleHold => "stale-hold",
        }
    }

    /// The tampering with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The tampering of a seed, if seeds take all in turn.
    pub fn of_turn(seed: u64) -> Self {
        Self::ALL[usize::try_from(seed % 5).unwrap_or(0)]
    }

    pub(crate) fn apply(
        self,
        effects: Vec<Effect>,
        before: &[Effect],
        asked: &Asked,
        random: &mut Random,
    ) -> Sent {
        let right = |effects| Sent { effects, wrong: None };
        match self {
            Self::None => right(effects),
            Self::Double => right(effects.iter().chain(&effects).cloned().collect()),
            Self::Stale => {
                let of_pods = |effect: &&Effect| matches!(effect, Effect::Bind(_) | Effect::Evict(_));
                right(before.iter().filter(of_pods).cloned().chain(effects).collect())
            }
            Self::Drop if effects.is_empty() => right(effects),
            Self::Drop => {
                let mut left = effects;
                let lost = left.remove(pick(random, u64::try_from(left.len()).unwrap_or(u64::MAX)));
                Sent { effects: left, wrong: Some(format!("lost {lost:?}")) }
            }
            Self::StaleHold => {
                let is_over = |effect: &&Effect| matches!(effect, Effect::WriteHold(hold) if !asked.holds.contains_key(&hold.gang));
                let Some(over) = before.iter().find(is_over).cloned() else { return right(effects) };
                let wrong = Some(format!("wrote again {over:?}"));
                Sent { effects: effects.into_iter().chain([over]).collect(), wrong }
            }
        }
    }
}
