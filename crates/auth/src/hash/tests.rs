use super::*;

/// Hashes of other programs, each with its password: of the argon2 reference, libxcrypt, OpenSSL, Apache's htpasswd.
const HASHES: &[(Kind, &str, &str)] = &[
    (
        Kind::Argon2id,
        "password",
        "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    ),
    (
        Kind::Argon2id,
        "password",
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
    ),
    (
        Kind::Argon2id,
        "password",
        "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc",
    ),
    (
        Kind::Yescrypt,
        "correct horse",
        "$y$j9T$LdJMENpBABJJ3hIHjB1Bi.$CbmXE/O/0bCHlsAzIaBSSe6Q31ZVeM4OxkjSOnAQ3C6",
    ),
    (Kind::Yescrypt, "x", "$y$j75$$F6x4/3a6JxiQtidq1fi5YpRHXxWElSlk9y0PXcIxPm2"),
    (Kind::Bcrypt, "pw", "$2y$04$5IQDC18TPeKpiXmG95G4LOt9swV1LHspRGJxKhknEX4EoyPMXysqa"),
    (Kind::Bcrypt, "U*U", "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"),
    (Kind::Bcrypt, "", "$2a$06$DCq7YPn5Rq63x1Lad4cll.TV4S6ytwfsfvkgY8jIucDrjc8deX1s."),
    // The salt has bits behind its last byte.
    (Kind::Bcrypt, "U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC/E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"),
    (
        Kind::Sha512Crypt,
        "Hello world!",
        "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
    ),
    (
        Kind::Sha512Crypt,
        "Hello world!",
        "$6$rounds=1400$anotherlongsalts$5FGyu8c4BZDX4wJgs0Un26YOw2XibT5eTkHF1I1aP3QqStoJI9BHD2YPJYsAjEePVGUyBjdZxcNqMWlrrbIOC.",
    ),
    (
        Kind::Sha512Crypt,
        "",
        "$6$rounds=1000$$NPMepfN3/Cv.LPoa7suAzCVH3BhfhhB2wHuwY51WjZgqg.e601K6RWCJ7AHYXHZcp4ilHQ0xlpG1yRxSYX3TP/",
    ),
    (Kind::Sha256Crypt, "Hello world!", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
    (Kind::Apr1, "pässword", "$apr1$abcdefgh$rRdIxwY5XRHT4TMtBPZn.0"),
    (Kind::Md5Crypt, "x", "$1$ab$e2KlfqG5YBMTjSz7XF.Eu1"),
    (Kind::Md5Crypt, "", "$1$ab$rn6aQS/o7141mj179E/zA."),
    (Kind::Sha1, "pw", "{SHA}GpHWL3ymc5liWkNopqtdSjuqYHM="),
    (Kind::SaltedSha1, "pw", "{SSHA}K/qCHdTzr1rftXNEV4Ob7XsySBlzYWx0"),
];

fn hash(field: &str) -> Hash {
    Hash::parse(field.as_bytes(), PlainText::Refuse).unwrap_or_else(|error| panic!("{field}: {error}"))
}

#[test]
fn accepts_the_password_that_other_programs_hashed_and_no_other() {
    for (kind, password, field) in HASHES {
        let hash = hash(field);
        assert_eq!(hash.kind(), *kind);
        assert!(hash.verify(password.as_bytes()), "{field}");
        for wrong in [format!("{password} "), password.to_uppercase() + "x", "pw2".into()] {
            assert!(!hash.verify(wrong.as_bytes()), "{field} {wrong}");
        }
    }
}

#[test]
fn long_passwords_count_as_far_as_the_kind_says() {
    let x = "x".repeat(300);
    let bcrypt = hash("$2y$04$CCCCCCCCCCCCCCCCCCCCC.ug0A3dTXhy5U.dFjx/qguZ8I4CB77BC");
    assert!(bcrypt.verify(&x.as_bytes()[..72]) && bcrypt.verify(x.as_bytes()));
    assert!(!bcrypt.verify(&x.as_bytes()[..71]));
    let sha = hash("$5$abcdefghijklmnop$lRnJ/PPQQvOnpoB0o5mpEKYg0kMX3VZ6lQjNlwCGOt7");
    assert!(sha.verify(x.as_bytes()) && !sha.verify(&x.as_bytes()[..299]));
    let apr1 = hash("$apr1$a$3RjUhk3aA.XJ246uSMcU.1");
    assert!(apr1.verify(&x.as_bytes()[..100]) && !apr1.verify(&x.as_bytes()[..99]));
    assert!(!sha.verify(&[b'x'; MAX_PASSWORD + 1]));
}

#[test]
fn accepts_plain_text_only_where_the_caller_does() {
    for (field, password) in [("open sesame", "open sesame"), ("{PLAIN}a$b$c", "a$b$c"), ("$ecret", "$ecret")]
    {
        let plain = Hash::parse(field.as_bytes(), PlainText::Accept).expect("it is accepted");
        assert_eq!(plain.kind(), Kind::Plain);
        assert!(plain.verify(password.as_bytes()) && !plain.verify(b"other"));
        assert_eq!(Hash::parse(field.as_bytes(), PlainText::Refuse), Err(HashError::Unknown));
    }
    // A hash of an unknown kind is never a password: a stolen file would be full of passwords.
    for field in
        ["$7$CU..../....2Q9obwLhin8qvQl6sisAO/$E1HizYWxBmnIH4sdPkd1UOML9t62Gf.wvNTnt5XFzs8", "{CRYPT}ab"]
    {
        assert_eq!(Hash::parse(field.as_bytes(), PlainText::Accept), Err(HashError::Unknown), "{field}");
    }
    // Nor is the mark of an account that is locked.
    for field in ["!", "*", "!!", "!*", "!$1$ab$cdefghijklmnopqrstuv./", "*$"] {
        assert_eq!(Hash::parse(field.as_bytes(), PlainText::Accept), Err(HashError::Locked), "{field}");
    }
    for field in ["!a", "*a*", "a!"] {
        let plain = Hash::parse(field.as_bytes(), PlainText::Accept).expect("it is accepted");
        assert!(plain.verify(field.as_bytes()));
    }
}

/// Made by libxcrypt.
#[test]
fn compares_hashes_of_des_only_where_the_caller_does() {
    for (field, password) in [
        ("abJnggxhB/yWI", &b"password"[..]),
        ("abYH7TYgEKz2Q", b"abcdefgh"),
        // More than eight characters do not count.
        ("abYH7TYgEKz2Q", b"abcdefghij"),
        ("abmF1QH4PEr.E", b""),
        ("abLgvQIonbATI", b"a b"),
        ("./H7.I.sVn7zo", b"test"),
        ("zZ5x4y8hS4SZE", b"secret"),
        // Nor does the eighth bit.
        ("Q9mWlQosJp.do", "été".as_bytes()),
    ] {
        let hash = Hash::parse(field.as_bytes(), PlainText::Des).expect("it is accepted");
        assert_eq!((hash.kind(), hash.kind().is_weak()), (Kind::DesCrypt, true));
        assert!(hash.verify(password), "{field}");
        assert!(!hash.verify(b"other") && !hash.verify(b"passwore"), "{field}");
        assert_eq!(Hash::parse(field.as_bytes(), PlainText::Refuse), Err(HashError::Unknown));
    }
    for (field, expected) in [
        ("abYH7TYgEKz2R", HashError::Malformed(Kind::DesCrypt)),
        ("ab:H7TYgEKz2Q", HashError::Malformed(Kind::DesCrypt)),
        ("abYH7TYgEKz2", HashError::Unknown),
        ("a password", HashError::Unknown),
    ] {
        assert_eq!(Hash::parse(field.as_bytes(), PlainText::Des), Err(expected), "{field}");
    }
}

#[test]
fn refuses_hashes_that_cost_too_much() {
    let table = [
        (
            "$argon2id$v=19$m=262145,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
            "256 MiB",
        ),
        (
            "$argon2id$v=19$m=65536,t=9,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
            "m times t",
        ),
        ("$argon2id$v=19$m=4294967295,t=4294967295,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8", "256 MiB"),
        (
            "$argon2id$v=19$m=65536,t=1,p=65$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
            "p at most 64",
        ),
        ("$2b$15$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "at most 14"),
        ("$2b$99$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "at most 14"),
        ("$5$rounds=700001$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8", "at most 700000"),
        ("$6$rounds=99999999999999999999$s$x", "at most 700000"),
        ("$y$jFT$LdJMENpBABJJ3hIHjB1Bi.$CbmXE/O/0bCHlsAzIaBSSe6Q31ZVeM4OxkjSOnAQ3C6", "256 MiB"),
    ];
    for (field, expected) in table {
        let error = Hash::parse(field.as_bytes(), PlainText::Accept).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("set the password again"), "{field}: {error}");
    }
}

#[test]
fn refuses_damaged_hashes_and_shows_nothing_of_them() {
    let mut fields: Vec<String> = [
        "",
        "$",
        "$$",
        "$2b$",
        "$2x$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
        "$2b$03$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
        "$2b$+5$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
        "$2b$05$CCCCCCCCCCCCCCCCCCCC!.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
        "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=16$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=19$m=+256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=19$m=7,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=19$m=256,t=0,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=19$m=256,t=2,p=1$c29t$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=19$m=256,t=2,p=1,data=aa$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$5$rounds=999$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8",
        "$5$rounds=$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8",
        "$5$rounds=-5000$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8",
        "$5$saltstringthatislong$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8",
        "$y$j9T/$LdJMENpBABJJ3hIHjB1Bi.$CbmXE/O/0bCHlsAzIaBSSe6Q31ZVeM4OxkjSOnAQ3C6",
        "$y$j0.$LdJMENpBABJJ3hIHjB1Bi.$CbmXE/O/0bCHlsAzIaBSSe6Q31ZVeM4OxkjSOnAQ3C6",
        "$y$.9T$LdJMENpBABJJ3hIHjB1Bi.$CbmXE/O/0bCHlsAzIaBSSe6Q31ZVeM4OxkjSOnAQ3C6",
        "$y$jzz$LdJMENpBABJJ3hIHjB1Bi.$CbmXE/O/0bCHlsAzIaBSSe6Q31ZVeM4OxkjSOnAQ3C6",
        "$apr1$abcdefghi$rRdIxwY5XRHT4TMtBPZn.0",
        "{SHA}",
        "{SHA}====",
        "{SHA}K/qCHdTzr1rftXNEV4Ob7XsySBlzYWx0",
        "{SSHA}GpHWL3ymc5liWkNopqtdSjuqYHM=",
        "{SMD5}GpHWL3ymc5liWkNopqtdSjuqYHM=",
        // The hash of DES, which thttpd wrote.
        "rqXexS6ZhobKA",
    ]
    .map(String::from)
    .into();
    fields.push("x".repeat(MAX_FIELD + 1));
    // The salt of salted SHA-1 may have any length.
    for (_, _, field) in HASHES.iter().filter(|(kind, ..)| *kind != Kind::SaltedSha1) {
        fields.extend((1..field.len()).map(|end| field[..end].to_owned()));
        fields.push(format!("{field}$a"));
    }
    for field in fields {
        let error = Hash::parse(field.as_bytes(), PlainText::Refuse).expect_err(&field);
        let (error, debug) = (error.to_string(), format!("{error:?}"));
        assert!(field.len() < 8 || !error.contains(&field) && !debug.contains(&field), "{error}");
        assert!(error.is_ascii() && !error.contains('\n'));
    }
    assert_eq!(format!("{:?}", hash(HASHES[0].2)), "Hash(argon2id)");
}

#[test]
fn says_how_much_memory_a_comparison_needs() {
    for (kind, _, field) in HASHES {
        let memory = hash(field).memory();
        match kind {
            Kind::Argon2id => assert!([64 << 20, 256 << 10].contains(&memory)),
            Kind::Yescrypt => assert!([16 << 20, 1 << 20].contains(&memory), "{memory}"),
            _ => assert!(memory < 64 << 10),
        }
    }
}

#[test]
fn what_is_written_is_read() {
    let all = [
        NewHash::Argon2id,
        NewHash::Yescrypt,
        NewHash::Bcrypt { cost: 5 },
        NewHash::Sha512Crypt { rounds: 1000 },
        NewHash::Sha256Crypt { rounds: 2000 },
        NewHash::Apr1,
        NewHash::Sha1,
        NewHash::Plain,
    ];
    let salt = std::array::from_fn(|at| at as u8 * 17);
    for new in all {
        let field = new.write("p\u{e4}ss word", &salt).expect("there is memory");
        assert!(field.is_ascii() || new == NewHash::Plain);
        let hash = Hash::parse(field.as_bytes(), PlainText::Accept).expect("it is whole");
        assert_eq!(hash.kind(), new.kind(), "{field}");
        assert!(hash.verify("p\u{e4}ss word".as_bytes()) && !hash.verify(b"other"), "{field}");
        let salted = !matches!(new, NewHash::Sha1 | NewHash::Plain);
        assert_eq!(new.write("p\u{e4}ss word", &[9; 16]) != Some(field), salted);
    }
}
