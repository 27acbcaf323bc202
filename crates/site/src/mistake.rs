//! A mistake in a line of a file that is read while the server runs.

use std::fmt;

/// `P`: what is wrong, in words of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mistake<P> {
    /// The first is 1.
    pub line: usize,
    pub problem: P,
}

impl<P: fmt::Display> fmt::Display for Mistake<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl<P: fmt::Debug + fmt::Display> std::error::Error for Mistake<P> {}
