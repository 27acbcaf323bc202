//! Listings. No name adds a tag, a quote or a line to the page, or changes the direction of text. The JSON is valid and
//! has every name unchanged.

use serde_json::Value;
use site::listing::{Entry, EntryKind, Extent, Format, Page, Renderer, SortOrder, is_listed};
use site::model::Dotfiles;
use site::text::turns_direction;

use crate::cuts::{first_line, number};

/// Far less than a buffer of a listing holds, and enough to sort.
const MAX_ENTRIES: usize = 64;

/// The first line is a query. Each other line is an entry: its size, a slash and its name. A colon in front makes a
/// folder of it, and a bar a special file. The first name is that of the listed folder, too.
pub fn listing(data: &[u8]) {
    let (query, lines) = first_line(data);
    let text = String::from_utf8_lossy(lines);
    let entries: Vec<Entry> = text.split('\n').take(MAX_ENTRIES).map(entry).collect();
    let page = Page {
        path: format!("/{}/", entries.first().map_or("", |entry| &entry.name)),
        order: SortOrder::from_query(Some(&String::from_utf8_lossy(query))),
        extent: [Extent::Whole, Extent::First(100), Extent::FirstRead(100)][data.len() % 3],
        entries,
    };
    html(&page);
    json(&page);
}

fn entry(line: &str) -> Entry {
    let (kind, line) = match line.split_at_checked(1) {
        Some((":", rest)) => (EntryKind::Folder, rest),
        Some(("|", rest)) => (EntryKind::Other, rest),
        _ => (EntryKind::File, line),
    };
    let (size, name) = line.split_once('/').unwrap_or(("0", line));
    let size = number(size.as_bytes());
    Entry { name: name.to_owned(), kind, size, modified: size as i64 }
}

fn listed(page: &Page) -> impl Iterator<Item = &Entry> {
    page.entries.iter().filter(|entry| is_listed(&entry.name, Dotfiles::Allow))
}

fn html(page: &Page) {
    let bytes = Renderer::new(page.clone(), Format::Html).into_bytes();
    let text = std::str::from_utf8(&bytes).expect("UTF-8");
    assert!(!text.contains(turns_direction));
    let plain = |entry: &Entry| Entry { name: harmless_name(&entry.name), ..entry.clone() };
    let segment = |segment: &str| if segment.is_empty() { "" } else { "n" };
    let harmless = Page {
        path: page.path.split('/').map(segment).collect::<Vec<_>>().join("/"),
        entries: listed(page).map(plain).collect(),
        ..page.clone()
    };
    assert_eq!(marks(&bytes), marks(&Renderer::new(harmless, Format::Html).into_bytes()), "{text}");
}

/// A name with the same media type, since the page shows it.
fn harmless_name(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((stem, extension))
            if !stem.is_empty() && extension.bytes().all(|b| b.is_ascii_alphanumeric()) =>
        {
            format!("n.{extension}")
        }
        _ => "n".to_owned(),
    }
}

/// The count of each byte of markup between the style and the script.
fn marks(html: &[u8]) -> [usize; 5] {
    let text = std::str::from_utf8(html).expect("UTF-8");
    let (_, text) = text.split_once("</style>").expect("a style");
    let (text, _) = text.rsplit_once("<script>").expect("a script");
    ["<", ">", "\"", "'", "\n"].map(|mark| text.matches(mark).count())
}

fn json(page: &Page) {
    let bytes = Renderer::new(page.clone(), Format::Json).into_bytes();
    assert!(bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n')));
    let value: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(value["path"], *page.path);
    assert_eq!(value["truncated"], page.extent != Extent::Whole);
    let shown = value["entries"].as_array().expect("an array");
    let mut names: Vec<_> = shown.iter().map(|entry| entry["name"].as_str()).collect();
    let mut own: Vec<_> = listed(page).map(|entry| Some(&*entry.name)).collect();
    names.sort_unstable();
    own.sort_unstable();
    assert_eq!(names, own);
    let folders = shown.iter().take_while(|entry| entry["type"] == "folder").count();
    assert!(shown[folders..].iter().all(|entry| entry["type"] != "folder"), "folders come first");
}
