//! Limiters that other projects publish today, judged on short traces as the entries are.

use serde::Deserialize;

use super::Property;
use super::judge;
use super::stage::{Alphabet, Judge, Stage, search};
use super::step::{Deed, Event, Seen, Step, timed};
use super::subject::{Ask, Clocks, Foreign, Limiter, World};

const S: u64 = 1_000_000;

/// How many microseconds the clock of B is ahead.
const CLOCKS: Clocks = &[('B', 10 * S as i64)];

/// The setup in which a limiter is tried.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Its limit, in lockage's notation.
    pub limit: &'static str,
    /// The permits that it admits at once: trials ask for 1, for one less than this, and for one
    /// more.
    pub capacity: u64,
    /// The length of its window, or the time that its bucket takes to refill, in microseconds.
    pub period_us: u64,
    /// The length of a wait, in microseconds.
    pub wait_us: u64,
    /// Whether its limit means the same as in the reference, unlike calendar windows and estimates.
    /// Only such limits are tried for D1.
    pub is_exact: bool,
    /// Whether clients send it the time: only then is it tried for D10.
    pub is_told_the_time: bool,
}

/// A property that does not hold.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The broken property.
    pub property: Property,
    /// How it is broken.
    pub why: String,
    /// A trace that breaks it. No shorter trace of these steps does.
    pub trace: Vec<Event>,
}

impl Trial {
    /// Returns the properties that a client breaks.
    ///
    /// # Errors
    /// Returns the client's error if its first call fails: the simulated store lacks something that
    /// it needs.
    pub fn of(
        &self,
        client: impl Fn(&mut World, &Ask) -> Option<Seen> + 'static,
    ) -> Result<Vec<Finding>, String> {
        let stage = Stage::new(Foreign::by_clocks(CLOCKS, client));
        let first = self.tries().swap_remove(0).2.steps[0];
        if let Some(Seen::Failed(error)) = stage.last_of(&timed(&[first], 0)) {
            return Err(error);
        }
        let found = self.tries().into_iter().filter_map(|tried| finding(&stage, tried));
        let mut found: Vec<Finding> = found.collect();
        found.sort_by_key(|finding| finding.property);
        found.dedup_by_key(|finding| finding.property);
        Ok(found)
    }

    /// Returns the properties that the shipped limiter breaks: none, unless it or a judge is wrong.
    pub fn of_shipped(&self) -> Vec<Finding> {
        let subject = |property| match property {
            Property::D10 => Limiter::by_clocks(self.limit, CLOCKS),
            _ => Limiter::under(self.limit),
        };
        let tries = self.tries().into_iter();
        tries.filter_map(|tried| finding(&Stage::new(subject(tried.0)), tried)).collect()
    }

    /// Returns the properties, each with its judge and the steps of its traces.
    fn tries(&self) -> Vec<(Property, Judge, Alphabet)> {
        use Property::*;
        let by = |who: char, deed: Deed| Step::By(who, deed);
        let of = |steps: &[Step], depth| Alphabet { steps: steps.to_vec(), gap_us: 0, depth };
        let &Trial { limit, capacity, period_us, wait_us, is_exact, is_told_the_time } = self;
        let asks = |who| [by(who, Deed::Acquire(1)), by(who, Deed::Acquire(capacity - 1))];
        let with = |more: &[Step], depth| of(&[&asks('A'), more].concat(), depth);
        let short = || with(&[Step::Wait(wait_us)], 5);
        // Expiries may be rounded up to seconds.
        let forgotten = 3 * period_us + 2 * S;
        let mut all = vec![
            (envelope_of(limit), judge::envelopes(limit), short()),
            (D2, judge::d2(), of(&[by('A', Deed::Acquire(capacity + 1))], 1)),
            (D2, judge::d2(), short()),
            (D4, judge::d4(), short()),
            (D5, judge::probes_change_nothing(), short()),
            (D8, judge::d8(), short()),
            (D9, judge::d9_is_forgotten(forgotten), with(&[Step::Wait(forgotten)], 3)),
            (D12, judge::d12(), short()),
        ];
        if is_exact {
            all.push((D1, judge::as_reference(limit), short()));
        }
        if is_told_the_time {
            all.push((D10, judge::d10(limit, CLOCKS), with(&asks('B'), 4)));
        }
        all
    }
}

fn finding(
    stage: &Stage,
    (property, judge, steps): (Property, Judge, Alphabet),
) -> Option<Finding> {
    let (trace, why) = search(stage, &steps, &judge).found?;
    Some(Finding { property, why, trace: stage.play(&trace).expect("it was played before") })
}

/// Returns the envelope property of a limit.
fn envelope_of(limit: &str) -> Property {
    match limit.split(' ').next() {
        Some("fixed-window") => Property::E1,
        Some("sliding-log") => Property::E2,
        Some("sliding-window") => Property::E3,
        _ if limit.contains(" every ") => Property::E5,
        _ => Property::E4,
    }
}
