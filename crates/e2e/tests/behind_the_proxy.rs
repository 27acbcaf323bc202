//! APIs of well-known kinds behind the proxy: a registry with `%2F` in its names, and long polling.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;

use aws_lc_rs::digest::{SHA256, digest};
use e2e::http2::{Http2, Http2Request};
use e2e::{
    BackgroundProcess, Client, Rows, Server, Signal, Site, TIMEOUT, debian_package, free_port, tool,
    wait_until,
};
use serde_json::Value;

/// The type of a frame (RFC 9113 §6.1).
const DATA: u8 = 0;
const REGISTRY: &str = include_str!("programs/registry.py");
const LONG_POLLING: &str = include_str!("programs/long_polling.py");

/// Starts a program that listens at a free port.
fn application(site: Site, program: &str) -> (Site, BackgroundProcess, u16) {
    let site = site.file_beside_root("app.py", program);
    let port = free_port();
    let mut python = tool("python3");
    python.arg("-B").arg(site.home().join("app.py")).arg(port.to_string());
    let application = BackgroundProcess::start(&mut python);
    let listens = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
    assert!(wait_until(TIMEOUT, listens), "{}", application.errors().text());
    (site, application, port)
}

fn of_sha256(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn send(server: &Server, method: &str, target: &str, fields: &str, content: &[u8]) -> e2e::Response {
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: registry.example\r\nContent-Length: {}\r\n{fields}\r\n",
        content.len()
    );
    server.request([head.as_bytes(), content].concat())
}

#[test]
fn a_registry_takes_names_with_encoded_slashes() {
    let (site, _application, port) = application(Site::new(), REGISTRY);
    let server = site
        .config(&format!(
            "[[route]]\npath = \"/v2/\"\nproxy = \"http://127.0.0.1:{port}\"\nproxy_path = \"raw\"\nmax_body = \"64MiB\"\n\
             [[route]]\npath = \"/v2/private/\"\nproxy = \"http://127.0.0.1:{port}\"\nproxy_path = \"raw\"\n\
             [[route.rule]]\nthen = \"deny\"\n\
             [[route]]\npath = \"/plain/\"\nproxy = \"http://127.0.0.1:{port}/\"\n"
        ))
        .start();
    let mut rows = Rows::new();
    let version = send(&server, "GET", "/v2/", "", b"");
    rows.check("the version", version.field("Docker-Distribution-API-Version"), Some("registry/2.0"));
    let blob: Vec<u8> = (0..3_000_000_u32).map(|number| ((number * 7) >> 3) as u8).collect();
    let hex = of_sha256(&blob);
    for name in ["team%2Fapp", "team%2fother", "a%2Fb%2Fc", "plain", "with%20space", "per%25cent"] {
        let begun = send(&server, "POST", &format!("/v2/{name}/blobs/uploads/"), "", b"");
        let place = begun.field("Location").unwrap_or_default().to_owned();
        rows.check(format!("{name}: begun"), begun.status, 202);
        let own = format!("/v2/{name}/blobs/uploads/");
        // The registry's own address becomes that of the server.
        rows.holds(name, &place, place.contains(&own) && !place.contains(&port.to_string()));
        let path = &place[place.find("/v2/").unwrap_or(0)..];
        let (first, second) = blob.split_at(1_234_567);
        let part = send(&server, "PATCH", path, "Content-Type: application/octet-stream\r\n", first);
        rows.check(format!("{name}: part"), (part.status, part.field("Range")), (202, Some("0-1234566")));
        let target = format!("{path}&digest=sha256%3A{hex}");
        let mut chunked =
            format!("PUT {target} HTTP/1.1\r\nHost: registry.example\r\nTransfer-Encoding: chunked\r\n\r\n")
                .into_bytes();
        for piece in second.chunks(70_000) {
            chunked.extend(
                format!("{:x}\r\n", piece.len()).bytes().chain(piece.iter().copied()).chain(*b"\r\n"),
            );
        }
        chunked.extend(b"0\r\n\r\n");
        rows.check(format!("{name}: complete"), server.request(chunked).status, 201);
        let pulled = send(&server, "GET", &format!("/v2/{name}/blobs/sha256:{hex}"), "", b"");
        rows.holds(name, "the blob is the same", pulled.status == 200 && of_sha256(&pulled.body) == hex);
        let manifest = format!("{{\"of\":\"{name}\"}}");
        let put = send(&server, "PUT", &format!("/v2/{name}/manifests/v1"), "", manifest.as_bytes());
        rows.check(format!("{name}: manifest"), put.status, 201);
        let got = send(&server, "GET", &format!("/v2/{name}/manifests/v1"), "", b"");
        rows.check(format!("{name}: manifest"), got.text().as_str(), &*manifest);
    }
    let tags = send(&server, "GET", "/v2/team%2Fapp/tags/list", "", b"");
    rows.check("tags", tags.text().as_str(), "{\"name\": \"team/app\", \"tags\": [\"v1\"]}");
    for (target, expected) in [
        // The two spellings are one name for the registry, and two paths for HTTP.
        ("/v2/team%2fapp/manifests/v1", 200),
        ("/v2/team/app/manifests/v1", 404),
        ("/v2/team%252Fapp/manifests/v1", 404),
        ("/v2/..%2Fteam%2Fapp/manifests/v1", 400),
        ("/v2/team%2F..%2Fapp/manifests/v1", 400),
        // They lead out of the route, to a file that is not there.
        ("/v2/%2e%2e/targets", 404),
        ("/v2/../targets", 404),
        ("/v2/team%2F%2e/manifests/v1", 400),
        ("/v2/private/manifests/v1", 403),
        // The paths with a slash and without one have different routes.
        ("/v2/private%2Fapp/manifests/v1", 400),
        ("/v2/%70rivate%2Fapp/manifests/v1", 400),
        ("/plain/v2/team%2Fapp/manifests/v1", 400),
    ] {
        let found = send(&server, "GET", target, "", b"").status;
        rows.check(target, found, expected);
    }
    let seen = Client::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).get("/targets").text();
    let has = |target: &str| seen.contains(&format!("\"{target}\""));
    rows.holds("the registry", "saw the paths as they were sent", has("/v2/team%2fother/manifests/v1"));
    rows.holds(
        "the registry",
        "saw none that was refused",
        !seen.contains("private") && !seen.contains(".."),
    );
}

