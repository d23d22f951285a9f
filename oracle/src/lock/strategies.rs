//! Traces for locks: few owners, repeated operations, leases of every length, and times around
//! every boundary.

use proptest::collection::vec;
use proptest::prelude::*;

use lockage_core::lock::Label;

use super::{Action, Op, Outcome, Reference, Subject};
use crate::key::MAX_TIME_US;

/// Operations on one lock.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Where the clock begins, in microseconds.
    pub start_us: u64,
    /// Whether the clock may step back.
    pub backwards: bool,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One operation, some time after the one before.
#[derive(Clone, Debug)]
pub struct Step {
    moved: Move,
    ask: Ask,
    lease_us: u64,
    remember_us: u64,
    /// How long an acquire waits.
    waits_us: u64,
}

/// A move of the clock; the last field is an offset in microseconds, -1 to 1.
#[derive(Clone, Copy, Debug)]
enum Move {
    Stay,
    Tick(i64),
    /// By some eighths of this step's lease.
    Lease(i64, i64),
    /// To the end of the latest grant's lease.
    Deadline(i64),
    /// To the moment at which the record is forgotten.
    Forgotten(i64),
    /// Just past the latest token.
    Token(i64),
    /// By some eighths of this step's wait.
    Wait(i64, i64),
    /// To the end of the first place in the queue, or of the last one.
    FirstPlace(i64),
    LastPlace(i64),
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    /// By an owner, with `not_after` this many microseconds from now; never too late for `None`.
    Acquire(u128, Option<i64>, Way),
    Withdraw(u128),
    Renew(u128, Token),
    /// By the owner of that hold, or by another one.
    Release(Option<u128>, Which),
    ForceRelease(Token),
    Inspect,
    /// Repeats an earlier operation, by its distance back.
    Repeat(usize),
    /// Repeats an earlier acquire, by its distance back, with a `not_after` this many microseconds later.
    Later(usize, u64),
    /// An acquire under the id of a hold that was named before, by its distance back in operations.
    Misuse(usize),
}

/// The hold that is released.
#[derive(Clone, Copy, Debug)]
enum Which {
    /// One of the latest grant, if there is one; otherwise as below.
    Held(usize),
    /// The hold of an earlier acquire, by its distance back.
    Asked(usize),
    Unknown,
}

/// How an acquire waits if it is refused.
#[derive(Clone, Copy, Debug)]
enum Way {
    Not,
    Woken,
    InLine,
}

/// The token that an operation names.
#[derive(Clone, Copy, Debug)]
enum Token {
    Unnamed,
    /// The latest token, plus or minus this number.
    Latest(i64),
    Exactly(u64),
}

impl Trace {
    /// Plays the trace on `subject`, and passes each operation with its time and outcome to `seen`. Its references to
    /// the past are resolved by the reference, which runs in parallel.
    ///
    /// # Errors
    /// The first error of `seen`, which ends the play.
    pub fn play<S: Subject, E>(
        &self,
        subject: &mut S,
        mut seen: impl FnMut(&mut S, &Op, u64, Outcome, Outcome) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut reference = Reference::default();
        let mut sent: Vec<Op> = Vec::new();
        let mut now_us = self.start_us;
        for (index, step) in self.steps.iter().enumerate() {
            now_us = self.time(now_us, step, &reference);
            let op = step.op(index, now_us, &reference, &sent);
            sent.push(op);
            let outcome = subject.run(&op, now_us);
            let right = reference.run(&op, now_us);
            seen(subject, &op, now_us, outcome, right)?;
        }
        Ok(())
    }

    fn time(&self, now_us: u64, step: &Step, reference: &Reference) -> u64 {
        let now = i128::from(now_us);
        let (from, offset) = match step.moved {
            Move::Stay => (now, 0),
            Move::Tick(ticks) => (now, ticks),
            Move::Lease(eighths, offset) => {
                (now + i128::from(step.lease_us) * i128::from(eighths) / 8, offset)
            }
            Move::Deadline(offset) => (i128::from(reference.deadline_us()), offset),
            Move::Forgotten(offset) => (i128::from(reference.keep_us()), offset),
            Move::Token(offset) => (i128::from(reference.token()), offset),
            Move::Wait(eighths, offset) => {
                (now + i128::from(step.waits_us) * i128::from(eighths) / 8, offset)
            }
            Move::FirstPlace(offset) => {
                (reference.places_us().next().map_or(now, i128::from), offset)
            }
            Move::LastPlace(offset) => {
                (reference.places_us().last().map_or(now, i128::from), offset)
            }
        };
        let earliest = if self.backwards { 0 } else { now };
        let clamped = (from + i128::from(offset)).clamp(earliest, i128::from(MAX_TIME_US));
        u64::try_from(clamped).expect("clamped into the range of time")
    }
}

