//! Objects for the tests of this crate.

use api_types::names::RUN_FINALIZER;
use api_types::run::Attempt;
use api_types::{Run, RunSpec, RunStatus};
use jiff::Timestamp;
use slim_objects::SlimWaiting;

use super::job::JobFacts;
use super::member::{Exit, Member, PodPhase};
use super::sight::World;
use super::stuck::Stuck;
use crate::nodes::{NodeFacts, NodesByName};

/// A new Run of four members with eight GPUs each.
pub fn run() -> Run {
    let spec = RunSpec {
        members: 4,
        gpus_per_member: 8,
        image: "train:1".to_owned(),
        command: vec!["torchrun".to_owned(), "train.py".to_owned()],
        ..RunSpec::default()
    };
    let mut run = Run::new("train", spec);
    run.metadata.namespace = Some("team".to_owned());
    run.metadata.uid = Some("run-uid".to_owned());
    run.metadata.generation = Some(1);
    run
}

/// The same Run with its finalizer and attempt 1, whose Job may be recorded.
pub fn attempted(job_uid: Option<&str>) -> Run {
    let mut run = run();
    run.metadata.finalizers = Some(vec![RUN_FINALIZER.to_owned()]);
    let attempt = Attempt {
        number: 1,
        job_name: "train-1".to_owned(),
        job_uid: job_uid.map(str::to_owned),
        members: 4,
        ..Attempt::default()
    };
    run.status = Some(RunStatus { attempts: vec![attempt], ..RunStatus::default() });
    run
}

/// The Run's running Job.
pub fn job() -> JobFacts {
    JobFacts {
        uid: "job-uid".to_owned(),
        owner_uid: Some("run-uid".to_owned()),
        created: Some(at(0)),
        held: true,
        ..JobFacts::default()
    }
}

/// A member's pod without a node.
pub fn waiting(index: u32) -> Member {
    Member {
        pod: format!("train-1-{index}-x"),
        uid: format!("pod-uid-{index}"),
        job_uid: "job-uid".to_owned(),
        index,
        gpus: 8,
        created: Some(at(0)),
        node: None,
        bound_at: None,
        phase: PodPhase::Pending,
        deleted: false,
        disruption: None,
        disruption_message: None,
        reason: None,
        stuck: None,
        exit: None,
        started_at: None,
        saved_at: None,
    }
}

/// A member's pod that was given a node.
pub fn starting(index: u32) -> Member {
    Member { node: Some(format!("node-{index}")), bound_at: Some(at(5)), ..waiting(index) }
}

/// What a kubelet says about a container that does not start.
pub fn waits(reason: &str, message: &str) -> Stuck {
    let (reason, message) = (Some(reason.to_owned()), Some(message.to_owned()));
    Stuck::of(&SlimWaiting { reason, message }).expect("it is trouble")
}

/// A member's pod that runs since second `10 + index`.
pub fn running(index: u32) -> Member {
    Member { phase: PodPhase::Running, started_at: Some(at(10 + i64::from(index))), ..starting(index) }
}

/// A member's pod that exited with this code at this second.
pub fn exited(index: u32, code: i32, seconds: i64) -> Member {
    let reason = Some(if code == 0 { "Completed" } else { "Error" }.to_owned());
    let phase = if code == 0 { PodPhase::Succeeded } else { PodPhase::Failed };
    Member {
        phase,
        exit: Some(Exit { code, reason, at: Some(at(seconds)), exhausted: None }),
        ..running(index)
    }
}

/// A world without nodes, at second 100.
pub fn world() -> World<'static> {
    World { nodes: NO_NODES, is_deaf: false, room: 0, now: at(100) }
}

/// No node at all.
pub static NO_NODES: &NodesByName = &NodesByName::new();

/// Nodes with these facts, by name.
pub fn nodes<const N: usize>(facts: [(&str, NodeFacts); N]) -> NodesByName {
    facts.into_iter().map(|(name, facts)| (name.to_owned(), facts)).collect()
}

/// A moment, in seconds from the tests' zero.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}
