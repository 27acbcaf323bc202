//! The parser: arguments → command, or the mistake in them.

mod passwd;
mod values;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use auth::hash::Bounds;
use cache::store::purge::{Purge, What};
use dialects::{Dialect, Start};
use site::disconnect::{Clients, Selection};
use site::host::HostAddress;
use site::model::Level;
use site::watch::Filter;

use self::passwd::GivenPasswd;
use self::values::{
    dialect, dialects, host_name, ip_address, number, server_address, socket_address, text, texts, time,
    url_path,
};
use super::commands::{COMMANDS, CommandKey, FOREIGN_COMMANDS};
use super::table::{
    FLAGS, FOREIGN_FLAGS, FlagRow, Key, LEVEL_TIME, PERSONALITIES, RETRY_AFTER, Switch, Value,
};
use super::{
    Command, Document, Explain, Presence, Report, Resolve, Scripts, Serve, TopMode, UsageError, Wrap,
};
use crate::control::{Drain, DrainChange, MaintenanceAct, Request, SiteSource};
use crate::process::ipc::{Form, Syntax};

/// The arguments, before they are checked.
#[derive(Default)]
struct Given {
    command: CommandKey,
    arguments: Vec<OsString>,
    config: Option<PathBuf>,
    dialect: Option<Dialect>,
    listen: Vec<String>,
    workers: Option<usize>,
    access_log: Option<String>,
    root: Option<PathBuf>,
    fields: Vec<String>,
    from: Option<IpAddr>,
    to: Option<HostAddress>,
    timeout: Option<u64>,
    user: Option<String>,
    tls: Vec<String>,
    form: Form,
    top: TopMode,
    syntax: Syntax,
    purges: Vec<What>,
    purge_host: Option<String>,
    filter: Filter,
    retry_after: Option<Duration>,
    off: bool,
    time: Option<Duration>,
    client: Option<Clients>,
    socket: Option<String>,
    processes: Option<usize>,
    folders: Vec<PathBuf>,
    html: Option<PathBuf>,
    names: Option<PathBuf>,
    split: Option<PathBuf>,
    confirm: bool,
    jobs: Option<usize>,
    dns: Option<SocketAddr>,
    passwd: GivenPasswd,
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
            source: SiteSource::Foreign(input),
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
    let mut given = Given::default();
    let mut first = true;
    // Each with its spelling.
    let mut used: Vec<(&FlagRow, String)> = Vec::new();
    while let Some(argument) = parser.next().map_err(usage)? {
        let typed = match &argument {
            Arg::Long(name) => format!("--{name}"),
            Arg::Short(c) => format!("-{c}"),
            Arg::Value(_) => String::new(),
        };
        let flag = match argument {
            Arg::Value(value) => {
                let named = COMMANDS.iter().find(|c| !c.name.is_empty() && value == c.name);
                match named {
                    Some(command) if first => given.command = command.key,
                    _ => given.arguments.push(value),
                }
                // The arguments behind the program belong to the program.
                if given.command == CommandKey::Wrap && !given.arguments.is_empty() {
                    given.arguments.extend(parser.raw_args().map_err(usage)?);
                }
                first = false;
                continue;
            }
            Arg::Long(name) => named(given.command, &typed, |flag| flag.long == name)?,
            Arg::Short(c) => named(given.command, &typed, |flag| flag.short == Some(c))?,
        };
        match flag.key {
            Key::Switch(Switch::Help) => return Ok(Command::Help(given.command)),
            Key::Switch(Switch::Version) => return Ok(Command::Version),
            Key::Switch(switch) => given.switch(switch, &typed)?,
            Key::Value(key, _) => given.set(key, &typed, parser.value().map_err(usage)?)?,
        }
        used.push((flag, typed));
    }
    if let Some((_, typed)) = used.iter().find(|(flag, _)| !flag.commands.contains(&given.command)) {
        given.unless_misspelt()?;
        let command = match given.command {
            CommandKey::Serve => "taipan without a command".to_owned(),
            command => format!("taipan {}", command.name()),
        };
        return Err(UsageError(format!("{typed} is not a flag of {command}; see {}", help(given.command))));
    }
    given.command()
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

/// Without arguments, standard input.
fn inputs(arguments: Vec<OsString>) -> Vec<PathBuf> {
    match arguments.is_empty() {
        true => vec![PathBuf::from("-")],
        false => arguments.into_iter().map(PathBuf::from).collect(),
    }
}

impl Given {
    fn log_level(self) -> Result<Command, UsageError> {
        self.exactly(1, "log-level takes a level: taipan log-level debug -c FILE")?;
        let name = text(self.arguments.into_iter().next().unwrap_or_default())?;
        let level = Level::from_name(&name)
            .ok_or_else(|| UsageError(format!("{name} is no level; write error, warn, info or debug")))?;
        let request = Request::Level(level, self.time.unwrap_or(LEVEL_TIME));
        Ok(Command::Control { source: source(self.config, self.root, self.dialect)?, request })
    }

