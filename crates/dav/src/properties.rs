//! The dead properties of a resource (RFC 4918 §4), which clients set and the server only stores.

use crate::lines;
use crate::request::{Change, DAV};
use crate::xml::Name;

/// Bytes of all properties of one resource.
pub const MAX_BYTES: usize = 64 * 1024;
/// Properties of one resource.
pub const MAX_COUNT: usize = 256;

/// What the server itself says of a resource. Clients cannot change them.
pub const LIVE: [&str; 9] = [
    "creationdate",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "getlastmodified",
    "lockdiscovery",
    "resourcetype",
    "supportedlock",
    "quota-available-bytes",
];
/// As `LIVE`, for RFC 4331.
pub const QUOTA_USED: &str = "quota-used-bytes";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Properties {
    /// Each name once, with its element as text.
    all: Vec<(Name, String)>,
}

/// Whether the server gives the property its value.
pub fn is_live(name: &Name) -> bool {
    name.namespace == DAV && (LIVE.contains(&name.local.as_str()) || name.local == QUOTA_USED)
}

impl Properties {
    /// What is no property is left out.
    pub fn parse(text: &str) -> Properties {
        let property = |line: &str| {
            let [namespace, local, element] = lines::read(line)?;
            Some((Name { namespace, local }, element))
        };
        Properties { all: lines::all(text).filter_map(property).collect() }
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        for (name, element) in &self.all {
            lines::write(&[&name.namespace, &name.local, element], &mut out);
        }
        out
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Name, &str)> {
        self.all.iter().map(|(name, element)| (name, element.as_str()))
    }

    /// The element of a property.
    pub fn get(&self, name: &Name) -> Option<&str> {
        self.iter().find(|(own, _)| *own == name).map(|(_, element)| element)
    }

    pub fn apply(&mut self, change: &Change) {
        self.all.retain(|(name, _)| name != change.name());
        if let Change::Set(element) = change {
            let mut text = String::new();
            element.write(&mut text);
            self.all.push((element.name.clone(), text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::parse_changes;

    #[test]
    fn changes_are_stored_and_read_again() {
        let changes = |update: &str| {
            parse_changes(format!("<propertyupdate xmlns='DAV:'>{update}</propertyupdate>").as_bytes())
                .unwrap()
        };
        let mut properties = Properties::default();
        for change in changes("<set><prop><a xmlns='u'>1\n\t2</a><b xmlns=''/></prop></set>") {
            properties.apply(&change);
        }
        assert_eq!(properties.get(&Name::new("u", "a")), Some("<a xmlns=\"u\">1&#10;&#9;2</a>"));
        assert_eq!(Properties::parse(&properties.text()), properties);
        for change in
            changes("<set><prop><b xmlns=''>2</b></prop></set><remove><prop><a xmlns='u'/></prop></remove>")
        {
            properties.apply(&change);
        }
        assert_eq!(properties.iter().collect::<Vec<_>>(), [(&Name::new("", "b"), "<b>2</b>")]);
        assert!(is_live(&Name::new(DAV, "getetag")) && !is_live(&Name::new("u", "getetag")));
        assert!(!is_live(&Name::new(DAV, "displayname")), "clients may name their files");
    }
}
