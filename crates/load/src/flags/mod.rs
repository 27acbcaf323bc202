//! The command line. Every flag is defined once, in `table`; the parser, `--help` and the manual page use it.

mod table;

mod help;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::plan::options::{Body, CloseWord, Options, OrderWord, VersionWord};
use crate::plan::{Arrivals, Check, GoodStatuses, Reference, Resumption, Think, Trust};
use crate::report::Format;
use crate::shape::{Closing, MODEM};
use table::{FlagRow, Key, Sent, flags};

pub use help::{help, man};

/// What the program shall do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Run(Box<RunArguments>),
    /// Merge several reports into one.
    Merge {
        files: Vec<PathBuf>,
        output: Output,
    },
    Worker(Worker),
    Man,
    Help,
    Version,
}

/// A run, and where its report goes.
#[derive(Debug, Clone, PartialEq)]
pub struct RunArguments {
    pub options: Options,
    pub output: Output,
    /// Addresses of the workers that generate the load; empty: this process does.
    pub workers: Vec<String>,
    pub secret: Option<PathBuf>,
    /// The flags to forward to workers: all but those of workers, reports and files.
    pub forwarded: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    pub format: Format,
    /// `None`: standard output.
    pub file: Option<PathBuf>,
    /// In per cent. Below it, the exit code is 1.
    pub availability: f64,
    pub progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// If standard error is a terminal.
    IfSeen,
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    pub listen: String,
    pub secret: Option<PathBuf>,
}

/// What is wrong with a command line: one line, with what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

/// The flags that were parsed so far.
struct ParsedFlags {
    options: Options,
    output: Output,
    arguments: Vec<OsString>,
    workers: Vec<String>,
    secret: Option<PathBuf>,
    listen: Option<String>,
    merge: Option<()>,
    forwarded: Vec<String>,
    /// A flag, as typed, that names a file which workers do not have.
    refused: Option<String>,
    used: Vec<Key>,
}

/// Errors: what is wrong with the command line.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    use lexopt::Arg;
    let mut parsed = ParsedFlags {
        options: Options::default(),
        output: Output { format: Format::Page, file: None, availability: 100.0, progress: Progress::IfSeen },
        arguments: Vec::new(),
        workers: Vec::new(),
        secret: None,
        listen: None,
        merge: None,
        forwarded: Vec::new(),
        refused: None,
        used: Vec::new(),
    };
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(usage)? {
        let typed = match &argument {
            Arg::Long(name) => format!("--{name}"),
            Arg::Short(letter) => format!("-{letter}"),
            Arg::Value(_) => String::new(),
        };
        let flag = match argument {
            Arg::Value(value) => {
                parsed.arguments.push(value);
                continue;
            }
            Arg::Long(name) => flags().find(|flag| flag.long == name).ok_or_else(|| unknown(&typed))?,
            Arg::Short(letter) => {
                flags().find(|flag| flag.short == Some(letter)).ok_or_else(|| unknown(&typed))?
            }
        };
        match flag.key {
            Key::Help => return Ok(Command::Help),
            Key::Version => return Ok(Command::Version),
            _ => {}
        }
        let value = match flag.value {
            Some(_) => text(parser.value().map_err(usage)?)?,
            None => String::new(),
        };
        parsed.set(flag, &typed, &value)?;
    }
    parsed.command()
}

