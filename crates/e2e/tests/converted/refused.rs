//! What is not converted: files that are no configuration, and results that leave something out.

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

#[test]
fn a_conversion_that_left_something_out_does_not_serve() {
    let home = Folder::new();
    home.file("nginx.conf", "server { root /srv;\nlocation /a/ { auth_request /check; } }\n");
    let convert =
        command().args(["convert", "nginx.conf"]).current_dir(home.path()).output().expect("it starts");
    assert_eq!(convert.status.code(), Some(1));
    home.file("site.toml", String::from_utf8(convert.stdout).expect("it is text"));
    for arguments in [&["check", "-c", "site.toml"][..], &["-c", "site.toml"]] {
        let output = command().args(arguments).current_dir(home.path()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("this was not converted: line 2: "), "{said}");
    }
}

#[test]
fn a_file_that_is_no_configuration_is_refused_at_once() {
    let home = Folder::new();
    home.file("large.conf", "a ".repeat(1 << 20));
    let fifo = home.path().join("fifo.conf");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("the folder is ours");
    let mut rows = Rows::new();
    for server in ["boa", "thttpd", "nginx", "apache", "lighttpd", "caddy"] {
        let (succeeds, _, said) = convert(&home.path().join("large.conf"), server);
        rows.check(format!("{server} large"), succeeds, false);
        rows.holds(format!("{server} large"), &said, said.contains("it has more than 1 MiB"));
        // Nothing writes into it.
        let (_, _, said) = convert(&fifo, server);
        rows.holds(format!("{server} pipe"), &said, !said.contains("panic"));
        let (_, _, said) = convert(Path::new("/dev/zero"), server);
        rows.holds(format!("{server} device"), &said, said.contains("it has more than 1 MiB"));
        let (succeeds, _, _) = convert(home.path(), server);
        rows.check(format!("{server} folder"), succeeds, false);
    }
}

#[test]
fn names_the_line_and_the_column_of_another_encoding() {
    let home = Folder::new();
    // ISO 8859-1 has one byte for each of these characters.
    let latin = |text: &str| text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect::<Vec<u8>>();
    let mut rows = Rows::new();
    for (server, text, place) in [
        ("boa", "# é\nPort 80\nDocumentRoot /srv/é\n", "3: the character in column 19 "),
        ("thttpd", "# é\nport=80\ndir=/srv/é\n", "3: the character in column 10 "),
        ("busybox", "# é\nH:/srv/é\n", "2: the character in column 8 "),
        ("uhttpd", "# é\nconfig uhttpd main\n\toption home '/srv/é'\n", "3: the character in column 20 "),
        (
            "nginx",
            "# é\nserver {\n listen 80; # é\n # é\n root /srv/é;\n}\n",
            "5: the character in column 12 ",
        ),
        ("apache", "# é\nDocumentRoot /srv/é\n", "2: the character in column 19 "),
        ("lighttpd", "# é\nserver.document-root = \"/srv/é\"\n", "2: the character in column 30 "),
        ("caddy", ":80 {\n\t# é\n\troot * /srv/é\n}\n", "3: the character in column 14 "),
    ] {
        let file = home.file(&format!("{server}.conf"), latin(text));
        let (succeeds, _, said) = convert(&file, server);
        let expected = format!("{server}.conf:{place}is not UTF-8; save the file as UTF-8\n");
        rows.check(server, succeeds, false);
        rows.holds(server, &said, said.contains(&expected));
        rows.check(server, said.matches("UTF-8;").count(), 1);
    }
    // An included file.
    let included = home.file("sites/é.conf", latin("server {\n root /srv/é;\n}\n"));
    let file = home.file("nginx.conf", "http {\n include sites/*;\n}\n");
    let (succeeds, _, said) = convert(&file, "nginx");
    let expected = format!("nginx.conf:2: {}:2: the character in column 12 is not", included.display());
    rows.check("included", succeeds, false);
    rows.holds("included", &said, said.contains(&expected));
}

#[test]
fn prints_nothing_for_a_file_that_cannot_be_read() {
    let home = Folder::new();
    for server in ["boa", "thttpd", "busybox", "uhttpd", "nginx", "apache", "lighttpd", "caddy"] {
        let output = command()
            .args(["convert", "missing", "--from", server])
            .current_dir(home.path())
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{server}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{server}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stderr.lines().count(), 1, "{server}: {stderr}");
        assert!(
            stderr.contains("missing: ") && stderr.contains("cannot be read: No such file"),
            "{server}: {stderr}"
        );
    }
}
