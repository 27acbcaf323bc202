//! The directives of lighttpd.

use dialects::{Dialect, Web};

use crate::rows::{Case, Look, Needless, Table, check};

use Look::{Ask, Exists, Field, FieldOf, File, Get, Line, Part, Says, Secure, Told};

const COMPRESSED: &str = "GET /big.txt HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n";
const NAMED: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

const LIGHTTPD: Table = Table {
    dialect: Dialect::Web(Web::Lighttpd),
    file: "lighttpd.conf",
    plain: Case {
        flags: &[],
        conf: "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\n",
        rows: &[
            ("server.port", Line, "listen = [\"127.0.0.1:0\"]"),
            ("server.bind", Line, "listen = [\"127.0.0.1:0\"]"),
            ("server.document-root", Get("/plain"), "200 plain"),
        ],
    },
    cases: &[
        Case {
            flags: &[],
            conf: "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\nserver.pid-file = \"HOME/pid\"\n\
                   server.errorlog = \"HOME/error_log\"\naccesslog.filename = \"HOME/access_log\"\nserver.tag = \"Own/1\"\n\
                   server.max-connections = 77\nserver.max-keep-alive-requests = 5\nserver.max-keep-alive-idle = 7\n\
                   server.max-read-idle = 8\nserver.max-write-idle = 9\nserver.max-request-size = 1\n\
                   index-file.names = ( \"other.html\" )\n$HTTP[\"url\"] =^ \"/sub/\" { dir-listing.activate = \"enable\" }\n\
                   server.follow-symlink = \"disable\"\nconnection.kbytes-per-second = 1000\nmimetype.assign = ( \".own\" => \"image/x-own\", \".txt\" => \"text/plain\" )\n\
                   url.access-deny = ( \".two\" )\nstatic-file.exclude-extensions = ( \".png\" )\ndeflate.mimetypes = ( \"text/plain\" )\n\
                   deflate.allowed-encodings = ( \"gzip\" )\nalias.url = ( \"/docs/\" => \"HOME/docs/\" )\n\
                   setenv.add-response-header = ( \"X-Own\" => \"yes\" )\nsetenv.add-environment = ( \"COLOR\" => \"blue\" )\n\
                   expire.url = ( \"/near/\" => \"access plus 2 hours\" )\n\
                   expire.mimetypes = ( \"image/\" => \"access plus 1 hours\" )\nstatic-file.etags = \"disable\"\n\
                   dir-listing.hide-dotfiles = \"disable\"\ndir-listing.exclude = ( \"~$\" )\nauth.backend = \"htpasswd\"\nauth.backend.htpasswd.userfile = \"HOME/users\"\n\
                   auth.require = ( \"/private\" => ( \"method\" => \"basic\", \"realm\" => \"Own\", \"require\" => \"valid-user\" ) )\n\
                   url.redirect = ( \"^/old/(.*)$\" => \"/new/$1\" )\nurl.redirect-code = 307\nurl.rewrite-once = ( \"^/rewritten$\" => \"/plain\", \"^/queried/([^/]+)$\" => \"/scgi/x?id=$1\" )\n\
                   $HTTP[\"url\"] =^ \"/cgi-bin/\" { cgi.assign = ( \"\" => \"\" ) }\ncgi.local-redir = \"enable\"\n\
                   fastcgi.server = ( \".cgi\" => (( \"socket\" => \"HOME/fcgi.sock\" )) )\n\
                   scgi.server = ( \"/scgi/\" => (( \"socket\" => \"HOME/scgi.sock\" )) )\nvar.up = \"UPSTREAM\"\n",
            rows: &[
                ("server.pid-file", File("pid"), "PID"),
                ("server.errorlog", Exists("error_log"), "there"),
                ("server.tag", Field("/plain", "server"), "Own/1"),
                ("server.max-connections", Line, "connections = 77"),
                ("server.max-keep-alive-requests", Line, "requests = 5"),
                ("server.max-keep-alive-idle", Line, "idle = 7"),
                ("server.max-read-idle", Line, "head = 8"),
                ("server.max-write-idle", Line, "write = 9"),
                ("server.max-request-size", Line, "max_body = 1024"),
                ("index-file.names", Get("/"), "200 other"),
                ("dir-listing.activate", Part("/sub/"), "page.html"),
                ("server.follow-symlink", Get("/out"), "403"),
                ("connection.kbytes-per-second", Line, "download = 1024000"),
                ("mimetype.assign", Field("/a.own", "content-type"), "image/x-own"),
                ("url.access-deny", Get("/a.two"), "403"),
                ("static-file.exclude-extensions", Get("/i.png"), "403"),
                ("deflate.mimetypes", FieldOf(COMPRESSED, "content-encoding"), "gzip"),
                ("deflate.allowed-encodings", Line, "compress = [\"gzip\"]"),
                ("alias.url", Get("/docs/one.html"), "200 one"),
                ("setenv.add-response-header", Field("/plain", "x-own"), "yes"),
                ("setenv.add-environment", Told("/cgi-bin/env"), "COLOR=blue"),
                ("expire.url", Field("/near/x", "cache-control"), "max-age=7200"),
                ("expire.mimetypes", Field("/a.own", "cache-control"), "max-age=3600"),
                ("static-file.etags", Line, "etag = \"off\""),
                ("dir-listing.hide-dotfiles", Line, "dotfiles = \"allow\""),
                ("dir-listing.exclude", Says, "dir-listing.exclude: listings have these names, too"),
                ("auth.backend", Get("/private/x"), "401"),
                ("auth.backend.htpasswd.userfile", Get("/private/x"), "401"),
                (
                    "auth.require",
                    Field("/private/x", "www-authenticate"),
                    "Basic realm=\"Own\", charset=\"UTF-8\"",
                ),
                ("url.redirect", Get("/old/a"), "307 /new/a"),
                ("url.redirect-code", Get("/old/a"), "307 /new/a"),
                ("url.rewrite-once", Get("/rewritten"), "200 plain"),
                ("url.rewrite-once", Told("/queried/a?c"), "QUERY_STRING=id=a"),
                ("cgi.assign", Told("/cgi-bin/env"), "SCRIPT_NAME=/cgi-bin/env"),
                ("cgi.local-redir", Line, "local_redirects = true"),
                ("fastcgi.server", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("scgi.server", Told("/scgi/a"), "REQUEST_URI=/scgi/a"),
                ("accesslog.filename", File("access_log"), "\"GET /cgi-bin/env HTTP/1.1\" 200"),
                ("accesslog.filename", Line, "timezone = \"local\""),
            ],
        },
        Case {
            flags: &[],
            conf: "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.errorlog-use-syslog = \"enable\"\naccesslog.use-syslog = \"enable\"\n\
                   simple-vhost.server-root = \"HOME/names\"\nsimple-vhost.document-root = \"/\"\nsimple-vhost.default-host = \"default\"\n\
                   server.indexfiles = ( \"index.html\" )\nserver.dir-listing = \"enable\"\nserver.kbytes-per-second = 1000\n\
                   compress.filetype = ( \"text/plain\" )\nsetenv.set-response-header = ( \"X-Own\" => \"yes\" )\n\
                   setenv.set-environment = ( \"COLOR\" => \"red\" )\nuserdir.path = \"public_html\"\n\
                   url.rewrite = ( \"^/first$\" => \"/index.html\" )\nurl.rewrite-repeat = ( \"^/again$\" => \"/index.html\" )\n\
                   url.rewrite-if-not-file = ( \"\" => \"/index.html\" )\n\
                   url.rewrite-repeat-if-not-file = ( \"^/app/\" => \"/first.html\" )\nextforward.forwarder = ( \"192.0.2.7\" => \"trust\" )\n\
                   extforward.headers = ( \"X-Forwarded-For\" )\nextforward.params = ( \"host\" => 1 )\nextforward.hap-PROXY = \"disable\"\n\
                   proxy.header = ( \"upgrade\" => \"enable\" )\nproxy.forwarded = ( \"for\" => 1 )\nproxy.balance = \"fair\"\nfastcgi.balance = \"fair\"\n\
                   ssl.ca-file = \"/ca.pem\"\nssl.cipher-list = \"HIGH\"\nssl.openssl.ssl-conf-cmd = ( \"A\" => \"b\" )\nssl.honor-cipher-order = \"enable\"\n",
            rows: &[
                ("server.errorlog-use-syslog", Line, "error = \"syslog\""),
                ("accesslog.use-syslog", Line, "access = \"syslog\""),
                ("simple-vhost.server-root", Ask(NAMED), "200 by name"),
                ("simple-vhost.document-root", Ask(NAMED), "200 by name"),
                ("simple-vhost.default-host", Get("/"), "200 by default"),
                ("server.indexfiles", Ask(NAMED), "200 by name"),
                ("server.dir-listing", Line, "listing = true"),
                ("server.kbytes-per-second", Line, "by = \"all\""),
                ("compress.filetype", Line, "compress_types = [\"text/plain\"]"),
                ("setenv.set-response-header", Field("/", "x-own"), "yes"),
                ("setenv.set-environment", Line, "env = { COLOR = \"red\" }"),
                ("userdir.path", Line, "user_folders = \"public_html\""),
                ("url.rewrite", Get("/first"), "200 by default"),
                ("url.rewrite-repeat", Get("/again"), "200 by default"),
                ("url.rewrite-if-not-file", Get("/nothing"), "200 by default"),
                ("url.rewrite-repeat-if-not-file", Line, "fallback = \"/first.html\""),
                ("extforward.forwarder", Line, "trusted_proxies = [\"192.0.2.7\"]"),
                ("extforward.headers", Says, "note: extforward.headers has no effect"),
                ("extforward.params", Says, "note: extforward.params has no effect"),
                ("extforward.hap-PROXY", Says, "note: extforward.hap-PROXY has no effect"),
                ("proxy.header", Says, "note: proxy.header: upstreams have X-Forwarded-For"),
                ("proxy.forwarded", Says, "note: proxy.forwarded: upstreams have X-Forwarded-For"),
                ("proxy.balance", Says, "warning: proxy.balance is not converted"),
                ("fastcgi.balance", Says, "warning: fastcgi.balance is not converted"),
                ("ssl.ca-file", Says, "note: ssl.ca-file has no effect"),
                ("ssl.cipher-list", Says, "note: ssl.cipher-list has no effect"),
                ("ssl.openssl.ssl-conf-cmd", Says, "note: ssl.openssl.ssl-conf-cmd has no effect"),
                ("ssl.honor-cipher-order", Says, "note: ssl.honor-cipher-order has no effect"),
            ],
        },
        Case {
            flags: &[],
            conf: "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\nserver.error-handler-404 = \"/other.html\"\n\
                   auth.backend = \"plain\"\nauth.backend.plain.userfile = \"HOME/plain.users\"\n\
                   auth.require = ( \"/private/\" => ( \"method\" => \"basic\", \"realm\" => \"Own\", \"require\" => \"valid-user\" ) )\n\
                   $SERVER[\"socket\"] == \"127.0.0.2:0\" { ssl.engine = \"enable\" }\nssl.pemfile = \"HOME/certificate.pem\"\nssl.privkey = \"HOME/key.pem\"\n",
            rows: &[
                ("server.error-handler-404", Get("/none"), "200 other"),
                ("auth.backend.plain.userfile", Get("/private/x"), "401"),
                ("ssl.engine", Secure, "200"),
                ("ssl.pemfile", Secure, "200"),
                ("ssl.privkey", Secure, "200"),
            ],
        },
        Case {
            flags: &[],
            conf: "server.document-root = \"/srv\"\nserver.username = \"daemon\"\nserver.groupname = \"nogroup\"\nserver.chroot = \"/srv\"\n\
                   server.error-handler = \"/e.html\"\nauth.backend.htdigest.userfile = \"/digest\"\n\
                   proxy.server = ( \"/up/\" => (( \"host\" => \"192.0.2.1\", \"port\" => 81 )) )\n\
                   accesslog.format = \"%h %{User-Agent}i\"\nserver.breakagelog = \"/a\"\nstatus.status-url = \"/a\"\n\
                   status.config-url = \"/b\"\nstatus.statistics-url = \"/c\"\n",
            rows: &[
                ("server.username", Line, "user = \"daemon\""),
                ("server.groupname", Line, "group = \"nogroup\""),
                ("server.chroot", Line, "chroot = \"/srv\""),
                ("server.error-handler", Line, "fallback = \"/e.html\""),
                ("auth.backend.htdigest.userfile", Line, "user_files = \"/digest\""),
                ("proxy.server", Line, "address = [\"192.0.2.1:81\"]"),
                ("accesslog.format", Line, "format = \"combined\""),
                ("server.breakagelog", Says, "warning: what scripts say goes to the error log"),
                ("status.status-url", Says, "warning: status.status-url: there is no such page"),
                ("status.config-url", Says, "warning: status.config-url: there is no such page"),
                ("status.statistics-url", Says, "warning: status.statistics-url: there is no such page"),
            ],
        },
    ],
    neutral: &[],
    needless: &[Needless {
        before: "server.port = 0\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"HOME/www\"\n\
                 index-file.names = ( \"index.html\" )\n",
        names: &[
            "server.modules",
            "server.compat-module-load",
            "server.feature-flags",
            "server.event-handler",
            "server.network-backend",
            "server.max-fds",
            "server.upload-dirs",
            "server.stream-request-body",
            "server.stream-response-body",
            "server.max-worker",
            "server.http-parseopts",
            "server.name",
            "deflate.cache-dir",
            "compress.cache-dir",
            "etag.use-inode",
            "etag.use-mtime",
            "etag.use-size",
            "server.use-ipv6",
            "server.dir-listing.encoding",
            "server.set-v6only",
            "server.stat-cache-engine",
            "server.range-requests",
            "server.reject-expect-100-with-417",
            "server.core-files",
            "server.listen-backlog",
            "server.defer-accept",
            "dir-listing.encoding",
            "dir-listing.external-css",
            "dir-listing.set-footer",
            "dir-listing.show-header",
            "dir-listing.show-readme",
            "ssl.dh-file",
            "ssl.ec-curve",
            "ssl.use-sslv2",
            "ssl.use-sslv3",
            "ssl.disable-client-renegotiation",
            "debug.log-request-header",
            "debug.log-request-header-on-error",
            "debug.log-request-handling",
            "debug.log-response-header",
            "debug.log-file-not-found",
            "debug.log-condition-handling",
            "debug.log-condition-cache-handling",
            "debug.log-ssl-noise",
            "debug.log-state-handling",
            "debug.log-timeouts",
            "auth.debug",
            "auth.cache",
            "mimetype.use-xattr",
            "mimetype.xattr-name",
            "static-file.disable-pathinfo",
            "ssl.h2",
            "ssl.read-ahead",
            "ssl.stapling-file",
            "dir-listing.hide-header-file",
            "dir-listing.hide-readme-file",
            "dir-listing.encode-header",
            "dir-listing.encode-readme",
            "dir-listing.auto-layout",
            "dir-listing.external-js",
            "dir-listing.cache",
            "server.systemd-socket-activation",
        ],
        argument: " = \"1\"",
        behind: "",
    }],
    printed: &[],
};

#[test]
fn lighttpd() {
    check(&LIGHTTPD);
}
