//! What configurations of lighttpd become.

use dialects::Web;

use super::{check, converted, lacks, refuse};

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
    for (expression, to, expected) in [
        ("^/(.*)$", "/index.php/$1", "/index.php"),
        (r"^/([^?]*)(\?.*)?$", "/index.php/$1$2", "/index.php"),
        (r"^\/([^\?]*)(?:\?(.*))?$", "/index.php?q=$1&$2", "/index.php?q=${rest}&$query"),
        (r"^/(.*)(\?|$)(.*)", "/index.php?q=$1&$3", "/index.php?q=${rest}&$query"),
        (r"(?:\?(.*))?$", "/index.php?$1", "/index.php"),
        ("^/.*$", "/index.php/$0", "/index.php"),
        ("^(.+)/?$", "/index.php/$1", "/index.php"),
        ("(.*)", "/index.php?q=$1", "/index.php?q=$path"),
    ] {
        let expected = format!("fallback = \"{expected}\"");
        for name in ["url.rewrite-if-not-file", "url.rewrite-repeat-if-not-file"] {
            check(Web::Lighttpd, &[(&site(name, expression, to), &[&expected])]);
        }
    }
    for (name, expression, to) in [
        ("url.rewrite-once", "^/(.*)$", "/index.php?page=$1"),
        ("url.rewrite-once", "^/a/([0-9,]+)$", "/b.php?c=$1"),
        ("url.rewrite-once", "^/a/(.*)$", "/b.php?c=$2"),
        ("url.rewrite-once", "^/a/(.*)$", "/b.php?c=%1"),
        ("url.rewrite-if-not-file", "^/(.*)$", "/$1.php?x"),
        ("url.rewrite-repeat-if-not-file", "^/a/(.*)$", "/b/$1"),
    ] {
        refuse(Web::Lighttpd, &[(&site(name, expression, to), 2, "cannot be converted")]);
    }
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
            (&text(&nested), &["path = \"/admin/**/*.eot\"", "headers = { X-B = \"1\", X-A = false }"]),
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

/// The route that lighttpd keeps files of beneath has no longer the wildcards of the fallback.
#[test]
fn excluded_files_beneath_a_rewrite_of_lighttpd_have_no_fallback() {
    let text = "server.document-root = \"/srv\"\nstatic-file.exclude-extensions = ( \".php\", \".pl\" )\n\
                fastcgi.server = ( \".php\" => (( \"socket\" => \"/p\" )) )\n\
                url.rewrite-if-not-file = ( \"^/_export/([^/]+)/(.*)\" => \"/doku.php?do=export_$1&id=$2\" )\n";
    check(Web::Lighttpd, &[(text, &["path = \"/_export/**.pl\"", "return = 403"])]);
}

#[test]
fn what_lighttpd_denies_stays_denied_where_patterns_find_more() {
    let site = |expression: &str, inner: &str| {
        format!("server.document-root = \"/srv\"\n$HTTP[\"url\"] =~ \"{expression}\" {{\n{inner}\n}}\n")
    };
    let deny = "url.access-deny = ( \"\" )";
    for (expression, path) in [("\\.(bak|conf)[0-9,]*$", "*.bak*"), ("^/secret[0-9,]+/", "/secret?*/**")] {
        let path = format!("path = \"{path}\"");
        check(Web::Lighttpd, &[(&site(expression, deny), &[&path, "return = 403"])]);
    }
    let auth = "auth.require = ( \"\" => ( \"method\" => \"basic\", \"realm\" => \"x\", \"require\" => \"valid-user\" ) )";
    for (expression, inner) in [("^/[a-z,]$", deny), ("^/secret[0-9,]+/", auth)] {
        refuse(Web::Lighttpd, &[(&site(expression, inner), 2, "would be open")]);
    }
    refuse(
        Web::Lighttpd,
        &[(&site("^/a[0-9,]", "dir-listing.activate = \"enable\""), 2, "cannot be converted")],
    );
}

