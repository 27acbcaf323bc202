//! What is said about a path in several places: which of it counts, when what is converted is served.

use super::*;

/// A configuration, and for each path the status and the text. That of a denial is not compared.
type Case<'c> = (String, &'c [(&'c str, u16, &'c str)]);

fn check(name: &str, cases: &[Case]) {
    let mut rows = Rows::new();
    for (text, expected) in cases {
        let server = converted(name, text);
        for (path, status, text_of_response) in *expected {
            let response = server.get(path);
            let found = (response.status, response.text());
            let text_of_response =
                if matches!(*status, 200..300) { (*text_of_response).to_owned() } else { found.1.clone() };
            rows.check(format!("{name} {path} of {text}"), found, (*status, text_of_response));
        }
    }
}

/// Nothing is converted without a message that has each of these parts.
fn refuse(name: &str, cases: &[(&str, &str)]) {
    let home = Folder::new();
    home.file("docs/one.html", "one");
    let mut rows = Rows::new();
    for (text, part) in cases {
        let file = home.file("original", text.replace("HOME", &home.path().display().to_string()));
        let (succeeds, _, said) = convert(&file, name);
        rows.check(format!("{name} {text}"), succeeds, false);
        rows.holds(format!("{name} {text}"), &said, said.contains(part));
    }
}

