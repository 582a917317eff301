//! A link that can be slowed while it is used: etcd's data reaches one API server late, so that its caches are
//! behind those of the other API servers.
//!
//! Bytes keep their order and none is lost. The way to etcd is not slowed: only reads are late.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::Error;

/// Chunks under way in one direction; a chunk has at most 16 KiB, so 64 MiB on a link of this length.
const CHUNKS_MAX: usize = 4_096;
const CHUNK_BYTES_MAX: usize = 16 * 1_024;

/// A socket that forwards to another one; it ends when dropped.
#[derive(Debug)]
pub(crate) struct SlowLink {
    delay_millis: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl SlowLink {
    /// Listens on the socket `from`, and passes everything on to the socket `to` and back.
    pub fn start(from: &Path, to: PathBuf) -> Result<Self, Error> {
        let _ = std::fs::remove_file(from);
        let listener = UnixListener::bind(from)
            .map_err(|source| Error::Io { what: format!("listen on {}", from.display()), source })?;
        let delay_millis = Arc::new(AtomicU64::new(0));
        let delay = Arc::clone(&delay_millis);
        let task = tokio::spawn(async move {
            let mut links = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while links.try_join_next().is_some() {}
                let Ok(target) = UnixStream::connect(&to).await else { continue };
                links.spawn(pass(stream, target, Arc::clone(&delay)));
            }
        });
        Ok(Self { delay_millis, task })
    }

    /// From now on, all data from etcd takes this much longer.
    pub fn set_delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.delay_millis.store(millis, Ordering::Relaxed);
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(near: UnixStream, far: UnixStream, delay_millis: Arc<AtomicU64>) {
    let (mut near_read, mut near_write) = near.into_split();
    let (mut far_read, mut far_write) = far.into_split();
    let (chunks, mut delayed) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    let there = async {
        let _ = tokio::io::copy(&mut near_read, &mut far_write).await;
    };
    let back = async {
        let mut buffer = vec![0; CHUNK_BYTES_MAX];
        while let Ok(count) = far_read.read(&mut buffer).await {
            let due = Instant::now() + Duration::from_millis(delay_millis.load(Ordering::Relaxed));
            if count == 0 || chunks.send((due, buffer[..count].to_vec())).await.is_err() {
                break;
            }
        }
    };
    let deliver = async {
        while let Some((due, bytes)) = delayed.recv().await {
            tokio::time::sleep_until(due).await;
            if near_write.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    // Either side's end is the end of the link.
    tokio::select! {
        () = there => {}
        () = back => {}
        () = deliver => {}
    }
}
