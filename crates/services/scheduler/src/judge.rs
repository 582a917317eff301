//! The independent judge in production. Debug builds judge every plan before it is carried out; here one is judged now
//! and then, on a copy and off the planning thread, so that a mistake that no test has found is noticed.
//!
//! A wrong plan was carried out already: it is counted, logged, and written to disk with its state, for a report.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plan_check::{check_plan, check_state};
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::tell::desk::Desk;
use crate::tell::picture::Picture;

/// Time between two judged plans. The planning thread only copies its state for it; the copy is forgotten a minute later.
const PACE: Duration = Duration::from_mins(2);
/// How long a picture may take.
const PICTURE_WITHIN: Duration = Duration::from_secs(10);
/// Snapshots that one process writes: each may have 100 MB, and the first ones say enough.
const SNAPSHOTS_MAX: u32 = 3;
/// Violations of one plan that are logged.
const LOGGED_MAX: usize = 20;

/// Judges a plan now and then.
pub struct Judge {
    /// Where copies of plans and their states come from.
    pub desk: Arc<Desk>,
    /// Plans that were judged.
    pub judged: Counter,
    /// Plans that were wrong.
    pub wrong: Counter,
    /// Where wrong plans are written.
    pub folder: PathBuf,
}

impl Judge {
    /// Judges until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let judge = Arc::new(self);
        let mut written = 0;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PACE) => {}
            }
            let Some(picture) = judge.desk.new_picture(Instant::now() + PICTURE_WITHIN).await else {
                continue;
            };
            let work = {
                let judge = Arc::clone(&judge);
                move || judge.judge(&picture, written < SNAPSHOTS_MAX)
            };
            // A judge that panics is a defect of the judge, and was logged.
            if tokio::task::spawn_blocking(work).await.is_ok_and(|is_right| !is_right) {
                written += 1;
            }
        }
    }

    /// Whether the plan and the state agree with the judge; if not, says so.
    fn judge(&self, picture: &Picture, is_written: bool) -> bool {
        let mut violations: Vec<String> = check_plan(&picture.state, &picture.plan, &picture.policy)
            .iter()
            .map(ToString::to_string)
            .collect();
        violations.extend(check_state(&picture.state).iter().map(ToString::to_string));
        self.judged.inc();
        debug!(generation = picture.plan.generation, violations = violations.len(), "Judged.");
        if violations.is_empty() {
            return true;
        }
        self.wrong.inc();
        for violation in violations.iter().take(LOGGED_MAX) {
            error!(generation = picture.plan.generation, violation, "The plan is wrong.");
        }
        if is_written {
            match write(picture, &self.folder) {
                Ok(path) => {
                    error!(path = %path.display(), "Please report this: a snapshot of the wrong plan was written.");
                }
                Err(error) => {
                    warn!(%error, folder = %self.folder.display(), "No snapshot of the wrong plan could be written.");
                }
            }
        }
        false
    }
}

/// Writes the plan and its state to a new file that only we can read.
fn write(picture: &Picture, folder: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let name = format!("wrong-plan-{}-{}.json", picture.made_at().as_second(), picture.plan.generation);
    let path = folder.join(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(&picture.write()?)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cluster_model::plan::{GangPlacement, MemberPlacement};
    use cluster_model::{GangKey, PodKey, Snapshot};
    use prometheus_client::metrics::counter::Counter;
    use serde_json::Value;

    use super::Judge;
    use crate::tell::desk::Desk;
    use crate::tell::picture::Picture;
    use crate::tell::tests::picture;

    #[tokio::test]
    async fn a_wrong_plan_is_counted_and_written_and_a_right_one_is_not() {
        let desk = Arc::<Desk>::default();
        let right = picture(&desk).await;
        let folder = tempfile::tempdir().unwrap();
        let judge = Judge {
            desk,
            judged: Counter::default(),
            wrong: Counter::default(),
            folder: folder.path().join("snapshots"),
        };
        assert!(judge.judge(&right, true));
        assert!(!judge.folder.exists());

        let mut wrong = Picture {
            state: right.state.clone(),
            policy: right.policy.clone(),
            plan: right.plan.clone(),
            arrivals: right.arrivals.clone(),
            taken: right.taken,
        };
        // Eight GPUs, of which six are used.
        let pod = PodKey::new("team", "second", "second");
        let member = MemberPlacement { pod, node: "node".into(), devices: Vec::new() };
        wrong.plan.placements.push(GangPlacement {
            gang: GangKey::new("team", "second"),
            queue: "queue".into(),
            run: None,
            members: vec![member],
        });
        assert!(!judge.judge(&wrong, true));
        assert_eq!((judge.judged.get(), judge.wrong.get()), (2, 1));
        let file = std::fs::read_dir(&judge.folder).unwrap().next().expect("a snapshot").unwrap();
        let snapshot: Snapshot<Value> = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
        assert_eq!(snapshot.made_at, wrong.made_at());
        assert!(!judge.judge(&wrong, false), "it is still wrong");
        assert_eq!(std::fs::read_dir(&judge.folder).unwrap().count(), 1, "and not written again");
    }
}
