//! Folders that a request leads to: one for each name of a host (`/srv/www/$host/htdocs`), or for each address of the
//! server (`/srv/www/$ip`), and one in the home of each user (`/~name/`). Pure: from names and the text of the passwd
//! file to paths.
//!
//! Knows nothing of which folders exist.

mod users;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use taipan_http::status::Status;
use taipan_http::target::SafePath;

pub use self::users::{Home, PASSWD, UserFolders};
use crate::host::{MAX_NAME, name_of};

/// A folder for each name of a host, for each address of the server, or for each pair of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostFolder {
    /// The folder that contains all of them.
    pub base: PathBuf,
    /// The segments below it, up to the last one with a variable.
    named: Vec<Vec<Part>>,
    /// What follows them, such as `htdocs`.
    pub tail: SafePath<'static>,
    /// The name in place of one that has no folder.
    pub default: Option<FolderName<'static>>,
    /// The status for a name without a folder.
    pub missing: Status,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    Literal(String),
    /// `$host`
    Name,
    /// `$level1` to `$level3`: a letter of the name.
    Level(usize),
    /// `$ip`
    Address,
}

/// What a folder is called by: the name in a request, or the address of the server, or both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FolderName<'a> {
    /// It can be a folder: of letters, digits, `-`, `_` and `.`, in lower case; or it is an address.
    name: Cow<'a, str>,
    /// `None`: `$ip` stands for the name.
    address: Option<IpAddr>,
}

/// What is wrong with the text of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderError {
    Variable,
    /// `$level1` without `$host`: several names would share a folder.
    NoName,
    /// `$ip` twice, or beside `$host` in one segment.
    Address,
    /// There is no folder in front of the first variable.
    NoBase,
    NotUtf8,
    /// A segment that no path has.
    Segment,
}

const LEVELS: usize = 3;

impl HostFolder {
    /// `None`: the text has no variable, and is a path.
    pub fn parse(text: &str, folder: &Path) -> Option<Result<HostFolder, FolderError>> {
        text.contains('$').then(|| HostFolder::parse_template(text, folder))
    }

    fn parse_template(text: &str, folder: &Path) -> Result<HostFolder, FolderError> {
        let path = folder.join(text);
        let mut base = PathBuf::new();
        let mut segments = Vec::new();
        for component in path.components() {
            let text = component.as_os_str().to_str().ok_or(FolderError::NotUtf8)?;
            match component {
                Component::CurDir => {}
                Component::ParentDir if !segments.is_empty() => return Err(FolderError::Segment),
                _ if segments.is_empty() && !text.contains('$') => base.push(component),
                _ => segments.push(parts(text)?),
            }
        }
        let is_named = |segment: &Vec<Part>| segment.iter().any(|part| !matches!(part, Part::Literal(_)));
        let last = segments.iter().rposition(is_named).ok_or(FolderError::Variable)?;
        let tail: String = segments[last + 1..].iter().map(|parts| format!("/{}", literals(parts))).collect();
        segments.truncate(last + 1);
        let has = |part: &Part| segments.iter().flatten().any(|own| own == part);
        let has_level = segments.iter().flatten().any(|own| matches!(own, Part::Level(_)));
        if !has(&Part::Name) && (has_level || !has(&Part::Address)) {
            return Err(FolderError::NoName);
        }
        if segments.iter().flatten().filter(|own| **own == Part::Address).count() > 1
            || segments.iter().any(|own| own.contains(&Part::Address) && own.iter().any(Part::is_of_name))
        {
            return Err(FolderError::Address);
        }
        if is_root(&base) {
            return Err(FolderError::NoBase);
        }
        let tail = match tail.is_empty() {
            true => SafePath::from_decoded("/"),
            false => SafePath::from_decoded(&tail),
        };
        let tail = tail.map_err(|_| FolderError::Segment)?;
        let folder = HostFolder { base, named: segments, tail, default: None, missing: Status::NOT_FOUND };
        // The segments can be those of a path if they can be with this name.
        match folder.of(&FolderName { name: Cow::Borrowed("a"), address: None }) {
            Some(_) => Ok(folder),
            None => Err(FolderError::Segment),
        }
    }

    /// The folder of a name, with `tail`, that `path` is beneath. `None`: there is none.
    pub fn root_of(&self, path: &Path) -> Option<PathBuf> {
        let mut rest = path.strip_prefix(&self.base).ok()?.components();
        let mut root = self.base.clone();
        for segment in &self.named {
            let component = rest.next()?;
            let is_literal = segment.iter().all(|part| matches!(part, Part::Literal(_)));
            if is_literal && *component.as_os_str() != *literals(segment) {
                return None;
            }
            root.push(component);
        }
        root.push(self.tail.to_path());
        path.starts_with(&root).then_some(root)
    }

