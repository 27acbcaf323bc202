//! TLS, and HTTP/2 with and without TLS: the same engine, the same counts. The servers are rustls and the `h2`
//! crate.

mod common;

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{Action, Request, Script, ServerStream, answer, faults, folder, ok, run};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Response, StatusCode};
use load::run::Run;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::io::{AsyncRead, AsyncWrite};

struct Identity {
    config: Arc<ServerConfig>,
    pem: String,
}

fn identity(protocol: &[u8]) -> Identity {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = made.cert.pem();
    let certificate = CertificateDer::from(made.cert.der().to_vec());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    Identity { config: Arc::new(config), pem }
}

/// One stream for both directions; the scripted server wants a reader and a writer.
#[derive(Clone)]
struct Secure(Rc<RefCell<StreamOwned<ServerConnection, TcpStream>>>);

impl Read for Secure {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(buffer)
    }
}

impl Write for Secure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

impl ServerStream for Secure {
    fn reset(self) {}
}

fn start_tls(config: Arc<ServerConfig>, script: fn(&Request) -> Action) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script: Script = Arc::new(script);
    let number = Arc::default();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, script, number) = (config.clone(), script.clone(), Arc::clone(&number));
            thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                let stream = Secure(Rc::new(RefCell::new(stream)));
                common::serve(stream.clone(), stream, &script, &Mutex::default(), &number);
            });
        }
    });
    address
}

fn hello(_: &Request) -> Action {
    ok("hello")
}

fn https(address: SocketAddr, flags: &str) -> Run {
    run(&format!("{flags} https://localhost:{}/x", address.port()))
}

#[test]
fn measures_handshakes_over_tls() {
    let identity = identity(b"http/1.1");
    let address = start_tls(identity.config, hello);
    let run = https(address, "-k -c 3 -n 30 --no-resumption --check checksum");
    assert_eq!((run.measured.done, faults(&run)), (30, vec![]));
    assert_eq!((run.measured.handshake.count(), run.measured.resumed), (3, 0));
    let tls = run.server.tls.unwrap();
    assert_eq!(tls.version, "TLSv1.3");
    assert!(tls.cipher.starts_with("TLS_"), "{}", tls.cipher);
    assert_eq!(run.server.name, "scripted");
}

#[test]
fn resumes_sessions_unless_disabled() {
    let identity = identity(b"http/1.1");
    let address = start_tls(identity.config, hello);
    let resuming = https(address, "-k -c 1 -n 6 --close");
    assert_eq!((resuming.measured.done, resuming.measured.resumed), (6, 5));
    let anew = https(address, "-k -c 1 -n 6 --close --no-resumption");
    assert_eq!((anew.measured.done, anew.measured.resumed), (6, 0));
}

#[test]
fn rejects_certificates_that_are_not_trusted() {
    let identity = identity(b"http/1.1");
    let path = folder("ca").join("ca.pem");
    std::fs::write(&path, &identity.pem).unwrap();
    let address = start_tls(identity.config, hello);
    let known = https(address, &format!("-c 1 -n 2 --ca {}", path.display()));
    assert_eq!((known.measured.done, faults(&known)), (2, vec![]));
    let named = https(address, &format!("-c 1 -n 2 --server-name other --ca {}", path.display()));
    assert_eq!(faults(&named), [("handshake", 2)]);
    let other = folder("other-ca").join("ca.pem");
    std::fs::write(&other, self::identity(b"http/1.1").pem).unwrap();
    let unknown = https(address, &format!("-c 1 -n 2 --ca {}", other.display()));
    assert_eq!(faults(&unknown), [("handshake", 2)]);
}

#[test]
fn receives_large_bodies_over_tls() {
    let identity = identity(b"http/1.1");
    let address = start_tls(identity.config, |_| Action::Send(answer("200 OK", &vec![7; 1_000_000])));
    let run = https(address, "-k -c 2 -n 6 --check checksum");
    assert_eq!((run.measured.done, run.measured.body_bytes, faults(&run)), (6, 6_000_000, vec![]));
}

#[test]
fn reports_a_handshake_fault_for_a_server_without_tls() {
    let server = common::Server::start(hello);
    let run = https(server.address, "-k -c 1 -n 2 --timeout 1s");
    assert_eq!(run.measured.failed(), 2);
    let kinds = faults(&run);
    assert!(kinds == [("handshake", 2)] || kinds == [("timeout", 2)], "{kinds:?}");
}

/// The action of an HTTP/2 server for each request; `number` counts over all connections.
type Answer = fn(number: usize, path: &str, body: Vec<u8>, to: SendResponse<bytes::Bytes>);

fn start_h2(config: Option<Arc<ServerConfig>>, answer: Answer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let number = Arc::new(std::sync::atomic::AtomicUsize::new(0));
            while let Ok((stream, _)) = listener.accept().await {
                let (config, number) = (config.clone(), number.clone());
                tokio::spawn(async move {
                    match config {
                        Some(config) => {
                            let acceptor = tokio_rustls::TlsAcceptor::from(config);
                            if let Ok(stream) = acceptor.accept(stream).await {
                                serve_h2(stream, answer, &number).await;
                            }
                        }
                        None => serve_h2(stream, answer, &number).await,
                    }
                });
            }
        });
    });
    address
}

