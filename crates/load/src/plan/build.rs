//! Makes a plan of options: reads lists and logs, resolves hosts, and rejects contradictions.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::options::{Body, CloseWord, Options, OrderWord, TIME, VersionWord};
use super::target::Url;
use super::{Endpoint, Order, Pace, Plan, Protocol, Request, Reuse, Stop, Target, TlsSettings};
use crate::shape::Closing;
use crate::urls::{Entry, Environment, list, log, pattern};

/// A plan, and notes to print before the run.
#[derive(Debug)]
pub struct Built {
    pub plan: Plan,
    pub notes: Vec<String>,
}

/// Errors: a sentence that says what to change.
pub fn build(options: &Options, environment: &dyn Environment) -> Result<Built, String> {
    contradictions(options)?;
    let mut notes = Vec::new();
    let entries = entries(options, environment, &mut notes)?;
    let plan = build_from(options, &entries, environment)?;
    Ok(Built { plan, notes })
}

/// Makes a plan of entries that were read already.
pub fn build_from(
    options: &Options,
    entries: &[Entry],
    environment: &dyn Environment,
) -> Result<Plan, String> {
    let (protocol, reuse) = (protocol(options), reuse(options));
    let mut gathered = Gathered::new(options, environment)?;
    for entry in entries {
        gathered.add(entry)?;
    }
    let Gathered { targets, requests, steps, .. } = gathered;
    let requests: Vec<Request> = requests
        .into_iter()
        .map(|request| {
            let target = &targets[request.target];
            request.with_bytes(target, protocol, reuse)
        })
        .collect();
    let (order, pace) = schedule(options, entries, steps);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = Stop {
        requests: options.requests,
        // A replay ends with its log.
        time: options.time.or(match (options.requests, &pace) {
            (None, Pace::Closed | Pace::Open { .. }) => Some(TIME),
            _ => None,
        }),
    };
    Ok(Plan {
        targets,
        requests,
        order,
        pace,
        stop,
        connections: options.connections,
        threads: options.threads.unwrap_or(cores).clamp(1, options.connections),
        reuse,
        protocol,
        think: options.think,
        ramp: options.ramp,
        warm_up: options.warm_up,
        timeout: options.timeout,
        sources: options.sources.clone(),
        statuses: options.statuses.clone(),
        check: options.check.clone(),
        shape: options.shape,
        tls: TlsSettings {
            trust: options.trust.clone(),
            resumption: options.resumption,
            server_name: options.server_name.clone(),
        },
        seed: options.seed,
    })
}

fn protocol(options: &Options) -> Protocol {
    match options.version {
        VersionWord::Http10 => Protocol::Http10,
        VersionWord::Http11 => Protocol::Http11 { pipelined: options.pipelined },
        VersionWord::Http2 => Protocol::Http2 { streams: options.streams },
    }
}

fn reuse(options: &Options) -> Reuse {
    match (options.close, options.shape.closing) {
        // A connection that is half closed or reset carries no second request.
        (_, Closing::HalfClose | Closing::AbortAfter(_)) => Reuse::PerRequest,
        (None, Closing::Polite) => Reuse::KeepAlive,
        (Some(CloseWord::AfterEach | CloseWord::After(1)), Closing::Polite) => Reuse::PerRequest,
        (Some(CloseWord::After(requests)), Closing::Polite) => Reuse::Session(requests),
    }
}

