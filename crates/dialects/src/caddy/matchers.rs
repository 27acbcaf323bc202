//! Matchers: the paths that a directive is for, and other conditions, which become those of a rule.

use site::route::Pattern;

use crate::draft::Scope;
use crate::pattern;
use crate::regex::{self, Captured};
use crate::tree::{Directive, Place, unconverted};

use super::options::networks;
use super::responses::status;
use super::site::{Site, Way, asks};

/// A named matcher.
pub(super) struct Matcher {
    pub(super) name: String,
    pub(super) paths: Vec<String>,
    /// The paths that it is not for.
    except: Vec<String>,
    /// Whether the path is one of a file.
    pub(super) file: Option<Presence>,
    /// They come from an expression, in which the case of letters counts.
    pub(super) counts_case: bool,
    /// The paths of an expression with its groups, as far as patterns can say them.
    pub(super) captured: Vec<Captured>,
    /// The other conditions, as those of a rule. `None`: they cannot be converted.
    pub(super) rule: Option<Scope>,
}

/// Whether there has to be a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    There,
    Missing,
}

/// A directive, the paths that its matcher finds, and its other arguments.
pub(super) struct Matched<'d> {
    pub(super) directive: &'d Directive,
    /// The patterns. Empty: all paths.
    pub(super) paths: Vec<String>,
    pub(super) arguments: Vec<String>,
}

impl Matched<'_> {
    /// The first argument.
    pub(super) fn argument(&self) -> &str {
        self.arguments.first().map_or("", String::as_str)
    }
}

/// What has to be true, besides the path, so that a directive counts.
pub(super) enum Condition {
    Always,
    /// The conditions of a rule, perhaps none, and the paths that it is not for.
    Rule(Scope, Vec<String>),
    File(Presence),
}

impl Matcher {
    fn new(name: &str, place: &Place) -> Matcher {
        Matcher {
            name: name.to_owned(),
            paths: Vec::new(),
            except: Vec::new(),
            file: None,
            counts_case: false,
            captured: Vec::new(),
            rule: Some(Scope::new(place.line)),
        }
    }

    /// One that finds the paths without a file.
    pub(super) fn of_missing(name: &str, place: &Place) -> Matcher {
        Matcher { file: Some(Presence::Missing), ..Matcher::new(name, place) }
    }

    /// `None`: it has conditions that cannot stand together.
    fn condition(&self) -> Option<Condition> {
        const CONDITIONS: [&str; 5] = ["address", "method", "host", "query", "field"];
        let rule = self.rule.as_ref()?;
        let has_rule = CONDITIONS.iter().any(|name| rule.get(name).is_some()) || !self.except.is_empty();
        match (has_rule, self.file) {
            (false, None) => Some(Condition::Always),
            (true, None) => Some(Condition::Rule(rule.clone(), self.except.clone())),
            (false, Some(presence)) => Some(Condition::File(presence)),
            (true, Some(_)) => None,
        }
    }
}

