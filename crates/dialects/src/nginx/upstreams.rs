//! `upstream` blocks, and the addresses that `proxy_pass` and `fastcgi_pass` name.

use crate::document::Value;
use crate::draft::{Draft, Scope};
use crate::endpoints::Endpoints;
use crate::tree::{Directive, Place, unconverted};

use super::settings::Context;

/// An `upstream` block.
pub struct Upstream {
    pub name: String,
    keys: Scope,
}

pub fn read(directive: &Directive, draft: &mut Draft) -> Upstream {
    let mut keys = Scope::new(directive.place.line);
    let mut endpoints = Endpoints::default();
    let mut balance = "round_robin".to_owned();
    let mut health: Vec<(String, Value)> = Vec::new();
    for child in directive.children() {
        let place = &child.place;
        match child.name.as_str() {
            "server" => server(child, &mut endpoints, &mut health, draft),
            "least_conn" => balance = "least".into(),
            "ip_hash" => balance = "hash client".into(),
            "random" => balance = "random".into(),
            "hash" => match hash(child.argument(0)) {
                Some(kind) => balance = kind,
                None => draft.error(place, unconverted(child), "choose a kind of balance that there is"),
            },
            "keepalive" | "keepalive_timeout" | "keepalive_requests" | "keepalive_time" | "zone" => {
                draft.note(
                    place,
                    format!("{}: connections are kept in any case", child.name),
                    "see connections and keep",
                );
            }
            _ => draft.error(place, unconverted(child), "see the section [[application]]"),
        }
    }
    if endpoints.addresses().is_empty() {
        draft.error(
            &directive.place,
            format!("upstream {} has no server", directive.argument(0)),
            "name one",
        );
    }
    if endpoints.addresses().len() > 1 {
        keys.set(&directive.place, "balance", balance);
    }
    endpoints.set(&directive.place, &mut keys);
    if !health.is_empty() {
        keys.set(&directive.place, "health", Value::Table(health));
    }
    Upstream { name: directive.argument(0).to_owned(), keys }
}

fn server(
    child: &Directive,
    endpoints: &mut Endpoints,
    health: &mut Vec<(String, Value)>,
    draft: &mut Draft,
) {
    let mut weight = 1;
    for argument in child.arguments.iter().skip(1) {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        match (name, value.parse::<i64>()) {
            ("weight", Ok(number)) => weight = number,
            ("max_fails", Ok(number)) if !health.iter().any(|(name, _)| name == "failures") => {
                health.push(("failures".into(), number.clamp(0, 1000).into()));
            }
            // A failure counts for no time.
            ("fail_timeout", Ok(0)) => {
                health.retain(|(name, _)| name != "failures");
                health.push(("failures".into(), 0.into()));
            }
            ("fail_timeout", _) if !health.iter().any(|(name, _)| name == "window") => {
                if let Some(time) = duration(value).filter(|time| time != "0s") {
                    health.push(("window".into(), time.clone().into()));
                    health.push(("pause".into(), time.into()));
                }
            }
            ("max_fails" | "fail_timeout", _) => {}
            ("down", _) => {
                draft.note(&child.place, format!("{} is down", child.argument(0)), "it is left out");
                return;
            }
            ("backup", _) => {
                let what = format!("{} is a backup, and there are none", child.argument(0));
                return draft.warn(&child.place, what, "it is left out");
            }
            ("resolve", _) => {}
            _ => draft.warn(
                &child.place,
                format!("{name} of a server cannot be converted"),
                "it has no effect",
            ),
        }
    }
    match address(child.argument(0), 80) {
        Some(address) => endpoints.add(address, weight),
        None => draft.error(&child.place, unconverted(child), "write an address and a port"),
    }
}

fn hash(key: &str) -> Option<String> {
    Some(match key {
        "$remote_addr" | "$binary_remote_addr" => "hash client".into(),
        "$request_uri" | "$uri" | "$scheme$proxy_host$request_uri" => "hash path".into(),
        key => match (key.strip_prefix("$cookie_"), key.strip_prefix("$http_")) {
            (Some(name), _) => format!("hash cookie {name}"),
            (_, Some(name)) => format!("hash field {}", name.replace('_', "-")),
            _ => return None,
        },
    })
}

/// `127.0.0.1:80` or `unix:/path`. `None`: it has variables, or is none.
pub fn address(text: &str, port: u16) -> Option<String> {
    if text.is_empty() || text.contains('$') {
        return None;
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return path.starts_with('/').then(|| format!("unix:{}", path.trim_end_matches(':')));
    }
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Some(if has_port { text.to_owned() } else { format!("{text}:{port}") })
}

/// Directives about the certificate of an upstream.
pub const OF_TLS: [&str; 3] = ["proxy_ssl_verify", "proxy_ssl_trusted_certificate", "proxy_ssl_name"];

/// What they say.
#[derive(Default)]
pub struct Tls<'d> {
    verifies: bool,
    authorities: Option<&'d str>,
    name: Option<&'d str>,
}

impl<'d> Tls<'d> {
    pub fn of(directives: &[&'d Directive]) -> Tls<'d> {
        let last = |name: &str| {
            let found = directives.iter().find(|directive| directive.name == name);
            found.map(|directive| directive.argument(0)).filter(|value| !value.contains('$'))
        };
        Tls {
            verifies: last("proxy_ssl_verify") == Some("on"),
            authorities: last("proxy_ssl_trusted_certificate"),
            name: last("proxy_ssl_name"),
        }
    }

    fn write(&self, keys: &mut Scope, path: &dyn Fn(&str) -> String, place: &Place, draft: &mut Draft) {
        if let Some(name) = self.name {
            keys.set(place, "tls_name", name);
        }
        if let Some(file) = self.authorities.filter(|_| self.verifies) {
            keys.set(place, "tls_ca", path(file));
        }
        if !self.verifies {
            keys.set(place, "tls_verify", false);
            draft.warn(
                place,
                "nginx verifies no certificate of an upstream",
                "remove tls_verify = false if it has a valid one",
            );
        }
    }
}

/// The name of the upstream at `target`, by this protocol.
pub fn application(
    target: &str,
    protocol: &str,
    tls: &Tls,
    context: &Context,
    place: &Place,
    draft: &mut Draft,
) -> Option<String> {
    let all = context.upstreams;
    let (name, mut keys) = match all.iter().find(|upstream| upstream.name == target) {
        Some(upstream) => (upstream.name.clone(), upstream.keys.clone()),
        None => {
            let port = if protocol == "https" { 443 } else { 80 };
            let mut keys = Scope::new(place.line);
            keys.set(place, "address", vec![address(target, port)?]);
            (protocol.to_owned(), keys)
        }
    };
    keys.set(place, "protocol", protocol);
    if protocol == "https" {
        tls.write(&mut keys, context.path, place, draft);
    }
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect();
    Some(draft.application(&name, keys))
}

/// `30s`, `1m`, `1h 30m`, as one duration.
pub fn duration(text: &str) -> Option<String> {
    let milliseconds = milliseconds(text)?;
    Some(match milliseconds % 1000 {
        0 => format!("{}s", milliseconds / 1000),
        _ => format!("{milliseconds}ms"),
    })
}

fn milliseconds(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let factor = match rest[..unit_end].trim() {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        rest = &rest[unit_end..];
        total = total.checked_add(number.checked_mul(factor)?)?;
    }
    Some(total)
}

/// Bytes of `10m`, `1g`, `512`.
pub fn size(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: i64 = text[..end].parse().ok()?;
    let factor = match text[end..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor).filter(|bytes| *bytes <= 1 << 40)
}