fn contradictions(options: &Options) -> Result<(), String> {
    let refuse = |why: &str| Err(why.to_owned());
    let shape = options.shape;
    let slow = shape.write_head.is_some() || shape.write_body.is_some();
    match options.version {
        VersionWord::Http2 if options.pipelined > 1 => {
            refuse("--pipeline is for HTTP/1.1; with --http 2 use --streams")
        }
        VersionWord::Http10 if options.pipelined > 1 => {
            refuse("HTTP/1.0 has no pipelining; leave --http 1.0 out")
        }
        VersionWord::Http10 | VersionWord::Http11 if options.streams > 1 => {
            refuse("--streams is for HTTP/2; add --http 2")
        }
        VersionWord::Http2 if slow || shape.closing == Closing::HalfClose => {
            refuse("--slow-head, --slow-body and --half-close are for HTTP/1; leave --http 2 out")
        }
        _ if options.pipelined > 1 && (slow || shape.closing != Closing::Polite) => refuse(
            "--pipeline does not go with --slow-head, --slow-body, --half-close or --abort: leave it out",
        ),
        _ if options.rate.is_some() && options.order == Some(OrderWord::Replay) => {
            refuse("a replay has the pace of its log: leave --rate out, or use --order sequence")
        }
        _ if options.order == Some(OrderWord::Replay) && options.log.is_none() => {
            refuse("--order replay needs an access log: --log FILE")
        }
        _ if options.rate.is_some() && !options.think.most.is_zero() => {
            refuse("with --rate the clock starts the requests: leave --think out")
        }
        _ if options.log.is_some() && options.urls.len() != 1 => {
            refuse("with --log, give one URL: that of the server which gets the log's requests")
        }
        _ if options.unix.is_some() && options.connect_to.is_some() => {
            refuse("give --unix or --connect-to, not both")
        }
        _ if options.urls.is_empty() && options.lists.is_empty() => {
            refuse("no URL: give a URL, or a file of URLs with --urls FILE")
        }
        _ => Ok(()),
    }
}

fn entries(
    options: &Options,
    environment: &dyn Environment,
    notes: &mut Vec<String>,
) -> Result<Vec<Entry>, String> {
    let text = |path: &Path| {
        let bytes = environment.read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
    };
    if let Some(path) = &options.log {
        let log = log::parse(&text(path)?);
        if log.entries.is_empty() {
            return Err(format!("{}: no line is a request in common or combined format", path.display()));
        }
        if log.skipped > 0 {
            let noun = if log.skipped == 1 { "line" } else { "lines" };
            notes.push(format!("{}: skipped {} {noun} that cannot be repeated", path.display(), log.skipped));
        }
        return Ok(log.entries);
    }
    let mut entries = Vec::new();
    for path in &options.lists {
        let folder = path.parent().unwrap_or(Path::new(""));
        let read = list::parse(&text(path)?, folder, environment)
            .map_err(|(line, why)| format!("{}:{line}: {why}", path.display()))?;
        if read.is_empty() {
            return Err(format!("{}: contains no URL", path.display()));
        }
        entries.extend(read);
    }
    // With a list, the URL argument is the base of URLs without a host.
    if options.lists.is_empty() {
        for url in &options.urls {
            entries.extend(pattern::expand(url)?.into_iter().map(Entry::get));
        }
    }
    Ok(entries)
}

/// The different requests, and the order in which the sources name them.
struct Gathered<'o> {
    options: &'o Options,
    base: Option<Url>,
    body: Vec<u8>,
    targets: Vec<Target>,
    requests: Vec<Request>,
    steps: Vec<u32>,
    known: HashMap<(String, String, Vec<u8>), u32>,
}

