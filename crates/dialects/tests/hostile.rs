//! Configurations that are made to cost time or memory: each ends soon, with a message that has a line.

use std::io;
use std::path::{Path, PathBuf};

use dialects::{Conversion, Dialect, Disk, Severity, Web};

/// One file by every name, so that it includes itself.
struct File(Vec<u8>);

impl Disk for File {
    fn absolute(&self, path: &Path) -> PathBuf {
        Path::new("/here").join(path)
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.clone())
    }

    fn folders(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }

    fn is_folder(&self, _: &Path) -> bool {
        false
    }

    fn is_file(&self, path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == "conf")
    }
}

fn convert(dialect: Dialect, text: impl Into<Vec<u8>>) -> Conversion {
    dialects::convert(&dialect.input("a.conf".into()), &File(text.into()))
}

/// The errors, each with its line.
fn errors(conversion: &Conversion) -> Vec<(Option<u32>, &str)> {
    let errors = conversion.findings.iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| (finding.line, finding.what.as_str())).collect()
}

/// What every reader survives.
#[test]
fn every_reader_ends_with_short_messages() {
    for dialect in Dialect::ALL {
        for text in [
            b"\0".repeat(1000),
            b"\xef\xbb\xbfa b\n".to_vec(),
            b"a".repeat(1 << 17),
            b"a ".repeat(1 << 16),
            b"\"".repeat(1 << 17),
            b"\\\n".repeat(1 << 16),
            b"a = (".repeat(10_000),
            b"{".repeat(50_000),
            b"}".repeat(50_000),
            b"a {\n".repeat(20_000),
            b"<a>\n".repeat(20_000),
            b"*".repeat(1 << 17),
            b"http { map $a \"\" { } geo \"\" { } server { if ($a) { return 403; } } }".to_vec(),
            b"\x1b]0;x\x07 \xff\xfe\n".repeat(1000),
            b"$HTTP[\"url\"] == \"a\" {".repeat(2000),
        ] {
            let shown = String::from_utf8_lossy(&text[..text.len().min(20)]).into_owned();
            let conversion = convert(dialect, text);
            assert!(conversion.findings.len() <= 1000, "{dialect:?} {shown:?}");
            for finding in &conversion.findings {
                let said = finding.to_string();
                assert!(
                    said.len() < 4000 && !said.contains(char::is_control),
                    "{dialect:?} {shown:?} {said:?}"
                );
            }
        }
    }
}

/// Rows: the line and a part of an error.
#[test]
fn what_is_too_much_is_refused_with_its_line() {
    use Dialect::{Boa, Busybox, Thttpd};
    let many = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let nginx = |text: String| (Dialect::Web(Web::Nginx), format!("http {{\nserver {{\n{text}}}\n}}\n"));
    let apache = |text: String| (Dialect::Web(Web::Apache), format!("Listen 80\nDocumentRoot /srv\n{text}"));
    for ((dialect, text), line, part) in [
        ((Boa, many(5000, &|at| format!("Alias /{at} /x{at}\n"))), 1001, "more than 1000 aliases"),
        ((Boa, "nothing\n".repeat(5000)), 901, "the rest is not read"),
        ((Thttpd, "nothing\n".repeat(5000)), 901, "the rest is not read"),
        ((Thttpd, "nothing ".repeat(5000)), 1, "more than 2000 settings"),
        ((Dialect::Web(Web::Lighttpd), ")\n".repeat(5000)), 101, "too much cannot be read"),
        ((Busybox, many(5000, &|at| format!("/p{at}:u:p\n"))), 1001, "more than 1000 paths"),
        ((Busybox, "nothing\n".repeat(5000)), 901, "the rest is not read"),
        (
            nginx(many(5000, &|at| format!("location /{at} {{ deny all; }}\n"))),
            2003,
            "2000 directives in one block",
        ),
        (
            nginx(format!("types {{ text/a {}; }}\n", many(5000, &|at| format!("e{at} ")))),
            3,
            "2000 arguments",
        ),
        (nginx("a {\n".repeat(100)), 17, "more than 16 deep"),
        ((Dialect::Web(Web::Nginx), "{\n".repeat(100_000)), 17, "more than 16 deep"),
        ((Dialect::Web(Web::Nginx), "include a.conf;\n".repeat(3)), 1, "more than 16 deep"),
        (
            apache(many(5000, &|at| format!("<Files f{at}>\nRequire all denied\n</Files>\n"))),
            5997,
            "2000 directives",
        ),
        (apache("Include a.conf\n".repeat(3)), 3, "more than 16 deep"),
        ((Dialect::Web(Web::Apache), "<Directory /a>\n".repeat(100)), 17, "more than 16 deep"),
        ((Dialect::Web(Web::Lighttpd), "include \"a.conf\"\n".repeat(3)), 1, "more than 16 deep"),
        ((Dialect::Web(Web::Caddy), ":80 {\nimport a.conf\n}\n".to_owned()), 2, "more than 16 deep"),
    ] {
        let conversion = convert(dialect, text);
        let errors = errors(&conversion);
        let is_there = errors.iter().any(|(found, what)| *found == Some(line) && what.contains(part));
        let first: Vec<_> = errors.iter().take(3).chain(errors.last()).collect();
        assert!(is_there, "{dialect:?}: line {line}, {part}: {first:?}");
    }
}

/// Each pattern is written for each prefix.
#[test]
fn a_proxy_with_many_patterns_is_refused_soon() {
    let many = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let text = format!(
        "Listen 80\nProxyPass / http://192.0.2.1/\n{}{}",
        many(2000, &|at| format!("<Location /{at}>\n</Location>\n")),
        many(2000, &|at| format!("<LocationMatch \\.{at}$>\n</LocationMatch>\n")),
    );
    let conversion = convert(Dialect::Web(Web::Apache), text);
    assert!(errors(&conversion).iter().any(|(_, what)| what.contains("1000 routes of a host")));
}

/// Each variable names the next one eight times. Without one, a value would grow with each map.
#[test]
fn variables_of_maps_do_not_multiply() {
    let chain =
        |at: usize| format!("map $arg_v $m{at} {{ default \"{}\"; }}\n", format!("$m{}", at + 1).repeat(8));
    let nameless = |_: usize| "map $arg_v { default xxxxxxxx; }\n".to_owned();
    let maps: [&dyn Fn(usize) -> String; 2] = [&chain, &nameless];
    for map in maps {
        let maps: String = (0..30).map(map).collect();
        let text = format!("http {{\n{maps}server {{\nadd_header Cache-Control $m0;\n}}\n}}\n");
        let conversion = convert(Dialect::Web(Web::Nginx), text);
        let errors = errors(&conversion);
        assert!(
            errors.iter().any(|(line, what)| *line == Some(33) && what.contains("add_header")),
            "{errors:?}"
        );
    }
}
