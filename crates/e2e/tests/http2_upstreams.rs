//! Upstreams by HTTP/2: streams, refusals, resets, windows, and the protocol that is chosen in the TLS handshake. The
//! upstream is the crate `h2`, on a thread of the test. gRPC is called by its own client and server, if they are there.

use std::future::Future;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use e2e::http2::{Http2, Http2Request, frame};
use e2e::upstream::async_upstream;
use e2e::{
    Rows, Server, Signal, Site, TIMEOUT, authority, python_packages, signal_process, stop_process, wait_until,
};
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    /// Those that have ended.
    ended: AtomicUsize,
    requests: AtomicUsize,
    /// Bytes of `/large` that were sent.
    sent: AtomicUsize,
}

/// Runs `serve` for each connection, with its number.
fn upstream<F: Future<Output = Result<(), h2::Error>> + Send + 'static>(
    serve: impl Fn(TcpStream, usize, Arc<Counts>) -> F + Send + 'static,
) -> (SocketAddr, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let of_connections = counts.clone();
    let address = async_upstream(move |stream| {
        let counts = of_connections.clone();
        let number = counts.connections.fetch_add(1, Ordering::Relaxed);
        let serving = serve(stream, number, counts.clone());
        async move {
            _ = serving.await;
            counts.ended.fetch_add(1, Ordering::Relaxed);
        }
    });
    (address, counts)
}

type Connected<S> = Connection<S, Bytes>;

/// Responds to every request by its path.
async fn respond<S: AsyncRead + AsyncWrite + Unpin>(
    mut connection: Connected<S>,
    number: usize,
    counts: Arc<Counts>,
) -> Result<(), h2::Error> {
    while let Some(request) = connection.accept().await {
        let (request, respond) = request?;
        if request.uri().path() == "/goaway" && number == 0 {
            connection.graceful_shutdown();
        }
        tokio::spawn(answer(request, respond, counts.clone()));
    }
    Ok(())
}

fn head() -> Response<()> {
    Response::new(())
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    counts: Arc<Counts>,
) -> Result<(), h2::Error> {
    let at = counts.requests.fetch_add(1, Ordering::Relaxed);
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/refuse-first" if at == 0 => respond.send_reset(Reason::REFUSED_STREAM),
        "/reset" => respond.send_reset(Reason::INTERNAL_ERROR),
        "/reset-later" => {
            let mut body = respond.send_response(head(), false)?;
            body.send_data(Bytes::from_static(b"half"), false)?;
            tokio::time::sleep(Duration::from_millis(50)).await;
            body.send_reset(Reason::CANCEL);
        }
        "/short" => {
            let response = Response::builder().header("content-length", "9").body(()).expect("it is valid");
            respond.send_response(response, false)?.send_data(Bytes::from_static(b"short"), true)?;
        }
        "/slow" => {
            tokio::time::sleep(Duration::from_millis(100)).await;
            respond.send_response(head(), false)?.send_data(Bytes::from_static(b"slow"), true)?;
        }
        "/silent" => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            drop(respond);
        }
        "/trailers" => {
            let mut body = respond.send_response(head(), false)?;
            body.send_data(Bytes::from_static(b"with trailers"), false)?;
            let mut trailers = HeaderMap::new();
            trailers.insert("x-end", "yes".parse().expect("a value"));
            body.send_trailers(trailers)?;
        }
        "/large" => {
            let mut body = respond.send_response(head(), false)?;
            let mut left = 3_000_000;
            while left > 0 {
                body.reserve_capacity(left.min(100_000));
                let Some(capacity) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else { break };
                let count = capacity?.min(left);
                left -= count;
                counts.sent.fetch_add(count, Ordering::Relaxed);
                body.send_data(Bytes::from(vec![b'l'; count]), left == 0)?;
            }
        }
        _ => {
            let described = format!(
                "{} {} {}",
                request.method(),
                request.uri(),
                request
                    .headers()
                    .iter()
                    .map(|(name, value)| format!("{name}={value:?} "))
                    .collect::<String>()
            );
            let mut body = request.into_body();
            let mut length = 0;
            while let Some(data) = body.data().await {
                let data = data?;
                length += data.len();
                body.flow_control().release_capacity(data.len())?;
            }
            let text = format!("{described}body={length}");
            respond.send_response(head(), false)?.send_data(Bytes::from(text), true)?;
        }
    }
    Ok(())
}

