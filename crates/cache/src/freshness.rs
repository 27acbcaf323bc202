//! How long a response is fresh, and how old it is (RFC 9111 §4.2).

use taipan_http::date;
use taipan_http::fields::{digits, is_name, list, trim_ows};
use taipan_http::status::Status;

use crate::directives::{Applies, Directives};
use crate::fields::{Field, only, values};
use crate::settings::Settings;
use crate::stored::Stored;
use crate::targeted;

/// What a stored response says about its use. Made once, when it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freshness {
    /// Seconds.
    pub lifetime: i64,
    pub explicit: Explicit,
    /// The age when it was received, in seconds.
    initial_age: i64,
    received: i64,
    pub stale: Stale,
    /// Seconds beyond the lifetime.
    stale_while_revalidate: i64,
    stale_if_error: i64,
}

/// Whether the lifetime is that of the response itself, or was found by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Explicit {
    Yes,
    No,
}

/// Whether a response may be used without validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// Once it is stale, too, if a request allows it.
    Allowed,
    /// Only while it is fresh (`must-revalidate`, `proxy-revalidate` and `s-maxage`).
    Forbidden,
    /// Never (`no-cache`).
    AlwaysValidate,
}

/// The directives that count for a response.
pub struct Directed {
    pub directives: Directives,
    /// Those of a targeted field: `Expires` does not count.
    pub is_targeted: bool,
}

/// No response is older than this, in seconds (RFC 9111 §1.2.2).
const GREATEST: i64 = 1 << 31;
/// Workers read their clocks at different moments, and a running clock is corrected by so many seconds at most.
const CORRECTION: i64 = 5;

impl Directed {
    /// The first targeted field that the response has and the settings name; else `Cache-Control`.
    pub fn of(fields: &[Field], settings: &Settings) -> Directed {
        for target in &settings.targets {
            let found = match is_name(target.as_bytes(), "surrogate-control") {
                true => surrogate_control(fields, &settings.surrogate),
                false => targeted::parse(values(fields, target)),
            };
            if let Some(directives) = found {
                return Directed { directives, is_targeted: true };
            }
        }
        let directives = Directives::parse(values(fields, "cache-control"));
        Directed { directives, is_targeted: false }
    }
}

/// An older field, in which a parameter names the server that a directive is for: those for others do not count, and
/// those for this one count alone.
fn surrogate_control(fields: &[Field], name: &str) -> Option<Directives> {
    let (mut for_all, mut for_this): (Vec<&[u8]>, Vec<&[u8]>) = Default::default();
    for member in list(values(fields, "surrogate-control")) {
        let end = member.iter().rposition(|&byte| byte == b';');
        match end.map(|end| (&member[..end], trim_ows(&member[end + 1..]))) {
            None => for_all.push(member),
            Some((directive, target)) if !name.is_empty() && target == name.as_bytes() => {
                for_this.push(trim_ows(directive));
            }
            Some(_) => {}
        }
    }
    let own = if for_this.is_empty() { for_all } else { for_this };
    (!own.is_empty()).then(|| Directives::parse(own.into_iter()))
}

impl Freshness {
    /// The freshness by these directives, and by `Expires`, `Age`, `Date` and `Last-Modified` of the response.
    pub fn directed(stored: &Stored, directed: &Directed, settings: &Settings) -> Freshness {
        let (directives, received) = (&directed.directives, stored.times.received);
        let date = only(&stored.fields, "date").and_then(|value| date::parse(value, received));
        let date = date.unwrap_or(received);
        let own = explicit_lifetime(stored, directed, date);
        let lifetime = own.unwrap_or_else(|| found_lifetime(stored, directives, date, settings));
        let stale = if directives.no_cache == Applies::Everywhere {
            Stale::AlwaysValidate
        } else if directives.must_revalidate || directives.proxy_revalidate || directives.s_maxage.is_some() {
            Stale::Forbidden
        } else {
            Stale::Allowed
        };
        // What the response itself says counts beside `s-maxage`: RFC 5861 is the more specific one.
        let is_strict =
            directives.must_revalidate || directives.proxy_revalidate || stale == Stale::AlwaysValidate;
        let extension = |own: Option<u64>, otherwise: u64| match (own, stale) {
            _ if is_strict => 0,
            (Some(own), _) => clamped(own),
            (None, Stale::Allowed) => clamped(otherwise),
            (None, _) => 0,
        };
        Freshness {
            lifetime: lifetime.min(GREATEST),
            explicit: if own.is_some() { Explicit::Yes } else { Explicit::No },
            initial_age: initial_age(stored, date),
            received,
            stale,
            stale_while_revalidate: extension(
                directives.stale_while_revalidate,
                settings.stale_while_revalidate,
            ),
            stale_if_error: extension(directives.stale_if_error, settings.stale_if_error),
        }
    }

    /// Seconds. When the clock was set back, the age of an earlier response is unknown: it counts as very old, because
    /// it would be fresh until the clock is where it was.
    #[inline]
    pub fn age(&self, now: i64) -> i64 {
        let resident = now.saturating_sub(self.received);
        if resident < -CORRECTION {
            return GREATEST;
        }
        self.initial_age.saturating_add(resident.max(0)).min(GREATEST)
    }

