//! Status codes and reason phrases (RFC 9110 §15). Knows nothing of why a code was chosen.

use std::fmt;

/// A status code from 100 to 599.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

/// Generates the constants and `reason` from one table.
macro_rules! statuses {
    ($($code:literal $name:ident $reason:literal)*) => {
        impl Status {
            $(pub const $name: Status = Status($code);)*

            /// The reason phrase of RFC 9110 §15, RFC 6585, RFC 7538 or RFC 4918. A code that is not in the table has
            /// an empty phrase (RFC 9112 §4 allows it).
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }

        #[cfg(test)]
        const NAMED: &[(u16, &str)] = &[$(($code, $reason)),*];
    };
}

statuses! {
    100 CONTINUE "Continue"
    101 SWITCHING_PROTOCOLS "Switching Protocols"
    103 EARLY_HINTS "Early Hints"
    104 UPLOAD_RESUMPTION_SUPPORTED "Upload Resumption Supported"
    200 OK "OK"
    201 CREATED "Created"
    202 ACCEPTED "Accepted"
    204 NO_CONTENT "No Content"
    205 RESET_CONTENT "Reset Content"
    206 PARTIAL_CONTENT "Partial Content"
    207 MULTI_STATUS "Multi-Status"
    300 MULTIPLE_CHOICES "Multiple Choices"
    301 MOVED_PERMANENTLY "Moved Permanently"
    302 FOUND "Found"
    303 SEE_OTHER "See Other"
    304 NOT_MODIFIED "Not Modified"
    307 TEMPORARY_REDIRECT "Temporary Redirect"
    308 PERMANENT_REDIRECT "Permanent Redirect"
    400 BAD_REQUEST "Bad Request"
    401 UNAUTHORIZED "Unauthorized"
    403 FORBIDDEN "Forbidden"
    404 NOT_FOUND "Not Found"
    405 METHOD_NOT_ALLOWED "Method Not Allowed"
    406 NOT_ACCEPTABLE "Not Acceptable"
    408 REQUEST_TIMEOUT "Request Timeout"
    409 CONFLICT "Conflict"
    410 GONE "Gone"
    411 LENGTH_REQUIRED "Length Required"
    412 PRECONDITION_FAILED "Precondition Failed"
    413 CONTENT_TOO_LARGE "Content Too Large"
    414 URI_TOO_LONG "URI Too Long"
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type"
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable"
    417 EXPECTATION_FAILED "Expectation Failed"
    421 MISDIRECTED_REQUEST "Misdirected Request"
    422 UNPROCESSABLE_CONTENT "Unprocessable Content"
    423 LOCKED "Locked"
    424 FAILED_DEPENDENCY "Failed Dependency"
    425 TOO_EARLY "Too Early"
    426 UPGRADE_REQUIRED "Upgrade Required"
    428 PRECONDITION_REQUIRED "Precondition Required"
    429 TOO_MANY_REQUESTS "Too Many Requests"
    431 REQUEST_HEADER_FIELDS_TOO_LARGE "Request Header Fields Too Large"
    451 UNAVAILABLE_FOR_LEGAL_REASONS "Unavailable For Legal Reasons"
    500 INTERNAL_SERVER_ERROR "Internal Server Error"
    501 NOT_IMPLEMENTED "Not Implemented"
    502 BAD_GATEWAY "Bad Gateway"
    503 SERVICE_UNAVAILABLE "Service Unavailable"
    504 GATEWAY_TIMEOUT "Gateway Timeout"
    505 HTTP_VERSION_NOT_SUPPORTED "HTTP Version Not Supported"
    507 INSUFFICIENT_STORAGE "Insufficient Storage"
    508 LOOP_DETECTED "Loop Detected"
}

impl Status {
    /// `None` outside 100..=599: RFC 9110 §15 calls such a code invalid.
    pub const fn new(code: u16) -> Option<Status> {
        match code {
            100..=599 => Some(Status(code)),
            _ => None,
        }
    }

    pub const fn code(self) -> u16 {
        self.0
    }

    /// 2xx.
    pub const fn is_successful(self) -> bool {
        matches!(self.0, 200..=299)
    }

    /// 4xx: the client is at fault.
    pub const fn is_client_error(self) -> bool {
        matches!(self.0, 400..=499)
    }

    /// 4xx and 5xx.
    pub const fn is_error(self) -> bool {
        self.0 >= 400
    }

    /// False for 1xx, 204 and 304: such a response ends with its head (RFC 9112 §6.3).
    pub const fn allows_body(self) -> bool {
        !matches!(self.0, 100..=199 | 204 | 304)
    }
}

/// `404 Not Found`, or `599` alone for a code without a reason phrase.
impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.reason() {
            "" => write!(out, "{}", self.0),
            reason => write!(out, "{} {reason}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "Status({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_codes_from_100_to_599() {
        for (code, valid) in [(0, false), (99, false), (100, true), (599, true), (600, false), (65535, false)]
        {
            assert_eq!(Status::new(code).is_some(), valid, "{code}");
        }
    }

    #[test]
    fn the_table_ascends_and_its_reasons_are_words() {
        assert!(NAMED.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (code, reason) in NAMED {
            assert!(Status::new(*code).is_some());
            let is_word =
                |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic());
            // 207 is "Multi-Status".
            assert!(reason.split([' ', '-']).all(is_word), "{reason}");
        }
    }

    #[test]
    fn displays_code_and_reason() {
        assert_eq!(Status::NOT_FOUND.to_string(), "404 Not Found");
        assert_eq!(Status(599).to_string(), "599");
    }

    #[test]
    fn responses_of_1xx_204_and_304_have_no_body() {
        for code in [100, 101, 199, 204, 304] {
            assert!(!Status(code).allows_body(), "{code}");
        }
        for code in [200, 205, 206, 301, 303, 305, 404, 416, 500] {
            assert!(Status(code).allows_body(), "{code}");
        }
    }

    #[test]
    fn errors_are_4xx_and_5xx() {
        assert!(Status::BAD_REQUEST.is_error() && Status::HTTP_VERSION_NOT_SUPPORTED.is_error());
        assert!(!Status::OK.is_error() && !Status::NOT_MODIFIED.is_error());
        assert!(Status::BAD_REQUEST.is_client_error() && !Status::OK.is_client_error());
        assert!(!Status::HTTP_VERSION_NOT_SUPPORTED.is_client_error());
    }
}
