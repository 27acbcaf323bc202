use taipan_http::target::encode_path;

use super::*;
use crate::config;
use crate::model::Interpreter;
use crate::model::Site;
use crate::plan::{Plan, PlannedAction, plan};

/// A site with a root and the configuration `text`.
fn site(text: &str) -> Site {
    let text = format!("listen = \"127.0.0.1:1\"\nroot = \"/www\"\n{text}");
    config::of_text(&text)
}

/// Executable files, other files, folders, and special files.
struct Disk {
    scripts: &'static [&'static str],
    locked: &'static [&'static str],
    folders: &'static [&'static str],
    others: &'static [&'static str],
}

impl Disk {
    fn file_kind(&self, step: &Step) -> FileKind {
        let file = step.file(None).unwrap();
        let is = |paths: &[&str]| paths.iter().any(|path| Path::new(path) == file);
        match () {
            () if is(self.scripts) => FileKind::Script,
            () if is(self.locked) => FileKind::NotExecutable,
            () if is(self.folders) => FileKind::Folder,
            () if is(self.others) => FileKind::Other,
            () => FileKind::Missing,
        }
    }
}

/// The plan for `target`, in one line.
fn outcome(site: &Site, disk: &Disk, target: &str) -> String {
    let path = SafePath::parse(target).unwrap();
    let Plan { walk, action, .. } = plan(site.hosts.at(0), path, None);
    if let Some(walk) = walk {
        match walk.verdict(|step| Ok::<_, ()>(disk.file_kind(step))).unwrap() {
            Verdict::Run(at) => {
                let step = &walk.steps[at];
                let (_, script) = script(site.hosts.at(0), step).unwrap();
                let by = script.interpreter.as_ref().map(|by| match by {
                    Interpreter::Program(path) => format!("{} ", path.display()),
                    Interpreter::Upstream(id) => format!("application {id} "),
                });
                let (file, info) = (step.file(None).unwrap(), &step.path_info);
                return format!(
                    "{}{} as {} + {info}",
                    by.unwrap_or_default(),
                    file.display(),
                    step.script_name
                );
            }
            Verdict::Denied(_) | Verdict::Folder => return "403".to_owned(),
            Verdict::RedirectToFolder => return "to the folder".to_owned(),
            Verdict::NoScript => {}
        }
    }
    match action {
        PlannedAction::Files(files) => {
            format!(
                "files {}",
                files.root.path().expect("it has no name").join(files.below().as_str()).display()
            )
        }
        PlannedAction::Upstream(planned) => {
            let (script_name, path_info) = planned.script_name_and_path_info();
            format!("application {script_name} + {path_info}")
        }
        PlannedAction::Redirect(redirect) => redirect.status.code().to_string(),
        PlannedAction::Status(status, _) => status.code().to_string(),
        PlannedAction::Publish(text) => text.body.clone(),
        PlannedAction::Monitor(monitor) => monitor.name().to_owned(),
    }
}

#[test]
fn never_sends_files_of_a_script_folder() {
    let site = site(
        "[[route]]\npath = \"/cgi-bin/\"\nalias = \"/lib/cgi\"\ncgi = true\nindex = [\"index.cgi\", \"none\"]\n\
         [[route]]\npath = \"/here/\"\ncgi = true",
    );
    let disk = Disk {
        scripts: &["/lib/cgi/a", "/lib/cgi/more/b.sh", "/lib/cgi/more/index.cgi", "/www/here/x"],
        locked: &["/lib/cgi/text"],
        folders: &["/lib/cgi/more", "/lib/cgi/empty", "/www/here"],
        others: &["/lib/cgi/pipe"],
    };
    for (target, expected) in [
        ("/cgi-bin/a", "/lib/cgi/a as /cgi-bin/a + "),
        ("/cgi-bin/a/", "/lib/cgi/a as /cgi-bin/a + /"),
        ("/cgi-bin/a/x/%C3%A4/", "/lib/cgi/a as /cgi-bin/a + /x/ä/"),
        ("/cgi-bin/a/x/../y", "/lib/cgi/a as /cgi-bin/a + /y"),
        ("/cgi-bin/a/.git/x", "/lib/cgi/a as /cgi-bin/a + /.git/x"),
        ("/cgi-bin/more/b.sh/c", "/lib/cgi/more/b.sh as /cgi-bin/more/b.sh + /c"),
        ("/cgi-bin/more/", "/lib/cgi/more/index.cgi as /cgi-bin/more/index.cgi + "),
        ("/cgi-bin/more", "to the folder"),
        ("/cgi-bin/empty/", "403"),
        ("/cgi-bin/empty", "403"),
        ("/cgi-bin/", "403"),
        ("/cgi-bin", "403"),
        ("/cgi-bin/text", "403"),
        ("/cgi-bin/text/a", "403"),
        ("/cgi-bin/pipe", "403"),
        ("/cgi-bin/none", "404"),
        ("/cgi-bin/none/a", "404"),
        ("/cgi-bin/more/none/", "404"),
        ("/cgi-bin/.a", "404"),
        ("/cgi-bin/.hidden/a", "404"),
        ("/here/x/y", "/www/here/x as /here/x + /y"),
        ("/other/x", "files /www/other/x"),
    ] {
        assert_eq!(outcome(&site, &disk, target), expected, "{target}");
    }
}

