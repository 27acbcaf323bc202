//! `ProxyPass`, and the balancers that it names.

use crate::draft::{Draft, Scope};
use crate::endpoints::Endpoints;
use crate::tree::{Directive, Place, unconverted};
use crate::within::server_and_path;

/// The names of balancers, and those of their upstreams.
pub type Balancers = [(String, String)];

/// `<Proxy balancer://NAME>`. `None`: it is another section.
pub fn balancer(section: &Directive, draft: &mut Draft) -> Option<(String, String)> {
    let name = section.argument(0).strip_prefix("balancer://")?.trim_end_matches('/');
    let place = &section.place;
    let mut members = Members::default();
    let mut balance = "round_robin".to_owned();
    for child in section.children() {
        match child.name.as_str() {
            "balancermember" => members.add(child, draft),
            "proxyset" => {
                for (name, value) in settings(child) {
                    match (name, value) {
                        ("lbmethod", "byrequests" | "bytraffic") => {}
                        ("lbmethod", "bybusyness") => balance = "least".into(),
                        ("stickysession", cookie) => {
                            balance = format!("sticky {}", cookie.split('|').next().unwrap_or(cookie))
                        }
                        _ => draft.warn(&child.place, unconverted(child), "see [[application]]"),
                    }
                }
            }
            "require" if child.text().eq_ignore_ascii_case("require all granted") => {}
            "order" => {}
            "allow" if child.text().eq_ignore_ascii_case("allow from all") => {}
            _ => draft.error(&child.place, unconverted(child), "see [[rule]] and [[application]]"),
        }
    }
    let Members { endpoints, protocol } = members;
    let Some(protocol) = protocol else {
        draft.error(place, format!("the balancer {} has no member", name.escape_debug()), "name one");
        return None;
    };
    let mut keys = Scope::new(place.line);
    if endpoints.addresses().len() > 1 {
        keys.set(place, "balance", balance);
    }
    endpoints.set(place, &mut keys);
    keys.set(place, "protocol", protocol);
    let wanted: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Some((name.to_owned(), draft.application(&wanted, keys)))
}

/// The arguments with a sign, such as `loadfactor=2`.
fn settings(directive: &Directive) -> impl Iterator<Item = (&str, &str)> {
    directive.arguments.iter().filter_map(|argument| argument.split_once('='))
}

/// The members of a balancer.
#[derive(Default)]
struct Members {
    endpoints: Endpoints,
    /// That of the last one. `None`: there is none.
    protocol: Option<&'static str>,
}

impl Members {
    fn add(&mut self, member: &Directive, draft: &mut Draft) {
        let url = Url::parse(member.argument(0)).filter(|url| url.path.is_empty() || url.path == "/");
        let Some(url) = url else {
            return draft.error(&member.place, unconverted(member), "write a URL without a path");
        };
        if settings(member).any(|(name, value)| name == "status" && value.contains(['D', 'H', 'S', '+'])) {
            let what = format!("{} is not in use", member.argument(0));
            return draft.warn(&member.place, what, "it is left out");
        }
        let factor = settings(member).find(|(name, _)| *name == "loadfactor");
        let weight = factor.map_or(1.0_f64, |(_, text)| text.parse().unwrap_or(1.0));
        self.endpoints.add(url.address, (weight * 10.0) as i64);
        self.protocol = Some(url.protocol);
    }
}

/// An upstream, and the path that replaces that of the route.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Url {
    protocol: &'static str,
    /// As in `address`.
    address: String,
    authority: String,
    path: String,
    http2: bool,
}

