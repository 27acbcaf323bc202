//! Scripts with their own accounts: their ids, what they can do to the server, and what the server can still
//! do to them. Accounts are numbers here, so that they need not exist.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use e2e::{
    ControlGroup, Rows, Server, Signal, Site, TIMEOUT, command, command_without_privilege, output_of,
    program, run, tool, wait_until, without_privilege,
};

/// The account of the server. Concurrent tests have other accounts.
fn of_the_server() -> u32 {
    3_000_000_000 + std::process::id() % 0x1000_0000 * 4
}

/// The account of scripts.
fn of_scripts() -> u32 {
    of_the_server() + 1
}

/// The account of scripts that stop all processes of the account.
fn of_attackers() -> u32 {
    of_the_server() + 3
}

fn account(id: u32) -> String {
    format!("user = \"{id}\"\ngroup = \"{id}\"\n")
}

/// A server with its own account. `*.cgi` runs as another one, and scripts in `/own/` run as the server's.
fn start(site: Site, scripts: &str) -> Server {
    open_to_all(site.home());
    let (own, other, attackers) = (of_the_server(), of_scripts(), of_attackers());
    let (own, other, attackers) = (account(own), account(other), account(attackers));
    let config = format!(
        "{own}[[route]]\npath = \"/attack/\"\ncgi = true\n{attackers}[[route]]\npath = \"*.cgi\"\ncgi = true\n{other}\
         [[route]]\npath = \"/own/\"\ncgi = true\n[scripts]\ngrace = \"300ms\"\n{scripts}"
    );
    site.config(&config).start()
}

fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("it is our folder");
}

fn shell(text: &str) -> String {
    format!("#!/bin/sh\nprintf 'X-A: b\\n\\n'\n{text}\n")
}

/// Prints its ids, and tries to read the memory of the processes whose numbers are in its query, to trace
/// them, and after a leading `kill` to kill them.
const ATTACK: &str = r#"#!/usr/bin/python3
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print("X-A: b\n")
print("ids", *os.getresuid(), *os.getresgid(), *os.getgroups())
for line in open("/proc/self/status"):
    if line.startswith(("Cap", "NoNewPrivs")):
        print(line.strip().replace("\t", " "))
def attempt(what, pid, act):
    try:
        act()
        print("DONE", what, pid)
    except OSError as error:
        print("refused", what, pid)
def trace(pid):
    ATTACH = 16
    if libc.ptrace(ATTACH, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
words = os.environ["QUERY_STRING"].split("+")
for word in words:
    if word == "kill":
        continue
    pid = int(word)
    attempt("memory", pid, lambda: open(f"/proc/{pid}/mem", "rb"))
    attempt("environment", pid, lambda: open(f"/proc/{pid}/environ", "rb").read())
    attempt("trace", pid, lambda: trace(pid))
    if "kill" in words:
        attempt("kill", pid, lambda: os.kill(pid, 9))
"#;

#[test]
fn a_script_of_another_account_cannot_affect_the_server_as_root() {
    let server = start(Site::new().script("a.cgi", ATTACK).script("own/a", ATTACK), "");
    let processes = [vec![server.pid()], server.children()].concat();
    assert!(processes.len() >= 3, "master, worker and what starts scripts");
    let query = processes.iter().map(u32::to_string).collect::<Vec<_>>().join("+");
    let mut rows = Rows::new();
    for (target, user, attempts) in [
        (format!("/a.cgi?kill+{query}"), of_scripts(), 4),
        // It could end the server, but can neither read nor change its memory.
        (format!("/own/a?{query}"), of_the_server(), 3),
    ] {
        let printed = server.get(&target).text();
        let ids = format!("ids{}\n", format!(" {user}").repeat(7));
        rows.holds(&target, "it has the ids of its account alone", printed.starts_with(&ids));
        for line in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            let none = format!("{line} 0000000000000000\n");
            rows.holds(&target, "it has no capability", printed.contains(&none));
        }
        rows.holds(&target, "it gets no privilege", printed.contains("NoNewPrivs: 1\n"));
        let refused = printed.lines().filter(|line| line.starts_with("refused")).count();
        rows.check(&target, refused, attempts * processes.len());
        rows.holds(&target, &printed, !printed.contains("DONE"));
    }
    rows.check("the processes are the same", [vec![server.pid()], server.children()].concat(), processes);
}

/// Prints its user, gives the file `own` to another user, as a script that sets up a device would, and does so
/// once more with the file `other` by a program that is set-user-ID root.
const PRIVILEGED: &str = "#!/bin/sh\nprintf 'X-A: b\\n\\n'\nid -u\nchown 12345 own 2>/dev/null && echo itself\n\
                          ./set-user-id 12345 other 2>/dev/null && echo by a program\n";

