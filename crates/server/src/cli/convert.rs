//! `taipan convert FILE`: prints the configuration of another server as one of this program.

use std::process::ExitCode;

use dialects::Input;

use crate::{config, terminal};

/// Prints it, and what differs. Fails if a line cannot be converted.
pub fn convert(input: &Input) -> ExitCode {
    let conversion = config::convert(input);
    for finding in &conversion.findings {
        let line = finding.line.map_or_else(String::new, |line| format!("{line}:"));
        terminal::err(format_args!("{}:{line} {finding}", conversion.file.display()));
    }
    terminal::print(&conversion.text);
    if conversion.is_refused() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
