//! Flags of one letter, as getopt(3) reads them: alone or together, with their values attached or behind them.

use std::ffi::OsString;

pub struct Getopt<A> {
    program: &'static str,
    usage: &'static str,
    arguments: A,
    letter: char,
    /// What stands behind the letter in its argument.
    rest: String,
}

impl<A: Iterator<Item = OsString>> Getopt<A> {
    pub fn new(program: &'static str, usage: &'static str, arguments: A) -> Getopt<A> {
        Getopt { program, usage, arguments, letter: '-', rest: String::new() }
    }

    /// The next letter. Errors, here and below: one line.
    pub fn next(&mut self) -> Result<Option<char>, String> {
        if self.rest.is_empty() {
            let Some(argument) = self.arguments.next() else { return Ok(None) };
            let argument = argument.to_string_lossy();
            let letters = argument.strip_prefix('-').filter(|letters| !letters.is_empty());
            let takes_none = || format!("{} takes no argument \"{argument}\"; {}", self.program, self.usage);
            self.rest = letters.ok_or_else(takes_none)?.to_owned();
        }
        self.letter = self.rest.remove(0);
        Ok(Some(self.letter))
    }

    /// The value of the letter.
    pub fn value(&mut self) -> Result<OsString, String> {
        let attached = std::mem::take(&mut self.rest);
        if !attached.is_empty() {
            return Ok(attached.into());
        }
        self.arguments.next().ok_or_else(|| format!("-{} needs a value; {}", self.letter, self.usage))
    }

    /// As `value`.
    pub fn text(&mut self) -> Result<String, String> {
        Ok(self.value()?.to_string_lossy().into_owned())
    }

    /// The error for a letter that the program does not know.
    pub fn unknown(&self) -> String {
        format!("unknown flag -{}; {}", self.letter, self.usage)
    }
}
