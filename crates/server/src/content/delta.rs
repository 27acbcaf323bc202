//! Files for clients that have an earlier version, which is the dictionary of the new one (RFC 9842). Deltas are made
//! once, in the background, and kept with their file.
//!
//! An earlier version is known if this worker has sent it, or if it is in the folder of the file.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};
use rustix::io::retry_on_intr;
use site::compress::{CompressRules, available_dictionary};
use site::cors::may_read;
use site::listing::is_listed;
use site::model::{Dotfiles, Symlinks};
use taipan_http::head::{Head, Names};
use taipan_http::negotiate::{self, Coding};
use taipan_http::path_text;
use taipan_http::target::SafePath;

use super::copies;
use crate::encoder::{self, delta};
use crate::files::HostKey;
use crate::files::beneath::{self, OpenError, READ, Root, Wait};
use crate::files::deltas::{Delta, Deltas, Hash};
use crate::files::encoded::{Encoded, Source};
use crate::files::open::{Stat, read, stat};
use crate::files::{Entry, Files};
use crate::sys::calls;
use crate::tasks::spawn_local;

/// What a search for a dictionary reads at most.
const NAMES: usize = 10_000;
const CANDIDATES: usize = 64;
const LARGEST: u64 = 8 * 1024 * 1024;
const BYTES: u64 = 64 * 1024 * 1024;

/// The file as a delta to what the client has. `None`: the client has nothing, or the delta is not made yet.
pub fn find(
    files: &Rc<Files>,
    host: HostKey,
    path: &SafePath<'_>,
    entry: &Rc<Entry>,
    head: &Head<'_>,
) -> Option<Rc<Entry>> {
    let deltas = entry.deltas.as_ref()?;
    remember(files, entry, deltas);
    let hash = available_dictionary(head.only("available-dictionary")?)?;
    // The parts of a file are those without a coding.
    if head.names.contains(Names::RANGE) {
        return None;
    }
    let route = files.services.route(host.host(), path);
    if !may_read(head, route.cors.as_deref()) {
        return None;
    }
    let rules = &route.files.compress;
    let coding = negotiate::choose(head.values("accept-encoding"), &codings(rules));
    match deltas.get(&hash, coding) {
        _ if !matches!(coding, Coding::Dcb | Coding::Dcz) => None,
        Some(Delta::Ready(delta)) => Some(delta),
        Some(Delta::Making | Delta::None) => None,
        None => {
            make(files, host, path, entry, (hash, coding));
            None
        }
    }
}

/// Those with a dictionary, in the order of the codings that they are made of, and then these codings.
fn codings(rules: &CompressRules) -> [Coding; 6] {
    let delta = |coding| match coding {
        Coding::Br => Coding::Dcb,
        Coding::Zstd => Coding::Dcz,
        _ => Coding::Identity,
    };
    let deltas = rules.codings.iter().map(delta).filter(|coding| encoder::encodes(*coding));
    let mut codings = [Coding::Identity; 6];
    for (place, coding) in codings.iter_mut().zip(deltas.chain(rules.codings.iter())) {
        *place = coding;
    }
    codings
}

/// Makes the content of an entry a dictionary, before it changes.
fn remember(files: &Rc<Files>, entry: &Entry, deltas: &Deltas) {
    if deltas.is_remembered.replace(true) {
        return;
    }
    let Some(source) = entry.source() else { return };
    let work = move || {
        let content = source.read().ok()??;
        Some((delta::hash(&content), Arc::new(content)))
    };
    let Some(result) = files.services.background.run(work) else {
        deltas.is_remembered.set(false);
        return;
    };
    let files = files.clone();
    spawn_local(async move {
        if let Ok(Some((hash, content))) = result.await {
            files.dictionaries.insert(hash, content);
        }
    });
}

/// Makes a delta in the background.
fn make(
    files: &Rc<Files>,
    host: HostKey,
    path: &SafePath<'_>,
    entry: &Rc<Entry>,
    (hash, coding): (Hash, Coding),
) {
    let (Some(source), Some(deltas)) = (entry.source(), entry.deltas.clone()) else { return };
    let dictionary = match files.dictionaries.get(&hash) {
        Some(content) => Dictionary::Known(content),
        None => match search(files, host, path, hash) {
            Some(search) => Dictionary::Search(search),
            None => return,
        },
    };
    let inline = copies::inline(&files.services.site.cache);
    let work = move || encode(dictionary, source, coding, inline);
    let Some(result) = files.services.background.run(work) else { return };
    deltas.set(hash, coding, Delta::Making);
    let (files, path, entry) = (files.clone(), path.clone().into_owned(), entry.clone());
    spawn_local(async move {
        match result.await {
            Ok(Ok((dictionary, Some(encoded)))) => {
                files.dictionaries.insert(hash, dictionary);
                files.add_delta(host, &path, &entry, (hash, coding), Some(encoded));
            }
            Ok(Ok((dictionary, None))) => {
                files.dictionaries.insert(hash, dictionary);
                files.add_delta(host, &path, &entry, (hash, coding), None);
            }
            // The dictionary is not there, or a file has changed. It may be there later.
            Ok(Err(_)) | Err(_) => deltas.remove(&hash, coding),
        }
    });
}

