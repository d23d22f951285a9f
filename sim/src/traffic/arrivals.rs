//! The times of a shape's requests.

use std::f64::consts::{LN_2, TAU};
use std::time::Duration;

use lockage_core::Timestamp;

use super::closed::Thinking;
use super::form::Rate;
use super::random::{Chance, Stream};
use super::shape::{Shape, Stay};

/// After this many half-lives, floating-point numbers show nothing of a crowd.
const HALF_LIVES: u32 = 64;

impl Shape {
    /// Returns about how many requests come in `duration`: exact for `constant` and `burst`, no fewer than come for a
    /// `boundary-attack`, and the mean for random shapes; for a `closed-loop`, the mean if each request is answered at
    /// once.
    pub fn expected(&self, duration: Duration) -> u128 {
        let micros = duration.as_micros();
        let (time, per) = (micros as f64, |rate: &Rate| rate.per.as_micros());
        let mean = match self {
            Shape::Constant(rate) => return (micros * u128::from(rate.amount)).div_ceil(per(rate)),
            Shape::Poisson(rate) | Shape::Pareto { rate, .. } => {
                return micros * u128::from(rate.amount) / per(rate);
            }
            Shape::Burst { size, every } => {
                return micros.div_ceil(every.as_micros()) * u128::from(*size);
            }
            Shape::ClosedLoop { clients, think } => {
                return micros * u128::from(*clients) / think.as_micros();
            }
            Shape::BoundaryAttack(attack) => return attack.expected(micros),
            Shape::OnOff { on, off } => {
                // It begins on, and forgets that at this pace.
                let (first, second) = (micros_of(&on.time), micros_of(&off.time));
                let pace = 1.0 / first + 1.0 / second;
                let begun =
                    (per_micro(&on.rate) - per_micro(&off.rate)) * second / (first + second);
                time * mean_rate(&[*on, *off]) + begun * (1.0 - libm::exp(-pace * time)) / pace
            }
            Shape::Diurnal { low, high, every } => {
                let (low, high, every) = (per_micro(low), per_micro(high), micros_of(every));
                let wave = libm::sin(TAU * (time % every) / every) * every / TAU;
                low * time + (high - low) / 2.0 * (time - wave)
            }
            Shape::Ramp { from, to, over } => {
                let (from, to, over) = (per_micro(from), per_micro(to), micros_of(over));
                let rising = time.min(over);
                let reached = from + (to - from) * rising / over;
                (from + reached) / 2.0 * rising + to * (time - rising)
            }
            Shape::Steps(steps) => {
                let round: u128 = steps.iter().map(|step| step.time.as_micros()).sum();
                let mut left = (micros % round) as f64;
                let rest = steps.iter().map(|step| {
                    let stay = left.min(micros_of(&step.time));
                    left -= stay;
                    stay * per_micro(&step.rate)
                });
                let rest: f64 = rest.sum();
                (micros - micros % round) as f64 * mean_rate(steps) + rest
            }
            Shape::FlashCrowd { base, peak, at, half_life } => {
                let (base, peak) = (per_micro(base), per_micro(peak));
                let (after, half_life) = ((time - micros_of(at)).max(0.0), micros_of(half_life));
                let gone = 1.0 - libm::exp2(-after / half_life);
                base * time + (peak - base) * half_life / LN_2 * gone
            }
        };
        // Saturates: a number that is too large stays so.
        mean as u128
    }

    /// Returns about how much more than the mean of its requests must be drawn for `duration`: for `on-off` and `steps`
    /// the changes of the rate, for a closed loop its clients, for `pareto` the additional requests before the first of
    /// its long gaps, for `ramp` the draws at its highest rate that are thinned out, and for an attack on a composite
    /// the requests that it tries to place.
    pub(super) fn surplus(&self, duration: Duration) -> u128 {
        let of = |stays: &[Stay]| {
            let round: Duration = stays.iter().map(|stay| stay.time).sum();
            duration.as_micros() * stays.len() as u128 / round.as_micros()
        };
        match self {
            Shape::OnOff { on, off } => of(&[*on, *off]),
            Shape::Steps(steps) => of(steps),
            Shape::ClosedLoop { clients, .. } => u128::from(*clients),
            Shape::Pareto { tail, .. } => {
                (self.expected(duration) as f64 / (tail.to_f64() - 1.0)) as u128
            }
            Shape::Ramp { from, to, over } => {
                let rising = micros_of(&duration.min(*over));
                (per_micro(from).max(per_micro(to)) * rising) as u128
            }
            Shape::BoundaryAttack(attack) => attack.tries(),
            _ => 0,
        }
    }

