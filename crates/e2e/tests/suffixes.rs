//! Paths without the extension of their file.

use std::fs;

use e2e::{Rows, Server, Site, TIMEOUT, command, gzip, path_of, wait_until};

const USERS: &str = "ann:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n";

/// Tells who responds, and to what.
const SCRIPT: &str = "printf 'Content-Type: text/plain\\n\\n'; printf '%s %s %s %s %s' \\\n\
                      \"$REQUEST_METHOD\" \"$SCRIPT_NAME\" \"${SCRIPT_FILENAME##*/www}\" \"$PATH_INFO\" \"$REQUEST_URI\"\n";

fn site() -> Site {
    Site::new()
        .file("index.html", "home")
        .file("about.html", "about")
        .file("plain", "plain")
        .file("plain.html", "never")
        .file("both.html", "both")
        .file("both/index.html", "folder")
        .file("folder/index.html", "folder alone")
        .file("second.htm", "second")
        .file("packed.html.gz", gzip("packed"))
        .file("odd.html/index.html", "a folder with an extension")
        .file("secret.html", "secret")
        .file("known.html", "for users")
        .file("gone.html", "gone")
        .file("moved.html", "moved")
        .file("script.php", SCRIPT)
        .file("php/page", "page")
        .file("php/page.php", SCRIPT)
        .file("php/sub/index.html", "folder")
        .file("php/sub.php", SCRIPT)
        .file("php/secret.php", SCRIPT)
        .file("php/users.php", SCRIPT)
        .file("alias/a.html", "aliased")
        .file("de/a b.html", "space")
        .file(".hidden.html", "hidden")
        .file("off/about.html", "off")
        .file("spa/index.html", "page of the fallback")
        .file("spa/real.html", "real")
        .file_beside_root("users", USERS)
}

const CONFIG: &str = r#"
try_suffixes = [".html", ".htm"]
cache_control = { "/about" = "max-age=7" }
[[rule]]
path = "/secret.html"
then = "deny"
[[route]]
path = "/known.html"
auth = "basic"
user_files = "users"
[[route]]
path = "/gone.html"
return = 410
[[route]]
path = "/moved.html"
redirect = "/moved"
[[route]]
path = "*.php"
interpreter = "/bin/sh"
[[route]]
path = "/php/users.php"
interpreter = "/bin/sh"
auth = "basic"
user_files = "users"
[[route]]
path = "/php/"
try_suffixes = [".php"]
root = "www"
[[route.rule]]
path = "/php/secret.php"
then = "deny"
[[route]]
path = "/other/"
alias = "www/alias"
[[route]]
path = "/old"
rewrite = "/about"
[[route]]
path = "/off/"
try_suffixes = []
[[route]]
path = "/spa/"
fallback = "/spa/index.html"
"#;

