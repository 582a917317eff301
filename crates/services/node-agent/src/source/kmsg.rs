//! The kernel log, in the format of `/dev/kmsg`: a line
//! `<priority>,<sequence>,<microseconds>,<flags>;<message>` for each record, followed by its further lines,
//! which begin with a blank.

use std::collections::BTreeMap;

use crate::finding::{GpuFault, Origin, line};
use crate::source::dcgm::pci_address;
use crate::xid;

/// The longest line: the kernel's own limit of a record is 8 KiB (`CONSOLE_EXT_LOG_MAX`).
const LINE_BYTES_MAX: usize = 8 * 1024;
/// The most faults that are kept: 16 GPUs with 16 different codes each.
const FAULTS_MAX: usize = 256;

/// An error of the NVIDIA driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xid {
    /// The record's number since boot.
    pub sequence: u64,
    /// The GPU's PCI address.
    pub gpu: String,
    /// The code.
    pub code: u32,
    /// The text after the code.
    pub message: String,
}

/// Reads one line: an Xid, or `None` for anything else.
///
/// Only records of the kernel itself count. Records that processes write have another facility, which they
/// cannot choose.
pub fn xid(text: &str) -> Option<Xid> {
    let (head, message) = text.split_once(';')?;
    let mut fields = head.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let sequence = fields.next()?.parse().ok()?;
    if priority >> 3 != 0 {
        return None;
    }
    let rest = message.strip_prefix("NVRM: Xid (")?;
    let (device, rest) = rest.split_once("):")?;
    let rest = rest.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (code, message) = rest.split_at(digits);
    Some(Xid {
        sequence,
        gpu: pci_address(device.strip_prefix("PCI:").unwrap_or(device)),
        code: code.parse().ok()?,
        message: line(message.trim_start_matches([',', ' '])),
    })
}

/// The part of the kernel log that was read.
#[derive(Debug, Default)]
pub struct Log {
    unfinished: Vec<u8>,
    /// Whether the present line is too long and is skipped.
    skips: bool,
    /// The last record of each GPU and code that needs help.
    faults: BTreeMap<(String, u32), GpuFault>,
}

