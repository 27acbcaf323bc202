//! The manual agrees with the program: its help text is generated, and its examples are valid.

use std::ffi::{OsStr, OsString};
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
    Some([before, BEGIN, "```text\n", &server::flags::reference(), "```\n", END, after].concat())
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

/// A page's example, and files of the kinds that examples name.
struct Example<'t> {
    page: &'t str,
    text: &'t str,
}

impl Source for Example<'_> {
    fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        let name = path.to_string_lossy();
        Ok(match path.extension().and_then(OsStr::to_str) {
            _ if name == self.page => self.text,
            // A list of addresses; a JWK set, with the key of RFC 8037; and lists of users and groups without any.
            Some("txt") => "192.0.2.0/24\n",
            Some("json") => {
                r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#
            }
            _ => "",
        }
        .into())
    }

    fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

fn examples(page: &str) -> impl Iterator<Item = &str> {
    page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest))
}

/// An example without addresses is a part of a configuration, and one without a root is so, too.
fn whole(example: &str) -> String {
    let mut whole = String::new();
    if !example.contains("listen = ") {
        whole += "listen = [\"127.0.0.1:8080\"]\n";
        if !example.lines().take_while(|line| !line.starts_with('[')).any(|line| line.starts_with("root = "))
        {
            whole += "root = \"/srv/www\"\n";
        }
    }
    whole + example
}

#[test]
fn the_examples_of_configurations_are_valid() {
    let docs = Path::new(DOCS);
    let pages =
        fs::read_dir(docs).expect("the manual is there").map(|entry| entry.expect("it is read").path());
    let mut wrong = Vec::new();
    for path in pages.chain([docs.join("../../README.md")]).filter(|path| !path.ends_with("configuration.md"))
    {
        let page = fs::read_to_string(&path).expect("the page can be read");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        for example in examples(&page) {
            let text = whole(example);
            if let Err(errors) = config::load(Path::new(&*name), &Example { page: &name, text: &text }) {
                wrong.push(format!("{name}:\n{text}\n{errors:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The words of a command, up to a pipe, a redirection or another command.
fn words(line: &str) -> Vec<OsString> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for char in line.chars().chain([' ']) {
        match (quote, char) {
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, '|' | '<' | '>' | '&' | ';') => break,
            (None, ' ') => words.extend(word.take().map(OsString::from)),
            _ => word.get_or_insert_default().push(char),
        }
    }
    words
}

#[test]
fn the_commands_of_the_manual_are_understood() {
    let docs = Path::new(DOCS);
    let pages =
        fs::read_dir(docs).expect("the manual is there").map(|entry| entry.expect("it is read").path());
    let (mut count, mut wrong) = (0, Vec::new());
    for path in pages.chain([docs.join("../../README.md")]) {
        let page = fs::read_to_string(&path).expect("the page can be read");
        let blocks = page.split("```console\n").skip(1).chain(page.split("```sh\n").skip(1));
        let lines = blocks.flat_map(|rest| rest.split("\n```").next().unwrap_or(rest).lines());
        for line in lines {
            let command = line.trim_start_matches(['$', '#']).trim_start();
            if !command.starts_with("taipan ") || line.starts_with("taipan ") && line.contains(" serves ") {
                continue;
            }
            count += 1;
            if let Err(error) = server::flags::parse_line(words(command)) {
                wrong.push(format!("{}: {command}: {}", path.display(), error.0));
            }
        }
    }
    assert!(count > 0 && wrong.is_empty(), "{}", wrong.join("\n"));
}
