//! What configurations of nginx, lighttpd, Apache and Caddy become, and that it can be read.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use dialects::{Conversion, Disk, Severity, Web};

/// Files by their paths.
struct Files(BTreeMap<PathBuf, String>);

impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        Files(files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect())
    }
}

impl Disk for Files {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.get(path).map(|text| text.clone().into_bytes()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn folders(&self, path: &Path) -> Vec<String> {
        let below = self.0.keys().filter_map(|file| file.parent()?.strip_prefix(path).ok());
        let first = below
            .filter_map(|rest| Some(rest.components().next()?.as_os_str().to_string_lossy().into_owned()));
        first.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.0.keys().any(|file| file.parent() == Some(path))
    }

    fn is_file(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn expand(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let text = pattern.to_string_lossy();
        Ok(match text.split_once('*') {
            None => self.0.keys().filter(|path| *path == pattern).cloned().collect(),
            Some((before, after)) => {
                let matches = |path: &&PathBuf| {
                    let path = path.to_string_lossy();
                    path.starts_with(before) && path.ends_with(after)
                };
                self.0.keys().filter(matches).cloned().collect()
            }
        })
    }
}

/// The text of a conversion, and any other file.
struct Text<'t>(&'t Path, &'t str);

impl site::config::Source for Text<'_> {
    fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        Ok(if path == self.0 { self.1.into() } else { Vec::new() })
    }

    fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// A conversion that can be read.
fn converted(web: Web, file: &str, files: &[(&str, &str)]) -> Conversion {
    let conversion = web.convert(Path::new(file), &Files::new(files));
    let read = site::config::read(&conversion.file, &Text(&conversion.file, &conversion.text));
    if let Err(errors) = read
        && !conversion.is_refused()
    {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}\n{}", errors.join("\n"), conversion.text);
    }
    conversion
}

/// Rows: a configuration, and lines that it becomes.
fn check(web: Web, rows: &[(&str, &[&str])]) {
    for (text, expected) in rows {
        let conversion = converted(web, "/etc/x/conf", &[("/etc/x/conf", text)]);
        assert!(!conversion.is_refused(), "{text}\n{}", conversion.text);
        let mut lines = conversion.text.lines();
        for wanted in *expected {
            assert!(lines.any(|line| line == *wanted), "{wanted}\nis not in order in\n{}", conversion.text);
        }
    }
}

/// Rows: a configuration, and lines that it does not become.
fn lacks(web: Web, rows: &[(&str, &[&str])]) {
    for (text, unwanted) in rows {
        let conversion = converted(web, "/etc/x/conf", &[("/etc/x/conf", text)]);
        for line in *unwanted {
            assert!(conversion.text.lines().all(|own| own != *line), "{line}\nis in\n{}", conversion.text);
        }
    }
}

/// Rows: a configuration, and the line and a part of what is said about it.
fn refuse(web: Web, rows: &[(&str, u32, &str)]) {
    for (text, line, part) in rows {
        let conversion = converted(web, "/etc/x/conf", &[("/etc/x/conf", text)]);
        let found = conversion.findings.iter().any(|finding| {
            finding.severity == Severity::Error && finding.line == Some(*line) && finding.what.contains(part)
        });
        assert!(found, "{text}\n{:#?}", conversion.findings);
    }
}

#[test]
fn converts_nginx() {
    check(
        Web::Nginx,
        &[
            (
                "server { listen 8080 default_server; server_name example.org .example.net; root /srv/www; index a.html; }",
                &[
                    "listen = [\"0.0.0.0:8080\"]",
                    "[[host]]",
                    "root = \"/srv/www\"",
                    "index = [\"a.html\"]",
                    "names = [\"example.org\", \"example.net\", \"*.example.net\"]",
                    "default = true",
                ],
            ),
            (
                "http { gzip on; server { root www; location /a/ { alias /srv/b/; autoindex on; } location = /x { return 410; } \
             location ~ \\.(bak|old)$ { deny all; } location /app { proxy_pass http://127.0.0.1:3000; } } }",
                &[
                    "compress = true",
                    "[[application]]",
                    "address = [\"127.0.0.1:3000\"]",
                    "root = \"/etc/x/www\"",
                    "path = \"/a/\"",
                    "alias = \"/srv/b\"",
                    "listing = true",
                    "path = \"/x\"",
                    "return = 410",
                    "path = \"*.bak\"",
                    "then = \"deny\"",
                    "path = \"*.old\"",
                    "path = \"/app/\"",
                    "proxy = \"http://http\"",
                    "proxy_host = \"127.0.0.1:3000\"",
                    "path = \"/app\"",
                ],
            ),
            (
                "http { upstream app { least_conn; server 10.0.0.1:80 weight=3 max_fails=2 fail_timeout=10s; server unix:/run/a.sock; } \
             limit_req_zone $binary_remote_addr zone=one:10m rate=10r/m;\n\
             server { listen [::]:80; root /srv; client_max_body_size 8m; location /api/ { proxy_pass http://app/v1/; \
             proxy_set_header Host $host; limit_req zone=one burst=5 nodelay; limit_rate 100k; proxy_read_timeout 5m; } } }",
                &[
                    "listen = [\"[::]:80\"]",
                    "balance = \"least\"",
                    "weights = [3, 1]",
                    "address = [\"10.0.0.1:80\", \"unix:/run/a.sock\"]",
                    "first_byte = \"300s\"",
                    "failures = 2",
                    "pause = \"10s\"",
                    "max_body = 8388608",
                    "path = \"/api/\"",
                    "proxy = \"http://app/v1/\"",
                    "requests = \"10/m\"",
                    "requests_burst = 6",
                    "download = 102400",
                ],
            ),
            (
                "server { root /srv; index index.php; location / { try_files $uri $uri/ /index.php?$args; } location ~ \\.php$ { \
             fastcgi_pass unix:/run/php.sock; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param A b; } }",
                &[
                    "protocol = \"fastcgi\"",
                    "fallback = \"/index.php\"",
                    "fallback_for = \"all\"",
                    "path = \"*.php\"",
                    "interpreter = \"fastcgi\"",
                    "env = { A = \"b\" }",
                ],
            ),
            (
                "server { listen 80; server_name a.org; return 301 https://$host$request_uri; }\n\
             server { listen 443 ssl; server_name a.org; ssl_certificate c.pem; ssl_certificate_key k.pem; root /srv; \
             add_header X-A b always; expires 1h; location /s/ { auth_basic \"S\"; auth_basic_user_file users; allow 10.0.0.0/8; deny all; } }",
                &[
                    "listen = [\"0.0.0.0:443 tls\", \"0.0.0.0:80\"]",
                    "certificate = [\"/etc/x/c.pem\"]",
                    "headers = { X-A = \"b\" }",
                    "cache_control = \"max-age=3600\"",
                    "https_redirect = true",
                    "path = \"/s/\"",
                    "auth = \"basic\"",
                    "realm = \"S\"",
                    "user_files = \"/etc/x/users\"",
                    "[[host.route.rule]]",
                    "address = \"10.0.0.0/8\"",
                ],
            ),
            (
                "server { root /srv; location /cgi-bin/ { fastcgi_pass unix:/f.sock; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }\n\
                 location /app/ { fastcgi_pass unix:/g.sock; } location /own/ { fastcgi_pass unix:/h.sock; fastcgi_param SCRIPT_FILENAME /o$fastcgi_script_name; } }",
                &[
                    "path = \"/cgi-bin/\"",
                    "interpreter = \"fastcgi\"",
                    "path = \"/app/\"",
                    "application = \"fastcgi-2\"",
                    "path = \"/own/\"",
                    "interpreter = \"fastcgi-3\"",
                    "root = \"/o\"",
                ],
            ),
            (
                "server { root /srv; rewrite ^/old/(.*)$ /new/$1 permanent; rewrite ^/a$ /b last; error_page 500 502 /50x.html; \
             location = /50x.html { internal; } }",
                &[
                    "error_pages = { 500 = \"/50x.html\", 502 = \"/50x.html\" }",
                    "path = \"/old/\"",
                    "redirect = \"/new/${rest}$query\"",
                    "status = 301",
                    "path = \"/a\"",
                    "rewrite = \"/b\"",
                ],
            ),
        ],
    );
    refuse(
        Web::Nginx,
        &[
            ("server { root /srv;\nlocation / {\nauth_request /a; } }", 3, "auth_request /a"),
            ("server { root /srv;\nif ($x) { return 403; } }", 2, "if ($x)"),
            ("server { root /srv;\nlocation ~ ^/[0-9]+$ { deny all; } }", 2, "cannot be converted"),
            ("server {\nroot /srv;\n", 2, "ends within"),
            ("server { root /srv; }\n}", 2, "closes nothing"),
            ("{ } ;", 1, "has no name"),
            ("server { root /srv; }\nmail { }", 2, "mail"),
            ("server {\nlocation / { proxy_pass http://$x; } }", 2, "proxy_pass"),
            ("include /none;", 1, "missing"),
        ],
    );
}

#[test]
fn names_the_directive_that_was_meant() {
    for (web, text, expected) in [
        (Web::Nginx, "server { lisen 80; }", "\"lisen 80\" cannot be converted; did you mean listen?"),
        (
            Web::Apache,
            "DocumentRot /srv",
            "\"documentrot /srv\" cannot be converted; did you mean documentroot?",
        ),
        (Web::Lighttpd, "server.prot = 80", "server.prot cannot be converted; did you mean server.port?"),
        (
            Web::Caddy,
            ":80 {\n reverse_prox a\n}",
            "\"reverse_prox a\" cannot be converted; did you mean reverse_proxy?",
        ),
        (Web::Caddy, ":80 {\n reverse_proxy a {\n lb_polic b\n}\n}", "did you mean lb_policy?"),
        (Web::Nginx, "server { nothing_like_it 1; }", "remove it, or find its like in the manual"),
    ] {
        let conversion = converted(web, "/etc/x/conf", &[("/etc/x/conf", text)]);
        let said: Vec<String> = conversion.findings.iter().map(ToString::to_string).collect();
        assert!(said.iter().any(|line| line.contains(expected)), "{text}: {said:?}");
    }
}

#[test]
fn names_the_place_in_an_included_file() {
    let files = [
        ("/etc/nginx/nginx.conf", "http {\n include sites/*;\n}"),
        ("/etc/nginx/sites/a", "server {\n root /srv;\n perl x;\n}"),
        ("/etc/nginx/sites/b", "include /etc/nginx/sites/b;"),
    ];
    let conversion = converted(Web::Nginx, "/etc/nginx/nginx.conf", &files);
    let said: Vec<String> = conversion.findings.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|line| line.contains("/etc/nginx/sites/a:3: \"perl x\"")), "{said:?}");
    assert!(said.iter().any(|line| line.contains("more than 16 deep")), "{said:?}");
    assert_eq!(conversion.findings[0].line, Some(2));
}

#[test]
fn converts_caddy() {
    check(
        Web::Caddy,
        &[
            (
                ":8080 {\n\troot * /srv\n\tfile_server browse\n\tencode gzip zstd\n}\n",
                &[
                    "listen = [\"0.0.0.0:8080\", \"[::]:8080\"]",
                    "[[host]]",
                    "root = \"/srv\"",
                    "listing = true",
                    "compress = [\"gzip\", \"zstd\"]",
                    "default = true",
                ],
            ),
            (
                "example.org, www.example.org\nroot * /srv\nphp_fastcgi unix//run/php.sock\nfile_server\n",
                &[
                    "protocol = \"fastcgi\"",
                    "acme = true",
                    "https_redirect = true",
                    "fallback = \"/index.php\"",
                    "names = [\"example.org\", \"www.example.org\"]",
                    "path = \"*.php\"",
                    "interpreter = \"php\"",
                ],
            ),
            (
                "(common) {\n header X-A {args[0]}\n}\nhttp://a.org {\n import common b\n handle_path /api/* {\n reverse_proxy 10.0.0.1:80 10.0.0.2:80 {\n \
             lb_policy round_robin\n header_up X-B c\n }\n }\n handle {\n root * /srv\n file_server\n }\n redir /old /new permanent\n respond /x/* 403\n}",
                &[
                    "address = [\"10.0.0.1:80\", \"10.0.0.2:80\"]",
                    "headers = { X-A = \"b\" }",
                    "root = \"/srv\"",
                    "path = \"/api/\"",
                    "proxy = \"http://proxy/\"",
                    "path = \"/old\"",
                    "redirect = \"/new\"",
                    "status = 301",
                    "path = \"/x/\"",
                    "return = 403",
                ],
            ),
            (
                ":80 {\n @in {\n path /a/*\n not remote_ip 10.0.0.0/8\n }\n respond @in 403\n root * /srv\n file_server\n basic_auth /b/* {\n \
             ann $2a$14$abcdefghijklmnopqrstuuKaN6n0PPD0yU2Zl1eV9WzX8mNqQ2Q2u\n }\n}",
                &[
                    "[[host.rule]]",
                    "address = [\"!10.0.0.0/8\"]",
                    "path = [\"/a/\"]",
                    "then = \"deny\"",
                    "path = \"/b/\"",
                    "auth = \"basic\"",
                ],
            ),
            (
                ":80 {\n root * /srv\n @hidden path */.git/* */.env */.ht*\n respond @hidden 404\n file_server\n}",
                &["path = \"/**/.git/**\"", "return = 404", "path = \"/**/.env\"", "path = \"/**/.ht**\""],
            ),
            (
                "{\n email a@example.org\n debug\n}\na.org {\n tls cert.pem key.pem\n root * /srv\n try_files {path} /index.html\n file_server\n log {\n output file /var/log/a.log\n }\n}",
                &[
                    "[certificates]",
                    "email = \"a@example.org\"",
                    "level = \"debug\"",
                    "certificate = \"/etc/x/cert.pem\"",
                    "fallback = \"/index.html\"",
                    "access_log = \"/var/log/a.log\"",
                ],
            ),
        ],
    );
    refuse(
        Web::Caddy,
        &[
            (":80 {\n templates\n}", 2, "templates"),
            (":80 {\n respond {host}\n}", 2, "respond {host}"),
            (":80 {\n respond hello 201\n}", 2, "respond hello 201"),
            (":80 {\n respond hello world\n}", 2, "respond hello world"),
            (":80 {\n import nothing\n}", 2, "no such snippet"),
            (":80 {\n redir @no /b\n}", 2, "no matcher"),
            (":80 {\n", 1, "ends within"),
            ("(a) {\n import a\n}\n:80 {\n import a\n}", 2, "more than 16 deep"),
            ("a.org/path {\n}", 1, "the address a.org/path"),
        ],
    );
}

#[test]
fn the_type_of_a_text_of_caddy_is_kept() {
    let of = |rest: &str| {
        format!(
            "http://a {{\nhandle /.well-known/matrix/server {{\nheader Content-Type text/own\n{rest}\n}}\n}}\n"
        )
    };
    check(Web::Caddy, &[(&of("respond `{}`"), &["default_type = \"text/own\"", "respond = \"{}\""])]);
    lacks(Web::Caddy, &[(&of("reverse_proxy b:81"), &["default_type = \"text/own\""])]);
    refuse(Web::Caddy, &[("http://a {\nheader Content-Type text/own\nfile_server\n}\n", 2, "text/own")]);
}

#[test]
fn paths_of_caddy_without_the_extension_of_their_file_are_converted() {
    for (tries, expected) in [
        ("{path} {path}.html", "try_suffixes = [\".html\"]"),
        ("{path} {path}/ {path}.html =404", "try_suffixes = [\"/\", \".html\"]"),
        ("{path} {path}.html {path}/index.html /404.html", "fallback = \"/404.html\""),
        ("{path}.html {path}", "try_suffixes = [\".html\"]"),
        ("{path} {path}/ /index.html?{query}", "fallback = \"/index.html\""),
    ] {
        let text = format!("http://a {{\nroot * /srv\ntry_files {tries}\nfile_server\n}}\n");
        check(Web::Caddy, &[(&text, &[expected])]);
    }
    for (tries, expected) in [
        ("{path} {path}.php", "try_suffixes = [\".php\"]"),
        ("{path} {path}.php {path}/index.php", "try_suffixes = [\".php\"]"),
        ("{path} {path}/ {path}.php =404", "try_suffixes = [\"/\", \".php\"]"),
    ] {
        let text =
            format!("http://a {{\nroot * /srv\ntry_files {tries}\nphp_fastcgi a:9000\nfile_server\n}}\n");
        check(Web::Caddy, &[(&text, &[expected, "fallback = \"/index.php\""])]);
    }
    let php = |tries: &str| {
        format!("http://a {{\nroot * /srv\nphp_fastcgi a:9000 {{\n{tries}\n}}\nfile_server\n}}\n")
    };
    let tries = "try_files {path} {path}/index.php {path}.php index.php";
    check(Web::Caddy, &[(&php(tries), &["try_suffixes = [\".php\"]", "fallback = \"/index.php\""])]);
    lacks(Web::Caddy, &[(&php("try_files {path} {path}/index.php =404"), &["fallback"])]);
    refuse(Web::Caddy, &[(&php("try_files {path} /a /b"), 4, "try_files")]);
    let refused = ["{path} {path}{query} /a", "{path} /a /b", "{path} a", "{path} =410"];
    for tries in refused {
        let text = format!("http://a {{\nroot * /srv\ntry_files {tries}\nfile_server\n}}\n");
        refuse(Web::Caddy, &[(&text, 3, "try_files")]);
    }
}

#[test]
fn caddy_hides_its_own_configuration_beneath_the_root() {
    let text = |directive: &str| format!("http://:80 {{\nroot * /etc\n{directive}\n}}\n");
    check(Web::Caddy, &[(&text("file_server"), &["path = \"/x/conf\"", "return = 404"])]);
    lacks(Web::Caddy, &[(&text("reverse_proxy a:1"), &["path = \"/x/conf\""])]);
    lacks(Web::Caddy, &[(&text("file_server").replace("/etc", "/srv"), &["return = 404"])]);
}

#[test]
fn caddy_denies_what_no_authorizer_can_be_asked_about() {
    let text = "http://:80 {\nforward_auth {args.0} {\nuri /a\n}\nroot * /srv\n}\n";
    refuse(Web::Caddy, &[(text, 2, "forward_auth")]);
    let conversion = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", text)]);
    assert!(conversion.text.contains("[[host.rule]]\nthen = \"deny\"\n"), "{}", conversion.text);
    let text = "http://:80 {\nforward_auth a:1 {\nuri /a\ncopy_headers A>B\n}\nroot * /srv\n}\n";
    refuse(Web::Caddy, &[(text, 4, "copy_headers")]);
    let conversion = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", text)]);
    assert!(conversion.text.contains("authorizer = \"authorizer\""), "{}", conversion.text);
}

#[test]
fn converts_lighttpd() {
    check(
        Web::Lighttpd,
        &[
            (
                "server.port = 8080\nserver.document-root = \"/srv/www\"\nindex-file.names = ( \"a.html\", \"b.html\" )\ndir-listing.activate = \"enable\"\n\
             url.access-deny = ( \"~\", \".inc\" )\nserver.max-request-size = 1024\n",
                &[
                    "listen = [\"0.0.0.0:8080\"]",
                    "root = \"/srv/www\"",
                    "index = [\"a.html\", \"b.html\"]",
                    "listing = true",
                    "max_body = 1048576",
                    "path = \"*~\"",
                    "return = 403",
                    "path = \"*.inc\"",
                ],
            ),
            (
                "var.base = \"/srv\"\nserver.document-root = base + \"/www\"\n$HTTP[\"host\"] == \"a.org\" {\n server.document-root = base + \"/a\"\n\
             $HTTP[\"url\"] =^ \"/x/\" { setenv.add-response-header = ( \"X-A\" => \"b\" ) }\n}\n$HTTP[\"host\"] =~ \"(^|\\.)b\\.org$\" { alias.url = ( \"/d/\" => \"/mnt/d/\" ) }",
                &[
                    "root = \"/srv/www\"",
                    "[[host]]",
                    "root = \"/srv/a\"",
                    "names = [\"a.org\"]",
                    "path = \"/x/\"",
                    "headers = { X-A = \"b\" }",
                    "names = [\"b.org\", \"*.b.org\"]",
                    "alias = \"/mnt/d\"",
                ],
            ),
            (
                "server.document-root = \"/srv\"\nfastcgi.server = ( \".php\" => (( \"socket\" => \"/run/php.sock\" )) )\n\
             proxy.server = ( \"/api/\" => ( ( \"host\" => \"10.0.0.1\", \"port\" => 81 ), ( \"host\" => \"10.0.0.2\", \"port\" => 81 ) ) )\n\
             cgi.assign = ( \".pl\" => \"/usr/bin/perl\" )\nurl.rewrite-if-not-file = ( \"\" => \"/index.php${qsa}\" )\nurl.redirect = ( \"^/old/(.*)$\" => \"/new/$1\" )\n\
             expire.url = ( \"/s/\" => \"access plus 2 hours\" )\n",
                &[
                    "protocol = \"fastcgi\"",
                    "address = [\"10.0.0.1:81\", \"10.0.0.2:81\"]",
                    "fallback = \"/index.php\"",
                    "cache_control = { \"/s/\" = \"max-age=7200\" }",
                    "path = \"*.php\"",
                    "interpreter = \"fastcgi\"",
                    "path = \"/api/\"",
                    "proxy = \"http://http\"",
                    "interpreter = \"/usr/bin/perl\"",
                    "path = \"/old/\"",
                    "redirect = \"/new/${rest}$query\"",
                ],
            ),
            (
                "server.document-root = \"/srv\"\n$HTTP[\"remoteip\"] != \"10.0.0.0/8\" { url.access-deny = ( \"\" ) }\nauth.backend = \"htpasswd\"\n\
             auth.backend.htpasswd.userfile = \"/etc/users\"\nauth.require = ( \"/p/\" => ( \"method\" => \"basic\", \"realm\" => \"P\", \"require\" => \"user=ann|user=bob\" ) )\n",
                &[
                    "user_files = \"/etc/users\"",
                    "[[host.rule]]",
                    "address = [\"!10.0.0.0/8\"]",
                    "then = \"deny\"",
                    "path = \"/p/\"",
                    "auth = \"basic\"",
                    "require = [\"user:ann\", \"user:bob\"]",
                ],
            ),
        ],
    );
    refuse(
        Web::Lighttpd,
        &[
            (
                "server.document-root = \"/srv\"\ninclude_shell \"echo\"",
                2,
                "include_shell \"echo\" is not run",
            ),
            ("server.document-root = \"/srv\"\nmagnet.attract-raw-url-to = ( \"a\" )", 2, "magnet"),
            (
                "server.document-root = \"/srv\"\n$HTTP[\"cookie\"] =~ \"a\" { url.access-deny = ( \"\" ) }",
                2,
                "cookie",
            ),
            ("$HTTP[\"url\"] =^ \"/a\" { server.tag = \"a\" } else { server.tag = \"b\" }", 1, "an else"),
            ("server.document-root = = 1", 1, "cannot be read"),
            ("server.document-root = \"/srv\"\n)", 2, "cannot be read"),
            ("include \"/nothing\"", 1, "no such file"),
        ],
    );
}

/// `/.` is the root alone, and `/` every path.
#[test]
fn lighttpd_conditions_for_a_folder_alone_are_not_for_what_is_below() {
    let root = "server.document-root = \"/srv\"\n";
    for (text, expected) in [
        ("url.redirect = ( \"^/$\" => \"/app/\" )", ["path = \"/.\"", "redirect = \"/app/\""]),
        ("url.rewrite-once = ( \"^/$\" => \"/app/\" )", ["path = \"/.\"", "rewrite = \"/app/\""]),
        ("$HTTP[\"url\"] == \"/\" { url.access-deny = ( \"\" ) }", ["path = \"/.\"", "return = 403"]),
        ("$HTTP[\"url\"] =~ \"^/$\" { url.access-deny = ( \"\" ) }", ["path = \"/.\"", "return = 403"]),
        ("$HTTP[\"url\"] == \"/a/\" { url.access-deny = ( \"\" ) }", ["path = \"/a/.\"", "return = 403"]),
    ] {
        let text = format!("{root}{text}");
        check(Web::Lighttpd, &[(&text, &expected)]);
        lacks(Web::Lighttpd, &[(&text, &["path = \"/\"", "path = \"/a/\""])]);
    }
}

