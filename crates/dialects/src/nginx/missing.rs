//! What responds where no file is found.

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::tree::{Directive, Place, unconverted};

use super::settings::Context;
use super::{named, returns};

/// The files that `try_files` names, here and in locations.
pub fn fallbacks(directive: &Directive) -> Vec<String> {
    let own = directive.children().iter().filter(|child| child.name == "try_files");
    let last = own.filter_map(|child| child.arguments.last());
    let path = last.map(|last| last.split(['?', '$']).next().unwrap_or_default().to_owned());
    path.chain(directive.children().iter().flat_map(fallbacks)).collect()
}

/// The script of all paths and folders: that of `location /`, if the server lists no folder.
pub fn front(server: &Directive) -> Option<&str> {
    let is_root = |child: &&Directive| child.name == "location" && child.arguments == ["/"];
    let root = server.children().iter().find(is_root)?;
    let files = root.children().iter().find(|inner| inner.name == "try_files")?;
    let path = files.arguments.last()?.split(['?', '$']).next()?;
    let has_folders = files.arguments.iter().any(|part| part == "$uri/");
    (is_script_name(path) && has_folders && !lists(server)).then_some(path)
}

fn lists(block: &Directive) -> bool {
    let is_listing = |child: &Directive| child.name == "autoindex" && child.arguments == ["on"];
    block.children().iter().any(|child| is_listing(child) || lists(child))
}

/// `/index.php`, also as a folder.
pub fn is_script_name(path: &str) -> bool {
    path.trim_end_matches('/').ends_with(".php")
}

/// The last part of `try_files`.
enum Last {
    Status(String),
    /// A named location that passes requests on.
    Passed,
    /// A path, perhaps with variables and a query.
    Path(String),
    /// A named location that does neither.
    Unknown,
}

impl Last {
    fn of(last: &str, location: Option<&Directive>) -> Last {
        if let Some(status) = last.strip_prefix('=') {
            return Last::Status(status.to_owned());
        }
        if !last.starts_with('@') {
            return Last::Path(last.to_owned());
        }
        let Some(location) = location else { return Last::Unknown };
        if named::passes(location) {
            return Last::Passed;
        }
        if named::decides(location) {
            return Last::Unknown;
        }
        let inner = rewrites_of(location.children()).find(|inner| is_for_all(inner));
        let target = inner.and_then(|inner| match (inner.argument(0), inner.argument(1)) {
            ("^(.*)$" | "^(.*)" | "^(.+)$", target) => Some(target.replace("$1", "$uri")),
            ("^/(.*)$" | "^/(.*)" | "^/(.+)$", target) => Some(with_rest(target)),
            ("^" | ".*" | "^.*$" | "^/", target) => Some(target.to_owned()),
            _ => None,
        });
        let with_suffix = rewrites_of(location.children()).find_map(suffix_of_rewrite);
        target.or(with_suffix.map(|suffix| format!("$uri{suffix}"))).map_or(Last::Unknown, Last::Path)
    }

    /// The end of a name in `$uri.php?$args`.
    fn suffix(&self) -> Option<&str> {
        match self {
            Last::Path(path) => suffix(without_query(path)),
            Last::Status(_) | Last::Passed | Last::Unknown => None,
        }
    }
}

