//! Scripts and upstreams.

use crate::draft::{Draft, Host, IsRun};
use crate::lighttpd::convert::unconverted;
use crate::lighttpd::paths::within;
use crate::lighttpd::upstreams::upstreams;

use super::Setting;

/// The setting, if a program responds.
pub fn apply(setting: &Setting, host: &mut Host, draft: &mut Draft) -> bool {
    let Setting { name, value, place, paths, .. } = *setting;
    match name {
        "cgi.assign" | "fastcgi.server" | "scgi.server" | "proxy.server"
            if value.pairs().is_empty() && !paths.is_empty() =>
        {
            let is_run: IsRun = match name {
                "cgi.assign" => |route| route.get("cgi").is_some(),
                "proxy.server" => |route| route.get("proxy").is_some(),
                _ => |route| route.get("interpreter").or(route.get("application")).is_some(),
            };
            host.unrun.extend(paths.iter().map(|path| (path.clone(), place.clone(), is_run)));
        }
        "cgi.assign" => scripts(setting, host, draft),
        "cgi.local-redir" if paths.is_empty() => draft.scripts.set(place, "local_redirects", value.is_on()),
        "cgi.local-redir" => draft.error(place, unconverted(name), "write it for all paths, or remove it"),
        "fastcgi.server" => upstreams(value, "fastcgi", paths, place, host, draft),
        "scgi.server" => upstreams(value, "scgi", paths, place, host, draft),
        "proxy.server" => upstreams(value, "http", paths, place, host, draft),
        "proxy.balance" | "fastcgi.balance" => {
            draft.warn(place, format!("{name} is not converted"), "see balance")
        }
        "proxy.header" | "proxy.forwarded" => {
            let what = format!("{name}: upstreams have X-Forwarded-For and may upgrade to WebSocket");
            draft.note(place, what, "see the manual on proxies");
        }
        _ => return false,
    }
    true
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
