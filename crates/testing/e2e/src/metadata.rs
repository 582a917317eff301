//! The metadata service of a cloud, on loopback.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The metadata of an EC2 instance: a token for every question, and an action or 404.
pub struct Metadata {
    /// Where it is.
    pub url: String,
    said: Arc<Mutex<Said>>,
}

#[derive(Default)]
struct Said {
    action: Option<&'static str>,
    /// When the action was first answered.
    answered: Option<(Instant, Timestamp)>,
}

impl Metadata {
    /// Listens on loopback; it ends with the runtime.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let said = Arc::<Mutex<Said>>::default();
        let shared = Arc::clone(&said);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move { drop(serve(stream, &shared).await) });
            }
        });
        Ok(Self { url, said })
    }

    /// Sets its answer: an action, or nothing.
    pub fn say(&self, action: Option<&'static str>) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Said { action, answered: None };
    }

    /// When its present answer was first read.
    pub fn answered(&self) -> Option<Instant> {
        Some(self.said.lock().unwrap_or_else(PoisonError::into_inner).answered?.0)
    }

    /// The same by the wall clock.
    pub fn answered_at(&self) -> Option<Timestamp> {
        Some(self.said.lock().unwrap_or_else(PoisonError::into_inner).answered?.1)
    }
}

async fn serve(mut stream: TcpStream, said: &Mutex<Said>) -> std::io::Result<()> {
    let mut read = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let count = stream.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        read.extend_from_slice(&bytes[..count]);
        // No question has a body.
        while let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
            read.drain(..end + 4);
            let (status, body) = answer(&head, said);
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await?;
        }
    }
}

fn answer(head: &str, said: &Mutex<Said>) -> (&'static str, &'static str) {
    if head.starts_with("put /latest/api/token ")
        && head.contains("\r\nx-aws-ec2-metadata-token-ttl-seconds: ")
    {
        return ("200 OK", "a-token");
    }
    if !head.contains("\r\nx-aws-ec2-metadata-token: a-token") {
        return ("401 Unauthorized", "");
    }
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    match said.action {
        Some(action) if head.starts_with("get /latest/meta-data/spot/instance-action ") => {
            said.answered.get_or_insert_with(|| (Instant::now(), Timestamp::now()));
            ("200 OK", action)
        }
        _ => ("404 Not Found", ""),
    }
}
