//! What the directives become.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use super::aliases::{self, Alias, Kind, ROOT_ALONE};
use super::directives::{Directives, Text};
use super::flags::Flags;
use super::glob;
use super::hosts::{self, Host};
use super::types::Types;
use super::users;
use crate::Conversion;
use crate::disk::Disk;
use crate::document::{Document, Keys, Value};
use crate::finding::Findings;
use crate::scripts::{Account, ENDLESS, IN_PLACE_OF_ROOT, NO_LIMIT, allow_as_before, spool, store_bodies};
use crate::words;

/// How long Boa waits for a client that does nothing (REQUEST_TIMEOUT).
const PATIENCE: &str = "60s";
/// Where Boa's scripts find programs.
const SCRIPT_PATH: &str = "/bin:/usr/bin:/usr/local/bin";
/// The mask of files that scripts make.
const UMASK: i64 = 0o027;
/// Connections that may wait to be accepted.
const MAX_BACKLOG: i64 = 65_535;

/// Reads the file that the flags name.
pub fn convert(flags: &Flags, disk: &dyn Disk) -> Conversion {
    let file = flags.path();
    let mut findings = Findings::default();
    let bytes = findings.bytes(disk.read(&file));
    let directives = Directives::read(&bytes, &mut findings);
    let base = directives.text("ServerRoot").map(|given| flags.folder().join(given.value));
    let base = base.unwrap_or_else(|| flags.folder());
    let path = |text: &str| {
        let path = disk_path(disk, &flags.outside(base.join(text)));
        if path.len() > 1 { path.trim_end_matches('/').to_owned() } else { path }
    };
    let mut reading = Reading {
        directives: &directives,
        path: &path,
        disk,
        findings,
        document: Document::default(),
        types: Types::default(),
        aliases: Vec::new(),
        hosts: None,
        matched: BTreeSet::new(),
    };
    reading.read(flags);
    reading.document.conversion(file, "Boa", reading.findings)
}

/// The name or the decimal number of an account.
fn account(text: &str) -> String {
    match words::number(text) {
        Some(0) => "root".to_owned(),
        Some(number) => number.to_string(),
        None => text.to_owned(),
    }
}

/// Boa passes on all fields of the request, so that a script can ask for passwords itself.
fn run(keys: &mut Keys, line: Option<u32>) {
    keys.set(line, "cgi", true);
    keys.set(None, "pass_authorization", true);
}

fn disk_path(disk: &dyn Disk, path: &Path) -> String {
    disk.absolute(path).to_string_lossy().into_owned()
}

struct Reading<'r> {
    directives: &'r Directives<'r>,
    /// Makes a path absolute.
    path: &'r dyn Fn(&str) -> String,
    disk: &'r dyn Disk,
    findings: Findings,
    document: Document,
    types: Types,
    aliases: Vec<Alias<'r>>,
    /// `None`: all addresses have the same host.
    hosts: Option<Vec<Host>>,
    /// The lines of `Allow` and `Deny` that are for something that is served.
    matched: BTreeSet<u32>,
}

