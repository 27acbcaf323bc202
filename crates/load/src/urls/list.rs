//! Parses a file of URLs. Files of siege work unchanged: comments, `NAME=value` with `$(NAME)`, and
//! `URL POST data` or `URL POST <file`. Beyond siege, a line may begin with a weight, have any method, contain
//! a pattern, and omit scheme and host.
//!
//! ```text
//! # one in five
//! HOST = localhost:8080
//! 4 http://$(HOST)/{00..99}.html
//! http://$(HOST)/form POST name=value
//! /upload PUT <body.bin
//! ```

use std::path::{Path, PathBuf};

use super::{Entry, Environment, Variables, pattern};

/// The most entries of one file.
const ENTRIES_MAX: usize = 4_000_000;

/// Errors: the line number and what is wrong.
pub fn parse(
    text: &str,
    folder: &Path,
    environment: &dyn Environment,
) -> Result<Vec<Entry>, (usize, String)> {
    let mut variables = Variables::new();
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let at_line = |why: String| (index + 1, why);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = assignment(line) {
            let value = substituted(value, &variables, environment).map_err(at_line)?;
            variables.insert(name.to_owned(), value);
            continue;
        }
        let line = substituted(line, &variables, environment).map_err(at_line)?;
        entries.extend(entry(&line, folder, environment).map_err(at_line)?);
        if entries.len() > ENTRIES_MAX {
            return Err(at_line(format!("more than {ENTRIES_MAX} URLs")));
        }
    }
    Ok(entries)
}

/// `NAME=value`, but not a URL with an equals sign.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let is_name = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some((name, value.trim()))
}

/// Bounded by the line: a value is not substituted again.
fn substituted(line: &str, variables: &Variables, environment: &dyn Environment) -> Result<String, String> {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("$(").or_else(|| rest.find("${")) {
        let close = if rest[at..].starts_with("$(") { ')' } else { '}' };
        let Some((name, after)) = rest[at + 2..].split_once(close) else {
            return Err(format!("\"{}\" has no closing {close}", &rest[at..]));
        };
        let value = variables.get(name).cloned().or_else(|| environment.variable(name));
        let value = value.ok_or_else(|| format!("$({name}) is not defined; write a line {name}=value"))?;
        out.push_str(&rest[..at]);
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// The entries of one line; a pattern gives several.
fn entry(line: &str, folder: &Path, environment: &dyn Environment) -> Result<Vec<Entry>, String> {
    let (weight, line) = match line.split_once(char::is_whitespace) {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            let weight = number.parse().map_err(|_| format!("{number} is too large for a weight"))?;
            (weight, rest.trim_start())
        }
        _ => (1, line),
    };
    let (url, rest) = match line.strip_prefix('"').and_then(|quoted| quoted.split_once('"')) {
        Some(parts) => parts,
        None => line.split_once(char::is_whitespace).unwrap_or((line, "")),
    };
    let (method, body) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    let method = match method {
        "" => None,
        name if name.bytes().all(|byte| byte.is_ascii_uppercase()) => Some(name.to_owned()),
        name => {
            return Err(format!(
                "\"{name}\" is not a method; write a URL, a method such as POST, and a body"
            ));
        }
    };
    let (body, content_type) = match body.trim().strip_prefix('<') {
        Some(name) => {
            let path = folder.join(PathBuf::from(name.trim()));
            let bytes = environment.read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            (Some(bytes), Some(kind(&path).to_owned()))
        }
        None if body.is_empty() => (None, None),
        None => (Some(body.trim().as_bytes().to_vec()), Some(FORM.to_owned())),
    };
    let urls = pattern::expand(url)?;
    let entry = |url| Entry {
        url,
        method: method.clone(),
        body: body.clone(),
        content_type: content_type.clone(),
        weight,
        at: None,
    };
    Ok(urls.into_iter().map(entry).collect())
}

const FORM: &str = "application/x-www-form-urlencoded";

/// The media type of a file, by its extension.
fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => "application/json",
        Some("xml") => "application/xml",
        Some("txt") => "text/plain",
        Some("html" | "htm") => "text/html",
        Some("form") => FORM,
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    struct One;

    impl Environment for One {
        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            match path.to_str() {
                Some("/in/a.json") => Ok(b"{}".to_vec()),
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        }

        fn variable(&self, name: &str) -> Option<String> {
            (name == "HOME_HOST").then(|| "home".to_owned())
        }
    }

    fn parsed(text: &str) -> Result<Vec<Entry>, (usize, String)> {
        parse(text, Path::new("/in"), &One)
    }

    fn check(line: &str, url: &str, weight: u32, method: Option<&str>, body: Option<&str>) {
        let expected = (url, weight, method, body.map(str::as_bytes));
        let entries = parsed(line).unwrap();
        let [entry] = entries.as_slice() else { panic!("{line}: {entries:?}") };
        let found = (entry.url.as_str(), entry.weight, entry.method.as_deref(), entry.body.as_deref());
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn parses_weight_url_method_and_body() {
        check("http://a/x", "http://a/x", 1, None, None);
        check("  /x?a=b&c=d ", "/x?a=b&c=d", 1, None, None);
        check("20 http://a/", "http://a/", 20, None, None);
        check("http://a/x POST a=b&c=d e", "http://a/x", 1, Some("POST"), Some("a=b&c=d e"));
        check("http://a/x PUT < a.json", "http://a/x", 1, Some("PUT"), Some("{}"));
        check("\"http://a/x\" HEAD", "http://a/x", 1, Some("HEAD"), None);
        check("3 /x DELETE", "/x", 3, Some("DELETE"), None);
    }

    #[test]
    fn substitutes_variables() {
        let text = "# hosts\nHOST = a.example\nURL=http://$(HOST)\n\n$(URL)/1\nhttp://${HOME_HOST}/2\n";
        let urls: Vec<String> = parsed(text).unwrap().into_iter().map(|entry| entry.url).collect();
        assert_eq!(urls, ["http://a.example/1", "http://home/2"]);
    }

    #[test]
    fn expands_a_pattern_to_urls_of_the_same_weight() {
        let entries = parsed("2 /{08..10}.html").unwrap();
        let found: Vec<(&str, u32)> =
            entries.iter().map(|entry| (entry.url.as_str(), entry.weight)).collect();
        assert_eq!(found, [("/08.html", 2), ("/09.html", 2), ("/10.html", 2)]);
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line, why) in [
            ("/ok\nhttp://$(NONE)/", 2, "NONE=value"),
            ("http://$(A/", 1, "no closing )"),
            ("/x post a=b", 1, "not a method"),
            ("/x POST <missing", 1, "/in/missing"),
            ("99999999999 /x", 1, "too large"),
            ("\n\n/{a..b}", 3, "range"),
        ] {
            let (at, message) = parsed(text).unwrap_err();
            assert_eq!(at, line, "{text}");
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
