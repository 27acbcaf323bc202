//! Configurations of nginx, Apache, lighttpd and Caddy: what `taipan convert` makes of them is served, and decides as
//! the original does when it is read itself. Those that Debian ships are converted, too, and two of its servers run
//! beside.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use e2e::device::{self, bounded, example, page};
use e2e::upstream::upstream;
use e2e::{
    BackgroundProcess, Folder, Rows, Server, Site, TIMEOUT, command, debian_package, free_port, is_root,
    path_of, wait_until,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};

const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\n";
/// Of `ann` with the password `myPassword`.
const USERS: &str = "ann:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n";

/// `HOME` in the texts is the folder of the test. All of them say the same.
const SERVERS: &[(&str, &str)] = &[
    (
        "nginx",
        "events { worker_connections 100; }\nhttp {\n default_type text/plain;\n types { text/html html; }\n server {\n\
         listen 127.0.0.1:0;\n root HOME/www;\n index index.html;\n error_page 404 /missing.html;\n add_header X-Own yes always;\n\
         location /old/ { return 301 /new/$1; }\n location = /gone { return 410; }\n location /docs/ { alias HOME/docs/; autoindex on; }\n\
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
    serve(site(), server, text, if is_root() { "user = \"root\"\n" } else { "" })
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
    let whole = format!("{added}{}", conversion(&site, server));
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

/// What Apache does with the conditions of rules that reject requests, and with the files of WordPress, Drupal,
/// Nextcloud and Laravel.
#[test]
fn rules_of_apache_reject_what_their_conditions_find() {
    let server = converted(
        "apache",
        "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory HOME/www>\n\
         RewriteCond %{HTTP_REFERER} !^$\nRewriteCond %{HTTP_REFERER} !^https?://(www\\.)?a\\.example/ [NC]\n\
         RewriteRule \\.html$ - [F,NC]\n\
         RewriteCond %{HTTP_USER_AGENT} ^$ [OR]\nRewriteCond %{HTTP_USER_AGENT} (spider|bad.*bot) [NC]\nRewriteRule .* - [F]\n\
         RewriteCond %{REQUEST_METHOD} !^(GET|HEAD|POST)$\nRewriteRule ^ - [R=404]\n\
         RewriteCond %{REMOTE_ADDR} !^192\\.0\\.2\\.\nRewriteRule ^far/ - [F]\n\
         RewriteCond %{REQUEST_URI} ^/own/\nRewriteCond %{REQUEST_URI} !^/own/open\nRewriteRule ^ - [G]\n\
         RewriteCond %{HTTP:X-Own} ^(a|b)$\nRewriteRule ^ - [F]\n\
         RewriteCond %{HTTP:X-Only} y\nRewriteRule !\\.txt$ - [F]\n\
         RewriteRule ^(?:build|config)/.* - [R=404,L]\nRewriteRule ^(?:\\.(?!well-known)|occ).* - [R=404,L]\n\
         RewriteRule \"/\\.|^\\.(?!well-known/)\" - [F]\nRewriteRule ^(.+/.*|autoload)\\.php($|/) - [F]\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} (.+)/$\nRewriteRule ^ %1 [L,R=301]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_URI} !=/favicon.ico\nRewriteRule ^ index.html [L]\n\
         RewriteRule ^\\.well-known/(?!acme-challenge) /x.txt [L]\nRewriteRule ^dav /y/ [R=301,L]\n\
         Require all granted\n</Directory>\n<Directory HOME/www/near>\nRequire ip 127\n</Directory>\n\
         <FilesMatch \"\\.(inc|sql)(~|\\.sw[op])?$|^(composer\\.json|Root.*)$|^#\">\nRequire all denied\n</FilesMatch>\n\
         <LocationMatch \"^/docs/|/secret$\">\nRequire all denied\n</LocationMatch>\n",
    );
    let mut rows = Rows::new();
    let referer = |url: &str| format!("User-Agent: x\r\nReferer: {url}");
    for (request, fields, status) in [
        ("GET /", "User-Agent: x".to_owned(), 200),
        ("GET /", String::new(), 403),
        ("GET /", "User-Agent: My Spider".to_owned(), 403),
        ("GET /", "User-Agent: a BAD old bot".to_owned(), 403),
        ("GET /index.html", referer("https://www.a.example/x"), 200),
        ("GET /index.html", referer("http://b.example/"), 403),
        ("GET /index.html", referer("nothing"), 403),
        ("GET /near/x", referer("http://b.example/"), 200),
        ("DELETE /x.txt", "User-Agent: x".to_owned(), 404),
        // A folder with rules of its own has those of the server, too.
        ("GET /near/x", "User-Agent: x".to_owned(), 200),
        ("GET /near/x", "User-Agent: spider".to_owned(), 403),
        ("GET /near/x", "User-Agent: x\r\nX-Own: b".to_owned(), 403),
        ("GET /near/x", "User-Agent: x\r\nX-Own: c".to_owned(), 200),
        ("GET /near/x", "User-Agent: x\r\nX-Only: y".to_owned(), 403),
        ("GET /locked.txt", "User-Agent: x\r\nX-Only: y".to_owned(), 200),
        ("GET /far/x", "User-Agent: x".to_owned(), 403),
        ("GET /own/x", "User-Agent: x".to_owned(), 410),
        ("GET /own/open", "User-Agent: x".to_owned(), 200),
        ("GET /config/a", "User-Agent: x".to_owned(), 404),
        ("GET /.env", "User-Agent: x".to_owned(), 404),
        ("GET /near/.env", "User-Agent: x".to_owned(), 403),
        ("GET /occ", "User-Agent: x".to_owned(), 404),
        ("GET /.well-known/a", "User-Agent: x".to_owned(), 200),
        ("GET /near/a.php", "User-Agent: x".to_owned(), 403),
        ("GET /autoload.php", "User-Agent: x".to_owned(), 403),
        ("GET /t.php", "User-Agent: x".to_owned(), 200),
        ("GET /none", "User-Agent: x".to_owned(), 200),
        ("GET /favicon.ico", "User-Agent: x".to_owned(), 404),
        ("GET /dav", "User-Agent: x".to_owned(), 301),
        ("GET /davs/a", "User-Agent: x".to_owned(), 301),
        ("GET /a.inc", "User-Agent: x".to_owned(), 403),
        ("GET /near/a.sql.swp", "User-Agent: x".to_owned(), 403),
        ("GET /composer.json", "User-Agent: x".to_owned(), 403),
        ("GET /Rooted", "User-Agent: x".to_owned(), 403),
        ("GET /%23a", "User-Agent: x".to_owned(), 403),
        ("GET /docs/a", "User-Agent: x".to_owned(), 403),
        ("GET /a/secret", "User-Agent: x".to_owned(), 403),
        ("GET /a/secrets", "User-Agent: x".to_owned(), 200),
    ] {
        let fields = if fields.is_empty() { fields } else { format!("{fields}\r\n") };
        let found = server.request(format!("{request} HTTP/1.1\r\nHost: x\r\n{fields}\r\n")).status;
        rows.check(format!("{request} {fields:?}"), found, status);
    }
}

/// A path, the status, and a part of the content or of `Location`.
type Expected<'t> = (&'t str, u16, &'t str);

/// What Apache, lighttpd, nginx and Caddy do with paths that look like others.
#[test]
fn converted_paths_are_those_of_the_original() {
    let address = upstream(|mut stream, head| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let text = format!("upstream {path}");
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len())
    });
    let shared = "Listen 127.0.0.1:0\n<FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:HOME/none.sock|fcgi://localhost\"\n\
                  </FilesMatch>\nScriptAlias /cgi-bin/ HOME/www/cgi-bin/\nDocumentRoot HOME/www\n";
    let apache = |text: &str| format!("{shared}{}", text.replace("http://UPSTREAM", &address));
    let run =
        "fastcgi_pass unix:HOME/none.sock; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;";
    let nginx = |text: &str| {
        let text = text.replace("http://UPSTREAM", &address).replace("RUN", run);
        format!("server {{\nlisten 127.0.0.1:0;\nroot HOME/www;\n{text}}}\n")
    };
    let hash = USERS.trim().split_once(':').expect("a user").1;
    let caddy = |text: &str| {
        let text = text.replace("http://UPSTREAM", &address).replace("HASH", hash);
        format!("http://:0 {{\nbind 127.0.0.1\n{text}}}\n")
    };
    let port = address.rsplit(':').next().expect("a port");
    let lighttpd = |text: &str| {
        let text = text.replace("UPSTREAM", &format!("(( \"host\" => \"127.0.0.1\", \"port\" => {port} ))"));
        let begin = "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\n";
        format!("{begin}{text}")
    };
    let rows_of: &[(&str, String, &[Expected])] = &[
        (
            "apache",
            apache("ProxyPass /own !\nProxyPass /gone !\nProxyPass /x http://UPSTREAM/y\nProxyPass / http://UPSTREAM/\n<Location /far>\nRequire ip 192.0.2.1\n</Location>\nRedirect 404 /gone\n"),
            &[
                ("/", 200, "upstream /"),
                ("/index.php", 200, "upstream /index.php"),
                ("/cgi-bin/env", 200, "upstream /cgi-bin/env"),
                ("/x", 200, "upstream /y"),
                ("/x/a", 200, "upstream /y/a"),
                ("/far/x", 403, ""),
                ("/own/x", 200, "own"),
                ("/gone", 404, ""),
                ("/gone/index.php", 404, ""),
            ],
        ),
        (
            "apache",
            apache("RedirectMatch ^/$ /near/\nProxyPass /a http://UPSTREAM\n<Files x.txt>\nRequire all denied\n</Files>\n"),
            &[
                ("/", 302, "/near/"),
                ("/near/x", 200, "near"),
                ("/a/b?c", 200, "upstream /b?c"),
                ("/x.txt", 403, ""),
                ("/near/x.txt", 403, ""),
            ],
        ),
        // Rules of a server precede upstreams, aliases and programs, and those of a folder precede programs.
        (
            "apache",
            apache(
                "ProxyPassMatch ^/(x\\.php|own/.*\\.php)$ unix:HOME/none.sock|fcgi://localhost/HOME/www/\n\
                 ProxyPass /a/b http://UPSTREAM/\nAlias /a/c HOME/www/near\nRewriteRule ^/a/ - [F]\nRewriteRule \\.inc\\.php$ - [F]\n\
                 RewriteRule ^/x - [G]\n<Directory HOME/www>\nRewriteRule ^far/.*\\.php$ - [F]\n</Directory>\n\
                 <LocationMatch \"^/own/l\">\nRequire all denied\n</LocationMatch>\n<LocationMatch \"^/near/x$\">\nHeader set A b\n</LocationMatch>\n\
                 <FilesMatch \"^x\">\nRequire all denied\n</FilesMatch>\n",
            ),
            &[
                ("/t.php", 502, ""),
                ("/t.inc.php", 403, ""),
                ("/own/t.inc.php", 403, ""),
                ("/own/t.php", 502, ""),
                ("/own/l.php", 403, ""),
                ("/x.php", 410, ""),
                ("/a/t.php", 403, ""),
                ("/a/b/x", 403, ""),
                ("/a/c/x", 403, ""),
                ("/far/t.php", 403, ""),
                ("/far/t.txt", 404, ""),
                ("/near/x", 403, ""),
            ],
        ),
        // The source of a script that nothing runs is not sent.
        (
            "apache",
            apache(
                "DirectoryIndex t.php\nAddHandler cgi-script .sh\n<Directory HOME/www>\nOptions ExecCGI\n</Directory>\n\
                 <Directory HOME/www/own>\n<FilesMatch \"\\.(php|phar)$\">\nSetHandler none\n</FilesMatch>\n</Directory>\n\
                 <Location /near>\nSetHandler None\n</Location>\n\
                 RedirectMatch 404 ^/gone/\nAlias /gone/near HOME/www/near\n\
                 <LocationMatch \"^/far/\">\nRequire all denied\n</LocationMatch>\n<Location /far/a>\nHeader set A b\n</Location>\n",
            ),
            &[
                ("/gone/near/x", 404, ""),
                ("/far/x", 403, ""),
                ("/far/a/t.php", 403, ""),
                ("/t.sh", 200, "GATEWAY_INTERFACE"),
                ("/near/t.sh", 403, ""),
                ("/near/t.php", 403, ""),
                ("/near/", 403, ""),
                ("/near/x", 200, "near"),
                ("/own/t.php", 403, ""),
                ("/own/", 403, ""),
                ("/own/a/t.php", 403, ""),
                ("/own/x", 200, "own"),
                ("/t.php", 502, ""),
            ],
        ),
        // Scripts that are passed on first have a folder of their own, and the rest goes to another upstream.
        (
            "apache",
            apache(
                "ProxyPassMatch ^/(.*\\.php(/.*)?)$ unix:HOME/none.sock|fcgi://localhostHOME/www/$1\nProxyPass / http://UPSTREAM/\n",
            ),
            &[
                ("/", 200, "upstream /"),
                ("/t.php", 502, ""),
                ("/t.php/a", 502, ""),
                ("/near/t.php", 502, ""),
                ("/none.php", 404, ""),
                ("/near/x", 200, "upstream /near/x"),
            ],
        ),
        (
            "lighttpd",
            "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\nindex-file.names = ( \"index.html\" )\n\
             static-file.exclude-extensions = ( \".sh\" )\n$HTTP[\"url\"] =^ \"/cgi-bin/\" { cgi.assign = ( \"\" => \"\" ) }\n\
             url.redirect = ( \"^/old/(.*)\" => \"/new/$1\", \"^/app/$\" => \"/near/\" )\nauth.backend = \"htpasswd\"\n\
             auth.backend.htpasswd.userfile = \"HOME/users\"\n\
             $HTTP[\"url\"] =~ \"^/far/\" { auth.require = ( \"\" => ( \"method\" => \"basic\", \"realm\" => \"x\", \"require\" => \"valid-user\" ) ) }\n"
                .to_owned(),
            &[
                ("/", 200, "page"),
                ("/far/x", 401, ""),
                ("/cgi-bin/t.sh", 200, "GATEWAY_INTERFACE"),
                ("/t.sh", 403, ""),
                ("/old/a?b", 301, "/new/a?b"),
                ("/app/", 301, "/near/"),
                ("/app/x", 404, ""),
            ],
        ),
        (
            "nginx",
            nginx(
                "location ~ \\.php$ { RUN }\nlocation /far/ { location ~ \\.php$ { deny all; } }\n\
                 location /near { location ~ \\.php$ { return 410; } }\nlocation ^~ /own/ { proxy_pass http://UPSTREAM; }\n",
            ),
            &[
                ("/a.php", 502, ""),
                ("/far/a.php", 403, ""),
                ("/far/b/a.php", 403, ""),
                ("/near/a.php", 410, ""),
                ("/nearer.php", 410, ""),
                ("/own/a.php", 200, "upstream /own/a.php"),
            ],
        ),
        (
            "nginx",
            nginx(
                "index index.php index.html;\nlocation ~ \\.php$ { proxy_pass http://UPSTREAM; }\n\
                 location = /near/index.html { return 410; }\n",
            ),
            &[
                ("/", 200, "page"),
                ("/own/index.php", 200, "upstream /own/index.php"),
                ("/own/", 403, ""),
                ("/near/index.html", 410, ""),
                ("/near/", 403, ""),
            ],
        ),
        (
            "nginx",
            nginx(
                "location ~ ^/far/ { default_type text/plain; }\nlocation ~ \\.php$ { RUN }\n\
                 location ~ /\\.(?!well-known).* { deny all; }\n",
            ),
            &[("/far/a.php", 200, "source"), ("/near/a.php", 502, ""), ("/.env", 404, ""), ("/near/.env/x.php", 404, "")],
        ),
        (
            "nginx",
            nginx(
                "location /docs/ { alias HOME/docs/; }\nlocation ^~ /far/ { alias HOME/docs/; }\nlocation /gone/ { return 410; }\n\
                 location /own/ { proxy_pass http://UPSTREAM; }\nlocation ~ \\.html$ { default_type text/plain; }\n\
                 location ~ \\.php$ { RUN }\n",
            ),
            &[
                ("/a.php", 502, ""),
                ("/docs/one.html", 404, ""),
                ("/docs/a.php", 404, ""),
                ("/far/one.html", 200, "one"),
                ("/far/a.php", 200, "uploaded"),
                ("/gone/a.php", 410, ""),
                ("/gone/one.html", 410, ""),
                ("/own/index.php", 502, ""),
                ("/own/one.html", 404, ""),
                ("/own/x", 200, "upstream /own/x"),
            ],
        ),
        (
            "nginx",
            nginx("location / { location ~ \\.php$ { RUN } }\nlocation /far/ { }\n"),
            &[("/a.php", 502, ""), ("/near/a.php", 502, ""), ("/far/a.php", 200, "source")],
        ),
        // An upstream has all paths that begin with its text, but for those of which more is said.
        (
            "lighttpd",
            lighttpd(
                "proxy.server = ( \"/far\" => UPSTREAM, \"/own\" => UPSTREAM, \"/near/\" => UPSTREAM )\n\
                 $HTTP[\"url\"] =^ \"/owned/\" { url.access-deny = ( \"\" ) }\n",
            ),
            &[
                ("/far", 200, "upstream /far"),
                ("/far/x", 200, "upstream /far/x"),
                ("/farther", 200, "upstream /farther"),
                ("/farther/a.html", 200, "upstream /farther/a.html"),
                ("/own/x", 200, "upstream /own/x"),
                ("/owned/x", 403, ""),
                ("/near", 301, "/near/"),
                ("/near/x", 200, "upstream /near/x"),
            ],
        ),
        // Paths are rewritten before anything else is looked for, and what the pattern would send was not to be had.
        (
            "lighttpd",
            lighttpd(
                "url.rewrite-once = ( \"^/far/(.*)$\" => \"/near/$1\" )\n\
                 url.redirect = ( \"^/old\" => \"/near/\", \"^/(a|b)/?$\" => \"/far/\" )\n\
                 $HTTP[\"url\"] =~ \"\\.txt$\" { setenv.add-response-header = ( \"X-A\" => \"b\" ) }\n\
                 $HTTP[\"remoteip\"] != \"192.0.2.1\" { $HTTP[\"url\"] =~ \"^/docs/\" { url.access-deny = ( \"\" ) } }\n\
                 $HTTP[\"remoteip\"] == \"192.0.2.1\" { $HTTP[\"url\"] =~ \"^/gone/\" { url.access-deny = ( \"\" ) } }\n",
            ),
            &[
                ("/far/x", 200, "near"),
                ("/far/x.txt", 404, ""),
                ("/older/x?y", 301, "/near/"),
                ("/a", 301, "/far/"),
                ("/b/", 301, "/far/"),
                ("/a/b", 404, ""),
                ("/docs/a", 403, ""),
                ("/gone/a.php", 200, "gone"),
                ("/near/x", 200, "near"),
            ],
        ),
        // What is said about a folder is for what is within, too, whatever else is said about that.
        (
            "lighttpd",
            "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\nauth.backend = \"htpasswd\"\n\
             auth.backend.htpasswd.userfile = \"HOME/users\"\n\
             auth.require = ( \"/far\" => ( \"method\" => \"basic\", \"realm\" => \"x\", \"require\" => \"valid-user\" ) )\n\
             $HTTP[\"url\"] =^ \"/far/a/\" { setenv.add-response-header = ( \"X-A\" => \"b\" ) }\n\
             $HTTP[\"url\"] =^ \"/own/\" { url.access-deny = ( \"\" ) }\n$HTTP[\"url\"] =^ \"/own/a/\" { dir-listing.activate = \"enable\" }\n\
             $HTTP[\"url\"] == \"/own/x\" { setenv.add-response-header = ( \"X-A\" => \"b\" ) }\n\
             alias.url = ( \"/own/b/\" => \"HOME/www/near/\", \"/c/\" => \"HOME/www/near/\" )\n\
             $HTTP[\"url\"] =^ \"/c/t\" { setenv.add-response-header = ( \"X-A\" => \"b\" ) }\n\
             url.access-deny = ( \".bak\" )\n$HTTP[\"url\"] == \"/a.bak\" { setenv.add-response-header = ( \"X-A\" => \"b\" ) }\n"
                .to_owned(),
            &[
                ("/far/x", 401, ""),
                ("/far/a/t.php", 401, ""),
                ("/own/x", 403, ""),
                ("/own/a/t.php", 403, ""),
                ("/own/b/x", 403, ""),
                ("/c/x", 200, "near"),
                ("/c/t.php", 200, "source"),
                ("/a.bak", 403, ""),
                ("/near/x", 200, "near"),
            ],
        ),
        (
            "lighttpd",
            "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\nmimetype.assign = ( \".php\" => \"text/plain\" )\n\
             static-file.exclude-extensions = ( \".php\" )\n$HTTP[\"url\"] =^ \"/t\" { expire.url = ( \"\" => \"access plus 1 hours\" ) }\n\
             $HTTP[\"url\"] == \"/x.php\" { setenv.add-response-header = ( \"X-A\" => \"b\" ) }\n\
             $HTTP[\"url\"] =^ \"/near/x\" { url.access-deny = ( \".txt\" ) }\n\
             $HTTP[\"url\"] =^ \"/far/\" { url.access-deny = ( \"\" )\n proxy.server = ( \"\" => (( \"host\" => \"127.0.0.1\", \"port\" => 9 )) ) }\n\
             alias.url = ( \"/cgi-bin/a/\" => \"HOME/www/near/\" )\n$HTTP[\"url\"] =^ \"/cgi-bin/\" { cgi.assign = ( \"\" => \"\" ) }\n"
                .to_owned(),
            &[
                ("/t.php", 403, ""),
                ("/x.php", 403, ""),
                ("/near/x", 200, "near"),
                ("/near/x.txt", 403, ""),
                ("/far/x", 403, ""),
                ("/cgi-bin/env", 200, "GATEWAY_INTERFACE"),
                ("/cgi-bin/a/t.sh", 200, "GATEWAY_INTERFACE"),
                ("/cgi-bin/a/x.txt", 403, ""),
            ],
        ),
        (
            "lighttpd",
            "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\n\
             fastcgi.server = ( \".php\" => (( \"socket\" => \"HOME/none.sock\" )) )\n$HTTP[\"url\"] =^ \"/\" { url.access-deny = ( \"\" ) }\n"
                .to_owned(),
            &[("/t.php", 403, ""), ("/near/t.php", 403, ""), ("/near/x", 403, "")],
        ),
        (
            "caddy",
            caddy(
                "root * HOME/www\nphp_fastcgi unix/HOME/none.sock\nbasic_auth /far/* {\nann HASH\n}\nheader /far/a/* X-A b\n\
                 handle /far/b/* {\nreverse_proxy http://UPSTREAM\n}\nrespond /own/* 403\nheader /own/x X-A b\nheader /own/a/* X-A b\n\
                 reverse_proxy /own/b/* http://UPSTREAM\n@bak path *.bak\nrespond @bak 403\nheader /a.bak X-A b\nheader /a* X-A b\n\
                 handle /near/* {\nfile_server\n}\nhandle /x.php {\nfile_server\n}\nfile_server\n",
            ),
            &[
                ("/t.php", 502, ""),
                ("/none", 404, ""),
                ("/far/x", 401, ""),
                ("/far/a/t.php", 401, ""),
                ("/far/b/x", 401, ""),
                ("/own/x", 403, ""),
                ("/own/a/t.php", 403, ""),
                ("/own/b/x", 403, ""),
                ("/a.bak", 403, ""),
                ("/near/x", 200, "near"),
                ("/near/t.php", 403, ""),
                ("/near/none", 404, ""),
                ("/x.php", 403, ""),
            ],
        ),
        // A block without a path is for the rest, and the others have nothing of it.
        (
            "caddy",
            caddy(
                "root * HOME/www\nheader /x.txt X-A b\n@txt path *.txt\nheader @txt X-B c\n\
                 handle /near/* {\nfile_server\n}\nhandle_path /a/* {\nreverse_proxy http://UPSTREAM\n}\n\
                 handle /b/* {\nuri strip_prefix /b\nreverse_proxy http://UPSTREAM\n}\n\
                 @far {\nnot remote_ip 192.0.2.1\npath /far/*\n}\nhandle @far {\nrespond 403\n}\n\
                 handle {\nbasic_auth {\nann HASH\n}\ntry_files {path} /index.html\nfile_server browse\n}\n",
            ),
            &[
                ("/near/x", 200, "near"),
                ("/near/none", 404, ""),
                ("/a/x", 200, "upstream /x"),
                ("/b/x", 200, "upstream /x"),
                ("/far/x", 403, ""),
                ("/", 401, ""),
                ("/own/x", 401, ""),
                ("/none", 401, ""),
                ("/x.txt", 401, ""),
                ("/own/a.txt", 401, ""),
                ("/a.bak", 401, ""),
            ],
        ),
        (
            "caddy",
            caddy(
                "root * HOME/www\nphp_fastcgi unix/HOME/none.sock\n@one path /own/*\n\
                 handle_errors {\nrewrite * /missing.html\nfile_server\n}\n\
                 file_server {\nhide .git *.bak t.php docs/one.html www/near/x HOME/www/far\n}\n",
            ),
            &[
                ("/own/x", 200, "own"),
                ("/a.bak", 404, "not here"),
                ("/own/.git/x", 404, "not here"),
                ("/.git", 404, "not here"),
                ("/far/x", 404, "not here"),
                ("/near/x", 404, "not here"),
                ("/t.php", 502, ""),
            ],
        ),
        (
            "caddy",
            caddy(
                "root * HOME/www\nforward_auth /far/* http://UPSTREAM {\nuri /allow\ncopy_headers X-User\n}\n\
                 forward_auth /own/* 127.0.0.1:9 {\nuri /deny\n}\nhandle /far/a/* {\nreverse_proxy http://UPSTREAM\n}\n\
                 handle /own/a/* {\nreverse_proxy http://UPSTREAM\n}\nfile_server\n",
            ),
            &[
                ("/far/x", 200, "far"),
                ("/far/a/x", 200, "upstream /far/a/x"),
                ("/own/x", 502, ""),
                ("/own/a/x", 502, ""),
                ("/near/x", 200, "near"),
            ],
        ),
        // A proxy has no root. What else is said about its paths leaves them its own.
        (
            "caddy",
            caddy(
                "reverse_proxy http://UPSTREAM\nbasic_auth /far/* {\nann HASH\n}\nheader /own/* X-A b\nheader /x X-A b\n\
                 @css path *.css\nheader @css X-A b\nhandle_path /near/* {\nreverse_proxy http://UPSTREAM\n}\nheader /near/a/* X-A b\n\
                 handle /a/b/* {\nreverse_proxy http://UPSTREAM\n}\nhandle /a/* {\nrespond 403\n}\n",
            ),
            &[
                ("/", 200, "upstream /"),
                ("/far/x", 401, ""),
                ("/own/x", 200, "upstream /own/x"),
                ("/x", 200, "upstream /x"),
                ("/a.css", 200, "upstream /a.css"),
                ("/near/x", 200, "upstream /x"),
                ("/near/a/x", 200, "upstream /a/x"),
                ("/a/x", 403, ""),
                ("/a/b/x", 200, "upstream /a/b/x"),
            ],
        ),
    ];
    let mut rows = Rows::new();
    for (name, text, expected) in rows_of {
        let site = site().file("own/x", "own").file("near/x.txt", "denied").file("near/index.html", "denied");
        let site = site
            .script("t.sh", SCRIPT)
            .script("near/t.sh", SCRIPT)
            .script("cgi-bin/env", SCRIPT)
            .script("cgi-bin/t.sh", SCRIPT);
        let site = [
            "a.php",
            "far/a.php",
            "far/t.php",
            "near/a.php",
            "near/t.php",
            "own/a/t.php",
            "own/index.php",
            "own/l.php",
            "own/t.inc.php",
            "own/t.php",
            "t.inc.php",
            "t.php",
            "x.php",
        ]
        .iter()
        .fold(site, |site, path| site.file(path, "source"));
        let site = site.file_beside_root("docs/a.php", "uploaded").file("gone/a.php", "gone");
        let site = site.file(".env", "hidden").file("near/.env/x.php", "hidden");
        let server = serve(site, name, text, if is_root() { "user = \"root\"\n" } else { "" });
        for (path, status, part) in *expected {
            let response = server.get(path);
            let text = format!("{} {}", response.field("location").unwrap_or_default(), response.text());
            rows.check(format!("{name} {path}"), response.status, *status);
            rows.holds(format!("{name} {path}: {part}"), &text, text.contains(part));
        }
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

/// What `explain` prints, without where a rule stands.
fn explained(folder: &Path, file: &[&str], path: &str, from: &str) -> String {
    let mut explain = command();
    explain.args(["explain", "GET", path, "--from", from, "-c"]).args(file).current_dir(folder);
    let output = explain.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let kept = text.lines().filter(|line| !line.trim_start().starts_with("Date:"));
    kept.map(|line| line.split(", by the rule in").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn converted_configurations_decide_as_the_originals() {
    let mut rows = Rows::new();
    for (name, text) in SERVERS {
        let site = site();
        let home = site.home().to_owned();
        let site = site.file_beside_root("original", text.replace("HOME", &home.display().to_string()));
        let convert = command()
            .args(["convert", "original", "--from", name])
            .current_dir(&home)
            .output()
            .expect("it starts");
        fs::write(home.join("site.toml"), &convert.stdout).expect("it is our folder");
        for path in [
            "/",
            "/old/a?b",
            "/docs/",
            "/locked/x",
            "/locked.txt",
            "/a.bak",
            "/far/x",
            "/missing",
            "/../etc/passwd",
            "/old",
            "/old/",
            "/older",
            "/gone",
            "/docs",
            "/docs/one.html",
            "/docs/none",
            "/docs/../a.bak",
            "/%64ocs/one.html",
            "/locked",
            "/locked/",
            "/%6cocked/x",
            "//locked//x",
            "/locked/../locked/x",
            "/near/x",
            "/near",
            "/far",
            "/far/a.bak",
            "/a.bak/x",
            "/A.BAK",
            "/index.html",
        ] {
            for from in ["127.0.0.1", "192.0.2.1"] {
                let original = explained(&home, &["original", "--dialect", name], path, from);
                assert!(original.contains("request "), "{name} {path}: {original}");
                rows.check(
                    format!("{name} {path} {from}"),
                    explained(&home, &["site.toml"], path, from).as_str(),
                    original.as_str(),
                );
            }
        }
        drop(site);
    }
}

#[test]
fn a_conversion_that_left_something_out_does_not_serve() {
    let home = Folder::new();
    home.file("nginx.conf", "server { root /srv;\nlocation /a/ { auth_request /check; } }\n");
    let convert =
        command().args(["convert", "nginx.conf"]).current_dir(home.path()).output().expect("it starts");
    assert_eq!(convert.status.code(), Some(1));
    home.file("site.toml", String::from_utf8(convert.stdout).expect("it is text"));
    for arguments in [&["check", "-c", "site.toml"][..], &["-c", "site.toml"]] {
        let output = command().args(arguments).current_dir(home.path()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("this was not converted: line 2: "), "{said}");
    }
}

/// The result of a conversion: whether it succeeded, the text, and what was said.
fn convert(file: &Path, from: &str) -> (bool, String, String) {
    let output = command().arg("convert").arg(file).args(["--from", from]).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

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

fn port_of(server: &Server) -> u16 {
    let url = server.url("");
    url.trim_end_matches('/').rsplit(':').next().and_then(|port| port.parse().ok()).expect("it has a port")
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
    let own = port_of(&server);
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
    let own = port_of(&server);
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

#[test]
fn a_file_that_is_no_configuration_is_refused_at_once() {
    let home = Folder::new();
    home.file("large.conf", "a ".repeat(1 << 20));
    let fifo = home.path().join("fifo.conf");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("the folder is ours");
    let mut rows = Rows::new();
    for server in ["boa", "thttpd", "nginx", "apache", "lighttpd", "caddy"] {
        let (succeeds, _, said) = convert(&home.path().join("large.conf"), server);
        rows.check(format!("{server} large"), succeeds, false);
        rows.holds(format!("{server} large"), &said, said.contains("it has more than 1 MiB"));
        // Nothing writes into it.
        let (_, _, said) = convert(&fifo, server);
        rows.holds(format!("{server} pipe"), &said, !said.contains("panic"));
        let (_, _, said) = convert(Path::new("/dev/zero"), server);
        rows.holds(format!("{server} device"), &said, said.contains("it has more than 1 MiB"));
        let (succeeds, _, _) = convert(home.path(), server);
        rows.check(format!("{server} folder"), succeeds, false);
    }
}

#[test]
fn names_the_line_and_the_column_of_another_encoding() {
    let home = Folder::new();
    // ISO 8859-1 has one byte for each of these characters.
    let latin = |text: &str| text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect::<Vec<u8>>();
    let mut rows = Rows::new();
    for (server, text, place) in [
        ("boa", "# é\nPort 80\nDocumentRoot /srv/é\n", "3: the character in column 19 "),
        ("thttpd", "# é\nport=80\ndir=/srv/é\n", "3: the character in column 10 "),
        ("busybox", "# é\nH:/srv/é\n", "2: the character in column 8 "),
        ("uhttpd", "# é\nconfig uhttpd main\n\toption home '/srv/é'\n", "3: the character in column 20 "),
        (
            "nginx",
            "# é\nserver {\n listen 80; # é\n # é\n root /srv/é;\n}\n",
            "5: the character in column 12 ",
        ),
        ("apache", "# é\nDocumentRoot /srv/é\n", "2: the character in column 19 "),
        ("lighttpd", "# é\nserver.document-root = \"/srv/é\"\n", "2: the character in column 30 "),
        ("caddy", ":80 {\n\t# é\n\troot * /srv/é\n}\n", "3: the character in column 14 "),
    ] {
        let file = home.file(&format!("{server}.conf"), latin(text));
        let (succeeds, _, said) = convert(&file, server);
        let expected = format!("{server}.conf:{place}is not UTF-8; save the file as UTF-8\n");
        rows.check(server, succeeds, false);
        rows.holds(server, &said, said.contains(&expected));
        rows.check(server, said.matches("UTF-8;").count(), 1);
    }
    // An included file.
    let included = home.file("sites/é.conf", latin("server {\n root /srv/é;\n}\n"));
    let file = home.file("nginx.conf", "http {\n include sites/*;\n}\n");
    let (succeeds, _, said) = convert(&file, "nginx");
    let expected = format!("nginx.conf:2: {}:2: the character in column 12 is not", included.display());
    rows.check("included", succeeds, false);
    rows.holds("included", &said, said.contains(&expected));
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
        let user = if is_root() { "user = \"root\"\n" } else { "" };
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
