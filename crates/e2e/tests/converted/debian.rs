//! The configurations that Debian ships, and two of its servers, which run beside.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::process::Command;

use e2e::{debian_package, free_port, path_of};

use super::*;

#[test]
fn the_configuration_of_lighttpd_in_debian_is_converted() {
    assert!(Path::new(&path_of("lighttpd")).exists());
    let (succeeds, text, said) = convert(Path::new("/etc/lighttpd/lighttpd.conf"), "lighttpd");
    assert!(succeeds, "{said}");
    assert!(text.contains("root = \"/var/www/html\"") && text.contains("path = \"*.inc\""), "{text}");
}

#[test]
fn debian_nginx_common_configuration_is_converted() {
    let package = debian_package("nginx-common").join("etc/nginx");
    let home = Folder::new();
    let shown = home.path().display().to_string();
    // The files that Debian includes by their paths.
    for (from, to) in [
        ("nginx.conf", "nginx.conf"),
        ("sites-available/default", "sites-enabled/default"),
        ("mime.types", "mime.types"),
    ] {
        let text = fs::read_to_string(package.join(from)).expect("the package has it");
        home.file(to, text.replace("/etc/nginx", &shown));
    }
    let (succeeds, text, said) = convert(&home.path().join("nginx.conf"), "nginx");
    assert!(succeeds, "{said}");
    assert!(text.contains("root = \"/var/www/html\"") && text.contains("default = true"), "{text}");
}

#[test]
fn debian_apache2_configuration_is_converted() {
    let package = debian_package("apache2").join("etc/apache2");
    let home = Folder::new();
    let etc = home.path().join("apache2");
    let copied = Command::new("cp").arg("-R").arg(&package).arg(&etc).status().expect("it starts");
    assert!(copied.success());
    // What Debian enables when it installs the package.
    let modules = "access_compat alias auth_basic authn_core authn_file authz_core authz_host authz_user autoindex deflate dir \
                   env filter mime mpm_event negotiation reqtimeout setenvif status";
    let mut enabled: Vec<String> = Vec::new();
    for module in modules.split(' ') {
        enabled.extend(["load", "conf"].map(|end| format!("mods-available/{module}.{end}")));
    }
    enabled.push("sites-available/000-default.conf".to_owned());
    for file in enabled.iter().filter(|file| etc.join(file).exists()) {
        let target = etc.join(file.replace("available", "enabled"));
        fs::create_dir_all(target.parent().expect("it has one")).expect("it is our folder");
        fs::copy(etc.join(file), target).expect("it is our folder");
    }
    let (succeeds, text, said) = convert(&etc.join("apache2.conf"), "apache");
    let mut rows = Rows::new();
    rows.check(format!("converted: {said}"), succeeds, true);
    for line in [
        "user = \"www-data\"",
        "root = \"/var/www/html\"",
        "path = \".ht*\"",
        "alias = \"/usr/share/apache2/icons\"",
    ] {
        rows.check(line, text.lines().any(|own| own == line), true);
    }
}

/// Another server at a port, with the same root.
fn beside(mut program: Command, port: u16) -> BackgroundProcess {
    let process = BackgroundProcess::start(&mut program);
    let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(wait_until(TIMEOUT, listens), "it does not listen:\n{}", process.errors().text());
    process
}

/// The status of a response, and fields of it: to compare two servers.
fn facts(bytes: &[u8], fields: &[&str]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let field = |name: &&str| {
        let line =
            head.lines().find(|line| line.to_lowercase().starts_with(&format!("{}:", name.to_lowercase())));
        line.map_or("none".to_owned(), |line| {
            line.split_once(':').map_or("", |(_, value)| value.trim()).to_owned()
        })
    };
    let own: Vec<String> = fields.iter().map(field).collect();
    let body = if status == "200" { body.len().to_string() } else { String::new() };
    format!("{status} {} {body}", own.join(" | "))
}

fn sent(port: u16, request: &str) -> Vec<u8> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("it is a socket");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut bytes = Vec::new();
    _ = stream.read_to_end(&mut bytes);
    bytes
}

