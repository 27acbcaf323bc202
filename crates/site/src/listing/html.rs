//! The listing as a page of HTML.

use taipan_http::digits::write_number;
use taipan_http::path_text;
use taipan_http::target::encode_segment;

use super::{Entry, EntryKind, Extent, Page, SortKey, SortOrder, push};
use crate::{mime, text};

const BEGIN: &str = concat!(
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>",
    include_str!("listing.css"),
    "</style>\n"
);
pub(super) const NO_ROBOTS: &str = "<meta name=\"robots\" content=\"noindex, nofollow\">\n";
/// The script shows it, since only the script can filter.
const FILTER: &str = "<p id=\"filter\" hidden><input type=\"search\" placeholder=\"Filter by name\" \
    aria-label=\"Filter by name\" autocomplete=\"off\" spellcheck=\"false\"><output></output></p>\n";
pub(super) const END: &str = concat!(
    "</tbody>\n</table>\n</main>\n<script>",
    include_str!("listing.js"),
    "</script>\n</body>\n</html>\n"
);
pub(super) const PARENT: &str = "<tbody><tr class=\"u\"><td><a href=\"../\">Parent folder</a></td>\
    <td></td><td></td></tr></tbody>\n";

pub(super) fn begin(page: &Page, out: &mut Vec<u8>) {
    push(out, BEGIN);
    // One order is enough for mirrors and search engines.
    push(out, if page.order == SortOrder::default() { "" } else { NO_ROBOTS });
    push(out, "<title>");
    visible_name(&page.path, out);
    push(out, "</title>\n</head>\n<body>\n<header>\n<h1>");
    breadcrumbs(&page.path, out);
    push(out, "</h1>\n<p>");
    total(&page.entries, out);
    push(out, "</p>\n");
    if let Extent::First(entries) | Extent::FirstRead(entries) = page.extent {
        push(out, "<p class=\"note\">This folder has ");
        push(out, if page.extent == Extent::First(entries) { "" } else { "more than " });
        write_number(entries, out);
        push(out, " entries. The first ");
        write_number(page.entries.len() as u64, out);
        push(out, " by name are shown.</p>\n");
    }
    push(out, FILTER);
    push(out, "</header>\n<main>\n<table>\n<thead><tr>");
    for key in [SortKey::Name, SortKey::Size, SortKey::Date] {
        heading(key, page.order, out);
    }
    push(out, "</tr></thead>\n");
    if segments(&page.path).next().is_some() {
        push(out, PARENT);
    }
    push(out, "<tbody id=\"entries\">\n");
}

/// The path as links. They are relative: a proxy may remove a prefix of the path.
fn breadcrumbs(path: &str, out: &mut Vec<u8>) {
    let depth = segments(path).count();
    breadcrumb("/", depth, out);
    for (at, segment) in segments(path).enumerate() {
        if at > 0 {
            push(out, "<i>/</i>");
        }
        breadcrumb(segment, depth - at - 1, out);
    }
}

/// A link to the folder `up` levels above.
fn breadcrumb(name: &str, up: usize, out: &mut Vec<u8>) {
    push(out, "<a href=\"");
    match up {
        0 => push(out, "./\" aria-current=\"page"),
        _ => (0..up).for_each(|_| push(out, "../")),
    }
    push(out, "\">");
    visible_name(name, out);
    push(out, "</a>");
}

/// `12 folders, 345 files, 1.2 GiB`
fn total(entries: &[Entry], out: &mut Vec<u8>) {
    let mut parts = 0;
    for (kind, one, many) in [
        (EntryKind::Folder, " folder", " folders"),
        (EntryKind::File, " file", " files"),
        (EntryKind::Other, " other", " others"),
    ] {
        let count = entries.iter().filter(|entry| entry.kind == kind).count();
        if count > 0 {
            push(out, if parts > 0 { ", " } else { "" });
            write_number(count as u64, out);
            push(out, if count == 1 { one } else { many });
            parts += 1;
        }
    }
    let sizes = entries.iter().filter(|entry| entry.kind == EntryKind::File).map(|entry| entry.size);
    match entries {
        [] => push(out, "Empty"),
        _ => {
            push(out, ", ");
            human_size(sizes.fold(0, u64::saturating_add), out);
        }
    }
}

