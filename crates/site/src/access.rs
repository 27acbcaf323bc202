//! Rules of access: whether a request may have what is at a path, by what is known of the request and its client. The
//! first rule that matches decides, apart from those that only name a limit. Without one, access is allowed.
//!
//! Knows nothing of what is at a path, nor of passwords.

use std::net::IpAddr;
use std::sync::Arc;

use taipan_http::digits::hex_byte;
use taipan_http::fields::is_name;
use taipan_http::head::Head;
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme};

use crate::alternates::AlternateRules;
use crate::authentication::Authentication;
use crate::host::name_of;
use crate::model::{Enclosing, Host, Route};
use crate::network::Networks;
use crate::route::Pattern;
use crate::template::Template;
use crate::wildcard::Wildcard;

/// Rules of one site.
pub const MAX_RULES: usize = 10_000;
const SECONDS_OF_DAY: i64 = 86_400;
/// 1970 began with a Thursday.
const FIRST_WEEKDAY: i64 = 3;

/// Rules in the order in which they are tried: those of a route, of its host, and of the site.
pub type Rules = Arc<[Arc<Rule>]>;

/// A rule of access: what it does to the requests that its conditions are true for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// All of them must be true.
    pub conditions: Vec<Condition>,
    pub action: Action,
    /// Where it stands in the configuration.
    pub place: String,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Allow,
    /// A status of an error.
    Deny(Status),
    /// Denied what is there, and led elsewhere.
    Redirect(Box<Redirect>),
    /// Allowed for users who have identified themselves.
    Authenticate,
    /// Counted in the limit of this name. It decides nothing: the next rule that matches does.
    Limit(String),
}

/// Where a rule leads requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: Status,
    pub to: Template,
}

/// What is true of a request, or of its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The address of the client.
    Address {
        within: Option<Networks>,
        except: Networks,
    },
    /// To which the connection was made. Not true for a Unix socket.
    ServerAddress {
        within: Option<Networks>,
        except: Networks,
    },
    /// In any case of letters: some applications take `post` for POST. `GET` stands for HEAD, too.
    Method(Selection<String>),
    /// The name of the host, without its port.
    Host(Selection<Wildcard>),
    Path(Selection<Pattern>),
    /// The query, as it was sent or decoded. Empty if there is none.
    Query(Selection<Wildcard>),
    Referer(Selection<Referer>),
    UserAgent(Selection<Wildcard>),
    /// Any value of this field. The name is in lower case.
    Field(String, Selection<Wildcard>),
    /// Whether the request came with TLS.
    Tls(bool),
    /// `TLSv1.3`
    TlsVersion(Selection<String>),
    /// The subject of a verified client certificate. Without one, it is not true.
    Certificate(Selection<Wildcard>),
    Time(Vec<Period>),
}

/// Entries of which one must match, and entries of which none may. Without entries of the first kind, everything else
/// matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection<T> {
    pub include: Vec<T>,
    pub except: Vec<T>,
}

/// What the field `Referer` has to be (RFC 9110 §10.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Referer {
    /// There is none.
    Absent,
    /// The host of the request.
    Own,
    /// The host of the URL.
    Host(Wildcard),
    /// All of the URL.
    Url(Wildcard),
}

/// A time of day on some days of the week, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Monday is the lowest bit.
    pub days: u8,
    /// Seconds of the day. The period ends on the next day where `to` is not greater than `from`.
    pub from: u32,
    pub to: u32,
}

/// What rules may ask of a request.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub head: &'a Head<'a>,
    /// The method of the request, or one that would do a part of what it does.
    pub method: &'a str,
    pub client: ClientAddress,
    /// The address that the connection was made to. `None`: it is not known, or a Unix socket.
    pub server: Option<IpAddr>,
    pub tls: Tls<'a>,
    /// Seconds since 1970.
    pub now: i64,
}

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAddress {
    Ip(IpAddr),
    /// On a Unix socket of this machine.
    Unix,
    /// A trusted proxy does not tell it. No entry is for it, nor is `unix`.
    Unknown,
}

