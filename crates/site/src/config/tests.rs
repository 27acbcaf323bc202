//! Keys, one by one: their defaults, examples, spellings and mistakes. Each further subject has a file.

mod applications;
mod authorizers;
mod hosts;
mod includes;
mod limits;
mod mistakes;
mod publishing;
mod responses;
mod routes;
mod scripts;
mod switches;
mod tls;

use std::time::Duration;

use script::environment::Credentials;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme};

use super::keys::{self, Key, KeyDefault, Kind, Scope};
use super::upstreams::MANAGED;
use super::*;
use crate::address::Address;
use crate::applying;
use crate::balance::Hedging;
use crate::certificates::{Certificates, Challenge, ExternalAccount};
use crate::listener::Listener;
use crate::model::*;
use crate::plan::{PlannedAction, plan};
use crate::tls::{
    CertificateFiles, ClientAuthorities, ClientCertificates, HostTls, PlainRequests, PrivateKeys, Tickets,
};

/// Files by path. A pattern matches by what is before and after its star.
struct Files<'t>(&'t [(&'t str, &'t str)]);

impl Source for Files<'_> {
    fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        let file = self.0.iter().find(|(own, _)| Path::new(own) == path);
        file.map(|(_, text)| text.as_bytes().to_vec()).ok_or(io::Error::from(io::ErrorKind::NotFound))
    }

    fn expand(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let pattern = pattern.to_str().unwrap();
        let (before, after) = pattern.split_once('*').unwrap();
        let matches = |path: &&str| path.starts_with(before) && path.ends_with(after);
        Ok(self.0.iter().map(|(path, _)| *path).filter(matches).map(PathBuf::from).collect())
    }
}

fn load_files(files: &[(&str, &str)]) -> Result<Site, Vec<String>> {
    let errors = |errors: Vec<ConfigError>| errors.iter().map(ConfigError::to_string).collect();
    load(Path::new(files[0].0), &Files(files)).map_err(errors)
}

/// The site of a configuration of one file, which is valid.
pub fn of_text(text: &str) -> Site {
    load_files(&[("site.toml", text)]).unwrap_or_else(|errors| panic!("{text}\n{errors:#?}"))
}

const TWO_LINES: &str = "listen = [\"127.0.0.1:8080\"]\nroot = \"/srv/www\"\n";

const KEYS: &str = include_str!("../../../auth/src/jwt/tests/ed.pub");
const KEY_SET: &str = include_str!("../../../auth/src/jwt/tests/keys.json");

/// Reads two valid lines and then `text`, whose first line is line 3.
fn after_two_lines(text: &str) -> Result<Site, Vec<String>> {
    load_files(&[("site.toml", &format!("{TWO_LINES}{text}"))])
}

fn site(text: &str) -> Site {
    of_text(&format!("{TWO_LINES}{text}"))
}

/// The root and the path of a file, or another action.
fn planned(site: &Site, authority: &str, path: &str) -> String {
    let path = taipan_http::target::SafePath::parse(path).unwrap();
    let plan = plan(site.hosts.at(site.hosts.find(authority.as_bytes())), path, None);
    if plan.walk.is_some() {
        return "scripts".to_owned();
    }
    match plan.action {
        PlannedAction::Files(files) => format!("{} {}", files.root, files.below()),
        PlannedAction::Redirect(redirect) => {
            let location = redirect.location(None, authority.as_bytes(), Scheme::Http);
            format!("{} {location}", redirect.status.code())
        }
        PlannedAction::Upstream(planned) => {
            let (script_name, path_info) = planned.script_name_and_path_info();
            format!("application {script_name} {path_info}")
        }
        PlannedAction::Status(status, _) => status.code().to_string(),
        PlannedAction::Publish(text) => text.body.clone(),
        PlannedAction::Monitor(monitor) => monitor.name().to_owned(),
    }
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let errors = load_files(&[("site.toml", text)]).map(|_| ()).unwrap_err();
    assert_eq!(errors, expected, "{text}");
}

#[track_caller]
fn check_after(text: &str, expected: &[&str]) {
    let errors = after_two_lines(text).map(|_| ()).unwrap_err();
    assert_eq!(errors, expected, "{text}");
}

#[test]
fn two_lines_make_a_site() {
    let site = site("");
    assert_eq!(site.listeners, [Listener::from(Address::Tcp("127.0.0.1:8080".parse().unwrap()))]);
    assert_eq!(site.hosts.len(), 1);
    let route = site.hosts[0].routes.iter().next().unwrap();
    assert_eq!(route.action, Action::Files { root: "/srv/www".into(), strip: 0 });
    let folder = Site::folder("/srv/www".into(), site.listeners.clone());
    let unlisted = format!("{folder:?}").replace("listing: On", "listing: Off");
    assert_eq!(format!("{site:?}"), unlisted);
}

/// The line that gives `key` a value in `scope`.
fn line_of(key: &Key, scope: Scope, value: &str) -> String {
    match key.kind {
        Kind::Tables(_) if scope == Scope::Host => value.replace("[[", "[[host."),
        Kind::Tables(_) if scope == Scope::Route => value.replace("[[", "[[route."),
        Kind::Section(_) if scope == Scope::Host => value.replacen('[', "[host.", 1),
        Kind::Section(_) | Kind::Tables(_) => value.to_owned(),
        _ => format!("{} = {value}", key.name),
    }
}

/// A line of a file, behind the key that it is for. A line of the key itself replaces it; a line with an empty key stays.
type Line = (&'static str, &'static str);

/// The lines of the top level without which no file is valid.
fn lines_of_top(scope: Scope) -> &'static [Line] {
    match scope {
        Scope::Host => {
            &[("", "listen = \"127.0.0.1:1\""), ("", "root = \"/srv\""), ("", "names = \"top.example\"")]
        }
        _ => &[("listen", "listen = \"127.0.0.1:1\""), ("root", "root = \"/srv\"")],
    }
}

