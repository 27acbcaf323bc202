//! The report as text, for a terminal or a mail.

use std::fmt::Write;

use crate::summary::Summary;
use crate::tables::{self, Table};

/// Rows of a table.
const ROWS: usize = 10;
/// Rows of a table over time.
const TIMES: usize = 31;
const LABEL: usize = 44;

/// For a terminal.
pub fn render(summary: &Summary) -> String {
    let mut out = format!("{}\n\n", tables::span(summary));
    for (name, value) in tables::facts(summary) {
        _ = writeln!(out, "{value:>16}  {name}");
    }
    for table in tables::tables(summary) {
        write_table(&table, &mut out);
    }
    out
}

fn write_table(table: &Table, out: &mut String) {
    let rows = match table.chart {
        // The last days.
        tables::Chart::Columns => &table.rows[table.rows.len().saturating_sub(TIMES)..],
        tables::Chart::Bars | tables::Chart::None => &table.rows[..table.rows.len().min(ROWS)],
    };
    let note = if table.note.is_empty() { String::new() } else { format!(" ({})", table.note) };
    _ = writeln!(out, "\n{}{note}", table.title);
    _ = write!(out, "  {:LABEL$}", table.what);
    table.columns.iter().for_each(|column| _ = write!(out, " {column:>12}"));
    out.push('\n');
    for row in rows {
        let label = match row.label.chars().count() {
            length if length > LABEL => row.label.chars().take(LABEL - 1).chain(['…']).collect(),
            _ => row.label.clone(),
        };
        _ = write!(out, "  {label:LABEL$}");
        row.cells.iter().for_each(|cell| _ = write!(out, " {cell:>12}"));
        out.push('\n');
    }
}
