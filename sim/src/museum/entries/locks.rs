//! Bugs of locks.

use std::time::Duration;

use lockage_core::lock::{Answer, Lock, OperationId, OwnerId};
use lockage_core::{Command, Record, Timestamp};

use super::super::step::{Deed, Hold, Seen, Step};
use super::super::subject::{Ask, Foreign, Machine, ShippedLock, World};
use super::super::{Entry, Exhibit, Kind, Property};
use super::super::{judge, judge_lock};
use super::{MS, S, a, b, c, numbers, searched, searched_slowly};
use crate::store::RespValue;

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
                broken: Foreign::by(|world, ask| set_nx(world, ask, UNLOCK_WHOEVER_ASKS)),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::l3(),
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
                judge: judge_lock::l4(),
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
                judge: judge_lock::l4(),
                way: searched(&[a(Deed::Lock(60 * S)), a(Deed::Lock(5 * S)), a(Deed::Unlock)], 4),
            },
        },
        Entry {
            bug: Some(29),
            name: "re-entry-bumps-the-token",
            seen_in: "Redisson",
            kind: Kind::Script,
            property: Property::L5,
            about: "Each acquire counts the token up, also re-entry: what the owner does under \
                his first token is refused from then on.",
            scene: "a lease of 10 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| fenced(world, ask, REDISSON_FENCED)),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::l5(),
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
                judge: judge_lock::l5(),
                way: searched_slowly(&[a(LOCK), a(Deed::Unlock), a(Deed::Delete), b(LOCK)], 4, MS),
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
                judge: judge_lock::l1(),
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
                judge: judge_lock::l2(),
                way: searched(&[a(LOCK), a(Deed::Unlock), b(LOCK)], 4),
            },
        },
        Entry {
            bug: None,
            name: "back-to-the-end-of-the-line",
            seen_in: "our own",
            kind: Kind::Machine,
            property: Property::L9,
            about: "Whoever asks again while he waits goes to the end of the line.",
            scene: "a lease of 10 s, places in line of 60 s",
            exhibit: || Exhibit {
                broken: Machine::of((None, 0), back_to_the_end),
                shipped: ShippedLock::fresh(),
                judge: judge_lock::l9(),
                way: searched(&[a(LOCK), a(Deed::Unlock), b(LINE_UP), c(LINE_UP)], 6),
            },
        },
    ]
}

fn set_nx(world: &mut World, ask: &Ask, unlock: &str) -> Option<Seen> {
    let who = ask.who;
    let (reply, done) = match ask.deed {
        Deed::Lock(lease) => {
            let reply = world.eval(SET_NX, "lock", &format!("{who} {}", lease / MS));
            (reply, held(world, None, None))
        }
        Deed::Unlock => (world.eval(unlock, "lock", &who.to_string()), Seen::Released(0)),
        _ => return None,
    };
    Some(if reply == RespValue::Integer(1) { done } else { Seen::Refused })
}

fn redlock_rb(world: &mut World, ask: &Ask) -> Option<Seen> {
    let (Deed::Lock(lease) | Deed::Renew(lease)) = ask.deed else { return None };
    let reply = world.eval(REDLOCK_RB, "lock", &format!("{} {} yes", ask.who, lease / MS));
    Some(match reply {
        RespValue::Integer(1) => held(world, None, None),
        _ => Seen::Refused,
    })
}

fn redisson(world: &mut World, ask: &Ask) -> Option<Seen> {
    redisson_with(world, ask, REDISSON_UNLOCK)
}

fn redisson_with(world: &mut World, ask: &Ask, unlock: &str) -> Option<Seen> {
    let who = ask.who;
    match ask.deed {
        Deed::Lock(lease) => {
            let reply = world.eval(REDISSON_LOCK, "lock", &format!("{} {who}", lease / MS));
            Some(if reply == RespValue::Nil { held(world, Some(who), None) } else { Seen::Refused })
        }
        Deed::Unlock => {
            let reply = world.eval(unlock, "lock", &format!("{} {who}", LEASE / MS));
            Some(if reply == RespValue::Nil {
                Seen::Refused
            } else {
                Seen::Released(holds(world, who))
            })
        }
        _ => None,
    }
}

fn fenced(world: &mut World, ask: &Ask, lock: &str) -> Option<Seen> {
    match ask.deed {
        Deed::Lock(lease) => {
            let argv = format!("{} {}", lease / MS, ask.who);
            let token = numbers(&world.eval(lock, "lock token", &argv)).ok()?;
            let Some(token) = token.first() else { return Some(Seen::Refused) };
            Some(held(world, Some(ask.who), u64::try_from(*token).ok()))
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
    Some(match world.eval(CLIENTS_CLOCK, "lock", &argv) {
        RespValue::Integer(1) => Seen::Held(Hold::default()),
        _ => Seen::Refused,
    })
}

/// How the lock is held now: by whom, where holds are counted, and until when.
fn held(world: &mut World, who: Option<char>, token: Option<u64>) -> Seen {
    let holds = who.map(|who| holds(world, who));
    Seen::Held(Hold { token, holds, until_us: world.ends_at("lock") })
}

fn holds(world: &mut World, who: char) -> u64 {
    let held = numbers(&world.command(&format!("HGET lock {who}")));
    held.ok().and_then(|held| u64::try_from(*held.first()?).ok()).unwrap_or(0)
}

/// What is stored, and the number of the latest operation.
type Stored = (Option<Record>, u128);

/// The shipped machine, with a place in line given up whenever its owner asks again.
fn back_to_the_end(
    (slot, operations): &mut Stored,
    now: u64,
    who: char,
    deed: Deed,
) -> Option<Seen> {
    let (lease, span) = (Duration::from_micros(LEASE), Duration::from_secs(60));
    let lock = Lock::new(lease, span).expect("in range");
    let now = Timestamp::from_micros(S + now).expect("traces are short");
    *operations += 1;
    let (owner, id) = (OwnerId::from_u128(who as u128), OperationId::from_u128(*operations));
    let operation = match deed {
        Deed::Lock(_) => lock.acquire(owner, id, Timestamp::MAX),
        Deed::LineUp(_) => {
            if lock.inspect().apply(slot, now).ok()?.holder.is_some() {
                lock.withdraw(owner).apply(slot, now).ok()?;
            }
            lock.acquire(owner, id, Timestamp::MAX).queued(span)
        }
        Deed::Unlock => lock.release(owner, None, id),
        _ => return None,
    };
    Some(match operation.apply(slot, now).ok()?.answer {
        Answer::Done(hold) if deed == Deed::Unlock => Seen::Released(hold.holds),
        Answer::Done(hold) => Seen::Held(Hold { holds: Some(hold.holds), ..Hold::default() }),
        _ => Seen::Refused,
    })
}
