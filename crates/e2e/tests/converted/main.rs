//! Configurations of nginx, Apache, lighttpd and Caddy: what `taipan convert` makes of them is served, and decides as
//! the original does when it is read itself. Those that Debian ships are converted, too, and two of its servers run
//! beside.

mod authorizers;
mod classes;
mod debian;
mod explained;
mod paths;
mod refused;
mod sections;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use e2e::device::{self, bounded, example, page};
use e2e::{BackgroundProcess, Folder, Rows, Server, Site, TIMEOUT, command, own_user, wait_until};

const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\n";

/// Of `ann` with the password `myPassword`.
const USERS: &str = "ann:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n";

/// `HOME` in the texts is the folder of the test. All of them say the same.
const SERVERS: &[(&str, &str)] = &[
    (
        "nginx",
        "events { worker_connections 100; }\nhttp {\n default_type text/plain;\n types { text/html html; }\n server {\n\
         listen 127.0.0.1:0;\n root HOME/www;\n index index.html;\n error_page 404 /missing.html;\n add_header X-Own yes always;\n\
         location ~ ^/old/(.*)$ { return 301 /new/$1; }\n location = /gone { return 410; }\n location /docs/ { alias HOME/docs/; autoindex on; }\n\
         location /locked { auth_basic x; auth_basic_user_file HOME/users; }\n location ~ \\.bak$ { deny all; }\n\
         location /near/ { allow 127.0.0.1; deny all; }\n location /far/ { allow 192.0.2.1; deny all; }\n }\n}\n",
    ),
    (
        "apache",
        "Listen 127.0.0.1:0\nDocumentRoot HOME/www\nDirectoryIndex index.html\nErrorDocument 404 /missing.html\nHeader always set X-Own yes\n\
         <Directory />\nOptions None\nRequire all granted\n</Directory>\n\
         Redirect 301 /old /new\nRedirect gone /gone\nAlias /docs HOME/docs\n<Directory HOME/docs>\nOptions Indexes\n</Directory>\n\
         <Location /locked>\nAuthType Basic\nAuthName x\nAuthUserFile HOME/users\nRequire valid-user\n</Location>\n\
         <LocationMatch \"^/locked[^/]\">\nRequire all denied\n</LocationMatch>\n\
         <FilesMatch \"\\.bak$\">\nRequire all denied\n</FilesMatch>\n<Location /near>\nRequire ip 127\n</Location>\n\
         <Location /far>\nOrder deny,allow\nDeny from all\nAllow from 192.0.2.1\n</Location>\n",
    ),
    (
        "lighttpd",
        "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\nindex-file.names = ( \"index.html\" )\n\
         mimetype.assign = ( \".html\" => \"text/html\" )\nsetenv.add-response-header = ( \"X-Own\" => \"yes\" )\n\
         url.redirect = ( \"^/old/(.*)$\" => \"/new/$1\" )\nalias.url = ( \"/docs/\" => \"HOME/docs/\" )\n\
         $HTTP[\"url\"] =^ \"/docs/\" { dir-listing.activate = \"enable\" }\nauth.backend = \"htpasswd\"\n\
         auth.backend.htpasswd.userfile = \"HOME/users\"\nauth.require = ( \"/locked\" => ( \"method\" => \"basic\", \"realm\" => \"x\", \"require\" => \"valid-user\" ) )\n\
         url.access-deny = ( \".bak\" )\n$HTTP[\"url\"] =^ \"/far/\" {\n $HTTP[\"remoteip\"] != \"192.0.2.1\" { url.access-deny = ( \"\" ) }\n}\n",
    ),
    (
        "caddy",
        "http://:0 {\n bind 127.0.0.1\n root * HOME/www\n header X-Own yes\n redir /old/* /new/{path} 301\n respond /gone 410\n\
         handle_path /docs/* {\n root * HOME/docs\n file_server browse\n }\n basic_auth /locked* {\n ann $2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n }\n\
         @bak path *.bak\n respond @bak 403\n @far {\n path /far/*\n not remote_ip 192.0.2.1\n }\n respond @far 403\n file_server\n}\n",
    ),
];

