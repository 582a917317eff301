//! Reads the workload from files or standard input, or makes it up from a seed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use jiff::Timestamp;
use ruzstd::decoding::StreamingDecoder;
use simulator::report::thousands;
use simulator::synthetic::Recipe;
use simulator::traces::{openb, philly};
use trace_format::json_lines::Reader;
use trace_format::{Job, Workload};

use super::args::{Format, SimulateArgs};
use crate::exit::{Exit, Failure};

/// The largest table, unpacked: 20 million jobs of Philly. Our own format is read line by line.
const TABLE_BYTES_MAX: u64 = 1 << 30;
/// The longest line of our own format.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The workload, and a short description of it.
pub(super) fn workload(args: &SimulateArgs) -> Result<(Workload, String), Failure> {
    let Some(path) = &args.trace else {
        let workload = recipe(args).workload();
        let about = about("made-up jobs", &workload);
        return Ok((workload, about));
    };
    let mut input = open(path)?;
    let format = match args.format {
        Some(format) => format,
        None => detect(path, &mut input)?,
    };
    let mut workload = match format {
        Format::JsonLines => json_lines(path, input)?,
        Format::Philly => {
            let selection = philly::Selection {
                nodes: args.nodes,
                gpus_per_node: args.gpus_per_node,
                ..Default::default()
            };
            philly::read(&text(path, input)?, &selection).map_err(|error| unread(path, &error))?
        }
        Format::Openb => openb_lists(args, path, input)?,
    };
    workload.jobs.retain(|job| is_selected(args, job));
    if workload.jobs.is_empty() {
        return Err(Failure::new(Exit::Usage, format!("{} has no such jobs", path.display())));
    }
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let about = about(&name, &workload);
    Ok((workload, about))
}

fn recipe(args: &SimulateArgs) -> Recipe {
    Recipe {
        seed: args.seed,
        jobs: args.jobs,
        nodes: args.nodes,
        gpus_per_node: args.gpus_per_node,
        teams: args.teams,
        load_percent: args.load,
        node_days_between_failures: args.failure_days.unwrap_or(0),
        ..Recipe::default()
    }
}

fn is_selected(args: &SimulateArgs, job: &Job) -> bool {
    args.from.is_none_or(|from| job.submitted >= from)
        && args.until.is_none_or(|until| job.submitted < until)
        && (args.queues.is_empty() || args.queues.iter().any(|queue| queue == job.queue.as_str()))
}

fn about(source: &str, workload: &Workload) -> String {
    let gpus: i64 = workload.nodes.iter().map(|node| node.allocatable.gpus).sum();
    let counted =
        |number: u64, one: &str| format!("{} {one}{}", thousands(number), if number == 1 { "" } else { "s" });
    format!(
        "{source}: {} on {} with {}",
        counted(workload.jobs.len() as u64, "job"),
        counted(workload.nodes.len() as u64, "node"),
        counted(gpus.unsigned_abs(), "GPU")
    )
}

type Input = BufReader<Box<dyn Read>>;

/// The file, unpacked if it is compressed.
fn open(path: &Path) -> Result<Input, Failure> {
    if path == Path::new("-") {
        return Ok(BufReader::new(Box::new(std::io::stdin())));
    }
    let file = File::open(path).map_err(|error| cannot("read", path, &error))?;
    if path.extension().is_some_and(|it| it == "zst") {
        let decoder = StreamingDecoder::new(BufReader::new(file)).map_err(|error| {
            Failure::new(Exit::Usage, format!("cannot unpack {}: {error}", path.display()))
        })?;
        return Ok(BufReader::new(Box::new(decoder)));
    }
    Ok(BufReader::new(Box::new(file)))
}

/// Detects the format from the first bytes, without consuming them.
fn detect(path: &Path, input: &mut Input) -> Result<Format, Failure> {
    let start = input.fill_buf().map_err(|error| cannot("read", path, &error))?;
    let start = String::from_utf8_lossy(&start[..start.len().min(80)]).into_owned();
    Ok(match start.trim_start() {
        it if it.starts_with("timestamp,duration") => Format::Philly,
        it if it.starts_with("name,cpu_milli") => Format::Openb,
        _ => Format::JsonLines,
    })
}

fn json_lines(path: &Path, mut input: Input) -> Result<Workload, Failure> {
    let mut reader = Reader::default();
    let mut line = String::new();
    loop {
        line.clear();
        let bounded = &mut (&mut input).take(LINE_BYTES_MAX);
        let bytes = bounded.read_line(&mut line).map_err(|error| cannot("read", path, &error))?;
        if bytes == 0 {
            return Ok(reader.finish());
        }
        reader.line(&line).map_err(|error| unread(path, &error))?;
    }
}

fn openb_lists(args: &SimulateArgs, path: &Path, input: Input) -> Result<Workload, Failure> {
    let list = args.node_list.as_ref().ok_or_else(|| {
        Failure::new(Exit::Usage, "the list of pods of openb needs a list of nodes").hint("--node-list FILE")
    })?;
    let nodes = openb::read_nodes(&text(list, open(list)?)?).map_err(|error| unread(list, &error))?;
    let jobs =
        openb::read_pods(&text(path, input)?, Timestamp::UNIX_EPOCH).map_err(|error| unread(path, &error))?;
    Ok(Workload { nodes, jobs, ..Workload::default() })
}

fn text(path: &Path, input: Input) -> Result<String, Failure> {
    let mut text = String::new();
    let bytes = input
        .take(TABLE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| cannot("read", path, &error))?;
    if bytes as u64 == TABLE_BYTES_MAX {
        return Err(Failure::new(Exit::Usage, format!("{} is larger than 1 GiB", path.display())));
    }
    Ok(text)
}

fn unread(path: &Path, error: &trace_format::Error) -> Failure {
    Failure::new(Exit::Usage, format!("{}, {error}", path.display()))
}

pub(super) fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("cannot {what} {}: {error}", path.display()))
}