impl Reading<'_> {
    fn read(&mut self, flags: &Flags) {
        self.read_types();
        self.aliases =
            aliases::usable(self.directives.each(&["Alias", "ScriptAlias", "Redirect"]), &mut self.findings);
        self.hosts = hosts::hosts(self.directives, self.path, self.disk, &mut self.findings);
        self.server(flags);
        self.default_host(flags);
        self.files();
        self.environment();
        self.routes_of_hosts();
        self.limits();
        self.scripts(flags);
        self.logs();
        self.report();
    }

    /// A key with the value of a directive.
    fn text_key(&mut self, name: &str, key: &str) {
        if let Some(given) = self.directives.text(name) {
            self.document.top.set(given.at(), key, given.value);
        }
    }

    fn path_key(&mut self, name: &str, key: &str) {
        if let Some(given) = self.directives.text(name) {
            self.document.top.set(given.at(), key, (self.path)(given.value));
        }
    }

    fn server(&mut self, flags: &Flags) {
        self.document.top.set(None, "signals", "boa");
        self.listen(flags);
        match self.directives.text("User") {
            Some(given) => self.document.top.set(given.at(), "user", account(given.value)),
            None => {
                self.findings.note(None, "there is no User, and Boa stayed root", IN_PLACE_OF_ROOT);
                self.document.top.set(None, "user", "nobody");
            }
        }
        if let Some(given) = self.directives.text("Group") {
            self.document.top.set(given.at(), "group", account(given.value));
        }
        self.path_key("PidFile", "pid_file");
        if let Some(chroot) = &flags.chroot {
            self.document.top.set(None, "chroot", disk_path(self.disk, chroot));
        }
        if let Some(line) = self.directives.flag("ConcealServerIdentity") {
            self.document.top.set(Some(line), "server_header", false);
        }
        if flags.level.is_some() {
            self.findings.note(
                None,
                "the debug level of -l has no effect",
                "use taipan explain, or level in [log]",
            );
        }
    }

    /// The flags win over the directives.
    fn listen(&mut self, flags: &Flags) {
        let port = self.directives.number("Port").filter(|_| flags.port.is_none());
        let number = flags.port.unwrap_or_else(|| port.map_or(80, |port| port.value));
        let line = port.and_then(|port| port.at());
        if port.is_none() && flags.port.is_none() {
            self.findings.warn(None, "there is no Port, and Boa took any free one", "here it is port 80");
        }
        if !(0..=65_535).contains(&number) {
            return self.findings.error(
                line,
                format!("there is no port {number}"),
                "write one from 1 to 65535",
            );
        }
        let own = self.directives.text("Listen");
        let given = flags.address.as_deref().map(|address| (address, None));
        let (address, at) = given.or(own.map(|own| (own.value, own.at()))).unwrap_or(("0.0.0.0", None));
        let address = match address.parse() {
            Ok(IpAddr::V4(address)) => address.to_string(),
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            Err(_) => {
                let what = format!("Listen {} is not an IP address", address.escape_debug());
                return self.findings.error(at, what, "write one, such as 192.0.2.1");
            }
        };
        self.document.top.set(line, "listen", vec![format!("{address}:{number}")]);
    }

    fn default_host(&mut self, flags: &Flags) {
        if let Some(Host { address: None, root, default_folder, line, .. }) =
            self.hosts.as_ref().and_then(|hosts| hosts.first())
        {
            self.document.top.set(*line, "root", root.as_str());
            if let Some(folder) = default_folder {
                self.document.top.set(
                    self.directives.text("DefaultVHost").and_then(|given| given.at()),
                    "default_folder",
                    folder.as_str(),
                );
            }
        }
        if let (None, Some(given)) = (&self.hosts, self.directives.text("DocumentRoot")) {
            let root = (self.path)(given.value);
            match self.disk.is_folder(Path::new(&root)) {
                true => self.document.top.set(given.at(), "root", hosts::literal(&root)),
                false => self.report_missing(&root, given.at()),
            }
        }
        self.text_key("UserDir", "user_folders");
        if let (Some(given), Some(_)) = (self.directives.text("UserDir"), &flags.chroot) {
            let mut keys = Keys::default();
            keys.set(given.at(), "homes", vec![(self.path)("/home")]);
            self.document.section(given.at(), "[accounts]", keys);
        }
    }

    fn files(&mut self) {
        let top = &mut self.document.top;
        match self.directives.text("DirectoryIndex") {
            Some(given) => top.set(given.at(), "index", vec![given.value.to_owned()]),
            None => top.set(None, "index", Vec::new()),
        }
        match (self.directives.text("DirectoryMaker"), self.directives.text("DirectoryCache")) {
            (Some(given), _) => {
                let program = (self.path)(given.value);
                match self.disk.is_file(Path::new(&program)) {
                    true => top.set(given.at(), "listing_program", program),
                    false => top.set(given.at(), "listing", true),
                }
            }
            // Boa made them itself, and kept them there.
            (None, Some(given)) => top.set(given.at(), "listing", true),
            (None, None) => {}
        }
        let languages = [("LangRewrite", "suffix"), ("CaudiumHack", "folder")];
        let given = languages.map(|(name, word)| (self.directives.flag(name), word));
        let words: Vec<String> =
            given.iter().filter(|(line, _)| line.is_some()).map(|(_, word)| (*word).to_owned()).collect();
        if !words.is_empty() {
            top.set(given.iter().find_map(|(line, _)| *line), "language_fallback", words);
        }
        top.explained(
            None,
            "dotfiles",
            "deny",
            "Boa sends files whose name begins with a dot. \"deny\" is safer.",
        );
        top.explained(None, "symlinks", "follow", "Boa follows every link. \"beneath\" is safer.");
        let charset = self.directives.text("DefaultCharset");
        match charset {
            Some(given) => top.set(given.at(), "charset", given.value),
            None => top.explained(None, "charset", false, "Boa names no charset."),
        }
        self.text_key("DefaultType", "default_type");
        let pairs: Vec<_> = self.types.differing().collect();
        let line = pairs.iter().find_map(|(_, _, line)| *line);
        let pairs: Vec<_> = pairs.into_iter().map(|(e, t, _)| (e, Value::from(t))).collect();
        if !pairs.is_empty() {
            self.document.top.set(line, "types", Value::Table(pairs));
        }
        if let Some(given) = self.directives.text("EnableHSTS") {
            let header = ("Strict-Transport-Security".to_owned(), Value::from(given.value));
            self.document.top.set(given.at(), "headers", Value::Table(vec![header]));
        }
    }

    fn read_types(&mut self) {
        for given in self.directives.each(&["MimeTypes", "AddType"]) {
            if given.name == "AddType" {
                self.add_type(&given);
                continue;
            }
            let path = (self.path)(given.value);
            match self.disk.read(Path::new(&path)) {
                Ok(bytes) => self.types.add_file(&bytes, given.at()),
                Err(error) => {
                    let what = format!("{path} cannot be read: {error}");
                    self.findings.error(given.at(), what, "remove MimeTypes for the built-in types");
                }
            }
        }
    }

    fn add_type(&mut self, given: &Text) {
        for extension in given.second.split_whitespace() {
            if let Err((first, line)) = self.types.add(extension, given.value, given.at()) {
                let extension = extension.escape_debug();
                let line = line.unwrap_or(0);
                let what = format!(
                    "AddType {} has no effect for {extension}: line {line} made it {first}",
                    given.value
                );
                self.findings.note(given.at(), what, "remove it, or write it before that line");
            }
        }
    }

    fn has_scripts(&self) -> bool {
        self.types.scripts().next().is_some() || self.aliases.iter().any(|alias| alias.kind == Kind::Scripts)
    }

    fn environment(&mut self) {
        if !self.has_scripts() {
            return;
        }
        let path = self.directives.text("CGIPath");
        let mut pairs = vec![("PATH".to_owned(), Value::from(path.map_or(SCRIPT_PATH, |given| given.value)))];
        for (name, variable) in [("ServerAdmin", "SERVER_ADMIN"), ("ServerName", "SERVER_NAME")] {
            if let Some(given) = self.directives.text(name) {
                pairs.push((variable.to_owned(), given.value.into()));
            }
        }
        for given in self.directives.each(&["CGIEnv"]) {
            pairs.retain(|(name, _)| name != given.value);
            pairs.push((given.value.to_owned(), given.second.into()));
        }
        let line = self.directives.each(&["CGIEnv"]).next().or(path).map(|given| given.line);
        self.document.top.set(line, "env", Value::Table(pairs));
    }

    fn routes_of_hosts(&mut self) {
        let root = self.directives.text("DocumentRoot").map(|given| (self.path)(given.value));
        let root = root.filter(|root| self.disk.is_folder(Path::new(root)));
        let hosts = self.hosts.take();
        let is_of_each = hosts.as_ref().is_some_and(|hosts| hosts.iter().all(|host| host.address.is_some()));
        let Some(hosts) = hosts.filter(|_| is_of_each) else {
            self.routes("[[route]]", root.is_some() || self.directives.text("VHostRoot").is_some(), None);
            self.rules("[[rule]]", root.as_deref(), None);
            return;
        };
        // Addresses without a folder have no names, and so no scripts of a name.
        let scripts = match hosts.iter().any(|host| host.folder.is_some()) {
            true => self.aliases.extract_if(.., |alias| alias.kind == Kind::Scripts).collect(),
            false => Vec::new(),
        };
        self.routes("[[route]]", false, None);
        self.aliases.extend(scripts);
        for host in &hosts {
            let mut keys = Keys::default();
            keys.set(None, "addresses", host.address.iter().map(IpAddr::to_string).collect::<Vec<_>>());
            if let Some(name) = &host.name {
                keys.set(None, "names", vec![name.clone()]);
            }
            keys.set(None, "root", host.root.as_str());
            if let Some(folder) = &host.default_folder {
                keys.set(None, "default_folder", folder.as_str());
            }
            self.document.section(None, "[[host]]", keys);
            self.routes("[[host.route]]", true, host.folder.as_deref());
            self.rules("[[host.rule]]", Some(&host.files), host.folder.as_deref());
        }
    }

    /// The folder of an alias.
    fn target(&self, alias: &Alias, folder: Option<&str>) -> String {
        match (folder, alias.kind) {
            (Some(folder), Kind::Scripts) => format!("{folder}/{}", alias.to.trim_matches('/')),
            _ => (self.path)(alias.to),
        }
    }

    /// `folder`: where the scripts of the host are.
    fn routes(&mut self, header: &str, has_root: bool, folder: Option<&str>) {
        if !has_root {
            let mut keys = Keys::default();
            keys.set(None, "path", "/");
            keys.set(None, "return", 404);
            self.document.section(None, header, keys);
        }
        self.script_types(header);
        for alias in self.aliases.clone() {
            match alias.kind {
                Kind::Redirect => self.redirect(header, &alias),
                Kind::Alias | Kind::Scripts => self.folder_route(header, &alias, folder),
            }
        }
    }

    /// Scripts by their extension. Boa runs none of them beneath an `Alias`.
    fn script_types(&mut self, header: &str) {
        let scripts: Vec<(String, Option<u32>)> =
            self.types.scripts().map(|(extension, line)| (extension.to_owned(), line)).collect();
        for (extension, line) in scripts {
            for alias in self.aliases.iter().filter(|alias| alias.kind == Kind::Alias && alias.is_folder()) {
                let mut keys = Keys::default();
                keys.set(alias.line, "path", format!("{}**.{extension}", alias.prefix()));
                keys.set(alias.line, "cgi", false);
                self.document.section(alias.line, header, keys);
            }
            let mut keys = Keys::default();
            keys.set(line, "path", format!("*.{extension}"));
            run(&mut keys, line);
            self.document.section(line, header, keys);
        }
    }

    fn folder_route(&mut self, header: &str, alias: &Alias, folder: Option<&str>) {
        let target = self.target(alias, folder);
        if self.disk.is_file(Path::new(&target)) {
            return self.file_route(header, alias, &target);
        }
        if alias.is_alone {
            let what =
                format!("{} {} has no effect: an alias before it has this folder", alias.name(), alias.from);
            return self.findings.note(alias.line, what, "remove it, or write it before that line");
        }
        let mut keys = Keys::default();
        keys.set(alias.line, "path", alias.pattern());
        let exists = self.disk.is_folder(Path::new(&target));
        match exists {
            false => {
                self.report_missing(&target, alias.line);
                keys.set(alias.line, "return", 404);
            }
            true if alias.is_of_root() => keys.set(alias.line, "root", hosts::literal(&target)),
            true => keys.set(alias.line, "alias", target),
        }
        if exists && alias.kind == Kind::Scripts {
            run(&mut keys, alias.line);
        }
        self.document.section(alias.line, header, keys);
    }

    fn report_missing(&mut self, folder: &str, line: Option<u32>) {
        let what = format!("there is no folder {folder}, so that the response is 404");
        self.findings.warn(line, what, "make it, and reload");
    }

    /// An alias of one file, which can only have the name that it has on the disk.
    fn file_route(&mut self, header: &str, alias: &Alias, target: &str) {
        let Some(folder) = target.strip_suffix(alias.from).filter(|_| !alias.has_slash()) else {
            let what = format!("{target} is a file, and cannot have the path {}", alias.from);
            let what_to_do = "make a link to it beneath DocumentRoot, or name its folder";
            return self.findings.warn(alias.line, what, what_to_do);
        };
        let mut keys = Keys::default();
        keys.set(alias.line, "path", alias.from);
        keys.set(alias.line, "root", if folder.is_empty() { "/" } else { folder });
        if alias.kind == Kind::Scripts {
            run(&mut keys, alias.line);
        }
        self.document.section(alias.line, header, keys);
    }

    fn redirect(&mut self, header: &str, alias: &Alias) {
        let to = alias.to.replace('$', "$$");
        let mut targets = match alias.is_of_root() {
            true => vec![(alias.pattern(), to.clone())],
            false => vec![(alias.prefix(), format!("{to}$rest"))],
        };
        if !alias.has_slash() {
            targets = vec![(alias.from.to_owned(), to.clone())];
            if !alias.is_alone {
                targets.push((alias.prefix(), format!("{to}/$rest")));
            }
        }
        for (from, to) in targets {
            let mut keys = Keys::default();
            keys.set(alias.line, "path", from);
            keys.set(alias.line, "redirect", to);
            self.document.section(alias.line, header, keys);
        }
    }

    /// The rules of `Allow` and `Deny` for the files of one host, and for those of the aliases and of users.
    fn rules(&mut self, header: &str, root: Option<&str>, folder: Option<&str>) {
        for (line, path) in self.directives.protected() {
            let mut keys = Keys::default();
            keys.set(Some(line), "path", vec![path]);
            keys.set(Some(line), "then", "deny");
            self.document.section(Some(line), header, keys);
        }
        let of_users = self.directives.text("UserDir");
        if let Some(keys) = of_users.and_then(|given| users::denied_scripts(given.at(), &self.types)) {
            self.document.section(of_users.and_then(|given| given.at()), header, keys);
        }
        let own = root.map(|root| (format!("{}/", root.trim_end_matches('/')), "/".to_owned()));
        let of_aliases = self.aliases.iter().filter(|alias| alias.kind != Kind::Redirect && !alias.is_alone);
        let (of_root, of_aliases): (Vec<&Alias>, Vec<&Alias>) =
            of_aliases.partition(|alias| alias.is_of_root());
        // What the path `/` has: the folder, or its index file.
        let index = self.directives.text("DirectoryIndex").map_or("", |given| given.value);
        let of_root: Vec<String> = of_root
            .iter()
            .map(|alias| self.target(alias, folder))
            .flat_map(|folder| [format!("{folder}/"), format!("{folder}/{index}")])
            .collect();
        let places =
            of_aliases.iter().map(|alias| (format!("{}/", self.target(alias, folder)), alias.prefix()));
        let of_users = of_users.map(|given| users::folders(given.value, self.disk, self.path));
        let places: Vec<(String, String)> =
            own.into_iter().chain(places).chain(of_users.into_iter().flatten()).collect();
        for given in self.directives.each(&["Allow", "Deny"]) {
            let pattern =
                if given.value.starts_with('/') { (self.path)(given.value) } else { given.value.to_owned() };
            let found: Result<Vec<_>, _> =
                places.iter().map(|(folder, url)| glob::beneath(&pattern, folder, url)).collect();
            let of_root = of_root.iter().map(|file| glob::beneath(&pattern, file, ROOT_ALONE));
            let found = found.and_then(|found| {
                let of_root = of_root.collect::<Result<Vec<_>, _>>()?.concat();
                let own = of_root.into_iter().find(|pattern| pattern == ROOT_ALONE);
                Ok([found.concat(), own.into_iter().collect()].concat())
            });
            match found {
                Err(why) => {
                    let what = format!("{} {}: {why}", given.name, given.value.escape_debug());
                    self.findings.error(given.at(), what, "write a pattern of *, ? and short sets");
                }
                Ok(patterns) if patterns.is_empty() => {}
                Ok(patterns) => {
                    self.matched.insert(given.line);
                    let mut keys = Keys::default();
                    keys.set(given.at(), "path", patterns);
                    keys.set(given.at(), "then", given.name.to_ascii_lowercase());
                    self.document.section(given.at(), header, keys);
                }
            }
        }
    }

    fn limits(&mut self) {
        let mut limits = Keys::default();
        let kept = self.directives.at_least("KeepAliveMax", 1);
        match kept {
            Some(given) => limits.set(given.at(), "requests", given.value),
            None => limits.explained(None, "requests", 1, "Boa keeps no connection without KeepAliveMax."),
        }
        if let Some(given) = self.directives.number("SinglePostLimit") {
            match given.value {
                ..0 => self.findings.error(
                    given.at(),
                    "SinglePostLimit is negative",
                    "write bytes, or 0 for no limit",
                ),
                0 => limits.set(given.at(), "body", NO_LIMIT),
                bytes => limits.set(given.at(), "body", bytes.min(NO_LIMIT)),
            }
        }
        if let Some(given) = self.directives.at_least("MaxConnections", 1) {
            limits.explained(given.at(), "connections", given.value, "Of each worker.");
        }
        if let Some(given) = self.directives.at_least("BackLog", 1) {
            limits.explained(given.at(), "backlog", given.value.min(MAX_BACKLOG), "Of each worker.");
        }
        self.document.section(None, "[limits]", limits);
        let mut timeouts = Keys::default();
        for key in ["head", "body", "write"] {
            timeouts.set(None, key, PATIENCE);
        }
        match self.directives.at_least("KeepAliveTimeout", 1) {
            Some(given) => timeouts.set(given.at(), "idle", given.value),
            None => timeouts.set(None, "idle", PATIENCE),
        }
        self.document.section(None, "[timeouts]", timeouts);
    }

    fn scripts(&mut self, flags: &Flags) {
        if !self.has_scripts() {
            return;
        }
        let mut keys = Keys::default();
        let mask = self.directives.number("CGIumask");
        let value = mask.map_or(UMASK, |given| given.value);
        match u32::try_from(value).ok().filter(|mask| *mask <= 0o777) {
            Some(octal) => keys.set(mask.and_then(|given| given.at()), "umask", format!("{octal:03o}")),
            None => {
                let line = mask.and_then(|given| given.at());
                self.findings.error(line, "CGIumask is above 0777", "write an octal number, such as 027");
            }
        }
        let chroot = flags.chroot.as_ref().map(|chroot| disk_path(self.disk, chroot));
        store_bodies(&mut keys, spool(chroot.as_deref(), self.disk, &mut self.findings));
        keys.explained(None, "total", ENDLESS, "Boa ends no script that goes on writing.");
        if let Some(given) = self.directives.at_least("CGINice", 1) {
            keys.set(given.at(), "nice", given.value.min(19));
        }
        if let Some(given) = self.directives.at_least("CGIRlimitCpu", 1) {
            keys.set(given.at(), "cpu", given.value);
        }
        if let Some(given) = self.directives.at_least("CGIRlimitData", 1) {
            keys.explained(
                given.at(),
                "memory",
                given.value,
                "Of the whole address space, not of the data alone.",
            );
        }
        let account = Account::of(self.directives.text("User").map(|given| given.value));
        allow_as_before(&mut keys, account);
        self.document.section(None, "[scripts]", keys);
    }

    fn logs(&mut self) {
        let mut keys = Keys::default();
        let (by_address, by_name) = (self.directives.flag("VirtualHost"), self.directives.text("VHostRoot"));
        match (by_address, by_name) {
            (Some(line), _) => keys.set(Some(line), "format", "boa-address"),
            (None, Some(given)) => keys.set(given.at(), "format", "boa-host"),
            (None, None) => keys.set(None, "format", "boa"),
        }
        keys.set(None, "error_format", "boa");
        keys.set(None, "level", "info");
        keys.set(None, "client_errors", true);
        if let Some(line) = self.directives.flag("VerboseCGILogs") {
            keys.set(Some(line), "script_starts", true);
        }
        // No Boa knew both of them.
        match (self.directives.flag("UseLocaltime"), self.directives.flag("UseGMT")) {
            (Some(local), utc) if utc.is_none_or(|utc| utc < local) => {
                keys.set(Some(local), "timezone", "local");
            }
            (_, Some(utc)) => keys.set(Some(utc), "timezone", "UTC"),
            (_, None) => {}
        }
        if let Some(line) = self.directives.flag("LogXFF") {
            keys.explained(
                Some(line),
                "forwarded_for",
                true,
                "Any client can send it. trusted_proxies is safer.",
            );
        }
        for (name, key) in [("AccessLog", "access"), ("ErrorLog", "error"), ("CGILog", "scripts")] {
            let Some(given) = self.directives.text(name) else { continue };
            match (given.value, key) {
                ("/dev/null", "access") => keys.set(given.at(), key, false),
                ("/dev/stdout", _) => keys.set(given.at(), key, "stdout"),
                ("/dev/stderr", _) => keys.set(given.at(), key, "stderr"),
                // Boa has a shell run the command.
                (value, _) if value.starts_with('|') => {
                    keys.set(given.at(), key, format!("|${}", value[1..].trim()));
                }
                (value, _) if value.starts_with(':') => {
                    keys.set(given.at(), key, format!("tcp://{}", &value[1..]));
                }
                (value, _) => keys.set(given.at(), key, (self.path)(value)),
            }
        }
        self.document.section(None, "[log]", keys);
    }

    /// What has no effect, or another one.
    fn report(&mut self) {
        const NOTES: &[(&str, &str, &str)] = &[
            ("AuxLog", "no Boa has written this log", "remove it"),
            ("ChrootPath", "no Boa has used it", "use -r, or chroot in a configuration of taipan"),
            ("DirectoryCache", "listings are kept in memory, and the folder is not used", "nothing to do"),
            ("NoRedirectPort", "redirects to folders have no port in any case", "nothing to do"),
        ];
        for given in self.directives.each(&["Allow", "Deny"]) {
            if !self.matched.contains(&given.line) {
                let what = format!("{} {} is for nothing that is served", given.name, given.value);
                self.findings.note(given.at(), what, "nothing to do");
            }
        }
        for (name, what, what_to_do) in NOTES {
            if let Some(given) = self.directives.text(name) {
                self.findings.note(given.at(), format!("{name}: {what}"), *what_to_do);
            }
        }
        if let Some(given) = self.directives.text("DirectoryMaker")
            && !self.disk.is_file(Path::new(&(self.path)(given.value)))
        {
            let what = "DirectoryMaker: there is no such program, so that the server makes listings itself";
            self.findings.warn(given.at(), what, "nothing to do, unless the program did more");
        }
        if self.directives.text("DefaultType").is_none() {
            let what = "there is no DefaultType, without which Boa did not start";
            self.findings.note(None, what, "here it is application/octet-stream");
        }
    }
}
