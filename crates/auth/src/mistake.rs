//! What can be wrong in a file of users or groups, and how its lines are read.
//!
//! No message has a part of the line: it may be a password.

use std::fmt;

use crate::hash::HashError;

/// Bytes of a file.
pub const MAX_FILE: usize = 16 << 20;

/// Bytes of the name of a user, a group or a realm.
pub const MAX_NAME: usize = 255;

/// The mistakes that are listed for one file. More are counted.
pub const MAX_MISTAKES: usize = 100;

/// The file is not used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileError {
    TooLarge,
    TooMany,
}

/// A line that is ignored, and why. The other lines count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mistake {
    /// From 1.
    pub line: usize,
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    TooLong,
    /// The form that the line should have.
    Form(&'static str),
    Name(NameError),
    Hash(HashError),
    /// The same name is on the line with this number already.
    Again(usize),
    /// A hash that is not as many digits as MD5 or SHA-256 has.
    Digits,
    /// A group with too many members.
    Members,
}

/// Why a name cannot be that of a user, a group or a realm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameError {
    Empty,
    TooLong,
    Colon,
    Control,
    NotUtf8,
    /// A line would not be read with it: it begins with `#`, or it begins or ends with a space.
    Edge,
}

/// The mistakes of one file, the first of them listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mistakes {
    pub listed: Vec<Mistake>,
    /// How many more there are.
    pub more: usize,
}

impl Mistakes {
    pub(crate) fn add(&mut self, line: usize, fault: Fault) {
        if self.listed.len() < MAX_MISTAKES {
            self.listed.push(Mistake { line, fault });
        } else {
            self.more += 1;
        }
    }
}

/// The lines with something on them, each with its number, without comments (`#`) and without spaces at both ends.
pub(crate) fn lines(file: &[u8]) -> Result<impl Iterator<Item = (usize, &[u8])>, FileError> {
    if file.len() > MAX_FILE {
        return Err(FileError::TooLarge);
    }
    let text = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    Ok((1..).zip(lines).filter(|(_, line)| !matches!(line, [] | [b'#', ..])))
}

/// The name of a user, a group or a realm.
pub fn name(name: &[u8]) -> Result<&str, NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong);
    }
    let name = std::str::from_utf8(name).map_err(|_| NameError::NotUtf8)?;
    if name.chars().any(char::is_control) {
        return Err(NameError::Control);
    }
    if name.contains(':') { Err(NameError::Colon) } else { Ok(name) }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the line is too long"),
            Self::Form(form) => write!(f, "a line has the form {form}"),
            Self::Name(error) => error.fmt(f),
            Self::Hash(error) => error.fmt(f),
            Self::Again(first) => write!(f, "the same name is on line {first}, which counts; remove one of both"),
            Self::Digits => f.write_str(
                "the hash is neither 32 hexadecimal digits (MD5) nor 64 (SHA-256); make it with htdigest or taipan passwd",
            ),
            Self::Members => f.write_str("the file has too many memberships"),
        }
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty"),
            Self::TooLong => write!(f, "the name has more than {MAX_NAME} bytes"),
            Self::Colon => f.write_str("the name has a colon, which ends a name"),
            Self::Control => f.write_str("the name has a control character"),
            Self::NotUtf8 => f.write_str("the name is not UTF-8; save the file as UTF-8"),
            Self::Edge => f.write_str("the name begins with # or a space, or ends with a space"),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the file has more than {} MiB", MAX_FILE >> 20),
            Self::TooMany => f.write_str("the file has more than 200000 entries"),
        }
    }
}

impl std::error::Error for FileError {}

impl std::error::Error for NameError {}

impl From<NameError> for Fault {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl From<HashError> for Fault {
    fn from(error: HashError) -> Self {
        Self::Hash(error)
    }
}
