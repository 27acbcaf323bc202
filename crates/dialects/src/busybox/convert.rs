//! What flags and lines become.

use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use site::address::without_brackets;
use site::authentication::plain_field;

use super::flags::Flags;
use super::folders;
use super::lines::{At, Lines};
use crate::Conversion;
use crate::disk::Disk;
use crate::document::{Document, Keys, Value};
use crate::everywhere::{addresses_of, everywhere};
use crate::finding::Findings;
use crate::scripts::{Account, ENDLESS, IN_PLACE_OF_ROOT, allow_as_before, spool, take_any_body};
use crate::words;

const FILE: &str = "/etc/httpd.conf";
const REALM: &str = "Web Server Authentication";
/// What is beneath it is run.
const SCRIPTS: &str = "/cgi-bin";
/// That of what the init of busybox starts. busybox httpd passes its own on.
const SCRIPT_PATH: &str = "/sbin:/usr/sbin:/bin:/usr/bin";
const ACCOUNTS: &str = "/etc/passwd";
/// How long the head of a request may take.
const HEAD_TIME: &str = "60s";

/// Reads the file that the flags name, or the usual one if it exists.
pub fn convert(flags: &Flags, disk: &dyn Disk) -> Conversion {
    let mut findings = Findings::default();
    let home = disk.absolute(&flags.home());
    let usual = [PathBuf::from(FILE), home.join("httpd.conf")];
    let file = match &flags.file {
        Some(file) => Some(home.join(file)),
        None => usual.into_iter().find(|file| disk.is_file(file)),
    };
    let bytes = findings.bytes(file.as_ref().map_or(Ok(Vec::new()), |file| disk.read(file)));
    let mut lines = Lines::default();
    for (line, text) in words::lines_without_comments(&bytes) {
        if findings.is_full(line) || lines.are_full(line, &mut findings) {
            break;
        }
        lines.add(line, text, &mut findings);
    }
    let file = file.unwrap_or_else(|| "httpd".into());
    let home = lines.home.as_ref().map_or(home.clone(), |(own, _)| home.join(own));
    let inner = inner(&home, &mut lines, disk, &mut findings);
    lines.close_emptied();
    let mut reading = Reading {
        flags,
        lines: &lines,
        inner: &inner,
        home: home.to_string_lossy().into_owned(),
        disk,
        findings,
        document: Document::default(),
    };
    reading.read();
    reading.document.conversion(file, "busybox httpd", reading.findings)
}

/// Whether busybox compares the hash of a password with this text, and not the password itself.
fn is_hash(text: &str) -> bool {
    matches!(text.as_bytes(), [b'$', digit, ..] if digit.is_ascii_digit())
}

/// The path of an error page, which may be relative to HOME. `None`: it is outside.
fn beneath(page: &str, home: &str) -> Option<String> {
    let inside = match page.starts_with('/') {
        true => Path::new(page).strip_prefix(home).ok()?,
        false => Path::new(page),
    };
    let mut path = String::new();
    for component in inside.components().filter(|component| *component != Component::CurDir) {
        let Component::Normal(name) = component else { return None };
        path.push('/');
        path.push_str(name.to_str()?);
    }
    (!path.is_empty()).then_some(path)
}

