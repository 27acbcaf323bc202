//! The command line. Every flag is defined once, in `table`; the parser, `--help` and the manual page use it.

mod table;

mod value;

mod help;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::plan::options::{Body, CloseWord, Options};
use crate::plan::{Check, GoodStatuses, Reference, Resumption, Trust};
use crate::report::Format;
use crate::shape::{Closing, MODEM};
use table::{FlagRow, Key, Sent, flags};
use value::Value;

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

/// What a run writes, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    pub format: Format,
    /// `None`: standard output.
    pub file: Option<PathBuf>,
    /// In per cent. Below it, the exit code is 1.
    pub availability: f64,
    pub progress: Progress,
}

/// Whether a line shows the progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// If standard error is a terminal.
    IfSeen,
    Never,
}

/// A generator that waits for controllers.
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
    /// The arguments are reports.
    merges: bool,
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
        merges: false,
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
        parsed.set(flag, Value { flag: &typed, text: &value })?;
    }
    parsed.command()
}

impl ParsedFlags {
    fn set(&mut self, flag: &'static FlagRow, value: Value<'_>) -> Result<(), UsageError> {
        self.used.push(flag.key);
        match flag.sent {
            Sent::AsIt if flag.value.is_some() => {
                self.forwarded.push(format!("--{}={}", flag.long, value.text))
            }
            Sent::AsIt => self.forwarded.push(format!("--{}", flag.long)),
            Sent::Not => {}
            Sent::Refused => self.refused = Some(value.flag.to_owned()),
        }
        match flag.key {
            Key::Format => self.output.format = value.format()?,
            Key::Output => self.output.file = Some(value.text.into()),
            Key::MinAvailability => self.output.availability = value.per_cent()?,
            Key::Quiet => self.output.progress = Progress::Never,
            Key::Merge => self.merges = true,
            Key::Workers => self.workers.extend(value.text.split(',').map(str::to_owned)),
            Key::Secret => self.secret = Some(value.text.into()),
            Key::Listen => self.listen = Some(value.text.to_owned()),
            Key::Help | Key::Version => {}
            key => set_option(&mut self.options, key, value)?,
        }
        Ok(())
    }

    fn command(self) -> Result<Command, UsageError> {
        let refuse = |why: &str| Err(UsageError(why.to_owned()));
        match (self.arguments.first().and_then(|first| first.to_str()), self.merges) {
            (_, true) => {
                if self.arguments.is_empty() {
                    return refuse(
                        "--merge takes files of --format json: taipan-bench --merge a.json b.json",
                    );
                }
                let files = self.arguments.into_iter().map(PathBuf::from).collect();
                Ok(Command::Merge { files, output: self.output })
            }
            (Some("worker"), false) => {
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
            (Some("man"), false) if self.arguments.len() == 1 => Ok(Command::Man),
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

/// Sets what a flag says of the load.
fn set_option(options: &mut Options, key: Key, value: Value<'_>) -> Result<(), UsageError> {
    match key {
        Key::Requests => options.requests = Some(value.count()?),
        Key::Time => options.time = Some(value.time_above_zero()?),
        Key::Connections => options.connections = value.up_to(1_000_000)?,
        Key::Threads => options.threads = Some(value.up_to(1024)?),
        Key::Rate => options.rate = Some(value.positive()?),
        Key::Arrivals => options.arrivals = value.arrivals()?,
        Key::Urls => options.lists.push(value.text.into()),
        Key::Log => options.log = Some(value.text.into()),
        Key::Order => options.order = Some(value.order()?),
        Key::Speed => options.speed = value.positive()?,
        Key::Seed => options.seed = value.amount("a number")?,
        Key::Method => options.method = Some(value.method()?),
        Key::Body => options.body = Some(Body::Text(value.text.to_owned())),
        Key::BodyFile => options.body = Some(Body::File(value.text.into())),
        Key::Header => options.fields.push(value.field()?),
        Key::Close => options.close = Some(CloseWord::AfterEach),
        Key::Session => options.close = Some(CloseWord::After(value.count()?)),
        Key::Think => options.think = value.think()?,
        Key::Pipeline => options.pipelined = value.up_to(1024)?,
        Key::Http => options.version = value.version()?,
        Key::Streams => options.streams = value.up_to(10_000)?,
        Key::Unix => options.unix = Some(value.text.into()),
        Key::ConnectTo => options.connect_to = Some(value.address_and_port()?),
        Key::Source => options.sources.extend(value.addresses()?),
        Key::Ramp => options.ramp = value.time()?,
        Key::WarmUp => options.warm_up = value.time()?,
        Key::Timeout => options.timeout = value.time_above_zero()?,
        Key::Status => options.statuses = GoodStatuses::These(value.statuses()?),
        Key::Check => options.check = value.check()?,
        Key::Manifest => options.check = Check::Checksum(Reference::Manifest(value.text.into())),
        Key::Folder => options.check = Check::Checksum(Reference::Folder(value.text.into())),
        Key::Modem => options.shape.read = Some(MODEM),
        Key::ReadRate => options.shape.read = Some(value.bytes_per_second()?),
        Key::SlowHead => options.shape.write_head = Some(value.bytes_per_second()?),
        Key::SlowBody => options.shape.write_body = Some(value.bytes_per_second()?),
        Key::HalfClose => options.shape.closing = Closing::HalfClose,
        Key::Abort => options.shape.closing = Closing::AbortAfter(value.amount("a number of bytes")?),
        Key::Insecure => options.trust = Trust::Any,
        Key::Ca => options.trust = Trust::File(value.text.into()),
        Key::ServerName => options.server_name = Some(value.text.to_owned()),
        Key::NoResumption => options.resumption = Resumption::Off,
        Key::Format
        | Key::Output
        | Key::MinAvailability
        | Key::Quiet
        | Key::Merge
        | Key::Workers
        | Key::Secret
        | Key::Listen
        | Key::Help
        | Key::Version => {}
    }
    Ok(())
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
    use std::time::Duration;

    use super::*;
    use crate::plan::{Arrivals, Think};

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
