//! `taipan convert FILE`: prints the configuration of another server as one of this program.

use std::process::ExitCode;

use dialects::{Finding, Input, Severity};

use crate::{config, terminal};

/// Prints it, and what differs. Fails if a line cannot be converted, and prints nothing if the file cannot be read.
pub fn convert(input: &Input) -> ExitCode {
    let conversion = config::convert(input);
    let report = |finding: &Finding| {
        let line = finding.line.map_or_else(String::new, |line| format!("{line}:"));
        terminal::err(format_args!("{}:{line} {finding}", conversion.file.display()));
    };
    // What would be printed for a file that cannot be read is not its configuration.
    if dialects::Disk::read(&config::Disk::default(), &conversion.file).is_err() {
        conversion
            .findings
            .iter()
            .find(|finding| finding.severity == Severity::Error)
            .into_iter()
            .for_each(report);
        return ExitCode::FAILURE;
    }
    conversion.findings.iter().for_each(report);
    terminal::print(&conversion.text);
    if conversion.is_refused() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
