//! The manual agrees with the program: its help text is generated, and its examples are valid.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use site::config::{self, Source};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manual");
const BEGIN: &str = "<!-- help: generated, do not edit -->\n";
const END: &str = "<!-- /help -->";

/// The page with the current help. `None`: it lacks the two marks.
fn renewed(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, "```text\n", &server::flags::help(), "```\n", END, after].concat())
}

#[test]
fn the_manual_shows_the_current_help() {
    let path = Path::new(DOCS).join("command-line.md");
    let page = fs::read_to_string(&path).expect("docs/manual/command-line.md can be read");
    let renewed = renewed(&page).expect("the page has the two marks between which the help is");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, renewed).expect("docs/manual/command-line.md can be written");
    } else if page != renewed {
        panic!(
            "docs/manual/command-line.md is out of date; run: UPDATE_DOCS=1 cargo test -p taipan --test manual"
        );
    }
}

/// One file, without others to include.
struct One<'t>(&'t str);

impl Source for One<'_> {
    fn read(&self, _: &Path) -> io::Result<String> {
        Ok(self.0.to_owned())
    }

    fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

#[test]
fn the_examples_of_configurations_are_valid() {
    let mut count = 0;
    for name in [
        "../../README.md",
        "serving-a-folder.md",
        "files.md",
        "http.md",
        "logs.md",
        "running.md",
        "scripts.md",
        "applications.md",
        "proxy.md",
        "in-front-of.md",
        "browsers.md",
        "tls.md",
        "certificates.md",
        "from-boa.md",
    ] {
        let page = fs::read_to_string(Path::new(DOCS).join(name)).expect("the page can be read");
        let examples = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest));
        for example in examples {
            // An example without `listen` is a part of a configuration.
            let whole = match example.contains("listen = ") {
                true => example.to_owned(),
                false => format!("listen = [\"127.0.0.1:8080\"]\nroot = \"/srv/www\"\n{example}"),
            };
            if let Err(errors) = config::load(Path::new(name), &One(&whole)) {
                panic!("{name}:\n{whole}\n{errors:#?}");
            }
            count += 1;
        }
    }
    assert!(count > 0);
}
