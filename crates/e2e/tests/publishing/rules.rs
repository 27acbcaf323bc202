//! Who may change what: rules, passwords and locks.

use super::*;

#[test]
fn rules_decide_about_destinations_and_members() {
    let config = "publish = \"webdav\"\npublish_anonymous = true\n\
                  [[rule]]\npath = [\"/closed/\", \"/a/secret.txt\"]\nthen = \"deny\"\n\
                  [[route]]\npath = \"/read/\"\npublish = \"read\"\n";
    let site =
        Site::new().file("a/t", "t").file("a/secret.txt", "s").file("closed/c", "c").file("read/r", "r");
    let server = site.config(config).start();
    check(
        &server,
        &[
            ("COPY", "/a/t", "Destination: /closed/t\r\n", "", 403),
            ("COPY", "/closed/c", "Destination: /c\r\n", "", 403),
            ("MOVE", "/a/t", "Destination: /read/t\r\n", "", 403),
            ("COPY", "/read/r", "Destination: /r\r\n", "", 405),
            ("PUT", "/read/r", "", "x", 405),
            ("DELETE", "/a/", "", "", 403),
            ("MOVE", "/a", "Destination: /b\r\n", "", 403),
            ("COPY", "/a/", "Destination: /b/\r\n", "", 201),
            ("PROPFIND", "/read/", "Depth: 1\r\n", "", 207),
            ("PROPFIND", "/closed/", "Depth: 1\r\n", "", 403),
        ],
    );
    assert!(server.root().join("b/t").exists() && !server.root().join("b/secret.txt").exists());
    let listed = send(&server, "PROPFIND", "/a/", "Depth: 1\r\n", "").text();
    assert!(listed.contains("/a/t<") && !listed.contains("secret"), "{listed}");
}

#[test]
fn conditions_do_not_ask_about_what_the_client_may_not_have() {
    let config = "publish = \"webdav\"\npublish_anonymous = true\n";
    let denied = "[[rule]]\npath = \"/closed/\"\nthen = \"deny\"\n";
    let server = Site::new().file("closed/c", "c").config(&[config, denied].concat()).start();
    let open = Site::new().config(config).start();
    fs::hard_link(server.root().join("closed/c"), server.root().join("same"))
        .expect("the folder can be written");
    let tag = send(&server, "HEAD", "/same", "", "").field("etag").expect("a tag").to_owned();
    let about = |url: &str| format!("If: <{url}> ([{tag}])\r\n");
    let (known, unknown) = (about("/same"), about("/closed/c"));
    check(&server, &[("PUT", "/t", &known, "1", 201), ("PUT", "/t", &unknown, "2", 412)]);
    // As for what does not exist.
    check(&open, &[("PUT", "/t", &unknown, "1", 412)]);
}

#[test]
fn passwords_are_asked_for_and_locks_are_of_users() {
    let config = "publish = \"webdav\"\nauth = \"basic\"\nplain_passwords = true\nusers = { ann = \"a\", bob = \"b\" }\n";
    let server = Site::new().file("t", "1").config(config).start();
    let (ann, bob) = ("Authorization: Basic YW5uOmE=\r\n", "Authorization: Basic Ym9iOmI=\r\n");
    check(
        &server,
        &[
            ("PUT", "/t", "", "x", 401),
            ("PROPFIND", "/", "Depth: 0\r\n", "", 401),
            ("PUT", "/t", ann, "2", 204),
        ],
    );
    let locked = send(&server, "LOCK", "/t", &format!("{ann}Timeout: Second-600\r\n"), LOCK);
    let token = locked.field("lock-token").expect("a token").to_owned();
    assert!(locked.text().contains("<D:timeout>Second-600</D:timeout>"), "{}", locked.text());
    let with = |user: &str| format!("{user}If: ({token})\r\n");
    check(
        &server,
        &[
            ("PUT", "/t", bob, "3", 423),
            ("PUT", "/t", &with(bob), "3", 423),
            ("PUT", "/t", ann, "3", 423),
            ("DELETE", "/t", bob, "", 423),
            ("MOVE", "/t", &format!("{bob}Destination: /u\r\n"), "", 423),
            (
                "PROPPATCH",
                "/t",
                bob,
                "<propertyupdate xmlns='DAV:'><set><prop><x/></prop></set></propertyupdate>",
                423,
            ),
            ("UNLOCK", "/t", &format!("{bob}Lock-Token: {token}\r\n"), "", 403),
            ("LOCK", "/t", bob, LOCK, 423),
            ("COPY", "/t", &format!("{bob}Destination: /u\r\n"), "", 201),
            ("PUT", "/t", &with(ann), "3", 204),
        ],
    );
    // The lock outlives the process that has granted it.
    server.reload();
    check(
        &server,
        &[
            ("PUT", "/t", ann, "4", 423),
            ("LOCK", "/t", &with(ann), "", 200),
            ("UNLOCK", "/t", &format!("{ann}Lock-Token: <urn:x>\r\n"), "", 409),
            ("UNLOCK", "/t", &format!("{ann}Lock-Token: {token}\r\n"), "", 204),
            ("PUT", "/t", bob, "4", 204),
        ],
    );
}

