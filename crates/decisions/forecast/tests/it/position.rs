use cluster_model::ClusterState;
use forecast::{Position, position};
use placement::{OrderPolicy, Policy};

use crate::build::{NOW, at, cluster, gang, key, node, running};

fn of(state: &mut ClusterState, name: &str) -> Option<Position> {
    let oldest_first = Policy { order: OrderPolicy::Age, ..Policy::default() };
    position(state, &oldest_first, at(NOW), &key(name))
}

#[test]
fn those_who_wait_and_are_looked_at_before_are_ahead_and_those_who_start_are_not() {
    let mut state = cluster(
        [node("n0", "A100", 8)],
        vec![
            running("runs", 6, 500, "n0"),
            gang("oldest", 2, 4, 400),
            gang("starts", 1, 2, 300),
            gang("older", 1, 8, 200),
            gang("last", 1, 3, 100),
        ],
    );
    for (name, expected) in [
        ("oldest", Some((0, 0))),
        ("starts", None),
        ("older", Some((1, 8))),
        ("last", Some((2, 16))),
        ("runs", None),
        ("nobody", None),
    ] {
        let expected = expected.map(|(gangs_ahead, gpus_ahead)| Position { gangs_ahead, gpus_ahead });
        assert_eq!(of(&mut state, name), expected, "{name}");
    }
}
