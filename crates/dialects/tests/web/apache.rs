//! What configurations of Apache become.

use std::path::Path;

use dialects::{Severity, Web};

use super::{Files, check, converted, lacks, refuse};

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
        (
            "DocumentRoot /srv\nRewriteEngine On\nRewriteRule ^/$ /a [R]",
            &["path = \"/.\"", "redirect = \"/a$query\""],
        ),
        (
            "DocumentRoot /srv\nRewriteEngine On\nRewriteRule ^/?$ /a [R]",
            &["path = \"/.\"", "redirect = \"/a$query\""],
        ),
        ("DocumentRoot /srv\nRewriteEngine On\nRewriteRule ^/?$ - [F]", &["path = \"/.\"", "return = 403"]),
        (
            "DocumentRoot /srv\n<Directory /srv>\nRewriteEngine On\nRewriteRule ^$ a/ [L]\n</Directory>",
            &["path = \"/.\"", "rewrite = \"/a/\""],
        ),
        (
            "DocumentRoot /srv\n<Directory /srv/b>\nRewriteEngine On\nRewriteRule ^$ /a [R]\n</Directory>",
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
        "RewriteEngine On\nRewriteRule ^/(.*)$ http://192.0.2.1:81/$1 [P]",
        "ServerName a.example\nRewriteEngine On\nRewriteCond %{SERVER_NAME} =a.example\nRewriteRule ^ https://%{SERVER_NAME}%{REQUEST_URI} [END,NE,R=permanent]",
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
            "DocumentRoot /srv\nAlias /x /other\n<Directory /srv>\nRewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]\n</Directory>",
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
        let text = format!("DocumentRoot /srv\n{text}\nRewriteEngine On\n");
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
        format!("DocumentRoot /srv\n<Directory /srv>\n{rules}\n</Directory>\nRewriteEngine On\n")
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
            (&site("RewriteRule ![\\d,] - [F]"), 3, "cannot be converted"),
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
            "<VirtualHost *:80>\nServerName {names}\nDocumentRoot /srv\nRewriteEngine On\nRewriteCond %{{HTTP_HOST}} {condition} [NC]\n\
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
        let line = if names == both { 7 } else { 6 };
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
            ("DocumentRoot /srv\n<Limit POST>\nRequire ldap-user x\n</Limit>", 2, "limit POST"),
            ("DocumentRoot /srv\n<Limit POST>\nRequire valid-user\n</Limit>", 1, "no file of them"),
            (
                "DocumentRoot /srv\nRewriteCond %{REMOTE_ADDR} !^10\nRewriteRule ^ - [F]\nRewriteEngine On",
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
        "DocumentRoot /srv\n<If \"true\">\nRequire ip 10\n</If>",
        "DocumentRoot /srv\n<If \"-n %{QUERY_STRING}\">\nRewriteEngine on\nRewriteRule x - [F]\n</If>",
        "DocumentRoot /srv\n<Directory \"/srv/a*\">\n<Files x>\nRequire all denied\n</Files>\n</Directory>",
        "DocumentRoot /srv\n<Files *>\nRedirectMatch 403 \\.inc$\n</Files>",
        "DocumentRoot /srv\n<FilesMatch \"^$\">\nRequire all denied\n</FilesMatch>",
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
        "RewriteRule ^/a/([0-9,]+)$ /b.php?c=$1 [L]",
        "RewriteRule ^/a/(.*)$ /b.php?c=$2 [L]",
        "RewriteRule ^/a/(.*)$ /b.php?c=%1 [L]",
        "RewriteCond %{QUERY_STRING} ^c=(.*)$\nRewriteRule ^/a$ /b? [L]",
    ] {
        let line = 3 + rule.lines().count() as u32;
        refuse(Web::Apache, &[(&site(rule), line, "rewriterule ^")]);
    }
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

/// A section may be for a folder that is not there: the server starts all the same.
#[test]
fn folders_that_are_missing_within_an_alias_have_no_alias() {
    let text = "DocumentRoot /srv\nAlias /wiki /lib/wiki\n<Directory /lib/wiki/images>\nOptions Indexes\n</Directory>\n\
                <Directory /lib/wiki/upload>\nRequire all denied\n</Directory>\n";
    let files = [("/etc/x/conf", text), ("/lib/wiki/index.php", ""), ("/lib/wiki/images/a.png", "")];
    let text = converted(Web::Apache, "/etc/x/conf", &files).text;
    assert!(text.contains("path = \"/wiki/images/\"\nalias = \"/lib/wiki/images\""), "{text}");
    assert!(
        text.contains("line 6: warning: there is no folder /lib/wiki/upload, so that /wiki/upload/ responds"),
        "{text}"
    );
    assert!(
        text.contains("path = \"/wiki/upload/\"\nreturn = 404\n\n[[host.route.rule]]\nthen = \"deny\""),
        "{text}"
    );
}

/// Expressions of folders find names of files, wherever an alias leads to them.
#[test]
fn expressions_of_folders_are_for_aliases_too() {
    let section = |expression: &str| {
        format!(
            "DocumentRoot /srv/www\nAlias /app /usr/share/app/web\nScriptAlias /app/cgi-bin /usr/lib/cgi-bin/app\n\
             <Directory /usr/share/app/web/open>\nRequire all granted\n</Directory>\n\
             <DirectoryMatch \"{expression}\">\nRequire ip 10.0.0.0/8\n</DirectoryMatch>\n"
        )
    };
    let only = "[[host.route.rule]]\naddress = [\"10.0.0.0/8\"]\nthen = \"allow\"\n\n[[host.route.rule]]\nthen = \"deny\"\n";
    for (expression, closed) in [
        ("(/usr/share/app/web|/usr/lib/cgi-bin/app)", ["/app/", "/app/cgi-bin/", "/app/open/"].as_slice()),
        ("^/usr/share/app/(web|other)/", &["/app/", "/app/open/"]),
        ("^/usr/share/app/web/private/", &["/app/private/"]),
        ("share/app/web/pri", &["/app/pri**"]),
        ("^/srv/[^/]+/private/", &["/private/"]),
        ("/\\.git", &["/**/.git**"]),
    ] {
        let text = section(expression);
        let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        for path in closed {
            let route = conversion
                .text
                .split("[[host.route]]\n")
                .find(|route| route.starts_with(&format!("path = \"{path}\"")));
            let route = route.unwrap_or_else(|| panic!("{expression}: no {path}: {}", conversion.text));
            assert!(route.trim_end().ends_with(only.trim_end()), "{expression}: {path}: {}", conversion.text);
        }
    }
    let tilde = section("/x").replace("DirectoryMatch \"/x\"", "Directory ~ \"^/usr/share/app/\"");
    let tilde = tilde.replace("DirectoryMatch", "Directory");
    let closed = ["path = \"/app/\"", "address = [\"10.0.0.0/8\"]", "then = \"allow\"", "then = \"deny\""];
    check(Web::Apache, &[(&tilde, &closed)]);
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
        ("%{REQUEST_URI} =~ m#[0-9,]#", "Require all denied"),
        ("-f %{REQUEST_FILENAME}", "Require all denied"),
        ("-R '10.0.0.0/8' && %{HTTPS} == 'on' || -R '192.0.2.0/24'", "Require all denied"),
        ("-R 'example.org'", "Require all denied"),
        ("%{REQUEST_METHOD} =~ /^P/", "Require all denied"),
        ("-R '10.0.0.0/8'", "Require all granted"),
        ("-R '10.0.0.0/8'", "Require all denied\nHeader set X-A b"),
        ("-R '10.0.0.0/8'", "Require valid-user"),
        ("-R '10.0.0.0/8'", "SetHandler none"),
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
fn what_apache_rejects_stays_closed_where_patterns_find_more() {
    let site = |line: &str| format!("Listen 80\nDocumentRoot /srv\nRewriteEngine on\n{line}\n");
    for (line, path, status) in [
        ("RedirectMatch 404 ^/secret[0-9,]+", "/secret?**", 404),
        ("RewriteRule ^/secret[0-9,]+ - [F]", "/secret?**", 403),
        ("RewriteRule \\.backup[\\d,]*$ - [F,NC]", "(?i)*.backup*", 403),
        // In more ways to write them than there are patterns.
        ("RewriteRule \\.configuration$ - [F,NC]", "(?i)*.configuration", 403),
    ] {
        let (path, status) = (format!("path = \"{path}\""), format!("return = {status}"));
        check(Web::Apache, &[(&site(line), &[&path, &status])]);
    }
    let open = "would be open";
    refuse(
        Web::Apache,
        &[
            (&site("RedirectMatch 404 ^/[a-z,]$"), 4, open),
            (&site("RewriteRule ^/[a-z,]$ - [F]"), 4, open),
            (&site("RewriteRule ^/secret(?!/x)[0-9,] - [F]"), 4, open),
        ],
    );
}

#[test]
fn the_source_of_scripts_is_never_sent_where_nothing_runs_them() {
    let rules = "RewriteEngine On\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
                 RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n";
    let denied = "path = [\"*.php\", \"*.phtml\", \"*.phar\"]\nthen = \"deny\"\n";
    let of = |conf: &str, files: &[(&str, &str)]| {
        let all = [&[("/srv/.htaccess", conf)], files].concat();
        converted(Web::Apache, "/srv/.htaccess", &all)
    };
    // A front controller, an index file, and files of the folder.
    for (conf, files) in [
        (rules, &[][..]),
        ("DirectoryIndex index.php\n", &[]),
        ("Options -Indexes\n", &[("/srv/a.php", "<?php")]),
    ] {
        let found = of(conf, files);
        assert!(found.text.contains(denied), "{}", found.text);
        assert!(
            found.findings.iter().any(|one| one.what.contains("runs scripts of PHP")),
            "{:?}",
            found.findings
        );
    }
    let all = "RewriteEngine On\nRewriteRule ^(.*)$ /index.php [L]\n";
    let found = of(all, &[]);
    assert!(
        found.is_refused() || found.text.contains("path = [\"*.php\", \"*.phtml\", \"*.phar\""),
        "{}",
        found.text
    );
    // What grants stands behind it.
    let found = of(rules, &[]).text;
    assert!(found.find(denied) < found.find("then = \"allow\""), "{found}");
    assert!(!of("Options -Indexes\n", &[("/srv/a.html", "")]).text.contains(denied));
    let site = |rest: &str| format!("Listen 80\nDocumentRoot /srv\nDirectoryIndex index.php\n{rest}\n");
    let run =
        "<FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:/run/php.sock|fcgi://localhost\"\n</FilesMatch>";
    for rest in [run, "ProxyPass / http://127.0.0.1:81/"] {
        let text = site(rest);
        let found = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &text)]).text;
        assert!(!found.contains("\"*.phar\""), "{found}");
    }
    // An application has its paths.
    let except = "path = [\"*.php\", \"*.phtml\", \"*.phar\", \"!/app/\"]";
    check(Web::Apache, &[(&site("ProxyPass /app/ http://127.0.0.1:81/"), &[except])]);
}

