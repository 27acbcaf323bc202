//! `RewriteCond`, as far as rules of access can say the same about a request.

use crate::brackets::is_glob;
use crate::document::Value;
use crate::draft::Scope;
use crate::pattern;
use crate::regex;
use crate::tree::{Directive, Place};

use super::access;
use super::flags::Flags;

/// What excepts the files of `/.well-known/` from hidden files.
const WELL_KNOWN: [&str; 3] =
    ["(^|/)\\.well-known/([^./]+./?)+$", "^/?\\.well-known/([^./]+./?)+$", "/\\.well-known/|(^|/)\\.{2}/"];

/// Rules that the conditions of one directive become.
const MAX_RULES: usize = 16;

/// Which requests rules find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Those of the conditions.
    Exactly,
    /// These, and perhaps more: for what denies.
    AtLeast,
}

/// The conditions of rules of which one is enough. `None`: rules cannot say it.
pub fn rules(conditions: &[Directive], place: &Place, finding: Finding) -> Option<Vec<Scope>> {
    let mut all = vec![Scope::new(place.line)];
    // What is not there may be rejected, too.
    let is_there = |condition: &&Directive| {
        let file = condition.argument(0);
        matches!(file, "%{REQUEST_FILENAME}" | "%{SCRIPT_FILENAME}")
            && matches!(condition.argument(1), "-f" | "-d" | "-l" | "-s")
    };
    for group in groups(conditions).into_iter().filter(|group| !group.iter().all(is_there)) {
        let mut next = Vec::new();
        for rule in &all {
            for condition in &group {
                next.extend(added(condition, rule, finding)?);
            }
        }
        all = next;
        if all.len() > MAX_RULES {
            return None;
        }
    }
    Some(all)
}

/// All groups count, and of each group one condition.
fn groups(conditions: &[Directive]) -> Vec<Vec<&Directive>> {
    let mut all: Vec<Vec<&Directive>> = Vec::new();
    let mut goes_on = false;
    for condition in conditions {
        match all.last_mut().filter(|_| goes_on) {
            Some(group) => group.push(condition),
            None => all.push(vec![condition]),
        }
        goes_on = Flags::of(condition).has("OR", "ornext");
    }
    all
}

/// A rule with one more condition, or several of which one is enough. `None`: it cannot be said.
fn added(condition: &Directive, rule: &Scope, finding: Finding) -> Option<Vec<Scope>> {
    let place = &condition.place;
    let test = condition.argument(1);
    let (is_not, test) = test.strip_prefix('!').map_or((false, test), |test| (true, test));
    let subject = condition.argument(0).strip_prefix("%{")?.strip_suffix('}')?;
    // What is excepted has the case of its letters.
    let counts_case = is_not && !Flags::of(condition).has("NC", "nocase");
    let values_by_case = |test: &str| {
        let counted = |text: String| if counts_case { regex::counting_case(&text) } else { text };
        values(test).map(|all| all.into_iter().map(counted).collect::<Vec<_>>())
    };
    let (key, found) = match subject {
        "HTTPS" | "SERVER_PORT" | "REQUEST_SCHEME" => {
            let word = test.trim_start_matches('=').trim_matches(['^', '$']).to_ascii_lowercase();
            let is_on = match (subject, word.as_str()) {
                ("HTTPS", "on") | ("SERVER_PORT", "443") | ("REQUEST_SCHEME", "https") => !is_not,
                ("HTTPS", "off") | ("SERVER_PORT", "80") | ("REQUEST_SCHEME", "http") => is_not,
                _ => return None,
            };
            let mut rule = rule.clone();
            let is_new = rule.get("tls").is_none();
            rule.set(place, "tls", is_on);
            return is_new.then(|| vec![rule]);
        }
        "REMOTE_ADDR" => match test.strip_prefix("-ipmatch ") {
            Some(text) => ("address", vec![access::network(text)?]),
            None => ("address", networks(test, is_not)?),
        },
        "REQUEST_METHOD" => ("method", methods(test)?),
        "REQUEST_URI" => {
            let found = paths(test, Flags::of(condition).has("NC", "nocase"));
            // Names within this folder, none of which is hidden.
            let names = WELL_KNOWN.contains(&test) && is_not && finding == Finding::AtLeast;
            ("path", found.or_else(|| names.then(|| vec!["/.well-known/".to_owned()]))?)
        }
        "HTTP_HOST" => ("host", values(test)?),
        "QUERY_STRING" => {
            let wider =
                || (finding == Finding::AtLeast && !is_not).then(|| regex::wider_values(test)).flatten();
            ("query", values_by_case(test).or_else(wider)?)
        }
        "HTTP_USER_AGENT" => ("user_agent", values_by_case(test)?),
        "HTTP_REFERER" => ("referer", values(test)?.into_iter().map(url).collect::<Option<_>>()?),
        "HTTP_COOKIE" => return field("Cookie", &values_by_case(test)?, is_not, place, rule),
        "HTTP_ACCEPT" => return field("Accept", &values_by_case(test)?, is_not, place, rule),
        subject => {
            return field(subject.strip_prefix("HTTP:")?, &values_by_case(test)?, is_not, place, rule);
        }
    };
    let sign = if is_not { "!" } else { "" };
    let found: Vec<String> = found.into_iter().map(|text| format!("{sign}{text}")).collect();
    let mut rule = rule.clone();
    let all = match rule.get(key) {
        Some(Value::Texts(old)) if is_not || old.iter().all(|text| text.starts_with('!')) => {
            [old.as_slice(), &found].concat()
        }
        Some(_) => return None,
        None => found,
    };
    rule.set(place, key, all);
    Some(vec![rule])
}