/// The registry of the package at a free port, with its files in the folder of the site.
fn debian_registry(site: &Site) -> (BackgroundProcess, u16) {
    let (port, home) = (free_port(), site.home());
    let config = home.join("registry.yml");
    let text = format!(
        "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
        home.join("images").display()
    );
    std::fs::write(&config, text).expect("it is our folder");
    let mut program = Command::new(debian_package("docker-registry").join("usr/bin/docker-registry"));
    let registry = BackgroundProcess::start(program.arg("serve").arg(&config));
    let listens = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
    assert!(wait_until(TIMEOUT, listens), "{}", registry.errors().text());
    (registry, port)
}

#[test]
fn debian_docker_registry_takes_and_gives_images() {
    let site = Site::new();
    let (_registry, port) = debian_registry(&site);
    let server = site
        .config(&format!(
            "[[route]]\npath = \"/v2/\"\nproxy = \"http://127.0.0.1:{port}\"\nproxy_path = \"raw\"\nmax_body = \"64MiB\"\n"
        ))
        .start();
    let mut rows = Rows::new();
    let version = send(&server, "GET", "/v2/", "", b"");
    let api = version.field("Docker-Distribution-Api-Version");
    rows.check("the version", (version.status, api), (200, Some("registry/2.0")));
    let layer: Vec<u8> = (0..3_000_000_u32).map(|number| ((number * 7) >> 3) as u8).collect();
    let config = b"{}".to_vec();
    let mut digests = Vec::new();
    for blob in [&layer, &config] {
        let hex = of_sha256(blob);
        let begun = send(&server, "POST", "/v2/team/app/blobs/uploads/", "", b"");
        rows.check("begun", begun.status, 202);
        let place = begun.field("Location").unwrap_or_default().to_owned();
        rows.holds(
            "the place",
            &place,
            place.starts_with("http://registry.example/v2/team/app/blobs/uploads/"),
        );
        let path = place.trim_start_matches("http://registry.example").to_owned();
        // The client of containers sends chunks of unknown length, and then names the digest.
        let mut part = format!(
            "PATCH {path} HTTP/1.1\r\nHost: registry.example\r\nContent-Type: application/octet-stream\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        )
        .into_bytes();
        for piece in blob.chunks(32 * 1024) {
            part.extend(
                format!("{:x}\r\n", piece.len()).bytes().chain(piece.iter().copied()).chain(*b"\r\n"),
            );
        }
        part.extend(b"0\r\n\r\n");
        let part = server.request(part);
        rows.check("part", part.status, 202);
        let path = part.field("Location").unwrap_or_default().replace("http://registry.example", "");
        let whole = send(&server, "PUT", &format!("{path}&digest=sha256%3A{hex}"), "", b"");
        let digest = format!("sha256:{hex}");
        rows.check("whole", (whole.status, whole.field("Docker-Content-Digest")), (201, Some(&*digest)));
        digests.push(digest);
    }
    let manifest = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",\
         \"config\":{{\"mediaType\":\"application/vnd.docker.container.image.v1+json\",\"size\":2,\"digest\":\"{}\"}},\
         \"layers\":[{{\"mediaType\":\"application/vnd.docker.image.rootfs.diff.tar.gzip\",\"size\":{},\
         \"digest\":\"{}\"}}]}}",
        digests[1],
        layer.len(),
        digests[0]
    );
    let kind = "application/vnd.docker.distribution.manifest.v2+json";
    let put = send(
        &server,
        "PUT",
        "/v2/team/app/manifests/v1",
        &format!("Content-Type: {kind}\r\n"),
        manifest.as_bytes(),
    );
    rows.check("manifest", put.status, 201);
    let accept = format!("Accept: {kind}\r\n");
    let pulled = send(&server, "GET", "/v2/team/app/manifests/v1", &accept, b"");
    rows.check("manifest", (pulled.status, pulled.text().as_str()), (200, &*manifest));
    let blob = format!("/v2/team/app/blobs/{}", digests[0]);
    let pulled = send(&server, "GET", &blob, "", b"");
    rows.holds("layer", "it is the same", pulled.status == 200 && pulled.body == layer);
    let part = send(&server, "GET", &blob, "Range: bytes=1000000-1999999\r\n", b"");
    rows.holds("a part", "it is the same", part.status == 206 && part.body == layer[1_000_000..2_000_000]);
    let wrong = send(&server, "PUT", "/v2/team/app/blobs/uploads/x?digest=sha256:00", "", b"");
    rows.holds("a wrong upload", &wrong.status.to_string(), (400..500).contains(&wrong.status));
    // The registry says the same without the proxy.
    let mut direct = Client::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    for target in [
        "/v2/_catalog",
        "/v2/team/app/tags/list",
        "/v2/team%2Fapp/tags/list",
        "/v2/team%2fapp/manifests/v1",
        "/v2/team%252Fapp/tags/list",
        "/v2/missing/tags/list",
        "/v2/team/app/manifests/v2",
        "/v2/team/app/blobs/sha256%3A00",
    ] {
        let by_proxy = send(&server, "GET", target, &accept, b"");
        let own = direct.request(format!("GET {target} HTTP/1.1\r\nHost: registry.example\r\n{accept}\r\n"));
        rows.check(target, (by_proxy.status, by_proxy.text()), (own.status, own.text()));
    }
}

