//! Renders logs: `11:30:09.204 2/1 text` is attempt 2, member 1. Pure, apart from its memory of shown lines.

use std::collections::{BTreeMap, BTreeSet};

use api_types::RunPhase;
use api_types::logs::{AttemptLogs, FailedMember, LogLine, RunLogs};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::render::{clean, counted};

/// Prints logs, and remembers the shown lines so that none is shown twice.
#[derive(Debug, Default)]
pub struct Printer {
    /// By attempt and member: the time of the last line, and the number of lines with that time.
    seen: BTreeMap<(u32, u32), (Timestamp, usize)>,
    marked: BTreeSet<u32>,
    said: BTreeSet<String>,
    day: Option<Date>,
    /// The greatest width of `attempt/member` so far.
    width: usize,
}

impl Printer {
    /// The new lines of an answer. The member of an attempt that failed first is marked where it ended.
    pub fn lines(&mut self, logs: &RunLogs) -> String {
        let mut rows: Vec<Row> = self.unseen(logs).into_iter().map(Row::of).collect();
        for attempt in &logs.attempts {
            if let Some(first) = &attempt.first_failed
                && self.marked.insert(attempt.number)
            {
                insert_mark(&mut rows, attempt.number, first);
            }
        }
        let widest = rows.iter().map(|row| row.source().len()).max().unwrap_or(0);
        self.width = self.width.max(widest);
        rows.iter().map(|row| self.line(row)).collect()
    }

    /// The lines of an answer that no earlier answer had.
    pub fn unseen<'a>(&mut self, logs: &'a RunLogs) -> Vec<&'a LogLine> {
        let before = self.seen.clone();
        let mut repeated: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        let mut unseen = Vec::new();
        for line in &logs.lines {
            let (source, at) = ((line.attempt, line.member), time(&line.at));
            if let Some((last, count)) = before.get(&source) {
                if at < *last {
                    continue;
                }
                let repeats = repeated.entry(source).or_default();
                if at == *last && *repeats < *count {
                    *repeats += 1;
                    continue;
                }
            }
            let (last, count) = self.seen.entry(source).or_insert((at, 0));
            if at > *last {
                (*last, *count) = (at, 0);
            }
            *count += 1;
            unseen.push(line);
        }
        unseen
    }

    /// The time of the newest line that was shown.
    pub fn seen_until(&self) -> Option<Timestamp> {
        self.seen.values().map(|(last, _)| *last).max()
    }

    /// Notes on the logs, each once.
    pub fn notes(&mut self, logs: &RunLogs) -> String {
        // Nothing is missing of an attempt whose lines were shown before its pods went.
        let was_shown = |attempt: &AttemptLogs| self.seen.keys().any(|(of, _)| *of == attempt.number);
        let unseen: Vec<&AttemptLogs> = logs.attempts.iter().filter(|attempt| !was_shown(attempt)).collect();
        let mut notes: Vec<String> = gone(&unseen).into_iter().collect();
        for attempt in &logs.attempts {
            if attempt.members_gone > 0 && !was_shown(attempt) {
                let pods = counted(attempt.members_gone.into(), "pod");
                let are = if attempt.members_gone == 1 { "is" } else { "are" };
                notes.push(format!("attempt {}: {pods} of its members {are} gone.", attempt.number));
            }
            for missing in &attempt.missing {
                notes
                    .push(format!("attempt {}, member {}: {}.", attempt.number, missing.member, missing.why));
            }
        }
        if logs.members_left_out > 0 {
            notes.push(format!("{} more members: see --member and --attempt.", logs.members_left_out));
        }
        match logs.phase {
            RunPhase::Paused => notes.push("The run is paused; `warpyard resume` continues it.".to_owned()),
            RunPhase::Pending => notes.push("The run waits; `warpyard why` says why.".to_owned()),
            _ => {}
        }
        notes.retain(|note| self.said.insert(note.clone()));
        notes.iter().map(|note| clean(note) + "\n").collect()
    }

    fn line(&mut self, row: &Row) -> String {
        let local = TimeZone::UTC.to_datetime(row.at);
        let day = if self.day.replace(local.date()) == Some(local.date()) {
            String::new()
        } else {
            format!("{} UTC\n", local.date())
        };
        let clock = format!("{}.{:03}", local.strftime("%H:%M:%S"), local.subsec_nanosecond() / 1_000_000);
        let line = format!("{clock} {:<width$} {}", row.source(), printable(&row.text), width = self.width);
        format!("{day}{}\n", line.trim_end())
    }
}

