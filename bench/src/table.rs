//! Tables in Markdown, as documents have them.

use comfy_table::{CellAlignment, Row, Table, presets};

/// Returns a table whose columns have numbers from this one on.
pub(crate) fn markdown<R: Into<Row>>(
    header: impl Into<Row>,
    rows: impl IntoIterator<Item = R>,
    numbers_from: usize,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(numbers_from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
