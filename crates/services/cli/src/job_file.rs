//! Reads job files, with errors that name the line and a correction.

use std::io::Read;
use std::path::Path;

use api_types::JobFile;

use crate::exit::{Exit, Failure};

/// The largest job file that the server accepts.
const BYTES_MAX: u64 = 256 * 1024;

/// The JSON Schema of the job file, as `warpyard schema` prints it.
pub fn job_file_schema_json() -> String {
    let schema = schemars::schema_for!(JobFile);
    let mut json = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    json.push('\n');
    json
}

/// Reads a job file, or standard input for `-`.
pub fn read(path: &Path) -> Result<JobFile, Failure> {
    let fail =
        |error: std::io::Error| Failure::new(Exit::Usage, format!("cannot read {}: {error}", path.display()));
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fail)?;
    } else {
        std::fs::File::open(path).map_err(fail)?.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fail)?;
    }
    if bytes.len() as u64 > BYTES_MAX {
        let message = format!("{} is larger than a job file may be ({BYTES_MAX} bytes)", path.display());
        return Err(Failure::new(Exit::Usage, message));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(Exit::Usage, format!("{} is not UTF-8 text", path.display())))?;
    parse(&path.display().to_string(), &text)
}

/// Parses a job file and checks that it makes sense.
pub fn parse(source: &str, text: &str) -> Result<JobFile, Failure> {
    let job_file: JobFile = serde_norway::from_str(text).map_err(|error| not_understood(source, &error))?;
    // The server compiles it again, with its own default image; this finds mistakes without the server.
    job_file
        .compile("image")
        .map_err(|error| Failure::new(Exit::Usage, format!("{source}: {error}")).hint(SCHEMA_HINT))?;
    Ok(job_file)
}

const SCHEMA_HINT: &str = "`warpyard schema` prints every field with its meaning";

fn not_understood(source: &str, error: &serde_norway::Error) -> Failure {
    let text = error.to_string();
    // The place comes first, as in compilers' errors, and is not repeated at the end.
    let message = text.split(" at line ").next().unwrap_or(&text);
    let place = error.location().map_or(String::new(), |at| format!(":{}:{}", at.line(), at.column()));
    let hint = suggestion(message).unwrap_or_else(|| SCHEMA_HINT.to_owned());
    Failure::new(Exit::Usage, format!("{source}{place}: {message}")).hint(hint)
}

/// "unknown field `gpu`, expected one of `name`, `gpus`, …" → did you mean `gpus`?
fn suggestion(message: &str) -> Option<String> {
    let rest = message.split_once("unknown field ").map(|(_, rest)| rest)?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    // Among equally near fields, prefer one that begins with the written text.
    let (distance, _, field) =
        quoted.map(|field| (distance(unknown, field), !field.starts_with(unknown), field)).min()?;
    (distance <= 2).then(|| format!("did you mean `{field}`?"))
}

