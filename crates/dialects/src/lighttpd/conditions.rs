//! Conditions, and the settings within them.

use std::net::IpAddr;

use crate::brackets::is_glob;
use crate::draft::{Draft, Host, Scope, denied_more};
use crate::regex;
use crate::tree::Place;

use super::convert::{listen, unconverted};
use super::paths::{meet, narrowed, url_patterns};
use super::read::Statement;
use super::settings::{Setting, apply_setting};

/// The paths of a chain of conditions, for the `else` behind it.
#[derive(Default)]
pub(super) struct Chain {
    /// `None`: there is no chain, or one of other conditions.
    paths: Option<Vec<String>>,
}

impl Chain {
    /// What a statement says about these paths, or about the whole host.
    pub(super) fn apply(
        &mut self,
        statement: &Statement,
        paths: &[String],
        host: &mut Host,
        draft: &mut Draft,
    ) {
        match statement {
            Statement::Set { name, value, place } => {
                self.end();
                let (name, adds) = name.strip_suffix('+').map_or((name.as_str(), false), |name| (name, true));
                apply_setting(&Setting { name, adds, value, place, paths }, host, draft);
            }
            Statement::When { is_else: true, block, place, .. } => {
                if self.otherwise(statement, paths, host, draft).is_none() {
                    let what_to_do = "write its condition, or conditions whose paths have nothing in common";
                    left_out("an else cannot be converted".to_owned(), block, what_to_do, place, draft);
                    self.end();
                }
            }
            Statement::When { field, operator, operand, .. } => {
                let is_url = is_of_url(field) && paths.is_empty();
                self.paths = url_patterns(operator, operand).filter(|_| is_url);
                condition(statement, paths, host, draft);
            }
        }
    }

    /// A condition on something else begins.
    pub(super) fn end(&mut self) {
        self.paths = None;
    }

    /// An `else`: with a condition of its own whose paths no earlier one has, or for all paths but those. `None`: it
    /// cannot be converted.
    fn otherwise(
        &mut self,
        statement: &Statement,
        paths: &[String],
        host: &mut Host,
        draft: &mut Draft,
    ) -> Option<()> {
        let Statement::When { field, operator, operand, block, place, .. } = statement else { return None };
        let before = self.paths.as_mut()?;
        if field.is_empty() {
            let before = std::mem::take(before);
            self.end();
            return all_but(&before, block, place, host, draft);
        }
        let own = url_patterns(operator, operand).filter(|_| is_of_url(field))?;
        let are_apart =
            |one: &String| own.iter().all(|own| meet(one, own).is_some_and(|both| both.is_empty()));
        if !before.iter().all(are_apart) {
            return None;
        }
        before.extend(own);
        condition(statement, paths, host, draft);
        Some(())
    }
}

/// All statements of a block.
pub(super) fn apply_all(block: &[Statement], paths: &[String], host: &mut Host, draft: &mut Draft) {
    let mut chain = Chain::default();
    let around = host.redirect_status;
    ordered(block).for_each(|inner| chain.apply(inner, paths, host, draft));
    host.redirect_status = around;
}

/// The statements of a block. What is set counts before the conditions within, the status of redirects before the other
/// settings, and the paths of upstreams after them, wherever they stand.
pub(super) fn ordered(block: &[Statement]) -> impl Iterator<Item = &Statement> {
    let rank = |inner: &Statement| match inner {
        Statement::Set { name, .. } if name == "url.redirect-code" => 0,
        Statement::Set { name, .. } if name == "proxy.header" => 2,
        Statement::Set { .. } => 1,
        Statement::When { .. } => 3,
    };
    (0..=3).flat_map(move |wanted| block.iter().filter(move |inner| rank(inner) == wanted))
}

fn is_of_url(field: &str) -> bool {
    field == "$HTTP[\"url\"]"
}

