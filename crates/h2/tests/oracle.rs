//! The crate `h2` is the client of a connection, over pipes of several sizes. The server responds with what it was
//! asked for in the path, and sends each body back.

use std::collections::BTreeMap;
use std::future::Future;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use http::{HeaderMap, Request};
use taipan_h2::error::ErrorCode;
use taipan_h2::fields::FieldList;
use taipan_h2::response::{write_fields, write_head};
use taipan_h2::server::{Connection, EndStream, Event, Limits, StreamId};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinSet;

/// What is left to send on a stream.
struct Response {
    rest: Vec<u8>,
    /// The client has sent all of what is to be sent back.
    complete: bool,
    trailers: bool,
}

struct Server {
    connection: Connection,
    list: FieldList,
    out: Vec<u8>,
    responses: BTreeMap<StreamId, Response>,
}

impl Server {
    fn new(limits: &Limits) -> Server {
        let mut out = Vec::new();
        let connection = Connection::new(limits, &mut out);
        Server { connection, list: FieldList::new(), out, responses: BTreeMap::new() }
    }

    /// Serves until the client or the connection ends. Returns the number of resets by the client.
    async fn serve(mut self, mut pipe: DuplexStream) -> usize {
        let (mut buffer, mut resets) = (vec![0; 5000], 0);
        loop {
            pipe.write_all(&self.out).await.unwrap();
            self.out.clear();
            if self.connection.is_finished() {
                return resets;
            }
            let count = pipe.read(&mut buffer).await.unwrap();
            if count == 0 {
                return resets;
            }
            self.connection.set_time(0);
            let mut rest = &buffer[..count];
            while let (used, Some(event)) =
                self.connection.receive(rest, &mut self.list, &mut self.out).expect("a correct client")
            {
                rest = &rest[used..];
                resets += usize::from(matches!(event, Event::Reset { .. }));
                self.on_event(event);
            }
            self.send();
            self.connection.trim();
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Request { stream, end } => self.on_request(stream, end),
            Event::Data { stream, data, end } => {
                if let Some(response) = self.responses.get_mut(&stream) {
                    response.rest.extend_from_slice(data);
                    response.complete |= end.is_set();
                    self.connection.set_ready(stream, true);
                }
            }
            Event::Trailers { stream } => {
                assert_eq!(self.list.value("x-sum"), Some(&b"1"[..]));
                if let Some(response) = self.responses.get_mut(&stream) {
                    response.complete = true;
                    self.connection.set_ready(stream, true);
                }
            }
            Event::Reset { stream, .. } => {
                self.responses.remove(&stream);
            }
            event => assert!(matches!(event, Event::WindowOpened | Event::GoAway { .. }), "{event:?}"),
        }
    }

    fn on_request(&mut self, stream: StreamId, end: EndStream) {
        let path = std::str::from_utf8(self.list.path().unwrap()).unwrap();
        let mut block = Vec::new();
        let rest = match path {
            "/shut-down" => {
                self.connection.announce_shutdown(&mut self.out);
                self.connection.shut_down(&mut self.out);
                Vec::new()
            }
            "/reset" => {
                self.connection.reset(stream, ErrorCode::REFUSED_STREAM, &mut self.out);
                return;
            }
            path => vec![b'x'; path[1..].parse().unwrap()],
        };
        let fields = [(&b"Date"[..], &b"Sun, 06 Nov 1994 08:49:37 GMT"[..]), (b"X-Path", path.as_bytes())];
        write_head(200, fields, &mut block);
        self.connection.headers(stream, &block, EndStream::Unset, &mut self.out);
        let trailers = self.list.value("te").is_some();
        self.responses.insert(stream, Response { rest, complete: end.is_set(), trailers });
        self.connection.set_ready(stream, true);
    }

    /// Sends what the windows allow.
    fn send(&mut self) {
        while self.out.len() < 100_000
            && let Some(stream) = self.connection.next_stream()
        {
            let response = self.responses.get_mut(&stream).unwrap();
            let ends = response.complete && !response.trailers;
            let part = &response.rest[..response.rest.len().min(3000)];
            let end = EndStream::when(ends && part.len() == response.rest.len());
            let sent = self.connection.data(stream, part, end, &mut self.out);
            response.rest.drain(..sent);
            self.connection.consumed(stream, sent as u32, &mut self.out);
            let is_sent = response.rest.is_empty();
            let is_complete = response.complete && is_sent;
            if is_complete && response.trailers {
                let mut block = Vec::new();
                write_fields([(&b"X-End"[..], &b"yes"[..])], &mut block);
                self.connection.headers(stream, &block, EndStream::Set, &mut self.out);
            }
            self.connection.set_ready(stream, !is_sent);
            if is_complete {
                self.responses.remove(&stream);
            }
        }
    }
}

/// Runs `client` against a server, over a pipe of `size` bytes. Returns the resets that the server has received.
async fn run<F: Future<Output = ()>>(
    size: usize,
    limits: &Limits,
    builder: &client::Builder,
    client: impl FnOnce(SendRequest<Bytes>) -> F,
) -> usize {
    let (near, far) = duplex(size);
    let server = Server::new(limits);
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let server = tokio::task::spawn_local(server.serve(far));
            let (send, connection) = builder.handshake::<_, Bytes>(near).await.unwrap();
            let connection = tokio::task::spawn_local(connection);
            client(send).await;
            connection.await.unwrap().unwrap();
            server.await.unwrap()
        })
        .await
}

