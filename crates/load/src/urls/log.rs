//! Parses access logs in common and combined format. Lines that cannot be repeated (another protocol, a method
//! whose body is not in the log) are counted.

use taipan_http::date::{MONTHS, midnight};

use super::Entry;

/// The requests of a log, and how many lines were skipped.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Ordered by time.
    pub entries: Vec<Entry>,
    pub skipped: usize,
}

/// Never fails: a line that cannot be repeated is counted.
pub fn parse(text: &str) -> Log {
    let mut log = Log::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match entry(line) {
            Some(entry) => log.entries.push(entry),
            None => log.skipped += 1,
        }
    }
    // Servers log a request when it ends, so a long one comes after those that began later.
    log.entries.sort_by_key(|entry| entry.at);
    log
}

/// `host ident user [time] "method target version" …`
fn entry(line: &str) -> Option<Entry> {
    let (before, rest) = line.split_once('[')?;
    if before.split_ascii_whitespace().count() < 3 {
        return None;
    }
    let (time, rest) = rest.split_once(']')?;
    let request = quoted(rest.trim_start())?;
    let mut words = request.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next());
    if words.next().is_some() || !matches!(method, "GET" | "HEAD") {
        return None;
    }
    // HTTP/0.9 has no version and is not repeated.
    if !version?.starts_with("HTTP/") || !(target.starts_with('/') || target.starts_with("http")) {
        return None;
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let method = (method != "GET").then(|| method.to_owned());
    Some(Entry { method, at: Some(seconds(time)?), ..Entry::get(target.to_owned()) })
}

/// The quoted text at the beginning, unescaped.
fn quoted(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut characters = text.strip_prefix('"')?.chars();
    // Bounded by the line.
    loop {
        match characters.next()? {
            '"' => return Some(out),
            '\\' => match characters.next()? {
                'x' => return None,
                escaped => out.push(escaped),
            },
            plain => out.push(plain),
        }
    }
}

/// `10/Oct/2000:13:55:36 -0700`
fn seconds(time: &str) -> Option<i64> {
    let (local, zone) = time.split_once(' ')?;
    let mut parts = local.split(['/', ':']);
    let number = |text: Option<&str>| text?.parse::<i64>().ok();
    let day = number(parts.next())?;
    let month = MONTHS.iter().position(|&name| Some(name) == parts.clone().next())? as i64 + 1;
    parts.next();
    let (year, hour, minute, second) =
        (number(parts.next())?, number(parts.next())?, number(parts.next())?, number(parts.next())?);
    let in_range = (1970..=9999).contains(&year)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !in_range || parts.next().is_some() {
        return None;
    }
    Some(midnight(year, month, day)? + hour * 3600 + minute * 60 + second - offset(zone)?)
}

/// `-0700`, in seconds east of Greenwich.
fn offset(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let number: i64 = (digits.len() == 4).then(|| digits.parse().ok())??;
    Some(sign * (number / 100 * 3600 + number % 100 * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(&str, Option<&str>, i64)>) {
        let found = entry(line);
        let found =
            found.as_ref().map(|entry| (entry.url.as_str(), entry.method.as_deref(), entry.at.unwrap_or(-1)));
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn parses_request_and_time() {
        check(
            r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#,
            Some(("/apache_pb.gif", None, 971_211_336)),
        );
        check(
            r#"::1 - - [01/Jan/1970:00:00:00 +0000] "HEAD /a?b HTTP/1.1" 200 - "http://r/" "Agent [x] \"y\"""#,
            Some(("/a?b", Some("HEAD"), 0)),
        );
        check(
            r#"a - - [29/Feb/2024:23:59:60 +0100] "GET /\"x\" HTTP/1.1" 404 1"#,
            Some(("/\"x\"", None, 1_709_247_600)),
        );
    }

    #[test]
    fn skips_lines_that_cannot_be_repeated() {
        for line in [
            "",
            "nonsense",
            r#"a - - [10/Oct/2000:13:55:36 -0700] "-" 408 0"#,
            r#"a - - [10/Oct/2000:13:55:36 -0700] "POST /x HTTP/1.1" 200 0"#,
            r#"a - - [10/Oct/2000:13:55:36 -0700] "\x16\x03\x01" 400 0"#,
            r#"a - - [10/Oct/2000:13:55:36 -0700] "GET /x" 200 0"#,
            r#"a - - [10/Oct/2000:13:55:36 -0700] "GET /a b HTTP/1.1" 200 0"#,
            r#"a - - [10/Okt/2000:13:55:36 -0700] "GET /x HTTP/1.1" 200 0"#,
            r#"a - - [10/Oct/2000:13:55:36] "GET /x HTTP/1.1" 200 0"#,
            r#"a - - [31/Feb/2000:13:55:36 +0000] "GET /x HTTP/1.1" 200 0"#,
            r#"a - - [10/Oct/2000:25:55:36 -0700] "GET /x HTTP/1.1" 200 0"#,
            r#"a - - [10/Oct/2000:13:55:36 -0700] "GET /x HTTP/1.1"#,
        ] {
            check(line, None);
        }
    }

    #[test]
    fn sorts_entries_by_time() {
        let line = |second: u32| {
            format!("a - - [10/Oct/2000:13:55:{second} +0000] \"GET /{second} HTTP/1.1\" 200 0\n")
        };
        let log = parse(&[line(38), "junk\n".to_owned(), line(36), line(37)].concat());
        let urls: Vec<&str> = log.entries.iter().map(|entry| entry.url.as_str()).collect();
        assert_eq!((urls, log.skipped), (vec!["/36", "/37", "/38"], 1));
    }
}
