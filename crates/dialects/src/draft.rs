//! A web server's configuration in the words of this one, while a reader of another server's puts it together: hosts,
//! their routes, and upstreams. Knows no dialect.

mod exceptions;
mod handlers;
mod loops;
mod ports;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use site::network::{Network, NetworkError};
use site::utf8;

use crate::Conversion;
use crate::brackets;
use crate::disk::Disk;
use crate::document::{Document, Keys, Value};
use crate::finding::Findings;
use crate::regex::Wider;
use crate::scripts::ALLOWED;
use crate::tree::Place;
use crate::words;

use exceptions::except_no_folders;
pub use exceptions::takes_folders;
pub use handlers::with_ends;

/// Routes of a host, and hosts.
const MAX_ROUTES: usize = 1000;
/// No more are made: a host with so many routes is refused.
pub const TOO_MANY_ROUTES: usize = 2 * MAX_ROUTES;
/// Pairs of a table, such as types of media or fields.
const MAX_PAIRS: usize = 4000;
/// Upstreams of a site.
const MAX_APPLICATIONS: usize = 64;

/// Keys about users.
pub const PROTECTION: [&str; 15] = [
    "auth",
    "realm",
    "user_files",
    "users",
    "group_files",
    "groups",
    "require",
    "satisfy",
    "plain_passwords",
    "authorizer",
    "authorizer_path",
    "authorizer_fields",
    "authorizer_user",
    "authorizer_response_fields",
    "authorizer_login",
];

/// What a route responds with, if it sends no files.
pub const WAYS: [&str; 7] = ["return", "redirect", "rewrite", "respond", "monitor", "proxy", "application"];
/// Keys of an `[[application]]` that differ where its processes do.
const UPSTREAM: [&str; 7] = ["address", "command", "env", "processes", "protocol", "balance", "http2"];
/// Keys of a route whose files are run.
pub const HANDLERS: [&str; 3] = ["interpreter", "cgi", "application"];

/// The keys of a section, each at most once, with the rules and limits that belong to it.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    pub line: Option<u32>,
    keys: Vec<Key>,
    pub rules: Vec<Scope>,
    pub limits: Vec<Scope>,
    /// A table had more pairs than it may have.
    is_overfull: bool,
}

#[derive(Debug, Clone)]
struct Key {
    line: Option<u32>,
    name: String,
    value: Value,
    comment: Option<&'static str>,
}

impl Scope {
    pub fn new(line: u32) -> Scope {
        Scope { line: Some(line), ..Scope::default() }
    }

    /// The last value counts.
    pub fn set(&mut self, place: &Place, name: &str, value: impl Into<Value>) {
        self.put(Some(place.line), name, value.into(), None);
    }

    /// What the other server does without a directive.
    pub fn preset(&mut self, name: &str, value: impl Into<Value>, comment: &'static str) {
        if self.get(name).is_none() {
            self.put(None, name, value.into(), Some(comment));
        }
    }

    fn put(&mut self, line: Option<u32>, name: &str, value: Value, comment: Option<&'static str>) {
        let key = Key { line, name: name.to_owned(), value, comment };
        match self.keys.iter_mut().find(|key| key.name == name) {
            Some(old) => *old = key,
            None => self.keys.push(key),
        }
    }

