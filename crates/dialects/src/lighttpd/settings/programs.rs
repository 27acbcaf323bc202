//! Scripts and upstreams.

use crate::brackets::is_glob;
use crate::draft::{Draft, Host, IsRun, Scope};
use crate::lighttpd::convert::unconverted;
use crate::lighttpd::paths::within;
use crate::lighttpd::read::Datum;
use crate::lighttpd::upstreams::upstreams;
use crate::within::server_and_path;

use super::Setting;

/// The setting, if a program responds.
pub fn apply(setting: &Setting, host: &mut Host, draft: &mut Draft) -> bool {
    let Setting { name, value, place, paths, .. } = *setting;
    match name {
        "cgi.assign" | "fastcgi.server" | "scgi.server" | "proxy.server"
            if value.pairs().is_empty() && !paths.is_empty() =>
        {
            host.unrun.extend(paths.iter().map(|path| (path.clone(), place.clone(), is_run(name))));
        }
        "cgi.assign" => {
            let value = with_programs(setting, host, draft);
            scripts(&Setting { value: &value, ..*setting }, host, draft);
        }
        "cgi.local-redir" if paths.is_empty() => draft.scripts.set(place, "local_redirects", value.is_on()),
        "cgi.local-redir" => draft.error(place, unconverted(name), "write it for all paths, or remove it"),
        "fastcgi.server" | "scgi.server" => {
            let protocol = name.trim_end_matches(".server");
            let value = with_programs(setting, host, draft);
            upstreams(&value, protocol, paths, place, host, draft);
        }
        "proxy.server" => upstreams(value, "http", paths, place, host, draft),
        "proxy.balance" | "fastcgi.balance" => {
            draft.warn(place, format!("{name} is not converted"), "see balance")
        }
        "proxy.forwarded" => note_fields(setting, draft),
        "proxy.header" => upstream_paths(setting, host, draft),
        _ => return false,
    }
    true
}

/// Whether a route runs files as this directive says.
fn is_run(name: &str) -> IsRun {
    match name {
        "cgi.assign" => |route| route.get("cgi").is_some(),
        "proxy.server" => |route| route.get("proxy").is_some(),
        _ => |route| route.get("interpreter").or(route.get("application")).is_some(),
    }
}

/// Leaves out the pairs without a program, whose files the list around a condition runs, and its own does not.
fn with_programs(setting: &Setting, host: &mut Host, draft: &mut Draft) -> Datum {
    let Setting { name, value, place, paths, .. } = *setting;
    let is_nothing = |program: &Datum| matches!(program, Datum::List(all) if all.is_empty());
    let (without, with): (Vec<_>, Vec<_>) =
        value.pairs().into_iter().partition(|(_, program)| is_nothing(program) && !paths.is_empty());
    for (ending, _) in without.into_iter().filter(|(ending, _)| !ending.starts_with('/')) {
        match within(paths, ending) {
            Some(patterns) => {
                host.unrun.extend(patterns.into_iter().map(|pattern| (pattern, place.clone(), is_run(name))))
            }
            None => {
                let what = format!("{name}: files with {ending} would still be run");
                draft.error(place, what, "write prefixes, or patterns with *");
            }
        }
    }
    Datum::List(with.into_iter().map(|(key, program)| (Some(key.to_owned()), program.clone())).collect())
}

fn note_fields(setting: &Setting, draft: &mut Draft) {
    let what = format!("{}: upstreams have X-Forwarded-For and may upgrade to WebSocket", setting.name);
    draft.note(setting.place, what, "see the manual on proxies");
}

/// What an upstream gets in place of the path and the host of a request.
fn upstream_paths(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, .. } = *setting;
    note_fields(setting, draft);
    for (from, to) in value.option("map-urlpath").map(Datum::pairs).unwrap_or_default() {
        let is_meant = |route: &Scope| {
            let begins = from.starts_with('/') && route.path().starts_with(from);
            begins && setting.is_for(route.path()) && route.get("proxy").is_some()
        };
        let all: Vec<&mut Scope> = host.routes.iter_mut().filter(|route| is_meant(route)).collect();
        if all.is_empty() {
            let what = unconverted(&format!("{name} \"map-urlpath\" of \"{from}\""));
            draft.error(place, what, "write the path of its upstream, as $HTTP[\"url\"] =^ \"/app/\"");
        }
        for route in all {
            if map_path(route, from, to.text()).is_none() {
                let what = format!("{} does not lead to the upstream, and gets 404", route.path());
                draft.warn(place, what, "nothing to do, unless such paths are needed");
                route.deny(404.into());
            }
        }
    }
    for (from, _) in value.option("map-host-request").map(Datum::pairs).unwrap_or_default() {
        let what = format!("{name} \"map-host-request\" of \"{from}\" has no effect");
        draft.warn(place, what, "see proxy_host");
    }
}

/// Gives the upstream of a route the path that it gets. `None`: what is behind the text is not known here.
fn map_path(route: &mut Scope, from: &str, to: &str) -> Option<()> {
    let rest = route.path().strip_prefix(from).filter(|rest| !is_glob(rest))?;
    let server = route.text("proxy")?;
    // The first pair that begins a path counts.
    if server_and_path(server).1.is_empty() {
        let path = format!("{to}{rest}");
        let url = format!("{server}/{}", path.trim_start_matches('/'));
        route.set(&route.place(), "proxy", url);
    }
    Some(())
}

fn scripts(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths, .. } = *setting;
    draft.scripts.preset("local_redirects", false, "lighttpd sends the client to the path.");
    for (ending, program) in value.pairs() {
        let patterns = match ending {
            "" => Some(paths.to_vec()),
            ending => within(paths, ending),
        };
        let Some(patterns) = patterns else {
            draft.error(place, unconverted(name), "write the folders whose files are scripts");
            continue;
        };
        for pattern in patterns {
            let route = host.route(&pattern, place);
            route.set(place, "cgi", true);
            if !program.text().is_empty() {
                route.set(place, "interpreter", program.text());
            }
        }
    }
}
