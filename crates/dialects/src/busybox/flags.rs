//! The flags of busybox httpd.

use std::ffi::OsString;
use std::path::PathBuf;

use super::text;
use crate::getopt::Getopt;
use crate::input::{Input, Start};

const USAGE: &str = "usage: httpd [-ifv[v]] [-c CONFFILE] [-p [IP:]PORT] [-u USER[:GRP]] [-r REALM] [-h HOME], or httpd \
                     -d|-e STRING";

/// The letters of the flags.
pub const LETTERS: [char; 11] = ['c', 'd', 'e', 'f', 'h', 'i', 'm', 'p', 'r', 'u', 'v'];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `-c`
    pub file: Option<PathBuf>,
    /// `-h`
    pub home: Option<PathBuf>,
    /// `-p`
    pub address: Option<String>,
    /// `-u`
    pub user: Option<String>,
    /// `-r`
    pub realm: Option<String>,
    /// `-v`: requests are logged.
    pub verbose: bool,
    pub foreground: bool,
}

impl Flags {
    /// Errors: one line.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Start, String> {
        let mut flags = Flags::default();
        // The word stands in front of the flags where the program is called busybox.
        let mut arguments = arguments.into_iter().peekable();
        _ = arguments.next_if(|first| first == "httpd");
        let mut letters = Getopt::new("httpd", USAGE, arguments);
        while let Some(letter) = letters.next()? {
            match letter {
                'f' => flags.foreground = true,
                'v' => flags.verbose = true,
                'c' => flags.file = Some(letters.value()?.into()),
                'h' => flags.home = Some(letters.value()?.into()),
                'p' => flags.address = Some(letters.text()?),
                'u' => flags.user = Some(letters.text()?),
                'r' => flags.realm = Some(letters.text()?),
                'd' => return Ok(Start::Print(text::decoded(&letters.value()?), 0)),
                'e' => return Ok(Start::print(format!("{}\n", text::encoded(&letters.value()?)))),
                'i' => return Err("httpd -i: it is not started for each connection; remove -i".to_owned()),
                'm' => {
                    return Err("httpd -m: write taipan passwd -n USER, which has better hashes".to_owned());
                }
                _ => return Err(letters.unknown()),
            }
        }
        let background = !flags.foreground;
        Ok(Start::Serve { input: Input::Busybox(flags), background })
    }

    pub fn home(&self) -> PathBuf {
        self.home.clone().unwrap_or_else(|| PathBuf::from("."))
    }

    /// The file, which is looked for in the folder that is served; or that folder.
    pub fn path(&self) -> PathBuf {
        self.file.as_ref().map_or_else(|| self.home(), |file| self.home().join(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Start, String> {
        Flags::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn reads_flags_one_by_one_and_together() {
        let expected = Flags {
            file: Some("/etc/h.conf".into()),
            home: Some("/www".into()),
            address: Some("[::1]:8080".into()),
            user: Some("www:web".into()),
            realm: Some("R".into()),
            verbose: true,
            foreground: true,
        };
        for line in [
            "-f -v -c /etc/h.conf -h /www -p [::1]:8080 -u www:web -r R",
            "httpd -fv -c /etc/h.conf -h /www -p [::1]:8080 -u www:web -r R",
            "-fvc/etc/h.conf -h/www -p[::1]:8080 -uwww:web -rR",
        ] {
            let start = Start::Serve { input: Input::Busybox(expected.clone()), background: false };
            assert_eq!(parsed(line), Ok(start), "{line}");
        }
        assert_eq!(parsed("-d a%20b"), Ok(Start::print("a b")));
        assert_eq!(parsed("-e a<"), Ok(Start::print("a&#60;\n")));
    }

    #[test]
    fn knows_its_letters() {
        for letter in LETTERS {
            let start = format!("{:?}", parsed(&format!("-{letter} 1")));
            assert!(!start.contains("unknown flag"), "{letter}: {start}");
        }
    }

    #[test]
    fn rejects_what_cannot_be_done() {
        for line in ["-x", "file", "ls", "-f httpd", "-p", "-i", "-m x", "-"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
