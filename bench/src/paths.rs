//! Picks the next path: the only one, or one of many at random, in the same order for the same seed.

/// The most paths of one pattern.
const EXPANSION_MAX: u64 = 1_000_000;

/// Expands `/k/{0..999}.html` to a thousand paths. A path without braces is returned unchanged.
///
/// Errors: a sentence naming the pattern.
pub fn expand(pattern: &str) -> Result<Vec<String>, String> {
    if !pattern.starts_with('/') || !pattern.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("\"{pattern}\" is not a path; a path begins with \"/\" and has no spaces"));
    }
    let Some((before, rest)) = pattern.split_once('{') else { return Ok(vec![pattern.to_owned()]) };
    let range = rest.split_once('}').and_then(|(range, after)| {
        let (first, last) = range.split_once("..")?;
        Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?, after))
    });
    match range {
        Some((first, last, after)) if first <= last && last - first < EXPANSION_MAX => {
            Ok((first..=last).map(|number| format!("{before}{number}{after}")).collect())
        }
        _ => Err(format!("\"{pattern}\" is not a range; write for example /{{0..999}}.html")),
    }
}

/// SplitMix64: eight bytes of state and no division per pick.
pub struct Picker {
    state: u64,
    choices: u64,
}

impl Picker {
    pub fn new(seed: u64, choices: usize) -> Picker {
        Picker { state: seed, choices: choices as u64 }
    }

    /// A number below `choices`.
    pub fn pick(&mut self) -> usize {
        if self.choices == 1 {
            return 0;
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(self.choices)) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|paths| paths.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(expand(pattern).ok(), expected, "{pattern}");
    }

    #[test]
    fn expands_ranges_in_braces() {
        check("/a.html", Some(&["/a.html"]));
        check("/{8..10}.html", Some(&["/8.html", "/9.html", "/10.html"]));
        check("/{3..3}", Some(&["/3"]));
        check("/{3..2}", None);
        check("/{a..b}", None);
        check("/{1..2", None);
        check("/{0..99999999}", None);
        check("a.html", None);
        check("/a b", None);
    }

    #[test]
    fn repeats_the_order_of_a_seed_and_picks_every_choice() {
        let picks =
            |seed| (0..200).map(|_| 0).scan(Picker::new(seed, 10), |p, _: i32| Some(p.pick())).collect();
        let (one, same, other): (Vec<_>, Vec<_>, Vec<_>) = (picks(1), picks(1), picks(2));
        assert_eq!(one, same);
        assert_ne!(one, other);
        assert!((0..10).all(|choice| one.contains(&choice)));
        assert!(one.iter().all(|&pick| pick < 10));
    }
}
