//! Which route a path takes: patterns, and the table of a host's routes.
//!
//! A pattern is written as the path is after decoding. An exact pattern wins over a glob, a glob over a
//! prefix; among globs the first one written wins, among prefixes the longest. A path that nothing
//! matches takes the fallback, whose pattern is `/`.
//!
//! A glob may have another route below each prefix, which is made of both: see [`Routes::combine`].
//!
//! Knows nothing of what a route does.

use std::fmt;
use std::path::PathBuf;

use taipan_http::target::{SafePath, encode_path};

use crate::model::{Action, Interpreter, Route};

/// Routes of one host besides the fallback.
pub const MAX_ROUTES: usize = 1000;
/// Routes of one host that are made of a glob and a prefix.
pub const MAX_COMBINED: usize = 4096;
/// Bytes of a pattern.
pub const MAX_PATTERN: usize = 1024;
/// Characters of a pattern with wildcards: as many as a [`States`] has bits, but one.
pub const MAX_GLOB: usize = 127;

/// What paths a route, or a rule by path, is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// One path, as [`SafePath::as_str`] has it: without the leading slash.
    Exact(String),
    /// All paths below a folder and the folder itself, with or without its last slash. Empty, or ends
    /// in a slash; has no leading one.
    Prefix(String),
    Glob(Glob),
}

/// Why a text is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternError {
    Relative,
    RelativeGlob,
    TooLong,
    GlobTooLong,
    Control,
    /// An empty segment, `.` or `..`: no path has one after it is resolved.
    Segment,
    /// `[` or `{` in a glob.
    Alternatives,
    GlobFolder,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PatternError::Relative => "begin it with a slash",
            PatternError::RelativeGlob => {
                "begin it with a slash, or with \"/**/\" to match at any depth; only a pattern for the \
                 last segment alone, such as \"*.css\", has no slash"
            }
            PatternError::TooLong => "a pattern has at most 1024 bytes",
            PatternError::GlobTooLong => "a pattern with wildcards has at most 127 characters",
            PatternError::Control => "leave out the control character",
            PatternError::Segment => "leave out empty segments, \".\" and \"..\"; no path keeps them",
            PatternError::Alternatives => {
                "only *, ** and ? are wildcards; write one pattern for each alternative of [...] or {...}"
            }
            PatternError::GlobFolder => "end it with \"/**\" to match everything below",
        })
    }
}

impl std::error::Error for PatternError {}

impl Pattern {
    /// The prefix `/`, which every path has.
    pub const EVERYTHING: Pattern = Pattern::Prefix(String::new());

    /// `/a/b` is exact, `/a/` a prefix; with `*`, `**` or `?` in it, the text is a glob.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        if text.len() > MAX_PATTERN {
            return Err(PatternError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(PatternError::Control);
        }
        if text.contains(['*', '?']) {
            return Glob::parse(text).map(Pattern::Glob);
        }
        let path = text.strip_prefix('/').ok_or(PatternError::Relative)?;
        check_segments(path)?;
        Ok(match path.is_empty() || path.ends_with('/') {
            true => Pattern::Prefix(path.to_owned()),
            false => Pattern::Exact(path.to_owned()),
        })
    }

    pub fn matches(&self, path: &SafePath) -> bool {
        match self {
            Pattern::Exact(exact) => exact == path.as_str(),
            Pattern::Prefix(prefix) => below(prefix, path.as_str()).is_some(),
            Pattern::Glob(glob) => glob.matches(path),
        }
    }

    /// A path that it is for.
    pub fn example(&self) -> Option<SafePath<'static>> {
        let text = match self {
            Pattern::Exact(path) => path.clone(),
            Pattern::Prefix(prefix) => format!("{prefix}x"),
            Pattern::Glob(glob) => {
                let text = glob.text.trim_start_matches('/');
                text.replace("**/", "").replace("**", "x").replace(['*', '?'], "x")
            }
        };
        let mut encoded = String::from("/");
        encode_path(&text, &mut encoded);
        let path = SafePath::parse(&encoded).ok().map(SafePath::into_owned);
        path.filter(|path| self.matches(path))
    }

    /// What follows the prefix, without a leading slash; nothing for other patterns.
    pub fn rest<'p>(&self, path: &'p str) -> &'p str {
        match self {
            Pattern::Prefix(prefix) => below(prefix, path).unwrap_or(""),
            Pattern::Exact(_) | Pattern::Glob(_) => "",
        }
    }
}

