//! The tests of `if` and `elif`: the expressions of Apache's mod_include before 2.4 (strings, comparisons, regular
//! expressions, `!`, `&&`, `||`, parentheses), and what ap_expr of 2.4 has in common with them or adds to them without
//! a contradiction.

use regex_lite::{Regex, RegexBuilder};

use crate::mistake::Mistake;
use crate::template::{Template, is_name};

/// Nested parentheses and negations.
const MAX_DEPTH: usize = 32;
/// Bytes of a compiled regular expression. Matching takes a time that grows with this and with the text.
const MAX_REGEX: usize = 16 * 1024;
/// Groups of a regular expression, with the whole: `$0` to `$9`.
const MAX_GROUPS: usize = 10;

#[derive(Debug, Clone)]
pub enum Expression {
    /// True if it is not empty.
    Text(Template),
    /// False also for `0`, `off`, `false` and `no`.
    Truth(Template),
    /// In the order of their bytes.
    Texts(Template, Comparison, Template),
    Numbers(Template, Comparison, Template),
    Matches(Template, Box<Regex>),
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub fn holds<T: Ord + ?Sized>(self, one: &T, other: &T) -> bool {
        match self {
            Comparison::Equal => one == other,
            Comparison::NotEqual => one != other,
            Comparison::Less => one < other,
            Comparison::LessOrEqual => one <= other,
            Comparison::Greater => one > other,
            Comparison::GreaterOrEqual => one >= other,
        }
    }
}

/// What a test asks for.
pub trait Values {
    fn get(&self, name: &str) -> Option<String>;

    /// The groups of the last regular expression that has matched.
    fn set_groups(&mut self, groups: Vec<String>);

    /// Bytes of a text.
    fn limit(&self) -> usize;
}

impl Expression {
    /// The whole of `text`, as in the `expr` of a directive.
    pub fn parse(text: &str) -> Result<Expression, Mistake> {
        let mut reader = Reader { rest: text, depth: 0 };
        let expression = reader.any()?;
        match reader.skip_spaces().is_empty() {
            true => Ok(expression),
            false => Err(Mistake::Expression("it has more behind its end")),
        }
    }

