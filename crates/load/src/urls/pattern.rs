//! Expands `{0000..0999}` in a URL to a thousand URLs. The numbers have at least as many digits as the first.
//! Several ranges in one URL multiply.

/// The most URLs of one pattern.
pub const EXPANSION_MAX: u64 = 1_000_000;

/// Every URL of `pattern`; without braces, the pattern itself.
///
/// Errors: a sentence naming the pattern.
pub fn expand(pattern: &str) -> Result<Vec<String>, String> {
    let mut done = vec![String::new()];
    let mut rest = pattern;
    // Bounded by the braces in the pattern: every pass takes one pair.
    while let Some((before, behind)) = rest.split_once('{') {
        let (range, after) = behind.split_once('}').ok_or_else(|| not_a_range(pattern))?;
        let numbers = Range::parse(range).ok_or_else(|| not_a_range(pattern))?;
        if numbers.count().saturating_mul(done.len() as u64) > EXPANSION_MAX {
            return Err(format!("\"{pattern}\" stands for more than {EXPANSION_MAX} URLs"));
        }
        done = done
            .iter()
            .flat_map(|start| numbers.texts().map(move |number| format!("{start}{before}{number}")))
            .collect();
        rest = after;
    }
    for text in &mut done {
        text.push_str(rest);
    }
    Ok(done)
}

struct Range {
    first: u64,
    last: u64,
    digits: usize,
}

impl Range {
    fn parse(text: &str) -> Option<Range> {
        let (first, last) = text.split_once("..")?;
        let digits_only = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits_only(first) || !digits_only(last) {
            return None;
        }
        let range = Range { first: first.parse().ok()?, last: last.parse().ok()?, digits: first.len() };
        (range.first <= range.last).then_some(range)
    }

    fn count(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    fn texts(&self) -> impl Iterator<Item = String> {
        let digits = self.digits;
        (self.first..=self.last).map(move |number| format!("{number:0digits$}"))
    }
}

fn not_a_range(pattern: &str) -> String {
    format!(
        "\"{pattern}\": braces enclose a range, as in /{{0000..0999}}.html; write other braces as %7B and %7D"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|texts| texts.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(expand(pattern).ok(), expected, "{pattern}");
    }

    #[test]
    fn expands_ranges_in_braces() {
        check("/a.html", Some(&["/a.html"]));
        check("/{8..10}.html", Some(&["/8.html", "/9.html", "/10.html"]));
        check("/{008..010}", Some(&["/008", "/009", "/010"]));
        check("/{3..3}", Some(&["/3"]));
        check("/{1..2}/{1..2}", Some(&["/1/1", "/1/2", "/2/1", "/2/2"]));
    }

    #[test]
    fn rejects_invalid_ranges() {
        for pattern in [
            "/{3..2}",
            "/{a..b}",
            "/{1..2",
            "/{..2}",
            "/{+1..2}",
            "/{0..99999999}",
            "/{0..999}/{0..9999}",
            "/{1}",
        ] {
            check(pattern, None);
        }
    }
}
