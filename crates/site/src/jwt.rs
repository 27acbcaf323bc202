//! Tokens that a route asks for: where a request has one, which claims it must have, what scripts and applications
//! learn from it, and what a client without a right one is told (RFC 6750). Knows nothing of files and of cryptography.

use std::fmt;
use std::path::PathBuf;

use auth::jwt::{Claims, JwtError, Rules, verify};
use auth::keys::{Keys, PublicKey};
use taipan_http::fields::{text_len, trim_ows};
use taipan_http::head::Head;
use taipan_http::status::Status;

use crate::authorizer::variable;

/// Fields that claims may set.
pub const MAX_FIELDS: usize = 32;
const SCHEME: &[u8] = b"bearer ";

/// What a route asks of a JSON Web Token (RFC 7519), and what its claims become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jwt {
    pub key_file: PathBuf,
    /// `None`: they have not been read yet.
    pub keys: Option<Keys>,
    pub issuer: Option<String>,
    pub audience: Option<String>,
    /// Seconds by which the clocks of the issuer and the server may differ.
    pub leeway: i64,
    /// In the order in which a token is looked for.
    pub from: Vec<TokenPlace>,
    /// Claims, each with values of which the token must have one.
    pub claims: Vec<(String, Vec<String>)>,
    /// Fields for scripts and applications, each with its claim.
    pub fields: Vec<(String, String)>,
    /// The claim that names the user.
    pub user: String,
    pub realm: String,
}

/// Where a request has its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenPlace {
    /// `Authorization: Bearer TOKEN`
    Header,
    Cookie(String),
}

/// Why a request does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRejection {
    Missing,
    /// There are several fields `Authorization`.
    Ambiguous,
    Invalid(JwtError),
    /// A claim has a character that no field can have.
    Unusable,
    /// Another claim would be needed.
    Claims,
}

/// A token that lets a request pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// What scripts and applications learn.
    pub variables: Vec<(String, Vec<u8>)>,
    /// Until then, in seconds since 1970, the token says the same.
    pub until: i64,
}

impl Jwt {
    /// Verifies a token. `now` is in seconds; `check` as for `auth::jwt::verify`.
    pub fn verify(
        &self,
        token: &[u8],
        now: i64,
        check: impl Fn(&PublicKey, &[u8], &[u8]) -> bool,
    ) -> Result<Verified, TokenRejection> {
        let rules =
            Rules { issuer: self.issuer.as_deref(), audience: self.audience.as_deref(), leeway: self.leeway };
        let keys = self.keys.as_ref().ok_or(TokenRejection::Invalid(JwtError::Signature))?;
        let claims = verify(token, keys, &rules, now, check).map_err(TokenRejection::Invalid)?;
        let fits =
            |(name, values): &(String, Vec<String>)| values.iter().any(|value| claims.has(name, value));
        if !self.claims.iter().all(fits) {
            return Err(TokenRejection::Claims);
        }
        let mut variables = vec![("AUTH_TYPE".to_owned(), b"Bearer".to_vec())];
        variables.extend(text(&claims, &self.user)?.map(|user| ("REMOTE_USER".to_owned(), user)));
        for (field, claim) in &self.fields {
            variables.extend(text(&claims, claim)?.map(|value| (variable(field), value)));
        }
        Ok(Verified { variables, until: claims.expiry().saturating_add(self.leeway) })
    }

    /// The token of a request: that of the first place that has one.
    pub fn token<'a>(&self, head: &Head<'a>) -> Result<&'a [u8], TokenRejection> {
        for place in &self.from {
            let found = match place {
                TokenPlace::Header => bearer(head)?,
                TokenPlace::Cookie(name) => cookie(head, name),
            };
            if let Some(token) = found {
                return Ok(token);
            }
        }
        Err(TokenRejection::Missing)
    }

    /// The value of `WWW-Authenticate`.
    pub fn challenge(&self, rejection: TokenRejection) -> String {
        let realm = self.realm.replace('\\', "\\\\").replace('"', "\\\"");
        match rejection.code() {
            // RFC 6750 §3.1: a client that has sent no token learns nothing more.
            None => format!("Bearer realm=\"{realm}\""),
            Some(code) => {
                format!("Bearer realm=\"{realm}\", error=\"{code}\", error_description=\"{rejection}\"")
            }
        }
    }
}

impl TokenRejection {
    /// Whether the token has a signature that the issuer has not made.
    pub const fn is_forged(self) -> bool {
        matches!(self, TokenRejection::Invalid(error) if error.is_forged())
    }

    pub const fn status(self) -> Status {
        match self {
            TokenRejection::Missing | TokenRejection::Invalid(_) | TokenRejection::Unusable => {
                Status::UNAUTHORIZED
            }
            TokenRejection::Ambiguous => Status::BAD_REQUEST,
            TokenRejection::Claims => Status::FORBIDDEN,
        }
    }

    const fn code(self) -> Option<&'static str> {
        match self {
            TokenRejection::Missing => None,
            TokenRejection::Ambiguous => Some("invalid_request"),
            TokenRejection::Invalid(_) | TokenRejection::Unusable => Some("invalid_token"),
            TokenRejection::Claims => Some("insufficient_scope"),
        }
    }
}

impl fmt::Display for TokenRejection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenRejection::Missing => out.write_str("there is no token"),
            TokenRejection::Ambiguous => out.write_str("there are several Authorization fields"),
            TokenRejection::Invalid(error) => error.fmt(out),
            TokenRejection::Unusable => out.write_str("a claim of the token has a control character"),
            TokenRejection::Claims => out.write_str("the token lacks a claim that this needs"),
        }
    }
}

