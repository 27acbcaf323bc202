//! What a key of the configuration is: where it may stand, what it takes, its default and its description. Each key
//! is defined once, in `table`. The reader, its suggestions and the manual all come from there.

mod table;

use std::fmt::Write;
use std::time::Duration;

use super::toml;
use super::value::{duration_text, size_text};
use table::CHAPTERS;

/// A table of the configuration that has keys of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Top,
    Host,
    Route,
    Rule,
    Limit,
    Limits,
    Timeouts,
    Cache,
    CacheFiles,
    Http2,
    Statistics,
    Accounts,
    Scripts,
    Application,
    Resolver,
    ForwardProxy,
    Health,
    Breaker,
    Tls,
    Certificates,
    Log,
    Rotate,
    Trace,
    SecurityTxt,
    Jwt,
}

impl Scope {
    pub const ALL: [Scope; 25] = [
        Scope::Top,
        Scope::Host,
        Scope::Route,
        Scope::Rule,
        Scope::Limit,
        Scope::Limits,
        Scope::Timeouts,
        Scope::Cache,
        Scope::CacheFiles,
        Scope::Http2,
        Scope::Statistics,
        Scope::Accounts,
        Scope::Scripts,
        Scope::Application,
        Scope::Resolver,
        Scope::ForwardProxy,
        Scope::Health,
        Scope::Breaker,
        Scope::Tls,
        Scope::Certificates,
        Scope::Log,
        Scope::Rotate,
        Scope::Trace,
        Scope::SecurityTxt,
        Scope::Jwt,
    ];

    /// Its name in error messages.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Top => "the top level",
            Scope::Host => "[[host]]",
            Scope::Route => "[[route]]",
            Scope::Rule => "[[rule]]",
            Scope::Limit => "[[limit]]",
            Scope::Limits => "[limits]",
            Scope::Timeouts => "[timeouts]",
            Scope::Cache => "[cache]",
            Scope::CacheFiles => "[cache_files]",
            Scope::Http2 => "[http2]",
            Scope::Statistics => "[statistics]",
            Scope::Accounts => "[accounts]",
            Scope::Scripts => "[scripts]",
            Scope::Application => "[[application]]",
            Scope::Resolver => "[resolver]",
            Scope::ForwardProxy => "[forward_proxy]",
            Scope::Health => "[application.health]",
            Scope::Breaker => "[application.breaker]",
            Scope::Tls => "[tls]",
            Scope::Certificates => "[certificates]",
            Scope::Log => "[log]",
            Scope::Rotate => "[log.rotate]",
            Scope::Trace => "[trace]",
            Scope::SecurityTxt => "[security_txt]",
            Scope::Jwt => "jwt",
        }
    }
}

/// The values that a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    TextOrFalse,
    /// A string, or an array of strings.
    Texts,
    Path,
    Flag,
    Count {
        min: u64,
        max: u64,
    },
    /// An array of counts.
    Counts {
        min: u64,
        max: u64,
    },
    Size {
        min: u64,
        max: u64,
    },
    /// Bytes per second.
    ByteRate {
        min: u64,
        max: u64,
    },
    Time {
        min: Duration,
        max: Duration,
    },
    /// A count per second, or per another period.
    Rate {
        max: u64,
    },
    Choice(&'static [&'static str]),
    Choices(&'static [&'static str]),
    FlagOrChoices(&'static [&'static str]),
    Sink,
    SinkOrFalse,
    /// A table with any keys. The text describes them.
    Pairs(&'static str),
    /// `[name]`
    Section(Scope),
    /// `name = { … }`, or `false`
    SectionOrFalse(Scope),
    /// `[[name]]`
    Tables(Scope),
}

const SINK: &str = "\"stdout\", \"stderr\", \"syslog\", a path with a slash in it such as \"./access.log\", \
                    \"|/program arguments\" or \"tcp://host:port\"";