#[test]
fn lighttpd_conditions_may_have_an_else_or_a_not() {
    let root = "server.document-root = \"/srv\"\n";
    let host = |rest: &str| format!("{root}$HTTP[\"host\"] == \"a.x\" {{ server.tag = \"a\" }}\n{rest}");
    let rule = |text: &str, lines: &[&str]| check(Web::Lighttpd, &[(&(root.to_owned() + text), lines)]);
    check(
        Web::Lighttpd,
        &[(
            &host(
                "else $HTTP[\"host\"] == \"b.x\" { server.document-root = \"/b\" }\nelse { server.document-root = \"/rest\" }",
            ),
            &[
                "root = \"/rest\"",
                "default = true",
                "root = \"/srv\"",
                "names = [\"a.x\"]",
                "root = \"/b\"",
                "names = [\"b.x\"]",
            ],
        )],
    );
    check(
        Web::Lighttpd,
        &[(
            &host("else $HTTP[\"host\"] =~ \"^(www\\.)?b\\.x$\" { server.document-root = \"/b\" }"),
            &["root = \"/b\"", "names = [\"b.x\", \"www.b.x\"]"],
        )],
    );
    rule(
        "$HTTP[\"url\"] !~ \"^/open/\" { url.access-deny = ( \"\" ) }",
        &["[[host.rule]]", "path = [\"!/open/\"]", "then = \"deny\""],
    );
    rule(
        "auth.backend.htpasswd.userfile = \"/u\"\n$HTTP[\"url\"] !~ \"^/(a|b)/\" { auth.require = ( \"\" => ( \"method\" => \"basic\", \"realm\" => \"x\", \"require\" => \"valid-user\" ) ) }",
        &["auth = \"basic\"", "path = \"/a/\"", "auth = \"off\"", "path = \"/b/\"", "auth = \"off\""],
    );
    rule(
        "$HTTP[\"request-method\"] !~ \"^(GET|HEAD)$\" { url.access-deny = ( \"\" ) }",
        &["method = [\"!GET\", \"!HEAD\"]", "then = \"deny\""],
    );
    rule(
        "$HTTP[\"useragent\"] =~ \"(bot|spider)\" { url.access-deny = ( \"\" ) }",
        &["user_agent = [\"*bot*\", \"*spider*\"]", "then = \"deny\""],
    );
    rule(
        "$HTTP[\"url\"] =^ \"/in/\" { $HTTP[\"request-method\"] == \"POST\" { url.access-deny = ( \"\" ) } }",
        &["method = [\"POST\"]", "path = [\"/in/\"]", "then = \"deny\""],
    );
    for text in [
        host("else $HTTP[\"host\"] =~ \"^(a|c)\\.x$\" { server.tag = \"c\" }"),
        host("$HTTP[\"host\"] == \"b.x\" { }\nelse { server.tag = \"c\" }")
            .replace(" == \"b.x\" { }\nelse", " == \"b.x\" { } else"),
        host("else { url.access-deny = ( \"\" ) } $HTTP[\"host\"] == \"c.x\" { server.tag = \"c\" }"),
        format!("{root}\n$HTTP[\"url\"] !~ \"a\" {{ url.access-deny = ( \"\" ) }}"),
        format!("{root}\n$HTTP[\"url\"] !~ \"^/a/\" {{ server.document-root = \"/a\" }}"),
        format!("{root}\n$HTTP[\"url\"] =~ \"^/a/.*x\" {{ }} else {{ url.access-deny = ( \"\" ) }}"),
        format!("{root}\n$HTTP[\"useragent\"] !~ \"Mozilla\" {{ url.access-deny = ( \"\" ) }}"),
        format!("{root}\n$HTTP[\"request-method\"] =~ \"OPT\" {{ url.access-deny = ( \"\" ) }}"),
    ] {
        refuse(Web::Lighttpd, &[(&text, 3, "cannot be converted")]);
    }
}

#[test]
fn lighttpd_rewrites_a_path_once() {
    let rewrite = |name: &str| {
        format!(
            "server.document-root = \"/srv\"\n{name} = ( \"^/a/(.*)$\" => \"/b/$1\", \"^/b/(.*)$\" => \"/c/$1\" )\n"
        )
    };
    refuse(Web::Lighttpd, &[(&rewrite("url.rewrite-once"), 2, "/b/ would be rewritten once more")]);
    check(
        Web::Lighttpd,
        &[
            (&rewrite("url.rewrite-repeat"), &["rewrite = \"/b/${rest}\"", "rewrite = \"/c/${rest}\""]),
            (
                "server.document-root = \"/srv\"\n\
                 url.rewrite-if-not-file = ( \"^/(wp-.*).*/?\" => \"$0\", \"^/(.*)$\" => \"/index.php/$1\" )\n",
                &["fallback = \"/index.php\"", "path = \"/wp-**\"", "fallback = false"],
            ),
        ],
    );
}

#[test]
fn lighttpd_blocks_narrow_what_they_have() {
    let root = "server.document-root = \"/srv\"\nauth.backend = \"htpasswd\"\nauth.backend.htpasswd.userfile = \"/u\"\n";
    let asks = "( \"method\" => \"basic\", \"realm\" => \"x\", \"require\" => \"valid-user\" )";
    for (text, expected) in [
        (
            "$HTTP[\"url\"] =~ \"^/admin/\" { auth.require = ( \"\" => ASKS ) }",
            "[[host.route]]\npath = \"/admin/\"\nauth = \"basic\"\nrealm = \"x\"\n",
        ),
        (
            "$HTTP[\"url\"] =^ \"/a\" { auth.require = ( \"/a/b/\" => ASKS ) }",
            "[[host.route]]\npath = \"/a/b/\"\nauth = \"basic\"\nrealm = \"x\"\n",
        ),
        (
            "$HTTP[\"url\"] =~ \"\\.pdf$\" { auth.require = ( \"\" => ASKS ) }",
            "[[host.route]]\npath = \"*.pdf\"\nauth = \"basic\"\nrealm = \"x\"\n",
        ),
        (
            "$HTTP[\"url\"] =~ \"^/images/\" { expire.url = ( \"\" => \"access plus 1 hours\" ) }",
            "[[host.route]]\npath = \"/images/\"\ncache_control = { \"/images/\" = \"max-age=3600\" }\n",
        ),
        (
            "expire.url = ( \"/a\" => \"access plus 1 hours\" )",
            "cache_control = { \"/a/\" = \"max-age=3600\", \"/a\" = \"max-age=3600\", \"/a?*/**\" = \"max-age=3600\" }\n",
        ),
        (
            "$HTTP[\"url\"] =^ \"/old/\" { url.redirect = ( \"\" => \"/new\" ) }",
            "[[host.route]]\npath = \"/old/\"\nredirect = \"/new\"\n",
        ),
        (
            "$HTTP[\"url\"] =^ \"/app/\" { url.rewrite-if-not-file = ( \"\" => \"/app/i.php\" ) }",
            "[[host.route]]\npath = \"/app/\"\nfallback = \"/app/i.php\"\n",
        ),
    ] {
        let text = format!("{root}{}", text.replace("ASKS", asks));
        let conversion = converted(Web::Lighttpd, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert!(
            !conversion.is_refused() && conversion.text.contains(expected),
            "{text}\n{}",
            conversion.text
        );
        let (host, _) = conversion.text.split_once("[[host.route]]").unwrap_or((&conversion.text, ""));
        assert!(!host.contains("auth = ") && !host.contains("redirect = "), "{host}");
    }
    refuse(
        Web::Lighttpd,
        &[(
            "server.document-root = \"/srv\"\n$HTTP[\"url\"] =^ \"/a/b/\" { url.redirect = ( \"^/a/(.*)\" => \"/c/$1\" ) }",
            2,
            "url.redirect",
        )],
    );
}

#[test]
fn lighttpd_runs_what_it_does_not_send() {
    let text = "server.document-root = \"/srv\"\nstatic-file.exclude-extensions = ( \".pl\" )\nurl.access-deny = ( \"x.pl\" )\n\
                $HTTP[\"url\"] =^ \"/cgi-bin/\" { cgi.assign = ( \"\" => \"\" ) }\n";
    check(
        Web::Lighttpd,
        &[
            (
                text,
                &[
                    "path = \"*x.pl\"",
                    "return = 403",
                    "path = \"/cgi-bin/**/*.pl\"",
                    "path = \"*.pl\"",
                    "return = 403",
                ],
            ),
            (
                "server.document-root = \"/srv\"\nstatic-file.exclude-extensions = ( \".pl\" )\nproxy.server = ( \"/a/\" => (( \"host\" => \"192.0.2.1\" )) )",
                &["path = \"/a/\"", "path = \"/a/**/*.pl\"", "path = \"*.pl\"", "return = 403"],
            ),
        ],
    );
    lacks(
        Web::Lighttpd,
        &[(
            "server.document-root = \"/srv\"\nstatic-file.exclude-extensions = ( \".pl\" )\nproxy.server = ( \"\" => (( \"host\" => \"192.0.2.1\" )) )",
            &["path = \"*.pl\""],
        )],
    );
}

/// A file that is denied stays denied, whatever runs it.
#[test]
fn lighttpd_denies_before_it_runs() {
    check(
        Web::Lighttpd,
        &[
            (
                "server.document-root = \"/srv\"\nfastcgi.server = ( \".php\" => (( \"socket\" => \"/p\" )) )\nurl.access-deny = ( \"own.php\" )",
                &["path = \"*own.php\"", "return = 403", "path = \"*.php\"", "interpreter = \"fastcgi\""],
            ),
            (
                "server.document-root = \"/srv\"\nfastcgi.server = ( \".php\" => (( \"socket\" => \"/p\" )) )\n$HTTP[\"url\"] =^ \"/a/\" { url.access-deny = ( \".php\" ) }",
                &["path = \"/a/**/*.php\"", "return = 403", "path = \"*.php\"", "interpreter = \"fastcgi\""],
            ),
            (
                "server.document-root = \"/srv\"\nproxy.server = ( \".x\" => (( \"host\" => \"192.0.2.1\" )) )\n$HTTP[\"url\"] =^ \"/a/\" { url.access-deny = ( \"\" ) }",
                &["path = \"/a/**/*.x\"", "return = 403", "path = \"*.x\"", "proxy = \"http://http\""],
            ),
        ],
    );
}

#[test]
fn lighttpd_fields_types_and_aliases_are_valid() {
    check(
        Web::Lighttpd,
        &[
            (
                "server.document-root = \"/srv\"\nsetenv.set-response-header = ( \"Server\" => \"own\", \"X-A\" => \"\" )",
                &["server_header = \"own\"", "headers = { X-A = false }"],
            ),
            (
                "server.document-root = \"/srv\"\ndeflate.mimetypes = ( \"text/\", \"text/html; charset=utf-8\" )",
                &["compress_types = [\"text/*\", \"text/html\"]"],
            ),
        ],
    );
    refuse(
        Web::Lighttpd,
        &[(
            "server.document-root = \"/srv\"\nsetenv.set-response-header = ( \"Content-Type\" => \"text/plain\" )",
            2,
            "the field Content-Type cannot be converted",
        )],
    );
    let files = |text| [("/etc/x/conf", text), ("/web/f.txt", "")];
    let text = "alias.url = ( \"/f.txt\" => \"/web/f.txt\" )";
    let conversion = converted(Web::Lighttpd, "/etc/x/conf", &files(text));
    assert!(conversion.text.contains("path = \"/f.txt\"\nroot = \"/web\""), "{}", conversion.text);
    let conversion =
        converted(Web::Lighttpd, "/etc/x/conf", &files("alias.url = ( \"/x\" => \"/web/f.txt\" )"));
    assert!(conversion.is_refused(), "{}", conversion.text);
}

/// The example of the manual.
#[test]
fn converts_the_example_of_the_manual() {
    const MANUAL: &str = include_str!("../../../docs/manual/from-nginx.md");
    let block = |kind: &str| {
        let rest = MANUAL.split_once(&format!("```{kind}\n")).expect("the manual has it").1;
        rest.split("```").next().unwrap_or_default()
    };
    let conversion =
        converted(Web::Nginx, "/etc/nginx/nginx.conf", &[("/etc/nginx/nginx.conf", block("nginx"))]);
    assert!(!conversion.is_refused());
    assert_eq!(conversion.text, block("toml"));
}

/// What the original protects stays protected: rows of a configuration and lines that it becomes.
#[test]
fn keeps_what_is_protected() {
    check(
        Web::Nginx,
        &[
            (
                // A prefix is the beginning of a text, and expressions do not precede `^~`.
                "server { root /srv; location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; } location ^~ /admin { deny all; } }",
                &[
                    "path = \"/admin?*/**\"",
                    "then = \"deny\"",
                    "path = \"*.php\"",
                    "path = \"/admin/\"",
                    "then = \"deny\"",
                ],
            ),
            (
                // A nested location has what is around it.
                "server { root /srv; location /in/ { auth_basic x; auth_basic_user_file /u; allow 10.0.0.0/8; deny all; \
                 location /in/a/ { index b; } location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; } } }",
                &[
                    "path = \"/in/**/*.php\"",
                    "auth = \"basic\"",
                    "then = \"deny\"",
                    "path = \"/in/a/\"",
                    "auth = \"basic\"",
                    "then = \"deny\"",
                ],
            ),
            (
                "server { root /srv; location ~* \\.ab$ { deny all; } }",
                &["path = \"(?i)*.ab\"", "then = \"deny\""],
            ),
            (
                "server { root /srv; location ~* ^/administration { deny all; } location ~* \\.(jpe?g|profile)$ { expires 1h; } }",
                &[
                    "path = \"(?i)/administration**\"",
                    "then = \"deny\"",
                    "path = \"(?i)*.jpg\"",
                    "cache_control = \"max-age=3600\"",
                    "path = \"(?i)*.jpeg\"",
                    "path = \"(?i)*.profile\"",
                ],
            ),
            (
                "server { root /srv; location / { deny all; } location /open/ { index a; } }",
                &["path = \"/\"", "then = \"deny\"", "path = \"/open/\""],
            ),
            (
                "server { root /srv; location /x/ { limit_except GET { deny all; } proxy_pass http://127.0.0.1:1; \
                 proxy_set_header X-Real-IP $remote_addr; proxy_hide_header X-Own; } }",
                &[
                    "proxy_headers = { X-Real-IP = false }",
                    "headers = { X-Own = false }",
                    "method = [\"!GET\", \"!HEAD\"]",
                    "then = \"deny\"",
                ],
            ),
        ],
    );
    check(
        Web::Lighttpd,
        &[
            (
                "server.document-root = \"/srv\"\nstatic-file.exclude-extensions = ( \".inc\", \".php\" )\n\
                 fastcgi.server = ( \".php\" => (( \"socket\" => \"/p\" )) )\n",
                &["path = \"*.php\"", "interpreter = \"fastcgi\"", "path = \"*.inc\"", "return = 403"],
            ),
            (
                "server.document-root = \"/srv\"\n$HTTP[\"url\"] =^ \"/admin\" { url.access-deny = (\"\") }\n",
                &[
                    "path = \"/admin/\"",
                    "return = 403",
                    "path = \"/admin\"",
                    "return = 403",
                    "path = \"/admin?*/**\"",
                    "return = 403",
                ],
            ),
            (
                "server.document-root = \"/srv\"\n$HTTP[\"url\"] =^ \"/cgi/\" { cgi.assign = ( \".sh\" => \"/bin/sh\" ) }\n",
                &["path = \"/cgi/**/*.sh\"", "cgi = true"],
            ),
            (
                "server.document-root = \"/srv\"\nextforward.forwarder = ( \"10.0.0.1\" => \"trust\" )\n",
                &["trusted_proxies = [\"10.0.0.1\"]"],
            ),
        ],
    );
    check(
        Web::Caddy,
        &[(
            "{\n servers {\n trusted_proxies static 10.0.0.1\n }\n}\n:80 {\n root * /srv\n reverse_proxy a:1 {\n header_up X-Real-IP {remote_host}\n }\n}\n",
            &["trusted_proxies = [\"10.0.0.1\"]", "proxy_headers = { X-Real-IP = false }"],
        )],
    );
}

#[test]
fn locations_of_nginx_need_no_space_behind_their_sign() {
    let text = "server { root /srv; location ~\\.bak$ { deny all; } location =/a { return 410; } location ^~/b/ { return 404; } }";
    check(
        Web::Nginx,
        &[(
            text,
            &[
                "path = \"*.bak\"",
                "then = \"deny\"",
                "path = \"/a\"",
                "return = 410",
                "path = \"/b/\"",
                "return = 404",
            ],
        )],
    );
}

#[test]
fn paths_of_lighttpd_without_the_extension_of_their_file_are_converted() {
    let text = |expression: &str, to: &str| {
        format!(
            "server.document-root = \"/srv\"\nurl.rewrite-if-not-file = ( \"{expression}\" => \"{to}\" )\n"
        )
    };
    for (expression, to, expected) in [
        (r"^/([^.?]+)(\?.*)?$", "/$1.php$2", ".php"),
        (r"^([^\?\.]*)(\?.*)?$", "$1.php$2", ".php"),
        (r"^/([^.]+)$", "/$1.html", ".html"),
    ] {
        check(Web::Lighttpd, &[(&text(expression, to), &[&format!("try_suffixes = [\"{expected}\"]")])]);
    }
    refuse(Web::Lighttpd, &[(&text(r"^/([^.?]+)(\?.*)?$", "/x/$1.php$2"), 2, "url.rewrite-if-not-file")]);
}

#[test]
fn options_of_apache_with_signs_change_those_around() {
    let text = |outer: &str, inner: &str| {
        format!(
            "Listen 80\nDocumentRoot /srv\n<Directory /srv>\nRequire all granted\nOptions {outer}\n</Directory>\n\
             <Directory /srv/x>\nOptions {inner}\n</Directory>\n"
        )
    };
    for (outer, inner, expected) in [
        ("None", "+Indexes", &["symlinks = \"never\"", "path = \"/x/\"", "listing = true"][..]),
        ("Indexes", "-Indexes", &["listing = true", "path = \"/x/\"", "listing = false"]),
        ("-FollowSymLinks", "+Indexes +FollowSymLinks", &["path = \"/x/\"", "symlinks = \"follow\""]),
        ("None", "Indexes", &["path = \"/x/\"", "listing = true"]),
    ] {
        check(Web::Apache, &[(&text(outer, inner), expected)]);
    }
    lacks(Web::Apache, &[(&text("None", "+Indexes"), &["symlinks = \"follow\""])]);
}

#[test]
fn an_application_that_nginx_asks_becomes_an_authorizer() {
    let server = |location: &str| {
        format!(
            "http {{ upstream login {{ server 10.0.0.1:4180; }} server {{ root /srv;\nlocation /a/ {{\nauth_request /auth; proxy_pass http://127.0.0.1:81; \
             proxy_set_header X-Real-IP $remote_addr; }}\nlocation = /auth {{ {location} }} }} }}"
        )
    };
    let told = "proxy_pass_request_body off; proxy_set_header Content-Length \"\"; proxy_set_header X-Original-URI $request_uri;";
    for (location, path) in [
        (format!("internal; proxy_pass http://login/oauth2/auth; {told}"), "/oauth2/auth"),
        (format!("internal; proxy_pass http://login; {told}"), "/auth"),
        (format!("internal; proxy_pass http://127.0.0.1:9091/verify; {told}"), "/verify"),
    ] {
        let path = format!("authorizer_path = \"{path}\"");
        let expected = ["path = \"/a/\"", &path, "path = \"/auth\"", "return = 404"];
        check(Web::Nginx, &[(&server(&location), &expected)]);
        lacks(Web::Nginx, &[(&server(&location), &["then = \"deny\"", "proxy_path"])]);
    }
    // What the application would believe the client, and what an authorizer cannot do.
    for location in [
        "internal; proxy_pass http://login; proxy_set_header X-Real-IP $remote_addr;",
        "internal; proxy_pass http://login; proxy_set_header X-Key secret;",
        "internal; proxy_pass http://$login;",
        "internal; proxy_pass http://login; allow 10.0.0.1; deny all;",
        "fastcgi_pass 127.0.0.1:9000;",
        "return 200;",
    ] {
        refuse(Web::Nginx, &[(&server(location), 3, "auth_request")]);
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &server(location))]);
        assert!(conversion.text.contains("then = \"deny\""), "{}", conversion.text);
    }
    let around = server(&format!("internal; proxy_pass http://login; {told}"))
        .replace("root /srv;", "root /srv; proxy_set_header X-Real-IP $remote_addr;");
    refuse(Web::Nginx, &[(&around, 3, "auth_request")]);
}

#[test]
fn refuses_what_would_be_open() {
    refuse(
        Web::Nginx,
        &[
            ("server { root /srv; location / {\nauth_request /auth; } }", 2, "auth_request"),
            ("server {\nroot /srv; if ($remote_addr ~ \"^10\") { return 403; } }", 2, "if ("),
            // A folder alone has no pattern for all cases.
            ("server { root /srv;\nlocation ~* ^/administration/$ { deny all; } }", 2, "whatever their case"),
            (
                "server { root /srv; location ~ \\.php$ {\nfastcgi_pass 127.0.0.1:9000; fastcgi_param PHP_VALUE $x; } }",
                2,
                "PHP_VALUE",
            ),
            (
                "server { listen 80; root /srv; }\nserver { listen 8081; server_name admin; root /adm; }",
                2,
                "responds on every",
            ),
            ("server { root /srv; location /a/ { alias /b/;\nlocation /a/c/ { deny all; } } }", 2, "alias"),
        ],
    );
    refuse(
        Web::Lighttpd,
        &[
            (
                "server.document-root = \"/srv\"\n$HTTP[\"host\"] == \"a\" { }\nelse $HTTP[\"host\"] =~ \"(^|\\.)a$\" { url.access-deny = (\"\") }",
                3,
                "=~ (^|",
            ),
            (
                "auth.require = ( \"/\" => ( \"method\" => \"basic\", \"realm\" => \"x\",\n\"require\" => \"host=a\" ) )",
                1,
                "host=a",
            ),
            (
                "$SERVER[\"socket\"] == \"127.0.0.1:81\" {\nserver.document-root = \"/private\" }",
                2,
                "for one address",
            ),
            ("auth.backend = \"ldap\"", 1, "ldap"),
            ("$HTTP[\"url\"] =^ \"/a\" {\nauth.backend.htpasswd.userfile = \"/u\" }", 2, "for some paths"),
        ],
    );
    refuse(
        Web::Caddy,
        &[
            (":80 {\n@a {\nremote_ip 10.0.0.1\nremote_ip 10.0.0.2\n}\nabort @a\n}", 6, "matcher"),
            (":80 {\n@a header X-Key\nrespond @a 403\n}", 3, "matcher"),
            (":80 {\n@a not path /open/*\nbasic_auth @a {\nann $2y$x\n}\n}", 3, "matcher"),
            ("{\nservers {\ntrusted_proxies cloud\n}\n}\n:80 {\n}\n", 3, "trusted_proxies"),
            (":80 {\nforward_auth {$A} {\n}\n}", 2, "forward_auth"),
            (":80 {\nheader X-A b\n}", 1, "nothing to serve"),
        ],
    );
}

/// What was not converted is an error of the result, until its entry is removed.
#[test]
fn a_refused_conversion_serves_nothing() {
    let text = "server {\nroot /srv; auth_request /a;\nperl x; }";
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", text)]);
    let path = Path::new("/etc/x/site.toml");
    let errors = site::config::load(path, &Text(path, &conversion.text)).expect_err("it has entries");
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:#?}");
    assert!(texts[0].contains("this was not converted: line 2: \\\"auth_request /a\\\""), "{texts:#?}");
    let decided: Vec<&str> =
        conversion.text.lines().filter(|line| !line.starts_with("    \"line ")).collect();
    assert!(site::config::load(path, &Text(path, &decided.join("\n"))).is_ok());
}

