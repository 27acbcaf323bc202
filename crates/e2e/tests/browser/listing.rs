//! Listings, pages of errors, and files that a browser decodes.

use super::*;

const HOSTILE: &str = "<script>document.title='owned'<script><img src=x onerror=alert(1)>";

fn server() -> Server {
    let mut site = Site::new()
        .config("listing = true")
        .file(HOSTILE, "x")
        .file("\" onmouseover=\"document.title='owned'", "x")
        .file("a9.txt", "1")
        .modified("a9.txt", 1_600_000_200)
        .file("a10.txt", "333")
        .modified("a10.txt", 1_600_000_100)
        .file("B.txt", "22")
        .modified("B.txt", 1_600_000_300)
        .file(
            "a name that is much longer than a phone is wide, as photographs and films of talks have.mp4",
            vec![0; 3_456_789],
        )
        .file("zoo/inner.txt", "inner");
    for number in 1..=20 {
        site = site.file(&format!("photo {number}.jpg"), vec![0; number * 77_777]);
    }
    site.start()
}

/// Width and height of a PNG (PNG §11.2.2).
fn size(png: &[u8]) -> (u32, u32) {
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "it is a PNG");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

/// The names on the page that end with `.txt`, in their order.
const ORDER: &str = "[...document.querySelectorAll('#entries tr')].map(row => row.cells[0].textContent).filter(name => name.endsWith('.txt')).join(' ')";