/// The header of the table that has the key, and the lines without which the table is not valid.
fn lines_of_table(key: &Key, scope: Scope) -> &'static [Line] {
    match scope {
        Scope::Top => &[],
        Scope::Host => &[("", "[[host]]"), ("names", "names = \"a.example\""), ("root", "root = \"/a\"")],
        Scope::Route => &[("", "[[route]]"), ("path", "path = \"/p/\"")],
        Scope::Rule if key.name == "to" => &[("", "[[rule]]"), ("then", "then = \"redirect\"")],
        Scope::Rule if key.name == "limit" => &[("", "[[rule]]"), ("then", "then = \"limit\"")],
        Scope::Rule => &[("", "[[rule]]"), ("then", "then = \"deny\"")],
        Scope::Limit => &[("", "[[limit]]"), ("download", "download = \"1MB\"")],
        Scope::Limits => &[("", "[limits]")],
        Scope::Timeouts => &[("", "[timeouts]")],
        Scope::Cache => &[("", "[cache]")],
        Scope::CacheFiles if key.name == "folder" => &[("", "[cache_files]")],
        Scope::CacheFiles => &[("", "[cache_files]"), ("folder", "folder = \"/var/cache/a\"")],
        Scope::Http2 => &[("", "[http2]")],
        Scope::Statistics => &[("", "[statistics]")],
        Scope::Accounts => &[("", "[accounts]")],
        Scope::Scripts => &[("", "[scripts]")],
        Scope::Application if key.name == "command" || MANAGED.contains(&key.name) => {
            &[("", "[[application]]"), ("name", "name = \"a\""), ("command", "command = \"/bin/a\"")]
        }
        Scope::Application if key.name == "tls_certificate_key" => &[
            ("", "[[application]]"),
            ("name", "name = \"a\""),
            ("address", "address = \"127.0.0.1:1\""),
            ("protocol", "protocol = \"https\""),
            ("tls_certificate", "tls_certificate = \"/a.pem\""),
        ],
        Scope::Application if key.name == "http2" || key.name.starts_with("tls_") => &[
            ("", "[[application]]"),
            ("name", "name = \"a\""),
            ("address", "address = \"127.0.0.1:1\""),
            ("protocol", "protocol = \"https\""),
        ],
        Scope::Application => {
            &[("", "[[application]]"), ("name", "name = \"a\""), ("address", "address = \"127.0.0.1:1\"")]
        }
        Scope::Resolver => &[("", "[resolver]"), ("client_names", "client_names = true")],
        Scope::ForwardProxy => &[
            ("", "[forward_proxy]"),
            ("clients", "clients = \"10.0.0.0/8\""),
            ("destinations", "destinations = \"a.example\""),
        ],
        Scope::Health => &[
            ("", "[[application]]"),
            ("", "name = \"a\""),
            ("", "protocol = \"http\""),
            ("", "address = \"127.0.0.1:1\""),
            ("", "[application.health]"),
        ],
        Scope::Breaker => &[
            ("", "[[application]]"),
            ("", "name = \"a\""),
            ("", "address = \"127.0.0.1:1\""),
            ("", "[application.breaker]"),
        ],
        Scope::Tls => &[("", "[tls]")],
        Scope::Certificates => &[("", "[certificates]")],
        Scope::Log => &[("", "[log]")],
        Scope::Rotate => &[("", "[log.rotate]"), ("every", "every = \"day\"")],
        Scope::Trace => &[("", "[trace]")],
        Scope::Jwt => &[("", "[jwt]"), ("keys", "keys = \"keys.pem\"")],
        Scope::SecurityTxt => &[
            ("", "[security_txt]"),
            ("contact", "contact = \"mailto:a@a.example\""),
            ("expires", "expires = \"2027-01-01T00:00:00Z\""),
        ],
    }
}

/// The lines of the same table without which the key is not valid, or changes nothing.
fn lines_beside(key: &Key, scope: Scope) -> &'static str {
    match key.name {
        "status" if scope == Scope::Route => "redirect = \"/x\"",
        "download" | "requests_burst" | "announce" | "status" if scope == Scope::Limit => "requests = 1",
        "queue" if scope == Scope::Limit => "concurrent = 1",
        "wait" if scope == Scope::Limit => "concurrent = 1\nqueue = 1",
        "first_byte" | "idle" | "keep" | "idle_connections" | "store_responses"
            if scope == Scope::ForwardProxy =>
        {
            "http = true"
        }
        "status" | "timeout" | "rise" | "fall" if scope == Scope::Health => "path = \"/health\"",
        "format" => "access = \"stdout\"",
        "fields" if scope == Scope::Log => "access = \"stdout\"",
        "service" if scope == Scope::Trace => "export = \"http://127.0.0.1\"",
        "tls_ca" if scope == Scope::Trace => "export = \"https://127.0.0.1\"",
        "slow" if scope == Scope::Log => "only = [\"slow\"]",
        "acme" if scope == Scope::Top => "names = \"a.example\"",
        "authorizer_user" => "authorizer_fields = [\"Remote-User\", \"X-Auth-Request-Email\"]",
        "auth" => "user_files = \"/etc/taipan/users\"",
        "eab_key_id" => "eab_key_file = \"eab\"",
        "eab_key_file" => "eab_key_id = \"1\"",
        "certificate_key" => "certificate = \"a.pem\"",
        "client_certificates" => "client_ca = \"ca.pem\"",
        "client_ca" => "client_certificates = \"optional\"",
        "client_crl" => "client_certificates = \"optional\"\nclient_ca = \"ca.pem\"",
        "hsts_subdomains" => "hsts = \"1y\"",
        "hsts_preload" => "hsts = \"1y\"\nhsts_subdomains = true",
        "cgroup_memory" | "cgroup_tasks" => "cgroup = \"auto\"",
        "hedge_budget" => "hedge_after = \"1s\"",
        "proxy_hedge_budget" => {
            "proxy_hedge_after = \"1s\"\nproxy = [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]"
        }
        "proxy_balance" | "proxy_health" | "proxy_breaker" | "proxy_hedge_after" => {
            "proxy = [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]"
        }
        "proxy_path" | "proxy_host" | "proxy_headers" | "proxy_upgrade" | "proxy_trailers"
        | "request_buffering" => "proxy = \"http://127.0.0.1:1\"",
        "script_processes" | "pass_authorization" | "remote_host" | "response_buffering" => "cgi = true",
        "user" if scope == Scope::Route => "cgi = true",
        "group" if scope == Scope::Route => "cgi = true\nuser = \"a\"",
        "group" if matches!(scope, Scope::Scripts | Scope::Application) => "user = \"a\"",
        "env" if scope == Scope::Route => "cgi = true",
        "publish" => "publish_anonymous = true",
        "meta_dir" | "meta_suffix" => "meta_files = true",
        _ => "",
    }
}

