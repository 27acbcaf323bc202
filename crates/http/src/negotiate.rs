//! Proactive negotiation (RFC 9110 §12.5): the content coding of a response, and whether the client prefers JSON to
//! HTML. Knows nothing of files: the available codings are an argument.

pub mod language;

use crate::fields::{list, trim_ows, unquoted, weight};

/// A content coding (RFC 9110 §8.4.1, RFC 8878 and RFC 7932).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Coding {
    #[default]
    Identity,
    Gzip,
    Zstd,
    Br,
    /// Brotli with a dictionary that the client has (RFC 9842).
    Dcb,
    /// Zstandard with a dictionary that the client has (RFC 9842).
    Dcz,
}

/// Chooses a coding by the values of all `Accept-Encoding` fields. `available` is in the order of preference, which
/// decides between equal weights; a coding precedes `Identity`. Returns `Identity` if the client has not sent the
/// field or accepts nothing else; `accepts` checks whether `Identity` is acceptable. Malformed members are ignored.
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

/// Whether the client accepts `coding`. `Identity` is acceptable unless excluded by name or by `*;q=0` (§12.5.3).
pub fn accepts<'a>(accept_encoding: impl Iterator<Item = &'a [u8]>, coding: Coding) -> bool {
    let weights = Weights::read(accept_encoding);
    match (coding, weights.of(coding)) {
        (_, Some(weight)) => weight > 0,
        (Coding::Identity, None) => true,
        (_, None) => false,
    }
}

/// Whether the values of all `Accept` fields prefer `application/json` to `text/html`: by weight, then by the
/// precision of the media range. `*/*` alone prefers neither.
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
    /// The token in `Content-Encoding`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
            Coding::Br => "br",
            Coding::Dcb => "dcb",
            Coding::Dcz => "dcz",
        }
    }

    /// The suffix of the name of a file in this coding.
    pub const fn extension(self) -> &'static str {
        match self {
            Coding::Identity => "",
            Coding::Gzip => ".gz",
            Coding::Zstd => ".zst",
            Coding::Br => ".br",
            Coding::Dcb => ".dcb",
            Coding::Dcz => ".dcz",
        }
    }

    fn from_name(name: &[u8]) -> Option<Coding> {
        const NAMES: [(&str, Coding); 7] = [
            ("identity", Coding::Identity),
            ("gzip", Coding::Gzip),
            // RFC 9110 §8.4.1.3: x-gzip is equivalent.
            ("x-gzip", Coding::Gzip),
            ("zstd", Coding::Zstd),
            ("br", Coding::Br),
            ("dcb", Coding::Dcb),
            ("dcz", Coding::Dcz),
        ];
        NAMES.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name)).map(|(_, coding)| *coding)
    }
}

/// The weights of `Accept-Encoding`, in thousandths. Of a coding that is named twice, the first counts.
#[derive(Default)]
struct Weights {
    named: [Option<u16>; 6],
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
        let named = self.named[coding as usize];
        match coding {
            // A star need not mean what takes a dictionary.
            Coding::Dcb | Coding::Dcz => named,
            Coding::Identity | Coding::Gzip | Coding::Zstd | Coding::Br => named.or(self.star),
        }
    }

    /// 0 for a coding that the field does not name.
    fn stated(&self, coding: Coding) -> u16 {
        self.of(coding).unwrap_or(0)
    }
}

/// The weight of a media type in `Accept`. The most specific media range counts (§12.5.1).
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

/// Parses `name *( ";" parameter )`, in which `q` is the weight. `None`: the weight is malformed or the name empty.
fn weighted(member: &[u8]) -> Option<(&[u8], u16)> {
    let (name, mut rest) = match unquoted(member, b';') {
        Some(end) => (trim_ows(&member[..end]), Some(&member[end + 1..])),
        None => (member, None),
    };
    let mut found = 1000;
    // Bounded: each pass takes a semicolon.
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
    fn chooses_a_coding() {
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
    fn accepts_codings_by_weight() {
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
        check("*", Dcb, false);
        check("dcz", Dcz, true);
        assert!(accepts(std::iter::empty(), Identity));
        assert!(!accepts(std::iter::empty(), Gzip));
    }

    #[test]
    fn prefers_json_by_weight_and_precision() {
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
    fn parses_the_names_of_codings() {
        for coding in [Coding::Identity, Coding::Gzip, Coding::Zstd, Coding::Br, Coding::Dcb, Coding::Dcz] {
            assert_eq!(Coding::from_name(coding.as_str().as_bytes()), Some(coding));
        }
    }

    proptest! {
        #[test]
        fn chooses_an_accepted_coding(
            line in "(gzip|br|zstd|identity|\\*|x|,|;q=0(\\.[0-9]{0,3})?|;q=1| ){0,12}",
        ) {
            let values = || [line.as_bytes()].into_iter();
            let chosen = choose(values(), &ALL);
            prop_assert!(chosen == Coding::Identity || accepts(values(), chosen));
            // `Identity` is chosen only if it is acceptable or if no coding is.
            let acceptable = ALL.iter().any(|coding| accepts(values(), *coding));
            prop_assert!(chosen != Coding::Identity || !acceptable || accepts(values(), Coding::Identity));
        }

        #[test]
        fn accepts_any_value(line: Vec<u8>) {
            let values = || [&*line].into_iter();
            let _ = (choose(values(), &ALL), accepts(values(), Coding::Br), prefers_json(values()));
        }
    }
}
