//! Reads the fields that responses get: `headers`, presets of them, and `Cache-Control`.

use taipan_http::fields::{is_token, text_len};

use super::section::{Section, text};
use super::tls::{hsts, is_hsts};
use super::toml::{Entry, Value};
use super::value::duration;
use crate::compress::TypePattern;
use crate::model::{HeaderRule, Selector};
use crate::route::Pattern;
use crate::security_headers::Preset;

/// Fields that only the server sets, and what to do instead.
const OWN_FIELDS: [(&str, &str); 12] = [
    ("connection", "the server sets it"),
    ("content-encoding", "see \"compress\" and \"precompressed\""),
    ("content-length", "the server sets it"),
    ("content-range", "the server sets it"),
    ("content-type", "see \"types\""),
    ("date", "the server sets it"),
    ("keep-alive", "the server sets it"),
    ("location", "see \"redirects\""),
    ("server", "see \"server_header\""),
    ("trailer", "the server sets it"),
    ("transfer-encoding", "the server sets it"),
    ("upgrade", "the server sets it"),
];

pub fn headers(section: &Section, inherited: &[HeaderRule]) -> Vec<HeaderRule> {
    let mut rules: Vec<HeaderRule> = Vec::new();
    for entry in section.pairs("headers") {
        let Some(rule) = header(section, entry) else { continue };
        reject_second_rule(section, entry, &rules, &rule);
        rules.push(rule);
    }
    rules.extend(
        hsts(section).filter(|hsts| !rules.iter().any(|rule| rule.name().eq_ignore_ascii_case(hsts.name()))),
    );
    let own = rules.len();
    // RFC 6797 §7.2: not without TLS.
    let is_plain = section.flag("https_redirect") == Some(false);
    for rule in inherited.iter().filter(|rule| !(is_plain && is_hsts(rule))) {
        if !rules[..own].iter().any(|other| other.replaces(rule.name().as_bytes())) {
            rules.push(rule.clone());
        }
    }
    rules
}

fn header(section: &Section, entry: &Entry) -> Option<HeaderRule> {
    let reject = |what: String, what_to_do: &str| {
        section.errors.add(&entry.place, what, what_to_do);
        None
    };
    let (key, rule) = field_name(&entry.key);
    let name = key.escape_debug();
    if !is_token(key.as_bytes()) {
        return reject(format!("\"{name}\" is not a field name"), "expected letters, digits and dashes");
    }
    if let Some(instead) = own_field(key) {
        return reject(format!("the field \"{name}\" cannot be changed"), instead);
    }
    match &entry.node.value {
        Value::Flag(false) if key == entry.key => Some(HeaderRule::Remove(key.to_owned())),
        Value::Flag(_) if key != entry.key => {
            reject(format!("\"+{name}\" has no value"), "expected a string; without the + it is removed")
        }
        Value::Text(value) if is_field_value(value) => Some(rule(key.to_owned(), value.clone())),
        Value::Text(_) => reject(
            format!("the value of \"{name}\" cannot be sent in a field"),
            "remove control characters, and spaces at its ends",
        ),
        other => reject(format!("\"{name}\" cannot be {}", other.kind()), "expected a string, or false"),
    }
}

/// A field may be set or removed once, and added to once.
pub fn reject_second_rule(section: &Section, entry: &Entry, rules: &[HeaderRule], rule: &HeaderRule) {
    let is_same = |other: &HeaderRule| {
        let is_added = |rule: &HeaderRule| matches!(rule, HeaderRule::Add(..));
        is_added(other) == is_added(rule) && other.name().eq_ignore_ascii_case(rule.name())
    };
    if rules.iter().any(is_same) {
        let what = format!("the field \"{}\" is given twice", entry.key);
        section.errors.add(&entry.place, what, "keep one; names of fields ignore case");
    }
}

/// The field that a key of `headers` names, and whether it is added to those of this name: `+Link`.
pub fn field_name(key: &str) -> (&str, fn(String, String) -> HeaderRule) {
    match key.strip_prefix('+') {
        Some(name) => (name, HeaderRule::Add),
        None => (key, HeaderRule::Set),
    }
}

/// What to do instead of setting a field that only the server sets.
pub fn own_field(name: &str) -> Option<&'static str> {
    OWN_FIELDS.iter().find(|(own, _)| name.eq_ignore_ascii_case(own)).map(|(_, instead)| *instead)
}

pub fn security_headers(section: &Section) -> Option<Preset> {
    let given = section.text_or_false("security_headers")?;
    match given.value {
        None => Some(Preset::Off),
        Some("basic") => Some(Preset::Basic),
        Some("strict") => Some(Preset::Strict),
        Some(other) => {
            let what = format!("\"security_headers\" cannot be \"{}\"", other.escape_debug());
            section.errors.add(given.place, what, "expected \"basic\", \"strict\" or false");
            None
        }
    }
}

/// Types begin with one of these. Any other key of `cache_control` is a pattern of paths.
const FAMILIES: [&str; 7] = ["application/", "audio/", "font/", "image/", "model/", "text/", "video/"];

pub fn cache_control(section: &Section, inherited: &[(Selector, String)]) -> Vec<(Selector, String)> {
    let entry = section.table.get("cache_control");
    let mut rules = match entry.map(|entry| (entry, &entry.node.value)) {
        Some((entry, Value::Text(_))) => {
            directive(section, entry, Selector::Path(Pattern::EVERYTHING)).into_iter().collect()
        }
        _ => Vec::new(),
    };
    if rules.is_empty() && entry.is_some_and(|entry| text(&entry.node).is_none()) {
        for entry in section.pairs("cache_control") {
            let selector = selector(section, entry);
            rules.extend(selector.and_then(|selector| directive(section, entry, selector)));
        }
    }
    rules.extend_from_slice(inherited);
    rules
}

/// A key of `cache_control` that is for types.
pub fn media_type(text: &str) -> Option<TypePattern> {
    let is_type = FAMILIES.iter().any(|family| text.starts_with(family));
    TypePattern::parse(text).filter(|_| is_type)
}

fn selector(section: &Section, entry: &Entry) -> Option<Selector> {
    match media_type(&entry.key) {
        Some(pattern) => Some(Selector::Type(pattern)),
        None => section.pattern(&entry.key, &entry.place).map(Selector::Path),
    }
}

fn directive(section: &Section, entry: &Entry, selector: Selector) -> Option<(Selector, String)> {
    let value = section.text_of(entry, "directives such as \"max-age=3600\"")?;
    if value.is_empty() || !is_field_value(value) {
        let what = format!("\"{}\" is not a value of Cache-Control", value.escape_debug());
        section.errors.add(&entry.place, what, "expected directives such as \"max-age=3600\"");
        return None;
    }
    // A time alone, as other servers take it.
    if let Some(time) = duration(value) {
        let what = format!("\"{}\" is a time, and no directive of Cache-Control", value.escape_debug());
        section.errors.warn(&entry.place, what, format!("write \"max-age={}\"", time.as_secs()));
    }
    Some((selector, value.to_owned()))
}

/// RFC 9110 §5.5.
pub fn is_field_value(value: &str) -> bool {
    value.trim_matches([' ', '\t']) == value && text_len(value.as_bytes()) == value.len()
}
