//! Makes a plan of production again from its snapshot, and compares it byte by byte.

use std::fs;
use std::path::Path;

use cluster_model::{ClusterState, SNAPSHOT_FORMAT, Snapshot};
use serde_json::Value;

use crate::exit::{Exit, Failure, Output};

/// Lines of a difference that are shown.
const LINES_MAX: usize = 40;

/// Plans again. Fails if the plans differ, and shows the first lines that differ.
pub fn replay(path: &Path) -> Result<Output, Failure> {
    let wrong = |message: String| Failure::new(Exit::Failed, format!("{}: {message}", path.display()));
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let snapshot: Snapshot<Value> =
        serde_json::from_slice(&text).map_err(|error| wrong(format!("this is not a snapshot: {error}")))?;
    if snapshot.format != SNAPSHOT_FORMAT {
        return Err(wrong(format!(
            "it is of format {}, and this command reads {SNAPSHOT_FORMAT}",
            snapshot.format
        ))
        .hint("use the `warpyard` of the version that wrote it"));
    }
    let Snapshot { policy, made_at, state, plan: recorded, written_by, .. } = snapshot;
    let mut state = ClusterState::restore(state);
    let plan = placement::plan(&mut state, &policy, made_at);
    let again = serde_json::to_value(&plan).map_err(|error| wrong(error.to_string()))?;
    let pretty = |plan: &Value| serde_json::to_string_pretty(plan).unwrap_or_default();
    let (recorded, again) = (pretty(&recorded), pretty(&again));
    if recorded != again {
        let difference = difference(&recorded, &again);
        return Err(wrong(format!("the plan made again differs from the recorded one\n\n{difference}"))
            .hint(format!("it was written by {written_by}, and this is {}", env!("CARGO_PKG_VERSION"))));
    }
    let (nodes, pods) = (state.nodes().count(), state.pods().count());
    Ok(Output::data(format!(
        "The same plan, byte by byte: generation {} at {made_at}, {nodes} nodes, {pods} pods; {} gangs start, {} wait, \
         {} give way.\n",
        plan.generation,
        plan.placements.len(),
        plan.waiting.len(),
        plan.evictions.len(),
    )))
}

/// The recorded and the new lines, from the first that differs.
fn difference(recorded: &str, again: &str) -> String {
    let same = recorded.lines().zip(again.lines()).take_while(|(one, other)| one == other).count();
    let lines = |sign: char, text: &str| -> Vec<String> {
        text.lines().skip(same).take(LINES_MAX / 2).map(|line| format!("{sign} {line}\n")).collect()
    };
    format!("line {}:\n{}{}", same + 1, lines('-', recorded).concat(), lines('+', again).concat())
}

#[cfg(test)]
mod tests {
    use cluster_model::{
        ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, Resources, Snapshot,
    };
    use jiff::Timestamp;
    use placement::Policy;

    use super::{SNAPSHOT_FORMAT, replay};
    use crate::exit::Exit;

    fn snapshot() -> serde_json::Value {
        let gpus = |gpus| Resources { gpus, pods: 1, ..Resources::default() };
        let mut state = ClusterState::default();
        let made_at = Timestamp::from_second(1_000_000).expect("in range");
        state.advance(made_at);
        state.apply(ClusterChange::Queue(Queue { namespaces: ["team".into()].into(), ..Queue::new("q") }));
        state.apply(ClusterChange::Node(Node {
            allocatable: Resources { pods: 9, ..gpus(8) },
            ..Node::new("n")
        }));
        for (name, asks) in [("starts", 6), ("waits", 4)] {
            let pod = Pod::new(PodKey::new("team", name, name), GangKey::new("team", name));
            state.apply(ClusterChange::Pod(Pod { requests: gpus(asks), ..pod }));
        }
        let policy = Policy::default();
        let plan = placement::plan(&mut state, &policy, made_at);
        assert_eq!((plan.placements.len(), plan.waiting.len()), (1, 1));
        let snapshot = Snapshot {
            format: SNAPSHOT_FORMAT.to_owned(),
            written_by: "test".to_owned(),
            policy,
            made_at,
            state: state.save(),
            plan,
        };
        serde_json::to_value(snapshot).expect("it can be written")
    }

    fn replayed(snapshot: &serde_json::Value) -> Result<String, (Exit, String)> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), snapshot.to_string()).expect("it can be written");
        replay(file.path()).map(|output| output.stdout).map_err(|failure| (failure.exit, failure.message))
    }

    #[test]
    fn the_same_plan_is_said_to_be_the_same() {
        let said = replayed(&snapshot()).expect("the same");
        assert!(said.contains("1 gangs start, 1 wait"), "{said}");
    }

    #[test]
    fn another_plan_fails_and_shows_where_it_differs() {
        let mut other = snapshot();
        other["plan"]["placements"][0]["members"][0]["node"] = "elsewhere".into();
        let (exit, message) = replayed(&other).expect_err("another plan");
        assert_eq!(exit, Exit::Failed);
        assert!(message.contains("elsewhere") && message.contains("\"n\""), "{message}");
    }

    #[test]
    fn another_state_gives_another_plan() {
        let mut other = snapshot();
        other["state"]["nodes"][0]["schedulable"] = false.into();
        assert!(replayed(&other).is_err());
    }

    #[test]
    fn another_format_is_refused() {
        let mut other = snapshot();
        other["format"] = "warpyard-snapshot/9".into();
        let (_, message) = replayed(&other).expect_err("another format");
        assert!(message.contains("warpyard-snapshot/9"), "{message}");
    }
}