    /// Whether it sets nothing.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.rules.is_empty() && self.limits.is_empty()
    }

    /// The pattern of a route. Empty: it is no route.
    pub fn path(&self) -> &str {
        self.text("path").unwrap_or_default()
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.keys.iter().find(|key| key.name == name).map(|key| &key.value)
    }

    /// Where the other server says this key.
    pub fn line_of(&self, name: &str) -> Option<u32> {
        self.keys.iter().find(|key| key.name == name).and_then(|key| key.line)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn remove(&mut self, name: &str) {
        self.keys.retain(|key| key.name != name);
    }

    /// Adds a pair to a table. The last value of a name counts.
    pub fn pair(&mut self, place: &Place, table: &str, name: &str, value: impl Into<Value>) {
        if self.pairs(table).len() >= MAX_PAIRS {
            self.is_overfull = true;
            return;
        }
        let old = self.keys.iter_mut().find(|key| key.name == table).map(|key| &mut key.value);
        let mut pairs = match old {
            Some(Value::Table(pairs)) => std::mem::take(pairs),
            _ => Vec::new(),
        };
        pairs.retain(|(old, _)| !old.eq_ignore_ascii_case(name));
        pairs.push((name.to_owned(), value.into()));
        self.set(place, table, Value::Table(pairs));
    }

    /// Removes a pair of a table, and a table without pairs.
    pub fn unpair(&mut self, table: &str, name: &str) {
        let old = self.keys.iter_mut().find(|key| key.name == table).map(|key| &mut key.value);
        if let Some(Value::Table(pairs)) = old {
            pairs.retain(|(old, _)| !old.eq_ignore_ascii_case(name));
        }
        self.keys.retain(|key| key.name != table || key.value != Value::Table(Vec::new()));
    }

    pub fn pairs(&self, table: &str) -> &[(String, Value)] {
        match self.get(table) {
            Some(Value::Table(pairs)) => pairs,
            _ => &[],
        }
    }

    /// Takes what the other has and this one does not.
    pub fn inherit(&mut self, other: &Scope) {
        for key in &other.keys {
            if self.get(&key.name).is_none() {
                self.keys.push(key.clone());
            }
        }
        self.rules.extend(other.rules.iter().cloned());
        self.limits.extend(other.limits.iter().cloned());
    }

    /// Takes the keys of the other, also in place of its own.
    pub fn replace(&mut self, other: &Scope) {
        for key in &other.keys {
            self.put(key.line, &key.name, key.value.clone(), key.comment);
        }
    }

    /// What differs from the other.
    pub fn without(mut self, other: &Scope) -> Scope {
        self.keys.retain(|key| match other.get(&key.name) {
            Some(value) => *value != key.value,
            None => key.name != "auth" || key.value != "off".into(),
        });
        if self.has_rules_of(other) {
            self.rules.clear();
        }
        self
    }

    pub fn has_rules_of(&self, other: &Scope) -> bool {
        values(&self.rules) == values(&other.rules)
    }

    /// The first key that differs from the other scope, besides those that are left out.
    pub fn differs_from<'s>(&'s self, other: &'s Scope, left_out: &[&str]) -> Option<&'s str> {
        let names = self.keys.iter().chain(&other.keys).map(|key| key.name.as_str());
        let mut names = names.filter(|name| !left_out.contains(name));
        let name = names.find(|name| self.get(name) != other.get(name));
        match name {
            None if !self.has_rules_of(other) => Some("rule"),
            None if values(&self.limits) != values(&other.limits) => Some("limit"),
            name => name,
        }
    }

    /// What protects, apart from the rest.
    pub fn split(mut self) -> (Scope, Scope) {
        let mut protection = Scope { line: self.line, ..Scope::default() };
        protection.rules = std::mem::take(&mut self.rules);
        protection.limits = std::mem::take(&mut self.limits);
        let is_protection = |key: &Key| PROTECTION.contains(&key.name.as_str());
        (protection.keys, self.keys) = std::mem::take(&mut self.keys).into_iter().partition(is_protection);
        (self, protection)
    }

    /// It denies, asks for a password, or limits something.
    pub fn protects(&self) -> bool {
        let is_denied = matches!(self.get("return"), Some(Value::Integer(400..)));
        let asks = ["auth", "require", "authorizer"].iter().any(|name| self.get(name).is_some());
        is_denied || asks || !self.rules.is_empty() || !self.limits.is_empty()
    }

    /// Whether it is a rule without conditions that denies.
    pub fn denies_all(&self) -> bool {
        matches!(self.keys.as_slice(), [key] if key.name == "then" && key.value == "deny".into())
    }

    /// Whether a program runs its files.
    pub fn runs(&self) -> bool {
        HANDLERS.iter().any(|name| self.get(name).is_some())
    }

    /// What runs its files.
    pub fn handler(&self) -> Scope {
        let keys = self.keys.iter().filter(|key| HANDLERS.contains(&key.name.as_str())).cloned().collect();
        Scope { keys, ..Scope::default() }
    }

    /// Writes the networks of a key without the bits that no network has: `10.0.0.1/8` as `10.0.0.0/8`.
    fn mask_networks(&mut self, name: &str) {
        let masked = |text: &mut String| {
            let sign = if text.starts_with('!') { "!" } else { "" };
            if let Err(NetworkError::HostBits(network, bits)) = Network::parse(&text[sign.len()..]) {
                *text = format!("{sign}{network}/{bits}");
            }
        };
        match self.keys.iter_mut().find(|key| key.name == name).map(|key| &mut key.value) {
            Some(Value::Text(text)) => masked(text),
            Some(Value::Texts(all)) => all.iter_mut().for_each(masked),
            _ => {}
        }
    }

    /// Where the other server says it.
    pub fn place(&self) -> Place {
        Place::at(self.line.unwrap_or(1))
    }

    /// Whether it has a response of its own, and does not serve files.
    pub fn responds(&self) -> bool {
        WAYS.iter().any(|way| self.get(way).is_some())
    }

    fn keys(&self) -> Keys {
        let mut keys = Keys::default();
        for key in &self.keys {
            match key.comment {
                Some(comment) => keys.explained(key.line, &key.name, key.value.clone(), comment),
                None => keys.set(key.line, &key.name, key.value.clone()),
            }
        }
        keys
    }

    /// `[[host.route]]` and what belongs to it.
    fn write(&self, header: &str, document: &mut Document) {
        document.section(self.line, &format!("[[{header}]]"), self.keys());
        self.write_rules(&format!("{header}."), document);
    }

    fn write_rules(&self, before: &str, document: &mut Document) {
        for rule in &self.rules {
            document.section(rule.line, &format!("[[{before}rule]]"), rule.keys());
        }
        for limit in &self.limits {
            document.section(limit.line, &format!("[[{before}limit]]"), limit.keys());
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// As in `listen`, without words behind it.
    pub address: String,
    pub tls: bool,
    pub proxy: bool,
}

/// Whether a route runs files in some way.
pub type IsRun = fn(&Scope) -> bool;

/// A virtual host.
#[derive(Debug, Clone, Default)]
pub struct Host {
    pub scope: Scope,
    pub names: Vec<String>,
    pub listens: Vec<Listen>,
    pub routes: Vec<Scope>,
    pub is_default: bool,
    /// Patterns of files that are not sent, unless a route runs them.
    pub unsent: Vec<(String, Place)>,
    /// Paths whose files nothing runs that does so elsewhere.
    pub unrun: Vec<(String, Place, IsRun)>,
    /// Paths that lead elsewhere before any other route is looked for.
    pub first: Vec<String>,
    /// It does nothing but redirect to the same URL with `https`, and serve challenges of authorities.
    pub is_to_https: bool,
    /// The name that it redirects to, if that is not the requested one.
    pub https_name: Option<String>,
    /// The status of that, if it is not 301.
    pub https_status: Option<i64>,
    /// The status of redirects that name none, if it is not 301.
    pub redirect_status: Option<i64>,
}

impl Host {
    /// The route of this pattern, the same one each time.
    pub fn route(&mut self, path: &str, place: &Place) -> &mut Scope {
        let at = self.routes.iter().position(|route| route.text("path") == Some(path));
        let at = at.unwrap_or_else(|| {
            let mut route = Scope::new(place.line);
            route.set(place, "path", path);
            self.routes.push(route);
            self.routes.len() - 1
        });
        &mut self.routes[at]
    }

    /// Redirects `/a` to `/a/` where an upstream responds for `/a/`. It would have the path of the folder otherwise.
    pub fn redirect_to_folders(&mut self, status: i64) {
        let mut at = 0;
        while let Some(route) = self.routes.get(at) {
            at += 1;
            let is_upstream = route.get("proxy").is_some() || route.get("application").is_some();
            let Some(folder) = route.text("path").filter(|path| is_upstream && !path.contains('$')) else {
                continue;
            };
            let Some(path) = folder.strip_suffix('/').filter(|path| !path.is_empty()) else { continue };
            if self.routes.iter().any(|route| route.text("path") == Some(path)) {
                continue;
            }
            let place = route.place();
            let mut redirect = Scope::new(place.line);
            redirect.set(&place, "path", path);
            redirect.set(&place, "redirect", format!("{folder}$query"));
            redirect.set(&place, "status", status);
            self.routes.insert(at, redirect);
            at += 1;
        }
    }

    pub fn is_secure(&self) -> bool {
        self.listens.iter().any(|listen| listen.tls)
    }

    /// Whether it has a port of all addresses.
    pub fn is_on_all_addresses(&self) -> bool {
        self.listens.iter().any(|listen| is_wildcard(&listen.address))
    }
}

#[derive(Debug, Default)]
pub struct Draft {
    pub top: Scope,
    pub hosts: Vec<Host>,
    pub applications: Vec<Scope>,
    pub tls: Scope,
    pub certificates: Scope,
    pub limits: Scope,
    pub timeouts: Scope,
    pub scripts: Scope,
    pub log: Scope,
    pub findings: Findings,
}

impl Draft {
    pub fn error(&mut self, place: &Place, what: impl AsRef<str>, what_to_do: &str) {
        self.findings.error(Some(place.line), located(place, what.as_ref()), what_to_do);
    }

    pub fn warn(&mut self, place: &Place, what: impl AsRef<str>, what_to_do: &str) {
        self.findings.warn(Some(place.line), located(place, what.as_ref()), what_to_do);
    }

    pub fn note(&mut self, place: &Place, what: impl AsRef<str>, what_to_do: &str) {
        self.findings.note(Some(place.line), located(place, what.as_ref()), what_to_do);
    }

    /// A file as a text. Reports the first character that is not UTF-8 and not in a comment.
    pub fn text<'b>(&mut self, bytes: &'b [u8], place: &dyn Fn(u32) -> Place) -> Cow<'b, str> {
        if let Some(error) = words::not_utf8(bytes) {
            self.error(&place(error.line), error.to_string(), utf8::WHAT_TO_DO);
        }
        String::from_utf8_lossy(bytes)
    }

    /// The files of a pattern. Reports a folder that cannot be read, because a rule may stand in a file that is left
    /// out.
    pub fn files(&mut self, disk: &dyn Disk, pattern: &Path, place: &Place) -> Vec<PathBuf> {
        disk.expand(pattern).unwrap_or_else(|error| {
            let what = format!("the files {} cannot be listed: {error}", pattern.display());
            self.error(place, what, "check the permissions of their folder");
            Vec::new()
        })
    }

    /// The name of an upstream with these keys, which is `wanted` or begins with it.
    pub fn application(&mut self, wanted: &str, keys: Scope) -> String {
        let same = |old: &&Scope| {
            UPSTREAM.iter().all(|name| old.get(name) == keys.get(name))
                && old.text("name").is_some_and(|name| name.starts_with(wanted))
        };
        let known = self.applications.iter().find(same).and_then(|old| old.text("name")).map(str::to_owned);
        known.unwrap_or_else(|| self.new_application(wanted, keys))
    }

    /// As `application`, for an upstream that is the same only with all of its keys, such as its timeouts and whether its
    /// certificate is verified.
    pub fn application_of_keys(&mut self, wanted: &str, keys: Scope) -> String {
        let same = |old: &&Scope| {
            old.differs_from(&keys, &["name"]).is_none()
                && old.text("name").is_some_and(|name| name.starts_with(wanted))
        };
        let known = self.applications.iter().find(same).and_then(|old| old.text("name")).map(str::to_owned);
        known.unwrap_or_else(|| self.new_application(wanted, keys))
    }

    fn new_application(&mut self, wanted: &str, mut keys: Scope) -> String {
        let is_taken = |name: &str| self.applications.iter().any(|old| old.text("name") == Some(name));
        let numbered =
            |number: usize| if number == 1 { wanted.to_owned() } else { format!("{wanted}-{number}") };
        let name = (1..=MAX_ROUTES).map(numbered).find(|name| !is_taken(name)).unwrap_or_default();
        let line = keys.line.unwrap_or(1);
        keys.set(&Place::at(line), "name", name.as_str());
        self.applications.push(keys);
        name
    }

    /// The other server has the time of the machine in its access logs, if it has one.
    pub fn log_in_local_time(&mut self, comment: &'static str) {
        let mut of_hosts = self.hosts.iter().filter_map(|host| host.scope.text("access_log"));
        if self.log.text("access").is_some() || of_hosts.next().is_some() {
            self.log.preset("timezone", "local", comment);
        }
    }

    /// The other server takes nothing from its scripts, if it has some.
    pub fn allow_scripts_as_before(&mut self, comment: &'static str) {
        let mut routes = self.hosts.iter().flat_map(|host| &host.routes);
        if routes.any(|route| route.get("cgi") == Some(&true.into())) {
            ALLOWED.into_iter().for_each(|key| self.scripts.preset(key, true, comment));
        }
    }

    /// What has rules: routes, hosts, and what is around them.
    fn scopes_mut(&mut self) -> impl Iterator<Item = &mut Scope> {
        let of_hosts = self.hosts.iter_mut().flat_map(|host| host.routes.iter_mut().chain([&mut host.scope]));
        of_hosts.chain([&mut self.top])
    }

    /// Other servers leave out the bits of an address that are not of its network.
    fn mask_networks(&mut self) {
        self.top.mask_networks("trusted_proxies");
        let rules = self.scopes_mut().flat_map(|scope| &mut scope.rules);
        rules.for_each(|rule| rule.mask_networks("address"));
    }

    /// What is excepted from a denial is no folder.
    fn except_no_folders(&mut self) {
        let scopes = self.scopes_mut();
        let open: Vec<_> = scopes.flat_map(|scope| except_no_folders(&mut scope.rules)).collect();
        for (place, glob) in open {
            let what =
                format!("the exception {} would be for folders of such names, too", brackets::shown(&glob));
            self.error(&place, what, "write a [[rule]] with the paths that are meant");
        }
    }

    /// The text. `server` is the name of the other server.
    pub fn written(mut self, file: PathBuf, server: &str) -> Conversion {
        ports::merge(&mut self.hosts, &mut self.findings);
        self.hosts.iter_mut().for_each(Host::deny_folders);
        self.except_no_folders();
        self.end_redirects();
        self.mask_networks();
        self.check_counts();
        let mut document = Document::default();
        let listens = self.listens();
        self.top.put(None, "listen", Value::Texts(listens), None);
        self.order_hosts();
        document.top = self.top.keys();
        self.top.write_rules("", &mut document);
        let sections = [
            ("[limits]", &self.limits),
            ("[timeouts]", &self.timeouts),
            ("[tls]", &self.tls),
            ("[certificates]", &self.certificates),
            ("[scripts]", &self.scripts),
            ("[log]", &self.log),
        ];
        for (header, scope) in sections {
            document.section(None, header, scope.keys());
        }
        for application in &self.applications {
            let mut plain = application.clone();
            let health: Vec<(String, Value)> = plain.pairs("health").to_vec();
            plain.remove("health");
            document.section(plain.line, "[[application]]", plain.keys());
            let mut keys = Keys::default();
            for (name, value) in health {
                keys.set(plain.line, &name, value);
            }
            document.section(plain.line, "[application.health]", keys);
        }
        for host in &self.hosts {
            host.scope.write("host", &mut document);
            for route in &host.routes {
                route.write("host.route", &mut document);
            }
        }
        document.conversion(file, server, self.findings)
    }

    fn check_counts(&mut self) {
        let too_many = self.hosts.len() > MAX_ROUTES
            || self.applications.len() > MAX_APPLICATIONS
            || self.hosts.iter().any(|host| host.routes.len() > MAX_ROUTES);
        if too_many {
            let what = "there are more than 1000 hosts, 1000 routes of a host, or 64 upstreams";
            self.findings.error(None, what, "make several configurations of it");
        }
        let of_hosts = self.hosts.iter().flat_map(|host| host.routes.iter().chain([&host.scope]));
        if let Some(scope) = of_hosts.chain([&self.top]).find(|scope| scope.is_overfull) {
            let what = format!("there are more than {MAX_PAIRS} types, fields or variables");
            self.findings.error(scope.line, what, "write fewer");
        }
    }

    fn listens(&mut self) -> Vec<String> {
        let mut all: Vec<Listen> = Vec::new();
        let mut mixed = Vec::new();
        for host in &self.hosts {
            for listen in &host.listens {
                match all.iter().find(|other| other.address == listen.address) {
                    None => all.push(listen.clone()),
                    Some(other) if other.tls != listen.tls => mixed.push(listen.address.clone()),
                    Some(_) => {}
                }
            }
        }
        for address in mixed {
            let what = format!("{address} is used with TLS and without");
            self.findings.error(None, what, "decide for one of them");
        }
        let word = |is_set: bool, word: &str| if is_set { word.to_owned() } else { String::new() };
        all.iter()
            .map(|listen| {
                format!("{}{}{}", listen.address, word(listen.tls, " tls"), word(listen.proxy, " proxy"))
            })
            .collect()
    }

    /// Names and addresses of hosts, the default one first.
    fn order_hosts(&mut self) {
        if let Some(at) = self.hosts.iter().position(|host| host.is_default) {
            let host = self.hosts.remove(at);
            self.hosts.insert(0, host);
        } else if let Some(at) = self.hosts.iter().position(|host| host.names.is_empty()) {
            let host = self.hosts.remove(at);
            self.hosts.insert(0, host);
        }
        let sorted = |host: &Host| {
            let mut addresses: Vec<String> =
                host.listens.iter().map(|listen| listen.address.clone()).collect();
            addresses.sort();
            addresses.dedup();
            addresses
        };
        let differ = self.hosts.windows(2).any(|pair| sorted(&pair[0]) != sorted(&pair[1]));
        let mut seen: Vec<(Vec<String>, String)> = Vec::new();
        let mut reported = Vec::new();
        let all: Vec<String> = self.hosts.iter().flat_map(sorted).collect();
        for (at, host) in self.hosts.iter_mut().enumerate() {
            let line = host.scope.line;
            let mut addresses = sorted(host);
            if differ && addresses.iter().any(|address| is_wildcard(address)) {
                // A host can have addresses of its own, but not a port of all addresses.
                let (what, what_to_do) = (
                    "this host responds on every address and port of `listen`",
                    "let each host have a name, or addresses, of its own",
                );
                match is_private(&addresses, &all) {
                    true => self.findings.error(line, what, what_to_do),
                    false => self.findings.warn(line, what, what_to_do),
                }
                addresses.clear();
            }
            let names = host.names.clone();
            host.names.retain(|name| !seen.contains(&(addresses.clone(), name.clone())));
            host.names.dedup();
            let lost = names.iter().filter(|name| !host.names.contains(name)).cloned();
            reported.extend(lost.map(|name| (line, format!("{name} has a host already"))));
            let nameless = (addresses.clone(), String::new());
            if host.names.is_empty() && (seen.contains(&nameless) || (at > 0 && !differ)) {
                reported.push((line, "a further host without a name is never found".to_owned()));
            }
            seen.push(nameless);
            seen.extend(host.names.iter().map(|name| (addresses.clone(), name.clone())));
            if differ && !addresses.is_empty() {
                host.scope.put(line, "addresses", Value::Texts(addresses), None);
            }
            if !host.names.is_empty() {
                host.scope.put(line, "names", Value::Texts(host.names.clone()), None);
            }
            if at == 0 {
                host.scope.put(line, "default", true.into(), None);
            }
        }
        for (line, what) in reported {
            self.findings.error(line, what, "give each host names of its own");
        }
    }
}

