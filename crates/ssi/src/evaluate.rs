//! Directives → steps. A page ends after at most the number of its nodes: nothing leads back.

use crate::coding::percent_decode;
use crate::directive::{Directive, Fragment, OnError, Setting, Target};
use crate::expression::{Expression, Values};
use crate::format::{self, SizeFormat, TIME_FORMAT};
use crate::mistake::Mistake;
use crate::reference::Reference;
use crate::template::{Template, is_name};
use crate::variables::{MAX_VALUE, Request, Variables};

/// The messages before `config` sets others, as in Apache.
const ERROR_MESSAGE: &str = "[an error occurred while processing this directive]";
const ECHO_MESSAGE: &str = "(none)";

/// Nested `if`.
const MAX_BRANCHES: usize = 64;
/// Bytes of what stands in the place of one directive. A value of the greatest length fits, however it is encoded.
const MAX_STEPS: usize = 256 * 1024;

/// What stands in the place of a directive, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Output(String),
    Include(Inclusion),
    /// The size of what is named, by [`Evaluator::size`].
    Size(Reference),
    /// When it was changed, by [`Evaluator::time`].
    Modified(Reference),
    /// The error message, and a line of the log.
    Failed(Mistake),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inclusion {
    pub reference: Reference,
    /// What is included if that fails.
    pub alternative: Option<Reference>,
    pub on_failure: OnFailure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// The error message stands in its place.
    Message,
    Nothing,
    /// The response cannot be completed.
    Abort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Branch {
    /// None of its tests was true.
    Seeking,
    Taken,
    /// An earlier one was true, or it is within a branch that is not taken.
    Skipped,
    ElseTaken,
    ElseSkipped,
}

/// One page while it is evaluated.
pub struct Evaluator {
    branches: Vec<Branch>,
    /// Open tests above the limit.
    too_deep: usize,
    /// Whether the page is within `<esi:remove>`.
    removing: bool,
    error_message: String,
    echo_message: String,
    size: SizeFormat,
    time: String,
    groups: Vec<String>,
}

impl Default for Evaluator {
    fn default() -> Evaluator {
        Evaluator {
            branches: Vec::new(),
            too_deep: 0,
            removing: false,
            error_message: ERROR_MESSAGE.to_owned(),
            echo_message: ECHO_MESSAGE.to_owned(),
            size: SizeFormat::default(),
            time: TIME_FORMAT.to_owned(),
            groups: Vec::new(),
        }
    }
}

impl Evaluator {
    /// Whether texts are part of the content.
    pub fn is_active(&self) -> bool {
        !self.removing && self.branch_is_active()
    }

    pub fn error_message(&self) -> &str {
        &self.error_message
    }

    pub fn size(&self, bytes: u64) -> String {
        self.size.format(bytes)
    }

    pub fn time(&self, seconds: i64) -> String {
        format::time(&self.time, seconds, "UTC")
    }

    /// Whether a test has no end.
    pub fn is_open(&self) -> bool {
        !self.branches.is_empty()
    }

    /// Appends the steps of a directive.
    pub fn evaluate(
        &mut self,
        directive: &Directive,
        request: &dyn Request,
        variables: &mut Variables,
        steps: &mut Vec<Step>,
    ) {
        let mut scope = Scope { evaluator: self, request, variables, steps, left: MAX_STEPS };
        if let Err(mistake) = scope.evaluate(directive) {
            steps.push(Step::Failed(mistake));
        }
    }

    fn branch_is_active(&self) -> bool {
        let last = self.branches.last();
        self.too_deep == 0 && last.is_none_or(|last| matches!(last, Branch::Taken | Branch::ElseTaken))
    }

    fn end_branch(&mut self) -> Result<(), Mistake> {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return Ok(());
        }
        self.branches.pop().map(drop).ok_or(Mistake::Misplaced("endif"))
    }

    fn begin_else(&mut self) -> Result<(), Mistake> {
        if self.too_deep > 0 {
            return Ok(());
        }
        let misplaced = Mistake::Misplaced("else");
        let last = self.branches.last_mut().ok_or(misplaced.clone())?;
        *last = match last {
            Branch::Seeking => Branch::ElseTaken,
            Branch::Taken | Branch::Skipped => Branch::ElseSkipped,
            Branch::ElseTaken | Branch::ElseSkipped => return Err(misplaced),
        };
        Ok(())
    }
}

