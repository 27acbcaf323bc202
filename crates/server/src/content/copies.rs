//! Compressed copies of files, which are made once, in the background, and kept in the cache.
//!
//! Knows nothing of the request for which a copy is made.

use std::fs::File;
use std::io::{self, Write};
use std::rc::Rc;

use rustix::fs::{MemfdFlags, memfd_create};
use site::compress::Kept;
use site::model::CacheLimits;
use taipan_http::negotiate::Coding;
use taipan_http::target::SafePath;

use crate::encoder::{self, Effort};
use crate::files::HostKey;
use crate::files::beneath::{OpenError, Wait};
use crate::files::encoded::{Encoded, Source};
use crate::files::open::stat;
use crate::files::{Entry, Files};
use crate::log;
use crate::tasks::spawn_local;

/// With less for the cache, descriptors are few.
const FEW_DESCRIPTORS: usize = 128;
/// Percent of the file. A copy that is not smaller does not gain.
const GAIN: usize = 95;

/// What one closure results in.
enum Outcome {
    Encoded(Encoded),
    NoGain,
    Changed,
}

/// Makes the copy in the background. Does nothing if it is being made, or if too many others are.
pub fn make(files: &Rc<Files>, host: HostKey, path: &SafePath<'_>, entry: &Rc<Entry>, coding: Coding) {
    let Some(permit) = files.copies.take() else { return };
    let Some(making) = entry.begin(coding) else { return };
    let Some(source) = entry.source() else { return };
    let effort = match files.services.route(host.host(), path).files.compress.kept {
        Kept::Strong => Effort::Strong,
        Kept::Quick | Kept::Nothing => Effort::Quick,
    };
    let inline = inline(&files.services.site.cache);
    let work = move || encode(source, coding, effort, inline);
    let Some(result) = files.services.background.run(work) else { return };
    let (files, path, entry) = (files.clone(), path.clone().into_owned(), entry.clone());
    spawn_local(async move {
        let _permit = permit;
        match result.await {
            Ok(Ok(Outcome::Encoded(encoded))) => {
                files.add_encoded(host, &path, &entry, coding, Some(encoded))
            }
            Ok(Ok(Outcome::NoGain)) => files.add_encoded(host, &path, &entry, coding, None),
            Ok(Ok(Outcome::Changed)) => {}
            // It would fail again.
            Ok(Err(error)) => {
                log::warn(format_args!("{path} is not compressed: {error}"));
                files.add_encoded(host, &path, &entry, coding, None);
            }
            Err(_) => files.add_encoded(host, &path, &entry, coding, None),
        }
        drop(making);
    });
}

fn encode(source: Source, coding: Coding, effort: Effort, inline: usize) -> io::Result<Outcome> {
    let content = match source.read() {
        Ok(Some(content)) => content,
        Ok(None) => return Ok(Outcome::Changed),
        Err(OpenError::Local(errno)) => return Err(errno.into()),
        Err(_) => return Ok(Outcome::Changed),
    };
    let bytes = encoder::encode(coding, effort, &content)?;
    if !gains(&bytes, &content) {
        return Ok(Outcome::NoGain);
    }
    Ok(encoded(bytes, inline)?.map_or(Outcome::Changed, Outcome::Encoded))
}

pub(super) fn gains(bytes: &[u8], content: &[u8]) -> bool {
    bytes.len() <= content.len() * GAIN / 100
}

/// The most bytes of a copy that is kept without a descriptor. Where descriptors are few, all copies are: a file and
/// its copies may be sent at the same time.
pub(super) fn inline(cache: &CacheLimits) -> usize {
    if cache.descriptors < FEW_DESCRIPTORS { usize::MAX } else { cache.file as usize }
}

/// More than `inline` bytes become a file in memory, because large bodies are sent from files.
pub(super) fn encoded(bytes: Vec<u8>, inline: usize) -> io::Result<Option<Encoded>> {
    if bytes.len() <= inline {
        return Ok(Some(Encoded::Bytes(bytes)));
    }
    let mut file = File::from(memfd_create("compressed", MemfdFlags::CLOEXEC)?);
    file.write_all(&bytes)?;
    let fd = file.into();
    Ok(stat(&fd, Wait::Allowed).ok().map(|found| Encoded::File(fd, found.stamp)))
}
