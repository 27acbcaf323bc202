//! A command line in parts, and what a command asks of it.

use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dialects::Dialect;

use super::advice;
use super::values::{dialect, number, path, time};
use crate::control::{ConfigSource, SiteSource};
use crate::flags::UsageError;
use crate::flags::commands::CommandKey;
use crate::flags::table::{FlagRow, Key, Switch, Value};

/// A command line in parts. Its command takes the values of its flags from it.
pub(super) struct Line {
    pub(super) command: CommandKey,
    /// In the order in which they were given.
    pub(super) flags: Vec<GivenFlag>,
    pub(super) arguments: Vec<OsString>,
}

/// A flag that was given.
pub(super) struct GivenFlag {
    pub(super) row: &'static FlagRow,
    /// As it was written.
    pub(super) typed: String,
    /// Empty: the flag has none.
    pub(super) value: OsString,
}

impl Line {
    pub(super) fn has(&self, switch: Switch) -> bool {
        self.flags.iter().any(|flag| flag.row.key == Key::Switch(switch))
    }

    /// The flag, each time that it was given.
    fn given(&self, value: Value) -> impl Iterator<Item = &GivenFlag> {
        self.flags.iter().filter(move |flag| matches!(flag.row.key, Key::Value(own, _) if own == value))
    }

    /// The values of a flag that may be repeated.
    pub(super) fn values<T>(
        &self,
        value: Value,
        read: impl Fn(&OsStr) -> Result<T, UsageError>,
    ) -> Result<Vec<T>, UsageError> {
        self.given(value).map(|flag| read(&flag.value)).collect()
    }

    /// The value of a flag. Of several, the last one counts.
    pub(super) fn value<T>(
        &self,
        value: Value,
        read: impl Fn(&OsStr) -> Result<T, UsageError>,
    ) -> Result<Option<T>, UsageError> {
        Ok(self.values(value, read)?.pop())
    }

    pub(super) fn number(
        &self,
        value: Value,
        among: RangeInclusive<usize>,
    ) -> Result<Option<usize>, UsageError> {
        let read = |flag: &GivenFlag| number(&flag.value, &flag.typed, &among);
        Ok(self.given(value).map(read).collect::<Result<Vec<_>, _>>()?.pop())
    }

    pub(super) fn time(&self, value: Value) -> Result<Option<Duration>, UsageError> {
        let read = |flag: &GivenFlag| time(&flag.value, &flag.typed);
        Ok(self.given(value).map(read).collect::<Result<Vec<_>, _>>()?.pop())
    }

    pub(super) fn timeout(&self) -> Result<Option<Duration>, UsageError> {
        let seconds = self.number(Value::Timeout, 1..=3600)?;
        Ok(seconds.map(|seconds| Duration::from_secs(seconds as u64)))
    }

    /// The files that are read. Without arguments, standard input.
    pub(super) fn inputs(&self) -> Vec<PathBuf> {
        match self.arguments.is_empty() {
            true => vec![PathBuf::from("-")],
            false => self.arguments.iter().map(PathBuf::from).collect(),
        }
    }

    /// The file of `--config`. Errors: there are several.
    pub(super) fn config(&self) -> Result<Option<PathBuf>, UsageError> {
        let mut all = self.values(Value::Config, path)?;
        match all.len() {
            0 | 1 => Ok(all.pop()),
            _ => Err(UsageError("only one configuration can be given".into())),
        }
    }

    /// The configuration, or the folder of `--root`.
    pub(super) fn source(&self) -> Result<SiteSource, UsageError> {
        self.source_or(self.value(Value::Root, path)?)
    }

    /// The configuration, or this folder. `None`: the current one.
    pub(super) fn source_or(&self, folder: Option<PathBuf>) -> Result<SiteSource, UsageError> {
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
    pub(super) fn configuration(&self, file: PathBuf) -> Result<ConfigSource, UsageError> {
        Ok(match self.value(Value::Dialect, dialect)?.or_else(|| Dialect::of_file(&file)) {
            Some(dialect) => ConfigSource::Foreign(dialect.input(file)),
            None => ConfigSource::Own(file),
        })
    }

    /// Errors: there are arguments beside the configuration.
    pub(super) fn file_only(&self) -> Result<(), UsageError> {
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
    pub(super) fn unless_misspelt(&self) -> Result<(), UsageError> {
        let Some(name) = self.arguments.first().and_then(|first| first.to_str()) else { return Ok(()) };
        match advice(name) {
            Some(advice) if self.command == CommandKey::Serve => {
                Err(UsageError(format!("there is no command {name}; {advice}")))
            }
            _ => Ok(()),
        }
    }

    /// Errors: there are more arguments or fewer, and `otherwise` says what to write.
    pub(super) fn exactly(&self, count: usize, otherwise: &str) -> Result<(), UsageError> {
        if self.arguments.len() == count { Ok(()) } else { Err(UsageError(otherwise.to_owned())) }
    }
}
