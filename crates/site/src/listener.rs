//! An address to listen on, and the protocols that its clients speak: `0.0.0.0:443 tls`.

use std::fmt;
use std::path::Path;

use crate::address::Address;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    pub address: Address,
    pub protocols: Protocols,
    /// The machine may not have the address yet (IP_FREEBIND, ip(7)).
    pub freebind: bool,
}

/// What clients of a listener speak besides HTTP/1, or in front of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Protocols {
    /// Clients begin with a TLS handshake, which also decides between HTTP/1.1 and HTTP/2.
    pub tls: bool,
    /// Without TLS, clients may begin with the preface of HTTP/2 (RFC 9113 §3.3).
    pub http2: bool,
    /// The peers are proxies, and each connection begins with a PROXY header that names the client.
    pub proxy: bool,
}

impl Listener {
    /// Reads an address as `Address::parse` does, with the words `tls`, `http2`, `proxy` or `freebind` behind it. Errors
    /// say what to write instead.
    pub fn parse(text: &str, folder: &Path) -> Result<Listener, String> {
        let mut rest = text;
        let (mut protocols, mut freebind) = (Protocols::default(), false);
        while let Some((before, word)) = rest.rsplit_once(' ') {
            let is_set = match word {
                "tls" => &mut protocols.tls,
                "http2" => &mut protocols.http2,
                "proxy" => &mut protocols.proxy,
                "freebind" => &mut freebind,
                // The path of a socket may have spaces.
                _ if rest.starts_with("unix:") => break,
                _ => {
                    let word = word.escape_debug();
                    return Err(format!(
                        "\"{word}\" is not known; write tls, http2, proxy or freebind behind the address"
                    ));
                }
            };
            *is_set = true;
            rest = before;
        }
        match protocols {
            Protocols { tls: true, http2: true, .. } => {
                Err("leave out http2: with tls, the handshake decides between HTTP/1.1 and HTTP/2".to_owned())
            }
            _ => match Address::parse(rest, folder)? {
                Address::Unix(_) if freebind => Err("leave out freebind: it is for IP addresses".to_owned()),
                address => Ok(Listener { address, protocols, freebind }),
            },
        }
    }
}

/// A listener for HTTP/1 alone.
impl From<Address> for Listener {
    fn from(address: Address) -> Listener {
        Listener { address, protocols: Protocols::default(), freebind: false }
    }
}

/// As a configuration writes it.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Protocols { tls, http2, proxy } = self.protocols;
        let words = [(tls, " tls"), (http2, " http2"), (proxy, " proxy"), (self.freebind, " freebind")];
        write!(f, "{}", self.address)?;
        words.iter().filter(|(is_set, _)| *is_set).try_for_each(|(_, word)| f.write_str(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_words_behind_an_address() {
        let folder = Path::new("/run");
        let plain = Protocols::default();
        for (text, protocols) in [
            ("127.0.0.1:80", plain),
            ("127.0.0.1:443 tls", Protocols { tls: true, ..plain }),
            ("[::1]:80 http2", Protocols { http2: true, ..plain }),
            ("127.0.0.1:443 tls proxy", Protocols { tls: true, proxy: true, ..plain }),
            ("[::1]:80 http2 proxy", Protocols { http2: true, proxy: true, ..plain }),
            ("unix:/run/socket proxy", Protocols { proxy: true, ..plain }),
            ("unix:/run/my tls socket", plain),
            ("unix:/run/my socket tls", Protocols { tls: true, ..plain }),
        ] {
            let listener = Listener::parse(text, folder).expect(text);
            assert_eq!(listener.protocols, protocols, "{text}");
            assert!(!listener.freebind, "{text}");
            assert_eq!(listener.to_string(), text);
        }
        let listener = Listener::parse("192.0.2.1:443 tls freebind", folder).expect("it is one");
        assert!(listener.freebind && listener.protocols.tls);
        assert_eq!(listener.to_string(), "192.0.2.1:443 tls freebind");
        for (text, why) in [
            ("127.0.0.1:443 ssl", "\"ssl\" is not known; write tls, http2, proxy or freebind"),
            ("127.0.0.1:443 tls http2", "leave out http2"),
            ("unix:/run/socket freebind", "leave out freebind"),
            ("tls", "write an IP address and a port"),
            ("443 tls", "127.0.0.1:443"),
        ] {
            let error = Listener::parse(text, folder).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
