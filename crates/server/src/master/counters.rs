//! The memory that generations count in. It outlives them, and is handed to the program of an upgrade, so that nothing
//! that was counted is lost. The master only reads it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use nix::unistd::Pid;

use crate::clock;
use crate::stats::{Block, CounterMemory, History, Ledger, Values, ZoneSums};

/// Memories of earlier programs, whose generations may still count. The oldest of more of them counts no more.
const MAX_INHERITED: usize = 16;

pub(super) struct Counters {
    /// When the counting began, in seconds since 1970.
    since: i64,
    /// Of generations that have ended.
    past: Values,
    past_zones: ZoneSums,
    /// The names of the zones of the latest generation.
    zones: Vec<String>,
    /// The log lines that the loggers have dropped, in one of the living memories. `None`: there is no logger yet.
    dropped_by_loggers: Option<&'static AtomicU64>,
    living: Vec<(Owner, CounterMemory)>,
    /// `None`: there is no generation yet, or no memory.
    history: Option<Arc<History>>,
}

/// What counts in a memory.
#[derive(PartialEq, Eq)]
enum Owner {
    /// A generation or the loggers of an earlier program, or what it has added up.
    EarlierProgram,
    Generation(Pid),
    Loggers,
}

impl Counters {
    /// With what earlier programs have counted.
    pub(super) fn new(inherited: Vec<CounterMemory>, history: Option<History>) -> Counters {
        let since = inherited.iter().map(|memory| memory.since()).fold(clock::wall(), i64::min);
        let mut past = Values::default();
        let mut past_zones = ZoneSums::default();
        let ended = inherited.len().saturating_sub(MAX_INHERITED);
        for memory in &inherited[..ended] {
            past.add(&memory.sum());
            memory.add_zones(&mut past_zones);
        }
        let living =
            inherited.into_iter().skip(ended).map(|memory| (Owner::EarlierProgram, memory)).collect();
        let history = history.map(Arc::new);
        Counters { since, past, past_zones, zones: Vec::new(), dropped_by_loggers: None, living, history }
    }

    /// Where the loggers count the log lines that they drop. All of them have one number, which outlives them.
    pub(super) fn dropped_by_loggers(&mut self) -> &'static AtomicU64 {
        if let Some(number) = self.dropped_by_loggers {
            return number;
        }
        // Without memory that can be shared, or by a kernel that cannot keep it from being cut, nothing has the count.
        let number = self.share_count().unwrap_or_else(|_| Block::private().dropped_lines());
        self.dropped_by_loggers = Some(number);
        number
    }

    fn share_count(&mut self) -> io::Result<&'static AtomicU64> {
        let memory = CounterMemory::create(1, self.since, &[])?;
        let blocks = CounterMemory::adopt(memory.fd().try_clone()?)?.into_blocks();
        let number = blocks.first().ok_or(io::ErrorKind::InvalidData)?.dropped_lines();
        self.living.push((Owner::Loggers, memory));
        Ok(number)
    }

    /// Memory for a generation that is going to be started, for so many workers and for the zones with these names.
    pub(super) fn create(&mut self, workers: usize, zones: Vec<String>) -> io::Result<CounterMemory> {
        if self.history.is_none() {
            self.history = History::create().ok().map(Arc::new);
        }
        self.zones = zones;
        self.past_zones.keep(&self.zones);
        CounterMemory::create(workers, self.since, &self.zones)
    }

    /// A generation counts in this memory.
    pub(super) fn begin(&mut self, generation: Pid, memory: CounterMemory) {
        memory.begin_generation(clock::wall());
        self.living.push((Owner::Generation(generation), memory));
    }

    pub(super) fn end(&mut self, generation: Pid) {
        let ended = self.living.extract_if(.., |(owner, _)| *owner == Owner::Generation(generation));
        for (_, memory) in ended {
            // The programs of an upgrade see it, too.
            memory.end_generation();
            self.past.add(&memory.sum());
            memory.add_zones(&mut self.past_zones);
        }
    }

    /// What a generation that counts in `own` knows.
    pub(super) fn into_ledger(self, own: CounterMemory) -> Ledger {
        let earlier = self.living.into_iter().map(|(_, memory)| memory.into_counters()).collect();
        Ledger {
            since: self.since,
            past: self.past,
            past_zones: Arc::new(self.past_zones),
            earlier,
            own: own.into_blocks(),
            zones: self.zones.into(),
            history: self.history,
        }
    }

    pub(super) fn history(&self) -> Option<io::Result<OwnedFd>> {
        self.history.as_ref().map(|history| history.fd().try_clone())
    }

    /// What a successor takes over: no more from one upgrade to the next, because the generations and the loggers of the
    /// program before this one, as far as they have ended, are added up.
    pub(super) fn files(&self) -> io::Result<Vec<OwnedFd>> {
        let (mut past, mut past_zones) = (self.past.clone(), self.past_zones.clone());
        let has_ended = |(owner, memory): &&(Owner, CounterMemory)| {
            *owner == Owner::EarlierProgram && memory.sum().began().is_none()
        };
        let (ended, living): (Vec<_>, Vec<_>) = self.living.iter().partition(has_ended);
        for (_, memory) in ended {
            past.add(&memory.sum());
            memory.add_zones(&mut past_zones);
        }
        let past = CounterMemory::of(&past, &past_zones, self.since)?.fd().try_clone()?;
        let living = living.into_iter().map(|(_, memory)| memory.fd().try_clone());
        std::iter::once(Ok(past)).chain(living).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upgrades_hand_over_as_many_memories_each_time_and_lose_no_count() {
        const UPGRADES: u64 = 20;
        let mut inherited = Vec::new();
        let mut lengths = Vec::new();
        for _ in 0..UPGRADES {
            let mut counters = Counters::new(std::mem::take(&mut inherited), None);
            counters.dropped_by_loggers().fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let memory = counters.create(1, Vec::new()).unwrap();
            counters.begin(Pid::from_raw(7), memory);
            let files = counters.files().unwrap();
            lengths.push(files.len());
            inherited = files.into_iter().map(|fd| CounterMemory::adopt(fd).unwrap()).collect();
            // The generation of the earlier program ends behind the upgrade.
            counters.end(Pid::from_raw(7));
        }
        assert_eq!(lengths[2..], [lengths[1]; UPGRADES as usize - 2]);
        let all = Counters::new(inherited, None).into_ledger(CounterMemory::create(1, 0, &[]).unwrap()).sum();
        assert_eq!((all.generations(), all.dropped_lines()), ((UPGRADES, UPGRADES), UPGRADES));
    }
}
