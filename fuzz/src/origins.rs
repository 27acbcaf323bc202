//! Origins that a configuration allows, and those that requests name. Only an origin that the configuration has, or
//! that is below a name of it, is sent back. Times of `security.txt`, too.

use site::cors::{AllowedOrigin, Settings};
use site::published;
use taipan_http::fields::is_authority;
use taipan_http::head::{FieldStore, Limits, parse};

use crate::cuts::first_line;

const OTHER: &str = "https://other.example";

/// The first line is an origin of the configuration, or a time; the rest is the value of `Origin`.
pub fn origins(data: &[u8]) {
    let (own, origin) = first_line(data);
    let Ok(own) = std::str::from_utf8(own) else { return };
    if let Some(time) = published::time(own) {
        // The years 0 to 9999, and a day for the zone.
        assert!((-62_167_306_000..=253_402_387_200).contains(&time));
    }
    let Ok(own) = AllowedOrigin::parse(own) else { return };
    let origins = vec![own.clone(), AllowedOrigin::Exact(OTHER.to_owned())];
    let settings = Settings { origins, credentials: own != AllowedOrigin::Any, ..Settings::default() };
    let Some(cors) = settings.cors() else { return };
    let request = [b"GET / HTTP/1.1\r\nHost: a\r\nOrigin: ", origin, b"\r\n\r\n"].concat();
    let mut store = FieldStore::new();
    let Ok(Some((head, _))) = parse(&request, &mut store, &Limits::default()) else { return };
    let fields = cors.fields(&head);
    let Some((_, allowed)) = fields.first() else { return };
    assert_eq!(Some(allowed.as_bytes()), head.only("origin"));
    match &own {
        _ if *allowed == OTHER => {}
        // All responses are the same.
        AllowedOrigin::Any => panic!("{allowed} is named"),
        AllowedOrigin::Exact(own) => assert_eq!(own, allowed),
        AllowedOrigin::Below { scheme, suffix } => {
            let authority = allowed.strip_prefix(scheme.as_str()).expect("the scheme is the same");
            assert!(authority.len() > suffix.len() && authority.ends_with(suffix.as_str()));
            assert!(is_authority(authority.as_bytes()) && !authority.contains(['@', '/', '[']));
        }
    }
    assert!(cors.preflight(&head).iter().any(|(_, value)| value == allowed));
}
