//! Matchers: the paths that a directive is for, and other conditions, which become those of a rule.

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

    /// The matcher that a directive names.
    pub(super) fn of(child: &Directive) -> Matcher {
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
            if matcher.add(condition, "").is_none() {
                matcher.rule = None;
            }
        }
        matcher
    }

    /// `None`: it cannot be converted.
    fn add(&mut self, condition: &Directive, negation: &str) -> Option<()> {
        let rule = self.rule.as_mut()?;
        match condition.name.as_str() {
            "path" if self.counts_case => return None,
            "path" => {
                let all = condition.arguments.iter().map(|text| pattern(text));
                let paths = if negation.is_empty() { &mut self.paths } else { &mut self.except };
                paths.extend(all.collect::<Option<Vec<_>>>()?);
            }
            // Both would have to find the path.
            "path_regexp" if !self.paths.is_empty() => return None,
            "path_regexp" if negation.is_empty() => self.add_expression(condition.arguments.last()?)?,
            "expression" if negation.is_empty() => {
                for one in of_expression(&condition.arguments.join(" "), &condition.place)? {
                    self.add(&one, "")?;
                }
            }
            "file" if self.file.is_some() || !is_of_path(condition) => return None,
            "file" => {
                self.file = Some(if negation.is_empty() { Presence::There } else { Presence::Missing });
            }
            "not" if negation.is_empty() && condition.block.is_none() => {
                let inner = Directive {
                    name: condition.argument(0).to_owned(),
                    arguments: condition.arguments.get(1..).unwrap_or_default().to_vec(),
                    ..condition.clone()
                };
                self.add(&inner, "!")?;
            }
            // Of several conditions, one would be enough.
            "not" if negation.is_empty() && condition.arguments.is_empty() => match condition.children() {
                [only] => self.add(only, "!")?,
                _ => return None,
            },
            _ => add_to_rule(rule, condition, negation)?,
        }
        Some(())
    }

    /// The paths of an expression, and its groups. `None`: patterns cannot say it.
    fn add_expression(&mut self, expression: &str) -> Option<()> {
        let (expression, any_case) = regex::cased(expression);
        let captured = regex::captured(&expression).unwrap_or_default().into_iter();
        let captured = captured.map(|one| if any_case { one.ignoring_case() } else { Some(one) });
        self.captured = captured.collect::<Option<_>>()?;
        self.counts_case = true;
        self.paths = match regex::patterns(&expression) {
            None => self.captured.iter().map(|one| one.pattern.clone()).collect(),
            Some(all) if any_case => {
                all.iter().map(|one| pattern::ignoring_case(one)).collect::<Option<_>>()?
            }
            Some(all) => all,
        };
        (!self.paths.is_empty()).then_some(())
    }

    /// `None`: it has conditions that cannot stand together.
    pub(super) fn condition(&self) -> Option<Condition> {
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

/// A condition on the request, besides its path and files. `None`: rules have no such one, or another one of its kind.
fn add_to_rule(rule: &mut Scope, condition: &Directive, negation: &str) -> Option<()> {
    let place = &condition.place;
    let key = match condition.name.as_str() {
        "remote_ip" | "client_ip" => "address",
        "header" => "field",
        "host" if !negation.is_empty() => return None,
        name @ ("method" | "query" | "host") => name,
        _ => return None,
    };
    // It would replace the first.
    if rule.get(key).is_some() {
        return None;
    }
    let arguments = condition.arguments.iter();
    let all: Vec<String> = match key {
        "address" => {
            arguments.flat_map(|text| networks(text)).map(|one| format!("{negation}{one}")).collect()
        }
        "query" => {
            let all = arguments.map(|text| parameter(text)).collect::<Option<Vec<_>>>()?;
            all.concat().iter().map(|one| signed(negation, one)).collect()
        }
        "field" => {
            let (name, value) = (condition.argument(0), condition.argument(1));
            // The presence of a field, or its absence.
            if value.is_empty() || name.starts_with('!') {
                return None;
            }
            // A field that is absent has the empty value here, and none in Caddy.
            let value = if value == "*" { "?*" } else { value };
            rule.pair(place, key, name, signed(negation, value));
            return Some(());
        }
        _ => arguments.map(|text| format!("{negation}{text}")).collect(),
    };
    rule.set(place, key, all);
    Some(())
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
            (is_usable && crate::brackets::parse(glob).is_ok()).then(|| glob.to_owned())
        }
    }
}