/// The tables without which the key is not valid, or changes nothing.
fn lines_behind(key: &Key, scope: Scope) -> &'static str {
    match (key.name, scope) {
        ("authorizer", _) => "[[application]]\nname = \"guard\"\naddress = \"127.0.0.1:1\"",
        ("application", Scope::Route) => "[[application]]\nname = \"app\"\naddress = \"127.0.0.1:1\"",
        ("limit", Scope::Rule) => {
            "[[limit]]\nname = \"slow\"\nrequests = 1\n[[limit]]\nname = \"other\"\nrequests = 1"
        }
        ("monitor", Scope::Route) => "[[route.rule]]\nthen = \"deny\"",
        ("env", Scope::Top) => "[[route]]\npath = \"*.cgi\"\ncgi = true",
        ("env", Scope::Host) => "[[host.route]]\npath = \"*.cgi\"\ncgi = true",
        _ => "",
    }
}

/// The lines of the top level without which the key is not valid.
fn lines_before(key: &Key, scope: Scope) -> &'static str {
    match key.name {
        // A proxy with TLS, without which there can be no redirect to it.
        "https_redirect" | "hsts" | "hsts_subdomains" | "hsts_preload" => "trusted_proxies = \"unix\"",
        _ if scope == Scope::Accounts || key.name == "accounts" => "user_folders = \"www\"",
        _ => "",
    }
}

/// A valid file with `line` for `key` in `scope`.
fn file_with(key: &Key, scope: Scope, line: &str) -> String {
    let is_other = |(name, _): &&Line| *name != key.name;
    let top = lines_of_top(scope).iter().filter(|line| scope != Scope::Top || is_other(line));
    let lines = top.chain(lines_of_table(key, scope).iter().filter(is_other)).map(|(_, line)| *line);
    let lines = lines.collect::<Vec<_>>().join("\n");
    let lines = match key.name {
        "default_folder" | "missing_folder" => lines.replace("root = \"/", "root = \"/hosts/$host/"),
        _ => lines,
    };
    let [before, beside, behind] = [lines_before, lines_beside, lines_behind].map(|lines| lines(key, scope));
    format!("{before}\n{lines}\n{beside}\n{line}\n{behind}\n")
}

fn printed(text: &str) -> String {
    let files = [
        ("site.toml", text),
        ("hosts/a.toml", "user = \"from-a-file\""),
        ("/etc/taipan/users", "ann:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\n"),
        ("/etc/taipan/groups", "staff: ann\n"),
        ("blocked.txt", "# crawlers\n192.0.2.0/24\n"),
        ("/etc/taipan/throttle", "**.iso 50000"),
        ("keys.pem", KEYS),
        ("/etc/taipan/keys.json", KEY_SET),
    ];
    match load_files(&files) {
        Ok(site) => format!("{site:?}"),
        Err(errors) => panic!("{text}\n{errors:#?}"),
    }
}

fn each_key() -> impl Iterator<Item = (Scope, &'static Key)> {
    Scope::ALL.into_iter().flat_map(|scope| keys::described(scope).map(move |key| (scope, key)))
}

#[test]
fn every_stated_default_applies_without_the_key() {
    for (scope, key) in each_key() {
        let KeyDefault::Value(value) = key.default else { continue };
        let stated = printed(&file_with(key, scope, &line_of(key, scope, value)));
        assert_eq!(stated, printed(&file_with(key, scope, "")), "{} in {}", key.name, scope.name());
    }
}

#[test]
fn every_example_is_valid_and_changes_the_site() {
    // Every value of `unconverted` is an error.
    for (scope, key) in each_key().filter(|(_, key)| key.name != "unconverted") {
        let other = match key.name {
            "listen" => "listen = \"127.0.0.1:1\"",
            "root" => "root = \"/other\"",
            "path" => "path = \"/other/\"",
            "names" if scope == Scope::Rotate => "",
            "names" => "names = \"other.example\"",
            "name" => "name = \"other\"",
            "address" if scope == Scope::Application => "address = \"127.0.0.1:2\"",
            "command" => "command = \"/other\"",
            "folder" if scope == Scope::CacheFiles => "folder = \"/other\"",
            "clients" if scope == Scope::ForwardProxy => "clients = \"192.0.2.1\"",
            "destinations" if scope == Scope::ForwardProxy => "destinations = \"other.example\"",
            "client_ca" => "client_ca = \"other.pem\"",
            "keys" => "keys = \"keys.pem\"",
            "contact" => "contact = \"mailto:b@b.example\"",
            "expires" => "expires = \"2028-01-01T00:00:00Z\"",
            "eab_key_id" => "eab_key_id = \"other\"",
            "eab_key_file" => "eab_key_file = \"other\"",
            "then" => "then = \"allow\"",
            "every" if scope == Scope::Rotate => "every = \"hour\"",
            "limit" if scope == Scope::Rule => "limit = \"other\"",
            "to" => "to = \"/other\"",
            _ => "",
        };
        let stated = printed(&file_with(key, scope, &line_of(key, scope, key.example)));
        assert_ne!(stated, printed(&file_with(key, scope, other)), "{} in {}", key.name, scope.name());
    }
}