#[test]
fn converts_apache() {
    check(
        Web::Apache,
        &[
            // The server itself responds at the address that no virtual host has.
            (
                "Listen 192.0.2.1:80\nListen 192.0.2.2:80\nDocumentRoot /srv/a\n<VirtualHost 192.0.2.2:80>\nDocumentRoot /srv/b\n</VirtualHost>\n",
                &["listen = [\"192.0.2.2:80\", \"192.0.2.1:80\"]", "root = \"/srv/b\"", "root = \"/srv/a\""],
            ),
            (
                "Listen 80\nDocumentRoot /srv\n<Location /up/>\nProxyPass http://192.0.2.1:81/\n</Location>\n\
                 <Directory /srv/a>\nRedirect 301 /a/old /a/new\n</Directory>\n",
                &[
                    "path = \"/a/old\"",
                    "redirect = \"/a/new$query\"",
                    "path = \"/up/\"",
                    "proxy = \"http://http/\"",
                ],
            ),
            (
                "Listen 8080\nServerName example.org\nServerAlias *.example.net\nDocumentRoot /srv/www\nDirectoryIndex a.html\n\
                 <Directory />\nRequire all denied\n</Directory>\n<Directory /srv/www>\nOptions Indexes\nRequire all granted\n</Directory>\n\
                 Alias /icons/ /usr/share/icons/\n<Directory /usr/share/icons>\nRequire all granted\nOptions FollowSymLinks\n</Directory>\n",
                &[
                    "listen = [\"0.0.0.0:8080\", \"[::]:8080\"]",
                    "[[host]]",
                    "root = \"/srv/www\"",
                    "index = [\"a.html\"]",
                    "listing = true",
                    "symlinks = \"never\"",
                    "names = [\"example.org\", \"*.example.net\"]",
                    "then = \"allow\"",
                    "path = \"/icons/\"",
                    "alias = \"/usr/share/icons\"",
                    "listing = false",
                    "symlinks = \"follow\"",
                ],
            ),
            (
                "Listen 80\nListen 443\n<VirtualHost *:80>\nServerName a.example\nRedirect permanent / https://a.example/\n</VirtualHost>\n\
                 <VirtualHost *:443>\nServerName a.example\nDocumentRoot /srv/a\nSSLEngine on\nSSLCertificateFile /c.pem\n\
                 SSLCertificateKeyFile /k.pem\nSSLProtocol all -SSLv3 -TLSv1 -TLSv1.1\nHeader always set X-A b\n</VirtualHost>\n",
                &[
                    "listen = [\"0.0.0.0:443 tls\", \"[::]:443 tls\", \"0.0.0.0:80\", \"[::]:80\"]",
                    "versions = [\"1.2\", \"1.3\"]",
                    "certificate = \"/c.pem\"",
                    "certificate_key = \"/k.pem\"",
                    "root = \"/srv/a\"",
                    "headers = { X-A = \"b\" }",
                    "https_redirect = true",
                    "names = [\"a.example\"]",
                ],
            ),
            (
                "Listen 80\nDocumentRoot /srv\n<Location /in>\nAuthType Basic\nAuthName x\nAuthUserFile /u\nAuthGroupFile /g\n\
                 Require user ann\nRequire group staff\n</Location>\n<Location /out>\n<RequireAll>\nRequire ip 10.1\nRequire not ip 10.1.2.3\n\
                 </RequireAll>\n</Location>\n<Location /any>\nAuthType Digest\nAuthName y\nAuthUserFile /d\nRequire valid-user\nRequire ip 10.0.0.0/8\n</Location>\n",
                &[
                    "path = \"/any/\"",
                    "auth = \"digest\"",
                    "user_files = \"/d\"",
                    "[[host.route.rule]]",
                    "address = [\"10.0.0.0/8\"]",
                    "then = \"allow\"",
                    "then = \"deny\"",
                    "path = \"/in/\"",
                    "require = [\"user:ann\", \"group:staff\"]",
                    "path = \"/out/\"",
                    "address = [\"10.1.2.3/32\"]",
                    "then = \"deny\"",
                    "address = [\"10.1.0.0/16\"]",
                    "then = \"allow\"",
                    "then = \"deny\"",
                ],
            ),
            (
                "Listen 80\nDocumentRoot /srv\n<FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>\n<Files \"*.bak\">\nOrder allow,deny\n\
                 Deny from all\n</Files>\nScriptAlias /cgi-bin/ /usr/lib/cgi-bin/\n<Directory /usr/lib/cgi-bin>\nRequire all granted\n</Directory>\n\
                 AddHandler cgi-script .cgi\n<Directory /srv/run>\nOptions +ExecCGI\n</Directory>\n<FilesMatch \\.php$>\n\
                 SetHandler \"proxy:unix:/run/php.sock|fcgi://localhost\"\n</FilesMatch>\n",
                &[
                    "protocol = \"fastcgi\"",
                    "path = \".ht*\"",
                    "then = \"deny\"",
                    "path = \"*.bak\"",
                    "then = \"deny\"",
                    "path = \"*.php\"",
                    "interpreter = \"fastcgi\"",
                    "path = \"/run/**/*.cgi\"",
                    "cgi = true",
                    "path = \"/cgi-bin/**/*.cgi\"",
                    "return = 403",
                    "path = \"*.cgi\"",
                    "return = 403",
                    "path = \"/cgi-bin/\"",
                    "alias = \"/usr/lib/cgi-bin\"",
                    "cgi = true",
                ],
            ),
            (
                "Listen 80\nDocumentRoot /srv\nRewriteEngine on\nRewriteRule ^/old/(.*)$ /new/$1 [R=301,L]\n\
                 RewriteRule ^/a$ /b [L]\nRewriteRule \\.sql$ - [F]\nRedirectMatch 404 /\\.git\nRedirect /x http://y.example/z\n\
                 <Directory /srv>\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php?q=$1 [L]\n</Directory>\n",
                &[
                    "fallback = \"/index.php?q=$rest?\"",
                    "path = \"/**/.git**\"",
                    "return = 404",
                    "path = \"/x/\"",
                    "redirect = \"http://y.example/z/$rest$query\"",
                    "path = \"/x\"",
                    "redirect = \"http://y.example/z$query\"",
                    "path = \"*.sql\"",
                    "return = 403",
                    "path = \"/old/\"",
                    "redirect = \"/new/${rest}$query\"",
                    "status = 301",
                    "path = \"/a\"",
                    "rewrite = \"/b\"",
                ],
            ),
            (
                "Listen 80\n<Proxy balancer://app>\nBalancerMember http://10.0.0.1:80 loadfactor=2\nBalancerMember http://10.0.0.2:80\n\
                 ProxySet lbmethod=bybusyness\n</Proxy>\n<VirtualHost *:80>\nDocumentRoot /srv\nProxyPreserveHost On\nRequestHeader set X-IP %{REMOTE_ADDR}s\n\
                 ProxyPass /static !\nProxyPass /one http://10.0.0.3:81/ timeout=9\nProxyPass / balancer://app/\nProxyPassReverse / balancer://app/\n</VirtualHost>\n",
                &[
                    "balance = \"least\"",
                    "weights = [20, 10]",
                    "address = [\"10.0.0.1:80\", \"10.0.0.2:80\"]",
                    "address = [\"10.0.0.3:81\"]",
                    "first_byte = \"9s\"",
                    "path = \"/static/\"",
                    "path = \"/one/\"",
                    "proxy = \"http://http/\"",
                    "path = \"/\"",
                    "proxy = \"http://app/\"",
                    "proxy_headers = { X-IP = false }",
                ],
            ),
            (
                "Define DIR /srv/x\nListen 80\nKeepAlive Off\nTimeout 60\nLimitRequestBody 1000\nUser www\nLogFormat \"%h %l %{User-Agent}i\" c\n\
                 CustomLog /var/log/a c\nErrorLog /var/log/e\nDocumentRoot ${DIR}\nExpiresActive on\nExpiresByType image/png \"access plus 1 hour\"\n\
                 ExpiresDefault A60\nErrorDocument 404 /404.html\nAddDefaultCharset utf-8\n<IfModule mod_none.c>\nSetEnv A b\n</IfModule>\n\
                 <IfDefine NOT>\nNonsense\n</IfDefine>\n<IfVersion >= 2.4>\nAddType a/b .x .y\n</IfVersion>\n",
                &[
                    "user = \"www\"",
                    "requests = 1",
                    "write = 60",
                    "access = \"/var/log/a\"",
                    "format = \"combined\"",
                    "error = \"/var/log/e\"",
                    "root = \"/srv/x\"",
                    "max_body = 1000",
                    "cache_control = { \"image/png\" = \"max-age=3600\", \"/\" = \"max-age=60\" }",
                    "error_pages = { 404 = \"/404.html\" }",
                    "charset = \"utf-8\"",
                    "types = { x = \"a/b\", y = \"a/b\" }",
                ],
            ),
        ],
    );
}

/// `/.` is the root alone, and `/` every path.
#[test]
fn apache_expressions_of_a_folder_alone_are_not_for_what_is_below() {
    let rows: &[(&str, &[&str])] = &[
        ("DocumentRoot /srv\nRedirectMatch ^/$ /app/", &["path = \"/.\"", "redirect = \"/app/$query\""]),
        ("DocumentRoot /srv\nRedirectMatch 404 ^/$", &["path = \"/.\"", "return = 404"]),
        ("DocumentRoot /srv\nRewriteRule ^/$ /a [R]", &["path = \"/.\"", "redirect = \"/a$query\""]),
        ("DocumentRoot /srv\nRewriteRule ^/?$ /a [R]", &["path = \"/.\"", "redirect = \"/a$query\""]),
        ("DocumentRoot /srv\nRewriteRule ^/?$ - [F]", &["path = \"/.\"", "return = 403"]),
        (
            "DocumentRoot /srv\n<Directory /srv>\nRewriteRule ^$ a/ [L]\n</Directory>",
            &["path = \"/.\"", "rewrite = \"/a/\""],
        ),
        (
            "DocumentRoot /srv\n<Directory /srv/b>\nRewriteRule ^$ /a [R]\n</Directory>",
            &["path = \"/b/.\"", "redirect = \"/a$query\""],
        ),
        (
            "DocumentRoot /srv\n<LocationMatch \"^/$\">\nRequire all denied\n</LocationMatch>",
            &["path = \"/.\"", "then = \"deny\""],
        ),
    ];
    check(Web::Apache, rows);
    for (text, _) in rows {
        lacks(Web::Apache, &[(text, &["path = \"/\""])]);
    }
}

#[test]
fn apache_redirects_are_for_a_path_and_what_is_below() {
    check(
        Web::Apache,
        &[
            ("DocumentRoot /srv\nRedirect 404 /blog", &["path = \"/blog/\"", "return = 404"]),
            ("DocumentRoot /srv\nRedirect gone /blog/", &["path = \"/blog/\"", "return = 410"]),
            // An expression finds its text anywhere.
            (
                "DocumentRoot /srv\nRedirectMatch 403 /\\.git/(.*)",
                &["path = \"/**/.git/**\"", "return = 403"],
            ),
        ],
    );
}

#[test]
fn apache_passes_on_every_path_of_a_proxy() {
    let shared = "<FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:/p.sock|fcgi://localhost\"\n</FilesMatch>\n\
                  AddHandler cgi-script .cgi\nScriptAlias /cgi-bin/ /usr/lib/cgi-bin/\nAlias /icons/ /icons/\n";
    let host = |text: &str| {
        format!("Listen 80\n{shared}<VirtualHost *:80>\nDocumentRoot /srv\n{text}\n</VirtualHost>")
    };
    let programs = [
        "interpreter = \"fastcgi\"",
        "path = \"*.php\"",
        "path = \"*.cgi\"",
        "cgi = true",
        "path = \"/cgi-bin/\"",
        "path = \"/icons/\"",
    ];
    for text in [
        "ProxyPass / http://192.0.2.1:81/",
        "<Location />\nProxyPass http://192.0.2.1:81/\n</Location>",
        "ProxyPassMatch ^/(.*)$ http://192.0.2.1:81/$1",
        "Redirect / http://b.example/",
        "Redirect 404 /",
        "RewriteRule ^/(.*)$ http://192.0.2.1:81/$1 [P]",
        "ServerName a.example\nRewriteCond %{SERVER_NAME} =a.example\nRewriteRule ^ https://%{SERVER_NAME}%{REQUEST_URI} [END,NE,R=permanent]",
    ] {
        lacks(Web::Apache, &[(&host(text), &programs)]);
    }
    for (text, expected) in [
        // A location within has the upstream, too.
        (
            "ProxyPass / http://192.0.2.1:81/\n<Location /admin>\nRequire ip 10\n</Location>",
            &[
                "path = \"/\"",
                "proxy = \"http://http/\"",
                "path = \"/admin/\"",
                "proxy = \"http://http/admin/\"",
                "then = \"deny\"",
            ][..],
        ),
        (
            "ProxyPass /a/ http://192.0.2.1:81/b/\n<Location /a/x>\nRequire ip 10\n</Location>",
            &[
                "path = \"/a/\"",
                "proxy = \"http://http/b/\"",
                "path = \"/a/x/\"",
                "proxy = \"http://http/b/x/\"",
            ],
        ),
        (
            "Redirect /a http://b.example/c\n<Location /a/x>\nRequire ip 10\n</Location>",
            &["path = \"/a/x/\"", "redirect = \"http://b.example/c/x/${rest}$query\""],
        ),
        (
            "ProxyPass / http://192.0.2.1:81/\n<LocationMatch \"\\.x$\">\nRequire ip 10\n</LocationMatch>",
            &["path = \"*.x\"", "proxy = \"http://http\"", "then = \"deny\""],
        ),
        (
            "ProxyPass /gone !\nProxyPass /a/ http://192.0.2.1:81/b/\nProxyPass / http://192.0.2.1:82/\nRedirect 404 /gone\n\
             <LocationMatch \"\\.x$\">\nRequire ip 10\n</LocationMatch>",
            &[
                "path = \"/a/**/*.x\"",
                "",
                "[[host.route.rule]]",
                "path = \"/gone/**/*.x\"",
                "",
                "[[host.route.rule]]",
                "path = \"*.x\"",
                "proxy = \"http://http-2\"",
            ],
        ),
        // A path within a proxy is no exception from it.
        (
            "ProxyPass /a/ http://192.0.2.1:81/b/\n<LocationMatch \"^/a/x$\">\nRequire ip 10\n</LocationMatch>",
            &["path = \"/a/x\"", "proxy = \"http://http/b/x\""],
        ),
        // What is excepted has its files, and those who may have them.
        (
            "ProxyPass /own !\nProxyPass / http://192.0.2.1:81/\n<Directory /srv/own>\nRequire ip 10\n</Directory>",
            &[
                "path = \"/own/**/*.php\"",
                "interpreter = \"fastcgi\"",
                "path = \"/own/**/*.cgi\"",
                "return = 403",
            ],
        ),
        (
            "ProxyPass /own !\nProxyPass / http://192.0.2.1:81/\n<Directory /srv/own>\nRequire ip 10\n</Directory>",
            &["path = \"/own/\"", "then = \"deny\""],
        ),
        // What a folder redirects is not what an alias has.
        (
            "Alias /own /web\n<Directory /web>\nRequire ip 10\n</Directory>\n<Files x>\nRequire all denied\n</Files>\n\
             <Directory /srv>\nRedirect / http://b.example/\n</Directory>",
            &[
                "path = \"/own/**/x\"",
                "then = \"deny\"",
                "path = \"/own/\"",
                "alias = \"/web\"",
                "then = \"deny\"",
            ],
        ),
        // A file with a handler is passed on where its prefix is.
        (
            "ProxyPass /api/ http://192.0.2.1:81/",
            &["path = \"/api/**/*.cgi\"", "path = \"*.cgi\"", "return = 403"],
        ),
        (
            "ProxyPass / http://192.0.2.1:81/\nRequestHeader unset X-User",
            &["path = \"/\"", "proxy_headers = { X-User = false }"],
        ),
        (
            "ProxyPreserveHost On\nProxyPass / http://192.0.2.1:81/\nRequestHeader set Host b.example",
            &["path = \"/\"", "proxy_host = \"b.example\""],
        ),
        (
            "ProxyPass / http://192.0.2.1:81/\nRequestHeader set Host b.example",
            &["path = \"/\"", "proxy_host = \"192.0.2.1:81\""],
        ),
    ] {
        check(Web::Apache, &[(&host(text), expected)]);
    }
}

#[test]
fn apache_has_no_files_without_a_root() {
    check(
        Web::Apache,
        &[
            (
                "ProxyPass /a http://192.0.2.1:81/\n<Location /a/x>\nRequire ip 10\n</Location>\n<Location /b>\nRequire ip 10\n</Location>",
                &[
                    "path = \"/a/x/\"",
                    "proxy = \"http://http/x/\"",
                    "path = \"/b/\"",
                    "return = 404",
                    "then = \"deny\"",
                ],
            ),
            (
                "ProxyPass /a http://192.0.2.1:81/\n<LocationMatch \"\\.x$\">\nRequire ip 10\n</LocationMatch>\n\
                 <LocationMatch \"^/b$\">\nRequire ip 10\n</LocationMatch>",
                &["path = \"*.x\"", "", "[[host.route.rule]]", "path = \"/b\"", "return = 404"],
            ),
        ],
    );
}

#[test]
fn apache_replaces_the_path_of_a_proxy() {
    check(
        Web::Apache,
        &[
            (
                "DocumentRoot /srv\nProxyPass /a http://192.0.2.1:81",
                &["path = \"/a/\"", "proxy = \"http://http/\""],
            ),
            (
                "DocumentRoot /srv\n<Location /a>\nProxyPass http://192.0.2.1:81\n</Location>",
                &["path = \"/a/\"", "proxy = \"http://http/\""],
            ),
            (
                "DocumentRoot /srv\nProxyPass /a http://192.0.2.1:81/b\nRequestHeader unset X",
                &[
                    "path = \"/a/\"",
                    "proxy = \"http://http/b/\"",
                    "proxy_headers = { X = false }",
                    "path = \"/a\"",
                    "proxy = \"http://http/b\"",
                    "proxy_headers = { X = false }",
                ],
            ),
        ],
    );
    // The first one that matches counts.
    let hidden = "DocumentRoot /srv\nProxyPass /a http://192.0.2.1:81/\nProxyPass /a/own !\nProxyPass /a/b/ http://192.0.2.1:82/";
    lacks(Web::Apache, &[(hidden, &["path = \"/a/own/\"", "path = \"/a/b/\""])]);
    let seen = "DocumentRoot /srv\nProxyPass /a/own !\nProxyPass /a http://192.0.2.1:81/\nProxyPass /ab http://192.0.2.1:82/";
    check(Web::Apache, &[(seen, &["path = \"/a/own/\"", "path = \"/a/\"", "path = \"/ab/\""])]);
    refuse(
        Web::Apache,
        &[
            ("DocumentRoot /srv\nProxyPass /a/ http://192.0.2.1:81/b", 2, "proxypass /a/"),
            ("DocumentRoot /srv\nProxyPassMatch ^/a/(.*)$ http://192.0.2.1:81/b$1", 2, "proxypassmatch"),
        ],
    );
}

#[test]
fn apache_aliases_have_folders_and_files() {
    let files = |text| [("/etc/x/conf", text), ("/web/f.txt", ""), ("/lib/prog", "")];
    for (text, expected) in [
        ("DocumentRoot /srv\nAlias / /other/", "root = \"/other\""),
        ("Alias / /other/\nDocumentRoot /srv", "root = \"/other\""),
        ("DocumentRoot /srv\nAlias /f.txt /web/f.txt", "path = \"/f.txt\"\nroot = \"/web\""),
    ] {
        let conversion = converted(Web::Apache, "/etc/x/conf", &files(text));
        assert!(!conversion.is_refused() && conversion.text.contains(expected), "{}", conversion.text);
        assert_eq!(
            conversion.text.matches("root = ").count(),
            expected.lines().count(),
            "{}",
            conversion.text
        );
    }
    // A front controller is one of its folder.
    check(
        Web::Apache,
        &[(
            "DocumentRoot /srv\nAlias /x /other\n<Directory /srv>\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]\n</Directory>",
            &["fallback = \"/index.php\"", "path = \"/x/\"", "fallback = false"],
        )],
    );
    for text in ["DocumentRoot /srv\nAlias /x /web/f.txt", "DocumentRoot /srv\nScriptAlias /x /lib/prog/"] {
        let conversion = converted(Web::Apache, "/etc/x/conf", &files(text));
        assert!(conversion.is_refused(), "{}", conversion.text);
    }
}

#[test]
fn apache_files_are_named_at_any_depth() {
    let denied = |files: &str| {
        format!("DocumentRoot /srv\n<{files}>\nRequire all denied\n</Files>")
            .replace("</Files>", if files.starts_with("FilesM") { "</FilesMatch>" } else { "</Files>" })
    };
    for (files, expected) in [
        ("Files wp-config.php", "path = \"/**/wp-config.php\""),
        ("Files .env", "path = \"/**/.env\""),
        ("FilesMatch \"^\\.ph(ar|p|ps|tml)$\"", "path = \"/**/.phps\""),
    ] {
        check(Web::Apache, &[(&denied(files), &[expected, "then = \"deny\""])]);
    }
    check(
        Web::Apache,
        &[(
            "DocumentRoot /srv\n<Directory /srv/a>\n<Files x.php>\nRequire all denied\n</Files>\n</Directory>",
            &["path = \"/a/**/x.php\"", "then = \"deny\""],
        )],
    );
}

#[test]
fn apache_fields_and_variables_are_valid() {
    check(
        Web::Apache,
        &[
            (
                "DocumentRoot /srv\nHeader unset Server\nHeader always unset X-Powered-By\nHeader set Date x\nHeader append Vary Origin",
                &["headers = { X-Powered-By = false, +Vary = \"Origin\" }"
                    .replace("+Vary", "\"+Vary\"")
                    .leak()],
            ),
            (
                "DocumentRoot /srv\nExpiresByType image/png \"access plus 1 hour\"\nHeader append Cache-Control \"public\"",
                &["cache_control = { \"image/png\" = \"max-age=3600, public\", \"/\" = \"public\" }"],
            ),
            (
                "DocumentRoot /srv\nExpiresDefault A60\n<FilesMatch \"\\.js$\">\nHeader append Cache-Control \"public\"\n</FilesMatch>",
                &[
                    "cache_control = { \"/\" = \"max-age=60\" }",
                    "path = \"*.js\"",
                    "cache_control = { \"/\" = \"max-age=60, public\" }",
                ],
            ),
            (
                "DocumentRoot /srv\nSetEnv proxy-nokeepalive 1\nSetEnv A b\n<Location /z>\nSetEnv no-gzip 1\n</Location>\n\
                 <Location /server-info>\nSetHandler server-info\n</Location>",
                &[
                    "env = { A = \"b\" }",
                    "path = \"/server-info/\"",
                    "return = 404",
                    "path = \"/z/\"",
                    "compress = false",
                ],
            ),
            (
                "DocumentRoot /srv\n<FilesMatch \\.x$>\nSSLOptions +StdEnvVars\n</FilesMatch>",
                &["path = \"*.x\""],
            ),
            (
                "DocumentRoot /srv\nSetEnvIfNoCase ^Authorization$ \"(.+)\" HTTP_AUTHORIZATION=$1\n<FilesMatch \\.php$>\n\
                 SetHandler \"proxy:unix:/p.sock|fcgi://localhost\"\n</FilesMatch>",
                &["path = \"*.php\"", "interpreter = \"fastcgi\"", "pass_authorization = true"],
            ),
        ],
    );
    refuse(
        Web::Apache,
        &[
            ("DocumentRoot /srv\nHeader set Content-Type text/plain", 2, "header set Content-Type"),
            ("DocumentRoot /srv\nSetEnvIf Origin \"(.+)\" O=$1", 2, "setenvif Origin"),
        ],
    );
}

/// As certbot writes it.
#[test]
fn apache_redirects_its_names_to_https() {
    let site = |conditions: &str| {
        format!(
            "Listen 80\nListen 443\n<VirtualHost *:80>\nServerName a.example\nServerAlias www.a.example\nRewriteEngine on\n{conditions}\
             RewriteRule ^ https://%{{SERVER_NAME}}%{{REQUEST_URI}} [END,NE,R=permanent]\n</VirtualHost>\n\
             <VirtualHost *:443>\nServerName a.example\nServerAlias www.a.example\nDocumentRoot /srv\nSSLEngine on\n\
             SSLCertificateFile /c.pem\nSSLCertificateKeyFile /k.pem\n</VirtualHost>\n"
        )
    };
    let all = site("RewriteCond %{SERVER_NAME} =a.example [OR]\nRewriteCond %{SERVER_NAME} =www.a.example\n");
    check(Web::Apache, &[(&all, &["https_redirect = true", "names = [\"a.example\", \"www.a.example\"]"])]);
    for conditions in [
        "RewriteCond %{SERVER_NAME} =a.example\n",
        "RewriteCond %{SERVER_NAME} =a.example\nRewriteCond %{SERVER_NAME} =www.a.example\n",
    ] {
        refuse(Web::Apache, &[(&site(conditions), 7 + conditions.lines().count() as u32, "rewriterule ^")]);
    }
}

#[test]
fn apache_variables_are_those_of_envvars() {
    let exported = "SUFFIX=\nexport APACHE_LOG_DIR=/var/log/apache2$SUFFIX\n";
    for (file, envvars) in [
        ("/etc/apache2/apache2.conf", "/etc/apache2/envvars"),
        ("/etc/apache2/sites-available/a.conf", "/etc/apache2/envvars"),
    ] {
        let text = "Listen 80\nDocumentRoot /srv\nErrorLog ${APACHE_LOG_DIR}/error.log\n";
        let conversion = converted(Web::Apache, file, &[(file, text), (envvars, exported)]);
        assert!(conversion.text.contains("error = \"/var/log/apache2/error.log\""), "{}", conversion.text);
    }
}

#[test]
fn apache_says_which_of_its_rules_have_no_effect() {
    for (text, severity, part) in [
        ("Options MultiViews", Severity::Warning, "MultiViews: of the extensions"),
        ("RewriteRule ^ - [E=BASE:%1]", Severity::Warning, "the variable BASE is not set"),
        ("SetEnvIfNoCase Transfer-Encoding chunked proxy-sendcl=1", Severity::Notice, "has no effect"),
        ("SetEnvIf Referer x y", Severity::Error, "cannot be converted"),
        (
            "ProxyPass / http://127.0.0.1:81/\nRewriteCond %{HTTP:Upgrade} websocket [NC]\n\
             RewriteRule ^/?(.*) ws://127.0.0.1:81/$1 [P,L]",
            Severity::Notice,
            "an upstream may upgrade to WebSocket",
        ),
        (
            "ProxyPass / http://127.0.0.1:81/\nRewriteCond %{HTTP:Upgrade} websocket [NC]\n\
             RewriteRule ^/?(.*) ws://127.0.0.1:82/$1 [P,L]",
            Severity::Error,
            "cannot be converted",
        ),
        (
            "RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^(.*)/$ /$1 [L,R=301]",
            Severity::Warning,
            "a path with a slash at its end is not redirected",
        ),
        (
            "RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} (.+)/$\nRewriteRule ^ %1 [L,R=301]",
            Severity::Warning,
            "a path with a slash at its end is not redirected",
        ),
        (
            "RewriteCond %{ENV:REDIRECT_STATUS} =\"\"\nRewriteRule ^index\\.php(?:/(.*)|$) %{ENV:BASE}/$1 [R=301,L]",
            Severity::Warning,
            "a path that names the script of all paths is not redirected",
        ),
    ] {
        let text = format!("DocumentRoot /srv\n{text}\n");
        let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        let found = conversion
            .findings
            .iter()
            .any(|finding| finding.severity == severity && finding.what.contains(part));
        assert!(found, "{text}\n{:#?}", conversion.findings);
    }
}

