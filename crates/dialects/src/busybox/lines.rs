//! The lines of a file of httpd, by what they are about.

use std::collections::BTreeMap;
use std::path::Path;

use site::utf8::NotUtf8;

use super::access;
use crate::finding::{Findings, Severity};

/// What a line is about, by its first sign.
pub const KINDS: [char; 9] = ['.', '/', '*', 'A', 'D', 'E', 'H', 'I', 'P'];

/// Paths that have settings of their own.
const MAX_PATHS: usize = 1000;

/// A value and its line.
pub(super) type At<T> = (T, Option<u32>);

/// The lines of the file.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) home: Option<At<String>>,
    pub(super) index: Option<At<String>>,
    pub(super) denied: Vec<At<String>>,
    pub(super) allowed: Vec<At<String>>,
    pub(super) denies_all: Option<u32>,
    /// Folders whose password cannot be read.
    pub(super) closed: Vec<At<String>>,
    /// Paths with a user that has no name or no password.
    pub(super) emptied: Vec<At<String>>,
    pub(super) error_pages: Vec<At<(String, String)>>,
    pub(super) proxies: Vec<At<(String, String)>>,
    pub(super) types: Vec<At<(String, String)>>,
    pub(super) interpreters: Vec<At<(String, String)>>,
    /// Users and passwords, by path.
    pub(super) users: BTreeMap<String, Vec<At<(String, String)>>>,
}

impl Lines {
    /// Each path and each pattern becomes a route.
    pub(super) fn are_full(&self, line: u32, findings: &mut Findings) -> bool {
        let is_full = self.users.len()
            + self.closed.len()
            + self.emptied.len()
            + self.interpreters.len()
            + self.proxies.len()
            >= MAX_PATHS;
        if is_full {
            let what = format!("there are more than {MAX_PATHS} paths with settings");
            findings.error(Some(line), what, "make several configurations of it");
        }
        is_full
    }

    /// A line of another file than the one that is read.
    pub(super) fn add_of(
        &mut self,
        file: &Path,
        number: u32,
        text: Result<&str, NotUtf8>,
        findings: &mut Findings,
    ) {
        let mut own = Findings::default();
        self.add(0, text, &mut own);
        for finding in own.into_sorted() {
            let what = format!("{}:{number}: {}", file.display(), finding.what);
            match finding.severity {
                Severity::Error => findings.error(None, what, finding.what_to_do),
                Severity::Warning => findings.warn(None, what, finding.what_to_do),
                Severity::Notice => findings.note(None, what, finding.what_to_do),
            }
        }
    }

    /// busybox leaves such a line out. A path that was to be protected stays closed.
    fn close(&mut self, path: &str, line: Option<u32>, findings: &mut Findings) {
        findings.warn(line, "this path has no password, so that it is denied", "write /path:user:password");
        let path = path.trim_matches('/');
        self.closed.push((if path.is_empty() { "/".to_owned() } else { format!("/{path}/") }, line));
    }

    /// Paths without another user stay closed.
    pub(super) fn close_emptied(&mut self) {
        for (path, line) in std::mem::take(&mut self.emptied) {
            if !self.users.contains_key(&path) {
                self.closed.push((format!("{}/", path.trim_end_matches('/')), line));
            }
        }
    }

    pub(super) fn add(&mut self, number: u32, text: Result<&str, NotUtf8>, findings: &mut Findings) {
        let line = Some(number);
        let text = match text {
            Ok(text) => text,
            Err(error) => return findings.not_utf8(&error),
        };
        // All spaces are left out, also those within a value.
        let text: String = text.split_whitespace().collect();
        if text.is_empty() {
            return;
        }
        let Some((name, value)) = text.split_once(':').filter(|(_, value)| !value.is_empty()) else {
            if text.starts_with('/') {
                return self.close(text.trim_end_matches(':'), line, findings);
            }
            return findings.warn(
                line,
                "this line has no value, and busybox leaves it out",
                "correct or remove it",
            );
        };
        let both = |name: &str, value: &str| ((name.to_owned(), value.to_owned()), line);
        let first = name.as_bytes().first().map(u8::to_ascii_uppercase);
        match first.filter(|first| KINDS.contains(&char::from(*first))) {
            Some(b'I') => self.index = Some((value.to_owned(), line)),
            Some(b'H') => self.home = Some((value.to_owned(), line)),
            Some(b'A') if value.starts_with('*') => {}
            Some(b'D') if value.starts_with('*') => self.denies_all = line,
            Some(b'A') => self.allow(value, line, findings),
            Some(b'D') => self.deny(value, line, findings),
            Some(b'E') => self.error_pages.push(both(&name[1..], value)),
            Some(b'P') => match value.split_once(':') {
                Some((from, to)) if to.strip_prefix("http://").unwrap_or(to).contains('/') => {
                    self.proxies.push(both(from, to));
                }
                _ => {
                    let what = "this proxy has no address with a path, and busybox leaves it out";
                    findings.warn(line, what, "write P:/path:host:port/path");
                }
            },
            Some(b'.') => self.types.push(both(&name[1..], value)),
            // The last one counts.
            Some(b'*') if name.starts_with("*.") => {
                self.interpreters.retain(|((other, _), _)| other != name);
                self.interpreters.push(both(name, value));
            }
            Some(b'/') => self.password(name, value, line, findings),
            _ => findings.warn(
                line,
                format!("busybox does not know \"{}\", and leaves it out", name.escape_debug()),
                "correct or remove it",
            ),
        }
    }

    /// Of networks, only the exact ones have clients.
    fn allow(&mut self, value: &str, line: Option<u32>, findings: &mut Findings) {
        match access::network(value) {
            Some(network) if network.is_exact => self.allowed.push((network.text, line)),
            Some(network) => {
                let what = format!(
                    "no client is in {}, because the address has bits behind the mask",
                    value.escape_debug()
                );
                findings.warn(line, what, format!("write A:{}", network.text));
            }
            None => self.deny_all(value, line, findings),
        }
    }

    fn deny(&mut self, value: &str, line: Option<u32>, findings: &mut Findings) {
        match access::network(value) {
            Some(network) => {
                self.denied.extend(network.denied().into_iter().map(|network| (network, line)));
            }
            None => self.deny_all(value, line, findings),
        }
    }

    /// For what is no network.
    fn deny_all(&mut self, value: &str, line: Option<u32>, findings: &mut Findings) {
        let what = format!("\"{}\" is no IPv4 network, so that everything is denied", value.escape_debug());
        findings.warn(line, what, "write 192.0.2.0/24, 192.0.2. or 192.0.2.7");
        self.denied.push(("0.0.0.0/0".to_owned(), line));
        self.denied.push(("::/0".to_owned(), line));
    }

    /// `/path:user:password`
    fn password(&mut self, name: &str, value: &str, line: Option<u32>, findings: &mut Findings) {
        let path = format!("/{}", name.trim_matches('/'));
        match value.split_once(':') {
            Some((user, password)) if !user.is_empty() && !password.is_empty() => {
                let user = ((user.to_owned(), password.to_owned()), line);
                self.users.entry(path).or_default().push(user);
            }
            // busybox lets in who sends an empty name or password.
            Some(_) => {
                let what = "this line has an empty user or password, and no user can log in with it";
                findings.warn(line, what, "write /path:user:password");
                self.emptied.push((path, line));
            }
            None => self.close(name, line, findings),
        }
    }
}
