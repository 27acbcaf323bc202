//! The program: the command line in, an exit code out.

use std::process::ExitCode;

use server::flags::{self, Command, UsageError};
use server::{explain, healthcheck, start, terminal};

fn main() -> ExitCode {
    let command = match flags::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(UsageError(text)) => {
            terminal::err(format_args!("taipan: {text}"));
            return ExitCode::from(2);
        }
    };
    match command {
        Command::Serve(serve) => start::serve(&serve),
        Command::Check { config } => start::check(&config),
        Command::Explain(asked) => explain::explain(&asked),
        Command::Healthcheck { url, timeout } => healthcheck::healthcheck(&url, timeout),
        Command::Generate(document) => print(&flags::document(document)),
        Command::Help => print(&flags::help()),
        Command::Version => print(concat!("taipan ", env!("CARGO_PKG_VERSION"), "\n")),
    }
}

fn print(text: &str) -> ExitCode {
    terminal::print(text);
    ExitCode::SUCCESS
}
