//! The leader's routes. Each needs a token; see `callers`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api_types::capacity::CapacityView;
use api_types::names::LEADER_TLS_NAME;
use api_types::outlook::{Line, LineQuery, RunOutlook};
use axum::body::Bytes;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use axum::{Json, Router};
use cluster_apply::fence::Endpoint;
use cluster_model::GangKey;
use kube::Client;
use service_kit::tls::{self, Listener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::answers;
use super::callers::{Callers, Refusal};
use super::desk::Desk;

/// Questions at one time; more are turned away at once.
const QUESTIONS_AT_ONCE: usize = 64;
/// The API server waits for a second, and leaves out what it does not get by then.
const PICTURE_WITHIN: Duration = Duration::from_millis(400);
const ANSWER_WITHIN: Duration = Duration::from_millis(700);
/// For how many of the first jobs of a line forecasts are made.
const LOOKED_AHEAD_FOR: usize = 16;
/// Snapshots at one time, from the question until the answer is sent: each may be 100 MB.
const SNAPSHOTS_AT_ONCE: usize = 1;
/// The wait for a new picture for a snapshot.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(10);
/// How often old pictures are removed if nobody asks.
const TIDY_PACE: Duration = Duration::from_secs(30);

struct Server {
    desk: Arc<Desk>,
    callers: Callers,
    questions: Semaphore,
    snapshots: Arc<Semaphore>,
}

impl Server {
    fn new(desk: Arc<Desk>, client: Client) -> Arc<Self> {
        Arc::new(Self {
            desk,
            callers: Callers::new(client),
            questions: Semaphore::new(QUESTIONS_AT_ONCE),
            snapshots: Arc::new(Semaphore::new(SNAPSHOTS_AT_ONCE)),
        })
    }
}

/// Serves until `stop` is cancelled. `advertised` is the address as others reach it, if it differs.
pub async fn serve(
    listen: SocketAddr,
    advertised: Option<String>,
    client: Client,
    desk: Arc<Desk>,
    stop: CancellationToken,
) -> Result<Endpoint, tls::Error> {
    let listener = Listener::bind(listen, LEADER_TLS_NAME).await?;
    let address = advertised.unwrap_or_else(|| listener.address().to_string());
    let endpoint = Endpoint { address, certificate_pem: listener.certificate_pem().to_owned() };
    info!(address = %listener.address(), "Answering questions.");
    tokio::spawn(tidy(Arc::clone(&desk), stop.clone()));
    let router = router(Server::new(desk, client));
    tokio::spawn(async move {
        let service = router.into_make_service_with_connect_info::<Peer>();
        let server = axum::serve(listener, service).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = server.await {
            warn!(%error, "Stopped answering questions.");
        }
    });
    Ok(endpoint)
}

fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/line", post(line))
        .route("/v1/capacity", post(capacity))
        .route("/v1/snapshot", get(snapshot))
        .route("/v1/runs/{namespace}/{run}", get(run))
        .layer(from_fn_with_state(Arc::clone(&server), only_callers))
        .with_state(server)
}

async fn tidy(desk: Arc<Desk>, stop: CancellationToken) {
    while tokio::time::timeout(TIDY_PACE, stop.cancelled()).await.is_err() {
        desk.tidy();
    }
}

/// The address of the caller.
#[derive(Clone, Copy, Debug)]
struct Peer(IpAddr);

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        Self(stream.remote_addr().ip())
    }
}

async fn only_callers(
    State(server): State<Arc<Server>>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    // A refused caller must give its connection back: their number is bounded.
    let refuse = |status: StatusCode| (status, [(header::CONNECTION, "close")]).into_response();
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = bearer.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    match server.callers.check(token, peer).await {
        Ok(()) => {}
        Err(Refusal::NotTheApiServer) => return refuse(StatusCode::UNAUTHORIZED),
        Err(Refusal::NotNow) => return refuse(StatusCode::SERVICE_UNAVAILABLE),
    }
    // Only after the login, so that strangers take no turn. The bound on connections limits their number.
    let Ok(_permit) = server.questions.try_acquire() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    next.run(request).await
}

/// One run: its reasons and its place at once, and its forecast if it is known or ready soon.
async fn run(
    State(server): State<Arc<Server>>,
    Path((namespace, run)): Path<(String, String)>,
) -> Result<Json<RunOutlook>, StatusCode> {
    let now = Instant::now();
    let picture = server.desk.picture(now + PICTURE_WITHIN).await.ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    let gang = answers::gang_of_run(&picture, &namespace, &run).ok_or(StatusCode::NOT_FOUND)?;
    let forecast = server.desk.forecast_by(gang, now + ANSWER_WITHIN).await;
    answers::outlook(&picture, gang, forecast).map(Json).ok_or(StatusCode::NOT_FOUND)
}

/// The waiting runs that are asked for, with known forecasts; forecasts of the first few are requested. The
/// question has a body, because a caller that may see a thousand namespaces names them all.
async fn line(
    State(server): State<Arc<Server>>,
    Json(query): Json<LineQuery>,
) -> Result<Json<Line>, StatusCode> {
    let picture = server.desk.picture(Instant::now() + PICTURE_WITHIN).await;
    let picture = picture.ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    let line = answers::line(&picture, &query, |gang| server.desk.forecast(gang));
    for job in line.waiting.iter().take(LOOKED_AHEAD_FOR) {
        server.desk.ask(&GangKey::new(job.namespace.as_str(), job.gang.as_str()));
    }
    Ok(Json(line))
}

