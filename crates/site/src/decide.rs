//! The decision: which response a request for a file or a folder gets. The order is that of RFC 9110: the resource,
//! then preconditions (§13), then ranges (§14).
//!
//! Knows nothing of how a file is read or a response is sent.

use std::sync::Arc;

use taipan_http::conditional::{self, Validators, Verdict};
use taipan_http::etag;
use taipan_http::head::{Head, Method, Names};
use taipan_http::negotiate::{self, Coding};
use taipan_http::range::{self, ByteRange, Selection};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use crate::compress::{Codings, tag_suffix};
use crate::image_map::ImageMap;
use crate::model::Listing;

/// The resource of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    Missing,
    /// No permission, or neither file nor folder.
    Denied,
    /// A folder without an index file.
    Folder,
    /// A file that does not say what its response is.
    Broken,
    /// A whole response, which preconditions and ranges do not apply to (RFC 9110 §13.2.1). It is the only
    /// representation.
    Fixed,
    ImageMap(Arc<ImageMap>),
    /// A file with directives, whose content is made for each request.
    Page,
    /// At least one representation. The one without a content coding is the first, if there is one.
    File(Vec<Representation>, Offer),
}

/// The codings in which the server compresses a file without precompressed files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    Nothing,
    /// Once. Of each coding that is made, there is a representation.
    Kept(Codings),
    /// Each time, while the file is sent.
    Streamed(Codings),
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
    /// The file, compressed while it is sent.
    Stream(Coding),
    /// The second one, until the file has been compressed in this coding. `None`: the file, compressed while it is
    /// sent, because the client takes none of those that there are.
    Make(Coding, Option<usize>),
    NotModified(Selected),
    Part(usize, ByteRange),
    Parts(usize, Vec<ByteRange>),
    Unsatisfiable(usize),
    /// To the same path with a slash at its end.
    RedirectToFolder,
    /// The directives of the page are carried out.
    Assemble,
    /// A listing. The preconditions count only if the listing succeeds (RFC 9110 §13.2.1).
    List(Verdict),
    /// Where the query of the request leads.
    Click(Arc<ImageMap>),
    /// There is nothing to serve. The fallback responds, or else the server with this status.
    Absent(Status),
    Reject(Status),
}

/// The representation that the client has already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected {
    Ready(usize),
    /// The server makes it. The tag is the one that it has then.
    Unmade(Option<Vec<u8>>),
}

impl Decision {
    /// The index of the representation that is sent. `None`: none is.
    pub fn representation(&self) -> Option<usize> {
        match self {
            Decision::Full(chosen) | Decision::Make(_, Some(chosen)) => Some(*chosen),
            Decision::Part(chosen, _) | Decision::Parts(chosen, _) => Some(*chosen),
            Decision::Stream(_) | Decision::Make(_, None) | Decision::Assemble => Some(0),
            _ => None,
        }
    }
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
        Resource::File(representations, offer) => decide_file(head, representations, *offer, now),
        Resource::Denied => Decision::Reject(Status::FORBIDDEN),
        Resource::Broken => Decision::Reject(Status::INTERNAL_SERVER_ERROR),
        Resource::Fixed => Decision::Full(0),
        Resource::ImageMap(map) => Decision::Click(map.clone()),
        Resource::Page => Decision::Assemble,
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
        (Resource::Folder | Resource::Denied | Resource::File(..), _) => None,
        (Resource::Broken | Resource::Fixed | Resource::ImageMap(_) | Resource::Page, _) => None,
    }
}

/// The methods that files take, as the value of `Allow`.
pub const ALLOW: &str = crate::publishing::READING;

/// As `ALLOW`, of scripts, of applications and of other servers: each decides by itself about these, and may take more.
pub const ALLOW_OF_PROGRAMS: &str = "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH";

/// The status for a method that files do not take. `None`: files take it.
pub fn reject_method(method: Method) -> Option<Status> {
    match method {
        Method::Get | Method::Head | Method::Options => None,
        Method::Unknown => Some(Status::NOT_IMPLEMENTED),
        _ => Some(Status::METHOD_NOT_ALLOWED),
    }
}

/// The chosen coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chosen {
    Ready(usize),
    Unmade(Coding),
}

