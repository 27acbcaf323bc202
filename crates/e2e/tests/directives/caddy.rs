//! The directives of Caddy, and their options.

use dialects::{Dialect, Web};

use crate::rows::{Case, Look, Table, check};

use Look::{Ask, Field, FieldOf, File, Get, Line, Part, Says, Told};

const COMPRESSED: &str = "GET /big.txt HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n";
const COPY: &str = "GET /copy.txt HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n";
const LARGE: &str = "POST /up/ HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n01234567890";
const DELETE: &str = "DELETE /plain HTTP/1.1\r\nHost: x\r\n\r\n";
const NAMED: &str = "GET /plain HTTP/1.1\r\nHost: denied.example\r\n\r\n";
const AGENT: &str = "GET /plain HTTP/1.1\r\nHost: x\r\nUser-Agent: bad\r\n\r\n";

const CADDY: Table = Table {
    dialect: Dialect::Web(Web::Caddy),
    file: "Caddyfile",
    plain: Case {
        flags: &[],
        conf: "http://:0 {\n bind 127.0.0.1\n root * HOME/www\n file_server\n}\n",
        rows: &[
            ("site bind", Line, "listen = [\"127.0.0.1:0\"]"),
            ("site root", Get("/plain"), "200 plain"),
            ("site file_server", Get("/plain"), "200 plain"),
        ],
    },
    cases: &[
        Case {
            flags: &[],
            conf: "{\n debug\n log {\n output file HOME/access_log\n format console\n level INFO\n }\n servers {\n trusted_proxies static 192.0.2.7\n }\n}\n\
                   http://:0 {\n bind 127.0.0.1\n root * HOME/www\n encode gzip\n request_body {\n max_size 10\n }\n header X-Own yes\n\
                   redir /old /new 301\n rewrite /rewritten /plain\n rewrite /queried /up/x?{query}&p={path}\n respond /gone 410\n respond /text `a text` 200\n respond /alive 200\n respond /json `{\"ok\":true}`\n error /broken 500\n abort /aborted\n\
                   basic_auth /private/* {\n ann $2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n }\n\
                   basicauth /locked/* {\n ann $2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n }\n\
                   handle_path /docs/* {\n root * HOME/docs\n file_server browse\n }\n\
                   handle /near/* {\n header X-Near yes\n }\n route /sub/* {\n file_server {\n browse\n index page.html\n }\n }\n\
                   handle /copy.txt {\n file_server {\n precompressed gzip\n }\n }\n\
                   @bad header User-Agent bad\n respond @bad 403\n @host host denied.example\n respond @host 404\n\
                   @method method DELETE\n respond @method 403\n @far {\n path /i.png\n not remote_ip 192.0.2.1\n }\n respond @far 403\n\
                   @near {\n path_regexp \\.two$\n client_ip 127.0.0.1\n }\n respond @near 403\n\
                   @from {\n path /a.own\n remote_ip 127.0.0.1\n }\n respond @from 403\n\
                   @query {\n path /plain\n query p=12\n }\n redir @query /new 308\n\
                   @lost {\n path /lost/*\n not file\n }\n reverse_proxy @lost UPSTREAM\n\
                   handle_path /up/* {\n reverse_proxy UPSTREAM {\n header_up X-Own yes\n header_down -X-Secret\n transport http {\n dial_timeout 3s\n\
                   response_header_timeout 4s\n }\n }\n }\n\
                   file_server\n}\n",
            rows: &[
                ("debug", Line, "level = \"debug\""),
                ("log format", Line, "format = \"combined\""),
                ("servers", Line, "trusted_proxies = [\"192.0.2.7\"]"),
                ("servers trusted_proxies", Line, "trusted_proxies = [\"192.0.2.7\"]"),
                ("site encode", FieldOf(COMPRESSED, "content-encoding"), "gzip"),
                ("site request_body", Ask(LARGE), "413"),
                ("request_body max_size", Ask(LARGE), "413"),
                ("site header", Field("/plain", "x-own"), "yes"),
                ("site redir", Get("/old"), "301 /new"),
                ("site rewrite", Get("/rewritten"), "200 plain"),
                ("site rewrite", Part("/queried?c"), "GET /x?c&p=/queried HTTP/1.1"),
                ("site respond", Get("/gone"), "410"),
                ("site respond", Get("/text"), "200 a text"),
                ("site respond", Get("/alive"), "200 "),
                ("site respond", Field("/json", "content-type"), "application/json"),
                ("site error", Get("/broken"), "500"),
                ("site abort", Get("/aborted"), "403"),
                ("site basic_auth", Get("/private/x"), "401"),
                ("site basicauth", Get("/locked/x"), "401"),
                ("site handle_path", Get("/docs/one.html"), "200 one"),
                ("site handle", Field("/near/x", "x-near"), "yes"),
                ("site route", Get("/sub/"), "200 sub"),
                ("file_server browse", Line, "listing = true"),
                ("file_server index", Get("/sub/"), "200 sub"),
                ("file_server precompressed", Ask(COPY), "200 compressed"),
                ("matcher header", Ask(AGENT), "403"),
                ("matcher host", Ask(NAMED), "404"),
                ("matcher method", Ask(DELETE), "403"),
                ("matcher path", Get("/i.png"), "403"),
                ("matcher not", Get("/i.png"), "403"),
                ("matcher remote_ip", Get("/a.own"), "403"),
                ("matcher path_regexp", Get("/a.two"), "403"),
                ("matcher client_ip", Get("/a.two"), "403"),
                ("matcher file", Part("/lost/x?y"), "GET /lost/x?y HTTP/1.1"),
                ("site respond", Get("/GONE"), "410"),
                ("site basic_auth", Get("/PRIVATE/x"), "403"),
                ("matcher query", Get("/plain?p=12"), "308 /new"),
                ("site reverse_proxy", Part("/up/a"), "GET /a HTTP/1.1"),
                ("reverse_proxy header_up", Told("/up/a"), "x-own: yes"),
                ("reverse_proxy header_down", Line, "headers = { X-Secret = false }"),
                ("reverse_proxy transport", Line, "connect = \"3s\""),
                ("transport dial_timeout", Line, "connect = \"3s\""),
                ("transport response_header_timeout", Line, "first_byte = \"4s\""),
                ("log", File("access_log"), "\"GET /plain HTTP/1.1\" 200"),
                ("log output", File("access_log"), "\"GET /plain HTTP/1.1\" 200"),
            ],
        },
        Case {
            flags: &[],
            conf: "http://:0 {\n bind 127.0.0.1\n root * HOME/www\n\
                   reverse_proxy /cgi-bin/* unix//HOME/fcgi.sock {\n transport fastcgi {\n root HOME/www\n split .x\n read_timeout 9s\n }\n }\n\
                   try_files {path} /other.html\n php_fastcgi /run.cgi unix//HOME/fcgi.sock\n\
                   log {\n output file HOME/own_log\n }\n file_server\n}\n",
            rows: &[
                ("transport root", Told("/cgi-bin/env"), "SCRIPT_NAME=/cgi-bin/env"),
                ("transport split", Says, "note: split has no effect"),
                ("transport read_timeout", Line, "first_byte = \"9s\""),
                ("site try_files", Get("/nothing"), "200 other"),
                ("site php_fastcgi", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("site log", File("own_log"), "/run.cgi"),
            ],
        },
        Case {
            flags: &[],
            conf: "http://:0 {\n bind 127.0.0.1\n root * HOME/www\n handle_errors {\n rewrite * /missing.html\n file_server\n }\n\
                   forward_auth /near/* 127.0.0.1:9 {\n uri /verify\n copy_headers Remote-User\n trusted_proxies private_ranges\n header_up X-Real-IP {remote_host}\n @error status 401\n handle_response @error {\n redir * /login\n }\n }\n\
                   handle /up/* {\n uri strip_prefix /up\n reverse_proxy UPSTREAM\n }\n file_server {\n hide *.own\n }\n}\n",
            rows: &[
                ("site handle_errors", Get("/none"), "404 not here"),
                ("site forward_auth", Get("/near/x"), "502 not here"),
                ("forward_auth uri", Line, "authorizer_path = \"/verify\""),
                ("forward_auth copy_headers", Line, "authorizer_fields = [\"Remote-User\"]"),
                ("forward_auth trusted_proxies", Says, "note: trusted_proxies has no effect here"),
                ("forward_auth header_up", Says, "note: X-Real-IP is sent to the authorizer in any case"),
                ("forward_auth handle_response", Line, "authorizer_login = \"/login\""),
                ("site uri", Part("/up/a"), "GET /a HTTP/1.1"),
                ("file_server hide", Get("/a.own"), "404 not here"),
            ],
        },
        Case {
            flags: &[],
            conf: "{\n email root@a.example\n acme_ca https://ca.example/dir\n auto_https disable_redirects\n admin off\n order a before b\n\
                   persist_config off\n grace_period 5s\n storage file\n default_sni a.example\n\
                   servers {\n trusted_proxies_strict\n protocols h1 h2\n metrics\n keepalive_interval 5s\n timeouts {\n read_body 5s\n }\n }\n}\n\
                   a.example {\n tls root@a.example\n log {\n level INFO\n output file /var/log/a\n }\n\
                   reverse_proxy /a/* {\n to 192.0.2.1:80 192.0.2.2:80\n lb_policy least_conn\n health_uri /up\n health_interval 5s\n\
                   health_timeout 6s\n fail_duration 7s\n max_fails 3\n flush_interval -1\n trusted_proxies private_ranges\n lb_try_duration 5s\n\
                   lb_try_interval 1s\n transport http {\n tls\n tls_insecure_skip_verify\n versions 1.1\n }\n }\n}\n",
            rows: &[
                ("email", Line, "email = \"root@a.example\""),
                ("acme_ca", Line, "authorities = \"https://ca.example/dir\""),
                ("auto_https", Line, "acme = true"),
                ("admin", Says, "Caddyfile:5: note: admin has no effect"),
                ("order", Says, "Caddyfile:6: note: order has no effect"),
                ("persist_config", Says, "Caddyfile:7: note: persist_config has no effect"),
                ("grace_period", Says, "Caddyfile:8: note: grace_period has no effect"),
                ("storage", Says, "Caddyfile:9: note: storage has no effect"),
                ("default_sni", Says, "Caddyfile:10: note: default_sni has no effect"),
                ("servers trusted_proxies_strict", Says, "note: trusted_proxies_strict has no effect"),
                ("servers protocols", Says, "note: protocols has no effect"),
                ("servers metrics", Says, "note: metrics has no effect"),
                ("servers keepalive_interval", Says, "note: keepalive_interval has no effect"),
                ("servers timeouts", Says, "note: timeouts has no effect"),
                ("site tls", Line, "email = \"root@a.example\""),
                ("log level", Line, "access_log = \"/var/log/a\""),
                ("reverse_proxy to", Line, "address = [\"192.0.2.1:80\", \"192.0.2.2:80\"]"),
                ("reverse_proxy lb_policy", Line, "balance = \"least\""),
                ("reverse_proxy health_uri", Line, "path = \"/up\""),
                ("reverse_proxy health_interval", Line, "interval = \"5s\""),
                ("reverse_proxy health_timeout", Line, "timeout = \"6s\""),
                ("reverse_proxy fail_duration", Line, "pause = \"7s\""),
                ("reverse_proxy max_fails", Line, "failures = 3"),
                ("reverse_proxy flush_interval", Says, "warning: flush_interval has no effect"),
                ("reverse_proxy trusted_proxies", Says, "warning: trusted_proxies has no effect"),
                ("reverse_proxy lb_try_duration", Says, "warning: lb_try_duration has no effect"),
                ("reverse_proxy lb_try_interval", Says, "warning: lb_try_interval has no effect"),
                ("transport tls", Line, "protocol = \"https\""),
                ("transport tls_insecure_skip_verify", Line, "tls_verify = false"),
                ("transport versions", Line, "protocol = \"https\""),
            ],
        },
    ],
    neutral: &[],
    needless: &[],
    printed: &[],
};

#[test]
fn caddy() {
    check(&CADDY);
}
