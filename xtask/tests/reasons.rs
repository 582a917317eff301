//! Few files name any one wait reason: code that sorts or shows reasons asks the reason itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toolbox::checkout::repository_root;

/// The file that defines reasons.
const DEFINITION: &str = "crates/foundation/cluster-model/src/plan/reason.rs";
/// Its definition, its sentence, the rule that finds it, and one more.
const FILES_MAX: usize = 4;
/// Folders with code that people wrote.
const ROOTS: [&str; 3] = ["crates", "xtask", "portal/src"];
/// Folders that hold no code of the product, from the repository's root.
const NO_PRODUCT: [&str; 2] = ["crates/testing", "portal/src/testing"];

#[test]
fn few_files_name_any_one_wait_reason() {
    let sources = sources();
    let files = files_by_reason(&variants(&sources[DEFINITION]), &sources);
    let (reason, most) = files.iter().max_by_key(|(_, files)| files.len()).expect("there are reasons");
    println!("figure house.files_for_a_reason {} files  ({reason}: {})", most.len(), joined(most));
    for (reason, files) in &files {
        assert!(
            files.len() <= FILES_MAX,
            "{reason} is named in {} files: {}\nAsk the reason instead, by a method in {DEFINITION}.",
            files.len(),
            joined(files)
        );
        assert!(files.contains(&DEFINITION), "{reason} is not found where it is defined");
    }
}

#[test]
fn no_file_imports_reasons_by_another_name() {
    for (path, text) in sources() {
        for import in ["WaitReason::{", "WaitReason::*", "WaitReason as "] {
            assert!(
                !text.contains(import),
                "{path} has `{import}`: write `WaitReason::Name`, so that it is counted"
            );
        }
    }
}

#[test]
fn a_reason_is_found_by_its_path_by_its_name_in_quotes_and_where_it_is_self() {
    for (text, expect) in [
        ("match it { WaitReason::Gated { .. } => 1 }", true),
        ("let code = \"Gated\";", true),
        ("const code = 'Gated';", true),
        ("impl WaitReason { fn a(&self) { matches!(self, Self::Gated { .. }) } }", true),
        ("impl Display for WaitReason { fn a(&self) { matches!(self, Self::Gated { .. }) } }", true),
        ("impl Other { fn a(&self) { matches!(self, Self::Gated { .. }) } }", false),
        ("WaitReason::GatedByOthers", false),
        ("let sentence = \"Gated pods wait\";", false),
        ("// WaitReason::Gated", false),
        ("fn a() {}\n#[cfg(test)]\nmod tests {\n    const A: &str = \"Gated\";\n}\n", false),
    ] {
        assert_eq!(names_gated("a.rs", text), expect, "{text}");
    }
}

#[test]
fn in_typescript_a_reason_is_found_as_a_key_without_quotes() {
    for (text, expect) in [
        ("const labels = { Gated: \"waits\" };", true),
        ("const labels = {\n  Late: 1,\n  // The gate.\n  Gated: 2,\n};", true),
        ("interface Labels { Late: string; Gated?: string }", true),
        ("const label = labels.Gated;", true),
        ("const labels = { GatedByOthers: 1, isGated: 2 };", false),
        ("const label = labels.GatedByOthers;", false),
        ("const sentence = <p>It is Gated: it waits.</p>;", false),
    ] {
        assert_eq!(names_gated("a.ts", text), expect, "{text}");
        assert_eq!(names_gated("a.tsx", text), expect, "{text}");
    }
}

fn names_gated(path: &str, text: &str) -> bool {
    let sources = BTreeMap::from([(path.to_owned(), without_tests_and_comments(path, text))]);
    !files_by_reason(&["Gated".to_owned()], &sources)["Gated"].is_empty()
}

#[test]
fn the_variants_are_those_of_the_definition() {
    let definition = "pub enum WaitReason {\n    /// One.\n    Gated {\n        /// How many.\n        members: u32,\n    },\n    \
                      Late,\n}\n\npub enum Other {\n    Not,\n}\n";
    assert_eq!(variants(definition), ["Gated", "Late"]);
}