#[test]
fn the_manual_has_every_key_once() {
    for (scope, key) in each_key() {
        let same = keys::described(scope).filter(|other| other.name == key.name).count();
        assert_eq!(same, 1, "{} in {}", key.name, scope.name());
        assert!(manual().contains(key.text), "{}", key.name);
        assert!(key.text.ends_with('.'), "{}", key.name);
    }
    let headings = manual().matches("\n### `").count();
    let keys: std::collections::BTreeSet<_> = each_key().map(|(_, key)| std::ptr::from_ref(key)).collect();
    assert_eq!(headings, keys.len());
}

#[test]
fn suggests_the_nearest_key_for_an_unknown_one() {
    check_after("lisen = 1", &["site.toml:3: unknown key \"lisen\"; did you mean \"listen\"?"]);
    check_after("Index = 1", &["site.toml:3: unknown key \"Index\"; did you mean \"index\"?"]);
    check_after(
        "[limits]\nconections = 1",
        &["site.toml:4: unknown key \"conections\"; did you mean \"connections\"?"],
    );
    check_after(
        "\n[[host]]\nnames = \"a\"\nroot = \"/\"\nlisten = \"x\"",
        &["site.toml:7: unknown key \"listen\"; it belongs to the top level, before the first section"],
    );
    check_after("linger = \"5s\"", &["site.toml:3: unknown key \"linger\"; it belongs to [timeouts]"]);
    check_after(
        "idle = \"5s\"",
        &[
            "site.toml:3: unknown key \"idle\"; it belongs to [timeouts] or [scripts] or [[application]] or [forward_proxy]",
        ],
    );
    check_after(
        "[[limit]]\npath = \"/a/\"\ndownload = 1",
        &["site.toml:4: unknown key \"path\"; did you mean \"paths\"?"],
    );
    check_after(
        "[[route]]\npath = \"/a/\"\nhandler = \"x\"",
        &["site.toml:5: unknown key \"handler\"; use \"interpreter\""],
    );
    check_after("quota = 1", &["site.toml:3: unknown key \"quota\"; did you mean \"publish_quota\"?"]);
    check_after("xyzzy = 1", &["site.toml:3: unknown key \"xyzzy\"; remove it; the manual lists every key"]);
    check_after("autoindex = true", &["site.toml:3: unknown key \"autoindex\"; use \"listing\""]);
    check_after(
        "[[host]]\nroot = \"/\"\nserver_name = \"a\"\nnames = \"a\"",
        &[
            "site.toml:5: unknown key \"server_name\"; use \"names\"; the field `Server` is \"server_header\" at the top level",
        ],
    );
    check_after(
        "server_name = \"www.example\"",
        &[
            "site.toml:3: unknown key \"server_name\"; use \"names\"; the field `Server` is \"server_header\" at the top level",
        ],
    );
    check_after("[lmits]\nx = 1", &["site.toml:3: unknown key \"lmits\"; did you mean \"limits\"?"]);
    check_after(
        "\"a\\nb\" = 1",
        &["site.toml:3: unknown key \"a\\nb\"; remove it; the manual lists every key"],
    );
}

#[test]
fn reports_one_mistake_once() {
    check(
        "lisen = \"127.0.0.1:80\"\nroot = \"a\"",
        &["site.toml:1: unknown key \"lisen\"; did you mean \"listen\"?"],
    );
    check(
        "listen = \"127.0.0.1:80\"\ndocroot = \"a\"",
        &["site.toml:2: unknown key \"docroot\"; use \"root\""],
    );
    check_after(
        "[[host]]\nname = \"a\"\nroot = \"/a\"",
        &["site.toml:4: unknown key \"name\"; did you mean \"names\"?"],
    );
    check_after("[[route]]\npathh = \"/a\"", &["site.toml:4: unknown key \"pathh\"; did you mean \"path\"?"]);
    check_after(
        "auth = \"basic\"\nusers = { ann = 1 }",
        &[
            "site.toml:4: the user \"ann\" needs the hash of a password; write what taipan passwd -n prints behind the colon",
        ],
    );
    check_after(
        "auth = \"basic\"\nusers = {}",
        &[
            "site.toml:3: there are no users who could authenticate; add \"user_files\", \"users\" or \"folder_passwords\"",
        ],
    );
    check(
        "listen = \"0.0.0.0:443 tls\"\nroot = \"a\"\nacme = true",
        &["site.toml:3: a certificate needs names; add names = [\"example.org\"]"],
    );
    // One mistake, one line.
    check(
        "listen = \"0.0.0.0:443 tls\"\nroot = \"a\"\nacme = true\nnames = \"a.example.\"",
        &["site.toml:4: \"a.example.\" is not a host name; remove the last dot"],
    );
    check(
        "listen = \"0.0.0.0:443 tls\"\nroot = \"a\"\nacme = true\nnames = \"a.example\"\n[certificates]\nchallenges = []",
        &["site.toml:6: \"challenges\" is empty; name at least one, or remove the key"],
    );
}

#[test]
fn reports_a_port_in_place_of_an_address() {
    check(
        "listen = 8080\nroot = \"a\"",
        &[
            "site.toml:1: \"listen\" cannot be the number 8080; write \"127.0.0.1:8080\" for this machine only, \
             \"0.0.0.0:8080\" for all of IPv4, or \"[::]:8080\" for all of IPv6",
        ],
    );
}

/// Checks the warnings of a configuration that is valid.
fn check_warnings(lines: &str, expected: &[&str]) {
    let text = format!("listen = \"127.0.0.1:80\"\nroot = \"a\"\n{lines}");
    let read = read(Path::new("site.toml"), &Files(&[("site.toml", &text)]));
    let warnings = read.map(|read| read.warnings).unwrap_or_else(|errors| panic!("{lines}\n{errors:#?}"));
    assert_eq!(warnings.iter().map(ConfigError::to_string).collect::<Vec<_>>(), expected, "{lines}");
}