#[test]
fn apache_knows_the_front_controllers_of_applications() {
    let site = |rules: &str| {
        let missing = "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d";
        let there = "RewriteCond %{REQUEST_FILENAME} -s [OR]\nRewriteCond %{REQUEST_FILENAME} -d";
        let rules = rules.replace("MISSING", missing).replace("THERE", there);
        format!("DocumentRoot /srv\n<Directory /srv>\n{rules}\n</Directory>\n")
    };
    check(
        Web::Apache,
        &[
            (
                &site("MISSING\nRewriteRule ^([\\s\\S]*)$ index.php/$1 [L,QSA]"),
                &["fallback = \"/index.php\""],
            ),
            (
                &site("THERE\nRewriteRule ^.*$ - [NC,L]\nRewriteRule ^.*$ index.php [NC,L]"),
                &["fallback = \"/index.php\""],
            ),
            (
                &site("RewriteCond %{REQUEST_URI} !^/index\\.php\nMISSING\nRewriteRule .* index.php [L]"),
                &["fallback = \"/index.php\"", "fallback_for = \"all\""],
            ),
            (
                &site("RewriteCond %{REQUEST_URI} ^/api/\nMISSING\nRewriteRule .* api/index.php [L]"),
                &["path = \"/api/\"", "fallback = \"/api/index.php\""],
            ),
            (
                &site("MISSING\nRewriteCond %{REQUEST_URI} !=/favicon.ico\nRewriteRule ^ index.php [L]"),
                &["fallback = \"/index.php\"", "path = \"/favicon.ico\"", "fallback = false"],
            ),
        ],
    );
    refuse(
        Web::Apache,
        &[
            (&site("RewriteRule ^.*$ index.php [NC,L]"), 3, "cannot be converted"),
            // What does not match.
            (&site("RewriteRule !\\d - [F]"), 3, "cannot be converted"),
            (&site("RewriteRule !a /b [L]"), 3, "cannot be converted"),
            (
                &site("THERE\nRewriteRule ^a - [L]\nRewriteRule ^.*$ index.php [NC,L]"),
                5,
                "cannot be converted",
            ),
            (
                &site("MISSING\nRewriteCond %{REQUEST_URI} ^/a\nRewriteRule ^ index.php [L]"),
                6,
                "cannot be converted",
            ),
        ],
    );
}

#[test]
fn paths_of_apache_without_the_extension_of_their_file_are_converted() {
    let folder = |rules: &str| {
        format!(
            "Listen 80\nDocumentRoot /srv\nAlias /a/ /b/\n<Directory /srv>\nRequire all granted\n{rules}\n</Directory>\n"
        )
    };
    let file = "%{REQUEST_FILENAME}";
    for (rules, expected) in [
        (
            format!("RewriteCond {file} !-d\nRewriteCond {file}.html -f\nRewriteRule ^(.*)$ $1.html [L]"),
            "try_suffixes = [\"/\", \".html\"]",
        ),
        (
            format!("RewriteCond {file}\\.html -f\nRewriteRule ^ %{{REQUEST_URI}}.html [L]"),
            "try_suffixes = [\".html\"]",
        ),
        (
            format!("RewriteCond {file} !-f\nRewriteRule ^([^\\.]+)$ $1.html [NC,L]"),
            "try_suffixes = [\".html\"]",
        ),
        (
            format!(
                "RewriteCond {file} !-d\nRewriteCond {file}.html -f\nRewriteRule ^(.+)$ $1.html [L]\n\
                 RewriteCond {file} !-d\nRewriteCond {file}.htm -f\nRewriteRule ^(.+)$ $1.htm [L]"
            ),
            "try_suffixes = [\"/\", \".html\", \".htm\"]",
        ),
        (
            format!("RewriteCond {file} !-d\nRewriteCond {file}.php -f\nRewriteRule ^(.*)$ $1.php [L]"),
            "try_suffixes = [\"/\", \".php\"]",
        ),
        (
            format!("RewriteCond {file} !-f\nRewriteRule ^([^\\.]+)$ $1.php [NC,L,QSA]"),
            "try_suffixes = [\".php\"]",
        ),
        ("Options MultiViews".to_owned(), "try_suffixes = [\"/\", \".html\"]"),
    ] {
        let text = folder(&format!("RewriteEngine On\n{rules}"));
        check(Web::Apache, &[(&text, &[expected, "path = \"/a/\"", "try_suffixes = []"])]);
    }
    lacks(Web::Apache, &[(&folder("Options Indexes"), &["try_suffixes = []"])]);
    let inner = "<Directory /srv/x>\nOptions -MultiViews\n</Directory>\n";
    check(
        Web::Apache,
        &[(&(folder("Options MultiViews") + inner), &["path = \"/x/\"", "try_suffixes = []"])],
    );
    // The other way round, a client is not sent to the shorter path.
    let asked = "RewriteEngine On\nRewriteCond %{THE_REQUEST} ^[A-Z]{3,}\\s([^.]+)\\.php [NC]\nRewriteRule ^ %1 [R=301,L]";
    assert!(!converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &folder(asked))]).is_refused());
    // Other conditions need their rules.
    for (rules, line) in [
        ("RewriteCond %{REQUEST_FILENAME}.php -f\nRewriteRule ^(.*)$ $1.php?a=$1 [L]", 8),
        ("RewriteCond %{REQUEST_FILENAME}.html -d\nRewriteRule ^(.*)$ $1.html [L]", 8),
        ("RewriteCond %{REQUEST_FILENAME}.htm -f\nRewriteRule ^(.*)$ $1.html [L]", 8),
        ("RewriteRule ^(.*)$ $1.html [L]", 7),
        ("RewriteCond %{REQUEST_FILENAME}.html -f\nRewriteRule ^(.*)$ $1.html [R]", 8),
    ] {
        let text = folder(&format!("RewriteEngine On\n{rules}"));
        refuse(Web::Apache, &[(&text, line, "rewriterule")]);
    }
}

#[test]
fn apache_runs_no_file_of_a_prefix_that_is_passed_on_before() {
    let text = "Listen 80\nDocumentRoot /srv\n<Directory /srv>\nRequire all granted\n</Directory>\n\
                ProxyPass /api/ http://127.0.0.1:81/\nProxyPassMatch ^/(.*\\.php)$ fcgi://127.0.0.1:9000/srv/$1\n\
                ProxyPass /late/ http://127.0.0.1:82/\nRewriteEngine On\nRewriteRule ^/old/(.*)$ /new/$1 [R=301]\n";
    let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", text)]);
    let paths: Vec<&str> = conversion.text.lines().filter_map(|line| line.strip_prefix("path = ")).collect();
    let place = |path: &str| paths.iter().position(|own| *own == path);
    let program = place("\"/**.php\"");
    assert!(place("\"/api/**.php\"").is_some_and(|at| Some(at) < program), "{paths:?}");
    assert!(place("\"/old/**.php\"").is_some_and(|at| Some(at) < program), "{paths:?}");
    assert_eq!(place("\"/late/**.php\""), None, "the program is asked first: {paths:?}");
    // A pattern alone has the response of its prefix.
    assert!(conversion.text.contains("path = \"/api/**.php\"\n\n"), "{}", conversion.text);
}

#[test]
fn apache_sends_no_source_where_mod_php_may_be_loaded() {
    let of = |load: &str, section: &str, handler: &str| {
        format!(
            "{load}\nListen 80\nDocumentRoot /srv\n<IfModule {section}>\n{handler}\n</IfModule>\n<Directory /srv>\nRequire all granted\n</Directory>\n"
        )
    };
    let handler = "AddType application/x-httpd-php .php";
    for section in ["mod_php.c", "mod_php7.c", "php_module"] {
        refuse(Web::Apache, &[(&of("", section, handler), 5, "whether mod_php runs PHP")]);
    }
    check(
        Web::Apache,
        &[
            (&of("", "mod_php5.c", "php_value a b"), &[]),
            (&of("LoadModule rewrite_module x", "mod_php.c", handler), &[]),
            (&of("", "!mod_alias.c", handler), &[]),
        ],
    );
}

#[test]
fn apache_redirects_to_the_name_with_www_or_without() {
    let site = |names: &str, condition: &str, target: &str| {
        format!(
            "<VirtualHost *:80>\nServerName {names}\nDocumentRoot /srv\nRewriteCond %{{HTTP_HOST}} {condition} [NC]\n\
             RewriteRule ^(.*)$ {target} [R=301,L]\n</VirtualHost>\n"
        )
    };
    let both = "a.example\nServerAlias www.a.example";
    for (condition, target, expected) in [
        ("^www\\.a\\.example$", "http://a.example/$1", "canonical = \"bare\""),
        ("^www\\.(.+)$", "http://%1%{REQUEST_URI}", "canonical = \"bare\""),
        ("!^www\\.", "http://www.%{HTTP_HOST}%{REQUEST_URI}", "canonical = \"www\""),
        ("!^www\\.", "%{REQUEST_SCHEME}://www.a.example/$1", "canonical = \"www\""),
    ] {
        check(Web::Apache, &[(&site(both, condition, target), &[expected])]);
    }
    for (names, condition, target) in [
        ("www.a.example", "^www\\.(.+)$", "http://%1%{REQUEST_URI}"),
        (both, "^www\\.(.+)$", "https://%1%{REQUEST_URI}"),
    ] {
        let line = if names == both { 6 } else { 5 };
        refuse(Web::Apache, &[(&site(names, condition, target), line, "cannot be converted")]);
    }
}

#[test]
fn apache_runs_no_scripts_where_php_is_off() {
    let text = "DocumentRoot /srv\n<FilesMatch \\.php$>\nSetHandler proxy:fcgi://127.0.0.1:9000\n</FilesMatch>\n\
                <Directory /srv/images>\nphp_admin_flag engine off\n</Directory>\n";
    check(Web::Apache, &[(text, &["path = \"/images/**/*.php\"", "return = 403"])]);
}

#[test]
fn apache_keeps_closed_what_it_cannot_say() {
    refuse(
        Web::Apache,
        &[
            ("DocumentRoot /srv\n<Location /a>\nRequire host example.org\n</Location>", 3, "require host"),
            ("DocumentRoot /srv\n<If \"true\">\nRequire all denied\n</If>", 2, "if true"),
            (
                "DocumentRoot /srv\n<Location /a>\nAuthType Basic\nRequire valid-user\n</Location>",
                2,
                "no file of them",
            ),
            ("DocumentRoot /srv\n<Location /a>\nRequire ldap-user x\n</Location>", 3, "ldap-user"),
            ("DocumentRoot /srv\n<Limit POST>\nRequire valid-user\n</Limit>", 2, "limit POST"),
            (
                "DocumentRoot /srv\nRewriteCond %{REMOTE_ADDR} !^10\nRewriteRule ^ - [F]",
                3,
                "rewriterule ^ - [F]",
            ),
            ("DocumentRoot /srv\nAddHandler application/x-httpd-php .php", 2, "x-httpd-php"),
            ("DocumentRoot /srv\nProxyRequests On", 2, "proxyrequests"),
            ("DocumentRoot /srv\n<Directory \"/srv/*/x\">\nRequire all denied\n</Directory>", 2, "srv/*/x"),
            ("DocumentRoot /srv\nSecRuleEngine On", 2, "secruleengine"),
            ("DocumentRoot ${NOT}", 1, "NOT is not defined"),
            ("DocumentRoot /srv\n<Location /a>\n</Directory>", 3, "closes"),
            ("DocumentRoot /srv\n<Location /a>", 2, "not closed"),
            ("Include none.conf\nDocumentRoot /srv", 1, "is missing"),
        ],
    );
    // Decided or not, the result denies.
    for text in [
        "DocumentRoot /srv\n<Location /a>\nRequire host example.org\n</Location>",
        "DocumentRoot /srv\n<Location /a>\nAuthType Kerberos\nRequire valid-user\n</Location>",
        "DocumentRoot /srv\n<Directory /srv/a>\nAllow from example.org\n</Directory>",
        "DocumentRoot /srv\n<DirectoryMatch \"^/srv/[0-9]\">\nRequire all denied\n</DirectoryMatch>",
    ] {
        let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", text)]);
        assert!(conversion.text.contains("then = \"deny\""), "{}", conversion.text);
    }
}

#[test]
fn reads_the_files_of_folders_where_apache_would() {
    let server = "Listen 80\nDocumentRoot /srv\n<Directory /srv>\nAllowOverride AuthConfig\nRequire all granted\n</Directory>\n";
    let files = |text: &'static str| {
        [("/etc/x/conf", server), ("/srv/.htaccess", text), ("/srv/sub/.htaccess", "Require ip 10")]
    };
    let conversion = converted(
        Web::Apache,
        "/etc/x/conf",
        &files("AuthType Basic\nAuthName x\nAuthUserFile /u\nRequire valid-user\n"),
    );
    assert!(
        conversion.text.contains("auth = \"basic\"") && conversion.text.contains("path = \"/sub/\""),
        "{}",
        conversion.text
    );
    assert!(conversion.text.contains("auth = \"off\""), "{}", conversion.text);
    let conversion = converted(Web::Apache, "/etc/x/conf", &files("Options +Indexes"));
    let error =
        conversion.findings.iter().find(|finding| finding.severity == Severity::Error).expect("an error");
    assert!(error.what.contains("/srv/.htaccess:1: options is not allowed here"), "{error:?}");
    let conversion =
        Web::Apache.convert(Path::new("/srv/.htaccess"), &Files::new(&[("/srv/.htaccess", "Deny from all")]));
    assert!(
        conversion.text.contains("root = \"/srv\"") && conversion.text.contains("then = \"deny\""),
        "{}",
        conversion.text
    );
}

#[test]
fn a_folder_alone_is_not_what_is_below_it() {
    let nginx = |location: &str| format!("server {{ root /srv; deny all; {location} }}");
    let root = &["path = \"/.\""][..];
    let folder = &["path = \"/a/.\""][..];
    for (location, expected) in [
        ("location = / { allow 10.0.0.0/8; deny all; }", root),
        ("location = / { return 302 /app/; }", root),
        ("location = / { proxy_pass http://127.0.0.1:81; }", root),
        ("location ~ ^/$ { return 404; }", root),
        ("location = /a/ { return 404; }", folder),
        ("rewrite ^/$ /app/ permanent;", root),
        ("location / { location = / { return 404; } }", root),
    ] {
        check(Web::Nginx, &[(&nginx(location), expected)]);
    }
    for (directive, expected) in [
        ("redir / /app/", root),
        ("respond / 403", root),
        ("rewrite / /b", root),
        ("reverse_proxy / 127.0.0.1:81", root),
        ("basic_auth / {\n ann $2a$14$abcdefghijklmnopqrstuuKaN6n0PPD0yU2Zl1eV9WzX8mNqQ2Q2u\n }", root),
        ("header / X-A b", root),
        ("redir /a/ /b", folder),
        ("@x path /\n respond @x 403", root),
        ("@x {\n path /\n remote_ip 10.0.0.1\n }\n respond @x 403", &["path = [\"/.\"]"]),
    ] {
        check(Web::Caddy, &[(&format!(":80 {{\n root * /srv\n {directive}\n file_server\n}}"), expected)]);
    }
    check(Web::Apache, &[("Listen 80\nDocumentRoot /srv\nRedirectMatch ^/$ /app/\n", root)]);
}

#[test]
fn a_return_of_a_server_is_for_all_its_paths() {
    for (directive, expected) in [
        (
            "return 301 $scheme://example.org$request_uri;",
            &["path = \"/\"", "redirect = \"$scheme://example.org$path$query\"", "status = 301"][..],
        ),
        ("return 301 https://example.org$request_uri;", &["redirect = \"https://example.org$path$query\""]),
        ("return 302 http://example.org/;", &["path = \"/\"", "status = 302"]),
        ("return 403;", &["path = \"/\"", "return = 403"]),
        ("return 404;", &["return = 404"]),
        ("return 444;", &["return = 403"]),
        ("rewrite ^/a$ /b permanent; return 404;", &["path = \"/a\"", "path = \"/\"", "return = 404"]),
    ] {
        let text =
            format!("server {{ server_name www.example.org; {directive} location /x/ {{ root /srv; }} }}");
        check(Web::Nginx, &[(&text, expected)]);
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert!(!conversion.text.contains("/x/\""), "{}", conversion.text);
    }
    // As certbot writes it.
    let text = "server { listen 80; server_name a.org; if ($host = a.org) { return 301 https://$host$request_uri; } return 404; }\n\
                server { listen 443 ssl; server_name a.org; root /srv; ssl_certificate c; ssl_certificate_key k; }";
    check(Web::Nginx, &[(text, &["https_redirect = true", "names = [\"a.org\"]"])]);
}

/// Rows: what stands in a server, and all routes of its host.
fn check_routes(rows: &[(&str, &str)]) {
    for (directives, expected) in rows {
        let text = format!("server {{ listen 80; {directives} }}");
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert!(!conversion.is_refused(), "{text}\n{}", conversion.text);
        let host = conversion.text.split_once("[[host]]\n").map_or("", |(_, host)| host);
        let lines: Vec<&str> =
            host.lines().filter(|line| !line.is_empty() && *line != "default = true").collect();
        let lines = lines.join("; ").replace("[[host.route]]; ", "").replace("host.route.", "");
        assert_eq!(lines, *expected, "{text}");
    }
}

#[test]
fn a_location_has_nothing_of_the_location_of_all_paths() {
    check_routes(&[
        (
            "root /srv; index index.html; location / { autoindex on; } location /up/ { expires 1h; }",
            "root = \"/srv\"; index = [\"index.html\"]; path = \"/\"; listing = true; path = \"/up/\"; cache_control = \"max-age=3600\"",
        ),
        (
            "root /srv; location / { add_header X-A b; autoindex on; } location ~ \\.css$ { gzip on; } location = /a/ { gzip on; } \
             location ~ \\.bak$ { deny all; }",
            "root = \"/srv\"; path = \"/\"; headers = { X-A = \"b\" }; listing = true; \
             path = \"*.css\"; compress = true; headers = { X-A = false }; \
             path = \"/a/.\"; compress = true; listing = false; headers = { X-A = false }; \
             path = \"*.bak\"; [[rule]]; then = \"deny\"",
        ),
        (
            "root /srv; add_header X-A c; location / { add_header X-A b; gzip on; } location = /a { etag off; }",
            "root = \"/srv\"; headers = { X-A = \"c\" }; path = \"/\"; headers = { X-A = \"b\" }; compress = true; \
             path = \"/a\"; etag = \"off\"; compress = false; headers = { X-A = \"c\" }",
        ),
        (
            "root /srv; location / { try_files $uri $uri/ /index.php; } location ~ \\.php$ { fastcgi_pass 127.0.0.1:9; } \
             location ~ \\.css$ { expires 1h; } location = /a { return 410; } location /b/ { etag off; }",
            "root = \"/srv\"; path = \"/\"; fallback = \"/index.php\"; fallback_for = \"all\"; \
             path = \"*.php\"; interpreter = \"fastcgi\"; fallback = false; \
             path = \"*.css\"; cache_control = \"max-age=3600\"; fallback = false; path = \"/a\"; return = 410; \
             path = \"/b/\"; etag = \"off\"",
        ),
        // The try_files of a server is for paths without a location.
        (
            "root /srv; try_files $uri /a; location /b/ { etag off; }",
            "root = \"/srv\"; path = \"/\"; fallback = \"/a\"; fallback_for = \"all\"; index = []; listing = false; \
             path = \"/b/\"; etag = \"off\"",
        ),
        ("root /srv; try_files $uri $uri/ /a; location / { }", "root = \"/srv\""),
        (
            "root /srv; location /a/ { try_files $uri =404; } location ~ \\.b$ { try_files $uri =404; etag off; }",
            "root = \"/srv\"; path = \"/a/\"; index = []; listing = false; path = \"*.b\"; etag = \"off\"",
        ),
        // The host has what its only location has.
        (
            "root /srv; add_header X-A b; location / { root /www; autoindex on; deny all; add_header X-C d; }",
            "root = \"/www\"; headers = { X-C = \"d\" }; listing = true; path = \"/\"; [[rule]]; then = \"deny\"",
        ),
        (
            "root /srv; location / { root /www; } location /a/ { etag off; }",
            "root = \"/srv\"; path = \"/\"; root = \"/www\"; path = \"/a/\"; etag = \"off\"",
        ),
        // nginx has another folder for it.
        (
            "location / { root /www; } location /a/ { etag off; } location ~ \\.b$ { etag off; }",
            "path = \"/\"; root = \"/www\"; path = \"/a/\"; etag = \"off\"; return = 404; path = \"*.b\"; etag = \"off\"",
        ),
    ]);
    refuse(
        Web::Nginx,
        &[(
            "server { root /srv; location / { add_header Cache-Control public; }\nlocation ~ \\.php$ { fastcgi_pass 127.0.0.1:9; } }",
            2,
            "*.php would have Cache-Control of location /",
        )],
    );
}

#[test]
fn hidden_fields_leave_those_of_the_server() {
    check_routes(&[
        (
            "root /srv; add_header X-A b; location /x/ { return 404; } location / { proxy_pass http://127.0.0.1:81/; proxy_hide_header X-B; \
             proxy_hide_header Server; }",
            "root = \"/srv\"; headers = { X-A = \"b\" }; path = \"/x/\"; return = 404; path = \"/\"; proxy = \"http://http/\"; \
             proxy_host = \"127.0.0.1:81\"; headers = { X-B = false }",
        ),
        (
            "root /srv; add_header X-A b; location / { add_header X-C d; proxy_pass http://127.0.0.1:81/; proxy_hide_header X-B; proxy_hide_header X-C; }",
            "root = \"/srv\"; headers = { X-A = \"b\" }; path = \"/\"; headers = { X-C = \"d\", X-A = false, X-B = false }; \
             proxy = \"http://http/\"; proxy_host = \"127.0.0.1:81\"",
        ),
    ]);
}

#[test]
fn what_has_fields_has_none_of_those_around_it() {
    let text = "http { add_header X-A b; server { root /srv; add_header X-C d; location /a/ { add_header X-E f; } } \
                server { server_name b.org; root /srv; location /b/ { add_header X-E f; } } }";
    check(
        Web::Nginx,
        &[(
            text,
            &[
                "headers = { X-A = \"b\" }",
                "headers = { X-C = \"d\", X-A = false }",
                "path = \"/a/\"",
                "headers = { X-E = \"f\", X-C = false, X-A = false }",
                "path = \"/b/\"",
                "headers = { X-E = \"f\", X-A = false }",
            ],
        )],
    );
}

#[test]
fn expires_and_a_field_of_its_own_make_one_cache_control() {
    check_routes(&[
        (
            "root /srv; expires 1h; add_header Cache-Control public; location /a/ { expires 2h; } location /b/ { expires off; } \
             location /c/ { add_header X-A b; }",
            "root = \"/srv\"; cache_control = \"max-age=3600, public\"; path = \"/a/\"; cache_control = \"max-age=7200, public\"; \
             path = \"/b/\"; headers = { Cache-Control = \"public\" }; \
             path = \"/c/\"; headers = { X-A = \"b\" }; cache_control = \"max-age=3600\"",
        ),
        (
            "root /srv; expires 1h; location / { add_header Cache-Control public; } location ~ \\.a$ { etag off; } location /b/ { expires -1; }",
            "root = \"/srv\"; cache_control = \"max-age=3600\"; path = \"/\"; cache_control = \"max-age=3600, public\"; \
             path = \"*.a\"; etag = \"off\"; cache_control = \"max-age=3600\"; path = \"/b/\"; cache_control = \"no-cache\"",
        ),
        (
            "root /srv; location / { add_header Cache-Control public; } location ~ \\.a$ { expires 2h; }",
            "root = \"/srv\"; path = \"/\"; headers = { Cache-Control = \"public\" }; \
             path = \"*.a\"; cache_control = \"max-age=7200\"",
        ),
        (
            "root /srv; location /a/ { expires 2h; add_header Cache-Control public; } location /b/ { expires 1h; proxy_pass http://127.0.0.1:81/; }",
            "root = \"/srv\"; path = \"/a/\"; cache_control = \"max-age=7200, public\"; path = \"/b/\"; proxy = \"http://http/\"; \
             proxy_host = \"127.0.0.1:81\"; headers = { Cache-Control = \"max-age=3600\" }; path = \"/b\"; redirect = \"/b/$query\"; status = 301",
        ),
    ]);
}

