//! A state that was written down and read again is the same, and continues the same.

use cluster_model::ClusterState;
use proptest::prelude::*;

use crate::objects::Objects;
use crate::properties::run_on;
use crate::steps::{Kinds, steps};

fn written_and_read(state: &ClusterState) -> ClusterState {
    let text = serde_json::to_string(&state.save()).expect("it can be written down");
    ClusterState::restore(serde_json::from_str(&text).expect("it can be read"))
}

fn assert_same(one: &ClusterState, other: &ClusterState) {
    assert_eq!(one.dump(), other.dump());
    assert_eq!((one.generation(), one.now()), (other.generation(), other.now()));
    assert_eq!(one.history(), other.history());
    assert_eq!(one.workload(), other.workload());
    let text = |state: &ClusterState| serde_json::to_string(&state.save()).expect("it can be written down");
    assert_eq!(text(one), text(other));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_state_that_was_saved_is_the_same_and_goes_on_the_same(
        before in steps(Kinds { holds: true, time: true }),
        after in steps(Kinds { holds: true, time: true }),
    ) {
        let (mut state, mut objects) = (ClusterState::default(), Objects::default());
        run_on(&mut state, &mut objects, &before);
        let mut restored = written_and_read(&state);
        assert_same(&state, &restored);
        run_on(&mut state, &mut objects.clone(), &after);
        run_on(&mut restored, &mut objects, &after);
        assert_same(&state, &restored);
    }
}
