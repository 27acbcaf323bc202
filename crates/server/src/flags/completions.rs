//! The completions for shells, made from the tables of commands and flags.

use std::fmt::Write;

use super::commands::{COMMANDS, CommandKey, CommandRow};
use super::help::flags_of;
use super::table::FlagRow;

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
