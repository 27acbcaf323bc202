//! The listing in JSON.

use taipan_http::digits::write_number;

use super::{Entry, EntryKind, Extent, Page, push};
use crate::text;

pub(super) fn begin(page: &Page, out: &mut Vec<u8>) {
    push(out, "{\"path\":");
    text::json(page.path.as_bytes(), out);
    push(out, ",\"entries\":[");
}

pub(super) fn entry(at: usize, entry: &Entry, out: &mut Vec<u8>) {
    push(out, if at > 0 { ",\n{\"name\":" } else { "\n{\"name\":" });
    text::json(entry.name.as_bytes(), out);
    push(out, ",\"type\":\"");
    push(out, entry.kind.word());
    push(out, "\",\"size\":");
    match entry.kind {
        EntryKind::File => write_number(entry.size, out),
        EntryKind::Folder | EntryKind::Other => push(out, "null"),
    }
    push(out, ",\"modified\":\"");
    out.extend_from_slice(&text::rfc3339(entry.modified));
    push(out, "\"}");
}

pub(super) fn end(page: &Page, out: &mut Vec<u8>) {
    push(
        out,
        match page.extent {
            Extent::Whole => "\n],\"truncated\":false}\n",
            Extent::First(_) | Extent::FirstRead(_) => "\n],\"truncated\":true}\n",
        },
    );
}

impl EntryKind {
    const fn word(self) -> &'static str {
        match self {
            EntryKind::Folder => "folder",
            EntryKind::File => "file",
            EntryKind::Other => "other",
        }
    }
}
