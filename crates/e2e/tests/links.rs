//! The rules for symbolic links hold while links are swapped: the server sends the file that it has checked.

use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use e2e::{Client, Response, Rows, Server, Site, is_root};
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// How long links are swapped.
const RACE: Duration = Duration::from_secs(10);
const CLIENTS: usize = 3;
/// So many that each of four workers has some.
const CONNECTIONS: usize = 40;
/// The owner of the links and of their allowed targets, if the test runs as root.
const ATTACKER: u32 = 12345;
/// A folder of another owner, a file in it, and a line of that file.
const FOREIGN: &str = "/etc";
const FOREIGN_FILE: &str = "passwd";
const SECRET: &str = "root:x:0:0:";

/// In the folder of this name, two names are swapped. One is a link to the attacker's own file, the other to
/// a foreign one.
struct Race {
    name: &'static str,
    /// Target and name.
    links: &'static [(&'static str, &'static str)],
    exchanged: [&'static str; 2],
    requested: &'static str,
}

const RACES: [Race; 10] = [
    Race {
        name: "file",
        links: &[("own.txt", "x"), ("/etc/passwd", "y")],
        exchanged: ["x", "y"],
        requested: "x",
    },
    Race {
        name: "link-and-file",
        links: &[("/etc/passwd", "y"), ("own.txt", "to-own")],
        exchanged: ["own.txt", "y"],
        requested: "to-own",
    },
    Race {
        name: "folder",
        links: &[("own", "x"), ("/etc", "y")],
        exchanged: ["x", "y"],
        requested: "x/passwd",
    },
    Race {
        name: "first-of-chain",
        links: &[("own.txt", "to-own"), ("/etc/passwd", "to-foreign"), ("to-own", "x"), ("to-foreign", "y")],
        exchanged: ["x", "y"],
        requested: "x",
    },
    Race {
        name: "last-of-chain",
        links: &[("own.txt", "x"), ("/etc/passwd", "y"), ("x", "to-x")],
        exchanged: ["x", "y"],
        requested: "to-x",
    },
    Race {
        name: "within-a-target",
        links: &[("own", "x"), ("/etc", "y"), ("x/passwd", "to-x")],
        exchanged: ["x", "y"],
        requested: "to-x",
    },
    Race {
        name: "dots",
        links: &[
            ("own/../own/passwd", "x"),
            ("own/../../../../../../../../../../../../../../../../../etc/passwd", "y"),
        ],
        exchanged: ["x", "y"],
        requested: "x",
    },
    Race {
        name: "precompressed",
        links: &[("own.txt", "own.txt.gz"), ("/etc/passwd", "y")],
        exchanged: ["own.txt.gz", "y"],
        requested: "own.txt",
    },
    Race {
        name: "index",
        links: &[("../own.txt", "own/index.html"), ("/etc/passwd", "own/y")],
        exchanged: ["own/index.html", "own/y"],
        requested: "own/",
    },
    Race {
        name: "listing",
        links: &[("empty", "x"), ("/etc", "y")],
        exchanged: ["x", "y"],
        requested: "x/?format=json",
    },
];

/// Rules, and whether they allow a link to the attacker's own file. Each has a host of its name.
const RULES: [(&str, bool); 3] = [("owner", true), ("beneath", true), ("never", false)];

impl Race {
    fn set_up(&self, root: &Path) {
        let home = root.join(self.name);
        for folder in ["own", "empty"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        fs::write(home.join("own.txt"), "own").unwrap();
        fs::write(home.join("own").join(FOREIGN_FILE), "own").unwrap();
        for (to, name) in self.links {
            symlink(to, home.join(name)).unwrap();
        }
        if is_root() {
            let mine = ["", "own", "empty", "own.txt", "own/passwd"].iter();
            for name in mine.chain(self.links.iter().map(|(_, name)| name)) {
                lchown(home.join(name), Some(ATTACKER), None).unwrap();
            }
        }
    }

    fn exchange(&self, root: &Path) {
        let [one, other] = self.exchanged.map(|name| root.join(self.name).join(name));
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("they can be exchanged");
    }

    fn request(&self, client: &mut Client, rule: &str) -> Response {
        let Race { name, requested, .. } = self;
        client.request(format!(
            "GET /{name}/{requested} HTTP/1.1\r\nHost: {rule}\r\nAccept-Encoding: gzip\r\n\r\n"
        ))
    }

    fn leaks(&self, response: &Response) -> bool {
        let text = response.text();
        text.contains(SECRET) || (self.name == "listing" && text.contains(FOREIGN_FILE))
    }
}

/// The results of a race under one rule.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    served: usize,
    denied: usize,
    leaked: usize,
    other: usize,
}

fn server() -> Server {
    let hosts = RULES
        .map(|(rule, _)| format!("[[host]]\nroot = \"www\"\nnames = [\"{rule}\"]\nsymlinks = \"{rule}\"\n"));
    let site = Site::new()
        .config("listing = true\n[cache]\ncheck = \"0s\"\nmissing = \"0s\"\n")
        .config(&hosts.concat());
    for race in &RACES {
        race.set_up(&site.root());
    }
    // A precompressed file that is older than its original is not used.
    site.modified("precompressed/own.txt", 1_000_000).start()
}

#[test]
fn no_link_rule_leaks_while_links_are_swapped() {
    assert!(fs::read_to_string(Path::new(FOREIGN).join(FOREIGN_FILE)).unwrap().contains(SECRET));
    let server = server();
    let root = server.root();
    let seen = Mutex::new([[Seen::default(); RULES.len()]; RACES.len()]);
    let until = Instant::now() + RACE;
    thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < until {
                RACES.iter().for_each(|race| race.exchange(&root));
            }
        });
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.connect();
                while Instant::now() < until {
                    for (at, race) in RACES.iter().enumerate() {
                        for (rule, (name, _)) in RULES.iter().enumerate() {
                            let response = race.request(&mut client, name);
                            let seen = &mut seen.lock().unwrap()[at][rule];
                            match response.status {
                                200 if race.leaks(&response) => seen.leaked += 1,
                                200 => seen.served += 1,
                                403 => seen.denied += 1,
                                _ => seen.other += 1,
                            }
                        }
                    }
                }
            });
        }
    });
    let mut rows = Rows::new();
    for (race, seen) in RACES.iter().zip(seen.into_inner().unwrap()) {
        for ((rule, follows), seen) in RULES.iter().zip(seen) {
            let what = format!("{} {rule} {seen:?}", race.name);
            rows.check(&what, (seen.leaked, seen.other), (0, 0));
            rows.holds(
                &what,
                "the attacker's own file is served if the rule allows it",
                seen.served > 0 || !follows,
            );
            let is_hidden = matches!(race.name, "precompressed" | "link-and-file");
            rows.holds(&what, "what is not is denied", seen.denied > 0 || is_hidden);
        }
    }
}