#[test]
fn sections_of_apache_count_as_in_apache() {
    let apache = |text: &str| format!("Listen 127.0.0.1:0\nDocumentRoot HOME/www\n{text}\n");
    let denied = "Require all denied\n";
    let rules =
        |folder: &str, rules: &str| apache(&format!("<Directory \"{folder}\">\n{rules}\n</Directory>"));
    check(
        "apache",
        &[
            // An alias has the section of its own folder, and not of the one whose name its path has.
            (
                apache(&format!(
                    "Alias /near HOME/docs\n<DirectoryMatch \"^HOME/docs/\">\n{denied}</DirectoryMatch>\n\
                     <DirectoryMatch \"^HOME/www/near/\">\nRequire all granted\n</DirectoryMatch>"
                )),
                &[("/near/one.html", 403, ""), ("/far/x", 200, "far")],
            ),
            // The paths of rules begin at their folder, which is above the root.
            (
                rules("/", "RewriteEngine On\nRewriteRule \"!^near\" - [F]"),
                &[("/near/x", 403, ""), ("/far/x", 403, "")],
            ),
            (
                rules("HOME", "RewriteEngine On\nRewriteRule ^www/near/ - [F]\nRewriteRule ^far/ - [F]"),
                &[("/near/x", 403, ""), ("/far/x", 200, "far")],
            ),
            // Rules have an effect only with RewriteEngine, which may stand in a folder around them.
            (rules("HOME/www", "RewriteRule ^near/x$ /far/x [PT]"), &[("/near/x", 200, "near")]),
            (
                rules("HOME", "RewriteEngine On")
                    + "<Directory HOME/www>\nRewriteRule ^near/x$ /far/x [PT]\n</Directory>\n",
                &[("/near/x", 200, "far")],
            ),
            (
                rules("HOME/www", "RewriteEngine On")
                    + "<Directory HOME/www/near>\nRewriteEngine Off\nRewriteRule ^x$ /far/x\n</Directory>\n",
                &[("/near/x", 200, "near")],
            ),
            // A rule for what is below a folder is not for the folder without its slash.
            (
                apache("RewriteEngine On\nRewriteRule ^/near/ /far/x"),
                &[("/near/x", 200, "far"), ("/near", 301, "")],
            ),
            // And where links are followed: Apache denies all of such a folder.
            (
                rules("HOME/www/near", "Options None\nRewriteEngine On\nRewriteRule ^none$ - [F]"),
                &[("/near/x", 403, ""), ("/far/x", 200, "far")],
            ),
            // A folder whose index file is denied is not listed, but another index file is sent.
            (
                apache(&format!("Options Indexes\n<Files index.html>\n{denied}</Files>")),
                &[("/near/", 403, ""), ("/near/x", 200, "near")],
            ),
            (
                apache(&format!("DirectoryIndex index.html x\n<Files index.html>\n{denied}</Files>")),
                &[("/near/", 200, "near"), ("/", 403, "")],
            ),
            // A section of a pattern says whether its folders are listed.
            (
                apache("Options Indexes\n<DirectoryMatch \"/near\">\nOptions -Indexes\n</DirectoryMatch>"),
                &[("/near/", 403, ""), ("/near/x", 200, "near")],
            ),
            (
                apache(
                    "Options Indexes\n<LocationMatch \"^/ne\">\nHeader always set X-A 1\n</LocationMatch>\n\
                     <LocationMatch \"/near\">\nOptions None\n</LocationMatch>",
                ),
                &[("/near/", 403, ""), ("/near/x", 200, "near")],
            ),
            // A location opens the files below it.
            (
                apache(&format!(
                    "<Files x>\n{denied}</Files>\n<Location /near>\nRequire all granted\n</Location>"
                )),
                &[("/near/x", 200, "near"), ("/far/x", 403, "")],
            ),
            // As PrestaShop hides what is uploaded.
            (
                rules(
                    "HOME/www",
                    "RewriteEngine On\nRewriteRule . - [E=BASE:/]\nRewriteRule ^near/.+$ %{ENV:BASE}missing.html [L]",
                ),
                &[("/near/x", 200, "not here"), ("/far/x", 200, "far")],
            ),
        ],
    );
    let field = "Header set X-A b\n";
    let files = |name: &str, inner: &str| format!("<FilesMatch \"{name}\">\n{inner}</FilesMatch>\n");
    let server = |text: &str| apache(&format!("RewriteEngine On\n{text}"));
    let with_alias = |text: &str| apache(&format!("Alias /al HOME/docs\n{text}"));
    check(
        "apache",
        &[
            // Rules lead files away for which there is a section by their name.
            (
                server(&(files("^x", field) + "RewriteRule ^/near/(.*)$ /far/$1 [L]")),
                &[("/near/x", 200, "far"), ("/near/in/x", 404, ""), ("/far/x", 200, "far")],
            ),
            (
                server(&(files("^x", field) + "RewriteRule ^/near/([^/]+)$ /far/$1 [L]")),
                &[("/near/x", 200, "far"), ("/far/x", 200, "far")],
            ),
            (
                server(&(files("^x", field) + "RewriteRule ^/near/(?!in/) /missing.html [L]")),
                &[("/near/x", 200, "not here"), ("/near/in/x", 404, ""), ("/far/x", 200, "far")],
            ),
            (
                apache(&files("^x$", field))
                    + "<Directory HOME/www/near>\nRewriteEngine On\nRewriteRule ^(.*)$ /missing.html\n</Directory>\n",
                &[("/near/x", 200, "not here"), ("/near/in/x", 200, "not here"), ("/far/x", 200, "far")],
            ),
            // The access of the file comes first for the rules of a folder, and that of the target for those of a server.
            (
                apache(&files("^x", "Require ip 192.0.2.1\n"))
                    + "<Directory HOME/www/near>\nRewriteEngine On\nRewriteRule ^[^/]+$ /missing.html\n</Directory>\n",
                &[("/near/x", 403, ""), ("/near/y", 200, "not here"), ("/far/x", 403, "")],
            ),
            (
                server(
                    &(files("^x", "Require ip 192.0.2.1\n")
                        + "RewriteRule ^/near/([^/]+)$ /missing.html [L]"),
                ),
                &[("/near/x", 200, "not here"), ("/far/x", 403, "")],
            ),
            // A location may be a file of an alias.
            (
                with_alias("<Location /al/one.html>\nHeader set X-A b\n</Location>"),
                &[("/al/one.html", 200, "one"), ("/al/none", 404, "")],
            ),
            (
                with_alias(&format!("<Location /al/one.html>\n{denied}</Location>")),
                &[("/al/one.html", 403, ""), ("/al/one.html/a", 403, ""), ("/al/none", 404, "")],
            ),
            (
                server("Alias /al HOME/docs\nRewriteRule ^/near/(.*)$ /al/$1 [PT]"),
                &[("/near/one.html", 200, "one"), ("/near/x", 404, "")],
            ),
        ],
    );
    let rule = |text: &str| format!("DocumentRoot HOME/www\nRewriteEngine On\n{text}\n");
    refuse(
        "apache",
        &[
            (
                "DocumentRoot HOME/www\nAlias /docs/ HOME/docs\n",
                "end both the path and the folder with a slash",
            ),
            (
                &rule("<Directory />\nRewriteRule \"!^\\w+/a\" - [F]\n</Directory>"),
                "what it denies would be open",
            ),
            (&rule("RewriteRule ^/none$ /b/$1"), "cannot be converted"),
            (
                &rule("Alias /al HOME/docs\nRewriteRule ^/near/(.*)$ /al/$1 [L]"),
                "original:4: without the flag PT",
            ),
            (
                &rule(
                    "RewriteRule ^/near/(.*)$ /far/$1\n<FilesMatch \"(?i)^x\">\nHeader set X-A b\n</FilesMatch>",
                ),
                "original:3: the RewriteRule of /near/ would not lead the files of (?i)x* away",
            ),
            (&rule("RewriteRule ^/upload/[^x].{3}$ /none.html"), "files of its paths would be sent"),
            (
                &rule("RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^/(a|b)/x http://b.example/$1"),
                "cannot be converted",
            ),
        ],
    );
}

