//! Traces (W3C Trace Context): which requests are part of one, and where their spans are sent. Makes no identifiers.

use std::fmt;

use crate::sink::Sink;

/// What upstreams and the logs learn of the trace of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracing {
    pub context: Context,
    /// Of the traces that begin here, one in `sample` is sampled.
    pub sample: u64,
    /// `None`: spans are not sent.
    pub export: Option<Sink>,
    /// Whether metrics name sampled traces.
    pub exemplars: bool,
}

/// What a `traceparent` of a client means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// The request is part of its trace.
    Continue,
    /// Each request begins a trace.
    Restart,
}

impl fmt::Display for Context {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Context::Continue => "the traces of clients are continued",
            Context::Restart => "each request begins a trace",
        })
    }
}

impl fmt::Display for Tracing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tracing { context, sample, export, exemplars } = self;
        write!(out, "{context}; ")?;
        match sample {
            1 => write!(out, "each new one is sampled")?,
            sample => write!(out, "one in {sample} new ones is sampled")?,
        }
        match export {
            Some(sink) => write!(out, "; spans are sent to {sink}")?,
            None => write!(out, "; spans are not sent")?,
        }
        if *exemplars { write!(out, "; metrics have exemplars") } else { Ok(()) }
    }
}
