//! Protection of people who are logged in to the portal, and of the server from strangers, on the real
//! kube-apiserver. Unsafe routes are found by walking the OpenAPI document, so that a new one cannot be
//! forgotten.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::objects::{create_namespace, create_run, run};
use e2e::users::create_team;
use e2e::{bounds, usage, wait};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use reqwest::header::{COOKIE, HeaderMap, SET_COOKIE};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use test_cluster::TestCluster;
use test_cluster::platform::{Platform, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolbox::figures;

const COOKIE_NAME: &str = "__Host-warpyard-session";
const GIBIBYTE: usize = 1 << 30;
const OURS: (&str, &str) = ("Sec-Fetch-Site", "same-origin");

#[tokio::test(flavor = "multi_thread")]
async fn a_session_serves_our_own_pages_and_nobody_else() -> anyhow::Result<()> {
    let cluster = two_teams().await?;
    let (mut api_server, url) = start(&cluster).await?;
    let portal = Portal { http: Client::new(), url };
    let token = cluster.token_for_user("alice")?;

    let cookie = the_cookie_has_exactly_these_flags(&portal, token).await.context("cookie flags")?;
    a_login_ends_the_session_that_came_along(&portal, token).await.context("session fixation")?;
    other_sites_cannot_write(&portal, &cookie).await.context("CSRF")?;
    two_logins_at_once_are_refused(&portal, &cookie, token).await.context("bearer and cookie")?;
    a_session_sees_what_its_token_sees(&portal, &cookie, token).await.context("cross-tenant reads")?;
    every_answer_has_the_policy(&portal, &cookie).await.context("CSP")?;
    logout_ends_it_on_the_server(&portal, &cookie).await.context("logout")?;

    let log = std::fs::read_to_string(api_server.process().log())?;
    ensure!(log.contains("Opened a session.") && log.contains("DEBUG"), "the log is one for debugging");
    for (what, secret) in [("token", token), ("cookie", secret_of(&cookie)?)] {
        ensure!(!log.contains(secret), "the log holds the {what}");
    }
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_ends_its_session() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().without_kwok().start().await?;
    let client = cluster.admin_client();
    create_namespace(&client, "nlp").await?;
    let (_api_server, url) = start(&cluster).await?;
    let portal = Portal { http: Client::new(), url };
    // The token is bound to a pod: it is revoked when the pod is gone.
    let login = cluster.login_service_account("nlp", "default").await?;
    let cookie = portal.log_in(&login.token, None).await?;
    ensure!(portal.whoami(&cookie).await? == 200, "the session works");
    let pods: Api<Pod> = Api::namespaced(client, "nlp");
    pods.delete(&login.pod, &DeleteParams::default().grace_period(0)).await?;
    // 10 s for our memory of the token, as long again for kube-apiserver's, and a slow machine.
    let bound = Duration::from_secs(40);
    wait::until("the session ends with its token", bound, || async {
        Ok((portal.whoami(&cookie).await? == 401).then_some(()))
    })
    .await?;
    ensure!(portal.post_session(&login.token, &[OURS]).await?.status() == 401, "nor does it log in again");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gibibyte_is_refused_within_bounds_of_memory_and_time() -> anyhow::Result<()> {
    let cluster = two_teams().await?;
    let (mut api_server, url) = start(&cluster).await?;
    let portal = Portal { http: Client::new(), url };
    let token = cluster.token_for_user("alice")?;
    let cookie = portal.log_in(token, None).await?;
    let pid = api_server.process().pid();
    let before = usage::memory(pid)?.peak_mib;

    let mut attempts = Vec::new();
    let operations = portal.unsafe_operations(&cookie).await?;
    // Reports are refused for want of a pod's token before anybody looks at their length.
    let takes_bodies = |(method, path): &(Method, String)| method == "POST" && !path.ends_with("/reports");
    for (method, path) in operations.into_iter().filter(takes_bodies) {
        let caller = if path == "/v1/session" { String::new() } else { format!("Cookie: {cookie}\r\n") };
        for (how, length) in
            [(Length::Known, "Content-Length: 1073741824"), (Length::Chunked, "Transfer-Encoding: chunked")]
        {
            let head = portal.head(
                &method,
                &path,
                &format!("{caller}Content-Type: application/json\r\n{length}\r\n"),
            );
            attempts.push((format!("{path} {length}"), how, head));
        }
    }
    ensure!(attempts.len() >= 6, "login, submit and stop, each in two ways");
    let mut sent_most = 0;
    for (what, how, head) in &attempts {
        sent_most = sent_most.max(refused(&portal, how, head).await.with_context(|| what.clone())?);
    }
    // And many at one time.
    let many = std::iter::repeat_n(&attempts, 8).flatten();
    try_join_all(many.map(|(_, how, head)| refused(&portal, how, head))).await.context("many at one time")?;
    // The same bounds hold for those who send too slowly, and for heads.
    let submit = portal.head(
        &Method::POST,
        "/v1/namespaces/nlp/runs",
        &format!("Cookie: {cookie}\r\nContent-Length: 100\r\n"),
    );
    let (slow, ()) = tokio::try_join!(stalled(&portal, &submit), large_heads_are_refused(&portal))?;

    let grown_mib = (usage::memory(pid)?.peak_mib - before).max(0.0);
    figures::print("api.gibibyte_memory_mib", grown_mib, "MiB", "growth of the peak; bar: 64 MiB");
    figures::print(
        "api.gibibyte_sent_mib",
        mib(sent_most),
        "MiB",
        "most that one sender got rid of; bar: 32 MiB",
    );
    ensure!(grown_mib < 64.0, "memory grew by {grown_mib} MiB");
    ensure!(mib(sent_most) < 32.0, "{sent_most} bytes were taken");
    ensure!(slow < bounds::STALLED_BODY_ENDED.allowed(), "a stalled body held on for {slow:?}");
    ensure!(portal.whoami(&cookie).await? == 200, "and the server still serves");
    cluster.stop().await;
    Ok(())
}

async fn the_cookie_has_exactly_these_flags(portal: &Portal, token: &str) -> anyhow::Result<String> {
    ensure!(portal.post_session("made-up", &[OURS]).await?.status() == 401, "a wrong token");
    let answer = portal.post_session(token, &[OURS]).await?;
    ensure!(answer.status() == 204, "{}", answer.status());
    let cookies: Vec<_> = answer.headers().get_all(SET_COOKIE).iter().collect();
    ensure!(cookies.len() == 1, "{cookies:?}");
    let (pair, flags) = cookies[0].to_str()?.split_once(';').context("a cookie has flags")?;
    ensure!(flags == " Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=43200", "{flags}");
    ensure!(secret_of(pair)?.len() == 43, "256 bits in base64url: {pair}");
    ensure!(portal.whoami(pair).await? == 200, "it logs in");
    Ok(pair.to_owned())
}

async fn a_login_ends_the_session_that_came_along(portal: &Portal, token: &str) -> anyhow::Result<()> {
    let made_up = format!("{COOKIE_NAME}={}", "A".repeat(43));
    let planted = portal.log_in(token, None).await?;
    for planted in [made_up, planted] {
        let ours = portal.log_in(token, Some(&planted)).await?;
        ensure!(ours != planted, "the secret is the server's, never the caller's");
        ensure!(portal.whoami(&planted).await? == 401, "the planted one is worth nothing");
        ensure!(portal.whoami(&ours).await? == 200, "the new one works");
    }
    Ok(())
}

async fn other_sites_cannot_write(portal: &Portal, cookie: &str) -> anyhow::Result<()> {
    let operations = portal.unsafe_operations(cookie).await?;
    ensure!(operations.len() >= 4, "login, logout, submit, stop: {operations:?}");
    let same_host = format!("http://{}", portal.host());
    for (method, path) in &operations {
        for headers in [
            vec![],
            vec![("Sec-Fetch-Site", "cross-site")],
            vec![("Sec-Fetch-Site", "same-site")],
            vec![("Sec-Fetch-Site", "none")],
            vec![("Origin", "https://evil.example")],
            vec![("Origin", "http://127.0.0.1:1")],
            vec![("Origin", "null")],
            vec![("Sec-Fetch-Site", "cross-site"), ("Origin", same_host.as_str())],
        ] {
            let request = portal.request(method, path, cookie, &headers);
            let answer = request.json(&json!({"gpus": 1, "run": "train", "token": "made-up"})).send().await?;
            let status = answer.status();
            let problem: Value = answer.json().await?;
            // Reports come from pods, and no cookie is worth anything there.
            let expect = if path.ends_with("/reports") { (401, "Unauthorized") } else { (403, "CrossSite") };
            ensure!(
                status == expect.0 && problem["code"] == expect.1,
                "{method} {path} {headers:?}: {status} {problem}"
            );
            ensure!(problem["hint"].is_string(), "it says what to do");
        }
    }
    for site in ["cross-site", "same-site"] {
        let answer =
            portal.request(&Method::GET, "/v1/runs", cookie, &[("Sec-Fetch-Site", site)]).send().await?;
        ensure!(answer.status() == 403, "a read caused by another site: {}", answer.status());
    }
    // An older browser says only where the page comes from.
    let stop = "/v1/namespaces/nlp/runs/run-of-nlp/stop";
    let answer = portal.request(&Method::POST, stop, cookie, &[("Origin", &same_host)]).send().await?;
    ensure!(answer.status() == 200, "from our own page: {}", answer.status());
    Ok(())
}

async fn two_logins_at_once_are_refused(portal: &Portal, cookie: &str, token: &str) -> anyhow::Result<()> {
    let answer =
        portal.request(&Method::GET, "/v1/whoami", cookie, &[OURS]).bearer_auth(token).send().await?;
    ensure!(answer.status() == 400, "{}", answer.status());
    ensure!(answer.json::<Value>().await?["code"] == "TwoLogins");
    Ok(())
}

/// Whatever the path: the same status by cookie as by bearer token.
async fn a_session_sees_what_its_token_sees(
    portal: &Portal,
    cookie: &str,
    token: &str,
) -> anyhow::Result<()> {
    for (path, expect) in [
        ("/v1/namespaces/nlp/runs/run-of-nlp", 200),
        ("/v1/namespaces/nlp/runs/none", 404),
        ("/v1/namespaces/vision/runs/run-of-vision", 403),
        ("/v1/namespaces/vision/runs/none", 403),
        ("/v1/namespaces/vision/runs/run-of-vision/why", 403),
        ("/v1/runs?namespace=vision", 403),
        ("/v1/queues/vision", 403),
        ("/v1/nothing", 404),
    ] {
        let by_cookie = portal.request(&Method::GET, path, cookie, &[OURS]).send().await?.status();
        let by_token =
            portal.http.get(format!("{}{path}", portal.url)).bearer_auth(token).send().await?.status();
        ensure!(
            by_cookie == expect && by_token == expect,
            "{path}: {by_cookie} by cookie, {by_token} by token"
        );
    }
    let runs: Value = portal.request(&Method::GET, "/v1/runs", cookie, &[OURS]).send().await?.json().await?;
    let namespaces: Vec<_> =
        runs["items"].as_array().into_iter().flatten().map(|run| &run["namespace"]).collect();
    ensure!(namespaces == ["nlp"], "{runs}");
    let stop = "/v1/namespaces/vision/runs/run-of-vision/stop";
    ensure!(portal.request(&Method::POST, stop, cookie, &[OURS]).send().await?.status() == 403, "bob's run");
    Ok(())
}

async fn every_answer_has_the_policy(portal: &Portal, cookie: &str) -> anyhow::Result<()> {
    let html = ("Accept", "text/html");
    let page = portal.http.get(&portal.url).header(html.0, html.1).send().await?;
    let is_built = page.status() == 200;
    let page = page.text().await?;
    ensure!(is_built || page == "the portal is not built: run cargo xtask portal\n", "{page}");
    let mut paths = vec![
        (Method::GET, "/", vec![html], if is_built { 200 } else { 503 }),
        (Method::HEAD, "/runs", vec![html], if is_built { 200 } else { 503 }),
        (Method::GET, "/assets/none.js", vec![], 404),
        (Method::GET, "/healthz", vec![], 200),
        (Method::GET, "/v1/runs", vec![OURS], 200),
        (Method::GET, "/v1/nothing", vec![OURS], 404),
        (Method::PUT, "/v1/runs", vec![OURS], 405),
        (Method::POST, "/v1/session", vec![], 403),
        (Method::GET, "/v1/runs", vec![("Authorization", "Bearer x")], 400),
    ];
    if is_built {
        let script = page.split('"').find(|text| text.starts_with("/assets/") && text.contains(".js"));
        paths.push((Method::GET, script.context("the page has a script")?, vec![], 200));
    }
    for (method, path, headers, expect) in paths {
        let answer = portal.request(&method, path, cookie, &headers).send().await?;
        ensure!(answer.status() == expect, "{method} {path}: {}", answer.status());
        is_strict(answer.headers()).with_context(|| format!("{method} {path}"))?;
        let cache = answer.headers()["cache-control"].to_str()?;
        ensure!(!path.starts_with("/v1") || cache == "no-store", "{method} {path} may be kept: {cache}");
    }
    let anonymous = portal.http.get(format!("{}/v1/runs", portal.url)).send().await?;
    ensure!(anonymous.status() == 401);
    is_strict(anonymous.headers())
}

fn is_strict(headers: &HeaderMap) -> anyhow::Result<()> {
    let policies: Vec<_> = headers.get_all("content-security-policy").iter().collect();
    ensure!(policies.len() == 1, "{policies:?}");
    let policy = policies[0].to_str()?;
    ensure!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    ensure!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
    for needed in ["frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"] {
        ensure!(policy.contains(needed), "{policy}");
    }
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        ensure!(headers.get(name).is_some_and(|found| found == value), "{name}: {:?}", headers.get(name));
    }
    ensure!(!headers.contains_key("strict-transport-security"), "not without TLS in front");
    Ok(())
}

async fn logout_ends_it_on_the_server(portal: &Portal, cookie: &str) -> anyhow::Result<()> {
    let answer = portal.request(&Method::DELETE, "/v1/session", cookie, &[OURS]).send().await?;
    ensure!(answer.status() == 204, "{}", answer.status());
    let cleared = answer.headers()[SET_COOKIE].to_str()?;
    ensure!(
        cleared == format!("{COOKIE_NAME}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0"),
        "{cleared}"
    );
    ensure!(portal.whoami(cookie).await? == 401, "whoever kept the cookie has nothing");
    Ok(())
}

enum Length {
    Known,
    Chunked,
}

/// Sends a gibibyte, or as much of it as is taken. How much that was.
async fn refused(portal: &Portal, length: &Length, head: &str) -> anyhow::Result<usize> {
    let started = Instant::now();
    let (mut reader, mut writer) = portal.connect().await?.into_split();
    let mut block = Vec::new();
    if matches!(length, Length::Chunked) {
        block.extend_from_slice(b"10000\r\n");
    }
    block.resize(block.len() + 65_536, b' ');
    if matches!(length, Length::Chunked) {
        block.extend_from_slice(b"\r\n");
    }
    let upload = async {
        let mut sent = 0;
        if writer.write_all(head.as_bytes()).await.is_err() {
            return sent;
        }
        while sent < GIBIBYTE {
            // Waits for the server to close.
            if writer.write_all(&block).await.is_err() {
                break;
            }
            sent += block.len();
        }
        sent
    };
    let mut answer = Vec::new();
    let (sent, _) =
        tokio::time::timeout(wait::PATIENCE, async { tokio::join!(upload, reader.read_to_end(&mut answer)) })
            .await
            .context("the connection was not closed")?;
    let answer = String::from_utf8_lossy(&answer).to_lowercase();
    ensure!(
        answer.starts_with("http/1.1 413 "),
        "after {sent} bytes and {:?}: {answer:?}",
        started.elapsed()
    );
    ensure!(
        answer.contains("\r\nconnection: close\r\n") && answer.contains("content-security-policy"),
        "{answer}"
    );
    Ok(sent)
}

/// Announces a body and sends a part of it. How long the server waited for the rest.
async fn stalled(portal: &Portal, head: &str) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut stream = portal.connect().await?;
    stream.write_all(format!("{head}{{").as_bytes()).await?;
    let mut answer = String::new();
    tokio::time::timeout(Duration::from_mins(2), stream.read_to_string(&mut answer)).await??;
    ensure!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Timeout"), "{answer}");
    Ok(started.elapsed())
}

