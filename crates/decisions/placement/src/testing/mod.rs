//! What only tests, comparisons and experiments ask of the planner. Behind the feature `testing`.

mod verdicts;

pub use crate::evict::tidy;
pub use verdicts::verdicts;
