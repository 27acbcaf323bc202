//! Passwords: Basic and Digest, files, users and groups, folders with files of their own, and what wrong passwords lead
//! to.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::{Response, Rows, Server, Site, TIMEOUT, own_user, program, tool, wait_until};

/// `user:hash` of Debian's htpasswd. `kind` is one of its options.
fn htpasswd(kind: &str, user: &str, password: &str) -> String {
    let output = tool("htpasswd").args(["-nb", "-C", "4", kind, user, password]).output();
    let output = output.expect("htpasswd runs");
    String::from_utf8(output.stdout).expect("it is text").trim().to_owned() + "\n"
}

/// ann and bob and carl, each with another kind of hash.
fn users() -> String {
    [("-m", "ann", "wonderland"), ("-s", "bob", "builder"), ("-B", "carl", "coral:reef")]
        .map(|(kind, user, password)| htpasswd(kind, user, password))
        .concat()
}

fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}")))
}

fn request(server: &Server, target: &str, fields: &str) -> Response {
    server.request(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}Connection: close\r\n\r\n"))
}

fn status(server: &Server, target: &str, fields: &str) -> u16 {
    request(server, target, fields).status
}

const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s by %s, %s' \
                      \"$REMOTE_USER\" \"$AUTH_TYPE\" \"$HTTP_AUTHORIZATION\"\n";

fn site(config: &str) -> Site {
    Site::new()
        .file("index.html", "home\n")
        .file("club/index.html", "club\n")
        .file("club/deep/a.txt", "deep\n")
        .script("cgi-bin/who.cgi", SCRIPT)
        .file_beside_root("users", users())
        .file_beside_root("groups", "staff: bob carl\n")
        .config(config)
}

#[test]
fn users_of_a_file_may_pass_with_their_password() {
    let server = site(
        "trusted_proxies = \"127.0.0.0/8\"\n[[route]]\npath = \"/club/\"\nauth = \"basic\"\nrealm = \"The \\\"club\\\"\"\nuser_files = \"users\"\n",
    )
    .every_protocol()
    .start();
    let mut rows = Rows::new();
    let cases = [
        ("/", String::new(), 200),
        ("/club/", String::new(), 401),
        ("/club", String::new(), 401),
        ("/club/missing", String::new(), 401),
        ("/%63lub/deep/a.txt", String::new(), 401),
        ("/club/", basic("ann", "wonderland"), 200),
        ("/club/deep/a.txt", basic("ann", "wonderland"), 200),
        ("/club/missing", basic("ann", "wonderland"), 404),
        ("/club/", basic("bob", "builder"), 200),
        ("/club/", basic("carl", "coral:reef"), 200),
        ("/club/", basic("carl", "coral"), 401),
        ("/club/", basic("eve", "wonderland"), 401),
        ("/club/", "Authorization: Basic !!!\r\n".to_owned(), 400),
        ("/club/", "Authorization: Basic\r\n".to_owned(), 400),
        ("/club/", "Authorization: Bearer abc\r\n".to_owned(), 401),
        ("/club/", basic("ann", "wonderland") + &basic("ann", "wonderland"), 401),
    ];
    for (number, (target, fields, expected)) in cases.into_iter().enumerate() {
        // Each from a client of its own, so that none has to wait.
        let fields = format!("X-Forwarded-For: 192.0.2.{number}\r\n{fields}");
        rows.check(format!("{target} {fields}"), status(&server, target, &fields), expected);
    }
    let challenge = request(&server, "/club/", "");
    let expected = Some("Basic realm=\"The \\\"club\\\"\", charset=\"UTF-8\"");
    rows.check("challenge", challenge.field("www-authenticate"), expected);
}

