//! Pages with directives: the nodes are the same however the page is cut, the evaluation ends, and its output is
//! bounded.

use ssi::evaluate::{Evaluator, Step};
use ssi::page::Page;
use ssi::reference::Reference;
use ssi::scan::{Languages, Node, Scanner};
use ssi::variables::{MAX_VALUE, MAX_VARIABLES, Request, Variables};

use crate::cuts::cuts;

const LANGUAGES: Languages = Languages { ssi: true, esi: true };
/// Bytes that a value may have in its encoding.
const MAX_OUTPUT: usize = 6 * MAX_VALUE + 1024;

/// The variables of every request.
struct Fixture;

impl Request for Fixture {
    fn variable(&self, name: &str) -> Option<String> {
        name.starts_with("HTTP_").then(|| format!("<{name}>"))
    }

    fn names(&self) -> Vec<String> {
        vec!["HTTP_HOST".to_owned()]
    }

    fn now(&self) -> i64 {
        1_000_000_000
    }

    fn modified(&self) -> Option<i64> {
        Some(0)
    }
}

/// A page.
pub fn page(data: &[u8]) {
    let page = Page::parse(data, LANGUAGES);
    let mut scanner = Scanner::new(LANGUAGES);
    let (mut nodes, mut from) = (Vec::new(), 0);
    for to in cuts(data).into_iter().chain([data.len()]) {
        scanner.push(data[from..to].to_vec(), &mut nodes);
        from = to;
    }
    scanner.finish(&mut nodes);
    assert_eq!(shown(&nodes), shown(&page.nodes), "cuts change nothing");
    let texts: usize = page.nodes.iter().map(text_len).sum();
    assert!(texts <= data.len());
    assert_eq!(page.is_plain(), texts == data.len() && page.nodes.len() <= 1);
    evaluate(&page);
}

fn evaluate(page: &Page) {
    let (mut evaluator, mut variables) = (Evaluator::default(), Variables::default());
    for node in &page.nodes {
        let Node::Directive(directive) = node else { continue };
        let was_active = evaluator.is_active();
        let mut steps = Vec::new();
        evaluator.evaluate(directive, &Fixture, &mut variables, &mut steps);
        for step in steps {
            match step {
                Step::Output(text) => {
                    assert!(was_active, "what is not shown makes no output");
                    assert!(text.len() <= MAX_OUTPUT.max(8 * MAX_VARIABLES), "{} bytes", text.len());
                }
                Step::Include(wanted) => {
                    check_reference(&wanted.reference);
                    wanted.alternative.iter().for_each(check_reference);
                }
                Step::Size(reference) | Step::Modified(reference) => check_reference(&reference),
                Step::Failed(mistake) => assert!(!mistake.to_string().contains('\n')),
            }
        }
        let bytes: usize = variables.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes <= MAX_VARIABLES);
    }
}

/// What a reference leads to is a target of a request, and a file stays in the folder of the page.
fn check_reference(reference: &Reference) {
    let Ok(target) = reference.resolve("/folder/page.shtml") else { return };
    assert!(target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic()), "{target}");
    if let Reference::File(_) = reference {
        assert!(
            target.starts_with("/folder/") && !target.split('/').any(|segment| segment == ".."),
            "{target}"
        );
    }
}

fn text_len(node: &Node) -> usize {
    match node {
        Node::Text(text) => text.len(),
        Node::Directive(_) => 0,
    }
}

/// The nodes, with adjacent texts as one.
fn shown(nodes: &[Node]) -> String {
    let mut out = String::new();
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(&text.escape_ascii().to_string()),
            Node::Directive(directive) => out.push_str(&format!("\n{directive:?}\n")),
        }
    }
    out
}