/// The files of the folders beneath the root, the deepest first, with their paths. Their passwords are added to the
/// others.
fn inner(home: &Path, lines: &mut Lines, disk: &dyn Disk, findings: &mut Findings) -> Vec<(String, Lines)> {
    let mut all = Vec::new();
    let found = folders::find(home, disk, findings);
    for path in found.loops {
        let what = format!("{path} leads to a folder around it, with httpd.conf files, and is denied");
        findings.warn(None, what, "remove the link, or write the rules to the main file");
        lines.closed.push((format!("{path}/"), None));
    }
    for path in found.too_large {
        let what = format!("{path} has too many folders to look for httpd.conf in each, and is denied");
        let what_to_do = "convert the file, and remove the rule if it has none; or link to a smaller folder";
        findings.warn(None, what, what_to_do);
        lines.closed.push((format!("{path}/"), None));
    }
    for (path, file) in found.files {
        match disk.read(&file) {
            Ok(bytes) => {
                let mut own = Lines::default();
                for (number, text) in words::lines_without_comments(&bytes) {
                    own.add_of(&file, number, text, findings);
                }
                for (below, users) in std::mem::take(&mut own.users) {
                    let below = if below == "/" { path.clone() } else { format!("{path}{below}") };
                    lines
                        .users
                        .entry(below)
                        .or_default()
                        .extend(users.into_iter().map(|(user, _)| (user, None)));
                }
                for ((pattern, program), _) in std::mem::take(&mut own.interpreters) {
                    lines.interpreters.push(((format!("{path}/**/{pattern}"), program), None));
                }
                for (below, _) in std::mem::take(&mut own.closed) {
                    lines.closed.push((format!("{path}{below}"), None));
                }
                for (below, _) in std::mem::take(&mut own.emptied) {
                    let below = if below == "/" { path.clone() } else { format!("{path}{below}") };
                    lines.emptied.push((below, None));
                }
                all.push((path, own));
            }
            Err(error) => {
                findings.error(
                    None,
                    format!("{} cannot be read: {error}", file.display()),
                    "check its permissions",
                );
            }
        }
    }
    sort::by_key(&mut all, |(path, _)| std::cmp::Reverse(path.len()));
    all
}

struct Reading<'r> {
    flags: &'r Flags,
    lines: &'r Lines,
    /// Those of folders, by their paths.
    inner: &'r [(String, Lines)],
    home: String,
    disk: &'r dyn Disk,
    findings: Findings,
    document: Document,
}