#[test]
fn rewrites_and_locations_of_nginx_count_as_in_nginx() {
    let nginx = |text: &str| {
        format!("events {{ }}\nhttp {{ server {{\nlisten 127.0.0.1:0;\nroot HOME/www;\n{text}\n}} }}\n")
    };
    check(
        "nginx",
        &[
            // A server rewrites before it looks for a location.
            (
                nginx(
                    "rewrite ^/near/(.*)$ /far/x last;\nlocation ~ x$ { }\nlocation = /near/x { return 403; }",
                ),
                &[("/near/x", 200, "far"), ("/far/x", 200, "far"), ("/locked.txt", 200, "secret, too")],
            ),
            (
                nginx("rewrite ^/near/(.*)$ /far/$1 last;\nlocation /near/in/ { return 403; }"),
                &[("/near/x", 200, "far"), ("/near/in/x", 404, "")],
            ),
            // A location rewrites its own paths alone.
            (
                nginx("location /far/ { rewrite ^/near/ /locked.txt last; }"),
                &[("/near/x", 200, "near"), ("/far/x", 200, "far")],
            ),
            (
                nginx("location /far/ { rewrite ^/(.*)$ /near/x last; }"),
                &[("/near/x", 200, "near"), ("/far/x", 200, "near"), ("/locked.txt", 200, "secret, too")],
            ),
            (
                nginx("location /near { return 301 /far/x; }\nlocation ~ ^/near/ { }"),
                &[("/near/x", 200, "near"), ("/near", 301, "")],
            ),
            // A folder without its slash is not of the location.
            (
                nginx("location /none/ { return 200 text; }"),
                &[("/none", 404, ""), ("/none/", 200, "text"), ("/none/a", 200, "text")],
            ),
            // An index file that has the root of the server by its own location.
            (
                nginx(
                    "location /docs/ { alias HOME/docs/; index one.html; }\nlocation ~ \\.html$ { add_header X-A b; }",
                ),
                &[("/docs/", 200, "one"), ("/docs/one.html", 404, "")],
            ),
            // An index file with the root of its folder.
            (
                nginx(
                    "index x; location /near/ { location = /near/x { } location ~ \\.php$ { root HOME; deny all; } }",
                ),
                &[("/near/", 200, "near"), ("/far/", 200, "far")],
            ),
            // try_files is for no location within.
            (
                nginx("location / { try_files $uri =404; index x; location /near/ { } }"),
                &[("/near/", 200, "near"), ("/far/", 403, "")],
            ),
        ],
    );
    refuse(
        "nginx",
        &[
            ("server { root /srv; rewrite ^/none$ /b/$1; }\n", "cannot be converted"),
            (
                "server {\nroot /srv;\nlocation ~ ^/(a|b)/ {\nalias HOME/docs/;\n}\n}\n",
                "original:4: \"alias ",
            ),
            (
                "server {\nroot /srv;\nindex x.txt;\nlocation /a/ {\nlocation = /a/x.txt {\nroot /b;\n}\n}\n}\n",
                "original:5: nginx sends the index file /a/x.txt from another root",
            ),
            (
                "server {\nroot /srv;\nlocation ~ \\.html$ {\nroot /b;\n}\n}\n",
                "original:3: nginx sends the index file /index.html from another root",
            ),
            (
                "server {\nroot /srv;\nlocation = /a/index.html {\nroot /b;\n}\n}\n",
                "nginx sends the index file /a/index.html from another root",
            ),
            ("server { root /srv; rewrite ^/a/ /a/x.html; }\n", "leads to a path of its own"),
        ],
    );
}

