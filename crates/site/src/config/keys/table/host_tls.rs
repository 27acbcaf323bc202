//! The keys of the certificates of a host, and of its clients.

use super::{Chapter, DAY, Key, Kind, Scope, Value, Words, time};

pub const CHAPTER: Chapter = Chapter {
    title: "TLS of hosts",
    intro: "At the top level for the default host, and in each `[[host]]`, which inherits them. See [TLS](tls.md).",
    scopes: &[Scope::Top, Scope::Host],
    keys: &[
        Key {
            name: "certificate",
            kind: Kind::Texts,
            default: Words("that of the top level"),
            example: "\"/etc/letsencrypt/live/example.org/fullchain.pem\"",
            text: "The certificate of the host, for addresses that are marked `tls`: a PEM file with the chain, the \
                   certificate of the host first. Several files are several certificates, of which a client gets the \
                   first that it can use, with ECDSA before RSA. A folder is all certificates in it: files with the \
                   ending `.pem` or `.crt`, and folders that have a `fullchain.pem`, as certbot's `live` has. A client \
                   gets one that has the name it asks for.",
        },
        Key {
            name: "certificate_key",
            kind: Kind::Texts,
            default: Words("in the file of the certificate, or beside it"),
            example: "\"/etc/letsencrypt/live/example.org/privkey.pem\"",
            text: "The private key of each `certificate`, in the same order: a PEM file without a password. Without this \
                   key, it is in the same file, or beside it: `privkey.pem`, or the certificate's name with the ending \
                   `.key`. The server reads it before it gives up root.",
        },
        Key {
            name: "acme",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether the server gets a certificate for the `names` of the host by ACME (RFC 8555), by default from \
                   Let's Encrypt, and renews it. Until it has one, it serves a certificate that it has made itself, which \
                   clients do not trust. See [Certificates](certificates.md).",
        },
        Key {
            name: "client_certificates",
            kind: Kind::Choice(&["off", "optional", "required"]),
            default: Value("\"off\""),
            example: "\"optional\"",
            text: "Whether clients have to show a certificate that an authority of `client_ca` has issued. With \
                   `optional`, a client may have none. With `required`, the handshake fails without one, and requests \
                   without TLS are redirected. Scripts have the result in `SSL_CLIENT_*`: see [Certificates of \
                   clients](tls.md#certificates-of-clients).",
        },
        Key {
            name: "client_ca",
            kind: Kind::Texts,
            default: Words("none"),
            example: "\"/etc/ssl/clients.pem\"",
            text: "PEM files with the certificates of the authorities that issue those of clients.",
        },
        Key {
            name: "client_crl",
            kind: Kind::Texts,
            default: Words("none: no certificate is revoked"),
            example: "\"/etc/ssl/clients.crl\"",
            text: "PEM files with the lists of revoked certificates. With this key, each authority needs a list, and one \
                   that has expired rejects all of its certificates.",
        },
        Key {
            name: "https_redirect",
            kind: Kind::Flag,
            default: Words("true with `hsts`, or if certificates of clients are required; false otherwise"),
            example: "true",
            text: "Whether a request that has come without TLS is redirected to the same URL with `https`: GET and HEAD \
                   with 301, others with 308. Paths beneath `/.well-known/acme-challenge/` are served. A request that a \
                   trusted proxy reports as `https` is not redirected.",
        },
        Key {
            name: "hsts",
            kind: time(0, 100 * 365 * DAY),
            default: Words("none"),
            example: "\"1y\"",
            text: "For how long clients use the host only by TLS: the field `Strict-Transport-Security`. A client that \
                   has seen it rejects the host without TLS, or with a certificate that is not valid, for this time. \
                   Begin with `5m`. `0` makes clients forget it. A host with `https_redirect = false` does not \
                   inherit it.",
        },
        Key {
            name: "hsts_subdomains",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether `hsts` holds for every name below that of the host, also those that other servers have.",
        },
        Key {
            name: "hsts_preload",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether browsers may have the name in their built-in lists, which is hard to undo. It needs \
                   `hsts_subdomains` and `hsts` of a year.",
        },
    ],
};