/// What a delta is made with.
enum Dictionary {
    Known(Arc<Vec<u8>>),
    Search(Search),
}

/// The dictionary, and the delta, if it is smaller. Errors: there is no such dictionary, or a file cannot be read.
fn encode(
    dictionary: Dictionary,
    source: Source,
    coding: Coding,
    inline: usize,
) -> io::Result<(Arc<Vec<u8>>, Option<Encoded>)> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let dictionary = match dictionary {
        Dictionary::Known(content) => content,
        Dictionary::Search(search) => Arc::new(search.run().map_err(|_| gone())?.ok_or_else(gone)?),
    };
    let content = source.read().map_err(|_| gone())?.ok_or_else(gone)?;
    let encoded = match delta::encode(coding, &dictionary, &content)? {
        Some(bytes) if copies::gains(&bytes, &content) => copies::encoded(bytes, inline)?,
        _ => None,
    };
    Ok((dictionary, encoded))
}

/// A search for a dictionary among the files of a folder.
struct Search {
    root: Root,
    folder: SafePath<'static>,
    symlinks: Symlinks,
    /// The end of the names.
    extension: String,
    hash: Hash,
}

/// `None`: the folder was searched not long ago.
fn search(files: &Rc<Files>, host: HostKey, path: &SafePath<'_>, hash: Hash) -> Option<Search> {
    let now = files.services.clock.now();
    let plan = site::plan::plan(files.services.site.hosts.at(host.host()), path.clone(), None);
    let planned = plan.files()?;
    let below = planned.below();
    let folders = below.segments().count().saturating_sub(usize::from(!below.is_folder()));
    let folder = below.first_segments(folders)?.into_owned();
    let extension = match below.name().rsplit_once('.') {
        Some((_, extension)) if !below.is_folder() => format!(".{extension}"),
        _ => return None,
    };
    if !files.dictionaries.may_search(host, folder.as_str(), now) {
        return None;
    }
    let root = files.root(host, &planned, now).ok()?;
    Some(Search { root, folder, symlinks: planned.rules.symlinks, extension, hash })
}

impl Search {
    /// The content of the file with the hash.
    fn run(self) -> Result<Option<Vec<u8>>, OpenError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = beneath::open(&self.root, &self.folder, self.symlinks, flags, Wait::Allowed)?;
        let mut folder = retry_on_intr(|| calls::open_folder(&fd))?;
        let mut candidates = Vec::new();
        for _ in 0..NAMES {
            let Some(found) = calls::next_entry(&mut folder) else { break };
            let found = found?;
            let name = &*path_text::of_bytes(found.file_name().to_bytes());
            if !name.ends_with(&self.extension) || !is_listed(name, Dotfiles::Deny) {
                continue;
            }
            let Some(path) = self.folder.join(name) else { continue };
            let Ok(file) = beneath::open(&self.root, &path, self.symlinks, READ, Wait::Allowed) else {
                continue;
            };
            if let Ok(Stat { kind: FileType::RegularFile, stamp, .. }) = stat(&file, Wait::Allowed)
                && stamp.size <= LARGEST
            {
                candidates.push((stamp, path));
            }
        }
        // A client is likely to have a recent one.
        sort::by_key(&mut candidates, |(stamp, _)| std::cmp::Reverse(stamp.modified));
        let mut left = BYTES;
        for (stamp, path) in candidates.into_iter().take(CANDIDATES) {
            let Some(after) = left.checked_sub(stamp.size) else { break };
            left = after;
            let file = beneath::open(&self.root, &path, self.symlinks, READ, Wait::Allowed)?;
            if let Some(content) = read(&file, 0, stamp.size as usize, Wait::Allowed)?
                && delta::hash(&content) == self.hash
            {
                return Ok(Some(content));
            }
        }
        Ok(None)
    }
}