#[test]
fn lists_of_lighttpd_count_as_in_lighttpd() {
    let lighttpd = |text: &str| {
        let begin = "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\n";
        format!("{begin}{text}\n")
    };
    let auth = "auth.backend = \"htpasswd\"\nauth.backend.htpasswd.userfile = \"HOME/users\"\nauth.require = \
                ( \"\" => ( \"method\" => \"basic\", \"realm\" => \"r\", \"require\" => \"valid-user\" ) )\n";
    check(
        "lighttpd",
        &[
            (
                lighttpd(&format!("{auth}$HTTP[\"url\"] =^ \"/near/\" {{ auth.require = () }}")),
                &[("/near/x", 200, "near"), ("/far/x", 401, ""), ("/near/../far/x", 401, ""), ("/", 401, "")],
            ),
            // No file stands for a folder without index-file.names.
            (lighttpd(""), &[("/", 403, ""), ("/index.html", 200, "page")]),
            (
                lighttpd("url.rewrite-once = ( \"^/(near|far)/(.*)$\" => \"/$1/$2\" )"),
                &[("/near/x", 200, "near"), ("/far/x", 200, "far"), ("/a.bak", 200, "old")],
            ),
            (
                lighttpd(
                    "cgi.assign = ( \".bak\" => \"/bin/false\" )\n$HTTP[\"url\"] =^ \"/\" { cgi.assign = ( \".pl\" => \"/bin/false\" ) }",
                ),
                &[("/a.bak", 403, ""), ("/near/x", 200, "near")],
            ),
        ],
    );
}

#[test]
fn directives_of_caddy_count_as_in_caddy() {
    let caddy = |text: &str| format!("http://:0 {{\nbind 127.0.0.1\nroot * HOME/www\n{text}\n}}\n");
    check(
        "caddy",
        &[
            // What stands last in a route responds for the paths that nothing in front of it is for.
            (
                caddy("route {\nfile_server /near/*\nrespond 404\n}"),
                &[("/near/x", 200, "near"), ("/near/none", 404, ""), ("/far/x", 404, ""), ("/", 404, "")],
            ),
            // What is below a hidden folder is hidden, too.
            (
                caddy("file_server /near/* {\nhide near\n}\nfile_server"),
                &[("/near/x", 404, ""), ("/near/none", 404, ""), ("/far/x", 200, "far")],
            ),
            (
                caddy("file_server {\nhide x\nhide *.txt\n}"),
                &[("/near/x", 200, "near"), ("/locked.txt", 404, "")],
            ),
            (
                caddy("rewrite /* /index.html\nfile_server"),
                &[("/far/x", 200, "page"), ("/index.html", 200, "page")],
            ),
            // A folder without its slash is not of the matcher.
            (
                caddy("respond /none/* text\nfile_server"),
                &[("/none", 404, ""), ("/none/", 200, "text"), ("/none/a", 200, "text")],
            ),
            (
                caddy("@others not path /near/*\nrespond @others 403\nfile_server"),
                &[("/near", 403, ""), ("/near/x", 200, "near"), ("/far/x", 403, "")],
            ),
            (
                caddy("@others not {\npath /near/*\n}\nrespond @others 403\nfile_server"),
                &[("/near/x", 200, "near"), ("/far/x", 403, "")],
            ),
            // Caddy finds paths in any case of letters: another one has no other response.
            (
                caddy("handle /near/* {\nfile_server\n}\nhandle {\nrespond all\n}"),
                &[("/near/x", 200, "near"), ("/NEAR/x", 404, ""), ("/far/x", 200, "all")],
            ),
            (
                caddy("@x path *.TXT\nhandle @x {\nrespond text\n}\nhandle {\nfile_server\n}"),
                &[("/a.TXT", 200, "text"), ("/locked.txt", 404, ""), ("/far/x", 200, "far")],
            ),
            (
                caddy("rewrite /LOCKED.txt /missing.html\nfile_server"),
                &[("/LOCKED.txt", 200, "not here"), ("/locked.txt", 404, ""), ("/far/x", 200, "far")],
            ),
            (
                caddy("reverse_proxy /NEAR/* 127.0.0.1:1\nfile_server"),
                &[("/NEAR/x", 502, ""), ("/near/x", 404, ""), ("/far/x", 200, "far")],
            ),
            // No file_server sends files.
            (caddy("respond /a text\nfile_server /near/*"), &[("/near/x", 200, "near"), ("/far/x", 200, "")]),
            // A folder is none of the files that are tried.
            (caddy("try_files {path} /missing.html\nfile_server"), &[("/near/", 200, "not here")]),
            // The first directive of a route that responds is the last one.
            (caddy("route {\nfile_server\nrespond text\n}"), &[("/far/x", 200, "far")]),
        ],
    );
    refuse(
        "caddy",
        &[
            (
                "http://a {\nroot * /srv\nhandle /near/* {\nheader X-A b\n}\nrespond 403\n}\n",
                "write what responds into the block",
            ),
            ("http://a {\nroot * /srv\nfile_server {\nhide srv\n}\n}\n", "it hides the root itself"),
            (
                "http://a {\nroot * /srv\nredir /a/* /b\nrewrite /c /a/x\nfile_server\n}\n",
                "leads to a path that is led on here",
            ),
            ("http://a {\nroot * /srv\nredir /a permanent\n}\n", "see redirect"),
            (
                "http://a {\nroot * /srv\nhandle /a/* {\nrewrite * /b\nfile_server\n}\nhandle {\nrespond all\n}\n}\n",
                "original:4: the rewrite of /a/ leads out of its block to /b",
            ),
            ("http://a {\nroot * /srv\nfile_server\nfile_server {\nbrowse\n}\n}\n", "decide for one of them"),
        ],
    );
}