    /// Calls `each` with the microseconds from `start` to every request before `micros`, in order.
    pub(super) fn each_offset(
        &self,
        start: Timestamp,
        micros: u64,
        seed: u64,
        each: &mut dyn FnMut(u64),
    ) {
        let mut chance = Chance::new(seed, Stream::Times);
        match self {
            Shape::Constant(rate) => {
                // From the beginning each time, so that no rounding adds up.
                let offset = |i: u128| i * rate.per.as_micros() / u128::from(rate.amount);
                let offsets = (0..).map(offset).take_while(|&offset| offset < u128::from(micros));
                offsets.for_each(|offset| each(offset as u64));
            }
            Shape::Poisson(rate) => {
                let mean = mean_gap(rate);
                with_gaps(micros, each, || chance.exponential() * mean);
            }
            Shape::Pareto { rate, tail } => {
                let (mean, tail) = (mean_gap(rate), tail.to_f64());
                with_gaps(micros, each, || chance.pareto(tail) * mean);
            }
            Shape::Burst { size, every } => {
                let bursts = (0..).map(|i| i * every.as_micros());
                let bursts = bursts.take_while(|&offset| offset < u128::from(micros));
                bursts.for_each(|offset| (0..*size).for_each(|_| each(offset as u64)));
            }
            Shape::BoundaryAttack(attack) => attack.each_offset(start, micros, each),
            Shape::ClosedLoop { clients, think } => {
                let mut thinking = Thinking::new(*clients, *think, micros, seed);
                while let Some((offset, client)) = thinking.pop() {
                    each(offset);
                    thinking.think(client, offset);
                }
            }
            Shape::OnOff { on, off } => {
                let mut stays = Chance::new(seed, Stream::Stays);
                let time = |stay: &Stay| stays.exponential() * micros_of(&stay.time);
                let sections = sections([on, off].into_iter().cycle(), time);
                thinned(micros, &mut chance, sections, |section, _| section.most, each);
            }
            Shape::Steps(steps) => {
                let sections = sections(steps.iter().cycle(), |step| micros_of(&step.time));
                thinned(micros, &mut chance, sections, |section, _| section.most, each);
            }
            Shape::Diurnal { low, high, every } => {
                let (low, high, every) = (per_micro(low), per_micro(high), micros_of(every));
                let all = Section { until: f64::INFINITY, most: low.max(high) };
                let rate = |_: &Section, at: f64| {
                    low + (high - low) * (1.0 - libm::cos(TAU * (at % every) / every)) / 2.0
                };
                thinned(micros, &mut chance, [all], rate, each);
            }
            Shape::Ramp { from, to, over } => {
                let (from, to, over) = (per_micro(from), per_micro(to), micros_of(over));
                let rising = Section { until: over, most: from.max(to) };
                let after = Section { until: f64::INFINITY, most: to };
                let rate = |_: &Section, at: f64| from + (to - from) * (at / over).min(1.0);
                thinned(micros, &mut chance, [rising, after], rate, each);
            }
            Shape::FlashCrowd { base, peak, at, half_life } => {
                let (base, peak) = (per_micro(base), per_micro(peak));
                let (begin, half_life) = (micros_of(at), micros_of(half_life));
                let rate = |at: f64| base + (peak - base) * libm::exp2(-(at - begin) / half_life);
                let decay = (0..HALF_LIVES).map(|i| {
                    let (from, until) =
                        (begin + f64::from(i) * half_life, begin + f64::from(i + 1) * half_life);
                    Section { until, most: rate(from).max(rate(until)) }
                });
                let before = Section { until: begin, most: base };
                let after = Section { until: f64::INFINITY, most: base };
                let sections = [before].into_iter().chain(decay).chain([after]);
                let rate = |_: &Section, at: f64| if at < begin { base } else { rate(at) };
                thinned(micros, &mut chance, sections, rate, each);
            }
        }
    }
}

