//! Who may have something.

use crate::draft::{Draft, Scope};
use crate::pattern;
use crate::regex;
use crate::tree::{Directive, unconverted};
use crate::within::covers;

use super::Context;
use crate::nginx::answers::Answers;
use crate::nginx::names::NEEDLESS;
use crate::nginx::order::prefix_of;
use crate::nginx::passing::proxy_pass;
use crate::nginx::upstreams::{OF_TLS, Tls};

/// The directive, if it is about access.
pub fn setting(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) -> bool {
    let place = &directive.place;
    let first = directive.argument(0);
    match directive.name.as_str() {
        "auth_basic" if first == "off" => scope.set(place, "auth", "off"),
        "auth_basic" => {
            scope.set(place, "auth", "basic");
            scope.set(place, "realm", first);
        }
        "auth_basic_user_file" => scope.set(place, "user_files", (context.path)(first)),
        "satisfy" => scope.set(place, "satisfy", if first == "any" { "any" } else { "all" }),
        "allow" | "deny" => {
            let mut rule = Scope::new(place.line);
            if first != "all" {
                rule.set(place, "address", first.trim_end_matches(':'));
            }
            rule.set(place, "then", directive.name.as_str());
            scope.rules.push(rule);
        }
        "auth_request" if first == "off" => scope.set(place, "authorizer", false),
        "auth_request" if authorizer(directive, scope, context, draft).is_some() => {}
        "auth_request" => {
            let what_to_do = "see authorizer; until then, all clients are denied";
            draft.error(place, unconverted(directive), what_to_do);
            let mut rule = Scope::new(place.line);
            rule.set(place, "then", "deny");
            scope.rules.insert(0, rule);
        }
        "valid_referers" => draft.error(place, unconverted(directive), "see referer of [[rule]]"),
        _ => return false,
    }
    true
}

/// The location that decides, as an authorizer. `None`: it does more than to ask an application, or tells it more than
/// an authorizer knows.
fn authorizer(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) -> Option<()> {
    const OF_UPSTREAM: [&str; 12] = [
        "access_log",
        "auth_request_set",
        "internal",
        "proxy_cache_bypass",
        "proxy_connect_timeout",
        "proxy_next_upstream",
        "proxy_next_upstream_tries",
        "proxy_no_cache",
        "proxy_read_timeout",
        "proxy_redirect",
        "proxy_send_timeout",
        "send_timeout",
    ];
    let (place, path) = (&directive.place, directive.argument(0));
    let location = decision(path, context)?;
    let rest = prefix_of(location).and_then(|prefix| path.strip_prefix(prefix)).unwrap_or_default();
    let answers: Vec<&Directive> = location.children().iter().collect();
    let answers = Answers::of(&answers, context.server);
    let mut pass = None;
    for inner in location.children() {
        match inner.name.as_str() {
            "proxy_pass" => pass = Some(inner),
            "proxy_pass_request_body" if inner.arguments == ["off"] => {}
            "proxy_set_header" if is_told(inner) => {}
            "add_header" if answers.of_variable(inner.argument(1)).is_some() => {}
            name if [&OF_UPSTREAM[..], &OF_TLS, &NEEDLESS].iter().any(|all| all.contains(&name)) => {}
            _ => return None,
        }
    }
    // A location with fields of its own has none of those around it.
    let has_fields = location.children().iter().any(|inner| inner.name == "proxy_set_header");
    let mut around = context.around.iter().filter(|inner| inner.name == "proxy_set_header" && !has_fields);
    if !around.all(|inner| is_told(inner)) {
        return None;
    }
    let pass = pass.filter(|pass| pass.argument(0).starts_with("http") && !pass.argument(0).contains('$'))?;
    let mut own = Scope::new(place.line);
    let beside: Vec<&Directive> = location.children().iter().collect();
    proxy_pass(pass, &Tls::of(&beside), &mut own, context, draft);
    let (_, url) = own.text("proxy")?.split_once("://")?;
    let end = url.find('/').unwrap_or(url.len());
    let (name, of_url) = url.split_at(end);
    // If the URL had a variable, this would be another path.
    if is_internal(location) && !rest.is_empty() && !of_url.is_empty() {
        return None;
    }
    let what = format!("{}: a path with an encoded slash (%2F) gets 400", directive.text());
    draft.warn(place, what, "nothing to do: the authorizer and the upstream read the same path");
    let asked = if of_url.is_empty() { path.to_owned() } else { format!("{of_url}{rest}") };
    scope.set(place, "authorizer", name);
    scope.set(place, "authorizer_path", asked);
    Some(())
}

