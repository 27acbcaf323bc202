//! What is made from the tables: `--help`, the manual page, and completions for shells.

use std::fmt::Write;

use super::Document;
use super::commands::{COMMANDS, CommandKey, CommandRow};
use super::table::{EXAMPLES, FILES, FLAGS, FlagRow};

/// `--help` of a command.
pub fn help(command: CommandKey) -> String {
    match COMMANDS.iter().find(|row| row.key == command) {
        Some(row) if !matches!(command, CommandKey::Serve | CommandKey::Help) => {
            let mut out = format!("{}.\n\nUsage:\n  {}\n\nFlags:\n", row.help, usage(row));
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
        _ = writeln!(out, "\n{}", wrapped(&format!("Flags of {heading}:"), 80).join("\n"));
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
        _ = writeln!(out, "  {usage:<width$}  {help}");
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
    for line in wrapped(flag.help, 80) {
        _ = writeln!(out, "        {line}");
    }
}

/// Every flag once, beneath the commands that have it. The first group is that of a start without a command, whose
/// flags other commands may have, too.
fn groups() -> Vec<(String, Vec<&'static FlagRow>)> {
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

/// The manual page, for man(1).
pub fn man() -> String {
    let mut out = format!(".TH TAIPAN 1 \"\" \"taipan {}\" \"User Commands\"\n", env!("CARGO_PKG_VERSION"));
    out.push_str(".SH NAME\ntaipan \\- a small, fast web server\n.SH SYNOPSIS\n");
    for row in COMMANDS {
        _ = writeln!(out, ".br\n.B {}", roff(format!("taipan {}", row.name).trim()));
        if !row.arguments.is_empty() {
            _ = writeln!(out, "{}", roff(row.arguments));
        }
    }
    out.push_str(
        ".br\n.B taipan\n\\-c FILE\n.SH DESCRIPTION\nServes a folder, or the sites that a configuration describes, \
         over HTTP/1.1 and HTTP/2, with or without TLS, runs scripts, and passes requests to applications. It stays \
         in the foreground. The manual, with every key of the configuration, is in share/doc/taipan.\n.SH COMMANDS\n",
    );
    for row in COMMANDS {
        let name = format!("{} {}", row.name, row.arguments);
        _ = writeln!(out, ".TP\n.B {}\n{}.", roff(name.trim()), roff(row.help));
    }
    out.push_str(".SH OPTIONS\n");
    for (heading, flags) in groups() {
        _ = writeln!(out, ".SS {}", roff(&heading));
        for flag in flags {
            _ = writeln!(out, ".TP\n.B {}\n{}.", roff(&spelled(flag)), roff(flag.help));
        }
    }
    out.push_str(
        ".SH SIGNALS\n.TP\n.B SIGTERM\nStop accepting, finish what runs, exit with 0.\n.TP\n.B SIGINT\n\
         Stop now.\n.TP\n.B SIGHUP\nRead the configuration again.\n.TP\n.B SIGUSR1\nOpen the log files \
         again.\n.TP\n.B SIGUSR2\nReplace the program by the installed one.\n.SH EXIT STATUS\n\
         0 after SIGTERM, 130 after SIGINT, 1 if a check or a healthcheck failed, 2 if it could not start.\n\
         .B taipan passwd\nexits with 1 if a file cannot be read or written, 2 if the command line is wrong, 3 if passwords differ, 4 if \
         interrupted, 5 if the password cannot be used, 6 if the user cannot, 7 if FILE is no password file.\n\
         .SH FILES\n",
    );
    for (path, what) in FILES {
        _ = writeln!(out, ".TP\n.I {}\n{}.", roff(path), roff(what));
    }
    out.push_str(".SH EXAMPLES\n");
    for (line, what) in EXAMPLES {
        _ = writeln!(out, ".TP\n.B {}\n{}.", roff(line), roff(what));
    }
    out.push_str(
        ".SH SEE ALSO\n.BR taipan\\-bench (1),\n.BR logrotate (8),\n.BR systemd.service (5),\n\
         .BR systemd.socket (5),\n.BR landlock (7),\n.BR seccomp (2)\n",
    );
    out
}

/// Completions for a shell; for `Document::Man` the manual page.
pub fn document(document: Document) -> String {
    match document {
        Document::Man => man(),
        Document::Bash => bash(),
        Document::Zsh => zsh(),
        Document::Fish => fish(),
    }
}

/// What stands behind a command and is no file.
const WORDS: [(CommandKey, &str); 2] =
    [(CommandKey::Generate, "man bash zsh fish"), (CommandKey::LogLevel, "error warn info debug")];

fn words_of(command: CommandKey) -> &'static str {
    WORDS.iter().find(|(key, _)| *key == command).map_or("", |(_, words)| words)
}

/// The commands with names.
fn named() -> impl Iterator<Item = &'static CommandRow> {
    COMMANDS.iter().filter(|row| !row.name.is_empty())
}

fn names() -> String {
    named().map(|row| row.name).collect::<Vec<_>>().join(" ")
}

fn flags_of(command: CommandKey) -> impl Iterator<Item = &'static FlagRow> {
    FLAGS.iter().filter(move |flag| flag.commands.is_empty() || flag.commands.contains(&command))
}

