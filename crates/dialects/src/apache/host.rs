//! What a server or a `<VirtualHost>` becomes: its folders, locations and files are merged in Apache's order for each
//! prefix of paths that one of them speaks of.

mod access_files;
mod aliases;
mod before_files;
mod folder_patterns;
mod index_files;
mod named_files;
mod needless;
mod overlaps;
mod passes;
mod programs;
mod routes;
mod still_closed;

use std::cell::RefCell;

use crate::brackets::is_glob;
use crate::disk::Disk;
use crate::draft::{Draft, Host, Scope};
use crate::pattern;
use crate::regex;
use crate::tree::{Directive, Place, unconverted};

use super::context::{Context, Reading};
use super::names::OF_TLS;
use super::paths;
use super::proxy::Balancers;
use super::read::Reader;
use super::rewrite::redirect_matches;

pub struct World<'w, 'r> {
    pub disk: &'w dyn Disk,
    pub reader: &'w RefCell<Reader<'r>>,
    pub balancers: &'w Balancers,
    /// Makes a path absolute.
    pub path: &'w dyn Fn(&str) -> String,
}

/// A prefix of paths, and the folder that it leads to.
struct Tree {
    url: String,
    folder: String,
    runs_scripts: bool,
    place: Place,
}

/// The folder that an alias gives to a prefix.
struct AliasFolder {
    folder: String,
    runs_scripts: bool,
    is_missing: bool,
    /// It is a file of the folder.
    is_file: bool,
}

/// A path that leads to one file.
struct Single {
    url: String,
    file: String,
    place: Place,
    /// It is a program that responds, also for all paths below. Otherwise, its own path ends with that of the URL.
    is_program: bool,
}

enum Paths {
    /// Without a slash at its end.
    Prefix(String),
    Patterns(Vec<String>),
}

pub struct Site<'s> {
    world: &'s World<'s, 's>,
    pub host: Host,
    server: Context,
    trees: Vec<Tree>,
    folders: Vec<(String, Context)>,
    /// `<DirectoryMatch>`
    sections: Vec<folder_patterns::Section>,
    /// What they say about paths, which comes before files and locations.
    matched: Vec<(Paths, Context, Place)>,
    locations: Vec<(Paths, Context, Place)>,
    /// Their paths, and the directives: they are no files.
    passes: Vec<(String, Directive)>,
    /// Their paths outside of locations.
    passed: Vec<String>,
    /// Prefixes of redirects, which precede folders.
    redirects: Vec<String>,
    /// Paths of redirects outside of folders, which precede access.
    leading: Vec<(String, Place)>,
    /// Paths of single files and programs.
    singles: Vec<Single>,
    /// `ProxyPassMatch` with a program that runs files.
    programs: Vec<(Vec<String>, Context, Place)>,
    /// Patterns of files that no program runs.
    unhandled: Vec<(String, Place)>,
    /// Patterns of files that are no scripts of CGI.
    without_cgi: Vec<(String, Place)>,
    has_root_alias: bool,
    preserves_host: bool,
    /// Where encoded slashes are allowed.
    encoded_slashes: Option<Place>,
    access_file: String,
}

