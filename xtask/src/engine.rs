//! `cargo xtask engine`: builds the real servers from the pins in `engine/`, once.
//!
//! ```text
//!   WARPYARD_ENGINE_BIN set? ── yes ─► check its binaries, print their versions
//!            │ no
//!   table of servers (toolbox::engine_bin) ─► in the cache? ── yes ─► done
//!                                                   │ no
//!                         lock the cache ─► go build into a temporary file ─► rename
//! ```
//!
//! A file in the cache is named by a hash of everything it was built from, so it is never stale and never rewritten.
//! Nothing is written into the checkout.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use toolbox::engine_bin::{self, GO_VERSION_MIN, SERVERS, Server};
use toolbox::programs::is_executable;

/// What to build.
#[derive(clap::Args, Debug, Default)]
pub struct EngineArgs {
    /// Only these servers, separated by commas: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
    /// kubectl, kwok, karpenter, kubelet, gpu-plugin, cluster-dns, filter-oracle.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
}

/// Builds every requested server that is missing, and prints their paths.
pub fn run(args: &EngineArgs) -> anyhow::Result<()> {
    let mut wanted = wanted_servers(&args.only)?;
    if let Some(dir) = engine_bin::given_dir() {
        wanted = check_given(&wanted, &dir, !args.only.is_empty())?;
        if wanted.is_empty() {
            return Ok(());
        }
    }
    let go = usable_go()?;
    let cache = engine_bin::cache_dir()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let mut lock = None;
    for (index, server) in wanted.iter().enumerate() {
        let target = server.cached_path(&go)?;
        if !is_executable(&target) {
            if lock.is_none() {
                lock = Some(lock_cache(&cache)?);
            }
            // Another process may have built it while we waited for the lock.
            if !is_executable(&target) {
                build(server, &target, &format!("[{}/{}]", index + 1, wanted.len()))?;
            }
        }
        println!("{} {}", server.name, target.display());
    }
    Ok(())
}

/// The servers named by `only`, or all, in the table's order.
fn wanted_servers(only: &[String]) -> anyhow::Result<Vec<&'static Server>> {
    for name in only {
        Server::named(name)?;
    }
    Ok(SERVERS
        .iter()
        .filter(|server| only.is_empty() || only.iter().any(|name| name == server.name))
        .collect())
}

/// Checks the developer's own binaries, and returns the servers that must be built all the same: our own
/// programs, if they are named. Otherwise Go is not needed.
fn check_given(
    wanted: &[&'static Server],
    dir: &Path,
    is_by_name: bool,
) -> anyhow::Result<Vec<&'static Server>> {
    eprintln!("No server is built: {} names {}.", engine_bin::GIVEN_BINARIES_VARIABLE, dir.display());
    let mut ours = Vec::new();
    for server in wanted {
        if server.is_ours {
            if is_by_name {
                ours.push(*server);
            } else {
                eprintln!("{} is not built: name it with --only, it needs Go.", server.name);
            }
            continue;
        }
        let path = server.find()?;
        eprintln!("{}: {}", server.name, version_of(server, &path)?);
        println!("{} {}", server.name, path.display());
    }
    Ok(ours)
}

fn version_of(server: &Server, path: &Path) -> anyhow::Result<String> {
    let args: &[&str] = if server.name == "kubectl" { &["version", "--client"] } else { &["--version"] };
    let output = Command::new(path)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot ask {} for its version", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{} {} failed: {}", path.display(), args.join(" "), output.status);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// The output of `go version`, if that Go can build the engine.
fn usable_go() -> anyhow::Result<String> {
    let version = engine_bin::go_version()?;
    ensure!(
        is_new_enough(&version),
        "the engine needs Go {GO_VERSION_MIN}, and this is {version:?}\n\nhint: install Go {GO_VERSION_MIN} or newer, \
         or set {} to a directory that holds release binaries",
        engine_bin::GIVEN_BINARIES_VARIABLE,
    );
    Ok(version)
}

/// Reads `go version go1.26.8 linux/amd64`; a development version of Go is accepted.
fn is_new_enough(go_version: &str) -> bool {
    let release = |text: &str| {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    let word = go_version.split_whitespace().nth(2).unwrap_or_default();
    word == "devel" || word.strip_prefix("go").and_then(release) >= release(GO_VERSION_MIN)
}

/// Locks out other builders until the file is dropped. The kernel releases the lock when we die.
fn lock_cache(cache: &Path) -> anyhow::Result<File> {
    let path = cache.join("lock");
    let what = || format!("cannot lock {}", path.display());
    let file = File::create(&path).with_context(what)?;
    if file.try_lock().is_err() {
        eprintln!("Waiting for another build of the engine to end.");
        file.lock().with_context(what)?;
    }
    Ok(file)
}

fn build(server: &Server, target: &Path, progress: &str) -> anyhow::Result<()> {
    const NEWS_INTERVAL: Duration = Duration::from_mins(1);
    eprintln!("{progress} Building {}.", server.name);
    let started = Instant::now();
    let temporary = temporary_beside(target);
    let mut go = go_build(server, &temporary).spawn().context("cannot start go")?;
    let mut news = started + NEWS_INTERVAL;
    let status = loop {
        if let Some(status) = go.try_wait().context("cannot wait for go")? {
            break status;
        }
        if Instant::now() >= news {
            eprintln!("{progress} Still building {}, after {} s.", server.name, started.elapsed().as_secs());
            news += NEWS_INTERVAL;
        }
        #[expect(clippy::disallowed_methods, reason = "polls a child; there is no runtime to block here")]
        thread::sleep(Duration::from_millis(50));
    };
    if !status.success() {
        let _ = fs::remove_file(&temporary);
        bail!(
            "cannot build {}: go build {} in {} failed",
            server.name,
            server.package,
            server.module_dir().display()
        );
    }
    fs::rename(&temporary, target).with_context(|| format!("cannot move {} into the cache", server.name))?;
    eprintln!("{progress} Built {} in {:.1} s.", server.name, started.elapsed().as_secs_f64());
    Ok(())
}

fn go_build(server: &Server, output: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(server.module_dir())
        // Only the pins decide: no newer compiler is fetched, no go.mod is changed, no workspace is joined.
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "-mod=readonly")
        .env("GOWORK", "off")
        .args(["build", "-buildvcs=false", "-ldflags", server.ldflags, "-o"])
        .arg(output)
        .arg(server.package)
        .stdin(Stdio::null());
    command
}

fn temporary_beside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_go_older_than_the_pins_is_refused() {
        for (version, expected) in [
            ("go version go1.26.8 linux/amd64", true),
            ("go version go1.26rc1 linux/amd64", true),
            ("go version go1.30 linux/arm64", true),
            ("go version go2.0.1 linux/arm64", true),
            ("go version devel go1.27-abcdef linux/amd64", true),
            ("go version go1.25.9 linux/amd64", false),
            ("go version go1.9 linux/amd64", false),
            ("", false),
        ] {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }

    #[test]
    fn only_names_servers_of_the_table_and_keeps_its_order() {
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(ToString::to_string).collect();
            wanted_servers(&only).map(|servers| servers.iter().map(|server| server.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["kwok", "etcd"]).unwrap(), ["etcd", "kwok"]);
        assert_eq!(names(&[]).unwrap().len(), SERVERS.len());
        assert!(names(&["kublet"]).is_err());
    }
}
