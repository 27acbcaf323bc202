//! The protocols between a server and a script: CGI/1.1 (RFC 3875), FastCGI 1.0 and SCGI, parsed and written.
//!
//! Knows nothing of sockets, processes, clocks, files or configuration: the caller reads and writes the bytes. The
//! result of a parser does not depend on how its input is cut.
//!
//! The modules are listed in the order in which a request passes them.

#![forbid(unsafe_code)]

pub mod walk;

pub mod pairs;

pub mod environment;

pub mod arguments;

pub mod fastcgi;

pub mod scgi;

pub mod response;

/// Cuts `bytes` at these places.
#[cfg(test)]
fn cut<'a>(bytes: &'a [u8], at: &[proptest::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<_> = at.iter().map(|index| index.index(bytes.len() + 1)).collect();
    at.sort_unstable();
    let ends = at.iter().copied().chain([bytes.len()]);
    let starts = [0].into_iter().chain(at.iter().copied());
    starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect()
}
