//! Variables that the administrator sets. They replace variables of the request: an application in another root
//! directory needs another `SCRIPT_FILENAME`.

use std::fmt;

use super::is_variable;

/// Names that the administrator cannot set. The first two and SCGI describe the message itself. Programs take
/// `HTTP_PROXY` for the URL of their proxy (httpoxy, CVE-2016-5385).
const RESERVED: [&str; 4] = ["CONTENT_LENGTH", "GATEWAY_INTERFACE", "HTTP_PROXY", "SCGI"];

/// A set of names and values, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Additions {
    variables: Vec<(String, Vec<u8>)>,
    /// A bit for each length of a name. A name of another length needs no comparison.
    lengths: u64,
}

/// Why a variable cannot be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdditionError {
    /// Empty, not letters, digits and underscores, or a digit first.
    Name,
    /// A name that only the server sets.
    Reserved,
    /// A NUL in the value.
    Nul,
    Twice,
}

impl Additions {
    pub const NONE: Additions = Additions { variables: Vec::new(), lengths: 0 };

    /// Adds a variable. Errors: why it cannot be set; then nothing has changed.
    pub fn add(&mut self, name: &str, value: &[u8]) -> Result<(), AdditionError> {
        if !is_variable(name) {
            return Err(AdditionError::Name);
        }
        if RESERVED.contains(&name) {
            return Err(AdditionError::Reserved);
        }
        if value.contains(&0) {
            return Err(AdditionError::Nul);
        }
        if self.has(name) {
            return Err(AdditionError::Twice);
        }
        self.variables.push((name.to_owned(), value.to_owned()));
        self.lengths |= length_bit(name.len());
        Ok(())
    }

    /// Removes a variable, if it is set.
    pub fn remove(&mut self, name: &str) {
        self.variables.retain(|(own, _)| own != name);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// The value of a variable of this name, in the same case of letters.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.lengths & length_bit(name.len()) != 0 && self.variables.iter().any(|(own, _)| own == name)
    }
}

/// A bit for names of this length. Names whose lengths have different bits are different.
pub(super) const fn length_bit(length: usize) -> u64 {
    1 << if length < 63 { length } else { 63 }
}

impl fmt::Display for AdditionError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            AdditionError::Name => "a name has letters, digits and underscores, and no digit first",
            AdditionError::Reserved => "the server itself decides about this variable",
            AdditionError::Nul => "a value cannot have a NUL in it",
            AdditionError::Twice => "the variable is set twice",
        })
    }
}

impl std::error::Error for AdditionError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_names_and_values() {
        let check = |name, value: &str, expected| {
            let mut additions = Additions::default();
            additions.add("SET", b"").unwrap();
            assert_eq!(additions.add(name, value.as_bytes()), expected, "{name}");
            assert_eq!(additions.iter().count(), 1 + usize::from(expected.is_ok()));
        };
        check("PATH", "/bin", Ok(()));
        check("_x9", "", Ok(()));
        check("HTTPS", "on", Ok(()));
        check("HTTP_X", "é\n", Ok(()));
        for name in ["", "9", "A-B", "A=B", "A B", "É", "A\0"] {
            check(name, "", Err(AdditionError::Name));
        }
        for name in RESERVED {
            check(name, "", Err(AdditionError::Reserved));
        }
        check("A", "b\0c", Err(AdditionError::Nul));
        check("SET", "", Err(AdditionError::Twice));
    }
}
