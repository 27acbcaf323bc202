//! A finished run in the form that was asked for. Every form is a function from `Run` to text, and
//! none knows where the text goes.
//!
//! A rate never stands alone. The historical forms that have no place for availability and the
//! longest time get them in a last line that begins with `taipan-bench:`, which scripts that look
//! for the old words do not see.

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

use crate::run::{Fault, Measured, Run};

pub use page::Ink;
pub use warnings::warnings;

/// The forms of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// For people, in a terminal.
    #[default]
    Page,
    /// Everything, with the histograms: can be read back and merged.
    Json,
    /// The run second by second.
    Csv,
    /// For people, in a browser: one file.
    Html,
    Ab,
    HttpLoad,
    Siege,
    SiegeJson,
    ZeusBench,
    Wrk,
    H2load,
}

impl Form {
    pub const ALL: [Form; 11] = [
        Form::Page,
        Form::Json,
        Form::Csv,
        Form::Html,
        Form::Ab,
        Form::HttpLoad,
        Form::Siege,
        Form::SiegeJson,
        Form::ZeusBench,
        Form::Wrk,
        Form::H2load,
    ];

    /// The word for it on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Page => "page",
            Form::Json => "json",
            Form::Csv => "csv",
            Form::Html => "html",
            Form::Ab => "ab",
            Form::HttpLoad => "http_load",
            Form::Siege => "siege",
            Form::SiegeJson => "siege-json",
            Form::ZeusBench => "zeusbench",
            Form::Wrk => "wrk",
            Form::H2load => "h2load",
        }
    }

    pub fn from_name(name: &str) -> Option<Form> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// The run in this form, ending with a newline. `ink` is for the page; the others have no colour.
    pub fn render(self, run: &Run, ink: Ink) -> String {
        match self {
            Form::Page => page::render(run, ink),
            Form::Json => json::render(run),
            Form::Csv => csv::render(run),
            Form::Html => html::render(run),
            Form::Ab => ab::render(run),
            Form::HttpLoad => http_load::render(run),
            Form::Siege => siege::render(run),
            Form::SiegeJson => siege::render_json(run),
            Form::ZeusBench => zeusbench::render(run),
            Form::Wrk => wrk::render(run),
            Form::H2load => h2load::render(run),
        }
    }
}

/// Adds what no rate may be without to a form that has no place for it.
fn push_truth(out: &mut String, measured: &Measured) {
    let availability = units::availability(measured);
    let longest = measured.longest as f64 / 1000.0;
    out.push_str(&format!("taipan-bench: availability {availability}, longest request {longest:.3} ms\n"));
    let own = measured.faults.of_any(&[Fault::NoPorts, Fault::NoDescriptors]);
    if own > 0 {
        out.push_str(&format!(
            "taipan-bench: {own} of the failures are the client's own: no local port or no descriptor left\n"
        ));
    }
}

/// Requests whose whole answer came, whatever was in it: what the old tools call complete.
fn complete(measured: &Measured) -> u64 {
    let whole = [Fault::Status, Fault::WrongLength, Fault::WrongBody];
    measured.done.saturating_add(measured.faults.of_any(&whole))
}

/// Failures before there was a connection.
const CONNECTING: [Fault; 5] =
    [Fault::Refused, Fault::Unreachable, Fault::Handshake, Fault::NoPorts, Fault::NoDescriptors];

/// Failures of patience: no answer within the time there was.
const WAITING: [Fault; 2] = [Fault::Timeout, Fault::Unsent];
