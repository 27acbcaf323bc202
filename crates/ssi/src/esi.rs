//! The markup of Edge Side Includes 1.0 that this server has: `<esi:include>`, `<esi:remove>`, `<esi:comment>`. Other
//! `esi:` elements are text.

use crate::directive::{Attributes, Directive, Fragment, OnError, attributes};
use crate::mistake::Mistake;

/// What a tag means. `None`: it is text. `Some(None)`: nothing stands in its place. `tag` begins with `<` and ends with
/// `>`.
pub fn parse(tag: &str) -> Option<Option<Directive>> {
    let inner = tag.strip_prefix('<')?.strip_suffix('>')?;
    if let Some(name) = inner.strip_prefix("/esi:") {
        return match name.trim_end() {
            "remove" => Some(Some(Directive::EndRemove)),
            "include" | "comment" => Some(None),
            _ => None,
        };
    }
    let inner = inner.strip_prefix("esi:")?;
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let (name, rest) = inner.split_at(inner.find(|char: char| char.is_whitespace()).unwrap_or(inner.len()));
    match name {
        "include" => Some(Some(match attributes(rest).and_then(fragment) {
            Ok(fragment) => Directive::Fragment(fragment),
            Err(mistake) => Directive::Broken(mistake),
        })),
        "comment" => Some(None),
        "remove" => Some(Some(Directive::Remove)),
        _ => None,
    }
}

fn fragment(attributes: Attributes) -> Result<Fragment, Mistake> {
    let (mut source, mut alternative, mut on_error) = (None, None, OnError::Abort);
    for (name, value) in attributes {
        let value = value.replace("&amp;", "&");
        match name.as_str() {
            "src" => source = Some(value),
            "alt" => alternative = Some(value),
            "onerror" if value == "continue" => on_error = OnError::Continue,
            "onerror" => return Err(Mistake::Value(value)),
            // Of caches that have more to set, such as `maxwait` and `ttl`.
            _ => {}
        }
    }
    Ok(Fragment { source: source.ok_or(Mistake::Missing("src"))?, alternative, on_error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_tags() {
        let check = |tag: &str, expected: &str| {
            assert_eq!(format!("{:?}", parse(tag)).replace("\\", ""), expected, "{tag}");
        };
        let fragment = |source: &str, alternative: &str, on_error: &str| {
            format!(
                "Some(Some(Fragment(Fragment {{ source: \"{source}\", alternative: {alternative}, on_error: {on_error} }})))"
            )
        };
        check("<esi:include src=\"/a\"/>", &fragment("/a", "None", "Abort"));
        check("<esi:include src='/a?b&amp;c' ttl='1' >", &fragment("/a?b&c", "None", "Abort"));
        check(
            "<esi:include\nsrc=\"/a\" alt=\"/b\" onerror=\"continue\" />",
            &fragment("/a", "Some(\"/b\")", "Continue"),
        );
        check("<esi:include/>", "Some(Some(Broken(Missing(\"src\"))))");
        check("<esi:include src=\"/a\" onerror=\"stop\"/>", "Some(Some(Broken(Value(\"stop\"))))");
        check("<esi:remove>", "Some(Some(Remove))");
        check("</esi:remove>", "Some(Some(EndRemove))");
        check("<esi:comment text=\"a > b\"/>", "Some(None)");
        check("</esi:include>", "Some(None)");
        for text in ["<esi:vars>", "</esi:vars>", "<esi:includes src=\"/a\"/>", "<esi:>", "<p>"] {
            check(text, "None");
        }
    }
}
