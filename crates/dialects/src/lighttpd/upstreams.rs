//! `proxy.server`, `fastcgi.server` and `scgi.server`.

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
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
        // One server without a list around it.
        let one = [(None, Datum::List(servers.clone()))];
        let is_one = servers
            .iter()
            .any(|(name, _)| name.as_deref() == Some("host") || name.as_deref() == Some("socket"));
        let mut addresses = Vec::new();
        for (_, server) in if is_one { one.as_slice() } else { servers.as_slice() } {
            let option = |wanted: &str| {
                server
                    .pairs()
                    .iter()
                    .find(|(name, _)| *name == wanted)
                    .map(|(_, datum)| datum.text().to_owned())
            };
            if option("bin-path").is_some() {
                draft.warn(place, "bin-path: the program is not started", "see command of [[application]]");
            }
            match (option("socket"), option("host"), option("port")) {
                (Some(socket), _, _) => addresses.push(format!("unix:{socket}")),
                (None, Some(host), _) if host.starts_with('/') => addresses.push(format!("unix:{host}")),
                (None, Some(host), port) => {
                    addresses.push(format!("{host}:{}", port.unwrap_or_else(|| "80".into())))
                }
                _ => draft.error(
                    place,
                    format!("\"{}\" has no host and no socket", key.escape_debug()),
                    "name one",
                ),
            }
        }
        if addresses.is_empty() {
            continue;
        }
        let mut keys = Scope::new(place.line);
        keys.set(place, "address", Value::Texts(addresses));
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
