//! The head of a response. CGI, FastCGI and SCGI have one grammar for it (RFC 3875 §6), and HTTP has another.

use script::response as cgi;
use taipan_http::client::{self as http, Interim, lines::Limits, section::FieldSection};
use taipan_http::framing::Framing;
use taipan_http::head::Persistence;
use taipan_http::status::Status;

pub struct UpstreamHead {
    pub status: Status,
    /// `None`: the body ends where the output does.
    pub framing: Framing,
    /// Whether the connection can have another request after the response.
    pub persistence: Persistence,
    /// Without hop-by-hop fields.
    pub fields: FieldSection,
    /// RFC 3875 §6.2.2. HTTP has none.
    pub is_local_redirect: bool,
    /// The content of a response that must have none, as after HEAD.
    pub excess: Excess,
    /// The protocol that a 101 switches to, or those that a 426 names, in a list.
    pub upgrade: Option<String>,
    /// The names of the fields that may follow the content.
    pub trailer: Option<String>,
    /// There was more than one `Content-Type`. The last one counts.
    pub repeats_type: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// A script may write it.
    Ignored,
    /// The next response would begin with it.
    Malformed,
}

pub enum HeadParser {
    Cgi(cgi::Parser),
    Http(http::Parser),
}

pub enum Step {
    More(HeadParser),
    /// So many bytes of the last input belong to it.
    Interim(HeadParser, Interim, usize),
    /// So many bytes of the last input belong to the head.
    Head(UpstreamHead, usize),
    /// With the broken rule.
    Rejected(String),
}

impl HeadParser {
    pub fn cgi() -> HeadParser {
        HeadParser::Cgi(cgi::Parser::new(Limits::default()))
    }

    pub fn http() -> HeadParser {
        HeadParser::Http(http::Parser::new(Limits::default()))
    }

    /// For the response to a request with `Upgrade`.
    pub fn http_upgrading() -> HeadParser {
        HeadParser::Http(http::Parser::upgrading(Limits::default()))
    }

    pub fn receive(self, input: &[u8]) -> Step {
        match self {
            HeadParser::Cgi(parser) => match parser.receive(input) {
                cgi::Step::More(parser) => Step::More(HeadParser::Cgi(parser)),
                cgi::Step::Head(head, used) => Step::Head(head.into(), used),
                cgi::Step::Rejected(error) => Step::Rejected(error.to_string()),
            },
            HeadParser::Http(parser) => match parser.receive(input) {
                http::Step::More(parser) => Step::More(HeadParser::Http(parser)),
                http::Step::Interim(parser, interim, used) => {
                    Step::Interim(HeadParser::Http(parser), interim, used)
                }
                http::Step::Head(head, used) => Step::Head(head.into(), used),
                http::Step::Rejected(error) => Step::Rejected(error.to_string()),
            },
        }
    }

    /// The rule that the end of the output breaks.
    pub fn end(self) -> String {
        match self {
            HeadParser::Cgi(parser) => parser.end().to_string(),
            HeadParser::Http(parser) => parser.end().to_string(),
        }
    }
}

impl From<cgi::Head> for UpstreamHead {
    fn from(head: cgi::Head) -> UpstreamHead {
        let cgi::Head { kind, status, framing, fields, repeats_type } = head;
        let is_local_redirect = kind == cgi::Kind::LocalRedirect;
        let (persistence, excess) = (Persistence::Close, Excess::Ignored);
        UpstreamHead {
            status,
            framing,
            persistence,
            fields,
            is_local_redirect,
            excess,
            upgrade: None,
            trailer: None,
            repeats_type,
        }
    }
}

impl From<http::Head> for UpstreamHead {
    fn from(head: http::Head) -> UpstreamHead {
        let http::Head { status, framing, persistence, fields, upgrade, trailer, repeats_type } = head;
        UpstreamHead {
            status,
            framing,
            persistence,
            fields,
            is_local_redirect: false,
            excess: Excess::Malformed,
            upgrade,
            trailer,
            repeats_type,
        }
    }
}
