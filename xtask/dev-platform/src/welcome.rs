//! The text for a newcomer when everything is up.

use std::path::{Path, PathBuf};

use anyhow::Context;
use test_cluster::TestCluster;
use test_cluster::files::{create_dir, write_private};
use toolbox::checkout::target_folder;

use crate::teams::{LEAD, TEAMS};

/// One token file per user, readable by its owner only, and `env`, which a shell sources to work as the first user.
pub fn write_logins(cluster: &TestCluster, binaries: &Path, url: &str) -> anyhow::Result<PathBuf> {
    let folder = target_folder().join("dev");
    create_dir(&folder)?;
    for user in TEAMS.iter().map(|team| team.user).chain([LEAD]) {
        let token = cluster.token_for_user(user)?;
        write_private(&folder.join(format!("{user}.token")), token.as_bytes())?;
    }
    link_kubectl(cluster, &folder)?;
    let first = &TEAMS[0];
    let env = format!(
        "export PATH={binaries}:{folder}:$PATH\n\
         export KUBECONFIG={kubeconfig}\n\
         export WARPYARD_SERVER={url}\n\
         export WARPYARD_NAMESPACE={namespace}\n\
         export WARPYARD_TOKEN_FILE={folder}/{user}.token\n",
        binaries = binaries.display(),
        folder = folder.display(),
        kubeconfig = cluster.admin_kubeconfig().display(),
        namespace = first.name,
        user = first.user,
    );
    write_private(&folder.join("env"), env.as_bytes())?;
    Ok(folder)
}

/// Addresses of the platform.
pub struct Addresses<'a> {
    /// The portal and the REST API, as a URL.
    pub portal: &'a str,
    /// The scheduler's health and metrics, as HOST:PORT.
    pub metrics: &'a str,
}

/// Prints the text, without tokens: they do not belong in a terminal's history.
pub fn print(cluster: &TestCluster, logins: &Path, addresses: &Addresses<'_>, nodes: u32, seconds: f64) {
    let first = &TEAMS[0];
    println!("\nWarpyard is up after {seconds:.0} s.\n");
    println!("  Portal    {}", addresses.portal);
    println!("  Log in    with the token in {}/{}.token", logins.display(), first.user);
    println!("            or in {LEAD}.token there, for the lead, who sees all teams");
    println!(
        "  Shell     source {}/env      # warpyard as {}, kubectl as admin",
        logins.display(),
        first.user
    );
    println!("  Teams");
    for team in &TEAMS {
        println!("            {:<7} {:>3} H100   {}", team.name, team.h100_per_node * nodes, team.user);
    }
    println!("  Metrics   http://{}/metrics      # the scheduler's", addresses.metrics);
    println!("  Logs      {}\n", cluster.logs().display());
    println!("Ctrl-C here stops everything.");
}

/// Links kubectl under its usual name; in the cache the name ends with a hash.
fn link_kubectl(cluster: &TestCluster, folder: &Path) -> anyhow::Result<()> {
    let link = folder.join("kubectl");
    if link.is_symlink() {
        std::fs::remove_file(&link).with_context(|| format!("failed to remove {}", link.display()))?;
    }
    std::os::unix::fs::symlink(cluster.kubectl()?, &link)
        .with_context(|| format!("failed to link {}", link.display()))
}
