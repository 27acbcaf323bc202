//! What routes lead to, and what they inherit.

use super::*;

#[test]
fn rejects_rewrites_that_do_not_end() {
    let rewrites = |text: &str| {
        let errors = after_two_lines(&format!("[rewrites]\n{text}"));
        errors.map(|_| ()).map_err(|errors| errors.join("\n"))
    };
    for good in [
        "\"/a/\" = \"/$rest\"",
        "\"/a/\" = \"/b/$rest\"\n\"/b/\" = \"/c/$rest\"",
        "\"/\" = \"/app$path\"\n[[route]]\npath = \"/app/\"\nroot = \"/x\"",
        "\"/\" = \"/index.html\"\n[[route]]\npath = \"/index.html\"\nroot = \"/x\"",
        "\"*.html\" = \"/pages$path.page\"",
        "\"/a\" = \"/b\"\n\"/b\" = \"/c\"",
    ] {
        assert_eq!(rewrites(good), Ok(()), "{good}");
    }
    for (bad, expected) in [
        (
            "\"/\" = \"/index.html\"",
            "site.toml:4: the rewrite of \"/\" leads back to itself; write fallback = \"/index.html\" instead, which responds where a file does not exist; or add a route with a root for \"/index.html\"",
        ),
        (
            "\"/app/\" = \"/app/index.html\"",
            "site.toml:4: the rewrite of \"/app/\" leads back to itself; write fallback",
        ),
        ("\"/\" = \"/app$path\"", "site.toml:4: the rewrite of \"/\" leads back to itself; add a route"),
        ("\"/a\" = \"/b\"\n\"/b\" = \"/a\"", "site.toml:5: the rewrite of \"/b\" leads back to itself"),
        ("\"/a/\" = \"/b/$rest\"\n\"/b/\" = \"/a/$rest\"", "site.toml:4: the rewrite of \"/a/\" leads back"),
        ("\"/**/*.jpg\" = \"$path.jpg\"", "site.toml:4: the rewrite of \"/**/*.jpg\" leads back to itself"),
        ("\"*.jpg\" = \"/img$path\"", "site.toml:4: the rewrite of \"*.jpg\" leads back to itself"),
    ] {
        let found = rewrites(bad).unwrap_err();
        assert!(found.contains(expected), "{bad}: {found}");
    }
}

#[test]
fn a_route_inherits_from_its_host_and_a_host_from_the_top_level() {
    let site = site(
        r#"
        listing = true
        index = ["a"]
        headers = { X-A = "top", X-B = "top" }
        cache_control = "no-cache"
        error_pages = { 404 = "/404", 500 = "/500" }
        types = { a = "text/a", b = "text/b" }
        max_body = 7
        [[host]]
        names = "h"
        root = "/h"
        headers = { x-a = "host" }
        error_pages = { 404 = "/h404" }
        [[host.route]]
        path = "/r/"
        index = []
        listing = false
        charset = false
        types = { a = "text/c" }
        headers = { X-C = false }
        cache_control = { "*.css" = "max-age=1", "image/*" = "max-age=2", "text/html" = "max-age=3" }
        "#,
    );
    let route = site.hosts[1].routes.iter().nth(1).unwrap();
    assert_eq!((route.files.index.len(), route.files.listing, route.max_body), (0, Listing::Off, 7));
    assert_eq!(site.hosts[1].routes.iter().next().unwrap().files.index, ["a"]);
    let set = |name: &str, value: &str| HeaderRule::Set(name.to_owned(), value.to_owned());
    assert_eq!(route.headers, [HeaderRule::Remove("X-C".to_owned()), set("x-a", "host"), set("X-B", "top")]);
    let cached = |path: &str, media_type: &str| {
        route.cache_control(&SafePath::parse(path).unwrap(), media_type).map(str::to_owned)
    };
    assert_eq!(cached("/r/a.css", "text/css").as_deref(), Some("max-age=1"));
    assert_eq!(cached("/r/a.b", "Image/PNG").as_deref(), Some("max-age=2"));
    assert_eq!(cached("/r/", "text/html; charset=utf-8").as_deref(), Some("max-age=3"));
    assert_eq!(cached("/r/a.txt", "text/plain").as_deref(), Some("no-cache"));
    let pages: Vec<_> =
        route.error_pages.iter().map(|(status, page)| format!("{} {page}", status.code())).collect();
    assert_eq!(pages, ["404 /h404", "500 /500"]);
    assert_eq!((route.files.types.lookup("x.a"), route.files.types.lookup("x.b")), ("text/c", "text/b"));
    assert_eq!(
        site.hosts[0].routes.iter().next().unwrap().files.types.lookup("x.b"),
        "text/b; charset=utf-8"
    );
}

