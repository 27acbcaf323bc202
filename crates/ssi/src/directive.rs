//! Directives, and how they are read: `<!--#element attribute="value" … -->`.

use crate::coding::Coding;
use crate::expression::Expression;
use crate::format::SizeFormat;
use crate::mistake::Mistake;
use crate::template::Template;

/// Bytes of one directive.
pub const MAX_DIRECTIVE: usize = 8 * 1024;

#[derive(Debug, Clone)]
pub enum Directive {
    Config(Vec<Setting>),
    Echo(Vec<Echo>),
    /// `fsize`
    Size(Vec<Target>),
    /// `flastmod`
    Modified(Vec<Target>),
    Include(Vec<Include>),
    Set(Vec<Assignment>),
    /// `printenv`
    PrintVariables,
    If(Result<Expression, Mistake>),
    Elif(Result<Expression, Mistake>),
    Else,
    EndIf,
    /// `<esi:include>`
    Fragment(Fragment),
    /// `<esi:remove>`
    Remove,
    EndRemove,
    /// A message stands in its place.
    Broken(Mistake),
}

#[derive(Debug, Clone)]
pub enum Setting {
    ErrorMessage(Template),
    EchoMessage(Template),
    Size(SizeFormat),
    Time(Template),
}

/// One variable.
#[derive(Debug, Clone)]
pub struct Echo {
    pub name: Template,
    pub decoding: Coding,
    pub encoding: Coding,
}

#[derive(Debug, Clone)]
pub struct Assignment {
    pub name: Template,
    pub value: Template,
    pub decoding: Coding,
    pub encoding: Coding,
}

#[derive(Debug, Clone)]
pub enum Target {
    File(Template),
    Virtual(Template),
}

#[derive(Debug, Clone)]
pub struct Include {
    pub target: Target,
    /// What is included if that fails.
    pub on_error: Option<Template>,
}

/// Of Edge Side Includes. The texts have no variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    pub source: String,
    pub alternative: Option<String>,
    pub on_error: OnError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The response cannot be completed.
    Abort,
    /// The fragment is left out.
    Continue,
}

impl Target {
    pub fn template(&self) -> &Template {
        match self {
            Target::File(template) | Target::Virtual(template) => template,
        }
    }
}

impl Directive {
    /// `text` is what is between `<!--#` and `-->`.
    pub fn parse(text: &str) -> Directive {
        let text = text.trim();
        let end = text.find(|char: char| char.is_whitespace()).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let name = name.to_ascii_lowercase();
        let parsed = match attributes(rest) {
            Ok(attributes) => of_attributes(&name, &attributes),
            Err(mistake) => Err(mistake),
        };
        match (parsed, name.as_str()) {
            (Ok(directive), _) => directive,
            // What follows them must not be shown, whatever is wrong.
            (Err(mistake), "if") => Directive::If(Err(mistake)),
            (Err(mistake), "elif") => Directive::Elif(Err(mistake)),
            (Err(mistake), _) => Directive::Broken(mistake),
        }
    }

    /// Bytes of memory, roughly.
    pub fn cost(&self) -> usize {
        let of_parts = match self {
            Directive::Config(settings) => settings.iter().map(Setting::cost).sum(),
            Directive::Echo(all) => all.iter().map(|one| one.name.cost() + size_of::<Echo>()).sum(),
            Directive::Size(all) | Directive::Modified(all) => all.iter().map(Target::cost).sum(),
            Directive::Include(all) => all
                .iter()
                .map(|one| one.target.cost() + one.on_error.as_ref().map_or(0, Template::cost))
                .sum(),
            Directive::Set(all) => {
                all.iter().map(|one| one.name.cost() + one.value.cost() + size_of::<Assignment>()).sum()
            }
            Directive::If(Ok(test)) | Directive::Elif(Ok(test)) => test.cost(),
            Directive::Fragment(fragment) => {
                fragment.source.len() + fragment.alternative.as_ref().map_or(0, String::len)
            }
            _ => 0,
        };
        size_of::<Directive>() + of_parts
    }
}

impl Setting {
    fn cost(&self) -> usize {
        size_of::<Setting>()
            + match self {
                Setting::ErrorMessage(text) | Setting::EchoMessage(text) | Setting::Time(text) => text.cost(),
                Setting::Size(_) => 0,
            }
    }
}

impl Target {
    fn cost(&self) -> usize {
        size_of::<Target>() + self.template().cost()
    }
}

pub(crate) type Attributes = Vec<(String, String)>;

