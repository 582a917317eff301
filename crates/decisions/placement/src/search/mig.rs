//! Where an instance is cut on a device: where most is still possible afterwards.
//!
//! On an empty device all starts look alike by count, but are not: one slice at start 0 rules out the four-slice and
//! the whole instance for good. So the number of ways in which the rest could be cut decides.

use std::sync::LazyLock;

use cluster_model::{DevicePart, DeviceState, MigProfile};

/// The start that leaves most ways to cut the rest, of equal ones the last: low starts suit more profiles. `None` if the
/// profile does not fit.
pub(super) fn start(device: DeviceState, profile: MigProfile) -> Option<u8> {
    starts(device, profile).max_by_key(|start| (ways(device.slices_used | profile.mask(*start)), *start))
}

/// How many instances of a profile fit at once. Placements of one profile do not overlap, so it is a count.
pub(super) fn fit(device: DeviceState, profile: MigProfile) -> i64 {
    let starts = i64::try_from(starts(device, profile).count()).unwrap_or(0);
    if profile.takes_media() { starts.min(1) } else { starts }
}

fn starts(device: DeviceState, profile: MigProfile) -> impl Iterator<Item = u8> {
    let fits = move |start: &u8| device.fits(DevicePart::Mig { profile, start: *start });
    profile.starts().iter().copied().filter(fits)
}

/// In how many ways a device can be cut further, not at all included. Whether an instance has the media engines makes no
/// difference to the others.
fn ways(slices_used: u8) -> u16 {
    static WAYS: LazyLock<Vec<u16>> =
        LazyLock::new(|| (0..=u8::MAX).map(|used| count_ways(0, used)).collect());
    WAYS[usize::from(slices_used)]
}

/// The same with nothing cut before `slice`: the slice stays as it is, or something starts there.
fn count_ways(slice: u8, slices_used: u8) -> u16 {
    if slice == 8 {
        return 1;
    }
    let starts_here = |profile: &MigProfile| {
        *profile != MigProfile::G1Media
            && profile.starts().contains(&slice)
            && slices_used & profile.mask(slice) == 0
    };
    let cut = MigProfile::ALL.into_iter().filter(starts_here);
    let ways = cut.map(|it| count_ways(slice + it.slices(), slices_used | it.mask(slice))).sum::<u16>();
    ways + count_ways(slice + 1, slices_used)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(slices_used: u8) -> DeviceState {
        DeviceState { millis_free: 0, slices_used, media_used: false }
    }

    #[test]
    fn an_empty_device_is_cut_where_most_stays_possible() {
        let start_on_empty = |profile| start(DeviceState::FREE, profile);
        let table = [
            (MigProfile::G1, Some(6)),
            (MigProfile::G1Double, Some(6)),
            (MigProfile::G2, Some(4)),
            (MigProfile::G3, Some(4)),
            (MigProfile::G4, Some(0)),
            (MigProfile::G7, Some(0)),
        ];
        for (profile, expected) in table {
            assert_eq!(start_on_empty(profile), expected, "{profile:?}");
        }
    }

    #[test]
    fn the_ways_to_cut_are_those_counted_by_brute_force() {
        let after = |profile: MigProfile, start| ways(profile.mask(start));
        assert_eq!(ways(0), 723);
        assert_eq!((after(MigProfile::G1Double, 6), after(MigProfile::G1Double, 0)), (228, 114));
        assert_eq!((after(MigProfile::G3, 4), after(MigProfile::G3, 0)), (38, 19));
        assert_eq!(after(MigProfile::G7, 0), 1);
    }

    #[test]
    fn what_is_cut_or_shared_decides_what_fits() {
        assert_eq!(fit(DeviceState::FREE, MigProfile::G1), 7);
        assert_eq!(fit(DeviceState::FREE, MigProfile::G1Media), 1);
        assert_eq!(fit(cut(MigProfile::G4.mask(0)), MigProfile::G3), 1);
        assert_eq!(fit(cut(1), MigProfile::G7), 0);
        let shared = DeviceState { millis_free: 900, slices_used: u8::MAX, media_used: true };
        assert_eq!(fit(shared, MigProfile::G1), 0);
        assert_eq!(start(shared, MigProfile::G1), None);
    }
}
