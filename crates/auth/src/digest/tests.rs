use super::*;

const KEY: [u8; 32] = [3; 32];

/// Both examples of RFC 7616 §3.9.1, with a place for the algorithm and the response.
const EXAMPLE: &str = r#"username="Mufasa",
       realm="http-auth@example.org",
       uri="/dir/index.html",
       algorithm=ALGORITHM,
       nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
       nc=00000001,
       cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
       qop=auth,
       response="RESPONSE",
       opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS""#;

const REALM: &str = "http-auth@example.org";

fn example(algorithm: &str, response: &str) -> String {
    EXAMPLE.replace("ALGORITHM", algorithm).replace("RESPONSE", response).replace('\n', "")
}

fn users() -> DigestUsers {
    let mut users = DigestUsers::default();
    for (name, password) in [("Mufasa", "Circle of Life"), ("J\u{e4}s\u{f8}n Doe", "Secret, or not?")] {
        for algorithm in Algorithm::ALL {
            let secret = Ha1::new(algorithm, name, REALM, password.as_bytes());
            users.insert(1, name, REALM, algorithm, secret).expect("it is new");
        }
    }
    users
}

fn expected() -> Expected<'static> {
    Expected { method: b"GET", target: b"/dir/index.html", realm: REALM, key: &KEY, now: 1000, lifetime: 300 }
}

/// What a client sends who has this nonce.
fn credentials(algorithm: Algorithm, user: &str, nonce: &str, password: &str) -> String {
    let a1 = Ha1::new(algorithm, "Mufasa", REALM, password.as_bytes());
    let a2 = algorithm.hash(&[b"GET", b"/dir/index.html"]);
    let parts: [&[u8]; 6] =
        [a1.as_str().as_bytes(), nonce.as_bytes(), b"0000000a", b"c\"n", b"auth", a2.as_bytes()];
    let response = algorithm.hash(&parts);
    let algorithm = algorithm.name();
    format!(
        "{user}, Realm=\"{REALM}\" , uri=\"/dir/index.html\",algorithm={algorithm}, nonce=\"{nonce}\",\
         nc=\"0000000A\", cnonce=\"c\\\"n\", qop=\"auth\", response={response}"
    )
}

#[test]
fn computes_the_responses_of_the_rfc() {
    let table = [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ];
    for (algorithm, response) in table {
        let digest = Digest::parse(example(algorithm, response).as_bytes()).expect("credentials");
        // The nonce is another server's.
        assert_eq!(digest.verify(&users(), &expected()), Err(DigestError::Stale), "{algorithm}");
        let other = Expected { method: b"HEAD", ..expected() };
        assert_eq!(digest.verify(&users(), &other), Err(DigestError::Wrong));
        let other = Expected { target: b"/dir/index.html?", ..expected() };
        assert_eq!(digest.verify(&users(), &other), Err(DigestError::Uri));
        let other = Expected { realm: "other", ..expected() };
        assert_eq!(digest.verify(&users(), &other), Err(DigestError::Realm));
        assert_eq!(digest.verify(&DigestUsers::default(), &expected()), Err(DigestError::Wrong));
    }
    let without = example("MD5", table[0].1).replace("algorithm=MD5,", "");
    let digest = Digest::parse(without.as_bytes()).expect("credentials");
    assert_eq!(digest.verify(&users(), &expected()), Err(DigestError::Stale));
}

#[test]
fn accepts_the_right_password_with_a_fresh_nonce() {
    let nonce = Nonce { time: 900, unique: 5 };
    let users = users();
    for algorithm in Algorithm::ALL {
        let hash = algorithm.hash(&[b"Mufasa", REALM.as_bytes()]);
        let spellings = [
            "username=\"Mufasa\"".to_owned(),
            "username=\"Muf\\asa\", userhash=false".to_owned(),
            "username*=utf-8''Mufas%61".to_owned(),
            format!("username=\"{hash}\", userhash=true"),
        ];
        for user in spellings {
            let text = credentials(algorithm, &user, &nonce.sign(&KEY), "Circle of Life");
            let digest = Digest::parse(text.as_bytes()).expect("credentials");
            let passed = digest.verify(&users, &expected()).expect("it is right");
            assert_eq!((passed.user, passed.nonce, passed.count), ("Mufasa", nonce, 10), "{user}");
            assert!(passed.info.ends_with("\", qop=auth, cnonce=\"c\\\"n\", nc=0000000a"), "{}", passed.info);
            for now in [899, 1201] {
                let later = Expected { now, ..expected() };
                assert_eq!(digest.verify(&users, &later), Err(DigestError::Stale), "{now}");
            }
            let text = credentials(algorithm, &user, &nonce.sign(&KEY), "Circle of life");
            let digest = Digest::parse(text.as_bytes()).expect("credentials");
            assert_eq!(digest.verify(&users, &expected()), Err(DigestError::Wrong));
        }
        let text = credentials(algorithm, "username=\"Nala\"", &nonce.sign(&KEY), "Circle of Life");
        let digest = Digest::parse(text.as_bytes()).expect("credentials");
        assert_eq!(digest.verify(&users, &expected()), Err(DigestError::Wrong));
    }
}