#[test]
fn groups_users_and_rules_say_who_may_pass() {
    let server = site(
        "trusted_proxies = \"127.0.0.0/8\"\nauth = \"basic\"\nuser_files = \"users\"\nsatisfy = \"rules\"\n\
         group_files = \"groups\"\ngroups = { chiefs = \"ann\" }\nrealm = \"all\"\n\
         [[rule]]\npath = \"/club/\"\nthen = \"authenticate\"\n\
         [[route]]\npath = \"/club/deep/\"\nrequire = \"group:staff\"\nsatisfy = \"all\"\n\
         [[route]]\npath = \"/cgi-bin/\"\ncgi = true\nrequire = [\"user:carl\", \"group:chiefs\"]\ngroups = { chiefs = \"ann\" }\nsatisfy = \"any\"\n\
         [[route.rule]]\naddress = \"10.0.0.0/8\"\nthen = \"allow\"\n",
    )
    .every_protocol()
    .start();
    let (ann, bob, carl) = (basic("ann", "wonderland"), basic("bob", "builder"), basic("carl", "coral:reef"));
    let near = "X-Forwarded-For: 10.1.1.1\r\n".to_owned();
    let mut rows = Rows::new();
    for (target, fields, expected) in [
        ("/", "", 200),
        ("/club/", "", 401),
        ("/club/", ann.as_str(), 200),
        ("/club/deep/a.txt", "", 401),
        ("/club/deep/a.txt", ann.as_str(), 403),
        ("/club/deep/a.txt", bob.as_str(), 200),
        ("/cgi-bin/who.cgi", "", 401),
        ("/cgi-bin/who.cgi", bob.as_str(), 403),
        ("/cgi-bin/who.cgi", carl.as_str(), 200),
        ("/cgi-bin/who.cgi", near.as_str(), 200),
    ] {
        rows.check(format!("{target} {fields}"), status(&server, target, fields), expected);
    }
    let text = request(&server, "/cgi-bin/who.cgi/info", &ann).text();
    rows.check("a script learns of the user alone", text.as_str(), "ann by Basic, ");
}

#[test]
fn rules_of_a_glob_stand_for_no_password_of_its_folder() {
    let folder = "trusted_proxies = \"127.0.0.0/8\"\n\
                  [[route]]\npath = \"/club/\"\nauth = \"basic\"\nuser_files = \"users\"\nsatisfy = \"any\"\n";
    let near = "[[route.rule]]\naddress = \"10.0.0.0/8\"\nthen = \"allow\"\n";
    let texts = |more: &str| format!("[[route]]\npath = \"*.txt\"\n{more}");
    let allow = "[[route.rule]]\nthen = \"allow\"\n";
    let not_bots = "[[route.rule]]\nuser_agent = \"bot\"\nthen = \"deny\"\n";
    let users = "auth = \"basic\"\nuser_files = \"users\"\nrequire = \"user:bob\"\nsatisfy = \"any\"\nrealm = \"texts\"\n";
    let (ann, bob) = (basic("ann", "wonderland"), basic("bob", "builder"));
    let from_near = "X-Forwarded-For: 10.1.1.1\r\n".to_owned();
    let mut rows = Rows::new();
    // Of a stranger, of ann, of bob, and of a client nearby.
    for (config, expected) in [
        ([folder, near, &texts(allow)].concat(), [401, 200, 200, 200]),
        ([folder, &texts(allow)].concat(), [401, 200, 200, 401]),
        ([folder, near, &texts(not_bots)].concat(), [401, 200, 200, 200]),
        // A glob has the rules of the folder behind its own.
        ([folder, near, &texts(users)].concat(), [401, 403, 200, 200]),
        ([folder, near, &texts(&[users, allow].concat())].concat(), [401, 200, 200, 200]),
        ([folder, near, &texts(&[users, not_bots].concat())].concat(), [401, 403, 200, 200]),
        // Outside of a folder with passwords, the rules of a glob are for its host's.
        (texts(allow), [200; 4]),
    ] {
        let server = site(&config).every_protocol().start();
        for (fields, expected) in ["", &ann, &bob, &from_near].into_iter().zip(expected) {
            rows.check(
                format!("{fields:?} with\n{config}"),
                status(&server, "/club/deep/a.txt", fields),
                expected,
            );
        }
    }
}

