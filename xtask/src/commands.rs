//! Runs other programs from the repository's root.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use toolbox::checkout::repository_root;
use toolbox::figures;

/// `cargo` with these arguments, in the repository's root.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(repository_root());
    command
}

/// Runs the command; anything but success is an error that names it.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = format!("{command:?}");
    let status = command.status().with_context(|| format!("failed to start {name}"))?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok(())
}

/// Like [`run`], and keeps the figures that the command prints.
pub fn run_and_keep_figures(command: &mut Command) -> anyhow::Result<()> {
    run_and_read(command, |line| {
        if !figures::keep(line) {
            println!("{line}");
        }
    })
}

/// Like [`run`], for a command that runs tests. Returns how many passed: filters that select no test make no error.
pub fn run_and_count_tests(command: &mut Command) -> anyhow::Result<usize> {
    let mut passed = 0;
    run_and_read(command, |line| {
        println!("{line}");
        passed += tests_passed(line);
    })?;
    Ok(passed)
}

fn run_and_read(command: &mut Command, mut read: impl FnMut(&str)) -> anyhow::Result<()> {
    let name = format!("{command:?}");
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("failed to start {name}"))?;
    let stdout = child.stdout.take().context("the command has no output to read")?;
    // A test may print bytes that are no text.
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.with_context(|| format!("failed to read what {name} prints"))?;
        read(&String::from_utf8_lossy(&line));
    }
    let status = child.wait().with_context(|| format!("failed to wait for {name}"))?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok(())
}

/// The number of tests that passed, on the line on which a test binary sums up. A server that a test starts may
/// have begun the line.
pub fn tests_passed(line: &str) -> usize {
    let count = line.split_once("test result: ok. ").and_then(|(_, rest)| rest.split_once(" passed;"));
    count.and_then(|(count, _)| count.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{run_and_count_tests, tests_passed};

    #[test]
    fn tests_are_counted_on_the_line_that_sums_up_a_success() {
        let end = "failed; 0 ignored; 0 measured; 3 filtered out; finished in 1.05s";
        assert_eq!(tests_passed(&format!("test result: ok. 22 passed; 0 {end}")), 22);
        assert_eq!(tests_passed(&format!("a server saystest result: ok. 22 passed; 0 {end}")), 22);
        assert_eq!(tests_passed(&format!("test result: ok. 0 passed; 0 {end}")), 0);
        assert_eq!(tests_passed(&format!("test result: FAILED. 21 passed; 1 {end}")), 0);
        assert_eq!(tests_passed("test cluster::a_test_has_passed ... ok"), 0);
    }

    #[test]
    fn tests_of_all_binaries_are_counted_and_a_failed_command_is_an_error() {
        let result = "echo 'test result: ok. 2 passed; 0 failed'";
        let run = |script: &str| run_and_count_tests(Command::new("sh").args(["-c", script])).ok();
        assert_eq!(run(&format!("{result}; printf '\\377\\n'; {result}")), Some(4));
        assert_eq!(run("true"), Some(0));
        assert_eq!(run(&format!("{result}; exit 1")), None);
    }
}
