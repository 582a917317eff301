//! `warpyard simulate`: reads a trace or makes one up, runs it on a virtual clock, prints a table, writes a report.

mod args;
mod policy;
mod read;
mod show;
mod snapshot;

pub use args::{Format, SimulateArgs};

use std::fs;
use std::io::Write;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use simulator::report::{self, Title};
use simulator::{Happening, Options, Simulation, Watch};
use trace_format::{Workload, json_lines};

use crate::args::OutputFormat;
use crate::exit::{Exit, Failure, Output};
use crate::print::print;

/// The bar moves after this many ended jobs.
const BAR_STEP: u64 = 256;

/// Simulates, and shows the outcome.
pub fn simulate(format: OutputFormat, args: &SimulateArgs) -> Result<Output, Failure> {
    if matches!(format, OutputFormat::Csv | OutputFormat::Name) {
        return Err(Failure::new(Exit::Usage, "a simulation is printed as a table, JSON or YAML")
            .hint("leave -o out, or give -o json"));
    }
    if let Some(path) = &args.snapshot {
        if !args.set.is_empty() || args.policy != args::POLICY_DEFAULT {
            return Err(Failure::new(
                Exit::Usage,
                "--snapshot makes one plan again with the policy in the snapshot: --policy and --set do not apply",
            )
            .hint(
                "to try another policy, simulate the recorded history: `warpyard-scheduler --record FILE` writes it, `warpyard simulate FILE --set …` reads it",
            ));
        }
        return snapshot::replay(path);
    }
    let (policy_name, policy) = policy::read(args)?;
    let (workload, about) = read::workload(args)?;
    if let Some(path) = &args.save_trace {
        save(path, &workload)?;
    }
    let title = Title {
        headline: args.title.clone().unwrap_or_else(|| "Simulation of a GPU cluster".to_owned()),
        workload: about,
        policy: policy_name,
        seed: args.trace.is_none().then_some(args.seed),
    };
    let jobs = workload.jobs.len() as u64;
    let options = Options {
        eviction_grace_seconds: args.eviction_grace,
        start_up_seconds: args.start_up,
        restart_seconds: args.restart,
        ..Options::default()
    };
    let mut bar = Bar::new(jobs);
    let mut simulation = Simulation::new(workload, policy, options);
    simulation.run(&mut bar);
    bar.bar.finish_and_clear();
    let outcome = simulation.finish();

    let mut note = String::new();
    if let Some(path) = &args.report {
        let page = report::html(&title, &outcome);
        fs::write(path, page).map_err(|error| read::cannot("write", path, &error))?;
        note = format!("Report written to {}.\n", path.display());
    }
    let view = show::View::new(&title, &outcome);
    Ok(match format {
        OutputFormat::Table => Output::data(show::table(&view)),
        _ => Output::data(print(format, &view, String::new)?),
    }
    .note(note))
}

fn save(path: &Path, workload: &Workload) -> Result<(), Failure> {
    let write = || -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(fs::File::create(path)?);
        for line in json_lines::write(workload) {
            writeln!(file, "{line}")?;
        }
        file.flush()
    };
    write().map_err(|error| read::cannot("write", path, &error))
}

/// Jobs that ended, on a terminal only.
struct Bar {
    bar: ProgressBar,
    ended: u64,
}

impl Bar {
    fn new(jobs: u64) -> Self {
        let bar = ProgressBar::new(jobs);
        let style =
            ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len} jobs, {eta} left, day {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, ended: 0 }
    }
}

impl Watch for Bar {
    fn happened(&mut self, at: Timestamp, what: &Happening<'_>) {
        if matches!(what, Happening::Ended { .. }) {
            self.ended += 1;
            if self.ended.is_multiple_of(BAR_STEP) {
                self.bar.set_position(self.ended);
                self.bar.set_message(report::moment(at.as_second(), false));
            }
        }
    }
}

#[cfg(test)]
mod tests;
