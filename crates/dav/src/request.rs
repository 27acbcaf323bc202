//! The bodies of requests (RFC 4918 §14).

use crate::locks::Scope;
use crate::xml::{self, Element, Name, XmlError};

/// The namespace of RFC 4918.
pub const DAV: &str = "DAV:";
/// Bytes of a body that is read as a whole. A larger one gets 413.
pub const MAX_BODY: u64 = 64 * 1024;
/// Properties that one request names. Each may be written for many resources.
pub const MAX_NAMES: usize = 256;
/// Bytes of a language that stands around properties. Each of them gets its own copy.
const MAX_LANGUAGE: usize = 64;

/// Why a body is not what its method takes: 400, or 422 or 413 where it is well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    Xml(XmlError),
    /// It lacks an element, or has one in the wrong place.
    Meaningless,
    /// It names more than [`MAX_NAMES`] properties, or has a language that is too long.
    TooLarge,
}

impl From<XmlError> for BodyError {
    fn from(error: XmlError) -> BodyError {
        BodyError::Xml(error)
    }
}

/// The properties that a client asks for, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropFind {
    /// Those of RFC 4918 and all dead ones, and these.
    All(Vec<Name>),
    /// The names of all.
    Names,
    These(Vec<Name>),
}

/// A change of one property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Set(Element),
    Remove(Name),
}

impl Change {
    pub fn name(&self) -> &Name {
        match self {
            Change::Set(element) => &element.name,
            Change::Remove(name) => name,
        }
    }
}

/// A new lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockInfo {
    pub scope: Scope,
    /// The element `owner`, as text.
    pub owner: String,
}

impl PropFind {
    /// Without a body, all properties are meant (RFC 4918 §9.1).
    pub fn parse(body: &[u8]) -> Result<PropFind, BodyError> {
        if body.is_empty() {
            return Ok(PropFind::All(Vec::new()));
        }
        let root = root(body, "propfind")?;
        let (all, of_names) = (root.first(DAV, "allprop"), root.first(DAV, "propname"));
        match (root.first(DAV, "prop"), all, of_names) {
            (Some(these), None, None) => Ok(PropFind::These(names(these)?)),
            (None, Some(_), None) => {
                let others = root.first(DAV, "include").map(names).transpose()?;
                Ok(PropFind::All(others.unwrap_or_default()))
            }
            (None, None, Some(_)) => Ok(PropFind::Names),
            _ => Err(BodyError::Meaningless),
        }
    }
}

/// The names of the elements within `element`, each once.
fn names(element: &Element) -> Result<Vec<Name>, BodyError> {
    let mut names: Vec<Name> = Vec::new();
    for own in element.elements() {
        if names.contains(&own.name) {
            continue;
        }
        if names.len() >= MAX_NAMES {
            return Err(BodyError::TooLarge);
        }
        names.push(own.name.clone());
    }
    Ok(names)
}

/// The changes of `PROPPATCH`, in their order.
pub fn parse_changes(body: &[u8]) -> Result<Vec<Change>, BodyError> {
    let root = root(body, "propertyupdate")?;
    let mut changes = Vec::new();
    for update in root.elements().filter(|update| update.name.namespace == DAV) {
        for prop in update.elements().filter(|prop| prop.name.is(DAV, "prop")) {
            let languages = [prop.language(), update.language(), root.language()];
            let language = languages.into_iter().flatten().next();
            if language.is_some_and(|language| language.value.len() > MAX_LANGUAGE) {
                return Err(BodyError::TooLarge);
            }
            for property in prop.elements() {
                if changes.len() >= MAX_NAMES {
                    return Err(BodyError::TooLarge);
                }
                match update.name.local.as_str() {
                    "set" => {
                        let mut property = property.clone();
                        // The language around it counts for it (RFC 4918 §4.3).
                        if property.language().is_none() {
                            property.attributes.extend(language.cloned());
                        }
                        changes.push(Change::Set(property));
                    }
                    "remove" => changes.push(Change::Remove(property.name.clone())),
                    _ => {}
                }
            }
        }
    }
    if changes.is_empty() { Err(BodyError::Meaningless) } else { Ok(changes) }
}

impl LockInfo {
    /// The `lockinfo` element of a new lock (RFC 4918 §14.11). A request without a body refreshes a lock.
    pub fn parse(body: &[u8]) -> Result<LockInfo, BodyError> {
        let root = root(body, "lockinfo")?;
        let scope = root.first(DAV, "lockscope").ok_or(BodyError::Meaningless)?;
        let scope = match (scope.first(DAV, "exclusive"), scope.first(DAV, "shared")) {
            (Some(_), None) => Scope::Exclusive,
            (None, Some(_)) => Scope::Shared,
            _ => return Err(BodyError::Meaningless),
        };
        let is_write = root.first(DAV, "locktype").is_some_and(|kind| kind.first(DAV, "write").is_some());
        if !is_write {
            return Err(BodyError::Meaningless);
        }
        let mut owner = String::new();
        if let Some(element) = root.first(DAV, "owner") {
            element.write(&mut owner);
        }
        Ok(LockInfo { scope, owner })
    }
}

