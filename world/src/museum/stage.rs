//! The stage that plays traces, and the search through all short ones.

use std::cell::RefCell;

use super::step::{Event, Seen, Step, Timed, timed};

/// The subject of steps: a broken limiter or lock, or a shipped one.
pub(super) trait Subject {
    /// Resets to the initial state.
    fn reset(&mut self);

    /// Does a step at this time; returns nothing if the subject cannot do it, so that no trace
    /// contains it.
    fn step(&mut self, at_us: u64, step: Step) -> Option<Seen>;

    /// Returns all that is stored, in words: equal words for equal states, and none for an empty
    /// state.
    fn stored(&mut self) -> String;
}

/// A subject that plays one trace after another, each from the initial state.
pub(super) struct Stage(RefCell<Box<dyn Subject>>);

impl Stage {
    pub(super) fn new(subject: Box<dyn Subject>) -> Self {
        Stage(RefCell::new(subject))
    }

    /// Returns the events of a trace; nothing if a step cannot be done.
    pub(super) fn play(&self, trace: &[Timed]) -> Option<Vec<Event>> {
        let mut subject = self.0.borrow_mut();
        subject.reset();
        let event =
            |&(at_us, step): &Timed| Some(Event { at_us, step, seen: subject.step(at_us, step)? });
        trace.iter().map(event).collect()
    }

    /// Returns the result of the last step of a trace.
    pub(super) fn last_of(&self, trace: &[Timed]) -> Option<Seen> {
        self.play(trace)?.pop().map(|event| event.seen)
    }

    /// Returns all that is stored after a trace.
    pub(super) fn stored_after(&self, trace: &[Timed]) -> Option<String> {
        self.play(trace)?;
        Some(self.0.borrow_mut().stored())
    }
}

/// Returns how events break a property, if they do. A judge may play other traces to find out.
pub(super) type Judge = Box<dyn Fn(&Stage, &[Event]) -> Option<String> + Send + Sync>;

/// The steps of the traces in a search.
#[derive(Clone, Debug)]
pub(super) struct Alphabet {
    pub(super) steps: Vec<Step>,
    /// How long each step takes, in microseconds, except waits.
    pub(super) gap_us: u64,
    /// The most steps in a trace.
    pub(super) depth: usize,
}

/// The result of a search.
pub(super) struct Search {
    /// A trace that breaks the property, and how. No shorter one does.
    pub(super) found: Option<(Vec<Timed>, String)>,
    /// The number of traces that broke nothing: if one was found, all shorter ones, and some as
    /// long.
    pub(super) passed: usize,
    /// The number of these that are shorter.
    pub(super) shorter: usize,
}

/// Plays all traces, the shorter ones first, until one breaks the property.
pub(super) fn search(stage: &Stage, alphabet: &Alphabet, judge: &Judge) -> Search {
    let mut level: Vec<Vec<Step>> = vec![Vec::new()];
    let (mut passed, mut shorter) = (0, 0);
    for _ in 0..alphabet.depth {
        shorter = passed;
        let mut longer = Vec::new();
        for start in &level {
            for &step in &alphabet.steps {
                let steps: Vec<Step> = start.iter().copied().chain([step]).collect();
                let trace = timed(&steps, alphabet.gap_us);
                let Some(events) = stage.play(&trace) else { continue };
                if let Some(why) = judge(stage, &events) {
                    return Search { found: Some((trace, why)), passed, shorter };
                }
                passed += 1;
                longer.push(steps);
            }
        }
        level = longer;
    }
    Search { found: None, passed, shorter }
}