#[test]
fn one_event_answers_all_requests_that_are_held() {
    const HELD: usize = 150;
    const OF_HTTP2: usize = 50;
    let (site, _application, port) = application(Site::new(), LONG_POLLING);
    let server = site
        .config(&format!(
            "workers = 2\nlisten = [\"127.0.0.1:0 http2\"]\n[timeouts]\ndelay = 0\n\
             [[route]]\npath = \"/api/\"\nproxy = \"http://grafana/\"\n\
             [[application]]\nname = \"grafana\"\nprotocol = \"http\"\naddress = \"127.0.0.1:{port}\"\n\
             connections = 500\n"
        ))
        .start();
    let mut own = Client::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let mut held = || -> Option<u64> {
        let answer: Value = serde_json::from_slice(&own.get("/held").body).ok()?;
        answer["held"].as_u64()
    };
    let address = server.tcp(0);
    let poll = "GET /api/poll HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut clients: Vec<Client> = (0..HELD).map(|_| Client::tcp(address)).collect();
    clients.iter_mut().for_each(|client| _ = client.send(poll));
    let mut http2 = Http2::over(Client::tcp(address)).expect("it speaks HTTP/2");
    for _ in 0..OF_HTTP2 {
        http2.open(&Http2Request::get("/api/poll")).expect("the stream is sent");
    }
    let all = (HELD + OF_HTTP2) as u64;
    assert!(wait_until(TIMEOUT, || held() == Some(all)), "{:?} of {all}", held());
    // Clients that leave do not keep the application's connections.
    clients.truncate(HELD - 20);
    assert!(wait_until(TIMEOUT, || held() == Some(all - 20)), "{:?}", held());
    // What is held outlives a reload.
    let first = server.serving_pid();
    server.signal(Signal::HUP);
    assert!(wait_until(TIMEOUT, || server.serving_pid() != first), "it is reloaded");
    let event = "POST /api/events HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nnews!";
    let mut rows = Rows::new();
    rows.check("the event", server.request(event).text().as_str(), "{\"event\": 1}");
    for (number, client) in clients.iter_mut().enumerate() {
        rows.check(
            format!("client {number}"),
            client.read_response().text().as_str(),
            "{\"text\": \"news!\"}",
        );
    }
    let mut answered = 0;
    while answered < OF_HTTP2 {
        let frame = http2.read_frame().expect("all streams are answered");
        if frame.kind == DATA && !frame.payload.is_empty() {
            rows.check(format!("stream {}", frame.stream), &*frame.payload, &b"{\"text\": \"news!\"}"[..]);
            answered += 1;
        }
    }
    rows.check("held", held(), Some(0));
}
