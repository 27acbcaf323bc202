//! Variables that a server sets once, to a text, perhaps with parts of the request that never change: their values stand
//! in the place of their names.

use std::collections::BTreeMap;

use crate::tree::Directive;

/// What has the value of a variable wherever it has its name.
const FILLED: [&str; 7] =
    ["root", "alias", "return", "add_header", "proxy_set_header", "proxy_pass", "error_page"];

/// Variables that are the same from the beginning of a request to its end.
const STEADY: [&str; 5] = ["$scheme", "$http_host", "$host", "$request_uri", "$server_name"];

/// What a request or its response changes by.
const EFFECTIVE: [&str; 2] = ["$limit_rate", "$args"];

type Values = BTreeMap<String, String>;

/// The name of a script, and what is left of the path behind it.
const SCRIPT: [&str; 2] = ["$fastcgi_script_name", "$fastcgi_path_info"];

/// Leaves out what splits the path of a script in a block, which is done here in any case: a variable that has the name
/// of the script, and an `if` that cuts it.
fn without_splitting(block: Vec<Directive>) -> Vec<Directive> {
    let is_split = |child: &Directive| {
        let condition = child.arguments.join(" ");
        child.name == "if"
            && condition.trim_start_matches(['(', ' ']).starts_with("$fastcgi_script_name ~ ")
            && condition.contains("\\.php)")
            && child.children().iter().all(|inner| inner.name == "set")
    };
    if !block.iter().any(is_split) {
        return block;
    }
    let names: Values = block
        .iter()
        .filter(|child| child.name == "set" && SCRIPT.contains(&child.argument(1)))
        .map(|child| (child.argument(0).to_owned(), child.argument(1).to_owned()))
        .collect();
    let is_set = |child: &Directive| child.name == "set" && names.contains_key(child.argument(0));
    let kept = block.into_iter().filter(|child| !is_split(child) && !is_set(child));
    let filled = kept.map(|child| match child.name.as_str() {
        "fastcgi_param" => {
            let arguments = child.arguments.iter().map(|text| value(text, &names)).collect();
            Directive { arguments, ..child }
        }
        _ => child,
    });
    filled.collect()
}

/// The directives with the values of each server's constants.
pub fn filled(block: Vec<Directive>) -> Vec<Directive> {
    let servers = block.into_iter().map(|directive| match directive.name.as_str() {
        "server" => {
            let mut counts = BTreeMap::new();
            count(directive.children(), &mut counts);
            within(directive, &Values::new(), &counts)
        }
        _ => Directive { block: directive.block.map(filled), ..directive },
    });
    servers.collect()
}

/// How often each variable is set.
fn count(block: &[Directive], counts: &mut BTreeMap<String, usize>) {
    for directive in block {
        if directive.name == "set" {
            *counts.entry(directive.argument(0).to_owned()).or_default() += 1;
        }
        count(directive.children(), counts);
    }
}

/// Whether a text has other variables than those that stay as they are.
fn has_others(text: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let is_steady = |rest: &str| STEADY.iter().any(|name| rest.strip_prefix(&name[1..]).is_some_and(is_end));
    text.split('$').skip(1).any(|rest| !is_steady(rest))
}

/// A server or a location. What a location sets is not for those within it.
fn within(directive: Directive, around: &Values, counts: &BTreeMap<String, usize>) -> Directive {
    let is_constant = |inner: &Directive| {
        inner.name == "set"
            && counts.get(inner.argument(0)) == Some(&1)
            && inner.arguments.len() == 2
            && !EFFECTIVE.contains(&inner.argument(0))
            && !has_others(inner.argument(1))
    };
    let directive = Directive { block: directive.block.map(without_splitting), ..directive };
    let own = directive.children().iter().filter(|inner| is_constant(inner));
    let own = own.map(|inner| (inner.argument(0).to_owned(), inner.argument(1).to_owned()));
    let known: Values = around.clone().into_iter().chain(own).collect();
    let outer = if directive.name == "server" { &known } else { around };
    // An authorizer is asked at one path.
    let is_exact =
        directive.argument(0) == "=" || directive.children().iter().any(|inner| inner.name == "internal");
    let block = directive.block.map(|block| {
        let kept = block.into_iter().filter(|inner| !is_constant(inner));
        let filled = kept.map(|inner| match inner.name.as_str() {
            "location" => within(inner, outer, counts),
            name if FILLED.contains(&name) => with_values(inner, &known, is_exact),
            _ => inner,
        });
        filled.collect()
    });
    Directive { block, ..directive }
}

fn with_values(directive: Directive, known: &Values, is_exact: bool) -> Directive {
    let arguments: Vec<String> = directive.arguments.iter().map(|text| value(text, known)).collect();
    let has_path = arguments.first().is_some_and(|url| url.matches('/').count() > 2);
    // A URL with variables has the whole path. Without them, it would replace the location.
    match directive.name == "proxy_pass" && has_path && !is_exact && arguments != directive.arguments {
        true => directive,
        false => Directive { arguments, ..directive },
    }
}

/// A text with values in the place of names, `$name` or `${name}`.
fn value(text: &str, known: &Values) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        out.push_str(before);
        let braced = behind.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let (name, after) =
            braced.unwrap_or_else(|| behind.split_at(behind.find(is_end).unwrap_or(behind.len())));
        match known.get(&format!("${name}")) {
            Some(value) => out.push_str(value),
            None => out.push_str(&rest[before.len()..rest.len() - after.len()]),
        }
        rest = after;
    }
    out + rest
}
