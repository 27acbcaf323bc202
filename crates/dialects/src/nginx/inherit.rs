//! Keeps from a route the settings that it would inherit here, and not in nginx.
//!
//! A location has what its server has, and nothing of another location. Here a pattern for one path, or one with
//! wildcards, has what the route of its folder has, too.

use crate::brackets::is_glob;
use crate::document::Value;
use crate::draft::{Draft, Host, Scope, WAYS};

use super::cache_control;

/// Applies the inheritance of nginx to the routes of a host.
pub fn settle(host: &mut Host, draft: &mut Draft) {
    if let [only] = host.routes.as_slice()
        && only.text("path") == Some("/")
        && is_plain(only)
    {
        lift(host);
    }
    let top = draft.top.clone();
    for scope in std::iter::once(&mut host.scope).chain(&mut host.routes) {
        if adds_fields(scope) {
            without_fields(scope, &top, draft);
        }
    }
    one_response(host, draft);
    folders_alone(host, draft);
    without_root(host, draft);
    cache_control::settle(host, draft);
    passed_indexes(host, draft);
    let outers: Vec<Scope> = host.routes.iter().filter(|route| is_prefix(route)).cloned().collect();
    let server = [&host.scope, &draft.top].map(Scope::clone);
    for route in &mut host.routes {
        if !may_be_folder(route.path()) {
            ["index", "listing"].iter().for_each(|name| route.remove(name));
        }
        // The name of a fallback is no index file.
        if let Some(index) = server.iter().find_map(|scope| scope.get("index"))
            && route.text("fallback").is_some()
            && route.get("index").is_none()
        {
            route.set(&route.place(), "index", index.clone());
        }
        no_fallback(route, &outers);
        no_suffixes(route, &outers);
        no_denial(route, &outers, &server, draft);
        if !is_prefix(route) {
            let path = route.path().to_owned();
            for outer in outers.iter().filter(|outer| below(&path, outer.path())) {
                restore(route, outer, &server, draft);
            }
        }
    }
    fields_of_indexes(host, &server);
    origins(host, &outers);
}

/// Keys about other origins.
pub const CROSS_ORIGIN: [&str; 6] = [
    "cors_origins",
    "cors_methods",
    "cors_fields",
    "cors_exposed_fields",
    "cors_credentials",
    "cors_max_age",
];

/// A location with `add_header` has none of those around it, and so does not share with the origins that they name. And
/// a pattern would have here what the route of its folder says, where in nginx it has what the server says.
fn origins(host: &mut Host, outers: &[Scope]) {
    let shares = |scope: &Scope| scope.get("cors_origins").is_some();
    for route in host.routes.iter_mut().filter(|route| !shares(route)) {
        let leaks = !is_prefix(route)
            && outers.iter().any(|outer| shares(outer) && below(route.path(), outer.path()));
        let adds = adds_fields(route);
        if adds && shares(&host.scope) || leaks && (adds || !shares(&host.scope)) {
            route.set(&route.place(), "cors_origins", Vec::<String>::new());
        } else if leaks {
            for name in CROSS_ORIGIN {
                if let Some(value) = host.scope.get(name) {
                    route.set(&route.place(), name, value.clone());
                }
            }
        }
    }
}

/// Whether it has `add_header`.
pub fn adds_fields(scope: &Scope) -> bool {
    scope.pairs("headers").iter().any(|(_, value)| *value != Value::Flag(false))
}

/// A folder has the fields of its index file, which can have a location of its own.
fn fields_of_indexes(host: &mut Host, server: &[Scope; 2]) {
    const FIELDS: [&str; 2] = ["headers", "cache_control"];
    let mut all = Vec::new();
    for route in
        host.routes.iter().filter(|route| !route.responds() && !route.runs() && has_any(route, &FIELDS))
    {
        let Some((folder, name)) = route.path().rsplit_once('/').filter(|_| !is_glob(route.path())) else {
            continue;
        };
        let around =
            host.routes.iter().filter(|outer| is_prefix(outer) && route.path().starts_with(outer.path()));
        let around = around.max_by_key(|outer| outer.path().len());
        let index = around.into_iter().chain(server).find_map(|scope| scope.get("index"));
        let first = index.map_or(Some("index.html"), |index| index.texts().iter().map(String::as_str).next());
        let alone = format!("{folder}/.");
        let sends_files = !around.is_some_and(|outer| outer.responds() || outer.runs());
        if first != Some(name)
            || !sends_files
            || has_any(route, &["root", "alias"])
            || host.routes.iter().any(|other| other.path() == alone)
        {
            continue;
        }
        let mut own = Scope::new(route.place().line);
        own.set(&route.place(), "path", alone);
        for name in FIELDS {
            if let Some(value) = route.get(name) {
                own.set(&route.place(), name, value.clone());
            }
        }
        all.push(own);
    }
    host.routes.extend(all);
}

