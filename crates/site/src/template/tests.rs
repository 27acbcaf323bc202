use super::*;

#[test]
fn rejects_templates_that_could_leave_the_host() {
    fn check(parsed: Result<Template, TemplateError>, expected: TemplateError) {
        assert_eq!(parsed, Err(expected));
    }
    use TemplateError::*;
    for to in
        ["", "x", "//x", "ftp://x/", "$host/", "http://", "http:///x", "https://$path", "https://$query"]
    {
        check(Template::redirect(to), RedirectStart);
    }
    check(Template::redirect("/a\r\nSet-Cookie: b"), Control);
    check(Template::redirect("/100%"), Percent);
    check(Template::redirect("/%2"), Percent);
    for to in ["/$", "/$x", "/$pathx", "/${path", "/$ rest"] {
        check(Template::redirect(to), UnknownVariable);
    }
    check(Template::redirect("https://example.org$rest"), RestInAuthority);
    check(Template::redirect("https://$rest/"), RestInAuthority);
    check(Template::redirect("https://$1/"), RestInAuthority);
    check(Template::redirect("https://a.example$1"), RestInAuthority);
    check(Template::redirect(&"/$path".repeat(9)), TooManyVariables);
    let rewrite = |text: &str| Rewrite::parse(text).map(|rewrite| rewrite.path);
    check(rewrite("x"), RewriteStart);
    check(rewrite("?x"), RewriteStart);
    check(rewrite("https://x/"), RewriteStart);
    check(rewrite("/x$query"), OnlyInRedirect);
    check(rewrite("/$host/x"), OnlyInRedirect);
    check(rewrite("/../x"), NoPath);
    check(rewrite("/x?$host"), InQuery);
    check(rewrite("/x?$scheme"), InQuery);
    check(rewrite("/x?a#b"), Hash);
    check(rewrite("/x?a%b"), Percent);
    check(rewrite("/x?$0"), UnknownVariable);
    check(rewrite("/x?a\nb"), Control);
    check(rewrite(&format!("/x?{}", "$1".repeat(9))), TooManyVariables);
    let fallback = |text: &str| Template::fallback(text).map(|_| Template::redirect("/").unwrap());
    check(fallback("index.php"), FallbackStart);
    check(fallback("https://x/"), FallbackStart);
    check(fallback("//x"), FallbackStart);
    check(fallback("/$rest"), FallbackPath);
    check(fallback("/x?$host"), InQuery);
    check(fallback("/x?%"), Percent);
    check(fallback("/x?$nothing"), UnknownVariable);
    check(fallback("/x?a\n"), Control);
    check(fallback("/../x"), NoPath);
    for to in ["https://$host/$rest", "https://a.example$path", "http://$host", "$scheme://a.example/$rest"] {
        assert!(Template::redirect(to).is_ok(), "{to}");
    }
}
#[test]
fn rejects_variables_that_stand_for_nothing() {
    for (pattern, to, expected) in [
        ("/a/", "/b?c=$rest", None),
        ("/a/*", "/b?c=$1", None),
        ("/a/*/**", "/b/$2?c=$1", None),
        ("/a", "/b?c=$rest", Some("$rest needs a prefix as pattern; use $path")),
        ("/a/*", "/$rest", Some("$rest needs a prefix as pattern; use $path")),
        ("/a/", "/b?c=$1", Some("$1 needs a pattern with wildcards; a prefix has $rest")),
        ("/a/", "/$1", Some("$1 needs a pattern with wildcards; a prefix has $rest")),
        ("/a/*", "/b?c=$1$2", Some("$2 stands for nothing: the wildcards of \"/a/*\" are 1")),
        ("/a/*", "/b/$9", Some("$9 stands for nothing: the wildcards of \"/a/*\" are 1")),
    ] {
        let checked = Rewrite::parse(to).unwrap().check(&Pattern::parse(pattern).unwrap());
        assert_eq!(checked.err().as_deref(), expected, "{pattern} {to}");
    }
}