fn prior_knowledge() -> (SocketAddr, Arc<Counts>) {
    upstream(async |stream, number, counts| {
        respond(h2::server::handshake(stream).await?, number, counts).await
    })
}

/// With TLS, and these protocols. One that does not choose HTTP/2 gets a response by HTTP/1.1.
fn negotiating(protocols: &'static [&'static str]) -> (SocketAddr, Arc<Counts>) {
    let certificate = authority().server(&["127.0.0.1"]);
    let chain = CertificateDer::pem_slice_iter(certificate.certificate.as_bytes());
    let chain = chain.collect::<Result<_, _>>().expect("it is PEM");
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).expect("it is PEM");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("the versions are known").with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).expect("the key fits");
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    upstream(move |stream, number, counts| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return Ok(()) };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                return respond(h2::server::handshake(stream).await?, number, counts).await;
            }
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { return Ok(()) };
                head.push(byte);
            }
            let chunked = String::from_utf8_lossy(&head).contains("Transfer-Encoding: chunked");
            let mut body = Vec::new();
            while chunked && !body.ends_with(b"0\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { return Ok(()) };
                body.push(byte);
            }
            let text = format!("by HTTP/1.1: {}", String::from_utf8_lossy(&body).escape_debug());
            let response = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            );
            _ = stream.write_all(response.as_bytes()).await;
            _ = stream.shutdown().await;
            Ok(())
        }
    })
}

fn start(address: SocketAddr, protocol: &str, keys: &str) -> Server {
    start_workers(1, address, protocol, keys)
}

fn start_workers(workers: usize, address: SocketAddr, protocol: &str, keys: &str) -> Server {
    let config = format!(
        "workers = {workers}\n[[route]]\npath = \"/\"\nproxy = \"{protocol}://app\"\n[[application]]\nname = \"app\"\n\
         protocol = \"{protocol}\"\naddress = \"{address}\"\nhttp2 = true\n{keys}\n"
    );
    Site::new().file_beside_root("ca.pem", authority().pem()).config(&config).start()
}

fn answer_of(server: &Server, request: &str) -> String {
    let mut client = server.connect();
    client.send(request);
    match client.try_read_response() {
        Ok(response) if response.status == 200 => response.text(),
        Ok(response) => response.status.to_string(),
        Err(_) => "cut".to_owned(),
    }
}

fn get(server: &Server, path: &str) -> String {
    answer_of(server, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
}

#[test]
fn requests_share_a_connection_and_failures_tell_why() {
    let (address, counts) = prior_knowledge();
    let server = start(address, "http", "first_byte = \"300ms\"\nkeep = \"10s\"");
    let mut rows = Rows::new();
    rows.check("a refused request is sent again", get(&server, "/refuse-first").contains("body=0"), true);
    let unnamed = answer_of(&server, "GET /x HTTP/1.0\r\n\r\n");
    rows.check(&unnamed, unnamed.starts_with(&format!("GET http://{address}/x ")), true);
    let plain = get(&server, "/a%20b/%7B{}?q=\"x\"&y");
    rows.check(&plain, plain.starts_with("GET http://a/a%20b/%7B%7B%7D?q=%22x%22&y "), true);
    rows.check(&plain, plain.contains("x-forwarded-for=") && plain.contains("via=\"1.1 taipan\""), true);
    rows.check(
        &plain,
        [" host=", " connection=", " transfer-encoding="].iter().any(|own| plain.contains(own)),
        false,
    );
    let post = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    rows.check("a body", answer_of(&server, post).contains("body=5"), true);
    let chunked = "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n";
    let chunked = answer_of(&server, chunked);
    rows.check("an open-ended body", chunked.contains("body=8") && !chunked.contains("content-length"), true);
    rows.check("large", get(&server, "/large").len(), 3_000_000);
    rows.check("trailers", get(&server, "/trailers").as_str(), "with trailers");
    rows.check("shared", get(&server, "/x").contains("body=0"), true);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20).for_each(|_| assert!(get(&server, "/x").contains("body=0"))));
        }
    });
    rows.check("connections", counts.connections.load(Ordering::Relaxed), 1);
    rows.check("reset", get(&server, "/reset").as_str(), "502");
    rows.check("reset later", get(&server, "/reset-later").as_str(), "cut");
    rows.check("short", get(&server, "/short").as_str(), "cut");
    rows.check("silent", get(&server, "/silent").as_str(), "504");
    let errors = server.stderr();
    rows.check("why", errors.contains("it has reset the stream: INTERNAL_ERROR"), true);
}