/// What an evaluation reads and changes.
struct Scope<'s> {
    evaluator: &'s mut Evaluator,
    request: &'s dyn Request,
    variables: &'s mut Variables,
    steps: &'s mut Vec<Step>,
    /// Bytes that the steps may still have.
    left: usize,
}

impl Values for Scope<'_> {
    fn get(&self, name: &str) -> Option<String> {
        if let Some(value) = self.variables.get(name) {
            return Some(value.to_owned());
        }
        if let Ok(group) = name.parse::<usize>() {
            return self.evaluator.groups.get(group).cloned();
        }
        let query = || self.request.variable("QUERY_STRING");
        match name {
            "DATE_LOCAL" => Some(self.evaluator.time(self.request.now())),
            "DATE_GMT" => Some(format::time(&self.evaluator.time, self.request.now(), "GMT")),
            "LAST_MODIFIED" => self.request.modified().map(|modified| self.evaluator.time(modified)),
            "DOCUMENT_ARGS" | "QUERY_STRING_UNESCAPED" => query().map(|query| percent_decode(&query)),
            _ => self.request.variable(name),
        }
    }

    fn set_groups(&mut self, groups: Vec<String>) {
        self.evaluator.groups = groups;
    }

    fn limit(&self) -> usize {
        MAX_VALUE
    }
}