    /// Whether the folders of some names may be beneath `path`.
    pub fn may_be_beneath(&self, path: &Path) -> bool {
        if self.base.starts_with(path) {
            return true;
        }
        let Ok(rest) = path.strip_prefix(&self.base) else { return false };
        let mut rest = rest.components();
        for segment in &self.named {
            let Some(component) = rest.next() else { return true };
            let is_literal = segment.iter().all(|part| matches!(part, Part::Literal(_)));
            if is_literal && *component.as_os_str() != *literals(segment) {
                return false;
            }
        }
        self.tail.to_path().starts_with(rest.as_path())
    }

    /// The path of a name's own folder beneath `base`, without `tail`.
    pub fn of(&self, name: &FolderName<'_>) -> Option<SafePath<'static>> {
        let mut path = String::new();
        for segment in &self.named {
            path.push('/');
            for part in segment {
                match part {
                    Part::Literal(text) => path.push_str(text),
                    Part::Name => path.push_str(&name.name),
                    Part::Level(at) => path.push(name.letter(*at)),
                    Part::Address => path.push_str(&name.address_text()),
                }
            }
        }
        SafePath::from_decoded(&path).ok()
    }

    /// The folder of a name, with `tail`.
    pub fn path(&self, name: &FolderName<'_>) -> Option<PathBuf> {
        let own = self.of(name)?.beneath(&self.base);
        Some(if self.tail.as_str().is_empty() { own } else { self.tail.beneath(&own) })
    }

    /// What follows the folder of some name in `path`, by its text. `None`: `path` is elsewhere. No segment of it is
    /// `.` or `..`.
    pub fn below<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        let named = || path.strip_prefix(&self.base).into_iter().flat_map(Path::iter).zip(&self.named);
        let with = |part: Part| {
            let (segment, parts) = named().find(|(_, parts)| parts.contains(&part))?;
            Some((segment.to_str()?, parts))
        };
        let address = with(Part::Address).map(|(segment, parts)| address_in(segment, parts));
        let name = match (with(Part::Name), address) {
            (Some((segment, parts)), None) => name_in(segment, parts)?,
            (Some((segment, parts)), Some(address)) => {
                FolderName { address: Some(address?), ..name_in(segment, parts)? }
            }
            // The default may stand for the address.
            (None, Some(Some(address))) => FolderName::of_address(address),
            (None, Some(None)) => self.default.clone()?,
            (None, None) => return None,
        };
        let own = self.path(&name)?;
        path.strip_prefix(own).ok().filter(|below| !below.as_os_str().is_empty())
    }

    /// Whether the address of the server decides.
    pub fn has_address(&self) -> bool {
        self.named.iter().flatten().any(|part| *part == Part::Address)
    }

    fn has_name(&self) -> bool {
        self.named.iter().flatten().any(|part| *part == Part::Name)
    }

    /// The name in a request, if it can be a folder, and then the default. `address`: the server's, to which the
    /// connection was made. Without it, `$ip` has no folder.
    pub fn names<'a>(
        &'a self,
        authority: &'a [u8],
        address: Option<IpAddr>,
    ) -> impl Iterator<Item = FolderName<'a>> {
        let default = self.default.as_ref().map(FolderName::borrowed);
        let (own, default) = match (self.has_name(), self.has_address(), address) {
            (_, false, _) => (FolderName::of(authority), default),
            (false, true, address) => (address.map(FolderName::of_address), default),
            (true, true, None) => (None, None),
            (true, true, Some(ip)) => {
                let at = |name: FolderName<'a>| FolderName { address: Some(ip.to_canonical()), ..name };
                (FolderName::of(authority).map(at), default.map(at))
            }
        };
        own.into_iter().chain(default)
    }

    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        std::iter::once(&mut self.base)
    }
}

/// As a configuration writes it.
impl fmt::Display for HostFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.base.display())?;
        for segment in &self.named {
            f.write_str("/")?;
            for part in segment {
                match part {
                    Part::Literal(text) => f.write_str(text)?,
                    Part::Name => f.write_str("$host")?,
                    Part::Level(at) => write!(f, "$level{}", at + 1)?,
                    Part::Address => f.write_str("$ip")?,
                }
            }
        }
        match self.tail.as_str() {
            "" => Ok(()),
            tail => write!(f, "/{tail}"),
        }
    }
}