fn is_internal(location: &Directive) -> bool {
    location.children().iter().any(|inner| inner.name == "internal")
}

/// The location of a path. `None`: there is none, or an expression may be in its place.
pub fn decision<'c>(path: &str, context: &Context<'c>) -> Option<&'c Directive> {
    let locations = || context.server.iter().filter(|child| child.name == "location");
    if let Some(exact) = locations().find(|child| child.arguments == ["=", path]) {
        return Some(exact);
    }
    let prefixes = locations().filter_map(|child| Some((prefix_of(child)?, child)));
    let (_, longest) =
        prefixes.filter(|(prefix, _)| path.starts_with(prefix)).max_by_key(|(prefix, _)| prefix.len())?;
    let is_found = |child: &Directive| {
        let patterns = regex::patterns(child.argument(1)).unwrap_or_default();
        patterns.iter().filter_map(|one| pattern::ignoring_case(one)).any(|pattern| covers(&pattern, path))
    };
    let mut expressions = locations().filter(|child| child.argument(0).starts_with('~'));
    let is_first = longest.argument(0) == "^~" || !expressions.any(is_found);
    is_first.then_some(longest)
}

/// Whether an authorizer gets this field in any case.
fn is_told(field: &Directive) -> bool {
    let name = field.argument(0).to_ascii_lowercase();
    match name.as_str() {
        "content-length" | "content-type" => field.argument(1).is_empty(),
        // An authorizer is asked by a request of this server.
        "connection" | "upgrade" => true,
        "host" | "x-forwarded-host" => matches!(field.argument(1), "$host" | "$http_host"),
        "x-original-uri" | "x-forwarded-uri" => field.argument(1) == "$request_uri",
        "x-original-url" => {
            matches!(field.argument(1), "$scheme://$http_host$request_uri" | "$scheme://$host$request_uri")
        }
        "x-original-method" | "x-forwarded-method" => field.argument(1) == "$request_method",
        "x-forwarded-proto" => field.argument(1) == "$scheme",
        "x-real-ip" => field.argument(1) == "$remote_addr",
        "x-forwarded-for" => matches!(field.argument(1), "$remote_addr" | "$proxy_add_x_forwarded_for"),
        _ => false,
    }
}

/// Whether a block asks for a decision at such a path.
pub fn asks_at(block: &[Directive], is_path: &dyn Fn(&str) -> bool) -> bool {
    let asks = |child: &Directive| child.name == "auth_request" && is_path(child.argument(0));
    block.iter().any(|child| asks(child) || asks_at(child.children(), is_path))
}

/// What other methods may do. `is_open`: the location has no access of its own, nor has what is around it.
pub fn limit_except(
    directive: &Directive,
    is_open: bool,
    scope: &mut Scope,
    context: &Context,
    draft: &mut Draft,
) {
    let place = &directive.place;
    let mut methods = directive.arguments.clone();
    if methods.iter().any(|method| method == "GET") {
        methods.push("HEAD".to_owned());
    }
    let mut others = Scope::new(place.line);
    others.set(place, "method", methods.iter().map(|method| format!("!{method}")).collect::<Vec<_>>());
    let (rules, rest): (Vec<&Directive>, Vec<&Directive>) =
        directive.children().iter().partition(|child| matches!(child.name.as_str(), "allow" | "deny"));
    let asks = |child: &&&Directive| matches!(child.name.as_str(), "auth_basic" | "auth_basic_user_file");
    let (asks, unknown): (Vec<&Directive>, Vec<&Directive>) = rest.iter().partition(asks);
    if rules.is_empty() && unknown.is_empty() && is_open && asks.len() == 2 {
        others.set(place, "then", "authenticate");
        scope.rules.push(others);
        scope.set(place, "satisfy", "rules");
        return asks.iter().for_each(|child| _ = setting(child, scope, context, draft));
    }
    for child in &rest {
        let what = format!("{}: other methods are denied", unconverted(child));
        draft.error(&child.place, what, "see method of [[rule]], and satisfy");
    }
    if !rest.is_empty() || methods.is_empty() {
        others.set(place, "then", "deny");
        return scope.rules.insert(0, others);
    }
    for child in rules {
        let mut rule = others.clone();
        rule.line = Some(child.place.line);
        if child.argument(0) != "all" {
            rule.set(&child.place, "address", child.argument(0).trim_end_matches(':'));
        }
        rule.set(&child.place, "then", child.name.as_str());
        scope.rules.push(rule);
    }
}