#[test]
fn warns_of_values_that_are_hardly_meant() {
    check_warnings(
        "index = \"index.html index.htm\"",
        &[
            "site.toml:3: \"index\" has one name with a space in it, \"index.html index.htm\"; for several names, write \
             [\"index.html\", \"index.htm\"]",
        ],
    );
    check_warnings("index = [\"index.html\", \"the index.html\"]", &[]);
    check_warnings(
        "cache_control = { \"*.css\" = \"1d\" }",
        &["site.toml:3: \"1d\" is a time, and no directive of Cache-Control; write \"max-age=86400\""],
    );
    check_warnings("cache_control = \"max-age=60, immutable\"", &[]);
    check_warnings(
        "[[route]]\npath = \"/a%20b%2Fc/\"\nreturn = 403",
        &[
            "site.toml:4: the pattern \"/a%20b%2Fc/\" has a percent-encoding, and paths are compared decoded; write \
             \"/a b%2Fc/\"",
        ],
    );
    check_warnings("[[route]]\npath = \"/100%/\"\nreturn = 403", &[]);
    check_warnings(
        "[[route]]\npath = \"/x?y=1\"\nreturn = 403",
        &[
            "site.toml:4: the pattern \"/x?y=1\" is for a path, in which ? stands for one character; write the query to \
             \"query\" of a [[rule]], or leave it out",
        ],
    );
    check_warnings(
        "[[rule]]\npath = [\"/private/\", \"!/a%20b/\", \"/x?y=1\"]\nthen = \"deny\"",
        &[
            "site.toml:4: the pattern \"/a%20b/\" has a percent-encoding, and paths are compared decoded; write \"/a b/\"",
            "site.toml:4: the pattern \"/x?y=1\" is for a path, in which ? stands for one character; write the query to \
             \"query\" of a [[rule]], or leave it out",
        ],
    );
    check_warnings(
        "[[rule]]\nuser_agent = \"~*bot\"\nthen = \"deny\"",
        &[
            "site.toml:4: \"user_agent\" has the entry \"~*bot\", in which ~ is a letter; write it with wildcards, such as \
             \"*bot*\"",
        ],
    );
    check_warnings(
        "[forward_proxy]\nclients = [\"::/0\", \"0.0.0.0/0\"]\ndestinations = \"*\"",
        &[
            "site.toml:4: this is an open proxy: every client can reach every server by it; name the networks of your clients",
        ],
    );
    check_warnings("[forward_proxy]\nclients = \"0.0.0.0/0\"\ndestinations = \"*.example.net\"", &[]);
}

#[test]
fn says_what_to_write_for_a_value_of_another_server() {
    check_after(
        "[[route]]\npath = [\"*.jpg\", \"*.png\"]\nreturn = 403",
        &["site.toml:4: a route has one \"path\"; write one [[route]] for each pattern"],
    );
    for (names, expected) in [
        ("*", "for all other names, write default = true in place of names"),
        ("_", "for all other names, write default = true in place of names"),
        ("a.org b.org", "write each name by itself: [\"example.org\", \"example.net\"]"),
    ] {
        check_after(
            &format!("[[host]]\nnames = \"{names}\"\nroot = \"/\""),
            &[&format!("site.toml:4: \"{names}\" is not a host name; {expected}")],
        );
    }
    check_after(
        "[log]\nerror = \"~/error.log\"",
        &[
            "site.toml:4: \"error\" has \"~/error.log\", and a ~ is not expanded; write the whole path, such as \
             \"/home/ann/www\", or \"./~/error.log\" for a folder of that name",
        ],
    );
}

#[test]
fn suggests_the_equivalent_of_a_key_of_another_server() {
    for (name, scope, expected) in [
        ("ssl", Scope::Top, "use \"tls\", and an address of \"listen\" with \" tls\" at its end"),
        ("ssl_certificate", Scope::Host, "use \"certificate\""),
        ("ssl_ciphers", Scope::Host, "the defaults are those of today"),
        ("auth_request", Scope::Route, "use \"authorizer\", and authorizer_path"),
        ("forward_auth", Scope::Host, "use \"authorizer\", and authorizer_path"),
        ("basicauth", Scope::Route, "use \"auth\" = \"basic\", and user_files"),
        ("auth_basic_user_file", Scope::Host, "use \"user_files\""),
        ("gzip", Scope::Top, "use \"compress\""),
        ("gzip_types", Scope::Route, "use \"compress_types\""),
        ("proxy_pass", Scope::Route, "use \"proxy\""),
        ("fastcgi_pass", Scope::Route, "use \"application\": an [[application]] with an address"),
        ("try_files", Scope::Route, "use \"fallback\", the path that responds"),
        ("set_real_ip_from", Scope::Top, "use \"trusted_proxies\""),
        ("access_log", Scope::Top, "use \"log\": access = \"…\" in a section [log]"),
        ("cert", Scope::Tls, "use \"certificate\", at the top level or in [[host]]"),
        ("key", Scope::Tls, "use \"certificate_key\", at the top level or in [[host]]"),
        ("worker_processes", Scope::Top, "use \"workers\""),
        ("limit_req", Scope::Route, "use \"limit\": a [[limit]] with requests"),
        ("throttle", Scope::Top, "use \"limit\": a [[limit]] with download = RATE, or \"throttle_file\""),
        ("limit_conn", Scope::Host, "use \"limit\": a [[limit]] with concurrent"),
        ("deny", Scope::Route, "use \"rule\": a [[rule]] with address"),
        ("rate", Scope::Route, "use \"limit\": a [[limit]] with download = RATE, or requests = RATE"),
        ("cache", Scope::Route, "use \"response_cache\" = true"),
        ("scripts", Scope::Route, "use \"cgi\" = true"),
        ("daemon", Scope::Top, "stays in the foreground"),
    ] {
        let advice = keys::suggest(scope, name, &toml::Value::Flag(true));
        assert!(advice.starts_with(expected) || advice.contains(expected), "{name}: {advice}");
    }
}

#[test]
fn suggests_a_section_for_a_section() {
    check_after("[[rout]]\npath = \"/\"", &["site.toml:3: unknown key \"rout\"; did you mean \"route\"?"]);
    check_after("[[hots]]\nnames = []", &["site.toml:3: unknown key \"hots\"; did you mean \"host\"?"]);
    check_after("rot = \"/srv\"", &["site.toml:3: unknown key \"rot\"; did you mean \"root\"?"]);
}

