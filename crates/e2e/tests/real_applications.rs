//! The applications of the manual's page "In front of an application", as a reader would copy them: the configuration,
//! the program and the command are those of the page, except for folders and ports.

use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

use e2e::{
    BackgroundProcess, Client, Random, Rows, Server, Site, TIMEOUT, free_port, is_root, npm_package, path_of,
    python_packages, tool, wait_until,
};

const PAGE: &str = include_str!("../../../docs/manual/in-front-of.md");

/// One section of the page.
struct Section {
    config: String,
    /// The name of the program's file, and its text.
    program: (String, String),
    /// None for an application that the system starts.
    command: Option<String>,
}

fn block(section: &str, language: &str) -> Option<String> {
    let (_, rest) = section.split_once(&format!("```{language}\n"))?;
    Some(rest.split_once("```")?.0.to_owned())
}

/// `language` is that of the program.
fn section(title: &str, language: &str) -> Section {
    let (_, section) = PAGE.split_once(&format!("\n## {title}\n")).expect("the page has the section");
    let section = section.split("\n## ").next().unwrap_or(section);
    let (_, name) = section.split_once("\n`/srv/app/").expect("the section has a program");
    let name = name.split('`').next().unwrap_or(name);
    let command = block(section, "console").map(|line| line.trim_start_matches("$ ").trim_end().to_owned());
    Section {
        config: block(section, "toml").expect("the section has a configuration"),
        program: (name.to_owned(), block(section, language).expect("the section has a program")),
        command,
    }
}

impl Section {
    /// The folder of the site takes the place of `/srv/app`, and a free port that of the application's.
    fn start(self) -> (Server, BackgroundProcess) {
        let site = Site::new();
        let home = site.home().to_owned();
        let port = free_port();
        let own = |text: &str| {
            ["8000", "3000", "9292"]
                .iter()
                .fold(text.to_owned(), |text, of_page| text.replace(of_page, &port.to_string()))
                .replace("/srv/app", &home.display().to_string())
        };
        let config = own(&self.config)
            .replace("127.0.0.1:8080", "127.0.0.1:0")
            .replace("/run/php/php8.2-fpm.sock", &home.join("fpm.sock").display().to_string());
        let site = site
            .file_beside_root("public/logo.png", "a picture")
            .file_beside_root(&self.program.0, own(&self.program.1))
            .config_without_root(&config);
        let application = match self.command {
            Some(command) => started(&own(&command), port),
            None => fpm(&home),
        };
        (site.start(), application)
    }
}

/// Runs a command of the page, with the packages that `tests/run` has installed.
fn started(command: &str, port: u16) -> BackgroundProcess {
    let path = std::env::var("PATH").expect("there is a PATH");
    let mut shell = tool("sh");
    shell.args(["-c", command]).env("PYTHONDONTWRITEBYTECODE", "1");
    if command.contains("uvicorn") {
        shell.env("PATH", format!("{}:{path}", python_packages().display()));
    }
    if command.contains("node") {
        shell.env("NODE_PATH", npm_package("ws").parent().expect("it is in a folder"));
    }
    let application = BackgroundProcess::start(&mut shell);
    // Java compiles the program first.
    let listens = wait_until(TIMEOUT * 6, || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
    assert!(listens, "{command}\n{}", application.errors().text());
    application
}

fn fpm(home: &Path) -> BackgroundProcess {
    let user = if is_root() { "user = root\ngroup = root\n" } else { "" };
    let (home, config) = (home.display(), home.join("fpm.conf"));
    let pool = format!(
        "[global]\nerror_log = {home}/fpm.log\n[www]\nlisten = {home}/fpm.sock\npm = static\n\
         pm.max_children = 5\n{user}"
    );
    std::fs::write(&config, pool).expect("it is our folder");
    let mut fpm = Command::new(path_of("php-fpm"));
    fpm.args(["-n", "-F", "-y"]).arg(&config);
    if is_root() {
        fpm.arg("-R");
    }
    BackgroundProcess::listening(&mut fpm, Path::new(&format!("{home}/fpm.sock")))
}

/// What every section promises: files first, and the application knows the client.
fn is_as_the_page_says(server: &Server) {
    let mut rows = Rows::new();
    // Another address of this machine, so that it is not that of the proxy.
    let mut client = Client::tcp_from(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)), server.addr());
    let response = client.get("/logo.png");
    rows.check("a file", (response.status, response.text().as_str()), (200, "a picture"));
    for path in ["/", "/where/it%20is?x=1&y=%2F", "/missing.png", "/-/app/"] {
        let expected = format!("GET {path} by http from 127.0.0.9\n");
        let response = client.get_with(path, "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n");
        rows.check(path, (response.status, response.text()), (200, expected));
    }
    let body: Vec<u8> = Random::new(3).bytes(700_000);
    let head = format!("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let response = client.request([head.as_bytes(), &body].concat());
    let expected = [b"POST /upload by http from 127.0.0.9\n", &body[..]].concat();
    rows.holds("POST", "the body passes in both directions", response.body == expected);
    let chunked = "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n";
    let response = client.request(chunked);
    rows.check(chunked, response.text().as_str(), "POST /c by http from 127.0.0.9\nhelloyou");
}

/// A masked text, by a path that is no file: the fallback leads to the application.
fn echoes_by_websocket(server: &Server) {
    let mut client = server.connect();
    client.send(
        "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    client.send(
        [0x81, 0x85, 1, 1, 1, 1].iter().copied().chain(b"hello".map(|byte| byte ^ 1)).collect::<Vec<u8>>(),
    );
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n\x81\x05hello") {
        let more = client.read_some().expect("the echo");
        bytes.extend(&more);
        assert!(!more.is_empty(), "{}", e2e::shown(&bytes));
    }
    assert!(bytes.starts_with(b"HTTP/1.1 101 "), "{}", e2e::shown(&bytes));
}

#[test]
fn php_fpm_runs_as_the_manual_says() {
    let (server, _application) = section("PHP", "php").start();
    is_as_the_page_says(&server);
}

#[test]
fn gunicorn_runs_as_the_manual_says() {
    let (server, _application) = section("Python: gunicorn", "python").start();
    is_as_the_page_says(&server);
}

#[test]
fn uvicorn_runs_as_the_manual_says() {
    let (server, _application) = section("Python: uvicorn", "python").start();
    is_as_the_page_says(&server);
    echoes_by_websocket(&server);
}

#[test]
fn node_ws_runs_as_the_manual_says() {
    let (server, _application) = section("Node", "javascript").start();
    is_as_the_page_says(&server);
    echoes_by_websocket(&server);
}

#[test]
fn puma_runs_as_the_manual_says() {
    let (server, _application) = section("Ruby: puma", "ruby").start();
    is_as_the_page_says(&server);
}

#[test]
fn java_runs_as_the_manual_says() {
    let (server, _application) = section("Java", "java").start();
    is_as_the_page_says(&server);
}
