//! The store of a world: a server with a clock, a replica that lags behind, and troubles.

use std::collections::VecDeque;

use lockage_core::Timestamp;

use super::check::Truth;
use super::server::{Held, MAX_KEYS, Server};

/// What the store's clock shows when the world begins: late in 2025.
const BEGINNING_US: i64 = 1_763_700_000_000_000;

/// No world lasts for so long: a hundred days.
const LONGEST_US: u64 = 1 << 43;

pub(super) struct Node<'s> {
    pub(super) server: &'s mut dyn Server,
    ppm: i64,
    offset_us: i64,
    away_until_us: u64,
    /// For each key, one bit for each script of it that is known: what is done with one key makes no difference
    /// to another one.
    scripts: [u16; MAX_KEYS],
    keys: usize,
    /// What was written to each key, and when, for the replica; nothing where none ever takes over.
    written: Option<Vec<VecDeque<Written>>>,
    latest_us: u64,
    old: Option<Old>,
}

/// A primary that goes on for some clients after another one has taken over.
struct Old {
    clients: usize,
    until_us: u64,
    offset_us: i64,
    held: Vec<Held>,
    truths: Vec<Truth>,
}

struct Written {
    at_us: u64,
    held: Held,
    truth: Truth,
}

impl<'s> Node<'s> {
    pub(super) fn new(
        server: &'s mut dyn Server,
        keys: usize,
        ppm: i64,
        is_replicated: bool,
    ) -> Self {
        server.clear();
        let written = is_replicated.then(|| empty(keys));
        Node {
            server,
            keys,
            ppm,
            offset_us: BEGINNING_US,
            away_until_us: 0,
            scripts: [0; MAX_KEYS],
            written,
            latest_us: 0,
            old: None,
        }
    }

    /// What its clock shows at a time of the world, unless it is set before then.
    pub(super) fn clock_us(&self, at_us: u64) -> u64 {
        let at_us = at_us as i64; // a world is short
        (self.offset_us + at_us + at_us * self.ppm / 1_000_000) as u64 // late in 2025
    }

    /// The time of the world at which its clock shows this, unless it is set before then; nothing where it leaves that out, showed
    /// it before the world began, or will once that is long over.
    pub(super) fn when(&self, clock_us: u64) -> Option<u64> {
        let since_us = i64::try_from(clock_us).ok()? - self.offset_us;
        let about_us = i128::from(since_us) * 1_000_000 / i128::from(1_000_000 + self.ppm);
        let about_us = u64::try_from(about_us).ok().filter(|about_us| *about_us < LONGEST_US)?;
        (about_us.saturating_sub(1)..=about_us + 1).find(|at_us| self.clock_us(*at_us) == clock_us)
    }

    pub(super) fn now(&self, at_us: u64) -> Timestamp {
        Timestamp::from_micros(self.clock_us(at_us)).expect("late in 2025")
    }

    /// Whether its clock now shows a time before one that it has shown.
    pub(super) fn is_back(&mut self, at_us: u64) -> bool {
        let now_us = self.clock_us(at_us);
        self.latest_us = self.latest_us.max(now_us);
        now_us < self.latest_us
    }

    pub(super) fn is_away(&self, at_us: u64) -> bool {
        at_us < self.away_until_us
    }

    /// Whether it knows this script, or is told it now.
    pub(super) fn knows(&mut self, key: usize, script: u8, is_told: bool) -> bool {
        let bit = 1 << script;
        if is_told {
            self.scripts[key] |= bit;
        }
        self.scripts[key] & bit != 0
    }

    pub(super) fn step_clock(&mut self, by_us: i64) {
        self.offset_us += by_us;
    }

    pub(super) fn crash(&mut self, until_us: u64) {
        self.away_until_us = self.away_until_us.max(until_us);
        self.scripts = [0; MAX_KEYS];
    }

    /// Tells the replica of what may have been written to a key just now.
    pub(super) fn replicate(&mut self, key: usize, at_us: u64, truth: &Truth) {
        let Some(written) = &mut self.written else { return };
        let (written, held) = (&mut written[key], self.server.held(key));
        if written.back().is_none_or(|last| last.held != held) {
            written.push_back(Written { at_us, held, truth: truth.clone() });
        }
    }

    /// What went on beside it goes on no longer.
    pub(super) fn end_split(&mut self) {
        self.old = None;
    }

    /// Goes on as it is for the first so many clients, whatever takes over.
    pub(super) fn split(&mut self, clients: usize, until_us: u64, truths: &[Truth]) {
        let (offset_us, held, truths) = (self.offset_us, self.held(), truths.to_vec());
        self.old = Some(Old { clients, until_us, offset_us, held, truths });
    }

    /// Whether the old primary answers this client.
    pub(super) fn is_old(&self, client: usize, at_us: u64) -> bool {
        self.old.as_ref().is_some_and(|old| client < old.clients && at_us < old.until_us)
    }

    /// What is true of the old primary's keys.
    pub(super) fn old_truths(&self) -> Option<&[Truth]> {
        self.old.as_ref().map(|old| &old.truths[..])
    }

    /// What the keys hold.
    fn held(&mut self) -> Vec<Held> {
        (0..self.keys).map(|key| self.server.held(key)).collect()
    }

    /// What the keys hold besides this one, where there are any.
    pub(super) fn held_beside(&mut self, key: usize) -> Vec<Held> {
        (0..self.keys).filter(|other| *other != key).map(|key| self.server.held(key)).collect()
    }

    /// Lets the old primary and the new one change places.
    pub(super) fn swap(&mut self, truths: &mut Vec<Truth>) {
        let held = self.held();
        let Some(old) = &mut self.old else { return };
        for (key, held) in old.held.iter().enumerate() {
            self.server.hold(key, held);
        }
        old.held = held;
        std::mem::swap(&mut old.truths, truths);
        std::mem::swap(&mut old.offset_us, &mut self.offset_us);
    }

    /// The replica takes over, which has not seen what was written after `seen_us`. What is true of its keys;
    /// nothing where one is fresh.
    pub(super) fn fail_over(&mut self, seen_us: u64) -> Vec<Option<Truth>> {
        let keys = self.keys;
        let written = self.written.get_or_insert_with(|| empty(keys));
        let mut truths = Vec::new();
        for (key, written) in written.iter_mut().enumerate() {
            while written.back().is_some_and(|last| last.at_us > seen_us) {
                written.pop_back();
            }
            let (held, truth) = match written.back() {
                Some(last) => (last.held.clone(), Some(last.truth.clone())),
                None => (Held::default(), None),
            };
            self.server.hold(key, &held);
            truths.push(truth);
        }
        truths
    }
}

fn empty(keys: usize) -> Vec<VecDeque<Written>> {
    (0..keys).map(|_| VecDeque::new()).collect()
}
