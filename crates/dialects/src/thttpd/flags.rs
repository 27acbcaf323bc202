//! The flags of thttpd.

use std::ffi::OsString;
use std::path::PathBuf;

use super::options::Options;
use crate::finding::Findings;
use crate::input::{Input, Start};

const USAGE: &str = "usage: thttpd [-C configfile] [-p port] [-d dir] [-r|-nor] [-dd data_dir] [-s|-nos] [-v|-nov] \
                     [-g|-nog] [-u user] [-c cgipat] [-t throttles] [-h host] [-l logfile] [-i pidfile] [-T charset] \
                     [-P P3P] [-M maxage] [-V] [-D]";

/// Flags with a value, and their keywords.
const VALUES: &[(&str, &str)] = &[
    ("-p", "port"),
    ("-d", "dir"),
    ("-dd", "data_dir"),
    ("-u", "user"),
    ("-c", "cgipat"),
    ("-t", "throttles"),
    ("-h", "host"),
    ("-l", "logfile"),
    ("-i", "pidfile"),
    ("-T", "charset"),
    ("-P", "p3p"),
    ("-M", "max_age"),
];

const SWITCHES: &[(&str, &str)] = &[
    ("-r", "chroot"),
    ("-nor", "nochroot"),
    ("-s", "symlinkcheck"),
    ("-nos", "nosymlinkcheck"),
    ("-v", "vhost"),
    ("-nov", "novhost"),
    ("-g", "globalpasswd"),
    ("-nog", "noglobalpasswd"),
    ("-D", "debug"),
];

/// Those that are no settings.
const OTHERS: [&str; 2] = ["-C", "-V"];

/// All flags.
pub fn letters() -> impl Iterator<Item = &'static str> {
    OTHERS.into_iter().chain(VALUES.iter().chain(SWITCHES).map(|(flag, _)| *flag))
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `-C`
    pub file: Option<PathBuf>,
    /// Those before `-C`, which the file overrides.
    pub before: Options,
    /// Those behind `-C`, which override the file.
    pub behind: Options,
}

impl Flags {
    /// Errors: one line.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Start, String> {
        let mut flags = Flags::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let text = argument.to_string_lossy().into_owned();
            let mut value = || arguments.next().ok_or_else(|| format!("{text} needs a value; {USAGE}"));
            if text == "-V" {
                return Ok(Start::print(concat!("taipan ", env!("CARGO_PKG_VERSION"), "\n")));
            }
            if text == "-C" {
                flags.file = Some(value()?.into());
                continue;
            }
            let options = if flags.file.is_some() { &mut flags.behind } else { &mut flags.before };
            let with_value = VALUES.iter().find(|(flag, _)| *flag == text);
            let alone = SWITCHES.iter().find(|(flag, _)| *flag == text);
            let done = match (with_value, alone) {
                (Some((_, name)), _) => {
                    let value = value()?.into_string().map_err(|_| format!("{text}: not UTF-8"))?;
                    options.set(name, &value, None)
                }
                (None, Some((_, name))) => options.switch(name, None),
                (None, None) => Err(()),
            };
            done.map_err(|()| format!("unknown flag {text}; {USAGE}"))?;
        }
        let background = flags.options(&[], &mut Findings::default()).is_on("debug") != Some(true);
        Ok(Start::Serve { input: Input::Thttpd(flags), background })
    }

    /// The flags and the words of the file, in their order.
    pub fn options(&self, bytes: &[u8], findings: &mut Findings) -> Options {
        let mut options = self.before.clone();
        options.read(bytes, findings);
        options.override_by(&self.behind);
        options
    }

    /// The file, or the folder that is served.
    pub fn path(&self) -> PathBuf {
        let folder =
            || self.before.value("dir").map_or_else(|| PathBuf::from("."), |dir| (&dir.value).into());
        self.file.clone().unwrap_or_else(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Start, String> {
        Flags::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_file_overrides_what_is_before_it_only() {
        let Ok(Start::Serve { input: Input::Thttpd(flags), background }) =
            parsed("-p 1 -u a -C t.conf -p 3 -nos -dd x -D")
        else {
            panic!()
        };
        let options = flags.options(b"port=2 user=b host=::1", &mut Findings::default());
        let value = |name| options.value(name).map(|setting| setting.value.as_str());
        assert_eq!((value("port"), value("user"), value("host")), (Some("3"), Some("b"), Some("::1")));
        assert_eq!((options.is_on("symlinkcheck"), value("data_dir")), (Some(false), Some("x")));
        assert!(!background);
        assert_eq!(flags.path(), PathBuf::from("t.conf"));
    }

    #[test]
    fn a_chroot_decides_about_links_until_a_later_word_does() {
        for (flags, file, expected) in [
            ("-C t.conf", "chroot", Some(false)),
            ("-C t.conf", "nosymlinkcheck nochroot", Some(true)),
            ("-C t.conf", "nochroot nosymlinkcheck", Some(false)),
            ("-C t.conf", "chroot symlinkcheck", Some(true)),
            ("-C t.conf -nor", "chroot", Some(true)),
            ("-C t.conf -r", "symlinkcheck", Some(false)),
            ("-nos -C t.conf", "nochroot", Some(true)),
            ("-r -C t.conf", "", Some(false)),
            ("-C t.conf", "", None),
        ] {
            let Ok(Start::Serve { input: Input::Thttpd(parsed), .. }) = parsed(flags) else { panic!() };
            let options = parsed.options(file.as_bytes(), &mut Findings::default());
            assert_eq!(options.is_on("symlinkcheck"), expected, "{flags} {file}");
        }
    }

    #[test]
    fn rejects_what_thttpd_does_not_know() {
        for line in ["-x", "file", "-p", "-ddd x", "--help"] {
            assert!(parsed(line).unwrap_err().contains("usage: thttpd"), "{line}");
        }
        assert!(matches!(parsed("-V"), Ok(Start::Print(text, 0)) if text.starts_with(b"taipan ")));
    }
}
