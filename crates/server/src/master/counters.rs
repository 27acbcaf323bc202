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
    /// Of earlier programs, of this one's generations, and of its loggers.
    living: Vec<(Option<Pid>, CounterMemory)>,
    /// `None`: there is no generation yet, or no memory.
    history: Option<Arc<History>>,
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
        let living = inherited.into_iter().skip(ended).map(|memory| (None, memory)).collect();
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
        self.living.push((None, memory));
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
        self.living.push((Some(generation), memory));
    }

    pub(super) fn end(&mut self, generation: Pid) {
        let ended = self.living.extract_if(.., |(pid, _)| *pid == Some(generation));
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

    /// What a successor takes over.
    pub(super) fn files(&self) -> io::Result<Vec<OwnedFd>> {
        let past = CounterMemory::of(&self.past, &self.past_zones, self.since)?.fd().try_clone()?;
        let living = self.living.iter().map(|(_, memory)| memory.fd().try_clone());
        std::iter::once(Ok(past)).chain(living).collect()
    }
}