/// Tabs are common in logs, and harmless.
fn printable(text: &str) -> String {
    clean(&text.replace('\t', "    "))
}

/// A line of a member, or a mark.
struct Row {
    at: Timestamp,
    attempt: u32,
    member: u32,
    text: String,
}

impl Row {
    fn of(line: &LogLine) -> Self {
        Self { at: time(&line.at), attempt: line.attempt, member: line.member, text: line.text.clone() }
    }

    fn source(&self) -> String {
        format!("{}/{}", self.attempt, self.member)
    }
}

/// Puts the mark after the member's last line; if it has none here, by the time of its end.
fn insert_mark(rows: &mut Vec<Row>, attempt: u32, first: &FailedMember) {
    let last = rows.iter().rposition(|row| (row.attempt, row.member) == (attempt, first.member));
    let ended = first.at.as_deref().map(time);
    let place = last.map_or_else(
        || ended.map_or(rows.len(), |ended| rows.partition_point(|row| row.at <= ended)),
        |last| last + 1,
    );
    let at = last.map(|last| rows[last].at).or(ended).or(rows.last().map(|row| row.at)).unwrap_or_default();
    let code = first.exit_code.map_or("ended".to_owned(), |code| format!("exited with {code}"));
    let why = first.reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
    let text = format!("✗ {code}{why}: the first of attempt {attempt} to fail");
    rows.insert(place, Row { at, attempt, member: first.member, text });
}

fn gone(attempts: &[&AttemptLogs]) -> Option<String> {
    let gone: Vec<String> =
        attempts.iter().filter(|attempt| attempt.gone).map(|attempt| attempt.number.to_string()).collect();
    match gone.as_slice() {
        [] => None,
        [one] => Some(format!("attempt {one}: its pods are gone, and their logs with them.")),
        several => {
            Some(format!("attempts {}: their pods are gone, and their logs with them.", several.join(", ")))
        }
    }
}