    /// Errors: a text is too long.
    pub fn holds(&self, values: &mut dyn Values) -> Result<bool, Mistake> {
        Ok(match self {
            Expression::Text(text) => !expand(text, values)?.is_empty(),
            Expression::Truth(text) => {
                let text = expand(text, values)?;
                !["", "0", "off", "false", "no"].iter().any(|no| text.eq_ignore_ascii_case(no))
            }
            Expression::Texts(one, comparison, other) => {
                comparison.holds(&expand(one, values)?, &expand(other, values)?)
            }
            Expression::Numbers(one, comparison, other) => {
                comparison.holds(&number(&expand(one, values)?), &number(&expand(other, values)?))
            }
            Expression::Matches(text, regex) => {
                let text = expand(text, values)?;
                match regex.captures(&text) {
                    Some(found) => {
                        let group = |group: Option<regex_lite::Match<'_>>| {
                            group.map_or(String::new(), |group| group.as_str().to_owned())
                        };
                        values.set_groups(found.iter().take(10).map(group).collect());
                        true
                    }
                    None => false,
                }
            }
            Expression::Not(inner) => !inner.holds(values)?,
            Expression::All(all) => {
                for one in all {
                    if !one.holds(values)? {
                        return Ok(false);
                    }
                }
                true
            }
            Expression::Any(any) => {
                for one in any {
                    if one.holds(values)? {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }

    /// Calls `each` with the names of all variables.
    pub fn each_name<'e>(&'e self, each: &mut dyn FnMut(&'e str)) {
        match self {
            Expression::Text(text) | Expression::Truth(text) | Expression::Matches(text, _) => {
                text.names().for_each(each);
            }
            Expression::Texts(one, _, other) | Expression::Numbers(one, _, other) => {
                one.names().chain(other.names()).for_each(each);
            }
            Expression::Not(inner) => inner.each_name(each),
            Expression::All(all) | Expression::Any(all) => {
                all.iter().for_each(|one| one.each_name(&mut *each));
            }
        }
    }

    /// Bytes of memory, roughly.
    pub fn cost(&self) -> usize {
        size_of::<Expression>()
            + match self {
                Expression::Text(text) | Expression::Truth(text) => text.cost(),
                Expression::Matches(text, regex) => text.cost() + MAX_REGEX + regex.as_str().len(),
                Expression::Texts(one, _, other) | Expression::Numbers(one, _, other) => {
                    one.cost() + other.cost()
                }
                Expression::Not(inner) => inner.cost(),
                Expression::All(all) | Expression::Any(all) => all.iter().map(Expression::cost).sum(),
            }
    }
}

fn expand(text: &Template, values: &dyn Values) -> Result<String, Mistake> {
    text.expand(|name| values.get(name), values.limit()).ok_or(Mistake::TooLong(values.limit()))
}

/// What is no number is 0, as in C.
fn number(text: &str) -> i64 {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = digits.find(|char: char| !char.is_ascii_digit()).unwrap_or(digits.len());
    let absolute = digits[..end].parse::<i64>().unwrap_or(if end == 0 { 0 } else { i64::MAX });
    if text.starts_with('-') { -absolute } else { absolute }
}

const NUMERIC: [(&str, Comparison); 12] = [
    ("-eq", Comparison::Equal),
    ("-ne", Comparison::NotEqual),
    ("-lt", Comparison::Less),
    ("-le", Comparison::LessOrEqual),
    ("-gt", Comparison::Greater),
    ("-ge", Comparison::GreaterOrEqual),
    ("eq", Comparison::Equal),
    ("ne", Comparison::NotEqual),
    ("lt", Comparison::Less),
    ("le", Comparison::LessOrEqual),
    ("gt", Comparison::Greater),
    ("ge", Comparison::GreaterOrEqual),
];
/// Those with the dash. ap_expr has the others, too, which a text of the older language may have as words.
const DASHED: usize = 6;

/// Longer ones first.
const OPERATORS: [(&str, Operator); 9] = [
    ("==", Operator::Compare(Comparison::Equal)),
    ("=~", Operator::Match),
    ("!=", Operator::Compare(Comparison::NotEqual)),
    ("!~", Operator::MatchNot),
    ("<=", Operator::Compare(Comparison::LessOrEqual)),
    (">=", Operator::Compare(Comparison::GreaterOrEqual)),
    ("=", Operator::Compare(Comparison::Equal)),
    ("<", Operator::Compare(Comparison::Less)),
    (">", Operator::Compare(Comparison::Greater)),
];

#[derive(Debug, Clone, Copy)]
enum Operator {
    Compare(Comparison),
    Match,
    MatchNot,
}

struct Reader<'t> {
    rest: &'t str,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn skip_spaces(&mut self) -> &'t str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_spaces();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn any(&mut self) -> Result<Expression, Mistake> {
        let mut any = vec![self.all()?];
        while self.take("||") {
            any.push(self.all()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Expression::Any(any) })
    }

    fn all(&mut self) -> Result<Expression, Mistake> {
        let mut all = vec![self.one()?];
        while self.take("&&") {
            all.push(self.one()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expression::All(all) })
    }

    fn one(&mut self) -> Result<Expression, Mistake> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Mistake::Expression("it is nested too deeply"));
        }
        let one = if self.take("!") {
            Expression::Not(Box::new(self.one()?))
        } else if self.take("(") {
            let inner = self.any()?;
            if !self.take(")") {
                return Err(Mistake::Expression("a parenthesis is missing"));
            }
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(one)
    }

    fn comparison(&mut self) -> Result<Expression, Mistake> {
        if let Some(unary) = self.unary() {
            let text = self.texts()?;
            return Ok(match unary {
                'z' => Expression::Not(Box::new(Expression::Text(text))),
                'n' => Expression::Text(text),
                'T' => Expression::Truth(text),
                _ => return Err(Mistake::Expression("of tests with a letter, there are -n, -z and -T")),
            });
        }
        let one = self.texts()?;
        if let Some(comparison) = self.numeric() {
            return Ok(Expression::Numbers(one, comparison, self.texts()?));
        }
        self.skip_spaces();
        let Some((token, operator)) = OPERATORS.iter().find(|(token, _)| self.rest.starts_with(token)) else {
            return Ok(Expression::Text(one));
        };
        self.rest = &self.rest[token.len()..];
        self.compare(one, *operator)
    }

    fn compare(&mut self, one: Template, operator: Operator) -> Result<Expression, Mistake> {
        let negated = |inner| Expression::Not(Box::new(inner));
        let regex = match operator {
            Operator::Compare(Comparison::Equal | Comparison::NotEqual) => self.regex()?,
            Operator::Compare(_) => None,
            Operator::Match | Operator::MatchNot => Some(match self.regex()? {
                Some(regex) => regex,
                None => match self.texts()?.literal() {
                    Some(pattern) => compile(pattern, Case::Sensitive)?,
                    None => return Err(Mistake::Expression("a regular expression has no variables")),
                },
            }),
        };
        Ok(match (operator, regex) {
            (Operator::Compare(Comparison::NotEqual) | Operator::MatchNot, Some(regex)) => {
                negated(Expression::Matches(one, Box::new(regex)))
            }
            (_, Some(regex)) => Expression::Matches(one, Box::new(regex)),
            (Operator::Compare(comparison), None) => Expression::Texts(one, comparison, self.texts()?),
            (Operator::Match | Operator::MatchNot, None) => {
                return Err(Mistake::Expression("a regular expression is missing"));
            }
        })
    }

    /// The letter of `-z` and the like.
    fn unary(&mut self) -> Option<char> {
        self.skip_spaces();
        let mut chars = self.rest.strip_prefix('-')?.chars();
        let letter = chars.next().filter(char::is_ascii_alphabetic)?;
        if !chars.next()?.is_whitespace() {
            return None;
        }
        self.rest = &self.rest[2..];
        Some(letter)
    }

    fn numeric(&mut self) -> Option<Comparison> {
        self.skip_spaces();
        let (word, rest) = self.rest.split_at(word_end(self.rest));
        let (_, comparison) = NUMERIC[..].iter().find(|(token, _)| *token == word)?;
        self.rest = rest;
        Some(*comparison)
    }

    /// `/pattern/`, or `m` with another character around the pattern, perhaps with `i` behind it. `None`: it is no
    /// regular expression.
    fn regex(&mut self) -> Result<Option<Regex>, Mistake> {
        self.skip_spaces();
        let (delimiter, behind) = match self.rest.strip_prefix('m') {
            Some(behind) if behind.starts_with(['#', '|', ',', '%', '/', '@', '!']) => behind.split_at(1),
            _ if self.rest.starts_with('/') => self.rest.split_at(1),
            _ => return Ok(None),
        };
        let delimiter = delimiter.chars().next().unwrap_or('/');
        let Some(end) = unescaped(behind, delimiter) else { return Ok(None) };
        let pattern = behind[..end].replace(&format!("\\{delimiter}"), &delimiter.to_string());
        self.rest = &behind[end + 1..];
        let case = match self.rest.strip_prefix('i') {
            Some(rest) => {
                self.rest = rest;
                Case::Ignored
            }
            None => Case::Sensitive,
        };
        compile(&pattern, case).map(Some)
    }

    /// One text, or several, which count as one with spaces between them.
    fn texts(&mut self) -> Result<Template, Mistake> {
        let mut texts =
            self.text()?.ok_or(Mistake::Expression("a text is missing; an empty one is written ''"))?;
        loop {
            self.skip_spaces();
            let word = &self.rest[..word_end(self.rest)];
            if NUMERIC[..DASHED].iter().any(|(token, _)| *token == word) || is_numeric_word(word, self.rest) {
                return Ok(texts);
            }
            match self.text()? {
                Some(text) => texts = texts.followed_by(text),
                None => return Ok(texts),
            }
        }
    }

    fn text(&mut self) -> Result<Option<Template>, Mistake> {
        self.skip_spaces();
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        if first == '\'' || first == '"' {
            let behind = &self.rest[1..];
            let end = unescaped(behind, first).ok_or(Mistake::Expression("a quote is missing"))?;
            let text = behind[..end].replace(&format!("\\{first}"), &first.to_string());
            self.rest = &behind[end + 1..];
            return Ok(Some(Template::of_test(&text)));
        }
        let word = &self.rest[..word_end(self.rest)];
        if word.is_empty() {
            return Ok(None);
        }
        self.rest = &self.rest[word.len()..];
        if ["v", "reqenv", "env"].contains(&word) && self.rest.starts_with('(') {
            return self.function().map(Some);
        }
        Ok(Some(Template::of_test(word)))
    }

    /// `('NAME')`
    fn function(&mut self) -> Result<Template, Mistake> {
        let wrong = Mistake::Expression("a function has one name in quotes: v('NAME')");
        let inner = self.rest[1..].split_once(')').ok_or(wrong.clone())?;
        let name = inner.0.trim();
        let unquoted = ['\'', '"']
            .iter()
            .find_map(|quote| name.strip_prefix(*quote)?.strip_suffix(*quote))
            .filter(|name| is_name(name));
        self.rest = inner.1;
        unquoted.map(Template::of_variable).ok_or(wrong)
    }
}

/// Whether `eq` and the like stand between two texts: one follows.
fn is_numeric_word(word: &str, rest: &str) -> bool {
    let is_word = NUMERIC[DASHED..].iter().any(|(token, _)| *token == word);
    is_word && !rest[word.len()..].trim_start().is_empty()
}

/// The end of a text without quotes.
fn word_end(text: &str) -> usize {
    let is_end = |(at, char): &(usize, char)| {
        char.is_whitespace()
            || "()=<>!'\"".contains(*char)
            || text[*at..].starts_with("&&")
            || text[*at..].starts_with("||")
    };
    text.char_indices().find(is_end).map_or(text.len(), |(at, _)| at)
}

/// The position of the first `delimiter` without a backslash before it.
fn unescaped(text: &str, delimiter: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, char) in text.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if char == delimiter => return Some(at),
            _ => {}
        }
    }
    None
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Sensitive,
    Ignored,
}

