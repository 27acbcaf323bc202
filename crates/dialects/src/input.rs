//! The servers whose configurations can be read, and what each is started with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::web::Web;
use crate::{boa, busybox, thttpd, uhttpd};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Boa,
    Thttpd,
    Busybox,
    Uhttpd,
    Web(Web),
}

impl Dialect {
    pub const ALL: [Dialect; 8] = [
        Dialect::Boa,
        Dialect::Thttpd,
        Dialect::Busybox,
        Dialect::Uhttpd,
        Dialect::Web(Web::Nginx),
        Dialect::Web(Web::Apache),
        Dialect::Web(Web::Lighttpd),
        Dialect::Web(Web::Caddy),
    ];

    /// Its name in flags.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::Boa => "boa",
            Dialect::Thttpd => "thttpd",
            Dialect::Busybox => "busybox",
            Dialect::Uhttpd => "uhttpd",
            Dialect::Web(web) => web.name(),
        }
    }

    pub fn from_name(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// The dialect of a program that is started by this path.
    pub fn of_program(program: &Path) -> Option<Dialect> {
        match program.file_name()?.to_str()? {
            "boa" => Some(Dialect::Boa),
            "thttpd" => Some(Dialect::Thttpd),
            "httpd" | "busybox" => Some(Dialect::Busybox),
            "uhttpd" => Some(Dialect::Uhttpd),
            _ => None,
        }
    }

    /// The dialect of a file by its name, where only one server has files of that name.
    pub fn of_file(file: &Path) -> Option<Dialect> {
        match file.file_name()?.to_str()? {
            "boa.conf" => Some(Dialect::Boa),
            "thttpd.conf" => Some(Dialect::Thttpd),
            "uhttpd" => Some(Dialect::Uhttpd),
            _ => Web::of_file(file).map(Dialect::Web),
        }
    }

    /// What a file may have: the names of directives, or the first signs of lines.
    pub fn directives(self) -> Vec<String> {
        match self {
            Dialect::Boa => boa::names().map(str::to_owned).collect(),
            Dialect::Thttpd => thttpd::names().map(str::to_owned).collect(),
            Dialect::Busybox => busybox::KINDS.iter().map(char::to_string).collect(),
            Dialect::Uhttpd => uhttpd::names().map(str::to_owned).collect(),
            Dialect::Web(web) => web.names(),
        }
    }

    /// The flags of its program.
    pub fn flags(self) -> Vec<String> {
        let all = |letters: &[char]| letters.iter().map(|letter| format!("-{letter}")).collect();
        match self {
            Dialect::Boa => all(&boa::LETTERS),
            Dialect::Thttpd => thttpd::letters().map(str::to_owned).collect(),
            Dialect::Busybox => all(&busybox::LETTERS),
            Dialect::Uhttpd => all(&uhttpd::LETTERS),
            Dialect::Web(_) => Vec::new(),
        }
    }

    /// The file alone, without flags.
    pub fn input(self, file: PathBuf) -> Input {
        match self {
            Dialect::Boa => Input::Boa(boa::Flags { file: Some(file), ..boa::Flags::default() }),
            Dialect::Thttpd => Input::Thttpd(thttpd::Flags { file: Some(file), ..thttpd::Flags::default() }),
            Dialect::Busybox => {
                Input::Busybox(busybox::Flags { file: Some(file), ..busybox::Flags::default() })
            }
            Dialect::Uhttpd => Input::Uhttpd(uhttpd::Flags { file: Some(file), ..uhttpd::Flags::default() }),
            Dialect::Web(web) => Input::Web(web, file),
        }
    }

    /// What the server would be started with. Errors: one line.
    pub fn start(self, arguments: impl IntoIterator<Item = OsString>) -> Result<Start, String> {
        match self {
            Dialect::Boa => boa::Flags::parse(arguments),
            Dialect::Thttpd => thttpd::Flags::parse(arguments),
            Dialect::Busybox => busybox::Flags::parse(arguments),
            Dialect::Uhttpd => uhttpd::Flags::parse(arguments),
            Dialect::Web(web) => Err(format!("taipan is not started as {}; use taipan convert", web.name())),
        }
    }
}

/// What another server would be started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Boa(boa::Flags),
    Thttpd(thttpd::Flags),
    Busybox(busybox::Flags),
    Uhttpd(uhttpd::Flags),
    /// The file.
    Web(Web, PathBuf),
}

impl Input {
    pub fn dialect(&self) -> Dialect {
        match self {
            Input::Boa(_) => Dialect::Boa,
            Input::Thttpd(_) => Dialect::Thttpd,
            Input::Busybox(_) => Dialect::Busybox,
            Input::Uhttpd(_) => Dialect::Uhttpd,
            Input::Web(web, _) => Dialect::Web(*web),
        }
    }

    /// The file or the folder that tells two servers apart.
    pub fn path(&self) -> PathBuf {
        match self {
            Input::Boa(flags) => flags.path(),
            Input::Thttpd(flags) => flags.path(),
            Input::Busybox(flags) => flags.path(),
            Input::Uhttpd(flags) => flags.path(),
            Input::Web(_, file) => file.clone(),
        }
    }
}

/// What a command line of another server asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// `background`: the program that was started ends as soon as another process serves.
    Serve { input: Input, background: bool },
    /// Bytes to print, and the exit code.
    Print(Vec<u8>, u8),
}

impl Start {
    /// Prints a text, and succeeds.
    pub fn print(text: impl Into<Vec<u8>>) -> Start {
        Start::Print(text.into(), 0)
    }
}
