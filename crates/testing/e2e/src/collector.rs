//! An OpenTelemetry collector in a few lines: accepts HTTP posts, and keeps their bodies.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A collector; it ends with the runtime.
pub struct Collector {
    /// Where it listens.
    pub url: String,
    bodies: Arc<Mutex<Vec<u8>>>,
}

impl Collector {
    /// Listens on loopback.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let bodies = Arc::<Mutex<Vec<u8>>>::default();
        let kept = Arc::clone(&bodies);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                tokio::spawn(async move { drop(Box::pin(answer(stream, &kept)).await) });
            }
        });
        Ok(Self { url, bodies })
    }

    /// Whether a body contains this text. Names in protobuf are plain text.
    pub fn has(&self, text: &str) -> bool {
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

async fn answer(mut stream: TcpStream, kept: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    let mut bytes = [0; 16 * 1024];
    let mut read = Vec::new();
    loop {
        let count = stream.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        read.extend_from_slice(&bytes[..count]);
        while let Some(length) = whole(&read) {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend(read.drain(..length));
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
        }
    }
}

/// The length of the first request, once all of it is there.
fn whole(read: &[u8]) -> Option<usize> {
    let end = read.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let all = end + length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    (read.len() >= all).then_some(all)
}
