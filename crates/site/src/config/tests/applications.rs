//! Applications, their endpoints, and the cache of their responses.

use super::*;

#[test]
fn reads_applications() {
    let text = |more: &str| {
        format!(
            "listen = \"127.0.0.1:1\"\nroot = \"/srv\"\n[[route]]\npath = \"*.php\"\ninterpreter = \"php\"\n\
             [[route]]\npath = \"/app/\"\napplication = \"app\"\n[[application]]\nname = \"php\"\n\
             address = [\"127.0.0.1:9\", \"unix:/run/php.sock\"]\n[[application]]\nname = \"app\"\n{more}"
        )
    };
    let site =
        load_files(&[("site.toml", &text("command = [\"/srv/app/run\", \"-q\"]\nprotocol = \"http\""))])
            .unwrap();
    let names: Vec<&str> = site.upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
    assert_eq!(names, ["php", "app"]);
    let (php, app) = (&site.upstreams[0], &site.upstreams[1]);
    assert_eq!((php.connections(), php.managed()), (128, None));
    let managed = app.managed().unwrap();
    assert_eq!((managed.command.len(), managed.folder.as_path()), (2, Path::new("/srv/app")));
    assert_eq!((managed.min_processes, managed.max_processes, app.connections()), (1, 4, 4));
    assert_eq!((php.multiplex, php.multiplexed_requests()), (1, 0));
    // Below the idle timeouts of common web servers.
    assert_eq!([php.keep, app.keep].map(|time| time.as_secs()), [10, 1]);
    let interpreters: Vec<_> = site.hosts[0].routes.iter().take(3).map(Route::upstream).collect();
    assert_eq!(interpreters, [None, Some(0), Some(1)]);
    let several = text("address = \"127.0.0.1:1\"\nconnections = 2\nmultiplex = 1024");
    let several = load_files(&[("site.toml", &several)]).unwrap();
    assert_eq!((several.upstreams[1].multiplex, several.upstreams[1].multiplexed_requests()), (1024, 2048));

    let planned = |target: &str| {
        let path = SafePath::parse(target).unwrap();
        match plan(site.hosts.at(0), path, None).action {
            PlannedAction::Upstream(planned) => {
                let (script_name, path_info) = planned.script_name_and_path_info();
                format!("{script_name} {path_info}")
            }
            other => format!("{other:?}"),
        }
    };
    assert_eq!(planned("/app/a/b%20c"), "/app /a/b c");
    assert_eq!(planned("/app/"), "/app /");
    assert_eq!(planned("/app/a/"), "/app /a/");

    let rejects = |more: &str, expected: &str| match load_files(&[("site.toml", &text(more))]) {
        Ok(_) => panic!("accepted: {more}"),
        Err(errors) => {
            assert!(errors.iter().any(|line| line.contains(expected)), "{expected}: {errors:?}");
        }
    };
    rejects("", "neither an address nor a command; add the address");
    rejects("address = \"x\"", "\"x\" is not an address");
    rejects(
        "address = [\"127.0.0.1:1\", \"127.0.0.1:1\"]",
        "127.0.0.1:1 is given twice; remove one of them; \"weights\" says which one gets more requests",
    );
    // An error of an application is reported once, and not again for a route that names it.
    for (more, expected) in [
        (
            "address = \"http://127.0.0.1:9000\"",
            "leave out \"http://\": write \"127.0.0.1:9000\", and add protocol = \"http\"",
        ),
        ("command = \"run\"", "\"command\" cannot begin with \"run\""),
        ("", "this application has neither an address nor a command"),
    ] {
        let errors = load_files(&[("site.toml", &text(more))]).map(|_| ()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{more}: {errors:?}");
    }
    rejects("address = \"127.0.0.1:1\"\nmultiplex = 0", "\"multiplex\"");
    rejects("address = \"127.0.0.1:1\"\nmultiplex = 1025", "\"multiplex\"");
    rejects("address = \"127.0.0.1:1\"\nprotocol = \"scgi\"\nmultiplex = 2", "\"multiplex\" is for FastCGI");
    rejects("command = \"/run\"\nprotocol = \"http\"\nmultiplex = 1", "\"multiplex\" is for FastCGI");
    let unknown = "address = \"127.0.0.1:1\"\nprotocl = \"https\"\ntls_ca = \"a\"\n[[route]]\npath = \"/b/\"\n\
                   proxy = \"http://app\"";
    let errors = load_files(&[("site.toml", &text(unknown))]).map(|_| ()).unwrap_err();
    assert!(errors.len() == 1 && errors[0].contains("did you mean \"protocol\"?"), "{errors:?}");
    let misspelled = "address = \"127.0.0.1:1\"\nprotocol = \"htps\"\ntls_ca = \"a\"\nhttp2 = true\nmultiplex = 2\n\
                      [application.health]\npath = \"/\"\n[[route]]\npath = \"/b/\"\nproxy = \"http://app\"";
    let errors = load_files(&[("site.toml", &text(misspelled))]).map(|_| ()).unwrap_err();
    assert!(errors.len() == 1 && errors[0].contains("\"protocol\" cannot be \"htps\""), "{errors:?}");
    rejects("address = []", "\"address\" is empty");
    rejects("command = \"run\"", "\"command\" cannot begin with \"run\"");
    rejects("command = \"/run\"\naddress = \"127.0.0.1:1\"", "exclude each other");
    rejects("command = \"/run\"\nconnections = 3", "\"connections\" is for an application with an address");
    rejects(
        "address = \"127.0.0.1:1\"\nspare_processes = 3",
        "\"spare_processes\" is for an application with a command",
    );
    rejects(
        "command = \"/run\"\nmin_processes = 3\nprocesses = 2",
        "\"min_processes\" is 3, and \"processes\" only 2",
    );
    rejects(
        "command = \"/run\"\n[[application]]\nname = \"app\"\ncommand = \"/run\"",
        "two applications \"app\"",
    );
    rejects("command = \"/run\"\n[[application]]\nname = \"a/b\"\ncommand = \"/run\"", "\"name\" cannot be");
    let route = |more: &str| format!("command = \"/run\"\n[[route]]\npath = \"/b/\"\n{more}");
    rejects(&route("application = \"none\""), "there is no application \"none\"; add an [[application]]");
    rejects(&route("application = \"app\"\ncgi = true"), "\"cgi\" and \"application\" exclude each other");
    rejects(&route("interpreter = \"none\""), "or the name of an [[application]]");
}

#[test]
fn settings_of_endpoints_stand_where_the_endpoints_do() {
    let app = "[[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n";
    let check = |behind: &str, expected: &str| {
        let errors = after_two_lines(&format!("{app}{behind}")).map(|_| ()).unwrap_err();
        assert!(errors.iter().any(|error| error.contains(expected)), "{behind}: {errors:?}");
    };
    check(
        "hedge_budget = 5",
        "\"hedge_budget\" has no \"hedge_after\" beside it; add \"hedge_after\", or remove it",
    );
    check(
        "hedge_after = \"1s\"\nbalance = \"sticky\"",
        "\"hedge_after\" sends requests to another endpoint than \"balance\" says",
    );
    check("hedge_after = \"1s\"\nbalance = \"hash client\"", "than \"balance\" says");
    check("hedge_after = \"0s\"", "\"hedge_after\" cannot be \"0s\"");
    check("hedge_after = \"1s\"\nhedge_budget = 101", "\"hedge_budget\" cannot be 101");
    let route = "[[route]]\npath = \"/\"\n";
    for (key, instead) in [("health", "[application.health]"), ("breaker", "[application.breaker]")] {
        check(
            &format!("{route}proxy = \"http://app\"\n[route.proxy_{key}]\nwindow = \"5s\""),
            &format!("\"proxy_{key}\" belongs to the application; write it as {instead}"),
        );
        check(
            &format!("{route}proxy = \"http://127.0.0.1:3\"\n[route.proxy_{key}]\nwindows = \"5s\""),
            "unknown key \"windows\"",
        );
        check(
            &format!("{route}[route.proxy_{key}]\nwindow = \"5s\""),
            "is for a route whose upstream speaks HTTP",
        );
    }
    for key in ["hedge_after = \"1s\"", "hedge_budget = 20"] {
        let (name, _) = key.split_once(' ').unwrap();
        check(
            &format!("{route}proxy = \"http://app\"\nproxy_{key}"),
            &format!(
                "\"proxy_{name}\" belongs to the application; write it as \"{name}\" in the [[application]]"
            ),
        );
        check(&format!("{route}proxy_{key}"), "is for a route whose upstream speaks HTTP");
    }
    let two = "proxy = [\"http://127.0.0.1:3\", \"http://127.0.0.1:4\"]\n";
    check(
        &format!("{route}{two}proxy_hedge_budget = 5"),
        "\"proxy_hedge_budget\" has no \"proxy_hedge_after\" beside it; add \"proxy_hedge_after\", or remove it",
    );
    check(
        &format!("{route}{two}proxy_hedge_after = \"1s\"\nproxy_balance = \"sticky\""),
        "\"proxy_hedge_after\" sends requests to another endpoint than \"proxy_balance\" says; remove it, or write \
         proxy_balance = \"least\"",
    );
    let hedged = |path: &str, after: &str| {
        format!(
            "[[route]]\npath = \"/{path}/\"\n{two}proxy_hedge_after = \"{after}\"\nproxy_hedge_budget = 20\n"
        )
    };
    let site = after_two_lines(&[hedged("a", "1s"), hedged("b", "1s"), hedged("c", "2s")].concat()).unwrap();
    let hedging: Vec<_> = site.upstreams.iter().map(|upstream| upstream.hedging.clone()).collect();
    let of = |seconds| Some(Hedging { after: Duration::from_secs(seconds), budget: 20 });
    assert_eq!(hedging, [of(1), of(2)], "routes share an upstream if they say the same");
    let site = after_two_lines(
        "[[route]]\npath = \"/a/\"\nproxy = \"http://127.0.0.1:3\"\n[route.proxy_breaker]\nrequests = 5\n\
         [[route]]\npath = \"/b/\"\nproxy = \"http://127.0.0.1:3\"\n[route.proxy_breaker]\nrequests = 5\n\
         [[route]]\npath = \"/c/\"\nproxy = \"http://127.0.0.1:3\"\n[route.proxy_health]\npath = \"/h\"\n",
    )
    .unwrap();
    let breakers: Vec<_> = site.upstreams.iter().map(|upstream| upstream.breaker.is_some()).collect();
    assert_eq!(breakers, [true, false], "two routes share one");
}

#[test]
fn rejects_keys_of_the_cache_that_say_nothing() {
    let check_key = |line: &str, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|text| format!("site.toml:4: {text}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(&format!("root = \"/\"\nlisten = []\nresponse_cache = true\n{line}\n"), &expected);
    };
    let what_to_do = "list the parameters that count, or with a \"!\" in front of each those that do not: [\"page\"] or [\"!utm_*\"]";
    let parameter = |name: &str| format!("\"{name}\" does not say which parameters count; {what_to_do}");
    check_key("response_cache_query = [\"a\", \"!b\"]", &[&parameter("a"), &parameter("!b")]);
    for name in ["", "!", "a*b", "a=1", "a&b"] {
        check_key(&format!("response_cache_query = [\"{name}\"]"), &[&parameter(name)]);
    }
    check_key(
        "response_cache_purge = [\"localhost\"]",
        &[
            "\"localhost\" is not a network; write an IP address, a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or \"unix\"; names are not resolved",
        ],
    );
    let many = vec!["\"10.0.0.1\""; 1025].join(",");
    check_key(
        &format!("response_cache_purge = [{many}]"),
        &["\"response_cache_purge\" has too many entries; expected at most 1024; merge networks"],
    );
    check_key(
        "response_cache_surrogate = \"a b\"",
        &[
            "\"response_cache_surrogate\" is not a name: a word without spaces and separators; expected a string",
        ],
    );
    check_key(
        "response_cache_targets = [\"a b\"]",
        &[
            "\"response_cache_targets\" has a name that no field has; expected a string, or an array of strings",
        ],
    );
}

