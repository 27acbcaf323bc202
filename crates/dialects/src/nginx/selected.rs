//! Conditions on the address and on fields of a request, and on variables that `map` or `geo` make of them, as keys of a
//! rule.

use std::net::IpAddr;

use crate::draft::Scope;
use crate::regex;
use crate::tree::{Directive, Place};

/// One comparison: the variable, `=`, `~`, `~*` or nothing, and the value.
struct Comparison<'c> {
    source: &'c str,
    operator: &'c str,
    value: &'c str,
    /// What a rule excepts has the case of its letters, unless it does not count there either.
    counts_case: bool,
}

/// Adds the key of a comparison to a rule. `None`: no rule can say it.
pub fn add(variable: &str, operator: &str, value: &str, maps: &[&Directive], rule: &mut Scope) -> Option<()> {
    let place = rule.place();
    if let Some(map) = maps.iter().find(|map| map.arguments.last().is_some_and(|name| name == variable)) {
        return of_map(map, operator, value, &place, rule);
    }
    let (is_not, operator) = match operator.strip_prefix('!') {
        Some(operator) => (true, operator),
        None => (false, operator),
    };
    let one = Comparison { source: variable, operator, value, counts_case: operator != "~*" };
    set(&[one], is_not, &place, rule)
}

/// The entries of a `map` or of `geo` that differ from its default: one of them, or none.
fn of_map(map: &Directive, operator: &str, value: &str, place: &Place, rule: &mut Scope) -> Option<()> {
    let is_true = |text: &str| match operator {
        "" => Some(!matches!(text, "" | "0")),
        "=" => Some(text == value),
        "!=" => Some(text != value),
        _ => None,
    };
    let is_geo = map.name == "geo";
    let source = if map.arguments.len() == 2 { map.argument(0) } else { "$remote_addr" };
    let mut default = false;
    let mut entries = Vec::new();
    for entry in map.children() {
        let [text] = entry.arguments.as_slice() else { return None };
        if text.contains('$') || matches!(entry.name.as_str(), "include" | "ranges" | "proxy" | "delete") {
            return None;
        }
        match entry.name.as_str() {
            "default" => default = is_true(text)?,
            name => entries.push((name, is_true(text)?)),
        }
    }
    let is_known = !entries.is_empty() && entries.iter().all(|(_, found)| *found != default);
    if !is_known || is_geo != (source == "$remote_addr") {
        return None;
    }
    let of_entry = |(name, _): &(&'_ str, bool)| {
        let (operator, value) = match (name.strip_prefix("~*"), name.strip_prefix('~')) {
            (Some(value), _) => ("~*", value.to_owned()),
            (None, Some(value)) => ("~", value.to_owned()),
            (None, None) => ("=", (*name).to_owned()),
        };
        (operator, value)
    };
    let all: Vec<(&str, String)> = entries.iter().map(of_entry).collect();
    let all: Vec<Comparison> = all
        .iter()
        .map(|(operator, value)| Comparison { source, operator, value, counts_case: *operator == "~" })
        .collect();
    set(&all, default, place, rule)
}

/// Sets the key that all comparisons have, whose values are those of one of them, or of none.
fn set(all: &[Comparison], is_not: bool, place: &Place, rule: &mut Scope) -> Option<()> {
    let (name, _) = found(all.first()?)?;
    let mut values = Vec::new();
    for one in all {
        let (_, own) = found(one)?;
        values.extend(own.into_iter().map(|value| match is_not {
            true if one.counts_case && name != "address" => format!("!{}", regex::counting_case(&value)),
            true => format!("!{value}"),
            false => value,
        }));
    }
    match (name.strip_prefix("field "), values.as_slice()) {
        (None, _) => rule.set(place, &name, values),
        // A field has one value in a rule.
        (Some(field), [value]) => rule.pair(place, "field", field, value.as_str()),
        (Some(_), _) => return None,
    }
    Some(())
}

/// The key of a rule, and the values that it finds.
fn found(one: &Comparison) -> Option<(String, Vec<String>)> {
    let is_plain = !one.value.contains(['*', '?', '$']) && !one.value.starts_with('!');
    let texts = match one.operator {
        "" => Some(vec!["?*".to_owned()]),
        "=" => is_plain.then(|| vec![one.value.to_owned()]),
        "~" | "~*" => regex::values(one.value),
        _ => None,
    };
    let is_exact = one.operator == "=" && is_plain && !one.value.is_empty();
    match one.source {
        "$remote_addr" => {
            let (address, length) = one.value.split_once('/').unwrap_or((one.value, "0"));
            let is_network = address.parse::<IpAddr>().is_ok() && length.parse::<u8>().is_ok();
            (is_exact && is_network).then(|| ("address".to_owned(), vec![one.value.to_owned()]))
        }
        "$request_method" => is_exact.then(|| ("method".to_owned(), vec![one.value.to_owned()])),
        "$http_user_agent" => Some(("user_agent".to_owned(), texts?)),
        source => {
            let name = source.strip_prefix("$http_").filter(|name| *name != "host")?;
            Some((format!("field {}", name.replace('_', "-")), texts?))
        }
    }
}

/// Whether nothing but conditions have the variable of a `map` or of `geo`, each of which becomes a rule.
pub fn is_of_conditions(
    map: &Directive,
    block: &[Directive],
    becomes_rule: &dyn Fn(&Directive) -> bool,
) -> bool {
    let Some(name) = map.arguments.last() else { return false };
    let Some(bare) = name.strip_prefix('$').filter(|bare| !bare.is_empty()) else { return false };
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let has = |text: &String| {
        if !text.contains('$') {
            return false;
        }
        let (braced, mut parts) = (format!("${{{bare}}}"), text.split(name.as_str()).skip(1));
        parts.any(is_end) || text.contains(&braced)
    };
    block.iter().filter(|directive| !std::ptr::eq(*directive, map)).all(|directive| {
        let is_used = has(&directive.name) || directive.arguments.iter().any(has);
        let is_rule = directive.name == "if" && becomes_rule(directive);
        (!is_used || is_rule) && is_of_conditions(map, directive.children(), becomes_rule)
    })
}
