//! Cross-origin resource sharing: which origins may read responses, as the Fetch standard of the WHATWG has it. Only
//! fields: knows nothing of paths and of content.

use std::time::Duration;

use taipan_http::head::{Head, Method, Names};

pub const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";
const ALLOW_CREDENTIALS: &str = "Access-Control-Allow-Credentials";
const ALLOW_METHODS: &str = "Access-Control-Allow-Methods";
const ALLOW_HEADERS: &str = "Access-Control-Allow-Headers";
const EXPOSE_HEADERS: &str = "Access-Control-Expose-Headers";
const MAX_AGE: &str = "Access-Control-Max-Age";
const VARY: &str = "Vary";
/// Stands for everything.
pub const ANY: &str = "*";
/// A browser keeps no preflight longer than this.
pub const LONGEST: Duration = Duration::from_secs(86_400);

/// The settings of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Empty: no other origin may read anything.
    pub origins: Vec<AllowedOrigin>,
    pub methods: Vec<String>,
    /// Fields of requests.
    pub fields: Vec<String>,
    /// Fields of responses.
    pub exposed_fields: Vec<String>,
    /// Whether cookies and passwords of other origins' requests count.
    pub credentials: bool,
    pub max_age: Duration,
}

/// Which origins may read responses (Fetch, CORS protocol).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedOrigin {
    Any,
    /// As a browser sends it: `https://example.org`, or `http://example.org:8080`.
    Exact(String),
    /// Every name below a name: `https://` and `.example.org`.
    Below {
        scheme: String,
        suffix: String,
    },
}

/// What is wrong with an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginError {
    /// Pages without an origin of their own, such as those in a sandbox, all have this one.
    Null,
    Scheme,
    Path,
    Host,
    /// A star that is not the whole first label.
    Star,
}

/// The fields of responses, for one route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// The same in every response.
    pub constant: Vec<(&'static str, String)>,
    /// Empty: the constant fields name the origin.
    origins: Vec<AllowedOrigin>,
    /// In responses to origins among `origins`, beside that origin.
    shared: Vec<(&'static str, String)>,
    /// In the responses to preflights.
    preflight: Vec<(&'static str, String)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            origins: Vec::new(),
            methods: ["GET", "HEAD", "POST"].map(str::to_owned).to_vec(),
            fields: Vec::new(),
            exposed_fields: Vec::new(),
            credentials: false,
            max_age: Duration::from_secs(600),
        }
    }
}

impl Settings {
    /// `None`: they allow nothing.
    pub fn cors(&self) -> Option<Cors> {
        let mut shared = Vec::new();
        if self.credentials {
            shared.push((ALLOW_CREDENTIALS, "true".to_owned()));
        }
        let mut exposed = shared.clone();
        if !self.exposed_fields.is_empty() {
            exposed.push((EXPOSE_HEADERS, self.exposed_fields.join(", ")));
        }
        let only = match &self.origins[..] {
            [] => return None,
            [AllowedOrigin::Exact(only)] => Some(only.clone()),
            origins if origins.contains(&AllowedOrigin::Any) => Some(ANY.to_owned()),
            _ => None,
        };
        let mut preflight = shared;
        preflight.push((ALLOW_METHODS, self.methods.join(", ")));
        if !self.fields.is_empty() {
            preflight.push((ALLOW_HEADERS, self.fields.join(", ")));
        }
        preflight.push((MAX_AGE, self.max_age.as_secs().to_string()));
        Some(match only {
            Some(only) => {
                let constant = [(ALLOW_ORIGIN, only)].into_iter().chain(exposed).collect();
                Cors { constant, origins: Vec::new(), shared: Vec::new(), preflight }
            }
            None => Cors {
                constant: vec![(VARY, "Origin".to_owned())],
                origins: self.origins.clone(),
                shared: exposed,
                preflight,
            },
        })
    }
}

