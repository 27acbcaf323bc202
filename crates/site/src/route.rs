//! Routes: patterns, and the table that finds the route of a path.
//!
//! A pattern is written as the path is after decoding. An exact pattern wins over a glob, and a glob over a prefix.
//! Among globs the first in the configuration wins, among prefixes the longest. A path that no pattern matches has
//! the default route, whose pattern is `/`.
//!
//! The configuration may combine a glob with a prefix. The combined route is for the paths that the glob matches
//! below the prefix: see [`Routes::combine`].
//!
//! Knows nothing of what a route does.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use taipan_http::target::SafePath;

use crate::authentication::Authentication;
use crate::jwt::Jwt;
use crate::model::{Action, Interpreter, Route};

/// Routes of one host besides the default.
pub const MAX_ROUTES: usize = 1000;
/// Combined routes of one host.
pub const MAX_COMBINED: usize = 4096;
/// Bytes of a pattern.
pub const MAX_PATTERN: usize = 1024;
/// What begins a glob for which `a` and `A` are the same letter.
pub const ANY_CASE: &str = "(?i)";
/// Characters of a glob: one less than a [`States`] has bits.
pub const MAX_GLOB: usize = 127;

/// The paths that a route, or a rule by path, is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// One path, without the leading slash, as in [`SafePath::as_str`]. That of a folder is empty or ends with a slash.
    Exact(String),
    /// A folder and everything below it. The folder matches with and without the slash at its end. The text has no
    /// leading slash, and is empty or ends with a slash.
    Prefix(String),
    Glob(Glob),
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternError {
    Relative,
    RelativeGlob,
    TooLong,
    GlobTooLong,
    Control,
    /// An empty segment, `.` or `..`: a resolved path has none.
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
    /// The prefix `/`, which matches every path.
    pub const EVERYTHING: Pattern = Pattern::Prefix(String::new());

    /// `/a/b` and `/a/.` are exact, the latter for the folder without what is below it. `/a/` is a prefix. A text with
    /// `*`, `**` or `?` is a glob, and so is one that begins with [`ANY_CASE`].
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        if text.len() > MAX_PATTERN {
            return Err(PatternError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(PatternError::Control);
        }
        if text.starts_with(ANY_CASE) || text.contains(['*', '?']) {
            return Glob::parse(text).map(Pattern::Glob);
        }
        let path = text.strip_prefix('/').ok_or(PatternError::Relative)?;
        let folder = path.strip_suffix('.').filter(|folder| is_folder(folder));
        check_segments(folder.unwrap_or(path))?;
        Ok(match folder {
            Some(folder) => Pattern::Exact(folder.to_owned()),
            None if is_folder(path) => Pattern::Prefix(path.to_owned()),
            None => Pattern::Exact(path.to_owned()),
        })
    }

    pub fn matches(&self, path: &SafePath) -> bool {
        match self {
            Pattern::Exact(exact) => exact == path.as_str(),
            Pattern::Prefix(prefix) => path_below(prefix, path.as_str()).is_some(),
            Pattern::Glob(glob) => glob.matches(path),
        }
    }

    /// A path that matches.
    pub fn example(&self) -> Option<SafePath<'static>> {
        let text = match self {
            Pattern::Exact(path) => path.clone(),
            Pattern::Prefix(prefix) => format!("{prefix}x"),
            Pattern::Glob(glob) => {
                let text = glob.text.strip_prefix(ANY_CASE).unwrap_or(&glob.text).trim_start_matches('/');
                text.replace("**/", "").replace("**", "x").replace(['*', '?'], "x")
            }
        };
        SafePath::from_decoded(&["/", &text].concat()).ok().filter(|path| self.matches(path))
    }

    /// The parts of a path that have numbers: those that the wildcards of a glob match.
    pub fn wildcards(&self) -> usize {
        match self {
            Pattern::Glob(glob) => glob.wildcards(),
            Pattern::Exact(_) | Pattern::Prefix(_) => 0,
        }
    }

    /// What each wildcard matches, in their order: the first as much as it can, then the next one. None if the pattern
    /// does not match.
    pub fn captures<'p>(&self, path: &'p str) -> Vec<&'p str> {
        match self {
            Pattern::Glob(glob) => glob.captures(path),
            Pattern::Exact(_) | Pattern::Prefix(_) => Vec::new(),
        }
    }

    /// What follows the prefix, without a leading slash. Empty for other patterns.
    pub fn rest<'p>(&self, path: &'p str) -> &'p str {
        match self {
            Pattern::Prefix(prefix) => path_below(prefix, path).unwrap_or(""),
            Pattern::Exact(_) | Pattern::Glob(_) => "",
        }
    }
}