#[test]
fn redirects_of_lighttpd_precede_what_runs_files() {
    let site = |redirect: &str| {
        format!(
            "server.port = 80\nserver.document-root = \"/srv\"\nfastcgi.server = ( \".php\" => (( \"socket\" => \"/p\" )) )\n\
             url.redirect = ( {redirect} )\n"
        )
    };
    check(
        Web::Lighttpd,
        &[
            (
                &site("\"^/docs(/.*)?\\.php$\" => \"/d\""),
                &["path = \"/docs/**.php\"", "redirect = \"/d\"", "path = \"*.php\""],
            ),
            (
                &site("\"^/e/(.*)$\" => \"/f/$1\""),
                &["path = \"/e/**/*.php\"", "path = \"*.php\"", "path = \"/e/\""],
            ),
            (
                &site("\"^/(en|de)/(.*)$\" => \"/$1-new/$2\""),
                &["path = \"/en/\"", "redirect = \"/en-new/${rest}$query\""],
            ),
            (
                &site("\"^/blog/([^/]+)/([^/]+)$\" => \"/b/$2/$1\""),
                &["path = \"/blog/?*/?*\"", "redirect = \"/b/$3$4/$1$2\"", "path = \"*.php\""],
            ),
        ],
    );
    // The query, which the last group finds, would stand within another one.
    refuse(Web::Lighttpd, &[(&site("\"^/(en|de)/(.*)$\" => \"/$2?x=$1\""), 4, "cannot be converted")]);
}

#[test]
fn blocks_of_lighttpd_that_are_left_out_say_what_would_be_open() {
    let deny = "{ url.access-deny = ( \"\" ) }";
    let ask = "{ auth.require = ( \"\" => ( \"method\" => \"basic\", \"realm\" => \"x\", \"require\" => \"valid-user\" ) ) }";
    let open = "and what it protects would be open";
    for (condition, block) in [
        ("$HTTP[\"remoteip\"] == \"192.0.2.1\"", ask),
        ("$HTTP[\"querystring\"] =~ \"x\"", ask),
        ("$HTTP[\"url\"] !~ \"\\.(txt|html)$\"", deny),
        ("$HTTP[\"language\"] == \"x\"", deny),
    ] {
        let text = format!("server.document-root = \"/srv\"\n{condition} {block}\n");
        refuse(Web::Lighttpd, &[(&text, 2, open)]);
    }
    let text = format!(
        "server.document-root = \"/srv\"\n$HTTP[\"remoteip\"] == \"192.0.2.1\" {deny}\nelse $HTTP[\"querystring\"] =~ \"x\" {ask}\n"
    );
    refuse(Web::Lighttpd, &[(&text, 3, open)]);
    let text =
        "server.document-root = \"/srv\"\n$HTTP[\"language\"] == \"x\" { index-file.names = ( \"a\" ) }\n";
    let conversion = converted(Web::Lighttpd, "/etc/x/conf", &[("/etc/x/conf", text)]);
    assert!(conversion.is_refused() && !conversion.text.contains(open), "{}", conversion.text);
}

/// As the files of its own packages have it.
#[test]
fn listings_of_lighttpd_have_no_hidden_files() {
    check(
        Web::Lighttpd,
        &[
            (
                "server.document-root = \"/srv\"\ndir-listing.activate = \"enable\"\n",
                &["dotfiles = \"unlisted\"", "listing = true"],
            ),
            (
                "server.document-root = \"/srv\"\ndir-listing.hide-dotfiles = \"disable\"\ndir-listing.exclude = ( \"~$\" )\n\
                 mimetype.use-xattr = \"disable\"\ndebug.log-request-header = \"disable\"\nstatic-file.etags = \"enable\"\n",
                &["dotfiles = \"allow\""],
            ),
            (
                "server.document-root = \"/srv\"\nexpire.mimetypes = ( \"text/css\" => \"access plus 1 hours\", \"image/\" => \"access 1 days\", \
                 \"\" => \"access 1 minutes\" )\ndeflate.allowed-encodings = ( \"brotli\", \"gzip\" )\n",
                &[
                    "cache_control = { \"text/css\" = \"max-age=3600\", \"image/*\" = \"max-age=86400\", \"/\" = \"max-age=60\" }",
                    "compress = [\"br\", \"gzip\"]",
                ],
            ),
        ],
    );
    check(
        Web::Nginx,
        &[("server { root /srv; autoindex on; }", &["dotfiles = \"unlisted\"", "listing = true"])],
    );
    let apache = |ignored: &str| {
        format!(
            "Listen 80\nDocumentRoot /srv\n<Directory /srv>\nOptions Indexes\nIndexIgnore {ignored}\nRequire all granted\n</Directory>\n"
        )
    };
    check(
        Web::Apache,
        &[
            (&apache(".??* *~"), &["dotfiles = \"allow\"", "dotfiles = \"unlisted\""]),
            (&apache("*"), &["listing = false"]),
        ],
    );
}

