use cluster_model::ResourceName;
use cluster_model::plan::{Refusals, WaitReason};

#[test]
fn reasons_are_sentences_with_the_numbers() {
    let check = |reason: WaitReason, code: &str, sentence: &str| {
        assert_eq!((reason.code(), reason.to_string().as_str()), (code, sentence));
    };
    let quota = |resource, holds, bound, asks| WaitReason::QuotaExceeded {
        queue: "nlp".into(),
        resource,
        holds,
        bound,
        asks,
    };
    check(
        quota(ResourceName::Gpu("H100".into()), 40, 48, 32),
        "QuotaExceeded",
        "queue nlp holds 40 of 48 H100; asks 32",
    );
    check(
        quota(ResourceName::Cpu, 1500, 2000, 1000),
        "QuotaExceeded",
        "queue nlp holds 1500m of 2 cpu; asks 1",
    );
    check(
        quota(ResourceName::Memory, 1 << 30, 2 << 30, 7),
        "QuotaExceeded",
        "queue nlp holds 1Gi of 2Gi memory; asks 7",
    );
    let gpus = |members_asked, members_that_fit| WaitReason::NotEnoughGpus {
        gpu_type: "H100".into(),
        members_asked,
        gpus_each: 8,
        members_that_fit,
        gpus_free: 27,
    };
    check(
        gpus(4, 3),
        "NotEnoughGpus",
        "needs 8 free H100 on a node for each of 4 members; 3 fit (27 H100 free in all)",
    );
    check(gpus(1, 0), "NotEnoughGpus", "needs a node with 8 free H100; none fits (27 H100 free in all)");
    check(WaitReason::MembersMissing { have: 3, want: 4 }, "MembersMissing", "3 of 4 pods exist");
    check(
        WaitReason::QueueUnknown { queue: "org".into(), child: Some("nlp".into()) },
        "QueueUnknown",
        "queue org, the parent of queue nlp, does not exist",
    );
    check(
        WaitReason::TooLargeForAnyNode { gpu_type: "H100".into(), asks: 16, largest: 8 },
        "TooLargeForAnyNode",
        "asks 16 H100 on one node; the largest has 8",
    );
    check(
        WaitReason::NodesRefused {
            gpu_type: Some("H100".into()),
            members_asked: 4,
            members_that_fit: 1,
            refusals: Refusals { taint: 2, cpu: 10, ..Refusals::default() },
        },
        "NodesRefused",
        "nodes with enough free H100 are refused: 2 by a taint, 10 for cpu; needs 4, 1 fits",
    );
}

#[test]
fn reasons_are_also_plain_data() {
    let reason = WaitReason::QuotaExceeded {
        queue: "nlp".into(),
        resource: ResourceName::Gpu("H100".into()),
        holds: 40,
        bound: 48,
        asks: 32,
    };
    let data = reason.to_reason();
    assert_eq!((data.queue.as_deref(), data.resource.as_deref()), (Some("nlp"), Some("H100")));
    assert_eq!((data.holds, data.bound, data.asks, data.never), (Some(40), Some(48), Some(32), false));
}
