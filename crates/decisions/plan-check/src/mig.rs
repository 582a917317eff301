//! Instances of divided GPUs: how wide they are, and where they may start.

use cluster_model::MigProfile;

/// The memory slices of an instance, one bit each; more than eight if it reaches past the end.
pub(crate) fn slices(profile: MigProfile, start: u8) -> u16 {
    let (width, _) = geometry(profile);
    ((1u16 << width) - 1) << start.min(8)
}

/// Memory slices of a profile.
pub(crate) fn slices_of(profile: MigProfile) -> u8 {
    geometry(profile).0
}

/// Memory slices of a profile, and where it may start, as the vendor's tools list them.
pub(crate) fn geometry(profile: MigProfile) -> (u8, &'static [u8]) {
    match profile {
        MigProfile::G1 | MigProfile::G1Media => (1, &[0, 1, 2, 3, 4, 5, 6]),
        MigProfile::G1Double => (2, &[0, 2, 4, 6]),
        MigProfile::G2 => (2, &[0, 2, 4]),
        MigProfile::G3 => (4, &[0, 4]),
        MigProfile::G4 => (4, &[0]),
        MigProfile::G7 => (8, &[0]),
    }
}