pub fn is_prefix(route: &Scope) -> bool {
    route.path().ends_with('/')
}

pub fn has_any(route: &Scope, names: &[&str]) -> bool {
    names.iter().any(|name| route.get(name).is_some())
}

pub fn is_upstream(route: &Scope) -> bool {
    has_any(route, &["proxy", "application", "interpreter"])
}

pub fn has_field(scope: &Scope, name: &str) -> bool {
    scope.pairs("headers").iter().any(|(own, _)| own.trim_start_matches('+').eq_ignore_ascii_case(name))
}

/// Whether a folder can have a path of this pattern, as it is written usually.
fn may_be_folder(pattern: &str) -> bool {
    let name = pattern.rsplit('/').next().unwrap_or_default();
    !name.contains('.') || name.ends_with(['.', '*'])
}

/// What has `add_header` has none of the fields around it.
pub fn without_fields(scope: &mut Scope, outer: &Scope, draft: &mut Draft) {
    let place = scope.place();
    // A field that is hidden there is hidden here, too.
    let added = outer.pairs("headers").iter().filter(|(_, value)| *value != Value::Flag(false));
    for name in added.map(|(name, _)| name.trim_start_matches('+')) {
        if has_field(scope, name) {
            continue;
        }
        scope.pair(&place, "headers", name, false);
        if is_upstream(scope) {
            let what = format!("the field {name} of the upstream is removed with that of the server");
            draft.warn(&place, what, "write it in this location, too");
        }
    }
}

/// Nothing but settings that a host can have, too.
pub fn is_plain(route: &Scope) -> bool {
    !route.responds() && !has_any(route, &["alias", "interpreter", "proxy_host", "proxy_headers"])
}

/// The only location has all paths: what it sets, its host can set.
fn lift(host: &mut Host) {
    let Some(route) = host.routes.pop() else { return };
    let (mut settings, protection) = route.split();
    let place = protection.place();
    let mut fields = settings.pairs("headers").to_vec();
    fields.retain(|(_, value)| *value != Value::Flag(false));
    ["path", "headers"].iter().for_each(|name| settings.remove(name));
    if !fields.is_empty() {
        settings.set(&place, "headers", Value::Table(fields));
    }
    host.scope.replace(&settings);
    if protection.protects() {
        host.route("/", &place).inherit(&protection);
    }
}

/// The index file of a folder is that of its own location, which asks for what it needs again. So the location of the
/// folder alone opens nothing.
fn folders_alone(host: &mut Host, draft: &mut Draft) {
    let outers: Vec<Scope> = host.routes.iter().filter(|route| is_prefix(route)).cloned().collect();
    for route in &mut host.routes {
        if !route.path().ends_with("/.") || route.responds() || route.get("fallback").is_some() {
            continue;
        }
        let around = outers.iter().filter(|outer| route.path().starts_with(outer.path()));
        let around: Vec<&Scope> = around.chain([&host.scope, &draft.top]).collect();
        let opens = around.iter().any(|outer| outer.get("auth").is_some_and(|auth| *auth != "off".into()))
            && route.get("auth") == Some(&"off".into());
        let allows = around.iter().any(|outer| !outer.rules.is_empty())
            && route.rules.iter().any(|rule| rule.text("then") == Some("allow"));
        if opens {
            route.remove("auth");
        }
        if allows {
            route.rules.retain(|rule| rule.text("then") != Some("allow"));
        }
        if opens || allows {
            let what = format!("{} does not open its index file", route.path().trim_end_matches('.'));
            let what_to_do = "nginx asks for it by the location of the file; open that one";
            draft.warn(&route.place(), what, what_to_do);
        }
    }
}

