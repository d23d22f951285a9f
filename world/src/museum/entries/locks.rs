//! Bugs of locks, and of clients that wait for their answers.

use std::time::Duration;

use lockage_core::lock::{Answer, HoldId, Lock, OwnerId};
use lockage_core::{Command, Record, Timestamp};
use lockage_sim::store::RespValue;

use super::{MS, S, a, b, bug, c, lua, number, or_failed, own, pair};
use crate::museum::stage::Judge;
use crate::museum::step::Deed::{self, Arrive, Delete, GiveUp, Hear, Renew, Repeat, Send, Unlock};
use crate::museum::step::Step::Wait;
use crate::museum::step::{Hold, Seen};
use crate::museum::subject::{Ask, Caller, Checks, ShippedLock, World};
use crate::museum::{Entry, Kind, Property, judge, judge_lock};

const LEASE: u64 = 10 * S;
const LOCK: Deed = Deed::Lock(LEASE);
const LINE_UP: Deed = Deed::LineUp(LEASE);
const A_LEASE: &str = "a lease of 10 s";

pub(super) fn entries() -> Vec<Entry> {
    vec![
        bug(23, "unlock-whoever-asks", "many")
            .about(
                "To unlock is to delete the key, whoever does it: also one whose own lease is long \
                over.",
                A_LEASE,
            )
            .breaks_law(Property::L3)
            .client(set_nx)
            .searched([a(LOCK), b(LOCK), a(Unlock), b(Unlock)], 4),
        bug(24, "renewal-resurrects", "redlock-rb")
            .about(
                "An extension takes the lock anew where it is gone. Its owner never hears that \
                somebody else may have had it.",
                A_LEASE,
            )
            .breaks_law(Property::L4)
            .client(redlock_rb)
            .searched([a(LOCK), a(Renew(LEASE)), b(LOCK), Wait(11 * S)], 4),
        bug(25, "watchdog-outlives-unlock", "Redisson#7272")
            .about(
                "A client that is interrupted during its acquire unlocks, and finds no renewal to \
                cancel. Then the answer arrives and starts one: the lock is renewed for ever, and \
                nobody holds it.",
                A_LEASE,
            )
            .waits(Property::L8, Checks { is_wanted: false, ..SHIPPED })
            .searched([a(Send), a(Arrive), a(Hear), a(GiveUp), Wait(LEASE), b(LOCK)], 7),
        bug(26, "acquired-and-expired", "node-redlock")
            .about(
                "The answer takes longer than the lease, and is handed out as a lock \
                nevertheless.",
                A_LEASE,
            )
            .waits(Property::L6, Checks { deadline: false, ..SHIPPED })
            .searched([a(Send), a(Arrive), a(Hear), Wait(LEASE), b(LOCK)], 5),
        bug(27, "retry-counts-twice", "Redisson#7367")
            .about(
                "An acquire whose answer was late is sent again, and taken for a re-entry: one \
                unlock leaves the lock held.",
                A_LEASE,
            )
            .judged(Property::L10, judge::repeats_change_nothing())
            .client(redisson)
            .searched([a(LOCK), a(Repeat), a(Unlock)], 4),
        bug(28, "re-entry-shortens", "Redisson")
            .about(
                "Re-entry sets the lease to its own, also where the existing one lasts longer.",
                "leases of 60 s and of 5 s",
            )
            .breaks_law(Property::L4)
            .client(redisson)
            .searched([a(Deed::Lock(60 * S)), a(Deed::Lock(5 * S)), a(Unlock)], 4),
        bug(29, "re-entry-bumps-the-token", "Redisson")
            .about(
                "Each acquire increments the token, also re-entry: accesses with the owner's first \
                token are refused from then on.",
                A_LEASE,
            )
            .breaks_law(Property::L5)
            .client(|world, ask| fenced(world, ask, lua("redisson_fenced_lock")))
            .searched_slowly([a(LOCK), a(Unlock), b(LOCK)], 4, MS),
        bug(29, "token-restarts", "Redisson")
            .about(
                "The token is a counter in a key. Once that is deleted it begins at 1, below \
                tokens that were given out.",
                "a lease of 10 s; each step takes 1 ms",
            )
            .breaks_law(Property::L5)
            .client(|world, ask| fenced(world, ask, lua("lock_with_counted_token")))
            .searched_slowly([a(LOCK), a(Unlock), a(Delete), b(LOCK)], 4, MS),
        own("renewal-whoever-asks", "many")
            .about(
                "A renewal sets the key's expiry, whoever sends it: also a former holder, which \
                then believes that it holds the lock.",
                A_LEASE,
            )
            .breaks_law(Property::L3)
            .flow(set_nx)
            .searched([a(LOCK), a(Renew(LEASE)), b(Renew(LEASE))], 4),
        own("lock-by-the-clients-clock", "the time before SET NX PX")
            .about(
                "Whether the lease is over is decided by the clock of whoever asks.",
                "a lease of 10 s; B's clock is 20 s ahead",
            )
            .breaks_law(Property::L1)
            .client(by_clients_clock)
            .searched([a(LOCK), b(LOCK), Wait(5 * S)], 4),
        own("unlock-of-all-holds", "our own")
            .about("The first release gives all holds back.", A_LEASE)
            .breaks_law(Property::L2)
            .client(|world, ask| redisson_with(world, ask, lua("unlock_all_holds")))
            .searched([a(LOCK), a(Unlock), b(LOCK)], 4),
        own("back-to-the-end-of-the-line", "our own")
            .about(
                "A waiter that polls goes to the end of the line.",
                "a lease of 10 s, places in line of 60 s",
            )
            .breaks_law(Property::L9)
            .machine((None, 0, Vec::new()), back_to_the_end)
            .searched([a(LOCK), a(Unlock), b(LINE_UP), c(LINE_UP)], 6),
    ]
}