/// As it is written in a configuration.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Exact(folder) if is_folder(folder) => write!(f, "/{folder}."),
            Pattern::Exact(path) | Pattern::Prefix(path) => write!(f, "/{path}"),
            Pattern::Glob(glob) => f.write_str(&glob.text),
        }
    }
}

/// `path` has no leading slash.
pub fn is_folder(path: &str) -> bool {
    path.is_empty() || path.ends_with('/')
}

/// The rest of `path` below the folder `prefix`. Empty for the folder itself.
fn path_below<'p>(prefix: &str, path: &'p str) -> Option<&'p str> {
    let Some(folder) = prefix.strip_suffix('/') else { return Some(path) };
    match path.strip_prefix(folder)? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    }
}

/// `path` has no leading slash. A slash at its end makes no empty segment.
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

/// A pattern with wildcards. `*` and `?` match within a segment, and `**` matches slashes, too. `**/` matches any
/// number of whole segments, even none. `/**` at the end matches the folder and everything below it.
///
/// All ways to match are followed at once: the cost is at most the length of the path times that of the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    subject: Subject,
    tokens: Vec<Token>,
    /// What follows the last wildcard. A path with another end is excluded first, since that is quick.
    tail: String,
}

/// The part of a path that a glob is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Path,
    /// The last segment.
    Name,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    /// A letter of ASCII, in lower case, that stands for both.
    Letter(char),
    /// `?`
    One,
    /// `*`
    Many,
    /// `**`
    Any,
    /// `**/` between two segments. `Within` always follows it.
    Between,
    /// `**/` within a segment.
    Within,
    /// `/**` at the end, before its slash. `Any` always follows it.
    Below,
}

impl Token {
    fn ignore_case(&mut self) {
        if let Token::Char(own) = *self
            && own.is_ascii_alphabetic()
        {
            *self = Token::Letter(own.to_ascii_lowercase());
        }
    }

    /// How many tokens it leads forward without a character.
    fn skip(self) -> Option<usize> {
        match self {
            Token::Many | Token::Any => Some(1),
            Token::Between | Token::Below => Some(2),
            Token::Char(_) | Token::Letter(_) | Token::One | Token::Within => None,
        }
    }

    /// Whether it is, or begins, a part of a path that has a number.
    fn is_wildcard(self) -> bool {
        matches!(self, Token::One | Token::Many | Token::Any | Token::Between)
    }

    fn literal(&self) -> Option<char> {
        match self {
            Token::Char(own) => Some(*own),
            _ => None,
        }
    }
}

/// Bit `i`: the tokens before `i` match the characters so far. Bit `tokens.len()`: all tokens match.
type States = u128;

impl Glob {
    fn parse(text: &str) -> Result<Glob, PatternError> {
        if text.chars().count() > MAX_GLOB {
            return Err(PatternError::GlobTooLong);
        }
        if text.contains(['[', ']', '{', '}']) {
            return Err(PatternError::Alternatives);
        }
        let any_case = text.strip_prefix(ANY_CASE);
        let pattern = any_case.unwrap_or(text);
        let (subject, body) = match pattern.strip_prefix('/') {
            Some(path) => (Subject::Path, path),
            None if pattern.contains('/') => return Err(PatternError::RelativeGlob),
            None => (Subject::Name, pattern),
        };
        if body.ends_with('/') {
            return Err(PatternError::GlobFolder);
        }
        check_segments(body)?;
        let mut tokens = tokens(body);
        if any_case.is_some() {
            tokens.iter_mut().for_each(Token::ignore_case);
        }
        let wildcards = tokens.iter().rposition(|token| token.literal().is_none()).map_or(0, |at| at + 1);
        let tail = tokens[wildcards..].iter().filter_map(Token::literal).collect();
        Ok(Glob { text: text.to_owned(), subject, tokens, tail })
    }