#[test]
fn a_connection_that_ends_is_replaced_without_a_lost_request() {
    let (address, counts) = prior_knowledge();
    let server = start(address, "http", "");
    assert!(get(&server, "/x").contains("body=0"));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for at in 0..30 {
                    let path = if at == 10 { "/goaway" } else { "/x" };
                    let answer = get(&server, path);
                    assert!(answer.contains("body=0"), "{answer}");
                }
            });
        }
    });
    let found = counts.connections.load(Ordering::Relaxed);
    assert!((2..8).contains(&found), "{found} connections");
}

/// The worker gets the request before it learns that the endpoint has closed the connection.
#[test]
fn a_post_is_not_sent_on_a_connection_that_its_endpoint_has_closed() {
    let end = Arc::new(Notify::new());
    let of_endpoint = end.clone();
    let (address, counts) = upstream(move |stream, number, counts| {
        let end = of_endpoint.clone();
        async move {
            let connection = h2::server::handshake(stream).await?;
            tokio::select! {
                served = respond(connection, number, counts) => served,
                () = end.notified() => Ok(()),
            }
        }
    });
    let server = start(address, "http", "");
    let mut client = server.connect();
    assert_eq!(client.get("/x").status, 200);
    let serving = server.serving_pid();
    stop_process(serving);
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    end.notify_one();
    let has_ended = wait_until(TIMEOUT, || counts.ended.load(Ordering::Relaxed) == 1);
    signal_process(serving, Signal::CONT);
    assert!(has_ended);
    let response = client.read_response();
    assert_eq!((response.status, response.text().contains("body=1")), (200, true), "{}", server.stderr());
}

#[test]
fn requests_that_wait_for_a_connection_share_the_one_that_is_there() {
    let (address, counts) = prior_knowledge();
    let server = start(address, "http", "connections = 1\nkeep = \"10s\"\nwait = \"2s\"");
    // None of them has a connection at the beginning.
    let answers: Vec<String> = thread::scope(|scope| {
        let requests: Vec<_> = (0..20).map(|_| scope.spawn(|| get(&server, "/slow"))).collect();
        requests.into_iter().map(|request| request.join().expect("it ends")).collect()
    });
    assert_eq!(answers, ["slow"; 20]);
    assert_eq!(counts.connections.load(Ordering::Relaxed), 1);
}

#[test]
fn a_worker_that_has_all_connections_gives_one_to_another_that_waits() {
    for (connections, requests) in [(1, 1), (4, 8)] {
        let (address, _) = prior_knowledge();
        let keys = format!("connections = {connections}\nkeep = \"10s\"\nwait = \"2s\"");
        let server = start_workers(2, address, "http", &keys);
        for turn in 0..20 {
            // Several connections of clients, of which each worker has some.
            let answers: Vec<String> = thread::scope(|scope| {
                let requests: Vec<_> = (0..requests).map(|_| scope.spawn(|| get(&server, "/slow"))).collect();
                requests.into_iter().map(|request| request.join().expect("it ends")).collect()
            });
            assert!(answers.iter().all(|answer| answer == "slow"), "{connections} {turn}: {answers:?}");
        }
    }
}

