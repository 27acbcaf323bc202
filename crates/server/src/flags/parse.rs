//! The parser: arguments → command, or the mistake in them.

mod passwd;
mod values;

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cache::store::purge::{Purge, What};
use dialects::{Dialect, Start};
use site::disconnect::{Clients, Selection};
use site::model::Level;
use site::watch::Filter;

use self::values::{
    dialect, dialects, host_name, ip_address, number, path, server_address, socket_address, text, texts,
    time, url_path,
};
use super::commands::{COMMANDS, CommandKey, FOREIGN_COMMANDS};
use super::table::{
    FLAGS, FOREIGN_FLAGS, FlagRow, Key, LEVEL_TIME, PERSONALITIES, RETRY_AFTER, Switch, Value,
};
use super::{
    Command, Document, Explain, Presence, Report, Resolve, Scripts, Serve, TopMode, UsageError, Wrap,
};
use crate::control::{ConfigSource, Drain, DrainChange, MaintenanceAct, Request, SiteSource};
use crate::process::ipc::{Form, Syntax};

/// A command line in parts. Its command takes the values of its flags from it.
struct Line {
    command: CommandKey,
    /// In the order in which they were given.
    flags: Vec<GivenFlag>,
    arguments: Vec<OsString>,
}

/// A flag that was given.
struct GivenFlag {
    row: &'static FlagRow,
    /// As it was written.
    typed: String,
    /// Empty: the flag has none.
    value: OsString,
}

/// Parses a whole command line. The name of the program may be that of another server.
pub fn parse_line(line: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut line = line.into_iter();
    let program = PathBuf::from(line.next().unwrap_or_default());
    let arguments: Vec<OsString> = line.collect();
    if let Some(dialect) = Dialect::of_program(&program) {
        return personality(dialect, arguments);
    }
    let first = arguments.first().and_then(|first| first.to_str()).unwrap_or_default();
    if let Some((_, dialect)) = PERSONALITIES.iter().find(|(flag, _)| *flag == first) {
        return personality(*dialect, arguments.into_iter().skip(1).collect());
    }
    // No other flag is called -f.
    let is_command = COMMANDS.iter().any(|command| command.name == first);
    let Some(at) = arguments.iter().position(|argument| argument == "-f").filter(|_| !is_command) else {
        return parse(arguments);
    };
    match arguments
        .get(at + 1)
        .map(Path::new)
        .filter(|file| file.extension().is_some_and(|end| end == "toml"))
    {
        Some(file) => Err(UsageError(format!("-f is for boa.conf; write taipan -c {}", file.display()))),
        None => personality(Dialect::Boa, arguments),
    }
}

/// The command line of another server.
fn personality(dialect: Dialect, arguments: Vec<OsString>) -> Result<Command, UsageError> {
    Ok(match dialect.start(arguments).map_err(UsageError)? {
        Start::Print(text, code) => Command::Print(text, code),
        Start::Serve { input, background } => Command::Serve(Serve {
            source: SiteSource::Config(ConfigSource::Foreign(input)),
            listen: Vec::new(),
            workers: None,
            access_log: None,
            user: None,
            tls: Vec::new(),
            presence: if background { Presence::Background } else { Presence::Foreground },
        }),
    })
}