impl Site<'_> {
    pub(super) fn matcher(&mut self, child: &Directive) -> Matcher {
        let mut matcher = Matcher::new(&child.name, &child.place);
        let inline = [Directive {
            name: child.argument(0).to_owned(),
            arguments: child.arguments.get(1..).unwrap_or_default().to_vec(),
            // `@x not { … }` negates its block.
            block: child.block.clone(),
            place: child.place.clone(),
        }];
        let is_block = child.block.is_some() && child.arguments.is_empty();
        for condition in if is_block { child.children() } else { &inline } {
            if self.condition(condition, "", &mut matcher).is_none() {
                matcher.rule = None;
            }
        }
        matcher
    }

    fn condition(&mut self, condition: &Directive, negation: &str, matcher: &mut Matcher) -> Option<()> {
        let rule = matcher.rule.as_mut()?;
        let place = &condition.place;
        let given = |prefix: &str| {
            condition.arguments.iter().map(|text| format!("{prefix}{text}")).collect::<Vec<_>>()
        };
        match condition.name.as_str() {
            "path" if matcher.counts_case => return None,
            "path" if negation.is_empty() => {
                for text in &condition.arguments {
                    matcher.paths.push(pattern(text)?);
                }
            }
            "path" => {
                for text in &condition.arguments {
                    matcher.except.push(pattern(text)?);
                }
            }
            "expression" if negation.is_empty() => {
                for one in of_expression(&condition.arguments.join(" "), place)? {
                    self.condition(&one, "", matcher)?;
                }
            }
            "file" if matcher.file.is_some() || !is_of_path(condition) => return None,
            "file" => {
                matcher.file = Some(if negation.is_empty() { Presence::There } else { Presence::Missing });
            }
            // Both would have to find the path.
            "path_regexp" if !matcher.paths.is_empty() => return None,
            "path_regexp" if negation.is_empty() => {
                matcher.counts_case = true;
                let (expression, any_case) = regex::cased(condition.arguments.last()?);
                let captured = regex::captured(&expression).unwrap_or_default().into_iter();
                let captured = captured.map(|one| if any_case { one.ignoring_case() } else { Some(one) });
                matcher.captured = captured.collect::<Option<_>>()?;
                let found = matcher.captured.iter().map(|one| one.pattern.clone()).collect();
                let all = match regex::patterns(&expression) {
                    None => found,
                    Some(all) if any_case => {
                        all.iter().map(|one| pattern::ignoring_case(one)).collect::<Option<Vec<_>>>()?
                    }
                    Some(all) => all,
                };
                matcher.paths.extend(Some(all).filter(|all| !all.is_empty())?);
            }
            // A second condition of a kind would replace the first.
            "remote_ip" | "client_ip" if rule.get("address").is_some() => return None,
            "method" | "host" if rule.get(&condition.name).is_some() => return None,
            "remote_ip" | "client_ip" => {
                let all = condition.arguments.iter().flat_map(|text| networks(text));
                rule.set(place, "address", all.map(|range| format!("{negation}{range}")).collect::<Vec<_>>());
            }
            "method" => rule.set(place, "method", given(negation)),
            "query" if rule.get("query").is_some() => return None,
            "query" => {
                let all: Option<Vec<_>> = condition.arguments.iter().map(|text| parameter(text)).collect();
                let all = all?.concat();
                rule.set(place, "query", all.iter().map(|one| signed(negation, one)).collect::<Vec<_>>());
            }
            "host" if negation.is_empty() => rule.set(place, "host", given("")),
            // The presence of a field, or its absence.
            "header" if condition.argument(1).is_empty() || condition.argument(0).starts_with('!') => {
                return None;
            }
            "header" if rule.get("field").is_some() => return None,
            "header" => {
                let value = signed(negation, condition.argument(1));
                rule.pair(place, "field", condition.arguments.first()?, value);
            }
            "not" if negation.is_empty() && condition.block.is_none() => {
                let inner = Directive {
                    name: condition.argument(0).to_owned(),
                    arguments: condition.arguments.get(1..).unwrap_or_default().to_vec(),
                    ..condition.clone()
                };
                return self.condition(&inner, "!", matcher);
            }
            // Of several conditions, one would be enough.
            "not" if negation.is_empty() && condition.arguments.is_empty() => match condition.children() {
                [only] => return self.condition(only, "!", matcher),
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }

    /// What the matcher of a directive within a block says. `None`: it was reported.
    pub(super) fn matched<'d>(
        &mut self,
        child: &'d Directive,
        way: &Way,
    ) -> Option<(Matched<'d>, Condition)> {
        let first = child.argument(0);
        let rest = || child.arguments.get(1..).unwrap_or_default().to_vec();
        let (own, condition, arguments) = match first {
            "*" => (Vec::new(), Condition::Always, rest()),
            first if first.starts_with('/') => match pattern(first) {
                Some(pattern) => (vec![pattern], Condition::Always, rest()),
                None => {
                    self.draft.error(
                        &child.place,
                        unconverted(child),
                        "write the path as /folder/* or /file",
                    );
                    return None;
                }
            },
            first if first.starts_with('@') => {
                let Some(matcher) = self.matchers.iter().find(|matcher| matcher.name == first) else {
                    self.draft.error(
                        &child.place,
                        format!("there is no matcher {first}"),
                        "define it before",
                    );
                    return None;
                };
                let Some(condition) = matcher.condition() else {
                    if asks(child) {
                        self.ask_everywhere(child);
                        let (paths, arguments) = (way.paths.clone(), rest());
                        return Some((Matched { directive: child, paths, arguments }, Condition::Always));
                    }
                    let denies = status(child, &rest()).is_some_and(|status| status >= 400);
                    let (open, what_to_do) = match denies {
                        true => (", and what it denies would be open", "deny its paths by a [[host.rule]]"),
                        false => ("", "see [[rule]]"),
                    };
                    let what = format!("{}: its matcher cannot be converted{open}", child.text());
                    self.draft.error(&child.place, what, what_to_do);
                    return None;
                };
                (matcher.paths.clone(), condition, rest())
            }
            _ => (Vec::new(), Condition::Always, child.arguments.clone()),
        };
        let is_below =
            |path: &String, outer: &String| outer.ends_with('/') && path.starts_with(outer.as_str());
        let is_within = |path: &String| {
            way.paths.is_empty() || way.paths.iter().any(|outer| path == outer || is_below(path, outer))
        };
        if !own.is_empty() && way.strips || !own.iter().all(is_within) {
            self.draft.error(
                &child.place,
                unconverted(child),
                "write it outside of the block, with the whole path",
            );
            return None;
        }
        let paths = if own.is_empty() { way.paths.clone() } else { own };
        Some((Matched { directive: child, paths, arguments }, condition))
    }
}

