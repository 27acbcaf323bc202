//! What a command prints, where it cannot be written.

use std::fs::File;

use super::*;

/// An empty configuration or an empty list of numbers must not count as one.
#[test]
fn a_command_whose_output_cannot_be_written_fails() {
    let home = Folder::new();
    home.file("boa.conf", "Port 80\nDocumentRoot /srv\n");
    let user = own_user();
    home.file("site.toml", format!("listen = \"127.0.0.1:0\"\nroot = \"www\"\n{user}"));
    home.file("www/index.html", "");
    let mut rows = Rows::new();
    for words in [
        &["help"][..],
        &["--version"],
        &["generate", "man"],
        &["convert", "boa.conf", "--from", "boa"],
        &["check", "-c", "site.toml"],
        &["explain", "www", "/"],
    ] {
        let what = words.join(" ");
        let full = File::options().write(true).open("/dev/full").expect("it is there");
        let output = output_of(command().args(words).current_dir(home.path()).stdout(full));
        let expected = "taipan: cannot write to standard output: No space left on device\n";
        rows.check(&what, output.status.code(), Some(1));
        rows.holds(&what, &format!("{:?}", text(&output.stderr)), text(&output.stderr).ends_with(expected));
        // A reader that has read enough is no failure.
        let (reader, writer) = std::io::pipe().expect("there are descriptors");
        drop(reader);
        let output = output_of(command().args(words).current_dir(home.path()).stdout(writer));
        rows.check(format!("{what}, unread"), output.status.code(), Some(0));
        rows.holds(&what, "it says nothing of it", !text(&output.stderr).contains("cannot write"));
    }
}
