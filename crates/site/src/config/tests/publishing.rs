//! Routes that clients may publish to.

use super::*;

#[test]
fn reads_how_a_route_is_published() {
    use crate::publishing::{DeepListing, MissingFolders, Mode, Publishers, Publishing, Sync};
    let of = |text: &str, path: &str| {
        let site = site(text);
        plan(site.hosts.at(0), SafePath::parse(path).unwrap(), None).route.publishing.clone()
    };
    assert_eq!(*of("", "/a"), Publishing::default());
    let all = "[[route]]\npath = \"/up/\"\npublish = \"webdav\"\npublish_anonymous = true\npublish_quota = \"1GiB\"\n\
               publish_min_free = 0\npublish_sync = false\npublish_make_folders = true\npublish_deep_listing = true\n\
               publish_umask = \"007\"\npublish_resumable = 0\npublish_lock_time = \"10m\"";
    let expected = Publishing {
        mode: Mode::WebDav,
        publishers: Publishers::Everyone,
        quota: Some(1 << 30),
        min_free: 0,
        sync: Sync::Kernel,
        missing_folders: MissingFolders::Made,
        deep_listing: DeepListing::Allowed,
        umask: 0o007,
        resumable: Duration::ZERO,
        lock: Duration::from_secs(600),
    };
    assert_eq!(*of(all, "/up/a"), expected);
    assert_eq!(of(all, "/a").mode, Mode::Off);
    let inherited =
        "publish = \"files\"\npublish_anonymous = true\n[[route]]\npath = \"/no/\"\npublish = \"off\"";
    assert_eq!((of(inherited, "/a").mode, of(inherited, "/no/a").mode), (Mode::Files, Mode::Off));
    for umask in ["8", "", "0o22", "+22", "700", "1000"] {
        let expected = format!(
            "site.toml:4: \"publish_umask\" cannot be \"{umask}\"; expected octal digits that take nothing from the user, \
             such as \"022\""
        );
        check_after(&format!("publish_anonymous = true\npublish_umask = \"{umask}\""), &[&expected]);
    }
}

#[test]
fn rejects_publishing_for_everyone() {
    let open = "add auth = \"basic\" with user_files, or a [[rule]] that denies others; or publish_anonymous = true, if everyone may";
    let expected = format!("site.toml:3: everyone could publish in /; {open}");
    check_after("publish = \"files\"", &[&expected]);
    let expected = format!("site.toml:5: everyone could publish in /up/; {open}");
    check_after("[[route]]\npath = \"/up/\"\npublish = \"webdav\"", &[&expected]);
    let rules_that_deny_no_upload = [
        "[[rule]]\npath = \"/admin/\"\nthen = \"deny\"",
        "[[rule]]\npath = \"*.bak\"\nthen = \"deny\"",
        "[[rule]]\nmethod = \"DELETE\"\naddress = \"!192.0.2.0/24\"\nthen = \"deny\"",
        "auth = \"basic\"\nusers = { ann = \"{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\" }\nsatisfy = \"rules\"\n\
         [[rule]]\nmethod = \"DELETE\"\nthen = \"authenticate\"",
    ];
    for rules in rules_that_deny_no_upload {
        let expected = format!("site.toml:3: everyone could publish in /; {open}");
        check_after(&format!("publish = \"files\"\n{rules}"), &[&expected]);
    }
    // Which the rule would have prevented.
    let mistaken = "publish = \"files\"\n[[rule]]\nthen = \"block\"";
    let expected = "site.toml:5: \"then\" cannot be \"block\"; expected one of \"allow\", \"deny\", \"redirect\", \"authenticate\", \"limit\"";
    check_after(mistaken, &[expected]);
    for text in [
        "publish = \"read\"",
        "publish = \"files\"\n[[rule]]\naddress = \"!192.0.2.0/24\"\nthen = \"deny\"",
        "publish = \"files\"\n[[rule]]\npath = \"!/x/\"\nmethod = \"PUT\"\nfield = { Key = \"!k\" }\nthen = \"deny\"",
        "[[route]]\npath = \"/up/\"\npublish = \"files\"\n[[rule]]\npath = \"/up/\"\ntls = false\nthen = \"deny\"",
        "publish = \"webdav\"\npublish_anonymous = true",
    ] {
        site(text);
    }
}

