//! Charts the remaining amount of a limit over time.

use plotters::prelude::*;

use super::Limiter;
use super::axis::Axis;
use super::bins::Bins;
use super::svg::{
    ADMITTED, Area, DESCRIPTION, FONT, Failure, GRID, LEFT, RIGHT, TEXT, WIDTH, whole,
};
use super::words::key_name;
use crate::answers::State;

/// The height of a panel.
pub(super) const HEIGHT: u32 = 200;

/// Draws the remaining amount for the key denied most, over the time of the panel above.
pub(super) fn draw(
    area: &Area<'_>,
    limiter: &Limiter,
    state: &State,
    bins: &Bins,
) -> Result<(), Failure> {
    let key = key_name(limiter.trace.key(state.key), 60);
    let style = (FONT, 16).into_font().color(&TEXT);
    let denied = if limiter.tally.denied > 0 { "denied most" } else { "the busiest" };
    let caption = format!("what remained for {key}, {denied}");
    area.draw(&Text::new(caption, (LEFT as i32, 8), style))?;

    let pixels_per_bin = f64::from(WIDTH - LEFT - RIGHT) / bins.count as f64;
    let ticks = bins.ticks(|characters| (characters as f64 * 8.0 + 24.0) / pixels_per_bin);
    let end = bins.count as f64;
    let time = Axis::linear(end, ticks);
    let mut chart = ChartBuilder::on(area)
        .margin_top(32)
        .margin_right(RIGHT)
        .margin_left(DESCRIPTION)
        .x_label_area_size(24)
        .y_label_area_size(LEFT - DESCRIPTION)
        .build_cartesian_2d(time.clone(), 0.0..state.capacity as f64 * 1.05)?;
    let labels = || (FONT, 13).into_font().color(&TEXT);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(TEXT)
        .y_labels(4)
        .x_label_formatter(&|place| time.label(*place))
        .y_label_formatter(&|amount| whole(*amount))
        .label_style(labels())
        .axis_desc_style(labels())
        .y_desc("remains at least")
        .draw()?;
    let place = |slot: usize| {
        let micros = state.from.as_micros() + slot as u64 * state.slot_us - bins.start;
        (micros as f64 / bins.width as f64).min(end)
    };
    let bar = |(slot, lowest): (usize, &u64)| {
        let corners = [(place(slot), 0.0), (place(slot + 1), *lowest as f64)];
        Rectangle::new(corners, ADMITTED.mix(0.5).filled())
    };
    let shown = state.lowest.iter().enumerate().filter(|(_, lowest)| **lowest > 0);
    chart.draw_series(shown.map(bar))?;
    Ok(())
}
