//! Whether what a lock did breaks a law, and how.

use super::stage::Judge;
use super::step::{Deed, Event, Hold, Seen, Step, seconds};

/// Who holds the lock, as it should be.
#[derive(Clone, Copy)]
struct Holder {
    who: char,
    holds: u64,
    until_us: u64,
    token: Option<u64>,
}

/// What a step finds, by all that was told before.
#[derive(Default)]
struct Known {
    /// Whose lease is live.
    holder: Option<Holder>,
    /// Who had it before, or has it.
    had_it: Vec<char>,
    newest: Option<u64>,
    /// Who waits, in the order in which they came.
    line: Vec<char>,
}

/// What a client was told, other than of what it sent again.
enum Told {
    /// An acquire was done.
    Granted(Hold, u64),
    /// A renewal was.
    Renewed(Hold, u64),
    /// A release was.
    Released(u64),
    /// A request to have the lock in one's turn was not.
    Waits,
    /// The lock is gone, whoever had it.
    Deleted,
    /// Anything else.
    Nothing,
}

/// L1: nobody is granted what somebody else's lease is on.
pub(super) fn l1() -> Judge {
    law(|known, who, told, _| {
        let other = known.holder.filter(|holder| holder.who != who)?;
        let Told::Granted(..) = told else { return None };
        Some(format!("{}'s lease is live until {}", other.who, seconds(other.until_us)))
    })
}

/// L2: holds are counted.
pub(super) fn l2() -> Judge {
    law(|known, who, told, _| {
        let own = known.holder.filter(|holder| holder.who == who).map_or(0, |holder| holder.holds);
        let (right, seen) = match told {
            Told::Granted(hold, _) => (own + 1, hold.holds?),
            Told::Released(left) => (own.checked_sub(1)?, *left),
            _ => return None,
        };
        (right != seen).then(|| format!("the holds should be {right}, and are {seen}"))
    })
}

/// L3: only who holds the lock gives it back or renews it.
pub(super) fn l3() -> Judge {
    law(|known, who, told, _| {
        let is_holder = known.holder.is_some_and(|holder| holder.who == who);
        match told {
            Told::Renewed(..) | Told::Released(_) if !is_holder => Some(match known.holder {
                Some(holder) => format!("it is done, and {} is the holder", holder.who),
                None => "it is done, and nobody holds the lock".to_owned(),
            }),
            _ => None,
        }
    })
}

/// L4: leases only grow, and none comes back.
pub(super) fn l4() -> Judge {
    law(|known, who, told, _| {
        let own = known.holder.filter(|holder| holder.who == who);
        match (told, own) {
            (Told::Granted(hold, _) | Told::Renewed(hold, _), Some(own)) => {
                let until = hold.until_us.filter(|until| *until < own.until_us)?;
                let (before, after) = (seconds(own.until_us), seconds(until));
                Some(format!("the lease was until {before}, and is until {after} now"))
            }
            (Told::Renewed(..), None) if known.had_it.contains(&who) => {
                Some(format!("{who}'s lease was over, and is back"))
            }
            _ => None,
        }
    })
}

/// L5: the fencing token grows with each fresh grant, and stays on re-entry.
pub(super) fn l5() -> Judge {
    law(|known, who, told, _| {
        let Told::Granted(Hold { token: Some(token), .. }, _) = told else { return None };
        let own = known.holder.filter(|holder| holder.who == who);
        match (own.and_then(|own| own.token), known.newest) {
            (Some(own), _) => (own != *token)
                .then(|| format!("the token of this grant was {own}, and is {token}")),
            (None, Some(newest)) => (*token <= newest).then(|| {
                format!("token {token} is not above {newest}, which was given out before")
            }),
            (None, None) => None,
        }
    })
}

/// L9: nobody is granted what somebody waits for who came before.
pub(super) fn l9() -> Judge {
    law(|known, who, told, _| {
        let Told::Granted(..) = told else { return None };
        let first = known.line.first().filter(|first| known.holder.is_none() && **first != who)?;
        Some(format!("{first} came before, waits, and is passed over"))
    })
}

