//! The fields by which proxies name the client and the host of a request. The client is the one that the proxy names,
//! for any fields of the client. A host is valid.

use std::net::IpAddr;

use site::network::Network;
use site::proxies::{ForwardedOrigin, Proxies};
use taipan_http::fields::is_authority;
use taipan_http::head::{FieldStore, Head, Limits, parse};

use crate::cuts::first_line;

const PROXY: &str = "10.0.0.1";
const CLIENT: &str = "192.0.2.1";

/// The first line is the value of one field, the rest that of another.
pub fn forwarded(data: &[u8]) {
    let (one, other) = first_line(data);
    let [x, forwarded] = ["X-Forwarded-For: ", "Forwarded: "].map(str::as_bytes);
    let proxies = Proxies::new(vec![Network::parse("10.0.0.0/8").expect("a network"), Network::Unix]);
    for names in [[x, x], [x, forwarded], [forwarded, x], [forwarded, forwarded]] {
        let lines =
            [names[0], one, b"\r\n", names[1], other, b"\r\nX-Forwarded-Host: ", one, b"\r\n"].concat();
        with(&lines, |head| {
            let peer = Some(address(PROXY));
            if let Some(ForwardedOrigin { authority, .. }) = proxies.origin(peer, head) {
                assert!(is_authority(authority));
            }
            assert_eq!(proxies.origin(Some(address(CLIENT)), head), None);
        });
    }
    // The proxy adds its client, on the same line or on another.
    for (lines, must) in [
        ([x, one, b", ", CLIENT.as_bytes(), b"\r\n"], true),
        ([x, one, b"\r\nX-Forwarded-For: ", CLIENT.as_bytes(), b"\r\n"], true),
        ([forwarded, one, b"\r\nForwarded: for=", CLIENT.as_bytes(), b"\r\n"], true),
        ([forwarded, one, b", for=", CLIENT.as_bytes(), b"\r\n"], false),
        ([forwarded, one, b", for=\"", CLIENT.as_bytes(), b"\";proto=http\r\n"], false),
    ] {
        with(&lines.concat(), |head| {
            let origin =
                proxies.origin(Some(address(PROXY)), head).expect("only one kind of fields is there");
            match origin.client {
                Some((client, None)) => assert_eq!(client, address(CLIENT)),
                other => assert!(!must && other.is_none(), "{other:?}"),
            }
        });
    }
    if let Ok(text) = std::str::from_utf8(one)
        && let Ok(Network::Ip(network, prefix)) = Network::parse(text)
    {
        assert_eq!(Network::parse(&format!("{network}/{prefix}")), Ok(Network::Ip(network, prefix)));
        assert!(Proxies::new(vec![Network::Ip(network, prefix)]).trust(Some(network)));
    }
}

fn with(lines: &[u8], check: impl FnOnce(&Head<'_>)) {
    let bytes = [b"GET / HTTP/1.1\r\nHost: own\r\n", lines, b"\r\n"].concat();
    let mut store = FieldStore::new();
    // A line break within a value would make more fields.
    if lines.iter().filter(|byte| **byte == b'\n').count() <= 3
        && let Ok(Some((head, _))) = parse(&bytes, &mut store, &Limits::default())
    {
        check(&head);
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
