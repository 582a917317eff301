//! How much each queue gets over time: the planner in a closed loop, for weeks.
//!
//! Each loop is a function that returns what it measured, so that a bench can print it too; the tests hold the bounds.

use cluster_model::{Amounts, BankTerms, Queue};

use crate::build::{node, queue};
use crate::closed_loop::{ClosedLoop, DAY, HOUR, WEEK, Work};

/// A queue with a weight, without bounds.
fn team(name: &str, weight: u32) -> Queue {
    Queue { weight, ..queue(name, None, &[]) }
}

fn nodes(count: u32) -> Vec<cluster_model::Node> {
    (0..count).map(|number| node(&format!("n{number:03}"), "H100", 8)).collect()
}

/// What gangs a team submits.
#[derive(Clone, Copy, Debug)]
pub enum Demand {
    /// One GPU, one hour.
    Hourly,
    /// Half a node to two nodes, half an hour to six hours.
    Mixed,
    /// Whole nodes, twelve hours.
    WholeNodes,
}

impl Demand {
    /// Members and GPUs of each, of every kind of gang.
    fn kinds(self) -> &'static [(u32, i64)] {
        match self {
            Self::Hourly => &[(1, 1)],
            Self::Mixed => &[(1, 4), (1, 8), (2, 8)],
            Self::WholeNodes => &[(1, 8)],
        }
    }

    fn seconds(self, cluster: &mut ClosedLoop) -> i64 {
        match self {
            Self::Hourly => HOUR,
            Self::Mixed => HOUR / 2 + cluster.random(11 * HOUR / 2),
            Self::WholeNodes => 12 * HOUR,
        }
    }
}

/// Keeps enough gangs of every kind waiting in each queue to fill the cluster, until a time.
fn under_demand(cluster: &mut ClosedLoop, queues: &[&str], demand: Demand, until: i64) {
    let gpus: i64 = cluster.state.capacity().values().sum();
    while cluster.now < until {
        for queue in queues {
            for (members, gpus_each) in demand.kinds() {
                let depth = gpus / gpus_each;
                let mut work =
                    Work { queue, members: *members, gpus_each: *gpus_each, seconds: 0, says_so: false };
                while cluster.waiting(&work) < depth {
                    work.seconds = demand.seconds(cluster);
                    cluster.submit(work);
                }
            }
        }
        cluster.step(until - cluster.now);
    }
}

/// Teams of weight 60 and 40 for a week: by how many percent of all GPU time the first missed its 60.
pub fn share_error_percent(nodes_count: u32, demand: Demand) -> f64 {
    let mut cluster = ClosedLoop::new(nodes(nodes_count), [team("sixty", 60), team("forty", 40)]);
    let gpus = i64::from(nodes_count * 8);
    under_demand(&mut cluster, &["sixty", "forty"], demand, WEEK);
    let (sixty, forty) = (cluster.used["sixty"], cluster.used["forty"]);
    assert!(sixty + forty > gpus * WEEK * 9 / 10, "demand is constant, so the cluster is full");
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    let share = sixty as f64 / (sixty + forty) as f64;
    (share - 0.6).abs() * 100.0
}

#[test]
fn sixty_to_forty_by_weight_is_sixty_to_forty_in_gpu_hours_after_a_week() {
    let mut worst: f64 = 0.0;
    for (nodes_count, demand) in [
        (10, Demand::Hourly),
        (1, Demand::Hourly),
        (10, Demand::Mixed),
        (4, Demand::Mixed),
        (3, Demand::WholeNodes),
        (7, Demand::WholeNodes),
    ] {
        let error = share_error_percent(nodes_count, demand);
        println!("{nodes_count} nodes, {demand:?}: {error:.3}");
        worst = worst.max(error);
    }
    println!("figure fair.share_error_percent {worst:.3}");
    assert!(worst < 1.0);
}

