//! Image maps. No click leads to another scheme, or to a line of a response; and the page of links has no tag of the
//! map.

use site::image_map::{ImageMap, Outcome};

/// A query in the first line, and the file behind it.
pub fn image_map(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (query, file) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let map = match ImageMap::parse(file) {
        Ok(map) => map,
        Err(mistake) => {
            assert!(mistake.line > 0 && !mistake.to_string().contains('\n'));
            return;
        }
    };
    for query in [std::str::from_utf8(query).ok(), Some("1,1"), Some("100,50"), Some("1000000,1000000")] {
        if let Outcome::Redirect(url) = map.click(query) {
            check(url);
        }
    }
    assert_eq!(map.click(None), Outcome::Menu);
    let page = String::from_utf8(map.menu("a.map")).expect("it is text");
    let links = page.matches("<a href=\"").count();
    assert_eq!(page.matches("<li>").count(), links);
    assert_eq!(
        page.matches('<').count(),
        "<!DOCTYPE><html><meta><meta><title></title><h1></h1><ul></ul></html>".matches('<').count()
            + 4 * links
    );
}

fn check(url: &str) {
    assert!(!url.is_empty() && url.bytes().all(|byte| byte.is_ascii_graphic()));
    assert!(!url.contains(['"', '<', '>', '\\']));
    let end = url.find([':', '/', '?', '#']).unwrap_or(url.len());
    if url[end..].starts_with(':') {
        assert!(["http", "https", "mailto"].iter().any(|scheme| scheme.eq_ignore_ascii_case(&url[..end])));
    }
}
