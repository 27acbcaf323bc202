//! The flags of Boa: `-c -d -f -l -r`, and in the branch of GnuPG `-h -L -p`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::input::{Input, Start};

const USAGE: &str = "Usage: boa [-c serverroot] [-d] [-f configfile] [-r chroot] [-l debug_level] \
                     [-L ip] [-p port]";

/// The letters of the flags.
pub const LETTERS: [char; 8] = ['c', 'd', 'f', 'h', 'l', 'r', 'L', 'p'];

/// Where Boa looks without `-c`.
const SERVER_ROOT: &str = "/etc/boa";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `-f`. Without it, `boa.conf`.
    pub file: Option<PathBuf>,
    /// `-c`
    pub server_root: Option<PathBuf>,
    /// `-r`. All other paths are in there.
    pub chroot: Option<PathBuf>,
    /// `-l`: what Boa would print for debugging.
    pub level: Option<String>,
    /// `-L`, in place of `Listen`.
    pub address: Option<String>,
    /// `-p`, in place of `Port`.
    pub port: Option<i64>,
}

impl Flags {
    /// Errors: one line.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Start, String> {
        let mut flags = Flags::default();
        let mut background = true;
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let text = argument.to_str().unwrap_or_default();
            let letter = text.strip_prefix('-').and_then(|rest| rest.chars().next());
            let Some(letter) = letter else {
                return Err(format!("boa takes no argument \"{}\"; {USAGE}", argument.display()));
            };
            if !LETTERS.contains(&letter) {
                return Err(format!("unknown flag {text}; {USAGE}"));
            }
            match (letter, text) {
                ('d', "-d") => {
                    background = false;
                    continue;
                }
                ('h', "-h") => return Ok(Start::print(format!("{USAGE}\n"))),
                ('d' | 'h', _) => return Err(format!("unknown flag {text}; {USAGE}")),
                _ => {}
            }
            let attached = &text[1 + letter.len_utf8()..];
            let mut value = || match attached {
                "" => arguments.next().ok_or_else(|| format!("-{letter} needs a value; {USAGE}")),
                attached => Ok(OsString::from(attached)),
            };
            match letter {
                'c' => flags.server_root = Some(value()?.into()),
                'f' => flags.file = Some(value()?.into()),
                'r' => flags.chroot = Some(value()?.into()),
                'l' => flags.level = Some(value()?.to_string_lossy().into_owned()),
                'L' => flags.address = Some(value()?.to_string_lossy().into_owned()),
                'p' => {
                    let text = value()?.to_string_lossy().into_owned();
                    let port = text.parse().ok().filter(|port| (0..=65_535).contains(port));
                    flags.port = Some(port.ok_or_else(|| format!("-p {text} is no port; {USAGE}"))?);
                }
                _ => return Err(format!("unknown flag {text}; {USAGE}")),
            }
        }
        Ok(Start::Serve { input: Input::Boa(flags), background })
    }

    /// Where relative paths begin: in the folder of `-c`, else in that of the file, else where Boa was installed.
    pub fn folder(&self) -> PathBuf {
        let of_file = || self.file.as_ref()?.parent().map(PathBuf::from);
        self.server_root.clone().or_else(of_file).unwrap_or_else(|| SERVER_ROOT.into())
    }

    /// The file with the directives, as this process sees it.
    pub fn path(&self) -> PathBuf {
        let file = match (&self.file, &self.server_root) {
            (Some(file), Some(root)) => root.join(file),
            (Some(file), None) => file.clone(),
            (None, _) => self.folder().join("boa.conf"),
        };
        self.outside(file)
    }

    /// A path in the chroot, by its name outside of it.
    pub fn outside(&self, path: PathBuf) -> PathBuf {
        match &self.chroot {
            Some(chroot) => chroot.join(path.strip_prefix("/").unwrap_or(&path)),
            None => path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Start, String> {
        Flags::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn finds_the_file_and_the_folder() {
        for (line, path, folder) in [
            ("", "/etc/boa/boa.conf", "/etc/boa"),
            ("-c /srv", "/srv/boa.conf", "/srv"),
            ("-f x/a.conf", "x/a.conf", "x"),
            ("-fa.conf -d", "a.conf", ""),
            ("-c /srv -f a.conf", "/srv/a.conf", "/srv"),
            ("-c /srv -f /a.conf", "/a.conf", "/srv"),
            ("-r /jail", "/jail/etc/boa/boa.conf", "/etc/boa"),
            ("-r /jail -c /w -l -3", "/jail/w/boa.conf", "/w"),
            ("-L 192.0.2.1 -p8080", "/etc/boa/boa.conf", "/etc/boa"),
        ] {
            let Ok(Start::Serve { input: Input::Boa(flags), background }) = parsed(line) else {
                panic!("{line}")
            };
            assert_eq!((flags.path(), flags.folder()), (path.into(), folder.into()), "{line}");
            assert_eq!(background, !line.contains("-d"), "{line}");
        }
    }

    #[test]
    fn rejects_what_boa_does_not_know() {
        for line in ["-x", "file", "-c", "-dx", "-hx", "--help", "-", "-p", "-p x", "-p 65536", "-p -1"] {
            assert!(parsed(line).unwrap_err().contains("Usage: boa"), "{line}");
        }
    }
}