const SHIPPED: Checks = Checks { deadline: true, is_wanted: true };

impl Entry {
    /// Beside the shipped lock.
    fn judged(self, property: Property, judge: Judge) -> Self {
        Entry { shipped: Box::new(ShippedLock::fresh), ..self.killed_by(property, judge) }
    }

    fn breaks_law(self, law: Property) -> Self {
        self.judged(law, judge_lock::obeys(law))
    }

    /// A client that waits for answers, with these checks alone.
    fn waits(self, law: Property, checks: Checks) -> Self {
        let judge = judge_lock::obeys_on_its_way(law, LEASE);
        let broken = Box::new(move || Caller::of(LEASE, checks));
        let shipped = Box::new(|| Caller::of(LEASE, SHIPPED));
        Entry { kind: Kind::Flow, broken, shipped, ..self.killed_by(law, judge) }
    }
}

fn set_nx(world: &mut World, ask: &Ask) -> Option<Seen> {
    let who = ask.who;
    match ask.deed {
        Deed::Lock(lease) => {
            let taken = world.eval(lua("lock_set_nx"), "lock", &format!("{who} {}", lease / MS));
            Some(held(world, taken, None))
        }
        Renew(lease) => {
            let done = world.command(&format!("PEXPIRE lock {}", lease / MS));
            Some(held(world, done, None))
        }
        Unlock => Some(or_failed(&world.eval(lua("unlock_whoever_asks"), "lock", ""), |done| {
            if done == 1 { Seen::Released(0) } else { Seen::Refused }
        })),
        _ => None,
    }
}

fn redlock_rb(world: &mut World, ask: &Ask) -> Option<Seen> {
    let (Deed::Lock(lease) | Renew(lease)) = ask.deed else { return None };
    let argv = format!("{} {} yes", ask.who, lease / MS);
    let done = world.eval(lua("redlock_rb_lock"), "lock", &argv);
    Some(held(world, done, None))
}

fn redisson(world: &mut World, ask: &Ask) -> Option<Seen> {
    redisson_with(world, ask, lua("redisson_unlock"))
}

fn redisson_with(world: &mut World, ask: &Ask, unlock: &str) -> Option<Seen> {
    let argv = |lease| format!("{} {}", lease / MS, ask.who);
    match ask.deed {
        Deed::Lock(lease) => {
            let holds = world.eval(lua("redisson_lock"), "lock", &argv(lease));
            Some(held(world, holds, None))
        }
        Unlock => Some(match world.eval(unlock, "lock", &argv(LEASE)) {
            RespValue::Nil => Seen::Refused,
            left => or_failed(&left, |left| Seen::Released(left.unsigned_abs())),
        }),
        _ => None,
    }
}

fn fenced(world: &mut World, ask: &Ask, lock: &str) -> Option<Seen> {
    match ask.deed {
        Deed::Lock(lease) => {
            let reply = world.eval(lock, "lock token", &format!("{} {}", lease / MS, ask.who));
            Some(pair(&reply).map_or_else(Seen::Failed, |(holds, token)| {
                held(world, RespValue::Integer(holds), u64::try_from(token).ok())
            }))
        }
        Delete => {
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
    let taken = world.eval(lua("lock_by_clients_clock"), "lock", &argv);
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
        Unlock => lock.release(owner, held.pop().unwrap_or(id)),
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