    /// Seconds for which it is still fresh: negative if it is stale.
    #[inline]
    pub fn left(&self, now: i64) -> i64 {
        self.lifetime - self.age(now)
    }

    /// Whether it is used while a newer one is requested.
    #[inline]
    pub fn serves_while_revalidating(&self, now: i64) -> bool {
        self.left(now) > -self.stale_while_revalidate
    }

    /// Whether it is used if the upstream fails.
    pub fn serves_if_error(&self, now: i64) -> bool {
        match self.left(now) {
            1.. => self.stale != Stale::AlwaysValidate,
            left => -left < self.stale_if_error,
        }
    }

    /// The end of all use without a successful validation, in seconds since 1970.
    pub fn end(&self) -> i64 {
        let beyond = self.stale_while_revalidate.max(self.stale_if_error);
        self.received.saturating_add(self.lifetime - self.initial_age).saturating_add(beyond)
    }
}

fn clamped(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(GREATEST).min(GREATEST)
}

/// RFC 9111 §4.2.1. `date`: when the response was made.
fn explicit_lifetime(stored: &Stored, directed: &Directed, date: i64) -> Option<i64> {
    let Directed { directives, is_targeted } = directed;
    if let Some(seconds) = directives.s_maxage.or(directives.max_age) {
        return Some(clamped(seconds));
    }
    let mut expires = values(&stored.fields, "expires").filter(|_| !is_targeted).peekable();
    expires.peek()?;
    // One that is invalid means the past (RFC 9111 §5.3).
    let received = stored.times.received;
    let earliest = expires.map(|value| date::parse(value, received).unwrap_or(0)).min().unwrap_or(0);
    Some(earliest.saturating_sub(date).clamp(0, GREATEST))
}

/// The lifetime of a response that names none.
fn found_lifetime(stored: &Stored, directives: &Directives, date: i64, settings: &Settings) -> i64 {
    let Stored { status, fields, times, .. } = stored;
    if !is_heuristic(*status) && !directives.public {
        return 0;
    }
    if let Some(seconds) = settings.lifetime {
        return clamped(seconds);
    }
    let modified = only(fields, "last-modified").and_then(|value| date::parse(value, times.received));
    let Some(modified) = modified else { return 0 };
    let since = clamped(date.saturating_sub(modified).max(0) as u64);
    let percent = i64::try_from(settings.heuristic.min(100)).unwrap_or(0);
    (since * percent / 100).min(clamped(settings.longest_heuristic))
}

