//! The laws of what several hold at once, permits of a semaphore and the sides of a read-write lock: L1 to L5, L9, L10
//! and L12, and D9.
//!
//! [`Laws`] is told each operation with its outcome, and knows what must be true from that alone. The property tests and
//! the simulated worlds judge by it.

use crate::property::{Property, Violation};

/// How many of the latest releases both remember (L10).
pub const REMEMBERED: usize = 16;

/// What a writer weighs, and a read-write lock has: as much as readers at most, who weigh 1.
pub const WRITE: u64 = 256;

/// One operation; times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Who asks. Of a semaphore it is not looked at.
    pub owner: u128,
    /// Of what is held: a permit's, or a hold's.
    pub id: u128,
    /// How many permits, or [`WRITE`], or 1 to read.
    pub weight: u64,
    /// What is asked.
    pub action: Action,
    /// What it is asked of.
    pub terms: Terms,
}

/// What is asked; times are in microseconds.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // as the operations have them
pub enum Action {
    Acquire { not_after_us: u64, waits_us: u64 },
    Renew { token: Option<u64> },
    Release { token: Option<u64> },
    Inspect,
}

/// What is shared, and for how long; times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What all may hold together.
    pub capacity: u64,
    /// Whether it has a side to read and one to write, which one owner may hold together.
    pub has_sides: bool,
    /// The lease of each grant.
    pub lease_us: u64,
    /// For how long a release is remembered.
    pub remember_us: u64,
}

/// What an operation comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The grant.
    Held(Granted),
    /// The token of the grant, how many holds of it are left, and whether those who wait were told.
    Released(u64, u64, bool),
    /// It does not fit, until then.
    Busy(u64),
    /// Others read, until then, where a reader wants to write.
    Upgrade(u64),
    /// There is not so much of it.
    Never,
    /// It came after its `not_after_us`.
    TooLate,
    /// It is not held.
    NotHeld,
    /// The id was used before.
    Reused,
    /// What is held.
    Seen,
    /// Any other.
    Failed,
}

/// A grant as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// What it weighs.
    pub weight: u64,
    /// How many holds it has.
    pub holds: u64,
    /// Its fencing token.
    pub token: u64,
    /// When its lease ends, in microseconds.
    pub deadline_us: u64,
}

/// One operation that was carried out, and what can be seen of it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// What was asked.
    pub op: Op,
    /// The store's time, in microseconds.
    pub now_us: u64,
    /// What it came to.
    pub outcome: Outcome,
    /// Whether the key was there before.
    pub was_there: bool,
    /// Whether the key has changed, where that can be seen. The clock then goes on.
    pub changed: Option<bool>,
}

/// What judging an operation came to.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// What it broke; the first is the most telling.
    pub broken: Vec<Violation>,
    /// What it was, in the light of those before.
    pub cases: Vec<Case>,
}

/// What an operation is an example of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A fresh grant.
    Granted,
    /// That is a reader's, to write.
    Upgraded,
    /// A writer who also reads gives it back.
    Downgraded,
    /// What was done before comes again.
    Repeated,
    /// That is an acquire of what was given back.
    Reused,
    /// An acquire comes too late.
    TooLate,
    /// A reader is refused for a writer who waits.
    KeptOut,
    /// A reader is refused to write, for others read.
    UpgradeRefused,
}

/// What is shared, as it must be.
///
/// What has ended is dropped by the next write, and not every write can be seen from here. So once a clock has shown the
/// end of something and is set back, it may count again or not.
#[derive(Clone, Debug, Default)]
pub struct Laws {
    grants: Vec<Grant>,
    /// The oldest first.
    released: Vec<Release>,
    /// Until when a writer who waits keeps new readers out: surely, and at most.
    kept_out_us: (u64, u64),
    /// The newest token that the record knows of, and of all.
    token: u64,
    newest: u64,
    waits: Waits,
}

#[derive(Clone, Debug)]
struct Grant {
    owner: u128,
    weight: u64,
    ids: Vec<u128>,
    token: u64,
    deadline_us: u64,
    /// Whether the clock has shown its end.
    is_past: bool,
}

