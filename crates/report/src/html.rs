//! The report as one page of HTML: style and charts (SVG) are within it, it needs no script, and it loads nothing.

use std::fmt::Write;

use crate::summary::Summary;
use crate::tables::{self, Chart, Table};

const STYLE: &str = "
:root{color-scheme:light dark;--back:#fbfbfa;--text:#1c1c1a;--soft:#6b6a65;--line:#dddcd6;--bar:#3a7d5c;--card:#fff}
@media(prefers-color-scheme:dark){:root{--back:#161615;--text:#e8e7e3;--soft:#a09f98;--line:#343430;--bar:#5fb08a;--card:#1f1f1d}}
body{margin:0 auto;padding:1.5rem;max-width:75rem;background:var(--back);color:var(--text);font:15px/1.45 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:0 0 .6rem}p{color:var(--soft);margin:.2rem 0 1rem}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.7rem;margin:1rem 0 1.5rem}
dl div{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.6rem 1rem}
dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-size:1.35rem;font-variant-numeric:tabular-nums}
main{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1rem}
section{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:1rem;overflow-x:auto;min-width:0}
section.wide{grid-column:1/-1}
table{border-collapse:collapse;width:100%;font-size:.87rem}
th{text-align:right;color:var(--soft);font-weight:500;padding-left:.8rem}th:first-child,td:first-child{text-align:left;width:55%}
td{border-top:1px solid var(--line);padding:.22rem 0 .22rem .8rem;text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
th:first-child,td:first-child{padding-left:0}td:first-child{white-space:normal;overflow-wrap:anywhere}
svg{display:block;width:100%}svg rect{fill:var(--bar)}td svg{height:3px;margin-top:2px}
.chart{height:9rem}.axis{display:grid;margin-bottom:.6rem;border-top:1px solid var(--line);color:var(--soft);font-size:.75rem;white-space:nowrap}details summary{color:var(--soft);cursor:pointer}
";

/// A page without scripts, and without any other file.
pub fn render(summary: &Summary) -> String {
    let span = tables::span(summary);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n\
         <title>Access report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>Access report</h1><p>{span}</p></header>\n<dl>\n"
    );
    for (name, value) in tables::facts(summary) {
        _ = writeln!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    out.push_str("</dl>\n<main>\n");
    for table in tables::tables(summary) {
        write_section(&table, &mut out);
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn write_section(table: &Table, out: &mut String) {
    let class = if table.chart == Chart::Columns { " class=\"wide\"" } else { "" };
    _ = writeln!(out, "<section{class}><h2>{}</h2>", table.title);
    if !table.note.is_empty() {
        _ = writeln!(out, "<p>{}</p>", table.note);
    }
    let most = table.rows.iter().map(|row| row.weight).max().unwrap_or(0).max(1);
    if table.chart == Chart::Columns {
        write_columns(table, most, out);
        out.push_str("<details><summary>as a table</summary>\n");
    }
    write_table(table, most, out);
    if table.chart == Chart::Columns {
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
}

/// With fewer columns, each would be as wide as a card.
const LEAST_COLUMNS: usize = 12;
/// So many have space beside one another on a phone.
const MOST_LABELS: usize = 4;

fn write_columns(table: &Table, most: u64, out: &mut String) {
    let columns = table.rows.len().max(LEAST_COLUMNS);
    let width = columns * 10;
    let highest = table.rows.iter().max_by_key(|row| row.weight).and_then(|row| row.cells.first());
    if let (Some(cell), Some(unit)) = (highest, table.columns.first()) {
        _ = writeln!(out, "<p>up to {cell} {unit}</p>");
    }
    _ = writeln!(
        out,
        "<svg class=\"chart\" viewBox=\"0 0 {width} 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        table.title
    );
    for (at, row) in table.rows.iter().enumerate() {
        let height = 100.0 * row.weight as f64 / most as f64;
        let (left, top) = (at * 10 + 1, 100.0 - height);
        _ = write!(out, "<rect x=\"{left}\" y=\"{top:.2}\" width=\"8\" height=\"{height:.2}\"><title>");
        escape(&format!("{}: {}", row.label, row.cells.first().map_or("", String::as_str)), out);
        out.push_str("</title></rect>\n");
    }
    _ = write!(out, "</svg>\n<div class=\"axis\" style=\"grid-template-columns:repeat({columns},1fr)\">");
    let step = columns.div_ceil(MOST_LABELS);
    for (at, row) in table.rows.iter().enumerate().step_by(step) {
        _ = write!(out, "<span style=\"grid-column:{}/span {}\">", at + 1, step.min(columns - at));
        escape(&row.label, out);
        out.push_str("</span>");
    }
    out.push_str("</div>\n");
}

fn write_table(table: &Table, most: u64, out: &mut String) {
    _ = write!(out, "<table><thead><tr><th scope=\"col\">{}</th>", table.what);
    for column in &table.columns {
        _ = write!(out, "<th scope=\"col\">{column}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr><td>");
        escape(&row.label, out);
        if table.chart == Chart::Bars {
            let width = 100.0 * row.weight as f64 / most as f64;
            _ = write!(
                out,
                "<svg viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"{width:.2}\" height=\"1\"/></svg>"
            );
        }
        out.push_str("</td>");
        for cell in &row.cells {
            out.push_str("<td>");
            escape(cell, out);
            out.push_str("</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n");
}

fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The page without what it writes itself.
    fn tags(page: &str) -> Vec<&str> {
        page.split('<').skip(1).filter_map(|rest| rest.split(['>', ' ', '\n']).next()).collect()
    }

    #[test]
    fn charts_say_how_many_requests_there_are_and_when() {
        let mut summary = Summary::default();
        for hour in ["03", "17", "17"] {
            let line =
                format!("10.0.0.1 - - [20/Nov/2026:{hour}:49:41 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"");
            summary.add_line(line.as_bytes());
        }
        let page = render(&summary);
        for part in [
            "<p>up to 3 requests</p>",
            "<span style=\"grid-column:1/span 3\">2026-11-20</span></div>",
            "<p>up to 2 requests</p>",
            "<span style=\"grid-column:1/span 6\">00</span><span style=\"grid-column:7/span 6\">06</span>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn no_line_adds_an_element(target in "[ -~]{0,60}", agent in "\\PC{0,60}", client in "[!-~]{1,20}") {
            let mut summary = Summary::default();
            let target = target.replace(['"', '\\'], "<");
            let agent = agent.replace(['"', '\\'], "<script>");
            let line = format!(
                "{client} - - [20/Nov/2026:07:49:41 +0000] \"GET {target} HTTP/1.1\" 200 1 \"{target}\" \"{agent}\""
            );
            summary.add_line(line.as_bytes());
            let page = render(&summary);
            let known = [
                "!DOCTYPE", "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "dl", "dt", "dd",
                "div", "span", "main", "section", "svg", "rect", "details", "summary", "table", "thead", "tbody", "tr", "th", "td",
            ];
            for tag in tags(&page) {
                prop_assert!(known.contains(&tag.trim_start_matches('/')), "{tag:?}");
            }
            prop_assert!(!page.contains("<script") && !page.contains("http://"));
            crate::text::render(&summary);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut summary = Summary::default();
            summary.add_line(&bytes);
            summary.add_line(&[b"{", &bytes[..]].concat());
            summary.add_line(&[b"a - - [20/Nov/2026:07:49:41 +0000] \"", &bytes[..]].concat());
            render(&summary);
        }
    }
}