/// The variables of a script that both servers set, by their names.
fn environment(bytes: &[u8], names: &[&str]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let value = |name: &&str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}=")));
        line.unwrap_or(name).trim_end().to_owned()
    };
    names.iter().map(value).collect()
}

#[test]
fn debian_busybox_responds_as_its_dialect_does() {
    let program = debian_package("busybox").join("bin/busybox");
    let conf = "/locked:ann:open\nI:index.html\n.own:image/x-own\nD:192.0.2.0/24\n";
    let site =
        site().file("a.own", "own").script("cgi-bin/env.sh", SCRIPT).file_beside_root("httpd.conf", conf);
    let port = free_port();
    let home = site.home().to_owned();
    let mut other = Command::new(program);
    other
        .args(["httpd", "-f", "-p", &format!("127.0.0.1:{port}"), "-h"])
        .arg(home.join("www"))
        .arg("-c")
        .arg(home.join("httpd.conf"));
    let _other = beside(other, port);
    let server = site.start_with(1, |site| {
        let mut taipan = command();
        let flags = ["--busybox", "httpd", "-f", "-p", "127.0.0.1:0", "-h", "www", "-c"];
        taipan.args(flags).arg(site.home().join("httpd.conf")).current_dir(site.home());
        taipan
    });
    let own = server.addr().port();
    let mut rows = Rows::new();
    for (request, fields) in [
        ("GET /a.own HTTP/1.0\r\n\r\n", &["Content-Type", "Content-Length", "Last-Modified"][..]),
        ("GET / HTTP/1.0\r\n\r\n", &["Content-Type", "Content-Length", "Last-Modified"]),
        ("GET /near HTTP/1.0\r\n\r\n", &["Location"]),
        ("GET /none HTTP/1.0\r\n\r\n", &[]),
        ("GET /locked/x HTTP/1.0\r\n\r\n", &["WWW-Authenticate"]),
        ("HEAD /locked/x HTTP/1.0\r\n\r\n", &["WWW-Authenticate"]),
        ("GET /locked/none HTTP/1.0\r\n\r\n", &["WWW-Authenticate"]),
        (
            "GET /locked/x HTTP/1.0\r\nAuthorization: Basic YW5uOm9wZW4=\r\n\r\n",
            &["Content-Length", "WWW-Authenticate"],
        ),
        ("GET /locked/x HTTP/1.0\r\nAuthorization: Basic YW5uOndyb25n\r\n\r\n", &["WWW-Authenticate"]),
        ("GET /locked/x HTTP/1.0\r\nAuthorization: Bearer x\r\n\r\n", &["WWW-Authenticate"]),
    ] {
        // busybox redirects to a folder with 302, and does not say how passwords are encoded.
        let theirs = facts(&sent(port, request), fields).replace("302 ", "301 ");
        let ours = facts(&sent(own, request), fields).replace(", charset=\"UTF-8\"", "");
        rows.check(request, ours.as_str(), theirs.as_str());
    }
    // SERVER_PROTOCOL is always HTTP/1.1 there, and that of the request here.
    let request = "GET /cgi-bin/env.sh/a/b?c=d%20e HTTP/1.0\r\nUser-Agent: u\r\nCookie: k=v\r\nReferer: http://r/\r\n\r\n";
    let names = [
        "REQUEST_METHOD",
        "QUERY_STRING",
        "SCRIPT_NAME",
        "PATH_INFO",
        "REMOTE_ADDR",
        "REQUEST_URI",
        "HTTP_USER_AGENT",
        "HTTP_COOKIE",
        "HTTP_REFERER",
        "GATEWAY_INTERFACE",
        "SCRIPT_FILENAME",
    ];
    rows.check(
        "environment",
        environment(&sent(own, request), &names).join("\n").as_str(),
        environment(&sent(port, request), &names).join("\n").as_str(),
    );
}

