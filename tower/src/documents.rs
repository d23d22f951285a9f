//! The documents in a body, which arrives in chunks that end anywhere.

use std::mem;

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// The form of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Server-sent events, with a JSON document in the data of each.
    EventStream,
    /// A JSON document in each line.
    JsonLines,
    /// One JSON document.
    Json,
}

impl Format {
    /// Returns the form that `Content-Type` names.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
        let kind = kind.split(';').next()?.trim().to_ascii_lowercase();
        match &*kind {
            "text/event-stream" => Some(Format::EventStream),
            "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/x-jsonlines"
            | "application/jsonlines" => Some(Format::JsonLines),
            "application/json" => Some(Format::Json),
            _ => kind.ends_with("+json").then_some(Format::Json),
        }
    }
}

/// Cuts a body into documents. It keeps the one that is not yet whole, up to a bound.
pub(crate) struct Documents {
    format: Format,
    bound: usize,
    /// The line, or the only document, that is not yet whole.
    rest: Vec<u8>,
    /// The data of the event that is not yet whole, and whether it has any line of it.
    data: Vec<u8>,
    has_data: bool,
    is_first_line: bool,
    /// Whether the last byte ended a line by CR, so that LF belongs to it.
    after_cr: bool,
    /// Whether the line, or the event, has exceeded the bound.
    is_line_too_long: bool,
    is_event_too_long: bool,
    /// Whether a document was skipped since it exceeded the bound.
    has_skipped: bool,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

impl Documents {
    pub(crate) fn new(format: Format, bound: usize) -> Self {
        Documents {
            format,
            bound,
            rest: Vec::new(),
            data: Vec::new(),
            has_data: false,
            is_first_line: true,
            after_cr: false,
            is_line_too_long: false,
            is_event_too_long: false,
            has_skipped: false,
        }
    }

    pub(crate) fn has_skipped(&self) -> bool {
        self.has_skipped
    }

    /// Reads a chunk, and passes each document that it completes.
    pub(crate) fn push(&mut self, mut chunk: &[u8], each: &mut dyn FnMut(&[u8])) {
        let ends_line: fn(&u8) -> bool = match self.format {
            Format::Json => return self.keep(chunk),
            Format::JsonLines => |byte| *byte == b'\n',
            Format::EventStream => |byte| matches!(byte, b'\n' | b'\r'),
        };
        while !chunk.is_empty() {
            if mem::take(&mut self.after_cr) && chunk[0] == b'\n' {
                chunk = &chunk[1..];
                continue;
            }
            let Some(end) = chunk.iter().position(ends_line) else { return self.keep(chunk) };
            self.after_cr = chunk[end] == b'\r';
            let (line, rest) = (&chunk[..end], &chunk[end + 1..]);
            // Most lines are in one chunk.
            if self.rest.is_empty() && !self.is_line_too_long && end <= self.bound {
                self.line(line, each);
            } else {
                self.keep(line);
                self.kept_line(each);
            }
            chunk = rest;
        }
    }

    /// Passes the last document, although no line end follows it.
    pub(crate) fn finish(&mut self, each: &mut dyn FnMut(&[u8])) {
        if self.format == Format::Json {
            match mem::take(&mut self.is_line_too_long) {
                true => self.has_skipped = true,
                false => each(without_bom(&mem::take(&mut self.rest))),
            }
            return;
        }
        if !self.rest.is_empty() || self.is_line_too_long {
            self.kept_line(each);
        }
        if self.format == Format::EventStream {
            self.line(b"", each);
        }
    }

    fn keep(&mut self, part: &[u8]) {
        if self.is_line_too_long || self.rest.len() + part.len() > self.bound {
            self.is_line_too_long = true;
            // The name of an event's field is kept.
            self.rest.extend_from_slice(&part[..part.len().min(8)]);
            self.rest.truncate(8);
            self.rest.shrink_to(8);
        } else {
            self.rest.extend_from_slice(part);
        }
    }

    fn kept_line(&mut self, each: &mut dyn FnMut(&[u8])) {
        let mut line = mem::take(&mut self.rest);
        if mem::take(&mut self.is_line_too_long) {
            let start = if self.is_first_line { without_bom(&line) } else { &line };
            let is_document = self.format == Format::JsonLines || start.starts_with(b"data:");
            self.is_first_line = false;
            self.has_skipped |= is_document;
            self.is_event_too_long |= is_document;
        } else {
            self.line(&line, each);
        }
        line.clear();
        self.rest = line;
    }

    fn line(&mut self, mut line: &[u8], each: &mut dyn FnMut(&[u8])) {
        if mem::take(&mut self.is_first_line) {
            line = without_bom(line);
        }
        if self.format == Format::JsonLines {
            if !line.trim_ascii().is_empty() {
                each(line);
            }
            return;
        }
        if line.is_empty() {
            let is_too_long = mem::take(&mut self.is_event_too_long);
            if mem::take(&mut self.has_data) && !is_too_long {
                each(&self.data);
            }
            return self.data.clear();
        }
        let value = match line.strip_prefix(b"data") {
            Some([]) => &[],
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            _ => return,
        };
        if self.is_event_too_long || self.data.len() + value.len() > self.bound {
            (self.is_event_too_long, self.has_skipped) = (true, true);
            return self.data.clear();
        }
        if mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
    }
}

fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(BOM).unwrap_or(text)
}
