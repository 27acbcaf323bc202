//! What decides about a stored response: it is written and read again, and the directives of any fields lead to an age
//! and a lifetime that are in bounds, and to the same decision after a restart.

use cache::Field;
use cache::directives::RequestDirectives;
use cache::policy::{Policy, Received, store};
use cache::request::ClientIdentity;
use cache::settings::Settings;
use cache::stored::{Stored, Times};
use taipan_http::fields::{is_token, is_value};
use taipan_http::head::{FieldStore, Limits, parse};
use taipan_http::status::Status;

use crate::cuts::{first_line, number};

/// The first line is the time of the request, that of the response, now, and the status, with spaces between them. The
/// rest are field lines of the response; those that begin with `>` are of the request.
pub fn cached(data: &[u8]) {
    if let Some(stored) = Stored::decode(data) {
        assert_eq!(encoded(&stored), data);
    }
    let (facts, lines) = first_line(data);
    let mut facts = facts.splitn(4, |&byte| byte == b' ').map(number);
    let [requested, received, now, status] = [(); 4].map(|()| facts.next().unwrap_or(0));
    let Some(status) = u16::try_from(status).ok().and_then(Status::new) else { return };
    let (mut fields, mut request) = (Vec::new(), b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec());
    for line in lines.split(|&byte| byte == b'\n') {
        match line.strip_prefix(b">") {
            Some(line) => request.extend([line, b"\r\n"].concat()),
            None => fields.extend(field(line)),
        }
    }
    request.extend(b"\r\n");
    let mut space = FieldStore::new();
    let Ok(Some((head, _))) = parse(&request, &mut space, &Limits::default()) else { return };
    let (settings, times) = (Settings::default(), Times { requested, received });
    let received = Received { status, fields: &fields, times };
    let stored = store(&head, ClientIdentity::of(&head, &settings), received, &settings);
    let Some((stored, policy)) = stored else { return };
    assert!(stored.variant.matches(head.fields));
    let age = policy.freshness.age(now);
    assert!((0..=1 << 31).contains(&age) && (0..=1 << 31).contains(&policy.freshness.lifetime));
    // With a clock that was set back, it counts as very old until the time comes again.
    assert!(now < times.received || policy.freshness.age(now.saturating_add(1)) >= age);
    let again = Stored::decode(&encoded(&stored)).expect("it was written");
    let (request, identity) = (RequestDirectives::default(), ClientIdentity::default());
    let decision = |policy: &Policy| policy.decide(&request, identity, &settings, now);
    assert_eq!((&again, decision(&Policy::of(&again, &settings))), (&stored, decision(&policy)));
}

fn encoded(stored: &Stored) -> Vec<u8> {
    let mut bytes = Vec::new();
    stored.encode(&mut bytes);
    bytes
}

fn field(line: &[u8]) -> Option<Field> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let name = std::str::from_utf8(name).ok().filter(|name| is_token(name.as_bytes()))?;
    is_value(value).then(|| Field { name: name.into(), value: value.into() })
}