impl ParsedFlags {
    fn set(&mut self, flag: &'static FlagRow, typed: &str, value: &str) -> Result<(), UsageError> {
        let wrong = |expected: &str| UsageError(format!("{typed} takes {expected}, not \"{value}\""));
        self.used.push(flag.key);
        match flag.sent {
            Sent::AsIt if flag.value.is_some() => self.forwarded.push(format!("--{}={value}", flag.long)),
            Sent::AsIt => self.forwarded.push(format!("--{}", flag.long)),
            Sent::Not => {}
            Sent::Refused => self.refused = Some(typed.to_owned()),
        }
        let options = &mut self.options;
        match flag.key {
            Key::Requests => options.requests = Some(count(value).ok_or_else(|| wrong("a number above 0"))?),
            Key::Time => {
                options.time = Some(time(value).filter(|time| !time.is_zero()).ok_or_else(|| wrong(TIME))?)
            }
            Key::Connections => {
                options.connections =
                    bounded(value, 1_000_000).ok_or_else(|| wrong("a number from 1 to 1000000"))?;
            }
            Key::Threads => {
                options.threads = Some(bounded(value, 1024).ok_or_else(|| wrong("a number from 1 to 1024"))?);
            }
            Key::Rate => options.rate = Some(positive(value).ok_or_else(|| wrong("a number above 0"))?),
            Key::Arrivals => {
                options.arrivals = match value {
                    "poisson" => Arrivals::Poisson,
                    "even" => Arrivals::Even,
                    _ => return Err(wrong("poisson or even")),
                }
            }
            Key::Urls => options.lists.push(value.into()),
            Key::Log => options.log = Some(value.into()),
            Key::Order => {
                options.order = Some(match value {
                    "random" => OrderWord::Random,
                    "sequence" => OrderWord::Sequence,
                    "replay" => OrderWord::Replay,
                    _ => return Err(wrong("random, sequence or replay")),
                });
            }
            Key::Speed => options.speed = positive(value).ok_or_else(|| wrong("a number above 0"))?,
            Key::Seed => options.seed = amount(value).ok_or_else(|| wrong("a number"))?,
            Key::Method => {
                let is_method = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphabetic());
                options.method = Some(is_method.then(|| value.to_owned()).ok_or_else(|| wrong("a method"))?);
            }
            Key::Body => options.body = Some(Body::Text(value.to_owned())),
            Key::BodyFile => options.body = Some(Body::File(value.into())),
            Key::Header => {
                options.fields.push(field(value).ok_or_else(|| wrong("a name, a colon and a value"))?)
            }
            Key::Close => options.close = Some(CloseWord::AfterEach),
            Key::Session => {
                options.close =
                    Some(CloseWord::After(count(value).ok_or_else(|| wrong("a number above 0"))?));
            }
            Key::Think => options.think = think(value).ok_or_else(|| wrong("a time, or two as 1s..5s"))?,
            Key::Pipeline => {
                options.pipelined = bounded(value, 1024).ok_or_else(|| wrong("a number from 1 to 1024"))?
            }
            Key::Http => {
                options.version = match value {
                    "1.0" => VersionWord::Http10,
                    "1.1" => VersionWord::Http11,
                    "2" => VersionWord::Http2,
                    _ => return Err(wrong("1.0, 1.1 or 2")),
                }
            }
            Key::Streams => {
                options.streams = bounded(value, 10_000).ok_or_else(|| wrong("a number from 1 to 10000"))?
            }
            Key::Unix => options.unix = Some(value.into()),
            Key::ConnectTo => {
                options.connect_to =
                    Some(value.parse().map_err(|_| wrong("an address and a port, as 127.0.0.1:8080"))?);
            }
            Key::Source => options
                .sources
                .extend(list::<IpAddr>(value).ok_or_else(|| wrong("addresses, as 127.0.0.2,127.0.0.3"))?),
            Key::Ramp => options.ramp = time(value).ok_or_else(|| wrong(TIME))?,
            Key::WarmUp => options.warm_up = time(value).ok_or_else(|| wrong(TIME))?,
            Key::Timeout => {
                options.timeout = time(value).filter(|time| !time.is_zero()).ok_or_else(|| wrong(TIME))?
            }
            Key::Status => {
                let codes: Vec<u16> = list(value).ok_or_else(|| wrong("statuses, as 200,304"))?;
                if codes.iter().any(|code| !(100..=999).contains(code)) {
                    return Err(wrong("statuses, as 200,304"));
                }
                options.statuses = GoodStatuses::These(codes);
            }
            Key::Check => {
                options.check = match value {
                    "none" => Check::Nothing,
                    "length" => Check::Length,
                    "checksum" => Check::Checksum(Reference::First),
                    _ => return Err(wrong("none, length or checksum")),
                }
            }
            Key::Manifest => options.check = Check::Checksum(Reference::Manifest(value.into())),
            Key::Folder => options.check = Check::Checksum(Reference::Folder(value.into())),
            Key::Modem => options.shape.read = Some(MODEM),
            Key::ReadRate => options.shape.read = Some(count(value).ok_or_else(|| wrong("bytes a second"))?),
            Key::SlowHead => {
                options.shape.write_head = Some(count(value).ok_or_else(|| wrong("bytes a second"))?)
            }
            Key::SlowBody => {
                options.shape.write_body = Some(count(value).ok_or_else(|| wrong("bytes a second"))?)
            }
            Key::HalfClose => options.shape.closing = Closing::HalfClose,
            Key::Abort => {
                options.shape.closing =
                    Closing::AbortAfter(amount(value).ok_or_else(|| wrong("a number of bytes"))?)
            }
            Key::Insecure => options.trust = Trust::Any,
            Key::Ca => options.trust = Trust::File(value.into()),
            Key::ServerName => options.server_name = Some(value.to_owned()),
            Key::NoResumption => options.resumption = Resumption::Off,
            Key::Format => {
                let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
                self.output.format =
                    Format::from_name(value).ok_or_else(|| wrong(&format!("one of {}", names.join(", "))))?;
            }
            Key::Output => self.output.file = Some(value.into()),
            Key::MinAvailability => {
                let percent = value.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
                self.output.availability = percent.ok_or_else(|| wrong("per cent, from 0 to 100"))?;
            }
            Key::Quiet => self.output.progress = Progress::Never,
            Key::Merge => self.merge = Some(()),
            Key::Workers => self.workers.extend(value.split(',').map(str::to_owned)),
            Key::Secret => self.secret = Some(value.into()),
            Key::Listen => self.listen = Some(value.to_owned()),
            Key::Help | Key::Version => {}
        }
        Ok(())
    }

    fn command(self) -> Result<Command, UsageError> {
        let refuse = |why: &str| Err(UsageError(why.to_owned()));
        match (self.arguments.first().and_then(|first| first.to_str()), self.merge) {
            (_, Some(())) => {
                if self.arguments.is_empty() {
                    return refuse(
                        "--merge takes files of --format json: taipan-bench --merge a.json b.json",
                    );
                }
                let files = self.arguments.into_iter().map(PathBuf::from).collect();
                Ok(Command::Merge { files, output: self.output })
            }
            (Some("worker"), None) => {
                if self.arguments.len() > 1
                    || self.used.iter().any(|key| !matches!(key, Key::Listen | Key::Secret))
                {
                    return refuse(
                        "a worker takes only --listen and --secret; its controller sends the rest",
                    );
                }
                let listen = self.listen.unwrap_or_else(|| "127.0.0.1:7100".to_owned());
                Ok(Command::Worker(Worker { listen, secret: self.secret }))
            }
            (Some("man"), None) if self.arguments.len() == 1 => Ok(Command::Man),
            _ if self.listen.is_some() => {
                refuse("--listen is for a worker: taipan-bench worker --listen ADDRESS:PORT")
            }
            _ => {
                if let (Some(flag), false) = (self.refused, self.workers.is_empty()) {
                    return Err(UsageError(format!(
                        "{flag} names a file that workers do not have; leave it out"
                    )));
                }
                let urls = self.arguments.into_iter().map(text).collect::<Result<_, _>>()?;
                let options = Options { urls, ..self.options };
                let (output, workers, secret, forwarded) =
                    (self.output, self.workers, self.secret, self.forwarded);
                Ok(Command::Run(Box::new(RunArguments { options, output, workers, secret, forwarded })))
            }
        }
    }
}