#[inline]
fn decide_file(head: &Head<'_>, representations: &[Representation], offer: Offer, now: i64) -> Decision {
    let chosen = match offer {
        // A part of what the server compresses has no use: it may be made anew, or not at all.
        Offer::Kept(_) | Offer::Streamed(_) if wants_part(head, &representations[0], now) => Chosen::Ready(0),
        _ => choose(head, representations, offer),
    };
    if !head.names.intersects(Names::CONDITIONAL | Names::RANGE) {
        return full(head, representations, offer, chosen);
    }
    let chosen = match evaluate(head, representations, offer, chosen, now) {
        (Verdict::NotModified, Chosen::Ready(chosen)) => {
            return Decision::NotModified(Selected::Ready(chosen));
        }
        (Verdict::NotModified, Chosen::Unmade(coding)) => {
            let tag = unmade_tag(&representations[0], offer, coding);
            return Decision::NotModified(Selected::Unmade(tag));
        }
        (Verdict::PreconditionFailed, _) => return Decision::Reject(Status::PRECONDITION_FAILED),
        (Verdict::Proceed, chosen) => chosen,
    };
    let full = || full(head, representations, offer, chosen);
    let Chosen::Ready(at) = chosen else { return full() };
    if is_made(offer, at) {
        return full();
    }
    let Representation { size, ref etag, modified, .. } = representations[at];
    // Range is defined for GET alone (RFC 9110 §14.2). A part of an unknown size cannot be named.
    let (Method::Get, Some(size), Some(range)) = (head.method, size, head.only("range")) else {
        return full();
    };
    if !conditional::range_applies(head, &Validators { etag: etag.as_deref(), modified }, now) {
        return full();
    }
    match range::select(range, size) {
        Selection::Whole => full(),
        Selection::One(part) => Decision::Part(at, part),
        Selection::Many(parts) => Decision::Parts(at, parts),
        Selection::Unsatisfiable => Decision::Unsatisfiable(at),
    }
}

#[inline]
fn full(head: &Head<'_>, representations: &[Representation], offer: Offer, chosen: Chosen) -> Decision {
    match (chosen, offer) {
        (Chosen::Ready(at), _) => Decision::Full(at),
        (Chosen::Unmade(coding), Offer::Kept(codings)) => {
            let ready = codings.only(|coding| position(representations, coding).is_some());
            let meanwhile = negotiate::choose(head.values("accept-encoding"), ready.as_slice());
            let is_acceptable = negotiate::accepts(head.values("accept-encoding"), meanwhile);
            let meanwhile = is_acceptable.then(|| position(representations, meanwhile).unwrap_or(0));
            Decision::Make(coding, meanwhile)
        }
        (Chosen::Unmade(coding), Offer::Streamed(_) | Offer::Nothing) => Decision::Stream(coding),
    }
}

/// The result of the preconditions, and for which representation. Where the server compresses the file, the client may
/// also have the one without a coding, from before.
fn evaluate(
    head: &Head<'_>,
    representations: &[Representation],
    offer: Offer,
    chosen: Chosen,
    now: i64,
) -> (Verdict, Chosen) {
    let evaluate = |etag: Option<&[u8]>| {
        let modified = representations[0].modified;
        conditional::evaluate(head, Some(&Validators { etag, modified }), now)
    };
    let (verdict, is_made) = match chosen {
        Chosen::Ready(at) => {
            let Representation { etag, modified, .. } = &representations[at];
            let validators = Validators { etag: etag.as_deref(), modified: *modified };
            (conditional::evaluate(head, Some(&validators), now), is_made(offer, at))
        }
        Chosen::Unmade(coding) => (evaluate(unmade_tag(&representations[0], offer, coding).as_deref()), true),
    };
    if is_made && verdict != Verdict::NotModified {
        let plain = evaluate(representations[0].etag.as_deref());
        if plain != verdict && plain != Verdict::PreconditionFailed {
            return (plain, Chosen::Ready(0));
        }
    }
    (verdict, chosen)
}

/// Whether a part of the file as it is could be the response. If the client has another representation, or an older one,
/// it gets the whole in the coding that it prefers (RFC 9110 §13.1.5).
#[inline]
fn wants_part(head: &Head<'_>, plain: &Representation, now: i64) -> bool {
    head.method == Method::Get
        && head.names.contains(Names::RANGE)
        && conditional::range_applies(
            head,
            &Validators { etag: plain.etag.as_deref(), modified: plain.modified },
            now,
        )
}

/// Whether the server has compressed this representation.
fn is_made(offer: Offer, at: usize) -> bool {
    offer != Offer::Nothing && at > 0
}