/// Parses the arguments behind the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    use lexopt::Arg;
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut line = Line { command: CommandKey::Serve, flags: Vec::new(), arguments: Vec::new() };
    let mut first = true;
    while let Some(argument) = parser.next().map_err(usage)? {
        let typed = match &argument {
            Arg::Long(name) => format!("--{name}"),
            Arg::Short(c) => format!("-{c}"),
            Arg::Value(_) => String::new(),
        };
        let row = match argument {
            Arg::Value(value) => {
                let named = COMMANDS.iter().find(|c| !c.name.is_empty() && value == c.name);
                match named {
                    Some(command) if first => line.command = command.key,
                    _ => line.arguments.push(value),
                }
                // The arguments behind the program belong to the program.
                if line.command == CommandKey::Wrap && !line.arguments.is_empty() {
                    line.arguments.extend(parser.raw_args().map_err(usage)?);
                }
                first = false;
                continue;
            }
            Arg::Long(name) => named(line.command, &typed, |flag| flag.long == name)?,
            Arg::Short(c) => named(line.command, &typed, |flag| flag.short == Some(c))?,
        };
        let value = match row.key {
            Key::Switch(Switch::Help) => return Ok(Command::Help(line.command)),
            Key::Switch(Switch::Version) => return Ok(Command::Version),
            Key::Switch(Switch::Personality) => {
                return Err(UsageError(format!("{typed} has to be the first argument")));
            }
            Key::Switch(_) => OsString::new(),
            Key::Value(..) => parser.value().map_err(usage)?,
        };
        line.flags.push(GivenFlag { row, typed, value });
    }
    if let Some(GivenFlag { typed, .. }) = line.flags.iter().find(|flag| !is_of(flag.row, line.command)) {
        line.unless_misspelt()?;
        let command = match line.command {
            CommandKey::Serve => "taipan without a command".to_owned(),
            command => format!("taipan {}", command.name()),
        };
        return Err(UsageError(format!("{typed} is not a flag of {command}; see {}", help(line.command))));
    }
    line.command()
}

/// The flag of this command; else one of another command, whose name is in the error then.
fn named(
    command: CommandKey,
    typed: &str,
    is_named: impl Fn(&FlagRow) -> bool,
) -> Result<&'static FlagRow, UsageError> {
    let of_command = |flag: &&FlagRow| is_of(flag, command);
    let mut all = FLAGS.iter().filter(|flag| is_named(flag));
    let first = all.clone().next();
    if (command, typed) == (CommandKey::Passwd, "-d") {
        return Err(UsageError("unknown flag -d; DES is too weak: leave it out for argon2id".to_owned()));
    }
    let is_foreign = || FOREIGN_FLAGS.iter().any(|(names, _)| names.contains(&typed));
    match (all.find(of_command), first) {
        (Some(flag), _) => Ok(flag),
        (None, Some(flag)) if !is_foreign() => Ok(flag),
        _ => Err(unknown(command, typed)),
    }
}

fn is_of(flag: &FlagRow, command: CommandKey) -> bool {
    flag.commands.is_empty() || flag.commands.contains(&command)
}

impl Line {
    fn command(&self) -> Result<Command, UsageError> {
        match self.command {
            CommandKey::Serve => self.serve(),
            CommandKey::Check => self.check(),
            CommandKey::Convert => self.convert(),
            CommandKey::Certificates => self.certificates(),
            CommandKey::Reload => self.control(Request::Reload),
            CommandKey::Upgrade => self.control(Request::Upgrade),
            CommandKey::Stats => {
                self.control(Request::Stats(if self.has(Switch::Json) { Form::Json } else { Form::Text }))
            }
            CommandKey::Top => self.top(),
            CommandKey::Metrics => {
                let is_prometheus = self.has(Switch::Prometheus);
                let syntax = if is_prometheus { Syntax::Prometheus } else { Syntax::OpenMetrics };
                self.control(Request::Stats(Form::Metrics(syntax)))
            }
            CommandKey::Purge => self.purge(),
            CommandKey::Reopen => self.control(Request::Reopen),
            CommandKey::LogLevel => self.log_level(),
            CommandKey::Maintenance => self.maintenance(),
            CommandKey::Disconnect => self.disconnect(),
            CommandKey::Watch => self.watch(),
            CommandKey::Drain => self.drain(DrainChange::Drain),
            CommandKey::Undrain => self.drain(DrainChange::Undrain),
            CommandKey::Explain => self.explain(),
            CommandKey::Healthcheck => self.healthcheck(),
            CommandKey::Wrap => self.wrap(),
            CommandKey::Passwd => self.passwd(),
            CommandKey::Report => {
                Ok(Command::Report(Report { files: self.inputs(), html: self.value(Value::Html, path)? }))
            }
            CommandKey::Resolve => self.resolve(),
            CommandKey::Generate => self.generate(),
            CommandKey::Help => self.help(),
            CommandKey::Version => {
                self.exactly(0, "version takes no argument")?;
                Ok(Command::Version)
            }
        }
    }