impl Step {
    fn op(&self, index: usize, now_us: u64, reference: &Reference, sent: &[Op]) -> Op {
        let token = |which: Token| match which {
            Token::Unnamed => None,
            Token::Latest(offset) => Some(reference.token().saturating_add_signed(offset)),
            Token::Exactly(token) => Some(token),
        };
        // Ids differ in their upper half too, and no two acquires of a trace share one.
        let new = (index as u128 + 1) << 96 | 0xfeed;
        let fresh = |action| Op { action, lease_us: self.lease_us, remember_us: self.remember_us };
        match self.ask {
            Ask::Acquire(owner, wait, way) => {
                let latest = |wait| now_us.saturating_add_signed(wait).min(MAX_TIME_US);
                let not_after_us = wait.map_or(MAX_TIME_US, latest);
                let (waits_us, in_line) = match way {
                    Way::Not => (0, false),
                    Way::Woken => (self.waits_us, false),
                    Way::InLine => (self.waits_us, true),
                };
                let label = label(index);
                fresh(Action::Acquire { owner, hold: new, not_after_us, waits_us, in_line, label })
            }
            Ask::Withdraw(owner) => fresh(Action::Withdraw { owner }),
            Ask::Renew(owner, which) => fresh(Action::Renew { owner, token: token(which) }),
            Ask::Release(by, which) => {
                let (owner, hold) = which.hold(reference, sent).unwrap_or((OWNERS[0], new));
                fresh(Action::Release { owner: by.unwrap_or(owner), hold })
            }
            Ask::ForceRelease(which) => {
                fresh(Action::ForceRelease { token: token(which).unwrap_or(reference.token()) })
            }
            Ask::Inspect => fresh(Action::Inspect),
            Ask::Repeat(back) => {
                sent.iter().rev().nth(back).copied().unwrap_or_else(|| fresh(Action::Inspect))
            }
            Ask::Later(back, by_us) => {
                let mut acquires = sent.iter().rev().filter(|op| acquires(op));
                let mut op = acquires.nth(back).copied().unwrap_or_else(|| fresh(Action::Inspect));
                if let Action::Acquire { not_after_us, .. } = &mut op.action {
                    *not_after_us = (*not_after_us + by_us).min(MAX_TIME_US);
                }
                op
            }
            Ask::Misuse(back) => {
                let hold = sent.iter().rev().filter_map(Op::hold).nth(back).unwrap_or(new);
                let (owner, not_after_us) = (OWNERS[0], MAX_TIME_US);
                let (waits_us, in_line, label) = (0, false, None);
                fresh(Action::Acquire { owner, hold, not_after_us, waits_us, in_line, label })
            }
        }
    }
}

fn acquires(op: &Op) -> bool {
    matches!(op.action, Action::Acquire { .. })
}

impl Which {
    /// Returns its owner and its id.
    fn hold(self, reference: &Reference, sent: &[Op]) -> Option<(u128, u128)> {
        let asked = |back| {
            let asked = sent.iter().rev().filter_map(|op| match op.action {
                Action::Acquire { owner, hold, .. } => Some((owner, hold)),
                _ => None,
            });
            asked.clone().nth(back).or_else(|| asked.clone().next())
        };
        match self {
            Which::Held(at) => match reference.held() {
                Some((owner, holds)) => Some((owner, holds[at % holds.len()])),
                None => asked(at),
            },
            Which::Asked(back) => asked(back),
            Which::Unknown => None,
        }
    }
}

/// Returns traces of up to `max_steps`.
pub fn trace(max_steps: usize, backwards: bool) -> BoxedStrategy<Trace> {
    let start = prop_oneof![
        6 => 1_763_700_000_000_000..1_763_800_000_000_000_u64,
        2 => 0..100_u64,
        1 => (MAX_TIME_US - 1_000_000_000)..=MAX_TIME_US,
    ];
    // Some traces have leases so short that a slow clock grants more tokens than a lease has microseconds.
    let hasty = prop::bool::weighted(0.3);
    // Some are so brisk that acquires arrive once more when their holds are forgotten.
    let brisk = prop::bool::weighted(0.3);
    // In some, all waiters wait for equally long, so that there are several of them.
    let patient = prop::bool::weighted(0.5);
    let traces = (start, hasty, brisk, patient, vec(step(), 1..=max_steps));
    traces
        .prop_map(move |(start_us, hasty, brisk, patient, mut steps)| {
            for step in steps.iter_mut().filter(|_| hasty) {
                step.lease_us = step.lease_us % 2 + 1;
                step.remember_us = 1;
                step.waits_us %= 8;
            }
            for step in steps.iter_mut().filter(|_| brisk) {
                if !matches!(step.moved, Move::Stay | Move::Tick(_)) {
                    step.moved = Move::Tick(1);
                }
                step.lease_us = step.lease_us.max(1_000_000);
                step.remember_us = step.remember_us.max(1_000_000);
                match &mut step.ask {
                    Ask::Acquire(owner, wait, way) => {
                        (*owner, *way) = (OWNERS[0], Way::Not);
                        *wait = wait.map(|wait_us| wait_us.clamp(0, 80) + 40);
                    }
                    Ask::Release(by, which) => (*by, *which) = (None, Which::Held(0)),
                    Ask::Repeat(back) => step.ask = Ask::Later(*back + 4, 0),
                    Ask::Withdraw(_) | Ask::Inspect => step.ask = Ask::Later(6, 0),
                    _ => {}
                }
            }
            for step in steps.iter_mut().filter(|_| patient && !brisk) {
                step.waits_us = 8_000_000;
                if let Ask::Acquire(_, _, way @ Way::Woken) = &mut step.ask {
                    *way = Way::InLine;
                }
            }
            Trace { start_us, backwards, steps }
        })
        .boxed()
}