pub fn try_files(
    child: &Directive,
    owner: &Directive,
    scope: &mut Scope,
    context: &Context,
    draft: &mut Draft,
) {
    let place = &child.place;
    let Some((mut name, mut before)) = child.arguments.split_last() else { return };
    // With `/index.html =404`, the file stands for what is missing, as without the status behind it.
    if let Some((file, others)) =
        before.split_last().filter(|(file, _)| name == "=404" && is_page(file, owner))
    {
        (name, before) = (file, others);
    }
    let last = Last::of(name, context.named(name));
    if !files(child, owner, before, last.suffix(), scope, draft) {
        return;
    }
    let target = match &last {
        Last::Status(status) => {
            if status != "404" {
                draft.warn(
                    place,
                    format!("a missing file has the status 404, not {status}"),
                    "nothing to do",
                );
            }
            return no_folders(before, place, scope);
        }
        Last::Passed => {
            scope.set(place, "fallback", named::path(owner, name));
            scope.set(place, "fallback_for", "all");
            return no_folders(before, place, scope);
        }
        Last::Unknown => {
            let what = format!("{}: {name} passes no requests on", child.text());
            draft.error(place, what, "name a file, or a location with proxy_pass");
            return no_folders(before, place, scope);
        }
        Last::Path(_) if last.suffix().is_some() => return no_folders(before, place, scope),
        Last::Path(target) => target,
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.trim_end_matches("$is_args$args");
    // A script has the requested path in PATH_INFO in any case.
    let path = ["$request_uri", "$uri"]
        .iter()
        .find_map(|rest| path.strip_suffix(rest).filter(|script| is_script_name(script)))
        .unwrap_or(path);
    let query = query.replace("$query_string", "").replace("$is_args", "").replace("$args", "");
    let query = query.replace("$uri", "$path").replace("$request_uri", "$path");
    let query = query.trim_matches('&').to_owned();
    if path.contains('$')
        || !path.starts_with('/')
        || query.replace("$path", "").replace("$rest", "").contains('$')
    {
        return draft.error(place, unconverted(child), "see fallback");
    }
    let fallback = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    scope.set(place, "fallback", fallback);
    scope.set(place, "fallback_for", "all");
    no_folders(before, place, scope);
}

/// Whether a part of `try_files` is one file, which is sent as it is.
fn is_page(part: &str, owner: &Directive) -> bool {
    let is_path = part.starts_with('/') && !part.ends_with('/') && !part.contains(['$', '?']);
    is_path && !is_script_name(part) && !named::passes(owner)
}

/// What is looked for, before the last part, and by its suffix. `false`: it cannot be said.
fn files(
    child: &Directive,
    owner: &Directive,
    before: &[String],
    last: Option<&str>,
    scope: &mut Scope,
    draft: &mut Draft,
) -> bool {
    let place = &child.place;
    let is_known = |part: &String| {
        PLAIN.contains(&part.as_str()) || part == "$uri/" || index_file(part).or(suffix(part)).is_some()
    };
    if !before.iter().all(is_known) {
        let what_to_do = "only $uri, $uri.html, $uri/ and $uri/index.html can come before the last one";
        draft.error(place, unconverted(child), what_to_do);
        return false;
    }
    let plain = before.iter().position(|part| PLAIN.contains(&part.as_str()));
    if plain.is_none() && !before.is_empty() {
        draft.error(place, unconverted(child), "every file has its own path, too; write $uri in front");
        return false;
    }
    let suffixes: Vec<&str> = before.iter().filter_map(|part| suffix(part)).collect();
    if let Some(script) = suffixes.iter().find(|suffix| is_script_name(suffix))
        && !named::passes(owner)
    {
        let what = format!("{}: $uri{script} is run where a location runs such files", child.text());
        draft.warn(place, what, "nginx runs it only as the last part, and else sends the source");
    }
    if suffixes.is_empty() && last.is_none() {
        return true;
    }
    if before.iter().take(plain.unwrap_or(0)).any(|part| suffix(part).is_some()) {
        let what = format!("{}: a file of the path itself precedes those with an extension", child.text());
        draft.warn(place, what, "nothing to do, unless there are files with both names");
    }
    if is_index_first(before) {
        let what = format!("{}: a file with an extension precedes an index file", child.text());
        draft.warn(place, what, "nothing to do, unless there are files with both names");
    }
    let all = before.iter().filter_map(|part| suffix(part).or((part == "$uri/").then_some("/")));
    let mut all: Vec<String> = all.chain(last).map(str::to_owned).collect();
    // The folder comes last in any case.
    all.truncate(all.iter().rposition(|suffix| suffix != "/").map_or(0, |last| last + 1));
    scope.set(place, "try_suffixes", all);
    true
}

/// The requested file.
const PLAIN: [&str; 3] = ["$uri", "$document_root$fastcgi_script_name", "$fastcgi_script_name"];

/// The end of a name in `$uri.html`.
fn suffix(part: &str) -> Option<&str> {
    let end = part.strip_prefix("$uri").filter(|end| end.len() > 1)?;
    end.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)).then_some(end)
}

/// A target without the query of the request.
fn without_query(target: &str) -> &str {
    const QUERIES: [&str; 5] = ["$is_args$args", "?$args", "?$query_string", "$is_args$query_string", "?"];
    QUERIES.iter().find_map(|query| target.strip_suffix(query)).unwrap_or(target)
}