/// Statuses that may be stored without an explicit freshness (RFC 9110 §15.1).
pub fn is_heuristic(status: Status) -> bool {
    matches!(status.code(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// RFC 9111 §4.2.3.
fn initial_age(Stored { fields, times, .. }: &Stored, date: i64) -> i64 {
    let apparent = times.received.saturating_sub(date).max(0);
    let delay = times.received.saturating_sub(times.requested).max(0);
    let corrected = age_value(fields).saturating_add(delay);
    apparent.max(corrected).min(GREATEST)
}

/// A malformed value, or one that is there twice, counts as very old (RFC 9111 §5.1 leaves that to the cache).
fn age_value(fields: &[Field]) -> i64 {
    if values(fields, "age").next().is_none() {
        return 0;
    }
    only(fields, "age").and_then(digits).map_or(GREATEST, clamped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::Times;
    use crate::vary::Variant;

    /// Sun, 01 Mar 2026 00:00:00 GMT.
    const NOW: i64 = 1_772_323_200;

    fn freshness_with(settings: &Settings, status: u16, lines: &[(&str, &str)]) -> Freshness {
        let fields = lines
            .iter()
            .map(|(name, value)| Field { name: (*name).into(), value: value.as_bytes().into() })
            .collect();
        let times = Times { requested: NOW - 1, received: NOW };
        let status = Status::new(status).unwrap();
        let stored = Stored { status, fields, times, variant: Variant::default() };
        Freshness::directed(&stored, &Directed::of(&stored.fields, settings), settings)
    }

    fn freshness(lines: &[(&str, &str)]) -> Freshness {
        freshness_with(&Settings::default(), 200, lines)
    }

    const CC: &str = "Cache-Control";
    const MIDNIGHT: &str = "Sun, 01 Mar 2026 00:00:00 GMT";
    const LATER: &str = "Sun, 01 Mar 2026 01:00:00 GMT";
    const YESTERDAY: &str = "Sat, 28 Feb 2026 00:00:00 GMT";

    #[test]
    fn the_lifetime_is_what_the_response_names() {
        let check = |lines: &[(&str, &str)], expected: i64| {
            assert_eq!(freshness(lines).lifetime, expected, "{lines:?}");
        };
        check(&[], 0);
        check(&[(CC, "max-age=60")], 60);
        check(&[(CC, "max-age=60, s-maxage=5")], 5);
        check(&[(CC, "max-age=0"), ("Expires", LATER)], 0);
        check(&[("Expires", LATER), ("Date", MIDNIGHT)], 3600);
        check(&[("Expires", LATER)], 3600);
        check(&[("Expires", LATER), ("Date", LATER)], 0);
        check(&[("Expires", LATER), ("Expires", MIDNIGHT)], 0);
        check(&[("Expires", "0")], 0);
        check(&[("Expires", "0"), ("Last-Modified", YESTERDAY)], 0);
        check(&[("CDN-Cache-Control", "max-age=9"), (CC, "max-age=60"), ("Expires", LATER)], 9);
        check(&[("CDN-Cache-Control", "public"), (CC, "max-age=60"), ("Expires", LATER)], 0);
        check(&[("CDN-Cache-Control", "malformed="), (CC, "max-age=60")], 60);
        check(&[("Last-Modified", YESTERDAY), ("Date", MIDNIGHT)], 8640);
        check(&[("Last-Modified", LATER), ("Date", MIDNIGHT)], 0);
        check(&[("Last-Modified", "Thu, 01 Jan 1970 00:00:00 GMT")], 86_400);
        assert_eq!(freshness_with(&Settings::default(), 403, &[("Last-Modified", YESTERDAY)]).lifetime, 0);
        let own = Settings {
            lifetime: Some(7),
            targets: vec!["surrogate-control".to_owned()],
            ..Settings::default()
        };
        assert_eq!(freshness_with(&own, 200, &[]).lifetime, 7);
        assert_eq!(freshness_with(&own, 500, &[]).lifetime, 0);
        assert_eq!(freshness_with(&own, 200, &[(CC, "max-age=60")]).lifetime, 60);
        assert_eq!(
            freshness_with(&own, 200, &[("Surrogate-Control", "max-age=5"), (CC, "max-age=60")]).lifetime,
            5
        );
        let other = [("Surrogate-Control", "max-age=5;other"), (CC, "max-age=60")];
        assert_eq!(freshness_with(&own, 200, &other).lifetime, 60);
        let named = Settings { surrogate: "taipan".to_owned(), ..own };
        let both = [("Surrogate-Control", "max-age=5, max-age=9 ; taipan"), (CC, "no-store")];
        assert_eq!(freshness_with(&named, 200, &both).lifetime, 9);
        assert_eq!(freshness_with(&named, 200, &other).lifetime, 60);
    }

    #[test]
    fn the_age_grows() {
        let check = |lines: &[(&str, &str)], expected: i64| {
            assert_eq!(freshness(lines).age(NOW + 10), expected, "{lines:?}");
        };
        check(&[], 11);
        check(&[("Date", MIDNIGHT)], 11);
        check(&[("Date", YESTERDAY)], 86_410);
        check(&[("Date", LATER)], 11);
        check(&[("Age", "100")], 111);
        for old in ["-1", "a", "1.5", "0, 0", "0;a", ""] {
            check(&[("Age", old)], GREATEST);
        }
        check(&[("Age", "0"), ("Age", "0")], GREATEST);
        // A correction of the clock, and a clock that was set back.
        for (back, expected) in [(1, 1), (CORRECTION, 1), (CORRECTION + 1, GREATEST)] {
            assert_eq!(freshness(&[("Age", "0")]).age(NOW - back), expected, "{back}");
        }
        assert_eq!(freshness(&[("Age", "0")]).age(i64::MIN), GREATEST);
    }

    #[test]
    fn a_stale_response_is_used_only_where_it_may_be() {
        let stale = |control: &str| freshness(&[(CC, control)]).stale;
        assert_eq!(stale("max-age=1"), Stale::Allowed);
        for strict in ["s-maxage=1", "max-age=1, must-revalidate", "max-age=1, proxy-revalidate"] {
            assert_eq!(stale(strict), Stale::Forbidden, "{strict}");
        }
        assert_eq!(stale("max-age=1, no-cache"), Stale::AlwaysValidate);
        assert_eq!(stale("max-age=1, no-cache=\"set-cookie\""), Stale::Allowed);
        let own = Settings { stale_if_error: 50, stale_while_revalidate: 20, ..Settings::default() };
        let check = |control: &str, (revalidating, if_error): (i64, i64)| {
            let found = freshness_with(&own, 200, &[(CC, control)]);
            // One second of age is the delay of the response.
            assert!(found.serves_if_error(NOW), "{control}");
            let stale_for = |seconds: i64| NOW + 9 + seconds;
            assert!(found.serves_while_revalidating(stale_for(revalidating - 1)), "{control}");
            assert!(!found.serves_while_revalidating(stale_for(revalidating)), "{control}");
            assert!(found.serves_if_error(stale_for(if_error - 1)), "{control}");
            assert!(!found.serves_if_error(stale_for(if_error)), "{control}");
        };
        check("max-age=10", (20, 50));
        check("max-age=10, stale-while-revalidate=5, stale-if-error=8", (5, 8));
        check("s-maxage=10, stale-while-revalidate=5, stale-if-error=8", (5, 8));
        check("s-maxage=10", (0, 0));
        check("max-age=10, must-revalidate, stale-if-error=8", (0, 0));
        assert!(!freshness_with(&own, 200, &[(CC, "max-age=10, no-cache")]).serves_if_error(NOW));
    }
}
