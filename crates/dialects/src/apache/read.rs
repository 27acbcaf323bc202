//! The directives of httpd.conf and of the files that it includes. Variables are replaced, and conditions about
//! modules, definitions and versions are decided.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::draft::Draft;
use crate::tree::{Directive, MAX_BYTES, MAX_DEPTH, MAX_DIRECTIVES, MAX_FILES, Place};

/// Modules that are part of the program, as Debian and others build it.
const BUILT_IN: [&str; 9] =
    ["core", "so", "http", "watchdog", "log_config", "logio", "version", "unixd", "mpm_common"];
/// Modules of others, which run programs within the server or change its responses. Where no directive loads modules,
/// these count as absent.
const OF_OTHERS: [&str; 9] =
    ["php", "php4", "php5", "php7", "lsapi", "litespeed", "pagespeed", "fcgid", "fastcgi"];
/// The version whose configuration is read.
const VERSION: [u32; 3] = [2, 4, 62];
/// Bytes of a line with its continuations.
const MAX_LINE: usize = 64 << 10;

pub struct Reader<'r> {
    disk: &'r dyn Disk,
    /// Where relative paths begin.
    pub root: PathBuf,
    variables: BTreeMap<String, String>,
    defined: BTreeSet<String>,
    /// `None`: no module is loaded by a directive, and all count as present.
    modules: Option<BTreeSet<String>>,
    directives: usize,
    files: usize,
    bytes: usize,
}

/// A section that is open, with what stands in front of it.
struct Open {
    directive: Directive,
    before: Vec<Directive>,
    /// Its content counts as if it stood in the section around it. `None`: it is a directive.
    is_true: Option<bool>,
}

