use std::io;

use http::target::encode_path;

use super::*;
use crate::config::{self, Source};
use crate::model::Interpreter;
use crate::model::Site;
use crate::plan::{Plan, Scheme, plan};

struct One(String);

impl Source for One {
    fn read(&self, _: &Path) -> io::Result<String> {
        Ok(self.0.clone())
    }

    fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// A root, and what `text` says.
fn site(text: &str) -> Site {
    let text = format!("listen = \"127.0.0.1:1\"\nroot = \"/www\"\n{text}");
    config::load(Path::new("site.toml"), &One(text)).unwrap()
}

/// Files that may be run, files that may not, folders, and something else.
struct Disk {
    scripts: &'static [&'static str],
    locked: &'static [&'static str],
    folders: &'static [&'static str],
    others: &'static [&'static str],
}

impl Disk {
    fn stands(&self, step: &Step) -> Stands {
        let file = step.file();
        let is = |paths: &[&str]| paths.iter().any(|path| Path::new(path) == file);
        match () {
            () if is(self.scripts) => Stands::Script,
            () if is(self.locked) => Stands::Locked,
            () if is(self.folders) => Stands::Folder,
            () if is(self.others) => Stands::Other,
            () => Stands::Nothing,
        }
    }
}

/// What is done for `target`, in one line.
fn outcome(site: &Site, disk: &Disk, target: &str) -> String {
    let path = SafePath::parse(target).unwrap();
    said(site, disk, plan(site, 0, path, None, b"", Scheme::Http))
}

fn said(site: &Site, disk: &Disk, plan: Plan) -> String {
    match plan {
        Plan::Files(files) => format!("files {}", files.root.join(files.below().as_str()).display()),
        Plan::Application(planned) => format!("application {} + {}", planned.name, planned.path_info),
        Plan::Redirect { status, .. } | Plan::Status { status, .. } => status.code().to_string(),
        Plan::Scripts(scripts) => {
            let crate::plan::Scripts { walk, otherwise } = *scripts;
            let looked = walk.end(|step| Ok::<_, ()>(disk.stands(step))).unwrap();
            match looked {
                Verdict::Run(at) => {
                    let step = &walk.steps[at];
                    let (_, script) = script(site.hosts.at(0), step).unwrap();
                    let by = script.interpreter.as_ref().map(|by| match by {
                        Interpreter::Program(path) => format!("{} ", path.display()),
                        Interpreter::Application(id) => format!("application {id} "),
                    });
                    let (file, info) = (step.file(), &step.path_info);
                    format!("{}{} as {} + {info}", by.unwrap_or_default(), file.display(), step.name)
                }
                Verdict::Denied(_) | Verdict::Folder => "403".to_owned(),
                Verdict::ToFolder => "to the folder".to_owned(),
                Verdict::Otherwise => said(site, disk, otherwise),
            }
        }
    }
}

#[test]
fn a_folder_of_scripts_has_nothing_else_in_it() {
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
fn a_pattern_marks_scripts_and_nothing_by_what_follows_it() {
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
fn a_script_is_never_an_index_that_is_sent() {
    let site = site("index = [\"a.php\", \"b.html\", \"c.php\"]\n[[route]]\npath = \"*.php\"\ncgi = true");
    let index = |target: &str| {
        let path = SafePath::parse(target).unwrap();
        let files = plan(&site, 0, path, None, b"", Scheme::Http).files();
        files.map(|files| files.index.into_owned())
    };
    assert_eq!(index("/"), Some(vec!["b.html".to_owned()]));
    assert_eq!(index("/x/"), Some(vec!["b.html".to_owned()]));
    assert_eq!(index("/a.php"), None);
}

#[test]
fn a_host_without_scripts_walks_nowhere() {
    let site = site("[[route]]\npath = \"/a/\"\nroot = \"/b\"");
    for target in ["/", "/a/b/c", "/x.php"] {
        assert_eq!(walk(site.hosts.at(0), &SafePath::parse(target).unwrap()), None);
    }
}

#[test]
fn a_path_of_any_depth_takes_few_looks() {
    let site = site("[[route]]\npath = \"*a\"\ncgi = true\n[[route]]\npath = \"/bin/\"\ncgi = true");
    for (target, most) in
        [(format!("/{}a", "a/".repeat(3000)), MAX_SPLITS + 1), (format!("/bin/x{}", "/y".repeat(3000)), 1)]
    {
        let walk = walk(site.hosts.at(0), &SafePath::parse(&target).unwrap()).unwrap();
        let mut looks = 0;
        let verdict = walk.end(|_| {
            looks += 1;
            Ok::<_, ()>(Stands::Nothing)
        });
        assert_eq!(verdict, Ok(Verdict::Otherwise));
        assert!(walk.steps.len() <= MAX_SPLITS + 2 && looks <= most, "{looks} looks");
    }
}

#[test]
fn an_error_ends_a_walk() {
    let site = site("[[route]]\npath = \"/a/\"\ncgi = true");
    let walk = walk(site.hosts.at(0), &SafePath::parse("/a/b/c").unwrap()).unwrap();
    assert_eq!(walk.end(|_| Err("broken")), Err("broken"));
}

#[test]
fn path_info_is_translated_as_a_path_of_its_own() {
    let site =
        site("[[route]]\npath = \"/files/\"\nalias = \"/mnt\"\n[[route]]\npath = \"/x\"\nanswer = 410");
    let host = site.hosts.at(0);
    for (path_info, expected) in [
        ("/a/b", Some("/www/a/b")),
        ("/a b/%/", Some("/www/a b/%/")),
        ("/files/a", Some("/mnt/a")),
        ("/", Some("/www/")),
        ("/x", None),
    ] {
        assert_eq!(translated(host, path_info), expected.map(PathBuf::from), "{path_info}");
    }
    let mut encoded = String::new();
    encode_path("/%2e%2e/x", &mut encoded);
    assert_eq!(translated(host, "/%2e%2e/x"), Some("/www/%2e%2e/x".into()), "it is decoded already");
}

#[test]
fn the_document_root_is_the_host_s() {
    let site = site("[[route]]\npath = \"/cgi-bin/\"\nalias = \"/lib/cgi\"\ncgi = true");
    let walk = walk(site.hosts.at(0), &SafePath::parse("/cgi-bin/a").unwrap()).unwrap();
    assert_eq!(document_root(site.hosts.at(0), &walk.steps[0].root), Path::new("/www"));
}
