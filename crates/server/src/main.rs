//! The program: parses the command line, runs the command, and returns its exit code.

use std::process::ExitCode;

use server::cli::{
    certificates, check, convert, explain, fcgi_wrap, healthcheck, passwd, report, resolve, top,
};
use server::flags::{self, Command, UsageError};
use server::master::signals;
use server::{control, master, terminal};

fn main() -> ExitCode {
    // First: no signal may be lost.
    signals::keep_for_first_process();
    let command = match flags::parse_line(std::env::args_os()) {
        Ok(command) => command,
        Err(UsageError(text)) => return terminal::fail(text, 2),
    };
    // What a server has printed at its start says nothing about its end.
    if matches!(command, Command::Serve(_)) {
        return run(command);
    }
    signals::keep_no_more();
    terminal::end(run(command))
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Serve(serve) => master::serve(&serve),
        Command::Check { source } => check::check(&source),
        Command::Convert { input } => convert::convert(&input),
        Command::Print(text, code) => {
            terminal::write(&text);
            ExitCode::from(code)
        }
        Command::Certificates { config } => certificates::list(&config),
        Command::Control { source, request } => control::send(&source, &request),
        Command::Watch { source, filter } => control::watch(&source, &filter),
        Command::Top { source, mode } => top::top(&source, mode),
        Command::Explain(flags) => explain::explain(&flags),
        Command::Healthcheck { url, timeout } => healthcheck::healthcheck(&url, timeout),
        Command::Wrap(wrap) => fcgi_wrap::wrap(&wrap),
        Command::Passwd(flags) => passwd::passwd(&flags),
        Command::Report(flags) => report::report(&flags),
        Command::Resolve(flags) => resolve::resolve(&flags),
        Command::Generate(document) => print(&document.text()),
        Command::Help(command) => print(&flags::help(command)),
        Command::Version => print(concat!("taipan ", env!("CARGO_PKG_VERSION"), "\n")),
    }
}

fn print(text: &str) -> ExitCode {
    terminal::print(text);
    ExitCode::SUCCESS
}
