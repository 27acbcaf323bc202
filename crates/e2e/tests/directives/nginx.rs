//! The directives of nginx.

use dialects::{Dialect, Web};

use crate::rows::{Case, Look, Needless, Table, check};

use Look::{Again, Ask, Exists, Field, FieldOf, File, Get, Line, Part, Says, Secure, Told};

const COMPRESSED: &str = "GET /big.txt HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n";
const COPY: &str = "GET /copy.txt HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n";
const LARGE: &str = "POST /up/ HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n01234567890";
const POST: &str = "POST /open/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";

const NGINX: Table = Table {
    dialect: Dialect::Web(Web::Nginx),
    file: "nginx.conf",
    plain: Case {
        flags: &[],
        conf: "events { }\nhttp {\n server {\n listen 127.0.0.1:0;\n root HOME/www;\n }\n}\n",
        rows: &[
            ("events", Get("/plain"), "200 plain"),
            ("http", Get("/plain"), "200 plain"),
            ("server", Get("/plain"), "200 plain"),
            ("listen", Line, "listen = [\"127.0.0.1:0\"]"),
            ("root", Get("/plain"), "200 plain"),
        ],
    },
    cases: &[
        Case {
            flags: &[],
            conf: "pid HOME/pid;\nworker_processes 1;\nerror_log HOME/error_log info;\nevents { worker_connections 77; }\nhttp {\n\
                   default_type application/x-default;\n types { image/x-own own; text/html html; text/plain txt; }\n\
                   upstream back { server UPSTREAM; keepalive 4; }\n\
                   limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;\n limit_conn_zone $server_name zone=two:1m;\n\
                   access_log HOME/access_log;\n gzip on;\n gzip_types text/plain;\n gzip_min_length 100;\n gzip_static on;\n\
                   keepalive_timeout 7;\n client_header_timeout 8;\n client_body_timeout 9;\n send_timeout 6;\n\
                   keepalive_requests 5;\n large_client_header_buffers 2 4k;\n\
                   server {\n listen 127.0.0.1:0;\n server_name a.example;\n root HOME/www;\n index other.html;\n charset koi8-r;\n\
                   etag off;\n disable_symlinks on;\n client_max_body_size 10;\n add_header X-Own yes always;\n expires 1h;\n\
                   error_page 404 /missing.html;\n rewrite ^/old/(.*)$ /new/$1 permanent;\n rewrite ^/queried/([^/]+)$ /up/x?id=$1 last;\n\
                   location = /gone { return 410; }\n location /docs/ { alias HOME/docs/; }\n location /sub/ { autoindex on; }\n\
                   location /try/ { try_files $uri /other.html; }\n location /near/ { limit_req zone=one; limit_req_status 429; }\n\
                   location /counted/ { limit_conn two 5; limit_conn_status 429; limit_rate 1m; limit_rate_after 500k; }\n\
                   location /private/ { auth_basic Own; auth_basic_user_file HOME/users; }\n\
                   location /locked/ { allow 192.0.2.1; deny all; }\n location /open/ { limit_except GET { deny all; } }\n\
                   location /up/ { proxy_pass http://back/; proxy_set_header X-Own yes; proxy_connect_timeout 3s; proxy_read_timeout 4s; }\n\
                   location /asked/ { auth_request /decide; auth_request_set $user $upstream_http_remote_user;\n\
                   proxy_set_header Remote-User $user; proxy_pass http://back/; }\n\
                   location = /decide { internal; proxy_pass http://back/; proxy_pass_request_body off; }\n\
                   location /scgi/ { scgi_pass unix:HOME/scgi.sock; scgi_param COLOR red; }\n\
                   location ~ \\.cgi$ { fastcgi_pass unix:HOME/fcgi.sock; fastcgi_param COLOR blue; }\n }\n}\n",
            rows: &[
                ("pid", File("pid"), "PID"),
                ("worker_processes", Line, "workers = 1"),
                ("error_log", Exists("error_log"), "there"),
                ("worker_connections", Line, "connections = 77"),
                ("upstream", Part("/up/a"), "GET /a HTTP/1.1"),
                ("auth_request", Line, "authorizer = \"back\""),
                ("auth_request", Part("/asked/a"), "GET /a HTTP/1.1"),
                ("auth_request_set", Line, "authorizer_fields = [\"Remote-User\"]"),
                ("proxy_pass_request_body", Line, "authorizer_path = \"/\""),
                ("limit_req_zone", Again("/near/x"), "429"),
                ("limit_req", Again("/near/x"), "429"),
                ("limit_req_status", Again("/near/x"), "429"),
                ("limit_conn_zone", Line, "by = \"host\""),
                ("limit_conn", Line, "concurrent = 5"),
                ("limit_conn_status", Line, "status = 429"),
                ("limit_rate", Line, "download = 1048576"),
                ("limit_rate_after", Line, "burst = 512000"),
                ("server_name", Line, "names = [\"a.example\"]"),
                ("location", Get("/gone"), "410"),
                ("return", Get("/gone"), "410"),
                ("rewrite", Get("/old/a"), "301 /new/a"),
                ("rewrite", Part("/queried/a%26b?c"), "GET /x?id=a%26b&c HTTP/1.1"),
                ("try_files", Get("/try/none"), "200 other"),
                ("index", Get("/"), "200 other"),
                ("autoindex", Part("/sub/"), "page.html"),
                ("gzip", FieldOf(COMPRESSED, "content-encoding"), "gzip"),
                ("gzip_types", FieldOf(COMPRESSED, "content-encoding"), "gzip"),
                ("gzip_min_length", Line, "compress_from = 100"),
                ("gzip_static", Ask(COPY), "200 compressed"),
                ("charset", Field("/index.html", "content-type"), "text/html; charset=koi8-r"),
                ("default_type", Field("/plain", "content-type"), "application/x-default"),
                ("types", Field("/a.own", "content-type"), "image/x-own"),
                ("etag", Field("/plain", "etag"), "none"),
                ("disable_symlinks", Get("/out"), "403"),
                ("client_max_body_size", Ask(LARGE), "413"),
                (
                    "auth_basic",
                    Field("/private/x", "www-authenticate"),
                    "Basic realm=\"Own\", charset=\"UTF-8\"",
                ),
                ("auth_basic_user_file", Get("/private/x"), "401"),
                ("allow", Line, "address = \"192.0.2.1\""),
                ("deny", Get("/locked/x"), "403"),
                ("limit_except", Ask(POST), "403"),
                ("add_header", Field("/plain", "x-own"), "yes"),
                ("expires", Field("/plain", "cache-control"), "max-age=3600"),
                ("error_page", Get("/none"), "404 not here"),
                ("keepalive_timeout", Line, "idle = \"7s\""),
                ("client_header_timeout", Line, "head = \"8s\""),
                ("client_body_timeout", Line, "body = \"9s\""),
                ("send_timeout", Line, "write = \"6s\""),
                ("keepalive_requests", Line, "requests = 5"),
                ("large_client_header_buffers", Line, "head = 8192"),
                ("alias", Get("/docs/one.html"), "200 one"),
                ("proxy_pass", Part("/up/a"), "GET /a HTTP/1.1"),
                ("proxy_set_header", Told("/up/a"), "x-own: yes"),
                ("proxy_connect_timeout", Line, "connect = \"3s\""),
                ("proxy_read_timeout", Line, "first_byte = \"4s\""),
                ("fastcgi_pass", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("fastcgi_param", Told("/run.cgi"), "COLOR=blue"),
                ("scgi_pass", Told("/scgi/a"), "REQUEST_URI=/scgi/a"),
                ("scgi_param", Told("/scgi/a"), "COLOR=red"),
                ("access_log", File("access_log"), "\"GET /up/a HTTP/1.1\" 200"),
                ("access_log", Line, "timezone = \"local\""),
            ],
        },
        Case {
            flags: &[],
            conf: "events { }\nhttp {\n server {\n listen 127.0.0.1:0;\n listen 127.0.0.2:0 ssl;\n server_name localhost;\n root HOME/www;\n\
                   ssl_certificate HOME/certificate.pem;\n ssl_certificate_key HOME/key.pem;\n ssl_protocols TLSv1.3;\n\
                   http2 on;\n ssl_reject_handshake off;\n if ($scheme = http) { return 301 https://$host$request_uri; }\n }\n}\n",
            rows: &[
                ("ssl_certificate", Secure, "200"),
                ("ssl_certificate_key", Secure, "200"),
                ("ssl_protocols", Line, "versions = [\"1.3\"]"),
                ("if", Line, "https_redirect = true"),
                ("http2", Says, "nginx.conf:11: note: http2 on: it is set for all hosts"),
                ("ssl_reject_handshake", Says, "nginx.conf:12: note: ssl_reject_handshake off: it is set"),
            ],
        },
        Case {
            flags: &[],
            conf: "user daemon nogroup;\nevents { }\nhttp {\n\
                   upstream a { least_conn; server 192.0.2.1; server 192.0.2.2; keepalive 8; }\n\
                   upstream b { ip_hash; server 192.0.2.1; server 192.0.2.2; keepalive_time 1h; }\n\
                   upstream c { random; server 192.0.2.1; server 192.0.2.2; zone c 64k; }\n\
                   upstream d { hash $request_uri; server 192.0.2.1; server 192.0.2.2; }\n\
                   map $http_upgrade $connection_upgrade { default upgrade; '' close; }\n\
                   set_real_ip_from 192.0.2.7;\n real_ip_header X-Forwarded-For;\n gunzip on;\n\
                   server {\n listen 443 ssl;\n root /srv;\n error_page 404 /none.html;\n ssl_client_certificate /ca.pem;\n ssl_crl /crl.pem;\n\
                   ssl_verify_client optional;\n\
                   location /a/ { proxy_pass http://a; proxy_redirect off; proxy_cookie_path /a /; proxy_cookie_domain a b; proxy_pass_header X-A;\n\
                   proxy_intercept_errors on; proxy_next_upstream error; proxy_next_upstream_tries 2; proxy_cookie_flags a secure; proxy_ignore_headers Vary; proxy_send_timeout 5s; proxy_hide_header X-Secret; }\n\
                   location /b/ { proxy_pass http://b; satisfy any; allow 192.0.2.1; deny all; }\n location /c/ { proxy_pass http://c; }\n\
                   location /d/ { proxy_pass http://d; }\n location /g/ { grpc_pass grpc://192.0.2.3:50051; }\n\
                   location ~ \\.php$ { fastcgi_pass 192.0.2.4:9000; fastcgi_hide_header X-Powered-By; fastcgi_intercept_errors on; fastcgi_ignore_headers Vary;\n\
                   set $path_info $fastcgi_path_info; fastcgi_read_timeout 5s; fastcgi_send_timeout 6s; fastcgi_connect_timeout 7s; }\n\
                   location = /none.html { internal; }\n location = /break { return 410; break; }\n }\n}\n",
            rows: &[
                ("user", Line, "user = \"daemon\""),
                ("least_conn", Line, "balance = \"least\""),
                ("ip_hash", Line, "balance = \"hash client\""),
                ("random", Line, "balance = \"random\""),
                ("hash", Line, "balance = \"hash path\""),
                ("keepalive", Says, "note: keepalive: connections are kept in any case"),
                ("keepalive_time", Says, "note: keepalive_time: connections are kept in any case"),
                ("zone", Says, "note: zone: connections are kept in any case"),
                ("set_real_ip_from", Line, "trusted_proxies = [\"192.0.2.7\"]"),
                ("map", Says, "note: upgrades are passed in any case"),
                ("set", Says, "note: PATH_INFO is set in any case"),
                ("real_ip_header", Line, "trusted_proxies = [\"192.0.2.7\"]"),
                ("gunzip", Line, "gunzip = true"),
                ("ssl_client_certificate", Line, "client_ca = \"/ca.pem\""),
                ("ssl_crl", Line, "client_crl = \"/crl.pem\""),
                ("ssl_verify_client", Line, "client_certificates = \"optional\""),
                ("proxy_redirect", Says, "\"proxy_redirect off\" has no effect"),
                ("proxy_cookie_path", Says, "\"proxy_cookie_path /a /\" has no effect"),
                ("proxy_cookie_domain", Says, "\"proxy_cookie_domain a b\" has no effect"),
                ("proxy_pass_header", Says, "\"proxy_pass_header X-A\" has no effect"),
                ("proxy_intercept_errors", Says, "\"proxy_intercept_errors on\" has no effect"),
                ("proxy_next_upstream", Says, "\"proxy_next_upstream error\" has no effect"),
                ("proxy_next_upstream_tries", Says, "\"proxy_next_upstream_tries 2\" has no effect"),
                ("proxy_cookie_flags", Says, "\"proxy_cookie_flags a secure\" has no effect"),
                ("proxy_ignore_headers", Says, "\"proxy_ignore_headers Vary\" has no effect"),
                ("fastcgi_ignore_headers", Says, "\"fastcgi_ignore_headers Vary\" has no effect"),
                ("proxy_send_timeout", Says, "proxy_send_timeout has no effect"),
                ("proxy_hide_header", Line, "headers = { X-Secret = false }"),
                ("satisfy", Line, "satisfy = \"any\""),
                ("grpc_pass", Line, "http2 = true"),
                ("fastcgi_hide_header", Line, "headers = { X-Powered-By = false }"),
                ("fastcgi_intercept_errors", Says, "\"fastcgi_intercept_errors on\" has no effect"),
                ("fastcgi_read_timeout", Line, "first_byte = \"5s\""),
                ("fastcgi_send_timeout", Says, "fastcgi_send_timeout has no effect"),
                ("fastcgi_connect_timeout", Line, "connect = \"7s\""),
                ("break", Line, "return = 410"),
                ("internal", Says, "a client can request an error page, too"),
            ],
        },
        Case {
            flags: &[],
            conf: "events { }\nhttp {\n upstream back { server UPSTREAM; }\n\
                   proxy_cache_path /var/cache/p levels=1:2 keys_zone=p:10m inactive=1h;\n fastcgi_cache_path /var/cache/f keys_zone=f:10m;\n\
                   server {\n listen 127.0.0.1:0;\n root HOME/www;\n proxy_set_header X-Own yes;\n\
                   location / { try_files $uri @back; }\n\
                   location @back { proxy_pass http://back; proxy_cache p; proxy_cache_valid 200 10m; proxy_cache_use_stale error updating;\n\
                   proxy_cache_background_update on; proxy_cache_min_uses 2; proxy_cache_methods GET; }\n\
                   location /key/ { proxy_pass http://back; proxy_cache p; proxy_cache_key $uri$cookie_a; }\n\
                   location /bypass/ { proxy_pass http://back; proxy_cache p; proxy_cache_bypass $arg_a; }\n\
                   location /no/ { proxy_pass http://back; proxy_cache p; proxy_no_cache $arg_a; }\n\
                   location ~ \\.cgi$ { fastcgi_pass unix:HOME/fcgi.sock; fastcgi_cache f; fastcgi_cache_valid 5m;\n\
                   fastcgi_cache_use_stale timeout updating; fastcgi_cache_background_update on; fastcgi_cache_min_uses 3; fastcgi_cache_methods POST; }\n\
                   location ~ \\.key$ { fastcgi_pass unix:HOME/fcgi.sock; fastcgi_cache f; fastcgi_cache_key $uri$cookie_a; }\n\
                   location ~ \\.bypass$ { fastcgi_pass unix:HOME/fcgi.sock; fastcgi_cache f; fastcgi_cache_bypass $arg_a; }\n\
                   location ~ \\.no$ { fastcgi_pass unix:HOME/fcgi.sock; fastcgi_cache f; fastcgi_no_cache $arg_a; }\n\
                   location = /text { default_type application/x-own; return 200 \"text\\\\n\"; }\n\
                   location = /status { stub_status; }\n }\n}\n",
            rows: &[
                ("try_files", Part("/named/none"), "GET /named/none HTTP/1.1"),
                ("proxy_set_header", Told("/named/none"), "x-own: yes"),
                ("return", Get("/text"), "200 text"),
                ("return", Field("/text", "content-type"), "application/x-own"),
                ("stub_status", Part("/status"), "taipan_build_info"),
                ("stub_status", Line, "address = \"127.0.0.0/8\""),
                ("proxy_cache_path", Says, "what p stores is in memory"),
                ("fastcgi_cache_path", Says, "what f stores is in memory"),
                (
                    "proxy_cache",
                    Field("/named/stored", "cache-status"),
                    "taipan; fwd=uri-miss; ttl=600; stored",
                ),
                ("proxy_cache_valid", Line, "response_cache_lifetime = \"600s\""),
                ("proxy_cache_use_stale", Line, "response_cache_stale_if_error = \"3600s\""),
                ("proxy_cache_background_update", Line, "response_cache_stale_while_revalidate = \"3600s\""),
                ("proxy_cache_min_uses", Says, "\"proxy_cache_min_uses 2\" has no effect"),
                ("proxy_cache_methods", Says, "\"proxy_cache_methods GET\" has no effect"),
                ("proxy_cache_key", Says, "nothing is stored: \"proxy_cache_key $uri$cookie_a\""),
                ("proxy_cache_bypass", Says, "nothing is stored: \"proxy_cache_bypass $arg_a\""),
                ("proxy_no_cache", Says, "nothing is stored: \"proxy_no_cache $arg_a\""),
                ("fastcgi_cache", Line, "response_cache = true"),
                ("fastcgi_cache_valid", Line, "response_cache_lifetime = \"300s\""),
                ("fastcgi_cache_use_stale", Line, "response_cache_stale_if_error = \"600s\""),
                ("fastcgi_cache_background_update", Line, "response_cache_stale_while_revalidate = \"600s\""),
                ("fastcgi_cache_min_uses", Says, "\"fastcgi_cache_min_uses 3\" has no effect"),
                ("fastcgi_cache_methods", Says, "\"fastcgi_cache_methods POST\" has no effect"),
                ("fastcgi_cache_key", Says, "nothing is stored: \"fastcgi_cache_key $uri$cookie_a\""),
                ("fastcgi_cache_bypass", Says, "nothing is stored: \"fastcgi_cache_bypass $arg_a\""),
                ("fastcgi_no_cache", Says, "nothing is stored: \"fastcgi_no_cache $arg_a\""),
            ],
        },
        Case {
            flags: &[],
            conf: "events { }\nhttp {\n server {\n listen 192.0.2.1:8443;\n ssl on;\n ssl_certificate /c.pem;\n ssl_certificate_key /k.pem;\n\
                   underscores_in_headers on;\n root /srv;\n\
                   location /up/ { proxy_pass https://192.0.2.9; proxy_ssl_verify on; proxy_ssl_trusted_certificate /ca.pem; proxy_ssl_name a.org; }\n\
                   location ~ \\.png$ { valid_referers none a.org; if ($invalid_referer) { return 403; } }\n }\n}\n",
            rows: &[
                ("ssl", Line, "listen = [\"192.0.2.1:8443 tls\"]"),
                ("underscores_in_headers", Says, "fields whose names have an underscore are not passed"),
                ("proxy_ssl_verify", Line, "tls_ca = \"/ca.pem\""),
                ("proxy_ssl_trusted_certificate", Line, "tls_ca = \"/ca.pem\""),
                ("proxy_ssl_name", Line, "tls_name = \"a.org\""),
                ("valid_referers", Line, "referer = [\"!\", \"!a.org\"]"),
            ],
        },
        // Upstreams that are refused, with what to do.
        Case {
            flags: &[],
            conf: "events { }\nhttp {\n geo $in { default 0; }\n server {\n listen 127.0.0.1:0;\n root HOME/www;\n set $back 127.0.0.1:9;\n\
                   location / { uwsgi_pass unix:HOME/app.sock; }\n location /m/ { memcached_pass 127.0.0.1:9; }\n\
                   location /p/ { proxy_pass http://$back; }\n\
                   location /r/ { valid_referers none; }\n location /a/ { auth_request /auth; }\n }\n}\n",
            rows: &[
                ("uwsgi_pass", Says, "let uWSGI speak HTTP by http-socket"),
                ("uwsgi_pass", Line, "return = 502"),
                ("geo", Says, "see address of [[rule]]"),
                ("auth_request", Says, "see authorizer; until then, all clients are denied"),
                ("valid_referers", Says, "see referer of [[rule]]"),
                ("memcached_pass", Says, "let an application respond that speaks HTTP"),
                ("set", Line, "address = [\"127.0.0.1:9\"]"),
            ],
        },
    ],
    neutral: &[],
    needless: &[
        Needless {
            before: "",
            names: &[
                "worker_rlimit_nofile",
                "worker_cpu_affinity",
                "worker_priority",
                "worker_shutdown_timeout",
                "pcre_jit",
                "lock_file",
                "timer_resolution",
                "thread_pool",
                "daemon",
                "master_process",
                "load_module",
                "ssl_engine",
            ],
            argument: " 1;",
            behind: "events { }\nhttp { server { listen 127.0.0.1:0; root HOME/www; } }\n",
        },
        Needless {
            before: "events { }\nhttp {\n server {\n listen 127.0.0.1:0;\n root HOME/www;\n",
            names: &[
                "sendfile",
                "tcp_nopush",
                "tcp_nodelay",
                "types_hash_max_size",
                "types_hash_bucket_size",
                "server_names_hash_bucket_size",
                "server_names_hash_max_size",
                "variables_hash_max_size",
                "variables_hash_bucket_size",
                "gzip_vary",
                "gzip_http_version",
                "gzip_buffers",
                "gzip_disable",
                "gzip_proxied",
                "gzip_comp_level",
                "server_tokens",
                "log_not_found",
                "ssl_prefer_server_ciphers",
                "ssl_ciphers",
                "ssl_session_cache",
                "ssl_session_timeout",
                "ssl_session_tickets",
                "ssl_dhparam",
                "ssl_ecdh_curve",
                "ssl_stapling",
                "ssl_stapling_verify",
                "ssl_trusted_certificate",
                "ssl_buffer_size",
                "resolver",
                "resolver_timeout",
                "open_file_cache",
                "open_file_cache_valid",
                "open_file_cache_min_uses",
                "open_file_cache_errors",
                "autoindex_exact_size",
                "autoindex_localtime",
                "autoindex_format",
                "proxy_http_version",
                "proxy_buffering",
                "proxy_buffers",
                "proxy_buffer_size",
                "proxy_busy_buffers_size",
                "proxy_request_buffering",
                "proxy_headers_hash_max_size",
                "proxy_headers_hash_bucket_size",
                "fastcgi_buffers",
                "fastcgi_buffer_size",
                "fastcgi_busy_buffers_size",
                "fastcgi_index",
                "fastcgi_split_path_info",
                "fastcgi_keep_conn",
                "client_body_buffer_size",
                "client_header_buffer_size",
                "client_body_temp_path",
                "proxy_temp_path",
                "fastcgi_temp_path",
                "output_buffers",
                "aio",
                "directio",
                "reset_timedout_connection",
                "log_format",
                "merge_slashes",
                "port_in_redirect",
                "absolute_redirect",
                "multi_accept",
                "accept_mutex",
                "use",
                "server_name_in_redirect",
                "real_ip_recursive",
                "fastcgi_temp_file_write_size",
                "proxy_ssl_server_name",
                "proxy_socket_keepalive",
                "fastcgi_socket_keepalive",
                "proxy_ignore_client_abort",
                "fastcgi_ignore_client_abort",
                "http2_idle_timeout",
                "http2_recv_timeout",
                "http2_max_field_size",
                "http2_max_header_size",
                "proxy_cache_lock",
                "proxy_cache_lock_timeout",
                "proxy_cache_lock_age",
                "proxy_cache_revalidate",
                "fastcgi_cache_lock",
                "fastcgi_cache_lock_timeout",
                "fastcgi_cache_lock_age",
                "fastcgi_cache_revalidate",
                "proxy_max_temp_file_size",
                "chunked_transfer_encoding",
                "ignore_invalid_headers",
                "charset_types",
                "fastcgi_max_temp_file_size",
                "fastcgi_request_buffering",
                "fastcgi_buffering",
                "uwsgi_temp_path",
                "scgi_temp_path",
                "http2_max_concurrent_streams",
                "http2_push_preload",
                "msie_padding",
                "log_subrequest",
                "read_ahead",
                "postpone_output",
                "proxy_temp_file_write_size",
                "map_hash_bucket_size",
                "map_hash_max_size",
                "lingering_close",
                "lingering_timeout",
                "lingering_time",
                "uwsgi_param",
                "uwsgi_read_timeout",
                "uwsgi_send_timeout",
                "uwsgi_connect_timeout",
                "uwsgi_buffers",
                "uwsgi_buffer_size",
                "proxy_ssl_session_reuse",
                "proxy_ssl_protocols",
                "proxy_ssl_ciphers",
                "recursive_error_pages",
                "send_lowat",
                "subrequest_output_buffer_size",
                "request_pool_size",
                "connection_pool_size",
                "limit_req_log_level",
                "limit_conn_log_level",
                "http3",
                "http3_hq",
                "quic_retry",
                "quic_gso",
                "ssl_early_data",
                "ssl_conf_command",
                "ssl_session_ticket_key",
                "sendfile_max_chunk",
                "aio_write",
                "client_body_in_file_only",
                "client_body_in_single_buffer",
                "keepalive_disable",
                "keepalive_min_timeout",
                "http2_chunk_size",
                "http2_body_preread_size",
                "http2_max_requests",
                "http2_push",
                "gzip_window",
                "gzip_hash",
                "open_log_file_cache",
                "rewrite_log",
                "uninitialized_variable_warn",
                "proxy_cache_convert_head",
                "proxy_force_ranges",
            ],
            argument: " on;",
            behind: " }\n}\n",
        },
    ],
    printed: &[],
};

#[test]
fn nginx() {
    check(&NGINX);
}