#[test]
fn scripts_gain_privileges_where_the_configuration_lets_them_as_root() {
    let nobody = of_the_server().to_string();
    let mut rows = Rows::new();
    for (user, keys, expected) in [
        ("root", "", ""),
        ("root", "new_privileges = true", "itself\nby a program\n"),
        ("root", "new_privileges = false", ""),
        (&*nobody, "", ""),
        (&*nobody, "new_privileges = true", "by a program\n"),
    ] {
        let site = Site::new().script("cgi/a.cgi", PRIVILEGED).file("cgi/own", "").file("cgi/other", "");
        let program = site.root().join("cgi/set-user-id");
        fs::copy("/bin/chown", &program).expect("it is a file of every system");
        fs::set_permissions(&program, Permissions::from_mode(0o4755)).expect("it is our file");
        open_to_all(site.home());
        let group = if user == "root" { "root" } else { user };
        let config = format!(
            "user = \"{user}\"\ngroup = \"{group}\"\n[[route]]\npath = \"*.cgi\"\ncgi = true\n[scripts]\n{keys}\n"
        );
        let server = site.config(&config).start();
        let number = if user == "root" { "0" } else { user };
        let printed = server.get("/cgi/a.cgi").text();
        rows.check(format!("{user}, {keys}"), printed, format!("{number}\n{expected}"));
    }
}

#[test]
fn without_root_a_script_can_neither_read_nor_trace_the_server() {
    let site = Site::new().script("a.cgi", ATTACK);
    let config = format!("{}\n[[route]]\npath = \"*.cgi\"\ncgi = true\n", without_privilege());
    let site = site.config(&config);
    let command = command_without_privilege(site.home());
    let server = site.start_by(command);
    let processes = [vec![server.pid()], server.children()].concat();
    let query = processes.iter().map(u32::to_string).collect::<Vec<_>>().join("+");
    let printed = server.get(&format!("/a.cgi?{query}")).text();
    let refused = printed.lines().filter(|line| line.starts_with("refused")).count();
    assert!(refused == 3 * processes.len() && !printed.contains("DONE"), "{printed}");
}

#[test]
fn a_script_of_another_account_can_open_its_streams_by_name_as_root() {
    let text =
        "#!/bin/sh\nprintf 'X-A: b\\n\\n' >/dev/stdout\nid -u\ncat /dev/stdin\necho complaint >/dev/stderr\n";
    let site = Site::new().script("a.cgi", text).file_beside_root("spool/none", "");
    fs::set_permissions(site.home().join("spool"), Permissions::from_mode(0o777)).unwrap();
    let server = start(site, "spool = \"spool\"\n");
    let printed = |body: &str| format!("{}\n{body}", of_scripts());
    for (request, body) in [
        ("GET /a.cgi HTTP/1.1\r\nHost: a\r\n\r\n", ""),
        ("POST /a.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nsized", "sized"),
        (
            "POST /a.cgi HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nspooled\r\n0\r\n\r\n",
            "spooled",
        ),
    ] {
        assert_eq!(server.request(request).text(), printed(body));
    }
    let has_all = || server.stderr().matches("complaint").count() == 3;
    assert!(wait_until(TIMEOUT, has_all), "{}", server.stderr());
}

