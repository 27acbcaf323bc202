//! Conditions, and the settings within them.

use crate::draft::{Draft, Host, Scope};
use crate::regex;
use crate::tree::Place;

use super::convert::{listen, unconverted};
use super::paths::url_patterns;
use super::read::Statement;
use super::settings::{Setting, apply_setting};

/// What a statement says about these paths, or about the whole host.
pub(super) fn apply(statement: &Statement, paths: &[String], host: &mut Host, draft: &mut Draft) {
    match statement {
        Statement::Set { name, value, place } => {
            let name = name.trim_end_matches('+');
            apply_setting(&Setting { name, value, place, paths }, host, draft);
        }
        Statement::When { field, operator, operand, is_else, block, place } => {
            let whole = format!("{field} {operator} \"{operand}\"");
            match (field.as_str(), operator.as_str()) {
                _ if *is_else => draft.error(place, "an else cannot be converted", "write its condition"),
                ("$SERVER[\"socket\"]", "==") => {
                    let is_on = |inner: &Statement| matches!(inner, Statement::Set { name, value, .. } if name == "ssl.engine" && value.is_on());
                    listen(operand, block.iter().any(is_on), place, host, draft);
                    block.iter().for_each(|inner| of_socket(inner, paths, host, draft));
                }
                ("$HTTP[\"scheme\"]", "==") if operand == "http" && redirects_to_https(block) => {
                    host.scope.set(place, "https_redirect", true);
                }
                ("$HTTP[\"url\"]", "==" | "=^" | "=$" | "=~") if paths.is_empty() => {
                    match url_patterns(operator, operand) {
                        Some(own) => block.iter().for_each(|inner| apply(inner, &own, host, draft)),
                        None => draft.error(place, unconverted(&whole), "write prefixes, or patterns with *"),
                    }
                }
                ("$HTTP[\"url\"]", "!=" | "!~") if paths.is_empty() => {
                    if except(operator, operand, block, place, host, draft).is_none() {
                        draft.error(
                            place,
                            unconverted(&whole),
                            "see path of [[rule]], and auth of [[route]]",
                        );
                    }
                }
                ("$HTTP[\"useragent\"]" | "$HTTP[\"user-agent\"]" | "$HTTP[\"request-method\"]", _)
                    if denies_all(block) =>
                {
                    match client_rule(field, operator, operand, paths, place) {
                        Some(rule) => host.scope.rules.push(rule),
                        None => {
                            draft.error(place, unconverted(&whole), "see method and user_agent of [[rule]]")
                        }
                    }
                }
                ("$HTTP[\"remoteip\"]" | "$HTTP[\"remote-ip\"]", "==" | "!=") => {
                    match denied_paths(block, paths) {
                        Some(all) => {
                            for denied in all {
                                let mut rule = Scope::new(place.line);
                                let sign = if operator == "!=" { "!" } else { "" };
                                rule.set(place, "address", format!("{sign}{operand}"));
                                if !denied.is_empty() {
                                    rule.set(place, "path", denied);
                                }
                                rule.set(place, "then", "deny");
                                host.scope.rules.push(rule);
                            }
                        }
                        None => {
                            draft.error(place, unconverted(&whole), "see [[rule]], [[host]] and [[route]]")
                        }
                    }
                }
                ("$HTTP[\"querystring\"]" | "$HTTP[\"query-string\"]", operator) => {
                    let Some((queries, all)) = queries(operator, operand).zip(denied_paths(block, paths))
                    else {
                        let what_to_do =
                            "only url.access-deny for everything can depend on it; see query of [[rule]]";
                        return draft.error(place, unconverted(&whole), what_to_do);
                    };
                    for denied in all {
                        let mut rule = Scope::new(place.line);
                        rule.set(place, "query", queries.clone());
                        if !denied.is_empty() {
                            rule.set(place, "path", denied);
                        }
                        rule.set(place, "then", "deny");
                        host.scope.rules.push(rule);
                    }
                }
                _ => draft.error(place, unconverted(&whole), "see [[rule]], [[host]] and [[route]]"),
            }
        }
    }
}

/// What is for all paths but some: a denial, or a password. `None`: it is something else.
fn except(
    operator: &str,
    operand: &str,
    block: &[Statement],
    place: &Place,
    host: &mut Host,
    draft: &mut Draft,
) -> Option<()> {
    let positive = if operator == "!=" { "==" } else { "=~" };
    let excepted = url_patterns(positive, operand)?;
    // Nothing but the folders and the paths themselves stays open.
    if excepted.iter().any(|path| path.contains(['*', '?'])) {
        return None;
    }
    if denies_all(block) {
        let mut rule = Scope::new(place.line);
        rule.set(place, "path", excepted.iter().map(|path| format!("!{path}")).collect::<Vec<_>>());
        rule.set(place, "then", "deny");
        host.scope.rules.push(rule);
        return Some(());
    }
    let asks = |statement: &Statement| {
        let Statement::Set { name, value, .. } = statement else { return false };
        name == "auth.require" && value.pairs().iter().all(|(path, _)| matches!(*path, "" | "/"))
    };
    let asks_already = |scope: &Scope| scope.get("auth").is_some();
    if block.is_empty()
        || !block.iter().all(asks)
        || host.routes.iter().chain([&host.scope]).any(asks_already)
    {
        return None;
    }
    block.iter().for_each(|inner| apply(inner, &[], host, draft));
    for path in excepted {
        host.route(&path, place).set(place, "auth", "off");
    }
    Some(())
}

