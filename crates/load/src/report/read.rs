//! Reads the JSON that `json` wrote, for merging and for other formats. Strict: a value that is missing, of another
//! type or out of bounds is an error that names it, because a guessed figure is worse than none.

use std::fmt;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde_json::Value;

use crate::run::{
    Check, Fault, Measured, Pace, Point, Reuse, Run, STEPS, Series, Server, Settings, Times, Tls, WRONG_KEPT,
    Wrong,
};

use super::json::{check_key, reuse_key};

/// What a report in JSON says it is, and which version of it.
pub const FORMAT: &str = "taipan-bench";
pub const VERSION: u64 = 1;

/// The most bytes of JSON.
pub const LARGEST: usize = 64 << 20;
/// The largest count: the largest integer that every JSON parser represents exactly, with room to add.
const HIGHEST: u64 = 1 << 53;
/// The most bytes of an inflated histogram; ours have at most 25,000 steps of nine bytes.
const LARGEST_HISTOGRAM: u64 = 1 << 20;
/// The cookie at the beginning of a compressed HdrHistogram V2.
const COMPRESSED: u32 = 0x1c84_9314;

/// Why a text is not a run.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadError {
    TooLarge,
    /// Not JSON; line and column of the error.
    Syntax {
        line: usize,
        column: usize,
    },
    /// JSON of another format.
    Format,
    /// An unknown version.
    Version(u64),
    /// The value under this name is missing or not as expected.
    Value {
        name: String,
        wanted: &'static str,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::TooLarge => write!(out, "larger than {} MiB: not a run", LARGEST >> 20),
            ReadError::Syntax { line, column } => write!(out, "line {line}, column {column}: not JSON"),
            ReadError::Format => write!(out, "not a run: use a file that --format json wrote"),
            ReadError::Version(version) => {
                write!(out, "a run of version {version}; this program reads version {VERSION}")
            }
            ReadError::Value { name, wanted } => write!(out, "{name}: {wanted} expected"),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads the run in a JSON text.
pub fn run(text: &[u8]) -> Result<Run, ReadError> {
    if text.len() > LARGEST {
        return Err(ReadError::TooLarge);
    }
    let value: Value = serde_json::from_slice(text)
        .map_err(|error| ReadError::Syntax { line: error.line(), column: error.column() })?;
    if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
        return Err(ReadError::Format);
    }
    let root = Node { value: &value, name: String::new() };
    let version = root.at("version")?.whole(u64::MAX)?;
    if version != VERSION {
        return Err(ReadError::Version(version));
    }
    let mut measured = read_measured(&root.at("measured")?)?;
    let times = root.at("times")?;
    for (name, slot) in [
        ("connect", &mut measured.connect),
        ("handshake", &mut measured.handshake),
        ("first_byte", &mut measured.first_byte),
        ("last_byte", &mut measured.last_byte),
        ("total", &mut measured.total),
        ("requests_per_client", &mut measured.per_client),
    ] {
        *slot = read_times(&times.at(name)?)?;
    }
    measured.series = read_series(&root.at("series")?)?;
    Ok(Run {
        settings: read_settings(&root.at("settings")?)?,
        server: read_server(&root.at("server")?)?,
        measured,
        generators: root.at("generators")?.small()?,
    })
}

fn read_settings(node: &Node) -> Result<Settings, ReadError> {
    let pace = node.at("pace")?;
    Ok(Settings {
        url: node.at("url")?.text()?,
        urls: node.at("urls")?.count()?,
        command_line: node.at("command_line")?.text()?,
        method: node.at("method")?.text()?,
        concurrency: node.at("concurrency")?.small()?,
        threads: node.at("threads")?.small()?,
        depth: node.at("depth")?.small()?,
        reuse: node.at("reuse")?.one_of([Reuse::KeepAlive, Reuse::PerRequest], reuse_key)?,
        pace: match pace.text()?.as_str() {
            "closed" => Pace::Closed,
            "even" => Pace::Even(node.at("rate_per_second")?.rate()?),
            "poisson" => Pace::Poisson(node.at("rate_per_second")?.rate()?),
            _ => return Err(pace.wanted("\"closed\", \"even\" or \"poisson\"")),
        },
        check: node.at("check")?.one_of([Check::Status, Check::Length, Check::Checksum], check_key)?,
        stop_requests: node.at("stop_requests")?.or_null(Node::count)?,
        stop_micros: node.at("stop_micros")?.or_null(Node::count)?,
        warm_up_micros: node.at("warm_up_micros")?.count()?,
        timeout_micros: node.at("timeout_micros")?.count()?,
        seed: node.at("seed")?.whole(u64::MAX)?,
    })
}

