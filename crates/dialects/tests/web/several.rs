//! What has to be the same for several servers.

use dialects::{Finding, Web};

use super::{check, converted, lacks, refuse};

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

/// A redirect to the host that the client asked for is one to its port, too.
#[test]
fn a_redirect_keeps_the_port_of_the_request() {
    let expected = "redirect = \"http://$hostport/b\"";
    for (web, text) in [
        (Web::Nginx, "server { location /a { return 302 http://$http_host/b; } }"),
        (Web::Nginx, "server { location /a { return 302 http://$host:$server_port/b; } }"),
        (Web::Apache, "DocumentRoot /srv\nRewriteEngine on\nRewriteRule ^/a$ http://%{HTTP_HOST}/b [R,QSD]"),
        (
            Web::Lighttpd,
            "server.document-root = \"/srv\"\nurl.redirect = ( \"^/a$\" => \"http://${url.authority}/b\" )",
        ),
        (Web::Caddy, ":80 {\n redir /a http://{hostport}/b\n}"),
    ] {
        check(web, &[(text, &[expected])]);
    }
    let without = "redirect = \"http://$host/b\"";
    check(Web::Nginx, &[("server { location /a { return 302 http://$host/b; } }", &[without])]);
    check(Web::Caddy, &[(":80 {\n redir /a http://{host}/b\n}", &[without])]);
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
                 proxy_set_header X-Client $remote_addr; proxy_hide_header X-Own; } }",
                &[
                    "proxy_headers = { X-Client = false }",
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
            "{\n servers {\n trusted_proxies static 10.0.0.1\n }\n}\n:80 {\n root * /srv\n reverse_proxy a:1 {\n header_up X-Client {remote_host}\n header_up X-Real-IP {remote_host}\n }\n}\n",
            &["trusted_proxies = [\"10.0.0.1\"]", "proxy_headers = { X-Client = false }"],
        )],
    );
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
            ("server { root /srv; location /a/ { alias /b/;\nlocation /a/c/ { expires 1d; } } }", 2, "alias"),
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
fn scripts_with_settings_of_their_own_stay_scripts() {
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
    check(Web::Lighttpd, &[(&[lighttpd, unset].concat(), &["path = \"/uploads/**/*.php\"", "return = 403"])]);
    let below = "proxy.server = (\"/\" => ((\"host\" => \"192.0.2.1\")))\n$HTTP[\"url\"] =^ \"/files/\" { proxy.server = () }\n";
    refuse(Web::Lighttpd, &[(&[lighttpd, below].concat(), 7, "/files/ has files below /,")]);
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
        ("if ($args !~ ^id=) { return 403; }", "query = [\"!(?-i)id=*\"]"),
        (
            "if ($arg_key != Abc) { return 403; }",
            "query = [\"!(?-i)key=Abc\", \"!(?-i)*&key=Abc\", \"!(?-i)key=Abc&*\", \"!(?-i)*&key=Abc&*\"]",
        ),
    ] {
        check(
            Web::Nginx,
            &[(&format!("server {{ root /srv; {condition} }}"), &[expected, "then = \"deny\""])],
        );
    }
    for condition in [
        "if ($args ~ [0-9]) { return 403; }",
        "if ($arg_token = \"\") { return 403; }",
        "if ($arg_x = 1) { return 301 $arg_y; }",
        "if ($arg_x = 1) { rewrite ^/a/(.*)$ /b/$1 permanent; }",
        "if ($arg_x = 1) { rewrite ^ /b last; }",
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
        ("!= \"key=Abc\"", all, &["query = [\"!(?-i)key=Abc\"]", "then = \"deny\""]),
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
    check(
        Web::Caddy,
        &[(
            &caddy("@x not query key=Abc"),
            &[
                "query = [\"!(?-i)key=Abc\", \"!(?-i)*&key=Abc\", \"!(?-i)key=Abc&*\", \"!(?-i)*&key=Abc&*\"]",
                "then = \"deny\"",
            ],
        )],
    );
    for matcher in ["@x query debug", "@x query a={b}"] {
        refuse(Web::Caddy, &[(&caddy(matcher), 4, "its matcher cannot be converted")]);
    }
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

#[test]
fn converted_exceptions_are_no_wider_than_the_original() {
    // What is excepted has the case of its letters, what is denied may be more. A rule has only whole methods.
    let lighttpd = |condition: &str| {
        format!("server.document-root = \"/srv\"\n$HTTP[{condition} {{\nurl.access-deny = ( \"\" )\n}}\n")
    };
    check(
        Web::Lighttpd,
        &[
            (&lighttpd("\"request-method\"] =~ \"^(TRACE|TRACK)$\""), &["method = [\"TRACE\", \"TRACK\"]"]),
            (&lighttpd("\"useragent\"] == \"Bad\""), &["user_agent = [\"Bad\"]"]),
            (&lighttpd("\"useragent\"] != \"\""), &["user_agent = [\"!\"]"]),
            (&lighttpd("\"useragent\"] != \"Own\""), &["user_agent = [\"!(?-i)Own\"]"]),
        ],
    );
    refuse(Web::Lighttpd, &[(&lighttpd("\"request-method\"] =~ \"^(P.*)$\""), 2, "")]);
    let caddy = |matcher: &str| {
        format!(":80 {{\nroot * /srv\n@m {{\n{matcher}\n}}\nrespond @m 403\nfile_server\n}}\n")
    };
    check(Web::Caddy, &[(&caddy("not header X-Key 12"), &["field = { X-Key = \"!12\" }"])]);
    check(Web::Caddy, &[(&caddy("header X-Key Abc"), &["field = { X-Key = \"Abc\" }"])]);
    check(Web::Caddy, &[(&caddy("not header X-Key Abc"), &["field = { X-Key = \"!(?-i)Abc\" }"])]);
    let apache = |condition: &str| {
        format!(
            "Listen 80\nDocumentRoot /srv\nRewriteEngine on\nRewriteCond {condition}\nRewriteRule ^ - [F]\n"
        )
    };
    check(Web::Apache, &[(&apache("%{HTTP:X-Key} !=abc [NC]"), &["field = { X-Key = \"!abc\" }"])]);
    check(Web::Apache, &[(&apache("%{HTTP:X-Key} !=Abc"), &["field = { X-Key = \"!(?-i)Abc\" }"])]);
    check(
        Web::Apache,
        &[(&apache("%{HTTP_COOKIE} !key=Abc"), &["field = { Cookie = \"!(?-i)*key=Abc*\" }"])],
    );
    refuse(Web::Apache, &[(&apache("%{REQUEST_METHOD} ^P"), 5, "rewriterule")]);
}

/// The pattern of an expression for `/a` alone is for the folder `/a/`, too, and precedes the prefix that denies it.
#[test]
fn what_denies_a_folder_precedes_the_patterns_of_its_name() {
    for (web, text) in [
        (
            Web::Nginx,
            "http { server { listen 80; root /srv; location ~ ^/[a-z]+$ { proxy_pass http://10.0.0.1; }\n\
             location /in/ { return 403; } } }",
        ),
        (
            Web::Lighttpd,
            "server.document-root = \"/srv\"\n$HTTP[\"url\"] =~ \"^/[a-z]+$\" {\n\
             proxy.server = ( \"\" => (( \"host\" => \"10.0.0.1\" )) )\n}\n$HTTP[\"url\"] =^ \"/in/\" { url.access-deny = ( \"\" ) }\n",
        ),
        (
            Web::Caddy,
            "http://a {\nroot * /srv\n@a path_regexp ^/[a-z]+$\nreverse_proxy @a 10.0.0.1:80\nrespond /in/* 403\nfile_server\n}\n",
        ),
    ] {
        check(web, &[(text, &["path = \"/[a-z]+\"", "path = \"/in/.\"", "return = 403"])]);
    }
}

/// A rule that excepts `/in` excepts `/in/`, too.
#[test]
fn what_is_excepted_from_a_denial_is_no_folder() {
    let lighttpd = |expression: &str| {
        format!(
            "server.document-root = \"/srv\"\n$HTTP[\"url\"] !~ \"{expression}\" {{ url.access-deny = ( \"\" ) }}\n"
        )
    };
    let caddy = |paths: &str| {
        format!("http://a {{\nroot * /srv\n@m not path {paths}\nrespond @m 403\nfile_server\n}}\n")
    };
    for (web, text, folders) in [
        (
            Web::Lighttpd,
            lighttpd("^/(in|on)$"),
            &["path = [\"!/in\", \"!/on\"]", "path = [\"/in/.\", \"/on/.\"]"][..],
        ),
        (Web::Caddy, caddy("/in /x/*"), &["path = [\"/in/.\"]"]),
    ] {
        check(web, &[(&text, folders)]);
    }
    for (web, text) in [(Web::Lighttpd, lighttpd("^/in(/|$)")), (Web::Caddy, caddy("/in /in/ /in/*"))] {
        lacks(web, &[(&text, &["path = [\"/in/.\"]"])]);
    }
}

/// No pattern says the folders of a name with wildcards alone, so that no rule can deny them.
#[test]
fn what_is_excepted_by_a_pattern_is_no_folder() {
    let apache = |rule: &str| format!("<VirtualHost *:80>\nDocumentRoot /srv\n{rule}\n</VirtualHost>\n");
    let rewrite = |expression: &str| {
        apache(&format!("RewriteEngine On\nRewriteCond %{{REQUEST_URI}} !{expression}\nRewriteRule ^ - [F]"))
    };
    let lighttpd = |expression: &str| {
        format!(
            "server.document-root = \"/srv\"\n$HTTP[\"url\"] !~ \"{expression}\" {{ url.access-deny = ( \"\" ) }}\n"
        )
    };
    refuse(Web::Apache, &[(&rewrite("^/[a-z]+$"), 5, "/[a-z]+")]);
    refuse(Web::Lighttpd, &[(&lighttpd("^/[a-z]+$"), 2, "/[a-z]+")]);
    for (web, text) in [
        (Web::Apache, rewrite("^/[a-z]+\\.css$")),
        (Web::Apache, rewrite("^/[a-z]+(/|$)")),
        (Web::Lighttpd, lighttpd("^/v/")),
    ] {
        check(web, &[(&text, &["then = \"deny\""])]);
    }
}

/// A pattern with wildcards is for a path with a slash at its end and without, so that such a redirect would not end.
#[test]
fn a_redirect_of_a_pattern_never_leads_to_the_same_path_again() {
    for (web, text) in [
        (Web::Nginx, "server { root /srv; rewrite /wp-admin$ $scheme://$host$uri/ permanent; }"),
        (Web::Nginx, "server { root /srv; rewrite ^(/.+)/$ $1 permanent; }"),
        (Web::Nginx, "server { root /srv; rewrite ^/a/([0-9]+)$ /a/$1/ permanent; }"),
        (Web::Apache, "DocumentRoot /srv\nRedirectMatch 301 ^/(.+)/$ /$1"),
        (Web::Apache, "DocumentRoot /srv\nRewriteEngine on\nRewriteRule ^/([a-z]+)/$ /$1 [R=301]"),
        (Web::Lighttpd, "server.document-root = \"/srv\"\nurl.redirect = ( \"^(/[a-z]+)$\" => \"$1/\" )"),
        (
            Web::Caddy,
            ":80 {\n root * /srv\n file_server\n @a path_regexp a ^/([a-z]+)/$\n redir @a /{re.a.1}\n}",
        ),
    ] {
        let conversion = converted(web, "/etc/x/conf", &[("/etc/x/conf", text)]);
        assert!(!conversion.is_refused() && !conversion.text.contains("redirect = "), "{}", conversion.text);
        let warns = |finding: &Finding| finding.what.contains("is not redirected to itself");
        assert!(conversion.findings.iter().any(warns), "{text}: {:?}", conversion.findings);
    }
    // Another path, or a single one, is one to redirect to.
    check(
        Web::Nginx,
        &[
            (
                "server { root /srv; rewrite ^/([a-z]+)-([a-z]+)$ /$2-$1 permanent; }",
                &["redirect = \"/$2-$1$query\""],
            ),
            ("server { root /srv; rewrite ^/docs$ /docs/ permanent; }", &["redirect = \"/docs/$query\""]),
        ],
    );
}

/// The bits of an address that are not of its network count for no server.
#[test]
fn a_network_may_be_written_with_the_address_of_a_machine() {
    let nginx = "server { root /srv; allow 192.168.1.1/24; deny all; } set_real_ip_from 10.0.0.1/8; \
                 real_ip_header X-Forwarded-For;";
    check(Web::Nginx, &[(nginx, &["trusted_proxies = [\"10.0.0.0/8\"]", "address = \"192.168.1.0/24\""])]);
    let lighttpd = "server.document-root = \"/srv\"\n\
                    $HTTP[\"remoteip\"] != \"192.168.1.1/24\" { url.access-deny = ( \"\" ) }";
    check(Web::Lighttpd, &[(lighttpd, &["address = [\"!192.168.1.0/24\"]"])]);
    let caddy = ":80 {\n root * /srv\n file_server\n @a not remote_ip 192.168.1.1/24\n respond @a 403\n}";
    check(Web::Caddy, &[(caddy, &["address = [\"!192.168.1.0/24\"]"])]);
}
