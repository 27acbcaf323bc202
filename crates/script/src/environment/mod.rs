//! The environment of a script, by an allow-list: the variables of RFC 3875 §4.1, those that everybody
//! has added since, what an administrator sets, and the request's fields as `HTTP_*`. Nothing else gets
//! in, least of all from the server's own environment: a `PATH` is one of the additions.
//!
//! Made once, as the block that `execve` takes; the parameters of FastCGI and the headers of SCGI are
//! written from the same variables. Knows nothing of where a script runs.

mod additions;
mod fields;
mod request;

use std::ffi::CStr;
use std::fmt;

use taipan_http::digits::{write_ip, write_number};
use taipan_http::fields::is_name;
use taipan_http::status::Status;
use taipan_http::target::Scheme;

pub use additions::{AdditionError, Additions};
pub use request::{CgiRequest, Claims, Credentials};

/// How large an environment gets. Linux ends one string at 128 KiB, and many a FastCGI application
/// all parameters at 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the block.
    pub bytes: usize,
    pub variables: usize,
}

/// Variables, each name once. A name has letters, digits and underscores; no value has a NUL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `NAME=VALUE` and a NUL, one after the other.
    block: Vec<u8>,
    places: Vec<Place>,
}

/// Where a variable stands in the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    start: usize,
    equals: usize,
    nul: usize,
}

/// The broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EnvironmentError {
    TooLarge,
    TooMany,
    /// A value with a NUL in it would end there, and who reads it would be told something else.
    Nul,
}

/// The environment in which a script is asked. `additions` replace what is set otherwise.
pub fn environment(
    asked: &CgiRequest,
    additions: &Additions,
    limits: Limits,
) -> Result<Environment, EnvironmentError> {
    let mut writer = Writer { environment: Environment::default(), additions, limits };
    writer.environment.block.reserve(2048.min(limits.bytes));
    writer.environment.places.reserve(32.min(limits.variables));
    for (name, value) in additions.iter() {
        writer.write(name, |block| block.extend_from_slice(value))?;
    }
    writer.request(asked)?;
    writer.script(asked)?;
    writer.ends(asked)?;
    fields::write(asked, &mut writer)?;
    Ok(writer.environment)
}

impl Default for Limits {
    /// 64 KiB and 512 variables: more than the largest head makes.
    fn default() -> Limits {
        Limits { bytes: 64 * 1024, variables: 512 }
    }
}

impl Environment {
    /// What another server has sent, for a program that is started with it. What no shell can say as a
    /// name is passed over, and so is `HTTP_PROXY`; of a name that comes twice, the first counts.
    pub fn received<'a>(
        pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        limits: Limits,
    ) -> Result<Environment, EnvironmentError> {
        let additions = Additions::default();
        let mut writer = Writer { environment: Environment::default(), additions: &additions, limits };
        for (name, value) in pairs {
            match std::str::from_utf8(name) {
                Ok("HTTP_PROXY") | Err(_) => {}
                Ok(name) if !is_variable(name) || writer.environment.value(name).is_some() => {}
                Ok(name) => writer.make(name, |block| block.extend_from_slice(value))?,
            }
        }
        Ok(writer.environment)
    }

    /// Names and values, in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let part = |place: &Place| {
            (&self.block[place.start..place.equals], &self.block[place.equals + 1..place.nul])
        };
        self.places.iter().map(part)
    }

    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(own, _)| *own == name.as_bytes()).map(|(_, value)| value)
    }

    /// `NAME=VALUE`, as `execve` wants them.
    pub fn strings(&self) -> impl Iterator<Item = &CStr> {
        self.places
            .iter()
            .map(|place| CStr::from_bytes_with_nul(&self.block[place.start..=place.nul]).unwrap_or_default())
    }

    /// All strings, one after the other, each with its NUL.
    pub fn block(&self) -> &[u8] {
        &self.block
    }

    /// Number of variables.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

impl EnvironmentError {
    /// What is too large of it, the client has sent.
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
            EnvironmentError::Nul => "NUL in what would be a CGI variable",
        })
    }
}

impl std::error::Error for EnvironmentError {}

/// Writes variables, as long as there is room for them.
struct Writer<'a> {
    environment: Environment,
    additions: &'a Additions,
    limits: Limits,
}