#[test]
fn sections_of_apache_that_set_fields_are_for_names_or_left_out() {
    let login = "<If \"%{REQUEST_URI} =~ m#/login$#\">\nHeader always set X-A in\n</If>\n";
    let other = "<Else>\nHeader always set X-A out\n</Else>\n";
    let query = "<FilesMatch \"\\.css$\">\n<If \"%{QUERY_STRING} =~ /(^|&)v=/\">\nHeader set Cache-Control a\n</If>\n\
                 <Else>\nHeader set Cache-Control max-age=9\n</Else>\n</FilesMatch>\n";
    let of = |text: &str| converted(Web::Apache, "/srv/.htaccess", &[("/srv/.htaccess", text)]);
    let found = of(&format!("{login}{other}{query}"));
    assert!(!found.is_refused(), "{:?}", found.findings);
    for part in [
        "headers = { X-A = \"out\" }\n",
        "path = \"/**/login\"\nheaders = { X-A = \"in\" }\n",
        "path = \"*.css\"\n",
    ] {
        assert!(found.text.contains(part), "{part}\n{}", found.text);
    }
    assert!(
        found.text.contains("max-age=9") && !found.text.contains("Cache-Control = \"a\""),
        "{}",
        found.text
    );
    assert!(
        found.findings.iter().any(|one| one.what.contains("do not know the query")),
        "{:?}",
        found.findings
    );
    for text in [
        login.replace("/login$", "/login"),
        login.replace("/login$", "/log.n$"),
        format!("{}{other}", login.replace("REQUEST_URI", "HTTP_X")),
        login.replace("Header always set X-A in", "Require all denied\nHeader set X-A in"),
    ] {
        assert!(of(&text).is_refused(), "{text}");
    }
}

