//! Which machines to buy, keep and let go, at what price, and why. Decisions only: it never buys, never reads a clock, and
//! knows no cloud.

pub mod demand;
pub mod mix;
pub mod offering;
