//! The parser of a file's lines, and the detection of its format.

use std::borrow::Cow;
use std::path::Path;

use super::client::Clients;
use super::csv::CsvParser;
use super::facts::{Facts, Found, Reading};
use super::fields::Fields;
use super::log::LogParser;
use super::options::{By, Format, ReadOptions};
use super::records::RecordParser;
use super::text::{excerpt, without_colours};
use super::{InputError, NotARequest};

/// Parses the lines of a file.
#[derive(Debug)]
pub(super) struct Parser {
    format: Format,
    /// Whether the format was detected.
    is_detected: bool,
    /// The field of JSON objects that has the lines, as of Docker's files.
    wrapper: Option<&'static str>,
    lines: LineParser,
    clients: Clients,
    facts: Facts,
}

/// A parser of one format.
#[derive(Debug)]
enum LineParser {
    Log(LogParser),
    Csv(Box<CsvParser>),
    Records(Box<RecordParser>),
}

impl Parser {
    /// Detects the format by its first lines, unless the options name it: the one of which most of them are.
    ///
    /// # Errors
    /// [`InputError::UnknownFormat`], or [`InputError::Key`] if the format has no such key.
    pub(super) fn of(
        head: &[(u64, Vec<u8>)],
        options: &ReadOptions,
        path: &Path,
    ) -> Result<Parser, InputError> {
        let best = detect(head, options);
        let is_detected = options.format == Format::Auto;
        let (format, wrapper) = match (best, head.first()) {
            (Some(best), _) => best,
            // Any parser will find that no line is a request.
            (None, None) => (Format::Log, None),
            (None, _) if !is_detected => (options.format, None),
            (None, Some((line, first))) => {
                let (path, text, reason) =
                    (path.to_owned(), excerpt(first), why_not(first, options));
                return Err(InputError::UnknownFormat { path, line: *line, text, reason });
            }
        };
        let lines = LineParser::new(format, options)
            .map_err(|reason| InputError::Key { path: path.to_owned(), reason })?;
        let (clients, facts) = (options.clients(), Facts::default());
        Ok(Parser { format, is_detected, wrapper, lines, clients, facts })
    }

    /// Parses a line, and hands its request over.
    pub(super) fn parse(
        &mut self,
        line: &[u8],
        take: impl FnOnce(Found<'_>),
    ) -> Result<(), NotARequest> {
        let line = unwrap(line, self.wrapper);
        let plain = without_colours(&line);
        let is_coloured = matches!(plain, Cow::Owned(_));
        take(self.lines.parse(plain.trim_ascii(), &self.clients, &mut self.facts)?);
        if is_coloured {
            self.facts.count_colours();
        }
        Ok(())
    }

    /// Returns the reason why a line is no request, if it is one of another format.
    pub(super) fn other_format(&self, line: &[u8]) -> Option<String> {
        let others = Format::KNOWN
            .into_iter()
            .filter(|other| *other != self.format && *other != Format::Csv);
        let line = unwrap(line, self.wrapper);
        let is_of =
            |other: &Format| score(*other, &ReadOptions::default(), &[Cow::Borrowed(&line)]) > 1;
        let other = others.filter(|_| self.is_detected).find(is_of)?;
        Some(format!(
            "it is of the format {}, and the file of {}",
            other.name(),
            self.format.name()
        ))
    }

    /// Returns how the lines were read.
    pub(super) fn reading(&self) -> Reading {
        let prefix = self.clients.ipv6_prefix;
        let [key, time, cost] = match &self.lines {
            LineParser::Log(parser) => parser.describe(prefix),
            LineParser::Csv(parser) => parser.describe(prefix),
            LineParser::Records(parser) => parser.describe(&self.facts, prefix),
        };
        let wrapper =
            self.wrapper.map(|name| format!("the lines are the texts in `{name}` of JSON objects"));
        let notes = self.facts.notes(!self.clients.trusted.is_empty());
        let notes = wrapper.into_iter().chain(notes).collect();
        Reading { format: self.format.name(), key, time, cost, notes }
    }
}

impl LineParser {
    fn new(format: Format, options: &ReadOptions) -> Result<LineParser, String> {
        Ok(match format {
            Format::Auto | Format::Log => LineParser::Log(LogParser::new(options)?),
            Format::Csv => LineParser::Csv(Box::new(CsvParser::new(options))),
            format => LineParser::Records(Box::new(RecordParser::new(format, options))),
        })
    }

    fn parse<'a>(
        &mut self,
        line: &'a [u8],
        clients: &Clients,
        facts: &mut Facts,
    ) -> Result<Found<'a>, NotARequest> {
        match self {
            LineParser::Log(parser) => Ok(parser.parse(line, clients, facts)?),
            LineParser::Csv(parser) => parser.parse(line, clients, facts),
            LineParser::Records(parser) => parser.parse(line, clients, facts),
        }
    }
}