#[test]
fn finds_scripts_by_a_pattern_of_their_own_path() {
    let site = site(
        "index = [\"index.html\", \"index.php\"]\n\
         rewrites = { \"/blog/\" = \"/blog.php/$rest\" }\n\
         [[route]]\npath = \"*.php\"\ninterpreter = \"/bin/php\"\n\
         [[route]]\npath = \"/one\"\ncgi = true\n\
         [[route]]\npath = \"/one/static/\"\nroot = \"/static\"",
    );
    let disk = Disk {
        scripts: &[
            "/www/a.php",
            "/www/blog.php",
            "/www/one",
            "/www/up/a.jpg",
            "/www/up/x.php/a.php",
            "/www/both/index.php",
            "/www/both/index.html",
            "/www/php/index.php",
            "/www/locked/index.html",
        ],
        locked: &["/www/b.php", "/www/locked/index.php"],
        folders: &["/www/up", "/www/up/x.php", "/www/both", "/www/php", "/www/locked"],
        others: &["/www/pipe.php"],
    };
    for (target, expected) in [
        ("/a.php", "/bin/php /www/a.php as /a.php + "),
        ("/a.php/x", "/bin/php /www/a.php as /a.php + /x"),
        ("/a.php/x.html/", "/bin/php /www/a.php as /a.php + /x.html/"),
        ("/a.php/b.php", "/bin/php /www/a.php as /a.php + /b.php"),
        ("/a.php/.x", "/bin/php /www/a.php as /a.php + /.x"),
        ("/blog/2026/x", "/bin/php /www/blog.php as /blog.php + /2026/x"),
        ("/b.php", "403"),
        ("/b.php/x", "403"),
        ("/pipe.php", "403"),
        ("/none.php", "404"),
        ("/none.php/x", "files /www/none.php/x"),
        ("/up/a.jpg", "files /www/up/a.jpg"),
        ("/up/a.jpg/b.php", "404"),
        ("/up/a.jpg/b", "files /www/up/a.jpg/b"),
        ("/up/x.php/", "403"),
        ("/up/x.php/a.php/b", "/bin/php /www/up/x.php/a.php as /up/x.php/a.php + /b"),
        ("/up/x.php/a.txt", "files /www/up/x.php/a.txt"),
        ("/a.phps", "files /www/a.phps"),
        ("/a.php~", "files /www/a.php~"),
        ("/.a.php", "404"),
        ("/.a.php/x", "404"),
        ("/one", "/www/one as /one + "),
        ("/one/x", "/www/one as /one + /x"),
        ("/one/static/x", "files /static/one/static/x"),
        ("/php/", "/bin/php /www/php/index.php as /php/index.php + "),
        ("/php", "files /www/php"),
        ("/both/", "files /www/both/"),
        ("/locked/", "files /www/locked/"),
        ("/", "files /www/"),
    ] {
        assert_eq!(outcome(&site, &disk, target), expected, "{target}");
    }
}