/// The rule that denies requests with a method, or by a program. `None`: a rule cannot say it.
fn client_rule(field: &str, operator: &str, operand: &str, paths: &[String], place: &Place) -> Option<Scope> {
    let is_method = field.contains("method");
    let found = match operator {
        "==" | "!=" if !operand.contains(['*', '?']) && !operand.starts_with('!') => vec![operand.to_owned()],
        // A rule knows no case, so that it denies more.
        "=~" if !is_method => regex::values(operand)?,
        "=~" | "!~" if is_method => regex::values(operand.strip_prefix('^')?.strip_suffix('$')?)?
            .iter()
            .map(|method| method.trim_matches('*').to_owned())
            .collect(),
        _ => return None,
    };
    let is_method_name = |text: &String| text.chars().all(|c| c.is_ascii_uppercase() || c == '-');
    if is_method && !found.iter().all(is_method_name) {
        return None;
    }
    let sign = if operator.starts_with('!') { "!" } else { "" };
    let mut rule = Scope::new(place.line);
    let key = if is_method { "method" } else { "user_agent" };
    rule.set(place, key, found.iter().map(|text| format!("{sign}{text}")).collect::<Vec<_>>());
    if !paths.is_empty() {
        rule.set(place, "path", paths.to_vec());
    }
    rule.set(place, "then", "deny");
    Some(rule)
}

/// The queries of a condition. `None`: a rule, which knows no case, would deny fewer.
fn queries(operator: &str, operand: &str) -> Option<Vec<String>> {
    let found = match operator {
        "=~" | "!~" => regex::values(operand)?,
        "==" | "!=" if !operand.contains(['*', '?']) && !operand.starts_with('!') => vec![operand.to_owned()],
        _ => return None,
    };
    match operator.starts_with('!') {
        true if found.iter().any(|one| one.contains(|c: char| c.is_ascii_alphabetic())) => None,
        true => Some(found.into_iter().map(|one| format!("!{one}")).collect()),
        false => Some(found),
    }
}

/// A host responds on all addresses, so that one of them has nothing of its own but TLS.
fn of_socket(inner: &Statement, paths: &[String], host: &mut Host, draft: &mut Draft) {
    match inner {
        Statement::Set { name, .. } if name.starts_with("ssl.") || name == "server.use-ipv6" => {
            apply(inner, paths, host, draft);
        }
        Statement::Set { name, place, .. } => {
            let what = format!("{} for one address", unconverted(name));
            draft.error(place, what, "write a host with addresses of its own");
        }
        Statement::When { place, .. } => {
            draft.error(
                place,
                "a condition for one address cannot be converted",
                "see addresses of [[host]]",
            );
        }
    }
}

fn redirects_to_https(block: &[Statement]) -> bool {
    let target = |statement: &Statement| match statement {
        Statement::Set { name, value, .. } if name == "url.redirect" => {
            value.pairs().iter().all(|(_, target)| {
                matches!(
                    target.text(),
                    "https://${url.authority}${url.path}${qsa}"
                        | "https://%0$0"
                        | "https://%1$0"
                        | "https://${url.authority}$0"
                )
            })
        }
        Statement::Set { name, .. } => name == "url.redirect-code",
        Statement::When { field, operand, block, .. } => {
            field == "$HTTP[\"host\"]" && operand == ".*" && redirects_to_https(block)
        }
    };
    !block.is_empty() && block.iter().all(target)
}

/// What a block denies: its paths, or those of the blocks within. `None`: it does something else.
fn denied_paths(block: &[Statement], paths: &[String]) -> Option<Vec<Vec<String>>> {
    if denies_all(block) {
        return Some(vec![paths.to_vec()]);
    }
    let denied = |statement: &Statement| match statement {
        Statement::When { field, operator, operand, is_else: false, block, .. }
            if field == "$HTTP[\"url\"]" && paths.is_empty() && denies_all(block) =>
        {
            url_patterns(operator, operand)
        }
        _ => None,
    };
    if block.is_empty() { None } else { block.iter().map(denied).collect() }
}

fn denies_all(block: &[Statement]) -> bool {
    let denies = |statement: &Statement| matches!(statement, Statement::Set { name, value, .. } if name == "url.access-deny" && value.texts() == [""]);
    !block.is_empty() && block.iter().all(denies)
}
