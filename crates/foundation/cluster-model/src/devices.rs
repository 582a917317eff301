//! Devices of *Exact* nodes, and what a pod asks of one.
//!
//! A device has 8 memory slices and 1000 thousandths. A whole GPU takes all of both; a share takes thousandths of one
//! device; a MIG instance takes the slices of one of its legal placements. A device that is shared by thousandths is
//! not cut into instances at the same time.

use serde::{Deserialize, Serialize};

/// What a member asks of devices, beyond the number of whole GPUs in its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeviceAsk {
    /// Whole GPUs, as many as its requests say; perhaps none.
    #[default]
    Whole,
    /// Thousandths of one device, 1 to 999.
    Share {
        /// How many.
        millis: u16,
    },
    /// One MIG instance.
    Mig {
        /// Its profile.
        profile: MigProfile,
    },
}

/// A MIG profile by its slices; names and memory differ by product and driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MigProfile {
    /// One compute slice, one memory slice.
    G1,
    /// One compute slice, one memory slice, with the media engines, which a device has once.
    G1Media,
    /// One compute slice, two memory slices.
    G1Double,
    /// Two compute slices, two memory slices.
    G2,
    /// Three compute slices, four memory slices.
    G3,
    /// Four compute slices, four memory slices.
    G4,
    /// The whole device, as an instance.
    G7,
}

/// What a pod has of one device of an Exact node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceUse {
    /// The device's index on its node.
    pub device: u8,
    /// Which part.
    pub part: DevicePart,
}

/// What is left of one device of an Exact node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceState {
    /// Thousandths that can be shared out; none while it is cut into instances.
    pub millis_free: u16,
    /// Memory slices that no instance can take, one bit each; all while it is shared out in thousandths.
    pub slices_used: u8,
    /// Whether no further instance with the media engines is possible.
    pub media_used: bool,
}

impl DeviceState {
    /// A device that is not in use.
    pub const FREE: Self = Self { millis_free: 1000, slices_used: 0, media_used: false };

    /// Whether it is not in use.
    pub fn is_free(&self) -> bool {
        *self == Self::FREE
    }

    /// Whether a part is available.
    pub fn fits(&self, part: DevicePart) -> bool {
        match part {
            DevicePart::Whole => self.is_free(),
            DevicePart::Millis(millis) => millis <= self.millis_free,
            DevicePart::Mig { profile, start } => {
                profile.starts().contains(&start)
                    && self.slices_used & profile.mask(start) == 0
                    && !(self.media_used && profile.takes_media())
            }
        }
    }

    /// The device after a part of it was taken, if that part is available.
    pub fn without(&self, part: DevicePart) -> Option<Self> {
        self.fits(part).then(|| match part {
            DevicePart::Whole => Self { millis_free: 0, slices_used: u8::MAX, media_used: true },
            DevicePart::Millis(millis) => {
                Self { millis_free: self.millis_free - millis, slices_used: u8::MAX, media_used: true }
            }
            DevicePart::Mig { profile, start } => Self {
                millis_free: 0,
                slices_used: self.slices_used | profile.mask(start),
                media_used: self.media_used || profile.takes_media(),
            },
        })
    }
}

/// What pods say they use of one device. It is counted and not only marked, because two pods that say the same leave
/// one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceTally {
    whole: u32,
    millis: u32,
    slices: [u32; 8],
    media: u32,
}

impl DeviceTally {
    pub fn count(&mut self, part: DevicePart, add: bool) {
        let count = |counter: &mut u32, by: u32| *counter = if add { *counter + by } else { *counter - by };
        match part {
            DevicePart::Whole => count(&mut self.whole, 1),
            DevicePart::Millis(millis) => count(&mut self.millis, u32::from(millis)),
            DevicePart::Mig { profile, start } => {
                let mask = profile.mask(start);
                let taken = self.slices.iter_mut().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
                taken.for_each(|(_, slice)| count(slice, 1));
                if profile.takes_media() {
                    count(&mut self.media, 1);
                }
            }
        }
    }

    pub fn state(&self) -> DeviceState {
        let mask = self.mask();
        if self.whole > 0 {
            return DeviceState { millis_free: 0, slices_used: u8::MAX, media_used: true };
        }
        let millis_free = u16::try_from(1000u32.saturating_sub(self.millis)).unwrap_or(0);
        DeviceState {
            millis_free: if mask == 0 { millis_free } else { 0 },
            slices_used: if self.millis == 0 { mask } else { u8::MAX },
            media_used: self.millis > 0 || self.media > 0,
        }
    }

    /// Whether parts of it are in use, so that it does not count as a whole GPU.
    pub fn is_in_parts(&self) -> bool {
        self.millis > 0 || self.mask() != 0
    }

    fn mask(&self) -> u8 {
        (0..8u8).filter(|bit| self.slices[usize::from(*bit)] > 0).fold(0, |mask, bit| mask | 1 << bit)
    }
}

/// A part of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DevicePart {
    /// All of it.
    Whole,
    /// Thousandths.
    Millis(u16),
    /// A MIG instance.
    Mig {
        /// Its profile.
        profile: MigProfile,
        /// Its first memory slice.
        start: u8,
    },
}

impl MigProfile {
    /// All profiles.
    pub const ALL: [Self; 7] =
        [Self::G1, Self::G1Media, Self::G1Double, Self::G2, Self::G3, Self::G4, Self::G7];

    /// Memory slices it takes.
    pub fn slices(self) -> u8 {
        match self {
            Self::G1 | Self::G1Media => 1,
            Self::G1Double | Self::G2 => 2,
            Self::G3 | Self::G4 => 4,
            Self::G7 => 8,
        }
    }

    /// The memory slices at which it may start.
    pub fn starts(self) -> &'static [u8] {
        match self {
            Self::G1 | Self::G1Media => &[0, 1, 2, 3, 4, 5, 6],
            Self::G1Double => &[0, 2, 4, 6],
            Self::G2 => &[0, 2, 4],
            Self::G3 => &[0, 4],
            Self::G4 | Self::G7 => &[0],
        }
    }

    /// Whether it takes the media engines, which a device has once.
    pub fn takes_media(self) -> bool {
        matches!(self, Self::G1Media | Self::G7)
    }

    /// The slices it takes at a start, one bit each.
    pub fn mask(self, start: u8) -> u8 {
        let width = u32::from(self.slices());
        let ones = if width == 8 { u8::MAX } else { (1u8 << width) - 1 };
        // An invalid start shifts everything out, or cuts off what is beyond the last slice.
        ones.checked_shl(u32::from(start)).unwrap_or(0)
    }
}
