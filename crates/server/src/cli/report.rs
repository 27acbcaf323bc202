//! `taipan report`: what access logs say, as text or as a page of HTML.

use std::process::ExitCode;

use report::summary::Summary;

use crate::cli::log_input::LogInput;
use crate::cli::output_file;
use crate::flags::Report;
use crate::terminal;

/// Reads all logs, and prints or writes the report.
pub fn report(flags: &Report) -> ExitCode {
    match run(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => terminal::fail(why, 1),
    }
}

fn run(flags: &Report) -> Result<(), String> {
    let mut summary = Summary::default();
    for path in &flags.files {
        let mut input = LogInput::open(path)?;
        let failed = |error| format!("cannot read {}: {error}", path.display());
        let add = |summary: &mut Summary, lines: &[u8]| {
            lines
                .strip_suffix(b"\n")
                .unwrap_or(lines)
                .split(|byte| *byte == b'\n')
                .for_each(|line| summary.add_line(line));
        };
        while input.next(|lines| add(&mut summary, lines)).map_err(failed)? {}
    }
    if summary.all.requests == 0 && summary.unknown_lines > 0 {
        return Err(format!("none of {} lines has the format of an access log", summary.unknown_lines));
    }
    match &flags.html {
        Some(path) => output_file::write(path, report::html::render(&summary).as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", path.display())),
        None => {
            terminal::print(&report::text::render(&summary));
            Ok(())
        }
    }
}