/// The end of a name that a `rewrite` adds to every path, or to those without a dot.
fn suffix_of_rewrite(inner: &Directive) -> Option<String> {
    const DOTLESS: [&str; 8] = [
        "^([^.]*)$",
        "^([^\\.]*)$",
        "^([^.]+)$",
        "^([^\\.]+)$",
        "^/([^.]*)$",
        "^/([^\\.]*)$",
        "^/([^.]+)$",
        "^/([^\\.]+)$",
    ];
    let (expression, flag) = (inner.argument(0), inner.argument(2));
    if !(is_for_all(inner) || DOTLESS.contains(&expression)) || !matches!(flag, "last" | "break" | "") {
        return None;
    }
    let target = without_query(inner.argument(1));
    let paths = ["/$1", "$1", "$uri", "$request_uri", "$document_uri"];
    let end = paths.iter().find_map(|path| target.strip_prefix(path))?;
    suffix(&format!("$uri{end}")).map(str::to_owned)
}

/// The end of a name in `if (-f $request_filename.php)`, whose block adds it to every path.
fn existing_suffix(child: &Directive) -> Option<String> {
    let text = child.arguments.join(" ");
    let condition = text.trim_matches(['(', ')', ' ']);
    let tested = condition.strip_prefix("-f ").or_else(|| condition.strip_prefix("-e "))?.trim_matches('"');
    let files = ["$request_filename", "$document_root$uri", "$document_root/$uri"];
    let end = files.iter().find_map(|file| tested.strip_prefix(file))?;
    let [inner, rest @ ..] = child.children() else { return None };
    let is_alone = rest.iter().all(|inner| inner.name == "break");
    let is_same = is_alone && child.name == "if" && inner.name == "rewrite";
    suffix_of_rewrite(inner).filter(|suffix| is_same && suffix == end)
}

/// Adds the end of a name to those that are tried.
fn add_suffix(suffix: String, condition: &Directive, scope: &mut Scope) {
    let mut all = scope.get("try_suffixes").map(Value::texts).unwrap_or_default().to_vec();
    if all.contains(&suffix) {
        return;
    }
    match existing_suffix(condition) {
        // It precedes `try_files`.
        Some(_) => all.insert(0, suffix),
        None => {
            let is_for_folders = condition.arguments.join(" ").contains("!-e");
            if is_for_folders && !all.iter().any(|own| own == "/") {
                all.push("/".to_owned());
            }
            all.push(suffix);
        }
    }
    scope.set(&condition.place, "try_suffixes", all);
}

/// Whether an index file is named before a file with an extension.
fn is_index_first(before: &[String]) -> bool {
    let index = before.iter().position(|part| index_file(part).is_some());
    let last = before.iter().rposition(|part| suffix(part).is_some());
    index.is_some_and(|index| last.is_some_and(|last| index < last))
}

/// Of `^/(.*)$`, the query can have what a fallback knows as `$rest`.
fn with_rest(target: &str) -> String {
    match target.split_once('?') {
        Some((path, query)) => format!("{}?{}", path.replace("$1", "$uri"), query.replace("$1", "$rest")),
        None => target.replace("/$1", "$uri"),
    }
}

/// The name in `$uri/index.html`.
fn index_file(part: &str) -> Option<&str> {
    part.strip_prefix("$uri/").filter(|name| !name.is_empty() && !name.contains(['$', '/']))
}

/// Whether a `rewrite` is for every path.
fn is_for_all(inner: &Directive) -> bool {
    const ALL: [&str; 10] =
        ["^(.*)$", "^(.*)", "^(.+)$", "^/(.*)$", "^/(.*)", "^/(.+)$", "^", ".*", "^.*$", "^/"];
    ALL.contains(&inner.argument(0))
}

fn rewrites_of(block: &[Directive]) -> impl Iterator<Item = &Directive> {
    block.iter().filter(|inner| inner.name == "rewrite")
}

/// Whether it is `if (!-e $request_filename)`, or `if (-f $request_filename.php)`, whose block only rewrites.
pub fn is_condition(child: &Directive) -> bool {
    is_about_missing(child) || existing_suffix(child).is_some()
}

fn is_about_missing(child: &Directive) -> bool {
    let text = child.arguments.join(" ");
    let condition = text.trim_matches(['(', ')', ' ']);
    child.name == "if"
        && matches!(condition, "!-e $request_filename" | "!-f $request_filename")
        && child.children().iter().all(|inner| matches!(inner.name.as_str(), "rewrite" | "break"))
}

/// Whether it is `if (!-f $document_root$fastcgi_script_name) { return 404; }`. A script that is missing has the status
/// 404 anyway.
pub fn is_missing_script(child: &Directive) -> bool {
    const CONDITIONS: [&str; 2] =
        ["!-f $document_root$fastcgi_script_name", "!-f $realpath_root$fastcgi_script_name"];
    let text = child.arguments.join(" ");
    let returns_404 = |inner: &Directive| inner.name == "return" && inner.arguments == ["404"];
    child.name == "if"
        && CONDITIONS.contains(&text.trim_matches(['(', ')', ' ']))
        && matches!(child.children(), [only] if returns_404(only))
}

