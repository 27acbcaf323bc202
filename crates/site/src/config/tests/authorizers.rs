//! Authorizers and tokens.

use super::*;

const GUARDS: &str = "[[application]]\nname = \"guard\"\nprotocol = \"http\"\naddress = \"127.0.0.1:1\"\n\
    [[application]]\nname = \"fast\"\naddress = \"127.0.0.1:1\"\n\
    [[application]]\nname = \"simple\"\nprotocol = \"scgi\"\naddress = \"127.0.0.1:1\"\n";

#[test]
fn a_route_inherits_what_its_authorizer_is_asked() {
    let site = site(&format!(
        "authorizer = \"guard\"\nauthorizer_path = \"/verify\"\nauthorizer_fields = \"Remote-User\"\n\
         [[route]]\npath = \"/a/\"\nauthorizer_cache = \"10s\"\n\
         [[route]]\npath = \"/b/\"\nauthorizer = \"fast\"\n\
         [[route]]\npath = \"/c/\"\nauthorizer = false\n\
         [[route]]\npath = \"/d/\"\nauthorizer_path = \"/admin?x\"\nauthorizer_fields = [\"X-Role\", \"remote-user\"]\n\
         {GUARDS}"
    ));
    let host = site.hosts.at(0);
    for (path, expected) in [
        ("/", "0 /verify Remote-User 0ns"),
        ("/a/x", "0 /verify Remote-User 10s"),
        ("/b/x", "1"),
        ("/c/x", ""),
        ("/d/x", "0 /admin?x X-Role,remote-user 0ns"),
    ] {
        let route = host.routes.get(host.routes.find(&SafePath::parse(path).unwrap()));
        let shown = route.authorizers.iter().map(|own| match &own.subrequest {
            Some(asked) => {
                let (target, fields) = (asked.target.as_deref().unwrap_or("-"), asked.fields.join(","));
                format!("{} {target} {fields} {:?}", own.upstream, asked.cache)
            }
            None => own.upstream.to_string(),
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" | "), expected, "{path}");
    }
    assert_eq!(site.asserted_fields(), ["Remote-User", "X-Role"]);
}