/// The tag of a representation that the server makes. What is made while it is sent has a weak one, because the same
/// bytes need not come again (RFC 9110 §8.8.1).
fn unmade_tag(plain: &Representation, offer: Offer, coding: Coding) -> Option<Vec<u8>> {
    let tag = plain.etag.as_deref()?;
    Some(match offer {
        Offer::Kept(_) => etag::with_suffix(tag, tag_suffix(coding)),
        Offer::Streamed(_) | Offer::Nothing => etag::weak(tag),
    })
}

fn position(representations: &[Representation], coding: Coding) -> Option<usize> {
    representations.iter().position(|one| one.coding == coding)
}

/// The coding that the client prefers, among those of the representations and of the offer.
#[inline]
fn choose(head: &Head<'_>, representations: &[Representation], offer: Offer) -> Chosen {
    if !head.names.contains(Names::ACCEPT_ENCODING) {
        return Chosen::Ready(0);
    }
    let coding = match offer {
        Offer::Nothing if representations.len() == 1 => return Chosen::Ready(0),
        Offer::Nothing => {
            // In the server's order of preference. `negotiate` skips the identity.
            let mut available = [Coding::Identity; 4];
            for (coding, representation) in available.iter_mut().zip(representations) {
                *coding = representation.coding;
            }
            negotiate::choose(head.values("accept-encoding"), &available)
        }
        Offer::Kept(codings) | Offer::Streamed(codings) => {
            negotiate::choose(head.values("accept-encoding"), codings.as_slice())
        }
    };
    match (position(representations, coding), coding) {
        (Some(at), _) => Chosen::Ready(at),
        (None, Coding::Identity) => Chosen::Ready(0),
        (None, coding) => Chosen::Unmade(coding),
    }
}

