//! The expected content of the ledger: the fold of all facts, and the sums of its lines.

use std::collections::{BTreeMap, BTreeSet};

use costing::{Account, Class, Day, End, Line, Moment, NodeRecord, PodRecord, PriceBook, Subject, fold};
use store::{Batch, Ledger};

use crate::support::Pool;

/// All facts, joined.
#[derive(Clone, Default)]
pub struct Model {
    pub pods: BTreeMap<String, PodRecord>,
    pub nodes: BTreeMap<String, NodeRecord>,
    pub prices: PriceBook,
}

impl Model {
    pub fn hear(&mut self, batch: &Batch) {
        for pod in &batch.pods {
            let known = self.pods.remove(&pod.uid).unwrap_or_else(|| pod.clone());
            self.pods.insert(pod.uid.clone(), known.join(pod.clone()));
        }
        for node in &batch.nodes {
            let known = self.nodes.remove(&node.uid).unwrap_or_else(|| node.clone());
            self.nodes.insert(node.uid.clone(), known.join(node.clone()));
        }
    }

    /// Closed and open lines of every account at a moment, as text.
    fn lines(&self, now: Moment) -> (Vec<String>, Vec<String>) {
        let nodes: Vec<_> = self.nodes.values().cloned().collect();
        let pods: Vec<_> = self.pods.values().cloned().collect();
        let names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let first = nodes.iter().map(|node| node.created_at.day()).min().unwrap_or(now.day());
        let (mut closed, mut open) = (Vec::new(), Vec::new());
        for name in names {
            for day in first.0..=now.day().0 {
                let account = Account { node: name.into(), day: Day(day) };
                let pods: Vec<_> = pods.iter().filter(|pod| is_of_day(pod, account.day)).cloned().collect();
                let folded = fold(&account, &nodes, &pods, &self.prices, now);
                closed.extend(folded.closed.iter().map(|line| text(&account, line, Some(line.to))));
                open.extend(folded.open.iter().map(|open| text(&account, &open.line, None)));
            }
        }
        closed.sort();
        open.sort();
        (closed, open)
    }
}

/// An account is folded from the pods of its day: the limit that docs/decisions/0023-metering-finalizer.md
/// names. So a pod that ran only on a later day does not show that a node lived on after it was taken to be
/// gone.
fn is_of_day(pod: &PodRecord, day: Day) -> bool {
    pod.scheduled_at < day.end() && pod.ended.is_none_or(|end| end.at() > day.start())
}

/// Posts until nothing is due.
pub async fn post_all(ledger: &Ledger, now: Moment) -> store::Posted {
    const ACCOUNTS: u32 = 50;
    let mut all = store::Posted::default();
    loop {
        let posted = ledger.post(now, ACCOUNTS).await.unwrap();
        all.accounts += posted.accounts;
        all.charges += posted.charges;
        all.reversals += posted.reversals;
        all.problems += posted.problems;
        if posted.accounts < u64::from(ACCOUNTS) {
            return all;
        }
    }
}

/// The ledger's net lines and open rows are those of the fold, each reversal takes back the charge that it
/// names, and sums are right.
pub async fn assert_whole(superuser: &Pool, cluster: &str, model: &Model, now: Moment) {
    let (closed, open) = model.lines(now);
    assert_eq!(net_lines(superuser, cluster).await, closed, "net ledger lines");
    assert_eq!(open_lines(superuser, cluster).await, open, "open use");
    assert_sums_are_those_of_lines(superuser).await;
    assert_reversals_mirror_their_charges(superuser).await;
}

/// `daily_spend` and `run_spend` are sums of `ledger_line`, of all clusters.
pub async fn assert_sums_are_those_of_lines(superuser: &Pool) {
    for (table, key) in [
        ("daily_spend", "cluster, day, namespace, queue, username, class"),
        ("run_spend", "cluster, day, namespace, queue, username, class, run, attempt"),
    ] {
        let kept = format!(
            "SELECT {key}, amount, saved, interruptions, gpu_seconds, unpriced_gpu_seconds, lines FROM {table}
             WHERE (amount, saved, interruptions, gpu_seconds, unpriced_gpu_seconds, lines) <> (0, 0, 0, 0, 0, 0)"
        );
        let summed = format!(
            "SELECT {key}, coalesce(sum(amount), 0),
                    sum(saved_rate * extract(epoch FROM to_time - from_time)
                        * CASE WHEN reverses IS NULL THEN 1 ELSE -1 END)::numeric(38, 0),
                    coalesce(sum(amount) FILTER (
                        WHERE class = 'Lost' OR class IN ('Starting', 'NodeStarting') AND attempt > 1), 0),
                    sum(gpu_seconds),
                    coalesce(sum(gpu_seconds) FILTER (WHERE rate IS NULL), 0),
                    sum(CASE WHEN reverses IS NULL THEN 1 ELSE -1 END)
             FROM ledger_line GROUP BY {key} HAVING sum(CASE WHEN reverses IS NULL THEN 1 ELSE -1 END) <> 0"
        );
        let differences = format!(
            "SELECT count(*) FROM (({kept} EXCEPT ALL {summed}) UNION ALL ({summed} EXCEPT ALL {kept})) AS different"
        );
        assert_eq!(superuser.number(&differences).await, 0, "{table} is not the sum of ledger_line");
    }
}