/// What happened to two teams after the second came to a cluster that the first had for itself for four weeks.
pub struct Newcomer {
    /// Until it held its share for the first time.
    pub seconds_to_share: i64,
    /// Its part of GPU time within one half-life.
    pub percent_of_half_life: f64,
    /// The least that the other held, from a day after.
    pub other_percent_min: f64,
    /// Its part of GPU time in the fourth week after.
    pub percent_in_the_end: f64,
}

#[expect(clippy::cast_precision_loss, reason = "ratios for people")]
pub fn newcomer(weight: u32, other: u32) -> Newcomer {
    let mut cluster = ClosedLoop::new(nodes(5), [team("new", weight), team("old", other)]);
    let demand = Demand::Hourly;
    under_demand(&mut cluster, &["old"], demand, 4 * WEEK);
    let share = 40 * i64::from(weight) / i64::from(weight + other);
    let start = cluster.now;
    let (mut seconds_to_share, mut other_min) = (i64::MAX, 40);
    let mut marks = vec![];
    for week in 1..=4 {
        while cluster.now < start + week * WEEK {
            let next = cluster.now + HOUR;
            under_demand(&mut cluster, &["new", "old"], demand, next);
            if cluster.held("new") >= share {
                seconds_to_share = seconds_to_share.min(cluster.now - start);
            }
            if cluster.now > start + DAY {
                other_min = other_min.min(cluster.held("old"));
            }
        }
        marks.push(cluster.used["new"] as f64 / (40 * WEEK) as f64 * 100.0);
    }
    Newcomer {
        seconds_to_share,
        percent_of_half_life: marks[0],
        other_percent_min: other_min as f64 / 40.0 * 100.0,
        percent_in_the_end: marks[3] - marks[2],
    }
}

#[test]
fn a_team_that_comes_later_reaches_its_share_within_the_half_life_and_nobody_is_shut_out() {
    for (weight, other) in [(60, 40), (40, 60), (50, 50)] {
        let found = newcomer(weight, other);
        let share = f64::from(weight);
        println!(
            "{weight}/{other}: share after {} s, {:.1} % of the half-life, other at least {:.1} %, in the end {:.1} %",
            found.seconds_to_share,
            found.percent_of_half_life,
            found.other_percent_min,
            found.percent_in_the_end
        );
        assert!(found.seconds_to_share <= DAY);
        assert!(found.percent_of_half_life >= share);
        assert!(
            found.other_percent_min >= f64::from(other) * 0.45,
            "about half of its share is left to the other"
        );
        assert!((found.percent_in_the_end - share).abs() < 2.0);
    }
}

/// What a bank earned in a day of rest, and what was held beyond the quota on its account, in GPU hours.
pub fn bank(says_so: bool) -> (i64, i64) {
    let half = |name: &str, bank: Option<BankTerms>| Queue {
        limit: Some(Amounts { gpus: [("H100".into(), 16)].into(), ..Amounts::default() }),
        bank,
        ..queue(name, None, &[("H100", 8)])
    };
    let terms = BankTerms { earn_millis: 500, cap_gpu_seconds: 1_000_000 };
    let mut cluster = ClosedLoop::new(nodes(2), [half("saver", Some(terms)), half("other", None)]);
    let work = |queue| Work { queue, members: 1, gpus_each: 1, seconds: HOUR, says_so };
    let mut beyond = 0;
    let mut earned = 0;
    for minute in 0..3 * 24 * 60 {
        let saver_comes = cluster.now >= DAY;
        while cluster.waiting(&work("other")) < 16 {
            cluster.submit(work("other"));
        }
        while saver_comes && cluster.waiting(&work("saver")) < 16 {
            cluster.submit(work("saver"));
        }
        if cluster.now <= DAY {
            earned = cluster.state.bank_gpu_seconds(&"saver".into());
        }
        let next = (minute + 1) * 60;
        while cluster.now < next {
            let before = cluster.now;
            cluster.step(next - cluster.now);
            beyond += (cluster.held("saver") - 8).max(0) * (cluster.now - before);
        }
    }
    (earned / HOUR, beyond / HOUR)
}

