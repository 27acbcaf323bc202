//! Whole lines out of a pipe, however its bytes are cut.

/// A longer line is cut in two.
const MAX_LINE: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct WholeLines {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl WholeLines {
    /// Calls `take` with the lines that are complete, with their ends.
    pub fn receive(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) {
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            self.begun.extend_from_slice(bytes);
            if self.begun.len() > MAX_LINE {
                self.finish(take);
            }
            return;
        };
        let (mut whole, rest) = bytes.split_at(end + 1);
        if !self.begun.is_empty() {
            let first = whole.iter().position(|byte| *byte == b'\n').map_or(whole.len(), |at| at + 1);
            self.begun.extend_from_slice(&whole[..first]);
            take(&self.begun);
            self.begun.clear();
            whole = &whole[first..];
        }
        if !whole.is_empty() {
            take(whole);
        }
        self.begun.extend_from_slice(rest);
    }

    /// The last line may have no end.
    pub fn finish(&mut self, mut take: impl FnMut(&[u8])) {
        if !self.begun.is_empty() {
            self.begun.push(b'\n');
            take(&self.begun);
            self.begun = Vec::new();
        }
    }
}

pub fn count(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_whole_lines_however_they_are_cut() {
        let text = b"one\ntwo\n\nthree\nfo";
        for first in 0..text.len() {
            for second in first..text.len() {
                let (mut lines, mut found) = (WholeLines::default(), Vec::new());
                for piece in [&text[..first], &text[first..second], &text[second..]] {
                    lines.receive(piece, |whole| {
                        assert_eq!(whole.last(), Some(&b'\n'));
                        found.extend_from_slice(whole);
                    });
                }
                lines.finish(|whole| found.extend_from_slice(whole));
                assert_eq!(found, b"one\ntwo\n\nthree\nfo\n", "{first} {second}");
            }
        }
    }

    #[test]
    fn cuts_a_line_without_an_end() {
        let (mut lines, mut found) = (WholeLines::default(), Vec::new());
        for _ in 0..20 {
            lines.receive(&[b'a'; 100_000], |whole| found.push(whole.len()));
        }
        assert_eq!(found, [1_100_001], "the rest waits for its end");
    }
}