#[test]
fn a_script_of_another_account_ends_with_its_client_and_with_the_server_as_root() {
    // Neither the script nor its child ends on SIGTERM.
    let text = "trap '' TERM\necho $$ >$0.pid.new; mv $0.pid.new $0.pid\n(while :; do sleep 1; done) &\n\
                while :; do sleep 1; done";
    let site = Site::new().script("folder/a.cgi", shell(text));
    fs::set_permissions(site.root().join("folder"), Permissions::from_mode(0o777)).unwrap();
    let mut server = start(site, "");
    let file = server.root().join("folder/a.cgi.pid");
    let begin = || {
        let mut client = server.connect();
        client.send("GET /folder/a.cgi HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(wait_until(TIMEOUT, || file.exists()), "it does not start: {}", server.stderr());
        let leader: u32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        fs::remove_file(&file).unwrap();
        (client, leader)
    };
    let has_ended = |leader: u32| wait_until(TIMEOUT, || processes_of_group(leader) == 0);
    let (client, leader) = begin();
    drop(client);
    assert!(has_ended(leader), "it runs on without its client");
    let (_client, leader) = begin();
    server.signal(Signal::INT);
    server.wait(TIMEOUT);
    assert!(has_ended(leader), "it runs on without the server");
}

/// Processes that have not ended.
fn processes_of_group(leader: u32) -> usize {
    let group = leader.to_string();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let stats = all.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let is_of_it = |stat: &String| {
        // The name, which may have blanks, comes before these fields (proc_pid_stat(5)).
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let state = fields.next().unwrap_or_default();
        !matches!(state, "Z" | "X") && fields.nth(1) == Some(&group)
    };
    stats.filter(is_of_it).count()
}

#[test]
fn a_script_that_stops_all_processes_of_its_account_delays_no_other_as_root() {
    let stops = "#!/bin/sh\nprintf 'X-A: b\\n\\nbegun'\nwhile :; do kill -STOP -1 2>/dev/null; done\n";
    let site = Site::new()
        .script("attack/stops", stops)
        .script("attack/a", shell(""))
        .script("own/a", shell("echo own"));
    let server = start(site, "");
    let mut attacker = server.connect();
    attacker.send("GET /attack/stops HTTP/1.0\r\nHost: a\r\n\r\n");
    let mut seen = Vec::new();
    while !seen.ends_with(b"begun") {
        let more = attacker.read_some().unwrap();
        assert!(!more.is_empty(), "it ends: {}", String::from_utf8_lossy(&seen));
        seen.extend(more);
    }
    // Each script starts while others of its account are being stopped; it may be stopped itself before it
    // executes.
    let victims: Vec<_> = (0..8)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /attack/a HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    for _ in 0..4 {
        assert_eq!(server.get("/own/a").text(), "own\n");
    }
    drop((attacker, victims));
}

#[test]
fn the_account_comes_from_route_or_scripts_and_changes_with_a_reload_as_root() {
    let (own, first, second) = (of_the_server(), of_scripts(), of_scripts() + 1);
    let text = shell("echo $(id -u) $(id -g)");
    let site =
        Site::new().script("a.cgi", &text).script("b/b", &text).file("c.x", "echo 'X: y'; echo; id -u");
    open_to_all(site.home());
    let config = |of_route: u32, of_all: u32| {
        let (of_route, of_all) = (account(of_route), account(of_all));
        format!(
            "{}[[route]]\npath = \"*.cgi\"\ncgi = true\n[[route]]\npath = \"/b/\"\ncgi = true\n{of_route}\
             [[route]]\npath = \"*.x\"\ninterpreter = \"/bin/sh\"\n[scripts]\n{of_all}",
            account(own)
        )
    };
    let server = site.config(&config(first, second)).start();
    let both = |id: u32| format!("{id} {id}\n");
    assert_eq!(server.get("/a.cgi").text(), both(second));
    assert_eq!(server.get("/b/b").text(), both(first));
    assert_eq!(server.get("/c.x").text(), format!("{second}\n"));
    server.configure(&config(own, first));
    server.signal(Signal::HUP);
    // The old process may still answer some requests.
    let has_changed = || server.get("/a.cgi").text() == both(first) && server.get("/b/b").text() == both(own);
    assert!(wait_until(TIMEOUT, has_changed), "{}", server.stderr());
}

#[test]
fn an_application_runs_as_its_configured_user_and_group_as_root() {
    for (key, no_new_privileges) in [("", "1"), ("new_privileges = true", "0")] {
        runs_as_configured(key, no_new_privileges);
    }
}

fn runs_as_configured(key: &str, no_new_privileges: &str) {
    let (own, user, group) = (account(of_the_server()), of_scripts(), of_scripts() + 1);
    let site = Site::new().config(&format!(
        "{own}[[route]]\npath = \"/app/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\n\
         command = [\"/bin/sleep\", \"1000\"]\nuser = \"{user}\"\ngroup = \"{group}\"\n{key}\n"
    ));
    open_to_all(site.home());
    let server = site.start();
    let (uids, gids) = (
        format!("Uid:{}\n", format!("\t{user}").repeat(4)),
        format!("Gid:{}\n", format!("\t{group}").repeat(4)),
    );
    let new_privileges = format!("NoNewPrivs:\t{no_new_privileges}\n");
    let has_all = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        [&uids, &gids, &new_privileges].iter().all(|line| status.contains(*line))
    };
    let has_one = || server.children().into_iter().any(has_all);
    assert!(wait_until(TIMEOUT, has_one), "no process has them: {}", server.stderr());
}

#[test]
fn a_script_of_another_account_has_its_limited_control_group_as_root() {
    let folder = ControlGroup::new("accounts", &["pids"]);
    let site = Site::new().script("a.cgi", shell("id -u; cat /proc/self/cgroup"));
    let scripts = format!("cgroup = \"{}\"\ncgroup_tasks = 20\n", folder.path().display());
    let mut server = start(site, &scripts);
    let printed = server.get("/a.cgi").text();
    assert!(
        printed.starts_with(&format!("{}\n", of_scripts())) && printed.contains("/scripts."),
        "{printed}"
    );
    server.signal(Signal::TERM);
    server.wait(TIMEOUT);
    assert!(folder.folders().is_empty());
}

