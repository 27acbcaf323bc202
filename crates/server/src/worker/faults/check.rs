//! What must be true of a run, whatever failed in it.

use super::client::{self, Got, SCRIPT, UNANSWERED};
use super::ground::Ground;
use super::{Left, Run, cases};
use crate::sys::faulty::plan::{Call, Case, Fault, Which};

/// What a fault did to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    None,
    /// An error took its place.
    Error,
    /// It, or its connection, broke off.
    Cut,
    /// Not as it should be, in a way that must not be.
    Wrong,
}

impl Harm {
    pub fn of(got: &Got, wanted: &Got) -> Harm {
        let Got::Answer(wanted) = wanted else {
            // Nothing was to be had.
            let is_nothing = *got == Got::Unasked || *got == Got::Cut(Vec::new());
            return if is_nothing { Harm::None } else { Harm::Wrong };
        };
        match got {
            Got::Answer(answer) if same(answer, wanted) && answer.len() == wanted.len() => Harm::None,
            Got::Answer(answer) if matches!(client::status(answer), Some(500 | 503)) => Harm::Error,
            // An error page that cannot be had is replaced.
            Got::Answer(answer) if client::status(wanted) == Some(404) => match client::status(answer) {
                Some(404) => Harm::Error,
                _ => Harm::Wrong,
            },
            Got::Cut(part) if same(part, wanted) && part.len() <= wanted.len() => Harm::Cut,
            Got::Cut(part) if b"HTTP/1.1 50".starts_with(&part[..part.len().min(11)]) => Harm::Cut,
            Got::Unasked => Harm::Cut,
            Got::Answer(_) | Got::Cut(_) | Got::Silence(_) => Harm::Wrong,
        }
    }
}

/// What is another each time: what stands before it, and its bytes.
const VARYING: [(&[u8], usize); 3] =
    [(b"\r\nDate: ", taipan_http::date::LEN), (b"boundary=taipan-", 16), (b"\r\n--taipan-", 16)];

/// Are they the same as far as both go, but for what is another each time?
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

/// Of two slices of equal length. In halves, for comparing slices is fast and comparing bytes is not.
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

/// Where the varying part ends that `at` is in.
fn end_of_varying(bytes: &[u8], at: usize) -> Option<usize> {
    VARYING.iter().find_map(|(before, length)| {
        let mut starts = at.saturating_sub(length - 1)..=at;
        starts.find(|&start| bytes[..start].ends_with(before)).map(|start| start + length)
    })
}

/// Without a fault everything is as the script and the files say.
pub fn reference(ground: &Ground, run: &Run) {
    for (number, (talk, gained)) in SCRIPT.iter().zip(&run.gained).enumerate() {
        for (index, (ask, got)) in talk.asks.iter().zip(gained).enumerate() {
            if ask.status == UNANSWERED {
                assert_eq!(*got, Got::Cut(Vec::new()), "{number}-{index}");
                continue;
            }
            let Got::Answer(answer) = got else { panic!("{number}-{index}: {got:?}") };
            assert_eq!(client::status(answer), Some(ask.status), "{number}-{index}");
            let file = ask.rest_of_line.split(' ').next().map_or("", |path| path.trim_start_matches('/'));
            if ask.status == 200
                && ask.fields.is_empty()
                && ask.method == "GET"
                && ["small", "big"].contains(&file)
            {
                let body = &answer[client::head_length(answer).unwrap()..];
                assert!(body == ground.content(file), "{number}-{index} is not the file");
            }
        }
    }
    let case = Case { call: None, which: Which::EveryOther, fault: Fault::Short(1) };
    self::run(&case, run, run).unwrap();
    assert!(run.errors.is_empty(), "{:?}", run.errors);
}