/// The last decision about machines, as far as it is asked for.
async fn capacity(State(server): State<Arc<Server>>, Json(query): Json<LineQuery>) -> Json<CapacityView> {
    Json(answers::capacity(server.desk.capacity().as_deref(), &query))
}

/// The state that the last plan was made from, and the plan. Written on a blocking thread: it may be 100 MB.
async fn snapshot(State(server): State<Arc<Server>>) -> Result<Response, StatusCode> {
    // Moves with the work: if the caller gives up, the next snapshot still waits until this one is done.
    let permit = Arc::clone(&server.snapshots).try_acquire_owned();
    let permit = permit.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let picture = server.desk.picture(Instant::now() + SNAPSHOT_WITHIN).await;
    let picture = picture.ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    let write = move || picture.write().map(|text| Written { text, _permit: permit });
    let written = tokio::task::spawn_blocking(write).await;
    let written = written.ok().and_then(Result::ok).ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], Bytes::from_owner(written)).into_response())
}

/// A snapshot; the next one is made when this one is sent or given up.
struct Written {
    text: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use api_types::names::{API_SERVER_SERVICE_ACCOUNT, LEADER_AUDIENCE, SYSTEM_NAMESPACE};
    use axum::body::Body;
    use axum::extract::connect_info::MockConnectInfo;
    use axum::http::{Request, Response, StatusCode};
    use kube::Client;
    use serde_json::{Value, json};
    use tokio::time::timeout;
    use tower::ServiceExt;

    use super::super::desk::Desk;
    use super::super::tests::picture;
    use super::{Peer, QUESTIONS_AT_ONCE, Server, router};

    /// An API server that knows one token, never answers about others, and counts its reviews.
    fn client(asked: &Arc<AtomicU32>) -> Client {
        let asked = Arc::clone(asked);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            asked.fetch_add(1, Ordering::SeqCst);
            answer(request)
        });
        Client::new(service, "default")
    }

    async fn answer(
        request: Request<kube::client::Body>,
    ) -> Result<Response<kube::client::Body>, Infallible> {
        let body = request.into_body().collect_bytes().await.expect("a body");
        let review: Value = serde_json::from_slice(&body).expect("a review");
        if review["spec"]["token"] != "good" {
            std::future::pending::<()>().await;
        }
        let user = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{API_SERVER_SERVICE_ACCOUNT}");
        let status = json!({
            "authenticated": true, "audiences": [LEADER_AUDIENCE], "user": { "username": user },
        });
        let answer = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {},
            "spec": review["spec"], "status": status,
        });
        Ok(Response::new(kube::client::Body::from(answer.to_string().into_bytes())))
    }

    fn from_here() -> MockConnectInfo<Peer> {
        MockConnectInfo(Peer(Ipv4Addr::LOCALHOST.into()))
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_keep_nobody_out_and_are_not_looked_into_for_long() {
        let asked = Arc::<AtomicU32>::default();
        let router = router(Server::new(Arc::default(), client(&asked))).layer(from_here());
        let ask = |token: &str| {
            let request = Request::get("/v1/runs/ns/run").header("authorization", format!("Bearer {token}"));
            router.clone().oneshot(request.body(Body::empty()).expect("a request"))
        };
        ask("good").await.expect("never fails");
        // By then it is reviewed once more.
        tokio::time::advance(Duration::from_secs(11)).await;
        let strangers: Vec<_> = (0..QUESTIONS_AT_ONCE).map(|_| tokio::spawn(ask("bad"))).collect();
        // The clock moves only when all tasks wait.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(asked.load(Ordering::SeqCst), 1 + 4, "the API server is not asked about all of them");
        // Without a plan there is no picture yet: the call waits for one, and is not refused.
        let started = tokio::time::Instant::now();
        let answer = ask("good").await.expect("never fails");
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(started.elapsed(), super::PICTURE_WITHIN, "it got as far as the desk");
        assert!(!answer.headers().contains_key("connection"));
        for stranger in strangers {
            let answer = timeout(Duration::from_secs(5), stranger).await.expect("in time");
            let answer = answer.expect("no panic").expect("never fails");
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(answer.headers()["connection"], "close");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_snapshot_is_made_at_a_time_until_it_is_sent() {
        let desk = Arc::<Desk>::default();
        picture(&desk).await;
        let router = router(Server::new(desk, client(&Arc::default()))).layer(from_here());
        let ask = || {
            let request = Request::get("/v1/snapshot").header("authorization", "Bearer good");
            router.clone().oneshot(request.body(Body::empty()).expect("a request"))
        };
        let first = ask().await.expect("never fails");
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(ask().await.expect("never fails").status(), StatusCode::SERVICE_UNAVAILABLE);
        let text = axum::body::to_bytes(first.into_body(), usize::MAX).await.expect("a body");
        assert!(serde_json::from_slice::<Value>(&text).expect("JSON")["plan"].is_object());
        drop(text);
        assert_eq!(ask().await.expect("never fails").status(), StatusCode::OK);
    }
}