async fn large_heads_are_refused(portal: &Portal) -> anyhow::Result<()> {
    let long = format!("X-Long: {}\r\n", "x".repeat(200_000));
    let many = "X-Again: x\r\n".repeat(200);
    for headers in [long, many] {
        let (mut reader, mut writer) = portal.connect().await?.into_split();
        let head = portal.head(&Method::GET, "/v1/runs", &headers);
        let mut answer = Vec::new();
        let send = writer.write_all(head.as_bytes());
        let talk = async { tokio::join!(send, reader.read_to_end(&mut answer)) };
        drop(tokio::time::timeout(wait::PATIENCE, talk).await.context("it was not closed")?);
        let answer = String::from_utf8_lossy(&answer);
        ensure!(answer.starts_with("HTTP/1.1 431 "), "{answer:?}");
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn mib(bytes: usize) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// Alice works in nlp, bob in vision.
async fn two_teams() -> anyhow::Result<TestCluster> {
    let cluster = TestCluster::builder().user("alice", &[]).user("bob", &[]).without_kwok().start().await?;
    let client = cluster.admin_client();
    for (user, team) in [("alice", "nlp"), ("bob", "vision")] {
        create_team(&client, user, team, None, &[("H100", 8)]).await?;
        create_run(&client, team, &format!("run-of-{team}"), run(team, 1, 1, None)).await?;
    }
    Ok(cluster)
}

async fn start(cluster: &TestCluster) -> anyhow::Result<(Service, String)> {
    Ok(Platform::debug(cluster).api_server_with_logs("127.0.0.1:0", "debug,api_server=trace").await?)
}

fn secret_of(cookie: &str) -> anyhow::Result<&str> {
    cookie.strip_prefix(&format!("{COOKIE_NAME}=")).with_context(|| format!("not our cookie: {cookie}"))
}

/// The portal, as a browser sees it.
struct Portal {
    http: Client,
    url: String,
}

impl Portal {
    fn host(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    async fn connect(&self) -> anyhow::Result<TcpStream> {
        Ok(TcpStream::connect(self.host()).await?)
    }

    /// A request's head, from a page of ours. `headers` end with a line break.
    fn head(&self, method: &Method, path: &str, headers: &str) -> String {
        let host = self.host();
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nSec-Fetch-Site: same-origin\r\n{headers}\r\n")
    }

    fn request(&self, method: &Method, path: &str, cookie: &str, headers: &[(&str, &str)]) -> RequestBuilder {
        let request = self.http.request(method.clone(), format!("{}{path}", self.url)).header(COOKIE, cookie);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    }

    async fn post_session(&self, token: &str, headers: &[(&str, &str)]) -> anyhow::Result<Response> {
        let request = self.http.post(format!("{}/v1/session", self.url)).json(&json!({ "token": token }));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Ok(request.send().await?)
    }

    /// Logs in and returns the `Cookie` header of the browser.
    async fn log_in(&self, token: &str, before: Option<&str>) -> anyhow::Result<String> {
        let mut headers = vec![OURS];
        headers.extend(before.map(|cookie| ("Cookie", cookie)));
        let answer = self.post_session(token, &headers).await?;
        ensure!(answer.status() == 204, "login: {}", answer.status());
        let cookie = answer.headers()[SET_COOKIE].to_str()?;
        Ok(cookie.split(';').next().context("a cookie has a value")?.to_owned())
    }

    async fn whoami(&self, cookie: &str) -> anyhow::Result<u16> {
        Ok(self.request(&Method::GET, "/v1/whoami", cookie, &[OURS]).send().await?.status().as_u16())
    }

    /// Every operation that changes something, on alice's objects.
    async fn unsafe_operations(&self, cookie: &str) -> anyhow::Result<Vec<(Method, String)>> {
        let document: Value =
            self.request(&Method::GET, "/v1/openapi.json", cookie, &[OURS]).send().await?.json().await?;
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().context("the document has paths")? {
            let path = path.replace("{namespace}", "nlp").replace("{name}", "run-of-nlp");
            for method in item.as_object().context("a path has methods")?.keys() {
                let method: Method = method.to_uppercase().parse()?;
                if method.is_safe() {
                    continue;
                }
                ensure!(!path.contains('{'), "{method} {path} has a parameter that this test does not know");
                operations.push((method, path.clone()));
            }
        }
        Ok(operations)
    }
}
