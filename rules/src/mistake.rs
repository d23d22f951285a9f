//! Mistakes of a file, each with its place.

use std::fmt;

/// A mistake and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters from 1.
    pub column: usize,
    /// The problem, and the right input.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// All mistakes of one file, in their order. Prints one line for each: `FILE:LINE:COLUMN: MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    file: String,
    mistakes: Vec<Mistake>,
}

impl Mistakes {
    /// Returns them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Mistake> {
        self.mistakes.iter()
    }

    /// Returns them with the name of their file.
    pub fn in_file(self, file: impl Into<String>) -> Self {
        Mistakes { file: file.into(), ..self }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            let between = if index == 0 { "" } else { "\n" };
            write!(f, "{between}{}:{mistake}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// A range of bytes of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The mistakes that were found so far.
pub(crate) struct Report<'t> {
    text: &'t str,
    found: Vec<(usize, String)>,
}

impl<'t> Report<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Report { text, found: Vec::new() }
    }

    pub(crate) fn at(&mut self, span: Span, message: impl Into<String>) {
        self.found.push((span.start, message.into()));
    }

    /// Notes a mistake within a value: at this offset of its text, if the value is written as it is read.
    pub(crate) fn within(&mut self, span: Span, value: &str, offset: usize, message: String) {
        let written = self.text.get(span.start..span.end).and_then(|raw| raw.find(value));
        self.found.push((written.map_or(span.start, |from| span.start + from + offset), message));
    }

    pub(crate) fn line(&self, span: Span) -> usize {
        place(self.text, span.start).0
    }

    /// Returns the mistakes in the order of their places, each once.
    pub(crate) fn finish(mut self) -> Result<(), Mistakes> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|(offset, _)| *offset);
        self.found.dedup();
        let located = self.found.into_iter().map(|(offset, message)| {
            let (line, column) = place(self.text, offset);
            Mistake { line, column, message }
        });
        Err(Mistakes { file: "rules".to_owned(), mistakes: located.collect() })
    }
}

/// Returns the line and column of a byte offset.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before[line..].chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

/// Returns `: did you mean WORD?` for the nearest of the known words, or the list of all.
pub(crate) fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> String {
    let known: Vec<&str> = known.into_iter().filter(|one| !one.is_empty()).collect();
    let near = known.iter().map(|one| (edits(word, one), *one)).min();
    match near {
        Some((_, near)) if is_near(word, near) => format!(": did you mean `{near}`?"),
        Some(_) => format!(": expected {}", listed(&known)),
        None => String::new(),
    }
}

/// Returns whether a word may be a misspelling of another one: at most a third of its letters differ, and always two may.
pub(crate) fn is_near(word: &str, other: &str) -> bool {
    edits(word, other) <= (other.chars().count() / 3).max(2)
}

pub(crate) fn edits(word: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(&other.to_lowercase(), &word.to_lowercase())
}

/// Returns the words as a list: `a`, `b` or `c`. Of many it has the first ones.
pub(crate) fn listed(words: &[&str]) -> String {
    const MOST: usize = 12;
    let quoted = |words: &[&str]| {
        words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    };
    match words {
        [] => "nothing".to_owned(),
        [only] => format!("`{only}`"),
        [some @ .., last] if some.len() < MOST => format!("{} or `{last}`", quoted(some)),
        many => format!("{}, or one of {} others", quoted(&many[..MOST]), many.len() - MOST),
    }
}
