//! The lines and flags of busybox httpd.

use dialects::Dialect;

use crate::rows::{Case, Look, Table, check};

use Look::{Ask, Field, Get, Logged, Part, Told};

const ANN: &str = "GET /private/x HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YW5uOm9wZW4gc2VzYW1l\r\n\r\n";

const BUSYBOX: Table = Table {
    dialect: Dialect::Busybox,
    file: "httpd.conf",
    plain: Case {
        flags: &["--busybox", "-f", "-p", "127.0.0.1:0", "-h", "HOME/www", "-c", "HOME/httpd.conf"],
        conf: "",
        rows: &[
            ("-f", Get("/plain"), "200 plain"),
            ("-p", Get("/plain"), "200 plain"),
            ("-h", Get("/plain"), "200 plain"),
        ],
    },
    cases: &[
        Case {
            flags: &[
                "--busybox",
                "-f",
                "-v",
                "-p",
                "127.0.0.1:0",
                "-c",
                "HOME/httpd.conf",
                "-h",
                "HOME/names",
                "-r",
                "Own",
                "-u",
                "daemon",
            ],
            conf: "H:HOME/www\nE404:missing.html\nI:other.html\n.own:image/x-own\n/private:ann:open sesame\n*.cgi:/bin/sh\n\
                   P:/up/:UPSTREAM/\nA:127.\nD:*\n",
            rows: &[
                ("H", Get("/"), "200 other"),
                ("E", Get("/none"), "404 not here"),
                ("I", Get("/"), "200 other"),
                (".", Field("/a.own", "content-type"), "image/x-own"),
                ("/", Get("/private/x"), "401"),
                ("/", Ask(ANN), "401"),
                ("*", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("P", Part("/up/a"), "GET /a HTTP/1.1"),
                ("A", Get("/none"), "404 not here"),
                ("-v", Logged, "\"GET /none HTTP/1.1\" 404"),
                ("-c", Get("/"), "200 other"),
                ("-r", Field("/private/x", "www-authenticate"), "Basic realm=\"Own\", charset=\"UTF-8\""),
                ("-u", Told("/run.cgi"), "account=daemon"),
            ],
        },
        Case {
            flags: &["--busybox", "-f", "-p", "127.0.0.1:0", "-c", "HOME/httpd.conf", "-h", "HOME/www"],
            conf: "A:192.0.2.\nD:*\n",
            rows: &[("D", Get("/plain"), "403")],
        },
    ],
    neutral: &[],
    needless: &[],
    printed: &[
        ("-d", &["--busybox", "-d", "a%20b"], "a b"),
        ("-e", &["--busybox", "-e", "a<"], "a&#60;"),
        ("-m", &["--busybox", "-m", "a"], "taipan passwd"),
        ("-i", &["--busybox", "-i"], "remove -i"),
    ],
};

#[test]
fn busybox() {
    check(&BUSYBOX);
}
