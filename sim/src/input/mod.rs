//! Reads traces: access logs and CSV, from a file or standard input.
//!
//! Input is bytes, line by line. Lines that are no requests are counted, remembered with their reason,
//! and skipped.

mod csv;
mod lines;
mod log;
mod text;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::trace::{Request, Trace, TraceBuilder};
use lines::{Counted, Lines};
pub(crate) use text::{printable, shorten};

/// The format of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Format {
    /// Detected from the first lines.
    #[default]
    Auto,
    /// The common or combined log format of Apache and nginx.
    Log,
    /// `timestamp,key[,cost]`.
    Csv,
}

/// The part of a log line that is the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum By {
    /// The client's address or host name.
    #[default]
    Address,
    /// The authenticated user.
    User,
    /// The request's method.
    Method,
    /// The request's path, without its query.
    Path,
    /// The response's status.
    Status,
    /// The referring page (combined format).
    Referer,
    /// The user agent (combined format).
    Agent,
}

impl By {
    /// Returns its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            By::Address => "address",
            By::User => "user",
            By::Method => "method",
            By::Path => "path",
            By::Status => "status",
            By::Referer => "referer",
            By::Agent => "agent",
        }
    }
}

/// A trace that was read.
#[derive(Debug)]
pub struct Input {
    /// The requests, sorted by time.
    pub trace: Trace,
    /// The lines that are no requests.
    pub unparsed: Unparsed,
}

/// Lines that are no requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unparsed {
    /// Their number.
    pub count: u64,
    /// The first few, at most [`Unparsed::SAMPLES`].
    pub samples: Vec<UnparsedLine>,
}

impl Unparsed {
    /// How many lines are remembered with their text.
    pub const SAMPLES: usize = 5;
}

/// A line that is no request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnparsedLine {
    /// Its number, counted from 1.
    pub line: u64,
    /// Why it is no request.
    pub reason: String,
    /// How it begins.
    pub text: String,
}

/// An input is no trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InputError {
    /// The file cannot be opened or read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The first lines are neither a log's nor a CSV's.
    #[error(
        "{}: line {line} is neither of an access log nor of a CSV: {text}\n\
         expected the common or combined log format, or timestamp,key[,cost]; --format log or --format csv tells why",
        .path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The first line that is not blank, counted from 1.
        line: u64,
        /// How it begins.
        text: String,
    },
    /// A CSV has its own key, and nothing else to go by.
    #[error("--by {} is for access logs: a CSV names its key in the second column", by.name())]
    ByNeedsLog {
        /// The requested key.
        by: By,
    },
    /// A CSV's header lacks a column.
    #[error("{}: {reason}", .path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// Why it is wrong.
        reason: String,
    },
    /// Nothing to replay.
    #[error("{}: no request in it: {}", .path.display(), why_empty(.unparsed))]
    Empty {
        /// The file.
        path: PathBuf,
        /// The lines that are no requests.
        unparsed: Unparsed,
    },
}

fn why_empty(unparsed: &Unparsed) -> String {
    match unparsed.samples.first() {
        None => "it is empty".to_owned(),
        Some(first) => {
            let count = unparsed.count;
            format!("none of its {count} lines is a request; line {}: {}", first.line, first.reason)
        }
    }
}

/// Reads the trace in the file at `path`, or on standard input if it is `-`.
///
/// A file that is compressed with gzip is unpacked. After every line, `progress` gets the number of bytes of
/// the file read so far.
///
/// # Errors
/// [`InputError`] if the file cannot be read, has no known format, or has no request.
pub fn read(
    path: &Path,
    format: Format,
    by: By,
    progress: impl FnMut(u64),
) -> Result<Input, InputError> {
    let failed = |source| InputError::Read { path: path.to_owned(), source };
    if path == Path::new("-") {
        return read_from(io::stdin().lock(), Path::new("standard input"), format, by, progress);
    }
    let file = File::open(path).map_err(failed)?;
    read_from(BufReader::with_capacity(1 << 16, file), path, format, by, progress)
}

/// How many lines the detection of the format reads.
const LINES_TO_TELL: usize = 20;

/// Reads a trace; messages name this path.
///
/// # Errors
/// As [`read`].
pub fn read_from(
    source: impl BufRead,
    path: &Path,
    format: Format,
    by: By,
    mut progress: impl FnMut(u64),
) -> Result<Input, InputError> {
    let failed = |source| InputError::Read { path: path.to_owned(), source };
    let (mut source, bytes) = Counted::new(source);
    let mut count = || progress(bytes.get());
    if source.fill_buf().map_err(failed)?.starts_with(&GZIP) {
        let unpacked = BufReader::with_capacity(1 << 16, MultiGzDecoder::new(source));
        return read_lines(Lines::new(unpacked), path, format, by, &mut count);
    }
    read_lines(Lines::new(source), path, format, by, &mut count)
}

