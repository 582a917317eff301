//! The scheduler writes only through `cluster-apply`. The exception is the Lease, which `service-kit` writes
//! for every binary.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The scheduler's code, its tests included.
const SCHEDULER: &str = "crates/services/scheduler/src";

/// Methods that write: those of kube's `Api` and of its request builder, and those that make a request by hand.
const METHODS: [&str; 24] = [
    "create",
    "create_subresource",
    "create_token_request",
    "patch",
    "patch_approval",
    "patch_ephemeral_containers",
    "patch_metadata",
    "patch_resize",
    "patch_scale",
    "patch_status",
    "patch_subresource",
    "replace",
    "replace_ephemeral_containers",
    "replace_resize",
    "replace_scale",
    "replace_status",
    "replace_subresource",
    "restart",
    "cordon",
    "uncordon",
    "delete",
    "delete_collection",
    "evict",
    "method_mut",
];
/// The other ways to make a request that is no GET, and kube's helpers that write.
const MAKERS: [&str; 12] = [
    "Request::new(",
    "Request::post(",
    "Request::put(",
    "Request::patch(",
    "Request::delete(",
    "Request::builder(",
    "request::Builder",
    ".method(Method::",
    ".method(http::Method::",
    ".method(\"",
    "runtime::events",
    "runtime::finalizer",
];

/// Questions in the form of a write, which store nothing: the file, and the line that asks.
const QUESTIONS: [(&str, &str); 1] =
    [("tell/callers.rs", "let answer = reviews.create(&PostParams::default(), &review).await?;")];

#[test]
fn the_scheduler_writes_to_kubernetes_only_through_cluster_apply() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(SCHEDULER);
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    assert!(files.len() > 20, "only {} files were found in {SCHEDULER}", files.len());
    let (mut writes, mut asked) = (Vec::new(), 0);
    for path in files {
        let text = fs::read_to_string(&path).expect("a file of the repository can be read");
        let file = path.strip_prefix(&root).expect("it was found there").display().to_string();
        for number in writing_lines(&text) {
            let line = text.lines().nth(number).expect("a line of the file");
            if QUESTIONS.contains(&(file.as_str(), line.trim())) {
                asked += 1;
            } else {
                writes.push(format!("{SCHEDULER}/{file}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(writes.is_empty(), "move to cluster-apply:\n{}", writes.join("\n"));
    assert_eq!(asked, QUESTIONS.len(), "a question is not asked any more: take it off the list");
}

#[test]
fn a_write_is_found_however_it_is_spelled() {
    for write in [
        "api.create(&params, &object).await?;",
        "    .patch::<Pod>(name, &params, &patch)",
        "let request = http::Request::put(path).body(body)?;",
        "let request = builder.method(Method::DELETE);",
        "let request = http::Request::new(body);",
        "api.restart(name).await?;",
        "nodes.cordon(name).await?;",
        "accounts.create_token_request(name, &params, &request).await?;",
        "pods.patch_ephemeral_containers(name, &params, &patch).await?;",
        "Api::delete(&api, name, &params).await?;",
        "Api::<Pod>::patch(&api, name, &params, &patch).await?;",
        "let mut entry = api.entry(&name(pod)).await?.or_insert(default);",
        "api.entry(\n    name,\n)\n.await?\n.and_modify(change)\n.commit(&params)",
        "api.patch\n    (name, &params, &patch)",
        "api.patch::<\n    Pod,\n>(name, &params, &patch)",
        "api.\n    // Why.\n    delete(name, &params)",
    ] {
        assert_eq!(writing_lines(write).len(), 1, "{write}");
    }
    for read in [
        "api.get_opt(name).await?",
        "http::Request::get(path)",
        "// `api.delete(…)` is for cluster-apply.",
        "object.created_at()",
        "let writes = request.method() != Method::GET;",
        "let members = members_of.entry(gang).or_default();",
        "self.state.commit(plan);",
        "let restarts = status.restart_count;",
    ] {
        assert_eq!(writing_lines(read), BTreeSet::new(), "{read}");
    }
    let late = "fn f() {\n    // Why.\n    api\n        .delete(name, &params)\n}";
    assert_eq!(writing_lines(late), BTreeSet::from([3]), "counted from zero");
}

/// The lines, counted from zero, on which a write begins.
fn writing_lines(text: &str) -> BTreeSet<usize> {
    // Without spaces, so that a call is found however it is broken into lines.
    let (mut code, mut lines) = (String::new(), Vec::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
        code.extend(line.chars().filter(|letter| !letter.is_whitespace()));
        lines.resize(code.len(), number);
    }
    let calls = METHODS.iter().flat_map(|method| {
        let ends = ["(", "::<"].into_iter();
        ends.flat_map(move |end| [".", "Api::", ">::"].map(|start| format!("{start}{method}{end}")))
    });
    let makers = MAKERS.iter().map(ToString::to_string);
    let patterns: Vec<String> = calls.chain(makers).collect();
    let found = patterns.iter().flat_map(|pattern| code.match_indices(pattern)).map(|(at, _)| at);
    found.chain(entries_of_api(&code)).map(|at| lines[at]).collect()
}

/// Where an entry of kube's `Api` is asked for: `commit` writes it. Unlike that of a map, it is awaited.
fn entries_of_api(code: &str) -> impl Iterator<Item = usize> {
    code.match_indices(".entry(").map(|(at, _)| at).filter(|at| {
        let mut depth = 0;
        let end = code[*at..].find(|letter| {
            depth += match letter {
                '(' => 1,
                ')' => -1,
                _ => return false,
            };
            depth == 0
        });
        end.is_some_and(|end| code[at + end..].starts_with(").await"))
    })
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository can be read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}
