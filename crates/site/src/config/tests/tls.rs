//! TLS, certificates, and private keys.

use super::*;

#[test]
fn the_default_host_may_demand_certificates_without_a_name() {
    let text = |first: &str| {
        format!(
            "listen = [\"127.0.0.1:443 tls\", \"127.0.0.2:443 tls\"]\ncertificate = \"a.pem\"\n{first}\
             [[host]]\naddresses = \"127.0.0.2\"\nroot = \"/b\"\ncertificate = \"b.pem\"\n\
             client_certificates = \"required\"\nclient_ca = \"ca.pem\"\n"
        )
    };
    let read = |text: &str| read(Path::new("site.toml"), &Files(&[("site.toml", text)]));
    let found = read(&text("")).unwrap();
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    let errors = read(&text("root = \"/srv\"\n")).err().unwrap();
    let found = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(found.contains("a host without names cannot demand certificates of clients"), "{found}");
}

#[test]
fn reads_certificates_of_hosts() {
    let read = load_files(&[(
        "/etc/taipan/site.toml",
        "listen = [\"127.0.0.1:443 tls\", \"127.0.0.1:80\"]\nroot = \"/srv\"\ncertificate = [\"a.pem\", \"/b.pem\"]\n\
         certificate_key = [\"a.key\", \"/b.key\"]\n\
         [[host]]\nnames = \"b.example\"\nroot = \"/b\"\nhsts = \"1y\"\nhsts_subdomains = true\n\
         [[host]]\nnames = \"c.example\"\nroot = \"/c\"\ncertificate = \"c\"\nclient_certificates = \"required\"\n\
         client_ca = \"ca.pem\"\nclient_crl = \"ca.crl\"\n",
    )]);
    let site = read.unwrap();
    let files = |certificate: &str, key: Option<&str>| CertificateFiles {
        certificate: certificate.into(),
        key: key.map(Into::into),
    };
    let top = vec![files("/etc/taipan/a.pem", Some("/etc/taipan/a.key")), files("/b.pem", Some("/b.key"))];
    let (first, second, third) = (&site.hosts[0], &site.hosts[1], &site.hosts[2]);
    assert_eq!(first.tls, HostTls { certificates: top.clone(), ..HostTls::default() });
    let redirected = HostTls { certificates: top, plain: PlainRequests::Redirected, ..HostTls::default() };
    assert_eq!(second.tls, redirected, "inherits certificates");
    let hsts =
        HeaderRule::Set("Strict-Transport-Security".into(), "max-age=31536000; includeSubDomains".into());
    assert_eq!(second.routes.iter().next().unwrap().headers, [hsts]);
    let known =
        ClientAuthorities { ca: vec!["/etc/taipan/ca.pem".into()], crl: vec!["/etc/taipan/ca.crl".into()] };
    let own = HostTls {
        certificates: vec![files("/etc/taipan/c", None)],
        acme: false,
        clients: ClientCertificates::Required(known),
        plain: PlainRequests::Redirected,
    };
    assert_eq!(third.tls, own);
}

#[test]
fn reads_which_hosts_have_certificates_by_acme() {
    let read = load_files(&[(
        "site.toml",
        "listen = \"127.0.0.1:443 tls\"\nroot = \"/srv\"\nacme = true\nnames = \"a.example\"\n\
         [certificates]\nfolder = \"certs\"\nca = \"ca.pem\"\nchallenges = [\"http-01\", \"dns-persist-01\"]\n\
         eab_key_id = \"7\"\neab_key_file = \"eab\"\nretry = \"2s\"\n\
         [[host]]\nnames = \"*.b.example\"\nroot = \"/b\"\n\
         [[host]]\nnames = \"c.example\"\nroot = \"/c\"\ncertificate = \"c.pem\"\n\
         [[host]]\nnames = \"d.example\"\nroot = \"/d\"\nacme = false\n",
    )]);
    let site = read.unwrap();
    let found: Vec<_> = site.hosts.iter().map(|host| (host.tls.acme, host.tls.certificates.len())).collect();
    assert_eq!(found, [(true, 0), (true, 0), (false, 1), (false, 0)]);
    let expected = Certificates {
        folder: Some("certs".into()),
        ca: Some("ca.pem".into()),
        challenges: vec![Challenge::Http, Challenge::DnsPersist],
        external_account: Some(ExternalAccount { key_id: "7".into(), key_file: "eab".into() }),
        retry: Duration::from_secs(2),
        ..Certificates::default()
    };
    assert_eq!(site.certificates, expected);
    // Hosts inherit it; the default one has no name.
    let site = after_two_lines("acme = true\n[[host]]\nnames = \"a.example\"\nroot = \"/a\"").unwrap();
    assert_eq!(site.hosts.iter().map(|host| host.tls.acme).collect::<Vec<_>>(), [false, true]);
    assert_eq!(site.certificates, Certificates::default());
    // Those of different addresses may have the same names, and then one certificate.
    let host = |address: &str, names: &str| {
        format!("[[host]]\naddresses = \"{address}\"\nnames = [{names}]\nroot = \"/a\"\nacme = true\n")
    };
    let (one, other) = ("\"a.example\", \"b.example\"", "\"A.example\", \"b.example\"");
    assert!(after_two_lines(&(host("192.0.2.1", one) + &host("192.0.2.2", other))).is_ok());
    let site = after_two_lines("[certificates]\ndns_command = [\"/bin/dns\", \"x\"]").unwrap();
    assert_eq!(site.certificates.challenges, [Challenge::TlsAlpn, Challenge::Http, Challenge::Dns]);
    assert_eq!(site.certificates.dns_command, ["/bin/dns", "x"]);
}