/// A release is often switched by exchanging a link, and asked for afterwards. With the old code of a page, a cache in
/// front would keep it.
#[test]
fn the_first_request_after_a_root_was_switched_gets_the_new_folder() {
    for (root, link, old, new) in [
        ("current", "current", "old", "new"),
        ("$host/current", "a.example/current", "a.example/old", "a.example/new"),
        ("current/$host", "current", "old/a.example", "new/a.example"),
    ] {
        let site = Site::new()
            .config_without_root(&format!("root = \"sites/{root}\"\nworkers = 4\n"))
            .file_beside_root(&format!("sites/{old}/a.txt"), "old")
            .file_beside_root(&format!("sites/{new}/a.txt"), "new");
        let current = site.home().join("sites").join(link);
        symlink("old", &current).unwrap();
        let server = site.start();
        let get = || server.request("GET /a.txt HTTP/1.1\r\nHost: a.example\r\n\r\n").text();
        for _ in 0..CONNECTIONS {
            assert_eq!(get(), "old", "{root}");
        }
        symlink("new", current.with_extension("next")).unwrap();
        fs::rename(current.with_extension("next"), &current).unwrap();
        // What was compared with the disk within a second counts, as the manual says.
        server.wait_for_next_second();
        for number in 0..CONNECTIONS {
            assert_eq!(get(), "new", "{root}: request {number}");
        }
    }
}

/// As for roots: the link of a user, and the folder that the homes are in.
#[test]
fn the_first_request_after_a_user_has_switched_the_folder_gets_the_new_one() {
    for (link, old, new) in [
        ("homes/ann/public_html", "homes/ann/old", "homes/ann/new"),
        ("homes", "old/ann/public_html", "new/ann/public_html"),
    ] {
        let site = Site::new()
            .config("workers = 4\nuser_folders = \"public_html\"\n[accounts]\nhomes = \"homes\"\npasswd = \"passwd\"\n")
            .file_beside_root(&format!("{old}/a.txt"), "old")
            .file_beside_root(&format!("{new}/a.txt"), "new");
        let home = site.home().join("homes");
        let site =
            site.file_beside_root("passwd", format!("ann:x:1000:1000::{}/ann:/bin/sh\n", home.display()));
        let current = site.home().join(link);
        symlink("old", &current).unwrap();
        let server = site.start();
        for _ in 0..CONNECTIONS {
            assert_eq!(server.get("/~ann/a.txt").text(), "old", "{link}");
        }
        let next = current.with_extension("next");
        symlink("new", &next).unwrap();
        fs::rename(&next, &current).unwrap();
        // What was compared with the disk within a second counts, as the manual says.
        server.wait_for_next_second();
        for number in 0..CONNECTIONS {
            assert_eq!(server.get("/~ann/a.txt").text(), "new", "{link}: request {number}");
        }
    }
}