/// As it is written in a configuration.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Exact(path) | Pattern::Prefix(path) => write!(f, "/{path}"),
            Pattern::Glob(glob) => f.write_str(&glob.text),
        }
    }
}

/// What `path` has after `prefix`, if it is below that folder or the folder itself.
fn below<'p>(prefix: &str, path: &'p str) -> Option<&'p str> {
    let Some(folder) = prefix.strip_suffix('/') else { return Some(path) };
    match path.strip_prefix(folder)? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    }
}

/// `path` has no leading slash; a last slash is no empty segment.
fn check_segments(path: &str) -> Result<(), PatternError> {
    if path.is_empty() {
        return Ok(());
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return Err(PatternError::Segment);
    }
    Ok(())
}

/// A pattern with wildcards: `*` and `?` stay within a segment, `**` crosses slashes. `**/` is any
/// number of whole segments, none included; `/**` at the end is the folder and everything below.
///
/// All ways to match are followed at once, so that the cost is at most the path's length times the
/// pattern's, for any path and any pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    subject: Subject,
    tokens: Vec<Token>,
    /// What follows the last wildcard: a path that ends otherwise is refused at once.
    tail: String,
}

/// What of a path a glob is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Path,
    /// The last segment.
    Name,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`
    One,
    /// `*`
    Many,
    /// `**`
    Any,
    /// `**/`, before a segment. `Within` always follows.
    Between,
    /// `**/`, inside a segment.
    Within,
    /// `/**` at the end, before its slash. `Any` always follows.
    Below,
}

impl Token {
    fn literal(&self) -> Option<char> {
        match self {
            Token::Char(own) => Some(*own),
            _ => None,
        }
    }
}

/// Bit `i`: the tokens before `i` have matched what was read. Bit `tokens.len()`: all of them.
type States = u128;

impl Glob {
    fn parse(text: &str) -> Result<Glob, PatternError> {
        if text.chars().count() > MAX_GLOB {
            return Err(PatternError::GlobTooLong);
        }
        if text.contains(['[', ']', '{', '}']) {
            return Err(PatternError::Alternatives);
        }
        let (subject, body) = match text.strip_prefix('/') {
            Some(path) => (Subject::Path, path),
            None if text.contains('/') => return Err(PatternError::RelativeGlob),
            None => (Subject::Name, text),
        };
        if body.ends_with('/') {
            return Err(PatternError::GlobFolder);
        }
        check_segments(body)?;
        let tokens = tokens(body);
        let wildcards =
            tokens.iter().rposition(|token| !matches!(token, Token::Char(_))).map_or(0, |at| at + 1);
        let tail = tokens[wildcards..].iter().filter_map(Token::literal).collect();
        Ok(Glob { text: text.to_owned(), subject, tokens, tail })
    }

    /// Whether it may match a path below `prefix`, as far as what is before its first wildcard tells.
    fn reaches(&self, prefix: &str) -> bool {
        let literal: String = self.tokens.iter().map_while(Token::literal).collect();
        self.subject == Subject::Name || literal.starts_with(prefix) || prefix.starts_with(&literal)
    }

    pub fn matches(&self, path: &SafePath) -> bool {
        let path = path.as_str();
        let path = path.strip_suffix('/').unwrap_or(path);
        let subject = match self.subject {
            Subject::Path => path,
            Subject::Name => path.rsplit('/').next().unwrap_or(path),
        };
        self.matches_text(subject)
    }

    fn matches_text(&self, text: &str) -> bool {
        if !text.ends_with(&self.tail) {
            return false;
        }
        let mut states = self.with_skipped(1);
        for character in text.chars() {
            states = self.with_skipped(self.step(states, character));
            if states == 0 {
                return false;
            }
        }
        states >> self.tokens.len() & 1 == 1
    }

    /// The states after one more character.
    fn step(&self, states: States, character: char) -> States {
        let slash = character == '/';
        each(states).fold(0, |after, at| {
            let next = match self.tokens.get(at) {
                Some(Token::Char(own)) if *own == character => at + 1,
                Some(Token::One | Token::Between) if !slash => at + 1,
                Some(Token::Many | Token::Within) if !slash => at,
                Some(Token::Any) => at,
                Some(Token::Within) => at - 1,
                Some(Token::Below) if slash => at + 1,
                _ => return after,
            };
            after | 1 << next
        })
    }

    /// `states` and those reached from there by tokens that may match nothing. Such a step only leads
    /// forward, so that one pass finds all.
    fn with_skipped(&self, states: States) -> States {
        let mut all = states;
        for (at, token) in self.tokens.iter().enumerate() {
            let skip = match token {
                Token::Many | Token::Any => 1,
                Token::Between | Token::Below => 2,
                Token::Char(_) | Token::One | Token::Within => continue,
            };
            if all >> at & 1 == 1 {
                all |= 1 << (at + skip);
            }
        }
        all
    }
}

/// The numbers of the bits that are set, ascending.
fn each(mut states: States) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (states != 0).then(|| states.trailing_zeros() as usize)?;
        states &= states - 1;
        Some(at)
    })
}

/// Never more tokens than characters: each token takes at least one, `**/` and `/**` three for two.
fn tokens(mut text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut previous = '/';
    while let Some(first) = text.chars().next() {
        let (taken, found): (&str, &[Token]) = match first {
            '/' if text == "/**" => (text, &[Token::Below, Token::Any]),
            '*' if previous == '/' && text.starts_with("**/") => ("**/", &[Token::Between, Token::Within]),
            '*' if text.starts_with("**") => ("**", &[Token::Any]),
            '*' => ("*", &[Token::Many]),
            '?' => ("?", &[Token::One]),
            other => (&text[..other.len_utf8()], &[Token::Char(other)]),
        };
        tokens.extend_from_slice(found);
        previous = taken.chars().next_back().unwrap_or(first);
        text = &text[taken.len()..];
    }
    tokens
}

