//! `reverse_proxy` and `php_fastcgi`.

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::endpoints::Endpoints;
use crate::tree::{Directive, Place, unconverted};

use super::matchers::Matched;
use super::site::{Site, Way};
use super::tried::{Tried, tried};

/// Of `php_fastcgi`, for paths without a file.
pub(super) const SCRIPT_INDEX: &str = "/index.php";

/// What `reverse_proxy` says.
#[derive(Default)]
struct Proxy {
    /// The keys of the application.
    application: Scope,
    /// The keys of the route.
    route: Scope,
    /// The place where the field Host gets the address of the upstream.
    host_of_upstream: Option<Place>,
    targets: Vec<String>,
    health: Vec<(String, Value)>,
    is_tls: bool,
    is_fastcgi: bool,
}

impl Proxy {
    /// The addresses of the targets, whose schemes say how they are spoken to. `None`: one has no address.
    fn endpoints(&mut self, place: &Place) -> Option<Endpoints> {
        let mut endpoints = Endpoints::default();
        for target in &self.targets {
            self.is_tls |= target.starts_with("https://");
            self.application.remove("http2");
            if target.starts_with("h2c://") {
                self.application.set(place, "http2", true);
            }
            endpoints.add(upstream(target)?, 1);
        }
        Some(endpoints)
    }
}