#[test]
fn reads_the_action_of_every_route() {
    let site = site(
        r#"
        redirects = { "/old" = "/new", "/blog/" = { to = "https://b.example/$rest", status = 301 } }
        rewrites = { "/icon" = "/img/icon.png", "/app/" = "/app/index.html" }
        [[route]]
        path = "/img/"
        alias = "/mnt/images"
        [[route]]
        path = "/media/"
        root = "/mnt"
        [[route]]
        path = "/gone"
        return = 410
        [[route]]
        path = "/app/index.html"
        listing = true
        [[route]]
        path = "/to"
        redirect = "$scheme://$host/"
        status = 308
        [[host]]
        names = "www.example"
        redirects = { "/" = "https://example.org$path" }
        "#,
    );
    for (path, expected) in [
        ("/x", "/srv/www /x"),
        ("/old", "302 /new"),
        ("/blog/a%20b", "301 https://b.example/a%20b"),
        ("/icon", "/mnt/images /icon.png"),
        ("/app/x/y", "/srv/www /app/index.html"),
        ("/media/x", "/mnt /media/x"),
        ("/gone", "410"),
        ("/to", "308 http://any/"),
    ] {
        assert_eq!(planned(&site, "any", path), expected, "{path}");
    }
    assert_eq!(planned(&site, "www.example", "/a"), "302 https://example.org/a");
    // A glob has the action of the prefix around it, and needs no root of the host.
    let site = of_text(
        "listen = \"0.0.0.0:80\"\n[[route]]\npath = \"*.x\"\nheaders = { a = \"b\" }\n[[route]]\npath = \"/gone/\"\nreturn = 410",
    );
    assert_eq!([planned(&site, "any", "/gone/a.x"), planned(&site, "any", "/a.x")], ["410", "404"]);
}

