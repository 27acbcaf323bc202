//! The assertions about a run, whatever failed in it.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::client::{self, NO_RESPONSE, Outcome, SCRIPT};
use super::fixture::Fixture;
use super::{Left, Run, cases};
use crate::sys::faulty::plan::{Call, Case, Fault, Which};

const GZIP: &[u8] = b"\r\nContent-Encoding: gzip\r\n";

/// The effect of a fault on a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    None,
    /// The client received an error instead.
    Error,
    /// The connection ended early.
    Cut,
    /// An effect that no fault may have.
    Wrong,
}

impl Harm {
    pub fn of(outcome: &Outcome, wanted: &Outcome) -> Harm {
        let Outcome::Response(wanted) = wanted else {
            // No response was expected.
            let is_nothing = *outcome == Outcome::Unsent || *outcome == Outcome::Cut(Vec::new());
            return if is_nothing { Harm::None } else { Harm::Wrong };
        };
        match outcome {
            Outcome::Response(response) if same(response, wanted) && response.len() == wanted.len() => {
                Harm::None
            }
            Outcome::Response(response) if is_uncompressed_instead(response, wanted) => Harm::None,
            Outcome::Response(response) if matches!(client::status(response), Some(500 | 503)) => Harm::Error,
            // A missing error page is replaced by a generated one.
            Outcome::Response(response) if client::status(wanted) == Some(404) => {
                match client::status(response) {
                    Some(404) => Harm::Error,
                    _ => Harm::Wrong,
                }
            }
            Outcome::Cut(part) if same(part, wanted) && part.len() <= wanted.len() => Harm::Cut,
            Outcome::Cut(part) if b"HTTP/1.1 50".starts_with(&part[..part.len().min(11)]) => Harm::Cut,
            Outcome::Unsent => Harm::Cut,
            Outcome::Response(_) | Outcome::Cut(_) | Outcome::Silence(_) => Harm::Wrong,
        }
    }
}

/// Is it the same content without its coding? It is, as long as the worker does not know of the precompressed file.
fn is_uncompressed_instead(response: &[u8], wanted: &[u8]) -> bool {
    let content = |response: &[u8]| {
        let (head, body) = response.split_at(client::head_length(response).unwrap_or(response.len()));
        let has = |field: &[u8]| head.windows(field.len()).any(|bytes| bytes == field);
        let mut inflated = Vec::new();
        let body = match has(GZIP) {
            true => MultiGzDecoder::new(body).read_to_end(&mut inflated).map(|_| inflated).ok()?,
            false => body.to_vec(),
        };
        Some((!has(GZIP), client::status(response), body))
    };
    match (content(response), content(wanted)) {
        (Some((true, status, body)), Some((_, wanted_status, wanted_body))) => {
            status == wanted_status && body.len() == wanted_body.len() && same(&body, &wanted_body)
        }
        _ => false,
    }
}

/// The varying parts of a response: the bytes before each, and its length.
const VARYING: [(&[u8], usize); 3] =
    [(b"\r\nDate: ", taipan_http::date::LEN), (b"boundary=taipan-", 16), (b"\r\n--taipan-", 16)];

/// Whether the common parts of both are equal, except for varying parts.
fn same(one: &[u8], other: &[u8]) -> bool {
    let length = one.len().min(other.len());
    let mut at = 0;
    while let Some(equal) = first_difference(&one[at..length], &other[at..length]) {
        at += equal;
        match (end_of_varying(one, at), end_of_varying(other, at)) {
            (Some(end), Some(same)) if end == same => at = end.min(length),
            _ => return false,
        }
    }
    true
}

/// Of two slices of equal length. Bisects, because comparing slices is faster than comparing bytes.
fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    if one == other {
        return None;
    }
    let (mut from, mut to) = (0, one.len());
    while to - from > 1 {
        let middle = from + (to - from) / 2;
        if one[from..middle] == other[from..middle] { from = middle } else { to = middle }
    }
    Some(from)
}

/// The end of the varying part that contains `at`.
fn end_of_varying(bytes: &[u8], at: usize) -> Option<usize> {
    VARYING.iter().find_map(|(before, length)| {
        let mut starts = at.saturating_sub(length - 1)..=at;
        starts.find(|&start| bytes[..start].ends_with(before)).map(|start| start + length)
    })
}

