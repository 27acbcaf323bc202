//! Limits of speed and of requests: which apply to a path.

use super::*;

/// The limits of `path`, each in words.
fn limits_of(site: &Site, path: &str) -> Vec<String> {
    let path = SafePath::parse(path).unwrap();
    let mut found = Vec::new();
    let host = &site.hosts[0];
    let route = host.routes.get(host.routes.find(&path));
    applying::each_applying(&site.traffic_limits, host, route, &path, |id| {
        found.push(site.traffic_limits[usize::from(id.0)].to_string());
    });
    found
}

#[test]
fn limits_of_a_path_apply_to_its_name_with_a_language() {
    let site = site(
        "language_fallback = [\"suffix\", \"folder\"]\n\
         [[limit]]\nrequests = \"5/m\"\n\
         [[limit]]\npaths = [\"/iso/\"]\nby = \"all\"\nrequests = 9\n\
         [[route]]\npath = \"/iso/\"\n\
         [[route.limit]]\nby = \"all\"\nconcurrent = 2\n\
         [[route]]\npath = \"/none/\"\nlanguage_fallback = []\n\
         [[route]]\npath = \"/old/\"\nrewrite = \"/iso/x\"\n",
    );
    let top = "requests 5 per 60s, 1 at once for each client (site.toml:4)";
    let iso = "requests 9 per 1s, 9 at once in all (site.toml:6)";
    let own = "concurrent 2, 0 more wait in all (site.toml:12)";
    for (path, expected) in [
        ("/iso/a.html", &[top, iso, own][..]),
        ("/iso/a.de.html", &[top, iso, own]),
        ("/(de)/iso/a.html", &[top, iso, own]),
        ("/(de)/iso/a.de.html", &[top, iso, own]),
        ("/(de)/old/a", &[top, own]),
        ("/(de)/a.html", &[top]),
        ("/(deu)/iso/a.html", &[top]),
        ("/none/a.de.html", &[top]),
        ("/iso;a/a.html;b", &[top, iso, own]),
        ("/none/..;/iso/a.html", &[top, iso, own]),
    ] {
        assert_eq!(limits_of(&site, path), expected, "{path}");
    }
}

#[test]
fn limits_of_a_path_without_its_language_apply_if_the_route_that_responds_takes_it_away() {
    let site = site(
        "[[limit]]\npaths = [\"/old/a.html\"]\nby = \"all\"\nrequests = 9\n\
         [[route]]\npath = \"/new/\"\nlanguage_fallback = [\"suffix\"]\n\
         [[route]]\npath = \"/old/\"\nrewrite = \"/new/x\"\n",
    );
    let a = "requests 9 per 1s, 9 at once in all (site.toml:3)";
    assert_eq!(limits_of(&site, "/old/a.de.html"), [a]);
    assert!(limits_of(&site, "/a.de.html").is_empty());
}

#[test]
fn a_line_that_is_one_too_many_for_a_path_applies_to_the_path_without_its_language() {
    let text = "listen = [\"127.0.0.1:0\"]\nroot = \"www\"\nthrottle_file = \"throttle\"\n\
                language_fallback = [\"folder\"]\n";
    let lines = "/(de)/** 1000\n".repeat(10) + "** 5000\n";
    let site = load_files(&[("site.toml", text), ("throttle", &lines)]).unwrap();
    assert_eq!(limits_of(&site, "/a/x").len(), 1);
    let found = limits_of(&site, "/(de)/a/x");
    assert_eq!(found.len(), 11, "{found:?}");
    assert!(found[10].contains("throttle:11"), "{found:?}");
}