    /// Whether it may match a path below `prefix`. Only the text before the first wildcard is compared.
    fn reaches(&self, prefix: &str) -> bool {
        let literal: String = self.tokens.iter().map_while(Token::literal).collect();
        self.subject == Subject::Name || literal.starts_with(prefix) || prefix.starts_with(&literal)
    }

    pub fn matches(&self, path: &SafePath) -> bool {
        self.matches_text(self.subject_of(path.as_str()))
    }

    /// The part of a path that is compared.
    fn subject_of<'p>(&self, path: &'p str) -> &'p str {
        let path = path.strip_suffix('/').unwrap_or(path);
        match self.subject {
            Subject::Path => path,
            Subject::Name => path.rsplit('/').next().unwrap_or(path),
        }
    }

    fn wildcards(&self) -> usize {
        // `Between` and `Within`, and `Below` and `Any`, are one.
        self.tokens.iter().filter(|token| token.is_wildcard()).count()
    }

    /// As [`Pattern::captures`]. `**/` has no slash at its end, and `**` at the end has that of a folder.
    fn captures<'p>(&self, path: &'p str) -> Vec<&'p str> {
        let text = self.subject_of(path);
        let characters: Vec<(usize, char)> = text.char_indices().collect();
        let fitting = self.fitting(&characters);
        let fits = |token: usize, at: usize| fitting.get(at).is_some_and(|states| states >> token & 1 == 1);
        if !fits(0, 0) {
            return Vec::new();
        }
        let mut found = Vec::with_capacity(self.wildcards());
        let mut at = 0;
        for (token, kind) in self.tokens.iter().enumerate() {
            let begin = at;
            let next = |at: usize| characters.get(at).map(|(_, character)| *character);
            match kind {
                Token::Char(_) | Token::Letter(_) | Token::One => at += 1,
                Token::Many => {
                    while next(at).is_some_and(|character| character != '/') && fits(token, at + 1) {
                        at += 1;
                    }
                }
                Token::Any => {
                    while fits(token, at + 1) {
                        at += 1;
                    }
                }
                Token::Between => {
                    let segment = |at| characters.iter().skip(at).position(|(_, c)| *c == '/');
                    while let Some(length) = segment(at).filter(|length| fits(token, at + length + 1)) {
                        at += length + 1;
                    }
                }
                Token::Below => at += usize::from(next(at).is_some()),
                Token::Within => {}
            }
            if kind.is_wildcard() {
                found.push((begin, at, *kind));
            }
        }
        // The text is the end of the path, apart from a slash.
        let begin = path.strip_suffix('/').unwrap_or(path).len() - text.len();
        let offset = |at: usize| begin + characters.get(at).map_or(text.len(), |(offset, _)| *offset);
        let is_last = |at: usize| at + 1 == found.len() && self.tokens.last() == Some(&Token::Any);
        let part = |(at, &(first, end, kind)): (usize, &(usize, usize, Token))| match kind {
            Token::Between => path[offset(first)..offset(end)].trim_end_matches('/'),
            _ if is_last(at) && end > first => &path[offset(first)..],
            _ => &path[offset(first)..offset(end)],
        };
        found.iter().enumerate().map(part).collect()
    }

    /// For each place in a text, and for its end, the tokens from which on the glob matches the rest of it.
    fn fitting(&self, characters: &[(usize, char)]) -> Vec<States> {
        let mut all = vec![0; characters.len() + 1];
        let mut after: States = 0;
        for at in (0..=characters.len()).rev() {
            let next = characters.get(at).map(|(_, character)| *character);
            let mut states: States = if next.is_none() { 1 << self.tokens.len() } else { 0 };
            // Each token leads forward, apart from `Within`, which needs a character.
            for token in (0..self.tokens.len()).rev() {
                let one = 1 << token;
                let leads = next.is_some_and(|character| self.step(one, character) & after != 0);
                let skips = self.tokens[token].skip().is_some_and(|skip| states >> (token + skip) & 1 == 1);
                if leads || skips {
                    states |= one;
                }
            }
            (all[at], after) = (states, states);
        }
        all
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

    /// The states after `character`.
    fn step(&self, states: States, character: char) -> States {
        let slash = character == '/';
        each(states).fold(0, |after, at| {
            let next = match self.tokens.get(at) {
                Some(Token::Char(own)) if *own == character => at + 1,
                Some(Token::Letter(own)) if *own == character.to_ascii_lowercase() => at + 1,
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

    /// `states`, and those that tokens without a character lead to. Each leads forward, so one pass finds all.
    fn with_skipped(&self, states: States) -> States {
        let mut all = states;
        for (at, token) in self.tokens.iter().enumerate() {
            let Some(skip) = token.skip() else { continue };
            if all >> at & 1 == 1 {
                all |= 1 << (at + skip);
            }
        }
        all
    }
}

/// The numbers of the set bits, ascending.
fn each(mut states: States) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (states != 0).then(|| states.trailing_zeros() as usize)?;
        states &= states - 1;
        Some(at)
    })
}

/// At most one token for each character: `**/` and `/**` have three characters and make two tokens.
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

/// The number of a route in its host's [`Routes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteId(u16);

impl RouteId {
    pub const DEFAULT: RouteId = RouteId(0);

    /// The index of the route among `others` of [`Routes::new`]. `None`: the default.
    pub fn index(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }
}

/// The routes of a host.
#[derive(Debug, Clone)]
pub struct Routes {
    default: Route,
    /// First those of the configuration, then the combined ones. The id of the first is 1.
    others: Vec<Route>,
    /// For each combined route, that of its glob.
    combined: Vec<RouteId>,
    /// Ascending by path.
    exact: Vec<(String, RouteId)>,
    /// In the order of the configuration.
    globs: Vec<GlobRoutes>,
    /// The longest is the first.
    prefixes: Vec<(String, RouteId)>,
    /// The prefixes without the slash at their ends, in ascending order, each with its index in `prefixes`.
    folders: Vec<(String, usize)>,
    has_scripts: bool,
    /// Whether a route is in the place of single files: see [`Route::replaces_files`].
    replaces_files: bool,
}

#[derive(Debug, Clone)]
struct GlobRoutes {
    glob: Glob,
    /// Below each of the prefixes, in their order, and last below none of them.
    by_prefix: Vec<RouteId>,
}

/// What is wrong with the routes of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutesError {
    /// More than [`MAX_ROUTES`].
    TooMany,
    /// More than [`MAX_COMBINED`].
    TooManyCombined,
    /// The route at this index has the pattern of one before it.
    Duplicate(usize),
}