#[test]
fn an_upstream_runs_the_script_that_a_location_names() {
    let php = "fastcgi_pass unix:/p; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;";
    let laravel = format!(
        "root /srv; location / {{ try_files $uri $uri/ /index.php?$query_string; }} location = /index.php {{ {php} }}"
    );
    let symfony = format!(
        "root /srv; location / {{ try_files $uri /index.php$is_args$args; }} location ~ ^/index\\.php(/|$) {{ {php} internal; }} \
         location ~ \\.php$ {{ return 404; }}"
    );
    check_routes(&[
        (
            &laravel,
            "root = \"/srv\"; path = \"/\"; fallback = \"/index.php\"; fallback_for = \"all\"; \
             path = \"/index.php\"; interpreter = \"fastcgi\"; fallback = false",
        ),
        (
            &symfony,
            "root = \"/srv\"; path = \"/\"; fallback = \"/index.php\"; fallback_for = \"all\"; index = []; listing = false; \
             path = \"/index.php\"; interpreter = \"fastcgi\"; fallback = false; \
             path = \"/index.php/\"; interpreter = \"fastcgi\"; path = \"*.php\"; return = 404",
        ),
        (
            "root /srv; location / { fastcgi_pass unix:/p; fastcgi_param SCRIPT_FILENAME $document_root/index.php; fastcgi_param A b; }",
            "root = \"/srv\"; path = \"/\"; rewrite = \"/index.php\"; \
             path = \"/index.php\"; interpreter = \"fastcgi\"; env = { A = \"b\" }",
        ),
        (
            "location / { fastcgi_pass unix:/p; fastcgi_param SCRIPT_FILENAME /srv/a/front.php; }",
            "path = \"/\"; rewrite = \"/front.php\"; path = \"/front.php\"; interpreter = \"fastcgi\"; root = \"/srv/a\"",
        ),
        (
            "root /srv; location = /status { fastcgi_pass unix:/p; }",
            "root = \"/srv\"; path = \"/status\"; application = \"fastcgi\"",
        ),
    ]);
}

#[test]
fn the_path_of_a_url_replaces_that_of_its_location() {
    let proxy = |location: &str, path: &str| {
        format!(
            "root /srv; location {location} {{ proxy_set_header Host $host; proxy_pass http://127.0.0.1:81{path}; }}"
        )
    };
    let redirect = "path = \"/a\"; redirect = \"/a/$query\"; status = 301";
    let raw = "proxy = \"http://http\"; proxy_path = \"raw\"";
    for (location, path, expected) in [
        (
            "/a",
            "/b",
            "path = \"/a/\"; proxy = \"http://http/b/\"; path = \"/a\"; proxy = \"http://http/b\"".to_owned(),
        ),
        (
            "/a",
            "/",
            "path = \"/a/\"; proxy = \"http://http/\"; path = \"/a\"; proxy = \"http://http/\"".to_owned(),
        ),
        ("/a/", "/b/", format!("path = \"/a/\"; proxy = \"http://http/b/\"; {redirect}")),
        ("= /a", "/b", "path = \"/a\"; proxy = \"http://http/b\"".to_owned()),
        ("/a/", "", format!("path = \"/a/\"; {raw}; {redirect}")),
        ("/", "", format!("path = \"/\"; {raw}")),
    ] {
        check_routes(&[(&proxy(location, path), &format!("root = \"/srv\"; {expected}"))]);
    }
    check_routes(&[(
        "root /srv; location /a/ { rewrite ^/a/(.*)$ /$1 break; proxy_pass http://127.0.0.1:81; proxy_set_header Host $host; }",
        &format!("root = \"/srv\"; path = \"/a/\"; proxy = \"http://http/\"; {redirect}"),
    )]);
    refuse(
        Web::Nginx,
        &[
            (
                "server { location /a/ { proxy_pass http://127.0.0.1:81;\nrewrite ^/b$ /c last; } }",
                2,
                "rewrite ^/b$",
            ),
            (&format!("server {{\n{} }}", proxy("/a/", "/b")), 2, "/b would be written against"),
            (&format!("server {{\n{} }}", proxy("~ \\.x$", "/b")), 2, "is no prefix"),
        ],
    );
}

#[test]
fn an_alias_can_be_one_file() {
    for (location, expected) in [
        ("location = /robots.txt { alias /files/robots.txt; }", Some("root = \"/files\"")),
        ("location /robots.txt { alias /files/robots.txt; }", Some("root = \"/files\"")),
        ("location = /a/robots.txt { alias /files/robots.txt; }", None),
    ] {
        let text = format!("server {{ root /srv; {location} }}");
        let conversion =
            converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text), ("/files/robots.txt", "")]);
        assert_eq!(conversion.is_refused(), expected.is_none(), "{text}");
        let expected = format!("path = \"/robots.txt\"\n{}\n", expected.unwrap_or_default());
        assert!(conversion.is_refused() || conversion.text.contains(&expected), "{}", conversion.text);
    }
}

#[test]
fn what_no_path_or_pattern_says_is_left_out_or_refused() {
    check_routes(&[
        ("root /srv; location /a//b { deny all; }", "root = \"/srv\""),
        (
            "root /srv; gzip on; gzip_types *;",
            "root = \"/srv\"; compress = true; compress_types = [\"text/*\", \"application/*\", \"image/*\", \"font/*\", \
             \"audio/*\", \"video/*\", \"model/*\"]",
        ),
    ]);
    refuse(Web::Nginx, &[("server { root /srv;\nlocation /[x] { deny all; } }", 2, "location /[x]")]);
}

#[test]
fn refuses_what_nginx_tells_others_in_another_way() {
    let php = |parameter: &str| {
        format!(
            "server {{ root /srv; location ~ \\.php$ {{ fastcgi_pass unix:/p;\nfastcgi_param {parameter}; }} }}"
        )
    };
    refuse(
        Web::Nginx,
        &[
            (&php("REMOTE_ADDR $http_x_real_ip"), 2, "REMOTE_ADDR"),
            ("server { root /srv;\nlocation /up/ { types { } default_type text/plain; } }", 2, "empty types"),
            (
                "server { root /srv; set_real_ip_from 10.0.0.1;\nreal_ip_header CF-Connecting-IP; }",
                2,
                "CF-Connecting-IP",
            ),
            ("server { root /srv;\nset_real_ip_from 10.0.0.1; }", 2, "X-Real-IP"),
            ("server { root /srv;\naccess_log syslog:server=10.0.0.1:514; }", 2, "syslog"),
            ("error_log syslog:server=10.0.0.1:514;", 1, "syslog"),
            ("server { root /srv;\nset $a $b; }", 2, "set $a $b"),
            ("map $host $x { a b; }\nserver { root /srv; add_header X-A $x; }", 1, "map $host"),
            ("server { root /srv;\nadd_header Content-Type text/plain; }", 2, "add_header Content-Type"),
        ],
    );
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &php("HTTPS on"))]);
    assert!(conversion.text.contains("env = { HTTPS = \"on\" }"), "{}", conversion.text);
}

#[test]
fn files_beside_an_upstream_of_nginx_are_not_left_out_silently() {
    let server = |inside: &str| format!("server {{ root /srv; location /a/ {{\n{inside} }} }}");
    let refused = |inside: &str| refuse(Web::Nginx, &[(&server(inside), 2, "where an upstream responds")]);
    refused("try_files $uri =404; proxy_pass http://127.0.0.1:81;");
    refused("try_files $uri /index.html; proxy_pass http://127.0.0.1:81/;");
    refused("try_files $uri =404; fastcgi_pass 127.0.0.1:81;");
    refused(
        "try_files $uri /x.php; fastcgi_pass 127.0.0.1:81; fastcgi_param SCRIPT_FILENAME /srv/front.php;",
    );
    let of_script = "server { root /srv; location ~ \\.php$ { try_files $uri =404; fastcgi_pass unix:/p; } }";
    check(Web::Nginx, &[(of_script, &["path = \"*.php\"", "interpreter = \"fastcgi\""])]);
    let fallback =
        converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &of_script.replace("=404", "/index.php"))]);
    let said: Vec<String> = fallback.findings.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|line| line.contains("not the response of /index.php")), "{said:?}");
}

#[test]
fn a_named_location_of_nginx_with_an_upstream_is_a_fallback() {
    let named = "location @app { proxy_pass http://127.0.0.1:81; proxy_set_header Host $host; }";
    let routes =
        |text: &str, expected: &str| check_routes(&[(&format!("root /srv; {text} {named}"), expected)]);
    let app = "proxy = \"http://http\"; proxy_path = \"raw\"";
    routes(
        "location / { try_files $uri @app; }",
        &format!(
            "root = \"/srv\"; path = \"/\"; fallback = \"/@app\"; fallback_for = \"all\"; index = []; listing = false; \
             path = \"/@app\"; {app}"
        ),
    );
    routes(
        "index a.html; location / { try_files $uri $uri/ @app; }",
        &format!(
            "root = \"/srv\"; index = [\"a.html\"]; path = \"/\"; fallback = \"/@app\"; fallback_for = \"all\"; \
             index = [\"a.html\"]; path = \"/@app\"; {app}"
        ),
    );
    // The files of a server itself, with the page of a folder.
    routes(
        "try_files $uri/index.html $uri @app;",
        &format!(
            "root = \"/srv\"; path = \"/\"; fallback = \"/@app\"; fallback_for = \"all\"; index = [\"index.html\"]; \
             listing = false; path = \"/@app\"; {app}"
        ),
    );
    // The path is below the prefix that leads to it, so that what protects one protects both.
    routes(
        "location /a/ { auth_basic x; auth_basic_user_file /users; error_page 404 = @app; }",
        &format!(
            "root = \"/srv\"; path = \"/a/\"; auth = \"basic\"; realm = \"x\"; user_files = \"/users\"; \
             fallback = \"/a/@app\"; fallback_for = \"all\"; path = \"/a/@app\"; {app}"
        ),
    );
    routes(
        "location ~ \\.a$ { deny all; try_files $uri @app; }",
        &format!(
            "root = \"/srv\"; path = \"*.a\"; fallback = \"/@app-1\"; fallback_for = \"all\"; [[rule]]; then = \"deny\"; \
             path = \"/@app-1\"; {app}; [[rule]]; then = \"deny\""
        ),
    );
    // One script for what is missing.
    check_routes(&[(
        "root /srv; location / { try_files $uri @php; } location @php { internal; fastcgi_pass unix:/p; \
         fastcgi_param SCRIPT_FILENAME $document_root/front.php; }",
        "root = \"/srv\"; path = \"/\"; fallback = \"/@php\"; fallback_for = \"all\"; index = []; listing = false; \
         path = \"/@php\"; rewrite = \"/front.php\"; path = \"/front.php\"; interpreter = \"fastcgi\"; fallback = false",
    )]);
    refuse(
        Web::Nginx,
        &[
            // nginx asks for the access of the server where a location that has opened leads to another one.
            (
                "server { root /srv; deny all;\nlocation /a/ { allow all; try_files $uri @a; } location @a { proxy_pass http://b; } }",
                2,
                "access of their own",
            ),
            (
                "deny all; server { root /srv;\nlocation = /a { allow all; try_files $uri @a; } location @a { proxy_pass http://b; } }",
                2,
                "access of their own",
            ),
            (
                "server { root /srv;\nlocation /a/ { deny all; try_files $uri @a; } location @a { allow 10.0.0.1; proxy_pass http://b; } }",
                2,
                "access of their own",
            ),
            (
                "server { root /srv; location /a/ { deny all;\nlocation ~ b { try_files $uri @a; } } location @a { proxy_pass http://b; } }",
                2,
                "access of their own",
            ),
            (
                "server { root /srv; location / {\ntry_files $uri @a; } location @a { return 404; } }",
                2,
                "passes no requests on",
            ),
            ("server { root /srv; location / {\ntry_files $uri @a; } }", 2, "passes no requests on"),
            (
                "server { root /srv; location / {\nerror_page 502 = @a; } location @a { proxy_pass http://b; } }",
                2,
                "error_page 502",
            ),
            // Files that have no path of their own.
            ("server { root /srv; location / {\ntry_files $uri.html =404; } }", 2, "try_files $uri.html"),
            ("server { root /srv; location / {\ntry_files $uri/ /a.html; } }", 2, "try_files $uri/"),
            ("server { root /srv; location / {\ntry_files $uri $uri.php?a=$uri; } }", 2, "$uri.php"),
            (
                "server { root /srv; location / {\nif (-f $request_filename.php) { rewrite ^(.*)$ $1.html; } } }",
                2,
                "if",
            ),
            ("server { root /srv; location / {\ntry_files $uri $uri.html$x =404; } }", 2, "$uri.html"),
        ],
    );
}

#[test]
fn variables_of_nginx_that_are_set_once_have_their_values() {
    let of = |text: &str| format!("server {{ {text} }}");
    // As linuxserver.io writes it.
    let parts = "location / { set $app jellyfin; set $app_port 8096; set $proto http; proxy_pass $proto://$app:${app_port}; }";
    let host = "set $a 127.0.0.1; location / { proxy_pass http://$a:81; } location = /w { proxy_pass http://$a:81/x; }";
    check(
        Web::Nginx,
        &[
            (&of(parts), &["address = [\"jellyfin:8096\"]", "proxy = \"http://http\""]),
            (&of(host), &["address = [\"127.0.0.1:81\"]", "path = \"/\"", "path = \"/w\""]),
            (&of("set $r /srv; root $r/www;"), &["root = \"/srv/www\""]),
        ],
    );
    for text in [
        // Set twice, or of another location.
        "set $a b;\nlocation / { set $a c; proxy_pass http://$a; }",
        "location / { set $a b;\nlocation /x/ { proxy_pass http://$a; } }",
        "set $a b; if ($host = x) { set $a c; }\nreturn 301 /$a;",
        // It changes the request or the response.
        "root /srv;\nset $limit_rate 1k;",
        // The URL has the whole path.
        "set $a b;\nlocation /x/ { proxy_pass http://$a/y/; }",
        "set $a b;\nif ($a) { return 403; }",
        "set $a b;\nlocation / { proxy_pass http://$ab; }",
    ] {
        refuse(Web::Nginx, &[(&of(text), 2, "cannot be converted")]);
    }
    // What an application has to allow stays closed.
    let asked = of("root /srv; location / { auth_request /auth; }\nlocation /open/ { auth_request off; }");
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &asked)]);
    assert!(conversion.is_refused() && conversion.text.contains("then = \"deny\""), "{}", conversion.text);
    // The files of an application do not take its place.
    let uwsgi = of("root /srv/app;\nlocation / { include uwsgi_params; uwsgi_pass unix:/run/app.sock; }");
    let files =
        [("/etc/x/conf", uwsgi.as_str()), ("/etc/x/uwsgi_params", "uwsgi_param QUERY_STRING $query_string;")];
    let conversion = converted(Web::Nginx, "/etc/x/conf", &files);
    let errors: Vec<_> =
        conversion.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(matches!(errors[..], [one] if one.what_to_do.contains("http-socket")), "{errors:?}");
    assert!(conversion.text.contains("path = \"/\"\nreturn = 502"), "{}", conversion.text);
}