/// The Levenshtein distance: how many letters must be added, removed or changed.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..to.len() {
            let changed = diagonal + usize::from(letter != to[j]);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{distance, job_file_schema_json, parse};

    fn error(text: &str) -> String {
        parse("job.yaml", text).expect_err("not a valid job file").into_output().stderr
    }

    #[test]
    fn ten_lines_are_read() {
        let text =
            "name: llama-ft\ngpus: 8x H100\nnodes: 4\ntime: 24h\nenv: {A: b}\nrun: torchrun train.py\n";
        let job = parse("job.yaml", text).expect("valid");
        assert_eq!((job.nodes, job.gpus.count, job.gpus.gpu_type.as_deref()), (Some(4), 8, Some("H100")));
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_what_to_do() {
        insta::assert_snapshot!(error("run: x\ngpu: 8\n"), @r"
        error: job.yaml:2:1: unknown field `gpu`, expected one of `name`, `gpus`, `nodes`, `time`, `checkpoints`, `spot`, `maxPrice`, `deadline`, `grace`, `startDeadline`, `retries`, `failOn`, `minNodes`, `queue`, `priority`, `image`, `setup`, `run`, `env`, `cpu`, `memory`, `annotations`

        hint: did you mean `gpus`?
        ");
        insta::assert_snapshot!(error("gpus: many\nrun: x\n"), @r"
        error: job.yaml:1:7: gpus: cannot read the GPUs `many`: write a count, such as 8, or a count and a type, such as 8x H100

        hint: `warpyard schema` prints every field with its meaning
        ");
        insta::assert_snapshot!(error("gpus: 8\n"), @r"
        error: job.yaml:1:1: missing field `run`

        hint: `warpyard schema` prints every field with its meaning
        ");
        insta::assert_snapshot!(error("gpus: 8\nrun: x\ntime: soon\n"), @r"
        error: job.yaml: time: cannot read the duration `soon`: write it as 45s, 90m, 24h or 1d12h

        hint: `warpyard schema` prints every field with its meaning
        ");
        insta::assert_snapshot!(error("gpus: 8\nrun: [\n"), @r"
        error: job.yaml:2:6: run: invalid type: sequence, expected a string

        hint: `warpyard schema` prints every field with its meaning
        ");
        insta::assert_snapshot!(error(""), @r"
        error: job.yaml:1:1: missing field `gpus`

        hint: `warpyard schema` prints every field with its meaning
        ");
        insta::assert_snapshot!(error("gpus: 8\nrun: x\nenv: {A: 0.5}\n"), @r"
        error: job.yaml:3:10: env.A: invalid type: floating point `0.5`, expected text or a whole number (put anything else in quotes)

        hint: `warpyard schema` prints every field with its meaning
        ");
    }

    #[test]
    fn distance_counts_letters() {
        for (from, to, expect) in
            [("gpus", "gpus", 0), ("gpu", "gpus", 1), ("noeds", "nodes", 2), ("", "run", 3)]
        {
            assert_eq!(distance(from, to), expect, "{from} {to}");
        }
    }

    #[test]
    fn the_committed_schema_is_the_one_the_code_makes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/job-file.schema.json");
        let committed = std::fs::read_to_string(path).expect("docs/reference/job-file.schema.json exists");
        assert!(
            committed == job_file_schema_json(),
            "the job file's schema is stale: run `cargo xtask codegen`"
        );
    }

    /// A file that is not a job file.
    const PRICES: &str = "prices.yaml";
    const MACHINE_TYPES: [&str; 2] = ["machine-type.yaml", "machine-type-fake.yaml"];
    const BUYING_POLICY: &str = "buying-policy.yaml";

    fn example(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(name)
    }

    #[test]
    fn every_example_is_a_valid_job_file() {
        let mut count = 0;
        for entry in std::fs::read_dir(example("")).expect("examples/ exists") {
            let path = entry.expect("readable").path();
            let is_yaml = path.extension().is_some_and(|extension| extension == "yaml");
            let others = [PRICES, BUYING_POLICY].into_iter().chain(MACHINE_TYPES);
            let is_another_kind = others.into_iter().any(|name| path.ends_with(name));
            if is_yaml && !is_another_kind {
                let job =
                    super::read(&path).unwrap_or_else(|failure| panic!("{}", failure.into_output().stderr));
                assert!(job.name.is_some(), "{}: an example has a name", path.display());
                count += 1;
            }
        }
        assert!(count >= 2, "there are examples");
    }

    #[test]
    fn the_example_of_a_buying_policy_is_one_and_nothing_in_it_is_ignored() {
        let text = std::fs::read_to_string(example(BUYING_POLICY)).unwrap();
        let read: serde_json::Value = serde_norway::from_str(&text).unwrap();
        let policy: api_types::BuyingPolicy = serde_json::from_value(read.clone()).unwrap();
        let mut written = serde_json::to_value(&policy).unwrap();
        written["spec"].as_object_mut().unwrap().remove("paused");
        assert_eq!(written, read);
        assert_eq!(policy.metadata.name.as_deref(), Some(api_types::buying_policy::BUYING_POLICY_NAME));
    }

    #[test]
    fn the_example_of_prices_is_a_price_sheet_and_nothing_in_it_is_ignored() {
        let text = std::fs::read_to_string(example(PRICES)).expect("examples/prices.yaml exists");
        let sheet: api_types::PriceSheet = serde_norway::from_str(&text).expect("a PriceSheet");
        let written: serde_json::Value = serde_norway::from_str(&text).expect("YAML");
        assert_eq!(serde_json::to_value(sheet).expect("JSON"), written);
    }

    #[test]
    fn the_examples_of_machine_types_are_some_and_nothing_in_them_is_ignored() {
        for name in MACHINE_TYPES {
            let text = std::fs::read_to_string(example(name)).expect("the example exists");
            let machine: api_types::MachineType = serde_norway::from_str(&text).expect("a MachineType");
            let written: serde_json::Value = serde_norway::from_str(&text).expect("YAML");
            assert_eq!(serde_json::to_value(machine).expect("JSON"), written, "{name}");
        }
    }
}