/// `None`: the request has other credentials, or none.
fn bearer<'a>(head: &Head<'a>) -> Result<Option<&'a [u8]>, TokenRejection> {
    let mut values = head.values("authorization");
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(TokenRejection::Ambiguous);
    }
    let (scheme, token) = value.split_at_checked(SCHEME.len()).unwrap_or((value, b""));
    Ok(scheme.eq_ignore_ascii_case(SCHEME).then(|| trim_ows(token)))
}

/// The value of the first cookie of this name (RFC 6265 §5.4), without quotes.
fn cookie<'a>(head: &Head<'a>, name: &str) -> Option<&'a [u8]> {
    let pairs = head.values("cookie").flat_map(|value| value.split(|byte| *byte == b';'));
    let mut values = pairs.filter_map(|pair| {
        let value = trim_ows(pair).strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
    });
    values.next()
}

/// The values of a claim as one. `None`: there is none.
fn text(claims: &Claims, name: &str) -> Result<Option<Vec<u8>>, TokenRejection> {
    let value = claims.values(name).join(", ").into_bytes();
    let value = trim_ows(&value).to_vec();
    match value.is_empty() {
        true => Ok(None),
        false if text_len(&value) == value.len() => Ok(Some(value)),
        false => Err(TokenRejection::Unusable),
    }
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    const KEY: &str = include_str!("../../auth/src/jwt/tests/ed.pub");
    const TOKEN: &str = include_str!("../../auth/src/jwt/tests/eddsa.jwt");
    const NOW: i64 = 1_950_000_000;

    fn jwt() -> Jwt {
        Jwt {
            key_file: "ed.pub".into(),
            keys: Some(Keys::parse(KEY.as_bytes()).unwrap()),
            issuer: Some("https://id.example".to_owned()),
            audience: None,
            leeway: 0,
            from: vec![TokenPlace::Header, TokenPlace::Cookie("id".to_owned())],
            claims: Vec::new(),
            fields: Vec::new(),
            user: "sub".to_owned(),
            realm: "a \"b\"".to_owned(),
        }
    }

    /// `NAME=value` of each variable, or the status and the challenge.
    fn verified(jwt: &Jwt, fields: &str) -> String {
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", fields.replace("TOKEN", TOKEN.trim()));
        let mut store = FieldStore::new();
        let (head, _) = parse(request.as_bytes(), &mut store, &Limits::default()).unwrap().unwrap();
        let verify = |token| jwt.verify(token, NOW, |_, _, signature| signature.len() == 64);
        match jwt.token(&head).and_then(verify) {
            Ok(verified) => {
                let shown =
                    verified.variables.iter().map(|(name, value)| format!("{name}={}", value.escape_ascii()));
                shown.collect::<Vec<_>>().join(" ")
            }
            Err(rejection) => format!("{} {}", rejection.status().code(), jwt.challenge(rejection)),
        }
    }

    #[test]
    fn finds_the_token() {
        let realm = "Bearer realm=\"a \\\"b\\\"\"";
        let ann = "AUTH_TYPE=Bearer REMOTE_USER=ann";
        let missing = format!("401 {realm}");
        let malformed =
            format!("401 {realm}, error=\"invalid_token\", error_description=\"the token is malformed\"");
        let several = "there are several Authorization fields";
        let several = format!("400 {realm}, error=\"invalid_request\", error_description=\"{several}\"");
        for (fields, expected) in [
            ("Authorization: Bearer TOKEN\r\n", ann),
            ("authorization: bEARER   TOKEN\r\n", ann),
            ("Cookie: a=b; id=TOKEN\r\n", ann),
            ("Cookie: id=\"TOKEN\"\r\n", ann),
            ("Authorization: Basic YTpi\r\nCookie: id=TOKEN\r\n", ann),
            ("", &missing),
            ("Authorization: Basic YTpi\r\n", &missing),
            ("Authorization: BearerTOKEN\r\n", &missing),
            ("Cookie: aid=TOKEN; id2=TOKEN\r\n", &missing),
            ("Authorization: Bearer x.y\r\nCookie: id=TOKEN\r\n", &malformed),
            ("Authorization: Bearer\r\n", &missing),
            ("Authorization: Bearer TOKEN\r\nAuthorization: Bearer TOKEN\r\n", &several),
        ] {
            assert_eq!(verified(&jwt(), fields), expected, "{fields}");
        }
    }

    #[test]
    fn compares_claims_and_passes_them_on() {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
        };
        let claims = |name: &str, values: &[&str]| {
            vec![(name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect())]
        };
        let fields = pairs(&[("X-Roles", "realm_access.roles"), ("X-None", "email"), ("X-Level", "level")]);
        let all = "AUTH_TYPE=Bearer REMOTE_USER=ann HTTP_X_ROLES=admin, staff HTTP_X_LEVEL=3";
        let request = "Authorization: Bearer TOKEN\r\n";
        let lacks = "403 Bearer realm=\"a \\\"b\\\"\", error=\"insufficient_scope\", \
            error_description=\"the token lacks a claim that this needs\"";
        let other = "401 Bearer realm=\"a \\\"b\\\"\", error=\"invalid_token\", \
            error_description=\"the token is of another issuer\"";
        let base = Jwt { fields, ..jwt() };
        for (jwt, expected) in [
            (base.clone(), all),
            (Jwt { claims: claims("realm_access.roles", &["root", "staff"]), ..base.clone() }, all),
            (Jwt { claims: claims("scope", &["write"]), ..base.clone() }, all),
            (Jwt { claims: claims("scope", &["delete"]), ..base.clone() }, lacks),
            (Jwt { claims: claims("email", &["ann"]), ..base.clone() }, lacks),
            (Jwt { issuer: Some("https://other.example".to_owned()), ..base.clone() }, other),
        ] {
            assert_eq!(verified(&jwt, request), expected);
        }
    }
}
