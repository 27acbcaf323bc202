//! The keys of `[tls]`.

use super::{Chapter, DAY, Key, Kind, Scope, Value, Words, count, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`[tls]`",
    intro: "The rules of all TLS handshakes.",
    scopes: &[Scope::Tls],
    keys: &[
        Key {
            name: "versions",
            kind: Kind::Choices(&["1.2", "1.3"]),
            default: Value("[\"1.2\", \"1.3\"]"),
            example: "[\"1.3\"]",
            text: "The versions of TLS. Older ones are not secure, and not supported.",
        },
        Key {
            name: "unknown_name",
            kind: Kind::Choice(&["default", "reject"]),
            default: Value("\"default\""),
            example: "\"reject\"",
            text: "What a client gets that asks for a name which no host and no certificate has, or for none: the \
                   certificate of the default host, or the alert `unrecognized_name`.",
        },
        Key {
            name: "handshake_timeout",
            kind: time(100, 300),
            default: Value("\"10s\""),
            example: "\"5s\"",
            text: "How long a handshake may take. Then the connection is closed.",
        },
        Key {
            name: "handshakes_per_client",
            kind: count(0, 100_000),
            default: Value("0"),
            example: "10",
            text: "Handshakes per second of one client address, over all workers. Further connections are closed before \
                   a handshake. IPv6 addresses count by their first 64 bits. 0 is no limit.",
        },
        Key {
            name: "early_data",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether a client that returns may send a request with its first bytes (0-RTT). An attacker can repeat \
                   such a request, so only safe methods are accepted, without an `Upgrade`, and scripts have the field \
                   `Early-Data: 1` (RFC 8470).",
        },
        Key {
            name: "watch",
            kind: time(0, DAY),
            default: Words("off; a reload reads certificates"),
            example: "\"1m\"",
            text: "How often the files of certificates and keys are compared with those that are served. When they have \
                   changed, the server reloads. 0 is off.",
        },
        Key {
            name: "export_client_certificate",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether scripts and applications by FastCGI and SCGI have the certificate of a client in the variable \
                   `SSL_CLIENT_CERT`, in PEM.",
        },
        Key {
            name: "ciphers",
            kind: Kind::Choices(&["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"]),
            default: Words("all, in the order of the client"),
            example: "[\"chacha20-poly1305\", \"aes-256-gcm\"]",
            text: "The ciphers, in order of preference. Older ones are not secure, and not supported.",
        },
        Key {
            name: "groups",
            kind: Kind::Choices(&["X25519MLKEM768", "X25519", "P-256", "P-384"]),
            default: Value("[\"X25519MLKEM768\", \"X25519\", \"P-256\", \"P-384\"]"),
            example: "[\"X25519\", \"P-256\"]",
            text: "The groups of the key exchange, of which the client chooses. The first is safe from quantum computers, \
                   and browsers prefer it; a build with ring does not have it.",
        },
        Key {
            name: "tickets",
            kind: Kind::Flag,
            default: Value("true"),
            example: "false",
            text: "Whether a client that returns can resume its session, which saves both sides most of the handshake. \
                   The server keeps nothing for it: the client has the session in a ticket that only the server can \
                   read. See [Session tickets](tls.md#session-tickets).",
        },
        Key {
            name: "ticket_rotation",
            kind: time(1000, 3 * DAY),
            default: Value("\"12h\""),
            example: "\"1h\"",
            text: "How long tickets are encrypted with the same key. A ticket is accepted once to twice as long.",
        },
        Key {
            name: "ticket_key_file",
            kind: Kind::Path,
            default: Words("a random secret, which reloads and upgrades keep"),
            example: "\"/etc/taipan/ticket.key\"",
            text: "A file with 32 to 4096 random bytes, from which the keys of tickets are derived. Servers with the \
                   same file, the same `ticket_rotation` and the right time accept the tickets of one another. Only the \
                   master reads it.",
        },
        Key {
            name: "signer",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether the private keys of certificates are in a process of their own, which signs handshakes for the \
                   processes that serve. A full handshake then costs about an eighth more with an ECDSA key, and a \
                   fifteenth with an RSA key. See [Private keys](tls.md#private-keys).",
        },
        Key {
            name: "kernel",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether the kernel encrypts large files that are sent by HTTP/1.1 over TLS 1.3, so that they are not \
                   copied. A kernel without TLS is named in the error log, and the server encrypts. See [TLS of the \
                   kernel](tls.md#tls-of-the-kernel).",
        },
    ],
};
