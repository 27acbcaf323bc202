//! The sandbox, tried from inside: single-threaded processes apply it as the server does, then attempt what
//! must fail and what must still work. Without the sandbox, the same attempts must succeed, or they would
//! show nothing.
//!
//! These tests do not run in the usual harness, which has a thread for each test.

mod attempts;
mod inside;
mod outside;

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(inside::WORD) => inside::run(&arguments[1..]),
        Some(inside::VICTIM) => inside::wait_for_end(),
        _ => run_all(&arguments),
    }
}

/// Runs the tests whose names contain a word of the command line, as the usual harness does.
fn run_all(arguments: &[String]) -> ExitCode {
    let words: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let selected = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    if arguments.iter().any(|word| word == "--list") {
        outside::TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<_> = outside::TESTS.iter().filter(|(name, _)| selected(name)).collect();
    let mut failed = 0;
    for (name, test) in &chosen {
        let passed = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += usize::from(!passed);
    }
    let (result, code) = if failed == 0 { ("ok", ExitCode::SUCCESS) } else { ("FAILED", ExitCode::FAILURE) };
    let (passed, others) = (chosen.len() - failed, outside::TESTS.len() - chosen.len());
    // In the format of the usual harness, for tools that count.
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {others} filtered out\n"
    );
    code
}
