//! Creates the portal's folder if it is missing, and makes a release build depend on its content.

use std::path::Path;

fn main() {
    let portal = Path::new("../../../portal/dist");
    // A debug build reads the folder at run time, and without it would never find a portal that is built later.
    // If it cannot be created, there is no portal, and the server says so.
    drop(std::fs::create_dir_all(portal));
    let is_embedded = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let watched = if is_embedded && portal.exists() { "../../../portal/dist" } else { "build.rs" };
    println!("cargo::rerun-if-changed={watched}");
}
