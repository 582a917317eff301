//! The compact table of Microsoft's Philly trace: `timestamp,duration,num_gpus,gpu_time,cluster`, where the cluster is the
//! virtual cluster, that is the team. It names neither users, nor limits, nor how a job ended.
//!
//! Stamps carry no zone and are taken as UTC. A job of more GPUs than a node has takes whole nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster_model::{GpuType, Node, NodeName, QueueName, Resources};
use jiff::Timestamp;
use trace_format::{Job, Shared, Workload};

use super::{Error, number, rows};

const COLUMNS: [&str; 5] = ["timestamp", "duration", "num_gpus", "gpu_time", "cluster"];

/// The one type of GPUs: the trace does not tell them apart.
pub const GPU_TYPE: &str = "gpu";

/// What to take of the trace, and where to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Jobs submitted earlier are left out.
    pub from: Option<Timestamp>,
    /// Jobs submitted then or later are left out.
    pub until: Option<Timestamp>,
    /// Only jobs of these teams; all if empty.
    pub teams: BTreeSet<String>,
    /// How many nodes there are.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus_per_node: u32,
}

impl Default for Selection {
    /// Everything, on as many nodes as make it wait a little.
    fn default() -> Self {
        Self { from: None, until: None, teams: BTreeSet::new(), nodes: 80, gpus_per_node: 8 }
    }
}

/// Reads the table. Each team gets a queue of its name, without bounds.
pub fn read(text: &str, selection: &Selection) -> Result<Workload, Error> {
    let mut shared = Shared::default();
    let gpu_types = shared.gpu_types([GpuType::from(GPU_TYPE)]);
    let mut jobs = Vec::new();
    for row in rows(text, &COLUMNS)? {
        let (line, fields) = row?;
        let [stamp, duration, gpus, _, team] = fields[..] else { continue };
        let submitted = timestamp(line, stamp)?;
        let is_before = selection.from.is_some_and(|from| submitted < from);
        let is_after = selection.until.is_some_and(|until| submitted >= until);
        let is_other = !selection.teams.is_empty() && !selection.teams.contains(team);
        if is_before || is_after || is_other {
            continue;
        }
        let gpus: u32 = number(line, "num_gpus", gpus)?;
        let (members, each) = members(gpus, selection.gpus_per_node);
        jobs.push(Job {
            run_seconds: seconds(line, duration)?,
            members,
            members_min: members,
            requests: Resources { gpus: i64::from(each), pods: 1, ..Resources::default() },
            gpu_types: gpu_types.clone(),
            ..Job::new(format!("job-{line}"), QueueName::from(shared.text(team)), submitted)
        });
    }
    Ok(Workload { nodes: nodes(selection), jobs, ..Workload::default() })
}

/// The teams in a table of `vc,node num`, with their nodes.
pub fn read_team_nodes(text: &str) -> Result<Vec<(Arc<str>, u32)>, Error> {
    rows(text, &["vc", "node num"])?
        .map(|row| {
            let (line, fields) = row?;
            Ok((fields[0].into(), number(line, "node num", fields[1])?))
        })
        .collect()
}

/// Whole nodes above the size of one.
fn members(gpus: u32, gpus_per_node: u32) -> (u32, u32) {
    let per_node = gpus_per_node.max(1);
    if gpus <= per_node { (1, gpus) } else { (gpus.div_ceil(per_node), per_node) }
}

fn nodes(selection: &Selection) -> Vec<Node> {
    let node = |number: u32| Node {
        gpu_type: Some(GPU_TYPE.into()),
        allocatable: Resources {
            gpus: i64::from(selection.gpus_per_node),
            pods: 250,
            ..Resources::default()
        },
        ..Node::new(NodeName::from(format!("node-{number:05}")))
    };
    (0..selection.nodes).map(node).collect()
}

fn timestamp(line: usize, text: &str) -> Result<Timestamp, Error> {
    let civil: Result<jiff::civil::DateTime, _> = text.parse();
    civil.and_then(|civil| jiff::tz::Offset::UTC.to_timestamp(civil)).map_err(|_| Error {
        line,
        message: format!("timestamp is `{text}`, not such as 2017-10-09 07:01:55"),
    })
}

/// Whole seconds, though written with a fraction.
fn seconds(line: usize, text: &str) -> Result<u32, Error> {
    let whole = text.split('.').next().unwrap_or(text);
    number(line, "duration", whole)
}

#[cfg(test)]
mod tests {
    use super::{Selection, read};

    const TABLE: &str = "timestamp,duration,num_gpus,gpu_time,cluster\n\
        2017-10-09 07:01:55,66.0,1,66.0,11cb48\n\
        2017-10-09 06:13:03,2951.0,20,2951.0,6214e9\n\
        2017-12-01 00:00:00,1.0,8,8.0,6214e9\n";

    #[test]
    fn jobs_beyond_a_node_take_whole_nodes() {
        let workload = read(TABLE, &Selection::default()).unwrap();
        let shapes: Vec<_> =
            workload.jobs.iter().map(|job| (job.members, job.requests.gpus, job.run_seconds)).collect();
        assert_eq!(shapes, [(1, 1, 66), (3, 8, 2_951), (1, 8, 1)]);
        assert_eq!(workload.jobs[0].submitted.to_string(), "2017-10-09T07:01:55Z");
        assert_eq!(workload.nodes.len(), 80);
    }

    #[test]
    fn teams_and_dates_are_selected() {
        let selection = Selection {
            until: Some("2017-12-01T00:00:00Z".parse().unwrap()),
            teams: ["6214e9".to_owned()].into(),
            ..Selection::default()
        };
        let jobs = read(TABLE, &selection).unwrap().jobs;
        assert_eq!(jobs.iter().map(|job| &*job.name).collect::<Vec<_>>(), ["job-3"]);
    }

    #[test]
    fn what_cannot_be_read_is_named_by_line() {
        let broken = TABLE.replace("2951.0,20", "2951.0,many");
        let error = read(&broken, &Selection::default()).unwrap_err();
        assert_eq!(error.to_string(), "line 3: num_gpus is `many`, which is not such a number");
        assert!(read("a,b\n", &Selection::default()).unwrap_err().to_string().contains("columns"));
    }
}
