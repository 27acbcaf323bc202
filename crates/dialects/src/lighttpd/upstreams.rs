//! `proxy.server`, `fastcgi.server` and `scgi.server`.

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::endpoints::Endpoints;
use crate::tree::Place;

use super::convert::unconverted;
use super::paths::{prefixes, within};
use super::read::Datum;

pub(super) fn upstreams(
    value: &Datum,
    protocol: &str,
    paths: &[String],
    place: &Place,
    host: &mut Host,
    draft: &mut Draft,
) {
    for (key, servers) in value.pairs() {
        let Datum::List(servers) = servers else {
            draft.error(place, unconverted(key), "write ( \"host\" => \"ADDRESS\", \"port\" => PORT )");
            continue;
        };
        let servers = each_server(servers);
        let is_started = |server: &&Datum| server.option("bin-path").is_some();
        let keys = match (servers.iter().find(is_started), servers.len()) {
            (None, _) => external(&servers, key, place, draft),
            (Some(server), 1) => started(server, place, draft),
            (Some(_), _) => {
                let what = format!("\"{}\" has several servers, and bin-path", key.escape_debug());
                draft.error(place, what, "keep one server; max-procs says how many processes it has");
                None
            }
        };
        let Some(mut keys) = keys else { continue };
        keys.set(place, "protocol", protocol);
        let name = draft.application(protocol, keys);
        let patterns = match key {
            "" | "/" if paths.is_empty() => vec!["/".to_owned()],
            "" | "/" => paths.to_vec(),
            key if key.starts_with('/') => prefixes(key),
            key => match within(paths, key) {
                Some(patterns) => patterns,
                None => {
                    let what = format!("{protocol}.server \"{}\" cannot be converted", key.escape_debug());
                    draft.error(place, what, "write the folders of its files");
                    continue;
                }
            },
        };
        for pattern in patterns {
            let route = host.route(&pattern, place);
            let has_ending = !key.is_empty() && !key.starts_with('/');
            match (protocol, has_ending || pattern.contains('*')) {
                ("http", _) => route.set(place, "proxy", format!("http://{name}")),
                (_, true) => route.set(place, "interpreter", name.as_str()),
                (_, false) => route.set(place, "application", name.as_str()),
            }
        }
    }
}

/// The servers of a list. One may have no list around it.
fn each_server(servers: &[(Option<String>, Datum)]) -> Vec<Datum> {
    let is_option = |(name, _): &(Option<String>, Datum)| {
        name.as_deref().is_some_and(|name| ["host", "socket", "bin-path"].contains(&name))
    };
    match servers.iter().any(is_option) {
        true => vec![Datum::List(servers.to_vec())],
        false => servers.iter().map(|(_, server)| server.clone()).collect(),
    }
}

/// Servers that something else starts.
fn external(servers: &[Datum], key: &str, place: &Place, draft: &mut Draft) -> Option<Scope> {
    let mut endpoints = Endpoints::default();
    for server in servers {
        let option = |name: &str| server.option(name).map(Datum::text);
        match (option("socket"), option("host"), option("port")) {
            (Some(socket), _, _) => endpoints.add(format!("unix:{socket}"), 1),
            (None, Some(host), _) if host.starts_with('/') => endpoints.add(format!("unix:{host}"), 1),
            (None, Some(host), port) => endpoints.add(format!("{host}:{}", port.unwrap_or("80")), 1),
            _ => draft.error(
                place,
                format!("\"{}\" has no host and no socket", key.escape_debug()),
                "name one",
            ),
        }
    }
    if endpoints.addresses().is_empty() {
        return None;
    }
    let mut keys = Scope::new(place.line);
    endpoints.set(place, &mut keys);
    Some(keys)
}

/// A program that the server starts, with a listening socket as its standard input, as lighttpd does.
fn started(server: &Datum, place: &Place, draft: &mut Draft) -> Option<Scope> {
    let mut keys = Scope::new(place.line);
    let command: Vec<String> =
        server.option("bin-path")?.text().split_ascii_whitespace().map(str::to_owned).collect();
    if !command.first().is_some_and(|program| program.starts_with('/')) {
        draft.error(place, "bin-path does not begin with a program", "write its whole path");
        return None;
    }
    keys.set(place, "command", Value::Texts(command));
    if let Some(processes) = server.option("max-procs").and_then(Datum::number) {
        keys.set(place, "processes", processes);
    }
    for (name, value) in server.option("bin-environment").map(Datum::pairs).unwrap_or_default() {
        keys.pair(place, "env", name, value.text());
        if let ("PHP_FCGI_CHILDREN", Some(children @ 1..)) = (name, value.number()) {
            keys.preset("concurrent", children, "PHP has so many processes for one.");
        }
    }
    keys.preset("new_privileges", true, "lighttpd takes nothing from its programs.");
    Some(keys)
}