/// Status, the place of a redirect, and the text of a 200.
fn facts(server: &Server, request: &str) -> String {
    let response = server.request(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let text = if response.status == 200 { response.text() } else { String::new() };
    format!("{} {}{text}", response.status, response.field("location").unwrap_or_default())
}

#[test]
fn a_file_responds_to_its_path_without_the_extension() {
    let server = site().config(CONFIG).every_protocol().start();
    let mut rows = Rows::new();
    for (request, expected) in [
        ("GET /about", "200 about"),
        ("GET /about?x=.html", "200 about"),
        ("GET /about.html", "200 about"),
        ("GET /about/", "404 "),
        ("GET /plain", "200 plain"),
        ("GET /both", "200 both"),
        ("GET /both/", "200 folder"),
        ("GET /folder", "301 /folder/"),
        ("GET /second", "200 second"),
        ("GET /packed", "200 packed"),
        ("GET /odd", "404 "),
        ("GET /none", "404 "),
        ("GET /", "200 home"),
        ("GET /index", "200 home"),
        ("GET /de/a%20b", "200 space"),
        ("GET /.hidden", "404 "),
        ("GET /other/a", "200 aliased"),
        ("GET /old", "200 about"),
        // What a client may not have by one name, it does not get by the other.
        ("GET /secret", "403 "),
        ("GET /known", "401 "),
        ("GET /gone", "404 "),
        ("GET /script", "404 "),
        ("GET /php/none", "404 "),
        ("GET /php/page", "200 page"),
        ("GET /php/sub", "200 GET /php/sub.php /php/sub.php  /php/sub"),
        ("GET /php/sub?x=1", "200 GET /php/sub.php /php/sub.php  /php/sub?x=1"),
        ("POST /php/sub", "200 POST /php/sub.php /php/sub.php  /php/sub"),
        ("GET /php/sub/", "200 folder"),
        ("GET /php/sub.php/x", "200 GET /php/sub.php /php/sub.php /x /php/sub.php/x"),
        ("GET /php/sub/x", "404 "),
        ("GET /php/secret", "403 "),
        ("GET /php/users", "401 "),
        ("GET /php/secret.php", "403 "),
        ("GET /moved.html", "302 /moved"),
        ("GET /moved", "200 moved"),
        ("GET /off/about", "404 "),
        ("POST /about", "405 "),
        // The fallback comes last.
        ("GET /spa/real", "200 real"),
        ("GET /spa/none", "200 page of the fallback"),
    ] {
        // The second response comes from the cache.
        for _ in 0..2 {
            rows.check(request, facts(&server, request).as_str(), expected);
        }
    }
    let known = "GET /known HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW5uOm15UGFzc3dvcmQ=\r\n\r\n";
    rows.check("with a password", server.request(known).text().as_str(), "for users");
    let response = server.get("/about");
    rows.check("type", response.field("content-type"), Some("text/html; charset=utf-8"));
    rows.check("fields of the path", response.field("cache-control"), Some("max-age=7"));
    let tag = response.field("etag").expect("a file has one").to_owned();
    let again = format!("GET /about HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n\r\n");
    rows.check("validated", server.request(again).status, 304);
}

#[test]
fn a_folder_precedes_a_file_where_the_configuration_says_so() {
    let server = site().config("try_suffixes = [\"/\", \".html\"]").start();
    let mut rows = Rows::new();
    for (request, expected) in
        [("GET /both", "301 /both/"), ("GET /about", "200 about"), ("GET /folder", "301 /folder/")]
    {
        rows.check(request, facts(&server, request).as_str(), expected);
    }
}

#[test]
fn changes_of_the_files_are_noticed() {
    let server = site().config("try_suffixes = [\".html\"]").start();
    let is = |request: &str, expected: &str| {
        let found = || facts(&server, request) == expected;
        assert!(wait_until(TIMEOUT, found), "{request}: {}", facts(&server, request));
    };
    is("GET /late", "404 ");
    is("GET /folder", "301 /folder/");
    is("GET /about", "200 about");
    for (name, content) in [("late.html", "late"), ("folder.html", "file"), ("about", "exact")] {
        fs::write(server.root().join(name), content).expect("it is our folder");
    }
    is("GET /late", "200 late");
    is("GET /folder", "200 file");
    is("GET /about", "200 exact");
    for name in ["late.html", "folder.html", "about"] {
        fs::remove_file(server.root().join(name)).expect("it is our folder");
    }
    is("GET /late", "404 ");
    is("GET /folder", "301 /folder/");
    is("GET /about", "200 about");
}

#[test]
fn explain_shows_the_file() {
    let site = site().config(CONFIG);
    let config = site.write_config();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/about", "about.html: 5 bytes"),
        ("/secret", "403 Forbidden"),
        ("/known", "401 Unauthorized"),
        ("/gone", "404 Not Found"),
        ("/php/sub", "/php/sub.php"),
        ("/php/sub", "SCRIPT_NAME /php/sub.php"),
        ("/php/secret", "403 Forbidden"),
    ] {
        let output =
            command().args(["explain", "GET", path]).arg("-c").arg(&config).output().expect("it starts");
        let text = String::from_utf8(output.stdout).expect("it is UTF-8");
        let found = text.lines().find(|line| line.contains(expected));
        rows.check(path, found.map_or(text.as_str(), |_| expected), expected);
    }
}

/// By CGI, and by FastCGI.
#[test]
fn php_runs_a_script_by_its_path_without_the_extension() {
    let mut rows = Rows::new();
    let cgi = path_of("php-cgi");
    let env = "env = { PHP_INI_SCAN_DIR = \"\" }\n";
    let application = format!("[[application]]\nname = \"php\"\ncommand = \"{cgi}\"\n{env}");
    for (interpreter, of_route, application) in [(&*cgi, env, ""), ("php", "", &*application)] {
        let server = Site::new()
            .config(&format!(
                "try_suffixes = [\".php\"]\n[[route]]\npath = \"*.php\"\ninterpreter = \"{interpreter}\"\n\
                 {of_route}{application}"
            ))
            .file(
                "shop/item.php",
                "<?php echo $_SERVER['SCRIPT_NAME'], ' ', substr($_SERVER['SCRIPT_FILENAME'], \
                 strlen($_SERVER['DOCUMENT_ROOT'])), ' ', $_SERVER['PHP_SELF'], ' ', $_GET['id'] ?? '', \
                 $_POST['id'] ?? '';",
            )
            .start();
        let script = "/shop/item.php /shop/item.php /shop/item.php";
        rows.check(interpreter, facts(&server, "GET /shop/item?id=7").as_str(), &format!("200 {script} 7"));
        let post = "POST /shop/item HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                    Content-Length: 4\r\n\r\nid=8";
        rows.check(interpreter, server.request(post).text().as_str(), &format!("{script} 8"));
    }
}