    fn disconnect(self) -> Result<Command, UsageError> {
        let selection = match self.client {
            Some(ref clients) => {
                self.exactly(0, "give the ID of a connection, or --client, not both")?;
                Selection::Clients(clients.clone())
            }
            None => {
                self.exactly(1, "disconnect takes the ID of a connection: taipan disconnect 1a2b -c FILE")?;
                let id = text(self.arguments.into_iter().next().unwrap_or_default())?;
                Selection::Connection(id.parse().map_err(UsageError)?)
            }
        };
        let request = Request::Disconnect(selection);
        Ok(Command::Control { source: source(self.config, self.root, self.dialect)?, request })
    }

    fn maintenance(self) -> Result<Command, UsageError> {
        self.exactly(
            1,
            "maintenance takes a host: taipan maintenance www.example.org -c FILE; --off ends it",
        )?;
        let host = text(self.arguments.into_iter().next().unwrap_or_default())?;
        if self.off && self.retry_after.is_some() {
            return Err(UsageError("give --off or --retry-after, not both".to_owned()));
        }
        let seconds = self.retry_after.unwrap_or(RETRY_AFTER).as_secs() as u32;
        let act = MaintenanceAct { host, retry_after: (!self.off).then_some(seconds) };
        let request = Request::Maintenance(act);
        Ok(Command::Control { source: source(self.config, self.root, self.dialect)?, request })
    }

    /// Errors: it cannot be used here.
    fn switch(&mut self, switch: Switch, typed: &str) -> Result<(), UsageError> {
        match switch {
            Switch::Json => self.form = Form::Json,
            Switch::Once => self.top = TopMode::Once,
            Switch::Prometheus => self.syntax = Syntax::Prometheus,
            Switch::Confirm => self.confirm = true,
            Switch::PurgeAll => self.purges.push(What::All),
            Switch::Off => self.off = true,
            Switch::Create | Switch::Delete | Switch::Verify | Switch::Print => {
                self.passwd.tasks.push(switch);
            }
            Switch::Stdin | Switch::Batch => self.passwd.sources.push(switch),
            Switch::Hash(_) | Switch::Bcrypt | Switch::Sha512 | Switch::Sha256 => {
                self.passwd.kinds.push(switch);
            }
            Switch::Personality => {
                return Err(UsageError(format!("{typed} has to be the first argument")));
            }
            // The parser ends with them.
            Switch::Help | Switch::Version => {}
        }
        Ok(())
    }

    fn set(&mut self, key: Value, typed: &str, value: OsString) -> Result<(), UsageError> {
        match key {
            Value::Config => {
                if self.config.replace(value.into()).is_some() {
                    return Err(UsageError("only one configuration can be given".into()));
                }
            }
            Value::Dialect => self.dialect = Some(dialect(value)?),
            Value::Root => self.root = Some(value.into()),
            Value::Listen => self.listen.push(text(value)?),
            Value::Header => self.fields.push(text(value)?),
            Value::From => self.from = Some(ip_address(value)?),
            Value::To => self.to = Some(server_address(value)?),
            Value::PurgeHost => self.purge_host = Some(text(value)?),
            Value::PurgePrefix => self.purges.push(What::Prefix(url_path(&text(value)?)?)),
            Value::RetryAfter => self.retry_after = Some(time(value, typed)?),
            Value::Client => self.client = Some(Clients::parse(&text(value)?).map_err(UsageError)?),
            Value::For => self.time = Some(time(value, typed)?),
            Value::Watch(part) => self.filter.add(part, &text(value)?).map_err(UsageError)?,
            Value::PurgeTag => self.purges.push(What::Tag(text(value)?)),
            Value::AccessLog => self.access_log = Some(text(value)?),
            Value::Workers => self.workers = Some(number(value, typed, 1..=1024)?),
            Value::Timeout => self.timeout = Some(number(value, typed, 1..=3600)? as u64),
            Value::User => self.user = Some(text(value)?),
            Value::Tls => self.tls.push(host_name(value)?),
            Value::Socket => self.socket = Some(text(value)?),
            Value::Processes => self.processes = Some(number(value, typed, 1..=1024)?),
            Value::Folder => self.folders.push(value.into()),
            Value::Html => self.html = Some(value.into()),
            Value::Names => self.names = Some(value.into()),
            Value::Split => self.split = Some(value.into()),
            Value::Jobs => self.jobs = Some(number(value, typed, 1..=1024)?),
            Value::Dns => self.dns = Some(socket_address(value)?),
            Value::Cost => self.passwd.cost = Some(number(value, typed, Bounds::COST)?),
            Value::Rounds => self.passwd.rounds = Some(number(value, typed, Bounds::ROUNDS)?),
            Value::Digest => self.passwd.realm = Some(text(value)?),
        }
        Ok(())
    }