#[test]
fn expressions_of_nginx_find_what_their_prefix_has_itself() {
    let of = |text: &str| {
        let text = format!("server {{ root /srv; {text} }}");
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert!(!conversion.is_refused(), "{}", conversion.text);
        conversion
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("path = "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let run = "fastcgi_pass unix:/p;";
    // The source of a script would be sent.
    let nested = of(&format!(
        "location ^~ /pma {{ alias /usr/share/pma; location ~ /pma/(.+\\.php)$ {{ fastcgi_param SCRIPT_FILENAME /usr/share/pma/$1; {run} }} }}"
    ));
    assert!(nested.contains(&"\"/pma/?**.php\"".to_owned()), "{nested:?}");
    // A script that `^~` keeps from an expression would be run.
    let kept = of(&format!("location ^~ /a/up/ {{ expires 1h; }} location ~ /up/.*\\.php$ {{ {run} }}"));
    assert_eq!(kept[0..2], ["\"/a/up/**/up/**.php\"", "\"/a/up/**.php\""], "{kept:?}");
    // What authorities ask for is not denied with hidden files.
    let challenges = of(
        "location ~ /\\. { deny all; } location ^~ /.well-known/acme-challenge/ { default_type text/plain; }",
    );
    let hidden = challenges.iter().position(|path| path == "\"/**/.**\"");
    let open = challenges.iter().position(|path| path == "\"/.well-known/acme-challenge/**\"");
    assert!(open.is_some() && open < hidden, "{challenges:?}");
}

#[test]
fn origins_of_nginx_that_may_read_responses_are_converted() {
    // As enable-cors.org writes it.
    let wide = "root /srv; location /api/ { if ($request_method = 'OPTIONS') { \
        add_header 'Access-Control-Allow-Origin' '*'; add_header 'Access-Control-Allow-Methods' 'GET, POST, OPTIONS'; \
        add_header 'Access-Control-Allow-Headers' 'DNT,Range'; add_header 'Access-Control-Max-Age' 1728000; \
        add_header 'Content-Type' 'text/plain; charset=utf-8'; add_header 'Content-Length' 0; return 204; } \
        if ($request_method = 'POST') { add_header 'Access-Control-Allow-Origin' '*' always; \
        add_header 'Access-Control-Expose-Headers' 'Content-Length,Content-Range' always; } \
        if ($request_method = 'GET') { add_header 'Access-Control-Allow-Origin' '*' always; } proxy_pass http://127.0.0.1:81; }";
    let any = "cors_origins = [\"*\"]; cors_methods = [\"GET\", \"POST\"]; cors_fields = [\"DNT\", \"Range\"]; \
               cors_exposed_fields = [\"Content-Length\", \"Content-Range\"]; cors_max_age = \"86400s\"";
    check_routes(&[(
        wide,
        &format!(
            "root = \"/srv\"; path = \"/api/\"; {any}; proxy = \"http://http\"; proxy_path = \"raw\"; \
             proxy_host = \"127.0.0.1:81\"; path = \"/api\"; redirect = \"/api/$query\"; status = 301"
        ),
    )]);
    let map = "map $http_origin $o { default \"\"; https://a.example $http_origin; ~^https://([a-z]+|.+\\.b)\\.example$ 1; }";
    let of = |origins: &str, rest: &str| {
        format!(
            "map $http_origin $o {{ default \"\"; {origins} }} server {{ listen 80; root /srv;\n{rest}\n}}"
        )
    };
    let two = "https://a.example $http_origin; \"~^https://(.+\\.)?b\\.example$\" $http_origin;";
    let fields = "add_header Access-Control-Allow-Origin $o always; add_header Access-Control-Allow-Credentials true; \
                  add_header Vary Origin;";
    check(
        Web::Nginx,
        &[
            (
                &of(two, fields),
                &[
                    "cors_origins = [\"https://a.example\", \"https://b.example\", \"https://*.b.example\"]",
                    "cors_credentials = true",
                ],
            ),
            // Fields of its own, and the location of another path, share nothing.
            (
                &of(
                    two,
                    &format!(
                        "location / {{ {fields} }} location = /x {{ }} location /y/ {{ add_header A b; }}"
                    ),
                ),
                &["path = \"/\"", "cors_credentials = true", "path = \"/x\"", "cors_origins = []"],
            ),
            (
                &of(two, &format!("{fields} location /y/ {{ add_header A b; }}")),
                &["cors_credentials = true", "path = \"/y/\"", "cors_origins = []"],
            ),
            // Without a preflight, it is a field.
            (
                "server { root /srv; add_header Access-Control-Allow-Origin *; }",
                &["headers = { Access-Control-Allow-Origin = \"*\" }"],
            ),
        ],
    );
    lacks(Web::Nginx, &[(&of(two, fields), &["headers = { Vary = \"Origin\" }"])]);
    let preflight = "if ($request_method = OPTIONS) { return 204; }";
    for rest in [
        // Any site could act in the name of its visitors.
        "add_header Access-Control-Allow-Origin $http_origin; add_header Access-Control-Allow-Credentials true;".to_owned(),
        preflight.to_owned(),
        "add_header Access-Control-Allow-Origin $other;".to_owned(),
        format!("add_header Access-Control-Allow-Origin $o; {preflight}")
            .replace("return", "add_header Access-Control-Allow-Origin *; return"),
        "if ($request_method = OPTIONS) { add_header Access-Control-Allow-Origin *; return 204; }".to_owned(),
        "if ($request_method = OPTIONS) { proxy_pass http://a; }".to_owned(),
    ] {
        refuse(Web::Nginx, &[(&of(two, &rest), 2, "")]);
    }
    for origins in
        ["~https://a\\.example$ $http_origin;", "~^https://a\\.example $http_origin;", "https://a.example 1;"]
    {
        refuse(Web::Nginx, &[(&of(origins, "add_header Access-Control-Allow-Origin $o;"), 2, "$o")]);
    }
    refuse(
        Web::Nginx,
        &[(&format!("{map} server {{\nadd_header Access-Control-Allow-Origin $o; }}"), 2, "$o")],
    );
}

#[test]
fn paths_of_nginx_without_the_extension_of_their_file_are_converted() {
    let root = "root = \"/srv\"; index = [\"a.html\"]";
    for (text, expected) in [
        ("$uri $uri.html $uri/ =404", "try_suffixes = [\".html\"]"),
        ("$uri $uri/ $uri.html =404", "try_suffixes = [\"/\", \".html\"]"),
        ("$uri $uri.html $uri/ $uri.htm =404", "try_suffixes = [\".html\", \"/\", \".htm\"]"),
        ("$uri $uri.html =404", "try_suffixes = [\".html\"]; index = []; listing = false"),
        (
            "$uri $uri.html $uri/index.html =404",
            "try_suffixes = [\".html\"]; index = [\"index.html\"]; listing = false",
        ),
        (
            "$uri $uri.html /app.html",
            "try_suffixes = [\".html\"]; fallback = \"/app.html\"; fallback_for = \"all\"; index = []; listing = false",
        ),
        ("$uri.html $uri $uri/ =404", "try_suffixes = [\".html\"]"),
    ] {
        let text = format!("root /srv; index a.html; location /x/ {{ try_files {text}; }}");
        check_routes(&[(&text, &format!("{root}; path = \"/x/\"; {expected}"))]);
    }
    // A script is found in the same way.
    let of_all = "root = \"/srv\"; index = [\"a.html\"]";
    for (text, expected) in [
        ("try_files $uri $uri/ $uri.php?$args;", "try_suffixes = [\"/\", \".php\"]"),
        ("try_files $uri $uri/ $uri.php$is_args$args;", "try_suffixes = [\"/\", \".php\"]"),
        ("try_files $uri $uri.html $uri/ @php;", "try_suffixes = [\".html\", \"/\", \".php\"]"),
        ("try_files $uri $uri/ @dotless;", "try_suffixes = [\"/\", \".php\"]"),
        ("if (!-e $request_filename) { rewrite ^(.*)$ /$1.php last; }", "try_suffixes = [\"/\", \".php\"]"),
        (
            "if (-f $request_filename.php) { rewrite ^/(.*)$ /$1.php last; break; } try_files $uri $uri/ /a.html;",
            "fallback = \"/a.html\"; fallback_for = \"all\"; try_suffixes = [\".php\"]",
        ),
    ] {
        let text = format!(
            "root /srv; index a.html; location / {{ {text} }} location @php {{ rewrite ^(.*)$ $1.php last; }} \
             location @dotless {{ rewrite ^/([^.]+)$ /$1.php last; }}"
        );
        check_routes(&[(&text, &format!("{of_all}; {expected}"))]);
    }
    // The locations of patterns have nothing of that of all paths.
    check_routes(&[(
        "root /srv; location / { try_files $uri $uri.html =404; } location = /a { expires 1h; } location /b/ { gzip on; }",
        "root = \"/srv\"; path = \"/\"; try_suffixes = [\".html\"]; index = []; listing = false; \
         path = \"/a\"; cache_control = \"max-age=3600\"; try_suffixes = []; index = [\"index.html\"]; listing = false; \
         path = \"/b/\"; compress = true",
    )]);
}

#[test]
fn what_stands_around_the_upstreams_of_nginx_counts_for_each() {
    check(
        Web::Nginx,
        &[
            (
                "http { proxy_set_header X-A b; proxy_read_timeout 9s; server { root /srv; location /a/ { proxy_pass http://127.0.0.1:81; } \
                 location /b/ { proxy_set_header X-C d; proxy_pass http://127.0.0.1:82; } location /c/ { etag off; } } }",
                &[
                    "first_byte = \"9s\"",
                    "first_byte = \"9s\"",
                    "proxy_headers = { X-A = \"b\" }",
                    "proxy_headers = { X-C = \"d\" }",
                    "path = \"/c/\"",
                    "etag = \"off\"",
                ],
            ),
            // The timeout precedes the upstream, and has an effect all the same.
            (
                "server { root /srv; location / { proxy_connect_timeout 2s; proxy_pass http://127.0.0.1:81; } }",
                &["connect = \"2s\""],
            ),
            // Fields that the server sets, too, can have a fixed value.
            (
                "server { root /srv; location / { proxy_pass http://127.0.0.1:81; proxy_set_header X-Forwarded-Proto https; \
                 proxy_set_header X-Forwarded-Host a.org; proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header Connection \"\"; } }",
                &["proxy_headers = { X-Forwarded-Proto = \"https\", X-Forwarded-Host = \"a.org\" }"],
            ),
            // A failed server is asked again at once.
            (
                "upstream a { server 10.0.0.1 max_fails=2 fail_timeout=0; server 10.0.0.2; } server { root /srv; location / { proxy_pass http://a; } }",
                &["[application.health]", "failures = 0"],
            ),
        ],
    );
    lacks(
        Web::Nginx,
        &[
            (
                "upstream a { server 10.0.0.1 fail_timeout=0; } server { location / { proxy_pass http://a; } }",
                &["window = \"0s\"", "pause = \"0s\""],
            ),
            ("http { proxy_set_header X-A b; server { root /srv; } }", &["proxy_headers = { X-A = \"b\" }"]),
        ],
    );
}

#[test]
fn the_counts_of_nginx_are_never_open_to_all() {
    let checked = |text: &str, expected: &[&str]| {
        let server = format!("server {{ root /srv; {text} }}");
        check(Web::Nginx, &[(&server, expected)]);
    };
    let closed =
        ["monitor = \"metrics\"", "address = \"127.0.0.0/8\"", "address = \"::1\"", "then = \"deny\""];
    checked("location = /s { stub_status; }", &closed);
    checked("location = /s { stub_status; allow all; }", &closed);
    checked("location = /s { stub_status; allow 0.0.0.0/0; deny all; }", &closed);
    checked("allow all; location /s { stub_status; }", &closed);
    checked("satisfy any; auth_basic x; auth_basic_user_file /u; location = /s { stub_status; }", &closed);
    let given = ["monitor = \"metrics\"", "address = \"10.0.0.1\"", "then = \"allow\"", "then = \"deny\""];
    checked("location = /s { stub_status; allow 10.0.0.1; deny all; }", &given);
    checked("location = /s { stub_status; allow 10.0.0.1; }", &given);
    checked(
        "location = /s { stub_status; auth_basic x; auth_basic_user_file /u; }",
        &["monitor = \"metrics\"", "auth = \"basic\""],
    );
}

#[test]
fn a_redirect_of_nginx_keeps_its_status() {
    check(
        Web::Nginx,
        &[
            (
                "server { server_name a.org; return 302 https://$host$request_uri; }",
                &["redirect = \"https://$host$path$query\"", "status = 302"],
            ),
            (
                "server { server_name a.org; return https://$host$request_uri; }",
                &["redirect = \"https://$host$path$query\"", "status = 302"],
            ),
            (
                "server { server_name a.org; return 308 https://$host$request_uri; }",
                &["redirect = \"https://$host$path$query\"", "status = 308"],
            ),
            (
                "server { server_name a.org; return 301 https://$host$request_uri; }",
                &["redirect = \"https://$host$path$query\"", "status = 301"],
            ),
        ],
    );
    let both = "server { listen 80; server_name a.org; return 302 https://$host$request_uri; }\n\
                server { listen 443 ssl; server_name a.org; root /srv; ssl_certificate c; ssl_certificate_key k; }";
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", both)]);
    let said: Vec<String> = conversion.findings.iter().map(ToString::to_string).collect();
    assert!(
        said.iter().any(|line| line.contains("has the status 301") && line.contains("not 302")),
        "{said:?}"
    );
}

#[test]
fn what_a_server_of_nginx_denies_to_methods_and_programs_precedes_its_locations() {
    check(
        Web::Nginx,
        &[(
            "server { root /srv; if ($request_method !~ ^(GET|HEAD)$) { return 405; } \
             if ($http_user_agent ~* (a-bot|wget)) { return 404; } location /a/ { allow 10.0.0.1; deny all; } }",
            &[
                "method = [\"!GET\", \"!HEAD\"]",
                "then = \"deny\"",
                "user_agent = [\"*a-bot*\", \"*wget*\"]",
                "then = \"deny\"",
                "status = 404",
                "path = \"/a/\"",
                "method = [\"!GET\", \"!HEAD\"]",
                "user_agent = [\"*a-bot*\", \"*wget*\"]",
                "address = \"10.0.0.1\"",
                "then = \"allow\"",
                "then = \"deny\"",
            ],
        )],
    );
    refuse(
        Web::Nginx,
        &[
            ("server { root /srv;\nif ($request_method = POST) { return 200; } }", 2, "if ("),
            ("server { root /srv;\nif ($http_user_agent ~* [a-z]) { return 403; } }", 2, "if ("),
            ("server { root /srv;\nif ($request_method !~ GET|HEAD) { return 403; } }", 2, "if ("),
            ("server { root /srv;\nif ($http_cookie ~ a) { return 403; } }", 2, "if ("),
            ("server { root /srv; satisfy any;\nif ($request_method = PUT) { return 403; } }", 2, "if "),
        ],
    );
}

#[test]
fn a_return_of_nginx_can_have_a_text() {
    check_routes(&[
        (
            "server_name _; add_header Content-Type application/json; return 200 '{\"a\":\"b\"}';",
            "path = \"/\"; respond = \"{\\\"a\\\":\\\"b\\\"}\"; default_type = \"application/json\"",
        ),
        (
            "root /srv; location = /a { return 200 \"a\\tb\\n\"; add_header Content-Type text/x; add_header X-A b; }",
            "root = \"/srv\"; path = \"/a\"; respond = \"a\\u0009b\\n\"; default_type = \"text/x\"; headers = { X-A = \"b\" }",
        ),
        ("root /srv; location = /a { return 204; }", "root = \"/srv\"; path = \"/a\"; respond = \"\""),
        (
            "root /srv; location = /a { deny all; return 200; }",
            "root = \"/srv\"; path = \"/a\"; respond = \"\"; [[rule]]; then = \"deny\"",
        ),
    ]);
    refuse(
        Web::Nginx,
        &[("server { root /srv; location = /a {\nreturn 200 $remote_addr; } }", 2, "return 200")],
    );
}

#[test]
fn a_folder_of_nginx_has_the_fields_of_its_index_file() {
    check_routes(&[
        (
            "root /srv; location / { try_files $uri /index.html; } location = /index.html { add_header Cache-Control no-store always; }",
            "root = \"/srv\"; path = \"/\"; fallback = \"/index.html\"; fallback_for = \"all\"; index = []; listing = false; \
             path = \"/index.html\"; headers = { Cache-Control = \"no-store\" }; fallback = false",
        ),
        (
            "root /srv; location / { etag off; } location = /index.html { expires 1h; } location = /a.html { expires 2h; }",
            "root = \"/srv\"; path = \"/\"; etag = \"off\"; path = \"/index.html\"; cache_control = \"max-age=3600\"; \
             path = \"/a.html\"; cache_control = \"max-age=7200\"; path = \"/.\"; cache_control = \"max-age=3600\"",
        ),
        (
            "root /srv; index a.html; location = /b/a.html { expires 1h; }",
            "root = \"/srv\"; index = [\"a.html\"]; path = \"/b/a.html\"; cache_control = \"max-age=3600\"; \
             path = \"/b/.\"; cache_control = \"max-age=3600\"",
        ),
        // An upstream has the folder.
        (
            "root /srv; location / { proxy_pass http://127.0.0.1:81; proxy_set_header Host $host; } location = /index.html { expires 1h; }",
            "root = \"/srv\"; path = \"/\"; proxy = \"http://http\"; proxy_path = \"raw\"; path = \"/index.html\"; \
             cache_control = \"max-age=3600\"",
        ),
    ]);
}

#[test]
fn a_dot_of_nginx_stands_for_any_character_only_where_nothing_is_denied() {
    check(
        Web::Nginx,
        &[(
            "server { root /srv; location ~* .(?:css|js)$ { expires 1h; } }",
            &["path = \"(?i)*?css\"", "path = \"(?i)*?js\""],
        )],
    );
    // What is denied is found with a slash in its place, too.
    for (expression, expected) in [
        ("~ ^/(README.md|INSTALL)$", &["/README?md", "/README/md", "/INSTALL"][..]),
        ("~ .(?:sql)$", &["*?sql", "/**/sql"]),
        ("~ /(.ht|conf)", &[]),
    ] {
        let text = format!("server {{ root /srv; location {expression} {{ deny all; }} }}");
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        let paths: Vec<&str> = conversion
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'))
            .collect();
        assert_eq!(paths, expected, "{expression}");
    }
    refuse(
        Web::Nginx,
        &[
            ("server { root /srv;\nlocation ~* .(?:sql)$ { allow 192.0.2.1; deny all; } }", 2, "location ~*"),
            ("server { root /srv;\nlocation ~ .css$ { proxy_pass http://a; } }", 2, "location ~"),
        ],
    );
}

#[test]
fn hidden_files_of_nginx_but_those_of_well_known_are_never_sent() {
    for expression in ["/\\.(?!well-known).*", "/\\.(?!well-known)"] {
        let server = |other: &str| {
            format!(
                "server {{ root /srv; {other}\nlocation ~ {expression} {{ deny all; access_log off; }} }}"
            )
        };
        let rules = [
            "dotfiles = \"deny\"",
            "path = [\"/.well-known/**/.**\"]",
            "then = \"deny\"",
            "path = [\"/**/.*/**\", \"/**/.*\", \"!/.well-known/\"]",
            "then = \"deny\"",
        ];
        check(
            Web::Nginx,
            &[
                (&server(""), &["[[host]]", "dotfiles = \"deny\""]),
                // What an upstream has is denied, too.
                (&server("location / { proxy_pass http://127.0.0.1:81; }"), &rules),
            ],
        );
        refuse(
            Web::Nginx,
            &[
                (&server("").replace("deny all", "allow all"), 2, "cannot be converted"),
                (
                    &server("satisfy any; location / { proxy_pass http://127.0.0.1:81; }"),
                    2,
                    "cannot be converted",
                ),
            ],
        );
    }
}

#[test]
fn a_server_of_nginx_hides_fields_of_its_upstreams() {
    let hides = "server { root /srv; fastcgi_hide_header X-Powered-By; location /a/ { add_header X-A b always; \
                 proxy_pass http://127.0.0.1:81; } location / { try_files $uri $uri/ /index.php$request_uri; } }";
    check(
        Web::Nginx,
        &[(
            hides,
            &["headers = { X-Powered-By = false }", "headers = { X-A = \"b\" }", "fallback = \"/index.php\""],
        )],
    );
}

#[test]
fn an_alias_of_nginx_has_no_variables() {
    let server = |location: &str| format!("server {{ root /srv; location {location} }}");
    check(Web::Nginx, &[(&server("~ ^/a/(.*)$ { alias /b/$1; }"), &["path = \"/a/\"", "alias = \"/b\""])]);
    for location in
        ["/a/ {\nalias /b/$host/; }", "~ ^/a/(.*)\\.x$ {\nalias /b/$1; }", "~ ^/a/(.*)$ {\nalias /b$1; }"]
    {
        refuse(Web::Nginx, &[(&server(location), 2, "alias /b")]);
    }
}

#[test]
fn an_upstream_of_index_files_is_reported() {
    let site =
        "server { root /srv; index index.php;\nlocation ~ \\.php$ { proxy_pass http://127.0.0.1:81; } }";
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", site)]);
    let said: Vec<String> = conversion.findings.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|line| line.contains("is not asked for the folders with index.php")), "{said:?}");
}

#[test]
fn a_file_of_nginx_without_http_is_within_it() {
    check(
        Web::Nginx,
        &[(
            "limit_conn_zone $binary_remote_addr zone=c:1m;\nlimit_req_zone $binary_remote_addr zone=r:1m rate=1r/s;\n\
             server_tokens off;\ngzip on;\nclient_max_body_size 2k;\n\
             map $http_upgrade $connection_upgrade { default upgrade; '' close; }\n\
             server { root /srv; location /a/ { limit_conn c 2; } location /b/ { limit_req zone=r; } \
             location /c/ { proxy_pass http://app; } }\nupstream app { server 10.0.0.1:81; }\n",
            &[
                "compress = true",
                "max_body = 2048",
                "address = [\"10.0.0.1:81\"]",
                "path = \"/a/\"",
                "concurrent = 2",
                "path = \"/b/\"",
                "requests = \"1/s\"",
            ],
        )],
    );
    refuse(
        Web::Nginx,
        &[
            ("http { server { root /srv; } }\nserver { root /srv; }", 2, "\"server\" cannot be converted"),
            ("server { root /srv; }\nlocation /a/ { deny all; }", 2, "location /a/"),
        ],
    );
}

#[test]
fn servers_of_one_name_with_tls_and_without_become_one_host() {
    let with_tls = |names: &str, inside: &str| {
        format!(
            "server {{ listen 443 ssl; server_name {names}; ssl_certificate c; ssl_certificate_key k; {inside} }}\n"
        )
    };
    let both =
        |plain: &str, secure: &str| format!("server {{ listen 80; {plain} }}\n{}", with_tls("a.org", secure));
    let listens = "listen = [\"0.0.0.0:443 tls\", \"0.0.0.0:80\"]";
    let redirects = "https_redirect = true";
    let acme = "path = \"/.well-known/acme-challenge/\"";
    let content = "root /srv; location /x/ { deny all; }";
    let rows = [
        (
            both(
                "server_name a.org; root /acme; location ^~ /.well-known/acme-challenge/ { } location / { return 301 https://$host$request_uri; }",
                content,
            ),
            &[listens, "root = \"/srv\"", redirects, "path = \"/x/\"", acme, "root = \"/acme\""][..],
        ),
        (
            both(&format!("server_name a.org; {content}"), content),
            &[listens, "root = \"/srv\"", "names = [\"a.org\"]", "path = \"/x/\""],
        ),
        // The redirect is to another name than the first of its server.
        (
            both("server_name www.a.org a.org; return 301 https://a.org$request_uri;", content),
            &[
                "names = [\"a.org\"]",
                "names = [\"www.a.org\"]",
                "path = \"/\"",
                "redirect = \"https://a.org$path$query\"",
                "status = 301",
            ],
        ),
        (
            both("server_name _; return 301 https://a.org$request_uri;", content),
            &["redirect = \"https://a.org$path$query\"", redirects, "names = [\"a.org\"]"],
        ),
        (
            format!(
                "server {{ listen 80; server_name a.org b.a.org; return 301 https://$host$request_uri; }}\n{}",
                with_tls("a.org *.a.org", content)
            ),
            &[listens, redirects, "names = [\"a.org\", \"*.a.org\"]", "path = \"/x/\""],
        ),
    ];
    for (text, expected) in &rows {
        check(Web::Nginx, &[(text, expected)]);
    }
    lacks(
        Web::Nginx,
        &[(&rows[0].0, &["redirect = \"https://$host$path$query\""]), (&rows[4].0, &["path = \"/\""])],
    );
    let refused = [
        (both(&format!("server_name a.org; {content}"), "root /srv;"), "the location /x/ differs"),
        (both("server_name a.org; root /other;", "root /srv;"), "root differs"),
        (both("server_name a.org b.org; root /srv;", "root /srv;"), "their names differ"),
        (
            both(
                "server_name a.org; location /.well-known/acme-challenge/ { root /b; } location / { return 301 https://$host$request_uri; }",
                "root /srv; location /.well-known/acme-challenge/ { root /c; }",
            ),
            "is another one without TLS",
        ),
        (
            both(
                "server_name a.org www.a.org; root /srv; if ($host = a.org) { return 301 https://$host$request_uri; }",
                "",
            ),
            "if ($host = a.org)",
        ),
    ];
    for (text, part) in &refused {
        refuse(Web::Nginx, &[(text, 1, part)]);
    }
    let warned = format!(
        "server {{ listen 80; server_name a.org www.a.org; return 301 https://a.org$request_uri; }}\n{}",
        with_tls("a.org www.a.org", content)
    );
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &warned)]);
    let said: Vec<String> = conversion.findings.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|line| line.contains("not to https://a.org")), "{said:?}");
}

/// The patterns in their order, of which the first counts.
#[test]
fn expressions_within_a_prefix_of_nginx_precede_those_of_the_server() {
    let php = "fastcgi_pass unix:/p; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;";
    let server = |locations: &str| {
        format!(
            "server {{ root /srv; location ~ \\.php$ {{ {php} }} {locations} location ~ \\.txt$ {{ return 404; }} }}"
        )
    };
    for (locations, expected) in [
        ("location /a/ { location ~ \\.php$ { deny all; } }", &["/a/**/*.php", "*.php", "*.txt"][..]),
        ("location /a { location ~ \\.php$ { deny all; } }", &["/a**.php", "*.php", "*.txt"]),
        (
            "location /a/ { location ~ /b { return 403; } } location /a/c/ { location ~ /d { return 403; } }",
            &["/a/c/**/d**", "/a/**/b**", "*.php", "*.txt"],
        ),
        (
            "location ^~ /a/ { location ~ \\.inc\\.php$ { return 403; } }",
            &["/a/**/*.inc.php", "/a/**/*.php", "/a/**/*.txt", "*.php", "*.txt"],
        ),
        // Nor does nginx ask those that deny.
        (
            "location ^~ /a/ { proxy_pass http://127.0.0.1:81; }",
            &["/a/**/*.php", "/a/**/*.txt", "*.php", "*.txt"],
        ),
        // A name that only begins with the prefix is found after all expressions.
        ("location /a { deny all; }", &["*.php", "*.txt", "/a?*/**"]),
        ("location ^~ /a { return 403; }", &["/a?*/**", "/a/**/*.php", "/a/**/*.txt", "*.php", "*.txt"]),
        ("location ^~ /a { expires 1h; }", &["/a**.php", "/a**.txt", "*.php", "*.txt"]),
    ] {
        let text = server(locations);
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert!(!conversion.is_refused(), "{}", conversion.text);
        let paths =
            conversion.text.lines().filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'));
        let patterns: Vec<&str> = paths.filter(|path| path.contains('*')).collect();
        assert_eq!(patterns, expected, "{locations}");
    }
    // The first expression counts, also where it is a prefix here.
    let first =
        format!("server {{ root /srv; location ~ ^/a/ {{ expires 1h; }} location ~ \\.php$ {{ {php} }} }}");
    check(Web::Nginx, &[(&first, &["path = \"/a/\"", "path = \"/a/**/*.php\"", "path = \"*.php\""])]);
    refuse(
        Web::Nginx,
        &[(
            "server { root /srv; location ~ \\.php$ {\nlocation ~ /a/ { deny all; } } }",
            2,
            "location ~ /a/",
        )],
    );
}

#[test]
fn reads_the_snippets_of_debian_for_one_site() {
    let snippet = "fastcgi_split_path_info ^(.+?\\.php)(/.*)$;\ntry_files $fastcgi_script_name =404;\n\
                   set $path_info $fastcgi_path_info;\nfastcgi_param PATH_INFO $path_info;\nfastcgi_index index.php;\n\
                   fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n";
    let site = "map $http_upgrade $connection_upgrade { default upgrade; '' close; }\n\
                server { root /srv; port_in_redirect off; location ~ \\.php$ { include snippets/fastcgi-php.conf; fastcgi_pass unix:/p; }\n\
                location /ws/ { proxy_pass http://127.0.0.1:81; proxy_set_header Upgrade $http_upgrade; \
                proxy_set_header Connection $connection_upgrade; } }";
    let files = [
        (
            "/etc/nginx/nginx.conf",
            "events { multi_accept on; use epoll; } http { include sites-available/*; }",
        ),
        ("/etc/nginx/snippets/fastcgi-php.conf", snippet),
        ("/etc/nginx/sites-available/default", site),
    ];
    for file in ["/etc/nginx/nginx.conf", "/etc/nginx/sites-available/default"] {
        let conversion = converted(Web::Nginx, file, &files);
        assert!(!conversion.is_refused(), "{}", conversion.text);
        assert!(
            conversion.text.contains("path = \"*.php\"\ninterpreter = \"fastcgi\"\n"),
            "{}",
            conversion.text
        );
    }
}

#[test]
fn fields_of_caddy_that_the_server_sets_have_keys_of_their_own() {
    let site = |directive: &str| format!("http://a.org {{\n root * /srv\n {directive}\n file_server\n}}");
    for (directive, expected) in [
        ("header -Server", &["server_header = false"][..]),
        ("header {\n -Server\n }", &["server_header = false"]),
        ("header Server own", &["server_header = \"own\""]),
        (
            "reverse_proxy /a/* h:81 {\n header_down -Server\n }",
            &["path = \"/a/\"", "proxy = \"http://proxy\""],
        ),
        (
            "reverse_proxy https://h {\n header_up Host {upstream_hostport}\n }",
            &["path = \"/\"", "proxy_host = \"h:443\"", "proxy = \"https://proxy\""],
        ),
        (
            "reverse_proxy h:81 {\n header_up Host {http.reverse_proxy.upstream.hostport}\n }",
            &["proxy_host = \"h:81\""],
        ),
        (
            "handle_path /api/* {\n reverse_proxy h:81\n }",
            &["path = \"/api/\"", "path = \"/api\"", "redirect = \"/api/$query\"", "status = 308"],
        ),
    ] {
        check(Web::Caddy, &[(&site(directive), expected)]);
    }
    refuse(
        Web::Caddy,
        &[
            (&site("header Content-Type text/plain"), 3, "Content-Type text/plain"),
            (&site("reverse_proxy h:81 {\n header_down -Location\n }"), 4, "header_down -Location"),
            (&site("reverse_proxy h:81 i:81 {\n header_up Host {upstream_hostport}\n }"), 4, "one Host"),
            (&site("reverse_proxy h:81 {\n header_up Host {labels.1}\n }"), 4, "header_up Host"),
        ],
    );
}

#[test]
fn a_route_has_one_response() {
    check_routes(&[
        (
            "root /srv; location /a/ { proxy_pass http://127.0.0.1:81; return 404; } location /b/ { alias /c/; return 302 /d; }",
            "root = \"/srv\"; path = \"/a/\"; return = 404; path = \"/b/\"; redirect = \"/d\"; status = 302",
        ),
        (
            "location / { root /srv; location /a/ { alias /b/; } }",
            "path = \"/a/\"; alias = \"/b\"; path = \"/\"; root = \"/srv\"",
        ),
        ("root /srv; location /a/ { root /b; return 404; }", "root = \"/srv\"; path = \"/a/\"; return = 404"),
        ("index a;", "index = [\"a\"]; path = \"/\"; return = 404"),
    ]);
    refuse(
        Web::Nginx,
        &[(
            "server { root /srv; rewrite ^/a/(.*)$ /b/$1 last;\nlocation /a/ { proxy_pass http://127.0.0.1:81; } }",
            1,
            "/a/ has rewrite and proxy at once",
        )],
    );
}

#[test]
fn settings_of_some_scripts_leave_them_scripts() {
    let apache = |text: &str| {
        format!(
            "Listen 80\nDocumentRoot /srv\n<Directory />\nOptions ExecCGI\nRequire all granted\n</Directory>\n{text}\n\
             <FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:/p.sock|fcgi://localhost\"\n</FilesMatch>\n\
             AddHandler cgi-script .cgi\n"
        )
    };
    let of_php = ["path = \"*.php\"", "interpreter = \"fastcgi\""];
    for (text, own) in [
        (
            "<Files index.php>\nHeader set X-A: b\n</Files>",
            &["path = \"/**/index.php\"", "headers = { X-A = \"b\" }"][..],
        ),
        (
            "<LocationMatch \"^/secret\">\nRequire ip 10.0.0.1\n</LocationMatch>",
            &["path = \"/secret**.php\""],
        ),
    ] {
        let expected = [own, &["interpreter = \"fastcgi\""], &of_php].concat();
        check(Web::Apache, &[(&apache(text), &expected)]);
    }
    let cgi = "<LocationMatch \"\\.cgi$\">\nHeader set X-A b\n</LocationMatch>";
    check(Web::Apache, &[(&apache(cgi), &["path = \"*.cgi\"", "headers = { X-A = \"b\" }", "cgi = true"])]);
    let lighttpd = "server.document-root = \"/srv\"\nserver.port = 80\nauth.backend = \"htpasswd\"\n\
                    auth.backend.htpasswd.userfile = \"/users\"\n\
                    fastcgi.server = (\".php\" => ((\"socket\" => \"/p.sock\")))\n";
    let asks = "auth.require = (\"/wp-admin\" => (\"method\" => \"basic\", \"realm\" => \"x\", \"require\" => \"valid-user\"))\n";
    let expected =
        [&["path = \"/wp-admin**.php\"", "auth = \"basic\"", "interpreter = \"fastcgi\""], &of_php[..]];
    check(Web::Lighttpd, &[(&[lighttpd, asks].concat(), &expected.concat())]);
    let unset = "$HTTP[\"url\"] =~ \"^/uploads/\" { fastcgi.server = () }\n";
    refuse(Web::Lighttpd, &[(&[lighttpd, unset].concat(), 6, "nothing runs the files of these paths")]);
    let caddy = ":80 {\nroot * /srv\nphp_fastcgi unix//p.sock\nbasic_auth /secret* {\nann $2a$14$abcdefghijklmnopqrstuuKaN6n0PPD0yU2Zl1eV9WzX8mNqQ2Q2u\n}\n}";
    check(Web::Caddy, &[(caddy, &["path = \"/secret**.php\"", "interpreter = \"php\"", "path = \"*.php\""])]);
    let nginx = |location: &str, modifier: &str| {
        format!(
            "http {{ server {{ listen 80; root /srv; {location} location {modifier} \\.php$ {{ \
             fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/p.sock; }} }} }}"
        )
    };
    let sent = ["path = \"/uploads/**/*.php\"", "path = \"*.php\"", "interpreter = \"fastcgi\""];
    check(Web::Nginx, &[(&nginx("location ^~ /uploads/ { expires 1h; }", "~"), &sent)]);
    let cases =
        ["path = \"*.php\"", "interpreter = \"fastcgi\"", "path = \"*.PHP\"", "interpreter = \"fastcgi\""];
    check(Web::Nginx, &[(&nginx("", "~*"), &cases)]);
}

