//! Who may have something.

use crate::draft::{Draft, Scope};
use crate::tree::Directive;

use super::Context;
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
        "auth_request" => {
            draft.error(place, unconverted(directive), "see authorizer; until then, all clients are denied");
            let mut rule = Scope::new(place.line);
            rule.set(place, "then", "deny");
            scope.rules.insert(0, rule);
        }
        "valid_referers" => draft.error(place, unconverted(directive), "see referer of [[rule]]"),
        _ => return false,
    }
    true
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
