//! The environment of a script: the variables of RFC 3875 §4.1, those that other servers have added since, the
//! variables of the administrator, and the request's fields as `HTTP_*`. It has nothing of the server's own
//! environment: `PATH` is one of the administrator's variables.
//!
//! The variables are stored as name-value pairs of FastCGI, because a loaded server runs its scripts by FastCGI. CGI
//! and SCGI requests are written from the same variables. Knows nothing of where a script runs.

mod additions;
mod fields;
mod request;

use std::fmt;

use taipan_http::digits::{write_ip, write_number};
use taipan_http::fields::is_name;
use taipan_http::path_text;
use taipan_http::status::Status;
use taipan_http::target::Scheme;

use crate::pairs;

pub use additions::{AdditionError, Additions};
pub use request::{CgiRequest, Claims, Credentials};

/// Bytes of the variables of a request with the fields of a browser.
const USUAL_BYTES: usize = 2048;

/// The largest environment. Linux limits a string to 128 KiB (MAX_ARG_STRLEN in execve(2)), and many FastCGI
/// applications limit all parameters to 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the strings `NAME=VALUE`, each with a NUL at its end.
    pub bytes: usize,
    pub variables: usize,
}

/// Variables with unique names. A name has letters, digits and underscores; a value has no NUL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pairs: Vec<u8>,
    count: usize,
    /// Of the strings `NAME=VALUE`, each with a NUL at its end.
    bytes: usize,
}

/// The broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EnvironmentError {
    TooLarge,
    TooMany,
    /// A NUL in a value would end it.
    Nul,
}

/// Makes the environment of a request. `additions` replace variables of the request.
pub fn environment(
    request: &CgiRequest,
    additions: &Additions,
    limits: Limits,
) -> Result<Environment, EnvironmentError> {
    let mut writer = Writer::new(additions, limits);
    writer.environment.pairs.reserve(USUAL_BYTES);
    for (name, value) in additions.iter() {
        writer.write(name, value)?;
    }
    writer.message(request)?;
    writer.script(request)?;
    writer.connection(request)?;
    fields::write(request, &mut writer)?;
    Ok(writer.environment)
}

impl Default for Limits {
    /// 64 KiB and 512 variables: more than a head of default limits needs.
    fn default() -> Limits {
        Limits { bytes: 64 * 1024, variables: 512 }
    }
}

impl Environment {
    /// Makes an environment from the variables that another server has sent. Skips names that are not valid in a
    /// shell, and `HTTP_PROXY`. Of variables with the same name, the first counts.
    pub fn received<'a>(
        pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        limits: Limits,
    ) -> Result<Environment, EnvironmentError> {
        let additions = Additions::default();
        let mut writer = Writer::new(&additions, limits);
        for (name, value) in pairs {
            match std::str::from_utf8(name) {
                Ok("HTTP_PROXY") | Err(_) => {}
                Ok(name) if !is_variable(name) || writer.environment.value(name).is_some() => {}
                Ok(name) => writer.write(name, value)?,
            }
        }
        Ok(writer.environment)
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        // No pair is incomplete, so none is an error.
        pairs::decode(&self.pairs).flatten()
    }

    /// The value of a variable of this name, in the same case of letters.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(own, _)| *own == name.as_bytes()).map(|(_, value)| value)
    }

    /// The name-value pairs of FastCGI.
    pub fn pairs(&self) -> &[u8] {
        &self.pairs
    }

    /// The strings `NAME=VALUE`, each with a NUL at its end.
    pub fn block(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(self.bytes);
        for (name, value) in self.iter() {
            [name, b"=", value, b"\0"].into_iter().for_each(|part| block.extend_from_slice(part));
        }
        block
    }

    /// The same variables, with other values: `change` rewrites the pairs, and keeps every length.
    pub fn changed(&self, change: impl FnOnce(&[u8]) -> Vec<u8>) -> Environment {
        let pairs = change(&self.pairs);
        debug_assert_eq!(pairs.len(), self.pairs.len());
        Environment { pairs, ..*self }
    }
}

impl EnvironmentError {
    /// 431 for sizes, because the client's fields cause them.
    pub const fn status(self) -> Status {
        match self {
            EnvironmentError::TooLarge | EnvironmentError::TooMany => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            EnvironmentError::Nul => Status::BAD_REQUEST,
        }
    }
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            EnvironmentError::TooLarge => "the request's fields are too large for CGI variables",
            EnvironmentError::TooMany => "the request has too many fields for CGI variables",
            EnvironmentError::Nul => "a CGI variable would have a NUL",
        })
    }
}

impl std::error::Error for EnvironmentError {}