#[test]
fn stored_responses_are_in_no_folder_of_a_host() {
    let config = |folder: &str| {
        format!("listen = \"127.0.0.1:8080\"\nroot = \"/srv/$host\"\n[cache_files]\nfolder = \"{folder}\"\n")
    };
    check(
        &config("/srv/cache"),
        &[
            "site.toml:4: clients reach /srv/cache as the folder of a host; name a folder that is not beside those of hosts",
        ],
    );
    of_text(&config("/srv/a.example/cache"));
    of_text(&config("/var/cache"));
}

#[track_caller]
fn check_warnings(text: String, expected: &[&str]) {
    let files = [("site.toml", &*text)];
    let found = read(Path::new("site.toml"), &Files(&files)).unwrap_or_else(|errors| panic!("{errors:?}"));
    let found: Vec<String> = found.warnings.iter().map(ConfigError::to_string).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn warns_of_a_choice_between_endpoints_where_there_is_one() {
    let check = |key: &str, addresses: &str, expected: &str| {
        let text = format!(
            "listen = \"127.0.0.1:80\"\n[[application]]\nname = \"a\"\nprotocol = \"http\"\n\
             address = {addresses}\n{key}\n[[route]]\npath = \"/\"\nproxy = \"http://a\"\n"
        );
        let warnings: Vec<&str> = [expected].into_iter().filter(|text| !text.is_empty()).collect();
        check_warnings(text, &warnings);
    };
    let (hedged, sticky) = ("hedge_after = \"1s\"", "balance = \"sticky\"");
    let warning = |key: &str| {
        format!(
            "site.toml:6: \"{key}\" chooses between endpoints, and there is one; add other addresses, or remove it"
        )
    };
    for one in ["\"127.0.0.1:1\"", "[\"unix:/run/a.sock\"]"] {
        check(hedged, one, &warning("hedge_after"));
        check(sticky, one, &warning("balance"));
        check("balance = \"hash client\"", one, &warning("balance"));
        check("balance = \"least\"", one, "");
    }
    for several in ["[\"127.0.0.1:1\", \"127.0.0.1:2\"]", "\"a.example:1\"", "\"_http._tcp.a.example\""] {
        check(hedged, several, "");
        check(sticky, several, "");
    }
    let route = |key: &str| {
        format!(
            "listen = \"127.0.0.1:80\"\n[[route]]\npath = \"/\"\nproxy = \"http://127.0.0.1:1\"\n\n{key}\n"
        )
    };
    check_warnings(route("proxy_hedge_after = \"1s\""), &[&warning("proxy_hedge_after")]);
    check_warnings(route("proxy_balance = \"sticky\""), &[&warning("proxy_balance")]);
}

#[test]
fn warns_of_two_upstreams_of_a_host_with_the_same_sticky_cookie() {
    let application = |name: &str, port: u16, balance: &str| {
        format!(
            "[[application]]\nname = \"{name}\"\nprotocol = \"http\"\naddress = [\"127.0.0.1:{port}\", \
             \"127.0.0.2:{port}\"]\nbalance = \"{balance}\"\n"
        )
    };
    let route = |path: &str, proxy: &str| format!("[[route]]\npath = \"{path}\"\nproxy = {proxy}\n");
    let check = check_warnings;
    let listen = "listen = [\"127.0.0.1:80\"]\n".to_owned();
    let routes = listen.clone() + &route("/a/", "\"http://a\"") + &route("/b/", "\"http://b\"");
    check(
        routes.clone() + &application("a", 1, "sticky") + &application("b", 2, "sticky"),
        &[
            "site.toml:17: the application \"b\" has the cookie \"endpoint\" of the application \"a\", on the same \
           host; name another cookie, as in \"sticky NAME\"",
        ],
    );
    for (of_b, port) in [("sticky other", 2), ("least", 2), ("sticky", 1)] {
        check(routes.clone() + &application("a", 1, "sticky") + &application("b", port, of_b), &[]);
    }
    let urls = |port: u16| {
        format!("[\"http://127.0.0.1:{port}\", \"http://127.0.0.2:{port}\"]\nproxy_balance = \"sticky\"")
    };
    check(
        listen.clone() + &route("/a/", &urls(1)) + &route("/c/", &urls(1)) + &route("/b/", &urls(2)),
        &[
            "site.toml:13: the upstream http://127.0.0.1:2, http://127.0.0.2:2 has the cookie \"endpoint\" of the \
           upstream http://127.0.0.1:1, http://127.0.0.2:1, on the same host; name another cookie, as in \
           \"sticky NAME\"",
        ],
    );
    // Of different hosts.
    let host = |name: &str, port: u16| {
        format!("[[host]]\nnames = \"{name}\"\n[[host.route]]\npath = \"/\"\nproxy = {}\n", urls(port))
    };
    check(listen + &host("a.example", 1) + &host("b.example", 2), &[]);
}

#[test]
fn says_how_to_write_the_path_of_a_health_check() {
    for (path, expected) in [
        ("health", "write a path that begins with a slash, such as \"/health\""),
        ("/a b", "write spaces, \"#\" and what is not ASCII percent-encoded, as in \"/health%20check\""),
        ("/a#b", "write spaces, \"#\" and what is not ASCII percent-encoded, as in \"/health%20check\""),
    ] {
        let text = format!(
            "[[application]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\nprotocol = \"http\"\n\
             [application.health]\npath = \"{path}\""
        );
        let errors = after_two_lines(&text).map(|_| ()).unwrap_err();
        assert!(errors.iter().any(|error| error.ends_with(expected)), "{path}: {errors:?}");
    }
}
