//! One line of an access log: the Common and the Combined Log Format with what servers add before and behind them, and
//! JSON.
//!
//! Recognizes the lines of taipan, Boa, thttpd, nginx and Apache. Texts are as in the line: escapes stay.

use std::net::IpAddr;
use std::ops::Range;

/// What a line says. Absent values are empty, or `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Entry<'l> {
    /// The name or the address of the client, as it is written.
    pub client: &'l [u8],
    pub host: &'l [u8],
    pub method: &'l [u8],
    pub target: &'l [u8],
    pub version: &'l [u8],
    pub referer: &'l [u8],
    /// `None`: the format has no user agents.
    pub agent: Option<&'l [u8]>,
    pub status: u16,
    pub sent: u64,
    pub time: Time,
    pub micros: Option<u64>,
}

/// As it is written in the line, in whatever time zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    pub year: u16,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
}

/// `None`: the line has no known format.
pub fn parse(line: &[u8]) -> Option<Entry<'_>> {
    match line.first()? {
        b'{' => json(line),
        _ => common(line),
    }
}

/// The place of the first address in a line: that of the client, or of the local end where a server writes it first.
pub fn address(line: &[u8]) -> Option<(Range<usize>, IpAddr)> {
    let client = match line.first()? {
        b'{' => json(line)?.client,
        _ => {
            let mut words = line.splitn(3, |byte| *byte == b' ');
            let is_address = |word: &&[u8]| ip(word).is_some();
            [words.next()?, words.next().unwrap_or_default()].into_iter().find(is_address)?
        }
    };
    let found = ip(client)?;
    let start = client.as_ptr().addr() - line.as_ptr().addr();
    Some((start..start + client.len(), found))
}

fn ip(text: &[u8]) -> Option<IpAddr> {
    let is_possible = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':');
    if text.is_empty() || text.len() > 45 || !text.iter().all(is_possible) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// `[host ]client identd user [time] "request" status bytes["referer" "agent"[ host seconds why]]`
fn common(line: &[u8]) -> Option<Entry<'_>> {
    let (before, time, rest) = around_time(line)?;
    let mut words = before.splitn(5, |byte| *byte == b' ');
    let (first, second, _) = (words.next()?, words.next()?, words.next()?);
    let (host, client) = match (first, words.next()) {
        // The addresses that a field has passed on; the first is that of the client.
        ([client @ .., b','], _) => (&[][..], client),
        // A user may have spaces where a server does not escape them; then there is no host in front.
        (host, Some(_)) if second != b"-" => {
            (Some(host).filter(|host| is_host(host)).unwrap_or_default(), second)
        }
        _ => (&[][..], first),
    };
    let end = request_end(rest)?;
    let (method, target, version) = request(&rest[..end]);
    let mut rest = rest[end + 1..].strip_prefix(b" ")?;
    let status = number(word(&mut rest))? as u16;
    let sent = word(&mut rest);
    let sent = if sent == b"-" { 0 } else { number(sent)? };
    let mut entry = Entry { client, host, method, target, version, status, sent, time, ..Entry::default() };
    if let (Some(referer), Some(agent)) = (quoted(&mut rest), quoted(&mut rest)) {
        (entry.referer, entry.agent) = (referer, Some(agent));
    }
    // What taipan adds. Other servers may add something else.
    let (own_host, seconds) = (word(&mut rest), word(&mut rest));
    if let Some(micros) = micros(seconds) {
        entry.micros = Some(micros);
        if entry.host.is_empty() && is_host(own_host) {
            entry.host = own_host;
        }
    }
    Some(entry)
}

/// What is before the time, the time, and what is behind the quote that begins the request. A user may have brackets,
/// because servers do not escape them.
fn around_time(line: &[u8]) -> Option<(&[u8], Time, &[u8])> {
    const LONGEST: usize = 32;
    let opens = line.windows(2).enumerate().filter(|(_, pair)| *pair == b" [");
    let mut found = opens.filter_map(|(open, _)| {
        let rest = &line[open + 2..];
        let close = rest.iter().take(LONGEST).position(|byte| *byte == b']')?;
        let time = common_time(&rest[..close])?;
        Some((&line[..open], time, rest[close + 1..].strip_prefix(b" \"")?))
    });
    found.next()
}

/// The index of the quote that ends the request: the first one that a status follows. Boa and thttpd write the quotes
/// that clients send as they are.
fn request_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += quote_end(&text[at..])?;
        let behind = text[at + 1..].strip_prefix(b" ");
        if behind.is_some_and(|mut behind| number(word(&mut behind)).is_some()) {
            return Some(at);
        }
        at += 1;
    }
}

