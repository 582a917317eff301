//! Converts between rows and the types of [`costing`]. Days are days since 1970, moments are seconds since
//! 1970, and money is decimal text: all exact, and none needs a type of the database's driver.

use costing::{Amount, Attribution, Class, End, Line, Moment, Subject};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::Error;

/// The name of a class, in rows and in reports.
pub(crate) fn class_name(class: Class) -> &'static str {
    match class {
        Class::Productive => "Productive",
        Class::Starting => "Starting",
        Class::Lost => "Lost",
        Class::NodeStarting => "NodeStarting",
        Class::NodeIdle => "NodeIdle",
    }
}

pub(crate) fn class(name: &str) -> Result<Class, Error> {
    Class::ALL
        .into_iter()
        .find(|class| class_name(*class) == name)
        .ok_or_else(|| Error::Corrupt(format!("the class {name:?}")))
}

pub(crate) fn amount(text: &str) -> Result<Amount, Error> {
    text.parse().map(Amount).map_err(|_| Error::Corrupt(format!("the amount {text:?}")))
}

/// A column by name.
pub(crate) fn get<'row, T>(row: &'row PgRow, column: &str) -> Result<T, Error>
where
    T: sqlx::Decode<'row, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(column).map_err(Error::to("read a row"))
}

/// A count that is never negative.
pub(crate) fn get_u32(row: &PgRow, column: &str) -> Result<u32, Error> {
    let value: i64 = get(row, column)?;
    u32::try_from(value).map_err(|_| Error::Corrupt(format!("{column} {value}")))
}

pub(crate) fn get_attempt(row: &PgRow) -> Result<Option<u32>, Error> {
    let value: Option<i64> = get(row, "attempt")?;
    value.map(u32::try_from).transpose().map_err(|_| Error::Corrupt(format!("attempt {value:?}")))
}

pub(crate) fn get_moment(row: &PgRow, column: &str) -> Result<Moment, Error> {
    get(row, column).map(Moment)
}

pub(crate) fn get_moment_if_any(row: &PgRow, column: &str) -> Result<Option<Moment>, Error> {
    Ok(get::<Option<i64>>(row, column)?.map(Moment))
}

pub(crate) fn get_end(row: &PgRow) -> Result<Option<End>, Error> {
    let certain: Option<bool> = get(row, "ended_certain")?;
    let at = get_moment_if_any(row, "ended_at")?;
    Ok(at.map(|at| if certain == Some(true) { End::Certain(at) } else { End::Provisional(at) }))
}

pub(crate) fn is_certain(end: End) -> bool {
    matches!(end, End::Certain(_))
}

/// A line, from a row of `ledger_line` or of `open_usage` with the same columns.
pub(crate) fn get_line(row: &PgRow) -> Result<Line, Error> {
    let pod_uid: Option<String> = get(row, "pod_uid")?;
    let rate: Option<String> = get(row, "rate")?;
    Ok(Line {
        subject: pod_uid.map_or(Subject::Idle, Subject::Pod),
        node_uid: get(row, "node_uid")?,
        class: class(get(row, "class")?)?,
        from: get_moment(row, "from_time")?,
        to: get_moment(row, "to_time")?,
        gpus: get(row, "gpus")?,
        attribution: Attribution {
            namespace: get(row, "namespace")?,
            pod: get(row, "pod")?,
            run: get(row, "run")?,
            attempt: get_attempt(row)?,
            queue: get(row, "queue")?,
            user: get(row, "username")?,
        },
        rate: rate.as_deref().map(amount).transpose()?,
        saved_rate: amount(get(row, "saved_rate")?)?,
    })
}

/// The columns of [`get_line`] that both tables have under the same name.
macro_rules! line_columns {
    () => {
        "node_uid, pod_uid, class, gpus, namespace, pod, run, attempt, queue, username, rate::text AS rate,
         saved_rate::text AS saved_rate"
    };
}
pub(crate) use line_columns;

/// Lines as columns, for `unnest`.
#[derive(Default)]
pub(crate) struct LineColumns {
    pub(crate) node_uid: Vec<String>,
    pub(crate) pod_uid: Vec<Option<String>>,
    pub(crate) class: Vec<&'static str>,
    pub(crate) from: Vec<i64>,
    pub(crate) to: Vec<i64>,
    pub(crate) gpus: Vec<i64>,
    pub(crate) namespace: Vec<Option<String>>,
    pub(crate) pod: Vec<Option<String>>,
    pub(crate) run: Vec<Option<String>>,
    pub(crate) attempt: Vec<Option<i64>>,
    pub(crate) queue: Vec<Option<String>>,
    pub(crate) user: Vec<Option<String>>,
    pub(crate) rate: Vec<Option<String>>,
    pub(crate) saved_rate: Vec<String>,
}

impl LineColumns {
    pub(crate) fn push(&mut self, line: &Line) {
        let Attribution { namespace, pod, run, attempt, queue, user } = line.attribution.clone();
        self.node_uid.push(line.node_uid.clone());
        self.pod_uid.push(match &line.subject {
            Subject::Pod(uid) => Some(uid.clone()),
            Subject::Idle => None,
        });
        self.class.push(class_name(line.class));
        self.from.push(line.from.0);
        self.to.push(line.to.0);
        self.gpus.push(line.gpus);
        self.namespace.push(namespace);
        self.pod.push(pod);
        self.run.push(run);
        self.attempt.push(attempt.map(i64::from));
        self.queue.push(queue);
        self.user.push(user);
        self.rate.push(line.rate.map(|rate| rate.0.to_string()));
        self.saved_rate.push(line.saved_rate.0.to_string());
    }
}