impl Kind {
    /// Whether its value may be a table.
    const fn is_section(self) -> bool {
        matches!(self, Kind::Section(_) | Kind::SectionOrFalse(_) | Kind::Tables(_) | Kind::Pairs(_))
    }

    /// The words behind "expected" in an error message.
    pub fn expected(self) -> String {
        match self {
            Kind::Text => "a string".to_owned(),
            Kind::TextOrFalse => "a string, or false".to_owned(),
            Kind::Texts => "a string, or an array of strings".to_owned(),
            Kind::Path => "a path as a string".to_owned(),
            Kind::Flag => "true or false".to_owned(),
            Kind::Count { min, max } => format!("an integer from {min} to {max}"),
            Kind::Counts { min, max } => format!("an array of integers from {min} to {max}"),
            Kind::Size { min, max } => {
                let (min, max) = (size_text(min), size_text(max));
                format!(
                    "a size such as \"16KiB\", \"16k\" or \"16kB\", or an integer of bytes, from {min} to {max}"
                )
            }
            Kind::ByteRate { min, max } => {
                let (min, max) = (size_text(min), size_text(max));
                format!(
                    "a rate such as \"20kB/s\", \"20k\" or \"1MiB/s\", or an integer of bytes per second, from {min} \
                     to {max}"
                )
            }
            Kind::Time { min, max } => {
                let (min, max) = (duration_text(min), duration_text(max));
                format!("a duration such as \"20s\", or an integer of seconds, from {min} to {max}")
            }
            Kind::Rate { max } => {
                format!(
                    "a rate such as \"10/s\", \"5/m\" or \"100/h\", or an integer per second, from 1 to {max}"
                )
            }
            Kind::Choice(words) => format!("one of {}", quoted(words)),
            Kind::Choices(words) => format!("an array of {}", quoted(words)),
            Kind::FlagOrChoices(words) => format!("true, false, or an array of {}", quoted(words)),
            Kind::Sink => SINK.to_owned(),
            Kind::SinkOrFalse => format!("{SINK}, or false"),
            Kind::Pairs(what) => what.to_owned(),
            Kind::Section(scope) => format!("a section {}", scope.name()),
            Kind::SectionOrFalse(_) => "a table, or false".to_owned(),
            Kind::Tables(scope) => format!("a section {} for each", scope.name()),
        }
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

/// What applies where a key is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDefault {
    Required,
    /// A value, as a file would have it.
    Value(&'static str),
    /// A default that no value of the key expresses.
    Words(&'static str),
}

/// A key of the configuration, from which its line in the manual is made, too.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub default: KeyDefault,
    /// A value other than the default; for a section, the whole of one.
    pub example: &'static str,
    pub text: &'static str,
}

/// A chapter of the manual: the keys that stand in the same scopes.
pub struct Chapter {
    title: &'static str,
    intro: &'static str,
    scopes: &'static [Scope],
    keys: &'static [Key],
}

/// The part of a key that reading needs. The program has only this: the descriptions are larger, and in the manual.
#[derive(Clone, Copy)]
pub struct ReadKey {
    scopes: &'static [Scope],
    pub name: &'static str,
    pub kind: Kind,
}

/// All of `CHAPTERS`, made by the compiler.
static KEYS: [ReadKey; COUNT] = {
    let mut all = [ReadKey { scopes: &[], name: "", kind: Kind::Text }; COUNT];
    let (mut count, mut chapter) = (0, 0);
    while chapter < CHAPTERS.len() {
        let Chapter { scopes, keys, .. } = CHAPTERS[chapter];
        let mut at = 0;
        while at < keys.len() {
            all[count] = ReadKey { scopes, name: keys[at].name, kind: keys[at].kind };
            (count, at) = (count + 1, at + 1);
        }
        chapter += 1;
    }
    all
};

const COUNT: usize = {
    let (mut count, mut chapter) = (0, 0);
    while chapter < CHAPTERS.len() {
        count += CHAPTERS[chapter].keys.len();
        chapter += 1;
    }
    count
};

pub fn find(scope: Scope, name: &str) -> Option<&'static ReadKey> {
    of(scope).find(|key| key.name == name)
}

/// The keys of a scope, in the order of the manual.
fn of(scope: Scope) -> impl Iterator<Item = &'static ReadKey> {
    KEYS.iter().filter(move |key| key.scopes.contains(&scope))
}

