//! `location`: its settings, and what is within it.

mod paths;
mod routes;

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::regex;
use crate::tree::{Directive, unconverted};

use super::answers::{self, Answers};
use super::around::{ANSWER, all, around};
use super::cache;
use super::cross_origin::shared;
use super::early;
use super::inherit::{CROSS_ORIGIN, adds_fields};
use super::missing::{self, is_condition, is_missing_script, missing, try_files};
use super::named;
use super::names::{UPSTREAM_TIMEOUTS, WITHOUT_EFFECT};
use super::order::{EXPRESSION, ORDER, Order, prefix_of};
use super::passing::{hide, proxy_header, proxy_pass, script_file, upstream, upstream_timeout, variable};
use super::returns::{groups, is_last_of_rewrites, is_type_of_text, respond, rewrite, rewritten_url};
use super::settings::{Context, asks_at, limit_except, setting};
use super::upstreams::{OF_TLS, Tls};
use crate::brackets::is_glob;
use paths::{allowed_scripts, longer_names, of_any_case, patterns};
use routes::{begun, files_before_upstream, finish, with_first};

pub use paths::{denies_only, with_slash};
pub use routes::rest_of_rules;

/// The location around another one.
pub struct Outer<'o> {
    /// `None`: it is an expression, or one path.
    prefix: Option<&'o str>,
    scope: &'o Scope,
    directives: &'o [Directive],
}

pub fn location(
    child: &Directive,
    host: &mut Host,
    context: &Context,
    outer: Option<&Outer>,
    draft: &mut Draft,
) {
    if child.argument(0).starts_with('@') {
        return;
    }
    let Some(mut patterns) = patterns(child, outer, draft) else { return };
    without_folder(child, &mut patterns, context);
    if is_decision(child, context) {
        return hide_decision(child, &patterns, host, draft);
    }
    let mut scope = Scope::new(child.place.line);
    let directives = shared(&all(child, &context.around), context.maps, &mut scope, draft);
    let Apart { locations, rewrites, rules, is_internal } =
        apply(child, &directives, &patterns, &mut scope, context, draft);
    missing::keep_no_folders(&directives, &mut scope);
    if named::passes(child) {
        cache::settings(&directives, context.caches, &mut scope, draft);
    }
    warn_of_authorizer(child, &scope, host, draft);
    let allowed = rewrite_all(&rewrites, &patterns, &mut scope, host, context, draft);
    missing::rewrites(&directives, &patterns, &mut scope, host, context, draft);
    if is_internal {
        internal(child, &patterns, &mut scope, host, context, draft);
    }
    if scope.get("monitor").is_some() && scope.get("return").is_none() {
        show_to_few(&mut scope, host, draft);
    }
    files_before_upstream(child, &patterns, &scope, draft);
    if child.argument(0).starts_with('~') && outer.is_none() {
        scope.set(&child.place, EXPRESSION, true);
    }
    let rules = before_access(rules, &scope, host, draft);
    if let Some(outer) = outer {
        nest(child, outer, &mut scope, draft);
    }
    if child.argument(0) == "~*" {
        let is_script = scope.get("interpreter").is_some();
        patterns =
            patterns.iter().flat_map(|pattern| of_any_case(pattern, is_script, child, draft)).collect();
    }
    if let Some(pattern) = longer_names(child) {
        begun(&pattern, child, &with_first(&scope, &rules), host, context, draft);
    }
    // An alias of one file.
    if let [folder, path] = patterns.as_slice()
        && *folder == format!("{path}/")
        && scope.text("alias").is_some_and(|alias| is_one_file(alias, path, context))
    {
        patterns.remove(0);
    }
    locations_within(child, &locations, &scope, host, context, draft);
    if let Some(allowed) = allowed {
        finish(&allowed, scope.clone(), &rules, host, draft);
        scope.set(&child.place, "return", 404);
        scope.remove("env");
    }
    finish(&patterns, scope, &rules, host, draft);
}

/// Another location has the folder of `/a` if there is one for `/a/`.
fn without_folder(child: &Directive, patterns: &mut Vec<String>, context: &Context) {
    let Some(text) = prefix_of(child).filter(|text| !text.ends_with('/')) else { return };
    let folder = format!("{text}/");
    let is_taken = child.arguments.len() == 1 && has_expression(context.server, &folder);
    if is_taken || has_prefix(context.server, &folder) {
        patterns.retain(|path| *path != folder);
    }
}

