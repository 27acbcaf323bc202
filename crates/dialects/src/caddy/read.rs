//! The blocks of a Caddyfile, with its snippets and the files that it imports.

use std::path::Path;

use crate::disk::Disk;
use crate::draft::Draft;
use crate::tree::{Directive, MAX_BYTES, MAX_DEPTH, MAX_DIRECTIVES, MAX_FILES, Place};

/// Bytes of a word in which arguments are put.
const MAX_WORD: usize = 4096;

pub struct Reader<'r> {
    disk: &'r dyn Disk,
    folder: &'r Path,
    snippets: Vec<Directive>,
    directives: usize,
    files: usize,
    bytes: usize,
}

/// A line: its words, and whether a block begins at its end.
struct Line {
    words: Vec<String>,
    opens: bool,
    number: u32,
}

impl<'r> Reader<'r> {
    pub fn new(disk: &'r dyn Disk, folder: &'r Path) -> Reader<'r> {
        Reader { disk, folder, snippets: Vec::new(), directives: 0, files: 0, bytes: 0 }
    }

    /// The sites: the name is the first address, and the arguments are the others. The global options have no name.
    pub fn read(&mut self, bytes: &[u8], draft: &mut Draft) -> Vec<Directive> {
        let mut tree = parsed(bytes, &Place::at, draft);
        let is_one_site = tree.first().is_some_and(|first| first.block.is_none() && first.name != "import");
        if is_one_site {
            // Without braces, the first line is the address of the one site.
            let mut site = tree.remove(0);
            site.block = Some(tree);
            tree = vec![site];
        }
        self.expanded(tree, 0, draft)
    }

    /// Snippets and files in place of each `import`.
    fn expanded(&mut self, tree: Vec<Directive>, depth: usize, draft: &mut Draft) -> Vec<Directive> {
        let mut all = Vec::new();
        for mut directive in tree {
            self.directives += 1;
            if self.directives >= MAX_DIRECTIVES {
                if self.directives == MAX_DIRECTIVES {
                    let what = "there are more than 20000 directives";
                    draft.error(&directive.place, what, "make several configurations of it");
                }
                return all;
            }
            if directive.name.starts_with('(') && directive.name.ends_with(')') && directive.block.is_some() {
                self.snippets.push(directive);
            } else if directive.name == "import" {
                if depth >= MAX_DEPTH {
                    draft.error(&directive.place, "imports are more than 16 deep", "remove an import");
                    continue;
                }
                let imported = self.import(&directive, draft);
                all.extend(self.expanded(imported, depth + 1, draft));
            } else {
                if let Some(block) = directive.block.take() {
                    directive.block = Some(self.expanded(block, depth, draft));
                }
                all.push(directive);
            }
        }
        all
    }

    fn import(&mut self, directive: &Directive, draft: &mut Draft) -> Vec<Directive> {
        let place = &directive.place;
        let name = format!("({})", directive.argument(0));
        if let Some(snippet) = self.snippets.iter().find(|snippet| snippet.name == name) {
            self.bytes += snippet.size();
            if self.bytes > MAX_BYTES {
                draft.error(place, "imports have more than 8 MiB", "import less");
                return Vec::new();
            }
            let arguments = directive.arguments.get(1..).unwrap_or_default();
            return snippet.children().iter().map(|child| filled(child, arguments)).collect();
        }
        let mut all = Vec::new();
        let found = draft.files(self.disk, &self.folder.join(directive.argument(0)), place);
        if found.is_empty() && !directive.argument(0).contains('*') {
            let what = format!("\"{}\": there is no such snippet or file", directive.text());
            draft.error(place, what, "define it before");
        }
        for path in found {
            self.files += 1;
            if self.files > MAX_FILES {
                draft.error(
                    place,
                    "there are more than 500 imported files",
                    "make several configurations of it",
                );
                break;
            }
            match self.disk.read(&path) {
                Ok(bytes) => {
                    self.bytes += bytes.len();
                    if self.bytes > MAX_BYTES {
                        draft.error(place, "imports have more than 8 MiB", "import less");
                        break;
                    }
                    let name = path.display().to_string();
                    let within = |line: u32| place.within(&name, line);
                    all.extend(parsed(&bytes, &within, draft));
                }
                Err(error) => {
                    let what = format!("{} cannot be read: {error}", path.display());
                    draft.error(place, what, "check its permissions");
                }
            }
        }
        all
    }
}

