//! Windows of spot markets: the "Can't Be Late" traces, re-encoded so that 1 means that spot is there.
//!
//! Windows overlap: each is a part of one series of its zone. The series are put together again here, so that only
//! what is before a window in time can be learned from.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Error, number, rows};

const SINGLE_COLUMNS: [&str; 5] = ["env", "window", "gap_seconds", "start_tick", "available_bits"];
const MULTI_COLUMNS: [&str; 6] =
    ["zone", "window", "gap_seconds", "start_time", "available_bits", "spot_price_rle"];

/// What was seen of one zone and type from a moment on, one look per tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The zone and type.
    pub zone: Arc<str>,
    /// Its number; those of the same number are of the same time.
    pub number: u32,
    /// Time between looks.
    pub tick_seconds: u32,
    /// The first look, in seconds since some beginning.
    pub start: i64,
    /// Whether there was spot.
    pub available: Vec<bool>,
    /// Its price per hour in micro-units, if the trace has prices: as many as looks.
    pub spot_micros: Vec<u64>,
}

/// Reads windows of single zones, without prices.
pub fn read_single(text: &str) -> Result<Vec<Window>, Error> {
    let window = |(line, fields): (usize, Vec<&str>)| {
        let tick_seconds: u32 = number(line, "gap_seconds", fields[2])?;
        let start_tick: u32 = number(line, "start_tick", fields[3])?;
        Ok(Window {
            zone: fields[0].into(),
            number: number(line, "window", fields[1])?,
            tick_seconds,
            start: i64::from(start_tick) * i64::from(tick_seconds),
            available: bits(line, fields[4])?,
            spot_micros: Vec::new(),
        })
    };
    rows(text, &SINGLE_COLUMNS)?.map(|row| row.and_then(window)).collect()
}

/// Reads windows of many zones at the same times, with prices.
pub fn read_multi(text: &str) -> Result<Vec<Window>, Error> {
    let window = |(line, fields): (usize, Vec<&str>)| {
        let available = bits(line, fields[4])?;
        let spot_micros = prices(line, fields[5])?;
        if spot_micros.len() != available.len() {
            let message = format!("{} prices for {} looks", spot_micros.len(), available.len());
            return Err(Error { line, message });
        }
        Ok(Window {
            zone: fields[0].into(),
            number: number(line, "window", fields[1])?,
            tick_seconds: number(line, "gap_seconds", fields[2])?,
            start: moment(line, fields[3])?,
            available,
            spot_micros,
        })
    };
    rows(text, &MULTI_COLUMNS)?.map(|row| row.and_then(window)).collect()
}

/// The series that windows of one zone are parts of, on a grid of ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpotSeries {
    /// By the number of the tick since the beginning of time.
    looks: BTreeMap<i64, bool>,
    tick_seconds: i64,
}

impl SpotSeries {
    /// Puts the windows together. Starts are rounded to the grid; apart from that, overlapping windows agree.
    pub fn of<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Self {
        let mut series = Self::default();
        for window in windows {
            series.tick_seconds = i64::from(window.tick_seconds.max(1));
            let first = series.tick_at(window.start);
            series.looks.extend((first..).zip(window.available.iter().copied()));
        }
        series
    }

    /// What was seen in the ticks before the one that holds a moment, with the seconds at which it was.
    pub fn before(&self, moment: i64) -> impl Iterator<Item = (i64, bool)> {
        self.looks.range(..self.tick_at(moment)).map(|(tick, is_up)| (tick * self.tick_seconds, *is_up))
    }

    /// The nearest tick.
    fn tick_at(&self, moment: i64) -> i64 {
        (2 * moment + self.tick_seconds).div_euclid(2 * self.tick_seconds.max(1))
    }
}

fn bits(line: usize, text: &str) -> Result<Vec<bool>, Error> {
    let bit = |byte| match byte {
        b'0' => Ok(false),
        b'1' => Ok(true),
        _ => Err(Error { line, message: "available_bits has something else than 0 and 1".to_owned() }),
    };
    text.bytes().map(bit).collect()
}

/// `1.5521x105;1.5271x60`: a price and how many looks it held.
fn prices(line: usize, text: &str) -> Result<Vec<u64>, Error> {
    let mut prices = Vec::new();
    for part in text.split(';') {
        let (price, count) = part
            .split_once('x')
            .ok_or_else(|| Error { line, message: format!("`{part}` is not a price and a count") })?;
        let count: usize = number(line, "spot_price_rle", count)?;
        prices.extend(std::iter::repeat_n(micros(line, price)?, count));
    }
    Ok(prices)
}

/// A decimal of at most six places, exactly.
fn micros(line: usize, text: &str) -> Result<u64, Error> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 6 {
        return Err(Error { line, message: format!("the price `{text}` has more than six places") });
    }
    let whole: u64 = number(line, "spot_price_rle", whole)?;
    let fraction: u64 = number(line, "spot_price_rle", &format!("{fraction:0<6}"))?;
    Ok(whole * 1_000_000 + fraction)
}

fn moment(line: usize, text: &str) -> Result<i64, Error> {
    let civil: Result<jiff::civil::DateTime, _> = text.parse();
    civil
        .and_then(|civil| jiff::tz::Offset::UTC.to_timestamp(civil))
        .map(jiff::Timestamp::as_second)
        .map_err(|_| Error { line, message: format!("start_time is `{text}`, which is not a time") })
}

#[cfg(test)]
mod tests {
    use super::{SpotSeries, read_multi, read_single};

    #[test]
    fn one_means_that_spot_is_there() {
        let text = "env,window,gap_seconds,start_tick,available_bits\na,0,600,3,0110\n";
        let windows = read_single(text).unwrap();
        assert_eq!(windows[0].available, [false, true, true, false]);
        assert_eq!((windows[0].start, windows[0].tick_seconds), (1_800, 600));
    }

    #[test]
    fn prices_are_unrolled_exactly() {
        let text = "zone,window,gap_seconds,start_time,available_bits,spot_price_rle\n\
            a,7,195,1970-01-01T00:01:00,011,1.5521x2;0.918x1\n";
        let windows = read_multi(text).unwrap();
        assert_eq!(windows[0].spot_micros, [1_552_100, 1_552_100, 918_000]);
        assert_eq!(windows[0].start, 60);
        let error = read_multi(&text.replace("x2", "x3")).unwrap_err();
        assert_eq!(error.to_string(), "line 2: 4 prices for 3 looks");
    }

    #[test]
    fn a_series_tells_what_was_before_and_nothing_of_what_comes() {
        let text = "env,window,gap_seconds,start_tick,available_bits\na,0,600,3,0110\na,1,600,5,1011\n";
        let windows = read_single(text).unwrap();
        let series = SpotSeries::of(&windows);
        let before: Vec<_> = series.before(windows[1].start).collect();
        assert_eq!(before, [(1_800, false), (2_400, true)]);
        assert_eq!(series.before(windows[0].start).count(), 0);
    }
}
