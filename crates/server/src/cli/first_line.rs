//! The first line of a script, which names the program that executes it (execve(2)), and what prevents that. Reads
//! files and changes nothing. A chroot has other files; `jail` examines those.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use script::environment::Additions;

/// Bytes of the line that the kernel reads.
const LONGEST: usize = 256;

/// Why a script cannot be executed, with its line and what to do. `None`: it can be, or it is no script.
pub fn problem(script: &Path, environment: &Additions) -> Option<String> {
    let mut start = Vec::new();
    File::open(script).ok()?.take(LONGEST as u64).read_to_end(&mut start).ok()?;
    let why = match start.strip_prefix(b"#!") {
        Some(line) => explain(line, &search_path(environment))?,
        None => without_a_program(&start)?.to_owned(),
    };
    Some(format!("{}:1: {why}", script.display()))
}

/// As [`problem`], for a file of a route with scripts. One that is not executable is a script if it begins as one.
pub fn problem_of_script(file: &Path, environment: &Additions) -> Option<String> {
    if file.metadata().is_ok_and(|found| found.permissions().mode() & 0o111 != 0) {
        return problem(file, environment);
    }
    let mut start = [0; 2];
    File::open(file).ok()?.read_exact(&mut start).ok()?;
    let shown = file.display();
    (start == *b"#!").then(|| {
        format!("{shown} is not executable, so that requests for it get 403; run `chmod +x {shown}`")
    })
}

/// Why the kernel does not execute a file that does not begin with `#!`. `None`: it may, as a file that is no text.
fn without_a_program(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(b"\xef\xbb\xbf#!") {
        return Some(
            "the file begins with a byte order mark, behind which the kernel does not look for #!; store it without one",
        );
    }
    // The end may be in the middle of a character.
    let is_text = !start.contains(&0)
        && std::str::from_utf8(start).map_or_else(|error| error.error_len().is_none(), |_| true);
    is_text.then_some("the line does not say which program runs the file; write one there, such as #!/bin/sh")
}

/// The program that a line names. `line`: what is behind `#!`. `None`: it names none.
pub fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = &line[..line.len().min(LONGEST)];
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let program = line.split(u8::is_ascii_whitespace).next()?;
    (!program.is_empty()).then(|| PathBuf::from(String::from_utf8_lossy(program).into_owned()))
}

fn search_path(environment: &Additions) -> String {
    let path = environment.iter().find(|(name, _)| *name == "PATH");
    path.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
}

/// `line`: what is behind `#!`. `search_path`: where env(1) looks.
fn explain(line: &[u8], search_path: &str) -> Option<String> {
    let line = String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next()?).into_owned();
    if line.ends_with('\r') {
        return Some(
            "the line ends in a carriage return, which the kernel takes as part of the name; store the file with line \
             feeds only"
                .to_owned(),
        );
    }
    let mut words = line.split_ascii_whitespace();
    let Some(program) = words.next() else {
        return Some("the line names no program; write one, such as #!/bin/sh".to_owned());
    };
    if let Err(error) = access(program, Access::EXEC_OK) {
        return Some(format!(
            "the interpreter {program} cannot be executed ({error}); install it, or name another one in this line"
        ));
    }
    let is_env = Path::new(program).file_name().is_some_and(|name| name == "env");
    let name = words.find(|word| !word.starts_with('-') && !word.contains('=')).filter(|_| is_env)?;
    let is_found = |folder: &str| access(PathBuf::from(folder).join(name), Access::EXEC_OK).is_ok();
    (!search_path.split(':').any(is_found)).then(|| {
        format!("env finds no {name} in PATH ({search_path}); install it, or name another one in this line")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_interpreter_of_a_script() {
        for (line, expected) in [
            ("/bin/sh\necho", Some("/bin/sh")),
            (" /usr/bin/perl -w\n", Some("/usr/bin/perl")),
            ("/usr/bin/env python3", Some("/usr/bin/env")),
            ("/bin/sh\r\n", Some("/bin/sh")),
            ("", None),
            (" \n/bin/sh", None),
        ] {
            assert_eq!(interpreter(line.as_bytes()), expected.map(PathBuf::from), "{line:?}");
        }
        assert_eq!(interpreter(&[b'x'; 5000]).unwrap().as_os_str().len(), LONGEST);
    }

    #[test]
    fn says_why_a_file_without_a_program_in_its_first_line_cannot_be_executed() {
        for (start, expected) in [
            (&b"\xef\xbb\xbf#!/bin/sh\n"[..], Some("the file begins with a byte order mark")),
            (b"echo hi\n", Some("the line does not say which program")),
            (b"caf\xc3\xa9 caf\xc3", Some("the line does not say which program")),
            (b"", Some("the line does not say which program")),
            (b"\x7fELF\x02\x01\x01\0\0", None),
            (b"\xff\xd8\xff\xe0", None),
        ] {
            let why = without_a_program(start);
            match expected {
                None => assert_eq!(why, None, "{start:?}"),
                Some(begin) => assert!(why.is_some_and(|why| why.starts_with(begin)), "{start:?}: {why:?}"),
            }
        }
    }

    #[test]
    fn says_why_the_program_of_a_first_line_cannot_be_executed() {
        for (line, expected) in [
            ("/bin/sh\necho", None),
            (" /bin/sh -e", None),
            ("/usr/bin/env sh", None),
            ("/usr/bin/env -S sh -e", None),
            ("/usr/bin/env -i A=b sh", None),
            ("/usr/bin/env /bin/sh", None),
            ("/no/such/sh -e\n", Some("the interpreter /no/such/sh cannot be executed (No such file")),
            (
                "/usr/bin/env python3.99\n",
                Some("env finds no python3.99 in PATH (/usr/bin:/bin); install it"),
            ),
            ("/usr/bin/env -S python3.99 -u\n", Some("env finds no python3.99 in PATH")),
            ("/bin/sh\r\n", Some("the line ends in a carriage return")),
            (" \n", Some("the line names no program")),
        ] {
            let why = explain(line.as_bytes(), "/usr/bin:/bin");
            match expected {
                None => assert_eq!(why, None, "{line}"),
                Some(begin) => {
                    assert!(why.as_ref().is_some_and(|why| why.starts_with(begin)), "{line}: {why:?}")
                }
            }
        }
    }
}
