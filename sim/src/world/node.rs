//! The store of a world: a server with a clock, a replica that lags behind, and troubles.

use std::collections::VecDeque;

use lockage_core::Timestamp;

use super::check::Truth;
use super::server::{Held, Server};

/// What the store's clock shows when the world begins: late in 2025.
const BEGINNING_US: i64 = 1_763_700_000_000_000;

pub(super) struct Node<'s> {
    pub(super) server: &'s mut dyn Server,
    ppm: i64,
    offset_us: i64,
    away_until_us: u64,
    /// One bit for each script that it knows.
    scripts: u8,
    /// What was written, and when, for the replica; nothing where none ever takes over.
    written: Option<VecDeque<Written>>,
    latest_us: u64,
    old: Option<Old>,
}

/// A primary that goes on for some clients after another one has taken over.
struct Old {
    clients: usize,
    until_us: u64,
    offset_us: i64,
    held: Held,
    truth: Truth,
}

struct Written {
    at_us: u64,
    held: Held,
    truth: Truth,
}

impl<'s> Node<'s> {
    pub(super) fn new(server: &'s mut dyn Server, ppm: i64, is_replicated: bool) -> Self {
        server.clear();
        let written = is_replicated.then(VecDeque::new);
        Node {
            server,
            ppm,
            offset_us: BEGINNING_US,
            away_until_us: 0,
            scripts: 0,
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
    pub(super) fn knows(&mut self, script: u8, is_told: bool) -> bool {
        let bit = 1 << script;
        if is_told {
            self.scripts |= bit;
        }
        self.scripts & bit != 0
    }

    pub(super) fn step_clock(&mut self, by_us: i64) {
        self.offset_us += by_us;
    }

    pub(super) fn crash(&mut self, until_us: u64) {
        self.away_until_us = self.away_until_us.max(until_us);
        self.scripts = 0;
    }

    /// Tells the replica of what may have been written just now.
    pub(super) fn replicate(&mut self, at_us: u64, truth: &Truth) {
        let Some(written) = &mut self.written else { return };
        let held = self.server.held();
        if written.back().is_none_or(|last| last.held != held) {
            written.push_back(Written { at_us, held, truth: truth.clone() });
        }
    }

    /// What went on beside it goes on no longer.
    pub(super) fn end_split(&mut self) {
        self.old = None;
    }

    /// Goes on as it is for the first so many clients, whatever takes over.
    pub(super) fn split(&mut self, clients: usize, until_us: u64, truth: &Truth) {
        let (offset_us, held, truth) = (self.offset_us, self.server.held(), truth.clone());
        self.old = Some(Old { clients, until_us, offset_us, held, truth });
    }

    /// Whether the old primary answers this client.
    pub(super) fn is_old(&self, client: usize, at_us: u64) -> bool {
        self.old.as_ref().is_some_and(|old| client < old.clients && at_us < old.until_us)
    }

    /// What is true of the old primary.
    pub(super) fn old_truth(&self) -> Option<&Truth> {
        self.old.as_ref().map(|old| &old.truth)
    }

    /// Lets the old primary and the new one change places.
    pub(super) fn swap(&mut self, truth: &mut Truth) {
        let Some(old) = &mut self.old else { return };
        let held = self.server.held();
        self.server.hold(&old.held);
        old.held = held;
        std::mem::swap(&mut old.truth, truth);
        std::mem::swap(&mut old.offset_us, &mut self.offset_us);
    }

    /// The replica takes over, which has not seen what was written after `seen_us`. What is true of its key;
    /// nothing where that is fresh.
    pub(super) fn fail_over(&mut self, seen_us: u64) -> Option<Truth> {
        let written = self.written.get_or_insert_default();
        while written.back().is_some_and(|last| last.at_us > seen_us) {
            written.pop_back();
        }
        let (held, truth) = match written.back() {
            Some(last) => (last.held.clone(), Some(last.truth.clone())),
            None => (None, None),
        };
        self.server.hold(&held);
        truth
    }
}