impl Reading<'_> {
    fn read(&mut self) {
        self.server();
        self.files();
        self.access();
        self.routes();
        self.rest();
    }

    fn server(&mut self) {
        let text = self.flags.address.as_deref().unwrap_or("80");
        let named = |host: &str| addresses_of(without_brackets(host), self.disk);
        let (hosts, port) = match (text.parse::<u16>(), text.rsplit_once(':')) {
            (Ok(port), _) => (everywhere(self.disk), port),
            (_, Some((host, port))) => {
                port.parse().map_or_else(|_| (Vec::new(), 0), |port| (named(host), port))
            }
            (_, None) => (named(text), 80),
        };
        let addresses: Vec<(IpAddr, u16)> = hosts.into_iter().map(|host| (host, port)).collect();
        if addresses.is_empty() {
            let what = format!(
                "-p {} is neither a port, nor an IP address or a name in /etc/hosts with a port",
                text.escape_debug()
            );
            return self.findings.error(None, what, "write -p 8080 or -p 192.0.2.1:8080");
        }
        let text = |(address, port): &(IpAddr, u16)| match address {
            IpAddr::V4(address) => format!("{address}:{port}"),
            IpAddr::V6(address) => format!("[{address}]:{port}"),
        };
        self.document.top.set(None, "signals", "busybox");
        self.document.top.set(None, "listen", addresses.iter().map(text).collect::<Vec<_>>());
        if self.flags.user.is_none() {
            self.findings.note(None, "there is no -u, and busybox stayed root", IN_PLACE_OF_ROOT);
            self.document.top.set(None, "user", "nobody");
        }
        if let Some(user) = &self.flags.user {
            self.account(user);
        }
    }

    /// `USER` or `USER:GROUP`, by names or numbers.
    fn account(&mut self, text: &str) {
        let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
        if user.is_empty() || group == Some("") {
            let what = format!("-u {} names no user or no group", text.escape_debug());
            return self.findings.error(None, what, "write -u USER or -u USER:GROUP");
        }
        // In busybox, the group of a number without an account is the same number.
        let is_alone = user.bytes().all(|byte| byte.is_ascii_digit()) && !self.has_account(user);
        let group = group.or(is_alone.then_some(user));
        self.document.top.set(None, "user", user);
        if let Some(group) = group {
            self.document.top.set(None, "group", group);
        }
    }

    fn has_account(&self, number: &str) -> bool {
        let accounts = self.disk.read(Path::new(ACCOUNTS)).unwrap_or_default();
        let number = number.trim_start_matches('0');
        String::from_utf8_lossy(&accounts)
            .lines()
            .any(|line| line.split(':').nth(2).is_some_and(|own| own.trim_start_matches('0') == number))
    }

    fn files(&mut self) {
        let top = &mut self.document.top;
        let line = self.lines.home.as_ref().and_then(|(_, line)| *line);
        top.set(line, "root", self.home.replace('$', "$$"));
        let index = self.lines.index.as_ref();
        let name = index.map_or("index.html", |(name, _)| name.as_str());
        top.set(index.and_then(|(_, line)| *line), "index", vec![name.to_owned()]);
        top.explained(
            None,
            "dotfiles",
            "deny",
            "busybox sends files whose name begins with a dot. \"deny\" is safer.",
        );
        top.explained(None, "symlinks", "follow", "busybox follows every link. \"beneath\" is safer.");
        top.explained(None, "charset", false, "busybox names no charset.");
        top.set(None, "env", Value::Table(vec![("PATH".to_owned(), SCRIPT_PATH.into())]));
        let table = |pairs: &[At<(String, String)>]| {
            let mut table: Vec<(String, Value)> = Vec::new();
            for ((name, value), _) in pairs {
                table.retain(|(other, _)| other != name);
                table.push((name.clone(), value.as_str().into()));
            }
            table
        };
        if let Some((_, line)) = self.lines.types.first() {
            top.set(*line, "types", Value::Table(table(&self.lines.types)));
        }
        let mut pages = Vec::new();
        for ((status, path), line) in &self.lines.error_pages {
            let inside = beneath(path, &self.home);
            match (inside, status.parse::<u16>()) {
                (Some(inside), Ok(400..=599)) => pages.push(((status.clone(), inside), *line)),
                (None, Ok(_)) => {
                    let what = format!("the error page {} is not beneath {}", path.escape_debug(), self.home);
                    self.findings.warn(*line, what, "move it there");
                }
                _ => {
                    let what = format!("there is no error page for \"{}\"", status.escape_debug());
                    self.findings.warn(*line, what, "write E and a status from 400 to 599");
                }
            }
        }
        if let Some((_, line)) = pages.first() {
            self.document.top.set(*line, "error_pages", Value::Table(table(&pages)));
        }
        self.for_all(pages.into_iter().filter(|((status, _), _)| matches!(&**status, "401" | "403")));
    }

    /// The pages of clients that are denied, or have no password: busybox sends them to all.
    fn for_all(&mut self, pages: impl Iterator<Item = At<(String, String)>>) {
        let has_rules = self.lines.denies_all.is_some() || !self.lines.denied.is_empty();
        for ((_, path), line) in pages {
            if has_rules {
                let mut keys = Keys::default();
                keys.set(line, "path", path.as_str());
                keys.set(None, "then", "allow");
                self.document.section(line, "[[rule]]", keys);
            }
            if !self.lines.users.is_empty() {
                let mut keys = Keys::default();
                keys.set(line, "path", path);
                keys.set(None, "auth", "off");
                self.document.section(line, "[[route]]", keys);
            }
        }
    }

    /// Denied networks come first, then allowed ones, then the rest.
    fn access(&mut self) {
        // The file itself is never sent, in any folder.
        let mut keys = Keys::default();
        keys.set(None, "path", "/**/httpd.conf");
        keys.set(None, "then", "deny");
        keys.set(None, "status", 404);
        self.document.section(None, "[[rule]]", keys);
        for (path, line) in &self.lines.closed {
            let mut keys = Keys::default();
            keys.set(*line, "path", path.as_str());
            keys.set(*line, "then", "deny");
            self.document.section(*line, "[[rule]]", keys);
        }
        for (path, lines) in self.inner {
            self.inner_networks(path, lines);
        }
        self.networks();
    }

    /// The networks of the file of a folder. Those of the folders around it and of the main file count, too, so that
    /// these rules only deny.
    fn inner_networks(&mut self, path: &str, lines: &Lines) {
        let mut deny = |addresses: Vec<String>| {
            let mut keys = Keys::default();
            keys.set(None, "path", format!("{path}/"));
            if !addresses.is_empty() {
                keys.set(None, "address", addresses);
            }
            keys.set(None, "then", "deny");
            self.document.section(None, "[[rule]]", keys);
        };
        if !lines.denied.is_empty() {
            deny(lines.denied.iter().map(|(network, _)| network.clone()).collect());
        }
        if lines.denies_all.is_some() {
            deny(lines.allowed.iter().map(|(network, _)| format!("!{network}")).collect());
        }
    }

    fn networks(&mut self) {
        let lines = self.lines;
        let mut rule = |line: Option<u32>, networks: &[At<String>], then: &str| {
            let mut keys = Keys::default();
            if !networks.is_empty() {
                let networks: Vec<String> = networks.iter().map(|(network, _)| network.clone()).collect();
                keys.set(line, "address", networks);
            }
            keys.set(line, "then", then);
            self.document.section(line, "[[rule]]", keys);
        };
        for (networks, then) in [(&lines.denied, "deny"), (&lines.allowed, "allow")] {
            if let Some((_, line)) = networks.first() {
                rule(*line, networks, then);
            }
        }
        if let Some(line) = lines.denies_all {
            rule(Some(line), &[], "deny");
        }
    }

    /// A route for each path that has something of its own. It repeats what it has from the paths above it.
    fn routes(&mut self) {
        if let Some(users) = self.lines.users.get("/") {
            let keys = self.users(users);
            self.document.top.extend(keys);
        }
        for ((pattern, program), line) in &self.lines.interpreters {
            let mut keys = Keys::default();
            keys.set(*line, "path", pattern.as_str());
            keys.set(*line, "interpreter", program.as_str());
            if self.lines.users.is_empty() {
                keys.set(None, "pass_authorization", true);
            }
            self.document.section(*line, "[[route]]", keys);
        }
        let mut paths: Vec<&str> =
            self.lines.users.keys().map(String::as_str).filter(|path| *path != "/").collect();
        if !paths.contains(&SCRIPTS) {
            paths.push(SCRIPTS);
        }
        let proxies = self.lines.proxies.iter().map(|((from, _), _)| from.trim_end_matches('/'));
        let with_index = self.inner.iter().filter(|(_, own)| own.index.is_some());
        for path in proxies.chain(with_index.map(|(path, _)| path.as_str())) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        for path in paths {
            self.route(path);
        }
    }

    fn route(&mut self, path: &str) {
        let is_within = |outer: &str| path == outer || path.starts_with(&format!("{outer}/"));
        let users = self.lines.users.iter().filter(|(outer, _)| *outer != "/" && is_within(outer));
        let users = users.max_by_key(|(outer, _)| outer.len()).map(|(_, users)| users);
        let proxies =
            self.lines.proxies.iter().filter(|((from, _), _)| is_within(from.trim_end_matches('/')));
        let proxy = proxies.max_by_key(|((from, _), _)| from.len());
        // The deepest folder comes first.
        let mut inner = self.inner.iter().filter(|(outer, _)| is_within(outer));
        let index = inner.find_map(|(_, own)| own.index.as_ref());
        let line = users.and_then(|users| users.first()).map(|(_, line)| *line);
        let line = line.or(proxy.map(|(_, line)| *line)).flatten();
        let folder = format!("{}{path}", self.home);
        // A protected path may be a file: a script has a path behind it.
        let is_file = self.disk.is_file(Path::new(&folder));
        let mut patterns = vec![if is_file { format!("{path}/**") } else { format!("{path}/") }];
        if users.is_some() && !self.disk.is_folder(Path::new(&folder)) && path != SCRIPTS {
            patterns.push(path.to_owned());
        }
        for pattern in patterns {
            let mut keys = Keys::default();
            keys.set(line, "path", pattern.as_str());
            match proxy {
                Some(((from, to), line)) if pattern.ends_with('/') => {
                    let to = to.strip_prefix("http://").unwrap_or(to).trim_end_matches('/');
                    let below = &path[from.trim_end_matches('/').len()..];
                    keys.set(*line, "proxy", format!("http://{to}{below}/"));
                }
                _ if is_within(SCRIPTS) => {
                    keys.set(line, "cgi", true);
                    // Without a password of its own, a script may ask for a token.
                    if users.is_none() && !self.lines.users.contains_key("/") {
                        keys.set(None, "pass_authorization", true);
                    }
                }
                _ => {}
            }
            if proxy.is_none()
                && let Some((name, _)) = index
            {
                keys.set(None, "index", vec![name.clone()]);
            }
            if let Some(users) = users {
                keys.extend(self.users(users));
            }
            self.document.section(line, "[[route]]", keys);
        }
    }

    /// The users of one path. Only they may pass.
    fn users(&mut self, users: &[At<(String, String)>]) -> Keys {
        let line = users.first().and_then(|(_, line)| *line);
        let mut keys = Keys::default();
        keys.set(line, "auth", "basic");
        keys.set(None, "realm", self.flags.realm.as_deref().unwrap_or(REALM));
        let (system, own): (Vec<_>, Vec<_>) = users.iter().partition(|((_, password), _)| password == "*");
        let (mut pairs, mut has_plain): (Vec<(String, Value)>, bool) = Default::default();
        for ((user, password), line) in own {
            if pairs.iter().any(|(other, _)| other == user) {
                let what = format!("a second password of {}", user.escape_debug());
                self.findings.warn(*line, what, "only the first one counts");
                continue;
            }
            if user == "*" {
                let what = "busybox takes this password with any name, and here no user can log in with it";
                self.findings.warn(*line, what, "write the names of the users");
            }
            has_plain |= !is_hash(password);
            let field = if is_hash(password) { password.clone() } else { plain_field(password) };
            pairs.push((user.clone(), field.into()));
        }
        if has_plain {
            keys.set(line, "plain_passwords", true);
        }
        let mut required: Vec<String> = users.iter().map(|((user, _), _)| format!("user:{user}")).collect();
        required.dedup();
        if let Some((_, line)) = system.first() {
            keys.set(*line, "user_files", vec!["/etc/shadow".to_owned()]);
            if system.iter().any(|((user, _), _)| user == "*") {
                required = vec!["user".to_owned()];
            }
        }
        if !pairs.is_empty() {
            keys.set(line, "users", Value::Table(pairs));
        }
        keys.set(line, "require", required);
        keys
    }

    fn rest(&mut self) {
        if self.disk.is_file(Path::new(&format!("{}{SCRIPTS}/index.cgi", self.home))) {
            let what = "/cgi-bin/index.cgi does not make pages for folders without an index";
            self.findings.warn(None, what, "name it in index, or set listing = true");
        }
        let (mut limits, mut scripts) = (Keys::default(), Keys::default());
        take_any_body(&mut limits, &mut scripts, spool(None, self.disk, &mut self.findings));
        self.document.section(None, "[limits]", limits);
        let mut keys = Keys::default();
        keys.set(None, "head", HEAD_TIME);
        self.document.section(None, "[timeouts]", keys);
        for key in ["first_byte", "idle", "total"] {
            scripts.set(None, key, ENDLESS);
        }
        allow_as_before(&mut scripts, Account::of(self.flags.user.as_deref()));
        self.document.section(None, "[scripts]", scripts);
        let sink = if self.flags.foreground { "stderr" } else { "syslog" };
        let mut keys = Keys::default();
        if self.flags.verbose {
            keys.set(None, "access", sink);
        }
        keys.set(None, "error", sink);
        self.document.section(None, "[log]", keys);
    }
}
