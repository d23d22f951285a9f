//! A table, before it is drawn for a terminal or a page.

use anstyle::Style;
use comfy_table::{CellAlignment, ColumnConstraint};

use crate::terminal;

/// Rows of text under a header, with a title unless it is the first one.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) title: String,
    /// Sentences under the title.
    pub(crate) note: String,
    pub(crate) header: Vec<String>,
    /// The number of columns of text, at the left; the others have numbers.
    pub(crate) texts: usize,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Grid {
    pub(crate) fn new(title: &str, header: &[&str], texts: usize) -> Grid {
        let header = header.iter().map(|&name| name.to_owned()).collect();
        Grid { title: title.to_owned(), note: String::new(), header, texts, rows: Vec::new() }
    }

    /// Returns lines of at most `width` columns.
    pub(crate) fn to_text(&self, width: u16) -> String {
        let mut table = terminal::table(width);
        table.set_header(&self.header);
        // In a narrow table the text wraps, and the numbers do not.
        table.column_iter_mut().skip(self.texts).for_each(|column| {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::ContentWidth);
        });
        for row in &self.rows {
            table.add_row(row);
        }
        let bold = Style::new().bold();
        let mut text = String::new();
        if !self.title.is_empty() {
            text += &format!("\n{bold}{}{bold:#}\n", self.title);
        }
        if !self.note.is_empty() {
            text += &format!("{}\n", self.note);
        }
        text + &table.to_string()
    }
}
