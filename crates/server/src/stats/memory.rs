//! The memory that the counters of a process are in. The master makes it before it forks the process, so that no count is
//! lost when the process ends, in whatever way, and so that a later process can add it up. It describes itself: another
//! version of the program finds in it the counters that both have.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};

use super::layout::{BLOCK, Values, parts};
use crate::sys::SharedNumbers;

/// The first number: `taipan 1`.
const MAGIC: u64 = u64::from_le_bytes(*b"taipan 1");
/// Magic, the beginning in seconds since 1970, the numbers of a block, the blocks, and the bytes of the description.
const HEADER: usize = 5;
const WORD: usize = size_of::<u64>();
/// The largest memory that is taken over: a thousand workers.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The longest description that is read.
const MAX_DESCRIPTION: u64 = 64 * 1024;

/// One block of counters for each worker of a process.
pub struct CounterMemory {
    numbers: SharedNumbers,
    fd: OwnedFd,
    /// Where the blocks begin.
    start: usize,
    /// Numbers of a block.
    block: usize,
}

impl CounterMemory {
    /// With zeros. `since`: when the counting began, in seconds since 1970.
    pub fn create(blocks: usize, since: i64) -> io::Result<CounterMemory> {
        let description = describe();
        let start = HEADER + description.len().div_ceil(WORD);
        let fd = memfd_create("taipan-counters", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let count = start + blocks * BLOCK;
        ftruncate(&fd, (count * WORD) as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let numbers = SharedNumbers::map(fd.as_fd(), count)?;
        let header = [MAGIC, since as u64, BLOCK as u64, blocks as u64, description.len() as u64];
        let words = description.as_bytes().chunks(WORD).map(|chunk| {
            let mut word = [0; WORD];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        for (number, value) in numbers.get().iter().zip(header.into_iter().chain(words)) {
            number.store(value, Ordering::Relaxed);
        }
        Ok(CounterMemory { numbers, fd, start, block: BLOCK })
    }

    /// With one block that has these values.
    pub fn of(values: &Values, since: i64) -> io::Result<CounterMemory> {
        let memory = CounterMemory::create(1, since)?;
        for (number, value) in memory.blocks().flatten().zip(values.all()) {
            number.store(*value, Ordering::Relaxed);
        }
        Ok(memory)
    }

    /// That of another program. Errors: it is none, or could be cut while it is in use.
    pub fn adopt(fd: OwnedFd) -> io::Result<CounterMemory> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        if !fcntl_get_seals(&fd)?.contains(SealFlags::SHRINK) {
            return Err(invalid());
        }
        let bytes = u64::try_from(fstat(&fd)?.st_size).ok().filter(|bytes| *bytes <= MAX_BYTES);
        let count = bytes.ok_or_else(invalid)? as usize / WORD;
        if count < HEADER {
            return Err(invalid());
        }
        let numbers = SharedNumbers::map(fd.as_fd(), count)?;
        let at = |at: usize| numbers.get()[at].load(Ordering::Relaxed);
        let (magic, block, blocks, description) = (at(0), at(2), at(3), at(4));
        if magic != MAGIC || description > MAX_DESCRIPTION {
            return Err(invalid());
        }
        let start = HEADER + (description as usize).div_ceil(WORD);
        let needed = block.checked_mul(blocks).and_then(|cells| cells.checked_add(start as u64));
        if needed != Some(count as u64) {
            return Err(invalid());
        }
        Ok(CounterMemory { numbers, fd, start, block: block as usize })
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    pub fn since(&self) -> i64 {
        self.numbers.get()[1].load(Ordering::Relaxed) as i64
    }

    fn blocks(&self) -> impl Iterator<Item = &[AtomicU64]> {
        self.numbers.get()[self.start..].chunks_exact(self.block.max(1))
    }

    /// The counters of all its workers together.
    pub fn sum(&self) -> Values {
        let mut sum = Values::default();
        let places = self.places();
        for block in self.blocks() {
            for (from, to, length) in &places {
                for step in 0..*length {
                    sum.add_at(to + step, block[from + step].load(Ordering::Relaxed));
                }
            }
        }
        sum
    }

    /// The blocks of its workers, for as long as the process lives. For the process that counts in it.
    pub fn into_blocks(self) -> Vec<&'static [AtomicU64; BLOCK]> {
        let CounterMemory { numbers, start, .. } = self;
        numbers.leak()[start..].as_chunks().0.iter().collect()
    }

    /// Where the numbers that this program knows are in a block, where in one of its own, and how many follow.
    fn places(&self) -> Vec<(usize, usize, usize)> {
        let words = &self.numbers.get()[HEADER..self.start];
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        let description = String::from_utf8_lossy(&bytes);
        let mut places = Vec::new();
        let mut from = 0_usize;
        for line in description.lines() {
            let Some((name, length)) = line.split_once(' ') else { break };
            let Ok(length) = length.parse::<usize>() else { break };
            let Some(to_own) = from.checked_add(length).filter(|end| *end <= self.block) else { break };
            let mut to = 0;
            for (own, own_length) in parts() {
                if own == name && own_length == length {
                    places.push((from, to, length));
                }
                to += own_length;
            }
            from = to_own;
        }
        places
    }
}

/// A line for each part of a block.
fn describe() -> String {
    parts().map(|(name, length)| format!("{name} {length}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::layout::{Count, Counts};

    #[test]
    fn another_process_reads_what_one_has_counted() {
        let memory = CounterMemory::create(2, 7).expect("there is memory");
        let other = memory.fd().try_clone().expect("there are descriptors");
        for (number, block) in memory.into_blocks().into_iter().enumerate() {
            Counts::over(block).add(Count::Bytes, 10 + number as u64);
        }
        let other = CounterMemory::adopt(other).expect("it is one");
        assert_eq!((other.since(), other.sum().get(Count::Bytes)), (7, 21));
        let copy = CounterMemory::of(&other.sum(), 7).expect("there is memory");
        assert_eq!(copy.sum().all(), other.sum().all());
    }

    #[test]
    fn a_version_with_other_counters_is_read_by_their_names() {
        let memory = CounterMemory::of(&Values::default(), 1).expect("there is memory");
        // As a program would describe it whose first counter this one does not know.
        let words = &memory.numbers.get()[HEADER..memory.start];
        let name = parts().next().map(|(name, _)| name).unwrap_or_default();
        words[0].store(words[0].load(Ordering::Relaxed) & !0xff | u64::from(b'X'), Ordering::Relaxed);
        assert!(!name.starts_with('X'));
        memory.blocks().flatten().for_each(|number| number.store(3, Ordering::Relaxed));
        let sum = memory.sum();
        assert_eq!((sum.all()[0], sum.all()[1]), (0, 3));
    }

    #[test]
    fn adopts_nothing_that_is_invalid_or_can_be_cut() {
        let file = |bytes: &[u8], seals| {
            let fd = memfd_create("test", MemfdFlags::ALLOW_SEALING).expect("there is memory");
            rustix::io::write(&fd, bytes).expect("it can be written");
            fcntl_add_seals(&fd, seals).expect("it can be sealed");
            CounterMemory::adopt(fd).is_err()
        };
        let numbers = |all: &[u64]| all.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        let valid = numbers(&[MAGIC, 0, 0, 0, 0]);
        assert!(!file(&valid, SealFlags::SHRINK));
        assert!(file(&valid, SealFlags::GROW));
        for invalid in [
            &[][..],
            &numbers(&[MAGIC, 0, 0, 0]),
            &numbers(&[MAGIC + 1, 0, 0, 0, 0]),
            &numbers(&[MAGIC, 0, 1, 1, 0]),
            &numbers(&[MAGIC, 0, u64::MAX, 2, 0]),
            &numbers(&[MAGIC, 0, 0, 0, u64::MAX]),
        ] {
            assert!(file(invalid, SealFlags::SHRINK), "{invalid:?}");
        }
    }
}