/// Reports that `text` denies paths by patterns that find more of them. Where it excepts paths, these have to be named.
pub fn denied_more(text: &str, wider: &Wider, place: &Place, draft: &mut Draft) {
    let paths = wider.patterns.join(" ");
    match wider.excepts {
        true => draft.error(
            place,
            format!("{text}: what it excepts is denied, too: {paths}"),
            "write routes in front of these for the paths that it excepts, or leave them denied",
        ),
        false => draft.warn(
            place,
            format!("{text} denies more paths: {paths}"),
            "write patterns of its paths alone, if the others are needed",
        ),
    }
}

/// Whether a host would be found on a port that it is not meant for: its own port may be behind a firewall.
fn is_private(own: &[String], all: &[String]) -> bool {
    let port = |address: &String| address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let is_public = own.iter().filter_map(port).any(|port| port == 80 || port == 443);
    !is_public && all.iter().any(|other| !own.iter().any(|address| port(address) == port(other)))
}

/// The keys of rules or limits, in their order.
fn values(all: &[Scope]) -> Vec<Vec<(&str, &Value)>> {
    all.iter().map(|one| one.keys.iter().map(|key| (key.name.as_str(), &key.value)).collect()).collect()
}

/// `0.0.0.0:80` or `[::]:80`.
fn is_wildcard(address: &str) -> bool {
    let parsed = address.parse::<std::net::SocketAddr>();
    parsed.is_ok_and(|address| address.ip().is_unspecified())
}

fn located(place: &Place, what: &str) -> String {
    match &place.inside {
        Some(inside) => format!("{inside}: {what}"),
        None => what.to_owned(),
    }
}
