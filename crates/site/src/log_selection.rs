//! Which requests have a line in the access log. Pure: it counts nothing.

use std::time::Duration;

use taipan_http::status::Status;

/// Requests that `only` names always have a line, and of the others one in `sample`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogSelection {
    /// `None`: every request counts as one of the others.
    pub only: Option<Only>,
    /// `None`: of the others, none has a line if `only` is there, and else each.
    pub sample: Option<u64>,
    /// A request that takes longer is slow.
    pub slow: Duration,
}

/// The requests that have a line in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Only {
    /// Statuses from 400 on, and responses that ended early.
    pub errors: bool,
    /// Statuses from 500 on, and responses that ended early.
    pub server_errors: bool,
    pub slow: bool,
}

impl LogSelection {
    /// `others`: how many requests before this one were none of `only`. Counts this one.
    pub fn has_line(&self, status: Status, is_whole: bool, micros: u64, others: &mut u64) -> bool {
        if let Some(only) = self.only {
            let is_failed = |from: u16| status.code() >= from || !is_whole;
            let is_named = only.errors && is_failed(400)
                || only.server_errors && is_failed(500)
                || only.slow && u128::from(micros) > self.slow.as_micros();
            if is_named {
                return true;
            }
        }
        match self.sample {
            None => self.only.is_none(),
            Some(every) => {
                let is_chosen = others.is_multiple_of(every.max(1));
                *others += 1;
                is_chosen
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(u16, bool, u64); 5] =
        [(200, true, 10), (404, true, 10), (503, true, 10), (200, false, 10), (304, true, 2_000_000)];

    /// The requests of `ALL` that have a line.
    fn check(only: Option<Only>, sample: Option<u64>, expected: &[usize]) {
        let selection = LogSelection { only, sample, slow: Duration::from_secs(1) };
        let mut others = 0;
        let has_line = |(status, is_whole, micros): (u16, bool, u64)| {
            let status = Status::new(status).expect("it is a status");
            selection.has_line(status, is_whole, micros, &mut others)
        };
        let found = ALL.map(has_line);
        let found: Vec<usize> = (0..ALL.len()).filter(|at| found[*at]).collect();
        assert_eq!(found, expected, "{selection:?}");
    }

    #[test]
    fn chooses_errors_slow_requests_and_samples() {
        let only = |errors, server_errors, slow| Some(Only { errors, server_errors, slow });
        check(None, None, &[0, 1, 2, 3, 4]);
        check(only(true, false, false), None, &[1, 2, 3]);
        check(only(false, true, false), None, &[2, 3]);
        check(only(false, false, true), None, &[4]);
        check(only(true, false, true), None, &[1, 2, 3, 4]);
        check(None, Some(2), &[0, 2, 4]);
        check(None, Some(1), &[0, 1, 2, 3, 4]);
        check(only(false, true, false), Some(2), &[0, 2, 3, 4]);
    }
}
