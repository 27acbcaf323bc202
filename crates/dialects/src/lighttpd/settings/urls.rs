//! Redirects and rewrites.

use crate::brackets::is_glob;
use site::template::Template;

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::lighttpd::paths::{narrowed, url_patterns};
use crate::regex::{self, Captured};
use crate::tree::Place;

use super::{Setting, number};

/// The setting, if it leads to another path.
pub fn apply(setting: &Setting, host: &mut Host, draft: &mut Draft) -> bool {
    match setting.name {
        "url.redirect" => redirects(setting, host, draft),
        "url.redirect-code" => redirect_status(setting, host),
        "url.rewrite-once" | "url.rewrite" | "url.rewrite-repeat" => rewrites(setting, host, draft),
        "url.rewrite-if-not-file" | "url.rewrite-repeat-if-not-file" => fallback(setting, host, draft),
        _ => return false,
    }
    true
}

/// `$1` and the query, as targets of redirects and rewrites have them. `rest` is `$1`.
fn target(text: &str, rest: &str) -> Option<String> {
    let text =
        text.replace("${url.path}", "$path").replace("${qsa}", "$query").replace("${url.query}", "$query");
    let text = text
        .replace("?$query", "$query")
        .replace("$1", rest)
        .replace("$query$query", "$query")
        .replace("%0", "$hostport")
        .replace("${url.authority}", "$hostport");
    let known = ["$path", "$query", "${rest}", "$hostport"];
    let rest = known.iter().fold(text.clone(), |rest, name| rest.replace(name, ""));
    (!rest.contains(['$', '%']) && !text.is_empty()).then_some(text)
}

/// The paths of an expression within a block, for a target. `None`: patterns cannot say it.
fn targeted(paths: &[String], path: Option<String>, to: &str) -> Option<Vec<String>> {
    let path = path?;
    let all = narrowed(paths, std::slice::from_ref(&path))?;
    // `$1` begins behind the expression, and not behind the prefix of the block.
    (!to.contains("${rest}") || all.iter().all(|own| *own == path)).then_some(all)
}

/// For the redirects that follow, and for those of the paths that are there already.
fn redirect_status(setting: &Setting, host: &mut Host) {
    let Setting { value, place, .. } = *setting;
    let status = number(value);
    host.redirect_status = Some(status);
    let is_meant = |route: &Scope| route.get("redirect").is_some() && setting.is_for(route.path());
    for route in host.routes.iter_mut().filter(|route| is_meant(route)) {
        route.set(place, "status", status);
    }
}

fn redirects(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    let status = host.redirect_status.unwrap_or(301);
    setting.take_place(&["redirect", "status"], host);
    for (expression, to) in value.pairs() {
        let all = redirected(expression, to.text(), paths);
        let all = all.or_else(|| with_groups(expression, to.text()).filter(|_| paths.is_empty()));
        let Some(all) = all else {
            let what = format!("url.redirect \"{}\" cannot be converted", expression.escape_debug());
            draft.error(place, what, "see redirects");
            continue;
        };
        for (pattern, to) in all {
            let route = host.route(&pattern, place);
            route.set(place, "redirect", to);
            route.set(place, "status", status);
        }
    }
}

/// The patterns of an expression, each with its target. `None`: patterns or targets cannot say it.
fn redirected(expression: &str, to: &str, paths: &[String]) -> Option<Vec<(String, String)>> {
    let path = regex::prefix(expression).or_else(|| regex::exact(expression));
    let path = path.or_else(|| matches!(expression, "" | "^" | "^/").then(|| "/".to_owned()));
    // The expression finds the query, too.
    let to = target(to, "${rest}$query")?;
    // What is not captured has no place in the target.
    let others = || narrowed(paths, &regex::patterns(expression)?).filter(|_| !to.contains("${rest}"));
    let patterns = targeted(paths, path, &to).or_else(others)?;
    // A path alone has no rest.
    let is_said = |pattern: &String| pattern.ends_with('/') || is_glob(pattern) || !to.contains("{rest}");
    patterns.iter().all(is_said).then(|| patterns.into_iter().map(|one| (one, to.clone())).collect())
}