impl Url {
    fn parse(text: &str) -> Option<Url> {
        let (socket, rest) = match text.strip_prefix("unix:").and_then(|text| text.split_once('|')) {
            Some((socket, rest)) => (Some(socket), rest),
            None => (None, text),
        };
        let (scheme, rest) = rest.split_once("://")?;
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = (rest[..end].to_owned(), rest[end..].to_owned());
        let (protocol, port, http2) = match scheme {
            "http" | "ws" => ("http", 80, false),
            "https" | "wss" => ("https", 443, false),
            "h2c" => ("http", 80, true),
            "h2" => ("https", 443, true),
            "fcgi" => ("fastcgi", 8000, false),
            "scgi" => ("scgi", 4000, false),
            _ => return None,
        };
        if text.contains(['$', '%', '*']) || (authority.is_empty() && socket.is_none()) {
            return None;
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = match socket {
            Some(socket) => format!("unix:{socket}"),
            None if has_port => authority.clone(),
            None => format!("{authority}:{port}"),
        };
        Some(Url {
            protocol,
            address,
            authority: if socket.is_some() { String::new() } else { authority },
            path,
            http2,
        })
    }
}

/// The upstream of a URL, as a program that runs files.
pub fn interpreter(url: &str, place: &Place, draft: &mut Draft) -> Option<String> {
    let url = Url::parse(url).filter(|url| matches!(url.protocol, "fastcgi" | "scgi"))?;
    Some(application(&url, place, draft))
}

/// The folder of the scripts that `^/(.*\.php)$ fcgi://localhost/FOLDER/$1` runs. `None`: it is not known.
pub fn root<'t>(expression: &str, target: &'t str) -> Option<&'t str> {
    let before = target.strip_suffix("$1")?;
    let (_, path) = before.split_once("://")?;
    let folder = &path[path.find('/')?..];
    let is_whole = match folder.strip_suffix('/') {
        Some(_) => expression.starts_with("^/("),
        None => expression.starts_with("^(/"),
    };
    Some(folder.trim_end_matches('/'))
        .filter(|folder| is_whole && !folder.is_empty() && !folder.contains('$'))
}

fn application(url: &Url, place: &Place, draft: &mut Draft) -> String {
    let mut keys = Scope::new(place.line);
    keys.set(place, "address", vec![url.address.clone()]);
    keys.set(place, "protocol", url.protocol);
    if url.http2 {
        keys.set(place, "http2", true);
    }
    if url.protocol == "https" {
        keys.set(place, "tls_verify", false);
        let what = "Apache verifies no certificate of an upstream unless it is told to";
        draft.warn(place, what, "remove tls_verify = false if it has a valid one");
    }
    draft.application(url.protocol, keys)
}