/// A span in which no rate is above `most`, up to `until`; in requests and in microseconds.
struct Section {
    until: f64,
    most: f64,
}

/// Returns the stays as sections, one after the other.
fn sections<'a>(
    stays: impl Iterator<Item = &'a Stay>,
    mut time: impl FnMut(&Stay) -> f64,
) -> impl Iterator<Item = Section> {
    stays.scan(0.0, move |end, stay| {
        *end += time(stay);
        Some(Section { until: *end, most: per_micro(&stay.rate) })
    })
}

/// Makes requests with these gaps, and one before the first.
fn with_gaps(micros: u64, each: &mut dyn FnMut(u64), mut gap: impl FnMut() -> f64) {
    let mut offset = gap();
    while offset < micros as f64 {
        each(offset as u64);
        offset += gap();
    }
}

/// Makes a Poisson process whose rate changes, by thinning (Lewis and Shedler, "Simulation of nonhomogeneous Poisson
/// processes by thinning", 1979): requests of the highest rate, each kept with the rate's share of it. A Poisson
/// process has no memory, so each section begins anew.
fn thinned(
    micros: u64,
    chance: &mut Chance,
    sections: impl IntoIterator<Item = Section>,
    rate: impl Fn(&Section, f64) -> f64,
    each: &mut dyn FnMut(u64),
) {
    let (mut at, end) = (0.0, micros as f64);
    for section in sections {
        let until = section.until.min(end);
        if section.most > 0.0 {
            loop {
                at += chance.exponential() / section.most;
                if at >= until {
                    break;
                }
                if chance.uniform() * section.most <= rate(&section, at) {
                    each(at as u64);
                }
            }
        }
        at = until;
        if until >= end {
            return;
        }
    }
}

fn mean_rate(stays: &[Stay]) -> f64 {
    let requests = stays.iter().map(|stay| per_micro(&stay.rate) * micros_of(&stay.time));
    requests.sum::<f64>() / stays.iter().map(|stay| micros_of(&stay.time)).sum::<f64>()
}

fn mean_gap(rate: &Rate) -> f64 {
    micros_of(&rate.per) / rate.amount as f64
}

fn per_micro(rate: &Rate) -> f64 {
    rate.amount as f64 / micros_of(&rate.per)
}

