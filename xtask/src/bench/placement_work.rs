//! Runs the example `plan_work` of crate `placement`, alone or under callgrind, and reads its output.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::{num, thread};

use anyhow::{Context, ensure};
use toolbox::checkout::target_folder;

/// One run: the number of nodes, the work, and the number of shapes of nodes. Ordered by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    pub nodes: usize,
    pub work: &'static str,
    pub shapes: usize,
}

/// The output of a run.
pub struct Done {
    pub line: String,
    pub seconds: f64,
    pub on_core_seconds: f64,
    pub pods: f64,
    pub placed: f64,
}

/// The output of a run under callgrind.
pub struct Counted {
    pub pods: f64,
    pub instructions: f64,
}

/// Runs a piece of work once.
pub fn plan(piece: Piece) -> anyhow::Result<Done> {
    let mut command = Command::new(target_folder().join("release/examples/plan_work"));
    let output =
        command.args(piece.arguments()).output().with_context(|| format!("failed to start {command:?}"))?;
    ensure!(output.status.success(), "{command:?} ended with {}", output.status);
    read(String::from_utf8_lossy(&output.stdout).trim())
}

/// Counts the instructions of all pieces, as many at once as there are cores; the largest first, so that the last ones
/// are short.
pub fn count(mut pieces: Vec<Piece>) -> anyhow::Result<BTreeMap<Piece, Counted>> {
    let all = pieces.len();
    pieces.sort_unstable();
    let (left, counted) = (Mutex::new(pieces), Mutex::new(BTreeMap::new()));
    let next = || left.lock().expect("nobody panics with it").pop();
    let work = || -> anyhow::Result<()> {
        while let Some(piece) = next() {
            let done = count_one(piece).with_context(|| format!("failed to count {piece:?}"))?;
            let mut counted = counted.lock().expect("nobody panics with it");
            counted.insert(piece, done);
            eprintln!("counted {} of {all}: {} {} {}", counted.len(), piece.work, piece.nodes, piece.shapes);
        }
        Ok(())
    };
    let cores = thread::available_parallelism().map_or(1, num::NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    Ok(counted.into_inner().expect("nobody panicked with it"))
}

/// Callgrind counts from when the cluster is built on: building it takes longer than the plan, and counting makes it ten
/// times slower.
fn count_one(piece: Piece) -> anyhow::Result<Counted> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"]);
    command.args(["--toggle-collect=*planned_work*", "--toggle-collect=*applied_events*"]);
    command.arg(target_folder().join("release/examples/plan_work")).args(piece.arguments()).arg("wait");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("failed to start valgrind")?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let said = run_when_ready(child.id(), stdin.context("no stdin")?, stdout.context("no stdout")?);
    let output = child.wait_with_output().context("failed to wait for valgrind")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {stderr}", output.status);
    let count = stderr.lines().find_map(|line| line.split_once("Collected : "));
    let (_, count) = count.with_context(|| format!("callgrind does not say what it counted: {stderr}"))?;
    Ok(Counted { pods: read(said?.trim())?.pods, instructions: count.trim().parse()? })
}

/// Waits until the example has built its cluster, turns counting on, lets it go on, and returns its output.
fn run_when_ready(pid: u32, mut stdin: ChildStdin, stdout: ChildStdout) -> anyhow::Result<String> {
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    stdout.read_line(&mut line).context("failed to read what the example says")?;
    ensure!(line.trim() == "ready", "the example says {line:?} instead of `ready`");
    let on = Command::new("callgrind_control").args(["--instr=on", &pid.to_string()]).output();
    let on = on.context("failed to start callgrind_control")?;
    ensure!(on.status.success(), "callgrind_control: {}", String::from_utf8_lossy(&on.stderr));
    stdin.write_all(b"go\n").context("failed to let the example go on")?;
    let mut said = String::new();
    stdout.read_to_string(&mut said).context("failed to read what the example says")?;
    Ok(said)
}

impl Piece {
    fn arguments(self) -> [String; 3] {
        [self.work.to_owned(), self.nodes.to_string(), self.shapes.to_string()]
    }
}

fn read(line: &str) -> anyhow::Result<Done> {
    let value = |key: &str| -> anyhow::Result<f64> {
        let found = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        Ok(found.with_context(|| format!("no {key} in {line}"))?.parse()?)
    };
    Ok(Done {
        line: line.to_owned(),
        seconds: value("seconds")?,
        on_core_seconds: value("on_core")?,
        pods: value("pods")?,
        placed: value("placed")?,
    })
}
