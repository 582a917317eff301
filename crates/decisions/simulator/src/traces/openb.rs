//! Alibaba's openb trace (`cluster-trace-gpu-v2023`): a list of nodes and a list of pods, with shares of GPUs.
//!
//! Its stamps are seconds from the start of the trace. Replayed in real time it is no load at all; it is read here for
//! its shapes, which saturation experiments draw from.

use std::sync::Arc;

use cluster_model::{DeviceAsk, GpuType, Node, NodeName, QueueName, Resources, Terms};
use jiff::{SignedDuration, Timestamp};
use trace_format::{Job, Shared};

use super::{Error, number, rows};

const NODE_COLUMNS: [&str; 5] = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
const POD_COLUMNS: [&str; 11] = [
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
];

/// The queue of all its pods.
pub const QUEUE: &str = "openb";

/// Reads the list of nodes. Their devices are known one by one, because pods take shares of them.
pub fn read_nodes(text: &str) -> Result<Vec<Node>, Error> {
    rows(text, &NODE_COLUMNS)?
        .map(|row| {
            let (line, fields) = row?;
            let [name, cpu, memory, gpus, model] = fields[..] else { unreachable!("as many as columns") };
            let gpus: i64 = number(line, "gpu", gpus)?;
            Ok(Node {
                gpu_type: (gpus > 0).then(|| model.into()),
                allocatable: Resources {
                    gpus,
                    cpu_millis: number(line, "cpu_milli", cpu)?,
                    memory_bytes: mebibytes(line, memory)?,
                    pods: 10_000,
                },
                exact: gpus > 0,
                ..Node::new(NodeName::from(name))
            })
        })
        .collect()
}

/// Reads the list of pods, each a job of one member that runs from its creation to its deletion.
pub fn read_pods(text: &str, start: Timestamp) -> Result<Vec<Job>, Error> {
    let mut shared = Shared::default();
    let queue = QueueName::from(QUEUE);
    let terms = shared.terms(Terms::default());
    rows(text, &POD_COLUMNS)?
        .map(|row| {
            let (line, fields) = row?;
            let field = |index: usize| fields[index];
            let (created, deleted): (i64, i64) =
                (number(line, POD_COLUMNS[8], field(8))?, number(line, POD_COLUMNS[9], field(9))?);
            let gpus: i64 = number(line, POD_COLUMNS[3], field(3))?;
            let millis: u16 = number(line, POD_COLUMNS[4], field(4))?;
            let is_share = gpus == 1 && (1..1000).contains(&millis);
            let submitted = start.checked_add(SignedDuration::from_secs(created));
            let submitted =
                submitted.map_err(|_| Error { line, message: "creation_time is too far away".to_owned() })?;
            let types = field(5).split('|').filter(|name| !name.is_empty()).map(GpuType::from);
            Ok(Job {
                run_seconds: u32::try_from((deleted - created).max(0)).unwrap_or(u32::MAX),
                requests: Resources {
                    gpus: if is_share { 0 } else { gpus },
                    cpu_millis: number(line, POD_COLUMNS[1], field(1))?,
                    memory_bytes: mebibytes(line, field(2))?,
                    pods: 1,
                },
                device: if is_share { DeviceAsk::Share { millis } } else { DeviceAsk::Whole },
                gpu_types: shared.gpu_types(types),
                terms: Arc::clone(&terms),
                ..Job::new(field(0), queue.clone(), submitted)
            })
        })
        .collect()
}

fn mebibytes(line: usize, text: &str) -> Result<i64, Error> {
    Ok(number::<i64>(line, "memory_mib", text)?.saturating_mul(1 << 20))
}

#[cfg(test)]
mod tests {
    use cluster_model::DeviceAsk;
    use jiff::Timestamp;

    use super::{read_nodes, read_pods};

    #[test]
    fn shares_whole_gpus_and_types_are_told_apart() {
        let pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
            a,6000,12288,1,460,T4|P100,LS,Running,10,110,10\n\
            b,6000,12288,2,1000,,LS,Pending,10,20,\n\
            c,6000,12288,0,0,,BE,Running,10,20,10\n";
        let jobs = read_pods(pods, Timestamp::UNIX_EPOCH).unwrap();
        let asks: Vec<_> =
            jobs.iter().map(|job| (job.requests.gpus, job.device, job.gpu_types.len())).collect();
        assert_eq!(
            asks,
            [(0, DeviceAsk::Share { millis: 460 }, 2), (2, DeviceAsk::Whole, 0), (0, DeviceAsk::Whole, 0)]
        );
        assert_eq!((jobs[0].run_seconds, jobs[0].submitted.as_second()), (100, 10));
        assert_eq!(jobs.iter().map(super::Job::gpu_millis).collect::<Vec<_>>(), [460, 2_000, 0]);
    }

    #[test]
    fn nodes_with_gpus_are_exact() {
        let nodes =
            read_nodes("sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,2,P100\nm,64000,1,0,\n").unwrap();
        assert_eq!(nodes.iter().map(|node| node.exact).collect::<Vec<_>>(), [true, false]);
        assert_eq!(nodes[0].allocatable.memory_bytes, 256 << 30);
    }
}
