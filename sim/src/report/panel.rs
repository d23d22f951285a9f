//! Panels of charts with two labelled axes.

use plotters::prelude::*;

use super::axis::Axis;
use super::svg::{Area, DESCRIPTION, FONT, Failure, GRID, LEFT, RIGHT, TEXT};

/// The drawing area of a panel.
pub(super) type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;

/// Returns the style of small text.
pub(super) fn labels() -> TextStyle<'static> {
    (FONT, 13).into_font().color(&TEXT)
}

/// Draws a caption and two labelled axes.
///
/// # Errors
/// If the drawing library fails.
pub(super) fn draw<'a>(
    area: &Area<'a>,
    caption: String,
    (x, x_shows): (Axis, &str),
    (y, y_shows): (Axis, &str),
) -> Result<Chart<'a>, Failure> {
    let style = (FONT, 16).into_font().color(&TEXT);
    area.draw(&Text::new(caption, (LEFT as i32, 8), style))?;
    let mut chart = ChartBuilder::on(area)
        .margin_top(32)
        .margin_right(RIGHT)
        .margin_left(DESCRIPTION)
        .x_label_area_size(42)
        .y_label_area_size(LEFT - DESCRIPTION)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(TEXT)
        .x_label_formatter(&|value| x.label(*value))
        .y_label_formatter(&|value| y.label(*value))
        .label_style(labels())
        .axis_desc_style(labels())
        .x_desc(x_shows)
        .y_desc(y_shows)
        .draw()?;
    Ok(chart)
}