fn site() -> Site {
    Site::new()
        .file("index.html", "page")
        .file("missing.html", "not here")
        .file("locked/x", "secret")
        .file("locked.txt", "secret, too")
        .file("a.bak", "old")
        .file("near/x", "near")
        .file("far/x", "far")
        .file_beside_root("docs/one.html", "one")
        .file_beside_root("users", USERS)
}

/// Converts the configuration, and serves the result.
fn converted(server: &str, text: &str) -> Server {
    // Root needs an account to serve as.
    serve(site(), server, text, own_user())
}

/// The result of a conversion: whether it succeeded, the text, and what was said.
fn convert(file: &Path, from: &str) -> (bool, String, String) {
    let output = command().arg("convert").arg(file).args(["--from", from]).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// What the file `original` of a site becomes.
fn conversion(site: &Site, server: &str) -> String {
    let output = command()
        .args(["convert", "original", "--from", server])
        .current_dir(site.home())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{server}: {said}");
    String::from_utf8(output.stdout).expect("TOML is UTF-8")
}

/// With lines in front of the result.
fn serve(site: Site, server: &str, text: &str, added: &str) -> Server {
    let home = site.home().display().to_string();
    let site = site.file_beside_root("original", text.replace("HOME", &home));
    let program = command().get_program().to_string_lossy().into_owned();
    // The account is among the lines in front.
    let text = conversion(&site, server).replace("user = \"nobody\"\n", "");
    let text = text.replace("/usr/bin/taipan", &program);
    let whole = format!("{added}{text}");
    fs::write(site.home().join("site.toml"), whole).expect("it is our folder");
    site.start_with(1, |site| {
        let mut taipan = command();
        taipan.args(["-c", "site.toml"]).current_dir(site.home());
        taipan
    })
}

#[test]
fn converted_configurations_are_served() {
    let mut rows = Rows::new();
    for (name, text) in SERVERS {
        let server = converted(name, text);
        let get = |path: &str| {
            let response = server.get(path);
            (response.status, response.text())
        };
        rows.check(format!("{name} page"), get("/"), (200, "page".to_owned()));
        rows.check(format!("{name} field"), server.get("/").field("x-own"), Some("yes"));
        let redirect = server.get("/old/a");
        rows.check(format!("{name} redirect"), redirect.status, 301);
        rows.check(
            format!("{name} location"),
            redirect.field("location").is_some_and(|to| to.starts_with("/new/")),
            true,
        );
        rows.check(format!("{name} alias"), get("/docs/one.html"), (200, "one".to_owned()));
        rows.check(format!("{name} listing"), get("/docs/").1.contains("one.html"), true);
        rows.check(format!("{name} no listing"), get("/near/").0 >= 400, true);
        rows.check(format!("{name} far"), get("/far/x").0, 403);
        rows.check(format!("{name} near"), get("/near/x"), (200, "near".to_owned()));
        for path in ["/locked/x", "/locked.txt", "/locked/none", "/%6cocked/x", "//locked/x"] {
            rows.check(format!("{name} {path}"), matches!(get(path).0, 401 | 403), true);
        }
        let known = "GET /locked/x HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YW5uOndyb25n\r\n\r\n";
        rows.check(format!("{name} wrong password"), server.request(known).status, 401);
        for path in ["/a.bak", "/none.bak", "/a.bak/x", "/near/../a.bak"] {
            rows.check(format!("{name} {path}"), get(path).0 >= 400, true);
        }
        rows.check(format!("{name} denied"), get("/a.bak").0, 403);
    }
}

/// The examples of devices, with the folders of the test in place of those of the device.
#[test]
fn the_devices_of_the_manual_are_served_in_little_memory() {
    let mut rows = Rows::new();
    // The example of a whole site is the first.
    let page = page("from-nginx.md");
    let (_, page) = page.split_once("## Devices").expect("the page has them");
    for server in ["lighttpd", "nginx", "apache", "caddy"] {
        let site = site()
            .script("cgi-bin/env", SCRIPT)
            .file("own.sh", "source")
            .script_beside_root("scripts/env", SCRIPT);
        let home = site.home().display().to_string();
        let mut wrap = command();
        wrap.current_dir(&home).args(["fcgi-wrap", "--socket", "fcgi.sock", "--folder", "www"]);
        let socket = site.home().join("fcgi.sock");
        let _wrapper = BackgroundProcess::listening(&mut wrap, &socket);
        // The account that serves may connect.
        fs::set_permissions(&socket, Permissions::from_mode(0o777)).expect("it is our socket");
        let text = example(page, server)
            .replace("server.port = 80\n", "server.port = 0\nserver.bind = \"127.0.0.1\"\n")
            .replace("listen 80;", "listen 127.0.0.1:0;")
            .replace("Listen 80\n", "Listen 127.0.0.1:0\n")
            .replace("http://:80 {\n", "http://:0 {\n    bind 127.0.0.1\n")
            .replace("/www-cgi", &format!("{home}/scripts"))
            .replace("/run/fcgiwrap.sock", &format!("{home}/fcgi.sock"))
            .replace("\"/www\"", &format!("\"{home}/www\""));
        let text =
            text.replace(" /www;", &format!(" {home}/www;")).replace(" /www\n", &format!(" {home}/www\n"));
        let text = text.replace(" /www>", &format!(" {home}/www>"));
        // A logger of the test, in place of the device's.
        let text = text.replace("/usr/bin/logger -t httpd", &format!("/usr/bin/tee -a {home}/log"));
        let site = site.file_beside_root("original", text);
        let converted = conversion(&site, server);
        let user = if converted.contains("\nuser = ") { "" } else { "user = \"nobody\"\n" };
        let whole = format!("{user}{}", bounded(&converted));
        fs::write(site.home().join("site.toml"), whole).expect("it is our folder");
        device::check(&mut rows, server, &site);
        let server_process = site.start_with(1, |site| {
            let mut taipan = command();
            taipan.args(["-c", "site.toml"]).current_dir(site.home());
            taipan
        });
        rows.check(format!("{server} page"), server_process.get("/").text().as_str(), "page");
        let script = server_process.get("/cgi-bin/env").text();
        rows.holds(format!("{server} script"), &script, script.contains("GATEWAY_INTERFACE=CGI/1.1"));
        if server == "lighttpd" {
            rows.check("source", server_process.get("/own.sh").status, 403);
        }
    }
}

#[test]
fn local_time_is_that_of_the_machine_in_converted_logs() {
    let mut rows = Rows::new();
    for (from, text) in [
        ("nginx", "http {\n access_log HOME/log;\n server {\n listen 127.0.0.1:0;\n root HOME/www;\n }\n}\n"),
        ("nginx", "http {\n server {\n listen 127.0.0.1:0;\n access_log HOME/log;\n root HOME/www;\n }\n}\n"),
        (
            "apache",
            "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory />\nRequire all granted\n</Directory>\n\
             CustomLog HOME/log common\n",
        ),
        (
            "lighttpd",
            "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\n\
             accesslog.filename = \"HOME/log\"\n",
        ),
    ] {
        let site = Site::new().file("a.txt", "a");
        let home = site.home().display().to_string();
        let site = site.file_beside_root("original", text.replace("HOME", &home));
        let output = command()
            .args(["convert", "original", "--from", from])
            .current_dir(site.home())
            .output()
            .expect("it starts");
        let user = own_user();
        let config = format!("{user}{}", String::from_utf8_lossy(&output.stdout));
        fs::write(site.home().join("site.toml"), config).expect("it is our folder");
        let server = site.start_with(1, |site| {
            let mut taipan = command();
            taipan.args(["-c", "site.toml"]).current_dir(site.home()).env("TZ", "<+03>-3");
            taipan
        });
        server.get("/a.txt");
        let log = server.home().join("log");
        let has_line = || fs::read_to_string(&log).is_ok_and(|text| text.contains(" +0300] \"GET /a.txt "));
        rows.check(from, wait_until(TIMEOUT, has_line), true);
    }
}