/// Whether an expression of a server has all that is below a folder.
fn has_expression(block: &[Directive], folder: &str) -> bool {
    let is_expression = |child: &&Directive| child.name == "location" && child.argument(0).starts_with('~');
    block.iter().filter(is_expression).any(|child| {
        regex::patterns(&with_slash(child.argument(1)))
            .is_some_and(|all| all.iter().any(|path| path == folder))
    })
}

fn has_prefix(block: &[Directive], text: &str) -> bool {
    block.iter().filter(|child| child.name == "location").any(|child| {
        prefix_of(child).is_some_and(|prefix| prefix == text) || has_prefix(child.children(), text)
    })
}

fn warn_of_authorizer(child: &Directive, scope: &Scope, host: &Host, draft: &mut Draft) {
    let of_both = |name: &str| scope.get(name).or(host.scope.get(name));
    if of_both("satisfy") == Some(&"any".into())
        && of_both("authorizer").is_some_and(|own| *own != false.into())
    {
        let what = "satisfy any: the authorizer and the rules both have to allow a request";
        draft.warn(&child.place, what, "give what needs no login a location with auth_request off");
    }
}

/// The rewrites of a location. Returns the patterns of the only scripts that are run, if one of them says so.
fn rewrite_all(
    rewrites: &[&Directive],
    patterns: &[String],
    scope: &mut Scope,
    host: &mut Host,
    context: &Context,
    draft: &mut Draft,
) -> Option<Vec<String>> {
    let mut allowed = None;
    for inner in rewrites {
        if scope.get("interpreter").is_some()
            && let Some(scripts) = allowed_scripts(inner, patterns)
        {
            let what = format!("\"{}\": scripts that it leaves out are not run", inner.text());
            draft.warn(&inner.place, what, "the response is 404, in place of that of the script it leads to");
            allowed = Some(scripts);
            continue;
        }
        match scope.responds() || scope.get("interpreter").is_some() {
            true => rewritten_url(inner, patterns, scope, draft),
            false => rewrite(inner, Some(patterns), host, context, draft),
        }
    }
    allowed
}

/// What is denied or redirected before `allow` and `deny`.
fn before_access(
    rules: Vec<(Scope, &Directive)>,
    scope: &Scope,
    host: &Host,
    draft: &mut Draft,
) -> Vec<Scope> {
    if [scope, &host.scope, &draft.top].iter().any(|scope| scope.text("satisfy") == Some("any")) {
        for (_, condition) in &rules {
            // A password would open what is denied.
            draft.error(
                &condition.place,
                unconverted(condition),
                "a password would open what it denies, by satisfy any",
            );
        }
    }
    rules.into_iter().map(|(rule, _)| rule).collect()
}

fn locations_within(
    child: &Directive,
    locations: &[&Directive],
    scope: &Scope,
    host: &mut Host,
    context: &Context,
    draft: &mut Draft,
) {
    let within = Context {
        server_name: context.server_name.clone(),
        fallbacks: context.fallbacks.clone(),
        root: context.root.clone(),
        around: around(child.children(), &context.around),
        is_closed: context.is_closed || named::has_access(child.children()),
        ..*context
    };
    let outer = Outer { prefix: prefix_of(child), scope, directives: child.children() };
    for inner in locations {
        location(inner, host, &within, Some(&outer), draft);
    }
}

/// A location within another one.
fn nest(child: &Directive, outer: &Outer, scope: &mut Scope, draft: &mut Draft) {
    inherit(scope, &with_folders(outer));
    if let Some(prefix) = outer.prefix.filter(|_| child.argument(0).starts_with('~')) {
        Order::Within(prefix).set(scope, &child.place);
    }
    let is_closed = scope.rules.first().is_some_and(Scope::denies_all);
    let has_files = !scope.responds() && !is_closed && scope.get("interpreter").is_none();
    if outer.scope.get("alias").is_some() && has_files {
        let what = "a location within one with an alias cannot be converted";
        draft.error(&child.place, what, "write its whole path");
    }
}

/// Whether only `auth_request` leads to a location.
fn is_decision(child: &Directive, context: &Context) -> bool {
    let is_internal = child.children().iter().any(|inner| inner.name == "internal");
    let leads_here = |path: &str| match prefix_of(child) {
        Some(prefix) => path.starts_with(prefix),
        None => child.arguments == ["=", path],
    };
    is_internal && asks_at(context.server, &leads_here)
}

