//! Reads the kernel log as it grows.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::{info, warn};

use super::report::{Found, Report};
use crate::metrics::Metrics;
use crate::source::Source;
use crate::source::kmsg::{Log, Xid};
use crate::xid;

/// Time between two looks for new records.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time between two tries to open it.
const OPEN_EVERY: Duration = Duration::from_secs(5);
/// The device needs a buffer for a whole record, and returns one at a time.
const RECORD_BYTES_MAX: usize = 8 * 1024;
/// Records read in one go before other tasks get their turn.
const READS_MAX: usize = 1_024;

/// Reads it for ever, from its beginning: since the boot, or as far back as the kernel keeps it.
pub(super) async fn watch(path: PathBuf, reports: mpsc::Sender<Report>, metrics: Metrics) {
    let mut failures = 0_u64;
    loop {
        let error = match open(&path) {
            Ok(file) => match follow(file, &reports, &metrics).await {
                Ok(()) => return,
                Err(error) => error,
            },
            Err(error) => error,
        };
        metrics.polled(Source::KernelLog, false);
        failures += 1;
        if failures.is_power_of_two() {
            warn!(path = %path.display(), failures, %error, "Could not read the kernel log; trying again.");
        }
        sleep(OPEN_EVERY).await;
    }
}

/// Without blocking: a read of the device would wait for the next record, and keep the process from ending.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}

/// Reports until it cannot be read, or the receiver is gone.
async fn follow(mut file: File, reports: &mpsc::Sender<Report>, metrics: &Metrics) -> io::Result<()> {
    let mut log = Log::default();
    let mut last = None;
    loop {
        let is_at_end = read(&mut file, &mut log, metrics)?;
        if !is_at_end {
            tokio::task::yield_now().await;
            continue;
        }
        metrics.polled(Source::KernelLog, true);
        let found = Found::Faults(log.faults());
        if last.as_ref() != Some(&found) {
            last = Some(found.clone());
            if reports.send(Report { source: Source::KernelLog, found }).await.is_err() {
                return Ok(());
            }
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Reads the present records; returns whether that was all.
fn read(file: &mut File, log: &mut Log, metrics: &Metrics) -> io::Result<bool> {
    let mut buffer = [0; RECORD_BYTES_MAX];
    for _ in 0..READS_MAX {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(count) => log.read(&buffer[..count]).iter().for_each(|xid| tell(xid, metrics)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            // The kernel has overwritten records that we had not read yet; the next read goes on with the
            // oldest one left.
            Err(error) if [ErrorKind::BrokenPipe, ErrorKind::Interrupted].contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

fn tell(xid: &Xid, metrics: &Metrics) {
    let action = xid::action(xid.code).map(|(action, _)| action);
    metrics.saw_xid(action);
    info!(gpu = xid.gpu, xid = xid.code, ?action, message = xid.message, "The driver logged an error.");
}
