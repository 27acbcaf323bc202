//! Names of files in other languages and charsets, and `Accept-Language`. A name says what it was made for, and what
//! the client excludes is sent only if there is nothing else.

use site::alternates::{AlternateRules, Charset, Label};
use taipan_http::negotiate::language::{choose_charset, choose_language};

/// A name in the first line, and values of the field behind it.
pub fn alternates(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let values = || data.get(end + 1..).unwrap_or_default().split(|byte| *byte == b'\n');
    let rules = AlternateRules {
        languages: ["en", "de", "pt-BR"].map(str::to_owned).to_vec(),
        charsets: vec![Charset { suffix: "latin1".to_owned(), name: "iso-8859-1".to_owned() }],
    };
    if let Ok(name) = std::str::from_utf8(&data[..end]) {
        if let Some((label, plain)) = rules.parse(name) {
            assert!(!label.is_plain() && !plain.is_empty() && plain.len() < name.len());
            assert!(rules.names(name).is_empty());
        }
        for (label, made) in rules.names(name) {
            let plain = name.to_owned();
            assert!(
                name.is_empty() || name.starts_with('.') || rules.parse(&made) == Some((label, plain.into()))
            );
        }
    }
    let tags = ["en", "de", "pt-BR"];
    let chosen = choose_language(values(), tags.into_iter());
    assert!(chosen.is_none_or(|index| index < tags.len()));
    // A member in front of all others, which excludes a language, counts.
    let without = || [&b"de;q=0"[..]].into_iter().chain(values());
    assert_ne!(choose_language(without(), tags.into_iter()), Some(1));
    assert_eq!(choose_charset([&b"iso-8859-1"[..]].into_iter(), ["iso-8859-1"].into_iter()), Some(0));
    let labels = |found: &[(Label, ())]| found.iter().map(|(label, ())| *label).collect::<Vec<_>>();
    let mut found: Vec<(Label, ())> =
        rules.names("page.html").into_iter().map(|(label, _)| (label, ())).collect();
    rules.arrange(&mut found);
    let once = labels(&found);
    rules.arrange(&mut found);
    assert_eq!(once, labels(&found));
}
