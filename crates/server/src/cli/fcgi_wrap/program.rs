//! Finds the program for a request: its parameters name a script, and the command line says which may be started.

use std::ffi::{CString, OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::{env, fs, io, iter};

use rustix::fs::{Access, access};
use script::environment::{Environment, Limits};
use script::fastcgi::Role;
use script::fastcgi::application::Parameters;
use taipan_http::status::Status;

use crate::flags::Scripts;
use crate::start;

/// With these, a message to the spawner has space for paths and arguments, too.
const ENVIRONMENT: Limits = Limits { bytes: 128 * 1024, variables: 1024 };
/// The default if neither the server nor the environment has one.
const PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// The programs that may be started.
pub enum Programs {
    /// One file, and its arguments.
    Program(PathBuf, Vec<OsString>),
    /// Scripts in these folders.
    Beneath(Vec<Folder>),
}

/// A folder of scripts.
pub struct Folder {
    /// As the command line names it.
    name: PathBuf,
    /// Without symbolic links.
    real: PathBuf,
}

/// A program to start.
pub struct Program {
    pub program: CString,
    /// The first is the name of the program in the request.
    pub arguments: Vec<CString>,
    pub folder: CString,
    pub environment: Environment,
}

/// The status of the response, and the reason for the log.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejection(pub Status, pub &'static str);

const UNNAMED: Rejection = Rejection(Status::NOT_FOUND, "the request has no SCRIPT_FILENAME");
const MISSING: Rejection = Rejection(Status::NOT_FOUND, "there is no such script");
const OUTSIDE: Rejection = Rejection(Status::FORBIDDEN, "the script is not beneath a --folder");
const CLOSED: Rejection = Rejection(Status::FORBIDDEN, "the script may not be executed");

impl Programs {
    /// Errors: a line that says what to do.
    pub fn new(scripts: &Scripts) -> Result<Programs, String> {
        match scripts {
            Scripts::Beneath(folders) => folders
                .iter()
                .map(|folder| Folder::new(folder))
                .collect::<Result<_, _>>()
                .map(Programs::Beneath),
            Scripts::Program(program, arguments) => match find(program) {
                Some(file) => Ok(Programs::Program(file, arguments.clone())),
                None => {
                    Err(["no program ", &program.to_string_lossy(), "; name a file that can be executed"]
                        .concat())
                }
            },
        }
    }

    /// The program for a request.
    pub fn find(&self, role: Role, parameters: &Parameters) -> Result<Program, Rejection> {
        let role: &[u8] = match role {
            Role::Responder => b"RESPONDER",
            Role::Authorizer => b"AUTHORIZER",
        };
        // The first of two variables with the same name counts.
        let ours = iter::once((&b"FCGI_ROLE"[..], role));
        let pairs = ours.chain(parameters.iter()).chain([(&b"PATH"[..], PATH)]);
        let environment = Environment::received(pairs, ENVIRONMENT)
            .map_err(|error| Rejection(error.status(), "its parameters cannot be an environment"))?;
        let (program, arguments, name) = match self {
            Programs::Program(file, arguments) => (file.clone(), arguments.as_slice(), file.as_path()),
            Programs::Beneath(folders) => {
                let name = environment.value("SCRIPT_FILENAME").filter(|name| !name.is_empty());
                let name = Path::new(OsStr::from_bytes(name.ok_or(UNNAMED)?));
                (script(folders, name)?, &[][..], name)
            }
        };
        let arguments = iter::once(name.as_os_str()).chain(arguments.iter().map(OsString::as_os_str));
        let program = || {
            Some(Program {
                program: c_string(program.as_os_str())?,
                arguments: arguments.map(c_string).collect::<Option<_>>()?,
                folder: c_string(name.parent()?.as_os_str())?,
                environment: environment.clone(),
            })
        };
        program().ok_or(MISSING)
    }
}

impl Program {
    /// As the request names it.
    pub fn name(&self) -> impl Display {
        self.arguments[0].to_bytes().escape_ascii()
    }
}

impl Folder {
    fn new(folder: &Path) -> Result<Folder, String> {
        let real = start::folder_to_serve(folder)?;
        let name = std::path::absolute(folder).unwrap_or_else(|_| real.clone());
        Ok(Folder { name, real })
    }
}

/// The file of a name. Both the name and the file behind its links must be beneath a folder.
fn script(folders: &[Folder], name: &Path) -> Result<PathBuf, Rejection> {
    let plain = name.is_absolute()
        && !name.as_os_str().as_bytes().windows(2).any(|pair| pair == b"//")
        && !name.components().any(|part| part == Component::ParentDir);
    if !plain || !folders.iter().any(|f| name.starts_with(&f.name) || name.starts_with(&f.real)) {
        return Err(OUTSIDE);
    }
    let file = fs::canonicalize(name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => MISSING,
        _ => CLOSED,
    })?;
    match file {
        file if !folders.iter().any(|f| file.starts_with(&f.real)) => Err(OUTSIDE),
        file if is_program(&file) => Ok(file),
        _ => Err(CLOSED),
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Finds a program as a shell does.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return std::path::absolute(program).ok().filter(|path| is_program(path));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| OsString::from_vec(PATH.to_vec()));
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| is_program(path) && path.is_absolute())
}

fn c_string(text: &OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}