fn request(text: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let Some(first) = text.iter().position(|byte| *byte == b' ') else { return (&[], text, &[]) };
    let (method, rest) = (&text[..first], &text[first + 1..]);
    match rest.iter().rposition(|byte| *byte == b' ') {
        Some(last) if rest[last + 1..].starts_with(b"HTTP/") => (method, &rest[..last], &rest[last + 1..]),
        _ => (method, rest, &[]),
    }
}

/// The index of the quote that ends a text. A backslash escapes the byte behind it.
fn quote_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if text[at] == b'"' {
            return Some(at);
        }
        at = (at + 2).min(text.len());
    }
}

/// Takes ` "text"` off the front. `-` is absent.
fn quoted<'l>(rest: &mut &'l [u8]) -> Option<&'l [u8]> {
    let text = rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b" \""))?;
    let end = quote_end(text)?;
    *rest = text[end + 1..].strip_prefix(b" ").unwrap_or(&text[end + 1..]);
    Some(if &text[..end] == b"-" { &[] } else { &text[..end] })
}

/// Takes a word off the front, with the space behind it.
fn word<'l>(rest: &mut &'l [u8]) -> &'l [u8] {
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'\r')).unwrap_or(rest.len());
    let word = &rest[..end];
    *rest = rest.get(end + 1..).unwrap_or_default();
    word
}

/// Whether a word looks like a host, with or without its port: it is no number, as the seconds of other servers are,
/// and no text in quotes.
fn is_host(word: &[u8]) -> bool {
    let is_part = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']' | b'%')
    };
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let name = word.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_address = ip(word).is_some() || ip(name).is_some();
    word != b"-" && word.iter().all(is_part) && (is_address || !name.iter().all(is_number))
}

fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
}

/// `0.000123` seconds. A number without a point is none: other servers write other numbers there.
fn micros(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|byte| *byte == b'.')?;
    let (seconds, fraction) = (number(&text[..point])?, &text[point + 1..]);
    let digits = number(fraction)?;
    let exponent = 6_u32.checked_sub(fraction.len() as u32)?;
    seconds.checked_mul(1_000_000)?.checked_add(digits * 10_u64.pow(exponent))
}

/// `20/Nov/2026:07:49:41 +0000`
fn common_time(text: &[u8]) -> Option<Time> {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let at = |range: Range<usize>| text.get(range);
    let two = |start: usize| number(at(start..start + 2)?).map(|number| number as u8);
    let month = MONTHS.chunks(3).position(|month| Some(month) == at(3..6))? as u8 + 1;
    let is_right = text.len() >= 20 && text[2] == b'/' && text[6] == b'/' && text[11] == b':';
    let time = Time {
        year: number(at(7..11)?)? as u16,
        month,
        day: two(0)?,
        hour: two(12)?,
        minute: two(15)?,
        second: two(18)?,
    };
    (is_right && time.is_valid()).then_some(time)
}

/// `2026-11-20T07:49:41Z`
fn rfc3339(text: &[u8]) -> Option<Time> {
    let at = |range: Range<usize>| number(text.get(range)?);
    let time = Time {
        year: at(0..4)? as u16,
        month: at(5..7)? as u8,
        day: at(8..10)? as u8,
        hour: at(11..13)? as u8,
        minute: at(14..16)? as u8,
        second: at(17..19)? as u8,
    };
    time.is_valid().then_some(time)
}

impl Time {
    fn is_valid(self) -> bool {
        let Time { month, day, hour, minute, second, .. } = self;
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61
    }

