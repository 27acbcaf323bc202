//! Fields of requests and responses.

use site::config::own_field;

use crate::document::Value;
use crate::draft::Draft;
use crate::media;
use crate::tree::{Directive, Place, unconverted};
use crate::words;

use super::Context;
use crate::apache::cache_control;

/// Fields of a response that say what its content is.
const OF_CONTENT: [&str; 3] = ["content-encoding", "content-type", "location"];

/// Fields of a request that the server sets for each upstream.
const OF_CONNECTION: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

impl Context {
    /// The directive, if it is about fields. `false`: it is another one.
    pub(super) fn add_field(&mut self, directive: &Directive, draft: &mut Draft) -> bool {
        match directive.name.as_str() {
            "header" => self.header(directive, draft),
            "requestheader" => self.request_header(directive, draft),
            name if name.starts_with("expires") => self.expires(directive, draft),
            _ => return false,
        }
        true
    }

    fn header(&mut self, directive: &Directive, draft: &mut Draft) {
        let place = &directive.place;
        let words: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
        let is_always = words.first() == Some(&"always");
        let mut words = match words.split_first() {
            Some((first, rest)) if matches!(*first, "always" | "onsuccess") => rest.to_vec(),
            _ => words,
        };
        if let Some(condition) = words.get(3).copied() {
            words = self.unconditional(words, condition, place, draft);
        }
        // Apache takes a name with a colon.
        if let Some(name) = words.get_mut(1) {
            *name = name.strip_suffix(':').unwrap_or(name);
        }
        match words.as_slice() {
            [act, name, ..]
                if own_field(name).is_some() && (*act == "unset" || !is_of(&OF_CONTENT, name)) =>
            {
                draft.warn(
                    place,
                    format!("{name} is not changed"),
                    "the server sets it; see server_header and types",
                );
            }
            [_, name, ..] if is_of(&OF_CONTENT, name) => {
                draft.error(place, unconverted(directive), "see types, precompressed and redirects");
            }
            ["unset", name] => self.keys.pair(place, "headers", name, false),
            ["append" | "merge", name, value]
                if name.eq_ignore_ascii_case("cache-control") && !value.contains('%') =>
            {
                let before = self.cached.take().map_or(String::new(), |before| format!("{before}, "));
                self.cached = Some(before + value);
            }
            [act @ ("set" | "setifempty" | "add" | "append" | "merge"), name, value]
                if !value.contains('%') =>
            {
                let sign = if act.starts_with("set") { "" } else { "+" };
                self.keys.pair(place, "headers", &format!("{sign}{name}"), *value);
                if name.eq_ignore_ascii_case("cache-control") {
                    self.keys.set(place, cache_control::ALWAYS, is_always);
                } else if !is_always {
                    draft.note(place, format!("{name} is added to error responses, too"), "nothing to do");
                }
            }
            _ => draft.error(place, unconverted(directive), "headers have no conditions and no variables"),
        }
    }

    /// A field without its condition, where it may be in every response: by the type of the content, or for every
    /// `Origin`.
    fn unconditional<'w>(
        &self,
        words: Vec<&'w str>,
        condition: &str,
        place: &Place,
        draft: &mut Draft,
    ) -> Vec<&'w str> {
        let is_of_origin = condition
            .strip_prefix("env=")
            .is_some_and(|name| self.origin_variables.iter().any(|known| known == name));
        let is_of_type = condition.starts_with("expr=%{CONTENT_TYPE} =~ ");
        if words.len() != 4 || words[0] == "unset" || !is_of_origin && !is_of_type {
            return words;
        }
        draft.warn(
            place,
            format!("{} is in every response", words[1]),
            "nothing to do, unless it must not be",
        );
        words[..3].to_vec()
    }

    /// A field with a variable is removed, because a client could otherwise say what Apache said.
    fn request_header(&mut self, directive: &Directive, draft: &mut Draft) {
        let place = &directive.place;
        let words: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
        let words = match words.split_first() {
            Some((&"early", rest)) => rest,
            _ => &words,
        };
        match words {
            // It counts with ProxyPreserveHost, and is that of the upstream without.
            ["set" | "setifempty", name, value]
                if name.eq_ignore_ascii_case("host") && !value.contains('%') =>
            {
                self.keys.set(place, "proxy_host", *value);
            }
            [_, name, ..] if is_of(&OF_CONNECTION, name) => {
                draft.warn(place, format!("{name} is not changed"), "see proxy_headers and proxy_host");
            }
            ["unset", name, ..] => self.keys.pair(place, "proxy_headers", name, false),
            ["set" | "setifempty", name, value] if !value.contains('%') => {
                self.keys.pair(place, "proxy_headers", name, *value);
            }
            ["set" | "setifempty", name, ..] if name.to_ascii_lowercase().starts_with("x-forwarded-") => {}
            ["set" | "setifempty" | "add" | "append", name, ..] => {
                self.keys.pair(place, "proxy_headers", name, false);
                draft.warn(
                    place,
                    format!("{name} is removed: its value has a variable"),
                    "see proxy_headers",
                );
            }
            _ => draft.error(place, unconverted(directive), "see proxy_headers"),
        }
    }

    fn expires(&mut self, directive: &Directive, draft: &mut Draft) {
        let place = &directive.place;
        let (name, first) = (directive.name.as_str(), directive.argument(0));
        let found = match name {
            "expiresactive" => return,
            "expiresdefault" => seconds(&directive.arguments).map(|age| (vec!["/".to_owned()], age)),
            _ => media::selectors(first).zip(seconds(directive.arguments.get(1..).unwrap_or_default())),
        };
        match found {
            Some((selectors, age)) => {
                for selector in selectors {
                    let mut pairs = self.keys.pairs("cache_control").to_vec();
                    pairs.retain(|(old, _)| *old != selector);
                    // What is for all files is the last.
                    let at = if selector == "/" { pairs.len() } else { 0 };
                    pairs.insert(at, (selector, format!("max-age={age}").into()));
                    self.keys.set(place, "cache_control", Value::Table(pairs));
                }
            }
            None => draft.warn(place, unconverted(directive), "see cache_control"),
        }
    }
}

fn is_of(fields: &[&str], name: &str) -> bool {
    fields.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// `access plus 1 month`, or `A3600`.
fn seconds(words: &[String]) -> Option<u64> {
    let text = words.join(" ");
    if let Some(number) = text.strip_prefix('A') {
        return number.parse().ok();
    }
    words::seconds(text.split_whitespace().filter(|word| !matches!(*word, "access" | "now" | "plus")))
}
