//! The files that a page consists of, and the validators of its content: where files alone decide it, their stamps do.

use std::rc::Rc;

use site::decide::{Decision, Resource};
use site::model::EtagFrom;
use site::plan::PlannedRoot;
use ssi::reference::Reference;
use taipan_http::target::SafePath;
use twox_hash::XxHash3_128;

use super::super::Exchange;
use super::assembly::Audience;
use crate::files::Entry;
use crate::files::open::Stamp;
use crate::files::page::PageContent;

/// Pages and files of one page that are compared. A page with more has no validators.
const MAX_PARTS: usize = 64;

pub struct Parts {
    /// Seconds since 1970, of the newest part.
    pub modified: i64,
    pub audience: Audience,
    stamps: Vec<u8>,
    count: usize,
}

impl Parts {
    /// The entity tag of the content.
    pub fn etag(&self, from: EtagFrom) -> Option<Vec<u8>> {
        let hash = || format!("\"{:032x}\"", XxHash3_128::oneshot(&self.stamps)).into_bytes();
        (from != EtagFrom::Off).then(hash)
    }

    /// `None`: another file may have the same stamp in the next image.
    fn add(&mut self, stamp: &Stamp) -> Option<()> {
        self.modified = self.modified.max(stamp.last_modified()?);
        self.count += 1;
        for number in [stamp.inode, stamp.size, stamp.modified as u64, stamp.changed as u64] {
            self.stamps.extend_from_slice(&number.to_le_bytes());
        }
        Some(())
    }
}

impl Exchange<'_> {
    /// The parts of the page at `path`. `None`: more than files that the client may have decides its content, or not all
    /// of them have a time.
    pub(super) async fn parts(&self, path: &SafePath<'_>, entry: &Rc<Entry>) -> Option<Parts> {
        let mut parts = Parts { modified: i64::MIN, audience: Audience::All, stamps: Vec::new(), count: 0 };
        parts.add(entry.stamp()?)?;
        // Pages whose parts have not been looked at.
        let mut pages = vec![(path.clone().into_owned(), entry.clone())];
        while let Some((path, entry)) = pages.pop() {
            let PageContent::Parsed(page) = &entry.page.as_ref()?.content else { return None };
            let base = path.encoded();
            for reference in page.parts()? {
                if parts.count == MAX_PARTS {
                    return None;
                }
                let (path, entry) = self.part(&reference, &base).await?;
                parts.add(entry.stamp()?)?;
                if self.responder.needs.rules && self.depends_on_client(&path) {
                    parts.audience = Audience::Client;
                }
                if entry.page.is_some() {
                    pages.push((path, entry));
                }
            }
        }
        Some(parts)
    }

    /// The file that a reference leads to. `None`: there is none, the client may not have it, or it is not certain.
    async fn part(&self, reference: &Reference, base: &str) -> Option<(SafePath<'static>, Rc<Entry>)> {
        let target = reference.resolve(base).ok()?;
        let path = target.split('?').next().unwrap_or_default();
        let path = SafePath::parse(path).ok()?.into_owned();
        let needs = &self.responder.needs;
        let plan = self.plan(path.clone());
        if plan.walk.is_some() || (needs.authorizers && self.must_authorize(&path, plan.route)) {
            return None;
        }
        if needs.rules {
            self.check_access(&path).ok()?;
        }
        let planned = plan.files()?;
        if let PlannedRoot::OfUser(_) = planned.root {
            return None;
        }
        let entry = self.find(&path, &planned).await.ok()?;
        // One of several languages is chosen for each client.
        if !matches!(entry.resource, Resource::File(..) | Resource::Page) || entry.has_alternates() {
            return None;
        }
        if needs.rules || needs.authorizers {
            self.check_served(&path, &entry, &Decision::Full(0)).ok()?;
        }
        Some((path, entry))
    }
}
