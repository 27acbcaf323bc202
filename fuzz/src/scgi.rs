//! Requests of SCGI. The start of a request is never another request. A request has the two mandatory variables, and
//! each name once. An encoded request decodes to itself.

use script::environment::{Environment, Limits};
use script::scgi::{Request, ScgiError, encode, parse};

/// Small, so that short inputs reach it.
const LIMIT: usize = 200;

/// The bytes are a request. A `%` is a NUL, so that a request can be written as text.
pub fn scgi(data: &[u8]) {
    let data: Vec<u8> = data.iter().map(|&byte| if byte == b'%' { 0 } else { byte }).collect();
    let found = parse(&data, LIMIT);
    for cut in 0..data.len() {
        match (parse(&data[..cut], LIMIT), &found) {
            (Ok(None), _) => {}
            (Ok(Some((_, used))), Ok(Some((_, whole)))) => assert_eq!(used, *whole),
            (Err(early), Err(error)) => assert_eq!(early, *error),
            (early, _) => panic!("{early:?} of {cut} bytes, and then {found:?}"),
        }
    }
    match found {
        Ok(Some((request, used))) => complete(&request, &data[..used]),
        Ok(None) => assert!(data.len() <= LIMIT + 8),
        Err(error) => assert!(!error.to_string().is_empty() && error != ScgiError::Twice || data.len() > 20),
    }
    let names = data.split(|&byte| byte == b'\n').filter_map(|line| {
        let equals = line.iter().position(|&byte| byte == b'=')?;
        Some((&line[..equals], &line[equals + 1..]))
    });
    if let Ok(environment) = Environment::received(names, Limits::default()) {
        comes_back(&environment, data.len() as u64);
    }
}

fn complete(request: &Request, bytes: &[u8]) {
    assert_eq!(request.variables[0].0, b"CONTENT_LENGTH");
    assert!(request.variables.contains(&(b"SCGI", b"1")));
    let mut names: Vec<_> = request.variables.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), request.variables.len());
    let size: usize = request.variables.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    assert_eq!(bytes.len(), size.to_string().len() + size + 2);
}

fn comes_back(environment: &Environment, body: u64) {
    let mut bytes = Vec::new();
    encode(environment, body, &mut bytes);
    let (request, used) = parse(&bytes, usize::MAX).expect("a request").expect("the whole of it");
    assert_eq!((request.body, used), (body, bytes.len()));
    let ours = |name: &[u8]| matches!(name, b"CONTENT_LENGTH" | b"SCGI");
    let others: Vec<_> = environment.iter().filter(|(name, _)| !ours(name)).collect();
    assert_eq!(request.variables[2..], others);
}
