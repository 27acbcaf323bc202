//! What the conditions in front of a rule say together.

use crate::apache::flags::Flags;
use crate::apache::paths;
use crate::brackets::is_glob;
use crate::regex;
use crate::tree::Directive;

/// What becomes of the conditions in front of a rule.
#[derive(Debug, PartialEq, Eq)]
pub enum Conditions {
    None,
    /// Nothing is there, the path is none of these, and it is below this prefix.
    Missing(Vec<String>, Option<String>),
    /// The request had no TLS.
    Plain,
    /// The host has one of these names.
    Names(Vec<String>),
    /// The name of the host begins with `www.`, or it does not.
    Www(bool),
    /// The client asks for WebSocket.
    Upgrade,
    /// Nothing is there, and the path ends with a slash.
    Slash,
    /// The path is that of the client, and no other rule has led to it.
    Asked,
    Unknown,
}

/// What names that begin with `www.` are tested for.
const WWW: [&str; 4] = ["^www\\.", "^www\\.(.+)$", "^www\\.(.*)$", "^www\\.(.*)"];

pub fn meaning(conditions: &[Directive]) -> Conditions {
    match conditions {
        [] => Conditions::None,
        all if all.iter().any(|one| one.argument(1) == "!-f")
            && all.iter().all(|one| is_missing(one) || excepted(one).is_some() || below(one).is_some())
            && all.iter().filter_map(below).count() < 2 =>
        {
            Conditions::Missing(
                all.iter().filter_map(excepted).flatten().collect(),
                all.iter().find_map(below),
            )
        }
        all if all.iter().all(is_plain) => Conditions::Plain,
        [one] if one.argument(0) == "%{HTTP_HOST}" && one.argument(1) == "!^www\\." => Conditions::Www(false),
        [one] if one.argument(0) == "%{HTTP_HOST}" && WWW.contains(&one.argument(1)) => Conditions::Www(true),
        // Of a host without TLS, the other one says nothing.
        [plain, one] if is_plain(plain) && !Flags::of(plain).has("OR", "ornext") => {
            match meaning(std::slice::from_ref(one)) {
                www @ Conditions::Www(_) => www,
                _ => Conditions::Unknown,
            }
        }
        all if all.iter().all(asks_for_websocket) => Conditions::Upgrade,
        all if all.iter().all(|one| is_missing(one) || is_slash(one)) => Conditions::Slash,
        all if all.iter().all(|one| one.argument(0) == "%{ENV:REDIRECT_STATUS}") => Conditions::Asked,
        [one] if is_of_request_line(one) => Conditions::Asked,
        all => names(all).map_or(Conditions::Unknown, Conditions::Names),
    }
}

fn is_missing(one: &Directive) -> bool {
    matches!(one.argument(0), "%{REQUEST_FILENAME}" | "%{DOCUMENT_ROOT}%{REQUEST_URI}")
        && matches!(one.argument(1), "!-f" | "!-d" | "!-l")
}

fn asks_for_websocket(one: &Directive) -> bool {
    let subject = one.argument(0).to_ascii_lowercase();
    matches!(subject.as_str(), "%{http:upgrade}" | "%{http:connection}") && !one.argument(1).starts_with('!')
}

fn is_slash(one: &Directive) -> bool {
    one.argument(0) == "%{REQUEST_URI}" && matches!(one.argument(1), "(.+)/$" | "^(.+)/$" | "/$" | ".+/$")
}

/// The paths of `%{REQUEST_URI} !=/favicon.ico`, or `!^/index\.php`.
fn excepted(one: &Directive) -> Option<Vec<String>> {
    let test = one.argument(1).strip_prefix('!').filter(|_| one.argument(0) == "%{REQUEST_URI}")?;
    if Flags::of(one).has("OR", "ornext") {
        return None;
    }
    let path = match test.strip_prefix('^') {
        Some(expression) => regex::literal(expression.strip_suffix('$').unwrap_or(expression))
            .filter(|path| path.ends_with(".php") || test.ends_with('$')),
        None => test.strip_prefix('=').map(str::to_owned),
    };
    let path = path.filter(|path| path.starts_with('/') && !path.ends_with('/') && !is_glob(path));
    // `!^/(media|js)/`, or `!\.(css|js)$`
    let is_apart = |path: &String| path.len() > 1 && (path.ends_with('/') || is_glob(path));
    let patterns = || paths::expression(test).filter(|all| all.iter().all(is_apart));
    path.map(|path| vec![path]).or_else(patterns)
}

/// The prefix of `%{REQUEST_URI} ^/api/`.
fn below(one: &Directive) -> Option<String> {
    let expression = one.argument(1).strip_prefix('^').filter(|_| one.argument(0) == "%{REQUEST_URI}")?;
    regex::literal(expression).filter(|path| path.starts_with('/') && path.ends_with('/'))
}

/// Whether the request had no TLS.
fn is_plain(one: &Directive) -> bool {
    let (subject, test) = (one.argument(0), one.argument(1).to_ascii_lowercase());
    match subject {
        "%{HTTPS}" => matches!(test.as_str(), "off" | "!on" | "!=on" | "=off" | "^off$"),
        "%{SERVER_PORT}" => matches!(test.as_str(), "80" | "^80$" | "=80" | "!443" | "!^443$"),
        "%{REQUEST_SCHEME}" => matches!(test.as_str(), "http" | "=http" | "!https" | "!=https" | "^http$"),
        _ => false,
    }
}

/// `^[A-Z]{3,}\s([^.]+)\.php`
fn is_of_request_line(one: &Directive) -> bool {
    let test = one.argument(1);
    let text = test.trim_end_matches(['$', ' ']).trim_end_matches("\\s");
    one.argument(0) == "%{THE_REQUEST}"
        && !test.starts_with('!')
        && ["\\.php", ".php", "\\.html", ".html"].iter().any(|end| text.ends_with(end))
}

/// The names of conditions of which one is enough.
fn names(conditions: &[Directive]) -> Option<Vec<String>> {
    let (last, others) = conditions.split_last()?;
    let is_or = |one: &Directive| Flags::of(one).has("OR", "ornext");
    if is_or(last) || !others.iter().all(is_or) {
        return None;
    }
    let name = |one: &Directive| {
        let test = one.argument(1);
        let is_name = matches!(one.argument(0), "%{SERVER_NAME}" | "%{HTTP_HOST}");
        let expression = || regex::literal(test.strip_prefix('^')?.strip_suffix('$')?);
        let name = test.strip_prefix('=').map(str::to_owned).or_else(expression).filter(|_| is_name);
        name.map(|name| name.to_lowercase())
    };
    conditions.iter().map(name).collect()
}