/// A field has one value in a rule.
fn field(name: &str, values: &[String], is_not: bool, place: &Place, rule: &Scope) -> Option<Vec<Scope>> {
    let is_new = !rule.pairs("field").iter().any(|(old, _)| old.eq_ignore_ascii_case(name));
    if !is_new || is_not && values.len() > 1 {
        return None;
    }
    let with = |value: &String| {
        let mut rule = rule.clone();
        rule.pair(place, "field", name, format!("{}{value}", if is_not { "!" } else { "" }));
        rule
    };
    Some(values.iter().map(with).collect())
}

/// A pattern of `referer`, which is one of a host if it has no slash.
fn url(value: String) -> Option<String> {
    match value.strip_prefix('*') {
        _ if value.is_empty() || value.contains('/') => Some(value),
        Some(rest) => Some(format!("*://*{rest}")),
        None => None,
    }
}

/// What `=text` or an expression finds, with wildcards.
fn values(test: &str) -> Option<Vec<String>> {
    match test.strip_prefix('=') {
        Some(text) => Some(vec![text.trim_matches('"').to_owned()])
            .filter(|all| !is_glob(&all[0]) && !all[0].starts_with('!')),
        None if test.starts_with(['<', '>', '-']) => None,
        None => regex::values(test),
    }
}

/// Whole addresses, and the networks that `^10\.1\.` finds. A beginning without a dot at its end is for more addresses
/// than a network, so that only what excepts addresses may have one.
fn networks(test: &str, is_not: bool) -> Option<Vec<String>> {
    let one = |text: String| match text.strip_suffix('*') {
        Some(begin) if begin.ends_with('.') || is_not && begin.matches('.').count() == 3 => {
            access::network(begin).filter(|_| !is_glob(begin))
        }
        Some(_) => None,
        None => text.parse::<std::net::IpAddr>().is_ok().then_some(text),
    };
    values(test)?.into_iter().map(one).collect()
}

/// Methods that are no part of another one. `^P` finds several.
const METHODS: [&str; 11] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "TRACK", "CONNECT", "PROPFIND"];

/// Whole methods.
fn methods(test: &str) -> Option<Vec<String>> {
    let whole = |text: String| {
        let method = text.trim_matches('*');
        let is_method = !method.is_empty() && method.chars().all(|c| c.is_ascii_uppercase() || c == '-');
        let is_whole = method == text || METHODS.contains(&method);
        (is_method && is_whole).then(|| method.to_owned())
    };
    values(test)?.into_iter().map(whole).collect()
}

