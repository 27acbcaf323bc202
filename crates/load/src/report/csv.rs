//! The run second by second as CSV (RFC 4180, with LF): a line of names, and one line for each point of the
//! series. The rate is that of right responses.

use crate::run::Run;

pub const NAMES: &str = "second,requests_per_second,done,failed,availability_percent,received_bytes_per_second,\
                         p50_micros,p99_micros,longest_micros";

pub fn render(run: &Run) -> String {
    let series = &run.measured.series;
    let mut out = format!("{NAMES}\n");
    for (second, point) in (0u64..).step_by(series.width() as usize).zip(series.points()) {
        // The last point may be cut short by the end of the run.
        let width = (run.measured.seconds() - second as f64).min(series.width() as f64).max(0.001);
        let finished = point.done.saturating_add(point.failed);
        let availability = match finished {
            0 => String::new(),
            finished => format!("{:.4}", point.done as f64 * 100.0 / finished as f64),
        };
        let [median, p99] = [50.0, 99.0]
            .map(|per_cent| point.percentile(per_cent).map_or_else(String::new, |micros| micros.to_string()));
        out.push_str(&format!(
            "{second},{:.2},{},{},{availability},{:.0},{median},{p99},{}\n",
            point.done as f64 / width,
            point.done,
            point.failed,
            point.bytes as f64 / width,
            point.longest
        ));
    }
    out
}
