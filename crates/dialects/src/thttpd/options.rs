//! The settings of thttpd, and the reader of `thttpd.conf`: words such as `port=80`, and comments behind `#`.

use std::collections::BTreeMap;

use crate::finding::Findings;
use crate::words;

/// Words of a file.
const MAX_WORDS: usize = 2000;

/// Keywords with a value.
const VALUES: &[&str] = &[
    "port",
    "dir",
    "data_dir",
    "user",
    "cgipat",
    "cgilimit",
    "throttles",
    "host",
    "logfile",
    "pidfile",
    "charset",
    "p3p",
    "max_age",
    "urlpat",
    "localpat",
];

/// Keywords without, each with the setting and what it becomes.
const SWITCHES: &[(&str, &str, bool)] = &[
    ("debug", "debug", true),
    ("chroot", "chroot", true),
    ("nochroot", "chroot", false),
    ("symlink", "symlinkcheck", true),
    ("symlinks", "symlinkcheck", true),
    ("symlinkcheck", "symlinkcheck", true),
    ("nosymlink", "symlinkcheck", false),
    ("nosymlinks", "symlinkcheck", false),
    ("nosymlinkcheck", "symlinkcheck", false),
    ("vhost", "vhost", true),
    ("novhost", "vhost", false),
    ("globalpasswd", "globalpasswd", true),
    ("noglobalpasswd", "globalpasswd", false),
    ("noemptyreferers", "noemptyreferers", true),
    ("noemptyreferrers", "noemptyreferers", true),
];

pub fn names() -> impl Iterator<Item = &'static str> {
    VALUES.iter().copied().chain(SWITCHES.iter().map(|(name, _, _)| *name))
}

/// A setting, and the line of the file that has it. `None`: a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub line: Option<u32>,
}

/// The last of each name counts. In a chroot links lead nowhere else, so that `chroot` and `nochroot` set the check of
/// links as well, until a later word sets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    values: BTreeMap<&'static str, Setting<String>>,
    switches: BTreeMap<&'static str, Setting<bool>>,
}

impl Options {
    /// Errors: there is no such keyword.
    pub fn set(&mut self, name: &str, value: &str, line: Option<u32>) -> Result<(), ()> {
        let known = VALUES.iter().find(|known| known.eq_ignore_ascii_case(name)).ok_or(())?;
        self.values.insert(known, Setting { value: value.to_owned(), line });
        Ok(())
    }

    /// Errors: there is no such keyword.
    pub fn switch(&mut self, name: &str, line: Option<u32>) -> Result<(), ()> {
        let (_, setting, value) =
            SWITCHES.iter().find(|(known, _, _)| known.eq_ignore_ascii_case(name)).ok_or(())?;
        self.switches.insert(setting, Setting { value: *value, line });
        if *setting == "chroot" {
            self.switches.insert("symlinkcheck", Setting { value: !value, line });
        }
        Ok(())
    }

    pub fn value(&self, name: &str) -> Option<&Setting<String>> {
        self.values.get(name)
    }

    /// `None`: it is not given.
    pub fn is_on(&self, name: &str) -> Option<bool> {
        self.switches.get(name).map(|setting| setting.value)
    }

    pub fn line_of(&self, name: &str) -> Option<u32> {
        self.switches.get(name).and_then(|setting| setting.line)
    }

    /// Those of the other one count.
    pub fn override_by(&mut self, other: &Options) {
        self.values.extend(other.values.iter().map(|(name, setting)| (*name, setting.clone())));
        self.switches.extend(other.switches.iter().map(|(name, setting)| (*name, setting.clone())));
    }

    pub fn read(&mut self, bytes: &[u8], findings: &mut Findings) {
        let mut words = 0;
        for (line, text) in words::lines_without_comments(bytes) {
            if findings.is_full(line) {
                return;
            }
            let text = match text {
                Ok(text) => text,
                Err(error) => {
                    findings.not_utf8(&error);
                    continue;
                }
            };
            for word in text.split_whitespace() {
                words += 1;
                if words > MAX_WORDS {
                    let what = format!("there are more than {MAX_WORDS} settings");
                    return findings.error(Some(line), what, "write each once");
                }
                if findings.is_full(line) {
                    return;
                }
                self.word(word, line, findings);
            }
        }
    }

    fn word(&mut self, word: &str, line: u32, findings: &mut Findings) {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        let done = match value {
            Some(value) if VALUES.iter().any(|known| is(known)) => self.set(name, value, Some(line)),
            None if SWITCHES.iter().any(|(known, _, _)| is(known)) => self.switch(name, Some(line)),
            Some(_) if SWITCHES.iter().any(|(known, _, _)| is(known)) => {
                return findings.error(
                    Some(line),
                    format!("{name} takes no value"),
                    format!("write {name} alone"),
                );
            }
            None if VALUES.iter().any(|known| is(known)) => {
                return findings.error(
                    Some(line),
                    format!("{name} needs a value"),
                    format!("write {name}=VALUE"),
                );
            }
            _ => Err(()),
        };
        if done.is_err() {
            let known = VALUES.iter().copied().chain(SWITCHES.iter().map(|(name, _, _)| *name));
            let what_to_do = match words::nearest(name, known) {
                Some(nearest) => format!("did you mean {nearest}?"),
                None => "remove it".to_owned(),
            };
            findings.error(
                Some(line),
                format!("there is no keyword \"{}\"", name.escape_debug()),
                what_to_do,
            );
        }
    }
}
