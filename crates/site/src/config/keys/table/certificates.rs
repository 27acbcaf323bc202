//! The keys of `[certificates]`.

use super::{Chapter, DAY, Key, Kind, Scope, Value, Words, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`[certificates]`",
    intro: "How hosts with `acme` get their certificates. See [Certificates](certificates.md).",
    scopes: &[Scope::Certificates],
    keys: &[
        Key {
            name: "folder",
            kind: Kind::Path,
            default: Words(
                "`certificates` in the folder of `STATE_DIRECTORY`, as systemd sets it; else `/var/lib/taipan/certificates` \
                 for root, and `~/.local/state/taipan/certificates` for others",
            ),
            example: "\"/srv/shared/certificates\"",
            text: "The folder of certificates, keys and the account. Only the user who starts the server may have access \
                   to it. Several servers can share it: then only one of them orders a certificate, and all have it.",
        },
        Key {
            name: "email",
            kind: Kind::Text,
            default: Words("none"),
            example: "\"admin@example.org\"",
            text: "Where the authority can write to.",
        },
        Key {
            name: "authorities",
            kind: Kind::Texts,
            default: Value("[\"https://acme-v02.api.letsencrypt.org/directory\"]"),
            example: "[\"https://acme-v02.api.letsencrypt.org/directory\", \"https://acme.example.net/directory\"]",
            text: "The directories of authorities, at most 8. If one does not issue a certificate, the next one is \
                   tried. With this key you agree to their terms of service.",
        },
        Key {
            name: "challenges",
            kind: Kind::Choices(&["tls-alpn-01", "http-01", "dns-01", "dns-persist-01"]),
            default: Words("`tls-alpn-01` and `http-01`, and `dns-01` with `dns_command`"),
            example: "[\"dns-persist-01\"]",
            text: "How the server proves that it has the names, in the order in which they are tried. `tls-alpn-01` needs \
                   port 443, `http-01` needs port 80. Wildcards need `dns-01` or `dns-persist-01`.",
        },
        Key {
            name: "dns_command",
            kind: Kind::Texts,
            default: Words("none"),
            example: "[\"/usr/local/bin/dns\", \"--zone\", \"example.org\"]",
            text: "The program that sets and removes a DNS record for `dns-01`, with its arguments. Three more are added: \
                   `set` or `unset`, the name of the TXT record, and its value. It runs as the user who serves.",
        },
        Key {
            name: "dns_timeout",
            kind: time(1000, 3600),
            default: Value("\"60s\""),
            example: "\"5m\"",
            text: "How long `dns_command` may take. Then it is killed.",
        },
        Key {
            name: "dns_wait",
            kind: time(0, 3600),
            default: Value("\"10s\""),
            example: "\"2m\"",
            text: "How long it takes until all name servers of the zone have a new record.",
        },
        Key {
            name: "profile",
            kind: Kind::Text,
            default: Words("that of the authority"),
            example: "\"shortlived\"",
            text: "The kind of certificate, of those that the authority offers.",
        },
        Key {
            name: "key",
            kind: Kind::Choice(&["ecdsa-p256", "ecdsa-p384", "rsa-2048", "rsa-4096"]),
            default: Value("\"ecdsa-p256\""),
            example: "\"rsa-2048\"",
            text: "The type of the private key, which is new for each certificate. RSA makes handshakes several times as \
                   expensive.",
        },
        Key {
            name: "eab_key_id",
            kind: Kind::Text,
            default: Words("none"),
            example: "\"kid-1\"",
            text: "The name of an account that you have at the authority (external account binding).",
        },
        Key {
            name: "eab_key_file",
            kind: Kind::Path,
            default: Words("none"),
            example: "\"/etc/taipan/eab.key\"",
            text: "The file with the key of that account in base64url, as the authority has given it to you.",
        },
        Key {
            name: "ca",
            kind: Kind::Path,
            default: Words("`SSL_CERT_FILE`, or the file of the system"),
            example: "\"/etc/ssl/own-ca.pem\"",
            text: "A PEM file with the certificates that the authority's server is verified by, for a private authority.",
        },
        Key {
            name: "timeout",
            kind: time(1000, 600),
            default: Value("\"30s\""),
            example: "\"10s\"",
            text: "How long an authority may take to respond to a request.",
        },
        Key {
            name: "order_timeout",
            kind: time(1000, DAY),
            default: Value("\"5m\""),
            example: "\"15m\"",
            text: "How long an order may take, from its beginning to the certificate. A challenge that the authority has not decided within half of it counts as failed.",
        },
        Key {
            name: "retry",
            kind: time(1000, DAY),
            default: Value("\"5m\""),
            example: "\"1m\"",
            text: "The pause after all authorities and challenges have failed. It doubles with each failure.",
        },
        Key {
            name: "max_retry",
            kind: time(1000, 30 * DAY),
            default: Value("\"1d\""),
            example: "\"6h\"",
            text: "The longest pause between failures.",
        },
    ],
};
