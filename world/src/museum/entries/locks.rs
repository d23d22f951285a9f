//! Bugs of locks.

use std::time::Duration;

use lockage_core::lock::{Answer, HoldId, Lock, OwnerId};
use lockage_core::{Command, Record, Timestamp};
use lockage_sim::store::RespValue;

use super::{MS, S, a, b, c, number, pair, searched, searched_slowly};
use crate::museum::step::{Deed, Hold, Seen, Step};
use crate::museum::subject::{Ask, Foreign, Machine, ShippedLock, World};
use crate::museum::{Entry, Exhibit, Kind, Property};
use crate::museum::{judge, judge_lock};

const SET_NX: &str = include_str!("../../../museum/lock_set_nx.lua");
const UNLOCK_WHOEVER_ASKS: &str = include_str!("../../../museum/unlock_whoever_asks.lua");
const REDLOCK_RB: &str = include_str!("../../../museum/redlock_rb_lock.lua");
const REDISSON_LOCK: &str = include_str!("../../../museum/redisson_lock.lua");
const REDISSON_UNLOCK: &str = include_str!("../../../museum/redisson_unlock.lua");
const REDISSON_FENCED: &str = include_str!("../../../museum/redisson_fenced_lock.lua");
const COUNTED_TOKEN: &str = include_str!("../../../museum/lock_with_counted_token.lua");
const UNLOCK_ALL: &str = include_str!("../../../museum/unlock_all_holds.lua");
const CLIENTS_CLOCK: &str = include_str!("../../../museum/lock_by_clients_clock.lua");