/// Without a fault, every response has the status of the script and the content of the files.
pub fn reference(fixture: &Fixture, run: &Run) {
    for (number, (talk, outcomes)) in SCRIPT.iter().zip(&run.outcomes).enumerate() {
        for (index, (ask, outcome)) in talk.requests.iter().zip(outcomes).enumerate() {
            if ask.status == NO_RESPONSE {
                assert_eq!(*outcome, Outcome::Cut(Vec::new()), "{number}-{index}");
                continue;
            }
            let Outcome::Response(response) = outcome else { panic!("{number}-{index}: {outcome:?}") };
            assert_eq!(client::status(response), Some(ask.status), "{number}-{index}");
            let file = ask.rest_of_line.split(' ').next().map_or("", |path| path.trim_start_matches('/'));
            if ask.status == 200
                && ask.fields.is_empty()
                && ask.method == "GET"
                && ["small", "big"].contains(&file)
            {
                let body = &response[client::head_length(response).unwrap()..];
                assert!(body == fixture.content(file), "{number}-{index} is not the file");
            }
        }
    }
    let case = Case { call: None, which: Which::EveryOther, fault: Fault::Short(1) };
    self::run(&case, run, run).unwrap();
    assert!(run.errors.is_empty(), "{:?}", run.errors);
}

/// Errors: a sentence that says what is wrong.
pub fn run(case: &Case, reference: &Run, run: &Run) -> Result<(), String> {
    let panics = if case.fault == Fault::Panic { run.struck as usize } else { 0 };
    if run.panics != panics {
        return Err(format!("there were {} panics", run.panics));
    }
    if run.left != Left::default() {
        return Err(format!("not released: {:?}", run.left));
    }
    answers(case, reference, run)?;
    if case.fault != Fault::Truncated {
        for (number, index, outcome) in &run.again {
            if Harm::of(outcome, &reference.outcomes[*number][*index]) != Harm::None {
                return Err(format!("{number}-{index} still fails when it is repeated: {}", shown(outcome)));
            }
        }
    }
    if Harm::of(&run.plain, &reference.plain) != Harm::None && case.fault != Fault::Truncated {
        return Err(format!("a plain request got {}", shown(&run.plain)));
    }
    lines(case, run)
}

fn answers(case: &Case, reference: &Run, run: &Run) -> Result<(), String> {
    let mut harmed = 0;
    for (number, (outcomes, wanted)) in run.outcomes.iter().zip(&reference.outcomes).enumerate() {
        let mut is_harmed = false;
        for (index, (outcome, wanted)) in outcomes.iter().zip(wanted).enumerate() {
            let harm = match Harm::of(outcome, wanted) {
                Harm::Wrong if case.fault == Fault::Truncated && is_of_shorter_file(outcome) => Harm::None,
                harm => harm,
            };
            if harm == Harm::Wrong || (harm != Harm::None && cases::is_invisible(case)) {
                return Err(format!("{number}-{index} got {}", shown(outcome)));
            }
            is_harmed |= harm != Harm::None;
        }
        harmed += usize::from(is_harmed);
    }
    // A worker without free descriptors closes an idle connection to accept another one.
    let most = match (case.call, case.fault) {
        _ if !matches!(case.which, Which::Nth(_)) => usize::MAX,
        (_, Fault::Truncated) => usize::MAX,
        (Some(Call::Accept), _) => 2,
        _ => 1,
    };
    if harmed > most { Err(format!("{harmed} connections were harmed")) } else { Ok(()) }
}

/// A truncated file counts as another file.
fn is_of_shorter_file(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Response(response) => matches!(client::status(response), Some(200 | 206 | 304 | 416)),
        Outcome::Cut(_) => true,
        Outcome::Unsent | Outcome::Silence(_) => false,
    }
}

/// Each request with a response has a log line with that status, each request that was read has a line, and any other
/// has at most one.
fn lines(case: &Case, run: &Run) -> Result<(), String> {
    let mut lines: Vec<Line> = run.lines.iter().filter_map(|line| Line::parse(line)).collect();
    let (mut missing, mut unsure) = (Vec::new(), Vec::new());
    let mut requests: Vec<_> =
        logged_outcomes(run).map(|(name, outcome)| (name, LogLine::of(case, outcome))).collect();
    // Requests that must have a line are matched before those that may have one.
    requests.sort_by_key(|(_, due)| *due);
    for (name, due) in requests {
        let is_its = |line: &Line| line.name == name && due.fits(line.status);
        match (lines.iter().position(is_its), due) {
            (Some(at), _) => drop(lines.swap_remove(at)),
            (None, LogLine::Maybe) => unsure.push(name),
            (None, LogLine::With(_) | LogLine::Surely) => missing.push(name),
        }
    }
    // A request that was read in part has no name.
    let broken_off = lines.iter().position(|line| line.name.is_none());
    if let (Some(at), false) = (broken_off, unsure.is_empty()) {
        lines.swap_remove(at);
    }
    if let Some(line) = lines.first() {
        return Err(format!("a log line too many: {line:?}"));
    }
    match (case.call, &missing[..]) {
        (Some(Call::Write), _) | (_, []) => Ok(()),
        (_, missing) => Err(format!("no log line for {missing:?}")),
    }
}

