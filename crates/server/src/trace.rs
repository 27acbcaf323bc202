//! The trace that a request is part of (W3C Trace Context): the one that its client names, or another. Knows nothing of
//! logs and upstreams.

use std::cell::Cell;

use site::log_line::{Step, TraceIds};
use site::span::{self, SpanFacts};
use site::tracing::{Context, Tracing};
use taipan_http::fields::is_name;
use taipan_http::head::{Field, Head};
use taipan_http::trace_context::{self, TRACEPARENT, TRACESTATE, TraceParent};

use crate::sys;

/// Makes the traces of one worker.
pub struct Tracer {
    context: Context,
    sample: u64,
    /// Traces that have begun here.
    begun: Cell<u64>,
    random: Cell<u64>,
}

/// A request in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    pub ids: TraceIds,
    /// `None`: the trace begins here.
    pub parent: Option<u64>,
    pub is_sampled: bool,
    is_random: bool,
}

/// The fields that an upstream gets in place of those of the client.
pub struct TraceFields {
    parent: String,
    state: Option<Vec<u8>>,
}

impl Tracer {
    pub fn new(tracing: &Tracing) -> Tracer {
        let mut seed = [0; 8];
        // Without random bytes, traces of different workers may be the same.
        _ = sys::random(&mut seed);
        Tracer {
            context: tracing.context,
            sample: tracing.sample,
            begun: Cell::new(0),
            random: Cell::new(u64::from_ne_bytes(seed)),
        }
    }

    /// The trace of a request. Its number of the request is new.
    pub fn begin(&self, head: &Head<'_>) -> Trace {
        let found = match self.context {
            Context::Continue => TraceParent::parse(head.values(TRACEPARENT)),
            Context::Restart => None,
        };
        match found {
            Some(TraceParent { trace, parent, is_sampled, is_random }) => {
                let ids = TraceIds { trace, span: self.number() };
                Trace { ids, parent: Some(parent), is_sampled, is_random }
            }
            None => {
                let trace = (u128::from(self.number()) << 64) | u128::from(self.number());
                let begun = self.begun.get();
                self.begun.set(begun.wrapping_add(1));
                let is_sampled = begun.is_multiple_of(self.sample.max(1));
                let ids = TraceIds { trace, span: self.number() };
                Trace { ids, parent: None, is_sampled, is_random: true }
            }
        }
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014). Never zero, which is no identifier.
    fn number(&self) -> u64 {
        loop {
            let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.random.set(state);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let number = mixed ^ (mixed >> 31);
            if number != 0 {
                return number;
            }
        }
    }
}

impl Trace {
    /// For an upstream, to which this server is the parent. The state of a trace is only its own.
    pub fn fields(&self, head: &Head<'_>) -> TraceFields {
        let Trace { ids: TraceIds { trace, span }, parent, is_sampled, is_random } = *self;
        TraceFields {
            parent: TraceParent { trace, parent: span, is_sampled, is_random }.to_text(),
            state: parent.and_then(|_| trace_context::state(head.values(TRACESTATE))),
        }
    }

    /// `end` is in microseconds since 1970, and `now` the same time of `clock::micros`.
    pub fn span_facts<'a>(&self, end: u64, now: u64, is_tls: bool, steps: &'a [Step]) -> SpanFacts<'a> {
        let TraceIds { trace, span } = self.ids;
        SpanFacts { trace, span, parent: self.parent, end, now, is_tls, steps }
    }
}

/// A part of a request that has a span of its own: to what it waits for, it is the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentOf {
    request: String,
    part: String,
}

impl ParentOf {
    /// The part of a request that has this number.
    pub fn new(ids: TraceIds, number: u32) -> ParentOf {
        let TraceIds { trace, span } = ids;
        let text = |span: u64| format!("{trace:032x}-{span:016x}");
        ParentOf { request: text(span), part: text(span::child(span, number)) }
    }