#[test]
fn a_folder_may_have_users_of_its_own() {
    for (mode, deep, by_link) in [("folder", 200, 200), ("inherited", 401, 403)] {
        let server = site(&format!(
            "auth = \"basic\"\nfolder_passwords = \"{mode}\"\ndotfiles = \"allow\"\nlisting = true\n\
             rewrites = {{ \"/alias/\" = \"/club/$rest\" }}\n[[route]]\npath = \"*.cgi\"\ncgi = true\n"
        ))
        .every_protocol()
        .file("club/.htpasswd", htpasswd("-m", "ann", "wonderland"))
        .file("club/.htaccess", "Deny from all\n")
        .file("bad/.htpasswd", "not a password file\n")
        .script("club/who.cgi", SCRIPT)
        .folder("linked")
        .symlink("linked/index.html", "../club/index.html")
        .symlink("page", "club/index.html")
        .symlink("who.cgi", "club/who.cgi")
        .symlink("members", "club")
        .symlink("club/own", "index.html")
        .symlink("deep", "club/deep")
        .symlink("a.txt", "club/deep/a.txt")
        .symlink("club/a.txt", "deep/a.txt")
        .start();
        let ann = basic("ann", "wonderland");
        let mut rows = Rows::new();
        for (target, fields, expected) in [
            ("/", "", 200),
            // Their own folders have no file.
            ("/page", "", 403),
            ("/who.cgi", "", 403),
            ("/who.cgi/more", "", 403),
            ("/linked/", "", 403),
            ("/linked/index.html", ann.as_str(), 403),
            ("/members/index.html", "", 401),
            ("/members/index.html", ann.as_str(), 200),
            ("/club/own", "", 401),
            ("/club/own", ann.as_str(), 200),
            ("/club/", "", 401),
            ("/club/index.html", "", 401),
            ("/alias/index.html", "", 401),
            ("/club/who.cgi", "", 401),
            ("/club/who.cgi/more/path", "", 401),
            ("/club/", ann.as_str(), 200),
            ("/alias/index.html", ann.as_str(), 200),
            ("/club/who.cgi/more", ann.as_str(), 200),
            // A link to a folder below one with a file.
            ("/deep/", "", by_link),
            ("/deep/a.txt", "", by_link),
            ("/deep/a.txt", ann.as_str(), by_link),
            ("/a.txt", "", by_link),
            ("/club/a.txt", "", 401),
            ("/club/a.txt", ann.as_str(), 200),
            ("/club/deep/a.txt", "", deep),
            ("/club/deep/a.txt", ann.as_str(), 200),
            ("/club/.htpasswd", ann.as_str(), 404),
            ("/club/.HTPASSWD", ann.as_str(), 404),
            ("/club/.htaccess", ann.as_str(), 404),
            // That file has no user.
            ("/bad/", ann.as_str(), 401),
        ] {
            rows.check(format!("{mode}: {target} {fields}"), status(&server, target, fields), expected);
        }
        let challenge = request(&server, "/club/", "");
        rows.check(
            "realm",
            challenge.field("www-authenticate"),
            Some("Basic realm=\"/club/\", charset=\"UTF-8\""),
        );
        let told = "the password file of /bad/ has lines that do not count (1): line 1: a line has the form USER:HASH";
        rows.holds("log", "it names the line", server.stderr().contains(told));
    }
}

#[test]
fn a_password_file_that_cannot_be_read_closes_its_folder() {
    for (mode, symlinks) in
        [("folder", "beneath"), ("inherited", "beneath"), ("inherited", "owner"), ("folder", "follow")]
    {
        let config = format!(
            "auth = \"basic\"\nfolder_passwords = \"{mode}\"\nsymlinks = \"{symlinks}\"\nlisting = true\n"
        );
        let server = Site::new()
            .file("secret/s.txt", "s")
            .folder("secret/.htpasswd")
            .file("lost/s.txt", "s")
            .symlink("lost/.htpasswd", "users")
            .file("away/s.txt", "s")
            .symlink("away/.htpasswd", "/nonexistent/users")
            .config(&config)
            .start();
        let mut rows = Rows::new();
        for target in ["/secret/s.txt", "/lost/s.txt", "/lost/", "/away/s.txt"] {
            rows.check(format!("{mode} {symlinks} {target}"), server.get(target).status, 403);
        }
        server.wait_for_line("the password file of /secret/: Is a directory", TIMEOUT);
        server.wait_for_line("the password file of /lost/: it is a link that leads to nothing", TIMEOUT);
    }
}

