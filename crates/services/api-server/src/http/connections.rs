//! Connections and their bounds: their number, the size of a head, and the time to send it.
//!
//! ```text
//!   accept (a place must be free) ─► HTTP/1.1: head ≤ 64 KiB within 20 s ─► router ─► close, and let the rest drain
//! ```
//!
//! It never looks at a request. Bounds on bodies and on the time of a request are the router's.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

/// Connections at one time; others wait in the kernel's queue. A browser has six, one of which may be a stream:
/// 500 open pages are 3,000.
const CONNECTIONS_MAX: usize = 4_096;
/// The most bytes read ahead on a connection, and so the largest head: a token of 16 KiB, cookies, and headers
/// of proxies. × 4,096 connections = 256 MiB at the very most.
const READ_AHEAD_BYTES: usize = 64 * 1_024;
/// From the last answer, or the connection's start, to the end of the next head.
const HEAD_TIME_MAX: Duration = Duration::from_secs(20);
/// How long, and how much, incoming data is read and dropped after the last answer: the content of two kernels'
/// buffers. A client that still sends after that ignores the answer.
const LINGER_TIME: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 4 * 1_024 * 1_024;
/// How long requests may take to end when the process is told to.
const STOP_TIME: Duration = Duration::from_secs(3);
/// The wait after an `accept` that failed, for example because no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop`, then lets requests end.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let tasks = TaskTracker::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (router, stop) = (router.clone(), stop.clone());
                tasks.spawn(async move {
                    serve_one(stream, router, stop).await;
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "Cannot accept a connection.");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    tasks.close();
    tasks.wait().await;
}

async fn serve_one(stream: TcpStream, router: Router, stop: CancellationToken) {
    // Sends small answers and events at once. If it cannot be set, they go out a little later.
    drop(stream.set_nodelay(true));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(READ_AHEAD_BYTES)
        .serve_connection(TokioIo::new(Lingering::new(stream)), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            // Streams of events would last for minutes; their clients connect to another process.
            tokio::time::timeout(STOP_TIME, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = result {
        debug!(%error, "A connection ended early.");
    }
}

/// A stream that lingers before it closes. If it were closed while the other side still sends, the kernel would
/// send a reset, and our last answer, for example a 413, would be lost.
struct Lingering {
    stream: TcpStream,
    until: Option<Pin<Box<Sleep>>>,
    drained_bytes: usize,
}

impl Lingering {
    fn new(stream: TcpStream) -> Self {
        Self { stream, until: None, drained_bytes: 0 }
    }

    /// Reads and drops incoming data until the other side is done or the time is up.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut forgotten = [0; 4_096];
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER_TIME)));
        loop {
            if until.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut forgotten);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() && self.drained_bytes < LINGER_BYTES => {
                    self.drained_bytes += buffer.filled().len();
                }
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
    }
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.until.is_none() {
            std::task::ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        }
        self.poll_drain(context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_util::sync::CancellationToken;

    use super::serve;

    #[tokio::test]
    async fn neither_an_idle_connection_nor_an_endless_answer_holds_up_the_end() {
        let endless =
            || async { Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>()) };
        let router = Router::new().route("/", get(|| async { "ok" })).route("/endless", get(endless));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, router, stop.clone()));
        let mut connections = Vec::new();
        for path in ["/", "/endless"] {
            let mut connection = TcpStream::connect(address).await.expect("it accepts");
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
            connection.write_all(request.as_bytes()).await.expect("it reads");
            let mut start = [0; 15];
            connection.read_exact(&mut start).await.expect("it answers");
            assert_eq!(&start, b"HTTP/1.1 200 OK");
            connections.push(connection);
        }
        stop.cancel();
        let bound = super::STOP_TIME + Duration::from_secs(5);
        tokio::time::timeout(bound, server).await.expect("it ends").expect("without a panic");
    }
}
