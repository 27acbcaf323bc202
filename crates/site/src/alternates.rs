//! Alternates: files that stand for another in other languages and charsets, found by their names. `page.de.html` and
//! `page.html.de` are `page.html` in German, and `page.html.de.latin1` is so in ISO 8859-1.
//!
//! Knows nothing of which files exist.

use std::borrow::Cow;

use taipan_http::head::Head;
use taipan_http::negotiate::language::{choose_charset, choose_language};

/// Languages of a route.
pub const MAX_LANGUAGES: usize = 16;
/// Charsets of a route.
pub const MAX_CHARSETS: usize = 4;
/// Alternates of a file that count. The rest of the names is not looked up.
pub const MAX_ALTERNATES: usize = 24;

/// The languages and charsets of the files of a route, each in order of preference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlternateRules {
    /// Tags, as they stand in names.
    pub languages: Vec<String>,
    pub charsets: Vec<Charset>,
}

/// An encoding of characters that is part of the names of files, as in `page.html.utf8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charset {
    /// What stands in names.
    pub suffix: String,
    /// As in `Content-Type`.
    pub name: String,
}

/// The language and the charset of a file, by indices of the rules. `None`: its name says none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Label {
    pub language: Option<u8>,
    pub charset: Option<u8>,
}

/// What the alternates of a file differ in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Differences {
    pub language: bool,
    pub charset: bool,
}

impl Differences {
    pub fn of(labels: &[Label]) -> Differences {
        Differences {
            language: labels.len() > 1 && labels.iter().any(|label| label.language.is_some()),
            charset: labels.len() > 1 && labels.iter().any(|label| label.charset.is_some()),
        }
    }

    /// The fields that select an alternate, as members of `Vary`.
    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        [(self.language, "Accept-Language"), (self.charset, "Accept-Charset")]
            .into_iter()
            .filter_map(|(differs, name)| differs.then_some(name))
    }
}

impl Label {
    pub fn is_plain(self) -> bool {
        self == Label::default()
    }

    /// The place among alternates. A file without a language is in the first one, and a file without a charset precedes
    /// those with one.
    fn order(self) -> (u8, bool, u8) {
        (self.language.unwrap_or(0), self.charset.is_some(), self.charset.unwrap_or(0))
    }
}

impl AlternateRules {
    pub fn is_empty(&self) -> bool {
        self.languages.is_empty() && self.charsets.is_empty()
    }

