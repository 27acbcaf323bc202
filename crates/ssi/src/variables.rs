//! The variables of a page: those of the request, and those that its directives set.

use std::collections::BTreeMap;

use crate::mistake::Mistake;

/// Bytes of one value.
pub const MAX_VALUE: usize = 32 * 1024;
/// Bytes of all names and values that directives set.
pub const MAX_VARIABLES: usize = 64 * 1024;

/// What a page is made for.
pub trait Request {
    /// The value of a variable such as `REQUEST_URI`.
    fn variable(&self, name: &str) -> Option<String>;

    /// The names of all variables.
    fn names(&self) -> Vec<String>;

    /// Seconds since 1970.
    fn now(&self) -> i64;

    /// When the page that the client asks for was changed.
    fn modified(&self) -> Option<i64>;
}

/// Those that directives have set, which a page and what it includes share.
#[derive(Debug, Default)]
pub struct Variables {
    values: BTreeMap<String, String>,
    bytes: usize,
}

impl Variables {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Errors: the value is too long, or all variables together are.
    pub fn set(&mut self, name: &str, value: String) -> Result<(), Mistake> {
        if value.len() > MAX_VALUE {
            return Err(Mistake::TooLong(MAX_VALUE));
        }
        let freed = self.get(name).map_or(0, |old| name.len() + old.len());
        let bytes = self.bytes - freed + name.len() + value.len();
        if bytes > MAX_VARIABLES {
            return Err(Mistake::Variables(MAX_VARIABLES));
        }
        self.bytes = bytes;
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_a_limit() {
        let mut variables = Variables::default();
        assert_eq!(variables.set("a", "x".repeat(MAX_VALUE + 1)), Err(Mistake::TooLong(MAX_VALUE)));
        for _ in 0..10 {
            assert_eq!(variables.set("a", "x".repeat(MAX_VALUE)), Ok(()));
        }
        let full = Err(Mistake::Variables(MAX_VARIABLES));
        assert_eq!(variables.set("b", "x".repeat(MAX_VALUE)), full);
        assert_eq!(variables.set("b", "x".repeat(MAX_VALUE - 2)), Ok(()));
        assert_eq!(variables.set("c", String::new()), full);
        assert_eq!(variables.get("b").map(str::len), Some(MAX_VALUE - 2));
    }
}