    /// The command line has no command.
    fn serve(&self) -> Result<Command, UsageError> {
        let config = self.config()?;
        if self.arguments.len() > 1 || config.is_some() {
            self.unless_misspelt()?;
        }
        if self.arguments.len() > 1 {
            return Err(UsageError("only one folder can be served; write a configuration for more".into()));
        }
        let tls = self.values(Value::Tls, host_name)?;
        if config.is_some() && !tls.is_empty() {
            return Err(UsageError(
                "--tls is for a folder; in a configuration, write acme = true, and tls behind an address"
                    .into(),
            ));
        }
        Ok(Command::Serve(Serve {
            source: self.source_or(self.arguments.first().map(PathBuf::from))?,
            listen: self.values(Value::Listen, text)?,
            workers: self.number(Value::Workers, 1..=1024)?,
            access_log: self.value(Value::AccessLog, text)?,
            user: self.value(Value::User, text)?,
            tls,
            presence: Presence::Foreground,
        }))
    }

    fn check(&self) -> Result<Command, UsageError> {
        self.file_only()?;
        let config = self
            .config()?
            .ok_or_else(|| UsageError("check needs a configuration: taipan check -c FILE".into()))?;
        Ok(Command::Check { source: self.configuration(config)? })
    }

    fn convert(&self) -> Result<Command, UsageError> {
        self.exactly(1, "convert takes one file: taipan convert boa.conf")?;
        let file = PathBuf::from(&self.arguments[0]);
        match self.value(Value::Dialect, dialect)?.or_else(|| Dialect::of_file(&file)) {
            Some(dialect) => Ok(Command::Convert { input: dialect.input(file) }),
            None => Err(UsageError(format!(
                "the name {} does not tell which server it is for; add --from and one of {}",
                file.display(),
                dialects()
            ))),
        }
    }

    fn certificates(&self) -> Result<Command, UsageError> {
        self.file_only()?;
        let config = self.config()?.ok_or_else(|| {
            UsageError("certificates needs a configuration: taipan certificates -c FILE".into())
        })?;
        Ok(Command::Certificates { config })
    }

    fn control(&self, request: Request) -> Result<Command, UsageError> {
        self.file_only()?;
        self.send(request)
    }

    fn send(&self, request: Request) -> Result<Command, UsageError> {
        Ok(Command::Control { source: self.source()?, request })
    }

    fn top(&self) -> Result<Command, UsageError> {
        self.file_only()?;
        let mode = if self.has(Switch::Once) { TopMode::Once } else { TopMode::Live };
        Ok(Command::Top { source: self.source()?, mode })
    }

    fn purge(&self) -> Result<Command, UsageError> {
        let path = |value: &OsStr| url_path(&text(value)?);
        let mut all = Vec::new();
        for argument in &self.arguments {
            all.push(What::Path(path(argument)?));
        }
        all.extend(self.values(Value::PurgePrefix, path)?.into_iter().map(What::Prefix));
        all.extend(self.values(Value::PurgeTag, text)?.into_iter().map(What::Tag));
        all.extend(self.has(Switch::PurgeAll).then_some(What::All));
        let usage = "purge takes one of a path, --prefix, --tag and --all: taipan purge -c FILE /news/";
        let (Some(what), None) = (all.pop(), all.pop()) else {
            return Err(UsageError(usage.to_owned()));
        };
        let host = self.value(Value::PurgeHost, text)?.map(|host| host.to_ascii_lowercase());
        let purge = Purge { host, what };
        match purge.to_string().parse() {
            Ok(read) if purge == read => self.send(Request::Purge(purge)),
            _ => Err(UsageError(
                "a path begins with a slash, and neither it nor a host or a tag has a space or is longer than 4000 bytes"
                    .to_owned(),
            )),
        }
    }

