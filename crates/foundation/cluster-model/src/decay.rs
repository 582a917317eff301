//! What a queue used, fading with time, and what it saved, in whole numbers: the same on every machine.
//!
//! Both are kept as they were at `since`, with the rates that have held from then on. Nothing is added up while time
//! stands still, so a what-if that is undone leaves no trace, not even in the rounding.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Fixed point with 62 bits after the point; a product of two fits in 128 bits.
const POINT_BITS: u32 = 62;
const ONE: u128 = 1 << POINT_BITS;

/// 1 / ln 2 with 32 bits after the point.
const ONE_OVER_LN_2: u128 = 6_196_328_019;

/// `HALVES[i]` is 2 to the power of −1/2^(i+1), found by taking roots. 32 of them resolve a half-life to 2^-32.
const HALVES: [u128; 32] = halves();

/// One queue's accounts. Amounts are millionths of a GPU second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accounts {
    pub since: Timestamp,
    pub rates: Rates,
    decayed_micros: u128,
    beyond_micros: u128,
    bank_micros: i128,
}

/// The rates since then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rates {
    /// Thousandths of GPUs in use.
    pub gpu_millis: i64,
    /// Those of them beyond the quota.
    pub beyond_millis: i64,
    pub half_life_seconds: u32,
    /// Millionths of a GPU second that are saved (or spent, below zero) each millisecond.
    pub bank_per_millisecond: i64,
    /// The most that is saved.
    pub bank_cap_gpu_seconds: u64,
}

/// A queue's accounts in a form that outlives a leader: their values when the rates last changed. With the rates,
/// their values at any later time follow, so they are written only when rates change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedAccounts {
    /// When that was.
    pub since: Timestamp,
    /// Fading use, in thousandths of a GPU second.
    pub decayed_gpu_milliseconds: u64,
    /// The same for use beyond the quota.
    pub beyond_quota_gpu_milliseconds: u64,
    /// Savings.
    pub bank_gpu_milliseconds: i64,
}

impl Accounts {
    pub fn save(&self) -> SavedAccounts {
        let thousandths = |micros: u128| u64::try_from(micros / 1000).unwrap_or(u64::MAX);
        SavedAccounts {
            since: self.since,
            decayed_gpu_milliseconds: thousandths(self.decayed_micros),
            beyond_quota_gpu_milliseconds: thousandths(self.beyond_micros),
            bank_gpu_milliseconds: i64::try_from(self.bank_micros / 1000).unwrap_or(i64::MAX),
        }
    }

    /// Accounts from saved values, as if these rates had held since then; a time in the future is taken as now.
    pub fn restore(saved: &SavedAccounts, rates: Rates, now: Timestamp) -> Self {
        Self {
            since: saved.since.min(now),
            rates,
            decayed_micros: u128::from(saved.decayed_gpu_milliseconds) * 1000,
            beyond_micros: u128::from(saved.beyond_quota_gpu_milliseconds) * 1000,
            bank_micros: i128::from(saved.bank_gpu_milliseconds.max(0)) * 1000,
        }
    }

    pub fn new(now: Timestamp, rates: Rates) -> Self {
        Self { since: now, rates, decayed_micros: 0, beyond_micros: 0, bank_micros: 0 }
    }

    /// Fading use at a time, in thousandths of a GPU second.
    pub fn decayed_gpu_milliseconds(&self, now: Timestamp) -> u64 {
        let decayed = self.faded(self.decayed_micros, self.rates.gpu_millis, now);
        u64::try_from(decayed / 1000).unwrap_or(u64::MAX)
    }

    /// The same for use beyond the quota.
    pub fn beyond_gpu_milliseconds(&self, now: Timestamp) -> u64 {
        let decayed = self.faded(self.beyond_micros, self.rates.beyond_millis, now);
        u64::try_from(decayed / 1000).unwrap_or(u64::MAX)
    }

