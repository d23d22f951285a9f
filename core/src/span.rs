//! Prints durations in the units of limits.

use core::fmt;
use core::time::Duration;

/// The units that are printed, largest first.
const UNITS: [(&str, u128); 6] = [
    ("day", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1000),
    ("us", 1),
];

/// Prints a number and the largest unit that divides the duration: `90s`, `1day`.
pub(crate) struct Span(pub(crate) Duration);

/// Prints a duration after a slash, without the number if it is one: `/min`.
pub(crate) struct Per(pub(crate) Duration);

fn in_units(span: Duration) -> (u128, &'static str) {
    let micros = span.as_micros();
    let divides = |(_, unit): &&(&str, u128)| micros.is_multiple_of(*unit);
    // Invariant: the last unit is one microsecond, which divides everything.
    let (name, unit) = UNITS.iter().find(divides).unwrap_or(&UNITS[5]);
    (micros / unit, name)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = in_units(self.0);
        write!(f, "{count}{unit}")
    }
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match in_units(self.0) {
            (1, unit) => f.write_str(unit),
            (count, unit) => write!(f, "{count}{unit}"),
        }
    }
}
