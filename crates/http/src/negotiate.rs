//! Proactive negotiation (RFC 9110 §12.5): which coding to send, and whether a listing is wanted as
//! JSON. Knows nothing of which codings exist for a file: that is an argument.

use crate::fields::{list, trim_ows, unquoted, weight};

/// A content coding (RFC 9110 §8.4.1, RFC 8878 and RFC 7932).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    Identity,
    Gzip,
    Zstd,
    Br,
}

/// The best of `available`, which is in the server's order of preference, for the values of all
/// `Accept-Encoding` lines. Of equal weights the order decides, and any coding beats none. `Identity`
/// without the field, as whoever does not say so may not decode; and where nothing at all is
/// acceptable: whether even that is, says `accepts`. Malformed members are ignored.
pub fn choose<'a>(accept_encoding: impl Iterator<Item = &'a [u8]>, available: &[Coding]) -> Coding {
    let weights = Weights::read(accept_encoding);
    let mut best = (weights.stated(Coding::Identity), Coding::Identity);
    for &coding in available.iter().filter(|coding| **coding != Coding::Identity).rev() {
        let weight = weights.stated(coding);
        if weight > 0 && weight >= best.0 {
            best = (weight, coding);
        }
    }
    best.1
}

/// Whether `coding` may be sent at all. Identity may, unless it is excluded by name or by `*;q=0`
/// (§12.5.3).
pub fn accepts<'a>(accept_encoding: impl Iterator<Item = &'a [u8]>, coding: Coding) -> bool {
    let weights = Weights::read(accept_encoding);
    match (coding, weights.of(coding)) {
        (_, Some(weight)) => weight > 0,
        (Coding::Identity, None) => true,
        (_, None) => false,
    }
}

/// Whether the values of all `Accept` lines put `application/json` before `text/html`: by weight, then
/// by how closely it is named. `*/*` alone prefers neither.
pub fn prefers_json<'a>(accept: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut json, mut html) = (Preference::default(), Preference::default());
    for member in list(accept) {
        let Some((range, weight)) = weighted(member) else { continue };
        json = json.or(Preference::of(range, ("application/*", "application/json"), weight));
        html = html.or(Preference::of(range, ("text/*", "text/html"), weight));
    }
    json.weight > 0 && (json.weight, json.precision) > (html.weight, html.precision)
}

impl Coding {
    /// As in `Content-Encoding`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
            Coding::Br => "br",
        }
    }

    /// What the name of a file in this coding ends with.
    pub const fn extension(self) -> &'static str {
        match self {
            Coding::Identity => "",
            Coding::Gzip => ".gz",
            Coding::Zstd => ".zst",
            Coding::Br => ".br",
        }
    }

    fn from_name(name: &[u8]) -> Option<Coding> {
        const NAMES: [(&str, Coding); 5] = [
            ("identity", Coding::Identity),
            ("gzip", Coding::Gzip),
            // RFC 9110 §8.4.1.3: the same.
            ("x-gzip", Coding::Gzip),
            ("zstd", Coding::Zstd),
            ("br", Coding::Br),
        ];
        NAMES.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name)).map(|(_, coding)| *coding)
    }
}

/// The weights of one `Accept-Encoding`, in thousandths. A coding that is named twice has the first.
#[derive(Default)]
struct Weights {
    named: [Option<u16>; 4],
    star: Option<u16>,
}

impl Weights {
    fn read<'a>(values: impl Iterator<Item = &'a [u8]>) -> Weights {
        let mut weights = Weights::default();
        for (name, weight) in list(values).filter_map(weighted) {
            let place = match Coding::from_name(name) {
                Some(coding) => &mut weights.named[coding as usize],
                None if name == b"*" => &mut weights.star,
                None => continue,
            };
            place.get_or_insert(weight);
        }
        weights
    }

    fn of(&self, coding: Coding) -> Option<u16> {
        self.named[coding as usize].or(self.star)
    }

    /// 0 for what is not said.
    fn stated(&self, coding: Coding) -> u16 {
        self.of(coding).unwrap_or(0)
    }
}

/// What `Accept` says of one media type: its closest range counts (§12.5.1).
#[derive(Clone, Copy, Default)]
struct Preference {
    precision: u8,
    weight: u16,
}

impl Preference {
    fn of(range: &[u8], (family, exact): (&str, &str), weight: u16) -> Preference {
        let precision = match range {
            range if range.eq_ignore_ascii_case(exact.as_bytes()) => 3,
            range if range.eq_ignore_ascii_case(family.as_bytes()) => 2,
            b"*/*" => 1,
            _ => return Preference::default(),
        };
        Preference { precision, weight }
    }

    fn or(self, other: Preference) -> Preference {
        if other.precision > self.precision { other } else { self }
    }
}

