//! Pages in a real browser.

mod connections;
mod devtools;
mod listing;
mod server_page;

use std::fs;
use std::path::Path;

use devtools::Browser;
use e2e::{
    Address, Folder, Server, Site, TIMEOUT, authority, free_port, npm_package, output_within, tool,
    wait_until,
};
use serde_json::{Value, json};

/// What the package `axe-core` finds on a page, in sentences.
fn found_by_axe(browser: &mut Browser, source: &str) -> Vec<String> {
    browser.value(&format!("{source}\n;0"));
    let run = "axe.run(document).then(found => found.violations.flatMap(rule => \
               rule.nodes.map(node => `${rule.id}: ${node.html}: ${node.failureSummary}`)))";
    let found = browser.value(run);
    let found = found.as_array().unwrap_or_else(|| panic!("{found}"));
    found.iter().map(|sentence| sentence.as_str().unwrap_or_default().to_owned()).collect()
}