    fn drain(&self, change: DrainChange) -> Result<Command, UsageError> {
        let name = self.command.name();
        let usage = format!(
            "{name} takes an application and one of its addresses: taipan {name} NAME ADDRESS -c FILE"
        );
        self.exactly(2, &usage)?;
        let [application, endpoint] = texts(&self.arguments)?;
        self.send(Request::Drain(Drain { application, endpoint, change }))
    }

    fn maintenance(&self) -> Result<Command, UsageError> {
        self.exactly(
            1,
            "maintenance takes a host: taipan maintenance www.example.org -c FILE; --off ends it",
        )?;
        let [host] = texts(&self.arguments)?;
        let retry_after = match (self.has(Switch::Off), self.time(Value::RetryAfter)?) {
            (true, Some(_)) => {
                return Err(UsageError("give --off or --retry-after, not both".to_owned()));
            }
            (true, None) => None,
            (false, time) => Some(time.unwrap_or(RETRY_AFTER).as_secs() as u32),
        };
        self.send(Request::Maintenance(MaintenanceAct { host, retry_after }))
    }

    fn log_level(&self) -> Result<Command, UsageError> {
        self.exactly(1, "log-level takes a level: taipan log-level debug -c FILE")?;
        let [name] = texts(&self.arguments)?;
        let level = Level::from_name(&name)
            .ok_or_else(|| UsageError(format!("{name} is no level; write error, warn, info or debug")))?;
        self.send(Request::Level(level, self.time(Value::For)?.unwrap_or(LEVEL_TIME)))
    }

    fn disconnect(&self) -> Result<Command, UsageError> {
        let clients = |value: &OsStr| Clients::parse(&text(value)?).map_err(UsageError);
        let selection = match self.value(Value::Client, clients)? {
            Some(clients) => {
                self.exactly(0, "give the ID of a connection, or --client, not both")?;
                Selection::Clients(clients)
            }
            None => {
                self.exactly(1, "disconnect takes the ID of a connection: taipan disconnect 1a2b -c FILE")?;
                let [id] = texts(&self.arguments)?;
                Selection::Connection(id.parse().map_err(UsageError)?)
            }
        };
        self.send(Request::Disconnect(selection))
    }

    fn watch(&self) -> Result<Command, UsageError> {
        self.exactly(0, "watch takes flags alone, such as --path \"/api/*\" -c FILE")?;
        let mut filter = Filter::default();
        for flag in &self.flags {
            if let Key::Value(Value::Watch(part), _) = flag.row.key {
                filter.add(part, &text(&flag.value)?).map_err(UsageError)?;
            }
        }
        Ok(Command::Watch { source: self.source()?, filter })
    }

    fn explain(&self) -> Result<Command, UsageError> {
        self.exactly(2, "explain takes a method and a URL: taipan explain GET http://localhost/")?;
        let [method, url] = texts(&self.arguments)?;
        Ok(Command::Explain(Explain {
            source: self.source()?,
            method,
            url,
            fields: self.values(Value::Header, text)?,
            from: self.value(Value::From, ip_address)?.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            to: self.value(Value::To, server_address)?,
        }))
    }

    fn healthcheck(&self) -> Result<Command, UsageError> {
        self.exactly(1, "healthcheck takes one URL: taipan healthcheck http://127.0.0.1:8080/")?;
        let [url] = texts(&self.arguments)?;
        Ok(Command::Healthcheck { url, timeout: self.timeout()?.unwrap_or(Duration::from_secs(5)) })
    }

    fn wrap(&self) -> Result<Command, UsageError> {
        let folders = self.values(Value::Folder, path)?;
        let scripts = match (self.arguments.split_first(), folders.is_empty()) {
            (Some((program, arguments)), true) => Scripts::Program(program.clone(), arguments.to_vec()),
            (None, false) => Scripts::Beneath(folders),
            (Some(_), false) => {
                return Err(UsageError("give a program or a --folder of scripts, not both".into()));
            }
            (None, true) => {
                return Err(UsageError(
                    "fcgi-wrap needs a folder of scripts or a program: taipan fcgi-wrap --folder DIR".into(),
                ));
            }
        };
        Ok(Command::Wrap(Wrap {
            socket: self.value(Value::Socket, text)?,
            processes: self.number(Value::Processes, 1..=1024)?.unwrap_or(16),
            scripts,
        }))
    }