/// As `of`, with their descriptions.
#[cfg(test)]
pub fn described(scope: Scope) -> impl Iterator<Item = &'static Key> {
    CHAPTERS.iter().filter(move |chapter| chapter.scopes.contains(&scope)).flat_map(|chapter| chapter.keys)
}

/// What the user should write instead of `name`, which is not a key of `scope` and has this value.
pub fn suggest(scope: Scope, name: &str, value: &toml::Value) -> String {
    let equivalent = EQUIVALENTS.iter().find(|(other, key, _)| *other == name && find(scope, key).is_some());
    if let Some((_, key, how)) = equivalent {
        return format!("use \"{key}\"{how}");
    }
    if let Some((_, instead)) = ABSENT.iter().find(|(names, _)| names.contains(&name)) {
        return (*instead).to_owned();
    }
    let distance = |key: &&ReadKey| strsim::osa_distance(key.name, &name.to_lowercase());
    // A section is no misspelled string.
    let fits = |key: &&ReadKey| !value.is_section() || key.kind.is_section();
    let nearest =
        of(scope).filter(fits).min_by_key(distance).filter(|key| distance(key) <= 1 + name.len().min(12) / 4);
    if let Some(plural) = nearest.filter(|key| key.name.strip_suffix('s') == Some(name)) {
        return format!("did you mean \"{}\"?", plural.name);
    }
    // Where keys are looked for by their names in other servers: `key` in `[tls]`.
    let above = EQUIVALENTS.iter().find(|(other, key, _)| *other == name && find(Scope::Top, key).is_some());
    if let (Scope::Tls, Some((_, key, how))) = (scope, above) {
        return format!("use \"{key}\"{how}, at the top level or in [[host]]");
    }
    let elsewhere: Vec<&str> =
        Scope::ALL.into_iter().filter(|scope| find(*scope, name).is_some()).map(Scope::name).collect();
    if !elsewhere.is_empty() {
        let before = if elsewhere[0] == Scope::Top.name() { ", before the first section" } else { "" };
        return format!("it belongs to {}{before}", elsewhere.join(" or "));
    }
    // A key without the word in front: `quota` for `publish_quota`.
    let longer = format!("_{name}");
    let mut named = of(scope).filter(fits).filter(|key| key.name.ends_with(&longer));
    let longer = named.next().filter(|_| named.next().is_none());
    match nearest.or(longer) {
        Some(key) => format!("did you mean \"{}\"?", key.name),
        None => "remove it; the manual lists every key".to_owned(),
    }
}

