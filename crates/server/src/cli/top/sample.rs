//! What the running program says of itself at one moment: lines of fields with tabs between them (`stats::live`). Pure.
//!
//! A line that this version does not know is left out: the running program may be another version.

use std::collections::HashMap;

use crate::stats::histogram::BUCKETS;

/// One moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    pub version: String,
    pub process: u64,
    /// Seconds.
    pub uptime: u64,
    /// Microseconds since 1970.
    pub time: u64,
    pub counts: HashMap<String, u64>,
    pub first_byte: Buckets,
    pub zones: Vec<Zone>,
    pub endpoints: Vec<Endpoint>,
    pub running: Vec<Request>,
    /// The newest is the first.
    pub last: Vec<Request>,
}

/// How many durations are in each bucket of `stats::histogram`. Empty: there are none.
pub type Buckets = Vec<u64>;

/// A host, or a route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Zone {
    pub name: String,
    /// Responses 1xx to 5xx.
    pub classes: [u64; 5],
    pub bytes: u64,
    pub durations: Buckets,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    pub application: String,
    pub name: String,
    pub state: String,
    /// Seconds in this state.
    pub age: u64,
    pub in_flight: u64,
    pub requests: u64,
    pub failures: u64,
}

/// A request that runs, or has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// What it waits for, or why it ended early.
    pub note: String,
    /// Microseconds: its age, or what it took.
    pub micros: u64,
    /// Seconds since 1970.
    pub time: u64,
    pub client: String,
    pub method: String,
    pub host: String,
    pub target: String,
    /// 0: there is no response yet.
    pub status: u64,
    pub sent: u64,
    /// The ID of its connection. Empty: it is not known.
    pub connection: String,
}

/// Lines that are read: far more than there are.
const MAX_LINES: usize = 20_000;

impl Sample {
    pub fn parse(text: &str) -> Sample {
        let mut sample = Sample::default();
        for line in text.lines().take(MAX_LINES) {
            let mut fields = line.split('\t');
            let kind = fields.next().unwrap_or_default();
            let mut fields = Fields(fields);
            match kind {
                "version" => sample.version = fields.text(),
                "process" => sample.process = fields.number(),
                "uptime" => sample.uptime = fields.number(),
                "time" => sample.time = fields.number(),
                "count" => _ = sample.counts.insert(fields.text(), fields.number()),
                "first_byte" => sample.first_byte = fields.buckets(),
                "zone" => sample.zones.push(Zone {
                    name: fields.text(),
                    classes: std::array::from_fn(|_| fields.number()),
                    bytes: fields.number(),
                    durations: fields.buckets(),
                }),
                "endpoint" => sample.endpoints.push(Endpoint {
                    application: fields.text(),
                    name: fields.text(),
                    state: fields.text(),
                    age: fields.number(),
                    in_flight: fields.number(),
                    requests: fields.number(),
                    failures: fields.number(),
                }),
                "running" => sample.running.push(fields.request()),
                "last" => sample.last.push(fields.request()),
                _ => {}
            }
        }
        sort::by_key(&mut sample.running, |request| std::cmp::Reverse(request.micros));
        sort::by_key(&mut sample.last, |request| std::cmp::Reverse(request.time));
        sample
    }

    pub fn count(&self, key: &str) -> u64 {
        self.counts.get(key).copied().unwrap_or(0)
    }
}

struct Fields<'a>(std::str::Split<'a, char>);

impl Fields<'_> {
    fn text(&mut self) -> String {
        self.0.next().unwrap_or_default().to_owned()
    }

    fn number(&mut self) -> u64 {
        self.0.next().and_then(|field| field.parse().ok()).unwrap_or(0)
    }

    /// `BUCKET:COUNT` for each that is not empty, with spaces between them.
    fn buckets(&mut self) -> Buckets {
        let mut buckets = Vec::new();
        for pair in self.0.next().unwrap_or_default().split(' ') {
            let Some((at, count)) = pair.split_once(':') else { continue };
            let (Ok(at), Ok(count)) = (at.parse::<usize>(), count.parse()) else { continue };
            if at < BUCKETS {
                buckets.resize(BUCKETS, 0);
                buckets[at] = count;
            }
        }
        buckets
    }

    fn request(&mut self) -> Request {
        Request {
            note: self.text(),
            micros: self.number(),
            time: self.number(),
            client: self.text(),
            method: self.text(),
            host: self.text(),
            target: self.text(),
            status: self.number(),
            sent: self.number(),
            connection: self.text(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_knows_and_leaves_out_the_rest() {
        let text = "version\t1.2\nprocess\t7\nfuture\tx\ncount\tbytes\t5\nfirst_byte\t3:2 70:1\n\
                    zone\ta.example /x\t0\t1\t2\t3\t4\t99\t1:1 9999:1 x:1\n\
                    endpoint\tapp\t10.0.0.1:80\tup\t3\t2\t1\t0\n\
                    last\t\t10\t5\t::1\tGET\th\t/old\t200\t1\nlast\t\t10\t6\t::1\tGET\th\t/new\t404\t1\n\
                    running\trespond\t10\n\
                    running\tsend\t20\t5\t::1\tGET\th\t/\t200\t1\t1a2b\ncount\n\n";
        let sample = Sample::parse(text);
        assert_eq!((sample.version.as_str(), sample.process, sample.count("bytes")), ("1.2", 7, 5));
        assert_eq!((sample.first_byte[3], sample.first_byte[70], sample.first_byte.len()), (2, 1, BUCKETS));
        assert_eq!((sample.zones[0].classes, sample.zones[0].bytes), ([0, 1, 2, 3, 4], 99));
        assert_eq!(sample.zones[0].durations.iter().sum::<u64>(), 1);
        assert_eq!((sample.endpoints[0].state.as_str(), sample.endpoints[0].in_flight), ("up", 2));
        let targets: Vec<&str> = sample.last.iter().map(|request| request.target.as_str()).collect();
        assert_eq!(targets, ["/new", "/old"]);
        assert_eq!(sample.running.iter().map(|request| request.micros).collect::<Vec<_>>(), [20, 10]);
        assert_eq!((&*sample.running[0].connection, &*sample.running[1].connection), ("1a2b", ""));
    }
}