#[test]
fn finds_scripts_by_a_path_without_their_suffix() {
    let site = site(
        "try_suffixes = [\".html\", \".php\"]\nindex = [\"index.php\"]\n\
         [[route]]\npath = \"*.php\"\ninterpreter = \"/bin/php\"\n\
         [[route]]\npath = \"/first/\"\ntry_suffixes = [\"/\", \".php\"]\n\
         [[route]]\npath = \"/gone.php\"\nreturn = 410\n\
         [[route]]\npath = \"/none/\"\ntry_suffixes = []\n\
         [[route]]\npath = \"/cgi/\"\nalias = \"/lib/cgi\"\ncgi = true\ntry_suffixes = [\".sh\"]",
    );
    let disk = Disk {
        scripts: &[
            "/www/a.php",
            "/www/exact",
            "/www/exact.php",
            "/www/both.html",
            "/www/both.php",
            "/www/sub.php",
            "/www/sub/b.php",
            "/www/gone.php",
            "/www/.hidden.php",
            "/www/none/x.php",
            "/www/first/sub.php",
            "/www/first/alone.php",
            "/lib/cgi/run.sh",
        ],
        locked: &["/www/locked.php"],
        folders: &["/www/sub", "/www/odd.php", "/www/first", "/www/first/sub"],
        others: &["/www/pipe"],
    };
    for (target, expected) in [
        ("/a", "/bin/php /www/a.php as /a.php + "),
        ("/a.php", "/bin/php /www/a.php as /a.php + "),
        ("/a/", "files /www/a/"),
        ("/a/x", "files /www/a/x"),
        ("/exact", "files /www/exact"),
        ("/both", "files /www/both"),
        ("/sub", "/bin/php /www/sub.php as /sub.php + "),
        ("/sub/b", "/bin/php /www/sub/b.php as /sub/b.php + "),
        ("/gone", "files /www/gone"),
        ("/.hidden", "404"),
        ("/locked", "403"),
        ("/odd", "files /www/odd"),
        ("/pipe", "files /www/pipe"),
        ("/none/x", "files /www/none/x"),
        ("/first/sub", "files /www/first/sub"),
        ("/first/alone", "/bin/php /www/first/alone.php as /first/alone.php + "),
        ("/cgi/run", "/lib/cgi/run.sh as /cgi/run.sh + "),
        ("/cgi/run/x", "404"),
    ] {
        assert_eq!(outcome(&site, &disk, target), expected, "{target}");
    }
}