/// Errors: what is wrong, in words.
pub fn run(case: &Case, reference: &Run, run: &Run) -> Result<(), String> {
    let panics = if case.fault == Fault::Panic { run.struck as usize } else { 0 };
    if run.panics != panics {
        return Err(format!("there were {} panics", run.panics));
    }
    if run.left != Left::default() {
        return Err(format!("not given back: {:?}", run.left));
    }
    answers(case, reference, run)?;
    if case.fault != Fault::Truncated {
        for (number, index, got) in &run.again {
            if Harm::of(got, &reference.gained[*number][*index]) != Harm::None {
                return Err(format!("{number}-{index} still fails when asked again: {}", shown(got)));
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
    for (number, (gained, wanted)) in run.gained.iter().zip(&reference.gained).enumerate() {
        let mut is_harmed = false;
        for (index, (got, wanted)) in gained.iter().zip(wanted).enumerate() {
            let harm = match Harm::of(got, wanted) {
                Harm::Wrong if case.fault == Fault::Truncated && is_of_shorter_file(got) => Harm::None,
                harm => harm,
            };
            if harm == Harm::Wrong || (harm != Harm::None && cases::is_invisible(case)) {
                return Err(format!("{number}-{index} got {}", shown(got)));
            }
            is_harmed |= harm != Harm::None;
        }
        harmed += usize::from(is_harmed);
    }
    // Who has no descriptor left closes one that is idle to take another in.
    let most = match (case.call, case.fault) {
        _ if !matches!(case.which, Which::Nth(_)) => usize::MAX,
        (_, Fault::Truncated) => usize::MAX,
        (Some(Call::Accept), _) => 2,
        _ => 1,
    };
    if harmed > most { Err(format!("{harmed} connections were harmed")) } else { Ok(()) }
}

/// A file that has become shorter is another file from then on.
fn is_of_shorter_file(got: &Got) -> bool {
    match got {
        Got::Answer(answer) => matches!(client::status(answer), Some(200 | 206 | 304 | 416)),
        Got::Cut(_) => true,
        Got::Unasked | Got::Silence(_) => false,
    }
}

/// One line for each request that was answered, with the status that its client saw, and for each that was
/// read; at most one for any other.
fn lines(case: &Case, run: &Run) -> Result<(), String> {
    let mut lines: Vec<Line> = run.lines.iter().filter_map(|line| Line::parse(line)).collect();
    let (mut missing, mut unsure) = (Vec::new(), Vec::new());
    let mut requests: Vec<_> = asked(run).map(|(name, got)| (name, Due::of(case, got))).collect();
    // Whoever must have a line takes it before those who may.
    requests.sort_by_key(|(_, due)| *due);
    for (name, due) in requests {
        let is_its = |line: &Line| line.name == name && due.fits(line.status);
        match (lines.iter().position(is_its), due) {
            (Some(at), _) => drop(lines.swap_remove(at)),
            (None, Due::Maybe) => unsure.push(name),
            (None, Due::With(_) | Due::Surely) => missing.push(name),
        }
    }
    // What was read in part has no name yet.
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

/// Lines that are not there; their writers must have counted them.
pub fn lost(run: &Run) -> usize {
    let written = run.lines.iter().filter_map(|line| Line::parse(line)).count();
    asked(run).filter(|(_, got)| matches!(got, Got::Answer(_))).count().saturating_sub(written)
}

/// What the error log says has been lost.
pub fn told(errors: &[String]) -> usize {
    let whole = errors.iter().filter(|line| line.ends_with(" or full"));
    let reports = whole.filter_map(|line| line.split_once(" log lines were dropped"));
    let counts = reports.filter_map(|(before, _)| before.rsplit(' ').next()?.parse::<usize>().ok());
    counts.sum()
}

/// Every request of a run that has a line, by the name that is in it.
fn asked(run: &Run) -> impl Iterator<Item = (Option<String>, &Got)> {
    let first = run.gained.iter().enumerate().flat_map(|(number, gained)| {
        let answered = move |(index, _): &(usize, &Got)| SCRIPT[number].asks[*index].status != UNANSWERED;
        let gained = gained.iter().enumerate().filter(answered);
        gained.map(move |(index, got)| (client::name(number, index), got))
    });
    let again = run.again.iter().map(|(number, index, got)| (client::name(*number, *index), got));
    let plain = (client::name(SCRIPT.len(), 0), &run.plain);
    first.chain(again).chain([plain]).map(|(name, got)| {
        let is_nonsense = name == client::name(SCRIPT.len() - 1, 0);
        ((!is_nonsense).then_some(name), got)
    })
}

/// Must a request have a line?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// With the status that its client saw.
    With(u16),
    Surely,
    Maybe,
}

impl Due {
    fn of(case: &Case, got: &Got) -> Due {
        let is_read_before =
            !matches!(case.call, None | Some(Call::Accept | Call::EpollAdd | Call::Recv | Call::PollRead));
        match got {
            Got::Answer(answer) => client::status(answer).map_or(Due::Surely, Due::With),
            Got::Cut(part) if is_read_before || !part.is_empty() => Due::Surely,
            Got::Cut(_) | Got::Silence(_) | Got::Unasked => Due::Maybe,
        }
    }

    fn fits(self, status: u16) -> bool {
        match self {
            Due::With(seen) => seen == status,
            Due::Surely | Due::Maybe => true,
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

pub fn shown(got: &Got) -> String {
    let (what, bytes) = match got {
        Got::Answer(bytes) => ("an answer", bytes),
        Got::Cut(bytes) => ("the end of the connection", bytes),
        Got::Silence(bytes) => ("silence", bytes),
        Got::Unasked => return "no connection to ask on".to_owned(),
    };
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).escape_debug().to_string();
    format!("{what} after {} bytes: {start}", bytes.len())
}