fn of_attributes(name: &str, attributes: &Attributes) -> Result<Directive, Mistake> {
    match name {
        "include" => include(attributes).map(Directive::Include),
        "echo" => echo(attributes).map(Directive::Echo),
        "config" => config(attributes).map(Directive::Config),
        "fsize" => targets(attributes).map(Directive::Size),
        "flastmod" => targets(attributes).map(Directive::Modified),
        "set" => set(attributes).map(Directive::Set),
        "printenv" => without_attributes(attributes, Directive::PrintVariables),
        "if" => test(attributes).map(|test| Directive::If(Ok(test))),
        "elif" => test(attributes).map(|test| Directive::Elif(Ok(test))),
        "else" => without_attributes(attributes, Directive::Else),
        "endif" => without_attributes(attributes, Directive::EndIf),
        "exec" => Err(Mistake::Exec),
        _ => Err(Mistake::UnknownDirective(name.to_owned())),
    }
}

fn without_attributes(attributes: &Attributes, directive: Directive) -> Result<Directive, Mistake> {
    match attributes.first() {
        None => Ok(directive),
        Some((name, _)) => Err(Mistake::UnknownAttribute(name.clone())),
    }
}

fn target(name: &str, value: &str) -> Option<Target> {
    match name {
        "file" => Some(Target::File(Template::parse(value))),
        "virtual" => Some(Target::Virtual(Template::parse(value))),
        _ => None,
    }
}

fn targets(attributes: &Attributes) -> Result<Vec<Target>, Mistake> {
    let targets: Result<Vec<Target>, Mistake> = attributes
        .iter()
        .map(|(name, value)| target(name, value).ok_or_else(|| Mistake::UnknownAttribute(name.clone())))
        .collect();
    some(targets?, "virtual")
}

/// `missing`: the attribute that makes one of them.
fn some<T>(all: Vec<T>, missing: &'static str) -> Result<Vec<T>, Mistake> {
    if all.is_empty() { Err(Mistake::Missing(missing)) } else { Ok(all) }
}

fn include(attributes: &Attributes) -> Result<Vec<Include>, Mistake> {
    let mut includes: Vec<Include> = Vec::new();
    // Those before the first of them have this `onerror`.
    let mut covered = 0;
    for (name, value) in attributes {
        match (target(name, value), name.as_str()) {
            (Some(target), _) => includes.push(Include { target, on_error: None }),
            (None, "onerror") => {
                for include in &mut includes[covered..] {
                    include.on_error = Some(Template::parse(value));
                }
                covered = includes.len();
            }
            (None, _) => return Err(Mistake::UnknownAttribute(name.clone())),
        }
    }
    some(includes, "virtual")
}

fn coding(value: &str) -> Result<Coding, Mistake> {
    Coding::parse(value).ok_or_else(|| Mistake::Value(value.to_owned()))
}

/// Codings count for the variables behind them.
fn echo(attributes: &Attributes) -> Result<Vec<Echo>, Mistake> {
    let (mut decoding, mut encoding) = (Coding::None, Coding::Entity);
    let mut all = Vec::new();
    for (name, value) in attributes {
        match name.as_str() {
            "var" => all.push(Echo { name: Template::parse(value), decoding, encoding }),
            "encoding" => encoding = coding(value)?,
            "decoding" => decoding = coding(value)?,
            _ => return Err(Mistake::UnknownAttribute(name.clone())),
        }
    }
    some(all, "var")
}

fn set(attributes: &Attributes) -> Result<Vec<Assignment>, Mistake> {
    let (mut decoding, mut encoding) = (Coding::None, Coding::None);
    let mut variable = None;
    let mut all = Vec::new();
    for (name, value) in attributes {
        match name.as_str() {
            "var" => variable = Some(Template::parse(value)),
            "value" => {
                let name = variable.clone().ok_or(Mistake::Missing("var"))?;
                all.push(Assignment { name, value: Template::parse(value), decoding, encoding });
            }
            "encoding" => encoding = coding(value)?,
            "decoding" => decoding = coding(value)?,
            _ => return Err(Mistake::UnknownAttribute(name.clone())),
        }
    }
    some(all, "value")
}

fn config(attributes: &Attributes) -> Result<Vec<Setting>, Mistake> {
    let setting = |(name, value): &(String, String)| {
        Ok(match name.as_str() {
            "errmsg" => Setting::ErrorMessage(Template::parse(value)),
            "echomsg" => Setting::EchoMessage(Template::parse(value)),
            "timefmt" => Setting::Time(Template::parse(value)),
            "sizefmt" => Setting::Size(match value.as_str() {
                "bytes" => SizeFormat::Bytes,
                "abbrev" => SizeFormat::Abbreviated,
                _ => return Err(Mistake::Value(value.clone())),
            }),
            _ => return Err(Mistake::UnknownAttribute(name.clone())),
        })
    };
    let settings: Result<Vec<Setting>, Mistake> = attributes.iter().map(setting).collect();
    some(settings?, "timefmt")
}

fn test(attributes: &Attributes) -> Result<Expression, Mistake> {
    match &attributes[..] {
        [(name, value)] if name == "expr" => Expression::parse(value),
        [] => Err(Mistake::Missing("expr")),
        [(name, _), ..] if name != "expr" => Err(Mistake::UnknownAttribute(name.clone())),
        [..] => Err(Mistake::Expression("there are two")),
    }
}