/// Keys of other servers: the name, the equivalent key, and the rest of the message.
const EQUIVALENTS: &[(&str, &str, &str)] = &[
    ("server_name", "names", "; the field `Server` is \"server_header\" at the top level"),
    ("server_tokens", "server_header", " = false to leave out the field `Server`"),
    ("server_names", "names", ""),
    ("hostname", "names", ""),
    ("hosts", "host", ": one [[host]] for each"),
    ("server", "host", ": one [[host]] for each"),
    ("virtual_host", "host", ": one [[host]] for each"),
    ("vhost", "host", ": one [[host]] for each"),
    ("location", "route", ": one [[route]] for each"),
    ("routes", "route", ": one [[route]] for each"),
    ("bind", "listen", ""),
    ("port", "listen", ", with an address: \"127.0.0.1:8080\""),
    ("address", "listen", ""),
    ("document_root", "root", ""),
    ("docroot", "root", ""),
    ("autoindex", "listing", ""),
    ("browse", "listing", ""),
    ("add_header", "headers", ""),
    ("mime_types", "types", ""),
    ("expires", "cache_control", ""),
    ("gzip_static", "precompressed", ""),
    ("brotli_static", "precompressed", ""),
    ("gzip", "compress", ""),
    ("brotli", "compress", ""),
    ("zstd", "compress", ""),
    ("deflate", "compress", ""),
    ("encode", "compress", ""),
    ("compression", "compress", ""),
    ("gzip_types", "compress_types", ""),
    ("gzip_min_length", "compress_from", ""),
    ("gzip_comp_level", "compress_kept", ""),
    ("gzip_proxied", "compress_scripts", ""),
    ("threads", "workers", ""),
    ("client_max_body_size", "max_body", ""),
    ("scriptalias", "cgi", " = true, with a path that ends in a slash, and alias"),
    ("script", "cgi", " = true"),
    ("scripts", "cgi", " = true"),
    ("cache", "response_cache", " = true"),
    ("handler", "interpreter", ""),
    ("limit_req", "limit", ": a [[limit]] with requests = RATE"),
    ("limit_rate", "limit", ": a [[limit]] with by = \"connection\" and download = RATE"),
    ("rate_limit", "limit", ": a [[limit]] with requests = RATE"),
    ("throttle", "limit", ": a [[limit]] with download = RATE, or \"throttle_file\""),
    ("limit_conn", "limit", ": a [[limit]] with concurrent = N"),
    ("rate", "download", ", or \"requests\""),
    ("rate", "limit", ": a [[limit]] with download = RATE, or requests = RATE"),
    ("bandwidth", "download", ""),
    ("connections", "concurrent", ", for requests; connections are in [limits]"),
    ("fastcgi_pass", "application", TO_AN_APPLICATION),
    ("scgi_pass", "application", TO_AN_APPLICATION),
    ("proxy_pass", "proxy", ""),
    ("reverse_proxy", "proxy", " = \"http://ADDRESS:PORT\""),
    ("proxy_set_header", "proxy_headers", ""),
    ("header_up", "proxy_headers", ""),
    ("auth_basic", "auth", " = \"basic\", and realm"),
    ("auth_basic_user_file", "user_files", ""),
    ("basic_auth", "auth", " = \"basic\", and user_files"),
    ("basicauth", "auth", " = \"basic\", and user_files"),
    ("password", "users", ", or user_files"),
    ("htpasswd", "user_files", ""),
    ("allow", "rule", ": a [[rule]] with address and then = \"allow\""),
    ("deny", "rule", ": a [[rule]] with address and then = \"deny\""),
    ("dav", "publish", " = \"webdav\""),
    ("webdav", "publish", " = \"webdav\""),
    ("dav_methods", "publish", " = \"files\" or \"webdav\""),
    ("webdav.activate", "publish", " = \"webdav\""),
    ("webdav.is-readonly", "publish", " = \"read\""),
    ("create_full_put_path", "publish_make_folders", ""),
    ("dav_access", "publish_umask", ""),
    ("davdepthinfinity", "publish_deep_listing", ""),
    ("auth_request", "authorizer", ", and authorizer_path"),
    ("forward_auth", "authorizer", ", and authorizer_path"),
    ("cors", "cors_origins", ""),
    ("allow_origin", "cors_origins", ""),
    ("auth_jwt", "jwt", ""),
    ("auth_jwt_key_file", "jwt", ": its keys"),
    ("upstream", "application", ": one [[application]] for each"),
    ("try_files", "fallback", ", the path that responds where a file does not exist"),
    ("fallback_resource", "fallback", ""),
    ("error_log", "log", ": error = \"…\" in a section [log]"),
    ("tracing", "trace", ""),
    ("otel_trace", "trace", ": a section [trace]"),
    ("otel_exporter", "trace", ": its export"),
    ("endpoint", "export", ""),
    ("otlp", "export", ""),
    ("samplerate", "sample", ": one in so many"),
    ("access_log", "log", ": access = \"…\" in a section [log]"),
    ("log_format", "log", ": format or fields in a section [log]"),
    ("set_real_ip_from", "trusted_proxies", ""),
    ("real_ip_header", "trusted_proxies", ", whose X-Forwarded-For and Forwarded are read"),
    ("ssl_certificate", "certificate", ""),
    ("sslcertificatefile", "certificate", ""),
    ("cert", "certificate", ""),
    ("letsencrypt", "acme", ""),
    ("acme_certificate", "acme", ""),
    ("ssl_certificate_key", "certificate_key", ""),
    ("sslcertificatekeyfile", "certificate_key", ""),
    ("key", "certificate_key", ""),
    ("ssl_client_certificate", "client_ca", ""),
    ("ssl_crl", "client_crl", ""),
    ("ssl_verify_client", "client_certificates", ""),
    ("ssl_protocols", "tls", ": its versions"),
    ("min_version", "versions", ", such as [\"1.2\", \"1.3\"]"),
    ("ssl_reject_handshake", "tls", ": its unknown_name"),
    ("ssl", "tls", ", and an address of \"listen\" with \" tls\" at its end"),
    ("https", "tls", ", and an address of \"listen\" with \" tls\" at its end"),
    ("worker_processes", "workers", ""),
    ("worker_connections", "limits", ": its connections"),
    ("keepalive_timeout", "timeouts", ": its idle"),
    ("directory_index", "index", ""),
    ("directoryindex", "index", ""),
    ("environment", "env", ""),
    ("setenv", "env", ""),
    ("fastcgi_param", "env", ""),
    ("cgi_timeout", "scripts", ": its total, idle and first_byte"),
    ("timeout", "total", ", idle or first_byte"),
];

