//! Axes with labels at round values, also of times and logarithms.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

use super::words::{grouped, span};

/// A linear or a logarithmic axis, with its labels.
#[derive(Clone)]
pub(super) struct Axis {
    range: Range<f64>,
    is_logarithmic: bool,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Returns an axis from zero to `end`.
    pub(super) fn linear(end: f64, ticks: Vec<(f64, String)>) -> Axis {
        Axis { range: 0.0..end, is_logarithmic: false, ticks }
    }

    /// Returns an axis of spans of time in microseconds, on a logarithmic scale.
    pub(super) fn spans(from: u64, to: u64) -> Axis {
        const SECOND: u64 = 1_000_000;
        let below_a_minute = (0..8).map(|power| 10u64.pow(power));
        let above = [60, 600, 3600, 6 * 3600].map(|seconds| seconds * SECOND);
        let days = (0..6).map(|power| 10u64.pow(power) * 24 * 3600 * SECOND);
        let ticks = below_a_minute.chain(above).chain(days).map(|micros| (micros, span(micros)));
        Axis::logarithmic(from, to, ticks)
    }

    /// Returns an axis of amounts on a logarithmic scale, from 1 on.
    pub(super) fn amounts(to: u64) -> Axis {
        let steps: &[u64] = if to < 200 { &[1, 2, 5] } else { &[1] };
        let powers = (0..19).map(|power| 10u64.pow(power));
        let ticks = powers.flat_map(|power| steps.iter().map(move |step| step * power));
        Axis::logarithmic(1, to, ticks.map(|amount| (amount, grouped(amount))))
    }

    /// Returns an axis of percentages on a logarithmic scale, from half of one of `count` things on.
    pub(super) fn percents(count: u64) -> Axis {
        let least = 50.0 / count.max(1) as f64;
        let powers = (-9..=2).map(|power: i32| libm::pow(10.0, f64::from(power)));
        let ticks = powers.filter(|tick| *tick >= least).map(|tick| (tick, format!("{tick}%")));
        Axis { range: least..100.0, is_logarithmic: true, ticks: ticks.collect() }
    }

    fn logarithmic(from: u64, to: u64, ticks: impl Iterator<Item = (u64, String)>) -> Axis {
        // An axis of no length has no scale.
        let to = to.max(from.saturating_mul(2));
        let within = ticks.filter(|(tick, _)| (from..=to).contains(tick));
        let ticks = within.map(|(tick, label)| (tick as f64, label)).collect();
        Axis { range: from as f64..to as f64, is_logarithmic: true, ticks }
    }

    /// Returns the label of a tick.
    pub(super) fn label(&self, value: f64) -> String {
        let tick = self.ticks.iter().find(|(tick, _)| *tick == value);
        tick.map_or(String::new(), |(_, label)| label.clone())
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let Range { start, end } = self.range;
        let share = match self.is_logarithmic {
            true => libm::log(value / start) / libm::log(end / start),
            false => (value - start) / (end - start),
        };
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(tick, _)| *tick).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decade_is_as_wide_as_the_others() {
        let axis = Axis::spans(1, 1_000_000);
        let places = [1.0, 10.0, 1_000.0, 1_000_000.0].map(|value| axis.map(&value, (0, 600)));
        assert_eq!(places, [0, 100, 300, 600]);
        assert_eq!(axis.label(1_000.0), "1 ms");
        assert_eq!(Axis::amounts(10).ticks.len(), 4);
        let labels: Vec<String> = Axis::percents(1000).ticks.into_iter().map(|(_, l)| l).collect();
        assert_eq!(labels, ["0.1%", "1%", "10%", "100%"]);
    }
}