#[test]
fn rejects_certificates_by_acme_that_cannot_be() {
    for (text, expected) in [
        ("acme = true", "a certificate needs names; add names"),
        (
            "acme = true\nnames = \"*.a.example\"",
            "no challenge of \"challenges\" can prove \"*.a.example\"; add",
        ),
        (
            "acme = true\nnames = \"192.0.2.1\"\n[certificates]\nchallenges = [\"dns-persist-01\"]",
            "can prove \"192.0.2.1\"; an address needs \"tls-alpn-01\" or \"http-01\"",
        ),
        (
            "acme = true\nnames = [\"*.a.example\", \"192.0.2.1\"]\n[certificates]\n\
             challenges = [\"http-01\", \"dns-persist-01\"]",
            "can prove all names of the host",
        ),
        (
            "acme = true\nnames = \"a.example\"\ncertificate = \"a\"",
            "by ACME or from a file; remove \"acme\"",
        ),
        (
            "[[host]]\naddresses = \"192.0.2.1\"\nnames = [\"a.example\", \"b.example\"]\nroot = \"/a\"\nacme = true\n\
             [[host]]\naddresses = \"192.0.2.2\"\nnames = \"A.example\"\nroot = \"/b\"\nacme = true",
            "another host with the first name \"A.example\" has a certificate by ACME with other names; begin",
        ),
        ("[certificates]\nauthorities = []", "\"authorities\" has 0 entries; expected 1 to 8"),
        (
            "[certificates]\nauthorities = \"http://a/\"",
            "\"http://a/\" is no directory of an authority; write its URL",
        ),
        ("[certificates]\nauthorities = \"https://a b\"", "is no directory of an authority"),
        ("[certificates]\nchallenges = []", "\"challenges\" is empty"),
        ("[certificates]\nchallenges = [\"dns-01\"]", "\"dns-01\" needs a program that sets records; add"),
        ("[certificates]\nchallenges = [\"http-02\"]", "expected an array of \"tls-alpn-01\""),
        ("[certificates]\ndns_command = []", "\"dns_command\" is empty"),
        ("[certificates]\ndns_command = \"dns\"", "\"dns\" is not the whole path of a program"),
        ("[certificates]\nemail = \"mailto:a@b\"", "is not an address such as"),
        ("[certificates]\neab_key_id = \"1\"", "\"eab_key_id\" alone names no account; add \"eab_key_file\""),
        ("[certificates]\neab_key_file = \"f\"", "alone names no account; add \"eab_key_id\""),
        ("[certificates]\nkey = \"dsa\"", "expected one of \"ecdsa-p256\""),
    ] {
        let errors = after_two_lines(text).map(|_| ()).unwrap_err();
        assert!(errors.iter().any(|error| error.contains(expected)), "{text}: {errors:#?}");
    }
    let names: Vec<String> = (0..101).map(|n| format!("\"n{n}.example\"")).collect();
    let errors = after_two_lines(&format!("acme = true\nnames = [{}]", names.join(", "))).unwrap_err();
    assert!(errors[0].contains("has at most 100 names"), "{errors:?}");
}

#[test]
fn warns_of_names_for_which_the_authority_issues_nothing() {
    let warnings = |names: &str, more: &str| {
        let text = format!(
            "listen = \"127.0.0.1:443 tls\"\nroot = \"/srv\"\nacme = true\nnames = {names}\n[certificates]\n{more}"
        );
        let found = read(Path::new("site.toml"), &Files(&[("site.toml", &text)])).unwrap();
        found.warnings.iter().map(ConfigError::to_string).collect::<Vec<_>>()
    };
    for (names, name) in [("\"localhost\"", "localhost"), ("[\"a.example.org\", \"nas.local\"]", "nas.local")]
    {
        let found = warnings(names, "");
        let expected = format!("no public authority issues a certificate for \"{name}\"");
        assert!(found.len() == 1 && found[0].contains(&expected), "{found:?}");
    }
    assert!(warnings("\"a.example.org\"", "").is_empty());
    let private = "authorities = \"https://ca.example.org/acme/acme/directory\"";
    assert!(warnings("\"nas.local\"", private).is_empty());
}

