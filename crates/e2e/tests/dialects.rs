//! The configurations of Boa, thttpd and busybox httpd: the real program serves them, by their flags and under their
//! names.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use e2e::device::{self, bounded, example, page};
use e2e::{
    Folder, Rows, Server, Signal, Site, TIMEOUT, command, is_root, output_of, program, signal_process,
    wait_until,
};

const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\numask\n";

/// The folder of a test with a page, and a script beside the root.
fn site() -> Site {
    Site::new()
        .file("index.html", "page")
        .file("a.own", "own")
        .file("plain", "plain")
        .file("private/x", "secret")
        .file("sub/page.html", "sub")
        .script("run.cgi", SCRIPT)
        .script_beside_root("scripts/env.sh", SCRIPT)
        .file_beside_root("icons/i.png", "png")
        .file_beside_root("icons/i.cgi", "text of a script")
        .file_beside_root("mime.types", "image/x-own own\n")
}

/// Serves a file of another server in the foreground. `HOME` in the text is the folder of the test.
fn serve(site: Site, name: &str, text: &str, flags: &[&str]) -> Server {
    let text = text.replace("HOME", &site.home().display().to_string());
    site.file_beside_root(name, text).start_with(1, |site| {
        let mut taipan = command();
        taipan.args(flags).current_dir(site.home());
        taipan
    })
}

fn boa(text: &str) -> Server {
    serve(
        site(),
        "boa.conf",
        &format!("Port 0\nListen 127.0.0.1\nDefaultType text/plain\n{text}"),
        &["-f", "boa.conf", "-d"],
    )
}

fn busybox(text: &str) -> Server {
    let flags = ["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www", "-c", "../httpd.conf"];
    serve(site(), "httpd.conf", text, &flags)
}

/// The status, and the body or the Location.
fn answer(server: &Server, path: &str) -> String {
    let response = server.get(path);
    let text = response.field("location").map_or_else(|| response.text(), str::to_owned);
    if text.contains("<!DOCTYPE") {
        response.status.to_string()
    } else {
        format!("{} {}", response.status, text.trim())
    }
}

/// The line of a script's environment.
fn variable(server: &Server, path: &str, name: &str) -> String {
    let text = server.get(path).text();
    let line = text.lines().find(|line| line.starts_with(&format!("{name}=")));
    line.unwrap_or("none").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn each_directive_of_boa_that_has_an_effect_has_it() {
    let server = boa(
        "DocumentRoot HOME/www\nDirectoryIndex index.html\nDirectoryMaker /usr/lib/boa/boa_indexer\n\
         MimeTypes HOME/mime.types\nAddType application/x-httpd-cgi cgi\nAddType text/x-two one two\n\
         ScriptAlias /cgi-bin/ HOME/scripts/\nAlias /icons HOME/icons\nRedirect /old http://x.example/new\n\
         Deny HOME/www/private/*\nServerName named.example\nServerAdmin root@named.example\nCGIEnv COLOR dark blue\n\
         CGIPath /bin:/usr/bin\nCGIumask 077\nConcealServerIdentity\nKeepAliveMax 2\nKeepAliveTimeout 10\n\
         SinglePostLimit 10\nDefaultCharset iso-8859-15\nErrorLog HOME/error_log\nAccessLog HOME/access_log\n\
         PidFile HOME/boa.pid\nEnableHSTS max-age=60\n",
    );
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/", "200 page"),
        ("/icons/i.png", "200 png"),
        // Boa runs nothing beneath an Alias.
        ("/icons/i.cgi", "200 text of a script"),
        ("/old", "302 http://x.example/new"),
        ("/old/a/b?c", "302 http://x.example/new/a/b"),
        ("/older", "404"),
        ("/private/x", "403"),
        ("/%70rivate/x", "403"),
        ("/missing", "404"),
    ] {
        rows.check(path, answer(&server, path).as_str(), expected);
    }
    for (path, field, expected) in [
        ("/a.own", "content-type", Some("image/x-own")),
        ("/plain", "content-type", Some("text/plain; charset=iso-8859-15")),
        ("/", "server", None),
        ("/", "strict-transport-security", Some("max-age=60")),
    ] {
        rows.check(format!("{path} {field}"), server.get(path).field(field), expected);
    }
    for (path, name, expected) in [
        ("/cgi-bin/env.sh", "SERVER_ADMIN", "SERVER_ADMIN=root@named.example"),
        ("/cgi-bin/env.sh", "SERVER_NAME", "SERVER_NAME=named.example"),
        ("/cgi-bin/env.sh", "COLOR", "COLOR=dark blue"),
        ("/cgi-bin/env.sh", "PATH", "PATH=/bin:/usr/bin"),
        ("/cgi-bin/env.sh/a/b", "PATH_INFO", "PATH_INFO=/a/b"),
        ("/run.cgi", "SCRIPT_NAME", "SCRIPT_NAME=/run.cgi"),
    ] {
        rows.check(format!("{path} {name}"), variable(&server, path, name).as_str(), expected);
    }
    rows.check("CGIumask", server.get("/run.cgi").text().lines().last(), Some("0077"));
    let listing = server.get("/sub/");
    rows.check("DirectoryMaker", (listing.status, listing.text().contains("page.html")), (200, true));
    let post = server.request("POST /run.cgi HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n01234567890");
    rows.check("SinglePostLimit", post.status, 413);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let (first, second) = (client.read_response(), client.read_response());
    rows.check(
        "KeepAliveMax",
        (first.field("connection"), second.field("connection")),
        (None, Some("close")),
    );
    let pid = read(&server.home().join("boa.pid"));
    rows.check("PidFile", pid.trim(), server.pid().to_string().as_str());
    let log = server.home().join("access_log");
    server.request("GET /a%20b HTTP/1.0\r\nUser-Agent: one\"two\r\n\r\n");
    wait_until(TIMEOUT, || read(&log).contains("one"));
    let line = read(&log).lines().find(|line| line.contains("one")).unwrap_or_default().to_owned();
    let (begin, rest) = line.split_once(" [").unwrap_or_default();
    let (_, end) = rest.split_once("] ").unwrap_or_default();
    rows.check("AccessLog begins", begin, "127.0.0.1 - -");
    let sent = end.split(' ').nth(4).unwrap_or_default();
    rows.check(
        "AccessLog ends",
        end,
        format!(r#""GET /a%20b HTTP/1.0" 404 {sent} "-" "one\x22two""#).as_str(),
    );
}

#[test]
fn boa_runs_scripts_behind_an_alias_of_the_root_and_by_the_first_type_of_their_case() {
    let text = "Port 0\nListen 127.0.0.1\nDefaultType text/plain\nDocumentRoot HOME/www\nDirectoryIndex index.html\n\
                AddType application/x-httpd-cgi CGI cgi\nAddType text/plain cgi\n\
                Redirect / http://x.example/\nScriptAlias /cgi-bin/ HOME/scripts/\n\
                Alias /icons/ HOME/icons/\nRedirect /icons http://x.example/icons/\n";
    let site = site().script("big.CGI", SCRIPT);
    let server = serve(site, "boa.conf", text, &["-f", "boa.conf", "-d"]);
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/", "302 http://x.example/"),
        ("/index.html", "200 page"),
        ("/icons", "302 http://x.example/icons/"),
        ("/icons/i.png", "200 png"),
    ] {
        rows.check(path, answer(&server, path).as_str(), expected);
    }
    for path in ["/cgi-bin/env.sh", "/big.CGI", "/run.cgi"] {
        let expected = format!("SCRIPT_NAME={path}");
        rows.check(path, variable(&server, path, "SCRIPT_NAME").as_str(), expected.as_str());
    }
}