/// The whole of a file, whatever the preconditions and ranges of the request are: the content of an error.
pub fn whole(head: &Head<'_>, resource: &Resource) -> Option<Decision> {
    match resource {
        Resource::File(representations, offer) => {
            Some(full(head, representations, *offer, choose(head, representations, *offer)))
        }
        Resource::Missing | Resource::Denied | Resource::Folder => None,
        Resource::Broken | Resource::Fixed | Resource::ImageMap(_) | Resource::Page => None,
    }
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    const ALL: [Coding; 3] = [Coding::Br, Coding::Zstd, Coding::Gzip];

    /// The decision for a request with these fields, for a file of which the codings of `made` are made.
    fn decision(method: &str, fields: &str, made: &[Coding], offer: Offer) -> Decision {
        let request = format!("{method} /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut store = FieldStore::new();
        let (head, _) = parse(request.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
        let one = |coding: Coding| Representation {
            coding,
            size: Some(100),
            etag: Some(format!("\"a{}\"", tag_suffix(coding)).into_bytes().into()),
            modified: Some(1),
        };
        let representations = [Coding::Identity].iter().chain(made).map(|coding| one(*coding)).collect();
        let path = SafePath::parse("/a").unwrap();
        decide(&head, &path, &Resource::File(representations, offer), Listing::Off, 100)
    }

    #[test]
    fn offers_codings_that_are_not_made_yet() {
        use Coding::*;
        let kept = Offer::Kept(Codings::new(ALL));
        let streamed = Offer::Streamed(Codings::new(ALL));
        let tag = |tag: &str| Decision::NotModified(Selected::Unmade(Some(tag.as_bytes().to_vec())));
        let ready = |at| Decision::NotModified(Selected::Ready(at));
        let part = |at| Decision::Part(at, ByteRange { from: 0, len: 10 });
        for (fields, made, offer, expected) in [
            ("", &[][..], kept, Decision::Full(0)),
            ("Accept-Encoding: gzip\r\n", &[], Offer::Nothing, Decision::Full(0)),
            ("Accept-Encoding: gzip\r\n", &[], kept, Decision::Make(Gzip, Some(0))),
            ("Accept-Encoding: gzip, br\r\n", &[], kept, Decision::Make(Br, Some(0))),
            ("Accept-Encoding: gzip, br\r\n", &[Gzip], kept, Decision::Make(Br, Some(1))),
            ("Accept-Encoding: gzip, br\r\n", &[Gzip, Br], kept, Decision::Full(2)),
            ("Accept-Encoding: gzip, br;q=0.5\r\n", &[Br], kept, Decision::Make(Gzip, Some(1))),
            ("Accept-Encoding: gzip;q=0.1, identity\r\n", &[Gzip], kept, Decision::Full(0)),
            ("Accept-Encoding: deflate\r\n", &[Gzip], kept, Decision::Full(0)),
            // RFC 9110 §12.5.3: the file without a coding is not acceptable.
            ("Accept-Encoding: gzip, identity;q=0\r\n", &[], kept, Decision::Make(Gzip, None)),
            ("Accept-Encoding: gzip, *;q=0\r\n", &[], kept, Decision::Make(Gzip, None)),
            ("Accept-Encoding: br, gzip;q=0.5, *;q=0\r\n", &[Gzip], kept, Decision::Make(Br, Some(1))),
            ("Accept-Encoding: gzip, *;q=0\r\n", &[Gzip], kept, Decision::Full(1)),
            ("Accept-Encoding: gzip\r\n", &[], streamed, Decision::Stream(Gzip)),
            // Parts are those of the plain file.
            ("Accept-Encoding: gzip\r\nRange: bytes=0-9\r\n", &[Gzip], kept, part(0)),
            ("Accept-Encoding: gzip\r\nRange: bytes=0-9\r\n", &[], streamed, part(0)),
            // A client that has another representation gets the whole of it.
            (
                "Accept-Encoding: gzip\r\nRange: bytes=0-9\r\nIf-Range: \"a-gzip\"\r\n",
                &[Gzip],
                kept,
                Decision::Full(1),
            ),
            (
                "Accept-Encoding: gzip\r\nRange: bytes=0-9\r\nIf-Range: \"a-gzip\"\r\n",
                &[],
                kept,
                Decision::Make(Gzip, Some(0)),
            ),
            (
                "Accept-Encoding: gzip\r\nRange: bytes=0-9\r\nIf-Range: W/\"a\"\r\n",
                &[],
                streamed,
                Decision::Stream(Gzip),
            ),
            ("Range: bytes=0-9\r\nIf-Range: \"a-gzip\"\r\n", &[Gzip], kept, Decision::Full(0)),
            (
                "Accept-Encoding: gzip\r\nRange: bytes=0-9\r\nIf-Range: \"a-gzip\"\r\nIf-None-Match: \"a-gzip\"\r\n",
                &[Gzip],
                kept,
                ready(1),
            ),
            ("Accept-Encoding: gzip\r\nRange: bytes=0-9\r\nIf-Range: \"a\"\r\n", &[Gzip], kept, part(0)),
            // The tags of both, made or not.
            ("Accept-Encoding: gzip\r\nIf-None-Match: \"a-gzip\"\r\n", &[Gzip], kept, ready(1)),
            ("Accept-Encoding: gzip\r\nIf-None-Match: \"a-gzip\"\r\n", &[], kept, tag("\"a-gzip\"")),
            (
                "Accept-Encoding: gzip\r\nIf-None-Match: \"a-br\"\r\n",
                &[],
                kept,
                Decision::Make(Gzip, Some(0)),
            ),
            ("Accept-Encoding: gzip\r\nIf-None-Match: \"a\"\r\n", &[Gzip], kept, ready(0)),
            ("Accept-Encoding: gzip\r\nIf-None-Match: \"a\"\r\n", &[], kept, ready(0)),
            ("Accept-Encoding: gzip\r\nIf-None-Match: \"b\"\r\n", &[Gzip], kept, Decision::Full(1)),
            ("If-None-Match: \"a-gzip\"\r\n", &[Gzip], kept, Decision::Full(0)),
            ("Accept-Encoding: gzip\r\nIf-None-Match: W/\"a\"\r\n", &[], streamed, tag("W/\"a\"")),
            ("Accept-Encoding: gzip\r\nIf-None-Match: \"b\"\r\n", &[], streamed, Decision::Stream(Gzip)),
            ("Accept-Encoding: gzip\r\nIf-Match: \"a\"\r\n", &[Gzip], kept, Decision::Full(0)),
            ("Accept-Encoding: gzip\r\nIf-Match: \"a-gzip\"\r\n", &[Gzip], kept, Decision::Full(1)),
            (
                "Accept-Encoding: gzip\r\nIf-Match: \"b\"\r\n",
                &[Gzip],
                kept,
                Decision::Reject(Status::PRECONDITION_FAILED),
            ),
        ] {
            assert_eq!(decision("GET", fields, made, offer), expected, "{fields}{made:?} {offer:?}");
        }
        // A range is nothing to HEAD.
        let fields = "Accept-Encoding: gzip\r\nRange: bytes=0-9\r\n";
        assert_eq!(decision("HEAD", fields, &[Gzip], kept), Decision::Full(1));
    }
}
