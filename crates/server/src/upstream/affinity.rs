//! What in a request decides which endpoint it goes to, and the cookie that keeps a client at one. Knows no connection.

use site::balance::{Balance, cookie};
use taipan_http::head::Head;
use taipan_http::target::Scheme;

use crate::peer::Peer;
use crate::pool::selection::Affinity;

/// `path`: that for the upstream.
pub fn affinity(
    balance: &Balance,
    head: &Head<'_>,
    path: impl FnOnce() -> Option<String>,
    client: Peer,
) -> Affinity {
    match balance {
        Balance::Least | Balance::RoundRobin | Balance::Random => Affinity::Nothing,
        Balance::Hash(key) => Affinity::of_key(&key.bytes(head, path, client.ip())),
        Balance::Sticky(name) => cookie(head, name).map_or(Affinity::Nothing, Affinity::of_token),
    }
}

/// The value of `Set-Cookie` that keeps a client at the endpoint of a token.
pub fn set_cookie(name: &str, token: &str, scheme: Scheme) -> String {
    let secure = if scheme == Scheme::Https { "; Secure" } else { "" };
    format!("{name}={token}; Path=/; HttpOnly; SameSite=Lax{secure}")
}
