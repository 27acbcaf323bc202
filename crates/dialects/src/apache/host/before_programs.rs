//! What comes before the programs that run files: rules that lead to other paths.

use crate::draft::{Host, Scope, TOO_MANY_ROUTES};
use crate::pattern;

/// Rules lead to other paths before a program is found for a file: their patterns come first.
pub(super) fn rewrite_before_programs(host: &mut Host) {
    let is_glob = |route: &Scope| route.text("path").is_some_and(|path| path.contains(['*', '?']));
    let Some(first) =
        host.routes.iter().position(|route| is_glob(route) && route.runs() && !route.protects())
    else {
        return;
    };
    let behind = host.routes.split_off(first);
    let leads = |route: &Scope| is_glob(route) && leads_away(route);
    let (rewrites, others): (Vec<Scope>, Vec<Scope>) = behind.into_iter().partition(leads);
    host.routes.extend(rewrites.into_iter().chain(others));
}

fn leads_away(route: &Scope) -> bool {
    route.get("redirect").is_some() || route.get("rewrite").is_some()
}

/// A pattern has no file of a prefix that is redirected or rewritten, and a program of `ProxyPassMatch` runs none of a
/// prefix that is passed on before it.
pub(super) fn pass_on_before_programs(host: &mut Host) {
    let precedes = |prefix: &Scope, glob: &Scope| {
        let is_of_match = glob.get("interpreter").is_some() && glob.get("root").is_some();
        let is_earlier = prefix.get("proxy").is_some() && prefix.place().line < glob.place().line;
        is_of_match && is_earlier || leads_away(prefix)
    };
    let path = |route: &Scope| route.text("path").unwrap_or_default().to_owned();
    let prefixes: Vec<Scope> = host
        .routes
        .iter()
        .filter(|route| path(route).ends_with('/') && path(route) != "/")
        .cloned()
        .collect();
    let mut at = 0;
    while let Some(glob) = host.routes.get(at).filter(|_| host.routes.len() <= TOO_MANY_ROUTES).cloned() {
        at += 1;
        if glob.responds() && !glob.runs() || !path(&glob).contains(['*', '?']) {
            continue;
        }
        for prefix in prefixes.iter().filter(|prefix| precedes(prefix, &glob)) {
            let place = prefix.place();
            let (_, mut own) = glob.clone().split();
            own.line = Some(place.line);
            own.set(&place, "path", "");
            let patterns = match prefix.text("rewrite") {
                None => pattern::all_beginning(&path(prefix), &path(&glob)),
                // The rest of the path is what the wildcard finds, with the end behind it.
                Some(to) => {
                    let end = path(&glob).trim_start_matches('*').to_owned();
                    let to = to.replace("${rest}", "$rest").replace("$rest", &format!("$1{end}"));
                    own.set(&place, "rewrite", to);
                    let is_end = !end.contains(['*', '?', '/', '$', '(']);
                    is_end.then(|| format!("{}**{end}", path(prefix))).into_iter().collect()
                }
            };
            for pattern in patterns {
                if host.routes.iter().all(|route| path(route) != pattern) {
                    let mut route = own.clone();
                    route.set(&place, "path", pattern);
                    host.routes.insert(at - 1, route);
                    at += 1;
                }
            }
        }
    }
}