/// Clients get nothing of a location that only `auth_request` leads to.
fn hide_decision(child: &Directive, patterns: &[String], host: &mut Host, draft: &mut Draft) {
    let place = &child.place;
    draft.note(place, "an authorizer is asked without a path of its own", "nothing to do");
    for path in patterns.iter().cloned().chain(longer_names(child)) {
        host.route(&path, place).set(place, "return", 404);
    }
}

/// What a location has apart from settings.
#[derive(Default)]
struct Apart<'d> {
    locations: Vec<&'d Directive>,
    rewrites: Vec<&'d Directive>,
    /// What is denied or redirected first, and the conditions that say so.
    rules: Vec<(Scope, &'d Directive)>,
    is_internal: bool,
}

/// The settings of a location.
fn apply<'d>(
    child: &Directive,
    directives: &[&'d Directive],
    patterns: &[String],
    scope: &mut Scope,
    context: &Context,
    draft: &mut Draft,
) -> Apart<'d> {
    let mut apart = Apart::default();
    let answers = Answers::of(directives, context.server);
    let tls = Tls::of(directives);
    for inner in directives {
        let place = &inner.place;
        let first = inner.argument(0);
        match inner.name.as_str() {
            "location" => apart.locations.push(inner),
            "alias" => set_alias(inner, child, patterns, scope, context, draft),
            "try_files" => try_files(inner, child, scope, context, draft),
            "error_page" if named::leads_to(inner).is_some() => {
                missing(inner, child, scope, context, draft);
            }
            "if" if is_condition(inner) || is_missing_script(inner) => {}
            "return" => {
                let groups = groups(child, &with_slash(child.argument(1)), patterns);
                respond(inner, &groups, scope, context, draft);
            }
            "rewrite" => apart.rewrites.push(inner),
            "proxy_pass" => proxy_pass(inner, &tls, scope, context, draft),
            "grpc_pass" => upstream(inner, "http", scope, context, draft),
            "fastcgi_pass" => upstream(inner, "fastcgi", scope, context, draft),
            "scgi_pass" => upstream(inner, "scgi", scope, context, draft),
            "uwsgi_pass" | "memcached_pass" => unknown_protocol(inner, scope, draft),
            "proxy_set_header" => proxy_header(inner, &answers, context.server, scope, draft),
            "proxy_pass_request_body" => bodies_are_passed(inner, draft),
            "fastcgi_param" if first == "SCRIPT_FILENAME" => script_file(inner, scope, context),
            "fastcgi_param" | "scgi_param" => variable(inner, &answers, scope, draft),
            ANSWER => answers.report(inner, draft),
            "add_header" if answers.added(inner, scope) => {}
            "error_page" if answers.leads_away(inner) => answers::login(inner, scope, context, draft),
            "internal" => apart.is_internal = true,
            "limit_except" => {
                let is_open = !context.is_closed
                    && !named::has_access(child.children())
                    && !named::has_access(context.server);
                limit_except(inner, is_open, scope, context, draft);
            }
            "break" if is_last_of_rewrites(inner, child) => {}
            "stub_status" => scope.set(place, "monitor", "metrics"),
            "valid_referers" if early::are_of_rules(directives, context) => {}
            "if" => match early::of_referer(inner, directives, context, draft)
                .or_else(|| early::rule(inner, context, draft))
            {
                Some(rule) => apart.rules.push((rule, *inner)),
                None => draft.error(place, early::unsaid(inner), condition_advice(inner)),
            },
            "add_header" if is_type_of_text(inner, child) => {
                scope.set(place, "default_type", inner.argument(1));
            }
            "proxy_hide_header" | "fastcgi_hide_header" => hide(inner, scope, draft),
            // A redirect of the upstream to itself leads to the path here.
            "proxy_redirect" if inner.arguments == ["default"] => {}
            name if WITHOUT_EFFECT.contains(&name) => {
                draft.warn(place, format!("\"{}\" has no effect", inner.text()), "see the manual on proxies");
            }
            name if OF_TLS.contains(&name) => {}
            name if UPSTREAM_TIMEOUTS.contains(&name) => upstream_timeout(inner, scope, draft),
            "access_log" | "error_log" => {
                let what = unconverted(inner);
                draft.warn(place, what, "a location has no log of its own");
            }
            _ if cache::part(inner).is_some_and(|part| part != "path") => {}
            _ if setting(inner, scope, context, draft) => {}
            _ => draft.error(place, unconverted(inner), "remove it, or find its like in the manual"),
        }
    }
    apart
}

