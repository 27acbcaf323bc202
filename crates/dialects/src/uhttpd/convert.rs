//! What flags and options become.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use site::address::without_brackets;
use site::authentication::{is_crypt_hash, plain_field};

use super::flags::{Flags, Given};
use super::options;
use super::protection::{User, protected, read_file};
use super::types;
use crate::Conversion;
use crate::disk::Disk;
use crate::document::{Document, Keys, Value};
use crate::everywhere::{addresses_of, everywhere};
use crate::finding::{Findings, Severity};
use crate::scripts::{Account, IN_PLACE_OF_ROOT, allow_as_before, spool, take_any_body};
use crate::words;

/// The file in the form of busybox httpd.
const FILE: &str = "/etc/httpd.conf";
const REALM: &str = "Protected Area";
const SCRIPTS: &str = "/cgi-bin";
const SCRIPT_PATH: &str = "/sbin:/usr/sbin:/bin:/usr/bin";
/// The files that are looked for in a folder, behind those of `-I`.
const INDEX: [&str; 4] = ["index.html", "index.htm", "default.html", "default.htm"];
/// Passwords of accounts.
const SHADOW: &str = "/etc/shadow";
/// Scripts at the same time, connections, and seconds.
const MAX_SCRIPTS: i64 = 3;
const MAX_CONNECTIONS: i64 = 100;
const SCRIPT_TIME: i64 = 60;
const NETWORK_TIME: i64 = 30;
const KEEP_TIME: i64 = 20;
/// Each becomes routes.
const MAX_PATTERNS: usize = 900;

/// What has a file that does not exist, in the configuration and not in flags.
const SKIPPED: &str = "nothing to do: OpenWrt leaves it out, too";

/// Networks that are not of the Internet (RFC 1918).
const PRIVATE: [&str; 3] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];

/// Reads what the flags name.
pub fn convert(flags: &Flags, disk: &dyn Disk) -> Conversion {
    let mut findings = Findings::default();
    let (mut given, mut users) = (flags.given.clone(), Vec::new());
    let read = |path: &Path, findings: &mut Findings| {
        disk.read(path).unwrap_or_else(|error| {
            let what = format!("{} cannot be read: {error}", path.display());
            findings.error(None, what, "check its path and its permissions");
            Vec::new()
        })
    };
    if let Some(file) = &flags.file {
        let bytes = read(file, &mut findings);
        match words::not_utf8(&bytes) {
            None => {
                (given, users) = options::read(&String::from_utf8_lossy(&bytes), disk, &mut findings);
            }
            Some(error) => findings.not_utf8(&error),
        }
    }
    let named = given.iter().rev().find(|given| given.letter == 'c').cloned();
    let own = disk.absolute(Path::new(named.as_ref().map_or(FILE, |given| &given.value)));
    let own_bytes = match disk.read(&own) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(given) = &named {
                let what = format!("there is no {}, and uhttpd starts without it", own.display());
                findings.warn(given.line, what, "make it if paths have passwords, or remove -c");
            }
            None
        }
        _ if named.is_none() && !disk.is_file(&own) => None,
        _ => Some(read(&own, &mut findings)),
    };
    let has_own = own_bytes.is_some();
    if let Some(bytes) = own_bytes {
        let mut own_findings = Findings::default();
        let (own_users, others) = read_file(&bytes, &mut own_findings);
        // The lines of one file only are lines of the conversion.
        let line = |line: Option<u32>| line.filter(|_| flags.file.is_none());
        users.extend(own_users.into_iter().map(|user| User { line: line(user.line), ..user }));
        let others = others.into_iter();
        given.extend(others.map(|(letter, value, at)| Given { letter, value, line: line(Some(at)) }));
        for finding in own_findings.into_sorted() {
            let what = match flags.file {
                Some(_) => format!("{}:{}: {}", own.display(), finding.line.unwrap_or(0), finding.what),
                None => finding.what,
            };
            match finding.severity {
                Severity::Error => findings.error(line(finding.line), what, finding.what_to_do),
                Severity::Warning => findings.warn(line(finding.line), what, finding.what_to_do),
                Severity::Notice => findings.note(line(finding.line), what, finding.what_to_do),
            }
        }
    }
    let file = flags.file.clone().unwrap_or_else(|| if has_own { own } else { "uhttpd".into() });
    let home = given.iter().rev().find(|given| given.letter == 'h').map_or(".", |given| given.value.as_str());
    let home = disk.absolute(Path::new(home)).to_string_lossy().trim_end_matches('/').to_owned();
    let mut reading =
        Reading { given: &given, users: &users, home, disk, findings, document: Document::default() };
    reading.read();
    reading.document.conversion(file, "uhttpd", reading.findings)
}