/// What is known of the TLS of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls<'a> {
    Off,
    On { version: &'a str, subject: Option<&'a str> },
}

/// The result for one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'s> {
    /// `None`: no rule matches.
    Allow(Option<&'s Rule>),
    /// The rule denies the request, or redirects it.
    Deny(Status, &'s Rule),
    Authenticate(&'s Rule),
}

impl<'s> Verdict<'s> {
    /// The stricter of two verdicts, the first of two that are equally strict.
    fn and(self, other: Verdict<'s>) -> Verdict<'s> {
        match (self, other) {
            (Verdict::Allow(None), other) => other,
            (own, other) if other.strictness() > own.strictness() => other,
            (own, _) => own,
        }
    }

    /// The verdict for users whose rules have the verdict `own`. Others may only be stricter.
    fn within(self, own: Verdict<'s>) -> Verdict<'s> {
        match (self, own) {
            (Verdict::Deny(..) | Verdict::Authenticate(_), _) => self,
            // A glob may have what its host denies, as one outside of a prefix.
            (Verdict::Allow(_), Verdict::Deny(..)) => Verdict::Allow(None),
            (Verdict::Allow(_), own) => own,
        }
    }

    fn strictness(self) -> u8 {
        match self {
            Verdict::Allow(_) => 0,
            Verdict::Authenticate(_) => 1,
            Verdict::Deny(..) => 2,
        }
    }
}

/// Whether a request may have what is at `path` in `host`. What a client may not have by one of its names, it may not
/// have by another.
pub fn check<'s>(host: &'s Host, path: &SafePath<'_>, facts: Facts<'_>) -> Verdict<'s> {
    let of = |path: &SafePath<'_>| check_name(host.routes.get(host.routes.find(path)), path, facts);
    let alternates = &host.routes.get(host.routes.find(path)).files.alternates;
    other_names(path, alternates).iter().fold(of(path), |verdict, name| verdict.and(of(name)))
}

/// As [`check`], for this name alone, whose route is `route`.
fn check_name<'s>(route: &'s Route, path: &SafePath<'_>, facts: Facts<'_>) -> Verdict<'s> {
    evaluate(&route.access, path, facts)
}

/// What the users of a route are asked for at `path`, by this name alone. Of a glob within a prefix, these are those of
/// both, each with the verdict that counts for them: with `satisfy = "any"`, rules of the one let nothing pass for
/// which the other asks for a user.
pub fn demands<'s>(
    route: &'s Route,
    path: &SafePath<'_>,
    facts: Facts<'_>,
) -> impl Iterator<Item = (&'s Arc<Authentication>, Verdict<'s>)> {
    let all = check_name(route, path, facts);
    let (own, enclosing) = match &route.enclosing {
        None => (Some((&route.authentication, all)), None),
        Some(Enclosing { authentication, access }) => {
            let is_shared = Arc::ptr_eq(authentication, &route.authentication);
            let own = || all.within(evaluate(route.access.get(..1).unwrap_or_default(), path, facts));
            let of_prefix = all.within(evaluate(access, path, facts));
            ((!is_shared).then(|| (&route.authentication, own())), Some((authentication, of_prefix)))
        }
    };
    own.into_iter().chain(enclosing)
}

/// The names of the limits in which the rules count a request for `path`, by each of its names: those of rules in front
/// of the one that decides.
pub fn limits<'s>(host: &'s Host, path: &SafePath<'_>, facts: Facts<'_>) -> Vec<&'s str> {
    let route = |path: &SafePath<'_>| host.routes.get(host.routes.find(path));
    let mut limits = Vec::new();
    for name in std::iter::once(path).chain(&other_names(path, &route(path).files.alternates)) {
        for rules in route(name).access.iter() {
            for rule in rules.iter().filter(|rule| rule.matches(name, facts)) {
                match &rule.action {
                    Action::Limit(limit) if limits.contains(&limit.as_str()) => {}
                    Action::Limit(limit) => limits.push(limit),
                    _ => break,
                }
            }
        }
    }
    limits
}