#[test]
fn redirects_by_the_end_of_a_folder_cover_the_files_in_it() {
    let below = &["path = \"/**/*.git/**\"", "return = 404"][..];
    check(
        Web::Apache,
        &[
            ("Listen 80\nDocumentRoot /srv\nRedirectMatch 404 \"\\.(svn|git)(/|$)\"\n", below),
            ("Listen 80\nDocumentRoot /srv\nRedirectMatch 404 \"\\.git($|/)\"\n", below),
        ],
    );
}

#[test]
fn a_folder_within_an_alias_of_apache_has_its_files() {
    check(
        Web::Apache,
        &[
            (
                "Listen 80\nDocumentRoot /srv\nAlias /pma /usr/share/pma\n<Directory /usr/share/pma/setup>\nAuthType Basic\n\
                 AuthName x\nAuthUserFile /u\nRequire valid-user\n</Directory>\n",
                &[
                    "alias = \"/usr/share/pma\"",
                    "path = \"/pma/setup/\"",
                    "alias = \"/usr/share/pma/setup\"",
                    "auth = \"basic\"",
                ],
            ),
            (
                "Listen 80\nDocumentRoot /srv\nScriptAlias /cgi-bin/ /usr/lib/cgi-bin/\n<Location /cgi-bin/a>\nRequire ip 192.0.2.1\n\
                 </Location>\n",
                &["path = \"/cgi-bin/a/\"", "alias = \"/usr/lib/cgi-bin/a\"", "cgi = true"],
            ),
        ],
    );
}

/// What runs the files of PHP.
const PHP: &str =
    "<FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:/run/php.sock|fcgi://localhost\"\n</FilesMatch>\n";

#[test]
fn rules_of_apache_precede_what_runs_files() {
    let site = |rule: &str| format!("Listen 80\nDocumentRoot /srv\nRewriteEngine On\n{rule}\n{PHP}");
    check(
        Web::Apache,
        &[
            (
                &site("RewriteRule ^/a/.*\\.php$ /b/ [R=301,L]"),
                &["path = \"/a/**.php\"", "redirect = \"/b/$query\"", "path = \"*.php\""],
            ),
            (
                &site("RewriteRule ^/in.ex$ /a.php"),
                &["path = \"/in?ex\"", "rewrite = \"/a.php\"", "path = \"*.php\""],
            ),
            (
                &site("RewriteRule ^/m/(.*)$ /a.php?m=$1 [QSA]"),
                &[
                    "path = \"/m/**.php\"",
                    "rewrite = \"/a.php?m=${1}.php\"",
                    "path = \"*.php\"",
                    "path = \"/m/\"",
                    "rewrite = \"/a.php?m=${rest}\"",
                ],
            ),
            // A pattern without a program has what the prefix has.
            (
                &site("RewriteRule ^/old/(.*)$ /new/$1 [R=301,L]"),
                &["path = \"/old/**/*.php\"", "path = \"*.php\"", "path = \"/old/\""],
            ),
        ],
    );
}

#[test]
fn later_sections_of_the_same_files_go_over_earlier_ones() {
    check(
        Web::Apache,
        &[(
            "Listen 80\nDocumentRoot /srv\n<FilesMatch \"\\.js$\">\nHeader set X-A 1\nHeader set X-B 1\n</FilesMatch>\n\
             <FilesMatch \"\\.(js|css)(\\?v=.*)?$\">\nHeader set X-B 2\nHeader set X-C 3\n</FilesMatch>\n",
            &["path = \"*.js\"", "headers = { X-B = \"2\", X-C = \"3\", X-A = \"1\" }", "path = \"*.css\""],
        )],
    );
}

