use std::ffi::OsString;
use std::net::IpAddr;
use std::time::Duration;

use auth::digest_users::Algorithm;
use auth::hash::NewHash;
use cache::store::purge::{Purge, What};
use site::host::HostAddress;

use super::commands::COMMANDS;
use super::completions::{bash, fish, zsh};
use super::help::{help, reference};
use super::manual_page::{man, roff};
use super::parse::parse;
use super::table::{FLAGS, Key, Switch};
use super::{
    Command, CommandKey, Document, Explain, Passwd, PasswdKind, PasswdTask, PasswordFrom, Presence, Scripts,
    Serve, TopMode, UsageError, Wrap,
};
use crate::control::{ConfigSource, Drain, DrainChange, Request, SiteSource};
use crate::process::ipc::Form;

fn parsed(line: &str) -> Result<Command, UsageError> {
    parse(line.split_whitespace().map(OsString::from))
}

fn serve(source: SiteSource) -> Serve {
    Serve {
        source,
        listen: Vec::new(),
        workers: None,
        access_log: None,
        user: None,
        tls: Vec::new(),
        presence: Presence::Foreground,
    }
}

fn own(file: &str) -> ConfigSource {
    ConfigSource::Own(file.into())
}

/// For the user `ann`.
fn passwd(task: PasswdTask, password: PasswordFrom, kind: PasswdKind) -> Command {
    Command::Passwd(Passwd { user: "ann".into(), task, password, kind })
}

fn argon2() -> PasswdKind {
    PasswdKind::Hash(NewHash::Argon2id)
}