/// What scripts get of the client.
fn pass_on(keys: &mut Keys) {
    keys.set(None, "pass_authorization", true);
    keys.set(None, "remote_host", "address");
}

/// Whether HTTPS can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certificate {
    Usable,
    /// There is none, or none is asked for.
    Absent,
    Refused,
}

struct Reading<'r> {
    given: &'r [Given],
    users: &'r [User],
    /// Without a slash at its end.
    home: String,
    disk: &'r dyn Disk,
    findings: Findings,
    document: Document,
}

impl<'r> Reading<'r> {
    fn read(&mut self) {
        self.server();
        self.files();
        self.rules();
        self.routes();
        self.limits();
        self.logs();
        self.report();
    }

    /// The last one of a flag.
    fn last(&self, letter: char) -> Option<&'r Given> {
        self.given.iter().rev().find(|given| given.letter == letter)
    }

    fn each(&self, letter: char) -> impl Iterator<Item = &'r Given> + use<'r> {
        self.given.iter().filter(move |given| given.letter == letter)
    }

    /// The value of a flag, and its line. What is no number is reported.
    fn number(&mut self, letter: char, default: i64) -> (i64, Option<u32>) {
        let Some(given) = self.last(letter) else { return (default, None) };
        match given.value.trim().parse() {
            Ok(number) if (0..=1_000_000).contains(&number) => (number, given.line),
            _ => {
                let what = format!("-{letter} {} is no number, or too large", given.value.escape_debug());
                self.findings.error(given.line, what, "write one, such as 30");
                (default, given.line)
            }
        }
    }

    fn server(&mut self) {
        self.document.top.set(None, "signals", "busybox");
        let mut listen: Vec<String> = Vec::new();
        let tls = self.certificate();
        let has_certificate = tls == Certificate::Usable;
        let given: Vec<&Given> = self.each('p').chain(self.each('s').filter(|_| has_certificate)).collect();
        for one in &given {
            let addresses = self.addresses(&one.value);
            if one.value.starts_with("[::]:") && everywhere(self.disk).len() == 1 {
                self.findings.note(
                    one.line,
                    "this machine has no IPv6, so that its addresses are left out",
                    "nothing to do",
                );
                continue;
            }
            if addresses.is_empty() {
                let what = format!(
                    "\"{}\" is neither a port, nor an IP address or a name in /etc/hosts with a port",
                    one.value.escape_debug()
                );
                self.findings.error(one.line, what, "write 80, 192.0.2.1:80 or [::]:80");
            }
            for address in addresses {
                let text = if one.letter == 's' { format!("{address} tls") } else { address };
                if !listen.contains(&text) {
                    listen.push(text);
                }
            }
        }
        if given.is_empty() && tls != Certificate::Refused {
            self.findings.error(
                None,
                "there is no address, so that nothing is served",
                "add -p 80, or listen_http",
            );
        }
        self.document.top.set(given.first().and_then(|given| given.line), "listen", listen);
        self.findings.note(None, "uhttpd serves as root", IN_PLACE_OF_ROOT);
        self.document.top.set(None, "user", "nobody");
        if let Some(given) = self.last('q').filter(|_| has_certificate && self.last('s').is_some()) {
            self.document.top.set(given.line, "https_redirect", true);
        }
    }

    fn certificate(&mut self) -> Certificate {
        let Some(first) = self.each('s').next() else { return Certificate::Absent };
        let (Some(certificate), Some(key)) = (self.last('C'), self.last('K')) else {
            self.findings.error(first.line, "HTTPS needs a certificate and a key", "add -C and -K");
            return Certificate::Refused;
        };
        for given in [certificate, key] {
            let path = self.disk.absolute(Path::new(&given.value));
            if !self.disk.is_file(&path) {
                let what = format!("there is no {}, so that HTTPS is not served", path.display());
                self.findings.warn(given.line.or(first.line), what, "make a certificate and a key in PEM");
                return Certificate::Absent;
            }
            // A key need not be readable for this process.
            let bytes = self.disk.read(&path).unwrap_or_default();
            if bytes.first() == Some(&0x30) {
                let what = format!("{} is in DER", path.display());
                let what_to_do =
                    "convert it to PEM, as with openssl x509 -inform der or openssl pkey -inform der";
                self.findings.error(given.line.or(first.line), what, what_to_do);
                return Certificate::Refused;
            }
        }
        let path = |given: &Given| self.disk.absolute(Path::new(&given.value)).to_string_lossy().into_owned();
        self.document.top.set(certificate.line, "certificate", path(certificate));
        self.document.top.set(key.line, "certificate_key", path(key));
        Certificate::Usable
    }

    /// `80`, `192.0.2.1:80`, `[::1]:80` or `localhost:80`.
    fn addresses(&self, text: &str) -> Vec<String> {
        let shown = |address: IpAddr, port: u16| match address {
            IpAddr::V4(address) => format!("{address}:{port}"),
            IpAddr::V6(address) => format!("[{address}]:{port}"),
        };
        match text.rsplit_once(':') {
            None => {
                let port = text.parse().into_iter();
                port.flat_map(|port| everywhere(self.disk).into_iter().map(move |ip| shown(ip, port)))
                    .collect()
            }
            Some((address, port)) => {
                let Ok(port) = port.parse() else { return Vec::new() };
                let addresses = addresses_of(without_brackets(address), self.disk);
                addresses.into_iter().map(|ip| shown(ip, port)).collect()
            }
        }
    }

    fn files(&mut self) {
        let home = self.last('h').and_then(|given| given.line);
        let root = if self.home.is_empty() { "/".to_owned() } else { self.home.replace('$', "$$") };
        self.document.top.set(home, "root", root);
        let own = self.each('I');
        let line = self.each('I').next().and_then(|given| given.line);
        let mut index: Vec<String> = Vec::new();
        for name in own.map(|given| given.value.as_str()).chain(INDEX) {
            // `index_page` has the others.
            if !name.contains('/') && !index.iter().any(|other| other == name) {
                index.push(name.to_owned());
            }
        }
        let (listing, line_of_listing) = self.last('D').map_or((true, None), |given| (false, given.line));
        let top = &mut self.document.top;
        top.set(line, "index", index);
        top.set(line_of_listing, "listing", listing);
        top.explained(
            None,
            "dotfiles",
            "deny",
            "uhttpd sends files whose name begins with a dot. \"deny\" is safer.",
        );
        match self.given.iter().rev().find(|given| given.letter == 'S') {
            // Then uhttpd asks for the password of the path that a link leads to.
            Some(given) if !self.users.is_empty() => {
                top.set(given.line, "symlinks", "never");
                let what = "links within HOME are denied too, because they are ways around passwords";
                self.findings.note(given.line, what, "replace them by what they lead to");
            }
            Some(given) => top.set(given.line, "symlinks", "beneath"),
            None => {
                top.explained(None, "symlinks", "follow", "uhttpd follows every link. \"beneath\" is safer.")
            }
        }
        top.explained(None, "charset", false, "uhttpd names no charset.");
        let pairs: Vec<_> = types::differing().map(|(e, t)| (e.to_owned(), Value::from(t))).collect();
        if !pairs.is_empty() {
            top.set(None, "types", Value::Table(pairs));
        }
        let env = vec![("PATH".to_owned(), Value::from(SCRIPT_PATH))];
        top.set(None, "env", Value::Table(env));
        if let Some(given) = self.last('E') {
            match given.value.starts_with('/') {
                true => {
                    self.document.top.set(given.line, "fallback", given.value.as_str());
                    self.document.top.set(given.line, "fallback_for", "all");
                }
                false => {
                    let what = format!("{} is no path", given.value.escape_debug());
                    self.findings.error(given.line, what, "begin it with a slash");
                }
            }
        }
    }

    fn rules(&mut self) {
        if let Some(given) = self.last('R') {
            let mut keys = Keys::default();
            keys.set(given.line, "address", PRIVATE.map(str::to_owned).to_vec());
            keys.set(
                given.line,
                "server_address",
                PRIVATE.iter().map(|own| format!("!{own}")).collect::<Vec<_>>(),
            );
            keys.set(given.line, "then", "deny");
            self.document.section(given.line, "[[rule]]", keys);
        }
    }

    /// The index page of the root, where it lies in a folder below, such as the script of LuCI.
    fn index_page(&mut self) {
        let exists = |name: &str| self.disk.is_file(Path::new(&format!("{}/{name}", self.home)));
        let own = self.each('I').map(|given| (given.value.trim_start_matches('/'), given.line));
        let names: Vec<(&str, Option<u32>)> = own.chain(INDEX.map(|name| (name, None))).collect();
        let missing = names.iter().filter(|(name, _)| name.contains('/') && !exists(name));
        for (name, line) in missing {
            let what = format!("the index page /{} does not exist", name.escape_debug());
            self.findings.note(*line, what, "reload after you add it");
        }
        if let Some((name, line)) = names.into_iter().find(|(name, _)| exists(name))
            && name.contains('/')
        {
            let mut keys = Keys::default();
            keys.set(line, "path", "/.");
            keys.set(line, "rewrite", format!("/{}", name.replace('$', "$$")));
            self.document.section(line, "[[route]]", keys);
        }
    }

    fn routes(&mut self) {
        self.index_page();
        let protected = protected(self.users, &self.home, self.disk, &mut self.findings);
        let interpreters = self.interpreters();
        if protected.len() * (interpreters.len() + 1) > MAX_PATTERNS {
            self.findings.error(None, "there are too many protected paths", "name fewer of them");
            return;
        }
        for (path, users) in &protected {
            let Some(keys) = self.users_of(path, users) else {
                self.closed(path, users);
                continue;
            };
            if path == "/" {
                self.document.top.extend(keys);
                continue;
            }
            // Of two patterns with wildcards one counts, so that the first says all.
            for (extension, program, line) in &interpreters {
                let mut both = Keys::default();
                both.set(*line, "path", format!("{path}**{extension}"));
                both.set(*line, "interpreter", program.as_str());
                pass_on(&mut both);
                both.extend(keys.clone());
                self.document.section(*line, "[[route]]", both);
            }
            let mut own = Keys::default();
            own.set(users.first().and_then(|user| user.line), "path", format!("{path}**"));
            own.extend(keys);
            self.document.section(users.first().and_then(|user| user.line), "[[route]]", own);
        }
        for (extension, program, line) in &interpreters {
            let mut keys = Keys::default();
            keys.set(*line, "path", format!("*{extension}"));
            keys.set(*line, "interpreter", program.as_str());
            pass_on(&mut keys);
            self.document.section(*line, "[[route]]", keys);
        }
        let cgi = self.cgi();
        let mut keys = Keys::default();
        keys.set(self.last('x').and_then(|given| given.line), "path", format!("{cgi}/"));
        keys.set(None, "cgi", true);
        pass_on(&mut keys);
        self.document.section(self.last('x').and_then(|given| given.line), "[[route]]", keys);
        for given in self.each('y') {
            let (from, to) = given.value.split_once('=').unwrap_or((&given.value, &cgi));
            let (from, to) = (from.trim_end_matches('/'), to.trim_end_matches('/').replace('$', "$$"));
            if !from.starts_with('/') || !(to.is_empty() || to.starts_with('/')) || from.contains('$') {
                let what = format!("{} is no alias", given.value.escape_debug());
                self.findings.error(given.line, what, "write /alias=/cgi-bin, or /alias");
                continue;
            }
            for (path, to) in
                [(from.to_owned(), format!("{to}{from}")), (format!("{from}/"), format!("{to}{from}/$rest"))]
            {
                let mut keys = Keys::default();
                keys.set(given.line, "path", path);
                keys.set(given.line, "rewrite", to);
                self.document.section(given.line, "[[route]]", keys);
            }
        }
    }

    /// What is beneath it is run.
    fn cgi(&self) -> String {
        self.last('x').map_or(SCRIPTS, |given| given.value.as_str()).trim_end_matches('/').to_owned()
    }

    fn interpreters(&mut self) -> Vec<(String, String, Option<u32>)> {
        let mut found: Vec<(String, String, Option<u32>)> = Vec::new();
        for given in self.each('i') {
            match given.value.split_once('=') {
                Some((extension, program))
                    if extension.starts_with('.')
                        && !extension.contains(['/', '*', '?', '[', '{'])
                        && program.starts_with('/') =>
                {
                    if !found.iter().any(|(other, ..)| other == extension) {
                        found.push((extension.to_owned(), program.to_owned(), given.line));
                    }
                }
                _ => {
                    let what = format!("{} is no interpreter", given.value.escape_debug());
                    self.findings.error(given.line, what, "write .php=/usr/bin/php-cgi");
                }
            }
        }
        found
    }

    /// The keys for these users. `None`: one of them has no password that could be asked for.
    fn users_of(&mut self, path: &str, users: &[&User]) -> Option<Keys> {
        let line = users.first().and_then(|user| user.line);
        let mut keys = Keys::default();
        keys.set(line, "auth", "basic");
        let realm = self.last('r');
        keys.set(
            realm.and_then(|given| given.line),
            "realm",
            realm.map_or(REALM, |given| given.value.as_str()),
        );
        let (mut pairs, mut accounts) = (Vec::new(), BTreeSet::new());
        let mut is_plain = false;
        for user in users {
            match user.password.strip_prefix("$p$") {
                Some(account) if account == user.name => _ = accounts.insert(account),
                Some(account) => match self.hash_of(account) {
                    Some(hash) => pairs.push((user.name.clone(), Value::from(hash))),
                    None => {
                        let what =
                            format!("the password of the account {} cannot be read", account.escape_debug());
                        self.findings.warn(
                            user.line,
                            what,
                            "give the user the name of the account, or a hash",
                        );
                    }
                },
                None if user.password.is_empty() || user.name.is_empty() => {
                    let what = format!("{}: a user has no name or no password", path.escape_debug());
                    self.findings.warn(user.line, what, "write /path:user:password; uhttpd leaves it out");
                }
                None if is_crypt_hash(&user.password) => {
                    pairs.push((user.name.clone(), Value::from(user.password.as_str())));
                }
                None => {
                    is_plain = true;
                    pairs.push((user.name.clone(), Value::from(plain_field(&user.password))));
                }
            }
        }
        if pairs.is_empty() && accounts.is_empty() {
            return None;
        }
        let names = pairs.iter().map(|(name, _)| name.as_str()).chain(accounts.iter().copied());
        let required: Vec<String> = names.map(|name| format!("user:{name}")).collect();
        if !accounts.is_empty() {
            keys.set(line, "user_files", vec![SHADOW.to_owned()]);
        }
        if !pairs.is_empty() {
            keys.set(line, "users", Value::Table(pairs));
        }
        if is_plain {
            keys.set(line, "plain_passwords", true);
        }
        keys.set(line, "require", required);
        Some(keys)
    }

    /// The hash of an account's password.
    fn hash_of(&self, account: &str) -> Option<String> {
        let bytes = self.disk.read(Path::new(SHADOW)).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let line = text.lines().find(|line| line.split(':').next() == Some(account))?;
        line.split(':').nth(1).filter(|hash| hash.starts_with('$')).map(str::to_owned)
    }

    /// A path that was to be protected stays closed.
    fn closed(&mut self, path: &str, users: &[&User]) {
        let line = users.first().and_then(|user| user.line);
        let mut keys = Keys::default();
        let end = if path.ends_with('/') { "" } else { "**" };
        keys.set(line, "path", format!("{path}{end}"));
        keys.set(line, "then", "deny");
        self.document.section(line, "[[rule]]", keys);
        let what = format!("{} has no user with a password, so that it is denied", path.escape_debug());
        self.findings.warn(line, what, "add one; uhttpd leaves it open");
    }

    fn limits(&mut self) {
        let mut limits = Keys::default();
        let (keep, at_keep) = self.number('k', KEEP_TIME);
        if keep == 0 {
            limits.set(at_keep, "requests", 1);
        }
        let (connections, line) = self.number('N', MAX_CONNECTIONS);
        if connections > 0 {
            limits.explained(line, "connections", connections, "Of each worker.");
        }
        let mut scripts = Keys::default();
        take_any_body(&mut limits, &mut scripts, spool(None, self.disk, &mut self.findings));
        self.document.section(None, "[limits]", limits);
        let mut timeouts = Keys::default();
        let (network, line) = self.number('T', NETWORK_TIME);
        if network > 0 {
            for key in ["head", "body", "write"] {
                timeouts.set(line, key, network);
            }
        }
        if keep > 0 {
            timeouts.set(at_keep, "idle", keep);
        }
        self.document.section(None, "[timeouts]", timeouts);
        let (time, line) = self.number('t', SCRIPT_TIME);
        if time > 0 {
            for key in ["first_byte", "idle", "wait"] {
                scripts.set(line, key, time);
            }
        }
        let (processes, line) = self.number('n', MAX_SCRIPTS);
        if processes > 0 {
            scripts.set(line, "processes", processes);
        }
        allow_as_before(&mut scripts, Account::Root);
        self.document.section(None, "[scripts]", scripts);
    }

    fn logs(&mut self) {
        let mut keys = Keys::default();
        keys.set(None, "error", if self.last('f').is_some() { "stderr" } else { "syslog" });
        self.document.section(None, "[log]", keys);
    }

    /// What has no effect, or cannot be converted.
    fn report(&mut self) {
        self.report_handlers();
        if let Some(given) = self.last('u') {
            let what = format!("{}: there is no JSON-RPC for ubus", given.value.escape_debug());
            self.findings.error(
                given.line,
                what,
                "remove it, or have uhttpd serve it at an address of its own and add a proxy",
            );
        }
        for given in self.each('H') {
            let is_empty = || self.disk.read(Path::new(&given.value)).is_ok_and(|bytes| bytes.is_empty());
            if given.line.is_some() && (!self.disk.is_file(Path::new(&given.value)) || is_empty()) {
                let what = format!("{}: there is no such file, or it is empty", given.value.escape_debug());
                self.findings.note(given.line, what, SKIPPED);
                continue;
            }
            let what = format!("{}: JSON scripts cannot be run", given.value.escape_debug());
            self.findings.error(given.line, what, "write its redirects and rewrites as routes");
        }
        self.note_needless();
    }

    /// Lua and ucode, which uhttpd runs itself.
    fn report_handlers(&mut self) {
        let home = self.home.clone();
        for given in self.each('l').chain(self.each('o')) {
            let (prefix, program) = given.value.split_once('=').unwrap_or((&given.value, ""));
            let (kind, needs_program) = if given.letter == 'l' { ("Lua", 'L') } else { ("ucode", 'O') };
            if program.is_empty() && self.last(needs_program).is_none() {
                let what = format!("{} has no script of {kind}, and so no effect", prefix.escape_debug());
                self.findings.note(given.line, what, "remove it");
                continue;
            }
            let program = self.last(needs_program).map_or(program, |last| match program {
                "" => last.value.as_str(),
                own => own,
            });
            if given.line.is_some() && !self.disk.is_file(Path::new(program)) {
                let (prefix, program) = (prefix.escape_debug(), program.escape_debug());
                self.findings.note(given.line, format!("{prefix}: there is no {program}"), SKIPPED);
                continue;
            }
            let prefix = prefix.trim_end_matches('/');
            let cgi = self.cgi();
            let is_script = prefix.starts_with(&format!("{cgi}/"))
                && self.disk.is_file(Path::new(&format!("{home}{prefix}")));
            match is_script {
                true => {
                    let what = format!(
                        "{}: the program of this path responds in place of {kind}",
                        prefix.escape_debug()
                    );
                    self.findings.note(given.line, what, "nothing to do: it is the same as CGI");
                }
                false => {
                    let what = format!("{}: {kind} cannot be run in the server", prefix.escape_debug());
                    self.findings.error(
                        given.line,
                        what,
                        "make a CGI script of it, in the folder of scripts",
                    );
                }
            }
        }
    }

    fn note_needless(&mut self) {
        for (letter, what) in [
            ('A', "TCP keep-alive has no effect: a connection without progress ends by its timeouts"),
            ('L', "the script of Lua has no effect without its prefix"),
            ('O', "the script of ucode has no effect without its prefix"),
            ('P', "the ciphers of TLS are those of the server"),
            ('U', "the socket of ubus has no effect"),
            ('a', "passwords of ubus have no effect"),
            ('X', "fields for other origins are only for ubus, and have no effect"),
        ] {
            let has_prefix = match letter {
                'L' => self.last('l').is_some(),
                'O' => self.last('o').is_some(),
                _ => false,
            };
            if let Some(given) = self.last(letter).filter(|_| !has_prefix) {
                self.findings.note(given.line, what, "remove it");
            }
        }
        if self.last('q').is_some() && self.last('s').is_none() {
            let line = self.last('q').and_then(|given| given.line);
            self.findings.note(
                line,
                "the redirect to HTTPS has no effect without an address for HTTPS",
                "remove it",
            );
        }
    }
}
