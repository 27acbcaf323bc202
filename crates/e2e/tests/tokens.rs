//! Tokens without which no request passes: which ones do, what clients without a right one are told, and what scripts
//! and applications learn.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use e2e::{Response, Rows, Server, Site, TIMEOUT, path_of, wait_until};
use serde_json::{Value, json};

const APP: &str = include_str!("programs/http_app.py");

/// An issuer of tokens, with a key of its own.
struct Issuer {
    key: EcdsaKeyPair,
    id: &'static str,
}

impl Issuer {
    fn new(id: &'static str) -> Issuer {
        Issuer {
            key: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key can be made"),
            id,
        }
    }

    /// The JWK set.
    fn keys(&self) -> String {
        let point = self.key.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
        json!({"keys": [{"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": self.id, "use": "sig"}]})
            .to_string()
    }

    fn token(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": self.id});
        let parts = [&header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string()));
        let message = parts.join(".");
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes()).expect("the key signs");
        format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Claims of ann that expire after so many seconds, with changes.
fn claims(seconds: i64, changes: &[(&str, Value)]) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set").as_secs() as i64;
    let mut claims = json!({"iss": "https://id.example", "sub": "ann", "aud": "files", "exp": now + seconds, "role": "staff"});
    for (name, value) in changes {
        claims[*name] = value.clone();
    }
    claims
}

fn site(issuer: &Issuer) -> Site {
    let site = Site::new()
        .file("open.txt", "for all")
        .file("secret/s.txt", "secret")
        .file("secret/index.html", "the index")
        .file("admin/a.txt", "admin")
        .file("cookie/c.txt", "cookie")
        .script(
            "secret/env.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s|%s|%s|%s|%s' \"$AUTH_TYPE\" \"$REMOTE_USER\" \
             \"$HTTP_X_USER\" \"$HTTP_X_ROLES\" \"$HTTP_AUTHORIZATION\"\n",
        )
        .file("secret/lost.html", "the page of an error")
        .file("shown/b.pdf", "for holders")
        .file("shown/b.txt", "for all")
        .script("inside.cgi", "#!/bin/sh\nprintf 'Location: /secret/s.txt\\n\\n'\n")
        .file_beside_root("keys.json", issuer.keys())
        .file_beside_root("app.py", APP);
    let home = site.home().display().to_string();
    let program =
        format!("command = [\"{}\", \"-B\", \"{home}/app.py\"]\nfolder = \"{home}\"", path_of("python3"));
    site.config(&format!(
        "workers = 1\nrewrites = {{ \"/by-rewrite\" = \"/secret/s.txt\" }}\n\
         [[route]]\npath = \"/secret/\"\n\
         jwt = {{ keys = \"keys.json\", issuer = \"https://id.example\", audience = \"files\", leeway = \"0s\", \
         fields = {{ X-User = \"sub\", X-Roles = \"role\" }} }}\n\
         [[route]]\npath = \"*.cgi\"\ncgi = true\n\
         [[route]]\npath = \"/shown/\"\nlisting = true\nerror_pages = {{ 404 = \"/secret/lost.html\" }}\n\
         [[route]]\npath = \"*.pdf\"\njwt = {{ keys = \"keys.json\" }}\n\
         [[route]]\npath = \"/falls/\"\nfallback = \"/secret/s.txt\"\n\
         [[route]]\npath = \"/admin/\"\njwt = {{ keys = \"keys.json\", claims = {{ role = [\"admin\", \"root\"] }} }}\n\
         [[route]]\npath = \"/cookie/\"\njwt = {{ keys = \"keys.json\", from = \"cookie:session\" }}\n\
         [[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         jwt = {{ keys = \"keys.json\", fields = {{ X-User = \"sub\" }} }}\n\
         [[route]]\npath = \"/app/open/\"\napplication = \"app\"\njwt = false\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\nconcurrent = 8\n{program}\n\
         [log]\naccess = \"stdout\"\n"
    ))
}