/// As `redirected`, where the target names several groups. A group at the end finds the query, too, and has to end the
/// target.
fn with_groups(expression: &str, to: &str) -> Option<Vec<(String, String)>> {
    let finds_query = ["(.*)", "(.*)$"].iter().any(|end| expression.ends_with(end));
    let pair = |mut one: Captured| {
        let last = format!("${}", one.groups.len());
        if finds_query && to.contains(&last) {
            if to.find(&last) != Some(to.len() - last.len()) {
                return None;
            }
            one.groups.last_mut()?.push_str("$query");
        }
        let to = one.target(to).filter(|to| !to.contains('%') && Template::redirect(to).is_ok())?;
        Some((one.pattern, to))
    };
    regex::captured(expression)?.into_iter().map(pair).collect()
}

fn rewrites(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    setting.take_place(&["rewrite"], host);
    for (expression, to) in value.pairs() {
        if to.text() == "$0"
            && let Some(patterns) = whole_patterns(expression, paths)
        {
            for pattern in patterns {
                host.route(&pattern, place);
            }
            continue;
        }
        let all = rewritten(expression, to.text()).and_then(|rewritten| {
            let one = |(path, to): (String, String)| {
                // Everything would be the scripts of other routes, too.
                let path = Some(path).filter(|path| path != "/");
                Some((targeted(paths, path, &to)?, to))
            };
            let all: Option<Vec<_>> = rewritten.all.into_iter().map(one).collect();
            Some((all?, rewritten.takes_query))
        });
        let Some((all, takes_query)) = all else {
            let what_to_do = match rewritten(expression, to.text()) {
                Some(all) if all.all.iter().any(|(path, _)| path == "/") => {
                    "write url.rewrite-if-not-file, or a prefix: scripts that are named themselves would still run"
                }
                _ => "see rewrites and fallback; patterns have wildcards, and classes such as [0-9]+",
            };
            let what = format!("url.rewrite \"{}\" cannot be converted", expression.escape_debug());
            draft.error(place, what, what_to_do);
            continue;
        };
        if takes_query {
            warn_of_query(expression, place, draft);
        }
        for (patterns, to) in all {
            for pattern in patterns {
                let route = host.route(&pattern, place);
                if !is_same(&pattern, &to) {
                    route.set(place, "rewrite", to.as_str());
                }
            }
        }
    }
}

/// Whether a target is the path itself: it only keeps other rules away, which the route does alone.
fn is_same(pattern: &str, to: &str) -> bool {
    to == "$path" || to == pattern || to.strip_suffix("${rest}").is_some_and(|begin| begin == pattern)
}

fn warn_of_query(expression: &str, place: &Place, draft: &mut Draft) {
    let what = format!("\"{}\" finds the query of the request, too", expression.escape_debug());
    draft.warn(place, what, "here it follows as parameters of its own");
}

/// What an expression and a target say.
struct Rewritten {
    /// Patterns, each with its target.
    all: Vec<(String, String)>,
    /// A group at the end finds a path with its query.
    takes_query: bool,
}

/// The ends of expressions that find the query of a URL, with what their groups are.
const QUERY_ENDS: [(&str, &[&str]); 11] = [
    ("(\\?|$)(.*)$", &["", "&$query"]),
    ("(\\?|$)(.*)", &["", "&$query"]),
    ("(\\?.*)$", &["$query"]),
    ("(?:\\?(.*))?$", &["&$query"]),
    ("(?:\\?(.*))?", &["&$query"]),
    ("(\\?(.*))?$", &["$query", "&$query"]),
    ("(\\?.*)?$", &["$query"]),
    ("(\\?.*)?", &["$query"]),
    ("(\\?.*|)$", &["$query"]),
    ("\\??(.*)$", &["&$query"]),
    ("\\?(.*)$", &["&$query"]),
];

/// An expression as it is written mostly, without needless backslashes.
fn spelled(expression: &str) -> String {
    expression.replace("\\/", "/").replace("[^\\?]", "[^?]").replace("[^/\\?]", "[^/?]")
}

