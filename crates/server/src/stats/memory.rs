//! The memory that the counters of a process are in. The master makes it before it forks the process, so that no count
//! is lost when the process ends, in whatever way, and so that a later process can add it up. It describes itself:
//! another version of the program finds in it the counters that both have.

use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::{BLOCK, Block, Values, ZONE, ZoneValues, begin_generation, end_generation, parts};
use crate::sys::SharedNumbers;

/// The first number: `taipan 1`.
const MAGIC: u64 = u64::from_le_bytes(*b"taipan 1");
/// Magic, the beginning in seconds since 1970, the numbers of a block, the blocks, and the bytes of the description.
const HEADER: usize = 5;
const WORD: usize = size_of::<u64>();
/// The largest memory that is taken over: hundreds of workers that count a thousand zones each.
const MAX_BYTES: u64 = 4 << 30;
/// The longest description that is read: a thousand zones with long names.
const MAX_DESCRIPTION: u64 = 2 << 20;
/// What the line of a zone in the description begins with.
const ZONE_LINE: &str = "zone ";

/// Counters in memory that other processes can be given.
pub struct CounterMemory {
    counters: SharedCounters,
    fd: OwnedFd,
}

/// One block of counters for each worker of a process.
pub struct SharedCounters {
    numbers: SharedNumbers,
    /// Where the blocks begin.
    start: usize,
    /// Numbers of a block.
    block: usize,
}

/// The parts of a block that this program knows.
#[derive(Default)]
struct Places {
    /// Where numbers are in the block, where in one of this program, and how many follow.
    numbers: Vec<(usize, usize, usize)>,
    /// The names of zones, and where they begin.
    zones: Vec<(String, usize)>,
}

