//! What is wrong with a directive, in words for the error log.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mistake {
    /// `-->` is missing, or a quote before it.
    Unterminated,
    /// A directive, or a value, with more bytes than this.
    TooLong(usize),
    UnknownDirective(String),
    /// `exec`, which this server does not have.
    Exec,
    /// Not `name="value"`.
    Attribute,
    UnknownAttribute(String),
    /// The attribute that the directive needs.
    Missing(&'static str),
    /// The value of an attribute that is none of those that it may have.
    Value(String),
    /// Of a test: what was expected.
    Expression(&'static str),
    Regex(String),
    /// `elif`, `else` or `endif` where none can stand.
    Misplaced(&'static str),
    /// `if` within so many others.
    Nested(usize),
    /// The variables of a page have more bytes than this.
    Variables(usize),
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mistake::Unterminated => write!(out, "a directive has no end: a quote or --> is missing"),
            Mistake::TooLong(bytes) => write!(out, "a directive or a value is longer than {bytes} bytes"),
            Mistake::UnknownDirective(name) => {
                write!(out, "there is no directive \"{}\"", name.escape_debug())
            }
            Mistake::Exec => write!(out, "\"exec\" is refused; include the script by its path"),
            Mistake::Attribute => write!(out, "an attribute is not of the form name=\"value\""),
            Mistake::UnknownAttribute(name) => {
                write!(out, "the directive has no attribute \"{}\"", name.escape_debug())
            }
            Mistake::Missing(name) => write!(out, "the attribute \"{name}\" is missing"),
            Mistake::Value(value) => write!(out, "\"{}\" is not a value of it", value.escape_debug()),
            Mistake::Expression(expected) => write!(out, "the test is not valid: {expected}"),
            Mistake::Regex(why) => write!(out, "the regular expression is not valid: {why}"),
            Mistake::Misplaced(name) => write!(out, "\"{name}\" has no \"if\" before it"),
            Mistake::Nested(most) => write!(out, "more than {most} nested \"if\""),
            Mistake::Variables(bytes) => write!(out, "the variables have more than {bytes} bytes"),
        }
    }
}

impl std::error::Error for Mistake {}
