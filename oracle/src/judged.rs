//! Observed operations, and the verdicts of laws on them.

use crate::property::{Property, Violation};

/// One operation, and its visible effects.
#[derive(Clone, Copy, Debug)]
pub struct Seen<O, R> {
    /// The operation itself.
    pub op: O,
    /// The store's time, in microseconds.
    pub now_us: u64,
    /// Its outcome.
    pub outcome: R,
    /// Whether the key was there before.
    pub was_there: bool,
    /// Whether it changed the contents, as far as its laws regard them; `None` if that is not visible.
    pub changed: Option<bool>,
}

/// The verdict on an operation; `C` are the cases that it may be an example of.
#[derive(Clone, Debug)]
pub struct Verdict<C> {
    /// The violations, the most significant first.
    pub broken: Vec<Violation>,
    /// The cases, in the light of earlier operations.
    pub cases: Vec<C>,
}

impl<O, R> Seen<O, R> {
    /// Returns the same operation in other terms.
    pub fn told<P, S>(&self, op: P, outcome: S) -> Seen<P, S> {
        let Seen { now_us, was_there, changed, .. } = *self;
        Seen { op, now_us, outcome, was_there, changed }
    }
}

impl<C> Default for Verdict<C> {
    fn default() -> Self {
        Verdict { broken: Vec::new(), cases: Vec::new() }
    }
}

impl<C> Verdict<C> {
    pub(crate) fn broke(&mut self, law: Property, why: &str) {
        self.broken.push(law.broken(why.to_owned()));
    }

    pub(crate) fn saw(&mut self, case: C) {
        self.cases.push(case);
    }
}

/// Checks L6: the grant of which its holder is sure until `ends_us` lasts until then by the store's clock.
pub(crate) fn covers(token: u64, deadline_us: Option<u64>, ends_us: u64) -> Result<(), Violation> {
    let what = match deadline_us {
        Some(deadline_us) if ends_us <= deadline_us => return Ok(()),
        Some(deadline_us) => format!(
            "the holder of token {token} is sure of it for {} us longer than the store",
            ends_us - deadline_us
        ),
        None => format!("a client is sure of token {token}, which no grant has"),
    };
    Err(Property::L6.broken(what))
}