/// A text that is not a time counts as the oldest time.
fn time(text: &str) -> Timestamp {
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use api_types::RunPhase;
    use api_types::logs::{AttemptLogs, FailedMember, LogLine, MissingLog, RunLogs};

    use super::Printer;

    fn line(clock: &str, attempt: u32, member: u32, text: &str) -> LogLine {
        LogLine { at: format!("2026-01-01T{clock}Z"), attempt, member, text: text.to_owned() }
    }

    fn attempt(number: u32) -> AttemptLogs {
        AttemptLogs { number, gone: false, members_gone: 0, first_failed: None, missing: vec![] }
    }

    fn failed(member: u32) -> FailedMember {
        let at = Some("2026-01-01T11:30:09Z".to_owned());
        FailedMember { member, at, exit_code: Some(1), reason: Some("Error".to_owned()) }
    }

    fn logs(lines: Vec<LogLine>, attempts: Vec<AttemptLogs>) -> RunLogs {
        RunLogs { phase: RunPhase::Running, lines, attempts, members_left_out: 0 }
    }

    #[test]
    fn lines_have_clock_attempt_and_member_and_the_first_failure_is_marked_where_it_ended() {
        let lines = vec![
            line("11:30:08.113", 2, 0, "step 1938"),
            line("11:30:09.204", 2, 11, "RuntimeError: CUDA error"),
            line("11:30:10.02", 2, 0, "connection reset"),
            LogLine { at: "2026-01-02T00:00:00Z".to_owned(), ..line("", 3, 0, "") },
        ];
        let attempts = vec![AttemptLogs { first_failed: Some(failed(11)), ..attempt(2) }, attempt(3)];
        insta::assert_snapshot!(Printer::default().lines(&logs(lines, attempts)), @r"
        2026-01-01 UTC
        11:30:08.113 2/0  step 1938
        11:30:09.204 2/11 RuntimeError: CUDA error
        11:30:09.204 2/11 ✗ exited with 1 (Error): the first of attempt 2 to fail
        11:30:10.020 2/0  connection reset
        2026-01-02 UTC
        00:00:00.000 3/0
        ");
    }

    #[test]
    fn a_member_that_printed_nothing_is_marked_by_the_time_of_its_end_and_once() {
        let lines = vec![line("11:30:08", 2, 0, "a"), line("11:30:10", 2, 0, "b")];
        let answer = logs(lines, vec![AttemptLogs { first_failed: Some(failed(1)), ..attempt(2) }]);
        let mut printer = Printer::default();
        insta::assert_snapshot!(printer.lines(&answer), @r"
        2026-01-01 UTC
        11:30:08.000 2/0 a
        11:30:09.000 2/1 ✗ exited with 1 (Error): the first of attempt 2 to fail
        11:30:10.000 2/0 b
        ");
        assert_eq!(printer.lines(&answer), "");
    }

    #[test]
    fn what_was_shown_is_not_shown_again_also_when_lines_share_a_time_or_come_late() {
        let mut printer = Printer::default();
        let mut show = |lines: Vec<LogLine>| {
            let answer = logs(lines, vec![]);
            printer.unseen(&answer).iter().map(|line| line.text.clone()).collect::<Vec<_>>()
        };
        let (a, b) = (line("11:00:01", 1, 0, "a"), line("11:00:02", 1, 0, "b"));
        let (same, late) = (line("11:00:02", 1, 0, "same"), line("11:00:01.5", 1, 1, "late"));
        assert_eq!(show(vec![a.clone(), b.clone()]), ["a", "b"]);
        assert_eq!(show(vec![a.clone(), b.clone()]), Vec::<String>::new());
        assert_eq!(show(vec![a, late, b, same.clone()]), ["late", "same"]);
        assert_eq!(show(vec![same]), Vec::<String>::new());
        assert_eq!(printer.seen_until().map(|at| at.to_string()).as_deref(), Some("2026-01-01T11:00:02Z"));
    }

    #[test]
    fn what_is_missing_is_said_once() {
        let missing = MissingLog { member: 3, why: "its machine did not answer in time".to_owned() };
        let gone = |number| AttemptLogs { gone: true, ..attempt(number) };
        let attempts =
            vec![gone(1), gone(2), AttemptLogs { missing: vec![missing], members_gone: 1, ..attempt(3) }];
        let answer = RunLogs { members_left_out: 38, phase: RunPhase::Paused, ..logs(vec![], attempts) };
        let mut printer = Printer::default();
        insta::assert_snapshot!(printer.notes(&answer), @r"
        attempts 1, 2: their pods are gone, and their logs with them.
        attempt 3: 1 pod of its members is gone.
        attempt 3, member 3: its machine did not answer in time.
        38 more members: see --member and --attempt.
        The run is paused; `warpyard resume` continues it.
        ");
        assert_eq!(printer.notes(&answer), "");
        let shown = logs(vec![line("11:00:01", 1, 0, "a")], vec![attempt(1)]);
        let mut follower = Printer::default();
        follower.lines(&shown);
        assert_eq!(follower.notes(&logs(vec![], vec![gone(1)])), "", "it was shown before it went");
        let one = logs(vec![], vec![gone(1)]);
        assert_eq!(printer.notes(&one), "attempt 1: its pods are gone, and their logs with them.\n");
    }

    #[test]
    fn what_members_print_cannot_steer_the_terminal() {
        let answer = logs(vec![line("11:00:01", 1, 0, "a\u{1b}[2Jb\rc\td")], vec![]);
        assert!(Printer::default().lines(&answer).ends_with("a\u{fffd}[2Jb\u{fffd}c    d\n"));
    }
}