/// A whole number, or one with a unit of thousands: 20000, 20k, 1.5M.
fn amount(text: &str) -> Option<u64> {
    let (digits, factor) = match text.strip_suffix(['k', 'K', 'M', 'G']) {
        None => (text, 1),
        Some(digits) if text.ends_with(['k', 'K']) => (digits, 1_000),
        Some(digits) if text.ends_with('M') => (digits, 1_000_000),
        Some(digits) => (digits, 1_000_000_000),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = 10_u64.checked_pow(u32::try_from(part.len()).ok()?)?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // The result must be a whole number.
    if whole.is_empty() || !is_number(whole) || !is_number(part) || factor % scale != 0 {
        return None;
    }
    let part: u64 = if part.is_empty() { 0 } else { part.parse().ok()? };
    whole.parse::<u64>().ok()?.checked_mul(factor)?.checked_add(part * (factor / scale))
}

const TIME: &str = "a time, as 30, 500ms, 10s, 2m or 1h";

/// Seconds, or a number with a unit.
fn time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    Duration::try_from_secs_f64(number * seconds)
        .ok()
        .filter(|time| *time <= Duration::from_secs(365 * 86400))
}

fn think(text: &str) -> Option<Think> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let think = Think { least: time(least)?, most: time(most)? };
    (think.least <= think.most).then_some(think)
}

