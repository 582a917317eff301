//! Many requests on one task. When several are answered at the same moment, the next ones are sent
//! at the same moment: this costs the API server and etcd less work than one at a time, and no
//! thread wakes another for each request.

use std::fmt::Debug;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tracing::error;

/// The result of `work`. If it panics, the result is `None`, the log names `subject`, and the other
/// work on the task goes on.
pub(crate) async fn apart<T>(subject: impl Debug, work: impl Future<Output = T>) -> Option<T> {
    let done = AssertUnwindSafe(work).catch_unwind().await.ok();
    if done.is_none() {
        error!(?subject, "A request panicked, see the message above; others go on.");
    }
    done
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use futures::StreamExt;
    use futures::stream::FuturesUnordered;

    use super::apart;

    #[tokio::test]
    async fn one_that_panics_does_not_take_the_others_along() {
        let work: [Pin<Box<dyn Future<Output = u32>>>; 3] = [
            Box::pin(async { 1 }),
            Box::pin(async {
                tokio::task::yield_now().await;
                panic!("of its own")
            }),
            Box::pin(async {
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                3
            }),
        ];
        let under_way: FuturesUnordered<_> = work.into_iter().map(|one| apart("a pod", one)).collect();
        let mut ended: Vec<_> = under_way.collect().await;
        ended.sort_unstable();
        assert_eq!(ended, [None, Some(1), Some(3)]);
    }
}