impl<'s> Site<'s> {
    pub fn new(place: &Place, world: &'s World<'s, 's>) -> Site<'s> {
        Site {
            world,
            host: Host { scope: Scope::new(place.line), ..Host::default() },
            server: Context::new(place),
            trees: Vec::new(),
            folders: Vec::new(),
            sections: Vec::new(),
            matched: Vec::new(),
            locations: Vec::new(),
            passes: Vec::new(),
            passed: Vec::new(),
            redirects: Vec::new(),
            leading: Vec::new(),
            singles: Vec::new(),
            programs: Vec::new(),
            unhandled: Vec::new(),
            without_cgi: Vec::new(),
            has_root_alias: false,
            preserves_host: false,
            encoded_slashes: None,
            access_file: ".htaccess".to_owned(),
        }
    }

    /// `false`: it is no directive of a host.
    pub fn add(&mut self, directive: &Directive, draft: &mut Draft) -> bool {
        let place = &directive.place;
        let first = directive.argument(0);
        let reading = Reading { path: self.world.path, overrides: None };
        match directive.name.as_str() {
            "servername" => {
                let name = first.rsplit("://").next().unwrap_or(first);
                let name = name.split(':').next().unwrap_or(name).to_lowercase();
                self.host.names.insert(0, name);
            }
            "serveralias" => self.add_names(directive, draft),
            "serveradmin" => self.server.keys.pair(place, "env", "SERVER_ADMIN", first),
            // An alias of everything precedes it.
            "documentroot" if self.has_root_alias => {}
            "documentroot" => {
                let folder = paths::folder(&(self.world.path)(first)).to_owned();
                self.trees.retain(|tree| tree.url != "/");
                self.trees.push(Tree { url: "/".into(), folder, runs_scripts: false, place: place.clone() });
            }
            "alias" | "scriptalias" | "aliasmatch" | "scriptaliasmatch" => self.alias(directive, draft),
            "directorymatch" if self.add_folder_patterns(directive) => {}
            "directory" if first == "~" && self.add_folder_patterns(directive) => {}
            "directorymatch" => self.unknown(directive, &reading, draft),
            "directory" if first.contains(['*', '?', '[', '~']) => self.unknown(directive, &reading, draft),
            "directory" => {
                let children = self.without_redirects(directive.children(), draft);
                let context = Context::read(&children, place, &reading, draft);
                self.folders.push((paths::folder(&(self.world.path)(first)).to_owned(), context));
            }
            "location" | "locationmatch" => self.location(directive, &reading, draft),
            // The first one that matches counts.
            "proxypass" | "proxypassmatch" if self.is_hidden(directive) => {
                draft.warn(place, unconverted(directive), "an earlier ProxyPass is for these paths");
            }
            "proxypass" | "proxypassmatch" => {
                if directive.name == "proxypass" {
                    self.passed.push(first.to_owned());
                }
                self.passes.push((String::new(), directive.clone()));
            }
            "proxypreservehost" => self.preserves_host = first.eq_ignore_ascii_case("on"),
            "allowencodedslashes" => {
                let is_off = first.eq_ignore_ascii_case("off");
                self.encoded_slashes = (!is_off).then(|| place.clone());
            }
            "proxyrequests" if first.eq_ignore_ascii_case("off") => {}
            "proxy" | "proxymatch" => self.proxy_section(directive, draft),
            "redirect" | "redirectpermanent" | "redirecttemp" | "redirectmatch" => {
                self.redirect(directive, draft)
            }
            "userdir" if first.eq_ignore_ascii_case("disabled") => {}
            "userdir" if directive.arguments.len() == 1 && !first.contains(['/', '*']) => {
                self.host.scope.set(place, "user_folders", first);
            }
            "accessfilename" if directive.arguments.len() == 1 => first.clone_into(&mut self.access_file),
            "customlog" | "transferlog" => self.log(directive, draft),
            name if name.starts_with("ssl") && name != "sslrequiressl" => return self.tls(directive, draft),
            _ => return self.server.add(directive, &reading, draft),
        }
        true
    }

    /// `ServerAlias`.
    fn add_names(&mut self, directive: &Directive, draft: &mut Draft) {
        for name in &directive.arguments {
            match is_glob(name.trim_start_matches("*.")) {
                true => {
                    let what = format!("the name {name} cannot be converted");
                    draft.error(&directive.place, what, "write the names");
                }
                false => self.host.names.push(name.to_lowercase()),
            }
        }
    }

    fn location(&mut self, directive: &Directive, reading: &Reading, draft: &mut Draft) {
        let first = directive.argument(0);
        let matches = directive.name == "locationmatch";
        if !matches && first != "~" && !first.contains(['*', '?', '[']) {
            let children = without(directive.children(), is_located);
            let context = Context::read_without_rewrites(&children, &directive.place, reading, draft);
            let prefix = Paths::Prefix(paths::folder(first).to_owned());
            self.locations.push((prefix, context, directive.place.clone()));
            return self.located(directive, first, draft);
        }
        match paths::expression(directive.arguments.last().map_or("", String::as_str)) {
            Some(patterns) if first == "~" || matches => {
                let found = self.patterns(patterns, directive, reading, draft);
                self.locations.extend(found);
            }
            _ => self.unknown(directive, reading, draft),
        }
    }

    /// Whether an earlier `ProxyPass` has the paths of this one.
    fn is_hidden(&self, pass: &Directive) -> bool {
        let path = if pass.name == "proxypass" { pass.argument(0) } else { "/" };
        self.passed.iter().any(|earlier| {
            paths::prefix(path).starts_with(&paths::prefix(earlier)) && path.len() >= earlier.len()
        })
    }

    /// `<Proxy "*">`: whose requests may pass.
    fn proxy_section(&mut self, section: &Directive, draft: &mut Draft) {
        if section.argument(0).starts_with("balancer://") {
            return;
        }
        let text = |child: &Directive| child.text().to_ascii_lowercase();
        let grants = |child: &Directive| {
            matches!(text(child).as_str(), "require all granted" | "allow from all") || child.name == "order"
        };
        if !section.children().iter().all(grants) {
            draft.error(&section.place, unconverted(section), "write it as a location");
        }
    }

    fn patterns(
        &self,
        patterns: Vec<String>,
        section: &Directive,
        reading: &Reading,
        draft: &mut Draft,
    ) -> Vec<(Paths, Context, Place)> {
        let context = Context::read_patterns(section.children(), &section.place, reading, draft);
        let is_prefix = |pattern: &String| pattern.ends_with('/') && !is_glob(pattern);
        let (prefixes, patterns): (Vec<String>, Vec<String>) = patterns.into_iter().partition(is_prefix);
        let prefixes = prefixes.iter().map(|prefix| Paths::Prefix(paths::folder(prefix).to_owned()));
        let all = prefixes.chain(Some(Paths::Patterns(patterns)));
        all.map(|paths| (paths, context.clone(), section.place.clone())).collect()
    }

    /// A section whose paths are not known. What it denies is denied everywhere.
    fn unknown(&mut self, section: &Directive, reading: &Reading, draft: &mut Draft) {
        draft.error(&section.place, unconverted(section), "write the paths, or patterns with *");
        let context = Context::read_without_rewrites(section.children(), &section.place, reading, draft);
        if context.denies() {
            self.server.close();
        }
    }

    /// Makes redirects of a folder those of the host, because their paths are whole. The other directives.
    fn without_redirects(&mut self, children: &[Directive], draft: &mut Draft) -> Vec<Directive> {
        let (before, leading) = (self.redirects.len(), self.leading.len());
        for child in children.iter().filter(|child| is_redirect(child)) {
            self.redirect(child, draft);
        }
        // They are for the files of the folder, and not for those of an alias.
        self.redirects.truncate(before);
        self.leading.truncate(leading);
        without(children, is_redirect)
    }

    /// What a location has that is not about files.
    fn located(&mut self, section: &Directive, path: &str, draft: &mut Draft) {
        for child in section.children() {
            match child.name.as_str() {
                _ if !is_located(child) => {}
                "proxypass" => {
                    let mut pass = child.clone();
                    pass.arguments.insert(0, path.to_owned());
                    self.passes.push((String::new(), pass));
                }
                _ => {
                    let mut redirect = child.clone();
                    let at = usize::from(named_status(child.argument(0)).is_some());
                    redirect.arguments.insert(at, path.to_owned());
                    self.redirect(&redirect, draft);
                }
            }
        }
    }

    fn redirect(&mut self, directive: &Directive, draft: &mut Draft) {
        let place = &directive.place;
        let mut words = directive.arguments.as_slice();
        let mut status: i64 = if directive.name == "redirectpermanent" { 301 } else { 302 };
        if let Some(named) = words.first().and_then(|first| named_status(first)) {
            (status, words) = (named, &words[1..]);
        }
        let is_match = directive.name == "redirectmatch";
        let path = words.first().filter(|path| is_match || path.starts_with('/'));
        match (path, words.get(1), status) {
            (_, None, 400..=599) if is_match => self.reject_matches(directive, path, status, draft),
            (Some(path), None, 400..=599) => {
                let folder = paths::prefix(path);
                let route = self.host.route(&folder, place);
                if !route.responds() {
                    route.set(place, "return", status);
                }
                self.redirects.push(folder);
            }
            (Some(path), Some(to), 301 | 302 | 303 | 307 | 308) if is_match => {
                let Some(all) = redirect_matches(path, to) else {
                    let what_to_do = "see redirects; patterns have wildcards, and classes such as [0-9]+";
                    return draft.error(place, unconverted(directive), what_to_do);
                };
                for (pattern, to) in all {
                    let to = if to.contains('?') { to } else { format!("{to}$query") };
                    redirected(&mut self.host, &pattern, to, status, place);
                    self.leading.push((pattern, place.clone()));
                }
            }
            (Some(path), Some(to), 301 | 302 | 303 | 307 | 308) => {
                self.redirect_prefix(path, to, status, place);
            }
            _ => draft.error(place, unconverted(directive), "see redirects"),
        }
    }

    /// `RedirectMatch` with the status of an error.
    fn reject_matches(
        &mut self,
        directive: &Directive,
        expression: Option<&String>,
        status: i64,
        draft: &mut Draft,
    ) {
        let patterns = expression.and_then(|text| {
            let (text, any_case) = regex::cased(text);
            let all = paths::expression(&text).or_else(|| paths::wider(&text, directive, draft))?;
            let in_any_case = |pattern: &String| pattern::ignoring_case(pattern);
            if any_case { all.iter().map(in_any_case).collect() } else { Some(all) }
        });
        let Some(patterns) = patterns else {
            return paths::left_open(directive, unconverted(directive), draft);
        };
        let place = &directive.place;
        for pattern in patterns {
            self.host.route(&pattern, place).set(place, "return", status);
            if pattern.ends_with('/') {
                self.redirects.push(pattern);
            }
        }
    }

    /// `Redirect`: the rest of the path follows the target.
    fn redirect_prefix(&mut self, path: &str, to: &str, status: i64, place: &Place) {
        let folder = paths::prefix(path);
        self.redirects.push(folder.clone());
        if path == "/" && self.is_to_itself(to) {
            self.host.is_to_https = true;
            let name = to["https://".len()..].trim_end_matches('/').to_lowercase();
            self.host.https_name = (self.host.names.len() > 1).then_some(name);
            self.host.https_status = (status != 301).then_some(status);
            return;
        }
        self.leading.push((folder.clone(), place.clone()));
        let to = to.replace('$', "$$");
        let between = if path.ends_with('/') || to.ends_with('/') { "" } else { "/" };
        redirected(&mut self.host, &folder, format!("{to}{between}$rest$query"), status, place);
        if folder != path {
            redirected(&mut self.host, path, format!("{to}$query"), status, place);
        }
    }

    fn is_to_itself(&self, target: &str) -> bool {
        let name = target.strip_prefix("https://").map(|rest| rest.trim_end_matches('/').to_lowercase());
        name.is_some_and(|name| self.host.names.contains(&name))
            && !self.host.listens.iter().any(|listen| listen.tls)
    }

    fn log(&mut self, directive: &Directive, draft: &mut Draft) {
        match log_target(directive.argument(0), self.world.path) {
            Some(target) => self.host.scope.set(&directive.place, "access_log", target),
            None => draft.error(&directive.place, unconverted(directive), "write a file; see [log]"),
        }
    }

    fn tls(&mut self, directive: &Directive, draft: &mut Draft) -> bool {
        let place = &directive.place;
        let first = directive.argument(0);
        let scope = &mut self.host.scope;
        let path = |text: &str| (self.world.path)(text);
        match directive.name.as_str() {
            "sslengine" => {}
            "sslcertificatefile" => scope.set(place, "certificate", path(first)),
            "sslcertificatekeyfile" => scope.set(place, "certificate_key", path(first)),
            "sslcertificatechainfile" => {
                draft.warn(place, "the chain is not read", "append it to the file of the certificate");
            }
            "sslcacertificatefile" => scope.set(place, "client_ca", path(first)),
            "sslcarevocationfile" => scope.set(place, "client_crl", path(first)),
            "sslverifyclient" => match first.to_ascii_lowercase().as_str() {
                "require" => scope.set(place, "client_certificates", "required"),
                "optional" => scope.set(place, "client_certificates", "optional"),
                "none" => scope.set(place, "client_certificates", "off"),
                _ => draft.error(place, unconverted(directive), "write require or optional"),
            },
            "sslprotocol" => {
                let is_on = |version: &str| {
                    let is = |sign: &str| {
                        directive
                            .arguments
                            .iter()
                            .any(|word| word.eq_ignore_ascii_case(&format!("{sign}{version}")))
                    };
                    let is_all = directive
                        .arguments
                        .iter()
                        .any(|word| word.eq_ignore_ascii_case("all") || word.starts_with('-'));
                    !is("-") && (is_all || is("") || is("+"))
                };
                let versions = [("TLSv1.2", "1.2"), ("TLSv1.3", "1.3")];
                let versions =
                    versions.iter().filter(|(name, _)| is_on(name)).map(|(_, version)| (*version).to_owned());
                draft.tls.set(place, "versions", versions.collect::<Vec<_>>());
            }
            name if OF_TLS.contains(&name) => {
                draft.note(
                    place,
                    format!("{} has no effect", directive.name),
                    "see [tls] and [[application]]",
                );
            }
            _ => return false,
        }
        true
    }
}

fn redirected(host: &mut Host, path: &str, to: String, status: i64, place: &Place) {
    let route = host.route(path, place);
    if !route.responds() {
        route.set(place, "redirect", to);
        route.set(place, "status", status);
    }
}

/// As in `access`. `None`: there is no such log.
pub fn log_target(text: &str, path: &dyn Fn(&str) -> String) -> Option<String> {
    match text {
        "/dev/stdout" | "/proc/self/fd/1" => Some("stdout".to_owned()),
        "/dev/stderr" | "/proc/self/fd/2" => Some("stderr".to_owned()),
        text if text == "syslog" || text.starts_with("syslog:") => Some("syslog".to_owned()),
        "" => None,
        // `||` is what `|` has become.
        text if text.starts_with('|') => {
            let command = text[1..].strip_prefix('|').unwrap_or(&text[1..]).trim();
            (command.starts_with(['/', '$'])).then(|| format!("|{command}"))
        }
        text => Some(path(text)),
    }
}

/// The status that a redirect may begin with.
fn named_status(word: &str) -> Option<i64> {
    match word.to_ascii_lowercase().as_str() {
        "permanent" => Some(301),
        "temp" => Some(302),
        "seeother" => Some(303),
        "gone" => Some(410),
        text => text.parse().ok(),
    }
}

/// What gets its path from the location that it stands in.
fn is_located(child: &Directive) -> bool {
    let words = match named_status(child.argument(0)) {
        Some(300..400) => 2,
        _ => 1,
    };
    child.name == "proxypass" || child.name == "redirect" && child.arguments.len() == words
}

/// What has its path itself.
fn is_redirect(child: &Directive) -> bool {
    matches!(child.name.as_str(), "redirect" | "redirectpermanent" | "redirecttemp" | "redirectmatch")
        && child.arguments.len() > 1
}

fn without(children: &[Directive], is_left_out: fn(&Directive) -> bool) -> Vec<Directive> {
    children.iter().filter(|child| !is_left_out(child)).cloned().collect()
}
