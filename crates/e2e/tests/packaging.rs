//! Files of the package besides the program: their places, and whether they work.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::{Folder, Server, TIMEOUT, command, output_of, own_user, program, tool, wait_until};

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

/// A folder with both programs, as cargo builds them.
fn built() -> Folder {
    let folder = Folder::new();
    let link = |name| std::os::unix::fs::symlink(program(), folder.path().join(name)).expect("it is ours");
    link("taipan");
    // Only its manual page matters here.
    folder.script("taipan-bench", "#!/bin/sh\necho '.TH TAIPAN-BENCH 1'\n");
    folder
}

fn install(to: &Path, built: &Path) -> String {
    let mut install = tool("sh");
    install.arg(Path::new(PACKAGING).join("install")).env("DESTDIR", to).env("BUILD", built);
    let output = output_of(install.env("PREFIX", "/usr"));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn installs_every_file_and_keeps_configuration() {
    let (to, built) = (Folder::new(), built());
    assert_eq!(install(to.path(), built.path()), "");
    let read =
        |path: &str| fs::read_to_string(to.path().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let generated = |what: &str| output_of(command().args(["generate", what])).stdout;
    for (path, what) in [
        ("usr/share/man/man1/taipan.1", "man"),
        ("usr/share/bash-completion/completions/taipan", "bash"),
        ("usr/share/zsh/site-functions/_taipan", "zsh"),
        ("usr/share/fish/vendor_completions.d/taipan.fish", "fish"),
    ] {
        assert_eq!(read(path).as_bytes(), generated(what), "{path}");
    }
    assert!(read("usr/share/doc/taipan/docs/manual/configuration.md").contains("### `listen`"));
    assert!(read("usr/share/doc/taipan/contrib/python/taipan.py").contains("def accept"));
    let dead = dead_links(&to.path().join("usr/share/doc/taipan"));
    assert!(dead.is_empty(), "{dead:#?}");
    assert!(read("usr/share/man/man1/taipan-bench.1").starts_with(".TH"));
    assert!(read("usr/lib/systemd/system/taipan.service").contains("ExecStart=/usr/bin/taipan -c"));
    assert!(read("usr/lib/systemd/system/taipan.socket").contains("[Socket]"));
    assert!(read("usr/lib/sysusers.d/taipan.conf").contains("u taipan -"));
    assert!(read("etc/logrotate.d/taipan").contains("postrotate"));
    let version =
        output_of(tool("sh").args(["-c", "\"$0\" --version"]).arg(to.path().join("usr/bin/taipan")));
    assert!(version.status.success());

    let config = to.path().join("etc/taipan/site.toml");
    fs::write(&config, "# changed\n").expect("it is ours");
    assert!(install(to.path(), built.path()).contains("site.toml is there already, and is kept"));
    assert_eq!(read("etc/taipan/site.toml"), "# changed\n");
}

/// The links of the pages beneath a folder that lead to no file.
fn dead_links(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).expect("it is installed").map(|entry| entry.expect("it is listed").path());
    let of_entry = |entry: PathBuf| {
        if entry.is_dir() {
            return dead_links(&entry);
        }
        let text = fs::read_to_string(&entry).unwrap_or_default();
        let is_page = entry.extension().is_some_and(|extension| extension == "md");
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let is_dead = |target: &&str| {
            is_page && !target.starts_with("http") && !entry.with_file_name("").join(target).exists()
        };
        targets.filter(is_dead).map(|target| format!("{}: {target}", entry.display())).collect()
    };
    entries.flat_map(of_entry).collect()
}

#[test]
fn install_names_what_to_build_first() {
    let (to, empty) = (Folder::new(), Folder::new());
    let mut install = tool("sh");
    install.arg(Path::new(PACKAGING).join("install")).env("DESTDIR", to.path()).env("BUILD", empty.path());
    let output = output_of(&mut install);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("cargo build --release -p taipan -p taipan-load")
    );
}

/// A packaged file, with all paths moved below `home`.
fn packaged(name: &str, home: &Path) -> String {
    let text = fs::read_to_string(Path::new(PACKAGING).join(name)).expect("it is in the tree");
    let home = home.display();
    text.replace("/var/log/taipan", &format!("{home}/log")).replace("/run/taipan/", &format!("{home}/run/"))
}

/// The packaged configuration below `home`, with an administrator's own settings: addresses and the account.
fn packaged_site(home: &Folder) -> PathBuf {
    for name in ["log", "run"] {
        home.folder(name);
    }
    home.file("www/a.txt", "a");
    let config = packaged("etc/site.toml", home.path())
        .replace("/srv/www", &home.path().join("www").display().to_string());
    let kept: Vec<&str> =
        config.lines().filter(|line| !line.starts_with("listen") && !line.starts_with("user")).collect();
    let user = own_user();
    home.file("site.toml", format!("listen = [\"127.0.0.1:0\"]\n{user}{}", kept.join("\n")))
}