/// A route's place in its host's [`Routes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteId(u16);

impl RouteId {
    pub const DEFAULT: RouteId = RouteId(0);

    /// The place of the route among those that [`Routes::new`] was given; `None`: the fallback.
    pub fn place(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }
}

/// The routes of a host.
#[derive(Debug, Clone)]
pub struct Routes {
    fallback: Route,
    /// As written, and then those that are made of two. The id of the first is 1.
    others: Vec<Route>,
    /// For each route that is made of a glob and a prefix: the glob's own.
    combined: Vec<RouteId>,
    /// Ascending by path.
    exact: Vec<(String, RouteId)>,
    /// As written.
    globs: Vec<GlobRoutes>,
    /// The longest first.
    prefixes: Vec<(String, RouteId)>,
    files: FilesAre,
}

/// The routes of a glob.
#[derive(Debug, Clone)]
struct GlobRoutes {
    glob: Glob,
    own: RouteId,
    /// Below each of the prefixes, in their order, and then below none of them. Empty: `own` everywhere.
    below: Vec<RouteId>,
}

/// What is done with the files of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilesAre {
    Sent,
    /// Or run, by some routes.
    Run,
}

/// Why routes make no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutesError {
    /// More than [`MAX_ROUTES`].
    TooMany,
    /// More than [`MAX_COMBINED`].
    TooManyCombined,
    /// The pattern of this one, counted from 0, was there before.
    Twice(usize),
}

impl Routes {
    /// `fallback` is for every path that none of `others` matches, whatever its own pattern is.
    pub fn new(fallback: Route, others: Vec<Route>) -> Result<Routes, RoutesError> {
        if others.len() > MAX_ROUTES {
            return Err(RoutesError::TooMany);
        }
        let mut routes = Routes { others, ..Routes::only(fallback) };
        for (index, route) in routes.others.iter().enumerate() {
            if routes.others[..index].iter().any(|other| other.pattern == route.pattern) {
                return Err(RoutesError::Twice(index));
            }
            let id = RouteId(index as u16 + 1);
            match &route.pattern {
                Pattern::Exact(path) => routes.exact.push((path.clone(), id)),
                Pattern::Prefix(prefix) => routes.prefixes.push((prefix.clone(), id)),
                Pattern::Glob(glob) => {
                    routes.globs.push(GlobRoutes { glob: glob.clone(), own: id, below: Vec::new() });
                }
            }
        }
        routes.exact.sort();
        routes.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        routes.note_scripts();
        Ok(routes)
    }

