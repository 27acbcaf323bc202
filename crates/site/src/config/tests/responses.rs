//! Fields of responses, and texts in place of files.

use super::*;

#[test]
fn rejects_settings_that_cannot_be_sent() {
    check_after(
        "headers = { Content-Length = \"1\", \"a b\" = \"c\", X = \"a\\nb\", Y = 5, Z = \"1\", z = \"2\" }",
        &[
            "site.toml:3: the field \"Content-Length\" cannot be changed; the server sets it",
            "site.toml:3: \"a b\" is not a field name; expected letters, digits and dashes",
            "site.toml:3: the value of \"X\" cannot be sent in a field; remove control characters, and spaces at its ends",
            "site.toml:3: \"Y\" cannot be an integer; expected a string, or false",
            "site.toml:3: the field \"z\" is given twice; keep one; names of fields ignore case",
        ],
    );
    check_after(
        "[headers]\nServer = false",
        &["site.toml:4: the field \"Server\" cannot be changed; see \"server_header\""],
    );
    check_after(
        "cache_control = 5",
        &["site.toml:3: \"cache_control\" cannot be 5; expected a string, or a table of `pattern = value`"],
    );
    check_after(
        "[cache_control]\nx = \"no-store\"\n\"/a\" = \"a\\r\\nb\"",
        &[
            "site.toml:4: \"x\" is not a path pattern; begin it with a slash",
            "site.toml:5: \"a\\r\\nb\" is not a value of Cache-Control; expected directives such as \"max-age=3600\"",
        ],
    );
    check_after(
        "error_pages = { 200 = \"/a\", 404 = \"/\", 500 = \"/../a\", 501 = true }",
        &[
            "site.toml:3: \"200\" is not an error status; expected a number from 400 to 599",
            "site.toml:3: \"/\" is not the path of a page; expected the path of a file in this host, with a slash in front",
            "site.toml:3: \"/../a\" is not the path of a page; expected the path of a file in this host, with a slash in front",
            "site.toml:3: \"501\" cannot be a boolean; expected a path such as \"/errors/404.html\"",
        ],
    );
    check_after(
        "types = { a = \"text\", \"a/b\" = \"text/a\" }\ncharset = \"\"\ndefault_type = \"x\"",
        &[
            "site.toml:3: \"text\" is not a media type, e.g. \"text/html\"; correct it or remove it",
            "site.toml:3: \"a/b\" is not a file name extension, e.g. \"html\"; correct it or remove it",
            "site.toml:4: \"\" is not the name of a charset, e.g. \"utf-8\"; correct it or remove it",
            "site.toml:5: \"x\" is not a media type, e.g. \"text/html\"; correct it or remove it",
        ],
    );
    check_after(
        "index = \"a/b\"",
        &["site.toml:3: \"a/b\" is not a file name; write a name without slashes, e.g. \"index.html\""],
    );
    check_after(
        "try_suffixes = [\".html\", \"\", \"/\", \"/\", \"/index.html\"]",
        &[
            "site.toml:3: \"\" is no end of a name; write e.g. \".html\", and \"/\" once for the folder",
            "site.toml:3: \"/\" is no end of a name; write e.g. \".html\", and \"/\" once for the folder",
            "site.toml:3: \"/index.html\" is no end of a name; write e.g. \".html\", and \"/\" once for the folder",
        ],
    );
    check_after(
        "try_suffixes = [\"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"9\"]",
        &["site.toml:3: there are more than 8 suffixes; write those that names have"],
    );
}

#[test]
fn a_host_that_is_served_without_tls_inherits_no_hsts() {
    let field = |own: &str| {
        let site = of_text(&format!(
            "listen = [\"127.0.0.1:443 tls\", \"127.0.0.1:80\"]\nroot = \"/srv\"\ncertificate = \"a.pem\"\nhsts = \"5m\"\n\
             [[host]]\nnames = \"b.example\"\nroot = \"/b\"\n{own}\n"
        ));
        let host = &site.hosts[1];
        (host.tls.plain, host.routes.iter().next().unwrap().headers.len())
    };
    assert_eq!(field(""), (PlainRequests::Redirected, 1));
    assert_eq!(field("https_redirect = true"), (PlainRequests::Redirected, 1));
    assert_eq!(field("https_redirect = false"), (PlainRequests::Served, 0));
}

