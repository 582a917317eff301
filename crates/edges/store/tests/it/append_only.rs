//! The append-only tables refuse every other change.

use store::Batch;

use crate::support::{Database, after, ended, node, node_price, pod, pool, today};

#[tokio::test]
async fn neither_the_meter_nor_the_owner_can_change_or_remove_what_was_written() {
    let database = Database::migrated().await;
    let (ledger, start) = (database.ledger(), today().start());
    ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap();
    let done = ended(&pod("a", "n1", "vision", "research", start), after(start, 10), after(start, 60));
    ledger.record(&Batch { pods: vec![done], nodes: vec![node("n1", start)] }).await.unwrap();
    ledger.post(after(start, 100), 10).await.unwrap();

    let superuser = database.superuser();
    let partition = superuser
        .rows("SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'ledger_line'::regclass")
        .await;
    assert!(partition.len() >= 2, "this month and the next have partitions: {partition:?}");
    let partition = jiff_month(today());
    for url in [&database.urls.meter, &database.urls.owner, &database.urls.superuser] {
        let role = pool(url);
        for (table, column) in [
            ("ledger_line", "amount"),
            (partition.as_str(), "amount"),
            ("usage_event", "sequence"),
            ("price", "price"),
            ("price_version", "version"),
        ] {
            for statement in [
                format!("UPDATE {table} SET {column} = 0"),
                format!("DELETE FROM {table}"),
                format!("TRUNCATE {table} CASCADE"),
            ] {
                assert!(role.run(&statement).await.is_err(), "{statement}");
            }
        }
    }
    assert!(superuser.number("SELECT count(*) FROM ledger_line").await >= 2);
}

#[tokio::test]
async fn the_database_refuses_a_line_that_does_not_add_up() {
    let database = Database::migrated().await;
    database.ledger().roll(today()).await.unwrap();
    let meter = pool(&database.urls.meter);
    let day = format!("(date '1970-01-01' + {})", today().0);
    let insert = |sequence: i64, source_day: &str, amount: &str, reverses: &str| {
        format!(
            "INSERT INTO ledger_line (day, source, sequence, cluster, node, node_uid, class, from_time, to_time, gpus,
                                      rate, amount, gpu_seconds, reverses)
             VALUES ({day}, 'test/n1/' || {source_day}, {sequence}, 'test', 'n1', 'uid', 'NodeIdle', {day}::timestamp AT TIME ZONE 'UTC',
                     ({day} + interval '10 seconds') AT TIME ZONE 'UTC', 8, 3, {amount},
                     80 * CASE WHEN {reverses}::bigint IS NULL THEN 1 ELSE -1 END, {reverses})"
        )
    };
    meter.run(&insert(1, &day, "30", "NULL")).await.unwrap();
    assert!(meter.run(&insert(2, &day, "31", "NULL")).await.is_err(), "rate × seconds is 30");
    assert!(meter.run(&insert(1, &day, "30", "NULL")).await.is_err(), "the same sequence again");
    assert!(meter.run(&insert(2, "'2001-01-01'", "30", "NULL")).await.is_err(), "a source of another day");
    assert!(meter.run(&insert(2, &day, "30", "1")).await.is_err(), "a reversal with the sign of a charge");
    meter.run(&insert(2, &day, "-30", "1")).await.unwrap();
    assert!(meter.run(&insert(3, &day, "-30", "1")).await.is_err(), "reversed twice");
}

fn jiff_month(day: costing::Day) -> String {
    let date = jiff::Timestamp::from_second(day.start().0).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
    format!("ledger_line_{:04}_{:02}", date.year(), date.month())
}