impl Routes {
    /// `default` is for every path that none of `others` matches, whatever its own pattern is.
    pub fn new(default: Route, others: Vec<Route>) -> Result<Routes, RoutesError> {
        if others.len() > MAX_ROUTES {
            return Err(RoutesError::TooMany);
        }
        let mut routes = Routes::only(default);
        for (index, route) in others.iter().enumerate() {
            if others[..index].iter().any(|other| other.pattern == route.pattern) {
                return Err(RoutesError::Duplicate(index));
            }
            let id = RouteId(index as u16 + 1);
            match &route.pattern {
                Pattern::Exact(path) => routes.exact.push((path.clone(), id)),
                Pattern::Prefix(prefix) => routes.prefixes.push((prefix.clone(), id)),
                Pattern::Glob(glob) => {
                    routes.globs.push(GlobRoutes { glob: glob.clone(), by_prefix: vec![id] });
                }
            }
        }
        sort::by(&mut routes.exact, Ord::cmp);
        sort::by_key(&mut routes.prefixes, |(prefix, _)| std::cmp::Reverse(prefix.len()));
        let folder = |prefix: &str| prefix.strip_suffix('/').unwrap_or(prefix).to_owned();
        let folders = routes.prefixes.iter().enumerate().map(|(at, (prefix, _))| (folder(prefix), at));
        routes.folders = folders.collect();
        sort::by(&mut routes.folders, Ord::cmp);
        for GlobRoutes { by_prefix, .. } in &mut routes.globs {
            by_prefix.resize(1 + routes.prefixes.len(), by_prefix[0]);
        }
        routes.has_scripts |= others.iter().any(|route| route.script.is_some());
        routes.replaces_files = others.iter().any(Route::replaces_files);
        Ok(Routes { others, ..routes })
    }

