//! Makes `--help` and the manual page from the table.

use std::fmt::Write;

use super::table::{FlagRow, GROUPS, USES};
use crate::report::wrapped;

/// `--help`.
pub fn help() -> String {
    let mut out = String::from("taipan-bench, a load generator for web servers\n\nUsage:\n");
    for (arguments, what) in USES {
        let line = format!("taipan-bench {arguments}");
        _ = writeln!(out, "  {line:<40} {what}");
    }
    for (heading, rows) in GROUPS {
        _ = writeln!(out, "\n{heading}:");
        for flag in *rows {
            _ = writeln!(out, "  {}", spelled(flag));
            for line in wrapped(flag.help, 80) {
                _ = writeln!(out, "        {line}");
            }
        }
    }
    out.push_str(
        "\nExit codes: 0, 1 below --min-availability, 2 if nothing was measured, 130 after Ctrl-C.\n",
    );
    out
}

/// The manual page, for man(1).
pub fn man() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!(".TH TAIPAN-BENCH 1 \"\" \"taipan-bench {version}\" \"User Commands\"\n");
    out.push_str(".SH NAME\ntaipan-bench \\- a load generator for web servers\n.SH SYNOPSIS\n");
    for (arguments, what) in USES {
        _ = writeln!(out, ".TP\n.B taipan-bench {}\n{}.", roff(arguments), roff(what));
    }
    for (heading, rows) in GROUPS {
        _ = writeln!(out, ".SH {}", heading.to_uppercase());
        for flag in *rows {
            _ = writeln!(out, ".TP\n.B {}\n{}.", roff(&spelled(flag)), roff(flag.help));
        }
    }
    out.push_str(
        ".SH SIGNALS\n.TP\n.B SIGINT\nEnds the run, prints the report so far and exits with 130.\n.SH EXIT STATUS\n\
         0, 1 if fewer requests were right than \\-\\-min\\-availability demands, 2 if nothing was measured, 130 after \
         SIGINT.\n.SH EXAMPLES\n.TP\n.B taipan\\-bench \\-z 30s \\-c 100 http://127.0.0.1:8080/\nAs fast as 100 \
         connections go, for half a minute.\n.TP\n.B taipan\\-bench \\-\\-rate 2k \\-z 1m http://127.0.0.1:8080/\n\
         2000 requests a second, whatever the server does.\n.SH SEE ALSO\n.BR taipan (1)\n",
    );
    out
}

fn spelled(flag: &FlagRow) -> String {
    let short = flag.short.map_or(String::new(), |letter| format!("-{letter}, "));
    let value = flag.value.map_or(String::new(), |value| format!(" {value}"));
    format!("{short}--{}{value}", flag.long)
}

fn roff(text: &str) -> String {
    text.replace('\\', "\\\\").replace('-', "\\-")
}