fn heading(key: SortKey, order: SortOrder, out: &mut Vec<u8>) {
    let chosen = order.key == key;
    push(out, "<th scope=\"col\"");
    if chosen {
        push(out, " aria-sort=\"");
        push(out, order.direction.aria_sort());
        push(out, "\"");
    }
    // A form: a program that follows links does not submit it.
    push(out, "><form><input type=\"hidden\" name=\"sort\" value=\"");
    push(out, key.word());
    push(out, "\"><button name=\"order\" value=\"");
    let next = if chosen { order.direction.reversed() } else { key.first_direction() };
    push(out, next.word());
    push(out, "\">");
    push(out, key.title());
    push(out, "</button></form></th>");
}

pub(super) fn entry(entry: &Entry, link: &mut String, out: &mut Vec<u8>) {
    link.clear();
    // Without a character that HTML escapes.
    encode_segment(&entry.name, link);
    // "./", or else a name with a colon would have a scheme (RFC 3986 §4.2).
    match entry.kind {
        EntryKind::Folder => {
            push(out, "<tr class=\"d\"><td><a href=\"./");
            push(out, link);
            push(out, "/\">");
            visible_name(&entry.name, out);
            push(out, "/</a></td><td></td><td>");
        }
        EntryKind::File => {
            push(out, icon(&entry.name).row_start());
            push(out, link);
            push(out, "\">");
            visible_name(&entry.name, out);
            push(out, "</a></td><td title=\"");
            write_number(entry.size, out);
            push(out, if entry.size == 1 { " byte\">" } else { " bytes\">" });
            human_size(entry.size, out);
            push(out, "</td><td>");
        }
        EntryKind::Other => {
            push(out, "<tr><td>");
            visible_name(&entry.name, out);
            push(out, "</td><td></td><td>");
        }
    }
    time(entry.modified, out);
    push(out, "</td></tr>\n");
}

/// `<time datetime="2026-11-20T07:49:41Z">2026-11-20 07:49</time>`
fn time(modified: i64, out: &mut Vec<u8>) {
    let full = text::rfc3339(modified);
    push(out, "<time datetime=\"");
    out.extend_from_slice(&full);
    push(out, "\">");
    out.extend_from_slice(&full[..10]);
    push(out, " ");
    out.extend_from_slice(&full[11..16]);
    push(out, "</time>");
}

/// A name as text. Characters that change the direction of writing become U+FFFD, or else `photo<U+202E>gpj.exe` would
/// look like `photoexe.jpg`. So do bytes that are not UTF-8.
fn visible_name(name: &str, out: &mut Vec<u8>) {
    for (at, part) in path_text::shown(name).split(text::turns_direction).enumerate() {
        if at > 0 {
            push(out, "\u{FFFD}");
        }
        text::html(part, out);
    }
}

/// `345 B`, `1.2 GiB`: three digits, or two with a decimal place.
fn human_size(size: u64, out: &mut Vec<u8>) {
    const UNITS: [&str; 7] = [" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"];
    let unit = (0..6).find(|unit| rounded_tenths(size, *unit) < 10_240).unwrap_or(6);
    match (unit, rounded_tenths(size, unit)) {
        (0, _) => write_number(size, out),
        (_, tenths) if tenths >= 1000 => write_number((tenths + 5) / 10, out),
        (_, tenths) => {
            write_number(tenths / 10, out);
            out.extend_from_slice(&[b'.', b'0' + (tenths % 10) as u8]);
        }
    }
    push(out, UNITS[unit]);
}

/// `size` in tenths of 1024 to the power `unit`.
fn rounded_tenths(size: u64, unit: usize) -> u64 {
    let one = 1_u128 << (10 * unit);
    ((u128::from(size) * 10 + one / 2) / one) as u64
}

/// The icon of a file in the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Icon {
    Plain,
    Text,
    Image,
    Audio,
    Video,
    Archive,
    Document,
}

