//! What has no effect: keys without the key that switches on what they are for, and rules behind one for all requests.

use super::*;

fn warnings(text: &str) -> Vec<String> {
    let text = format!("{TWO_LINES}{text}");
    let found =
        read(Path::new("site.toml"), &Files(&[("site.toml", &text)])).map_err(|e| format!("{e:?}")).unwrap();
    found.warnings.iter().map(ConfigError::to_string).collect()
}

#[test]
fn warns_of_a_key_that_nothing_switches_on() {
    for (line, switch) in [
        ("authorizer_cache = \"10s\"", "authorizer"),
        ("cors_max_age = \"1h\"", "cors_origins"),
        ("fallback_for = \"all\"", "fallback"),
        ("include_files = [\".html\"]", "includes"),
        ("publish_quota = \"1GiB\"", "publish"),
        ("response_cache_lifetime = \"10s\"", "response_cache"),
    ] {
        let key = line.split(' ').next().unwrap();
        let expected = [format!(
            "site.toml:3: \"{key}\" has no effect without \"{switch}\"; add {switch}, or remove it"
        )];
        assert_eq!(warnings(line), expected);
    }
    let expected = ["site.toml:3: \"certificates\" has no effect without \"acme\"; add acme, or remove it"];
    assert_eq!(warnings("[certificates]\nemail = \"admin@a.example\""), expected);
}

#[test]
fn a_key_may_stand_in_another_section_than_its_switch() {
    for text in [
        "response_cache_lifetime = \"10s\"\n[[route]]\npath = \"/a/\"\nresponse_cache = true",
        "response_cache = true\n[[route]]\npath = \"/a/\"\nresponse_cache_lifetime = \"10s\"",
        "includes = true\n[[host]]\nnames = \"a\"\nroot = \"/a\"\n[[host.route]]\npath = \"/a/\"\ninclude_files = [\".html\"]",
        "authorizer_fields = \"Remote-User\"",
    ] {
        assert_eq!(warnings(text), Vec::<String>::new(), "{text}");
    }
    let text =
        "[[route]]\npath = \"/a/\"\nincludes = true\n[[route]]\npath = \"/b/\"\ninclude_files = [\".html\"]";
    assert_eq!(
        warnings(text),
        ["site.toml:8: \"include_files\" has no effect without \"includes\"; add includes, or remove it"]
    );
    let text = "includes = true\n[[route]]\npath = \"/a/\"\nincludes = false\ninclude_files = [\".html\"]";
    assert_eq!(
        warnings(text),
        ["site.toml:7: \"include_files\" has no effect without \"includes\"; add includes, or remove it"]
    );
}

#[test]
fn warns_of_a_rule_behind_one_for_all_requests() {
    let text = "[[rule]]\nthen = \"deny\"\n[[rule]]\naddress = \"10.0.0.0/8\"\nthen = \"allow\"";
    assert_eq!(
        warnings(text),
        [
            "site.toml:5: no request comes to this rule, because that of site.toml:3 is for all; move it in front of \
             that one, or remove it"
        ]
    );
    let text = "[[rule]]\naddress = \"10.0.0.0/8\"\nthen = \"allow\"\n[[rule]]\nthen = \"deny\"";
    assert_eq!(warnings(text), Vec::<String>::new());
}