    /// Replaces the route of each exact path, and that of each glob below each prefix, by what `combine` makes
    /// of it and of the route of the longest prefix around: both are named by their ids. `None`: it stays.
    pub fn combine(
        mut self,
        mut combine: impl FnMut(RouteId, RouteId) -> Option<Route>,
    ) -> Result<Routes, RoutesError> {
        let written = self.others.len();
        for (path, id) in &self.exact {
            let prefix = self.prefixes.iter().find(|(prefix, _)| below(prefix, path).is_some());
            if let Some(route) = combine(*id, prefix.map_or(RouteId::DEFAULT, |(_, id)| *id)) {
                self.others[usize::from(id.0).saturating_sub(1)] = route;
            }
        }
        let prefixes: Vec<(&str, RouteId)> =
            self.prefixes.iter().map(|(prefix, id)| (prefix.as_str(), *id)).collect();
        for routes in &mut self.globs {
            for (prefix, id) in prefixes.iter().copied().chain([("", RouteId::DEFAULT)]) {
                let combined = if routes.glob.reaches(prefix) { combine(routes.own, id) } else { None };
                let Some(route) = combined else {
                    routes.below.push(routes.own);
                    continue;
                };
                if self.combined.len() == MAX_COMBINED {
                    return Err(RoutesError::TooManyCombined);
                }
                self.others.push(route);
                self.combined.push(routes.own);
                routes.below.push(RouteId((written + self.combined.len()) as u16));
            }
        }
        self.note_scripts();
        Ok(self)
    }

    fn note_scripts(&mut self) {
        if self.iter().any(|route| route.script.is_some()) {
            self.files = FilesAre::Run;
        }
    }

    /// One route for every path.
    pub fn only(fallback: Route) -> Routes {
        let fallback = Route { pattern: Pattern::EVERYTHING, ..fallback };
        let files = if fallback.script.is_some() { FilesAre::Run } else { FilesAre::Sent };
        let (others, combined, exact, globs, prefixes) = Default::default();
        Routes { fallback, others, combined, exact, globs, prefixes, files }
    }

    /// Allocates nothing, and looks at nothing where there is only the fallback.
    pub fn find(&self, path: &SafePath) -> RouteId {
        if self.others.is_empty() {
            return RouteId::DEFAULT;
        }
        let text = path.as_str();
        let exact = self.exact.binary_search_by(|(exact, _)| exact.as_str().cmp(text)).ok();
        let found = exact.map(|at| self.exact[at].1);
        let prefix = || self.prefixes.iter().position(|(prefix, _)| below(prefix, text).is_some());
        let glob = || {
            let routes = self.globs.iter().find(|routes| routes.glob.matches(path))?;
            let place = || prefix().unwrap_or(self.prefixes.len());
            Some(if routes.below.is_empty() { routes.own } else { routes.below[place()] })
        };
        let prefixed = || prefix().map(|at| self.prefixes[at].1);
        found.or_else(glob).or_else(prefixed).unwrap_or(RouteId::DEFAULT)
    }

    /// The route as it is written: of one that is made of two, that of its glob.
    pub fn written(&self, id: RouteId) -> RouteId {
        let written = self.others.len() - self.combined.len();
        let at = usize::from(id.0).checked_sub(written + 1);
        at.and_then(|at| self.combined.get(at)).copied().unwrap_or(id)
    }

    /// The route of an id that [`Routes::find`] of the same table gave.
    pub fn get(&self, id: RouteId) -> &Route {
        id.place().and_then(|index| self.others.get(index)).unwrap_or(&self.fallback)
    }

    /// Whether any of them runs its files.
    pub fn has_scripts(&self) -> bool {
        self.files == FilesAre::Run
    }

    /// The fallback first, then the others as written, then those that are made of two.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        std::iter::once(&self.fallback).chain(&self.others)
    }

    /// To change where their files are; their patterns stay, and what they do.
    pub fn folders_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        std::iter::once(&mut self.fallback).chain(&mut self.others).flat_map(folders_mut)
    }
}

