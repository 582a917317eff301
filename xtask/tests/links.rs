//! Walls between crates within the layers: which crate must not link which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// A crate, a crate that it never links, not even through others, and why.
const WALLS: [(&str, &str, &str); 10] = [
    ("api-server", "cluster-model", "it reads objects; it plans nothing"),
    ("controllers", "cluster-model", "they read objects; they plan nothing"),
    ("node-agent", "cluster-model", "it looks at one machine"),
    ("slim-objects", "cluster-model", "objects are read by those who know no model"),
    ("scheduler", "simulator", "it records a trace and plays none: that is `trace-format`"),
    ("trace-format", "placement", "a trace says what happened, not why"),
    ("simulator", "experiments", "the CLI ships the simulator"),
    ("cli", "kube", "it talks to our API server"),
    ("api-client", "kube", "it talks to our API server"),
    ("store", "kube", "it talks to PostgreSQL"),
];

#[test]
fn no_wall_between_two_crates_is_climbed() {
    let metadata = metadata();
    for (name, never, why) in WALLS {
        let reached = normal_dependencies(&metadata, name);
        assert!(
            !reached.contains(never),
            "{name} links {never}, but {why}; find the way with `cargo tree -p {name} -e normal -i {never}`"
        );
    }
}

#[test]
fn nothing_that_ships_links_a_crate_of_the_layer_testing() {
    let metadata = metadata();
    let of_layer = |layer: &str| -> BTreeSet<String> {
        let packages = metadata.workspace_packages().into_iter();
        let inside = packages.filter(|it| it.manifest_path.as_str().contains(&format!("/crates/{layer}/")));
        inside.map(|it| it.name.to_string()).collect()
    };
    let testing = of_layer("testing");
    assert!(testing.contains("experiments") && testing.contains("e2e"), "{testing:?}");
    let services = of_layer("services");
    assert!(services.contains("scheduler") && services.contains("cli"), "{services:?}");
    for service in services {
        let reached = normal_dependencies(&metadata, &service);
        let linked: Vec<_> = testing.intersection(&reached).collect();
        assert!(linked.is_empty(), "{service} links {linked:?}");
    }
}

/// Names of all crates that a crate links, without itself and without dependencies of tests and build scripts.
fn normal_dependencies(metadata: &Metadata, name: &str) -> BTreeSet<String> {
    let resolve = metadata.resolve.as_ref().expect("cargo metadata resolves");
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let package = metadata.workspace_packages().into_iter().find(|it| it.name.as_str() == name);
    let package = package.unwrap_or_else(|| panic!("there is no crate {name}: is a wall out of date?"));
    let mut reached = BTreeSet::new();
    let mut open = vec![&package.id];
    while let Some(id) = open.pop() {
        for dependency in &nodes[id].deps {
            let linked = dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
            if linked && reached.insert(&dependency.pkg) {
                open.push(&dependency.pkg);
            }
        }
    }
    reached.into_iter().map(|id| metadata[id].name.to_string()).collect()
}

fn metadata() -> Metadata {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    MetadataCommand::new().current_dir(root).exec().expect("cargo metadata works")
}