fn paths(test: &str, any_case: bool) -> Option<Vec<String>> {
    let all = match test.strip_prefix('=') {
        Some(path) => Some(vec![pattern::alone(path)]).filter(|_| path.starts_with('/') && !is_glob(path)),
        None if test.starts_with(['<', '>', '-']) => None,
        None => super::paths::expression(test),
    }?;
    match any_case {
        true => Some(all.iter().map(|path| pattern::any_case(path)).collect::<Option<Vec<_>>>()?.concat()),
        false => Some(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> Directive {
        Directive {
            name: "rewritecond".into(),
            arguments: text.split(' ').map(str::to_owned).collect(),
            block: None,
            place: Place::at(1),
        }
    }

    /// The keys of rules.
    fn said(texts: &[&str]) -> Option<Vec<String>> {
        let conditions: Vec<Directive> = texts.iter().map(|text| condition(text)).collect();
        let all = rules(&conditions, &Place::at(1), Finding::Exactly)?;
        let keys = ["address", "method", "path", "query", "host", "user_agent", "referer", "field", "tls"];
        let text = |rule: &Scope| {
            let given = keys.iter().filter_map(|key| Some(format!("{key} {:?}", rule.get(key)?)));
            given.collect::<Vec<_>>().join(" ").replace("Texts", "").replace("Table", "")
        };
        Some(all.iter().map(text).collect())
    }

    #[test]
    fn says_with_rules_what_conditions_find() {
        for (conditions, expected) in [
            (vec!["%{REMOTE_ADDR} !^10\\.1\\."], vec!["address ([\"!10.1.0.0/16\"])"]),
            (vec!["%{REQUEST_FILENAME} -d [OR]", "%{REQUEST_FILENAME} -f"], vec![""]),
            (vec!["%{REMOTE_ADDR} =192.0.2.1"], vec!["address ([\"192.0.2.1\"])"]),
            (vec!["%{REMOTE_ADDR} !^192\\.0\\.2\\.1"], vec!["address ([\"!192.0.2.1/32\"])"]),
            (vec!["%{REQUEST_METHOD} ^(TRACE|TRACK) [NC]"], vec!["method ([\"TRACE\", \"TRACK\"])"]),
            (vec!["%{HTTP_USER_AGENT} (bot|spider) [NC]"], vec!["user_agent ([\"*bot*\", \"*spider*\"])"]),
            (
                vec!["%{HTTP_REFERER} !^$", "%{HTTP_REFERER} !^http://a/ [NC]"],
                vec!["referer ([\"!\", \"!http://a/*\"])"],
            ),
            (
                vec!["%{HTTP_USER_AGENT} a [OR]", "%{HTTP:X-A} ^b$", "%{HTTPS} off"],
                vec![
                    "user_agent ([\"*a*\"]) tls Flag(false)",
                    "field ([(\"X-A\", Text(\"b\"))]) tls Flag(false)",
                ],
            ),
            (
                vec!["%{QUERY_STRING} (a|b)= [NC,OR]", "%{QUERY_STRING} ^$"],
                vec!["query ([\"*a=*\", \"*b=*\"])", "query ([\"\"])"],
            ),
            (vec!["%{QUERY_STRING} !^id= [NC]"], vec!["query ([\"!id=*\"])"]),
            (vec!["%{HTTP_USER_AGENT} !^own [NC]"], vec!["user_agent ([\"!own*\"])"]),
            (vec!["%{QUERY_STRING} !^id="], vec!["query ([\"!(?-i)id=*\"])"]),
            (vec!["%{HTTP:X-Key} !=a"], vec!["field ([(\"X-Key\", Text(\"!(?-i)a\"))])"]),
            (vec!["%{HTTP:X-Key} !=1"], vec!["field ([(\"X-Key\", Text(\"!1\"))])"]),
            (vec!["%{REQUEST_URI} ^/a/", "%{REQUEST_URI} !=/a/b"], vec!["path ([\"/a/\", \"!/a/b\"])"]),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(said(&conditions), Some(expected), "{conditions:?}");
        }
        for conditions in [
            vec!["%{QUERY_STRING} [0-9]"],
            vec!["%{REQUEST_FILENAME} !-f"],
            vec!["%{REMOTE_ADDR} ^10\\.1"],
            vec!["%{REQUEST_METHOD} ^P"],
            vec!["%{REMOTE_ADDR} ^192\\.0\\.2\\.1"],
            vec!["%{HTTP_HOST} a", "%{HTTP_HOST} b"],
            vec!["%{HTTP:X-A} !^(a|b)$"],
            vec!["%{HTTP_REFERER} ^http"],
            vec!["%{TIME_HOUR} >12"],
            vec!["a b"],
        ] {
            assert_eq!(said(&conditions), None, "{conditions:?}");
        }
    }
}
