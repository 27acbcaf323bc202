//! Reads the key `proxy` of routes, and the keys about requests to upstreams that speak HTTP. An upstream of addresses
//! alone needs no section: routes with the same addresses share one.

use std::collections::{BTreeMap, BTreeSet};

use taipan_http::fields::{is_authority, is_token};
use taipan_http::target::Scheme;

use super::error::{Errors, Place};
use super::fields::{field_name, is_field_value, reject_second_rule};
use super::health;
use super::keys::Scope;
use super::section::{Given, Section, table, text};
use super::toml::{Entry, Node, Table, Value};
use crate::balance::{Balance, Hedging};
use crate::endpoint::EndpointAddress;
use crate::forwarding::{Authority, Bodies, Forwarding, PassedTrailers, ProxyUrl, Replacement, Spelling};
use crate::health::{Breaker, Health};
use crate::host::Hosts;
use crate::model::{Action, HeaderRule, Route};
use crate::route::Pattern;
use crate::upstream::{Endpoints, External, Protocol, Upstream, UpstreamId, UpstreamTls};

/// Connections to each address, over all workers.
const CONNECTIONS: usize = 64;
/// Addresses of one upstream.
const MAX_ADDRESSES: usize = 64;
/// Keys of a route whose upstream speaks HTTP.
const KEYS: [&str; 11] = [
    "proxy_balance",
    "proxy_hedge_after",
    "proxy_hedge_budget",
    "proxy_health",
    "proxy_breaker",
    "proxy_path",
    "proxy_host",
    "proxy_headers",
    "proxy_upgrade",
    "proxy_trailers",
    "request_buffering",
];
/// Those that an application has in its own section, and what to write there.
const OF_APPLICATIONS: [(&str, &str); 5] = [
    ("proxy_balance", "write it as \"balance\" in the [[application]]"),
    ("proxy_hedge_after", "write it as \"hedge_after\" in the [[application]]"),
    ("proxy_hedge_budget", "write it as \"hedge_budget\" in the [[application]]"),
    ("proxy_health", "write it as [application.health]"),
    ("proxy_breaker", "write it as [application.breaker]"),
];
/// The key of an application that says which endpoint a request goes to. Its place is recorded by the upstream's name.
pub const BALANCE: &str = "balance";
/// The protocol that a route forwards by default.
const WEBSOCKET: &str = "websocket";
/// Fields of a request that the server writes itself, and what to do instead.
const OWN_FIELDS: [(&str, &str); 10] = [
    ("connection", "the server sets it"),
    ("content-length", "the server sets it"),
    ("expect", "the server answers it itself"),
    ("host", "see \"proxy_host\""),
    ("keep-alive", "the server sets it"),
    ("te", "the server sets it"),
    ("trailer", "the server sets it"),
    ("transfer-encoding", "the server sets it"),
    ("upgrade", "the server sets it"),
    ("via", "the server sets it"),
];