#[test]
fn a_connection_whose_request_has_left_speaks_http2_with_the_next_one() {
    let (address, _) = negotiating(&["h2", "http/1.1"]);
    let server = start(address, "https", "tls_ca = \"ca.pem\"\nkeep = \"100ms\"");
    for turn in 0..20 {
        let mut leaving = server.connect();
        leaving.send("GET /left HTTP/1.1\r\nHost: a\r\n\r\n");
        leaving.reset();
        // The connection may come by now, and no request waits for it.
        let answer = answer_of(&server, "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
        assert!(answer.contains("body=2"), "{turn}: {answer} {}", server.stderr());
        // It is closed, so that the next request needs another one.
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_request_that_two_connections_leave_out_has_one_of_its_own() {
    // As nginx does behind `keepalive_requests`, while many requests share a connection.
    let (address, counts) = upstream(|mut stream, number, counts| async move {
        if number % 3 < 2 {
            leave_out(&mut stream).await.expect("the server reads");
            return Ok(());
        }
        respond(h2::server::handshake(stream).await?, number, counts).await
    });
    let server = start(address, "http", "retries = 0");
    let mut rows = Rows::new();
    let post = |rest: &str| format!("POST /p HTTP/1.1\r\nHost: a\r\n{rest}");
    for (request, body) in [
        ("GET /x HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "body=0"),
        (post("Content-Length: 0\r\n\r\n"), "body=0"),
        // The beginning of a body is kept.
        (post("Content-Length: 5\r\n\r\nhello"), "body=5"),
        (post("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"), "body=6"),
    ] {
        let answer = answer_of(&server, &request);
        rows.holds(request, &answer, answer.contains(body));
    }
    rows.check("processed once", counts.requests.load(Ordering::Relaxed), 4);
    rows.check("connections", counts.connections.load(Ordering::Relaxed), 12);
}

#[test]
fn an_endpoint_that_allows_one_request_at_a_time_has_many() {
    // It says so when the requests are there already, and ends each connection after a few, as nginx does.
    let (address, counts) = upstream(|stream, _, counts| async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut builder = h2::server::Builder::new();
        let mut connection: Connected<_> = builder.max_concurrent_streams(1).handshake(stream).await?;
        let mut count = 0;
        while let Some(request) = connection.accept().await {
            let (request, respond) = request?;
            count += 1;
            if count == 3 {
                connection.graceful_shutdown();
            }
            tokio::spawn(answer(request, respond, counts.clone()));
        }
        Ok(())
    });
    let server = start(address, "http", "retries = 0");
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let answer = get(&server, "/x");
                    assert!(answer.contains("body=0"), "{answer} {}", server.stderr());
                }
            });
        }
    });
    assert_eq!(counts.requests.load(Ordering::Relaxed), 400);
}

/// Ends a connection by HTTP/2 before the first request on it (RFC 9113 §6.8).
async fn leave_out(stream: &mut TcpStream) -> io::Result<()> {
    const HEADERS: u8 = 1;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    // SETTINGS.
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
    let mut head = [0; 9];
    while head[3] != HEADERS {
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await?;
    }
    // GOAWAY with the last stream 0, and NO_ERROR.
    stream.write_all(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await?;
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await?;
    Ok(())
}

#[test]
fn a_refused_request_goes_to_another_endpoint() {
    let (refusing, refused) = upstream(|stream, _, counts| async move {
        let mut connection: Connected<_> = h2::server::handshake(stream).await?;
        while let Some(request) = connection.accept().await {
            counts.requests.fetch_add(1, Ordering::Relaxed);
            request?.1.send_reset(Reason::REFUSED_STREAM);
        }
        Ok(())
    });
    let (address, counts) = prior_knowledge();
    let mut rows = Rows::new();
    let post = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    for balance in ["least", "round_robin", "hash client"] {
        let config = format!(
            "workers = 1\n[[route]]\npath = \"/\"\nproxy = \"http://app\"\n[[application]]\nname = \"app\"\n\
             protocol = \"http\"\naddress = [\"{refusing}\", \"{address}\"]\nhttp2 = true\nretries = 0\n\
             balance = \"{balance}\"\n"
        );
        let server = Site::new().config(&config).start();
        for request in ["GET /x HTTP/1.1\r\nHost: a\r\n\r\n", post].repeat(4) {
            let answer = answer_of(&server, request);
            rows.holds(format!("{balance}: {request}"), &answer, answer.contains("body=0"));
        }
    }
    rows.check("answered", counts.requests.load(Ordering::Relaxed), 24);
    rows.check("some were refused", refused.requests.load(Ordering::Relaxed) > 0, true);
    // There is no other one.
    let server = start(refusing, "http", "retries = 3");
    let before = refused.requests.load(Ordering::Relaxed);
    rows.check("all are refused", get(&server, "/x").as_str(), "502");
    rows.check("attempts", refused.requests.load(Ordering::Relaxed) - before, 2);
}

#[test]
fn an_unused_connection_is_closed_and_one_to_a_peer_that_speaks_otherwise_fails() {
    let (address, counts) = prior_knowledge();
    let server = start(address, "http", "keep = \"50ms\"");
    assert!(get(&server, "/x").contains("body=0"));
    assert!(wait_until(TIMEOUT, || counts.ended.load(Ordering::Relaxed) == 1));
    assert!(get(&server, "/x").contains("body=0"));
    assert_eq!(counts.connections.load(Ordering::Relaxed), 2);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let plain = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("it listens");
            _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            _ = stream.read(&mut [0; 1024]);
        }
    });
    let server = start(plain, "http", "");
    assert_eq!(get(&server, "/"), "502", "{}", server.stderr());
}

