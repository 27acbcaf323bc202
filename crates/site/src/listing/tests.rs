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
        ("\"it's\" & more", "%22it%27s%22%20%26%20more", "&quot;it&#39;s&quot; &amp; more"),
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
        assert_eq!(html.matches(html::PARENT).count(), up);
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
        assert_eq!(html.contains(html::NO_ROBOTS), query.is_some(), "{query:?}");
    }
}

#[test]
fn renders_json() {
    let entries =
        vec![entry("a\"\u{202e}é", EntryKind::File, u64::MAX, 60), entry("d", EntryKind::Folder, 4096, -1)];
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
        assert_eq!(Format::choose(query, [accept.as_bytes()].into_iter()), expected, "{query:?} {accept}");
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
        assert_eq!(is_listed(name, Dotfiles::Unlisted), denied, "{name:?}");
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
    let entries: Vec<_> = (0..5000).map(|at| entry(&format!("name {at}"), EntryKind::File, at, 0)).collect();
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
