//! Directives that stand in `http`, `server` and `location` alike.

mod access;
mod connections;
mod files;
mod limits;

use crate::draft::{Draft, Scope};
use crate::tree::{Directive, unconverted};

use super::cache;
use super::names::NEEDLESS;
use super::upstreams::{Upstream, size};

pub use self::access::{asks_at, decision, limit_except};
pub use self::connections::TRUSTED;
pub use self::limits::zone;

/// A zone of `limit_req_zone` or `limit_conn_zone`.
pub struct Zone {
    pub name: String,
    by: Option<String>,
    rate: Option<String>,
}

/// What a directive can refer to.
pub struct Context<'c> {
    pub upstreams: &'c [Upstream],
    pub zones: &'c [Zone],
    /// Whether what is around says who may have something: `http`, or for a location also a location.
    pub is_closed: bool,
    /// Whether there is `set_real_ip_from`.
    pub trusts: bool,
    pub caches: &'c [cache::Zone],
    /// Those of `http`.
    pub maps: &'c [&'c Directive],
    /// Makes a path absolute.
    pub path: &'c dyn Fn(&str) -> String,
    /// Whether a path is that of a file.
    pub is_file: &'c dyn Fn(&str) -> bool,
    /// The first name of the server.
    pub server_name: String,
    /// That of `http`.
    pub root: Option<String>,
    /// The files that `try_files` of the server names.
    pub fallbacks: Vec<String>,
    /// The script of all paths of the server, also of folders.
    pub front: Option<&'c str>,
    /// What stands around, for the locations that pass requests on.
    pub around: Vec<&'c Directive>,
    /// The directives of the server.
    pub server: &'c [Directive],
}

impl<'c> Context<'c> {
    /// The location of this name, which begins with `@`.
    pub fn named(&self, name: &str) -> Option<&'c Directive> {
        self.server.iter().find(|child| child.name == "location" && child.argument(0) == name)
    }
}

/// The directive, if it is one of these.
pub fn setting(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) -> bool {
    let rooms = [files::setting, access::setting, limits::setting, connections::setting, variable];
    rooms.iter().any(|room| room(directive, scope, context, draft))
        || NEEDLESS.contains(&directive.name.as_str())
}

/// A variable that is no constant.
fn variable(directive: &Directive, _: &mut Scope, _: &Context, draft: &mut Draft) -> bool {
    let place = &directive.place;
    match (directive.name.as_str(), directive.argument(1)) {
        ("set", "$fastcgi_path_info") => draft.note(place, "PATH_INFO is set in any case", "nothing to do"),
        ("underscores_in_headers", _) => {
            if directive.argument(0) == "on" {
                let what = format!(
                    "{}: fields whose names have an underscore are not passed",
                    unconverted(directive)
                );
                draft.error(place, what, "let clients send a hyphen, if an application needs them");
            }
        }
        ("set", _) => {
            draft.error(place, unconverted(directive), "write the value where the variable is used")
        }
        _ => return false,
    }
    true
}

fn bytes(directive: &Directive, key: &str, scope: &mut Scope, draft: &mut Draft) {
    match size(directive.argument(0)) {
        Some(bytes) => scope.set(&directive.place, key, bytes),
        None => draft.error(&directive.place, unconverted(directive), "write a size, such as 8m"),
    }
}

/// A target with `$path` and the like, where `$1` is the rest of a path. `None`: it has variables that there are not.
pub fn template(text: &str, server_name: &str) -> Option<String> {
    target(text, server_name, &["${rest}".to_owned()])
}

/// As `template`, with these values of `$1` and so on.
pub fn target(text: &str, server_name: &str, groups: &[String]) -> Option<String> {
    const VARIABLES: [(&str, &str); 13] = [
        ("$is_args$args", "$query"),
        ("$query_string", "?"),
        ("$args", "?"),
        ("$request_uri", "$path$query"),
        ("$document_uri", "$path"),
        ("$uri", "$path"),
        ("$http_host", "$hostport"),
        ("$host:$server_port", "$hostport"),
        ("$hostname", ""),
        ("$host", "$host"),
        ("$scheme", "$scheme"),
        ("$server_name", ""),
        ("$is_args", ""),
    ];
    let mut out = String::new();
    let text = text.replace("${", "\u{1}{");
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        let digit = rest[c.len_utf8()..].chars().next().and_then(|digit| digit.to_digit(10));
        if let (Some(number), '$') = (digit, c) {
            out.push_str(groups.get((number as usize).checked_sub(1)?)?);
            rest = &rest[2..];
            continue;
        }
        let found = VARIABLES.iter().find(|(name, _)| rest.starts_with(name));
        match (found, c) {
            // The query of the request is a part of one.
            (Some((name, "?")), _) if !out.contains('?') || is_longer(&rest[name.len()..]) => return None,
            (Some((name, "?")), _) => {
                rest = &rest[name.len()..];
                if rest.is_empty() && out.ends_with('?') {
                    out.pop();
                }
                out.push_str("$query");
            }
            (Some(("$server_name", _)), _) if !server_name.is_empty() => {
                out.push_str(server_name);
                rest = &rest["$server_name".len()..];
            }
            (Some((_, "")), _) | (None, '$' | '\u{1}') => return None,
            (Some((name, value)), _) => {
                rest = &rest[name.len()..];
                if is_longer(rest) {
                    return None;
                }
                out.push_str(value);
            }
            (None, c) => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    Some(out)
}

/// Whether a variable has a longer name.
fn is_longer(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}