impl Scope<'_> {
    fn evaluate(&mut self, directive: &Directive) -> Result<(), Mistake> {
        match directive {
            Directive::EndRemove => self.evaluator.removing = false,
            _ if self.evaluator.removing => {}
            Directive::If(test) => return self.begin(test),
            Directive::Elif(test) => return self.go_on(test),
            Directive::Else => return self.evaluator.begin_else(),
            Directive::EndIf => return self.evaluator.end_branch(),
            _ if !self.evaluator.branch_is_active() => {}
            Directive::Remove => self.evaluator.removing = true,
            Directive::Config(settings) => return settings.iter().try_for_each(|one| self.configure(one)),
            Directive::Echo(all) => {
                for echo in all {
                    let name = self.expand(&echo.name)?;
                    let text = match self.get(&name) {
                        Some(value) => echo.encoding.encode(&echo.decoding.decode(&value)),
                        None => self.evaluator.echo_message.clone(),
                    };
                    self.push(text.len(), Step::Output(text))?;
                }
            }
            Directive::Set(all) => {
                for assignment in all {
                    let name = self.expand(&assignment.name)?;
                    if !is_name(&name) {
                        return Err(Mistake::Value(name));
                    }
                    let value = self.expand(&assignment.value)?;
                    let value = assignment.encoding.encode(&assignment.decoding.decode(&value));
                    self.variables.set(&name, value)?;
                }
            }
            Directive::Size(targets) => {
                for target in targets {
                    let reference = self.reference(target)?;
                    self.push(reference.text().len(), Step::Size(reference))?;
                }
            }
            Directive::Modified(targets) => {
                for target in targets {
                    let reference = self.reference(target)?;
                    self.push(reference.text().len(), Step::Modified(reference))?;
                }
            }
            Directive::Include(all) => {
                for include in all {
                    let reference = self.reference(&include.target)?;
                    let alternative = include.on_error.as_ref().map(|text| self.expand(text)).transpose()?;
                    let bytes = reference.text().len() + alternative.as_ref().map_or(0, String::len);
                    let alternative = alternative.map(Reference::Virtual);
                    let inclusion = Inclusion { reference, alternative, on_failure: OnFailure::Message };
                    self.push(bytes, Step::Include(inclusion))?;
                }
            }
            Directive::PrintVariables => self.steps.push(Step::Output(self.print())),
            Directive::Fragment(fragment) => self.steps.push(Step::Include(of_fragment(fragment))),
            Directive::Broken(mistake) => return Err(mistake.clone()),
        }
        Ok(())
    }

    /// Adds a step that has so many bytes.
    fn push(&mut self, bytes: usize, step: Step) -> Result<(), Mistake> {
        self.left = self.left.checked_sub(bytes).ok_or(Mistake::TooLong(MAX_STEPS))?;
        self.steps.push(step);
        Ok(())
    }

    fn begin(&mut self, test: &Result<Expression, Mistake>) -> Result<(), Mistake> {
        if self.evaluator.branches.len() == MAX_BRANCHES {
            let was_active = self.evaluator.branch_is_active();
            self.evaluator.too_deep += 1;
            return if was_active { Err(Mistake::Nested(MAX_BRANCHES)) } else { Ok(()) };
        }
        if !self.evaluator.branch_is_active() {
            self.evaluator.branches.push(Branch::Skipped);
            return Ok(());
        }
        let result = self.test(test);
        self.evaluator.branches.push(*result.as_ref().unwrap_or(&Branch::Skipped));
        result.map(drop)
    }

    fn go_on(&mut self, test: &Result<Expression, Mistake>) -> Result<(), Mistake> {
        if self.evaluator.too_deep > 0 {
            return Ok(());
        }
        let misplaced = Mistake::Misplaced("elif");
        let (next, result) = match self.evaluator.branches.last().ok_or(misplaced.clone())? {
            Branch::Seeking => {
                let result = self.test(test);
                (*result.as_ref().unwrap_or(&Branch::Skipped), result.map(drop))
            }
            Branch::Taken | Branch::Skipped => (Branch::Skipped, Ok(())),
            Branch::ElseTaken | Branch::ElseSkipped => return Err(misplaced),
        };
        if let Some(last) = self.evaluator.branches.last_mut() {
            *last = next;
        }
        result
    }

    /// Errors: neither this branch nor a later one of the same `if` is taken.
    fn test(&mut self, test: &Result<Expression, Mistake>) -> Result<Branch, Mistake> {
        let test = test.as_ref().map_err(Clone::clone)?;
        Ok(if test.holds(self)? { Branch::Taken } else { Branch::Seeking })
    }

    fn configure(&mut self, setting: &Setting) -> Result<(), Mistake> {
        match setting {
            Setting::ErrorMessage(text) => self.evaluator.error_message = self.expand(text)?,
            Setting::EchoMessage(text) => self.evaluator.echo_message = self.expand(text)?,
            Setting::Time(text) => self.evaluator.time = self.expand(text)?,
            Setting::Size(format) => self.evaluator.size = *format,
        }
        Ok(())
    }

    fn expand(&self, text: &Template) -> Result<String, Mistake> {
        text.expand(|name| self.get(name), MAX_VALUE).ok_or(Mistake::TooLong(MAX_VALUE))
    }

    fn reference(&self, target: &Target) -> Result<Reference, Mistake> {
        Ok(match target {
            Target::File(text) => Reference::File(self.expand(text)?),
            Target::Virtual(text) => Reference::Virtual(self.expand(text)?),
        })
    }

    /// All variables, each in a line, for HTML.
    fn print(&self) -> String {
        const OF_PAGE: [&str; 5] =
            ["DATE_GMT", "DATE_LOCAL", "DOCUMENT_ARGS", "LAST_MODIFIED", "QUERY_STRING_UNESCAPED"];
        let of_request = self.request.names();
        let set = self.variables.iter().map(|(name, _)| name.to_owned());
        let mut names: Vec<String> =
            OF_PAGE.iter().map(|name| (*name).to_owned()).chain(of_request).chain(set).collect();
        names.sort_unstable();
        names.dedup();
        let mut out = String::new();
        for name in names {
            let value = self.get(&name).unwrap_or_default();
            let line = format!("{name}={value}\n");
            out.push_str(&crate::coding::Coding::Entity.encode(&line));
        }
        out
    }
}

