//! Who may have something.

use crate::draft::{Draft, Scope};
use crate::tree::Directive;

use super::Context;
use crate::nginx::passing::proxy_pass;
use crate::nginx::upstreams::unconverted;

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
        "limit_except" => limit_except(directive, scope, draft),
        "auth_request" if first == "off" => scope.set(place, "authorizer", false),
        "auth_request" if authorizer(directive, scope, context, draft).is_some() => {}
        "auth_request" => {
            let what_to_do = "see authorizer, which has no X-Real-IP; until then, all clients are denied";
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
    const NEEDLESS: [&str; 7] = [
        "internal",
        "access_log",
        "log_not_found",
        "proxy_http_version",
        "proxy_buffering",
        "proxy_buffer_size",
        "proxy_buffers",
    ];
    let (place, path) = (&directive.place, directive.argument(0));
    let is_asked = |child: &&Directive| child.name == "location" && child.arguments == ["=", path];
    let location = context.server.iter().find(is_asked)?;
    let mut pass = None;
    for inner in location.children().iter().chain(context.around.iter().copied()) {
        match inner.name.as_str() {
            "proxy_pass" => pass = Some(inner),
            "proxy_pass_request_body" if inner.arguments == ["off"] => {}
            "proxy_set_header" if is_told(inner) => {}
            // Those around stand for all locations that pass requests on.
            name if name != "proxy_set_header"
                && context.around.iter().any(|own| std::ptr::eq(*own, inner)) => {}
            name if NEEDLESS.contains(&name) => {}
            _ => return None,
        }
    }
    let pass = pass.filter(|pass| pass.argument(0).starts_with("http") && !pass.argument(0).contains('$'))?;
    let mut own = Scope::new(place.line);
    proxy_pass(pass, &mut own, context, draft);
    let (_, rest) = own.text("proxy")?.split_once("://")?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (name, of_url) = rest.split_at(end);
    let what = format!("{}: a path with an encoded slash (%2F) gets 400", directive.text());
    draft.warn(place, what, "nothing to do: the authorizer and the upstream read the same path");
    scope.set(place, "authorizer", name);
    scope.set(place, "authorizer_path", if of_url.is_empty() { path } else { of_url });
    Some(())
}

/// Whether an authorizer gets this field in any case.
fn is_told(field: &Directive) -> bool {
    let name = field.argument(0).to_ascii_lowercase();
    match name.as_str() {
        "content-length" | "content-type" | "connection" => field.argument(1).is_empty(),
        "host" | "x-forwarded-host" => matches!(field.argument(1), "$host" | "$http_host"),
        "x-original-uri" | "x-forwarded-uri" => field.argument(1) == "$request_uri",
        "x-original-url" => {
            matches!(field.argument(1), "$scheme://$http_host$request_uri" | "$scheme://$host$request_uri")
        }
        "x-original-method" | "x-forwarded-method" => field.argument(1) == "$request_method",
        "x-forwarded-proto" => field.argument(1) == "$scheme",
        "x-forwarded-for" => matches!(field.argument(1), "$remote_addr" | "$proxy_add_x_forwarded_for"),
        _ => false,
    }
}

/// Whether a block asks for a decision at this path.
pub fn asks_at(block: &[Directive], path: &str) -> bool {
    let asks = |child: &Directive| child.name == "auth_request" && child.arguments == [path];
    block.iter().any(|child| asks(child) || asks_at(child.children(), path))
}

/// What is denied to other methods.
fn limit_except(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    let mut methods = directive.arguments.clone();
    if methods.iter().any(|method| method == "GET") {
        methods.push("HEAD".to_owned());
    }
    let excepted: Vec<String> = methods.iter().map(|method| format!("!{method}")).collect();
    for child in directive.children() {
        if !matches!(child.name.as_str(), "allow" | "deny") || excepted.is_empty() {
            draft.error(&child.place, unconverted(child), "see method of [[rule]]");
            continue;
        }
        let place = &child.place;
        let mut rule = Scope::new(place.line);
        rule.set(place, "method", excepted.clone());
        if child.argument(0) != "all" {
            rule.set(place, "address", child.argument(0).trim_end_matches(':'));
        }
        rule.set(place, "then", child.name.as_str());
        scope.rules.push(rule);
    }
}
