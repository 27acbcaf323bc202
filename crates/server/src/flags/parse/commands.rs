//! The commands: what each takes from its line, and what it means.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use cache::store::purge::{Purge, What};
use dialects::Dialect;
use site::disconnect::{Clients, Selection};
use site::model::Level;
use site::watch::Filter;

use super::advice;
use super::line::Line;
use super::values::{
    dialect, dialects, host_name, ip_address, path, server_address, socket_address, text, texts, url_path,
};
use crate::control::{Drain, DrainChange, MaintenanceAct, Request};
use crate::flags::commands::{COMMANDS, CommandKey};
use crate::flags::table::{Key, LEVEL_TIME, RETRY_AFTER, Switch, Value};
use crate::flags::{
    Command, Document, Explain, Presence, Report, Resolve, Scripts, Serve, TopMode, UsageError, Wrap,
};
use crate::process::ipc::{Form, Syntax};

impl Line {
    pub(super) fn command(&self) -> Result<Command, UsageError> {
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
        let purge = Purge::new(host, what);
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
}