    /// The same for all times of a day.
    pub fn date(self) -> Date {
        Date { year: self.year, month: self.month, day: self.day }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    pub year: u16,
    pub month: u8,
    pub day: u8,
}

/// An object of one line. Members of members are skipped; of the others, only those that are known matter.
fn json(line: &[u8]) -> Option<Entry<'_>> {
    let mut entry = Entry::default();
    let mut has_time = false;
    let mut rest = line.strip_prefix(b"{")?;
    loop {
        rest = blank(rest);
        if let Some(b'}') = rest.first() {
            break;
        }
        let key = json_text(&mut rest)?;
        rest = blank(blank(rest).strip_prefix(b":")?);
        match rest.first()? {
            b'"' => {
                let text = json_text(&mut rest)?;
                match key {
                    b"time" | b"time_iso8601" | b"timestamp" | b"ts" => {
                        entry.time = rfc3339(text)?;
                        has_time = true;
                    }
                    b"time_local" => {
                        entry.time = common_time(text)?;
                        has_time = true;
                    }
                    b"request" => (entry.method, entry.target, entry.version) = request(text),
                    b"client" | b"remote_addr" | b"remote_ip" | b"client_ip" => entry.client = text,
                    b"host" => entry.host = text,
                    b"method" | b"request_method" => entry.method = text,
                    b"target" | b"uri" | b"request_uri" => entry.target = text,
                    b"version" | b"proto" | b"server_protocol" => entry.version = text,
                    b"referer" | b"http_referer" => entry.referer = text,
                    b"user_agent" | b"http_user_agent" => entry.agent = Some(text),
                    b"status" => entry.status = number(text)? as u16,
                    b"sent" | b"body_bytes_sent" => entry.sent = number(text)?,
                    b"duration" | b"request_time" => entry.micros = micros(text),
                    _ => {}
                }
            }
            b'{' | b'[' => rest = skip_nested(rest)?,
            _ => {
                let end = rest.iter().position(|byte| matches!(byte, b',' | b'}'))?;
                let value = rest[..end].trim_ascii_end();
                match key {
                    b"status" => entry.status = number(value)? as u16,
                    b"sent" | b"body_bytes_sent" | b"size" => entry.sent = number(value)?,
                    b"duration" | b"request_time" => entry.micros = micros(value),
                    b"user_agent" | b"http_user_agent" => entry.agent = Some(&[]),
                    _ => {}
                }
                rest = &rest[end..];
            }
        }
        rest = blank(rest);
        match rest.first()? {
            b',' => rest = &rest[1..],
            b'}' => break,
            _ => return None,
        }
    }
    (has_time && entry.status > 0).then_some(entry)
}

fn blank(text: &[u8]) -> &[u8] {
    text.trim_ascii_start()
}

fn json_text<'l>(rest: &mut &'l [u8]) -> Option<&'l [u8]> {
    let text = rest.strip_prefix(b"\"")?;
    let end = quote_end(text)?;
    *rest = &text[end + 1..];
    Some(&text[..end])
}