    /// One route for every path.
    pub fn only(route: Route) -> Routes {
        let has_scripts = route.script.is_some();
        let default = Route { pattern: Pattern::EVERYTHING, ..route };
        let (others, combined, exact, globs, prefixes, folders) = Default::default();
        let replaces_files = false;
        Routes { default, others, combined, exact, globs, prefixes, folders, has_scripts, replaces_files }
    }

    /// Combines each exact path with the longest prefix that it is below, and each glob with each prefix. `combine`
    /// gets the ids of both routes, and returns the combined route. `None`: the route of the path or the glob stays.
    pub fn combine(
        mut self,
        mut combine: impl FnMut(RouteId, RouteId) -> Option<Route>,
    ) -> Result<Routes, RoutesError> {
        for (path, id) in &self.exact {
            let prefix = self.prefixes.iter().find(|(prefix, _)| path_below(prefix, path).is_some());
            if let Some(route) = combine(*id, prefix.map_or(RouteId::DEFAULT, |(_, id)| *id))
                && let Some(index) = id.index()
            {
                self.others[index] = route;
            }
        }
        for GlobRoutes { glob, by_prefix } in &mut self.globs {
            let prefixes = self.prefixes.iter().map(|(prefix, id)| (prefix.as_str(), *id));
            for (id, (prefix, outer)) in by_prefix.iter_mut().zip(prefixes.chain([("", RouteId::DEFAULT)])) {
                if !glob.reaches(prefix) {
                    continue;
                }
                let Some(route) = combine(*id, outer) else { continue };
                if self.combined.len() == MAX_COMBINED {
                    return Err(RoutesError::TooManyCombined);
                }
                self.others.push(route);
                self.combined.push(*id);
                *id = RouteId(self.others.len() as u16);
            }
        }
        let has_scripts = self.has_scripts || self.iter().any(|route| route.script.is_some());
        let replaces_files = self.replaces_files || self.iter().any(Route::replaces_files);
        Ok(Routes { has_scripts, replaces_files, ..self })
    }

    /// Allocates nothing.
    pub fn find(&self, path: &SafePath) -> RouteId {
        if self.others.is_empty() {
            return RouteId::DEFAULT;
        }
        let text = path.as_str();
        if let Ok(at) = self.exact.binary_search_by(|(exact, _)| exact.as_str().cmp(text)) {
            return self.exact[at].1;
        }
        let glob = self.globs.iter().find(|routes| routes.glob.matches(path));
        let prefix = self.longest_prefix(text);
        match (glob, prefix) {
            (Some(glob), _) => glob.by_prefix[prefix.unwrap_or(self.prefixes.len())],
            (None, Some(at)) => self.prefixes[at].1,
            (None, None) => RouteId::DEFAULT,
        }
    }

