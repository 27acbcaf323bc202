//! The site that a test serves: files in its own folder, and a configuration.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::certificates::{NAMES, authority};
use crate::folder::Folder;
use crate::program;
use crate::server::Server;
use crate::tools::is_root;

/// The folder that is served, below the test's own.
const ROOT: &str = "www";
/// A listener for each of plain HTTP/1, TLS and plain HTTP/2, on addresses that differ also without their port, and the
/// certificate of [`NAMES`].
const EVERY_PROTOCOL: &str = "listen = [\"127.0.0.1:0\", \"127.0.0.2:0 tls\", \"127.0.0.3:0 http2\"]\n\
                              certificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n";

/// Files and a configuration, which start a [`Server`]. The test's own folder holds `site.toml`, the root
/// `www`, and other files.
#[derive(Debug)]
pub struct Site {
    home: Folder,
    config: String,
    /// Whether the configuration sets the roots itself.
    has_roots: bool,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    every_protocol: bool,
}

impl Site {
    #[expect(clippy::new_without_default, reason = "a default that touches the disk would surprise")]
    pub fn new() -> Site {
        let home = Folder::new();
        home.folder(ROOT);
        Site {
            home,
            config: String::new(),
            has_roots: false,
            args: Vec::new(),
            env: Vec::new(),
            every_protocol: false,
        }
    }

    /// A file below the root.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Site {
        self.home.file(&in_root(name), content);
        self
    }

    /// An executable file below the root.
    pub fn script(self, name: &str, text: impl AsRef<[u8]>) -> Site {
        self.home.script(&in_root(name), text);
        self
    }

    /// A folder below the root.
    pub fn folder(self, name: &str) -> Site {
        self.home.folder(&in_root(name));
        self
    }

    /// A symbolic link below the root.
    pub fn symlink(self, name: &str, to: impl AsRef<Path>) -> Site {
        self.home.symlink(&in_root(name), to);
        self
    }

    /// Sets the modification time of a file below the root, in seconds since 1970.
    pub fn modified(self, name: &str, seconds: u64) -> Site {
        self.home.set_modified(&in_root(name), seconds);
        self
    }

    /// A file outside of the root, which must not be served.
    pub fn file_beside_root(self, name: &str, content: impl AsRef<[u8]>) -> Site {
        self.home.file(name, content);
        self
    }

    /// An executable file outside of the root.
    pub fn script_beside_root(self, name: &str, text: impl AsRef<[u8]>) -> Site {
        self.home.script(name, text);
        self
    }

    /// Appends lines of TOML to the configuration. `listen` and `root` are added if the top level lacks them, and
    /// `delay` of `[timeouts]`, so that a server on a busy machine sheds no request. Relative paths begin in the
    /// test's own folder.
    pub fn config(mut self, toml: &str) -> Site {
        self.config.push_str(toml);
        self.config.push('\n');
        self
    }

    /// As `config`, without adding `root`.
    pub fn config_without_root(mut self, toml: &str) -> Site {
        self.has_roots = true;
        self.config(toml)
    }

    /// A further argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Site {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// A variable of the environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Site {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Repeats each request of [`Server::get`], [`Server::request`], [`Server::exchange`] and of its clients over
    /// TLS and HTTP/2, and fails the test if a response differs. The site must have no `listen`.
    pub fn every_protocol(self) -> Site {
        let site = self.certificate();
        Site { every_protocol: true, ..site }
    }

    /// Writes `certificate.pem` and `key.pem` into the test's own folder, for the usual names and signed by the
    /// authority of this test process.
    pub fn certificate(self) -> Site {
        let certificate = authority().server(NAMES);
        self.home.file("certificate.pem", certificate.certificate);
        let key = self.home.file("key.pem", certificate.key);
        fs::set_permissions(key, Permissions::from_mode(0o600)).expect("it is our file");
        self
    }

    /// The test's own folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The folder that is served.
    pub fn root(&self) -> PathBuf {
        self.home.path().join(ROOT)
    }

    /// Writes the configuration.
    pub fn write_config(&self) -> PathBuf {
        self.home.file("site.toml", self.whole_config())
    }

    /// Starts the program, and waits until it prints its addresses.
    pub fn start(self) -> Server {
        self.start_by(program::command())
    }

    /// Starts the complete command that `command` returns, and waits for so many addresses.
    pub fn start_with(self, listeners: usize, command: impl FnOnce(&Site) -> Command) -> Server {
        let command = command(&self);
        Server::start(command, listeners, Some(self.home))
    }

    /// As `start`, through `command`, to which the arguments are added.
    pub fn start_by(self, mut command: Command) -> Server {
        let config = self.write_config();
        command.arg("-c").arg(config).args(&self.args).current_dir(self.home.path());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        let listeners =
            top_level(&self.whole_config(), "listen").map_or(1, |line| line.matches('"').count() / 2);
        let server = Server::start(command, listeners.max(1), Some(self.home));
        if self.every_protocol { server.repeating() } else { server }
    }

    fn whole_config(&self) -> String {
        if !self.every_protocol {
            return whole_config(&self.config, self.has_roots);
        }
        let own = top_level(&self.config, "listen");
        assert!(own.is_none(), "a site on every protocol has its own listeners, not {own:?}");
        whole_config(&format!("{EVERY_PROTOCOL}{}", self.config), self.has_roots)
    }
}

impl Server {
    /// Writes a new configuration for the running server: `listen` and `root` are added as by
    /// [`Site::config`].
    pub fn configure(&self, toml: &str) {
        self.files().file("site.toml", whole_config(toml, false));
    }
}

fn whole_config(config: &str, has_roots: bool) -> String {
    let mut whole = String::new();
    if top_level(config, "listen").is_none() {
        whole.push_str("listen = [\"127.0.0.1:0\"]\n");
    }
    if !has_roots && top_level(config, "root").is_none() {
        whole.push_str(&format!("root = \"{ROOT}\"\n"));
    }
    // A test that runs as root serves as root on purpose.
    if is_root() && top_level(config, "user").is_none() {
        whole.push_str("user = \"root\"\n");
    }
    whole.push_str(&without_shedding(config));
    whole
}

/// The configuration with `delay = 0` in `[timeouts]`, unless it sets that itself.
fn without_shedding(config: &str) -> String {
    const SECTION: &str = "[timeouts]\n";
    let is_section = |at: &usize| *at == 0 || config[..*at].ends_with('\n');
    match config.match_indices(SECTION).map(|(at, _)| at).find(is_section) {
        Some(at) => {
            let (before, section) = config.split_at(at + SECTION.len());
            let delay = if top_level(section, "delay").is_none() { "delay = 0\n" } else { "" };
            format!("{before}{delay}{section}")
        }
        // Behind everything, where it changes the number of no line.
        None => format!("{config}\n{SECTION}delay = 0\n"),
    }
}

fn in_root(name: &str) -> String {
    format!("{ROOT}/{}", name.trim_start_matches('/'))
}

/// The line of a key before the first section.
fn top_level<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    let lines = config.lines().map(str::trim_start).take_while(|line| !line.starts_with('['));
    lines
        .into_iter()
        .find(|line| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('=')))
}