    /// The names of the alternates of the file `name`, without `name` itself, and what each says. Several names may say
    /// the same: the first that exists counts. Nothing for a name that says something itself.
    pub fn names(&self, name: &str) -> Vec<(Label, String)> {
        let mut names = Vec::new();
        if self.is_empty() || self.parse(name).is_some() {
            return names;
        }
        let mut with_charsets = |language: Option<u8>, name: String| {
            for (charset, Charset { suffix, .. }) in (0..).zip(&self.charsets) {
                names.push((Label { language, charset: Some(charset) }, [&name, ".", suffix].concat()));
            }
            if language.is_some() {
                names.push((Label { language, charset: None }, name));
            }
        };
        with_charsets(None, name.to_owned());
        for (index, tag) in (0..).zip(&self.languages) {
            if let Some((stem, extension)) = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()) {
                with_charsets(Some(index), [stem, ".", tag, ".", extension].concat());
            }
            with_charsets(Some(index), [name, ".", tag].concat());
        }
        names
    }

    /// What `name` says, and the name without it. `None`: it says nothing.
    pub fn parse<'n>(&self, name: &'n str) -> Option<(Label, Cow<'n, str>)> {
        let (charset, name) = split(&self.charsets, name, |charset| strip(name, &charset.suffix));
        let (language, rest) = split(&self.languages, name, |tag| strip(name, tag));
        let label = Label { language, charset };
        if language.is_none()
            && let Some((stem, extension)) = name.rsplit_once('.')
            && let (Some(language), stem) = split(&self.languages, stem, |tag| strip(stem, tag))
        {
            let label = Label { language: Some(language), charset };
            return Some((label, Cow::Owned([stem, ".", extension].concat())));
        }
        (!label.is_plain()).then_some((label, Cow::Borrowed(rest)))
    }

    /// The name without what it says.
    pub fn plain_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        self.parse(name).map_or(Cow::Borrowed(name), |(_, plain)| plain)
    }

    /// Brings what was found into order: the first is for a client that accepts none of the others. A file without a
    /// language counts for the first language, unless that one has a file of its own.
    pub fn arrange<T>(&self, found: &mut Vec<(Label, T)>) {
        let has_first =
            |charset| found.iter().any(|(label, _)| *label == Label { language: Some(0), charset });
        let replaced =
            [None].into_iter().chain((0..self.charsets.len() as u8).map(Some)).filter(|c| has_first(*c));
        let replaced: Vec<Option<u8>> = replaced.collect();
        found.retain(|(label, _)| label.language.is_some() || !replaced.contains(&label.charset));
        if found.iter().any(|(label, _)| label.language.is_some()) {
            for (label, _) in found.iter_mut() {
                label.language = label.language.or(Some(0));
            }
        }
        sort::by_key(found, |(label, _)| label.order());
    }

    /// The index of the alternate that the client prefers. `labels` are arranged.
    pub fn choose(&self, head: &Head<'_>, labels: &[Label]) -> usize {
        let Some(first) = labels.first() else { return 0 };
        let mut languages: Vec<u8> = labels.iter().filter_map(|label| label.language).collect();
        languages.dedup();
        let tags =
            languages.iter().map(|index| self.languages.get(usize::from(*index)).map_or("", String::as_str));
        let language = choose_language(head.values("accept-language"), tags)
            .and_then(|index| languages.get(index).copied())
            .or(first.language);
        let of_language = || labels.iter().enumerate().filter(|(_, label)| label.language == language);
        let charsets = of_language().map(|(_, label)| self.charset_of(*label));
        let chosen = choose_charset(head.values("accept-charset"), charsets).unwrap_or(0);
        of_language().nth(chosen).map_or(0, |(index, _)| index)
    }

    /// The tag of a language.
    pub fn language(&self, label: Label) -> Option<&str> {
        self.languages.get(usize::from(label.language?)).map(String::as_str)
    }

    /// The name of a charset.
    pub fn charset(&self, label: Label) -> Option<&str> {
        self.charsets.get(usize::from(label.charset?)).map(|charset| charset.name.as_str())
    }

    /// Files without a charset in their names are in UTF-8.
    fn charset_of(&self, label: Label) -> &str {
        self.charset(label).unwrap_or("utf-8")
    }
}

/// `name` without a dot and `suffix` at its end, where something remains.
fn strip<'n>(name: &'n str, suffix: &str) -> Option<&'n str> {
    name.strip_suffix(suffix)?.strip_suffix('.').filter(|rest| !rest.is_empty())
}

