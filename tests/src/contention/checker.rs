//! Checks whether a history is linearizable: whether all calls could have been done one after another, each at
//! some moment between its beginning and its end, so that a model gives the same answers.
//!
//! The search is that of Wing and Gong, with Lowe's memory of tried states. Libraries for it know neither calls
//! that may never have been done nor time, and keep a bit of each call for each step.

use std::collections::HashSet;
use std::fmt::{self, Debug};
use std::hash::Hash;

/// A sequential specification of the calls.
pub trait Model {
    /// The state of the object.
    type State: Copy + Eq + Hash + Debug;
    /// A call with its answer.
    type Op: Debug;

    /// Returns the state before all calls.
    fn start(&self) -> Self::State;

    /// Returns the state after this call; nothing where it would have got another answer.
    fn step(&self, state: Self::State, call: &Timed<Self::Op>) -> Option<Self::State>;

    /// Returns the calls without an answer that could be done in this state, as their places in the history.
    fn open(&self, state: Self::State) -> &[usize];
}

/// A call, and when it was under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed<T> {
    /// The time of its beginning.
    pub invoked: u64,
    /// The time of its answer; of a call without an answer [`NEVER`].
    pub returned: u64,
    /// The call.
    pub op: T,
}

/// The end of a call without an answer: it can be done at any time after its beginning, or never.
pub const NEVER: u64 = u64::MAX;

/// Calls on one object.
#[derive(Clone, Debug)]
pub struct Calls<T> {
    /// The calls with an answer.
    pub answered: Vec<Timed<T>>,
    /// The calls without one.
    pub open: Vec<Timed<T>>,
}

/// Why a history is not known to be linearizable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The history is not linearizable: after this number of calls, in this state, none of the calls that must
    /// come next can.
    Impossible {
        /// The number of calls that have an order.
        done: usize,
        /// The state after them.
        state: String,
        /// Calls of which one would have to be next.
        next: Vec<String>,
    },
    /// The calls have too many possible orders.
    TooHard,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Impossible { done, state, next } => {
                write!(f, "after {done} calls, in {state}, none of these can be next: ")?;
                write!(f, "{}", next.join("; "))
            }
            Verdict::TooHard => f.write_str("too many possible orders"),
        }
    }
}

/// Checks a history.
///
/// # Errors
/// [`Verdict`], where there is no order, or none is found.
pub fn linearizable<M: Model>(model: &M, calls: &Calls<M::Op>) -> Result<(), Verdict> {
    Search::new(model, calls).run()
}

/// The number of steps after which a search is given up.
const MOST_STEPS: usize = 20_000_000;

struct Search<'a, M: Model> {
    model: &'a M,
    open: &'a [Timed<M::Op>],
    /// The calls with an answer, by their beginnings. After them, the end of the list.
    sorted: Vec<&'a Timed<M::Op>>,
    /// The list of those that have no place in the order yet: of each, the one before and after.
    before: Vec<usize>,
    after: Vec<usize>,
    opened: Vec<bool>,
    /// The hash of the set of calls that have a place.
    hash: u128,
    tried: HashSet<(u128, M::State)>,
    done: usize,
    furthest: Option<(usize, M::State, Vec<usize>)>,
}

#[derive(Clone, Copy, Debug)]
enum Choice {
    Answered(usize),
    Open(usize),
}