const LEASE: u64 = 10 * S;
const LOCK: Deed = Deed::Lock(LEASE);
const LINE_UP: Deed = Deed::LineUp(LEASE);

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry {
            bug: Some(23),
            name: "unlock-whoever-asks",
            seen_in: "many",
            kind: Kind::Script,
            property: Property::L3,
            about: "To unlock is to delete the key, whoever does it: also one whose own lease is \
                long over.",
            scene: "a lease of 10 s",
            exhibit: || Exhibit {
                broken: Foreign::by(set_nx),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::obeys(Property::L3),
                way: searched(&[a(LOCK), b(LOCK), a(Deed::Unlock), b(Deed::Unlock)], 4),
            },
        },
        Entry {
            bug: Some(24),
            name: "renewal-resurrects",
            seen_in: "redlock-rb",
            kind: Kind::Script,
            property: Property::L4,
            about: "An extension takes the lock anew where it is gone. Its owner never hears that \
                somebody else may have had it.",
            scene: "a lease of 10 s",
            exhibit: || Exhibit {
                broken: Foreign::by(redlock_rb),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::obeys(Property::L4),
                way: searched(&[a(LOCK), a(Deed::Renew(LEASE)), b(LOCK), Step::Wait(11 * S)], 4),
            },
        },
        Entry {
            bug: Some(27),
            name: "retry-counts-twice",
            seen_in: "Redisson#7367",
            kind: Kind::Script,
            property: Property::L10,
            about: "An acquire whose answer was late is sent again, and taken for a re-entry: one \
                unlock leaves the lock held.",
            scene: "a lease of 10 s",
            exhibit: || Exhibit {
                broken: Foreign::by(redisson),
                shipped: ShippedLock::fresh(),
                judge: judge::repeats_change_nothing(),
                way: searched(&[a(LOCK), a(Deed::Repeat), a(Deed::Unlock)], 4),
            },
        },
        Entry {
            bug: Some(28),
            name: "re-entry-shortens",
            seen_in: "Redisson",
            kind: Kind::Script,
            property: Property::L4,
            about: "Re-entry sets the lease to its own, also where the one that there is lasts \
                longer.",
            scene: "leases of 60 s and of 5 s",
            exhibit: || Exhibit {
                broken: Foreign::by(redisson),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::obeys(Property::L4),
                way: searched(&[a(Deed::Lock(60 * S)), a(Deed::Lock(5 * S)), a(Deed::Unlock)], 4),
            },
        },
        Entry {
            bug: Some(29),
            name: "re-entry-bumps-the-token",
            seen_in: "Redisson",
            kind: Kind::Script,
            property: Property::L5,
            about: "Each acquire increments the token, also re-entry: accesses with the owner's \
                first token are refused from then on.",
            scene: "a lease of 10 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| fenced(world, ask, REDISSON_FENCED)),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::obeys(Property::L5),
                way: searched_slowly(&[a(LOCK), a(Deed::Unlock), b(LOCK)], 4, MS),
            },
        },
        Entry {
            bug: Some(29),
            name: "token-restarts",
            seen_in: "Redisson",
            kind: Kind::Script,
            property: Property::L5,
            about: "The token is a counter in a key. Once that is deleted it begins at 1, below \
                tokens that were given out.",
            scene: "a lease of 10 s; each step takes 1 ms",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| fenced(world, ask, COUNTED_TOKEN)),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::obeys(Property::L5),
                way: searched_slowly(&[a(LOCK), a(Deed::Unlock), a(Deed::Delete), b(LOCK)], 4, MS),
            },
        },
        Entry {
            bug: None,
            name: "renewal-whoever-asks",
            seen_in: "many",
            kind: Kind::Flow,
            property: Property::L3,
            about: "A renewal sets the key's expiry, whoever sends it: also a former holder, which \
                then believes that it holds the lock.",
            scene: "a lease of 10 s",
            exhibit: || Exhibit {
                broken: Foreign::by(set_nx),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::obeys(Property::L3),
                way: searched(&[a(LOCK), a(Deed::Renew(LEASE)), b(Deed::Renew(LEASE))], 4),
            },
        },
        Entry {
            bug: None,
            name: "lock-by-the-clients-clock",
            seen_in: "the time before SET NX PX",
            kind: Kind::Script,
            property: Property::L1,
            about: "Whether the lease is over is decided by the clock of whoever asks.",
            scene: "a lease of 10 s; B's clock is 20 s ahead",
            exhibit: || Exhibit {
                broken: Foreign::by(by_clients_clock),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::obeys(Property::L1),
                way: searched(&[a(LOCK), b(LOCK), Step::Wait(5 * S)], 4),
            },
        },
        Entry {
            bug: None,
            name: "unlock-of-all-holds",
            seen_in: "our own",
            kind: Kind::Script,
            property: Property::L2,
            about: "The first release gives all holds back.",
            scene: "a lease of 10 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| redisson_with(world, ask, UNLOCK_ALL)),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::obeys(Property::L2),
                way: searched(&[a(LOCK), a(Deed::Unlock), b(LOCK)], 4),
            },
        },
        Entry {
            bug: None,
            name: "back-to-the-end-of-the-line",
            seen_in: "our own",
            kind: Kind::Machine,
            property: Property::L9,
            about: "A waiter that polls goes to the end of the line.",
            scene: "a lease of 10 s, places in line of 60 s",
            exhibit: || Exhibit {
                broken: Machine::of((None, 0, Vec::new()), back_to_the_end),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::obeys(Property::L9),
                way: searched(&[a(LOCK), a(Deed::Unlock), b(LINE_UP), c(LINE_UP)], 6),
            },
        },
    ]
}

fn set_nx(world: &mut World, ask: &Ask) -> Option<Seen> {
    let who = ask.who;
    match ask.deed {
        Deed::Lock(lease) => {
            let taken = world.eval(SET_NX, "lock", &format!("{who} {}", lease / MS));
            Some(held(world, taken, None))
        }
        Deed::Renew(lease) => {
            let done = world.command(&format!("PEXPIRE lock {}", lease / MS));
            Some(held(world, done, None))
        }
        Deed::Unlock => Some(match number(&world.eval(UNLOCK_WHOEVER_ASKS, "lock", "")) {
            Ok(1) => Seen::Released(0),
            Ok(_) => Seen::Refused,
            Err(error) => Seen::Failed(error),
        }),
        _ => None,
    }
}

fn redlock_rb(world: &mut World, ask: &Ask) -> Option<Seen> {
    let (Deed::Lock(lease) | Deed::Renew(lease)) = ask.deed else { return None };
    let done = world.eval(REDLOCK_RB, "lock", &format!("{} {} yes", ask.who, lease / MS));
    Some(held(world, done, None))
}

