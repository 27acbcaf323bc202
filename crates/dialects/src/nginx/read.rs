//! The directives of nginx.conf and of the files that it includes.

use std::path::{Path, PathBuf};

use crate::brackets::is_glob;
use crate::disk::Disk;
use crate::draft::Draft;
use crate::tree::{Directive, MAX_BYTES, MAX_DEPTH, MAX_DIRECTIVES, MAX_FILES, Place};

/// Files whose content is known, and built in.
const BUILT_IN: [&str; 1] = ["mime.types"];

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

pub struct Reader<'r> {
    pub disk: &'r dyn Disk,
    /// Where relative paths begin.
    pub folder: &'r Path,
    directives: usize,
    files: usize,
    bytes: usize,
}

/// Where a file is included. `None`: it is the file itself.
struct File<'f> {
    name: &'f Path,
    included: Option<&'f Place>,
    depth: usize,
}

impl File<'_> {
    fn place(&self, line: u32) -> Place {
        match self.included {
            Some(place) => place.within(&self.name.display().to_string(), line),
            None => Place::at(line),
        }
    }
}

impl<'r> Reader<'r> {
    pub fn new(disk: &'r dyn Disk, folder: &'r Path) -> Reader<'r> {
        Reader { disk, folder, directives: 0, files: 0, bytes: 0 }
    }

    pub fn read(&mut self, file: &Path, bytes: &[u8], draft: &mut Draft) -> Vec<Directive> {
        self.file(&File { name: file, included: None, depth: 0 }, bytes, draft)
    }

    fn file(&mut self, file: &File, bytes: &[u8], draft: &mut Draft) -> Vec<Directive> {
        let text = draft.text(bytes, &|line| file.place(line));
        let tokens = tokens(&text);
        let mut tokens = tokens.into_iter();
        let mut open: Vec<(Directive, Vec<Directive>)> = Vec::new();
        let mut here = Vec::new();
        let mut words: Vec<(String, u32)> = Vec::new();
        let mut last = 1;
        for (token, line) in tokens.by_ref() {
            last = line;
            match token {
                Token::Word(word) => words.push((word, line)),
                Token::Open if open.len() + file.depth >= MAX_DEPTH => {
                    draft.error(
                        &file.place(line),
                        "blocks are more than 16 deep",
                        "write fewer in one another",
                    );
                    return here;
                }
                Token::End | Token::Open if words.is_empty() => {
                    draft.error(&file.place(line), "a directive has no name", "remove this sign");
                    if token == Token::Open {
                        words.push((String::new(), line));
                        open_block(&mut open, &mut here, &mut words, file);
                    }
                }
                Token::End => {
                    let directive = directive(&mut words, file);
                    self.add(directive, file, &mut here, draft);
                }
                Token::Open => open_block(&mut open, &mut here, &mut words, file),
                Token::Close => {
                    if !words.is_empty() {
                        let what = "a directive has no \";\" at its end";
                        draft.error(&file.place(line), what, "add one");
                        words.clear();
                    }
                    match open.pop() {
                        Some((mut directive, before)) => {
                            directive.block = Some(std::mem::replace(&mut here, before));
                            self.add(directive, file, &mut here, draft);
                        }
                        None => draft.error(&file.place(line), "this \"}\" closes nothing", "remove it"),
                    }
                }
            }
        }
        if !open.is_empty() || !words.is_empty() {
            let what = "the file ends within a directive";
            draft.error(&file.place(last), what, "add what is missing at its end");
        }
        while let Some((mut directive, before)) = open.pop() {
            directive.block = Some(std::mem::replace(&mut here, before));
            here.push(directive);
        }
        here
    }

    fn add(&mut self, directive: Directive, file: &File, here: &mut Vec<Directive>, draft: &mut Draft) {
        self.directives += 1;
        if self.directives == MAX_DIRECTIVES {
            draft.error(
                &directive.place,
                "there are more than 20000 directives",
                "make several configurations of it",
            );
        }
        if self.directives >= MAX_DIRECTIVES {
            return;
        }
        match directive.name.as_str() {
            "include" if directive.block.is_none() => {
                here.extend(self.include(&directive, file.depth, draft))
            }
            _ => here.push(directive),
        }
    }

    fn include(&mut self, directive: &Directive, depth: usize, draft: &mut Draft) -> Vec<Directive> {
        let place = &directive.place;
        let pattern = self.folder.join(directive.argument(0));
        if BUILT_IN.iter().any(|name| pattern.ends_with(name)) {
            draft.note(
                place,
                "mime.types is not read: media types are built in",
                "see types for further ones",
            );
            return Vec::new();
        }
        if depth + 1 >= MAX_DEPTH {
            draft.error(place, "files include one another more than 16 deep", "remove an include");
            return Vec::new();
        }
        let found = draft.files(self.disk, &pattern, place);
        if found.is_empty() && !is_glob(directive.argument(0)) {
            draft.error(place, format!("{} is missing", directive.text()), "write the path of a file");
        }
        let mut all = Vec::new();
        for path in found {
            all.extend(self.included(&path, place, depth, draft));
        }
        all
    }

    fn included(&mut self, path: &PathBuf, place: &Place, depth: usize, draft: &mut Draft) -> Vec<Directive> {
        self.files += 1;
        if self.files > MAX_FILES {
            draft.error(place, "there are more than 500 included files", "make several configurations of it");
            return Vec::new();
        }
        match self.disk.read(path) {
            Ok(bytes) if self.bytes + bytes.len() > MAX_BYTES => {
                draft.error(place, "included files have more than 8 MiB", "include less");
                Vec::new()
            }
            Ok(bytes) => {
                self.bytes += bytes.len();
                let file = File { name: path, included: Some(place), depth: depth + 1 };
                self.file(&file, &bytes, draft)
            }
            Err(error) => {
                let what = format!("{} cannot be read: {error}", path.display());
                draft.error(place, what, "check its permissions");
                Vec::new()
            }
        }
    }
}