#[derive(Clone, Copy, Debug)]
struct Release {
    owner: u128,
    weight: u64,
    id: u128,
    token: u64,
    holds: u64,
    until_us: u64,
    is_past: bool,
}

impl Grant {
    fn told(&self) -> Granted {
        let Grant { weight, token, deadline_us, .. } = *self;
        Granted { weight, holds: self.ids.len() as u64, token, deadline_us }
    }
}

impl Laws {
    /// Returns the newest token that the record knows of.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Tells when leases end, and what else counts for a time, in microseconds.
    pub fn ends_us(&self) -> impl Iterator<Item = u64> {
        let leases = self.grants.iter().map(|grant| grant.deadline_us);
        let released = self.released.iter().map(|release| release.until_us);
        leases.chain(released).chain([self.kept_out_us.0])
    }

    /// Takes over from the store of which `before` was true, as a replica does: tokens go on from there.
    pub fn follow(&mut self, before: &Laws) {
        self.newest = before.newest;
    }

    /// Checks L6: a grant of which its holder is sure lasts until then by the store's clock.
    ///
    /// # Errors
    /// How long it lasts instead.
    pub fn covers(&self, token: u64, ends_us: u64) -> Result<(), Violation> {
        let what = match self.grants.iter().find(|grant| grant.token == token) {
            Some(grant) if ends_us <= grant.deadline_us => return Ok(()),
            Some(grant) => format!(
                "the holder of token {token} is sure of it for {} us longer than the store",
                ends_us - grant.deadline_us
            ),
            None => format!("a client is sure of token {token}, which is nobody's"),
        };
        Err(Property::L6.broken(what))
    }

    /// Judges what was carried out, and learns from it.
    ///
    /// What breaks a law is believed as it was told, so that what comes after it can be judged.
    pub fn observe(&mut self, seen: &Seen) -> Verdict {
        let mut verdict = Verdict::default();
        if !seen.was_there
            && let Some(end_us) = self.forget().filter(|end_us| seen.now_us < *end_us)
        {
            let what = format!("the key was to be kept until {end_us} us");
            verdict.broken.push(Property::D9.broken(what));
        }
        self.pass(seen.now_us);
        Judge { op: &seen.op, now_us: seen.now_us, seen, laws: self, verdict: &mut verdict }
            .judge();
        verdict
    }

    /// The key is not there: nothing is held. When it was to be dropped at the earliest.
    fn forget(&mut self) -> Option<u64> {
        let Laws { grants, released, newest, waits, .. } = std::mem::take(self);
        (self.newest, self.waits) = (newest, waits);
        let grants = grants.iter().filter(|it| !it.is_past).map(|it| it.deadline_us);
        let released = released.iter().filter(|it| !it.is_past).map(|it| it.until_us);
        grants.chain(released).max()
    }

    /// The clock shows this time.
    fn pass(&mut self, now_us: u64) {
        self.grants.iter_mut().for_each(|it| it.is_past |= now_us >= it.deadline_us);
        self.released.iter_mut().for_each(|it| it.is_past |= now_us >= it.until_us);
        if now_us >= self.kept_out_us.0 {
            self.kept_out_us.0 = 0;
        }
    }

    /// The record is written.
    fn write(&mut self, now_us: u64) {
        self.grants.retain(|it| now_us < it.deadline_us);
        self.released.retain(|it| now_us < it.until_us);
        if now_us >= self.kept_out_us.1 {
            self.kept_out_us = (0, 0);
        }
    }
}

impl Op {
    /// Whether that is the other side of the same owner, which is never in its way.
    pub fn is_beside(&self, owner: u128, weight: u64) -> bool {
        self.terms.has_sides && owner == self.owner && weight != self.weight
    }

    fn writes(&self) -> bool {
        self.terms.has_sides && self.weight == WRITE
    }

    /// Whether that is of the same side of the same owner. Permits have only their ids.
    fn is_of(&self, owner: u128, weight: u64) -> bool {
        !self.terms.has_sides || (owner, weight) == (self.owner, self.weight)
    }
}