fn get(server: &Server, path: &str, fields: &str) -> Response {
    server.request(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn asks_for_a_token_wherever_a_path_leads() {
    let issuer = Issuer::new("one");
    let server = site(&issuer).every_protocol().start();
    let token = bearer(&issuer.token(&claims(600, &[])));
    let mut rows = Rows::new();
    // Twice: a cached file needs a token like any other.
    for _ in 0..2 {
        for (path, expected) in [
            ("/secret/s.txt", "200 secret"),
            ("/secret/", "200 the index"),
            ("/by-rewrite", "200 secret"),
            ("/falls/x", "200 secret"),
            ("/inside.cgi", "200 secret"),
            ("/secret/env.cgi", "200 Bearer|ann|ann|staff|"),
        ] {
            let response = get(&server, path, &token);
            rows.check(path, format!("{} {}", response.status, response.text()).as_str(), expected);
            let response = get(&server, path, "");
            rows.check(format!("{path} without"), response.status, 401);
            rows.check(path, response.values("WWW-Authenticate"), vec!["Bearer realm=\"tokens\""]);
        }
        rows.check("open", get(&server, "/open.txt", "").status, 200);
    }
    // What needs a token is neither listed nor the page of an error without it.
    let listing = get(&server, "/shown/", "").text();
    rows.holds("the listing", &listing, listing.contains("b.txt") && !listing.contains("b.pdf"));
    let lost = get(&server, "/shown/none", "");
    rows.check("an error page", (lost.status, lost.text().contains("the page of an error")), (404, false));
    let line = server.wait_for_output(" - ann [", TIMEOUT);
    rows.holds("the log", "names the user", line.contains("/secret/s.txt"));
}

#[test]
fn a_glob_does_not_do_without_the_token_of_its_folder() {
    let issuer = Issuer::new("one");
    let admin =
        "[[route]]\npath = \"/admin/\"\njwt = { keys = \"keys.json\", claims = { role = \"admin\" } }\n";
    let staff = bearer(&issuer.token(&claims(600, &[])));
    let chief = bearer(&issuer.token(&claims(600, &[("role", json!("admin"))])));
    let guest = bearer(&issuer.token(&claims(600, &[("role", json!("admin")), ("aud", json!("games"))])));
    let mut rows = Rows::new();
    // Without a token, of staff, of an admin, and of one for another audience.
    for (glob, expected) in [
        ("jwt = false", [401, 403, 200, 200]),
        ("jwt = { keys = \"keys.json\", claims = { role = \"staff\" } }", [401, 403, 403, 403]),
        ("jwt = { keys = \"keys.json\", audience = \"files\" }", [401, 403, 200, 401]),
    ] {
        let site = Site::new().file("admin/a.txt", "admin").file_beside_root("keys.json", issuer.keys());
        let server =
            site.config(&format!("{admin}[[route]]\npath = \"*.txt\"\n{glob}\n")).every_protocol().start();
        for (token, expected) in ["", &staff, &chief, &guest].into_iter().zip(expected) {
            rows.check(format!("{glob} {token}"), get(&server, "/admin/a.txt", token).status, expected);
        }
    }
}

#[test]
fn only_a_right_token_passes() {
    let (issuer, other) = (Issuer::new("one"), Issuer::new("one"));
    let server = site(&issuer).every_protocol().start();
    let good = claims(600, &[]);
    let unsigned =
        |token: String| token.rsplit_once('.').map(|(message, _)| format!("{message}.")).unwrap_or_default();
    let mut rows = Rows::new();
    for (what, token, expected) in [
        ("a good one", issuer.token(&good), "200 -"),
        ("of another key", other.token(&good), "401 the signature of the token is of none of the keys"),
        ("expired", issuer.token(&claims(-1, &[])), "401 the token has expired"),
        (
            "without an end",
            issuer.token(&claims(9, &[("exp", Value::Null)])),
            "401 the token has no exp, or not in the right form",
        ),
        (
            "of another issuer",
            issuer.token(&claims(9, &[("iss", json!("https://evil"))])),
            "401 the token is of another issuer",
        ),
        (
            "for others",
            issuer.token(&claims(9, &[("aud", json!(["mail"]))])),
            "401 the token is for another audience",
        ),
        ("for several", issuer.token(&claims(9, &[("aud", json!(["mail", "files"]))])), "200 -"),
        (
            "not yet",
            issuer.token(&claims(9, &[("nbf", json!(9_999_999_999_u64))])),
            "401 the token is not valid yet",
        ),
        ("unsigned", unsigned(issuer.token(&good)), "401 the signature of the token is of none of the keys"),
        (
            "of no algorithm",
            [json!({"alg": "none"}).to_string(), good.to_string(), String::new()]
                .map(|part| BASE64_URL_SAFE_NO_PAD.encode(part))
                .join("."),
            "401 the token is not signed by RS256, ES256 or EdDSA",
        ),
        (
            "with a break",
            issuer.token(&claims(9, &[("sub", json!("ann\r\nX-A: b"))])),
            "401 a claim of the token has a control character",
        ),
        ("garbage", "x".to_owned(), "401 the token is malformed"),
    ] {
        let response = get(&server, "/secret/s.txt", &bearer(&token));
        let challenge = response.field("WWW-Authenticate").unwrap_or("-");
        let why =
            challenge.split("error_description=\"").nth(1).map_or(challenge, |why| why.trim_end_matches('"'));
        rows.check(what, format!("{} {why}", response.status).as_str(), expected);
        rows.holds(
            what,
            "is called invalid",
            response.status == 200 || challenge.contains("error=\"invalid_token\""),
        );
    }
    let denied = get(&server, "/admin/a.txt", &bearer(&issuer.token(&good)));
    rows.check("a missing claim", denied.status, 403);
    let challenge = denied.field("WWW-Authenticate").unwrap_or_default().to_owned();
    rows.holds("a missing claim", "is called so", challenge.contains("error=\"insufficient_scope\""));
    let root = issuer.token(&claims(9, &[("role", json!(["user", "root"]))]));
    rows.check("one of several values", get(&server, "/admin/a.txt", &bearer(&root)).status, 200);
    let twice = bearer(&root).repeat(2);
    rows.check("two fields", get(&server, "/secret/s.txt", &twice).status, 400);
    let token = issuer.token(&good);
    let cookie = format!("Cookie: a=b; session={token}\r\n");
    rows.check("by a cookie", get(&server, "/cookie/c.txt", &cookie).text().as_str(), "cookie");
    rows.check(
        "another cookie",
        get(&server, "/cookie/c.txt", &cookie.replace("session", "sessions")).status,
        401,
    );
    rows.check("a field in place of the cookie", get(&server, "/cookie/c.txt", &bearer(&token)).status, 401);
}

#[test]
fn no_client_forges_what_a_token_says() {
    let issuer = Issuer::new("one");
    let server = site(&issuer).start();
    let token = bearer(&issuer.token(&claims(600, &[("role", Value::Null)])));
    let forged = "X-User: root\r\nX_User: root\r\nx-user: root\r\nX-Roles: admin\r\nX_ROLES: admin\r\n";
    let mut rows = Rows::new();
    let found = get(&server, "/secret/env.cgi", &format!("{forged}{token}")).text();
    rows.check("a script", found.as_str(), "Bearer|ann|ann||");
    for (path, fields, expected) in [
        ("/app/asked", format!("{forged}{token}"), vec!["X-User: ann"]),
        ("/app/open/asked", forged.to_owned(), vec![]),
    ] {
        let asked: Value = serde_json::from_slice(&get(&server, path, &fields).body).expect("it is JSON");
        let fields = asked["fields"].as_array().into_iter().flatten();
        let named = fields.filter_map(|pair| Some((pair[0].as_str()?, pair[1].as_str()?)));
        let of_users = named.filter(|(name, _)| {
            let name = name.to_ascii_lowercase().replace('_', "-");
            name == "x-user" || name == "x-roles"
        });
        let found: Vec<String> = of_users.map(|(name, value)| format!("{name}: {value}")).collect();
        rows.check(path, found, expected.into_iter().map(str::to_owned).collect::<Vec<_>>());
    }
}

#[test]
fn other_keys_count_without_a_reload() {
    let (issuer, next) = (Issuer::new("one"), Issuer::new("two"));
    let server = site(&issuer).start();
    let [old, new] = [&issuer, &next].map(|issuer| bearer(&issuer.token(&claims(600, &[]))));
    let statuses = || [&old, &new].map(|token| get(&server, "/secret/s.txt", token).status);
    assert_eq!(statuses(), [200, 401]);
    server.files().file("keys.json", next.keys());
    assert!(wait_until(TIMEOUT, || statuses() == [401, 200]), "{:?}", statuses());
    server.files().file("keys.json", "no keys");
    server.wait_for_line("keys.json: the file is neither PEM", TIMEOUT);
    assert_eq!(statuses(), [401, 200]);
}

#[test]
fn a_client_with_forged_tokens_has_to_wait() {
    let (issuer, other) = (Issuer::new("one"), Issuer::new("one"));
    let server = site(&issuer).start();
    let (good, forged) = (bearer(&issuer.token(&claims(600, &[]))), bearer(&other.token(&claims(600, &[]))));
    let mut rows = Rows::new();
    rows.check("a right one", get(&server, "/secret/s.txt", &good).status, 200);
    for changes in [("exp", json!(1)), ("aud", json!("mail")), ("iss", json!("https://evil"))] {
        let own = bearer(&issuer.token(&claims(600, std::slice::from_ref(&changes))));
        for _ in 0..8 {
            rows.check(changes.0, get(&server, "/secret/s.txt", &own).status, 401);
        }
    }
    for number in 1..=5 {
        rows.check(format!("forged {number}"), get(&server, "/secret/s.txt", &forged).status, 401);
    }
    // Each wait is twice as long as the one before, so that one of them has not ended.
    let mut later = (0..12).map(|_| get(&server, "/secret/s.txt", &forged));
    let limited = later.find(|response| response.status != 401);
    rows.check("then", limited.as_ref().map(|response| response.status), Some(429));
    let after = limited.as_ref().and_then(|response| response.field("Retry-After"));
    rows.holds(
        "then",
        "says when",
        after.and_then(|after| after.parse().ok()).is_some_and(|after: u32| after > 0),
    );
    rows.check("a right one that is known", get(&server, "/secret/s.txt", &good).status, 200);
    rows.check("none", get(&server, "/secret/s.txt", "").status, 401);
    rows.check("what needs none", get(&server, "/open.txt", &forged).status, 200);
    assert!(server.stats()["all"]["wrong_tokens"].as_u64() >= Some(6));
}

#[test]
fn a_remembered_token_ends_in_time() {
    let issuer = Issuer::new("one");
    let server = site(&issuer).start();
    let token = bearer(&issuer.token(&claims(3, &[])));
    let status = || get(&server, "/secret/s.txt", &token).status;
    let mut seen = vec![status()];
    assert!(wait_until(TIMEOUT, || {
        seen.push(status());
        seen.last() == Some(&401)
    }));
    seen.dedup();
    assert!(seen == [200, 401] || seen == [401], "{seen:?}");
}

#[test]
fn a_stored_response_is_not_another_user_s() {
    let issuer = Issuer::new("one");
    let site = Site::new().file_beside_root("keys.json", issuer.keys()).script(
        "x.cgi",
        "#!/bin/sh\nprintf 'Cache-Control: max-age=60%s\\nContent-Type: text/plain\\n\\n%s' \"$QUERY_STRING\" \
         \"$REMOTE_USER\"\n",
    );
    let server = site
        .config(
            "workers = 1\n[[route]]\npath = \"*.cgi\"\ncgi = true\nresponse_cache = true\n\
             response_cache_cookies = \"ignored\"\njwt = { keys = \"keys.json\", from = [\"header\", \"cookie:id\"] }\n",
        )
        .start();
    let token = |user: &str| issuer.token(&claims(600, &[("sub", json!(user))]));
    let (ann, bob) = (token("ann"), token("bob"));
    let mut rows = Rows::new();
    for (kind, of) in [
        ("a field", (|token: &str| format!("Authorization: Bearer {token}\r\n")) as fn(&str) -> String),
        ("a cookie", |token: &str| format!("Cookie: id={token}\r\n")),
    ] {
        for _ in 0..3 {
            for (user, token) in [("ann", &ann), ("bob", &bob)] {
                let found = get(&server, "/x.cgi", &of(token));
                rows.check(format!("{kind}, private: {user}"), found.text().as_str(), user);
            }
            rows.check(format!("{kind}, without"), get(&server, "/x.cgi", "").status, 401);
        }
    }
    // The response says that it is for all users. It still needs a token.
    rows.check("public: ann", get(&server, "/x.cgi?,public", &bearer(&ann)).text().as_str(), "ann");
    rows.check("public: bob", get(&server, "/x.cgi?,public", &bearer(&bob)).text().as_str(), "ann");
    rows.check("public: without", get(&server, "/x.cgi?,public", "").status, 401);
    rows.check("public: forged", get(&server, "/x.cgi?,public", &bearer("a.b.c")).status, 401);
}