#[test]
fn parses_commands() {
    let folder = |dir: &str| SiteSource::Folder(dir.into());
    let table = [
        ("", Command::Serve(serve(folder(".")))),
        ("/srv", Command::Serve(serve(folder("/srv")))),
        ("./check", Command::Serve(serve(folder("./check")))),
        ("-c a.toml", Command::Serve(serve(SiteSource::Config(own("a.toml"))))),
        (
            "x -l :1 --listen=[::1]:2 -w 3 --access-log off -u web",
            Command::Serve(Serve {
                source: folder("x"),
                listen: vec![":1".into(), "[::1]:2".into()],
                workers: Some(3),
                access_log: Some("off".into()),
                user: Some("web".into()),
                tls: Vec::new(),
                presence: Presence::Foreground,
            }),
        ),
        ("check -c a.toml", Command::Check { source: own("a.toml") }),
        (
            "--tls a.example --tls b.example x",
            Command::Serve(Serve { tls: vec!["a.example".into(), "b.example".into()], ..serve(folder("x")) }),
        ),
        ("certificates -c a.toml", Command::Certificates { config: "a.toml".into() }),
        ("-c a.toml check", Command::Check { source: own("a.toml") }),
        (
            "reload -c a.toml",
            Command::Control { source: SiteSource::Config(own("a.toml")), request: Request::Reload },
        ),
        ("upgrade --root /srv", Command::Control { source: folder("/srv"), request: Request::Upgrade }),
        (
            "disconnect 1A2B -c a.toml",
            Command::Control {
                source: SiteSource::Config(own("a.toml")),
                request: Request::Disconnect("connection 1a2b".parse().expect("it is one")),
            },
        ),
        (
            "disconnect --client 10.0.0.0/8 -c a.toml",
            Command::Control {
                source: SiteSource::Config(own("a.toml")),
                request: Request::Disconnect("client 10.0.0.0/8".parse().expect("it is one")),
            },
        ),
        (
            "drain app 10.0.0.1:80 -c a.toml",
            Command::Control {
                source: SiteSource::Config(own("a.toml")),
                request: Request::Drain(Drain {
                    application: "app".into(),
                    endpoint: "10.0.0.1:80".into(),
                    change: DrainChange::Drain,
                }),
            },
        ),
        ("stats", Command::Control { source: folder("."), request: Request::Stats(Form::Text) }),
        ("top", Command::Top { source: folder("."), mode: TopMode::Live }),
        (
            "top --once -c a.toml",
            Command::Top { source: SiteSource::Config(own("a.toml")), mode: TopMode::Once },
        ),
        (
            "purge /a%20b.html --root /srv",
            Command::Control {
                source: folder("/srv"),
                request: Request::Purge(Purge::new(None, What::Path("/a%20b.html".into()))),
            },
        ),
        (
            "purge -c a.toml --host A.example --prefix /x/./y",
            Command::Control {
                source: SiteSource::Config(own("a.toml")),
                request: Request::Purge(Purge::new(Some("a.example".into()), What::Prefix("/x/y".into()))),
            },
        ),
        (
            "purge --tag news",
            Command::Control {
                source: folder("."),
                request: Request::Purge(Purge::new(None, What::Tag("news".into()))),
            },
        ),
        ("purge --all", Command::Control { source: folder("."), request: Request::Purge(Purge::all()) }),
        ("stats --json", Command::Control { source: folder("."), request: Request::Stats(Form::Json) }),
        (
            "explain GET /x -H Range:bytes=0-1 --from 2001:db8::1 --to 192.0.2.1:81 --root /srv",
            Command::Explain(Explain {
                source: folder("/srv"),
                method: "GET".into(),
                url: "/x".into(),
                fields: vec!["Range:bytes=0-1".into()],
                from: IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
                to: Some(HostAddress { ip: IpAddr::from([192, 0, 2, 1]), port: Some(81) }),
            }),
        ),
        (
            "healthcheck http://a/ --timeout 2",
            Command::Healthcheck { url: "http://a/".into(), timeout: Duration::from_secs(2) },
        ),
        (
            "fcgi-wrap -s a.sock --folder /x --folder=y",
            Command::Wrap(Wrap {
                socket: Some("a.sock".into()),
                processes: 16,
                scripts: Scripts::Beneath(vec!["/x".into(), "y".into()]),
            }),
        ),
        (
            "fcgi-wrap --processes 3 cat -s --help",
            Command::Wrap(Wrap {
                socket: None,
                processes: 3,
                scripts: Scripts::Program("cat".into(), vec!["-s".into(), "--help".into()]),
            }),
        ),
        ("passwd users ann", passwd(PasswdTask::Set("users".into()), PasswordFrom::Terminal, argon2())),
        ("passwd -ci users ann", passwd(PasswdTask::Create("users".into()), PasswordFrom::Stdin, argon2())),
        (
            "passwd -nbB -C 12 ann secret",
            passwd(
                PasswdTask::Print,
                PasswordFrom::Argument("secret".into()),
                PasswdKind::Hash(NewHash::Bcrypt { cost: 12 }),
            ),
        ),
        ("passwd -D users ann", passwd(PasswdTask::Delete("users".into()), PasswordFrom::Terminal, argon2())),
        (
            "passwd -5 -r 2000 -v users ann",
            passwd(
                PasswdTask::Verify("users".into()),
                PasswordFrom::Terminal,
                PasswdKind::Hash(NewHash::Sha512Crypt { rounds: 2000 }),
            ),
        ),
        (
            "passwd users -s ann",
            passwd(PasswdTask::Set("users".into()), PasswordFrom::Terminal, PasswdKind::Hash(NewHash::Sha1)),
        ),
        (
            "passwd --digest My_files users ann",
            passwd(
                PasswdTask::Set("users".into()),
                PasswordFrom::Terminal,
                PasswdKind::Digest("My_files".into(), &[Algorithm::Sha256]),
            ),
        ),
        (
            "passwd -m --digest r users ann",
            passwd(
                PasswdTask::Set("users".into()),
                PasswordFrom::Terminal,
                PasswdKind::Digest("r".into(), &Algorithm::ALL),
            ),
        ),
        ("generate fish", Command::Generate(Document::Fish)),
        ("--help", Command::Help(CommandKey::Serve)),
        ("photos -h", Command::Help(CommandKey::Serve)),
        ("help", Command::Help(CommandKey::Serve)),
        ("help check", Command::Help(CommandKey::Check)),
        ("check --help", Command::Help(CommandKey::Check)),
        ("passwd -h", Command::Help(CommandKey::Passwd)),
        ("version", Command::Version),
        ("./help", Command::Serve(serve(folder("./help")))),
        // The parser does not check that the folder exists.
        ("chek", Command::Serve(serve(folder("chek")))),
        ("check -V", Command::Version),
    ];
    for (line, expected) in table {
        assert_eq!(parsed(line), Ok(expected), "{line}");
    }
}