async fn serve_h2<S>(stream: S, answer: Answer, number: &std::sync::atomic::AtomicUsize)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(16);
    let Ok(mut connection) = builder.handshake::<_, bytes::Bytes>(stream).await else { return };
    while let Some(Ok((request, to))) = connection.accept().await {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let path = request.uri().path().to_owned();
        tokio::spawn(async move {
            let body = whole(request.into_body()).await;
            answer(number, &path, body, to);
        });
    }
}

async fn whole(mut stream: RecvStream) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(Ok(piece)) = stream.data().await {
        let _ = stream.flow_control().release_capacity(piece.len());
        body.extend_from_slice(&piece);
    }
    body
}

fn reply(status: u16, body: Vec<u8>, mut to: SendResponse<bytes::Bytes>) {
    let response = Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header("server", "h2-crate")
        .header("content-length", body.len())
        .header("x-new-each-time", format!("{:?}", std::time::Instant::now()))
        .body(())
        .unwrap();
    if let Ok(mut stream) = to.send_response(response, body.is_empty())
        && !body.is_empty()
    {
        let _ = stream.send_data(body.into(), true);
    }
}

fn h2c(address: SocketAddr, flags: &str) -> Run {
    run(&format!("--http 2 {flags} http://{address}/x"))
}

#[test]
fn http_2_counts_the_same_over_tcp_and_tls() {
    let answer: Answer = |_, _, _, to| reply(200, b"hello".to_vec(), to);
    let identity = identity(b"h2");
    let (plain, secure) = (start_h2(None, answer), start_h2(Some(identity.config), answer));
    for flags in
        ["-c 1 -n 50", "-c 3 -n 300 --streams 8", "-c 2 -n 40 --close", "-c 1 -n 200 -s 16 --check checksum"]
    {
        for run in [h2c(plain, flags), https(secure, &format!("-k --http 2 {flags}"))] {
            let requests = run.settings.stop_requests.unwrap();
            assert_eq!((run.measured.done, faults(&run)), (requests, vec![]), "{flags}");
            assert_eq!(run.measured.body_bytes, requests * 5, "{flags}");
            assert_eq!(run.server.name, "h2-crate");
            assert!(run.measured.head_bytes < run.measured.plain_head_bytes, "{flags}");
        }
    }
}

#[test]
fn keeps_to_the_stream_limit_of_the_server() {
    let address = start_h2(None, |_, _, _, to| reply(200, b"hello".to_vec(), to));
    let run = h2c(address, "-c 1 -n 300 -s 100");
    assert_eq!((run.measured.done, faults(&run)), (300, vec![]));
}

#[test]
fn counts_wrong_responses_on_streams() {
    let address = start_h2(None, |number, _, _, mut to| match number % 10 {
        9 => reply(500, b"sorry".to_vec(), to),
        8 => reply(200, b"jello".to_vec(), to),
        7 => to.send_reset(Reason::INTERNAL_ERROR),
        _ => reply(200, b"hello".to_vec(), to),
    });
    let run = h2c(address, "-c 1 -n 50 -s 4 --check checksum");
    assert_eq!(faults(&run), [("reset", 5), ("status", 5), ("wrong_body", 5)]);
    assert_eq!(run.measured.done, 35);
}

#[test]
fn a_stream_timeout_leaves_the_other_streams_open() {
    let address = start_h2(None, |number, _, _, to| match number {
        3 => {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(60)).await;
                drop(to);
            });
        }
        _ => reply(200, b"hello".to_vec(), to),
    });
    let run = h2c(address, "-c 1 -n 40 -s 4 --timeout 2s");
    assert_eq!((run.measured.done, faults(&run)), (39, vec![("timeout", 1)]));
    assert_eq!(run.measured.connections, 1);
}

#[test]
fn sends_and_receives_bodies_over_http_2() {
    let address = start_h2(None, |_, _, body, to| reply(200, body, to));
    let path = folder("h2-body").join("body");
    std::fs::write(&path, vec![b'x'; 300_000]).unwrap();
    let run = h2c(address, &format!("-c 2 -n 8 -s 3 --check checksum --body-file {}", path.display()));
    assert_eq!((run.measured.done, faults(&run), run.measured.body_bytes), (8, vec![], 2_400_000));
}

#[test]
fn fails_every_request_to_a_server_without_http_2() {
    let server = common::Server::start(hello);
    let plain = h2c(server.address, "-c 1 -n 2 --timeout 1s");
    assert_eq!(plain.measured.failed(), 2);
    let identity = identity(b"http/1.1");
    let run = https(start_tls(identity.config, hello), "-k --http 2 -c 1 -n 2");
    assert_eq!(faults(&run), [("handshake", 2)]);
}