fn count(text: &str) -> Option<u64> {
    amount(text).filter(|&number| number > 0)
}

fn bounded(text: &str, most: usize) -> Option<usize> {
    amount(text).and_then(|number| usize::try_from(number).ok()).filter(|number| (1..=most).contains(number))
}

fn positive(text: &str) -> Option<f64> {
    if let Some(number) = amount(text) {
        return Some(number as f64).filter(|number| *number > 0.0 && *number <= 1e8);
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0 && *number <= 1e8)
}

fn list<T: FromStr>(text: &str) -> Option<Vec<T>> {
    text.split(',').map(|part| part.trim().parse().ok()).collect()
}

fn field(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    let is_value = !value.contains(['\r', '\n', '\0']);
    (is_name && is_value).then(|| (name.to_owned(), value.trim().to_owned()))
}

fn text(value: OsString) -> Result<String, UsageError> {
    value.into_string().map_err(|value| UsageError(format!("{} is not UTF-8", value.to_string_lossy())))
}

fn unknown(flag: &str) -> UsageError {
    let near = |name: &str| strsim::damerau_levenshtein(name, flag.trim_start_matches('-'));
    match flags().map(|flag| flag.long).min_by_key(|name| near(name)) {
        Some(name) if near(name) <= flag.len() / 3 => {
            UsageError(format!("unknown flag {flag}; did you mean --{name}?"))
        }
        _ => UsageError(format!("unknown flag {flag}; see taipan-bench --help")),
    }
}

