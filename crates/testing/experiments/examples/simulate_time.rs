//! How long a synthetic workload takes: `cargo run --release -p experiments --example simulate_time JOBS NODES LOAD`.

use placement::Policy;
use simulator::{Options, Simulation, synthetic::Recipe};

fn main() {
    let number = |index: usize, default: u32| {
        std::env::args().nth(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let recipe = Recipe {
        jobs: number(1, 100_000),
        nodes: number(2, 1_000),
        load_percent: number(3, 85),
        teams: number(4, 20),
        ..Recipe::default()
    };
    let start = std::time::Instant::now();
    let workload = recipe.workload();
    println!("generated in {:.1?}", start.elapsed());
    let start = std::time::Instant::now();
    let policy = Policy { explain: false, ..Policy::default() };
    let mut simulation = Simulation::new(workload, policy, Options::default());
    simulation.run(&mut ());
    let overcommitted = simulation.overcommitted();
    let summary = simulation.finish().summary;
    let micros = start.elapsed().as_micros() / u128::from(summary.moments.max(1));
    println!("simulated in {:.1?}, {micros} µs per moment, {overcommitted} overcommitted", start.elapsed());
    println!("{summary:#?}");
}
