//! Warns of keys without the key that switches on what they are for, such as `cors_max_age` without `cors_origins`.

use super::error::Errors;
use super::toml::{Table, Value};

/// Keys that switch something on, and the beginnings of the keys that have an effect only then.
const SWITCHES: &[(&str, &[&str])] = &[
    ("acme", &["certificates"]),
    (
        "authorizer",
        // `authorizer_fields` removes fields of clients in any case.
        &[
            "authorizer_cache",
            "authorizer_login",
            "authorizer_method",
            "authorizer_path",
            "authorizer_response",
            "authorizer_user",
        ],
    ),
    ("cors_origins", &["cors_"]),
    ("fallback", &["fallback_for"]),
    ("includes", &["include_"]),
    ("publish", &["publish_"]),
    ("response_cache", &["response_cache_"]),
];

/// The keys of the sections whose settings sections around them inherit to.
const INNER: &[&str] = &["host", "route"];

pub fn check(tree: &Table, errors: &Errors) {
    for &(switch, beginnings) in SWITCHES {
        check_section(tree, false, switch, beginnings, errors);
    }
}

/// `is_on_above`: whether the section inherits what is switched on.
fn check_section(table: &Table, is_on_above: bool, switch: &str, beginnings: &[&str], errors: &Errors) {
    let is_on = table.get(switch).map_or(is_on_above, |entry| is_on(&entry.node.value));
    if !is_on && !inner(table).any(|inner| is_on_within(inner, switch)) {
        let is_for_it = |key: &str| key != switch && beginnings.iter().any(|begin| key.starts_with(begin));
        for entry in table.entries.iter().filter(|entry| is_for_it(&entry.key)) {
            let what = format!("\"{}\" has no effect without \"{switch}\"", entry.key);
            errors.warn(&entry.place, what, format!("add {switch}, or remove it"));
        }
    }
    for inner in inner(table) {
        check_section(inner, is_on, switch, beginnings, errors);
    }
}

/// Whether a section, or one in it, switches it on.
fn is_on_within(table: &Table, switch: &str) -> bool {
    table.get(switch).is_some_and(|entry| is_on(&entry.node.value))
        || inner(table).any(|inner| is_on_within(inner, switch))
}

fn is_on(value: &Value) -> bool {
    match value {
        Value::Flag(flag) => *flag,
        Value::Text(text) => text != "off",
        Value::Array(nodes) => !nodes.is_empty(),
        _ => true,
    }
}

fn inner(table: &Table) -> impl Iterator<Item = &Table> {
    let sections = table.entries.iter().filter(|entry| INNER.contains(&entry.key.as_str()));
    let nodes = sections.flat_map(|entry| match &entry.node.value {
        Value::Array(nodes) => nodes.as_slice(),
        _ => &[],
    });
    nodes.filter_map(|node| match &node.value {
        Value::Table(table) => Some(table),
        _ => None,
    })
}
