//! Variables that an administrator sets, checked once. They come before all others, so that one of them
//! can replace what would be said of the request, as `SCRIPT_FILENAME` must be for a FastCGI server that
//! sees another root.

use std::fmt;

use super::is_variable;

/// Names that nobody sets, for they would say something else than the message they are part of, or make
/// of a client's field what programs take for their proxy (httpoxy).
const RESERVED: [&str; 4] = ["CONTENT_LENGTH", "GATEWAY_INTERFACE", "HTTP_PROXY", "SCGI"];

/// A set of names and values, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Additions(Vec<(String, Vec<u8>)>);

/// Why a variable cannot be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdditionError {
    /// Not letters, digits and underscores, or a digit first, or nothing.
    Name,
    /// One of the names that the server alone sets.
    Reserved,
    /// NUL ends a value.
    Nul,
    Twice,
}

impl Additions {
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
        self.0.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| own == name)
    }
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
    fn what_can_be_set() {
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