    fn command(self) -> Result<Command, UsageError> {
        match self.command {
            CommandKey::Serve => self.serve(),
            CommandKey::Check => self.check(),
            CommandKey::Convert => self.convert(),
            CommandKey::Certificates => self.certificates(),
            CommandKey::Reload => self.control(Request::Reload),
            CommandKey::Upgrade => self.control(Request::Upgrade),
            CommandKey::Stats => {
                let form = self.form;
                self.control(Request::Stats(form))
            }
            CommandKey::Top => self.top(),
            CommandKey::Metrics => {
                let syntax = self.syntax;
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
            CommandKey::Passwd => Ok(Command::Passwd(self.passwd.command(self.arguments)?)),
            CommandKey::Report => {
                Ok(Command::Report(Report { files: inputs(self.arguments), html: self.html }))
            }
            CommandKey::Resolve => Ok(self.resolve()),
            CommandKey::Generate => self.generate(),
            CommandKey::Help => self.help(),
            CommandKey::Version => {
                self.exactly(0, "version takes no argument")?;
                Ok(Command::Version)
            }
        }
    }

    fn help(self) -> Result<Command, UsageError> {
        let Some(name) = self.arguments.into_iter().next() else {
            return Ok(Command::Help(CommandKey::Serve));
        };
        let name = text(name)?;
        match COMMANDS.iter().find(|row| !row.name.is_empty() && row.name == name) {
            Some(row) => Ok(Command::Help(row.key)),
            None => {
                let advice = advice(&name).unwrap_or_else(|| "see taipan --help".to_owned());
                Err(UsageError(format!("there is no command {name}; {advice}")))
            }
        }
    }

    fn check(self) -> Result<Command, UsageError> {
        self.file_only()?;
        let config = self
            .config
            .ok_or_else(|| UsageError("check needs a configuration: taipan check -c FILE".into()))?;
        Ok(Command::Check { source: configuration(config, self.dialect)? })
    }

    fn convert(self) -> Result<Command, UsageError> {
        self.exactly(1, "convert takes one file: taipan convert boa.conf")?;
        let file = self.arguments.into_iter().next().map(PathBuf::from).unwrap_or_default();
        match self.dialect.or_else(|| Dialect::of_file(&file)) {
            Some(dialect) => Ok(Command::Convert { input: dialect.input(file) }),
            None => Err(UsageError(format!(
                "the name {} does not tell which server it is for; add --from and one of {}",
                file.display(),
                dialects()
            ))),
        }
    }

    fn certificates(self) -> Result<Command, UsageError> {
        self.file_only()?;
        let config = self.config.ok_or_else(|| {
            UsageError("certificates needs a configuration: taipan certificates -c FILE".into())
        })?;
        Ok(Command::Certificates { config })
    }

    fn top(self) -> Result<Command, UsageError> {
        self.file_only()?;
        let source = source(self.config, self.root, self.dialect)?;
        Ok(Command::Top { source, mode: self.top })
    }

    fn watch(self) -> Result<Command, UsageError> {
        self.exactly(0, "watch takes flags alone, such as --path \"/api/*\" -c FILE")?;
        let source = source(self.config, self.root, self.dialect)?;
        Ok(Command::Watch { source, filter: self.filter })
    }

    fn drain(self, change: DrainChange) -> Result<Command, UsageError> {
        let name = self.command.name();
        let usage = format!(
            "{name} takes an application and one of its addresses: taipan {name} NAME ADDRESS -c FILE"
        );
        self.exactly(2, &usage)?;
        let source = source(self.config, self.root, self.dialect)?;
        let [application, endpoint] = texts(self.arguments)?;
        let request = Request::Drain(Drain { application, endpoint, change });
        Ok(Command::Control { source, request })
    }

    fn explain(self) -> Result<Command, UsageError> {
        self.exactly(2, "explain takes a method and a URL: taipan explain GET http://localhost/")?;
        let source = source(self.config, self.root, self.dialect)?;
        let [method, url] = texts(self.arguments)?;
        let from = self.from.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        Ok(Command::Explain(Explain { source, method, url, fields: self.fields, from, to: self.to }))
    }

    fn healthcheck(self) -> Result<Command, UsageError> {
        self.exactly(1, "healthcheck takes one URL: taipan healthcheck http://127.0.0.1:8080/")?;
        let [url] = texts(self.arguments)?;
        Ok(Command::Healthcheck { url, timeout: Duration::from_secs(self.timeout.unwrap_or(5)) })
    }

    fn wrap(self) -> Result<Command, UsageError> {
        let Given { arguments, folders, socket, processes, .. } = self;
        let mut arguments = arguments.into_iter();
        let scripts = match (arguments.next(), folders.is_empty()) {
            (Some(program), true) => Scripts::Program(program, arguments.collect()),
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
        Ok(Command::Wrap(Wrap { socket, processes: processes.unwrap_or(16), scripts }))
    }

    fn resolve(self) -> Command {
        Command::Resolve(Resolve {
            files: inputs(self.arguments),
            names: self.names,
            split: self.split,
            confirm: self.confirm,
            jobs: self.jobs.unwrap_or(64),
            timeout: Duration::from_secs(self.timeout.unwrap_or(2)),
            server: self.dns,
        })
    }

    fn generate(self) -> Result<Command, UsageError> {
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

    /// The command line has no command.
    fn serve(self) -> Result<Command, UsageError> {
        if self.arguments.len() > 1 || self.config.is_some() {
            self.unless_misspelt()?;
        }
        if self.arguments.len() > 1 {
            return Err(UsageError("only one folder can be served; write a configuration for more".into()));
        }
        let Given { listen, workers, access_log, user, tls, config, dialect, arguments, .. } = self;
        if config.is_some() && !tls.is_empty() {
            return Err(UsageError(
                "--tls is for a folder; in a configuration, write acme = true, and tls behind an address"
                    .into(),
            ));
        }
        let source = source(config, arguments.into_iter().next().map(PathBuf::from), dialect)?;
        let presence = Presence::Foreground;
        Ok(Command::Serve(Serve { source, listen, workers, access_log, user, tls, presence }))
    }

    fn purge(mut self) -> Result<Command, UsageError> {
        for argument in std::mem::take(&mut self.arguments) {
            self.purges.push(What::Path(url_path(&text(argument)?)?));
        }
        let usage = "purge takes one of a path, --prefix, --tag and --all: taipan purge -c FILE /news/";
        let (Some(what), None) = (self.purges.pop(), self.purges.pop()) else {
            return Err(UsageError(usage.to_owned()));
        };
        let purge = Purge { host: self.purge_host.take().map(|host| host.to_ascii_lowercase()), what };
        match purge.to_string().parse() {
            Ok(read) if purge == read => self.control(Request::Purge(purge)),
            _ => Err(UsageError(
                "a path begins with a slash, and neither it nor a host or a tag has a space or is longer than 4000 bytes"
                    .to_owned(),
            )),
        }
    }

    fn control(self, request: Request) -> Result<Command, UsageError> {
        self.file_only()?;
        Ok(Command::Control { source: source(self.config, self.root, self.dialect)?, request })
    }

    /// Errors: there are arguments beside the configuration.
    fn file_only(&self) -> Result<(), UsageError> {
        let command = self.command.name();
        match (&self.config, self.arguments.as_slice()) {
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

fn source(
    config: Option<PathBuf>,
    folder: Option<PathBuf>,
    dialect: Option<Dialect>,
) -> Result<SiteSource, UsageError> {
    match (config, folder) {
        (Some(_), Some(_)) => Err(UsageError("give a folder or a configuration, not both".into())),
        (None, _) if dialect.is_some() => {
            Err(UsageError("--dialect needs a configuration: add -c FILE".into()))
        }
        (Some(config), None) => configuration(config, dialect),
        (None, folder) => Ok(SiteSource::Folder(folder.unwrap_or_else(|| PathBuf::from(".")))),
    }
}

/// A file, which may be the configuration of another server.
fn configuration(file: PathBuf, dialect: Option<Dialect>) -> Result<SiteSource, UsageError> {
    Ok(match dialect.or_else(|| Dialect::of_file(&file)) {
        Some(dialect) => SiteSource::Foreign(dialect.input(file)),
        None => SiteSource::Config(file),
    })
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