/// Adds the upstreams that routes name by their addresses. Errors are reported where the routes are read.
pub fn add_upstreams(top: &Section, upstreams: &mut Vec<Upstream>, max: usize) {
    let hosts = tables(top.table, "host");
    let routes = hosts.iter().chain([&top.table]).flat_map(|host| tables(host, "route"));
    for (route, entry) in routes.filter_map(|route| Some((route, route.get("proxy")?))) {
        let urls: Option<Vec<Given<&str>>> = match &entry.node.value {
            Value::Array(nodes) => nodes.iter().map(given).collect(),
            _ => given(&entry.node).map(|url| vec![url]),
        };
        let urls = urls.unwrap_or_default();
        let Some(scheme) = urls.first().and_then(|url| Some(ProxyUrl::parse(url.value).ok()?.scheme)) else {
            continue;
        };
        let addresses = urls.iter().map(|url| address(url, upstreams)).collect::<Result<Vec<_>, _>>();
        let addresses: Vec<EndpointAddress> = addresses.unwrap_or_default().into_iter().flatten().collect();
        let section = Section { scope: Scope::Route, table: route, errors: top.errors };
        let distribution = Distribution::of(&section);
        check_choice(&section, ["proxy_hedge_after", "proxy_balance"], &addresses);
        if addresses.is_empty() || find(upstreams, scheme, &addresses, &distribution).is_some() {
            continue;
        }
        if upstreams.len() == max {
            let what = format!("there are more than {max} applications and other upstreams");
            return top.errors.add(&entry.place, what, "let routes share them");
        }
        let url = |address| format!("{}://{address}", scheme.as_str());
        let urls: Vec<String> = addresses.iter().map(url).collect();
        let endpoints = Endpoints::External(External { addresses, connections: CONNECTIONS });
        let tls = (scheme == Scheme::Https).then(Box::<UpstreamTls>::default);
        let Distribution { balance, health, breaker, hedging } = distribution;
        if let Some(balance) = route.get("proxy_balance") {
            top.errors.mark(BALANCE, urls.join(", "), &balance.node.place);
        }
        upstreams.push(Upstream {
            tls,
            balance,
            health,
            breaker,
            hedging,
            ..Upstream::new(urls.join(", "), Protocol::Http, endpoints)
        });
    }
}

/// What a route says of the endpoints that it names by their addresses. Routes with the same share an upstream.
struct Distribution {
    balance: Balance,
    health: Health,
    breaker: Option<Breaker>,
    hedging: Option<Hedging>,
}

impl Distribution {
    fn of(section: &Section) -> Distribution {
        Distribution {
            balance: balance(section, "proxy_balance"),
            health: health::health(section, "proxy_health", Protocol::Http),
            breaker: health::breaker(section, "proxy_breaker"),
            hedging: hedging(section, ["proxy_hedge_after", "proxy_hedge_budget", "proxy_balance"]),
        }
    }
}

fn tables<'c>(table_of: &'c Table, name: &str) -> Vec<&'c Table> {
    match table_of.get(name).map(|entry| &entry.node.value) {
        Some(Value::Array(nodes)) => nodes.iter().filter_map(table).collect(),
        _ => Vec::new(),
    }
}

fn given(node: &Node) -> Option<Given<'_, &str>> {
    Some(Given { place: &node.place, value: text(node)? })
}

/// `None`: the URL names an application. Errors say what to write instead.
fn address(url: &Given<&str>, upstreams: &[Upstream]) -> Result<Option<EndpointAddress>, String> {
    let ProxyUrl { scheme, authority, .. } = ProxyUrl::parse(url.value)?;
    let port = Some(scheme.default_port());
    let (text, address) = match authority {
        Authority::Name(name) if upstreams.iter().any(|upstream| upstream.name == name) => return Ok(None),
        // Without a dot or a port, it is meant as that of an application.
        Authority::Name(name) if !name.contains('.') && name != "localhost" => return Ok(None),
        Authority::Name(text) | Authority::Address(text) => {
            (text, EndpointAddress::parse(text, url.place.folder(), port)?)
        }
    };
    match (scheme, address.certified_name()) {
        (Scheme::Https, None) => Err(format!(
            "add an [[application]] with protocol = \"https\", address = \"{}\" and tls_name, the name in its certificate",
            text.escape_debug()
        )),
        _ => Ok(Some(address)),
    }
}

fn find(
    upstreams: &[Upstream],
    scheme: Scheme,
    addresses: &[EndpointAddress],
    distribution: &Distribution,
) -> Option<UpstreamId> {
    upstreams.iter().position(|upstream| {
        let is_same =
            |external: &External| external.addresses == addresses && upstream.scheme() == scheme.as_str();
        upstream.is_of_route()
            && upstream.balance == distribution.balance
            && upstream.health == distribution.health
            && upstream.breaker == distribution.breaker
            && upstream.hedging == distribution.hedging
            && matches!(&upstream.endpoints, Endpoints::External(own) if is_same(own))
    })
}

