//! Limits the lines that events of one kind write into the log, where a thousand clients may cause one at the same
//! time.

use std::cell::Cell;
use std::fmt;

/// One line a second. The next one says how many were left out.
#[derive(Debug, Default)]
pub struct LineLimit {
    /// The second of the last line.
    last: Cell<i64>,
    omitted: Cell<u64>,
}

/// The end of a line: how many like it were left out before it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Omitted(u64);

impl LineLimit {
    /// `None`: there was a line in this second, so that this one is left out.
    pub fn admit(&self, now: i64) -> Option<Omitted> {
        if self.last.replace(now) == now {
            self.omitted.set(self.omitted.get() + 1);
            return None;
        }
        Some(Omitted(self.omitted.take()))
    }
}

impl fmt::Display for Omitted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            1 => write!(out, " (1 more was left out before)"),
            omitted => write!(out, " ({omitted} more were left out before)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_one_line_which_names_those_before_it() {
        let limit = LineLimit::default();
        let lines = [5, 5, 5, 6, 6, 9, 10].map(|now| limit.admit(now).map(|omitted| omitted.to_string()));
        let lines = lines.each_ref().map(|line| line.as_deref());
        let two = " (2 more were left out before)";
        let one = " (1 more was left out before)";
        assert_eq!(lines, [Some(""), None, None, Some(two), None, Some(one), Some("")]);
    }
}