/// Writes variables within the limits.
struct Writer<'a> {
    environment: Environment,
    additions: &'a Additions,
    limits: Limits,
    /// Memory for a value that consists of parts.
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(additions: &'a Additions, limits: Limits) -> Writer<'a> {
        Writer { environment: Environment::default(), additions, limits, buffer: Vec::new() }
    }

    /// The request line and the body.
    fn message(&mut self, request: &CgiRequest) -> Result<(), EnvironmentError> {
        self.set("GATEWAY_INTERFACE", "CGI/1.1")?;
        self.set("REQUEST_METHOD", request.method)?;
        self.set("SERVER_PROTOCOL", request.protocol)?;
        // RFC 3875 §4.1.7: always set, and empty without a query.
        self.set("QUERY_STRING", request.query_string.unwrap_or_default())?;
        match request.query {
            None => self.set("REQUEST_URI", request.path)?,
            Some(query) => self.make("REQUEST_URI", |value| {
                [request.path, "?", query].iter().for_each(|part| value.extend_from_slice(part.as_bytes()));
            })?,
        }
        self.set("REQUEST_SCHEME", request.scheme.as_str())?;
        if request.scheme == Scheme::Https {
            self.set("HTTPS", "on")?;
        }
        if request.is_early {
            self.set("HTTP_EARLY_DATA", "1")?;
        }
        for (name, value) in request.tls {
            self.set(name, value.as_bytes())?;
        }
        if let Some(length) = request.body {
            self.make("CONTENT_LENGTH", |value| write_number(length, value))?;
        }
        // Not a list: with two fields, it is unknown which is right.
        let mut types = request.fields.iter().filter(|field| is_name(field.name, "content-type"));
        if let (Some(only), None) = (types.next(), types.next()) {
            self.set("CONTENT_TYPE", only.value)?;
        }
        Ok(())
    }

    /// The script and its path.
    fn script(&mut self, request: &CgiRequest) -> Result<(), EnvironmentError> {
        self.set("SCRIPT_NAME", path_text::bytes(request.script_name))?;
        self.set("SCRIPT_FILENAME", request.script_filename)?;
        self.set("DOCUMENT_ROOT", request.document_root)?;
        self.set("PATH_INFO", path_text::bytes(request.path_info))?;
        // RFC 3875 §4.1.6: not set without a PATH_INFO.
        if !request.path_info.is_empty() && !request.path_translated.is_empty() {
            self.set("PATH_TRANSLATED", request.path_translated)?;
        }
        // php-cgi requires it (cgi.force_redirect), as a sign that a server has started it.
        self.set("REDIRECT_STATUS", "200")
    }

    /// The server, the client and the connection between them.
    fn connection(&mut self, request: &CgiRequest) -> Result<(), EnvironmentError> {
        self.set("SERVER_SOFTWARE", request.software)?;
        self.set("SERVER_NAME", request.server_name)?;
        self.make("SERVER_PORT", |value| write_number(request.server_port.into(), value))?;
        if let Some(server) = request.server {
            self.make("SERVER_ADDR", |value| write_ip(server.ip(), value))?;
        }
        match request.remote {
            Some(remote) => self.make("REMOTE_ADDR", |value| write_ip(remote, value))?,
            // RFC 3875 §4.1.8: always set.
            None => self.set("REMOTE_ADDR", "")?,
        }
        if let Some(name) = request.remote_name {
            self.set("REMOTE_HOST", name)?;
        }
        if let Some(port) = request.remote_port {
            self.make("REMOTE_PORT", |value| write_number(port.into(), value))?;
        }
        Ok(())
    }

    /// Writes a variable unless an addition replaces it.
    fn set(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), EnvironmentError> {
        if self.additions.has(name) { Ok(()) } else { self.write(name, value.as_ref()) }
    }

    /// As `set`. `make` appends the value to an empty buffer.
    fn make(&mut self, name: &str, make: impl FnOnce(&mut Vec<u8>)) -> Result<(), EnvironmentError> {
        let mut value = std::mem::take(&mut self.buffer);
        value.clear();
        make(&mut value);
        let set = self.set(name, &value);
        self.buffer = value;
        set
    }

    fn write(&mut self, name: &str, value: &[u8]) -> Result<(), EnvironmentError> {
        pairs::encode(name.as_bytes(), value, &mut self.environment.pairs);
        self.count(name.len(), value)
    }

    /// Counts a variable that has been written, and checks the limits and the value.
    fn count(&mut self, name: usize, value: &[u8]) -> Result<(), EnvironmentError> {
        let Environment { count, bytes, .. } = &mut self.environment;
        *count += 1;
        // With the equals sign and the NUL.
        *bytes += name + value.len() + 2;
        if *bytes > self.limits.bytes {
            Err(EnvironmentError::TooLarge)
        } else if *count > self.limits.variables {
            Err(EnvironmentError::TooMany)
        } else if value.contains(&0) {
            Err(EnvironmentError::Nul)
        } else {
            Ok(())
        }
    }
}

/// Whether the name is valid in a shell (POSIX, XBD, "Name").
fn is_variable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests;
