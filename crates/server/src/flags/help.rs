//! The texts of `--help`, made from the tables of commands and flags.

use std::fmt::Write;

use super::commands::{COMMANDS, CommandKey, CommandRow};
use super::table::{FLAGS, FlagRow};

/// The width of a terminal.
const COLUMNS: usize = 80;

/// `--help` of a command.
pub fn help(command: CommandKey) -> String {
    match COMMANDS.iter().find(|row| row.key == command) {
        Some(row) if !matches!(command, CommandKey::Serve | CommandKey::Help) => {
            let title = wrapped(&format!("{}.", row.help), COLUMNS).join("\n");
            let mut out = format!("{title}\n\nUsage:\n  {}\n\nFlags:\n", usage(row));
            flags_of(command).for_each(|flag| describe(&mut out, flag));
            out
        }
        _ => overview(),
    }
}

/// The help of all commands, with each flag once.
pub fn reference() -> String {
    let mut out = overview();
    for (heading, flags) in groups().into_iter().skip(1) {
        _ = writeln!(out, "\n{}", wrapped(&format!("Flags of {heading}:"), COLUMNS).join("\n"));
        flags.into_iter().for_each(|flag| describe(&mut out, flag));
    }
    out
}

fn overview() -> String {
    let mut out = String::from("taipan, a small, fast web server\n\nUsage:\n");
    let lines = COMMANDS.iter().map(|row| (usage(row), row.help));
    let lines: Vec<_> = lines.chain([("taipan -c FILE".to_owned(), "Serve what FILE configures")]).collect();
    let width = lines.iter().map(|(usage, _)| usage.len()).max().unwrap_or_default();
    for (usage, help) in lines {
        let usages = std::iter::once(usage.as_str()).chain(std::iter::repeat(""));
        for (usage, line) in usages.zip(wrapped(help, COLUMNS - 4 - width)) {
            _ = writeln!(out, "  {usage:<width$}  {line}");
        }
    }
    out.push_str("\ntaipan COMMAND --help prints the flags of a command.\n\nFlags without a command:\n");
    flags_of(CommandKey::Serve).for_each(|flag| describe(&mut out, flag));
    out
}

fn usage(row: &CommandRow) -> String {
    ["taipan", row.name, row.arguments]
        .iter()
        .filter(|part| !part.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join(" ")
}

fn describe(out: &mut String, flag: &FlagRow) {
    _ = writeln!(out, "  {}", spelled(flag));
    for line in wrapped(flag.help, COLUMNS - 8) {
        _ = writeln!(out, "        {line}");
    }
}

/// The flags that a command accepts.
pub(super) fn flags_of(command: CommandKey) -> impl Iterator<Item = &'static FlagRow> {
    FLAGS.iter().filter(move |flag| flag.commands.is_empty() || flag.commands.contains(&command))
}

/// Every flag once, beneath the commands that have it. The first group is that of a start without a command, whose
/// flags other commands may have, too.
pub(super) fn groups() -> Vec<(String, Vec<&'static FlagRow>)> {
    let mut groups: Vec<(String, Vec<&FlagRow>)> = Vec::new();
    for flag in FLAGS {
        let heading = match flag.commands {
            [] | [CommandKey::Serve, ..] => "taipan".to_owned(),
            commands => {
                format!("taipan {}", commands.iter().map(|key| key.name()).collect::<Vec<_>>().join(", "))
            }
        };
        match groups.iter_mut().find(|(other, _)| *other == heading) {
            Some((_, flags)) => flags.push(flag),
            None => groups.push((heading, vec![flag])),
        }
    }
    groups
}

/// `-c, --config FILE`.
pub(super) fn spelled(flag: &FlagRow) -> String {
    let short = flag.short.map_or(String::new(), |c| format!("-{c}, "));
    let value = flag.value().map_or(String::new(), |v| format!(" {v}"));
    format!("{short}--{}{value}", flag.long)
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => _ = write!(line, " {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
