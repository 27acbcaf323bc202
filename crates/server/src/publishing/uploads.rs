//! Uploads that can be resumed: a file of what has been received, and a text with what else is known of it. All of it
//! runs on helper threads.

use dav::upload::{State, Upload};
use rustix::fs::AtFlags;

use super::failure::{Excess, Failure};
use super::new_file::NewFile;
use super::store::{Store, UPLOADS, read_text, replace};
use super::tree::names;
use super::usage;
use crate::sys::calls;

/// Uploads of one root that can be resumed. A further one is refused.
pub const MAX_UPLOADS: usize = 1000;
/// Uploads of one root that are complete, and still known to clients that ask. Those that end first are forgotten.
const MAX_COMPLETE: usize = 1000;
/// The end of the name of the text.
const TEXT: &str = ".text";

/// Whether a name is one of an upload: no other name of a client is opened.
pub fn is_token(token: &str) -> bool {
    token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
}

/// Begins an upload, and forgets those that have expired. Errors: `TooMany`.
pub fn begin(store: &Store, token: &str, upload: &Upload, now: i64) -> Result<NewFile, Failure> {
    if sweep(store, now)? >= MAX_UPLOADS {
        return Err(Failure::TooMany(Excess::Uploads));
    }
    save(store, token, upload)?;
    NewFile::create_upload(store, token)
}

/// Opens an upload. Errors: `Missing`, also for one that has expired; `Busy` if another request changes it, which keeps
/// it from expiring.
pub fn open(store: &Store, token: &str, now: i64) -> Result<(Upload, Option<NewFile>), Failure> {
    let mut upload = find(store, token)?;
    let file = match upload.state {
        State::Complete(_) => None,
        State::Incomplete => Some(NewFile::open_upload(store, token)?),
    };
    let expires = upload.expires_at(now);
    if expires <= now {
        return Err(Failure::Missing);
    }
    if upload.expires != expires {
        upload.expires = expires;
        save(store, token, &upload)?;
    }
    Ok((upload, file))
}

/// What is known of an upload that another request changes. Errors: `Missing`.
pub fn find(store: &Store, token: &str) -> Result<Upload, Failure> {
    let folder = store.state_folder(UPLOADS)?;
    let text = read_text(&folder, &[token, TEXT].concat())?;
    text.and_then(|text| Upload::parse(&text)).ok_or(Failure::Missing)
}

pub fn save(store: &Store, token: &str, upload: &Upload) -> Result<(), Failure> {
    let uploads = store.state_folder(UPLOADS)?;
    replace(&store.state()?, &uploads, &[token, TEXT].concat(), upload.text().as_bytes()).map(drop)
}

/// Forgets an upload.
pub fn remove(store: &Store, token: &str) -> Result<(), Failure> {
    let folder = store.state_folder(UPLOADS)?;
    let bytes = calls::statx(&folder, token, AtFlags::SYMLINK_NOFOLLOW).map_or(0, |stat| stat.size);
    // A complete one has no file any more.
    if calls::unlink(&folder, token).is_ok() {
        usage::removed(&store.root.path, bytes);
    }
    _ = calls::unlink(&folder, &*[token, TEXT].concat());
    Ok(())
}

/// Forgets the uploads that have expired. Returns how many others are incomplete.
pub fn sweep(store: &Store, now: i64) -> Result<usize, Failure> {
    let folder = store.state_folder(UPLOADS)?;
    let (mut incomplete, mut complete) = (0, Vec::new());
    for name in names(&folder)? {
        let Some(token) = name.strip_suffix(TEXT) else { continue };
        let found = match find(store, token) {
            // It has expired, or was begun by another clock.
            Ok(upload) if upload.expires <= now || upload.expires_at(now) != upload.expires => {
                open(store, token, now).map(|(upload, _)| upload)
            }
            found => found,
        };
        match found {
            Ok(Upload { state: State::Incomplete, .. }) | Err(Failure::Busy) => incomplete += 1,
            Ok(upload) => complete.push((upload.expires, token.to_owned())),
            Err(Failure::Missing) => remove(store, token)?,
            Err(failure) => return Err(failure),
        }
    }
    sort::by(&mut complete, Ord::cmp);
    for (_, token) in complete.iter().rev().skip(MAX_COMPLETE) {
        remove(store, token)?;
    }
    Ok(incomplete)
}
