//! Patterns: the paths that a route, or a rule by path, is for. A pattern is written as the path is after decoding.

use std::borrow::Cow;
use std::fmt;

use taipan_http::path_text;
use taipan_http::target::SafePath;

use super::glob::{ANY_CASE, Glob, is_glob};

/// Bytes of a pattern.
pub const MAX_PATTERN: usize = 1024;

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
    /// `{` in a glob.
    Alternatives,
    /// A class that nothing ends, without characters, with a reversed range, or with a hyphen that is no range.
    Class,
    ClassSlash,
    ClassTooLong,
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
            PatternError::GlobTooLong => {
                "a pattern with wildcards has at most 127 characters; each class such as [0-9] counts as one"
            }
            PatternError::Control => "leave out the control character",
            PatternError::Segment => "leave out empty segments, \".\" and \"..\"; no path keeps them",
            PatternError::Alternatives => {
                "{...} is no wildcard; write one pattern for each alternative, or [{] for the character"
            }
            PatternError::Class => {
                "write a class as [0-9], [abc] or [^abc], with \"-\" first or last if it is a character, and a \
                 bracket alone as [[]"
            }
            PatternError::ClassSlash => {
                "leave the slash out of [...], also as a part of a range; a class matches no slash"
            }
            PatternError::ClassTooLong => "a class has at most 32 characters and ranges; write ranges such as [a-z]",
            PatternError::GlobFolder => "end it with \"/**\" to match everything below",
        })
    }
}

impl std::error::Error for PatternError {}

impl Pattern {
    /// The prefix `/`, which matches every path.
    pub const EVERYTHING: Pattern = Pattern::Prefix(String::new());

    /// `/a/b` and `/a/.` are exact, the latter for the folder without what is below it. `/a/` is a prefix. A text with
    /// `*`, `**`, `?` or a class of several characters is a glob, and so is one that begins with [`ANY_CASE`].
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        // Bytes that are UTF-8 together are written as such in a path.
        let text = path_text::bytes(text);
        let text = &*path_text::of_bytes(&text);
        if text.len() > MAX_PATTERN {
            return Err(PatternError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(PatternError::Control);
        }
        let literal = if is_glob(text) { without_brackets(text) } else { Some(text.to_owned()) };
        let Some(text) = literal.as_deref().filter(|_| !text.starts_with(ANY_CASE)) else {
            return Glob::parse(text).map(Pattern::Glob);
        };
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

    /// Whether it may match an entry of a folder, and not the folder alone. `folder`: as in [`SafePath::as_str`].
    pub(super) fn may_match_in(&self, folder: &str) -> bool {
        match self {
            Pattern::Exact(path) | Pattern::Prefix(path) => {
                let entry = path.strip_prefix(folder).map(|entry| entry.strip_suffix('/').unwrap_or(entry));
                entry.is_some_and(|entry| !entry.is_empty() && !entry.contains('/'))
            }
            Pattern::Glob(glob) => glob.reaches(folder),
        }
    }

    /// A path that matches.
    pub fn example(&self) -> Option<SafePath<'static>> {
        let text = match self {
            Pattern::Exact(path) => path.clone(),
            Pattern::Prefix(prefix) => format!("{prefix}x"),
            Pattern::Glob(glob) => glob.example(),
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
            Pattern::Exact(folder) if is_folder(folder) => write!(f, "/{}.", with_brackets(folder)),
            Pattern::Exact(path) | Pattern::Prefix(path) => write!(f, "/{}", with_brackets(path)),
            Pattern::Glob(glob) => f.write_str(glob.text()),
        }
    }
}

/// A text with each wildcard, and each bracket that would begin a class, as a character: `[*]`.
pub fn with_brackets(path: &str) -> Cow<'_, str> {
    if !is_glob(path) {
        return Cow::Borrowed(path);
    }
    let one = |c: char| if is_glob(c.encode_utf8(&mut [0; 4])) { format!("[{c}]") } else { c.to_string() };
    Cow::Owned(path.chars().map(one).collect())
}

/// The text that a pattern without wildcards stands for: `a[b` for `a[[]b`.
fn without_brackets(pattern: &str) -> Option<String> {
    let mut text = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' | '?' => return None,
            '[' => {
                text.push(rest.next().filter(|c| !matches!(c, '^' | '!' | '/' | ']'))?);
                let is_one = rest.next() == Some(']') && !rest.as_str().starts_with('+');
                is_one.then_some(())?;
            }
            c => text.push(c),
        }
    }
    Some(text)
}

/// `path` has no leading slash.
pub fn is_folder(path: &str) -> bool {
    path.is_empty() || path.ends_with('/')
}