#[test]
fn combines_the_settings_of_a_glob_and_a_prefix() {
    let site = site(
        "index = [\"index.html\", \"index.php\"]\nrewrites = { \"/moved/\" = \"/new/$rest\" }\n\
         redirects = { \"/gone/\" = \"/new/$rest\" }\n\
         [[route]]\npath = \"*.php\"\ninterpreter = \"/bin/php\"\n\
         [[route]]\npath = \"*.css\"\ncache_control = \"no-cache\"\n\
         [[route]]\npath = \"*.own\"\nroot = \"/own\"\ncgi = true\n\
         [[route]]\npath = \"/wiki/\"\nalias = \"/usr/wiki\"\n\
         [[route]]\npath = \"/wiki/conf/\"\nreturn = 403\n\
         [[route]]\npath = \"/wiki/one\"\ninterpreter = \"/bin/one\"\n\
         [[route]]\npath = \"/wiki/conf/open.php\"\n\
         [[route]]\npath = \"/cgi/\"\nalias = \"/lib/cgi\"\ncgi = true\n\
         [[route]]\npath = \"/rooted/\"\nroot = \"/mnt\"\n\
         [[route]]\npath = \"/app/\"\napplication = \"a\"\n\
         [[application]]\nname = \"a\"\naddress = \"127.0.0.1:9\"",
    );
    let disk = Disk {
        scripts: &[
            "/www/a.php",
            "/usr/wiki/doku.php",
            "/usr/wiki/index.php",
            "/usr/wiki/lib/exe/css.php",
            "/usr/wiki/one",
            "/www/wiki/conf/open.php",
            "/own/wiki/x.own",
            "/lib/cgi/x.css",
            "/mnt/rooted/a.php",
            "/www/new/a.php",
            "/www/wiki/doku.php",
        ],
        locked: &[],
        folders: &["/usr/wiki", "/usr/wiki/lib"],
        others: &[],
    };
    for (target, expected) in [
        ("/a.php", "/bin/php /www/a.php as /a.php + "),
        ("/wiki/doku.php", "/bin/php /usr/wiki/doku.php as /wiki/doku.php + "),
        ("/wiki/doku.php/a/b", "/bin/php /usr/wiki/doku.php as /wiki/doku.php + /a/b"),
        ("/wiki/lib/exe/css.php", "/bin/php /usr/wiki/lib/exe/css.php as /wiki/lib/exe/css.php + "),
        ("/wiki/", "/bin/php /usr/wiki/index.php as /wiki/index.php + "),
        ("/wiki", "files /usr/wiki/"),
        ("/wiki/none.php", "404"),
        ("/wiki/a.css", "files /usr/wiki/a.css"),
        ("/wiki/x.own", "/own/wiki/x.own as /wiki/x.own + "),
        ("/wiki/one", "/bin/one /usr/wiki/one as /wiki/one + "),
        ("/wiki/one/a.php", "/bin/one /usr/wiki/one as /wiki/one + /a.php"),
        ("/wiki/conf/a.php", "403"),
        ("/wiki/conf/a.css", "403"),
        ("/wiki/conf/open.php", "files /www/wiki/conf/open.php"),
        ("/cgi/x.css", "/lib/cgi/x.css as /cgi/x.css + "),
        ("/cgi/none.css", "404"),
        ("/rooted/a.php", "/bin/php /mnt/rooted/a.php as /rooted/a.php + "),
        ("/app/a.css", "application /app + /a.css"),
        ("/app/a.php/x", "application /app + /a.php/x"),
        ("/gone/a.php", "302"),
        ("/moved/a.css", "files /www/moved/a.css"),
    ] {
        assert_eq!(outcome(&site, &disk, target), expected, "{target}");
    }
}

#[test]
fn serves_a_glob_only_below_prefixes_if_the_host_has_no_root() {
    let text = "listen = \"127.0.0.1:1\"\n[[route]]\npath = \"*.php\"\ninterpreter = \"/bin/php\"\n\
                [[route]]\npath = \"/wiki/\"\nalias = \"/usr/wiki\"\n[[route]]\npath = \"/wiki/one\"\n";
    let site = config::of_text(text);
    let disk = Disk { scripts: &["/usr/wiki/doku.php"], locked: &[], folders: &[], others: &[] };
    for (target, expected) in [
        ("/wiki/doku.php", "/bin/php /usr/wiki/doku.php as /wiki/doku.php + "),
        ("/wiki/one", "files /usr/wiki/one"),
        ("/doku.php", "404"),
        ("/", "404"),
    ] {
        assert_eq!(outcome(&site, &disk, target), expected, "{target}");
    }
    let everything = format!("{text}[[route]]\npath = \"/\"\nalias = \"/all\"");
    let site = config::of_text(&everything);
    let disk = Disk { scripts: &["/all/a.php"], ..disk };
    assert_eq!(outcome(&site, &disk, "/a.php"), "/bin/php /all/a.php as /a.php + ");
}

