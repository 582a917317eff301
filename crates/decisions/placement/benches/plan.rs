//! How long plans take, by kind of work and size. `cargo xtask bench placement` also counts instructions, which are the
//! same on every machine.

#[allow(dead_code, reason = "the example uses the rest")]
mod workloads;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use workloads::events::{Event, events};
use workloads::{Work, workload};

fn plans(criterion: &mut Criterion) {
    for work in Work::ALL {
        let mut group = criterion.benchmark_group(work.name());
        group.sample_size(10);
        for (nodes, shapes) in [(100, 1), (1_000, 1), (1_000, 200), (10_000, 1), (10_000, 200)] {
            let id = BenchmarkId::new(format!("{shapes}-shapes"), nodes);
            group.bench_function(id, |bencher| {
                bencher.iter_batched(
                    || workload(work, nodes, shapes),
                    |mut it| placement::plan(&mut it.state, &it.policy, it.now),
                    BatchSize::LargeInput,
                );
            });
        }
    }
}

fn changes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1000-events");
    group.sample_size(10);
    for event in Event::ALL {
        for nodes in [100, 1_000, 10_000] {
            group.bench_function(BenchmarkId::new(event.name(), nodes), |bencher| {
                bencher.iter_batched(
                    || events(event, nodes, 1),
                    |(mut state, changes)| {
                        for change in changes {
                            state.apply(change);
                        }
                        state
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
}

criterion_group!(benches, plans, changes);
criterion_main!(benches);