fn folders_mut(route: &mut Route) -> impl Iterator<Item = &mut PathBuf> {
    let root = match &mut route.action {
        Action::Files { root, .. } => Some(root),
        Action::Upstream(_) | Action::Redirect { .. } | Action::Rewrite { .. } | Action::Answer(_) => None,
    };
    let interpreter = match route.script.as_mut().and_then(|script| script.interpreter.as_mut()) {
        Some(Interpreter::Program(path)) => Some(path),
        Some(Interpreter::Upstream(_)) | None => None,
    };
    root.into_iter().chain(interpreter)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use taipan_http::status::Status;

    use super::*;
    use crate::model::{Action, Site};

    fn path(text: &str) -> SafePath<'static> {
        SafePath::parse(text).unwrap().into_owned()
    }

    #[test]
    fn a_pattern_matches_what_its_kind_says() {
        fn check(pattern: &str, yes: &[&str], no: &[&str]) {
            let parsed = Pattern::parse(pattern).unwrap();
            assert_eq!(parsed.to_string(), pattern);
            for text in yes {
                assert!(parsed.matches(&path(text)), "{pattern} should match {text}");
            }
            for text in no {
                assert!(!parsed.matches(&path(text)), "{pattern} should not match {text}");
            }
        }
        check("/", &["/", "/a", "/a/b/"], &[]);
        check("/a/b", &["/a/b"], &["/a/b/", "/a/bc", "/a", "/x/a/b", "/"]);
        check("/a/", &["/a/", "/a", "/a/b", "/a/b/c/"], &["/ab", "/", "/b/a/"]);
        check("*.css", &["/x.css", "/a/b/x.css", "/.css", "/a.css/"], &["/x.css2", "/x.css/y", "/"]);
        check("photo?", &["/photo1", "/a/photo%C3%A4"], &["/photo", "/photo12", "/photo1/x"]);
        check("/img/*", &["/img/a", "/img/a/"], &["/img", "/img/", "/img/a/b", "/x/img/a"]);
        check("/img/**", &["/img", "/img/", "/img/a", "/img/a/b/"], &["/imga", "/x/img/a"]);
        check("/**/x", &["/x", "/a/x", "/a/b/x", "/x/"], &["/ax", "/x/a", "/"]);
        check("/a/**/b", &["/a/b", "/a/x/b", "/a/x/y/b"], &["/a", "/b", "/ab", "/a/xb", "/a/x/b/c"]);
        check("/**", &["/", "/a", "/a/b/c"], &[]);
        check("/a**z", &["/az", "/a/b/z", "/abz"], &["/a/b", "/ba/z"]);
        check("/*/*.html", &["/a/b.html", "/a/.html"], &["/b.html", "/a/b/c.html", "/a/b.htm"]);
        check("/u?/**/*.js", &["/u1/x.js", "/u1/a/b/x.js"], &["/u/x.js", "/u1/x.jsx"]);
    }

    #[test]
    fn a_text_that_could_never_match_is_no_pattern() {
        fn check(text: &str, expected: PatternError) {
            assert_eq!(Pattern::parse(text), Err(expected), "{text:?}");
        }
        check("", PatternError::Relative);
        check("a/b", PatternError::Relative);
        check("a/*", PatternError::RelativeGlob);
        check("**/a", PatternError::RelativeGlob);
        check("/a\n", PatternError::Control);
        check("//", PatternError::Segment);
        check("/a//b", PatternError::Segment);
        check("/a/../b", PatternError::Segment);
        check("/./b*", PatternError::Segment);
        check("*.{css,js}", PatternError::Alternatives);
        check("/[ab]*", PatternError::Alternatives);
        check("/a*/", PatternError::GlobFolder);
        check(&"/".repeat(1025), PatternError::TooLong);
        check(&"*".repeat(128), PatternError::GlobTooLong);
    }

    #[test]
    fn the_rest_is_what_follows_a_prefix() {
        fn check(pattern: &str, path: &str, expected: &str) {
            assert_eq!(Pattern::parse(pattern).unwrap().rest(path), expected, "{pattern} {path}");
        }
        check("/", "a/b/", "a/b/");
        check("/a/", "a/b/", "b/");
        check("/a/", "a", "");
        check("/a/", "a/", "");
        check("/a/b", "a/b", "");
        check("*.css", "a/b.css", "");
    }

    #[test]
    fn a_glob_that_makes_others_hang_is_quick() {
        let began = Instant::now();
        for pattern in ["/a*a*a*a*a*a*a*a*a*a*b", "/**a**a**a**a**a**c**b", "/**/a/**/a/**/a/**/c/**/b"] {
            for unit in ["a", "a/"] {
                let long = path(&format!("/{}b", unit.repeat(8192 / unit.len())));
                let expected = pattern == "/a*a*a*a*a*a*a*a*a*a*b" && unit == "a";
                assert_eq!(Pattern::parse(pattern).unwrap().matches(&long), expected, "{pattern} {unit}");
            }
        }
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }

    /// The rules of a glob, tried one after the other.
    fn naive(pattern: &[char], text: &[char], previous: char) -> bool {
        let after_star = |tail: &[char], crosses: fn(char) -> bool| {
            let stop = text.iter().position(|c| !crosses(*c)).unwrap_or(text.len());
            (0..=stop).any(|at| naive(tail, &text[at..], '*'))
        };
        match pattern {
            [] => text.is_empty(),
            ['/', '*', '*'] => text.is_empty() || text[0] == '/',
            ['*', '*', '/', tail @ ..] if previous == '/' => {
                let boundary = |at: &usize| *at == 0 || text[at - 1] == '/' && text[0] != '/';
                (0..=text.len()).filter(boundary).any(|at| naive(tail, &text[at..], '/'))
            }
            ['*', '*', tail @ ..] => after_star(tail, |_| true),
            ['*', tail @ ..] => after_star(tail, |c| c != '/'),
            ['?', tail @ ..] => text.first().is_some_and(|c| *c != '/') && naive(tail, &text[1..], '?'),
            [own, tail @ ..] => text.first() == Some(own) && naive(tail, &text[1..], *own),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn a_glob_agrees_with_its_rules(
            pattern in "/(\\*\\*/|\\*\\*|\\*|\\?|a|b|b/|/){0,5}[ab*?]{0,2}",
            text in "([ab]{1,2}/){0,3}[ab]{0,2}",
        ) {
            let Ok(Pattern::Glob(glob)) = Pattern::parse(&pattern) else { return Ok(()) };
            let subject = text.strip_suffix('/').unwrap_or(&text);
            let characters: Vec<char> = subject.chars().collect();
            let body: Vec<char> = pattern[1..].chars().collect();
            prop_assert_eq!(glob.matches_text(subject), naive(&body, &characters, '/'));
        }

        #[test]
        fn no_text_makes_a_pattern_panic(text in "[/*?a.é\\[]{0,140}", subject in "[/a.é]{0,40}") {
            if let (Ok(pattern), Ok(path)) = (Pattern::parse(&text), SafePath::parse(&subject)) {
                pattern.matches(&path);
            }
        }
    }

    fn routes(patterns: &[&str]) -> Result<Routes, RoutesError> {
        let fallback = Site::folder("/srv".into(), Vec::new()).hosts[0].routes.fallback.clone();
        let route = |pattern: &&str| {
            let pattern = Pattern::parse(pattern).unwrap();
            Route { pattern, action: Action::Answer(Status::NOT_FOUND), ..fallback.clone() }
        };
        Routes::new(fallback.clone(), patterns.iter().map(route).collect())
    }

    #[test]
    fn exact_wins_over_the_first_glob_over_the_longest_prefix() {
        let routes = routes(&["/a/", "/a/b/", "*.js", "/a/b/**", "/a/b/x.js", "/c/"]).unwrap();
        let check = |asked: &str, expected: &str| {
            let found = routes.get(routes.find(&path(asked)));
            assert_eq!(found.pattern.to_string(), expected, "{asked}");
        };
        check("/", "/");
        check("/z", "/");
        check("/a", "/a/");
        check("/a/z", "/a/");
        check("/ab", "/");
        check("/c/x.js", "*.js");
        check("/a/b/x.js", "/a/b/x.js");
        check("/a/b/y.js", "*.js");
        check("/a/b/y", "/a/b/**");
        check("/c/d/", "/c/");
    }

    #[test]
    fn a_table_has_each_pattern_once_and_an_end() {
        assert_eq!(routes(&["/a", "/b/", "/a"]).unwrap_err(), RoutesError::Twice(2));
        let many: Vec<String> = (0..=MAX_ROUTES).map(|n| format!("/{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(routes(&many).unwrap_err(), RoutesError::TooMany);
        assert_eq!(routes(&many[1..]).unwrap().iter().count(), MAX_ROUTES + 1);
    }
}
