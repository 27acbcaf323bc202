//! What configurations of nginx become.

use std::path::Path;

use dialects::{Finding, Severity, Web};

use super::{Text, check, converted, lacks, refuse};

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
                "http { upstream app { least_conn; server 10.0.0.1:80 weight=3 max_fails=2 fail_timeout=10s; server unix:/run/a.sock; server 10.0.0.1:80; } \
             limit_req_zone $binary_remote_addr zone=one:10m rate=10r/m;\n\
             server { listen [::]:80; root /srv; client_max_body_size 8m; location /api/ { proxy_pass http://app/v1/; \
             proxy_set_header Host $host; limit_req zone=one burst=5 nodelay; limit_rate 100k; proxy_read_timeout 5m; } } }",
                &[
                    "listen = [\"[::]:80\"]",
                    "balance = \"least\"",
                    "weights = [4, 1]",
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
            ("server { root /srv;\nlocation ~ ^/[0-9,]+$ { deny all; } }", 2, "cannot be converted"),
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

/// The example of the manual.
#[test]
fn converts_the_example_of_the_manual() {
    const MANUAL: &str = include_str!("../../../../docs/manual/from-nginx.md");
    let block = |kind: &str| {
        let rest = MANUAL.split_once(&format!("```{kind}\n")).expect("the manual has it").1;
        rest.split("```").next().unwrap_or_default()
    };
    let conversion =
        converted(Web::Nginx, "/etc/nginx/nginx.conf", &[("/etc/nginx/nginx.conf", block("nginx"))]);
    assert!(!conversion.is_refused());
    assert_eq!(conversion.text, block("toml"));
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
        "internal; proxy_pass http://login; proxy_set_header X-Real-IP $http_x_real_ip;",
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
        .replace("root /srv;", "root /srv; proxy_set_header X-Key secret;")
        .replace("proxy_set_header Content-Length \"\"; proxy_set_header X-Original-URI $request_uri;", "");
    refuse(Web::Nginx, &[(&around, 3, "auth_request")]);
}

/// As the manuals of Authelia, authentik and oauth2-proxy have it.
#[test]
fn the_authorizers_of_nginx_that_manuals_describe_are_converted() {
    const AUTHELIA: &str = "server { set $upstream_authelia http://10.0.0.9:9091/api/authz/auth-request;\n\
        location /internal/authelia/authz { internal; proxy_pass $upstream_authelia;\n\
        proxy_set_header X-Original-Method $request_method; proxy_set_header X-Original-URL $scheme://$http_host$request_uri;\n\
        proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header Content-Length \"\"; proxy_set_header Connection \"\";\n\
        proxy_pass_request_body off; proxy_next_upstream error timeout; proxy_redirect http:// $scheme://; proxy_http_version 1.1;\n\
        proxy_cache_bypass $cookie_session; proxy_no_cache $cookie_session; proxy_buffers 4 32k; client_body_buffer_size 128k;\n\
        send_timeout 5m; proxy_read_timeout 240; proxy_send_timeout 240; proxy_connect_timeout 240; }\n\
        location / { proxy_set_header Remote-User $user; proxy_set_header Remote-Groups $groups;\n\
        auth_request /internal/authelia/authz; auth_request_set $user $upstream_http_remote_user;\n\
        auth_request_set $groups $upstream_http_remote_groups; auth_request_set $redirection_url $upstream_http_location;\n\
        error_page 401 =302 $redirection_url; proxy_pass http://10.0.0.1:80; } }";
    const AUTHENTIK: &str = "server { location / { proxy_pass http://10.0.0.1:80; auth_request /outpost.goauthentik.io/auth/nginx;\n\
        error_page 401 = @goauthentik_proxy_signin; auth_request_set $auth_cookie $upstream_http_set_cookie;\n\
        add_header Set-Cookie $auth_cookie; auth_request_set $authentik_username $upstream_http_x_authentik_username;\n\
        proxy_set_header X-authentik-username $authentik_username; }\n\
        location /outpost.goauthentik.io { proxy_pass http://10.0.0.9:9000/outpost.goauthentik.io; proxy_set_header Host $host;\n\
        proxy_set_header X-Original-URL $scheme://$http_host$request_uri; add_header Set-Cookie $auth_cookie;\n\
        auth_request_set $auth_cookie $upstream_http_set_cookie; proxy_pass_request_body off; proxy_set_header Content-Length \"\"; }\n\
        location @goauthentik_proxy_signin { internal; add_header Set-Cookie $auth_cookie;\n\
        return 302 /outpost.goauthentik.io/start?rd=$scheme://$http_host$request_uri; } }";
    const OAUTH2_PROXY: &str = "server { location /oauth2/ { proxy_pass http://10.0.0.9:4180; }\n\
        location = /oauth2/auth { proxy_pass http://10.0.0.9:4180; proxy_set_header Host $host;\n\
        proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-Uri $request_uri;\n\
        proxy_set_header Content-Length \"\"; proxy_pass_request_body off; }\n\
        location / { auth_request /oauth2/auth; error_page 401 =403 /oauth2/sign_in;\n\
        auth_request_set $user $upstream_http_x_auth_request_user; proxy_set_header X-User $user;\n\
        auth_request_set $auth_cookie $upstream_http_set_cookie; add_header Set-Cookie $auth_cookie; proxy_pass http://10.0.0.1:80; } }";
    const FASTCGI: &str = "server { root /srv; auth_request /auth; auth_request_set $user $upstream_http_x_user;\n\
        location = /auth { internal; proxy_pass http://10.0.0.9:81; proxy_set_header Upgrade $http_upgrade; }\n\
        location ~ \\.php$ { fastcgi_pass unix:/p; fastcgi_param REMOTE_USER $user; fastcgi_param HTTP_X_USER $user; } }";
    check(
        Web::Nginx,
        &[
            (
                AUTHELIA,
                &[
                    "path = \"/internal/authelia/authz/\"",
                    "return = 404",
                    "path = \"/internal/authelia/authz\"",
                    "return = 404",
                    "path = \"/internal/authelia/authz?*/**\"",
                    "return = 404",
                    "path = \"/\"",
                    "authorizer_fields = [\"Remote-User\", \"Remote-Groups\"]",
                    "authorizer = \"http\"",
                    "authorizer_path = \"/api/authz/auth-request\"",
                ],
            ),
            (
                AUTHENTIK,
                &[
                    "path = \"/\"",
                    "authorizer_path = \"/outpost.goauthentik.io/auth/nginx\"",
                    "authorizer_login = \"/outpost.goauthentik.io/start?rd=$scheme://$hostport$path$query\"",
                    "authorizer_response_fields = [\"Set-Cookie\"]",
                    "authorizer_fields = [\"X-authentik-username\"]",
                    "path = \"/outpost.goauthentik.io/\"",
                    "proxy = \"http://http-2/outpost.goauthentik.io/\"",
                ],
            ),
            // The application gets the field under its own name, and no client can send the other one.
            (
                OAUTH2_PROXY,
                &[
                    "path = \"/\"",
                    "authorizer_path = \"/oauth2/auth\"",
                    "authorizer_fields = [\"X-Auth-Request-User\"]",
                    "proxy_headers = { X-User = false }",
                    "authorizer_response_fields = [\"Set-Cookie\"]",
                ],
            ),
            (
                FASTCGI,
                &[
                    "authorizer = \"http\"",
                    "path = \"*.php\"",
                    "authorizer_user = \"X-User\"",
                    "authorizer_fields = [\"X-User\"]",
                ],
            ),
        ],
    );
    // A redirect is to a login; a page, or a location that does more, is none.
    let (from, url) =
        ("error_page 401 =302 $redirection_url", "https://login.example/?rd=$scheme://$host$request_uri");
    let login = "authorizer_login = \"https://login.example/?rd=$scheme://$host$path$query\"";
    for (to, is_login) in [
        (format!("error_page 401 {url}"), true),
        (format!("error_page 401 =302 {url}"), true),
        (format!("error_page 401 = @login; }} location @login {{ return {url}"), true),
        (format!("error_page 401 = @login; }} location @login {{ return 303 {url}"), true),
        ("error_page 401 /login.html".to_owned(), false),
        (
            format!(
                "error_page 401 = @login; }} location @login {{ if ($a) {{ return 403; }} return 302 {url}"
            ),
            false,
        ),
        ("error_page 401 = @login; } location @login { return 403".to_owned(), false),
        ("error_page 401 =302 https://login.example/$unknown".to_owned(), false),
    ] {
        let text = AUTHELIA.replace(from, &to).replace("proxy_pass http://10.0.0.1:80; } }", "} }");
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert_eq!(conversion.text.contains(login), is_login, "{to}: {}", conversion.text);
        let warned = conversion
            .findings
            .iter()
            .any(|one| one.what.contains("clients get the answer of the authorizer"));
        assert_eq!(warned, !is_login, "{to}: {:?}", conversion.findings);
    }
    // Without a question to an authorizer, a field with its answer is empty.
    let open = "location /open/ { auth_request off; proxy_pass http://10.0.0.1:80; \
                auth_request_set $user $upstream_http_remote_user; proxy_set_header Remote-User $user; } location / {";
    let text = AUTHELIA.replace("location / {", open);
    let expected = ["path = \"/open/\"", "authorizer = false", "proxy_headers = { Remote-User = false }"];
    check(Web::Nginx, &[(&text, &expected)]);
    // A rule opens nothing to those that the authorizer denies.
    let text = AUTHELIA
        .replace("auth_request /internal", "satisfy any; allow 10.0.0.0/8; deny all; auth_request /internal");
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
    assert!(conversion.findings.iter().any(|finding| finding.what.contains("both have to allow")));
    // An expression precedes the prefix, and another path would be asked than nginx asks.
    for (from, to) in [
        ("location / {", "location ~ /authz$ { return 200; } location / {"),
        ("auth_request /internal/authelia/authz;", "auth_request /internal/authelia/authz/x;"),
    ] {
        let text = AUTHELIA.replace(from, to);
        refuse(Web::Nginx, &[(&text, 9, "auth_request")]);
    }
}

/// As their manuals have it.
#[test]
fn applications_of_nginx_are_converted() {
    let php = "fastcgi_pass unix:/p; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;";
    let drupal = format!(
        "server {{ root /srv; location ~* ^/.well-known/ {{ allow all; }} location / {{ try_files $uri /index.php?$query_string; }}\n\
         location ~* \\.(inc|module|.*sql|tpl(\\.php)?)(~|\\.sw[op])?$|/(\\.(?!well-known).*)|^/(Entries.*|composer\\.(json|lock))$|^.*#.*#$ \
         {{ deny all; return 404; }}\n\
         location ~ '\\.php$|^/update.php' {{ {php} try_files $fastcgi_script_name =404; }} }}"
    );
    let mediawiki = format!(
        "server {{ root /srv; location ~ ^/w/(index|api)\\.php$ {{ {php} }}\n\
         location = /favicon.ico {{ alias /srv/w/images/6/64/Favicon.ico; }}\n\
         location /wiki/ {{ rewrite ^/wiki/(?<pagename>.*)$ /w/index.php; }} }}"
    );
    let nextcloud = "http { map $arg_v $asset_immutable { \"\" \"\"; default \", immutable\"; }\n\
         server { root /srv; location ~ \\.css$ { add_header Cache-Control \"public, max-age=15778463$asset_immutable\"; } } }";
    let script = format!("server {{ root /srv; location / {{ }}\nlocation /index.php {{ {php} }} }}");
    check(
        Web::Nginx,
        &[
            (
                &drupal,
                &[
                    "dotfiles = \"deny\"",
                    "path = \"(?i)/?well-known/**\"",
                    "path = \"(?i)*.inc\"",
                    "then = \"deny\"",
                    "path = \"(?i)*.tpl.php.swo\"",
                    "then = \"deny\"",
                    "path = \"(?i)/composer.lock\"",
                    "then = \"deny\"",
                    "path = \"*.php\"",
                    "interpreter = \"fastcgi\"",
                    "path = \"/update?php**\"",
                    "interpreter = \"fastcgi\"",
                ],
            ),
            (
                &mediawiki,
                &[
                    "path = \"/w/index.php\"",
                    "path = \"/favicon.ico\"",
                    "rewrite = \"/w/images/6/64/Favicon.ico\"",
                    "path = \"/wiki/\"",
                    "rewrite = \"/w/index.php\"",
                ],
            ),
            (nextcloud, &["cache_control = \"public, max-age=15778463\""]),
            // What follows the name of a script is no folder.
            (&script, &["path = \"/index.php/**\"", "interpreter = \"fastcgi\"", "path = \"/index.php\""]),
            (
                "server { root /srv;\nlocation ~ /\\.svn { deny all; internal; } }",
                &["path = \"/**/.svn**\"", "return = 404"],
            ),
        ],
    );
    // A file that the location protects is not led to, because the route of its path would decide.
    let text = "server { root /srv; location = /a.txt {\nalias /srv/b.txt; deny all; } }";
    refuse(Web::Nginx, &[(text, 1, "an alias of one file")]);
    // Where another directive has the variable, nothing says its value.
    let text = nextcloud.replace("location ~", "add_header X-V $asset_immutable; location ~");
    refuse(Web::Nginx, &[(&text, 1, "map $arg_v")]);
}

/// `(/|$)` behind a name that may stand anywhere.
#[test]
fn expressions_of_folders_deny_what_is_in_them() {
    let apache = |section: &str| {
        format!(
            "Listen 80\nDocumentRoot /srv\n<Directory /srv>\nRequire all granted\n</Directory>\n\
             <{section} \"/(\\.git|data)(/|$)\">\nRequire all denied\n</{section}>\n"
        )
    };
    let lighttpd = "server.document-root = \"/srv\"\n$HTTP[\"url\"] =~ \"/(\\.git|data)(/|$)\" { url.access-deny = ( \"\" ) }\n";
    let nginx = "server { root /srv; location ~ /(\\.git|data)(/|$) { deny all; } }";
    for (web, text) in [
        (Web::Apache, apache("DirectoryMatch").as_str()),
        (Web::Apache, apache("LocationMatch").as_str()),
        (Web::Lighttpd, lighttpd),
        (Web::Nginx, nginx),
    ] {
        let paths = ["/**/.git", "/**/data", "/**/.git/**", "/**/data/**"];
        let lines = paths.map(|path| format!("path = \"{path}\""));
        check(web, &[(text, &lines.each_ref().map(String::as_str))]);
    }
    // A script has the path behind its name itself, and an upstream does not.
    let script = "server { root /srv; location ~ \\.php(/|$) { fastcgi_pass unix:/p; } }";
    lacks(Web::Nginx, &[(script, &["path = \"/**/*.php/**\""])]);
    let denied =
        "server { location / { proxy_pass http://127.0.0.1:1; } location ~ \\.php(/|$) { deny all; } }";
    check(
        Web::Nginx,
        &[(denied, &["path = \"*.php\"", "then = \"deny\"", "path = \"/**/*.php/**\"", "then = \"deny\""])],
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
        // As the page of an application of one page is often written.
        (
            "root /srv; location / { try_files $uri $uri/ /index.html =404; }",
            "root = \"/srv\"; fallback = \"/index.html\"; fallback_for = \"all\"",
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
}

#[test]
fn a_pattern_has_nothing_of_the_location_of_a_prefix() {
    check_routes(&[
        (
            "root /srv; location /a/ { add_header X-A b; gzip on; } location ~ \\.css$ { expires 1h; } \
             location ~ ^/b/.*\\.js$ { etag off; }",
            "root = \"/srv\"; path = \"/a/\"; headers = { X-A = \"b\" }; compress = true; \
             path = \"*.css\"; cache_control = \"max-age=3600\"; compress = false; headers = { X-A = false }; \
             path = \"/b/**.js\"; etag = \"off\"",
        ),
        // A location within has what is around it.
        (
            "root /srv; add_header X-A b; location /a/ { add_header X-C d; location ~ \\.css$ { etag off; } }",
            "root = \"/srv\"; headers = { X-A = \"b\" }; path = \"/a/**/*.css\"; etag = \"off\"; \
             headers = { X-C = \"d\", X-A = false }; path = \"/a/\"; headers = { X-C = \"d\", X-A = false }",
        ),
    ]);
    // The fields of an upstream are its own.
    let text = "server { root /srv;\nlocation /a/ { add_header X-A b; }\nlocation ~ \\.php$ { fastcgi_pass 127.0.0.1:9; } }";
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", text)]);
    let warned = |finding: &dialects::Finding| {
        finding.severity == Severity::Warning && finding.what == "*.php has X-A of location /a/, too"
    };
    assert!(conversion.findings.iter().any(warned), "{:#?}", conversion.findings);
}

/// nginx adds it to no error without `always`: a cache would keep what is missing as long as what is there.
#[test]
fn cache_control_is_for_files_and_not_for_errors() {
    check_routes(&[
        (
            "root /srv; location /a/ { add_header Cache-Control public; add_header Cache-Control max-age=9; } \
             location /b/ { add_header Cache-Control no-store always; }",
            "root = \"/srv\"; path = \"/a/\"; cache_control = \"public, max-age=9\"; \
             path = \"/b/\"; headers = { Cache-Control = \"no-store\" }",
        ),
        (
            "root /srv; add_header Cache-Control public; location = /a { proxy_pass http://127.0.0.1:81; } \
             location /b/ { add_header X-A b; } location = /c { return 302 /d; } location /e/ { expires off; }",
            "root = \"/srv\"; cache_control = \"public\"; path = \"/a\"; proxy = \"http://http\"; proxy_path = \"raw\"; \
             proxy_host = \"127.0.0.1:81\"; headers = { Cache-Control = \"public\" }; \
             path = \"/b/\"; headers = { X-A = \"b\", Cache-Control = false }; \
             path = \"/c\"; redirect = \"/d\"; status = 302; headers = { Cache-Control = \"public\" }; path = \"/e/\"",
        ),
        (
            "root /srv; add_header Cache-Control public; location / { add_header Cache-Control private; } \
             location ~ \\.a$ { etag off; } location ~ \\.php$ { fastcgi_pass 127.0.0.1:9; }",
            "root = \"/srv\"; cache_control = \"public\"; path = \"/\"; cache_control = \"private\"; \
             path = \"*.a\"; etag = \"off\"; cache_control = \"public\"; \
             path = \"*.php\"; interpreter = \"fastcgi\"; headers = { Cache-Control = \"public\" }",
        ),
    ]);
    // What has no effect is no key.
    let text = "http { expires off; add_header Cache-Control public; server { root /srv; } }";
    check(Web::Nginx, &[(text, &["headers = { Cache-Control = \"public\" }", "root = \"/srv\""])]);
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
             path = \"/b/\"; cache_control = \"public\"; \
             path = \"/c/\"; headers = { X-A = \"b\" }; cache_control = \"max-age=3600\"",
        ),
        (
            "root /srv; expires 1h; location / { add_header Cache-Control public; } location ~ \\.a$ { etag off; } location /b/ { expires -1; }",
            "root = \"/srv\"; cache_control = \"max-age=3600\"; path = \"/\"; cache_control = \"max-age=3600, public\"; \
             path = \"*.a\"; etag = \"off\"; cache_control = \"max-age=3600\"; path = \"/b/\"; cache_control = \"no-cache\"",
        ),
        (
            "root /srv; location / { add_header Cache-Control public; } location ~ \\.a$ { expires 2h; }",
            "root = \"/srv\"; path = \"/\"; cache_control = \"public\"; \
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
             path = \"/index.php/**\"; interpreter = \"fastcgi\"; fallback = false; index = [\"index.html\"]; listing = false; \
             path = \"*.php\"; return = 404",
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
    let longer = "path = \"/a?*/**\"; return = 404";
    for (location, path, expected) in [
        (
            "/a",
            "/b",
            format!(
                "path = \"/a/\"; proxy = \"http://http/b/\"; path = \"/a\"; proxy = \"http://http/b\"; {longer}"
            ),
        ),
        (
            "/a",
            "/",
            format!(
                "path = \"/a/\"; proxy = \"http://http/\"; path = \"/a\"; proxy = \"http://http/\"; {longer}"
            ),
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
fn refuses_directives_of_nginx_without_an_equivalent() {
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
            ("server { root /srv; location / {\ntry_files $uri /a.php =404; } }", 2, "try_files $uri /a.php"),
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
            ("server { root /srv;\nif ($cookie_a ~ a) { return 403; } }", 2, "if ("),
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
fn brackets_of_paths_are_characters() {
    check(
        Web::Nginx,
        &[(
            "server { root /srv; location = /a[b] { return 410; } location ~ ^/x\\[0-9\\]$ { return 410; } }",
            &["path = \"/a[[]b]\"", "path = \"/x[[]0-9]\""],
        )],
    );
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
        ("~ /(.ht|conf)", &["/**/?ht**", "/**/conf**"]),
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
fn what_nginx_denies_stays_denied_where_patterns_find_more() {
    let conversion = |location: &str| {
        let text = format!("server {{ root /srv;\n{location}\nlocation / {{ try_files $uri =404; }} }}");
        converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)])
    };
    for (location, path) in [
        ("location ~ ^/secret[0-9,]+/ { deny all; }", "/secret?*/**"),
        ("location ~* \"^/dump-[\\d,]{4}\" { return 404; }", "(?i)/dump-**"),
        ("location ~ ^/secret[0-9,]+/ { deny all; internal; }", "/secret?*/**"),
    ] {
        let found = conversion(location);
        assert!(!found.is_refused(), "{location} {:?}", found.findings);
        assert!(found.text.contains(&format!("[[host.route]]\npath = \"{path}\"\n")), "{}", found.text);
        let says = |part: &str| found.findings.iter().any(|one| one.what.contains(part));
        assert!(says("denies more paths"), "{:?}", found.findings);
    }
    // It is refused, and nothing is open if the entry is removed.
    let found = conversion("location ~ ^/setup/(?!pub/). { deny all; }");
    assert!(found.is_refused());
    let rule = "path = \"/setup/?**\"\n\n[[host.route.rule]]\nthen = \"deny\"\n";
    assert!(found.text.contains(rule), "{}", found.text);
    for location in [
        "location ~ \"^/x{3}$\" { deny all; }",
        "location ~ ^/app[0-9,]/ { auth_basic x; auth_basic_user_file /p; }",
        "location ~ ^/app[0-9,]/ { allow 10.0.0.0/8; deny all; }",
    ] {
        let found = conversion(location);
        let entry = "cannot be converted, and what it protects would be open\",\n";
        assert!(found.text.contains(entry), "{}", found.text);
    }
    let found = conversion("location ~ ^/app[0-9,]/ { expires 1d; }");
    assert!(found.is_refused() && !found.text.contains("would be open"), "{}", found.text);
    check(
        Web::Nginx,
        &[(
            "server { root /srv; location /pub { location ~ ^/pub/a/ { deny all; } alias /other; } }",
            &["path = \"/pub/a/\"", "then = \"deny\""],
        )],
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

/// The file need not be on the machine that converts.
#[test]
fn an_alias_of_nginx_for_one_file_is_that_file() {
    let server = |location: &str| format!("server {{ root /srv; location {location} }}");
    for location in ["= /favicon.ico", "/favicon.ico", "^~ /favicon.ico", "~ ^/favicon\\.ico$"] {
        for (alias, expected) in
            [("/srv/img/fav.ico", "rewrite = \"/img/fav.ico\""), ("/icons/favicon.ico", "root = \"/icons\"")]
        {
            let text = server(&format!("{location} {{ alias {alias}; }}"));
            check(Web::Nginx, &[(&text, &["path = \"/favicon.ico\"", expected])]);
            lacks(Web::Nginx, &[(&text, &["path = \"/favicon.ico/\""])]);
        }
    }
    check(
        Web::Nginx,
        &[(&server("/v1.ico { alias /srv/icons; }"), &["path = \"/v1.ico/\"", "alias = \"/srv/icons\""])],
    );
    refuse(Web::Nginx, &[(&server("~ \\.ico$ {\nalias /srv/a.ico; }"), 2, "alias /srv/a.ico")]);
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
fn a_route_has_one_response() {
    check_routes(&[
        (
            "root /srv; location /a/ { proxy_pass http://127.0.0.1:81; return 404; } location /b/ { alias /c/; return 302 /d; }",
            "root = \"/srv\"; path = \"/a/\"; return = 404; path = \"/b/\"; redirect = \"/d\"; status = 302; path = \"/b\"",
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
        ("rewrite ^/a/([0-9,]+)$ /b.php?id=$1 last;", "rewrite ^/a/([0-9,]+)$"),
        ("rewrite ^/a/(.*)$ /b.php?id=$2 last;", "rewrite ^/a/(.*)$"),
        ("rewrite ^/a/(.*)$ /b.php?id=$arg_x last;", "rewrite ^/a/(.*)$"),
        ("rewrite ^/a/(.*)$ /b/$args last;", "rewrite ^/a/(.*)$"),
        ("if (!-e $request_filename) { return 404; }", "if (!-e $request_filename)"),
        ("if (!-e $request_filename) {\nrewrite ^/([0-9,]+)$ /i.php?q=$1 last; }", "rewrite ^/([0-9,]+)$"),
        (
            "location /b/ { if (!-e $request_filename) {\nrewrite ^/a/(.*)$ /i.php?q=$1 last; } }",
            "rewrite ^/a/(.*)$",
        ),
    ] {
        let line = 2 + rewrite.lines().count() as u32 - 1;
        refuse(Web::Nginx, &[(&format!("server {{ root /srv;\n{rewrite} }}"), line, part)]);
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
                "server { root /srv; rewrite /login$ $scheme://$host/wp-admin/ permanent; location / { try_files $uri =404; } }",
                &[
                    "path = \"/**/login\"",
                    "redirect = \"$scheme://$host/wp-admin/$query\"",
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
            ("server { root /srv;\nrewrite /[0-9,]+$ $uri/ permanent; }", 2, "rewrite /[0-9,]+$"),
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

#[test]
fn a_location_of_nginx_within_a_denied_one_is_open() {
    let site = |rest: &str| {
        format!(
            "server {{\nlisten 80;\nroot /srv;\nlocation ~ ^/w/(index|api)\\.php$ {{\nfastcgi_pass unix:/p;\n}}\n{rest}}}\n"
        )
    };
    check(
        Web::Nginx,
        &[(
            &site("location /w/ {\ndeny all;\n}\n"),
            &[
                "path = \"/w/index.php\"",
                "then = \"allow\"",
                "path = \"/w/api.php\"",
                "then = \"allow\"",
                "path = \"/w/\"",
                "then = \"deny\"",
            ],
        )],
    );
    // It is denied by the server.
    let found = converted(
        Web::Nginx,
        "/etc/x/conf",
        &[("/etc/x/conf", &site("deny all;\nlocation /w/ {\ndeny all;\n}\n"))],
    );
    assert!(!found.text.contains("then = \"allow\""), "{}", found.text);
}

#[test]
fn expressions_of_nginx_that_begin_with_no_slash_find_nothing() {
    let hidden = "\\.(engine|inc|.*sql|tpl(\\.php)?|yml)(~|\\.sw[op]|\\.bak)?$|^(\\.(?!well-known).*|Entries.*|composer\\.(json|lock))$";
    check(
        Web::Nginx,
        &[(
            &format!("server {{\nlisten 80;\nroot /srv;\nlocation ~ {hidden} {{\ndeny all;\n}}\n}}\n"),
            &["path = \"*.inc\"", "then = \"deny\""],
        )],
    );
}

/// Nothing of another location counts: neither what opens it nor what closes it.
#[test]
fn paths_and_patterns_of_nginx_have_the_access_of_their_server() {
    let closed = "auth_basic x; auth_basic_user_file /u; root /srv;";
    let own =
        "location = /a { } location ~ \\.txt$ { } location ~ \\.up$ { proxy_pass http://127.0.0.1:81; }";
    let opened = format!("{closed} location / {{ auth_basic off; }} {own}");
    let asks = |path: &'static str| [path, "auth = \"basic\""];
    let expected = ["path = \"/a\"", "path = \"*.txt\"", "path = \"*.up\""].map(asks).concat();
    check(Web::Nginx, &[(&format!("server {{ {opened} }}"), &expected)]);
    let denied = format!("server {{ deny all; root /srv; location / {{ allow all; }} {own} }}");
    let denies = |path: &'static str| [path, "[[host.route.rule]]", "then = \"deny\""];
    let expected = ["path = \"/a\"", "path = \"*.txt\"", "path = \"*.up\""].map(denies).concat();
    check(Web::Nginx, &[(&denied, &expected)]);
    // Nor does a folder open what an expression finds in it.
    for (access, open, expected) in [
        (closed, "auth_basic off;", &["path = \"*.txt\"", "auth = \"basic\""][..]),
        (
            "deny all; root /srv;",
            "allow all;",
            &["path = \"*.txt\"", "[[host.route.rule]]", "then = \"deny\""],
        ),
    ] {
        let text = format!(
            "server {{ {access} location /public/ {{ {open} }} location ~ \\.txt$ {{ expires 1h; }} }}"
        );
        check(Web::Nginx, &[(&text, expected)]);
    }
    // A health check is open beside a location that asks. What is sent as a file stays closed, with a warning: other
    // paths lead to it.
    let asking = format!(
        "server {{ root /srv; location / {{ {closed} }} location = /ping {{ return 200 ok; }}\n{own} }}"
    );
    let expected = ["path = \"/ping\"", "auth = \"off\"", "path = \"*.up\"", "auth = \"off\""];
    check(Web::Nginx, &[(&asking, &expected)]);
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &asking)]);
    for path in ["/a", "*.txt"] {
        let what = format!("{path} asks for what / asks for, too");
        assert!(conversion.findings.iter().any(|finding| finding.what == what), "{:?}", conversion.findings);
    }
}

#[test]
fn methods_of_nginx_that_ask_for_a_password_are_never_open() {
    let asks = "limit_except GET { auth_basic x; auth_basic_user_file /u; }";
    let rule = ["[[host.route.rule]]", "method = [\"!GET\", \"!HEAD\"]"];
    let alone = format!("server {{ root /srv; location /a/ {{ {asks} }} }}");
    let expected =
        [&["satisfy = \"rules\"", "auth = \"basic\""], &rule[..], &["then = \"authenticate\""]].concat();
    check(Web::Nginx, &[(&alone, &expected)]);
    // Two ways to ask cannot stand side by side.
    for access in ["auth_basic y; auth_basic_user_file /v;", "allow 192.0.2.1; deny all;"] {
        let text = format!("server {{ root /srv;\nlocation /a/ {{ {access}\n{asks} }} }}");
        refuse(Web::Nginx, &[(&text, 3, "other methods are denied")]);
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        let denied = format!("{}\nthen = \"deny\"\n", rule.join("\n"));
        assert!(conversion.text.contains(&denied), "{}", conversion.text);
    }
}

#[test]
fn names_that_only_begin_with_a_prefix_of_nginx_have_its_response() {
    check(
        Web::Nginx,
        &[
            (
                "server { root /srv; location /old { return 301 /new; } }",
                &["path = \"/old?*/**\"", "redirect = \"/new\"", "status = 301"],
            ),
            (
                "server { root /srv; location /app { proxy_pass http://127.0.0.1:81; } }",
                &["path = \"/app?*/**\"", "proxy = \"http://http\""],
            ),
            (
                "server { root /srv; location /x { expires 1h; } }",
                &["path = \"/x?*/**\"", "cache_control = \"max-age=3600\""],
            ),
        ],
    );
    // The pattern would take another location its paths, such as `/old.php/x`.
    for other in ["location /older { return 302 /x; }", "location ~ \\.php(/|$) { fastcgi_pass unix:/p; }"] {
        let both = format!("server {{ root /srv; location /old {{ return 301 /new; }} {other} }}");
        lacks(Web::Nginx, &[(&both, &["path = \"/old?*/**\""])]);
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &both)]);
        let what = "location /old matches whole segments, and not /oldx";
        assert!(conversion.findings.iter().any(|finding| finding.what == what), "{:?}", conversion.findings);
    }
}

#[test]
fn logins_of_nginx_are_those_of_variables_and_of_pages_of_applications() {
    let server = |more: &str, page: &str| {
        format!(
            "server {{ location = /check {{ internal; proxy_pass http://127.0.0.1:81/auth; }} \
             location /oauth2/ {{ proxy_pass http://127.0.0.1:82; }} \
             location / {{ auth_request /check; {more} error_page 401 {page}; proxy_pass http://127.0.0.1:83; }} }}"
        )
    };
    let variable = "set $target $scheme://$http_host$request_uri;";
    for (more, page, login) in [
        (
            variable,
            "=302 https://auth.example/?rd=$target",
            "https://auth.example/?rd=$scheme://$hostport$path$query",
        ),
        ("", "=403 /oauth2/sign_in", "/oauth2/sign_in?rd=$scheme://$host$path$query"),
        ("", "= /oauth2/start?rd=$request_uri", "/oauth2/start?rd=$path$query"),
    ] {
        let expected = format!("authorizer_login = \"{login}\"");
        check(Web::Nginx, &[(&server(more, page), &[&expected])]);
    }
    // A page that asks the authorizer itself would lead to itself, and a file has the status of a page.
    for page in ["/login", "@none"] {
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &server("", page))]);
        assert!(!conversion.text.contains("authorizer_login ="), "{}", conversion.text);
    }
}

#[test]
fn what_nginx_denies_by_maps_networks_and_fields_becomes_rules() {
    let maps = "map $http_user_agent $bot { default 0; ~*(semrush|ahrefs) 1; evil 1; }\n\
                geo $blocked { default 0; 192.0.2.0/24 1; 2001:db8::/32 1; }\n\
                geo $office { default 0; 10.0.0.0/8 1; }\nmap $request_method $writes { default 1; GET 0; HEAD 0; }\n";
    let server = |condition: &str| {
        format!("http {{\n{maps}server {{ root /srv; if ({condition}) {{ return 403; }} }} }}")
    };
    let expected = |rule: &'static str| ["[[host.rule]]", rule, "then = \"deny\""];
    for (condition, rule) in [
        ("$bot", "user_agent = [\"*semrush*\", \"*ahrefs*\", \"evil\"]"),
        ("$bot = 1", "user_agent = [\"*semrush*\", \"*ahrefs*\", \"evil\"]"),
        ("$blocked", "address = [\"192.0.2.0/24\", \"2001:db8::/32\"]"),
        // All but those of the office.
        ("$office = 0", "address = [\"!10.0.0.0/8\"]"),
        ("$office != 1", "address = [\"!10.0.0.0/8\"]"),
        ("$writes", "method = [\"!GET\", \"!HEAD\"]"),
        ("$remote_addr != 127.0.0.1", "address = [\"!127.0.0.1\"]"),
        ("$http_x_key != Abc", "field = { x-key = \"!(?-i)Abc\" }"),
        ("$http_cookie ~* debug", "field = { cookie = \"*debug*\" }"),
    ] {
        let text = server(condition);
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        let lines: Vec<&str> = conversion.text.lines().collect();
        let is_there = lines.windows(3).any(|three| *three == expected(rule));
        assert!(is_there, "{condition}\n{}", conversion.text);
        // The maps that are not used are no part of it.
        let said = |finding: &&dialects::Finding| finding.what.starts_with("\"if");
        assert_eq!(conversion.findings.iter().find(said).map(ToString::to_string), None, "{condition}");
    }
    // A network within another one, a variable, and a use by something else.
    for map in [
        "geo $x { default 0; 10.0.0.0/8 1; 10.1.0.0/16 0; }",
        "geo $x { default 0; include /networks; }",
        "map $http_a $x { default 0; a $http_b; }",
        "map $http_a $x { default 0; a 1; b 1; }",
    ] {
        let text = format!("http {{ {map}\nserver {{ root /srv;\nif ($x) {{ return 403; }} }} }}");
        refuse(
            Web::Nginx,
            &[(&text, 1, "cannot be converted"), (&text, 3, "and what it denies would be open")],
        );
    }
    let used = "http { geo $x { default 0; 10.0.0.0/8 1; }\nserver { root /srv; if ($x) { return 403; } add_header X-A $x; } }";
    refuse(Web::Nginx, &[(used, 1, "geo $x")]);
}

/// nginx tries expressions before prefixes, also before longer ones.
#[test]
fn expressions_of_nginx_that_become_prefixes_have_all_their_paths() {
    let closed = ["path = \"/a/\"", "then = \"deny\""];
    let server = |inner: &str| format!("server {{ root /srv; {inner} }}");
    for first in ["~ ^/a/", "~* ^/a/", "~ ^/a/.*$", "~ ^/(a|c)/", "~ ^/a(/|$)"] {
        for later in ["/a/", "/a/b/", "/a/b", "~ ^/a/b/", "~ ^/a/"] {
            let expression = format!("location {first} {{ deny all; }}");
            let other = format!("location {later} {{ allow 10.0.0.1; deny all; }}");
            let mut all = vec![format!("{expression} {other}")];
            if !later.starts_with('~') {
                all.push(format!("{other} {expression}"));
            }
            for text in all {
                let text = server(&text);
                if !first.starts_with("~*") {
                    check(Web::Nginx, &[(&text, &closed)]);
                }
                lacks(Web::Nginx, &[(&text, &["address = \"10.0.0.1\"", "path = \"/a/b/\""])]);
            }
        }
    }
    // But not what `^~` keeps from them, what is exact, or what is for other letters.
    for (text, kept) in [
        ("location ~ ^/a/ { deny all; } location ^~ /a/b/ { allow 10.0.0.1; deny all; }", "path = \"/a/b/\""),
        ("location ~ ^/a/ { deny all; } location = /a/b { allow 10.0.0.1; deny all; }", "path = \"/a/b\""),
        ("location ~ ^/a/ { deny all; } location ^~ /a/ { allow 10.0.0.1; deny all; }", "path = \"/a/\""),
        ("location ~ ^/a/ { deny all; } location /b/ { allow 10.0.0.1; deny all; }", "path = \"/b/\""),
    ] {
        check(Web::Nginx, &[(&server(text), &[kept, "address = \"10.0.0.1\""])]);
    }
    let text = server(
        "location ~ ^/a/ { deny 10.0.0.2; }\nlocation /a/ { deny all;\nlocation = /a/x { index y; } }\n",
    );
    refuse(
        Web::Nginx,
        &[(&text, 2, "location ~ ^/a/ has all paths of location /a/, but not of what is within")],
    );
    // Of prefixes, the longest counts.
    let text = server("location /a { allow 10.0.0.1; deny all; } location /a/ { deny all; }");
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
    let folder = conversion.text.split("[[host.route]]\n").find(|route| route.starts_with("path = \"/a/\""));
    assert!(folder.is_some_and(|folder| !folder.contains("10.0.0.1")), "{}", conversion.text);
}

#[test]
fn satisfy_any_around_servers_of_nginx_counts_within_them() {
    let any = "satisfy any; auth_basic x; auth_basic_user_file /u;";
    refuse(
        Web::Nginx,
        &[
            (
                &format!(
                    "http {{ {any}\nserver {{ root /srv;\nif ($request_method = PUT) {{ return 403; }} }} }}"
                ),
                3,
                "if ",
            ),
            (
                &format!(
                    "http {{ {any}\nserver {{ root /srv; location /a/ {{\nif ($request_method = PUT) {{ return 403; }} }} }} }}"
                ),
                3,
                "if ",
            ),
        ],
    );
    // What no rule names needs a password.
    let inner = "deny 10.0.0.2; location /a/ { deny 10.0.0.3; }";
    for text in [
        format!("http {{ {any} server {{ root /srv; {inner} }} }}"),
        format!("http {{ server {{ root /srv; {any} {inner} }} }}"),
    ] {
        check(
            Web::Nginx,
            &[(
                &text,
                &[
                    "path = \"/a/\"",
                    "address = \"10.0.0.3\"",
                    "[[host.route.rule]]",
                    "then = \"authenticate\"",
                ],
            )],
        );
    }
}

#[test]
fn named_locations_of_nginx_that_deny_are_no_fallbacks() {
    for named in [
        "deny all; rewrite ^ /x.html break;",
        "auth_basic x; rewrite ^ /x.html break;",
        "return 403; rewrite ^ /x.html last;",
        "if ($request_method = PUT) { return 403; } rewrite ^ /x.html last;",
    ] {
        let text =
            format!("server {{ root /srv;\nlocation / {{ try_files $uri @n; }} location @n {{ {named} }} }}");
        refuse(Web::Nginx, &[(&text, 2, "@n passes no requests on")]);
        lacks(Web::Nginx, &[(&text, &["fallback = \"/x.html\""])]);
        check_index(&text);
    }
    let text = "server { root /srv; location / { try_files $uri @n; } location @n { deny all; rewrite ^ /x.html last; } }";
    check(Web::Nginx, &[(text, &["fallback = \"/x.html\""])]);
}

/// No folder has an index file.
fn check_index(text: &str) {
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", text)]);
    assert!(conversion.text.lines().any(|line| line == "index = []"), "{}", conversion.text);
}

#[test]
fn the_ways_to_https_of_nginx_behind_a_proxy_and_as_panels_write_them_are_converted() {
    let rule = ["then = \"redirect\"", "to = \"https://$host$path$query\"", "status = 301"];
    for (condition, field) in [
        ("$http_x_forwarded_proto = \"http\"", "field = { x-forwarded-proto = \"http\" }"),
        ("$http_x_forwarded_proto != https", "field = { x-forwarded-proto = \"!(?-i)https\" }"),
    ] {
        let text =
            format!("server {{ root /srv; if ({condition}) {{ return 301 https://$host$request_uri; }} }}");
        check(Web::Nginx, &[(&text, &[&[field][..], &rule].concat())]);
    }
    let tls = "ssl_certificate /c; ssl_certificate_key /k; root /srv;";
    for way in [
        "if ($scheme != \"https\") { rewrite ^ https://$host$request_uri? permanent; }",
        "if ($server_port !~ 443){ rewrite ^(/.*)$ https://$host$1 permanent; } error_page 497 https://$host$request_uri;",
    ] {
        let text = format!("server {{ listen 80; listen 443 ssl; {tls} {way} }}");
        check(Web::Nginx, &[(&text, &["https_redirect = true"])]);
    }
    check(
        Web::Nginx,
        &[
            (&format!("server {{ listen 443; ssl on; {tls} }}"), &["listen = [\"0.0.0.0:443 tls\"]"]),
            (
                "server { listen [::]:80 ipv6only=off; root /srv; }",
                &["listen = [\"0.0.0.0:80\", \"[::]:80\"]"],
            ),
        ],
    );
}

#[test]
fn an_if_of_nginx_denies_by_the_path_and_by_the_referer() {
    check(
        Web::Nginx,
        &[
            (
                "server { root /srv; if ( $uri ~ \"^/\\.well-known/.*\\.(php|js)$\" ) { return 403; } }",
                &["path = [\"/.well-known/**.php\", \"/.well-known/**.js\"]", "then = \"deny\""],
            ),
            (
                "server { root /srv; if ($uri ~* ^/a) { return 404; } }",
                &["path = [\"(?i)/a**\"]", "then = \"deny\"", "status = 404"],
            ),
            (
                "server { root /srv; location ~ \\.png$ { valid_referers none blocked server_names *.a.org b.org/c ~\\.d\\.; \
                 if ($invalid_referer) { return 403; } } }",
                &[
                    "path = \"*.png\"",
                    "referer = [\"!\", \"!self\", \"!*.a.org\", \"!*://b.org/c*\", \"!*://*.d.*\"]",
                    "then = \"deny\"",
                ],
            ),
        ],
    );
    // What it does not deny is no error page of another location.
    check_routes(&[(
        "root /srv; location / { try_files $uri /a; } location ~ \\.png$ { valid_referers b.org; if ($invalid_referer) { return 403; } }",
        "root = \"/srv\"; path = \"/\"; fallback = \"/a\"; fallback_for = \"all\"; index = []; listing = false; \
         path = \"*.png\"; fallback = false; [[rule]]; referer = [\"!b.org\"]; then = \"deny\"",
    )]);
}

#[test]
fn upstreams_of_nginx_have_their_certificates_and_the_port_of_the_server() {
    check(
        Web::Nginx,
        &[
            (
                "server { listen 443 ssl; listen [::]:443 ssl; ssl_certificate /c; ssl_certificate_key /k; proxy_ssl_verify on; \
                 proxy_ssl_trusted_certificate /ca.pem; \
                 location / { proxy_pass https://b.org; proxy_set_header X-Forwarded-Port $server_port; proxy_set_header X-Scheme $scheme; } }",
                &[
                    "tls_ca = \"/ca.pem\"",
                    "proxy_headers = { X-Forwarded-Port = \"443\", X-Scheme = \"https\" }",
                ],
            ),
            (
                "server { listen 80; listen 81; location / { proxy_pass https://b.org; proxy_ssl_verify off; \
                 proxy_set_header X-Forwarded-Port $server_port; proxy_set_header X-Scheme $scheme; } }",
                &["tls_verify = false", "proxy_headers = { X-Forwarded-Port = false, X-Scheme = \"http\" }"],
            ),
            (
                "server { location /api/ { rewrite ^/api(/.*)$ $1 break; proxy_pass http://127.0.0.1:1; } }",
                &["path = \"/api/\"", "proxy = \"http://http/\""],
            ),
            (
                "server { root /srv; location ~ ^/(api|.well-known)/ { proxy_pass http://127.0.0.1:1; } }",
                &["path = \"/api/\"", "path = \"/?well-known/**\""],
            ),
            // As panels split the path of a script.
            (
                "server { root /srv; location ~ [^/]\\.php(/|$) { fastcgi_pass unix:/p; set $name $fastcgi_script_name; \
                 if ($fastcgi_script_name ~ \"^(.+?\\.php)(/.+)$\") { set $name $1; set $path_info $2; } \
                 fastcgi_param SCRIPT_FILENAME $document_root$name; fastcgi_param SCRIPT_NAME $name; fastcgi_param PATH_INFO $path_info; } }",
                &["path = \"*?.php\"", "interpreter = \"fastcgi\""],
            ),
        ],
    );
    lacks(
        Web::Nginx,
        &[(
            "server { root /srv; add_header Alt-Svc 'h3=\":443\"; ma=86400'; }",
            &["headers = { Alt-Svc = \"h3=\\\":443\\\"; ma=86400\" }"],
        )],
    );
    let slashes = "server { root /srv; rewrite ^/(.*)/$ /$1 permanent;\nlocation /a/ { rewrite ^(.+)/+$ $1 permanent; proxy_pass http://127.0.0.1:1; } }";
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", slashes)]);
    assert!(!conversion.is_refused(), "{:#?}", conversion.findings);
    assert_eq!(
        conversion.findings.iter().filter(|finding| finding.what.contains("slash at its end")).count(),
        2
    );
}

#[test]
fn a_server_of_nginx_that_leads_to_https_may_have_files_for_authorities() {
    let secure = "server { listen 443 ssl; server_name a.org; root /srv; access_log /b; ssl_certificate c; ssl_certificate_key k; }";
    for way in [
        "root /www; location /.well-known/acme-challenge/ { allow all; } location /.well-known/pki-validation/ { allow all; } \
         location / { return 301 https://$host$request_uri; }",
        "access_log /a; return 301 https://a.org/;",
    ] {
        let text = format!("server {{ listen 80; server_name a.org; {way} }}\n{secure}");
        check(Web::Nginx, &[(&text, &["https_redirect = true", "names = [\"a.org\"]"])]);
    }
    let text = format!("server {{ listen 80; server_name a.org; return 301 https://a.org/; }}\n{secure}");
    let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
    let warned = |finding: &dialects::Finding| finding.what.contains("keeps the path and the query");
    assert!(conversion.findings.iter().any(warned), "{:#?}", conversion.findings);
}

/// A glob is for `/a/`, too, where the expression is for `/a` alone.
#[test]
fn an_expression_of_nginx_opens_no_folder_of_a_closed_server() {
    let server = |closed: &str, location: &str| {
        let upstream = "upstream app { server 10.0.0.1:81; }";
        format!(
            "http {{ {upstream} server {{ listen 80; root /srv; autoindex on; {closed}\n{location} }} }}\n"
        )
    };
    let asks = "auth_basic x; auth_basic_user_file /etc/users;";
    for (closed, location, expected, unwanted) in [
        (asks, "location ~ ^/[a-z]+$ { auth_basic off; }", "auth = \"off\"\nlisting = false", ""),
        ("deny all;", "location ~ ^/u/[^/]+$ { allow all; }", "path = \"/u/?*\"\nlisting = false", ""),
        (
            asks,
            "location ~ ^/[a-z]+$ { auth_basic off; proxy_pass http://app; }",
            "/[a-z]+ is for folders, too, and asks for what the server asks for",
            "auth = \"off\"",
        ),
        (
            "deny all;",
            "location ~ ^/u/[^/]+$ { allow all; proxy_pass http://app; }",
            "/u/?* is for folders, too",
            "then = \"allow\"",
        ),
        // What is named as a file is hardly a folder.
        (
            asks,
            "location ~ \\.css$ { auth_basic off; proxy_pass http://app; }",
            "auth = \"off\"",
            "is for folders, too",
        ),
    ] {
        let text = server(closed, location);
        let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
        assert!(!conversion.is_refused(), "{text}\n{}", conversion.text);
        assert!(conversion.text.contains(expected), "{expected}\nis not in\n{}", conversion.text);
        assert!(unwanted.is_empty() || !conversion.text.contains(unwanted), "{}", conversion.text);
    }
    let page = server("error_page 404 =301 /new/;", "");
    refuse(Web::Nginx, &[(&page, 1, "error_page 404")]);
}

#[test]
fn a_return_of_nginx_has_the_groups_of_the_expression_around_it() {
    check(
        Web::Nginx,
        &[
            (
                "server { root /srv; location ~ ^/blog/(\\d+)/(.*)$ { return 301 /archive/$1/$2; } }",
                &["path = \"/blog/[0-9]+/**\"", "redirect = \"/archive/$1/$2\""],
            ),
            (
                "server { root /srv; location ~* ^/old/(.*)$ { return 302 https://$host/$1; } }",
                &["path = \"(?i)/old/**\"", "redirect = \"https://$host/$1\""],
            ),
            (
                "server { root /srv; location ~ ^/(a|b)/(.*)$ { return 301 /x/$2; } }",
                &[
                    "path = \"/a/\"",
                    "redirect = \"/x/${rest}\"",
                    "path = \"/b/\"",
                    "redirect = \"/x/${rest}\"",
                ],
            ),
        ],
    );
    refuse(
        Web::Nginx,
        &[("server { root /srv; location ~ ^/(a|b)/(.*)$ { return 301 /$1/x/$2; } }", 1, "return 301")],
    );
}

/// Clients get nothing else of a folder that only the server itself reads.
#[test]
fn an_internal_folder_of_nginx_may_have_the_error_pages() {
    let text = "server { root /srv; error_page 404 /errors/404.html; \
                location ^~ /errors/ { internal; root /usr/share; } }";
    check(
        Web::Nginx,
        &[(
            text,
            &["path = \"/errors/404.html\"", "root = \"/usr/share\"", "path = \"/errors/\"", "return = 404"],
        )],
    );
    refuse(
        Web::Nginx,
        &[("server { root /srv; error_page 404 /404.html; location /files/ { internal; } }", 1, "internal")],
    );
}

#[test]
fn a_pattern_of_nginx_that_opens_no_prefix_is_reported() {
    for location in
        ["auth_basic a; auth_basic_user_file /u;", "auth_request /auth; proxy_pass http://127.0.0.1:9;"]
    {
        for pattern in ["auth_basic off; auth_request off;", "proxy_pass http://127.0.0.1:8;"] {
            let text = format!(
                "server {{ root /srv; location / {{ {location} }}\nlocation ~ \\.png$ {{ {pattern} }} \
                 location = /auth {{ internal; proxy_pass http://127.0.0.1:9; }} }}"
            );
            let conversion = converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", &text)]);
            let reports = |finding: &Finding| finding.what.contains("*.png asks for what / asks for, too");
            assert!(conversion.findings.iter().any(reports), "{text}: {:?}", conversion.findings);
        }
    }
}

/// A path of its own is open beside a denied folder, and a pattern is not.
#[test]
fn patterns_within_a_denied_folder_of_nginx_stay_denied() {
    let texts = |text: &str| converted(Web::Nginx, "/etc/x/conf", &[("/etc/x/conf", text)]);
    let allowed =
        texts("server { root /srv;\nlocation /a/ {\nlocation ~ \\.txt$ {\nallow all; }\ndeny all; } }");
    let reports = |finding: &Finding| finding.what.contains("/a/**/*.txt asks for what /a/ asks for, too");
    assert!(allowed.findings.iter().any(reports), "{:?}", allowed.findings);
    // `^~` denies what the expression would find elsewhere.
    let instead = texts(
        "server { root /srv;\nlocation ^~ /a/ {\ndeny all; }\nlocation ~ \\.php$ {\nfastcgi_pass unix:/p; } }",
    );
    assert!(instead.text.contains("path = \"/a/**/*.php\""), "{}", instead.text);
    assert!(!instead.text.contains("then = \"allow\""), "{}", instead.text);
    assert!(instead.findings.iter().all(|finding| !finding.what.contains("/a/")), "{:?}", instead.findings);
}
