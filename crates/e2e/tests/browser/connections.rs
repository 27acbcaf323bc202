//! How a browser connects: HTTP/2, WebSocket, and passwords.

use super::*;

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
    // The response is there before the request.
    let upload =
        "fetch('/1.html', { method: 'POST', body: new Uint8Array(3e6) }).then(found => found.status)";
    assert_eq!(browser.value(upload), 413);
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
    assert_eq!(browser.value(script), json!(["hello", "long", 1000, true]), "{}", server.stderr());
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
