//! What Apache, lighttpd, nginx and Caddy do with paths, when what is converted is served.

use std::io::Write;

use e2e::upstream::upstream;

use super::*;

/// What Apache does with the conditions of rules that reject requests, and with the files of WordPress, Drupal,
/// Nextcloud and Laravel.
#[test]
fn rules_of_apache_reject_what_their_conditions_find() {
    let server = converted(
        "apache",
        "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory HOME/www>\nRewriteEngine On\n\
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

/// A path, whether it is requested with a password, and the status.
type Answer = (&'static str, bool, u16);

/// Of several sections for the same file, the last one counts, as Apache orders them.
#[test]
fn files_of_several_sections_of_apache_have_what_the_last_one_says() {
    let user = "AuthType Basic\nAuthName x\nAuthUserFile HOME/users\nRequire valid-user\n";
    let (mine, other, denied) = ("Require ip 127\n", "Require ip 192.0.2.1\n", "Require all denied\n");
    let files = |name: &str, inner: &str| format!("<Files \"{name}\">\n{inner}</Files>\n");
    let paths = |text: &str, inner: &str| format!("<LocationMatch \"{text}\">\n{inner}</LocationMatch>\n");
    let folders =
        |text: &str, inner: &str| format!("<DirectoryMatch \"{text}\">\n{inner}</DirectoryMatch>\n");
    let mut rows = Rows::new();
    let expected: &[(String, &[Answer])] = &[
        (
            files("locked.txt", user) + &files("*.txt", other),
            &[("/locked.txt", true, 403), ("/missing.html", false, 200)],
        ),
        (files("*.txt", other) + &files("l*", mine), &[("/locked.txt", false, 200), ("/x.txt", false, 403)]),
        (
            files("*.txt", mine) + &files("l*", other),
            &[("/locked.txt", false, 403), ("/index.html", false, 200)],
        ),
        (
            paths("/locked", denied) + &files("l*", user),
            &[("/locked.txt", true, 403), ("/locked/x", true, 403), ("/far/x", false, 200)],
        ),
        (
            paths("^/(near|far)/", denied) + &folders("/(n|f)(e|)ar/", "Require all granted\n"),
            &[("/near/x", false, 403), ("/missing.html", false, 200)],
        ),
        (
            folders("/www/lo", "Require all granted\n") + &files("*.txt", denied) + &files("l*", user),
            &[("/locked.txt", false, 401), ("/locked.txt", true, 200), ("/x.txt", true, 403)],
        ),
        // One of a rule and a user is enough in a folder, and not for what is denied everywhere.
        (
            files("*.txt", denied) + &format!("<Directory HOME/www>\n{user}{other}</Directory>\n"),
            &[("/locked.txt", true, 403), ("/missing.html", true, 200), ("/missing.html", false, 401)],
        ),
        (
            files("*.txt", denied) + &format!("<Directory HOME/www/near>\n{user}{other}</Directory>\n"),
            &[("/near/x.txt", true, 403), ("/near/x", true, 200), ("/near/x", false, 401)],
        ),
        (
            files("x", &format!("{user}{other}")) + "<Location /near>\nRequire all denied\n</Location>\n",
            &[("/near/x", true, 403), ("/far/x", true, 200), ("/far/x", false, 401)],
        ),
        (
            format!("<Location />\n{user}{mine}</Location>\n")
                + "<Location /near>\nRequire user bob\n</Location>\n",
            &[("/near/x", false, 401), ("/near/x", true, 403), ("/far/x", false, 200)],
        ),
        (
            files("*.txt", mine) + &format!("<Location />\n{denied}</Location>\n"),
            &[("/locked.txt", false, 403), ("/far/x", false, 403)],
        ),
        // A location goes over files, even if it says what is said around.
        (
            format!("<Directory HOME/www>\n{denied}</Directory>\n")
                + &files("*", mine)
                + &format!("<Location /near>\n{denied}</Location>\n"),
            &[("/near/x", false, 403), ("/far/x", false, 200)],
        ),
        // The requirement of the folder counts beside a list of files.
        (
            format!("<Directory />\n{denied}</Directory>\n") + &files("*.txt", "Allow from all\n"),
            &[("/locked.txt", false, 403)],
        ),
        // Of expressions of folders, the one with more slashes counts.
        (
            folders("/www/near", denied) + &folders("/near", "Require all granted\n"),
            &[("/near/x", false, 403), ("/far/x", false, 200)],
        ),
        // What mod_access_compat knows of a section is replaced as a whole.
        (
            format!("<Location />\n{user}Allow from all\nSatisfy any\n</Location>\n")
                + "<Location /near>\nAllow from 127\n</Location>\n",
            &[("/near/x", false, 401), ("/near/x", true, 200), ("/far/x", false, 200)],
        ),
    ];
    for (text, requests) in expected {
        let text = format!("Listen 127.0.0.1:0\nDocumentRoot HOME/www\n{text}");
        let server = converted("apache", &text);
        for (path, has_password, status) in *requests {
            let fields = if *has_password { "Authorization: Basic YW5uOm15UGFzc3dvcmQ=\r\n" } else { "" };
            let found = server.request(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n")).status;
            rows.check(format!("{text}: {path} {has_password}"), found, *status);
        }
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
                 ProxyPass /a/b http://UPSTREAM/\nAlias /a/c HOME/www/near\nRewriteEngine On\nRewriteRule ^/a/ - [F]\nRewriteRule \\.inc\\.php$ - [F]\n\
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
            nginx("location / {\ntry_files $uri /missing.html;\n}\nlocation ~ ^/own/index\\.php(/|$) {\nRUN\n}\nlocation /far/t.php {\nRUN\n}\n"),
            &[
                ("/own/index.php", 502, ""),
                ("/own/index.php/", 502, ""),
                ("/own/index.php/a/b.css", 502, ""),
                ("/own/index.phpx", 200, "not here"),
                ("/far/t.php/a", 502, ""),
            ],
        ),
        // What is below a folder that may stand anywhere.
        (
            "nginx",
            nginx("location / {\nproxy_pass http://UPSTREAM;\n}\nlocation ~ /(\\.git|data)(/|$) {\ndeny all;\n}\nlocation ~ \\.php(/|$) {\ndeny all;\n}\n"),
            &[
                ("/data", 403, ""),
                ("/x/data/a", 403, ""),
                ("/x/%64ata//a/b.txt", 403, ""),
                ("/x/.git/config", 403, ""),
                ("/x/database", 200, "upstream"),
                ("/a.php", 403, ""),
                ("/a.php/x", 403, ""),
                ("/a.phpx", 200, "upstream"),
            ],
        ),
        (
            "apache",
            apache("<DirectoryMatch \"/(far|docs)(/|$)\">\nRequire all denied\n</DirectoryMatch>\n<LocationMatch \"/(near|own)(/|$)\">\nRequire all denied\n</LocationMatch>\n<Directory HOME/www>\nRequire all granted\n</Directory>\n"),
            &[
                ("/far/x", 403, ""),
                ("/near/x", 403, ""),
                ("/near/x.txt", 403, ""),
                ("/own/index.php", 403, ""),
                ("/a/own/x/y", 403, ""),
                ("/missing.html", 200, "not here"),
            ],
        ),
        // The folder of an alias, found by the name that it has on the disk.
        (
            "apache",
            apache(
                "Alias /manual HOME/docs\n<DirectoryMatch \"(HOME/docs|HOME/none)\">\nRequire ip 192.0.2.0/24\n\
                 </DirectoryMatch>\n<DirectoryMatch \"^HOME/[^/]+/far/\">\nRequire all denied\n</DirectoryMatch>\n\
                 <Directory HOME/docs>\nRequire all granted\n</Directory>\n\
                 <Directory HOME/docs/later>\nRequire all granted\n</Directory>\n",
            ),
            &[
                ("/manual/one.html", 403, ""),
                ("/manual/later/x", 403, ""),
                ("/far/x", 403, ""),
                ("/near/x", 200, "near"),
            ],
        ),
        (
            "lighttpd",
            lighttpd("$HTTP[\"url\"] =~ \"/(near|own)(/|$)\" {\nurl.access-deny = ( \"\" )\n}\n"),
            &[("/near/x", 403, ""), ("/a/own/x", 403, ""), ("/far/x", 200, "far")],
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
        // Expressions precede prefixes, also longer ones.
        (
            "nginx",
            nginx(
                "location /far/ { allow all; }\nlocation ~ ^/far/ { deny all; }\nlocation ~ ^/(near|none)/ { deny all; }\n\
                 location /near/x { allow all; }\nlocation ^~ /own/ { allow all; }\nlocation ~ ^/own/ { deny all; }\n",
            ),
            &[("/far/x", 403, ""), ("/far/a.php", 403, ""), ("/near/x", 403, ""), ("/own/x", 200, "own")],
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
        let server = serve(site, name, text, own_user());
        for (path, status, part) in *expected {
            let response = server.get(path);
            let text = format!("{} {}", response.field("location").unwrap_or_default(), response.text());
            rows.check(format!("{name} {path}"), response.status, *status);
            rows.holds(format!("{name} {path}: {part}"), &text, text.contains(part));
        }
    }
}
