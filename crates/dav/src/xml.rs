//! A reader of small XML documents with namespaces (XML 1.0, Namespaces in XML 1.0), and a writer of what it has read.
//!
//! Knows nothing of WebDAV. It is bounded in depth, in the number of nodes, and in what each name brings with it. It
//! refuses document types, and with them every entity that a document could define: a request needs none, and they are
//! how small documents become large.

use std::borrow::Cow;
use std::fmt;

/// Elements that may be open at the same time.
pub const MAX_DEPTH: usize = 32;
/// Elements, attributes and texts of one document.
pub const MAX_NODES: usize = 4096;
/// Bytes of a namespace. Each name has its own copy, so that a long one would make a small document large.
const MAX_NAMESPACE: usize = 256;
/// Declarations of namespaces that count at the same place.
const MAX_DECLARATIONS: usize = 64;
/// Attributes and declarations of one element. Each is compared with the others.
const MAX_ATTRIBUTES: usize = 64;

/// The namespace of the prefix `xml`.
const XML: &str = "http://www.w3.org/XML/1998/namespace";
const XMLNS: &str = "http://www.w3.org/2000/xmlns/";

/// A name with its namespace, which may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    pub namespace: String,
    pub local: String,
}

impl Name {
    pub fn new(namespace: &str, local: &str) -> Name {
        Name { namespace: namespace.to_owned(), local: local.to_owned() }
    }

    pub fn is(&self, namespace: &str, local: &str) -> bool {
        self.namespace == namespace && self.local == local
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    pub name: Name,
    /// Of the name as it was written. It means nothing, but clients like to see it again.
    pub prefix: String,
    pub attributes: Vec<Attribute>,
    pub children: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    pub name: Name,
    pub prefix: String,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Element(Element),
    Text(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XmlError {
    /// Neither UTF-8 nor UTF-16 with a byte order mark, or not what its declaration names.
    Encoding,
    Malformed,
    /// It has a document type.
    DocumentType,
    /// It is above one of the limits of this module.
    TooLarge,
}

impl fmt::Display for XmlError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            XmlError::Encoding => "the document is neither in UTF-8 nor in UTF-16 with a byte order mark",
            XmlError::Malformed => "the document is not well-formed",
            XmlError::DocumentType => "the document has a document type",
            XmlError::TooLarge => {
                "the document has too many elements, attributes or namespaces, or too long or too deep ones"
            }
        })
    }
}

impl Element {
    /// The elements within it.
    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        self.children.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// The first element of this name within it.
    pub fn first(&self, namespace: &str, local: &str) -> Option<&Element> {
        self.elements().find(|element| element.name.is(namespace, local))
    }

    /// The language that `xml:lang` sets, if it does.
    pub fn language(&self) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name.is(XML, "lang"))
    }

    /// With the declarations of all namespaces that it uses, so that it can stand anywhere.
    pub fn write(&self, out: &mut String) {
        self.write_in(&mut Vec::new(), out);
    }

    /// `scope`: the prefixes that are declared around it, and their namespaces.
    fn write_in(&self, scope: &mut Vec<(String, String)>, out: &mut String) {
        let outside = scope.len();
        let mut declarations = String::new();
        declare(&self.prefix, &self.name.namespace, scope, &mut declarations);
        for attribute in self.attributes.iter().filter(|own| !own.prefix.is_empty()) {
            declare(&attribute.prefix, &attribute.name.namespace, scope, &mut declarations);
        }
        out.push('<');
        write_name(&self.prefix, &self.name.local, out);
        out.push_str(&declarations);
        for Attribute { name, prefix, value } in &self.attributes {
            out.push(' ');
            write_name(prefix, &name.local, out);
            out.push_str("=\"");
            escape(value, out);
            out.push('"');
        }
        if self.children.is_empty() {
            out.push_str("/>");
        } else {
            out.push('>');
            for node in &self.children {
                match node {
                    Node::Element(element) => element.write_in(scope, out),
                    Node::Text(text) => escape(text, out),
                }
            }
            out.push_str("</");
            write_name(&self.prefix, &self.name.local, out);
            out.push('>');
        }
        scope.truncate(outside);
    }
}

fn write_name(prefix: &str, local: &str, out: &mut String) {
    if !prefix.is_empty() {
        out.push_str(prefix);
        out.push(':');
    }
    out.push_str(local);
}