#[test]
fn rules_for_a_method_hold_for_what_does_the_same() {
    let config = "publish = \"webdav\"\npublish_anonymous = true\npublish_make_folders = true\n\
                  [[rule]]\npath = \"/fixed/\"\nmethod = [\"PUT\", \"DELETE\"]\nthen = \"deny\"\n\
                  [[rule]]\npath = \"*.keep\"\nmethod = \"DELETE\"\nthen = \"deny\"\n\
                  [[rule]]\npath = \"*.secret\"\nmethod = \"GET\"\nthen = \"deny\"\n\
                  [[rule]]\npath = \"/flat/\"\nmethod = \"MKCOL\"\nthen = \"deny\"\n";
    let site = Site::new().file("a", "a").file("fixed/f", "f").file("d/x.keep", "x").file("d/y", "y");
    let site = site.file("s/z.secret", "z").folder("flat").file("o/y", "old");
    let server = site.config(config).start();
    check(
        &server,
        &[
            ("COPY", "/a", "Destination: /fixed/a\r\n", "", 403),
            ("COPY", "/a", "Destination: /fixed/f\r\n", "", 403),
            ("MOVE", "/a", "Destination: /fixed/a\r\n", "", 403),
            ("LOCK", "/fixed/new", "", LOCK, 403),
            ("LOCK", "/fixed/f", "", LOCK, 403),
            ("LOCK", "/fixed/", "Depth: 0\r\n", LOCK, 403),
            ("PROPPATCH", "/fixed/f", "", PROPERTY, 403),
            ("PROPPATCH", "/fixed/", "", PROPERTY, 403),
            ("PROPPATCH", "/a", "", PROPERTY, 207),
            ("MOVE", "/fixed/f", "Destination: /f\r\n", "", 403),
            ("COPY", "/fixed/f", "Destination: /f\r\n", "", 201),
            ("MOVE", "/d/x.keep", "Destination: /x\r\n", "", 403),
            ("MOVE", "/d/", "Destination: /e/\r\n", "", 403),
            ("COPY", "/o/", "Destination: /d/\r\n", "", 403),
            ("COPY", "/d/", "Destination: /e/\r\n", "", 201),
            ("COPY", "/s/z.secret", "Destination: /z\r\n", "", 403),
            // It could be read there.
            ("MOVE", "/s/z.secret", "Destination: /z\r\n", "", 403),
            ("MOVE", "/s/", "Destination: /z/\r\n", "", 403),
            ("COPY", "/o/", "Destination: /flat/o/\r\n", "", 403),
            ("COPY", "/a", "Destination: /flat/a\r\n", "", 201),
            ("PUT", "/flat/b", "", "b", 201),
            ("PUT", "/flat/new/b", "", "b", 403),
            ("PUT", "/flat/new/more/b", "", "b", 403),
            ("PUT", "/new/more/b", "", "b", 201),
        ],
    );
    assert_eq!(content(&server, "/e/x.keep"), "x");
    // A lock of all that is in a folder is for clients who may write all of it.
    let denied =
        "publish = \"webdav\"\npublish_anonymous = true\n[[rule]]\npath = \"/d/y\"\nthen = \"deny\"\n";
    let server = Site::new().file("d/y", "y").file("e/y", "y").config(denied).start();
    check(
        &server,
        &[
            ("LOCK", "/d/", "Depth: infinity\r\n", LOCK, 403),
            ("LOCK", "/d/", "Depth: 0\r\n", LOCK, 200),
            ("LOCK", "/e/y", "", LOCK, 200),
        ],
    );
    // RFC 4918 §9.10.9: nothing is locked, because a member is.
    let refused = send(&server, "LOCK", "/e/", "Depth: infinity\r\n", LOCK);
    assert_eq!(refused.status, 207);
    let text = refused.text();
    for (path, status) in [("/e/y", "423 Locked"), ("/e/", "424 Failed Dependency")] {
        let expected = format!("<D:href>{path}</D:href><D:status>HTTP/1.1 {status}</D:status>");
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
    check(&server, &[("LOCK", "/e/y", "", LOCK, 423), ("PUT", "/e/z", "", "z", 201)]);
}

#[test]
fn an_upload_goes_on_for_those_who_may_write_the_file() {
    let config = "publish = \"files\"\npublish_anonymous = true\ntrusted_proxies = \"127.0.0.1\"\n\
                  [[rule]]\nmethod = \"PUT\"\naddress = \"!192.0.2.1\"\nthen = \"deny\"\n";
    let server = Site::new().config(config).start();
    let (office, other) = ("X-Forwarded-For: 192.0.2.1\r\n", "X-Forwarded-For: 192.0.2.2\r\n");
    let begun = send(&server, "PUT", "/a", &format!("{office}Upload-Complete: ?0\r\n"), "12");
    let url = begun.field("location").expect("the upload").to_owned();
    let fields = "Content-Type: application/partial-upload\r\nUpload-Offset: 2\r\nUpload-Complete: ?1\r\n";
    check(
        &server,
        &[
            ("PUT", "/a", other, "x", 403),
            ("PATCH", &url, &format!("{other}{fields}"), "34", 403),
            ("PATCH", &url, &format!("{office}{fields}"), "34", 201),
        ],
    );
    assert_eq!(content(&server, "/a"), "1234");
}
