//! Reads traces: logs and CSV, from a file or standard input.
//!
//! Input is bytes, line by line. Lines that are no requests are counted, remembered with their reason,
//! and skipped, unless they are most.

mod client;
mod csv;
mod facts;
mod fields;
mod head;
mod lines;
mod log;
mod options;
mod parser;
mod prefix;
mod records;
mod text;
mod unpack;
#[cfg(not(target_arch = "wasm32"))]
mod zstd;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lockage_core::Timestamp;
use serde::Serialize;
use thiserror::Error;

use crate::trace::{Request, Trace, TraceBuilder};
pub use client::Network;
pub use facts::Reading;
use fields::has_text;
use lines::{Counted, Lines};
pub use options::{By, Format, ReadOptions};
use parser::Parser;
#[cfg(feature = "charts")]
pub(crate) use text::{printable, shorten};

/// A trace that was read.
#[derive(Debug)]
pub struct Input {
    /// The requests, sorted by time.
    pub trace: Trace,
    /// The lines that are no requests.
    pub unparsed: Unparsed,
    /// The fields that were read as key, time and cost.
    pub reading: Reading,
    /// The further values of each request, as they were asked for: see [`read_values`].
    pub values: Vec<Values>,
    /// How each of them was read; `None` if no request has it.
    pub value_readings: Vec<Option<Reading>>,
}

/// The values of a request, `None` where its line has none.
pub type Values = Box<[Option<Rc<str>>]>;

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
    /// The first lines are of no known format.
    #[error(
        "{}: line {line} is of no known format: {text}\n{reason}; --format names it, one of {}; of other logs, make \
         lines of timestamp,key",
        .path.display(),
        Format::KNOWN.map(Format::name).join(", ")
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The first line that is not blank, counted from 1.
        line: u64,
        /// How it begins.
        text: String,
        /// Why it is not of the format that it is most like.
        reason: String,
    },
    /// The format has no such key.
    #[error("{}: {reason}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Most lines are no requests.
    #[error(
        "{}: {} of its {lines} lines are no requests of {format}; {}\ntake them out, or name the format or the key: --format, --by, --key",
        .path.display(), .unparsed.count, first_of(.unparsed)
    )]
    TooManyUnparsed {
        /// The file.
        path: PathBuf,
        /// The format.
        format: &'static str,
        /// The number of its lines.
        lines: u64,
        /// The lines that are no requests.
        unparsed: Unparsed,
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
    match unparsed.count {
        0 => "it is empty".to_owned(),
        1 => format!("its only line is none; {}", first_of(unparsed)),
        count => format!("none of its {count} lines is one; {}", first_of(unparsed)),
    }
}

fn first_of(unparsed: &Unparsed) -> String {
    let first = unparsed.samples.first();
    first.map_or(String::new(), |first| {
        format!("line {}: {}: {}", first.line, first.reason, first.text)
    })
}

/// Reads the trace in the file at `path`, or on standard input if it is `-`.
///
/// A file that is compressed with gzip or zstd is unpacked. After every line, `progress` gets the number of bytes of
/// the file read so far.
///
/// # Errors
/// [`InputError`] if the file cannot be read, has no known format, or has no request.
pub fn read(
    path: &Path,
    options: &ReadOptions,
    progress: impl FnMut(u64),
) -> Result<Input, InputError> {
    read_values(path, options, &[], progress)
}

/// Reads the trace as [`read`] does, and for each request the keys that these options name, if its line has them.
///
/// # Errors
/// As [`read`].
pub fn read_values(
    path: &Path,
    options: &ReadOptions,
    values: &[ReadOptions],
    progress: impl FnMut(u64),
) -> Result<Input, InputError> {
    let failed = |source| InputError::Read { path: path.to_owned(), source };
    if path == Path::new("-") {
        let name = Path::new("standard input");
        return read_all(io::stdin().lock(), name, options, values, progress);
    }
    let file = File::open(path).map_err(failed)?;
    read_all(BufReader::with_capacity(1 << 16, file), path, options, values, progress)
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
    options: &ReadOptions,
    progress: impl FnMut(u64),
) -> Result<Input, InputError> {
    read_all(source, path, options, &[], progress)
}

