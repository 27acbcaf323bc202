//! What a server and a script say to each other: CGI/1.1 (RFC 3875), FastCGI 1.0 and SCGI. Bytes become
//! messages, and messages become bytes.
//!
//! Knows nothing of sockets, processes, clocks, files or configuration. Whoever runs a script hands in
//! what it has read, and writes what it is given. One law holds for all that reads: cutting the same
//! bytes differently never changes what is read.
//!
//! The modules stand in the order in which a request meets them.

#![forbid(unsafe_code)]

pub mod walk;

pub mod environment;

pub mod arguments;

pub mod fastcgi;

pub mod scgi;

pub mod response;

/// `bytes` in pieces, for the law that all readers keep.
#[cfg(test)]
fn cut<'a>(bytes: &'a [u8], at: &[proptest::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<_> = at.iter().map(|index| index.index(bytes.len() + 1)).collect();
    at.sort_unstable();
    let ends = at.iter().copied().chain([bytes.len()]);
    let starts = [0].into_iter().chain(at.iter().copied());
    starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect()
}