fn redisson(world: &mut World, ask: &Ask) -> Option<Seen> {
    redisson_with(world, ask, REDISSON_UNLOCK)
}

fn redisson_with(world: &mut World, ask: &Ask, unlock: &str) -> Option<Seen> {
    let argv = |lease| format!("{} {}", lease / MS, ask.who);
    match ask.deed {
        Deed::Lock(lease) => {
            let holds = world.eval(REDISSON_LOCK, "lock", &argv(lease));
            Some(held(world, holds, None))
        }
        Deed::Unlock => Some(match world.eval(unlock, "lock", &argv(LEASE)) {
            RespValue::Nil => Seen::Refused,
            left => match number(&left) {
                Ok(left) => Seen::Released(u64::try_from(left).ok()?),
                Err(error) => Seen::Failed(error),
            },
        }),
        _ => None,
    }
}

fn fenced(world: &mut World, ask: &Ask, lock: &str) -> Option<Seen> {
    match ask.deed {
        Deed::Lock(lease) => {
            let reply = world.eval(lock, "lock token", &format!("{} {}", lease / MS, ask.who));
            Some(match pair(&reply) {
                Ok((holds, token)) => {
                    held(world, RespValue::Integer(holds), u64::try_from(token).ok())
                }
                Err(error) => Seen::Failed(error),
            })
        }
        Deed::Delete => {
            world.command("DEL lock");
            world.command("DEL token");
            Some(Seen::Nothing)
        }
        _ => redisson(world, ask),
    }
}

fn by_clients_clock(world: &mut World, ask: &Ask) -> Option<Seen> {
    let Deed::Lock(lease) = ask.deed else { return None };
    let ahead = if ask.who == 'B' { 20 * S } else { 0 };
    let argv = format!("{} {}", (ask.now_us + ahead) / MS, lease / MS);
    let taken = world.eval(CLIENTS_CLOCK, "lock", &argv);
    Some(held(world, taken, None))
}

/// Returns the view of the lock from a reply with the number of its holds, 0 for none.
fn held(world: &World, holds: RespValue, token: Option<u64>) -> Seen {
    match number(&holds) {
        Ok(holds @ 1..) => {
            let (holds, until_us) = (u64::try_from(holds).ok(), world.ends_at("lock"));
            Seen::Held(Hold { token, holds, until_us })
        }
        Ok(_) => Seen::Refused,
        Err(error) => Seen::Failed(error),
    }
}

/// The stored record, the number of acquires, and the holds that are still held, the latest last.
type Stored = (Option<Record>, u128, Vec<HoldId>);

/// Runs the shipped machine, but an owner that asks again gives up its place in line.
fn back_to_the_end(
    (slot, acquires, held): &mut Stored,
    now: u64,
    who: char,
    deed: Deed,
) -> Option<Seen> {
    let (lease, span) = (Duration::from_micros(LEASE), Duration::from_secs(60));
    let lock = Lock::new(lease, span).expect("in range");
    let now = Timestamp::from_micros(S + now).expect("traces are short");
    *acquires += 1;
    let (owner, id) = (OwnerId::from_u128(who as u128), HoldId::from_u128(*acquires));
    let operation = match deed {
        Deed::Lock(_) => lock.acquire(owner, id, Timestamp::MAX),
        Deed::LineUp(_) => {
            if lock.inspect().apply(slot, now).ok()?.holder.is_some() {
                lock.withdraw(owner).apply(slot, now).ok()?;
            }
            lock.acquire(owner, id, Timestamp::MAX).queued(span)
        }
        Deed::Unlock => lock.release(owner, held.pop().unwrap_or(id)),
        _ => return None,
    };
    Some(match operation.apply(slot, now).ok()?.answer {
        Answer::Released { holds, .. } => Seen::Released(holds),
        Answer::Held(hold) => {
            held.push(id);
            Seen::Held(Hold { holds: Some(hold.holds), ..Hold::default() })
        }
        _ => Seen::Refused,
    })
}
