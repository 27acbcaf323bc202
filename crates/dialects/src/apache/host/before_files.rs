//! What comes before the files of patterns and the programs that run them: rules that lead to other paths.

use site::route::ANY_CASE;

use super::overlaps;
use crate::brackets::is_glob;
use crate::draft::{Draft, Host, Scope, TOO_MANY_ROUTES};
use crate::pattern;

/// Patterns that one becomes whose folders may be missing.
const MAX_VARIANTS: usize = 16;

/// Rules lead to other paths before a program or a section of files is found for a file: their patterns come first. Those
/// of a server, whose paths are in `of_server`, also precede what protects a file.
pub(super) fn rewrite_before_files(host: &mut Host, of_server: &[String], draft: &mut Draft) {
    let is_of_server = |route: &Scope| of_server.iter().any(|own| own == route.path());
    put_before(host, &is_of_server, |glob| glob.get("return").is_none());
    put_before(host, &|route| !is_of_server(route), |glob| !glob.responds() && !glob.protects());
    let leads: Vec<Scope> =
        host.routes.iter().filter(|route| is_leading_glob(route) && !is_of_server(route)).cloned().collect();
    for lead in leads {
        protect(host, &lead, draft);
    }
}

/// Puts the patterns of some rules in front of the first pattern of another kind.
fn put_before(host: &mut Host, is_own: &dyn Fn(&Scope) -> bool, is_other: fn(&Scope) -> bool) {
    let is_first = |route: &Scope| has_glob(route) && !leads_away(route) && is_other(route);
    let Some(first) = host.routes.iter().position(is_first) else { return };
    let behind = host.routes.split_off(first);
    let leads = |route: &Scope| is_leading_glob(route) && is_own(route);
    let (rewrites, others): (Vec<Scope>, Vec<Scope>) = behind.into_iter().partition(leads);
    host.routes.extend(rewrites.into_iter().chain(others));
}

/// The files of a folder's rule are protected before it leads them away.
fn protect(host: &mut Host, lead: &Scope, draft: &mut Draft) {
    let at = |host: &Host| host.routes.iter().position(|route| route.path() == lead.path());
    let globs: Vec<Scope> =
        host.routes.iter().filter(|route| has_glob(route) && route.protects()).cloned().collect();
    for glob in globs.iter().filter(|glob| !leads_away(glob)) {
        let Some(own) = at(host).filter(|_| host.routes.len() <= TOO_MANY_ROUTES) else { return };
        let is_before = host.routes[..own].iter().any(|route| route.path() == glob.path());
        if is_before && denies_all(glob) {
            continue;
        }
        let both = overlaps::common(glob.path(), lead.path());
        let to = lead.text("rewrite").or(lead.text("redirect")).unwrap_or_default();
        let is_named = |pattern: &String| pattern == lead.path() || !has_parts(to);
        let Some(both) = both.filter(|both| both.iter().all(is_named)) else {
            report(lead, glob.path(), draft);
            continue;
        };
        let (_, protection) = glob.clone().split();
        for pattern in both {
            let mut route = lead.clone();
            route.inherit(&protection);
            route.set(&lead.place(), "path", pattern.as_str());
            // Behind what denies more, and in front of both.
            let is_either = |other: &Scope| other.path() == lead.path() || other.path() == glob.path();
            let first = host.routes.iter().position(is_either).unwrap_or_default();
            let same = host.routes.iter().position(|other| other.path() == pattern);
            if let Some(same) = same {
                let (_, own) = host.routes.remove(same).split();
                route.inherit(&own);
            }
            host.routes.insert(first - usize::from(same.is_some_and(|same| same < first)), route);
        }
    }
}

/// A pattern has no file of a prefix that is redirected or rewritten, and a program of `ProxyPassMatch` runs none of a
/// prefix that is passed on before it.
pub(super) fn pass_on_before_files(host: &mut Host, draft: &mut Draft) {
    let precedes = |prefix: &Scope, glob: &Scope| {
        let is_of_match = glob.get("interpreter").is_some() && glob.get("root").is_some();
        let is_earlier = prefix.get("proxy").is_some() && prefix.place().line < glob.place().line;
        is_of_match && is_earlier || leads_away(prefix)
    };
    let is_prefix = |route: &&Scope| route.path().ends_with('/') && route.path() != "/";
    let mut prefixes: Vec<Scope> = host.routes.iter().filter(is_prefix).cloned().collect();
    // What a rule leaves out below its prefix comes first.
    sort::by_key(&mut prefixes, |prefix| usize::MAX - prefix.path().len());
    let mut at = 0;
    while let Some(glob) = host.routes.get(at).filter(|_| host.routes.len() <= TOO_MANY_ROUTES).cloned() {
        at += 1;
        if glob.responds() && !glob.runs() || !has_glob(&glob) {
            continue;
        }
        for prefix in &prefixes {
            let rewrites = |outer: &&Scope| outer.get("rewrite").is_some() && precedes(outer, &glob);
            let around =
                prefixes.iter().filter(rewrites).find(|outer| prefix.path().starts_with(outer.path()));
            let found = match (precedes(prefix, &glob), around) {
                (true, _) => led(prefix, &glob),
                (false, Some(_)) => left(prefix, &glob),
                (false, None) => continue,
            };
            // What is denied to all need not be led away.
            let Some(found) = found else {
                let rule = around.unwrap_or(prefix);
                if !denies_all(&glob) {
                    report(rule, glob.path(), draft);
                }
                continue;
            };
            for route in found {
                if host.routes.iter().all(|other| other.path() != route.path()) {
                    host.routes.insert(at - 1, route);
                    at += 1;
                }
            }
        }
    }
}

