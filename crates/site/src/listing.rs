//! The listing of a folder, in HTML and in JSON. It is rendered in buffers, so that the server sends the first entries
//! of a large folder before it renders the last. The page loads nothing else, and works without scripts. With scripts,
//! it sorts without another request, filters names, and shows times in the time zone of the reader.
//!
//! Knows nothing of disks: the entries come from the caller.

mod html;
mod json;
mod order;
#[cfg(test)]
pub(crate) mod tests;

pub use self::order::{Direction, FirstNames, SortKey, SortOrder};
use crate::authentication::is_never_served;
use crate::model::Dotfiles;

/// The `Content-Security-Policy` of the page. It allows only the style and the script of the page.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; img-src 'self'; \
    style-src 'sha256-k5l9d5kR31ZOvFhh1IfWBcBdUmBGVesjiEQAvuLcjoE='; \
    script-src 'sha256-GG1n0yHf4iCHv6IYPfbiWhRnMjt811XRMCPX0RN4mVY='; \
    base-uri 'none'; form-action 'self'";

/// Bytes of a buffer. The entry that exceeds them is still in it.
pub const BUFFER_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// One segment, without a slash.
    pub name: String,
    pub kind: EntryKind,
    /// Bytes. The listing has only those of files.
    pub size: u64,
    /// Seconds since 1970.
    pub modified: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    Folder,
    File,
    /// A device, a socket or a pipe. It has no link.
    Other,
}

/// A folder and its entries.
#[derive(Debug, Clone)]
pub struct Page {
    /// Decoded, from the root of the host, with a slash at both ends: `/a/b/`.
    pub path: String,
    pub entries: Vec<Entry>,
    pub order: SortOrder,
    pub extent: Extent,
}

/// The part of the folder that the listing has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// The first entries by name, out of this number.
    First(u64),
    /// The first entries by name, out of this number. The folder has more, which were not read.
    FirstRead(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Html,
    Json,
}

/// A listing that is partly rendered.
#[derive(Debug)]
pub struct Renderer {
    page: Page,
    format: Format,
    stage: Stage,
    /// The encoded name of an entry. The next entry reuses the allocation.
    link: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

/// Whether a listing has an entry of this name.
pub fn is_listed(name: &str, dotfiles: Dotfiles) -> bool {
    can_be_requested(name)
        && !is_never_served(name)
        && (dotfiles == Dotfiles::Allow || !name.starts_with('.'))
}

impl Format {
    /// `format=json` or `format=html` in the query, or else the preference of the `Accept` fields. The response varies
    /// on `Accept`.
    pub fn choose<'a>(query: Option<&str>, accept: impl Iterator<Item = &'a [u8]>) -> Format {
        match value_of(query, "format") {
            Some("json") => Format::Json,
            Some("html") => Format::Html,
            _ if taipan_http::negotiate::prefers_json(accept) => Format::Json,
            _ => Format::Html,
        }
    }

    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Html => "text/html; charset=utf-8",
            Format::Json => "application/json",
        }
    }
}

impl Renderer {
    /// Sorts the entries, and drops those whose name cannot be requested.
    pub fn new(mut page: Page, format: Format) -> Renderer {
        page.entries.retain(|entry| can_be_requested(&entry.name));
        order::sort(&mut page.entries, page.order);
        Renderer { page, format, stage: Stage::Begin, link: String::new() }
    }

    /// Appends about [`BUFFER_BYTES`].
    pub fn render(&mut self, out: &mut Vec<u8>) -> Progress {
        let full = out.len() + BUFFER_BYTES;
        if self.stage == Stage::Begin {
            match self.format {
                Format::Html => html::begin(&self.page, out),
                Format::Json => json::begin(&self.page, out),
            }
            self.stage = Stage::Entry(0);
        }
        while let Stage::Entry(at) = self.stage {
            if out.len() >= full {
                return Progress::More;
            }
            self.stage = match (self.page.entries.get(at), self.format) {
                (Some(entry), Format::Html) => {
                    html::entry(entry, &mut self.link, out);
                    Stage::Entry(at + 1)
                }
                (Some(entry), Format::Json) => {
                    json::entry(at, entry, out);
                    Stage::Entry(at + 1)
                }
                (None, Format::Html) => {
                    push(out, html::END);
                    Stage::Done
                }
                (None, Format::Json) => {
                    json::end(&self.page, out);
                    Stage::Done
                }
            };
        }
        Progress::Done
    }

    /// The whole listing.
    pub fn into_bytes(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.render(&mut out) == Progress::More {}
        out
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    /// The next is the entry at this index.
    Entry(usize),
    Done,
}

fn can_be_requested(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\\']) && !name.contains(char::is_control)
}

fn value_of<'a>(query: Option<&'a str>, name: &str) -> Option<&'a str> {
    query?.split('&').filter_map(|pair| pair.split_once('=')).find(|pair| pair.0 == name).map(|pair| pair.1)
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}