fn bodies_are_passed(directive: &Directive, draft: &mut Draft) {
    let what = format!("\"{}\": the bodies of requests are passed", directive.text());
    draft.warn(&directive.place, what, "nothing to do if the application ignores them");
}

/// What to do in place of a condition.
fn condition_advice(condition: &Directive) -> &'static str {
    let subject = condition.argument(0).trim_start_matches('(');
    match subject {
        "$http_user_agent" => "see user_agent of [[rule]]",
        "$http_referer" | "$invalid_referer" => "see referer of [[rule]]",
        "$ssl_client_verify" | "$ssl_client_s_dn" => "see certificate of [[rule]]",
        "$http_origin" => "see cors_origins",
        _ => "see [[rule]], redirects, rewrites and fallback",
    }
}

/// An upstream that is not asked. Files, perhaps those of the application, do not take its place.
fn unknown_protocol(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    let what_to_do = match directive.name.as_str() {
        "uwsgi_pass" => "let uWSGI speak HTTP by http-socket, or FastCGI by fastcgi-socket, and pass to that",
        _ => "let an application respond that speaks HTTP",
    };
    draft.error(&directive.place, unconverted(directive), what_to_do);
    scope.set(&directive.place, "return", 502);
}

/// An internal location, which clients can request here.
fn internal(
    child: &Directive,
    patterns: &[String],
    scope: &mut Scope,
    host: &mut Host,
    context: &Context,
    draft: &mut Draft,
) {
    let page = |(_, page): &(String, Value)| match page {
        Value::Text(page) => Some(page.clone()),
        _ => None,
    };
    let pages: Vec<String> = host.scope.pairs("error_pages").iter().filter_map(page).collect();
    let is_page = |path: &String| pages.contains(path);
    let folder = prefix_of(child).filter(|_| scope.get("alias").is_none() && !scope.responds());
    let is_fallback = |path: &String| context.fallbacks.contains(path);
    if scope.rules.first().is_some_and(Scope::denies_all) {
        // Nothing of it is sent, whatever leads to it.
        scope.set(&child.place, "return", 404);
    } else if patterns.iter().all(is_page) {
        draft.note(&child.place, "a client can request an error page, too", "nothing to do");
    } else if let Some(folder) = folder.filter(|folder| pages.iter().any(|page| page.starts_with(folder))) {
        draft.note(&child.place, "a client can request an error page, too", "nothing to do");
        for page in pages.iter().filter(|page| page.starts_with(folder)) {
            host.route(page, &child.place).inherit(scope);
        }
        scope.set(&child.place, "return", 404);
    } else if scope.get("interpreter").is_some() && patterns.iter().any(is_fallback) {
        let what = format!("a client can request {}, too", patterns[0]);
        draft.warn(&child.place, what, "the script of try_files has all other paths, too");
    } else {
        draft.error(&child.place, "an internal location cannot be converted", "see sendfile in [scripts]");
        scope.set(&child.place, "return", 404);
        ["root", "alias", "proxy", "application"].iter().for_each(|name| scope.remove(name));
    }
}

/// Leaves the counts of the server to the clients that rules allow, or else to this machine.
fn show_to_few(scope: &mut Scope, host: &Host, draft: &mut Draft) {
    let place = scope.place();
    let asks = scope.get("auth").or(host.scope.get("auth")).is_some_and(|auth| *auth != "off".into());
    let is_any = scope.text("satisfy").or(host.scope.text("satisfy")) == Some("any");
    let what = "stub_status became monitor = \"metrics\", which has other names";
    draft.warn(&place, what, "see monitor = \"status\" for a page, and Watching in the manual");
    let is_all = |rule: &Scope| matches!(rule.text("address"), None | Some("0.0.0.0/0" | "::/0"));
    let rules = if scope.rules.is_empty() { &host.scope.rules } else { &scope.rules };
    let is_closed_to = |all: &str| {
        let first = rules.iter().find(|rule| rule.text("address").is_none_or(|address| address == all));
        first.and_then(|rule| rule.text("then")) == Some("deny")
    };
    if ["0.0.0.0/0", "::/0"].into_iter().all(is_closed_to) || (asks && !is_any) {
        return;
    }
    let mut own: Vec<Scope> = rules.iter().filter(|rule| !is_all(rule)).cloned().collect();
    let allows = own.iter().any(|rule| rule.text("then") == Some("allow"));
    let this_machine = ["127.0.0.0/8", "::1"].map(|address| ("allow", Some(address)));
    for (then, address) in this_machine.into_iter().filter(|_| !allows).chain([("deny", None)]) {
        let mut rule = Scope::new(place.line);
        if let Some(address) = address {
            rule.set(&place, "address", address);
        }
        rule.set(&place, "then", then);
        own.push(rule);
    }
    scope.rules = own;
    let what = "stub_status was open to all clients, and is denied to all but those of the rules";
    draft.warn(&place, what, "add rules for those that read it");
}

