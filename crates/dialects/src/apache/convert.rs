//! What httpd.conf becomes: the settings of the server, and its hosts.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use site::address::without_brackets;

use crate::Conversion;
use crate::disk::Disk;
use crate::document::Value;
use crate::draft::{Draft, Host, Listen, Scope};
use crate::tree::{Directive, Place, unconverted};

use super::cache_control;
use super::choices;
use super::host::{Site, World, log_target};
use super::names::{KNOWN, OF_TOP};
use super::proxy;
use super::read::Reader;

/// A name of a format, and the format that is most like it.
type Formats = Vec<(String, &'static str)>;

/// Reads the file. `.htaccess` is one of the folder that it is in.
pub fn convert(file: &Path, disk: &dyn Disk) -> Conversion {
    let mut draft = Draft::default();
    let folder = disk.folder_of(file);
    match disk.read(file) {
        Ok(bytes) => {
            let mut reader = Reader::new(disk, &folder);
            let tree = reader.read(&bytes, &Place::at, 0, &mut draft);
            let tree = choices::resolved(tree, &mut draft);
            let mut tree = KNOWN.kept(tree, &[], &mut draft);
            let is_of_folder = file.file_name().is_some_and(|name| name == ".htaccess");
            if is_of_folder {
                tree = around(tree, &folder);
            }
            server(&tree, reader, disk, &mut draft);
            if is_of_folder {
                draft.hosts.iter_mut().for_each(to_https);
            }
        }
        Err(error) => draft.findings.unreadable(&error),
    }
    draft.top.preset("compress", false, "Apache compresses nothing without mod_deflate.");
    draft.top.preset("precompressed", Vec::<String>::new(), "nor does it look for compressed files.");
    draft.top.preset("charset", false, "Apache names no charset.");
    draft.top.preset(
        "dotfiles",
        "allow",
        "Apache sends files whose name begins with a dot. \"deny\" is safer.",
    );
    draft.allow_scripts_as_before("Apache takes nothing from its scripts.");
    draft.log_in_local_time("Apache has the time of the machine.");
    draft.written(file.to_owned(), "Apache")
}

/// The way to HTTPS of a folder, whose server may have TLS as well.
fn to_https(host: &mut Host) {
    if !std::mem::take(&mut host.is_to_https) {
        return;
    }
    let place = host.scope.place();
    let mut rule = Scope::new(place.line);
    rule.set(&place, "tls", false);
    rule.set(&place, "then", "redirect");
    rule.set(&place, "to", "https://$host$path$query");
    rule.set(&place, "status", host.https_status.take().unwrap_or(301));
    host.scope.rules.insert(0, rule);
}

/// The file of a folder as a server that has nothing else.
fn around(tree: Vec<Directive>, folder: &Path) -> Vec<Directive> {
    let place = Place::at(1);
    let folder = folder.to_string_lossy().into_owned();
    let one = |name: &str, block| Directive {
        name: name.to_owned(),
        arguments: vec![folder.clone()],
        block,
        place: place.clone(),
    };
    let listen = Directive { arguments: vec!["80".to_owned()], ..one("listen", None) };
    vec![listen, one("documentroot", None), one("directory", Some(tree))]
}

fn server(tree: &[Directive], reader: Reader, disk: &dyn Disk, draft: &mut Draft) {
    let root = reader.root.clone();
    let path = |text: &str| root.join(text).to_string_lossy().into_owned();
    let formats = formats(tree);
    let mut listens = Vec::new();
    let mut of_hosts = Vec::new();
    for directive in tree {
        match directive.name.as_str() {
            "listen" => match listen_address(directive.argument(0)) {
                Some(address) => listens.push(address),
                None => {
                    draft.error(&directive.place, unconverted(directive), "write an IP address and a port")
                }
            },
            "virtualhost" | "logformat" => {}
            "customlog" | "transferlog" => main_log(directive, &formats, &path, draft),
            _ if global(directive, &path, draft) => {}
            _ => of_hosts.push(directive),
        }
    }
    let is_balancer = |directive: &&Directive| directive.name == "proxy" || directive.name == "virtualhost";
    let mut balancers = Vec::new();
    for section in tree.iter().filter(is_balancer) {
        let inner = section.children().iter().filter(|child| child.name == "proxy");
        for one in inner.chain(std::iter::once(section).filter(|section| section.name == "proxy")) {
            balancers.extend(proxy::balancer(one, draft));
        }
    }
    let reader = RefCell::new(reader);
    let world = World { disk, reader: &reader, balancers: &balancers, path: &path };
    let sections: Vec<&Directive> = tree.iter().filter(|directive| directive.name == "virtualhost").collect();
    let mut used: Vec<(Option<IpAddr>, u16)> = Vec::new();
    for section in &sections {
        let own = addresses(section, &listens, draft);
        used.extend(own.iter().copied());
        let of_section = section.children().iter().collect();
        host(&section.place, &own, &of_hosts, of_section, &world, draft);
    }
    // The server itself responds where no virtual host does.
    let rest: Vec<_> = match sections.is_empty() && listens.is_empty() {
        true => vec![(None, 80)],
        false => listens.iter().copied().filter(|one| !is_used(*one, &used)).collect(),
    };
    if !rest.is_empty() {
        host(&Place::at(1), &rest, &of_hosts, Vec::new(), &world, draft);
    }
    if let Some(first) = draft.hosts.first_mut() {
        first.is_default = true;
    }
    cache_control::settle(draft);
    times_of_programs(draft);
}

/// `ExpiresDefault` and the time of pages count for what programs and upstreams respond, too, if that says nothing itself.
fn times_of_programs(draft: &mut Draft) {
    let is_of_all = |(selector, _): &(String, Value)| matches!(selector.as_str(), "/" | "text/html");
    let mut lines = Vec::new();
    for host in &draft.hosts {
        let has_programs = host.routes.iter().any(|route| route.runs() || route.get("proxy").is_some());
        let scopes = host.routes.iter().chain([&host.scope]).filter(|_| has_programs);
        let found = scopes.filter(|scope| scope.pairs("cache_control").iter().any(is_of_all));
        lines.extend(found.filter_map(|scope| scope.line_of("cache_control")));
    }
    lines.sort_unstable();
    lines.dedup();
    for line in lines {
        let what = "the time of Expires is for files alone, and not for scripts and upstreams";
        draft.warn(
            &Place::at(line),
            what,
            "let them send Cache-Control, or write it in headers of their route",
        );
    }
}

/// Whether a virtual host responds at this address.
fn is_used((ip, port): (Option<IpAddr>, u16), used: &[(Option<IpAddr>, u16)]) -> bool {
    used.iter().any(|(own, listened)| *listened == port && (own.is_none() || ip.is_none() || *own == ip))
}

/// A host with these directives of the server, and its own.
fn host<'w>(
    place: &Place,
    addresses: &[(Option<IpAddr>, u16)],
    shared: &[&Directive],
    own: Vec<&Directive>,
    world: &'w World<'w, 'w>,
    draft: &mut Draft,
) {
    let mut site = Site::new(place, world);
    let all = || shared.iter().chain(&own).copied();
    let engine = all().rfind(|directive| directive.name == "sslengine");
    let is_secure = engine.is_some_and(|engine| !engine.argument(0).eq_ignore_ascii_case("off"));
    for (ip, port) in addresses {
        let all = [IpAddr::from([0, 0, 0, 0]), IpAddr::from([0_u16; 8])];
        for ip in ip.map_or(all.to_vec(), |ip| vec![ip]) {
            let address = SocketAddr::new(ip, *port).to_string();
            site.host.listens.push(Listen { address, tls: is_secure, proxy: false });
        }
    }
    // The name of the server is not that of its virtual hosts.
    let is_named = own.iter().any(|directive| directive.name == "servername");
    let is_name = |directive: &Directive| matches!(directive.name.as_str(), "servername" | "serveralias");
    let shared = shared.iter().filter(|directive| own.is_empty() && !is_named || !is_name(directive));
    for directive in shared.chain(&own) {
        let is_top =
            own.iter().any(|one| std::ptr::eq(*one, *directive)) && global(directive, world.path, draft);
        if !is_top && !site.add(directive, draft) {
            draft.error(
                &directive.place,
                unconverted(directive),
                "remove it, or find its like in the manual",
            );
        }
    }
    let host = site.into_host(draft);
    draft.hosts.push(host);
}

