//! `taipan top`: what the running program does, live in a terminal, or once as a table.

mod sample;
mod screen;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use self::sample::Sample;
use self::screen::{Event, Screen, drawn};
use self::view::{Pace, Size, View, lines};
use crate::control::{self, Request, SiteSource};
use crate::flags::TopMode;
use crate::process::ipc::Form;
use crate::terminal;

/// The time between two moments.
const INTERVAL: Duration = Duration::from_secs(1);
/// Of a table that is printed.
const PRINTED: Size = Size { width: 200, height: 60 };

/// Exits with 0, or with 1 if no program runs, or the terminal fails.
pub fn top(source: &SiteSource, mode: TopMode) -> ExitCode {
    let is_screen = mode == TopMode::Live && io::stdin().is_terminal() && io::stdout().is_terminal();
    let done = match is_screen && std::env::var_os("TERM").is_none_or(|name| name != "dumb") {
        true => watch(source),
        false => print(source),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => terminal::fail(error, 1),
    }
}

/// Prints what happened in one interval.
fn print(source: &SiteSource) -> io::Result<()> {
    let before = ask(source)?;
    std::thread::sleep(INTERVAL);
    let now = ask(source)?;
    for line in lines(&before, &now, View { pace: Pace::Once, ..View::default() }, PRINTED) {
        terminal::out(format_args!("{}", line.text));
    }
    Ok(())
}

fn watch(source: &SiteSource) -> io::Result<()> {
    // Before the screen is changed: if no program runs, the error is for the shell.
    let mut before = ask(source)?;
    let mut now = before.clone();
    let mut screen = Screen::open()?;
    let mut view = View::default();
    let mut problem = None;
    loop {
        let size = screen.size();
        screen.show(&drawn(&lines(&before, &now, view, size), problem.as_deref(), size.width))?;
        match screen.wait(INTERVAL)? {
            Event::Key(b'q' | b'Q') | Event::End => return Ok(()),
            Event::Key(b's' | b'S') => view.order = view.order.next(),
            Event::Key(b'p' | b'P' | b' ') if view.pace == Pace::Paused => view.pace = Pace::Live,
            Event::Key(b'p' | b'P' | b' ') => view.pace = Pace::Paused,
            Event::Key(_) | Event::Resized => {}
            Event::Timeout if view.pace == Pace::Paused => {}
            Event::Timeout => match ask(source) {
                Ok(sample) => {
                    (before, now) = (now, sample);
                    problem = None;
                }
                // Such as during an upgrade.
                Err(error) => problem = Some(error.to_string()),
            },
        }
    }
}

fn ask(source: &SiteSource) -> io::Result<Sample> {
    let response = control::response(source, &Request::Stats(Form::Live))?;
    let text = response.map_err(|why| io::Error::other(why.trim_end().to_owned()))?;
    Ok(Sample::parse(&text))
}