impl Icon {
    /// The start of the row, up to the link. The style has these classes.
    const fn row_start(self) -> &'static str {
        match self {
            Icon::Plain => "<tr><td><a href=\"./",
            Icon::Text => "<tr class=\"t\"><td><a href=\"./",
            Icon::Image => "<tr class=\"i\"><td><a href=\"./",
            Icon::Audio => "<tr class=\"a\"><td><a href=\"./",
            Icon::Video => "<tr class=\"v\"><td><a href=\"./",
            Icon::Archive => "<tr class=\"z\"><td><a href=\"./",
            Icon::Document => "<tr class=\"p\"><td><a href=\"./",
        }
    }
}

/// By the built-in media type of the name.
fn icon(name: &str) -> Icon {
    let Some((top_level, subtype)) = mime::builtin_type(name).and_then(|media| media.split_once('/')) else {
        return Icon::Plain;
    };
    let ends = |ends: &[&str]| ends.iter().any(|end| subtype.ends_with(end));
    match top_level {
        "text" => Icon::Text,
        "image" => Icon::Image,
        "audio" => Icon::Audio,
        "video" => Icon::Video,
        "application" if ends(&["json", "xml", "yaml", "toml", "sql", "x-tex", "x-latex"]) => Icon::Text,
        "application" if subtype == "zip" || ends(ARCHIVES) => Icon::Archive,
        "application" if DOCUMENTS.iter().any(|begin| subtype.starts_with(begin)) => Icon::Document,
        _ => Icon::Plain,
    }
}

/// The ends of the subtypes of archives and packages.
const ARCHIVES: &[&str] = &[
    "7z-compressed",
    "ms-cab-compressed",
    "android.package-archive",
    "java-archive",
    "x-brotli",
    "x-bzip2",
    "x-cpio",
    "debian.binary-package",
    "x-apple-diskimage",
    "flatpak",
    "gzip",
    "x-iso9660-image",
    "lzip",
    "x-lz4",
    "x-lzma",
    "x-msi",
    "vnd.rar",
    "x-rpm",
    "vnd.snap",
    "x-tar",
    "x-xz",
    "x-compress",
    "zstd",
];

/// The beginnings of the subtypes of documents, slides and sheets.
const DOCUMENTS: &[&str] = &[
    "pdf",
    "postscript",
    "rtf",
    "msword",
    "epub",
    "x-mobipocket",
    "vnd.ms-excel",
    "vnd.ms-powerpoint",
    "vnd.openxmlformats",
    "vnd.oasis.opendocument",
    "vnd.apple.keynote",
    "vnd.apple.numbers",
    "vnd.apple.pages",
    "vnd.visio",
];

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_the_icon_by_the_media_type() {
        for (names, expected) in [
            (&["a", "a.", ".png", "a.unknown", "a.bin", "a.woff2", "a.wasm"][..], Icon::Plain),
            (&["README.md", "a.txt", "a.rs", "a.json", "a.yml", "a.XML", "a.css", "a.sql"], Icon::Text),
            (&["a.png", "a.JPG", "a.svg", "a.tar.webp"], Icon::Image),
            (&["a.mp3", "a.ogg", "a.flac"], Icon::Audio),
            (&["a.mp4", "a.webm", "a.mkv"], Icon::Video),
            (&["a.zip", "a.tar.gz", "a.7z", "a.xz", "a.deb", "a.iso", "a.jar", "a.tar"], Icon::Archive),
            (&["a.pdf", "a.docx", "a.xls", "a.odt", "a.epub", "a.ppt", "a.ps"], Icon::Document),
        ] {
            for name in names {
                assert_eq!(icon(name), expected, "{name}");
            }
        }
    }

    #[test]
    fn formats_sizes_in_three_digits() {
        for (size, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (102_348, "99.9 KiB"),
            (102_349, "100 KiB"),
            (1_048_524, "1024 KiB"),
            (1_048_525, "1.0 MiB"),
            (1_234_567, "1.2 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            let mut out = Vec::new();
            human_size(size, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{size}");
        }
    }
}