#[test]
fn inherits_fallbacks() {
    let site = site(
        "fallback = \"/index.php?a=$path\"\n[[route]]\npath = \"/a/\"\nfallback_for = \"all\"\n\
         [[route]]\npath = \"/b/\"\nfallback = \"/b/x.html\"\nindex = \"own\"\n\
         [[route]]\npath = \"/c/\"\nfallback = false\n[[route]]\npath = \"/d/\"\nfallback = \"/d/\"\n\
         [[route]]\npath = \"*.x\"\n",
    );
    let host = &site.hosts[0];
    for (path, expected) in [
        ("/", r#"Some("/index.php /") Pages ["index.html", "index.php"]"#),
        ("/a/x", r#"Some("/index.php /") All ["index.html", "index.php"]"#),
        ("/b/x", r#"Some("/b/x.html /b/") Pages ["own"]"#),
        ("/b/a.x", r#"Some("/b/x.html /b/") Pages ["own"]"#),
        ("/c/x", r#"None Pages ["index.html", "index.php"]"#),
        ("/d/x", r#"Some("/d/ /d/") Pages ["index.html", "index.php"]"#),
    ] {
        let route = host.routes.get(host.routes.find(&SafePath::parse(path).unwrap()));
        let fallback = route.fallback.as_ref().map(|fallback| format!("{} {}", fallback.path, fallback.base));
        assert_eq!(
            format!("{fallback:?} {:?} {:?}", route.fallback_for, route.files.index),
            expected,
            "{path}"
        );
    }
    check_after(
        "fallback = \"index.php\"",
        &["site.toml:3: \"index.php\" is not a fallback; begin it with \"/\": it is a path of the same host"],
    );
    check_after(
        "[[route]]\npath = \"*.x\"\nfallback = \"/a?b=$rest\"",
        &["site.toml:5: \"/a?b=$rest\" is not a fallback; $rest needs a prefix as pattern; use $path"],
    );
}

#[test]
fn bounds_the_combinations_of_globs_and_prefixes() {
    let routes = |globs: usize, prefixes: usize| {
        let glob = |n| format!("[[route]]\npath = \"*.{n}\"\ngunzip = false\n");
        let prefix = |n| format!("[[route]]\npath = \"/{n}/\"\nalias = \"/mnt\"\n");
        (0..globs).map(glob).chain((0..prefixes).map(prefix)).collect::<String>()
    };
    assert!(after_two_lines(&routes(64, 64)).is_ok());
    check_after(
        &routes(64, 65),
        &[
            "site.toml: the globs and prefixes of a host make more than 4096 routes together; write globs for one folder, such as \"/a/**.php\"",
        ],
    );
    // A glob for another folder is not combined with these prefixes.
    let elsewhere = routes(64, 64) + "[[route]]\npath = \"/none/**.php\"\ngunzip = false\n";
    assert!(after_two_lines(&elsewhere).is_ok());
}

#[test]
fn rejects_a_route_that_cannot_work() {
    let check_route = |lines: &str, expected: &[&str]| check_after(&format!("[[route]]\n{lines}"), expected);
    check_route("return = 403", &["site.toml:3: a route has no path; add path = \"/…\""]);
    check_route("path = \"a\"", &["site.toml:4: \"a\" is not a path pattern; begin it with a slash"]);
    check_route(
        "path = \"/a/\"\nalias = \"/x\"\nroot = \"/y\"",
        &["site.toml:6: \"alias\" and \"root\" exclude each other; keep one of them"],
    );
    check_route(
        "path = \"/a\"\nalias = \"/x\"",
        &[
            "site.toml:5: an alias cannot take the place of \"/a\"; end the path with a slash: an alias replaces a folder",
        ],
    );
    check_route(
        "path = \"/a\"\nredirect = \"/x\"\nstatus = 304",
        &["site.toml:6: 304 is not a redirect status; expected 301, 302, 303, 307 or 308"],
    );
    check_route(
        "path = \"/a\"\nstatus = 301",
        &["site.toml:5: \"status\" is for a redirect; use return = STATUS, or add a redirect"],
    );
    check_route(
        "path = \"/a\"\nreturn = 401",
        &["site.toml:5: \"return\" cannot be 401, which needs a field of its own; use 403 or 404"],
    );
    check_route(
        "path = \"/a\"\nreturn = 200",
        &["site.toml:5: \"return\" is for errors, from 400 to 599; write respond = \"…\" for a text"],
    );
    check_route(
        "path = \"/a\"\nreturn = 301",
        &["site.toml:5: \"return\" is for errors, from 400 to 599; write redirect = \"/…\" and status = 301"],
    );
    check_route(
        "path = \"/a\"\nreturn = 999",
        &["site.toml:5: \"return\" cannot be 999; expected an integer from 400 to 599"],
    );
    check_route(
        "path = \"/a\"\nredirect = \"/b/$rest\"",
        &["site.toml:5: \"/b/$rest\" is not a valid target; $rest needs a prefix as pattern; use $path"],
    );
    check_route(
        "path = \"/a\"\nredirect = \"b\"",
        &[
            "site.toml:5: \"b\" is not a valid target; begin it with \"/\", \"$path\", \"http://\", \"https://\" or \"$scheme://\" and a host",
        ],
    );
    check_route(
        "path = \"/a\"\n[[route]]\npath = \"/a\"",
        &["site.toml:6: the pattern \"/a\" is given twice: site.toml:4 has it too; remove one of them"],
    );
    check_route(
        "path = \"/a/\"\nrewrite = \"/a/b\"",
        &[
            "site.toml:4: the rewrite of \"/a/\" leads back to itself; write fallback = \"/a/b\" instead, which responds where a file does not exist; or add a route with a root for \"/a/b\"",
        ],
    );
    check_after(
        "redirects = { \"/a\" = { status = 301 }, \"/b\" = { to = \"/\", code = 1 } }\nrewrites = { \"/c\" = 5 }",
        &[
            "site.toml:3: a redirect has no target; add to = \"/…\"",
            "site.toml:3: unknown key \"code\"; a redirect has \"to\" and \"status\"",
            "site.toml:4: \"/c\" cannot be an integer; expected a path",
        ],
    );
    check(
        "listen = \"0.0.0.0:80\"\n[[route]]\npath = \"/a\"",
        &[
            "site.toml:2: this route has no action, and its host has no root to inherit; add root, alias, redirect, rewrite or return to it, or a root to the host",
        ],
    );
    let many: String = (0..=1000).map(|n| format!("\"/{n}\" = \"/\"\n")).collect();
    check_after(
        &format!("[redirects]\n{many}"),
        &[
            "site.toml:1004: a host has more than 1000 routes, redirects and rewrites; use patterns that match more",
        ],
    );
}

#[test]
fn a_route_for_every_path_replaces_the_root() {
    let site = site("[[route]]\npath = \"/\"\nreturn = 503");
    let route = site.hosts[0].routes.iter().next().unwrap();
    assert_eq!(route.action, Action::Return(Status::SERVICE_UNAVAILABLE));
}

#[test]
fn leaves_out_index_files_whose_route_responds() {
    let site = site(
        "index = [\"a.x\", \"b.y\"]\n[[route]]\npath = \"/gone/a.x\"\nreturn = 410\n[[route]]\npath = \"/no/**/*.y\"\nreturn = 403\n\
         [[route]]\npath = \"/text/a.x\"\nrespond = \"closed\"\n\
         [[route]]\npath = \"/to/a.x\"\nredirect = \"/to/\"",
    );
    for (path, expected) in [
        ("/", "a.x b.y"),
        ("/gone/", "b.y"),
        ("/text/", "b.y"),
        ("/no/", "a.x"),
        ("/no/in/", "a.x"),
        // A redirect leads from the name to the folder.
        ("/to/", "a.x b.y"),
    ] {
        let plan = plan(&site.hosts[0], taipan_http::target::SafePath::parse(path).unwrap(), None);
        let PlannedAction::Files(files) = plan.action else { panic!("{path} has files") };
        assert_eq!(files.index.join(" "), expected, "{path}");
    }
}

#[test]
fn leaves_out_suffixes_of_files_whose_route_responds() {
    let site = site(
        "try_suffixes = [\".a\", \".b\", \"/\", \".c\"]\n[[route]]\npath = \"/gone.b\"\nreturn = 410\n\
         [[route]]\npath = \"*.c\"\ninterpreter = \"/bin/sh\"\n[[route]]\npath = \"/none/\"\ntry_suffixes = []\n\
         [[route]]\npath = \"/last/\"\ntry_suffixes = [\"/\", \".d\"]",
    );
    for (path, expected) in [("/x", ".a .b, "), ("/gone", ".a, "), ("/none/x", ", "), ("/last/x", ", .d")] {
        let plan = plan(&site.hosts[0], taipan_http::target::SafePath::parse(path).unwrap(), None);
        let PlannedAction::Files(files) = plan.action else { panic!("{path} has files") };
        let Suffixes { before_folder, without_folder } = &*files.suffixes;
        assert_eq!(format!("{}, {}", before_folder.join(" "), without_folder.join(" ")), expected, "{path}");
    }
}
