//! The field `If` (RFC 4918 §10.4): lists of conditions, of which one list must hold.

use taipan_http::etag::{is_entity_tag, strong_eq};

/// Conditions of one field.
const MAX_CONDITIONS: usize = 64;

/// The field, which is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct If {
    lists: Vec<List>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct List {
    /// `None`: the resource of the request.
    resource: Option<String>,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    expected: Expected,
    test: Test,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Holds,
    Fails,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    /// The resource is locked with this token.
    Token(String),
    /// The resource has this entity tag.
    Tag(Vec<u8>),
}

/// What conditions ask of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// `None`: there is none.
    pub tag: Option<Vec<u8>>,
    /// Of the locks on it.
    pub tokens: Vec<String>,
}

impl If {
    /// `None`: it is malformed, or has too many conditions.
    pub fn parse(value: &[u8]) -> Option<If> {
        let mut rest = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
        let (mut lists, mut resource, mut conditions) = (Vec::new(), None, 0);
        let is_tagged = rest.starts_with('<');
        // A tag without a list behind it has no meaning.
        let mut awaits_list = true;
        while !rest.is_empty() {
            if let Some(behind) = rest.strip_prefix('<') {
                let (url, behind) = behind.split_once('>')?;
                if !is_tagged || (awaits_list && resource.is_some()) || url.is_empty() {
                    return None;
                }
                (resource, awaits_list, rest) = (Some(url.to_owned()), true, behind);
            } else {
                let (list, behind) = list(rest.strip_prefix('(')?)?;
                conditions += list.len();
                if conditions > MAX_CONDITIONS {
                    return None;
                }
                lists.push(List { resource: resource.clone(), conditions: list });
                (awaits_list, rest) = (false, behind);
            }
            rest = rest.trim_start_matches([' ', '\t']);
        }
        (!lists.is_empty() && !awaits_list).then_some(If { lists })
    }

    /// Whether one of its lists holds. `state` gives the state of a resource: of that of the request for `None`.
    pub fn holds(&self, mut state: impl FnMut(Option<&str>) -> State) -> bool {
        self.lists.iter().any(|list| {
            let state = state(list.resource.as_deref());
            list.conditions.iter().all(|condition| condition.holds(&state))
        })
    }

    /// The URLs of the resources that it names.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.lists.iter().filter_map(|list| list.resource.as_deref())
    }

    /// All tokens that it names. The client shows by them that it knows of the locks (RFC 4918 §6.5).
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.lists.iter().flat_map(|list| &list.conditions).filter_map(|condition| match &condition.test {
            Test::Token(token) => Some(token.as_str()),
            Test::Tag(_) => None,
        })
    }
}

impl Condition {
    fn holds(&self, state: &State) -> bool {
        let holds = match &self.test {
            Test::Token(token) => state.tokens.contains(token),
            Test::Tag(tag) => state.tag.as_ref().is_some_and(|own| strong_eq(own, tag)),
        };
        holds == (self.expected == Expected::Holds)
    }
}

/// The conditions of a list, and what is behind its end.
fn list(mut rest: &str) -> Option<(Vec<Condition>, &str)> {
    let mut conditions = Vec::new();
    // Each turn takes at least one character.
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        if let Some(behind) = rest.strip_prefix(')') {
            return (!conditions.is_empty()).then_some((conditions, behind));
        }
        let mut expected = Expected::Holds;
        if let Some((word, behind)) = rest.split_at_checked(3)
            && word.eq_ignore_ascii_case("not")
        {
            (expected, rest) = (Expected::Fails, behind.trim_start_matches([' ', '\t']));
        }
        let (test, behind) = match rest.strip_prefix('<') {
            Some(behind) => {
                let (token, behind) = behind.split_once('>')?;
                (Test::Token(token.to_owned()), behind)
            }
            None => {
                let (tag, behind) = rest.strip_prefix('[')?.split_once(']')?;
                (Test::Tag(Some(tag.trim().as_bytes().to_owned()).filter(|tag| is_entity_tag(tag))?), behind)
            }
        };
        conditions.push(Condition { expected, test });
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_list_must_hold() {
        let state = |resource: Option<&str>| match resource {
            None => State { tag: Some(b"\"a\"".to_vec()), tokens: vec!["urn:1".to_owned()] },
            Some("/locked") => State { tag: None, tokens: vec!["urn:2".to_owned()] },
            Some(_) => State::default(),
        };
        for (value, expected) in [
            ("(<urn:1>)", Some(true)),
            ("(<urn:2>)", Some(false)),
            ("(<urn:2>) (<urn:1>)", Some(true)),
            ("(<urn:1> [\"a\"])", Some(true)),
            ("(<urn:1> [\"b\"])", Some(false)),
            ("(<urn:1>[\"b\"]) (Not <urn:2> [\"a\"])", Some(true)),
            ("([W/\"a\"])", Some(false)),
            ("(Not <DAV:no-lock>)", Some(true)),
            ("(Not<urn:1>)", Some(false)),
            ("</locked> (<urn:2>)", Some(true)),
            ("</locked>(<urn:1>)</other>(<urn:2>)(Not <urn:2>)", Some(true)),
            ("", None),
            ("()", None),
            ("(<urn:1>", None),
            ("(urn:1)", None),
            ("([a])", None),
            ("</locked>", None),
            ("</locked></other>(<urn:1>)", None),
            ("(<urn:1>) </locked> (<urn:2>)", None),
            ("(Not)", None),
        ] {
            assert_eq!(If::parse(value.as_bytes()).map(|own| own.holds(state)), expected, "{value}");
        }
    }

    #[test]
    fn names_its_tokens_and_has_a_limit() {
        let field = If::parse(b"</a> (<urn:1> [\"x\"]) (Not <urn:2>)").unwrap();
        assert_eq!(field.tokens().collect::<Vec<_>>(), ["urn:1", "urn:2"]);
        assert!(If::parse("(<a>)".repeat(MAX_CONDITIONS).as_bytes()).is_some());
        assert!(If::parse("(<a>)".repeat(MAX_CONDITIONS + 1).as_bytes()).is_none());
    }
}