/// What lighttpd 1.4.69 responds to the same requests.
#[test]
fn the_status_of_redirects_counts_wherever_it_stands() {
    let text = "server.document-root = \"/srv\"\n\
                $HTTP[\"url\"] =^ \"/c/\" {\n url.redirect = ( \"\" => \"/later\" )\n url.redirect-code = 307\n}\n\
                url.redirect-code = 302\nurl.redirect = ( \"^/a$\" => \"/new\" )\n\
                $HTTP[\"querystring\"] == \"p=12\" { url.redirect = ( \"\" => \"/q\" ) }\n\
                $HTTP[\"host\"] == \"b.example\" { url.redirect-code = 308 }\n\
                $HTTP[\"host\"] == \"d.example\" { url.redirect += ( \"^/d$\" => \"/new\" ) }\n";
    let conversion = converted(Web::Lighttpd, "/etc/x/conf", &[("/etc/x/conf", text)]);
    let hosts: Vec<&str> = conversion.text.split("[[host]]").skip(1).collect();
    let route = |path: &str, to: &str, status: u16| {
        format!("path = \"{path}\"\nredirect = \"{to}\"\nstatus = {status}\n")
    };
    let rule = "then = \"redirect\"\nto = \"/q\"\nstatus = 302\n";
    let [default, b, d] = hosts.as_slice() else { panic!("{}", conversion.text) };
    for (host, expected) in [
        (default, vec![route("/a", "/new", 302), route("/c/", "/later", 307), rule.to_owned()]),
        (b, vec![route("/a", "/new", 308)]),
        (d, vec![route("/a", "/new", 302), route("/d", "/new", 302)]),
    ] {
        expected.iter().for_each(|part| assert!(host.contains(part), "{part}\nis not in\n{host}"));
    }
}

/// lighttpd has the list of the last condition that holds, and `+=` adds to the one outside of conditions.
#[test]
fn lists_of_a_host_replace_those_of_all_hosts() {
    let text = |after: &str| {
        format!(
            "server.document-root = \"/srv\"\nalias.url = ( \"/all/\" => \"/mnt/all/\" )\nurl.access-deny = ( \".inc\" )\n\
             $HTTP[\"url\"] =^ \"/c/\" {{ alias.url = ( \"/c/\" => \"/mnt/c/\" ) }}\n\
             $HTTP[\"host\"] == \"b.example\" {{\n{after}\n}}\n"
        )
    };
    for (block, has, lacks) in [
        ("alias.url = ( \"/b/\" => \"/mnt/b/\" )", &["/mnt/b", "*.inc"][..], &["/mnt/all", "/mnt/c"][..]),
        ("alias.url += ( \"/b/\" => \"/mnt/b/\" )", &["/mnt/b", "/mnt/all", "*.inc"], &["/mnt/c"]),
        ("url.access-deny = ( \".bak\" )", &["/mnt/all", "/mnt/c", "*.bak"], &["*.inc"]),
        (
            "$HTTP[\"url\"] =^ \"/d/\" { alias.url = ( \"/d/\" => \"/mnt/d/\" ) }",
            &["/mnt/all", "/mnt/d"],
            &[],
        ),
    ] {
        let conversion = converted(Web::Lighttpd, "/etc/x/conf", &[("/etc/x/conf", &text(block))]);
        let hosts: Vec<&str> = conversion.text.split("[[host]]").skip(1).collect();
        let [default, b] = hosts.as_slice() else { panic!("{}", conversion.text) };
        assert!(["/mnt/all", "/mnt/c", "*.inc"].iter().all(|part| default.contains(part)), "{default}");
        has.iter().for_each(|part| assert!(b.contains(part), "{block}: {part} is not in\n{b}"));
        lacks.iter().for_each(|part| assert!(!b.contains(part), "{block}: {part} is in\n{b}"));
    }
}

