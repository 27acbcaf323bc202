//! The manual agrees with the code: its reference of keys is generated, and its examples are valid.

use std::io;
use std::path::{Path, PathBuf};

use site::config::{self, Source};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manual/configuration.md");

#[test]
fn the_manual_has_the_generated_reference() {
    let page = std::fs::read_to_string(PAGE).expect("docs/manual/configuration.md can be read");
    let renewed = config::renewed(&page).expect("the page has the two marks between which the keys are");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &renewed).expect("docs/manual/configuration.md can be written");
    } else if page != renewed {
        panic!("docs/manual/configuration.md is out of date; run: UPDATE_DOCS=1 cargo test -p taipan-site");
    }
}

/// A source of one file, without includes.
struct One<'t>(&'t str);

impl Source for One<'_> {
    fn read(&self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

#[test]
fn the_examples_of_the_introduction_are_valid() {
    let page = include_str!("../../../docs/manual/configuration.md");
    let introduction = page.split("<!-- keys").next().unwrap_or(page);
    let examples: Vec<&str> = introduction
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or(rest))
        .collect();
    assert!(!examples.is_empty());
    for example in examples {
        if let Err(errors) = config::load(Path::new("site.toml"), &One(example)) {
            panic!("{example}\n{errors:#?}");
        }
    }
}