/// Whether the page that requests a response may read it, as far as its browser says. Else the length of a difference
/// (RFC 9842 §9.3.3) would tell it something about content that it may not see. `cors`: that of the route.
pub fn may_read(head: &Head<'_>, cors: Option<&Cors>) -> bool {
    match (head.only("sec-fetch-site"), head.only("sec-fetch-mode")) {
        (None | Some(b"same-origin"), _) | (_, None | Some(b"navigate" | b"same-origin")) => true,
        (_, Some(b"cors")) => cors.is_some_and(|cors| cors.allows(head)),
        _ => false,
    }
}

impl Cors {
    /// Whether the origin that a request names may read the response.
    fn allows(&self, head: &Head<'_>) -> bool {
        let is_named = |(name, value): &(&str, String)| {
            let is_own = || head.only("origin") == Some(value.as_bytes());
            *name == ALLOW_ORIGIN && (value == ANY || is_own())
        };
        head.names.contains(Names::ORIGIN)
            && (self.constant.iter().any(is_named) || self.allowed(head).is_some())
    }

    /// The fields for the origin that a request names, beside the constant ones.
    pub fn fields<'a>(&'a self, head: &Head<'a>) -> Vec<(&'a str, &'a str)> {
        let Some(origin) = self.allowed(head) else { return Vec::new() };
        let shared = self.shared.iter().map(|(name, value)| (*name, value.as_str()));
        [(ALLOW_ORIGIN, origin)].into_iter().chain(shared).collect()
    }

    /// The fields of the response to a preflight, beside the constant ones. A browser compares its origin, its method
    /// and its fields with them.
    pub fn preflight<'a>(&'a self, head: &Head<'a>) -> Vec<(&'a str, &'a str)> {
        let own = self.preflight.iter().map(|(name, value)| (*name, value.as_str()));
        match (self.origins.is_empty(), self.allowed(head)) {
            (true, _) => own.collect(),
            (false, Some(origin)) => [(ALLOW_ORIGIN, origin)].into_iter().chain(own).collect(),
            (false, None) => Vec::new(),
        }
    }

    /// The origin of a request, if it is one of several that the route allows.
    fn allowed<'a>(&self, head: &Head<'a>) -> Option<&'a str> {
        let origin = std::str::from_utf8(head.only("origin")?).ok()?;
        self.origins.iter().any(|own| own.matches(origin)).then_some(origin)
    }
}

impl AllowedOrigin {
    /// Reads `*`, `https://example.org` or `https://*.example.org`.
    pub fn parse(text: &str) -> Result<AllowedOrigin, OriginError> {
        match text {
            ANY => return Ok(AllowedOrigin::Any),
            "null" => return Err(OriginError::Null),
            _ => {}
        }
        let text = text.to_ascii_lowercase();
        let (scheme, authority) = text.split_once("://").ok_or(OriginError::Scheme)?;
        let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        if !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) || !scheme.bytes().all(is_scheme) {
            return Err(OriginError::Scheme);
        }
        if authority.contains(['/', '?', '#']) {
            return Err(OriginError::Path);
        }
        let default_port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => "",
        };
        let authority = match authority.strip_suffix(default_port) {
            Some(host) if !default_port.is_empty() => host,
            _ => authority,
        };
        let name = authority.strip_prefix("*.").unwrap_or(authority);
        if name.contains('*') {
            return Err(OriginError::Star);
        }
        if !taipan_http::fields::is_authority(name.as_bytes()) || name.ends_with(':') || name.contains('%') {
            return Err(OriginError::Host);
        }
        Ok(match name.len() < authority.len() {
            true => AllowedOrigin::Below { scheme: format!("{scheme}://"), suffix: format!(".{name}") },
            false => AllowedOrigin::Exact(format!("{scheme}://{name}")),
        })
    }

    fn matches(&self, origin: &str) -> bool {
        match self {
            AllowedOrigin::Any => true,
            AllowedOrigin::Exact(own) => own == origin,
            AllowedOrigin::Below { scheme, suffix } => {
                let name =
                    origin.strip_prefix(scheme.as_str()).and_then(|rest| rest.strip_suffix(suffix.as_str()));
                let is_of_name =
                    |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
                name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_of_name))
            }
        }
    }
}

