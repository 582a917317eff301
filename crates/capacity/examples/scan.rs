#![allow(warnings)]
#[path = "../tests/it/cases.rs"]
mod cases;
fn main() {
    let mut left = 0; let mut slow = 0.0f64; let mut total=0.0;
    let a: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let b: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    for seed in a..b {
        let c = cases::small(seed);
        let t = std::time::Instant::now();
        let m = capacity::mix::decide(&c.demands, &c.offerings, &c.rooms, &c.limits);
        let ms = t.elapsed().as_secs_f64()*1e3;
        total += ms; slow = slow.max(ms);
        if !m.is_best { left += 1; println!("seed {seed} {:?} cost {} bound {} gap {:.2}% {ms:.1} ms demands {} served {} offerings {} rooms {}", cases::kind_of(seed), m.cost_per_hour, m.bound, (m.cost_per_hour-m.bound) as f64/m.bound as f64*100.0, c.demands.len(), m.assignments.len(), c.offerings.len(), c.rooms.len()); }
    }
    println!("{left} not proven of {}, slowest {slow:.1} ms, mean {:.2}", b-a, total/(b-a) as f64);
}