/// What holds for the whole server. `false`: it is something else.
fn global(directive: &Directive, path: &dyn Fn(&str) -> String, draft: &mut Draft) -> bool {
    let place = &directive.place;
    let first = directive.argument(0);
    let number = first.parse::<i64>().ok();
    match directive.name.as_str() {
        "user" | "group" => draft.top.set(place, &directive.name, first.trim_start_matches('#')),
        "pidfile" => draft.top.set(place, "pid_file", path(first)),
        "chrootdir" => draft.top.set(place, "chroot", path(first)),
        "errorlog" => match log_target(first, path) {
            Some(target) => draft.log.set(place, "error", target),
            None => draft.error(place, unconverted(directive), "write a file; see [log]"),
        },
        "loglevel" => {
            let level = match directive.arguments.iter().find(|word| !word.contains(':')).map(String::as_str)
            {
                Some("emerg" | "alert" | "crit" | "error") => "error",
                Some("warn") => "warn",
                Some("notice" | "info") => "info",
                _ => "debug",
            };
            draft.log.set(place, "level", level);
        }
        "keepalive" if first.eq_ignore_ascii_case("off") => draft.limits.set(place, "requests", 1),
        "keepalive" => {}
        "maxkeepaliverequests"
        | "keepalivetimeout"
        | "timeout"
        | "maxrequestworkers"
        | "maxclients"
        | "limitrequestfields"
        | "limitrequestline"
        | "limitrequestfieldsize" => match number.filter(|number| *number >= 0) {
            Some(number) => limit(&directive.name, number, place, draft),
            None => draft.error(place, unconverted(directive), "write a number"),
        },
        "remoteipheader" | "remoteipproxiesheader" => {}
        "remoteiptrustedproxy" | "remoteipinternalproxy" => {
            let mut all = match draft.top.get("trusted_proxies") {
                Some(crate::document::Value::Texts(all)) => all.clone(),
                _ => Vec::new(),
            };
            all.extend(directive.arguments.iter().cloned());
            draft.top.set(place, "trusted_proxies", all);
        }
        name if OF_TOP.contains(&name) => {}
        _ => return false,
    }
    true
}

