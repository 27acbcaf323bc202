//! The listing of a folder, in HTML and in JSON. It is rendered in buffers, so that the server sends the first entries
//! of a large folder before it renders the last. The page loads nothing else, and works without scripts. With scripts,
//! it sorts without another request, filters names, and shows times in the time zone of the reader.
//!
//! Knows nothing of disks: the entries come from the caller.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use taipan_http::digits::write_number;
use taipan_http::target::encode_segment;

use crate::authentication::is_never_served;
use crate::mime;
use crate::model::Dotfiles;
use crate::text;

/// The `Content-Security-Policy` of the page. It allows only the style and the script of the page.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; img-src 'self'; \
    style-src 'sha256-PZ7E2ye44vMFYR9a7cV6uiYTsgbL8W9yy5cLUZlDxew='; \
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

/// The first names of a folder, in natural order.
#[derive(Debug)]
pub struct FirstNames {
    limit: usize,
    /// The last name is on top.
    names: BinaryHeap<NaturalName>,
    seen: u64,
}

/// The order of files. Folders are always before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SortOrder {
    pub key: SortKey,
    pub direction: Direction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortKey {
    #[default]
    Name,
    Size,
    Date,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    #[default]
    Ascending,
    Descending,
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

impl FirstNames {
    /// Keeps at most `limit` names.
    pub fn new(limit: usize) -> FirstNames {
        FirstNames { limit, names: BinaryHeap::new(), seen: 0 }
    }

    pub fn add(&mut self, name: &str) {
        self.seen += 1;
        if self.names.len() < self.limit {
            self.names.push(NaturalName(name.to_owned()));
        } else if let Some(mut last) = self.names.peek_mut()
            && natural(name, &last.0).is_lt()
        {
            *last = NaturalName(name.to_owned());
        }
    }

    /// The number of all names that were added.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// In any order.
    pub fn into_names(self) -> impl ExactSizeIterator<Item = String> {
        self.names.into_vec().into_iter().map(|name| name.0)
    }
}

/// A name that is compared in natural order.
#[derive(Debug, PartialEq, Eq)]
struct NaturalName(String);

impl Ord for NaturalName {
    fn cmp(&self, other: &NaturalName) -> Ordering {
        natural(&self.0, &other.0)
    }
}

impl PartialOrd for NaturalName {
    fn partial_cmp(&self, other: &NaturalName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl SortOrder {
    /// From `sort=name|size|date` and `order=asc|desc` in a query. Unknown values count as absent.
    pub fn from_query(query: Option<&str>) -> SortOrder {
        let key = match value_of(query, "sort") {
            Some("size") => SortKey::Size,
            Some("date") => SortKey::Date,
            _ => SortKey::Name,
        };
        let direction = match value_of(query, "order") {
            Some("asc") => Direction::Ascending,
            Some("desc") => Direction::Descending,
            _ => key.first_direction(),
        };
        SortOrder { key, direction }
    }
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
        sort(&mut page.entries, page.order);
        Renderer { page, format, stage: Stage::Begin, link: String::new() }
    }

    /// Appends about [`BUFFER_BYTES`].
    pub fn render(&mut self, out: &mut Vec<u8>) -> Progress {
        let full = out.len() + BUFFER_BYTES;
        if self.stage == Stage::Begin {
            match self.format {
                Format::Html => html_begin(&self.page, out),
                Format::Json => json_begin(&self.page, out),
            }
            self.stage = Stage::Entry(0);
        }
        while let Stage::Entry(at) = self.stage {
            if out.len() >= full {
                return Progress::More;
            }
            self.stage = match (self.page.entries.get(at), self.format) {
                (Some(entry), Format::Html) => {
                    html_entry(entry, &mut self.link, out);
                    Stage::Entry(at + 1)
                }
                (Some(entry), Format::Json) => {
                    json_entry(at, entry, out);
                    Stage::Entry(at + 1)
                }
                (None, Format::Html) => {
                    push(out, HTML_END);
                    Stage::Done
                }
                (None, Format::Json) => {
                    json_end(&self.page, out);
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

const HTML_BEGIN: &str = concat!(
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>",
    include_str!("listing/listing.css"),
    "</style>\n"
);
const NO_ROBOTS: &str = "<meta name=\"robots\" content=\"noindex, nofollow\">\n";
/// The script shows it, since only the script can filter.
const FILTER: &str = "<p id=\"filter\" hidden><input type=\"search\" placeholder=\"Filter by name\" \
    aria-label=\"Filter by name\" autocomplete=\"off\" spellcheck=\"false\"><output></output></p>\n";
const HTML_END: &str = concat!(
    "</tbody>\n</table>\n</main>\n<script>",
    include_str!("listing/listing.js"),
    "</script>\n</body>\n</html>\n"
);
const PARENT: &str = "<tbody><tr class=\"u\"><td><a href=\"../\">Parent folder</a></td>\
    <td></td><td></td></tr></tbody>\n";

fn html_begin(page: &Page, out: &mut Vec<u8>) {
    push(out, HTML_BEGIN);
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

fn html_entry(entry: &Entry, link: &mut String, out: &mut Vec<u8>) {
    link.clear();
    encode_segment(&entry.name, link);
    // "./", or else a name with a colon would have a scheme (RFC 3986 §4.2).
    match entry.kind {
        EntryKind::Folder => {
            push(out, "<tr class=\"d\"><td><a href=\"./");
            text::html(link, out);
            push(out, "/\">");
            visible_name(&entry.name, out);
            push(out, "/</a></td><td></td><td>");
        }
        EntryKind::File => {
            push(out, icon(&entry.name).row_start());
            text::html(link, out);
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
/// look like `photoexe.jpg`.
fn visible_name(name: &str, out: &mut Vec<u8>) {
    for (at, part) in name.split(text::turns_direction).enumerate() {
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

fn json_begin(page: &Page, out: &mut Vec<u8>) {
    push(out, "{\"path\":");
    text::json(page.path.as_bytes(), out);
    push(out, ",\"entries\":[");
}

fn json_entry(at: usize, entry: &Entry, out: &mut Vec<u8>) {
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

fn json_end(page: &Page, out: &mut Vec<u8>) {
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

impl SortKey {
    const fn word(self) -> &'static str {
        match self {
            SortKey::Name => "name",
            SortKey::Size => "size",
            SortKey::Date => "date",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            SortKey::Name => "Name",
            SortKey::Size => "Size",
            SortKey::Date => "Modified (UTC)",
        }
    }

    /// The largest and the newest are usually wanted first.
    const fn first_direction(self) -> Direction {
        match self {
            SortKey::Name => Direction::Ascending,
            SortKey::Size | SortKey::Date => Direction::Descending,
        }
    }
}

impl Direction {
    const fn word(self) -> &'static str {
        match self {
            Direction::Ascending => "asc",
            Direction::Descending => "desc",
        }
    }

    const fn aria_sort(self) -> &'static str {
        match self {
            Direction::Ascending => "ascending",
            Direction::Descending => "descending",
        }
    }

    const fn reversed(self) -> Direction {
        match self {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        }
    }
}

fn sort(entries: &mut [Entry], order: SortOrder) {
    let directed = |ordering: Ordering| match order.direction {
        Direction::Ascending => ordering,
        Direction::Descending => ordering.reverse(),
    };
    let after_folders = |entry: &Entry| entry.kind != EntryKind::Folder;
    sort::by(entries, |a, b| {
        let chosen = match order.key {
            SortKey::Name => natural(&a.name, &b.name),
            SortKey::Size => a.shown_size().cmp(&b.shown_size()),
            SortKey::Date => a.modified.cmp(&b.modified),
        };
        after_folders(a).cmp(&after_folders(b)).then(directed(chosen)).then_with(|| natural(&a.name, &b.name))
    });
}

impl Entry {
    fn shown_size(&self) -> u64 {
        match self.kind {
            EntryKind::File => self.size,
            EntryKind::Folder | EntryKind::Other => 0,
        }
    }
}

/// Natural order: `a2` before `A10`. Names that differ only in case or leading zeros are compared by their bytes, so
/// that the order is total.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    // Each iteration removes at least one character from both.
    loop {
        let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) else {
            return left.len().cmp(&right.len()).then_with(|| a.cmp(b));
        };
        let ordering = if x.is_ascii_digit() && y.is_ascii_digit() {
            let (x, y);
            (x, left) = split_number(left);
            (y, right) = split_number(right);
            x.len().cmp(&y.len()).then(x.cmp(y))
        } else {
            left = &left[x.len_utf8()..];
            right = &right[y.len_utf8()..];
            x.to_lowercase().cmp(y.to_lowercase())
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
}

/// The digits at the start of `text`, without leading zeros, and the rest.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    (number.trim_start_matches('0'), rest)
}

fn can_be_requested(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\\']) && !name.contains(char::is_control)
}

fn value_of<'a>(query: Option<&'a str>, name: &str) -> Option<&'a str> {
    query?.split('&').filter_map(|pair| pair.split_once('=')).find(|pair| pair.0 == name).map(|pair| pair.1)
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};
    use taipan_http::target::SafePath;

    use super::*;

    fn entry(name: &str, kind: EntryKind, size: u64, modified: i64) -> Entry {
        Entry { name: name.to_owned(), kind, size, modified }
    }

    fn page(path: &str, entries: Vec<Entry>) -> Page {
        Page { path: path.to_owned(), entries, order: SortOrder::default(), extent: Extent::Whole }
    }

    fn html(page: Page) -> String {
        String::from_utf8(Renderer::new(page, Format::Html).into_bytes()).unwrap()
    }

    fn json(page: Page) -> serde_json::Value {
        serde_json::from_slice(&Renderer::new(page, Format::Json).into_bytes()).unwrap()
    }

    /// The row of this entry.
    fn row(entry: Entry) -> String {
        let html = html(page("/", vec![entry]));
        let (_, rows) = html.split_once("<tbody id=\"entries\">\n").unwrap();
        rows.split_once("\n</tbody>").unwrap().0.to_owned()
    }

    #[test]
    fn escapes_a_name_in_the_text_and_the_link() {
        let time = "<time datetime=\"1970-01-01T00:01:00Z\">1970-01-01 00:01</time>";
        for (name, link, text) in [
            ("a.txt", "a.txt", "a.txt"),
            (
                "<img src=x onerror=alert(1)>",
                "%3Cimg%20src=x%20onerror=alert(1)%3E",
                "&lt;img src=x onerror=alert(1)&gt;",
            ),
            ("\"it's\" & more", "%22it&#39;s%22%20&amp;%20more", "&quot;it&#39;s&quot; &amp; more"),
            ("javascript:alert(1)", "javascript:alert(1)", "javascript:alert(1)"),
            ("50%20?#", "50%2520%3F%23", "50%20?#"),
            ("日", "%E6%97%A5", "日"),
            ("exe.\u{202e}gpj", "exe.%E2%80%AEgpj", "exe.\u{FFFD}gpj"),
        ] {
            let class = if name == "a.txt" { " class=\"t\"" } else { "" };
            let file = format!(
                "<tr{class}><td><a href=\"./{link}\">{text}</a></td><td title=\"2048 bytes\">2.0 KiB</td><td>{time}</td></tr>"
            );
            assert_eq!(row(entry(name, EntryKind::File, 2048, 60)), file);
            let folder = format!(
                "<tr class=\"d\"><td><a href=\"./{link}/\">{text}/</a></td><td></td><td>{time}</td></tr>"
            );
            assert_eq!(row(entry(name, EntryKind::Folder, 4096, 60)), folder);
            let other = format!("<tr><td>{text}</td><td></td><td>{time}</td></tr>");
            assert_eq!(row(entry(name, EntryKind::Other, 7, 60)), other);
        }
    }

    #[test]
    fn never_cuts_a_name() {
        let name = "x".repeat(255);
        assert!(
            row(entry(&name, EntryKind::File, 1, 0))
                .contains(&format!("./{name}\">{name}</a></td><td title=\"1 byte\">1 B"))
        );
    }

    #[test]
    fn links_to_the_folders_above_are_relative() {
        for (path, title, breadcrumbs, up) in [
            ("/", "/", "<a href=\"./\" aria-current=\"page\">/</a>", 0),
            (
                "/a <b>/c/",
                "/a &lt;b&gt;/c/",
                "<a href=\"../../\">/</a><a href=\"../\">a &lt;b&gt;</a><i>/</i><a href=\"./\" aria-current=\"page\">c</a>",
                1,
            ),
        ] {
            let html = html(page(path, Vec::new()));
            assert!(html.contains(&format!("<title>{title}</title>")), "{html}");
            assert!(html.contains(&format!("<h1>{breadcrumbs}</h1>\n<p>Empty</p>")), "{html}");
            assert_eq!(html.matches(PARENT).count(), up);
        }
    }

    #[test]
    fn counts_the_entries_of_the_page() {
        let entries = vec![
            entry("a", EntryKind::Folder, 4096, 0),
            entry("b", EntryKind::File, 1024, 0),
            entry("c", EntryKind::File, 512, 0),
            entry("d", EntryKind::Other, 9, 0),
            entry("e\n", EntryKind::File, 1 << 40, 0),
        ];
        assert!(html(page("/", entries.clone())).contains("<p>1 folder, 2 files, 1 other, 1.5 KiB</p>"));
        for (extent, expected) in [
            (Extent::First(9), "This folder has 9 entries. The first 4 by name are shown."),
            (Extent::FirstRead(9), "This folder has more than 9 entries. The first 4 by name are shown."),
        ] {
            let cut = html(Page { extent, ..page("/", entries.clone()) });
            assert!(cut.contains(expected), "{cut}");
        }
    }

    #[test]
    fn sorts_folders_first_and_files_by_the_query() {
        let entries = || {
            vec![
                entry("b10", EntryKind::File, 5, 30),
                entry("B9", EntryKind::File, 5, 20),
                entry("a", EntryKind::File, 7, 10),
                entry("z", EntryKind::Folder, 4096, 40),
                entry("Y", EntryKind::Folder, 1, 50),
                entry("s", EntryKind::Other, 99, 0),
            ]
        };
        for (query, expected) in [
            (None, "Y z a B9 b10 s"),
            (Some("sort=name"), "Y z a B9 b10 s"),
            (Some("sort=name&order=desc"), "z Y s b10 B9 a"),
            (Some("sort=size"), "Y z a B9 b10 s"),
            (Some("sort=size&order=asc"), "Y z s B9 b10 a"),
            (Some("x&sort=date&y=1"), "Y z b10 B9 a s"),
            (Some("order=asc&sort=date"), "z Y s a B9 b10"),
            (Some("sort=colour&order=up"), "Y z a B9 b10 s"),
        ] {
            let page = Page { order: SortOrder::from_query(query), ..page("/", entries()) };
            let document = json(page);
            let entries = document["entries"].as_array().unwrap().iter();
            let names: Vec<_> = entries.map(|entry| entry["name"].as_str().unwrap()).collect();
            assert_eq!(names.join(" "), expected, "{query:?}");
        }
    }

    #[test]
    fn headings_reverse_the_order() {
        for (query, expected) in [
            (
                None,
                [
                    (" aria-sort=\"ascending\"", "name", "desc", "Name"),
                    ("", "size", "desc", "Size"),
                    ("", "date", "desc", "Modified (UTC)"),
                ],
            ),
            (
                Some("sort=size"),
                [
                    ("", "name", "asc", "Name"),
                    (" aria-sort=\"descending\"", "size", "asc", "Size"),
                    ("", "date", "desc", "Modified (UTC)"),
                ],
            ),
        ] {
            let html = html(Page { order: SortOrder::from_query(query), ..page("/", Vec::new()) });
            let heading = |(aria, sort, order, title)| {
                format!(
                    "<th scope=\"col\"{aria}><form><input type=\"hidden\" name=\"sort\" value=\"{sort}\">\
                     <button name=\"order\" value=\"{order}\">{title}</button></form></th>"
                )
            };
            let expected = expected.map(heading).concat();
            assert!(html.contains(&expected), "{html}");
            assert_eq!(html.contains(NO_ROBOTS), query.is_some(), "{query:?}");
        }
    }

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
    fn keeps_the_first_names_of_any_order() {
        let names = ["b10", "a", "B9", "z", "c", "a", "b1"];
        for (limit, expected) in [
            (0, vec![]),
            (1, vec!["a"]),
            (3, vec!["a", "a", "b1"]),
            (5, vec!["a", "a", "b1", "B9", "b10"]),
            (9, vec!["a", "a", "b1", "B9", "b10", "c", "z"]),
        ] {
            for start in 0..names.len() {
                let mut first = FirstNames::new(limit);
                names.iter().cycle().skip(start).take(names.len()).for_each(|name| first.add(name));
                assert_eq!(first.seen(), 7);
                let mut found: Vec<String> = first.into_names().collect();
                found.sort_by(|a, b| natural(a, b));
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn sorts_names_in_natural_order() {
        let sorted = [
            "",
            "0",
            "00",
            "01",
            "1",
            "2",
            "10",
            "18446744073709551617",
            "A1b",
            "a01c",
            "A2",
            "a10",
            "a10b",
            "ab",
            "É",
            "é",
        ];
        for (at, a) in sorted.iter().enumerate() {
            for b in &sorted[at + 1..] {
                assert_eq!(natural(a, b), Ordering::Less, "{a} {b}");
                assert_eq!(natural(b, a), Ordering::Greater, "{b} {a}");
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

    #[test]
    fn renders_json() {
        let entries = vec![
            entry("a\"\u{202e}é", EntryKind::File, u64::MAX, 60),
            entry("d", EntryKind::Folder, 4096, -1),
        ];
        let expected = serde_json::json!({
            "path": "/x \"y\"/",
            "entries": [
                { "name": "d", "type": "folder", "size": null, "modified": "1969-12-31T23:59:59Z" },
                { "name": "a\"\u{202e}é", "type": "file", "size": u64::MAX, "modified": "1970-01-01T00:01:00Z" },
            ],
            "truncated": true,
        });
        assert_eq!(json(Page { extent: Extent::First(9), ..page("/x \"y\"/", entries) }), expected);
        let empty = serde_json::json!({ "path": "/", "entries": [], "truncated": false });
        assert_eq!(json(page("/", Vec::new())), empty);
    }

    #[test]
    fn prefers_the_format_of_the_query_to_accept() {
        for (query, accept, expected) in [
            (None, "text/html", Format::Html),
            (None, "*/*", Format::Html),
            (None, "application/json", Format::Json),
            (Some("format=json"), "text/html", Format::Json),
            (Some("sort=name&format=html"), "application/json", Format::Html),
            (Some("format=xml"), "application/json", Format::Json),
        ] {
            assert_eq!(
                Format::choose(query, [accept.as_bytes()].into_iter()),
                expected,
                "{query:?} {accept}"
            );
        }
    }

    #[test]
    fn omits_hidden_and_impossible_names() {
        for (name, denied, allowed) in [
            ("a", true, true),
            (".git", false, true),
            ("..a", false, true),
            ("a\u{202e}", true, true),
            ("", false, false),
            (".", false, false),
            ("..", false, false),
            ("a/b", false, false),
            ("a\\b", false, false),
            ("a\nb", false, false),
            ("a\u{7f}", false, false),
            ("a\u{9b}", false, false),
        ] {
            assert_eq!(is_listed(name, Dotfiles::Deny), denied, "{name:?}");
            assert_eq!(is_listed(name, Dotfiles::Allow), allowed, "{name:?}");
            let root = SafePath::parse("/").unwrap();
            assert_eq!(root.join(name).is_some(), allowed, "{name:?}");
        }
    }

    #[test]
    fn allows_the_style_and_the_script_of_the_page() {
        let html = html(page("/", Vec::new()));
        for (directive, tag) in [("style-src", "style"), ("script-src", "script")] {
            let expected = format!("{directive} {}", hash_of(&html, tag));
            assert!(CONTENT_SECURITY_POLICY.contains(&expected), "CONTENT_SECURITY_POLICY needs {expected}");
        }
    }

    /// The source expression that allows the text of an element (CSP, section 2.3.1).
    pub(crate) fn hash_of(page: &str, tag: &str) -> String {
        let (_, text) = page.split_once(&format!("<{tag}>")).unwrap();
        let (text, _) = text.split_once(&format!("</{tag}>")).unwrap();
        format!("'sha256-{}'", base64(&Sha256::digest(text)))
    }

    #[test]
    fn renders_the_same_bytes_in_buffers_and_at_once() {
        let entries: Vec<_> =
            (0..5000).map(|at| entry(&format!("name {at}"), EntryKind::File, at, 0)).collect();
        for format in [Format::Html, Format::Json] {
            let mut renderer = Renderer::new(page("/", entries.clone()), format);
            let (mut buffers, mut whole, mut progress) = (0, Vec::new(), Progress::More);
            while progress == Progress::More {
                let mut buffer = Vec::new();
                progress = renderer.render(&mut buffer);
                assert!(!buffer.is_empty() && buffer.len() < BUFFER_BYTES + 8 * 1024);
                whole.extend_from_slice(&buffer);
                buffers += 1;
            }
            assert_eq!(whole, Renderer::new(page("/", entries.clone()), format).into_bytes());
            assert!(buffers >= whole.len() / (BUFFER_BYTES + 8 * 1024) && buffers > 3);
            assert_eq!(renderer.render(&mut Vec::new()), Progress::Done);
        }
    }

    proptest! {
        #[test]
        fn orders_names_totally(mut names in prop::collection::vec("[aA0-2é.]{0,6}", 0..12)) {
            names.sort_by(|a, b| natural(a, b));
            for (at, a) in names.iter().enumerate() {
                for b in &names[at..] {
                    prop_assert_eq!(natural(a, b).is_eq(), a == b);
                    prop_assert!(natural(a, b).is_le());
                    prop_assert!(natural(b, a).is_ge());
                }
            }
        }

        #[test]
        fn never_breaks_the_page_or_the_document_by_a_name(names in prop::collection::vec(any::<String>(), 0..8), path: String) {
            let entries: Vec<_> = names.iter().map(|name| entry(name, EntryKind::File, 1, 0)).collect();
            let listed = names.iter().filter(|name| can_be_requested(name)).count();
            let document = json(page(&path, entries.clone()));
            prop_assert_eq!(document["path"].as_str(), Some(path.as_str()));
            prop_assert_eq!(document["entries"].as_array().unwrap().len(), listed);
            let bare = html(page("/", Vec::new())).matches('<').count();
            // Six elements per row, each with a start and an end.
            prop_assert_eq!(html(page("/", entries)).matches('<').count(), bare + listed * 12);
        }
    }

    fn base64(bytes: &[u8]) -> String {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let groups = bytes.chunks(3).flat_map(|group| {
            let bits = group.iter().chain([&0; 2]).take(3).fold(0, |bits, &byte| bits << 8 | u32::from(byte));
            let digit = move |at: usize| match at <= group.len() {
                true => ALPHABET[(bits >> (18 - 6 * at) & 63) as usize] as char,
                false => '=',
            };
            (0..4).map(digit)
        });
        groups.collect()
    }
}