#[test]
fn one_program_of_apache_responds_for_its_path_and_those_below() {
    let program = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s|%s|%s' \"$SCRIPT_NAME\" \"$PATH_INFO\" \"$QUERY_STRING\"\n";
    let site =
        site().script_beside_root("programs/one.cgi", program).file_beside_root("programs/other", "secret");
    let granted = "Require all granted\n";
    let text = format!(
        "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory HOME/www>\n{granted}</Directory>\n\
         <Directory HOME/programs>\n{granted}</Directory>\n\
         ScriptAlias /near/one HOME/programs/one.cgi\nScriptAlias /tree/ HOME/programs/one.cgi/\n\
         ScriptAlias /closed HOME/programs/one.cgi\n<Location /closed>\nRequire all denied\n</Location>\n"
    );
    let server = serve(site, "apache", &text, own_user());
    let mut rows = Rows::new();
    for (path, status, expected) in [
        ("/near/one", 200, "/near/one||"),
        ("/near/one?a=b", 200, "/near/one||a=b"),
        ("/near/one/c/d?a", 200, "/near/one|/c/d|a"),
        ("/tree/", 200, "/tree|/|"),
        ("/tree/log?h=main", 200, "/tree|/log|h=main"),
        ("/near/x", 200, "near"),
    ] {
        let response = server.get(path);
        rows.check(path, (response.status, response.text()), (status, expected.to_owned()));
    }
    for (path, status) in [("/closed", 403), ("/closed/x", 403), ("/near/other", 404), ("/near/one.cgi", 404)]
    {
        rows.check(path, server.get(path).status, status);
    }
}

#[test]
fn reports_sections_that_do_not_protect_a_program() {
    let program = |sections: &str| {
        format!("Listen 127.0.0.1:0\nDocumentRoot HOME\nScriptAlias /one HOME/docs/one.html\n{sections}")
    };
    let denied = "Require all denied\n";
    refuse(
        "apache",
        &[
            (
                &program(&format!("<Files *.html>\n{denied}</Files>")),
                "this section is not for the program of /one",
            ),
            (
                &program(&format!("<Location /one/admin>\n{denied}</Location>")),
                "what is said about /one/admin/ is not for the program of /one",
            ),
            (
                "Listen 127.0.0.1:0\nDocumentRoot HOME\nScriptAlias /one/ HOME/docs/one.html",
                "end both the path and the program with a slash",
            ),
        ],
    );
}
