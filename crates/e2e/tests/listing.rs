//! Listings of folders, as HTML and as JSON.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use e2e::{Folder, Response, Rows, Server, Site, command, output_of, tool};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

/// The next request sees a change.
const AT_ONCE: &str = "[cache]\ncheck = \"0s\"\nmissing = \"0s\"";

fn json(response: &Response) -> Value {
    assert_eq!(
        (response.status, response.field("content-type")),
        (200, Some("application/json")),
        "{response}"
    );
    serde_json::from_slice(&response.body).unwrap_or_else(|e| panic!("{e}: {response}"))
}

fn names(listing: &Value) -> Vec<String> {
    let entries = listing["entries"].as_array().expect("there are entries");
    entries.iter().map(|entry| entry["name"].as_str().expect("each has a name").to_owned()).collect()
}

fn listed(server: &Server, path: &str) -> Vec<String> {
    let separator = if path.contains('?') { '&' } else { '?' };
    names(&json(&server.get(&format!("{path}{separator}format=json"))))
}

/// The targets of all links on the page, as written.
fn links(page: &str) -> Vec<String> {
    let unescaped = |link: &str| link.replace("&amp;", "&").replace("&#39;", "'").replace("&quot;", "\"");
    page.split("href=\"").skip(1).map(|rest| unescaped(rest.split_once('"').expect("it ends").0)).collect()
}

/// A folder with files of different names, sizes and dates.
fn site() -> Site {
    Site::new()
        .every_protocol()
        .config("listing = true")
        .config(AT_ONCE)
        .file("B.txt", "22")
        .modified("B.txt", 1_600_000_300)
        .file("a10.txt", "333")
        .modified("a10.txt", 1_600_000_100)
        .file("a9.txt", "1")
        .modified("a9.txt", 1_600_000_200)
        .file("zoo/inner.txt", "inner")
        .file("zoo/deep er/x", "x")
        .folder("Alpha")
}

#[test]
fn a_listing_shows_every_entry_and_the_parent() {
    let server = site().start();
    let response = server.get("/");
    let page = response.text();
    let mut rows = Rows::new();
    rows.check(
        "status",
        (response.status, response.field("content-type")),
        (200, Some("text/html; charset=utf-8")),
    );
    rows.check("vary", response.field("vary"), Some("Accept, Accept-Encoding"));
    rows.holds(
        "policy",
        "no script from elsewhere",
        response
            .field("content-security-policy")
            .is_some_and(|policy| policy.contains("default-src 'none'") && !policy.contains("unsafe-inline")),
    );
    for part in [
        "<!DOCTYPE html>",
        "name=\"viewport\"",
        "color-scheme",
        "href=\"./B.txt\"",
        "href=\"./zoo/\"",
        "2 folders, 3 files, 6 B",
        "2020-09-13",
        "name=\"sort\" value=\"size\"",
    ] {
        rows.holds(part, "it is on the page", page.contains(part));
    }
    rows.holds("/", "there is no way up from the top", !page.contains("Parent folder"));
    let deep = server.get("/zoo/deep%20er/").text();
    for (text, target) in [("/", "../../"), ("zoo", "../"), ("deep er", "./")] {
        let crumb = deep
            .split("<a href=\"")
            .find(|link| link.starts_with(&format!("{target}\"")) && link.contains(&format!(">{text}</a>")));
        rows.holds(text, &format!("it leads to {target}"), crumb.is_some());
    }
    rows.holds("/zoo/deep%20er/", "it names its parent", deep.contains("Parent folder"));
}

#[test]
fn every_link_of_a_listing_works() {
    let site = [
        "a b.txt",
        "50%.txt",
        "what?.txt",
        "#1.txt",
        "é日.txt",
        "a:b.txt",
        "javascript:alert(1)",
        "\"'&<>.txt",
        "-",
        "~",
    ]
    .iter()
    .fold(site(), |site, name| site.file(name, name).file(&format!("{name}.d/x"), "x"));
    let server = site.start();
    let mut rows = Rows::new();
    let found = links(&server.get("/").text());
    assert!(found.len() > 20, "{found:?}");
    for link in found {
        let path = match link.strip_prefix("./") {
            Some(rest) => format!("/{rest}"),
            None => panic!("{link} leads out of the folder"),
        };
        rows.check(&link, server.get(&path).status, 200);
    }
}

