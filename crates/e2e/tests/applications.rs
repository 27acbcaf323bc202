//! Real applications as an administrator would set them up. By CGI: PHP, git's own server, a Python WSGI
//! application, and gitweb, which is Perl with CGI.pm. By FastCGI: PHP, as an external php-fpm and as a
//! process of the server. By HTTP: gunicorn, node, and Python's standard library.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use e2e::{
    BackgroundProcess, Client, Response, Rows, Server, Site, TIMEOUT, free_port, is_root, output_of, path_of,
    tool, wait_until,
};

/// Runs a command that must not fail, and returns what it prints.
fn done(command: &mut Command) -> String {
    let output = output_of(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// How PHP is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Php {
    /// php-cgi, one process per request.
    Cgi,
    /// php-cgi, started by the server and kept, over FastCGI.
    Managed,
    /// php-fpm, started by the test.
    Fpm,
}

/// All three ways.
const PHP: [Php; 3] = [Php::Cgi, Php::Managed, Php::Fpm];

/// The server and the process that it needs.
struct Running {
    server: Server,
    _application: Option<BackgroundProcess>,
}

impl Deref for Running {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Php {
    /// `config` is added to the route.
    fn site(self, config: &str) -> Site {
        self.site_of(4, "", config)
    }

    /// With so many processes; `top` is added to the top level.
    fn site_of(self, processes: u32, top: &str, config: &str) -> Site {
        let site = Site::new();
        let (home, cgi) = (site.home().display().to_string(), path_of("php-cgi"));
        // php-cgi exits after so many requests.
        let env = "env = { PHP_INI_SCAN_DIR = \"\", PHP_FCGI_MAX_REQUESTS = \"20\" }";
        let application = match self {
            Php::Cgi => String::new(),
            Php::Managed => format!("command = \"{cgi}\"\nprocesses = {processes}\n{env}\n"),
            Php::Fpm => format!("address = \"unix:{home}/fpm.sock\"\nconnections = {processes}\n"),
        };
        let section = if self == Php::Cgi { "" } else { "[[application]]\nname = \"php\"\n" };
        let interpreter = if self == Php::Cgi { &cgi } else { "php" };
        let user = if is_root() { "user = root\ngroup = root\n" } else { "" };
        site.config(&format!(
            "max_body = \"64MiB\"\nindex = [\"index.php\"]\n{top}\n\
             [[route]]\npath = \"*.php\"\ninterpreter = \"{interpreter}\"\n{config}\n{section}{application}"
        ))
        .file_beside_root(
            "fpm.conf",
            format!(
                "[global]\nerror_log = {home}/fpm.log\n[www]\nlisten = {home}/fpm.sock\n\
                 pm = static\npm.max_children = {processes}\nphp_flag[display_errors] = off\n{user}"
            ),
        )
    }

    fn start(self, site: Site) -> Running {
        let fpm = (self == Php::Fpm).then(|| fpm(&site));
        Running { server: site.start(), _application: fpm }
    }
}

/// php-fpm, configured by a file in the test's folder.
fn fpm(site: &Site) -> BackgroundProcess {
    let mut fpm = Command::new(path_of("php-fpm"));
    fpm.args(["-n", "-F", "-y"]).arg(site.home().join("fpm.conf"));
    if is_root() {
        fpm.arg("-R");
    }
    BackgroundProcess::listening(&mut fpm, &site.home().join("fpm.sock"))
}

fn post(path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// With `cgi.fix_pathinfo=0`, PHP runs PATH_TRANSLATED in place of the script.
#[test]
fn php_runs_the_script_and_not_the_file_behind_it() {
    let mut rows = Rows::new();
    let cgi = path_of("php-cgi");
    let env = "env = { PHP_INI_SCAN_DIR = \"HOME/ini\" }\n";
    let application = format!("[[application]]\nname = \"php\"\ncommand = \"{cgi}\"\n{env}");
    for (interpreter, of_route, application) in [(&*cgi, env, ""), ("php", "", &application)] {
        let config =
            format!("[[route]]\npath = \"*.php\"\ninterpreter = \"{interpreter}\"\n{of_route}{application}");
        let site = Site::new();
        let home = site.home().display().to_string();
        let server = site
            .config(&config.replace("HOME", &home))
            .file_beside_root("ini/own.ini", "cgi.fix_pathinfo=0\n")
            .file("a.php", "<?php echo 'script ', $_SERVER['PATH_INFO'] ?? '-', ini_get('cgi.fix_pathinfo');")
            .file("uploads/a.jpg", "<?php echo 'uploaded';")
            .start();
        let response = server.get("/a.php/uploads/a.jpg");
        rows.check(interpreter, (response.status, &*response.text()), (200, "script /uploads/a.jpg0"));
    }
}

#[test]
fn php_handles_forms_paths_and_sessions() {
    PHP.into_iter().for_each(handles_forms_paths_and_sessions);
}

fn handles_forms_paths_and_sessions(php: Php) {
    eprintln!("{php:?}");
    let site = php
        .site("env = { PHP_INI_SCAN_DIR = \"\" }\n")
        .file(
            "form.php",
            "<?php header('X-Php: yes'); echo $_SERVER['REQUEST_METHOD'], ' ', $_POST['name'] ?? '-', ' ', \
             $_GET['q'] ?? '-', ' ', $_SERVER['PATH_INFO'] ?: '-', ' ', $_SERVER['SCRIPT_NAME'], ' ', \
             $_SERVER['PHP_SELF'];",
        )
        .file("count.php", "<?php session_save_path(__DIR__); session_start(); echo ++$_SESSION['n'];")
        .file("status.php", "<?php http_response_code(418); echo 'teapot';")
        .file("go.php", "<?php header('Location: /form.php?q=gone'); ")
        .file("broken.php", "<?php this is no PHP")
        .file("blog/index.php", "<?php echo 'blog ', $_SERVER['REQUEST_URI'];");
    let server = php.start(site);
    let mut rows = Rows::new();
    let form = "application/x-www-form-urlencoded";
    for (request, expected) in [
        (post("/form.php?q=1", form, b"name=a%20b%C3%A4"), "POST a bä 1 - /form.php /form.php"),
        (b"GET /form.php HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), "GET - - - /form.php /form.php"),
        (
            b"GET /form.php/a/b%20c?q=x HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            "GET - x /a/b c /form.php /form.php/a/b c",
        ),
        (b"GET /blog/?x=1 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), "blog /blog/?x=1"),
    ] {
        let response = server.request(&request);
        rows.check(&request, (response.status, response.text().as_str()), (200, expected));
    }
    rows.check("X-Php", server.get("/form.php").field("x-php"), Some("yes"));
    let response = server.get("/status.php");
    rows.check("status", (response.status, response.text().as_str()), (418, "teapot"));
    let response = server.get("/go.php");
    rows.check("go", (response.status, response.field("location")), (302, Some("/form.php?q=gone")));
    rows.check("broken", server.get("/broken.php").status, 500);

    let mut client = server.connect();
    let first = client.get("/count.php");
    let cookie = first.field("set-cookie").expect("a session has a cookie");
    let cookie = cookie.split(';').next().unwrap_or(cookie);
    for expected in ["2", "3"] {
        let next = client.get_with("/count.php", &format!("Cookie: {cookie}\r\n"));
        rows.check("a session goes on", next.text().as_str(), expected);
    }
}

#[test]
fn php_receives_8_mib_and_sends_more_than_64_mib() {
    PHP.into_iter().for_each(receives_8_mib_and_sends_more_than_64_mib);
}

fn receives_8_mib_and_sends_more_than_64_mib(php: Php) {
    eprintln!("{php:?}");
    let site = php
        .site("env = { PHP_INI_SCAN_DIR = \"\" }\n")
        .file("php.ini", "")
        .file(
            "up.php",
            "<?php $f = $_FILES['file']; echo $f['error'], ' ', $f['name'], ' ', $f['size'], ' ', md5_file($f['tmp_name']);",
        )
        .file(".user.ini", "upload_max_filesize = 16M\npost_max_size = 16M\n")
        .file("down.php", "<?php for ($i = 0; $i < 66; $i++) { echo str_repeat(chr(65 + $i % 26), 1 << 20); }")
        .file("raw.php", "<?php echo strlen(file_get_contents('php://input')), ' ', $_SERVER['CONTENT_LENGTH'];");
    let server = php.start(site);
    let content: Vec<u8> = (0..8u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    server.files().file("content", &content);
    let sum = done(tool("md5sum").arg(server.home().join("content")));
    let sum = sum.split(' ').next().unwrap_or_default();
    let mut body = b"--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\
                     Content-Type: application/octet-stream\r\n\r\n"
        .to_vec();
    body.extend(&content);
    body.extend(b"\r\n--xyz--\r\n");
    let response = server.request(post("/up.php", "multipart/form-data; boundary=xyz", &body));
    assert_eq!(response.text(), format!("0 a.bin {} {sum}", content.len()), "{response}");

    let response = server.request("GET /down.php HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(response.body.len(), 66 << 20);
    assert!((0..66).all(|at| response.body[at << 20] == b'A' + (at % 26) as u8), "in order");

    // A chunked body reaches PHP with its length, which PHP needs.
    let chunked = "POST /raw.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n";
    assert_eq!(server.request(chunked).text(), "8 8");
}

#[test]
fn sends_what_php_flushes_at_once() {
    let text = "<?php header('Content-Type: text/plain'); while (ob_get_level()) ob_end_flush(); echo 'first'; flush(); \
                while (!file_exists(__DIR__ . '/go')) { usleep(10000); clearstatcache(); } echo 'second';";
    for php in PHP {
        let server = php.start(php.site("env = { PHP_INI_SCAN_DIR = \"\" }\n").file("a.php", text));
        comes_in_pieces(&server, "/a.php", "www/go");
    }
}

/// The response has sent `first`; then the test creates a file, and `second` follows.
fn comes_in_pieces(server: &Server, path: &str, file: &str) {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n"));
    let mut seen = Vec::new();
    while !seen.ends_with(b"first") {
        let more = client.read_some().expect("the first part comes alone");
        assert!(!more.is_empty(), "it ends after {:?}", String::from_utf8_lossy(&seen));
        seen.extend(more);
    }
    server.files().file(file, "");
    assert_eq!(client.read_to_end(), b"second");
}

#[test]
fn never_sends_php_source_or_passes_query_options_to_php() {
    let mut rows = Rows::new();
    let of_each = PHP.map(|php| {
        let site = php.site("").file("a.php", "<?php echo 'run';").file("up/a.jpg", "<?php echo 'injected';");
        (php, php.start(site))
    });
    for (target, expected) in [
        ("/a.php", "200 run"),
        ("/a.php?-s", "200 run"),
        ("/a.php?-d+allow_url_include%3d1", "200 run"),
        ("/a.php?%2Ds", "200 run"),
        ("/a.php?%ADd+x", "200 run"),
        ("/a.php/", "200 run"),
        ("/up/a.jpg/x.php", "404"),
        ("/a.ph%70", "200 run"),
        ("/a.PHP", "404"),
    ] {
        for (php, server) in &of_each {
            let response = server.get(target);
            let printed = if response.status == 200 {
                format!("200 {}", response.text())
            } else {
                response.status.to_string()
            };
            rows.check(format!("{php:?} {target}"), printed.as_str(), expected);
        }
    }
}

#[test]
fn php_cgi_exits_after_its_maximum_of_requests_without_failing_one() {
    let site = Php::Managed.site_of(2, "", "").file("a.php", "<?php echo getmypid();");
    let server = Php::Managed.start(site);
    let mut client = server.connect();
    let mut count = BTreeMap::new();
    for _ in 0..200 {
        let response = client.get("/a.php");
        assert_eq!(response.status, 200, "after {count:?}: {response}\n{}", server.stderr());
        *count.entry(response.text()).or_insert(0) += 1;
    }
    assert!(count.len() >= 10 && count.values().all(|requests| *requests <= 20), "{count:?}");
}

#[test]
fn logs_php_errors_with_the_request() {
    for php in PHP {
        let text = "<?php ini_set('log_errors', '1'); ini_set('error_log', ''); error_log('words of mine'); echo 'done';";
        let server = php.start(php.site("").file("a.php", text));
        assert_eq!(server.get("/a.php?q").text(), "done", "{php:?}");
        let line = server.wait_for_line("words of mine", TIMEOUT);
        assert!(line.contains("127.0.0.1") && line.contains("/a.php"), "{php:?}: {line}");
    }
}

#[test]
fn a_php_fpm_of_one_process_serves_all_workers() {
    let site = Php::Fpm.site_of(1, "workers = 4", "").file("a.php", "<?php echo getmypid();");
    let server = Php::Fpm.start(site);
    // Each request may reach another worker, and no worker may keep the only connection to itself.
    let mut clients: Vec<Client> = (0..16).map(|_| server.connect()).collect();
    for turn in 0..5 {
        for client in &mut clients {
            let response = client.get("/a.php");
            assert_eq!(response.status, 200, "{turn}: {response}\n{}", server.stderr());
        }
    }
}

/// A server of a bare repository with some thousand objects.
fn git_server() -> Server {
    let core = done(tool("git").arg("--exec-path"));
    let backend = Path::new(core.trim()).join("git-http-backend");
    let site = Site::new();
    let bare = site.home().join("git/project.git");
    let seed = site.home().join("seed");
    fs::create_dir_all(&bare).expect("it is our folder");
    fs::create_dir_all(&seed).expect("it is our folder");
    done(git(site.home()).args(["init", "-q", "--bare", "-b", "main"]).arg(&bare));
    done(git(&bare).args(["config", "http.receivepack", "true"]));
    done(git(site.home()).args(["init", "-q", "-b", "main"]).arg(&seed));
    for commit in 0..20 {
        for file in 0..100 {
            let folder = seed.join(format!("d{}", file % 10));
            fs::create_dir_all(&folder).expect("it is our folder");
            fs::write(folder.join(format!("f{file}")), format!("{commit} {file}\n"))
                .expect("it is our folder");
        }
        done(git(&seed).args(["add", "-A"]));
        done(git(&seed).args(["commit", "-q", "-m", &format!("commit {commit}")]));
    }
    done(git(&seed).args(["push", "-q"]).arg(&bare).arg("main"));
    let root = site.home().join("git");
    // The backend is the only file of the route; the rest of the path names the repository.
    let folder = site.home().join("backend");
    fs::create_dir(&folder).expect("it is our folder");
    symlink(&backend, folder.join("git-http-backend")).expect("it is our folder");
    let config = format!(
        "rewrites = {{ \"/git/\" = \"/backend/git-http-backend/$rest\" }}\nmax_body = \"64MiB\"\n\
         [[route]]\npath = \"/backend/\"\nalias = \"{}\"\nsymlinks = \"follow\"\ncgi = true\n\
         env = {{ GIT_PROJECT_ROOT = \"{}\", GIT_HTTP_EXPORT_ALL = \"1\" }}\n[scripts]\nspool = \".\"\n\
         [log]\naccess = \"stdout\"\n",
        folder.display(),
        root.display(),
    );
    site.config(&config).start()
}

fn git(folder: &Path) -> Command {
    let mut git = tool("git");
    git.current_dir(folder)
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0");
    for (name, value) in [("AUTHOR", "Ann"), ("COMMITTER", "Ann")] {
        git.env(format!("GIT_{name}_NAME"), value).env(format!("GIT_{name}_EMAIL"), "ann@example.org");
    }
    // The folder may belong to another user than the one who runs the test.
    git.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
    git
}

#[test]
fn git_clones_fetches_and_pushes_over_cgi() {
    let server = git_server();
    let url = server.url("/git/project.git");
    let home = server.home().to_owned();
    let count =
        |folder: &str| done(git(&home.join(folder)).args(["rev-list", "--count", "HEAD"])).trim().to_owned();

    done(git(&home).args(["clone", "-q", &url, "full"]));
    assert_eq!(count("full"), "20");
    // The other programs of git, which lie beside the backend, are no scripts.
    assert_eq!(server.connect().get("/backend/git").status, 404);
    done(git(&home.join("full")).args(["fsck", "--full"]));
    let objects = done(git(&home.join("full")).args(["rev-list", "--objects", "--all", "--count"]));
    assert!(objects.trim().parse::<u32>().is_ok_and(|count| count > 2000), "{objects}");

    done(git(&home).args(["clone", "-q", "--depth", "2", &url, "shallow"]));
    assert_eq!(count("shallow"), "2");
    done(git(&home.join("shallow")).args(["fetch", "-q", "--unshallow"]));
    assert_eq!(count("shallow"), "20");

    // The first body has a length; the second is larger than git's buffer (1 MiB), and so chunked.
    for (name, bytes, chunked) in [("small", 100, false), ("large", 3 << 20, true)] {
        let mut random = e2e::Random::new(7);
        fs::write(home.join("full").join(name), random.bytes(bytes)).expect("it is our folder");
        done(git(&home.join("full")).args(["add", name]));
        done(git(&home.join("full")).args(["commit", "-q", "-m", name]));
        let mut push = git(&home.join("full"));
        push.args(["push", "origin", "main"]).env("GIT_CURL_VERBOSE", "1");
        let output = output_of(&mut push);
        let stderr = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(output.status.success(), "{stderr}\n{}", server.stderr());
        assert_eq!(stderr.contains("send header: transfer-encoding: chunked"), chunked, "{name}: {stderr}");
    }
    assert_eq!(done(git(&home.join("git/project.git")).args(["rev-list", "--count", "main"])).trim(), "22");
    done(git(&home.join("git/project.git")).args(["fsck", "--full"]));

    done(git(&home.join("shallow")).args(["fetch", "-q", "origin"]));
    let both =
        ["full", "shallow"].map(|folder| done(git(&home.join(folder)).args(["rev-parse", "origin/main"])));
    assert_eq!(both[0], both[1]);
}

#[test]
fn accepts_a_compressed_request_of_git() {
    // git compresses long requests: a clone that has many commits fetches one more.
    let server = git_server();
    let home = server.home().to_owned();
    let url = server.url("/git/project.git");
    done(git(&home).args(["clone", "-q", &url, "a"]));
    for number in 0..200 {
        // Newer than what the server has: git names the newest commits first, until the server knows one.
        let date = format!("{} +0000", 2_000_000_000 + number);
        done(
            git(&home.join("a"))
                .args(["commit", "-q", "--allow-empty", "-m", &number.to_string()])
                .env("GIT_COMMITTER_DATE", date),
        );
    }
    let seed = home.join("seed");
    fs::write(seed.join("new"), "new").expect("it is our folder");
    done(git(&seed).args(["add", "new"]));
    done(git(&seed).args(["commit", "-q", "-m", "new"]));
    done(git(&seed).args(["push", "-q"]).arg(home.join("git/project.git")).arg("main"));
    let output = output_of(
        git(&home.join("a"))
            .args(["-c", "protocol.version=0", "fetch", "origin"])
            .env("GIT_CURL_VERBOSE", "1"),
    );
    let stderr = String::from_utf8_lossy(&output.stderr).to_lowercase();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("send header: content-encoding: gzip"),
        "the request is not compressed: {stderr}"
    );
    let new = done(git(&seed).args(["rev-parse", "main"]));
    assert_eq!(done(git(&home.join("a")).args(["rev-parse", "origin/main"])), new);
}

/// A WSGI application in Python, for every way to run it.
const WSGI: &str = r#"
import os, time

def application(environ, start):
    body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
    path = environ.get('SCRIPT_NAME', '') + environ.get('PATH_INFO', '')
    if path.endswith('/missing'):
        start('404 Not Found', [('Content-Type', 'text/plain')])
        return [b'no such page']
    if path.endswith('/raise'):
        raise ValueError('the reason')
    start('200 OK', [('Content-Type', 'text/plain'), ('X-Script', environ['SCRIPT_NAME'])])
    if path.endswith('/echo'):
        return [body]
    def pieces():
        yield b'first'
        while not os.path.exists('go'):
            time.sleep(0.01)
        yield b'second'
    def parts():
        yield ('%s %s %s\n' % (environ['REQUEST_METHOD'], path, environ['QUERY_STRING'])).encode('latin-1')
        yield environ['wsgi.url_scheme'].encode() + b' '
        yield body
    return pieces() if path.endswith('/pieces') else parts()
"#;

/// The lines that run it by CGI, and those that run it by the FastCGI wrapper.
const BY_CGI: &str = "from wsgiref.handlers import CGIHandler\nCGIHandler().run(application)\n";
const BY_FASTCGI: &str = "from wsgiref.handlers import CGIHandler\nimport taipan\nwhile taipan.accept():\n    CGIHandler().run(application)\n";
const WRAPPER: &str = include_str!("../../../contrib/python/taipan.py");

#[test]
fn a_python_application_responds_through_its_standard_handler() {
    let server = Site::new()
        .script("app.py", format!("#!/usr/bin/python3\n{WSGI}\n{BY_CGI}"))
        .config("rewrites = { \"/app/\" = \"/app.py/$rest\" }\n[[route]]\npath = \"*.py\"\ncgi = true\n")
        .start();
    let response = server.request(post("/app.py/some/path?q=1", "text/plain", b"the body"));
    assert_eq!((response.status, response.field("x-script")), (200, Some("/app.py")), "{response}");
    assert_eq!(response.text(), "POST /app.py/some/path q=1\nhttp the body");
    let response = server.get("/app/missing");
    assert_eq!((response.status, response.text().as_str()), (404, "no such page"));
    let response = server.get("/app/raise");
    assert_eq!(response.status, 500, "{response}");
    server.wait_for_line("ValueError: the reason", e2e::TIMEOUT);
}

/// Everything below `/app/` goes to an application, whose section has these lines.
fn with_application(site: Site, settings: &str) -> Site {
    let route = "[[route]]\npath = \"/app/\"\napplication = \"app\"\n";
    // The trace of an exception has more than ten lines.
    let scripts = "[scripts]\nstderr_lines = 100\n";
    site.config(&format!(
        "max_body = \"64MiB\"\n{scripts}{route}[[application]]\nname = \"app\"\n{settings}\n"
    ))
}

#[test]
fn a_persistent_python_application_runs_by_wrapper_and_by_gunicorn() {
    let (python, gunicorn) = (path_of("python3"), path_of("gunicorn"));
    let body: Vec<u8> = e2e::Random::new(11).bytes(5 << 20);
    // Name of the way; section of the application; expected SCRIPT_NAME.
    for (way, settings, script) in [
        ("by FastCGI", format!("command = [\"{python}\", \"-B\", \"HOME/by_fastcgi.py\"]"), "/app"),
        (
            "gunicorn, as systemd hands it over",
            format!(
                "protocol = \"http\"\nsocket = \"listen_fds\"\ncommand = [\"{gunicorn}\", \"--threads=2\", \"app:application\"]"
            ),
            "",
        ),
        (
            "gunicorn, on descriptor 0",
            format!(
                "protocol = \"http\"\ncommand = [\"{gunicorn}\", \"--bind=fd://0\", \"app:application\"]"
            ),
            "",
        ),
        ("gunicorn, elsewhere", "protocol = \"http\"\naddress = \"unix:HOME/socket\"".to_owned(), ""),
    ] {
        eprintln!("{way}");
        let site = Site::new().file_beside_root("app.py", WSGI).file_beside_root("taipan.py", WRAPPER);
        let home = site.home().to_owned();
        let is_external = settings.contains("address");
        let folder = if is_external { "" } else { "\nprocesses = 2\nfolder = \"HOME\"\nstart = \"30s\"" };
        let settings = format!("{settings}{folder}").replace("HOME", &home.display().to_string());
        let site = with_application(
            site.file_beside_root("by_fastcgi.py", format!("{WSGI}\n{BY_FASTCGI}")),
            &settings,
        );
        let gunicorn = is_external.then(|| {
            let mut command = Command::new(&gunicorn);
            command.args(["--threads=4", "--bind=unix:socket", "app:application"]).current_dir(&home);
            BackgroundProcess::listening(&mut command, &home.join("socket"))
        });
        let server = Running { server: site.start(), _application: gunicorn };
        let mut rows = Rows::new();

        let response = server.request(post("/app/some/path?q=1", "text/plain", b"the body"));
        rows.check(way, (response.status, response.field("x-script")), (200, Some(script)));
        rows.check(way, response.text().as_str(), "POST /app/some/path q=1\nhttp the body");
        let response = server.get("/app/missing");
        rows.check(way, (response.status, response.text().as_str()), (404, "no such page"));
        rows.check(way, server.get("/app/raise").status, 500);
        let printed = |lines: &[String]| lines.iter().any(|line| line.contains("the reason")).then_some(());
        let errors = server._application.as_ref().map_or(server.errors(), BackgroundProcess::errors);
        rows.holds(way, "the error is logged", errors.wait_for(TIMEOUT, printed).is_some());
        let response = server.request(post("/app/echo", "text/plain", &body));
        rows.holds(way, "5 MiB come back", response.status == 200 && response.body == body);
        let chunked = "POST /app/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n";
        rows.check(way, server.request(chunked).text().as_str(), "helloyou");
        comes_in_pieces(&server, "/app/pieces", "go");
    }
}

const HTTP_APP: &str = include_str!("programs/http_app.py");
const NODE_APP: &str = include_str!("programs/node_app.js");

#[test]
fn passes_client_requests_to_an_http_application() {
    let (python, node) = (path_of("python3"), path_of("node"));
    for (way, program, arguments, settings) in [
        ("Python, elsewhere", &python, "http_app.py", "address = \"unix:HOME/socket\""),
        ("Python, on descriptor 0", &python, "http_app.py", "command = [\"PROGRAM\", \"HOME/http_app.py\"]"),
        ("node, elsewhere", &node, "node_app.js", "address = \"unix:HOME/socket\""),
        (
            "node, as systemd hands it over",
            &node,
            "node_app.js",
            "socket = \"listen_fds\"\ncommand = [\"PROGRAM\", \"HOME/node_app.js\"]",
        ),
    ] {
        eprintln!("{way}");
        let site =
            Site::new().file_beside_root("http_app.py", HTTP_APP).file_beside_root("node_app.js", NODE_APP);
        let home = site.home().to_owned();
        let is_external = settings.contains("address");
        let folder = if is_external {
            ""
        } else {
            "\nconcurrent = 8\nprocesses = 1\nfolder = \"HOME\"\nstart = \"30s\""
        };
        let settings = format!("protocol = \"http\"\n{settings}{folder}");
        let settings = settings.replace("HOME", &home.display().to_string()).replace("PROGRAM", program);
        let site = with_application(site, &settings);
        let process = is_external.then(|| {
            let mut command = Command::new(program);
            BackgroundProcess::listening(
                command.arg(arguments).arg("socket").current_dir(&home),
                &home.join("socket"),
            )
        });
        let server = Running { server: site.start(), _application: process };
        let mut rows = Rows::new();
        let row = |what: &str| format!("{way}: {what}");

        let mut client = server.connect();
        let response = client.request(
            "POST /app/a%20b/asked?q=%20&r HTTP/1.1\r\nHost: www.example:81\r\nContent-Length: 4\r\nX-A: b\r\nX-A: c\r\n\
             Connection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nTE: trailers\r\nX-Forwarded-For: 192.0.2.1\r\n\
             X-Forwarded-Proto: https\r\nCookie: d=e\r\nX_Under: 1\r\nX-Forwarded-Host: evil\r\n\r\nbody",
        );
        let received: serde_json::Value = serde_json::from_slice(&response.body).unwrap_or_default();
        rows.check(row("line"), received["line"].as_str(), Some("POST /app/a%20b/asked?q=%20&r HTTP/1.1"));
        rows.check(row("body"), received["body"].as_str(), Some("body"));
        let fields: Vec<(String, String)> =
            serde_json::from_value(received["fields"].clone()).expect("names and values");
        for (name, expected) in [
            ("host", &["www.example:81"][..]),
            ("content-length", &["4"]),
            ("transfer-encoding", &[]),
            ("x-a", &["b", "c"]),
            ("cookie", &["d=e"]),
            ("x-hop", &[]),
            ("keep-alive", &[]),
            ("te", &["trailers"]),
            ("x-forwarded-for", &["127.0.0.1"]),
            ("x-real-ip", &["127.0.0.1"]),
            ("x-forwarded-proto", &["http"]),
            ("x-forwarded-host", &["www.example:81"]),
            ("x_under", &[]),
        ] {
            let own = fields.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
            let found: Vec<&str> = own.map(|(_, value)| value.as_str()).collect();
            rows.check(row(name), found.as_slice(), expected);
        }
        for (path, status, text) in [
            ("/app/chunked", 200, "one two three"),
            ("/app/until-close", 200, "until the end"),
            ("/app/nothing", 204, ""),
            ("/app/none", 404, "no such page"),
            ("/app/chunked", 200, "one two three"),
        ] {
            let response = client.get(path);
            rows.check(row(path), (response.status, response.text().as_str()), (status, text));
        }
        client.send("GET /app/hints HTTP/1.1\r\nHost: a\r\n\r\n");
        rows.check(row("early hints"), client.read_response().status, 103);
        rows.check(row("behind the hints"), client.read_response().text().as_str(), "after the hints");
        let head = client.request("HEAD /app/none HTTP/1.1\r\nHost: a\r\n\r\n");
        rows.check(
            row("HEAD"),
            (head.status, head.field("content-length"), head.body.len()),
            (404, Some("12"), 0),
        );
        let body: Vec<u8> = e2e::Random::new(12).bytes(5 << 20);
        let response = client.request(post("/app/echo", "text/plain", &body));
        rows.holds(row("echo"), "5 MiB come back", response.status == 200 && response.body == body);
        client.send("POST /app/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in body[..1 << 20].chunks(10_000) {
            client.send(format!("{:x}\r\n", piece.len())).send(piece).send("\r\n");
        }
        let response = client.send("0\r\n\r\n").read_response();
        rows.holds(row("chunked echo"), "1 MiB comes back", response.body == body[..1 << 20]);
        let response = server.request("GET /app/big?66 HTTP/1.0\r\nHost: a\r\n\r\n");
        let in_order = (0..66).all(|at| response.body.get(at << 20) == Some(&(b'A' + (at % 26) as u8)));
        rows.holds(row("big"), "66 MiB in order", response.body.len() == 66 << 20 && in_order);
        comes_in_pieces(&server, "/app/pieces", "go");
    }
}

#[test]
fn gitweb_shows_a_repository() {
    let site = Site::new();
    let bare = site.home().join("git/project.git");
    fs::create_dir_all(&bare).expect("it is our folder");
    done(git(site.home()).args(["init", "-q", "--bare", "-b", "main"]).arg(&bare));
    let seed = site.home().join("seed");
    fs::create_dir_all(&seed).expect("it is our folder");
    done(git(&seed).args(["init", "-q", "-b", "main"]));
    fs::write(seed.join("read me <&>.txt"), "a line <b> & more\n").expect("it is our folder");
    done(git(&seed).args(["add", "-A"]));
    done(git(&seed).args(["commit", "-q", "-m", "the first one"]));
    done(git(&seed).args(["push", "-q"]).arg(&bare).arg("main"));
    let site = site.file_beside_root(
        "gitweb.conf",
        format!("our $projectroot = '{}/git';\n", bare.parent().unwrap().parent().unwrap().display()),
    );
    let config = site.home().join("gitweb.conf");
    let server = site
        .config(&format!(
            "[[route]]\npath = \"/web/\"\nalias = \"/usr/share/gitweb\"\ncgi = true\nindex = [\"gitweb.cgi\"]\n\
             symlinks = \"follow\"\nenv = {{ GITWEB_CONFIG = \"{}\", HOME = \"/nonexistent\", GIT_CONFIG_COUNT = \"1\", \
             GIT_CONFIG_KEY_0 = \"safe.directory\", GIT_CONFIG_VALUE_0 = \"*\" }}\n\
             [[route]]\npath = \"/web/static/\"\nalias = \"/usr/share/gitweb/static\"\n",
            config.display()
        ))
        .start();
    let mut client = server.connect();
    let mut rows = Rows::new();
    for (target, parts) in [
        ("/web/", &["project.git", "<title>"][..]),
        ("/web/?p=project.git;a=summary", &["the first one", "shortlog"]),
        ("/web/?p=project.git;a=tree", &["read me"]),
        ("/web/?p=project.git;a=blob_plain;f=read+me+%3C%26%3E.txt;hb=HEAD", &["a line <b> & more"]),
        ("/web/gitweb.cgi/project.git/commit/HEAD", &["the first one"]),
        ("/web/static/gitweb.css", &["body"]),
    ] {
        let response = client.get(target);
        rows.check(target, response.status, 200);
        for part in parts {
            rows.holds(target, part, response.text().contains(part));
        }
    }
    rows.check("none", client.get("/web/?p=none.git").status, 404);
    rows.check(
        "css",
        client.get("/web/static/gitweb.css").field("content-type"),
        Some("text/css; charset=utf-8"),
    );
}

/// As Apache's `ScriptAlias /app/ /path/of/program/`.
#[test]
fn one_cgi_program_handles_all_paths_of_a_prefix() {
    let site = Site::new();
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s|%s|%s|' \
                  \"$SCRIPT_NAME\" \"$PATH_INFO\" \"$QUERY_STRING\"\ncat\n";
    let command = format!(
        "command = [\"{}\", \"fcgi-wrap\", \"{}/all.sh\"]\nconcurrent = 16",
        e2e::program().display(),
        site.home().display(),
    );
    let server = with_application(site.script_beside_root("all.sh", script), &command).start();
    assert_eq!(server.get("/app/a/b%20c?d=e").text(), "/app|/a/b c|d=e|");
    assert_eq!(server.get("/app/").text(), "/app|/||");
    let post = "POST /app/x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    assert_eq!(server.request(post).text(), "/app|/x||body");
}

/// The parts of a page between two lines.
fn between<'p>(page: &'p str, before: &str, after: &str) -> impl Iterator<Item = &'p str> {
    let (before, after) = (before.to_owned(), after.to_owned());
    let pieces: Vec<&str> = page.split(before.as_str()).skip(1).collect();
    pieces.into_iter().map(move |piece| piece.split(after.as_str()).next().unwrap_or(piece))
}

#[test]
fn the_examples_of_the_manual_work() {
    let page = include_str!("../../../docs/manual/scripts.md");
    let site = Site::new();
    let home = site.home().display().to_string();
    let config = between(page, "```toml\n", "```").next().expect("it begins with a configuration");
    // The test sets its own folder and port.
    let config = config.replace("/srv", &home).replace("127.0.0.1:8080", "127.0.0.1:0");
    let config = config.replace("/usr/bin/php-cgi", &path_of("php-cgi"));
    fs::create_dir_all(site.home().join("cgi-bin")).expect("it is our folder");
    let examples: Vec<&str> = between(page, "\n### ", "\n### ")
        .filter_map(|text| text.split("\n## ").next())
        // Root prepares the one of git, which has a test of its own.
        .filter(|text| text.contains("```console\n$ "))
        .collect();
    assert_eq!(examples.len(), 5, "shell, Python, Perl, PHP and C");
    let server = site.config(&config).start();
    let mut rows = Rows::new();
    for example in examples {
        let name = example.split('`').nth(1).expect("an example names its file");
        let code = between(example, "```", "\n```").next().expect("it has code");
        let (_, code) = code.split_once('\n').expect("behind the name of the language");
        let place = match name.rsplit_once('.') {
            Some((_, "php")) => "www",
            Some((_, "c")) => ".",
            _ => "cgi-bin",
        };
        server.files().file(&format!("{place}/{name}"), format!("{code}\n"));
        let console = between(example, "```console\n", "```").next().expect("the manual shows a command");
        let (commands, expected): (Vec<&str>, Vec<&str>) =
            console.lines().partition(|line| line.starts_with("$ "));
        let commands: Vec<&str> = commands.iter().map(|line| &line[2..]).collect();
        let commands = commands.join("\n").replace("/srv", &home);
        let commands = commands.replace("http://127.0.0.1:8080", &format!("http://{}", server.addr()));
        let commands = commands.replace("curl ", "curl -sS ");
        let printed = done(tool("sh").args(["-ec", &commands]).current_dir(&home));
        rows.check(name, printed.lines().collect::<Vec<_>>(), expected);
    }
}

/// The variables that each server passes to the same script for the same request.
#[test]
fn a_script_gets_the_variables_of_lighttpd_and_more() {
    let perl = "#!/usr/bin/perl\nprint \"Content-Type: text/plain\\n\\n\";\nprint \"$_=$ENV{$_}\\n\" for sort keys %ENV;\n";
    let php = "<?php header('Content-Type: text/plain');\n\
               foreach ($_SERVER as $name => $value) if (is_scalar($value)) echo \"$name=$value\\n\";\n\
               foreach ($_GET + $_POST + $_COOKIE as $name => $value) echo \"given_$name=$value\\n\";\n\
               echo 'input=', strlen(file_get_contents('php://input')), \"\\n\";";
    let interpreter = path_of("php-cgi");
    let server = Site::new()
        .script("env.cgi", perl)
        .file("env.php", php)
        .config(&format!(
            "[[route]]\npath = \"*.cgi\"\ncgi = true\n[[route]]\npath = \"*.php\"\ninterpreter = \"{interpreter}\"\n"
        ))
        .start();
    let port = free_port();
    let config = server.files().file(
        "lighttpd.conf",
        format!(
            "server.document-root = \"{}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
             server.modules = (\"mod_cgi\")\ncgi.assign = (\".cgi\" => \"\", \".php\" => \"{interpreter}\")\n",
            server.root().display()
        ),
    );
    let mut lighttpd =
        tool("lighttpd").env_clear().arg("-D").arg("-f").arg(config).spawn().expect("lighttpd starts");
    let requests = ["/env.cgi/a%20b/c?x=1&y=%20", "/env.php/a%20b/c?x=1&y=%20", "/env.php?x=1", "/env.cgi"].map(|target| {
        format!(
            "POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: 3\r\nX-One: a\r\nCookie: b=c\r\nUser-Agent: test\r\nConnection: close\r\n\r\nd=e"
        )
    });
    let theirs: Option<Vec<Response>> =
        requests.iter().map(|request| Some(reach(port)?.request(request))).collect();
    // The signal is sent even if the test fails.
    _ = lighttpd.kill();
    _ = lighttpd.wait();
    let theirs = theirs.expect("lighttpd answers");
    let mut rows = Rows::new();
    for (request, theirs) in requests.iter().zip(&theirs) {
        let ours = variables(&server.request(request));
        let target = request.split(' ').nth(1).unwrap_or_default();
        for (name, value) in variables(theirs) {
            let row = format!("{target} {name}");
            let found = ours.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_str());
            match name.as_str() {
                // These differ by server, connection and time.
                "SERVER_SOFTWARE" | "SERVER_PORT" | "REMOTE_PORT" | "SERVER_NAME" | "PATH"
                | "REQUEST_TIME" | "REQUEST_TIME_FLOAT" => rows.holds(row, "it is there", found.is_some()),
                // Not in RFC 3875 §4.1.18: a field of the connection, and one that has its own variable.
                "HTTP_CONNECTION" | "HTTP_CONTENT_LENGTH" | "HTTP_CONTENT_TYPE" => {
                    rows.check(row, found, None)
                }
                // PHP with cgi.fix_pathinfo=0 would run this file.
                "PATH_TRANSLATED" if target.contains(".php") => rows.check(row, found, None),
                _ => rows.check(row, found, Some(value.as_str())),
            }
        }
    }
}

/// The variables that PHP sees from the same php-fpm, under lighttpd and under taipan.
#[test]
fn php_fpm_gets_the_variables_of_lighttpd() {
    let text = "<?php header('Content-Type: application/json'); echo json_encode($_SERVER);";
    let server = Php::Fpm.start(Php::Fpm.site("").file("a.php", text).file("b c/index.php", text));
    let port = free_port();
    let config = server.files().file(
        "lighttpd.conf",
        format!(
            "server.document-root = \"{}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
             index-file.names = (\"index.php\")\nserver.modules = (\"mod_fastcgi\")\n\
             fastcgi.server = (\".php\" => ((\"socket\" => \"{}\")))\n",
            server.root().display(),
            server.home().join("fpm.sock").display(),
        ),
    );
    let _lighttpd = BackgroundProcess::start(tool("lighttpd").env_clear().arg("-D").arg("-f").arg(config));
    let mut rows = Rows::new();
    for target in ["/a.php", "/a.php?x=1&y=%20", "/a.php/a%20b/c?x", "/a.php/", "/b%20c/?z"] {
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/x\r\nContent-Length: 3\r\n\
             X-One: a\r\nCookie: b=c\r\nUser-Agent: test\r\nConnection: close\r\n\r\nd=e"
        );
        let parameters_of = |response: &Response| -> BTreeMap<String, serde_json::Value> {
            serde_json::from_slice(&response.body).unwrap_or_else(|e| panic!("{e}: {response}"))
        };
        let theirs = parameters_of(&reach(port).expect("lighttpd answers").request(&request));
        let ours = parameters_of(&server.request(&request));
        for name in theirs.keys().chain(ours.keys()) {
            let row = format!("{target} {name}");
            let (found, expected) = (ours.get(name), theirs.get(name));
            match name.as_str() {
                // These differ by server, connection and time.
                "SERVER_SOFTWARE" | "SERVER_PORT" | "REMOTE_PORT" | "REQUEST_TIME" | "REQUEST_TIME_FLOAT" => {
                    rows.holds(row, "both have it", found.is_some() && expected.is_some());
                }
                // A field of the connection, and one that has its own variable (RFC 3875 §4.1.18).
                "HTTP_CONNECTION" | "HTTP_CONTENT_LENGTH" | "HTTP_CONTENT_TYPE" => {
                    rows.check(row, found, None)
                }
                // PHP with cgi.fix_pathinfo=0 would run this file.
                "PATH_TRANSLATED" => rows.check(row, found, None),
                // Variables of every script, and those that are empty for lack of a value.
                "PATH" => rows.holds(row, "it is ours", found.is_some()),
                "PATH_INFO" if expected.is_none() => {
                    rows.check(row, found.and_then(|path| path.as_str()), Some(""))
                }
                _ => rows.check(row, found, expected),
            }
        }
    }
}

fn variables(response: &Response) -> Vec<(String, String)> {
    assert_eq!(response.status, 200, "{response}");
    let text = response.text();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn reach(port: u16) -> Option<Client> {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let is_reached = || std::net::TcpStream::connect(address).is_ok();
    wait_until(TIMEOUT, is_reached).then(|| Client::tcp(address))
}