/// The state after some calls, and the ways to go on from it.
struct Place<S> {
    /// Calls that were given a place here, since they change nothing, to be taken back with it.
    absorbed: Vec<usize>,
    /// The ways that were not tried, the best one last.
    choices: Vec<(Choice, S)>,
    /// The way that is tried.
    taken: Option<Choice>,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a M, calls: &'a Calls<M::Op>) -> Self {
        let mut sorted: Vec<_> = calls.answered.iter().collect();
        sorted.sort_by_key(|call| (call.invoked, call.returned));
        let len = sorted.len();
        // A ring through the place behind the last one.
        let before = (0..=len).map(|at| at.checked_sub(1).unwrap_or(len)).collect();
        let after = (0..=len).map(|at| if at == len { 0 } else { at + 1 }).collect();
        let (hash, done, furthest) = (0, 0, None);
        let (opened, tried) = (vec![false; calls.open.len()], HashSet::new());
        let open = &calls.open;
        Search { model, open, sorted, before, after, opened, hash, tried, done, furthest }
    }

    fn run(mut self) -> Result<(), Verdict> {
        let mut places = vec![self.arrive(self.model.start())];
        while self.done < self.sorted.len() {
            let Some(place) = places.last_mut() else { return Err(self.verdict()) };
            if let Some(taken) = place.taken.take() {
                self.take_back(taken);
            }
            let Some((choice, state)) = place.choices.pop() else {
                let absorbed = places.pop().map(|place| place.absorbed).unwrap_or_default();
                absorbed.into_iter().rev().for_each(|at| self.link(at));
                continue;
            };
            place.taken = Some(choice);
            self.take(choice);
            if self.tried.len() > MOST_STEPS {
                return Err(Verdict::TooHard);
            }
            let next = self.arrive(state);
            places.push(next);
        }
        Ok(())
    }

    /// Returns the choices in this state. A possible call that changes nothing is done at once: every call that
    /// could be done before it can be done after it.
    fn arrive(&mut self, state: M::State) -> Place<M::State> {
        let mut absorbed = Vec::new();
        let mut choices;
        loop {
            choices = Vec::new();
            let from = absorbed.len();
            let (mut at, end) = (self.after[self.sorted.len()], self.sorted.len());
            let mut first_end = NEVER;
            while at != end && self.sorted[at].invoked <= first_end {
                let call = self.sorted[at];
                first_end = first_end.min(call.returned);
                match self.model.step(state, call) {
                    Some(same) if same == state => absorbed.push(at),
                    Some(other) => choices.push((Choice::Answered(at), other)),
                    None => {}
                }
                at = self.after[at];
            }
            if absorbed.len() == from {
                self.add_open(state, first_end, &mut choices);
                break;
            }
            absorbed[from..].iter().for_each(|at| self.unlink(*at));
        }
        if !self.tried.insert((self.hash, state)) {
            choices.clear();
        } else if self.furthest.as_ref().is_none_or(|(done, ..)| *done < self.done) {
            self.furthest = Some((self.done, state, self.first(3)));
        }
        // The one that ends first is tried first, and those without an answer only then.
        choices.sort_by_key(|(choice, _)| match choice {
            Choice::Answered(at) => std::cmp::Reverse(self.sorted[*at].returned),
            Choice::Open(_) => std::cmp::Reverse(NEVER),
        });
        Place { absorbed, choices, taken: None }
    }

    fn add_open(&self, state: M::State, first_end: u64, choices: &mut Vec<(Choice, M::State)>) {
        for &at in self.model.open(state) {
            if self.opened[at] || self.open[at].invoked > first_end {
                continue;
            }
            let next = self.model.step(state, &self.open[at]).filter(|next| *next != state);
            choices.extend(next.map(|next| (Choice::Open(at), next)));
        }
    }

    fn take(&mut self, choice: Choice) {
        match choice {
            Choice::Answered(at) => self.unlink(at),
            Choice::Open(at) => self.toggle_open(at),
        }
    }

    fn take_back(&mut self, choice: Choice) {
        match choice {
            Choice::Answered(at) => self.link(at),
            Choice::Open(at) => self.toggle_open(at),
        }
    }

    fn unlink(&mut self, at: usize) {
        let (before, after) = (self.before[at], self.after[at]);
        self.after[before] = after;
        self.before[after] = before;
        self.hash ^= mark(at as u64);
        self.done += 1;
    }

    /// Puts a call back into the list, where it knows its place, if the latest to leave comes back first.
    fn link(&mut self, at: usize) {
        let (before, after) = (self.before[at], self.after[at]);
        self.after[before] = at;
        self.before[after] = at;
        self.hash ^= mark(at as u64);
        self.done -= 1;
    }

    fn toggle_open(&mut self, at: usize) {
        self.opened[at] = !self.opened[at];
        self.hash ^= mark(!(at as u64));
    }

    fn first(&self, count: usize) -> Vec<usize> {
        let (mut first, mut at) = (Vec::new(), self.after[self.sorted.len()]);
        while at != self.sorted.len() && first.len() < count {
            first.push(at);
            at = self.after[at];
        }
        first
    }

    fn verdict(&self) -> Verdict {
        let (done, state, first) =
            self.furthest.clone().expect("the beginning is a place that was tried");
        let next = first.into_iter().map(|at| format!("{:?}", self.sorted[at])).collect();
        Verdict::Impossible { done, state: format!("{state:?}"), next }
    }
}

/// Returns 128 bits for a number, so that sets of numbers have different sums (SplitMix64, twice).
fn mark(number: u64) -> u128 {
    let mix = |seed: u64| {
        let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    u128::from(mix(number)) << 64 | u128::from(mix(mix(number)))
}