/// Judges one operation.
struct Judge<'a> {
    op: &'a Op,
    now_us: u64,
    seen: &'a Seen,
    laws: &'a mut Laws,
    verdict: &'a mut Verdict,
}

impl Judge<'_> {
    fn judge(mut self) {
        if self.seen.outcome == Outcome::Failed {
            return self.broke(Property::D12, "it is in range");
        }
        match self.op.action {
            Action::Acquire { not_after_us, waits_us } => self.acquire(not_after_us, waits_us),
            Action::Renew { token } => self.renew(token),
            Action::Release { token } => self.release(token),
            Action::Inspect => self.idle(Property::L10),
        }
    }

    fn saw(&mut self, case: Case) {
        self.verdict.cases.push(case);
    }

    fn broke(&mut self, law: Property, why: &str) {
        self.verdict.broken.push(law.broken(why.to_owned()));
    }

    /// It must not have changed anything.
    fn idle(&mut self, law: Property) {
        if self.seen.changed == Some(true) {
            self.broke(law, "it was not done now, and something was");
        }
    }

    fn acquire(&mut self, not_after_us: u64, waits_us: u64) {
        if self.repeats() {
            return;
        }
        let is_late = self.now_us > not_after_us;
        if is_late && self.seen.outcome != Outcome::TooLate {
            self.broke(Property::L10, "it came too late");
        }
        match self.seen.outcome {
            Outcome::Held(told) => self.granted(told),
            Outcome::Busy(until_us) => self.refused(until_us, waits_us, false),
            Outcome::Upgrade(until_us) => self.refused(until_us, waits_us, true),
            Outcome::TooLate if is_late => {
                self.saw(Case::TooLate);
                self.idle(Property::L10);
            }
            Outcome::Never if self.op.weight > self.op.terms.capacity => self.idle(Property::L10),
            Outcome::Reused => self.broke(Property::L10, "it is new"),
            _ => self.broke(Property::L2, "that is no answer to it"),
        }
    }

    /// Whether the id was used before, and that is answered.
    fn repeats(&mut self) -> bool {
        let (op, now_us) = (self.op, self.now_us);
        let live = self.laws.grants.iter().filter(|it| now_us < it.deadline_us);
        let held = live.filter(|it| it.ids.contains(&op.id)).max_by_key(|it| !it.is_past);
        let mut released = self.laws.released.iter();
        let gone = released.find(|it| it.id == op.id && now_us < it.until_us);
        let known = match (held, gone) {
            (Some(it), _) if op.is_of(it.owner, it.weight) && it.weight == op.weight => {
                (Outcome::Held(it.told()), !it.is_past)
            }
            (Some(it), _) => (Outcome::Reused, !it.is_past),
            (None, Some(it)) => (Outcome::Reused, !it.is_past),
            (None, None) => return false,
        };
        match known {
            (right, _) if right == self.seen.outcome => {
                let case = if right == Outcome::Reused { Case::Reused } else { Case::Repeated };
                self.saw(case);
                self.idle(Property::L10);
                true
            }
            (right, true) => {
                self.broke(Property::L10, &format!("it came again, and {right:?} is right"));
                false
            }
            _ => false,
        }
    }

    fn granted(&mut self, told: Granted) {
        let (op, now_us) = (self.op, self.now_us);
        if self.seen.changed == Some(false) {
            self.broke(Property::L10, "it is said to be done, and nothing was");
        }
        let lease_end_us = now_us + op.terms.lease_us;
        // A late double of an owner who asked again meanwhile, say.
        let again = self.reentered().filter(|at| {
            let known = &self.laws.grants[*at];
            known.token == told.token || !known.is_past
        });
        if let Some(at) = again {
            self.grown(at, told, 1);
            self.laws.grants[at].ids.push(op.id);
            return self.laws.write(now_us);
        }
        let (token, newest) = (self.laws.token, self.laws.newest);
        if self.is_full(now_us, false) {
            self.broke(Property::L1, "others hold too much of it");
        }
        if told.deadline_us != lease_end_us {
            self.broke(Property::L4, &format!("its lease must end at {lease_end_us} us"));
        }
        // Where it was lost with its record, clocks must have gone on.
        if told.token <= token || told.token <= newest && now_us > newest || told.token < now_us {
            self.broke(Property::L5, &format!("there was token {newest}"));
        }
        if self.is_kept_out(now_us, false) {
            self.broke(Property::L9, "a writer waits");
        }
        if (told.holds, told.weight) != (1, op.weight) {
            self.broke(Property::L2, "it is held once, as it was asked for");
        }
        self.saw(Case::Granted);
        if op.writes() && self.has_other_side(now_us, true) {
            self.saw(Case::Upgraded);
        }
        self.laws.write(now_us);
        let Op { owner, weight, id, .. } = *op;
        let (Granted { token, deadline_us, .. }, ids) = (told, vec![id]);
        let grant = Grant { owner, weight, ids, token, deadline_us, is_past: false };
        self.laws.grants.push(grant);
        (self.laws.token, self.laws.newest) = (token, newest.max(token));
        if op.writes() {
            self.laws.kept_out_us = (0, 0);
        }
    }

    /// A grant stands as `told`, with so many holds more and for a lease from now on at least.
    fn grown(&mut self, at: usize, told: Granted, more: u64) {
        let known = self.laws.grants[at].told();
        let end_us = known.deadline_us.max(self.now_us + self.op.terms.lease_us);
        if told.token != known.token {
            self.broke(Property::L5, "the token of a grant has changed");
        }
        if told.deadline_us != end_us {
            self.broke(Property::L4, &format!("its lease must end at {end_us} us"));
        }
        let holds = known.holds + more;
        if (told.holds, told.weight) != (holds, known.weight) {
            self.broke(Property::L2, &format!("it must be held {holds} times, as before"));
        }
        let grant = &mut self.laws.grants[at];
        (grant.token, grant.deadline_us, grant.is_past) = (told.token, told.deadline_us, false);
        self.laws.token = self.laws.token.max(told.token);
        self.laws.newest = self.laws.newest.max(told.token);
    }

    fn refused(&mut self, until_us: u64, waits_us: u64, upgrades: bool) {
        let (op, now_us) = (self.op, self.now_us);
        let sure = self.reentered().filter(|at| !self.laws.grants[*at].is_past);
        if sure.is_some() || !self.is_full(now_us, true) && !self.is_kept_out(now_us, true) {
            self.broke(Property::L2, "it can be granted");
        }
        let reads = op.writes() && self.has_other_side(now_us, upgrades);
        if reads != upgrades {
            self.broke(Property::L2, &format!("whether the caller reads: {reads}"));
        }
        if let Some(expected_us) = self.busy_until().filter(|it| *it != until_us) {
            self.broke(Property::L2, &format!("it is so until {expected_us} us"));
        }
        if upgrades {
            self.saw(Case::UpgradeRefused);
        } else if !self.is_full(now_us, true) {
            self.saw(Case::KeptOut);
        }
        let keeps_out = op.writes() && !upgrades;
        if waits_us == 0 {
            self.idle(Property::L10);
        }
        if let Some(changed) = self.seen.changed {
            // What a writer has written may be that it keeps readers out, for longer than before.
            let written = changed && !keeps_out;
            if written && !self.laws.waits.may_be_written(now_us, waits_us) {
                self.broke(Property::L12, "that somebody waits is written too often");
            }
            self.laws.waits.learn(now_us, waits_us, written);
        }
        if keeps_out && waits_us > 0 {
            let (until_us, (surely_us, most_us)) = (now_us + waits_us, self.laws.kept_out_us);
            self.laws.kept_out_us = (surely_us.max(until_us), most_us.max(until_us));
        }
    }

    fn renew(&mut self, token: Option<u64>) {
        let (op, now_us) = (self.op, self.now_us);
        // Of a side no hold is named.
        let is_named = |it: &Grant| {
            let is_named = op.terms.has_sides || it.ids.contains(&op.id);
            is_named && op.is_of(it.owner, it.weight) && token.is_none_or(|token| token == it.token)
        };
        let named = self.laws.grants.iter().position(is_named);
        let own = named.filter(|at| now_us < self.laws.grants[*at].deadline_us);
        match (self.seen.outcome, own) {
            (Outcome::Held(told), Some(at)) => self.grown(at, told, 0),
            (Outcome::Held(_), None) => {
                self.broke(Property::L3, "the caller does not hold it");
                if named.is_some() {
                    self.broke(Property::L4, "its lease is over");
                }
            }
            (Outcome::NotHeld, _) => self.not_held(own),
            _ => self.broke(Property::L3, "that is no answer to it"),
        }
    }

    fn release(&mut self, token: Option<u64>) {
        let (op, now_us) = (self.op, self.now_us);
        let is_it = |it: u64| token.is_none_or(|token| token == it);
        let own = self.laws.grants.iter().position(|it| {
            let is_named = it.ids.contains(&op.id) && op.is_of(it.owner, it.weight);
            is_named && is_it(it.token) && now_us < it.deadline_us
        });
        let gone = self.laws.released.iter().find(|it| {
            let is_named = it.id == op.id && op.is_of(it.owner, it.weight);
            is_named && is_it(it.token) && now_us < it.until_us
        });
        let gone = gone.copied();
        match self.seen.outcome {
            Outcome::Released(token, holds, told)
                if own.is_some_and(|at| self.laws.grants[at].token == token) =>
            {
                let at = own.expect("it was just looked at");
                self.given_back(at, holds, told);
            }
            Outcome::Released(token, holds, told) => {
                let right = gone.filter(|it| (it.token, it.holds) == (token, holds));
                match (right, gone) {
                    (Some(_), _) => self.saw(Case::Repeated),
                    (None, Some(_)) => self.broke(Property::L10, "it came again, as it was told"),
                    (None, None) => self.broke(Property::L3, "the caller does not hold it"),
                }
                if told {
                    self.broke(Property::L12, "those who wait are told once");
                }
                self.idle(Property::L10);
            }
            Outcome::NotHeld => {
                if gone.is_some_and(|it| !it.is_past) && own.is_none() {
                    self.broke(Property::L10, "it came again, and was done before");
                    self.broke(Property::L3, "the caller held it");
                }
                self.not_held(own);
            }
            _ => self.broke(Property::L3, "that is no answer to it"),
        }
    }

    fn given_back(&mut self, at: usize, holds: u64, told: bool) {
        let (op, now_us) = (self.op, self.now_us);
        let Granted { weight, holds: before, token, .. } = self.laws.grants[at].told();
        if holds + 1 != before {
            self.broke(Property::L2, "one hold was given back");
        }
        let is_right = match before {
            1 => self.seen.changed.is_none() || self.laws.waits.allow(told, now_us),
            _ => !told,
        };
        if !is_right {
            self.broke(Property::L12, &format!("whether those who wait are told: {told}"));
        }
        if self.seen.changed == Some(false) {
            self.broke(Property::L10, "it is said to be done, and nothing was");
        }
        if op.writes() && self.has_other_side(now_us, false) {
            self.saw(Case::Downgraded);
        }
        self.laws.write(now_us);
        self.laws.grants.iter_mut().for_each(|grant| grant.ids.retain(|it| *it != op.id));
        self.laws.grants.retain(|grant| !grant.ids.is_empty());
        if self.laws.released.len() == REMEMBERED {
            self.laws.released.remove(0);
        }
        let until_us = now_us + op.terms.remember_us;
        let Op { owner, id, .. } = *op;
        let release = Release { owner, weight, id, token, holds, until_us, is_past: false };
        self.laws.released.push(release);
    }

    fn not_held(&mut self, own: Option<usize>) {
        if own.is_some_and(|at| !self.laws.grants[at].is_past) {
            self.broke(Property::L2, "the caller holds it");
            self.broke(Property::L3, "the caller holds it");
        }
        self.idle(Property::L3);
    }

    /// The grant of this side that its owner holds already.
    fn reentered(&self) -> Option<usize> {
        let is_it = |it: &Grant| self.op.is_of(it.owner, it.weight) && self.now_us < it.deadline_us;
        self.laws.grants.iter().position(is_it).filter(|_| self.op.terms.has_sides)
    }

    /// Until when what stands in the way does; nothing where that is not sure.
    fn busy_until(&self) -> Option<u64> {
        let (op, now_us) = (self.op, self.now_us);
        let mut live: Vec<&Grant> = self.others(now_us).collect();
        let (surely_us, most_us) = self.laws.kept_out_us;
        if live.iter().any(|it| it.is_past) || surely_us != most_us && now_us < most_us {
            return None;
        }
        if op.terms.has_sides {
            let is_in_the_way = |it: &&&Grant| op.writes() || it.weight == WRITE;
            let ends = live.iter().filter(is_in_the_way).map(|it| it.deadline_us);
            let kept = Some(most_us).filter(|until_us| !op.writes() && now_us < *until_us);
            return ends.chain(kept).max();
        }
        live.sort_by_key(|it| it.deadline_us);
        let mut used = self.used(now_us, true);
        let mut fits = live.into_iter().skip_while(|it| {
            used -= it.weight;
            used + op.weight > op.terms.capacity
        });
        fits.next().map(|it| it.deadline_us)
    }

    /// Whether it does not fit beside what is held, with what may have ended, or without.
    fn is_full(&self, now_us: u64, at_most: bool) -> bool {
        self.op.weight + self.used(now_us, at_most) > self.op.terms.capacity
    }

    /// How much is held that counts for who asks, with what may have ended, or without.
    fn used(&self, now_us: u64, at_most: bool) -> u64 {
        let others = self.others(now_us).filter(|it| at_most || !it.is_past);
        others.map(|it| it.weight).sum()
    }

    /// What is held that can be in the way of who asks.
    fn others(&self, now_us: u64) -> impl Iterator<Item = &Grant> {
        let is_live = move |it: &&Grant| now_us < it.deadline_us;
        self.laws.grants.iter().filter(is_live).filter(|it| !self.op.is_beside(it.owner, it.weight))
    }

    /// Whether who asks has the other side, or may have it.
    fn has_other_side(&self, now_us: u64, at_most: bool) -> bool {
        let is_live = |it: &Grant| now_us < it.deadline_us && (at_most || !it.is_past);
        self.laws.grants.iter().any(|it| is_live(it) && self.op.is_beside(it.owner, it.weight))
    }

    /// Whether a new reader is, or may be. One who writes is not.
    fn is_kept_out(&self, now_us: u64, at_most: bool) -> bool {
        let (surely_us, most_us) = self.laws.kept_out_us;
        let until_us = if at_most { most_us } else { surely_us };
        let is_reader = self.op.terms.has_sides && !self.op.writes();
        is_reader && now_us < until_us && !self.has_other_side(now_us, !at_most)
    }
}

/// What callers know of those who wait (L12).
#[derive(Clone, Debug, Default)]
struct Waits {
    /// When each was refused, and for how long it waits, in microseconds.
    refused: Vec<(u64, u64)>,
    /// The latest time until which somebody was written down to wait.
    written_us: u64,
}

impl Waits {
    /// A refusal, and whether that was written down as a wait.
    fn learn(&mut self, now_us: u64, waits_us: u64, written: bool) {
        if waits_us > 0 {
            self.refused.push((now_us, waits_us));
        }
        if written {
            self.written_us = self.written_us.max(now_us + waits_us);
        }
    }

    /// Whether a wait may be written down: once in half of its time.
    fn may_be_written(&self, now_us: u64, waits_us: u64) -> bool {
        waits_us > 0 && self.written_us < now_us + waits_us.div_ceil(2)
    }

    /// Whether it is right that those who wait were told, or were not: they are owed that for half of their
    /// time at least, and nobody is told where nobody waits.
    fn allow(&self, told: bool, now_us: u64) -> bool {
        match told {
            true => self.refused.iter().any(|(at_us, waits_us)| now_us < at_us + waits_us),
            false => !self.refused.iter().any(|(at_us, waits_us)| now_us < at_us + waits_us / 2),
        }
    }
}
