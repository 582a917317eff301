//! A reader of server-sent events, like a page of the portal.

use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::{Client, Response};
use serde_json::Value;

/// The longest event read; those of the API are below 16 KiB.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its kind, for example `run`.
    pub kind: String,
    /// Its data.
    pub data: Value,
}

/// An open stream.
pub struct EventStream {
    response: Response,
    unread: Vec<u8>,
}

impl EventStream {
    /// Opens a stream and reads its `hello`: from then on nothing is missed.
    pub async fn open(http: &Client, url: &str, token: &str, query: &str) -> anyhow::Result<Self> {
        let response = http.get(format!("{url}/v1/events{query}")).bearer_auth(token).send().await;
        let response = response.context("failed to open an event stream")?;
        ensure!(response.status().is_success(), "an event stream was refused: {}", response.status());
        let mut stream = Self { response, unread: Vec::new() };
        let first =
            stream.next(Duration::from_secs(30)).await?.context("the stream ended before its hello")?;
        ensure!(first.kind == "hello", "the first event is {first:?}");
        Ok(stream)
    }

    /// The next event, comments skipped; `None` at the end of the stream. An error if it takes longer than `bound`.
    pub async fn next(&mut self, bound: Duration) -> anyhow::Result<Option<Event>> {
        tokio::time::timeout(bound, self.read()).await.context("no event came in time")?
    }

    /// Reads until an event for which `wanted` gives a value; every one before it goes to `seen`.
    pub async fn until<T>(
        &mut self,
        what: &str,
        bound: Duration,
        seen: &mut Vec<Event>,
        wanted: impl Fn(&Event) -> Option<T>,
    ) -> anyhow::Result<T> {
        let search = async {
            loop {
                let event = self.read().await?.with_context(|| format!("the stream ended before {what}"))?;
                let value = wanted(&event);
                seen.push(event);
                if let Some(value) = value {
                    return Ok(value);
                }
            }
        };
        match tokio::time::timeout(bound, search).await {
            Ok(found) => found,
            Err(_) => anyhow::bail!("waited {bound:?} in vain for {what}; seen were {seen:?}"),
        }
    }

    async fn read(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            while let Some(frame) = take_frame(&mut self.unread) {
                if let Some(event) = parse(&frame)? {
                    return Ok(Some(event));
                }
            }
            ensure!(self.unread.len() < EVENT_BYTES_MAX, "an event has no end");
            match self.response.chunk().await.context("the stream broke off")? {
                Some(chunk) => self.unread.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }
}

/// Takes the first whole frame, without the empty line that ends it.
pub fn take_frame(unread: &mut Vec<u8>) -> Option<String> {
    let end = unread.windows(2).position(|two| two == b"\n\n")?;
    let frame = unread.drain(..end + 2).take(end).collect();
    Some(String::from_utf8(frame).unwrap_or_default())
}

/// Reads a frame; `None` if it is a comment.
pub fn parse(frame: &str) -> anyhow::Result<Option<Event>> {
    let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
    let Some((kind, data)) = field("event: ").zip(field("data: ")) else { return Ok(None) };
    let data =
        serde_json::from_str(data).with_context(|| format!("the data of {kind} is not JSON: {data}"))?;
    Ok(Some(Event { kind: kind.to_owned(), data }))
}