/// A configuration of nginx that keeps its pages in DokuWiki, as its manual says.
const DOKUWIKI: &str = "server { root /srv; index doku.php;
location / { try_files $uri $uri/ @dokuwiki; }
location @dokuwiki {
rewrite ^/_media/(.*) /lib/exe/fetch.php?media=$1 last;
rewrite ^/_detail/(.*) /lib/exe/detail.php?media=$1 last;
rewrite ^/_export/([^/]+)/(.*) /doku.php?do=export_$1&id=$2 last;
rewrite ^/(.*) /doku.php?id=$1&$args last; }
location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; } }";

#[test]
fn rewrites_of_nginx_set_a_query() {
    check(
        Web::Nginx,
        &[(
            DOKUWIKI,
            &[
                "path = \"/_media/\"",
                "fallback = \"/lib/exe/fetch.php?media=${rest}\"",
                "path = \"/_detail/\"",
                "fallback = \"/lib/exe/detail.php?media=${rest}\"",
                "path = \"/_export/?*/**\"",
                "fallback = \"/doku.php?do=export_$1$2&id=$3\"",
                "path = \"/\"",
                "fallback = \"/doku.php?id=$rest\"",
            ],
        )],
    );
    for (rewrite, expected) in [
        (
            "rewrite ^/wiki/(.*)$ /w/index.php?title=$1&$args last;",
            &["path = \"/wiki/\"", "rewrite = \"/w/index.php?title=${rest}&$query\""][..],
        ),
        (
            "rewrite ^/user/([^/]+)/?$ /user.php?name=$1? last;",
            &["path = \"/user/?*\"", "rewrite = \"/user.php?name=$1$2?\""],
        ),
        (
            "rewrite ^/(a|b)/(.*)$ /$2?kind=$1 break;",
            &[
                "path = \"/a/\"",
                "rewrite = \"/${rest}?kind=a\"",
                "path = \"/b/\"",
                "rewrite = \"/${rest}?kind=b\"",
            ],
        ),
        ("rewrite ^/a$ /b? last;", &["path = \"/a\"", "rewrite = \"/b?\""]),
        ("rewrite ^/a$ /b?$args last;", &["path = \"/a\"", "rewrite = \"/b\""]),
        ("rewrite ^/a$ /b?$query_string&c=d last;", &["rewrite = \"/b?$query&c=d\""]),
        (
            "rewrite ^/p/([^/]+)-([^/]+)$ /b/$2?x=$1 permanent;",
            &["path = \"/p/?*-?*\"", "redirect = \"/b/$3$4?x=$1$2&$query\"", "status = 301"],
        ),
        ("rewrite ^/a/(.*)$ /b?x=$1? redirect;", &["redirect = \"/b?x=${rest}\"", "status = 302"]),
        (
            "rewrite ^/a/(.*)$ http://b.example/?x=$1 redirect;",
            &["redirect = \"http://b.example/?x=${rest}&$query\""],
        ),
        (
            "location / { rewrite ^/(.*)$ /index.php?q=$1 last; }\n\
             location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }",
            &["path = \"/\"", "rewrite = \"/index.php?q=${rest}\""],
        ),
        (
            "if (!-e $request_filename) { rewrite ^/api/(.*)$ /api.php?p=$1 last; rewrite ^(.*)$ /index.php?q=$1 last; }",
            &["fallback = \"/index.php?q=$path\"", "path = \"/api/\"", "fallback = \"/api.php?p=${rest}\""],
        ),
        (
            "location /app/ { if (!-f $request_filename) { rewrite ^/app/(.*)$ /app/index.php?r=$1&$args last; break; } }",
            &["path = \"/app/\"", "fallback = \"/app/index.php?r=${rest}&$query\""],
        ),
    ] {
        check(Web::Nginx, &[(&format!("server {{ root /srv; {rewrite} }}"), expected)]);
    }
    for (rewrite, part) in [
        ("rewrite ^/(.*)$ /index.php?q=$1 last;", "rewrite ^/(.*)$"),
        ("rewrite ^/a/([0-9]+)$ /b.php?id=$1 last;", "rewrite ^/a/([0-9]+)$"),
        ("rewrite ^/a/(.*)$ /b.php?id=$2 last;", "rewrite ^/a/(.*)$"),
        ("rewrite ^/a/(.*)$ /b.php?id=$arg_x last;", "rewrite ^/a/(.*)$"),
        ("rewrite ^/a/(.*)$ /b/$args last;", "rewrite ^/a/(.*)$"),
        ("if (!-e $request_filename) { return 404; }", "if (!-e $request_filename)"),
        ("if (!-e $request_filename) {\nrewrite ^/([0-9]+)$ /i.php?q=$1 last; }", "rewrite ^/([0-9]+)$"),
        (
            "location /b/ { if (!-e $request_filename) {\nrewrite ^/a/(.*)$ /i.php?q=$1 last; } }",
            "rewrite ^/a/(.*)$",
        ),
    ] {
        let line = 2 + rewrite.lines().count() as u32 - 1;
        refuse(Web::Nginx, &[(&format!("server {{ root /srv;\n{rewrite} }}"), line, part)]);
    }
}

#[test]
fn rewrites_of_apache_set_a_query() {
    let site = |rules: &str| format!("Listen 80\nDocumentRoot /srv\nRewriteEngine On\n{rules}\n");
    for (rules, expected) in [
        (
            "RewriteRule ^/_media/(.*) /fetch.php?media=$1 [QSA,L]",
            &["path = \"/_media/\"", "rewrite = \"/fetch.php?media=${rest}\""][..],
        ),
        (
            "RewriteRule ^/_export/([^/]+)/(.*) /doku.php?do=export_$1&id=$2 [QSA,L]",
            &["path = \"/_export/?*/**\"", "rewrite = \"/doku.php?do=export_$1$2&id=$3\""],
        ),
        // Without QSA, the query of the request is left out.
        ("RewriteRule ^/a/(.*)$ /b.php?c=$1 [L]", &["rewrite = \"/b.php?c=${rest}?\""]),
        ("RewriteRule ^/a$ /b? [L]", &["rewrite = \"/b?\""]),
        ("RewriteRule ^/a$ /b [L,QSD]", &["rewrite = \"/b?\""]),
        ("RewriteRule ^/a$ /b [L]", &["rewrite = \"/b\""]),
        ("RewriteRule ^/a$ /b?%{QUERY_STRING}&c [L]", &["rewrite = \"/b?$query&c\""]),
        ("RewriteRule ^/index.php$ /doku.php [L]", &["path = \"/index?php\"", "rewrite = \"/doku.php\""]),
        ("RewriteRule ^/a/(.*)$ /b?c=$1 [R=301,L]", &["redirect = \"/b?c=${rest}\"", "status = 301"]),
        ("RewriteRule ^/a/(.*)$ /b?c=$1 [R,QSA]", &["redirect = \"/b?c=${rest}&$query\""]),
        ("RewriteRule ^/a$ /b? [R]", &["redirect = \"/b\""]),
        ("RewriteRule ^/a$ /b [R]", &["redirect = \"/b$query\""]),
        (
            "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^/(.*)$ /doku.php?id=$1 [QSA,L]",
            &["fallback = \"/doku.php?id=$rest\""],
        ),
        (
            "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^/api/([^/]+)$ /api.php?p=$1 [L]",
            &["path = \"/api/?*\"", "fallback = \"/api.php?p=$1$2?\""],
        ),
    ] {
        check(Web::Apache, &[(&site(rules), expected)]);
    }
    for rule in [
        "RewriteRule ^/(.*)$ /index.php?q=$1 [QSA,L]",
        "RewriteRule ^/a/([0-9]+)$ /b.php?c=$1 [L]",
        "RewriteRule ^/a/(.*)$ /b.php?c=$2 [L]",
        "RewriteRule ^/a/(.*)$ /b.php?c=%1 [L]",
        "RewriteCond %{QUERY_STRING} ^c=(.*)$\nRewriteRule ^/a$ /b? [L]",
    ] {
        let line = 3 + rule.lines().count() as u32;
        refuse(Web::Apache, &[(&site(rule), line, "rewriterule ^")]);
    }
}

#[test]
fn rewrites_of_lighttpd_set_a_query() {
    let site = |name: &str, expression: &str, to: &str| {
        let text = expression.replace('\\', "\\\\");
        format!("server.document-root = \"/srv\"\n{name} = ( \"{text}\" => \"{to}\" )\n")
    };
    for (expression, to, expected) in [
        (
            r"^/wiki/([^?]*)(?:\?(.*))?$",
            "/w/index.php?title=$1&$2",
            &["path = \"/wiki/\"", "rewrite = \"/w/index.php?title=${rest}&$query\""][..],
        ),
        (r"^/a/([^?]*)(\?.*)?$", "/b.php$2", &["path = \"/a/\"", "rewrite = \"/b.php\""]),
        (
            r"^/cgit/([^?/]+/[^?]*)?(?:\?(.*))?$",
            "/cgit.cgi?url=$1&$2",
            &[
                "path = \"/cgit/?*/**\"",
                "rewrite = \"/cgit.cgi?url=$1$2/$3&$query\"",
                "path = \"/cgit/.\"",
                "rewrite = \"/cgit.cgi?url=&$query\"",
            ],
        ),
        (r"^/a/([^/]+)$", "/b.php?c=$1", &["path = \"/a/?*\"", "rewrite = \"/b.php?c=$1$2?\""]),
        (r"^/a/([^/]+)$", "/b.php?c=$1${qsa}", &["rewrite = \"/b.php?c=$1$2&$query\""]),
        (r"^/a/(.*)$", "/b/$1", &["path = \"/a/\"", "rewrite = \"/b/${rest}\""]),
    ] {
        check(Web::Lighttpd, &[(&site("url.rewrite-once", expression, to), expected)]);
    }
    let open = site("url.rewrite-once", "^/a/(.*)$", "/b.php?c=$1");
    let conversion = converted(Web::Lighttpd, "/etc/x/conf", &[("/etc/x/conf", &open)]);
    assert!(conversion.text.contains("rewrite = \"/b.php?c=${rest}\"\n"), "{}", conversion.text);
    assert!(conversion.findings.iter().any(|one| one.what.contains("finds the query of the request, too")));
    for (expression, to, expected) in [
        ("^/(.*)$", "/index.php?page=$1", &["fallback = \"/index.php?page=${rest}\""][..]),
        (r"^/([^?]*)(?:\?(.*))?$", "/doku.php?id=$1&$2", &["fallback = \"/doku.php?id=${rest}&$query\""]),
        ("", "/index.php${qsa}", &["fallback = \"/index.php\""]),
        ("^/api/([^/]+)$", "/api.php?p=$1", &["path = \"/api/?*\"", "fallback = \"/api.php?p=$1$2?\""]),
    ] {
        check(Web::Lighttpd, &[(&site("url.rewrite-if-not-file", expression, to), expected)]);
    }
    for (name, expression, to) in [
        ("url.rewrite-once", "^/(.*)$", "/index.php?page=$1"),
        ("url.rewrite-once", "^/a/([0-9]+)$", "/b.php?c=$1"),
        ("url.rewrite-once", "^/a/(.*)$", "/b.php?c=$2"),
        ("url.rewrite-once", "^/a/(.*)$", "/b.php?c=%1"),
        ("url.rewrite-if-not-file", "^/(.*)$", "/$1.php?x"),
    ] {
        refuse(Web::Lighttpd, &[(&site(name, expression, to), 2, "cannot be converted")]);
    }
}

#[test]
fn rewrites_of_caddy_set_a_query() {
    let site = |line: &str| format!(":80 {{\n root * /srv\n {line}\n file_server\n}}");
    for (line, expected) in [
        (
            "rewrite /wiki/* /w/index.php?{query}&title={path}",
            &["path = \"/wiki/\"", "rewrite = \"/w/index.php?$query&title=$path\""][..],
        ),
        ("rewrite /a /b.php?c={path}", &["path = \"/a\"", "rewrite = \"/b.php?c=$path?\""]),
        ("rewrite /a /b.php?{query}", &["rewrite = \"/b.php\""]),
        ("rewrite /a /b.php?", &["rewrite = \"/b.php?\""]),
        ("redir /a /b?c={path}", &["redirect = \"/b?c=$path\""]),
        (
            "try_files {path} {path}/ /index.php?{query}&p={path}",
            &["fallback = \"/index.php?$query&p=$path\""],
        ),
        ("try_files {path} /index.php?p={path}", &["fallback = \"/index.php?p=$path?\""]),
    ] {
        check(Web::Caddy, &[(&site(line), expected)]);
    }
    for line in
        ["rewrite * /index.php?{query}&p={path}", "rewrite /a /b?c={re.x.1}", "rewrite /a /b?c={host}"]
    {
        refuse(Web::Caddy, &[(&site(line), 3, "rewrite")]);
    }
}

#[test]
fn redirects_by_conditions_become_rules() {
    let old = "query = [\"*p=12*\"]";
    for (text, expected) in [
        (
            "if ($args ~* \"p=12\") { return 301 /new; }",
            &[old, "then = \"redirect\"", "to = \"/new\"", "status = 301"][..],
        ),
        ("if ($args ~ p=12) { return /new$is_args$args; }", &["to = \"/new$query\"", "status = 302"]),
        ("if ($args ~ p=12) { rewrite ^ /new? permanent; }", &[old, "to = \"/new\"", "status = 301"]),
        (
            "if ($args ~ p=12) { rewrite ^/index\\.php$ /new redirect; break; }",
            &["path = [\"/index.php\"]", "to = \"/new$query\"", "status = 302"],
        ),
        (
            "if ($host = www.example.org) { return 301 https://example.org$request_uri; }",
            &["host = [\"www.example.org\"]", "to = \"https://example.org$path$query\""],
        ),
        (
            "location = / { if ($http_user_agent ~ ^DavClnt) { return 302 /remote.php/webdav/$is_args$args; } }",
            &[
                "path = \"/.\"",
                "[[host.route.rule]]",
                "user_agent = [\"DavClnt*\"]",
                "then = \"redirect\"",
                "to = \"/remote.php/webdav/$query\"",
            ],
        ),
        (
            "location /a/ { allow 10.0.0.0/8; deny all; if ($arg_x = 1) { return 403; } }",
            &[
                "path = \"/a/\"",
                "query = [\"x=1\", \"*&x=1\", \"x=1&*\", \"*&x=1&*\"]",
                "then = \"deny\"",
                "address = \"10.0.0.0/8\"",
            ],
        ),
    ] {
        check(Web::Nginx, &[(&format!("server {{ listen 80; root /srv; {text} }}"), expected)]);
    }
    let satisfied = "server { root /srv; location / { satisfy any; allow 10.0.0.1; deny all; auth_basic x; auth_basic_user_file /u;\nif ($arg_x = 1) { return 403; } } }";
    refuse(Web::Nginx, &[(satisfied, 2, "if")]);
    let site = |rules: &str| {
        format!("Listen 80\nServerName a.example\nDocumentRoot /srv\nRewriteEngine On\n{rules}\n")
    };
    for (rules, expected) in [
        (
            "RewriteCond %{QUERY_STRING} ^p=12$\nRewriteRule ^/?$ /new? [R=301,L]",
            &[
                "query = [\"p=12\"]",
                "path = [\"/.\"]",
                "then = \"redirect\"",
                "to = \"/new\"",
                "status = 301",
            ][..],
        ),
        (
            "RewriteCond %{QUERY_STRING} ^p=12$\nRewriteRule ^/index\\.php$ http://b.example/x [L]",
            &["path = [\"/index.php\"]", "to = \"http://b.example/x$query\"", "status = 302"],
        ),
        (
            "RewriteCond %{HTTP_HOST} ^old\\.example$ [NC]\nRewriteRule ^/(.*)$ https://new.example/$1 [R=301,L]",
            &["host = [\"old.example\"]", "to = \"https://new.example/${rest}$query\"", "status = 301"],
        ),
    ] {
        check(Web::Apache, &[(&site(rules), expected)]);
    }
    let folder = "<Directory /srv>\nRewriteEngine On\nRewriteCond %{QUERY_STRING} ^p=12$\nRewriteRule ^$ new [R=301,QSD]\nRequire all granted\n</Directory>";
    check(Web::Apache, &[(&site(folder), &["path = [\"/.\"]", "to = \"/new\"", "status = 301"])]);
    for rules in [
        "RewriteCond %{QUERY_STRING} ^p=(.*)$\nRewriteRule ^/?$ /new/%1? [R=301,L]",
        "RewriteCond %{QUERY_STRING} ^p=12$\nRewriteCond %{REQUEST_FILENAME} -f\nRewriteRule ^ /new? [R=301,L]",
        "RewriteCond %{QUERY_STRING} ^p=12$\nRewriteRule ^/a/(.*)$ /b/$1 [R=301,L]",
        "RewriteCond %{QUERY_STRING} ^p=12$\nRewriteRule ^/?$ /new? [L]",
    ] {
        let line = 4 + u32::try_from(rules.lines().count()).expect("there are few");
        refuse(Web::Apache, &[(&site(rules), line, "rewriterule")]);
    }
    let text = |redirects: &str| {
        format!("server.document-root = \"/srv\"\n$HTTP[\"querystring\"] == \"p=12\" {{ {redirects} }}\n")
    };
    let expected = ["query = [\"p=12\"]", "then = \"redirect\"", "to = \"/new\"", "status = 302"];
    let redirects = "url.redirect = ( \"\" => \"/new\" )\nurl.redirect-code = 302";
    check(Web::Lighttpd, &[(&text(redirects), &expected)]);
    let caddy = |matcher: &str, redir: &str| {
        format!("http://a.example {{\n root * /srv\n {matcher}\n {redir}\n file_server\n}}")
    };
    check(
        Web::Caddy,
        &[
            (
                &caddy("@old {\npath /\nquery p=12\n}", "redir @old /new 301"),
                &[
                    "query = [\"p=12\", \"*&p=12\", \"p=12&*\", \"*&p=12&*\"]",
                    "path = [\"/.\"]",
                    "then = \"redirect\"",
                    "to = \"/new\"",
                    "status = 301",
                ],
            ),
            (
                &caddy("@bot header User-Agent *bot*", "redir @bot https://b.example{uri}"),
                &[
                    "field = { User-Agent = \"*bot*\" }",
                    "to = \"https://b.example$path$query\"",
                    "status = 302",
                ],
            ),
        ],
    );
    refuse(Web::Caddy, &[(&caddy("@old query p=12", "redir @old /new/{query.x}"), 4, "no conditions")]);
    refuse(Web::Caddy, &[(&caddy("@old query p=12", "rewrite @old /new"), 4, "no conditions")]);
    // A condition that is not known is not left out of its matcher.
    let unknown = caddy("@old {\npath /x\nexpression true\n}", "redir @old /new");
    refuse(Web::Caddy, &[(&unknown, 5, "expression true"), (&unknown, 7, "its matcher cannot be converted")]);
}

#[test]
fn rules_of_queries_deny_what_other_servers_deny() {
    for (condition, expected) in [
        ("if ($query_string ~ \"union.*select\") { return 403; }", "query = [\"*union*select*\"]"),
        ("if ($args ~* (a|b)=c) { return 403; }", "query = [\"*a=c*\", \"*b=c*\"]"),
        ("if ($args = \"x=1\") { return 403; }", "query = [\"x=1\"]"),
        ("if ($args !~* ^id=) { return 403; }", "query = [\"!id=*\"]"),
        ("if ($args) { return 403; }", "query = [\"?*\"]"),
        (
            "if ($arg_debug = 1) { return 403; }",
            "query = [\"debug=1\", \"*&debug=1\", \"debug=1&*\", \"*&debug=1&*\"]",
        ),
        (
            "if ($arg_debug) { return 403; }",
            "query = [\"debug=?*\", \"*&debug=?*\", \"debug=?*&*\", \"*&debug=?*&*\"]",
        ),
    ] {
        check(
            Web::Nginx,
            &[(&format!("server {{ root /srv; {condition} }}"), &[expected, "then = \"deny\""])],
        );
    }
    for condition in [
        "if ($args ~ [0-9]) { return 403; }",
        "if ($args !~ ^id=) { return 403; }",
        "if ($arg_token != secret) { return 403; }",
        "if ($arg_token = \"\") { return 403; }",
        "if ($arg_x = 1) { return 301 $arg_y; }",
        "if ($arg_x = 1) { rewrite ^/a/(.*)$ /b/$1 permanent; }",
        "if ($arg_x = 1) { rewrite ^ /b last; }",
        "if ($args !~ ^id=) { return 301 /b; }",
    ] {
        refuse(Web::Nginx, &[(&format!("server {{ root /srv;\n{condition} }}"), 2, "cannot be converted")]);
    }
    let site = |rules: &str| format!("Listen 80\nDocumentRoot /srv\nRewriteEngine On\n{rules}\n");
    check(
        Web::Apache,
        &[(
            &site(
                "RewriteCond %{QUERY_STRING} (<|%3C).*script [NC,OR]\nRewriteCond %{QUERY_STRING} GLOBALS=\nRewriteRule ^ - [F]",
            ),
            &[
                "query = [\"*<*script*\", \"*%3C*script*\"]",
                "then = \"deny\"",
                "query = [\"*GLOBALS=*\"]",
                "then = \"deny\"",
            ],
        )],
    );
    let lighttpd = |condition: &str, block: &str| {
        format!("server.document-root = \"/srv\"\n$HTTP[\"querystring\"] {condition} {{ {block} }}\n")
    };
    let all = "url.access-deny = ( \"\" )";
    for (condition, block, expected) in [
        ("=~ \"(a|b)=c\"", all, &["query = [\"*a=c*\", \"*b=c*\"]", "then = \"deny\""][..]),
        ("== \"x=1\"", all, &["query = [\"x=1\"]", "then = \"deny\""]),
        ("!= \"\"", all, &["query = [\"!\"]", "then = \"deny\""]),
        (
            "=~ \"^x\"",
            "$HTTP[\"url\"] =^ \"/a/\" { url.access-deny = ( \"\" ) }",
            &["query = [\"x*\"]", "path = [\"/a/\"]", "then = \"deny\""],
        ),
    ] {
        check(Web::Lighttpd, &[(&lighttpd(condition, block), expected)]);
    }
    for (condition, block) in [
        ("=~ \"[0-9]\"", all),
        ("!= \"token=secret\"", all),
        ("== \"x=1\"", "url.redirect = ( \"^/$\" => \"/new\" )"),
        ("== \"x=1\"", "url.redirect = ( \"\" => \"/new/%1\" )"),
        ("== \"x=1\"", "url.rewrite = ( \"\" => \"/new\" )"),
    ] {
        refuse(Web::Lighttpd, &[(&lighttpd(condition, block), 2, "querystring")]);
    }
    let caddy =
        |matcher: &str| format!(":80 {{\n root * /srv\n {matcher}\n respond @x 403\n file_server\n}}");
    check(
        Web::Caddy,
        &[(
            &caddy("@x query debug=1"),
            &["query = [\"debug=1\", \"*&debug=1\", \"debug=1&*\", \"*&debug=1&*\"]", "then = \"deny\""],
        )],
    );
    for matcher in ["@x query debug", "@x query a={b}", "@x not query token=secret"] {
        refuse(Web::Caddy, &[(&caddy(matcher), 4, "its matcher cannot be converted")]);
    }
}