/// Whether the rules may decide otherwise about `path` for another client, or at another time.
pub fn depends_on_client(host: &Host, path: &SafePath<'_>) -> bool {
    let of = |path: &SafePath<'_>| {
        let route = host.routes.get(host.routes.find(path));
        route.access.iter().any(|rules| rules.iter().any(|rule| rule.depends_on_client(path)))
    };
    let alternates = &host.routes.get(host.routes.find(path)).files.alternates;
    of(path) || other_names(path, alternates).iter().any(of)
}

/// Other names of what is at `path`: `X` for `X.gz`, which has the same content, and `/a/b` for `/a;x/b`, because
/// applications remove such parameters; and `X` for `X.de`, if files have languages. Allocates only if there are some.
pub fn other_names(path: &SafePath<'_>, alternates: &AlternateRules) -> Vec<SafePath<'static>> {
    let mut names = Vec::new();
    names.extend(without_parameters(path));
    let plain = without_coding(names.first().unwrap_or(path));
    names.extend(plain);
    let without_label = without_label(names.last().unwrap_or(path), alternates);
    names.extend(without_label);
    names
}

/// `X` for the names of `X` in other languages and charsets.
fn without_label(path: &SafePath<'_>, alternates: &AlternateRules) -> Option<SafePath<'static>> {
    if alternates.is_empty() || path.is_folder() {
        return None;
    }
    path.sibling(&alternates.parse(path.name())?.1)
}

/// The path without what follows a semicolon in a segment. Some applications resolve dot segments only then.
pub fn without_parameters(path: &SafePath<'_>) -> Option<SafePath<'static>> {
    let text = path.as_str();
    if !text.contains(';') {
        return None;
    }
    let mut resolved: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => _ = resolved.pop(),
            name => resolved.push(name),
        }
    }
    let end = if path.is_folder() && !resolved.is_empty() { "/" } else { "" };
    SafePath::from_decoded(&["/", &resolved.join("/"), end].concat()).ok()
}

/// `X` for `X.gz` and the names of other precompressed files.
fn without_coding(path: &SafePath<'_>) -> Option<SafePath<'static>> {
    let mut codings = [Coding::Gzip, Coding::Br, Coding::Zstd].into_iter();
    let name = codings.find_map(|coding| path.as_str().strip_suffix(coding.extension()))?;
    SafePath::from_decoded(&["/", name].concat()).ok().filter(|name| !name.is_folder())
}

/// The strictest verdict of the lists, each of which is that of its first rule that matches and decides.
fn evaluate<'s>(lists: &'s [Rules], path: &SafePath<'_>, facts: Facts<'_>) -> Verdict<'s> {
    let first = |rules: &'s Rules| {
        rules.iter().filter(|rule| rule.matches(path, facts)).find_map(|rule| rule.verdict())
    };
    lists.iter().filter_map(first).fold(Verdict::Allow(None), Verdict::and)
}

impl ClientAddress {
    fn is_in(self, networks: &Networks) -> bool {
        match self {
            ClientAddress::Ip(ip) => networks.contains(Some(ip)),
            ClientAddress::Unix => networks.contains(None),
            ClientAddress::Unknown => false,
        }
    }
}

impl Rule {
    fn matches(&self, path: &SafePath<'_>, facts: Facts<'_>) -> bool {
        self.conditions.iter().all(|condition| condition.holds(path, facts))
    }