#[test]
fn errors_say_what_to_do() {
    let table = [
        ("--lisen :1", "did you mean --listen?"),
        ("--zzzzzzzz", "see taipan --help"),
        ("metrics --foo", "unknown flag --foo; see taipan metrics --help"),
        ("a b", "only one folder"),
        ("a -c b", "not both"),
        ("-c a -c b", "only one configuration"),
        ("check -c a -c a", "only one configuration"),
        ("check", "taipan check -c FILE"),
        ("check -c a b", "takes no argument"),
        ("check a.toml", "check takes its file behind -c: taipan check -c a.toml"),
        ("reload a.toml", "reload takes its file behind -c: taipan reload -c a.toml"),
        ("check -f a.toml", "unknown flag -f; write -c FILE"),
        ("explain GET", "a method and a URL"),
        ("explain GET / --from localhost", "not an IP address"),
        ("explain GET / --to localhost:80", "not the address of a server"),
        ("explain GET / --to 0.0.0.0", "not the address of a server"),
        ("purge", "purge takes one of a path"),
        ("purge /a /b", "purge takes one of a path"),
        ("purge /a --all", "purge takes one of a path"),
        ("purge a", "does not begin with a slash"),
        ("--all", "--all is not a flag of taipan without a command"),
        ("healthcheck", "one URL"),
        ("generate tcsh", "man, bash, zsh and fish"),
        ("--workers many", "takes a number"),
        ("check -c a --listen :1", "--listen is not a flag of taipan check; see taipan check --help"),
        ("check -c a -l :1", "-l is not a flag of taipan check"),
        ("-s reload", "unknown flag -s; write taipan reload -c FILE"),
        ("reload -c a b", "reload takes no argument but -c FILE"),
        ("drain a -c b", "taipan drain NAME ADDRESS -c FILE"),
        ("undrain a -c b", "taipan undrain NAME ADDRESS -c FILE"),
        ("-w many", "-w takes a number from 1 to 1024"),
        ("--port 80", "unknown flag --port; write --listen 127.0.0.1:PORT"),
        ("-p 80", "unknown flag -p; write --listen 127.0.0.1:PORT"),
        ("--tls", "missing argument"),
        ("--tls https://a/", "takes the name of a host, such as example.org"),
        ("--tls *.example.org", "takes the name of a host"),
        ("--tls a..example.org", "takes the name of a host"),
        ("--tls example.org.", "takes the name of a host"),
        ("--tls a.example -c a.toml", "--tls is for a folder; in a configuration, write acme = true"),
        ("--ssl", "write --tls NAME"),
        ("certificates", "taipan certificates -c FILE"),
        ("-v", "write -V or --version"),
        ("chek -c a.toml", "there is no command chek; did you mean taipan check?"),
        ("explian GET /x", "there is no command explian; did you mean taipan explain?"),
        ("stat --json", "there is no command stat; did you mean taipan stats?"),
        ("test -c a.toml", "there is no command test; write taipan check -c FILE"),
        ("serve /srv", "there is no command serve; write taipan DIR"),
        ("help chek", "there is no command chek; did you mean taipan check?"),
        ("help zzzzzz", "there is no command zzzzzz; see taipan --help"),
        ("version 2", "version takes no argument"),
        ("fcgi-wrap", "taipan fcgi-wrap --folder DIR"),
        ("fcgi-wrap --folder /x cat", "not both"),
        ("fcgi-wrap --processes 0 cat", "takes a number"),
        ("fcgi-wrap -w 1 cat", "-w is not a flag of taipan fcgi-wrap"),
        ("--folder x", "--folder is not a flag of taipan without a command"),
        ("-c", "taipan --help"),
        ("passwd", "passwd needs a file"),
        ("passwd users", "passwd needs a user"),
        ("passwd -n", "passwd needs a user"),
        ("passwd users ann secret", "a password is the last argument with -b only"),
        ("passwd -b users ann", "passwd needs a password"),
        ("passwd -cD users ann", "give one of -c, -D, -n and -v"),
        ("passwd -bi users ann x", "give -i or -b, not both"),
        ("passwd -Bs users ann", "give one kind of hash"),
        ("passwd -C 5 users ann", "-C is for bcrypt; add -B"),
        ("passwd -B -C 15 users ann", "from 4 to 14"),
        ("passwd -B -r 2000 users ann", "-r is for SHA-crypt"),
        ("passwd -5 -r 999 users ann", "from 1000 to 700000"),
        ("passwd -B --digest r users ann", "only -m says which hash"),
        ("passwd -d users ann", "unknown flag -d; DES is too weak"),
        ("passwd -w 1 users ann", "-w is not a flag of taipan passwd"),
        ("htpasswd users ann", "write taipan passwd FILE USER"),
        ("-B", "-B is not a flag of taipan without a command"),
    ];
    for (line, expected) in table {
        let UsageError(text) = parsed(line).unwrap_err();
        assert!(text.contains(expected), "{line}: {text}");
        assert!(!text.contains('\n'), "{line}: {text}");
    }
}