impl<'o> Gathered<'o> {
    fn new(options: &'o Options, environment: &dyn Environment) -> Result<Gathered<'o>, String> {
        let base = match options.urls.first() {
            Some(url) if !options.lists.is_empty() || options.log.is_some() => Some(Url::parse(url)?),
            _ => None,
        };
        let body = match &options.body {
            None => Vec::new(),
            Some(Body::Text(text)) => text.as_bytes().to_vec(),
            Some(Body::File(path)) => {
                environment.read(path).map_err(|error| format!("{}: {error}", path.display()))?
            }
        };
        Ok(Gathered {
            options,
            base,
            body,
            targets: Vec::new(),
            requests: Vec::new(),
            steps: Vec::new(),
            known: HashMap::new(),
        })
    }

    fn add(&mut self, entry: &Entry) -> Result<(), String> {
        let url = self.url(&entry.url)?;
        let body = entry.body.as_ref().unwrap_or(&self.body).clone();
        let method = entry.method.clone().or_else(|| self.options.method.clone());
        let method = method.unwrap_or_else(|| if body.is_empty() { "GET" } else { "POST" }.to_owned());
        let key = (method, url.text(), body);
        let request = match self.known.get(&key) {
            Some(&known) => known,
            None => {
                let (method, text, body) = key.clone();
                let target = self.target(&url)?;
                let mut fields = self.options.fields.clone();
                let has_type = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
                if let (Some(kind), false) = (&entry.content_type, has_type) {
                    fields.push(("Content-Type".to_owned(), kind.clone()));
                }
                self.requests.push(Request {
                    url: text,
                    target,
                    method,
                    path: url.path,
                    fields,
                    body,
                    weight: 0,
                    bytes: Vec::new(),
                    head_length: 0,
                });
                let new = (self.requests.len() - 1) as u32;
                self.known.insert(key, new);
                new
            }
        };
        let weight = &mut self.requests[request as usize].weight;
        *weight = weight.saturating_add(entry.weight);
        self.steps.push(request);
        Ok(())
    }

    fn url(&self, text: &str) -> Result<Url, String> {
        match (text.starts_with('/'), &self.base) {
            (true, Some(base)) => Ok(Url { path: text.to_owned(), ..base.clone() }),
            (true, None) => Err(format!("\"{text}\" has no host: give the server's URL as an argument, too")),
            (false, _) => Url::parse(text),
        }
    }

    fn target(&mut self, url: &Url) -> Result<usize, String> {
        let same = |target: &Target| target.scheme == url.scheme && target.authority == url.authority;
        if let Some(known) = self.targets.iter().position(same) {
            return Ok(known);
        }
        let target = match (&self.options.unix, self.options.connect_to) {
            (Some(path), _) => url.target_at(Endpoint::Unix(path.clone())),
            (None, Some(address)) => url.target_at(Endpoint::Tcp(vec![address])),
            (None, None) => url.target()?,
        };
        self.targets.push(target);
        Ok(self.targets.len() - 1)
    }
}

fn schedule(options: &Options, entries: &[Entry], steps: Vec<u32>) -> (Order, Pace) {
    let order = options.order.unwrap_or(OrderWord::Random);
    let pace = match (order, options.rate) {
        (OrderWord::Replay, _) => {
            return (Order::Random, Pace::Replay(replay(entries, &steps, options.speed)));
        }
        (_, Some(per_second)) => Pace::Open { per_second, arrivals: options.arrivals },
        (_, None) => Pace::Closed,
    };
    match order {
        OrderWord::Sequence => (Order::InOrder(steps), pace),
        OrderWord::Random | OrderWord::Replay => (Order::Random, pace),
    }
}

/// Logs have whole seconds: requests of the same second are spread over it.
fn replay(entries: &[Entry], steps: &[u32], speed: f64) -> Vec<(Duration, u32)> {
    let begin = entries.first().and_then(|entry| entry.at).unwrap_or(0);
    let mut out = Vec::with_capacity(steps.len());
    let mut at = 0;
    // Bounded by the entries: every pass takes those of one second.
    while at < entries.len() {
        let second = entries[at].at;
        let end = at + entries[at..].iter().take_while(|entry| entry.at == second).count();
        for (index, step) in steps[at..end].iter().enumerate() {
            let part = index as f64 / (end - at) as f64;
            let after = (second.unwrap_or(begin) - begin) as f64 + part;
            out.push((Duration::from_secs_f64(after / speed), *step));
        }
        at = end;
    }
    out
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    struct Files;

    impl Environment for Files {
        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            let line = |second: u32, path: &str| {
                format!("h - - [01/Jan/2020:00:00:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 1\n")
            };
            match path.to_str() {
                Some("list") => Ok(b"3 http://127.0.0.1:1/a\n/b\n/b POST x=1\n".to_vec()),
                Some("log") => Ok([line(10, "/a"), line(10, "/b"), line(12, "/a")].concat().into_bytes()),
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        }

        fn variable(&self, _: &str) -> Option<String> {
            None
        }
    }

    fn options(change: impl FnOnce(&mut Options)) -> Options {
        let mut options = Options { urls: vec!["http://127.0.0.1:1/".to_owned()], ..Options::default() };
        change(&mut options);
        options
    }

    fn built(change: impl FnOnce(&mut Options)) -> Plan {
        build(&options(change), &Files).unwrap().plan
    }

    #[test]
    fn a_list_has_weights_and_is_relative_to_the_url() {
        let plan = built(|options| options.lists = vec!["list".into()]);
        let found: Vec<(&str, &str, u32)> = plan
            .requests
            .iter()
            .map(|request| (request.method.as_str(), request.url.as_str(), request.weight))
            .collect();
        let expected = [
            ("GET", "http://127.0.0.1:1/a", 3),
            ("GET", "http://127.0.0.1:1/b", 1),
            ("POST", "http://127.0.0.1:1/b", 1),
        ];
        assert_eq!(found, expected);
        let text = String::from_utf8(plan.requests[2].bytes.clone()).unwrap();
        assert!(text.contains("Content-Type: application/x-www-form-urlencoded\r\n"), "{text}");
        assert!(text.contains("Content-Length: 3\r\n") && text.ends_with("\r\n\r\nx=1"), "{text}");
    }

    #[test]
    fn a_replay_spreads_each_second_and_keeps_the_gaps() {
        let plan = built(|options| {
            options.log = Some("log".into());
            options.order = Some(OrderWord::Replay);
            options.speed = 2.0;
        });
        let at = |milliseconds| Duration::from_millis(milliseconds);
        assert_eq!(plan.pace, Pace::Replay(vec![(at(0), 0), (at(250), 1), (at(1000), 0)]));
        assert_eq!(plan.stop, Stop::default());
    }

    #[test]
    fn a_log_repeats_in_sequence_and_is_weighted_at_random() {
        let plan = built(|options| {
            options.log = Some("log".into());
            options.order = Some(OrderWord::Sequence);
        });
        assert_eq!(plan.order, Order::InOrder(vec![0, 1, 0]));
        let plan = built(|options| options.log = Some("log".into()));
        assert_eq!(plan.requests.iter().map(|request| request.weight).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn a_request_head_announces_the_persistence() {
        let head =
            |change: fn(&mut Options)| String::from_utf8(built(change).requests[0].bytes.clone()).unwrap();
        assert!(!head(|_| {}).contains("Connection:"));
        assert!(head(|options| options.close = Some(CloseWord::AfterEach)).contains("Connection: close\r\n"));
        let old = head(|options| options.version = VersionWord::Http10);
        assert!(
            old.starts_with("GET / HTTP/1.0\r\nHost: 127.0.0.1:1\r\n")
                && old.contains("Connection: keep-alive")
        );
        let own = head(|options| options.fields = vec![("Host".to_owned(), "x".to_owned())]);
        assert!(own.contains("Host: x\r\n") && !own.contains("127.0.0.1"));
    }

    #[test]
    fn rejects_contradictions_with_what_to_change() {
        type Row = (fn(&mut Options), &'static str);
        let table: &[Row] = &[
            (|options| options.urls.clear(), "give a URL"),
            (|options| options.urls = vec!["/x".to_owned()], "no host"),
            (|options| options.order = Some(OrderWord::Replay), "--log FILE"),
            (|options| options.streams = 2, "--http 2"),
            (
                |options| {
                    options.version = VersionWord::Http2;
                    options.pipelined = 2
                },
                "--streams",
            ),
            (
                |options| {
                    options.version = VersionWord::Http10;
                    options.pipelined = 2
                },
                "no pipelining",
            ),
            (
                |options| {
                    options.rate = Some(1.0);
                    options.think.most = Duration::from_secs(1)
                },
                "--think",
            ),
            (|options| options.lists = vec!["missing".into()], "missing: "),
            (|options| options.log = Some("list".into()), "common or combined"),
        ];
        for (change, expected) in table {
            let why = build(&options(*change), &Files).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
