//! A whole page, parsed once, and what can be told of it before it is evaluated.

use crate::directive::{Directive, Setting, Target};
use crate::expression::Expression;
use crate::reference::Reference;
use crate::scan::{Languages, Node, Scanner};
use crate::template::Template;

/// Variables of the request that only the address of the page, and its file, decide.
const STABLE: [&str; 8] = [
    "DOCUMENT_ARGS",
    "DOCUMENT_NAME",
    "DOCUMENT_PATH_INFO",
    "DOCUMENT_URI",
    "LAST_MODIFIED",
    "QUERY_STRING",
    "QUERY_STRING_UNESCAPED",
    "REQUEST_URI",
];

#[derive(Debug)]
pub struct Page {
    pub nodes: Vec<Node>,
    /// Bytes of its source.
    length: usize,
}

impl Page {
    pub fn parse(bytes: &[u8], languages: Languages) -> Page {
        let (mut scanner, mut nodes) = (Scanner::new(languages), Vec::new());
        scanner.push(bytes.to_vec(), &mut nodes);
        scanner.finish(&mut nodes);
        Page { nodes, length: bytes.len() }
    }

    /// Whether its content is that of its file.
    pub fn is_plain(&self) -> bool {
        match &self.nodes[..] {
            [] => self.length == 0,
            [Node::Text(text)] => text.len() == self.length,
            _ => false,
        }
    }

    /// Bytes of memory, roughly.
    pub fn cost(&self) -> usize {
        let of_node = |node: &Node| match node {
            Node::Text(text) => text.capacity(),
            Node::Directive(directive) => directive.cost(),
        };
        self.nodes.iter().map(|node| of_node(node) + size_of::<Node>()).sum()
    }

    /// The references whose files alone decide the content, beside the page itself. `None`: more decides, such as the
    /// time or a field of the request.
    pub fn parts(&self) -> Option<Vec<Reference>> {
        let mut parts = Vec::new();
        for node in &self.nodes {
            if let Node::Directive(directive) = node {
                add_parts(directive, &mut parts)?;
            }
        }
        Some(parts)
    }
}

/// Whether a variable has the same value for every request of an address. The request has none with small letters, and
/// digits are groups of a test. A name that a directive sets may still be the request's: the directive may fail, or
/// not be carried out.
pub fn is_stable(name: &str) -> bool {
    let is_of_page = name.contains(|char: char| char.is_ascii_lowercase());
    is_of_page || STABLE.contains(&name) || name.bytes().all(|byte| byte.is_ascii_digit())
}

/// `None`: the content is not the same for every request.
fn add_parts(directive: &Directive, parts: &mut Vec<Reference>) -> Option<()> {
    match directive {
        Directive::Config(settings) => settings.iter().try_for_each(|setting| match setting {
            Setting::ErrorMessage(text) | Setting::EchoMessage(text) | Setting::Time(text) => check(text),
            Setting::Size(_) => Some(()),
        })?,
        Directive::Echo(all) => {
            all.iter().try_for_each(|echo| is_stable(echo.name.literal()?).then_some(()))?;
        }
        Directive::Size(targets) | Directive::Modified(targets) => {
            for target in targets {
                parts.push(literal(target)?);
            }
        }
        Directive::Include(all) => {
            for include in all {
                parts.push(literal(&include.target)?);
            }
        }
        Directive::Set(all) => {
            for assignment in all {
                assignment.name.literal()?;
                check(&assignment.value)?;
            }
        }
        Directive::PrintVariables => return None,
        Directive::If(test) | Directive::Elif(test) => {
            if let Ok(test) = test {
                check_test(test)?;
            }
        }
        Directive::Fragment(fragment) => parts.push(Reference::Virtual(fragment.source.clone())),
        Directive::Else
        | Directive::EndIf
        | Directive::Remove
        | Directive::EndRemove
        | Directive::Broken(_) => {}
    }
    Some(())
}

fn check(text: &Template) -> Option<()> {
    text.names().all(is_stable).then_some(())
}

fn check_test(test: &Expression) -> Option<()> {
    let mut stable = true;
    test.each_name(&mut |name| stable &= is_stable(name));
    stable.then_some(())
}

fn literal(target: &Target) -> Option<Reference> {
    Some(match target {
        Target::File(text) => Reference::File(text.literal()?.to_owned()),
        Target::Virtual(text) => Reference::Virtual(text.literal()?.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page::parse(text.as_bytes(), Languages { ssi: true, esi: true })
    }

    #[test]
    fn tells_which_parts_decide_the_content() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let parts = page(text).parts();
            let texts = parts.as_ref().map(|parts| parts.iter().map(Reference::text).collect::<Vec<_>>());
            assert_eq!(texts.as_deref(), expected, "{text}");
        };
        check("plain", Some(&[]));
        check("<!--#include virtual=\"/a\" file=\"b\" -->", Some(&["/a", "b"]));
        check("<!--#fsize file=\"a\" --><!--#flastmod virtual=\"/b\" -->", Some(&["a", "/b"]));
        check("<!--#set var=\"x\" value=\"$QUERY_STRING\" --><!--#echo var=\"x\" -->", Some(&[]));
        check("<!--#if expr=\"$DOCUMENT_URI = /a/ && $0\" --><!--#echo var=\"LAST_MODIFIED\" -->", Some(&[]));
        check(
            "<!--#set var=\"x\" value=\"\" --><!--#echo var=\"x\" --><!--#echo var=\"never_set\" -->",
            Some(&[]),
        );
        check("<esi:include src=\"/a\"/>", Some(&["/a"]));
        check("<!--#broken -->", Some(&[]));
        for volatile in [
            "<!--#printenv -->",
            "<!--#echo var=\"DATE_LOCAL\" -->",
            "<!--#echo var=\"HTTP_COOKIE\" -->",
            "<!--#echo var=\"$QUERY_STRING\" -->",
            "<!--#if expr=\"$QUERY_STRING\" --><!--#set var=\"X\" value=\"\" --><!--#endif --><!--#echo var=\"X\" -->",
            "<esi:remove><!--#set var=\"HTTP_COOKIE\" value=\"\" --></esi:remove><!--#echo var=\"HTTP_COOKIE\" -->",
            "<!--#include virtual=\"/a?$QUERY_STRING\" -->",
            "<!--#if expr=\"$REMOTE_USER\" -->",
            "<!--#set var=\"x\" value=\"$REMOTE_ADDR\" -->",
            "<!--#set var=\"$QUERY_STRING\" value=\"\" -->",
            "<!--#config timefmt=\"$HTTP_HOST\" -->",
        ] {
            check(volatile, None);
        }
    }

    #[test]
    fn knows_pages_without_directives() {
        assert!(page("").is_plain());
        assert!(page("<p>a<!-- comment --></p>").is_plain());
        assert!(!page("<!--#else -->").is_plain());
        assert!(!page("<!--esi a -->").is_plain());
    }
}
