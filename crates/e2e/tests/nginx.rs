//! nginx, beside what `taipan convert` makes of its configuration: both respond to the same requests.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use e2e::upstream::upstream;
use e2e::{
    BackgroundProcess, Rows, Server, Site, TIMEOUT, command, debian_package, free_port, is_root, own_user,
    php_fpm, wait_until,
};

/// Of `ann` with the password `myPassword`.
const USERS: &str = "ann:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n";

/// The directives of a server: an application whose files come first, with what stands around its locations.
const SERVER: &str = "root HOME/www;
location / { try_files $uri @app; }
location /shop/ { try_files $uri/index.html $uri $uri/ @app; }
location /closed/ { auth_basic x; auth_basic_user_file HOME/users; try_files $uri @app; }
location ^~ /media/ { error_page 404 = @app; }
location ~* \\.(css|module)$ { expires 1h; try_files $uri @app; }
location ~* /uploads/.*\\.php$ { deny all; }
location ~* \\.(sql|sw[op]|profile)$ { deny all; }
location @app { internal; proxy_pass http://back; }
location /q/ { proxy_pass http://back/other/; proxy_set_header X-Own location; proxy_set_header X-Forwarded-Proto https; }
location = /healthz { default_type text/own; return 200 \"ok\\n\"; }
location = /json { default_type application/json; return 200 '{\"a\":1}'; }
location /go/ { return 302 https://$host$request_uri; }
location ^~ /.well-known/acme-challenge/ { default_type text/plain; }
location ~ /\\. { deny all; }
location /clean/ { try_files $uri $uri.html $uri/ =404; }
location /folders/ { try_files $uri $uri/ $uri.html =404; }
location = /folders/one { add_header X-A b; }
location /timed/ { expires $times; }
location /stored/ { proxy_cache stored; proxy_pass http://back; }
location /unstored/ { proxy_cache stored; proxy_cache_bypass $arg_a; proxy_no_cache $arg_a; proxy_pass http://back; }
";

/// DokuWiki and cgit as their manuals say, with scripts that tell their query; and rewrites of all kinds.
const QUERIES: &str = "root HOME/www;
index doku.php;
location / { try_files $uri $uri/ @dokuwiki; }
location @dokuwiki {
rewrite ^/_media/(.*) /lib/exe/fetch.php?media=$1 last;
rewrite ^/_detail/(.*) /lib/exe/detail.php?media=$1 last;
rewrite ^/_export/([^/]+)/(.*) /doku.php?do=export_$1&id=$2 last;
rewrite ^/(.*) /doku.php?id=$1&$args last;
}
rewrite ^/cgit/([^/]+)/(.*)$ /cgit.php?url=$1/$2 last;
rewrite ^/user/([^/]+)$ /doku.php?name=$1? last;
rewrite ^/first$ /doku.php?$args&own=1? last;
rewrite ^/bare$ /doku.php last;
rewrite ^/none$ /doku.php? last;
rewrite ^/moved/([^/]+)-([^/]+)$ /new/$2?x=$1 permanent;
rewrite ^/gone/(.*)$ /new?x=$1? redirect;
location /old/ { if (!-e $request_filename) { rewrite ^/old/(.*)$ /doku.php?old=$1 last; } }
location /all/ { rewrite ^/all/(.*)$ /doku.php?all=$1 last; }
location /short/ { try_files $uri $uri/ $uri.php?$args; }
location /dotless/ { try_files $uri @dotless; }
location @dotless { rewrite ^/([^.]+)$ /$1.php last; }
location /there/ { if (-f $request_filename.php) { rewrite ^(.*)$ $1.php last; } }
location ~ \\.php$ {
fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
fastcgi_param QUERY_STRING $query_string;
fastcgi_param REQUEST_URI $request_uri;
fastcgi_param REQUEST_METHOD $request_method;
fastcgi_pass unix:HOME/fpm.sock;
}
";

/// nginx with the directives of a server, and with one port.
fn configuration(server: &str, port: &str, back: &str, home: &str) -> String {
    let of_main = "daemon off;\nmaster_process off;\nworker_processes 1;\npid HOME/pid;\nerror_log HOME/error.log;\nevents { }\n";
    let temporary: String = ["client_body", "proxy", "fastcgi"]
        .map(|name| format!("{name}_temp_path HOME/temporary;\n"))
        .concat();
    let of_http = "map $sent_http_content_type $times { default off; text/html epoch; ~image/ max; text/css 1h; }\naccess_log off;\nabsolute_redirect off;\ntypes { text/html html; text/css css; image/png png; }\nproxy_cache_path HOME/cache keys_zone=stored:1m;\n\
                   proxy_cache_valid 200 1h;\nproxy_set_header X-Own http;\nproxy_set_header Host $host;\n";
    format!(
        "{of_main}http {{\n{temporary}{of_http}upstream back {{ server {back} fail_timeout=0; }}\n\
         server {{\nlisten 127.0.0.1:{port};\nserver_name a.example;\n{server}}}\n}}\n"
    )
    .replace("HOME", home)
}

/// An application that tells what it gets, and counts its requests in a field.
fn application() -> String {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let url = upstream(move |mut stream, head| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let line = head.lines().next().unwrap_or_default().split(" HTTP/").next().unwrap_or_default();
        let value = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines
                .find(|(own, _)| own.eq_ignore_ascii_case(name))
                .map_or("none", |(_, value)| value)
                .to_owned()
        };
        let proto = if value("x-own") == "location" { value("x-forwarded-proto") } else { String::new() };
        let body = format!("{line} {} {} {proto}", value("host"), value("x-own"));
        let length = body.len();
        let body = if line.starts_with("HEAD") { "" } else { &body };
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/app\r\nX-Number: {number}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        )
    });
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

fn sent(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("it is a socket");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut bytes = Vec::new();
    _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn field<'t>(response: &'t str, name: &str) -> Option<&'t str> {
    let (head, _) = response.split_once("\r\n\r\n")?;
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// The status, some fields, and what a 200 has. Errors have pages of their own, and nginx names no charset.
fn facts(response: &str) -> String {
    let status = response.split(' ').nth(1).unwrap_or_default();
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let is_found = status == "200";
    let mut facts = vec![status];
    let names = ["location", "cache-control", "www-authenticate"];
    facts.extend(names.iter().filter_map(|name| field(response, name)));
    facts.extend(field(response, "content-type").filter(|_| is_found));
    facts.extend(is_found.then_some(body));
    facts.join(" | ").replace(", charset=\"UTF-8\"", "").replace("http://a.example", "")
}

/// Files, and nginx with its conversion.
fn both() -> (BackgroundProcess, u16, Server) {
    let site = Site::new()
        .file("index.html", "page")
        .file("a.txt", "text")
        .file("a.css", "css")
        .file("shop/new/index.html", "new")
        .file("closed/a.txt", "closed")
        .file("media/a.txt", "media")
        .file(".well-known/acme-challenge/token", "token")
        .file(".well-known/other", "hidden")
        .file("media/.hidden.html", "not asked for by an expression")
        .file("clean/both.html", "file")
        .file("clean/both/index.html", "folder")
        .file("clean/folder/index.html", "folder")
        .file("folders/both.html", "file")
        .file("folders/both/index.html", "folder")
        .file("folders/one.html", "one")
        .file("timed/index.html", "page")
        .file("timed/a.css", "css")
        .file("timed/a.png", "png")
        .file("timed/a.txt", "text")
        .file("dump.sql", "secret")
        .file("x/uploads/a.php", "secret")
        .file_beside_root("users", USERS);
    beside(site, SERVER)
}

/// nginx at a port with the directives of a server, and the server that its configuration becomes.
fn beside(site: Site, directives: &str) -> (BackgroundProcess, u16, Server) {
    let home = site.home().display().to_string();
    let (port, back) = (free_port(), application());
    let of_root = if is_root() { "user root;\n" } else { "" };
    fs::write(
        site.home().join("nginx.conf"),
        of_root.to_owned() + &configuration(directives, &port.to_string(), &back, &home),
    )
    .expect("it is our folder");
    let mut nginx = Command::new(debian_package("nginx").join("usr/sbin/nginx"));
    let process =
        BackgroundProcess::start(nginx.args(["-e", "stderr", "-c"]).arg(site.home().join("nginx.conf")));
    let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(wait_until(TIMEOUT, listens), "it does not listen:\n{}", process.errors().text());
    fs::write(site.home().join("converted.conf"), configuration(directives, "0", &back, &home))
        .expect("it is our folder");
    let output =
        command().args(["convert", "converted.conf", "--from", "nginx"]).current_dir(site.home()).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let account = own_user();
    let text = account.to_owned() + &String::from_utf8(output.stdout).expect("TOML is UTF-8");
    fs::write(site.home().join("site.toml"), text).expect("it is our folder");
    let server = site.start_with(1, |site| {
        let mut taipan = command();
        taipan.args(["-c", "site.toml"]).current_dir(site.home());
        taipan
    });
    (process, port, server)
}

#[test]
fn debian_nginx_responds_as_its_conversion_does() {
    let (_nginx, port, server) = both();
    let own = server.addr().port();
    let mut rows = Rows::new();
    let known = "Authorization: Basic YW5uOm15UGFzc3dvcmQ=\r\n";
    for (line, fields) in [
        // Files come before the application, and not their folders.
        ("GET /a.txt", ""),
        ("GET /a.txt?q=1", ""),
        ("HEAD /a.txt", ""),
        ("GET /", ""),
        ("GET /none", ""),
        ("GET /none/b%20c?q=1&r=%2F", ""),
        ("HEAD /none", ""),
        ("DELETE /none", ""),
        ("GET /none/", ""),
        ("GET /media/a.txt", ""),
        ("GET /media/none", ""),
        ("GET /shop/new/", ""),
        ("GET /shop/old/", ""),
        // Hidden files but those that no expression is for.
        ("GET /.well-known/acme-challenge/token", ""),
        ("GET /.well-known/acme-challenge/none", ""),
        ("GET /.well-known/other", ""),
        ("GET /media/.hidden.html", ""),
        ("GET /shop/.none", ""),
        // Files by their paths without the extension.
        ("GET /clean/both", ""),
        ("GET /clean/both/", ""),
        ("GET /clean/both.html", ""),
        ("HEAD /clean/both?q", ""),
        ("GET /clean/folder", ""),
        ("GET /clean/none", ""),
        ("GET /clean/both.html/", ""),
        ("GET /folders/both", ""),
        ("GET /folders/both/", ""),
        ("GET /folders/one", ""),
        ("GET /folders/one.html", ""),
        // Times by the types of files.
        ("GET /timed/", ""),
        ("GET /timed/index.html", ""),
        ("GET /timed/a.css", ""),
        ("GET /timed/a.png", ""),
        ("GET /timed/a.txt", ""),
        ("GET /timed/none.css", ""),
        // The path of the fallback is one of the location.
        ("GET /@app", ""),
        ("GET /@app/x", ""),
        ("GET /closed/@app", ""),
        ("GET /closed/@app", known),
        ("GET /closed/a.txt", ""),
        ("GET /closed/a.txt", known),
        ("GET /closed/none", ""),
        ("GET /closed/none", known),
        // Case does not count.
        ("GET /a.css", ""),
        ("GET /a.CSS", ""),
        ("GET /none.css", ""),
        ("GET /None.MODULE", ""),
        ("GET /dump.sql", ""),
        ("GET /none.SQL", ""),
        ("GET /none.swP", ""),
        ("GET /none.Profile", ""),
        ("GET /x/uploads/a.php", ""),
        ("GET /x/UPLOADS/b/a.PHP", ""),
        // Fields of the upstream, which stand around the locations or in them.
        ("GET /q/a?b", ""),
        ("GET /healthz", ""),
        ("HEAD /healthz", ""),
        ("GET /json", ""),
        ("GET /go/a?b=c", ""),
    ] {
        let request = format!("{line} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{fields}\r\n");
        rows.check(line, facts(&sent(own, &request)), facts(&sent(port, &request)));
    }
    // What is stored is sent again, and what nginx keeps apart is not stored at all.
    for (path, is_stored) in [("/stored/a", true), ("/stored/a?b", true), ("/unstored/a?a=1", false)] {
        for (name, port) in [("nginx", port), ("taipan", own)] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
            let responses = [sent(port, &request), sent(port, &request)];
            let numbers = responses.each_ref().map(|response| field(response, "x-number"));
            rows.check(format!("{name} {path}"), numbers[0].is_some() && numbers[0] == numbers[1], is_stored);
        }
    }
}

#[test]
fn rewrites_set_the_query_that_nginx_sets() {
    // nginx adds the query of the request also where `$args` has put it: PHP finds the same twice.
    let told = "<?php $get = $_GET; ksort($get); echo basename(__FILE__), ' ', json_encode($get), ' ', $_SERVER['REQUEST_URI'];";
    let site = Site::new()
        .file("doku.php", told)
        .file("cgit.php", told)
        .file("lib/exe/fetch.php", told)
        .file("lib/exe/detail.php", told)
        .file("a.txt", "text")
        .file("_media/here.txt", "a file")
        .file("old/here.txt", "a file")
        .file("short/page.php", told)
        .file("short/sub.php", told)
        .file("short/sub/x", "a file in a folder")
        .file("dotless/page.php", told)
        .file("there/page.php", told);
    let _fpm = php_fpm(&site);
    let (_nginx, port, server) = beside(site, QUERIES);
    let own = server.addr().port();
    let mut rows = Rows::new();
    for target in [
        "/a.txt",
        "/wiki:start",
        "/wiki:start?do=edit&rev=1",
        "/wiki/a%20b",
        "/_media/wiki/logo.png",
        "/_media/logo.png?w=20",
        "/_media/here.txt",
        "/_media/a%26media=b%23c%2Bd",
        "/_media/%C3%A4",
        "/_detail/a.png?id=x",
        "/_export/xhtml/wiki:start",
        "/_export/x%26y/a/b?z",
        "/_export/x/",
        "/cgit/taipan/tree/src?h=main",
        "/cgit/taipan/",
        "/user/ann?name=eve",
        "/user/ann/x",
        "/first?own=2&x",
        "/first",
        "/bare?x=1",
        "/none?x=1",
        "/moved/a-b",
        "/moved/a-b?y=1",
        "/gone/a?y=1",
        "/old/here.txt",
        "/old/x?y",
        "/all/x?y",
        // Without the slash, they are pages of `location /`.
        "/gone",
        "/all?y",
        "/doku.php?id=a",
        "/short/page",
        "/short/page?x=1",
        "/short/page.php?x=1",
        "/short/sub",
        "/dotless/page?x",
        "/there/page?x",
    ] {
        // Without chunks.
        let request = format!("GET {target} HTTP/1.0\r\nHost: a.example\r\n\r\n");
        // nginx writes the port into the URL of a redirect.
        let of_nginx = facts(&sent(port, &request)).replace(&format!(":{port}"), "");
        rows.check(target, facts(&sent(own, &request)), of_nginx);
    }
}
