//! Real applications by CGI, as an administrator would set them up: PHP, git's own server, a Python WSGI
//! application, and gitweb, which is Perl with CGI.pm.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::{Client, Response, Rows, Server, Site, ended, free_port, path_of, tool};

/// Runs a command that must not fail, and returns what it prints.
fn done(command: &mut Command) -> String {
    let output = ended(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn php(config: &str) -> Site {
    let route = format!("[[route]]\npath = \"*.php\"\ninterpreter = \"{}\"\n", path_of("php-cgi"));
    Site::new().config(&format!("max_body = \"64MiB\"\nindex = [\"index.php\"]\n{route}{config}"))
}

fn post(path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn php_answers_forms_paths_and_sessions() {
    let server = php("env = { PHP_INI_SCAN_DIR = \"\" }\n")
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
        .file("blog/index.php", "<?php echo 'blog ', $_SERVER['REQUEST_URI'];")
        .start();
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
        let response = server.ask(&request);
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
fn php_takes_an_upload_of_8_mib_and_gives_more_than_64() {
    let server = php("env = { PHP_INI_SCAN_DIR = \"\" }\n")
        .file("php.ini", "")
        .file(
            "up.php",
            "<?php $f = $_FILES['file']; echo $f['error'], ' ', $f['name'], ' ', $f['size'], ' ', md5_file($f['tmp_name']);",
        )
        .file(".user.ini", "upload_max_filesize = 16M\npost_max_size = 16M\n")
        .file("down.php", "<?php for ($i = 0; $i < 66; $i++) { echo str_repeat(chr(65 + $i % 26), 1 << 20); }")
        .file("raw.php", "<?php echo strlen(file_get_contents('php://input')), ' ', $_SERVER['CONTENT_LENGTH'];")
        .start();
    let content: Vec<u8> = (0..8u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    server.files().file("content", &content);
    let sum = done(tool("md5sum").arg(server.home().join("content")));
    let sum = sum.split(' ').next().unwrap_or_default();
    let mut body = b"--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\
                     Content-Type: application/octet-stream\r\n\r\n"
        .to_vec();
    body.extend(&content);
    body.extend(b"\r\n--xyz--\r\n");
    let response = server.ask(post("/up.php", "multipart/form-data; boundary=xyz", &body));
    assert_eq!(response.text(), format!("0 a.bin {} {sum}", content.len()), "{response}");

    let response = server.ask("GET /down.php HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(response.body.len(), 66 << 20);
    assert!((0..66).all(|at| response.body[at << 20] == b'A' + (at % 26) as u8), "in order");

    // A chunked body reaches PHP with its length, which it needs.
    let chunked = "POST /raw.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n";
    assert_eq!(server.ask(chunked).text(), "8 8");
}

#[test]
fn what_php_flushes_is_sent_at_once() {
    let text = "<?php header('Content-Type: text/plain'); while (ob_get_level()) ob_end_flush(); echo 'first'; flush(); \
                while (!file_exists(__DIR__ . '/go')) { usleep(10000); clearstatcache(); } echo 'second';";
    let server = php("env = { PHP_INI_SCAN_DIR = \"\" }\n").file("a.php", text).start();
    let mut client = server.connect();
    client.send("GET /a.php HTTP/1.0\r\nHost: a\r\n\r\n");
    let mut seen = Vec::new();
    while !seen.ends_with(b"first") {
        let more = client.read_some().expect("the first part comes alone");
        assert!(!more.is_empty(), "it ends after {:?}", String::from_utf8_lossy(&seen));
        seen.extend(more);
    }
    server.files().file("www/go", "");
    assert_eq!(client.read_to_end(), b"second");
}

#[test]
fn php_is_never_shown_as_text_nor_told_what_to_do_by_a_query() {
    let server =
        php("").file("a.php", "<?php echo 'run';").file("up/a.jpg", "<?php echo 'injected';").start();
    let mut rows = Rows::new();
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
        let response = server.get(target);
        let said = if response.status == 200 {
            format!("200 {}", response.text())
        } else {
            response.status.to_string()
        };
        rows.check(target, said.as_str(), expected);
    }
}

/// The server of a bare repository with some thousand objects.
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
    // The backend is the only file of a route; what follows in the path is the repository.
    let config = format!(
        "rewrites = {{ \"/git/\" = \"/backend/git-http-backend/$rest\" }}\nmax_body = \"64MiB\"\n\
         [[route]]\npath = \"/backend/\"\nalias = \"{}\"\ncgi = true\n\
         env = {{ GIT_PROJECT_ROOT = \"{}\", GIT_HTTP_EXPORT_ALL = \"1\" }}\n[scripts]\nspool = \".\"\n\
         [log]\naccess = \"stdout\"\n",
        backend.parent().expect("it is in a folder").display(),
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
    // The folder may be another user's than the one who tests.
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
    done(git(&home.join("full")).args(["fsck", "--full"]));
    let objects = done(git(&home.join("full")).args(["rev-list", "--objects", "--all", "--count"]));
    assert!(objects.trim().parse::<u32>().is_ok_and(|count| count > 2000), "{objects}");

    done(git(&home).args(["clone", "-q", "--depth", "2", &url, "shallow"]));
    assert_eq!(count("shallow"), "2");
    done(git(&home.join("shallow")).args(["fetch", "-q", "--unshallow"]));
    assert_eq!(count("shallow"), "20");

    // The first is sent with its length; the second is larger than git keeps (1 MiB), and so chunked.
    for (name, bytes, chunked) in [("small", 100, false), ("large", 3 << 20, true)] {
        let mut random = e2e::Random::new(7);
        fs::write(home.join("full").join(name), random.bytes(bytes)).expect("it is our folder");
        done(git(&home.join("full")).args(["add", name]));
        done(git(&home.join("full")).args(["commit", "-q", "-m", name]));
        let mut push = git(&home.join("full"));
        push.args(["push", "origin", "main"]).env("GIT_CURL_VERBOSE", "1");
        let output = ended(&mut push);
        let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(output.status.success(), "{said}\n{}", server.stderr());
        assert_eq!(said.contains("send header: transfer-encoding: chunked"), chunked, "{name}: {said}");
    }
    assert_eq!(done(git(&home.join("git/project.git")).args(["rev-list", "--count", "main"])).trim(), "22");
    done(git(&home.join("git/project.git")).args(["fsck", "--full"]));

    done(git(&home.join("shallow")).args(["fetch", "-q", "origin"]));
    let both =
        ["full", "shallow"].map(|folder| done(git(&home.join(folder)).args(["rev-parse", "origin/main"])));
    assert_eq!(both[0], both[1]);
}

#[test]
fn git_compresses_a_long_request_and_is_understood() {
    // What a client has is sent compressed once it is long: a clone that has much, and asks for one more.
    let server = git_server();
    let home = server.home().to_owned();
    let url = server.url("/git/project.git");
    done(git(&home).args(["clone", "-q", &url, "a"]));
    for number in 0..200 {
        done(git(&home.join("a")).args(["commit", "-q", "--allow-empty", "-m", &number.to_string()]));
    }
    let seed = home.join("seed");
    fs::write(seed.join("new"), "new").expect("it is our folder");
    done(git(&seed).args(["add", "new"]));
    done(git(&seed).args(["commit", "-q", "-m", "new"]));
    done(git(&seed).args(["push", "-q"]).arg(home.join("git/project.git")).arg("main"));
    let output = ended(
        git(&home.join("a"))
            .args(["-c", "protocol.version=0", "fetch", "origin"])
            .env("GIT_CURL_VERBOSE", "1"),
    );
    let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("send header: content-encoding: gzip"),
        "this test is for compressed requests: {said}"
    );
    let new = done(git(&seed).args(["rev-parse", "main"]));
    assert_eq!(done(git(&home.join("a")).args(["rev-parse", "origin/main"])), new);
}

const WSGI: &str = r#"#!/usr/bin/python3
from wsgiref.handlers import CGIHandler

def application(environ, start):
    body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
    path = environ.get('PATH_INFO', '')
    if path == '/missing':
        start('404 Not Found', [('Content-Type', 'text/plain')])
        return [b'no such page']
    if path == '/raise':
        raise ValueError('the reason')
    start('200 OK', [('Content-Type', 'text/plain'), ('X-Script', environ['SCRIPT_NAME'])])
    def parts():
        yield ('%s %s %s\n' % (environ['REQUEST_METHOD'], path, environ['QUERY_STRING'])).encode('latin-1')
        yield environ['wsgi.url_scheme'].encode() + b' '
        yield body
    return parts()

CGIHandler().run(application)
"#;

#[test]
fn a_python_application_answers_through_its_standard_handler() {
    let server = Site::new()
        .script("app.py", WSGI)
        .config("rewrites = { \"/app/\" = \"/app.py/$rest\" }\n[[route]]\npath = \"*.py\"\ncgi = true\n")
        .start();
    let response = server.ask(post("/app.py/some/path?q=1", "text/plain", b"the body"));
    assert_eq!((response.status, response.field("x-script")), (200, Some("/app.py")), "{response}");
    assert_eq!(response.text(), "POST /some/path q=1\nhttp the body");
    let response = server.get("/app/missing");
    assert_eq!((response.status, response.text().as_str()), (404, "no such page"));
    let response = server.get("/app/raise");
    assert_eq!(response.status, 500, "{response}");
    server.wait_for_line("ValueError: the reason", e2e::PATIENCE);
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
    let site = site.beside(
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

/// What a page has between two lines.
fn between<'p>(page: &'p str, before: &str, after: &str) -> impl Iterator<Item = &'p str> {
    let (before, after) = (before.to_owned(), after.to_owned());
    let pieces: Vec<&str> = page.split(before.as_str()).skip(1).collect();
    pieces.into_iter().map(move |piece| piece.split(after.as_str()).next().unwrap_or(piece))
}

#[test]
fn the_examples_of_the_manual_do_what_it_says() {
    let page = include_str!("../../../docs/manual/scripts.md");
    let site = Site::new();
    let home = site.home().display().to_string();
    let config = between(page, "```toml\n", "```").next().expect("it begins with a configuration");
    // The folder of the manual and its port are ours.
    let config = config.replace("/srv", &home).replace("127.0.0.1:8080", "127.0.0.1:0");
    let config = config.replace("/usr/bin/php-cgi", &path_of("php-cgi"));
    fs::create_dir_all(site.home().join("cgi-bin")).expect("it is our folder");
    let examples: Vec<&str> =
        between(page, "\n### ", "\n### ").filter(|text| text.contains("```console")).collect();
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
        let console = between(example, "```console\n", "```").next().expect("it says how to call it");
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

/// The variables that each server gives the same script for the same request.
#[test]
fn a_script_is_told_what_lighttpd_tells_it_and_something_more() {
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
        requests.iter().map(|request| Some(reach(port)?.ask(request))).collect();
    // It is told to end in any case.
    _ = lighttpd.kill();
    _ = lighttpd.wait();
    let theirs = theirs.expect("lighttpd answers");
    let mut rows = Rows::new();
    for (request, theirs) in requests.iter().zip(&theirs) {
        let ours = variables(&server.ask(request));
        let target = request.split(' ').nth(1).unwrap_or_default();
        for (name, value) in variables(theirs) {
            let row = format!("{target} {name}");
            let found = ours.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_str());
            match name.as_str() {
                // Of the server, the connection or the moment.
                "SERVER_SOFTWARE" | "SERVER_PORT" | "REMOTE_PORT" | "SERVER_NAME" | "PATH"
                | "REQUEST_TIME" | "REQUEST_TIME_FLOAT" => rows.holds(row, "it is there", found.is_some()),
                // Not by RFC 3875 §4.1.18: a field of the connection, and what has a variable of its own.
                "HTTP_CONNECTION" | "HTTP_CONTENT_LENGTH" | "HTTP_CONTENT_TYPE" => {
                    rows.check(row, found, None)
                }
                _ => rows.check(row, found, Some(value.as_str())),
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
    let until = std::time::Instant::now() + e2e::PATIENCE;
    while std::time::Instant::now() < until {
        if std::net::TcpStream::connect(address).is_ok() {
            return Some(Client::tcp(address));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    None
}
