//! Published experiments on public traces, and some of our own, with the code that runs in production. Texts and seeds in,
//! figures out.

mod days;
pub mod energy;
pub mod eta;
pub mod spot;
pub mod thrash;
pub mod why;
pub mod x1;
pub mod x2;
pub mod x3;
pub mod x6;