#[test]
fn the_packaged_rotation_rotates_logs() {
    let home = Folder::new();
    let mut serve = command();
    serve.arg("-c").arg(packaged_site(&home));
    let server = Server::start(serve, 1, None);
    assert_eq!(server.get("/a.txt").status, 200);
    let log = home.path().join("log/access.log");
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    assert!(wait_until(TIMEOUT, || size(&log) > 0));

    let rotation = home.file("rotation", packaged("logrotate/taipan", home.path()));
    let mut rotate = tool("logrotate");
    let rotated = output_of(rotate.args(["-f", "-s"]).arg(home.path().join("state")).arg(rotation));
    assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
    let old = home.path().join("log/access.log.1");
    assert!(size(&old) > 0);
    assert!(wait_until(TIMEOUT, || log.exists()), "SIGUSR1 has come: {}", server.stderr());
    let before = size(&old);
    assert_eq!(server.get("/a.txt").status, 200);
    assert!(wait_until(TIMEOUT, || size(&log) > 0));
    assert_eq!(size(&old), before);
}

/// The tools of both are replaced by shell functions: `command` and its arguments are printed, or run.
#[test]
fn the_init_scripts_of_openrc_and_procd_start_and_reload() {
    const OPENRC: &str = "ebegin() { :; }; eend() { return $1; }";
    const PROCD: &str = "procd_open_instance() { :; }; procd_close_instance() { :; }
        procd_set_param() { case $1 in command) shift; echo $*; esac; }";
    for (name, stubs, start, reload) in [
        ("openrc/taipan", OPENRC, "start_pre && echo $command $command_args", "reload"),
        ("procd/taipan", PROCD, "start_service", "reload_service"),
    ] {
        let home = Folder::new();
        let site = packaged_site(&home);
        let moved = packaged(name, home.path())
            .replace("/run/taipan", &home.path().join("run").display().to_string())
            .replace("/usr/bin/taipan", &program().display().to_string())
            .replace("/etc/taipan/site.toml", &site.display().to_string());
        let script = home.file("script", moved);
        let act = |act: &str| {
            let mut shell = tool("sh");
            output_of(shell.args(["-c", &format!("{stubs}\n. \"$0\"\n{act}")]).arg(&script))
        };
        let started = act(start);
        let line = format!("{} -c {}\n", program().display(), site.display());
        assert_eq!(String::from_utf8_lossy(&started.stdout), line, "{name}: {started:?}");

        let mut serve = command();
        serve.arg("-c").arg(&site);
        let server = Server::start(serve, 1, None);
        assert_eq!(server.get("/b.txt").status, 404);
        home.file("new/b.txt", "b");
        let text = fs::read_to_string(&site).expect("it is ours");
        fs::write(&site, text.replace("/www\"", "/new\"")).expect("it is ours");
        let reloaded = act(reload);
        assert!(reloaded.status.success(), "{name}: {reloaded:?}");
        assert_eq!(server.get("/b.txt").body, b"b", "{name}");
        fs::write(&site, "no = key\n").expect("it is ours");
        assert!(!act(reload).status.success(), "{name}");
    }
}

#[test]
fn the_manual_shows_the_packaged_rotation() {
    let page =
        fs::read_to_string(Path::new(PACKAGING).join("../docs/manual/logs.md")).expect("it is in the tree");
    let packaged =
        fs::read_to_string(Path::new(PACKAGING).join("logrotate/taipan")).expect("it is in the tree");
    assert!(page.contains(&packaged));
    let pid_file = "/run/taipan/taipan.pid";
    let config = fs::read_to_string(Path::new(PACKAGING).join("etc/site.toml")).expect("it is in the tree");
    assert!(packaged.contains(pid_file) && config.contains(&format!("pid_file = \"{pid_file}\"")));
}

#[test]
fn refuses_a_static_build_with_glibc() {
    assert!(compiled(&[]).0, "{}", compiled(&[]).1);
    let (succeeded, printed) = compiled(&["-C", "target-feature=+crt-static"]);
    if cfg!(target_env = "gnu") {
        assert!(!succeeded && printed.contains("build for musl instead"), "{printed}");
    }
}

#[test]
fn refuses_to_unwind_without_the_tables_for_it() {
    let without_tables = ["--cfg", "feature=\"without-unwinding\""];
    let (succeeded, printed) = compiled(&without_tables);
    assert!(!succeeded && printed.contains("cargo small"), "{printed}");
    let (succeeded, printed) = compiled(&[&without_tables[..], &["-C", "panic=abort"]].concat());
    assert!(succeeded, "{printed}");
}

/// Whether the compiler accepts what rejects builds, and what it prints.
fn compiled(flags: &[&str]) -> (bool, String) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src/unsupported_builds.rs");
    let folder = Folder::new();
    let mut rustc = tool("rustc");
    rustc.args(["--crate-type", "lib", "--emit", "metadata", "--out-dir"]).arg(folder.path());
    let output = output_of(rustc.args(flags).arg(&source));
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}
