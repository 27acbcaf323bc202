//! PROPFIND and PROPPATCH.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use dav::fields::Depth;
use dav::locks::{Lock, Locks, Touch};
use dav::multistatus::{self, PropStat, SUPPORTED_LOCKS};
use dav::properties::{LIVE, Properties, QUOTA_USED, is_live};
use dav::request::{BodyError, DAV, PropFind, parse_changes};
use dav::xml::Name;
use rustix::fs::{FileType, OFlags};
use site::model::{EtagFrom, FileRules, Symlinks};
use site::publishing::{DeepListing, Mode};
use taipan_http::date::{self, Civil};
use taipan_http::status::Status;

use super::{Exchange, Problem, Target, Use, href};
use crate::disk::{DevicePermit, Work};
use crate::files::beneath::{self, OpenError, Root, Wait};
use crate::files::open::{Stamp, Stat, stat};
use crate::files::stat_etag;
use crate::publishing::failure::Failure;
use crate::publishing::store::{Below, Found, Guard, Store};
use crate::publishing::tree::{Kind, Member, Reach, below};
use crate::publishing::usage;
use crate::request::Request;
use crate::response::{Body, BodyStream, NextChunk, Response};
use crate::response_head::HeadWriter;
use crate::services::Services;
use crate::sys::calls;

/// Resources that are described at once.
const AT_ONCE: usize = 64;
/// Bytes of descriptions after which no other resource is described at once.
const STEP_BYTES: usize = 64 * 1024;

/// What a response describes, and how.
#[derive(Clone)]
struct Description {
    store: Store,
    target: Below,
    /// The folder at `target`, whose members are described, too.
    base: Option<Root>,
    rules: Arc<FileRules>,
    prefix: String,
    find: Arc<PropFind>,
    locks: Arc<Locks>,
    now: i64,
}

/// What is said of one resource.
struct Resource<'d> {
    about: &'d Description,
    member: &'d Member,
    kind: Kind,
    stamp: Stamp,
    dead: Properties,
}

impl<'a> Exchange<'a> {
    pub(super) async fn find_properties(
        &mut self,
        request: Request<'_>,
        target: &Target<'a>,
    ) -> Result<Response, Problem> {
        let depth = self.depth()?;
        if depth == Depth::Infinity && target.route.publishing.deep_listing == DeepListing::Rejected {
            return Err(Problem::Precondition(Status::FORBIDDEN, "propfind-finite-depth"));
        }
        let find = PropFind::parse(&self.small_body().await?).map_err(rejected)?;
        let terms = self.terms_of_if(request, target).await?;
        let (below, now, rule) = (target.below.clone(), self.now, target.rules.symlinks);
        let look = move |store: &Store| {
            let found = beneath::open(&store.root, &below, rule, OFlags::PATH, Wait::Allowed)?;
            let (kind, locks) = (stat(&found, Wait::Allowed)?.kind, store.locks(now)?);
            terms.check_field(store, &locks, &below)?;
            Ok((kind, locks))
        };
        let (kind, locks) = self.on_disk(&target.store, look).await?;
        let kind = match kind {
            FileType::Directory => Kind::Folder,
            FileType::RegularFile if !target.path.is_folder() => Kind::File,
            _ => return Err(Status::NOT_FOUND.into()),
        };
        let mut members = VecDeque::from([Member { path: target.below.clone(), kind }]);
        let reach = match (kind, depth) {
            (Kind::Folder, Depth::One) => Some(Reach::Names),
            (Kind::Folder, Depth::Infinity) => Some(Reach::Device),
            _ => None,
        };
        let mut base = None;
        if let Some(reach) = reach {
            let (folder, others) = self.members(target, reach, Use::List).await?;
            base = Some(folder);
            members.extend(others);
        }
        let about = Description {
            store: target.store.clone(),
            target: target.below.clone(),
            base,
            rules: target.route.files.clone(),
            prefix: target.prefix.clone(),
            find: Arc::new(find),
            locks: Arc::new(locks),
            now: self.now,
        };
        let mut first = multistatus::BEGIN.to_owned();
        let (described, members) = describe(self.services, &about, members).await?;
        first.push_str(&described);
        if members.is_empty() {
            first.push_str(multistatus::END);
            return Ok(self.xml(target.route, Status::MULTI_STATUS, &first));
        }
        let permit =
            self.services.disk.admit_stream(target.store.root.device).ok_or(Status::SERVICE_UNAVAILABLE)?;
        let head = HeadWriter::new(self.services, Some(target.route), Status::MULTI_STATUS);
        let head = head.field("Content-Type", multistatus::CONTENT_TYPE).finish();
        let stream = Box::new(Descriptions { first: first.into_bytes(), about, members, _permit: permit });
        Ok(Response { body: Body::Stream(stream), ..Response::from_head(head) })
    }

