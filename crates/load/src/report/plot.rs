//! Plots as SVG: axes, lines, areas and bars. Colours are classes that the page defines for light and dark. Knows
//! nothing of runs.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 264.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;

/// One axis of a plot: its range and its ticks.
pub struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    ticks: Vec<(f64, String)>,
}

enum Scale {
    Linear,
    Log,
}

impl Axis {
    /// From 0, with four to eight ticks at round numbers.
    pub fn linear(high: f64, words: impl Fn(f64) -> String) -> Self {
        let high = if high > 0.0 && high.is_finite() { high } else { 1.0 };
        let rough = high / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|&step| step >= rough);
        let step = step.unwrap_or(rough);
        let ticks = (0..=10).map(|index| f64::from(index) * step).filter(|&tick| tick <= high * 1.0001);
        let ticks = ticks.map(|tick| (tick, words(tick))).collect();
        Self { low: 0.0, high, scale: Scale::Linear, ticks }
    }

    /// Logarithmic, from the power of ten below `low` to that above `high`.
    pub fn log(low: f64, high: f64, words: impl Fn(f64) -> String) -> Self {
        let low = low.max(1.0).log10().floor();
        let high = high.max(1.0).log10().ceil().max(low + 1.0);
        // Bounded by the digits of a 64-bit number.
        let ticks = (0..=20).map(|index| low + f64::from(index)).filter(|&power| power <= high);
        let ticks = ticks.map(|power| 10f64.powf(power)).map(|tick| (tick, words(tick))).collect();
        Self { low: 10f64.powf(low), high: 10f64.powf(high), scale: Scale::Log, ticks }
    }

    /// From 0, with the caller's ticks.
    pub fn with_ticks(high: f64, ticks: Vec<(f64, String)>) -> Self {
        Self { low: 0.0, high, scale: Scale::Linear, ticks }
    }

    /// The position of a value: 0 at the low end, 1 at the high end.
    fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).log10() / (self.high / self.low).log10(),
        }
    }
}

/// What is drawn. The first field is the class for its colour.
pub enum Mark {
    Line(&'static str, Vec<(f64, f64)>),
    /// Between a line and the low end of the vertical axis.
    Area(&'static str, Vec<(f64, f64)>),
    Bars(&'static str, Vec<Bar>),
}

/// A bar from the low end of the vertical axis, with the text of its tooltip.
pub struct Bar {
    pub from: f64,
    pub to: f64,
    pub height: f64,
    pub words: String,
}

/// A plot with its title, and a description for screen readers.
pub struct Plot {
    pub title: &'static str,
    pub description: String,
    pub x: Axis,
    pub y: Axis,
    pub marks: Vec<Mark>,
    /// Class and name of each mark.
    pub legend: Vec<(&'static str, &'static str)>,
}

impl Plot {
    /// An HTML figure. The texts must be escaped.
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "<figure>\n<figcaption><h2>{}</h2>", self.title)?;
        for (class, name) in &self.legend {
            write!(out, "<span class=\"key {class}\">{name}</span> ")?;
        }
        writeln!(out, "</figcaption>")?;
        writeln!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}: {}\">",
            self.title, self.description
        )?;
        self.write_axes(out)?;
        for mark in &self.marks {
            self.write_mark(out, mark)?;
        }
        writeln!(out, "</svg>\n</figure>")
    }

    fn across(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn up(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn write_axes(&self, out: &mut String) -> std::fmt::Result {
        let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, words) in &self.y.ticks {
            let y = self.up(*value);
            writeln!(out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>")?;
            writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{words}</text>",
                LEFT - 8.0,
                y + 5.0
            )?;
        }
        for (value, words) in &self.x.ticks {
            let x = self.across(*value);
            let anchor = if x > right - 30.0 { "end" } else { "middle" };
            writeln!(out, "<path class=\"axis\" d=\"M{x:.1} {floor}v5\"/>")?;
            writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{words}</text>",
                floor + 23.0
            )?;
        }
        writeln!(out, "<path class=\"axis\" d=\"M{LEFT} {floor}H{right}\"/>")
    }

    fn write_mark(&self, out: &mut String, mark: &Mark) -> std::fmt::Result {
        match mark {
            Mark::Line(class, points) if !points.is_empty() => {
                writeln!(out, "<path class=\"line {class}\" d=\"M{}\"/>", self.path(points))
            }
            Mark::Area(class, points) => {
                let (Some(first), Some(last)) = (points.first(), points.last()) else { return Ok(()) };
                let floor = HEIGHT - BOTTOM;
                writeln!(
                    out,
                    "<path class=\"area {class}\" d=\"M{:.1} {floor}L{}L{:.1} {floor}Z\"/>",
                    self.across(first.0),
                    self.path(points),
                    self.across(last.0)
                )
            }
            Mark::Bars(class, bars) => bars.iter().try_for_each(|bar| self.write_bar(out, class, bar)),
            Mark::Line(..) => Ok(()),
        }
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let places: Vec<String> =
            points.iter().map(|&(x, y)| format!("{:.1} {:.1}", self.across(x), self.up(y))).collect();
        places.join("L")
    }

    fn write_bar(&self, out: &mut String, class: &str, bar: &Bar) -> std::fmt::Result {
        let (left, right) = (self.across(bar.from), self.across(bar.to));
        // A small bar must still be visible.
        let top = self.up(bar.height).min(HEIGHT - BOTTOM - 1.5);
        writeln!(
            out,
            "<rect class=\"bar {class}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
             <title>{}</title></rect>",
            left,
            (right - left - 1.0).max(1.0),
            HEIGHT - BOTTOM - top,
            bar.words
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, words)| words.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        let whole = |value: f64| format!("{value:.0}");
        assert_eq!(ticks(&Axis::linear(1000.0, whole)), ["0", "200", "400", "600", "800", "1000"]);
        assert_eq!(ticks(&Axis::linear(1999.0, whole)), ["0", "500", "1000", "1500"]);
        assert_eq!(ticks(&Axis::linear(0.0, |value| format!("{value:.1}"))).first(), Some(&"0.0"));
        assert_eq!(ticks(&Axis::log(42.0, 4200.0, whole)), ["10", "100", "1000", "10000"]);
        assert_eq!(ticks(&Axis::log(0.0, 0.0, whole)), ["1", "10"]);
        assert_eq!(ticks(&Axis::linear(f64::INFINITY, whole)).first(), Some(&"0"));
    }

    #[test]
    fn clamps_values_to_the_range() {
        let axis = Axis::log(10.0, 1000.0, |value| value.to_string());
        for (value, expected) in [(10.0, 0.0), (100.0, 0.5), (1000.0, 1.0), (1.0, 0.0), (1e9, 1.0)] {
            assert!((axis.place(value) - expected).abs() < 1e-9, "{value}");
        }
    }
}