    /// The index of the longest prefix that `path` is below. The search takes some steps for each segment.
    fn longest_prefix(&self, path: &str) -> Option<usize> {
        if self.folders.is_empty() {
            return None;
        }
        let mut folder = path.strip_suffix('/').unwrap_or(path);
        loop {
            if let Ok(at) = self.folders.binary_search_by(|(own, _)| own.as_str().cmp(folder)) {
                return Some(self.folders[at].1);
            }
            folder = match folder.rfind('/') {
                Some(slash) => &folder[..slash],
                // The prefix of every path.
                None if !folder.is_empty() => "",
                None => return None,
            };
        }
    }

    /// The route in the configuration: for a combined route, that of its glob.
    pub fn configured(&self, id: RouteId) -> RouteId {
        let configured = self.others.len() - self.combined.len();
        let at = usize::from(id.0).checked_sub(configured + 1);
        at.and_then(|at| self.combined.get(at)).copied().unwrap_or(id)
    }

    /// `id` is one that [`Routes::find`] of the same table returned.
    pub fn get(&self, id: RouteId) -> &Route {
        id.index().and_then(|index| self.others.get(index)).unwrap_or(&self.default)
    }

    /// Whether any route has scripts.
    pub fn has_scripts(&self) -> bool {
        self.has_scripts
    }

    /// Whether a file may not be sent where it stands for another path, such as that of its folder.
    pub fn has_unsent_files(&self) -> bool {
        self.has_scripts || self.replaces_files
    }

    /// The default route first, then those of the configuration, then the combined ones.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        std::iter::once(&self.default).chain(&self.others)
    }

    /// As `iter`.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Route> {
        std::iter::once(&mut self.default).chain(&mut self.others)
    }

    /// The settings of authentication of all routes.
    pub fn authentications_mut(&mut self) -> impl Iterator<Item = &mut Arc<Authentication>> {
        self.iter_mut()
            .flat_map(|route| std::iter::once(&mut route.authentication).chain(&mut route.enclosing))
    }

    /// The tokens that routes ask for.
    pub fn jwts_mut(&mut self) -> impl Iterator<Item = &mut Arc<Jwt>> {
        let routes = std::iter::once(&mut self.default).chain(&mut self.others);
        routes.filter_map(|route| route.jwt.as_mut())
    }

    /// The roots and the interpreters of all routes. A new path for them changes nothing else of a route.
    pub fn folders_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        std::iter::once(&mut self.default).chain(&mut self.others).flat_map(folders_mut)
    }
}

