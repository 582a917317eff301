//! A quick hash for keys that no outsider chooses: the states of our own nodes. It draws no random seed.

use std::hash::{BuildHasherDefault, Hasher};

/// For [`std::collections::HashMap`].
pub(crate) type QuickHash = BuildHasherDefault<Quick>;

/// The golden ratio as a fraction of 2^64: its multiples are spread evenly.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quick(u64);

impl Quick {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(SPREAD);
    }
}

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        // The map looks at the highest and the lowest bits; products leave the lowest ones poor.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.add(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.add(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write_i64(&mut self, number: i64) {
        self.add(number.cast_unsigned());
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }
}
