//! What the settings become.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use site::address::without_brackets;

use super::flags::Flags;
use super::options::{Options, Setting};
use crate::Conversion;
use crate::disk::Disk;
use crate::document::{Document, Keys, Value};
use crate::everywhere::{addresses_of, everywhere};
use crate::finding::Findings;
use crate::scripts::{Account, allow_as_before, spool, take_any_body};

/// The files that stand for their folder.
const INDEX: [&str; 6] = ["index.html", "index.htm", "index.xhtml", "index.xht", "Default.htm", "index.cgi"];
/// How long a script may run (CGI_TIMELIMIT).
const SCRIPT_TIME: &str = "30s";
/// Between its two signals.
const SCRIPT_GRACE: &str = "5s";
/// Below the server's priority (CGI_NICE).
const SCRIPT_NICE: i64 = 10;
/// Where scripts find programs (CGI_PATH).
const SCRIPT_PATH: &str = "/usr/local/bin:/usr/ucb:/bin:/usr/bin";
/// And libraries (CGI_LD_LIBRARY_PATH).
const SCRIPT_LIBRARIES: &str = "/usr/local/lib:/usr/lib";
/// How long the head of a request may take, and how long a client may receive nothing.
const HEAD_TIME: &str = "60s";
const WRITE_TIME: &str = "5m";

/// Reads the file that the flags name, if they name one.
pub fn convert(flags: &Flags, disk: &dyn Disk) -> Conversion {
    let mut findings = Findings::default();
    let bytes = findings.bytes(flags.file.as_ref().map_or(Ok(Vec::new()), |file| disk.read(file)));
    let options = flags.options(&bytes, &mut findings);
    let file = flags.file.clone().unwrap_or_else(|| "thttpd".into());
    let document = Document::default();
    let mut reading = Reading { options: &options, disk, findings, document };
    reading.read();
    reading.document.conversion(file, "thttpd", reading.findings)
}

struct Reading<'r> {
    options: &'r Options,
    disk: &'r dyn Disk,
    findings: Findings,
    document: Document,
}