fn folders_mut(route: &mut Route) -> impl Iterator<Item = &mut PathBuf> {
    let root = match &mut route.action {
        Action::Files { root, .. } => Some(root),
        _ => None,
    };
    let interpreter = match route.script.as_mut().and_then(|script| script.interpreter.as_mut()) {
        Some(Interpreter::Program(path)) => Some(path),
        _ => None,
    };
    let lister = match route.lister.as_mut().and_then(|lister| lister.interpreter.as_mut()) {
        Some(Interpreter::Program(path)) => Some(path),
        _ => None,
    };
    root.into_iter().chain(interpreter).chain(lister)
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
    fn finds_what_each_wildcard_matches() {
        for (pattern, path, expected) in [
            ("/a/*", "a/b", "b"),
            ("/a/*", "a/", "none"),
            ("/a/*-?.html", "a/b-c-d.html", "b-c d"),
            ("/*/*", "ä ö/ü", "ä ö ü"),
            ("/a/**", "a/b/c/", "b/c/"),
            ("/a/**", "a/", ""),
            ("/a/**", "a", ""),
            ("/a**", "ab/c/", "b/c/"),
            ("/**-**", "a-b-c", "a-b c"),
            ("/a/**/*.php", "a/x/y/b.php", "x/y b"),
            ("/a/**/*.php", "a/b.php", " b"),
            ("/?*/**", "abc/d", "a bc d"),
            ("*.php", "a/b/c.php", "c"),
            ("*.php", "ä/ö.php/", "ö"),
            ("(?i)/A/*.x", "a/B.X", "B"),
            ("/a/*", "b", "none"),
            ("/a/", "a/b", "none"),
            ("/a", "a", "none"),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            let captures = parsed.captures(path);
            let found = if captures.is_empty() { "none".to_owned() } else { captures.join(" ") };
            assert_eq!(found, expected, "{pattern} {path}");
            assert!(captures.is_empty() || captures.len() == parsed.wildcards(), "{pattern}");
        }
    }

    #[test]
    fn matches_paths_by_the_kind_of_pattern() {
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
        check("/.", &["/"], &["/a", "/a/", "/index.html"]);
        check("/a/.", &["/a/"], &["/a", "/a/b", "/", "/x/a/"]);
        check("/a.", &["/a."], &["/a", "/a/"]);
        check("*.css", &["/x.css", "/a/b/x.css", "/.css", "/a.css/"], &["/x.css2", "/x.css/y", "/"]);
        check("photo?", &["/photo1", "/a/photo%C3%A4"], &["/photo", "/photo12", "/photo1/x"]);
        check("/img/*", &["/img/a", "/img/a/"], &["/img", "/img/", "/img/a/b", "/x/img/a"]);
        check("/img/**", &["/img", "/img/", "/img/a", "/img/a/b/"], &["/imga", "/x/img/a"]);
        check("/**/x", &["/x", "/a/x", "/a/b/x", "/x/"], &["/ax", "/x/a", "/"]);
        check("/a/**/b", &["/a/b", "/a/x/b", "/a/x/y/b"], &["/a", "/b", "/ab", "/a/xb", "/a/x/b/c"]);
        check("/**", &["/", "/a", "/a/b/c"], &[]);
        check("/a**z", &["/az", "/a/b/z", "/abz"], &["/a/b", "/ba/z"]);
        check("/*/*.html", &["/a/b.html", "/a/.html"], &["/b.html", "/a/b/c.html", "/a/b.htm"]);
        check("(?i)*.Sql", &["/x.sql", "/x.SQL", "/a/x.sQl"], &["/x.sq", "/x.sql2", "/xxsql"]);
        check("(?i)/Ab/**", &["/ab", "/AB/", "/aB/c"], &["/abc", "/x/ab", "/"]);
        check("(?i)/a-\u{e4}", &["/A-%C3%A4"], &["/a-%C3%84", "/a-%C3%A4/x"]);
        check("/u?/**/*.js", &["/u1/x.js", "/u1/a/b/x.js"], &["/u/x.js", "/u1/x.jsx"]);
    }

    #[test]
    fn a_pattern_without_case_precedes_prefixes_of_any_case_and_has_an_example() {
        let routes = routes(&["/A/", "/a/", "(?i)/a/**.b"]).unwrap();
        for (requested, expected) in
            [("/A/x.B", "(?i)/a/**.b"), ("/a/x.b", "(?i)/a/**.b"), ("/A/x", "/A/"), ("/a/x", "/a/")]
        {
            assert_eq!(
                routes.get(routes.find(&path(requested))).pattern.to_string(),
                expected,
                "{requested}"
            );
        }
        let example = Pattern::parse("(?i)*.sql").unwrap().example().unwrap();
        assert_eq!(example.as_str(), "x.sql");
    }

    #[test]
    fn rejects_patterns_that_never_match() {
        fn check(text: &str, expected: PatternError) {
            assert_eq!(Pattern::parse(text), Err(expected), "{text:?}");
        }
        check("", PatternError::Relative);
        check("a/b", PatternError::Relative);
        check("a/*", PatternError::RelativeGlob);
        check("(?i)a/b", PatternError::RelativeGlob);
        check("(?i)/a/", PatternError::GlobFolder);
        check("(?i)/a/.", PatternError::Segment);
        check("**/a", PatternError::RelativeGlob);
        check("/a\n", PatternError::Control);
        check("//", PatternError::Segment);
        check("/a//b", PatternError::Segment);
        check("/a/../b", PatternError::Segment);
        check("/a/..", PatternError::Segment);
        check("/a//.", PatternError::Segment);
        check("/./.", PatternError::Segment);
        check("/./b*", PatternError::Segment);
        check("*.{css,js}", PatternError::Alternatives);
        check("/[ab]*", PatternError::Alternatives);
        check("/a*/", PatternError::GlobFolder);
        check(&"/".repeat(1025), PatternError::TooLong);
        check(&"*".repeat(128), PatternError::GlobTooLong);
    }

    #[test]
    fn returns_the_rest_after_a_prefix() {
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
    fn matches_globs_without_backtracking() {
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

    /// The rules of a glob, with backtracking.
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
        fn matches_globs_as_the_naive_rules_do(
            pattern in "/(\\*\\*/|\\*\\*|\\*|\\?|a|b|b/|/){0,5}[ab*?]{0,2}",
            text in "([ab]{1,2}/){0,3}[ab]{0,2}",
        ) {
            let Ok(Pattern::Glob(glob)) = Pattern::parse(&pattern) else { return Ok(()) };
            let subject = text.strip_suffix('/').unwrap_or(&text);
            let characters: Vec<char> = subject.chars().collect();
            let body: Vec<char> = pattern[1..].chars().collect();
            let matches = naive(&body, &characters, '/');
            prop_assert_eq!(glob.matches_text(subject), matches);
            prop_assert_eq!(glob.captures(&text).len(), if matches { glob.wildcards() } else { 0 });
        }

        #[test]
        fn never_panics_on_a_pattern(text in "[/*?a.é\\[]{0,140}", subject in "[/a.é]{0,40}") {
            if let (Ok(pattern), Ok(path)) = (Pattern::parse(&text), SafePath::parse(&subject)) {
                pattern.matches(&path);
            }
        }
    }

    fn routes(patterns: &[&str]) -> Result<Routes, RoutesError> {
        let default = Site::folder("/srv".into(), Vec::new()).hosts[0].routes.default.clone();
        let route = |pattern: &&str| {
            let pattern = Pattern::parse(pattern).unwrap();
            Route { pattern, action: Action::Return(Status::NOT_FOUND), ..default.clone() }
        };
        Routes::new(default.clone(), patterns.iter().map(route).collect())
    }

    #[test]
    fn prefers_exact_paths_then_the_first_glob_then_the_longest_prefix() {
        let routes = routes(&["/a/", "/a/b/", "*.js", "/a/b/**", "/a/b/x.js", "/c/", "/.", "/c/."]).unwrap();
        let check = |requested: &str, expected: &str| {
            let found = routes.get(routes.find(&path(requested)));
            assert_eq!(found.pattern.to_string(), expected, "{requested}");
        };
        check("/", "/.");
        check("/c", "/c/");
        check("/c/", "/c/.");
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

    proptest! {
        #[test]
        fn finds_the_longest_prefix(
            prefixes in proptest::collection::btree_set("/([ab]{1,2}/){1,3}", 0..12),
            path in "/([ab]{1,2}/){0,3}[ab]{0,2}",
        ) {
            let patterns: Vec<&str> = prefixes.iter().map(String::as_str).collect();
            let routes = routes(&patterns).unwrap();
            let path = SafePath::parse(&path).unwrap();
            let matching = patterns.iter().filter(|text| Pattern::parse(text).unwrap().matches(&path));
            let expected = matching.max_by_key(|text| text.len()).copied().unwrap_or("/");
            prop_assert_eq!(routes.get(routes.find(&path)).pattern.to_string(), expected);
        }
    }

    #[test]
    fn rejects_duplicate_patterns_and_too_many_routes() {
        assert_eq!(routes(&["/a", "/b/", "/a"]).unwrap_err(), RoutesError::Duplicate(2));
        let many: Vec<String> = (0..=MAX_ROUTES).map(|n| format!("/{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(routes(&many).unwrap_err(), RoutesError::TooMany);
        assert_eq!(routes(&many[1..]).unwrap().iter().count(), MAX_ROUTES + 1);
    }
}