#[test]
fn rejects_a_value_of_another_kind() {
    check_after(
        "workers = \"four\"",
        &["site.toml:3: \"workers\" cannot be \"four\"; expected an integer from 1 to 1024"],
    );
    check_after("workers = 0", &["site.toml:3: \"workers\" cannot be 0; expected an integer from 1 to 1024"]);
    check_after(
        "workers = 99999999999999999999999999999999999999999",
        &["site.toml:3: \"workers\" cannot be an integer; expected an integer from 1 to 1024"],
    );
    check_after("listing = \"on\"", &["site.toml:3: \"listing\" cannot be \"on\"; expected true or false"]);
    check_after(
        "[timeouts]\nidle = \"20 s\"\nhead = true\nbody = \"2d\"",
        &[
            "site.toml:4: \"idle\" cannot be \"20 s\"; expected a duration such as \"20s\", or an integer of seconds, from 10ms to 1d",
            "site.toml:5: \"head\" cannot be true; expected a duration such as \"20s\", or an integer of seconds, from 10ms to 1d",
            "site.toml:6: \"body\" cannot be \"2d\"; expected a duration such as \"20s\", or an integer of seconds, from 10ms to 1d",
        ],
    );
    check_after(
        "[limits]\nhead = \"1kb\"",
        &[
            "site.toml:4: \"head\" cannot be \"1kb\"; expected a size such as \"16KiB\", \"16k\" or \"16kB\", or an integer of bytes, from 256 to 1MiB",
        ],
    );
    check_after(
        "symlinks = \"none\"",
        &[
            "site.toml:3: \"symlinks\" cannot be \"none\"; expected one of \"beneath\", \"owner\", \"never\", \"follow\"",
        ],
    );
    check_after(
        "precompressed = [\"gzip\", \"gzip\"]",
        &[
            "site.toml:3: \"precompressed\" cannot be this array; expected an array of \"br\", \"zstd\", \"gzip\"",
        ],
    );
    let compress = "site.toml:3: \"compress\" cannot be";
    let expected = "expected true, false, or an array of \"br\", \"zstd\", \"gzip\"";
    check_after("compress = \"gzip\"", &[&format!("{compress} \"gzip\"; {expected}")]);
    check_after("compress = [\"lz4\"]", &[&format!("{compress} this array; {expected}")]);
    check_after(
        "compress_types = [\"text/*\", \"text/html; charset=utf-8\"]",
        &[
            "site.toml:3: \"text/html; charset=utf-8\" is not a pattern of media types; write \"text/html\", \"text/*\" or \
           \"+xml\", without parameters",
        ],
    );
    check_after(
        "dictionary = \"app/*.js\"",
        &[
            "site.toml:3: \"app/*.js\" does not match URLs of this host; begin with a slash, and use * for any text: \
           \"/app/*.js\"",
        ],
    );
    check_after("limits = 5", &["site.toml:3: \"limits\" cannot be 5; expected a section [limits]"]);
    check_after(
        "host = 1.5",
        &["site.toml:3: \"host\" cannot be a float; expected a section [[host]] for each"],
    );
    check_after(
        "auth = \"Basic\"\n[[rule]]\nthen = \"authenticate\"",
        &["site.toml:3: \"auth\" cannot be \"Basic\"; expected one of \"basic\", \"digest\", \"off\""],
    );
    check_after(
        "[forward_proxy]\nclients = \"10.0.0.0/8\"\ndestinations = \"*\"\nhttp = \"yes\"\nidle = \"5s\"",
        &["site.toml:6: \"http\" cannot be \"yes\"; expected true or false"],
    );
    check_after(
        "[[route]]\npath = \"/s\"\nmonitor = \"status\"\n[[route.rule]]\nadress = \"10.0.0.1\"\nthen = \"allow\"",
        &["site.toml:7: unknown key \"adress\"; did you mean \"address\"?"],
    );
    check_after(
        "[log]\naccess = \"./a\"\n[log.rotate]\nevery = \"daily\"",
        &["site.toml:6: \"every\" cannot be \"daily\"; expected one of \"hour\", \"day\""],
    );
    check_after(
        "[[host.route]]\npath = \"/\"",
        &["site.toml:3: \"route\" is in no [[host]]; write [[host]] above it, with the keys of that host"],
    );
    check_after(
        "[route.\"/a/\"]\nlisting = true",
        &["site.toml:3: \"route\" cannot be a table; expected a section [[route]] for each"],
    );
    check_after(
        "[[route.rule]]\nthen = \"deny\"",
        &["site.toml:3: \"rule\" is in no [[route]]; write [[route]] above it, with the keys of that route"],
    );
    check_after(
        "[log]\nerror = \"stdrr\"",
        &[
            "site.toml:4: \"error\" cannot be \"stdrr\"; expected \"stdout\", \"stderr\", \"syslog\", a path with a slash in it such as \"./access.log\", \"|/program arguments\" or \"tcp://host:port\"",
        ],
    );
    check_after(
        "[log]\ntimezone = \"Atlantis\\u001b\"",
        &[
            "site.toml:4: there is no time zone \"Atlantis\\u{1b}\"; write \"local\", a name such as \"Europe/Berlin\", or \
           \"CET-1CEST,M3.5.0,M10.5.0/3\"",
        ],
    );
    check_after("pid_file = \"\"", &["site.toml:3: \"pid_file\" is not a path; expected a path as a string"]);
    check_after("user = \"\"", &["site.toml:3: \"user\" is not the name of an account; expected a string"]);
    check_after(
        "server_header = \"a\\nb\"",
        &[
            "site.toml:3: \"server_header\" cannot be \"a\\nb\"; expected printable ASCII, or false to leave the field out",
        ],
    );
}

