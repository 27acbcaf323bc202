//! Fields of responses, how responses are compressed, and how large requests may be.

use crate::brackets::{is_glob, is_wildcard};
use site::config::own_field;

use crate::document::Value;
use crate::draft::Host;
use crate::tree::{Directive, unconverted};

use super::matchers::Matched;
use super::site::Site;

impl Site<'_> {
    pub(super) fn fields(&mut self, matched: &Matched, host: &mut Host) {
        let Matched { directive: child, paths, arguments } = matched;
        let one = [Directive {
            name: arguments.first().cloned().unwrap_or_default(),
            arguments: arguments.get(1..).unwrap_or_default().to_vec(),
            block: None,
            place: child.place.clone(),
        }];
        for field in if child.block.is_some() { child.children() } else { &one } {
            self.header(field, paths, host);
        }
    }

    pub(super) fn header(&mut self, field: &Directive, paths: &[String], host: &mut Host) {
        let place = &field.place;
        let name = field.name.as_str();
        let is_down = name == "header_down";
        let (name, value) =
            if is_down { (field.argument(0), field.argument(1)) } else { (name, field.argument(0)) };
        let count = field.arguments.len() - usize::from(is_down && !field.arguments.is_empty());
        if name == "defer" {
            return;
        }
        if value.contains('{') || count > 1 || name.contains('*') {
            return self.draft.error(place, unconverted(field), "headers have no variables; write a value");
        }
        let (name, value) = match name.strip_prefix('-') {
            Some(name) => (name.to_owned(), Value::Flag(false)),
            None => (name.trim_start_matches(['?', '>']).to_owned(), Value::from(value)),
        };
        let has_no_extension = |path: &String| {
            !path.ends_with('/')
                && !path.rsplit('/').next().unwrap_or_default().contains(|c| c == '.' || is_wildcard(c))
        };
        let is_folder = |path: &String| path.ends_with('/') && !is_glob(path);
        if name.eq_ignore_ascii_case("content-type")
            && value != Value::Flag(false)
            && !paths.is_empty()
            && paths.iter().all(|path| has_no_extension(path) || is_folder(path))
        {
            if paths.iter().any(is_folder) {
                let what = "a file with a known extension keeps its type";
                self.draft.warn(place, what, "nothing to do for others, and for texts of respond");
            }
            return self.each(paths, place, host, |scope| scope.set(place, "default_type", value.clone()));
        }
        if let Some(instead) = own_field(name.trim_start_matches('+')) {
            return self.own_field(field, &name, value, instead, paths);
        }
        self.each(paths, place, host, |scope| match name.as_str() {
            "Cache-Control" if value != Value::Flag(false) => {
                scope.set(place, "cache_control", value.clone())
            }
            _ => scope.pair(place, "headers", &name, value.clone()),
        });
    }

    /// A field that only the server sets. Upstreams never set Server and Date.
    pub(super) fn own_field(
        &mut self,
        field: &Directive,
        name: &str,
        value: Value,
        instead: &str,
        paths: &[String],
    ) {
        let place = &field.place;
        match name.to_ascii_lowercase().as_str() {
            "server" | "date" if field.name == "header_down" => {
                self.draft.note(
                    place,
                    format!("the field {name} of an upstream is never passed"),
                    "nothing to do",
                );
            }
            "server" if paths.is_empty() => {
                self.draft.top.set(place, "server_header", value);
                self.draft.note(place, "the field Server is the same for all hosts", "see server_header");
            }
            "server" => self.draft.warn(place, "the field Server is the same for all paths", instead),
            _ => self.draft.error(place, unconverted(field), instead),
        }
    }

    pub(super) fn encode(&mut self, matched: &Matched, host: &mut Host) {
        let Matched { directive: child, paths, arguments } = matched;
        let place = &child.place;
        let inner = child.children().iter().map(|inner| &inner.name);
        let mut codings: Vec<String> = arguments.iter().chain(inner).cloned().collect();
        codings.retain(|name| matches!(name.as_str(), "zstd" | "gzip" | "br"));
        if codings.is_empty() {
            codings = ["zstd", "gzip"].map(str::to_owned).to_vec();
        }
        self.each(paths, place, host, |scope| scope.set(place, "compress", codings.clone()));
        let what = "encode compresses what upstreams send, too";
        self.draft.note(place, what, "see compress_scripts and BREACH in the manual");
    }

    pub(super) fn max_body(&mut self, matched: &Matched, host: &mut Host) {
        let Matched { directive: child, paths, .. } = matched;
        let place = &child.place;
        for option in child.children() {
            match size(option.argument(0)).filter(|_| option.name == "max_size") {
                Some(bytes) => self.each(paths, place, host, |scope| scope.set(place, "max_body", bytes)),
                None => self.draft.error(&option.place, unconverted(option), "see max_body"),
            }
        }
    }
}

/// Bytes of `10MB`, `1MiB`.
fn size(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: i64 = text[..end].parse().ok()?;
    let factor = match text[end..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor).filter(|bytes| *bytes <= 1 << 40)
}
