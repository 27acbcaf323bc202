//! Lines that wait for a command or a peer, as many as a limit allows, and what was written last: a command that ends,
//! or a connection that fails, has not read all of it. Pure.

use std::collections::VecDeque;

use super::lines::count;

/// Bytes of what was written last that are kept. A pipe holds no more (pipe(7)), and the sockets are limited to less.
const WRITTEN: usize = 256 * 1024;

#[derive(Debug)]
pub struct Queue {
    blocks: VecDeque<Vec<u8>>,
    /// Bytes of the first block that are written.
    at: usize,
    /// Bytes in `blocks`.
    bytes: usize,
    limit: usize,
    /// Begins with a line.
    written: Vec<u8>,
    /// Lines that were dropped and are not reported yet.
    lost: u64,
}

impl Queue {
    pub fn new(limit: usize) -> Queue {
        Queue { blocks: VecDeque::new(), at: 0, bytes: 0, limit, written: Vec::new(), lost: 0 }
    }

    /// Adds whole lines. Those beyond the limit are dropped and counted.
    pub fn push(&mut self, lines: &[u8]) {
        let most = self.limit.saturating_sub(self.bytes).min(lines.len());
        let taken = match most == lines.len() {
            true => most,
            false => lines[..most].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1),
        };
        self.lost += count(&lines[taken..]);
        if taken > 0 {
            self.bytes += taken;
            self.blocks.push_back(lines[..taken].to_vec());
        }
    }

    /// The bytes to be written next.
    pub fn front(&self) -> Option<&[u8]> {
        self.blocks.front().map(|block| &block[self.at..])
    }

    /// The first blocks that have together no more bytes than `most`, but at least one.
    pub fn gather(&self, most: usize) -> Vec<u8> {
        let mut gathered = Vec::new();
        for block in &self.blocks {
            if !gathered.is_empty() && gathered.len() + block.len() > most {
                break;
            }
            gathered.extend_from_slice(block);
        }
        gathered
    }

    /// Removes what was gathered. So many lines of it are lost, at most all.
    pub fn remove(&mut self, gathered: &[u8], lost: u64) {
        let mut left = gathered.len();
        while let Some(block) = self.blocks.pop_front_if(|block| block.len() <= left) {
            left -= block.len();
            self.bytes -= block.len();
        }
        self.lost += lost.min(count(gathered));
    }

    /// So many bytes of the front have been written.
    pub fn advance(&mut self, count: usize) {
        let Some(block) = self.blocks.front() else { return };
        self.written.extend_from_slice(&block[self.at..self.at + count]);
        if self.written.len() > 2 * WRITTEN {
            let from = self.written.len() - WRITTEN;
            let rest = self.written[from..].iter().position(|byte| *byte == b'\n');
            self.written.drain(..rest.map_or(self.written.len(), |at| from + at + 1));
        }
        self.at += count;
        if self.at == block.len() {
            self.bytes -= block.len();
            self.at = 0;
            self.blocks.pop_front();
        }
    }

    /// The reader has ended, and has not read the last `unread` bytes. They are written again, from the start of their
    /// first line on: the next reader gets whole lines.
    pub fn rewind(&mut self, unread: usize) {
        let written = std::mem::take(&mut self.written);
        let read = written.len().saturating_sub(unread);
        let is_torn = self.at > 0 || unread > 0;
        let line_start =
            |upto: usize| written[..upto].iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        // What is kept begins with a line.
        let start = if is_torn { line_start(read).unwrap_or(0) } else { written.len() };
        let mut again = written[start..].to_vec();
        if let Some(block) = self.blocks.pop_front() {
            self.bytes -= block.len();
            again.extend_from_slice(&block[self.at..]);
        }
        self.at = 0;
        if !again.is_empty() {
            self.bytes += again.len();
            self.blocks.push_front(again);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Drops all that waits. It counts as lost.
    pub fn clear(&mut self) {
        self.lost += self.blocks.iter().map(|block| count(block)).sum::<u64>();
        self.blocks.clear();
        (self.at, self.bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(queue: &Queue) -> String {
        let at = queue.at;
        let text = queue.blocks.iter().flatten().skip(at).copied().collect();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn drops_and_counts_the_lines_beyond_its_limit() {
        let mut queue = Queue::new(10);
        queue.push(b"one\ntwo\nthree\n");
        assert_eq!((all(&queue).as_str(), queue.take_lost()), ("one\ntwo\n", 1));
        queue.push(b"4\n5\n");
        assert_eq!((all(&queue).as_str(), queue.take_lost()), ("one\ntwo\n4\n", 1));
        queue.advance(3);
        queue.clear();
        assert_eq!((queue.take_lost(), queue.is_empty()), (3, true));
        queue.push(b"one\ntwo\n4\n");
        assert_eq!(queue.take_lost(), 0, "the bytes are counted");
    }

    #[test]
    fn writes_again_what_was_not_read_from_the_start_of_a_line() {
        let check = |written: usize, unread: usize, expected: &str| {
            let mut queue = Queue::new(100);
            queue.push(b"one\ntwo\n");
            queue.push(b"three\nfour\n");
            let first = written.min(8);
            queue.advance(first);
            if written > first {
                queue.advance(written - first);
            }
            queue.rewind(unread);
            assert_eq!((all(&queue).as_str(), queue.take_lost()), (expected, 0), "{written} {unread}");
        };
        check(0, 0, "one\ntwo\nthree\nfour\n");
        check(8, 0, "three\nfour\n");
        check(8, 2, "two\nthree\nfour\n");
        check(8, 4, "two\nthree\nfour\n");
        check(8, 8, "one\ntwo\nthree\nfour\n");
        check(10, 0, "three\nfour\n");
        check(10, 1, "three\nfour\n");
        check(10, 3, "two\nthree\nfour\n");
        check(19, 0, "");
        check(19, 1, "four\n");
    }

    #[test]
    fn gathers_whole_blocks() {
        let mut queue = Queue::new(100);
        for block in ["one\ntwo\n", "three\n", "four\n"] {
            queue.push(block.as_bytes());
        }
        assert_eq!(queue.gather(1), b"one\ntwo\n");
        let gathered = queue.gather(14);
        assert_eq!(gathered, b"one\ntwo\nthree\n");
        queue.remove(&gathered, 1);
        assert_eq!((all(&queue).as_str(), queue.take_lost(), queue.bytes), ("four\n", 1, 5));
        queue.remove(b"four\n", u64::MAX);
        assert_eq!((queue.is_empty(), queue.take_lost(), queue.bytes), (true, 1, 0));
    }

    #[test]
    fn writes_again_no_more_than_it_keeps() {
        let mut queue = Queue::new(1 << 30);
        let line = [[b'x'; 99].as_slice(), b"\n"].concat();
        for _ in 0..20_000 {
            queue.push(&line);
            queue.advance(100);
        }
        queue.rewind(usize::MAX);
        assert!(all(&queue).len() <= 2 * WRITTEN && all(&queue).len() >= WRITTEN - 200);
        assert!(all(&queue).len().is_multiple_of(100), "whole lines");
    }
}
