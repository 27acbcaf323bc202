//! Scripts: what they inherit, and what they cannot run with.

use super::*;

/// The script of a route with `path = "*.x"` and the lines of `text`.
fn script_of(text: &str) -> Script {
    let site = site(&format!("env = {{ TOP = \"t\", BOTH = \"t\" }}\n[[route]]\npath = \"*.x\"\n{text}"));
    let route = site.hosts[0].routes.iter().nth(1).unwrap();
    *route.script.clone().expect("the route has a script")
}

#[test]
fn a_script_inherits_variables_processes_and_account() {
    let variables = |script: &Script| {
        let text = |(name, value): (&str, &[u8])| format!("{name}={}", String::from_utf8_lossy(value));
        script.environment.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    let script = script_of("cgi = true");
    assert_eq!(variables(&script), "TOP=t BOTH=t PATH=/usr/local/bin:/usr/bin:/bin");
    assert_eq!((script.interpreter, script.processes), (None, 64));
    assert_eq!(script.credentials, Credentials::Withheld);

    let script =
        script_of("cgi = true\nenv = { PATH = \"/bin\", BOTH = \"own\" }\npass_authorization = true");
    assert_eq!(variables(&script), "PATH=/bin BOTH=own TOP=t");
    assert_eq!(script.credentials, Credentials::Passed);

    let script = script_of("interpreter = \"/usr/bin/php-cgi\"\nscript_processes = 3");
    assert_eq!(
        (script.interpreter, script.processes),
        (Some(Interpreter::Program("/usr/bin/php-cgi".into())), 3)
    );
    assert_eq!(
        script_of("cgi = true\nscript_processes = 99999").processes,
        64,
        "at most the number for all scripts"
    );

    let account = |text: &str| script_of(text).account.map(|account| account.to_string());
    for (text, expected) in [
        ("cgi = true", None),
        ("cgi = true\nuser = \"a\"", Some("a")),
        ("cgi = true\nuser = \"1000\"\ngroup = \"b\"", Some("1000:b")),
        ("cgi = true\n[scripts]\nuser = \"s\"\ngroup = \"t\"", Some("s:t")),
        ("cgi = true\nuser = \"a\"\n[scripts]\nuser = \"s\"\ngroup = \"t\"", Some("a")),
        (
            "interpreter = \"app\"\n[scripts]\nuser = \"s\"\n[[application]]\nname = \"app\"\naddress = \"127.0.0.1:1\"",
            None,
        ),
    ] {
        assert_eq!(account(text).as_deref(), expected, "{text}");
    }

    // A glob inherits the account of the prefix that it is within.
    let of_path = |text: &str, path: &'static str| {
        let site = site(text);
        let path = SafePath::parse(path).expect("it is one");
        let routes = &site.hosts[0].routes;
        let script = routes.get(routes.find(&path)).script.as_ref().expect("it is one");
        script.account.as_ref().map(|account| account.to_string())
    };
    let glob = "[[route]]\npath = \"*.x\"\ninterpreter = \"/x\"\n";
    let prefix = "[[route]]\npath = \"/w/\"\nalias = \"/wiki\"\nuser = \"wiki\"\n";
    let all = "[scripts]\nuser = \"s\"\n";
    for (text, within, beside) in [
        (format!("{glob}{prefix}"), Some("wiki"), None),
        (format!("{prefix}{glob}{all}"), Some("wiki"), Some("s")),
        (format!("{prefix}{glob}user = \"g\"\n{all}"), Some("g"), Some("g")),
        (format!("{prefix}cgi = true\n{glob}"), Some("wiki"), None),
    ] {
        assert_eq!(of_path(&text, "/w/a.x").as_deref(), within, "{text}");
        assert_eq!(of_path(&text, "/a.x").as_deref(), beside, "{text}");
    }

    let without = site("[[route]]\npath = \"*.x\"\ncgi = false\nenv = { A = \"b\" }");
    assert!(!without.has_scripts());
}

