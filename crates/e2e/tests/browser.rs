//! The listing in a real browser, driven through the DevTools protocol.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use e2e::{
    Address, Folder, Server, Site, TIMEOUT, authority, free_port, npm_package, output_within, tool,
    wait_until,
};
use serde_json::{Value, json};

/// A headless Chromium with one page.
struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    sent: u64,
    /// Events that came while the test waited for another message.
    events: Vec<Value>,
    /// The session of the page.
    page: Value,
    _profile: Folder,
}

impl Browser {
    fn start() -> Browser {
        Browser::start_with(Folder::new(), &[])
    }

    fn start_with(profile: Folder, more: &[String]) -> Browser {
        let chromium = tool("chromium").get_program().to_owned();
        // The browser uses the descriptors 3 and 4, which std cannot pass on; a shell can.
        let mut command = tool("sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"]).arg(chromium);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.args(["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).args(more);
        command
            .env("HOME", profile.path())
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let responses = child.stdout.take().unwrap();
        let (send, messages) = mpsc::channel();
        thread::spawn(move || {
            // Each message ends with a NUL.
            for message in BufReader::new(responses).split(0) {
                let Ok(message) = message.map(|bytes| serde_json::from_slice(&bytes).unwrap_or(Value::Null))
                else {
                    return;
                };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser {
            child,
            commands,
            messages,
            session: None,
            sent: 0,
            events: Vec::new(),
            page: Value::Null,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        browser.call("Page.setLifecycleEventsEnabled", json!({ "enabled": true }));
        let frames = browser.call("Page.getFrameTree", json!({}));
        browser.page = frames["frameTree"]["frame"]["loaderId"].clone();
        browser
    }

    /// Sends a command, whose number it returns.
    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.sent += 1;
        let id = self.sent;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.commands
            .write_all(message.to_string().as_bytes())
            .and_then(|()| self.commands.write_all(&[0]))
            .expect("the browser runs");
        id
    }

    /// Sends a command and waits for its result.
    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let response = self.wait_for(&format!("the response to {method}"), |message| message["id"] == id);
        assert!(response["error"].is_null(), "{method}: {response}");
        response["result"].clone()
    }

    fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + TIMEOUT * 6;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message =
                self.messages.recv_timeout(left).unwrap_or_else(|_| panic!("the browser gives no {what}"));
            if is_it(&message) {
                return message;
            }
            self.events.push(message);
        }
    }

    /// Navigates to a page and waits until it is loaded.
    fn open(&mut self, url: &str) {
        self.events.clear();
        let went = self.call("Page.navigate", json!({ "url": url }));
        assert!(went["errorText"].is_null(), "{url}: {went}");
        let page = went["loaderId"].clone();
        self.wait_until_loaded(0, |loaded| *loaded == page);
    }

    /// As `open`, and answers the login dialog: with `login`, or by closing it. The number of dialogs.
    fn open_with_dialog(&mut self, url: &str, login: Option<(&str, &str)>) -> usize {
        self.call("Fetch.enable", json!({ "handleAuthRequests": true }));
        self.events.clear();
        let navigation = self.send("Page.navigate", json!({ "url": url }));
        let (mut dialogs, mut page, mut loaded) = (0, Value::Null, Vec::new());
        // The load of the page before may be reported late, and that of this one before the browser names it.
        while page.is_null() || !loaded.contains(&page) {
            let message = self.wait_for("page", |message| {
                message["id"] == navigation
                    || message["params"]["name"] == "load"
                    || message["method"].as_str().is_some_and(|method| method.starts_with("Fetch."))
            });
            let request = &message["params"]["requestId"];
            match message["method"].as_str() {
                Some("Fetch.authRequired") => {
                    let is_page = message["params"]["resourceType"] == "Document";
                    dialogs += usize::from(is_page);
                    let answer = match login.filter(|_| dialogs <= 1) {
                        Some((user, password)) => {
                            json!({ "response": "ProvideCredentials", "username": user, "password": password })
                        }
                        None => json!({ "response": "CancelAuth" }),
                    };
                    let answer = json!({ "requestId": request, "authChallengeResponse": answer });
                    self.send("Fetch.continueWithAuth", answer);
                }
                Some("Fetch.requestPaused") => {
                    self.send("Fetch.continueRequest", json!({ "requestId": request }));
                }
                Some(_) => loaded.push(message["params"]["loaderId"].clone()),
                None => page = message["result"]["loaderId"].clone(),
            }
        }
        self.page = page;
        self.call("Fetch.disable", json!({}));
        dialogs
    }

    /// Clicks something that leads to another page and waits until that is loaded.
    fn follow(&mut self, selector: &str) {
        let (before, page) = (self.events.len(), self.page.clone());
        self.click(selector);
        self.wait_until_loaded(before, |loaded| *loaded != page);
    }

    /// Waits until a page is loaded, unless the events from this index on have said so.
    fn wait_until_loaded(&mut self, from: usize, is_it: impl Fn(&Value) -> bool) {
        let is_loaded = |message: &Value| {
            message["method"] == "Page.lifecycleEvent"
                && message["params"]["name"] == "load"
                && is_it(&message["params"]["loaderId"])
        };
        let loaded = self.events[from..].iter().find(|event| is_loaded(event)).cloned();
        let loaded = loaded.unwrap_or_else(|| self.wait_for("page", is_loaded));
        self.page = loaded["params"]["loaderId"].clone();
    }

    /// The value of a JavaScript expression in the page.
    fn value(&mut self, expression: &str) -> Value {
        let result =
            self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Clicks in the middle of an element.
    fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const r = document.querySelector({selector:?}).getBoundingClientRect();
                return [r.x + r.width / 2, r.y + r.height / 2] }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses and releases a key that has this code (UI Events, `KeyboardEvent.code`).
    fn press(&mut self, key: &str, code: u32) {
        let text = match key {
            "Enter" => "\r",
            " " => " ",
            _ => "",
        };
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Errors of the page, and violations of its policy.
    fn errors(&self) -> Vec<String> {
        let is_error = |event: &&Value| {
            event["method"] == "Runtime.exceptionThrown"
                || event["method"] == "Log.entryAdded" && event["params"]["entry"]["level"] == "error"
        };
        // Every browser requests an icon, which is missing here.
        self.events
            .iter()
            .filter(is_error)
            .map(Value::to_string)
            .filter(|text| !text.contains("favicon"))
            .collect()
    }

    fn phone(&mut self, dark: bool) {
        let phone = json!({ "width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true });
        self.call("Emulation.setDeviceMetricsOverride", phone);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", media);
    }

    /// A screenshot as PNG.
    fn screenshot(&mut self) -> Vec<u8> {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        base64(shot["data"].as_str().expect("it is text"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its child processes end only when it exits by itself.
        _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let until = Instant::now() + TIMEOUT / 2;
        // The stream of messages ends with the browser.
        while self.messages.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
        // Fails only if the browser has exited.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// RFC 4648 §4.
fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for digit in text.bytes().filter(|byte| *byte != b'=') {
        let value = DIGITS.iter().position(|known| *known == digit).expect("it is base64");
        (bits, count) = (bits << 6 | value as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}

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

/// Width and height of a PNG (PNG §11.2.2).
fn size(png: &[u8]) -> (u32, u32) {
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "it is a PNG");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
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

/// Adds the authority of this test process to a database of NSS, which browsers trust.
fn trust(database: &Path) {
    fs::create_dir_all(database).expect("it can be made");
    let roots = database.join("roots.pem");
    fs::write(&roots, authority().pem()).expect("it can be written");
    let name = format!("sql:{}", database.display());
    let new: [&str; 4] = ["-N", "--empty-password", "-d", &name];
    let add = ["-A", "-n", "tests", "-t", "C,,", "-d", &name, "-i", roots.to_str().expect("it is UTF-8")];
    for arguments in [&new[..], &add] {
        let output = tool("certutil").args(arguments).output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
    }
}

/// A site with the certificate of `NAMES`, without TLS and with it.
fn secure_site(more: &str) -> (Server, [u16; 2]) {
    let server = Site::new()
        .certificate()
        .file("1.html", "<title>one</title>")
        .file("2.html", "<title>two</title>")
        .config(&format!(
            "workers = 1\nlisten = [\"127.0.0.2:0\", \"127.0.0.1:0 tls\"]\nnames = [\"example.org\", \"www.example.org\", \"localhost\"]\n\
             certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n{more}\
             [log]\naccess = \"./access.log\"\nformat = \"json\"\n"
        ))
        .start();
    let ports = server.addresses().into_iter().map(|address| match address {
        Address::Tcp(address) => address.port(),
        other => panic!("{other:?} has no port"),
    });
    let ports: Vec<u16> = ports.collect();
    (server, ports.try_into().expect("two addresses"))
}

/// The lines of the access log for a path.
fn logged(server: &Server, path: &str) -> Vec<Value> {
    let lines = fs::read_to_string(server.home().join("access.log")).unwrap_or_default();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == path).collect()
}

#[test]
fn a_browser_speaks_http2_and_remembers_that_a_host_has_tls() {
    let (server, [plain, secure]) = secure_site("hsts = \"1y\"\n");
    let profile = Folder::new();
    trust(&profile.path().join(".pki/nssdb"));
    // Without HSTS, the browser itself would try TLS first.
    let mut browser = Browser::start_with(
        profile,
        &[
            "--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable".to_owned(),
            format!("--host-resolver-rules=MAP *.org:80 127.0.0.2:{plain}, MAP *.org:443 127.0.0.1:{secure}"),
        ],
    );
    browser.open("https://example.org/1.html");
    let protocol = "performance.getEntriesByType('navigation')[0].nextHopProtocol";
    assert_eq!(browser.value(protocol), "h2");
    // The browser has seen the field of this host, and of no other.
    browser.open("http://example.org/2.html");
    assert_eq!(browser.value("document.title + location.href"), "twohttps://example.org/2.html");
    assert!(wait_until(TIMEOUT, || !logged(&server, "/2.html").is_empty()));
    let lines = logged(&server, "/2.html");
    assert!(lines.iter().all(|line| line["tls"]["protocol"] == "TLSv1.3"), "{lines:?}");
    assert!(lines.iter().all(|line| line["tls"]["sni"] == "example.org" && line["version"] == "HTTP/2.0"));
    browser.call("Page.navigate", json!({ "url": "http://www.example.org/1.html" }));
    let is_plain =
        || logged(&server, "/1.html").iter().any(|line| line["tls"].is_null() && line["status"] == 301);
    assert!(wait_until(TIMEOUT, is_plain), "{:?}", logged(&server, "/1.html"));
}

#[test]
fn firefox_opens_a_page_over_http2() {
    let (server, [_, secure]) = secure_site("");
    let profile = Folder::new();
    trust(profile.path());
    let settings = "user_pref(\"datareporting.policy.dataSubmissionEnabled\", false);\n";
    fs::write(profile.path().join("user.js"), settings).expect("it can be written");
    let mut firefox = tool("firefox-esr");
    firefox.env("HOME", profile.path()).args(["--headless", "--no-remote", "--profile"]).arg(profile.path());
    firefox.arg("--screenshot").arg(profile.path().join("page.png"));
    firefox.arg(format!("https://localhost:{secure}/2.html"));
    let output = output_within(&mut firefox, TIMEOUT * 12);
    let lines = logged(&server, "/2.html");
    let is_expected = |line: &Value| {
        line["version"] == "HTTP/2.0"
            && line["status"] == 200
            && line["tls"]["protocol"] == "TLSv1.3"
            && line["user_agent"].as_str().is_some_and(|agent| agent.contains("Firefox"))
    };
    assert!(lines.iter().any(is_expected), "{lines:?} {output:?} {}", server.stderr());
}

/// Sends back each WebSocket message of a client (RFC 6455). Messages are short.
const ECHO: &str = r#"#!/usr/bin/env python3
import base64, hashlib, socket, threading

def exactly(stream, count):
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data

def serve(connection):
    stream = connection.makefile('rwb')
    key = None
    while (line := stream.readline().strip()):
        name, _, value = line.partition(b':')
        if name.lower() == b'sec-websocket-key':
            key = value.strip()
    accept = base64.b64encode(hashlib.sha1(key + b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest())
    stream.write(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                 b'Sec-WebSocket-Accept: ' + accept + b'\r\n\r\n')
    stream.flush()
    while True:
        first, length = exactly(stream, 2)
        length &= 127
        if length == 126:
            length = int.from_bytes(exactly(stream, 2), 'big')
        mask = exactly(stream, 4)
        data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(exactly(stream, length)))
        size = bytes([length]) if length < 126 else b'\x7e' + length.to_bytes(2, 'big')
        stream.write(bytes([first]) + size + data)
        stream.flush()
        if first & 15 == 8:
            connection.shutdown(socket.SHUT_RDWR)
            return

listener = socket.socket(fileno=0)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
"#;

#[test]
fn a_browser_opens_a_websocket_to_an_application() {
    let site = Site::new().file("index.html", "<!doctype html><title>chat</title>").script("echo.py", ECHO);
    let program = site.root().join("echo.py");
    let server = site
        .config(&format!(
            "[[route]]\npath = \"/chat\"\nproxy = \"http://echo\"\n\
             [[application]]\nname = \"echo\"\nprotocol = \"http\"\ncommand = \"{}\"\nconcurrent = 10\n\
             env = {{ PATH = \"/usr/bin:/bin\" }}\n",
            program.display()
        ))
        .start();
    let mut browser = Browser::start();
    browser.open(&server.url("/"));
    let script = "new Promise(resolve => {
        const socket = new WebSocket(location.origin.replace('http', 'ws') + '/chat'), got = [];
        const long = 'x'.repeat(60000);
        socket.onopen = () => { socket.send('hello'); socket.send(long) };
        socket.onmessage = event => {
            got.push(event.data === long ? 'long' : event.data);
            if (got.length == 2) socket.close(1000, 'done');
        };
        socket.onclose = event => resolve([...got, event.code, event.wasClean]);
    })";
    let params = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
    let result = browser.call("Runtime.evaluate", params);
    assert_eq!(
        result["result"]["value"],
        json!(["hello", "long", 1000, true]),
        "{result} {}",
        server.stderr()
    );
}

#[test]
fn a_browser_logs_in_by_its_dialog_and_logs_out() {
    let hash = tool("htpasswd").args(["-nbm", "ann", "wonderland"]).output().expect("htpasswd runs").stdout;
    let server = Site::new()
        .file("index.html", "<title>home</title>")
        .file("members/index.html", "<title>members</title>")
        .file_beside_root("users", hash)
        // Otherwise a browser may show a page of its cache without a request.
        .config(
            "workers = 1\ncache_control = \"no-cache\"\n[[route]]\npath = \"/members/\"\nauth = \"basic\"\n\
             realm = \"Members\"\nuser_files = \"users\"\n[timeouts]\ndelay = 0\n",
        )
        .start();
    let mut browser = Browser::start();
    let (home, members) = (server.url("/"), server.url("/members/"));
    let title = |browser: &mut Browser| browser.value("document.title").as_str().map(str::to_owned);
    assert_eq!(browser.open_with_dialog(&home, None), 0);
    assert_eq!(browser.open_with_dialog(&members, Some(("ann", "wrong"))), 2, "it asks again");
    assert_ne!(title(&mut browser).as_deref(), Some("members"));
    assert_eq!(browser.open_with_dialog(&members, Some(("ann", "wonderland"))), 1);
    assert_eq!(title(&mut browser).as_deref(), Some("members"));
    assert_eq!(browser.open_with_dialog(&members, None), 0, "it remembers the password");
    assert_eq!(title(&mut browser).as_deref(), Some("members"));
    // As the manual says.
    let logout = members.replace("http://", "http://logout@");
    assert_eq!(browser.open_with_dialog(&logout, None), 1);
    assert_eq!(browser.open_with_dialog(&members, None), 1, "it has forgotten the password");
    assert_ne!(title(&mut browser).as_deref(), Some("members"));
    let with_password = members.replace("http://", "http://ann:wonderland@");
    assert_eq!(browser.open_with_dialog(&with_password, None), 0, "the address has the password");
    assert_eq!(title(&mut browser).as_deref(), Some("members"));
}

#[test]
fn the_page_of_the_server_is_live_and_shows_hostile_requests_as_text() {
    let config = "workers = 2\n[[route]]\npath = \"/-/status\"\nmonitor = \"status\"\n\
                  [[route.rule]]\naddress = \"127.0.0.1\"\nthen = \"allow\"\n[[route.rule]]\nthen = \"deny\"\n";
    let server = Site::new().file("a.txt", "a").config(config).start();
    // As clients may send it: with bytes that markup is made of, as far as a target may have them.
    let hostile = "/%3Cimg%20src=x%20onerror=document.title=1%3E'&quot;";
    _ = server.request(format!("GET {hostile} HTTP/1.1\r\nHost: h\r\n\r\n"));
    let mut browser = Browser::start();
    browser.open(&server.url("/-/status"));
    let shown = |browser: &mut Browser, id: &str| {
        browser
            .value(&format!("document.getElementById('{id}').textContent"))
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(wait_until(TIMEOUT, || shown(&mut browser, "state") == "live"));
    assert!(wait_until(TIMEOUT, || shown(&mut browser, "last-rows").contains("onerror")));
    let count = "Number(document.querySelector('[data-count=status_2xx]').textContent.replaceAll(',', ''))";
    let before = browser.value(count).as_u64().unwrap_or(0);
    for _ in 0..10 {
        assert_eq!(server.get("/a.txt").status, 200);
    }
    assert!(wait_until(TIMEOUT, || browser.value(count).as_u64() >= Some(before + 10)));
    assert!(
        wait_until(TIMEOUT, || browser.value("document.querySelectorAll('svg path').length") == json!(11))
    );
    browser.click("[data-range='2']");
    let pressed = "document.querySelector('[data-range=\"2\"]').getAttribute('aria-pressed')";
    assert_eq!(browser.value(pressed), "true");
    for (expression, expected) in [
        ("document.images.length", json!(0)),
        ("document.title", json!("taipan: status")),
        (
            "performance.getEntriesByType('resource').every(entry => entry.name.startsWith(location.origin))",
            json!(true),
        ),
        ("document.documentElement.scrollWidth <= innerWidth", json!(true)),
    ] {
        assert_eq!(browser.value(expression), expected, "{expression}");
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
    browser.phone(true);
    assert_eq!(browser.value("document.documentElement.scrollWidth <= innerWidth"), true);
}

/// A site whose page may be seen here.
fn watched_site(more: &str) -> Site {
    let config = format!(
        "workers = 1\n{more}\n[[route]]\npath = \"/-/status\"\nmonitor = \"status\"\n\
         [[route.rule]]\naddress = \"127.0.0.1\"\nthen = \"allow\"\n[[route.rule]]\nthen = \"deny\"\n"
    );
    Site::new().file("a.txt", "a").config(&config)
}

/// Waits until the page of the server has this state.
fn expect_state(browser: &mut Browser, state: &str) {
    let now = "[document.body.dataset.state, document.getElementById('state').textContent].join(': ')";
    let is_it = |browser: &mut Browser| {
        browser.value(now).as_str().is_some_and(|text| text.starts_with(&format!("{state}: ")))
    };
    assert!(wait_until(TIMEOUT, || is_it(browser)), "{state} is not {}", browser.value(now));
}

/// Counts the events and the changes of the state that a screen reader says, from now on.
const COUNT_CHANGES: &str = "window.changes = { facts: 0, state: 0 };
    for (const id of ['facts', 'state']) {
        new MutationObserver(() => { changes[id]++ })
            .observe(document.getElementById(id), { childList: true, characterData: true, subtree: true });
    }";

#[test]
fn every_control_of_the_page_of_the_server_is_reached_and_used_by_keys() {
    let server = watched_site("[statistics]\nhosts = 5\nroutes = 5\n").start();
    let mut browser = Browser::start();
    browser.open(&server.url("/-/status"));
    expect_state(&mut browser, "live");
    let has_zones = "document.getElementById('zone-rows').rows.length > 0";
    assert!(wait_until(TIMEOUT, || browser.value(has_zones) == true));
    let name = "(() => { const e = document.activeElement, outline = getComputedStyle(e);
        const seen = e.checkVisibility() && outline.outlineStyle !== 'none' && parseFloat(outline.outlineWidth) >= 2;
        return (e.id || e.textContent.trim()) + (seen ? '' : ' without a visible focus') })()";
    let mut order = Vec::new();
    for _ in 0..18 {
        browser.press("Tab", 9);
        order.push(browser.value(name).as_str().unwrap_or_default().to_owned());
    }
    let expected = [
        "pause",
        "Minute",
        "Hour",
        "Day",
        "chart-requests",
        "chart-latency",
        "chart-traffic",
        "chart-connections",
        "Hosts",
        "Routes",
        "Name",
        "Rate",
        "4xx",
        "5xx",
        "Sent",
        "p50",
        "p99",
        "only-errors",
    ];
    assert_eq!(order, expected);
    let controls = "document.querySelectorAll('a[href], button, input, select, summary, [tabindex]').length";
    // The list of all hosts is short, and the last one is `summary`.
    assert_eq!(browser.value(controls), json!(expected.len() + 2));
    browser.press("Tab", 9);
    assert_eq!(browser.value("document.activeElement.tagName"), "SUMMARY");
    browser.press("Enter", 13);
    assert_eq!(browser.value("document.querySelector('details').open"), true);
    // The keys of a chart read it, and Escape ends that.
    browser.value("document.getElementById('chart-traffic').focus()");
    let read = "document.getElementById('chart-traffic').getAttribute('aria-valuenow')";
    for (key, code, at) in
        [("ArrowLeft", 37, "58"), ("PageDown", 34, "48"), ("Home", 36, "0"), ("ArrowRight", 39, "1")]
    {
        browser.press(key, code);
        assert_eq!(browser.value(read), at, "{key}");
    }
    let moment = "document.getElementById('moment').textContent.includes('ago') + ' ' + document.querySelectorAll('.cursor').length";
    assert_eq!(browser.value(moment), "true 4");
    browser.press("Escape", 27);
    assert_eq!(browser.value(moment), "false 0");
    for (control, key, code, expression, expected) in [
        ("[data-range='1']", "Enter", 13, "location.hash", "#hour"),
        ("[data-kind='route']", " ", 32, "document.querySelector('[data-kind=route]').ariaPressed", "true"),
        (
            "#zones th:nth-child(4) button",
            "Enter",
            13,
            "document.querySelector('#zones th:nth-child(4)').ariaSort",
            "descending",
        ),
        (
            "#zones th:nth-child(4) button",
            "Enter",
            13,
            "document.querySelector('#zones th:nth-child(4)').ariaSort",
            "ascending",
        ),
        ("#only-errors", "Enter", 13, "document.querySelector('#only-errors').ariaPressed", "true"),
        ("#pause", " ", 32, "document.body.dataset.state", "paused"),
    ] {
        browser.value(&format!("document.querySelector({control:?}).focus()"));
        browser.press(key, code);
        assert_eq!(browser.value(expression), expected, "{control}");
    }
    // A page at rest has no stream.
    assert!(wait_until(TIMEOUT, || server.count("active") == 0), "{}", server.stats());
    browser.press(" ", 32);
    expect_state(&mut browser, "live");
    // Events change values, and say nothing.
    browser.value(COUNT_CHANGES);
    assert!(wait_until(TIMEOUT, || browser.value("changes.facts").as_u64() >= Some(3)));
    assert_eq!(browser.value("changes.state"), 0);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn the_page_of_a_server_at_rest_makes_no_requests() {
    let server = watched_site("").start();
    let mut browser = Browser::start();
    browser.open(&server.url("/-/status"));
    expect_state(&mut browser, "live");
    browser.value(COUNT_CHANGES);
    let changes = |browser: &mut Browser| browser.value("changes.facts").as_u64();
    // By now, what belongs to the page itself has been loaded.
    assert!(wait_until(TIMEOUT, || changes(&mut browser) >= Some(1)));
    let before = browser.value("performance.getEntriesByType('resource').length");
    assert!(wait_until(TIMEOUT, || changes(&mut browser) >= Some(4)));
    assert_eq!(browser.value("performance.getEntriesByType('resource').length"), before);
    let texts =
        "['rate', 'errors', 'first-byte'].map(id => document.getElementById(id).textContent).join(' ')";
    assert!(wait_until(TIMEOUT, || browser.value(texts) == "0/s – –"), "{}", browser.value(texts));
    assert_eq!(
        browser.value("document.getElementById('no-last').hidden"),
        false,
        "it leaves out its own requests"
    );
}

#[test]
fn the_page_shows_no_rates_before_it_has_the_history() {
    let server = watched_site("").start();
    let mut browser = Browser::start();
    browser.call("Network.enable", json!({}));
    browser.call("Network.setBlockedURLs", json!({ "urls": ["*?history=*"] }));
    browser.open(&server.url("/-/status"));
    expect_state(&mut browser, "live");
    browser.value(COUNT_CHANGES);
    assert!(wait_until(TIMEOUT, || browser.value("changes.facts").as_u64() >= Some(2)));
    let texts = "['rate', 'errors', 'first-byte', 'sending', 'hits'].map(id => \
                 document.getElementById(id).textContent).join(' ')";
    assert_eq!(browser.value(texts), "– – – – –");
    assert_ne!(browser.value("document.getElementById('memory').textContent"), "–");
    browser.call("Network.setBlockedURLs", json!({ "urls": [] }));
    assert!(
        wait_until(TIMEOUT, || browser.value(texts) == "0/s – – 0\u{a0}B/s –"),
        "{}",
        browser.value(texts)
    );
}

#[test]
fn the_page_says_that_the_server_is_gone_and_goes_on_when_it_is_back() {
    let listen = format!("listen = \"127.0.0.1:{}\"", free_port());
    let mut server = watched_site(&listen).start();
    let mut browser = Browser::start();
    browser.open(&server.url("/-/status"));
    expect_state(&mut browser, "live");
    assert_eq!(server.get("/a.txt").status, 200);
    // A reload is no reason to worry.
    browser.value(
        "window.states = [];
        new MutationObserver(() => { states.push(document.body.dataset.state) })
            .observe(document.body, { attributes: true })",
    );
    let process = "document.getElementById('facts').title";
    server.reload();
    let now = format!("process {}", server.serving_pid());
    assert!(wait_until(TIMEOUT, || browser.value(process) == now.as_str()), "{}", browser.value(process));
    assert_eq!(browser.value("states.includes('lost')"), false);
    server.signal(e2e::Signal::TERM);
    assert!(server.wait(TIMEOUT).success());
    expect_state(&mut browser, "lost");
    let said = browser.value("document.title + ': ' + document.getElementById('state').textContent");
    let said = said.as_str().unwrap_or_default();
    assert!(said.starts_with("No connection: taipan: status: no connection since "), "{said}");
    let server = watched_site(&listen).start();
    expect_state(&mut browser, "live");
    assert_eq!(server.get("/a.txt").status, 200);
    let rows = "document.getElementById('last-rows').textContent";
    let is_shown =
        |browser: &mut Browser| browser.value(rows).as_str().is_some_and(|text| text.contains("/a.txt"));
    assert!(wait_until(TIMEOUT, || is_shown(&mut browser)));
    assert_eq!(
        browser.value("document.getElementById('last-rows').rows.length"),
        1,
        "those of the server before are gone"
    );
    assert_eq!(browser.value("document.title"), "taipan: status");
}

#[test]
fn the_page_fits_a_phone_a_large_zoom_and_a_browser_without_scripts() {
    let server = watched_site("[statistics]\nhosts = 40\nroutes = 70\n").start();
    let long = format!("/{}", "A".repeat(2000));
    _ = server.request(format!(
        "GET {long} HTTP/1.1\r\nHost: {0}.{0}.{0}.example\r\nUser-Agent: <b>\r\n\r\n",
        "h".repeat(60)
    ));
    let mut browser = Browser::start();
    browser.open(&server.url("/-/status"));
    expect_state(&mut browser, "live");
    let has_row = "document.getElementById('last-rows').rows.length";
    assert!(wait_until(TIMEOUT, || browser.value(has_row) == 1));
    for (width, height, is_mobile) in
        [(1280, 800, false), (900, 700, false), (640, 450, false), (390, 844, true), (320, 568, true)]
    {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_mobile });
        browser.call("Emulation.setDeviceMetricsOverride", size);
        let fits = "document.documentElement.scrollWidth + ' of ' + innerWidth";
        let expected = format!("{width} of {width}");
        assert!(
            wait_until(TIMEOUT, || browser.value(fits) == expected.as_str()),
            "{width}: {}",
            browser.value(fits)
        );
    }
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.open(&server.url("/-/status"));
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": false }));
    for (expression, expected) in [
        ("document.getElementById('pause').checkVisibility()", json!(false)),
        ("document.getElementById('chart-requests').checkVisibility()", json!(false)),
        ("document.querySelector('[data-count=accepted]').checkVisibility()", json!(true)),
        ("document.querySelector('#zone-rows td').textContent", json!("*")),
        ("document.querySelectorAll('.groups caption').length", json!(13)),
        ("document.documentElement.scrollWidth <= innerWidth", json!(true)),
    ] {
        assert_eq!(browser.value(expression), expected, "{expression}");
    }
}

#[test]
fn hosts_of_requests_and_figures_fit_into_their_places() {
    let server = watched_site("").start();
    _ = server.request("GET /page HTTP/1.1\r\nHost: example.org\r\n\r\n");
    let mut browser = Browser::start();
    let size = json!({ "width": 1100, "height": 800, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", size);
    browser.open(&server.url("/-/status"));
    let has_row = "document.getElementById('last-rows').rows.length";
    assert!(wait_until(TIMEOUT, || browser.value(has_row) == 1));
    // The longest figure that there is, in place of the present ones.
    browser.value("document.querySelectorAll('dd').forEach(figure => figure.textContent = '1023 kB/s'); 0");
    for cells in ["#last-rows td", "#last-rows td:nth-child(3)", "dl.tiles dd"] {
        let cut = format!(
            "[...document.querySelectorAll('{cells}')].filter(cell => cell.scrollWidth > cell.clientWidth)\
             .map(cell => cell.textContent).join()"
        );
        assert_eq!(browser.value(&cut), "", "{cells}");
    }
}

/// What the package `axe-core` finds on a page, in sentences.
fn found_by_axe(browser: &mut Browser, source: &str) -> Vec<String> {
    browser.value(&format!("{source}\n;0"));
    let run = "axe.run(document).then(found => found.violations.flatMap(rule => \
               rule.nodes.map(node => `${rule.id}: ${node.html}: ${node.failureSummary}`)))";
    let evaluated = browser
        .call("Runtime.evaluate", json!({ "expression": run, "awaitPromise": true, "returnByValue": true }));
    let found = evaluated["result"]["value"].as_array().unwrap_or_else(|| panic!("{evaluated}")).clone();
    found.iter().map(|sentence| sentence.as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn axe_core_finds_nothing_on_the_page_of_the_server() {
    let source = fs::read_to_string(npm_package("axe-core").join("axe.min.js")).expect("it is installed");
    let config = format!(
        "workers = 1\n[statistics]\nhosts = 5\nroutes = 5\n\
         [[route]]\npath = \"/-/status\"\nmonitor = \"status\"\n\
         [[route.rule]]\naddress = \"127.0.0.1\"\nthen = \"allow\"\n[[route.rule]]\nthen = \"deny\"\n\
         [[route]]\npath = \"/broken/\"\nreturn = 503\n[[route]]\npath = \"/moved\"\nredirect = \"/a.txt\"\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = [\"127.0.0.1:{}\"]\n\
         [application.health]\npath = \"/\"\ninterval = \"100ms\"\nfall = 1\n\
         [[route]]\npath = \"/app/\"\napplication = \"app\"\n",
        free_port()
    );
    let server = Site::new().file("a.txt", "a").config(&config).start();
    let mut browser = Browser::start();
    browser.open(&server.url("/-/status"));
    for path in ["/a.txt", "/missing", "/broken/x", "/moved"] {
        _ = server.get(path);
    }
    browser.value("document.querySelector('[data-kind=route]').click()");
    let parts = [
        ("last-rows", "503"),
        ("zone-rows", "/broken/"),
        ("endpoint-rows", "down"),
        ("problem-list", "of app has been down"),
    ];
    for (id, part) in parts {
        let text = format!("document.getElementById('{id}').textContent");
        let is_shown =
            |browser: &mut Browser| browser.value(&text).as_str().is_some_and(|text| text.contains(part));
        assert!(wait_until(TIMEOUT, || is_shown(&mut browser)), "{id}: {}", browser.value(&text));
    }
    for scheme in ["light", "dark"] {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.call("Emulation.setEmulatedMedia", json!({ "features": features }));
        assert_eq!(found_by_axe(&mut browser, &source), Vec::<String>::new(), "{scheme}");
    }
    for is_dark in [false, true] {
        browser.phone(is_dark);
        assert_eq!(found_by_axe(&mut browser, &source), Vec::<String>::new(), "phone, dark: {is_dark}");
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
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
