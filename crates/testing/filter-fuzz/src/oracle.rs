//! The oracle's process: cases go in, answers come out, in the same order.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};

use crate::case::{Answer, Case};

/// A running oracle. It ends when this is dropped, because its input does.
pub struct Oracle {
    child: Child,
    cases: Option<BufWriter<ChildStdin>>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts the program at `path`.
    pub fn start(path: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the oracle {}", path.display()))?;
        let cases = child.stdin.take().context("the oracle has no input")?;
        let answers = child.stdout.take().context("the oracle has no output")?;
        Ok(Self { child, cases: Some(BufWriter::new(cases)), answers: BufReader::new(answers) })
    }

    /// The answer to one case.
    pub fn ask(&mut self, case: &Case) -> anyhow::Result<Answer> {
        let cases = self.cases.as_mut().context("the oracle's input is closed")?;
        write(cases, case)?;
        cases.flush().context("cannot ask the oracle")?;
        read(&mut self.answers)
    }

    /// Asks about the case of every seed in turn. A second thread makes and writes the cases: the pipes hold
    /// only a few, so writing all of them before reading would wait for ever.
    pub fn ask_all(
        &mut self,
        seeds: impl Iterator<Item = u64> + Clone + Send,
        case_of: impl Fn(u64) -> Case + Sync,
        mut on_answer: impl FnMut(u64, Answer) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Self { child, cases, answers } = self;
        let mut open = cases.take().context("the oracle's input is closed")?;
        let asked = seeds.clone();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| -> anyhow::Result<_> {
                for seed in asked {
                    write(&mut open, &case_of(seed))?;
                }
                open.flush().context("cannot ask the oracle")?;
                Ok(open)
            });
            let heard = seeds.into_iter().try_for_each(|seed| on_answer(seed, read(answers)?));
            if heard.is_err() {
                // Otherwise the writer waits for an oracle that waits for a reader.
                child.kill().context("cannot end the oracle")?;
                return heard;
            }
            let written = writer.join().ok().context("the thread that asks the oracle panicked")?;
            *cases = Some(written?);
            Ok(())
        })
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.cases.take());
        // It may be in the middle of an answer that nobody reads any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(cases: &mut impl Write, case: &Case) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *cases, case).context("cannot ask the oracle")?;
    cases.write_all(b"\n").context("cannot ask the oracle")
}

fn read(answers: &mut impl BufRead) -> anyhow::Result<Answer> {
    let mut line = String::new();
    let length = answers.read_line(&mut line).context("cannot read the oracle's answer")?;
    ensure!(length > 0, "the oracle ended without an answer; it says why above");
    serde_json::from_str(&line).with_context(|| format!("cannot understand the oracle's answer {line}"))
}
