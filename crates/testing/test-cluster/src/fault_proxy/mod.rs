//! A proxy in front of API servers that misbehaves on request.
//!
//! ```text
//!   client ──TLS, HTTP/1.1──► FaultProxy ──TLS, HTTP/1.1──► one of the API servers, the same for a whole connection
//!             bearer token passes through      409, 429, 500, cut, silence, delay, no watches
//! ```
//!
//! It speaks HTTP, so that it can answer for the server, and can either lose the answer of an executed request
//! or lose the request. It never invents a success, never repeats a request, and keeps none. Clients log in
//! with tokens: a client certificate would end here.

mod faults;
mod upstream;

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use seeded_random::Random;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::Error;
use faults::Fault;
pub use faults::{Counts, Faults};
pub(crate) use upstream::acceptor;
use upstream::{Link, Upstreams};

type AnyBody = BoxBody<Bytes, io::Error>;

/// A running proxy; it ends when dropped.
#[derive(Debug)]
pub struct FaultProxy {
    url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstreams: Upstreams,
    random: Mutex<Random>,
    counts: Mutex<Counts>,
    faults: watch::Sender<Faults>,
    /// Watches that were open at an earlier value have ended.
    cuts: watch::Sender<u64>,
    connections: AtomicUsize,
}

impl FaultProxy {
    /// Listens on a free loopback port, with a certificate for it, and passes everything on to `upstreams` in turn.
    pub(crate) async fn start(
        certificate: &crate::pki::CertifiedKey,
        authority: &std::path::Path,
        upstreams: &[String],
        seed: u64,
    ) -> Result<Self, Error> {
        let fail = |source| Error::Io { what: "start the fault proxy".into(), source };
        let acceptor = upstream::acceptor(certificate).map_err(fail)?;
        let upstreams = Upstreams::new(authority, upstreams).map_err(fail)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(fail)?;
        let url = format!("https://127.0.0.1:{}", listener.local_addr().map_err(fail)?.port());
        let shared = Arc::new(Shared {
            upstreams,
            random: Mutex::new(Random::new(seed)),
            counts: Mutex::default(),
            faults: watch::Sender::new(Faults::default()),
            cuts: watch::Sender::new(0),
            connections: AtomicUsize::new(0),
        });
        let task = tokio::spawn(accept(listener, acceptor, Arc::clone(&shared)));
        Ok(Self { url, shared, task })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sets the faults from now on.
    pub fn set(&self, faults: Faults) {
        self.shared.faults.send_replace(faults);
        if faults.no_watches {
            self.cut_watches();
        }
    }

    /// Ends every watch that is open; new ones are served unless the faults say otherwise.
    pub fn cut_watches(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        *self.shared.counts()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, faults: &Faults, is_write: bool) -> Fault {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = faults.draw(&mut random, is_write);
        self.counts().note(fault);
        fault
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            // A client may go away at any time.
            let _ = serve(stream, &acceptor, shared).await;
        });
    }
}

/// Serves one connection of a client with one of ours to a server: its requests come one after the other.
async fn serve(stream: TcpStream, acceptor: &TlsAcceptor, shared: Arc<Shared>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let index = shared.connections.fetch_add(1, Ordering::Relaxed);
    let link = Arc::new(tokio::sync::Mutex::new(shared.upstreams.link(index)));
    let service = service_fn(move |request| {
        let (shared, link) = (Arc::clone(&shared), Arc::clone(&link));
        async move { pass(request, &shared, &mut *link.lock().await).await }
    });
    // An error of the service closes the connection without an answer.
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.map_err(io::Error::other)
}

async fn pass(request: Request<Incoming>, shared: &Shared, link: &mut Link) -> io::Result<Response<AnyBody>> {
    let faults = *shared.faults.borrow();
    let is_write = !matches!(*request.method(), Method::GET | Method::HEAD);
    let is_watch = is_watch(&request);
    let fault = shared.draw(&faults, is_write);
    if is_watch && faults.no_watches {
        shared.counts().watches_cut += 1;
        return Err(cut());
    }
    match fault {
        Fault::Conflict => {
            return Ok(refusal(StatusCode::CONFLICT, "Conflict", "the object has been modified", 0));
        }
        Fault::Throttle => {
            let patience = faults.retry_after_seconds;
            return Ok(refusal(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "try again", patience));
        }
        Fault::Error => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            return Ok(refusal(status, "InternalError", "the store did not answer", 0));
        }
        Fault::CutBefore => return Err(cut()),
        Fault::None | Fault::CutAfter | Fault::Swallow => {}
    }
    tokio::time::sleep(faults.delay).await;
    let cuts = shared.cuts.subscribe();
    let answer = link.forward(request).await?;
    // A watch never ends; for other requests, a complete answer means that they were executed.
    let answer = if is_watch {
        answer.map(|body| until_cut(body, cuts))
    } else {
        let (head, body) = answer.into_parts();
        Response::from_parts(head, whole(body.collect().await.map_err(io::Error::other)?.to_bytes()))
    };
    match fault {
        Fault::CutAfter => Err(cut()),
        Fault::Swallow => std::future::pending().await,
        _ => Ok(answer),
    }
}

fn is_watch<T>(request: &Request<T>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| matches!(part, "watch=true" | "watch=1" | "watch"))
}

/// The body of a watch, which ends as soon as watches are cut.
fn until_cut(body: Incoming, cuts: watch::Receiver<u64>) -> AnyBody {
    let frames = futures::stream::unfold(Some((body, cuts)), |state| async {
        let (mut body, mut cuts) = state?;
        tokio::select! {
            frame = body.frame() => {
                let frame: io::Result<Frame<Bytes>> = frame?.map_err(io::Error::other);
                Some((frame, Some((body, cuts))))
            }
            _ = cuts.changed() => Some((Err(cut()), None)),
        }
    });
    BodyExt::boxed(StreamBody::new(SyncStream::new(frames.boxed())))
}

/// hyper needs bodies that can be shared between threads, although none is.
struct SyncStream<S>(Mutex<S>);

impl<S> SyncStream<S> {
    fn new(stream: S) -> Self {
        Self(Mutex::new(stream))
    }
}

impl<S: futures::Stream + Unpin> futures::Stream for SyncStream<S> {
    type Item = S::Item;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<S::Item>> {
        let stream = self.get_mut().0.get_mut().unwrap_or_else(PoisonError::into_inner);
        stream.poll_next_unpin(context)
    }
}

/// A refusal in the server's form.
fn refusal(status: StatusCode, reason: &str, message: &str, retry_after_seconds: u32) -> Response<AnyBody> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("{message} (fault proxy)"), "reason": reason, "code": status.as_u16(),
        "details": { "retryAfterSeconds": retry_after_seconds },
    });
    let mut answer = Response::new(whole(Bytes::from(body.to_string())));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if retry_after_seconds > 0 {
        headers.insert(http::header::RETRY_AFTER, retry_after_seconds.into());
    }
    answer
}

fn whole(body: Bytes) -> AnyBody {
    Full::new(body).map_err(|never| match never {}).boxed()
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "cut by the fault proxy")
}
