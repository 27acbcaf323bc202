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

/// Reads two valid lines and then `text`, whose first line is line 3.
fn after_two_lines(text: &str) -> Result<Site, Vec<String>> {
    load_files(&[("site.toml", &format!("{TWO_LINES}{text}"))])
}

fn site(text: &str) -> Site {
    of_text(&format!("{TWO_LINES}{text}"))
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

/// A valid file with `line` for `key` in `scope`.
fn file_with(key: &Key, scope: Scope, line: &str) -> String {
    let top: &[(&str, &str)] = match scope {
        Scope::Host => {
            &[("", "listen = \"127.0.0.1:1\""), ("", "root = \"/srv\""), ("", "names = \"top.example\"")]
        }
        _ => &[("listen", "listen = \"127.0.0.1:1\""), ("root", "root = \"/srv\"")],
    };
    // A proxy with TLS, without which there can be no redirect to it.
    let redirects = ["https_redirect", "hsts", "hsts_subdomains", "hsts_preload"].contains(&key.name);
    let proxy = if redirects { "trusted_proxies = \"unix\"" } else { "" };
    let users =
        if scope == Scope::Accounts || key.name == "accounts" { "user_folders = \"www\"" } else { "" };
    let own: &[(&str, &str)] = match scope {
        Scope::Top => &[],
        Scope::Host => &[("", "[[host]]"), ("names", "names = \"a.example\""), ("root", "root = \"/a\"")],
        Scope::Route => &[("", "[[route]]"), ("path", "path = \"/p/\"")],
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
    };
    let needed = match key.name {
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
        "script_processes" | "pass_authorization" => "cgi = true",
        "user" if scope == Scope::Route => "cgi = true",
        "group" if scope == Scope::Route => "cgi = true\nuser = \"a\"",
        "group" if matches!(scope, Scope::Scripts | Scope::Application) => "user = \"a\"",
        "env" if scope == Scope::Route => "cgi = true",
        "publish" => "publish_anonymous = true",
        "meta_dir" | "meta_suffix" => "meta_files = true",
        _ => "",
    };
    // Some settings change the site only if a script or an application exists.
    let behind = match (key.name, scope) {
        ("authorizer", _) => "[[application]]\nname = \"guard\"\naddress = \"127.0.0.1:1\"",
        ("application", Scope::Route) => "[[application]]\nname = \"app\"\naddress = \"127.0.0.1:1\"",
        ("limit", Scope::Rule) => {
            "[[limit]]\nname = \"slow\"\nrequests = 1\n[[limit]]\nname = \"other\"\nrequests = 1"
        }
        ("monitor", Scope::Route) => "[[route.rule]]\nthen = \"deny\"",
        ("env", Scope::Top) => "[[route]]\npath = \"*.cgi\"\ncgi = true",
        ("env", Scope::Host) => "[[host.route]]\npath = \"*.cgi\"\ncgi = true",
        _ => "",
    };
    let other = |(name, _): &&(&str, &str)| *name != key.name;
    let top_lines = top.iter().filter(|line| scope != Scope::Top || other(line));
    let lines: Vec<&str> = top_lines.chain(own.iter().filter(other)).map(|(_, line)| *line).collect();
    let lines = match key.name {
        "default_folder" | "missing_folder" => {
            lines.join("\n").replace("root = \"/", "root = \"/hosts/$host/")
        }
        _ => lines.join("\n"),
    };
    format!("{proxy}\n{users}\n{lines}\n{needed}\n{line}\n{behind}\n")
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
        ("access_log", Scope::Top, "use \"log\": its access"),
        ("worker_processes", Scope::Top, "use \"workers\""),
        ("limit_req", Scope::Route, "use \"limit\": a [[limit]] with requests"),
        ("throttle", Scope::Top, "use \"limit\": a [[limit]] with download = RATE, or \"throttle_file\""),
        ("limit_conn", Scope::Host, "use \"limit\": a [[limit]] with concurrent"),
        ("deny", Scope::Route, "use \"rule\": a [[rule]] with address"),
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
            "site.toml:4: \"head\" cannot be \"1kb\"; expected a size such as \"16KiB\", or an integer of bytes, from 256 to 1MiB",
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
        "[log]\nerror = \"stdrr\"",
        &[
            "site.toml:4: \"error\" cannot be \"stdrr\"; expected \"stdout\", \"stderr\", \"syslog\", a path with a slash in it, \"|/program arguments\" or \"tcp://host:port\"",
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
            "site.toml:2: not valid TOML: missing comma between array elements, expected `,`; see https://toml.io",
        ],
    );
    check(
        "\n\nroot = /srv\n",
        &[
            "site.toml:3: not valid TOML: string values must be quoted, expected literal string; see https://toml.io",
        ],
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
        &["site.toml:3: not valid TOML: \"limits\" is given twice; remove one of them"],
    );
    check(
        "a = \"x\n",
        &["site.toml:1: not valid TOML: invalid basic string, expected `\"`; see https://toml.io"],
    );
    check(
        "a = 1\r\nb = \r\n",
        &[
            "site.toml:2: not valid TOML: string values must be quoted, expected literal string; see https://toml.io",
        ],
    );
    check("a", &["site.toml:1: not valid TOML: key with no value, expected `=`; see https://toml.io"]);
    check(
        "a = 1\n= 2\nb ==\n",
        &[
            "site.toml:2: not valid TOML: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`; see https://toml.io",
            "site.toml:3: not valid TOML: extra `=`, expected nothing; see https://toml.io",
        ],
    );
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
fn rejects_a_site_without_addresses_or_roots() {
    check(
        "",
        &[
            "site.toml: no address to listen on; add listen = [\"127.0.0.1:8080\"] before the first section",
            "site.toml: nothing to serve; add root = \"/srv/www\" before the first section",
        ],
    );
    let many: Vec<String> = (1..=65).map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    check(
        &format!("root = \"/\"\nlisten = [{}]", many.join(",")),
        &["site.toml:2: \"listen\" has too many addresses; expected at most 64"],
    );
    check(
        "root = \"/\"\nlisten = [\"1.2.3.4:80\",\n\":80\", \"1.2.3.4:80\",\n\"localhost:80\"]",
        &[
            "site.toml:3: \":80\" is not an address; write \"127.0.0.1:80\" for this machine only, \"0.0.0.0:80\" for all of IPv4, or \"[::]:80\" for all of IPv6",
            "site.toml:3: \"1.2.3.4:80\" is given twice; remove one of them",
            "site.toml:4: \"localhost:80\" is not an address; names are not resolved; write \"127.0.0.1:80\" or \"[::1]:80\"",
        ],
    );
}

#[test]
fn rejects_the_overlapping_addresses_that_the_kernel_rejects() {
    let listen = |addresses: &str| {
        let errors = load_files(&[("site.toml", &format!("root = \"/\"\nlisten = [{addresses}]"))]);
        errors.map(|_| ()).map_err(|errors| errors.join("\n"))
    };
    for good in [
        "\"0.0.0.0:80\", \"[::]:80\"",
        "\"0.0.0.0:80\", \"[::1]:80\"",
        "\"0.0.0.0:80\", \"127.0.0.1:81\"",
        "\"127.0.0.1:80\", \"127.0.0.2:80\"",
        "\"0.0.0.0:0\", \"127.0.0.1:0\"",
    ] {
        assert_eq!(listen(good), Ok(()), "{good}");
    }
    for (bad, expected) in [
        (
            "\"0.0.0.0:80\",\n\"127.0.0.1:80\"",
            "site.toml:3: \"127.0.0.1:80\" and \"0.0.0.0:80\" overlap: 0.0.0.0:80 includes every address of its family; remove \"127.0.0.1:80\", or name each address in place of \"0.0.0.0:80\"",
        ),
        (
            "\"[::1]:80\", \"[::]:80\"",
            "site.toml:2: \"[::]:80\" and \"[::1]:80\" overlap: [::]:80 includes every address of its family; remove \"[::1]:80\", or name each address in place of \"[::]:80\"",
        ),
    ] {
        assert_eq!(listen(bad), Err(expected.to_owned()), "{bad}");
    }
}

#[test]
fn rejects_rewrites_that_do_not_end() {
    let rewrites = |text: &str| {
        let errors = after_two_lines(&format!("[rewrites]\n{text}"));
        errors.map(|_| ()).map_err(|errors| errors.join("\n"))
    };
    for good in [
        "\"/a/\" = \"/$rest\"",
        "\"/a/\" = \"/b/$rest\"\n\"/b/\" = \"/c/$rest\"",
        "\"/\" = \"/app$path\"\n[[route]]\npath = \"/app/\"\nroot = \"/x\"",
        "\"/\" = \"/index.html\"\n[[route]]\npath = \"/index.html\"\nroot = \"/x\"",
        "\"*.html\" = \"/pages$path.page\"",
        "\"/a\" = \"/b\"\n\"/b\" = \"/c\"",
    ] {
        assert_eq!(rewrites(good), Ok(()), "{good}");
    }
    for (bad, expected) in [
        (
            "\"/\" = \"/index.html\"",
            "site.toml:4: the rewrite of \"/\" leads back to itself; write fallback = \"/index.html\" instead, which responds where a file does not exist; or add a route with a root for \"/index.html\"",
        ),
        (
            "\"/app/\" = \"/app/index.html\"",
            "site.toml:4: the rewrite of \"/app/\" leads back to itself; write fallback",
        ),
        ("\"/\" = \"/app$path\"", "site.toml:4: the rewrite of \"/\" leads back to itself; add a route"),
        ("\"/a\" = \"/b\"\n\"/b\" = \"/a\"", "site.toml:5: the rewrite of \"/b\" leads back to itself"),
        ("\"/a/\" = \"/b/$rest\"\n\"/b/\" = \"/a/$rest\"", "site.toml:4: the rewrite of \"/a/\" leads back"),
        ("\"/**/*.jpg\" = \"$path.jpg\"", "site.toml:4: the rewrite of \"/**/*.jpg\" leads back to itself"),
        ("\"*.jpg\" = \"/img$path\"", "site.toml:4: the rewrite of \"*.jpg\" leads back to itself"),
    ] {
        let found = rewrites(bad).unwrap_err();
        assert!(found.contains(expected), "{bad}: {found}");
    }
}

#[test]
fn warns_of_an_include_pattern_that_matches_no_file() {
    let text = format!("{TWO_LINES}\ninclude = [\"hosts/*.toml\", \"more/*.toml\"]");
    let files = [("/etc/site.toml", text.as_str()), ("/etc/more/a.toml", "user = \"a\"\npid_file = \"pid\"")];
    let found = read(Path::new("/etc/site.toml"), &Files(&files)).map_err(|_| ()).unwrap();
    let warnings: Vec<String> = found.warnings.iter().map(ConfigError::to_string).collect();
    assert_eq!(
        warnings,
        [
            "/etc/site.toml:4: no file matches /etc/hosts/*.toml, so nothing is included; check the pattern, or remove it"
        ]
    );
    let place = |keys: &[&'static str], value: &str| found.places.of(keys, value).map(ToString::to_string);
    assert_eq!(place(&["root"], "/srv/www"), Some("/etc/site.toml:2".to_owned()));
    assert_eq!(place(&["listen"], "127.0.0.1:8080"), Some("/etc/site.toml:1".to_owned()));
    assert_eq!(place(&["user"], "a"), Some("/etc/more/a.toml:1".to_owned()));
    assert_eq!(place(&["access", "pid_file"], "/etc/more/pid"), Some("/etc/more/a.toml:2".to_owned()));
    assert_eq!(place(&["root"], "/other"), None);
}

#[test]
fn rejects_trusted_proxies_that_are_not_networks() {
    check(
        "root = \"/\"\nlisten = []\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\", \"unix\",\n\"10.0.0.1/8\", \"localhost\",\n\
         \"10.0.0.0/33\", \"::ffff:10.0.0.1\"]",
        &[
            "site.toml:4: \"10.0.0.1/8\" is not a network; write \"10.0.0.0/8\", or the address alone",
            "site.toml:4: \"localhost\" is not a network; write an IP address, a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or \"unix\"; names are not resolved",
            "site.toml:5: \"10.0.0.0/33\" is not a network; write a number behind the slash: at most 32 for IPv4, 128 for IPv6",
            "site.toml:5: \"::ffff:10.0.0.1\" is not a network; write it as an IPv4 address",
        ],
    );
    let many = vec!["\"10.0.0.1\""; 1025].join(",");
    check(
        &format!("root = \"/\"\nlisten = []\ntrusted_proxies = [{many}]"),
        &["site.toml:3: \"trusted_proxies\" has too many entries; expected at most 1024; merge networks"],
    );
}

#[test]
fn rejects_a_host_without_names_or_content() {
    check_after(
        "\n[[host]]\nroot = \"/a\"\n",
        &[
            "site.toml:5: this host has no names, so that no request can reach it; give it names, or make it the default with default = true in its [[host]]",
        ],
    );
    check_after(
        "[[host]]\nnames = \"a\"\n",
        &[
            "site.toml:3: this host has nothing to serve; give it a root, routes, redirects or rewrites; a root is not inherited",
        ],
    );
    check_after(
        "names = \"A\"\n[[host]]\nnames = [\"b\", \"a\"]\nroot = \"/\"",
        &["site.toml:5: the name \"a\" is given twice: site.toml:3 has it too; remove one of them"],
    );
    check_after(
        "[[host]]\nnames = \"http://a/\"\nroot = \"/\"\ndefault = true\n[[host]]\nroot = \"/\"\ndefault = true\nnames = \"b\"",
        &[
            "site.toml:2: this host has no names, so that no request can reach it; give it names, or make it the default with default = true in its [[host]]",
            "site.toml:4: \"http://a/\" is not a host name; write the name alone, without \"http://\" or a path",
            "site.toml:9: another host is the default one already; keep one \"default = true\"",
        ],
    );
    check_after("names = []", &["site.toml:3: \"names\" is empty; add a name, or remove the key"]);
    check(
        "listen = \"0.0.0.0:80\"\n[[host]]\nroot = \"/\"\n[[route]]\npath = \"/a\"\nreturn = 403",
        &[
            "site.toml:3: this host has no names, so that no request can reach it; give it names, or make it the default with default = true in its [[host]]",
            "site.toml:4: these routes belong to the top level, which has no root; write [[host.route]] behind their host, or add a root or a route for \"/\"",
        ],
    );
    check(
        "listen = \"0.0.0.0:80\"\nnames = \"a\"\n[[host]]\nnames = \"b\"\nroot = \"/\"",
        &[
            "site.toml:2: the top level has names but nothing to serve; add a root, or move the names into a [[host]]",
        ],
    );
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

#[test]
fn leaves_out_index_files_whose_route_responds() {
    let site = site(
        "index = [\"a.x\", \"b.y\"]\n[[route]]\npath = \"/gone/a.x\"\nreturn = 410\n[[route]]\npath = \"/no/**/*.y\"\nreturn = 403\n\
         [[route]]\npath = \"/text/a.x\"\nrespond = \"closed\"\n\
         [[route]]\npath = \"/to/a.x\"\nredirect = \"/to/\"",
    );
    for (path, expected) in [
        ("/", "a.x b.y"),
        ("/gone/", "b.y"),
        ("/text/", "b.y"),
        ("/no/", "a.x"),
        ("/no/in/", "a.x"),
        // A redirect leads from the name to the folder.
        ("/to/", "a.x b.y"),
    ] {
        let plan = plan(&site.hosts[0], taipan_http::target::SafePath::parse(path).unwrap(), None);
        let PlannedAction::Files(files) = plan.action else { panic!("{path} has files") };
        assert_eq!(files.index.join(" "), expected, "{path}");
    }
}

#[test]
fn leaves_out_suffixes_of_files_whose_route_responds() {
    let site = site(
        "try_suffixes = [\".a\", \".b\", \"/\", \".c\"]\n[[route]]\npath = \"/gone.b\"\nreturn = 410\n\
         [[route]]\npath = \"*.c\"\ninterpreter = \"/bin/sh\"\n[[route]]\npath = \"/none/\"\ntry_suffixes = []\n\
         [[route]]\npath = \"/last/\"\ntry_suffixes = [\"/\", \".d\"]",
    );
    for (path, expected) in [("/x", ".a .b, "), ("/gone", ".a, "), ("/none/x", ", "), ("/last/x", ", .d")] {
        let plan = plan(&site.hosts[0], taipan_http::target::SafePath::parse(path).unwrap(), None);
        let PlannedAction::Files(files) = plan.action else { panic!("{path} has files") };
        let Suffixes { before_folder, without_folder } = &*files.suffixes;
        assert_eq!(format!("{}, {}", before_folder.join(" "), without_folder.join(" ")), expected, "{path}");
    }
}

#[test]
fn finds_hosts_by_their_names() {
    let further = "[[host]]\nnames = [\"b.example\", \"*.c.example\"]\nroot = \"b\"\n";
    let text = format!("{TWO_LINES}names = \"a.example\"\n{further}");
    let site = load_files(&[("/etc/taipan/site.toml", &text)]).unwrap();
    assert_eq!(planned(&site, "a.example", "/x"), "/srv/www /x");
    assert_eq!(planned(&site, "other", "/x"), "/srv/www /x");
    assert_eq!(planned(&site, "B.example:80", "/x"), "/etc/taipan/b /x");
    assert_eq!(planned(&site, "x.c.example", "/x"), "/etc/taipan/b /x");

    let site = after_two_lines(&format!("names = \"a.example\"\n{further}default = true")).unwrap();
    assert_eq!(planned(&site, "other", "/x"), "b /x");
    assert_eq!(planned(&site, "a.example", "/x"), "/srv/www /x");

    let text =
        format!("listen = \"0.0.0.0:80\"\nlisting = true\n{further}[[host]]\nnames = \"d\"\nroot = \"/d\"");
    let site = load_files(&[("site.toml", &text)]).unwrap();
    assert_eq!(planned(&site, "other", "/x"), "b /x");
    assert_eq!(planned(&site, "d", "/x"), "/d /x");
}

#[test]
fn reads_the_action_of_every_route() {
    let site = site(
        r#"
        redirects = { "/old" = "/new", "/blog/" = { to = "https://b.example/$rest", status = 301 } }
        rewrites = { "/icon" = "/img/icon.png", "/app/" = "/app/index.html" }
        [[route]]
        path = "/img/"
        alias = "/mnt/images"
        [[route]]
        path = "/media/"
        root = "/mnt"
        [[route]]
        path = "/gone"
        return = 410
        [[route]]
        path = "/app/index.html"
        listing = true
        [[route]]
        path = "/to"
        redirect = "$scheme://$host/"
        status = 308
        [[host]]
        names = "www.example"
        redirects = { "/" = "https://example.org$path" }
        "#,
    );
    for (path, expected) in [
        ("/x", "/srv/www /x"),
        ("/old", "302 /new"),
        ("/blog/a%20b", "301 https://b.example/a%20b"),
        ("/icon", "/mnt/images /icon.png"),
        ("/app/x/y", "/srv/www /app/index.html"),
        ("/media/x", "/mnt /media/x"),
        ("/gone", "410"),
        ("/to", "308 http://any/"),
    ] {
        assert_eq!(planned(&site, "any", path), expected, "{path}");
    }
    assert_eq!(planned(&site, "www.example", "/a"), "302 https://example.org/a");
    // A glob has the action of the prefix around it, and needs no root of the host.
    let site = of_text(
        "listen = \"0.0.0.0:80\"\n[[route]]\npath = \"*.x\"\nheaders = { a = \"b\" }\n[[route]]\npath = \"/gone/\"\nreturn = 410",
    );
    assert_eq!([planned(&site, "any", "/gone/a.x"), planned(&site, "any", "/a.x")], ["410", "404"]);
}

#[test]
fn inherits_fallbacks() {
    let site = site(
        "fallback = \"/index.php?a=$path\"\n[[route]]\npath = \"/a/\"\nfallback_for = \"all\"\n\
         [[route]]\npath = \"/b/\"\nfallback = \"/b/x.html\"\nindex = \"own\"\n\
         [[route]]\npath = \"/c/\"\nfallback = false\n[[route]]\npath = \"/d/\"\nfallback = \"/d/\"\n\
         [[route]]\npath = \"*.x\"\n",
    );
    let host = &site.hosts[0];
    for (path, expected) in [
        ("/", r#"Some("/index.php /") Pages ["index.html", "index.php"]"#),
        ("/a/x", r#"Some("/index.php /") All ["index.html", "index.php"]"#),
        ("/b/x", r#"Some("/b/x.html /b/") Pages ["own"]"#),
        ("/b/a.x", r#"Some("/b/x.html /b/") Pages ["own"]"#),
        ("/c/x", r#"None Pages ["index.html", "index.php"]"#),
        ("/d/x", r#"Some("/d/ /d/") Pages ["index.html", "index.php"]"#),
    ] {
        let route = host.routes.get(host.routes.find(&SafePath::parse(path).unwrap()));
        let fallback = route.fallback.as_ref().map(|fallback| format!("{} {}", fallback.path, fallback.base));
        assert_eq!(
            format!("{fallback:?} {:?} {:?}", route.fallback_for, route.files.index),
            expected,
            "{path}"
        );
    }
    check_after(
        "fallback = \"index.php\"",
        &["site.toml:3: \"index.php\" is not a fallback; begin it with \"/\": it is a path of the same host"],
    );
    check_after(
        "[[route]]\npath = \"*.x\"\nfallback = \"/a?b=$rest\"",
        &["site.toml:5: \"/a?b=$rest\" is not a fallback; $rest needs a prefix as pattern; use $path"],
    );
}

#[test]
fn bounds_the_combinations_of_globs_and_prefixes() {
    let routes = |globs: usize, prefixes: usize| {
        let glob = |n| format!("[[route]]\npath = \"*.{n}\"\ngunzip = false\n");
        let prefix = |n| format!("[[route]]\npath = \"/{n}/\"\nalias = \"/mnt\"\n");
        (0..globs).map(glob).chain((0..prefixes).map(prefix)).collect::<String>()
    };
    assert!(after_two_lines(&routes(64, 64)).is_ok());
    check_after(
        &routes(64, 65),
        &[
            "site.toml: the globs and prefixes of a host make more than 4096 routes together; write globs for one folder, such as \"/a/**.php\"",
        ],
    );
    // A glob for another folder is not combined with these prefixes.
    let elsewhere = routes(64, 64) + "[[route]]\npath = \"/none/**.php\"\ngunzip = false\n";
    assert!(after_two_lines(&elsewhere).is_ok());
}

#[test]
fn rejects_a_route_that_cannot_work() {
    let check_route = |lines: &str, expected: &[&str]| check_after(&format!("[[route]]\n{lines}"), expected);
    check_route("return = 403", &["site.toml:3: a route has no path; add path = \"/…\""]);
    check_route("path = \"a\"", &["site.toml:4: \"a\" is not a path pattern; begin it with a slash"]);
    check_route(
        "path = \"/a/\"\nalias = \"/x\"\nroot = \"/y\"",
        &["site.toml:6: \"alias\" and \"root\" exclude each other; keep one of them"],
    );
    check_route(
        "path = \"/a\"\nalias = \"/x\"",
        &[
            "site.toml:5: an alias cannot take the place of \"/a\"; end the path with a slash: an alias replaces a folder",
        ],
    );
    check_route(
        "path = \"/a\"\nredirect = \"/x\"\nstatus = 304",
        &["site.toml:6: 304 is not a redirect status; expected 301, 302, 303, 307 or 308"],
    );
    check_route(
        "path = \"/a\"\nstatus = 301",
        &["site.toml:5: \"status\" is for a redirect; use return = STATUS, or add a redirect"],
    );
    check_route(
        "path = \"/a\"\nreturn = 401",
        &["site.toml:5: \"return\" cannot be 401, which needs a field of its own; use 403 or 404"],
    );
    check_route(
        "path = \"/a\"\nreturn = 200",
        &["site.toml:5: \"return\" cannot be 200; expected an integer from 400 to 599"],
    );
    check_route(
        "path = \"/a\"\nredirect = \"/b/$rest\"",
        &["site.toml:5: \"/b/$rest\" is not a valid target; $rest needs a prefix as pattern; use $path"],
    );
    check_route(
        "path = \"/a\"\nredirect = \"b\"",
        &[
            "site.toml:5: \"b\" is not a valid target; begin it with \"/\", \"$path\", \"http://\", \"https://\" or \"$scheme://\" and a host",
        ],
    );
    check_route(
        "path = \"/a\"\n[[route]]\npath = \"/a\"",
        &["site.toml:6: the pattern \"/a\" is given twice: site.toml:4 has it too; remove one of them"],
    );
    check_route(
        "path = \"/a/\"\nrewrite = \"/a/b\"",
        &[
            "site.toml:4: the rewrite of \"/a/\" leads back to itself; write fallback = \"/a/b\" instead, which responds where a file does not exist; or add a route with a root for \"/a/b\"",
        ],
    );
    check_after(
        "redirects = { \"/a\" = { status = 301 }, \"/b\" = { to = \"/\", code = 1 } }\nrewrites = { \"/c\" = 5 }",
        &[
            "site.toml:3: a redirect has no target; add to = \"/…\"",
            "site.toml:3: unknown key \"code\"; a redirect has \"to\" and \"status\"",
            "site.toml:4: \"/c\" cannot be an integer; expected a path",
        ],
    );
    check(
        "listen = \"0.0.0.0:80\"\n[[route]]\npath = \"/a\"",
        &[
            "site.toml:2: this route has no action, and its host has no root to inherit; add root, alias, redirect, rewrite or return to it, or a root to the host",
        ],
    );
    let many: String = (0..=1000).map(|n| format!("\"/{n}\" = \"/\"\n")).collect();
    check_after(
        &format!("[redirects]\n{many}"),
        &[
            "site.toml:1004: a host has more than 1000 routes, redirects and rewrites; use patterns that match more",
        ],
    );
}

#[test]
fn a_route_inherits_from_its_host_and_a_host_from_the_top_level() {
    let site = site(
        r#"
        listing = true
        index = ["a"]
        headers = { X-A = "top", X-B = "top" }
        cache_control = "no-cache"
        error_pages = { 404 = "/404", 500 = "/500" }
        types = { a = "text/a", b = "text/b" }
        max_body = 7
        [[host]]
        names = "h"
        root = "/h"
        headers = { x-a = "host" }
        error_pages = { 404 = "/h404" }
        [[host.route]]
        path = "/r/"
        index = []
        listing = false
        charset = false
        types = { a = "text/c" }
        headers = { X-C = false }
        cache_control = { "*.css" = "max-age=1", "image/*" = "max-age=2", "text/html" = "max-age=3" }
        "#,
    );
    let route = site.hosts[1].routes.iter().nth(1).unwrap();
    assert_eq!((route.files.index.len(), route.files.listing, route.max_body), (0, Listing::Off, 7));
    assert_eq!(site.hosts[1].routes.iter().next().unwrap().files.index, ["a"]);
    let set = |name: &str, value: &str| HeaderRule::Set(name.to_owned(), value.to_owned());
    assert_eq!(route.headers, [HeaderRule::Remove("X-C".to_owned()), set("x-a", "host"), set("X-B", "top")]);
    let cached = |path: &str, media_type: &str| {
        route.cache_control(&SafePath::parse(path).unwrap(), media_type).map(str::to_owned)
    };
    assert_eq!(cached("/r/a.css", "text/css").as_deref(), Some("max-age=1"));
    assert_eq!(cached("/r/a.b", "Image/PNG").as_deref(), Some("max-age=2"));
    assert_eq!(cached("/r/", "text/html; charset=utf-8").as_deref(), Some("max-age=3"));
    assert_eq!(cached("/r/a.txt", "text/plain").as_deref(), Some("no-cache"));
    let pages: Vec<_> =
        route.error_pages.iter().map(|(status, page)| format!("{} {page}", status.code())).collect();
    assert_eq!(pages, ["404 /h404", "500 /500"]);
    assert_eq!((route.files.types.lookup("x.a"), route.files.types.lookup("x.b")), ("text/c", "text/b"));
    assert_eq!(
        site.hosts[0].routes.iter().next().unwrap().files.types.lookup("x.b"),
        "text/b; charset=utf-8"
    );
}

/// The script of a route with `path = "*.x"` and the lines of `text`.
fn script_of(text: &str) -> Script {
    let site = site(&format!("env = {{ TOP = \"t\", BOTH = \"t\" }}\n[[route]]\npath = \"*.x\"\n{text}"));
    let route = site.hosts[0].routes.iter().nth(1).unwrap();
    *route.script.clone().expect("the route has a script")
}

#[test]
fn a_script_inherits_variables_processes_and_account() {
    let variables = |script: &Script| {
        let text = |(name, value): (&str, &[u8])| format!("{name}={}", String::from_utf8_lossy(value));
        script.environment.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    let script = script_of("cgi = true");
    assert_eq!(variables(&script), "TOP=t BOTH=t PATH=/usr/local/bin:/usr/bin:/bin");
    assert_eq!((script.interpreter, script.processes), (None, 64));
    assert_eq!(script.credentials, Credentials::Withheld);

    let script =
        script_of("cgi = true\nenv = { PATH = \"/bin\", BOTH = \"own\" }\npass_authorization = true");
    assert_eq!(variables(&script), "PATH=/bin BOTH=own TOP=t");
    assert_eq!(script.credentials, Credentials::Passed);

    let script = script_of("interpreter = \"/usr/bin/php-cgi\"\nscript_processes = 3");
    assert_eq!(
        (script.interpreter, script.processes),
        (Some(Interpreter::Program("/usr/bin/php-cgi".into())), 3)
    );
    assert_eq!(
        script_of("cgi = true\nscript_processes = 99999").processes,
        64,
        "at most the number for all scripts"
    );

    let account = |text: &str| script_of(text).account.map(|account| account.to_string());
    for (text, expected) in [
        ("cgi = true", None),
        ("cgi = true\nuser = \"a\"", Some("a")),
        ("cgi = true\nuser = \"1000\"\ngroup = \"b\"", Some("1000:b")),
        ("cgi = true\n[scripts]\nuser = \"s\"\ngroup = \"t\"", Some("s:t")),
        ("cgi = true\nuser = \"a\"\n[scripts]\nuser = \"s\"\ngroup = \"t\"", Some("a")),
        (
            "interpreter = \"app\"\n[scripts]\nuser = \"s\"\n[[application]]\nname = \"app\"\naddress = \"127.0.0.1:1\"",
            None,
        ),
    ] {
        assert_eq!(account(text).as_deref(), expected, "{text}");
    }

    // A glob inherits the account of the prefix that it is within.
    let of_path = |text: &str, path: &'static str| {
        let site = site(text);
        let path = SafePath::parse(path).expect("it is one");
        let routes = &site.hosts[0].routes;
        let script = routes.get(routes.find(&path)).script.as_ref().expect("it is one");
        script.account.as_ref().map(|account| account.to_string())
    };
    let glob = "[[route]]\npath = \"*.x\"\ninterpreter = \"/x\"\n";
    let prefix = "[[route]]\npath = \"/w/\"\nalias = \"/wiki\"\nuser = \"wiki\"\n";
    let all = "[scripts]\nuser = \"s\"\n";
    for (text, within, beside) in [
        (format!("{glob}{prefix}"), Some("wiki"), None),
        (format!("{prefix}{glob}{all}"), Some("wiki"), Some("s")),
        (format!("{prefix}{glob}user = \"g\"\n{all}"), Some("g"), Some("g")),
        (format!("{prefix}cgi = true\n{glob}"), Some("wiki"), None),
    ] {
        assert_eq!(of_path(&text, "/w/a.x").as_deref(), within, "{text}");
        assert_eq!(of_path(&text, "/a.x").as_deref(), beside, "{text}");
    }

    let without = site("[[route]]\npath = \"*.x\"\ncgi = false\nenv = { A = \"b\" }");
    assert!(!without.has_scripts());
}

#[test]
fn reads_the_section_of_scripts() {
    let resources = |text: &str| site(&format!("[scripts]\n{text}")).scripts.resources;
    assert_eq!(resources("cpu = \"1500ms\"").cpu, Some(2), "rounded up");
    assert_eq!(resources("umask = \"027\"").umask, Some(0o27));
    assert_eq!(resources("memory = \"512MiB\"").memory, Some(512 << 20));
    assert_eq!(resources(""), Resources::default());
    let cgroups = |text: &str| site(&format!("[scripts]\n{text}")).scripts.cgroups;
    assert_eq!(cgroups("cgroup = false"), None);
    for (text, folder, memory, tasks) in [
        ("cgroup = \"auto\"", None, None, None),
        ("cgroup = \"/a\"\ncgroup_memory = \"1MiB\"", Some("/a"), Some(1 << 20), None),
        ("cgroup = \"/a\"\ncgroup_tasks = 2", Some("/a"), None, Some(2)),
    ] {
        assert_eq!(
            cgroups(text),
            Some(ControlGroups { folder: folder.map(Into::into), memory, tasks }),
            "{text}"
        );
    }
    let sendfile = |text: &str| site(&format!("[scripts]\nsendfile = {text}")).scripts.sendfile;
    assert_eq!(sendfile("\"/a\""), [Path::new("/a")]);
    assert_eq!(sendfile("[\"/a\", \"b\"]"), [Path::new("/a"), Path::new("b")]);
    let mut relative = site("[[route]]\npath = \"/b/\"\nroot = \"b\"\n[scripts]\nspool = \"spool\"");
    relative.anchor(Path::new("/etc"));
    assert_eq!(relative.scripts.spool, Path::new("/etc/spool"));
    assert_eq!(
        relative.roots().into_iter().collect::<Vec<_>>(),
        [Path::new("/etc/b"), Path::new("/srv/www")]
    );
}

#[test]
fn rejects_settings_with_which_a_script_cannot_run() {
    let route = |text: &str, expected: &str| {
        check_after(&format!("[[route]]\npath = \"/a/\"\n{text}"), &[expected]);
    };
    route(
        "interpreter = \"php-cgi\"",
        "site.toml:5: \"interpreter\" cannot be \"php-cgi\"; write its whole path, e.g. \"/usr/bin/php-cgi\", or the name of an [[application]]",
    );
    route(
        "cgi = false\ninterpreter = \"/bin/sh\"",
        "site.toml:5: \"interpreter\" and cgi = false exclude each other; remove one of them",
    );
    route(
        "cgi = true\nreturn = 410",
        "site.toml:5: \"cgi\" is for a route with files; give it a root or an alias, or its host a root",
    );
    route(
        "script_processes = 3",
        "site.toml:5: \"script_processes\" is for a route with scripts; add cgi = true or an interpreter, or remove it",
    );
    route(
        "cgi = true\nenv = { HTTP_PROXY = \"x\" }",
        "site.toml:6: \"HTTP_PROXY\" cannot be set for scripts; the server itself decides about this variable",
    );
    route(
        "cgi = true\nenv = { A-B = \"x\" }",
        "site.toml:6: \"A-B\" cannot be set for scripts; a name has letters, digits and underscores, and no digit first",
    );
    route("cgi = true\nenv = { A = 1 }", "site.toml:6: \"A\" cannot be an integer; expected a string");
    route(
        "user = \"a\"",
        "site.toml:5: \"user\" is for a route with scripts; add cgi = true or an interpreter, or remove it",
    );
    route(
        "cgi = true\ngroup = \"a\"",
        "site.toml:6: there is a group without a user; add \"user\", or remove \"group\"",
    );
    route(
        "cgi = true\nuser = \"a:b\"",
        "site.toml:6: \"user\" is not the name of an account; expected a string",
    );
    route(
        "user = \"a\"\napplication = \"x\"\n[[application]]\nname = \"x\"\naddress = \"127.0.0.1:1\"",
        "site.toml:5: \"user\" is for a route with scripts of its own; set it in the [[application]]",
    );
    let section = |text: &str, expected: &str| check_after(&format!("[scripts]\n{text}"), &[expected]);
    for umask in ["8", "1000", "", "+7", "-7", "0o22"] {
        let expected = format!(
            "site.toml:4: \"umask\" cannot be \"{umask}\"; expected octal digits such as \"022\" or \"027\""
        );
        section(&format!("umask = \"{umask}\""), &expected);
    }
    section(
        "cgroup = \"scripts\"",
        "site.toml:4: \"cgroup\" cannot be \"scripts\"; write \"auto\", or a whole path such as \"/sys/fs/cgroup/scripts.slice\"",
    );
    section(
        "background_jobs = true\ncgroup = \"auto\"",
        "site.toml:4: \"background_jobs\" and \"cgroup\" exclude each other: a control group ends with its script; \
         remove one of them",
    );
    for (text, name) in
        [("cgroup_tasks = 9", "cgroup_tasks"), ("cgroup_memory = \"1MiB\"\ncgroup = false", "cgroup_memory")]
    {
        let what_to_do = "add cgroup = \"auto\" or a folder, or remove it";
        section(text, &format!("site.toml:4: \"{name}\" needs \"cgroup\"; {what_to_do}"));
    }
    section(
        "sendfile = [\"/a\", \"\"]",
        "site.toml:4: \"sendfile\" has an entry that is not a path; expected a string, or an array of strings",
    );
    section("processes = 0", "site.toml:4: \"processes\" cannot be 0; expected an integer from 1 to 100000");
}

#[test]
fn rejects_paths_of_scripts_outside_of_the_chroot() {
    let chrooted = |text: &str| format!("chroot = \"/srv\"\n{text}");
    check_after(
        &chrooted("[[route]]\npath = \"*.php\"\ninterpreter = \"/usr/bin/php-cgi\""),
        &[
            "site.toml:3: \"interpreter\", /usr/bin/php-cgi, is not beneath \"chroot\", /srv; move it there, or remove the chroot: scripts run in it, too",
        ],
    );
    check_after(
        &chrooted("[scripts]\nsendfile = \"/private\"\nspool = \"/tmp\""),
        &[
            "site.toml:3: \"sendfile\", /private, is not beneath \"chroot\", /srv; move it there, or remove the chroot: scripts run in it, too",
            "site.toml:3: \"spool\", /tmp, is not beneath \"chroot\", /srv; move it there, or remove the chroot: scripts run in it, too",
        ],
    );
    let text =
        "[scripts]\nsendfile = \"/srv/private\"\n[[route]]\npath = \"*.x\"\ninterpreter = \"/srv/bin/x\"";
    let mut site = site(&chrooted(text));
    site.enter(Path::new("/srv"));
    assert_eq!(site.scripts.sendfile, [Path::new("/private")]);
    assert_eq!(site.scripts.spool, Path::new("/var/tmp"), "within the chroot");
    let script = site.hosts[0].routes.iter().nth(1).unwrap().script.clone().unwrap();
    assert_eq!(script.interpreter, Some(Interpreter::Program("/bin/x".into())));
    site.anchor(Path::new("/elsewhere"));
    assert_eq!(site.roots().into_iter().collect::<Vec<_>>(), [Path::new("/private"), Path::new("/www")]);
}

#[test]
fn rejects_settings_that_cannot_be_sent() {
    check_after(
        "headers = { Content-Length = \"1\", \"a b\" = \"c\", X = \"a\\nb\", Y = 5, Z = \"1\", z = \"2\" }",
        &[
            "site.toml:3: the field \"Content-Length\" cannot be changed; the server sets it",
            "site.toml:3: \"a b\" is not a field name; expected letters, digits and dashes",
            "site.toml:3: the value of \"X\" cannot be sent in a field; remove control characters, and spaces at its ends",
            "site.toml:3: \"Y\" cannot be an integer; expected a string, or false",
            "site.toml:3: the field \"z\" is given twice; keep one; names of fields ignore case",
        ],
    );
    check_after(
        "[headers]\nServer = false",
        &["site.toml:4: the field \"Server\" cannot be changed; see \"server_header\""],
    );
    check_after(
        "cache_control = 5",
        &["site.toml:3: \"cache_control\" cannot be 5; expected a string, or a table of `pattern = value`"],
    );
    check_after(
        "[cache_control]\nx = \"no-store\"\n\"/a\" = \"a\\r\\nb\"",
        &[
            "site.toml:4: \"x\" is not a path pattern; begin it with a slash",
            "site.toml:5: \"a\\r\\nb\" is not a value of Cache-Control; expected directives such as \"max-age=3600\"",
        ],
    );
    check_after(
        "error_pages = { 200 = \"/a\", 404 = \"/\", 500 = \"/../a\", 501 = true }",
        &[
            "site.toml:3: \"200\" is not an error status; expected a number from 400 to 599",
            "site.toml:3: \"/\" is not the path of a page; expected the path of a file in this host, with a slash in front",
            "site.toml:3: \"/../a\" is not the path of a page; expected the path of a file in this host, with a slash in front",
            "site.toml:3: \"501\" cannot be a boolean; expected a path such as \"/errors/404.html\"",
        ],
    );
    check_after(
        "types = { a = \"text\", \"a/b\" = \"text/a\" }\ncharset = \"\"\ndefault_type = \"x\"",
        &[
            "site.toml:3: \"text\" is not a media type, e.g. \"text/html\"; correct it or remove it",
            "site.toml:3: \"a/b\" is not a file name extension, e.g. \"html\"; correct it or remove it",
            "site.toml:4: \"\" is not the name of a charset, e.g. \"utf-8\"; correct it or remove it",
            "site.toml:5: \"x\" is not a media type, e.g. \"text/html\"; correct it or remove it",
        ],
    );
    check_after(
        "index = \"a/b\"",
        &["site.toml:3: \"a/b\" is not a file name; write a name without slashes, e.g. \"index.html\""],
    );
    check_after(
        "try_suffixes = [\".html\", \"\", \"/\", \"/\", \"/index.html\"]",
        &[
            "site.toml:3: \"\" is no end of a name; write e.g. \".html\", and \"/\" once for the folder",
            "site.toml:3: \"/\" is no end of a name; write e.g. \".html\", and \"/\" once for the folder",
            "site.toml:3: \"/index.html\" is no end of a name; write e.g. \".html\", and \"/\" once for the folder",
        ],
    );
    check_after(
        "try_suffixes = [\"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"9\"]",
        &["site.toml:3: there are more than 8 suffixes; write those that names have"],
    );
}

#[test]
fn the_default_host_may_demand_certificates_without_a_name() {
    let text = |first: &str| {
        format!(
            "listen = [\"127.0.0.1:443 tls\", \"127.0.0.2:443 tls\"]\ncertificate = \"a.pem\"\n{first}\
             [[host]]\naddresses = \"127.0.0.2\"\nroot = \"/b\"\ncertificate = \"b.pem\"\n\
             client_certificates = \"required\"\nclient_ca = \"ca.pem\"\n"
        )
    };
    let read = |text: &str| read(Path::new("site.toml"), &Files(&[("site.toml", text)]));
    let found = read(&text("")).unwrap();
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    let errors = read(&text("root = \"/srv\"\n")).err().unwrap();
    let found = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(found.contains("a host without names cannot demand certificates of clients"), "{found}");
}

#[test]
fn a_host_that_is_served_without_tls_inherits_no_hsts() {
    let field = |own: &str| {
        let site = of_text(&format!(
            "listen = [\"127.0.0.1:443 tls\", \"127.0.0.1:80\"]\nroot = \"/srv\"\ncertificate = \"a.pem\"\nhsts = \"5m\"\n\
             [[host]]\nnames = \"b.example\"\nroot = \"/b\"\n{own}\n"
        ));
        let host = &site.hosts[1];
        (host.tls.plain, host.routes.iter().next().unwrap().headers.len())
    };
    assert_eq!(field(""), (PlainRequests::Redirected, 1));
    assert_eq!(field("https_redirect = true"), (PlainRequests::Redirected, 1));
    assert_eq!(field("https_redirect = false"), (PlainRequests::Served, 0));
}

#[test]
fn reads_certificates_of_hosts() {
    let read = load_files(&[(
        "/etc/taipan/site.toml",
        "listen = [\"127.0.0.1:443 tls\", \"127.0.0.1:80\"]\nroot = \"/srv\"\ncertificate = [\"a.pem\", \"/b.pem\"]\n\
         certificate_key = [\"a.key\", \"/b.key\"]\n\
         [[host]]\nnames = \"b.example\"\nroot = \"/b\"\nhsts = \"1y\"\nhsts_subdomains = true\n\
         [[host]]\nnames = \"c.example\"\nroot = \"/c\"\ncertificate = \"c\"\nclient_certificates = \"required\"\n\
         client_ca = \"ca.pem\"\nclient_crl = \"ca.crl\"\n",
    )]);
    let site = read.unwrap();
    let files = |certificate: &str, key: Option<&str>| CertificateFiles {
        certificate: certificate.into(),
        key: key.map(Into::into),
    };
    let top = vec![files("/etc/taipan/a.pem", Some("/etc/taipan/a.key")), files("/b.pem", Some("/b.key"))];
    let (first, second, third) = (&site.hosts[0], &site.hosts[1], &site.hosts[2]);
    assert_eq!(first.tls, HostTls { certificates: top.clone(), ..HostTls::default() });
    let redirected = HostTls { certificates: top, plain: PlainRequests::Redirected, ..HostTls::default() };
    assert_eq!(second.tls, redirected, "inherits certificates");
    let hsts =
        HeaderRule::Set("Strict-Transport-Security".into(), "max-age=31536000; includeSubDomains".into());
    assert_eq!(second.routes.iter().next().unwrap().headers, [hsts]);
    let known =
        ClientAuthorities { ca: vec!["/etc/taipan/ca.pem".into()], crl: vec!["/etc/taipan/ca.crl".into()] };
    let own = HostTls {
        certificates: vec![files("/etc/taipan/c", None)],
        acme: false,
        clients: ClientCertificates::Required(known),
        plain: PlainRequests::Redirected,
    };
    assert_eq!(third.tls, own);
}

#[test]
fn reads_which_hosts_have_certificates_by_acme() {
    let read = load_files(&[(
        "site.toml",
        "listen = \"127.0.0.1:443 tls\"\nroot = \"/srv\"\nacme = true\nnames = \"a.example\"\n\
         [certificates]\nfolder = \"certs\"\nca = \"ca.pem\"\nchallenges = [\"http-01\", \"dns-persist-01\"]\n\
         eab_key_id = \"7\"\neab_key_file = \"eab\"\nretry = \"2s\"\n\
         [[host]]\nnames = \"*.b.example\"\nroot = \"/b\"\n\
         [[host]]\nnames = \"c.example\"\nroot = \"/c\"\ncertificate = \"c.pem\"\n\
         [[host]]\nnames = \"d.example\"\nroot = \"/d\"\nacme = false\n",
    )]);
    let site = read.unwrap();
    let found: Vec<_> = site.hosts.iter().map(|host| (host.tls.acme, host.tls.certificates.len())).collect();
    assert_eq!(found, [(true, 0), (true, 0), (false, 1), (false, 0)]);
    let expected = Certificates {
        folder: Some("certs".into()),
        ca: Some("ca.pem".into()),
        challenges: vec![Challenge::Http, Challenge::DnsPersist],
        external_account: Some(ExternalAccount { key_id: "7".into(), key_file: "eab".into() }),
        retry: Duration::from_secs(2),
        ..Certificates::default()
    };
    assert_eq!(site.certificates, expected);
    // Hosts inherit it; the default one has no name.
    let site = after_two_lines("acme = true\n[[host]]\nnames = \"a.example\"\nroot = \"/a\"").unwrap();
    assert_eq!(site.hosts.iter().map(|host| host.tls.acme).collect::<Vec<_>>(), [false, true]);
    assert_eq!(site.certificates, Certificates::default());
    let site = after_two_lines("[certificates]\ndns_command = [\"/bin/dns\", \"x\"]").unwrap();
    assert_eq!(site.certificates.challenges, [Challenge::TlsAlpn, Challenge::Http, Challenge::Dns]);
    assert_eq!(site.certificates.dns_command, ["/bin/dns", "x"]);
}

#[test]
fn rejects_certificates_by_acme_that_cannot_be() {
    for (text, expected) in [
        ("acme = true", "a certificate needs names; add names"),
        (
            "acme = true\nnames = \"*.a.example\"",
            "no challenge of \"challenges\" can prove \"*.a.example\"; add",
        ),
        (
            "acme = true\nnames = \"a.example\"\ncertificate = \"a\"",
            "by ACME or from a file; remove \"acme\"",
        ),
        ("[certificates]\nauthorities = []", "\"authorities\" has 0 entries; expected 1 to 8"),
        (
            "[certificates]\nauthorities = \"http://a/\"",
            "\"http://a/\" is no directory of an authority; write its URL",
        ),
        ("[certificates]\nauthorities = \"https://a b\"", "is no directory of an authority"),
        ("[certificates]\nchallenges = []", "\"challenges\" is empty"),
        ("[certificates]\nchallenges = [\"dns-01\"]", "\"dns-01\" needs a program that sets records; add"),
        ("[certificates]\nchallenges = [\"http-02\"]", "expected an array of \"tls-alpn-01\""),
        ("[certificates]\ndns_command = []", "\"dns_command\" is empty"),
        ("[certificates]\ndns_command = \"dns\"", "\"dns\" is not the whole path of a program"),
        ("[certificates]\nemail = \"mailto:a@b\"", "is not an address such as"),
        ("[certificates]\neab_key_id = \"1\"", "\"eab_key_id\" alone names no account; add \"eab_key_file\""),
        ("[certificates]\neab_key_file = \"f\"", "alone names no account; add \"eab_key_id\""),
        ("[certificates]\nkey = \"dsa\"", "expected one of \"ecdsa-p256\""),
    ] {
        let errors = after_two_lines(text).map(|_| ()).unwrap_err();
        assert!(errors.iter().any(|error| error.contains(expected)), "{text}: {errors:#?}");
    }
    let names: Vec<String> = (0..101).map(|n| format!("\"n{n}.example\"")).collect();
    let errors = after_two_lines(&format!("acme = true\nnames = [{}]", names.join(", "))).unwrap_err();
    assert!(errors[0].contains("has at most 100 names"), "{errors:?}");
}

#[test]
fn reads_where_tickets_and_private_keys_are() {
    let read = |section: &str| {
        let text = format!("listen = \"127.0.0.1:80\"\nroot = \"/srv\"\n[tls]\n{section}\n");
        let tls = load_files(&[("/etc/taipan/site.toml", &text)]).unwrap().tls;
        (tls.tickets, tls.private_keys)
    };
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    assert_eq!(read(""), (Some(Tickets { rotation: hours(12), key_file: None }), PrivateKeys::InGeneration));
    let shared = Tickets { rotation: hours(1), key_file: Some("/etc/taipan/ticket.key".into()) };
    let section = "ticket_rotation = \"1h\"\nticket_key_file = \"ticket.key\"\nsigner = true";
    assert_eq!(read(section), (Some(shared), PrivateKeys::InSigner));
    assert_eq!(read("tickets = false"), (None, PrivateKeys::InGeneration));
}

const KEYS: &str = include_str!("../../../auth/src/jwt/tests/ed.pub");
const KEY_SET: &str = include_str!("../../../auth/src/jwt/tests/keys.json");
const GUARDS: &str = "[[application]]\nname = \"guard\"\nprotocol = \"http\"\naddress = \"127.0.0.1:1\"\n\
    [[application]]\nname = \"fast\"\naddress = \"127.0.0.1:1\"\n\
    [[application]]\nname = \"simple\"\nprotocol = \"scgi\"\naddress = \"127.0.0.1:1\"\n";

#[test]
fn a_route_inherits_what_its_authorizer_is_asked() {
    let site = site(&format!(
        "authorizer = \"guard\"\nauthorizer_path = \"/verify\"\nauthorizer_fields = \"Remote-User\"\n\
         [[route]]\npath = \"/a/\"\nauthorizer_cache = \"10s\"\n\
         [[route]]\npath = \"/b/\"\nauthorizer = \"fast\"\n\
         [[route]]\npath = \"/c/\"\nauthorizer = false\n\
         [[route]]\npath = \"/d/\"\nauthorizer_path = \"/admin?x\"\nauthorizer_fields = [\"X-Role\", \"remote-user\"]\n\
         {GUARDS}"
    ));
    let host = site.hosts.at(0);
    for (path, expected) in [
        ("/", "0 /verify Remote-User 0ns"),
        ("/a/x", "0 /verify Remote-User 10s"),
        ("/b/x", "1"),
        ("/c/x", ""),
        ("/d/x", "0 /admin?x X-Role,remote-user 0ns"),
    ] {
        let route = host.routes.get(host.routes.find(&SafePath::parse(path).unwrap()));
        let shown = route.authorizers.iter().map(|own| match &own.subrequest {
            Some(asked) => {
                let (target, fields) = (asked.target.as_deref().unwrap_or("-"), asked.fields.join(","));
                format!("{} {target} {fields} {:?}", own.upstream, asked.cache)
            }
            None => own.upstream.to_string(),
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" | "), expected, "{path}");
    }
    assert_eq!(site.asserted_fields(), ["Remote-User", "X-Role"]);
}

#[test]
fn rejects_questions_that_no_authorizer_can_answer() {
    for (line, expected) in [
        (
            "authorizer = \"simple\"",
            "cannot be an authorizer; name an application that speaks HTTP or FastCGI",
        ),
        ("authorizer = \"absent\"", "there is no application \"absent\""),
        (
            "authorizer = \"fast\"\nauthorizer_fields = \"Remote-User\"",
            "\"authorizer_fields\" is for an authorizer that speaks HTTP; remove it",
        ),
        (
            "authorizer = false\nauthorizer_cache = 9",
            "\"authorizer_cache\" has no effect without an authorizer",
        ),
        (
            "authorizer_path = \"verify\"",
            "\"verify\" is not a path of the authorizer; write a path with a slash",
        ),
        ("authorizer_path = \"/a b\"", "is not a path of the authorizer"),
        ("authorizer_path = \"/a\\r\\nB: c\"", "is not a path of the authorizer"),
        ("authorizer_method = \"post\"", "expected one of \"get\", \"original\""),
        ("authorizer_fields = \"Remote_User\"", "expected letters, digits and dashes"),
        ("authorizer_fields = \"\"", "expected letters, digits and dashes"),
        ("authorizer_fields = [\"A-b\", \"a-B\"]", "cannot set the field \"a-B\"; it is named twice"),
        ("authorizer_fields = \"Host\"", "cannot set the field \"Host\"; the server itself sets it"),
        ("authorizer_fields = \"X-Forwarded-For\"", "the server itself sets it"),
        ("authorizer_fields = \"Proxy\"", "the server itself sets it"),
        ("authorizer_fields = \"Authorization\"", "name another one: it would be removed from all requests"),
        (
            "authorizer_response_fields = \"Content-Length\"",
            "cannot add the field \"Content-Length\"; the server sets it",
        ),
        ("authorizer_response_fields = \"A B\"", "cannot add the field \"A B\"; expected letters"),
        ("authorizer_user = \"X-User\"", "\"X-User\" is not among \"authorizer_fields\""),
        ("authorizer_cache = \"2h\"", "from 0s to 1h"),
        (
            "authorizer_cache_key = [\"host\", \"path\"]",
            "has nothing that tells clients apart; add the fields",
        ),
        ("authorizer_cache_key = [\"a b\"]", "is no part of a request"),
    ] {
        let errors = after_two_lines(&format!("{line}\n{GUARDS}")).map(|_| ()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{line}: {errors:?}");
    }
}

#[test]
fn rejects_what_browsers_would_not_obey() {
    for (line, expected) in [
        (
            "cors_origins = [\"https://a.example/\"]",
            "\"https://a.example/\" is not an origin; an origin ends with its host",
        ),
        ("cors_origins = \"example.org\"", "begin it with https://, or write \"*\" for every origin"),
        ("cors_origins = \"null\"", "every page in a sandbox has this origin"),
        ("cors_origins = \"https://a.*.example\"", "a star stands for whole labels in front"),
        (
            "cors_origins = \"*\"\ncors_credentials = true",
            "\"cors_origins\" cannot be \"*\" with \"cors_credentials\"; name each of them",
        ),
        (
            "cors_origins = \"*\"\n[[route]]\npath = \"/a/\"\ncors_credentials = true",
            "site.toml:6: \"cors_origins\" cannot be \"*\" with \"cors_credentials\"",
        ),
        ("cors_credentials = true\ncors_fields = \"*\"", "\"cors_fields\" cannot be \"*\""),
        ("cors_methods = [\"GET\", \"TRACE\"]", "\"cors_methods\" cannot have \"TRACE\"; expected methods"),
        ("cors_methods = \"GET, PUT\"", "\"cors_methods\" cannot have \"GET, PUT\""),
        ("cors_exposed_fields = \"ETag\\r\\nA: b\"", "\"cors_exposed_fields\" cannot have"),
        ("cors_max_age = \"2d\"", "from 0s to 1d"),
        ("security_headers = \"paranoid\"", "expected \"basic\", \"strict\" or false"),
        ("security_headers = true", "expected a string, or false"),
    ] {
        let errors = after_two_lines(line).map(|_| ()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{line}: {errors:?}");
    }
}

#[test]
fn a_route_responds_with_a_text_and_keeps_what_protects_it() {
    let site = site(
        "[[route]]\npath = \"/\"\n[[route.rule]]\nthen = \"deny\"\n\
         [[route]]\npath = \"/healthz\"\nrespond = \"ok\\n\"\n\
         [[route]]\npath = \"/json/\"\nrespond = \"{}\"\ndefault_type = \"application/json\"\n",
    );
    for (path, expected) in
        [("/healthz", "ok\n"), ("/json/", "{}"), ("/json/x", "{}"), ("/healthz/x", "/srv/www /healthz/x")]
    {
        assert_eq!(planned(&site, "a.example", path), expected, "{path}");
    }
    let host = site.hosts.at(0);
    let route = |path| host.routes.get(host.routes.find(&SafePath::parse(path).unwrap()));
    let denies = |path| route(path).access.iter().any(|rules| rules.iter().next().is_some());
    assert!(denies("/healthz"));
    let Action::Publish(text) = &route("/json/x").action else { panic!("it has no text") };
    assert_eq!(text.media_type.as_deref(), Some("application/json"));
    check_after(
        "[[route]]\npath = \"/a\"\nrespond = \"a\"\nreturn = 404",
        &["site.toml:6: \"respond\" and \"return\" exclude each other; keep one of them"],
    );
}

#[test]
fn stored_responses_are_in_no_folder_of_a_host() {
    let config = |folder: &str| {
        format!("listen = \"127.0.0.1:8080\"\nroot = \"/srv/$host\"\n[cache_files]\nfolder = \"{folder}\"\n")
    };
    check(
        &config("/srv/cache"),
        &[
            "site.toml:4: clients reach /srv/cache as the folder of a host; name a folder that is not beside those of hosts",
        ],
    );
    of_text(&config("/srv/a.example/cache"));
    of_text(&config("/var/cache"));
}

#[test]
fn texts_take_the_place_of_files_and_not_of_routes() {
    let site = site(
        "robots = \"deny\"\nauthorizer = \"fast\"\n\
         [security_txt]\ncontact = [\"mailto:a@a.example\", \"tel:+1-201-555-0123\"]\n\
         expires = \"2027-01-01T00:00:00Z\"\npreferred_languages = \"en, de\"\n\
         [[route]]\npath = \"/.well-known/\"\nreturn = 404\n\
         [[host]]\nnames = \"b.example\"\nroot = \"/b\"\nrobots = false\n\
         [[host]]\nnames = \"c.example\"\nroot = \"/c\"\nrobots = \"\"\"\nUser-agent: *\nDisallow: /c/\n\"\"\"\n\
         [[host.route]]\npath = \"/.well-known/security.txt\"\nreturn = 410\n\
         [host.security_txt]\ncontact = \"https://c.example\"\nexpires = \"2028-01-01T00:00:00+01:00\"\n\
         [[application]]\nname = \"fast\"\naddress = \"127.0.0.1:1\"\n",
    );
    let everyone = "User-agent: *\nDisallow: /\n";
    let contact = "Contact: mailto:a@a.example\nContact: tel:+1-201-555-0123\nPreferred-Languages: en, de\n\
        Expires: 2027-01-01T00:00:00Z\n";
    for (authority, path, expected) in [
        ("a.example", "/robots.txt", everyone),
        ("a.example", "/.well-known/security.txt", contact),
        ("a.example", "/.well-known/other", "404"),
        ("a.example", "/x/robots.txt", "/srv/www /x/robots.txt"),
        ("b.example", "/robots.txt", "/b /robots.txt"),
        ("b.example", "/.well-known/security.txt", contact),
        ("c.example", "/robots.txt", "User-agent: *\nDisallow: /c/\n"),
        ("c.example", "/.well-known/security.txt", "410"),
    ] {
        assert_eq!(planned(&site, authority, path), expected, "{authority} {path}");
    }
    let host = site.hosts.at(0);
    let authorizers =
        |path| host.routes.get(host.routes.find(&SafePath::parse(path).unwrap())).authorizers.len();
    assert_eq!(
        (authorizers("/robots.txt"), authorizers("/.well-known/security.txt"), authorizers("/")),
        (0, 0, 1)
    );
}

fn load_with_keys(text: &str) -> Result<Site, Vec<String>> {
    let whole = format!("{TWO_LINES}{text}");
    let damaged = KEYS.replace("MCow", "MCox");
    load_files(&[
        ("site.toml", &whole),
        ("keys.pem", KEYS),
        ("keys.json", KEY_SET),
        ("empty.pem", ""),
        ("damaged.pem", &damaged),
    ])
}

#[test]
fn a_route_inherits_tokens_and_adds_to_them() {
    let site = load_with_keys(
        "jwt = { keys = \"keys.json\", issuer = \"https://id\", fields = { X-User = \"sub\" } }\n\
         [[route]]\npath = \"/admin/\"\njwt = { claims = { role = [\"admin\", \"root\"], active = \"true\" } }\n\
         [[route]]\npath = \"/open/\"\njwt = false\n\
         [[route]]\npath = \"/other/\"\n\
         [route.jwt]\nkeys = \"keys.pem\"\nfrom = [\"cookie:id\", \"header\"]\nleeway = \"5s\"\nuser = \"name\"\n",
    )
    .unwrap();
    let host = site.hosts.at(0);
    for (path, expected) in [
        ("/", "3 keys, https://id, 60 s, sub, [Header], [], X-User"),
        (
            "/admin/x",
            "3 keys, https://id, 60 s, sub, [Header], [(\"role\", [\"admin\", \"root\"]), (\"active\", [\"true\"])], X-User",
        ),
        ("/open/x", "none"),
        ("/other/x", "1 keys, https://id, 5 s, name, [Cookie(\"id\"), Header], [], X-User"),
    ] {
        let route = host.routes.get(host.routes.find(&SafePath::parse(path).unwrap()));
        let shown = route.jwt.as_ref().map_or("none".to_owned(), |jwt| {
            let fields: Vec<&str> = jwt.fields.iter().map(|(name, _)| name.as_str()).collect();
            let keys = jwt.keys.as_ref().map_or(0, auth::keys::Keys::len);
            let issuer = jwt.issuer.as_deref().unwrap_or("any");
            let (leeway, user, from, claims) = (jwt.leeway, &jwt.user, &jwt.from, &jwt.claims);
            format!("{keys} keys, {issuer}, {leeway} s, {user}, {from:?}, {claims:?}, {}", fields.join(" "))
        });
        assert_eq!(shown, expected, "{path}");
    }
    assert_eq!(site.asserted_fields(), ["X-User"]);
    assert!(site.has_tokens() && crate::needs::Needs::of(&site).authorizers);
}

#[test]
fn rejects_tokens_that_cannot_be_verified() {
    for (table, expected) in [
        ("{ issuer = \"a\" }", "site.toml:3: tokens need the keys of their issuer; add keys = "),
        ("{ keys = \"absent.pem\" }", "site.toml:3: absent.pem cannot be read"),
        ("{ keys = \"empty.pem\" }", "site.toml:3: empty.pem: the file is neither PEM"),
        ("{ keys = \"damaged.pem\" }", "site.toml:3: damaged.pem: key 1 is damaged"),
        ("{ keys = \"keys.pem\", from = \"body\" }", "\"from\" cannot be \"body\"; expected \"header\", or"),
        ("{ keys = \"keys.pem\", from = \"cookie:\" }", "\"from\" cannot be \"cookie:\""),
        ("{ keys = \"keys.pem\", from = [] }", "\"from\" is empty"),
        ("{ keys = \"keys.pem\", claims = { role = [] } }", "the claim \"role\" has no values to compare"),
        ("{ keys = \"keys.pem\", claims = { level = 3 } }", "the claim \"level\" has no values to compare"),
        (
            "{ keys = \"keys.pem\", fields = { X_User = \"sub\" } }",
            "cannot set the field \"X_User\"; expected letters",
        ),
        (
            "{ keys = \"keys.pem\", fields = { Host = \"sub\" } }",
            "cannot set the field \"Host\"; the server itself sets it",
        ),
        ("{ keys = \"keys.pem\", fields = { X-A = 1 } }", "expected the name of a claim"),
        ("{ keys = \"keys.pem\", realm = \"\" }", "\"realm\" cannot be sent"),
        ("{ keys = \"keys.pem\", leeway = \"1d\" }", "from 0s to 1h"),
        ("{ keys = \"keys.pem\", secret = \"x\" }", "unknown key \"secret\""),
        ("true", "\"jwt\" cannot be true; expected a table, or false"),
    ] {
        let errors = load_with_keys(&format!("jwt = {table}\n")).map(|_| ()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{table}: {errors:?}");
    }
}

#[test]
fn rejects_texts_that_say_nothing() {
    let contact = "[security_txt]\ncontact = \"mailto:a@a.example\"\n";
    let expires = "expires = \"2027-01-01T00:00:00Z\"\n";
    for (text, expected) in [
        (
            "robots = \"none\"".to_owned(),
            "\"robots\" has no rules for robots; write \"deny\", or lines such as",
        ),
        ("robots = true".to_owned(), "expected a string, or false"),
        (contact.to_owned(), "[security_txt] has no end; add expires = "),
        (format!("[security_txt]\n{expires}"), "[security_txt] has no contact; add contact = "),
        (format!("{contact}expires = \"2027\""), "\"expires\" cannot be \"2027\"; expected a time such as"),
        (format!("{contact}expires = 2027-01-01T00:00:00Z"), "\"expires\" cannot be"),
        (format!("{contact}{expires}policy = \"http://a\""), "expected an address that begins with https://"),
        (format!("{contact}{expires}policy = \"https://a\\nContact: b\""), "\"policy\" cannot be"),
        (format!("{contact}{expires}preferred_languages = \"en; de\""), "expected languages such as"),
        (contact.replace("mailto:", ""), "expected an address such as \"mailto:security@example.org\""),
        (format!("{contact}{expires}contacts = \"x\""), "did you mean \"contact\"?"),
    ] {
        let errors = after_two_lines(&text).map(|_| ()).unwrap_err();
        assert!(errors.iter().any(|error| error.contains(expected)), "{text}: {errors:?}");
    }
}

#[test]
fn rejects_settings_of_tls_that_protect_nothing() {
    let top = "listen = \"127.0.0.1:443 tls\"\nroot = \"/srv\"\n";
    check(
        top,
        &["site.toml:1: \"127.0.0.1:443 tls\" needs a certificate, and no host has one; add certificate = \
           \"/etc/letsencrypt/live/NAME/fullchain.pem\", or acme = true, or remove the word tls"],
    );
    check_after(
        "https_redirect = true",
        &[
            "site.toml:1: requests are redirected to https, but no address is marked with tls; add an address such as \
           \"0.0.0.0:443 tls\", or name the proxy that has TLS in \"trusted_proxies\"; the keys https_redirect, \
           hsts and client_certificates redirect",
        ],
    );
    let with_certificate = format!("{top}certificate = [\"a.pem\", \"b.pem\"]\n");
    for (line, expected) in [
        ("certificate_key = \"a.key\"", "the number of keys, 1, is not that of certificates, 2; give each"),
        ("client_certificates = \"required\"", "is \"required\" without an authority; add client_ca"),
        (
            "client_certificates = \"required\"\nclient_ca = \"a\"\nhttps_redirect = false",
            "\"client_certificates\" protects nothing while requests without TLS are served; remove \
             https_redirect = false, or \"client_certificates\"",
        ),
        ("hsts = \"1y\"\nhttps_redirect = false", "\"hsts\" protects nothing while"),
        (
            "[[host]]\naddresses = \"127.0.0.2\"\nroot = \"/b\"\nclient_certificates = \"optional\"\nclient_ca = \"a\"",
            "a host without names cannot demand certificates of clients",
        ),
        ("hsts_subdomains = true", "\"hsts_subdomains\" has no effect without \"hsts\"; add hsts = \"1y\""),
        ("hsts = \"1d\"\nhsts_preload = true", "browsers preload only names whose HSTS lasts a year"),
        ("[tls]\nversions = []", "\"versions\" is empty; name at least one"),
        ("[tls]\ngroups = [\"X448\"]", "expected an array of \"X25519MLKEM768\""),
        ("[tls]\nversions = [\"1.1\"]", "expected an array of \"1.2\", \"1.3\""),
        (
            "[tls]\ntickets = false\nticket_rotation = \"1h\"",
            "\"ticket_rotation\" has no effect without tickets",
        ),
        (
            "[tls]\ntickets = false\nticket_key_file = \"key\"",
            "\"ticket_key_file\" has no effect without tickets",
        ),
        ("[tls]\nticket_rotation = \"4d\"", "\"ticket_rotation\""),
    ] {
        let errors =
            load_files(&[("site.toml", &format!("{with_certificate}{line}\n"))]).map(|_| ()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{line}: {errors:?}");
    }
    check_after(
        "certificate_key = \"a.key\"",
        &[
            "site.toml:3: \"certificate_key\" has no certificate beside it; add \"certificate\", the file with the chain \
           of certificates",
        ],
    );
}

#[test]
fn merges_included_files() {
    let main =
        "include = [\"hosts/*.toml\", \"limits.toml\"]\nlisten = \"0.0.0.0:80\"\n[limits]\nfields = 9\n";
    let site = load_files(&[
        ("/etc/t/site.toml", main),
        ("/etc/t/limits.toml", "[limits]\nconnections = 5"),
        ("/etc/t/hosts/a.toml", "[[host]]\nnames = \"a\"\nroot = \"www-a\""),
        ("/etc/t/hosts/b.toml", "[[host]]\nnames = \"b\"\nroot = \"/b\""),
    ])
    .unwrap();
    assert_eq!((site.limits.connections, site.limits.head.fields), (5, 9));
    assert_eq!(planned(&site, "b", "/"), "/b /");
    assert_eq!(planned(&site, "other", "/"), "/etc/t/hosts/www-a /");

    let errors = |files: &[(&str, &str)]| load_files(files).map(|_| ()).unwrap_err();
    assert_eq!(
        errors(&[("a.toml", "include = \"b.toml\"\nroot = \"/\""), ("b.toml", "\nroot = \"/\"")]),
        [
            "b.toml:2: \"root\" is given twice: a.toml:2 has it too; remove one of them; to serve several sites, give each a [[host]]"
        ]
    );
    assert_eq!(
        errors(&[("a.toml", "include = \"b.toml\""), ("b.toml", "\ninclude = \"a.toml\"")]),
        ["b.toml:2: a.toml includes itself; remove this include"]
    );
    assert_eq!(
        errors(&[("a.toml", "include = [\"b.toml\", 5]")]),
        [
            "a.toml:1: b.toml cannot be read: entity not found; check its path and its permissions",
            "a.toml:1: \"include\" cannot be an integer; expected a path, or an array of paths"
        ]
    );
    assert_eq!(
        errors(&[
            ("a.toml", "include = [\"b\\nc\", \"d\\u0001\"]\n\"e\\nf\" = 1"),
            ("d\u{1}", "\"e\\nf\" = 1")
        ]),
        [
            "a.toml:1: b\\nc cannot be read: entity not found; check its path and its permissions",
            "d\u{1}:1: \"e\\nf\" is given twice: a.toml:2 has it too; remove one of them; to serve several sites, give each a [[host]]"
        ]
    );
    assert_eq!(errors(&[("a/../a.toml", "include = \"../a/../a.toml\"")]).len(), 1);
    assert_eq!(errors(&[("a.toml", "include = \"*.x\"\nx = 1"), ("b.x", "y = 1"), ("c.x", "[")]).len(), 1);
    assert_eq!(
        errors(&[("a.toml", &" ".repeat(MAX_FILE + 1))]),
        ["a.toml: it is larger than 1 MiB; make it shorter, or split it"]
    );
    let site = load_files(&[("a.toml", &format!("{TWO_LINES}include = \"none/*.toml\""))]).err();
    assert_eq!(site, None::<Vec<String>>);
}

#[test]
fn bounds_the_depth_and_number_of_included_files() {
    // Each file includes two others with new paths.
    struct Endless;
    impl Source for Endless {
        fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
            Ok(format!("include = [\"x{0}\", \"y{0}\"]", path.file_name().unwrap().len()).into())
        }
        fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
            Ok(Vec::new())
        }
    }
    struct Deep;
    impl Source for Deep {
        fn read(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
            Ok(format!("include = \"x{}\"", path.display()).into())
        }
        fn expand(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
            Ok(Vec::new())
        }
    }
    let errors = load(Path::new("a"), &Deep).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "xxxxxxxxa:1: files include files more than 8 levels deep; remove this include"
    );
    assert!(load(Path::new("a"), &Endless).unwrap_err().len() <= MAX_ERRORS);
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

#[test]
fn a_route_for_every_path_replaces_the_root() {
    let site = site("[[route]]\npath = \"/\"\nreturn = 503");
    let route = site.hosts[0].routes.iter().next().unwrap();
    assert_eq!(route.action, Action::Return(Status::SERVICE_UNAVAILABLE));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "(\\[\\[?[a-z.]{1,8}\\]\\]?|[a-z\"/.]{1,9} = [0-9a-z\"{}\\[\\]$/*.]{0,12}|\n){0,12}") {
        let _ = load_files(&[("site.toml", &text)]);
    }
}

#[test]
fn reads_applications() {
    let text = |more: &str| {
        format!(
            "listen = \"127.0.0.1:1\"\nroot = \"/srv\"\n[[route]]\npath = \"*.php\"\ninterpreter = \"php\"\n\
             [[route]]\npath = \"/app/\"\napplication = \"app\"\n[[application]]\nname = \"php\"\n\
             address = [\"127.0.0.1:9\", \"unix:/run/php.sock\"]\n[[application]]\nname = \"app\"\n{more}"
        )
    };
    let site =
        load_files(&[("site.toml", &text("command = [\"/srv/app/run\", \"-q\"]\nprotocol = \"http\""))])
            .unwrap();
    let names: Vec<&str> = site.upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
    assert_eq!(names, ["php", "app"]);
    let (php, app) = (&site.upstreams[0], &site.upstreams[1]);
    assert_eq!((php.connections(), php.managed()), (128, None));
    let managed = app.managed().unwrap();
    assert_eq!((managed.command.len(), managed.folder.as_path()), (2, Path::new("/srv/app")));
    assert_eq!((managed.min_processes, managed.max_processes, app.connections()), (1, 4, 4));
    assert_eq!((php.multiplex, php.multiplexed_requests()), (1, 0));
    // Below the idle timeouts of common web servers.
    assert_eq!([php.keep, app.keep].map(|time| time.as_secs()), [10, 1]);
    let interpreters: Vec<_> = site.hosts[0].routes.iter().take(3).map(Route::upstream).collect();
    assert_eq!(interpreters, [None, Some(0), Some(1)]);
    let several = text("address = \"127.0.0.1:1\"\nconnections = 2\nmultiplex = 1024");
    let several = load_files(&[("site.toml", &several)]).unwrap();
    assert_eq!((several.upstreams[1].multiplex, several.upstreams[1].multiplexed_requests()), (1024, 2048));

    let planned = |target: &str| {
        let path = SafePath::parse(target).unwrap();
        match plan(site.hosts.at(0), path, None).action {
            PlannedAction::Upstream(planned) => {
                let (script_name, path_info) = planned.script_name_and_path_info();
                format!("{script_name} {path_info}")
            }
            other => format!("{other:?}"),
        }
    };
    assert_eq!(planned("/app/a/b%20c"), "/app /a/b c");
    assert_eq!(planned("/app/"), "/app /");
    assert_eq!(planned("/app/a/"), "/app /a/");

    let rejects = |more: &str, expected: &str| match load_files(&[("site.toml", &text(more))]) {
        Ok(_) => panic!("accepted: {more}"),
        Err(errors) => {
            assert!(errors.iter().any(|line| line.contains(expected)), "{expected}: {errors:?}");
        }
    };
    rejects("", "neither an address nor a command; add the address");
    rejects("address = \"x\"", "\"x\" is not an address");
    // An error of an application is reported once, and not again for a route that names it.
    for (more, expected) in [
        (
            "address = \"http://127.0.0.1:9000\"",
            "leave out \"http://\": write \"127.0.0.1:9000\", and add protocol = \"http\"",
        ),
        ("command = \"run\"", "\"command\" cannot begin with \"run\""),
        ("", "this application has neither an address nor a command"),
    ] {
        let errors = load_files(&[("site.toml", &text(more))]).map(|_| ()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{more}: {errors:?}");
    }
    rejects("address = \"127.0.0.1:1\"\nmultiplex = 0", "\"multiplex\"");
    rejects("address = \"127.0.0.1:1\"\nmultiplex = 1025", "\"multiplex\"");
    rejects("address = \"127.0.0.1:1\"\nprotocol = \"scgi\"\nmultiplex = 2", "\"multiplex\" is for FastCGI");
    rejects("command = \"/run\"\nprotocol = \"http\"\nmultiplex = 1", "\"multiplex\" is for FastCGI");
    rejects("address = []", "\"address\" is empty");
    rejects("command = \"run\"", "\"command\" cannot begin with \"run\"");
    rejects("command = \"/run\"\naddress = \"127.0.0.1:1\"", "exclude each other");
    rejects("command = \"/run\"\nconnections = 3", "\"connections\" is for an application with an address");
    rejects(
        "address = \"127.0.0.1:1\"\nspare_processes = 3",
        "\"spare_processes\" is for an application with a command",
    );
    rejects(
        "command = \"/run\"\nmin_processes = 3\nprocesses = 2",
        "\"min_processes\" is 3, and \"processes\" only 2",
    );
    rejects(
        "command = \"/run\"\n[[application]]\nname = \"app\"\ncommand = \"/run\"",
        "two applications \"app\"",
    );
    rejects("command = \"/run\"\n[[application]]\nname = \"a/b\"\ncommand = \"/run\"", "\"name\" cannot be");
    let route = |more: &str| format!("command = \"/run\"\n[[route]]\npath = \"/b/\"\n{more}");
    rejects(&route("application = \"none\""), "there is no application \"none\"; add an [[application]]");
    rejects(&route("application = \"app\"\ncgi = true"), "\"cgi\" and \"application\" exclude each other");
    rejects(&route("interpreter = \"none\""), "or the name of an [[application]]");
}

/// The limits of `path`, each in words.
fn limits_of(site: &Site, path: &str) -> Vec<String> {
    let path = SafePath::parse(path).unwrap();
    let mut found = Vec::new();
    let host = &site.hosts[0];
    let route = host.routes.get(host.routes.find(&path));
    applying::each_applying(&site.traffic_limits, host, route, &path, |id| {
        found.push(site.traffic_limits[usize::from(id.0)].to_string());
    });
    found
}

#[test]
fn limits_of_a_path_apply_to_its_name_with_a_language() {
    let site = site(
        "language_fallback = [\"suffix\", \"folder\"]\n\
         [[limit]]\nrequests = \"5/m\"\n\
         [[limit]]\npaths = [\"/iso/\"]\nby = \"all\"\nrequests = 9\n\
         [[route]]\npath = \"/iso/\"\n\
         [[route.limit]]\nby = \"all\"\nconcurrent = 2\n\
         [[route]]\npath = \"/none/\"\nlanguage_fallback = []\n\
         [[route]]\npath = \"/old/\"\nrewrite = \"/iso/x\"\n",
    );
    let top = "requests 5 per 60s, 1 at once for each client (site.toml:4)";
    let iso = "requests 9 per 1s, 9 at once in all (site.toml:6)";
    let own = "concurrent 2, 0 more wait in all (site.toml:12)";
    for (path, expected) in [
        ("/iso/a.html", &[top, iso, own][..]),
        ("/iso/a.de.html", &[top, iso, own]),
        ("/(de)/iso/a.html", &[top, iso, own]),
        ("/(de)/iso/a.de.html", &[top, iso, own]),
        ("/(de)/old/a", &[top, own]),
        ("/(de)/a.html", &[top]),
        ("/(deu)/iso/a.html", &[top]),
        ("/none/a.de.html", &[top]),
    ] {
        assert_eq!(limits_of(&site, path), expected, "{path}");
    }
}

#[test]
fn limits_of_a_path_without_its_language_apply_if_the_route_that_responds_takes_it_away() {
    let site = site(
        "[[limit]]\npaths = [\"/old/a.html\"]\nby = \"all\"\nrequests = 9\n\
         [[route]]\npath = \"/new/\"\nlanguage_fallback = [\"suffix\"]\n\
         [[route]]\npath = \"/old/\"\nrewrite = \"/new/x\"\n",
    );
    let a = "requests 9 per 1s, 9 at once in all (site.toml:3)";
    assert_eq!(limits_of(&site, "/old/a.de.html"), [a]);
    assert!(limits_of(&site, "/a.de.html").is_empty());
}

#[test]
fn a_line_that_is_one_too_many_for_a_path_applies_to_the_path_without_its_language() {
    let text = "listen = [\"127.0.0.1:0\"]\nroot = \"www\"\nthrottle_file = \"throttle\"\n\
                language_fallback = [\"folder\"]\n";
    let lines = "/(de)/** 1000\n".repeat(10) + "** 5000\n";
    let site = load_files(&[("site.toml", text), ("throttle", &lines)]).unwrap();
    assert_eq!(limits_of(&site, "/a/x").len(), 1);
    let found = limits_of(&site, "/(de)/a/x");
    assert_eq!(found.len(), 11, "{found:?}");
    assert!(found[10].contains("throttle:11"), "{found:?}");
}

#[test]
fn limits_of_the_route_the_host_and_the_top_level_all_apply() {
    let site = site(
        "[[limit]]\nrequests = \"5/m\"\n\
         [[limit]]\nby = \"all\"\npaths = [\"/iso/\", \"*.iso\"]\ndownload = \"1MB\"\nmin_download = \"20kB\"\n\
         [[route]]\npath = \"/iso/\"\n\
         [[route.limit]]\nby = \"cookie:session\"\nconcurrent = 2\nqueue = 3\nupload = 5\ndry_run = true\n\
         [[route.limit]]\nname = \"named\"\nby = \"field:X-Key\"\nrequests = 7\n\
         [[route]]\npath = \"*.old\"\nrewrite = \"/iso/x\"\n\
         [[route]]\npath = \"/iso/**.gz\"\n",
    );
    let top = "requests 5 per 60s, 1 at once for each client (site.toml:3)";
    let iso = "download 1000000 B/s, at least 20000 B/s each in all (site.toml:5)";
    let own = "upload 5 B/s, concurrent 2, 3 more wait for each cookie:session, dry run (site.toml:12)";
    assert_eq!(limits_of(&site, "/"), [top]);
    assert_eq!(limits_of(&site, "/a.iso"), [top, iso]);
    assert_eq!(limits_of(&site, "/iso/a"), [top, iso, own]);
    assert_eq!(limits_of(&site, "/iso/a.gz"), [top, iso, own], "a glob within the prefix");
    assert_eq!(limits_of(&site, "/a.old"), [top, own], "rewritten");
    assert_eq!(site.traffic_limits.len(), 4, "each table is one limit");
    let named = crate::limit::named(&site.traffic_limits, "named").expect("it is there");
    assert_eq!(
        site.traffic_limits[usize::from(named.0)].to_string(),
        "\"named\": requests 7 per 1s, 7 at once for each field:x-key (site.toml:18)"
    );
    assert_eq!(crate::limit::named(&site.traffic_limits, "client"), None);
    let identities: std::collections::BTreeSet<u64> =
        site.traffic_limits.iter().map(|limit| limit.identity).collect();
    assert_eq!(identities.len(), 4);
}

#[test]
fn every_limit_of_a_route_and_of_the_one_that_it_is_rewritten_to_applies() {
    let limits = "[[route.limit]]\nby = \"all\"\nrequests = 1\n".repeat(16);
    let site = site(&format!(
        "[[route]]\npath = \"/old/\"\nrewrite = \"/new/x\"\n{limits}[[route]]\npath = \"/new/\"\n{limits}"
    ));
    assert_eq!(limits_of(&site, "/old/a").len(), 32);
}

#[test]
fn a_limit_has_the_same_identity_where_it_has_moved() {
    let identities =
        |text: &str| -> Vec<u64> { site(text).traffic_limits.iter().map(|limit| limit.identity).collect() };
    let old = identities("[[limit]]\nrequests = 1\n[[limit]]\nby = \"all\"\ndownload = 5");
    let new = identities("\n\n[[limit]]\nby = \"all\"\ndownload = 7\n[[limit]]\nrequests = 2");
    assert_eq!(old, [new[1], new[0]]);
    let same = identities("[[limit]]\nrequests = 1\n[[limit]]\nrequests = 2");
    assert_ne!(same[0], same[1]);
}

#[test]
fn rejects_limits_that_limit_nothing_and_keys_without_others() {
    check_after(
        "[[limit]]\nby = \"all\"",
        &["site.toml:3: this limit limits nothing; add download, upload, requests or concurrent"],
    );
    check_after(
        "[[limit]]\nby = \"adress\"\nrequests = 1",
        &[
            "site.toml:4: \"by\" cannot be \"adress\"; expected \"connection\", \"client\", \"route\", \"host\", \"all\", \
           \"field:NAME\" or \"cookie:NAME\"",
        ],
    );
    check_after(
        "[[limit]]\nby = \"field:\"\nrequests = 1",
        &[
            "site.toml:4: \"by\" cannot be \"field:\"; expected \"connection\", \"client\", \"route\", \"host\", \"all\", \
           \"field:NAME\" or \"cookie:NAME\"",
        ],
    );
    check_after(
        "[[limit]]\nrequests = \"0/s\"",
        &[
            "site.toml:4: \"requests\" cannot be \"0/s\"; expected a rate such as \"10/s\", \"5/m\" or \"100/h\", or an \
           integer per second, from 1 to 1000000",
        ],
    );
    check_after(
        "[[limit]]\nrequests = 1\nburst = 5\nmin_download = 5\nqueue = 1",
        &[
            "site.toml:5: \"burst\" is for \"download\" or \"upload\"; add \"download\" or \"upload\", or remove it",
            "site.toml:6: \"min_download\" is for \"download\"; add \"download\", or remove it",
            "site.toml:7: \"queue\" is for \"concurrent\"; add \"concurrent\", or remove it",
        ],
    );
    check_after(
        "[[limit]]\ndownload = 10\nmin_download = 11\nstatus = 503",
        &[
            "site.toml:5: \"min_download\" is above \"download\"; lower it: nothing would be served",
            "site.toml:6: \"status\" is for \"requests\" or \"concurrent\"; add \"requests\" or \"concurrent\", or remove it",
        ],
    );
    check_after(
        "[[limit]]\nrequests = 1\nstatus = 401",
        &["site.toml:5: \"status\" cannot be 401, which needs a field of its own; use 429 or 503"],
    );
    check_after(
        "[[limit]]\nname = \"a\"\nrequests = 1\n[[limit]]\nname = \"a\"\nrequests = 2",
        &[
            "site.toml:7: two limits have the name \"a\": the other is in site.toml:3; give one of them another name",
        ],
    );
    check_after(
        "[[limit]]\nname = \"a b\"\nrequests = 1",
        &["site.toml:4: \"name\" is not a name of letters, digits and dashes; expected a string"],
    );
    check_after(
        "[[limit]]\nrequests = 1\npaths = \"a/b\"",
        &["site.toml:5: \"a/b\" is not a path pattern; begin it with a slash"],
    );
    check_after(
        "[[rule]]\nthen = \"limit\"\nlimit = \"a\"\n[[limit]]\nrequests = 1",
        &["site.toml:5: there is no limit \"a\"; add a [[limit]] with this name"],
    );
    let many = "[[limit]]\nrequests = 1\n".repeat(17);
    check_after(&many, &["site.toml:3: more than 16 limits apply here; merge some, or move them to routes"]);
}

#[test]
fn a_throttle_file_is_a_limit_for_each_line_and_reports_bad_ones() {
    let text = format!("{TWO_LINES}throttle_file = \"t/throttle\"\n");
    let lines = "**.jpg|**.gif 2000-50000\nbad line\n/jef/** 20000\n**.iso 7-5\n";
    let files = [("site.toml", text.as_str()), ("t/throttle", lines)];
    let Configuration { site, warnings, .. } = read(Path::new("site.toml"), &Files(&files)).unwrap();
    assert_eq!(
        limits_of(&site, "/jef/a.jpg"),
        [
            "download 50000 B/s, at least 2000 B/s each in all (t/throttle:1)",
            "download 20000 B/s in all (t/throttle:3)",
        ]
    );
    assert!(limits_of(&site, "/a.iso").is_empty());
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "t/throttle:2: this line has no rate, so it limits nothing; write a pattern, spaces, and bytes per second: \
             \"**.iso 50000\"",
            "t/throttle:4: the minimum is above the maximum, so it limits nothing; write min-max: \"1000-50000\"",
        ]
    );
    let many: String = (0..20).map(|n| format!("** {}\n", 1000 + n)).collect();
    let files = [("site.toml", text.as_str()), ("t/throttle", many.as_str())];
    let Configuration { site, warnings, .. } = read(Path::new("site.toml"), &Files(&files)).unwrap();
    assert_eq!(limits_of(&site, "/").len(), 10, "the first ten lines that match");
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 10, "{warnings:?}");
    assert_eq!(
        warnings[0],
        "t/throttle:11: 10 lines before this one match the same paths, so it limits nothing; move it to the front, or \
         make one line of several"
    );
    check(
        &text,
        &["site.toml:3: t/throttle cannot be read: entity not found; check its path and its permissions"],
    );
    let too_many: String = (0..1002).map(|n| format!("a{n} 5\n")).collect();
    let files = [("site.toml", text.as_str()), ("t/throttle", too_many.as_str())];
    let errors = load_files(&files).map(|_| ()).unwrap_err();
    assert_eq!(
        errors,
        [
            "site.toml: there are more than 1000 limits, with the lines of throttle files; use patterns that match more"
        ]
    );
}

#[test]
fn reads_how_a_route_is_published() {
    use crate::publishing::{DeepListing, MissingFolders, Mode, Publishers, Publishing, Sync};
    let of = |text: &str, path: &str| {
        let site = site(text);
        plan(site.hosts.at(0), SafePath::parse(path).unwrap(), None).route.publishing.clone()
    };
    assert_eq!(*of("", "/a"), Publishing::default());
    let all = "[[route]]\npath = \"/up/\"\npublish = \"webdav\"\npublish_anonymous = true\npublish_quota = \"1GiB\"\n\
               publish_min_free = 0\npublish_sync = false\npublish_make_folders = true\npublish_deep_listing = true\n\
               publish_umask = \"007\"\npublish_resumable = 0\npublish_lock_time = \"10m\"";
    let expected = Publishing {
        mode: Mode::WebDav,
        publishers: Publishers::Everyone,
        quota: Some(1 << 30),
        min_free: 0,
        sync: Sync::Kernel,
        missing_folders: MissingFolders::Made,
        deep_listing: DeepListing::Allowed,
        umask: 0o007,
        resumable: Duration::ZERO,
        lock: Duration::from_secs(600),
    };
    assert_eq!(*of(all, "/up/a"), expected);
    assert_eq!(of(all, "/a").mode, Mode::Off);
    let inherited =
        "publish = \"files\"\npublish_anonymous = true\n[[route]]\npath = \"/no/\"\npublish = \"off\"";
    assert_eq!((of(inherited, "/a").mode, of(inherited, "/no/a").mode), (Mode::Files, Mode::Off));
    for umask in ["8", "", "0o22", "+22", "700", "1000"] {
        let expected = format!(
            "site.toml:4: \"publish_umask\" cannot be \"{umask}\"; expected octal digits that take nothing from the user, \
             such as \"022\""
        );
        check_after(&format!("publish_anonymous = true\npublish_umask = \"{umask}\""), &[&expected]);
    }
}

#[test]
fn rejects_publishing_for_everyone() {
    let open = "add auth = \"basic\" with user_files, or a [[rule]] that denies others; or publish_anonymous = true, if everyone may";
    let expected = format!("site.toml:3: everyone could publish in /; {open}");
    check_after("publish = \"files\"", &[&expected]);
    let expected = format!("site.toml:5: everyone could publish in /up/; {open}");
    check_after("[[route]]\npath = \"/up/\"\npublish = \"webdav\"", &[&expected]);
    let rules_that_refuse_no_upload = [
        "[[rule]]\npath = \"/admin/\"\nthen = \"deny\"",
        "[[rule]]\npath = \"*.bak\"\nthen = \"deny\"",
        "[[rule]]\nmethod = \"DELETE\"\naddress = \"!192.0.2.0/24\"\nthen = \"deny\"",
        "auth = \"basic\"\nusers = { ann = \"{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\" }\nsatisfy = \"rules\"\n\
         [[rule]]\nmethod = \"DELETE\"\nthen = \"authenticate\"",
    ];
    for rules in rules_that_refuse_no_upload {
        let expected = format!("site.toml:3: everyone could publish in /; {open}");
        check_after(&format!("publish = \"files\"\n{rules}"), &[&expected]);
    }
    for text in [
        "publish = \"read\"",
        "publish = \"files\"\n[[rule]]\naddress = \"!192.0.2.0/24\"\nthen = \"deny\"",
        "publish = \"files\"\n[[rule]]\npath = \"!/x/\"\nmethod = \"PUT\"\nfield = { Key = \"!k\" }\nthen = \"deny\"",
        "[[route]]\npath = \"/up/\"\npublish = \"files\"\n[[rule]]\npath = \"/up/\"\ntls = false\nthen = \"deny\"",
        "publish = \"webdav\"\npublish_anonymous = true",
    ] {
        site(text);
    }
}

#[test]
fn rejects_published_roots_within_each_other() {
    let two = |publish: &str, alias: &str| {
        format!(
            "publish = \"files\"\npublish_anonymous = true\n[[route]]\npath = \"/x/\"\nalias = \"{alias}\"\n\
             [[route]]\npath = \"/team/\"\nalias = \"/srv/other/team\"\npublish = \"{publish}\""
        )
    };
    let expected = "site.toml:11: the root of /team/ lies in that of /x/, in which clients publish, too; use roots apart \
                    from each other, or the same root: locks and quotas are of a root";
    check_after(&two("webdav", "/srv/other"), &[expected]);
    for (publish, alias) in [
        ("webdav", "/srv/other/team"),
        ("webdav", "/srv/other/tea"),
        ("off", "/srv/other"),
        ("read", "/srv/other"),
    ] {
        site(&two(publish, alias));
    }
}

#[test]
fn rejects_publishing_where_scripts_run() {
    let check = |text: &str, place: &str, route: &str, runner: &str| {
        let expected = format!(
            "site.toml:{place}: files that clients publish in {route} could run as scripts, by the route {runner}; publish in \
             a folder outside of those with scripts, by root or alias"
        );
        check_after(&format!("publish_anonymous = true\n{text}"), &[&expected]);
    };
    let up = "[[route]]\npath = \"/up/\"\npublish = \"files\"\n";
    check(&format!("{up}[[route]]\npath = \"/up/cgi/\"\ncgi = true"), "6", "/up/", "/up/cgi/");
    check(
        &format!(
            "{up}alias = \"/srv/other/up\"\n[[route]]\npath = \"/x/\"\nalias = \"/srv/other\"\ncgi = true"
        ),
        "6",
        "/up/",
        "/x/",
    );
    let names = |alias: &str, scripts: &str| {
        format!(
            "{up}alias = \"{alias}\"\n[[host]]\nnames = \"*.example\"\nroot = \"/srv/n/$host/htdocs\"\n\
             [[host.route]]\npath = \"{scripts}\"\ncgi = true"
        )
    };
    for alias in ["/srv/n/a.example/htdocs/up", "/srv/n/a.example", "/srv"] {
        check(&names(alias, "**.cgi"), "6", "/up/", "**.cgi");
    }
    check(&names("/srv/n/a.example/htdocs/cgi-bin/up", "/cgi-bin/"), "6", "/up/", "/cgi-bin/");
    for text in [
        names("/srv/n/a.example/other", "**.cgi"),
        names("/srv/o", "**.cgi"),
        names("/srv/n/a.example/htdocs/up", "/cgi-bin/"),
    ] {
        site(&format!("publish_anonymous = true\n{text}"));
    }
    check_after(
        "publish_anonymous = true\nincludes = true\n[[route]]\npath = \"/up/\"\npublish = \"files\"",
        &[
            "site.toml:7: the files that clients publish in /up/ would be pages with includes; set includes = false in this route",
        ],
    );
    // Apart, or where the route of a path decides. Within a route that is published, nothing runs.
    for text in [
        format!("{up}[[route]]\npath = \"/cgi-bin/\"\ncgi = true"),
        format!("{up}[[route]]\npath = \"*.cgi\"\ncgi = true"),
    ] {
        let site = site(&format!("publish_anonymous = true\n{text}"));
        let plan = plan(site.hosts.at(0), SafePath::parse("/up/x.cgi").unwrap(), None);
        assert!(plan.walk.is_none() && plan.route.script.is_none() && plan.route.publishes(), "{text}");
    }
}

#[test]
fn rejects_keys_of_the_cache_that_say_nothing() {
    let check_key = |line: &str, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|text| format!("site.toml:4: {text}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(&format!("root = \"/\"\nlisten = []\nresponse_cache = true\n{line}\n"), &expected);
    };
    let what_to_do = "list the parameters that count, or with a \"!\" in front of each those that do not: [\"page\"] or [\"!utm_*\"]";
    let parameter = |name: &str| format!("\"{name}\" does not say which parameters count; {what_to_do}");
    check_key("response_cache_query = [\"a\", \"!b\"]", &[&parameter("a"), &parameter("!b")]);
    for name in ["", "!", "a*b", "a=1", "a&b"] {
        check_key(&format!("response_cache_query = [\"{name}\"]"), &[&parameter(name)]);
    }
    check_key(
        "response_cache_purge = [\"localhost\"]",
        &[
            "\"localhost\" is not a network; write an IP address, a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or \"unix\"; names are not resolved",
        ],
    );
    let many = vec!["\"10.0.0.1\""; 1025].join(",");
    check_key(
        &format!("response_cache_purge = [{many}]"),
        &["\"response_cache_purge\" has too many entries; expected at most 1024; merge networks"],
    );
    check_key(
        "response_cache_surrogate = \"a b\"",
        &[
            "\"response_cache_surrogate\" is not a name: a word without spaces and separators; expected a string",
        ],
    );
    check_key(
        "response_cache_targets = [\"a b\"]",
        &[
            "\"response_cache_targets\" has a name that no field has; expected a string, or an array of strings",
        ],
    );
}

#[test]
fn settings_of_endpoints_stand_where_the_endpoints_do() {
    let app = "[[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n";
    let check = |behind: &str, expected: &str| {
        let errors = after_two_lines(&format!("{app}{behind}")).map(|_| ()).unwrap_err();
        assert!(errors.iter().any(|error| error.contains(expected)), "{behind}: {errors:?}");
    };
    check(
        "hedge_budget = 5",
        "\"hedge_budget\" has no \"hedge_after\" beside it; add \"hedge_after\", or remove it",
    );
    check(
        "hedge_after = \"1s\"\nbalance = \"sticky\"",
        "\"hedge_after\" sends requests to another endpoint than \"balance\" says",
    );
    check("hedge_after = \"1s\"\nbalance = \"hash client\"", "than \"balance\" says");
    check("hedge_after = \"0s\"", "\"hedge_after\" cannot be \"0s\"");
    check("hedge_after = \"1s\"\nhedge_budget = 101", "\"hedge_budget\" cannot be 101");
    let route = "[[route]]\npath = \"/\"\n";
    for (key, instead) in [("health", "[application.health]"), ("breaker", "[application.breaker]")] {
        check(
            &format!("{route}proxy = \"http://app\"\n[route.proxy_{key}]\nwindow = \"5s\""),
            &format!("\"proxy_{key}\" belongs to the application; write it as {instead}"),
        );
        check(
            &format!("{route}proxy = \"http://127.0.0.1:3\"\n[route.proxy_{key}]\nwindows = \"5s\""),
            "unknown key \"windows\"",
        );
        check(
            &format!("{route}[route.proxy_{key}]\nwindow = \"5s\""),
            "is for a route whose upstream speaks HTTP",
        );
    }
    for key in ["hedge_after = \"1s\"", "hedge_budget = 20"] {
        let (name, _) = key.split_once(' ').unwrap();
        check(
            &format!("{route}proxy = \"http://app\"\nproxy_{key}"),
            &format!(
                "\"proxy_{name}\" belongs to the application; write it as \"{name}\" in the [[application]]"
            ),
        );
        check(&format!("{route}proxy_{key}"), "is for a route whose upstream speaks HTTP");
    }
    let two = "proxy = [\"http://127.0.0.1:3\", \"http://127.0.0.1:4\"]\n";
    check(
        &format!("{route}{two}proxy_hedge_budget = 5"),
        "\"proxy_hedge_budget\" has no \"proxy_hedge_after\" beside it; add \"proxy_hedge_after\", or remove it",
    );
    check(
        &format!("{route}{two}proxy_hedge_after = \"1s\"\nproxy_balance = \"sticky\""),
        "\"proxy_hedge_after\" sends requests to another endpoint than \"proxy_balance\" says; remove it, or write \
         proxy_balance = \"least\"",
    );
    let hedged = |path: &str, after: &str| {
        format!(
            "[[route]]\npath = \"/{path}/\"\n{two}proxy_hedge_after = \"{after}\"\nproxy_hedge_budget = 20\n"
        )
    };
    let site = after_two_lines(&[hedged("a", "1s"), hedged("b", "1s"), hedged("c", "2s")].concat()).unwrap();
    let hedging: Vec<_> = site.upstreams.iter().map(|upstream| upstream.hedging.clone()).collect();
    let of = |seconds| Some(Hedging { after: Duration::from_secs(seconds), budget: 20 });
    assert_eq!(hedging, [of(1), of(2)], "routes share an upstream if they say the same");
    let site = after_two_lines(
        "[[route]]\npath = \"/a/\"\nproxy = \"http://127.0.0.1:3\"\n[route.proxy_breaker]\nrequests = 5\n\
         [[route]]\npath = \"/b/\"\nproxy = \"http://127.0.0.1:3\"\n[route.proxy_breaker]\nrequests = 5\n\
         [[route]]\npath = \"/c/\"\nproxy = \"http://127.0.0.1:3\"\n[route.proxy_health]\npath = \"/h\"\n",
    )
    .unwrap();
    let breakers: Vec<_> = site.upstreams.iter().map(|upstream| upstream.breaker.is_some()).collect();
    assert_eq!(breakers, [true, false], "two routes share one");
}