impl CounterMemory {
    /// All counters are 0. `since`: when the counting began, in seconds since 1970. `zones`: their names.
    pub fn create(blocks: usize, since: i64, zones: &[String]) -> io::Result<CounterMemory> {
        let description = describe(zones);
        let start = HEADER + description.len().div_ceil(WORD);
        let block = BLOCK + zones.len() * ZONE;
        let (numbers, fd) = SharedNumbers::create("taipan-counters", start + blocks * block)?;
        let header = [MAGIC, since as u64, block as u64, blocks as u64, description.len() as u64];
        let words = description.as_bytes().chunks(WORD).map(|chunk| {
            let mut word = [0; WORD];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        for (number, value) in numbers.get().iter().zip(header.into_iter().chain(words)) {
            number.store(value, Ordering::Relaxed);
        }
        Ok(CounterMemory { counters: SharedCounters { numbers, start, block }, fd })
    }

    /// One block with these values.
    pub fn of(values: &Values, zones: &ZoneSums, since: i64) -> io::Result<CounterMemory> {
        let names: Vec<String> = zones.iter().map(|(name, _)| name.to_owned()).collect();
        let memory = CounterMemory::create(1, since, &names)?;
        let values = values.all().iter().chain(zones.iter().flat_map(|(_, zone)| zone.all()));
        for (number, value) in memory.blocks().flatten().zip(values) {
            number.store(*value, Ordering::Relaxed);
        }
        Ok(memory)
    }

    /// The counters of another program. Errors: the file has none, or could be cut while it is in use.
    pub fn adopt(fd: OwnedFd) -> io::Result<CounterMemory> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let numbers = SharedNumbers::adopt(fd.as_fd(), MAX_BYTES)?;
        let count = numbers.get().len();
        if count < HEADER {
            return Err(invalid());
        }
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
        Ok(CounterMemory { counters: SharedCounters { numbers, start, block: block as usize }, fd })
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// For a process that only reads them, and needs no descriptor for that.
    pub fn into_counters(self) -> SharedCounters {
        self.counters
    }

    /// The blocks of its workers, for as long as the process lives. For the process that counts in it.
    pub fn into_blocks(self) -> Vec<Block> {
        let SharedCounters { numbers, start, block } = self.counters;
        let blocks = numbers.leak()[start..].chunks_exact(block.max(1));
        let split = blocks.filter_map(<[_]>::split_first_chunk);
        split.map(|(counts, zones)| Block { counts, zones }).collect()
    }
}

impl Deref for CounterMemory {
    type Target = SharedCounters;

    fn deref(&self) -> &SharedCounters {
        &self.counters
    }
}

impl SharedCounters {
    /// A process counts in it from now on.
    pub fn begin_generation(&self, now: i64) {
        self.blocks().take(1).for_each(|block| begin_generation(block, now));
    }

    /// The process that has counted in it has ended.
    pub fn end_generation(&self) {
        self.blocks().take(1).for_each(end_generation);
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
        let places = self.places().numbers;
        for block in self.blocks() {
            for (from, to, length) in &places {
                for step in 0..*length {
                    sum.add_at(to + step, block[from + step].load(Ordering::Relaxed));
                }
            }
        }
        sum
    }

    /// Adds the zones of all its workers.
    pub fn add_zones(&self, sums: &mut ZoneSums) {
        for (name, at) in self.places().zones {
            self.blocks().for_each(|block| sums.of(&name).add(&block[at..]));
        }
    }

    fn places(&self) -> Places {
        let words = &self.numbers.get()[HEADER..self.start];
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        let description = String::from_utf8_lossy(&bytes);
        let mut places = Places::default();
        let mut from = 0_usize;
        for line in description.lines() {
            let Some((name, length)) = line.rsplit_once(' ') else { break };
            let Ok(length) = length.parse::<usize>() else { break };
            let Some(end) = from.checked_add(length).filter(|end| *end <= self.block) else { break };
            match name.strip_prefix(ZONE_LINE) {
                Some(zone) if length == ZONE => places.zones.push((zone.to_owned(), from)),
                Some(_) => {}
                None => {
                    let mut to = 0;
                    for (own, own_length) in parts() {
                        if own == name && own_length == length {
                            places.numbers.push((from, to, length));
                        }
                        to += own_length;
                    }
                }
            }
            from = end;
        }
        places
    }
}

/// A line for each part of a block.
fn describe(zones: &[String]) -> String {
    let zones = zones.iter().map(|name| format!("{ZONE_LINE}{name} {ZONE}\n"));
    parts().map(|(name, length)| format!("{name} {length}\n")).chain(zones).collect()
}

/// What was counted for zones, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZoneSums(BTreeMap<String, ZoneValues>);

/// Zones that are kept of configurations that are not served any more. What is counted for others is given up.
const MAX_KEPT: usize = 2000;

impl ZoneSums {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ZoneValues)> {
        self.0.iter().map(|(name, values)| (name.as_str(), values))
    }

    pub fn get(&self, name: &str) -> Option<&ZoneValues> {
        self.0.get(name)
    }

    pub fn of(&mut self, name: &str) -> &mut ZoneValues {
        self.0.entry(name.to_owned()).or_default()
    }

    /// Keeps these zones, and others as far as there is room.
    pub fn keep(&mut self, names: &[String]) {
        let mut room = MAX_KEPT;
        self.0.retain(|name, _| {
            room = room.saturating_sub(1);
            room > 0 || names.contains(name)
        });
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use site::model::{Site, Statistics};
    use site::zones::{Zones, ZonesOf};
    use taipan_http::head::{FieldStore, Limits, parse};
    use taipan_http::status::Status;

    use super::*;
    use crate::stats::layout::{Count, Counts};

    /// Those of a host and a route.
    fn zones_of_a_request() -> ZonesOf {
        let statistics = Statistics { hosts: 1, routes: 1 };
        let site = Site { statistics, ..Site::folder("/srv".into(), Vec::new()) };
        let (mut store, request) = (FieldStore::new(), b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let head =
            parse(request, &mut store, &Limits::default()).expect("it is valid").expect("it is complete");
        Zones::of(&site).expect("it counts").find(0, Some(&head.0), None)
    }

    #[test]
    fn another_process_reads_what_one_has_counted() {
        let memory = CounterMemory::create(2, 7, &[]).expect("there is memory");
        let other = memory.fd().try_clone().expect("there are descriptors");
        for (number, block) in memory.into_blocks().into_iter().enumerate() {
            Counts::over(block).add(Count::Bytes, 10 + number as u64);
        }
        let other = CounterMemory::adopt(other).expect("it is one");
        assert_eq!((other.since(), other.sum().get(Count::Bytes)), (7, 21));
        let copy = CounterMemory::of(&other.sum(), &ZoneSums::default(), 7).expect("there is memory");
        assert_eq!(copy.sum().all(), other.sum().all());
    }

    #[test]
    fn zones_are_added_up_by_their_names() {
        let names = ["host a.example", "route a.example /b c/"].map(str::to_owned);
        let memory = CounterMemory::create(2, 7, &names).expect("there is memory");
        let other = memory.fd().try_clone().expect("there are descriptors");
        for block in memory.into_blocks() {
            Counts::over(block).add_to_zones(zones_of_a_request(), Status::NOT_FOUND, 100, 2_000);
        }
        let other = CounterMemory::adopt(other).expect("it is one");
        let mut sums = ZoneSums::default();
        other.add_zones(&mut sums);
        let copy = CounterMemory::of(&other.sum(), &sums, 7).expect("there is memory");
        copy.add_zones(&mut sums);
        for name in &names {
            let values = sums.get(name).expect("it is there");
            assert_eq!((values.classes(), values.bytes()), (&[0, 0, 0, 4, 0][..], 400));
            assert_eq!((values.durations().1, values.responses()), (8_000, 4));
        }
        sums.keep(&names);
        assert_eq!(sums.iter().count(), 2);
    }

    #[test]
    fn a_version_with_other_counters_is_read_by_their_names() {
        let memory = CounterMemory::of(&Values::default(), &ZoneSums::default(), 1).expect("there is memory");
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
