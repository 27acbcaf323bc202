//! `expires`: a time for everything, or one by the type of a response or by its path, which a `map` says.

use std::collections::BTreeSet;

use crate::brackets::is_glob;
use crate::document::Value;
use crate::draft::{Draft, Scope};
use crate::media;
use crate::pattern;
use crate::regex;
use crate::tree::{Directive, unconverted};
use crate::within::covers;

use super::cache_control::NEVER_EXPIRES;
use super::upstreams::duration;

const ADVICE: &str = "see cache_control, which has types of media and patterns of paths";

/// `expires`. `maps` are those of `http`.
pub fn expires(directive: &Directive, maps: &[&Directive], scope: &mut Scope, draft: &mut Draft) {
    let place = &directive.place;
    let named = maps.iter().find(|map| map.argument(1) == directive.argument(0));
    let value = match named {
        Some(map) => by_map(map),
        None => directive_of(directive.argument(0)).map(|text| text.map(Value::from)),
    };
    match value {
        Some(Some(value)) => {
            scope.remove(NEVER_EXPIRES);
            scope.set(place, "cache_control", value);
        }
        Some(None) => {
            scope.remove("cache_control");
            scope.set(place, NEVER_EXPIRES, true);
        }
        None => draft.error(place, unconverted(directive), ADVICE),
    }
}

/// Whether an `expires` of the block has the variable of a `map`: it says then what it cannot convert.
pub fn is_for_expires(map: &Directive, block: &[Directive]) -> bool {
    block.iter().any(|directive| {
        let has = directive.name == "expires" && directive.argument(0) == map.argument(1);
        has || is_for_expires(map, directive.children())
    })
}

/// The directive of `Cache-Control` for a time. `Some(None)`: none is sent. `None`: it is no time.
fn directive_of(time: &str) -> Option<Option<String>> {
    Some(match time {
        "off" => None,
        "epoch" => Some("no-cache".to_owned()),
        "max" => Some("max-age=315360000".to_owned()),
        text if text.starts_with('-') => Some("no-cache".to_owned()),
        text => {
            let seconds = duration(text)?.strip_suffix('s')?.to_owned();
            if seconds.ends_with('m') {
                return None;
            }
            Some(format!("max-age={seconds}"))
        }
    })
}

/// What the keys of a `map` are.
#[derive(Clone, Copy)]
enum Subject {
    Type,
    Path,
}

fn subject(map: &Directive) -> Option<Subject> {
    match map.argument(0) {
        "$sent_http_content_type" => Some(Subject::Type),
        "$uri" => Some(Subject::Path),
        _ => None,
    }
}

/// A table of `cache_control`. `Some(None)`: no path gets the field. `None`: the map has no such table.
fn by_map(map: &Directive) -> Option<Option<Value>> {
    let subject = subject(map)?;
    let (mut exact, mut expressions, mut others) = (Vec::new(), Vec::new(), None);
    for row in map.children() {
        let [time] = row.arguments.as_slice() else { return None };
        let directive = directive_of(time)?;
        match row.name.as_str() {
            "default" => others = directive,
            "include" | "volatile" | "hostnames" => return None,
            key if key.starts_with('~') => expressions.push((keys(subject, key)?, directive)),
            key => exact.push((keys(subject, key)?, directive)),
        }
    }
    let everything = (vec!["/".to_owned()], others);
    let rows: Vec<_> = exact.into_iter().chain(expressions).chain([everything]).collect();
    let mut table: Vec<(String, Value)> = Vec::new();
    for (at, (keys, directive)) in rows.iter().enumerate() {
        let mut later = rows[at + 1..].iter().filter(|(_, later)| later.is_some()).flat_map(|(keys, _)| keys);
        match directive {
            // A row that gives no field would have that of a later one.
            None if later.any(|later| keys.iter().any(|key| overlap(key, later))) => return None,
            None => {}
            Some(directive) => {
                table.extend(keys.iter().map(|key| (key.clone(), directive.as_str().into())));
            }
        }
    }
    let mut seen = BTreeSet::new();
    table.retain(|(key, _)| seen.insert(key.clone()));
    Some((!table.is_empty()).then_some(Value::Table(table)))
}

/// Whether two selectors may have a file in common.
fn overlap(key: &str, later: &str) -> bool {
    let is_type = key.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_one_path = key.starts_with('/') && !key.ends_with('/') && !is_glob(key);
    match later.strip_suffix("/*") {
        _ if later == "/" => true,
        Some(family) if is_type => key.split('/').next() == Some(family),
        None if is_type => key == later || key.ends_with("/*"),
        _ => !is_one_path || covers(later, key),
    }
}

/// The selectors of a key, which begins with `~` if it is an expression.
fn keys(subject: Subject, key: &str) -> Option<Vec<String>> {
    let (expression, any_case) = match (key.strip_prefix("~*"), key.strip_prefix('~')) {
        (Some(text), _) => (Some(text), true),
        (None, text) => (text, false),
    };
    match (subject, expression) {
        (Subject::Path, None) => (key.starts_with('/') && !is_glob(key)).then(|| vec![pattern::alone(key)]),
        (Subject::Path, Some(text)) => {
            let all = regex::patterns(text)?;
            match any_case {
                true => all.iter().map(|pattern| pattern::ignoring_case(pattern)).collect(),
                false => Some(all),
            }
        }
        (Subject::Type, None) => types(key),
        (Subject::Type, Some(text)) => {
            let all: Option<Vec<_>> = regex::values(text)?.iter().map(|found| types(found)).collect();
            Some(all?.concat())
        }
    }
}

/// `text/css`, or what an expression such as `image/` finds: `*image/*`. A charset may follow the type.
fn types(text: &str) -> Option<Vec<String>> {
    let (family, subtype) = text.strip_prefix('*').unwrap_or(text).split_once('/')?;
    let subtype = subtype.trim_end_matches('*');
    let is_plain = |text: &str| !text.contains(['*', '?', ';']);
    let subtype = if subtype.is_empty() { "*" } else { Some(subtype).filter(|text| is_plain(text))? };
    media::selectors(&format!("{family}/{subtype}")).filter(|_| is_plain(family))
}
