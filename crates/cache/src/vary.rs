//! Which fields of a request select a response (RFC 9111 §4.1), and whether two requests select the same one.

use taipan_http::fields::{is_token, list, trim_ows, unquoted, weight};
use taipan_http::forwarded::is_passed_claim;
use taipan_http::head::Field as RequestField;
use taipan_http::negotiate::Coding;

use crate::fields::{Field, values};
use crate::request::lines;

/// The fields that `Vary` names, in lower case and in order, with the normalized values of a request. `None`: it lacks
/// the field.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant(pub Vec<Selecting>);

/// A name, and its value in the request.
pub type Selecting = (Box<str>, Option<Box<[u8]>>);

/// Fields of a request that are lists, whose order and white space may matter to an upstream, but not how they are
/// separated.
const PROSE: [&str; 4] = ["user-agent", "cookie", "referer", "authorization"];

/// The names that `Vary` lists. `None`: `*` is among them, and nothing selects the response.
pub fn names(fields: &[Field]) -> Option<Vec<Box<str>>> {
    let mut names = Vec::new();
    for member in list(values(fields, "vary")) {
        if !is_token(member) || member == b"*" {
            return None;
        }
        names.push(String::from_utf8_lossy(member).to_ascii_lowercase().into_boxed_str());
    }
    sort::by(&mut names, Ord::cmp);
    names.dedup();
    Some(names)
}

/// The names of the fields of a request that select the response to it: those that `Vary` lists, and those in which a
/// client may have claimed something behind the back of a trusted proxy. `None`: as for `names`.
pub fn selecting(fields: &[Field], request: &[RequestField<'_>]) -> Option<Vec<Box<str>>> {
    let mut names = names(fields)?;
    let claims = request.iter().map(|field| field.name).filter(|name| is_passed_claim(name));
    names.extend(claims.map(|name| String::from_utf8_lossy(name).to_ascii_lowercase().into_boxed_str()));
    sort::by(&mut names, Ord::cmp);
    names.dedup();
    Some(names)
}

impl Variant {
    /// The variant that `names` and the fields of a request select.
    pub fn select(names: Vec<Box<str>>, fields: &[RequestField<'_>]) -> Variant {
        let value = |name: Box<str>| {
            let value = normalized(&name, lines(fields, &name));
            (name, value)
        };
        Variant(names.into_iter().map(value).collect())
    }

    /// The variant of a response that a request with these fields has validated, and whose `Vary` lists `names` now. What
    /// has selected it before still does, because the names may be those of the answer alone.
    pub fn extended(&self, mut names: Vec<Box<str>>, fields: &[RequestField<'_>]) -> Variant {
        names.extend(self.0.iter().map(|(name, _)| name.clone()));
        sort::by(&mut names, Ord::cmp);
        names.dedup();
        Variant::select(names, fields)
    }

    /// Whether a request selects this variant, too.
    pub fn matches(&self, fields: &[RequestField<'_>]) -> bool {
        self.0.iter().all(|(name, value)| {
            let lines = lines(fields, name);
            is_same(lines.clone(), value.as_deref()) || normalized(name, lines) == *value
        })
    }
}

/// Which of several responses, newest first, a request with these fields gets. One that varies is preferred: an upstream
/// may omit `Vary` in the response that is the default (RFC 9111 §4.1).
pub fn selected<T>(
    responses: impl IntoIterator<Item = T>,
    variant: impl Fn(&T) -> &Variant,
    fields: &[RequestField<'_>],
) -> Option<T> {
    let mut matching = responses.into_iter().filter(|response| variant(response).matches(fields));
    let varies = |response: &T| !variant(response).0.is_empty();
    let newest = matching.next()?;
    match varies(&newest) {
        true => Some(newest),
        false => Some(matching.find(varies).unwrap_or(newest)),
    }
}

/// Whether a field has one line, with just this value. Most requests need no more than this comparison.
fn is_same<'a>(mut lines: impl Iterator<Item = &'a [u8]>, value: Option<&[u8]>) -> bool {
    let first = lines.next();
    first == value && (first.is_none() || lines.next().is_none())
}

/// The value of a field in a form that two requests share if they mean the same. `None`: the field is not there.
fn normalized<'a>(name: &str, lines: impl Iterator<Item = &'a [u8]> + Clone) -> Option<Box<[u8]>> {
    lines.clone().next()?;
    Some(match name {
        "accept-encoding" => codings(lines),
        name if PROSE.contains(&name) => joined(lines.map(trim_ows), b", "),
        "accept-language" => {
            let ranges = lines.flat_map(members).map(|range| joined(parts(range), b";"));
            ranges.collect::<Vec<_>>().join(&b","[..]).to_ascii_lowercase().into()
        }
        _ => joined(lines.flat_map(members), b","),
    })
}

/// The members of one line of a list, also the empty ones: an upstream may not know that they do not count.
fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let (member, behind) = match unquoted(text, b',') {
            Some(comma) => (&text[..comma], Some(&text[comma + 1..])),
            None => (text, None),
        };
        rest = behind;
        Some(trim_ows(member))
    })
}