/// What a `map` says about the type of a response, or about its path, is a table.
#[test]
fn expires_of_nginx_by_the_type_or_the_path() {
    let http = |map: &str, server: &str| format!("http {{ {map} server {{ root /srv; {server} }} }}");
    let by_type = "map $sent_http_content_type $expires { default off; text/html epoch; text/css max; \
                   application/javascript 7d; ~image/ 30d; ~*^font/ max; application/x-none off; }";
    let by_path = "map $uri $time { default 1h; /a.txt 2h; ~*\\.(css|js)$ max; ~^/b/ epoch; }";
    let types = "cache_control = { \"text/html\" = \"no-cache\", \"text/css\" = \"max-age=315360000\"";
    let scripts = [
        "\"text/javascript\" = \"max-age=604800\"",
        "\"application/javascript\" = \"max-age=604800\"",
        "\"application/x-javascript\" = \"max-age=604800\"",
    ];
    let others = "\"image/*\" = \"max-age=2592000\", \"font/*\" = \"max-age=315360000\" }";
    let refused = http("map $sent_http_content_type $e { default 1h; text/html off; }", "expires $e;");
    refuse(Web::Nginx, &[(&refused, 1, "\"expires $e\" cannot be converted")]);
    for (map, server, expected) in [
        ("map $sent_http_content_type $e { ~*image/.*x max; }", "expires $e;", "\"expires $e\""),
        ("map $arg_x $e { a max; }", "expires $e;", "\"expires $e\""),
        ("map $uri $e { ~^/b/ off; ~\\.css$ max; }", "expires $e;", "\"expires $e\""),
        ("map $uri $e { /a max; volatile; }", "expires $e;", "\"expires $e\""),
        ("map $uri $e { /a max; }", "return 301 $e;", "\"map $uri $e\""),
    ] {
        refuse(Web::Nginx, &[(&http(map, server), 1, expected)]);
    }
    let whole = format!("{types}, {}, {others}", scripts.join(", "));
    let of_types = [whole.as_str(), "path = \"/own/\"", "cache_control = \"max-age=5\""];
    let of_paths = [
        "cache_control = { \"/a.txt\" = \"max-age=7200\", \"(?i)*.css\" = \"max-age=315360000\", \
                     \"(?i)*.js\" = \"max-age=315360000\", \"/b/\" = \"no-cache\", \"/\" = \"max-age=3600\" }",
    ];
    check(
        Web::Nginx,
        &[
            (&http(by_type, "expires $expires; location /own/ { expires 5s; }"), &of_types),
            (&http(by_path, "expires $time;"), &of_paths),
            // What no directive uses has no effect.
            (&http(by_path, "expires 1h;"), &["cache_control = \"max-age=3600\""]),
            (
                &http(by_type, "expires $expires; location /own/ { expires off; }"),
                &["path = \"/own/\"", "headers = { Cache-Control = false }"],
            ),
        ],
    );
}

#[test]
fn lighttpd_starts_the_program_of_bin_path() {
    let site = |servers: &str| {
        format!("server.document-root = \"/srv\"\nfastcgi.server = ( \".php\" => ( {servers} ) )\n")
    };
    let debian = "( \"bin-path\" => \"/usr/bin/php-cgi -d a=b\", \"socket\" => \"/run/php.socket\", \"max-procs\" => 1, \
                  \"bin-environment\" => ( \"PHP_FCGI_CHILDREN\" => \"4\", \"PHP_FCGI_MAX_REQUESTS\" => \"10000\" ), \
                  \"bin-copy-environment\" => ( \"PATH\", \"SHELL\", \"USER\" ), \"broken-scriptfilename\" => \"enable\" )";
    let started = [
        "[[application]]",
        "command = [\"/usr/bin/php-cgi\", \"-d\", \"a=b\"]",
        "processes = 1",
        "env = { PHP_FCGI_CHILDREN = \"4\", PHP_FCGI_MAX_REQUESTS = \"10000\" }",
        "concurrent = 4",
        "new_privileges = true",
        "interpreter = \"fastcgi\"",
    ];
    check(Web::Lighttpd, &[(&site(debian), &started)]);
    refuse(
        Web::Lighttpd,
        &[
            (
                &site("( \"bin-path\" => \"php-cgi\", \"socket\" => \"/p\" )"),
                2,
                "bin-path does not begin with a program",
            ),
            (
                &site("( \"bin-path\" => \"\", \"socket\" => \"/p\" )"),
                2,
                "bin-path does not begin with a program",
            ),
            (
                &site("( \"bin-path\" => \"/bin/a\" ), ( \"host\" => \"192.0.2.1\", \"port\" => 9 )"),
                2,
                "has several servers, and bin-path",
            ),
        ],
    );
}

/// Processes that a script leaves behind live on, and it can gain privileges.
#[test]
fn scripts_of_apache_and_lighttpd_can_do_what_they_could() {
    let key = ["[scripts]", "background_jobs = true", "new_privileges = true"];
    let apache = "Listen 80\nDocumentRoot /srv\n";
    let lighttpd = "server.document-root = \"/srv\"\n";
    check(Web::Apache, &[(&format!("{apache}ScriptAlias /cgi-bin/ /usr/lib/cgi-bin/"), &key)]);
    check(Web::Lighttpd, &[(&format!("{lighttpd}cgi.assign = ( \".pl\" => \"/usr/bin/perl\" )"), &key)]);
    lacks(Web::Apache, &[(apache, &key)]);
    lacks(Web::Lighttpd, &[(lighttpd, &key)]);
}

/// An `else` counts where no condition before it does. Conditions may stand within others.
#[test]
fn an_else_of_lighttpd_is_for_other_paths() {
    let text = |rest: &str| format!("server.document-root = \"/srv\"\n{rest}");
    let header = |name: &str| format!("setenv.add-response-header = ( \"{name}\" => \"1\" )");
    let admin = format!("$HTTP[\"url\"] =~ \"^/admin/\" {{\n{}\n", header("X-A"));
    let chain =
        format!("{admin}}} else $HTTP[\"url\"] =~ \"^/$\" {{\nurl.redirect = ( \"\" => \"/admin/\" )\n}}");
    let nested = format!("{admin}$HTTP[\"url\"] =~ \"\\.(eot|woff2?)$\" {{\n{}\n}}\n}}", header("X-B"));
    let denied = format!("{admin}}}\nelse {{ url.access-deny = ( \"\" ) }}");
    let network = "$HTTP[\"remoteip\"] !~ \"^192\\.168\\.\" {\n$HTTP[\"url\"] =^ \"/a/\" { url.access-deny = ( \"\" ) }\n}";
    check(
        Web::Lighttpd,
        &[
            (
                &text(&chain),
                &[
                    "path = \"/admin/\"",
                    "headers = { X-A = \"1\" }",
                    "path = \"/.\"",
                    "redirect = \"/admin/\"",
                ],
            ),
            (&text(&nested), &["path = \"/admin/**/*.eot\"", "headers = { X-B = \"1\" }"]),
            (&text(&denied), &["[[host.rule]]", "path = [\"!/admin/\"]", "then = \"deny\""]),
            (&text(network), &["address = [\"!192.168.0.0/16\"]", "path = [\"/a/\"]", "then = \"deny\""]),
        ],
    );
    let what = "an else cannot be converted";
    let within = format!("{admin}}} else $HTTP[\"url\"] =~ \"^/admin/x/\" {{\n{}\n}}", header("X-C"));
    let others = format!("{admin}}}\nelse {{ {} }}", header("X-C"));
    let of_host = format!("{admin}}}\n$HTTP[\"host\"] == \"a\" {{ }} else $HTTP[\"url\"] =~ \"^/b/\" {{\n}}");
    let expression = format!(
        "$HTTP[\"url\"] =~ \"^/admin\" {{\n{}\n}} else {{ url.access-deny = ( \"\" ) }}",
        header("X-A")
    );
    let digits = "$HTTP[\"remoteip\"] =~ \"^192\\.168\" { url.access-deny = ( \"\" ) }";
    refuse(
        Web::Lighttpd,
        &[
            (&text(&within), 4, what),
            (&text(&others), 5, what),
            (&text(&of_host), 5, what),
            (&text(&expression), 4, what),
            (&text(digits), 2, "remoteip"),
        ],
    );
}

/// Rules of files and locations have no paths to begin at. What they reject is not open.
#[test]
fn rewrites_of_apache_in_files_and_locations_are_not_left_out() {
    let text = |section: &str, rules: &str| {
        let end = section.split_whitespace().next().unwrap_or_default();
        format!("DocumentRoot /srv\n<{section}>\nRewriteEngine on\n{rules}\n</{end}>\n")
    };
    let denied = |path: &'static str| [path, "[[host.route.rule]]", "then = \"deny\""];
    for (section, path) in [
        ("Location /a", "path = \"/a/\""),
        ("LocationMatch \"^/a/.*x$\"", "path = \"/a/**x\""),
        ("Files a.bak", "path = \"/**/a.bak\""),
        ("FilesMatch \"\\.bak$\"", "path = \"*.bak\""),
    ] {
        check(Web::Apache, &[(&text(section, "RewriteRule ^ - [F]"), &denied(path))]);
        lacks(
            Web::Apache,
            &[(&text(section, "RewriteEngine off\nRewriteRule ^ - [F]"), &["then = \"deny\""])],
        );
        for rules in [
            "RewriteCond %{HTTP_USER_AGENT} bot\nRewriteRule ^ - [F]",
            "RewriteRule ^x - [F]",
            "RewriteRule ^ - [G]",
            "RewriteRule ^(.*)$ /b/$1",
        ] {
            refuse(Web::Apache, &[(&text(section, rules), 3 + rules.lines().count() as u32, "rewriterule")]);
        }
    }
}

/// What a pattern keeps from being run is not run by what is around it, and what it runs is not sent.
#[test]
fn patterns_of_apache_keep_files_from_being_run() {
    let text = |section: &str, inner: &str| {
        let end = section.split_whitespace().next().unwrap_or_default();
        format!(
            "DocumentRoot /srv\nAddHandler cgi-script .sh\n<FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:/x|fcgi://localhost\"\n\
             </FilesMatch>\n<Directory /srv>\nOptions ExecCGI\n</Directory>\n<{section}>\n{inner}\n</{end}>\n"
        )
    };
    let run = ["path = \"*.sh\"", "cgi = true"];
    for (section, denied) in [
        ("DirectoryMatch \"/up/\"", "path = \"/**/up/**.sh\""),
        ("LocationMatch \"^/up/.*\\.sh\"", "path = \"/up/**.sh\""),
        ("FilesMatch \"up.*\\.sh$\"", "path = \"*up*.sh\""),
    ] {
        for inner in ["Options -ExecCGI", "Options None", "Options +Indexes -All", "RemoveHandler .sh"] {
            let text = text(section, inner);
            check(Web::Apache, &[(&text, &[denied, "return = 403", run[0], run[1]])]);
        }
        lacks(Web::Apache, &[(&text(section, "Options -Indexes"), &["return = 403"])]);
        refuse(Web::Apache, &[(&text(section, "AddHandler cgi-script .pl"), 10, "the handler of .pl")]);
    }
    // Another program than CGI still runs its files.
    lacks(Web::Apache, &[(&text("FilesMatch \"\\.php$\"", "Options -ExecCGI"), &["return = 403"])]);
}

/// A pattern with settings alone is in front of what runs its files, wherever the wildcards of both have their ends.
#[test]
fn settings_of_patterns_leave_no_source_of_scripts() {
    let program = "SetHandler \"proxy:unix:/x|fcgi://localhost\"";
    let php = format!("<FilesMatch \"\\.php$\">\n{program}\n</FilesMatch>\n");
    let text = |own: &str, rest: &str| {
        format!("DocumentRoot /srv\n<FilesMatch \"{own}\">\nHeader set X-A b\n</FilesMatch>\n{rest}")
    };
    let within = format!("<Directory /srv/a>\n{php}</Directory>\n");
    let several =
        format!("{php}AddHandler cgi-script .pl\n<Directory /srv>\nOptions ExecCGI\n</Directory>\n");
    let run = "interpreter = \"fastcgi\"";
    let kept = "AddHandler cgi-script .sh\n<Directory /srv>\nOptions ExecCGI\n</Directory>\n\
                <Directory /srv/a>\nOptions -ExecCGI\n</Directory>\n";
    check(
        Web::Apache,
        &[
            (
                &text("\\.sh", kept),
                &[
                    "path = \"/a/**/*.sh\"",
                    "return = 403",
                    "path = \"*.sh\"",
                    "cgi = true",
                    "path = \"*.sh*\"",
                ],
            ),
            (
                &text("\\.php", &php),
                &["path = \"*.php\"", run, "headers = { X-A = \"b\" }", "path = \"*.php*\""],
            ),
            (
                &text("\\.ph", &php),
                &["path = \"*.php\"", run, "headers = { X-A = \"b\" }", "path = \"*.ph*\""],
            ),
            (&text("^x", &within), &["path = \"/a/**/x*.php\"", "headers = { X-A = \"b\" }", run]),
            (
                &text("^x", &several),
                &["path = \"x*.php\"", run, "path = \"x*.pl\"", "cgi = true", "path = \"x*\""],
            ),
        ],
    );
}

#[test]
fn nginx_needs_no_condition_for_a_script_that_is_missing() {
    let location = |condition: &str, script: &str| {
        format!(
            "server {{ root /srv;\nlocation ~ \\.php$ {{\n{condition}\nfastcgi_pass unix:/p;\n\
             fastcgi_param SCRIPT_FILENAME {script}; }} }}"
        )
    };
    let script = "$document_root$fastcgi_script_name";
    let of_all = "$document_root/index.php";
    for condition in [
        "if (!-f $document_root$fastcgi_script_name) { return 404; }",
        "if (!-f $document_root$fastcgi_script_name) { return 404; } fastcgi_split_path_info ^(.+\\.php)(/.+)$;",
        "try_files $fastcgi_script_name =404;",
    ] {
        let text = location(condition, script);
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert!(
            conversion.findings.iter().all(|finding| finding.line == Some(2)),
            "{:?}",
            conversion.findings
        );
        check(Web::Nginx, &[(&text, &["path = \"*.php\"", "interpreter = \"fastcgi\""])]);
    }
    for (condition, script) in [
        ("if (!-f $document_root$fastcgi_script_name) { return 403; }", script),
        ("if (-f $document_root$fastcgi_script_name) { return 404; }", script),
        ("if (!-f $document_root/other$fastcgi_script_name) { return 404; }", script),
        ("if (!-f $document_root$fastcgi_script_name) { return 404; set $a 1; }", script),
        // One script runs for all paths, also those without a file.
        ("if (!-f $document_root$fastcgi_script_name) { return 404; }", of_all),
    ] {
        refuse(Web::Nginx, &[(&location(condition, script), 3, "cannot be converted")]);
    }
    let files =
        "server { root /srv; location /a/ {\nif (!-f $document_root$fastcgi_script_name) { return 404; } } }";
    refuse(Web::Nginx, &[(files, 2, "cannot be converted")]);
    // Scripts of other names would run.
    for rewrite in
        ["^/(?!index|[0-9]) /index.php$uri", "^/(?!a|b) /index.php$uri", "^/(?!index) /index.php?q=$uri"]
    {
        let others = location(&format!("rewrite {rewrite};"), script);
        refuse(Web::Nginx, &[(&others, 3, "rewrite ^/(?!")]);
    }
    let rewrite =
        "rewrite ^/(?!index|ocs\\/v[12]|updater\\/.+|.+\\/code(_arm64)?\\/proxy) /index.php$request_uri;";
    let allowed = ["/index", "/ocs/v1", "/ocs/v2", "/updater/", "/**/code/proxy", "/**/code_arm64/proxy"];
    let mut expected: Vec<String> = Vec::new();
    for path in allowed {
        expected.push(format!("path = \"{path}**.php\""));
        expected.push("interpreter = \"fastcgi\"".to_owned());
    }
    expected.extend(["path = \"*.php\"", "return = 404"].map(str::to_owned));
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check(Web::Nginx, &[(&location(rewrite, script), &expected)]);
}

#[test]
fn a_server_of_nginx_redirects_what_an_expression_finds_at_any_depth() {
    check(
        Web::Nginx,
        &[
            (
                "server { root /srv; rewrite /wp-admin$ $scheme://$host$uri/ permanent; location / { try_files $uri =404; } }",
                &[
                    "path = \"/**/wp-admin\"",
                    "redirect = \"$scheme://$host$path/$query\"",
                    "status = 301",
                    "path = \"/\"",
                ],
            ),
            (
                "server { root /srv; rewrite \\.(htm|asp)$ /new redirect; }",
                &["path = \"*.htm\"", "redirect = \"/new$query\"", "status = 302", "path = \"*.asp\""],
            ),
        ],
    );
    refuse(
        Web::Nginx,
        &[
            ("server { root /srv;\nrewrite /wp-admin$ /index.php last; }", 2, "rewrite /wp-admin$"),
            ("server { root /srv;\nrewrite /[0-9]+$ $uri/ permanent; }", 2, "rewrite /[0-9]+$"),
            ("server { root /srv; location /a/ {\nrewrite /b$ $uri/ permanent; } }", 2, "rewrite /b$"),
        ],
    );
}

#[test]
fn an_index_of_nginx_may_be_the_script_of_all_paths() {
    let server = |index: &str, location: &str| {
        format!(
            "server {{ root /srv;\nindex {index};\nlocation / {{ {location} }}\n\
             location ~ \\.php$ {{ fastcgi_pass unix:/p; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }} }}"
        )
    };
    let files = "try_files $uri $uri/ /index.php$request_uri;";
    let index = "index.php index.html /index.php$request_uri";
    check(
        Web::Nginx,
        &[(
            &server(index, files),
            &[
                "listing = false",
                "index = [\"index.php\", \"index.html\"]",
                "path = \"/\"",
                "fallback = \"/index.php\"",
                "fallback_for = \"all\"",
            ],
        )],
    );
    for (index, location) in [
        (index, "autoindex on; try_files $uri $uri/ /index.php$request_uri;"),
        (index, "try_files $uri $uri/ /other.php$request_uri;"),
        (index, "try_files $uri /index.php$request_uri;"),
        (index, "try_files $uri $uri/ =404;"),
        ("/index.php$request_uri index.html", files),
    ] {
        refuse(Web::Nginx, &[(&server(index, location), 2, "index ")]);
    }
}

#[test]
fn the_default_of_proxy_redirect_is_that_of_routes() {
    let location = |redirect: &str| {
        let text = format!(
            "server {{\nlocation / {{ proxy_pass http://a.example;\nproxy_redirect {redirect}; }} }}"
        );
        converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)])
    };
    assert!(location("default").findings.is_empty());
    for other in ["off", "http://a.example/ /b/"] {
        assert!(location(other).findings.iter().any(|finding| finding.line == Some(3)), "{other}");
    }
}

/// A server of Apache with a section in it.
fn with_section(expression: &str, inner: &str) -> String {
    format!(
        "Listen 80\nServerName a.example\nDocumentRoot /srv\n<Directory /srv>\nRequire all granted\n</Directory>\n\
         RewriteEngine off\n<Location /in>\nRequire ip 10.1\n\
         </Location>\n<If \"{expression}\">\n{inner}\n</If>\n"
    )
}

#[test]
fn sections_of_apache_deny_by_conditions() {
    for (expression, rule) in [
        ("%{REQUEST_URI} =~ m#^/private/#", &["path = [\"/private/\"]"][..]),
        ("%{HTTP_USER_AGENT} =~ /BadBot|Spider/", &["user_agent = [\"*BadBot*\", \"*Spider*\"]"]),
        ("-R '10.0.0.0/8'", &["address = [\"10.0.0.0/8\"]"]),
        ("!(-R '10.0.0.0/8')", &["address = [\"!10.0.0.0/8\"]"]),
        ("%{HTTPS} != 'on'", &["tls = false"]),
        (
            "%{REQUEST_URI} =~ m#^/private/# && ! %{REMOTE_ADDR} -ipmatch '192.0.2.1'",
            &["path = [\"/private/\"]", "address = [\"!192.0.2.1/32\"]"],
        ),
        (
            "%{REQUEST_METHOD} == 'TRACE' || %{QUERY_STRING} =~ /union/",
            &["method = [\"TRACE\"]", "then = \"deny\"", "query = [\"*union*\"]"],
        ),
    ] {
        let text = with_section(expression, "Require all denied");
        // They precede what grants, also where a location has rules of its own.
        let denied = [rule, &["then = \"deny\"", "status = 403"]].concat();
        let expected =
            [&["[[host.rule]]"], &denied[..], &["then = \"allow\"", "path = \"/in/\""], &denied[..]];
        check(Web::Apache, &[(&text, &expected.concat())]);
    }
    let inner = "Listen 80\nDocumentRoot /srv\n<Directory /srv/in>\n<If \"! -R '10.0.0.0/8'\">\nRequire all denied\n</If>\n</Directory>\n";
    check(Web::Apache, &[(inner, &["address = [\"!10.0.0.0/8\"]", "path = [\"/in/\"]", "then = \"deny\""])]);
    let conf = "Listen 80\nDocumentRoot /srv\n<Directory /srv>\nAllowOverride All\n</Directory>\n";
    let section = "<If \"-R '10.0.0.0/8'\">\nRequire all denied\n</If>\n";
    let files = [("/etc/x/conf", conf), ("/srv/in/.htaccess", section)];
    let conversion = converted(Web::Apache, "/etc/x/conf", &files);
    assert!(!conversion.is_refused(), "{:?}", conversion.findings);
    let rule = "address = [\"10.0.0.0/8\"]\npath = [\"/in/\"]\nthen = \"deny\"";
    assert!(conversion.text.contains(rule), "{}", conversion.text);
}

#[test]
fn sections_of_apache_that_rules_cannot_say_are_refused() {
    for (expression, inner) in [
        ("%{REQUEST_URI} =~ m#[0-9]#", "Require all denied"),
        ("%{HTTP_USER_AGENT} !~ /Own/", "Require all denied"),
        ("-f %{REQUEST_FILENAME}", "Require all denied"),
        ("-R '10.0.0.0/8' && %{HTTPS} == 'on' || -R '192.0.2.0/24'", "Require all denied"),
        ("-R 'example.org'", "Require all denied"),
        ("%{REQUEST_METHOD} =~ /^P/", "Require all denied"),
        ("-R '10.0.0.0/8'", "Require all granted"),
        ("-R '10.0.0.0/8'", "Require all denied\nHeader set X-A b"),
        ("-R '10.0.0.0/8'", "Require valid-user"),
        ("-R '10.0.0.0/8'", "SetHandler none"),
        ("%{HTTPS} != 'on'", "Redirect permanent / https://other.example/"),
        ("%{HTTPS} != 'on'", "Redirect / https://a.example/"),
        ("%{HTTPS} == 'on'", "Redirect permanent / https://a.example/"),
    ] {
        refuse(Web::Apache, &[(&with_section(expression, inner), 11, "\"if ")]);
    }
    let section = "<If \"-R '10.0.0.0/8'\">\nRequire all denied\n</If>\n";
    let any = "<Location /x>\nAuthType Basic\nAuthUserFile /u\nRequire valid-user\nRequire ip 10.1\nSatisfy Any\n</Location>\n";
    refuse(
        Web::Apache,
        &[
            (&format!("Listen 80\n{section}<Else>\nRequire all denied\n</Else>"), 5, "else"),
            (&format!("Listen 80\nDocumentRoot /srv\n{any}{section}"), 10, "Satisfy Any"),
            (&format!("Listen 80\n<Location /a>\n{section}</Location>"), 3, "\"if "),
            (&format!("Listen 80\n<Files *.bak>\n{section}</Files>"), 3, "\"if "),
        ],
    );
}

#[test]
fn a_section_of_apache_may_lead_to_https() {
    let text = with_section("%{HTTPS} != 'on'", "Redirect permanent / https://a.example/");
    check(
        Web::Apache,
        &[(&text, &["path = \"/\"", "redirect = \"https://$host$path$query\"", "status = 301"])],
    );
    let secure = format!("{}SSLEngine on\nSSLCertificateFile /c\nSSLCertificateKeyFile /k\n", text);
    check(Web::Apache, &[(&secure, &["https_redirect = true"])]);
}

#[test]
fn rules_except_no_more_than_other_servers_do() {
    // A rule knows no case for the values of fields, and only whole methods.
    let lighttpd = |condition: &str| {
        format!("server.document-root = \"/srv\"\n$HTTP[{condition} {{\nurl.access-deny = ( \"\" )\n}}\n")
    };
    check(
        Web::Lighttpd,
        &[
            (&lighttpd("\"request-method\"] =~ \"^(TRACE|TRACK)$\""), &["method = [\"TRACE\", \"TRACK\"]"]),
            (&lighttpd("\"useragent\"] == \"Bad\""), &["user_agent = [\"Bad\"]"]),
            (&lighttpd("\"useragent\"] != \"\""), &["user_agent = [\"!\"]"]),
        ],
    );
    for condition in ["\"request-method\"] =~ \"^(P.*)$\"", "\"useragent\"] != \"Own\""] {
        refuse(Web::Lighttpd, &[(&lighttpd(condition), 2, "")]);
    }
    let caddy = |matcher: &str| {
        format!(":80 {{\nroot * /srv\n@m {{\n{matcher}\n}}\nrespond @m 403\nfile_server\n}}\n")
    };
    check(Web::Caddy, &[(&caddy("not header X-Key 12"), &["field = { X-Key = \"!12\" }"])]);
    check(Web::Caddy, &[(&caddy("header X-Key Abc"), &["field = { X-Key = \"Abc\" }"])]);
    let refused = caddy("not header X-Key Abc");
    assert!(converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", &refused)]).is_refused());
    let apache = |condition: &str| {
        format!(
            "Listen 80\nDocumentRoot /srv\nRewriteEngine on\nRewriteCond {condition}\nRewriteRule ^ - [F]\n"
        )
    };
    check(Web::Apache, &[(&apache("%{HTTP:X-Key} !=abc [NC]"), &["field = { X-Key = \"!abc\" }"])]);
    for condition in ["%{HTTP:X-Key} !=Abc", "%{HTTP_COOKIE} !key=Abc", "%{REQUEST_METHOD} ^P"] {
        refuse(Web::Apache, &[(&apache(condition), 5, "rewriterule")]);
    }
}
