//! Rows of `node_usage`.

use costing::{Attribution, HourlyPrice, MachineStart, Moment, NodeRecord, NodeShape, Purchase};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

use crate::Error;
use crate::rows::{get, get_end, get_moment, is_certain};

use super::changed::Changed;

macro_rules! node_columns {
    () => {
        "uid, name, extract(epoch FROM created_at)::bigint AS created_at, shapes,
         extract(epoch FROM ended_at)::bigint AS ended_at, ended_certain, bought, events"
    };
}

/// The nodes with these UIDs, each with the number of its events.
pub(crate) async fn load(
    connection: &mut PgConnection,
    cluster: &str,
    uids: &[&str],
) -> Result<Vec<(NodeRecord, i64)>, Error> {
    const SQL: &str =
        concat!("SELECT ", node_columns!(), " FROM node_usage WHERE cluster = $1 AND uid = ANY($2)");
    let rows = sqlx::query(SQL).bind(cluster).bind(uids).fetch_all(connection).await;
    let rows = rows.map_err(Error::to("read nodes"))?;
    rows.iter().map(|row| Ok((node(row)?, get(row, "events")?))).collect()
}

/// Nodes without an end, in the order of UIDs.
pub(crate) async fn load_open(
    connection: &mut PgConnection,
    cluster: &str,
) -> Result<Vec<NodeRecord>, Error> {
    const SQL: &str = concat!(
        "SELECT ",
        node_columns!(),
        " FROM node_usage WHERE cluster = $1 AND ended_at IS NULL ORDER BY uid COLLATE \"C\""
    );
    let rows = sqlx::query(SQL).bind(cluster).fetch_all(connection).await;
    rows.map_err(Error::to("read open nodes"))?.iter().map(node).collect()
}

/// Every life of the nodes of these names.
pub(crate) async fn load_of_names(
    connection: &mut PgConnection,
    cluster: &str,
    names: &[&str],
) -> Result<Vec<NodeRecord>, Error> {
    const SQL: &str =
        concat!("SELECT ", node_columns!(), " FROM node_usage WHERE cluster = $1 AND name = ANY($2)");
    let rows = sqlx::query(SQL).bind(cluster).bind(names).fetch_all(connection).await;
    rows.map_err(Error::to("read the nodes of accounts"))?.iter().map(node).collect()
}

/// Writes what changed.
pub(crate) async fn write(
    connection: &mut PgConnection,
    cluster: &str,
    changed: &[Changed<NodeRecord>],
) -> Result<(), Error> {
    const SQL: &str = "
        INSERT INTO node_usage (cluster, uid, name, created_at, shapes, ended_at, ended_certain, events, bought)
        SELECT $1, uid, name, to_timestamp(created_at), shapes, to_timestamp(ended_at), ended_certain, events, bought
        FROM unnest($2::text[], $3::text[], $4::bigint[], $5::jsonb[], $6::bigint[], $7::boolean[], $8::bigint[],
                    $9::jsonb[])
            AS new(uid, name, created_at, shapes, ended_at, ended_certain, events, bought)
        ON CONFLICT (cluster, uid) DO UPDATE SET
            name = excluded.name, created_at = excluded.created_at, shapes = excluded.shapes,
            ended_at = excluded.ended_at, ended_certain = excluded.ended_certain, events = excluded.events,
            bought = excluded.bought";
    sqlx::query(SQL)
        .bind(cluster)
        .bind(changed.iter().map(|c| c.now.uid.as_str()).collect::<Vec<_>>())
        .bind(changed.iter().map(|c| c.now.name.as_str()).collect::<Vec<_>>())
        .bind(changed.iter().map(|c| c.now.created_at.0).collect::<Vec<_>>())
        .bind(changed.iter().map(|c| Json(shapes_to_rows(&c.now))).collect::<Vec<_>>())
        .bind(changed.iter().map(|c| c.now.ended.map(|end| end.at().0)).collect::<Vec<_>>())
        .bind(changed.iter().map(|c| c.now.ended.map(is_certain)).collect::<Vec<_>>())
        .bind(changed.iter().map(|c| c.events).collect::<Vec<_>>())
        .bind(changed.iter().map(|c| c.now.bought.as_ref().map(bought_to_row).map(Json)).collect::<Vec<_>>())
        .execute(connection)
        .await
        .map_err(Error::to("record nodes"))?;
    Ok(())
}

/// A node as `usage_event` keeps it.
pub(crate) fn to_json(node: &NodeRecord) -> Value {
    json!({
        "uid": node.uid,
        "name": node.name,
        "createdAt": node.created_at.0,
        "shapes": shapes_to_rows(node),
        "endedAt": node.ended.map(|end| end.at().0),
        "endedCertain": node.ended.map(is_certain),
        "bought": node.bought.as_ref().map(bought_to_row),
    })
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShapeRow {
    from: i64,
    instance_type: Option<String>,
    capacity_type: String,
    gpu_type: Option<String>,
    gpus: u32,
    cpu_millis: i64,
}

fn shapes_to_rows(node: &NodeRecord) -> Vec<ShapeRow> {
    let row = |(from, shape): &(Moment, NodeShape)| {
        let NodeShape { instance_type, capacity_type, gpu_type, gpus, cpu_millis } = shape.clone();
        ShapeRow { from: from.0, instance_type, capacity_type, gpu_type, gpus, cpu_millis }
    };
    node.shapes.iter().map(row).collect()
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PurchaseRow {
    paid: i64,
    on_demand: Option<i64>,
    start: Option<StartRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartRow {
    opened_at: Option<i64>,
    namespace: Option<String>,
    run: Option<String>,
    attempt: Option<u32>,
    queue: Option<String>,
    user: Option<String>,
}

fn bought_to_row(bought: &Purchase) -> PurchaseRow {
    let start = |start: &MachineStart| {
        // A machine is bought for a gang, not for one of its pods.
        let Attribution { namespace, run, attempt, queue, user, pod: _ } = start.buyer.clone();
        StartRow { opened_at: start.opened_at.map(|at| at.0), namespace, run, attempt, queue, user }
    };
    PurchaseRow {
        paid: bought.paid.0,
        on_demand: bought.on_demand.map(|price| price.0),
        start: bought.start.as_ref().map(start),
    }
}

fn bought(row: PurchaseRow) -> Purchase {
    let start = |row: StartRow| {
        let StartRow { opened_at, namespace, run, attempt, queue, user } = row;
        let buyer = Attribution { namespace, pod: None, run, attempt, queue, user };
        MachineStart { buyer, opened_at: opened_at.map(Moment) }
    };
    Purchase {
        paid: HourlyPrice(row.paid),
        on_demand: row.on_demand.map(HourlyPrice),
        start: row.start.map(start),
    }
}

fn node(row: &PgRow) -> Result<NodeRecord, Error> {
    let Json(shapes): Json<Vec<ShapeRow>> = get(row, "shapes")?;
    let shape = |row: ShapeRow| {
        let ShapeRow { from, instance_type, capacity_type, gpu_type, gpus, cpu_millis } = row;
        (Moment(from), NodeShape { instance_type, capacity_type, gpu_type, gpus, cpu_millis })
    };
    Ok(NodeRecord {
        uid: get(row, "uid")?,
        name: get(row, "name")?,
        created_at: get_moment(row, "created_at")?,
        shapes: shapes.into_iter().map(shape).collect(),
        ended: get_end(row)?,
        bought: get::<Option<Json<PurchaseRow>>>(row, "bought")?.map(|Json(row)| bought(row)),
    })
}