#[test]
fn rejects_questions_that_no_authorizer_can_answer() {
    for (line, expected) in [
        (
            "authorizer = \"simple\"",
            "cannot be an authorizer; name an application that speaks HTTP or FastCGI",
        ),
        ("authorizer = \"absent\"", "there is no application \"absent\""),
        (
            "authorizer = \"fast\"\nauthorizer_fields = \"Remote-User\"",
            "\"authorizer_fields\" is for an authorizer that speaks HTTP; remove it",
        ),
        (
            "authorizer = false\nauthorizer_cache = 9",
            "\"authorizer_cache\" has no effect without an authorizer",
        ),
        (
            "authorizer_path = \"verify\"",
            "\"verify\" is not a path of the authorizer; write a path with a slash",
        ),
        ("authorizer_path = \"/a b\"", "is not a path of the authorizer"),
        ("authorizer_path = \"/a\\r\\nB: c\"", "is not a path of the authorizer"),
        ("authorizer_method = \"post\"", "expected one of \"get\", \"original\""),
        ("authorizer_fields = \"Remote_User\"", "expected letters, digits and dashes"),
        ("authorizer_fields = \"\"", "expected letters, digits and dashes"),
        ("authorizer_fields = [\"A-b\", \"a-B\"]", "cannot set the field \"a-B\"; it is named twice"),
        ("authorizer_fields = \"Host\"", "cannot set the field \"Host\"; the server itself sets it"),
        ("authorizer_fields = \"X-Forwarded-For\"", "the server itself sets it"),
        ("authorizer_fields = \"Proxy\"", "the server itself sets it"),
        ("authorizer_fields = \"Authorization\"", "name another one: it would be removed from all requests"),
        (
            "authorizer_response_fields = \"Content-Length\"",
            "cannot add the field \"Content-Length\"; the server sets it",
        ),
        ("authorizer_response_fields = \"A B\"", "cannot add the field \"A B\"; expected letters"),
        ("authorizer_user = \"X-User\"", "\"X-User\" is not among \"authorizer_fields\""),
        ("authorizer_cache = \"2h\"", "from 0s to 1h"),
        (
            "authorizer_cache_key = [\"host\", \"path\"]",
            "has nothing that tells clients apart; add the fields",
        ),
        ("authorizer_cache_key = [\"a b\"]", "is no part of a request"),
    ] {
        let errors = after_two_lines(&format!("{line}\n{GUARDS}")).map(|_| ()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{line}: {errors:?}");
    }
}

fn load_with_keys(text: &str) -> Result<Site, Vec<String>> {
    let whole = format!("{TWO_LINES}{text}");
    let damaged = KEYS.replace("MCow", "MCox");
    load_files(&[
        ("site.toml", &whole),
        ("keys.pem", KEYS),
        ("keys.json", KEY_SET),
        ("empty.pem", ""),
        ("damaged.pem", &damaged),
    ])
}

#[test]
fn a_route_inherits_tokens_and_adds_to_them() {
    let site = load_with_keys(
        "jwt = { keys = \"keys.json\", issuer = \"https://id\", fields = { X-User = \"sub\" } }\n\
         [[route]]\npath = \"/admin/\"\njwt = { claims = { role = [\"admin\", \"root\"], active = \"true\" } }\n\
         [[route]]\npath = \"/open/\"\njwt = false\n\
         [[route]]\npath = \"/other/\"\n\
         [route.jwt]\nkeys = \"keys.pem\"\nfrom = [\"cookie:id\", \"header\"]\nleeway = \"5s\"\nuser = \"name\"\n",
    )
    .unwrap();
    let host = site.hosts.at(0);
    for (path, expected) in [
        ("/", "3 keys, https://id, 60 s, sub, [Header], [], X-User"),
        (
            "/admin/x",
            "3 keys, https://id, 60 s, sub, [Header], [(\"role\", [\"admin\", \"root\"]), (\"active\", [\"true\"])], X-User",
        ),
        ("/open/x", "none"),
        ("/other/x", "1 keys, https://id, 5 s, name, [Cookie(\"id\"), Header], [], X-User"),
    ] {
        let route = host.routes.get(host.routes.find(&SafePath::parse(path).unwrap()));
        let shown = route.jwts.first().map_or("none".to_owned(), |jwt| {
            let fields: Vec<&str> = jwt.fields.iter().map(|(name, _)| name.as_str()).collect();
            let keys = jwt.keys.as_ref().map_or(0, auth::keys::Keys::len);
            let issuer = jwt.issuer.as_deref().unwrap_or("any");
            let (leeway, user, from, claims) = (jwt.leeway, &jwt.user, &jwt.from, &jwt.claims);
            format!("{keys} keys, {issuer}, {leeway} s, {user}, {from:?}, {claims:?}, {}", fields.join(" "))
        });
        assert_eq!(shown, expected, "{path}");
    }
    assert_eq!(site.asserted_fields(), ["X-User"]);
    assert!(site.has_tokens() && crate::needs::Needs::of(&site).authorizers);
}

#[test]
fn rejects_tokens_that_cannot_be_verified() {
    for (table, expected) in [
        ("{ issuer = \"a\" }", "site.toml:3: tokens need the keys of their issuer; add keys = "),
        ("{ keys = \"absent.pem\" }", "site.toml:3: absent.pem cannot be read"),
        ("{ keys = \"empty.pem\" }", "site.toml:3: empty.pem: the file is neither PEM"),
        ("{ keys = \"damaged.pem\" }", "site.toml:3: damaged.pem: key 1 is damaged"),
        ("{ keys = \"keys.pem\", from = \"body\" }", "\"from\" cannot be \"body\"; expected \"header\", or"),
        ("{ keys = \"keys.pem\", from = \"cookie:\" }", "\"from\" cannot be \"cookie:\""),
        ("{ keys = \"keys.pem\", from = [] }", "\"from\" is empty"),
        ("{ keys = \"keys.pem\", claims = { role = [] } }", "the claim \"role\" has no values to compare"),
        ("{ keys = \"keys.pem\", claims = { level = 3 } }", "the claim \"level\" has no values to compare"),
        (
            "{ keys = \"keys.pem\", fields = { X_User = \"sub\" } }",
            "cannot set the field \"X_User\"; expected letters",
        ),
        (
            "{ keys = \"keys.pem\", fields = { Host = \"sub\" } }",
            "cannot set the field \"Host\"; the server itself sets it",
        ),
        ("{ keys = \"keys.pem\", fields = { X-A = 1 } }", "expected the name of a claim"),
        ("{ keys = \"keys.pem\", realm = \"\" }", "\"realm\" cannot be sent"),
        ("{ keys = \"keys.pem\", leeway = \"1d\" }", "from 0s to 1h"),
        ("{ keys = \"keys.pem\", secret = \"x\" }", "unknown key \"secret\""),
        ("true", "\"jwt\" cannot be true; expected a table, or false"),
    ] {
        let errors = load_with_keys(&format!("jwt = {table}\n")).map(|_| ()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{table}: {errors:?}");
    }
}