    pub(super) async fn change_properties(
        &mut self,
        request: Request<'_>,
        target: &Target<'a>,
    ) -> Result<Response, Problem> {
        let changes = parse_changes(&self.small_body().await?).map_err(rejected)?;
        let present = self.present(target).await?;
        match present.found {
            Some(Found::Folder(_)) => {}
            Some(Found::File(_)) if !target.path.is_folder() => {}
            Some(Found::Other) => return Err(Status::FORBIDDEN.into()),
            Some(Found::File(_)) | None => return Err(Status::NOT_FOUND.into()),
        }
        self.may_do(request, &target.path, Use::Write, Kind::File).await?;
        let terms = self.terms(request, target, &present).await?;
        let names = |of: &dyn Fn(&Name) -> bool| {
            let mut elements = String::new();
            for change in changes.iter().filter(|change| of(change.name())) {
                multistatus::empty(change.name(), &mut elements);
            }
            elements
        };
        let is_rejected = changes.iter().any(|change| is_live(change.name()));
        let stats = match is_rejected {
            true => vec![
                PropStat {
                    status: Status::FORBIDDEN,
                    elements: names(&is_live),
                    error: Some("cannot-modify-protected-property"),
                },
                // All or nothing (RFC 4918 §9.2).
                PropStat {
                    status: Status::FAILED_DEPENDENCY,
                    elements: names(&|name| !is_live(name)),
                    error: None,
                },
            ],
            false => vec![PropStat { status: Status::OK, elements: names(&|_| true), error: None }],
        };
        let below = target.below.clone();
        let change = move |guard: &Guard| {
            guard.check(&terms, &below, Touch::Content)?.ok_or(Failure::Missing)?;
            if is_rejected { Ok(()) } else { guard.change_properties(&below, &changes) }
        };
        self.changing(target, change).await?;
        let mut body = multistatus::BEGIN.to_owned();
        multistatus::properties(&target.own_href(present.found), &stats, &mut body);
        body.push_str(multistatus::END);
        Ok(self.xml(target.route, Status::MULTI_STATUS, &body))
    }
}

/// The status for a body that is not what its method takes.
pub(super) fn rejected(error: BodyError) -> Problem {
    Problem::Status(match error {
        BodyError::Xml(_) => Status::BAD_REQUEST,
        BodyError::Meaningless => Status::UNPROCESSABLE_CONTENT,
        BodyError::TooLarge => Status::CONTENT_TOO_LARGE,
    })
}

/// Describes the first of `members` on a helper thread, and returns the others. Errors: `Missing` if the folder that
/// they are in has been moved, removed or replaced.
async fn describe(
    services: &Services,
    about: &Description,
    mut members: VecDeque<Member>,
) -> Result<(String, VecDeque<Member>), Problem> {
    let about = about.clone();
    let device = about.store.root.device;
    let work = move || {
        let mut out = String::new();
        for _ in 0..AT_ONCE {
            let Some(member) = members.pop_front() else { break };
            about.write(&member, &mut out)?;
            if out.len() >= STEP_BYTES {
                break;
            }
        }
        about.check_base()?;
        Ok((out, members))
    };
    let done: Result<Result<_, Failure>, _> = services.disk.run(device, Work::Listing, work).await;
    Ok(done.map_err(Problem::Busy)??)
}

