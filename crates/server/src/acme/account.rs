//! The account at an authority: its key, which all authorities share, and the request for a new one (RFC 8555 §7.3),
//! also with the key of an account that the authority knows already (§7.3.4).

use std::io;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, Method, Response, Uri};
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::crypto;
use super::https::Client;
use super::issue;

/// An authority may reject a nonce again and again (RFC 8555 §6.5).
const ATTEMPTS: usize = 5;
pub const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";

pub struct AccountKey {
    pub key: PrivatePkcs8KeyDer<'static>,
    /// The public key as JSON, with its members in the order of RFC 7638 §3.
    jwk: String,
}

/// The key by which an authority knows an account.
pub struct Binding {
    pub key_id: String,
    pub key: Zeroizing<Vec<u8>>,
}

/// What an authority says of itself (RFC 8555 §7.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    new_nonce: String,
    new_account: String,
    /// Where it is asked for renewal windows (RFC 9773).
    pub renewal_info: Option<String>,
    /// Its name in DNS records.
    pub issuer: Option<String>,
}

impl AccountKey {
    /// Errors: it is not a key for P-256.
    pub fn of(key: PrivatePkcs8KeyDer<'static>) -> Result<AccountKey, String> {
        let point = issue::public_point(&key)?;
        let (x, y) = point.split_at(32);
        let (x, y) = (encode(x), encode(y));
        let jwk = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        Ok(AccountKey { key, jwk })
    }

    /// RFC 7638.
    pub fn thumbprint(&self) -> String {
        encode(&crypto::sha256(self.jwk.as_bytes()))
    }
}

impl Binding {
    /// Errors: `text` is not base64url, or empty; with what to do.
    pub fn read(key_id: &str, text: &[u8]) -> Result<Binding, String> {
        let reject = |why: &str| format!("{why}; write the key alone, as the authority has given it");
        // Some editors begin a file with a byte order mark.
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text).trim_ascii();
        let length = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
        if length == 0 {
            return Err(reject("it is empty"));
        }
        let key = URL_SAFE_NO_PAD.decode(&text[..length]).map_err(|_| reject("it is not base64url"))?;
        Ok(Binding { key_id: key_id.to_owned(), key: Zeroizing::new(key) })
    }
}

impl Directory {
    /// Errors: the authority cannot be reached, or sends something else.
    pub async fn fetch(client: &Client, url: &str) -> Result<Directory, String> {
        let response = client.send(&Method::GET, &uri(url)?, &HeaderMap::new(), b"").await;
        let response = response.map_err(|e| e.to_string())?;
        match response.status() {
            status if status.is_success() => Directory::parse(response.body())
                .ok_or_else(|| format!("{url} is no directory of an ACME authority")),
            status => Err(format!("{url} responds with {status}")),
        }
    }

    fn parse(text: &str) -> Option<Directory> {
        let value: Value = serde_json::from_str(text).ok()?;
        let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
        Some(Directory {
            new_nonce: text("newNonce")?,
            new_account: text("newAccount")?,
            renewal_info: text("renewalInfo"),
            issuer: value.pointer("/meta/caaIdentities/0").and_then(Value::as_str).map(str::to_owned),
        })
    }

    /// The URL of the account with this key, which is created if there is none.
    pub async fn account(
        &self,
        client: &Client,
        key: &AccountKey,
        email: Option<&str>,
        binding: Option<&Binding>,
    ) -> Result<String, String> {
        let body = self.new_account(key, email, binding);
        let mut nonce = None;
        for _ in 0..ATTEMPTS {
            let fresh = match nonce.take() {
                Some(nonce) => nonce,
                None => self.nonce(client).await?,
            };
            let response = self.post(client, key, &fresh, &body).await.map_err(|e| e.to_string())?;
            if response.status().is_success() {
                return field(&response, "location").ok_or_else(|| "the account has no URL".to_owned());
            }
            let problem: Value = serde_json::from_str(response.body()).unwrap_or_default();
            if problem["type"] != BAD_NONCE {
                let detail = problem["detail"].as_str().unwrap_or("it gives no reason");
                return Err(format!("the authority opens no account: {detail} ({})", response.status()));
            }
            nonce = field(&response, "replay-nonce");
        }
        Err("the authority rejects every nonce".to_owned())
    }

    fn new_account(&self, key: &AccountKey, email: Option<&str>, binding: Option<&Binding>) -> String {
        let mut account = json!({ "termsOfServiceAgreed": true });
        if let Some(email) = email {
            account["contact"] = json!([format!("mailto:{email}")]);
        }
        if let Some(Binding { key_id, key: secret }) = binding {
            let header = json!({ "alg": "HS256", "kid": key_id, "url": self.new_account });
            let sign = |message: &[u8]| crypto::authenticate(secret, message);
            account["externalAccountBinding"] = jws(&header.to_string(), &key.jwk, sign);
        }
        account.to_string()
    }

