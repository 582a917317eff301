//! How long machines are waited for.

use jiff::SignedDuration;

/// The time from pods on their nodes until work continues: pulling the image, reading the checkpoint.
pub const RESTORE_SECONDS: u32 = 120;

/// On top of twice its boot time, a launch may take this long.
const LATE_SLACK: SignedDuration = SignedDuration::from_secs(60);

/// How long a launch of machines with this boot time may take.
pub fn late_after(boot_seconds: u32) -> SignedDuration {
    SignedDuration::from_secs(2 * i64::from(boot_seconds)) + LATE_SLACK
}
