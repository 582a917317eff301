//! Versions of all prices.

use std::collections::BTreeMap;

use costing::{HourlyPrice, Moment, Price, PriceUnit};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;

use crate::Error;
use crate::rows::{get, get_moment};

use super::mark;

/// The current version, and its currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) number: i64,
    pub(crate) currency: String,
}

pub(crate) async fn version(connection: &mut PgConnection, cluster: &str) -> Result<Option<Version>, Error> {
    let row: Option<(i64, String)> = sqlx::query_as(
        "SELECT version, currency FROM price_version WHERE cluster = $1 ORDER BY version DESC LIMIT 1",
    )
    .bind(cluster)
    .fetch_optional(connection)
    .await
    .map_err(Error::to("read the version of prices"))?;
    Ok(row.map(|(number, currency)| Version { number, currency }))
}

pub(crate) async fn load(
    connection: &mut PgConnection,
    cluster: &str,
    version: i64,
) -> Result<Vec<Price>, Error> {
    let rows = sqlx::query(
        "SELECT sheet, instance_type, gpu_type, capacity_type, unit, price,
                extract(epoch FROM valid_from)::bigint AS valid_from
         FROM price WHERE cluster = $1 AND version = $2 ORDER BY position",
    )
    .bind(cluster)
    .bind(version)
    .fetch_all(connection)
    .await
    .map_err(Error::to("read prices"))?;
    rows.iter().map(price).collect()
}

/// Sets the prices, within a transaction that holds the writer's lock. Returns whether anything changed.
pub(crate) async fn set(
    connection: &mut PgConnection,
    cluster: &str,
    currency: &str,
    prices: &[Price],
) -> Result<bool, Error> {
    let current = version(connection, cluster).await?;
    let known = match &current {
        Some(version) => load(connection, cluster, version.number).await?,
        None => Vec::new(),
    };
    let first_change = first_difference(&known, prices);
    if first_change.is_none() && current.as_ref().is_some_and(|version| version.currency == currency) {
        return Ok(false);
    }
    let next = current.map_or(1, |version| version.number + 1);
    append(connection, cluster, next, currency, prices).await?;
    if let Some(first) = first_change {
        mark::mark_since(connection, cluster, first.day()).await?;
    }
    Ok(true)
}

async fn append(
    connection: &mut PgConnection,
    cluster: &str,
    version: i64,
    currency: &str,
    prices: &[Price],
) -> Result<(), Error> {
    sqlx::query("INSERT INTO price_version (cluster, version, currency) VALUES ($1, $2, $3)")
        .bind(cluster)
        .bind(version)
        .bind(currency)
        .execute(&mut *connection)
        .await
        .map_err(Error::to("append a version of prices"))?;
    sqlx::query(
        "INSERT INTO price (cluster, version, sheet, instance_type, gpu_type, capacity_type, unit, price, valid_from,
                            position)
         SELECT $1, $2, sheet, instance_type, gpu_type, capacity_type, unit, price, to_timestamp(valid_from), position
         FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[])
              WITH ORDINALITY
              AS new(sheet, instance_type, gpu_type, capacity_type, unit, price, valid_from, position)",
    )
    .bind(cluster)
    .bind(version)
    .bind(prices.iter().map(|price| price.sheet.as_str()).collect::<Vec<_>>())
    .bind(prices.iter().map(|price| price.instance_type.as_deref()).collect::<Vec<_>>())
    .bind(prices.iter().map(|price| price.gpu_type.as_deref()).collect::<Vec<_>>())
    .bind(prices.iter().map(|price| price.capacity_type.as_deref()).collect::<Vec<_>>())
    .bind(prices.iter().map(|price| unit_name(price.unit)).collect::<Vec<_>>())
    .bind(prices.iter().map(|price| price.price.0).collect::<Vec<_>>())
    .bind(prices.iter().map(|price| price.from.0).collect::<Vec<_>>())
    .execute(connection)
    .await
    .map_err(Error::to("append prices"))?;
    Ok(())
}

/// The earliest start of an entry that one side does not have, or has less often.
fn first_difference(known: &[Price], new: &[Price]) -> Option<Moment> {
    let mut surplus: BTreeMap<_, i64> = BTreeMap::new();
    for price in known {
        *surplus.entry(key(price)).or_default() += 1;
    }
    for price in new {
        *surplus.entry(key(price)).or_default() -= 1;
    }
    // A key begins with the moment.
    surplus.iter().find(|(_, count)| **count != 0).map(|((from, ..), _)| *from)
}

type Key<'a> = (Moment, &'a str, [Option<&'a str>; 3], PriceUnit, HourlyPrice);

fn key(price: &Price) -> Key<'_> {
    let Price { sheet, instance_type, gpu_type, capacity_type, unit, price, from } = price;
    let asks = [instance_type, gpu_type, capacity_type].map(Option::as_deref);
    (*from, sheet, asks, *unit, *price)
}

fn price(row: &PgRow) -> Result<Price, Error> {
    let unit: String = get(row, "unit")?;
    Ok(Price {
        sheet: get(row, "sheet")?,
        instance_type: get(row, "instance_type")?,
        gpu_type: get(row, "gpu_type")?,
        capacity_type: get(row, "capacity_type")?,
        unit: [PriceUnit::Node, PriceUnit::Gpu]
            .into_iter()
            .find(|known| unit_name(*known) == unit)
            .ok_or_else(|| Error::Corrupt(format!("the unit {unit:?}")))?,
        price: HourlyPrice(get(row, "price")?),
        from: get_moment(row, "valid_from")?,
    })
}

fn unit_name(unit: PriceUnit) -> &'static str {
    match unit {
        PriceUnit::Node => "Node",
        PriceUnit::Gpu => "Gpu",
    }
}
