//! The pods that arrive, and their order.

use simulator::{Random, ratio};

use super::Trace;

/// Indexes of pods: the list shuffled by the seed, then more drawn from it until 130 % of the capacity is
/// requested.
pub(super) fn arrivals(trace: &Trace, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5851_f42d_4c95_7f2d);
    let mut order: Vec<usize> = (0..trace.pods.len()).collect();
    for last in (1..order.len()).rev() {
        let other = index(random.below(last as u64 + 1));
        order.swap(last, other);
    }
    let millis = |pod: usize| trace.pods[pod].gpu_millis();
    let mut asked: u64 = order.iter().map(|pod| millis(*pod)).sum();
    let most = trace.capacity_millis() * 13 / 10;
    // In these lists at least every second pod requests a GPU; a list without GPUs must not loop for ever.
    let draws_max = 100 * trace.pods.len();
    for _ in 0..draws_max {
        let drawn = index(random.below(trace.pods.len() as u64));
        if asked + millis(drawn) > most {
            break;
        }
        asked += millis(drawn);
        order.push(drawn);
    }
    order
}

/// The largest prefix of the arrivals, in percent of the capacity, that fits on the devices alone: without CPUs
/// and without borders of nodes, with all pods known in advance, packed by best fit decreasing. Later pods that
/// would fill gaps are not counted. A heuristic, not a proven bound.
pub fn first_come_bound_percent(trace: &Trace, seed: u64) -> f64 {
    let order = arrivals(trace, seed);
    let capacity = trace.capacity_millis();
    let (mut fits, mut fails) = (0, order.len() + 1);
    while fails - fits > 1 {
        let tried = fits.midpoint(fails);
        if devices_needed(trace, &order[..tried]) * 1000 <= capacity {
            fits = tried;
        } else {
            fails = tried;
        }
    }
    let millis: u64 = order[..fits].iter().map(|pod| trace.pods[*pod].gpu_millis()).sum();
    ratio(100 * millis, capacity)
}

fn devices_needed(trace: &Trace, order: &[usize]) -> u64 {
    let (mut devices, mut shares) = (0, Vec::new());
    for pod in order {
        match trace.pods[*pod].gpu_millis() {
            0 => {}
            millis if millis < 1000 => shares.push(index(millis)),
            millis => devices += millis / 1000,
        }
    }
    shares.sort_unstable_by(|one, other| other.cmp(one));
    // Devices in use, by their free part.
    let mut open = vec![0u32; 1001];
    for share in shares {
        let free = (share..1000).find(|free| open[*free] > 0);
        match free {
            Some(free) => open[free] -= 1,
            None => devices += 1,
        }
        open[free.unwrap_or(1000) - share] += 1;
    }
    devices
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
