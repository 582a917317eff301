//! A machine with a sick GPU.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::words::{Condition, Said, Words};
use crate::finding::{GpuFault, Origin, Remedy, View};

/// The most faults that the Node lists: some 100 bytes each, far below the 256 KiB that annotations may have.
const TOLD_MAX: usize = 32;

/// The annotation on the Node, with the faults that were reported.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Record {
    /// The boot in which they came. The next boot clears everything.
    boot: String,
    /// The last record of the kernel log that was reported.
    #[serde(skip_serializing_if = "is_zero")]
    kernel_log: u64,
    /// The faults behind the taint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open: Vec<Told>,
    /// States that DCGM still showed after the taint was removed: they are not reported again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dismissed: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Told {
    gpu: String,
    what: String,
    help: Help,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dcgm: bool,
}

/// [`Remedy`] as written in the annotation and the taint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Help {
    ResetGpu,
    RestartNode,
    Inspect,
}

/// The words about GPUs; `None` if nothing is known yet.
///
/// ```text
///                  new fault               taint removed from outside, or
///   no taint ─────────────────► gpu-sick ─────────────────────────────────────────────► no taint
///                                          another boot, all sources answer, no fault
/// ```
pub(super) fn words(said: Said, view: &View<GpuFault>, boot: &str, has_gpus: bool) -> Option<Words> {
    let before = said.annotation.and_then(|text| serde_json::from_str::<Record>(text).ok());
    let knows_enough = !view.found.is_empty() || view.complete && !said.is_by_others();
    let mut record = match before {
        Some(record) if record.boot == boot => record,
        _ if !knows_enough => return None,
        _ => Record { boot: boot.to_owned(), ..Record::default() },
    };
    if said.taint.is_none() {
        record.dismiss();
    }
    record.take_in(view);
    let worst = record.open.iter().map(|told| told.help).max();
    let is_empty = record.kernel_log == 0 && record.open.is_empty() && record.dismissed.is_empty();
    Some(Words {
        taint: worst.map(taint_value),
        condition: match worst {
            Some(worst) => Some(sick(worst, &record.open)),
            // A machine without GPUs has no words about them, unless it has to take some back.
            None if is_empty && !has_gpus && said.annotation.is_none() => None,
            None => Some(well(is_empty)),
        },
        annotation: (!is_empty).then(|| serde_json::to_string(&record).expect("a record is plain data")),
    })
}

impl Record {
    /// The taint was removed from outside: its faults are handled.
    fn dismiss(&mut self) {
        let closed = std::mem::take(&mut self.open);
        self.dismissed.extend(closed.iter().filter(|told| told.dcgm).map(Told::name));
    }

    fn take_in(&mut self, view: &View<GpuFault>) {
        let shown: Vec<String> =
            view.found.iter().filter(|it| it.origin == Origin::Dcgm).map(|it| Told::new(it).name()).collect();
        if view.complete {
            // A state that vanished and comes again is a new fault.
            self.dismissed.retain(|name| shown.contains(name));
        }
        let told_up_to = self.kernel_log;
        for fault in &view.found {
            let told = Told::new(fault);
            let is_new = match fault.origin {
                Origin::KernelLog(sequence) => {
                    self.kernel_log = self.kernel_log.max(sequence.saturating_add(1));
                    sequence >= told_up_to
                }
                Origin::Dcgm => !self.dismissed.contains(&told.name()),
            };
            // Both sources describe the same fault in the same words.
            if let Some(open) = self.open.iter_mut().find(|it| it.name() == told.name()) {
                open.dcgm |= told.dcgm;
                open.help = open.help.max(told.help);
            } else if is_new && self.open.len() < TOLD_MAX {
                self.open.push(told);
            }
        }
    }
}

impl Told {
    fn new(fault: &GpuFault) -> Self {
        let help = match fault.remedy {
            Remedy::ResetGpu => Help::ResetGpu,
            Remedy::RestartNode => Help::RestartNode,
            Remedy::Inspect => Help::Inspect,
        };
        let dcgm = fault.origin == Origin::Dcgm;
        Self { gpu: fault.gpu.clone(), what: fault.what.clone(), help, dcgm }
    }

    /// The identity of a fault.
    fn name(&self) -> String {
        format!("{}: {}", self.gpu, self.what)
    }
}

fn taint_value(help: Help) -> &'static str {
    match help {
        Help::ResetGpu => "reset-gpu",
        Help::RestartNode => "restart-node",
        Help::Inspect => "inspect",
    }
}

fn sick(worst: Help, open: &[Told]) -> Condition {
    let (reason, to_do) = match worst {
        Help::ResetGpu => ("GpuNeedsReset", "Drain the node, and reset the GPU or restart the machine"),
        Help::RestartNode => ("NodeNeedsRestart", "Drain the node and restart the machine"),
        Help::Inspect => ("GpuNeedsInspection", "Drain the node and look at the hardware"),
    };
    let mut message = String::new();
    for told in open {
        write!(message, "GPU {}: {}. ", told.gpu, told.what).expect("writing to a string cannot fail");
    }
    message += to_do;
    message += "; the taint goes with the next boot without a fault, or when you remove it.";
    Condition { status: "False", reason, message }
}

fn well(has_seen_nothing: bool) -> Condition {
    let message = if has_seen_nothing {
        "No fault was seen since boot."
    } else {
        "The faults since boot were dismissed: the taint was removed by hand."
    };
    Condition { status: "True", reason: "NoFault", message: message.to_owned() }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
