//! Throttle files. Each line that is not empty counts or is a mistake, and a pattern matches what its definition says.

use site::limit::throttle_file::{ThrottlePattern, parse};

/// Bytes of a pattern and of a path that are compared with the slow definition.
const SHORT: usize = 12;

/// A path in the first line, and the file behind it.
pub fn throttle_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (path, file) = text.split_once('\n').unwrap_or((text, ""));
    let (lines, errors) = parse(file);
    let mut numbers: Vec<u32> = lines.iter().map(|line| line.number).collect();
    numbers.extend(errors.iter().map(|(number, _)| *number));
    numbers.sort_unstable();
    let with_text = (1..).zip(file.lines()).filter(|(_, line)| {
        let before_comment = line.split('#').next().unwrap_or_default();
        !before_comment.trim().is_empty()
    });
    assert!(numbers.into_iter().eq(with_text.map(|(number, _)| number)));
    for (_, error) in &errors {
        let (what, what_to_do) = error.sentence();
        assert!(!what.is_empty() && !what_to_do.is_empty());
    }
    for line in &lines {
        assert!(line.min <= line.max && line.max > 0);
        let text = line.pattern.to_string();
        assert_eq!(ThrottlePattern::parse(&text).as_ref(), Ok(&line.pattern));
        let found = line.pattern.matches(path.as_bytes());
        if text.len() <= SHORT && path.len() <= SHORT {
            let mut alternatives = text.split('|').map(|one| one.trim_start_matches('/'));
            let expected = alternatives.any(|one| matches(one.as_bytes(), path.as_bytes()));
            assert_eq!(found, expected, "{text} {path}");
        }
    }
}

/// The definition, by trying everything.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let any = |rest: &[u8], most: usize| (0..=most).any(|taken| matches(rest, &path[taken..]));
    match pattern {
        [] => path.is_empty(),
        [b'*', b'*', rest @ ..] => any(rest, path.len()),
        [b'*', rest @ ..] => any(rest, path.iter().position(|byte| *byte == b'/').unwrap_or(path.len())),
        [b'?', rest @ ..] => !path.is_empty() && matches(rest, &path[1..]),
        [byte, rest @ ..] => path.first() == Some(byte) && matches(rest, &path[1..]),
    }
}