/// The number of missing log lines; the log must report them.
pub fn lost(run: &Run) -> usize {
    let written = run.lines.iter().filter_map(|line| Line::parse(line)).count();
    logged_outcomes(run)
        .filter(|(_, outcome)| matches!(outcome, Outcome::Response(_)))
        .count()
        .saturating_sub(written)
}

/// How reports of dropped lines end, by the faults of writes, unless they were cut themselves.
const WHOLE: &[&str] = &[
    " left on device",
    " quota exceeded",
    "/output error",
    " temporarily unavailable",
    " pipe",
    " too slow",
];

/// The number of dropped lines that the error log reports.
pub fn reported(errors: &[String]) -> usize {
    let is_whole = |line: &&String| WHOLE.iter().any(|end| line.ends_with(end));
    let count = |line: &String| {
        let (before, _) = line.split_once(" log line")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    };
    errors.iter().filter(is_whole).filter_map(count).sum()
}

/// Every request of a run that has a line, by its name in the log.
fn logged_outcomes(run: &Run) -> impl Iterator<Item = (Option<String>, &Outcome)> {
    let first = run.outcomes.iter().enumerate().flat_map(|(number, outcomes)| {
        let answered =
            move |(index, _): &(usize, &Outcome)| SCRIPT[number].requests[*index].status != NO_RESPONSE;
        let outcomes = outcomes.iter().enumerate().filter(answered);
        outcomes.map(move |(index, outcome)| (client::name(number, index), outcome))
    });
    let again = run.again.iter().map(|(number, index, outcome)| (client::name(*number, *index), outcome));
    let plain = (client::name(SCRIPT.len(), 0), &run.plain);
    first.chain(again).chain([plain]).map(|(name, outcome)| {
        let is_nonsense = name == client::name(SCRIPT.len() - 1, 0);
        ((!is_nonsense).then_some(name), outcome)
    })
}

/// The log line that a request must or may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LogLine {
    /// With the status that the client received.
    With(u16),
    Surely,
    Maybe,
}

impl LogLine {
    fn of(case: &Case, outcome: &Outcome) -> LogLine {
        let is_read_before =
            !matches!(case.call, None | Some(Call::Accept | Call::EpollAdd | Call::Recv | Call::PollRead));
        match outcome {
            Outcome::Response(response) => client::status(response).map_or(LogLine::Surely, LogLine::With),
            Outcome::Cut(part) if is_read_before || !part.is_empty() => LogLine::Surely,
            Outcome::Cut(_) | Outcome::Silence(_) | Outcome::Unsent => LogLine::Maybe,
        }
    }

    fn fits(self, status: u16) -> bool {
        match self {
            LogLine::With(seen) => seen == status,
            LogLine::Surely | LogLine::Maybe => true,
        }
    }
}

#[derive(Debug)]
struct Line {
    name: Option<String>,
    status: u16,
}

impl Line {
    /// `None`: it was cut off.
    fn parse(line: &str) -> Option<Line> {
        let value = |key: &str| {
            let (_, rest) = line.split_once(&format!("\"{key}\":"))?;
            rest.split([',', '}']).next()
        };
        let name = value("user_agent").filter(|_| line.ends_with('}'))?;
        let name = (name != "null").then(|| name.trim_matches('"').to_owned());
        Some(Line { name, status: value("status")?.parse().ok()? })
    }
}

pub fn shown(outcome: &Outcome) -> String {
    let (what, bytes) = match outcome {
        Outcome::Response(bytes) => ("an response", bytes),
        Outcome::Cut(bytes) => ("the end of the connection", bytes),
        Outcome::Silence(bytes) => ("silence", bytes),
        Outcome::Unsent => return "no connection to ask on".to_owned(),
    };
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).escape_debug().to_string();
    format!("{what} after {} bytes: {start}", bytes.len())
}