/// Gives a route an upstream. `None`: the URL cannot be converted.
pub fn pass(
    text: &str,
    balancers: &Balancers,
    place: &Place,
    route: &mut Scope,
    draft: &mut Draft,
) -> Option<()> {
    if let Some(rest) = text.strip_prefix("balancer://") {
        let (name, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (_, application) = balancers.iter().find(|(known, _)| known == name)?;
        let scheme = draft.applications.iter().find(|keys| keys.text("name") == Some(application));
        let scheme = scheme.and_then(|keys| keys.text("protocol")).unwrap_or("http").to_owned();
        route.set(place, "proxy", format!("{scheme}://{application}{path}"));
        return Some(());
    }
    let url = Url::parse(text)?;
    let name = application(&url, place, draft);
    if matches!(url.protocol, "fastcgi" | "scgi") {
        route.set(place, "application", name);
        return Some(());
    }
    route.set(place, "proxy", format!("{}://{name}{}", url.protocol, url.path));
    if !url.authority.is_empty() {
        route.set(place, "proxy_host", url.authority);
    }
    Some(())
}

/// What takes the place of the prefix that `from` becomes, and of `from` alone if that differs. Apache replaces a text
/// by another. `None`: a slash would be missing between the URL and the rest of the path.
pub fn targets(from: &str, url: &str) -> Option<(String, Option<String>)> {
    let (server, path) = server_and_path(url);
    match (from.ends_with('/'), path) {
        // Apache would ask for a wrong host; what is meant is plain.
        (true, "") if from == "/" => Some((url.to_owned(), None)),
        (true, path) if !path.ends_with('/') => None,
        (true, _) => Some((url.to_owned(), None)),
        (false, "") => Some((format!("{server}/"), None)),
        (false, path) if path.ends_with('/') => Some((url.to_owned(), None)),
        (false, _) => Some((format!("{url}/"), Some(url.to_owned()))),
    }
}

/// What follows the URL: times of the upstream.
pub fn options(words: &[String], place: &Place, route: &Scope, draft: &mut Draft) {
    let url = route.text("proxy").and_then(|url| url.split_once("://"));
    let name =
        url.map(|(_, rest)| rest.split('/').next().unwrap_or(rest)).or_else(|| route.text("application"));
    let at = draft.applications.iter().position(|keys| name.is_some() && keys.text("name") == name);
    for (word, value) in words.iter().filter_map(|word| word.split_once('=')) {
        let seconds = value.parse::<i64>().ok().filter(|seconds| *seconds > 0);
        let keys: &[&str] = match word {
            "timeout" => &["first_byte", "idle"],
            "connectiontimeout" => &["connect"],
            _ => &[],
        };
        match (seconds, at) {
            (Some(seconds), Some(at)) if !keys.is_empty() => {
                for key in keys {
                    draft.applications[at].set(place, key, format!("{seconds}s"));
                }
            }
            _ => draft.note(place, format!("{} has no effect", word.escape_debug()), "see [[application]]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_path_as_apache_does() {
        for (from, url, expected) in [
            ("/", "http://a", Some(("http://a", None))),
            ("/", "http://a/b/", Some(("http://a/b/", None))),
            ("/", "http://a/b", None),
            ("/x", "http://a", Some(("http://a/", None))),
            ("/x", "http://a/b", Some(("http://a/b/", Some("http://a/b")))),
            ("/x", "http://a/b/", Some(("http://a/b/", None))),
            ("/x/", "http://a/b/", Some(("http://a/b/", None))),
            ("/x/", "http://a/b", None),
            ("/x/", "http://a", None),
        ] {
            let targets = targets(from, url);
            let targets = targets.as_ref().map(|(below, alone)| (below.as_str(), alone.as_deref()));
            assert_eq!(targets, expected, "{from} {url}");
        }
    }

    #[test]
    fn knows_the_folder_of_scripts() {
        for (expression, target, expected) in [
            ("^/(.*\\.php)$", "fcgi://127.0.0.1:9000/srv/www/$1", Some("/srv/www")),
            ("^(/.*\\.php)$", "unix:/run/p.sock|fcgi://localhost/srv/www$1", Some("/srv/www")),
            ("^/a/(.*\\.php)$", "fcgi://127.0.0.1:9000/srv/www/$1", None),
            ("^(/.*\\.php)$", "fcgi://127.0.0.1:9000/srv/www/$1", None),
            ("^/(.*\\.php)$", "fcgi://127.0.0.1:9000/$1", None),
            ("^/(.*\\.php)$", "fcgi://127.0.0.1:9000", None),
        ] {
            assert_eq!(root(expression, target), expected, "{expression} {target}");
        }
    }

    #[test]
    fn reads_urls_of_upstreams() {
        for (text, expected) in [
            ("http://a:81/x", Some(("http", "a:81", "/x"))),
            ("https://a", Some(("https", "a:443", ""))),
            ("unix:/run/p.sock|fcgi://localhost/", Some(("fastcgi", "unix:/run/p.sock", "/"))),
            ("fcgi://127.0.0.1:9000", Some(("fastcgi", "127.0.0.1:9000", ""))),
            ("ajp://a", None),
            ("http://a/$1", None),
            ("http://", None),
            ("a", None),
        ] {
            let url = Url::parse(text);
            let url = url.as_ref().map(|url| (url.protocol, url.address.as_str(), url.path.as_str()));
            assert_eq!(url, expected, "{text}");
        }
    }
}
