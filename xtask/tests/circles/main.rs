//! Finds files of one crate that import each other in a circle: they cannot be read one after the other, or
//! moved apart.
//!
//! **An import** leads from a file to the file that *defines* the named item: by `use`, or by a path in the
//! code such as `super::turn()`, `nodes::Node` or `#[serde(with = "crate::pairs")]`. Re-exports are followed,
//! so `use crate::Thing` is an import of the file that defines `Thing`; the re-export is itself an import by
//! its file. A declaration `mod child;` is not an import. If it uses `child::f()`, it does; if the child uses
//! `super::Item`, the child imports the parent; if both, they are a circle. **A file** is one that is compiled
//! into the library or a binary without `cfg(test)`. Tests, examples and benches do not count. **A circle** is
//! a largest set of at least two files in which each reaches every other by imports.
//!
//! It cannot see a method that another file implements on a type, because no import names it.

mod modules;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use modules::{Imports, Sources, imports};
use toolbox::checkout::repository_root;

/// As many as there are. It may only go down: lower it when you break a circle.
const CIRCLES_MAX: usize = 6;

#[test]
fn few_files_of_a_crate_import_each_other_in_a_circle() {
    let mut count = 0;
    let mut files_read = 0;
    for folder in crates() {
        let sources = sources_below(&folder.join("src"));
        for root in roots(&sources) {
            let imports = imports(&sources, root);
            files_read += imports.len();
            for circle in circles(&imports) {
                count += 1;
                println!("{} files of {} ({root}):", circle.len(), folder.display());
                print_edges(&imports, &circle);
            }
        }
    }
    assert!(files_read > 300, "only {files_read} files with imports were found");
    println!("figure house.circles {count} circles  (at most {CIRCLES_MAX})");
    assert!(
        count <= CIRCLES_MAX,
        "{count} circles: move what two files share into a file of its own that both import"
    );
}

#[test]
fn a_child_that_uses_its_parent_and_is_used_by_it_makes_a_circle() {
    check(
        &[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; struct A; fn f() { b::g() }"),
            ("a/b.rs", "use super::A; pub fn g() {}"),
        ],
        &["a.rs a/b.rs"],
    );
    check(&[("lib.rs", "mod a;"), ("a.rs", "mod b; struct A;"), ("a/b.rs", "use super::A;")], &[]);
    check(&[("lib.rs", "mod a;"), ("a/mod.rs", "mod b; use b::B; struct A;"), ("a/b.rs", "struct B;")], &[]);
}

#[test]
fn a_re_export_is_looked_through_and_imports_what_it_exports() {
    let through = "mod a; mod b; pub use self::{a::A, b::B as C};";
    check(&[("lib.rs", through), ("a.rs", "use crate::C; struct A;"), ("b.rs", "struct B;")], &[]);
    check(
        &[("lib.rs", through), ("a.rs", "use crate::C; struct A;"), ("b.rs", "use crate::A; struct B;")],
        &["a.rs b.rs"],
    );
    let own = "mod a; pub use a::A; pub enum Own { One }";
    check(&[("lib.rs", own), ("a.rs", "use crate::Own::One; struct A;")], &["a.rs lib.rs"]);
    let all = "mod a; mod b; pub use a::*;";
    check(
        &[("lib.rs", all), ("a.rs", "use super::b::B; struct A;"), ("b.rs", "use super::*; struct B(A);")],
        &["a.rs b.rs"],
    );
}

#[test]
fn paths_in_the_code_and_in_attributes_are_imports() {
    let a = "use super::b; fn f() { b::g() }";
    check(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", "fn g() { crate::a::f() }")], &["a.rs b.rs"]);
    let attribute = "fn g() {} struct B { #[serde(with = \"crate::a\", default = \"crate::a::f\")] b: u8 }";
    check(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", attribute)], &["a.rs b.rs"]);
    let made = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::Made; struct A;"),
        ("b.rs", "name!(Made); use super::a::A;"),
    ];
    check(&made, &["a.rs b.rs"]);
}

#[test]
fn comments_texts_and_tests_import_nothing() {
    let a = "use crate::b::B; struct A;";
    for b in [
        "struct B; // crate::a::A",
        "struct B; /* /* */ crate::a::A */",
        "struct B; const X: &str = \"\\\" crate::a::A\"; const Y: &str = r#\"\" crate::a::A\"#; const Z: char = '\"';",
        "struct B; #[cfg(test)] mod tests { use crate::a::A; }",
        "struct B; #[cfg(test)] #[path = \"x.rs\"] mod tests; #[cfg(test)] use crate::a::{A};",
        "struct B<'a>(&'a str); impl B { #[cfg(test)] fn f(a: [u8; 2]) -> crate::a::A { A } }",
        "struct B; fn f() { other::a::A }",
    ] {
        check(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)], &[]);
    }
}

fn check(files: &[(&str, &str)], expected: &[&str]) {
    let sources: Sources =
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let found = circles(&imports(&sources, "lib.rs"));
    let found: Vec<String> =
        found.iter().map(|it| it.iter().cloned().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(found, expected, "{files:?}");
}

/// The largest sets of files in which each reaches every other.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|file| (file, reached_from(imports, file))).collect();
    let circle_of = |(file, reached_from_it): (&&String, &BTreeSet<&String>)| -> BTreeSet<String> {
        let comes_back = |other: &&&String| reached.get(**other).is_some_and(|it| it.contains(*file));
        reached_from_it.iter().filter(comes_back).map(|it| (*it).clone()).collect()
    };
    reached.iter().map(circle_of).filter(|circle| circle.len() > 1).collect()
}

fn reached_from<'a>(imports: &'a Imports, file: &'a String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(next) = open.pop() {
        for imported in imports.get(next).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(imported) {
                open.push(imported);
            }
        }
    }
    reached
}

fn print_edges(imports: &Imports, circle: &BTreeSet<String>) {
    for file in circle {
        for (imported, path) in imports[file].iter().filter(|(imported, _)| circle.contains(*imported)) {
            println!("    {file} -> {imported}  by {path}");
        }
    }
}

/// The folders of all crates of the workspace.
fn crates() -> Vec<std::path::PathBuf> {
    let root = repository_root();
    let layers = entries(&root.join("crates")).into_iter().filter(|it| it.is_dir());
    let mut crates: Vec<_> = layers.flat_map(|layer| entries(&layer)).collect();
    crates.push(root.join("xtask"));
    crates.retain(|folder| folder.join("Cargo.toml").is_file());
    crates
}

/// The files that a library or a binary begins with.
fn roots(sources: &Sources) -> impl Iterator<Item = &String> {
    sources.keys().filter(|path| {
        let parts: Vec<&str> = path.split('/').collect();
        matches!(parts[..], ["lib.rs" | "main.rs"] | ["bin", _] | ["bin", _, "main.rs"])
    })
}

fn sources_below(folder: &Path) -> Sources {
    let mut sources = Sources::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in entries(&next) {
            if entry.is_dir() {
                open.push(entry);
            } else if entry.extension().is_some_and(|it| it == "rs") {
                let path = entry.strip_prefix(folder).expect("it is below").to_string_lossy().into_owned();
                sources.insert(path, fs::read_to_string(&entry).expect("a source can be read"));
            }
        }
    }
    sources
}

fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a folder can be listed").path()).collect();
    paths.sort();
    paths
}