impl Site<'_> {
    pub(super) fn proxy(&mut self, matched: &Matched, way: &Way, host: &mut Host) {
        let Matched { directive: child, paths, arguments } = matched;
        let place = &child.place;
        let mut proxy = Proxy { application: Scope::new(place.line), ..Proxy::default() };
        proxy.targets.clone_from(arguments);
        for option in child.children() {
            self.proxy_option(option, paths, &mut proxy, host);
        }
        let Some(endpoints) = proxy.endpoints(place) else {
            return self.draft.error(place, unconverted(child), "write an address and a port");
        };
        let Proxy { mut application, mut route, host_of_upstream, health, is_tls, is_fastcgi, .. } = proxy;
        if let Some(place) = host_of_upstream {
            match endpoints.addresses() {
                [address] if !address.starts_with("unix:") => {
                    route.set(&place, "proxy_host", address.as_str())
                }
                _ => self.draft.error(&place, "an upstream with several addresses has one Host", "write it"),
            }
        }
        match endpoints.addresses().len() {
            0 => return self.draft.error(place, "reverse_proxy has no upstream", "name one"),
            1 => application.remove("balance"),
            _ if application.get("balance").is_none() => application.set(place, "balance", "random"),
            _ => {}
        }
        let scheme = match (is_fastcgi, is_tls) {
            (true, false) => "fastcgi",
            (true, true) => {
                return self.draft.error(place, unconverted(child), "FastCGI has no TLS; remove https://");
            }
            (false, true) => "https",
            (false, false) => "http",
        };
        endpoints.set(place, &mut application);
        application.set(place, "protocol", scheme);
        if !health.is_empty() {
            application.set(place, "health", Value::Table(health));
        }
        let name = self.draft.application_of_keys("proxy", application);
        match (is_fastcgi, way.strips) {
            (true, true) => {
                return self.draft.error(place, unconverted(child), "write the whole path, with handle");
            }
            // It runs the files of a folder.
            (true, false) if !paths.is_empty() => route.set(place, "interpreter", name),
            (true, false) => route.set(place, "application", name),
            (false, strips) => {
                route.set(place, "proxy", format!("{scheme}://{name}{}", if strips { "/" } else { "" }));
            }
        }
        self.close_in_other_cases(child, paths);
        self.route(paths, place, host, |scope| scope.inherit(&route));
    }

    fn proxy_option(&mut self, option: &Directive, paths: &[String], proxy: &mut Proxy, host: &mut Host) {
        let place = &option.place;
        let value = option.argument(0);
        let mut health = |key: &str, value: Value| proxy.health.push((key.to_owned(), value));
        match option.name.as_str() {
            "to" => proxy.targets.extend(option.arguments.iter().cloned()),
            "lb_policy" => match balance(option) {
                Some(kind) => proxy.application.set(place, "balance", kind),
                None => self.draft.error(place, unconverted(option), "see balance"),
            },
            "health_uri" => health("path", value.into()),
            "health_interval" => health("interval", value.into()),
            "health_timeout" => health("timeout", value.into()),
            "fail_duration" => health("pause", value.into()),
            "max_fails" => health("failures", value.parse::<i64>().unwrap_or(1).into()),
            "header_up" if option.argument(0).eq_ignore_ascii_case("host") && is_upstream_address(option) => {
                proxy.host_of_upstream = Some(place.clone());
            }
            "header_up" => upstream_field(option, &mut proxy.route, self.draft),
            "header_down" => self.header(option, paths, host),
            "transport" => self.transport(option, proxy),
            "flush_interval" | "trusted_proxies" | "lb_try_duration" | "lb_try_interval" => {
                let what = format!("{} has no effect", option.name);
                self.draft.warn(place, what, "see the manual on proxies");
            }
            _ => self.draft.error(place, unconverted(option), "see [[application]]"),
        }
    }

    fn transport(&mut self, option: &Directive, proxy: &mut Proxy) {
        if !matches!(option.argument(0), "http" | "fastcgi") {
            return self.draft.error(&option.place, unconverted(option), "write http or fastcgi");
        }
        proxy.is_fastcgi |= option.argument(0) == "fastcgi";
        proxy.is_tls |= option.children().iter().any(|inner| inner.name.starts_with("tls"));
        for inner in option.children() {
            let place = &inner.place;
            match inner.name.as_str() {
                "tls" | "versions" => {}
                "tls_insecure_skip_verify" => proxy.application.set(place, "tls_verify", false),
                "dial_timeout" => proxy.application.set(place, "connect", inner.argument(0)),
                "response_header_timeout" | "read_timeout" => {
                    proxy.application.set(place, "first_byte", inner.argument(0))
                }
                "root" if proxy.is_fastcgi => {
                    let root = self.folder.join(inner.argument(0));
                    proxy.route.set(place, "root", root.to_string_lossy().into_owned());
                }
                "split" if proxy.is_fastcgi => {
                    self.draft.note(place, "split has no effect", "a script is a file");
                }
                _ => self.draft.error(place, unconverted(inner), "see [[application]]"),
            }
        }
    }

    pub(super) fn php(&mut self, matched: &Matched, way: &Way, host: &mut Host) {
        let Matched { directive: child, paths, .. } = matched;
        let place = &child.place;
        let Some(address) = upstream(&matched.argument().replacen("unix//", "unix:/", 1)) else {
            return self.draft.error(place, unconverted(child), "write an address and a port");
        };
        let fallback = self.php_options(child, paths, host);
        let mut keys = Scope::new(place.line);
        keys.set(place, "address", vec![address]);
        keys.set(place, "protocol", "fastcgi");
        let name = self.draft.application_of_keys("php", keys);
        if paths.is_empty() {
            if let Some(fallback) = fallback {
                host.scope.set(place, "fallback", fallback);
                host.scope.set(place, "fallback_for", "all");
            }
            host.scope.set(place, "index", vec!["index.php".to_owned()]);
            host.route("*.php", place).set(place, "interpreter", name.as_str());
            // Caddy runs a script whatever the case of its name: its source is not sent.
            self.protect(child, &["*.php".to_owned()], 404);
        }
        for path in paths {
            self.php_at(path, &name, place, way, host);
        }
    }

    /// Returns what responds to paths without a file.
    fn php_options(&mut self, child: &Directive, paths: &[String], host: &mut Host) -> Option<String> {
        let mut fallback = Some(SCRIPT_INDEX.to_owned());
        for option in child.children() {
            match (option.name.as_str(), option.arguments.as_slice()) {
                ("try_files", arguments) if paths.is_empty() => {
                    let name = SCRIPT_INDEX.trim_start_matches('/');
                    let rooted = |part: &String| match part == name {
                        true => SCRIPT_INDEX.to_owned(),
                        false => part.clone(),
                    };
                    let arguments: Vec<String> = arguments.iter().map(rooted).collect();
                    let Some(Tried { suffixes, target, is_path_first: true, .. }) = tried(&arguments) else {
                        self.draft.error(&option.place, unconverted(option), "see try_suffixes and fallback");
                        continue;
                    };
                    fallback = target;
                    if !suffixes.is_empty() {
                        host.scope.set(&option.place, "try_suffixes", suffixes);
                    }
                }
                ("env", [name, value]) if !value.contains('{') => {
                    self.each(paths, &option.place, host, |scope| {
                        scope.pair(&option.place, "env", name, value.as_str());
                    });
                }
                _ => self.draft.warn(
                    &option.place,
                    format!("{} of php_fastcgi is not converted", option.text()),
                    "see [[application]]",
                ),
            }
        }
        fallback
    }

    /// The scripts of one path, or of those below a prefix.
    fn php_at(&mut self, path: &str, application: &str, place: &Place, way: &Way, host: &mut Host) {
        let Some(folder) = path.strip_suffix('/') else {
            return host.route(path, place).set(place, "interpreter", application);
        };
        host.route(&format!("{path}**.php"), place).set(place, "interpreter", application);
        let prefix = host.route(path, place);
        prefix.set(place, "index", vec!["index.php".to_owned()]);
        match way.strips {
            true => {
                prefix.set(place, "fallback", format!("{folder}{SCRIPT_INDEX}"));
                prefix.set(place, "fallback_for", "all");
            }
            // `/index.php` beneath the root is another path.
            false => {
                prefix.set(place, "fallback", false);
                let what = format!("a path below {path} without a file does not lead to {SCRIPT_INDEX}");
                self.draft.warn(place, what, "see fallback");
            }
        }
    }
}

