//! Bugs that others shipped, each of which a property kills; and some of our own, so that each property kills one.
//!
//! An [`Entry`] is a limiter, a lock or a client with a bug: a script that does what its project's did, run on the
//! simulated store, a machine, or the flow of a client. It comes with the few steps of which its story is made.
//! [`Entry::play`] puts it through all traces of these steps, the shorter ones first, until one breaks the property: no
//! shorter one does. What is shipped here is put through the same traces, judged by the same judge, and must pass.
//!
//! Each property kills one, but for two that no entry could show: that a fenced resource keeps its order (L7), which is the
//! resource's, and that a failover can lose a grant (L11), which is no promise.
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
    /// Its number among those that others shipped; nothing for one of our own.
    pub bug: Option<u8>,
    /// What it is called.
    pub name: &'static str,
    /// Where it was seen.
    pub seen_in: &'static str,
    /// What it is a bug of.
    pub kind: Kind,
    /// What kills it.
    pub property: Property,
    /// What is wrong.
    pub about: &'static str,
    /// What it is put into: the limit, the clocks.
    pub scene: &'static str,
    exhibit: fn() -> Exhibit,
}

/// What has a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A state machine in Rust.
    Machine,
    /// A script in Lua.
    Script,
    /// What a client does.
    Flow,
}

/// What an entry is played with.
struct Exhibit {
    broken: Box<dyn Subject>,
    /// What is shipped here for the same purpose.
    shipped: Box<dyn Subject>,
    judge: Judge,
    way: Way,
}

/// How the trace is found.
enum Way {
    /// All traces of some steps are tried.
    Searched(Alphabet),
    /// It is given.
    Given { steps: Vec<Step>, because: &'static str },
}

/// What came of playing an entry.
#[derive(Clone, Debug)]
pub struct Played {
    /// What breaks the property, step by step; nothing where none was found.
    pub trace: Vec<Event>,
    /// How it breaks it.
    pub why: Option<String>,
    /// How it was found.
    pub found: Found,
    /// How many traces were tried before that one.
    pub tried: usize,
    /// What comes of the same steps with what is shipped here.
    pub shipped: Vec<Seen>,
    /// How many traces what is shipped here passes: all that it can be put through.
    pub control_passed: usize,
    /// How many steps these have at most.
    pub control_depth: usize,
    /// The trace with which it breaks the property as well, and how: then the judge is wrong.
    pub control_broken: Option<(Vec<Step>, String)>,
}

/// How a trace was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All shorter traces were played, so many, and break nothing.
    Minimal {
        /// How many.
        shorter: usize,
    },
    /// It was given, for this reason.
    Given {
        /// Why all traces cannot be played.
        because: &'static str,
    },
}

impl Played {
    /// Whether the property was broken.
    pub fn is_killed(&self) -> bool {
        self.why.is_some()
    }

    /// Whether what is shipped here passes.
    pub fn control_holds(&self) -> bool {
        self.control_broken.is_none() && self.control_passed > 0
    }

    /// Whether both are so.
    pub fn is_right(&self) -> bool {
        self.is_killed() && self.control_holds()
    }
}

/// All entries, those that others shipped first.
pub fn entries() -> Vec<Entry> {
    let mut all = entries::all();
    all.sort_by_key(|entry| (entry.bug.is_none(), entry.bug, entry.property));
    all
}

impl Entry {
    /// Finds the shortest trace that breaks the property, and puts what is shipped here through the same.
    pub fn play(&self) -> Played {
        let Exhibit { broken, shipped, judge, way } = (self.exhibit)();
        let (broken, shipped) = (Stage::new(broken), Stage::new(shipped));
        match way {
            Way::Searched(alphabet) => {
                let Search { found, passed, shorter } = search(&broken, &alphabet, &judge);
                let control = search(&shipped, &alphabet, &judge);
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
                let trace = timed(&steps, 0);
                let judged = |stage: &Stage| judge(stage, &stage.play(&trace)?);
                let (why, broken_too) = (judged(&broken), judged(&shipped));
                Played {
                    why,
                    found: Found::Given { because },
                    control_passed: usize::from(broken_too.is_none()),
                    control_depth: steps.len(),
                    control_broken: broken_too.map(|why| (steps, why)),
                    ..compare(&broken, &shipped, &trace)
                }
            }
        }
    }

    /// How these steps break the property, if they do and can be done.
    pub fn breaks(&self, steps: &[Step]) -> Option<String> {
        let Exhibit { broken, judge, way, .. } = (self.exhibit)();
        let gap_us = if let Way::Searched(alphabet) = way { alphabet.gap_us } else { 0 };
        let stage = Stage::new(broken);
        let events = stage.play(&timed(steps, gap_us))?;
        judge(&stage, &events)
    }
}

/// What comes of a trace on both.
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
    /// Its name.
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