    /// The exact amounts, for comparisons: use, use beyond the quota, and savings, in millionths.
    pub fn exactly(&self, now: Timestamp) -> (u128, u128, i128) {
        let used = self.faded(self.decayed_micros, self.rates.gpu_millis, now);
        let beyond = self.faded(self.beyond_micros, self.rates.beyond_millis, now);
        (used, beyond, self.bank_at(now))
    }

    /// What is saved at a time, in whole GPU seconds.
    pub fn bank_gpu_seconds(&self, now: Timestamp) -> i64 {
        i64::try_from(self.bank_at(now) / 1_000_000).unwrap_or(i64::MAX)
    }

    /// When savings that are being spent run out, if nothing changes; to the next second.
    pub fn bank_empty_at(&self, now: Timestamp) -> Option<Timestamp> {
        let spent =
            u128::try_from(-i128::from(self.rates.bank_per_millisecond)).ok().filter(|spent| *spent > 0)?;
        // Less than a GPU second does not count.
        let left = u128::try_from(self.bank_at(now) - 999_999).ok().filter(|left| *left > 0)?;
        let milliseconds = i64::try_from(left.div_ceil(spent)).ok()?;
        let empty = now.as_millisecond().checked_add(milliseconds)?;
        Timestamp::from_second(empty.checked_add(999)?.div_euclid(1000)).ok()
    }

    /// Brings the accounts up to `now`. From then on the new rates hold.
    pub fn settle(&mut self, now: Timestamp, rates: Rates) {
        self.decayed_micros = self.faded(self.decayed_micros, self.rates.gpu_millis, now);
        self.beyond_micros = self.faded(self.beyond_micros, self.rates.beyond_millis, now);
        self.bank_micros = self.bank_at(now).min(cap_micros(&rates));
        self.since = now;
        self.rates = rates;
    }

    /// With `x` GPUs in use and a half-life of `h`, what was `a` is `a·2^(−t/h) + x·(1 − 2^(−t/h))·h/ln 2` after `t`.
    fn faded(&self, micros: u128, gpu_millis: i64, now: Timestamp) -> u128 {
        let milliseconds = self.milliseconds_to(now);
        let half_life = u128::from(self.rates.half_life_seconds) * 1000;
        if milliseconds == 0 {
            return micros;
        }
        if half_life == 0 {
            return 0;
        }
        let left = two_to_minus(milliseconds, half_life);
        let gpu_millis = u128::try_from(gpu_millis).unwrap_or(0);
        // The sum never comes near 2^63 thousandths: this is far below 2^128 after the shift.
        let in_balance = (gpu_millis * half_life * ONE_OVER_LN_2) >> 32;
        times(micros, left) + times(in_balance, ONE - left)
    }

    fn bank_at(&self, now: Timestamp) -> i128 {
        let milliseconds = i128::try_from(self.milliseconds_to(now)).unwrap_or(i128::MAX);
        let saved = i128::from(self.rates.bank_per_millisecond).saturating_mul(milliseconds);
        self.bank_micros.saturating_add(saved).clamp(0, cap_micros(&self.rates))
    }

    fn milliseconds_to(&self, now: Timestamp) -> u128 {
        u128::try_from(now.as_millisecond().saturating_sub(self.since.as_millisecond())).unwrap_or(0)
    }
}

fn cap_micros(rates: &Rates) -> i128 {
    i128::from(rates.bank_cap_gpu_seconds) * 1_000_000
}

/// `amount × factor` for a factor of at most 1. The high and the low half are multiplied apart, so that no amount
/// overflows.
fn times(amount: u128, factor: u128) -> u128 {
    let (high, low) = (amount >> 64, amount & u128::from(u64::MAX));
    ((high * factor) << (64 - POINT_BITS)) + ((low * factor) >> POINT_BITS)
}

/// 2 to the power of `−time / half_life`, with 62 bits after the point.
fn two_to_minus(time: u128, half_life: u128) -> u128 {
    let whole = time / half_life;
    if whole >= u128::from(POINT_BITS) {
        return 0;
    }
    let fraction = ((time % half_life) << 32) / half_life;
    let mut power = ONE;
    for (bit, half) in HALVES.iter().enumerate() {
        if fraction >> (31 - bit) & 1 == 1 {
            power = (power * half) >> POINT_BITS;
        }
    }
    power >> whole
}