#[test]
fn rejects_what_browsers_would_not_obey() {
    for (line, expected) in [
        (
            "cors_origins = [\"https://a.example/\"]",
            "\"https://a.example/\" is not an origin; an origin ends with its host",
        ),
        ("cors_origins = \"example.org\"", "begin it with https://, or write \"*\" for every origin"),
        ("cors_origins = \"null\"", "every page in a sandbox has this origin"),
        ("cors_origins = \"https://a.*.example\"", "a star stands for whole labels in front"),
        (
            "cors_origins = \"*\"\ncors_credentials = true",
            "\"cors_origins\" cannot be \"*\" with \"cors_credentials\"; name each of them",
        ),
        (
            "cors_origins = \"*\"\n[[route]]\npath = \"/a/\"\ncors_credentials = true",
            "site.toml:6: \"cors_origins\" cannot be \"*\" with \"cors_credentials\"",
        ),
        ("cors_credentials = true\ncors_fields = \"*\"", "\"cors_fields\" cannot be \"*\""),
        ("cors_methods = [\"GET\", \"TRACE\"]", "\"cors_methods\" cannot have \"TRACE\"; expected methods"),
        ("cors_methods = \"GET, PUT\"", "\"cors_methods\" cannot have \"GET, PUT\""),
        ("cors_methods = \"put\"", "\"cors_methods\" cannot have \"put\"; write it in capitals: \"PUT\""),
        ("cors_exposed_fields = \"ETag\\r\\nA: b\"", "\"cors_exposed_fields\" cannot have"),
        ("cors_max_age = \"2d\"", "from 0s to 1d"),
        ("security_headers = \"paranoid\"", "expected \"basic\", \"strict\" or false"),
        ("security_headers = true", "expected a string, or false"),
    ] {
        let errors = after_two_lines(line).map(|_| ()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{line}: {errors:?}");
    }
}

#[test]
fn a_route_responds_with_a_text_and_keeps_what_protects_it() {
    let site = site(
        "[[route]]\npath = \"/\"\n[[route.rule]]\nthen = \"deny\"\n\
         [[route]]\npath = \"/healthz\"\nrespond = \"ok\\n\"\n\
         [[route]]\npath = \"/json/\"\nrespond = \"{}\"\ndefault_type = \"application/json\"\n",
    );
    for (path, expected) in
        [("/healthz", "ok\n"), ("/json/", "{}"), ("/json/x", "{}"), ("/healthz/x", "/srv/www /healthz/x")]
    {
        assert_eq!(planned(&site, "a.example", path), expected, "{path}");
    }
    let host = site.hosts.at(0);
    let route = |path| host.routes.get(host.routes.find(&SafePath::parse(path).unwrap()));
    let denies = |path| route(path).access.iter().any(|rules| rules.iter().next().is_some());
    assert!(denies("/healthz"));
    let Action::Publish(text) = &route("/json/x").action else { panic!("it has no text") };
    assert_eq!(text.media_type.as_deref(), Some("application/json"));
    check_after(
        "[[route]]\npath = \"/a\"\nrespond = \"a\"\nreturn = 404",
        &["site.toml:6: \"respond\" and \"return\" exclude each other; keep one of them"],
    );
}

#[test]
fn texts_take_the_place_of_files_and_not_of_routes() {
    let site = site(
        "robots = \"deny\"\nauthorizer = \"fast\"\n\
         [security_txt]\ncontact = [\"mailto:a@a.example\", \"tel:+1-201-555-0123\"]\n\
         expires = \"2027-01-01T00:00:00Z\"\npreferred_languages = \"en, de\"\n\
         [[route]]\npath = \"/.well-known/\"\nreturn = 404\n\
         [[host]]\nnames = \"b.example\"\nroot = \"/b\"\nrobots = false\n\
         [[host]]\nnames = \"c.example\"\nroot = \"/c\"\nrobots = \"\"\"\nUser-agent: *\nDisallow: /c/\n\"\"\"\n\
         [[host.route]]\npath = \"/.well-known/security.txt\"\nreturn = 410\n\
         [host.security_txt]\ncontact = \"https://c.example\"\nexpires = \"2028-01-01T00:00:00+01:00\"\n\
         [[application]]\nname = \"fast\"\naddress = \"127.0.0.1:1\"\n",
    );
    let everyone = "User-agent: *\nDisallow: /\n";
    let contact = "Contact: mailto:a@a.example\nContact: tel:+1-201-555-0123\nPreferred-Languages: en, de\n\
        Expires: 2027-01-01T00:00:00Z\n";
    for (authority, path, expected) in [
        ("a.example", "/robots.txt", everyone),
        ("a.example", "/.well-known/security.txt", contact),
        ("a.example", "/.well-known/other", "404"),
        ("a.example", "/x/robots.txt", "/srv/www /x/robots.txt"),
        ("b.example", "/robots.txt", "/b /robots.txt"),
        ("b.example", "/.well-known/security.txt", contact),
        ("c.example", "/robots.txt", "User-agent: *\nDisallow: /c/\n"),
        ("c.example", "/.well-known/security.txt", "410"),
    ] {
        assert_eq!(planned(&site, authority, path), expected, "{authority} {path}");
    }
    let host = site.hosts.at(0);
    let authorizers =
        |path| host.routes.get(host.routes.find(&SafePath::parse(path).unwrap())).authorizers.len();
    assert_eq!(
        (authorizers("/robots.txt"), authorizers("/.well-known/security.txt"), authorizers("/")),
        (0, 0, 1)
    );
}

#[test]
fn rejects_texts_that_say_nothing() {
    let contact = "[security_txt]\ncontact = \"mailto:a@a.example\"\n";
    let expires = "expires = \"2027-01-01T00:00:00Z\"\n";
    for (text, expected) in [
        (
            "robots = \"none\"".to_owned(),
            "\"robots\" has no rules for robots; write \"deny\", or lines such as",
        ),
        ("robots = true".to_owned(), "expected a string, or false"),
        (contact.to_owned(), "[security_txt] has no end; add expires = "),
        (format!("[security_txt]\n{expires}"), "[security_txt] has no contact; add contact = "),
        (format!("{contact}expires = \"2027\""), "\"expires\" cannot be \"2027\"; expected a time such as"),
        (format!("{contact}expires = 2027-01-01T00:00:00Z"), "\"expires\" cannot be"),
        (format!("{contact}{expires}policy = \"http://a\""), "expected an address that begins with https://"),
        (format!("{contact}{expires}policy = \"https://a\\nContact: b\""), "\"policy\" cannot be"),
        (format!("{contact}{expires}preferred_languages = \"en; de\""), "expected languages such as"),
        (contact.replace("mailto:", ""), "expected an address such as \"mailto:security@example.org\""),
        (format!("{contact}{expires}contacts = \"x\""), "did you mean \"contact\"?"),
    ] {
        let errors = after_two_lines(&text).map(|_| ()).unwrap_err();
        assert!(errors.iter().any(|error| error.contains(expected)), "{text}: {errors:?}");
    }
}
