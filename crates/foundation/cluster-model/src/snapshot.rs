//! All that one plan was made from, and the plan: what a scheduler dumps and the simulator plans again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::policy::Policy;
use crate::saved::Saved;

/// What the file begins with. Another number is another format.
pub const SNAPSHOT_FORMAT: &str = "warpyard-snapshot/2";

/// See the module. `P` is the plan: [`crate::plan::Plan`] where it is written, and whatever compares it where it is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot<P> {
    /// [`SNAPSHOT_FORMAT`].
    pub format: String,
    /// The version of who wrote it: another version may plan otherwise.
    pub written_by: String,
    /// What the plan was made by.
    pub policy: Policy,
    /// The time that it was made for.
    pub made_at: Timestamp,
    /// What it was made from.
    pub state: Saved,
    /// The plan.
    pub plan: P,
}
