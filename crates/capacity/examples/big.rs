#![allow(warnings)]
#[path = "../tests/it/cases.rs"]
mod cases;
fn cpu() -> f64 { std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse::<f64>().unwrap()/1e6 }
fn main() {
    for seed in 0..6 {
        let c = cases::large(seed, 1000, 500);
        let mut best = f64::MAX; let mut m = None;
        for _ in 0..3 {
        let t = cpu();
        m = Some(capacity::mix::decide(&c.demands, &c.offerings, &c.rooms, &c.limits));
        best = best.min(cpu()-t); }
        let m = m.unwrap();
        println!("seed {seed} cost {} bound {} gap {:.2}% {best:.1} ms refused {:?}", m.cost_per_hour, m.bound, (m.cost_per_hour-m.bound) as f64/m.bound as f64*100.0, m.refused.iter().map(|r| format!("{:?}", r.reason).chars().take(40).collect::<String>()).collect::<Vec<_>>());
    }
}
