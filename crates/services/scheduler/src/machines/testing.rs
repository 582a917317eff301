//! A machine for tests.

use api_types::machine_type::NodeClassReference;
use capacity::caps::Cap;
use capacity::catalogue::CatalogueMachine;
use cluster_model::Resources;

/// Eight H100, without any offer.
pub fn machine() -> CatalogueMachine {
    CatalogueMachine {
        name: "h100".into(),
        instance_type: "h100-8x".into(),
        gpu_type: Some("H100".into()),
        room: Resources { gpus: 8, cpu_millis: 1_000, memory_bytes: 1 << 30, pods: 10 },
        boot_seconds: 60,
        idle_seconds: 60,
        spares: 0,
        cap: Cap::default(),
        offers: Vec::new(),
        node_class: NodeClassReference { group: "g".into(), kind: "K".into(), name: "n".into() },
        node_pool: None,
        generation: None,
        real_room: None,
    }
}
