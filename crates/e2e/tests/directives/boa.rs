//! The directives and flags of Boa.

use dialects::Dialect;

use crate::rows::{Case, Look, Table, check};

use Look::{Ask, Exists, Field, File, Get, Line, Part, Says, Told};

const FLAGS: &[&str] = &["--boa", "-d", "-f", "boa.conf"];

const BOA: Table = Table {
    dialect: Dialect::Boa,
    file: "boa.conf",
    plain: Case {
        flags: FLAGS,
        conf: "Port 0\nListen 127.0.0.1\nUser nobody\nDocumentRoot HOME/www\nDefaultType text/plain\n",
        rows: &[
            ("Port", Get("/plain"), "200 plain"),
            ("Listen", Line, "listen = [\"127.0.0.1:0\"]"),
            ("DocumentRoot", Get("/plain"), "200 plain"),
            ("-d", Get("/plain"), "200 plain"),
            ("-f", Get("/plain"), "200 plain"),
        ],
    },
    cases: &[
        Case {
            flags: FLAGS,
            conf: "Port 0\nListen 127.0.0.1\nUser daemon\nGroup nogroup\nBackLog 50\nServerAdmin root@b.example\nServerRoot HOME\n\
                   ServerName b.example\nErrorLog error_log\nAccessLog access_log\nCGILog cgi_log\nDocumentRoot www\n\
                   UserDir public_html\nDirectoryIndex index.html\nDirectoryMaker maker\nPidFile boa.pid\nKeepAliveMax 2\n\
                   KeepAliveTimeout 7\nMimeTypes mime.types\nDefaultType text/x-default\nDefaultCharset iso-8859-15\n\
                   AddType application/x-httpd-cgi cgi\nAddType text/x-two two\nScriptAlias /scripts/ scripts/\n\
                   Redirect /old http://b.example/new\nAlias /icons/ icons/\nSinglePostLimit 10\nCGIPath /bin:/usr/bin\n\
                   CGIumask 077\nCGIEnv COLOR dark blue\nCGINice 3\nCGIRlimitCpu 9\nCGIRlimitData 1073741824\n\
                   MaxConnections 77\nConcealServerIdentity\nDeny HOME/www/private/*\nAllow HOME/www/near/*\nDeny HOME/www/near*\n\
                   EnableHSTS max-age=60\n",
            rows: &[
                ("User", Line, "user = \"daemon\""),
                ("Group", Line, "group = \"nogroup\""),
                ("BackLog", Line, "backlog = 50"),
                ("ServerAdmin", Told("/run.cgi"), "SERVER_ADMIN=root@b.example"),
                ("ServerRoot", Get("/icons/i.png"), "200 icon"),
                ("ServerName", Told("/run.cgi"), "SERVER_NAME=b.example"),
                ("ErrorLog", Exists("error_log"), "there"),
                ("AccessLog", File("access_log"), "\"GET /icons/i.png HTTP/1.1\" 200"),
                ("CGILog", File("cgi_log"), "a message"),
                ("UserDir", Line, "user_folders = \"public_html\""),
                ("DirectoryIndex", Get("/"), "200 page"),
                ("DirectoryMaker", Get("/sub/"), "200 made of /sub/"),
                ("PidFile", File("boa.pid"), "PID"),
                ("KeepAliveMax", Field("/plain", "connection"), "none"),
                ("KeepAliveTimeout", Line, "idle = 7"),
                ("MimeTypes", Field("/a.own", "content-type"), "image/x-own"),
                ("DefaultType", Field("/plain", "content-type"), "text/x-default; charset=iso-8859-15"),
                ("DefaultCharset", Field("/index.html", "content-type"), "text/html; charset=iso-8859-15"),
                ("AddType", Field("/a.two", "content-type"), "text/x-two; charset=iso-8859-15"),
                ("ScriptAlias", Told("/scripts/env.sh"), "SCRIPT_NAME=/scripts/env.sh"),
                ("Redirect", Get("/old/a?b"), "302 http://b.example/new/a"),
                ("Alias", Get("/icons/i.png"), "200 icon"),
                (
                    "SinglePostLimit",
                    Ask("POST /run.cgi HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n01234567890"),
                    "413",
                ),
                ("CGIPath", Told("/run.cgi"), "PATH=/bin:/usr/bin"),
                ("CGIumask", Told("/run.cgi"), "umask=0077"),
                ("CGIEnv", Told("/run.cgi"), "COLOR=dark blue"),
                ("CGINice", Told("/run.cgi"), "nice=3"),
                ("CGIRlimitCpu", Told("/run.cgi"), "cpu=9"),
                ("CGIRlimitData", Told("/run.cgi"), "memory=1048576"),
                ("MaxConnections", Line, "connections = 77"),
                ("ConcealServerIdentity", Field("/plain", "server"), "none"),
                ("Deny", Get("/private/x"), "403"),
                ("Deny", Get("/private/none"), "403"),
                (
                    "ErrorLog",
                    File("error_log"),
                    "request \"GET /private/none HTTP/1.1\" (\"HOME/www/private/none\"): document open: Permission denied",
                ),
                ("EnableHSTS", Field("/plain", "strict-transport-security"), "max-age=60"),
            ],
        },
        // The first rule that matches counts.
        Case {
            flags: FLAGS,
            conf: "Port 0\nListen 127.0.0.1\nDocumentRoot HOME/www\nDefaultType text/plain\n\
                   Allow HOME/www/near/*\nDeny HOME/www/*\nAllow *\n",
            rows: &[("Allow", Get("/private/x"), "403")],
        },
        Case {
            flags: FLAGS,
            conf: "Port 0\nListen 127.0.0.1\nDocumentRoot HOME/names\nDefaultType text/plain\nDirectoryIndex index.html\nVirtualHost\n\
                   AccessLog HOME/access_log\n",
            rows: &[
                ("VirtualHost", Get("/"), "200 by address"),
                ("VirtualHost", File("access_log"), "127.0.0.1 127.0.0.1 - - ["),
            ],
        },
        Case {
            flags: FLAGS,
            conf: "Port 0\nListen 127.0.0.1\nDefaultType text/plain\nDirectoryIndex index.html\nVHostRoot HOME/hosts\nDefaultVHost other\n",
            rows: &[
                ("VHostRoot", Ask("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"), "200 by host"),
                ("DefaultVHost", Ask("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n"), "200 by other host"),
            ],
        },
        // A prison has all that is served.
        Case {
            flags: &["--boa", "-d", "-r", "HOME", "-c", "/", "-l", "3"],
            conf: "Port 0\nListen 127.0.0.1\nDocumentRoot /www\nDefaultType text/plain\nAlias /icons /icons\n",
            rows: &[("-r", Get("/icons/i.png"), "200 icon"), ("-c", Get("/icons/i.png"), "200 icon")],
        },
        Case {
            flags: &["--boa", "-d", "-l", "3", "-c", "HOME"],
            conf: "Port 0\nListen 127.0.0.1\nDocumentRoot HOME/www\nDefaultType text/plain\nAlias /icons icons\n",
            rows: &[("-l", Get("/icons/i.png"), "200 icon")],
        },
        Case {
            flags: FLAGS,
            conf: "Port 80\nDefaultType text/plain\nAuxLog HOME/aux\nChrootPath HOME\nNoRedirectPort\n",
            rows: &[
                ("AuxLog", Says, "boa.conf:3: note: AuxLog: no Boa has written this log"),
                ("ChrootPath", Says, "boa.conf:4: note: ChrootPath: no Boa has used it"),
                (
                    "NoRedirectPort",
                    Says,
                    "boa.conf:5: note: NoRedirectPort: redirects to folders have no port",
                ),
            ],
        },
        Case {
            flags: FLAGS,
            conf: "Port 0\nListen 127.0.0.1\nDocumentRoot HOME/www\nDefaultType text/plain\nScriptAlias /scripts/ HOME/scripts/\n\
                   UseLocaltime\nUseGMT\nVerboseCGILogs\nAccessLog HOME/access_log\nErrorLog HOME/error_log\nDirectoryCache none\n",
            rows: &[
                ("ScriptAlias", Told("/scripts/env.sh"), "SCRIPT_NAME=/scripts/env.sh"),
                ("UseGMT", File("access_log"), " +0000] \"GET /scripts/env.sh HTTP/1.1\" 200 "),
                ("VerboseCGILogs", File("error_log"), "] Forked child \"HOME/scripts/env.sh\" pid "),
                ("VerboseCGILogs", File("error_log"), ": status 0\n"),
                ("DirectoryCache", Part("/sub/"), "page.html"),
            ],
        },
        Case {
            flags: &["--boa", "-d", "-f", "boa.conf", "-L", "127.0.0.1", "-p", "0"],
            conf: "Port 80\nListen 192.0.2.1\nDocumentRoot HOME/www\nDefaultType text/plain\nAlias /icons HOME/icons\nUseLocaltime\nLogXFF\n\
                   LangRewrite\nCaudiumHack\nAccessLog HOME/access_log\n",
            rows: &[
                ("-L", Get("/icons/i.png"), "200 icon"),
                ("-p", Get("/icons/i.png"), "200 icon"),
                ("UseLocaltime", Line, "timezone = \"local\""),
                ("LogXFF", File("access_log"), "(127.0.0.1) - - ["),
                ("LangRewrite", Get("/sub/page.de.html"), "200 sub"),
                ("CaudiumHack", Get("/(de)/plain"), "200 plain"),
                ("CaudiumHack", Get("/(de)/sub/page.de.html"), "200 sub"),
            ],
        },
    ],
    // Boa put its port into this redirect. Here it has none, so that a client keeps its own.
    neutral: &[Case {
        flags: FLAGS,
        conf: "Port 0\nListen 127.0.0.1\nDocumentRoot HOME/www\nDefaultType text/plain\nNoRedirectPort\n",
        rows: &[("NoRedirectPort", Get("/sub"), "301 /sub/")],
    }],
    needless: &[],
    printed: &[("-h", &["--boa", "-h"], "Usage: boa")],
};

#[test]
fn boa() {
    check(&BOA);
}
