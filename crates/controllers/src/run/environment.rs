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
//!   WARPYARD_RUN WARPYARD_ATTEMPT    which run, which attempt
//! ```
//!
//! `RANK` counts processes. With several GPUs a member starts several processes, and the launcher that starts them
//! numbers them; a `RANK` of ours would be wrong for all but the first of each member.
//!
//! A variable of the job file replaces ours of the same name: what somebody wrote out is what they meant. Only names
//! that start with `WARPYARD_` cannot be replaced, because tools trust them. `PET_MASTER_PORT` follows a replaced
//! `MASTER_PORT`, so that the port is changed in one place.

use api_types::run::EnvironmentVariable;
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector};

use super::build::AttemptNames;
use super::validate::ValidatedRun;

/// Where member 0 listens, unless the job file says otherwise; torchrun's own default.
const MASTER_PORT: &str = "29500";

/// The whole environment of a member: ours, then the job file's; each name once.
pub fn variables(run: &ValidatedRun, names: &AttemptNames) -> Vec<EnvVar> {
    let given = without_repeats(&run.spec.env);
    let mut variables = rendezvous(run, names, &given);
    variables.retain(|ours| given.iter().all(|theirs| theirs.name != ours.name));
    variables.extend(given.into_iter().map(|variable| literal(&variable.name, &variable.value)));
    variables
}

fn rendezvous(run: &ValidatedRun, names: &AttemptNames, given: &[EnvironmentVariable]) -> Vec<EnvVar> {
    let members = run.spec.members;
    let processes = run.spec.gpus_per_member.max(1);
    // 10,000 members × 64 GPUs is far below the range of u64.
    let world = u64::from(members) * u64::from(processes);
    let address = format!("{}-0.{}", names.job, names.service);
    let port = given
        .iter()
        .find(|variable| variable.name == "MASTER_PORT")
        .map_or(MASTER_PORT, |v| v.value.as_str());
    let mut variables = vec![
        literal("WARPYARD_RUN", &run.name),
        literal("WARPYARD_ATTEMPT", &names.attempt.to_string()),
        literal("MASTER_ADDR", &address),
        literal("MASTER_PORT", port),
        literal("WORLD_SIZE", &world.to_string()),
        literal("NNODES", &members.to_string()),
        member_index("NODE_RANK"),
        literal("PET_MASTER_ADDR", &address),
        literal("PET_MASTER_PORT", port),
        literal("PET_NNODES", &members.to_string()),
        literal("PET_NPROC_PER_NODE", &processes.to_string()),
        member_index("PET_NODE_RANK"),
    ];
    if run.spec.gpus_per_member <= 1 {
        variables.push(member_index("RANK"));
    }
    variables
}

/// The last of each name, where it first stood: what a shell would do.
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
    use crate::run::build::AttemptNames;
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
        let found = variables(&validate(&run).unwrap(), &AttemptNames::of("train", 1));
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
    fn rank_is_given_only_where_a_member_is_one_process() {
        assert_eq!(value(4, 1, &[], "RANK").as_deref(), Some("from the pod"));
        assert_eq!(value(4, 0, &[], "RANK").as_deref(), Some("from the pod"));
        assert_eq!(value(4, 8, &[], "RANK"), None);
    }

    #[test]
    fn the_job_file_replaces_ours_and_its_last_word_counts() {
        let env = [("WORLD_SIZE", "7"), ("MASTER_PORT", "1"), ("MASTER_PORT", "2")];
        assert_eq!(value(4, 8, &env, "WORLD_SIZE").as_deref(), Some("7"));
        assert_eq!(value(4, 8, &env, "MASTER_PORT").as_deref(), Some("2"));
        assert_eq!(value(4, 8, &env, "PET_MASTER_PORT").as_deref(), Some("2"));
    }
}