#[test]
fn reads_every_spelling_of_a_value() {
    let timeouts = |text: &str| site(&format!("[timeouts]\nidle = {text}")).timeouts.idle;
    assert_eq!(timeouts("90"), Duration::from_secs(90));
    assert_eq!(timeouts("\"90s\""), Duration::from_secs(90));
    assert_eq!(timeouts("\"90\""), Duration::from_secs(90));
    let head = |text: &str| site(&format!("[limits]\nhead = {text}")).limits.head.head;
    assert_eq!(head("4096"), 4096);
    assert_eq!(head("\"4KiB\""), 4096);
    assert_eq!(head("\"4kB\""), 4000);
    assert_eq!(head("\"4k\""), 4096);
    let min_rate = |text: &str| site(&format!("[limits]\nmin_rate = {text}")).limits.min_rate;
    assert_eq!(min_rate("20000"), 20_000);
    assert_eq!(min_rate("\"20kB/s\""), 20_000);
    assert_eq!(min_rate("\"20k\""), 20_480);
    assert_eq!(site("server_header = false").server_header, None);
    assert_eq!(site("[limits]\nrequests = 0").limits.requests, 0);
    let offset =
        |text: &str| site(&format!("[log]\ntimezone = {text}")).log.errors.zone.map(|zone| zone.offset(0));
    assert_eq!((offset("\"UTC\""), offset("\"<+03>-3\"")), (None, Some(10_800)));
    assert_eq!(site("[log]\naccess = \"logs/a\"").log.access.unwrap().sink, Sink::File("logs/a".into()));
}

#[test]
fn an_access_log_for_each_host_is_named_by_the_configuration() {
    let hosts = "[[host]]\nnames = [\"a.example\", \"b.example\"]\nroot = \"www\"\n\
                 [[host]]\nnames = \"*.c.example\"\nroot = \"www\"\n\
                 [[host]]\nnames = \"d.example\"\nroot = \"www\"\naccess_log = \"/own.log\"\n";
    let site = site(&format!("{hosts}[log]\naccess = \"/logs/$host.log\"\nformat = \"json\""));
    let found: Vec<String> = site.sinks().iter().map(|sink| sink.to_string()).collect();
    assert_eq!(
        found,
        ["stderr", "/logs/default.log", "/logs/a.example.log", "/logs/_.c.example.log", "/own.log"]
    );
    let formats = site.hosts.iter().map(|host| host.access_log.as_ref().unwrap().format.clone());
    assert!(formats.into_iter().all(|format| format == LogFormat::Json));
}

#[test]
fn reads_where_spans_are_sent() {
    let tracing = |text: &str| site(&format!("[trace]\n{text}")).tracing.unwrap().to_string();
    assert_eq!(
        tracing(""),
        "the traces of clients are continued; each new one is sampled; spans are not sent"
    );
    let begin = "each request begins a trace; one in 9 new ones is sampled; spans are sent to ";
    for (export, expected) in [
        ("http://127.0.0.1", "http://127.0.0.1/v1/traces"),
        ("http://[::1]:4319/", "http://[::1]:4319/v1/traces"),
        ("http://Collector.example:80/a/b", "http://Collector.example:80/a/b"),
        ("https://collector.example", "https://collector.example/v1/traces"),
    ] {
        let found = tracing(&format!("context = \"restart\"\nsample = 9\nexport = \"{export}\""));
        assert_eq!(found, format!("{begin}{expected}"));
    }
    let what = |url: &str| format!("site.toml:4: \"{url}\" is not the URL of a collector; ");
    let example = "write it as \"http://127.0.0.1:4318/v1/traces\"";
    for url in ["127.0.0.1:4318", "grpc://a.example", "http://", "http://a@b.example/", "http:///v1"] {
        check_after(&format!("[trace]\nexport = \"{url}\""), &[&format!("{}{example}", what(url))]);
    }
    check_after(
        "[trace]\nexport = \"http://a.example\"\ntls_ca = \"ca.pem\"",
        &[
            "site.toml:5: \"tls_ca\" has no effect; send the spans by TLS: export = \"https://collector.example.org:4318\"",
        ],
    );
    check_after(
        "[trace]\nservice = \"shop\"",
        &["site.toml:4: \"service\" has no effect; add export = \"http://127.0.0.1:4318\""],
    );
    check_after(
        "[trace]\nsample = 0",
        &["site.toml:4: \"sample\" cannot be 0; expected an integer from 1 to 1000000"],
    );
}

