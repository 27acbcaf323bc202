//! Publishing: files that clients upload, change and remove, by PUT and by WebDAV.

mod files;
mod paths;
mod rules;
mod space;
mod uploads;
mod webdav;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use e2e::{Random, Response, Rows, Server, Site, SmallDisk, TIMEOUT, output_of, tool, wait_until};

/// The disk of a machine that runs all tests at once takes seconds to sync.
const OPEN: &str = "publish = \"webdav\"\npublish_anonymous = true\nmax_body = \"8MiB\"\n\
                    publish_sync = false\n";

/// The body of a request for an exclusive lock.
const LOCK: &str =
    "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";

/// The body of a request that sets a property.
const PROPERTY: &str = "<propertyupdate xmlns='DAV:'><set><prop><x xmlns='y'/></prop></set></propertyupdate>";

fn server() -> Server {
    Site::new().file("a.txt", "old\n").folder("folder").file("folder/b.txt", "b\n").config(OPEN).start()
}

fn send(server: &Server, method: &str, path: &str, fields: &str, body: &str) -> Response {
    server.request(request(method, path, fields, body))
}

fn request(method: &str, path: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n{fields}\r\n{body}")
}

/// Sends requests in order, and compares their statuses.
#[track_caller]
fn check(server: &Server, rows: &[(&str, &str, &str, &str, u16)]) {
    let mut table = Rows::new();
    for (method, path, fields, body, expected) in rows {
        let input = format!("{method} {path} {fields}{body}");
        table.check(input, send(server, method, path, fields, body).status, *expected);
    }
}

fn content(server: &Server, path: &str) -> String {
    server.get(path).text()
}

fn own_files(server: &Server, folder: &str) -> Vec<String> {
    let folder = server.root().join(".taipan-publish").join(folder);
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Runs a client that must succeed.
#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = output_of(command);
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}