#[test]
fn a_browser_shows_hostile_names_as_text() {
    let server = server();
    let mut browser = Browser::start();
    browser.open(&server.url("/"));
    let names = browser.value("[...document.querySelectorAll('#entries a')].map(link => link.textContent)");
    assert!(names.as_array().unwrap().iter().any(|name| name == HOSTILE), "{names}");
    for (expression, expected) in [
        ("document.scripts.length", json!(1)),
        ("document.images.length", json!(0)),
        ("document.querySelectorAll('[onmouseover], [onerror]').length", json!(0)),
        ("document.title === 'owned'", json!(false)),
        ("document.compatMode", json!("CSS1Compat")),
        ("document.querySelectorAll('#entries tr').length", json!(27)),
    ] {
        assert_eq!(browser.value(expression), expected, "{expression}");
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
    // The link of that name leads to that file.
    let link = format!(
        "[...document.querySelectorAll('#entries a')].find(link => link.textContent === {HOSTILE:?}).href"
    );
    let href = browser.value(&link);
    let path = href.as_str().unwrap().strip_prefix(&server.url("/")).unwrap().to_owned();
    assert_eq!(server.get(&format!("/{path}")).body, b"x");
}

#[test]
fn shows_every_space_of_a_name() {
    let server = Site::new().file("a  b", "").config("listing = true\n").start();
    let mut browser = Browser::start();
    browser.open(&server.url("/"));
    assert_eq!(browser.value("document.querySelector('#entries a').innerText"), "a  b");
}

#[test]
fn a_click_sorts_without_a_request() {
    let server = server();
    let mut browser = Browser::start();
    browser.open(&server.url("/"));
    browser.value("window.stays = true");
    assert_eq!(browser.value(ORDER), "a9.txt a10.txt B.txt");
    for (heading, order, query) in [
        (1, "a9.txt a10.txt B.txt", ""),
        (2, "a10.txt B.txt a9.txt", "?sort=size&order=desc"),
        (2, "a9.txt B.txt a10.txt", "?sort=size&order=asc"),
        (3, "B.txt a9.txt a10.txt", "?sort=date&order=desc"),
        (3, "a10.txt a9.txt B.txt", "?sort=date&order=asc"),
        (1, "a9.txt a10.txt B.txt", "?sort=name&order=asc"),
        (1, "B.txt a10.txt a9.txt", "?sort=name&order=desc"),
    ] {
        if !query.is_empty() {
            browser.click(&format!("thead th:nth-child({heading}) button"));
        }
        assert_eq!(browser.value(ORDER), order, "{query}");
        assert_eq!(browser.value("location.search"), query);
        let sorted = browser.value(&format!(
            "document.querySelector('thead th:nth-child({heading})').getAttribute('aria-sort')"
        ));
        let direction = if query.ends_with("desc") { "descending" } else { "ascending" };
        assert_eq!(sorted, direction, "{query}");
        assert_eq!(
            browser.value("document.querySelector('#entries tr').cells[0].textContent"),
            "zoo/",
            "folders stay first"
        );
    }
    assert_eq!(browser.value("window.stays"), true, "it is the same page");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn without_javascript_a_click_requests_a_sorted_listing() {
    let server = server();
    let mut browser = Browser::start();
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.open(&server.url("/"));
    // JavaScript of the page does not run; that of the test does.
    browser.follow("thead th:nth-child(2) button");
    assert_eq!(browser.value(ORDER), "a10.txt B.txt a9.txt");
    browser.follow("thead th:nth-child(2) button");
    assert_eq!(browser.value(ORDER), "a9.txt B.txt a10.txt");
    browser.follow("#entries tr:first-child a");
    assert_eq!(browser.value("location.pathname"), "/zoo/");
}

#[test]
fn filters_names_as_the_user_types() {
    let server = server();
    let mut browser = Browser::start();
    browser.open(&server.url("/"));
    let shown = "[...document.querySelectorAll('#entries tr')].filter(row => row.getBoundingClientRect().height > 0).map(row => row.cells[0].textContent)";
    let count = "document.querySelector('output').textContent";
    browser.click("input[type=search]");
    for (typed, names, of) in [
        ("A1", json!(["a10.txt"]), "1 of 27"),
        ("photo 1.J", json!(["photo 1.jpg", "photo 11.jpg"]), "2 of 27"),
        // All words of the filter, in any position.
        ("jpg 20", json!(["photo 20.jpg"]), "1 of 27"),
        ("zoo", json!(["zoo/"]), "1 of 27"),
        ("nothing of the kind", json!([]), "0 of 27"),
    ] {
        browser.value("document.querySelector('input[type=search]').select()");
        browser.call("Input.insertText", json!({ "text": typed }));
        assert_eq!(browser.value(shown), names, "{typed}");
        assert_eq!(browser.value(count), of, "{typed}");
    }
    browser.value("document.querySelector('input[type=search]').value = ''");
    browser.value("document.querySelector('input[type=search]').dispatchEvent(new Event('input'))");
    assert_eq!(browser.value(&format!("{shown}.length")), 27);
    assert_eq!(browser.value(count), "");
    // A single entry needs no filter, and none works without JavaScript.
    browser.open(&server.url("/zoo/"));
    let hidden = "document.getElementById('filter').getBoundingClientRect().height";
    assert_eq!(browser.value(hidden), 0);
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.open(&server.url("/"));
    assert_eq!(browser.value(hidden), 0);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn shows_times_in_the_time_zone_of_the_browser() {
    let server = server();
    let mut browser = Browser::start();
    let time = "[...document.querySelectorAll('#entries tr')].find(row => row.cells[0].textContent === 'a9.txt').querySelector('time').textContent";
    let heading = "document.querySelector('th:nth-child(3)').textContent";
    // 1,600,000,200 seconds since 1970.
    for (zone, expected) in [
        ("UTC", "2020-09-13 12:30"),
        ("Europe/Berlin", "2020-09-13 14:30"),
        ("Pacific/Auckland", "2020-09-14 00:30"),
        ("Asia/Kathmandu", "2020-09-13 18:15"),
    ] {
        browser.call("Emulation.setTimezoneOverride", json!({ "timezoneId": zone }));
        browser.open(&server.url("/"));
        assert_eq!(browser.value(time), expected, "{zone}");
        assert_eq!(browser.value(heading), "Modified");
    }
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.open(&server.url("/"));
    assert_eq!(browser.value(time), "2020-09-13 12:30");
    assert_eq!(browser.value(heading), "Modified (UTC)");
}

#[test]
fn error_pages_are_styled_on_every_site() {
    let server = Site::new()
        .config("headers = { Content-Security-Policy = \"default-src 'none'\" }")
        .file("a.txt", "x")
        .start();
    let mut browser = Browser::start();
    let mut grounds = Vec::new();
    for dark in [false, true] {
        browser.phone(dark);
        browser.open(&server.url("/nothing"));
        assert_eq!(browser.value("document.title"), "404 Not Found");
        assert_eq!(
            browser.value("document.querySelector('p').textContent"),
            "There is no page at this address."
        );
        assert_eq!(browser.value("document.querySelector('a').href"), server.url("/"));
        assert_eq!(
            browser.value("getComputedStyle(document.querySelector('h1')).marginTop"),
            "0px",
            "its style counts"
        );
        assert_eq!(browser.value("document.documentElement.scrollWidth"), 390);
        grounds.push(browser.value("getComputedStyle(document.body).backgroundColor"));
        // A missing page is reported as an error of its own.
        let errors = browser.errors();
        assert!(errors.iter().all(|text| text.contains("404 (Not Found)")), "{errors:?}");
    }
    assert_ne!(grounds[0], grounds[1], "dark is another look than light");
}

#[test]
fn a_listing_fits_the_width_of_a_phone() {
    let server = server();
    let mut browser = Browser::start();
    let mut backgrounds = Vec::new();
    for dark in [false, true] {
        browser.phone(dark);
        browser.open(&server.url("/"));
        let wide = browser.value("[document.documentElement.scrollWidth, innerWidth]");
        assert_eq!((&wide[0], &wide[1]), (&json!(390), &json!(390)), "an element is wider than the screen");
        // Rows are far enough apart for touch (WCAG 2.2, 2.5.8).
        let small = browser.value(
            "[...document.querySelectorAll('#entries tr')].filter(row => row.getBoundingClientRect().height < 24 \
             || parseFloat(getComputedStyle(row.querySelector('a')).fontSize) < 14).length",
        );
        assert_eq!(small, 0, "every link can be read and hit");
        let shot = browser.screenshot();
        assert_eq!(size(&shot), (780, 1688));
        // A blank screenshot would have only a few thousand bytes.
        assert!(shot.len() > 20_000, "{} bytes", shot.len());
        if let Some(folder) = std::env::var_os("SCREENSHOTS") {
            // For a human to look at.
            let name = if dark { "listing-dark.png" } else { "listing-light.png" };
            fs::write(Path::new(&folder).join(name), &shot).unwrap();
        }
        backgrounds.push(browser.value("getComputedStyle(document.documentElement).backgroundColor + getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector('a')).color"));
    }
    assert_ne!(backgrounds[0], backgrounds[1], "dark is another look than light");
}

/// A program, most of whose lines are the same in each version.
fn program(version: u32) -> String {
    let line = |number: u32| match number % 100 {
        50 => format!("window.changed{number} = {version};\n"),
        _ => format!("window.value{number} = \"{:08x}\";\n", number.wrapping_mul(0x9e37_79b9)),
    };
    (0..3000).map(line).collect::<String>() + &format!("window.version = {version};\n")
}

#[test]
fn a_browser_decodes_the_difference_to_an_earlier_version() {
    let page = |version: u32| format!("<script src=\"/app/a.{version}.js\"></script>");
    let server = Site::new()
        .file("1.html", page(1))
        .file("2.html", page(2))
        .file("app/a.1.js", program(1))
        .file("app/a.2.js", program(2))
        .config(
            "workers = 1\n[[route]]\npath = \"/app/\"\ndictionary = \"/app/*.js\"\n\
             cache_control = { \"/app/a.1.js\" = \"max-age=3600\", \"/app/a.2.js\" = \"no-store\" }",
        )
        .start();
    // The delta is made before the browser requests it.
    let hash = <sha2::Sha256 as sha2::Digest>::digest(program(1));
    let hash = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, hash);
    for coding in ["dcb", "dcz"] {
        let fields = format!("Accept-Encoding: {coding}\r\nAvailable-Dictionary: :{hash}:\r\n");
        let is_made =
            || server.connect().get_with("/app/a.2.js", &fields).field("content-encoding") == Some(coding);
        assert!(e2e::wait_until(TIMEOUT * 6, is_made), "{coding}");
    }
    let mut browser = Browser::start();
    browser.open(&server.url("/1.html"));
    assert_eq!(browser.value("window.version"), 1);
    // The browser stores the dictionary when it has the page already.
    let sizes = "performance.getEntriesByType('resource').map(r => r.encodedBodySize)[0]";
    assert!(browser.value(sizes).as_u64().is_some_and(|size| size > 5000));
    let is_small = e2e::wait_until(TIMEOUT, || {
        browser.open(&server.url("/2.html"));
        assert_eq!(browser.value("[window.version, window.changed50].join()"), "2,2");
        browser.value(sizes).as_u64().is_some_and(|size| size > 0 && size < 3000)
    });
    assert!(is_small, "{}", browser.value(sizes));
}

#[test]
fn axe_core_finds_nothing_on_listings_and_pages_of_errors() {
    let source = fs::read_to_string(npm_package("axe-core").join("axe.min.js")).expect("it is installed");
    let server = server();
    let mut browser = Browser::start();
    for is_dark in [false, true] {
        browser.phone(is_dark);
        for path in ["/", "/zoo/", "/missing"] {
            browser.open(&server.url(path));
            assert_eq!(found_by_axe(&mut browser, &source), Vec::<String>::new(), "{path}, dark: {is_dark}");
        }
    }
}
