use std::fs;

use clap::Parser;

use crate::args::{Cli, Command, OutputFormat};
use crate::exit::{Exit, Failure, Output};

fn run(arguments: &[&str]) -> Result<Output, Failure> {
    let all = ["warpyard", "simulate"].iter().chain(arguments).copied();
    let cli = Cli::try_parse_from(all).expect("valid arguments");
    let Command::Simulate(args) = cli.command else { panic!("not simulate") };
    super::simulate(cli.global.output, &args)
}

#[test]
fn made_up_jobs_are_printed_as_a_table_and_reported_as_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.html");
    let output = run(&["--jobs", "200", "--nodes", "4", "--report", report.to_str().unwrap()]).unwrap();
    assert!(
        output.stdout.starts_with("Workload      made-up jobs: 200 jobs on 4 nodes with 32 GPUs, seed 42\n")
    );
    assert!(output.stdout.contains("Jobs          200, 200 ended\n"), "{}", output.stdout);
    let page = fs::read_to_string(report).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.matches("<svg").count() >= 6);
    // The report fetches nothing.
    for outside in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_saved_trace_gives_the_same_figures_again() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let trace = trace.to_str().unwrap();
    let made_up =
        run(&["--jobs", "300", "--failure-days", "3", "--save-trace", trace, "-o", "json"]).unwrap();
    let read = run(&[trace, "-o", "json"]).unwrap();
    let summary = |output: &Output| {
        let value: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        value["summary"].clone()
    };
    assert_eq!(summary(&made_up), summary(&read));
    assert_eq!(summary(&read)["jobsEnded"], 300);
}

#[test]
fn a_policy_comes_from_a_file_and_single_settings_win() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    fs::write(&file, "base: fifo\nreclaim: true\n").unwrap();
    let file = file.to_str().unwrap();
    let output = run(&["--jobs", "50", "--policy", file, "--set", "reclaim=false", "-o", "json"]).unwrap();
    assert!(output.stdout.contains("reclaim=false"), "{}", output.stdout);
    for (arguments, expect) in [
        (vec!["--policy", "magic"], "there is no policy `magic`"),
        (vec!["--set", "order=random"], "order is `random`, and must be age"),
        (vec!["--set", "order"], "write it as KEY=VALUE"),
        (vec!["no-such-trace.jsonl"], "cannot read no-such-trace.jsonl"),
    ] {
        let failure = run(&arguments).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains(expect), "{}", failure.message);
    }
}

#[test]
fn a_snapshot_has_a_policy_of_its_own_and_says_so() {
    for arguments in [["--set", "reclaim=true"], ["--policy", "fifo"]] {
        let failure = run(&[["--snapshot", "no-such-file"], arguments].concat()).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains("with the policy in the snapshot"), "{}", failure.message);
        assert!(failure.hint.is_some_and(|hint| hint.contains("--record")));
    }
}

#[test]
fn csv_is_refused() {
    let cli = Cli::try_parse_from(["warpyard", "simulate", "-o", "csv"]).unwrap();
    assert_eq!(cli.global.output, OutputFormat::Csv);
    assert_eq!(run(&["-o", "csv"]).unwrap_err().exit, Exit::Usage);
}
