//! The parser: arguments → command, or the mistake in them.

mod line;

mod commands;
mod passwd;

mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use dialects::{Dialect, Start};

use self::line::{GivenFlag, Line};
use super::commands::{COMMANDS, CommandKey, FOREIGN_COMMANDS};
use super::table::{FLAGS, FOREIGN_FLAGS, FlagRow, Key, PERSONALITIES, Switch};
use super::{Command, Presence, Serve, UsageError};
use crate::control::{ConfigSource, SiteSource};

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