    /// `None`: it decides nothing.
    fn verdict(&self) -> Option<Verdict<'_>> {
        match self.action {
            Action::Allow => Some(Verdict::Allow(Some(self))),
            Action::Deny(status) => Some(Verdict::Deny(status, self)),
            Action::Redirect(ref redirect) => Some(Verdict::Deny(redirect.status, self)),
            Action::Authenticate => Some(Verdict::Authenticate(self)),
            Action::Limit(_) => None,
        }
    }

    fn depends_on_client(&self, path: &SafePath<'_>) -> bool {
        let is_same_for_all =
            |condition: &Condition| matches!(condition, Condition::Path(_) | Condition::Host(_));
        self.is_for(path)
            && (self.action == Action::Authenticate || !self.conditions.iter().all(is_same_for_all))
    }

    /// Whether it may decide about a request for this path.
    pub fn may_decide(&self, path: &SafePath<'_>) -> bool {
        self.verdict().is_some() && self.is_for(path)
    }

    /// A path that it is for. `None`: none was found.
    pub fn example(&self) -> Option<SafePath<'static>> {
        let patterns = self.conditions.iter().find_map(|condition| match condition {
            Condition::Path(patterns) => Some(&*patterns.include),
            _ => None,
        });
        let own = patterns.unwrap_or_default().iter().filter_map(Pattern::example);
        own.chain(Pattern::EVERYTHING.example()).find(|path| self.is_for(path))
    }

    fn is_for(&self, path: &SafePath<'_>) -> bool {
        self.conditions.iter().all(|condition| match condition {
            Condition::Path(patterns) => patterns.matches(|own| matches_path(own, path)),
            _ => true,
        })
    }

    /// Whether it may deny some client a request with this method and path.
    pub fn may_deny(&self, method: &str, path: &SafePath<'_>) -> bool {
        let may_hold = |condition: &Condition| match condition {
            Condition::Method(methods) => methods.matches(|own| covers_method(own, method)),
            Condition::Path(patterns) => patterns.matches(|own| matches_path(own, path)),
            _ => true,
        };
        matches!(self.action, Action::Deny(_) | Action::Redirect(_) | Action::Authenticate)
            && self.conditions.iter().all(may_hold)
    }

    /// Whether it asks for facts of the TLS connection.
    pub fn asks_for_tls(&self) -> bool {
        let asks =
            |condition: &Condition| matches!(condition, Condition::TlsVersion(_) | Condition::Certificate(_));
        self.conditions.iter().any(asks)
    }

    /// Whether it asks for the address that the connection was made to.
    pub fn asks_for_server_address(&self) -> bool {
        self.conditions.iter().any(|condition| matches!(condition, Condition::ServerAddress { .. }))
    }

    /// Whether it asks for the path, so that it may decide otherwise for the entries of a folder than for the folder.
    pub fn asks_for_path(&self) -> bool {
        self.conditions.iter().any(|condition| matches!(condition, Condition::Path(_)))
    }
}

/// A query as applications read it. `None`: it has no escapes.
fn decoded(query: &[u8]) -> Option<Vec<u8>> {
    if !query.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return None;
    }
    let mut decoded = Vec::with_capacity(query.len());
    let mut rest = query;
    while let [first, behind @ ..] = rest {
        rest = behind;
        decoded.push(match (first, hex_byte(behind)) {
            (b'%', Some(byte)) => {
                rest = &behind[2..];
                byte
            }
            (b'+', _) => b' ',
            (byte, _) => *byte,
        });
    }
    Some(decoded)
}

