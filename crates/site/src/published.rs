//! Texts that the configuration has in place of files: `robots.txt` (RFC 9309) and `security.txt` (RFC 9116), which are
//! for programs that visit a site, and those of routes.

use taipan_http::date;

/// The media type of a text that names none.
const CONTENT_TYPE: &str = "text/plain; charset=utf-8";
/// Their paths, as patterns of routes.
pub const ROBOTS: &str = "/robots.txt";
pub const SECURITY: &str = "/.well-known/security.txt";

/// A text that is sent in place of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    pub body: String,
    /// `None`: that of plain text.
    pub media_type: Option<String>,
    pub expires: Option<Expiry>,
}

/// The time after which the text should not be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiry {
    /// As the configuration has it.
    pub text: String,
    /// Seconds since 1970.
    pub time: i64,
}

impl Text {
    pub fn content_type(&self) -> &str {
        self.media_type.as_deref().unwrap_or(CONTENT_TYPE)
    }

    /// The rules for programs that collect pages: `deny` closes the whole site. `None`: it is no list of rules.
    pub fn robots(text: &str) -> Option<Text> {
        if text == "deny" {
            return Some(Text { body: "User-agent: *\nDisallow: /\n".to_owned(), ..Text::default() });
        }
        let body = format!("{}\n", text.trim_end());
        let is_rule = |line: &str| {
            let line = line.trim();
            line.is_empty() || line.starts_with('#') || line.contains(':')
        };
        (body.contains(':') && body.lines().all(is_rule)).then_some(Text { body, ..Text::default() })
    }

    /// A file `security.txt`: to whom to report a weakness. Each line has a name and a value.
    pub fn security<'a>(lines: impl IntoIterator<Item = (&'a str, &'a str)>, expires: Expiry) -> Text {
        let line = |(name, value): (&str, &str)| format!("{name}: {value}\n");
        let mut body: String = lines.into_iter().map(line).collect();
        body.push_str(&line(("Expires", &expires.text)));
        Text { body, media_type: None, expires: Some(expires) }
    }
}

/// Reads `2027-12-31T23:00:00Z`, or with an offset such as `+01:00` (RFC 3339 §5.6). Seconds since 1970.
pub fn time(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (clock, zone) = rest.strip_prefix(['T', 't'])?.split_at_checked(8)?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    // Fractions have no meaning here.
    let zone = match zone.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => zone,
    };
    let offset = match zone {
        "Z" | "z" => 0,
        zone => {
            let (sign, zone) = zone.split_at_checked(1)?;
            let [hours, minutes] = numbers(zone, ':', [2, 2])?;
            let seconds = hours * 3600 + minutes * 60;
            match sign {
                "+" if hours < 24 && minutes < 60 => seconds,
                "-" if hours < 24 && minutes < 60 => -seconds,
                _ => return None,
            }
        }
    };
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(date::midnight(year, month, day)? + hour * 3600 + minute * 60 + second - offset)
}

/// Numbers with so many digits, between separators.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_times() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-11-20T07:49:41Z", Some(1_795_160_981)),
            ("2026-11-20T08:49:41+01:00", Some(1_795_160_981)),
            ("2026-11-20t02:19:41.5-05:30", Some(1_795_160_981)),
            ("2024-02-29T00:00:00z", Some(1_709_164_800)),
            ("2023-02-29T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-11-20", None),
            ("2026-11-20 07:49:41Z", None),
            ("2026-11-20T24:00:00Z", None),
            ("2026-11-20T07:49:41", None),
            ("2026-11-20T07:49:41+1:00", None),
            ("2026-11-20T07:49:41+24:00", None),
            ("2026-11-2éT07:49:41Z", None),
            ("tomorrow", None),
            ("", None),
        ] {
            assert_eq!(time(text), expected, "{text}");
        }
    }

    #[test]
    fn reads_rules_for_robots() {
        for (text, expected) in [
            ("deny", Some("User-agent: *\nDisallow: /\n")),
            ("User-agent: *\nDisallow: /private/", Some("User-agent: *\nDisallow: /private/\n")),
            ("# all\r\n\nUser-agent: *\nAllow: /\n\n", Some("# all\r\n\nUser-agent: *\nAllow: /\n")),
            ("allow", None),
            ("", None),
            ("User-agent: *\nnothing", None),
        ] {
            assert_eq!(Text::robots(text).map(|text| text.body).as_deref(), expected, "{text}");
        }
    }
}
