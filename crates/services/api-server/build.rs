//! Sees to it that the portal's folder exists, and that a release build follows what is in it.

use std::path::Path;

fn main() {
    let portal = Path::new("../../../portal/dist");
    // Without the folder a debug build, which reads it at run time, would never find a portal that is built later.
    // If it cannot be made, there is no portal, and the server says so.
    drop(std::fs::create_dir_all(portal));
    let is_embedded = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let watched = if is_embedded && portal.exists() { "../../../portal/dist" } else { "build.rs" };
    println!("cargo::rerun-if-changed={watched}");
}