#[test]
fn boa_keeps_no_connection_and_lists_no_folder_by_default() {
    let server = boa("DocumentRoot HOME/www\n");
    let mut rows = Rows::new();
    rows.check("connection", server.get("/index.html").field("connection"), Some("close"));
    rows.check("folder", answer(&server, "/").as_str(), "403");
    rows.check("charset", server.get("/index.html").field("content-type"), Some("text/html"));
    rows.check("script", answer(&server, "/plain").as_str(), "200 plain");
}

#[test]
fn boa_has_a_folder_for_each_address_and_name() {
    let site = site()
        .file_beside_root("addresses/127.0.0.1/index.html", "by address")
        .file_beside_root("addresses/192.0.2.1/index.html", "other address");
    let head = "Port 0\nListen 127.0.0.1\nDefaultType text/plain\nDirectoryIndex index.html\n";
    let text =
        format!("{head}VirtualHost\nDocumentRoot HOME/addresses\nScriptAlias /cgi-bin/ HOME/scripts/\n");
    let server = serve(site, "boa.conf", &text, &["-f", "boa.conf", "-d"]);
    let mut rows = Rows::new();
    rows.check("address", answer(&server, "/").as_str(), "200 by address");
    rows.check(
        "script",
        variable(&server, "/cgi-bin/env.sh", "SCRIPT_NAME").as_str(),
        "SCRIPT_NAME=/cgi-bin/env.sh",
    );
    drop(server);
    let site = self::site()
        .file_beside_root("hosts/127.0.0.1/a.example/htdocs/index.html", "a")
        .file_beside_root("hosts/127.0.0.1/default/htdocs/index.html", "default")
        .script_beside_root("hosts/127.0.0.1/a.example/cgi-bin/env.sh", SCRIPT);
    let text =
        format!("{head}VHostRoot HOME/hosts\nScriptAlias /cgi-bin/ cgi-bin/\nAccessLog HOME/access_log\n");
    let server = serve(site, "boa.conf", &text, &["-f", "boa.conf", "-d"]);
    let get = |host: &str, path: &str| {
        let response = server.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        format!("{} {}", response.status, response.text().lines().next().unwrap_or_default())
    };
    rows.check("name", get("a.example", "/").as_str(), "200 a");
    rows.check("another name", get("b.example", "/").as_str(), "200 default");
    rows.check("script of the name", get("a.example", "/cgi-bin/env.sh").starts_with("200 "), true);
    rows.check("no script of another name", get("b.example", "/cgi-bin/env.sh").starts_with("404"), true);
    let log = server.home().join("access_log");
    wait_until(TIMEOUT, || read(&log).lines().count() >= 4);
    // Lines of different workers may be in another order.
    let has_line = read(&log).lines().any(|line| line.starts_with("a.example 127.0.0.1 - - ["));
    rows.check("log", has_line, true);
}

/// A time as in an access log, with brackets, becomes `[time +0300]`.
#[test]
fn boa_denies_files_of_users_and_their_scripts_as_root() {
    let conf = "Port 0\nListen 127.0.0.1\nUser daemon\nServerRoot /\nDocumentRoot /www\nDefaultType text/plain\n\
                UserDir public_html\nAddType application/x-httpd-cgi cgi\nDeny /home/*/private/*\n";
    let mut site = Site::new().file_beside_root("etc/passwd", "ann:x:1000:1000::/home/ann:/bin/sh\n");
    for file in ["page", "run.cgi", "private/page", "sub/run.cgi"] {
        site = site.file_beside_root(&format!("home/ann/public_html/{file}"), "text");
    }
    fs::set_permissions(site.home(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let server = serve(site, "boa.conf", conf, &["--boa", "-d", "-r", ".", "-f", "/boa.conf"]);
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/~ann/page", "200 text"),
        ("/~ann/run.cgi", "403"),
        ("/~ann/sub/run.cgi", "403"),
        ("/~ann/private/page", "403"),
        ("/%7Eann/private/page", "403"),
    ] {
        rows.check(path, answer(&server, path).as_str(), expected);
    }
}

#[test]
fn scripts_of_a_server_that_stays_root_can_do_what_root_can() {
    let mut rows = Rows::new();
    let script = "#!/bin/sh\nprintf 'X-A: b\\n\\n'\nchown 12345 page && stat -c %u page\n";
    for (name, flags) in [
        ("uhttpd", &["--uhttpd", "-f", "-p", "127.0.0.1:0", "-h", "www", "-x", "/cgi-bin"][..]),
        ("busybox", &["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www"]),
    ] {
        let site = Site::new().script("cgi-bin/a", script).file("cgi-bin/page", "");
        fs::set_permissions(site.home(), fs::Permissions::from_mode(0o755)).expect("it is our folder");
        let server = site.start_with(1, |site| {
            let mut taipan = command();
            taipan.args(flags).current_dir(site.home());
            taipan
        });
        let expected = if is_root() { "200 12345" } else { "200 " };
        rows.check(name, answer(&server, "/cgi-bin/a").as_str(), expected);
        let is_confined = |pid: u32| {
            let status = read(&PathBuf::from(format!("/proc/{pid}/status")));
            !status.contains("\nUid:\t0\t") && status.contains("\nCapPrm:\t0000000000000000\n")
        };
        rows.check(name, server.children().into_iter().any(is_confined), true);
    }
}

#[test]
fn a_page_called_as_the_program_is_sent_where_flags_are_the_whole_configuration() {
    let mut rows = Rows::new();
    for (name, flags) in [
        ("thttpd", &["--thttpd", "-D", "-h", "127.0.0.1", "-p", "0"][..]),
        ("uhttpd", &["--uhttpd", "-f", "-p", "127.0.0.1:0"]),
    ] {
        let site = Site::new().file(name, "a page");
        let server = site.start_with(1, |site| {
            let mut taipan = command();
            taipan.args(flags).current_dir(site.home().join("www"));
            taipan
        });
        rows.check(name, answer(&server, &format!("/{name}")).as_str(), "200 a page");
    }
}

fn without_time(line: &str) -> String {
    let Some((before, behind)) = line.split_once('[') else { return line.to_owned() };
    let Some((time, after)) = behind.split_once(']') else { return line.to_owned() };
    let (moment, zone) = time.split_once(' ').unwrap_or((time, "no zone"));
    let shape: String = moment.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let month = moment.get(3..6).unwrap_or_default();
    format!("{before}[{} {zone}]{after}", shape.replacen(month, "Mon", 1))
}

#[test]
fn boa_logs_in_its_formats_with_the_local_time_and_the_client_that_a_proxy_names() {
    let site = site().file_beside_root("addresses/127.0.0.1/index.html", "by address");
    let home = site.home().display().to_string();
    let text = "Port 0\nListen 127.0.0.1\nDefaultType text/plain\nDirectoryIndex index.html\nVirtualHost\nLogXFF\nUseLocaltime\n\
                DocumentRoot HOME/addresses\nErrorLog HOME/error_log\nAccessLog HOME/access_log\n";
    let server = site.file_beside_root("boa.conf", text.replace("HOME", &home)).start_with(1, |site| {
        let mut taipan = command();
        taipan.args(["-f", "boa.conf", "-d"]).current_dir(site.home()).env("TZ", "<+03>-3");
        taipan
    });
    let mut rows = Rows::new();
    let log = server.home().join("access_log");
    for (at, fields) in
        ["", "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 2001:db8::1, 10.0.0.1<\r\n"].iter().enumerate()
    {
        let get = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}User-Agent: a\r\n\r\n");
        rows.check("page", server.request(get).text().as_str(), "by address");
        // Lines of different workers may be in another order.
        wait_until(TIMEOUT, || read(&log).lines().count() > at);
    }
    let lines: Vec<String> = read(&log).lines().map(without_time).collect();
    let expected = |client: &str| {
        format!("127.0.0.1 {client} - - [00/Mon/0000:00:00:00 +0300] \"GET / HTTP/1.1\" 200 10 \"-\" \"a\"")
    };
    rows.check("without the field", lines[0].as_str(), expected("(127.0.0.1)").as_str());
    rows.check("with the field", lines[1].as_str(), expected("2001:db8::1,_10.0.0.1_").as_str());
    let errors = server.home().join("error_log");
    let begun = read(&errors).lines().count();
    signal_process(server.pid(), Signal::HUP);
    let has_reloaded = wait_until(TIMEOUT, || read(&errors).lines().count() > begun);
    rows.check("lines of the error log", has_reloaded, true);
    for line in read(&errors).lines() {
        let line = without_time(line);
        rows.holds("error log", &line, line.starts_with("[00/Mon/0000:00:00:00 +0300] "));
    }
    // The client's own error is in the error log, too.
    let missing = server.request("GET /none?a%22b HTTP/1.1\r\nHost: x\r\nReferer: y\r\n\r\n");
    rows.check("no such file", missing.status, 404);
    let line = || read(&errors).lines().find(|line| line.contains("request")).map(without_time);
    wait_until(TIMEOUT, || line().is_some());
    rows.check(
        "a client's error",
        line().unwrap_or_default().as_str(),
        format!(
            "127.0.0.1 127.0.0.1 - - [00/Mon/0000:00:00:00 +0300] request \"GET /none?a%22b HTTP/1.1\" \
             (\"{home}/addresses/127.0.0.1/none\"): document open: No such file or directory"
        )
        .as_str(),
    );
}