/// How requests are distributed over the endpoints of an upstream.
pub fn balance(section: &Section, key: &str) -> Balance {
    let Some(given) = section.text(key) else { return Balance::default() };
    Balance::parse(given.value).unwrap_or_else(|what_to_do| {
        let what = format!("\"{key}\" cannot be \"{}\"", given.value.escape_debug());
        section.errors.add(given.place, what, what_to_do);
        Balance::default()
    })
}

/// Warns where a host has several upstreams with the same cookie of `sticky`: each replaces the one that the other has
/// set, so that no client stays at an endpoint. Those of the same addresses share it.
pub fn check_cookies(hosts: &Hosts, upstreams: &[Upstream], errors: &Errors) {
    for host in hosts.iter() {
        let mut by_cookie: BTreeMap<&str, &Upstream> = BTreeMap::new();
        for upstream in host.routes.iter().filter_map(Route::upstream).filter_map(|id| upstreams.get(id)) {
            let Balance::Sticky(cookie) = &upstream.balance else { continue };
            let first = *by_cookie.entry(cookie).or_insert(upstream);
            if addresses(first) != addresses(upstream)
                && let Some(place) = errors.place_of(&[BALANCE], &upstream.name)
            {
                let what = format!("{upstream} has the cookie \"{cookie}\" of {first}, on the same host");
                errors.warn(&place, what, "name another cookie, as in \"sticky NAME\"");
            }
        }
    }
}

fn addresses(upstream: &Upstream) -> BTreeSet<String> {
    match &upstream.endpoints {
        Endpoints::External(external) => external.addresses.iter().map(EndpointAddress::to_string).collect(),
        Endpoints::Managed(_) => BTreeSet::new(),
    }
}

