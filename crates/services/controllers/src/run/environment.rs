//! The variables by which members find each other, as torchrun (`PET_*`) and plain `torch.distributed` read them.
//!
//! ```text
//!   MASTER_ADDR  PET_MASTER_ADDR     <job>-0.<service>, the stable name of member 0
//!   MASTER_PORT  PET_MASTER_PORT     29500
//!   WORLD_SIZE                       members × max(GPUs of a member, 1): one process for each GPU
//!   NODE_RANK    PET_NODE_RANK       the member's index, from 0
//!   NNODES       PET_NNODES          members
//!   PET_NPROC_PER_NODE               max(GPUs of a member, 1)
//!   RANK                             the member's index, only with at most one GPU per member
//!   LOCAL_RANK                       0, likewise: the process is the only one of its member
//!   WARPYARD_…                       see docs/reference/run-contract.md
//! ```
//!
//! `RANK` counts processes. A member with several GPUs starts several processes, and their launcher numbers
//! them; a `RANK` of ours would be wrong for all but the first of each member.
//!
//! A variable in the job file replaces ours of the same name. Only names that start with `WARPYARD_` cannot be
//! replaced, because tools trust them. `PET_MASTER_PORT` follows a replaced `MASTER_PORT`, so that the port is
//! changed in one place.

use api_types::run::EnvironmentVariable;
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector};

use super::blueprint::Blueprint;
use super::volumes::CHECKPOINT_DIRECTORY;

/// The default port on which member 0 listens, as in torchrun.
const MASTER_PORT: &str = "29500";

/// One failure in 50,000 GPU-hours, as long as we have measured nothing: Llama 3 saw 419 in 54 days on 16,384
/// GPUs, 2.0e-5 per GPU-hour. The SDK assumes the same.
const MTBF_SECONDS_OF_ONE_PROCESS: u64 = 50_000 * 3600;

/// The whole environment of a member: ours, then the job file's; each name once.
pub(super) fn variables(it: &Blueprint<'_>) -> Vec<EnvVar> {
    let given = without_repeats(&it.run.spec.env);
    let mut variables = contract(it);
    variables.extend(rendezvous(it, &given));
    variables.retain(|ours| given.iter().all(|theirs| theirs.name != ours.name));
    variables.extend(given.into_iter().map(|variable| literal(&variable.name, &variable.value)));
    variables
}

/// The variables of `docs/reference/run-contract.md` beyond the rendezvous.
fn contract(it: &Blueprint<'_>) -> Vec<EnvVar> {
    let checkpoints = it.run.spec.checkpoint.as_ref();
    let directory = checkpoints.map(|_| ("WARPYARD_CHECKPOINT_DIR", CHECKPOINT_DIRECTORY.to_owned()));
    let step = it.plan.resume_step.map(|step| ("WARPYARD_RESUME_STEP", step.to_string()));
    let reporting = it.around.reporting.as_ref();
    let reports = reporting.map(|reporting| reporting.variables(&it.run.namespace, &it.run.name));
    let mtbf_seconds = (MTBF_SECONDS_OF_ONE_PROCESS / it.processes().max(1)).max(1);
    [
        ("WARPYARD_RUN", it.run.name.clone()),
        ("WARPYARD_ATTEMPT", it.plan.number.to_string()),
        ("WARPYARD_GRACE_SECONDS", it.grace_seconds().to_string()),
        ("WARPYARD_MTBF_SECONDS", mtbf_seconds.to_string()),
        // torchrun would kill its processes after 30 s.
        ("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", it.grace_seconds().to_string()),
    ]
    .into_iter()
    .chain(directory)
    .chain(step)
    .chain(reports.into_iter().flatten())
    .map(|(name, value)| literal(name, &value))
    .collect()
}

fn rendezvous(it: &Blueprint<'_>, given: &[EnvironmentVariable]) -> Vec<EnvVar> {
    let members = it.plan.members;
    let processes = it.run.spec.gpus_per_member.max(1);
    let address = format!("{}-0.{}", it.names.job, it.names.service);
    let port = given
        .iter()
        .find(|variable| variable.name == "MASTER_PORT")
        .map_or(MASTER_PORT, |v| v.value.as_str());
    let mut variables = vec![
        literal("MASTER_ADDR", &address),
        literal("MASTER_PORT", port),
        literal("WORLD_SIZE", &it.processes().to_string()),
        literal("NNODES", &members.to_string()),
        member_index("NODE_RANK"),
        literal("PET_MASTER_ADDR", &address),
        literal("PET_MASTER_PORT", port),
        literal("PET_NNODES", &members.to_string()),
        literal("PET_NPROC_PER_NODE", &processes.to_string()),
        member_index("PET_NODE_RANK"),
    ];
    if it.run.spec.gpus_per_member <= 1 {
        variables.push(member_index("RANK"));
        // Without it Lightning would start the processes of a member itself.
        variables.push(literal("LOCAL_RANK", "0"));
    }
    variables
}