/// A response that is made while it is sent.
struct Descriptions {
    first: Vec<u8>,
    about: Description,
    members: VecDeque<Member>,
    _permit: DevicePermit,
}

impl BodyStream for Descriptions {
    fn next<'n>(&'n mut self, services: &'n Services) -> NextChunk<'n> {
        Box::pin(self.next_chunk(services))
    }
}

impl Descriptions {
    async fn next_chunk(&mut self, services: &Services) -> io::Result<Option<Vec<u8>>> {
        if !self.first.is_empty() {
            return Ok(Some(std::mem::take(&mut self.first)));
        }
        // Members that have been removed since the listing have no description: look at the next ones.
        while !self.members.is_empty() {
            let members = std::mem::take(&mut self.members);
            let described = describe(services, &self.about, members).await;
            let (mut out, rest) = described.map_err(|_| io::Error::other("a folder cannot be read"))?;
            self.members = rest;
            if self.members.is_empty() {
                out.push_str(multistatus::END);
            }
            if !out.is_empty() {
                return Ok(Some(out.into_bytes()));
            }
        }
        Ok(None)
    }
}

impl Description {
    /// Describes a resource, unless it has been removed, or may not be read.
    fn write(&self, member: &Member, out: &mut String) -> Result<(), Failure> {
        let found =
            beneath::open(&self.store.root, &member.path, self.rules.symlinks, OFlags::PATH, Wait::Allowed);
        let found = match found {
            Err(OpenError::Missing) => return self.check_removed(&member.path),
            Err(OpenError::Denied) => return Ok(()),
            found => found?,
        };
        let Stat { kind, stamp, .. } = stat(&found, Wait::Allowed)?;
        let kind = match kind {
            FileType::Directory => Kind::Folder,
            FileType::RegularFile => Kind::File,
            _ => return Ok(()),
        };
        let dead = self.store.properties(&member.path)?;
        let resource = Resource { about: self, member, kind, stamp, dead };
        let stats = match &*self.find {
            PropFind::All(others) => resource.all(others),
            PropFind::Names => resource.names(),
            PropFind::These(names) => resource.these(names),
        };
        multistatus::properties(&href(&self.prefix, member.path.as_str(), kind), &stats, out);
        Ok(())
    }

    /// Errors: `Missing` if what is not at `path` has not been removed from the folder, but has moved with it.
    fn check_removed(&self, path: &Below) -> Result<(), Failure> {
        let Some(base) = &self.base else { return Err(Failure::Missing) };
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        match beneath::open(base, &below(path, &self.target)?, Symlinks::Never, flags, Wait::Allowed) {
            Ok(_) => Err(Failure::Missing),
            Err(_) => Ok(()),
        }
    }

    fn check_base(&self) -> Result<(), Failure> {
        match &self.base {
            Some(base) if !base.is_beneath(&self.store.root, &self.target, self.rules.symlinks)? => {
                Err(Failure::Missing)
            }
            _ => Ok(()),
        }
    }
}

