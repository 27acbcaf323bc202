//! Expressions with classes of characters.

use super::*;

/// The same paths in the words of each server.
const SERVERS: &[(&str, &str)] = &[
    (
        "nginx",
        "events { worker_connections 100; }\nhttp {\n server {\n listen 127.0.0.1:0;\n root HOME/www;\n\
         rewrite ^/post/([0-9]+)/?$ /show?id=$1 redirect;\n rewrite \"^/(\\d{4})/([a-z0-9-]+)\\.html$\" /show?y=$1&t=$2 redirect;\n\
         location ~ ^/v[0-9]+/ { return 410; }\n }\n}\n",
    ),
    (
        "apache",
        "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory HOME/www>\nRequire all granted\nRewriteEngine On\n\
         RewriteRule ^post/([0-9]+)/?$ /show?id=$1 [R=302,L]\n\
         RewriteRule ^(\\d{4})/([a-z0-9-]+)\\.html$ /show?y=$1&t=$2 [R=302,L]\n\
         RewriteRule ^v[0-9]+/ - [G]\n</Directory>\n",
    ),
    (
        "lighttpd",
        "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\n\
         url.redirect = ( \"^/post/([0-9]+)/?$\" => \"/show?id=$1\", \
         \"^/(\\d{4})/([a-z0-9-]+)\\.html$\" => \"/show?y=$1&t=$2\" )\nurl.redirect-code = 302\n\
         $HTTP[\"url\"] =~ \"^/v[0-9]+/\" {\n url.access-deny = ( \"\" )\n}\n",
    ),
    (
        "caddy",
        "http://:0 {\n bind 127.0.0.1\n root * HOME/www\n\
         @post path_regexp post ^/post/([0-9]+)/?$\n redir @post /show?id={re.post.1}\n\
         @day path_regexp day ^/(\\d{4})/([a-z0-9-]+)\\.html$\n redir @day /show?y={re.day.1}&t={re.day.2}\n\
         @v path_regexp ^/v[0-9]+/\n respond @v 410\n file_server\n}\n",
    ),
];

#[test]
fn expressions_with_classes_find_the_same_paths() {
    let mut rows = Rows::new();
    for (name, text) in SERVERS {
        let site = site().file("v1x/a", "other").file("post/1x", "file").file("2024/A.html", "file");
        let server = serve(site, name, text, own_user());
        for (path, status, location) in [
            ("/post/12", 302, Some("/show?id=12")),
            ("/post/1x", 200, None),
            ("/post/a1", 404, None),
            ("/2024/a-1.html", 302, Some("/show?y=2024&t=a-1")),
            ("/2024/A.html", 200, None),
            ("/20245/a.html", 404, None),
            ("/v1/a", if *name == "lighttpd" { 403 } else { 410 }, None),
            ("/v1x/a", 200, None),
        ] {
            let response = server.get(path);
            let to = response.field("location").map(|to| &to[to.find("/show").unwrap_or(0)..]);
            rows.check(format!("{name} {path}"), (response.status, to), (status, location));
        }
    }
}