impl OriginError {
    /// What the user should do.
    pub const fn advice(self) -> &'static str {
        match self {
            OriginError::Null => {
                "remove it: every page in a sandbox has this origin, also those of an attacker"
            }
            OriginError::Scheme => "begin it with https://, or write \"*\" for every origin",
            OriginError::Path => "an origin ends with its host or its port, without a path",
            OriginError::Host => "expected a host, perhaps with a port, behind the scheme",
            OriginError::Star => "a star stands for whole labels in front: \"https://*.example.org\"",
        }
    }
}

/// Whether a browser asks in advance if another origin may send a request.
pub fn is_preflight(head: &Head<'_>) -> bool {
    head.method == Method::Options
        && head.names.contains(Names::ORIGIN)
        && head.value("access-control-request-method").is_some()
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    fn cors(origins: &[&str], change: impl FnOnce(&mut Settings)) -> Option<Cors> {
        let origins = origins.iter().map(|text| AllowedOrigin::parse(text).unwrap()).collect();
        let mut settings = Settings { origins, ..Settings::default() };
        change(&mut settings);
        settings.cors()
    }

    /// `A: b|C: d` of the fields for a request with these.
    fn shown(
        cors: &Cors,
        fields: &str,
        of: for<'a> fn(&'a Cors, &Head<'a>) -> Vec<(&'a str, &'a str)>,
    ) -> String {
        let request = format!("OPTIONS / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let mut store = FieldStore::new();
        let (head, _) = parse(request.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
        let constant = cors.constant.iter().map(|(name, value)| (*name, value.as_str()));
        let all = constant.chain(of(cors, &head)).map(|(name, value)| format!("{name}: {value}"));
        all.collect::<Vec<_>>().join("|").replace("Access-Control-", "")
    }

    #[test]
    fn a_page_of_another_origin_may_read_what_the_route_shares() {
        let any = cors(&["*"], |_| ());
        let one = cors(&["https://a.example"], |_| ());
        let several = cors(&["https://a.example", "https://*.b.example"], |_| ());
        let cross = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n";
        for (fields, none_any_one_several) in [
            ("", [true; 4]),
            ("Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\n", [true; 4]),
            ("Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n", [true; 4]),
            ("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", [true; 4]),
            ("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", [false; 4]),
            ("Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors\r\n", [false; 4]),
            (cross, [false; 4]),
            (&format!("{cross}Origin: https://a.example\r\n"), [false, true, true, true]),
            (&format!("{cross}Origin: https://x.b.example\r\n"), [false, true, false, true]),
            (&format!("{cross}Origin: https://other.example\r\n"), [false, true, false, false]),
        ] {
            let request = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let mut store = FieldStore::new();
            let (head, _) = parse(request.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
            let found =
                [None, any.as_ref(), one.as_ref(), several.as_ref()].map(|cors| may_read(&head, cors));
            assert_eq!(found, none_any_one_several, "{fields}");
        }
    }

    #[test]
    fn reads_origins() {
        for (text, expected) in [
            ("*", Ok(AllowedOrigin::Any)),
            ("https://a.example", Ok(AllowedOrigin::Exact("https://a.example".to_owned()))),
            ("HTTPS://A.example:443", Ok(AllowedOrigin::Exact("https://a.example".to_owned()))),
            ("http://localhost:80", Ok(AllowedOrigin::Exact("http://localhost".to_owned()))),
            ("http://[::1]:8080", Ok(AllowedOrigin::Exact("http://[::1]:8080".to_owned()))),
            ("chrome-extension://abc", Ok(AllowedOrigin::Exact("chrome-extension://abc".to_owned()))),
            (
                "https://*.a.example:8443",
                Ok(AllowedOrigin::Below {
                    scheme: "https://".to_owned(),
                    suffix: ".a.example:8443".to_owned(),
                }),
            ),
            ("null", Err(OriginError::Null)),
            ("", Err(OriginError::Scheme)),
            ("a.example", Err(OriginError::Scheme)),
            ("://a.example", Err(OriginError::Scheme)),
            ("*://a.example", Err(OriginError::Scheme)),
            ("https://a.example/", Err(OriginError::Path)),
            ("https://a.example/x", Err(OriginError::Path)),
            ("https://", Err(OriginError::Host)),
            ("https://u@a.example", Err(OriginError::Host)),
            ("https://a.example:x", Err(OriginError::Host)),
            ("https://a example", Err(OriginError::Host)),
            ("https://*", Err(OriginError::Star)),
            ("https://*a.example", Err(OriginError::Star)),
            ("https://a.*.example", Err(OriginError::Star)),
        ] {
            assert_eq!(AllowedOrigin::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn one_origin_and_every_origin_need_no_comparison() {
        let any = cors(&["*"], |settings| settings.exposed_fields = vec!["ETag".to_owned()]).unwrap();
        assert_eq!(
            shown(&any, "Origin: https://x\r\n", Cors::fields),
            "Allow-Origin: *|Expose-Headers: ETag"
        );
        let one = cors(&["https://a"], |settings| settings.credentials = true).unwrap();
        let expected = "Allow-Origin: https://a|Allow-Credentials: true";
        assert_eq!(shown(&one, "Origin: https://x\r\n", Cors::fields), expected);
        assert_eq!(shown(&one, "", Cors::fields), expected);
        assert_eq!(cors(&[], |_| ()), None);
    }

    #[test]
    fn names_only_origins_that_the_route_allows() {
        let several = ["https://a.example", "https://*.b.example", "http://c.example:8080"];
        let cors = cors(&several, |settings| settings.credentials = true).unwrap();
        for (origin, is_allowed) in [
            ("https://a.example", true),
            ("https://x.b.example", true),
            ("https://x.y.b.example", true),
            ("http://c.example:8080", true),
            ("https://b.example", false),
            ("https://.b.example", false),
            ("http://a.example", false),
            ("https://a.example.evil", false),
            ("https://evil/.b.example", false),
            ("https://evil:1.b.example", false),
            ("https://evil@x.b.example", false),
            ("https://xb.example", false),
            ("http://c.example", false),
            ("https://a.example:8443", false),
            ("null", false),
            ("", false),
            ("https://a.example https://evil", false),
        ] {
            let expected = match is_allowed {
                true => format!("Vary: Origin|Allow-Origin: {origin}|Allow-Credentials: true"),
                false => "Vary: Origin".to_owned(),
            };
            assert_eq!(shown(&cors, &format!("Origin: {origin}\r\n"), Cors::fields), expected, "{origin}");
        }
        let twice = "Origin: https://a.example\r\nOrigin: https://a.example\r\n";
        assert_eq!(shown(&cors, twice, Cors::fields), "Vary: Origin");
    }

    #[test]
    fn responds_to_preflights() {
        let several = cors(&["https://a", "https://b"], |settings| {
            settings.methods = vec!["PUT".to_owned()];
            settings.fields = vec!["X-A".to_owned(), "X-B".to_owned()];
            settings.exposed_fields = vec!["ETag".to_owned()];
        });
        let several = several.unwrap();
        assert_eq!(
            shown(&several, "Origin: https://b\r\n", Cors::preflight),
            "Vary: Origin|Allow-Origin: https://b|Allow-Methods: PUT|Allow-Headers: X-A, X-B|Max-Age: 600"
        );
        assert_eq!(shown(&several, "Origin: https://c\r\n", Cors::preflight), "Vary: Origin");
        let any = cors(&["*"], |_| ()).unwrap();
        let expected = "Allow-Origin: *|Allow-Methods: GET, HEAD, POST|Max-Age: 600";
        assert_eq!(shown(&any, "Origin: https://c\r\n", Cors::preflight), expected);
    }
}
