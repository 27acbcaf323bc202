//! WebDAV: what is read of a body, a field or a stored text is the same when it is written and read again, and within
//! its bounds.

use dav::condition::{If, State};
use dav::fields::{coded_url, timeout};
use dav::locks::{Locks, MAX_LOCKS};
use dav::properties::Properties;
use dav::request::{LockInfo, MAX_NAMES, PropFind, parse_changes};
use dav::upload::Upload;
use dav::xml::{self, Element, MAX_DEPTH, MAX_NODES};

/// Seconds that a lock may have.
const LOCK_TIME: u64 = 3600;

/// A body, a field, or a stored text.
pub fn dav(data: &[u8]) {
    body(data);
    field(data);
    stored(&String::from_utf8_lossy(data));
}

fn body(data: &[u8]) {
    if let Ok(root) = xml::parse(data) {
        let (nodes, depth) = size(&root);
        assert!(nodes <= MAX_NODES && depth <= MAX_DEPTH, "{nodes} nodes, {depth} deep");
        let mut text = String::new();
        root.write(&mut text);
        assert_eq!(xml::parse(text.as_bytes()).as_ref(), Ok(&root), "{text}");
    }
    if let Ok(PropFind::All(names) | PropFind::These(names)) = PropFind::parse(data) {
        assert!(names.len() <= MAX_NAMES);
    }
    if let Ok(changes) = parse_changes(data) {
        assert!((1..=MAX_NAMES).contains(&changes.len()));
        let mut properties = Properties::default();
        changes.iter().for_each(|change| properties.apply(change));
        assert!(properties.count() <= changes.len());
        assert_eq!(Properties::parse(&properties.text()), properties);
    }
    if let Ok(LockInfo { owner, .. }) = LockInfo::parse(data) {
        assert!(owner.is_empty() || xml::parse(owner.as_bytes()).is_ok(), "{owner}");
    }
}

/// Elements, attributes and texts, and how many elements lie in one another.
fn size(element: &Element) -> (usize, usize) {
    let texts = element.children.len() - element.elements().count();
    element.elements().map(size).fold((1 + element.attributes.len() + texts, 1), |(nodes, depth), inner| {
        (nodes + inner.0, depth.max(inner.1 + 1))
    })
}

fn field(data: &[u8]) {
    assert!(timeout(Some(data), LOCK_TIME) <= LOCK_TIME);
    if let Some(url) = coded_url(data) {
        assert!(!url.contains(['<', '>', ' ']));
    }
    let Some(field) = If::parse(data) else { return };
    assert!(field.resources().chain(field.tokens()).all(|url| !url.contains('>')));
    // Each list holds of a state with all that it names, or demands that something is not so.
    let all = || State { tag: None, tokens: field.tokens().map(str::to_owned).collect() };
    let (with_all, with_none) = (field.holds(|_| all()), field.holds(|_| State::default()));
    let text = String::from_utf8_lossy(data).to_ascii_lowercase();
    assert!(with_all || with_none || text.contains('[') || text.contains("not"), "{text}");
}

fn stored(text: &str) {
    let locks = Locks::parse(text);
    assert!(locks.on("").count() <= MAX_LOCKS);
    assert_eq!(Locks::parse(&locks.text()), locks);
    let properties = Properties::parse(text);
    assert_eq!(Properties::parse(&properties.text()), properties);
    if let Some(upload) = Upload::parse(text) {
        assert_eq!(Upload::parse(&upload.text()), Some(upload));
    }
}