#[test]
fn what_applications_ship_for_apache_is_converted() {
    let site = |text: &str| {
        format!("Listen 80\nDocumentRoot /srv\n<Directory /srv>\nRewriteEngine On\n{text}\n</Directory>\n")
    };
    check(
        Web::Apache,
        &[
            // WordPress
            (
                &site(
                    "RewriteRule !^wp-includes/ - [S=2]\nRewriteRule ^wp-includes/[^/]+\\.php$ - [F,L]\nRewriteRule ^wp-includes/compat/ - [F,L]",
                ),
                &["path = \"/wp-includes/?*.php\"", "return = 403"],
            ),
            // Drupal
            (
                &site(
                    "RewriteCond %{HTTP:Accept-encoding} gzip\nRewriteCond %{REQUEST_FILENAME}\\.gz -s\n\
                     RewriteRule ^(.*css_[a-zA-Z0-9-_]+)\\.css$ $1\\.css\\.gz [QSA]\n\
                     RewriteRule \\.css\\.gz$ - [T=text/css,E=no-gzip:1,E=no-brotli:1]\n\
                     <FilesMatch \"(\\.js\\.gz|\\.css\\.gz)$\">\nHeader set Content-Encoding gzip\nHeader append Vary Accept-Encoding\n</FilesMatch>",
                ),
                &["precompressed = [\"gzip\"]"],
            ),
            (
                &format!(
                    "{}<Directory /srv/files>\nSetHandler Drupal_Security_Do_Not_Remove_See_SA_2006_006\n</Directory>\n{PHP}",
                    site("")
                ),
                &["path = \"/files/**/*.php\"", "return = 403"],
            ),
            // Magento
            (
                &site(
                    "RewriteCond %{REQUEST_URI} !^/pub/(media|js)/\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-l\n\
                     RewriteRule .* index.php [L]",
                ),
                &[
                    "fallback = \"/index.php\"",
                    "path = \"/pub/media/**\"",
                    "fallback = false",
                    "path = \"/pub/js/**\"",
                ],
            ),
            // Joomla
            (
                &site(
                    "RewriteCond %{QUERY_STRING} GLOBALS(=|\\[|\\%[0-9A-Z]{0,2}) [OR]\nRewriteCond %{QUERY_STRING} base64_encode[^(]*\\([^)]*\\)\nRewriteRule .* index.php [F]",
                ),
                &[
                    "query = [\"*GLOBALS%*\", \"*GLOBALS=*\", \"*GLOBALS[*\"]",
                    "then = \"deny\"",
                    "query = [\"*base64_encode*(*)*\"]",
                ],
            ),
            // HTML5 Boilerplate
            (
                &site(
                    "SetEnvIf Origin \":\" IS_CORS\nHeader set Access-Control-Allow-Origin \"*\" env=IS_CORS\n\
                       Header always set X-Frame-Options DENY \"expr=%{CONTENT_TYPE} =~ m#text/html#i\"",
                ),
                &["headers = { Access-Control-Allow-Origin = \"*\", X-Frame-Options = \"DENY\" }"],
            ),
            (
                &site(
                    "RewriteCond %{REQUEST_URI} \"!(^|/)\\.well-known/([^./]+./?)+$\" [NC]\nRewriteCond %{SCRIPT_FILENAME} -d [OR]\n\
                       RewriteCond %{SCRIPT_FILENAME} -f\nRewriteRule \"(^|/)\\.\" - [F]",
                ),
                &["path = [\"!/.well-known/\", \"/.**\"]", "then = \"deny\""],
            ),
            (&site("AcceptPathInfo On"), &["root = \"/srv\""]),
        ],
    );
    lacks(Web::Apache, &[(&site("RewriteRule \\.css\\.gz$ - [T=text/css]"), &["rewrite = \"/-\""])]);
    // Which requests have the variable is not known.
    refuse(
        Web::Apache,
        &[
            (
                &site("SetEnvIf Origin a.example OK\nHeader set Access-Control-Allow-Origin \"*\" env=OK"),
                5,
                "setenvif",
            ),
            (&site("Header set Access-Control-Allow-Origin \"*\" env=OK"), 5, "header set"),
            (&site("RewriteRule !^wp-includes/ - [S=1]\nRewriteRule ^other/ - [F]"), 5, "rewriterule"),
        ],
    );
}

#[test]
fn some_methods_of_apache_need_a_user() {
    let site = |section: &str| {
        format!(
            "Listen 80\nDocumentRoot /srv\n<Location /a>\nAuthType Basic\nAuthName x\nAuthUserFile /u\n{section}\n</Location>\n"
        )
    };
    let except = "<LimitExcept GET OPTIONS>\nRequire valid-user\n</LimitExcept>";
    let of = "<Limit POST>\nRequire user ann\n</Limit>";
    check(
        Web::Apache,
        &[
            (
                &site(except),
                &[
                    "path = \"/a/\"",
                    "satisfy = \"rules\"",
                    "method = [\"GET\", \"OPTIONS\", \"HEAD\"]",
                    "then = \"allow\"",
                    "then = \"authenticate\"",
                ],
            ),
            (
                "Listen 80\nDocumentRoot /srv\n<Directory />\nRequire all denied\n</Directory>\n<Location /a>\n<LimitExcept GET>\nAuthType Basic\n\
                 AuthName x\nAuthUserFile /u\nRequire valid-user\n</LimitExcept>\n</Location>\n",
                &[
                    "path = \"/a/\"",
                    "satisfy = \"rules\"",
                    "user_files = \"/u\"",
                    "then = \"allow\"",
                    "then = \"authenticate\"",
                ],
            ),
            (
                &site(of),
                &[
                    "require = [\"user:ann\"]",
                    "method = [\"POST\"]",
                    "then = \"authenticate\"",
                    "then = \"allow\"",
                ],
            ),
        ],
    );
    refuse(
        Web::Apache,
        &[
            (
                &site("<LimitExcept GET>\nRequire valid-user\nRequire ip 192.0.2.1\n</LimitExcept>"),
                7,
                "limitexcept",
            ),
            (&site(&format!("{except}\nRequire ip 192.0.2.1")), 7, "cannot be combined"),
            (&site(&format!("{except}\n{of}")), 10, "limit"),
        ],
    );
}

