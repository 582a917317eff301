mod cases;
mod judge;
mod mixes;
mod solver;
mod verdict;