/// The index of the first of `all` that can be stripped from `name`, and the rest of it, or else all of it.
fn split<'n, T>(all: &[T], name: &'n str, strip: impl Fn(&T) -> Option<&'n str>) -> (Option<u8>, &'n str) {
    let first = (0..).zip(all).find_map(|(index, one)| Some((index, strip(one)?)));
    first.map_or((None, name), |(index, rest)| (Some(index), rest))
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    fn rules() -> AlternateRules {
        let charset = |suffix: &str, name: &str| Charset { suffix: suffix.to_owned(), name: name.to_owned() };
        AlternateRules {
            languages: ["en", "de", "pt-BR"].map(str::to_owned).to_vec(),
            charsets: vec![charset("utf8", "utf-8"), charset("latin1", "iso-8859-1")],
        }
    }

    #[test]
    fn reads_what_a_name_says() {
        let rules = rules();
        for (name, expected) in [
            ("page.html", ""),
            ("page.html.de", "de - page.html"),
            ("page.de.html", "de - page.html"),
            ("page.html.pt-BR", "pt-BR - page.html"),
            ("page.html.latin1", "- iso-8859-1 page.html"),
            ("page.html.de.latin1", "de iso-8859-1 page.html"),
            ("page.de.html.utf8", "de utf-8 page.html"),
            ("page.fr.html", ""),
            ("de", ""),
            (".de", ""),
            ("de.html", ""),
            (".de.html", ""),
            ("README.de", "de - README"),
            ("README.de.utf8", "de utf-8 README"),
            ("a.de.en", "en - a.de"),
        ] {
            let read = rules.parse(name).map_or(String::new(), |(label, rest)| {
                let part = |part: Option<&str>| part.unwrap_or("-").to_owned();
                format!("{} {} {rest}", part(rules.language(label)), part(rules.charset(label)))
            });
            assert_eq!(read, expected, "{name}");
        }
    }

    #[test]
    fn every_name_says_what_it_was_made_for() {
        let rules = rules();
        for name in ["page.html", "README", "a.b.c", ".hidden"] {
            let names = rules.names(name);
            assert!(names.len() >= 2 + 3 * 3, "{name}");
            for (label, made) in names {
                assert_eq!(rules.parse(&made), Some((label, Cow::Borrowed(name))), "{made}");
            }
        }
        assert_eq!(rules.names("page.de.html"), []);
        assert_eq!(AlternateRules::default().names("page.html"), []);
    }

    /// The file that a request with these fields gets, of those that exist.
    fn chosen<'n>(fields: &str, existing: &[&'n str]) -> &'n str {
        let rules = rules();
        let request = format!("GET /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut store = FieldStore::new();
        let (head, _) = parse(request.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
        let label = |name: &str| rules.parse(name).map_or(Label::default(), |(label, _)| label);
        let mut found: Vec<(Label, &str)> = existing.iter().map(|name| (label(name), *name)).collect();
        rules.arrange(&mut found);
        let labels: Vec<Label> = found.iter().map(|(label, _)| *label).collect();
        found[rules.choose(&head, &labels)].1
    }

    #[test]
    fn chooses_an_alternate() {
        let all = &["p.html", "p.html.de", "p.html.pt-BR"][..];
        for (fields, existing, expected) in [
            ("", all, "p.html"),
            ("Accept-Language: de\r\n", all, "p.html.de"),
            ("Accept-Language: fr\r\n", all, "p.html"),
            ("Accept-Language: fr, de;q=0.1\r\n", all, "p.html.de"),
            // The plain file is in the first language.
            ("Accept-Language: en, de;q=0.9\r\n", all, "p.html"),
            ("Accept-Language: en-GB, de;q=0.9\r\n", all, "p.html"),
            ("Accept-Language: pt\r\n", all, "p.html.pt-BR"),
            ("Accept-Language: pt\r\nAccept-Language: de\r\n", all, "p.html.pt-BR"),
            ("", &["p.html.de", "p.html.pt-BR"], "p.html.de"),
            ("Accept-Language: en\r\n", &["p.html.de", "p.html.pt-BR"], "p.html.de"),
            ("", &["p.html", "p.html.en", "p.html.de"], "p.html.en"),
            ("Accept-Language: *;q=0.1, en;q=0\r\n", &["p.html", "p.html.en", "p.html.de"], "p.html.de"),
            // Charsets within a language.
            ("", &["p.html", "p.html.latin1"], "p.html"),
            ("Accept-Charset: iso-8859-1\r\n", &["p.html", "p.html.latin1"], "p.html.latin1"),
            ("Accept-Charset: koi8-r\r\n", &["p.html.utf8", "p.html.latin1"], "p.html.utf8"),
            (
                "Accept-Charset: iso-8859-1\r\nAccept-Language: de\r\n",
                &["p.html.latin1", "p.html.de", "p.html.de.latin1"],
                "p.html.de.latin1",
            ),
            (
                "Accept-Charset: iso-8859-1\r\nAccept-Language: de\r\n",
                &["p.html", "p.html.latin1", "p.html.de"],
                "p.html.de",
            ),
        ] {
            assert_eq!(chosen(fields, existing), expected, "{fields:?} {existing:?}");
        }
    }

    #[test]
    fn says_what_alternates_differ_in() {
        let (plain, german) = (Label::default(), Label { language: Some(1), charset: None });
        let fields = |labels: &[Label]| Differences::of(labels).fields().collect::<Vec<_>>().join(", ");
        assert_eq!(fields(&[plain]), "");
        assert_eq!(fields(&[german]), "");
        assert_eq!(fields(&[plain, german]), "Accept-Language");
        let latin = Label { charset: Some(0), ..german };
        assert_eq!(fields(&[german, latin]), "Accept-Language, Accept-Charset");
    }
}