impl Part {
    fn literal(&self) -> &str {
        match self {
            Part::Literal(text) => text,
            Part::Name | Part::Level(_) | Part::Address => "",
        }
    }

    fn is_of_name(&self) -> bool {
        matches!(self, Part::Name | Part::Level(_))
    }
}

/// The only address that can make these parts the text of a segment.
fn address_in(segment: &str, parts: &[Part]) -> Option<IpAddr> {
    let at = parts.iter().position(|part| *part == Part::Address)?;
    let text = |parts: &[Part]| -> String { parts.iter().map(Part::literal).collect() };
    let rest = segment.strip_prefix(&*text(&parts[..at]))?.strip_suffix(&*text(&parts[at + 1..]))?;
    rest.parse().ok().filter(|ip: &IpAddr| ip.to_canonical().to_string() == rest)
}

/// The only name that can make these parts the text of a segment. It need not do so.
fn name_in<'s>(segment: &'s str, parts: &[Part]) -> Option<FolderName<'s>> {
    let length = |part: &Part| match part {
        Part::Literal(text) => text.len(),
        Part::Level(_) => 1,
        // No address is in the segment of a name.
        Part::Name | Part::Address => 0,
    };
    let names = parts.iter().filter(|part| **part == Part::Name).count();
    let others: usize = parts.iter().map(length).sum();
    let start: usize = parts.iter().take_while(|part| **part != Part::Name).map(length).sum();
    let end = start + segment.len().checked_sub(others)?.checked_div(names)?;
    FolderName::of(segment.get(start..end)?.as_bytes())
}

/// Whether this is the root of the file system, by its text. A relative path begins in the current folder.
fn is_root(path: &Path) -> bool {
    let depth = path.components().fold(0usize, |depth, component| match component {
        Component::ParentDir => depth.saturating_sub(1),
        Component::Normal(_) => depth + 1,
        _ => depth,
    });
    path.has_root() && depth == 0
}

fn literals(parts: &[Part]) -> &str {
    match parts {
        [Part::Literal(text)] => text,
        _ => "",
    }
}

/// The parts of one segment.
fn parts(segment: &str) -> Result<Vec<Part>, FolderError> {
    let mut parts = Vec::new();
    let mut rest = segment;
    while let Some((before, behind)) = rest.split_once('$') {
        if !before.is_empty() {
            parts.push(Part::Literal(before.to_owned()));
        }
        let levels = (1..=LEVELS).map(|level| (format!("level{level}"), Part::Level(level - 1)));
        let others = [
            ("host".to_owned(), Part::Name),
            ("ip".to_owned(), Part::Address),
            ("$".to_owned(), Part::Literal("$".to_owned())),
        ];
        let mut known = others.into_iter().chain(levels);
        let (name, part) = known.find(|(name, _)| behind.starts_with(name)).ok_or(FolderError::Variable)?;
        parts.push(part);
        rest = &behind[name.len()..];
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest.to_owned()));
    }
    Ok(parts)
}

impl<'a> FolderName<'a> {
    /// The name in an authority. `None`: it cannot be a folder.
    pub fn of(authority: &'a [u8]) -> Option<FolderName<'a>> {
        let name = std::str::from_utf8(name_of(authority)).ok()?;
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = (1..=MAX_NAME).contains(&name.len())
            && name.bytes().all(is_of_name)
            && name.split('.').all(|label| !label.is_empty());
        let name = is_name.then(|| match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(name.to_ascii_lowercase()),
            false => Cow::Borrowed(name),
        });
        name.map(|name| FolderName { name, address: None })
    }