/// Adds a declaration, unless the prefix means the namespace already.
fn declare(prefix: &str, namespace: &str, scope: &mut Vec<(String, String)>, out: &mut String) {
    if prefix == "xml" {
        return;
    }
    let current = scope.iter().rev().find(|(own, _)| own == prefix).map(|(_, namespace)| namespace.as_str());
    if current.unwrap_or_default() == namespace {
        return;
    }
    scope.push((prefix.to_owned(), namespace.to_owned()));
    out.push_str(if prefix.is_empty() { " xmlns" } else { " xmlns:" });
    out.push_str(prefix);
    out.push_str("=\"");
    escape(namespace, out);
    out.push('"');
}

/// Writes text so that it is the same text in an element and in an attribute.
pub fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // A reader would make spaces or line feeds of them.
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            // A name on a disk may have what no document can.
            other if !is_character(other) => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
}

/// Reads a document, which has one element with others within it.
pub fn parse(document: &[u8]) -> Result<Element, XmlError> {
    let (text, encodings) = text(document)?;
    if !text.chars().all(is_character) {
        return Err(XmlError::Malformed);
    }
    let mut reader = Reader { rest: &text, open: Vec::new(), scope: Vec::new(), nodes: 0 };
    reader.declaration(encodings)?;
    reader.document()
}

/// The text of a document, and the encodings that its declaration may name. UTF-16 begins with a byte order mark
/// (XML 1.0 §4.3.3).
fn text(document: &[u8]) -> Result<(Cow<'_, str>, &'static [&'static str]), XmlError> {
    let of_utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| match bytes.as_chunks() {
        (units, []) => {
            char::decode_utf16(units.iter().copied().map(unit)).collect::<Result<String, _>>().ok()
        }
        _ => None,
    };
    let text = match document {
        [0xfe, 0xff, rest @ ..] => of_utf16(rest, u16::from_be_bytes),
        [0xff, 0xfe, rest @ ..] => of_utf16(rest, u16::from_le_bytes),
        _ => {
            let document = document.strip_prefix("\u{feff}".as_bytes()).unwrap_or(document);
            let text = std::str::from_utf8(document).map_err(|_| XmlError::Encoding)?;
            return Ok((text.into(), &["utf-8", "utf8", "us-ascii", "ascii"]));
        }
    };
    Ok((text.ok_or(XmlError::Encoding)?.into(), &["utf-16", "utf16"]))
}

/// An element whose end has not been read.
struct Open<'a> {
    element: Element,
    written: &'a str,
    /// The declarations around it.
    outside: usize,
}