const TO_AN_APPLICATION: &str = ": an [[application]] with an address, and its name in a [[route]]";

/// Keys of other servers without an equivalent, and what to do instead.
const ABSENT: &[(&[&str], &str)] = &[
    (
        &["ssl_ciphers", "ssl_ecdh_curve", "ssl_dhparam", "ssl_stapling", "ocsp", "ssl_session_cache"],
        "the defaults are those of today; \"ciphers\" and \"groups\" in [tls] choose among them",
    ),
    (&["http3", "quic"], "HTTP/1.1 and HTTP/2 are supported; remove it"),
    (&["daemon", "daemonize"], "the program stays in the foreground; let the service manager start it"),
];

const START: &str = "<!-- keys: generated, do not edit -->\n";
const END: &str = "<!-- end of keys -->\n";

/// The reference of all keys in Markdown, as it stands in `docs/manual/configuration.md`.
pub fn manual() -> String {
    let mut out = String::from(START);
    for Chapter { title, intro, keys, .. } in CHAPTERS {
        let _ = write!(out, "\n## {title}\n\n{intro}\n");
        keys.iter().for_each(|key| write_key(key, &mut out));
    }
    out.push('\n');
    out.push_str(END);
    out
}

/// `page` with its reference replaced by that of the table. `None`: it has no place for one.
pub fn renewed(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, &manual(), after].concat())
}

fn write_key(key: &Key, out: &mut String) {
    let Key { name, kind, default, example, text } = key;
    let default = match default {
        KeyDefault::Required => "required".to_owned(),
        KeyDefault::Value(value) => format!("default `{value}`"),
        KeyDefault::Words(words) => format!("default: {words}"),
    };
    let assignment = match kind {
        Kind::Section(_) | Kind::Tables(_) => String::new(),
        _ => format!("{name} = "),
    };
    let expected = kind.expected();
    let _ = write!(
        out,
        "\n### `{name}`\n\n*{expected}; {default}*\n\n{text}\n\n```toml\n{assignment}{example}\n```\n"
    );
}
