//! Renders a finished run in the wanted format. Every format is a function from `Run` to text, and does not know
//! where the text goes.
//!
//! A rate never stands alone. The formats of other tools that have no place for availability and the longest time
//! get them in a last line that begins with `taipan-bench:`, which scripts for those tools ignore.

mod units;
mod warnings;

pub mod page;

pub mod json;

pub mod read;

pub mod csv;

pub mod html;

mod plot;

pub mod ab;

pub mod http_load;

pub mod siege;

pub mod zeusbench;

pub mod wrk;

pub mod h2load;

use std::fmt;

use crate::run::{Fault, Measured, Run};

pub use page::{Style, wrapped};
pub use warnings::warnings;

/// The formats of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for a terminal.
    #[default]
    Page,
    /// Everything, with the histograms; can be read back and merged.
    Json,
    /// The run second by second.
    Csv,
    /// One file for a browser.
    Html,
    Ab,
    HttpLoad,
    Siege,
    SiegeJson,
    ZeusBench,
    Wrk,
    H2load,
}

impl Format {
    /// In the order of the help.
    pub const ALL: [Format; 11] = [
        Format::Page,
        Format::Json,
        Format::Csv,
        Format::Html,
        Format::Ab,
        Format::HttpLoad,
        Format::Siege,
        Format::SiegeJson,
        Format::ZeusBench,
        Format::Wrk,
        Format::H2load,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Page => "page",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Html => "html",
            Format::Ab => "ab",
            Format::HttpLoad => "http_load",
            Format::Siege => "siege",
            Format::SiegeJson => "siege-json",
            Format::ZeusBench => "zeusbench",
            Format::Wrk => "wrk",
            Format::H2load => "h2load",
        }
    }

    /// `None`: there is no such format.
    pub fn from_name(name: &str) -> Option<Format> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The run in this form, ending with a newline. `style` is for the page; the others have no colour.
    pub fn render(self, run: &Run, style: Style) -> String {
        match self {
            Format::Page => page::render(run, style),
            Format::Json => json::render(run),
            Format::Csv => csv::render(run),
            Format::Html => html::render(run),
            Format::Ab => ab::render(run),
            Format::HttpLoad => http_load::render(run),
            Format::Siege => siege::render(run),
            Format::SiegeJson => siege::render_json(run),
            Format::ZeusBench => zeusbench::render(run),
            Format::Wrk => wrk::render(run),
            Format::H2load => h2load::render(run),
        }
    }
}

/// What `write` writes, with availability and the longest time behind it.
fn with_availability(run: &Run, write: impl FnOnce(&mut String, &Run) -> fmt::Result) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    _ = write(&mut out, run);
    push_availability(&mut out, &run.measured);
    out
}

/// Appends availability and the longest time to a format that has no place for them.
fn push_availability(out: &mut String, measured: &Measured) {
    let availability = units::availability(measured);
    let longest = measured.longest as f64 / 1000.0;
    out.push_str(&format!("taipan-bench: availability {availability}, longest request {longest:.3} ms\n"));
    push_own_failures(out, measured);
}

/// Appends the failures that are not the server's, if there are any.
fn push_own_failures(out: &mut String, measured: &Measured) {
    let own = measured.faults.of_any(&[Fault::NoPorts, Fault::NoDescriptors]);
    if own > 0 {
        out.push_str(&format!(
            "taipan-bench: {own} of the failures are the client's own: no local port or no descriptor left\n"
        ));
    }
}

/// Requests with a whole response, right or wrong: what other tools call complete.
fn complete(measured: &Measured) -> u64 {
    let whole = [Fault::Status, Fault::WrongLength, Fault::WrongBody];
    measured.done.saturating_add(measured.faults.of_any(&whole))
}

/// Failures before the connection was established.
const CONNECTING: [Fault; 5] =
    [Fault::Refused, Fault::Unreachable, Fault::Handshake, Fault::NoPorts, Fault::NoDescriptors];

/// Failures without a response in time.
const WAITING: [Fault; 2] = [Fault::Timeout, Fault::Unsent];