#[test]
fn clients_that_take_nothing_hold_up_no_others_of_their_connection() {
    const STALLED: usize = 90;
    let (address, counts) = prior_knowledge();
    let config = format!(
        "listen = \"127.0.0.1:0 http2\"\nworkers = 1\n[[route]]\npath = \"/\"\nproxy = \"http://app\"\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"{address}\"\nhttp2 = true\n"
    );
    let server = Site::new().config(&config).start();
    // They find a connection.
    get(&server, "/x");
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    let mut stalled = Http2::with(server.connect(), &[0, 4, 0, 0, 0, 0], &[]).expect("it accepts");
    for _ in 0..STALLED {
        stalled.open(&Http2Request::get("/large")).expect("it is open");
    }
    let has_sent = || counts.sent.load(Ordering::Relaxed) >= STALLED * 65_535;
    assert!(wait_until(TIMEOUT, has_sent), "{counts:?} {}", server.stderr());
    assert_eq!(get(&server, "/large").len(), 3_000_000);
    assert_eq!(counts.connections.load(Ordering::Relaxed), 1);
}

#[test]
fn the_protocol_is_chosen_in_the_handshake() {
    let ca = "tls_ca = \"ca.pem\"";
    let (address, counts) = negotiating(&["h2", "http/1.1"]);
    let server = start(address, "https", ca);
    let answer = get(&server, "/x");
    assert!(answer.starts_with("GET https://a/x "), "{answer} {}", server.stderr());
    assert!(get(&server, "/large").len() == 3_000_000);
    assert_eq!(counts.connections.load(Ordering::Relaxed), 1);
    // An upgrade needs HTTP/1.1.
    let upgrade = "GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(answer_of(&server, upgrade), "by HTTP/1.1: ");
    let (address, _) = negotiating(&["http/1.1"]);
    let server = start(address, "https", ca);
    assert_eq!(get(&server, "/x"), "by HTTP/1.1: ");
    let chunked = "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(answer_of(&server, chunked), "by HTTP/1.1: 5\\r\\nhello\\r\\n0\\r\\n\\r\\n");
}

