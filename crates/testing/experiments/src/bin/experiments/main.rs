//! The trace experiments of `cargo xtask experiments`. Prints `figure` lines, each with its reference.
//!
//! ```text
//! cargo run --release -p experiments -- --traces ../shared/traces X1
//! ```

mod blended;
mod common;
mod made_up;
mod openb;
mod philly;
mod spot;
mod synthetic;

use std::error::Error;
use std::path::PathBuf;

const NAMES: [&str; 12] =
    ["synthetic", "x1", "x2", "x3", "x4", "x5", "x6", "eta", "why", "thrash", "energy", "million"];

fn main() -> Result<(), Box<dyn Error>> {
    let (mut traces, mut quick, mut names) = (PathBuf::from("../shared/traces"), false, Vec::new());
    let mut first_seed = 42;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--traces" => traces = arguments.next().ok_or("--traces needs a folder")?.into(),
            "--quick" => quick = true,
            // For tuning: figures are reported on 42 to 51.
            "--first-seed" => first_seed = arguments.next().ok_or("--first-seed needs a number")?.parse()?,
            _ => names.push(argument.to_lowercase()),
        }
    }
    if let Some(unknown) = names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("there is no experiment `{unknown}`; there are {}", NAMES.join(", ")).into());
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|it| it == name);
    if wanted("synthetic") {
        synthetic::jobs_on_one_cluster()?;
    }
    if wanted("x1") {
        openb::run(
            &traces.join("alibaba-gpu-v2023-openb"),
            first_seed..first_seed + if quick { 2 } else { 10 },
        )?;
    }
    if wanted("x2") {
        philly::philly_pool_queue(&traces.join("philly-compact"), if quick { 2 } else { 10 })?;
    }
    if wanted("eta") {
        philly::start_forecasts(&traces.join("philly-compact"), if quick { 200 } else { 2_000 })?;
    }
    if wanted("why") {
        made_up::offered_changes(if quick { 1_000 } else { 10_000 });
    }
    if wanted("x3") {
        philly::philly_quota_vs_pool(&traces.join("philly-compact"), quick)?;
    }
    if wanted("x4") {
        spot::spot_deadline(&traces.join("spot-cant-be-late"), quick)?;
    }
    if wanted("x5") {
        spot::spot_multizone(&traces.join("spot-cant-be-late"), quick)?;
    }
    if wanted("x6") {
        blended::blended_cost(&traces, if quick { 2 } else { 10 })?;
    }
    if wanted("thrash") {
        made_up::week_of_reclaim(if quick { 1..2 } else { 1..11 })?;
    }
    if wanted("energy") {
        made_up::days_and_nights(if quick { 1..2 } else { 1..6 })?;
    }
    if wanted("million") {
        made_up::million_jobs(if quick { 50_000 } else { 1_000_000 })?;
    }
    Ok(())
}
