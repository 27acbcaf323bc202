//! The environment of a script, for any request. Each name occurs once and is valid in a shell, there is no
//! `HTTP_PROXY`, and every string is whole. The script name and the path info together are the path.

use script::arguments::arguments;
use script::environment::{Additions, CgiRequest, Claims, Credentials, Environment, Limits};
use script::walk::splits;
use taipan_http::head::Field;
use taipan_http::target::{SafePath, Scheme};

use crate::cuts::first_line;

/// The first line is the raw path and query. Each other line is a field.
pub fn environment(data: &[u8]) {
    let (target, rest) = first_line(data);
    let target = String::from_utf8_lossy(target);
    let (path, query) = target.split_once('?').map_or((&*target, None), |(path, query)| (path, Some(query)));
    let lines = rest.split(|&byte| byte == b'\n');
    let fields: Vec<_> = lines
        .filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            Some(Field { name: &line[..colon], value: &line[colon + 1..] })
        })
        .collect();
    let safe = SafePath::parse(path).unwrap_or_else(|_| SafePath::parse("/a/b/c").expect("a safe path"));
    let (script_name, path_info) = walked(&safe);
    let mut additions = Additions::default();
    for name in ["PATH", "HTTP_SET", "HTTPS"] {
        additions.add(name, b"ours").expect("a name");
    }
    for credentials in [Credentials::Withheld, Credentials::Passed] {
        let request = CgiRequest {
            method: "GET",
            is_early: false,
            protocol: "HTTP/1.1",
            scheme: Scheme::Https,
            tls: &[],
            path,
            query,
            query_string: query,
            host: "h:1",
            server_name: "h",
            server_port: 1,
            software: "s",
            server: None,
            remote: None,
            remote_name: None,
            remote_port: None,
            script_name: &script_name,
            path_info: &path_info,
            path_translated: b"/t",
            script_filename: b"/f",
            document_root: b"/d",
            body: Some(5),
            fields: &fields,
            credentials,
            claims: Claims::Withheld,
        };
        let found = script::environment::environment(&request, &additions, Limits::default());
        let has_nul = data.contains(&0);
        match found {
            Ok(found) => sound(&found, credentials),
            Err(error) => assert!(has_nul || data.len() > 1000 || fields.len() > 400, "{error:?}"),
        }
    }
    for word in query.and_then(arguments).into_iter().flatten() {
        assert!(!word.starts_with(b"-") && !word.contains(&0));
    }
}

/// The script name and path info of a walk that finds a script at the first name that ends with `cgi`.
fn walked(safe: &SafePath) -> (String, String) {
    let mut found = (safe.to_string(), String::new());
    for split in splits(safe, 0).collect::<Vec<_>>().into_iter().rev() {
        assert_eq!([split.script.as_str(), split.path_info].concat(), safe.as_str());
        assert!(!split.script.is_folder());
        if split.script.as_str().ends_with("cgi") {
            found = (split.script.to_string(), split.path_info.to_owned());
        }
    }
    found
}

fn sound(environment: &Environment, credentials: Credentials) {
    let mut names: Vec<_> = environment.iter().map(|(name, _)| name).collect();
    let usual = |name: &&[u8]| {
        name.first().is_some_and(|first| !first.is_ascii_digit())
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    assert!(names.iter().all(usual));
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    let never = [
        "HTTP_PROXY",
        "HTTP_CONTENT_LENGTH",
        "HTTP_CONTENT_TYPE",
        "HTTP_CONNECTION",
        "HTTP_TRANSFER_ENCODING",
        "HTTP_FORWARDED",
        "HTTP_X_FORWARDED_FOR",
    ];
    assert!(never.iter().all(|name| !names.contains(&name.as_bytes())));
    assert!(credentials == Credentials::Passed || !names.contains(&&b"HTTP_AUTHORIZATION"[..]));
    for (name, value) in
        [("HTTP_HOST", &b"h:1"[..]), ("HTTP_SET", b"ours"), ("HTTPS", b"ours"), ("PATH", b"ours")]
    {
        assert_eq!(environment.value(name), Some(value));
    }
    assert_eq!(environment.block().iter().filter(|byte| **byte == 0).count(), environment.iter().count());
    let again = Environment::received(environment.iter(), Limits::default());
    assert_eq!(again.as_ref(), Ok(environment));
}