#[test]
fn digest_works_with_htdigest_and_curl() {
    let site = site(
        "auth = \"digest\"\nrealm = \"club\"\nuser_files = \"digest\"\n[[route]]\npath = \"/cgi-bin/\"\ncgi = true\n",
    );
    let line = |user: &str, realm: &str, password: &str| {
        let text = format!("printf %s '{user}:{realm}:{password}' | md5sum | cut -c1-32");
        let output = tool("sh").args(["-c", &text]).output().expect("sh runs");
        format!("{user}:{realm}:{}", String::from_utf8_lossy(&output.stdout))
    };
    let lines =
        [line("ann", "club", "wonderland"), line("bob", "club", "builder"), line("eve", "other", "x")];
    fs::write(site.home().join("digest"), lines.concat()).expect("the folder can be written");
    let server = site.start();
    let curl = |user: &str, path: &str| {
        let arguments = ["-s", "-o", "-", "-w", " %{http_code}", "--digest", "-u", user];
        let output = tool("curl").args(arguments).arg(server.url(path)).output().expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(curl("bob:builder", "/"), "home\n 200");
    assert_eq!(curl("ann:wonderland", "/club/deep/a.txt"), "deep\n 200");
    assert_eq!(curl("ann:wonderland", "/cgi-bin/who.cgi?a=b"), "ann by Digest,  200");
    assert!(curl("ann:builder", "/").ends_with(" 401"));
    assert!(curl("eve:builder", "/").ends_with(" 401"));
    let challenge = request(&server, "/", "");
    let first = challenge.field("www-authenticate").unwrap_or_default();
    assert!(first.starts_with("Digest realm=\"club\", qop=\"auth\", algorithm=MD5, nonce="), "{first}");
}

/// Writes a line of Digest with `taipan passwd`.
fn digest_line(site: &Site, more: &[&str]) {
    let file = site.home().join("digest");
    let words = [more, &["-b", "--digest", "club"]].concat();
    let mut command = Command::new(program());
    let output = command.arg("passwd").args(words).arg(file).args(["ann", "wonderland"]).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn curl_and_wget_authenticate_by_basic_and_digest() {
    let site = site(
        "[[route]]\npath = \"/club/\"\nauth = \"basic\"\nuser_files = \"users\"\n\
         [[route]]\npath = \"/club/deep/\"\nauth = \"digest\"\nrealm = \"club\"\nuser_files = \"digest\"\n",
    );
    digest_line(&site, &["-c"]);
    let sha256 = fs::read_to_string(site.home().join("digest")).expect("it has been written");
    assert_eq!(sha256.trim().rsplit(':').next().map(str::len), Some(64), "{sha256}");
    let server = site.start();
    let run = |program: &str, arguments: &[&str], path: &str| {
        let output = tool(program).args(arguments).arg(server.url(path)).output().expect("it runs");
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    };
    let curl = |arguments: &[&str], path: &str| run("curl", &[&["-s", "-f"], arguments].concat(), path);
    let right = ("club\n".to_owned(), Some(0));
    assert_eq!(curl(&["--anyauth", "-u", "ann:wonderland"], "/club/"), right);
    assert_eq!(curl(&["-u", "ann:wonderland"], "/club/"), right);
    assert_eq!(curl(&["--anyauth", "-u", "ann:wrong"], "/club/").1, Some(22));
    let deep = ("deep\n".to_owned(), Some(0));
    assert_eq!(curl(&["--digest", "-u", "ann:wonderland"], "/club/deep/a.txt"), deep);
    assert_eq!(curl(&["--anyauth", "-u", "ann:wonderland"], "/club/deep/a.txt"), deep);
    assert_eq!(curl(&["--digest", "-u", "ann:wrong"], "/club/deep/a.txt").1, Some(22));
    // A client that knows only Basic does not pass where Digest is asked for.
    assert_eq!(curl(&["--basic", "-u", "ann:wonderland"], "/club/deep/a.txt").1, Some(22));
    let wget = |password: &str, path: &str| {
        let login = ["-q", "-O", "-", "-t", "1", "--user", "ann", "--password", password];
        run("wget", &login, path)
    };
    assert_eq!(wget("wonderland", "/club/"), right);
    assert_eq!(wget("wrong", "/club/").1, Some(6), "wget says that it may not");
}

#[test]
fn wget_authenticates_by_digest_with_md5() {
    let site = site("auth = \"digest\"\nrealm = \"club\"\nuser_files = \"digest\"\n");
    digest_line(&site, &["-c", "-m"]);
    let server = site.start();
    for (password, expected) in [("wonderland", Some(0)), ("wrong", Some(6))] {
        let login = ["-q", "-O", "-", "-t", "1", "--user", "ann", "--password", password];
        let output = tool("wget").args(login).arg(server.url("/club/deep/a.txt")).output().expect("it runs");
        assert_eq!(output.status.code(), expected, "{password}");
        assert_eq!(output.stdout == b"deep\n", expected == Some(0), "{password}");
    }
}

/// A path may have several names that each ask for users, and a script may lead to another path: the credentials of a
/// request count once.
#[test]
fn credentials_of_digest_pass_for_everything_that_a_request_leads_to() {
    let digest = "auth = \"digest\"\nrealm = \"club\"\nuser_files = \"digest\"\n";
    let site = site(&format!(
        "listen = [\"127.0.0.1:0\", \"127.0.0.2:0 tls\"]\ncertificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n\
         [[route]]\npath = \"/club/\"\n{digest}[[route]]\npath = \"/club/**.txt\"\n{digest}\
         [[route]]\npath = \"/cgi-bin/\"\ncgi = true\n{digest}"
    ))
    .script("cgi-bin/lead.cgi", "#!/bin/sh\nprintf 'Location: /club/deep/a.txt\\n\\n'\n")
    .script("cgi-bin/again.cgi", "#!/bin/sh\nprintf 'Location: /cgi-bin/lead.cgi/x\\n\\n'\n")
    .certificate();
    digest_line(&site, &["-c"]);
    let server = site.start();
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/club/", "club\n"),
        ("/club/deep/a.txt", "deep\n"),
        ("/cgi-bin/lead.cgi", "deep\n"),
        ("/cgi-bin/again.cgi", "deep\n"),
    ] {
        for (at, flags) in [(0, &["-s"][..]), (1, &["-sk", "--http1.1"]), (1, &["-sk", "--http2"])] {
            let address = server.tcp(at);
            let url = format!("{}://{address}{path}", ["http", "https"][at]);
            let login = ["-f", "--digest", "-u", "ann:wonderland", &url];
            let output = tool("curl").args(flags).args(login).output().expect("it runs");
            rows.check(
                format!("{flags:?} {url}"),
                String::from_utf8_lossy(&output.stdout).as_ref(),
                expected,
            );
        }
    }
    let login = ["-sf", "--digest", "-u", "ann:wrong"];
    let output = tool("curl").args(login).arg(server.url("/cgi-bin/lead.cgi")).output();
    rows.check("a wrong password", output.expect("it runs").status.code(), Some(22));
}

#[test]
fn guesses_by_digest_count_for_the_address_and_for_the_user() {
    let site = site(
        "trusted_proxies = \"127.0.0.0/8\"\nauth = \"digest\"\nrealm = \"club\"\nuser_files = \"digest\"\n",
    );
    digest_line(&site, &["-c"]);
    let server = site.start();
    let from = |client: &str, password: &str| {
        let (client, user) = (format!("X-Forwarded-For: {client}"), format!("ann:{password}"));
        let login = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "--digest", "-u", &user, "-H", &client];
        let output = tool("curl").args(login).arg(server.url("/")).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let found: Vec<String> = (0..8).map(|number| from("192.0.2.1", &format!("guess {number}"))).collect();
    assert_eq!(found, ["401", "401", "401", "401", "401", "401", "429", "429"]);
    assert_eq!(from("192.0.2.2", "wonderland"), "200", "another client");
    let found: Vec<String> = (0..22).map(|client| from(&format!("198.51.100.{client}"), "guess")).collect();
    assert!(found[..20].iter().all(|status| status == "401"), "{found:?}");
    assert_eq!(found[21], "429", "{found:?}");
    assert!(wait_until(TIMEOUT, || from("192.0.2.3", "wonderland") == "200"), "the time of the user is over");
}

#[test]
fn a_listing_shows_folders_without_a_password_file() {
    for (mode, of_all, of_club) in [
        ("folder", "", vec!["deep/", "open/"]),
        ("inherited", "", vec!["deep/", "open/"]),
        // The users of the route may have what has no file.
        ("folder", "user_files = \"users\"\n", vec![]),
    ] {
        let server = site(&format!(
            "auth = \"basic\"\nfolder_passwords = \"{mode}\"\nlisting = true\nindex = []\n{of_all}\
             rewrites = {{ \"/alias/\" = \"/club/$rest\" }}\n"
        ))
        .every_protocol()
        .file("club/.htpasswd", htpasswd("-m", "ann", "wonderland"))
        .file("club/closed/.htpasswd", htpasswd("-m", "eve", "apple"))
        .file("club/lost/a.txt", "a")
        .symlink("club/lost/.htpasswd", "nothing")
        .file("club/open/b.txt", "b")
        .file("free/c.txt", "c")
        .start();
        let folders = |target: &str, user: &str, password: &str| -> Vec<String> {
            let listing = request(&server, target, &basic(user, password)).text();
            let links = listing.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
            let folders = links.filter_map(|link| link.strip_prefix("./")).filter(|link| link.ends_with('/'));
            folders.map(str::to_owned).collect()
        };
        let mut rows = Rows::new();
        let name = format!("{mode} {of_all}");
        let user = if of_all.is_empty() { ("ann", "wonderland") } else { ("bob", "builder") };
        rows.check(
            format!("{name}: the root"),
            folders("/", user.0, user.1),
            vec!["cgi-bin/".into(), "free/".into()],
        );
        for target in ["/club/", "/alias/"] {
            let found = folders(target, "ann", "wonderland");
            let expected: Vec<String> = of_club.iter().map(|name| (*name).to_owned()).collect();
            rows.check(format!("{name}: {target}"), found, expected);
        }
        rows.check(format!("{name}: without a password"), status(&server, "/club/", ""), 401);
    }
}

#[test]
fn git_clones_with_a_password() {
    let core = tool("git").arg("--exec-path").output().expect("git runs").stdout;
    let core = String::from_utf8_lossy(&core).trim().to_owned();
    let site = Site::new().file_beside_root("users", users());
    let home = site.home().to_owned();
    let git = |words: &[&str]| {
        let mut git = tool("git");
        git.current_dir(&home)
            .env("HOME", &home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0");
        git.args(["-c", "safe.directory=*", "-c", "user.name=Ann", "-c", "user.email=ann@example.org"]);
        git.args(words).output().expect("git runs").status.success()
    };
    assert!(git(&["init", "-q", "-b", "main", "project"]));
    fs::write(home.join("project/a.txt"), "a\n").expect("it is our folder");
    assert!(git(&["-C", "project", "add", "a.txt"]) && git(&["-C", "project", "commit", "-q", "-m", "one"]));
    let server = site
        .config(&format!(
            "rewrites = {{ \"/git/\" = \"/backend/git-http-backend/$rest\" }}\n[[route]]\npath = \"/backend/\"\n\
             alias = \"{core}\"\ncgi = true\nauth = \"basic\"\nuser_files = \"users\"\nenv = {{ GIT_PROJECT_ROOT = \"{}\", \
             GIT_HTTP_EXPORT_ALL = \"1\", GIT_CONFIG_COUNT = \"1\", GIT_CONFIG_KEY_0 = \"safe.directory\", \
             GIT_CONFIG_VALUE_0 = \"*\" }}\n",
            home.display()
        ))
        .start();
    let url = |user: &str| server.url("/git/project/.git").replace("http://", &format!("http://{user}"));
    assert!(git(&["clone", "-q", &url("ann:wonderland@"), "copy"]), "{}", server.stderr());
    assert_eq!(fs::read_to_string(home.join("copy/a.txt")).unwrap_or_default(), "a\n");
    assert!(!git(&["clone", "-q", &url(""), "without"]));
    assert!(!git(&["clone", "-q", &url("ann:wrong@"), "wrong"]));
}

#[test]
fn wrong_passwords_make_a_client_wait() {
    let server =
        site("workers = 1\ntrusted_proxies = \"127.0.0.0/8\"\nauth = \"basic\"\nuser_files = \"users\"\n")
            .start();
    let from = |client: &str, user: &str, password: &str| {
        request(&server, "/", &format!("X-Forwarded-For: {client}\r\n{}", basic(user, password)))
    };
    assert_eq!(from("192.0.2.1", "carl", "coral:reef").status, 200);
    let mut found = Vec::new();
    for number in 0..8 {
        found.push(from("192.0.2.1", "ann", &format!("guess {number}")).status);
    }
    assert_eq!(found, [401, 401, 401, 401, 401, 401, 429, 429]);
    let refused = from("192.0.2.1", "ann", "wonderland");
    assert_eq!(refused.status, 429, "even the right password has to wait");
    let wait: u64 =
        refused.field("retry-after").and_then(|text| text.parse().ok()).expect("a number of seconds");
    assert!((1..=2).contains(&wait), "{wait}");
    assert_eq!(from("192.0.2.1", "carl", "coral:reef").status, 200, "it was right not long ago");
    assert_eq!(from("192.0.2.2", "ann", "wonderland").status, 200, "another client");
    assert!(wait_until(TIMEOUT, || from("192.0.2.1", "ann", "wonderland").status == 200), "its time is over");
}

#[test]
fn a_changed_file_counts_without_a_reload() {
    let server = site("auth = \"basic\"\nuser_files = \"users\"\n").start();
    let dora = || status(&server, "/", &basic("dora", "explorer"));
    assert_eq!(dora(), 401);
    let file = server.home().join("users");
    let done = tool("htpasswd").args(["-b", "-m"]).arg(&file).args(["dora", "explorer"]).output();
    assert!(done.expect("htpasswd runs").status.success());
    assert!(wait_until(TIMEOUT, || dora() == 200));
    // The earlier process, in which the client has to wait, may have the connection still.
    assert!(wait_until(TIMEOUT, || status(&server, "/", &basic("ann", "wonderland")) == 200));
    fs::write(&file, users()).expect("the file can be written");
    assert!(wait_until(TIMEOUT, || dora() == 401), "a user who is removed may not pass, nor by the cache");
}

#[test]
fn a_changed_file_counts_as_soon_as_a_reload_is_possible() {
    let config = "auth = \"basic\"\nuser_files = \"users\"\n[limits]\ngenerations = 2\n\
                  [[route]]\npath = \"/long\"\nauth = \"off\"\n";
    let server = site(config).file("long", vec![b'a'; 16 << 20]).start();
    let mut download = server.begin_download("/long");
    server.reload();
    let dora = || status(&server, "/", &basic("dora", "explorer"));
    assert_eq!(dora(), 401);
    fs::write(server.home().join("users"), htpasswd("-m", "dora", "explorer")).expect("it can be written");
    server.wait_for_line("too many earlier processes still finish their responses", TIMEOUT);
    assert_eq!(dora(), 401);
    assert_eq!(download.read_response().status, 200);
    drop(download);
    assert!(wait_until(TIMEOUT, || dora() == 200), "{}", server.stderr());
}

#[test]
fn a_file_that_cannot_be_used_is_reported_and_stops_nothing() {
    let server = site("auth = \"basic\"\nuser_files = \"users\"\n").start();
    let file = server.home().join("users");
    let ann = || status(&server, "/", &basic("ann", "wonderland"));
    assert_eq!(ann(), 200);
    fs::remove_file(&file).expect("it is our file");
    assert!(tool("mkfifo").arg(&file).status().expect("mkfifo runs").success());
    assert!(wait_until(TIMEOUT, || server
        .stderr()
        .contains("users cannot be read: it is not a regular file")));
    assert_eq!(ann(), 200, "the users stay as they were");
    fs::remove_file(&file).expect("it is our file");
    fs::write(&file, format!("eve\n{}", htpasswd("-m", "dora", "explorer"))).expect("it can be written");
    assert!(wait_until(TIMEOUT, || status(&server, "/", &basic("dora", "explorer")) == 200));
    assert!(wait_until(TIMEOUT, || ann() == 401));
    let told = "users:1: this line does not count; a line has the form USER:HASH";
    assert!(server.stderr().contains(told), "{}", server.stderr());
}

#[test]
fn many_passwords_at_once_neither_block_nor_crash() {
    let costly = htpasswd("-B", "slow", "x");
    let server = site("workers = 1\nauth = \"basic\"\nuser_files = \"costly\"\n[[route]]\npath = \"/club/\"\nauth = \"off\"\n")
        .file_beside_root("costly", costly)
        .start();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..100)
            .map(|number| {
                scope.spawn({
                    let server = &server;
                    move || status(server, "/", &basic(&format!("user{number}"), "guess"))
                })
            })
            .collect();
        assert_eq!(status(&server, "/club/", ""), 200, "files are served meanwhile");
        let statuses: Vec<u16> = clients.into_iter().map(|client| client.join().expect("it ends")).collect();
        assert!(statuses.iter().all(|status| [401, 429, 503].contains(status)), "{statuses:?}");
    });
}