#[test]
fn a_command_reads_all_of_its_flags() {
    let parsed = |words: &[&str]| parse(words.iter().map(OsString::from));
    let arguments = |command: CommandKey| match command {
        CommandKey::Check | CommandKey::Certificates => "-c a",
        CommandKey::Convert => "boa.conf",
        CommandKey::Purge => "/a",
        CommandKey::Drain | CommandKey::Undrain | CommandKey::Passwd => "a b",
        CommandKey::LogLevel => "debug",
        CommandKey::Disconnect => "1a",
        CommandKey::Explain => "GET /",
        CommandKey::Maintenance | CommandKey::Healthcheck | CommandKey::Wrap => "a",
        CommandKey::Generate => "man",
        _ => "",
    };
    for command in COMMANDS {
        let name = Some(command.name).filter(|name| !name.is_empty());
        let words: Vec<&str> = name.into_iter().chain(arguments(command.key).split_whitespace()).collect();
        let without = parsed(&words);
        assert!(without.is_ok(), "{words:?}: {without:?}");
        for flag in FLAGS.iter().filter(|flag| flag.commands.contains(&command.key)) {
            if flag.key == Key::Switch(Switch::Hash(NewHash::Argon2id)) {
                // The default.
                continue;
            }
            // What is no number and the like is an error, which only reading it can tell.
            let typed = [&*format!("--{}", flag.long), "7x"];
            let given = &typed[..1 + usize::from(flag.value().is_some())];
            let (name, arguments) = words.split_at(name.iter().len());
            let with = [name, given, arguments].concat();
            assert_ne!(parsed(&with), without, "{with:?}");
        }
    }
}

#[test]
fn every_flag_is_in_every_document() {
    for flag in FLAGS {
        let long = format!("--{}", flag.long);
        assert!(reference().contains(&long));
        assert!(man().contains(&roff(&long)));
        for shell in [bash(), zsh()] {
            assert!(shell.contains(&long));
        }
        assert!(fish().contains(&format!("-l {}", flag.long)));
        assert!(flag.help.ends_with(')') && flag.help.contains("(default: "), "{long}");
    }
}

#[test]
fn the_help_of_a_command_has_its_flags_and_no_others() {
    let table = [
        (CommandKey::Serve, "--listen ADDRESS", "--retry-after"),
        (CommandKey::Check, "--dialect NAME", "--listen"),
        (CommandKey::Reload, "--root DIR", "--json"),
        (CommandKey::Watch, "--status STATUS", "--prefix"),
        (CommandKey::Passwd, "-c, --create", "--config"),
        (CommandKey::Version, "-h, --help", "--config"),
    ];
    for (command, has, lacks) in table {
        let help = help(command);
        assert!(help.contains(has) && !help.contains(lacks), "{help}");
    }
    for row in COMMANDS.iter().filter(|row| row.key != CommandKey::Help) {
        let help = help(row.key);
        let listed = help.lines().filter(|line| line.starts_with("  -")).count();
        let flags = FLAGS.iter().filter(|flag| flag.commands.is_empty() || flag.commands.contains(&row.key));
        assert_eq!(listed, flags.count(), "{help}");
    }
}