/// A member and its parameters, without the white space between them.
fn parts(member: &[u8]) -> impl Iterator<Item = &[u8]> {
    member.split(|&byte| byte == b';').map(trim_ows)
}

fn joined<'a>(members: impl Iterator<Item = &'a [u8]>, separator: &[u8]) -> Box<[u8]> {
    members.collect::<Vec<_>>().join(separator).into()
}

/// The codings that a request accepts, in lower case and in order. Their weights do not count: each of them is
/// acceptable.
fn codings<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Box<[u8]> {
    let mut accepted: Vec<Vec<u8>> = list(lines).filter_map(accepted).collect();
    accepted.sort();
    accepted.dedup();
    accepted.join(&b","[..]).into()
}

/// A coding with a weight above 0. What is malformed stays as it is: an upstream may read anything in it.
fn accepted(member: &[u8]) -> Option<Vec<u8>> {
    let mut parts = parts(member);
    let name = parts.next()?.to_ascii_lowercase();
    let weight = match (parts.next(), parts.next()) {
        (None, _) => Some(1000),
        (Some([b'q' | b'Q', b'=', value @ ..]), None) => weight(value),
        (Some(_), _) => None,
    };
    let Some(weight) = weight.filter(|_| is_token(&name)) else { return Some(member.to_vec()) };
    match (&name[..], weight == 0) {
        // Not to accept it is what has to be told apart.
        (b"identity" | b"*", true) => Some([&name[..], b";q=0"].concat()),
        (_, true) | (b"identity", false) => None,
        (b"x-gzip", false) => Some(Coding::Gzip.as_str().into()),
        (_, false) => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(vary: &str, request: &[(&str, &str)]) -> Option<Variant> {
        let fields = [Field { name: "Vary".into(), value: vary.as_bytes().into() }];
        Some(Variant::select(names(&fields)?, &of(request)))
    }

    fn of<'a>(request: &[(&'a str, &'a str)]) -> Vec<RequestField<'a>> {
        let field = |(name, value): &(&'a str, &'a str)| RequestField {
            name: name.as_bytes(),
            value: value.as_bytes(),
        };
        request.iter().map(field).collect()
    }

    #[test]
    fn requests_that_mean_the_same_select_the_same_response() {
        let check = |vary: &str, one: &[(&str, &str)], other: &[(&str, &str)], expected: bool| {
            let (a, b) = (variant(vary, one).unwrap(), variant(vary, other).unwrap());
            assert_eq!(a == b, expected, "{vary}: {one:?} and {other:?}");
            assert_eq!(a.matches(&of(other)), expected, "{vary}: {one:?} and {other:?}");
        };
        check("", &[("A", "1")], &[], true);
        check("A", &[("A", "1")], &[("A", "1"), ("B", "2")], true);
        check("A", &[("A", "1")], &[("A", "2")], false);
        check("A", &[("A", "1")], &[], false);
        check("A", &[("A", "")], &[], false);
        check("A", &[("A", "1"), ("A", "2")], &[("A", "1,  2")], true);
        check("A", &[("A", "1"), ("A", "2")], &[("A", "1")], false);
        check("A", &[("A", "2, 1")], &[("A", "1, 2")], false);
        check("B, A", &[("A", "1"), ("B", "2")], &[("B", "2"), ("A", "1")], true);
        check("A", &[("A", "1,2 ,3")], &[("A", "1, 2,\t3")], true);
        // Programs that know no list see another value.
        check("A", &[("A", "1")], &[("A", "1,")], false);
        check("A", &[("A", "1")], &[("A", ",1")], false);
        check("A", &[("A", "1")], &[("A", "1"), ("A", "")], false);
        check("User-Agent", &[("User-Agent", "a (b, c)")], &[("User-Agent", "a (b,c)")], false);
        check(
            "Accept-Language",
            &[("Accept-Language", "EN, de ; q=0.5")],
            &[("Accept-Language", "en,de;q=0.5")],
            true,
        );
        check("Accept-Language", &[("Accept-Language", "en, de")], &[("Accept-Language", "de, en")], false);
        for other in ["d e", "de,", "de;q", "de;q=0 .5"] {
            check("Accept-Language", &[("Accept-Language", "de")], &[("Accept-Language", other)], false);
        }
        let encoding = |value| [("Accept-Encoding", value)];
        let check =
            |one, other, expected| check("accept-encoding", &encoding(one), &encoding(other), expected);
        check("gzip, br", "BR;q=0.5, x-gzip, gzip, identity", true);
        check("gzip", "gzip, br;q=0", true);
        check("gzip", "gzip, br;q=0.0", true);
        check("gzip", "gzip, br;q=0.01", false);
        check("gzip", "gzip, deflate", false);
        check("gzip", "gzip, *;q=0", false);
        check("gzip", "gzip, identity;q=0", false);
        check("gzip", "gzip ; q=0.5, br; q=0", true);
        for malformed in [
            "gzip, br;q=0;q=1",
            "gzip, br;q=0;a=1",
            "gzip, br;q=",
            "gzip, br;q=.0",
            "gzip, br;q=0.0000",
            "gzip, br;q=0;",
            "gzip, b r;q=0",
            "gzip, br;a=1",
        ] {
            check("gzip", malformed, false);
        }
    }

    #[test]
    fn a_validation_adds_names_and_takes_none_away() {
        let check = |before: &str, now: &str, expected: &str| {
            let request = [("A", "1"), ("B", "2")];
            let fields = [Field { name: "Vary".into(), value: now.as_bytes().into() }];
            let extended =
                variant(before, &request).unwrap().extended(names(&fields).unwrap(), &of(&request));
            assert_eq!(extended, variant(expected, &request).unwrap(), "{before} and {now}");
        };
        check("", "", "");
        check("", "A", "A");
        check("B", "A", "A, B");
        check("A, B", "B", "A, B");
        check("A, B", "", "A, B");
    }

    #[test]
    fn a_request_gets_the_newest_response_that_varies_or_else_the_newest() {
        let check = |stored: &[(&str, &[(&str, &str)])], expected: Option<usize>| {
            let variants = stored.iter().map(|(vary, request)| variant(vary, request).unwrap());
            let variants: Vec<_> = variants.enumerate().collect();
            let found = selected(&variants, |(_, variant)| variant, &of(&[("A", "1")]));
            assert_eq!(found.map(|(at, _)| *at), expected, "{stored:?}");
        };
        let (default, own, other) = (("", &[][..]), ("A", &[("A", "1")][..]), ("A", &[("A", "2")][..]));
        check(&[], None);
        check(&[other], None);
        check(&[other, default], Some(1));
        check(&[default, other, own], Some(2));
        check(&[own, default, own], Some(0));
        check(&[default, own, own, default], Some(1));
    }

    #[test]
    fn nothing_selects_a_response_that_varies_by_everything() {
        for vary in ["*", "*, *", ", *", "A, *", "*, A", "a b"] {
            assert_eq!(variant(vary, &[]), None, "{vary}");
        }
    }
}
