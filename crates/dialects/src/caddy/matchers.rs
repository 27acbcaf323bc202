//! Matchers: the paths that a directive is for, and other conditions, which become those of a rule.

use crate::draft::Scope;
use crate::regex;
use crate::tree::Directive;

use super::convert::unconverted;
use super::options::networks;
use super::site::{Site, Way};

/// A named matcher.
pub(super) struct Matcher {
    pub(super) name: String,
    pub(super) paths: Vec<String>,
    /// The other conditions, as those of a rule. `None`: they cannot be converted.
    pub(super) rule: Option<Scope>,
}

impl Site<'_> {
    pub(super) fn matcher(&mut self, child: &Directive) -> Matcher {
        let mut matcher =
            Matcher { name: child.name.clone(), paths: Vec::new(), rule: Some(Scope::new(child.place.line)) };
        let inline = [Directive {
            name: child.argument(0).to_owned(),
            arguments: child.arguments.get(1..).unwrap_or_default().to_vec(),
            block: None,
            place: child.place.clone(),
        }];
        for condition in if child.block.is_some() { child.children() } else { &inline } {
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
            "path" if negation.is_empty() => {
                for text in &condition.arguments {
                    matcher.paths.push(pattern(text)?);
                }
            }
            "path_regexp" if negation.is_empty() => {
                matcher.paths.extend(regex::patterns(condition.arguments.last()?)?)
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
            _ => return None,
        }
        Some(())
    }

    /// The paths of a directive within a block, its condition, and its other arguments. `None`: it was reported.
    pub(super) fn matched(
        &mut self,
        child: &Directive,
        way: &Way,
    ) -> Option<(Vec<String>, Option<Scope>, Vec<String>)> {
        let first = child.argument(0);
        let rest = || child.arguments.get(1..).unwrap_or_default().to_vec();
        let (own, rule, arguments) = match first {
            "*" => (Vec::new(), None, rest()),
            first if first.starts_with('/') => match pattern(first) {
                Some(pattern) => (vec![pattern], None, rest()),
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
                let Some(rule) = &matcher.rule else {
                    self.draft.error(
                        &child.place,
                        format!("{}: its matcher cannot be converted", child.text()),
                        "see [[rule]]",
                    );
                    return None;
                };
                let has_rule = ["address", "method", "host", "query", "field"]
                    .iter()
                    .any(|name| rule.get(name).is_some());
                (matcher.paths.clone(), has_rule.then(|| rule.clone()), rest())
            }
            _ => (Vec::new(), None, child.arguments.clone()),
        };
        let is_within = |path: &String| {
            way.paths.is_empty() || way.paths.iter().any(|outer| path.starts_with(outer.as_str()))
        };
        if !own.is_empty() && way.strips || !own.iter().all(is_within) {
            self.draft.error(
                &child.place,
                unconverted(child),
                "write it outside of the block, with the whole path",
            );
            return None;
        }
        Some((if own.is_empty() { way.paths.clone() } else { own }, rule, arguments))
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
    match text.strip_suffix("/*") {
        Some(folder) if folder.starts_with('/') && !folder.contains(['*', '?']) => Some(format!("{folder}/")),
        Some("") => Some("/".into()),
        _ if text.starts_with('/') && text.ends_with('*') => Some(format!("{text}*")),
        _ if text.starts_with('/') && !text.contains(['*', '?']) => Some(regex::alone(text)),
        _ if text.starts_with("*.") && !text.contains('/') => Some(text.to_owned()),
        // The end of a path, or a part of it.
        _ if text.starts_with("*/") && !text[1..].trim_end_matches('*').contains(['*', '?']) => {
            let more = if text.ends_with('*') { "*" } else { "" };
            Some(format!("/**{}{more}", &text[1..])).filter(|text| !text.ends_with('/'))
        }
        _ => None,
    }
}