#[test]
fn an_upstream_of_apache_gets_encoded_slashes() {
    let site =
        |slashes: &str, pass: &str| format!("Listen 80\nAllowEncodedSlashes {slashes}\nProxyPass {pass}\n");
    check(
        Web::Apache,
        &[
            (
                &site("NoDecode", "/ http://192.0.2.1:81/ nocanon"),
                &["path = \"/\"", "proxy = \"http://http\"", "proxy_path = \"raw\""],
            ),
            (
                &site("On", "/ci http://192.0.2.1:81/ci"),
                &[
                    "path = \"/ci/\"",
                    "proxy = \"http://http\"",
                    "proxy_path = \"raw\"",
                    "path = \"/ci\"",
                    "proxy_path = \"raw\"",
                ],
            ),
        ],
    );
    for (slashes, pass, says) in
        [("On", "/a/ http://192.0.2.1:81/b/", true), ("Off", "/ http://192.0.2.1:81/", false)]
    {
        let text = site(slashes, pass);
        let found = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert!(!found.text.contains("proxy_path = "), "{}", found.text);
        let is_said = found.findings.iter().any(|one| one.what.contains("encoded slash is rejected"));
        assert_eq!(is_said, says, "{text}");
    }
}

#[test]
fn warns_that_expires_applies_to_files_alone() {
    let text = |handler: &str| {
        format!(
            "Listen 80\nDocumentRoot /srv\n<Directory />\nRequire all granted\n</Directory>\nExpiresActive On\n\
             ExpiresDefault \"access plus 1 hour\"\n{handler}"
        )
    };
    let said = |text: &str| {
        let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", text)]);
        let mut all = conversion.findings.iter().filter(|finding| finding.line == Some(7));
        all.any(|finding| finding.what.starts_with("the time of Expires is for files alone"))
    };
    assert!(!said(&text("")));
    assert!(said(&text("ProxyPass /a http://192.0.2.1/a\n")));
    assert!(said(&text(
        "<FilesMatch \\.php$>\nSetHandler \"proxy:unix:/p.sock|fcgi://localhost\"\n</FilesMatch>\n"
    )));
}

#[test]
fn a_rule_of_apache_that_finds_no_file_says_so() {
    let rules = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ /index.html [L]";
    let whole =
        "RewriteEngine On\nRewriteCond %{DOCUMENT_ROOT}%{REQUEST_URI} !-f\nRewriteRule ^ /index.html [L]";
    for (text, expected) in [
        (format!("DocumentRoot /srv\n{rules}"), Some(3)),
        (format!("DocumentRoot /srv\n{whole}"), None),
        (format!("DocumentRoot /srv\n<Directory /srv>\n{rules}\n</Directory>"), None),
    ] {
        let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        let said = conversion.findings.iter().find(|finding| finding.what.contains("outside of <Directory>"));
        assert_eq!(said.and_then(|finding| finding.line), expected, "{text}\n{}", conversion.text);
    }
}

#[test]
fn rules_of_a_server_lead_what_longer_sections_and_aliases_are_for() {
    let text = |rule: &str, more: &str| {
        format!("Listen 80\nDocumentRoot /srv\nRewriteEngine On\nRewriteRule {rule} [L]\n{more}\n")
    };
    let section = "<Location /docs/a/>\nHeader set X-A 1\n</Location>";
    let alias = "Alias /docs/a /opt/a";
    for (rule, more, lead) in [
        ("^/docs/ /x.txt", section, "rewrite = \"/x.txt\""),
        ("^/docs/(.*)$ /new/$1", section, "rewrite = \"/new/a/${rest}\""),
        ("^/docs/(.*)$ /new/$1", alias, "rewrite = \"/new/a/${rest}\""),
        ("^/docs/(.*)$ http://b.example/$1", alias, "redirect = \"http://b.example/a/${rest}$query\""),
    ] {
        let text = text(rule, more);
        check(Web::Apache, &[(&text, &["path = \"/docs/a/\"", lead, "path = \"/docs/\""])]);
        lacks(Web::Apache, &[(&text, &["alias = \"/opt/a\""])]);
    }
    let text = text("^/docs/ http://b.example/", "<Location /docs/a>\nRequire all denied\n</Location>");
    let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &text)]);
    let warned = |finding: &dialects::Finding| finding.line == Some(4) && finding.what.contains("/docs/");
    assert!(conversion.findings.iter().any(warned), "{:#?}", conversion.findings);
}

/// Apache adds it to no error without `always`: a cache would keep what is missing as long as what is there.
#[test]
fn cache_control_of_apache_is_for_files_and_not_for_errors() {
    let php = "<FilesMatch \\.php$>\nSetHandler proxy:fcgi://127.0.0.1:9\n</FilesMatch>\n";
    check(
        Web::Apache,
        &[
            (
                "DocumentRoot /srv\n<FilesMatch \"\\.js$\">\nHeader set Cache-Control public\nHeader set X-A b\n</FilesMatch>",
                &["path = \"*.js\"", "headers = { X-A = \"b\" }", "cache_control = \"public\""],
            ),
            (
                "DocumentRoot /srv\n<FilesMatch \"\\.js$\">\nHeader always set Cache-Control public\n</FilesMatch>",
                &["path = \"*.js\"", "headers = { Cache-Control = \"public\" }"],
            ),
            (
                &format!("DocumentRoot /srv\n{php}Header set Cache-Control public"),
                &[
                    "cache_control = \"public\"",
                    "path = \"*.php\"",
                    "headers = { Cache-Control = \"public\" }",
                ],
            ),
            // What Expires says about some files would precede it.
            (
                "DocumentRoot /srv\nHeader set Cache-Control public\n<FilesMatch \"\\.js$\">\nExpiresDefault A60\n</FilesMatch>",
                &["headers = { Cache-Control = \"public\" }", "path = \"*.js\""],
            ),
        ],
    );
}