#[test]
fn reads_the_section_of_scripts() {
    let resources = |text: &str| site(&format!("[scripts]\n{text}")).scripts.resources;
    assert_eq!(resources("cpu = \"1500ms\"").cpu, Some(2), "rounded up");
    assert_eq!(resources("umask = \"027\"").umask, Some(0o27));
    assert_eq!(resources("memory = \"512MiB\"").memory, Some(512 << 20));
    assert_eq!(resources(""), Resources::default());
    let cgroups = |text: &str| site(&format!("[scripts]\n{text}")).scripts.cgroups;
    assert_eq!(cgroups("cgroup = false"), None);
    for (text, folder, memory, tasks) in [
        ("cgroup = \"auto\"", None, None, None),
        ("cgroup = \"/a\"\ncgroup_memory = \"1MiB\"", Some("/a"), Some(1 << 20), None),
        ("cgroup = \"/a\"\ncgroup_tasks = 2", Some("/a"), None, Some(2)),
    ] {
        assert_eq!(
            cgroups(text),
            Some(ControlGroups { folder: folder.map(Into::into), memory, tasks }),
            "{text}"
        );
    }
    let sendfile = |text: &str| site(&format!("[scripts]\nsendfile = {text}")).scripts.sendfile;
    assert_eq!(sendfile("\"/a\""), [Path::new("/a")]);
    assert_eq!(sendfile("[\"/a\", \"b\"]"), [Path::new("/a"), Path::new("b")]);
    let mut relative = site("[[route]]\npath = \"/b/\"\nroot = \"b\"\n[scripts]\nspool = \"spool\"");
    relative.anchor(Path::new("/etc"));
    assert_eq!(relative.scripts.spool, Path::new("/etc/spool"));
    assert_eq!(
        relative.roots().into_iter().collect::<Vec<_>>(),
        [Path::new("/etc/b"), Path::new("/srv/www")]
    );
    let mut here = site("[[route]]\npath = \"/b/\"\nroot = \".\"\n[scripts]\nspool = \"./spool/.\"");
    here.anchor(Path::new("/etc"));
    assert_eq!(here.scripts.spool.as_os_str(), "/etc/spool");
    assert_eq!(here.roots().first().map(|root| root.as_os_str()), Some("/etc".as_ref()));
}

#[test]
fn rejects_settings_with_which_a_script_cannot_run() {
    let route = |text: &str, expected: &str| {
        check_after(&format!("[[route]]\npath = \"/a/\"\n{text}"), &[expected]);
    };
    route(
        "interpreter = \"php-cgi\"",
        "site.toml:5: \"interpreter\" cannot be \"php-cgi\"; write its whole path, e.g. \"/usr/bin/php-cgi\", or the name of an [[application]]",
    );
    route(
        "interpreter = \"unix:/run/php/php8.2-fpm.sock\"",
        "site.toml:5: \"interpreter\" cannot be \"unix:/run/php/php8.2-fpm.sock\"; add an [[application]] with this address \
         and a name, and write the name here",
    );
    route(
        "cgi = false\ninterpreter = \"/bin/sh\"",
        "site.toml:5: \"interpreter\" and cgi = false exclude each other; remove one of them",
    );
    route(
        "cgi = true\nreturn = 410",
        "site.toml:5: \"cgi\" is for a route with files; give it a root or an alias, or its host a root",
    );
    route(
        "script_processes = 3",
        "site.toml:5: \"script_processes\" is for a route with scripts; add cgi = true or an interpreter, or remove it",
    );
    route(
        "cgi = true\nenv = { HTTP_PROXY = \"x\" }",
        "site.toml:6: \"HTTP_PROXY\" cannot be set for scripts; the server itself decides about this variable",
    );
    route(
        "cgi = true\nenv = { A-B = \"x\" }",
        "site.toml:6: \"A-B\" cannot be set for scripts; a name has letters, digits and underscores, and no digit first",
    );
    route("cgi = true\nenv = { A = 1 }", "site.toml:6: \"A\" cannot be an integer; expected a string");
    route(
        "user = \"a\"",
        "site.toml:5: \"user\" is for a route with scripts; add cgi = true or an interpreter, or remove it",
    );
    route(
        "cgi = true\ngroup = \"a\"",
        "site.toml:6: there is a group without a user; add \"user\", or remove \"group\"",
    );
    route(
        "cgi = true\nuser = \"a:b\"",
        "site.toml:6: \"user\" is not the name of an account; expected a string",
    );
    route(
        "user = \"a\"\napplication = \"x\"\n[[application]]\nname = \"x\"\naddress = \"127.0.0.1:1\"",
        "site.toml:5: \"user\" is for a route with scripts of its own; set it in the [[application]]",
    );
    let section = |text: &str, expected: &str| check_after(&format!("[scripts]\n{text}"), &[expected]);
    for umask in ["8", "1000", "", "+7", "-7", "0o22"] {
        let expected = format!(
            "site.toml:4: \"umask\" cannot be \"{umask}\"; expected octal digits such as \"022\" or \"027\""
        );
        section(&format!("umask = \"{umask}\""), &expected);
    }
    section(
        "cgroup = \"scripts\"",
        "site.toml:4: \"cgroup\" cannot be \"scripts\"; write \"auto\", or a whole path such as \"/sys/fs/cgroup/scripts.slice\"",
    );
    section(
        "background_jobs = true\ncgroup = \"auto\"",
        "site.toml:4: \"background_jobs\" and \"cgroup\" exclude each other: a control group ends with its script; \
         remove one of them",
    );
    for (text, name) in
        [("cgroup_tasks = 9", "cgroup_tasks"), ("cgroup_memory = \"1MiB\"\ncgroup = false", "cgroup_memory")]
    {
        let what_to_do = "add cgroup = \"auto\" or a folder, or remove it";
        section(text, &format!("site.toml:4: \"{name}\" needs \"cgroup\"; {what_to_do}"));
    }
    section(
        "sendfile = [\"/a\", \"\"]",
        "site.toml:4: \"sendfile\" has an entry that is not a path; expected a string, or an array of strings",
    );
    section("processes = 0", "site.toml:4: \"processes\" cannot be 0; expected an integer from 1 to 100000");
}