/// The first bytes of files that are compressed with gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

fn read_lines(
    mut lines: Lines<impl BufRead>,
    path: &Path,
    format: Format,
    by: By,
    progress: &mut dyn FnMut(),
) -> Result<Input, InputError> {
    let failed = |source| InputError::Read { path: path.to_owned(), source };
    let mut head = Vec::new();
    while head.len() < LINES_TO_TELL && lines.advance().map_err(failed)? {
        head.push((lines.number(), lines.line().to_vec()));
    }
    let mut parser = match format {
        Format::Log => LineParser::Log(log::LogParser::new(by)),
        Format::Csv => LineParser::Csv(Box::default()),
        Format::Auto => LineParser::tell(&head, by, path)?,
    };
    if let (LineParser::Csv(_), true) = (&parser, by != By::Address) {
        return Err(InputError::ByNeedsLog { by });
    }

    let mut collected = Collected::default();
    for (number, line) in &head {
        collected.take(&mut parser, *number, line, path)?;
    }
    while lines.advance().map_err(failed)? {
        collected.take(&mut parser, lines.number(), lines.line(), path)?;
        progress();
    }
    if collected.builder.is_empty() {
        return Err(InputError::Empty { path: path.to_owned(), unparsed: collected.unparsed });
    }
    Ok(Input { trace: collected.builder.finish(), unparsed: collected.unparsed })
}

#[derive(Default)]
struct Collected {
    builder: TraceBuilder,
    unparsed: Unparsed,
}

impl Collected {
    fn take(
        &mut self,
        parser: &mut LineParser,
        number: u64,
        line: &[u8],
        path: &Path,
    ) -> Result<(), InputError> {
        match parser.parse(line, &mut self.builder) {
            Ok(request) => self.builder.push(request),
            Err(NotARequest::Header) => {}
            Err(NotARequest::BadHeader(reason)) => {
                return Err(InputError::Header { path: path.to_owned(), reason });
            }
            Err(NotARequest::Unparsed(reason)) => {
                self.unparsed.count += 1;
                if self.unparsed.samples.len() < Unparsed::SAMPLES {
                    let text = excerpt(line);
                    self.unparsed.samples.push(UnparsedLine { line: number, reason, text });
                }
            }
        }
        Ok(())
    }
}

/// A line is no request.
enum NotARequest {
    Header,
    BadHeader(String),
    Unparsed(String),
}

impl From<String> for NotARequest {
    fn from(reason: String) -> Self {
        NotARequest::Unparsed(reason)
    }
}

impl From<&str> for NotARequest {
    fn from(reason: &str) -> Self {
        NotARequest::Unparsed(reason.to_owned())
    }
}

enum LineParser {
    Log(log::LogParser),
    Csv(Box<csv::CsvParser>),
}

impl LineParser {
    /// Detects the format: the first that reads any of the first lines, the log before the CSV.
    fn tell(head: &[(u64, Vec<u8>)], by: By, path: &Path) -> Result<LineParser, InputError> {
        let log = log::LogParser::new(by);
        if head.iter().any(|(_, line)| log.parse(line).is_ok()) {
            return Ok(LineParser::Log(log));
        }
        let looks_like_csv =
            |(_, line): &(u64, Vec<u8>)| csv::CsvParser::default().recognises(line);
        let Some((line, first)) = head.first() else {
            // No line at all: any parser will find that out.
            return Ok(LineParser::Log(log));
        };
        if head.iter().any(looks_like_csv) {
            return Ok(LineParser::Csv(Box::default()));
        }
        let (path, text) = (path.to_owned(), excerpt(first));
        Err(InputError::UnknownFormat { path, line: *line, text })
    }

    fn parse(&mut self, line: &[u8], builder: &mut TraceBuilder) -> Result<Request, NotARequest> {
        match self {
            LineParser::Log(parser) => {
                let (at, key) = parser.parse(line)?;
                Ok(Request { at, key: builder.key(&key), cost: 1 })
            }
            LineParser::Csv(parser) => {
                let (at, key, cost) = parser.parse(line)?;
                Ok(Request { at, key: builder.key(&key), cost })
            }
        }
    }
}

fn excerpt(line: &[u8]) -> String {
    shorten(&printable(&text::escape_invalid(line)), 80)
}