/// Skips an object or an array.
fn skip_nested(text: &[u8]) -> Option<&[u8]> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at += 1 + quote_end(&text[at + 1..])?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(&text[at..]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    /// Client, host, method, target, status, bytes, referer, agent, and the time in microseconds.
    fn facts(line: &str) -> String {
        let Some(entry) = parse(line.as_bytes()) else { return "none".to_owned() };
        let Entry { client, host, method, target, status, sent, referer, agent, micros, .. } = entry;
        let [client, host, method, target, referer, agent] =
            [client, host, method, target, referer, agent.unwrap_or_default()].map(text);
        let micros = micros.map_or(-1, |micros| micros as i64);
        format!("{client}|{host}|{method}|{target}|{status}|{sent}|{referer}|{agent}|{micros}")
    }

    #[test]
    fn reads_the_formats_of_servers() {
        let check = |line: &str, expected: &str| assert_eq!(facts(line), expected, "{line}");
        let time = "[20/Nov/2026:07:49:41 +0000]";
        // taipan's common and combined.
        check(
            &format!(r#"192.0.2.7 - - {time} "GET /a?b HTTP/1.1" 200 2448 example.org 0.000123 -"#),
            "192.0.2.7|example.org|GET|/a?b|200|2448|||123",
        );
        check(
            &format!(r#"2001:db8::1 - al {time} "GET / HTTP/2" 200 7 "-" "curl/8" example.org 1.5 "x: y""#),
            "2001:db8::1|example.org|GET|/|200|7||curl/8|1500000",
        );
        // Boa, thttpd, nginx, Apache.
        check(
            &format!(r#"example.org 192.0.2.7 - - {time} "GET / HTTP/1.1" 304 0 "http://r/" "a \"b\" c""#),
            r#"192.0.2.7|example.org|GET|/|304|0|http://r/|a \"b\" c|-1"#,
        );
        check(
            &format!(r#"192.0.2.7 - - {time} "GET /x HTTP/1.0" 200 5 "" """#),
            "192.0.2.7||GET|/x|200|5|||-1",
        );
        check(&format!(r#"a.example - - {time} "GET / HTTP/1.0" 200 -"#), "a.example||GET|/|200|0|||-1");
        check(&format!(r#"h:443 192.0.2.7 - u {time} "-" 408 0 "-" "-""#), "192.0.2.7|h:443||-|408|0|||-1");
        check(
            &format!(r#"1.2.3.4 - - {time} "\x16\x03" 400 9 "-" "-" "7.7.7.7""#),
            r"1.2.3.4|||\x16\x03|400|9|||-1",
        );
        // What servers may be told to add.
        for (behind, micros) in [(r#""-" 0.123"#, 123_000), ("0.123 0.120 .", 120_000), ("- 0.5", 500_000)] {
            check(
                &format!(r#"1.2.3.4 - - {time} "GET / HTTP/1.1" 200 1 "-" "a" {behind}"#),
                &format!("1.2.3.4||GET|/|200|1||a|{micros}"),
            );
        }
        check(&format!(r#"1.2.3.4, 5.6.7.8 - - {time} "GET / HTTP/1.1" 200 1"#), "1.2.3.4||GET|/|200|1|||-1");
        check(&format!(r#"::1 1.2.3.4 - - {time} "GET / HTTP/1.1" 200 1"#), "1.2.3.4|::1|GET|/|200|1|||-1");
        check(&format!(r#"0.5 1.2.3.4 - - {time} "GET / HTTP/1.1" 200 1"#), "1.2.3.4||GET|/|200|1|||-1");
        // What clients have sent, unescaped.
        check(
            &format!(r#"192.0.2.7 - a[b ] [x] {time} "GET /x HTTP/1.0" 200 5"#),
            "192.0.2.7||GET|/x|200|5|||-1",
        );
        check(
            &format!(r#"192.0.2.7 - - {time} "GET /a"b" c HTTP/1.0" 200 5 "" "x""#),
            r#"192.0.2.7||GET|/a"b" c|200|5||x|-1"#,
        );
        check(&format!(r#"192.0.2.7 - - {time} "GET /"" "a" b"#), "none");
        check("", "none");
        check("192.0.2.7 - - nonsense", "none");
        check(r#"192.0.2.7 - - [99/Nov/2026:07:49:41 +0000] "GET / HTTP/1.1" 200 1"#, "none");
        check(&format!(r#"192.0.2.7 - - {time} "GET / HTTP/1.1"#), "none");
        check(&format!(r#"192.0.2.7 - - {time} "GET /\"#), "none");
    }

    #[test]
    fn reads_json() {
        let check = |line: &str, expected: &str| assert_eq!(facts(line), expected, "{line}");
        check(
            r#"{"time":"2026-11-20T07:49:41Z","client":"192.0.2.7","host":"example.org","user":null,"method":"GET","target":"/a?b","version":"HTTP/1.1","status":200,"sent":2448,"duration":0.000123,"referer":null,"user_agent":"c\"8","ended":null,"why":null,"tls":{"a":[1,"}"],"b":{}},"upstream":[{"status":500}]}"#,
            r#"192.0.2.7|example.org|GET|/a?b|200|2448||c\"8|123"#,
        );
        check(
            r#"{ "time_iso8601" : "2026-11-20T07:49:41+00:00", "remote_addr": "::1", "status": "404" , "body_bytes_sent":"1"}"#,
            "::1||||404|1|||-1",
        );
        check(
            r#"{"time_local":"20/Nov/2026:07:49:41 +0000","remote_addr":"::1","request":"GET /a HTTP/1.1","status":"200"}"#,
            "::1||GET|/a|200|0|||-1",
        );
        for wrong in
            ["{", "{}", r#"{"time":1}"#, r#"{"time":"2026-11-20T07:49:41Z","status":200"#, r#"{"a":[}"#, "{]"]
        {
            check(wrong, "none");
        }
    }

    #[test]
    fn finds_the_address_of_a_line() {
        let check = |line: &str, expected: Option<&str>| {
            let found = address(line.as_bytes()).map(|(range, _)| &line[range]);
            assert_eq!(found, expected, "{line}");
        };
        check("192.0.2.7 - - [x", Some("192.0.2.7"));
        check("2001:db8::1 rest", Some("2001:db8::1"));
        check("example.org 192.0.2.7 - -", Some("192.0.2.7"));
        check("a.example - - 192.0.2.7", None);
        check("192.0.2.7", Some("192.0.2.7"));
        check("1.2.3.4.5 x", None);
        check("", None);
        check("{\"time\":\"2026-11-20T07:49:41Z\",\"client\":\"::1\",\"status\":200}", Some("::1"));
    }
}
