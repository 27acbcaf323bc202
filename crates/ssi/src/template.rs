//! Text with variables: `$NAME`, `${NAME}` and, in tests, `%{NAME}`.

/// Text with variables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Box<str>),
    Variable(Box<str>),
}

impl Template {
    /// `\$` is a dollar sign. A sign that no name follows stays as it is.
    pub fn parse(text: &str) -> Template {
        Template::with_braces(text, &["${"])
    }

    /// As `parse`, with `%{NAME}`, too.
    pub fn of_test(text: &str) -> Template {
        Template::with_braces(text, &["${", "%{"])
    }

    fn with_braces(text: &str, braces: &[&str]) -> Template {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            if let Some(behind) = rest.strip_prefix("\\$") {
                literal.push('$');
                rest = behind;
            } else if let Some((name, behind)) = reference(rest, braces) {
                push_literal(&mut parts, &mut literal);
                parts.push(Part::Variable(name.into()));
                rest = behind;
            } else {
                literal.push(char);
                rest = &rest[char.len_utf8()..];
            }
        }
        push_literal(&mut parts, &mut literal);
        Template(parts)
    }

    pub fn of_variable(name: &str) -> Template {
        Template(vec![Part::Variable(name.into())])
    }

    /// This text, a space, and the other one.
    pub fn followed_by(mut self, other: Template) -> Template {
        self.0.push(Part::Literal(" ".into()));
        self.0.extend(other.0);
        self
    }

    /// Its text, if it has no variables.
    pub fn literal(&self) -> Option<&str> {
        match &self.0[..] {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(&**name),
            Part::Literal(_) => None,
        })
    }

    /// A variable that is not set is empty. `None`: the text has more than `limit` bytes.
    pub fn expand(&self, value: impl Fn(&str) -> Option<String>, limit: usize) -> Option<String> {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Variable(name) => out.push_str(&value(name).unwrap_or_default()),
            }
            if out.len() > limit {
                return None;
            }
        }
        Some(out)
    }

    /// Bytes of memory.
    pub fn cost(&self) -> usize {
        let text = |part: &Part| match part {
            Part::Literal(text) | Part::Variable(text) => text.len(),
        };
        self.0.iter().map(|part| text(part) + size_of::<Part>()).sum()
    }
}

fn push_literal(parts: &mut Vec<Part>, literal: &mut String) {
    if !literal.is_empty() {
        parts.push(Part::Literal(std::mem::take(literal).into()));
    }
}

/// The name of a variable at the start of `text`, and what follows.
fn reference<'t>(text: &'t str, braces: &[&str]) -> Option<(&'t str, &'t str)> {
    let (name, rest) = match braces.iter().find_map(|brace| text.strip_prefix(brace)) {
        Some(braced) => braced.split_once('}')?,
        None => {
            let plain = text.strip_prefix('$')?;
            plain.split_at(plain.find(|char: char| !is_of_name(char)).unwrap_or(plain.len()))
        }
    };
    is_name(name).then_some((name, rest))
}

pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_of_name)
}

fn is_of_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_variables() {
        let value = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "B_2" => Some("two".to_owned()),
            _ => None,
        };
        let check = |text: &str, expected: &str| {
            assert_eq!(Template::of_test(text).expand(value, 100).as_deref(), Some(expected), "{text}");
        };
        check("", "");
        check("a", "a");
        check("$A", "1");
        check("$A$A", "11");
        check("${A}B_2", "1B_2");
        check("$AB", "");
        check("x$B_2.y", "xtwo.y");
        check("%{A}%A", "1%A");
        check("\\$A\\n", "$A\\n");
        check("$ $. $", "$ $. $");
        check("${A", "${A");
        check("${A b}", "${A b}");
        check("é$A", "é1");
        assert_eq!(Template::parse("$A").expand(value, 0), None);
        assert_eq!(Template::parse("%{A}").literal(), Some("%{A}"));
        assert_eq!(Template::parse("a b").literal(), Some("a b"));
        assert_eq!(Template::parse("a$A").literal(), None);
        assert_eq!(Template::parse("a$A$x").names().collect::<Vec<_>>(), ["A", "x"]);
    }
}
