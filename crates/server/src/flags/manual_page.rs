//! The manual page, made from the tables of commands and flags.

use std::fmt::Write;

use super::commands::COMMANDS;
use super::help::{groups, spelled};

/// The files that `packaging/install` installs.
const FILES: &[(&str, &str)] = &[
    ("/etc/taipan/site.toml", "The configuration that the unit serves"),
    ("/var/log/taipan/access.log, /var/log/taipan/error.log", "The logs, if the configuration says so"),
    ("/etc/logrotate.d/taipan", "The rotation of the logs"),
    ("/run/taipan/taipan.pid", "The ID of the process that accepts signals, if the configuration says so"),
    ("taipan.service, taipan.socket", "The units for systemd"),
];

const EXAMPLES: &[(&str, &str)] = &[
    ("taipan photos", "Serve the folder photos to this machine, at http://127.0.0.1:8080/"),
    ("taipan photos --listen 0.0.0.0:8080", "The same, to every network that reaches this machine by IPv4"),
    ("taipan photos --tls localhost", "The same to this machine by HTTPS, and say how to trust it"),
    (
        "taipan photos --tls example.org",
        "To everyone, at https://example.org/, with a certificate of Let's Encrypt",
    ),
    ("taipan check -c /etc/taipan/site.toml", "Find mistakes before a start or a reload"),
    ("taipan reload -c /etc/taipan/site.toml", "Serve the changed configuration; no connection is lost"),
    (
        "taipan explain GET http://www.example/a/../b -c /etc/taipan/site.toml",
        "Show which host, route and file a request leads to, and why",
    ),
    ("taipan healthcheck http://127.0.0.1:8080/", "Send one request, for a container or a script"),
];

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
         in the foreground. The manual, with every key of the configuration, is in \
         share/doc/taipan/docs/manual.\n.SH COMMANDS\n",
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

pub(super) fn roff(text: &str) -> String {
    text.replace('\\', "\\\\").replace('-', "\\-")
}