    fn of_address(ip: IpAddr) -> FolderName<'static> {
        FolderName { name: Cow::Owned(ip.to_canonical().to_string()), address: None }
    }

    /// The name, or the address where that alone decides.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// What no other folder of the host is found by.
    pub fn key(&self) -> Cow<'_, str> {
        match self.address {
            None => Cow::Borrowed(&self.name),
            // No name has a space.
            Some(ip) => Cow::Owned(format!("{ip} {}", self.name)),
        }
    }

    fn address_text(&self) -> Cow<'_, str> {
        self.address.map_or(Cow::Borrowed(&*self.name), |ip| Cow::Owned(ip.to_string()))
    }

    pub fn borrowed(&self) -> FolderName<'_> {
        FolderName { name: Cow::Borrowed(&self.name), address: self.address }
    }

    pub fn into_owned(self) -> FolderName<'static> {
        FolderName { name: Cow::Owned(self.name.into_owned()), address: self.address }
    }

    /// A letter for a level of folders, as thttpd chooses it: without `www.` and dots, and `_` behind the end.
    fn letter(&self, at: usize) -> char {
        let name = self.name.strip_prefix("www.").unwrap_or(&self.name);
        name.chars().filter(|letter| *letter != '.').nth(at).unwrap_or('_')
    }
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FolderError::Variable => {
                "the variables are $host, $ip, $level1, $level2 and $level3; a dollar sign is $$"
            }
            FolderError::NoName => "add $host, or several names would share a folder",
            FolderError::Address => "write $ip once, and $host in a folder of its own, as in /srv/$ip/$host",
            FolderError::NoBase => {
                "begin it with a folder that contains nothing else, such as \"/srv/www/$host\""
            }
            FolderError::NotUtf8 => "write it in UTF-8",
            FolderError::Segment => "leave out backslashes, control characters, and \"..\" behind a variable",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(text: &str) -> Result<HostFolder, FolderError> {
        HostFolder::parse(text, Path::new("/etc")).expect("it has a variable")
    }

    #[test]
    fn a_path_is_beneath_the_folder_of_one_name() {
        for (text, path, expected) in [
            ("/v/$host/htdocs", "/v/a.b/htdocs/x/y.cgi", Some("x/y.cgi")),
            ("/v/$host/htdocs", "/v/a.b/htdocs", None),
            ("/v/$host/htdocs", "/v/a.b/private/y.cgi", None),
            ("/v/$host/htdocs", "/v/A.b/htdocs/y.cgi", None),
            ("/v/$host/htdocs", "/v/a:80/htdocs/y.cgi", None),
            ("/v/$host/htdocs", "/v/a./htdocs/y.cgi", None),
            ("/v/$host/htdocs", "/v/ä/htdocs/y.cgi", None),
            ("/v/$host/htdocs", "/w/a/htdocs/y.cgi", None),
            ("/v/$host", "/v/y.cgi", None),
            ("/v/$host", "/v/a/y.cgi", Some("y.cgi")),
            ("/v/$level1/$host", "/v/a/abc/y.cgi", Some("y.cgi")),
            ("/v/$level1/$host", "/v/b/abc/y.cgi", None),
            ("/v/$host/$level2", "/v/abc/b/y.cgi", Some("y.cgi")),
            ("/v/x-$host-$level1.d", "/v/x-abc-a.d/y.cgi", Some("y.cgi")),
            ("/v/x-$host-$level1.d", "/v/x-abc-b.d/y.cgi", None),
            ("/v/x-$host-$level1.d", "/v/x/y.cgi", None),
            ("/v/$host+$host", "/v/ab+ab/y.cgi", Some("y.cgi")),
            ("/v/$host+$host", "/v/ab+ac/y.cgi", None),
            ("/v/$ip", "/v/192.0.2.1/y.cgi", Some("y.cgi")),
            ("/v/$ip", "/v/192.0.2.01/y.cgi", None),
            ("/v/$ip", "/v/a.b/y.cgi", None),
            ("/v/at-$ip.d/w", "/v/at-2001:db8::1.d/w/y.cgi", Some("y.cgi")),
            ("/v/at-$ip.d/w", "/v/at-2001:db8:0::1.d/w/y.cgi", None),
            ("/v/$ip/$host/w", "/v/192.0.2.1/a.b/w/y.cgi", Some("y.cgi")),
            ("/v/$ip/$host/w", "/v/x/a.b/w/y.cgi", None),
        ] {
            assert_eq!(
                folder(text).unwrap().below(Path::new(path)),
                expected.map(Path::new),
                "{text} {path}"
            );
        }
    }

    #[test]
    fn a_name_has_a_folder_of_its_own() {
        for (text, name, expected) in [
            ("/srv/www/$host", "a.example", "/srv/www a.example "),
            ("/srv/www/$host/htdocs", "A.Example:80", "/srv/www a.example htdocs"),
            ("/srv/www/$host/htdocs", "a.example.", "/srv/www a.example htdocs"),
            ("sites/$host", "192.0.2.1:8080", "/etc/sites 192.0.2.1 "),
            ("/v/$level1/$level2/$level3/$host", "www.acme.com", "/v a/c/m/www.acme.com "),
            ("/v/$level1/$level2/$level3/$host", "www.a.b", "/v a/b/_/www.a.b "),
            ("/v/$level1$level2/x-$host/a/b", "q", "/v q_/x-q a/b"),
            ("/v/$$x/$host", "q", "/v $x/q "),
        ] {
            let folder = folder(text).unwrap();
            let name = folder.names(name.as_bytes(), None).next().unwrap();
            let named = folder.of(&name).unwrap();
            let found = format!("{} {} {}", folder.base.display(), named.as_str(), folder.tail.as_str());
            assert_eq!(found, expected, "{text}");
        }
        for (text, base) in
            [("$host", ""), ("../hosts/$host", "../hosts"), ("/etc/../srv/$host", "/etc/../srv")]
        {
            let folder = HostFolder::parse(text, Path::new("")).expect("it has a variable");
            assert_eq!(folder.map(|folder| folder.base), Ok(PathBuf::from(base)), "{text}");
        }
        assert_eq!(HostFolder::parse("/srv/www", Path::new("/")), None);
        assert_eq!(folder("/v/$level2/$host/x").unwrap().to_string(), "/v/$level2/$host/x");
        for (text, error) in [
            ("/srv/$name", FolderError::Variable),
            ("/srv/$", FolderError::Variable),
            ("/srv/$$", FolderError::Variable),
            ("/srv/$level1", FolderError::NoName),
            ("/srv/$ip/$level1", FolderError::NoName),
            ("/srv/$ip/$ip", FolderError::Address),
            ("/srv/$host-$ip", FolderError::Address),
            ("/$ip", FolderError::NoBase),
            ("/$host", FolderError::NoBase),
            ("/srv/../$host", FolderError::NoBase),
            ("/../$host", FolderError::NoBase),
            ("/srv/$host/../x", FolderError::Segment),
            ("/srv/$host\\/x", FolderError::Segment),
        ] {
            assert_eq!(folder(text), Err(error), "{text}");
        }
    }

    #[test]
    fn an_address_has_a_folder_of_its_own() {
        let paths =
            |text: &str, default: Option<&'static str>, host: &str, ip: Option<&str>| -> Vec<String> {
                let mut folder = folder(text).unwrap();
                folder.default = default.and_then(|name| FolderName::of(name.as_bytes()));
                let ip = ip.map(|ip| ip.parse().unwrap());
                let names = folder.names(host.as_bytes(), ip);
                names
                    .map(|name| format!("{} {}", name.key(), folder.path(&name).unwrap().display()))
                    .collect()
            };
        let one = Some("192.0.2.1");
        for (text, default, ip, expected) in [
            ("/v/$ip", None, one, &["192.0.2.1 /v/192.0.2.1"][..]),
            ("/v/$ip/htdocs", None, Some("::ffff:192.0.2.1"), &["192.0.2.1 /v/192.0.2.1/htdocs"]),
            ("/v/$ip", None, Some("2001:db8::1"), &["2001:db8::1 /v/2001:db8::1"]),
            ("/v/$ip", Some("other"), one, &["192.0.2.1 /v/192.0.2.1", "other /v/other"]),
            ("/v/$ip", Some("other"), None, &["other /v/other"]),
            ("/v/$ip", None, None, &[]),
            ("/v/$host", None, one, &["a.b /v/a.b"]),
            (
                "/v/$ip/$level1/$host/w",
                Some("other"),
                one,
                &["192.0.2.1 a.b /v/192.0.2.1/a/a.b/w", "192.0.2.1 other /v/192.0.2.1/o/other/w"],
            ),
            ("/v/$ip/$host", Some("other"), None, &[]),
        ] {
            assert_eq!(paths(text, default, "A.b:80", ip), expected, "{text} {ip:?}");
        }
        assert_eq!(folder("/v/x-$ip/$host/w").unwrap().to_string(), "/v/x-$ip/$host/w");
    }

    #[test]
    fn a_host_that_is_no_folder_name_has_the_default_folder_or_none() {
        let mut folder = folder("/srv/$host").unwrap();
        let long = "a".repeat(254);
        let bad =
            ["", ".", "..", "a..b", ".a", "a/b", "a\\b", "[::1]", "a b", "a\0", "é.example", "~a", &long];
        for name in bad {
            assert_eq!(folder.names(name.as_bytes(), None).next(), None, "{name}");
        }
        folder.default = FolderName::of(b"default").map(FolderName::into_owned);
        for name in bad {
            assert_eq!(folder.names(name.as_bytes(), None).next().unwrap().as_str(), "default", "{name}");
        }
        assert_eq!(folder.names(&long.as_bytes()[..253], None).next().unwrap().as_str().len(), 253);
    }
}
