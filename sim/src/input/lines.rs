//! Lines of bytes that may not be text.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

/// The longest line in bytes; files with longer ones are no logs.
const LONGEST_LINE: u64 = 16 << 20;

/// Reads lines that are not blank, numbered from 1 with the blank ones.
pub(super) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(source: R) -> Self {
        Lines { source, buffer: Vec::new(), number: 0 }
    }

    /// Advances to the next line, and returns false at the end.
    pub(super) fn advance(&mut self) -> io::Result<bool> {
        loop {
            self.buffer.clear();
            // A line without an end, say of a device that never stops, must not take all memory.
            let read =
                self.source.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.buffer)?;
            if read == 0 {
                return Ok(false);
            }
            if read as u64 == LONGEST_LINE {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a line of more than 16 MiB: no text file",
                ));
            }
            self.number += 1;
            if !self.line().is_empty() {
                return Ok(true);
            }
        }
    }

    /// Returns the line, trimmed.
    pub(super) fn line(&self) -> &[u8] {
        let line = self.buffer.trim_ascii();
        match self.number {
            // Editors on Windows put a byte order mark in front.
            1 => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            _ => line,
        }
    }

    /// Returns the line's number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

/// Counts the bytes that are taken from a source.
pub(super) struct Counted<R> {
    source: R,
    bytes: Rc<Cell<u64>>,
}

impl<R> Counted<R> {
    /// Returns the source, and the count so far.
    pub(super) fn new(source: R) -> (Self, Rc<Cell<u64>>) {
        let bytes = Rc::new(Cell::new(0));
        (Counted { source, bytes: Rc::clone(&bytes) }, bytes)
    }
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.source.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.source.consume(amount);
        self.bytes.set(self.bytes.get() + amount as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let (source, bytes) = Counted::new(text);
        let mut lines = Lines::new(source);
        let mut found = Vec::new();
        while lines.advance().unwrap() {
            found.push((lines.number(), lines.line().to_vec()));
        }
        assert_eq!(bytes.get(), text.len() as u64);
        found
    }

    #[test]
    fn blank_lines_are_counted_and_skipped() {
        let found = lines(b"\xef\xbb\xbfone\r\n\n  \r\n two\xff\nthree");
        assert_eq!(found, [(1, b"one".to_vec()), (4, b"two\xff".to_vec()), (5, b"three".to_vec())]);
    }

    #[test]
    fn a_line_without_an_end_is_refused_before_memory_is() {
        let endless = io::BufReader::new(io::repeat(b'x'));
        let error = Lines::new(endless).advance().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