fn usage(error: lexopt::Error) -> UsageError {
    UsageError(format!("{error}; see taipan-bench --help"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, UsageError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn options(line: &str) -> Options {
        match parsed(line) {
            Ok(Command::Run(arguments)) => arguments.options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn check(line: &str, change: impl FnOnce(&mut Options)) {
        let mut expected = Options { urls: vec!["u".to_owned()], ..Options::default() };
        change(&mut expected);
        assert_eq!(options(&format!("{line} u")), expected, "{line}");
    }

    #[test]
    fn parses_flags_into_options() {
        check("", |_| {});
        check("-n 5 -c 7 -t 2", |options| {
            (options.requests, options.connections, options.threads) = (Some(5), 7, Some(2));
        });
        check("-n 1k -c 1.5k --rate 10k", |options| {
            (options.requests, options.connections, options.rate) = (Some(1000), 1500, Some(10_000.0));
        });
        check("-n 2M --read-rate 4K", |options| {
            (options.requests, options.shape.read) = (Some(2_000_000), Some(4000));
        });
        check("-z 90s --warm-up 500ms", |options| {
            (options.time, options.warm_up) = (Some(Duration::from_secs(90)), Duration::from_millis(500));
        });
        check("--rate 2.5 --arrivals even", |options| {
            (options.rate, options.arrivals) = (Some(2.5), Arrivals::Even);
        });
        check("--modem --abort 100", |options| {
            (options.shape.read, options.shape.closing) = (Some(4200), Closing::AbortAfter(100));
        });
        check("--think 1..2m", |options| {
            options.think = Think { least: Duration::from_secs(1), most: Duration::from_secs(120) };
        });
        check("-H a:b -H C:d", |options| {
            options.fields = vec![("a".to_owned(), "b".to_owned()), ("C".to_owned(), "d".to_owned())];
        });
        check("--status 200,304 --folder /srv", |options| {
            options.statuses = GoodStatuses::These(vec![200, 304]);
            options.check = Check::Checksum(Reference::Folder("/srv".into()));
        });
        check("--source 127.0.0.2,::1", |options| {
            options.sources = vec!["127.0.0.2".parse().unwrap(), "::1".parse().unwrap()];
        });
    }

    #[test]
    fn parses_commands() {
        let worker = Worker { listen: "127.0.0.1:7100".to_owned(), secret: None };
        assert_eq!(parsed("worker"), Ok(Command::Worker(worker)));
        assert_eq!(parsed("man"), Ok(Command::Man));
        assert_eq!(parsed("-c 3 --help"), Ok(Command::Help));
        assert_eq!(parsed("-V"), Ok(Command::Version));
        assert!(matches!(parsed("--merge a b"), Ok(Command::Merge { files, .. }) if files.len() == 2));
    }

    #[test]
    fn errors_say_what_to_do() {
        for (line, expected) in [
            ("--conections 3 u", "did you mean --connections?"),
            ("--zzzzzzzzzzz u", "see taipan-bench --help"),
            ("-n 0 u", "-n takes a number above 0"),
            ("--requests 1kk u", "--requests takes a number above 0"),
            ("-n 1.0001k u", "-n takes a number above 0"),
            ("-c 2M u", "-c takes a number from 1 to 1000000"),
            ("-t x u", "-t takes a number from 1 to 1024"),
            ("-n", "taipan-bench --help"),
            ("-z 5x u", "500ms"),
            ("-z 0 u", "500ms"),
            ("--rate nan u", "a number above 0"),
            ("--think 5..1 u", "1s..5s"),
            ("-H x u", "a name, a colon"),
            ("--status 42 u", "200,304"),
            ("--format xml u", "zeusbench"),
            ("--min-availability 101 u", "from 0 to 100"),
            ("--http 3 u", "1.0, 1.1 or 2"),
            ("worker -c 3", "--listen and --secret"),
            ("--listen :1 u", "taipan-bench worker"),
            ("--merge", "--format json"),
            ("--workers a:1 --body-file x u", "--body-file names a file"),
            ("--workers a:1 -D x u", "-D names a file"),
        ] {
            let UsageError(text) = parsed(line).unwrap_err();
            assert!(text.contains(expected), "{line}: {text}");
            assert!(!text.contains('\n'), "{line}: {text}");
        }
    }

    #[test]
    fn documents_every_flag_once() {
        let mut seen = std::collections::HashSet::new();
        for flag in flags() {
            assert!(seen.insert(flag.long.to_owned()), "{}", flag.long);
            assert!(flag.short.is_none_or(|letter| seen.insert(letter.to_string())), "{}", flag.long);
            assert!(help().contains(&format!("--{}", flag.long)));
            assert!(man().contains(&format!("\\-\\-{}", flag.long.replace('-', "\\-"))));
            assert!(flag.help.ends_with(')') && flag.help.contains("(default: "), "{}", flag.long);
        }
    }
}
