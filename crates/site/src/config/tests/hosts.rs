//! Addresses, hosts and their names.

use super::*;

#[test]
fn rejects_a_site_without_addresses_or_roots() {
    check(
        "",
        &[
            "site.toml: no address to listen on; add listen = [\"127.0.0.1:8080\"] before the first section",
            "site.toml: nothing to serve; add root = \"/srv/www\" before the first section",
        ],
    );
    let many: Vec<String> = (1..=65).map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    check(
        &format!("root = \"/\"\nlisten = [{}]", many.join(",")),
        &["site.toml:2: \"listen\" has too many addresses; expected at most 64"],
    );
    check(
        "root = \"/\"\nlisten = [\"1.2.3.4:80\",\n\":80\", \"1.2.3.4:80\",\n\"localhost:80\"]",
        &[
            "site.toml:3: \":80\" is not an address; write \"127.0.0.1:80\" for this machine only, \"0.0.0.0:80\" for all of IPv4, or \"[::]:80\" for all of IPv6",
            "site.toml:3: \"1.2.3.4:80\" is given twice; remove one of them",
            "site.toml:4: \"localhost:80\" is not an address; names are not resolved; write \"127.0.0.1:80\" or \"[::1]:80\"",
        ],
    );
}

#[test]
fn rejects_the_overlapping_addresses_that_the_kernel_rejects() {
    let listen = |addresses: &str| {
        let errors = load_files(&[("site.toml", &format!("root = \"/\"\nlisten = [{addresses}]"))]);
        errors.map(|_| ()).map_err(|errors| errors.join("\n"))
    };
    for good in [
        "\"0.0.0.0:80\", \"[::]:80\"",
        "\"0.0.0.0:80\", \"[::1]:80\"",
        "\"0.0.0.0:80\", \"127.0.0.1:81\"",
        "\"127.0.0.1:80\", \"127.0.0.2:80\"",
        "\"0.0.0.0:0\", \"127.0.0.1:0\"",
    ] {
        assert_eq!(listen(good), Ok(()), "{good}");
    }
    for (bad, expected) in [
        (
            "\"0.0.0.0:80\",\n\"127.0.0.1:80\"",
            "site.toml:3: \"127.0.0.1:80\" and \"0.0.0.0:80\" overlap: 0.0.0.0:80 includes every address of its family; remove \"127.0.0.1:80\", or name each address in place of \"0.0.0.0:80\"",
        ),
        (
            "\"[::1]:80\", \"[::]:80\"",
            "site.toml:2: \"[::]:80\" and \"[::1]:80\" overlap: [::]:80 includes every address of its family; remove \"[::1]:80\", or name each address in place of \"[::]:80\"",
        ),
    ] {
        assert_eq!(listen(bad), Err(expected.to_owned()), "{bad}");
    }
}

#[test]
fn rejects_trusted_proxies_that_are_not_networks() {
    check(
        "root = \"/\"\nlisten = []\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\", \"unix\",\n\"10.0.0.1/8\", \"localhost\",\n\
         \"10.0.0.0/33\", \"::ffff:10.0.0.1\"]",
        &[
            "site.toml:4: \"10.0.0.1/8\" is not a network; write \"10.0.0.0/8\", or the address alone",
            "site.toml:4: \"localhost\" is not a network; write an IP address, a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or \"unix\"; names are not resolved",
            "site.toml:5: \"10.0.0.0/33\" is not a network; write a number behind the slash: at most 32 for IPv4, 128 for IPv6",
            "site.toml:5: \"::ffff:10.0.0.1\" is not a network; write it as an IPv4 address",
        ],
    );
    let many = vec!["\"10.0.0.1\""; 1025].join(",");
    check(
        &format!("root = \"/\"\nlisten = []\ntrusted_proxies = [{many}]"),
        &["site.toml:3: \"trusted_proxies\" has too many entries; expected at most 1024; merge networks"],
    );
}

#[test]
fn rejects_a_host_without_names_or_content() {
    check_after(
        "\n[[host]]\nroot = \"/a\"\n",
        &[
            "site.toml:5: this host has no names, so that no request can reach it; give it names, or make it the default with default = true in its [[host]]",
        ],
    );
    check_after(
        "[[host]]\nnames = \"a\"\n",
        &[
            "site.toml:3: this host has nothing to serve; give it a root, redirects, rewrites, or routes by [[host.route]]; a root is not inherited",
        ],
    );
    check_after(
        "names = \"A\"\n[[host]]\nnames = [\"b\", \"a\"]\nroot = \"/\"",
        &["site.toml:5: the name \"a\" is given twice: site.toml:3 has it too; remove one of them"],
    );
    check_after(
        "[[host]]\nnames = \"http://a/\"\nroot = \"/\"\ndefault = true\n[[host]]\nroot = \"/\"\ndefault = true\nnames = \"b\"",
        &[
            "site.toml:2: this host has no names, so that no request can reach it; give it names, or make it the default with default = true in its [[host]]",
            "site.toml:4: \"http://a/\" is not a host name; write the name alone, without \"http://\" or a path",
            "site.toml:9: another host is the default one already; keep one \"default = true\"",
        ],
    );
    check_after("names = []", &["site.toml:3: \"names\" is empty; add a name, or remove the key"]);
    check(
        "listen = \"0.0.0.0:80\"\n[[host]]\nroot = \"/\"\n[[route]]\npath = \"/a\"\nreturn = 403",
        &[
            "site.toml:3: this host has no names, so that no request can reach it; give it names, or make it the default with default = true in its [[host]]",
            "site.toml:4: these routes belong to the top level, which has no root; write [[host.route]] behind their host, or add a root or a route for \"/\"",
        ],
    );
    check(
        "listen = \"0.0.0.0:80\"\nnames = \"a\"\n[[host]]\nnames = \"b\"\nroot = \"/\"",
        &[
            "site.toml:2: the top level has names but nothing to serve; add a root, or move the names into a [[host]]",
        ],
    );
}

#[test]
fn finds_hosts_by_their_names() {
    let further = "[[host]]\nnames = [\"b.example\", \"*.c.example\"]\nroot = \"b\"\n";
    let text = format!("{TWO_LINES}names = \"a.example\"\n{further}");
    let site = load_files(&[("/etc/taipan/site.toml", &text)]).unwrap();
    assert_eq!(planned(&site, "a.example", "/x"), "/srv/www /x");
    assert_eq!(planned(&site, "other", "/x"), "/srv/www /x");
    assert_eq!(planned(&site, "B.example:80", "/x"), "/etc/taipan/b /x");
    assert_eq!(planned(&site, "x.c.example", "/x"), "/etc/taipan/b /x");

    let site = after_two_lines(&format!("names = \"a.example\"\n{further}default = true")).unwrap();
    assert_eq!(planned(&site, "other", "/x"), "b /x");
    assert_eq!(planned(&site, "a.example", "/x"), "/srv/www /x");

    let text =
        format!("listen = \"0.0.0.0:80\"\nlisting = true\n{further}[[host]]\nnames = \"d\"\nroot = \"/d\"");
    let site = load_files(&[("site.toml", &text)]).unwrap();
    assert_eq!(planned(&site, "other", "/x"), "b /x");
    assert_eq!(planned(&site, "d", "/x"), "/d /x");
}