#[test]
fn sends_json_to_clients_that_request_it() {
    let server = site().start();
    let mut rows = Rows::new();
    for (query, accept, expected) in [
        ("", "", "text/html; charset=utf-8"),
        ("", "Accept: */*\r\n", "text/html; charset=utf-8"),
        (
            "",
            "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n",
            "text/html; charset=utf-8",
        ),
        ("", "Accept: application/json\r\n", "application/json"),
        ("", "Accept: application/json, text/html;q=0.5\r\n", "application/json"),
        ("", "Accept: application/json;q=0.5, text/html\r\n", "text/html; charset=utf-8"),
        ("?format=json", "", "application/json"),
        ("?format=json", "Accept: text/html\r\n", "application/json"),
        ("?format=html", "Accept: application/json\r\n", "text/html; charset=utf-8"),
        ("?sort=size&format=json", "", "application/json"),
    ] {
        let response = server.connect().get_with(&format!("/{query}"), accept);
        rows.check(format!("{query} {accept}"), response.field("content-type"), Some(expected));
        rows.check(format!("{query} {accept}"), response.field("vary"), Some("Accept, Accept-Encoding"));
    }
    let listing = json(&server.get("/?format=json"));
    rows.check("path", &listing["path"], &Value::from("/"));
    rows.check("truncated", &listing["truncated"], &Value::from(false));
    let expected =
        serde_json::json!({ "name": "B.txt", "type": "file", "size": 2, "modified": "2020-09-13T12:31:40Z" });
    rows.holds(
        "B.txt",
        "the entry has all fields",
        listing["entries"].as_array().unwrap().contains(&expected),
    );
    let folder = listing["entries"].as_array().unwrap().iter().find(|entry| entry["name"] == "zoo").unwrap();
    rows.check("zoo", (&folder["type"], &folder["size"]), (&Value::from("folder"), &Value::Null));
    rows.check("path of zoo", &json(&server.get("/zoo/?format=json"))["path"], &Value::from("/zoo/"));
}

#[test]
fn a_query_sorts_html_and_json_alike() {
    let server = site().start();
    let mut rows = Rows::new();
    for (query, files) in [
        ("", ["a9.txt", "a10.txt", "B.txt"]),
        ("sort=name", ["a9.txt", "a10.txt", "B.txt"]),
        ("sort=name&order=desc", ["B.txt", "a10.txt", "a9.txt"]),
        ("sort=size&order=asc", ["a9.txt", "B.txt", "a10.txt"]),
        ("sort=size&order=desc", ["a10.txt", "B.txt", "a9.txt"]),
        ("sort=size", ["a10.txt", "B.txt", "a9.txt"]),
        ("sort=date&order=asc", ["a10.txt", "a9.txt", "B.txt"]),
        ("order=desc&sort=date", ["B.txt", "a9.txt", "a10.txt"]),
        ("sort=nonsense&order=", ["a9.txt", "a10.txt", "B.txt"]),
    ] {
        let sorted = listed(&server, &format!("/?{query}"));
        rows.check(query, &sorted[2..], &files.map(str::to_owned)[..]);
        rows.holds(
            query,
            "folders come first",
            ["zoo", "Alpha"].iter().all(|folder| sorted[..2].contains(&(*folder).to_owned())),
        );
        let page = server.get(&format!("/?{query}")).text();
        let shown: Vec<String> = links(&page)
            .iter()
            .filter_map(|link| link.strip_prefix("./"))
            .filter(|link| link.ends_with(".txt"))
            .map(str::to_owned)
            .collect();
        rows.check(format!("page {query}"), &shown[..], &files.map(str::to_owned)[..]);
    }
}

#[test]
fn escapes_or_omits_hostile_names() {
    let hostile = [
        "<script>alert(1)",
        "\"onmouseover=\"x",
        "a&lt;b",
        "'single'",
        "<h1>",
        "exe.\u{202e}gpj",
        "{\"json\":1}",
        "back\\slash",
    ];
    let site = hostile
        .iter()
        .fold(Site::new().every_protocol().config("listing = true"), |site, name| site.file(name, "x"));
    let root = site.root();
    for unaskable in [&b"new\nline"[..], b"carriage\rreturn", b"escape\x1b[2J", b"not utf-8 \xff\n"] {
        fs::write(root.join(std::ffi::OsStr::from_bytes(unaskable)), "x").unwrap();
    }
    let folder = "<b>&\"'";
    fs::create_dir(root.join(folder)).unwrap();
    let server = site.start();
    let mut rows = Rows::new();
    let found = listed(&server, "/");
    for name in hostile.iter().filter(|name| !name.contains('\\')) {
        rows.holds(name, "it is listed", found.contains(&(*name).to_owned()));
    }
    for part in ["new", "carriage", "escape", "not utf"] {
        rows.holds(part, "it is left out", !found.iter().any(|name| name.starts_with(part)));
    }
    for path in ["/", "/%3Cb%3E&%22'/"] {
        let page = server.get(path).text();
        for raw in ["<script>alert", "\"onmouseover", "<b>&", "<h1>x", "\u{202e}", "\x1b"] {
            rows.holds(format!("{path} {raw}"), "its raw name is not on the page", !page.contains(raw));
        }
        rows.check(path, page.matches("<script").count(), 1);
    }
    let title = server.get("/%3Cb%3E&%22'/").text();
    rows.holds("the title", "it is escaped", title.contains("<title>/&lt;b&gt;&amp;&quot;&#39;/</title>"));
    // The JSON is plain ASCII, so that names cannot send control sequences to a terminal.
    rows.holds("JSON", "ASCII alone", server.get("/?format=json").body.is_ascii());
}