/// Owners, one of them all zeros, which is also the owner of a free lock.
const OWNERS: [u128; 5] = [0xa11ce, 0, u128::MAX, 0xb0b, 0xca401];

/// Returns a label for some acquires, of each length that is packed in a different way.
fn label(index: usize) -> Option<Label> {
    let text = "!host-1/4711~:0123456789=?{}ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij";
    let len = [0, 1, 5, 6, 7, 12, 64, 0][index % 8];
    text[..len].parse().ok()
}

fn step() -> BoxedStrategy<Step> {
    let spans = (span(), span(), wait_span());
    (moved(), ask(), spans)
        .prop_map(|(moved, ask, (lease_us, remember_us, waits_us))| Step {
            moved,
            ask,
            lease_us,
            remember_us,
            waits_us,
        })
        .boxed()
}

fn moved() -> BoxedStrategy<Move> {
    let offset = || -1..=1_i64;
    prop_oneof![
        6 => Just(Move::Stay),
        4 => (1..=20_i64).prop_map(Move::Tick),
        1 => (-20..=-1_i64).prop_map(Move::Tick),
        3 => (0..=12_i64, offset()).prop_map(|(eighths, offset)| Move::Lease(eighths, offset)),
        1 => (-12..=-1_i64, offset()).prop_map(|(eighths, offset)| Move::Lease(eighths, offset)),
        4 => offset().prop_map(Move::Deadline),
        2 => offset().prop_map(Move::Forgotten),
        1 => offset().prop_map(Move::Token),
        4 => (4..=13_i64, offset()).prop_map(|(eighths, offset)| Move::Wait(eighths, offset)),
        3 => offset().prop_map(Move::FirstPlace),
        1 => offset().prop_map(Move::LastPlace),
    ]
    .boxed()
}

fn ask() -> BoxedStrategy<Ask> {
    let soon = prop_oneof![0..=40_i64, (0..=90_i64).prop_map(|seconds| seconds * 1_000_000)];
    let wait = prop_oneof![
        4 => Just(None),
        1 => (-2..=2_i64).prop_map(Some),
        5 => soon.prop_map(Some),
    ];
    prop_oneof![
        14 => (owner(), wait, way()).prop_map(|(owner, wait, way)| Ask::Acquire(owner, wait, way)),
        2 => owner().prop_map(Ask::Withdraw),
        4 => (owner(), token()).prop_map(|(owner, token)| Ask::Renew(owner, token)),
        8 => (by(), which()).prop_map(|(by, which)| Ask::Release(by, which)),
        2 => token().prop_map(Ask::ForceRelease),
        2 => Just(Ask::Inspect),
        5 => (0..7_usize).prop_map(Ask::Repeat),
        3 => (0..12_usize, 0..=2_u64).prop_map(|(back, by_us)| Ask::Later(back, by_us)),
        1 => (0..3_usize).prop_map(Ask::Misuse),
    ]
    .boxed()
}

fn owner() -> BoxedStrategy<u128> {
    let [often, zero, max, other, last] = OWNERS.map(Just);
    prop_oneof![5 => often, 2 => zero, 1 => max, 2 => other, 2 => last].boxed()
}

fn by() -> BoxedStrategy<Option<u128>> {
    prop_oneof![6 => Just(None), 1 => owner().prop_map(Some)].boxed()
}

fn which() -> BoxedStrategy<Which> {
    prop_oneof![
        6 => (0..4_usize).prop_map(Which::Held),
        2 => (0..6_usize).prop_map(Which::Asked),
        1 => Just(Which::Unknown),
    ]
    .boxed()
}

fn way() -> BoxedStrategy<Way> {
    prop_oneof![2 => Just(Way::Not), 1 => Just(Way::Woken), 3 => Just(Way::InLine)].boxed()
}

fn token() -> BoxedStrategy<Token> {
    prop_oneof![
        4 => Just(Token::Unnamed),
        4 => Just(Token::Latest(0)),
        1 => (-1..=1_i64).prop_map(Token::Latest),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just((1 << 53) + 1)].prop_map(Token::Exactly),
    ]
    .boxed()
}

/// Returns a lease, or a time to remember, in microseconds: tiny, common, up to half of the longest span that is
/// remembered.
fn span() -> BoxedStrategy<u64> {
    prop_oneof![
        5 => 1..=20_u64,
        3 => (1..=60_u64).prop_map(|seconds| seconds * 1_000_000),
        2 => (0..=50_u32).prop_map(|shift| 1_u64 << shift),
    ]
    .boxed()
}

/// Returns how long a caller waits, in microseconds: zero, or as leases are.
fn wait_span() -> BoxedStrategy<u64> {
    prop_oneof![1 => Just(0), 9 => span()].boxed()
}
