//! Lines of several members in the order of their times. Pure.

use api_types::logs::LogLine;
use jiff::Timestamp;

/// One member of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The attempt.
    pub attempt: u32,
    /// The member.
    pub member: u32,
}

/// A line and when it was printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedLine {
    /// The time, by the clock of its machine.
    pub at: Timestamp,
    /// Without the line end.
    pub text: String,
}

/// The lines of a log with times, as Kubernetes gives it: `2026-01-01T00:00:00.000000001Z text`. A line without
/// a time gets the time of the line before it; at the very beginning, that of the first line with one.
pub fn parse(log: &str) -> Vec<TimedLine> {
    let read: Vec<(Option<Timestamp>, &str)> = log.lines().map(time_and_text).collect();
    let mut at = read.iter().find_map(|(at, _)| *at).unwrap_or(Timestamp::UNIX_EPOCH);
    read.into_iter()
        .map(|(own, text)| {
            at = own.unwrap_or(at);
            TimedLine { at, text: text.to_owned() }
        })
        .collect()
}

fn time_and_text(line: &str) -> (Option<Timestamp>, &str) {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    first.parse().map_or((None, line), |at| (Some(at), rest))
}

/// All lines by time. At the same time, those of the older attempt and the lower member come first. Lines of
/// one member stay in order even if its clock goes back.
pub fn merge(logs: Vec<(Source, Vec<TimedLine>)>) -> Vec<LogLine> {
    let mut lines: Vec<(Timestamp, Source, TimedLine)> = Vec::new();
    for (source, log) in logs {
        let mut latest = Timestamp::MIN;
        for line in log {
            latest = latest.max(line.at);
            lines.push((latest, source, line));
        }
    }
    // Stable: lines of one member at the same time stay in order.
    lines.sort_by_key(|(latest, source, _)| (*latest, *source));
    let lines = lines.into_iter().map(|(_, source, line)| LogLine {
        at: line.at.to_string(),
        attempt: source.attempt,
        member: source.member,
        text: line.text,
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::{Source, merge, parse};

    fn source(attempt: u32, member: u32) -> Source {
        Source { attempt, member }
    }

    /// Attempt, member and text of each line.
    fn merged(logs: &[(Source, &str)]) -> Vec<String> {
        let logs = logs.iter().map(|(source, log)| (*source, parse(log))).collect();
        merge(logs).iter().map(|line| format!("{}/{} {}", line.attempt, line.member, line.text)).collect()
    }

    fn second(second: u32, text: &str) -> String {
        format!("2026-01-01T00:00:{second:02}.5Z {text}\n")
    }

    #[test]
    fn members_and_attempts_are_on_one_clock() {
        let zero = second(1, "a") + &second(4, "d");
        let one = second(2, "b") + &second(3, "c");
        let later = second(5, "e");
        let logs =
            [(source(2, 0), later.as_str()), (source(1, 1), one.as_str()), (source(1, 0), zero.as_str())];
        assert_eq!(merged(&logs), ["1/0 a", "1/1 b", "1/1 c", "1/0 d", "2/0 e"]);
    }

    #[test]
    fn of_the_same_time_the_older_attempt_and_the_lower_member_come_first() {
        let (x, two) = (second(1, "x"), second(1, "x") + &second(1, "y"));
        let logs = [(source(2, 0), x.as_str()), (source(1, 1), two.as_str()), (source(1, 0), x.as_str())];
        assert_eq!(merged(&logs), ["1/0 x", "1/1 x", "1/1 y", "2/0 x"]);
    }

    #[test]
    fn lines_without_a_time_stay_with_the_line_before() {
        let one = format!("without\n{}Traceback\n  in f\n{}", second(1, "error"), second(3, "end"));
        let other = second(2, "other");
        let logs = [(source(1, 0), one.as_str()), (source(1, 1), other.as_str())];
        assert_eq!(
            merged(&logs),
            ["1/0 without", "1/0 error", "1/0 Traceback", "1/0   in f", "1/1 other", "1/0 end"]
        );
    }

    #[test]
    fn a_clock_that_goes_back_does_not_turn_lines_around() {
        let one = second(5, "a") + &second(1, "b");
        let other = second(3, "c");
        let logs = [(source(1, 0), one.as_str()), (source(1, 1), other.as_str())];
        assert_eq!(merged(&logs), ["1/1 c", "1/0 a", "1/0 b"]);
        let lines = merge(vec![(source(1, 0), parse(&one))]);
        assert_eq!(lines[1].at, "2026-01-01T00:00:01.5Z", "what it said is told as it was");
    }

    #[test]
    fn text_is_kept_as_it_is() {
        for (log, expect) in [
            ("2026-01-01T00:00:00Z   two  blanks ", "  two  blanks "),
            ("2026-01-01T00:00:00.000000001Z", ""),
            ("2026-01-01T00:00:00Z 2026 was a year", "2026 was a year"),
            ("2026 was a year", "2026 was a year"),
            ("2026-01-01T00:00:00Z windows\r\n", "windows"),
        ] {
            assert_eq!(parse(log)[0].text, expect, "{log}");
        }
        assert!(parse("").is_empty());
    }
}
