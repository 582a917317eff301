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
        "queue nlp holds 40 of 48 H100; requests 32",
    );
    check(
        quota(ResourceName::Cpu, 1500, 2000, 1000),
        "QuotaExceeded",
        "queue nlp holds 1500m of 2 cpu; requests 1",
    );
    check(
        quota(ResourceName::Memory, 1 << 30, 2 << 30, 7),
        "QuotaExceeded",
        "queue nlp holds 1Gi of 2Gi memory; requests 7",
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
        "requests 16 H100 on one node; the largest node has 8",
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
fn numbers_carry_their_labels() {
    let told = |reason: WaitReason| -> Vec<_> {
        let numbers = reason.numbers().into_iter();
        numbers.map(|it| (format!("{} {} {}", it.label, it.value, it.unit), it.of_queue)).collect()
    };
    let quota = WaitReason::QuotaExceeded {
        queue: "nlp".into(),
        resource: ResourceName::Gpu("H100".into()),
        holds: 40,
        bound: 48,
        asks: 32,
    };
    let about = quota.about();
    assert_eq!((about.queue, about.resource), (Some(&"nlp".into()), Some("H100")));
    assert!(!quota.is_never());
    let expect =
        [("requests 32 H100", false), ("queue holds 40 H100", true), ("queue may hold 48 H100", true)];
    assert_eq!(told(quota), expect.map(|(number, of_queue)| (number.to_owned(), of_queue)));
    let power = WaitReason::PowerCapped { cap_watts: 900, draws_watts: 800, would_draw_watts: 1_000 };
    let expect = ["would draw 1000 watts", "nodes draw 800 watts", "nodes may draw 900 watts"];
    assert_eq!(told(power), expect.map(|number| (number.to_owned(), false)));
}