#[test]
fn what_of_apache_counts_for_more_is_said() {
    let folders = "<Directory /srv>\nRequire all granted\nRewriteEngine On\nRewriteRule \\.txt$ - [F]\n</Directory>\n\
                   <Directory /srv/a>\nRewriteEngine Off\n</Directory>";
    for (more, line, part) in [
        (folders, Some(9), "count in it, too"),
        ("Header set X-A 1", Some(3), "error responses, too"),
        (
            "Header set Cache-Control a\n<Files a>\nExpiresDefault A1\n</Files>",
            Some(3),
            "Cache-Control is added to error responses, too",
        ),
        ("Header always set X-A 1", None, "error responses, too"),
    ] {
        let text = format!("Listen 80\nDocumentRoot /srv\n{more}\n");
        let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        let found = conversion.findings.iter().find(|finding| finding.what.contains(part));
        assert_eq!(found.map(|finding| finding.line), line.map(Some), "{text}\n{:#?}", conversion.findings);
    }
}

#[test]
fn a_folder_within_one_with_rules_of_apache_is_denied_where_links_are_not_followed() {
    let text = |options: &str| {
        format!(
            "Listen 80\nDocumentRoot /srv\n<Directory /srv>\nOptions {options}\nRequire all granted\n\
             RewriteEngine On\nRewriteRule ^x$ y\n</Directory>\n\
             <Directory /srv/a>\nRequire all granted\nHeader always set X-A 1\n</Directory>\n"
        )
    };
    let route = "path = \"/a/\"";
    check(Web::Apache, &[(&text("None"), &[route, "headers = { X-A = \"1\" }"])]);
    for (options, opened) in [("None", 0), ("FollowSymLinks", 1)] {
        let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &text(options))]);
        assert_eq!(conversion.text.matches("then = \"allow\"").count(), opened, "{}", conversion.text);
    }
}

#[test]
fn a_rule_of_apache_that_leads_to_the_path_of_another_one_is_named() {
    let text = "Listen 80\nDocumentRoot /srv\nRewriteEngine On\nRewriteRule ^/a\\.txt$ /b.txt [L]\n\
                RewriteRule ^/c/ /a.txt [L]\n";
    let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", text)]);
    let named = |finding: &dialects::Finding| finding.line == Some(5) && finding.what.contains("/a.txt");
    assert!(conversion.findings.iter().any(named), "{:#?}", conversion.findings);
}

#[test]
fn files_of_a_pattern_of_apache_are_led_away_with_their_folder() {
    let text = |section: &str| {
        format!(
            "Listen 80\nDocumentRoot /srv\nRewriteEngine On\nRewriteRule ^/old/(.*)$ /new/$1 [L]\n\
             <FilesMatch \"\\.css$\">\n{section}\n</FilesMatch>\n"
        )
    };
    let led = ["path = \"/old/**.css\"", "rewrite = \"/new/${1}.css\"", "path = \"*.css\""];
    for section in ["Header always set X-A 1", "Require ip 192.0.2.1", "Require all denied"] {
        check(Web::Apache, &[(&text(section), &led)]);
    }
}

#[test]
fn a_rule_of_a_folder_of_apache_stays_behind_what_denies_its_files() {
    let text = "Listen 80\nDocumentRoot /srv\nRewriteEngine On\nRewriteRule \\.bak$ - [F]\n\
                <FilesMatch \"^x\">\nRequire ip 192.0.2.1\n</FilesMatch>\n\
                <Directory /srv/near>\nRewriteEngine On\nRewriteRule ^[^/]+$ /missing.html [L]\n</Directory>\n";
    check(Web::Apache, &[(text, &["path = \"*.bak\"", "return = 403", "path = \"/near/x*\""])]);
}

#[test]
fn folders_of_a_pattern_of_apache_are_listed_as_its_section_says() {
    let text = |sections: &str| {
        format!("Listen 80\nDocumentRoot /srv\n<Directory /srv>\nOptions Indexes\n</Directory>\n{sections}\n")
    };
    let section = |name: &str, says: &str| {
        let kind = name.split(' ').next().unwrap_or_default();
        format!("<{name}>\n{says}\n</{kind}>\n")
    };
    let unlisted = ["listing = true", "path = \"/**/a**\"", "listing = false"];
    for name in ["DirectoryMatch \"/a\"", "LocationMatch \"/a\"", "Directory ~ \"/a\""] {
        for says in ["Options -Indexes", "Options None", "Options FollowSymLinks"] {
            check(Web::Apache, &[(&text(&section(name, says)), &unlisted)]);
        }
        lacks(Web::Apache, &[(&text(&section(name, "Options -FollowSymLinks")), &["listing = false"])]);
    }
    // The folder of a request has no name, which only `*` finds.
    check(Web::Apache, &[(&text(&section("Files *", "Options -Indexes")), &["listing = false"])]);
    lacks(Web::Apache, &[(&text(&section("FilesMatch ^a", "Options -Indexes")), &["listing = false"])]);
    // The first pattern counts here.
    let both = section("LocationMatch \"/a\"", "Header always set X-A 1")
        + &section("LocationMatch \"/a/b/c\"", "Options -Indexes");
    let first = ["path = \"/**/a/b/c**\"", "listing = false", "path = \"/**/a**\""];
    check(Web::Apache, &[(&text(&both), &first)]);
}

#[test]
fn options_of_a_pattern_of_apache_list_no_folder_that_is_not_listed_around() {
    let text = "Listen 80\nDocumentRoot /srv\n<LocationMatch \"/a\">\nOptions Indexes\n</LocationMatch>\n";
    let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", text)]);
    let named = |finding: &dialects::Finding| finding.line == Some(3) && finding.what.contains("Indexes");
    assert!(conversion.findings.iter().any(named), "{:#?}", conversion.findings);
}