fn compile(pattern: &str, case: Case) -> Result<Regex, Mistake> {
    RegexBuilder::new(pattern)
        .case_insensitive(case == Case::Ignored)
        .size_limit(MAX_REGEX)
        .build()
        .map_err(|error| Mistake::Regex(error.to_string()))
        .and_then(|regex| match regex.captures_len() {
            ..=MAX_GROUPS => Ok(regex),
            _ => Err(Mistake::Regex("it has more than 9 groups".to_owned())),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Fixture {
        groups: Vec<String>,
    }

    impl Values for Fixture {
        fn get(&self, name: &str) -> Option<String> {
            match name {
                "A" => Some("a".to_owned()),
                "N" => Some("10".to_owned()),
                "EMPTY" => Some(String::new()),
                "URI" => Some("/shop/shoes.shtml".to_owned()),
                "AGENT" => Some("Mozilla/5.0 (X11) && more".to_owned()),
                _ => self.groups.get(name.parse::<usize>().ok()?).cloned(),
            }
        }

        fn set_groups(&mut self, groups: Vec<String>) {
            self.groups = groups;
        }

        fn limit(&self) -> usize {
            100
        }
    }

    #[test]
    fn evaluates_tests() {
        let check = |text: &str, expected: bool| {
            let expression = Expression::parse(text).unwrap_or_else(|mistake| panic!("{text}: {mistake}"));
            assert_eq!(expression.holds(&mut Fixture::default()), Ok(expected), "{text}");
        };
        // The examples of Apache's documentation.
        check("$A = a", true);
        check("\"$A\" = \"b\"", false);
        check("$A != b && $N", true);
        check("! $UNKNOWN", true);
        check("$UNKNOWN", false);
        check("'$A' = /^[ab]$/", true);
        check("$URI = /shoes\\.(s)?html/", true);
        check("$URI != /SHOES/", true);
        check("$URI = /SHOES/i", true);
        check("($A = a || $A = b) && $N = 10", true);
        check("$A = b && $A = b || $A = a", true);
        check("$A = a || $A = b && $A = b", true);
        check("!($A = b)", true);
        check("$A < b", true);
        check("$N < 9", true);
        check("$N -lt 9", false);
        check("$N -ge 10", true);
        check("$N gt 9", true);
        check("$A >= a", true);
        check("$A > a", false);
        check("$A <= a", true);
        check("two words = 'two words'", true);
        check("two   words = 'two words'", true);
        check("''", false);
        check("\"\"", false);
        check("x", true);
        check("0", true);
        check("$A$A = aa", true);
        check("${A}b = ab", true);
        check("\\$A = '\\$A'", true);
        check("'it\\'s' = \"it's\"", true);
        // A regular expression only behind a comparison.
        check("/a/ = '/a/'", true);
        check("$URI = /shop", false);
        check("$AGENT = /^Mozilla/ && $AGENT = /&&/", true);
        // ap_expr.
        check("v('A') == 'a'", true);
        check("reqenv(\"A\") =~ /A/i", true);
        check("%{A} =~ m#^a$#", true);
        check("%{URI} !~ m|/shop/|", false);
        check("-z v('EMPTY')", true);
        check("-n %{A}", true);
        check("-T 'off'", false);
        check("-T $A", true);
        check("$A -eq 0", true);
        check("$A =~ 'a|b'", true);
        check("a-b = 'a-b'", true);
        check("-x", true);
        // Groups.
        check("$URI = /^.([a-z]+).([a-z]+)/ && $1 = shop && $2 = shoes && $0 = '/shop/shoes'", true);
        check("$A = /(x)?a/ && $1 = ''", true);
    }

    #[test]
    fn rejects_what_is_no_test() {
        let check = |text: &str, expected: &str| match Expression::parse(text) {
            Ok(expression) => panic!("{text}: {expression:?}"),
            Err(mistake) => assert!(mistake.to_string().contains(expected), "{text}: {mistake}"),
        };
        check("", "a text is missing");
        check("$A =", "a text is missing");
        check("= a", "a text is missing");
        check("($A", "parenthesis");
        check("$A)", "behind its end");
        check("$A = b = c", "behind its end");
        check("'a", "quote");
        check("$A &&", "a text is missing");
        check("-A /path", "-n, -z and -T");
        check("-f /etc/passwd", "-n, -z and -T");
        check("$A = /(/", "regular expression is not valid");
        check("$A =~ $N", "no variables");
        check("v(A)", "one name in quotes");
        check("v('A", "one name in quotes");
        check(&"(".repeat(MAX_DEPTH + 1), "nested too deeply");
        check(&"!".repeat(MAX_DEPTH + 1), "nested too deeply");
        check("$A = /((((a{9}){9}){9}){9}){9}/", "regular expression is not valid");
    }

    #[test]
    fn a_long_text_is_an_error() {
        let expression = Expression::parse(&"$URI".repeat(10)).unwrap();
        assert_eq!(expression.holds(&mut Fixture::default()), Err(Mistake::TooLong(100)));
    }
}
