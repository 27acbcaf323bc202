//! The decision: given a request and what stands under its path, which answer is right. RFC 9110's order:
//! what is there, preconditions (§13), then ranges (§14).
//!
//! Knows nothing of how an answer is fetched or sent.

use taipan_http::conditional::{self, Validators, Verdict};
use taipan_http::head::{Head, Method, Names};
use taipan_http::negotiate::{self, Coding};
use taipan_http::range::{self, ByteRange, Selection};
use taipan_http::status::Status;

use crate::model::Listing;

/// What stands under a path, as far as a decision needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    Missing,
    /// No permission, or neither file nor folder.
    Denied,
    /// A folder without an index.
    Folder,
    /// At least one representation, the one without coding first if there is one.
    File(Vec<Representation>),
}

/// One form of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Representation {
    pub coding: Coding,
    /// `None`: known only when it has been sent.
    pub size: Option<u64>,
    pub etag: Option<Box<[u8]>>,
    /// Seconds since 1970.
    pub modified: Option<i64>,
}

/// The answer; a number is the index of a representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Full(usize),
    NotModified(usize),
    Part(usize, ByteRange),
    Parts(usize, Vec<ByteRange>),
    Unsatisfiable(usize),
    /// The folder's own address ends in a slash: go there.
    ToFolder,
    /// With what the preconditions make of it, which count only where the listing can be made (RFC 9110 §13.2.1).
    List(Verdict),
    /// Nothing stands there that could be served: a fallback answers, or else this status.
    Absent(Status),
    Refuse(Status),
}

/// How the path was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// With a slash at the end.
    AsFolder,
    AsFile,
}

/// For GET and HEAD of what is served from files.
#[inline]
pub fn decide(head: &Head<'_>, asked: Asked, resource: &Resource, listing: Listing, now: i64) -> Decision {
    match resource {
        Resource::File(forms) => decide_file(head, forms, now),
        Resource::Denied => Decision::Refuse(Status::FORBIDDEN),
        Resource::Folder | Resource::Missing => match (absent(asked, resource, listing), asked) {
            (Some(status), _) => Decision::Absent(status),
            (None, Asked::AsFile) => Decision::ToFolder,
            (None, Asked::AsFolder) => Decision::List(evaluate_listing(head, now)),
        },
    }
}

/// For every method: whether nothing stands there that could be served, and what its status is.
pub fn absent(asked: Asked, resource: &Resource, listing: Listing) -> Option<Status> {
    match (resource, asked, listing) {
        (Resource::Missing, ..) => Some(Status::NOT_FOUND),
        (Resource::Folder, Asked::AsFolder, Listing::Off) => Some(Status::FORBIDDEN),
        (Resource::Folder | Resource::Denied | Resource::File(_), ..) => None,
    }
}

/// A listing is there, and has neither an entity tag nor a date: `*` names it, and nothing else does.
fn evaluate_listing(head: &Head<'_>, now: i64) -> Verdict {
    conditional::evaluate(head, Some(&Validators::default()), now)
}

/// Methods that are allowed on what is served from files, as the value of `Allow`.
pub const ALLOW: &str = "GET, HEAD, OPTIONS";

/// The status for a method that files do not serve; `None`: it is one they do.
pub fn refused_method(method: Method) -> Option<Status> {
    match method {
        Method::Get | Method::Head | Method::Options => None,
        Method::Unknown => Some(Status::NOT_IMPLEMENTED),
        _ => Some(Status::METHOD_NOT_ALLOWED),
    }
}

#[inline]
fn decide_file(head: &Head<'_>, forms: &[Representation], now: i64) -> Decision {
    let chosen = choose(head, forms);
    if !head.names.intersects(Names::CONDITIONAL | Names::RANGE) {
        return Decision::Full(chosen);
    }
    let form = &forms[chosen];
    let validators = Validators { etag: form.etag.as_deref(), modified: form.modified };
    match conditional::evaluate(head, Some(&validators), now) {
        Verdict::NotModified => return Decision::NotModified(chosen),
        Verdict::PreconditionFailed => return Decision::Refuse(Status::PRECONDITION_FAILED),
        Verdict::Proceed => {}
    }
    // Range is defined for GET alone (RFC 9110 §14.2), and of no use where the size is not known.
    let (Method::Get, Some(size), Some(wanted)) = (head.method, form.size, head.only("range")) else {
        return Decision::Full(chosen);
    };
    if !conditional::range_applies(head, &validators, now) {
        return Decision::Full(chosen);
    }
    match range::select(wanted, size) {
        Selection::Whole => Decision::Full(chosen),
        Selection::One(part) => Decision::Part(chosen, part),
        Selection::Many(parts) => Decision::Parts(chosen, parts),
        Selection::Unsatisfiable => Decision::Unsatisfiable(chosen),
    }
}

/// The representation whose coding the client likes best. With a single one there is no choice.
#[inline]
fn choose(head: &Head<'_>, forms: &[Representation]) -> usize {
    if forms.len() == 1 || !head.names.contains(Names::ACCEPT_ENCODING) {
        return 0;
    }
    let mut available = [Coding::Identity; 4];
    let mut count = 0;
    // In the server's order of preference, in which plain comes last.
    for form in forms.iter().filter(|f| f.coding != Coding::Identity).take(available.len()) {
        available[count] = form.coding;
        count += 1;
    }
    let coding = negotiate::choose(head.values("accept-encoding"), &available[..count]);
    forms.iter().position(|f| f.coding == coding).unwrap_or(0)
}