fn read_server(node: &Node) -> Result<Server, ReadError> {
    let port = node.at("port")?;
    Ok(Server {
        name: node.at("name")?.text()?,
        host: node.at("host")?.text()?,
        port: u16::try_from(port.count()?).map_err(|_| port.wanted("a port"))?,
        path: node.at("path")?.text()?,
        length: node.at("length_bytes")?.count()?,
        protocol: node.at("protocol")?.text()?,
        tls: node.at("tls")?.or_null(|tls| {
            Ok(Tls { version: tls.at("version")?.text()?, cipher: tls.at("cipher")?.text()? })
        })?,
    })
}

fn read_measured(node: &Node) -> Result<Measured, ReadError> {
    let count = |name: &str| node.at(name)?.count();
    let mut measured = Measured {
        began_unix: count("began_unix")?,
        micros: count("micros")?,
        started: count("started")?,
        done: count("done")?,
        connections: count("connections")?,
        most_connections: count("most_connections")?,
        kept_alive: count("kept_alive")?,
        resumed: count("resumed")?,
        head_bytes: count("head_bytes")?,
        plain_head_bytes: count("plain_head_bytes")?,
        body_bytes: count("body_bytes")?,
        sent_bytes: count("sent_bytes")?,
        longest: count("longest_micros")?,
        cpu_micros: count("cpu_micros")?,
        busiest_micros: count("busiest_thread_micros")?,
        wrong_unnamed: count("wrong_unnamed")?,
        ..Measured::default()
    };
    let faults = node.at("faults")?;
    for fault in Fault::ALL {
        measured.faults.add(fault, faults.at(fault.key())?.count()?);
    }
    for (name, count) in node.at("statuses")?.members()? {
        let code = name.parse().ok().filter(|code| (100..1000).contains(code));
        measured.statuses.add(code.ok_or_else(|| count.wanted("a status as a name"))?, count.count()?);
    }
    for (url, wrong) in node.at("wrong")?.members()?.into_iter().take(WRONG_KEPT) {
        let first = wrong.at("first")?.one_of(Fault::ALL, Fault::key)?;
        let entry = Wrong { first, count: wrong.at("count")?.count()? };
        measured.wrong.insert(url.to_owned(), entry);
    }
    Ok(measured)
}

fn read_times(node: &Node) -> Result<Times, ReadError> {
    let (shortest, longest) = (node.at("min")?.count()?, node.at("max")?.count()?);
    if shortest > longest {
        return Err(node.at("min")?.wanted("no more than max"));
    }
    let text = node.at("histogram")?;
    let wanted = "HdrHistogram V2 in base64, of microseconds";
    let Some(histogram) = histogram_of(&text.text()?) else { return Err(text.wanted(wanted)) };
    let count = node.at("count")?;
    if count.count()? != histogram.len() {
        return Err(count.wanted("as many as the histogram holds"));
    }
    Ok(Times::from_parts(histogram, shortest, longest, node.at("sum")?.count()?))
}

/// The distribution as compressed HdrHistogram V2 in base64.
pub(super) fn histogram_text(times: &Times) -> String {
    let empty = Times::empty_histogram();
    let Some(histogram) = times.histogram().or(empty.as_ref()) else { return String::new() };
    let mut bytes = Vec::new();
    // Fails only if the writer fails, and a vector does not.
    let _ = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    BASE64.encode(bytes)
}

/// The reverse. Inflates within a bound, and checks the histogram's own bounds first, because the library
/// allocates whatever the header claims.
fn histogram_of(text: &str) -> Option<Histogram<u64>> {
    let bytes = BASE64.decode(text).ok()?;
    let (cookie, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    if u32::from_be_bytes(*cookie) != COMPRESSED || u32::from_be_bytes(*length) as usize != rest.len() {
        return None;
    }
    let mut plain = Vec::new();
    ZlibDecoder::new(rest).take(LARGEST_HISTOGRAM).read_to_end(&mut plain).ok()?;
    // Cookie, length of the counts, offset, digits, lowest, highest, ratio.
    let number = |from: usize| Some(u32::from_be_bytes(plain.get(from..from + 4)?.try_into().ok()?));
    let long = |from: usize| Some(u64::from_be_bytes(plain.get(from..from + 8)?.try_into().ok()?));
    let ours = Times::empty_histogram()?;
    let counts = plain.len().checked_sub(40)?;
    let fits = number(4)? as usize == counts
        && number(12)? == u32::from(ours.sigfig())
        && long(16)? == ours.low()
        && long(24)? == ours.high();
    if !fits {
        return None;
    }
    Deserializer::new().deserialize(&mut plain.as_slice()).ok()
}

fn read_series(node: &Node) -> Result<Series, ReadError> {
    let points = node.at("points")?;
    let read = points.elements()?.iter().map(read_point).collect::<Result<Vec<_>, _>>()?;
    let width = node.at("width_seconds")?.count()?;
    Series::from_parts(width, read).ok_or_else(|| node.wanted("a bounded number of points, and their width"))
}

fn read_point(node: &Node) -> Result<Point, ReadError> {
    let mut point = Point {
        done: node.at("done")?.count()?,
        failed: node.at("failed")?.count()?,
        bytes: node.at("bytes")?.count()?,
        longest: node.at("longest_micros")?.count()?,
        steps: Vec::new(),
    };
    let steps = node.at("steps")?;
    for pair in steps.elements()? {
        let [step, count] = pair.elements()?.try_into().map_err(|_| steps.wanted("pairs"))?;
        let index = step.count()? as usize;
        if index >= STEPS {
            return Err(step.wanted("the number of a step"));
        }
        if point.steps.len() <= index {
            point.steps.resize(index + 1, 0);
        }
        point.steps[index] = count.count()?;
    }
    Ok(point)
}

/// A value, and its path for messages: `times.connect.min`.
struct Node<'a> {
    value: &'a Value,
    name: String,
}

