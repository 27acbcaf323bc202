//! What a route protects stays protected by every other way to it: precompressed neighbours, index files, names with
//! parameters, globs within folders, folders of names, and fields that claim to name a user.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::{Rows, Server, Site, TIMEOUT, authority, path_of, program, tool, wait_until};

const ENVIRONMENT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s|%s|%s' \"$REMOTE_USER\" \
                           \"$HTTP_REMOTE_USER\" \"$PATH_INFO\"\n";

fn htpasswd(user: &str, password: &str) -> String {
    let output = tool("htpasswd").args(["-nbm", user, password]).output().expect("htpasswd runs");
    String::from_utf8(output.stdout).expect("it is text").trim().to_owned() + "\n"
}

fn basic(user: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{user}")))
}

/// The password of each user is the name.
fn site(config: &str) -> Site {
    Site::new()
        .file_beside_root("ann", htpasswd("ann", "ann"))
        .file_beside_root("both", htpasswd("ann", "ann") + &htpasswd("bob", "bob"))
        .config(&format!("workers = 1\n{config}"))
}

fn outcome(server: &Server, method: &str, host: &str, target: &str, fields: &str) -> String {
    let response = server.request(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
    match response.status {
        200 => format!("200 {}", response.text()),
        status => status.to_string(),
    }
}

fn check(server: &Server, cases: &[(&str, String, &str)]) {
    let mut rows = Rows::new();
    // Twice: a cached file is protected like any other.
    for _ in 0..2 {
        for (target, fields, expected) in cases {
            let found = outcome(server, "GET", "h", target, fields);
            rows.check(format!("{target} {fields}"), found.as_str(), *expected);
        }
    }
}

/// The protocol of applications is `http`.
fn application(site: &Site, name: &str) -> String {
    let home = site.home().display();
    format!(
        "[[application]]\nname = \"{name}\"\nprotocol = \"http\"\nconcurrent = 8\ncommand = [\"{}\", \"-B\", \
         \"{home}/{name}.py\"]\nfolder = \"{home}\"\n",
        path_of("python3")
    )
}

#[test]
fn a_precompressed_neighbour_needs_the_password_of_its_plain_file() {
    let server = site(
        "[[route]]\npath = \"/plan.txt\"\nauth = \"basic\"\nuser_files = \"ann\"\n\
         [[route]]\npath = \"*.pdf\"\nauth = \"basic\"\nuser_files = \"ann\"\n",
    )
    .every_protocol()
    .file("plan.txt", "the plan")
    .file("plan.txt.gz", "packed plan")
    .file("a/b.pdf.br", "packed book")
    .file("other.txt.gz", "for all")
    .start();
    let (none, ann) = (String::new, || basic("ann"));
    check(
        &server,
        &[
            ("/plan.txt", none(), "401"),
            ("/plan.txt.gz", none(), "401"),
            ("/plan.txt.gz;x", none(), "401"),
            ("/plan.txt.gz", ann(), "200 packed plan"),
            ("/plan.txt.gz", "Range: bytes=0-1\r\n".to_owned(), "401"),
            ("/plan.txt.gz", "If-None-Match: *\r\n".to_owned(), "401"),
            ("/a/b.pdf.br", none(), "401"),
            ("/a/b.pdf.br", ann(), "200 packed book"),
            ("/other.txt.gz", none(), "200 for all"),
        ],
    );
    for method in ["HEAD", "OPTIONS", "POST", "BREW"] {
        assert_eq!(outcome(&server, method, "h", "/plan.txt.gz", ""), "401", "{method}");
    }
}

#[test]
fn a_glob_within_a_folder_needs_the_users_of_both() {
    let server = site(
        "[[route]]\npath = \"/members/\"\nauth = \"basic\"\nuser_files = \"ann\"\n\
         [[route]]\npath = \"*.txt\"\nauth = \"basic\"\nuser_files = \"both\"\n\
         [[route]]\npath = \"*.css\"\nauth = \"off\"\n",
    )
    .every_protocol()
    .file("members/a.txt", "a")
    .file("members/a.css", "css")
    .file("a.txt", "open a")
    .start();
    let none = String::new;
    check(
        &server,
        &[
            ("/members/a.txt", none(), "401"),
            ("/members/a.txt", basic("bob"), "401"),
            ("/members/a.txt", basic("ann"), "200 a"),
            ("/members/a.css", none(), "401"),
            ("/members/a.css", basic("ann"), "200 css"),
            ("/a.txt", basic("bob"), "200 open a"),
            ("/a.txt", none(), "401"),
        ],
    );
}

#[test]
fn parameters_in_a_path_lead_past_nothing() {
    let site = site("").script("cgi-bin/env.cgi", ENVIRONMENT);
    let app = application(&site, "app");
    let server = site
        .file_beside_root("app.py", include_str!("programs/http_app.py"))
        .config(&format!(
            "[[route]]\npath = \"/app/\"\napplication = \"app\"\n\
             [[route]]\npath = \"/app/admin/\"\napplication = \"app\"\nauth = \"basic\"\nuser_files = \"ann\"\n\
             [[route]]\npath = \"/cgi-bin/\"\ncgi = true\n\
             [[rule]]\npath = [\"/app/off/\", \"/cgi-bin/env.cgi/off/\"]\nthen = \"deny\"\n{app}"
        ))
        .every_protocol()
        .start();
    let mut rows = Rows::new();
    for (target, expected) in [
        ("/app/echo", "200 "),
        ("/app/x;y=1/echo", "200 "),
        ("/app/admin/echo", "401"),
        ("/app/admin;x/echo", "401"),
        ("/app/admin%3bx/echo", "401"),
        ("/app/x/..;/admin/echo", "401"),
        ("/app/.;/admin/echo", "401"),
        ("/app/;a=b/admin/echo", "401"),
        ("/app/off/echo", "403"),
        ("/app/off;x/echo", "403"),
        ("/app/y/..;v=1/off/echo", "403"),
        ("/cgi-bin/env.cgi/on;x", "200 ||/on;x"),
        ("/cgi-bin/env.cgi/off", "403"),
        ("/cgi-bin/env.cgi/off;x/y", "403"),
        ("/cgi-bin/env.cgi/on/..;/off/y", "403"),
    ] {
        rows.check(target, outcome(&server, "GET", "h", target, "").as_str(), expected);
    }
}

#[test]
fn a_client_cannot_name_a_user() {
    let site = site("").script("env.cgi", ENVIRONMENT).script("club/env.cgi", ENVIRONMENT);
    let app = application(&site, "app");
    let server = site
        .file_beside_root("app.py", include_str!("programs/http_app.py"))
        .config(&format!(
            "[[route]]\npath = \"*.cgi\"\ncgi = true\n\
             [[route]]\npath = \"/app/\"\napplication = \"app\"\n\
             [[route]]\npath = \"/club/\"\nauth = \"basic\"\nuser_files = \"ann\"\n\
             [[route]]\npath = \"/club/app/\"\napplication = \"app\"\nauth = \"basic\"\nuser_files = \"ann\"\n{app}"
        ))
        .start();
    let claims = "Remote-User: eve\r\nRemote_User: eve\r\nREMOTE-USER: eve\r\n";
    let with =
        |target: &str, fields: &str| outcome(&server, "GET", "h", target, &format!("{fields}{claims}"));
    let mut rows = Rows::new();
    rows.check("a script for all", with("/env.cgi", "").as_str(), "200 ||");
    rows.check("a script for users", with("/club/env.cgi", &basic("ann")).as_str(), "200 ann|ann|");
    for connection in ["new", "kept"] {
        let of_all = with("/app/asked", "");
        rows.holds(
            format!("an application for all, by a {connection} connection"),
            "it has no user",
            of_all.starts_with("200 ") && !of_all.contains("eve"),
        );
    }
    let of_user = with("/club/app/asked", &basic("ann"));
    let is_ann = of_user.contains("[\"Remote-User\", \"ann\"]") && !of_user.contains("eve");
    rows.holds("an application for users", &format!("it is ann in {of_user}"), is_ann);
}

#[test]
fn an_authorizer_decides_on_the_file_that_stands_for_a_path() {
    let site = site("");
    let guard = application(&site, "guard");
    let server = site
        .file("docs/index.html", "the index")
        .file("docs/index.html.gz", "packed")
        .file("open/index.html", "open")
        .file_beside_root("guard.py", include_str!("programs/http_guard.py"))
        .config(&format!("[[route]]\npath = \"/docs/index.html\"\nauthorizer = \"guard\"\n{guard}"))
        .every_protocol()
        .start();
    let ann = "Cookie: session=ann\r\n";
    let (none, gzip) = (String::new, || "Accept-Encoding: gzip\r\n".to_owned());
    check(
        &server,
        &[
            ("/open/", none(), "200 open"),
            ("/docs/index.html", none(), "401"),
            ("/docs/", none(), "401"),
            ("/docs/", gzip(), "401"),
            ("/docs/index.html.gz", none(), "401"),
            ("/docs/", "If-None-Match: *\r\n".to_owned(), "401"),
            ("/docs/", "Range: bytes=0-1\r\n".to_owned(), "401"),
            ("/docs/", ann.to_owned(), "200 the index"),
            ("/docs/index.html.gz", ann.to_owned(), "200 packed"),
        ],
    );
}

#[test]
fn folders_of_names_may_have_password_files() {
    let mut site = Site::new().every_protocol().config_without_root(
        "workers = 1\nroot = \"hosts/$host\"\nauth = \"basic\"\nfolder_passwords = \"inherited\"\ndotfiles = \"allow\"\n\
         listing = true\n",
    );
    for host in ["a.example", "b.example"] {
        site = site.file_beside_root(&format!("hosts/{host}/club/x/y"), format!("y of {host}"));
    }
    let server = site.file_beside_root("hosts/a.example/club/.htpasswd", htpasswd("ann", "ann")).start();
    let mut rows = Rows::new();
    for (host, target, fields, expected) in [
        ("a.example", "/club/x/y", String::new(), "401"),
        ("a.example", "/club/", String::new(), "401"),
        ("a.example", "/club/x/y", basic("ann"), "200 y of a.example"),
        ("b.example", "/club/x/y", String::new(), "200 y of b.example"),
        ("a.example", "/club/.htpasswd", basic("ann"), "404"),
    ] {
        rows.check(
            format!("{host}{target}"),
            outcome(&server, "GET", host, target, &fields).as_str(),
            expected,
        );
    }
    let listing = outcome(&server, "GET", "a.example", "/club/", &basic("ann"));
    rows.holds("the listing", "has no name of a password file", !listing.contains("htpasswd"));
}

#[test]
fn a_named_file_beside_the_folders_of_names_hides_none_of_them() {
    let mut site = Site::new()
        .every_protocol()
        .config_without_root("root = \"hosts/$host\"\nlisting = true\nthrottle_file = \"hosts/slow.txt\"\n");
    site = site.file_beside_root("hosts/slow.txt", "/none 1\n");
    site = site.file_beside_root("hosts/a.example/index.html", "the index");
    let server = site.file_beside_root("hosts/b.example/page", "page").start();
    let mut rows = Rows::new();
    for (host, target, expected) in [
        ("a.example", "/", "200 the index"),
        ("b.example", "/page", "200 page"),
        ("slow.txt", "/", "404"),
        ("slow.txt", "/slow.txt", "404"),
    ] {
        rows.check(format!("{host}{target}"), outcome(&server, "GET", host, target, "").as_str(), expected);
    }
    let listing = outcome(&server, "GET", "b.example", "/", "");
    rows.holds("the listing", "is there", listing.starts_with("200") && listing.contains("page"));
}

#[test]
fn links_to_files_that_the_configuration_reads_are_never_served() {
    let site = Site::new()
        .file_beside_root("users.txt", htpasswd("ann", "ann"))
        .file_beside_root("slow.txt", "nothing 1\n")
        .file("a/open.txt", "open")
        .file("b/plain.txt", "plain");
    let home = site.home().to_owned();
    for (link, target) in [("a/soft", "users.txt"), ("a/slow", "slow.txt"), ("b/index.html", "users.txt")] {
        symlink(home.join(target), home.join("www").join(link)).expect("our folder takes links");
    }
    for link in ["a/hard", "a/open.txt.gz"] {
        fs::hard_link(home.join("users.txt"), home.join("www").join(link)).expect("our folder takes links");
    }
    fs::hard_link(home.join("www/b/plain.txt"), home.join("www/b/other.txt"))
        .expect("our folder takes links");
    let server = site
        .config(
            "workers = 1\nlisting = true\nsymlinks = \"follow\"\nthrottle_file = \"slow.txt\"\n\
             [[route]]\npath = \"/club/\"\nauth = \"basic\"\nuser_files = \"users.txt\"\n\
             [[route]]\npath = \"/alias/\"\nalias = \"www/a\"\n",
        )
        .every_protocol()
        .start();
    let mut rows = Rows::new();
    // Twice: the second request could have a cached file.
    for _ in 0..2 {
        for (target, fields, expected) in [
            ("/a/soft", "", "404"),
            ("/a/slow", "", "404"),
            ("/a/hard", "", "404"),
            ("/alias/hard", "", "404"),
            ("/alias/soft", "Range: bytes=0-1\r\n", "404"),
            ("/a/open.txt", "Accept-Encoding: gzip\r\n", "200 open"),
            ("/a/open.txt.gz", "", "404"),
            ("/b/index.html", "", "404"),
            ("/b/other.txt", "", "200 plain"),
        ] {
            rows.check(target, outcome(&server, "GET", "h", target, fields).as_str(), expected);
        }
    }
    for (target, expected) in [("/a/", "open.txt"), ("/b/", "other.txt")] {
        let listing = outcome(&server, "GET", "h", target, "");
        rows.holds(target, "is listed", listing.contains(expected));
        let names = ["soft", "hard", "slow", "open.txt.gz", "index.html", "apr1"];
        rows.holds(target, &listing, names.iter().all(|name| !listing.contains(name)));
    }
    let explained = server.run_command(&["explain", "GET", "/a/hard"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    rows.holds("explain", &explained, explained.contains("the configuration names: never served"));
}

#[test]
fn a_link_to_a_file_that_has_taken_the_place_of_another_is_not_served() {
    let server = site("[[route]]\npath = \"/club/\"\nauth = \"basic\"\nuser_files = \"users.txt\"\n")
        .file_beside_root("users.txt", htpasswd("bob", "bob"))
        .start();
    let home = server.files().path().to_owned();
    server.files().file("new.txt", htpasswd("ann", "ann"));
    fs::rename(home.join("new.txt"), home.join("users.txt")).expect("our folder takes files");
    fs::hard_link(home.join("users.txt"), home.join("www/link")).expect("our folder takes links");
    let found = || outcome(&server, "GET", "h", "/link", "");
    assert!(wait_until(TIMEOUT, || found() == "404"), "{}", found());
}

#[test]
fn a_link_is_hidden_when_it_leads_to_a_replaced_file_that_the_configuration_reads() {
    let server = Site::new()
        .file("open.txt", "open")
        .file_beside_root("slow.txt", "nothing 1\n")
        .file_beside_root("networks.txt", "192.0.2.1\n")
        .file_beside_root("more.toml", "[[route]]\npath = \"/none\"\nreturn = 410\n")
        .config(
            "symlinks = \"follow\"\nthrottle_file = \"slow.txt\"\ninclude = \"more.toml\"\n\
             [[rule]]\naddress_file = \"networks.txt\"\nthen = \"deny\"\n",
        )
        .start();
    let home = server.files().path().to_owned();
    let mut rows = Rows::new();
    for name in ["slow.txt", "networks.txt", "more.toml"] {
        symlink(home.join(name), home.join("www").join(name)).expect("our folder takes links");
        let target = format!("/{name}");
        let found = || outcome(&server, "GET", "h", &target, "");
        rows.check(name, found().as_str(), "404");
        let content = fs::read(home.join(name)).expect("it is there");
        server.files().file("new", content);
        // The old file goes on under another name: a file is hidden by what it is.
        fs::rename(home.join(name), home.join("www").join(format!("old-{name}"))).expect("it can be moved");
        fs::rename(home.join("new"), home.join(name)).expect("our folder takes files");
        rows.holds(name, &found(), wait_until(TIMEOUT, || found() == "404"));
        let old = || outcome(&server, "GET", "h", &format!("/old-{name}"), "");
        rows.holds(name, &old(), wait_until(TIMEOUT, || old().starts_with("200 ")));
    }
    rows.check("open.txt", outcome(&server, "GET", "h", "/open.txt", "").as_str(), "200 open");
    rows.check("reloads", server.stderr().matches("has been reloaded").count(), 0);
}

#[test]
fn files_that_the_configuration_reads_are_never_served() {
    let site = Site::new()
        .file("a/users.txt", htpasswd("ann", "ann"))
        .file("a/users.txt.gz", "a copy")
        .file("a/staff.txt", "staff: ann\n")
        .file("a/open.txt", "open")
        .file("slow.txt", "nothing 1\n")
        .file("networks.txt", "192.0.2.1\n")
        .file("more/more.toml", "[[route]]\npath = \"/none\"\nreturn = 410\n")
        .file_beside_root("names/a.example/htdocs/users.txt", htpasswd("ann", "ann"))
        .file_beside_root("names/a.example/htdocs/open.txt", "open");
    let config = "workers = 1\nlisting = true\nindex = [\"users.txt\"]\nthrottle_file = \"www/slow.txt\"\n\
         include = \"www/more/*.toml\"\nerror_pages = { 410 = \"/a/users.txt\" }\n\
         rewrites = { \"/rewritten\" = \"/a/users.txt\" }\n\
         [[rule]]\naddress_file = \"www/networks.txt\"\nthen = \"deny\"\n\
         [[route]]\npath = \"/club/\"\nauth = \"basic\"\nuser_files = [\"www/a/../a/users.txt\", \
         \"names/a.example/htdocs/users.txt\"]\ngroup_files = \"www/a/staff.txt\"\n\
         [[route]]\npath = \"/alias/\"\nalias = \"www/a\"\n\
         [[host]]\nnames = [\"a.example\"]\nroot = \"names/$host/htdocs\"\nlisting = true\n";
    let site = site.config(config);
    let check =
        Command::new(program()).arg("check").arg("-c").arg(site.write_config()).output().expect("it runs");
    let warnings = String::from_utf8_lossy(&check.stderr).into_owned();
    let server = site.every_protocol().start();
    let mut rows = Rows::new();
    for file in ["users.txt", "staff.txt", "slow.txt", "networks.txt", "more.toml", "htdocs/users.txt"] {
        let warned =
            warnings.lines().any(|line| line.contains(file) && line.contains("lies beneath a folder"));
        rows.holds(file, &format!("check warns in {warnings}"), warned);
    }
    for (host, target, expected) in [
        ("h", "/a/open.txt", "200 open"),
        ("h", "/a/users.txt", "404"),
        ("h", "/a/%75sers.txt", "404"),
        ("h", "//a/./users.txt", "404"),
        ("h", "/a/users.txt/", "404"),
        ("h", "/a/users.txt.gz", "404"),
        ("h", "/a/users.txt;x", "404"),
        ("h", "/a/staff.txt", "404"),
        ("h", "/alias/users.txt", "404"),
        ("h", "/alias/open.txt", "200 open"),
        ("h", "/rewritten", "404"),
        ("h", "/slow.txt", "404"),
        ("h", "/networks.txt", "404"),
        ("h", "/more/more.toml", "404"),
        ("a.example", "/users.txt", "404"),
        ("a.example", "/open.txt", "200 open"),
    ] {
        rows.check(format!("{host}{target}"), outcome(&server, "GET", host, target, "").as_str(), expected);
    }
    for (host, target) in [("h", "/a/"), ("h", "/alias/"), ("h", "/"), ("h", "/none"), ("a.example", "/")] {
        let found = outcome(&server, "GET", host, target, "");
        let names = ["users.txt", "staff.txt", "slow.txt", "networks.txt", "apr1"];
        let is_silent = names.iter().all(|name| !found.contains(name));
        rows.holds(
            format!("{host}{target}"),
            &format!("it has no name of a private file: {found}"),
            is_silent,
        );
    }
}

#[test]
fn keys_of_certificates_are_never_served() {
    let pair = authority().server(&["h"]);
    let both = pair.certificate.clone() + &pair.key;
    for (name, certificate, hidden) in [
        ("a key", "certificate = \"chain.pem\"\ncertificate_key = \"www/own.pem\"", "own.pem"),
        ("a certificate with its key", "certificate = \"www/both.pem\"", "both.pem"),
        ("a key beside its certificate", "certificate = \"www/beside/chain.pem\"", "beside/chain.key"),
        ("a key in a folder", "certificate = \"www/live\"", "live/h/privkey.pem"),
    ] {
        let site = Site::new()
            .file_beside_root("chain.pem", &pair.certificate)
            .file("open.txt", "open")
            .file("own.pem", &pair.key)
            .file("both.pem", &both)
            .file("beside/chain.pem", &pair.certificate)
            .file("beside/chain.key", &pair.key)
            .file("live/h/fullchain.pem", &pair.certificate)
            .file("live/h/privkey.pem", &pair.key)
            .symlink("link", hidden)
            .config(&format!("listen = [\"127.0.0.1:0\", \"127.0.0.2:0 tls\"]\n{certificate}\n"));
        let server = site.start();
        let mut rows = Rows::new();
        for target in [format!("/{hidden}"), "/link".to_owned()] {
            rows.check(
                format!("{name}: {target}"),
                outcome(&server, "GET", "h", &target, "").as_str(),
                "404",
            );
        }
        rows.check(name, outcome(&server, "GET", "h", "/open.txt", "").as_str(), "200 open");
        let check = server.run_command(&["check"]);
        let warnings = String::from_utf8_lossy(&check.stderr).into_owned();
        rows.holds(name, &format!("check warns in {warnings}"), warnings.contains("lies beneath a folder"));
    }
}