fn read_all(
    source: impl BufRead,
    path: &Path,
    options: &ReadOptions,
    values: &[ReadOptions],
    mut progress: impl FnMut(u64),
) -> Result<Input, InputError> {
    let failed = |source| InputError::Read { path: path.to_owned(), source };
    let (source, bytes) = Counted::new(source);
    let mut lines = Lines::new(unpack::unpack(Box::new(source)).map_err(failed)?);
    let mut head = Vec::new();
    while head.len() < LINES_TO_TELL && lines.advance().map_err(failed)? {
        head.push((lines.number(), lines.line().to_vec()));
    }
    let mut collected = Collected {
        parser: Parser::of(&head, options, path)?,
        columns: values.iter().map(|options| Column::of(&head, options, path)).collect(),
        values: Vec::new(),
        builder: TraceBuilder::default(),
        unparsed: Unparsed::default(),
    };
    for (number, line) in &head {
        collected.take(*number, line, path)?;
    }
    while lines.advance().map_err(failed)? {
        collected.take(lines.number(), lines.line(), path)?;
        progress(bytes.get());
    }
    let Collected { parser, columns, builder, unparsed, mut values } = collected;
    let (path, reading) = (path.to_owned(), parser.reading());
    if builder.is_empty() {
        return Err(InputError::Empty { path, unparsed });
    }
    let (lines, format) = (builder.len() as u64 + unparsed.count, reading.format);
    if unparsed.count > lines / 2 {
        return Err(InputError::TooManyUnparsed { path, format, lines, unparsed });
    }
    // Stably, as the trace is.
    values.sort_by_key(|(at, _)| *at);
    let values = values.into_iter().map(|(_, values)| values).collect();
    let value_readings = columns.into_iter().map(Column::reading).collect();
    Ok(Input { trace: builder.finish(), unparsed, reading, values, value_readings })
}

/// A further value of each line.
struct Column {
    /// `None` if no line of this format has it.
    parser: Option<Parser>,
    texts: HashSet<Rc<str>>,
}

impl Column {
    fn of(head: &[(u64, Vec<u8>)], options: &ReadOptions, path: &Path) -> Self {
        Column { parser: Parser::of(head, options, path).ok(), texts: HashSet::new() }
    }

    fn value(&mut self, line: &[u8]) -> Option<Rc<str>> {
        let (mut value, texts) = (None, &mut self.texts);
        // A line without it has none.
        let _ = self.parser.as_mut()?.parse(line, |found| {
            value = has_text(&found.key).then(|| match texts.get(&*found.key) {
                Some(known) => Rc::clone(known),
                None => {
                    let new: Rc<str> = found.key.into();
                    texts.insert(Rc::clone(&new));
                    new
                }
            });
        });
        value
    }

    fn reading(self) -> Option<Reading> {
        self.parser.filter(|_| !self.texts.is_empty()).map(|parser| parser.reading())
    }
}

struct Collected {
    parser: Parser,
    columns: Vec<Column>,
    values: Vec<(Timestamp, Values)>,
    builder: TraceBuilder,
    unparsed: Unparsed,
}

impl Collected {
    fn take(&mut self, number: u64, line: &[u8], path: &Path) -> Result<(), InputError> {
        // Each parser sees each line, since a header has the names of the next ones.
        let values: Values = self.columns.iter_mut().map(|column| column.value(line)).collect();
        match self.parser.parse(line, |found| {
            let key = self.builder.key(&found.key);
            self.builder.push(Request { at: found.at, key, cost: found.cost });
            if !values.is_empty() {
                self.values.push((found.at, values));
            }
        }) {
            Ok(()) | Err(NotARequest::Header) => {}
            Err(NotARequest::BadHeader(reason)) => {
                return Err(InputError::Header { path: path.to_owned(), reason });
            }
            Err(NotARequest::Unparsed(reason)) => {
                self.unparsed.count += 1;
                if self.unparsed.samples.len() < Unparsed::SAMPLES {
                    let reason = self.parser.other_format(line).unwrap_or(reason);
                    let text = text::excerpt(line);
                    self.unparsed.samples.push(UnparsedLine { line: number, reason, text });
                }
            }
        }
        Ok(())
    }
}

/// A line is no request.
#[derive(Debug)]
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