/// `name *( ";" parameter )`, of which `q` is the weight. `None`: the weight is malformed, or there is
/// no name.
fn weighted(member: &[u8]) -> Option<(&[u8], u16)> {
    let (name, mut rest) = match unquoted(member, b';') {
        Some(end) => (trim_ows(&member[..end]), Some(&member[end + 1..])),
        None => (member, None),
    };
    let mut found = 1000;
    // Bounded: every turn takes one semicolon.
    while let Some(parameters) = rest {
        let (parameter, behind) = match unquoted(parameters, b';') {
            Some(end) => (&parameters[..end], Some(&parameters[end + 1..])),
            None => (parameters, None),
        };
        if let [b'q' | b'Q', b'=', value @ ..] = trim_ows(parameter) {
            found = weight(value)?;
        }
        rest = behind;
    }
    (!name.is_empty()).then_some((name, found))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Coding; 3] = [Coding::Br, Coding::Zstd, Coding::Gzip];

    #[test]
    fn codings() {
        use Coding::*;
        let check = |lines: &[&str], available: &[Coding], expected: Coding| {
            let values = lines.iter().map(|line| line.as_bytes());
            assert_eq!(choose(values, available), expected, "{lines:?}");
        };
        check(&[], &ALL, Identity);
        check(&[""], &ALL, Identity);
        check(&["gzip"], &ALL, Gzip);
        check(&["GZIP"], &ALL, Gzip);
        check(&["x-gzip"], &ALL, Gzip);
        check(&["gzip, deflate, br, zstd"], &ALL, Br);
        check(&["gzip", "br"], &ALL, Br);
        check(&["gzip, deflate, br, zstd"], &[Zstd, Br], Zstd);
        check(&["gzip, br"], &[Zstd], Identity);
        check(&["gzip"], &[], Identity);
        check(&["gzip"], &[Identity, Gzip], Gzip);
        check(&["gzip;q=1.0, br;q=0.9"], &ALL, Gzip);
        check(&["gzip;q=0.5, br;q=0.5"], &ALL, Br);
        check(&["gzip;q=0"], &ALL, Identity);
        check(&["gzip;q=0, *"], &[Gzip], Identity);
        check(&["gzip;q=0, *"], &ALL, Br);
        check(&["*"], &ALL, Br);
        check(&["*;q=0"], &ALL, Identity);
        check(&["*;q=0, gzip"], &ALL, Gzip);
        check(&["identity"], &ALL, Identity);
        check(&["identity, gzip"], &ALL, Gzip);
        check(&["identity;q=1, gzip;q=0.5"], &ALL, Identity);
        check(&["identity;q=0.5, gzip;q=0.8"], &ALL, Gzip);
        check(&["gzip;q=0.5"], &ALL, Gzip);
        check(&["gzip;q=0.001"], &ALL, Gzip);
        check(&["gzip ; q=0.5 , br ;\tQ=0.6"], &ALL, Br);
        check(&["gzip;q=2, br;q=x, zstd;q=0.5"], &ALL, Zstd);
        check(&["gzip;q=-1"], &ALL, Identity);
        check(&["gzip;q=0.5;q=0.1, br;q=0.3"], &ALL, Br);
        check(&["gzip, gzip;q=0"], &ALL, Gzip);
        check(&["gzip;x=\"a;q=0\""], &ALL, Gzip);
        check(&[";q=1", "gzip br", "gz", "\"gzip\""], &ALL, Identity);
    }

    #[test]
    fn what_may_be_sent_at_all() {
        use Coding::*;
        let check = |line: &str, coding, expected| {
            assert_eq!(accepts([line.as_bytes()].into_iter(), coding), expected, "{line}")
        };
        check("", Identity, true);
        check("gzip", Identity, true);
        check("identity;q=0", Identity, false);
        check("*;q=0", Identity, false);
        check("*;q=0, identity;q=0.1", Identity, true);
        check("identity;q=0, *", Identity, false);
        check("gzip", Gzip, true);
        check("gzip", Br, false);
        check("*", Br, true);
        check("br;q=0, *", Br, false);
        assert!(accepts(std::iter::empty(), Identity));
        assert!(!accepts(std::iter::empty(), Gzip));
    }

    #[test]
    fn json_or_html() {
        let check = |lines: &[&str], expected: bool| {
            assert_eq!(prefers_json(lines.iter().map(|line| line.as_bytes())), expected, "{lines:?}");
        };
        check(&[], false);
        check(&[""], false);
        check(&["*/*"], false);
        check(&["text/html"], false);
        check(&["application/json"], true);
        check(&["Application/JSON; charset=utf-8"], true);
        check(&["application/json, */*"], true);
        check(&["application/json, text/html"], false);
        check(&["application/json", "text/html;q=0.9"], true);
        check(&["text/html, application/json;q=0.9"], false);
        check(&["application/json;q=0.9, */*"], false);
        check(&["application/json, */*;q=0.8"], true);
        check(&["application/*, text/html;q=0.5"], true);
        check(&["application/*, */*"], true);
        check(&["text/*, application/json"], true);
        check(&["application/json;q=0"], false);
        check(&["application/json;q=0, */*"], false);
        check(&["*/*, text/html;q=0"], true);
        check(&["application/json;q=x"], false);
        check(&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], false);
        check(&["json", "application", "/", "application/json+x"], false);
    }

    #[test]
    fn names_of_codings_are_read_back() {
        for coding in [Coding::Identity, Coding::Gzip, Coding::Zstd, Coding::Br] {
            assert_eq!(Coding::from_name(coding.as_str().as_bytes()), Some(coding));
        }
    }

    proptest! {
        #[test]
        fn what_is_chosen_is_accepted(
            line in "(gzip|br|zstd|identity|\\*|x|,|;q=0(\\.[0-9]{0,3})?|;q=1| ){0,12}",
        ) {
            let values = || [line.as_bytes()].into_iter();
            let chosen = choose(values(), &ALL);
            prop_assert!(chosen == Coding::Identity || accepts(values(), chosen));
            // A coding is left out only for one that weighs as much, or if none may be sent.
            let acceptable = ALL.iter().any(|coding| accepts(values(), *coding));
            prop_assert!(chosen != Coding::Identity || !acceptable || accepts(values(), Coding::Identity));
        }

        #[test]
        fn any_value_is_read(line: Vec<u8>) {
            let values = || [&*line].into_iter();
            let _ = (choose(values(), &ALL), accepts(values(), Coding::Br), prefers_json(values()));
        }
    }
}
