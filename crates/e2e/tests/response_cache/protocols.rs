//! Every kind of upstream, every protocol of clients, and what refuses a hit.

use super::*;

/// Answers requests by FastCGI with the number of each.
fn serve_fastcgi(stream: &mut UnixStream, requests: &AtomicUsize) -> Option<()> {
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        stream.read_exact(&mut vec![0; length + usize::from(head[6])]).ok()?;
        // The end of the request's body.
        if head[1] == 5 && length == 0 {
            let number = requests.fetch_add(1, Ordering::SeqCst) + 1;
            let output = format!("Cache-Control: max-age=60\r\nContent-Type: text/x\r\n\r\nnumber {number}");
            let record = |kind: u8, content: &[u8]| {
                [&[1, kind, head[2], head[3], 0, content.len() as u8, 0, 0], content].concat()
            };
            let bytes = [record(6, output.as_bytes()), record(6, b""), record(3, &[0; 8])].concat();
            stream.write_all(&bytes).ok()?;
        }
    }
}

#[test]
fn responses_of_every_kind_of_upstream_are_stored_for_every_protocol() {
    let site = Site::new().every_protocol();
    let listener = UnixListener::bind(site.home().join("fastcgi")).expect("it is our folder");
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, counted) = (stream.expect("it listens"), counted.clone());
            thread::spawn(move || serve_fastcgi(&mut stream, &counted));
        }
    });
    let counts = site.home().join("counts");
    let script = format!(
        "#!/bin/sh\necho >> {0}\nprintf 'Cache-Control: max-age=60\\nContent-Type: text/x\\n\\nnumber %d' $(wc -l < {0})\n",
        counts.display()
    );
    let address = site.home().join("fastcgi").display().to_string();
    let server = site
        .script("s.cgi", script)
        .config(&format!(
            "workers = 1\nresponse_cache = true\n[[route]]\npath = \"*.cgi\"\ncgi = true\n\
             [[route]]\npath = \"/fast/\"\napplication = \"fast\"\n\
             [[application]]\nname = \"fast\"\nprotocol = \"fastcgi\"\naddress = \"unix:{address}\"\n"
        ))
        .start();
    for path in ["/s.cgi", "/fast/x"] {
        let get = |method: &str, fields: &str| {
            let mut client = server.connect();
            client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
            match method {
                "HEAD" => client.read_response_to_head(),
                _ => client.read_response(),
            }
        };
        // The key has the scheme: each response is stored once for it, and once by HTTP.
        let by_http = get("GET", "").text();
        for _ in 0..2 {
            let again = get("GET", "");
            assert_eq!(again.text(), by_http, "{path}");
            assert!(did(&again).starts_with("taipan; hit"), "{path}: {}", did(&again));
        }
        assert_eq!(get("HEAD", "").field("Content-Length"), Some("8"), "{path}");
        let part = get("GET", "Range: bytes=0-2\r\n");
        assert_eq!((part.status, part.text().as_str()), (206, "num"), "{path}");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[test]
fn hits_over_tls_and_http2_are_those_of_http1() {
    let site = Site::new().certificate();
    let path = site.home().join("peer");
    let listener = UnixListener::bind(&path).expect("it is our folder");
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, counted) = (stream.expect("it listens"), counted.clone());
            thread::spawn(move || {
                while read_request(&mut stream).is_ok() {
                    let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
                    let bytes = ok("Cache-Control: max-age=60\r\nETag: \"a\"\r\n", number);
                    if stream.write_all(bytes.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let server = site
        .config(&format!(
            "listen = \"127.0.0.1:0 tls\"\ncertificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\nworkers = 1\n\
             [[route]]\npath = \"/\"\napplication = \"app\"\nresponse_cache = true\n\
             [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n",
            path.display()
        ))
        .start();
    let mut plain = Client::tls(server.addr(), &Tls::new());
    let first = plain.request("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(first.text(), "number 1");
    let tls = Tls::new().protocols(&["h2"]);
    let mut http2 = Http2::over(Client::tls(server.addr(), &tls)).expect("it accepts");
    let secure = |method: &str, fields: &[(&str, &str)]| {
        let mut request = Http2Request::new(method, "/", fields);
        request
            .fields
            .iter_mut()
            .filter(|(name, _)| name == b":scheme")
            .for_each(|(_, value)| *value = b"https".to_vec());
        request
    };
    for _ in 0..2 {
        let hit = http2.request(&secure("GET", &[])).expect("a response");
        assert_eq!(hit.text(), "number 1");
        assert!(did(&hit).starts_with("taipan; hit; ttl="), "{}", did(&hit));
        let hit = plain.request("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(hit.text(), "number 1");
    }
    let part = http2.request(&secure("GET", &[("range", "bytes=-1")])).expect("a response");
    assert_eq!((part.status, part.text().as_str()), (206, "1"));
    let same = http2.request(&secure("GET", &[("if-none-match", "\"a\"")])).expect("a response");
    assert_eq!((same.status, same.body.len()), (304, 0));
    let head = http2.request(&secure("HEAD", &[])).expect("a response");
    assert_eq!((head.field("content-length"), head.body.len()), (Some("8"), 0));
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[test]
fn a_hit_is_refused_where_a_user_or_a_rule_refuses_it() {
    // Two users with the password "secret".
    let hash = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
    let settings = format!(
        "auth = \"basic\"\nrealm = \"r\"\nusers = {{ ann = \"{hash}\", bob = \"{hash}\" }}\n\
         [[route.rule]]\nfield = {{ X-Denied = \"?*\" }}\nthen = \"deny\""
    );
    let ann = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
    let bob = "Authorization: Basic Ym9iOnNlY3JldA==\r\n";
    for (control, for_bob) in [("public, max-age=60", "number 1"), ("max-age=60", "number 2")] {
        let fields = format!("Cache-Control: {control}\r\n");
        let app = start_with(&settings, "", move |_, number| ok(&fields, number));
        assert_eq!(
            [app.get("", ann).text().as_str(), &app.get("", bob).text()],
            ["number 1", for_bob],
            "{control}"
        );
        let before = app.requests();
        assert_eq!(app.get("", "").status, 401, "{control}");
        assert_eq!(app.get("", "Authorization: Basic YW5uOng=\r\n").status, 401, "{control}");
        assert_eq!(app.get("", &format!("{ann}X-Denied: 1\r\n")).status, 403, "{control}");
        assert_eq!(app.requests(), before, "{control}");
    }
}