/// The last value of each name, at its first position, as in a shell.
fn without_repeats(variables: &[EnvironmentVariable]) -> Vec<EnvironmentVariable> {
    let mut seen: indexmap::IndexMap<&str, &EnvironmentVariable> = indexmap::IndexMap::new();
    for variable in variables {
        seen.insert(&variable.name, variable);
    }
    seen.into_values().cloned().collect()
}

fn literal(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), ..EnvVar::default() }
}

fn member_index(name: &str) -> EnvVar {
    let field = ObjectFieldSelector {
        api_version: Some("v1".to_owned()),
        field_path: "metadata.annotations['batch.kubernetes.io/job-completion-index']".to_owned(),
    };
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
        ..EnvVar::default()
    }
}

#[cfg(test)]
mod tests {
    use api_types::run::EnvironmentVariable;

    use super::variables;
    use crate::run::blueprint::{AttemptNames, AttemptPlan, Blueprint, Surroundings};
    use crate::run::testing::run;
    use crate::run::validate::validate;

    fn value(members: u32, gpus: u32, env: &[(&str, &str)], name: &str) -> Option<String> {
        let mut run = run();
        (run.spec.members, run.spec.gpus_per_member) = (members, gpus);
        let variable = |(name, value): &(&str, &str)| EnvironmentVariable {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        };
        run.spec.env = env.iter().map(variable).collect();
        let plan = AttemptPlan { number: 1, members, resume_step: None, time_limit_seconds: None };
        let (run, around) = (validate(&run).unwrap(), Surroundings::default());
        let names = AttemptNames::of("train", 1);
        let found = variables(&Blueprint { run: &run, plan: &plan, around: &around, names });
        let mut found = found.into_iter().filter(|variable| variable.name == name);
        let first = found.next();
        assert!(found.next().is_none(), "{name} is set twice");
        first.map(|variable| variable.value.unwrap_or_else(|| "from the pod".to_owned()))
    }

    #[test]
    fn there_is_one_process_for_each_gpu_and_one_without_gpus() {
        for (members, gpus, world, processes) in [(4, 8, "32", "8"), (1, 1, "1", "1"), (3, 0, "3", "1")] {
            assert_eq!(value(members, gpus, &[], "WORLD_SIZE").as_deref(), Some(world));
            assert_eq!(value(members, gpus, &[], "PET_NPROC_PER_NODE").as_deref(), Some(processes));
        }
    }

    #[test]
    fn the_more_gpus_the_sooner_one_fails() {
        let seconds = |members, gpus| value(members, gpus, &[], "WARPYARD_MTBF_SECONDS").unwrap();
        assert_eq!(seconds(1, 0), "180000000");
        assert_eq!(seconds(2048, 8), "10986");
        assert_eq!(seconds(10_000, 64), "281");
    }

    #[test]
    fn rank_is_given_only_where_a_member_is_one_process() {
        assert_eq!(value(4, 1, &[], "RANK").as_deref(), Some("from the pod"));
        assert_eq!(value(4, 0, &[], "RANK").as_deref(), Some("from the pod"));
        assert_eq!(value(4, 8, &[], "RANK"), None);
        assert_eq!(value(4, 1, &[], "LOCAL_RANK").as_deref(), Some("0"));
        assert_eq!(value(4, 8, &[], "LOCAL_RANK"), None);
    }

    #[test]
    fn the_job_file_replaces_ours_and_its_last_word_counts() {
        let env = [("WORLD_SIZE", "7"), ("MASTER_PORT", "1"), ("MASTER_PORT", "2")];
        assert_eq!(value(4, 8, &env, "WORLD_SIZE").as_deref(), Some("7"));
        assert_eq!(value(4, 8, &env, "MASTER_PORT").as_deref(), Some("2"));
        assert_eq!(value(4, 8, &env, "PET_MASTER_PORT").as_deref(), Some("2"));
    }
}
