//! The flags and options of uhttpd.

use dialects::Dialect;

use crate::rows::{Case, Look, Table, check};

use Look::{Field, Get, Line, Says, Secure, Told};

/// Flags behind those that all processes have.
macro_rules! flags {
    ($($flag:literal),*) => {
        &["--uhttpd", "-f", "-p", "127.0.0.1:0", $($flag),*]
    };
}

const UHTTPD: Table = Table {
    dialect: Dialect::Uhttpd,
    file: "uhttpd",
    plain: Case {
        flags: flags!["-h", "HOME/www"],
        conf: "config uhttpd main\n\tlist listen_http 127.0.0.1:0\n\toption home HOME/www\n",
        rows: &[
            ("listen_http", Line, "listen = [\"127.0.0.1:0\"]"),
            ("home", Line, "root = \"HOME/www\""),
            ("-f", Get("/plain"), "200 plain"),
            ("-p", Get("/plain"), "200 plain"),
            ("-h", Get("/plain"), "200 plain"),
        ],
    },
    cases: &[
        Case {
            flags: flags![
                "-h",
                "HOME/www",
                "-c",
                "HOME/paths.users",
                "-E",
                "/missing.html",
                "-I",
                "other.html",
                "-D",
                "-S",
                "-y",
                "/env=/cgi-bin",
                "-i",
                ".cgi=/bin/sh",
                "-r",
                "Own",
                "-k",
                "0",
                "-t",
                "1"
            ],
            conf: "",
            rows: &[
                ("-c", Get("/locked/x"), "401"),
                ("-c", Get("/lockedx"), "401"),
                ("-c", Get("/LOCKED.txt"), "401"),
                ("-E", Get("/none"), "200 not here"),
                ("-I", Get("/"), "200 other"),
                ("-S", Get("/out"), "403"),
                ("-y", Told("/env"), "REQUEST_URI=/env"),
                ("-i", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("-r", Field("/locked/x", "www-authenticate"), "Basic realm=\"Own\", charset=\"UTF-8\""),
                ("-k", Field("/plain", "connection"), "close"),
                ("-t", Get("/cgi-bin/slow"), "504"),
            ],
        },
        Case {
            flags: flags!["-h", "HOME", "-x", "/scripts/", "-D"],
            conf: "",
            rows: &[
                ("-x", Told("/scripts/env.sh"), "SCRIPT_NAME=/scripts/env.sh"),
                ("-D", Get("/docs/"), "403"),
            ],
        },
        Case {
            flags: &[
                "--uhttpd",
                "-f",
                "-s",
                "127.0.0.1:0",
                "-C",
                "HOME/certificate.pem",
                "-K",
                "HOME/key.pem",
                "-h",
                "HOME/www",
            ],
            conf: "",
            rows: &[("-s", Secure, "200"), ("-C", Secure, "200"), ("-K", Secure, "200")],
        },
        Case {
            flags: &[],
            conf: "config httpauth staff\n\toption prefix /private\n\toption username ann\n\toption password 'open sesame'\n\
                   config uhttpd main\n\tlist listen_http 127.0.0.1:0\n\toption home HOME/www\n\toption realm Own\n\
                   \toption config HOME/paths.users\n\tlist alias /env=/cgi-bin\n\tlist interpreter .cgi=/bin/sh\n\
                   \tlist index_page other.html\n\toption error_page /missing.html\n\toption script_timeout 9\n\
                   \toption network_timeout 8\n\toption http_keepalive 7\n\toption tcp_keepalive 1\n\toption max_requests 5\n\
                   \toption max_connections 77\n\toption no_symlinks 1\n\toption rfc1918_filter 1\n\
                   \tlist httpauth staff\n",
            rows: &[
                ("realm", Field("/private/x", "www-authenticate"), "Basic realm=\"Own\", charset=\"UTF-8\""),
                ("config", Get("/locked/x"), "401"),
                ("alias", Told("/env"), "REQUEST_URI=/env"),
                ("interpreter", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("index_page", Get("/"), "200 other"),
                ("error_page", Get("/none"), "200 not here"),
                ("script_timeout", Line, "first_byte = 9"),
                ("network_timeout", Line, "head = 8"),
                ("http_keepalive", Line, "idle = 7"),
                ("tcp_keepalive", Says, "note: TCP keep-alive has no effect"),
                ("max_requests", Line, "processes = 5"),
                ("max_connections", Line, "connections = 77"),
                ("no_symlinks", Get("/out"), "403"),
                (
                    "rfc1918_filter",
                    Line,
                    "server_address = [\"!10.0.0.0/8\", \"!172.16.0.0/12\", \"!192.168.0.0/16\"]",
                ),
                ("httpauth", Get("/private/x"), "401"),
            ],
        },
        Case {
            flags: &[],
            conf: "config uhttpd main\n\tlist listen_http 127.0.0.1:0\n\tlist listen_https 127.0.0.2:0\n\tlist index_page scripts/env.sh\n\toption no_dirlists 1\n\toption home HOME\n\
                   \toption cert HOME/certificate.pem\n\toption key HOME/key.pem\n\toption cgi_prefix /scripts\n",
            rows: &[
                ("listen_https", Secure, "200"),
                ("cert", Secure, "200"),
                ("key", Secure, "200"),
                ("no_dirlists", Get("/docs/"), "403"),
                ("cgi_prefix", Told("/scripts/env.sh"), "SCRIPT_NAME=/scripts/env.sh"),
                ("index_page", Told("/"), "SCRIPT_NAME=/scripts/env.sh"),
            ],
        },
        Case {
            flags: &[],
            conf: "config uhttpd main\n\tlist listen_https 443\n\toption home HOME\n\toption redirect_https 1\n\
                   \toption cert HOME/certificate.pem\n\toption key HOME/key.pem\n\tlist lua_prefix /lua\n\toption lua_handler HOME/key.pem\n\
                   \tlist ucode_prefix /uc=HOME/key.pem\n\tlist json_script HOME/key.pem\n\toption ubus_prefix /ubus\n\
                   \toption ubus_socket /run/ubus.sock\n\toption no_ubusauth 1\n\toption ubus_cors 1\n",
            rows: &[
                ("redirect_https", Line, "https_redirect = true"),
                ("lua_prefix", Says, "uhttpd:7: /lua: Lua cannot be run"),
                ("lua_handler", Says, "uhttpd:7: /lua: Lua cannot be run"),
                ("ucode_prefix", Says, "uhttpd:9: /uc: ucode cannot be run"),
                ("json_script", Says, "key.pem: JSON scripts cannot be run"),
                ("ubus_prefix", Says, "uhttpd:11: /ubus: there is no JSON-RPC for ubus"),
                ("ubus_socket", Says, "uhttpd:12: note: the socket of ubus has no effect"),
                ("no_ubusauth", Says, "uhttpd:13: note: passwords of ubus have no effect"),
                ("ubus_cors", Says, "uhttpd:14: note: fields for other origins"),
            ],
        },
    ],
    // The network of a test has one address, and it is neither slow nor crowded.
    neutral: &[Case {
        flags: flags![
            "-h",
            "HOME/www",
            "-R",
            "-q",
            "-n",
            "5",
            "-N",
            "77",
            "-T",
            "8",
            "-A",
            "1",
            "-a",
            "-X",
            "-U",
            "/run/ubus.sock",
            "-P",
            "ECDHE-RSA-AES128-GCM-SHA256"
        ],
        conf: "",
        rows: &[
            ("-R", Get("/plain"), "200 plain"),
            ("-q", Get("/plain"), "200 plain"),
            ("-n", Told("/cgi-bin/env"), "SCRIPT_NAME=/cgi-bin/env"),
            ("-N", Get("/plain"), "200 plain"),
            ("-T", Get("/plain"), "200 plain"),
            ("-A", Get("/plain"), "200 plain"),
            ("-a", Get("/plain"), "200 plain"),
            ("-X", Get("/plain"), "200 plain"),
            ("-U", Get("/plain"), "200 plain"),
            ("-P", Get("/plain"), "200 plain"),
        ],
    }],
    needless: &[],
    printed: &[
        ("-d", &["--uhttpd", "-d", "a%20b"], "a b"),
        ("-m", &["--uhttpd", "-m", "a"], "taipan passwd"),
        ("-l", flags!["-l", "/x=/y.lua"], "/x: Lua cannot be run in the server"),
        ("-L", flags!["-l", "/x", "-L", "/y"], "/x: Lua cannot be run in the server"),
        ("-o", flags!["-o", "/x=/y.uc"], "/x: ucode cannot be run in the server"),
        ("-O", flags!["-o", "/x", "-O", "/y"], "/x: ucode cannot be run in the server"),
        ("-u", flags!["-u", "/ubus"], "there is no JSON-RPC for ubus"),
        ("-H", flags!["-H", "/x.json"], "JSON scripts cannot be run"),
    ],
};

#[test]
fn uhttpd() {
    check(&UHTTPD);
}