#[test]
fn redirects_of_apache_name_what_their_expression_finds() {
    let site = |line: &str| format!("DocumentRoot /srv\n{line}\n");
    for (directive, path, to) in [
        ("^/old/(.*)\\.html$ /new/$1", "/old/**.html", "/new/$1$query"),
        ("(.*)\\.gif$ http://b.example$1.jpg", "/**.gif", "http://b.example/$1.jpg$query"),
        ("/(.*)\\.html$ /$1", "/**.html", "/$1$query"),
        ("^(.*)$ https://b.example$1", "/", "https://b.example$path$query"),
        (".* https://b.example/", "/", "https://b.example/$query"),
        ("^/(en|de)/(.*)$ https://$1.example/$2", "/de/", "https://de.example/${rest}$query"),
        ("^/([^/]+)/x/(.*)$ /$2/$1", "/?*/x/**", "/$3/$1$2$query"),
        ("^/a(/.*)?$ /b$1", "/a/", "/b/${rest}$query"),
        ("^/a/?$ /b%20c", "/a", "/b%20c$query"),
        ("(?i)^/old/(.*)$ /new/$1", "(?i)/old/**", "/new/$1$query"),
        // A target with a query of its own has not that of the request.
        ("^/old/(.*)$ /new?p=$1", "/old/", "/new?p=${rest}"),
    ] {
        let expected = [format!("path = \"{path}\""), format!("redirect = \"{to}\"")];
        check(
            Web::Apache,
            &[(&site(&format!("RedirectMatch {directive}")), &expected.each_ref().map(String::as_str))],
        );
    }
    let of_host = "^/([^/]+)/(.*)$ https://$1.example/$2";
    for directive in
        ["^/old/([\\d,]+)$ /new/$1", of_host, "^/old/(.*)$ /new/$2", "^/old/(.*)$ /new/%{HTTP_HOST}"]
    {
        let text = format!("RedirectMatch {directive}");
        refuse(Web::Apache, &[(&site(&text), 2, "cannot be converted")]);
    }
    check(
        Web::Apache,
        &[(&site("RedirectMatch 404 (?i)^/secret"), &["path = \"(?i)/secret**\"", "return = 404"])],
    );
}

#[test]
fn a_rule_of_apache_for_any_case_finds_paths_in_any_case() {
    let site = |rule: &str| format!("DocumentRoot /srv\nRewriteEngine on\nRewriteRule {rule}\n");
    for rule in ["(?i)^/old/(.*)$ /new/$1 [L]", "^(?i)/old/(.*)$ /new/$1", "^/old/(.*)$ /new/$1 [NC,PT]"] {
        check(Web::Apache, &[(&site(rule), &["path = \"(?i)/old/**\"", "rewrite = \"/new/$1\""])]);
    }
    // What is said about it has the rule as it is written.
    refuse(
        Web::Apache,
        &[(&site("(?i)^/old/([\\d,]+)$ /new/$1 [L]"), 3, "(?i)^/old/([\\d,]+)$ /new/$1 [L]")],
    );
}

/// A host of this name and with `www.`, which listens without TLS.
fn plain_host(directives: &str) -> String {
    format!(
        "<VirtualHost *:80>\nServerName a.org\nServerAlias www.a.org\nDocumentRoot /srv\n{directives}\n</VirtualHost>\n"
    )
}

#[test]
fn the_ways_to_https_of_apache_are_converted() {
    let secure = "<VirtualHost *:443>\nServerName www.a.org\nServerAlias a.org\nDocumentRoot /srv\nSSLEngine on\n\
                  SSLCertificateFile /c\nSSLCertificateKeyFile /k\n</VirtualHost>\n";
    let everything =
        "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteRule ^(.*)$ https://www.a.org/$1 [R=301,L]";
    for directives in ["Redirect permanent / https://www.a.org/", everything] {
        let text = plain_host(directives);
        check(
            Web::Apache,
            &[(&text, &["path = \"/\"", "redirect = \"https://www.a.org$path$query\"", "status = 301"])],
        );
        let both = format!("{text}{secure}");
        check(Web::Apache, &[(&both, &["https_redirect = true"])]);
        let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &both)]);
        let warned = |finding: &dialects::Finding| {
            finding.what.contains("a.org without TLS is redirected to https://a.org")
        };
        assert!(conversion.findings.iter().any(warned), "{:#?}", conversion.findings);
    }
    check(
        Web::Apache,
        &[
            (
                &plain_host("Redirect / https://www.a.org/"),
                &["redirect = \"https://www.a.org$path$query\"", "status = 302"],
            ),
            // What a proxy in front says, and another name.
            (
                &plain_host(
                    "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteCond %{HTTP:X-Forwarded-Proto} !https\n\
                     RewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]",
                ),
                &[
                    "tls = false",
                    "field = { X-Forwarded-Proto = \"!(?-i)*https*\" }",
                    "then = \"redirect\"",
                    "to = \"https://$hostport$path$query\"",
                    "status = 301",
                ],
            ),
            (
                &plain_host(
                    "RewriteEngine On\nRewriteCond %{SERVER_PORT} 80\nRewriteRule ^(.*)$ https://b.org/$1 [R,L]",
                ),
                &["tls = false", "then = \"redirect\"", "to = \"https://b.org$path$query\"", "status = 302"],
            ),
            (
                &plain_host("<If \"%{HTTPS} != 'on'\">\nRedirect permanent / https://b.org/\n</If>"),
                &["tls = false", "then = \"redirect\"", "to = \"https://b.org$path$query\"", "status = 301"],
            ),
            // As CodeIgniter writes it.
            (
                &plain_host(
                    "RewriteEngine On\nRewriteCond %{HTTPS} !=on\nRewriteCond %{HTTP_HOST} ^www\\.(.+)$ [NC]\n\
                     RewriteRule ^ http://%1%{REQUEST_URI} [R=301,L]",
                ),
                &["canonical = \"bare\""],
            ),
        ],
    );
    // The server of a folder may have TLS as well.
    let file = "/srv/.htaccess";
    let text = "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]\n";
    let conversion = converted(Web::Apache, file, &[(file, text)]);
    let rule =
        "[[host.rule]]\ntls = false\nthen = \"redirect\"\nto = \"https://$host$path$query\"\nstatus = 301\n";
    assert!(conversion.text.contains(rule), "{}", conversion.text);
    let www = "RewriteEngine On\nRewriteCond %{HTTP_HOST} ^www\\.(.+)$ [NC]\nRewriteRule ^ https://%1%{REQUEST_URI} [R=301,L]\n";
    let conversion = converted(Web::Apache, file, &[(file, www)]);
    assert!(conversion.findings.iter().any(|finding| finding.what_to_do.contains("see canonical")));
}