#[test]
fn clients_that_leave_keep_no_place_in_the_queue() {
    let costly =
        tool("htpasswd").args(["-nbB", "-C", "11", "ann", "wonderland"]).output().expect("htpasswd runs");
    let server =
        site("workers = 1\ntrusted_proxies = \"127.0.0.0/8\"\nauth = \"basic\"\nuser_files = \"costly\"\n")
            .file_beside_root("costly", costly.stdout)
            .start();
    let guess = |number: u32| {
        let fields =
            format!("X-Forwarded-For: 192.0.2.{number}\r\n{}", basic(&format!("u{number}"), "guess"));
        format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n")
    };
    let began = Instant::now();
    assert_eq!(server.request(guess(0)).status, 401);
    let one = began.elapsed();
    let clients: Vec<_> = (1..=60)
        .map(|number| {
            let mut client = server.connect();
            client.send(guess(number));
            client
        })
        .collect();
    drop(clients);
    let began = Instant::now();
    assert_eq!(status(&server, "/", &basic("ann", "wonderland")), 200);
    let found = began.elapsed();
    assert!(found < one * 30, "{found:?} behind 60 that have left, of which one takes {one:?}");
}

#[test]
fn guesses_at_the_same_time_count_like_those_one_by_one() {
    let costly =
        tool("htpasswd").args(["-nbB", "-C", "10", "ann", "wonderland"]).output().expect("htpasswd runs");
    let server = site("workers = 1\nauth = \"basic\"\nuser_files = \"costly\"\n")
        .file_beside_root("costly", costly.stdout)
        .start();
    let mut clients: Vec<_> = (0..30)
        .map(|number| {
            let mut client = server.connect();
            let guess = basic(&format!("u{number}"), "guess");
            client.send(format!("GET / HTTP/1.1\r\nHost: h\r\n{guess}\r\n"));
            client
        })
        .collect();
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.read_response().status).collect();
    let compared = statuses.iter().filter(|status| **status == 401).count();
    assert!(
        (6..=8).contains(&compared),
        "five are free, and the next one makes the client wait: {statuses:?}"
    );
}

