//! The keys of `jwt`.

use super::{Chapter, Key, Kind, Required, Scope, Value, Words, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`jwt`",
    intro: "The tokens that a route asks for. See [Access](access.md#tokens).",
    scopes: &[Scope::Jwt],
    keys: &[
        Key {
            name: "keys",
            kind: Kind::Path,
            default: Required,
            example: "\"/etc/taipan/keys.json\"",
            text: "The public keys of the issuer: a JWK set, or PEM. RSA keys verify RS256, P-256 keys ES256, and Ed25519 \
                   keys EdDSA; no key verifies anything else. The server looks at the file every two seconds.",
        },
        Key {
            name: "issuer",
            kind: Kind::Text,
            default: Words("any"),
            example: "\"https://login.example.org\"",
            text: "What the claim `iss` must be.",
        },
        Key {
            name: "audience",
            kind: Kind::Text,
            default: Words("any"),
            example: "\"files\"",
            text: "What the claim `aud` must have.",
        },
        Key {
            name: "claims",
            kind: Kind::Pairs("a table of `claim = value`, or `claim = [values]`"),
            default: Words("none"),
            example: "{ \"realm_access.roles\" = [\"admin\", \"staff\"], email_verified = \"true\" }",
            text: "Claims of which a token must have each, with one of the values. A claim within another one is named \
                   with a dot. Of `scope`, each word counts. Without them the response is 403.",
        },
        Key {
            name: "fields",
            kind: Kind::Pairs("a table of `field = claim`"),
            default: Words("none"),
            example: "{ X-User = \"sub\", X-Roles = \"realm_access.roles\" }",
            text: "Claims that scripts and applications receive as fields of the request. What a client itself sends \
                   under these names, in any spelling, is removed from every request of the site.",
        },
        Key {
            name: "user",
            kind: Kind::Text,
            default: Value("\"sub\""),
            example: "\"preferred_username\"",
            text: "The claim that names the user, for `REMOTE_USER` and the access log.",
        },
        Key {
            name: "from",
            kind: Kind::Texts,
            default: Value("\"header\""),
            example: "[\"header\", \"cookie:session\"]",
            text: "Where requests have their token: `header` for `Authorization: Bearer TOKEN`, or `cookie:` and the name \
                   of a cookie. Of several places, the first that has one counts.",
        },
        Key {
            name: "leeway",
            kind: time(0, 3600),
            default: Value("\"1m\""),
            example: "\"10s\"",
            text: "By how much the clocks of the issuer and of the server may differ.",
        },
        Key {
            name: "realm",
            kind: Kind::Text,
            default: Value("\"tokens\""),
            example: "\"the archive\"",
            text: "What the server tells clients without a token that they need one for.",
        },
    ],
};
