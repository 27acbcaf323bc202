//! Bytes → nodes, in any pieces: cutting the same bytes differently never changes the nodes, apart from the cuts in
//! texts.

use taipan_http::path_text;

use crate::directive::{Directive, MAX_DIRECTIVE};
use crate::esi;
use crate::mistake::Mistake;

const SSI: &[u8] = b"<!--#";
const ESI_COMMENT: &[u8] = b"<!--esi";
const COMMENT_END: &[u8] = b"-->";

/// The languages of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Languages {
    /// Server-side includes.
    pub ssi: bool,
    /// Edge Side Includes.
    pub esi: bool,
}

#[derive(Debug, Clone)]
pub enum Node {
    /// Never empty.
    Text(Vec<u8>),
    Directive(Directive),
}

pub struct Scanner {
    languages: Languages,
    /// The start of markup whose end is not there yet. At most the bytes of a directive.
    held: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// Behind `<!--esi`, whose end is markup.
    EsiComment,
}

/// What begins at a byte.
enum Found {
    Text,
    /// The bytes behind it decide.
    Incomplete,
    /// Of so many bytes. `None`: nothing stands in its place.
    Markup(Option<Directive>, usize),
    /// The start of a comment whose content counts, or its end.
    Comment(State, usize),
}

/// Whether more bytes may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Reached,
}

impl Scanner {
    pub fn new(languages: Languages) -> Scanner {
        Scanner { languages, held: Vec::new(), state: State::Text }
    }

    pub fn push(&mut self, bytes: Vec<u8>, nodes: &mut Vec<Node>) {
        let bytes = match self.held.is_empty() {
            true => bytes,
            false => {
                let mut held = std::mem::take(&mut self.held);
                held.extend_from_slice(&bytes);
                held
            }
        };
        self.scan(bytes, End::Open, nodes);
    }

    pub fn finish(&mut self, nodes: &mut Vec<Node>) {
        let held = std::mem::take(&mut self.held);
        self.scan(held, End::Reached, nodes);
    }

    fn scan(&mut self, bytes: Vec<u8>, end: End, nodes: &mut Vec<Node>) {
        let (mut from, mut at) = (0, 0);
        while let Some(next) = self.candidate(&bytes[at..]) {
            at += next;
            let found = self.markup(&bytes[at..], end);
            if let Found::Text = found {
                at += 1;
                continue;
            }
            push_text(nodes, &bytes[from..at]);
            match found {
                Found::Text => {}
                Found::Incomplete => {
                    self.held = bytes[at..].to_vec();
                    return;
                }
                Found::Markup(directive, length) => {
                    nodes.extend(directive.map(Node::Directive));
                    at += length;
                }
                Found::Comment(state, length) => {
                    self.state = state;
                    at += length;
                }
            }
            from = at;
        }
        match from {
            // Without a copy.
            0 if !bytes.is_empty() => nodes.push(Node::Text(bytes)),
            from => push_text(nodes, &bytes[from..]),
        }
    }

    /// The position of the next byte that may begin markup.
    fn candidate(&self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| *byte == b'<' || (*byte == b'-' && self.state == State::EsiComment))
    }

    fn markup(&self, bytes: &[u8], end: End) -> Found {
        let Languages { ssi, esi } = self.languages;
        if self.state == State::EsiComment && bytes.starts_with(COMMENT_END) {
            return Found::Comment(State::Text, COMMENT_END.len());
        }
        if ssi && bytes.starts_with(SSI) {
            return directive(bytes, end);
        }
        if esi && self.state == State::Text && bytes.starts_with(ESI_COMMENT) {
            return match bytes.get(ESI_COMMENT.len()) {
                Some(byte) if byte.is_ascii_whitespace() => {
                    Found::Comment(State::EsiComment, ESI_COMMENT.len())
                }
                None if end == End::Open => Found::Incomplete,
                _ => Found::Text,
            };
        }
        if esi && (bytes.starts_with(b"<esi:") || bytes.starts_with(b"</esi:")) {
            return element(bytes, end);
        }
        let begins = |markup: &[u8]| markup.starts_with(bytes);
        let may_follow = (ssi && begins(SSI))
            || (esi && (begins(ESI_COMMENT) || begins(b"<esi:") || begins(b"</esi:")))
            || (self.state == State::EsiComment && begins(COMMENT_END));
        if may_follow && end == End::Open { Found::Incomplete } else { Found::Text }
    }
}