#[test]
fn reads_where_tickets_and_private_keys_are() {
    let read = |section: &str| {
        let text = format!("listen = \"127.0.0.1:80\"\nroot = \"/srv\"\n[tls]\n{section}\n");
        let tls = load_files(&[("/etc/taipan/site.toml", &text)]).unwrap().tls;
        (tls.tickets, tls.private_keys)
    };
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    assert_eq!(read(""), (Some(Tickets { rotation: hours(12), key_file: None }), PrivateKeys::InGeneration));
    let shared = Tickets { rotation: hours(1), key_file: Some("/etc/taipan/ticket.key".into()) };
    let section = "ticket_rotation = \"1h\"\nticket_key_file = \"ticket.key\"\nsigner = true";
    assert_eq!(read(section), (Some(shared), PrivateKeys::InSigner));
    assert_eq!(read("tickets = false"), (None, PrivateKeys::InGeneration));
}

#[test]
fn rejects_settings_of_tls_that_protect_nothing() {
    let top = "listen = \"127.0.0.1:443 tls\"\nroot = \"/srv\"\n";
    check(
        top,
        &["site.toml:1: \"127.0.0.1:443 tls\" needs a certificate, and no host has one; add certificate = \
           \"/etc/letsencrypt/live/NAME/fullchain.pem\", or acme = true, or remove the word tls"],
    );
    check_after(
        "https_redirect = true",
        &[
            "site.toml:1: requests are redirected to https, but no address is marked with tls; add an address such as \
           \"0.0.0.0:443 tls\", or name the proxy that has TLS in \"trusted_proxies\"; the keys https_redirect, \
           hsts and client_certificates redirect",
        ],
    );
    let with_certificate = format!("{top}certificate = [\"a.pem\", \"b.pem\"]\n");
    for (line, expected) in [
        ("certificate_key = \"a.key\"", "the number of keys, 1, is not that of certificates, 2; give each"),
        ("client_certificates = \"required\"", "is \"required\" without an authority; add client_ca"),
        (
            "client_certificates = \"required\"\nclient_ca = \"a\"\nhttps_redirect = false",
            "\"client_certificates\" protects nothing while requests without TLS are served; remove \
             https_redirect = false, or \"client_certificates\"",
        ),
        ("hsts = \"1y\"\nhttps_redirect = false", "\"hsts\" protects nothing while"),
        (
            "[[host]]\naddresses = \"127.0.0.2\"\nroot = \"/b\"\nclient_certificates = \"optional\"\nclient_ca = \"a\"",
            "a host without names cannot demand certificates of clients",
        ),
        ("hsts_subdomains = true", "\"hsts_subdomains\" has no effect without \"hsts\"; add hsts = \"1y\""),
        ("hsts = \"1d\"\nhsts_preload = true", "browsers preload only names whose HSTS lasts a year"),
        ("[tls]\nversions = []", "\"versions\" is empty; name at least one"),
        ("[tls]\ngroups = [\"X448\"]", "expected an array of \"X25519MLKEM768\""),
        ("[tls]\nversions = [\"1.1\"]", "expected an array of \"1.2\", \"1.3\""),
        (
            "[tls]\ntickets = false\nticket_rotation = \"1h\"",
            "\"ticket_rotation\" has no effect without tickets",
        ),
        (
            "[tls]\ntickets = false\nticket_key_file = \"key\"",
            "\"ticket_key_file\" has no effect without tickets",
        ),
        ("[tls]\ntickets = false\nearly_data = true", "\"early_data\" has no effect without tickets"),
        (
            "[tls]\nearly_data = true\nticket_key_file = \"key\"",
            "\"ticket_key_file\" has no effect with early_data",
        ),
        (
            "[tls]\nearly_data = true\nticket_rotation = \"1h\"",
            "\"ticket_rotation\" has no effect with early_data",
        ),
        (
            "[tls]\nversions = [\"1.2\"]\nearly_data = true",
            "\"early_data\" has no effect without TLS 1.3; remove it, or versions",
        ),
        ("[tls]\nversions = [\"1.2\"]\nkernel = true", "\"kernel\" has no effect without TLS 1.3"),
        ("[tls]\nticket_rotation = \"4d\"", "\"ticket_rotation\""),
    ] {
        let errors =
            load_files(&[("site.toml", &format!("{with_certificate}{line}\n"))]).map(|_| ()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{line}: {errors:?}");
    }
    check_after(
        "certificate_key = \"a.key\"",
        &[
            "site.toml:3: \"certificate_key\" has no certificate beside it; add \"certificate\", the file with the chain \
           of certificates",
        ],
    );
}