#[test]
fn applies_the_settings_of_a_prefix_to_globs_below_it() {
    let site = site(
        "symlinks = \"owner\"\nheaders = { X-Host = \"h\" }\nenv = { HOST = \"h\" }\nauthorizer = \"host\"\n\
         [[route]]\npath = \"*.a\"\ncgi = true\nenv = { OWN = \"a\" }\nmax_body = 3\n\
         [[route]]\npath = \"*.b\"\ncgi = true\nsymlinks = \"follow\"\ndotfiles = \"allow\"\nauthorizer = \"b\"\n\
         [[route]]\npath = \"*.c\"\nsymlinks = \"never\"\nauthorizer = false\n\
         [[route]]\npath = \"/p/\"\nalias = \"/p\"\nsymlinks = \"follow\"\nauthorizer = \"p\"\nmax_body = 9\n\
         env = { PREFIX = \"p\" }\nheaders = { X-Prefix = \"p\" }\nindex = \"p.html\"\n\
         [[route]]\npath = \"/q/\"\nalias = \"/q\"\nsymlinks = \"never\"\ndotfiles = \"deny\"\n\
         [[route]]\npath = \"/p/x.b\"\nauthorizer = false\nsymlinks = \"never\"\n\
         [[application]]\nname = \"host\"\naddress = \"127.0.0.1:9\"\n\
         [[application]]\nname = \"b\"\naddress = \"127.0.0.1:9\"\n\
         [[application]]\nname = \"p\"\naddress = \"127.0.0.1:9\"",
    );
    let host = site.hosts.at(0);
    let settings = |target: &str| {
        let route = host.routes.get(host.routes.find(&SafePath::parse(target).unwrap()));
        let authorizers: Vec<&str> =
            route.authorizers.iter().map(|own| &*site.upstreams[own.upstream].name).collect();
        let mut env: Vec<&str> =
            route.script.iter().flat_map(|script| script.environment.iter()).map(|(name, _)| name).collect();
        env.sort();
        let fields: Vec<&str> = route.headers.iter().map(|rule| rule.name()).collect();
        let files = &route.files;
        format!(
            "{:?} {:?} {authorizers:?} {} {env:?} {fields:?} {:?}",
            files.symlinks, files.dotfiles, route.max_body, files.index
        )
    };
    for (target, expected) in [
        ("/x.a", r#"Owner Deny ["host"] 3 ["HOST", "OWN", "PATH"] ["X-Host"] ["index.html"]"#),
        (
            "/p/x.a",
            r#"Follow Deny ["p"] 3 ["HOST", "OWN", "PATH", "PREFIX"] ["X-Prefix", "X-Host"] ["p.html"]"#,
        ),
        ("/x.b", r#"Follow Allow ["b"] 1048576 ["HOST", "PATH"] ["X-Host"] ["index.html"]"#),
        (
            "/p/y.b",
            r#"Follow Allow ["p", "b"] 9 ["HOST", "PATH", "PREFIX"] ["X-Prefix", "X-Host"] ["p.html"]"#,
        ),
        ("/q/y.b", r#"Never Deny ["b"] 1048576 ["HOST", "PATH"] ["X-Host"] ["index.html"]"#),
        ("/x.c", r#"Never Deny [] 1048576 [] ["X-Host"] ["index.html"]"#),
        ("/p/x.c", r#"Never Deny ["p"] 9 [] ["X-Prefix", "X-Host"] ["p.html"]"#),
        ("/p/x.b", r#"Never Deny [] 9 [] ["X-Prefix", "X-Host"] ["p.html"]"#),
    ] {
        assert_eq!(settings(target), expected, "{target}");
    }
    let at = |target: &str| host.routes.find(&SafePath::parse(target).unwrap());
    assert_ne!(at("/x.a"), at("/p/x.a"));
    assert_eq!(host.routes.configured(at("/p/x.a")), at("/x.a"), "they share a limit of processes");
}

#[test]
fn never_sends_a_script_as_an_index_file() {
    let site = site("index = [\"a.php\", \"b.html\", \"c.php\"]\n[[route]]\npath = \"*.php\"\ncgi = true");
    let index = |target: &str| {
        let path = SafePath::parse(target).unwrap();
        let files = plan(site.hosts.at(0), path, None).files();
        files.map(|files| files.index.into_owned())
    };
    assert_eq!(index("/"), Some(vec!["b.html".to_owned()]));
    assert_eq!(index("/x/"), Some(vec!["b.html".to_owned()]));
    assert_eq!(index("/a.php"), None);
    let alias = "[[route]]\npath = \"*.php\"\ncgi = true\n[[route]]\npath = \"/a/\"\nalias = \"/b\"\nindex = \"a.php\"";
    let site = self::site(alias);
    let files = plan(site.hosts.at(0), SafePath::parse("/a").unwrap(), None).files().unwrap();
    assert_eq!((files.below().as_str(), files.index.len()), ("", 0), "the folder needs the slash at its end");
}

#[test]
fn makes_no_walk_for_a_host_without_scripts() {
    let site = site("[[route]]\npath = \"/a/\"\nroot = \"/b\"");
    for target in ["/", "/a/b/c", "/x.php"] {
        assert_eq!(walk(site.hosts.at(0), &SafePath::parse(target).unwrap()), None);
    }
}

#[test]
fn limits_the_probes_for_a_deep_path() {
    let site = site("[[route]]\npath = \"*a\"\ncgi = true\n[[route]]\npath = \"/bin/\"\ncgi = true");
    for (target, most) in
        [(format!("/{}a", "a/".repeat(3000)), MAX_SPLITS + 1), (format!("/bin/x{}", "/y".repeat(3000)), 1)]
    {
        let walk = walk(site.hosts.at(0), &SafePath::parse(&target).unwrap()).unwrap();
        let mut probes = 0;
        let verdict = walk.verdict(|_| {
            probes += 1;
            Ok::<_, ()>(FileKind::Missing)
        });
        assert_eq!(verdict, Ok(Verdict::NoScript));
        assert!(walk.steps.len() <= MAX_SPLITS + 2 && probes <= most, "{probes} probes");
    }
}

#[test]
fn stops_at_an_error() {
    let site = site("[[route]]\npath = \"/a/\"\ncgi = true");
    let walk = walk(site.hosts.at(0), &SafePath::parse("/a/b/c").unwrap()).unwrap();
    assert_eq!(walk.verdict(|_| Err("broken")), Err("broken"));
}

#[test]
fn translates_path_info_as_a_path() {
    let site =
        site("[[route]]\npath = \"/files/\"\nalias = \"/mnt\"\n[[route]]\npath = \"/x\"\nreturn = 410");
    let host = site.hosts.at(0);
    for (path_info, expected) in [
        ("/a/b", Some("/www/a/b")),
        ("/a b/%/", Some("/www/a b/%/")),
        ("/files/a", Some("/mnt/a")),
        ("/", Some("/www/")),
        ("/x", None),
    ] {
        assert_eq!(path_translated(host, None, path_info), expected.map(PathBuf::from), "{path_info}");
    }
    let mut encoded = String::new();
    encode_path("/%2e%2e/x", &mut encoded);
    assert_eq!(
        path_translated(host, None, "/%2e%2e/x"),
        Some("/www/%2e%2e/x".into()),
        "the path is already decoded"
    );
}

#[test]
fn takes_the_document_root_from_the_host() {
    let site = site("[[route]]\npath = \"/cgi-bin/\"\nalias = \"/lib/cgi\"\ncgi = true");
    let walk = walk(site.hosts.at(0), &SafePath::parse("/cgi-bin/a").unwrap()).unwrap();
    let root = walk.steps[0].root(None).unwrap();
    assert_eq!(document_root(site.hosts.at(0), None, root), Path::new("/www"));
}

#[test]
fn takes_scripts_from_the_folder_of_a_name() {
    let config = "listen = \"127.0.0.1:1\"\nroot = \"/v/$host/www\"\n\
                  [[route]]\npath = \"**.cgi\"\ncgi = true\n\
                  [[route]]\npath = \"/lib/\"\nalias = \"/usr/lib/cgi\"\n\
                  [[route]]\npath = \"/bin/\"\ncgi = true";
    let site = config::of_text(config);
    let (host, folder) = (site.hosts.at(0), Some(Path::new("/v/a/www")));
    for (target, expected) in [
        ("/x/y.cgi/z", "/v/a/www/x/y.cgi"),
        ("/bin/a", "/v/a/www/bin/a"),
        ("/lib/a.cgi", "/usr/lib/cgi/a.cgi"),
    ] {
        let walk = walk(host, &SafePath::parse(target).unwrap()).unwrap();
        let is_there = |step: &Step| step.file(folder) == Some(expected.into());
        let verdict = walk.verdict(|step| match is_there(step) {
            true => Ok::<_, ()>(FileKind::Script),
            false => Ok(FileKind::Folder),
        });
        assert!(matches!(verdict, Ok(Verdict::Run(_))), "{target}");
    }
    assert_eq!(walk(host, &SafePath::parse("/a.html").unwrap()), None);
    assert_eq!(document_root(host, folder, Path::new("/")), Path::new("/v/a/www"));
    assert_eq!(path_translated(host, folder, "/a/b"), Some("/v/a/www/a/b".into()));
    assert_eq!(path_translated(host, None, "/a/b"), None);
}