impl<'r> Reader<'r> {
    /// `folder` is where the file is. Debian has variables in a file `envvars` there, or around `sites-available`.
    pub fn new(disk: &'r dyn Disk, folder: &Path) -> Reader<'r> {
        let folders = std::iter::once(folder).chain(folder.parent());
        let bytes =
            folders.filter_map(|folder| disk.read(&folder.join("envvars")).ok()).next().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let exported = text.lines().filter_map(|line| line.trim().strip_prefix("export ")?.split_once('='));
        let variables = exported.map(|(name, value)| {
            (name.to_owned(), value.replace("$SUFFIX", "").trim_matches('"').to_owned())
        });
        Reader {
            disk,
            root: folder.to_owned(),
            variables: variables.filter(|(_, value)| !value.contains('$')).collect(),
            defined: BTreeSet::new(),
            modules: None,
            directives: 0,
            files: 0,
            bytes: 0,
        }
    }

    pub fn read(
        &mut self,
        bytes: &[u8],
        place: &dyn Fn(u32) -> Place,
        depth: usize,
        draft: &mut Draft,
    ) -> Vec<Directive> {
        let mut open: Vec<Open> = Vec::new();
        let mut here = Vec::new();
        for (number, line) in lines(&draft.text(bytes, place)) {
            let place = place(number);
            if self.directives >= MAX_DIRECTIVES {
                if self.directives == MAX_DIRECTIVES {
                    draft.error(
                        &place,
                        "there are more than 20000 directives",
                        "make several configurations of it",
                    );
                }
                self.directives += 1;
                return here;
            }
            let is_skipped = open.iter().any(|section| section.is_true == Some(false));
            if let Some(name) = line.strip_prefix("</") {
                close(name.trim_end_matches('>').trim(), &mut open, &mut here, &place, draft);
            } else if let Some(begin) = line.strip_prefix('<') {
                if open.len() + depth >= MAX_DEPTH {
                    draft.error(&place, "sections are more than 16 deep", "write fewer in one another");
                    return here;
                }
                let directive = self.directive(begin.trim_end_matches('>'), place, draft);
                let is_true = match is_skipped {
                    true => Some(false),
                    false => self.condition(&directive, draft),
                };
                open.push(Open { directive, before: std::mem::take(&mut here), is_true });
            } else if !is_skipped {
                let directive = self.directive(&line, place, draft);
                self.add(directive, depth, &mut here, draft);
            } else if self.may_run_php(&open, &line) {
                // The source of the scripts would be sent.
                let what = "whether mod_php runs PHP is not known without its LoadModule";
                draft.error(
                    &place,
                    what,
                    "let PHP-FPM run it, see interpreter; or remove it, if it is not loaded",
                );
            }
        }
        if let Some(section) = open.first() {
            draft.error(&section.directive.place, "this section is not closed", "add its end");
        }
        while let Some(section) = open.pop() {
            end(section, &mut here);
        }
        here
    }

    fn directive(&mut self, line: &str, place: Place, draft: &mut Draft) -> Directive {
        self.directives += 1;
        let mut words = words(line).into_iter();
        let name = words.next().unwrap_or_default().to_ascii_lowercase();
        let arguments = words.map(|word| self.filled(&word, &place, draft)).collect();
        Directive { name, arguments, block: None, place }
    }

    /// With values in place of `${NAME}`.
    fn filled(&self, word: &str, place: &Place, draft: &mut Draft) -> String {
        let mut out = String::new();
        let mut rest = word;
        while let Some((before, behind)) = rest.split_once("${") {
            out.push_str(before);
            let Some((name, after)) = behind.split_once('}') else { break };
            match self.variables.get(name) {
                Some(value) => out.push_str(value),
                None => draft.error(
                    place,
                    format!("{name} is not defined"),
                    "write its value, or copy envvars, which may export it, into the folder of the configuration",
                ),
            }
            rest = after;
        }
        out.push_str(rest);
        out.truncate(out.floor_char_boundary(MAX_LINE));
        out
    }

    /// Whether the content of a section counts. `None`: it is no condition.
    fn condition(&self, section: &Directive, draft: &mut Draft) -> Option<bool> {
        let (wanted, name) = match section.argument(0).strip_prefix('!') {
            Some(name) => (false, name),
            None => (true, section.argument(0)),
        };
        match section.name.as_str() {
            "ifmodule" => Some(self.has_module(name) == wanted),
            "ifdefine" => Some((self.defined.contains(name) || self.variables.contains_key(name)) == wanted),
            "iffile" => Some(self.disk.is_file(&self.root.join(name)) == wanted),
            "ifdirective" | "ifsection" => Some(wanted),
            "ifversion" => match is_version(&section.arguments) {
                Some(is_version) => Some(is_version == wanted),
                None => {
                    draft.error(&section.place, "this version cannot be compared", "write >= 2.4");
                    Some(false)
                }
            },
            _ => None,
        }
    }

    /// Whether a line that is left out has a handler for PHP, and its module may be there.
    fn may_run_php(&self, open: &[Open], line: &str) -> bool {
        let is_of_php = |section: &Open| {
            section.directive.name == "ifmodule" && module(section.directive.argument(0)).starts_with("php")
        };
        let line = line.to_ascii_lowercase();
        let is_handler = ["sethandler", "addhandler", "addtype"].iter().any(|name| line.starts_with(name));
        let is_only = open.iter().all(|section| section.is_true != Some(false) || is_of_php(section));
        self.modules.is_none() && is_handler && line.contains("php") && is_only
    }

    fn has_module(&self, name: &str) -> bool {
        let name = module(name);
        BUILT_IN.contains(&name)
            || match &self.modules {
                Some(modules) => modules.contains(name),
                None => !OF_OTHERS.contains(&name.to_ascii_lowercase().as_str()),
            }
    }

    fn add(&mut self, directive: Directive, depth: usize, here: &mut Vec<Directive>, draft: &mut Draft) {
        match directive.name.as_str() {
            "include" | "includeoptional" => here.extend(self.include(&directive, depth, draft)),
            "define" => {
                self.defined.insert(directive.argument(0).to_owned());
                if let Some(value) = directive.arguments.get(1) {
                    self.variables.insert(directive.argument(0).to_owned(), value.clone());
                }
            }
            "undefine" => {
                self.defined.remove(directive.argument(0));
                self.variables.remove(directive.argument(0));
            }
            "loadmodule" => {
                let modules = self.modules.get_or_insert_default();
                modules.insert(module(directive.argument(0)).to_owned());
            }
            "serverroot" => self.root = PathBuf::from(directive.argument(0)),
            _ => here.push(directive),
        }
    }

    fn include(&mut self, directive: &Directive, depth: usize, draft: &mut Draft) -> Vec<Directive> {
        let place = &directive.place;
        let mut pattern = self.root.join(directive.argument(0));
        if depth + 1 >= MAX_DEPTH {
            draft.error(place, "files include one another more than 16 deep", "remove an include");
            return Vec::new();
        }
        if self.disk.is_folder(&pattern) {
            pattern.push("*");
        }
        if directive.argument(0).contains(['[', '{']) {
            draft.error(place, "this pattern of files is not known", "write * and ? only");
        }
        let found = draft.files(self.disk, &pattern, place);
        if found.is_empty() && directive.name == "include" && !directive.argument(0).contains('*') {
            draft.error(place, format!("{} is missing", directive.text()), "write the path of a file");
        }
        let mut all = Vec::new();
        for path in found {
            all.extend(self.file(&path, place, depth, draft));
        }
        all
    }

    fn file(&mut self, path: &Path, place: &Place, depth: usize, draft: &mut Draft) -> Vec<Directive> {
        match self.disk.read(path) {
            Ok(bytes) => {
                self.files += 1;
                self.bytes += bytes.len();
                if self.files > MAX_FILES || self.bytes > MAX_BYTES {
                    draft.error(place, "more than 500 files or 8 MiB are included", "include less");
                    return Vec::new();
                }
                let name = path.display().to_string();
                self.read(&bytes, &|line| place.within(&name, line), depth + 1, draft)
            }
            Err(error) => {
                draft.error(
                    place,
                    format!("{} cannot be read: {error}", path.display()),
                    "check its permissions",
                );
                Vec::new()
            }
        }
    }

    /// The directives of a `.htaccess` file, which counts for the line of the section that allows it. `None`: there is
    /// none.
    pub fn htaccess(&mut self, path: &Path, place: &Place, draft: &mut Draft) -> Option<Vec<Directive>> {
        self.disk.is_file(path).then(|| self.file(path, place, 0, draft))
    }
}

/// `rewrite`, of `mod_rewrite.c` and of `rewrite_module`.
fn module(name: &str) -> &str {
    let name = name.strip_suffix("_module").unwrap_or(name);
    name.strip_prefix("mod_").unwrap_or(name).trim_end_matches(".c")
}

fn is_version(arguments: &[String]) -> Option<bool> {
    let (operator, text) = match arguments {
        [text] => ("=", text),
        [operator, text] => (operator.trim_start_matches('!'), text),
        _ => return None,
    };
    let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
    let numbers = numbers?;
    let own = VERSION.get(..numbers.len())?;
    Some(match operator {
        "=" | "==" => own == numbers,
        ">" => own > numbers.as_slice(),
        ">=" => own >= numbers.as_slice(),
        "<" => own < numbers.as_slice(),
        "<=" => own <= numbers.as_slice(),
        _ => return None,
    })
}

fn close(name: &str, open: &mut Vec<Open>, here: &mut Vec<Directive>, place: &Place, draft: &mut Draft) {
    match open.pop() {
        Some(section) => {
            if !section.directive.name.eq_ignore_ascii_case(name) {
                let what =
                    format!("</{}> closes <{}>", name.escape_debug(), section.directive.name.escape_debug());
                draft.error(place, what, "close the section that was opened last");
            }
            end(section, here);
        }
        None => draft.error(place, "this end closes nothing", "remove it"),
    }
}

/// Puts a section among those in front of it.
fn end(section: Open, here: &mut Vec<Directive>) {
    let inner = std::mem::replace(here, section.before);
    match section.is_true {
        Some(true) => here.extend(inner),
        Some(false) => {}
        None => here.push(Directive { block: Some(inner), ..section.directive }),
    }
}

/// Lines without comments, each with the number of its first one. A line that ends with a backslash continues.
fn lines(text: &str) -> Vec<(u32, String)> {
    let mut all: Vec<(u32, String)> = Vec::new();
    let mut continued = false;
    for (line, number) in text.lines().zip(1..) {
        let (line, continues) = match line.strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        match all.last_mut().filter(|(_, line)| continued && line.len() < MAX_LINE) {
            Some((_, last)) => last.push_str(line),
            None => all.push((number, line.to_owned())),
        }
        continued = continues;
    }
    let trimmed = all.into_iter().map(|(number, line)| (number, line.trim().to_owned()));
    trimmed.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect()
}

fn words(line: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        let mut word = String::new();
        if c == '"' || c == '\'' {
            while let Some(inner) = chars.next() {
                match inner {
                    inner if inner == c => break,
                    '\\' if chars.peek() == Some(&c) => word.extend(chars.next()),
                    inner => word.push(inner),
                }
            }
        } else {
            word.push(c);
            while let Some(next) = chars.next_if(|c| !c.is_whitespace()) {
                word.push(next);
            }
        }
        all.push(word);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines_words_and_versions() {
        let text = "# no\nA \"b \\\"c\\\"\" \\\n  'd e' f\r\n\nG";
        let all: Vec<(u32, Vec<String>)> =
            lines(text).into_iter().map(|(number, line)| (number, words(&line))).collect();
        assert_eq!(
            all,
            [(2, ["A", "b \"c\"", "d e", "f"].map(str::to_owned).to_vec()), (5, vec!["G".to_owned()])]
        );
        for (arguments, expected) in [
            (vec![">=", "2.4"], Some(true)),
            (vec!["<", "2.4"], Some(false)),
            (vec!["2.4"], Some(true)),
            (vec!["~", "2"], None),
            (vec![], None),
        ] {
            let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
            assert_eq!(is_version(&arguments), expected, "{arguments:?}");
        }
        assert_eq!([module("mod_rewrite.c"), module("rewrite_module")], ["rewrite", "rewrite"]);
    }
}
