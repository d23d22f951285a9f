//! Tables, JSON, questions and exit statuses.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use clap::error::ErrorKind;
use comfy_table::{Table, presets};
use lockage::StoreError;
use serde_json::Value;

use crate::admin::AdminError;

/// How a row looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Plain,
    /// It denies, is blocked, or cannot be read.
    Bad,
}

const BOLD: Style = Style::new().bold();
const RED: Style = AnsiColor::Red.on_default();

/// Prints rows under a heading, each on one line; a remark if there are none.
pub(super) fn print_table(heading: &[&str], rows: &[(Mood, Vec<String>)]) -> Result<()> {
    if rows.is_empty() {
        remark("nothing found");
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heading);
    for (_, cells) in rows {
        table.add_row(cells.iter().map(|cell| printable(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut out = anstream::stdout().lock();
    let mut write = || {
        for (index, line) in table.lines().enumerate() {
            let style = match index.checked_sub(1).map(|row| rows[row].0) {
                None => BOLD,
                Some(Mood::Bad) => RED,
                Some(Mood::Plain) => Style::new(),
            };
            writeln!(out, "{style}{}{style:#}", line.trim_end())?;
        }
        out.flush()
    };
    write().context(NO_OUTPUT)
}

/// Prints a line, as a result or a part of a table.
pub(super) fn print_line(mood: Mood, line: &str) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let style = if mood == Mood::Bad { RED } else { Style::new() };
    let written = writeln!(out, "{style}{}{style:#}", printable(line));
    written.and_then(|()| out.flush()).context(NO_OUTPUT)
}

/// Prints one JSON value, which is indented.
pub(super) fn print_json(value: &Value) -> Result<()> {
    print_text(&format!("{value:#}\n"))
}

/// Prints one JSON value on one line.
pub(super) fn print_json_line(value: &Value) -> Result<()> {
    print_text(&format!("{value}\n"))
}

fn print_text(text: &str) -> Result<()> {
    write_raw(text.as_bytes()).map(drop)
}

/// Writes to standard output.
pub(super) fn write_raw(text: &[u8]) -> Result<ExitCode> {
    let mut out = anstream::stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).context(NO_OUTPUT)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a remark to standard error.
pub(super) fn remark(text: &str) {
    // If standard error is gone, no output is left.
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

const NO_OUTPUT: &str = "cannot write to standard output";

/// Returns the text without characters that a terminal obeys: an id may have any.
pub(super) fn printable(text: &str) -> String {
    let is_obeyed = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_obeyed(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

/// Asks whether to go on, unless `yes`. Without a terminal, that is an error.
pub(super) fn confirm(question: &str, yes: bool) -> Result<bool> {
    if yes {
        return Ok(true);
    }
    let input = io::stdin();
    if !input.is_terminal() {
        let text = "this changes a record, and there is no terminal to ask on: add --yes";
        return Err(
            clap::Error::raw(ErrorKind::MissingRequiredArgument, format!("{text}\n")).into()
        );
    }
    Ok(ask(question, &mut input.lock(), &mut io::stderr())?)
}

fn ask(question: &str, input: &mut impl BufRead, out: &mut impl Write) -> io::Result<bool> {
    write!(out, "{} [y/N] ", printable(question))?;
    out.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// The exit status of a refusal, or where nothing was found.
pub(super) fn refused() -> ExitCode {
    ExitCode::from(1)
}

/// Ends the program: prints its error, if any, on standard error, and returns its exit status. A pipe that closes early,
/// as of `head`, is no error.
pub fn conclude(result: Result<ExitCode>) -> ExitCode {
    let error = match result {
        Ok(status) => return status,
        Err(error) => error,
    };
    if let Some(usage) = error.downcast_ref::<clap::Error>() {
        return refuse_usage(usage);
    }
    let is_closed = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().filter_map(|cause| cause.downcast_ref()).any(is_closed) {
        return ExitCode::SUCCESS;
    }
    remark(&format!("error: {error:#}"));
    let status = match (error.downcast_ref::<AdminError>(), error.downcast_ref::<StoreError>()) {
        (Some(AdminError::Key(_) | AdminError::Config(_)), _) => 2,
        (Some(AdminError::Store(store)), _) | (None, Some(store)) => status_of(store),
        _ => 1,
    };
    ExitCode::from(status)
}

fn status_of(error: &StoreError) -> u8 {
    match error {
        StoreError::Misconfigured(_) => 3,
        StoreError::NotDone(_) => 4,
        StoreError::Unknown(_) => 5,
        _ => 1,
    }
}

/// Prints an error of the command line, or its help, and returns the exit status. The error names wrong arguments: of
/// an address among them, only the scheme is printed.
pub fn refuse_usage(error: &clap::Error) -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().map(|it| it.to_string_lossy().into_owned()).collect();
    let text = without_addresses(error.render().ansi().to_string(), &arguments);
    // If the stream is gone, no output is left.
    match error.use_stderr() {
        true => {
            let _ = write!(anstream::stderr(), "{text}");
            ExitCode::from(2)
        }
        false => {
            let _ = write!(anstream::stdout(), "{text}");
            ExitCode::SUCCESS
        }
    }
}

fn without_addresses(text: String, arguments: &[String]) -> String {
    let secrets = arguments.iter().filter_map(|argument| argument.split_once("://"));
    let secrets = secrets.map(|(_, secret)| secret).filter(|secret| !secret.is_empty());
    secrets.fold(text, |text, secret| text.replace(secret, "***"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_goes_on() {
        for (answer, expected) in [
            ("y\n", true),
            ("YES\n", true),
            ("n\n", false),
            ("\n", false),
            ("", false),
            ("yo\n", false),
        ] {
            let mut shown = Vec::new();
            let goes_on = ask("break \u{1b}[2J it?", &mut answer.as_bytes(), &mut shown).unwrap();
            assert_eq!(goes_on, expected, "{answer}");
            assert_eq!(String::from_utf8(shown).unwrap(), "break \\u{1b}[2J it? [y/N] ");
        }
        assert!(confirm("?", true).unwrap());
    }

    #[test]
    fn text_that_a_terminal_obeys_is_escaped() {
        assert_eq!(printable("a\u{1b}[31m\n\u{202e}é"), "a\\u{1b}[31m\\n\\u{202e}é");
    }

    #[test]
    fn an_address_in_an_error_loses_all_but_its_scheme() {
        let of =
            |arguments: &[&str]| arguments.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let text = || "unexpected argument 'redis://u:pa' ss@h' found".to_owned();
        let shown = without_addresses(text(), &of(&["ls", "redis://u:pa' ss@h"]));
        assert_eq!(shown, "unexpected argument 'redis://***' found");
        assert_eq!(without_addresses(text(), &of(&["ls", "://"])), text());
        let shown =
            without_addresses("'--ur=rediss://x' found".to_owned(), &of(&["--ur=rediss://x"]));
        assert_eq!(shown, "'--ur=rediss://***' found");
    }
}
