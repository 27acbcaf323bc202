//! The directives of boa.conf: a table of all that Boa has known from 0.92 to 0.94.14rc21, with those of GnuPG's
//! branch, and the reader of its lines.
//!
//! Knows nothing of what they become.

use std::collections::BTreeMap;

use crate::brackets::{self, is_glob};
use crate::finding::Findings;
use crate::words;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arguments {
    None,
    /// The rest of the line.
    One,
    Number,
    Two,
}

use Arguments::{None as Alone, Number, One, Two};

/// Names as Boa writes them; case does not matter.
const DIRECTIVES: &[(&str, Arguments)] = &[
    ("Port", Number),
    ("Listen", One),
    ("BackLog", Number),
    ("User", One),
    ("Group", One),
    ("ServerAdmin", One),
    ("ServerRoot", One),
    ("ServerName", One),
    ("UseLocaltime", Alone),
    ("UseGMT", Alone),
    ("ErrorLog", One),
    ("AccessLog", One),
    ("AuxLog", One),
    ("CGILog", One),
    ("VerboseCGILogs", Alone),
    ("VirtualHost", Alone),
    ("VHostRoot", One),
    ("DefaultVHost", One),
    ("DocumentRoot", One),
    ("UserDir", One),
    ("DirectoryIndex", One),
    ("DirectoryMaker", One),
    ("DirectoryCache", One),
    ("PidFile", One),
    ("ChrootPath", One),
    ("KeepAliveMax", Number),
    ("KeepAliveTimeout", Number),
    ("MimeTypes", One),
    ("DefaultType", One),
    ("DefaultCharset", One),
    ("AddType", Two),
    ("ScriptAlias", Two),
    ("Redirect", Two),
    ("Alias", Two),
    ("SinglePostLimit", Number),
    ("CGIPath", One),
    ("CGIumask", Number),
    ("CGIEnv", Two),
    ("CGINice", Number),
    ("CGIRlimitCpu", Number),
    ("CGIRlimitData", Number),
    ("MaxConnections", Number),
    ("ConcealServerIdentity", Alone),
    ("Allow", One),
    ("Deny", One),
    ("LogXFF", Alone),
    ("LangRewrite", Alone),
    ("CaudiumHack", Alone),
    ("EnableHSTS", One),
    ("NoRedirectPort", Alone),
];

pub fn names() -> impl Iterator<Item = &'static str> {
    DIRECTIVES.iter().map(|(name, _)| *name)
}

/// A value and its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given<'t, T> {
    pub value: T,
    pub line: u32,
    pub name: &'static str,
    /// The second argument, where a directive has two.
    pub second: &'t str,
}

impl<T> Given<'_, T> {
    pub fn at(&self) -> Option<u32> {
        Some(self.line)
    }
}

pub type Text<'t> = Given<'t, &'t str>;

/// All directives of a file.
#[derive(Debug, Default)]
pub struct Directives<'t> {
    /// The last of each name counts.
    last: BTreeMap<&'static str, Text<'t>>,
    numbers: BTreeMap<&'static str, Given<'t, i64>>,
    /// Those of which each counts, in their order.
    all: Vec<Text<'t>>,
    /// The beginnings of paths that ask for a password in the Boa of some devices, with their lines.
    passwords: Vec<(u32, &'t str)>,
}

/// Of the Boa of some devices: a beginning of paths, and a file of passwords that only it can read.
const OF_PASSWORDS: [&str; 2] = ["Auth", "Digest"];

impl<'t> Directives<'t> {
    pub fn read(bytes: &'t [u8], findings: &mut Findings) -> Directives<'t> {
        let mut directives = Directives::default();
        for (line, text) in words::lines(bytes) {
            if findings.is_full(line) {
                break;
            }
            match text.map(str::trim) {
                Ok(text) if text.is_empty() || text.starts_with('#') => {}
                Ok(text) => directives.add(line, text, findings),
                Err(error) => findings.not_utf8(&error),
            }
        }
        directives
    }

    fn add(&mut self, line: u32, text: &'t str, findings: &mut Findings) {
        let (word, rest) = words::split(text);
        if OF_PASSWORDS.iter().any(|name| name.eq_ignore_ascii_case(word)) {
            let path = words::unquoted(words::split(rest).0);
            self.passwords.push((line, path));
            let what = format!(
                "{word} {}: its passwords cannot be read, so that a rule denies it",
                path.escape_debug()
            );
            let what_to_do =
                "write a [[route]] with auth and user_files in the place of the rule; see taipan passwd";
            return findings.error(Some(line), what, what_to_do);
        }
        let Some((name, arguments)) = find(word) else {
            let what_to_do = match words::nearest(word, names()) {
                Some(nearest) => format!("did you mean {nearest}?"),
                None => "remove it".to_owned(),
            };
            let what = format!("there is no directive \"{}\"", word.escape_debug());
            return findings.error(Some(line), what, what_to_do);
        };
        let given = |value, second| Given { value, line, name, second };
        if rest.is_empty() && arguments != Arguments::None {
            return findings.error(Some(line), format!("{name} needs a value"), "write it behind the name");
        }
        match arguments {
            Arguments::None => _ = self.last.insert(name, given("", "")),
            Arguments::One => {
                let given = given(words::unquoted(rest), "");
                self.last.insert(name, given);
                self.all.push(given);
            }
            Arguments::Two => {
                let (first, second) = words::split(rest);
                let second = words::unquoted(second);
                if second.is_empty() {
                    let what = format!("{name} needs two values");
                    return findings.error(Some(line), what, "write the second behind the first");
                }
                self.all.push(given(first, second));
            }
            Arguments::Number => match words::number(words::unquoted(words::split(rest).0)) {
                Some(value) => _ = self.numbers.insert(name, Given { value, line, name, second: "" }),
                None => {
                    let what = format!("{name} needs a number, and not \"{}\"", rest.escape_debug());
                    findings.error(Some(line), what, "write 80, 0x50 or 0120");
                }
            },
        }
    }

    /// The last one of this name.
    pub fn text(&self, name: &str) -> Option<Text<'t>> {
        self.last.get(name).copied()
    }

    pub fn number(&self, name: &str) -> Option<Given<'t, i64>> {
        self.numbers.get(name).copied()
    }

    /// A number of at least `least`. A smaller one counts as absent.
    pub fn at_least(&self, name: &str, least: i64) -> Option<Given<'t, i64>> {
        self.number(name).filter(|number| number.value >= least)
    }

    /// The line of a directive that turns something on.
    pub fn flag(&self, name: &str) -> Option<u32> {
        self.last.get(name).map(|given| given.line)
    }

    /// The lines and patterns of what asks for a password.
    pub fn protected(&self) -> impl Iterator<Item = (u32, String)> + '_ {
        self.passwords.iter().map(|(line, path)| {
            let is_plain = path.starts_with('/') && brackets::parse(&format!("{path}**")).is_ok();
            let is_plain = is_plain && !is_glob(path);
            (*line, if *path == "/" || !is_plain { "/".to_owned() } else { format!("{path}**") })
        })
    }

    /// All of these names, in the order of the file.
    pub fn each<'d>(&'d self, names: &'d [&str]) -> impl Iterator<Item = Text<'t>> + 'd {
        self.all.iter().filter(move |given| names.contains(&given.name)).copied()
    }
}

fn find(word: &str) -> Option<(&'static str, Arguments)> {
    DIRECTIVES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).copied()
}