#[test]
fn rejects_published_roots_within_each_other() {
    let two = |publish: &str, alias: &str| {
        format!(
            "publish = \"files\"\npublish_anonymous = true\n[[route]]\npath = \"/x/\"\nalias = \"{alias}\"\n\
             [[route]]\npath = \"/team/\"\nalias = \"/srv/other/team\"\npublish = \"{publish}\""
        )
    };
    let expected = "site.toml:11: the root of /team/ lies in that of /x/, in which clients publish, too; use roots apart \
                    from each other, or the same root: locks and quotas are of a root";
    check_after(&two("webdav", "/srv/other"), &[expected]);
    for (publish, alias) in [
        ("webdav", "/srv/other/team"),
        ("webdav", "/srv/other/tea"),
        ("off", "/srv/other"),
        ("read", "/srv/other"),
    ] {
        site(&two(publish, alias));
    }
}

#[test]
fn rejects_publishing_where_scripts_run() {
    let check = |text: &str, place: &str, route: &str, runner: &str| {
        let expected = format!(
            "site.toml:{place}: files that clients publish in {route} could run as scripts, by the route {runner}; publish in \
             a folder outside of those with scripts, by root or alias"
        );
        check_after(&format!("publish_anonymous = true\n{text}"), &[&expected]);
    };
    let up = "[[route]]\npath = \"/up/\"\npublish = \"files\"\n";
    check(&format!("{up}[[route]]\npath = \"/up/cgi/\"\ncgi = true"), "6", "/up/", "/up/cgi/");
    check(
        &format!(
            "{up}alias = \"/srv/other/up\"\n[[route]]\npath = \"/x/\"\nalias = \"/srv/other\"\ncgi = true"
        ),
        "6",
        "/up/",
        "/x/",
    );
    let names = |alias: &str, scripts: &str| {
        format!(
            "{up}alias = \"{alias}\"\n[[host]]\nnames = \"*.example\"\nroot = \"/srv/n/$host/htdocs\"\n\
             [[host.route]]\npath = \"{scripts}\"\ncgi = true"
        )
    };
    for alias in ["/srv/n/a.example/htdocs/up", "/srv/n/a.example", "/srv"] {
        check(&names(alias, "**.cgi"), "6", "/up/", "**.cgi");
    }
    check(&names("/srv/n/a.example/htdocs/cgi-bin/up", "/cgi-bin/"), "6", "/up/", "/cgi-bin/");
    for text in [
        names("/srv/n/a.example/other", "**.cgi"),
        names("/srv/o", "**.cgi"),
        names("/srv/n/a.example/htdocs/up", "/cgi-bin/"),
    ] {
        site(&format!("publish_anonymous = true\n{text}"));
    }
    check_after(
        "publish_anonymous = true\nincludes = true\n[[route]]\npath = \"/up/\"\npublish = \"files\"",
        &[
            "site.toml:7: the files that clients publish in /up/ would be pages with includes; set includes = false in this route",
        ],
    );
    // Apart, or where the route of a path decides. Within a route that is published, nothing runs.
    for text in [
        format!("{up}[[route]]\npath = \"/cgi-bin/\"\ncgi = true"),
        format!("{up}[[route]]\npath = \"*.cgi\"\ncgi = true"),
    ] {
        let site = site(&format!("publish_anonymous = true\n{text}"));
        let plan = plan(site.hosts.at(0), SafePath::parse("/up/x.cgi").unwrap(), None);
        assert!(plan.walk.is_none() && plan.route.script.is_none() && plan.route.publishes(), "{text}");
    }
}