/// Reports an upstream that nginx asks for index files: here the folder has none.
fn passed_indexes(host: &Host, draft: &mut Draft) {
    let scopes = || host.routes.iter().chain([&host.scope, &draft.top]);
    let names: Vec<&String> =
        scopes().filter_map(|scope| scope.get("index")).flat_map(Value::texts).collect();
    let mut found = Vec::new();
    for route in host.routes.iter().filter(|route| has_any(route, &["proxy", "application"])) {
        let end = route.path().strip_prefix('*').filter(|end| !end.contains(['*', '?', '/']));
        let Some(end) = end else { continue };
        if let Some(name) = names.iter().find(|name| name.ends_with(end)) {
            found.push((route.place(), format!("{} is not asked for the folders with {name}", route.path())));
        }
    }
    for (place, what) in found {
        draft.warn(&place, what, "name the file in requests, or in try_files of location /");
    }
}

/// Reports a route that several directives respond for, such as a rewrite and a proxy.
fn one_response(host: &mut Host, draft: &mut Draft) {
    for route in &mut host.routes {
        let own: Vec<&str> = WAYS.into_iter().filter(|way| route.get(way).is_some()).collect();
        if own.len() > 1 {
            let what = format!("{} has {} at once", route.path(), own.join(" and "));
            draft.error(&route.place(), what, "decide for one of them");
            own[1..].iter().for_each(|way| route.remove(way));
        }
        let needless: &[&str] = match (own.is_empty(), route.get("alias").is_some()) {
            (false, _) => &["root", "alias", "interpreter"],
            (true, true) => &["root"],
            (true, false) => &[],
        };
        needless.iter().for_each(|name| route.remove(name));
    }
}

/// nginx has a folder of its own where no root is set. Here is none.
fn without_root(host: &mut Host, draft: &mut Draft) {
    if host.scope.get("root").is_some() {
        return;
    }
    if host.routes.is_empty() && !host.is_to_https {
        let place = host.scope.place();
        draft.warn(&place, "a server has no root", "the response is 404; write root in the server");
        host.route("/", &place).set(&place, "return", 404);
        host.scope.remove("fallback");
        host.scope.remove("fallback_for");
    }
    let roots: Vec<String> = host
        .routes
        .iter()
        .filter(|route| is_prefix(route) && has_any(route, &["root", "alias"]))
        .map(|route| route.path().to_owned())
        .collect();
    for route in &mut host.routes {
        if route.responds() || has_any(route, &["root", "alias"]) {
            continue;
        }
        let is_within = !is_prefix(route) && roots.iter().any(|root| below(route.path(), root));
        if is_within {
            continue;
        }
        let what = format!("{} has no root", route.path());
        match route.get("interpreter").is_some() {
            true => draft.error(&route.place(), what, "write root in the server"),
            false => draft.warn(&route.place(), what, "the response is 404; write root in the server"),
        }
        route.remove("interpreter");
        route.set(&route.place(), "return", 404);
    }
}

/// Whether a pattern may find paths below a prefix.
pub fn below(pattern: &str, prefix: &str) -> bool {
    let literal = pattern.split(['*', '?']).next().unwrap_or_default();
    let literal = literal.strip_suffix("/.").unwrap_or(literal);
    let is_exact = !is_glob(pattern);
    !pattern.starts_with('/')
        || literal.starts_with(prefix)
        || (!is_exact && prefix.starts_with(literal))
        || prefix == "/"
}

/// `try_files` is for the location that has it.
fn no_fallback(route: &mut Scope, outers: &[Scope]) {
    let ends = |outer: &Scope| outer.get("fallback").is_some() && below(route.path(), outer.path());
    let is_around = !is_prefix(route) && outers.iter().any(ends);
    if is_around && route.get("fallback").is_none() && !route.responds() && !is_closed(route) {
        route.set(&route.place(), "fallback", false);
    }
}

