//! Bugs that other projects shipped, each of which a property kills; and some of our own, so that
//! each property kills one.
//!
//! An [`Entry`] is a limiter, a lock or a client with a bug: a script with the behavior of its
//! project's script, run on the simulated store, a machine, or the flow of a client. It comes with
//! the few steps that reproduce its bug. [`Entry::play`] plays all traces of these steps, the
//! shorter ones first, until one breaks the property, so no shorter one does. The shipped
//! counterpart plays the same traces under the same judge, and must pass.
//!
//! Each property kills one entry, except two that no entry can show: L7 is up to the fenced
//! resource, which keeps its own order, and L11 is no promise: a failover can lose a grant.
//!
//! ```
//! use lockage_world::museum::{Property, entries};
//!
//! let refreshed = entries().into_iter().find(|entry| entry.bug == Some(2)).expect("it is one of them");
//! let played = refreshed.play();
//! assert_eq!(refreshed.property, Property::D1);
//! assert!(played.is_killed() && played.control_holds());
//! assert_eq!(played.trace.len(), 5);
//! ```

mod entries;
mod judge;
mod judge_lock;
mod stage;
mod step;
mod subject;
mod trial;

use std::fmt;

pub use lockage_oracle::property::Property;
pub use step::{Deed, Event, Hold, Seen, Step};
pub use subject::{Ask, World};
pub use trial::{Finding, Trial};

use stage::{Alphabet, Judge, Search, Stage, Subject, search};
use step::{Timed, timed};

/// The properties that kill an entry.
pub const PROPERTIES: [Property; 27] = {
    use Property::*;
    [
        E1, E2, E3, E4, E5, D1, D2, D3, D4, D5, D6, D7, D8, D9, D10, D11, D12, L1, L2, L3, L4, L5,
        L6, L8, L9, L10, InputGuard,
    ]
};

/// A bug, and how it is found.
pub struct Entry {
    /// Its number among the bugs of other projects; `None` for one of our own.
    pub bug: Option<u8>,
    /// The name of the entry.
    pub name: &'static str,
    /// The project in which it was seen.
    pub seen_in: &'static str,
    /// The kind of program that has the bug.
    pub kind: Kind,
    /// The property that kills it.
    pub property: Property,
    /// A description of the bug.
    pub about: &'static str,
    /// The setup: the limit, the clocks.
    pub scene: &'static str,
    broken: Maker,
    /// The shipped counterpart.
    shipped: Maker,
    judge: Judge,
    way: Way,
}

/// The kind of program that has a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A state machine in Rust.
    Machine,
    /// A script in Lua.
    Script,
    /// The flow of a client.
    Flow,
}

type Maker = Box<dyn Fn() -> Box<dyn Subject> + Send + Sync>;

/// How the trace is found.
enum Way {
    /// All traces of some steps are played.
    Searched(Alphabet),
    /// The trace is given.
    Given { steps: Vec<Step>, because: &'static str },
}

/// The result of playing an entry.
#[derive(Clone, Debug)]
pub struct Played {
    /// The trace that breaks the property, step by step; empty if none was found.
    pub trace: Vec<Event>,
    /// How the trace breaks the property.
    pub why: Option<String>,
    /// How it was found.
    pub found: Found,
    /// The number of traces played before that one.
    pub tried: usize,
    /// The results of the same steps on the shipped counterpart.
    pub shipped: Vec<Seen>,
    /// How many traces the shipped counterpart passes: all that it can play.
    pub control_passed: usize,
    /// The most steps in these traces.
    pub control_depth: usize,
    /// The trace with which the shipped counterpart breaks the property too, and how: then the
    /// judge is wrong.
    pub control_broken: Option<(Vec<Step>, String)>,
}

/// How a trace was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All shorter traces were played, and break nothing.
    Minimal {
        /// The number of shorter traces.
        shorter: usize,
    },
    /// The trace was given.
    Given {
        /// Why all traces cannot be played.
        because: &'static str,
    },
}

impl Played {
    /// Returns whether the property was broken.
    pub fn is_killed(&self) -> bool {
        self.why.is_some()
    }

    /// Returns whether the shipped counterpart passes.
    pub fn control_holds(&self) -> bool {
        self.control_broken.is_none() && self.control_passed > 0
    }

    /// Returns whether the entry is killed and the shipped counterpart passes.
    pub fn is_right(&self) -> bool {
        self.is_killed() && self.control_holds()
    }
}

/// Returns all entries, those of other projects first.
pub fn entries() -> Vec<Entry> {
    let mut all = entries::all();
    all.sort_by_key(|entry| (entry.bug.is_none(), entry.bug, entry.property));
    all
}

impl Entry {
    /// Finds the shortest trace that breaks the property, and plays the same traces on the shipped
    /// counterpart.
    pub fn play(&self) -> Played {
        let (broken, shipped) = (Stage::new((self.broken)()), Stage::new((self.shipped)()));
        let judge = &self.judge;
        match &self.way {
            Way::Searched(alphabet) => {
                let Search { found, passed, shorter } = search(&broken, alphabet, judge);
                let control = search(&shipped, alphabet, judge);
                let steps = |trace: Vec<Timed>| trace.into_iter().map(|(_, step)| step).collect();
                let control_broken = control.found.map(|(trace, why)| (steps(trace), why));
                let (trace, why) = found.map_or((Vec::new(), None), |(t, why)| (t, Some(why)));
                Played {
                    why,
                    found: Found::Minimal { shorter },
                    tried: passed,
                    control_passed: control.passed,
                    control_depth: alphabet.depth,
                    control_broken,
                    ..compare(&broken, &shipped, &trace)
                }
            }
            Way::Given { steps, because } => {
                let trace = timed(steps, 0);
                let judged = |stage: &Stage| judge(stage, &stage.play(&trace)?);
                let (why, broken_too) = (judged(&broken), judged(&shipped));
                Played {
                    why,
                    found: Found::Given { because },
                    control_passed: usize::from(broken_too.is_none()),
                    control_depth: steps.len(),
                    control_broken: broken_too.map(|why| (steps.clone(), why)),
                    ..compare(&broken, &shipped, &trace)
                }
            }
        }
    }

    /// Returns how these steps break the property, if they can be done and break it.
    pub fn breaks(&self, steps: &[Step]) -> Option<String> {
        let gap_us = if let Way::Searched(alphabet) = &self.way { alphabet.gap_us } else { 0 };
        let stage = Stage::new((self.broken)());
        let events = stage.play(&timed(steps, gap_us))?;
        (self.judge)(&stage, &events)
    }
}

/// Compares the results of a trace on both subjects.
fn compare(broken: &Stage, shipped: &Stage, trace: &[Timed]) -> Played {
    let seen = |event: Event| event.seen;
    let shipped = shipped.play(trace).unwrap_or_default();
    Played {
        trace: broken.play(trace).expect("it was played before"),
        why: None,
        found: Found::Minimal { shorter: 0 },
        tried: 0,
        shipped: shipped.into_iter().map(seen).collect(),
        control_passed: 0,
        control_depth: 0,
        control_broken: None,
    }
}

impl Kind {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Machine => "machine",
            Kind::Script => "script",
            Kind::Flow => "flow",
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("bug", &self.bug).field("name", &self.name).finish()
    }
}
