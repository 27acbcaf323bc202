//! The examples of devices in the manual. Their reader converts a configuration, adds keys that bound its memory, and
//! has `taipan check` say how much it takes.

use std::fs;
use std::path::Path;

use crate::{Rows, Site, output_of, program};

/// MiB that a device with 32 MiB has for the server.
const MEBIBYTES: f64 = 16.0;

/// The text of a page of the manual.
pub fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual").join(name);
    fs::read_to_string(path).expect("the page is there")
}

/// The first block of a text in this language. Panics if there is none.
pub fn example<'t>(text: &'t str, language: &str) -> &'t str {
    let (_, rest) = text.split_once(&format!("```{language}\n")).expect("the page has an example");
    rest.split_once("```").expect("the example ends").0
}

/// A converted configuration with the keys that the manual adds for a small device. They replace those that are there.
pub fn bounded(converted: &str) -> String {
    let page = page("from-boa.md");
    let (top, sections) =
        example(&page, "toml").split_once("\n\n").expect("keys of the top level come first");
    let (own, behind) = converted.split_at(converted.find("\n[").unwrap_or(converted.len()));
    let mut whole = format!("{top}\n{}\n{behind}", without(own, top));
    for section in sections.split("\n\n") {
        let (header, keys) = section.trim().split_once('\n').expect("a section has keys");
        let Some((before, behind)) = whole.split_once(&format!("\n{header}\n")) else {
            whole = format!("{whole}\n{header}\n{keys}\n");
            continue;
        };
        // Up to the next section.
        let (own, rest) = behind.split_once("\n\n").unwrap_or((behind, ""));
        whole = format!("{before}\n{header}\n{keys}\n{}\n\n{rest}", without(own, keys));
    }
    whole
}

/// The lines whose keys are not among `keys`.
fn without(lines: &str, keys: &str) -> String {
    let name = |line: &str| line.split(" = ").next().unwrap_or_default().to_owned();
    let is_kept = |line: &&str| !keys.lines().any(|key| name(key) == name(line));
    lines.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

/// `taipan check` accepts the `site.toml` of a device, and it takes little memory, also with a full cache.
pub fn check(rows: &mut Rows, what: &str, site: &Site) {
    let output = output_of(program::command().args(["check", "-c", "site.toml"]).current_dir(site.home()));
    let printed = String::from_utf8_lossy(&output.stdout);
    let refused = String::from_utf8_lossy(&output.stderr);
    rows.check(format!("{what}: check {refused}"), output.status.code(), Some(0));
    let typical = printed.lines().find(|line| line.contains("with a full cache")).unwrap_or_default();
    let number: Option<f64> = typical.split_whitespace().next().and_then(|number| number.parse().ok());
    let is_little = typical.contains("MiB") && number.is_some_and(|mebibytes| mebibytes < MEBIBYTES);
    rows.holds(format!("{what}: memory"), &format!("is little: {typical}"), is_little);
}
