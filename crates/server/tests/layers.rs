//! The layers of the program: each room uses only those below it in this table, and so there is no circle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// From top to bottom, in the order in which one should read them.
const LAYERS: &[&str] = &[
    // The command line, and what it asks for.
    "healthcheck",
    "explain",
    "check",
    "fcgi_wrap",
    // The master, and the process that serves one configuration.
    "master",
    "start",
    "config",
    "generation",
    "worker",
    // From a connection to a response, and back.
    "connection",
    "listen",
    "exchange",
    "upstream",
    "pool",
    "spawner",
    "request",
    "content",
    "response",
    "files",
    "response_head",
    // What all of them use.
    "services",
    "stats",
    "overload",
    "log",
    "privileged_file",
    "privilege",
    "sandbox",
    "disk",
    "admission",
    "semaphore",
    "clock",
    "peer",
    "buffer",
    "supervisor",
    "flags",
    "control",
    "ipc",
    "announce",
    "terminal",
    "sys",
];

/// Every import of one room by another, with the file that it stands in.
fn imports(source: &Path) -> Vec<(String, String, PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the source is there") {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                // Tests may look at everything.
                if name != "faults" && name != "faulty" {
                    folders.push(path);
                }
                continue;
            }
            if ["lib.rs", "main.rs", "tests.rs", "faults.rs", "faulty.rs"].contains(&name.as_str()) {
                continue;
            }
            let inside = path.strip_prefix(source).expect("it is beneath");
            let room = inside.iter().next().unwrap_or_default().to_string_lossy();
            let room = room.strip_suffix(".rs").unwrap_or(&room).to_owned();
            let text = fs::read_to_string(&path).expect("source is text");
            let text = text.split("\n#[cfg(test)]").next().unwrap_or_default();
            for other in rooms_in(text) {
                if other != room {
                    found.push((room.clone(), other, path.clone()));
                }
            }
        }
    }
    found
}

/// The rooms that are named as `crate::room` or in `crate::{…}`.
fn rooms_in(text: &str) -> Vec<String> {
    let first = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect()
    };
    let mut rooms = Vec::new();
    for behind in text.split("crate::").skip(1) {
        match behind.strip_prefix('{') {
            Some(group) => {
                let group = group.split('}').next().unwrap_or_default();
                rooms.extend(group.split(',').map(first));
            }
            None => rooms.push(first(behind)),
        }
    }
    rooms.retain(|room| !room.is_empty());
    rooms
}

#[test]
fn rooms_use_only_what_is_below_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let level: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().map(|(level, room)| (*room, level)).collect();
    let imports = imports(&source);
    assert!(imports.len() > 100, "the imports are found");
    let mut wrong: Vec<String> = Vec::new();
    for (room, other, file) in &imports {
        match (level.get(room.as_str()), level.get(other.as_str())) {
            (Some(from), Some(to)) if from < to => {}
            (Some(_), Some(_)) => {
                wrong.push(format!("{}: {room} uses {other}, which is above it", file.display()))
            }
            (None, _) => wrong.push(format!("{room} is in no layer; add it to the table")),
            // A macro or an item at the top of the crate.
            (_, None) => {
                wrong.push(format!("{}: {other} is in no layer; add it to the table", file.display()))
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
