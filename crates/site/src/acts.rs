//! The form by which users with credentials change the running server: its page, and what its fields ask for.

use taipan_http::digits::hex_byte;

use crate::text;

const PAGE: &str = include_str!("monitor/acts.html");
/// For the page: it sends its forms to itself, and loads nothing.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; \
                          frame-ancestors 'none'";
/// Fields of a form.
const MAX_FIELDS: usize = 16;
/// Seconds of another level of the error log.
const LEVEL_TIME: u32 = 600;

/// What a form asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActForm {
    /// As the page had it.
    pub token: String,
    /// The line of a request to the control socket.
    pub line: String,
}

/// `message`: what became of the last form.
pub fn page(token: &str, message: &str) -> String {
    let escaped = |value: &str| {
        let mut out = Vec::new();
        text::html(value, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    PAGE.replace("@token@", &escaped(token)).replace("@message@", &escaped(message))
}

/// Reads `application/x-www-form-urlencoded`. `None`: it asks for nothing that is known.
pub fn asked(form: &[u8]) -> Option<ActForm> {
    let fields: Vec<(String, String)> = form
        .split(|byte| *byte == b'&')
        .take(MAX_FIELDS)
        .map(|field| {
            let at = field.iter().position(|byte| *byte == b'=').unwrap_or(field.len());
            Some((decoded(&field[..at])?, decoded(field.get(at + 1..).unwrap_or_default())?))
        })
        .collect::<Option<_>>()?;
    let value = |name: &str| fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.trim());
    let given = |name: &str| value(name).filter(|value| !value.is_empty());
    let line = match value("act")? {
        act @ ("reload" | "reopen") => act.to_owned(),
        "maintenance" => format!("maintenance {} {}", given("seconds").unwrap_or("300"), given("host")?),
        "serve" => format!("maintenance off {}", given("host")?),
        act @ ("drain" | "undrain") => format!("{act} {}\0{}", given("application")?, given("endpoint")?),
        "level" => format!("level {} {LEVEL_TIME}", given("level")?),
        "disconnect" => match (given("connection"), given("client")) {
            (Some(id), None) => format!("disconnect connection {id}"),
            (None, Some(client)) => format!("disconnect client {client}"),
            _ => return None,
        },
        "purge" => match given("path") {
            Some(path) => format!("purge path - {path}"),
            None => "purge all - -".to_owned(),
        },
        _ => return None,
    };
    Some(ActForm { token: value("token")?.to_owned(), line })
}

/// `None`: it is no text, or has control characters.
fn decoded(bytes: &[u8]) -> Option<String> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let [byte, behind @ ..] = rest {
        rest = behind;
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                rest = behind.get(2..)?;
                hex_byte(behind)?
            }
            byte => *byte,
        });
    }
    String::from_utf8(out).ok().filter(|text| !text.contains(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_form_asks_for() {
        for (form, line) in [
            ("act=reload", "reload"),
            ("act=reopen&host=x", "reopen"),
            ("act=maintenance&host=a.example&seconds=", "maintenance 300 a.example"),
            ("act=maintenance&host=a.example&seconds=60", "maintenance 60 a.example"),
            ("host=a.example&act=serve", "maintenance off a.example"),
            ("act=drain&application=my+app&endpoint=10.0.0.1%3A80", "drain my app\x0010.0.0.1:80"),
            ("act=level&level=debug", "level debug 600"),
            ("act=disconnect&connection=1a2b&client=", "disconnect connection 1a2b"),
            ("act=disconnect&connection=&client=10.0.0.0%2F8", "disconnect client 10.0.0.0/8"),
            ("act=purge&path=%2Fa", "purge path - /a"),
            ("act=purge&path=", "purge all - -"),
        ] {
            let asked = asked(format!("{form}&token=t").as_bytes());
            assert_eq!(asked, Some(ActForm { token: "t".into(), line: line.into() }), "{form}");
        }
        for form in [
            "",
            "act=reload",
            "act=upgrade&token=t",
            "act=stats&token=t",
            "act=drain&application=a&token=t",
            "act=disconnect&token=t",
            "act=disconnect&connection=1&client=::1&token=t",
            "act=serve&host=a%0Areload&token=t",
            "act=drain&application=a%00b&endpoint=c&token=t",
            "act=serve&host=%&token=t",
            "act=serve&host=%zz&token=t",
            "act=serve&host=%ff&token=t",
        ] {
            assert_eq!(asked(form.as_bytes()), None, "{form}");
        }
    }

    #[test]
    fn shows_messages_as_text() {
        let page = page("t", "<script>\"&");
        assert!(page.contains("&lt;script&gt;") && !page.contains('@'), "{page}");
    }
}
