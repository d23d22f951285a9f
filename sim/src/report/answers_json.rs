//! What is said of a limit beyond its counts, as JSON. The fields are described in [`super::json`].

use serde::Serialize;

use super::Limiter;
use crate::answers::{Point, Used};
use crate::dates;

#[derive(Serialize)]
pub(super) struct EnvelopeObject<'a> {
    law: &'a str,
    worst: UsedObject<'a>,
    window: UsedObject<'a>,
    curve: Vec<[u64; 3]>,
}

#[derive(Serialize)]
struct UsedObject<'a> {
    span_us: u64,
    admitted: u64,
    allowed: u64,
    used: f64,
    key: &'a str,
    from: String,
}

pub(super) fn envelope(limiter: &Limiter) -> Option<EnvelopeObject<'_>> {
    let measured = limiter.answers.measured.as_ref()?;
    let used = |used: &Used| UsedObject {
        span_us: used.span_us,
        admitted: used.admitted,
        allowed: used.allowed,
        used: used.share(),
        key: limiter.trace.key(used.key),
        from: dates::to_calendar(used.from).to_string(),
    };
    let point = |point: &Point| [point.span_us, point.admitted, point.allowed];
    Some(EnvelopeObject {
        law: &limiter.answers.laws,
        worst: used(&measured.worst),
        window: used(&measured.window),
        curve: measured.curve.iter().map(point).collect(),
    })
}
