//! Mistakes against the grammar of TOML: the message says which one it is, and what to write.

use super::*;

#[test]
fn names_the_line_in_which_something_begins_that_is_not_closed() {
    const ARRAY: &str = "the array that begins here with [ is not closed; write ] behind its last element";
    const TABLE: &str = "the table that begins here with { is not closed; write } behind its last key";
    const TEXT: &str =
        "a text has no quotation mark at its end; write one there, of the kind that the text begins with";
    for (text, line, expected) in [
        ("listen = [\"a\"\n\n[log]\naccess = \"stdout\"\n", 1, ARRAY),
        ("listen = [\"a\",\nroot = \"/srv\"\n", 1, ARRAY),
        ("listen = [ # [\n  \"]\",\n  '\"]'\nroot = \"/srv\"\n\n[[route]]\npath = \"/\"\n", 1, ARRAY),
        ("root = \"/srv\"\nlisten = [\"a\"", 2, ARRAY),
        ("rule = [\n  { then = \"deny\" },\n  { then = \"allow\"\n]\n", 3, TABLE),
        ("headers = { A = \"b\"\nroot = \"/srv\"\nlisten = [\"a\"]\n", 1, TABLE),
        ("[[a]]\nb = '''c'''''\n[x.\"]\"] # {\ny = \"\"\"\\\"\"\"\"\"\nz = {\n", 5, TABLE),
        ("listen = [\"a\", \"b]\nroot = \"/srv\"\n", 1, TEXT),
        ("root = \"/srv'\n", 1, TEXT),
        (
            "a = 1\nroot = \"\"\"/srv\nlisten = \"b\"\n",
            2,
            "the text that begins here with \"\"\" does not end; write \"\"\" at its end",
        ),
    ] {
        check(text, &[&format!("site.toml:{line}: not valid TOML: {expected}")]);
    }
}

#[test]
fn says_how_to_write_the_heading_of_a_section() {
    for (line, heading) in [
        ("[[host", "[[host]]"),
        ("[[host]", "[[host]]"),
        ("[host]]", "[[host]]"),
        ("[ [host] ]", "[[host]]"),
        ("[[host.route # a", "[[host.route]]"),
        ("[log", "[log]"),
        ("[log]:", "[log]"),
        ("[log] access = \"stdout\"", "[log]"),
        ("[a.]", "[a]"),
        ("[]", "[section]"),
        ("[[rou\u{7f}", "[[rou\\u{7f}]]"),
    ] {
        let expected = format!("the heading of a section is malformed; write {heading} in a line of its own");
        check(&format!("{line}\n"), &[&format!("site.toml:1: not valid TOML: {expected}")]);
    }
    for text in ["[host]\nnames = [\"a\"]\n[[host]]\n", "[[host]]\nnames = [\"a\"]\n[host]\n"] {
        check(text, &["site.toml:3: not valid TOML: \"host\" is given twice; write [[host]] each time"]);
    }
    check(
        "[[host.route]]\npath = \"/\"\n[[host]]\nnames = [\"a\"]\n",
        &[
            "site.toml:3: not valid TOML: [[host]] stands below its part [[host.route]]; write the part below it",
        ],
    );
}

#[test]
fn says_which_sign_is_missing_or_too_many() {
    const COLON: &str = "there is no equals sign between a key and its value; write key = \"value\"";
    const COMMENT: &str = "the line has no key; write # in front of a comment";
    const QUOTE: &str = "a quotation mark is missing; write one at the beginning and at the end of each text";
    for (line, expected) in [
        ("a = [\"b\" \"c\"]", "there is no comma in front of \"c\"; write one between two elements"),
        ("a = [\"b\"; \"c\"]", "there is a semicolon; write a comma between two elements"),
        ("a = [\"b\",, \"c\"]", "there is one comma too many; remove it"),
        ("a = { b = \"1\" c = 2 }", "there is no comma in front of c; write one between two keys"),
        ("a = { b = 1 c = 2 }", "there is no comma between two keys; write one"),
        ("a = [ b = 1 ]", "an array has a key in it; write keys between braces: { key = \"value\" }"),
        ("a = { /b/ = 1 }", "the key /b/ needs quotation marks; write \"/b/\""),
        ("a = { *.html = 1 }", "the key *.html needs quotation marks; write \"*.html\""),
        ("a = { b: 1 }", COLON),
        ("a := 1", COLON),
        ("a => \"b\"", COLON),
        ("a b = 1", "the key \"a b\" has a space in it; write a_b"),
        ("a = \"b\";", "there is a semicolon behind the value; remove it"),
        (
            "a = \"b\", \"c\"",
            "there is a comma behind the value; write several values as an array: [\"a\", \"b\"]",
        ),
        ("a = [\"b\"]]", "there is one ] too many; remove it"),
        ("a = { b = 1 }}", "there is one } too many; remove it"),
        (
            "a = \"b\" tls",
            "tls stands behind the value; put the whole value between quotation marks, and each key in a line of its own",
        ),
        ("a = [\"b, \"c\"]", QUOTE),
        ("a = \"b\"c\"", QUOTE),
        ("// a", COMMENT),
        ("; a", COMMENT),
        ("a = 1_", "1_ is not a number; write it in digits, such as 10"),
        (
            "a = \"b\u{7}\"",
            "a text has a control character in it; remove it, or write \\u and its four hexadecimal digits in its place",
        ),
    ] {
        check(&format!("{line}\n"), &[&format!("site.toml:1: not valid TOML: {expected}")]);
    }
}

#[test]
fn many_mistakes_are_reported_up_to_a_limit() {
    let headings = "[a]\n".repeat(20_000);
    let errors = load_files(&[("site.toml", &headings)]).map(|_| ()).unwrap_err();
    assert_eq!(errors.len(), MAX_ERRORS);
}