struct Reader<'a> {
    rest: &'a str,
    open: Vec<Open<'a>>,
    /// The declared prefixes and their namespaces, the innermost last.
    scope: Vec<(&'a str, String)>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn declaration(&mut self, encodings: &[&str]) -> Result<(), XmlError> {
        let Some(rest) =
            self.rest.strip_prefix("<?xml").filter(|rest| rest.starts_with([' ', '\t', '\r', '\n']))
        else {
            return Ok(());
        };
        let (declaration, rest) = rest.split_once("?>").ok_or(XmlError::Malformed)?;
        self.rest = rest;
        let Some((_, encoding)) = declaration.split_once("encoding") else { return Ok(()) };
        let name = encoding.trim_start().strip_prefix('=').ok_or(XmlError::Malformed)?.trim_start();
        let name = name.strip_prefix(['"', '\'']).ok_or(XmlError::Malformed)?;
        let name = name.split(['"', '\'']).next().unwrap_or_default();
        let is_known = encodings.iter().any(|own| name.eq_ignore_ascii_case(own));
        if is_known { Ok(()) } else { Err(XmlError::Encoding) }
    }

    fn document(&mut self) -> Result<Element, XmlError> {
        // Each turn takes at least one character.
        loop {
            match self.next()? {
                Some(root) => {
                    self.epilog()?;
                    return Ok(root);
                }
                None if self.rest.is_empty() => return Err(XmlError::Malformed),
                None => {}
            }
        }
    }

    /// Reads the next part of the document: its only element, when its end has been read.
    fn next(&mut self) -> Result<Option<Element>, XmlError> {
        let Some(at) = self.rest.find('<') else {
            let text = std::mem::take(&mut self.rest);
            return self.text(text).map(|()| None);
        };
        if at > 0 {
            let (text, rest) = self.rest.split_at(at);
            self.rest = rest;
            self.text(text)?;
        }
        if let Some(rest) = self.rest.strip_prefix("<!--") {
            return self.skip(rest, "-->").map(|()| None);
        }
        if let Some(rest) = self.rest.strip_prefix("<![CDATA[") {
            let (text, rest) = rest.split_once("]]>").ok_or(XmlError::Malformed)?;
            self.rest = rest;
            return self.literal(text.to_owned()).map(|()| None);
        }
        if self.rest.starts_with("<!") {
            return Err(XmlError::DocumentType);
        }
        if let Some(rest) = self.rest.strip_prefix("<?") {
            return self.skip(rest, "?>").map(|()| None);
        }
        match self.rest.strip_prefix("</") {
            Some(rest) => self.end(rest).map(Some).map(|ended| ended.and_then(|ended| self.add(ended))),
            None => self.start(&self.rest[1..]),
        }
    }

    /// Behind the only element, there are comments and white space alone.
    fn epilog(&mut self) -> Result<(), XmlError> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
            if self.rest.is_empty() {
                return Ok(());
            }
            let (rest, end) = match (self.rest.strip_prefix("<!--"), self.rest.strip_prefix("<?")) {
                (Some(rest), _) => (rest, "-->"),
                (None, Some(rest)) => (rest, "?>"),
                (None, None) => return Err(XmlError::Malformed),
            };
            self.skip(rest, end)?;
        }
    }

    fn skip(&mut self, rest: &'a str, end: &str) -> Result<(), XmlError> {
        let (_, rest) = rest.split_once(end).ok_or(XmlError::Malformed)?;
        self.rest = rest;
        Ok(())
    }

    fn text(&mut self, text: &'a str) -> Result<(), XmlError> {
        if self.open.is_empty() {
            let is_space = text.chars().all(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            return if is_space { Ok(()) } else { Err(XmlError::Malformed) };
        }
        self.literal(decoded(text)?)
    }

    fn literal(&mut self, text: String) -> Result<(), XmlError> {
        let Some(open) = self.open.last_mut() else { return Err(XmlError::Malformed) };
        if text.is_empty() {
            return Ok(());
        }
        match open.element.children.last_mut() {
            Some(Node::Text(before)) => before.push_str(&text),
            _ => {
                open.element.children.push(Node::Text(text));
                self.count()?;
            }
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), XmlError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES { Err(XmlError::TooLarge) } else { Ok(()) }
    }

    /// Adds an element to the one around it. Returns it if there is none.
    fn add(&mut self, element: Element) -> Option<Element> {
        match self.open.last_mut() {
            Some(open) => {
                open.element.children.push(Node::Element(element));
                None
            }
            None => Some(element),
        }
    }

    fn end(&mut self, rest: &'a str) -> Result<Element, XmlError> {
        let (name, rest) = rest.split_once('>').ok_or(XmlError::Malformed)?;
        let Open { element, written, outside } = self.open.pop().ok_or(XmlError::Malformed)?;
        if name.trim_end_matches([' ', '\t', '\r', '\n']) != written {
            return Err(XmlError::Malformed);
        }
        self.rest = rest;
        self.scope.truncate(outside);
        Ok(element)
    }

    /// Returns an element that is empty and the only one.
    fn start(&mut self, rest: &'a str) -> Result<Option<Element>, XmlError> {
        self.count()?;
        if self.open.len() >= MAX_DEPTH {
            return Err(XmlError::TooLarge);
        }
        let (written, mut rest) = name_of(rest)?;
        let outside = self.scope.len();
        let mut given: Vec<(&'a str, String)> = Vec::new();
        let is_empty = loop {
            let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
            if let Some(behind) = trimmed.strip_prefix("/>") {
                rest = behind;
                break true;
            }
            if let Some(behind) = trimmed.strip_prefix('>') {
                rest = behind;
                break false;
            }
            if trimmed.len() == rest.len() {
                return Err(XmlError::Malformed);
            }
            self.count()?;
            if given.len() >= MAX_ATTRIBUTES {
                return Err(XmlError::TooLarge);
            }
            let (name, behind) = name_of(trimmed)?;
            let behind = behind.trim_start_matches([' ', '\t', '\r', '\n']);
            let behind = behind.strip_prefix('=').ok_or(XmlError::Malformed)?;
            let behind = behind.trim_start_matches([' ', '\t', '\r', '\n']);
            let quote =
                behind.chars().next().filter(|c| matches!(c, '"' | '\'')).ok_or(XmlError::Malformed)?;
            let (value, behind) = behind[1..].split_once(quote).ok_or(XmlError::Malformed)?;
            if value.contains('<') || given.iter().any(|(other, _)| *other == name) {
                return Err(XmlError::Malformed);
            }
            // Of the white space in a value, only references stay what they are (XML 1.0 §3.3.3).
            given.push((name, decoded(&value.replace(['\t', '\r', '\n'], " "))?));
            rest = behind;
        };
        self.rest = rest;
        self.declare(&given)?;
        let element = self.element(written, given)?;
        if is_empty {
            self.scope.truncate(outside);
            return Ok(self.add(element));
        }
        self.open.push(Open { element, written, outside });
        Ok(None)
    }

    /// Adds the namespaces that the attributes of an element declare.
    fn declare(&mut self, given: &[(&'a str, String)]) -> Result<(), XmlError> {
        for (name, value) in given {
            let prefix = match name.strip_prefix("xmlns:") {
                Some(prefix) => prefix,
                None if *name == "xmlns" => "",
                None => continue,
            };
            // A prefix cannot be undeclared, and those of XML itself cannot be changed (Namespaces §3, §5).
            let is_reserved = prefix == "xmlns" || value == XMLNS || (prefix == "xml") != (value == XML);
            if is_reserved || (!prefix.is_empty() && value.is_empty()) {
                return Err(XmlError::Malformed);
            }
            if value.len() > MAX_NAMESPACE || self.scope.len() >= MAX_DECLARATIONS {
                return Err(XmlError::TooLarge);
            }
            self.scope.push((prefix, value.clone()));
        }
        Ok(())
    }

    fn element(&self, written: &str, given: Vec<(&str, String)>) -> Result<Element, XmlError> {
        let (prefix, local) = parts(written)?;
        let name = Name::new(self.namespace(prefix)?, local);
        let mut attributes: Vec<Attribute> = Vec::new();
        for (written, value) in given {
            if written == "xmlns" || written.starts_with("xmlns:") {
                continue;
            }
            let (prefix, local) = parts(written)?;
            // Without a prefix, an attribute is in no namespace.
            let namespace = if prefix.is_empty() { "" } else { self.namespace(prefix)? };
            let name = Name::new(namespace, local);
            if attributes.iter().any(|other| other.name == name) {
                return Err(XmlError::Malformed);
            }
            attributes.push(Attribute { name, prefix: prefix.to_owned(), value });
        }
        Ok(Element { name, prefix: prefix.to_owned(), attributes, children: Vec::new() })
    }

    fn namespace(&self, prefix: &str) -> Result<&str, XmlError> {
        if prefix == "xml" {
            return Ok(XML);
        }
        match self.scope.iter().rev().find(|(own, _)| *own == prefix) {
            Some((_, namespace)) => Ok(namespace),
            None if prefix.is_empty() => Ok(""),
            None => Err(XmlError::Malformed),
        }
    }
}

/// The name at the start of `text`, and what follows it.
fn name_of(text: &str) -> Result<(&str, &str), XmlError> {
    let end = text.find(|c: char| !is_name_character(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let starts_well = name.starts_with(|c: char| !matches!(c, '-' | '.' | '0'..='9' | '\u{b7}'));
    if starts_well { Ok((name, rest)) } else { Err(XmlError::Malformed) }
}

/// The prefix of a name, which may be empty, and the rest.
fn parts(written: &str) -> Result<(&str, &str), XmlError> {
    let (prefix, local) = match written.split_once(':') {
        None => ("", written),
        Some((prefix, local)) if !prefix.is_empty() => (prefix, local),
        Some(_) => return Err(XmlError::Malformed),
    };
    let is_local = !local.contains(':') && name_of(local).is_ok();
    if is_local { Ok((prefix, local)) } else { Err(XmlError::Malformed) }
}

/// XML 1.0 §2.3, `NameChar`, but for a few ranges of combining characters that no name has.
fn is_name_character(c: char) -> bool {
    matches!(c,
        ':' | '_' | '-' | '.' | '0'..='9' | 'A'..='Z' | 'a'..='z' | '\u{b7}' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}'
        | '\u{f8}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}' | '\u{203f}'..='\u{2040}'
        | '\u{2070}'..='\u{218f}' | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}'
        | '\u{fdf0}'..='\u{fffd}' | '\u{10000}'..='\u{effff}')
}

/// XML 1.0 §2.2, `Char`.
fn is_character(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

/// The text that references and line ends stand for.
fn decoded(text: &str) -> Result<String, XmlError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['&', '\r']) {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        if rest.as_bytes()[at] == b'\r' {
            // A line ends in one line feed (XML 1.0 §2.11).
            out.push('\n');
            rest = behind.strip_prefix('\n').unwrap_or(behind);
            continue;
        }
        let (name, behind) = behind.split_once(';').ok_or(XmlError::Malformed)?;
        out.push(reference(name)?);
        rest = behind;
    }
    out.push_str(rest);
    if out.contains("]]>") && text.contains("]]>") { Err(XmlError::Malformed) } else { Ok(out) }
}

fn reference(name: &str) -> Result<char, XmlError> {
    let number = match name.strip_prefix('#') {
        None => {
            return Ok(match name {
                "lt" => '<',
                "gt" => '>',
                "amp" => '&',
                "quot" => '"',
                "apos" => '\'',
                _ => return Err(XmlError::Malformed),
            });
        }
        Some(number) => number,
    };
    let (digits, radix) = match number.strip_prefix('x') {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    let number = is_number.then(|| u32::from_str_radix(digits, radix).ok()).flatten();
    number.and_then(char::from_u32).filter(|c| is_character(*c)).ok_or(XmlError::Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(document: &str, expected: Result<&str, XmlError>) {
        let written = parse(document.as_bytes()).map(|element| {
            let mut out = String::new();
            element.write(&mut out);
            out
        });
        assert_eq!(written.as_deref().map_err(|error| *error), expected, "{document}");
    }

    #[test]
    fn reads_and_writes_documents() {
        use XmlError::{DocumentType, Encoding, Malformed};
        for (document, expected) in [
            ("<a/>", Ok("<a/>")),
            ("<?xml version=\"1.0\" encoding='UTF-8'?>\r\n<a></a>\n<!-- end --><?pi?>", Ok("<a/>")),
            ("<a xmlns='DAV:'><b/></a>", Ok("<a xmlns=\"DAV:\"><b/></a>")),
            ("<D:a xmlns:D=\"DAV:\"><D:b>x</D:b></D:a>", Ok("<D:a xmlns:D=\"DAV:\"><D:b>x</D:b></D:a>")),
            ("<a xmlns='u'><b xmlns=''>x</b></a>", Ok("<a xmlns=\"u\"><b xmlns=\"\">x</b></a>")),
            ("<a b='1' xml:lang=\"de\"/>", Ok("<a b=\"1\" xml:lang=\"de\"/>")),
            ("<a p:b='1' xmlns:p='u' xmlns:unused='v'/>", Ok("<a xmlns:p=\"u\" p:b=\"1\"/>")),
            ("<a>&lt;&#65;&#x42;<![CDATA[<&>]]>\r\n</a>", Ok("<a>&lt;AB&lt;&amp;&gt;&#10;</a>")),
            ("<a b='x\ny&#10;'/>", Ok("<a b=\"x y&#10;\"/>")),
            ("", Err(Malformed)),
            ("text", Err(Malformed)),
            ("<a>", Err(Malformed)),
            ("<a></b>", Err(Malformed)),
            ("<a/><b/>", Err(Malformed)),
            ("<a/>text", Err(Malformed)),
            ("<a b='1' b='2'/>", Err(Malformed)),
            ("<a p:b='1' q:b='2' xmlns:p='u' xmlns:q='u'/>", Err(Malformed)),
            ("<a b=1/>", Err(Malformed)),
            ("<a b='1'c='2'/>", Err(Malformed)),
            ("<p:a/>", Err(Malformed)),
            ("<p:a xmlns:p=''/>", Err(Malformed)),
            ("<:a/>", Err(Malformed)),
            ("<a:b:c xmlns:a='u'/>", Err(Malformed)),
            ("<a xmlns:xml='u'/>", Err(Malformed)),
            ("<a>&nbsp;</a>", Err(Malformed)),
            ("<a>&#0;</a>", Err(Malformed)),
            ("<a>&#xd800;</a>", Err(Malformed)),
            ("<a>\u{1}</a>", Err(Malformed)),
            ("<a b='\u{1}'/>", Err(Malformed)),
            ("<a xmlns='\u{4}'/>", Err(Malformed)),
            ("<!--\u{1}--><a/>", Err(Malformed)),
            ("<a>]]></a>", Err(Malformed)),
            ("<a>&</a>", Err(Malformed)),
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", Err(DocumentType)),
            ("<a><!ENTITY b 'c'></a>", Err(DocumentType)),
            ("<?xml version='1.0' encoding='UTF-16'?><a/>", Err(Encoding)),
        ] {
            check(document, expected);
        }
        assert_eq!(parse(b"<a>\xff</a>"), Err(Encoding));
    }

    #[test]
    fn reads_utf_16_with_a_byte_order_mark() {
        use XmlError::{Encoding, Malformed};
        let element = |text: &str| parse(text.as_bytes());
        for (document, expected) in [
            ("<a b='ü'>\u{1f600}</a>", element("<a b='ü'>\u{1f600}</a>")),
            ("<?xml version='1.0' encoding='UTF-16'?><a/>", element("<a/>")),
            ("<?xml version='1.0' encoding='UTF-8'?><a/>", Err(Encoding)),
            ("<a", Err(Malformed)),
            ("", Err(Malformed)),
        ] {
            let units = || document.encode_utf16();
            let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
            let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
            let orders: [(&[u8], &[u8]); 2] = [(b"\xff\xfe", &little), (b"\xfe\xff", &big)];
            for (mark, bytes) in orders {
                assert_eq!(parse(&[mark, bytes].concat()), expected, "{document} {mark:?}");
                assert_eq!(parse(&[mark, bytes, b"x"].concat()), Err(Encoding), "half a character");
            }
        }
        assert_eq!(parse(b"\xff\xfe\x00\xd8"), Err(Encoding), "half of a surrogate pair");
    }

    #[test]
    fn has_limits() {
        let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(parse(nested(MAX_DEPTH + 1).as_bytes()), Err(XmlError::TooLarge));
        assert!(parse(format!("<a>{}</a>", "<b/>".repeat(MAX_NODES - 1)).as_bytes()).is_ok());
        assert_eq!(parse(format!("<a>{}</a>", "<b/>".repeat(MAX_NODES)).as_bytes()), Err(XmlError::TooLarge));
    }

    #[test]
    fn names_and_attributes_have_limits() {
        let namespace = |length: usize| format!("<p:a xmlns:p='{}'/>", "u".repeat(length));
        assert!(parse(namespace(MAX_NAMESPACE).as_bytes()).is_ok());
        assert_eq!(parse(namespace(MAX_NAMESPACE + 1).as_bytes()), Err(XmlError::TooLarge));
        let attributes = |count: usize| {
            let all: String = (0..count).map(|number| format!(" a{number}=''")).collect();
            format!("<a{all}/>")
        };
        assert!(parse(attributes(MAX_ATTRIBUTES).as_bytes()).is_ok());
        assert_eq!(parse(attributes(MAX_ATTRIBUTES + 1).as_bytes()), Err(XmlError::TooLarge));
        let one = |number: usize| format!("<a xmlns:p{number}='u'>");
        let nested = |each: usize, more: &str| {
            let both: String = (0..2)
                .map(|outer| {
                    let all: String = (0..each).map(|own| format!(" xmlns:p{outer}x{own}='u'")).collect();
                    format!("<a{all}>")
                })
                .collect();
            format!("{both}{more}</a></a>")
        };
        assert!(parse(nested(MAX_DECLARATIONS / 2, "").as_bytes()).is_ok());
        let above = nested(MAX_DECLARATIONS / 2, &format!("{}</a>", one(0)));
        assert_eq!(parse(above.as_bytes()), Err(XmlError::TooLarge));
        let siblings: String = (0..MAX_DECLARATIONS * 2).map(|own| format!("{}</a>", one(own))).collect();
        assert!(parse(format!("<a>{siblings}</a>").as_bytes()).is_ok(), "those of a sibling do not count");
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(document in "(<[abp:]{1,3}( [ab]='[x&;#1 ]{0,3}')?/?>|</?[ab]>|[x&;]|<!--|-->){0,12}") {
            if let Ok(element) = parse(document.as_bytes()) {
                let mut written = String::new();
                element.write(&mut written);
                prop_assert_eq!(parse(written.as_bytes()), Ok(element));
            }
        }

        #[test]
        fn never_panics(bytes: Vec<u8>) {
            _ = parse(&bytes);
        }
    }
}
