//! A log of events for people: the time, the subject, the event.

use std::fmt;

/// A line of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The true time, in microseconds from the world's beginning.
    pub at_us: u64,
    /// The party that acted, or that was affected.
    pub who: Who,
    /// The event.
    pub what: String,
}

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The client with this number.
    Client(usize),
    /// The store.
    Store,
}

/// Keeps lines, if they are wanted.
#[derive(Debug, Default)]
pub(super) struct Log(Option<Vec<Line>>);

impl Log {
    pub(super) fn new(is_wanted: bool) -> Self {
        Log(is_wanted.then(Vec::new))
    }

    pub(super) fn say(&mut self, at_us: u64, who: Who, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push(Line { at_us, who, what: what() });
        }
    }

    pub(super) fn into_lines(self) -> Vec<Line> {
        self.0.unwrap_or_default()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10} us  {:<9}  {}", self.at_us, self.who.to_string(), self.what)
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Client(number) => write!(f, "client {number}"),
            Who::Store => f.write_str("store"),
        }
    }
}
