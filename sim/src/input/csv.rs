//! One line of a CSV: `timestamp,key[,cost]`.

use std::borrow::Cow;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use lockage_core::Timestamp;

use super::NotARequest;
use super::text::escape_invalid;
use crate::dates;

/// Parses lines of a CSV into the time, key and cost of a request.
///
/// Lines are independent: a field cannot continue on the next line, so an open quote spoils only its
/// own line.
#[derive(Debug, Default)]
pub(super) struct CsvParser {
    columns: Columns,
    started: bool,
    fields: Fields,
}

impl CsvParser {
    /// Returns whether the first line of a file is a header or a request of this format.
    pub(super) fn recognises(&mut self, line: &[u8]) -> bool {
        matches!(self.parse(line), Ok(_) | Err(NotARequest::Header | NotARequest::BadHeader(_)))
    }

    /// Parses the time, the key and the cost of a line.
    pub(super) fn parse(
        &mut self,
        line: &[u8],
    ) -> Result<(Timestamp, Cow<'_, str>, u64), NotARequest> {
        self.fields.split(line)?;
        if !self.started {
            self.started = true;
            if let Some(columns) = Columns::from_header(&self.fields)? {
                self.columns = columns;
                return Err(NotARequest::Header);
            }
        }
        let Columns { timestamp, key, cost, ref count, .. } = self.columns;
        let found = self.fields.count();
        if !count.contains(&found) {
            let expected = match self.columns.from_header {
                true => "as many as the header",
                false => "timestamp,key[,cost]",
            };
            return Err(format!("expected {expected}, found {found} fields").into());
        }
        let at = dates::parse(&self.fields.get(timestamp))?;
        let cost = match cost.filter(|&cost| cost < found) {
            Some(column) => parse_cost(&self.fields.get(column))?,
            None => 1,
        };
        let key = self.fields.get(key);
        if key.is_empty() {
            return Err("no key".into());
        }
        Ok((at, key, cost))
    }
}

/// Parses a cost: a whole number above zero, in decimal digits.
fn parse_cost(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Err("no cost: leave the column out, or write a whole number from 1 on".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "a cost of {text:?}: expected a whole number from 1 on, in decimal digits"
        ));
    }
    match text.parse() {
        Ok(0) => Err("a cost of zero: expected a whole number from 1 on".to_owned()),
        Ok(cost) => Ok(cost),
        Err(_) => Err(format!("a cost of {text}: it does not fit in 64 bits")),
    }
}

/// The positions of the columns.
#[derive(Clone, Debug)]
struct Columns {
    timestamp: usize,
    key: usize,
    cost: Option<usize>,
    count: std::ops::RangeInclusive<usize>,
    from_header: bool,
}

impl Default for Columns {
    fn default() -> Self {
        Columns { timestamp: 0, key: 1, cost: Some(2), count: 2..=3, from_header: false }
    }
}

impl Columns {
    /// Parses a header, whose columns may be in any order and among others; `None` if it is none.
    fn from_header(fields: &Fields) -> Result<Option<Columns>, NotARequest> {
        let find =
            |name: &str| (0..fields.count()).find(|&i| fields.get(i).eq_ignore_ascii_case(name));
        match (find("timestamp"), find("key")) {
            (Some(timestamp), Some(key)) => {
                let (cost, most) = (find("cost"), fields.count());
                // A row may omit the cost if it is last.
                let least = if cost == Some(most - 1) { most - 1 } else { most };
                let count = least..=most;
                Ok(Some(Columns { timestamp, key, cost, count, from_header: true }))
            }
            (None, None) => Ok(None),
            (Some(_), None) => {
                Err(NotARequest::BadHeader("the header has no column named key".to_owned()))
            }
            // A key may have this name; the timestamp decides.
            (None, Some(_)) => Ok(None),
        }
    }
}

/// The fields of one line.
#[derive(Debug)]
struct Fields {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

impl Default for Fields {
    fn default() -> Self {
        // A carriage return within a line is a character like any other.
        let reader = ReaderBuilder::new().terminator(Terminator::Any(b'\n')).build();
        Fields { reader, text: Vec::new(), ends: Vec::new(), count: 0 }
    }
}

impl Fields {
    fn split(&mut self, line: &[u8]) -> Result<(), NotARequest> {
        self.reader.reset();
        // No record has more text or more fields than its line has bytes, the line's end included.
        self.text.resize(line.len() + 1, 0);
        self.ends.resize(line.len() + 1, 0);
        let (_, _, written, fields) = self.reader.read_record(line, &mut self.text, &mut self.ends);
        let (result, _, _, last) =
            self.reader.read_record(b"\n", &mut self.text[written..], &mut self.ends[fields..]);
        self.count = fields + last;
        match result {
            ReadRecordResult::Record => Ok(()),
            _ => Err("a quote is left open".into()),
        }
    }

    fn count(&self) -> usize {
        self.count
    }

