//! `<If>` and `<Else>` that only set fields of responses: by the last part of the path, or by the query.

use crate::draft::Draft;
use crate::regex;
use crate::tree::Directive;

use super::expressions;

/// A block whose `<If>`s of this kind are other sections, or nothing.
pub fn resolved(block: Vec<Directive>, draft: &mut Draft) -> Vec<Directive> {
    let mut out = Vec::new();
    let mut rest = block.into_iter().peekable();
    while let Some(mut directive) = rest.next() {
        if directive.name == "if" && sets_fields(&directive) {
            let other = rest.next_if(|next| next.name == "else" && sets_fields(next));
            out.extend(chosen(directive, other, draft));
            continue;
        }
        directive.block = directive.block.map(|block| resolved(block, draft));
        out.push(directive);
    }
    out
}

fn sets_fields(section: &Directive) -> bool {
    !section.children().is_empty() && section.children().iter().all(|child| child.name == "header")
}

/// What takes the place of both sections: themselves, if nothing can.
fn chosen(section: Directive, other: Option<Directive>, draft: &mut Draft) -> Vec<Directive> {
    let conditions = expressions::conditions(&section.arguments.join(" "), &section.place);
    let only = match conditions.as_deref() {
        Some([only]) => Some((only.argument(0), only.argument(1), only.argument(2))),
        _ => None,
    };
    let of_other = || other.iter().flat_map(|other| other.children().to_vec());
    match only {
        Some(("%{REQUEST_URI}", test, "[]")) if file_name(test).is_some() => {
            let arguments = file_name(test).into_iter().collect();
            let files = Directive { name: "files".to_owned(), arguments, ..section };
            of_other().chain([files]).collect()
        }
        Some(("%{QUERY_STRING}", ..)) if other.is_some() => {
            let what = format!("{}: routes do not know the query", section.text());
            draft.warn(&section.place, what, "the fields of <Else> are for all queries");
            of_other().collect()
        }
        _ => std::iter::once(section).chain(other).collect(),
    }
}

/// The name in `/name$`.
fn file_name(expression: &str) -> Option<String> {
    let name = regex::literal(expression.strip_prefix('/')?.strip_suffix('$')?)?;
    (!name.is_empty() && !name.contains(['/', '*', '?', '[', '{'])).then_some(name)
}