#[test]
fn composes_the_query_of_a_rewrite() {
    for (pattern, to, path, sent, expected) in [
        // The query of the request follows, or is left out, or stands where `$query` does.
        ("/a/", "/b?id=$rest", "a/x", None, "id=x"),
        ("/a/", "/b?id=$rest", "a/x", Some(""), "id=x"),
        ("/a/", "/b?id=$rest", "a/x", Some("do=edit&y"), "id=x&do=edit&y"),
        ("/a/", "/b?id=$rest?", "a/x", Some("do=edit"), "id=x"),
        ("/a/", "/b?", "a/x", Some("do=edit"), ""),
        ("/a/", "/b??", "a/x", Some("do=edit"), ""),
        ("/a/", "/b?$query&id=$rest", "a/x", Some("do=edit"), "do=edit&id=x"),
        ("/a/", "/b?$query&id=$rest", "a/x", None, "id=x"),
        ("/a/", "/b?$query&id=$rest", "a/x", Some(""), "id=x"),
        ("/a/", "/b?id=$rest&$query", "a/x", Some("do=edit"), "id=x&do=edit"),
        ("/a/", "/b?id=$rest&$query", "a/x", None, "id=x"),
        ("/a", "/b?id$query", "a", Some("do=edit"), "id&do=edit"),
        ("/a/", "/b?id=$rest$query", "a/x", Some("do=edit&c=%20"), "id=x%3Fdo%3Dedit%26c%3D%2520"),
        ("/a/", "/b?id=$rest$query", "a/x", None, "id=x"),
        // A path in front of the query is one of a URL.
        ("/a/", "/b?to=$path$query", "a/x?y%z ä", Some("b"), "to=/a/x%253Fy%2525z%2520%25C3%25A4%3Fb"),
        ("/a/", "/b?to=$path$query", "a/x?y", None, "to=/a/x%253Fy"),
        ("/a/", "/b?id=$rest&$query&end", "a/x", None, "id=x&end"),
        ("/a/", "/b?$query", "a/x", Some("do=edit"), "do=edit"),
        ("/a/", "/b?$query?", "a/x", Some("do=edit"), "do=edit"),
        // A value stays a value.
        ("/a/", "/b?id=$rest", "a/x&id=1=2", None, "id=x%26id%3D1%3D2"),
        ("/a/", "/b?id=$rest", "a/ä b+c#d%41;e?f", None, "id=%C3%A4%20b%2Bc%23d%2541%3Be%3Ff"),
        ("/a/", "/b?id=$rest", "a/x/y/", None, "id=x/y/"),
        ("/a/", "/b?id=$rest", "a", None, "id="),
        ("/a", "/b?id=$path", "a", None, "id=/a"),
        ("/a/*/**", "/b?do=export_$1&id=$2", "a/x y/b&c/d", None, "do=export_x%20y&id=b%26c/d"),
        ("/a/*/**", "/b?id=${2}1$12", "a/x/y", None, "id=y1x2"),
        ("/a", "/b?x=ä y%20$$&z", "a", None, "x=%C3%A4%20y%20$&z"),
    ] {
        let rewrite = Rewrite::parse(to).unwrap();
        assert_eq!(rewrite.to_string(), to);
        let query = rewrite.query.unwrap().query(path, &Pattern::parse(pattern).unwrap(), sent);
        assert_eq!(query.as_deref(), Ok(expected), "{pattern} {to} {path} {sent:?}");
    }
}

#[test]
fn rejects_a_query_that_becomes_too_long() {
    let rewrite = Rewrite::parse("/b?$rest$rest").unwrap();
    let query = |length: usize| {
        let path = format!("a/{}", "x".repeat(length));
        rewrite.query.as_ref().unwrap().query(&path, &Pattern::parse("/a/").unwrap(), None)
    };
    // The question mark counts.
    assert!(query(MAX_QUERY / 2 - 1).is_ok());
    assert_eq!(query(MAX_QUERY / 2), Err(QueryTooLong));
}

proptest::proptest! {
    #[test]
    fn never_lets_a_path_add_a_parameter(path in "\\PC{0,30}", sent in "[ -~]{0,20}") {
        let rewrite = Rewrite::parse("/b?a=$1&b=$2?").unwrap();
        let pattern = Pattern::parse("/**-**").unwrap();
        let query = rewrite.query.unwrap().query(&path, &pattern, Some(&sent)).unwrap();
        let parameters: Vec<&str> = query.split('&').collect();
        let is_value = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-./:_~%".contains(&b));
        proptest::prop_assert!(
            matches!(&parameters[..], [a, b] if a.strip_prefix("a=").is_some_and(is_value)
                && b.strip_prefix("b=").is_some_and(is_value)),
            "{}", query,
        );
    }
}