    /// `bytes` with the part in place of the request, where `traceparent` names it. The identifiers of a request are
    /// random, and nothing else has them.
    pub fn written(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let (from, to) = (self.request.as_bytes(), self.part.as_bytes());
        if let Some(at) = bytes.windows(from.len()).position(|window| window == from) {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
        bytes
    }
}

impl TraceFields {
    /// The fields of a request with these in place of its own.
    pub fn in_place<'f>(&'f self, fields: &[Field<'f>]) -> Vec<Field<'f>> {
        let is_own = |name: &[u8]| is_name(name, TRACEPARENT) || is_name(name, TRACESTATE);
        let field = |name: &'static str, value| Field { name: name.as_bytes(), value };
        let parent = field(TRACEPARENT, self.parent.as_bytes());
        let state = self.state.as_deref().map(|state| field(TRACESTATE, state));
        fields.iter().filter(|field| !is_own(field.name)).copied().chain([parent]).chain(state).collect()
    }
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

    fn tracer(context: Context, sample: u64) -> Tracer {
        Tracer::new(&Tracing { context, sample, export: None, exemplars: false })
    }

    /// The trace of a request, and its fields of these names behind that.
    fn of(tracer: &Tracer, fields: &str) -> (Trace, Vec<String>) {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n{fields}\r\n");
        let mut store = FieldStore::new();
        let limits = Limits { head: 100_000, fields: 100, target: 100 };
        let (head, _) = parse(request.as_bytes(), &mut store, &limits).unwrap().unwrap();
        let trace = tracer.begin(&head);
        let fields = trace.fields(&head);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let written = fields.in_place(head.fields);
        let written = written.iter().map(|field| format!("{}: {}", text(field.name), text(field.value)));
        (trace, written.skip(2).collect())
    }

    #[test]
    fn continues_the_trace_of_the_client() {
        let tracer = tracer(Context::Continue, 1);
        for (flags, is_sampled) in [("00", false), ("01", true)] {
            let fields = format!("Traceparent: {PARENT}-{flags}\r\nTRACESTATE: a=1\r\ntracestate: b=2\r\n");
            let (trace, fields) = of(&tracer, &fields);
            assert_eq!((trace.parent, trace.is_sampled), (Some(0x00f0_67aa_0ba9_02b7), is_sampled));
            let span = trace.ids.span;
            let expected = format!("traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-{span:016x}-{flags}");
            assert_eq!(fields, [expected, "tracestate: a=1,b=2".to_owned()]);
        }
    }

    #[test]
    fn begins_a_trace_where_the_field_is_absent_or_malformed() {
        let tracer = tracer(Context::Continue, 1);
        for field in [
            String::new(),
            "traceparent: x\r\n".to_owned(),
            format!("traceparent: {PARENT}-01\r\ntraceparent: {PARENT}-01\r\n"),
            format!("traceparent: {}\r\n", "0".repeat(60_000)),
        ] {
            let (trace, fields) = of(&tracer, &format!("{field}tracestate: a=1\r\n"));
            assert_eq!((trace.parent, trace.is_sampled), (None, true));
            let TraceIds { trace, span } = trace.ids;
            assert_eq!(fields, [format!("traceparent: 00-{trace:032x}-{span:016x}-03")], "{field:.100}");
        }
    }

    #[test]
    fn a_part_takes_the_place_of_its_request() {
        let ids = TraceIds { trace: 0xab, span: 0xcd };
        let parent = ParentOf::new(ids, 3);
        let written = parent
            .written(b"A: b\r\ntraceparent: 00-000000000000000000000000000000ab-00000000000000cd-01\r\n");
        let text = String::from_utf8(written).unwrap();
        let child =
            format!("traceparent: 00-000000000000000000000000000000ab-{:016x}-01\r\n", span::child(0xcd, 3));
        assert_eq!(text, format!("A: b\r\n{child}"));
        assert_eq!(parent.written(b"A: b\r\n"), b"A: b\r\n");
    }

    #[test]
    fn a_malformed_state_leaves_the_trace() {
        let (trace, fields) =
            of(&tracer(Context::Continue, 1), &format!("traceparent: {PARENT}-01\r\ntracestate: a\r\n"));
        assert!(trace.parent.is_some() && fields.len() == 1, "{fields:?}");
    }

    #[test]
    fn clients_choose_nothing_where_traces_begin_here() {
        let tracer = tracer(Context::Restart, 2);
        let begin = || of(&tracer, &format!("traceparent: {PARENT}-01\r\ntracestate: a=1\r\n"));
        let (first, second) = (begin(), begin());
        assert_eq!((first.0.is_sampled, second.0.is_sampled), (true, false));
        assert!(first.0.ids.trace != second.0.ids.trace && first.1.len() == 1);
        assert!(second.1[0].ends_with("-02"), "{:?}", second.1);
    }
}
