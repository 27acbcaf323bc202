//! The configurations of the corpus become valid configurations, or are refused for the reasons that stand in them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dialects::{Conversion, Dialect, Disk, Severity, Start};
use site::config::{self, ConfigError, Source};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");

/// The files that the configurations name.
const FILES: &[(&str, &str)] = &[
    ("/etc/mime.types", "# types\ntext/html html htm\nimage/x-own own\r\napplication/x-none\n"),
    ("/etc/throttle.conf", "** 100000\n"),
    ("/srv/protected/.htpasswd", "ann:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n"),
    (
        "/etc/passwd",
        "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1001::/home/b/bob:/bin/sh\n",
    ),
    ("/etc/shadow", "root:$1$ab$cdefghijklmnopqrstuv./:1:2:3\n"),
    ("/etc/uhttpd.crt", "-----BEGIN CERTIFICATE-----\n"),
    ("/etc/uhttpd.key", "-----BEGIN PRIVATE KEY-----\n"),
    ("/etc/der.crt", "0\n"),
    (
        "/etc/own.conf",
        "# own\n/status:admin:$1$ab$cdefghijklmnopqrstuv./\n/x:ann:$p$root\nI:own.html\n*.lua:/usr/bin/lua\nA:192.0.2.\n",
    ),
    ("/usr/lib/lua/luci/sgi/uhttpd.lua", "-- a script\n"),
    ("/x.lua", "-- a script\n"),
    ("/x.uc", "// a script\n"),
    ("/etc/own.json", "[]\n"),
    ("/etc/empty.json", ""),
    ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("/etc/config/system", "config system\n\toption hostname 'Router'\n"),
    ("/srv/www/cgi-bin/luci", "#!/bin/sh\n"),
];

const FOLDERS: &[(&str, &[&str])] = &[
    ("/srv/addresses", &["192.0.2.1", "192.0.2.2", "2001:db8::1", "other"]),
    ("/srv/hosts", &["192.0.2.1"]),
    ("/srv/hosts/192.0.2.1", &["a.example", "b.example", "default"]),
];

/// The corpus, and the files of a machine that has none of its own.
struct Machine;

impl Disk for Machine {
    fn absolute(&self, path: &Path) -> PathBuf {
        Path::new("/here").join(path.strip_prefix(".").unwrap_or(path)).components().collect()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let own = FILES.iter().find(|(name, _)| Path::new(name) == path);
        own.map_or_else(|| fs::read(path), |(_, text)| Ok(text.as_bytes().to_vec()))
    }

    fn folders(&self, path: &Path) -> Vec<String> {
        let own = FOLDERS.iter().find(|(name, _)| Path::new(name) == path);
        own.map_or_else(Vec::new, |(_, names)| names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.starts_with("/srv") && path.extension().is_none()
    }

    fn is_file(&self, path: &Path) -> bool {
        FILES.iter().any(|(name, _)| Path::new(name) == path)
    }
}

/// The text of a conversion, and the files of the machine.
struct Text<'c>(&'c Conversion);

impl Source for Text<'_> {
    fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        if path == self.0.file { Ok(self.0.text.clone().into()) } else { Machine.read(path) }
    }

    fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// The servers with a corpus. `web.rs` tests the others.
const OLD: [Dialect; 4] = [Dialect::Boa, Dialect::Thttpd, Dialect::Busybox, Dialect::Uhttpd];

fn corpus(dialect: Dialect) -> BTreeMap<String, PathBuf> {
    let folder = Path::new(CORPUS).join(dialect.name());
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension() == Some("conf".as_ref()));
    paths.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path)).collect()
}

fn converted(dialect: Dialect, path: &Path) -> Conversion {
    let conversion = dialects::convert(&dialect.input(path.to_owned()), &Machine);
    assert_eq!(conversion.text.lines().count(), conversion.lines.len(), "{}", path.display());
    conversion
}

/// The lines of the file, and what is wrong with them.
fn errors(conversion: &Conversion) -> Vec<(Option<u32>, String)> {
    let refused = conversion.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let refused: Vec<_> = refused.map(|finding| (finding.line, finding.to_string())).collect();
    if !refused.is_empty() {
        return refused;
    }
    let origin =
        |error: ConfigError| (error.line.and_then(|line| conversion.origin(line)), error.to_string());
    config::load(&conversion.file, &Text(conversion)).err().into_iter().flatten().map(origin).collect()
}

#[test]
fn the_corpus_is_large_enough() {
    assert!(corpus(Dialect::Boa).len() >= 20);
    assert!(corpus(Dialect::Thttpd).len() >= 10);
}

#[test]
fn valid_files_become_valid_configurations() {
    let mut faults = Vec::new();
    for dialect in OLD {
        for (name, path) in corpus(dialect).iter().filter(|(name, _)| !name.starts_with("refused")) {
            let found = errors(&converted(dialect, path));
            faults.extend(found.into_iter().map(|(line, text)| format!("{name} {line:?}: {text}")));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn mistakes_are_refused_with_their_lines() {
    for dialect in OLD {
        for (name, path) in corpus(dialect).iter().filter(|(name, _)| name.starts_with("refused")) {
            let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
            let conversion = converted(dialect, path);
            let found = errors(&conversion);
            let expected: Vec<(Option<u32>, &str)> = text
                .lines()
                .filter_map(|line| line.strip_prefix("# expects ")?.split_once(": "))
                .map(|(line, text)| (line.parse().ok(), text))
                .collect();
            assert_eq!(found.len(), expected.len(), "{name}: {found:#?}");
            for ((line, text), (expected_line, expected)) in found.iter().zip(expected) {
                assert!(*line == expected_line && text.contains(expected), "{name}: {line:?} {text}");
            }
        }
    }
}

#[test]
fn what_asks_for_a_password_of_boa_is_denied_when_its_entry_is_removed() {
    let path = Path::new(CORPUS).join("boa/refused-passwords.conf");
    let text = converted(Dialect::Boa, &path).text;
    for pattern in ["/admin**", "/"] {
        let rule = format!("[[rule]]\npath = [\"{pattern}\"]\nthen = \"deny\"\n");
        assert!(text.contains(&rule), "{rule}\n{text}");
    }
}

/// Flags alone are enough for uhttpd.
#[test]
fn messages_name_no_file_that_there_is_not() {
    let flags = ["-f", "-p", "80", "-h", "/srv/www"].map(OsString::from);
    let Ok(Start::Serve { input, .. }) = Dialect::Uhttpd.start(flags) else { panic!("it serves") };
    assert_eq!(dialects::convert(&input, &Machine).file, Path::new("uhttpd"));
}

/// The conversions that the pages of the manual speak of, whole.
#[test]
fn the_conversions_are_those_of_the_snapshots() {
    for dialect in OLD {
        for (name, path) in corpus(dialect).iter().filter(|(name, _)| !name.starts_with("refused")) {
            let snapshot = Path::new(CORPUS).join(dialect.name()).join(format!("{name}.toml"));
            let conversion = converted(dialect, path);
            let text = conversion.text.replace(&format!("{CORPUS}/"), "");
            if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
                fs::write(&snapshot, text).unwrap();
                continue;
            }
            let expected = fs::read_to_string(&snapshot).unwrap_or_default();
            assert_eq!(
                text, expected,
                "{name}: to accept it, UPDATE_SNAPSHOTS=1 cargo test -p taipan-dialects"
            );
        }
    }
}