    fn resolve(&self) -> Result<Command, UsageError> {
        Ok(Command::Resolve(Resolve {
            files: self.inputs(),
            names: self.value(Value::Names, path)?,
            split: self.value(Value::Split, path)?,
            confirm: self.has(Switch::Confirm),
            jobs: self.number(Value::Jobs, 1..=1024)?.unwrap_or(64),
            timeout: self.timeout()?.unwrap_or(Duration::from_secs(2)),
            server: self.value(Value::Dns, socket_address)?,
        }))
    }

    fn generate(&self) -> Result<Command, UsageError> {
        let usage = "generate takes one of man, bash, zsh and fish";
        self.exactly(1, usage)?;
        let document = match self.arguments[0].to_str() {
            Some("man") => Document::Man,
            Some("bash") => Document::Bash,
            Some("zsh") => Document::Zsh,
            Some("fish") => Document::Fish,
            _ => return Err(UsageError(usage.into())),
        };
        Ok(Command::Generate(document))
    }

    fn help(&self) -> Result<Command, UsageError> {
        let Some(name) = self.arguments.first() else { return Ok(Command::Help(CommandKey::Serve)) };
        let name = text(name)?;
        match COMMANDS.iter().find(|row| !row.name.is_empty() && row.name == name) {
            Some(row) => Ok(Command::Help(row.key)),
            None => {
                let advice = advice(&name).unwrap_or_else(|| "see taipan --help".to_owned());
                Err(UsageError(format!("there is no command {name}; {advice}")))
            }
        }
    }

    fn has(&self, switch: Switch) -> bool {
        self.flags.iter().any(|flag| flag.row.key == Key::Switch(switch))
    }

    /// The flag, each time that it was given.
    fn given(&self, value: Value) -> impl Iterator<Item = &GivenFlag> {
        self.flags.iter().filter(move |flag| matches!(flag.row.key, Key::Value(own, _) if own == value))
    }

    /// The values of a flag that may be repeated.
    fn values<T>(
        &self,
        value: Value,
        read: impl Fn(&OsStr) -> Result<T, UsageError>,
    ) -> Result<Vec<T>, UsageError> {
        self.given(value).map(|flag| read(&flag.value)).collect()
    }

    /// The value of a flag. Of several, the last one counts.
    fn value<T>(
        &self,
        value: Value,
        read: impl Fn(&OsStr) -> Result<T, UsageError>,
    ) -> Result<Option<T>, UsageError> {
        Ok(self.values(value, read)?.pop())
    }

    fn number(&self, value: Value, among: RangeInclusive<usize>) -> Result<Option<usize>, UsageError> {
        let read = |flag: &GivenFlag| number(&flag.value, &flag.typed, &among);
        Ok(self.given(value).map(read).collect::<Result<Vec<_>, _>>()?.pop())
    }

    fn time(&self, value: Value) -> Result<Option<Duration>, UsageError> {
        let read = |flag: &GivenFlag| time(&flag.value, &flag.typed);
        Ok(self.given(value).map(read).collect::<Result<Vec<_>, _>>()?.pop())
    }

    fn timeout(&self) -> Result<Option<Duration>, UsageError> {
        let seconds = self.number(Value::Timeout, 1..=3600)?;
        Ok(seconds.map(|seconds| Duration::from_secs(seconds as u64)))
    }

    /// The files that are read. Without arguments, standard input.
    fn inputs(&self) -> Vec<PathBuf> {
        match self.arguments.is_empty() {
            true => vec![PathBuf::from("-")],
            false => self.arguments.iter().map(PathBuf::from).collect(),
        }
    }

    fn config(&self) -> Result<Option<PathBuf>, UsageError> {
        let mut all = self.values(Value::Config, path)?;
        match all.len() {
            0 | 1 => Ok(all.pop()),
            _ => Err(UsageError("only one configuration can be given".into())),
        }
    }

    /// The configuration, or the folder of `--root`.
    fn source(&self) -> Result<SiteSource, UsageError> {
        self.source_or(self.value(Value::Root, path)?)
    }

