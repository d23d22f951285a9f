//! E7 for any limits, clocks, messages and crashes.

use std::cell::Cell;

use lockage_oracle::config::{Config, Kind};
use lockage_oracle::properties::{cases, property, try_out};
use proptest::collection::vec;
use proptest::prelude::*;

use super::nodes::{Broken, Fate, Setup, Step, What, World};

/// Cases for each kind of limit when nothing is asked for.
const DEFAULT_CASES: u32 = 1000;
const STEPS: usize = 40;

const KINDS: [Kind; 5] = [
    Kind::FixedWindow,
    Kind::SlidingLog,
    Kind::SlidingWindow,
    Kind::TokenBucket,
    Kind::IntervalBucket,
];

#[test]
fn e7_prefetch_admits_and_wastes_within_its_bounds() {
    for kind in KINDS {
        let spends = Cell::new(0);
        let name = format!("prefetch_{}", kind.name());
        property(&name, cases(DEFAULT_CASES), &input(kind), |(setup, steps)| {
            let mut world = World::new(setup, Broken::Not);
            world.play(&steps)?;
            spends.set(spends.get() + world.spends);
            Ok(())
        });
        let enough = u64::from(cases(DEFAULT_CASES));
        assert!(spends.get() > enough, "{kind:?}: {} are too few to tell", spends.get());
    }
}

/// Each of these nodes is detected, by its admissions alone.
#[test]
fn e7_broken_nodes_are_found() {
    for broken in Broken::ALL {
        let is_found = KINDS.iter().any(|&kind| {
            let check = |(setup, steps): (Setup, Vec<Step>)| World::new(setup, broken).play(&steps);
            try_out(4000, &input(kind), check).is_err()
        });
        assert!(is_found, "{broken:?}");
    }
}

fn input(kind: Kind) -> impl Strategy<Value = (Setup, Vec<Step>)> {
    let config =
        (2..=12_u64, 1..=30_u64, 2..=15_u64).prop_map(move |(amount, span_us, burst)| match kind {
            Kind::TokenBucket => Config::bucket(kind, amount, span_us, burst),
            Kind::IntervalBucket => Config::bucket(kind, amount.min(burst), span_us, burst),
            _ => Config::window(kind, amount, span_us),
        });
    let slow = vec(prop_oneof![Just(0), 0..200_000_u64], 1..=3);
    let setup = (config, 1..=12_u64, 1..=40_u64, slow);
    let setup = setup.prop_map(|(config, permits, lease_us, slow_ppm)| Setup {
        config,
        permits: permits.min(config.capacity() - 1),
        lease_us,
        slow_ppm,
    });
    setup.prop_flat_map(|setup| {
        let steps = vec(step(setup.slow_ppm.len(), setup.config.capacity()), 1..=STEPS);
        (Just(setup), steps)
    })
}

fn step(nodes: usize, capacity: u64) -> impl Strategy<Value = Step> {
    let gap = prop_oneof![2 => Just(0), 4 => 0..3_000_u64, 1 => 0..40_000_u64];
    let way = || prop_oneof![3 => Just(0), 3 => 0..4_000_u64, 1 => 0..40_000_u64];
    let cost = prop_oneof![3 => Just(1), 1 => 1..=capacity + 1];
    let what = prop_oneof![
        30 => cost.prop_map(|cost| What::Request { cost }),
        1 => Just(What::Crash),
        1 => Just(What::Forget),
    ];
    let fate = prop_oneof![
        12 => Just(Fate::Answered),
        1 => Just(Fate::RequestLost),
        1 => Just(Fate::ReplyLost),
        1 => Just(Fate::Twice),
    ];
    (gap, 0..nodes, what, way(), way(), fate).prop_map(
        |(gap_ns, node, what, there_ns, back_ns, fate)| Step {
            gap_ns,
            node,
            what,
            there_ns,
            back_ns,
            fate,
        },
    )
}