/// `None`: patterns or targets cannot say it.
fn rewritten(expression: &str, to: &str) -> Option<Rewritten> {
    let expression = &*spelled(expression);
    let end = QUERY_ENDS.iter().find(|(end, _)| expression.ends_with(end));
    let (path, of_query) = match end {
        Some((end, groups)) => (format!("{}$", expression.strip_suffix(end)?), *groups),
        None => (expression.to_owned(), &[][..]),
    };
    let prefixed = regex::prefix(&path).map(|path| (path, vec!["${rest}".to_owned()]));
    let alone = || regex::exact(&path).map(|path| (path, Vec::new()));
    let whole = || {
        const WHOLE: [&str; 9] = ["", "$", "^", "^/", "^/.*$", "^.*$", ".*", ".*$", "/"];
        WHOLE.contains(&path.as_str()).then(|| ("/".to_owned(), Vec::new()))
    };
    let rest = || match path.as_str() {
        "^(.*)$" | "^(.+)$" | "^(/.*)$" | "^([^?]*)$" | "(.*)" | "(.*)$" | "(.+)" | "^(.+)/?$" => {
            Some(("/".to_owned(), vec!["$path".to_owned()]))
        }
        "/(.*)" | "/(.*)$" => Some(("/".to_owned(), vec!["${rest}".to_owned()])),
        _ => None,
    };
    let one = whole().or_else(rest).or(prefixed).or_else(alone);
    let all = match one {
        Some((pattern, groups)) => vec![Captured { pattern, groups }],
        None => regex::captured(&path)?,
    };
    let to =
        to.replace("${url.path}", "$path").replace("${qsa}", "&$query").replace("${url.query}", "&$query");
    let target = |mut one: Captured| {
        one.groups.extend(of_query.iter().map(|group| (*group).to_owned()));
        Some((one.pattern.clone(), with_query(&one.target(&to)?)?))
    };
    let is_open =
        of_query.is_empty() && ["(.*)", "(.*)$", "(.+)", "(.+)$"].iter().any(|end| path.ends_with(end));
    let last = all.iter().map(|one| one.groups.len()).max().unwrap_or(0).max(1);
    let takes_query = is_open && to.contains(&format!("${last}"));
    let finished = |(pattern, to): (String, String)| {
        let keeps = takes_query || to.contains("$query") || !to.contains('?');
        (pattern, if keeps || to.ends_with('?') { to } else { to + "?" })
    };
    let all: Option<Vec<_>> = all.into_iter().map(target).collect();
    let all: Vec<_> = all?.into_iter().map(finished).collect();
    let has_own_query = all.iter().any(|(_, to)| to.contains('?'));
    Some(Rewritten { all, takes_query: takes_query && has_own_query })
}

/// A target in which `&$query` is joined to a query of its own, or left out: that of the request stays then. `None`: it
/// has variables that there are not.
fn with_query(to: &str) -> Option<String> {
    let to = to.replace("&&$query", "&$query").replace("?&$query", "?$query").replace("%0", "$host");
    let (path, query) = to.split_once('?').map_or((to.as_str(), None), |(path, query)| (path, Some(query)));
    let path = path.replace("&$query", "").replace("$query", "");
    let known = |text: &str| {
        let bare =
            ["$path", "$query", "${rest}"].iter().fold(text.to_owned(), |text, name| text.replace(name, ""));
        let bare = (1..=9).fold(bare, |text, number| text.replace(&format!("${number}"), ""));
        !bare.contains(['$', '%'])
    };
    if !path.starts_with('/') || !known(&path) || !query.is_none_or(known) {
        return None;
    }
    Some(match query {
        None | Some("$query") => path,
        Some(query) => format!("{path}?{query}"),
    })
}

/// `url.rewrite-if-not-file`, for a front controller. `url.rewrite-repeat-if-not-file` is the same for a target that is a
/// file.
fn fallback(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths, .. } = *setting;
    let is_file = |to: &str| to.split(['?', '$']).next().is_some_and(|path| path.contains('.'));
    if !paths.is_empty() && !setting.adds && host.scope.get("fallback").is_some() {
        setting.set(host, "fallback", false);
    }
    for (expression, to) in value.pairs() {
        // What is excepted is not there.
        if to.text() == "$0"
            && let Some(patterns) = whole_patterns(expression, paths)
        {
            for pattern in patterns {
                host.route(&pattern, place).set(place, "fallback", false);
            }
            continue;
        }
        let what = format!("{name} \"{}\" cannot be converted", expression.escape_debug());
        if name == "url.rewrite-repeat-if-not-file" && !is_file(to.text()) {
            draft.error(place, what, "write the file that it leads to in the end");
        } else if set_fallbacks(setting, expression, to.text(), host, draft).is_none() {
            let what_to_do = "see fallback; patterns have wildcards, and classes such as [0-9]+";
            draft.error(place, what, what_to_do);
        } else {
            let what =
                "folders that have an index file respond themselves, and not what missing files lead to";
            draft.note(place, what, "see index");
        }
    }
}