/// L6: an owner that hears of its grant has the lock.
pub(super) fn l6(lease_us: u64) -> Judge {
    Box::new(move |_, events| {
        events.iter().enumerate().find_map(|(at, event)| {
            let (Step::By(who, Deed::Hear), Seen::Held(_)) = (event.step, &event.seen) else {
                return None;
            };
            let served = |event: &&Event| event.step == Step::By(who, Deed::Arrive);
            let until = events[..at].iter().rfind(served)?.at_us + lease_us;
            (until <= event.at_us)
                .then(|| format!("{who} counts on a lease that ended at {}", seconds(until)))
        })
    })
}

/// L8: who asks when nobody has counted on the lock for a lease has it.
pub(super) fn l8(lease_us: u64) -> Judge {
    Box::new(move |_, events| {
        let (mut counting, mut quiet_from) = (Vec::new(), 0);
        for event in events {
            let Step::By(who, deed) = event.step else { continue };
            match deed {
                Deed::Lock(_) => {
                    let waited = event.at_us.saturating_sub(quiet_from);
                    let is_due = counting.is_empty() && waited >= lease_us;
                    if is_due && event.seen == Seen::Refused {
                        let waited = seconds(waited);
                        return Some(format!(
                            "nobody has counted on it for {waited}, and {who} is refused"
                        ));
                    }
                    // Whoever it is, it is somebody else's story from here on.
                    if event.seen != Seen::Refused {
                        return None;
                    }
                    continue;
                }
                Deed::GiveUp => counting.retain(|one| *one != who),
                Deed::Send => counting.push(who),
                _ => {}
            }
            quiet_from = event.at_us;
        }
        None
    })
}

type Check = fn(&Known, char, &Told, &Event) -> Option<String>;

/// Checks each step in the light of those before.
fn law(check: Check) -> Judge {
    Box::new(move |_, events| {
        let mut known = Known::default();
        for event in events {
            known.holder = known.holder.filter(|holder| event.at_us < holder.until_us);
            let Step::By(who, deed) = event.step else { continue };
            let told = told(deed, &event.seen);
            if let Some(why) = check(&known, who, &told, event) {
                return Some(why);
            }
            known.learn(who, &told, event.at_us);
        }
        None
    })
}

fn told(deed: Deed, seen: &Seen) -> Told {
    match (deed, seen) {
        (Deed::Lock(lease) | Deed::LineUp(lease), Seen::Held(hold)) => Told::Granted(*hold, lease),
        (Deed::LineUp(_), Seen::Refused) => Told::Waits,
        (Deed::Renew(lease), Seen::Held(hold)) => Told::Renewed(*hold, lease),
        (Deed::Unlock, Seen::Released(left)) => Told::Released(*left),
        (Deed::Delete, _) => Told::Deleted,
        _ => Told::Nothing,
    }
}

impl Known {
    fn learn(&mut self, who: char, told: &Told, now: u64) {
        let own = self.holder.filter(|holder| holder.who == who);
        match told {
            Told::Granted(hold, lease) => {
                self.holder = Some(match own {
                    Some(own) => Holder {
                        holds: own.holds + 1,
                        until_us: own.until_us.max(now + lease),
                        ..own
                    },
                    None => Holder { who, holds: 1, until_us: now + lease, token: hold.token },
                });
                self.had_it.push(who);
                self.newest = self.newest.max(hold.token);
                self.line.retain(|one| *one != who);
            }
            Told::Renewed(_, lease) => {
                self.holder = own
                    .map(|own| Holder { until_us: own.until_us.max(now + lease), ..own })
                    .or(self.holder);
            }
            Told::Released(_) => {
                let left = own.map(|own| Holder { holds: own.holds - 1, ..own });
                self.holder = left.filter(|left| left.holds > 0);
            }
            Told::Deleted => self.holder = None,
            Told::Waits if !self.line.contains(&who) => self.line.push(who),
            Told::Waits | Told::Nothing => {}
        }
    }
}