#[test]
fn lists_dotfiles_only_when_they_are_served() {
    let server = Site::new()
        .every_protocol()
        .config(
            "listing = true\n[[route]]\npath = \"/open/\"\ndotfiles = \"allow\"\n\
             [[route]]\npath = \"/unlisted/\"\ndotfiles = \"unlisted\"",
        )
        .file("unlisted/.env", "x")
        .file("unlisted/seen", "x")
        .file(".env", "x")
        .file(".git/config", "x")
        .file("seen", "x")
        .file("open/.env", "x")
        .file("open/seen", "x")
        .start();
    assert_eq!(listed(&server, "/"), ["open", "unlisted", "seen"]);
    assert_eq!(listed(&server, "/open/"), [".env", "seen"]);
    assert_eq!(listed(&server, "/unlisted/"), ["seen"]);
    assert_eq!(server.get("/unlisted/.env").status, 200);
    assert!(!server.get("/").text().contains(".env"));
}

#[test]
fn lists_a_link_as_its_target_if_it_may_be_followed() {
    let site = Site::new()
        .every_protocol()
        .file("file.txt", "12345")
        .file("folder/x", "x")
        .file_beside_root("outside.txt", "outside")
        .symlink("in", "file.txt")
        .symlink("in-folder", "folder")
        .symlink("out", "../outside.txt")
        .symlink("out-folder", "..")
        .symlink("loop", "loop")
        .symlink("dangling", "missing");
    let absolute = site.root().join("file.txt");
    let site = site.symlink("absolute", absolute);
    mknodat(CWD, site.root().join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let server = site.config("listing = true\n[[route]]\npath = \"/folder/\"\nsymlinks = \"never\"").start();
    let listing = json(&server.get("/?format=json"));
    let mut found = names(&listing);
    found.sort();
    assert_eq!(found, ["absolute", "fifo", "file.txt", "folder", "in", "in-folder"]);
    let entry = |name: &str| {
        listing["entries"].as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap()
    };
    assert_eq!((&entry("in")["type"], &entry("in")["size"]), (&Value::from("file"), &Value::from(5)));
    assert_eq!(entry("in-folder")["type"], "folder");
    assert_eq!(entry("fifo")["type"], "other");
    let page = server.get("/").text();
    assert!(page.contains("fifo") && !page.contains("href=\"./fifo"), "what cannot be had has no link");
}

#[test]
fn the_listing_shows_changes_of_the_folder() {
    let server = site().start();
    let mut rows = Rows::new();
    rows.check("at first", listed(&server, "/zoo/"), vec!["deep er".to_owned(), "inner.txt".to_owned()]);
    fs::write(server.root().join("zoo/new"), "x").unwrap();
    rows.check(
        "a new file",
        listed(&server, "/zoo/"),
        vec!["deep er".to_owned(), "inner.txt".to_owned(), "new".to_owned()],
    );
    rows.holds("page", "the new file is there", server.get("/zoo/").text().contains("./new"));
    fs::remove_file(server.root().join("zoo/new")).unwrap();
    fs::rename(server.root().join("zoo/inner.txt"), server.root().join("zoo/renamed")).unwrap();
    rows.check(
        "removed and renamed",
        listed(&server, "/zoo/"),
        vec!["deep er".to_owned(), "renamed".to_owned()],
    );
    fs::write(server.root().join("zoo/index.html"), "index").unwrap();
    rows.check("an index", server.get("/zoo/").text().as_str(), "index");
    fs::remove_dir_all(server.root().join("zoo")).unwrap();
    rows.check("gone", server.get("/zoo/").status, 404);
}

#[test]
fn lists_thousands_of_entries_quickly_and_completely() {
    let names: Vec<String> = (0..12_000).map(|number| format!("file number {number:05}.txt")).collect();
    let site = names.iter().fold(Site::new().every_protocol(), |site, name| site.file(name, ""));
    let site = (0..5000).fold(site, |site, number| site.file(&format!("five/{number:04}"), ""));
    let server = site.config("listing = true\n[limits]\nlisting_entries = 20000").start();
    for (path, count) in [("/five/", 5000), ("/", 12_000)] {
        let before = server.processor_time();
        let page = server.get(path).text();
        assert_eq!(
            page.matches("<tr").count()
                - page.matches("class=\"d\"").count()
                - page.matches("class=\"u\"").count()
                - 1,
            count
        );
        assert!(page.trim_end().ends_with("</html>"), "the page is whole");
        let mut found = listed(&server, path);
        found.retain(|name| name != "five");
        assert_eq!(found.len(), count);
        assert!(found.is_sorted());
        let took = server.processor_time() - before;
        eprintln!("  {path}: {took:?}");
        assert!(took < Duration::from_secs(5), "{path} takes {took:?}");
    }
    // HTTP/1.0 has no chunks: the response ends with the connection.
    let old = server.request("GET / HTTP/1.0\r\n\r\n");
    assert!(old.status == 200 && old.text().trim_end().ends_with("</html>"));
    assert!(!old.has("transfer-encoding"));
    // A client that disconnects in the middle disturbs no other.
    let mut leaving = server.connect();
    leaving.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    drop(leaving);
    assert_eq!(server.get("/five/0001").status, 200);
}

#[test]
fn shows_the_first_entries_by_name_beyond_the_limit() {
    // Created in random order; the file system returns them in its own.
    let site = (0..500).fold(Site::new().every_protocol(), |site, number| {
        let number = number * 7919 % 500;
        site.file(&format!("file {number}"), "x".repeat(number))
    });
    let server = site.folder("z").config("listing = true\n[limits]\nlisting_entries = 7").start();
    let mut rows = Rows::new();
    let first: Vec<String> = (0..7).map(|number| format!("file {number}")).collect();
    for query in ["", "?sort=size", "?sort=date&order=asc"] {
        let separator = if query.is_empty() { '?' } else { '&' };
        let listing = json(&server.get(&format!("/{query}{separator}format=json")));
        let mut found = names(&listing);
        rows.check(query, &listing["truncated"], &Value::from(true));
        if query == "?sort=size" {
            rows.check(query, found.first().map(String::as_str), Some("file 6"));
        }
        found.sort();
        rows.check(query, &found, &first);
        let page = server.get(&format!("/{query}")).text();
        let note = "This folder has 501 entries. The first 7 by name are shown.";
        rows.holds(query, &format!("the note is: {note}"), page.contains(note));
    }
}

#[test]
fn a_mirror_follows_one_sort_order() {
    let server = site().file("robots.txt", "").start();
    let home = server.home().join("mirror");
    fs::create_dir(&home).unwrap();
    let mut command = tool("wget");
    command.args([
        "--no-config",
        "--no-proxy",
        "--quiet",
        "--recursive",
        "--level=5",
        "--no-host-directories",
    ]);
    command.arg(server.url("/")).current_dir(&home);
    let output = output_of(&mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found = Vec::new();
    let mut folders = vec![home.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(&home).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    assert_eq!(
        found,
        [
            "Alpha/index.html",
            "B.txt",
            "a10.txt",
            "a9.txt",
            "index.html",
            "robots.txt",
            "zoo/deep er/index.html",
            "zoo/deep er/x",
            "zoo/index.html",
            "zoo/inner.txt"
        ]
    );
    // A page in another order tells crawlers not to index it.
    let robots = "<meta name=\"robots\" content=\"noindex, nofollow\">";
    assert!(!server.get("/").text().contains(robots));
    assert!(server.get("/?sort=size").text().contains(robots));
}

#[test]
fn head_of_a_listing_is_get_without_the_content() {
    let server = site().start();
    for path in ["/", "/?format=json", "/zoo/?sort=size"] {
        let get = server.get(path);
        let head = server.request(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(
            (head.status, head.fields_but(&["date"])),
            (get.status, get.fields_but(&["date"])),
            "{path}"
        );
    }
    let post = server.request("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((post.status, post.field("allow")), (405, Some("GET, HEAD, OPTIONS")));
}

#[test]
fn answers_403_for_a_folder_when_listing_is_off() {
    let server = Site::new()
        .every_protocol()
        .config("[[route]]\npath = \"/on/\"\nlisting = true\n[[route]]\npath = \"/on/off/\"\nlisting = false")
        .file("x", "x")
        .file("on/x", "x")
        .file("on/off/x", "x")
        .file("unlisted-name", "x")
        .start();
    let mut rows = Rows::new();
    for (path, status) in [
        ("/", 403),
        ("/?format=json", 403),
        ("/on/", 200),
        ("/on/off/", 403),
        ("/on", 301),
        ("/missing/", 404),
    ] {
        rows.check(path, server.get(path).status, status);
    }
    rows.holds("/", "no name is listed", !server.get("/").text().contains("unlisted-name"));
}

#[test]
fn an_empty_folder_says_so() {
    let home = Folder::new();
    let mut serve = command();
    serve.arg(home.path()).args(["--listen", "127.0.0.1:0"]);
    let server = Server::start(serve, 1, None);
    assert!(server.get("/").text().contains("Empty"));
    assert_eq!(listed(&server, "/"), Vec::<String>::new());
}

/// Makes a list of its arguments, the names in the folder, and its environment.
const LISTER: &str =
    "#!/bin/sh\necho \"<p>$# from $1 for $2\"\nfor f in \"$1\"*; do echo \"<li>${f##*/}\"; done\nenv\n";

fn listed_by(program: &str) -> Site {
    Site::new()
        .script_beside_root("maker", program)
        .file("docs/a.txt", "a")
        .file("docs/b c.txt", "b")
        .file("with index/index.html", "index")
        .file("own/x.txt", "x")
        .file("off/x.txt", "x")
        .file("secret/x.txt", "x")
        .config(
            "listing_program = \"maker\"\n[[route]]\npath = \"/own/\"\nlisting = true\n[[route]]\npath = \"/off/\"\n\
             listing = false\n[[route]]\npath = \"/secret/\"\n[[route.rule]]\nthen = \"deny\"",
        )
}

#[test]
fn a_program_makes_listings() {
    let server = listed_by(LISTER).start();
    let mut rows = Rows::new();
    let root = server.root().display().to_string();
    let docs = server.get("/docs/");
    rows.check("/docs/", docs.status, 200);
    rows.check("/docs/", docs.field("content-type"), Some("text/html; charset=utf-8"));
    for part in [&*format!("<p>2 from {root}/docs/ for /docs/\n"), "<li>a.txt\n<li>b c.txt\n", "PATH="] {
        rows.holds(part, &docs.text(), docs.text().contains(part));
    }
    let top = server
        .request("GET /?sort=size HTTP/1.1\r\nHost: a\r\nX-Field: x\r\nProxy: http://evil.example\r\n\r\n");
    rows.holds("the root", &top.text(), top.text().contains(&format!("<p>2 from {root}/ for /\n")));
    // The program gets nothing of the request besides its path.
    rows.holds(
        "the root",
        &top.text(),
        !top.text().contains("HTTP_") && !top.text().contains("QUERY_STRING"),
    );
    let head = server.request("HEAD /docs/ HTTP/1.1\r\nHost: a\r\n\r\n");
    rows.check("head", (head.status, head.body.len()), (200, 0));
    for (path, status, content) in [
        ("/docs", 301, ""),
        ("/docs/a.txt", 200, "a"),
        ("/with%20index/", 200, "index"),
        ("/off/", 403, ""),
        ("/secret/", 403, ""),
        ("/none/", 404, ""),
        ("/docs/..", 200, ""),
    ] {
        let response = server.get(path);
        rows.check(path, response.status, status);
        if !content.is_empty() {
            rows.check(path, response.text().as_str(), content);
        }
    }
    let own = server.get("/own/").text();
    rows.holds("/own/", &own, own.contains("<!DOCTYPE html>") && own.contains("x.txt"));
    let post = server.request("POST /docs/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    rows.check("post", post.status, 405);
}

#[test]
fn a_program_without_a_listing_is_an_error() {
    let mut rows = Rows::new();
    for (program, status) in
        [("#!/bin/sh\nexit 1\n", 502), ("#!/bin/sh\n", 502), ("#!/no/such/interpreter\n", 502)]
    {
        let server = listed_by(program).start();
        rows.check(program, server.get("/docs/").status, status);
    }
}

#[test]
fn check_and_explain_know_the_program() {
    let site = listed_by(LISTER);
    let config = site.write_config();
    let explained =
        e2e::run(["explain".as_ref(), "-c".as_ref(), config.as_os_str(), "GET".as_ref(), "/docs/".as_ref()]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("listing   made by ") && explained.contains("/maker"), "{explained}");
    fs::remove_file(site.home().join("maker")).expect("it is ours");
    let checked = e2e::run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let text = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(
        !checked.status.success() && text.contains("/maker") && text.contains("cannot be executed"),
        "{text}"
    );
}