pub(super) fn bash() -> String {
    let joined = |flags: &mut dyn Iterator<Item = &FlagRow>| {
        let spellings = flags.map(|flag| match flag.short {
            Some(short) => format!("--{} -{short}", flag.long),
            None => format!("--{}", flag.long),
        });
        spellings.collect::<Vec<_>>().join(" ")
    };
    let case = |name: &str, command| {
        let flags = joined(&mut flags_of(command));
        let values = joined(&mut flags_of(command).filter(|flag| flag.value().is_some()));
        format!("    {name}) flags='{flags}' values='{values}' words='{}' ;;\n", words_of(command))
    };
    let mut out = String::from(
        "_taipan() {\n    local current=${COMP_WORDS[COMP_CWORD]} flags values words\n    case ${COMP_WORDS[1]} in\n",
    );
    named().for_each(|row| out.push_str(&case(row.name, row.key)));
    out.push_str(&case("*", CommandKey::Serve));
    _ = write!(
        out,
        "    esac\n    [[ $COMP_CWORD == 1 ]] && words='{}'\n    COMPREPLY=()\n    \
         # Files are completed for values of flags, and where nothing fits.\n    \
         [[ \" $values \" == *\" ${{COMP_WORDS[COMP_CWORD-1]}} \"* ]] && return\n    \
         [[ $current == -* ]] && words=$flags\n    \
         COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}}\ncomplete -o default -F _taipan taipan\n",
        names()
    );
    out
}

pub(super) fn zsh() -> String {
    let mut out =
        String::from("#compdef taipan\n_taipan_commands() {\n    local -a commands\n    commands=(\n");
    for row in named() {
        _ = writeln!(out, "        '{}:{}'", row.name, row.help.replace('\'', "'\\''"));
    }
    out.push_str(
        "    )\n    _describe -t commands command commands\n    _files -/\n}\ncase ${words[2]} in\n",
    );
    for row in named() {
        let behind = match words_of(row.key) {
            "" => "'*:argument:_files'".to_owned(),
            words => format!("'2:argument:({words})'"),
        };
        zsh_case(&mut out, row.name, row.key, &format!("'1:command:_taipan_commands' {behind}"));
    }
    zsh_case(&mut out, "*", CommandKey::Serve, "'1:command or folder:_taipan_commands' '*:argument:_files'");
    out.push_str("esac\n");
    out
}

fn zsh_case(out: &mut String, name: &str, command: CommandKey, arguments: &str) {
    _ = writeln!(out, "{name})\n    _arguments -s \\");
    for flag in flags_of(command) {
        // A colon needs no escape between brackets.
        let help = flag.help.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]");
        let help = help.replace('\'', "'\\''");
        let value = flag.value().map_or(String::new(), |v| format!(":{v}:_files"));
        let names = match flag.short {
            Some(short) => format!("{{-{short},--{}}}", flag.long),
            None => format!("--{}", flag.long),
        };
        _ = writeln!(out, "        '*'{names}'[{help}]{value}' \\");
    }
    _ = writeln!(out, "        {arguments} ;;");
}

pub(super) fn fish() -> String {
    let mut out = String::new();
    for row in named() {
        let help = row.help.replace('\'', "\\'");
        _ = writeln!(out, "complete -c taipan -n __fish_use_subcommand -a {} -d '{help}'", row.name);
    }
    for row in COMMANDS {
        let condition = match row.name {
            "" => format!("not __fish_seen_subcommand_from {}", names()),
            name => format!("__fish_seen_subcommand_from {name}"),
        };
        for flag in flags_of(row.key) {
            let short = flag.short.map_or(String::new(), |c| format!(" -s {c}"));
            let value = if flag.value().is_some() { " -r" } else { "" };
            let help = flag.help.replace('\'', "\\'");
            _ = writeln!(
                out,
                "complete -c taipan -n '{condition}' -l {}{short}{value} -d '{help}'",
                flag.long
            );
        }
        match words_of(row.key) {
            "" => {}
            words => _ = writeln!(out, "complete -c taipan -n '{condition}' -f -a '{words}'"),
        }
    }
    out
}

fn spelled(flag: &FlagRow) -> String {
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

pub(super) fn roff(text: &str) -> String {
    text.replace('\\', "\\\\").replace('-', "\\-")
}
