//! Time zones. An offset is less than a day, at any time.

use site::timezone::TimeZone;

/// The bytes are a file, and a text.
pub fn zone(data: &[u8]) {
    let text = std::str::from_utf8(data).ok().and_then(|text| TimeZone::of_text(text.trim_end()));
    for zone in [TimeZone::of_file(data), text].into_iter().flatten() {
        // From 1894 to 2117, and what no clock has.
        let times = (-30..60).map(|at| at * 79_000_000 + 12_345).chain([i64::MIN, i64::MAX]);
        for time in times {
            let offset = zone.offset(time);
            assert!(offset.unsigned_abs() < 86_400, "{offset} at {time}");
        }
    }
}