/// Requests `path`, sends `body`, and checks the response.
async fn exchange(send: SendRequest<Bytes>, path: usize, body: Vec<u8>, trailers: bool) {
    let mut send = send.ready().await.unwrap();
    let mut request = Request::post(format!("http://a.example/{path}"));
    if trailers {
        request = request.header("te", "trailers");
    }
    let request = request.header("x-many", "y".repeat(path % 500)).body(()).unwrap();
    let is_empty = body.is_empty() && !trailers;
    let (response, mut upload) = send.send_request(request, is_empty).unwrap();
    let expected = [vec![b'x'; path], body.clone()].concat();
    let sending = async {
        if !is_empty {
            for part in body.chunks(4000) {
                upload.send_data(Bytes::copy_from_slice(part), false).unwrap();
                tokio::task::yield_now().await;
            }
            match trailers {
                true => {
                    let mut fields = HeaderMap::new();
                    fields.insert("x-sum", "1".parse().unwrap());
                    upload.send_trailers(fields).unwrap();
                }
                false => upload.send_data(Bytes::new(), true).unwrap(),
            }
        }
    };
    let receiving = async {
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-path"], format!("/{path}"));
        assert_eq!(response.headers()["date"], "Sun, 06 Nov 1994 08:49:37 GMT");
        let (mut stream, mut found) = (response.into_body(), Vec::new());
        while let Some(data) = stream.data().await {
            let data = data.unwrap();
            stream.flow_control().release_capacity(data.len()).unwrap();
            found.extend_from_slice(&data);
        }
        assert!(found == expected, "{} of {} bytes", found.len(), expected.len());
        let end = stream.trailers().await.unwrap();
        assert_eq!(end.is_some(), trailers);
        assert!(end.is_none_or(|fields| fields["x-end"] == "yes"));
    };
    tokio::join!(sending, receiving);
}

const SIZES: [usize; 12] = [0, 1, 2, 100, 2999, 3000, 3001, 16_384, 65_535, 65_536, 100_000, 300_000];

#[tokio::test(flavor = "current_thread")]
async fn serves_another_client_at_once_with_many_bodies() {
    let mut small_windows = client::Builder::new();
    small_windows.initial_window_size(100).initial_connection_window_size(65_535).header_table_size(0);
    for (pipe, builder) in [
        (37, client::Builder::new()),
        (5000, client::Builder::new()),
        (1 << 20, client::Builder::new()),
        (5000, small_windows),
    ] {
        let limits = Limits { frames: 100_000, streams: 10, ..Limits::default() };
        let client = |send: SendRequest<Bytes>| async move {
            let mut exchanges = JoinSet::new();
            for (at, size) in SIZES.iter().enumerate() {
                let body = vec![b'b'; SIZES[SIZES.len() - 1 - at]];
                for trailers in [false, true] {
                    exchanges.spawn_local(exchange(send.clone(), *size, body.clone(), trailers));
                }
                exchanges.spawn_local(exchange(send.clone(), *size, Vec::new(), false));
            }
            while let Some(result) = exchanges.join_next().await {
                result.unwrap();
            }
        };
        assert_eq!(run(pipe, &limits, &builder, client).await, 0);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn survives_cancelled_and_refused_requests() {
    let client = |send: SendRequest<Bytes>| async move {
        for _ in 0..20 {
            let mut ready = send.clone().ready().await.unwrap();
            let request = Request::get("http://a.example/1000000").body(()).unwrap();
            let (response, _) = ready.send_request(request, true).unwrap();
            drop(response.await.unwrap());
            let mut ready = send.clone().ready().await.unwrap();
            let request = Request::get("http://a.example/reset").body(()).unwrap();
            let (response, _) = ready.send_request(request, true).unwrap();
            assert_eq!(response.await.unwrap_err().reason(), Some(h2::Reason::REFUSED_STREAM));
            exchange(send.clone(), 10, vec![b'b'; 10], false).await;
        }
    };
    assert_eq!(run(5000, &Limits::default(), &client::Builder::new(), client).await, 20);
}

#[tokio::test(flavor = "current_thread")]
async fn a_graceful_end_finishes_what_has_begun() {
    let client = |send: SendRequest<Bytes>| async move {
        let mut ready = send.clone().ready().await.unwrap();
        let request = |path: &str| Request::get(format!("http://a.example{path}")).body(()).unwrap();
        let (large, _) = ready.send_request(request("/100000"), true).unwrap();
        let mut ready = ready.ready().await.unwrap();
        let (end, _) = ready.send_request(request("/shut-down"), true).unwrap();
        assert_eq!(end.await.unwrap().status(), 200);
        let mut body = large.await.unwrap().into_body();
        let mut length = 0;
        while let Some(data) = body.data().await {
            let data = data.unwrap();
            body.flow_control().release_capacity(data.len()).unwrap();
            length += data.len();
        }
        assert_eq!(length, 100_000);
        assert!(send.ready().await.is_err(), "no more requests");
    };
    run(5000, &Limits::default(), &client::Builder::new(), client).await;
}
