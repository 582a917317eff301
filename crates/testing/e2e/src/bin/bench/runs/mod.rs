//! `cargo xtask bench runs [PART…]`: real training on real kubelets, interrupted in every way that the platform promises to
//! survive.
//!
//! ```text
//!   plain         DDP of four members: 20 notices, then 10 SIGKILLs, at random moments
//!   huggingface   the same for its Trainer: two members, 3 notices, 2 kills
//!   lightning     likewise
//!   elastic       four members, two after a power cut, four again
//!   away          our API server and controllers are away for two minutes
//! ```
//!
//! Each except `away` is compared with the same training without interruptions and without a platform. The
//! nodes need root.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use e2e::training::contest::Findings;
use e2e::training::interval::{SETTLED, SETTLED_WITHIN};
use e2e::training::{Framework, Script, Yard, YardSize, away, contest, elastic, reference, strikes};
use seeded_random::Random;
use toolbox::figures;

/// The parts, in the order in which they run.
const PARTS: [&str; 5] = ["plain", "huggingface", "lightning", "elastic", "away"];
const EPOCH_STEPS: u64 = 40;

/// Training that is interrupted.
#[derive(clap::Args)]
pub struct Args {
    /// Run only these parts; the default is all.
    parts: Vec<String>,
    /// A tenth of the interruptions, and no figures.
    #[arg(long)]
    rehearse: bool,
    /// Names the run: the same seed draws the same interruptions.
    #[arg(long, default_value_t = 20_261_117)]
    seed: u64,
}

pub async fn measure(args: Args) -> anyhow::Result<()> {
    e2e::bounds::hold_real_bars();
    if let Some(unknown) = args.parts.iter().find(|name| !PARTS.contains(&name.as_str())) {
        bail!("there is no part {unknown:?}\n\nhint: {}", PARTS.join(", "));
    }
    let peace = tempfile::tempdir()?;
    let bench = Bench { args, peace: peace.path() };
    let mut found = Findings::default();
    let mut random = Random::new(bench.args.seed);
    if ["plain", "huggingface", "lightning", "away"].iter().any(|name| bench.wants(name)) {
        let mut yard = Yard::start(YardSize { nodes: 3, notices_power_cuts_soon: false }).await?;
        for (name, framework, members, notices, kills) in [
            ("plain", Framework::Plain, 4, 20, 10),
            ("huggingface", Framework::HuggingFace, 2, 3, 2),
            ("lightning", Framework::Lightning, 2, 3, 2),
        ] {
            if bench.wants(name) {
                let counts = (bench.of(notices), bench.of(kills));
                found.add(bench.contest(&yard, framework, members, counts, &mut random).await?);
            }
        }
        if bench.wants("away") {
            bench.away(&mut yard).await?;
        }
        yard.stop().await;
    }
    if bench.wants("elastic") {
        bench.elastic().await?;
    }
    if !bench.args.rehearse && found.trainings > 0 {
        found.print("runs", &format!("seed {}", bench.args.seed));
    }
    let missed = found.missed();
    if !missed.is_empty() {
        bail!("{missed:#?}");
    }
    Ok(())
}

struct Bench<'a> {
    args: Args,
    peace: &'a Path,
}

impl Bench<'_> {
    fn wants(&self, name: &str) -> bool {
        self.args.parts.is_empty() || self.args.parts.iter().any(|part| part == name)
    }

    fn of(&self, count: usize) -> usize {
        if self.args.rehearse { count.div_ceil(10) } else { count }
    }

    async fn contest(
        &self,
        yard: &Yard,
        framework: Framework,
        members: u32,
        (notices, kills): (usize, usize),
        random: &mut Random,
    ) -> anyhow::Result<Findings> {
        let began = Instant::now();
        let name = framework.name();
        let strikes = strikes::draw(random, notices, kills, members);
        let epochs = contest::epochs_for(&strikes, EPOCH_STEPS);
        let script = Script {
            framework,
            members,
            epoch_steps: EPOCH_STEPS,
            epochs,
            every_steps: Some(8),
            step_seconds: 0.03,
        };
        let in_peace = reference::train(&script, &self.peace.join(name)).await?;
        let found = contest::run(yard, name, &script, &strikes, &in_peace).await?;
        println!("{name}: {:.0} s, {found:?}", began.elapsed().as_secs_f64());
        Ok(found)
    }

    async fn elastic(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        // Fewer members go on for one to two minutes before they become more: half of it is left then.
        let script = long(Framework::Elastic, 4, 1000);
        let in_peace = reference::train(&script, &self.peace.join("elastic")).await?;
        // All its GPUs are used, so the GPUs of a lost node cannot be replaced.
        let yard = Yard::start(YardSize { nodes: 2, notices_power_cuts_soon: true }).await?;
        let found = elastic::run(&yard, &script, &in_peace).await?;
        yard.stop().await;
        println!("elastic: {:.0} s, {found:?}", began.elapsed().as_secs_f64());
        if !self.args.rehearse {
            let about = format!("steps by members: {:?}; bar: 0.001", found.world_sizes);
            figures::print(
                "runs.elastic_loss_difference",
                found.loss_difference,
                "of the largest loss",
                &about,
            );
            let about =
                "from the power cut to the first step of two members; a silent node is given up after 10 s";
            figures::print("runs.elastic_shrunk_seconds", found.shrunk_seconds, "s", about);
        }
        Ok(())
    }

    async fn away(&self, yard: &mut Yard) -> anyhow::Result<()> {
        let began = Instant::now();
        let span = Duration::from_secs(if self.args.rehearse { 20 } else { 120 });
        // Minutes without failures: time enough for the interval to settle.
        let script = Script { every_steps: None, ..long(Framework::Plain, 4, 2000) };
        let found = away::run(yard, &script, span).await?;
        println!("away: {:.0} s, {found:?}", began.elapsed().as_secs_f64());
        if !self.args.rehearse {
            let steps = figures::count(usize::try_from(found.steps_meanwhile)?);
            let about = "without our API server and controllers, for two minutes; nothing was started anew";
            figures::print("runs.away_steps", steps, "steps", about);
            let about = "from their return until the record had every step";
            figures::print("runs.away_caught_up_seconds", found.caught_up_seconds, "s", about);
            let about =
                format!("worst of the last {SETTLED} intervals; bar: {SETTLED_WITHIN}; {:?}", found.interval);
            figures::print("runs.interval_settled_within", found.interval.worst_factor(), "times", &about);
        }
        Ok(())
    }
}

/// A training that lasts for minutes.
fn long(framework: Framework, members: u32, steps: u64) -> Script {
    let epochs = steps / EPOCH_STEPS;
    Script { framework, members, epoch_steps: EPOCH_STEPS, epochs, every_steps: Some(10), step_seconds: 0.1 }
}