fn root(body: &[u8], local: &str) -> Result<Element, BodyError> {
    let root = xml::parse(body)?;
    if root.name.is(DAV, local) { Ok(root) } else { Err(BodyError::Meaningless) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dav(names: &[&str]) -> Vec<Name> {
        names.iter().map(|name| Name::new(DAV, name)).collect()
    }

    #[test]
    fn reads_what_is_asked_for() {
        let check = |body: &str, expected| assert_eq!(PropFind::parse(body.as_bytes()), expected, "{body}");
        check("", Ok(PropFind::All(Vec::new())));
        check("<propfind xmlns='DAV:'><allprop/></propfind>", Ok(PropFind::All(Vec::new())));
        check(
            "<D:propfind xmlns:D='DAV:'><D:allprop/><D:include><D:x/></D:include></D:propfind>",
            Ok(PropFind::All(dav(&["x"]))),
        );
        check("<propfind xmlns='DAV:'><propname/></propfind>", Ok(PropFind::Names));
        check(
            "<propfind xmlns='DAV:'><prop><getetag/><a xmlns='u'/></prop></propfind>",
            Ok(PropFind::These([dav(&["getetag"]), vec![Name::new("u", "a")]].concat())),
        );
        check("<propfind xmlns='DAV:'/>", Err(BodyError::Meaningless));
        check("<propfind xmlns='DAV:'><prop/><allprop/></propfind>", Err(BodyError::Meaningless));
        check("<propfind><prop/></propfind>", Err(BodyError::Meaningless));
        check("<propfind xmlns='DAV:'>", Err(BodyError::Xml(XmlError::Malformed)));
    }

    #[test]
    fn reads_changes_in_their_order() {
        let body = "<propertyupdate xmlns='DAV:' xml:lang='en'><set><prop><a xmlns='u'>1</a></prop></set>\
                    <remove><prop><b xmlns='u'>ignored</b></prop></remove></propertyupdate>";
        let changes = parse_changes(body.as_bytes()).unwrap();
        let Change::Set(a) = &changes[0] else { panic!("{changes:?}") };
        let mut written = String::new();
        a.write(&mut written);
        assert_eq!(written, "<a xmlns=\"u\" xml:lang=\"en\">1</a>");
        assert_eq!(changes[1], Change::Remove(Name::new("u", "b")));
        assert_eq!(parse_changes(b"<propertyupdate xmlns='DAV:'/>"), Err(BodyError::Meaningless));
    }

    #[test]
    fn names_each_property_once_and_not_too_many() {
        let find = |inner: &str| {
            let body = format!("<propfind xmlns='DAV:'><prop>{inner}</prop></propfind>");
            PropFind::parse(body.as_bytes())
        };
        let repeated = find(&"<lockdiscovery/><a xmlns='u'/>".repeat(1000));
        let once = [dav(&["lockdiscovery"]), vec![Name::new("u", "a")]].concat();
        assert_eq!(repeated, Ok(PropFind::These(once)));
        let included = "<propfind xmlns='DAV:'><allprop/><include><x/><x/></include></propfind>";
        assert_eq!(PropFind::parse(included.as_bytes()), Ok(PropFind::All(dav(&["x"]))));
        let different = |count: usize| -> String { (0..count).map(|own| format!("<a{own}/>")).collect() };
        assert!(find(&different(MAX_NAMES)).is_ok());
        assert_eq!(find(&different(MAX_NAMES + 1)), Err(BodyError::TooLarge));
        let included = format!(
            "<propfind xmlns='DAV:'><allprop/><include>{}</include></propfind>",
            different(MAX_NAMES + 1)
        );
        assert_eq!(PropFind::parse(included.as_bytes()), Err(BodyError::TooLarge));
    }

    #[test]
    fn changes_have_limits() {
        let changes = |count: usize, language: usize| {
            let body = format!(
                "<propertyupdate xmlns='DAV:' xml:lang='{}'><set><prop>{}</prop></set></propertyupdate>",
                "e".repeat(language),
                "<a/>".repeat(count)
            );
            parse_changes(body.as_bytes()).map(|changes| changes.len())
        };
        assert_eq!(changes(MAX_NAMES, MAX_LANGUAGE), Ok(MAX_NAMES));
        assert_eq!(changes(MAX_NAMES + 1, 2), Err(BodyError::TooLarge));
        assert_eq!(changes(1, MAX_LANGUAGE + 1), Err(BodyError::TooLarge));
    }

    #[test]
    fn reads_locks() {
        let body = |scope: &str, kind: &str| {
            format!(
                "<lockinfo xmlns='DAV:'><lockscope>{scope}</lockscope><locktype>{kind}</locktype>\
                 <owner><href>ann</href></owner></lockinfo>"
            )
        };
        let owner = "<owner xmlns=\"DAV:\"><href>ann</href></owner>".to_owned();
        let check = |text: String, expected| assert_eq!(LockInfo::parse(text.as_bytes()), expected, "{text}");
        check(
            body("<exclusive/>", "<write/>"),
            Ok(LockInfo { scope: Scope::Exclusive, owner: owner.clone() }),
        );
        check(body("<shared/>", "<write/>"), Ok(LockInfo { scope: Scope::Shared, owner }));
        check(body("<exclusive/><shared/>", "<write/>"), Err(BodyError::Meaningless));
        check(body("<exclusive/>", "<read/>"), Err(BodyError::Meaningless));
    }
}
