//! The modules of one crate as its files declare them, and the targets of paths in them.

use std::collections::{BTreeMap, BTreeSet};

use super::words::{Word, words};

/// The sources of a crate by their path below `src/`.
pub type Sources = BTreeMap<String, String>;
/// For each file: the files that it imports from, each with an example path.
pub type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// The imports of each file of the crate with this root from other files of the crate.
pub fn imports(sources: &Sources, root: &str) -> Imports {
    let mut tree = Tree::default();
    tree.read_file(sources, root, None, folder_of(root));
    let mut imports = Imports::new();
    for (id, module) in tree.modules.iter().enumerate() {
        for path in module.paths.iter().chain(module.uses.iter().map(|it| &it.path)) {
            for file in tree.files_of(id, path) {
                if file != module.file {
                    let example = path.join("::");
                    imports.entry(module.file.clone()).or_default().entry(file).or_insert(example);
                }
            }
        }
    }
    imports
}

#[derive(Default)]
struct Tree {
    modules: Vec<Module>,
}

#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    definitions: BTreeSet<String>,
    uses: Vec<Use>,
    paths: Vec<Vec<String>>,
}

struct Use {
    /// The name that the import defines; none for `*`.
    name: Option<String>,
    path: Vec<String>,
}

/// Children of the root are next to it; those of `a.rs` and `a/mod.rs` are in `a/`.
fn folder_of(root: &str) -> String {
    root.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default()
}

impl Tree {
    fn read_file(&mut self, sources: &Sources, file: &str, parent: Option<usize>, folder: String) -> usize {
        let text =
            sources.get(file).unwrap_or_else(|| panic!("{file} is declared as a module and not there"));
        let module = self.add(file, parent);
        let words = words(text);
        let mut reader =
            Reader { tree: self, sources, words: &words, at: 0, open: vec![Some((module, folder))] };
        reader.read();
        module
    }

    fn add(&mut self, file: &str, parent: Option<usize>) -> usize {
        self.modules.push(Module { file: file.to_owned(), parent, ..Module::default() });
        self.modules.len() - 1
    }

    /// The files that define what this path means in this module.
    fn files_of(&self, module: usize, path: &[String]) -> BTreeSet<String> {
        self.resolve(module, path, &mut BTreeSet::new())
    }

    fn resolve(
        &self,
        module: usize,
        path: &[String],
        seen: &mut BTreeSet<(usize, usize)>,
    ) -> BTreeSet<String> {
        let mut from = module;
        let mut rest = path;
        let mut is_of_the_crate = false;
        while let Some(first) = rest.first() {
            match first.as_str() {
                "crate" => from = 0,
                "self" => {}
                "super" => from = self.modules[from].parent.unwrap_or(0),
                _ => break,
            }
            is_of_the_crate = true;
            rest = &rest[1..];
        }
        match self.walk(from, rest, seen) {
            Some(files) => files,
            // A macro defines it, so the words show no definition.
            None if is_of_the_crate && !rest.is_empty() => BTreeSet::from([self.modules[from].file.clone()]),
            None => BTreeSet::new(),
        }
    }

    /// `None` if the module has no such name. A path that ends at a module leads to no file: uses through the
    /// module are paths of their own.
    fn walk(
        &self,
        module: usize,
        path: &[String],
        seen: &mut BTreeSet<(usize, usize)>,
    ) -> Option<BTreeSet<String>> {
        let here = &self.modules[module];
        let [name, rest @ ..] = path else { return Some(BTreeSet::new()) };
        let child = here.children.get(name).copied();
        if let Some(child) = child.filter(|_| !rest.is_empty()) {
            let found = self.walk(child, rest, seen);
            return Some(found.unwrap_or_else(|| BTreeSet::from([self.modules[child].file.clone()])));
        }
        let mut found = None;
        if here.definitions.contains(name) {
            found = Some(BTreeSet::from([here.file.clone()]));
        }
        for (at, named) in here.uses.iter().enumerate().filter(|(_, it)| it.name.as_ref() == Some(name)) {
            // A `use` does not explain its own path: `use fork::fork` with a crate `fork`.
            if seen.insert((module, at)) {
                let path: Vec<String> = named.path.iter().chain(rest).cloned().collect();
                found.get_or_insert_default().extend(self.resolve(module, &path, seen));
                seen.remove(&(module, at));
            }
        }
        if found.is_none() {
            for (at, all) in here.uses.iter().enumerate().filter(|(_, it)| it.name.is_none()) {
                if seen.insert((module, at)) {
                    let path: Vec<String> = all.path.iter().chain(path).cloned().collect();
                    let files = self.resolve(module, &path, seen);
                    if !files.is_empty() {
                        found.get_or_insert_default().extend(files);
                    }
                    seen.remove(&(module, at));
                }
            }
        }
        found.or_else(|| child.map(|_| BTreeSet::new()))
    }
}

struct Reader<'a> {
    tree: &'a mut Tree,
    sources: &'a Sources,
    words: &'a [Word],
    at: usize,
    /// The open braces; those of a module with the folder of its children's files.
    open: Vec<Option<(usize, String)>>,
}