fn directive(words: &mut Vec<(String, u32)>, file: &File) -> Directive {
    let line = words.first().map_or(1, |(_, line)| *line);
    let mut words = words.drain(..).map(|(word, _)| word);
    let name = words.next().unwrap_or_default();
    let mut arguments: Vec<String> = words.collect();
    // `location ~/a` is `location ~ /a`.
    if let [text] = arguments.as_slice()
        && name == "location"
        && let Some((kind, rest)) =
            ["^~", "~*", "~", "="].iter().find_map(|kind| Some((*kind, text.strip_prefix(kind)?)))
        && !rest.is_empty()
    {
        arguments = vec![kind.to_owned(), rest.to_owned()];
    }
    Directive { name, arguments, block: None, place: file.place(line) }
}

fn open_block(
    open: &mut Vec<(Directive, Vec<Directive>)>,
    here: &mut Vec<Directive>,
    words: &mut Vec<(String, u32)>,
    file: &File,
) {
    open.push((directive(words, file), std::mem::take(here)));
}

fn tokens(text: &str) -> Vec<(Token, u32)> {
    let mut all = Vec::new();
    let mut chars = text.chars().peekable();
    let mut line = 1;
    while let Some(c) = chars.next() {
        match c {
            '\n' => line += 1,
            c if c.is_whitespace() => {}
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            ';' => all.push((Token::End, line)),
            '{' => all.push((Token::Open, line)),
            '}' => all.push((Token::Close, line)),
            '"' | '\'' => {
                let begun = line;
                let mut word = String::new();
                while let Some(inner) = chars.next() {
                    line += u32::from(inner == '\n');
                    match inner {
                        inner if inner == c => break,
                        '\\' => match chars.next() {
                            Some(next) if next == c || next == '\\' => word.push(next),
                            Some(next) => word.extend(['\\', next]),
                            None => {}
                        },
                        inner => word.push(inner),
                    }
                }
                all.push((Token::Word(word), begun));
            }
            c => {
                let mut word = String::from(c);
                if c == '\\' {
                    word.extend(chars.next());
                }
                while let Some(next) =
                    chars.next_if(|c| !c.is_whitespace() && *c != ';' && (*c != '{' || word.ends_with('$')))
                {
                    word.push(next);
                    if next == '\\' {
                        word.extend(chars.next_if(|c| *c != '\n'));
                    }
                }
                all.push((Token::Word(word), line));
            }
        }
    }
    all
}
