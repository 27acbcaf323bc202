//! Asks for a password on the terminal, and shows nothing of it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};

use auth::hash::MAX_PASSWORD;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use super::Failure;

const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const KILL: u8 = 0x15;
const DELETE: u8 = 0x7f;

/// The terminal, whose settings are restored when this is dropped.
struct Silent {
    terminal: File,
    before: Termios,
}

pub fn once(user: &str) -> Result<String, Failure> {
    Silent::open()?.ask(&format!("Password of {user}: "))
}

pub fn twice(user: &str) -> Result<String, Failure> {
    let mut terminal = Silent::open()?;
    let first = terminal.ask(&format!("New password of {user}: "))?;
    let second = terminal.ask("The same again: ")?;
    match first == second {
        true => Ok(first),
        false => Err(Failure::Mismatch("the two passwords differ; nothing is changed".into())),
    }
}

impl Silent {
    fn open() -> Result<Self, Failure> {
        let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(|_| {
            Failure::File(
                "there is no terminal to ask on; write the password to standard input, and add -i".into(),
            )
        })?;
        let before = tcgetattr(&terminal).map_err(failed)?;
        let mut silent = before.clone();
        // Keys that send signals are characters here, because a signal would leave the terminal silent.
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Flush, &silent).map_err(failed)?;
        Ok(Self { terminal, before })
    }

    fn ask(&mut self, question: &str) -> Result<String, Failure> {
        self.terminal.write_all(question.as_bytes()).map_err(failed)?;
        let line = self.line();
        self.terminal.write_all(b"\n").map_err(failed)?;
        String::from_utf8(line?)
            .map_err(|_| Failure::Password("the password cannot be used: it is not UTF-8".into()))
    }

    /// One byte more than a password may have is kept, so that a longer one is noticed.
    fn line(&mut self) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            if self.terminal.read(&mut byte).map_err(failed)? == 0 {
                return Err(Failure::Interrupted);
            }
            match byte[0] {
                b'\n' | b'\r' => return Ok(line),
                INTERRUPT => return Err(Failure::Interrupted),
                END if line.is_empty() => return Err(Failure::Interrupted),
                KILL => line.clear(),
                BACKSPACE | DELETE => remove_last(&mut line),
                byte if line.len() <= MAX_PASSWORD => line.push(byte),
                _ => {}
            }
        }
    }
}

/// The last character, which in UTF-8 may have several bytes.
fn remove_last(line: &mut Vec<u8>) {
    while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
}

impl Drop for Silent {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::File(format!("the terminal failed: {error}"))
}