async fn assert_reversals_mirror_their_charges(superuser: &Pool) {
    let bad = superuser
        .number(
            "SELECT count(*) FROM ledger_line reversal LEFT JOIN ledger_line charge
                 ON charge.source = reversal.source AND charge.sequence = reversal.reverses
             WHERE reversal.reverses IS NOT NULL AND (
                 charge.reverses IS NOT NULL
                 OR charge.amount IS DISTINCT FROM -reversal.amount
                 OR charge.gpu_seconds IS DISTINCT FROM -reversal.gpu_seconds
                 OR (charge.node_uid, charge.pod_uid, charge.class, charge.from_time, charge.to_time, charge.rate,
                     charge.namespace, charge.run, charge.attempt, charge.queue, charge.username,
                     charge.saved_rate)
                    IS DISTINCT FROM
                    (reversal.node_uid, reversal.pod_uid, reversal.class, reversal.from_time, reversal.to_time,
                     reversal.rate, reversal.namespace, reversal.run, reversal.attempt, reversal.queue,
                     reversal.username, reversal.saved_rate))",
        )
        .await;
    assert_eq!(bad, 0, "reversals that are not their charges with the sign turned");
}

/// Charges without a reversal, as text.
pub async fn net_lines(superuser: &Pool, cluster: &str) -> Vec<String> {
    lines(
        superuser,
        &format!(
            "SELECT node, day, extract(epoch FROM from_time)::bigint AS starts,
                    extract(epoch FROM to_time)::bigint AS ends, node_uid, pod_uid, class, gpus, namespace, pod,
                    run, attempt, queue, username, rate, saved_rate
             FROM ledger_line charge
             WHERE cluster = '{cluster}' AND reverses IS NULL
               AND NOT EXISTS (SELECT FROM ledger_line r WHERE r.source = charge.source AND r.reverses = charge.sequence)"
        ),
    )
    .await
}

async fn open_lines(superuser: &Pool, cluster: &str) -> Vec<String> {
    lines(
        superuser,
        &format!(
            "SELECT node, day, extract(epoch FROM since)::bigint AS starts, NULL::bigint AS ends, node_uid, pod_uid,
                    class, gpus, namespace, pod, run, attempt, queue, username, rate, saved_rate
             FROM open_usage WHERE cluster = '{cluster}'"
        ),
    )
    .await
}

async fn lines(superuser: &Pool, of: &str) -> Vec<String> {
    let sql = format!(
        "SELECT concat_ws('|', node, day - date '1970-01-01', starts, coalesce(ends::text, '-'), node_uid,
                          coalesce(pod_uid, '-'), class, gpus, coalesce(namespace, '-'), coalesce(pod, '-'),
                          coalesce(run, '-'), coalesce(attempt::text, '-'), coalesce(queue, '-'),
                          coalesce(username, '-'), coalesce(rate::text, '-'), saved_rate)
         FROM ({of}) AS line"
    );
    let mut lines: Vec<String> =
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(&**superuser).await.unwrap();
    lines.sort();
    lines
}

fn text(account: &Account, line: &Line, ends: Option<Moment>) -> String {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let pod_uid = match &line.subject {
        Subject::Pod(uid) => uid.clone(),
        Subject::Idle => "-".into(),
    };
    let class = match line.class {
        Class::Productive => "Productive",
        Class::Starting => "Starting",
        Class::Lost => "Lost",
        Class::NodeStarting => "NodeStarting",
        Class::NodeIdle => "NodeIdle",
    };
    let of = &line.attribution;
    [
        account.node.clone(),
        account.day.0.to_string(),
        line.from.0.to_string(),
        or_dash(&ends.map(|at| at.0.to_string())),
        line.node_uid.clone(),
        pod_uid,
        class.into(),
        line.gpus.to_string(),
        or_dash(&of.namespace),
        or_dash(&of.pod),
        or_dash(&of.run),
        or_dash(&of.attempt.map(|attempt| attempt.to_string())),
        or_dash(&of.queue),
        or_dash(&of.user),
        or_dash(&line.rate.map(|rate| rate.0.to_string())),
        line.saved_rate.0.to_string(),
    ]
    .join("|")
}

/// The same pod, as it was known before it ended.
pub fn still_running(pod: &PodRecord) -> PodRecord {
    PodRecord { ended: None, ..pod.clone() }
}

/// The same pod, with a provisional end.
pub fn vanished(pod: &PodRecord, at: Moment) -> PodRecord {
    PodRecord { ended: Some(End::Provisional(at)), ..pod.clone() }
}