impl Resource<'_> {
    fn all(&self, others: &[Name]) -> Vec<PropStat> {
        let mut names: Vec<Name> = LIVE.iter().map(|local| Name::new(DAV, local)).collect();
        // RFC 4331 §3: not without being asked for.
        names.retain(|name| !name.local.starts_with("quota-") && self.live(&name.local).is_some());
        names.extend(self.dead.iter().map(|(name, _)| name.clone()));
        names.extend(others.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
        self.these(&names)
    }

    fn names(&self) -> Vec<PropStat> {
        let mut elements = String::new();
        for local in LIVE.iter().filter(|local| self.live(local).is_some()) {
            multistatus::empty(&Name::new(DAV, local), &mut elements);
        }
        self.dead.iter().for_each(|(name, _)| multistatus::empty(name, &mut elements));
        vec![PropStat { status: Status::OK, elements, error: None }]
    }

    fn these(&self, names: &[Name]) -> Vec<PropStat> {
        let (mut found, mut missing) = (String::new(), String::new());
        for name in names {
            let live = if name.namespace == DAV { self.live(&name.local) } else { None };
            match live.as_deref().or_else(|| self.dead.get(name)) {
                Some(element) => found.push_str(element),
                None => multistatus::empty(name, &mut missing),
            }
        }
        if found.is_empty() && missing.is_empty() {
            // A response has at least one `propstat`.
            found.push(' ');
        }
        vec![
            PropStat { status: Status::OK, elements: found, error: None },
            PropStat { status: Status::NOT_FOUND, elements: missing, error: None },
        ]
    }

    /// The element of a property that the server knows. `None`: this resource has none.
    fn live(&self, local: &str) -> Option<String> {
        let (mut out, is_file) = (String::new(), self.kind == Kind::File);
        let text = |value: &str| {
            let mut out = String::new();
            multistatus::text(local, value, &mut out);
            Some(out)
        };
        match local {
            "resourcetype" if is_file => Some("<D:resourcetype/>".to_owned()),
            "resourcetype" => Some("<D:resourcetype><D:collection/></D:resourcetype>".to_owned()),
            "getcontentlength" if is_file => text(&self.stamp.size.to_string()),
            "getcontenttype" if is_file => text(self.about.rules.types.lookup(self.member.path.name())),
            "getetag" if is_file && self.has_tag() => {
                text(&String::from_utf8_lossy(&stat_etag(&self.stamp, "")))
            }
            "getlastmodified" => {
                let time = self.stamp.last_modified()?.min(self.about.now);
                text(&String::from_utf8_lossy(&date::format(time)))
            }
            "creationdate" => text(&timestamp(self.stamp.modified_seconds().min(self.about.now))),
            "supportedlock" if self.has_locks() => Some(SUPPORTED_LOCKS.to_owned()),
            "lockdiscovery" if self.has_locks() => {
                let locks = self.about.locks.on(self.member.path.as_str());
                let locks: Vec<(&Lock, String)> = locks.map(|lock| (lock, self.root_of(lock))).collect();
                let locks = locks.iter().map(|(lock, href)| (*lock, href.as_str()));
                multistatus::lock_discovery(locks, self.about.now, &mut out);
                Some(out)
            }
            "quota-available-bytes" if !is_file => text(&self.available()?.to_string()),
            QUOTA_USED if !is_file => {
                self.about.store.settings.quota?;
                text(&usage::used(&self.about.store.root.path).to_string())
            }
            _ => None,
        }
    }

    /// Whether GET sends an entity tag that is known without the content.
    fn has_tag(&self) -> bool {
        self.about.rules.etag == EtagFrom::Stat && self.stamp.makes_tag(&self.about.store.settings)
    }

    fn has_locks(&self) -> bool {
        self.about.store.settings.mode == Mode::WebDav
    }

    /// The encoded path of what a lock was made for.
    fn root_of(&self, lock: &Lock) -> String {
        let is_own = lock.path == self.member.path.as_str();
        let kind = if is_own { self.kind } else { Kind::Folder };
        href(&self.about.prefix, &lock.path, kind)
    }

    /// Bytes that may still be written.
    fn available(&self) -> Option<u64> {
        let Store { root, settings } = &self.about.store;
        let free = calls::free_space(&root.fd).ok()?.saturating_sub(settings.min_free);
        Some(settings.quota.map_or(free, |quota| free.min(quota.saturating_sub(usage::used(&root.path)))))
    }
}

/// A time as RFC 3339 has it.
fn timestamp(time: i64) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = date::civil(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