/// What is rewritten where no file is found, as fallbacks of the paths. `patterns` are those of the location; without
/// them, it is a server.
pub fn rewrites(
    directives: &[&Directive],
    patterns: &[String],
    scope: &mut Scope,
    host: &mut Host,
    context: &Context,
    draft: &mut Draft,
) {
    for child in directives {
        let name = child.arguments.last().filter(|last| last.starts_with('@') && child.name == "try_files");
        let location = name.and_then(|name| context.named(name));
        let (block, is_named) =
            match location.filter(|location| !named::passes(location) && !named::decides(location)) {
                Some(location) => (location.children(), true),
                None if is_condition(child) => (child.children(), false),
                None => continue,
            };
        // That for all paths is the one of `try_files` itself.
        for inner in rewrites_of(block).filter(|inner| !is_named || !is_for_all(inner)) {
            match suffix_of_rewrite(inner) {
                // `try_files` has it.
                Some(_) if is_named => continue,
                Some(suffix) => {
                    add_suffix(suffix, child, scope);
                    continue;
                }
                None => {}
            }
            let all = returns::targets(inner, context)
                .filter(|_| matches!(inner.argument(2), "last" | "break" | ""));
            let all: Option<Vec<_>> = all
                .and_then(|all| all.into_iter().map(|(path, to)| Some((path, fallback_to(&to)?))).collect());
            let is_within = |path: &str| match patterns {
                [prefix, ..] => prefix.ends_with('/') && path.starts_with(prefix.as_str()),
                [] => true,
            };
            let Some(all) = all.filter(|all| all.iter().all(|(path, _)| is_within(path))) else {
                draft.error(&inner.place, unconverted(inner), "see fallback, which may have a query");
                continue;
            };
            for (path, to) in all {
                let own = match patterns {
                    _ if patterns.contains(&path) => &mut *scope,
                    [] if path == "/" => &mut *scope,
                    _ => host.route(&path, &inner.place),
                };
                if own.get("fallback").is_none() {
                    own.set(&inner.place, "fallback", to);
                    own.set(&inner.place, "fallback_for", "all");
                }
            }
        }
    }
}

/// A fallback has a path without variables. A script has the requested path in PATH_INFO.
fn fallback_to(to: &str) -> Option<String> {
    let to = returns::rewritten(to);
    let (path, query) = to.split_once('?').map_or((to, None), |(path, query)| (path, Some(query)));
    let path = ["/${rest}", "$path"]
        .iter()
        .find_map(|rest| path.strip_suffix(rest).filter(|script| is_script_name(script)))
        .unwrap_or(path);
    (path.starts_with('/') && !path.contains('$'))
        .then(|| query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
}

/// `error_page 404 = @app` where files are sent.
pub fn missing(
    child: &Directive,
    owner: &Directive,
    scope: &mut Scope,
    context: &Context,
    draft: &mut Draft,
) {
    let place = &child.place;
    let name = child.arguments.last().map_or("", String::as_str);
    if named::passes(owner) || !context.named(name).is_some_and(named::passes) {
        return draft.error(place, unconverted(child), "name a file of the host by its path");
    }
    if scope.get("fallback").is_none() {
        scope.set(place, "fallback", named::path(owner, name));
        scope.set(place, "fallback_for", "all");
    }
}

/// Says once more what `try_files` says about folders, after all other directives of a location.
pub fn keep_no_folders(directives: &[&Directive], scope: &mut Scope) {
    let is_found = |inner: &&&Directive| inner.name == "try_files";
    let says_so = scope.get("index").is_some() || scope.get("listing").is_some();
    if let Some(files) = directives.iter().find(is_found).filter(|_| says_so && !scope.responds())
        && let Some((_, before)) = files.arguments.split_last()
    {
        no_folders(before, &files.place, scope);
    }
}

/// Without `$uri/`, a folder is no file: it has neither a listing nor an index file but those that are named.
fn no_folders(before: &[String], place: &Place, scope: &mut Scope) {
    if !before.iter().any(|part| part == "$uri/") {
        let named: Vec<String> =
            before.iter().filter_map(|part| index_file(part)).map(str::to_owned).collect();
        scope.set(place, "index", named);
        scope.set(place, "listing", false);
    }
}
