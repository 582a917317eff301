//! The leader's routes. Every one needs a token; see `callers`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api_types::names::LEADER_TLS_NAME;
use api_types::outlook::{Line, RunOutlook};
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use kube::Client;
use service_kit::tls::{self, Listener};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::answers;
use super::callers::{Callers, Refusal};
use super::desk::Desk;

/// Questions at one time; more are turned away at once.
const QUESTIONS_AT_ONCE: usize = 64;
/// The API server waits for a second: what is not known by then is left out.
const PICTURE_WITHIN: Duration = Duration::from_millis(400);
const ANSWER_WITHIN: Duration = Duration::from_millis(700);
/// Jobs of a line that are looked ahead for, the first.
const LOOKED_AHEAD_FOR: usize = 16;
/// Who asks for a snapshot waits for one of now.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked whether anybody still asks.
const TIDY_PACE: Duration = Duration::from_secs(30);

/// Where the leader can be asked.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// As others reach it.
    pub address: String,
    /// What it answers with.
    pub certificate_pem: String,
}

struct Server {
    desk: Arc<Desk>,
    callers: Callers,
    questions: Semaphore,
}

/// Serves until `stop` is cancelled. `advertised` is what others call the address, if it is not the one listened on.
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
    let questions = Semaphore::new(QUESTIONS_AT_ONCE);
    let router = router(Arc::new(Server { desk, callers: Callers::new(client), questions }));
    tokio::spawn(async move {
        let server = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = server.await {
            warn!(%error, "Stopped answering questions.");
        }
    });
    Ok(endpoint)
}

fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/line", get(line))
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

async fn only_callers(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = bearer.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    match server.callers.check(token).await {
        Ok(()) => {}
        Err(Refusal::NotTheApiServer) => return StatusCode::UNAUTHORIZED.into_response(),
        Err(Refusal::NotNow) => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
    // Only now: strangers take nobody's turn. How many of them there are is bounded by connections.
    let Ok(_permit) = server.questions.try_acquire() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    next.run(request).await
}

/// About one run: its reasons and its place at once, its forecast if it is known or soon found out.
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

/// About everything that waits. Forecasts are those that are known; the first few are asked for.
async fn line(State(server): State<Arc<Server>>) -> Result<Json<Line>, StatusCode> {
    let picture = server.desk.picture(Instant::now() + PICTURE_WITHIN).await;
    let picture = picture.ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    for waiting in picture.plan.waiting.iter().take(LOOKED_AHEAD_FOR) {
        server.desk.ask(&waiting.gang);
    }
    Ok(Json(answers::line(&picture, |gang| server.desk.forecast(gang))))
}

/// All that the last plan was made from, and the plan. Written down beside the runtime: it may be 100 MB.
async fn snapshot(State(server): State<Arc<Server>>) -> Result<Response, StatusCode> {
    let picture = server.desk.picture(Instant::now() + SNAPSHOT_WITHIN).await;
    let picture = picture.ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    let written = tokio::task::spawn_blocking(move || picture.write()).await;
    let text = written.ok().and_then(Result::ok).ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::time::Duration;

    use api_types::names::{API_SERVER_SERVICE_ACCOUNT, LEADER_AUDIENCE, SYSTEM_NAMESPACE};
    use axum::body::Body;
    use axum::http::{Request, Response, StatusCode};
    use kube::Client;
    use serde_json::{Value, json};
    use tokio::sync::Semaphore;
    use tokio::time::timeout;
    use tower::ServiceExt;

    use super::{Callers, QUESTIONS_AT_ONCE, Server, router};

    /// An API server that knows one token, and never answers about others.
    fn client() -> Client {
        let service = tower::service_fn(|request: Request<kube::client::Body>| async move {
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
            Ok::<_, Infallible>(Response::new(kube::client::Body::from(answer.to_string().into_bytes())))
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_keep_nobody_out_and_are_not_looked_into_for_long() {
        let questions = Semaphore::new(QUESTIONS_AT_ONCE);
        let router =
            router(Arc::new(Server { desk: Arc::default(), callers: Callers::new(client()), questions }));
        let ask = |token: &str| {
            let request = Request::get("/v1/runs/ns/run").header("authorization", format!("Bearer {token}"));
            router.clone().oneshot(request.body(Body::empty()).expect("a request"))
        };
        let strangers: Vec<_> = (0..QUESTIONS_AT_ONCE).map(|_| tokio::spawn(ask("bad"))).collect();
        tokio::task::yield_now().await;
        // No plan was made, so there is no picture yet: it waits for one, and is not turned away at the door.
        let started = tokio::time::Instant::now();
        let answer = ask("good").await.expect("never fails");
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(started.elapsed(), super::PICTURE_WITHIN, "it got as far as the desk");
        for stranger in strangers {
            let answer = timeout(Duration::from_secs(5), stranger).await.expect("in time");
            let answer = answer.expect("no panic").expect("never fails");
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
    }
}
