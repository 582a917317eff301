//! The use of a process, from the kernel, and its own metrics.

use std::fs;

use anyhow::Context;

/// The kernel shows processor time in these on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of a process since its start, of all its threads.
pub fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The second field is the program's name in parentheses, and may hold blanks.
    let (_, fields) = stat.rsplit_once(')').with_context(|| format!("{path} is strange"))?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || -> anyhow::Result<f64> { Ok(fields.next().context("too few fields")?.parse()?) };
    Ok((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

/// Processor time of the whole machine since its start.
#[derive(Clone, Copy, Debug)]
pub struct MachineTime {
    all: f64,
    stolen: f64,
}

impl MachineTime {
    /// Up to now.
    pub fn now() -> anyhow::Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let line = stat.lines().next().context("/proc/stat is empty")?;
        let ticks: Vec<f64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
        // User, nice, system, idle, waiting, two kinds of interrupts, stolen; what guests take is in user.
        let stolen = *ticks.get(7).context("/proc/stat knows no stolen time")?;
        Ok(Self { all: ticks[..8].iter().sum(), stolen })
    }

    /// The share of time since then that the host took for other machines while work was waiting here.
    pub fn stolen_since(self) -> anyhow::Result<f64> {
        let now = Self::now()?;
        Ok((now.stolen - self.stolen) / (now.all - self.all).max(1.0))
    }
}

/// Memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Resident now.
    pub resident_mib: f64,
    /// Resident at its most.
    pub peak_mib: f64,
}

/// How much memory a process has.
pub fn memory(pid: u32) -> anyhow::Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let mib = |key: &str| -> anyhow::Result<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let kib = line.with_context(|| format!("no {key} in {path}"))?.trim().trim_end_matches(" kB");
        Ok(kib.trim().parse::<f64>()? / 1024.0)
    };
    Ok(Memory { resident_mib: mib("VmRSS")?, peak_mib: mib("VmHWM")? })
}

/// The flags that a process was started with. Paths are of one run only: their place is left out.
pub fn flags(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    words
        .filter(|word| word.starts_with("--"))
        .map(|word| match word.split_once("=/") {
            Some((name, _)) => format!("{name}=…"),
            None => word,
        })
        .collect()
}

/// The sum of a number that a process shows at `url`, over all its labels.
pub async fn metric(url: &str, name: &str) -> anyhow::Result<f64> {
    let text = reqwest::get(url).await?.error_for_status()?.text().await?;
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        (rest.starts_with(' ') || rest.starts_with('{')).then(|| rest.rsplit(' ').next())?
    });
    let values = values.map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    anyhow::ensure!(!values.is_empty(), "no {name} at {url}");
    Ok(values.into_iter().sum())
}
