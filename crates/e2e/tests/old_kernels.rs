//! The program on kernels that lack what newer ones have, as on devices: a filter makes the calls fail that a kernel of
//! this version does not have.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use e2e::{Rows, Server, Site, TIMEOUT, path_of, wait_until};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

type Version = (u32, u32);

/// Calls, and the version that has brought them.
const CALLS: &[(Version, c_long)] = &[
    ((3, 15), libc::SYS_renameat2),
    ((3, 17), libc::SYS_getrandom),
    ((3, 17), libc::SYS_memfd_create),
    ((3, 17), libc::SYS_seccomp),
    ((3, 19), libc::SYS_execveat),
    ((4, 3), libc::SYS_membarrier),
    ((4, 5), libc::SYS_copy_file_range),
    ((4, 6), libc::SYS_preadv2),
    ((4, 6), libc::SYS_pwritev2),
    ((4, 11), libc::SYS_statx),
    ((5, 1), libc::SYS_pidfd_send_signal),
    ((5, 1), libc::SYS_io_uring_setup),
    ((5, 3), libc::SYS_pidfd_open),
    ((5, 3), libc::SYS_clone3),
    ((5, 6), libc::SYS_openat2),
    ((5, 8), libc::SYS_faccessat2),
    ((5, 9), libc::SYS_close_range),
    ((5, 11), libc::SYS_epoll_pwait2),
    ((5, 13), libc::SYS_landlock_create_ruleset),
];
/// Bits of an argument of a call, the version that has brought them, and the error of an earlier one.
const ARGUMENTS: &[(Version, c_long, u8, u32, i32)] = &[
    ((3, 11), libc::SYS_openat, 2, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32, libc::EISDIR),
    ((4, 13), libc::SYS_preadv2, 5, libc::RWF_NOWAIT as u32, libc::EINVAL),
    ((5, 4), libc::SYS_waitid, 0, libc::P_PIDFD, libc::EINVAL),
    ((5, 10), libc::SYS_pidfd_open, 1, libc::PIDFD_NONBLOCK, libc::EINVAL),
    ((6, 9), libc::SYS_pidfd_send_signal, 3, 4, libc::EINVAL),
];

/// Starts the site, which has one address, in a thread whose system calls are filtered, and so are those of the program.
fn start_on(filters: Vec<BpfProgram>, site: Site) -> Server {
    let started = thread::spawn(move || {
        for filter in filters {
            seccompiler::apply_filter(&filter).expect("system calls can be filtered");
        }
        site.start_with(1, |site| {
            let mut taipan = e2e::command();
            taipan.arg("-c").arg(site.write_config());
            taipan
        })
    });
    started.join().expect("the program starts")
}

/// A kernel of this version. The last filter forbids the call by which filters are loaded.
fn filters(version: Version) -> Vec<BpfProgram> {
    let bits =
        ARGUMENTS.iter().filter(|(since, ..)| version < *since).map(|(_, call, argument, bits, error)| {
            let mask = SeccompCmpOp::MaskedEq(u64::from(*bits));
            let condition =
                SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, mask, u64::from(*bits)).unwrap();
            (BTreeMap::from([(*call, vec![SeccompRule::new(vec![condition]).unwrap()])]), *error)
        });
    let absent = CALLS.iter().filter(|(since, _)| version < *since).map(|(_, call)| (*call, Vec::new()));
    bits.chain([(absent.collect(), libc::ENOSYS)]).map(|(rules, error)| filter(rules, error)).collect()
}

/// Calls to which a rule applies fail with this error.
fn filter(rules: BTreeMap<c_long, Vec<SeccompRule>>, error: i32) -> BpfProgram {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).expect("filters know the processor");
    let error = SeccompAction::Errno(error as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, architecture);
    filter.and_then(BpfProgram::try_from).expect("the filter is valid")
}

