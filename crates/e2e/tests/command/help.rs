//! What the program says of itself: help, version, manual page, completions.

use super::*;

#[test]
fn help_names_every_command() {
    for arguments in [["--help"], ["-h"], ["help"]] {
        let output = run(arguments.iter().copied());
        let help = text(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}");
        for part in [
            "taipan [DIR]",
            "taipan -c FILE",
            "taipan check -c FILE",
            "taipan explain METHOD URL",
            "taipan healthcheck URL",
            "taipan generate man|bash|zsh|fish",
            "--listen ADDRESS",
            "--config FILE",
            "--workers N",
            "--access-log WHERE",
            "--version",
        ] {
            assert!(help.contains(part), "{part}:\n{help}");
        }
    }
}

#[test]
fn every_help_fits_a_terminal_of_80_columns() {
    let help = |arguments: &[&str]| text(&run(arguments.iter().copied()).stdout);
    let overview = help(&["help"]);
    let commands = overview.lines().filter_map(|line| line.strip_prefix("  taipan "));
    let names =
        commands.filter_map(|line| line.split(' ').next()).filter(|name| !name.starts_with(['[', '-']));
    let mut rows = Rows::new();
    for name in names {
        let help = help(&["help", name]);
        rows.holds(name, &help, !help.is_empty() && help.lines().all(|line| line.chars().count() <= 80));
    }
}

#[test]
fn the_help_of_a_command_has_its_usage_and_flags() {
    for arguments in [["check", "--help"], ["check", "-h"], ["help", "check"]] {
        let output = run(arguments);
        let help = text(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}");
        assert!(help.contains("taipan check -c FILE\n") && help.contains("--config FILE"), "{help}");
        assert!(!help.contains("--listen") && !help.contains("taipan explain"), "{help}");
    }
    let output = run(["help", "chek"]);
    check_refused(&mut Rows::new(), "help chek", &output, &["no command chek", "taipan check"]);
}

#[test]
fn prints_the_version_in_one_line() {
    for flag in ["--version", "-V", "version"] {
        let output = run([flag]);
        assert!(output.status.success() && output.stderr.is_empty());
        let version = text(&output.stdout);
        let number = version
            .strip_prefix("taipan ")
            .and_then(|v| v.strip_suffix('\n'))
            .expect("its name, and a number");
        assert!(
            number.split('.').all(|part| part.parse::<u32>().is_ok()) && number.matches('.').count() == 2,
            "{version}"
        );
    }
}

#[test]
fn a_closed_output_pipe_is_no_error() {
    for arguments in [&["--help"][..], &["generate", "man"], &["--version"]] {
        let mut command = command();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = output_of(command.args(arguments).stdout(writer));
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// The output of another program for this input.
fn through(mut command: std::process::Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // A program may exit before it has read all input.
    _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

#[test]
fn the_manual_page_formats_without_warnings() {
    let page = run(["generate", "man"]);
    assert!(page.status.success());
    let mut groff = tool("groff");
    groff.args(["-man", "-Tutf8", "-ww", "-P-cbou"]);
    let shown = through(groff, &page.stdout);
    assert!(shown.status.success());
    assert_eq!(text(&shown.stderr), "");
    let shown = text(&shown.stdout);
    for part in [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "--listen",
        "-c FILE",
        "SIGTERM",
        "SIGUSR1",
        "EXIT STATUS",
        "FILES",
        "/etc/taipan/site.toml",
        "EXAMPLES",
        "taipan photos",
        "SEE ALSO",
        "logrotate(8)",
    ] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
}

#[test]
fn completions_work_in_their_shells() {
    let home = Folder::new();
    let script = |shell: &str| {
        let output = run(["generate", shell]);
        assert!(output.status.success());
        home.file(&format!("taipan.{shell}"), output.stdout)
    };
    let bash = r#"source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); _taipan; printf '%s\n' "${COMPREPLY[@]}""#;
    // zsh completes only in a terminal, so the test runs the completion function with an `_arguments` that prints what
    // it may complete.
    let zsh = r#"_arguments() { printf '%s\n' "$@" }; words=("${@:2}"); source "$1""#;
    let fish = "source $argv[1]; complete -C \"$argv[2..]\"";
    for shell in ["bash", "zsh", "fish"] {
        let path = script(shell);
        let mut checked = tool(shell);
        let checked = output_of(checked.arg(if shell == "fish" { "--no-execute" } else { "-n" }).arg(&path));
        assert!(checked.status.success() && checked.stderr.is_empty(), "{shell}: {}", text(&checked.stderr));
    }
    let complete = |shell: &str, program: &str, typed: &[&str]| {
        let mut completed = tool(shell);
        completed.arg("-c").arg(program);
        if shell != "fish" {
            completed.arg(shell);
        }
        completed.arg(home.path().join(format!("taipan.{shell}"))).args(typed);
        let completed = output_of(completed.env("HOME", home.path()));
        format!("{}{}", text(&completed.stdout), text(&completed.stderr))
    };
    let mut rows = Rows::new();
    for (typed, offered, left_out) in [
        (&["taipan", "--"][..], "--listen", "--rounds"),
        (&["taipan", "check", "--"], "--config", "--listen"),
        (&["taipan", "watch", "--"], "--client", "--json"),
        (&["taipan", "generate", ""], "zsh", "--config"),
        (&["taipan", "log-level", ""], "debug", "reload"),
    ] {
        for (shell, program) in [("bash", bash), ("zsh", zsh), ("fish", fish)] {
            let found = complete(shell, program, typed);
            let times = found.lines().filter(|line| line.contains(offered)).count();
            rows.check(format!("{shell}: {typed:?}: {offered}"), times, 1);
            rows.holds(format!("{shell}: {typed:?}"), &found, !found.contains(left_out));
        }
    }
    let help =
        "*--listen[Listen on ADDRESS, such as 127.0.0.1:8080, 0.0.0.0:8080 for all of IPv4, \\[::\\]:8080";
    rows.holds("zsh", "the help is escaped", complete("zsh", zsh, &["taipan", "--"]).contains(help));
}
