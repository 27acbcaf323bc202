//! Where a log goes. Knows nothing of what is written there.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::address::Address;
use crate::endpoint::EndpointAddress;

/// Words of a command.
const MAX_WORDS: usize = 64;

/// Where the lines of a log go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sink {
    Stdout,
    Stderr,
    Syslog,
    File(PathBuf),
    /// A program that reads lines: its path and its arguments.
    Command(Vec<String>),
    /// Lines are sent to it by TCP. Never a service of DNS, nor a Unix socket.
    Tcp(EndpointAddress),
    /// Spans are sent to it.
    Collector(Box<Collector>),
}

/// An OpenTelemetry collector that takes spans by OTLP/HTTP in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Collector {
    /// Never a service of DNS, nor a Unix socket.
    pub address: EndpointAddress,
    /// The value of `Host`.
    pub authority: String,
    pub path: String,
    /// `service.name` of the spans.
    pub service: String,
    /// `None`: spans are sent as they are.
    pub tls: Option<CollectorTls>,
}

/// How the connections to a collector are encrypted. Its certificate is always verified.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CollectorTls {
    /// Certificates of the authorities. `None`: those that the system trusts.
    pub authorities: Option<PathBuf>,
}

impl fmt::Display for Collector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(out, "{scheme}://{}{}", self.authority, self.path)
    }
}

impl Sink {
    /// Reads a word, a path, `|/program arguments` or `tcp://host:port`. A path needs a slash, so that a misspelt word
    /// is not taken for a path. A relative one begins in `folder`.
    pub fn parse(text: &str, folder: &Path) -> Option<Sink> {
        Some(match text {
            "stdout" => Sink::Stdout,
            "stderr" => Sink::Stderr,
            "syslog" => Sink::Syslog,
            _ if text.starts_with('|') => Sink::Command(command(&text[1..])?),
            _ if text.starts_with("tcp:") => {
                match EndpointAddress::parse(text.strip_prefix("tcp://")?, folder, None) {
                    Ok(EndpointAddress::Socket(Address::Unix(_)) | EndpointAddress::Service(_)) | Err(_) => {
                        return None;
                    }
                    Ok(address) => Sink::Tcp(address),
                }
            }
            path if path.contains('/') && !path.ends_with('/') && !path.contains("://") => {
                Sink::File(folder.join(path))
            }
            _ => return None,
        })
    }
}

impl Sink {
    /// Of the peer that reads it. `None`: it is none.
    pub fn address(&self) -> Option<&EndpointAddress> {
        match self {
            Sink::Tcp(address) => Some(address),
            Sink::Collector(collector) => Some(&collector.address),
            Sink::Stdout | Sink::Stderr | Sink::Syslog | Sink::File(_) | Sink::Command(_) => None,
        }
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sink::Stdout => out.write_str("stdout"),
            Sink::Stderr => out.write_str("stderr"),
            Sink::Syslog => out.write_str("syslog"),
            Sink::File(path) => write!(out, "{}", path.display()),
            Sink::Command(words) => write!(out, "|{}", words.join(" ")),
            Sink::Tcp(address) => write!(out, "tcp://{address}"),
            Sink::Collector(collector) => collector.fmt(out),
        }
    }
}

/// The words of a command, as a shell splits them, but nothing is expanded. `$` in front hands the whole text to a
/// shell. A second `|`, as Apache takes it, means nothing. `None`: a quote is open, or the program has no absolute
/// path.
fn command(text: &str) -> Option<Vec<String>> {
    let text = text.strip_prefix('|').unwrap_or(text);
    if let Some(script) = text.strip_prefix('$') {
        let script = script.trim();
        return (!script.is_empty()).then(|| ["/bin/sh", "-c", script].map(str::to_owned).to_vec());
    }
    let words = split(text)?;
    let is_good = words.len() <= MAX_WORDS
        && words.first()?.starts_with('/')
        && words.iter().all(|word| !word.contains('\0'));
    is_good.then_some(words)
}

fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(character),
            (_, '\\') => word.get_or_insert_default().push(characters.next()?),
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_words_paths_commands_and_addresses() {
        let found = |text: &str| Sink::parse(text, Path::new("/etc")).map(|sink| sink.to_string());
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(found(text).as_deref(), expected, "{text}");
        check("syslog", Some("syslog"));
        check("/var/log/a", Some("/var/log/a"));
        check("./a", Some("/etc/./a"));
        check("|/bin/cat -u", Some("|/bin/cat -u"));
        check("|$exec cat | wc", Some("|/bin/sh -c exec cat | wc"));
        check("tcp://[::1]:514", Some("tcp://[::1]:514"));
        check("tcp://Logs.example.org:514", Some("tcp://logs.example.org:514"));
        for wrong in ["sylog", "a/", "|", "|cat", "|$ ", "|/bin/cat 'x", "tcp://host", "tcp://", "tcp:host:1"]
        {
            check(wrong, None);
        }
        for wrong in ["tcp://unix:/a", "tcp://_syslog._tcp.example.org", "tcp://host:0", "|/bin/cat \\"] {
            check(wrong, None);
        }
    }

    #[test]
    fn splits_a_command_as_a_shell_does() {
        let check = |text: &str, expected: &[&str]| assert_eq!(split(text).unwrap(), expected, "{text}");
        check(" /a  b\tc ", &["/a", "b", "c"]);
        check(r#"/a "b c" 'd "e' f\ g """#, &["/a", "b c", r#"d "e"#, "f g", ""]);
        check(r#"/a "b\"c"'\d'"#, &["/a", r#"b"c\d"#]);
    }
}
