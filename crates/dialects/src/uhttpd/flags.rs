//! The flags of uhttpd.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::busybox::decoded;
use crate::getopt::Getopt;
use crate::input::{Input, Start};

const USAGE: &str = "usage: uhttpd -p [ADDRESS:]PORT [-s [ADDRESS:]PORT -C CERTIFICATE -K KEY [-q]] [-h HOME] \
                     [-c FILE] [-E URL] [-I INDEX] [-x PREFIX] [-y ALIAS[=PATH]] [-i .EXTENSION=PATH] [-n SCRIPTS] \
                     [-N CONNECTIONS] [-t SECONDS] [-T SECONDS] [-k SECONDS] [-A SECONDS] [-r REALM] [-DfRS], or \
                     uhttpd -d|-m STRING";

/// Flags without a value.
const ALONE: [char; 7] = ['a', 'D', 'f', 'q', 'R', 'S', 'X'];
const WITH_VALUE: [char; 28] = [
    'A', 'c', 'C', 'd', 'E', 'h', 'H', 'i', 'I', 'k', 'K', 'l', 'L', 'm', 'n', 'N', 'o', 'O', 'p', 'P', 'r',
    's', 't', 'T', 'u', 'U', 'x', 'y',
];

/// The letters of the flags.
pub const LETTERS: [char; 35] = {
    let mut all = ['a'; 35];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < ALONE.len() { ALONE[at] } else { WITH_VALUE[at - ALONE.len()] };
        at += 1;
    }
    all
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// A file of `/etc/config`, in place of flags.
    pub file: Option<PathBuf>,
    /// In their order.
    pub given: Vec<Given>,
}

/// A flag, or the option that stands for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub letter: char,
    /// Empty if it has none.
    pub value: String,
    /// Of the file.
    pub line: Option<u32>,
}

impl Flags {
    /// Errors: one line.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Start, String> {
        let mut flags = Flags::default();
        let mut letters = Getopt::new("uhttpd", USAGE, arguments.into_iter());
        while let Some(letter) = letters.next()? {
            let value = match letter {
                'd' => return Ok(Start::Print(decoded(&letters.value()?), 0)),
                _ if ALONE.contains(&letter) => String::new(),
                _ if WITH_VALUE.contains(&letter) => letters.text()?,
                _ => return Err(letters.unknown()),
            };
            match letter {
                'm' => {
                    return Err("uhttpd -m: write taipan passwd -n USER, which has better hashes".to_owned());
                }
                _ => flags.given.push(Given { letter, value, line: None }),
            }
        }
        let background = !flags.given.iter().any(|given| given.letter == 'f');
        Ok(Start::Serve { input: Input::Uhttpd(flags), background })
    }

    /// The file, or the folder that is served.
    pub fn path(&self) -> PathBuf {
        let last = |letter| self.given.iter().rev().find(|given| given.letter == letter);
        match (&self.file, last('c').or(last('h'))) {
            (Some(file), _) => file.clone(),
            (None, Some(given)) => PathBuf::from(&given.value),
            (None, None) => PathBuf::from("."),
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
    fn reads_flags_one_by_one_and_together() {
        let given = |letter, value: &str| Given { letter, value: value.to_owned(), line: None };
        let expected = [given('f', ""), given('D', ""), given('p', "[::1]:80"), given('p', "8080")];
        for line in ["-f -D -p [::1]:80 -p 8080", "-fDp[::1]:80 -p8080", "-fDp [::1]:80 -p 8080"] {
            let flags = Flags { file: None, given: expected.to_vec() };
            assert_eq!(
                parsed(line),
                Ok(Start::Serve { input: Input::Uhttpd(flags), background: false }),
                "{line}"
            );
        }
        assert_eq!(parsed("-d a%20b"), Ok(Start::print("a b")));
        for line in ["", "-p 80"] {
            assert!(matches!(parsed(line), Ok(Start::Serve { background: true, .. })), "{line}");
        }
    }

    #[test]
    fn rejects_what_cannot_be_done() {
        for line in ["-z", "file", "-p", "-m x", "-", "-fz", "-é"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