/// The rest of `path` below the folder `prefix`. Empty for the folder itself.
pub(super) fn path_below<'p>(prefix: &str, path: &'p str) -> Option<&'p str> {
    let Some(folder) = prefix.strip_suffix('/') else { return Some(path) };
    match path.strip_prefix(folder)? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    }
}

/// `path` has no leading slash. A slash at its end makes no empty segment.
pub(super) fn check_segments(path: &str) -> Result<(), PatternError> {
    if path.is_empty() {
        return Ok(());
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return Err(PatternError::Segment);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> SafePath<'static> {
        SafePath::parse(text).unwrap().into_owned()
    }

    #[test]
    fn finds_the_folders_whose_entries_it_may_match() {
        for (pattern, folder, expected) in [
            ("/a/b", "a/", true),
            ("/a/b/", "a/", true),
            ("/a/b/.", "a/", true),
            ("/a/", "", true),
            ("/a/.", "a/", false),
            ("/a/", "a/", false),
            ("/a/b/c", "a/", false),
            ("/a/b/c/", "", false),
            ("/ab", "a/", false),
            ("*.css", "a/", true),
            ("/a/*.css", "a/", true),
            ("/a/*.css", "b/", false),
            ("(?i)/A/*.css", "a/", true),
            ("/[ab]/c", "b/", true),
            ("/a/[0-9]", "b/", false),
        ] {
            let found = Pattern::parse(pattern).unwrap().may_match_in(folder);
            assert_eq!(found, expected, "{pattern} in {folder:?}");
        }
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
            ("/[0-9][0-9]-[0-9]+/*", "12-345/x", "1 2 345 x"),
            ("/[0-9]+[0-9]*", "123", "12 3 "),
            ("/[a-z]+[a-z0-9]+.html", "ab12.html", "ab 12"),
            ("/a[[]*]", "a[b]", "b"),
            ("/[a]+*", "aab", "aa b"),
            ("(?i)*.[a-c]+", "x.aBC", "x aBC"),
            ("/*[0-9]+", "a123", "a12 3"),
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
        check("/post/[0-9]+", &["/post/1", "/post/123/"], &["/post/", "/post/1a", "/post/1/2", "/a/post/1"]);
        check("[0-9].[ch]", &["/1.c", "/a/2.h"], &["/12.c", "/a.c", "/1.x"]);
        check("/[^a.]*", &["/b", "/%C3%A4x", "/%FF"], &["/ab", "/.b", "/", "/b/c"]);
        check("/[ä-ü]+", &["/%C3%A4%C3%B6"], &["/a", "/%E4"]);
        check("/a[[]b][?][*]c", &["/a[b]%3F*c"], &["/ab", "/a[b]xyc", "/a[b]%3F*c/"]);
        check("/a[[]b]/", &["/a[b]/", "/a[b]/c"], &["/ab/", "/ab"]);
        check("/a[[]b]/.", &["/a[b]/"], &["/a[b]/c"]);
        check("/a[[]b]/*", &["/a[b]/c"], &["/ab/c"]);
        check("/[0-9][+][{]c", &["/1+%7Bc"], &["/11{c"]);
        check("/[0-9]/**", &["/1", "/1/a/b"], &["/a", "/12"]);
        check("/[a-z]+/**/[0-9]+.php", &["/ab/1.php", "/ab/x/y/12.php"], &["/1/1.php", "/ab/x.php"]);
        check("(?i)/[a-f]+x", &["/aFX"], &["/g"]);
        check("/B?cher/**", &["/B%FCcher/%E4", "/B%C3%BCcher"], &["/B%FC%FCcher/"]);
        check("/B\u{10FEFC}cher/", &["/B%FCcher/%E4"], &["/B%C3%BCcher", "/B%F4%8F%BB%BCcher"]);
        check("/u?/**/*.js", &["/u1/x.js", "/u1/a/b/x.js"], &["/u/x.js", "/u1/x.jsx"]);
    }

    #[test]
    fn bytes_of_a_character_are_the_character() {
        assert_eq!(Pattern::parse("/\u{10FEC3}\u{10FEA4}/"), Pattern::parse("/ä/"));
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
        check("/[ab]{2}", PatternError::Alternatives);
        check("/a[b", PatternError::Class);
        check("/[a/b]c", PatternError::ClassSlash);
        check("/a//[b]", PatternError::Segment);
        check("/a*/", PatternError::GlobFolder);
        check(&"/".repeat(1025), PatternError::TooLong);
        check(&"*-".repeat(64), PatternError::GlobTooLong);
        check(&"[0-9]".repeat(128), PatternError::GlobTooLong);
        assert!(Pattern::parse(&"[0-9]".repeat(127)).is_ok());
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
}