/// The conditions of an expression that is `path('/a*') || path('*.b')`, or several such functions with `&&`. `None`: it
/// says something else.
fn of_expression(text: &str, place: &Place) -> Option<Vec<Directive>> {
    const FUNCTIONS: [&str; 4] = ["path", "method", "host", "remote_ip"];
    let call = |text: &str| -> Option<Directive> {
        let (name, rest) = text.trim().strip_suffix(')')?.split_once('(')?;
        let word = |word: &str| {
            let word = word.trim();
            let inner = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\''));
            let inner = inner.or_else(|| word.strip_prefix('"').and_then(|word| word.strip_suffix('"')))?;
            (!inner.contains(['\'', '"', '(', ')', '\\'])).then(|| inner.to_owned())
        };
        let arguments = rest.split(',').map(word).collect::<Option<Vec<_>>>()?;
        let name = name.trim();
        FUNCTIONS.contains(&name).then(|| Directive {
            name: name.to_owned(),
            arguments,
            block: None,
            place: place.clone(),
        })
    };
    let text = text.trim().trim_matches('`').trim();
    if !text.contains("||") {
        let all = text.split("&&").map(call).collect::<Option<Vec<_>>>()?;
        // Both would have to find the path.
        let is_once = |one: &Directive| all.iter().filter(|other| other.name == one.name).count() == 1;
        return all.iter().all(is_once).then_some(all);
    }
    let all = text.split("||").map(call).collect::<Option<Vec<_>>>()?;
    let first = all.first()?.name.clone();
    let arguments = all.iter().flat_map(|one| one.arguments.iter().cloned()).collect();
    all.iter()
        .all(|one| one.name == first)
        .then(|| vec![Directive { name: first, arguments, block: None, place: place.clone() }])
}

/// Whether `file` looks for the file of the path itself, or of its folder.
fn is_of_path(condition: &Directive) -> bool {
    let is_path = |text: &String| matches!(text.as_str(), "{path}" | "{path}/" | "{path}/index.html");
    match condition.children() {
        [] => condition.arguments.iter().all(is_path),
        [only] => {
            only.name == "try_files" && condition.arguments.is_empty() && only.arguments.iter().all(is_path)
        }
        _ => false,
    }
}

/// What is excepted has the case of its letters.
fn signed(negation: &str, value: &str) -> String {
    if negation.is_empty() { value.to_owned() } else { format!("{negation}{}", regex::counting_case(value)) }
}

/// The queries that have a parameter. `None`: it has no value, or a placeholder.
fn parameter(text: &str) -> Option<Vec<String>> {
    let (name, value) = text.split_once('=')?;
    let is_plain = !name.is_empty() && !text.contains(['{', '?', '!']) && !name.contains('*');
    let is_usable = is_plain && !value.is_empty() && (value == "*" || !value.contains('*'));
    let all = [format!("{name}={value}"), format!("*&{name}={value}")];
    let longer = all.each_ref().map(|one| format!("{one}&*"));
    is_usable.then(|| if value == "*" { all.to_vec() } else { all.into_iter().chain(longer).collect() })
}

/// A pattern of a path. `None`: there is no such one.
pub(super) fn pattern(text: &str) -> Option<String> {
    let body = text.trim_matches('*');
    let is_plain = !body.contains(['*', '?', '[', '\\']);
    match (text.strip_prefix('*'), text.strip_suffix('*')) {
        _ if text == "/*" => Some("/".into()),
        // A part of the path, which may have slashes; an end; and a beginning.
        (Some(_), Some(_)) if is_plain && text.len() == body.len() + 2 => Some(format!("/**{body}**")),
        (Some(end), None) if is_plain && end == body && !end.is_empty() && !end.ends_with('/') => {
            Some(if end.contains('/') { format!("/**{end}") } else { text.to_owned() })
        }
        (None, Some(begin)) if is_plain && begin == body && text.starts_with('/') => {
            Some(if begin.ends_with('/') { begin.to_owned() } else { format!("{begin}**") })
        }
        (None, None) if is_plain && text.starts_with('/') => Some(pattern::alone(text)),
        // Otherwise a wildcard finds no slash, and every path begins with one.
        _ => {
            let glob = text.strip_prefix('*').filter(|rest| rest.starts_with('/')).unwrap_or(text);
            let is_usable = glob.starts_with('/') && !glob.contains("**") && !glob.ends_with('/');
            let is_usable = is_usable && !glob.contains(['[', '\\']);
            (is_usable && Pattern::parse(glob).is_ok()).then(|| glob.to_owned())
        }
    }
}