fn balance(option: &Directive) -> Option<String> {
    Some(match option.argument(0) {
        "round_robin" | "weighted_round_robin" => "round_robin".into(),
        "least_conn" => "least".into(),
        "random" | "random_choose" => "random".into(),
        "ip_hash" | "client_ip_hash" => "hash client".into(),
        "uri_hash" => "hash path".into(),
        "header" => format!("hash field {}", option.argument(1)),
        "cookie" if option.argument(1).is_empty() => "sticky lb".into(),
        "cookie" => format!("sticky {}", option.argument(1)),
        _ => return None,
    })
}

/// `localhost:3000`, `unix//run/a.sock`, `https://app`.
pub(super) fn upstream(text: &str) -> Option<String> {
    if text.contains(['{', '*']) || text.is_empty() {
        return None;
    }
    if let Some(path) = text.strip_prefix("unix/").or_else(|| text.strip_prefix("unix:")) {
        return path.starts_with('/').then(|| format!("unix:{path}"));
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let rest = rest.trim_end_matches('/');
    if rest.contains('/') {
        return None;
    }
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let rest = if rest.starts_with(':') { format!("localhost{rest}") } else { rest.to_owned() };
    Some(if has_port { rest } else { format!("{rest}:{}", if scheme == "https" { 443 } else { 80 }) })
}

/// `{upstream_hostport}`
fn is_upstream_address(option: &Directive) -> bool {
    let value = option.argument(1);
    let value = value.trim_start_matches("{http.reverse_proxy.").trim_matches(['{', '}']);
    matches!(value, "upstream_hostport" | "upstream.hostport")
}

fn upstream_field(option: &Directive, own: &mut Scope, draft: &mut Draft) {
    let (name, value) = (option.argument(0), option.argument(1));
    let lower = name.to_ascii_lowercase();
    match value {
        "{host}" | "{hostport}" | "{http.request.host}" if lower == "host" => {}
        _ if matches!(lower.as_str(), "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host") => {}
        "{remote_host}" | "{client_ip}" | "{http.request.remote.host}" if lower == "x-real-ip" => {}
        _ if name.starts_with(['+', '?', '>']) || option.arguments.len() > 2 || name.contains('*') => {
            draft.error(&option.place, unconverted(option), "see proxy_headers");
        }
        _ if lower.trim_start_matches('-') == "host" && (value.contains('{') || lower.starts_with('-')) => {
            draft.error(&option.place, unconverted(option), "see proxy_host");
        }
        value if value.contains('{') => {
            // The client could otherwise say what Caddy said.
            own.pair(&option.place, "proxy_headers", name, false);
            draft.warn(
                &option.place,
                format!("{name} is removed: its value has a variable"),
                "upstreams have X-Real-IP and X-Forwarded-For",
            );
        }
        value if lower == "host" => own.set(&option.place, "proxy_host", value),
        value => match name.strip_prefix('-') {
            Some(name) => own.pair(&option.place, "proxy_headers", name, false),
            None => own.pair(&option.place, "proxy_headers", name, value),
        },
    }
}