impl Condition {
    fn holds(&self, path: &SafePath<'_>, facts: Facts<'_>) -> bool {
        let head = facts.head;
        match self {
            Condition::Address { within, except } => {
                within.as_ref().is_none_or(|within| facts.client.is_in(within)) && !facts.client.is_in(except)
            }
            Condition::ServerAddress { within, except } => facts.server.is_some_and(|server| {
                let server = Some(server.to_canonical());
                within.as_ref().is_none_or(|within| within.contains(server)) && !except.contains(server)
            }),
            Condition::Method(methods) => methods.matches(|own| covers_method(own, facts.method)),
            Condition::Host(names) => names.matches(|own| own.matches(name_of(head.authority))),
            Condition::Path(patterns) => patterns.matches(|own| matches_path(own, path)),
            Condition::Query(queries) => {
                let sent = head.target.query().unwrap_or_default().as_bytes();
                let decoded = decoded(sent);
                let matches = |own: &Wildcard| {
                    own.matches(sent) || decoded.as_ref().is_some_and(|decoded| own.matches(decoded))
                };
                queries.matches(matches)
            }
            Condition::Referer(referers) => {
                let value = head.value("referer").unwrap_or_default();
                referers.matches(|own| own.matches(value, head))
            }
            Condition::UserAgent(agents) => {
                let value = head.value("user-agent").unwrap_or_default();
                agents.matches(|own| own.matches(value))
            }
            Condition::Field(name, values) => {
                let of_name = head.fields.iter().filter(|field| is_name(field.name, name));
                let mut given = of_name.map(|field| field.value).peekable();
                match given.peek() {
                    None => values.matches(|own| own.matches(b"")),
                    Some(_) => given.any(|value| values.matches(|own| own.matches(value))),
                }
            }
            Condition::Tls(expected) => (head.scheme == Scheme::Https) == *expected,
            Condition::TlsVersion(versions) => match facts.tls {
                Tls::On { version, .. } => versions.matches(|own| own == version),
                Tls::Off => false,
            },
            Condition::Certificate(subjects) => match facts.tls {
                Tls::On { subject: Some(subject), .. } => {
                    subjects.matches(|own| own.matches(subject.as_bytes()))
                }
                Tls::On { subject: None, .. } | Tls::Off => false,
            },
            Condition::Time(periods) => periods.iter().any(|period| period.contains(facts.now)),
        }
    }
}

/// HEAD tells of what GET would have.
fn covers_method(own: &str, method: &str) -> bool {
    own.eq_ignore_ascii_case(method) || own.eq_ignore_ascii_case("GET") && method.eq_ignore_ascii_case("HEAD")
}

/// A pattern for one path is for it as a folder, too.
fn matches_path(pattern: &Pattern, path: &SafePath<'_>) -> bool {
    if pattern.matches(path) {
        return true;
    }
    matches!(pattern, Pattern::Exact(exact) if path.as_str().strip_suffix('/') == Some(exact))
}

impl<T> Selection<T> {
    fn matches(&self, is: impl Fn(&T) -> bool) -> bool {
        (self.include.is_empty() || self.include.iter().any(&is)) && !self.except.iter().any(is)
    }
}

impl Referer {
    fn matches(&self, value: &[u8], head: &Head<'_>) -> bool {
        let host = || {
            let rest = value.splitn(2, |byte| *byte == b'/').nth(1).and_then(|rest| rest.strip_prefix(b"/"));
            let authority = rest.unwrap_or_default().split(|byte| matches!(byte, b'/' | b'?' | b'#')).next();
            let authority = authority.unwrap_or_default();
            let behind_user = authority.iter().rposition(|byte| *byte == b'@').map_or(0, |at| at + 1);
            name_of(&authority[behind_user..])
        };
        match self {
            Referer::Absent => value.is_empty(),
            Referer::Own => !value.is_empty() && host().eq_ignore_ascii_case(name_of(head.authority)),
            Referer::Host(own) => !value.is_empty() && own.matches(host()),
            Referer::Url(own) => own.matches(value),
        }
    }
}

impl Period {
    fn contains(&self, now: i64) -> bool {
        let second = now.rem_euclid(SECONDS_OF_DAY) as u32;
        let day = (now.div_euclid(SECONDS_OF_DAY) + FIRST_WEEKDAY).rem_euclid(7);
        let is_on = |day: i64| self.days >> day & 1 == 1;
        let is_overnight = self.to <= self.from;
        match is_overnight {
            false => is_on(day) && (self.from..self.to).contains(&second),
            // What began on the day before goes on.
            true => (is_on(day) && second >= self.from) || (is_on((day + 6) % 7) && second < self.to),
        }
    }
}