/// Whether the alias of a path is a file: one that is there, or that has the extension of the path.
fn is_one_file(alias: &str, path: &str, context: &Context) -> bool {
    let extension = |path: &str| Some(path.rsplit('/').next()?.rsplit_once('.')?.1.to_owned());
    (context.is_file)(alias) || extension(alias).is_some_and(|own| extension(path) == Some(own))
}

fn set_alias(
    directive: &Directive,
    location: &Directive,
    patterns: &[String],
    scope: &mut Scope,
    context: &Context,
    draft: &mut Draft,
) {
    let is_one = |target: &str| {
        let target = (context.path)(target);
        patterns.iter().all(|path| !is_glob(path) && is_one_file(&target, path, context))
    };
    match alias(directive.argument(0), location, patterns) {
        // In nginx, that is what all paths of the expression have.
        Some(folder) if is_plain_of_expression(directive, location) && !is_one(folder) => {
            let what =
                "end the expression with (.*), and the folder with $1; for one file, write location = /path";
            draft.error(&directive.place, unconverted(directive), what);
            scope.set(&directive.place, "return", 404);
        }
        Some(folder) => scope.set(&directive.place, "alias", (context.path)(folder)),
        None => {
            draft.error(&directive.place, unconverted(directive), "write a folder without variables");
            scope.set(&directive.place, "return", 404);
        }
    }
}

fn is_plain_of_expression(alias: &Directive, location: &Directive) -> bool {
    location.argument(0).starts_with('~') && !alias.argument(0).contains('$')
}

/// The folder of an alias, also that of `/a/$1` for `^/b/(.*)$`. `None`: it has other variables.
fn alias<'t>(target: &'t str, location: &Directive, patterns: &[String]) -> Option<&'t str> {
    let is_rest = |folder: &&str| {
        folder.ends_with('/')
            && !folder.contains('$')
            && regex::prefix(location.argument(1)).is_some_and(|prefix| *patterns == [prefix])
    };
    match target.contains('$') {
        true => target.strip_suffix("$1").filter(is_rest),
        false => Some(target),
    }
}

/// The settings of a location, whose `try_files` says nothing about the folders of those within.
fn with_folders(outer: &Outer) -> Scope {
    let mut scope = outer.scope.clone();
    let own = |name: &str| outer.directives.iter().rfind(|inner| inner.name == name);
    if own("try_files").is_none() {
        return scope;
    }
    match own("index").filter(|index| index.arguments.iter().all(|name| !name.contains(['$', '/']))) {
        Some(index) => scope.set(&index.place, "index", index.arguments.clone()),
        None => scope.remove("index"),
    }
    match own("autoindex") {
        Some(listing) => scope.set(&listing.place, "listing", listing.argument(0) == "on"),
        None => scope.remove("listing"),
    }
    scope
}

/// What a location has from the one around it, unless it has its own.
fn inherit(scope: &mut Scope, outer: &Scope) {
    const OWN: [&str; 17] = [
        ORDER,
        "path",
        "alias",
        "proxy",
        "proxy_path",
        "proxy_host",
        "proxy_headers",
        "env",
        "application",
        "interpreter",
        "redirect",
        "status",
        "rewrite",
        "return",
        "fallback",
        "fallback_for",
        "try_suffixes",
    ];
    let mut rest = outer.clone();
    OWN.iter().for_each(|name| rest.remove(name));
    if adds_fields(scope) {
        CROSS_ORIGIN.iter().for_each(|name| rest.remove(name));
    }
    // Rules of limit_except do not replace the others.
    if scope.rules.iter().any(|rule| rule.get("method").is_none()) {
        rest.rules.clear();
    }
    if !scope.limits.is_empty() {
        rest.limits.clear();
    }
    scope.inherit(&rest);
}
