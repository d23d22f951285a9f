//! Charts A(T) under the envelope, on logarithmic axes.

use plotters::prelude::*;

use super::axis::Axis;
use super::svg::{ADMITTED, Area, DENIED, Failure, LEFT, TEXT};
use super::words::{grouped, ratio, span};
use super::{Limiter, panel};
use crate::answers::{Measured, Point, Used};
use crate::input::{printable, shorten};

/// The height of a panel.
pub(super) const HEIGHT: u32 = 320;

/// Draws A(T), the envelope, and where they are closest.
pub(super) fn draw(area: &Area<'_>, limiter: &Limiter, measured: &Measured) -> Result<(), Failure> {
    let Measured { worst, curve, .. } = measured;
    let highest = curve.iter().map(|point| point.admitted.max(point.allowed)).max().unwrap_or(1);
    let lengths = (curve.first(), curve.last());
    let (from, to) = match lengths {
        (Some(first), Some(last)) => (first.span_us, last.span_us),
        _ => (worst.span_us, worst.span_us),
    };
    let (spans, amounts) = (Axis::spans(from, to), Axis::amounts(highest.saturating_mul(2)));
    let (x, y) = ((spans, "length of a span, T"), (amounts, "most in any such span"));
    let mut chart = panel::draw(area, caption(limiter, worst), x, y)?;

    let line = |amount: fn(&Point) -> u64, style: ShapeStyle| {
        let points = curve.iter().map(|point| (point.span_us as f64, amount(point) as f64));
        PathElement::new(points.collect::<Vec<_>>(), style)
    };
    chart.draw_series([
        line(|point| point.allowed, DENIED.stroke_width(2)),
        line(|point| point.admitted, ADMITTED.stroke_width(3)),
    ])?;
    let place = (worst.span_us as f64, worst.admitted as f64);
    chart.draw_series([Circle::new(place, 6, TEXT.stroke_width(2))])?;

    let (mut x, y) = ((LEFT + 20) as i32, 44);
    for (color, name) in [(DENIED, "the envelope"), (ADMITTED, "admitted, A(T)")] {
        area.draw(&Rectangle::new([(x, y), (x + 14, y + 14)], color.filled()))?;
        area.draw(&Text::new(name, (x + 20, y), panel::labels()))?;
        x += 130;
    }
    area.draw(&Circle::new((x + 7, y + 7), 6, TEXT.stroke_width(2)))?;
    area.draw(&Text::new("where most is used", (x + 20, y), panel::labels()))?;
    Ok(())
}

fn caption(limiter: &Limiter, worst: &Used) -> String {
    let spec = shorten(&printable(&limiter.spec), 60);
    let (admitted, allowed) = (grouped(worst.admitted), grouped(worst.allowed));
    let (laws, length) = (&limiter.answers.laws, span(worst.span_us));
    format!(
        "{spec} under {laws}: {admitted} of {allowed} in {length} ({})",
        ratio(worst.admitted, worst.allowed)
    )
}
