//! The size of a run.

/// How much of each part is run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Names the run.
    pub seed: u64,
    /// Whether it is only a tenth.
    pub rehearse: bool,
}

impl Size {
    /// All, or a tenth, rounded up.
    pub fn of(self, all: usize) -> usize {
        if self.rehearse { all.div_ceil(10) } else { all }
    }
}
