//! The shipped lock: its scripts on the simulated store.

use std::collections::BTreeMap;
use std::time::Duration;

use lockage_core::Timestamp;
use lockage_core::lock::{Answer, HoldId, Lock, Operation, OwnerId};
use lockage_sim::store::SimStore;

use super::{since_start, timestamp};
use crate::museum::stage::Subject;
use crate::museum::step::{Deed, Hold, Seen, Step};

const KEY: &str = "lockage:{museum}";

/// How long operations are remembered and places in line last.
const REMEMBER: Duration = Duration::from_secs(60);

/// One lock.
pub(in crate::museum) struct ShippedLock {
    store: SimStore,
    acquires: u128,
    /// The last request of each client.
    latest: BTreeMap<char, Operation>,
    /// The unreleased holds of each client, the latest last.
    held: BTreeMap<char, Vec<HoldId>>,
    /// The token of each client's latest grant.
    tokens: BTreeMap<char, u64>,
}

impl ShippedLock {
    pub(in crate::museum) fn fresh() -> Box<dyn Subject> {
        let store = SimStore::new().expect("Lua gets its memory");
        let (latest, held, tokens) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Box::new(ShippedLock { store, acquires: 0, latest, held, tokens })
    }

    fn operation(&mut self, who: char, deed: Deed) -> Option<Operation> {
        if deed == Deed::Repeat {
            return self.latest.get(&who).copied();
        }
        self.acquires += 1;
        let id = HoldId::from_u128(self.acquires);
        let (owner, token) = (owner(who), self.tokens.get(&who).copied());
        let held = self.held.entry(who).or_default();
        let operation = match deed {
            Deed::Lock(lease) => lock(lease).acquire(owner, id, Timestamp::MAX),
            Deed::LineUp(lease) => lock(lease).acquire(owner, id, Timestamp::MAX).queued(REMEMBER),
            Deed::Renew(lease) => lock(lease).renew(owner, token),
            // A hold that does not exist, if the client has none to release.
            Deed::Unlock => lock(1).release(owner, held.pop().unwrap_or(id)),
            _ => return None,
        };
        if matches!(deed, Deed::Lock(_) | Deed::LineUp(_)) {
            held.push(id);
        }
        self.latest.insert(who, operation);
        Some(operation)
    }
}

impl Subject for ShippedLock {
    fn reset(&mut self) {
        self.store.flush_all();
        self.acquires = 0;
        self.latest.clear();
        self.held.clear();
        self.tokens.clear();
    }

    fn step(&mut self, at_us: u64, step: Step) -> Option<Seen> {
        let (who, deed) = match step {
            Step::Wait(_) => return Some(Seen::Nothing),
            Step::By(_, Deed::Delete) => {
                self.store.execute(&[b"DEL", KEY.as_bytes()]);
                return Some(Seen::Nothing);
            }
            Step::By(who, deed) => (who, deed),
        };
        self.store.set_now(timestamp(at_us));
        let operation = self.operation(who, deed)?;
        Some(match self.store.run(KEY, &operation) {
            Ok(reply) => match reply.answer {
                Answer::Released { holds, .. } => Seen::Released(holds),
                Answer::Held(hold) => {
                    self.tokens.insert(who, hold.token);
                    Seen::Held(Hold {
                        token: Some(hold.token),
                        holds: Some(hold.holds),
                        until_us: Some(since_start(hold.deadline)),
                    })
                }
                Answer::Refused(_) | Answer::TooLate { .. } | Answer::Queued { .. } => {
                    Seen::Refused
                }
            },
            Err(error) => Seen::Failed(error.to_string()),
        })
    }

    fn stored(&mut self) -> String {
        match (self.store.stored(KEY), self.store.expires_at_ms(KEY)) {
            (None, _) => String::new(),
            (Some(stored), until_ms) => format!("{stored:?} until {until_ms:?}"),
        }
    }
}

pub(super) fn owner(who: char) -> OwnerId {
    OwnerId::from_u128(u128::from(u32::from(who)))
}

pub(super) fn lock(lease_us: u64) -> Lock {
    Lock::new(Duration::from_micros(lease_us), REMEMBER).expect("leases of entries are in range")
}
