//! E9: places of a limit in flight.

use std::collections::BTreeMap;
use std::time::Duration;

use lockage_core::{
    Acquire, Command, Limit, Renew, Renewal, RequestId, Reservation, Settle, Settlement,
};
use lockage_oracle::key::{Key, Slot, time};
use lockage_oracle::properties::{Check, cases, property, require};
use proptest::prelude::*;

const LIMIT: u64 = 10;
const LEASE_US: u64 = 1_000;
const START_US: u64 = 1_763_700_000_000_000;

#[derive(Clone, Copy, Debug)]
enum Ask {
    /// So many places, for so long.
    Reserve(u64, u64),
    /// So many places, which nobody gives back.
    Acquire(u64),
    /// One of the open reservations, with a true cost.
    Settle(usize, u64),
    /// One of them, for so long.
    Renew(usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Ask)>> {
    let moved = prop_oneof![4 => Just(0_u64), 4 => 1..300_u64, 1 => 300..2_500_u64];
    let ask = prop_oneof![
        6 => (1..=6_u64, 1..=LEASE_US).prop_map(|(places, hold)| Ask::Reserve(places, hold)),
        1 => (1..=4_u64).prop_map(Ask::Acquire),
        4 => (0..9_usize, 0..9_u64).prop_map(|(which, actual)| Ask::Settle(which, actual)),
        4 => (0..9_usize, 1..=2 * LEASE_US).prop_map(|(which, hold)| Ask::Renew(which, hold)),
    ];
    prop::collection::vec((moved, ask), 1..60)
}

/// The places by definition: when each was taken or renewed, and how many.
#[derive(Default)]
struct Places(BTreeMap<u128, (u64, u64)>);

impl Places {
    fn counts(since_us: u64, now_us: u64) -> bool {
        now_us < (since_us / LEASE_US + 2) * LEASE_US
    }

    fn taken(&self, now_us: u64) -> u64 {
        let counting = self.0.values().filter(|(since_us, _)| Places::counts(*since_us, now_us));
        counting.map(|(_, places)| places).sum()
    }
}

fn as_by_definition(key: &mut impl Key, steps: &[(u64, Ask)]) -> Check {
    let limit: Limit = format!("in-flight {LIMIT} lease {LEASE_US}us").parse().expect("a limit");
    let (mut places, mut open) = (Places::default(), Vec::<Reservation>::new());
    let (mut now_us, mut count) = (START_US, 0_u128);
    for &(moved_us, ask) in steps {
        now_us += moved_us;
        let now = time(now_us);
        let room = LIMIT - places.taken(now_us);
        let seen = || format!("{ask:?} at {now}, with room for {room}");
        match ask {
            Ask::Reserve(cost, hold_us) => {
                count += 1;
                let acquire = Acquire::new(limit, cost).expect("above zero");
                let hold = Duration::from_micros(hold_us);
                let reserve = acquire.reserve(RequestId::from_u128(count), hold).expect("short");
                let reserved = key.execute(&reserve, now).expect("it is a limiter");
                require(reserved.decision.is_allowed() == (cost <= room), seen)?;
                if let Some(reservation) = reserved.reservation {
                    places.0.insert(count, (now_us, cost));
                    open.push(reservation);
                }
                require(reserved.decision.remaining == LIMIT - places.taken(now_us), seen)?;
            }
            Ask::Acquire(cost) => {
                count += 1;
                let acquire = Acquire::new(limit, cost).expect("above zero");
                let decision = key.execute(&acquire, now).expect("it is a limiter");
                require(decision.is_allowed() == (cost <= room), seen)?;
                if decision.is_allowed() {
                    places.0.insert(count, (now_us, cost));
                }
            }
            Ask::Settle(which, actual) if !open.is_empty() => {
                let held = open.remove(which % open.len());
                let settled =
                    key.execute(&Settle::new(limit, &held, actual), now).expect("a limiter");
                let is_settled = matches!(settled, Settlement::Settled { .. });
                require(is_settled == (now < held.expires_at), seen)?;
                if is_settled {
                    places.0.remove(&held.id.as_u128());
                }
            }
            Ask::Renew(which, hold_us) if !open.is_empty() => {
                let which = which % open.len();
                let (held, hold) = (open[which], Duration::from_micros(hold_us));
                let renew = Renew::new(limit, &held, hold).expect("short");
                match key.execute(&renew, now).expect("it is a limiter") {
                    Renewal::Renewed(renewed) => {
                        let latest = now_us + LEASE_US;
                        let until = (held.expires_at.as_micros() + hold_us).min(latest);
                        let until = until.max(held.expires_at.as_micros());
                        require(renewed.expires_at.as_micros() == until, seen)?;
                        if renewed.expires_at > held.expires_at {
                            let since = places.0.get_mut(&held.id.as_u128()).expect("it is open");
                            since.0 = now_us;
                        }
                        open[which] = renewed;
                    }
                    _ => require(held.expires_at <= now, seen)?,
                }
            }
            Ask::Settle(..) | Ask::Renew(..) => {}
        }
        // Held places count for as long as they can be settled.
        let live = open.iter().filter(|held| now < held.expires_at);
        let all_count = live.clone().all(|held| {
            places
                .0
                .get(&held.id.as_u128())
                .is_some_and(|(since_us, _)| Places::counts(*since_us, now_us))
        });
        let held: u64 = live.map(|held| held.cost).sum();
        require(all_count && held <= LIMIT, seen)?;
    }
    Ok(())
}

#[test]
fn e9_no_more_places_are_taken_than_there_are_and_each_returns() {
    property("in_flight", cases(4_000), &steps(), |steps| {
        as_by_definition(&mut Slot::default(), &steps)
    });
}

/// A hundred thousand hold a place, in a record of two counts.
#[test]
fn e9_the_record_does_not_grow_with_its_holders() {
    let limit: Limit = "in-flight 100000 lease 30s".parse().expect("a limit");
    let (mut key, now) = (Slot::default(), time(START_US));
    let hold = Duration::from_secs(30);
    let mut reserve = |id: u128| {
        let reserve =
            Acquire::new(limit, 1).expect("above zero").reserve(RequestId::from_u128(id), hold);
        key.execute(&reserve.expect("short"), now).expect("it is a limiter")
    };
    let all: Vec<_> = (0..100_000).filter_map(|id| reserve(id).reservation).collect();
    assert_eq!(all.len(), 100_000);
    assert!(reserve(100_000).reservation.is_none());
    let settle = Settle::new(limit, &all[77_777], 0);
    let settled = key.execute(&settle, now).expect("it is a limiter");
    let Settlement::Settled { amount: 1, after } = settled else { panic!("{settled:?}") };
    assert_eq!(after.remaining, 1);
    assert!(settle.is_repeatable());
}