impl Writer<'_> {
    /// What was sent in the request line and of the body.
    fn request(&mut self, asked: &CgiRequest) -> Result<(), EnvironmentError> {
        self.set("GATEWAY_INTERFACE", "CGI/1.1")?;
        self.set("REQUEST_METHOD", asked.method)?;
        self.set("SERVER_PROTOCOL", asked.protocol)?;
        // RFC 3875 §4.1.7: empty where there is none, and set in any case.
        self.set("QUERY_STRING", asked.query_string.unwrap_or_default())?;
        self.make("REQUEST_URI", |block| {
            block.extend_from_slice(asked.path.as_bytes());
            if let Some(query) = asked.query {
                block.push(b'?');
                block.extend_from_slice(query.as_bytes());
            }
        })?;
        self.set("REQUEST_SCHEME", asked.scheme.as_str())?;
        if asked.scheme == Scheme::Https {
            self.set("HTTPS", "on")?;
        }
        if let Some(length) = asked.body {
            self.make("CONTENT_LENGTH", |block| write_number(length, block))?;
        }
        // Not a list: of two, nobody could say which is right.
        let mut types = asked.fields.iter().filter(|field| is_name(field.name, "content-type"));
        if let (Some(only), None) = (types.next(), types.next()) {
            self.set("CONTENT_TYPE", only.value)?;
        }
        Ok(())
    }

    /// Which script is asked.
    fn script(&mut self, asked: &CgiRequest) -> Result<(), EnvironmentError> {
        self.set("SCRIPT_NAME", asked.script_name)?;
        self.set("SCRIPT_FILENAME", asked.script_filename)?;
        self.set("DOCUMENT_ROOT", asked.document_root)?;
        self.set("PATH_INFO", asked.path_info)?;
        // RFC 3875 §4.1.6: nothing is translated where there is no path.
        if !asked.path_info.is_empty() && !asked.path_translated.is_empty() {
            self.set("PATH_TRANSLATED", asked.path_translated)?;
        }
        // php-cgi runs nothing without it: a sign that a server has started it, and not a client.
        self.set("REDIRECT_STATUS", "200")
    }

    /// Both ends of the connection, and who is at the other.
    fn ends(&mut self, asked: &CgiRequest) -> Result<(), EnvironmentError> {
        self.set("SERVER_SOFTWARE", asked.software)?;
        self.set("SERVER_NAME", asked.server_name)?;
        self.make("SERVER_PORT", |block| write_number(asked.server_port.into(), block))?;
        if let Some(server) = asked.server {
            self.make("SERVER_ADDR", |block| write_ip(server.ip(), block))?;
        }
        match asked.remote {
            Some(remote) => self.make("REMOTE_ADDR", |block| write_ip(remote, block))?,
            // RFC 3875 §4.1.8 wants it set.
            None => self.set("REMOTE_ADDR", "")?,
        }
        if let Some(port) = asked.remote_port {
            self.make("REMOTE_PORT", |block| write_number(port.into(), block))?;
        }
        Ok(())
    }

    fn set(&mut self, name: &'static str, value: impl AsRef<[u8]>) -> Result<(), EnvironmentError> {
        self.make(name, |block| block.extend_from_slice(value.as_ref()))
    }

    /// One variable, unless an addition is in its place.
    fn make(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) -> Result<(), EnvironmentError> {
        if self.additions.has(name) { Ok(()) } else { self.write(name, value) }
    }

    fn write(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) -> Result<(), EnvironmentError> {
        let Environment { block, places } = &mut self.environment;
        let start = block.len();
        block.extend_from_slice(name.as_bytes());
        let equals = block.len();
        block.push(b'=');
        value(block);
        let nul = block.len();
        block.push(0);
        places.push(Place { start, equals, nul });
        if block.len() > self.limits.bytes {
            Err(EnvironmentError::TooLarge)
        } else if places.len() > self.limits.variables {
            Err(EnvironmentError::TooMany)
        } else if block[equals..nul].contains(&0) {
            Err(EnvironmentError::Nul)
        } else {
            Ok(())
        }
    }
}

/// A name that every shell can say.
fn is_variable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests;