impl Log {
    /// Takes in bytes, which may end within a line, and returns the Xids in them.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<Xid> {
        let mut xids = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.unfinished.len() + part.len() > LINE_BYTES_MAX {
                self.skips = true;
                self.unfinished.clear();
            }
            if !self.skips {
                self.unfinished.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                xids.extend(xid(&String::from_utf8_lossy(&self.unfinished)));
                self.unfinished.clear();
                self.skips = false;
            }
        }
        for xid in &xids {
            self.keep(xid);
        }
        xids
    }

    /// The faults that were found so far.
    pub fn faults(&self) -> Vec<GpuFault> {
        self.faults.values().cloned().collect()
    }

    fn keep(&mut self, xid: &Xid) {
        let Some((remedy, about)) = xid::remedy(xid.code, &xid.message) else { return };
        let key = (xid.gpu.clone(), xid.code);
        if self.faults.len() < FAULTS_MAX || self.faults.contains_key(&key) {
            let what = format!("Xid {}, {about}", xid.code);
            let origin = Origin::KernelLog(xid.sequence);
            self.faults.insert(key, GpuFault { gpu: xid.gpu.clone(), what, remedy, origin });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Remedy;

    const FALLEN: &str = "3,1207,5140900,-;NVRM: Xid (PCI:0000:cb:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n";
    const PAGE_FAULT: &str = "3,1100,5140800,-;NVRM: Xid (PCI:0000:9b:00): 31, pid=2041, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS\n";

    #[test]
    fn an_xid_is_read_from_a_record() {
        let expected = Xid {
            sequence: 1207,
            gpu: "0000:cb:00".into(),
            code: 79,
            message: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.".into(),
        };
        assert_eq!(xid(FALLEN), Some(expected));
        let short = xid("4,7,1,c;NVRM: Xid (0000:03:00): 14, Channel 00000001").unwrap();
        assert_eq!((short.gpu.as_str(), short.code), ("0000:03:00", 14));
        assert_eq!(xid("4,7,1,-;NVRM: Xid (PCI:0000:03:00): 79").unwrap().code, 79);
    }

    #[test]
    fn other_lines_are_no_xids() {
        for text in [
            "",
            " SUBSYSTEM=pci\n",
            " DEVICE=+pci:0000:cb:00.0\n",
            "6,1,0,-;Linux version 6.1.0",
            "3,1,0,-;NVRM: GPU at PCI:0000:cb:00: GPU-b9f9e81b-bee7-34bc-af17-132ef6592740",
            "3,1,0,-;NVRM: Xid (PCI:0000:cb:00): many, GPU has fallen off the bus.",
            "3,1,0,-;NVRM: Xid (PCI:0000:cb:00): 99999999999, GPU has fallen off the bus.",
            "3,one,0,-;NVRM: Xid (PCI:0000:cb:00): 79, GPU has fallen off the bus.",
            "NVRM: Xid (PCI:0000:cb:00): 79, GPU has fallen off the bus.",
            "3,1,0,-;somebody: NVRM: Xid (PCI:0000:cb:00): 79, GPU has fallen off the bus.",
        ] {
            assert_eq!(xid(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_process_writes_to_the_log_is_not_believed() {
        // Facility 1, "user", which the kernel sets on all records from outside.
        assert_eq!(
            xid("11,1207,5140900,-;NVRM: Xid (PCI:0000:cb:00): 79, GPU has fallen off the bus."),
            None
        );
    }

    #[test]
    fn a_sick_gpu_is_a_fault_and_an_applications_error_is_not() {
        let mut log = Log::default();
        assert_eq!(log.read(PAGE_FAULT.as_bytes()).len(), 1);
        assert_eq!(log.faults(), []);
        log.read(FALLEN.as_bytes());
        let expected = GpuFault {
            gpu: "0000:cb:00".into(),
            what: "Xid 79, GPU has fallen off the bus".into(),
            remedy: Remedy::RestartNode,
            origin: Origin::KernelLog(1207),
        };
        assert_eq!(log.faults(), [expected]);
    }

    #[test]
    fn of_a_gpu_and_a_code_the_last_record_counts() {
        let mut log = Log::default();
        log.read(FALLEN.as_bytes());
        log.read(FALLEN.replace("1207", "1300").as_bytes());
        let origins: Vec<_> = log.faults().iter().map(|fault| fault.origin).collect();
        assert_eq!(origins, [Origin::KernelLog(1300)]);
    }

    #[test]
    fn lines_may_come_in_pieces() {
        for size in [1, 7, 50, 1_000] {
            let mut log = Log::default();
            let text = [PAGE_FAULT, " SUBSYSTEM=pci\n", FALLEN].concat();
            let xids: Vec<_> = text.as_bytes().chunks(size).flat_map(|chunk| log.read(chunk)).collect();
            assert_eq!(xids.iter().map(|xid| xid.code).collect::<Vec<_>>(), [31, 79], "{size}");
        }
    }

    #[test]
    fn memory_is_bounded_whatever_the_log_holds() {
        let mut log = Log::default();
        for _ in 0..100 {
            log.read(&[b'x'; 1_000]);
        }
        assert!(log.unfinished.len() <= LINE_BYTES_MAX);
        assert_eq!(log.read(b"\n").len(), 0);
        assert_eq!(log.read(FALLEN.as_bytes()).len(), 1, "the line after a long one is read");
        for device in 0..1_000 {
            log.read(format!("3,1,0,-;NVRM: Xid (PCI:0000:{device:x}:00): 79, gone\n").as_bytes());
        }
        assert_eq!(log.faults().len(), FAULTS_MAX);
    }
}