/// A condition, whatever is before it.
fn condition(statement: &Statement, paths: &[String], host: &mut Host, draft: &mut Draft) {
    let Statement::When { field, operator, operand, block, place, .. } = statement else { return };
    let (field, operator) = (field.as_str(), operator.as_str());
    let what_to_do = match (field, operator) {
        ("$SERVER[\"socket\"]", "==") => {
            let is_on = |inner: &Statement| matches!(inner, Statement::Set { name, value, .. } if name == "ssl.engine" && value.is_on());
            listen(operand, block.iter().any(is_on), place, host, draft);
            return block.iter().for_each(|inner| of_socket(inner, paths, host, draft));
        }
        ("$HTTP[\"scheme\"]", "==") if operand == "http" && redirects_to_https(block) => {
            return host.scope.set(place, "https_redirect", true);
        }
        ("$HTTP[\"url\"]", "==" | "=^" | "=$" | "=~") => {
            let found = url_patterns(operator, operand).and_then(|own| narrowed(paths, &own));
            match found.or_else(|| wider(statement, paths, draft)) {
                Some(own) if own.is_empty() => return,
                Some(own) => return apply_all(block, &own, host, draft),
                None => "write prefixes, or patterns with *",
            }
        }
        ("$HTTP[\"url\"]", "!=" | "!~") if paths.is_empty() => {
            let excepted = url_patterns(if operator == "!=" { "==" } else { "=~" }, operand);
            if excepted.and_then(|excepted| all_but(&excepted, block, place, host, draft)).is_some() {
                return;
            }
            "see path of [[rule]], and auth of [[route]]"
        }
        ("$HTTP[\"useragent\"]" | "$HTTP[\"user-agent\"]" | "$HTTP[\"request-method\"]", _)
            if denies_all(block) =>
        {
            match client_rule(field, operator, operand, paths, place) {
                Some(rule) => return host.scope.rules.push(rule),
                None => "see method and user_agent of [[rule]]",
            }
        }
        ("$HTTP[\"remoteip\"]" | "$HTTP[\"remote-ip\"]", _) => {
            let addresses = addresses(operator, operand);
            match addresses.and_then(|addresses| deny(("address", addresses), block, paths, place, host)) {
                Some(()) => return,
                None => "see [[rule]], [[host]] and [[route]]",
            }
        }
        ("$HTTP[\"querystring\"]" | "$HTTP[\"query-string\"]", _) => {
            let done = queries(operator, operand).and_then(|queries| {
                redirect(("query", &queries), block, paths, place, host)
                    .or_else(|| deny(("query", queries), block, paths, place, host))
            });
            match done {
                Some(()) => return,
                None => {
                    "only url.access-deny and url.redirect for everything can depend on it; see query of [[rule]]"
                }
            }
        }
        _ => "see [[rule]], [[host]] and [[route]]",
    };
    let what = unconverted(&format!("{field} {operator} \"{operand}\""));
    left_out(what, block, what_to_do, place, draft);
}

/// Reports a block that is not converted. What it protects has the settings around it.
fn left_out(what: String, block: &[Statement], what_to_do: &str, place: &Place, draft: &mut Draft) {
    if !protects(block) {
        return draft.error(place, what, what_to_do);
    }
    let what = format!("{what}, and what it protects would be open");
    let what_to_do =
        format!("before you remove this, protect it by a [[host.rule]] or a [[host.route]]: {what_to_do}");
    draft.error(place, what, &what_to_do);
}

/// Patterns of more paths than an expression finds, for a block that denies them. It is reported.
fn wider(statement: &Statement, paths: &[String], draft: &mut Draft) -> Option<Vec<String>> {
    let Statement::When { field, operator, operand, block, place, .. } = statement else { return None };
    let wider = (operator == "=~" && denies_all(block)).then(|| regex::wider_patterns(operand)).flatten()?;
    let own = narrowed(paths, &wider.patterns)?;
    denied_more(&format!("{field} {operator} \"{operand}\""), &wider, place, draft);
    Some(own)
}

/// Whether a block denies something, or asks for passwords.
fn protects(block: &[Statement]) -> bool {
    block.iter().any(|inner| match inner {
        Statement::Set { name, .. } => matches!(name.as_str(), "url.access-deny" | "auth.require"),
        Statement::When { block, .. } => protects(block),
    })
}

/// Rules of a condition for what a block denies. `None`: it does something else.
fn deny(
    (key, values): (&str, Vec<String>),
    block: &[Statement],
    paths: &[String],
    place: &Place,
    host: &mut Host,
) -> Option<()> {
    for denied in denied_paths(block, paths)? {
        let mut rule = Scope::new(place.line);
        rule.set(place, key, values.clone());
        if !denied.is_empty() {
            rule.set(place, "path", denied);
        }
        rule.set(place, "then", "deny");
        host.scope.rules.push(rule);
    }
    Some(())
}