#[test]
fn limits_of_the_route_the_host_and_the_top_level_all_apply() {
    let site = site(
        "[[limit]]\nrequests = \"5/m\"\n\
         [[limit]]\nby = \"all\"\npaths = [\"/iso/\", \"*.iso\"]\ndownload = \"1MB\"\nmin_download = \"20kB\"\n\
         [[route]]\npath = \"/iso/\"\n\
         [[route.limit]]\nby = \"cookie:session\"\nconcurrent = 2\nqueue = 3\nupload = 5\ndry_run = true\n\
         [[route.limit]]\nname = \"named\"\nby = \"field:X-Key\"\nrequests = 7\n\
         [[route]]\npath = \"*.old\"\nrewrite = \"/iso/x\"\n\
         [[route]]\npath = \"/iso/**.gz\"\n",
    );
    let top = "requests 5 per 60s, 1 at once for each client (site.toml:3)";
    let iso = "download 1000000 B/s, at least 20000 B/s each in all (site.toml:5)";
    let own = "upload 5 B/s, concurrent 2, 3 more wait for each cookie:session, dry run (site.toml:12)";
    assert_eq!(limits_of(&site, "/"), [top]);
    assert_eq!(limits_of(&site, "/a.iso"), [top, iso]);
    assert_eq!(limits_of(&site, "/iso/a"), [top, iso, own]);
    assert_eq!(limits_of(&site, "/iso/a.gz"), [top, iso, own], "a glob within the prefix");
    assert_eq!(limits_of(&site, "/a.old"), [top, own], "rewritten");
    assert_eq!(site.traffic_limits.len(), 4, "each table is one limit");
    let named = crate::limit::named(&site.traffic_limits, "named").expect("it is there");
    assert_eq!(
        site.traffic_limits[usize::from(named.0)].to_string(),
        "\"named\": requests 7 per 1s, 7 at once for each field:x-key (site.toml:18)"
    );
    assert_eq!(crate::limit::named(&site.traffic_limits, "client"), None);
    let identities: std::collections::BTreeSet<u64> =
        site.traffic_limits.iter().map(|limit| limit.identity).collect();
    assert_eq!(identities.len(), 4);
}

#[test]
fn every_limit_of_a_route_and_of_the_one_that_it_is_rewritten_to_applies() {
    let limits = "[[route.limit]]\nby = \"all\"\nrequests = 1\n".repeat(16);
    let site = site(&format!(
        "[[route]]\npath = \"/old/\"\nrewrite = \"/new/x\"\n{limits}[[route]]\npath = \"/new/\"\n{limits}"
    ));
    assert_eq!(limits_of(&site, "/old/a").len(), 32);
}

#[test]
fn a_limit_has_the_same_identity_where_it_has_moved() {
    let identities =
        |text: &str| -> Vec<u64> { site(text).traffic_limits.iter().map(|limit| limit.identity).collect() };
    let old = identities("[[limit]]\nrequests = 1\n[[limit]]\nby = \"all\"\ndownload = 5");
    let new = identities("\n\n[[limit]]\nby = \"all\"\ndownload = 7\n[[limit]]\nrequests = 2");
    assert_eq!(old, [new[1], new[0]]);
    let same = identities("[[limit]]\nrequests = 1\n[[limit]]\nrequests = 2");
    assert_ne!(same[0], same[1]);
}