/// Nor has another location what `try_files` looks for besides the path.
fn no_suffixes(route: &mut Scope, outers: &[Scope]) {
    let tries = |outer: &Scope| outer.get("try_suffixes").is_some() && below(route.path(), outer.path());
    let sends_files = !route.responds() && !route.runs() && !is_closed(route);
    if sends_files && !is_prefix(route) && route.get("try_suffixes").is_none() && outers.iter().any(tries) {
        route.set(&route.place(), "try_suffixes", Vec::<String>::new());
    }
}

/// A location of a path in a denied prefix is open: nginx has nothing of the prefix for it. A pattern would open nothing.
fn no_denial(route: &mut Scope, outers: &[Scope], server: &[Scope; 2], draft: &mut Draft) {
    let around = outers.iter().filter(|outer| outer.path() != "/" && route.path().starts_with(outer.path()));
    let is_path = !is_prefix(route) && !is_glob(route.path());
    let Some(outer) = around.max_by_key(|outer| outer.path().len()).filter(|_| is_path) else { return };
    let has_rules = !route.rules.is_empty() || server.iter().any(|scope| !scope.rules.is_empty());
    if has_rules || !is_closed(outer) || route.get("return").is_some() {
        return;
    }
    let place = route.place();
    let mut rule = Scope::new(place.line);
    rule.set(&place, "then", "allow");
    route.rules.push(rule);
    let what = format!("{} is open, as in nginx, though {} is denied", route.path(), outer.path());
    draft.note(&place, what, "nothing to do");
}

/// It denies all clients.
pub fn is_closed(route: &Scope) -> bool {
    const CONDITIONS: [&str; 8] =
        ["address", "method", "host", "path", "query", "user_agent", "referer", "field"];
    route.rules.first().is_some_and(|rule| {
        rule.text("then") == Some("deny") && CONDITIONS.iter().all(|name| rule.get(name).is_none())
    })
}

/// Gives the route of a file, or of a pattern with wildcards, what its server has in place of what the location of a
/// prefix has.
fn restore(route: &mut Scope, outer: &Scope, server: &[Scope; 2], draft: &mut Draft) {
    if has_any(route, &["redirect", "rewrite", "return", "respond", "monitor"]) || is_closed(route) {
        return;
    }
    let place = route.place();
    let of_server = |name: &str| server.iter().find_map(|scope| scope.get(name)).cloned();
    let defaults: [(&str, Value); 8] = [
        ("index", Value::Texts(vec!["index.html".to_owned()])),
        ("listing", false.into()),
        ("compress", false.into()),
        ("precompressed", Value::Texts(Vec::new())),
        ("charset", false.into()),
        ("default_type", "text/plain".into()),
        ("symlinks", "follow".into()),
        ("max_body", (1_i64 << 20).into()),
    ];
    let may_be_folder = may_be_folder(route.path());
    let sends_no_files = has_any(route, &["proxy", "application"]);
    for (name, default) in defaults {
        let is_needless = match name {
            "max_body" => false,
            "index" | "listing" => !may_be_folder || sends_no_files,
            _ => sends_no_files,
        };
        if outer.get(name).is_some() && route.get(name).is_none() && !is_needless {
            route.set(&place, name, of_server(name).unwrap_or(default));
        }
    }
    for (name, _) in outer.pairs("headers").iter().filter(|(_, value)| *value != Value::Flag(false)) {
        let name = name.trim_start_matches('+');
        let has_cache_control =
            route.get("cache_control").is_some() && name.eq_ignore_ascii_case("cache-control");
        if has_cache_control || has_field(route, name) {
            continue;
        }
        let inherited = server
            .iter()
            .find_map(|scope| scope.pairs("headers").iter().find(|(own, _)| own.eq_ignore_ascii_case(name)));
        match inherited {
            Some((name, value)) => route.pair(&place, "headers", name, value.clone()),
            None if is_upstream(route) => {
                let what = format!("{} has {name} of location {}, too", route.path(), outer.path());
                draft.warn(&place, what, "write add_header in the locations of files, or in the server");
            }
            None => route.pair(&place, "headers", name, false),
        }
    }
    for name in ["error_pages", "types", "compress_types", "compress_from", "gunzip"] {
        if outer.get(name).is_some() && route.get(name).is_none() && !sends_no_files {
            draft.warn(
                &place,
                format!("{} has {name} of location {}, too", route.path(), outer.path()),
                "write it in the server",
            );
        }
    }
}