/// Returns the format of which most of these lines are, and the field that has them, if they are texts in objects.
fn detect(
    head: &[(u64, Vec<u8>)],
    options: &ReadOptions,
) -> Option<(Format, Option<&'static str>)> {
    let is_object = head.iter().any(|(_, line)| line.starts_with(b"{"));
    let wrappers = if is_object { &WRAPPERS[..] } else { &[] };
    let unwrapped = |wrapper| head.iter().map(|(_, line)| unwrap(line, wrapper)).collect();
    let wrappers = std::iter::once(None).chain(wrappers.iter().copied().map(Some));
    let ways: Vec<(_, Vec<_>)> = wrappers.map(|wrapper| (wrapper, unwrapped(wrapper))).collect();
    let known = match options.format {
        Format::Auto => &Format::KNOWN[..],
        _ => std::slice::from_ref(&options.format),
    };
    let best = |wanted: [ReadOptions; 2]| {
        let (mut best, mut most) = (None, 0);
        for (wrapper, lines) in &ways {
            // Numbers with a comma in a message are no CSV.
            let is_whole = wrapper.is_none();
            for &format in known.iter().filter(|format| is_whole || **format != Format::Csv) {
                let score = wanted.each_ref().map(|options| score(format, options, lines));
                let score = score[0].max(score[1]);
                if score > most {
                    (best, most) = (Some((format, *wrapper)), score);
                }
            }
        }
        best
    };
    // With a key that it has not, a format is still this one.
    let by = |by: By, options: &ReadOptions| ReadOptions { key: None, by, ..options.clone() };
    let plain = ReadOptions { time: None, ..by(By::Address, options) };
    let wanted = match options.by {
        By::All => by(By::Address, options),
        _ => options.clone(),
    };
    // Any object with a time is a line without a key, even one around the line of another format: this comes second.
    let without = [by(By::All, options), by(By::All, &plain)];
    best([wanted, plain]).or_else(|| best(without))
}

/// Returns twice the number of lines of this format, and one more if it has a header.
fn score(format: Format, options: &ReadOptions, lines: &[Cow<'_, [u8]>]) -> u64 {
    let Ok(mut parser) = LineParser::new(format, options) else { return 0 };
    let is_plain = options.by == By::Address && options.key.is_none() && options.time.is_none();
    let (clients, mut score) = (options.clients(), 0);
    for line in lines {
        let line = without_colours(line);
        score += match parser.parse(line.trim_ascii(), &clients, &mut Facts::default()) {
            Ok(_) => 2,
            Err(NotARequest::Header) => 1,
            // Without its columns, a header is one if it has a time.
            Err(NotARequest::BadHeader(_)) => u64::from(is_plain),
            Err(NotARequest::Unparsed(_)) => 0,
        };
    }
    score
}

/// Returns why a line is not of the format that it is most like.
fn why_not(line: &[u8], options: &ReadOptions) -> String {
    let has = |byte: u8| line.contains(&byte);
    let format = match line {
        _ if line.starts_with(b"__CURSOR=") => {
            return "journald exports several lines for each: take the lines of journalctl -o json"
                .to_owned();
        }
        _ if line.windows(2).any(|two| two == b"{\"") || line.ends_with(b"{") => Format::Json,
        [b'#', ..] => Format::W3c,
        _ if has(b'[') && has(b'"') && line.len() > 40 => Format::Log,
        _ if has(b'=') => Format::Logfmt,
        _ if has(b',') || has(b';') || has(b'\t') => Format::Csv,
        _ => return "expected an access log, a CSV, JSON or logfmt".to_owned(),
    };
    let mut parser = match LineParser::new(format, options) {
        Ok(parser) => parser,
        Err(reason) => return reason,
    };
    match parser.parse(line, &options.clients(), &mut Facts::default()) {
        Err(NotARequest::Unparsed(reason)) => format!("as {}: {reason}", format.name()),
        _ => format!("it is like {}", format.name()),
    }
}

/// The fields in which Docker, Kubernetes, journald and collectors put a line.
const WRAPPERS: [&str; 5] = ["log", "message", "msg", "line", "textPayload"];

/// Returns the line in a field of a JSON object; without such a field, the text itself.
fn unwrap<'a>(line: &'a [u8], wrapper: Option<&str>) -> Cow<'a, [u8]> {
    let inner = wrapper.and_then(|name| Fields::of_json(line)?.get(name));
    match inner {
        Some((_, text)) => Cow::Owned(text.trim_end().as_bytes().to_vec()),
        None => Cow::Borrowed(line),
    }
}
