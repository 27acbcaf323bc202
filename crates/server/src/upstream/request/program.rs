//! A program that answers a request, as the spawner starts it: its arguments, its environment, its folder and its user.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use script::arguments::arguments;
use script::environment::Environment;
use site::model::{Account, Interpreter, Script};
use taipan_http::target::SafePath;

use crate::spawner::SpawnRequest;
use crate::spawner::message::block;
use crate::trace::ParentOf;

/// A program to start.
#[derive(Clone)]
pub struct Program {
    program: CString,
    arguments: Vec<u8>,
    environment: Vec<u8>,
    folder: CString,
    account: CString,
}

impl Program {
    /// `None`: a path has a NUL, which no file has.
    pub fn new(
        file: PathBuf,
        script: Option<&Script>,
        query: Option<&str>,
        environment: &Environment,
    ) -> Option<Program> {
        let path = c_string(&file)?;
        let folder = c_string(file.parent()?)?;
        let (program, arguments) = match script.and_then(|script| script.interpreter.as_ref()) {
            Some(Interpreter::Program(interpreter)) => {
                let program = c_string(interpreter)?;
                let arguments = block([&*program, &path]);
                (program, arguments)
            }
            Some(Interpreter::Upstream(_)) | None => {
                let words = query.and_then(arguments).unwrap_or_default();
                let words = words.into_iter().filter_map(|word| CString::new(word).ok());
                let arguments: Vec<CString> = [path.clone()].into_iter().chain(words).collect();
                (path, block(arguments.iter().map(CString::as_c_str)))
            }
        };
        let account =
            script.and_then(|script| script.account.as_ref()).map_or(String::new(), Account::to_string);
        let account = CString::new(account).ok()?;
        Some(Program { program, arguments, environment: environment.block(), folder, account })
    }

    /// A program with the arguments of Boa's DirectoryMaker: a folder, and the path of the request. `None`: a path has
    /// a NUL.
    pub fn lister(script: &Script, folder: &Path, path: &SafePath<'_>) -> Option<Program> {
        let Some(Interpreter::Program(program)) = &script.interpreter else { return None };
        let (program, folder) = (c_string(program)?, c_string(folder)?);
        let title = c_string(&path.beneath(Path::new("/")))?;
        let variables =
            script.environment.iter().map(|(name, value)| [name.as_bytes(), b"=", value].concat());
        let variables: Vec<CString> = variables.filter_map(|variable| CString::new(variable).ok()).collect();
        let account = CString::new(script.account.as_ref().map_or(String::new(), Account::to_string)).ok()?;
        let (arguments, environment) =
            (block([&*program, &folder, &title]), block(variables.iter().map(CString::as_c_str)));
        Some(Program { program, arguments, environment, folder, account })
    }

    /// As `Message::as_part`.
    pub fn as_part(&self, parent: &ParentOf) -> Program {
        Program { environment: parent.written(&self.environment), ..self.clone() }
    }

    pub fn spawn_request(&self) -> SpawnRequest<'_> {
        let Program { program, arguments, environment, folder, account } = self;
        SpawnRequest { program, arguments, environment, folder, account }
    }
}

fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}