#[test]
fn check_names_what_is_wrong() {
    let site = Site::new().file_beside_root("users", "ann:$9$nonsense\nbob\n").file_beside_root("empty", "");
    let check = |keys: &str| {
        let user = own_user();
        let text = format!("listen = \"127.0.0.1:0\"\nroot = \"www\"\n{user}{keys}\n");
        let config = site.home().join("site.toml");
        fs::write(&config, text).expect("the folder can be written");
        let output = Command::new(program()).arg("check").arg("-c").arg(&config).output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (keys, expected) in [
        ("auth = \"basic\"", "there are no users"),
        ("auth = \"basic\"\nuser_files = \"missing\"", "cannot be read"),
        ("auth = \"other\"\nuser_files = \"users\"", "cannot be \"other\""),
        ("auth = \"basic\"\nusers = { ann = \"plain\" }", "the user \"ann\" is not valid"),
        ("auth = \"basic\"\nuser_files = \"users\"\nrequire = \"ann\"", "write \"user\", \"user:NAME\""),
        ("auth = \"digest\"\nfolder_passwords = \"folder\"", "for Basic"),
        ("[[rule]]\nthen = \"authenticate\"", "\"auth\" is off"),
        ("realm = \"\"", "is empty"),
    ] {
        let (is_good, text) = check(keys);
        assert!(!is_good && text.contains(expected), "{keys}\n{text}");
    }
    for (keys, expected) in [
        ("user_files = \"users\"", "users protects nothing, because \"auth\" is off"),
        ("[[route]]\npath = \"/a/\"\nuser_files = \"users\"", "\"user_files\" protects nothing"),
        ("[[route]]\npath = \"/a/\"\nfolder_passwords = \"folder\"", "\"folder_passwords\" protects nothing"),
    ] {
        let (is_good, text) = check(keys);
        assert!(is_good && text.contains(expected) && text.contains("add auth"), "{keys}\n{text}");
    }
    let (is_good, text) = check("user_files = \"users\"\n[[route]]\npath = \"/a/\"\nauth = \"basic\"");
    assert!(is_good && !text.contains("protects nothing"), "{text}");
    let (is_good, text) = check("auth = \"basic\"\nuser_files = [\"users\", \"empty\"]");
    assert!(is_good, "{text}");
    for expected in ["users:1: warning", "users:2: warning", "has no user"] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains("nonsense"), "hashes are not shown\n{text}");
}

#[test]
fn explain_says_that_a_password_is_needed() {
    let site =
        site("[[route]]\npath = \"/club/\"\nauth = \"basic\"\nuser_files = \"users\"\nrealm = \"Club\"\n");
    let config = site.write_config();
    let explain = |path: &str| {
        let output = Command::new(program()).args(["explain", "GET", path, "-c"]).arg(&config).output();
        String::from_utf8_lossy(&output.expect("it runs").stdout).into_owned()
    };
    let club = explain("/club/");
    assert!(club.contains("password  a user of its files, for the realm \"Club\""), "{club}");
    assert!(club.contains("HTTP/1.1 401"), "{club}");
    let open = explain("/");
    assert!(!open.contains("password") && open.contains("HTTP/1.1 200"), "{open}");
    let other_name = explain("/club;x/");
    assert!(other_name.contains("realm \"Club\""), "{other_name}");
}