fn limit(name: &str, number: i64, place: &Place, draft: &mut Draft) {
    match name {
        "maxkeepaliverequests" => draft.limits.set(place, "requests", number.min(1_000_000)),
        "keepalivetimeout" => draft.timeouts.set(place, "idle", number.clamp(1, 86_400)),
        "timeout" => {
            for key in ["body", "write"] {
                draft.timeouts.set(place, key, number.clamp(1, 86_400));
            }
        }
        "limitrequestfields" => draft.limits.set(place, "fields", number.clamp(1, 100)),
        "limitrequestline" => draft.limits.set(place, "target", number.clamp(64, 65_536)),
        "limitrequestfieldsize" => {
            draft.note(
                place,
                "a field has no limit of its own",
                "see head in [limits], which is for all of them",
            );
        }
        _ => draft.limits.set(place, "connections", number.clamp(1, 1_000_000)),
    }
}

fn formats(tree: &[Directive]) -> Formats {
    let is_format = |directive: &&Directive| directive.name == "logformat" && directive.arguments.len() == 2;
    let kind = |text: &str| {
        if text.contains("User-Agent") || text.contains("user-agent") { "combined" } else { "common" }
    };
    tree.iter()
        .filter(is_format)
        .map(|format| (format.argument(1).to_owned(), kind(format.argument(0))))
        .collect()
}

fn main_log(directive: &Directive, formats: &Formats, path: &dyn Fn(&str) -> String, draft: &mut Draft) {
    let place = &directive.place;
    let Some(target) = log_target(directive.argument(0), path) else {
        return draft.error(place, unconverted(directive), "write a file; see [log]");
    };
    let name = directive.argument(1);
    let known = formats.iter().find(|(known, _)| known == name).map(|(_, format)| *format);
    let format = known.unwrap_or(if name.contains("User-Agent") { "combined" } else { "common" });
    if directive.arguments.len() > 2 {
        draft.warn(place, "a log has no condition", "every request has a line");
    }
    draft.log.set(place, "access", target);
    draft.log.set(place, "format", format);
}

/// `80`, `192.0.2.1:80`, `[::1]:80`, `*:80`. No address: all of them.
fn listen_address(text: &str) -> Option<(Option<IpAddr>, u16)> {
    if let Ok(port) = text.parse::<u16>() {
        return Some((None, port));
    }
    let (address, port) = text.rsplit_once(':')?;
    let port = if port == "*" { 0 } else { port.parse().ok()? };
    match address {
        "*" | "_default_" => Some((None, port)),
        address => Some((Some(without_brackets(address).parse().ok()?), port)),
    }
}

/// The addresses of a virtual host. Without a port of its own, it has those of the server.
fn addresses(
    section: &Directive,
    listens: &[(Option<IpAddr>, u16)],
    draft: &mut Draft,
) -> Vec<(Option<IpAddr>, u16)> {
    let mut all = Vec::new();
    for text in &section.arguments {
        let whole =
            if text.contains(':') && !text.ends_with(']') { text.clone() } else { format!("{text}:*") };
        match listen_address(&whole) {
            Some((ip, 0)) => all.extend(listens.iter().map(|(own, port)| (ip.or(*own), *port))),
            // An address of the server is meant where it is the only one of this port.
            Some((None, port)) => {
                let own = listens.iter().filter(|(_, listened)| *listened == port);
                let own: Vec<_> = own.copied().collect();
                all.extend(if own.is_empty() { vec![(None, port)] } else { own });
            }
            Some(one) => all.push(one),
            None => draft.error(
                &section.place,
                format!("the address {text} cannot be converted"),
                "write an IP address and a port",
            ),
        }
    }
    all
}
