//! A connection that keeps its place until it ends. It ends if nothing is written to it for too long: the other
//! side is idle, or sends its request or reads the answer too slowly.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

/// The longest time without a write, from the connection's start or the last write. Longer than clients keep
/// idle connections (90 s), so that no connection is closed just before it is used.
const SILENCE_MAX: Duration = Duration::from_secs(100);

/// A connection with its place and its deadline.
pub struct Connection<S> {
    stream: S,
    /// Reads do not put it off: a client that sends byte by byte must not hold the connection.
    silence: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl<S> Connection<S> {
    pub(super) fn new(stream: S, place: OwnedSemaphorePermit) -> Self {
        Self { stream, silence: Box::pin(tokio::time::sleep(SILENCE_MAX)), _place: place }
    }

    /// Fails an operation without progress once the silence is too long.
    fn bounded<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_pending() && self.silence.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        result
    }

    /// The same, for operations whose progress puts the end off.
    fn written<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(result, Poll::Ready(Ok(_))) {
            self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
        }
        self.bounded(context, result)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.bounded(context, result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(context, result)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::sync::Semaphore;
    use tokio::time::{Instant, timeout};

    use super::{Connection, SILENCE_MAX};

    fn connection() -> (Connection<DuplexStream>, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(16);
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("it is free");
        (Connection::new(ours, place), theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_answered_nothing_is_cut_off_though_it_sends_byte_by_byte() {
        let (mut ours, mut theirs) = connection();
        let started = Instant::now();
        let sends = tokio::spawn(async move {
            while theirs.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut read = Vec::new();
        let ended = timeout(SILENCE_MAX * 3, ours.read_to_end(&mut read)).await.expect("it is cut off");
        assert_eq!(ended.expect_err("it did not end by itself").kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed().as_secs(), SILENCE_MAX.as_secs());
        drop(ours);
        sends.await.expect("it saw the end");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_starts_the_time_anew_and_one_that_is_not_read_ends_it() {
        let (mut ours, mut theirs) = connection();
        for _ in 0..4 {
            tokio::time::sleep(SILENCE_MAX * 9 / 10).await;
            ours.write_all(b"answer").await.expect("it is open");
            theirs.read_exact(&mut [0; 6]).await.expect("it is open");
        }
        let stuck = timeout(SILENCE_MAX * 3, ours.write_all(&[0; 64])).await.expect("it is cut off");
        assert_eq!(stuck.expect_err("nobody reads").kind(), io::ErrorKind::TimedOut);
    }
}
