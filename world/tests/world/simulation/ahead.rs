//! E7: those who take permits ahead, and are broken, are found.

use lockage_world::simulation::{Flaw, Model, Property, Scenario, Work};

use super::broken::found;

#[test]
fn a_lease_that_runs_from_its_arrival_is_found() {
    found(Property::E7, with(Flaw::LeaseFromArrival), Model::default);
}

#[test]
fn an_answer_that_is_lost_and_counts_as_a_grant_is_found() {
    found(Property::E7, with(Flaw::LostIsGranted), Model::default);
}

/// All who take permits ahead have this flaw.
fn with(flaw: Flaw) -> impl Fn(u64) -> Scenario {
    move |seed| {
        let mut scenario = Scenario::of(seed);
        for job in &mut scenario.jobs {
            if let Work::Spend(work) = &mut job.work {
                work.flaw = Some(flaw);
            }
        }
        scenario
    }
}
