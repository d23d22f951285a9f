//! Bugs of clients that wait for answers.

use super::{S, a, b, searched};
use crate::museum::judge_lock;
use crate::museum::step::{Deed, Step};
use crate::museum::subject::{Caller, Checks};
use crate::museum::{Entry, Exhibit, Kind, Property};

const LEASE: u64 = 10 * S;
const SHIPPED: Checks = Checks { deadline: true, is_wanted: true };

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry {
            bug: Some(25),
            name: "watchdog-outlives-unlock",
            seen_in: "Redisson#7272",
            kind: Kind::Flow,
            property: Property::L8,
            about: "A client that is interrupted during its acquire unlocks, and finds no renewal to \
                cancel. Then the answer arrives and starts one: the lock is renewed for ever, and \
                nobody holds it.",
            scene: "a lease of 10 s",
            exhibit: || Exhibit {
                broken: Caller::of(LEASE, Checks { is_wanted: false, ..SHIPPED }),
                shipped: Caller::of(LEASE, SHIPPED),
                judge: judge_lock::obeys_on_its_way(Property::L8, LEASE),
                way: searched(
                    &[
                        a(Deed::Send),
                        a(Deed::Arrive),
                        a(Deed::Hear),
                        a(Deed::GiveUp),
                        Step::Wait(LEASE),
                        b(Deed::Lock(LEASE)),
                    ],
                    7,
                ),
            },
        },
        Entry {
            bug: Some(26),
            name: "acquired-and-expired",
            seen_in: "node-redlock",
            kind: Kind::Flow,
            property: Property::L6,
            about: "The answer takes longer than the lease, and is handed out as a lock \
                nevertheless.",
            scene: "a lease of 10 s",
            exhibit: || Exhibit {
                broken: Caller::of(LEASE, Checks { deadline: false, ..SHIPPED }),
                shipped: Caller::of(LEASE, SHIPPED),
                judge: judge_lock::obeys_on_its_way(Property::L6, LEASE),
                way: searched(
                    &[
                        a(Deed::Send),
                        a(Deed::Arrive),
                        a(Deed::Hear),
                        Step::Wait(LEASE),
                        b(Deed::Lock(LEASE)),
                    ],
                    5,
                ),
            },
        },
    ]
}