impl Reading<'_> {
    fn read(&mut self) {
        self.server();
        self.files();
        self.error_pages();
        self.passwords();
        self.scripts();
        self.referers();
        self.limits();
        self.logs();
    }

    fn is_on(&self, name: &str) -> bool {
        self.options.is_on(name) == Some(true)
    }

    /// From the folder that the program was started in.
    fn absolute(&self, path: &str) -> String {
        self.disk.absolute(Path::new(path)).to_string_lossy().into_owned()
    }

    /// The folder that thttpd changes to, and begins the chroot in.
    fn folder(&self) -> String {
        let folder = self.options.value("dir").map_or("", |dir| dir.value.as_str());
        self.absolute(folder)
    }

    /// The folder that is served.
    fn root(&self) -> String {
        let folder = self.folder();
        match self.options.value("data_dir") {
            // In the chroot, an absolute path begins there.
            Some(data) if self.is_on("chroot") => format!("{folder}/{}", data.value.trim_start_matches('/')),
            Some(data) => Path::new(&folder).join(&data.value).to_string_lossy().into_owned(),
            None => folder,
        }
    }

    fn number(&mut self, name: &str) -> Option<Setting<i64>> {
        let setting = self.options.value(name)?;
        match setting.value.parse() {
            Ok(value) => Some(Setting { value, line: setting.line }),
            Err(_) => {
                let what = format!("{name} needs a number, and not \"{}\"", setting.value.escape_debug());
                self.findings.error(setting.line, what, "write digits");
                None
            }
        }
    }

    fn server(&mut self) {
        let port = self.number("port");
        let line = port.as_ref().and_then(|port| port.line);
        let addresses = match self.options.value("host") {
            None => everywhere(self.disk),
            Some(host) => match addresses_of(without_brackets(&host.value), self.disk) {
                addresses if addresses.is_empty() => {
                    let what = format!(
                        "the host {} is no IP address, and /etc/hosts does not have it",
                        host.value.escape_debug()
                    );
                    return self.findings.error(host.line, what, "write the address that it has");
                }
                addresses => addresses,
            },
        };
        let port = port.map_or(80, |port| port.value);
        let text = |address: &IpAddr| match address {
            IpAddr::V4(address) => format!("{address}:{port}"),
            IpAddr::V6(address) => format!("[{address}]:{port}"),
        };
        let top = &mut self.document.top;
        top.set(None, "signals", "thttpd");
        top.set(line, "listen", addresses.iter().map(text).collect::<Vec<_>>());
        match self.options.value("user") {
            Some(user) => top.set(user.line, "user", user.value.as_str()),
            None => top.set(None, "user", "nobody"),
        }
        if let Some(file) = self.options.value("pidfile") {
            self.document.top.set(file.line, "pid_file", self.absolute(&file.value));
        }
        if self.is_on("chroot") {
            let line = self.options.line_of("chroot");
            let folder = self.folder();
            self.document.top.set(line, "chroot", folder);
        }
    }

    fn files(&mut self) {
        let root = self.root();
        let line = self.options.value("data_dir").or(self.options.value("dir")).and_then(|dir| dir.line);
        let (root, line) = match self.is_on("vhost") {
            true => (format!("{root}/$host"), self.options.line_of("vhost")),
            false => (root.replace('$', "$$"), line),
        };
        let top = &mut self.document.top;
        top.set(line, "root", root);
        top.set(None, "index", INDEX.map(str::to_owned).to_vec());
        top.set(None, "listing", true);
        top.explained(
            None,
            "dotfiles",
            "deny",
            "thttpd sends files whose name begins with a dot. \"deny\" is safer.",
        );
        let checks = self.options.is_on("symlinkcheck").unwrap_or(true);
        let line = self.options.line_of("symlinkcheck");
        top.set(line, "symlinks", if checks { "beneath" } else { "follow" });
        match self.options.value("charset") {
            Some(charset) => top.set(charset.line, "charset", charset.value.as_str()),
            None => top.explained(None, "charset", "iso-8859-1", "The default of thttpd up to 2.27."),
        }
        if let Some(p3p) = self.options.value("p3p") {
            top.set(p3p.line, "headers", Value::Table(vec![("P3P".to_owned(), p3p.value.as_str().into())]));
        }
        if let Some(age) = self.number("max_age").filter(|age| age.value >= 0) {
            self.document.top.set(age.line, "cache_control", format!("max-age={}", age.value));
        }
        if let (true, line) = (self.is_on("vhost"), self.options.line_of("vhost")) {
            let what = "vhost: a request without Host gets 404, and not the folder of the local address";
            self.findings.note(line, what, "add default_folder to the configuration");
            if checks {
                let what =
                    "vhost: links lead to files of the same host; those to another folder of dir are 403";
                let line = line.or(self.options.line_of("symlinkcheck"));
                self.findings.note(line, what, "write an alias, or symlinks = \"follow\"");
            }
        }
    }

    /// The files `errors/errNNN.html` (ERR_DIR). No line names them.
    fn error_pages(&mut self) {
        let root = self.root();
        let folders = match self.is_on("vhost") {
            true => self.disk.folders(Path::new(&root)).iter().map(|host| format!("{root}/{host}")).collect(),
            false => vec![root],
        };
        let names = folders.iter().flat_map(|folder| self.disk.names(&Path::new(folder).join("errors")));
        let status = |name: String| match name.strip_prefix("err")?.strip_suffix(".html")? {
            digits if digits.len() == 3 => digits.parse::<u16>().ok(),
            _ => None,
        };
        let found: BTreeSet<u16> =
            names.filter_map(status).filter(|status| (400..600).contains(status)).collect();
        if found.is_empty() {
            return;
        }
        let pages = found.iter().map(|status| (status.to_string(), format!("/errors/err{status}.html")));
        let pages: Vec<(String, String)> = pages.collect();
        for (_, page) in &pages {
            let mut keys = Keys::default();
            keys.set(None, "path", page.as_str());
            keys.explained(None, "auth", "off", "thttpd sends the page also to those without a password.");
            if self.options.value("cgipat").is_some_and(|pattern| !pattern.value.is_empty()) {
                keys.set(None, "executables", "send");
            }
            self.document.section(None, "[[route]]", keys);
        }
        let pages = pages.into_iter().map(|(status, page)| (status, page.as_str().into())).collect();
        self.document.top.set(None, "error_pages", Value::Table(pages));
    }

    fn passwords(&mut self) {
        let top = &mut self.document.top;
        top.set(None, "auth", "basic");
        top.explained(None, "des_passwords", true, "htpasswd of thttpd made such hashes, which are weak.");
        let file = format!("{}/.htpasswd", self.root());
        let line = self.options.line_of("globalpasswd");
        let top = &mut self.document.top;
        match (self.options.is_on("globalpasswd"), self.options.is_on("vhost")) {
            (Some(true), vhost) if vhost != Some(true) && self.disk.is_file(Path::new(&file)) => {
                top.set(line, "user_files", file);
                top.set(line, "realm", ".");
            }
            (Some(true), _) => top.set(line, "folder_passwords", "inherited"),
            _ => top.set(None, "folder_passwords", "folder"),
        }
    }

    fn scripts(&mut self) {
        let limit = self.number("cgilimit");
        let Some(pattern) = self.options.value("cgipat").filter(|pattern| !pattern.value.is_empty()) else {
            return;
        };
        let alternatives: Vec<&str> =
            pattern.value.split('|').map(|text| text.trim_start_matches('/')).collect();
        let variables = [
            ("PATH", SCRIPT_PATH.to_owned()),
            ("LD_LIBRARY_PATH", SCRIPT_LIBRARIES.to_owned()),
            // By it, the ssi program of thttpd includes no script.
            ("CGI_PATTERN", alternatives.join("|")),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.into())).to_vec();
        self.document.top.set(None, "env", Value::Table(variables));
        let why = "thttpd decides by the file that a link leads to, and sends no executable one.";
        self.document.top.explained(pattern.line, "executables", "deny", why);
        for alternative in alternatives {
            let paths = match self.is_on("vhost") {
                true => below_a_host(alternative),
                false => vec![format!("/{alternative}")],
            };
            if paths.is_empty() {
                let what = format!(
                    "cgipat {}: with vhost, a pattern begins with the folder of the host",
                    alternative.escape_debug()
                );
                let what_to_do = "begin it with ** or */, as in */cgi-bin/*, for the scripts of all hosts";
                self.findings.error(pattern.line, what, what_to_do);
            }
            for path in paths {
                let mut keys = Keys::default();
                keys.set(pattern.line, "path", path);
                keys.set(pattern.line, "cgi", true);
                self.document.section(pattern.line, "[[route]]", keys);
            }
        }
        let (mut limits, mut keys) = (Keys::default(), Keys::default());
        let chroot = self.is_on("chroot").then(|| self.folder());
        take_any_body(&mut limits, &mut keys, spool(chroot.as_deref(), self.disk, &mut self.findings));
        self.document.section(None, "[limits]", limits);
        keys.set(None, "total", SCRIPT_TIME);
        keys.set(None, "grace", SCRIPT_GRACE);
        keys.set(None, "nice", SCRIPT_NICE);
        keys.set(None, "local_redirects", false);
        allow_as_before(&mut keys, Account::Named);
        if let Some(limit) = limit.filter(|limit| limit.value > 0) {
            keys.set(limit.line, "processes", limit.value);
            keys.set(limit.line, "queue", 0);
        }
        self.document.section(None, "[scripts]", keys);
    }

    fn referers(&mut self) {
        let Some(urls) = self.options.value("urlpat") else {
            for name in ["localpat"] {
                if let Some(setting) = self.options.value(name) {
                    self.findings.note(
                        setting.line,
                        format!("{name} has no effect without urlpat"),
                        "remove it",
                    );
                }
            }
            return;
        };
        let path = |alternative: &str| match alternative.starts_with('/') {
            true => alternative.to_owned(),
            false => format!("/{alternative}"),
        };
        let mut keys = Keys::default();
        keys.set(urls.line, "path", urls.value.split('|').map(path).collect::<Vec<_>>());
        let mut referers = match self.options.value("localpat") {
            Some(local) => {
                local.value.split('|').map(|host| format!("!{}", host.replace("**", "*"))).collect()
            }
            None => vec!["!self".to_owned()],
        };
        if !self.is_on("noemptyreferers") {
            referers.push("!".to_owned());
        }
        let line = self.options.value("localpat").and_then(|local| local.line);
        keys.set(line.or(urls.line), "referer", referers);
        keys.set(urls.line, "then", "deny");
        self.document.section(urls.line, "[[rule]]", keys);
    }

    fn limits(&mut self) {
        if let Some(file) = self.options.value("throttles") {
            self.document.top.set(file.line, "throttle_file", self.absolute(&file.value));
            if self.is_on("vhost") {
                let what = "throttles: with vhost, the patterns of thttpd begin with the name of the host";
                self.findings.warn(file.line, what, "remove it from the patterns");
            }
        }
        let mut keys = Keys::default();
        keys.set(None, "head", HEAD_TIME);
        keys.set(None, "write", WRITE_TIME);
        self.document.section(None, "[timeouts]", keys);
    }

    fn logs(&mut self) {
        let mut keys = Keys::default();
        keys.set(None, "format", if self.is_on("vhost") { "thttpd-host" } else { "thttpd" });
        keys.explained(None, "timezone", "local", "thttpd has the time of the machine.");
        keys.set(None, "level", "info");
        match self.options.value("logfile") {
            None => keys.set(None, "access", "syslog"),
            Some(file) => {
                let access = match file.value.as_str() {
                    "/dev/null" => Value::from(false),
                    "-" => Value::from("stdout"),
                    path => Value::from(self.absolute(path)),
                };
                keys.set(file.line, "access", access);
            }
        }
        keys.set(None, "error", if self.is_on("debug") { "stderr" } else { "syslog" });
        self.document.section(None, "[log]", keys);
    }
}

/// The paths of any host that a pattern matches, which thttpd compares with the folder of the host in front of them.
/// None, if its first segment is not for every host.
fn below_a_host(pattern: &str) -> Vec<String> {
    match (pattern.strip_prefix("**"), pattern.strip_prefix("*/")) {
        // The two asterisks may stand for the folder of the host alone.
        (Some(rest), _) => {
            let alone = rest.starts_with('/').then(|| rest.to_owned());
            [format!("/**{rest}")].into_iter().chain(alone).collect()
        }
        (None, Some(rest)) => vec![format!("/{rest}")],
        (None, None) => Vec::new(),
    }
}
