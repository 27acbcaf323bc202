//! The page that shows how the server does.

use std::thread;
use std::time::Duration;

use e2e::{Signal, signal_process, stop_process};

use super::*;

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

#[test]
fn the_page_of_a_server_that_counts_routes_alone_shows_them() {
    let server = watched_site("[statistics]\nroutes = 5\n").start();
    let mut browser = Browser::start();
    browser.open(&server.url("/-/status"));
    let shown = "document.getElementById('zone-rows').innerText.includes('/-/status')";
    assert!(wait_until(TIMEOUT, || browser.value(shown) == true));
    assert_eq!(browser.value("document.querySelector('[data-kind=route]').ariaPressed"), "true");
    assert_eq!(browser.errors(), Vec::<String>::new());
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
    // The rows of routes are for browsers without scripts.
    assert_eq!(browser.value("document.querySelectorAll('#zones tbody')[1].checkVisibility()"), false);
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
    let texts =
        "['rate', 'errors', 'first-byte'].map(id => document.getElementById(id).textContent).join(' ')";
    // By now, it has its style, its script and the history.
    assert!(wait_until(TIMEOUT, || browser.value(texts) == "0/s – –"), "{}", browser.value(texts));
    let before = browser.value("performance.getEntriesByType('resource').length");
    browser.value(COUNT_CHANGES);
    let changes = |browser: &mut Browser| browser.value("changes.facts").as_u64();
    assert!(wait_until(TIMEOUT, || changes(&mut browser) >= Some(2)));
    // On a busy machine an event is late, and there is no point for a second.
    let process = server.serving_pid();
    stop_process(process);
    thread::sleep(Duration::from_millis(2200));
    signal_process(process, Signal::CONT);
    let seen = changes(&mut browser);
    assert!(wait_until(TIMEOUT, || changes(&mut browser) >= seen.map(|seen| seen + 2)));
    assert_eq!(browser.value("performance.getEntriesByType('resource').length"), before);
    assert_eq!(browser.value(texts), "0/s – –");
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
    server.signal(Signal::TERM);
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
        (
            "[...document.querySelector('#zone-rows tr').cells].filter(cell => cell.checkVisibility()).length",
            json!(5),
        ),
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
    browser.open(&server.url("/-/status"));
    let has_row = "document.getElementById('last-rows').rows.length";
    assert!(wait_until(TIMEOUT, || browser.value(has_row) == 1));
    for width in [1300, 1100, 1000, 860] {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", size);
        // The longest figure that there is, in place of the present ones.
        browser
            .value("document.querySelectorAll('dd').forEach(figure => figure.textContent = '1023 kB/s'); 0");
        for cells in ["#last-rows td", "table:has(#last-rows) th", "dl.tiles dd"] {
            let cut = format!(
                "[...document.querySelectorAll('{cells}')].filter(cell => cell.scrollWidth > cell.clientWidth)\
                 .map(cell => cell.textContent).join()"
            );
            assert_eq!(browser.value(&cut), "", "{cells} at {width}");
        }
    }
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
         [[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         [[route]]\npath = \"/alone/\"\nproxy = \"http://127.0.0.1:{}\"\n",
        free_port(),
        free_port()
    );
    let server = Site::new().file("a.txt", "a").config(&config).start();
    let mut browser = Browser::start();
    browser.open(&server.url("/-/status"));
    assert!(wait_until(TIMEOUT, || browser.value("document.body.dataset.state") == "live"));
    for path in ["/a.txt", "/missing", "/broken/x", "/moved", "/alone/"] {
        _ = server.get(path);
    }
    browser.value("document.querySelector('[data-kind=route]').click()");
    let parts = [
        ("last-rows", "503"),
        ("zone-rows", "/broken/"),
        ("endpoint-rows", "down"),
        ("problem-list", "of app has been down"),
        // The only endpoint of an application stays up.
        ("problem-list", "is failing: Connection refused"),
        ("endpoint-rows", "failing"),
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