#[test]
fn boa_names_the_host_in_lines_about_errors_of_clients() {
    let site = self::site().file_beside_root("hosts/127.0.0.1/a.example/htdocs/index.html", "a");
    let text =
        "Port 0\nListen 127.0.0.1\nDefaultType text/plain\nVHostRoot HOME/hosts\nErrorLog HOME/error_log\n";
    let server = serve(site, "boa.conf", text, &["-f", "boa.conf", "-d"]);
    let home = server.home().display().to_string();
    server.request("GET /none HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let errors = server.home().join("error_log");
    let line = || read(&errors).lines().find(|line| line.contains("request")).map(without_time);
    wait_until(TIMEOUT, || line().is_some());
    let expected = format!(
        "a.example 127.0.0.1 - - [00/Mon/0000:00:00:00 +0000] request [a.example] \"GET /none HTTP/1.1\" \
         (\"{home}/hosts/127.0.0.1/a.example/htdocs/none\"): document open: No such file or directory"
    );
    assert_eq!(line(), Some(expected));
}

#[test]
fn each_keyword_of_thttpd_that_has_an_effect_has_it() {
    let site = site()
        .file("i.png", "png")
        .file("locked/.htpasswd", "ann:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n")
        .file("locked/x", "locked")
        .symlink("out", "../icons/i.png")
        .script("to-page.cgi", "#!/bin/sh\nprintf 'Location: /sub/page.html\\n\\n'\n")
        .file_beside_root("throttles", "** 100000000\n");
    let text = "port=0 host=127.0.0.1 dir=HOME/www # comment\ncgipat=/scripts/*|**.cgi p3p=CP=NOI max_age=60\n\
                urlpat=**.png localpat=*.local.example pidfile=HOME/t.pid throttles=HOME/throttles logfile=HOME/log\n";
    let server = serve(site, "thttpd.conf", text, &["--thttpd", "-D", "-C", "thttpd.conf", "-T", "utf-8"]);
    let mut rows = Rows::new();
    for (path, field, expected) in [
        ("/", "p3p", Some("CP=NOI")),
        ("/", "cache-control", Some("max-age=60")),
        ("/", "content-type", Some("text/html; charset=utf-8")),
        ("/locked/x", "www-authenticate", Some("Basic realm=\"/locked/\", charset=\"UTF-8\"")),
    ] {
        rows.check(format!("{path} {field}"), server.get(path).field(field), expected);
    }
    rows.check("script", variable(&server, "/run.cgi", "SCRIPT_NAME").as_str(), "SCRIPT_NAME=/run.cgi");
    let redirect = server.get("/to-page.cgi");
    rows.check(
        "redirect of a script",
        (redirect.status, redirect.field("location")),
        (302, Some("/sub/page.html")),
    );
    rows.check("link to the outside", answer(&server, "/out").as_str(), "403");
    rows.check("listing", server.get("/sub/").text().contains("page.html"), true);
    rows.check("password file", server.get("/locked/.htpasswd").status >= 400, true);
    let refer = |from: &str| {
        let request = format!("GET /i.png HTTP/1.1\r\nHost: x\r\n{from}\r\n");
        server.request(request).status
    };
    rows.check("no referer", refer(""), 200);
    rows.check("own referer", refer("Referer: http://a.local.example/p\r\n"), 200);
    rows.check("other referer", refer("Referer: http://other.example/p\r\n"), 403);
    rows.check("pid file", read(&server.home().join("t.pid")).trim(), server.pid().to_string().as_str());
    let log = server.home().join("log");
    wait_until(TIMEOUT, || read(&log).contains("other.example"));
    let line = read(&log).lines().find(|line| line.contains("other.example")).unwrap_or_default().to_owned();
    rows.check("log", line.ends_with(r#" "http://other.example/p" """#), true);
}

#[test]
fn thttpd_sends_the_error_pages_of_its_folder_and_of_each_host() {
    let serve_pages = |text: &str| {
        let site = site()
            .file("errors/err404.html", "not here")
            .file("errors/err999.html", "no status")
            .file_beside_root("names/a.example/errors/err404.html", "not at a")
            .file_beside_root("names/b.example/index.html", "b");
        serve(site, "thttpd.conf", text, &["--thttpd", "-D", "-C", "thttpd.conf"])
    };
    let server = serve_pages("port=0 host=127.0.0.1 dir=HOME/www logfile=/dev/null\n");
    assert_eq!(answer(&server, "/missing"), "404 not here");
    let server = serve_pages("port=0 host=127.0.0.1 dir=HOME/names logfile=/dev/null vhost\n");
    for (host, expected) in [("a.example", "not at a"), ("b.example", "There is no page")] {
        let request = format!("GET /missing HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let response = server.request(request);
        assert_eq!((response.status, response.text().contains(expected)), (404, true), "{host}");
    }
}

#[test]
fn thttpd_compares_its_patterns_of_scripts_with_the_folder_of_the_host_in_front() {
    let mut rows = Rows::new();
    for (pattern, path, runs) in [
        ("**.cgi", "/a.cgi", true),
        ("/*/cgi-bin/*", "/cgi-bin/a.cgi", true),
        ("/*/cgi-bin/*", "/sub/cgi-bin/a.cgi", false),
        ("**/cgi-bin/*", "/cgi-bin/a.cgi", true),
        ("**/cgi-bin/*", "/sub/cgi-bin/a.cgi", true),
    ] {
        let file = format!("names/a.example{path}");
        let site = Site::new().script_beside_root(&file, "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\nrun'\n");
        let text = format!("port=0 host=127.0.0.1 dir=HOME/names logfile=/dev/null vhost cgipat={pattern}\n");
        let server = serve(site, "thttpd.conf", &text, &["--thttpd", "-D", "-C", "thttpd.conf"]);
        let response = server.request(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
        rows.check(format!("{pattern} {path}"), response.text() == "run", runs);
    }
}

#[test]
fn each_line_of_busybox_that_has_an_effect_has_it() {
    let server = busybox(
        "E404:missing.html\nI:plain\n.own:image/x-own\n/private:user:pass\n*.sh:/bin/sh\nA:127.\nD:*\n",
    );
    fs::write(server.root().join("missing.html"), "not here").unwrap();
    fs::write(server.root().join("httpd.conf"), "D:*\n").unwrap();
    fs::write(server.root().join("hello.sh"), "printf 'Content-Type: text/plain\\n\\nhello\\n'").unwrap();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/", "200 plain"),
        ("/missing", "404 not here"),
        ("/hello.sh", "200 hello"),
        ("/private/x", "401"),
        ("/httpd.conf", "404 not here"),
    ] {
        rows.check(path, answer(&server, path).as_str(), expected);
    }
    rows.check("type", server.get("/a.own").field("content-type"), Some("image/x-own"));
    fs::write(server.root().join("path.sh"), "printf 'Content-Type: text/plain\\n\\n'; echo $PATH").unwrap();
    rows.check(
        "programs in /sbin",
        server.get("/path.sh").text().as_str(),
        "/sbin:/usr/sbin:/bin:/usr/bin\n",
    );
    let basic = "GET /private/x HTTP/1.1\r\nHost: x\r\nAuthorization: Basic dXNlcjpwYXNz\r\n\r\n";
    rows.check("password", server.request(basic).text().as_str(), "secret");
    let realm = server.get("/private/x").field("www-authenticate").unwrap_or_default().to_owned();
    rows.check("realm", realm.contains("Web Server Authentication"), true);
    drop(server);
    let server = busybox("A:192.0.2.\nD:*\n");
    rows.check("denied", answer(&server, "/").as_str(), "403");
}

#[test]
fn links_are_no_way_around_passwords_of_thttpd_and_uhttpd() {
    let site = || site().symlink("page", "private/x").symlink("near", "private").symlink("free", "plain");
    let mut rows = Rows::new();
    let password = "user:$apr1$abcdefgh$rBaSZcIn0zIHq2XLFu5EA1\n";
    let text = "port=0 host=127.0.0.1 dir=HOME/www\n";
    let flags = ["--thttpd", "-D", "-C", "thttpd.conf"];
    let server = serve(site().file("private/.htpasswd", password), "thttpd.conf", text, &flags);
    for (path, expected) in
        [("/private/x", "401"), ("/near/x", "401"), ("/page", "403"), ("/free", "200 plain")]
    {
        rows.check(format!("thttpd {path}"), answer(&server, path).as_str(), expected);
    }
    drop(server);
    let flags = ["--uhttpd", "-f", "-p", "127.0.0.1:0", "-h", "www", "-S", "-c", "httpd.conf"];
    for (text, page) in [("/private:user:pass\n", "403"), ("", "200 secret")] {
        let server = serve(site(), "httpd.conf", text, &flags);
        for path in ["/page", "/near/x"] {
            rows.check(format!("uhttpd {text:?} {path}"), answer(&server, path).as_str(), page);
        }
    }
}

#[test]
fn a_line_of_busybox_without_a_name_or_a_password_lets_nobody_in() {
    let text = "/private::\n/sub:ann:\n/plain:ann:\n/run.cgi:ann:\n/run.cgi:user:pass\n";
    let server = busybox(text);
    let mut rows = Rows::new();
    let get = |path: &str, login: &str| {
        let login =
            if login.is_empty() { String::new() } else { format!("Authorization: Basic {login}\r\n") };
        server.request(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{login}\r\n")).status
    };
    // The last two are ":" and "ann:", which busybox takes.
    for login in ["", "Og==", "YW5uOg=="] {
        for path in ["/private/x", "/sub/page.html", "/plain"] {
            rows.check(format!("{path} {login:?}"), get(path, login), 403);
        }
        rows.check(format!("beside another user {login:?}"), get("/run.cgi", login), 401);
    }
    rows.check("the other user", get("/run.cgi", "dXNlcjpwYXNz"), 200);
    rows.check("other paths", get("/", ""), 200);
    let errors = server.stderr();
    rows.check("it says so", errors.matches("this line has an empty user or password").count(), 4);
}

#[test]
fn a_folder_of_busybox_with_too_many_folders_is_denied_and_the_others_are_served() {
    let deep = format!("deep/{}f", "d/".repeat(70));
    let site = site().file(&deep, "deep").file("sub/httpd.conf", "D:*\n");
    let flags = ["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www", "-c", "../httpd.conf"];
    let server = serve(site, "httpd.conf", "I:plain\n", &flags);
    let mut rows = Rows::new();
    for (path, expected) in
        [("/", "200 plain"), ("/private/x", "200 secret"), ("/sub/page.html", "403"), ("/deep/d/", "403")]
    {
        rows.check(path, answer(&server, path).as_str(), expected);
    }
    rows.check("the rest of it", answer(&server, &format!("/{deep}")).as_str(), "403");
    let errors = server.stderr();
    rows.holds("it is named", &errors, errors.contains("/deep has too many folders to look for httpd.conf"));
}

#[test]
fn busybox_refuses_accounts_without_a_name() {
    let mut rows = Rows::new();
    for account in [":1000", "nobody:", ":"] {
        let mut start = command();
        start.args(["--busybox", "-f", "-p", "127.0.0.1:0", "-u", account]);
        let output = run(start);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.check(account, output.status.code(), Some(2));
        rows.holds(
            account,
            &text,
            text.contains("names no user or no group; write -u USER or -u USER:GROUP"),
        );
    }
}

#[test]
fn busybox_takes_numbers_as_accounts_as_root() {
    let mut rows = Rows::new();
    let ids = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nid -u; id -g\n";
    for (account, expected) in [("61234", "61234\n61234\n"), ("61234:61235", "61234\n61235\n")] {
        let site = site().script("cgi-bin/ids", ids);
        fs::set_permissions(site.home(), fs::Permissions::from_mode(0o755)).unwrap();
        let flags = ["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www", "-u", account];
        let server = serve(site, "other", "", &flags);
        rows.check(account, server.get("/cgi-bin/ids").text().as_str(), expected);
    }
}

#[test]
fn scripts_get_the_variables_that_their_server_had() {
    let mut rows = Rows::new();
    for (name, text, flags, expected) in [
        (
            "boa.conf",
            "Port 0\nListen 127.0.0.1\nScriptAlias /cgi-bin/ HOME/scripts/\n",
            &["-f", "boa.conf", "-d"][..],
            &["HTTP_AUTHORIZATION=Bearer own"][..],
        ),
        (
            "thttpd.conf",
            "port=0 host=127.0.0.1 dir=HOME\ncgipat=/cgi-bin/*|**.own\n",
            &["--thttpd", "-D", "-C", "thttpd.conf"],
            &["CGI_PATTERN=cgi-bin/*|**.own", "LD_LIBRARY_PATH=/usr/local/lib:/usr/lib"],
        ),
        (
            "httpd.conf",
            "I:plain\n",
            &["--busybox", "-f", "-p", "127.0.0.1:0", "-h", ".", "-c", "httpd.conf"],
            &["HTTP_AUTHORIZATION=Bearer own"],
        ),
        (
            "uhttpd",
            "",
            &["--uhttpd", "-f", "-p", "127.0.0.1:0", "-h", ".", "-x", "/cgi-bin"],
            &["HTTP_AUTHORIZATION=Bearer own", "REMOTE_HOST=127.0.0.1"],
        ),
    ] {
        let site = site().script_beside_root("cgi-bin/env.sh", SCRIPT);
        let server = serve(site, name, text, flags);
        let request = "GET /cgi-bin/env.sh HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer own\r\n\r\n";
        let text = server.request(request).text();
        for line in expected {
            rows.holds(format!("{name} {line}"), &text, text.lines().any(|own| own == *line));
        }
        let names = ["HTTP_AUTHORIZATION=", "REMOTE_HOST="];
        let others = |line: &&str| names.iter().any(|name| line.starts_with(name));
        let others = text.lines().filter(others).filter(|line| !expected.contains(line)).count();
        rows.check(format!("{name}: no others"), others, 0);
    }
}

#[test]
fn the_output_of_a_script_that_crashes_at_its_end_is_a_page() {
    let short = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\npage'\nkill -SEGV $$\n";
    // Longer than what is read at once.
    let long =
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nhead -c 300000 /dev/zero\nkill -KILL $$\n";
    let site = site().script("cgi-bin/short", short).script("cgi-bin/long", long);
    let flags = ["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www", "-c", "../httpd.conf"];
    let server = serve(site, "httpd.conf", "I:plain\n", &flags);
    assert_eq!(answer(&server, "/cgi-bin/short"), "200 page");
    assert_eq!(server.get("/cgi-bin/long").body.len(), 300_000);
    server.wait_for_line("was ended by a signal behind its output", TIMEOUT);
}

#[test]
fn the_output_of_a_script_that_crashes_is_no_page_where_its_client_has_broken_off() {
    let page = "printf 'Content-Type: text/plain\\n\\npage'\n";
    let site = site()
        .script("cgi-bin/early", format!("#!/bin/sh\n{page}cat >/dev/null\nkill -KILL $$\n"))
        .script("cgi-bin/late", format!("#!/bin/sh\ncat >/dev/null\n{page}kill -KILL $$\n"));
    let flags = ["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www", "-c", "../httpd.conf"];
    let server = serve(site, "httpd.conf", "I:plain\n", &flags);
    let begin = |name: &str, length: usize| {
        let mut client = server.connect();
        client
            .send(format!("POST /cgi-bin/{name} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\nabc"));
        client
    };
    for name in ["early", "late"] {
        assert_eq!(begin(name, 3).outcome(), "200 page", "{name}");
    }
    let mut late = begin("late", 4);
    late.half_close();
    assert_eq!(late.outcome(), "400");
    let (mut early, mut received) = (begin("early", 4), Vec::new());
    while !received.ends_with(b"page\r\n") {
        let part = early.read_some().expect("a part of the response");
        assert!(!part.is_empty(), "{}", String::from_utf8_lossy(&received));
        received.extend(part);
    }
    early.half_close();
    assert_eq!(early.read_to_end(), b"", "the last chunk is missing");
}

#[test]
fn bodies_without_a_length_are_stored_in_the_folder_that_devices_have() {
    let mut rows = Rows::new();
    for (name, text, flags) in [
        (
            "boa.conf",
            "Port 0\nListen 127.0.0.1\nScriptAlias /cgi-bin/ HOME/cgi-bin/\n",
            &["-f", "boa.conf", "-d"][..],
        ),
        (
            "thttpd.conf",
            "port=0 host=127.0.0.1 dir=HOME\ncgipat=/cgi-bin/*\n",
            &["--thttpd", "-D", "-C", "thttpd.conf"],
        ),
        ("httpd.conf", "I:plain\n", &["--busybox", "-f", "-p", "127.0.0.1:0", "-h", ".", "-c", "httpd.conf"]),
        ("uhttpd", "", &["--uhttpd", "-f", "-p", "127.0.0.1:0", "-h", ".", "-x", "/cgi-bin"]),
    ] {
        let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nreadlink /proc/self/fd/0\ncat\n";
        let server = serve(site().script_beside_root("cgi-bin/stored", script), name, text, flags);
        let head = "POST /cgi-bin/stored HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        let text = server.request(format!("{head}4\r\nbody\r\n0\r\n\r\n")).text();
        rows.holds(name, &text, text.starts_with("/tmp/") && text.ends_with("\nbody"));
    }
}

/// busybox asks each file on the way to a page, and each of them may deny a client.
#[test]
fn a_folder_of_busybox_opens_nothing_that_a_folder_around_it_denies() {
    let flags = ["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www", "-c", "../httpd.conf"];
    let mut rows = Rows::new();
    for (main, outer, inner, expected) in [
        ("D:*", "I:page.html", "I:page.html", ["403", "403"]),
        ("A:192.0.2.\nD:*", "A:127.", "A:127.", ["403", "403"]),
        ("I:plain", "D:*", "A:127.", ["403", "403"]),
        ("I:plain", "A:127.\nD:*", "D:127.0.0.0/8", ["200 sub", "403"]),
        ("A:127.\nD:*", "A:127.\nD:*", "D:192.0.2.\nI:f", ["200 sub", "200 inner"]),
        ("D:0.0.0.0/0", "I:page.html", "I:f", ["403", "403"]),
    ] {
        let name = format!("{main:?} {outer:?} {inner:?}");
        let site = site().file("sub/inner/f", "inner");
        let site = site.file("sub/httpd.conf", outer).file("sub/inner/httpd.conf", inner);
        let server = serve(site, "httpd.conf", main, &flags);
        for (path, expected) in ["/sub/page.html", "/sub/inner/f"].into_iter().zip(expected) {
            rows.check(format!("{name} {path}"), answer(&server, path).as_str(), expected);
        }
    }
}

#[test]
fn a_folder_of_busybox_has_interpreters_and_an_index_of_its_own() {
    let flags = ["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www", "-c", "../httpd.conf"];
    let script = "printf 'Content-Type: text/plain\\n\\nrun'";
    let site = site().file("sub/a.own", script).file("sub/inner/b.own", script).file("c.own", script);
    let site = site.file("sub/httpd.conf", "*.own:/bin/false\n*.own:/bin/sh\nI:page.html\n");
    let server = serve(site, "httpd.conf", "I:plain\n", &flags);
    let mut rows = Rows::new();
    for (path, expected) in
        [("/sub/a.own", "200 run"), ("/sub/inner/b.own", "200 run"), ("/sub/", "200 sub"), ("/", "200 plain")]
    {
        rows.check(path, answer(&server, path).as_str(), expected);
    }
    rows.check("elsewhere", server.get("/c.own").text().as_str(), script);
}

#[test]
fn a_protected_script_of_busybox_has_a_path_behind_it() {
    let site = site().script("cgi-bin/luci", SCRIPT);
    let flags = ["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www", "-c", "../httpd.conf"];
    let text = "/cgi-bin/luci:user:$ecret\nE401:plain\n";
    let server = serve(site, "httpd.conf", text, &flags);
    let mut rows = Rows::new();
    for path in ["/cgi-bin/luci", "/cgi-bin/luci/admin/status"] {
        rows.check(format!("{path} without a password"), answer(&server, path).as_str(), "401 plain");
        // user:$ecret
        let login = "Authorization: Basic dXNlcjokZWNyZXQ=";
        let response = server.request(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{login}\r\n\r\n"));
        let behind = path.strip_prefix("/cgi-bin/luci").unwrap_or_default();
        let has_path = response.text().lines().any(|line| line == format!("PATH_INFO={behind}"));
        rows.check(path, (response.status, has_path), (200, true));
    }
}

#[test]
fn a_page_of_busybox_for_denied_clients_is_sent_to_them() {
    let server = busybox("E403:plain\nA:192.0.2.\nD:*\n");
    assert_eq!(answer(&server, "/run.cgi"), "403 plain");
}

#[test]
fn a_link_to_a_script_of_thttpd_never_leads_to_its_text() {
    let site = site()
        .script("cgi-bin/env.sh", SCRIPT)
        .symlink("tool", "cgi-bin/env.sh")
        .symlink("tools", "cgi-bin")
        .symlink("free", "plain");
    let text = "port=0 host=127.0.0.1 dir=HOME/www logfile=/dev/null cgipat=/cgi-bin/*\n";
    let server = serve(site, "thttpd.conf", text, &["--thttpd", "-D", "-C", "thttpd.conf"]);
    let mut rows = Rows::new();
    rows.check(
        "the script",
        variable(&server, "/cgi-bin/env.sh", "SCRIPT_NAME").as_str(),
        "SCRIPT_NAME=/cgi-bin/env.sh",
    );
    for (path, expected) in
        [("/tool", "403"), ("/tools/env.sh", "403"), ("/run.cgi", "403"), ("/free", "200 plain")]
    {
        rows.check(path, answer(&server, path).as_str(), expected);
    }
    server.wait_for_line("/tool leads to an executable file that no route runs, and is not sent", TIMEOUT);
}

/// busybox reads `httpd.conf` of each folder on the way to a file, also where a link is one of them.
#[test]
fn the_rules_of_folders_of_busybox_hold_behind_links() {
    let flags = ["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www", "-c", "../httpd.conf"];
    let linked = || site().file("sub/inner/f", "inner").symlink("again", ".").symlink("near", "sub");
    let mut rows = Rows::new();
    let server = serve(linked(), "httpd.conf", "I:plain\nE404:../missing.html\n", &flags);
    rows.check("a page outside of HOME is left out", answer(&server, "/missing").as_str(), "404");
    for path in ["/sub/inner/f", "/near/inner/f", "/again/again/near/inner/f"] {
        rows.check(format!("without rules {path}"), answer(&server, path).as_str(), "200 inner");
    }
    drop(server);
    let server = serve(linked().file("sub/httpd.conf", "D:*\n"), "httpd.conf", "I:plain\n", &flags);
    rows.check("beside it", answer(&server, "/").as_str(), "200 plain");
    for path in
        ["/sub/inner/f", "/near/inner/f", "/again/sub/inner/f", "/again/again/near/inner/f", "/again/"]
    {
        rows.check(format!("with rules {path}"), answer(&server, path).as_str(), "403");
    }
    let conf = server.root().parent().unwrap().join("httpd.conf");
    let mut convert = command();
    convert.args(["convert", "httpd.conf", "--from", "busybox"]).current_dir(conf.parent().unwrap());
    fs::write(&conf, format!("H:{}\n", server.root().display())).unwrap();
    let output = run(convert);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    rows.check("the rule is there", text.contains("path = \"/sub/\""), true);
    rows.check("and is not said to be left out", text.contains("not read"), false);
    rows.check("the link is named", text.contains("/again leads to a folder around it"), true);
    let folder = server.root().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("httpd.conf"), "D:*\n").unwrap();
    let mut start = command();
    start.args(flags).current_dir(conf.parent().unwrap());
    let output = run(start);
    rows.check("no start without the rule", output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    rows.check("it says why", text.contains("for a folder whose name is not UTF-8; rename the folder"), true);
}

/// A link to the program, by which it has another name.
#[test]
fn scripts_get_firmware_that_is_uploaded() {
    const BYTES: usize = 3_000_000;
    let mut rows = Rows::new();
    for (name, text, flags) in [
        (
            "boa.conf",
            "Port 0\nListen 127.0.0.1\nScriptAlias /cgi-bin/ HOME/www/cgi-bin/\nSinglePostLimit 0\n",
            &["-f", "boa.conf", "-d"][..],
        ),
        (
            "thttpd.conf",
            "port=0 host=127.0.0.1 dir=HOME/www\ncgipat=/cgi-bin/*\n",
            &["--thttpd", "-D", "-C", "thttpd.conf"],
        ),
        (
            "httpd.conf",
            "I:plain\n",
            &["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www", "-c", "../httpd.conf"],
        ),
        ("uhttpd", "", &["--uhttpd", "-f", "-p", "127.0.0.1:0", "-h", "www", "-x", "/cgi-bin"]),
    ] {
        let count = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nwc -c\n";
        let server = serve(site().script("cgi-bin/count", count), name, text, flags);
        let mut request =
            format!("POST /cgi-bin/count HTTP/1.1\r\nHost: x\r\nContent-Length: {BYTES}\r\n\r\n")
                .into_bytes();
        request.resize(request.len() + BYTES, b'x');
        rows.check(name, server.request(request).text().trim(), BYTES.to_string().as_str());
    }
}

fn named(home: &Folder, name: &str) -> PathBuf {
    home.symlink(name, program());
    home.path().join(name)
}

#[test]
fn a_program_called_uhttpd_takes_its_flags_and_convert_knows_its_file() {
    let home = Folder::new();
    home.file("www/index.html", "page");
    let shown = home.path().display();
    home.file(
        "uhttpd",
        format!("config uhttpd\n\tlist listen_http 192.0.2.1:80\n\toption home {shown}/www\n"),
    );
    home.folder("bin");
    let mut rows = Rows::new();
    for (flags, code, expected) in [
        (&["-d", "a%20b"][..], 0, "a b"),
        (&["-z"], 2, "unknown flag -z; usage: uhttpd"),
        (&["-f", "-p", "192.0.2.1:x"], 2, "neither a port, nor an IP address"),
        (&["-f"], 2, "there is no address, so that nothing is served"),
    ] {
        let mut started = Command::new(named(&home, "bin/uhttpd"));
        started.args(flags).current_dir(home.path().join("www"));
        let output = run(started);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        rows.check(format!("{flags:?}"), output.status.code(), Some(code));
        rows.holds(format!("{flags:?}"), &text, text.contains(expected));
        fs::remove_file(home.path().join("bin/uhttpd")).expect("it is our link");
    }
    let mut convert = command();
    convert.args(["convert", "uhttpd"]).current_dir(home.path());
    let output = run(convert);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    rows.check("convert", output.status.code(), Some(0));
    rows.holds("convert", &text, text.contains("listen = [\"192.0.2.1:80\"]\n"));
}

fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().expect("it starts")
}

#[test]
fn flags_alone_are_named_as_flags_and_texts_are_decoded_to_bytes() {
    let mut rows = Rows::new();
    for name in ["--busybox", "--uhttpd"] {
        let output = output_of(command().args([name, "-d", "%ff+%41"]));
        rows.check(name, output.stdout, b"\xff A".to_vec());
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = taken.local_addr().expect("it is bound").to_string();
    for (name, flags) in [("--busybox", "-f"), ("--uhttpd", "-f")] {
        let output = output_of(command().args([name, flags, "-p", &address, "-h", "/usr/share"]));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.holds(name, &errors, errors.contains("cannot listen") && !errors.contains("/etc/httpd.conf"));
    }
}

#[test]
fn the_name_of_another_server_means_its_flags_and_it_goes_to_the_background() {
    let home = Folder::new();
    home.file("www/index.html", "page");
    let (folder, socket) = (home.path(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = socket.local_addr().unwrap().port();
    drop(socket);
    let shown = folder.display();
    home.file(
        "boa.conf",
        format!("Port {port}\nListen 127.0.0.1\nDocumentRoot {shown}/www\nDirectoryIndex index.html\nDefaultType text/plain\nPidFile {shown}/pid\nErrorLog {shown}/error\n"),
    );
    let mut rows = Rows::new();
    for (name, flags) in [
        ("boa", vec!["-c".to_owned(), shown.to_string()]),
        (
            "thttpd",
            format!("-h 127.0.0.1 -p {port} -d {shown}/www -l /dev/null -i {shown}/pid")
                .split(' ')
                .map(str::to_owned)
                .collect(),
        ),
    ] {
        let mut started = Command::new(named(&home, name));
        started.args(&flags).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The output ends, although the server continues.
        let output = run(started);
        rows.check(format!("{name}: code"), output.status.code(), Some(0));
        let mut stream =
            TcpStream::connect(("127.0.0.1", port)).expect("it serves when the first process has ended");
        stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        rows.check(format!("{name}: page"), text.ends_with("page"), true);
        let pid: u32 = read(&folder.join("pid")).trim().parse().expect("the process wrote its ID");
        signal_process(pid, Signal::TERM);
        let ended = wait_until(TIMEOUT, || !Path::new(&format!("/proc/{pid}")).exists());
        rows.check(format!("{name}: ended"), ended, true);
    }
    // A start that fails has its code, and says why.
    home.file("boa.conf", "Prot 80\n");
    let mut again = Command::new(folder.join("boa"));
    again.arg("-c").arg(folder);
    let output = run(again);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    rows.check("refused", output.status.code(), Some(2));
    rows.check("why", text.contains("boa.conf:1: there is no directive \"Prot\"; did you mean Port?"), true);
}

#[test]
fn signals_mean_what_they_mean_to_the_other_server() {
    let mut rows = Rows::new();
    let server = boa("DocumentRoot HOME/www\nErrorLog HOME/error_log\n");
    server.get("/plain");
    server.get("/none");
    server.signal(Signal::USR1);
    server.signal(Signal::USR2);
    server.signal(Signal::ALARM);
    let log = server.home().join("error_log");
    rows.check("ALRM", wait_until(TIMEOUT, || read(&log).contains("] 2 requests, 1 errors\n")), true);
    rows.check("still there", server.get("/plain").status, 200);
    let conf = server.home().join("boa.conf");
    let changed = read(&conf).replace("DefaultType text/plain", "DefaultType text/x-changed");
    fs::write(&conf, changed).unwrap();
    server.signal(Signal::HUP);
    let is_changed = || server.get("/plain").field("content-type") == Some("text/x-changed");
    rows.check("HUP reads the file", wait_until(TIMEOUT, is_changed), true);
    let mut server = server;
    server.signal(Signal::TERM);
    rows.check("TERM", server.wait(TIMEOUT).code(), Some(0));
    let text = "port=0 host=127.0.0.1 dir=HOME/www logfile=HOME/log\n";
    let mut server = serve(site(), "thttpd.conf", text, &["--thttpd", "-D", "-C", "thttpd.conf"]);
    let log = server.home().join("log");
    server.get("/plain");
    rows.check("a line", wait_until(TIMEOUT, || !read(&log).is_empty()), true);
    fs::rename(&log, server.home().join("old")).unwrap();
    server.signal(Signal::HUP);
    rows.check("HUP opens the log", wait_until(TIMEOUT, || log.exists()), true);
    server.signal(Signal::USR2);
    server.wait_for_line("requests", Duration::from_secs(20));
    server.signal(Signal::USR1);
    rows.check("USR1", server.wait(TIMEOUT).code(), Some(0));
    for flags in [
        &["--thttpd", "-D", "-h", "127.0.0.1", "-p", "0", "-d", "www"][..],
        &["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "www"],
        &["--uhttpd", "-f", "-p", "127.0.0.1:0", "-h", "www"],
    ] {
        for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 130)] {
            let mut server = site().start_with(1, |site| {
                let mut taipan = command();
                taipan.args(flags).current_dir(site.home());
                taipan
            });
            // A client that has sent half a request does not delay the end.
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\n");
            server.signal(signal);
            rows.check(format!("{} {signal:?}", flags[0]), server.wait(TIMEOUT).code(), Some(code));
        }
    }
}

/// What `explain` prints for a request, without the file that a rule stands in.
fn explained(folder: &Path, file: &[&str], request: &(&str, &str), fields: &[&str]) -> String {
    let mut explain = command();
    explain.args(["explain", request.0, request.1, "-c"]).args(file).current_dir(folder);
    for field in fields {
        explain.args(["-H", field]);
    }
    let output = explain.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let kept = text.lines().filter(|line| !line.trim_start().starts_with("Date:"));
    kept.map(|line| line.split(", by the rule in").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_converted_file_gives_the_same_decisions_as_the_original() {
    let site = site().file("locked/.htpasswd", "").file("i.png", "png");
    let home = site.home().to_owned();
    let shown = home.display();
    let boa = format!(
        "Port 80\nDocumentRoot {shown}/www\nDirectoryIndex index.html\nDefaultType text/plain\nAddType application/x-httpd-cgi cgi\n\
         ScriptAlias /cgi-bin/ {shown}/scripts/\nAlias /icons {shown}/icons\nRedirect /old http://x.example/\nDeny */private/*\n"
    );
    let thttpd = format!("dir={shown}/www cgipat=**.cgi urlpat=**.png max_age=5\n");
    let busybox = format!(
        "H:{shown}/www\nI:plain\n/private:ann:secret\n/cgi-bin:ann:secret\n*.cgi:/bin/sh\nE404:index.html\n.own:image/x-own\n\
         P:/old:192.0.2.1:80/new\nA:192.0.2.1\nD:10.\n"
    );
    let uhttpd = format!(
        "config httpauth one\n\toption prefix /private\n\toption username ann\n\toption password secret\nconfig uhttpd main\n\
         \tlist listen_http 80\n\toption home {shown}/www\n\tlist interpreter .cgi=/bin/sh\n\tlist alias /old=/cgi-bin\n\
         \toption error_page /plain\n\toption rfc1918_filter 1\n\tlist httpauth one\n\toption no_symlinks yes\n"
    );
    let originals = [
        ("boa", "boa.conf", boa),
        ("thttpd", "thttpd.conf", thttpd),
        ("busybox", "httpd.conf", busybox),
        ("uhttpd", "uhttpd", uhttpd),
    ];
    let site = originals.iter().fold(site, |site, (_, file, text)| site.file_beside_root(file, text));
    let requests = [
        ("GET", "/"),
        ("GET", "/icons/i.png"),
        ("GET", "/icons/i.cgi"),
        ("GET", "/old/x?y"),
        ("GET", "/private/x"),
        ("GET", "/run.cgi/info"),
        ("POST", "/run.cgi"),
        ("GET", "/cgi-bin/env.sh"),
        ("GET", "/sub"),
        ("GET", "/sub/"),
        ("GET", "/missing"),
        ("GET", "/../etc/passwd"),
        ("GET", "/i.png"),
        ("GET", "/locked/.htpasswd"),
        ("DELETE", "/plain"),
        ("HEAD", "/plain"),
        ("POST", "/plain"),
        ("OPTIONS", "/"),
        ("GET", "//private//x"),
        ("GET", "/%70rivate/x"),
        ("GET", "/private/./x"),
        ("GET", "/private"),
        ("HEAD", "/private/x"),
        ("GET", "/icons"),
        ("GET", "/iconsmore"),
        ("GET", "/old"),
        ("POST", "/old/x"),
        ("GET", "/cgi-bin/env.sh/a/b?c=d+e"),
        ("GET", "/cgi-bin/none"),
        ("GET", "/RUN.CGI"),
        ("GET", "/a.own"),
        ("GET", "/%2e%2e/boa.conf"),
        ("GET", "/a%00b"),
    ];
    let mut rows = Rows::new();
    for (name, file, _) in &originals {
        let mut convert = command();
        let output =
            convert.args(["convert", file, "--from", name]).current_dir(&home).output().expect("it starts");
        rows.check(format!("{name} is converted"), output.status.code(), Some(0));
        fs::write(home.join(format!("{name}.toml")), &output.stdout).unwrap();
        for request in &requests {
            for fields in [&[][..], &["Referer: http://other.example/", "Accept-Encoding: gzip"]] {
                let of = |file: &[&str]| explained(&home, file, request, fields);
                let original = of(&[file, "--dialect", name]);
                let converted = of(&[&format!("{name}.toml")]);
                assert!(original.contains("request "), "{name} {request:?}: {original}");
                rows.check(format!("{name} {request:?}"), converted.as_str(), original.as_str());
            }
        }
    }
    drop(site);
}

#[test]
fn convert_lists_what_differs_and_refuses_what_it_does_not_know() {
    let home = Folder::new();
    home.file("boa.conf", "Port 80\nDocumentRoot /srv\nChrootPath /jail\nDefaultType text/plain\n");
    home.file("bad.conf", "Port 80\nNothingLikeIt 1\n");
    let run = |arguments: &[&str]| {
        let output = command().args(arguments).current_dir(home.path()).output().expect("it starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let mut rows = Rows::new();
    let (code, out, err) = run(&["convert", "boa.conf"]);
    rows.check("code", code, Some(0));
    rows.check("comment", out.contains("# line 3: note: ChrootPath"), true);
    rows.check("finding", err.contains("boa.conf:3: note: ChrootPath"), true);
    let (code, _, err) = run(&["convert", "bad.conf", "--from", "boa"]);
    rows.check(
        "refused",
        (code, err.contains("bad.conf:2: there is no directive \"NothingLikeIt\"; remove it")),
        (Some(1), true),
    );
    let (code, _, err) = run(&["convert", "bad.conf"]);
    rows.check(
        "which server",
        (code, err.contains("add --from and one of boa, thttpd, busybox")),
        (Some(2), true),
    );
    let (code, _, err) = run(&["check", "-c", "bad.conf", "--dialect", "boa"]);
    rows.check("check", (code, err.contains("bad.conf:2: ")), (Some(1), true));
    let (code, _, err) = run(&["--boa", "-x"]);
    rows.check("flag of boa", (code, err.contains("Usage: boa")), (Some(2), true));
    let (code, out, _) = run(&["--busybox", "-d", "a%20b"]);
    rows.check("httpd -d", (code, out.as_str()), (Some(0), "a b"));
}

/// The examples of devices, with the folders of the test in place of those of the device.
#[test]
fn the_devices_of_the_manual_are_served() {
    let mut rows = Rows::new();
    let here = |text: &str| {
        let text = text.replace(" /www\n", " HOME/www\n").replace("=/www\n", "=HOME/www\n");
        text.replace("H:/www\n", "H:HOME/www\n").replace("/www-cgi/", "HOME/scripts/")
    };
    for (page, language, file, port, flags) in [
        (
            "from-boa.md",
            "boa",
            "boa.conf",
            ("Port 80\n", "Port 0\nListen 127.0.0.1\n"),
            &["--boa", "-d", "-f", "boa.conf"][..],
        ),
        (
            "from-thttpd.md",
            "thttpd",
            "thttpd.conf",
            ("port=80\n", "port=0\nhost=127.0.0.1\n"),
            &["--thttpd", "-D", "-C", "thttpd.conf"],
        ),
        (
            "from-busybox.md",
            "busybox",
            "httpd.conf",
            ("", ""),
            &["--busybox", "-f", "-p", "127.0.0.1:0", "-c", "httpd.conf"],
        ),
    ] {
        let text = here(example(&device::page(page), language)).replace(port.0, port.1);
        let site = site().script("cgi-bin/env.sh", SCRIPT);
        let server = serve(site, file, &text, flags);
        rows.check(format!("{language}: page"), answer(&server, "/").as_str(), "200 page");
        let basic = "Authorization: Basic YWRtaW46c2VjcmV0\r\n";
        let request = format!("GET /cgi-bin/env.sh HTTP/1.1\r\nHost: x\r\n{basic}\r\n");
        let response = server.request(request);
        rows.check(
            format!("{language}: script"),
            response.text().contains("GATEWAY_INTERFACE=CGI/1.1"),
            true,
        );
    }
    // A file of uhttpd is converted. With what bounds the memory, each key joins the section that is there.
    let uhttpd = here(example(&page("from-uhttpd.md"), "uci"));
    let uhttpd = uhttpd.replace("0.0.0.0:80", "127.0.0.1:0").replace("home /www", "home HOME/www");
    let boa = here(example(&page("from-boa.md"), "boa"));
    for (dialect, text) in [("boa", boa), ("uhttpd", uhttpd)] {
        let site = self::site().script("cgi-bin/luci", SCRIPT);
        let text = text.replace("HOME", &site.home().display().to_string());
        let site = site.file_beside_root("original", text);
        let output = command()
            .args(["convert", "original", "--from", dialect])
            .current_dir(site.home())
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.check(format!("{dialect}: converted {said}"), output.status.code(), Some(0));
        let converted = String::from_utf8(output.stdout).expect("TOML is UTF-8");
        fs::write(site.home().join("site.toml"), bounded(&converted)).unwrap();
        device::check(&mut rows, dialect, &site);
        if dialect == "uhttpd" {
            let server = site.start_with(1, |site| {
                let mut taipan = command();
                taipan.args(["-c", "site.toml"]).current_dir(site.home());
                taipan
            });
            rows.check("uhttpd: page", answer(&server, "/").as_str(), "200 page");
            let luci = server.get("/cgi-bin/luci/admin").text();
            rows.holds("uhttpd: script", &luci, luci.contains("PATH_INFO=/admin"));
        }
    }
}

#[test]
fn boa_lists_folders_by_its_program_or_its_cache() {
    let maker = "#!/bin/sh\necho \"list of $1 for $2\"\n";
    let conf = |text: &str| {
        format!("Port 0\nListen 127.0.0.1\nDefaultType text/plain\nDocumentRoot HOME/www\n{text}")
    };
    let serve_with = |text: &str| {
        let site = site().script_beside_root("maker", maker);
        serve(site, "boa.conf", &conf(text), &["-f", "boa.conf", "-d"])
    };
    let server = serve_with("DirectoryMaker HOME/maker\nDirectoryCache HOME/cache\n");
    let expected = format!("list of {}/sub/ for /sub/\n", server.root().display());
    assert_eq!(server.get("/sub/").text(), expected);
    drop(server);
    // Wherever the cache of Boa was: nothing is written to it, and a listing is never older than its folder.
    let mut rows = Rows::new();
    for cache in ["HOME/none/at/all", "HOME/www/plain", "relative", "/proc", "HOME/cache/"] {
        let server = serve_with(&format!("DirectoryCache {cache}\n"));
        fs::create_dir_all(server.home().join("cache")).expect("it is our folder");
        let listing = server.get("/sub/");
        rows.check(cache, (listing.status, listing.text().contains("page.html")), (200, true));
        fs::write(server.root().join("sub/another.html"), "").expect("it is our folder");
        let is_there = || server.get("/sub/").text().contains("another.html");
        rows.check(format!("{cache}, changed"), wait_until(TIMEOUT, is_there), true);
        let files = fs::read_dir(server.home().join("cache")).expect("it is our folder").count();
        rows.check(format!("{cache}, files"), files, 0);
    }
    let server = serve_with("");
    assert_eq!(server.get("/sub/").status, 403);
}

#[test]
fn files_of_a_configuration_are_never_served() {
    let text = "user root;\nevents {}\nhttp {\ninclude conf.d/*.conf;\n}\n";
    let own = "server { listen 127.0.0.1:0; root HOME/www; }\n";
    let site = site();
    let own = own.replace("HOME", &site.home().display().to_string());
    let site = site.file("conf.d/own.conf", own);
    let server = serve(site, "www/nginx.conf", text, &["-c", "www/nginx.conf", "--dialect", "nginx"]);
    let mut rows = Rows::new();
    for (path, expected) in [("/nginx.conf", "404"), ("/conf.d/own.conf", "404"), ("/plain", "200 plain")] {
        rows.check(path, answer(&server, path).as_str(), expected);
    }
}