#[test]
fn grpc_passes_in_all_its_forms() {
    let python = python_packages().join("python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/grpc/calls.py");
    let mut server =
        Command::new(&python).args([script, "server"]).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut port = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut port).expect("it prints its port");
    let config = format!(
        "listen = \"127.0.0.1:0 http2\"\nworkers = 1\nmax_body = \"64MiB\"\n[[route]]\npath = \"/\"\nproxy = \"http://grpc\"\n\
         [[application]]\nname = \"grpc\"\nprotocol = \"http\"\naddress = \"127.0.0.1:{}\"\nhttp2 = true\n",
        port.trim()
    );
    let proxy = Site::new().config(&config).start();
    let target = proxy.addr().to_string();
    let output = Command::new(&python).args([script, "client", &target]).output().expect("it runs");
    _ = server.kill();
    _ = server.wait();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "unary HELLO early late b'\\x00\\xff' OK\nFail FAILED_PRECONDITION no: ünfit\n\
         Nowhere UNIMPLEMENTED Method not found!\nfail late [b'one'] DATA_LOSS late\nserver stream 5000\n\
         client stream 5000000\nboth 20\nlarge True\nat once 200\ndeadline DEADLINE_EXCEEDED\nbehind it B\n";
    assert_eq!(said, expected, "{}", String::from_utf8_lossy(&output.stderr));
}

/// Sends back what comes. A stream at `/waits` begins its response behind the first message.
async fn echo(stream: TcpStream) -> Result<(), h2::Error> {
    let mut connection: Connected<_> = h2::server::handshake(stream).await?;
    while let Some(request) = connection.accept().await {
        let (request, mut respond) = request?;
        tokio::spawn(async move {
            let waits = request.uri().path() == "/waits";
            let mut body = request.into_body();
            let first = if waits { body.data().await } else { None };
            let mut sender = respond.send_response(head(), false)?;
            if let Some(first) = first {
                sender.send_data(first?, false)?;
            }
            while let Some(data) = body.data().await {
                sender.send_data(data?, false)?;
            }
            sender.send_data(Bytes::from_static(b"end"), true)
        });
    }
    Ok(())
}

#[test]
fn a_stream_in_both_directions_may_be_silent_until_both_sides_are_for_long() {
    let (address, _) = upstream(async |stream, _, _| echo(stream).await);
    let config = format!(
        "listen = \"127.0.0.1:0 http2\"\nworkers = 1\n[timeouts]\nbody = \"250ms\"\nupgraded = \"2s\"\ndelay = 0\n[log]\n\
         access = \"stdout\"\nfields = '$request_uri $status $ended'\n[[route]]\npath = \"/\"\nproxy = \"http://app\"\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"{address}\"\nhttp2 = true\n"
    );
    let server = Site::new().config(&config).start();
    let mut client = server.connect_http2();
    let open = |client: &mut Http2, path: &str, fields: &[(&str, &str)]| {
        let request = Http2Request { body: vec![0], ..Http2Request::new("POST", path, fields) };
        client.open(&request).expect("the server reads")
    };
    let mut rows = Rows::new();
    for path in ["/at-once", "/waits"] {
        let stream = open(&mut client, path, &[]);
        let mut kinds = Vec::new();
        for message in ["one", "two"] {
            // A silence in which the timeout of a body passes more than once.
            thread::sleep(Duration::from_secs(1));
            client.send_frame(frame::DATA, 0, stream, message.as_bytes()).expect("the server reads");
            let data = loop {
                let frame = client.next_frame_of(stream);
                kinds.push(frame.kind);
                if frame.kind != frame::HEADERS {
                    break frame;
                }
            };
            rows.check(path, String::from_utf8_lossy(&data.payload).as_ref(), message);
        }
        rows.check(path, kinds, vec![frame::HEADERS, frame::DATA, frame::DATA]);
        let since = Instant::now();
        let end = client.next_frame_of(stream);
        rows.check(path, (end.kind, end.payload), (frame::RST_STREAM, vec![0, 0, 0, 8]));
        rows.holds(path, &format!("{:?}", since.elapsed()), since.elapsed() > Duration::from_millis(1500));
        server.wait_for_output(&format!("{path} 200 stream idle"), TIMEOUT);
    }
    rows.check("counted", server.count("timeout_upgraded"), 2);
    // A response that has not begun.
    let stream = open(&mut client, "/waits", &[]);
    rows.check("a head", client.next_frame_of(stream).kind, frame::HEADERS);
    server.wait_for_output("/waits 408", TIMEOUT);
    // A body with a length is sent by the client alone.
    let stream = open(&mut client, "/sized", &[("content-length", "9")]);
    rows.check("a head", client.next_frame_of(stream).kind, frame::HEADERS);
    rows.check("a reset", client.next_frame_of(stream).kind, frame::RST_STREAM);
    server.wait_for_output("/sized 200 request too slow", TIMEOUT);
    rows.check("counted", (server.count("timeout_upgraded"), server.count("timeout_body")), (3, 1));
}

