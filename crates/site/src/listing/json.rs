//! The listing in JSON.

use taipan_http::digits::write_number;
use taipan_http::path_text;
use taipan_http::target::encode_segment;

use super::{Entry, EntryKind, Extent, Page, push};
use crate::text;

pub(super) fn begin(page: &Page, out: &mut Vec<u8>) {
    push(out, "{\"path\":");
    text::json(&path_text::bytes(&page.path), out);
    push(out, ",\"entries\":[");
}

pub(super) fn entry(at: usize, entry: &Entry, out: &mut Vec<u8>) {
    push(out, if at > 0 { ",\n{\"name\":" } else { "\n{\"name\":" });
    text::json(&path_text::bytes(&entry.name), out);
    if !path_text::is_utf8(&entry.name) {
        let mut link = String::new();
        encode_segment(&entry.name, &mut link);
        push(out, ",\"link\":");
        text::json(link.as_bytes(), out);
    }
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
