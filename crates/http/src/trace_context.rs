//! Trace Context (W3C Recommendation, Level 2): `traceparent` and `tracestate`, read and written. A value that breaks
//! the grammar counts as absent. Makes no random numbers.

/// The names of the fields.
pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// Bytes of a value of version 00 (§3.2.2).
const PARENT_LEN: usize = 55;
/// Members of a list (§3.3.1.1).
const MAX_MEMBERS: usize = 32;
/// Bytes of a list that are passed on (§3.3.1.5). Of a longer one, long members are left out first, then the last ones.
const MAX_STATE: usize = 512;
const LONG_MEMBER: usize = 128;
/// Bytes of a key, and of a value (§3.3.1.3).
const MAX_KEY: usize = 256;
const MAX_VALUE: usize = 256;

const SAMPLED: u8 = 1;
const RANDOM: u8 = 2;

/// Of the request that has led to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Never zero.
    pub trace: u128,
    /// Never zero.
    pub parent: u64,
    pub is_sampled: bool,
    /// Whether the trace has a random number (§3.2.2.5.2).
    pub is_random: bool,
}

impl TraceParent {
    /// Reads the values of all fields of the name. `None`: there is none, more than one, or it is malformed.
    pub fn parse<'v>(mut values: impl Iterator<Item = &'v [u8]>) -> Option<TraceParent> {
        let (value, None) = (values.next()?, values.next()) else { return None };
        let (fields, rest) = value.split_at_checked(PARENT_LEN)?;
        let [version @ .., _, _] = fields.first_chunk::<4>()?;
        let version = u8::try_from(hexadecimal(version)?).ok()?;
        // §4.3: a later version may have more behind a dash.
        let is_known = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        if !is_known || [2, 35, 52].iter().any(|at| fields[*at] != b'-') {
            return None;
        }
        let (trace, parent) = (hexadecimal(&fields[3..35])?, hexadecimal(&fields[36..52])? as u64);
        let flags = hexadecimal(&fields[53..])? as u8;
        (trace != 0 && parent != 0).then_some(TraceParent {
            trace,
            parent,
            is_sampled: flags & SAMPLED != 0,
            is_random: flags & RANDOM != 0,
        })
    }

    /// The value of the field, in version 00.
    pub fn to_text(self) -> String {
        let TraceParent { trace, parent, is_sampled, is_random } = self;
        let flags = (u8::from(is_sampled) * SAMPLED) | (u8::from(is_random) * RANDOM);
        format!("00-{trace:032x}-{parent:016x}-{flags:02x}")
    }
}

/// Only digits in lower case (§3.2.2).
fn hexadecimal(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number: u128, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some((number << 4) | u128::from(digit))
    })
}

/// The list of all fields of the name in one. `None`: it is empty or malformed.
pub fn state<'v>(values: impl Iterator<Item = &'v [u8]>) -> Option<Vec<u8>> {
    let mut members: Vec<&[u8]> = Vec::new();
    for member in values.flat_map(|value| value.split(|byte| *byte == b',')) {
        let member = member.trim_ascii();
        if member.is_empty() {
            continue;
        }
        if members.len() == MAX_MEMBERS || !is_member(member) {
            return None;
        }
        let key = |member: &[u8]| member.iter().position(|byte| *byte == b'=').unwrap_or(0);
        if members.iter().any(|other| other[..key(other)] == member[..key(member)]) {
            return None;
        }
        members.push(member);
    }
    while length(&members) > MAX_STATE {
        match members.iter().rposition(|member| member.len() > LONG_MEMBER) {
            Some(long) => _ = members.remove(long),
            None => _ = members.pop(),
        }
    }
    (!members.is_empty()).then(|| members.join(&b','))
}

fn length(members: &[&[u8]]) -> usize {
    members.iter().map(|member| member.len() + 1).sum::<usize>().saturating_sub(1)
}