#[test]
fn a_bank_spends_what_it_earned_and_no_more() {
    let (earned, beyond) = bank(true);
    println!("earned {earned} GPU hours, held {beyond} beyond the quota");
    assert_eq!(earned, 96, "half of 8 GPUs for a day");
    assert!(beyond <= earned, "what runs is covered to its end");
    assert!(beyond >= earned - 8, "all but what no further gang fits into");
    // If nobody says how long gangs run, the usual time is taken, and those that run longer run on.
    let (earned, beyond) = bank(false);
    println!("earned {earned} GPU hours, held {beyond} beyond the quota");
    assert!(beyond >= earned - 8 && beyond <= earned + 8);
}

/// An organisation of 64 GPUs: research and production own 24 each, exploration nothing. GPUs of each on average: on a day
/// that research sleeps through, on the next, and in the fourth week of demand from all.
#[expect(clippy::cast_precision_loss, reason = "averages for people")]
pub fn organisation() -> [[f64; 3]; 3] {
    let child = |name: &str, quota: i64, weight: u32| Queue {
        limit: Some(Amounts { gpus: [("H100".into(), 64)].into(), ..Amounts::default() }),
        weight,
        ..queue(name, Some("org"), &[("H100", quota)])
    };
    let org = queue("org", None, &[]);
    let teams = ["research", "production", "exploration"];
    let queues = [org, child("research", 24, 1), child("production", 24, 2), child("exploration", 0, 1)];
    let mut cluster = ClosedLoop::new(nodes(8), queues);
    let mut average = |teams_active: &[&str], from: i64, until: i64| {
        under_demand(&mut cluster, teams_active, Demand::Hourly, from);
        let before = teams.map(|team| cluster.used.get(team).copied().unwrap_or(0));
        under_demand(&mut cluster, teams_active, Demand::Hourly, until);
        let after = teams.map(|team| cluster.used[team]);
        let used = |(after, before)| (after - before) as f64 / (until - from) as f64;
        let mut averages = after.into_iter().zip(before).map(used);
        teams.map(|_| averages.next().expect("one for each team"))
    };
    let asleep = average(&teams[1..], 0, DAY);
    // Running gangs go on to their end; the second day begins after that.
    let awake = average(&teams, DAY + HOUR, 2 * DAY + HOUR);
    [asleep, awake, average(&teams, 3 * WEEK, 4 * WEEK)]
}

#[test]
fn in_a_tree_quotas_come_first_and_weights_divide_what_is_left() {
    let [asleep, awake, in_the_end] = organisation();
    println!("{asleep:.1?} {awake:.1?} {in_the_end:.1?}");
    let close = |found: [f64; 3], expected: [f64; 3]| {
        found.iter().zip(expected).for_each(|(found, expected)| {
            assert!((found - expected).abs() < 1.0, "{found} is not {expected}");
        });
    };
    // Production has its 24, and two thirds of the 40 that nobody claims.
    close(asleep, [0.0, 24.0 + 26.7, 13.3]);
    // The team that slept catches up; the others keep their own, and half of their part of the 16 that are left.
    assert!(awake[0] > 28.0 && awake[1] >= 24.0 + 4.0 && awake[2] >= 2.0);
    close(in_the_end, [24.0 + 4.0, 24.0 + 8.0, 4.0]);
}

#[test]
fn a_queue_out_of_budget_starts_nothing_and_neither_do_those_below() {
    let spent = Queue { out_of_budget: true, ..queue("spent", None, &[]) };
    let below = queue("below", Some("spent"), &[]);
    let mut cluster = ClosedLoop::new(nodes(1), [spent, below, queue("other", None, &[])]);
    under_demand(&mut cluster, &["spent", "below", "other"], Demand::Hourly, DAY);
    assert_eq!((cluster.used["spent"], cluster.used["below"]), (0, 0));
    assert_eq!(cluster.used["other"], 8 * DAY);
    cluster.state.apply(cluster_model::ClusterChange::Queue(queue("spent", None, &[])));
    under_demand(&mut cluster, &["spent", "below", "other"], Demand::Hourly, 2 * DAY);
    assert!(cluster.used["below"] > 0, "until there is money again");
}
