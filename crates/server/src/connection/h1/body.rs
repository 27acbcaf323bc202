//! The framing of a request's body: what of the received bytes belongs to it, and how much is still to come.

use taipan_http::chunked::{self, Event};
use taipan_http::framing::Framing;
use taipan_http::rule::BODY_TOO_LARGE;
use taipan_http::status::Status;
use taipan_http::trailers::{self, Trailers};

use crate::request::body::Rejection;

/// How much of a body is still to come.
pub enum Remaining {
    Sized(u64),
    Chunked { decoder: Box<chunked::Decoder>, seen: u64 },
    Done,
}

pub enum Progress {
    More,
    Complete,
}

impl Remaining {
    pub fn of(framing: Framing) -> Remaining {
        match framing {
            Framing::None | Framing::Sized(0) => Remaining::Done,
            Framing::Sized(bytes) => Remaining::Sized(bytes),
            Framing::Chunked => Remaining::Chunked {
                decoder: Box::new(chunked::Decoder::keeping_trailers(chunked::ChunkLimits::default())),
                seen: 0,
            },
        }
    }

    /// The fields behind a body that has ended.
    pub fn take_trailers(&mut self) -> Trailers {
        match self {
            Remaining::Chunked { decoder, .. } => {
                trailers::passed(trailers::lines(&decoder.take_trailers()), |_| false)
            }
            Remaining::Sized(_) | Remaining::Done => Trailers::new(),
        }
    }

    /// Passes the content in `input` to `content`, and returns how many bytes belong to the body. Errors: it is
    /// malformed, or larger than `limit`.
    pub fn take(
        &mut self,
        input: &[u8],
        limit: u64,
        mut content: impl FnMut(&[u8]),
    ) -> Result<(usize, Progress), Rejection> {
        match self {
            Remaining::Done => Ok((0, Progress::Complete)),
            Remaining::Sized(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= n as u64;
                content(&input[..n]);
                Ok((n, if *left == 0 { Progress::Complete } else { Progress::More }))
            }
            Remaining::Chunked { decoder, seen } => {
                let mut used = 0;
                loop {
                    let (n, event) = decoder.next(&input[used..]).map_err(|e| (e.status(), e.rule()))?;
                    used += n;
                    if let Event::Data(data) = event {
                        *seen += data.len() as u64;
                    }
                    // A chunk counts as soon as its size is known.
                    if seen.saturating_add(decoder.pending()) > limit {
                        return Err((Status::CONTENT_TOO_LARGE, BODY_TOO_LARGE));
                    }
                    match event {
                        Event::NeedMore => return Ok((used, Progress::More)),
                        Event::End => return Ok((used, Progress::Complete)),
                        Event::Data(data) => content(data),
                    }
                }
            }
        }
    }
}