    async fn nonce(&self, client: &Client) -> Result<String, String> {
        let response = client.send(&Method::HEAD, &uri(&self.new_nonce)?, &HeaderMap::new(), b"").await;
        let response = response.map_err(|e| e.to_string())?;
        field(&response, "replay-nonce")
            .ok_or_else(|| format!("the authority gives no nonce ({})", response.status()))
    }

    async fn post(
        &self,
        client: &Client,
        key: &AccountKey,
        nonce: &str,
        body: &str,
    ) -> io::Result<Response<String>> {
        let jwk: Value = serde_json::from_str(&key.jwk)?;
        let header = json!({ "alg": "ES256", "jwk": jwk, "nonce": nonce, "url": self.new_account });
        let sign = |message: &[u8]| crypto::sign(&key.key, message).unwrap_or_default();
        let signed = jws(&header.to_string(), body, sign).to_string();
        let mut fields = HeaderMap::new();
        fields.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/jose+json"));
        let url = uri(&self.new_account).map_err(io::Error::other)?;
        client.send(&Method::POST, &url, &fields, signed.as_bytes()).await
    }
}

/// A signed message (RFC 7515 §7.2.2).
fn jws(header: &str, payload: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> Value {
    let (protected, payload) = (encode(header.as_bytes()), encode(payload.as_bytes()));
    let signature = encode(&sign(format!("{protected}.{payload}").as_bytes()));
    json!({ "protected": protected, "payload": payload, "signature": signature })
}

fn field(response: &Response<String>, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

pub fn uri(url: &str) -> Result<Uri, String> {
    url.parse().map_err(|_| format!("{url} is not a URL"))
}

pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_needs_the_urls_of_nonces_and_accounts() {
        let check = |text: &str, expected: Option<(Option<&str>, Option<&str>)>| {
            let found = Directory::parse(text);
            let found = found.as_ref().map(|d| (d.renewal_info.as_deref(), d.issuer.as_deref()));
            assert_eq!(found, expected, "{text}");
        };
        check(r#"{"newNonce":"n","newAccount":"a"}"#, Some((None, None)));
        check(
            r#"{"newNonce":"n","newAccount":"a","renewalInfo":"r","meta":{"caaIdentities":["ca.example"]}}"#,
            Some((Some("r"), Some("ca.example"))),
        );
        check(r#"{"newNonce":"n"}"#, None);
        check(r#"{"newNonce":1,"newAccount":"a"}"#, None);
        check("<html>", None);
        check("", None);
    }

    #[test]
    fn the_thumbprint_is_that_of_the_library() {
        let key = AccountKey::of(issue::account_key().unwrap()).unwrap();
        assert_eq!(key.thumbprint().len(), 43);
        // RFC 7638 §3.2: no white space, members in order.
        let members: Vec<&str> = key.jwk.split('"').skip(1).step_by(4).collect();
        assert_eq!(members, ["crv", "kty", "x", "y"]);
        assert!(serde_json::from_str::<Value>(&key.jwk).is_ok());
    }

    #[test]
    fn a_binding_is_base64url_with_or_without_padding() {
        for text in ["AQID", "AQID\n", "AQIDBA==", "AQIDBA", "\u{feff}AQID\r\n"] {
            assert!(Binding::read("k", text.as_bytes()).is_ok(), "{text}");
        }
        assert_eq!(*Binding::read("k", b"AQID\n").unwrap().key, [1, 2, 3]);
        let not = "it is not base64url; write the key alone";
        for (text, expected) in [
            (&b"A"[..], not),
            (b"a b", not),
            (b"+/", not),
            (b"\xff", not),
            (b"", "it is empty; write the key alone"),
            (b"\n==\n", "it is empty"),
        ] {
            let why = Binding::read("k", text).err().unwrap_or_default();
            assert!(why.contains(expected), "{text:?}: {why}");
        }
    }

    #[test]
    fn a_new_account_is_bound_to_its_own_key() {
        let key = AccountKey::of(issue::account_key().unwrap()).unwrap();
        let directory = Directory::parse(r#"{"newNonce":"n","newAccount":"https://a/new"}"#).unwrap();
        let binding = Binding::read("kid-1", b"AQID").unwrap();
        let text = directory.new_account(&key, Some("a@b.example"), Some(&binding));
        let account: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(account["contact"], json!(["mailto:a@b.example"]));
        let bound = &account["externalAccountBinding"];
        let decode = |name: &str| URL_SAFE_NO_PAD.decode(bound[name].as_str().unwrap()).unwrap();
        assert_eq!(decode("payload"), key.jwk.as_bytes());
        let header: Value = serde_json::from_slice(&decode("protected")).unwrap();
        assert_eq!(header, json!({ "alg": "HS256", "kid": "kid-1", "url": "https://a/new" }));
        let text = directory.new_account(&key, None, None);
        assert_eq!(text, r#"{"termsOfServiceAgreed":true}"#);
    }
}
