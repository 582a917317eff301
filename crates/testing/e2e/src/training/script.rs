//! The members' script, and the path of its Python.

use std::path::{Path, PathBuf};

use anyhow::Context;
use test_cluster::python;
use toolbox::checkout::repository_root;
use toolbox::python::{interpreter, sdk};

/// A worker of the SDK's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    /// Plain `PyTorch`.
    Plain,
    /// Plain `PyTorch`, with the same samples in each step however many ranks there are.
    Elastic,
    /// Hugging Face's Trainer.
    HuggingFace,
    /// Lightning.
    Lightning,
}

impl Framework {
    /// Its name in `member.py`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Elastic => "elastic",
            Self::HuggingFace => "huggingface",
            Self::Lightning => "lightning",
        }
    }
}

/// A training and its size.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its worker.
    pub framework: Framework,
    /// How many members.
    pub members: u32,
    /// Steps in an epoch.
    pub epoch_steps: u64,
    /// Epochs.
    pub epochs: u64,
    /// The bound of the interval between checkpoints; `None` lets the SDK choose it.
    pub every_steps: Option<u64>,
    /// How long each step sleeps in addition to its work.
    pub step_seconds: f64,
}

impl Script {
    /// All steps.
    pub fn steps(&self) -> u64 {
        self.epoch_steps * self.epochs
    }

    /// The command of every member.
    pub fn command() -> anyhow::Result<Vec<String>> {
        let interpreter = interpreter(&python::environment()?.canonicalize()?);
        Ok(vec![text(&interpreter)?, text(&folder().join("member.py"))?])
    }

    /// The variables besides those of the contract; records go to `out`.
    pub fn variables(&self, out: &Path) -> anyhow::Result<Vec<(&'static str, String)>> {
        let sdk = sdk();
        let path =
            [sdk.join("src"), sdk, folder()].iter().map(|it| text(it)).collect::<Result<Vec<_>, _>>()?;
        let every_steps = self.every_steps.map(|steps| ("TEST_EVERY_STEPS", steps.to_string()));
        let mut variables = vec![
            ("PYTHONPATH", path.join(":")),
            ("PYTHONDONTWRITEBYTECODE", "1".into()),
            // Results are the same on every machine, and two cores have enough with four ranks.
            ("OMP_NUM_THREADS", "1".into()),
            ("TEST_FRAMEWORK", self.framework.name().into()),
            ("TEST_OUT", text(out)?),
            ("TEST_EPOCHS", self.epochs.to_string()),
            ("TEST_EPOCH_STEPS", self.epoch_steps.to_string()),
            ("TEST_STEP_SECONDS", self.step_seconds.to_string()),
        ];
        variables.extend(every_steps);
        Ok(variables)
    }

    /// Folders that members read, but for what every image has.
    pub fn folders() -> anyhow::Result<Vec<PathBuf>> {
        let mut folders = python::folders(&python::environment()?)?;
        folders.extend([sdk(), folder()]);
        folders.retain(|folder| !folder.starts_with("/usr"));
        Ok(folders)
    }
}

fn folder() -> PathBuf {
    repository_root().join("crates/testing/e2e/training")
}

fn text(path: &Path) -> anyhow::Result<String> {
    Ok(path.to_str().with_context(|| format!("{} is no text", path.display()))?.to_owned())
}
