//! The manual contains the current help.

use std::fs;
use std::path::Path;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manual/bench.md");
const BEGIN: &str = "<!-- help: generated, do not edit -->\n";
const END: &str = "<!-- /help -->";

/// The page with the current help; `None` without the two marks.
fn renewed(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, "```text\n", &load::flags::help(), "```\n", END, after].concat())
}

#[test]
fn the_manual_contains_the_current_help() {
    let page = fs::read_to_string(PAGE).expect("docs/manual/bench.md can be read");
    let renewed = renewed(&page).expect("the page has the two marks around the help");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(Path::new(PAGE), renewed).expect("docs/manual/bench.md can be written");
    } else if page != renewed {
        panic!(
            "docs/manual/bench.md is out of date; run: UPDATE_DOCS=1 cargo test -p taipan-load --test manual"
        );
    }
}