/// The names of the variants, in their order.
fn variants(definition: &str) -> Vec<String> {
    let (_, body) = definition.split_once("pub enum WaitReason {\n").expect("the definition");
    let (body, _) = body.split_once("\n}").expect("its end");
    let names = body.lines().filter_map(|line| {
        let line = line.strip_prefix("    ")?;
        let name = line.trim_end_matches([' ', ',', '{']);
        let is_name = line.starts_with(|first: char| first.is_ascii_uppercase())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric());
        is_name.then(|| name.to_owned())
    });
    names.collect()
}

fn files_by_reason<'a>(
    reasons: &[String],
    sources: &'a BTreeMap<String, String>,
) -> BTreeMap<String, BTreeSet<&'a str>> {
    let files = |reason: &String| {
        let naming = sources.iter().filter(|(path, text)| {
            names(text, reason) || (!is_rust(path) && has_typescript_key(text, reason))
        });
        (reason.clone(), naming.map(|(path, _)| path.as_str()).collect())
    };
    reasons.iter().map(files).collect()
}

fn names(text: &str, reason: &str) -> bool {
    if !text.contains(reason) {
        return false;
    }
    let is_quoted = ['"', '\'', '`'].iter().any(|quote| text.contains(&format!("{quote}{reason}{quote}")));
    let is_about_itself = ["impl WaitReason", "for WaitReason", "pub enum WaitReason"];
    let is_own = is_about_itself.iter().any(|it| text.contains(it));
    is_quoted
        || has_word(text, &format!("WaitReason::{reason}"))
        || (is_own && has_word(text, &format!("Self::{reason}")))
        || (text.contains("pub enum WaitReason") && has_word(text, reason))
}

/// Whether the reason is a key without quotes, as in `{ Gated: … }`, or is read by it, as in `labels.Gated`.
fn has_typescript_key(text: &str, reason: &str) -> bool {
    text.match_indices(reason).any(|(at, _)| {
        let (before, after) = (text[..at].trim_end(), text[at + reason.len()..].trim_start());
        // A slash ends a comment.
        let is_at_start = before.ends_with(['{', ',', ';', '/']);
        is_at_start && (after.starts_with(':') || after.starts_with("?:"))
    }) || has_word(text, &format!(".{reason}"))
}

/// Whether the word occurs, not as a part of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let next = text[at + word.len()..].chars().next();
        !next.is_some_and(|next| next.is_ascii_alphanumeric() || next == '_')
    })
}

/// Every hand-written file of the product, without tests and comments, by its path from the repository's root.
fn sources() -> BTreeMap<String, String> {
    let root = repository_root();
    let mut found = BTreeMap::new();
    for folder in ROOTS {
        read_below(&root, &root.join(folder), &mut found);
    }
    assert!(found.len() > 300, "only {} files were found", found.len());
    found
}

fn read_below(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let path = relative(root, &entry);
        if entry.is_dir() {
            let name = entry.file_name().unwrap_or_default();
            if name != "tests" && name != "node_modules" && name != "target" && !NO_PRODUCT.contains(&&*path)
            {
                read_below(root, &entry, found);
            }
        } else if is_hand_written_product(&path) {
            let text = fs::read_to_string(&entry).expect("a text");
            let text = without_tests_and_comments(&path, &text);
            found.insert(path, text);
        }
    }
}

fn is_hand_written_product(path: &str) -> bool {
    let is_source = [".rs", ".ts", ".tsx"].iter().any(|end| path.ends_with(end));
    let is_test = ["_tests.rs", "/tests.rs", "/testing.rs", ".test.ts", ".test.tsx"];
    let is_generated = path.ends_with("schema.d.ts");
    is_source && !is_generated && !is_test.iter().any(|end| path.ends_with(end))
}

fn without_tests_and_comments(path: &str, text: &str) -> String {
    // By the house style a module of tests is a file's last item.
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let comment = if is_rust(path) { ["//", "//"] } else { ["//", "*"] };
    let code = text.lines().filter(|line| !comment.iter().any(|it| line.trim_start().starts_with(it)));
    code.collect::<Vec<_>>().join("\n")
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|it| it == "rs")
}

fn relative(root: &Path, path: &Path) -> String {
    let path: PathBuf = path.strip_prefix(root).expect("below the root").to_owned();
    path.to_string_lossy().into_owned()
}

fn joined(files: &BTreeSet<&str>) -> String {
    files.iter().copied().collect::<Vec<_>>().join(", ")
}
