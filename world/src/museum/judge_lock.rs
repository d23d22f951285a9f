//! Judges of locks, by the same laws as the exhaustive search.

use std::collections::BTreeMap;

use lockage_oracle::lock::laws::{Laws, Seen as Observed, Verdict};
use lockage_oracle::lock::{Action, Grant, Op, Outcome};

use super::Property;
use super::stage::Judge;
use super::step::{Deed, Event, Seen, Step};

/// How long holds are remembered and places in line last, in microseconds.
const SPAN_US: u64 = 60_000_000;

/// L1 to L5, and L9: no answer of a lock breaks its law.
pub(super) fn obeys(law: Property) -> Judge {
    obeys_on_its_way(law, 0)
}

/// L6 and L8: no answer of a lock breaks its law, where requests for a lease of `lease_us`
/// microseconds take their time.
pub(super) fn obeys_on_its_way(law: Property, lease_us: u64) -> Judge {
    Box::new(move |_, events| {
        let mut watch = Watch { lease_us, ..Watch::default() };
        events.iter().find_map(|event| {
            let verdict = watch.observe(event)?;
            let mut broken = verdict.broken.into_iter().filter(|broken| broken.property == law);
            broken.next().map(|broken| broken.what)
        })
    })
}

#[derive(Default)]
struct Watch {
    laws: Laws,
    acquires: u128,
    /// The lease that delayed requests ask for.
    lease_us: u64,
    sent: BTreeMap<char, Sent>,
}

/// A request that is under way for some time.
struct Sent {
    hold: u128,
    not_after_us: u64,
    /// The token, once it was granted.
    token: u64,
    /// Whether its client got the answer, and so renews the lease.
    is_heard: bool,
}

impl Watch {
    /// Returns the verdict on a step. Missing parts of an answer count as right.
    fn observe(&mut self, event: &Event) -> Option<Verdict> {
        let Step::By(who, deed) = event.step else { return None };
        self.renew(event.at_us);
        self.acquires += 1;
        match (deed, &event.seen) {
            (Deed::Send, _) => {
                let not_after_us = event.at_us + self.lease_us;
                let sent = Sent { hold: self.acquires, not_after_us, token: 0, is_heard: false };
                self.sent.insert(who, sent);
                None
            }
            (Deed::Hear, Seen::Held(_)) => {
                let sent = self.sent.get_mut(&who)?;
                sent.is_heard = true;
                let covers = self.laws.covers(sent.token, sent.hold, event.at_us + 1);
                Some(Verdict { broken: covers.err().into_iter().collect(), cases: Vec::new() })
            }
            _ => self.store_has(who, deed, event),
        }
    }

    /// Renews in time each grant that its client knows of.
    fn renew(&mut self, now_us: u64) {
        while let Some((owner, grant)) = self.counted_on().filter(|it| it.1.deadline_us <= now_us) {
            let at_us = grant.deadline_us - 1;
            let grant = Grant { deadline_us: at_us + self.lease_us, ..grant };
            let renew = Action::Renew { owner, token: None };
            self.see(renew, self.lease_us, at_us, Outcome::Held(grant));
        }
    }

    fn counted_on(&self) -> Option<(u128, Grant)> {
        let grant = self.laws.latest()?;
        let is_it = |sent: &Sent| sent.is_heard && sent.token == grant.token;
        let (who, _) = self.sent.iter().find(|(_, sent)| is_it(sent))?;
        Some((owner(*who), grant))
    }

    fn store_has(&mut self, who: char, deed: Deed, event: &Event) -> Option<Verdict> {
        let (owner, now_us, acquires) = (owner(who), event.at_us, self.acquires);
        let acquire = |hold, not_after_us, waits_us| {
            let (in_line, label) = (true, None);
            Action::Acquire { owner, hold, not_after_us, waits_us, in_line, label }
        };
        let (laws, sent) = (&mut self.laws, self.sent.get_mut(&who));
        let mine = laws.live(now_us).filter(|(holder, _)| *holder == owner).map(|(_, grant)| grant);
        let (action, lease_us) = match deed {
            Deed::Lock(lease_us) => (acquire(acquires, u64::MAX, 0), lease_us),
            Deed::LineUp(lease_us) => (acquire(acquires, u64::MAX, SPAN_US), lease_us),
            Deed::Arrive => {
                let sent = sent.as_ref()?;
                (acquire(sent.hold, sent.not_after_us, 0), self.lease_us)
            }
            Deed::Renew(lease_us) => (Action::Renew { owner, token: None }, lease_us),
            Deed::Unlock => {
                let hold = mine.and_then(|_| laws.holds().last().copied()).unwrap_or(acquires);
                (Action::Release { owner, hold }, 0)
            }
            Deed::Delete => {
                laws.deleted();
                return None;
            }
            _ => return None,
        };
        let outcome = match &event.seen {
            Seen::Held(told) => {
                let more = u64::from(matches!(action, Action::Acquire { .. }));
                let newest = laws.latest().map_or(0, |grant| grant.token);
                let deadline_us = mine.map_or(0, |grant| grant.deadline_us).max(now_us + lease_us);
                let token = told.token.unwrap_or(mine.map_or(newest + 1, |grant| grant.token));
                if let (Deed::Arrive, Some(sent)) = (deed, sent) {
                    sent.token = token;
                }
                Outcome::Held(Grant {
                    token,
                    holds: told.holds.unwrap_or(mine.map_or(0, |grant| grant.holds) + more),
                    deadline_us: told.until_us.unwrap_or(deadline_us),
                })
            }
            Seen::Released(holds) => {
                Outcome::Released { token: mine.map_or(0, |grant| grant.token), holds: *holds }
            }
            Seen::Refused if sent.is_some_and(|sent| sent.not_after_us < now_us) => {
                Outcome::TooLate { forgotten_us: laws.forgotten_us() }
            }
            Seen::Refused => laws.refusal(owner, now_us),
            _ => return None,
        };
        Some(self.see(action, lease_us, now_us, outcome))
    }

    fn see(&mut self, action: Action, lease_us: u64, now_us: u64, outcome: Outcome) -> Verdict {
        let op = Op { action, lease_us, remember_us: SPAN_US };
        self.laws.observe(&Observed { op, now_us, outcome, was_there: true, changed: None })
    }
}

fn owner(who: char) -> u128 {
    u128::from(u32::from(who))
}