#[test]
fn rejects_paths_of_scripts_outside_of_the_chroot() {
    let chrooted = |text: &str| format!("chroot = \"/srv\"\n{text}");
    check_after(
        &chrooted("[[route]]\npath = \"*.php\"\ninterpreter = \"/usr/bin/php-cgi\""),
        &[
            "site.toml:3: \"interpreter\", /usr/bin/php-cgi, is not beneath \"chroot\", /srv; move it there, or remove the chroot: scripts run in it, too",
        ],
    );
    check_after(
        &chrooted("[scripts]\nsendfile = \"/private\"\nspool = \"/tmp\""),
        &[
            "site.toml:3: \"sendfile\", /private, is not beneath \"chroot\", /srv; move it there, or remove the chroot: scripts run in it, too",
            "site.toml:3: \"spool\", /tmp, is not beneath \"chroot\", /srv; move it there, or remove the chroot: scripts run in it, too",
        ],
    );
    let text =
        "[scripts]\nsendfile = \"/srv/private\"\n[[route]]\npath = \"*.x\"\ninterpreter = \"/srv/bin/x\"";
    let mut site = site(&chrooted(text));
    site.enter(Path::new("/srv"));
    assert_eq!(site.scripts.sendfile, [Path::new("/private")]);
    assert_eq!(site.scripts.spool, Path::new("/var/tmp"), "within the chroot");
    let script = site.hosts[0].routes.iter().nth(1).unwrap().script.clone().unwrap();
    assert_eq!(script.interpreter, Some(Interpreter::Program("/bin/x".into())));
    site.anchor(Path::new("/elsewhere"));
    assert_eq!(site.roots().into_iter().collect::<Vec<_>>(), [Path::new("/private"), Path::new("/www")]);
}

#[test]
fn a_root_beneath_a_relative_chroot_is_found_within() {
    let mut site = super::of_text("listen = [\"127.0.0.1:80\"]\nroot = \"srv/www\"\nchroot = \"srv\"\n");
    site.anchor(Path::new("/elsewhere"));
    assert_eq!(site.chroot.as_deref(), Some(Path::new("/elsewhere/srv")));
    site.enter(Path::new("/elsewhere/srv"));
    assert_eq!(site.roots().into_iter().collect::<Vec<_>>(), [Path::new("/www")]);
}