#[test]
fn what_frameworks_of_apache_say_about_slashes_and_filters_is_no_error() {
    for rules in [
        "RewriteRule ^(.*)/$ /$1 [L,R=301]",
        "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^(.+)/$ $1 [L,R=301]",
    ] {
        let text = format!(
            "Listen 80\nDocumentRoot /srv\n<Directory /srv>\nRewriteEngine On\nRewriteBase /\n{rules}\n</Directory>"
        );
        let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert!(!conversion.is_refused(), "{:#?}", conversion.findings);
        assert!(
            conversion
                .findings
                .iter()
                .any(|finding| finding.what.contains("a slash at its end is not redirected"))
        );
    }
    for filter in
        ["SetOutputFilter BROTLI_COMPRESS;DEFLATE", "AddOutputFilterByType BROTLI_COMPRESS text/html"]
    {
        check(Web::Apache, &[(&format!("DocumentRoot /srv\n{filter}"), &["compress = true"])]);
    }
    let closed = "DocumentRoot /srv\n<FilesMatch \"(?<!a)\\.txt\">\nRequire all denied\n</FilesMatch>";
    refuse(Web::Apache, &[(closed, 2, "so that everything around it is denied")]);
}

#[test]
fn files_of_apache_that_only_have_a_field_open_nothing() {
    let text = "Listen 80\nDocumentRoot /srv\n<Directory /srv>\nRequire all granted\n</Directory>\n\
                <FilesMatch \"\\.js$\">\nHeader always set X-A b\n</FilesMatch>\n<Directory /srv/a>\nRequire ip 192.0.2.1\n</Directory>\n";
    let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", text)]);
    assert_eq!(conversion.findings.len(), 0, "{:#?}", conversion.findings);
}

/// An application keeps what clients may have in a folder within, and its files say so by rewrites.
#[test]
fn a_root_of_apache_may_lead_to_a_folder_within() {
    let main =
        "DocumentRoot /srv/app\n<Directory /srv/app>\nAllowOverride All\nRequire all granted\n</Directory>\n";
    let rewrites = |rules: &str| {
        format!("Options -Indexes\n<IfModule mod_rewrite.c>\nRewriteEngine On\n{rules}\n</IfModule>\n")
    };
    let front = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]\n";
    let conversion = |rules: &str| {
        let files = [
            ("/etc/x/conf", main),
            ("/srv/app/.htaccess", &rewrites(rules)),
            ("/srv/app/public/.htaccess", front),
            ("/srv/app/config/.htaccess", "Unknown on\n"),
        ];
        converted(Web::Apache, "/etc/x/conf", &files)
    };
    for rules in [
        "RewriteRule ^(.*)$ public/$1 [L]",
        "RewriteRule ^$ public/ [L]\nRewriteRule (.*) /public/$1 [L,QSA]",
        "RewriteCond %{REQUEST_URI} !^/public/\nRewriteRule ^(.*)$ /public/$1 [L,NC]",
    ] {
        let conversion = conversion(rules);
        assert!(!conversion.is_refused(), "{}", conversion.text);
        for line in ["root = \"/srv/app/public\"", "fallback = \"/index.php\""] {
            assert!(conversion.text.lines().any(|own| own == line), "{line} is not in\n{}", conversion.text);
        }
        assert!(conversion.findings.iter().any(|finding| finding.what.contains("/public/ is no path of it")));
    }
    // Files around the folder are there, too, or only some paths lead to it.
    for rules in [
        "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^(.*)$ public/$1 [L]",
        "RewriteRule ^(.*)$ public/$1 [R,L]",
        "RewriteRule ^a$ b [L]\nRewriteRule ^(.*)$ public/$1 [L]",
    ] {
        let conversion = conversion(rules);
        assert!(
            conversion.text.lines().all(|line| line != "root = \"/srv/app/public\""),
            "{}",
            conversion.text
        );
    }
}

/// Apache adds up what the sections of a file set, and here the first pattern counts.
#[test]
fn files_that_two_sections_of_apache_set_fields_for_are_reported() {
    let said = |other: &str| {
        let text = format!(
            "DocumentRoot /srv\n<Files *.txt>\nHeader set X-Text yes\n</Files>\n\
             <FilesMatch {other}>\nHeader set X-A yes\n</FilesMatch>\n"
        );
        let conversion = converted(Web::Apache, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        conversion.findings.iter().any(|finding| finding.what.contains("have what one of them sets"))
    };
    assert!(said("^a\\."));
    assert!(!said("\\.css$"));
}
