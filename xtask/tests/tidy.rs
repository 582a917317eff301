//! House rules that no compiler checks. Each test says what to do when it fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use toolbox::checkout::repository_root;

/// Crates that would give a decision a runtime, a network, a clock or randomness of the operating system.
const IMPURE: &[&str] = &[
    "async-std",
    "chrono",
    "getrandom",
    "hyper",
    "kube",
    "kube-client",
    "kube-runtime",
    "mio",
    "rand",
    "reqwest",
    "rustls",
    "smol",
    "socket2",
    "sqlx",
    "time",
    "tokio",
    "uuid",
];

/// The folders of `crates/`, from the ground up: a crate links only its own layer and those before it.
const LAYERS: [&str; 5] = ["foundation", "decisions", "edges", "services", "testing"];
/// The layers in which the same input gives the same output.
const PURE_LAYERS: [&str; 2] = ["foundation", "decisions"];

#[test]
fn every_crate_is_in_a_layer_and_links_only_its_own_and_those_below() {
    let metadata = metadata();
    let height = |layer: &str| LAYERS.iter().position(|it| *it == layer);
    let layers: BTreeMap<String, String> =
        crates_with_layers(&metadata).map(|(package, layer)| (package.name.to_string(), layer)).collect();
    for (package, layer) in crates_with_layers(&metadata) {
        let own = height(&layer)
            .unwrap_or_else(|| panic!("{} is in crates/{layer}/, which is none of {LAYERS:?}", package.name));
        for dependency in package.dependencies.iter().filter(|it| it.kind == DependencyKind::Normal) {
            let Some(linked) = layers.get(&dependency.name) else { continue };
            assert!(
                height(linked) <= Some(own),
                "{} of the layer `{layer}` links {} of `{linked}`, which is above it",
                package.name,
                dependency.name,
            );
        }
    }
}

#[test]
fn pure_layers_see_no_runtime_client_clock_or_os_randomness() {
    let metadata = metadata();
    let pure = crates_with_layers(&metadata).filter(|(_, layer)| PURE_LAYERS.contains(&layer.as_str()));
    for (package, _) in pure {
        let reached = normal_dependencies(&metadata, &package.id);
        let impure: Vec<_> = IMPURE.iter().filter(|name| reached.contains(**name)).collect();
        assert!(
            impure.is_empty(),
            "{} is pure but depends on {impure:?}; find the way with `cargo tree -p {} -i {}`",
            package.name,
            package.name,
            impure[0],
        );
    }
    // The layer's clippy.toml forbids impure functions of the standard library; a crate's own file would hide
    // it.
    for layer in PURE_LAYERS {
        let rules = repository_root().join("crates").join(layer).join("clippy.toml");
        let rules = fs::read_to_string(&rules).expect("a pure layer has a clippy.toml");
        assert!(rules.contains("std::time::Instant::now"), "crates/{layer}/clippy.toml allows clocks");
    }
    let own = project_files().into_iter().find(|path| {
        path.file_name().is_some_and(|name| name == "clippy.toml") && path.components().count() == 4
    });
    assert_eq!(own, None, "a crate's own clippy.toml hides the rules of its layer");
}

#[test]
fn the_judge_of_plans_does_not_know_the_planner() {
    let metadata = metadata();
    let judge = metadata
        .workspace_packages()
        .into_iter()
        .find(|package| package.name.as_str() == "plan-check")
        .expect("plan-check exists");
    assert!(
        !normal_dependencies(&metadata, &judge.id).contains("placement"),
        "plan-check must not import placement"
    );
}

#[test]
fn xtask_links_nothing_of_the_product() {
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    let xtask = packages.iter().find(|package| package.name.as_str() == "xtask").expect("xtask exists");
    let ours: BTreeSet<String> = packages.iter().map(|package| package.name.to_string()).collect();
    let reached = normal_dependencies(&metadata, &xtask.id);
    let linked: Vec<_> = reached.iter().filter(|name| ours.contains(*name)).collect();
    assert_eq!(
        linked,
        ["toolbox"],
        "it would be compiled before `cargo xtask` says a word: see xtask/src/lib.rs"
    );
    let heavy: Vec<_> = IMPURE.iter().filter(|name| reached.contains(**name)).collect();
    assert!(
        heavy.is_empty(),
        "xtask depends on {heavy:?}; find the way with `cargo tree -p xtask -i {}`",
        heavy[0]
    );
}

#[test]
fn every_crate_is_tested_by_default_but_the_end_to_end_tests() {
    let metadata = metadata();
    let name = |id: &PackageId| metadata[id].name.to_string();
    let members: BTreeSet<_> = metadata.workspace_members.iter().map(name).collect();
    let default: BTreeSet<_> = metadata.workspace_default_members.iter().map(name).collect();
    let left_out: Vec<_> = members.difference(&default).collect();
    assert_eq!(left_out, ["e2e"], "add the crate to default-members in Cargo.toml");
}

