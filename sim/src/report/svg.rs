//! Charts admitted and denied requests over time.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use thiserror::Error;

use super::axis::Axis;
use super::bins::{Bin, Bins};
use super::words::{grouped, percent};
use super::{Limiter, Report, envelope_chart, state_chart};
use crate::input::{printable, shorten};

// Blue and orange: distinct with every common kind of colour blindness, and in grey.
pub(super) const ADMITTED: RGBColor = RGBColor(0x4c, 0x86, 0xc6);
pub(super) const DENIED: RGBColor = RGBColor(0xf2, 0x8e, 0x2b);
pub(super) const TEXT: RGBColor = RGBColor(0x33, 0x33, 0x33);
pub(super) const GRID: RGBColor = RGBColor(0xe6, 0xe6, 0xe6);
pub(super) const FONT: &str = "sans-serif";

pub(super) const WIDTH: u32 = 1100;
const TITLE_HEIGHT: u32 = 64;
const PANEL_HEIGHT: u32 = 250;
/// Room at the left of every panel, for the labels of its axis.
pub(super) const LEFT: u32 = 76;
/// The part of it that keeps the axis's upright description off the edge.
pub(super) const DESCRIPTION: u32 = 10;
pub(super) const RIGHT: u32 = 24;
const MOST_BINS: usize = 200;

/// A chart that could not be drawn.
#[derive(Debug, Error)]
#[error("cannot draw the chart: {0}")]
pub struct ChartError(String);

impl ChartError {
    pub(super) fn of(error: Failure) -> ChartError {
        ChartError(error.to_string())
    }
}

/// Draws the report as an SVG: per limiter the outcomes over time, the remaining amount for the key denied most, and
/// admissions under the envelope.
///
/// # Errors
/// [`ChartError`] if the drawing library fails.
pub fn to_string(report: &Report) -> Result<String, ChartError> {
    let mut text = String::new();
    draw(report, &mut text).map_err(ChartError::of)?;
    Ok(text)
}

fn draw(report: &Report, text: &mut String) -> Result<(), Failure> {
    let panels = u32::try_from(report.limiters.len())?;
    let measured = report.limiters.iter().filter_map(|limiter| limiter.answers.measured.as_ref());
    let envelopes = u32::try_from(measured.count())?;
    let height = TITLE_HEIGHT
        + (PANEL_HEIGHT + state_chart::HEIGHT) * panels
        + envelope_chart::HEIGHT * envelopes;
    let root = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (title, mut rest) = root.split_vertically(TITLE_HEIGHT);
    let style = (FONT, 18).into_font().color(&TEXT);
    let headline = format!("{}, {}", report.headline(), report.period());
    title.draw(&Text::new(shorten(&headline, 120), (LEFT as i32, 14), style))?;
    draw_legend(&title)?;

    let bins = Bins::covering(report.span(), MOST_BINS);
    for limiter in &report.limiters {
        let (panel, others) = rest.split_vertically(PANEL_HEIGHT);
        draw_panel(&panel, limiter, &bins, &bins.fill(&limiter.trace, &limiter.outcomes))?;
        rest = others;
        let (panel, others) = rest.split_vertically(state_chart::HEIGHT);
        if let Some(state) = &limiter.answers.state {
            state_chart::draw(&panel, limiter, state, &bins)?;
        }
        rest = others;
        if let Some(measured) = &limiter.answers.measured {
            let (panel, others) = rest.split_vertically(envelope_chart::HEIGHT);
            envelope_chart::draw(&panel, limiter, measured)?;
            rest = others;
        }
    }
    root.present()?;
    Ok(())
}

pub(super) type Failure = Box<dyn std::error::Error>;
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_legend(area: &Area<'_>) -> Result<(), Failure> {
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
) -> Result<(), Failure> {
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
    let time = Axis::linear(bins.count as f64, ticks);
    let mut chart = ChartBuilder::on(area)
        .margin_top(32)
        .margin_right(RIGHT)
        .margin_left(DESCRIPTION)
        .x_label_area_size(42)
        .y_label_area_size(LEFT - DESCRIPTION)
        .build_cartesian_2d(time.clone(), 0.0..most as f64 * 1.05)?;
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
        .x_label_formatter(&|place| time.label(*place))
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

/// Returns the label of a count: empty between whole numbers.
pub(super) fn whole(count: f64) -> String {
    if count.fract() == 0.0 { grouped(count as u64) } else { String::new() }
}
