//! The program: reads the command line, prints a report and sets the exit code.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use load::flags::{self, Command, Output, RunArguments, UsageError};
use load::plan::build::build;
use load::report::{Format, Style, read};
use load::run::Run;
use load::urls::System;
use load::{engine, progress, worker};

/// Nothing was measured.
const NOT_RUN: u8 = 2;
/// What shells report for SIGINT.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let command = match flags::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(UsageError(why)) => return refuse(&why),
    };
    let done = match command {
        Command::Run(arguments) => run(&arguments),
        Command::Merge { files, output } => merge(&files, &output),
        Command::Worker(worker) => worker::serve(&worker).map(|()| ExitCode::SUCCESS),
        Command::Man => print(&flags::man()),
        Command::Help => print(&flags::help()),
        Command::Version => print(concat!("taipan-bench ", env!("CARGO_PKG_VERSION"), "\n")),
    };
    done.unwrap_or_else(|why| refuse(&why))
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("taipan-bench: {why}");
    ExitCode::from(NOT_RUN)
}

fn run(arguments: &RunArguments) -> Result<ExitCode, String> {
    let built = build(&arguments.options, &System)?;
    for note in &built.notes {
        eprintln!("taipan-bench: {note}");
    }
    let stop = stop_at_interrupt()?;
    let measured = if arguments.workers.is_empty() {
        let watcher = progress::watch(arguments.output.progress, &built.plan);
        let sender = watcher.as_ref().map(|watcher| watcher.sender.clone());
        let measured = engine::run(&built.plan, &stop, sender);
        if let Some(watcher) = watcher {
            watcher.end();
        }
        measured?
    } else {
        worker::run_on_workers(arguments, &built, &stop)?
    };
    let code = report(&measured, &arguments.output)?;
    Ok(if stop.load(Ordering::Relaxed) { ExitCode::from(INTERRUPTED) } else { code })
}

/// The first SIGINT ends the run, the second one ends the program.
fn stop_at_interrupt() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let ours = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|error| format!("cannot wait for signals: {error}"))?;
    thread::spawn(move || {
        runtime.block_on(async {
            for _ in 0..2 {
                if tokio::signal::ctrl_c().await.is_err() {
                    return;
                }
                if ours.swap(true, Ordering::Relaxed) {
                    process::exit(i32::from(INTERRUPTED));
                }
            }
        });
    });
    Ok(stop)
}

fn merge(files: &[PathBuf], output: &Output) -> Result<ExitCode, String> {
    let mut merged: Option<Run> = None;
    for file in files {
        let text = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let run = read::run(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        match &mut merged {
            None => merged = Some(run),
            Some(merged) => merged.merge(&run),
        }
    }
    report(&merged.ok_or("nothing to merge")?, output)
}

/// Writes the report. The exit code tells whether the server was available enough.
fn report(run: &Run, output: &Output) -> Result<ExitCode, String> {
    let coloured = output.file.is_none() && output.format == Format::Page && io::stdout().is_terminal();
    let style = if coloured { Style::Colour } else { Style::Plain };
    let text = output.format.render(run, style);
    match &output.file {
        Some(file) => {
            fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        None => {
            print(&text)?;
        }
    }
    let available = run.measured.availability().unwrap_or(0.0);
    Ok(if available < output.availability { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(text: &str) -> Result<ExitCode, String> {
    match io::stdout().write_all(text.as_bytes()) {
        // `taipan-bench --help | head` is not a failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(ExitCode::SUCCESS),
    }
}