#[test]
fn reports_an_unavailable_account_with_advice() {
    let start = |user: &str| {
        let site = Site::new().script("a.cgi", shell(""));
        let own = without_privilege();
        let route = format!("{own}\n[[route]]\npath = \"/bin/\"\ncgi = true\nuser = \"{user}\"\n");
        let site = site.config(&route);
        let config = site.write_config();
        let output = output_of(command_without_privilege(site.home()).arg("-c").arg(&config));
        let checked = output_of(command().arg("check").arg("-c").arg(&config));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code(), text(output.stderr), checked.status.code(), text(checked.stderr))
    };
    let (code, printed, _, _) = start("root");
    assert_eq!(code, Some(2), "{printed}");
    let expected =
        "scripts of the route /bin/: only root can become user \"root\"; start as root, or remove `user`";
    assert!(printed.contains(expected), "{printed}");
    let (code, printed, checked, found) = start("no-such-user");
    assert_eq!((code, checked), (Some(2), Some(1)), "{printed}{found}");
    for printed in [printed, found] {
        assert!(
            printed.contains("scripts of the route /bin/: there is no user \"no-such-user\"; create it"),
            "{printed}"
        );
    }
}

#[test]
fn a_start_without_the_needed_capabilities_fails_and_names_them_as_root() {
    let (own, other) = (account(of_the_server()), account(of_scripts()));
    let site = Site::new().config(&format!("{own}[[route]]\npath = \"*.cgi\"\ncgi = true\n{other}"));
    open_to_all(site.home());
    let mut withheld = tool("setpriv");
    withheld
        .args(["--bounding-set=-kill", "--inh-caps=-all"])
        .arg(program())
        .arg("-c")
        .arg(site.write_config());
    let output = output_of(&mut withheld);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("needs CAP_SETUID, CAP_SETGID and CAP_KILL"), "{stderr}");
}

#[test]
fn a_server_that_cannot_give_privileges_says_so() {
    let site = Site::new().script("a.cgi", shell("grep NoNewPrivs /proc/self/status"));
    let site = site.config("[[route]]\npath = \"*.cgi\"\ncgi = true\n[scripts]\nnew_privileges = true\n");
    let mut withheld = tool("setpriv");
    withheld.arg("--no-new-privs").arg(program());
    let server = site.start_by(withheld);
    let warning = "no program gains privileges, although `new_privileges` is set";
    assert!(wait_until(TIMEOUT, || server.stderr().contains(warning)), "{}", server.stderr());
    assert_eq!(server.get("/a.cgi").text(), "NoNewPrivs:\t1\n");
}

#[test]
fn check_warns_of_scripts_with_the_account_of_the_server_and_explain_names_the_account() {
    let own = account(of_the_server());
    let config = format!(
        "{own}[[route]]\npath = \"/own/\"\ncgi = true\n[[route]]\npath = \"/same/\"\ncgi = true\n{own}\
         [[route]]\npath = \"/other/\"\ncgi = true\n{}[[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         [[application]]\nname = \"app\"\ncommand = \"/bin/true\"\n\
         [[host]]\nnames = [\"a.example\"]\nroot = \"www\"\n[[host.route]]\npath = \"/own/\"\ncgi = true\n",
        account(of_scripts())
    );
    let site = Site::new().script("own/a", shell("")).script("other/a", shell("")).config(&config);
    let config = site.write_config();
    let printed = |args: &[&str]| {
        let output =
            run(args.iter().map(|arg| if *arg == "FILE" { config.as_os_str() } else { arg.as_ref() }));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let checked = printed(&["check", "-c", "FILE"]);
    let mut rows = Rows::new();
    for (who, shares) in [
        ("the scripts of the route /own/", 1),
        ("the scripts of the route /same/", 1),
        ("the scripts of the route /other/", 0),
        ("the processes of the application \"app\"", 1),
    ] {
        let warning = format!(
            "{who} run as the server's own account, and could kill its processes; give them a `user`"
        );
        rows.check(who, checked.matches(&warning).count(), shares);
    }
    let (server, scripts) = (of_the_server(), of_scripts());
    let other = format!("account   {scripts}:{scripts}\n");
    let own = format!("account   {server}, which is the server's own\n");
    for (path, expected) in [("/own/a", &own), ("/other/a", &other), ("/app/", &own)] {
        let explained = printed(&["explain", "-c", "FILE", "GET", path]);
        rows.holds(path, &explained, explained.contains(expected));
    }
}
