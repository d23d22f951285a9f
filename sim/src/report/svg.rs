//! Admitted and denied requests over time, as a chart in a file.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use thiserror::Error;

use super::bins::{Bin, Bins};
use super::{Limiter, Report, grouped, percent};
use crate::input::{printable, shorten};

// Blue and orange: told apart with every common kind of colour blindness, and in grey.
const ADMITTED: RGBColor = RGBColor(0x4c, 0x86, 0xc6);
const DENIED: RGBColor = RGBColor(0xf2, 0x8e, 0x2b);
const TEXT: RGBColor = RGBColor(0x33, 0x33, 0x33);
const GRID: RGBColor = RGBColor(0xe6, 0xe6, 0xe6);
const FONT: &str = "sans-serif";

const WIDTH: u32 = 1100;
const TITLE_HEIGHT: u32 = 64;
const PANEL_HEIGHT: u32 = 250;
/// Room at the left of every panel, for the labels of its axis.
const LEFT: u32 = 76;
/// The part of it that keeps the axis's description, which stands upright, off the edge.
const DESCRIPTION: u32 = 10;
const RIGHT: u32 = 24;
const MOST_BINS: usize = 200;

/// A chart that could not be drawn.
#[derive(Debug, Error)]
#[error("cannot draw the chart: {0}")]
pub struct ChartError(String);

/// The report as an SVG: a panel per limiter, over the same time and to the same scale.
///
/// # Errors
/// [`ChartError`] where the drawing library fails; writing to a string gives it no cause to.
pub fn to_string(report: &Report) -> Result<String, ChartError> {
    let mut text = String::new();
    draw(report, &mut text).map_err(|error| ChartError(error.to_string()))?;
    Ok(text)
}

fn draw(report: &Report, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let panels = report.limiters.len();
    let height = TITLE_HEIGHT + PANEL_HEIGHT * u32::try_from(panels)?;
    let root = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (title, rest) = root.split_vertically(TITLE_HEIGHT);
    let style = (FONT, 18).into_font().color(&TEXT);
    let headline = format!("{}, {}", report.headline(), report.period());
    title.draw(&Text::new(shorten(&headline, 120), (LEFT as i32, 14), style))?;
    draw_legend(&title)?;

    let bins = Bins::covering(report.span(), MOST_BINS);
    let filled: Vec<_> = report
        .limiters
        .iter()
        .map(|limiter| bins.fill(&limiter.trace, &limiter.outcomes))
        .collect();
    for ((area, limiter), counts) in
        rest.split_evenly((panels, 1)).iter().zip(&report.limiters).zip(&filled)
    {
        draw_panel(area, limiter, &bins, counts)?;
    }
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_legend(area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let style = (FONT, 15).into_font().color(&TEXT);
    let mut x = LEFT as i32;
    for (color, name) in [(ADMITTED, "admitted"), (DENIED, "denied")] {
        area.draw(&Rectangle::new([(x, 43), (x + 14, 57)], color.filled()))?;
        area.draw(&Text::new(name, (x + 20, 43), style.clone()))?;
        x += 110;
    }
    Ok(())
}

fn draw_panel(
    area: &Area<'_>,
    limiter: &Limiter,
    bins: &Bins,
    counts: &[Bin],
) -> Result<(), Box<dyn std::error::Error>> {
    let tally = &limiter.tally;
    let (admitted, denied) = (grouped(tally.admitted), grouped(tally.denied));
    let share = percent(tally.denied, tally.admitted + tally.denied);
    let spec = shorten(&printable(&limiter.spec), 60);
    let caption = format!("{spec}: {admitted} admitted, {denied} denied ({share})");
    let style = (FONT, 16).into_font().color(&TEXT);
    area.draw(&Text::new(caption, (LEFT as i32, 8), style))?;

    let most = counts.iter().map(|bin| bin.admitted + bin.denied).max().unwrap_or(0).max(1);
    let pixels_per_bin = f64::from(WIDTH - LEFT - RIGHT) / bins.count as f64;
    let ticks = bins.ticks(|characters| (characters as f64 * 8.0 + 24.0) / pixels_per_bin);
    let time =
        TimeAxis { end: bins.count as f64, ticks: ticks.iter().map(|(place, _)| *place).collect() };
    let label = |place: &f64| {
        let tick = ticks.iter().find(|(tick, _)| tick == place);
        tick.map_or(String::new(), |(_, label)| label.clone())
    };
    let mut chart = ChartBuilder::on(area)
        .margin_top(32)
        .margin_right(RIGHT)
        .margin_left(DESCRIPTION)
        .x_label_area_size(42)
        .y_label_area_size(LEFT - DESCRIPTION)
        .build_cartesian_2d(time, 0.0..most as f64 * 1.05)?;
    let labels = (FONT, 13).into_font().color(&TEXT);
    let centered = labels.pos(Pos::new(HPos::Center, VPos::Top));
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(TEXT)
        .y_labels(5)
        .y_label_formatter(&|count| whole(*count))
        .x_label_formatter(&label)
        .x_label_style(centered)
        .y_label_style((FONT, 13).into_font().color(&TEXT))
        .axis_desc_style((FONT, 13).into_font().color(&TEXT))
        .x_desc("time (UTC)")
        .y_desc(format!("requests per {}", bins.width_in_words()))
        .draw()?;

    let bar = |i: usize, from: u64, to: u64, color: RGBColor| {
        Rectangle::new([(i as f64, from as f64), (i as f64 + 1.0, to as f64)], color.filled())
    };
    let bars = counts.iter().enumerate().filter(|(_, bin)| bin.admitted + bin.denied > 0);
    chart.draw_series(bars.flat_map(|(i, bin)| {
        let total = bin.admitted + bin.denied;
        let admitted = (bin.admitted > 0).then(|| bar(i, 0, bin.admitted, ADMITTED));
        let denied = (bin.denied > 0).then(|| bar(i, bin.admitted, total, DENIED));
        admitted.into_iter().chain(denied)
    }))?;
    Ok(())
}

/// A label of a count: none between whole numbers.
fn whole(count: f64) -> String {
    if count.fract() == 0.0 { grouped(count as u64) } else { String::new() }
}

/// Time in bins, with labels where the clock is round, which the library's own axes do not know.
struct TimeAxis {
    end: f64,
    ticks: Vec<f64>,
}

impl Ranged for TimeAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = value / self.end;
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        0.0..self.end
    }
}