    /// The configuration, or this folder. `None`: the current one.
    fn source_or(&self, folder: Option<PathBuf>) -> Result<SiteSource, UsageError> {
        match (self.config()?, folder) {
            (Some(_), Some(_)) => Err(UsageError("give a folder or a configuration, not both".into())),
            (Some(config), None) => self.configuration(config).map(SiteSource::Config),
            (None, folder) => match self.value(Value::Dialect, dialect)? {
                Some(_) => Err(UsageError("--dialect needs a configuration: add -c FILE".into())),
                None => Ok(SiteSource::Folder(folder.unwrap_or_else(|| PathBuf::from(".")))),
            },
        }
    }

    /// A file, which may be the configuration of another server.
    fn configuration(&self, file: PathBuf) -> Result<ConfigSource, UsageError> {
        Ok(match self.value(Value::Dialect, dialect)?.or_else(|| Dialect::of_file(&file)) {
            Some(dialect) => ConfigSource::Foreign(dialect.input(file)),
            None => ConfigSource::Own(file),
        })
    }

    /// Errors: there are arguments beside the configuration.
    fn file_only(&self) -> Result<(), UsageError> {
        let command = self.command.name();
        match (self.config()?, self.arguments.as_slice()) {
            (_, []) => Ok(()),
            (None, [file]) => {
                let file = Path::new(file).display();
                Err(UsageError(format!("{command} takes its file behind -c: taipan {command} -c {file}")))
            }
            _ => Err(UsageError(format!("{command} takes no argument but -c FILE"))),
        }
    }

    /// Errors: the first argument is a misspelt command, not a folder.
    fn unless_misspelt(&self) -> Result<(), UsageError> {
        let Some(name) = self.arguments.first().and_then(|first| first.to_str()) else { return Ok(()) };
        match advice(name) {
            Some(advice) if self.command == CommandKey::Serve => {
                Err(UsageError(format!("there is no command {name}; {advice}")))
            }
            _ => Ok(()),
        }
    }

    fn exactly(&self, count: usize, otherwise: &str) -> Result<(), UsageError> {
        if self.arguments.len() == count { Ok(()) } else { Err(UsageError(otherwise.to_owned())) }
    }
}

/// What to write instead of `name`, if `name` resembles a command.
pub fn advice(name: &str) -> Option<String> {
    let foreign = FOREIGN_COMMANDS.iter().find(|(names, _)| names.contains(&name));
    if let Some((_, what_to_do)) = foreign {
        return Some((*what_to_do).to_owned());
    }
    let distance = |command: &str| strsim::damerau_levenshtein(command, name);
    let commands = COMMANDS.iter().map(|command| command.name).filter(|command| !command.is_empty());
    let nearest = commands.min_by_key(|command| distance(command))?;
    (distance(nearest) <= 1 + name.len() / 5).then(|| format!("did you mean taipan {nearest}?"))
}

fn unknown(command: CommandKey, flag: &str) -> UsageError {
    if let Some((_, what_to_do)) = FOREIGN_FLAGS.iter().find(|(names, _)| names.contains(&flag)) {
        return UsageError(format!("unknown flag {flag}; {what_to_do}"));
    }
    let written = flag.trim_start_matches('-');
    let near = |name: &str| strsim::damerau_levenshtein(name, written);
    let own = FLAGS.iter().filter(|flag| is_of(flag, command)).map(|flag| flag.long);
    match own.min_by_key(|name| near(name)) {
        Some(name) if near(name) <= written.len() / 3 => {
            UsageError(format!("unknown flag {flag}; did you mean --{name}?"))
        }
        _ => UsageError(format!("unknown flag {flag}; see {}", help(command))),
    }
}

/// What prints the flags of a command.
fn help(command: CommandKey) -> String {
    match command {
        CommandKey::Serve => "taipan --help".to_owned(),
        command => format!("taipan {} --help", command.name()),
    }
}

fn usage(error: lexopt::Error) -> UsageError {
    UsageError(format!("{error}; see taipan --help"))
}