fn of_fragment(fragment: &Fragment) -> Inclusion {
    Inclusion {
        reference: Reference::Virtual(fragment.source.clone()),
        alternative: fragment.alternative.clone().map(Reference::Virtual),
        on_failure: match fragment.on_error {
            OnError::Abort => OnFailure::Abort,
            OnError::Continue => OnFailure::Nothing,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;
    use crate::scan::{Languages, Node};

    struct Fixture;

    impl Request for Fixture {
        fn variable(&self, name: &str) -> Option<String> {
            let value = match name {
                "REQUEST_URI" => "/d/page.shtml?a=%3Cb%3E",
                "QUERY_STRING" => "a=%3Cb%3E",
                "HTTP_USER_AGENT" => "<script>",
                "DOCUMENT_NAME" => "page.shtml",
                _ => return None,
            };
            Some(value.to_owned())
        }

        fn names(&self) -> Vec<String> {
            vec!["REQUEST_URI".to_owned(), "HTTP_USER_AGENT".to_owned()]
        }

        fn now(&self) -> i64 {
            86_400
        }

        fn modified(&self) -> Option<i64> {
            Some(0)
        }
    }

    /// The content, with what the caller would do in brackets.
    fn content(text: &str) -> String {
        let page = Page::parse(text.as_bytes(), Languages { ssi: true, esi: true });
        let (mut evaluator, mut variables) = (Evaluator::default(), Variables::default());
        let mut out = String::new();
        for node in &page.nodes {
            match node {
                Node::Text(text) if evaluator.is_active() => out.push_str(&String::from_utf8_lossy(text)),
                Node::Text(_) => {}
                Node::Directive(directive) => {
                    let mut steps = Vec::new();
                    evaluator.evaluate(directive, &Fixture, &mut variables, &mut steps);
                    for step in steps {
                        out.push_str(&show(step, &evaluator));
                    }
                }
            }
        }
        out
    }

    fn show(step: Step, evaluator: &Evaluator) -> String {
        match step {
            Step::Output(text) => text,
            Step::Include(Inclusion { reference, alternative, on_failure }) => {
                let alternative = alternative.map_or(String::new(), |other| format!(" or {}", other.text()));
                format!("[{}{alternative} {on_failure:?}]", reference.text())
            }
            Step::Size(reference) => format!("[size {} {}]", reference.text(), evaluator.size(2048)),
            Step::Modified(reference) => format!("[time {} {}]", reference.text(), evaluator.time(0)),
            Step::Failed(_) => evaluator.error_message().to_owned(),
        }
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(content(text), expected, "{text}");
    }

    #[test]
    fn shows_variables() {
        check("a<!--#echo var=\"DOCUMENT_NAME\" -->b", "apage.shtmlb");
        check("<!--#echo var=\"HTTP_USER_AGENT\" -->", "&lt;script&gt;");
        check("<!--#echo encoding=\"none\" var=\"HTTP_USER_AGENT\" -->", "<script>");
        check(
            "<!--#echo var=\"HTTP_USER_AGENT\" encoding=\"url\" var=\"HTTP_USER_AGENT\" -->",
            "&lt;script&gt;%3Cscript%3E",
        );
        check("<!--#echo decoding=\"url\" encoding=\"none\" var=\"QUERY_STRING\" -->", "a=<b>");
        check("<!--#echo var=\"QUERY_STRING_UNESCAPED\" -->", "a=&lt;b&gt;");
        check("<!--#echo var=\"UNKNOWN\" -->", "(none)");
        check("<!--#config echomsg=\"-\" --><!--#echo var=\"UNKNOWN\" var=\"x\" -->", "--");
        check("<!--#config timefmt=\"%F\" --><!--#echo var=\"DATE_GMT\" -->", "1970-01-02");
        check("<!--#echo var=\"LAST_MODIFIED\" -->", "Thursday, 01-Jan-1970 00:00:00 UTC");
        check("<!--#config timefmt=\"%Z\" --><!--#echo var=\"DATE_GMT\" var=\"DATE_LOCAL\" -->", "GMTUTC");
        let printed =
            content("<!--#config timefmt=\"%s\" --><!--#set var=\"x\" value=\"&\" --><!--#printenv -->");
        assert_eq!(
            printed,
            "DATE_GMT=86400\nDATE_LOCAL=86400\nDOCUMENT_ARGS=a=&lt;b&gt;\n\
             HTTP_USER_AGENT=&lt;script&gt;\nLAST_MODIFIED=0\nQUERY_STRING_UNESCAPED=a=&lt;b&gt;\n\
             REQUEST_URI=/d/page.shtml?a=%3Cb%3E\nx=&amp;\n"
        );
    }

    #[test]
    fn sets_variables() {
        check(
            "<!--#set var=\"a\" value=\"1\" --><!--#set var=\"b\" value=\"${a}2$a\" --><!--#echo var=\"b\" -->",
            "121",
        );
        check("<!--#set var=\"a\" value=\"\\$x\" --><!--#echo var=\"a\" -->", "$x");
        check(
            "<!--#set var=\"a\" value=\"b\" --><!--#set var=\"$a\" value=\"c\" --><!--#echo var=\"b\" -->",
            "c",
        );
        check("<!--#set var=\"DOCUMENT_NAME\" value=\"x\" --><!--#echo var=\"DOCUMENT_NAME\" -->", "x");
        check("<!--#set encoding=\"url\" var=\"a\" value=\"b c\" --><!--#echo var=\"a\" -->", "b%20c");
        check("<!--#config errmsg=\"E\" --><!--#set var=\"a b\" value=\"c\" -->", "E");
    }

    #[test]
    fn includes() {
        check("<!--#include virtual=\"/a?$QUERY_STRING\" -->", "[/a?a=%3Cb%3E Message]");
        check("<!--#include file=\"$DOCUMENT_NAME\" onerror=\"/e\" -->", "[page.shtml or /e Message]");
        check(
            "<!--#fsize file=\"a\" --><!--#config sizefmt=\"bytes\" --><!--#fsize file=\"a\" -->",
            "[size a 2.0K][size a 2,048]",
        );
        check("<!--#config timefmt=\"%Y\" --><!--#flastmod virtual=\"/a\" -->", "[time /a 1970]");
        check("<esi:include src=\"/a\" alt=\"/b\" onerror=\"continue\"/>", "[/a or /b Nothing]");
        check("<esi:include src=\"/a\"/>", "[/a Abort]");
        check("a<esi:remove>b<esi:include src=\"/a\"/><!--#echo var=\"x\" --></esi:remove>c", "ac");
        check("a<!--esi <p><esi:include src=\"/a\"/></p> -->b", "a <p>[/a Abort]</p> b");
    }

    #[test]
    fn takes_one_branch() {
        let page = |one: &str, other: &str, third: &str| {
            content(&format!(
                "<!--#if expr=\"{one}\" -->1<!--#elif expr=\"{other}\" -->2<!--#elif expr=\"{third}\" -->3<!--#else -->4<!--#endif -->."
            ))
        };
        assert_eq!(page("x", "x", "x"), "1.");
        assert_eq!(page("''", "x", "x"), "2.");
        assert_eq!(page("''", "''", "x"), "3.");
        assert_eq!(page("''", "''", "''"), "4.");
        // A test with a mistake takes no branch.
        assert_eq!(page("(", "x", "x"), format!("{ERROR_MESSAGE}."));
        assert_eq!(page("''", "(", "x"), format!("{ERROR_MESSAGE}."));
        assert_eq!(page("x", "(", "x"), "1.");
        check(
            "<!--#if expr=\"''\" -->a<!--#if expr=\"x\" -->b<!--#else -->c<!--#endif -->d<!--#endif -->e",
            "e",
        );
        check(
            "<!--#if expr=\"x\" -->a<!--#if expr=\"''\" -->b<!--#else -->c<!--#endif -->d<!--#endif -->e",
            "acde",
        );
        check(
            "<!--#if expr=\"''\" --><!--#set var=\"a\" value=\"1\" --><!--#exec cmd=\"id\" --><!--#endif --><!--#echo var=\"a\" -->",
            "(none)",
        );
        check(
            "<!--#if expr=\"$DOCUMENT_NAME = /(p.ge)/\" --><!--#echo var=\"1\" -->$1<!--#endif -->",
            "page$1",
        );
        check("<!--#if expr=\"x\" -->a", "a");
        check("<!--#config errmsg=\"E\" --><!--#endif -->a<!--#else -->b<!--#elif expr=\"x\" -->c", "EaEbEc");
        check(
            "<!--#config errmsg=\"E\" --><!--#if expr=\"x\" -->a<!--#else -->b<!--#else -->c<!--#elif expr=\"x\" -->d<!--#endif -->e",
            "aEEe",
        );
    }

    #[test]
    fn nesting_has_a_limit() {
        let deep = |count: usize| {
            format!("{}a{}b", "<!--#if expr=\"x\" -->".repeat(count), "<!--#endif -->".repeat(count))
        };
        assert_eq!(content(&deep(MAX_BRANCHES)), "ab");
        assert_eq!(content(&deep(MAX_BRANCHES + 1)), format!("{ERROR_MESSAGE}b"));
        assert_eq!(content(&deep(MAX_BRANCHES + 9)), format!("{ERROR_MESSAGE}b"));
    }

    #[test]
    fn values_do_not_grow_without_end() {
        let double = "<!--#set var=\"a\" value=\"$a$a\" -->".repeat(40);
        let page = format!(
            "<!--#config errmsg=\"E\" --><!--#set var=\"a\" value=\"x\" -->{double}<!--#echo var=\"a\" -->"
        );
        let out = content(&page);
        assert!(out.starts_with('E') && out.len() <= MAX_VALUE + 40, "{}", out.len());
    }

    #[test]
    fn what_a_directive_stands_for_has_a_limit() {
        let set = format!("<!--#set var=\"a\" value=\"{}\" -->", "x".repeat(8000));
        let double = "<!--#set var=\"a\" value=\"$a$a\" -->".repeat(2);
        for (each, directive) in [("var=\"a\" ", "echo"), ("virtual=\"/$a\" ", "include")] {
            let all = format!("{set}{double}<!--#{directive} {}-->", each.repeat(500));
            let out = content(&all);
            assert!(out.ends_with(ERROR_MESSAGE), "{directive}: {} bytes", out.len());
            assert!(out.len() <= MAX_STEPS + 200, "{directive}: {} bytes", out.len());
        }
        let encoded = format!("{set}{double}<!--#echo encoding=\"url\" var=\"a\" -->").replace('x', "<");
        assert!(!content(&encoded).contains(ERROR_MESSAGE), "a long value fits");
    }

    #[test]
    fn mistakes_have_a_message() {
        check("<!--#exec cmd=\"id\" -->", ERROR_MESSAGE);
        check("<!--#config errmsg=\"oops\" --><!--#foo -->", "oops");
        check("<!--#config errmsg=\"\" --><!--#foo -->", "");
    }
}