#[test]
fn the_fence_covers_every_write_that_the_scheduler_may_make() {
    let fenced: Vec<_> = manifests("deploy/fence.yaml")
        .iter()
        .filter(|it| it["kind"] == "ValidatingAdmissionPolicy" && it["metadata"]["name"] == "warpyard-fence")
        .flat_map(|policy| list(&policy["spec"]["matchConstraints"]["resourceRules"]))
        .collect();
    let before_leadership = [
        ("coordination.k8s.io", "leases"),
        ("warpyard.dev", "schedulerepochs"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ];
    // A question in the form of a write, which stores nothing.
    let questions = [("authentication.k8s.io", "tokenreviews")];
    for role in ["deploy/rbac-scheduler.yaml", "deploy/machines/rbac.yaml"].into_iter().flat_map(manifests) {
        for rule in list(&role["rules"]) {
            for (group, resource, verb) in each_right(&rule) {
                let operation = match verb.as_str() {
                    "get" | "list" | "watch" => continue,
                    "create" => "CREATE",
                    "update" | "patch" => "UPDATE",
                    "delete" | "deletecollection" => "DELETE",
                    other => panic!(
                        "the scheduler's role has the verb `{other}`: say here what it means to the fence"
                    ),
                };
                let covered = fenced.iter().any(|rule| {
                    let has = |field: &str, value: &str| list(&rule[field]).contains(&value.into());
                    has("apiGroups", &group) && has("resources", &resource) && has("operations", operation)
                });
                assert!(
                    covered
                        || before_leadership
                            .iter()
                            .chain(&questions)
                            .any(|it| *it == (group.as_str(), resource.as_str())),
                    "deploy/fence.yaml does not cover {verb} of {resource} in group `{group}`"
                );
            }
        }
    }
}

#[test]
fn only_the_scheduler_writes_holds_and_it_deletes_only_pods_of_its_own() {
    let policy = |path: &str, name: &str| {
        let found = manifests(path).into_iter();
        let mut found = found.filter(|it| it["metadata"]["name"] == name);
        let is = |it: &serde_json::Value, kind: &str| it["kind"] == kind;
        let policy = found.find(|it| is(it, "ValidatingAdmissionPolicy")).expect("the policy is there");
        let binding = found.find(|it| is(it, "ValidatingAdmissionPolicyBinding")).expect("it is bound");
        assert_eq!(binding["spec"]["validationActions"], serde_json::json!(["Deny"]), "{path}");
        assert_eq!(policy["spec"]["failurePolicy"], "Fail", "{path}");
        policy
    };
    // Such a policy refuses every request for which its only condition holds.
    let refused = |policy: &serde_json::Value| -> String {
        let conditions = list(&policy["spec"]["matchConditions"]);
        let validations = list(&policy["spec"]["validations"]);
        assert_eq!(validations.last().map(|it| &it["expression"]), Some(&"false".into()), "{policy}");
        assert_eq!(conditions.len(), 1, "{policy}");
        conditions[0]["expression"].as_str().unwrap_or_default().to_owned()
    };
    let holds = policy("deploy/holds.yaml", "warpyard-holds");
    let rule = &holds["spec"]["matchConstraints"]["resourceRules"][0];
    assert!(list(&rule["resources"]).contains(&"holds".into()), "{rule}");
    assert_eq!(rule["operations"], serde_json::json!(["CREATE", "UPDATE"]));
    let other = "request.userInfo.username != 'system:serviceaccount:warpyard-system:warpyard-scheduler'";
    assert_eq!(refused(&holds), format!("{other} && !('system:masters' in request.userInfo.groups)"));

    let fence = policy("deploy/fence.yaml", "warpyard-fence");
    let foreign = format!("oldObject.spec.schedulerName != '{}'", api_types::names::SCHEDULER_NAME);
    let deletion = "request.operation == 'DELETE' && request.resource.resource == 'pods'";
    let words = refused(&fence).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("|| {deletion} && {foreign})")), "{words}");
}

