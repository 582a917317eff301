//! The cluster's history, written to a file as a trace for `warpyard simulate`. The planning thread passes
//! lines to a writing thread. If that falls behind, lines are left out and counted, and nothing waits.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use cluster_model::{ClusterChange, ClusterState};
use jiff::Timestamp;
use trace_format::Recorder;
use tracing::{error, warn};

/// Lines that may wait to be written, some 300 bytes each: a list of 10,000 nodes comes at once.
const LINES_MAX: usize = 65_536;
/// A larger file is renamed to `FILE.1` and replaces an earlier one: at most twice this is kept.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The wait between two tries to create the file.
const RETRY_PACE: Duration = Duration::from_secs(10);

/// The planning thread's side of the trace file.
pub struct TraceFile {
    recorder: Recorder,
    lines: SyncSender<String>,
    /// Whether the file is new, and must begin with the present state.
    is_new: Arc<AtomicBool>,
    left_out: u64,
}

impl TraceFile {
    /// Creates the file and writes to it; an older file is renamed. If the file cannot be created, that is
    /// tried again: an error only means that the thread could not be started.
    pub fn start(path: &Path) -> std::io::Result<Self> {
        Self::start_with(path, RETRY_PACE)
    }

    fn start_with(path: &Path, retry_pace: Duration) -> std::io::Result<Self> {
        let (lines, received) = sync_channel(LINES_MAX);
        let is_new = Arc::new(AtomicBool::new(true));
        let (path, bytes) = (path.to_owned(), AtomicU64::new(0));
        let writer = Writer { path, is_new: Arc::clone(&is_new), bytes, retry_pace };
        std::thread::Builder::new().name("record".to_owned()).spawn(move || writer.run(&received))?;
        Ok(Self { recorder: Recorder::default(), lines, is_new, left_out: 0 })
    }

    /// Before a change is applied.
    pub fn change(&mut self, state: &ClusterState, change: &ClusterChange, now: Timestamp) {
        for line in self.recorder.change(state, change, now) {
            self.write(line);
        }
    }

    /// Call it after each plan: a new file begins with the present state.
    pub fn planned(&mut self, state: &ClusterState) {
        if self.is_new.swap(false, Ordering::Relaxed) {
            for line in self.recorder.begin(state) {
                self.write(line);
            }
        }
    }

    /// Writes the gangs that still run, with their work so far.
    pub fn end(&mut self, state: &ClusterState, now: Timestamp) {
        for line in self.recorder.end(state, now) {
            self.write(line);
        }
    }

    fn write(&mut self, line: String) {
        if self.lines.try_send(line).is_err() {
            self.left_out += 1;
            if self.left_out.is_power_of_two() {
                warn!(
                    lines = self.left_out,
                    "The recorded trace misses lines: the disk is too slow, or full."
                );
            }
        }
    }
}

struct Writer {
    path: PathBuf,
    is_new: Arc<AtomicBool>,
    bytes: AtomicU64,
    retry_pace: Duration,
}

impl Writer {
    fn begin(&self) -> std::io::Result<BufWriter<File>> {
        if fs::exists(&self.path)? {
            fs::rename(&self.path, self.path.with_added_extension("1"))?;
        }
        self.bytes.store(0, Ordering::Relaxed);
        self.is_new.store(true, Ordering::Relaxed);
        Ok(BufWriter::new(File::create(&self.path)?))
    }

    fn run(&self, lines: &Receiver<String>) {
        let Some(mut file) = self.begin_when_possible(lines) else { return };
        if let Err(error) = self.write_all(&mut file, lines) {
            error!(%error, path = %self.path.display(), "Stopped recording.");
        }
    }

    /// Opens the file. Lines from before that are left out: the file begins with the state at that time.
    fn begin_when_possible(&self, lines: &Receiver<String>) -> Option<BufWriter<File>> {
        loop {
            match self.begin() {
                Ok(file) => return Some(file),
                Err(error) => warn!(%error, path = %self.path.display(), "Cannot record: trying again."),
            }
            let next_try = Instant::now() + self.retry_pace;
            loop {
                match lines.recv_timeout(next_try.saturating_duration_since(Instant::now())) {
                    Ok(_) => {}
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return None,
                }
            }
        }
    }

    /// Writes until the planning thread has ended. Flushes whenever no line waits.
    fn write_all(&self, file: &mut BufWriter<File>, lines: &Receiver<String>) -> std::io::Result<()> {
        loop {
            let line = match lines.try_recv() {
                Ok(line) => line,
                Err(TryRecvError::Disconnected) => return file.flush(),
                Err(TryRecvError::Empty) => {
                    file.flush()?;
                    match lines.recv() {
                        Ok(line) => line,
                        Err(_) => return Ok(()),
                    }
                }
            };
            writeln!(file, "{line}")?;
            let bytes = self.bytes.fetch_add(line.len() as u64 + 1, Ordering::Relaxed);
            if bytes > FILE_BYTES_MAX {
                file.flush()?;
                *file = self.begin()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use cluster_model::{ClusterChange, ClusterState, Node};

    use super::TraceFile;

    #[test]
    fn a_file_that_cannot_be_made_is_tried_again_and_begins_with_what_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("later").join("trace");
        let mut record = TraceFile::start_with(&path, Duration::from_millis(1)).expect("a thread");
        let mut state = ClusterState::default();
        state.apply(ClusterChange::Node(Node::new("node")));
        record.planned(&state);
        fs::create_dir(folder.path().join("later")).expect("a folder");
        let begun = Instant::now();
        while !fs::read_to_string(&path).is_ok_and(|text| text.contains("node")) {
            assert!(begun.elapsed() < Duration::from_secs(30), "nothing was recorded");
            record.planned(&state);
            std::thread::yield_now();
        }
    }
}
