//! The cost of open use, in SQL, for queries that sum.

/// Seconds of a row of `open_usage` until the moment `$now`. A day's account counts no further than its
/// midnight: later use belongs to the next day's account, which is posted some seconds later.
macro_rules! open_seconds {
    ($now:literal) => {
        concat!(
            "greatest(0, least(",
            $now,
            ", extract(epoch FROM (day + 1)::timestamp AT TIME ZONE 'UTC')::bigint)
                 - extract(epoch FROM since)::bigint)"
        )
    };
}
pub(crate) use open_seconds;
