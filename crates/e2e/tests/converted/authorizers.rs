//! Authorizers of nginx and Caddy, as the manuals of login programs describe them, when what is converted is served.

use std::io::Write;

use e2e::upstream::upstream;

use super::*;

/// An authorizer that lets the session of `ann` pass, and an application that says what it was sent.
fn peer() -> String {
    let url = upstream(|mut stream, head| {
        let is_asked = head.starts_with("GET /check");
        let (status, fields, body) = match is_asked {
            true if head.contains("Cookie: session=ann\r\n") => ("200 OK", "Remote-User: ann\r\n", ""),
            true => ("401 Unauthorized", "Location: https://login.example/\r\n", ""),
            false => ("200 OK", "", head.as_str()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes())
    });
    url.replace("http://", "")
}

#[test]
fn authorizers_decide_and_name_the_user_that_applications_get() {
    let nginx = "events { }\nhttp {\n server {\n listen 127.0.0.1:0;\n set $authority http://PEER/check;\n\
                 location /internal/authz {\n internal;\n proxy_pass $authority;\n proxy_pass_request_body off;\n\
                 proxy_set_header Content-Length \"\";\n proxy_set_header X-Real-IP $remote_addr;\n }\n\
                 location /open/ { proxy_pass http://PEER; auth_request_set $user $upstream_http_remote_user;\n\
                 proxy_set_header Remote-User $user; }\n\
                 location / {\n auth_request /internal/authz;\n auth_request_set $user $upstream_http_remote_user;\n\
                 proxy_set_header Remote-User $user;\n proxy_set_header X-User $user;\n\
                 proxy_set_header X-Real-IP $remote_addr;\n\
                 error_page 401 =302 https://login.example/;\n proxy_pass http://PEER;\n }\n }\n}\n";
    let caddy = "http://:0 {\n bind 127.0.0.1\n route {\n reverse_proxy /open/* PEER\n forward_auth PEER {\n uri /check\n\
                 copy_headers Remote-User\n }\n reverse_proxy PEER {\n header_up X-Real-IP {remote_host}\n header_up -X-User\n }\n }\n}\n";
    let mut rows = Rows::new();
    // nginx leads to the login, as it is told to.
    for (name, text, denied) in [("nginx", nginx, 302), ("caddy", caddy, 401)] {
        let server = converted(name, &text.replace("PEER", &peer()));
        let ask = |path: &str, cookie: &str| {
            let claims = "Remote-User: root\r\nX-User: root\r\nX-Real-IP: 192.0.2.1\r\n";
            let response = server.request(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{cookie}{claims}\r\n"));
            (response.status, response.text())
        };
        for path in ["/", "/a", "/a%2E/../b", "//open/../a", "/openx"] {
            rows.check(format!("{name} {path} without a session"), ask(path, "").0, denied);
        }
        let (status, head) = ask("/a", "Cookie: session=ann\r\n");
        let lines: Vec<&str> = head.lines().collect();
        let value = |name: &str| {
            let named = lines.iter().filter_map(|line| line.split_once(": "));
            let named = named.filter(|(own, _)| own.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value).collect::<Vec<_>>().join("+")
        };
        rows.check(format!("{name} with a session"), status, 200);
        rows.check(format!("{name} user"), value("Remote-User").as_str(), "ann");
        rows.check(format!("{name} another name"), value("X-User").as_str(), "");
        rows.check(format!("{name} address"), value("X-Real-IP").as_str(), "127.0.0.1");
        let (status, head) = ask("/open/x", "");
        rows.check(format!("{name} open"), status, 200);
        rows.holds(format!("{name} claimed user"), &head, !head.contains("Remote-User"));
    }
    let server = converted("nginx", &nginx.replace("PEER", &peer()));
    rows.check("the internal location", server.get("/internal/authz").status, 404);
    let known = "GET /internal/authzx HTTP/1.1\r\nHost: x\r\nCookie: session=ann\r\n\r\n";
    rows.check("what only begins so", server.request(known).status, 404);
}
