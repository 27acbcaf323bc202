//! As-is files and metafiles. No field of a response ends it, or is one that only the server sets.

use site::field_file::{Field, MAX_FIELDS, as_is, metafile};
use taipan_http::fields::{is_token, is_value};

pub fn field_file(data: &[u8]) {
    match as_is(data) {
        Ok(response) => {
            check(&response.fields);
            assert!(data.ends_with(response.content));
            assert!((200..=599).contains(&response.status.code()));
            assert!(!matches!(response.status.code(), 206 | 304 | 416));
            assert!(response.fields.iter().all(|(name, _)| !name.eq_ignore_ascii_case("status")));
        }
        Err(mistake) => assert!(!mistake.to_string().contains('\n')),
    }
    match metafile(data) {
        Ok(fields) => {
            check(&fields);
            let of_file = ["location", "etag", "last-modified", "content-encoding", "status"];
            assert!(!fields.iter().any(|(name, _)| of_file.iter().any(|own| own.eq_ignore_ascii_case(name))));
        }
        Err(mistake) => assert!(mistake.line > 0 && !mistake.to_string().contains('\n')),
    }
}

fn check(fields: &[Field<'_>]) {
    assert!(fields.len() <= MAX_FIELDS);
    for (name, value) in fields {
        assert!(is_token(name.as_bytes()) && is_value(value));
        let own = [
            "content-length",
            "transfer-encoding",
            "connection",
            "date",
            "upgrade",
            "keep-alive",
            "te",
            "trailer",
        ];
        assert!(!own.iter().any(|own| own.eq_ignore_ascii_case(name)));
    }
}
