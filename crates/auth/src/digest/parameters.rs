//! The parameters of credentials (RFC 9110 §11.2): `NAME=VALUE`, with commas between them. A value is a token or a
//! quoted string.

/// A bound on how many there are. Digest has twelve.
const MAX_PARAMETERS: usize = 32;

/// The names in lower case, each once; quoted values without quotes and backslashes.
pub struct Parameters(Vec<(String, Vec<u8>)>);

impl Parameters {
    /// `None`: the text is no such list, or has a name twice.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut parameters = Self(Vec::new());
        let mut rest = text;
        loop {
            // RFC 9110 §5.6.1: a list may have empty members.
            while let [b' ' | b'\t' | b',', behind @ ..] = rest {
                rest = behind;
            }
            if rest.is_empty() {
                return Some(parameters);
            }
            let name = token(&mut rest)?.to_ascii_lowercase();
            rest = rest.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
            let value = match rest {
                [b'"', behind @ ..] => {
                    rest = behind;
                    quoted_string(&mut rest)?
                }
                _ => token(&mut rest)?.to_vec(),
            };
            rest = rest.trim_ascii_start();
            let name = String::from_utf8(name).ok()?;
            let is_twice = parameters.0.iter().any(|(other, _)| *other == name);
            if is_twice || parameters.0.len() == MAX_PARAMETERS || !matches!(rest, [] | [b',', ..]) {
                return None;
            }
            parameters.0.push((name, value));
        }
    }

    /// Removes it.
    pub fn take(&mut self, name: &str) -> Option<Vec<u8>> {
        let at = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

/// RFC 9110 §5.6.2. Not empty.
fn token<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let end = rest.iter().position(|&byte| !is_of_token(byte)).unwrap_or(rest.len());
    let (token, behind) = rest.split_at(end);
    *rest = behind;
    (!token.is_empty()).then_some(token)
}

/// The rest begins behind the first quote.
fn quoted_string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    loop {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        match byte {
            b'"' => return Some(value),
            b'\\' => {
                let (&escaped, behind) = rest.split_first()?;
                *rest = behind;
                value.push(escaped);
            }
            byte => value.push(byte),
        }
    }
}
