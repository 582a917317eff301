//! Everything that one plan was made from, and the plan: a scheduler dumps it, and the simulator plans it again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::policy::Policy;
use crate::saved::Saved;

/// What the file begins with. Another number is another format.
pub const SNAPSHOT_FORMAT: &str = "warpyard-snapshot/2";

/// See the module. `P` is the plan: [`crate::plan::Plan`] where it is written, and any type that is compared where it
/// is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot<P> {
    /// [`SNAPSHOT_FORMAT`].
    pub format: String,
    /// The version of the program that wrote it: another version may plan differently.
    pub written_by: String,
    /// The policy that the plan was made by.
    pub policy: Policy,
    /// The time for which the plan was made.
    pub made_at: Timestamp,
    /// The state that the plan was made from.
    pub state: Saved,
    /// The plan.
    pub plan: P,
}