fn micros_of(time: &Duration) -> f64 {
    time.as_micros() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn offsets(shape: &Shape, seconds: u64, seed: u64) -> Vec<u64> {
        let mut offsets = Vec::new();
        let start = Timestamp::from_micros(5).unwrap();
        shape.each_offset(start, seconds * SECOND, seed, &mut |offset| offsets.push(offset));
        offsets
    }

    /// Returns the number of requests from one second to another one, over `seeds` seeds.
    fn count(shape: &str, seeds: u64, from: u64, to: u64) -> f64 {
        let shape = shape.parse().unwrap();
        let within = (0..seeds).map(|seed| {
            let offsets = offsets(&shape, to, seed);
            offsets.iter().filter(|offset| **offset >= from * SECOND).count()
        });
        within.sum::<usize>() as f64
    }

    const RANDOM: [&str; 10] = [
        "closed-loop 20 clients think 2s",
        "poisson 10/s",
        "on-off 50/s for 1s, 1/s for 3s",
        "pareto 10/s tail 2.5",
        "diurnal 1/s to 30/s every 40s",
        "diurnal 30/s to 0/s every 7s",
        "ramp 1/s to 30/s over 70s",
        "steps 0/s for 3s, 30/s for 2s, 5/s for 10s",
        "flash-crowd 2/s peak 100/s at 20s half-life 5s",
        "ramp 30/s to 0/s over 1000s",
    ];

    #[test]
    fn each_shape_has_its_mean() {
        for text in RANDOM {
            let shape: Shape = text.parse().unwrap();
            let seeds = 100;
            for seconds in [10, 33, 100] {
                let expected = shape.expected(Duration::from_secs(seconds)) as f64 * seeds as f64;
                let count = count(text, seeds, 0, seconds);
                // A count's variance is its mean; that of on-off is 52 times as much, for its stays.
                let spread = if text.starts_with("on-off") { 52.0 * expected } else { expected };
                let bound = 5.0 * spread.sqrt() + seeds as f64;
                assert!(
                    (count - expected).abs() < bound,
                    "{text}, {seconds} s: {count}, {expected}"
                );
            }
        }
    }

    #[test]
    fn no_request_is_outside_and_one_seed_gives_one_trace() {
        for text in RANDOM {
            let shape: Shape = text.parse().unwrap();
            for seed in 0..20 {
                let offsets = offsets(&shape, 60, seed);
                assert!(offsets.is_sorted() && *offsets.last().unwrap() < 60 * SECOND, "{text}");
                assert_eq!(offsets, self::offsets(&shape, 60, seed), "{text}");
                assert_ne!(offsets, self::offsets(&shape, 60, seed + 1), "{text}");
            }
        }
    }

    /// Returns whether two counts of random requests differ by no more than chance.
    fn alike(a: f64, b: f64) -> bool {
        (a - b).abs() < 5.0 * (a + b).sqrt()
    }

    #[test]
    fn a_crowd_comes_at_its_time_and_halves_in_its_half_life() {
        let shape = "flash-crowd 0/s peak 100/s at 20s half-life 5s";
        assert_eq!(count(shape, 20, 0, 20), 0.0);
        let lives = [0, 1, 2, 3].map(|i| count(shape, 20, 20 + 5 * i, 25 + 5 * i));
        assert!(alike(lives[0], 20.0 * 100.0 * 5.0 / LN_2 / 2.0), "{lives:?}");
        assert!((1..4).all(|i| alike(lives[i] * 2.0, lives[i - 1])), "{lives:?}");
    }

    #[test]
    fn a_day_is_lowest_at_its_ends_and_highest_in_its_middle() {
        let shape = "diurnal 0/s to 100/s every 40s";
        let tenth = |i: u64| count(shape, 20, 4 * i, 4 * i + 4);
        // The mean of (1 - cos) / 2 over the first tenth and over the two about the middle.
        assert!(alike(tenth(0), 20.0 * 400.0 * 0.0323), "{}", tenth(0));
        assert!(alike(tenth(4), 20.0 * 400.0 * 0.9677), "{}", tenth(4));
        assert!(alike(tenth(9), tenth(0)));
        assert!(alike(tenth(14), tenth(4)));
    }

    #[test]
    fn steps_change_at_their_times_and_begin_again() {
        let shape = "steps 0/s for 3s, 30/s for 2s, 5/s for 10s";
        let counts = [(0, 3), (3, 5), (5, 15), (15, 18), (18, 20)]
            .map(|(from, to)| count(shape, 50, from, to));
        assert_eq!((counts[0], counts[3]), (0.0, 0.0));
        assert!(alike(counts[1], 3000.0) && alike(counts[2], 2500.0), "{counts:?}");
        assert!(alike(counts[4], 3000.0), "{counts:?}");
    }

    #[test]
    fn on_off_begins_on_and_stays_for_random_times() {
        let shape: Shape = "on-off 1000/s for 1s, 0/s for 1s".parse().unwrap();
        let mut stays = Vec::new();
        for seed in 0..2000 {
            let offsets = offsets(&shape, 30, seed);
            // Within a stay no gap is as long as 50 of the mean ones; nearly no pause is so short.
            let end = offsets.windows(2).find(|pair| pair[1] - pair[0] > 20_000);
            stays.push(end.unwrap()[0]);
        }
        let mean = stays.iter().sum::<u64>() / 2000;
        assert!((900_000..1_120_000).contains(&mean), "{mean}");
        // The median of an exponential distribution is ln 2 of its mean.
        stays.sort_unstable();
        assert!((620_000..800_000).contains(&stays[1000]), "{}", stays[1000]);
    }
}