    /// Returns a field's text, trimmed.
    fn get(&self, index: usize) -> Cow<'_, str> {
        let start = index.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        escape_invalid(self.text[start..self.ends[index]].trim_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(parser: &mut CsvParser, line: &str) -> Result<(u64, String, u64), String> {
        match parser.parse(line.as_bytes()) {
            Ok((at, key, cost)) => Ok((at.as_micros(), key.into_owned(), cost)),
            Err(NotARequest::Header) => Err("header".to_owned()),
            Err(NotARequest::BadHeader(reason)) => Err(format!("bad header: {reason}")),
            Err(NotARequest::Unparsed(reason)) => Err(reason),
        }
    }

    fn row(at: u64, key: &str, cost: u64) -> Result<(u64, String, u64), String> {
        Ok((at, key.to_owned(), cost))
    }

    #[test]
    fn rows_with_and_without_a_cost() {
        let mut parser = CsvParser::default();
        assert_eq!(parse(&mut parser, "5,alice"), row(5, "alice", 1));
        assert_eq!(parse(&mut parser, "6 , bob , 3"), row(6, "bob", 3));
        assert_eq!(
            parse(&mut parser, "1970-01-01T00:00:01Z,\"a, \"\"b\"\"\",007"),
            row(1_000_000, "a, \"b\"", 7)
        );
        assert_eq!(parse(&mut parser, "7,alice,18446744073709551615"), row(7, "alice", u64::MAX));
        assert_eq!(parse(&mut parser, "8,a\rb"), row(8, "a\rb", 1));
    }

    #[test]
    fn a_header_names_the_columns() {
        let mut parser = CsvParser::default();
        assert_eq!(parse(&mut parser, "Key,status,Timestamp,COST"), Err("header".to_owned()));
        assert_eq!(parse(&mut parser, "alice,200,5,3"), row(5, "alice", 3));
        assert_eq!(parse(&mut parser, "alice,200,5"), row(5, "alice", 1));
        assert!(parse(&mut parser, "alice,200").unwrap_err().contains("as many as the header"));
        // Only the first line can be a header.
        assert!(parse(&mut parser, "Key,status,Timestamp,COST").unwrap_err().contains("neither"));

        let mut parser = CsvParser::default();
        assert_eq!(parse(&mut parser, "timestamp,key"), Err("header".to_owned()));
        assert_eq!(parse(&mut parser, "5,alice"), row(5, "alice", 1));
        assert!(parse(&mut parser, "5,alice,3").unwrap_err().contains("as many as the header"));

        let mut parser = CsvParser::default();
        assert_eq!(parse(&mut parser, "timestamp,cost,key"), Err("header".to_owned()));
        assert!(parse(&mut parser, "5,alice").unwrap_err().contains("as many as the header"));

        let mut parser = CsvParser::default();
        assert!(parse(&mut parser, "timestamp,user").unwrap_err().contains("bad header"));

        // A first line that names no timestamp is a row.
        assert_eq!(parse(&mut CsvParser::default(), "5,key"), row(5, "key", 1));
    }

    #[test]
    fn a_bad_row_says_why() {
        for (line, expected) in [
            ("5", "found 1 fields"),
            ("5,alice,1,extra", "found 4 fields"),
            ("5,", "no key"),
            ("5,\"  \",1", "no key"),
            (",alice", "no timestamp"),
            ("soon,alice", "neither"),
            ("-5,alice", "neither"),
            ("9007199254740992,alice", "too late"),
            ("5,alice,", "no cost"),
            ("5,alice,0", "zero"),
            ("5,alice,nan", "\"nan\""),
            ("5,alice,inf", "\"inf\""),
            ("5,alice,-1", "\"-1\""),
            ("5,alice,+1", "\"+1\""),
            ("5,alice,1.5", "\"1.5\""),
            ("5,alice,1e3", "\"1e3\""),
            ("5,alice,0x10", "\"0x10\""),
            ("5,alice,1_000", "\"1_000\""),
            ("5,alice,18446744073709551616", "64 bits"),
            ("5,\"alice,1", "quote is left open"),
        ] {
            let reason = parse(&mut CsvParser::default(), line).unwrap_err();
            assert!(reason.contains(expected), "{line}: {reason}");
        }
    }

    #[test]
    fn a_bad_row_does_not_spoil_the_next() {
        let mut parser = CsvParser::default();
        for _ in 0..3 {
            assert!(parse(&mut parser, "5,\"alice").is_err());
            assert_eq!(parse(&mut parser, "5,alice"), row(5, "alice", 1));
        }
    }

    #[test]
    fn keys_that_are_not_utf8_stay_apart() {
        let mut parser = CsvParser::default();
        let first = parser.parse(b"5,\xe4").ok().unwrap().1.into_owned();
        assert_ne!(first, parser.parse(b"5,\xe5").ok().unwrap().1);
    }
}