#[test]
fn rejects_limits_that_limit_nothing_and_keys_without_others() {
    check_after(
        "[[limit]]\nby = \"all\"",
        &["site.toml:3: this limit limits nothing; add download, upload, requests or concurrent"],
    );
    check_after(
        "[[limit]]\nby = \"adress\"\nrequests = 1",
        &[
            "site.toml:4: \"by\" cannot be \"adress\"; expected \"connection\", \"client\", \"route\", \"host\", \"all\", \
           \"field:NAME\" or \"cookie:NAME\"",
        ],
    );
    check_after(
        "[[limit]]\nby = \"field:\"\nrequests = 1",
        &[
            "site.toml:4: \"by\" cannot be \"field:\"; expected \"connection\", \"client\", \"route\", \"host\", \"all\", \
           \"field:NAME\" or \"cookie:NAME\"",
        ],
    );
    check_after(
        "[[limit]]\nrequests = \"0/s\"",
        &[
            "site.toml:4: \"requests\" cannot be \"0/s\"; expected a rate such as \"10/s\", \"5/m\" or \"100/h\", or an \
           integer per second, from 1 to 1000000",
        ],
    );
    check_after(
        "[[limit]]\nrequests = 1\nburst = 5\nmin_download = 5\nqueue = 1",
        &[
            "site.toml:5: \"burst\" is for \"download\" or \"upload\"; add \"download\" or \"upload\", or remove it",
            "site.toml:6: \"min_download\" is for \"download\"; add \"download\", or remove it",
            "site.toml:7: \"queue\" is for \"concurrent\"; add \"concurrent\", or remove it",
        ],
    );
    check_after(
        "[[limit]]\ndownload = 10\nmin_download = 11\nstatus = 503",
        &[
            "site.toml:5: \"min_download\" is above \"download\"; lower it: nothing would be served",
            "site.toml:6: \"status\" is for \"requests\" or \"concurrent\"; add \"requests\" or \"concurrent\", or remove it",
        ],
    );
    check_after(
        "[[limit]]\nrequests = 1\nstatus = 401",
        &["site.toml:5: \"status\" cannot be 401, which needs a field of its own; use 429 or 503"],
    );
    check_after(
        "[[limit]]\nname = \"a\"\nrequests = 1\n[[limit]]\nname = \"a\"\nrequests = 2",
        &[
            "site.toml:7: two limits have the name \"a\": the other is in site.toml:3; give one of them another name",
        ],
    );
    check_after(
        "[[limit]]\nname = \"a b\"\nrequests = 1",
        &["site.toml:4: \"name\" is not a name of letters, digits and dashes; expected a string"],
    );
    check_after(
        "[[limit]]\nrequests = 1\npaths = \"a/b\"",
        &["site.toml:5: \"a/b\" is not a path pattern; begin it with a slash"],
    );
    check_after(
        "[[rule]]\nthen = \"limit\"\nlimit = \"a\"\n[[limit]]\nrequests = 1",
        &["site.toml:5: there is no limit \"a\"; add a [[limit]] with this name"],
    );
    let many = "[[limit]]\nrequests = 1\n".repeat(17);
    check_after(&many, &["site.toml:3: more than 16 limits apply here; merge some, or move them to routes"]);
}

#[test]
fn a_throttle_file_is_a_limit_for_each_line_and_reports_bad_ones() {
    let text = format!("{TWO_LINES}throttle_file = \"t/throttle\"\n");
    let lines = "**.jpg|**.gif 2000-50000\nbad line\n/jef/** 20000\n**.iso 7-5\n";
    let files = [("site.toml", text.as_str()), ("t/throttle", lines)];
    let Configuration { site, warnings, .. } = read(Path::new("site.toml"), &Files(&files)).unwrap();
    assert_eq!(
        limits_of(&site, "/jef/a.jpg"),
        [
            "download 50000 B/s, at least 2000 B/s each in all (t/throttle:1)",
            "download 20000 B/s in all (t/throttle:3)",
        ]
    );
    assert!(limits_of(&site, "/a.iso").is_empty());
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "t/throttle:2: this line has no rate, so it limits nothing; write a pattern, spaces, and bytes per second: \
             \"**.iso 50000\"",
            "t/throttle:4: the minimum is above the maximum, so it limits nothing; write min-max: \"1000-50000\"",
        ]
    );
    let many: String = (0..20).map(|n| format!("** {}\n", 1000 + n)).collect();
    let files = [("site.toml", text.as_str()), ("t/throttle", many.as_str())];
    let Configuration { site, warnings, .. } = read(Path::new("site.toml"), &Files(&files)).unwrap();
    assert_eq!(limits_of(&site, "/").len(), 10, "the first ten lines that match");
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 10, "{warnings:?}");
    assert_eq!(
        warnings[0],
        "t/throttle:11: 10 lines before this one match the same paths, so it limits nothing; move it to the front, or \
         make one line of several"
    );
    check(
        &text,
        &["site.toml:3: t/throttle cannot be read: entity not found; check its path and its permissions"],
    );
    let too_many: String = (0..1002).map(|n| format!("a{n} 5\n")).collect();
    let files = [("site.toml", text.as_str()), ("t/throttle", too_many.as_str())];
    let errors = load_files(&files).map(|_| ()).unwrap_err();
    assert_eq!(
        errors,
        [
            "site.toml: there are more than 1000 limits, with the lines of throttle files; use patterns that match more"
        ]
    );
}