fn site() -> Site {
    let site = Site::new()
        .file("page.html", "page")
        .file("large", vec![b'x'; 300_000])
        .file("secret/page.html", "secret")
        .file("shared/folder/inner/a.txt", "a")
        .script("hello.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nhello'; cat\n")
        .script("fail.cgi", "#!/bin/sh\nexit 3\n")
        .script_beside_root("app.sh", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\napplication'\n")
        .file_beside_root("users", "ann:Members:0123456789abcdef0123456789abcdef\n")
        .file_beside_root("piped", "");
    for path in ["", "piped", "www", "www/shared"] {
        // For the account that serves, too.
        let mode = match path {
            "piped" => 0o666,
            "www/shared" => 0o777,
            _ => 0o755,
        };
        fs::set_permissions(site.home().join(path), Permissions::from_mode(mode)).expect("it is our file");
    }
    let (home, tee) = (site.home().display().to_string(), path_of("tee"));
    let taipan = e2e::program().display().to_string();
    site.config(&format!(
        r#"workers = 2
pid_file = "pid"
listing = true
[log]
access = "|{tee} -a {home}/piped"
[scripts]
grace = "1s"
[[route]]
path = "*.cgi"
cgi = true
max_body = "1MiB"
[[route]]
path = "/secret/"
auth = "digest"
realm = "Members"
user_files = ["users"]
[[route]]
path = "/shared/"
publish = "webdav"
publish_anonymous = true
[[route]]
path = "/app/"
application = "app"
[[application]]
name = "app"
command = ["{taipan}", "fcgi-wrap", "{home}/app.sh"]
processes = 1
"#
    ))
}

fn send(server: &Server, method: &str, path: &str, fields: &str) -> u16 {
    server.request(format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).status
}

#[test]
fn a_machine_without_ipv6_serves_its_other_addresses() {
    let is_ipv6 = SeccompCmpOp::Eq;
    let family = SeccompCondition::new(0, SeccompCmpArgLen::Dword, is_ipv6, libc::AF_INET6 as u64).unwrap();
    let rule = SeccompRule::new(vec![family]).unwrap();
    let without = filter(BTreeMap::from([(libc::SYS_socket, vec![rule])]), libc::EAFNOSUPPORT);
    let listen = "listen = [\"127.0.0.1:0\", \"[::]:0\"]";
    let server = start_on(vec![without], Site::new().file("page.html", "page").config(listen));
    assert_eq!(server.get("/page.html").text(), "page");
    server.wait_for_line("warn: [::]:0 is left out: this machine has no IPv6", TIMEOUT);
}

#[test]
fn old_kernels_serve_everything() {
    let mut rows = Rows::new();
    for version in [(3, 10), (4, 4), (4, 9), (4, 14), (5, 2), (5, 4), (5, 10)] {
        let mut server = start_on(filters(version), site());
        let mut row = |what: &str, found: &str, expected: &str| {
            rows.check(
                format!("Linux {}.{}: {what}", version.0, version.1),
                found.to_owned(),
                expected.to_owned(),
            );
        };
        let check = |row: &mut dyn FnMut(&str, &str, &str), when: &str| {
            row(&format!("{when}: a file"), &server.get("/page.html").text(), "page");
            row(&format!("{when}: a script"), &server.get("/hello.cgi").text(), "hello");
            row(&format!("{when}: an application"), &server.get("/app/x").text(), "application");
        };
        check(&mut row, "at first");
        row("a large file", &server.get("/large").body.len().to_string(), "300000");
        row("a listing", &server.get("/").text().contains("page.html").to_string(), "true");
        row("a script that fails", &server.get("/fail.cgi").status.to_string(), "502");
        let chunked =
            "POST /hello.cgi HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n!!\r\n0\r\n\r\n";
        row("a body of unknown length", &server.request(chunked).text(), "hello!!");
        row("a challenge", &server.get("/secret/page.html").status.to_string(), "401");
        for (method, path, fields, expected) in [
            ("PUT", "/shared/new", "Content-Length: 0\r\n", 201),
            ("COPY", "/shared/folder/", "Destination: /shared/copy/\r\n", 201),
            ("COPY", "/shared/folder/", "Destination: /shared/copy/\r\n", 204),
            ("MOVE", "/shared/copy/", "Destination: /shared/moved/\r\n", 201),
            ("MKCOL", "/shared/made/", "", 201),
            ("DELETE", "/shared/folder/", "", 204),
            ("GET", "/shared/moved/inner/a.txt", "", 200),
        ] {
            let found = send(&server, method, path, fields).to_string();
            row(&format!("{method} {path}"), &found, &expected.to_string());
        }
        let piped = server.home().join("piped");
        let is_logged = || fs::read_to_string(&piped).is_ok_and(|text| text.contains("GET /large"));
        row("a log of a command", &wait_until(TIMEOUT, is_logged).to_string(), "true");
        row("a reload", &format!("{:?}", server.run_command(&["reload"]).status.code()), "Some(0)");
        check(&mut row, "after a reload");
        row("an upgrade", &format!("{:?}", server.run_command(&["upgrade"]).status.code()), "Some(0)");
        check(&mut row, "after an upgrade");
        let pid = fs::read_to_string(server.home().join("pid")).unwrap_or_default();
        server.succeeded_by(pid.trim().parse().expect("the program has written its number"));
    }
}
