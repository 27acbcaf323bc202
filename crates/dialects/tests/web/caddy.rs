//! What configurations of Caddy become.

use dialects::Web;

use super::{check, converted, lacks, refuse};

#[test]
fn converts_caddy() {
    check(
        Web::Caddy,
        &[
            (
                ":8080 {\n\troot * /srv\n\tfile_server browse\n\tencode gzip zstd\n}\n",
                &[
                    "user = \"nobody\"",
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
                    "path = [\"(?i)/a/**\"]",
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
    let text = "http://:80 {\nforward_auth a:1 {\nuri /a\ncopy_headers {args.0}\n}\nroot * /srv\n}\n";
    refuse(Web::Caddy, &[(text, 4, "copy_headers")]);
    let conversion = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", text)]);
    assert!(conversion.text.contains("authorizer = \"authorizer\""), "{}", conversion.text);
    // No client can say what a field under another name would have said.
    let text = text.replace("{args.0}", "A>B C");
    check(Web::Caddy, &[(&text, &["authorizer_fields = [\"A\", \"B\", \"C\"]"])]);
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
fn a_route_of_caddy_asks_no_authorizer_for_what_stands_in_front() {
    let text = "app.company {\nroute {\nreverse_proxy /outpost.goauthentik.io/* http://10.0.0.9:9000\n\
                forward_auth http://10.0.0.9:9000 {\nuri /outpost.goauthentik.io/auth/caddy\n}\nreverse_proxy 10.0.0.1:1234\n}\n}\n";
    let expected = [
        "authorizer = \"authorizer\"",
        "path = \"/outpost.goauthentik.io/\"",
        "authorizer = false",
        "path = \"/\"",
    ];
    check(Web::Caddy, &[(text, &expected)]);
    // Elsewhere, the order of directives does not count.
    let sorted = text.replace("route {", "handle {");
    let asked = text.replace("route {", "forward_auth http://10.0.0.9:9000 {\nuri /a\n}\nroute {");
    for text in [&sorted, &asked] {
        lacks(Web::Caddy, &[(text, &["authorizer = false"])]);
    }
}

#[test]
fn what_caddy_protects_is_closed_in_other_cases_of_its_path() {
    let closed = |paths: &str, status: &str| {
        vec![
            "[[host.rule]]".to_owned(),
            format!("path = [{paths}]"),
            "then = \"deny\"".to_owned(),
            format!("status = {status}"),
        ]
    };
    let users = "{\nann $2a$14$abcdefghijklmnopqrstuuKaN6n0PPD0yU2Zl1eV9WzX8mNqQ2Q2u\n}";
    for (directive, expected) in [
        ("respond /admin/* 403".to_owned(), closed("\"(?i)/admin/**\", \"!/admin/\"", "403")),
        ("error /a.txt 404".to_owned(), closed("\"(?i)/a.txt\", \"!/a.txt\"", "404")),
        ("handle /a/* {\nabort\n}".to_owned(), closed("\"(?i)/a/**\", \"!/a/\"", "403")),
        ("respond /a/ 410".to_owned(), closed("\"(?i)/a\", \"!/a\"", "410")),
        (format!("basic_auth /a/* {users}"), closed("\"(?i)/a/**\", \"!/a/\"", "403")),
        ("forward_auth /a/* auth:81 {\nuri /x\n}".to_owned(), closed("\"(?i)/a/**\", \"!/a/\"", "403")),
        (
            "@own {\npath /a/*\nnot remote_ip 10.0.0.0/8\n}\nrespond @own 403".to_owned(),
            vec!["address = [\"!10.0.0.0/8\"]".to_owned(), "path = [\"(?i)/a/**\"]".to_owned()],
        ),
    ] {
        let text = format!("http://a {{\n{directive}\nreverse_proxy b:81\n}}\n");
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(Web::Caddy, &[(&text, &expected)]);
    }
    // Case counts in expressions, and letters alone have one.
    for directive in [
        "@own path_regexp ^/Own/\nrespond @own 403",
        "@own path_regexp (?i)^/own/\nrespond @own 403",
        "respond /1/* 403",
    ] {
        let text = format!("http://a {{\n{directive}\nreverse_proxy b:81\n}}\n");
        lacks(Web::Caddy, &[(&text, &["[[host.rule]]"])]);
    }
}

#[test]
fn paths_of_caddy_have_wildcards_where_it_reads_them() {
    for (path, expected) in [
        ("/uploads/*.php", "path = \"/uploads/*.php\""),
        ("*.php*", "path = \"/**.php**\""),
        ("*/.git/*", "path = \"/**/.git/**\""),
        ("*.bak", "path = \"*.bak\""),
        ("*/a.txt", "path = \"/**/a.txt\""),
        ("/a*", "path = \"/a**\""),
        ("/*/x/*.php", "path = \"/*/x/*.php\""),
    ] {
        let text = format!("http://a {{\nroot * /srv\nrespond {path} 403\nfile_server\n}}\n");
        let matcher = format!("http://a {{\nroot * /srv\n@own path {path}\nrespond @own 403\n}}\n");
        if path.starts_with('/') {
            check(Web::Caddy, &[(&text, &[expected, "return = 403"])]);
        }
        check(Web::Caddy, &[(&matcher, &[expected, "return = 403"])]);
    }
    for path in ["/a[b]", "a*b", "/a**b", "*"] {
        let text = format!("http://a {{\nroot * /srv\n@own path {path}\nrespond @own 403\n}}\n");
        refuse(Web::Caddy, &[(&text, 4, "cannot be converted")]);
    }
    // There is no pattern for a folder alone in any case.
    for (expression, expected) in [
        ("(?i)^/A/", Some("path = \"(?i)/A/**\"")),
        ("(?i)\\.(bak|OLD)$", Some("path = \"(?i)*.OLD\"")),
        ("(?i)^/a/$", None),
    ] {
        let text = format!("http://a {{\nroot * /srv\n@own path_regexp {expression}\nrespond @own 403\n}}\n");
        match expected {
            Some(path) => check(Web::Caddy, &[(&text, &[path, "return = 403"])]),
            None => refuse(Web::Caddy, &[(&text, 4, "cannot be converted")]),
        }
    }
    // Both have to find the path.
    let text = "http://a {\n@own {\npath /a/*\npath_regexp b$\n}\nrespond @own 403\n}\n";
    refuse(Web::Caddy, &[(text, 6, "cannot be converted")]);
}

#[test]
fn applications_of_caddy_may_respond_for_what_is_missing() {
    let site = |rest: &str| format!("http://a {{\nroot * /srv\n{rest}\n}}\n");
    let missing = [
        "fallback = \"/@missing\"",
        "fallback_for = \"all\"",
        "path = \"/@missing\"",
        "proxy = \"http://proxy\"",
    ];
    for rest in [
        "@own not file\nreverse_proxy @own b:81\nfile_server",
        "@own not file {path} {path}/\nreverse_proxy @own b:81\nfile_server",
        "@own {\nnot {\nfile {\ntry_files {path}\n}\n}\n}\nhandle @own {\nreverse_proxy b:81\n}\nfile_server",
        "@own file\nhandle @own {\nfile_server\n}\nhandle {\nreverse_proxy b:81\n}",
        "route {\n@own file\nfile_server @own\nreverse_proxy b:81\n}",
    ] {
        check(Web::Caddy, &[(&site(rest), &missing)]);
    }
    let rest = "@own not file\nrewrite @own /index.html\nfile_server";
    check(Web::Caddy, &[(&site(rest), &["fallback = \"/index.html\""])]);
    let rest = "@own {\npath /a/*\nnot file\n}\nreverse_proxy @own b:81\nfile_server";
    check(
        Web::Caddy,
        &[(&site(rest), &["path = \"/a/\"", "fallback = \"/a/@missing\"", "path = \"/a/@missing\""])],
    );
    for rest in [
        "@own not file {path}.html\nreverse_proxy @own b:81",
        "@own not file\nrespond @own 403",
        "@own file\nreverse_proxy @own b:81",
        "@own {\nnot file\nmethod GET\n}\nreverse_proxy @own b:81",
        "@own {\nfile\nmethod GET\n}\nhandle @own {\nfile_server\n}\nhandle {\nreverse_proxy b:81\n}",
        "@own {\nfile\npath /a[b]\n}\nhandle @own {\nfile_server\n}\nhandle {\nreverse_proxy b:81\n}",
    ] {
        let line = site(rest).lines().position(|line| line.contains(" @own ")).unwrap_or_default();
        refuse(Web::Caddy, &[(&site(rest), line as u32 + 1, "@own")]);
    }
}

#[test]
fn paths_that_a_matcher_of_caddy_excepts_have_files() {
    let site =
        |rest: &str| format!("http://a {{\nroot * /srv\n@own not path /static/* /media/*\n{rest}\n}}\n");
    let expected = ["path = \"/\"", "proxy = \"http://proxy\"", "path = \"/static/\"", "path = \"/media/\""];
    let rest = "reverse_proxy @own b:81\nfile_server";
    check(Web::Caddy, &[(&site(rest), &expected)]);
    let text = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", &site(rest))]).text;
    assert!(text.ends_with("path = \"/static/\"\n\n[[host.route]]\npath = \"/media/\"\n"), "{text}");
    let rule =
        ["path = [\"!/static/.\", \"!/static/*/**\", \"!/media/.\", \"!/media/*/**\"]", "then = \"deny\""];
    check(Web::Caddy, &[(&site("respond @own 403"), &rule)]);
    // More asks for a password, and nothing is open if the entry is removed.
    let users =
        "basic_auth @own {\nann $2a$14$abcdefghijklmnopqrstuuKaN6n0PPD0yU2Zl1eV9WzX8mNqQ2Q2u\n}\nfile_server";
    for matcher in ["not path /static/* /media/*", "expression true", "method POST"] {
        let text = site(users).replace("not path /static/* /media/*", matcher);
        refuse(Web::Caddy, &[(&text, 4, "basic_auth @own: its matcher is left out")]);
        let text = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", &text)]).text;
        assert!(text.contains("\nauth = \"basic\"\n") && !text.contains("[[host.route]]"), "{text}");
    }
    refuse(Web::Caddy, &[(&site("handle /b/* {\nreverse_proxy @own b:81\n}"), 5, "reverse_proxy @own")]);
}

#[test]
fn an_upstream_of_caddy_has_its_own_settings() {
    let passed = |path: &str, options: &str| {
        format!("reverse_proxy {path} https://b {{\ntransport http {{\n{options}\n}}\n}}\n")
    };
    let parts =
        [passed("/a/*", "tls_insecure_skip_verify"), passed("/b/*", "dial_timeout 3s"), passed("/c/*", "")];
    let text = format!("http://a {{\n{}\n}}\n", parts.concat());
    let expected = [
        "tls_verify = false",
        "name = \"proxy\"",
        "connect = \"3s\"",
        "name = \"proxy-2\"",
        "name = \"proxy-3\"",
        "proxy = \"https://proxy\"",
        "proxy = \"https://proxy-2\"",
        "proxy = \"https://proxy-3\"",
    ];
    check(Web::Caddy, &[(&text, &expected)]);
}

#[test]
fn an_authorizer_of_caddy_may_lead_to_a_login() {
    let site = |options: &str| {
        format!(
            "http://a {{\nforward_auth b:81 {{\nuri /oauth2/auth\n{options}\n}}\nreverse_proxy c:81\n}}\n"
        )
    };
    let login =
        "@error status 401\nhandle_response @error {\nredir * /oauth2/sign_in?rd={scheme}://{host}{uri}\n}";
    for options in ["header_up X-Real-IP {remote_host}", "header_up X-Original-URL \"https://{host}{uri}\""] {
        check(
            Web::Caddy,
            &[(&site(options), &["authorizer_path = \"/oauth2/auth\"", "authorizer = \"authorizer\""])],
        );
    }
    let target = "authorizer_login = \"/oauth2/sign_in?rd=$scheme://$host$path$query\"";
    check(Web::Caddy, &[(&site(login), &[target])]);
    for other in [
        login.replace("401", "4xx"),
        login.replace("{uri}", "{args.0}"),
        login.replace(" @error {\nredir", " {\nredir"),
    ] {
        let found = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", &site(&other))]);
        let what = "clients get the answer of the authorizer";
        assert!(found.findings.iter().any(|one| one.what.contains(what)), "{other}: {:?}", found.findings);
        assert!(!found.text.contains("authorizer_login ="), "{other}: {}", found.text);
    }
    for (options, line, part) in [
        ("header_up X-Own yes", 4, "header_up X-Own"),
        ("@good status 2xx\nhandle_response @good {\nrequest_header A b\n}", 5, "handle_response @good"),
        ("handle_response {\n}", 4, "handle_response"),
    ] {
        refuse(Web::Caddy, &[(&site(options), line, part)]);
    }
}

#[test]
fn a_block_of_caddy_runs_its_own_front_controller() {
    let block = |name: &str| {
        format!("http://a {{\n{name} /app/* {{\nroot * /srv/app\nphp_fastcgi unix//run/p.sock\n}}\n}}\n")
    };
    check(
        Web::Caddy,
        &[(
            &block("handle_path"),
            &[
                "path = \"/app/\"",
                "alias = \"/srv/app\"",
                "index = [\"index.php\"]",
                "fallback = \"/app/index.php\"",
                "path = \"/app/**.php\"",
            ],
        )],
    );
    // `/index.php` is outside of the block.
    let found = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", &block("handle"))]);
    assert!(found.text.contains("fallback = false"), "{}", found.text);
    assert!(found.findings.iter().any(|one| one.what.contains("does not lead to")), "{:?}", found.findings);
}

#[test]
fn files_of_a_block_of_caddy_are_sent_beside_a_response_for_the_rest() {
    let site = |path: &str, rest: &str| {
        format!("http://a {{\nroot * /srv\nhandle {path} {{\nfile_server\n}}\nhandle {{\n{rest}\n}}\n}}\n")
    };
    check(
        Web::Caddy,
        &[
            (
                &site("/up*", "respond 404"),
                &["path = \"/up**\"", "root = \"/srv\"", "path = \"/\"", "return = 404"],
            ),
            (&site("/robots.txt", "reverse_proxy b:81"), &["path = \"/robots.txt\"", "root = \"/srv\""]),
        ],
    );
    // Outside of blocks, the upstream precedes files.
    let text = "http://a {\nroot * /srv\n@css path *.css\nfile_server @css\nreverse_proxy b:81\n}\n";
    let found = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", text)]).text;
    assert_eq!(found.matches("root = \"/srv\"").count(), 1, "{found}");
}

#[test]
fn expressions_of_caddy_that_name_paths_are_converted() {
    let site = |matcher: &str, does: &str| {
        format!("http://a {{\nroot * /srv\nfile_server\n@x expression {matcher}\n{does}\n}}\n")
    };
    check(
        Web::Caddy,
        &[
            (
                &site("path('/a/*') || path('*.sql', '/b')", "respond @x 404"),
                &["path = \"*.sql\"", "return = 404", "path = \"/a/\"", "path = \"/b\""],
            ),
            (
                &site("path('/a/*') && method('POST')", "respond @x 403"),
                &["method = [\"POST\"]", "path = [\"(?i)/a/**\"]"],
            ),
        ],
    );
    refuse(
        Web::Caddy,
        &[
            (&site("{path}.startsWith('/a')", "respond @x 403"), 5, "what it denies would be open"),
            (&site("path('/a/*') && path('*.b')", "respond @x 403"), 5, "what it denies would be open"),
            (&site("path('/a/*') || method('POST')", "redir @x /b"), 5, "cannot be converted"),
        ],
    );
}

#[test]
fn an_upstream_of_caddy_needs_no_matcher_for_websocket() {
    let site = |other: &str| {
        format!(
            "http://a {{\n@ws {{\nheader Connection *Upgrade*\nheader Upgrade websocket\n}}\nreverse_proxy @ws b:81\n{other}\n}}\n"
        )
    };
    check(Web::Caddy, &[(&site("reverse_proxy b:81"), &["path = \"/\"", "proxy = \"http://proxy\""])]);
    refuse(Web::Caddy, &[(&site("reverse_proxy c:81"), 6, "cannot be converted")]);
}

#[test]
fn texts_below_a_folder_of_caddy_have_its_type() {
    check(
        Web::Caddy,
        &[(
            "http://a {\nheader /w/* Content-Type application/json\nrespond /w/server \"x\"\n}\n",
            &[
                "path = \"/w/\"",
                "default_type = \"application/json\"",
                "path = \"/w/server\"",
                "respond = \"x\"",
            ],
        )],
    );
}

#[test]
fn a_page_that_try_files_of_caddy_ends_with_is_no_index_file() {
    let site = |tries: &str| format!("http://a {{\nroot * /srv\ntry_files {tries}\nfile_server\n}}\n");
    let expected = ["index = [\"index.html\", \"index.txt\"]", "fallback = \"/x.txt\""];
    for (tries, is_warned) in [("{path} {path}/ /x.txt", true), ("{path} {path}/index.html /x.txt", false)] {
        let text = site(tries);
        let conversion = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        let host = conversion.text.split_once("[[host]]").map_or("", |(_, host)| host);
        assert!(expected.iter().all(|line| host.contains(line)), "{host}");
        let warned = |finding: &dialects::Finding| {
            finding.line == Some(3) && finding.what.contains("folders without an index file")
        };
        assert_eq!(conversion.findings.iter().any(warned), is_warned, "{:#?}", conversion.findings);
    }
}

#[test]
fn a_redirect_of_caddy_is_for_paths_in_other_cases_of_letters() {
    check(
        Web::Caddy,
        &[(
            "http://a {\nroot * /srv\nredir /Docs/* /x.txt 301\nfile_server\n}\n",
            &[
                "path = [\"(?i)/Docs/**\", \"!/Docs/\"]",
                "then = \"redirect\"",
                "to = \"/x.txt\"",
                "status = 301",
            ],
        )],
    );
}

#[test]
fn a_folder_of_caddy_without_the_index_file_of_try_files_is_not_listed() {
    for end in ["=404", "/x.txt"] {
        let text = format!(
            "http://a {{\nroot * /srv\ntry_files {{path}} {{path}}/index.html {end}\nfile_server browse\n}}\n"
        );
        lacks(Web::Caddy, &[(&text, &["listing = true"])]);
    }
}

#[test]
fn what_no_request_of_a_block_of_caddy_has_as_its_path_is_refused() {
    let text = "http://a {\nroot * /srv\nhandle /docs {\nrespond /docs/x hello\n}\nfile_server\n}\n";
    refuse(Web::Caddy, &[(text, 4, "respond /docs/x")]);
}

#[test]
fn files_of_an_ending_in_other_cases_are_sent_and_fields_close_nothing() {
    let site = |text: &str| format!("http://:80 {{\nroot * /srv\n{text}\n}}\n");
    let proxied = "handle {\nreverse_proxy 127.0.0.1:1\n}";
    let closed = site(&format!("handle /a/* {{\nfile_server\n}}\n{proxied}"));
    check(Web::Caddy, &[(&closed, &["status = 404"])]);
    lacks(
        Web::Caddy,
        &[
            (
                &site(&format!("@s path *.jpg *.css\nhandle @s {{\nfile_server\n}}\n{proxied}")),
                &["status = 404"],
            ),
            (&site("route /a/* {\nheader X-A 1\n}\nfile_server"), &["status = 404"]),
        ],
    );
}

#[test]
fn placeholders_of_caddy_are_variables() {
    let site = |lines: &str| format!(":80 {{\n root * /srv\n {lines}\n file_server\n}}");
    for (lines, expected) in [
        (
            "redir /a {http.request.scheme}://{host}:8443{uri}",
            "redirect = \"$scheme://$host:8443$path$query\"",
        ),
        ("redir /a http://{http.request.hostport}/b", "redirect = \"http://$hostport/b\""),
        ("redir /a {http.request.orig_uri.path}/", "redirect = \"$path/\""),
        // Within `handle_path`, the path has no prefix.
        (
            "handle_path /a/* {\n redir https://b.example{uri}\n }",
            "redirect = \"https://b.example/${rest}$query\"",
        ),
        ("handle_path /a/* {\n redir {http.request.orig_uri}\n }", "redirect = \"$path$query\""),
        ("handle_path /a/* {\n rewrite * /b{path}\n }", "rewrite = \"/b/${rest}\""),
        // Groups of an expression.
        ("@x path_regexp x ^/a/(.*)$\n redir @x /b/{re.x.1}", "redirect = \"/b/${rest}\""),
        ("@x path_regexp ^/a/(.*)\\.html$\n redir @x /b/{re.1}", "redirect = \"/b/$1\""),
        (
            "@x path_regexp ^/(en|de)/(.*)$\n redir @x /b-{http.regexp.x.1}/{re.2}",
            "redirect = \"/b-de/${rest}\"",
        ),
        ("@x path_regexp ^/a/(.*)$\n rewrite @x /b/{re.1}", "rewrite = \"/b/${rest}\""),
        ("@x path_regexp (?i)^/a/(.*)$\n redir @x /b/{re.1}", "redirect = \"/b/$1\""),
    ] {
        check(Web::Caddy, &[(&site(lines), &[expected])]);
    }
    for lines in ["redir /a /b/{path.1}", "redir /a https://{labels.1}/", "redir /a //b", "redir /a /b}"] {
        refuse(Web::Caddy, &[(&site(lines), 3, "cannot be converted")]);
    }
    check(Web::Caddy, &[(":80 {\n root * /srv/{host}/www\n file_server\n}", &["root = \"/srv/$host/www\""])]);
    refuse(Web::Caddy, &[(&site("root /a/* /srv/{host}"), 3, "root /a/*")]);
}

#[test]
fn a_denial_of_caddy_with_a_text_has_a_warning() {
    let text = ":80 {\n root * /srv\n respond /a \"away\" 410\n file_server\n}";
    let conversion = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", text)]);
    let said: Vec<String> = conversion.findings.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|line| line.contains("the response has no text of its own")), "{said:?}");
    check(Web::Caddy, &[(text, &["path = \"/a\"", "return = 410"])]);
}

/// As with one certificate for all names of a domain.
#[test]
fn a_block_of_caddy_for_a_name_is_a_site() {
    let text = "http://*.a.org, http://a.org {\nencode gzip\n@one host one.a.org\nhandle @one {\nreverse_proxy one:80\n}\n\
                @two {\nhost two.a.org three.a.org\n}\nhandle @two {\nroot * /srv/two\nfile_server\n}\nhandle {\nabort\n}\n}\n";
    check(
        Web::Caddy,
        &[
            (
                text,
                &[
                    "names = [\"*.a.org\", \"a.org\"]",
                    "return = 403",
                    "compress = [\"gzip\"]",
                    "names = [\"one.a.org\"]",
                    "proxy = \"http://proxy\"",
                    "root = \"/srv/two\"",
                    "names = [\"two.a.org\", \"three.a.org\"]",
                ],
            ),
            (
                "http://*.a.org:8443 {\n@one host one.a.org\nreverse_proxy @one one:80\nreverse_proxy others:80\n}\n",
                &[
                    "address = [\"others:80\"]",
                    "address = [\"one:80\"]",
                    "names = [\"*.a.org\"]",
                    "names = [\"one.a.org\"]",
                ],
            ),
            // What no other block responds for is not there.
            (
                "http://*.a.org {\n@one host one.a.org\nhandle @one {\nrespond hi\n}\n}\n",
                &["names = [\"*.a.org\"]", "return = 404"],
            ),
        ],
    );
    // A name that the site has not.
    let other = "http://*.a.org {\n@one host one.b.org\nhandle @one {\nreverse_proxy x:80\n}\nreverse_proxy y:80\n}\n";
    refuse(Web::Caddy, &[(other, 4, "handle @one")]);
}

#[test]
fn variables_of_the_environment_of_caddy_have_their_defaults() {
    let text = "{$SITE:http://a.org}:{$PORT:8080} {\n# {$A:b}\nreverse_proxy {$UP:app:8000}\n}\n";
    check(
        Web::Caddy,
        &[(
            text,
            &[
                "listen = [\"0.0.0.0:8080\", \"[::]:8080\"]",
                "address = [\"app:8000\"]",
                "names = [\"a.org\"]",
            ],
        )],
    );
    let conversion = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", text)]);
    let said = |name: &str| conversion.findings.iter().any(|finding| finding.what.contains(name));
    assert!(
        said("$UP of the environment is not read: it is \"app:8000\"") && !said("$A "),
        "{:#?}",
        conversion.findings
    );
    refuse(
        Web::Caddy,
        &[("http://a.org {\nrespond {$TEXT}\n}\n", 2, "$TEXT of the environment is not read")],
    );
}

#[test]
fn a_site_of_caddy_for_a_port_has_the_tls_of_the_port() {
    check(
        Web::Caddy,
        &[
            // As on a local network, with the way from HTTP.
            (
                ":443 {\ntls /c /k\nreverse_proxy app:80\n}\n:80 {\nredir https://{host}{uri} permanent\n}\n",
                &[
                    "listen = [\"0.0.0.0:443 tls\", \"[::]:443 tls\", \"0.0.0.0:80\", \"[::]:80\"]",
                    "https_redirect = true",
                ],
            ),
            (
                ":8443 {\ntls /c /k\nreverse_proxy app:80\n}\n",
                &["listen = [\"0.0.0.0:8443 tls\", \"[::]:8443 tls\"]"],
            ),
            (
                "http://a.org {\nredir https://a.org{uri}\n}\n",
                &["path = \"/\"", "redirect = \"https://$host$path$query\"", "status = 302"],
            ),
        ],
    );
    // No authority certifies a site without a name.
    for address in [":443", ":8443"] {
        let text = format!("{address} {{\ntls internal\nreverse_proxy app:80\n}}\n");
        refuse(Web::Caddy, &[(&text, 1, "has TLS and no certificate")]);
    }
}

#[test]
fn handle_path_of_caddy_may_end_within_a_name() {
    let text = "http://a.org {\nhandle_path /api* {\nreverse_proxy app:80\n}\nhandle_path /* {\nroot * /srv\n\
                try_files {path} /index.html\nfile_server\n}\n}\n";
    check(
        Web::Caddy,
        &[(
            text,
            &[
                "root = \"/srv\"",
                "fallback = \"/index.html\"",
                "path = \"/api/\"",
                "proxy = \"http://proxy/\"",
            ],
        )],
    );
    let conversion = converted(Web::Caddy, "/etc/x/conf", &[("/etc/x/conf", text)]);
    let warned =
        |finding: &dialects::Finding| finding.what.contains("handle_path /api* matches whole segments");
    assert!(conversion.findings.iter().any(warned), "{:#?}", conversion.findings);
}

/// A field that is absent has the empty value in a rule, which `*` finds.
#[test]
fn caddy_finds_the_presence_of_a_field() {
    let site =
        |matcher: &str| format!("http://a {{\nroot * /srv\n@m {matcher}\nrespond @m 403\nfile_server\n}}\n");
    for (matcher, expected) in [
        ("header X-Bad *", "field = { X-Bad = \"?*\" }"),
        ("not header X-Key *", "field = { X-Key = \"!?*\" }"),
        ("header X-Bad a*", "field = { X-Bad = \"a*\" }"),
    ] {
        check(Web::Caddy, &[(&site(matcher), &[expected])]);
    }
}

/// Caddy runs a script whatever the case of its name, and a pattern runs those in this case alone.
#[test]
fn the_source_of_a_script_of_caddy_is_sent_in_no_case() {
    check(
        Web::Caddy,
        &[(
            ":80 {\n root * /srv\n php_fastcgi 127.0.0.1:9000\n file_server\n}",
            &[
                "path = [\"(?i)*.php\", \"!*.php\"]",
                "then = \"deny\"",
                "path = \"*.php\"",
                "interpreter = \"php\"",
            ],
        )],
    );
}