const fn halves() -> [u128; 32] {
    let mut halves = [0; 32];
    let (mut power, mut bit) = (ONE / 2, 0);
    while bit < 32 {
        power = root(power << POINT_BITS);
        halves[bit] = power;
        bit += 1;
    }
    halves
}

/// The whole part of a square root, one bit after the other from the top.
const fn root(square: u128) -> u128 {
    let (mut found, mut bit) = (0u128, 1u128 << 63);
    while bit > 0 {
        let try_with = found | bit;
        if try_with * try_with <= square {
            found = try_with;
        }
        bit >>= 1;
    }
    found
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "floating point is what the whole numbers are compared with")]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn powers_of_two_agree_with_floating_point() {
        for (time, half_life) in
            [(0, 7), (1, 7), (7, 7), (10, 7), (604_800_000, 604_800_000), (123, 604_800_000)]
        {
            let found = two_to_minus(time, half_life) as f64 / ONE as f64;
            let expected = (-(time as f64) / half_life as f64).exp2();
            assert!((found - expected).abs() < 1e-8, "{time}/{half_life}: {found} {expected}");
        }
        assert_eq!(two_to_minus(1_000_000, 1), 0);
    }

    #[test]
    fn use_fades_to_half_in_a_half_life_and_tends_to_what_is_in_use() {
        let using = Rates { gpu_millis: 8000, half_life_seconds: 3600, ..Rates::default() };
        let mut accounts = Accounts::new(at(0), using);
        let in_balance = 8.0 * 3600.0 / std::f64::consts::LN_2 * 1000.0;
        let close =
            |found: u64, expected: f64| assert!((found as f64 - expected).abs() < 2.0, "{found} {expected}");
        close(accounts.decayed_gpu_milliseconds(at(3600)), in_balance / 2.0);
        close(accounts.decayed_gpu_milliseconds(at(3600 * 100)), in_balance);
        accounts.settle(at(3600), Rates { gpu_millis: 0, ..using });
        close(accounts.decayed_gpu_milliseconds(at(7200)), in_balance / 4.0);
    }

    #[test]
    fn use_beyond_the_quota_fades_on_its_own() {
        let using =
            Rates { gpu_millis: 8000, beyond_millis: 2000, half_life_seconds: 3600, ..Rates::default() };
        let mut accounts = Accounts::new(at(0), using);
        assert_eq!(
            accounts.beyond_gpu_milliseconds(at(3600)),
            accounts.decayed_gpu_milliseconds(at(3600)) / 4
        );
        let before = accounts.beyond_gpu_milliseconds(at(3600));
        accounts.settle(at(3600), Rates { beyond_millis: 0, ..using });
        assert_eq!(accounts.beyond_gpu_milliseconds(at(3600)), before);
        assert_eq!(accounts.beyond_gpu_milliseconds(at(7200)), before / 2);
    }

    #[test]
    fn a_bank_saves_up_to_its_cap_and_spends_down_to_nothing() {
        let saving = Rates { bank_per_millisecond: 4000, bank_cap_gpu_seconds: 100, ..Rates::default() };
        let mut accounts = Accounts::new(at(0), saving);
        assert_eq!(accounts.bank_gpu_seconds(at(10)), 40);
        assert_eq!(accounts.bank_gpu_seconds(at(1000)), 100);
        accounts.settle(at(10), Rates { bank_per_millisecond: -3000, ..saving });
        assert_eq!(accounts.bank_gpu_seconds(at(20)), 10);
        assert_eq!(accounts.bank_gpu_seconds(at(1000)), 0);
        let empty = accounts.bank_empty_at(at(10)).unwrap();
        assert_eq!(empty, at(24), "40 GPU seconds last for 13.3 seconds");
        assert_eq!(accounts.bank_gpu_seconds(empty), 0);
        assert!(accounts.bank_gpu_seconds(at(23)) > 0);
        assert_eq!(accounts.bank_empty_at(empty), None);
    }
}
