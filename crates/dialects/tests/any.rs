//! Whatever a file has: it becomes TOML, or is refused; no reader panics, and no value can add a key.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use dialects::{Dialect, Disk};
use proptest::prelude::*;
use site::config::{self, Source};

/// One file, and folders of every name.
struct File(Vec<u8>);

impl Disk for File {
    fn absolute(&self, path: &Path) -> PathBuf {
        Path::new("/here").join(path)
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.clone())
    }

    fn folders(&self, _: &Path) -> Vec<String> {
        ["192.0.2.1", "::1", "a.example", "a\"]\n\u{1b}"].map(str::to_owned).to_vec()
    }

    fn is_folder(&self, path: &Path) -> bool {
        !path.to_string_lossy().len().is_multiple_of(3)
    }

    fn is_file(&self, path: &Path) -> bool {
        path.to_string_lossy().len().is_multiple_of(5)
    }
}

struct Text<'t>(&'t str);

impl Source for Text<'_> {
    fn read(&self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

const WORDS: &[&str] = &[
    "Port",
    "Listen",
    "User",
    "DocumentRoot",
    "VirtualHost",
    "VHostRoot",
    "Alias",
    "ScriptAlias",
    "Redirect",
    "AddType",
    "MimeTypes",
    "Deny",
    "Allow",
    "CGIEnv",
    "CGIumask",
    "UserDir",
    "application/x-httpd-cgi",
    "KeepAliveMax",
    "AccessLog",
    "SinglePostLimit",
    "port=",
    "dir=",
    "vhost",
    "cgipat=",
    "urlpat=",
    "localpat=",
    "throttles=",
    "chroot",
    "p3p=",
    "max_age=",
    "globalpasswd",
    "A:",
    "D:",
    "E404:",
    "P:",
    "/x:",
    "*.php:",
    ".x:",
    "H:",
    "I:",
    "*",
    "**",
    "?",
    "[a-z]",
    "[!",
    "\\",
    "\"",
    "'",
    "=",
    "#",
    "$",
    "$host",
    "/",
    "//",
    "..",
    "80",
    "-1",
    "0x",
    "0777",
    "99999999999999999999",
    "::1",
    "127.0.0.1",
    "|x",
    ":h:1",
    "\u{1b}",
    "\u{e9}",
    " ",
    "\t",
    "\r",
    "\n",
    "\n",
    "\n",
    "text/plain",
    "/srv/www",
    "a",
];

fn text() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::collection::vec(prop::sample::select(WORDS), 0..80);
    let joined = words.prop_map(|words| words.join(" ").replace("= ", "=").replace(": ", ":").into_bytes());
    prop_oneof![4 => joined, 1 => prop::collection::vec(any::<u8>(), 0..400)]
}

proptest! {
    #[test]
    fn every_file_becomes_toml_with_the_lines_that_it_comes_from(bytes in text()) {
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
        for dialect in Dialect::ALL {
            let conversion = dialects::convert(&dialect.input("/x/file".into()), &File(bytes.clone()));
            prop_assert_eq!(conversion.text.lines().count(), conversion.lines.len());
            prop_assert!(conversion.lines.iter().flatten().all(|line| (1..=lines).contains(line)));
            let errors = config::load(Path::new("/x/file"), &Text(&conversion.text)).err().unwrap_or_default();
            for error in errors {
                let text = error.to_string();
                let is_ours = text.contains("not valid TOML") || text.contains("unknown key");
                prop_assert!(!is_ours, "{}\n{}", text, conversion.text);
            }
        }
    }

    #[test]
    fn every_command_line_is_read_or_refused(words in prop::collection::vec("[-a-zA-Z/.:0-9é]{0,6}", 0..8)) {
        for dialect in Dialect::ALL {
            _ = dialect.start(words.iter().map(OsString::from));
        }
    }
}
