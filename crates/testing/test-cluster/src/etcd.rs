//! Reads etcd for a judge: without the API servers, over its own socket, through its JSON gateway.
//!
//! A watch of the store has every revision, and goes on while API servers are restarted, delayed or cut off. Values are
//! readable if the cluster was built with [`crate::Builder::readable_store`]. Nothing is ever written here but, on
//! request, a compaction.

use std::io;
use std::path::PathBuf;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::Error;

/// The store of one cluster.
#[derive(Clone, Debug)]
pub struct Etcd {
    socket: PathBuf,
}

/// One key at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// The store's revision.
    pub revision: u64,
    /// The key.
    pub key: String,
    /// Its value now; `None` if it was deleted.
    pub value: Option<Vec<u8>>,
    /// Its value before.
    pub previous: Option<Vec<u8>>,
}

impl Etcd {
    pub(crate) fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// The newest revision of the whole store.
    pub async fn revision(&self) -> Result<u64, Error> {
        let answer: RangeAnswer = self.ask("/v3/kv/range", &json!({ "key": encoded("/") })).await?;
        Ok(answer.header.revision)
    }

    /// Everything under `prefix`, and the store's revision at that moment.
    pub async fn list(&self, prefix: &str) -> Result<(u64, Vec<KeyEvent>), Error> {
        let question = json!({ "key": encoded(prefix), "range_end": encoded(&end_of(prefix)) });
        let answer: RangeAnswer = self.ask("/v3/kv/range", &question).await?;
        Ok((answer.header.revision, answer.kvs.into_iter().map(|pair| event(pair, false, None)).collect()))
    }

    /// Compacts the store up to `revision`: watches from an older revision have to list anew.
    pub async fn compact(&self, revision: u64) -> Result<(), Error> {
        let question = json!({ "revision": revision.to_string(), "physical": true });
        self.ask::<Value>("/v3/kv/compaction", &question).await.map(drop)
    }

    /// Follows everything under `prefix`, from `revision` on.
    pub async fn watch(&self, prefix: &str, revision: u64) -> Result<Watch, Error> {
        let question = json!({ "create_request": {
            "key": encoded(prefix),
            "range_end": encoded(&end_of(prefix)),
            "start_revision": revision.to_string(),
            "prev_kv": true,
        }});
        Ok(Watch { body: self.send("/v3/watch", &question).await?, unread: Vec::new() })
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str, question: &Value) -> Result<T, Error> {
        let body = self.send(path, question).await?.collect().await.map_err(|error| failed(path, error))?;
        serde_json::from_slice(&body.to_bytes()).map_err(|error| failed(path, error))
    }

    async fn send(&self, path: &str, question: &Value) -> Result<Incoming, Error> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| failed(path, error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(path, error))?;
        tokio::spawn(connection);
        let request = http::Request::post(path)
            .header(http::header::HOST, "etcd")
            .body(Full::new(Bytes::from(question.to_string())))
            .map_err(|error| failed(path, error))?;
        let answer = sender.send_request(request).await.map_err(|error| failed(path, error))?;
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        let status = answer.status();
        let words = answer.into_body().collect().await.map_err(|error| failed(path, error))?.to_bytes();
        Err(failed(path, io::Error::other(format!("{status}: {}", String::from_utf8_lossy(&words)))))
    }
}

/// The events under a prefix, in order and without a gap.
#[derive(Debug)]
pub struct Watch {
    body: Incoming,
    unread: Vec<u8>,
}

impl Watch {
    /// The next events, of one revision or of several. An end or a gap is an error. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<KeyEvent>, Error> {
        loop {
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let answer: WatchAnswer =
                    serde_json::from_slice(&line).map_err(|error| failed("a watch", error))?;
                if let Some(error) = answer.error {
                    return Err(failed("a watch", io::Error::other(error.to_string())));
                }
                let result = answer.result.unwrap_or_default();
                if result.canceled {
                    return Err(failed("a watch", io::Error::other(result.cancel_reason)));
                }
                if !result.events.is_empty() {
                    let events = result.events.into_iter();
                    return Ok(events.map(|it| event(it.kv, it.kind == "DELETE", it.prev_kv)).collect());
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.unread.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(failed("a watch", error)),
                None => {
                    return Err(failed("a watch", io::Error::from(io::ErrorKind::UnexpectedEof)));
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct RangeAnswer {
    header: Header,
    #[serde(default)]
    kvs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Header {
    #[serde(deserialize_with = "number")]
    revision: u64,
}

#[derive(Deserialize)]
struct Pair {
    key: ByteString,
    #[serde(default, deserialize_with = "number")]
    mod_revision: u64,
    #[serde(default)]
    value: Option<ByteString>,
}

#[derive(Deserialize)]
struct WatchAnswer {
    #[serde(default)]
    result: Option<WatchResult>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WatchResult {
    canceled: bool,
    cancel_reason: String,
    events: Vec<WatchedEvent>,
}

#[derive(Deserialize)]
struct WatchedEvent {
    /// Left out for a put, as the gateway leaves out everything that is zero.
    #[serde(default, rename = "type")]
    kind: String,
    kv: Pair,
    #[serde(default)]
    prev_kv: Option<Pair>,
}

fn event(pair: Pair, deleted: bool, previous: Option<Pair>) -> KeyEvent {
    KeyEvent {
        revision: pair.mod_revision,
        key: String::from_utf8_lossy(&pair.key.0).into_owned(),
        value: if deleted { None } else { Some(pair.value.unwrap_or_default().0) },
        previous: previous.and_then(|previous| previous.value).map(|value| value.0),
    }
}

/// The gateway writes 64-bit numbers as strings.
fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn encoded(key: &str) -> ByteString {
    ByteString(key.as_bytes().to_vec())
}

/// The first key after all that begin with `prefix`, which ends with a slash: `0` follows it in ASCII.
fn end_of(prefix: &str) -> String {
    format!("{}0", prefix.trim_end_matches('/'))
}

fn failed(what: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Io { what: format!("ask etcd for {what}"), source: io::Error::other(error) }
}

#[cfg(test)]
mod tests {
    use super::{WatchAnswer, end_of, event};

    #[test]
    fn a_deletion_has_what_was_there_and_a_prefix_ends_before_its_neighbour() {
        let line = r#"{"result":{"header":{"revision":"3"},"events":[{"type":"DELETE",
            "kv":{"key":"Zm9v","mod_revision":"3"},"prev_kv":{"key":"Zm9v","mod_revision":"2","value":"YmFy"}}]}}"#;
        let answer: WatchAnswer = serde_json::from_str(line).unwrap();
        let watched = answer.result.unwrap().events.remove(0);
        let event = event(watched.kv, watched.kind == "DELETE", watched.prev_kv);
        assert_eq!((event.revision, event.key.as_str(), event.value), (3, "foo", None));
        assert_eq!(event.previous.as_deref(), Some(b"bar".as_slice()));
        assert_eq!(end_of("/registry/pods/"), "/registry/pods0");
    }
}