#[test]
fn reads_names_that_are_not_ascii() {
    let table = [
        (r#"username="J\u{e4}s""#.replace(r"\u{e4}", "\u{e4}"), "J\u{e4}s"),
        ("username*=UTF-8''J%C3%A4s%C3%B8n%20Doe".into(), "J\u{e4}s\u{f8}n Doe"),
        ("username*=UTF-8'en'a".into(), "a"),
    ];
    for (user, expected) in table {
        let text = credentials(Algorithm::Md5, &user, "x", "y");
        let digest = Digest::parse(text.as_bytes()).expect("credentials");
        assert_eq!(digest.user, UserName::Plain(expected.into()));
    }
}

#[test]
fn refuses_malformed_credentials() {
    let whole = example("MD5", "8ca523f5e9506fed4657c9700eebdbec");
    let without = |part: &str, other: &str| {
        assert!(whole.contains(part), "{part}");
        whole.replace(part, other)
    };
    let table = [
        (String::new(), DigestError::Missing("realm")),
        (without("nc=00000001,", ""), DigestError::Missing("nc")),
        (without("qop=auth,", ""), DigestError::Missing("qop")),
        (without("username=", "other="), DigestError::Missing("username")),
        (without("nc=00000001", "nc=1"), DigestError::Malformed),
        (without("nc=00000001", "nc=+0000001"), DigestError::Malformed),
        (without("nc=00000001", "nc=0000000g"), DigestError::Malformed),
        (without("qop=auth", "qop=auth-int"), DigestError::Unsupported("qop")),
        (without("=MD5", "=MD5-sess"), DigestError::Unsupported("algorithm")),
        (without("=MD5", "=SHA-512-256"), DigestError::Unsupported("algorithm")),
        (without("=MD5", "="), DigestError::Malformed),
        (without("nc=", "uri=a, nc="), DigestError::Malformed),
        (without("username=", "username*=UTF-8''x, username="), DigestError::Malformed),
        (without("username=\"Mufasa\"", "username*=UTF-8''%4"), DigestError::Malformed),
        (without("username=\"Mufasa\"", "username*=UTF-8''%zz"), DigestError::Malformed),
        (without("username=\"Mufasa\"", "username*=x"), DigestError::Malformed),
        (without("username=\"Mufasa\"", "username*=UTF-8''%ff"), DigestError::NotUtf8),
        (without("username=\"Mufasa\"", "username*=iso-8859-1''a"), DigestError::NotUtf8),
        (without("username=\"Mufasa\"", "username*=UTF-8''a, userhash=true"), DigestError::Malformed),
        (without("username=", "userhash=perhaps, username="), DigestError::Malformed),
        (without("realm=", "realm "), DigestError::Malformed),
        (whole.trim_end_matches('"').to_owned(), DigestError::Malformed),
        (format!("{whole} x=y"), DigestError::Malformed),
        ((0..40).map(|at| format!("a{at}=b,")).collect(), DigestError::Malformed),
        (format!("{whole},x=\"{}\"", "y".repeat(MAX_CREDENTIALS)), DigestError::TooLong),
    ];
    for (text, expected) in table {
        assert_eq!(Digest::parse(text.as_bytes()), Err(expected), "{text}");
    }
    // The response is the last that is needed.
    let needed = whole.find("opaque").expect("a parameter").saturating_sub(", ".len());
    for end in 0..needed - "       ".len() {
        assert!(Digest::parse(&whole.as_bytes()[..end]).is_err(), "{}", &whole[..end]);
    }
}

#[test]
fn asks_with_the_algorithm_and_says_what_is_stale() {
    assert_eq!(
        challenge("a \"b\"", Algorithm::Sha256, "n", Reason::Wrong),
        r#"Digest realm="a \"b\"", qop="auth", algorithm=SHA-256, nonce="n", charset=UTF-8, userhash=true"#
    );
    assert!(challenge("a", Algorithm::Md5, "n", Reason::Stale).ends_with("userhash=true, stale=true"));
}