impl<'a> Node<'a> {
    fn wanted(&self, wanted: &'static str) -> ReadError {
        ReadError::Value { name: self.name.clone(), wanted }
    }

    fn child(&self, value: &'a Value, name: &str) -> Node<'a> {
        let name = if self.name.is_empty() { name.to_owned() } else { format!("{}.{name}", self.name) };
        Node { value, name }
    }

    fn at(&self, name: &str) -> Result<Node<'a>, ReadError> {
        let child = self.child(self.value.get(name).unwrap_or(&Value::Null), name);
        if self.value.get(name).is_none() { Err(child.wanted("a value")) } else { Ok(child) }
    }

    /// The members of an object, with their names.
    fn members(&self) -> Result<Vec<(&'a str, Node<'a>)>, ReadError> {
        let members = self.value.as_object().ok_or_else(|| self.wanted("an object"))?;
        Ok(members.iter().map(|(name, value)| (name.as_str(), self.child(value, name))).collect())
    }

    fn elements(&self) -> Result<Vec<Node<'a>>, ReadError> {
        let elements = self.value.as_array().ok_or_else(|| self.wanted("a list"))?;
        Ok(elements.iter().enumerate().map(|(index, value)| self.child(value, &index.to_string())).collect())
    }

    fn whole(&self, highest: u64) -> Result<u64, ReadError> {
        let number = self.value.as_u64().filter(|&number| number <= highest);
        number.ok_or_else(|| self.wanted("a whole number of bounded size"))
    }

    fn count(&self) -> Result<u64, ReadError> {
        self.whole(HIGHEST)
    }

    fn small(&self) -> Result<u32, ReadError> {
        Ok(self.whole(u64::from(u32::MAX))? as u32)
    }

    fn rate(&self) -> Result<f64, ReadError> {
        let rate = self.value.as_f64().filter(|&rate| rate > 0.0);
        rate.ok_or_else(|| self.wanted("a rate above 0"))
    }

    fn text(&self) -> Result<String, ReadError> {
        Ok(self.value.as_str().ok_or_else(|| self.wanted("a text"))?.to_owned())
    }

    fn one_of<T: Copy, const N: usize>(
        &self,
        all: [T; N],
        key: impl Fn(T) -> &'static str,
    ) -> Result<T, ReadError> {
        let text = self.text()?;
        all.into_iter().find(|&one| key(one) == text).ok_or_else(|| self.wanted("another word"))
    }

    fn or_null<T>(&self, read: impl Fn(&Self) -> Result<T, ReadError>) -> Result<Option<T>, ReadError> {
        if self.value.is_null() { Ok(None) } else { read(self).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    fn packed(plain: &[u8]) -> String {
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(plain).unwrap();
        let packed = packed.finish().unwrap();
        let length = (packed.len() as u32).to_be_bytes();
        BASE64.encode([&COMPRESSED.to_be_bytes()[..], &length, &packed].concat())
    }

    fn plain() -> Vec<u8> {
        let mut times = Times::default();
        for power in 0..30 {
            times.record_many(1 << power, 1 + power * 1000);
        }
        let packed = BASE64.decode(histogram_text(&times)).unwrap();
        let mut plain = Vec::new();
        ZlibDecoder::new(&packed[8..]).read_to_end(&mut plain).unwrap();
        plain
    }

    #[test]
    fn reads_or_rejects_a_histogram_with_a_changed_byte() {
        let plain = plain();
        assert!(histogram_of(&packed(&plain)).is_some());
        for place in 0..plain.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = plain.clone();
                changed[place] = byte;
                let histogram = histogram_of(&packed(&changed));
                // The header determines how much memory is allocated, so no byte of it may differ.
                assert!(place >= 40 || changed == plain || histogram.is_none(), "{place}");
            }
        }
    }

    #[test]
    fn rejects_a_histogram_that_inflates_beyond_the_bound() {
        let mut huge = plain();
        huge.resize(64 << 20, 0);
        let length = (huge.len() as u32 - 40).to_be_bytes();
        huge[4..8].copy_from_slice(&length);
        assert!(histogram_of(&packed(&huge)).is_none());
    }
}