/// Names in lower case, and values in which a backslash before the quote around them is gone.
pub(crate) fn attributes(text: &str) -> Result<Attributes, Mistake> {
    let mut attributes = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once('=').ok_or(Mistake::Attribute)?;
        let name = name.trim_end();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        {
            return Err(Mistake::Attribute);
        }
        let (value, behind) = value(behind.trim_start())?;
        attributes.push((name.to_ascii_lowercase(), value));
        rest = behind.trim_start();
    }
    Ok(attributes)
}

/// The value at the start of `text`, and what follows.
fn value(text: &str) -> Result<(String, &str), Mistake> {
    let Some(quote) = text.chars().next().filter(|char| "\"'`".contains(*char)) else {
        let end = text.find(|char: char| char.is_whitespace()).unwrap_or(text.len());
        return Ok((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut chars = text[1..].char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        match (char, chars.peek()) {
            ('\\', Some((_, next))) if *next == quote => {
                value.push(quote);
                chars.next();
            }
            ('\\', Some((_, next))) => {
                value.push('\\');
                value.push(*next);
                chars.next();
            }
            (char, _) if char == quote => return Ok((value, &text[1 + at + 1..])),
            (char, _) => value.push(char),
        }
    }
    Err(Mistake::Unterminated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_attributes() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let expected = expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            assert_eq!(attributes(text), Ok(expected.collect()), "{text}");
        };
        check("", &[]);
        check(" a=\"b\"", &[("a", "b")]);
        check("A='b' c=`d`e=\"f\"", &[("a", "b"), ("c", "d"), ("e", "f")]);
        check("a = \"b c\"\n\td= e", &[("a", "b c"), ("d", "e")]);
        check(r#"a="b\"c" d='\'' e="\$x\\""#, &[("a", "b\"c"), ("d", "'"), ("e", r"\$x\\")]);
        check("a=b=c d=", &[("a", "b=c"), ("d", "")]);
        check("a=\"-->\"", &[("a", "-->")]);
        for malformed in ["a", "a b=\"c\"", "=\"b\"", "a=\"b\" c", "a/b=c"] {
            assert_eq!(attributes(malformed), Err(Mistake::Attribute), "{malformed}");
        }
        for unterminated in ["a=\"b", "a='b\"", "a=\"b\\\""] {
            assert_eq!(attributes(unterminated), Err(Mistake::Unterminated), "{unterminated}");
        }
    }

    #[test]
    fn rejects_what_is_no_directive() {
        let check = |text: &str, expected: &str| {
            let mistake = match Directive::parse(text) {
                Directive::Broken(mistake) => mistake,
                Directive::If(Err(mistake)) | Directive::Elif(Err(mistake)) => mistake,
                other => panic!("{text}: {other:?}"),
            };
            assert!(mistake.to_string().contains(expected), "{text}: {mistake}");
        };
        check("", "no directive \"\"");
        check("foo a=\"b\"", "no directive \"foo\"");
        check("exec cmd=\"id\"", "\"exec\" is refused");
        check("exec cgi=\"/cgi-bin/x\"", "\"exec\" is refused");
        check("include", "\"virtual\" is missing");
        check("include onerror=\"/x\"", "\"virtual\" is missing");
        check("include src=\"/x\"", "no attribute \"src\"");
        check("include virtual=\"/x", "a quote");
        check("echo", "\"var\" is missing");
        check("echo encoding=\"html\" var=\"A\"", "\"html\" is not a value");
        check("set var=\"A\"", "\"value\" is missing");
        check("set value=\"A\"", "\"var\" is missing");
        check("config", "is missing");
        check("config sizefmt=\"kilo\"", "\"kilo\" is not a value");
        check("config foo=\"bar\"", "no attribute \"foo\"");
        check("fsize", "\"virtual\" is missing");
        check("flastmod virtual", "name=\"value\"");
        check("printenv var=\"A\"", "no attribute \"var\"");
        check("if", "\"expr\" is missing");
        check("if expr=\"(\"", "the test is not valid");
        check("if expr=\"a\" expr=\"b\"", "the test is not valid");
        check("elif test=\"a\"", "no attribute \"test\"");
        check("else expr=\"a\"", "no attribute \"expr\"");
    }

    #[test]
    fn onerror_is_for_the_targets_before_it() {
        let Directive::Include(all) =
            Directive::parse("include virtual=a file=b onerror=c virtual=d onerror=e virtual=f")
        else {
            panic!("it is an include");
        };
        let read: Vec<_> = all
            .iter()
            .map(|one| (one.target.template().literal(), one.on_error.as_ref().and_then(Template::literal)))
            .collect();
        assert_eq!(
            read,
            [(Some("a"), Some("c")), (Some("b"), Some("c")), (Some("d"), Some("e")), (Some("f"), None)]
        );
    }
}