/// The routes of a pattern below a prefix that leads its paths away. `None`: patterns cannot say it.
fn led(prefix: &Scope, glob: &Scope) -> Option<Vec<Scope>> {
    let place = prefix.place();
    let (_, mut own) = glob.clone().split();
    own.line = Some(place.line);
    let route = |(pattern, to): (String, Option<String>)| {
        let mut route = Scope::new(place.line);
        route.set(&place, "path", pattern);
        if let Some(to) = to {
            route.set(&place, "rewrite", to);
        }
        route.inherit(&own);
        route
    };
    let Some(to) = prefix.text("rewrite") else {
        // It has the response of the prefix.
        let all = pattern::all_beginning(prefix.path(), glob.path()).into_iter();
        return Some(all.map(|pattern| route((pattern, None))).collect());
    };
    let to = to.replace("${rest}", "$rest");
    let all = match to.contains("$rest") {
        false => below(prefix, glob)?.into_iter().map(|pattern| (pattern, Some(to.clone()))).collect(),
        true => {
            let mut all = Vec::new();
            for pattern in below(prefix, glob)? {
                for (pattern, rest) in numbered(prefix.path(), &pattern)? {
                    all.push((pattern, Some(to.replace("$rest", &rest))));
                }
            }
            all
        }
    };
    Some(all.into_iter().map(route).collect())
}

/// The routes of a pattern below a prefix that a rule around it leaves out.
fn left(prefix: &Scope, glob: &Scope) -> Option<Vec<Scope>> {
    let all = below(prefix, glob)?.into_iter().map(|pattern| {
        let mut route = glob.clone();
        route.set(&prefix.place(), "path", pattern);
        route
    });
    Some(all.collect())
}

/// The paths of a pattern below a prefix.
fn below(prefix: &Scope, glob: &Scope) -> Option<Vec<String>> {
    overlaps::common(glob.path(), &format!("{}**", prefix.path()))
}

/// Patterns with what their wildcards and texts are behind a prefix: `/a/x.*` with `x.${1}`, and `/a/**/x.*` with
/// `${1}/x.${2}` behind it. `None`: the letters of the path are not known, or there are too many.
fn numbered(prefix: &str, pattern: &str) -> Option<Vec<(String, String)>> {
    if pattern.starts_with(ANY_CASE) {
        return None;
    }
    // Folders and the beginning of a name are any text.
    let mut all = vec![(String::new(), pattern.strip_prefix(prefix)?.replace("**/*.", "**."))];
    while let Some(at) = all.iter().position(|(_, rest)| rest.contains("**/")) {
        let (before, rest) = all[at].clone();
        let (begin, end) = rest.split_once("**/")?;
        let begins = begin.is_empty() || begin.ends_with('/');
        let with = (format!("{before}{begin}**/"), end.to_owned());
        let without = (format!("{before}{begin}"), end.to_owned());
        all.splice(at..=at, begins.then_some(without).into_iter().chain([with]));
        if all.len() > MAX_VARIANTS {
            return None;
        }
    }
    let with_numbers = |(before, end): (String, String)| {
        let rest = format!("{before}{end}");
        Some((format!("{prefix}{rest}"), pattern::numbered(&rest)?))
    };
    all.into_iter().map(with_numbers).collect()
}

fn report(rule: &Scope, glob: &str, draft: &mut Draft) {
    let what = format!("the RewriteRule of {} would not lead the files of {glob} away", rule.path());
    draft.error(&rule.place(), what, "write a rule for these files in front of it, or a section for others");
}

fn has_glob(route: &Scope) -> bool {
    is_glob(route.path()) || route.path().starts_with(ANY_CASE)
}

fn leads_away(route: &Scope) -> bool {
    route.get("redirect").is_some() || route.get("rewrite").is_some()
}

fn is_leading_glob(route: &Scope) -> bool {
    has_glob(route) && leads_away(route)
}

fn denies_all(route: &Scope) -> bool {
    matches!(route.get("return"), Some(crate::document::Value::Integer(400..)))
        || route.rules.first().is_some_and(Scope::denies_all)
}

/// Whether a target names a part of the path.
fn has_parts(to: &str) -> bool {
    to.match_indices('$').any(|(at, _)| to[at + 1..].starts_with(|c: char| c.is_ascii_digit() || c == '{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_the_wildcards_behind_a_prefix() {
        for (pattern, expected) in [
            ("/a/**/*.css", Some(vec!["/a/**.css ${1}.css"])),
            ("/a/**/x.*", Some(vec!["/a/x.* x.${1}", "/a/**/x.* ${1}/x.${2}"])),
            ("/a/**/x.txt", Some(vec!["/a/x.txt x.txt", "/a/**/x.txt ${1}/x.txt"])),
            ("/a/b/**", Some(vec!["/a/b/** b/${1}"])),
            ("/a/?$b", Some(vec!["/a/?$b ${1}$$b"])),
            ("(?i)/a/**/*.css", None),
            ("/a/?*?*?*?*?*", None),
        ] {
            let all = |all: Vec<(String, String)>| {
                all.into_iter().map(|(pattern, to)| format!("{pattern} {to}")).collect::<Vec<_>>()
            };
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect());
            assert_eq!(numbered("/a/", pattern).map(all), expected, "{pattern}");
        }
    }
}
