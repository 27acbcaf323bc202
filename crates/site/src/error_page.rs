//! The built-in page of an error or a redirect: the status, one sentence, and a link to go on. It has no script, loads
//! nothing, is light or dark as the browser prefers, and has less than 900 bytes.
//!
//! Knows nothing of the choice of the status, nor of the error pages of a configuration.

use taipan_http::rule::Rule;
use taipan_http::status::Status;

use crate::text;

/// The `Content-Security-Policy` of the page. It allows only the style of the page.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; \
    style-src 'sha256-jQcAL9xZrX5FvE5TtX5uGMTEEJ1sDt0gVifs5GLnjgM='; base-uri 'none'; form-action 'none'";

pub const CONTENT_TYPE: &str = "text/html; charset=utf-8";

const BEGIN: &str = concat!(
    "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>",
    include_str!("error_page/error_page.css"),
    "</style>\n<title>"
);
const END: &str = "</main>\n";

/// The page of an error. It names `rule`, which the request breaks.
pub fn error(status: Status, rule: Option<&Rule>) -> String {
    let mut page = begin(status);
    match rule {
        Some(rule) => {
            page.push_str("<p>");
            let (first, rest) = rule.sentence.split_at(1);
            page.extend([
                &*first.to_ascii_uppercase(),
                rest,
                ".</p>\n<p><code>",
                rule.token,
                "</code></p>\n",
            ]);
        }
        None => page.extend(["<p>", sentence(status), "</p>\n"]),
    }
    // Another request may succeed only if the cause is temporary.
    page.push_str(match status.code() {
        408 | 425 | 429 | 500..=599 => "<p><a href=\"\">Try again</a></p>\n",
        400..=499 => "<p><a href=\"/\">Go to the start page</a></p>\n",
        _ => "",
    });
    page.push_str(END);
    page
}

/// The page for clients that do not follow a redirect.
pub fn redirect(status: Status, location: &str) -> String {
    let mut link = Vec::new();
    text::html(location, &mut link);
    let link = String::from_utf8(link).unwrap_or_default();
    let mut page = begin(status);
    page.extend(["<p>", sentence(status), "</p>\n<p><a href=\"", &link, "\">Continue</a></p>\n", END]);
    page
}

fn begin(status: Status) -> String {
    let mut page = String::with_capacity(BEGIN.len() + 256);
    let (title, code) = (status.to_string(), status.code().to_string());
    page.extend([BEGIN, &title, "</title>\n<main>\n<h1><b>", &code, "</b> ", status.reason(), "</h1>\n"]);
    page
}

/// The sentence for the reader.
const fn sentence(status: Status) -> &'static str {
    match status.code() {
        300..=399 => "This page is at another address.",
        400 => "The address is wrong, or the program that sent the request has a fault.",
        401 => "This page is only for users who log in.",
        403 => "You do not have permission for this.",
        404 => "There is no page at this address.",
        405 => "Nothing can be sent to this address or changed there.",
        408 => "The request took too long to arrive.",
        409 => "The folder that this would be in is missing, or something is in its way.",
        410 => "The page that was at this address is gone for good.",
        412 => "The page has changed since you last saw it.",
        413 => "What you sent is too large.",
        414 => "The address is too long.",
        415 => "This kind of content is not accepted here.",
        416 => "The page has no such part.",
        423 => "Another user or program has locked this.",
        429 => "There were too many requests.",
        431 => {
            "Your browser sent too much along with the address; deleting the cookies of this site may help."
        }
        451 => "This page may not be shown for legal reasons.",
        500 => "The server has a fault.",
        501 => "The server does not know this kind of request.",
        502 => "Another program or server makes this page, and it has failed.",
        503 => "The server cannot respond just now.",
        504 => "Another program or server makes this page, and it took too long.",
        507 => "There is no space for this.",
        _ if status.is_error() => "The request cannot be answered.",
        _ => "That is all there is here.",
    }
}

#[cfg(test)]
mod tests {
    use taipan_http::head::HeadError;

    use super::*;
    use crate::listing::tests::hash_of;

    fn status(code: u16) -> Status {
        Status::new(code).unwrap()
    }

    /// What follows the style.
    fn body(page: &str) -> &str {
        page.split_once("</style>\n").unwrap().1
    }

    #[test]
    fn explains_the_status_and_links_to_another_page() {
        for (code, expected) in [
            (
                404,
                "<title>404 Not Found</title>\n<main>\n<h1><b>404</b> Not Found</h1>\n\
                 <p>There is no page at this address.</p>\n<p><a href=\"/\">Go to the start page</a></p>\n</main>\n",
            ),
            (
                503,
                "<title>503 Service Unavailable</title>\n<main>\n<h1><b>503</b> Service Unavailable</h1>\n\
                 <p>The server cannot respond just now.</p>\n<p><a href=\"\">Try again</a></p>\n</main>\n",
            ),
            (
                409,
                "<title>409 Conflict</title>\n<main>\n<h1><b>409</b> Conflict</h1>\n\
                 <p>The folder that this would be in is missing, or something is in its way.</p>\n\
                 <p><a href=\"/\">Go to the start page</a></p>\n</main>\n",
            ),
            (
                507,
                "<title>507 Insufficient Storage</title>\n<main>\n<h1><b>507</b> Insufficient Storage</h1>\n\
                 <p>There is no space for this.</p>\n<p><a href=\"\">Try again</a></p>\n</main>\n",
            ),
            (
                499,
                "<title>499</title>\n<main>\n<h1><b>499</b> </h1>\n\
                 <p>The request cannot be answered.</p>\n<p><a href=\"/\">Go to the start page</a></p>\n</main>\n",
            ),
            (
                200,
                "<title>200 OK</title>\n<main>\n<h1><b>200</b> OK</h1>\n<p>That is all there is here.</p>\n</main>\n",
            ),
        ] {
            assert_eq!(body(&error(status(code), None)), expected);
        }
    }

    #[test]
    fn names_the_broken_rule() {
        let page = error(status(400), Some(HeadError::HostMissing.rule()));
        assert!(
            page.contains(
                "<p>An HTTP/1.1 request needs a Host field.</p>\n<p><code>host-missing</code></p>\n"
            ),
            "{page}"
        );
    }

    #[test]
    fn escapes_the_link_of_a_redirect() {
        let page = redirect(status(302), "/a?b=\"<'&");
        assert!(page.contains("<a href=\"/a?b=&quot;&lt;&#39;&amp;\">Continue</a>"), "{page}");
    }

    #[test]
    fn allows_the_style_of_the_page() {
        let expected = hash_of(&error(status(404), None), "style");
        assert!(CONTENT_SECURITY_POLICY.contains(&expected), "the policy needs {expected}");
    }

    #[test]
    fn keeps_every_page_small() {
        for code in 300..600 {
            let page = error(status(code), None);
            assert!(page.len() < 900, "{code}: {} bytes", page.len());
        }
        let long = error(Status::BAD_REQUEST, Some(HeadError::RequestLine.rule()));
        assert!(long.len() < 900, "{} bytes", long.len());
    }
}
