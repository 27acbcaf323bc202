//! `taipan report`: what access logs say, as text or as a page of HTML.

use std::path::Path;
use std::process::ExitCode;

use report::summary::Summary;

use crate::cli::log_input::LogInput;
use crate::cli::output_file;
use crate::flags::Report;
use crate::terminal;

/// Reads all logs, and prints or writes the report.
pub fn report(flags: &Report) -> ExitCode {
    let mut summary = Summary::default();
    let mut code = ExitCode::SUCCESS;
    for path in &flags.files {
        if let Err(why) = read(path, &mut summary) {
            code = terminal::fail(why, 1);
        }
    }
    // What could be read is reported, unless it is nothing.
    if code != ExitCode::SUCCESS && summary.all.requests == 0 {
        return code;
    }
    match write(flags, &summary) {
        Ok(()) => code,
        Err(why) => terminal::fail(why, 1),
    }
}

fn read(path: &Path, summary: &mut Summary) -> Result<(), String> {
    let mut input = LogInput::open(path)?;
    let mut add = |lines: &[u8]| {
        lines
            .strip_suffix(b"\n")
            .unwrap_or(lines)
            .split(|byte| *byte == b'\n')
            .for_each(|line| summary.add_line(line));
    };
    while input.next(&mut add).map_err(|error| format!("cannot read {}: {error}", path.display()))? {}
    Ok(())
}

fn write(flags: &Report, summary: &Summary) -> Result<(), String> {
    if summary.all.requests == 0 && summary.unknown_lines > 0 {
        return Err(format!("none of {} lines has the format of an access log", summary.unknown_lines));
    }
    match &flags.html {
        Some(path) => output_file::write(path, report::html::render(summary).as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", path.display())),
        None => {
            terminal::print(&report::text::render(summary));
            Ok(())
        }
    }
}
