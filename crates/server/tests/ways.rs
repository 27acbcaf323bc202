//! The two ways of a request, which ARCHITECTURE.md shows as call trees, are those of the code.
//!
//! A line of a tree is a function, `Type::function` or `module::function`, and what it does. The less indented line
//! above it is its caller. The rules:
//!
//! - The source has the function once, and the body of its caller calls it.
//! - A module, which is a file, is called by one other module only. So a way enters each of its modules once, comes
//!   back to it only by returning, and never goes in a circle.
//! - A way has few modules.
//!
//! Knows rustfmt's layout of the source and nothing else of Rust.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each way by the words in front of its tree, with the most modules that it may have.
const WAYS: &[(&str, usize)] = &[("**The fast path**", 12), ("**The driver**", 16)];

/// A function of the source.
struct Function {
    /// From the root of the repository.
    file: String,
    /// The type of its `impl`, or the module of a free function.
    owner: String,
    name: String,
    body: String,
}

impl Function {
    fn path(&self) -> String {
        format!("{}::{}", self.owner, self.name)
    }

    /// Whether its body calls `other`: a method behind a dot or its type, any other function by its plain name.
    fn calls(&self, other: &Function) -> bool {
        let call = format!("{}(", other.name);
        self.body.match_indices(&call).any(|(at, _)| {
            let before = &self.body[..at];
            let is_whole_name = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let is_method = other.owner.starts_with(char::is_uppercase);
            let is_named = before.ends_with(&format!("{}::", other.owner));
            let is_own = before.ends_with("Self::") && self.owner == other.owner;
            let is_call =
                if is_method { before.ends_with('.') || is_own } else { !before.ends_with(['.', ':']) };
            is_whole_name && (is_call || is_named)
        })
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// The functions of the crates that a request passes, without those of tests.
fn functions() -> Vec<Function> {
    let root = root();
    let mut folders: Vec<PathBuf> =
        ["http", "site", "server"].iter().map(|name| root.join("crates").join(name).join("src")).collect();
    let mut functions = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the source is there") {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                // Only tests use the others.
                if name != "faults" && name != "faulty" {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path).expect("source is text");
                let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
                let file = path.strip_prefix(&root).expect("it is beneath").display().to_string();
                functions.extend(functions_in(&file, text));
            }
        }
    }
    functions
}

/// rustfmt begins items at the first column and methods at the fifth, and closes both where they begin.
fn functions_in(file: &str, text: &str) -> Vec<Function> {
    let (folder, stem) = file.rsplit_once('/').expect("the file is in a folder");
    let stem = stem.trim_end_matches(".rs");
    let module = if stem == "mod" { folder.rsplit('/').next().unwrap_or_default() } else { stem };
    let mut functions = Vec::new();
    let mut implemented: Option<String> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "}" {
            implemented = None;
        } else if line.starts_with("impl") && line.ends_with('{') {
            implemented = type_of(line);
        }
        let indent = if line.starts_with("    ") && implemented.is_some() { "    " } else { "" };
        let Some(name) = line.strip_prefix(indent).and_then(function_name) else { continue };
        let mut body = line.to_owned();
        let end = format!("{indent}}}");
        if !line.ends_with(['}', ';']) {
            for line in lines.by_ref().take_while(|line| *line != end) {
                if !line.trim_start().starts_with("//") {
                    body.push('\n');
                    body.push_str(line);
                }
            }
        }
        // What stands behind the name of the function itself is no call.
        let body = body.split_once('(').map_or(String::new(), |(_, body)| body.to_owned());
        let owner = implemented.clone().unwrap_or_else(|| module.to_owned());
        functions.push(Function { file: file.to_owned(), owner, name, body });
    }
    functions
}

/// The type of `impl<'a> Trait for Type<'a> {`.
fn type_of(line: &str) -> Option<String> {
    let line = line.strip_suffix(" {")?;
    let named = match line.rsplit_once(" for ") {
        Some((_, named)) => named,
        None => line.rsplit_once("> ").filter(|_| line.starts_with("impl<")).map_or(&line[5..], |(_, t)| t),
    };
    Some(named.chars().take_while(|c| c.is_alphanumeric()).collect())
}

/// The name of the function that begins in a line.
fn function_name(line: &str) -> Option<String> {
    if line.starts_with(' ') {
        return None;
    }
    let (qualifiers, rest) = line.split_once("fn ")?;
    let known = ["pub", "pub(crate)", "pub(super)", "async", "const", "unsafe"];
    let name = || rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    qualifiers.split_whitespace().all(|word| known.contains(&word)).then(name)
}

/// The lines of the tree behind `title`: how far each is indented, and its function.
fn tree(title: &str) -> Vec<(usize, String)> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page is there");
    let (_, behind) = page.split_once(title).unwrap_or_else(|| panic!("ARCHITECTURE.md lacks {title}"));
    let block = behind.split("```\n").nth(1).expect("a tree follows");
    let line = |line: &str| {
        let name = line.split_whitespace().next()?;
        Some((line.len() - line.trim_start().len(), name.to_owned()))
    };
    block.lines().filter_map(line).collect()
}

/// What is wrong with a way, in sentences.
fn faults(title: &str, most: usize, functions: &[Function]) -> Vec<String> {
    let mut faults = Vec::new();
    // The callers of the present line, from the first one down.
    let mut callers: Vec<(usize, &Function)> = Vec::new();
    // Each module with the module that calls it.
    let mut modules: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    let tree = tree(title);
    assert!(tree.len() > 5, "{title}: the tree is found");
    for (indent, path) in &tree {
        while callers.last().is_some_and(|(above, _)| above >= indent) {
            callers.pop();
        }
        let named: Vec<&Function> = functions.iter().filter(|function| function.path() == *path).collect();
        let [function] = named[..] else {
            let (_, name) = path.rsplit_once("::").unwrap_or(("", path));
            let others = functions.iter().filter(|function| function.name == name);
            let others: Vec<String> = others.map(|f| format!("{} in {}", f.path(), f.file)).collect();
            let has = if named.is_empty() { "lacks" } else { "has more than one" };
            faults.push(format!("the source {has} {path}; of that name are: {}", others.join(", ")));
            continue;
        };
        let caller = callers.last().map(|(_, caller)| *caller);
        if let Some(caller) = caller.filter(|caller| !caller.calls(function)) {
            let others = functions.iter().filter(|other| other.file == caller.file && other.calls(function));
            let others: Vec<String> = others.map(Function::path).collect();
            faults.push(format!(
                "{} does not call {path}; in {} do: {}",
                caller.path(),
                caller.file,
                others.join(", ")
            ));
        }
        let from = caller.map(|caller| caller.file.as_str());
        if from != Some(&function.file) {
            let first = *modules.entry(&function.file).or_insert(from);
            if first != from {
                let (first, from) = (first.unwrap_or("the start"), from.unwrap_or("the start"));
                faults.push(format!("{} is called by {first}, and at {path} by {from}, too", function.file));
            }
        }
        callers.push((*indent, function));
    }
    if modules.len() > most {
        let all: Vec<&str> = modules.keys().copied().collect();
        faults.push(format!("{} modules are more than {most}: {}", all.len(), all.join(", ")));
    }
    faults.iter().map(|fault| format!("ARCHITECTURE.md, {title}: {fault}")).collect()
}

#[test]
fn the_ways_of_a_request_are_those_of_the_code() {
    let functions = functions();
    assert!(functions.len() > 1000, "{} functions are found", functions.len());
    let faults: Vec<String> =
        WAYS.iter().flat_map(|(title, most)| faults(title, *most, &functions)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