impl Reader<'_> {
    fn read(&mut self) {
        while let Some(word) = self.words.get(self.at) {
            match word {
                Word::Mark('#') => self.attribute(),
                Word::Mark('{') => {
                    self.open.push(None);
                    self.at += 1;
                }
                Word::Mark('}') => {
                    self.open.pop();
                    self.at += 1;
                }
                Word::Name(name) => self.name(name),
                _ => self.at += 1,
            }
        }
    }

    fn module(&mut self) -> &mut Module {
        let innermost = self.open.iter().rev().find_map(|it| it.as_ref().map(|(module, _)| *module));
        &mut self.tree.modules[innermost.expect("the file itself is a module")]
    }

    fn peek(&self, ahead: usize) -> Option<&Word> {
        self.words.get(self.at + ahead)
    }

    fn name_at(&self, ahead: usize) -> Option<String> {
        match self.peek(ahead) {
            Some(Word::Name(name)) => Some(name.clone()),
            _ => None,
        }
    }

    fn name(&mut self, name: &str) {
        let is_start = self.at == 0
            || !matches!(self.words[self.at - 1], Word::Path | Word::Mark('.' | '$'))
            || name == "crate";
        match name {
            _ if !is_start => self.at += 1,
            // `impl Trait + use<'_>` imports nothing.
            "use" if self.peek(1) != Some(&Word::Mark('<')) => self.imports(),
            "mod" if self.name_at(1).is_some() => self.declare(),
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" => {
                // An item defined in a block has no path.
                if let (Some(defined), Some(Some(_))) = (self.name_at(1), self.open.last()) {
                    self.module().definitions.insert(defined);
                }
                self.at += 1;
            }
            _ => {
                let mut path = vec![name.to_owned()];
                self.at += 1;
                while let (Some(Word::Path), Some(next)) = (self.peek(0), self.name_at(1)) {
                    path.push(next);
                    self.at += 2;
                }
                let has_glob = self.module().uses.iter().any(|it| it.name.is_none());
                if path.len() > 1 || has_glob {
                    self.module().paths.push(path);
                }
            }
        }
    }

    /// `#[…]`: names in its strings count; items only for tests do not.
    fn attribute(&mut self) {
        self.at += 1;
        if self.peek(0) == Some(&Word::Mark('!')) {
            self.at += 1;
        }
        if self.peek(0) != Some(&Word::Mark('[')) {
            return;
        }
        let end = self.end_of_group();
        let words = &self.words[self.at..end];
        let is = |name: &str| words.get(1) == Some(&Word::Name(name.to_owned()));
        assert!(!is("path"), "#[path] outside of tests: follow it here");
        let is_for_tests = is("cfg") && words.get(3) == Some(&Word::Name("test".to_owned()));
        for word in words {
            if let Word::Text(text) = word {
                let path: Vec<String> = text.split("::").map(str::to_owned).collect();
                if path.len() > 1
                    && path.iter().all(|it| it.chars().all(|it| it.is_alphanumeric() || it == '_'))
                {
                    self.module().paths.push(path);
                }
            }
        }
        self.at = end;
        if is_for_tests {
            self.skip_item();
        }
    }

    /// Past the bracket that closes the one here.
    fn end_of_group(&self) -> usize {
        let mut depth = 0;
        for (at, word) in self.words.iter().enumerate().skip(self.at) {
            match word {
                Word::Mark('(' | '[' | '{') => depth += 1,
                Word::Mark(')' | ']' | '}') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at + 1;
            }
        }
        self.words.len()
    }

    fn skip_item(&mut self) {
        let is_use = self.name_at(0).as_deref() == Some("use") || self.name_at(1).as_deref() == Some("use");
        while let Some(word) = self.words.get(self.at) {
            match word {
                Word::Mark(';') => {
                    self.at += 1;
                    return;
                }
                Word::Mark('{') if !is_use => {
                    self.at = self.end_of_group();
                    return;
                }
                Word::Mark('(' | '[' | '{') => self.at = self.end_of_group(),
                _ => self.at += 1,
            }
        }
    }

    /// `mod name;` or `mod name {`.
    fn declare(&mut self) {
        let name = self.name_at(1).expect("the caller saw it");
        let innermost = self.open.iter().rev().find_map(Clone::clone);
        let (module, folder) = innermost.expect("the file itself is a module");
        let inside = format!("{folder}{name}/");
        let is_file = self.peek(2) == Some(&Word::Mark(';'));
        let child = if is_file {
            let flat = format!("{folder}{name}.rs");
            let file = if self.sources.contains_key(&flat) { flat } else { format!("{inside}mod.rs") };
            self.tree.read_file(self.sources, &file, Some(module), inside)
        } else {
            let file = self.tree.modules[module].file.clone();
            let child = self.tree.add(&file, Some(module));
            self.open.push(Some((child, inside)));
            child
        };
        self.tree.modules[module].children.insert(name, child);
        self.at += 3;
    }

    fn imports(&mut self) {
        self.at += 1;
        self.branch(&[]);
    }

    /// One branch of a `use`, up to the `,`, `}` or `;` after it.
    fn branch(&mut self, prefix: &[String]) {
        let mut path = prefix.to_vec();
        let mut alias = None;
        while let Some(word) = self.words.get(self.at) {
            self.at += 1;
            match word {
                Word::Mark('{') => {
                    while self.peek(0).is_some_and(|it| *it != Word::Mark('}')) {
                        self.branch(&path);
                        if self.peek(0) == Some(&Word::Mark(',')) {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                Word::Mark('*') => {
                    self.module().uses.push(Use { name: None, path });
                    return;
                }
                Word::Mark(',' | '}' | ';') => {
                    self.at -= 1;
                    break;
                }
                Word::Name(name) if name == "as" => {
                    alias = self.name_at(0);
                    self.at += 1;
                }
                // `use a::{self}` is `use a`.
                Word::Name(name) if name == "self" && !path.is_empty() => {}
                Word::Name(name) => path.push(name.clone()),
                _ => {}
            }
        }
        if let Some(name) = alias.or_else(|| path.last().cloned()) {
            self.module().uses.push(Use { name: Some(name), path });
        }
    }
}
