//! Machines that we bought: the price paid, the gang they were bought for, and what spot saved.

use costing::{Amount, Class, End, HourlyPrice, NodeRecord, PodRecord};
use store::{Batch, Grouping, Scope};

use crate::model::{Model, assert_whole, post_all};
use crate::support::{CLUSTER, Database, after, ended, node, node_price, pod, report_by, spot, today};

fn price(per_hour: &str, seconds: i64) -> Amount {
    HourlyPrice::parse(per_hour).unwrap().per_second() * seconds
}

#[tokio::test]
async fn a_machine_is_charged_at_what_was_paid_and_its_start_to_whom_it_was_bought_for() {
    let database = Database::migrated().await;
    let (ledger, reader, superuser) = (database.ledger(), database.reader(), database.superuser());
    let start = today().start();
    // It has no Node until second 40; its Node opens at second 60 and goes at second 300.
    let claim = NodeRecord {
        uid: "claim".into(),
        ended: Some(End::Certain(after(start, 40))),
        bought: Some(spot(None)),
        ..node("claim-1", start)
    };
    let machine = NodeRecord {
        ended: Some(End::Provisional(after(start, 300))),
        bought: Some(spot(Some(after(start, 60)))),
        ..node("n1", after(start, 40))
    };
    let used = PodRecord { gpus: 8, ..pod("a", "n1", "vision", "prod", after(start, 60)) };
    let used = ended(&used, after(start, 70), after(start, 200));
    let batch = Batch { pods: vec![used], nodes: vec![claim, machine] };
    // A price sheet has another price for it, which does not count.
    ledger.set_prices("EUR", &[node_price("99")]).await.unwrap();
    ledger.record(&batch).await.unwrap();
    let now = after(start, 400);
    post_all(&ledger, now).await;
    let mut model = Model { prices: costing::PriceBook::new(vec![node_price("99")]), ..Model::default() };
    model.hear(&batch);
    assert_whole(&superuser, CLUSTER, &model, now).await;

    let tenant = Scope::Namespaces(vec!["vision".into()]);
    let cost = reader.run_cost(&tenant, "vision", "run-a", now).await.unwrap();
    let classes: Vec<_> = cost.classes.iter().map(|(class, row)| (*class, row.amount)).collect();
    assert_eq!(
        classes,
        [
            (Class::Productive, price("28.8", 130)),
            (Class::Starting, price("28.8", 10)),
            (Class::NodeStarting, price("28.8", 60)),
        ]
    );
    assert_eq!(cost.total.saved, price("43.2", 200));
    assert_eq!(cost.total.interruptions, price("28.8", 60), "bought once more, for the second attempt");
    let all = reader.report(&Scope::Everything, &report_by(Grouping::Class), now).await.unwrap();
    assert_eq!((all.total.amount, all.total.saved), (price("28.8", 300), price("43.2", 300)));
    assert_eq!(all.rows.iter().map(|row| row.saved.0).sum::<i128>(), all.total.saved.0);
}

#[tokio::test]
async fn what_a_machine_saves_grows_while_it_runs_and_records_are_read_back_whole() {
    let database = Database::migrated().await;
    let (ledger, reader, start) = (database.ledger(), database.reader(), today().start());
    let machine = NodeRecord { bought: Some(spot(None)), ..node("n1", start) };
    let plain = node("n2", start);
    let nodes = vec![machine.clone(), plain.clone()];
    ledger.record(&Batch { pods: vec![], nodes }).await.unwrap();
    post_all(&ledger, after(start, 10)).await;
    assert_eq!(ledger.open_nodes().await.unwrap(), [machine, plain]);
    for seconds in [20, 50] {
        let cost =
            reader.run_cost(&Scope::Everything, "vision", "run-a", after(start, seconds)).await.unwrap();
        assert_eq!(cost.total.saved, price("43.2", seconds));
        assert_eq!(cost.total.interruptions, price("28.8", seconds));
    }
}