/// §3.3.1.3: a key and a value.
fn is_member(member: &[u8]) -> bool {
    let Some(at) = member.iter().position(|byte| *byte == b'=') else { return false };
    let (key, value) = (&member[..at], &member[at + 1..]);
    let is_of_key = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let is_of_value = |byte: &u8| matches!(byte, b' '..=b'~') && !b",=".contains(byte);
    let begins = key.first().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    begins
        && key.len() <= MAX_KEY
        && key.iter().all(is_of_key)
        && (1..=MAX_VALUE).contains(&value.len())
        && value.iter().all(is_of_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    fn parse(values: &[&str]) -> Option<TraceParent> {
        TraceParent::parse(values.iter().map(|value| value.as_bytes()))
    }

    #[test]
    fn reads_a_parent() {
        let check = |value: String, is_sampled: bool, is_random: bool| {
            let parent = parse(&[&value]).unwrap_or_else(|| panic!("{value}"));
            assert_eq!((parent.is_sampled, parent.is_random), (is_sampled, is_random), "{value}");
            assert_eq!(
                (parent.trace, parent.parent),
                (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7)
            );
        };
        check(format!("00-{TRACE}-{PARENT}-00"), false, false);
        check(format!("00-{TRACE}-{PARENT}-01"), true, false);
        check(format!("00-{TRACE}-{PARENT}-03"), true, true);
        check(format!("00-{TRACE}-{PARENT}-fe"), false, true);
        check(format!("cc-{TRACE}-{PARENT}-01"), true, false);
        check(format!("cc-{TRACE}-{PARENT}-01-what-comes-later"), true, false);
    }

    #[test]
    fn writes_a_parent_as_version_00() {
        for flags in ["00", "01", "02", "03"] {
            let value = format!("00-{TRACE}-{PARENT}-{flags}");
            assert_eq!(parse(&[&value]).map(TraceParent::to_text), Some(value));
        }
    }

    #[test]
    fn a_malformed_parent_counts_as_absent() {
        for value in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{PARENT}"),
            format!("00-{TRACE}-{PARENT}-"),
            format!("00-{TRACE}-{PARENT}-1"),
            format!("00-{TRACE}-{PARENT}-01-"),
            format!("00-{TRACE}-{PARENT}-01 "),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("cc-{TRACE}-{PARENT}-01.x"),
            format!("0-{TRACE}-{PARENT}-011"),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{}-01", PARENT.to_uppercase()),
            format!("00-{}-{PARENT}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00_{TRACE}_{PARENT}_01"),
            format!("00-{TRACE}-{PARENT}-0x"),
            "-".repeat(55),
            "\u{e4}".repeat(60),
            "0".repeat(100_000),
        ] {
            assert_eq!(parse(&[&value]), None, "{value}");
        }
        let good = format!("00-{TRACE}-{PARENT}-01");
        assert_eq!(parse(&[&good, &good]), None, "two fields");
        assert_eq!(parse(&[]), None);
    }

    fn check(values: &[&str], expected: Option<&str>) {
        let found = state(values.iter().map(|value| value.as_bytes()));
        assert_eq!(found.map(|state| String::from_utf8(state).unwrap()).as_deref(), expected, "{values:?}");
    }

    #[test]
    fn joins_the_lists_of_all_fields() {
        check(&["a=1"], Some("a=1"));
        check(&["a=1, b=2\t", "c=3"], Some("a=1,b=2,c=3"));
        check(&["a=1,,b=2", "", ","], Some("a=1,b=2"));
        check(&["t@v-1_*/=~ !"], Some("t@v-1_*/=~ !"));
        check(&["1a=1"], Some("1a=1"));
        check(&[], None);
        check(&["", " , "], None);
    }

    #[test]
    fn a_malformed_list_counts_as_absent() {
        for value in ["a", "=1", "a=", "A=1", "a=1=2", "a b=1", "a=\u{e4}", "a=1,a=2", "_a=1", "a=1,b"] {
            check(&[value], None);
        }
        let many: Vec<String> = (0..33).map(|number| format!("k{number}=1")).collect();
        check(&[&many[..32].join(",")], Some(&many[..32].join(",")));
        check(&[&many.join(",")], None);
        check(&[&format!("{}=1", "k".repeat(257))], None);
        check(&[&format!("k={}", "v".repeat(257))], None);
    }

    #[test]
    fn a_long_list_loses_long_members_first() {
        let long = format!("long={}", "v".repeat(200));
        let short: Vec<String> = (0..20).map(|number| format!("k{number:02}={}", "v".repeat(16))).collect();
        let short = short.join(",");
        check(&[&short, &long], Some(&short));
        let shorter: Vec<String> = (0..32).map(|number| format!("k{number:02}={}", "v".repeat(16))).collect();
        let found = state([shorter.join(",").as_bytes()].into_iter()).unwrap();
        assert!(found.len() <= MAX_STATE && found.len() > MAX_STATE - 22, "{}", found.len());
    }
}
