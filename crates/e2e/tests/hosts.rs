//! Hosts: a folder for each name, and one for each user. Names never share files, and a name cannot lead out of its
//! folder.

use std::fs;
use std::os::unix::fs::symlink;

use e2e::http2::Http2;
use e2e::{Client, Response, Rows, Server, Site, Tls, command, free_port, run};
use std::net::SocketAddr;

fn get(server: &Server, host: &str, path: &str) -> Response {
    server.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

/// The content of a page, or the status.
fn outcome(response: &Response) -> String {
    match response.status {
        200 => response.text(),
        status => status.to_string(),
    }
}

fn explain(site: &Site, url: &str) -> String {
    let config = site.write_config();
    let words = ["explain".as_ref(), "-c".as_ref(), config.as_os_str(), "GET".as_ref(), url.as_ref()];
    String::from_utf8_lossy(&run(words).stdout).into_owned()
}

#[test]
fn each_name_has_a_folder_of_its_own() {
    let site = Site::new().every_protocol().config_without_root(
        "root = \"vhosts/$host/htdocs\"\ndefault_folder = \"default\"\nlisting = true\nerror_pages = { 404 = \"/404.html\" }\n\
         [[host]]\nnames = [\"strict.example\", \"*.strict.example\"]\nroot = \"strict/$level1/$level2/$host\"\nmissing_folder = 421\n",
    );
    let site = site
        .file_beside_root("vhosts/a.example/htdocs/index.html", "a")
        .file_beside_root("vhosts/a.example/htdocs/404.html", "no such page in a")
        .file_beside_root("vhosts/a.example/htdocs/only-a", "only a")
        .file_beside_root("vhosts/a.example/secret", "secret of a")
        .file_beside_root("vhosts/b.example/htdocs/index.html", "b")
        .file_beside_root("vhosts/192.0.2.1/htdocs/index.html", "an address")
        .file_beside_root("vhosts/default/htdocs/index.html", "the default")
        .file_beside_root("vhosts/no-tail.example/index.html", "not served")
        .file_beside_root("strict/w/_/w.strict.example/index.html", "never")
        .file_beside_root("strict/w/s/w.strict.example/index.html", "levels")
        .file_beside_root("strict/s/t/www.strict.example/index.html", "www");
    let vhosts = site.home().join("vhosts");
    symlink("a.example", vhosts.join("alias.example")).expect("it is our folder");
    fs::create_dir_all(vhosts.join("thief.example")).expect("it is our folder");
    symlink("../a.example/htdocs", vhosts.join("thief.example/htdocs")).expect("it is our folder");
    symlink("/etc", vhosts.join("etc.example")).expect("it is our folder");
    let server = site.start();
    let mut rows = Rows::new();
    for (host, path, expected) in [
        ("a.example", "/", "a"),
        ("A.Example:8080", "/", "a"),
        ("a.example.", "/", "a"),
        ("b.example", "/", "b"),
        ("b.example", "/only-a", "404"),
        ("a.example", "/only-a", "only a"),
        ("b.example", "/only-a", "404"),
        ("a.example", "/../secret", "400"),
        ("a.example", "/%2e%2e/secret", "400"),
        ("alias.example", "/", "a"),
        ("192.0.2.1", "/", "an address"),
        ("unknown.example", "/", "the default"),
        ("default", "/", "the default"),
        ("no-tail.example", "/", "the default"),
        ("..", "/", "the default"),
        ("a.example..", "/", "the default"),
        ("[::1]", "/", "the default"),
        // A link to the folder of another name, and one out of the base.
        ("thief.example", "/only-a", "403"),
        ("etc.example", "/passwd", "403"),
        ("w.strict.example", "/", "levels"),
        ("www.strict.example", "/", "www"),
        ("x.strict.example", "/", "421"),
        ("strict.example", "/", "421"),
    ] {
        // The second request finds the folder and the file in the cache.
        for time in ["first", "second"] {
            let response = get(&server, host, path);
            let found = match response.status {
                404 if response.text().contains("no such page in a") => "404 of a".to_owned(),
                _ => outcome(&response),
            };
            rows.check(format!("{host}{path}, {time}"), found.as_str(), expected);
        }
    }
    let missing = get(&server, "a.example", "/missing");
    rows.check("its own error page", (missing.status, missing.text().as_str()), (404, "no such page in a"));
    assert!(server.compared() > 0);
}

/// Prints what it knows of its folder, and its input.
const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n\
     echo \"$SCRIPT_FILENAME $DOCUMENT_ROOT $PATH_TRANSLATED ${PWD##*/} $(head -c \"${CONTENT_LENGTH:-0}\")\"\n";

#[test]
fn each_name_has_scripts_of_its_own() {
    let mut site = Site::new().every_protocol().config_without_root(
        "root = \"vhosts/$host/htdocs\"\ndefault_folder = \"default\"\nindex = [\"index.html\", \"index.cgi\"]\n\
         [[route]]\npath = \"**.cgi\"\ncgi = true\n\
         [[route]]\npath = \"/cgi-bin/\"\ncgi = true\n\
         [[route]]\npath = \"/lib/\"\nalias = \"lib\"\n\
         [[route]]\npath = \"*.sh\"\ninterpreter = \"/bin/sh\"\n\
         [[host]]\nnames = [\"*.strict.example\"]\nroot = \"strict/$level1/x-$host\"\nmissing_folder = 421\n\
         fallback = \"/deep/index.cgi\"\n[[host.route]]\npath = \"**.cgi\"\ncgi = true\n",
    );
    let home = site.home().to_owned();
    let (vhosts, strict) = (home.join("vhosts"), home.join("strict/w/x-w.strict.example"));
    for name in [
        "vhosts/a.example/htdocs/x.cgi",
        "vhosts/a.example/htdocs/only-a.cgi",
        "vhosts/a.example/htdocs/sub/index.cgi",
        "vhosts/a.example/htdocs/cgi-bin/run",
        "vhosts/a.example/htdocs/plain",
        "vhosts/a.example/private.cgi",
        "vhosts/b.example/htdocs/x.cgi",
        "vhosts/default/htdocs/x.cgi",
        "lib/shared.cgi",
        "strict/w/x-w.strict.example/deep/index.cgi",
    ] {
        site = site.script_beside_root(name, SCRIPT);
    }
    let site = site
        .file_beside_root("vhosts/a.example/htdocs/by.sh", SCRIPT)
        .file_beside_root("vhosts/a.example/htdocs/locked.cgi", SCRIPT)
        .file_beside_root("vhosts/a.example/htdocs/page", "a page");
    symlink("a.example", vhosts.join("alias.example")).expect("it is our folder");
    fs::create_dir_all(vhosts.join("thief.example")).expect("it is our folder");
    symlink("../a.example/htdocs", vhosts.join("thief.example/htdocs")).expect("it is our folder");
    let stolen = vhosts.join("b.example/htdocs/stolen.cgi");
    symlink("../../a.example/htdocs/x.cgi", stolen).expect("it is our folder");
    symlink("../private.cgi", vhosts.join("a.example/htdocs/private.cgi")).expect("it is our folder");
    let told = explain(&site, "http://a.example/sub/index.cgi/more");
    let untold = explain(&site, "http://x.strict.example/deep/index.cgi");
    let server = site.start();
    let mut rows = Rows::new();
    let ran = |root: &std::path::Path, file: &str, translated: &str| {
        let file = root.join(file);
        let translated = match translated {
            "" => String::new(),
            path => root.join(path).display().to_string(),
        };
        let folder = file.parent().and_then(|folder| folder.file_name()).expect("it is in a folder");
        let folder = folder.display();
        format!("{} {} {translated} {folder} \n", file.display(), root.display())
    };
    let of = |name: &str| vhosts.join(name).join("htdocs");
    for (host, path, expected) in [
        ("a.example", "/x.cgi", ran(&of("a.example"), "x.cgi", "")),
        ("A.Example:8080", "/x.cgi/p/q", ran(&of("a.example"), "x.cgi", "p/q")),
        ("b.example", "/x.cgi", ran(&of("b.example"), "x.cgi", "")),
        ("a.example", "/sub/", ran(&of("a.example"), "sub/index.cgi", "")),
        ("a.example", "/sub", "301".to_owned()),
        ("a.example", "/cgi-bin/run/more", ran(&of("a.example"), "cgi-bin/run", "more")),
        // With an interpreter, PATH_TRANSLATED is not set.
        ("a.example", "/by.sh/more", ran(&of("a.example"), "by.sh", "")),
        ("alias.example", "/x.cgi", ran(&of("alias.example"), "x.cgi", "")),
        ("unknown.example", "/x.cgi", ran(&of("default"), "x.cgi", "")),
        ("a..example", "/x.cgi", ran(&of("default"), "x.cgi", "")),
        ("a.example", "/page", "a page".to_owned()),
        // Its route has no scripts, so it is a file.
        ("a.example", "/plain", SCRIPT.to_owned()),
        ("b.example", "/only-a.cgi", "404".to_owned()),
        ("b.example", "/cgi-bin/run", "404".to_owned()),
        ("a.example", "/locked.cgi", "403".to_owned()),
        ("a.example", "/../private.cgi", "400".to_owned()),
        // Links that lead out of the folder of the name.
        ("b.example", "/stolen.cgi", "403".to_owned()),
        ("a.example", "/private.cgi", "403".to_owned()),
        ("thief.example", "/x.cgi", "403".to_owned()),
        ("w.strict.example", "/deep/index.cgi", ran(&strict, "deep/index.cgi", "")),
        ("w.strict.example", "/missing", ran(&strict, "deep/index.cgi", "missing")),
        ("x.strict.example", "/deep/index.cgi", "421".to_owned()),
    ] {
        // The second request finds the folder open.
        for time in ["first", "second"] {
            rows.check(format!("{host}{path}, {time}"), outcome(&get(&server, host, path)), expected.clone());
        }
    }
    let shared = outcome(&get(&server, "b.example", "/lib/shared.cgi"));
    let expected = format!("{}/lib/shared.cgi {} ", home.display(), of("b.example").display());
    rows.holds("an alias", &shared, shared.starts_with(&expected));
    let posted = server.request("POST /x.cgi HTTP/1.1\r\nHost: b.example\r\nContent-Length: 5\r\n\r\nhello");
    rows.holds("a body", &posted.text(), posted.text().ends_with(" hello\n"));
    let file = of("a.example").join("sub/index.cgi");
    let translated = format!("PATH_TRANSLATED {}", of("a.example").join("more").display());
    let is_told = told.contains(&format!("script    {}", file.display())) && told.contains(&translated);
    rows.holds("explain", &told, is_told && told.contains("of the name a.example"));
    rows.holds("explain", &untold, untold.contains("none for this name") && untold.contains("421"));
    assert!(server.compared() > 0);
}

#[test]
fn a_replaced_folder_does_not_leave_its_files_in_the_cache() {
    let site = Site::new().config_without_root("root = \"v/$host\"\n[cache]\ncheck = \"1s\"\nfolders = 2\n");
    let mut site = site.file_beside_root("v/x/page", "old").file_beside_root("v2/x/page", "new");
    for at in 0..20 {
        site = site.file_beside_root(&format!("v/h{at}/page"), format!("page of {at}"));
    }
    let server = site.start();
    let mut rows = Rows::new();
    // More than the two folders that may be open.
    for round in 0..3 {
        for at in 0..20 {
            let found = outcome(&get(&server, &format!("h{at}"), "/page"));
            rows.check(format!("{round}: {at}"), found, format!("page of {at}"));
        }
    }
    rows.check("before", outcome(&get(&server, "x", "/page")).as_str(), "old");
    let home = server.home().to_owned();
    fs::rename(home.join("v/x"), home.join("v/y")).expect("it is our folder");
    fs::rename(home.join("v2/x"), home.join("v/x")).expect("it is our folder");
    let mut becomes = |name: &str, expected: &str| {
        let is = e2e::wait_until(e2e::TIMEOUT, || outcome(&get(&server, name, "/page")) == expected);
        rows.check(format!("{name} becomes {expected}"), is, true);
    };
    becomes("x", "new");
    becomes("y", "old");
    becomes("late", "404");
    server.files().file("v/late/page", "late");
    becomes("late", "late");
    fs::remove_dir_all(home.join("v/late")).expect("it is our folder");
    becomes("late", "404");
}

#[test]
fn users_have_folders_of_their_own() {
    let site =
        Site::new().every_protocol().file("index.html", "the root").file("~x", "a file of the root").config(
            "user_folders = \"public_html\"\nlisting = true\nerror_pages = { 404 = \"/404.html\" }\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n\
         [[host]]\nnames = [\"none.example\"]\nroot = \"www\"\nuser_folders = false\n\
         [accounts]\nhomes = \"homes\"\npasswd = \"passwd\"\nexcept = \"guest\"\n",
        );
    let home = site.home().join("homes");
    let home = home.display();
    let accounts = format!(
        "root:x:0:0:root:{home}/root:/bin/bash\ndaemon:x:2:2::{home}/daemon:/bin/sh\n\
         ann:x:1000:1000::{home}/ann:/bin/bash\nbob:x:1001:1000::{home}/bob:/bin/sh\n\
         guest:x:1002:1000::{home}/guest:/bin/sh\nlocked:x:1003:1000::{home}/locked:/sbin/nologin\n\
         etc:x:1004:1000::/etc:/bin/sh\nempty:x:1005:1000::{home}/empty:/bin/sh\nthief:x:1006:1000::{home}/thief:/bin/sh\n\
         link:x:1007:1000::{home}/link:/bin/sh\n"
    );
    let mut site = site.file_beside_root("passwd", accounts).file_beside_root("homes/ann/private", "private");
    for user in ["root", "daemon", "ann", "guest", "locked"] {
        let index = format!("homes/{user}/public_html/index.html");
        site = site.file_beside_root(&index, format!("page of {user}"));
    }
    let site = site
        .file_beside_root("homes/ann/public_html/x.css", "style")
        .file_beside_root("homes/ann/public_html/run.cgi", "text")
        .file_beside_root("homes/ann/public_html/sub/page", "sub")
        .file_beside_root("homes/bob/public_html/page", "bob's")
        .file_beside_root("homes/empty/x", "x")
        .file_beside_root("homes/link/real/page", "by a link within the home")
        .file_beside_root("homes/thief/x", "x");
    let homes = site.home().join("homes");
    symlink("/etc", homes.join("thief/public_html")).expect("it is our folder");
    symlink("real", homes.join("link/public_html")).expect("it is our folder");
    symlink("../private", homes.join("ann/public_html/private")).expect("it is our folder");
    let told = explain(&site, "http://h/~ann/sub/page");
    let server = site.start();
    let mut rows = Rows::new();
    rows.holds(
        "explain",
        &told,
        told.contains("homes/ann/public_html, of the user ann") && told.contains("200"),
    );
    for (path, expected) in [
        ("/~ann/", "page of ann"),
        ("/%7eann/", "page of ann"),
        ("/~ann", "301"),
        ("/~ann/x.css", "style"),
        ("/~ann/sub/page", "sub"),
        ("/~ann/sub", "301"),
        ("/~ann/run.cgi", "text"),
        ("/~ann/missing", "404"),
        ("/~ann/private", "403"),
        ("/~ann/../../private", "400"),
        ("/~ann/../~bob/page", "bob's"),
        ("/~link/page", "by a link within the home"),
        ("/~thief/passwd", "403"),
        ("/~root/", "404"),
        ("/~daemon/", "404"),
        ("/~guest/", "404"),
        ("/~locked/", "404"),
        ("/~etc/passwd", "404"),
        ("/~empty/", "404"),
        ("/~nobody/", "404"),
        ("/~Ann/", "404"),
        ("/~", "404"),
        ("/~/", "404"),
        ("/~x", "404"),
        ("/", "the root"),
    ] {
        for time in ["first", "second"] {
            rows.check(format!("{path}, {time}"), outcome(&server.get(path)).as_str(), expected);
        }
    }
    rows.check("no user folders", outcome(&get(&server, "none.example", "/~ann/")).as_str(), "404");
    let listed = server.get("/~bob/").text();
    rows.holds("a listing", &listed, listed.contains("page"));
    assert!(server.compared() > 0);
}

#[test]
fn a_home_that_is_closed_is_forbidden_as_root() {
    let site = Site::new().config("user = \"nobody\"\nuser_folders = \"public_html\"\n[accounts]\nhomes = \"homes\"\npasswd = \"passwd\"\n");
    let home = site.home().join("homes");
    let site = site
        .file_beside_root("passwd", format!("ann:x:1000:1000::{}/ann:/bin/sh\n", home.display()))
        .file_beside_root("homes/ann/public_html/index.html", "page");
    use std::os::unix::fs::PermissionsExt;
    let mode =
        |mode| fs::set_permissions(home.join("ann"), fs::Permissions::from_mode(mode)).expect("it is ours");
    mode(0o700);
    let server = site.start();
    assert_eq!(outcome(&server.get("/~ann/")), "403");
    mode(0o711);
    assert!(e2e::wait_until(e2e::TIMEOUT, || outcome(&server.get("/~ann/")) == "page"));
}

#[test]
fn folders_of_names_begin_beside_a_configuration_with_a_relative_path() {
    for config in ["site.toml", "./site.toml"] {
        let site = Site::new().config_without_root("root = \"vhosts/$host\"");
        let site = site.file_beside_root("vhosts/a.example/index.html", "a");
        let server = site.start_with(1, |site| {
            site.write_config();
            let mut command = command();
            command.args(["-c", config]).current_dir(site.home());
            command
        });
        assert_eq!(outcome(&get(&server, "a.example", "/")), "a", "-c {config}");
        assert_eq!(outcome(&get(&server, "b.example", "/")), "404", "-c {config}");
    }
}

#[test]
fn folders_of_names_begin_where_a_relative_path_of_the_configuration_leads() {
    for (folder, config, root) in [
        ("", "site.toml", "$host"),
        ("vhosts", "../site.toml", "$host"),
        ("vhosts", "../site.toml", "vhosts/$host"),
    ] {
        let site = Site::new().config_without_root(&format!("root = \"{root}\""));
        let site = site.file_beside_root("vhosts/a.example/index.html", "a");
        let site = site.file_beside_root("a.example/index.html", "a");
        let server = site.start_with(1, |site| {
            site.write_config();
            let mut command = command();
            command.args(["-c", config]).current_dir(site.home().join(folder));
            command
        });
        assert_eq!(outcome(&get(&server, "a.example", "/")), "a", "-c {config}: {root}");
    }
}

#[test]
fn rejects_folders_of_names_that_cannot_be() {
    let mut rows = Rows::new();
    for (config, expected) in [
        ("root = \"/$host\"", "begin it with a folder"),
        ("root = \"/srv/$name\"", "the variables are $host"),
        ("root = \"/srv/$level1\"", "add $host"),
        ("root = \"/srv/$host/../x\"", "leave out"),
        ("root = \"/srv/$ip-$host\"", "write $ip once, and $host in a folder of its own"),
        ("root = \"/srv/$ip/$level1\"", "add $host"),
        ("root = \"/$ip\"", "begin it with a folder"),
        ("root = \"/srv\"\ndefault_folder = \"x\"", "is for a root with $host"),
        ("root = \"/srv/$host\"\ndefault_folder = \"../x\"", "is not the name of a folder"),
        ("root = \"/srv/$host\"\nmissing_folder = 401", "needs a field of its own"),
        ("root = \"/srv/$host\"\nmissing_folder = 200", "from 400 to 599"),
        ("root = \"/srv\"\n[[host]]\naddresses = \"0.0.0.0\"\nroot = \"/x\"", "is not an address of a host"),
        ("root = \"/srv\"\n[[host]]\naddresses = \"host:80\"\nroot = \"/x\"", "is not an address of a host"),
        (
            "root = \"/srv\"\n[[host]]\nnames = \"a\"\naddresses = [\"::1\", \"::2\"]\nroot = \"/x\"\n\
             [[host]]\nnames = \"a\"\naddresses = \"::2\"\nroot = \"/x\"",
            "two hosts of the same address have the name",
        ),
        ("root = \"/srv\"\ncanonical = \"a.example\"", "expected one of"),
        ("root = \"/srv\"\nuser_folders = \"../x\"", "is not the path of a folder in a home"),
        ("root = \"/srv\"\nuser_folders = \"\"", "is not the path of a folder in a home"),
        ("root = \"/srv\"\nuser_folders = \"www\"\n[accounts]\nhomes = \"/\"", "cannot be in the folder /"),
    ] {
        let site = Site::new().config_without_root(config);
        let checked = run(["check".as_ref(), "-c".as_ref(), site.write_config().as_os_str()]);
        let errors = String::from_utf8_lossy(&checked.stderr).into_owned();
        rows.holds(config, &errors, !checked.status.success() && errors.contains(expected));
    }
}

#[test]
fn an_address_has_hosts_of_its_own() {
    let (plain, tls, http2, other) = (free_port(), free_port(), free_port(), free_port());
    let mut site = Site::new().certificate().config_without_root(&format!(
        "listen = [\"0.0.0.0:{plain}\", \"0.0.0.0:{tls} tls\", \"0.0.0.0:{http2} http2\", \"0.0.0.0:{other}\"]\n\
         certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\nroot = \"default\"\n\
         [[host]]\naddresses = \"127.0.0.5\"\nroot = \"five\"\n\
         [[host]]\naddresses = \"127.0.0.5\"\nnames = [\"localhost\"]\nroot = \"five-named\"\n\
         [[host]]\naddresses = [\"127.0.0.5:{other}\", \"127.0.0.6\"]\nnames = [\"b.example\"]\nroot = \"six\"\n\
         [[host]]\nnames = [\"b.example\"]\nroot = \"named\"\n"
    ));
    for name in ["default", "five", "five-named", "six", "named"] {
        site = site.file_beside_root(&format!("{name}/page"), name);
    }
    let server = site.start();
    let address = |last: u8, port| SocketAddr::from(([127, 0, 0, last], port));
    let request = |host: &str| format!("GET /page HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut rows = Rows::new();
    for (last, port, host, expected) in [
        (1, plain, "x.example", "default"),
        (1, plain, "b.example", "named"),
        (5, plain, "x.example", "five"),
        (5, plain, "b.example", "five"),
        (5, plain, "localhost", "five-named"),
        (5, other, "b.example", "six"),
        (5, other, "x.example", "five"),
        (6, plain, "x.example", "six"),
        (6, other, "localhost", "six"),
    ] {
        let mut client = Client::tcp(address(last, port));
        for time in ["first", "second"] {
            let found = client.request(request(host)).text();
            rows.check(format!("127.0.0.{last}:{port} {host}, {time}"), found.as_str(), expected);
        }
    }
    for (last, expected) in [(1, "default"), (5, "five-named"), (6, "six")] {
        let mut client = Client::tls(address(last, tls), &Tls::new());
        rows.check(format!("TLS {last}"), client.request(request("localhost")).text().as_str(), expected);
        let client = Client::tls(address(last, tls), &Tls::new().protocols(&["h2"]));
        let mut client = Http2::over(client).expect("it speaks HTTP/2");
        rows.check(format!("HTTP/2 and TLS {last}"), client.get("/page").text().as_str(), expected);
        let mut client = Http2::over(Client::tcp(address(last, http2))).expect("it speaks HTTP/2");
        rows.check(format!("HTTP/2 {last}"), client.get("/page").text().as_str(), expected);
    }
    // A reload hands idle connections over.
    let mut kept = Client::tcp(address(5, plain));
    rows.check("before a reload", kept.request(request("localhost")).text().as_str(), "five-named");
    let first = server.serving_pid();
    server.signal(e2e::Signal::HUP);
    assert!(e2e::wait_until(e2e::TIMEOUT, || server.serving_pid() != first), "it is reloaded");
    rows.check("after it", kept.request(request("localhost")).text().as_str(), "five-named");
}

#[test]
fn each_address_has_a_folder_of_its_own() {
    let (plain, tls, http2) = (free_port(), free_port(), free_port());
    let script = "#!/bin/sh\nprintf 'X-A: b\\n\\n%s %s' \"$DOCUMENT_ROOT\" \"$SERVER_ADDR\"\n";
    let site = Site::new()
        .certificate()
        .config_without_root(&format!(
            "listen = [\"0.0.0.0:{plain}\", \"0.0.0.0:{tls} tls\", \"0.0.0.0:{http2} http2\", \"unix:socket\"]\n\
             certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\nroot = \"by/$ip/htdocs\"\n\
             default_folder = \"other\"\n[[route]]\npath = \"*.cgi\"\ncgi = true\n\
             [[host]]\nnames = [\"*.example\"]\nroot = \"both/$ip/$host\"\n"
        ))
        .file_beside_root("by/127.0.0.5/htdocs/page", "five")
        .file_beside_root("by/127.0.0.6/htdocs/page", "six")
        .file_beside_root("by/other/htdocs/page", "other")
        .file_beside_root("both/127.0.0.5/a.example/page", "a at five")
        .file_beside_root("both/127.0.0.6/a.example/page", "a at six")
        .script_beside_root("by/127.0.0.5/htdocs/x.cgi", script)
        .script_beside_root("by/127.0.0.6/htdocs/x.cgi", script);
    let home = site.home().display().to_string();
    let server = site.start();
    let address = |last: u8, port| SocketAddr::from(([127, 0, 0, last], port));
    let request = |host: &str, path: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut rows = Rows::new();
    for (last, host, path, expected) in [
        (5, "x", "/page", "five".to_owned()),
        (6, "x", "/page", "six".to_owned()),
        (7, "x", "/page", "other".to_owned()),
        (5, "a.example", "/page", "a at five".to_owned()),
        (6, "a.example", "/page", "a at six".to_owned()),
        (5, "x", "/x.cgi", format!("{home}/by/127.0.0.5/htdocs 127.0.0.5")),
        (6, "x", "/x.cgi", format!("{home}/by/127.0.0.6/htdocs 127.0.0.6")),
    ] {
        let mut client = Client::tcp(address(last, plain));
        for time in ["first", "second"] {
            let found = client.request(request(host, path));
            rows.check(format!("{last} {host}{path}, {time}"), found.text().as_str(), &*expected);
        }
    }
    for (last, host) in [(6, "b.example"), (7, "a.example"), (5, "x/../../127.0.0.6"), (5, "127.0.0.6")] {
        let found = Client::tcp(address(last, plain)).request(request(host, "/page"));
        let expected = if host == "127.0.0.6" {
            "200 five"
        } else if host.contains('/') {
            "400 "
        } else {
            "404 "
        };
        let found =
            if found.status == 200 { format!("200 {}", found.text()) } else { format!("{} ", found.status) };
        rows.check(format!("{last} {host}"), found.as_str(), expected);
    }
    for (last, expected) in [(5, "five"), (6, "six"), (7, "other")] {
        for time in ["first", "second"] {
            let mut client = Client::tls(address(last, tls), &Tls::new());
            let found = client.request(request("x", "/page")).text();
            rows.check(format!("TLS {last}, {time}"), found.as_str(), expected);
            let mut client = Http2::over(Client::tcp(address(last, http2))).expect("it speaks HTTP/2");
            rows.check(format!("HTTP/2 {last}, {time}"), client.get("/page").text().as_str(), expected);
        }
    }
    for (to, expected) in [("127.0.0.6", "by/127.0.0.6/htdocs"), ("127.0.0.7", "by/other/htdocs")] {
        let explained = server.run_command(&["explain", "GET", "/page", "--to", to]);
        let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
        rows.holds(to, &explained, explained.contains(expected));
    }
    // A reload hands idle connections over.
    let mut kept = Client::tcp(address(5, plain));
    rows.check("before a reload", kept.request(request("x", "/page")).text().as_str(), "five");
    let first = server.serving_pid();
    server.signal(e2e::Signal::HUP);
    assert!(e2e::wait_until(e2e::TIMEOUT, || server.serving_pid() != first), "it is reloaded");
    rows.check("after it", kept.request(request("x", "/page")).text().as_str(), "five");
}

#[test]
fn a_host_redirects_to_its_name() {
    let server = Site::new()
        .certificate()
        .file("page", "page")
        .config(
            "listen = [\"127.0.0.1:0\", \"127.0.0.2:0 tls\"]\ncertificate = \"certificate.pem\"\n\
             certificate_key = \"key.pem\"\n\
             names = [\"localhost\", \"www.localhost\", \"other.example\"]\ncanonical = \"bare\"\n\
             [[host]]\nnames = [\"www.a.example\", \"a.example\"]\nroot = \"www\"\ncanonical = \"www\"\n\
             [[host]]\nnames = [\"first.example\", \"*.example.org\"]\nroot = \"www\"\ncanonical = \"first\"\n\
             [[host]]\nnames = [\"*.folders.example\"]\nroot = \"vhosts/$host\"\ncanonical = \"bare\"\n",
        )
        .file_beside_root("vhosts/x.folders.example/page", "x")
        .start();
    let mut rows = Rows::new();
    for (host, expected) in [
        ("localhost", "200"),
        ("www.localhost", "301 http://localhost/page?q=%20"),
        ("WWW.localhost:8080", "301 http://localhost:8080/page?q=%20"),
        ("other.example", "200"),
        ("a.example", "301 http://www.a.example/page?q=%20"),
        ("www.a.example", "200"),
        ("x.example.org", "301 http://first.example/page?q=%20"),
        ("first.example", "200"),
        ("www.x.folders.example", "301 http://x.folders.example/page?q=%20"),
        ("x.folders.example", "200"),
        ("www.unknown.example", "200"),
    ] {
        let response = get(&server, host, "/page?q=%20");
        let location = response.field("location").map(|to| format!(" {to}")).unwrap_or_default();
        rows.check(host, format!("{}{location}", response.status).as_str(), expected);
    }
    let post = server.request("POST /page HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n");
    rows.check("POST", (post.status, post.field("location")), (308, Some("http://www.a.example/page")));
    let tls = server.tcp(1);
    let mut client = Client::tls(tls, &Tls::new());
    let response = client.request("GET /page HTTP/1.1\r\nHost: www.localhost\r\n\r\n");
    rows.check("TLS", response.field("location"), Some("https://localhost/page"));
}