/// The patterns of an expression whose target is the whole path. `None`: patterns cannot say it.
fn whole_patterns(expression: &str, paths: &[String]) -> Option<Vec<String>> {
    url_patterns("=~", expression.trim_end_matches("/?")).filter(|_| paths.is_empty())
}

/// A target without what a script has as PATH_INFO: all paths of a fallback are one.
fn without_path_info(to: &str) -> String {
    let script = to.split_once(".php").and_then(|(script, rest)| {
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        let query = ["$0", "$1"].iter().find_map(|group| rest.strip_prefix(group))?;
        Some(format!("{script}.php{query}"))
    });
    script.unwrap_or_else(|| to.to_owned())
}

/// The end of a name that is added to paths without a dot, as from `^/([^.?]+)(\?.*)?$` to `/$1.php$2`.
fn suffix<'t>(expression: &str, to: &'t str) -> Option<&'t str> {
    const CLASSES: [&str; 5] = ["[^.?]", "[^?.]", "[^\\.\\?]", "[^\\?\\.]", "[^.]"];
    const QUERIES: [&str; 5] = ["$", "", "(\\?.*)?$", "(?:\\?.*)?$", "(\\?.*|)$"];
    let group = ["^/(", "^(/", "^("].iter().find_map(|begin| expression.strip_prefix(begin))?;
    let rest = CLASSES.iter().find_map(|class| group.strip_prefix(class))?;
    let query = rest.strip_prefix('+').or_else(|| rest.strip_prefix('*'))?.strip_prefix(')')?;
    let end = to.strip_prefix("/$1").or_else(|| to.strip_prefix("$1"))?;
    let end = ["$2", "${qsa}"].iter().find_map(|query| end.strip_suffix(query)).unwrap_or(end);
    let is_end = end.len() > 1 && end.starts_with('.');
    let is_plain = end.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    (QUERIES.contains(&query) && is_end && is_plain).then_some(end)
}

/// `None`: it cannot be converted.
fn set_fallbacks(
    setting: &Setting,
    expression: &str,
    to: &str,
    host: &mut Host,
    draft: &mut Draft,
) -> Option<()> {
    let Setting { place, paths, .. } = *setting;
    if let Some(suffix) = suffix(expression, to).filter(|_| paths.is_empty()) {
        let mut all = host.scope.get("try_suffixes").map(Value::texts).unwrap_or_default().to_vec();
        all.push(suffix.to_owned());
        host.scope.set(place, "try_suffixes", all);
        return Some(());
    }
    // `[^?]*` is the path.
    let Rewritten { all, takes_query } = match &*spelled(expression) {
        "^/[^?]*(\\?.*)?$" | "^/[^?]*(\\?.*)?" | "^/(\\?.*)?$" => rewritten("", &to.replace("$1", "${qsa}"))?,
        expression => rewritten(expression, &without_path_info(to))?,
    };
    let is_usable =
        |to: &str| to.split('?').next().is_some_and(|path| path.starts_with('/') && !path.contains('$'));
    if !all.iter().all(|(_, to)| is_usable(to)) {
        return None;
    }
    if takes_query {
        warn_of_query(expression, place, draft);
    }
    for (pattern, to) in all {
        let set = |scope: &mut Scope| {
            scope.set(place, "fallback", to.as_str());
            scope.set(place, "fallback_for", "all");
        };
        // In a block, `$rest` begins behind the prefix of the block.
        match (pattern.as_str(), paths) {
            ("/", paths) if paths.is_empty() || !to.contains("${rest}") => setting.each(host, set),
            (_, []) => set(host.route(&pattern, place)),
            _ => narrowed(paths, std::slice::from_ref(&pattern))
                .filter(|all| *all == [pattern.clone()])
                .map(|_| set(host.route(&pattern, place)))?,
        }
    }
    Some(())
}
