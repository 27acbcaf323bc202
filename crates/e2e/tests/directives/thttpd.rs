//! The keywords and flags of thttpd.

use dialects::Dialect;

use crate::rows::{Case, Look, Table, check};

use Look::{Ask, Field, FieldOf, File, Get, Line, NoLine, Told};

const FLAGS: &[&str] = &["--thttpd", "-D", "-C", "thttpd.conf"];
const OTHER: &str = "GET /i.png HTTP/1.1\r\nHost: x\r\nReferer: http://other.example/\r\n\r\n";
const OWN: &str = "GET /i.png HTTP/1.1\r\nHost: x\r\nReferer: http://a.local.example/\r\n\r\n";
const NAMED: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

const THTTPD: Table = Table {
    dialect: Dialect::Thttpd,
    file: "thttpd.conf",
    plain: Case {
        flags: FLAGS,
        conf: "port=0 host=127.0.0.1 dir=HOME/www\nlogfile=/dev/null\n",
        rows: &[
            ("port", Get("/plain"), "200 plain"),
            ("host", Line, "listen = [\"127.0.0.1:0\"]"),
            ("dir", Get("/plain"), "200 plain"),
            ("-C", Get("/plain"), "200 plain"),
            ("-D", Get("/plain"), "200 plain"),
        ],
    },
    cases: &[
        Case {
            flags: FLAGS,
            conf: "port=0 host=127.0.0.1 dir=HOME data_dir=www # comment\nuser=daemon\ncgipat=**.cgi\ncgilimit=7\n\
                   throttles=HOME/throttles logfile=HOME/log pidfile=HOME/t.pid\ncharset=utf-8 p3p=CP=NOI max_age=60\n\
                   urlpat=**.png localpat=*.local.example\nnosymlink\ndebug globalpasswd\n",
            rows: &[
                ("data_dir", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("user", Line, "user = \"daemon\""),
                ("cgipat", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("cgilimit", Line, "processes = 7"),
                ("throttles", Line, "throttle_file = \"HOME/throttles\""),
                ("logfile", File("log"), "\"GET /run.cgi HTTP/1.1\" 200"),
                ("pidfile", File("t.pid"), "PID"),
                ("charset", Field("/index.html", "content-type"), "text/html; charset=utf-8"),
                ("p3p", Field("/plain", "p3p"), "CP=NOI"),
                ("max_age", Field("/plain", "cache-control"), "max-age=60"),
                ("urlpat", Ask(OTHER), "403"),
                ("localpat", FieldOf(OWN, "cache-control"), "max-age=60"),
                ("nosymlink", Get("/out"), "200 icon"),
                ("debug", Line, "error = \"stderr\""),
                // The password of a folder counts beneath it, too.
                ("globalpasswd", Line, "folder_passwords = \"inherited\""),
            ],
        },
        Case {
            flags: FLAGS,
            conf: "port=0 host=127.0.0.1 dir=HOME/names logfile=/dev/null vhost nosymlinks urlpat=**.html noemptyreferers\n",
            rows: &[
                (
                    "vhost",
                    Ask("GET /index.html HTTP/1.1\r\nHost: a.example\r\nReferer: http://a.example/\r\n\r\n"),
                    "200 by name",
                ),
                ("noemptyreferers", Ask("GET /index.html HTTP/1.1\r\nHost: a.example\r\n\r\n"), "403"),
                ("nosymlinks", Line, "symlinks = \"follow\""),
            ],
        },
        Case {
            flags: FLAGS,
            conf: "chroot nosymlinkcheck noemptyreferrers urlpat=**.png\n",
            rows: &[
                ("chroot", NoLine, "symlinks = \"b"),
                ("nosymlinkcheck", NoLine, "symlinks = \"b"),
                ("noemptyreferrers", Line, "referer = [\"!self\"]"),
            ],
        },
        Case {
            flags: &[
                "--thttpd",
                "-D",
                "-h",
                "127.0.0.1",
                "-p",
                "0",
                "-d",
                "HOME",
                "-dd",
                "www",
                "-u",
                "nobody",
                "-c",
                "**.cgi",
                "-t",
                "HOME/throttles",
                "-l",
                "HOME/log",
                "-i",
                "HOME/t.pid",
                "-T",
                "utf-8",
                "-P",
                "CP=NOI",
                "-M",
                "60",
                "-nos",
            ],
            conf: "",
            rows: &[
                ("-d", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("-dd", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("-h", Told("/run.cgi"), "REMOTE_ADDR=127.0.0.1"),
                ("-p", Told("/run.cgi"), "REMOTE_ADDR=127.0.0.1"),
                ("-c", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("-u", Told("/run.cgi"), "account=nobody"),
                ("-l", File("log"), "\"GET /run.cgi HTTP/1.1\" 200"),
                ("-i", File("t.pid"), "PID"),
                ("-T", Field("/index.html", "content-type"), "text/html; charset=utf-8"),
                ("-P", Field("/plain", "p3p"), "CP=NOI"),
                ("-M", Field("/plain", "cache-control"), "max-age=60"),
                ("-nos", Get("/out"), "200 icon"),
            ],
        },
        Case {
            flags: &[
                "--thttpd",
                "-D",
                "-h",
                "127.0.0.1",
                "-p",
                "0",
                "-d",
                "HOME/names",
                "-l",
                "/dev/null",
                "-v",
            ],
            conf: "",
            rows: &[("-v", Ask(NAMED), "200 by name")],
        },
        // All files are protected by the password of the first folder.
        Case {
            flags: &[
                "--thttpd",
                "-D",
                "-h",
                "127.0.0.1",
                "-p",
                "0",
                "-d",
                "HOME/www/locked",
                "-l",
                "/dev/null",
                "-r",
                "-g",
            ],
            conf: "",
            rows: &[("-g", Get("/x"), "401"), ("-r", Get("/x"), "401")],
        },
    ],
    neutral: &[
        Case {
            flags: FLAGS,
            conf: "port=0 host=127.0.0.1 dir=HOME/www logfile=/dev/null nosymlink symlink vhost novhost chroot nochroot\n\
                   globalpasswd noglobalpasswd\n",
            rows: &[
                ("symlink", Get("/out"), "403"),
                ("novhost", Get("/plain"), "200 plain"),
                ("nochroot", NoLine, "chroot = "),
                ("noglobalpasswd", Line, "folder_passwords = \"folder\""),
            ],
        },
        Case {
            flags: &[
                "--thttpd",
                "-h",
                "127.0.0.1",
                "-p",
                "0",
                "-d",
                "HOME/www",
                "-l",
                "/dev/null",
                "-v",
                "-nov",
                "-r",
                "-nor",
                "-g",
                "-nog",
                "-nos",
                "-s",
                "-D",
            ],
            conf: "",
            rows: &[
                ("-nov", Get("/plain"), "200 plain"),
                ("-nor", Get("/plain"), "200 plain"),
                ("-nog", Get("/plain"), "200 plain"),
                ("-s", Get("/out"), "403"),
            ],
        },
        Case {
            flags: FLAGS,
            conf: "port=0 host=127.0.0.1 dir=HOME/www logfile=/dev/null nosymlinks symlinks\n",
            rows: &[("symlinks", Get("/out"), "403")],
        },
        Case {
            flags: FLAGS,
            conf: "port=0 host=127.0.0.1 dir=HOME/www logfile=/dev/null nosymlinks symlinkcheck\n",
            rows: &[("symlinkcheck", Get("/out"), "403")],
        },
    ],
    needless: &[],
    printed: &[
        ("-V", &["--thttpd", "-V"], "taipan "),
        (
            "-t",
            &["--thttpd", "-D", "-h", "127.0.0.1", "-p", "0", "-d", "www", "-t", "no-such-file"],
            "no-such-file",
        ),
    ],
};

#[test]
fn thttpd() {
    check(&THTTPD);
}