/// A rule of a condition for a block that redirects everything. `None`: it does something else.
fn redirect(
    (key, values): (&str, &[String]),
    block: &[Statement],
    paths: &[String],
    place: &Place,
    host: &mut Host,
) -> Option<()> {
    // The expression finds the query, too.
    const ALL: [&str; 6] = ["", ".*", "^", "^/", "^/(.*)", "^(.*)"];
    let (mut to, mut status) = (None, host.redirect_status.unwrap_or(301));
    for statement in block {
        let Statement::Set { name, value, .. } = statement else { return None };
        match (name.as_str(), value.pairs().as_slice()) {
            ("url.redirect", [(expression, target)]) if ALL.contains(expression) => {
                let target = target.text();
                let is_plain = target.starts_with('/') || target.contains("://");
                to = Some(target.to_owned()).filter(|_| is_plain && !target.contains(['$', '%']));
            }
            ("url.redirect-code", _) => status = value.text().parse().ok()?,
            _ => return None,
        }
    }
    let mut rule = Scope::new(place.line);
    rule.set(place, key, values.to_vec());
    if !paths.is_empty() {
        rule.set(place, "path", paths.to_vec());
    }
    rule.set(place, "then", "redirect");
    rule.set(place, "to", to?);
    rule.set(place, "status", Some(status).filter(|status| matches!(status, 301 | 302 | 303 | 307 | 308))?);
    host.scope.rules.push(rule);
    Some(())
}

/// What is for all paths but some: a denial, or a password. `None`: it is something else.
fn all_but(
    excepted: &[String],
    block: &[Statement],
    place: &Place,
    host: &mut Host,
    draft: &mut Draft,
) -> Option<()> {
    // Nothing but the folders and the paths themselves stays open.
    if excepted.iter().any(|path| is_glob(path)) {
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
    apply_all(block, &[], host, draft);
    for path in excepted {
        host.route(path, place).set(place, "auth", "off");
    }
    Some(())
}

/// The addresses of a condition. An expression is for networks whose numbers end with a dot.
fn addresses(operator: &str, operand: &str) -> Option<Vec<String>> {
    let found = match operator {
        "==" | "!=" => vec![operand.to_owned()],
        "=~" | "!~" => networks(operand)?,
        _ => return None,
    };
    let sign = if operator.starts_with('!') { "!" } else { "" };
    Some(found.into_iter().map(|address| format!("{sign}{address}")).collect())
}

/// `^192\.168\.` is 192.168.0.0/16.
fn networks(expression: &str) -> Option<Vec<String>> {
    let network = |text: &String| {
        let Some(begin) = text.strip_suffix(".*") else {
            return text.parse::<IpAddr>().is_ok().then(|| text.clone());
        };
        let numbers: Option<Vec<u8>> = begin.split('.').map(|number| number.parse().ok()).collect();
        let mut numbers = numbers.filter(|numbers| numbers.len() < 4)?;
        let bits = numbers.len() * 8;
        numbers.resize(4, 0);
        let [one, two, three, four] = numbers.try_into().ok()?;
        Some(format!("{}/{bits}", IpAddr::from([one, two, three, four])))
    };
    regex::values(expression)?.iter().map(network).collect()
}

/// The rule that denies requests with a method, or by a program. `None`: a rule cannot say it.
fn client_rule(field: &str, operator: &str, operand: &str, paths: &[String], place: &Place) -> Option<Scope> {
    let is_method = field.contains("method");
    let is_plain = !is_glob(operand) && !operand.starts_with('!');
    let found = match operator {
        // What is excepted has the case of its letters. With the others, a rule denies more.
        "!=" if !is_method && is_plain => vec![regex::counting_case(operand)],
        "==" | "!=" if is_plain => vec![operand.to_owned()],
        "=~" => regex::values(operand)?,
        "!~" if is_method => regex::values(operand)?,
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

/// The queries of a condition. `None`: a rule cannot say it.
fn queries(operator: &str, operand: &str) -> Option<Vec<String>> {
    let found = match operator {
        "=~" | "!~" => regex::values(operand)?,
        "==" | "!=" if !is_glob(operand) && !operand.starts_with('!') => vec![operand.to_owned()],
        _ => return None,
    };
    match operator.starts_with('!') {
        true => Some(found.iter().map(|one| format!("!{}", regex::counting_case(one))).collect()),
        false => Some(found),
    }
}

/// A host responds on all addresses, so that one of them has nothing of its own but TLS.
fn of_socket(inner: &Statement, paths: &[String], host: &mut Host, draft: &mut Draft) {
    match inner {
        Statement::Set { name, .. } if name.starts_with("ssl.") || name == "server.use-ipv6" => {
            apply_all(std::slice::from_ref(inner), paths, host, draft);
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