/// The endpoint of the application: its state, its failures, and the reason of the last one.
fn endpoint(server: &Server) -> (String, u64, String) {
    let endpoint = &server.stats()["endpoints"][0];
    let text = |key: &str| endpoint[key].as_str().unwrap_or_default().to_owned();
    (text("state"), endpoint["failures"].as_u64().unwrap_or_default(), text("reason"))
}

#[test]
fn health_checks_are_by_the_protocol_of_the_requests() {
    let trusted = "tls_ca = \"ca.pem\"";
    let mut rows = Rows::new();
    for (name, (address, counts), protocol, keys, path, why) in [
        ("prior knowledge", prior_knowledge(), "http", "", "/health", None),
        ("a reset", prior_knowledge(), "http", "", "/reset", Some("HTTP/2 has failed")),
        ("TLS", negotiating(&["h2", "http/1.1"]), "https", trusted, "/health", None),
        ("TLS, a reset", negotiating(&["h2"]), "https", trusted, "/reset", Some("HTTP/2 has failed")),
        ("HTTP/1.1", negotiating(&["http/1.1"]), "https", trusted, "/health", None),
        ("not trusted", negotiating(&["h2"]), "https", "", "/health", Some("certificate")),
    ] {
        let health =
            format!("{keys}\n[application.health]\npath = \"{path}\"\ninterval = \"100ms\"\nfall = 1");
        let server = start(address, protocol, &health);
        let is_known = || match why {
            // The result of the second check follows that of the first.
            None => counts.connections.load(Ordering::Relaxed) >= 3,
            Some(_) => endpoint(&server).1 > 0,
        };
        rows.check(format!("{name}: it is checked"), wait_until(TIMEOUT, is_known), true);
        let (state, failures, reason) = endpoint(&server);
        match why {
            None => rows.check(name, (state.as_str(), failures), ("up", 0)),
            Some(why) => {
                rows.check(name, state.as_str(), "down");
                rows.holds(name, &reason, reason.starts_with("health check: ") && reason.contains(why));
            }
        }
    }
}

#[test]
fn the_stream_of_an_attempt_that_has_lost_is_reset() {
    let (sender, resets) = std::sync::mpsc::channel();
    let (silent, _) = upstream(move |stream, _, _| {
        let sender = sender.clone();
        async move {
            let mut connection = h2::server::handshake(stream).await?;
            while let Some(request) = connection.accept().await {
                let (request, mut respond) = request?;
                let (path, sender) = (request.uri().path().to_owned(), sender.clone());
                tokio::spawn(async move {
                    let reset = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
                    // Fails only at the end of the test.
                    _ = sender.send((path, reset.ok()));
                });
            }
            Ok(())
        }
    });
    let (other, counts) = prior_knowledge();
    let config = format!(
        "workers = 1\n[timeouts]\ndelay = 0\n[[route]]\npath = \"/\"\nproxy = \"http://app\"\n[[application]]\n\
         name = \"app\"\nprotocol = \"http\"\naddress = [\"{silent}\", \"{other}\"]\nhttp2 = true\n\
         balance = \"round_robin\"\nweights = [1000, 1]\nhedge_after = \"50ms\"\n"
    );
    let server = Site::new().config(&config).start();
    let mut rows = Rows::new();
    for path in ["/one", "/two", "/three"] {
        let response = server.get(path);
        rows.holds(path, &response.text(), response.text().starts_with("GET http://"));
        let reset = resets.recv_timeout(TIMEOUT).expect("the stream ends");
        rows.check(path, reset, (path.to_owned(), Some(Reason::CANCEL)));
    }
    rows.check("requests of the other", counts.requests.load(Ordering::Relaxed), 3);
    rows.check("hedges", (server.count("hedges"), server.count("hedges_won")), (3, 3));
}
