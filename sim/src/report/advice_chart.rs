//! Charts limits against the clients and requests that they deny, on logarithmic axes.

use plotters::prelude::*;

use super::axis::Axis;
use super::svg::{Area, ChartError, FONT, Failure, LEFT, TEXT, WIDTH};
use super::words::duration;
use super::{AdviceReport, panel};
use crate::advise::{Denies, Family, Kind};
use crate::input::shorten;

const TITLE_HEIGHT: u32 = 64;
const PANEL_HEIGHT: u32 = 300;

// Distinct with every common kind of colour blindness (Okabe and Ito).
const COLORS: [RGBColor; 4] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
];

/// Draws the trade-off as an SVG: per window a panel of denied clients and one of denied requests.
///
/// # Errors
/// [`ChartError`] if the drawing library fails.
pub fn to_string(report: &AdviceReport) -> Result<String, ChartError> {
    let mut text = String::new();
    draw(report, &mut text).map_err(ChartError::of)?;
    Ok(text)
}

fn draw(report: &AdviceReport, text: &mut String) -> Result<(), Failure> {
    let windows: Vec<&[Family]> =
        report.advice.families.chunk_by(|a, b| a.window == b.window).collect();
    let height = TITLE_HEIGHT + PANEL_HEIGHT * u32::try_from(windows.len())?;
    let root = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (title, mut rest) = root.split_vertically(TITLE_HEIGHT);
    let style = (FONT, 18).into_font().color(&TEXT);
    let headline = shorten(&format!("{}, {}", report.headline(), report.period()), 120);
    title.draw(&Text::new(headline, (LEFT as i32, 14), style))?;
    let mut x = LEFT as i32;
    for (kind, color) in Kind::ALL.iter().zip(COLORS) {
        title.draw(&Rectangle::new([(x, 43), (x + 14, 57)], color.filled()))?;
        let style = (FONT, 15).into_font().color(&TEXT);
        title.draw(&Text::new(kind.name(), (x + 20, 43), style))?;
        x += 150;
    }
    for families in windows {
        let (panel, others) = rest.split_vertically(PANEL_HEIGHT);
        let (left, right) = panel.split_horizontally(WIDTH / 2);
        let (clients, requests) = (report.advice.clients, report.advice.requests);
        let share = report.advice.may_deny as f64 / clients as f64 * 100.0;
        draw_panel(&left, "clients denied", families, &|at| at.clients, clients, Some(share))?;
        draw_panel(&right, "requests denied", families, &|at| at.requests, requests, None)?;
        rest = others;
    }
    root.present()?;
    Ok(())
}

/// Draws one window: a line per kind, and a grey one at the share that may be denied.
fn draw_panel(
    area: &Area<'_>,
    what: &str,
    families: &[Family],
    denied: &dyn Fn(&Denies) -> u64,
    all: u64,
    may_deny: Option<f64>,
) -> Result<(), Failure> {
    let window = families.first().map_or(String::new(), |family| duration(family.window));
    let largest = families.iter().flat_map(|family| &family.curve).map(|at| at.amount).max();
    let (amounts, shares) = (Axis::amounts(largest.unwrap_or(1)), Axis::percents(all));
    let caption = format!("{what}, by the limit per {window}");
    let limit_per = format!("limit per {window}");
    let mut chart = panel::draw(area, caption, (amounts, &limit_per), (shares, what))?;
    for family in families {
        let color = COLORS[family.kind as usize];
        // Zero has no place on a logarithmic axis: a line ends before it.
        let shown = family.curve.iter().filter(|at| denied(at) > 0);
        let points = shown.map(|at| (at.amount as f64, denied(at) as f64 * 100.0 / all as f64));
        let points: Vec<(f64, f64)> = points.collect();
        let dots = points.iter().map(|point| Circle::new(*point, 2, color.filled()));
        chart.draw_series(dots)?;
        chart.draw_series([PathElement::new(points, color.stroke_width(2))])?;
    }
    if let Some(share) = may_deny.filter(|share| *share > 0.0) {
        let ends = [(1.0, share), (largest.unwrap_or(1).max(2) as f64, share)];
        chart.draw_series([PathElement::new(ends, TEXT.stroke_width(1))])?;
    }
    Ok(())
}