#[test]
fn debian_mini_httpd_logs_and_responds_as_thttpd_does() {
    let package = debian_package("mini-httpd");
    let (succeeds, text, said) = convert(&package.join("etc/mini-httpd.conf"), "thttpd");
    let mut rows = Rows::new();
    rows.check(format!("its file: {said}"), succeeds, true);
    rows.check("its folder", text.contains("/var/www/html"), true);
    let site = site()
        .script("run.cgi", SCRIPT)
        .file("locked/.htpasswd", USERS)
        .file("list/b.txt", "b")
        .file("list/a&b <c>.txt", "a")
        .file("list/sub/x", "x");
    let (home, port) = (site.home().to_owned(), free_port());
    let mut other = Command::new(package.join("usr/sbin/mini_httpd"));
    other.args(["-D", "-h", "127.0.0.1", "-p", &port.to_string(), "-c", "**.cgi", "-u", "root", "-d"]);
    other.arg(home.join("www")).arg("-l").arg(home.join("theirs"));
    let _other = beside(other, port);
    let server = site.start_with(1, |site| {
        let mut taipan = command();
        let flags = ["--thttpd", "-D", "-h", "127.0.0.1", "-p", "0", "-c", "**.cgi", "-d", "www", "-l"];
        taipan.args(flags).arg(site.home().join("ours")).current_dir(site.home());
        taipan
    });
    let own = server.addr().port();
    let requests = [
        (
            "GET /near/x HTTP/1.0\r\nReferer: http://r/\r\nUser-Agent: u\r\n\r\n",
            &["Content-Length", "Last-Modified"][..],
        ),
        ("GET /none HTTP/1.0\r\n\r\n", &[]),
        ("GET /locked/x HTTP/1.0\r\n\r\n", &["WWW-Authenticate"]),
        ("GET /locked/x HTTP/1.0\r\nAuthorization: Basic YW5uOndyb25n\r\n\r\n", &["WWW-Authenticate"]),
        ("GET /locked/x HTTP/1.0\r\nAuthorization: Basic YW5uOm15UGFzc3dvcmQ=\r\n\r\n", &["Content-Length"]),
        ("HEAD /near/x HTTP/1.0\r\n\r\n", &["Content-Length"]),
    ];
    for (request, fields) in requests {
        let theirs = facts(&sent(port, request), fields);
        // The realm is the path of the folder, and not its name.
        let ours = facts(&sent(own, request), fields)
            .replace(", charset=\"UTF-8\"", "")
            .replace("realm=\"/locked/\"", "realm=\"locked\"");
        rows.check(request, ours.as_str(), theirs.as_str());
    }
    let listed = |port: u16| {
        let text = String::from_utf8_lossy(&sent(port, "GET /list/ HTTP/1.0\r\n\r\n")).to_lowercase();
        let links = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let links = links.map(|link| link.trim_start_matches("./").replace("%26", "&").replace("&amp;", "&"));
        let entries = links.filter(|link| link.starts_with(['a', 'b', 's']));
        let entries: BTreeSet<String> = entries.map(|link| link.trim_end_matches('/').to_owned()).collect();
        entries.into_iter().collect::<Vec<_>>().join(" ")
    };
    rows.check("listing", listed(own).as_str(), listed(port).as_str());
    rows.check("entries", listed(own).matches(' ').count(), 2);
    // Without what is in brackets, which is the time, and the sizes of error pages.
    let lines = |name: &str| {
        let path = home.join(name);
        wait_until(TIMEOUT, || fs::read_to_string(&path).unwrap_or_default().contains("HEAD"));
        let text = fs::read_to_string(&path).unwrap_or_default();
        let line = text.lines().find(|line| line.contains("http://r/")).unwrap_or_default().to_owned();
        let (before, rest) = line.split_once('[').unwrap_or_default();
        format!("{before}{}", rest.split_once(']').unwrap_or_default().1)
    };
    rows.check("log", lines("ours").as_str(), lines("theirs").as_str());
    let request = "GET /run.cgi?c HTTP/1.0\r\nUser-Agent: u\r\n\r\n";
    let names = [
        "REQUEST_METHOD",
        "QUERY_STRING",
        "SCRIPT_NAME",
        "REMOTE_ADDR",
        "HTTP_USER_AGENT",
        "GATEWAY_INTERFACE",
    ];
    rows.check(
        "environment",
        environment(&sent(own, request), &names).join("\n").as_str(),
        environment(&sent(port, request), &names).join("\n").as_str(),
    );
}