#[test]
fn every_crate_is_named_in_the_architecture() {
    let text = fs::read_to_string(repository_root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md exists");
    for package in metadata().workspace_packages() {
        assert!(
            text.contains(&format!("`{}`", package.name)),
            "ARCHITECTURE.md does not name `{}`",
            package.name
        );
    }
}

#[test]
fn no_file_holds_a_machine_path() {
    let root = repository_root();
    let mut needles = vec![
        root.display().to_string(),
        ["/ho", "me/"].concat(),
        ["/ro", "ot/"].concat(),
        ["/Us", "ers/"].concat(),
    ];
    needles.extend(std::env::var("HOME").ok().filter(|home| home.len() > 1).map(|home| format!("{home}/")));
    for path in project_files() {
        let Ok(text) = fs::read_to_string(root.join(&path)) else { continue };
        for needle in &needles {
            let line = text.lines().position(|line| line.contains(needle.as_str()));
            assert!(
                line.is_none(),
                "{}:{} holds the machine path `{needle}`",
                path.display(),
                line.unwrap_or(0) + 1
            );
        }
    }
}

#[test]
fn nothing_that_is_installed_calls_a_webhook() {
    for (path, object) in installed() {
        let kind = object["kind"].as_str().unwrap_or_default();
        assert!(!kind.contains("Webhook"), "{path} installs a {kind}: while it is down, it blocks everybody");
    }
}

#[test]
fn no_role_that_is_installed_reads_secrets() {
    let mut roles = 0;
    for (path, role) in installed() {
        for rule in list(&role["rules"]) {
            roles += 1;
            for (group, resource, verb) in each_right(&rule) {
                // Secrets are in the core group.
                let may_be_meant = ["", "*"].contains(&group.as_str());
                let named = may_be_meant && resource == "*"
                    || resource == "secrets"
                    || resource.starts_with("secrets/");
                assert!(!named, "{path}: {} may {verb} {resource}", role["metadata"]["name"]);
            }
        }
    }
    assert!(roles > 0, "no role was found in deploy/");
}

#[test]
fn every_test_that_is_named_against_a_known_failure_or_in_the_readme_exists() {
    // Pages, and how many tests each names at least.
    const PAGES: [(&str, usize); 2] = [("docs/reference/known-failures.md", 40), ("README.md", 10)];
    let sources: Vec<String> = project_files()
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| fs::read_to_string(repository_root().join(path)).ok())
        .collect();
    for (page, named_min) in PAGES {
        let text = fs::read_to_string(repository_root().join(page)).expect("the page exists");
        // A quoted name of at least five words is a test's name.
        let is_name = |quoted: &&str| {
            quoted.split('_').count() >= 5
                && quoted
                    .bytes()
                    .all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let named: BTreeSet<&str> = text.split('`').filter(is_name).collect();
        assert!(named.len() >= named_min, "{page} names only {} tests", named.len());
        for name in named {
            let definition = format!("fn {name}(");
            let exists = sources.iter().any(|source| source.contains(&definition));
            assert!(exists, "{page} names the test {name}, which does not exist");
        }
    }
}

/// Every object in `deploy/`, with the file that it is in.
fn installed() -> Vec<(String, serde_json::Value)> {
    let files = project_files().into_iter().map(|path| path.display().to_string());
    let files = files.filter(|path| {
        path.starts_with("deploy/") && Path::new(path).extension().is_some_and(|it| it == "yaml")
    });
    files.flat_map(|path| manifests(&path).into_iter().map(move |object| (path.clone(), object))).collect()
}

fn manifests(path: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(repository_root().join(path)).expect("the manifest can be read");
    let documents = serde_norway::Deserializer::from_str(&text);
    documents
        .map(|document| serde::Deserialize::deserialize(document).expect("the manifest is YAML"))
        .collect()
}

fn list(value: &serde_json::Value) -> Vec<serde_json::Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Every combination of group, resource and verb that a rule of a role gives.
fn each_right(rule: &serde_json::Value) -> Vec<(String, String, String)> {
    let texts = |field: &str| -> Vec<String> {
        list(&rule[field]).iter().filter_map(|it| it.as_str().map(str::to_owned)).collect()
    };
    let mut rights = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            rights.extend(texts("verbs").into_iter().map(|verb| (group.clone(), resource.clone(), verb)));
        }
    }
    rights
}

fn metadata() -> Metadata {
    MetadataCommand::new().current_dir(repository_root()).exec().expect("cargo metadata works")
}

/// Every crate of `crates/`, with the folder it is in.
fn crates_with_layers(metadata: &Metadata) -> impl Iterator<Item = (&Package, String)> {
    let crates = repository_root().join("crates");
    metadata.workspace_packages().into_iter().filter_map(move |package| {
        let folder = package.manifest_path.as_std_path().strip_prefix(&crates).ok()?;
        Some((package, folder.iter().next()?.to_string_lossy().into_owned()))
    })
}

/// Names of all crates that `package` links, without itself and without dependencies of tests and build
/// scripts.
fn normal_dependencies(metadata: &Metadata, package: &PackageId) -> BTreeSet<String> {
    let resolve = metadata.resolve.as_ref().expect("cargo metadata resolves");
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut reached = BTreeSet::new();
    let mut open = vec![package];
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

/// The files that git tracks or would track.
fn project_files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(repository_root())
        .output()
        .expect("git lists the files");
    assert!(output.status.success(), "git ls-files failed");
    String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect()
}
