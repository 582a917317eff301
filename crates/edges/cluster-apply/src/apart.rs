//! Many requests on one task: those that are answered in the same moment are followed by others in the same moment, which the
//! API server and etcd do with less work than one at a time; and no thread wakes another for each.

use std::fmt::Debug;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tracing::error;

/// What `work` comes to. If it panics, the others on its task go on; `None`, and the log names `subject`.
pub(crate) async fn apart<T>(subject: impl Debug, work: impl Future<Output = T>) -> Option<T> {
    let done = AssertUnwindSafe(work).catch_unwind().await.ok();
    if done.is_none() {
        error!(
            ?subject,
            "What the API server was asked about this panicked, see the message above; others go on."
        );
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
