//! Playing traces, and searching all short ones.

use std::cell::RefCell;

use super::step::{Event, Seen, Step, Timed, timed};

/// Something that steps are done to: a broken limiter or lock, or a shipped one.
pub(super) trait Subject {
    /// Forgets everything: nothing was ever done.
    fn reset(&mut self);

    /// Does a step at this time; nothing where it cannot be done here, so that no trace has it.
    fn step(&mut self, at_us: u64, step: Step) -> Option<Seen>;

    /// All that is stored, in words: equal words for equal states. Empty where nothing is.
    fn stored(&mut self) -> String;
}

/// A subject that is put through one trace after another, each from the beginning.
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

    /// All that is stored after a trace.
    pub(super) fn stored_after(&self, trace: &[Timed]) -> Option<String> {
        self.play(trace)?;
        Some(self.0.borrow_mut().stored())
    }
}

/// Whether events break a property, and how. It may play other traces to find out.
pub(super) type Judge = Box<dyn Fn(&Stage, &[Event]) -> Option<String>>;

/// The steps that traces are made of.
#[derive(Clone, Debug)]
pub(super) struct Alphabet {
    pub(super) steps: Vec<Step>,
    /// How long each step takes that is no wait.
    pub(super) gap_us: u64,
    /// How many steps a trace has at most.
    pub(super) depth: usize,
}

/// The result of a search.
pub(super) struct Search {
    /// A trace that breaks the property, and how. No shorter one does.
    pub(super) found: Option<(Vec<Timed>, String)>,
    /// How many traces were played and broke nothing: of a find, all that are shorter, and some as long.
    pub(super) passed: usize,
    /// How many of them are shorter.
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