fn push_text(nodes: &mut Vec<Node>, text: &[u8]) {
    if !text.is_empty() {
        nodes.push(Node::Text(text.to_vec()));
    }
}

/// `bytes` begins with `<!--#`.
fn directive(bytes: &[u8], end: End) -> Found {
    let window = &bytes[..bytes.len().min(MAX_DIRECTIVE)];
    let is_full = window.len() == MAX_DIRECTIVE;
    if let Some(length) = markup_end(window, SSI.len(), COMMENT_END) {
        let inner = path_text::of_bytes(&window[SSI.len()..length - COMMENT_END.len()]);
        return Found::Markup(Some(Directive::parse(&inner)), length);
    }
    if !is_full && end == End::Open {
        return Found::Incomplete;
    }
    // Perhaps a quote is missing: then the page goes on behind the first end that is there.
    let plain_end = window[SSI.len()..].windows(COMMENT_END.len()).position(|part| part == COMMENT_END);
    let mistake = match plain_end {
        None if is_full => Mistake::TooLong(MAX_DIRECTIVE),
        _ => Mistake::Unterminated,
    };
    let length = plain_end.map_or(window.len(), |at| SSI.len() + at + COMMENT_END.len());
    let name = String::from_utf8_lossy(&window[SSI.len()..length]);
    // What a test without an end would have shown is not shown.
    let directive = match name.trim_start().get(..2).is_some_and(|name| name.eq_ignore_ascii_case("if")) {
        true => Directive::If(Err(mistake)),
        false => Directive::Broken(mistake),
    };
    Found::Markup(Some(directive), length)
}

/// `bytes` begins with `<esi:` or `</esi:`. A tag has no other `<` (XML 1.0 §3.1), so no byte is searched for two tags.
fn element(bytes: &[u8], end: End) -> Found {
    let window = &bytes[..bytes.len().min(MAX_DIRECTIVE)];
    let other = window[1..].iter().position(|byte| *byte == b'<').map(|at| at + 1);
    let is_full = other.is_some() || window.len() == MAX_DIRECTIVE;
    match markup_end(&window[..other.unwrap_or(window.len())], 1, b">") {
        Some(length) => match std::str::from_utf8(&window[..length]).ok().and_then(esi::parse) {
            Some(directive) => Found::Markup(directive, length),
            None => Found::Text,
        },
        None if is_full || end == End::Reached => Found::Text,
        None => Found::Incomplete,
    }
}