#[test]
fn reports_invalid_toml_with_its_line() {
    check(
        "listen = [\"a\"\nroot = 1\n",
        &[
            "site.toml:1: not valid TOML: the array that begins here with [ is not closed; write ] behind its last element",
        ],
    );
    check(
        "\n\nroot = /srv\n",
        &["site.toml:3: not valid TOML: /srv is neither quoted nor a number; write \"/srv\""],
    );
    check(
        "a = 1\nb = 2\na = 3\n",
        &["site.toml:3: not valid TOML: \"a\" is given twice; remove one of them"],
    );
    check(
        "\"a b\" = 1\n'a b' = 3\n",
        &["site.toml:2: not valid TOML: \"a b\" is given twice; remove one of them"],
    );
    check(
        "[limits]\nbody.x = { a = 1,\n a = 2 }\n[[limits.body]]\nx = 1\n",
        &[
            "site.toml:3: not valid TOML: \"a\" is given twice; remove one of them",
            "site.toml:4: not valid TOML: \"body\" is given twice; remove one of them",
        ],
    );
    check(
        "[limits]\nhead = 1\n[limits]\nbody = 1",
        &["site.toml:3: not valid TOML: \"limits\" is given twice; write the keys of both below one of them"],
    );
    check(
        "a = \"x\n",
        &[
            "site.toml:1: not valid TOML: a text has no quotation mark at its end; write one there, of the kind that the text \
             begins with",
        ],
    );
    check(
        "a = 1\r\nb = \r\n",
        &["site.toml:2: not valid TOML: the key has no value; write one behind the equals sign"],
    );
    check(
        "a",
        &[
            "site.toml:1: not valid TOML: a has no equals sign behind it; write key = \"value\", [section], or # in front of a comment",
        ],
    );
    for path in ["~", "~/www", "$HOME/www", "${HOME}"] {
        let sign = &path[..1];
        check(
            &format!("listen = [\"127.0.0.1:80\"]\nroot = \"{path}\"\n"),
            &[&format!(
                "site.toml:2: \"root\" has \"{path}\", and a {sign} is not expanded; write the whole path, such as \
                 \"/home/ann/www\", or \"./{path}\" for a folder of that name"
            )],
        );
    }
    of_text("listen = [\"127.0.0.1:80\"]\nroot = \"$host/www\"\n");
    const COLON: &str = "not valid TOML: the line has the form of YAML or JSON; write key = \"value\", and [section] \
                         above the keys of a section";
    const SERVER: &str = "not valid TOML: the line has the form of another server's configuration, such as nginx's; \
                          `--dialect nginx` reads it (or apache, lighttpd, caddy), and `taipan convert --from nginx \
                          site.toml` prints it in the form of this one";
    for (text, line, expected) in [
        ("listen: 80\nhosts:\n  - name: a\n    root: /srv\n", 1, COLON),
        ("root = \"www\"\nlisten: \"127.0.0.1:80\"\n", 2, COLON),
        ("{\n  \"listen\": \"127.0.0.1:80\"\n}\n", 1, COLON),
        ("{\"listen\": \"127.0.0.1:80\", \"root\": \"www\"}\n", 1, COLON),
        ("server {\n    listen 80;\n    location / {\n    }\n}\n", 1, SERVER),
        ("server { listen 80; root /srv/www; }\n", 1, SERVER),
        ("worker_processes auto;\nevents { }\n", 1, SERVER),
        ("<VirtualHost *:80>\n  DocumentRoot /srv\n</VirtualHost>\n", 1, SERVER),
        ("# a\nexample.com {\n\troot * /srv\n}\n", 2, SERVER),
        ("server.port = 80\n$HTTP[\"host\"] == \"a\" {\n x = \"a\"\n}\n", 2, SERVER),
    ] {
        check(text, &[&format!("site.toml:{line}: {expected}")]);
    }
    check(
        "a = 1\nlisting\n",
        &[
            "site.toml:2: not valid TOML: listing has no equals sign behind it; write key = \"value\", [section], or # in front \
             of a comment",
        ],
    );
    check(
        "a = 1\n= 2\nb ==\n",
        &[
            "site.toml:2: not valid TOML: a key is missing, or a part of one at a dot; write key = \"value\"",
            "site.toml:3: not valid TOML: there is one equals sign too many; remove it",
        ],
    );
    for (value, expected) in [
        ("../www", "../www is neither quoted nor a number; write \"../www\""),
        ("127.0.0.1:8080", "127.0.0.1:8080 is neither quoted nor a number; write \"127.0.0.1:8080\""),
        ("[\"a\", 10.0.0.0/8]", "10.0.0.0/8 is neither quoted nor a number; write \"10.0.0.0/8\""),
        ("10MB # bytes", "10MB is neither quoted nor a number; write \"10MB\""),
        ("www data", "www is neither quoted nor a number; write \"www data\""),
        ("/srv\"", "/srv\" is neither quoted nor a number; write \"/srv\""),
        ("007", "007 is neither quoted nor a number; write \"007\""),
        ("2026-01-01x", "2026-01-01x is neither quoted nor a number; write \"2026-01-01x\""),
        ("on", "on is neither quoted nor a number; write true, or \"on\""),
        ("No", "No is neither quoted nor a number; write false, or \"No\""),
        ("True", "True is neither quoted nor a number; write true"),
        ("\u{201c}a\u{201d}", "\u{201c}a\u{201d} is neither quoted nor a number; write \"a\""),
    ] {
        check(&format!("a = {value}\n"), &[&format!("site.toml:1: not valid TOML: {expected}")]);
    }
    for (text, expected) in [
        (
            "a\u{a0}= 1\n",
            "column 2 has a character that only looks like a space (U+00A0); write a space there, or nothing",
        ),
        (
            "a = \"\u{a0}\"\u{200b}\n",
            "column 8 has a character that only looks like a space (U+200B); write a space there, or nothing",
        ),
        (
            "a = 1\rb = 2\r",
            "column 6 has a carriage return without a line feed; store the file with line feeds",
        ),
    ] {
        check(text, &[&format!("site.toml:1: not valid TOML: {expected}")]);
    }
    for text in [r#"a = "*\.php""#, r#"a = "C:\Users\me""#] {
        let errors = load_files(&[("site.toml", text)]).map(|_| ()).unwrap_err();
        let to_do = r"write \\ for a backslash, or put the text between single quotation marks";
        assert!(errors.iter().all(|error| error.ends_with(to_do)), "{errors:?}");
    }
    let deep = format!("a = {}", "[".repeat(200));
    assert!(load_files(&[("site.toml", &deep)]).is_err());
    let level = format!("{{ {} = ", ["a"; 79].join("."));
    let deep = format!("\na = {}1{}", level.repeat(75), " }".repeat(75));
    check_after(
        &deep,
        &[
            "site.toml:4: tables and arrays are more than 16 levels deep; remove this; the manual lists every key",
        ],
    );
}

#[test]
fn reports_all_errors_up_to_a_limit() {
    check_after(
        "a = 1\nworkers = 0\n[[route]]\npath = \"x\"\nreturn = 1\n[timeouts]\nidle = 0",
        &[
            "site.toml:3: unknown key \"a\"; remove it; the manual lists every key",
            "site.toml:4: \"workers\" cannot be 0; expected an integer from 1 to 1024",
            "site.toml:6: \"x\" is not a path pattern; begin it with a slash",
            "site.toml:9: \"idle\" cannot be 0; expected a duration such as \"20s\", or an integer of seconds, from 10ms to 1d",
        ],
    );
    let many: String = (0..500).map(|n| format!("x{n} = 1\n")).collect();
    assert_eq!(after_two_lines(&many).map(|_| ()).unwrap_err().len(), MAX_ERRORS);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "(\\[\\[?[a-z.]{1,8}\\]\\]?|[a-z\"/.]{1,9} = [0-9a-z\"{}\\[\\]$/*.]{0,12}|\n){0,12}") {
        let _ = load_files(&[("site.toml", &text)]);
    }
}