/// As those of a host do, wherever they stand.
#[test]
fn lists_of_a_path_replace_those_around_it() {
    let around = "url.redirect = ( \"^/c/y$\" => \"/all\" )\nalias.url = ( \"/c/x/\" => \"/mnt/x/\" )\n";
    for (sign, is_there) in [("=", false), ("+=", true)] {
        let block = format!(
            "$HTTP[\"url\"] =^ \"/c/\" {{\n url.redirect {sign} ( \"^/c/z$\" => \"/own\" )\n\
             alias.url {sign} ( \"/c/w/\" => \"/mnt/w/\" )\n}}\n"
        );
        for text in [format!("{around}{block}"), format!("{block}{around}")] {
            let text = format!("server.document-root = \"/srv\"\n{text}");
            let has: &[&str] = &["redirect = \"/own\"", "alias = \"/mnt/w\""];
            check(Web::Lighttpd, &[(&text, has)]);
            for part in ["redirect = \"/all\"", "alias = \"/mnt/x\""] {
                let found = if is_there { check } else { lacks };
                found(Web::Lighttpd, &[(&text, &[part])]);
            }
        }
    }
}

/// The list of the last condition counts alone, also where routes add up. What lighttpd 1.4.69 does with the same
/// requests.
#[test]
fn lists_of_a_path_say_what_they_lack() {
    let block = |outer: &str, inner: &str| {
        let user = "auth.backend = \"htpasswd\"\nauth.backend.htpasswd.userfile = \"/etc/users\"\n";
        format!("server.document-root = \"/srv\"\n{user}{outer}\n$HTTP[\"url\"] =^ \"/s/\" {{ {inner} }}\n")
    };
    let fields = "setenv.add-response-header = ( \"X-A\" => \"1\", \"X-B\" => \"2\" )";
    let types = "mimetype.assign = ( \".html\" => \"text/html\", \".txt\" => \"text/plain\" )";
    let server =
        |ending: &str| format!("fastcgi.server = ( \"{ending}\" => (( \"socket\" => \"/run/a\" )) )");
    let auth = "auth.require = ( \"\" => ( \"method\" => \"basic\", \"realm\" => \"r\", \"require\" => \"valid-user\" ) )";
    for (outer, inner, expected) in [
        (
            fields,
            "setenv.add-response-header = ( \"x-a\" => \"3\" )",
            "headers = { x-a = \"3\", X-B = false }",
        ),
        (fields, "setenv.add-response-header += ( \"X-C\" => \"3\" )", "headers = { X-C = \"3\" }"),
        // Nothing that is uploaded is shown as a page.
        (
            types,
            "mimetype.assign = ( \"\" => \"application/x-own\" )",
            "types = { html = \"application/x-own\", txt = \"application/x-own\" }",
        ),
        (&server(".php"), &server(".phtml"), "path = \"/s/**/*.php\"\nreturn = 403"),
        (&server(".php"), &server(".phtml"), "path = \"/s/**/*.phtml\"\ninterpreter = \"fastcgi\""),
        (auth, "auth.require = ()", "path = \"/s/\"\nauth = \"off\""),
        (
            "url.access-deny = ( \".bak\", \".inc\" )",
            "url.access-deny = ( \".BAK\" )",
            "warning: url.access-deny: what the list outside denies stays denied",
        ),
    ] {
        let text = block(outer, inner);
        let conversion = converted(Web::Lighttpd, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert!(!conversion.is_refused(), "{text}\n{}", conversion.text);
        assert!(conversion.text.contains(expected), "{expected}\nis not in\n{}", conversion.text);
    }
    // Whether a path is one of the expression is not certain for each path of the pattern.
    let loose = format!("{auth}\n$HTTP[\"url\"] =~ \"^/([^/]+)/x/\" {{ auth.require = () }}");
    lacks(Web::Lighttpd, &[(&block(&loose, "server.tag = \"\""), &["auth = \"off\""])]);
}

/// A key that stands in front of another one, and is the beginning of it, counts for its paths.
#[test]
fn the_first_requirement_of_lighttpd_counts() {
    let require = |keys: &[(&str, &str)]| {
        let one = |(path, who): &(&str, &str)| {
            format!("\"{path}\" => ( \"method\" => \"basic\", \"realm\" => \"r\", \"require\" => \"{who}\" )")
        };
        let all: Vec<String> = keys.iter().map(one).collect();
        format!(
            "server.document-root = \"/srv\"\nauth.backend = \"htpasswd\"\nauth.backend.htpasswd.userfile = \"/etc/users\"\n\
             auth.require = ( {} )\n",
            all.join(", ")
        )
    };
    let first = require(&[("/", "user=bob"), ("/in/", "user=ann")]);
    check(Web::Lighttpd, &[(&first, &["require = [\"user:bob\"]"])]);
    lacks(Web::Lighttpd, &[(&first, &["path = \"/in/\"", "require = [\"user:ann\"]"])]);
    // Every user, and not those of the paths around.
    let last = require(&[("/in/", "valid-user"), ("/", "user=bob")]);
    check(
        Web::Lighttpd,
        &[(
            &last,
            &["require = [\"user:bob\"]", "path = \"/in/\"", "auth = \"basic\"", "require = [\"user\"]"],
        )],
    );
}

#[test]
fn rewrites_of_lighttpd_to_the_path_itself_only_keep_others_away() {
    for rules in [
        "\"^/(a|b)/(.*)$\" => \"/$1/$2\"",
        "\"^/a/(.*)$\" => \"/a/$1\", \"^/b/.*\" => \"$0\"",
        "\"^/a/\" => \"$0\", \"^/b/(.*)$\" => \"/b/$1\"",
    ] {
        let text = format!("server.document-root = \"/srv\"\nurl.rewrite-once = ( {rules} )\n");
        check(Web::Lighttpd, &[(&text, &["path = \"/a/\"", "path = \"/b/\""])]);
        let conversion = converted(Web::Lighttpd, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert!(!conversion.text.contains("rewrite ="), "{}", conversion.text);
    }
}

#[test]
fn lighttpd_maps_paths_of_upstreams() {
    let app = "proxy.server = ( \"\" => (( \"host\" => \"10.0.0.1\", \"port\" => 81 )) )";
    let text = |condition: &str, map: &str| {
        format!(
            "server.document-root = \"/srv\"\n$HTTP[\"url\"] {condition} {{\n\
             proxy.header = ( \"map-urlpath\" => ( {map} ) )\n{app}\n}}\n"
        )
    };
    for (condition, map, expected) in [
        ("=^ \"/app/\"", "\"/app/\" => \"/\"", &["path = \"/app/\"", "proxy = \"http://http/\""][..]),
        ("=^ \"/app/\"", "\"/app/\" => \"/v/\", \"/\" => \"/x/\"", &["proxy = \"http://http/v/\""]),
        ("=^ \"/app/sub/\"", "\"/app\" => \"\"", &["proxy = \"http://http/sub/\""]),
        // What is behind the text is not known.
        ("=^ \"/app\"", "\"/app\" => \"/v\"", &["path = \"/app?*/**\"", "return = 404"]),
    ] {
        check(Web::Lighttpd, &[(&text(condition, map), expected)]);
    }
    refuse(Web::Lighttpd, &[(&text("=^ \"/app/\"", "\"/other/\" => \"/\""), 3, "map-urlpath")]);
}

#[test]
fn lighttpd_has_no_index_files_of_its_own() {
    check(Web::Lighttpd, &[("server.document-root = \"/srv\"", &["index = []"])]);
    lacks(
        Web::Lighttpd,
        &[("server.document-root = \"/srv\"\nindex-file.names = ( \"a.html\" )", &["index = []"])],
    );
}