/// When requests have a second endpoint. The keys: of the time, of the budget, and of the balance.
pub fn hedging(section: &Section, [after, budget, balance]: [&'static str; 3]) -> Option<Hedging> {
    let Some(time) = section.duration(after) else {
        if !section.has(after) {
            let what = format!("has no \"{after}\" beside it");
            section.reject_keys(&[budget], &what, &format!("add \"{after}\", or remove it"));
        }
        return None;
    };
    let given = section.text(balance).and_then(|given| Balance::parse(given.value).ok());
    if given.is_some_and(|given| given.has_affinity()) {
        let what = format!("sends requests to another endpoint than \"{balance}\" says");
        section.reject_keys(&[after], &what, &format!("remove it, or write {balance} = \"least\""));
    }
    Some(Hedging { after: time, budget: section.count(budget).unwrap_or(Hedging::BUDGET) })
}

/// Warns of keys that choose between endpoints where there is only one: an address. A name may have several.
pub fn check_choice(section: &Section, [hedging, balance]: [&'static str; 2], addresses: &[EndpointAddress]) {
    if !matches!(addresses, [EndpointAddress::Socket(_)]) {
        return;
    }
    let given = section.text(balance).and_then(|given| Balance::parse(given.value).ok());
    let keeps_clients = given.is_some_and(|given| given.has_affinity());
    let keys = [hedging, balance].into_iter().filter(|key| *key != balance || keeps_clients);
    for key in keys.filter(|key| section.has(key)) {
        let what = format!("\"{key}\" chooses between endpoints, and there is one");
        section.errors.warn(section.place_of(key), what, "add other addresses, or remove it");
    }
}

/// The action of a route with `proxy`. `None`: after an error.
pub fn action(section: &Section, upstreams: &[Upstream]) -> Option<Action> {
    let urls = section.texts("proxy")?;
    let place = section.place_of("proxy");
    if urls.is_empty() || urls.len() > MAX_ADDRESSES {
        let what = format!("\"proxy\" has {} URLs", urls.len());
        section.errors.add(place, what, format!("name 1 to {MAX_ADDRESSES}"));
        return None;
    }
    let mut addresses = Vec::new();
    let mut scheme = None;
    for url in &urls {
        let what = || format!("\"{}\" is not the URL of an upstream", url.value.escape_debug());
        let parsed = ProxyUrl::parse(url.value).map_err(str::to_owned);
        match parsed.and_then(|parsed| Ok((parsed, address(url, upstreams)?))) {
            Err(what_to_do) => {
                section.errors.add(url.place, what(), what_to_do);
                return None;
            }
            Ok((parsed, Some(_)))
                if scheme.replace(parsed.scheme).is_some_and(|other| other != parsed.scheme) =>
            {
                section.errors.add(url.place, what(), "write all URLs with http://, or all with https://");
                return None;
            }
            Ok((_, Some(address))) if addresses.contains(&address) => {
                section.errors.add(url.place, format!("{address} is given twice"), "remove one of them");
                return None;
            }
            Ok((_, Some(address))) => {
                section.mark_socket("proxy", &address, url.place);
                addresses.push(address);
            }
            Ok((ProxyUrl { authority: Authority::Name(name), scheme, .. }, None)) if urls.len() == 1 => {
                for (key, what_to_do) in OF_APPLICATIONS {
                    section.reject_keys(&[key], "belongs to the application", what_to_do);
                }
                return application(section, name, scheme, url.place, upstreams);
            }
            Ok(_) => {
                let what_to_do = "an application has all addresses: name it alone, or name addresses alone";
                section.errors.add(url.place, what(), what_to_do);
                return None;
            }
        }
    }
    find(upstreams, scheme?, &addresses, &Distribution::of(section)).map(Action::Upstream)
}

fn application(
    section: &Section,
    name: &str,
    scheme: Scheme,
    place: &Place,
    upstreams: &[Upstream],
) -> Option<Action> {
    let (what, what_to_do) = match upstreams.iter().position(|upstream| upstream.name == name) {
        Some(id) if upstreams[id].protocol == Protocol::Http && upstreams[id].scheme() == scheme.as_str() => {
            return Some(Action::Upstream(id));
        }
        Some(id) if upstreams[id].protocol == Protocol::Http => (
            format!("the application \"{}\" is not reached by {}", name.escape_debug(), scheme.as_str()),
            format!("write \"{}://{}\"", upstreams[id].scheme(), name.escape_debug()),
        ),
        Some(_) => (
            format!("the application \"{}\" does not speak HTTP", name.escape_debug()),
            "name it as \"application\", or set its protocol = \"http\"".to_owned(),
        ),
        None => (
            format!("there is no application \"{}\"", name.escape_debug()),
            format!(
                "add a port if it is the name of a host: \"{}://{}:{}\"; or add an [[application]] of this name",
                scheme.as_str(),
                name.escape_debug(),
                scheme.default_port()
            ),
        ),
    };
    section.errors.add(place, what, what_to_do);
    None
}

/// How a route sends requests to its upstream.
pub fn forwarding(
    section: &Section,
    pattern: &Pattern,
    id: UpstreamId,
    upstreams: &[Upstream],
) -> Forwarding {
    if upstreams.get(id).is_none_or(|upstream| upstream.protocol != Protocol::Http) {
        reject_without_upstream(section);
        return Forwarding::default();
    }
    Forwarding {
        upgrades: upgrades(section),
        spelling: match section.choice("proxy_path") {
            Some("raw") => Spelling::Raw,
            _ => Spelling::Normalized,
        },
        path: replacement(section, pattern),
        host: host(section),
        fields: fields(section),
        bodies: match section.flag("request_buffering") {
            Some(true) => Bodies::Buffered,
            Some(false) => Bodies::Streamed,
            None => Bodies::Sized,
        },
        trailers: match section.choice("proxy_trailers") {
            Some("responses") => PassedTrailers::Responses,
            Some("none") => PassedTrailers::None,
            _ => PassedTrailers::All,
        },
    }
}

/// HTTP itself cannot be asked for: requests would pass that the server has not read.
fn upgrades(section: &Section) -> Vec<String> {
    let Some(given) = section.texts("proxy_upgrade") else { return vec![WEBSOCKET.to_owned()] };
    for given in &given {
        let (name, _) = given.value.split_once('/').unwrap_or((given.value, "1"));
        let is_http = ["h2", "h2c", "http", "tls"].iter().any(|own| name.eq_ignore_ascii_case(own));
        let is_name = given.value.split('/').count() <= 2
            && given.value.split('/').all(|part| is_token(part.as_bytes()));
        if is_http || !is_name {
            let what = format!("\"proxy_upgrade\" cannot have \"{}\"", given.value.escape_debug());
            section.errors.add(
                given.place,
                what,
                "name a protocol such as \"websocket\", but not HTTP or TLS",
            );
        }
    }
    given.into_iter().map(|given| given.value.to_owned()).collect()
}

pub fn reject_without_upstream(section: &Section) {
    let what = "is for a route whose upstream speaks HTTP";
    section.reject_keys(&KEYS, what, "add \"proxy\", or an application of this protocol, or remove it");
}

/// The path of the URLs. `None`: they have none, or after an error.
fn replacement(section: &Section, pattern: &Pattern) -> Option<Replacement> {
    let urls = if section.has("proxy") { section.texts("proxy")? } else { return None };
    let mut paths = urls.iter().filter_map(|url| Some((url, ProxyUrl::parse(url.value).ok()?.path)));
    let (first, path) = paths.next()?;
    if let Some((other, _)) = paths.find(|(_, other)| *other != path) {
        let what = format!("the paths of \"{}\" and \"{}\" differ", first.value, other.value.escape_debug());
        section.errors.add(other.place, what, "write the same path in each URL");
        return None;
    }
    if path.is_empty() {
        return None;
    }
    let what_to_do = match pattern {
        Pattern::Prefix(_) if !path.ends_with('/') => {
            "end it with a slash: it replaces the path of the route, which does"
        }
        Pattern::Glob(_) => "leave the path out: that of a pattern with wildcards cannot be replaced",
        Pattern::Prefix(_) | Pattern::Exact(_) => {
            return Some(Replacement { pattern: pattern.clone(), by: path.to_owned() });
        }
    };
    let what = format!("\"{path}\" cannot replace \"{pattern}\"");
    section.errors.add(first.place, what, what_to_do);
    None
}

fn host(section: &Section) -> Option<String> {
    let given = section.text("proxy_host")?;
    if given.value.is_empty() || !is_authority(given.value.as_bytes()) {
        let what = format!("\"proxy_host\" cannot be \"{}\"", given.value.escape_debug());
        section.errors.add(given.place, what, "write a host name, with a port or without");
    }
    Some(given.value.to_owned())
}

fn fields(section: &Section) -> Vec<HeaderRule> {
    let mut rules: Vec<HeaderRule> = Vec::new();
    for entry in section.pairs("proxy_headers") {
        let Some(rule) = field(section, entry) else { continue };
        reject_second_rule(section, entry, &rules, &rule);
        rules.push(rule);
    }
    rules
}

fn field(section: &Section, entry: &Entry) -> Option<HeaderRule> {
    let (key, rule) = field_name(&entry.key);
    let name = key.escape_debug();
    let own = OWN_FIELDS.iter().find(|(own, _)| key.eq_ignore_ascii_case(own));
    let (what, what_to_do) = match (&entry.node.value, own) {
        _ if !is_token(key.as_bytes()) => {
            (format!("\"{name}\" is not a field name"), "expected letters, digits and dashes")
        }
        (_, Some((_, instead))) => (format!("the field \"{name}\" cannot be changed"), *instead),
        (Value::Flag(_), None) if key != entry.key => {
            (format!("\"+{name}\" has no value"), "expected a string; without the + it is removed")
        }
        (Value::Flag(false), None) => return Some(HeaderRule::Remove(key.to_owned())),
        (Value::Text(value), None) if is_field_value(value) => {
            return Some(rule(key.to_owned(), value.clone()));
        }
        (Value::Text(_), None) => (
            format!("the value of \"{name}\" cannot be sent in a field"),
            "remove control characters, and spaces at its ends",
        ),
        (other, None) => (format!("\"{name}\" cannot be {}", other.kind()), "expected a string, or false"),
    };
    section.errors.add(&entry.place, what, what_to_do);
    None
}
