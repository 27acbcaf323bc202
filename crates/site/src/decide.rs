//! The decision: which response a request for a file or a folder gets. The order is that of RFC 9110: the resource,
//! then preconditions (§13), then ranges (§14).
//!
//! Knows nothing of how a file is read or a response is sent.

use taipan_http::conditional::{self, Validators, Verdict};
use taipan_http::head::{Head, Method, Names};
use taipan_http::negotiate::{self, Coding};
use taipan_http::range::{self, ByteRange, Selection};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use crate::model::Listing;

/// The resource of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    Missing,
    /// No permission, or neither file nor folder.
    Denied,
    /// A folder without an index file.
    Folder,
    /// At least one representation. The one without a content coding is the first, if there is one.
    File(Vec<Representation>),
}

/// A file, or a compressed copy of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Representation {
    pub coding: Coding,
    /// Bytes. `None`: unknown until all of it is sent.
    pub size: Option<u64>,
    pub etag: Option<Box<[u8]>>,
    /// Seconds since 1970.
    pub modified: Option<i64>,
}

/// The response. A number is the index of a representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Full(usize),
    NotModified(usize),
    Part(usize, ByteRange),
    Parts(usize, Vec<ByteRange>),
    Unsatisfiable(usize),
    /// To the same path with a slash at its end.
    RedirectToFolder,
    /// A listing. The preconditions count only if the listing succeeds (RFC 9110 §13.2.1).
    List(Verdict),
    /// There is nothing to serve. The fallback responds, or else the server with this status.
    Absent(Status),
    Reject(Status),
}

/// For GET and HEAD. `path` is that of the request.
#[inline]
pub fn decide(
    head: &Head<'_>,
    path: &SafePath<'_>,
    resource: &Resource,
    listing: Listing,
    now: i64,
) -> Decision {
    match resource {
        Resource::File(representations) => decide_file(head, representations, now),
        Resource::Denied => Decision::Reject(Status::FORBIDDEN),
        Resource::Folder | Resource::Missing => match absent(path, resource, listing) {
            Some(status) => Decision::Absent(status),
            // A listing exists and has no validators: only `*` matches it.
            None if path.is_folder() => {
                Decision::List(conditional::evaluate(head, Some(&Validators::default()), now))
            }
            None => Decision::RedirectToFolder,
        },
    }
}

/// For every method: the status, if there is nothing to serve.
pub fn absent(path: &SafePath<'_>, resource: &Resource, listing: Listing) -> Option<Status> {
    match (resource, listing) {
        (Resource::Missing, _) => Some(Status::NOT_FOUND),
        (Resource::Folder, Listing::Off) if path.is_folder() => Some(Status::FORBIDDEN),
        (Resource::Folder | Resource::Denied | Resource::File(_), _) => None,
    }
}

/// The methods that files take, as the value of `Allow`.
pub const ALLOW: &str = "GET, HEAD, OPTIONS";

/// The status for a method that files do not take. `None`: files take it.
pub fn reject_method(method: Method) -> Option<Status> {
    match method {
        Method::Get | Method::Head | Method::Options => None,
        Method::Unknown => Some(Status::NOT_IMPLEMENTED),
        _ => Some(Status::METHOD_NOT_ALLOWED),
    }
}

#[inline]
fn decide_file(head: &Head<'_>, representations: &[Representation], now: i64) -> Decision {
    let chosen = choose(head, representations);
    if !head.names.intersects(Names::CONDITIONAL | Names::RANGE) {
        return Decision::Full(chosen);
    }
    let Representation { size, ref etag, modified, .. } = representations[chosen];
    let validators = Validators { etag: etag.as_deref(), modified };
    match conditional::evaluate(head, Some(&validators), now) {
        Verdict::NotModified => return Decision::NotModified(chosen),
        Verdict::PreconditionFailed => return Decision::Reject(Status::PRECONDITION_FAILED),
        Verdict::Proceed => {}
    }
    // Range is defined for GET alone (RFC 9110 §14.2). A part of an unknown size cannot be named.
    let (Method::Get, Some(size), Some(range)) = (head.method, size, head.only("range")) else {
        return Decision::Full(chosen);
    };
    if !conditional::range_applies(head, &validators, now) {
        return Decision::Full(chosen);
    }
    match range::select(range, size) {
        Selection::Whole => Decision::Full(chosen),
        Selection::One(part) => Decision::Part(chosen, part),
        Selection::Many(parts) => Decision::Parts(chosen, parts),
        Selection::Unsatisfiable => Decision::Unsatisfiable(chosen),
    }
}

/// The representation with the content coding that the client prefers.
#[inline]
fn choose(head: &Head<'_>, representations: &[Representation]) -> usize {
    if representations.len() == 1 || !head.names.contains(Names::ACCEPT_ENCODING) {
        return 0;
    }
    // In the server's order of preference. `negotiate` skips the identity.
    let mut available = [Coding::Identity; 4];
    for (coding, representation) in available.iter_mut().zip(representations) {
        *coding = representation.coding;
    }
    let coding = negotiate::choose(head.values("accept-encoding"), &available);
    representations.iter().position(|one| one.coding == coding).unwrap_or(0)
}