/// The bytes up to the end of the first `mark` outside of quotes.
fn markup_end(bytes: &[u8], from: usize, mark: &[u8]) -> Option<usize> {
    let mut quote = None;
    let mut at = from;
    // Quotes count only as values: `don't` is a word.
    let mut is_value = false;
    while at < bytes.len() {
        let byte = bytes[at];
        match quote {
            Some(_) if byte == b'\\' => at += 1,
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None if bytes[at..].starts_with(mark) => return Some(at + mark.len()),
            None if is_value && matches!(byte, b'"' | b'\'' | b'`') => quote = Some(byte),
            None => {}
        }
        if quote.is_none() && !byte.is_ascii_whitespace() {
            is_value = byte == b'=';
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SSI_ONLY: Languages = Languages { ssi: true, esi: false };
    const ESI_ONLY: Languages = Languages { ssi: false, esi: true };
    const BOTH: Languages = Languages { ssi: true, esi: true };

    /// Texts as they are, and directives in brackets, by their variants.
    fn shown(languages: Languages, pieces: &[&[u8]]) -> String {
        let (mut scanner, mut nodes) = (Scanner::new(languages), Vec::new());
        pieces.iter().for_each(|piece| scanner.push(piece.to_vec(), &mut nodes));
        scanner.finish(&mut nodes);
        let show = |node: &Node| match node {
            Node::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Node::Directive(directive) => {
                let name = format!("{directive:?}");
                format!("[{}]", name.split(['(', ' ']).next().unwrap_or_default())
            }
        };
        nodes.iter().map(show).collect()
    }

    #[test]
    fn finds_markup_wherever_it_is_cut() {
        let check = |languages: Languages, text: &str, expected: &str| {
            assert_eq!(shown(languages, &[text.as_bytes()]), expected, "{text}");
            for at in 0..text.len() {
                let (one, other) = text.as_bytes().split_at(at);
                assert_eq!(shown(languages, &[one, other]), expected, "{text} cut at {at}");
            }
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(shown(languages, &bytes), expected, "{text} in single bytes");
        };
        check(SSI_ONLY, "", "");
        check(SSI_ONLY, "plain < text <!-- comment --> <!-", "plain < text <!-- comment --> <!-");
        check(SSI_ONLY, "a<!--#echo var=\"A\" -->b", "a[Echo]b");
        check(SSI_ONLY, "<!--#echo var=A--><!--#printenv-->", "[Echo][PrintVariables]");
        check(SSI_ONLY, "<!--# ECHO var='A'-->", "[Echo]");
        check(SSI_ONLY, "<!--#set var=\"a\" value=\"-->\" -->x", "[Set]x");
        check(SSI_ONLY, "<!--#set var=\"a\" value=\"\\\"-->\" -->x", "[Set]x");
        check(SSI_ONLY, "<<!--#else--><", "<[Else]<");
        check(SSI_ONLY, "a<!--#echo var=\"A\"", "a[Broken]");
        check(SSI_ONLY, "a<!--#echo var=\"A -->b <!--#else-->", "a[Broken]b [Else]");
        check(SSI_ONLY, "a<!--#if expr=\"A -->b<!--#endif-->", "a[If]b[EndIf]");
        check(SSI_ONLY, "<!--#nothing don't --> it's", "[Broken] it's");
        check(SSI_ONLY, "<esi:include src=\"/a\"/><!--esi a-->", "<esi:include src=\"/a\"/><!--esi a-->");
        check(ESI_ONLY, "a<esi:include src=\"/a>b\"/>c", "a[Fragment]c");
        check(ESI_ONLY, "<!--#echo var=\"A\"-->", "<!--#echo var=\"A\"-->");
        check(ESI_ONLY, "<!--esi <p>a</p><esi:include src=\"/a\"/> -->b-->", " <p>a</p>[Fragment] b-->");
        check(ESI_ONLY, "<!--esix--><!--esi", "<!--esix--><!--esi");
        check(ESI_ONLY, "a <esi:remove>b</esi:remove>c", "a [Remove]b[EndRemove]c");
        check(ESI_ONLY, "<esi:comment text=\"a\"/>b<esi:vars>c</esi:vars>", "b<esi:vars>c</esi:vars>");
        check(ESI_ONLY, "<esi:include src=\"/a\"", "<esi:include src=\"/a\"");
        check(ESI_ONLY, "<esi:include a=\"<esi:include src='/a'/>", "<esi:include a=\"[Fragment]");
        check(BOTH, "<!--esi <!--#else--><esi:include src=/a /> --> -->", " [Else][Fragment]  -->");
        check(BOTH, "<!--esi a-", " a-");
    }

    #[test]
    fn tags_without_an_end_are_searched_once() {
        let tags = "<esi:include a=\"<esi:".repeat(100_000);
        assert_eq!(shown(ESI_ONLY, &[tags.as_bytes()]), tags);
    }

    #[test]
    fn a_directive_has_a_longest_length() {
        let long = format!("<!--#echo var=\"{}\" -->b", "A".repeat(MAX_DIRECTIVE));
        let (one, other) = long.as_bytes().split_at(5000);
        let expected = shown(SSI_ONLY, &[long.as_bytes()]);
        assert!(expected.starts_with("[Broken]AAAA") && expected.ends_with("\" -->b"), "{expected}");
        assert_eq!(shown(SSI_ONLY, &[one, other]), expected);
        let fits = format!("<!--#echo var=\"{}\" -->b", "A".repeat(MAX_DIRECTIVE - 20));
        assert_eq!(shown(SSI_ONLY, &[fits.as_bytes()]), "[Echo]b");
        let element = format!("<esi:include src=\"{}\"/>", "A".repeat(MAX_DIRECTIVE));
        assert_eq!(shown(ESI_ONLY, &[element.as_bytes()]), element);
    }
}