/// With the arguments of an import in place of `{args[0]}`.
fn filled(directive: &Directive, arguments: &[String]) -> Directive {
    let fill = |text: &String| {
        let mut text = text.clone();
        for (at, argument) in arguments.iter().enumerate().take(16) {
            if text.len() + argument.len() > MAX_WORD {
                break;
            }
            let filled = text
                .replace(&format!("{{args[{at}]}}"), argument)
                .replace(&format!("{{args.{at}}}"), argument);
            if filled.len() <= MAX_WORD {
                text = filled;
            }
        }
        text
    };
    Directive {
        name: fill(&directive.name),
        arguments: directive.arguments.iter().map(fill).collect(),
        block: directive
            .block
            .as_ref()
            .map(|block| block.iter().map(|child| filled(child, arguments)).collect()),
        place: directive.place.clone(),
    }
}

fn parsed(bytes: &[u8], place: &dyn Fn(u32) -> Place, draft: &mut Draft) -> Vec<Directive> {
    let text = draft.text(bytes, place);
    let text = with_defaults(&text, place, draft);
    let mut open: Vec<(Directive, Vec<Directive>)> = Vec::new();
    let mut here: Vec<Directive> = Vec::new();
    let mut last = 1;
    for line in lines(&text) {
        last = line.number;
        let at = place(line.number);
        if line.words.len() == 1 && line.words[0] == "}" && !line.opens {
            match open.pop() {
                Some((mut directive, before)) => {
                    directive.block = Some(std::mem::replace(&mut here, before));
                    here.push(directive);
                }
                None => draft.error(&at, "this \"}\" closes nothing", "remove it"),
            }
            continue;
        }
        let mut words = line.words.into_iter();
        let name = words.next().unwrap_or_default();
        let directive = Directive { name, arguments: words.collect(), block: None, place: at };
        match line.opens {
            true if open.len() >= MAX_DEPTH => {
                draft.error(&directive.place, "blocks are more than 16 deep", "write fewer in one another");
                return here;
            }
            true => open.push((directive, std::mem::take(&mut here))),
            false => here.push(directive),
        }
    }
    if !open.is_empty() {
        draft.error(&place(last), "the file ends within a block", "add \"}\" at its end");
    }
    while let Some((mut directive, before)) = open.pop() {
        directive.block = Some(std::mem::replace(&mut here, before));
        here.push(directive);
    }
    here
}

/// With `default` in place of `{$NAME:default}`: the environment of Caddy is not known.
fn with_defaults(text: &str, place: &dyn Fn(u32) -> Place, draft: &mut Draft) -> String {
    let mut out = String::with_capacity(text.len());
    let mut number = 1_u32;
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once("{$") {
            out.push_str(before);
            let found = behind.split_once('}').filter(|(inner, _)| !inner.contains(char::is_whitespace));
            let Some((variable, after)) = found else {
                out.push_str("{$");
                rest = behind;
                continue;
            };
            let (name, default) = match variable.split_once(':') {
                Some((name, default)) => (name, Some(default)),
                None => (variable, None),
            };
            out.push_str(default.unwrap_or(&rest[before.len()..rest.len() - after.len()]));
            let what = format!("${name} of the environment is not read");
            match default {
                _ if line.trim_start().starts_with('#') => {}
                Some(default) => {
                    let what = format!("{what}: it is \"{default}\"");
                    draft.warn(&place(number), what, "write another value, if Caddy has one");
                }
                None => draft.error(&place(number), what, "write its value"),
            }
            rest = after;
        }
        out.push_str(rest);
        number = number.saturating_add(1);
    }
    out
}

fn lines(text: &str) -> Vec<Line> {
    let mut all = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut chars = text.chars().peekable();
    let (mut number, mut begun) = (1, 1);
    loop {
        match chars.next() {
            Some('\n') | None => {
                let is_continued =
                    words.last().is_some_and(|word| word.ends_with(',')) && chars.peek().is_some();
                if !words.is_empty() && !is_continued {
                    let opens = words.last().is_some_and(|word| word == "{");
                    if opens {
                        words.pop();
                    }
                    all.push(Line { words: std::mem::take(&mut words), opens, number: begun });
                }
                number += 1;
                if chars.peek().is_none() {
                    return all;
                }
            }
            Some('\\') if chars.peek() == Some(&'\n') => {
                chars.next();
                number += 1;
            }
            Some('#') => while chars.next_if(|c| *c != '\n').is_some() {},
            Some(c) if c.is_whitespace() => {}
            Some(c) => {
                if words.is_empty() {
                    begun = number;
                }
                let mut word = String::new();
                if c == '"' || c == '`' {
                    while let Some(inner) = chars.next() {
                        number += u32::from(inner == '\n');
                        match inner {
                            inner if inner == c => break,
                            '\\' if c == '"' && chars.peek() == Some(&'"') => word.extend(chars.next()),
                            inner => word.push(inner),
                        }
                    }
                } else {
                    word.push(c);
                    while let Some(next) = chars.next_if(|c| !c.is_whitespace()) {
                        word.push(next);
                    }
                }
                words.push(word);
            }
        }
    }
}
