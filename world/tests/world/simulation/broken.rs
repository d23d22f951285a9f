//! Each property can fail: bugs, put into the shipped scripts one text at a time, into the answers of the Rust
//! machines, and into worlds. Each is found within some seeds, and shown by a world that is much smaller.

use std::time::Duration;

use lockage_core::semaphore::Semaphore;
use lockage_core::{Decision, RequestId, ScriptId, Timestamp, Verdict, lock, rw_lock, semaphore};
use lockage_sim::store::SimStore;
use lockage_world::simulation::campaign::explain;
use lockage_world::simulation::{
    Held, Limiter, Machine, Model, Operation, Property, Ran, Scenario, Scripts, Server, run,
};

const SEEDS: u64 = 4000;

#[test]
fn charges_that_are_not_stored_are_found_by_the_envelopes() {
    for (property, script, text, broken) in [
        (Property::E1, ScriptId::FixedWindowAcquire, "used = used + cost", "used = used"),
        (Property::E2, ScriptId::SlidingLogAcquire, "true, total + cost", "true, total + 1"),
        (
            Property::E3,
            ScriptId::SlidingWindowAcquire,
            "current = current + cost",
            "current = current",
        ),
        (
            Property::E4,
            ScriptId::TokenBucketAcquire,
            "deficit = deficit + cost * unit",
            "deficit = deficit",
        ),
        (
            Property::E6,
            ScriptId::LeakyBucketAcquire,
            "deficit = deficit + cost * unit",
            "deficit = deficit",
        ),
    ] {
        found_in_script(property, script, text, broken);
    }
}

#[test]
fn charges_that_are_not_stored_are_found_by_e5() {
    let limit = "token-bucket 1 every 1s burst 6".parse().unwrap();
    let machine = Machine::Limiter(Limiter::new(limit, 1_000_000));
    let scenario = |seed| Scenario { machine, ..Scenario::of(2 * seed + 1) };
    let script = ScriptId::IntervalBucketAcquire;
    found(
        Property::E5,
        scenario,
        broken_script(script, "deficit = deficit + cost\n", "deficit = deficit\n"),
    );
}

#[test]
fn wrong_decisions_are_found() {
    let microsecond = Duration::from_micros(1);
    found_in_answers(Property::D1, |decision| {
        if decision.is_allowed() {
            decision.verdict = Verdict::denied(Duration::from_secs(1));
        }
    });
    found_in_answers(Property::D2, move |decision| {
        if let Verdict::Denied { retry_after, .. } = &mut decision.verdict {
            *retry_after += microsecond;
        }
    });
    found_in_answers(Property::D2, move |decision| {
        if let Verdict::Denied { retry_after, .. } = &mut decision.verdict {
            *retry_after = retry_after.saturating_sub(microsecond);
        }
    });
    found_in_answers(Property::D4, |decision| decision.remaining += 1);
    found_in_answers(Property::D4, move |decision| decision.reset_after += microsecond);
    found_in_answers(Property::D13, move |decision| decision.turn_after += microsecond);
}

#[test]
fn a_key_that_is_dropped_too_soon_is_found_by_d9() {
    let kept = "math.ceil((till - now) / 1000) + skew";
    found_in_script(Property::D9, ScriptId::TokenBucketAcquire, kept, "1 + skew");
    // Kept as it was where it should be set anew.
    found_in_script(
        Property::D9,
        ScriptId::TokenBucketAcquire,
        "if till == new_till then",
        "if till > 0 then",
    );
    let kept = "'PX', ttl_ms(keep)";
    found_in_script(Property::D9, ScriptId::LockAcquire, kept, "'PX', ttl_ms(deadline)");
}

#[test]
fn a_request_that_is_charged_twice_is_found_by_d11() {
    let check = "if name == id then known = request end";
    found_in_script(Property::D11, ScriptId::LimiterAcquire, check, "");
}

#[test]
fn an_error_is_found_by_d12() {
    let first = "local new_state, ";
    let broken = "if now % 10 == 0 then error('a tenth') end local new_state, ";
    found_in_script(Property::D12, ScriptId::TokenBucketAcquire, first, broken);
}

#[test]
fn a_lease_that_ends_early_in_the_store_is_found_by_l1() {
    let live = "return held ~= '' and now < deadline";
    let broken = "return held ~= '' and now + 50000 < deadline";
    found_in_script(Property::L1, ScriptId::LockAcquire, live, broken);
}

#[test]
fn a_release_of_all_holds_is_found_by_l2() {
    let one = "of, left = token, holds()";
    found_in_script(Property::L2, ScriptId::LockRelease, one, "held, of, left = '', token, 0");
}

#[test]
fn a_release_without_an_owner_check_is_found_by_l3() {
    let check = "is_held_by(ARGV[4]) and find(held, id)";
    found_in_script(Property::L3, ScriptId::LockRelease, check, "is_live() and 1");
}

#[test]
fn a_release_that_takes_another_hold_is_found_by_l3() {
    let check = "is_held_by(ARGV[4]) and find(held, id)";
    found_in_script(Property::L3, ScriptId::LockRelease, check, "is_held_by(ARGV[4]) and 1");
}

#[test]
fn a_renewal_that_brings_a_lease_back_is_found_by_l3() {
    let check = "if not is_held_by(ARGV[4], tonumber(ARGV[5])) then";
    let broken = "if held == '' or owner ~= ARGV[4] then";
    found_in_script(Property::L3, ScriptId::LockRenew, check, broken);
}

#[test]
fn a_grant_for_less_than_the_lease_is_found_by_l4() {
    let lease = "local lease_end = now + tonumber(ARGV[6])";
    let broken = "local lease_end = now + tonumber(ARGV[6]) - 1";
    found_in_script(Property::L4, ScriptId::LockAcquire, lease, broken);
}

#[test]
fn a_token_that_counts_from_1_is_found_by_l5() {
    found_in_script(Property::L5, ScriptId::LockAcquire, "max(now, token + 1)", "token + 1");
}

#[test]
fn a_clock_that_runs_too_fast_is_found_by_l6() {
    found(
        Property::L6,
        |seed| Scenario { store_ppm: 20_000, ..Scenario::of(seed) },
        Model::default,
    );
}

#[test]
fn what_is_shared_is_watched_by_its_own_holders_too() {
    let (lease, remember) = (Duration::from_secs(1), Duration::from_secs(2));
    let semaphore = Semaphore::new(1, lease, remember).unwrap();
    let machine = Machine::Semaphore { semaphore, poll_us: 20_000 };
    let scenario = |seed| Scenario { store_ppm: 20_000, machine, ..Scenario::of(2 * seed) };
    found(Property::L6, scenario, Model::default);
}

#[test]
fn what_is_wrong_with_semaphores_is_found() {
    for (property, script, text, broken) in [
        (Property::L1, ScriptId::SemaphoreAcquire, "used > room", "used - permits > room"),
        (
            Property::L4,
            ScriptId::SemaphoreRenew,
            "deadline = lease_end\n",
            "deadline = lease_end - 1\n",
        ),
        (Property::L5, ScriptId::SemaphoreAcquire, "max(now, token + 1)", "token + 1"),
        (Property::L10, ScriptId::SemaphoreAcquire, "if own or given_back then", "if own then"),
        (Property::D9, ScriptId::SemaphoreRelease, "keep = max(keep, unpack('<d', one, 25))", ""),
    ] {
        found_in_script(property, script, text, broken);
    }
    found(Property::L2, Scenario::of, || Bent {
        semaphore: Some(|reply| {
            if let semaphore::Answer::Full { fits_at } = &mut reply.answer {
                *fits_at = fits_at.saturating_add(Duration::from_micros(1));
            }
        }),
        ..Bent::default()
    });
    found(Property::L3, Scenario::of, || Bent {
        semaphore: Some(|reply| {
            if reply.answer == semaphore::Answer::NotHeld {
                reply.answer = semaphore::Answer::Released { token: 7 };
            }
        }),
        ..Bent::default()
    });
}

#[test]
fn what_is_wrong_with_sides_is_found() {
    for (property, text, broken) in [
        (Property::L1, "      till = max(till, grant.deadline)\n", ""),
        (
            Property::L2,
            "if readers >= READERS then return first, TOO_MANY",
            "if readers > 0 then return first, REFUSED",
        ),
        (Property::L9, "first, till = 0, nil, kept_till", "first, till = 0, nil, 0"),
    ] {
        found_in_script(property, ScriptId::RwLockAcquire, text, broken);
    }
    found(Property::L4, Scenario::of, || Bent {
        rw_lock: Some(|reply| {
            if let rw_lock::Answer::Held(hold) = &mut reply.answer {
                hold.deadline = hold.deadline.saturating_add(Duration::from_micros(1));
            }
        }),
        ..Bent::default()
    });
}

#[test]
fn what_is_wrong_with_latches_is_found() {
    for (property, script, text, broken) in [
        (Property::L2, ScriptId::LatchCountDown, "max(0, left - count)", "max(0, left - 1)"),
        (Property::L10, ScriptId::LatchCountDown, " or answered('c', ARGV[3], count)", ""),
        (Property::L12, ScriptId::LatchCountDown, "DONE, left, 1}", "DONE, left, 0}"),
        (Property::D9, ScriptId::LatchSet, "'PX', ttl_ms(till)", "'PX', ttl_ms(now)"),
    ] {
        found_in_script(property, script, text, broken);
    }
}

#[test]
fn a_line_that_is_jumped_is_found_by_l9() {
    let next = "not queue[1] or queue[1].owner == who";
    found_in_script(Property::L9, ScriptId::LockAcquire, next, "true");
    let leaves = "if leave(ARGV[3]) then";
    found_in_script(Property::L9, ScriptId::LockWithdraw, leaves, "if false then");
}

#[test]
fn what_is_wrong_with_releases_by_force_is_found() {
    for (property, script, text, broken) in [
        // One that names another grant frees the lock, too.
        (
            Property::L3,
            ScriptId::LockForceRelease,
            "if not is_live() or token ~= broken",
            "if not is_live()",
        ),
        (Property::L10, ScriptId::LockForceRelease, "end_all('f', ' ' .. of)", "end_all('x', '')"),
        (Property::L2, ScriptId::LockInspect, "= token - ahead", "= token"),
        (Property::L9, ScriptId::LockInspect, "{0, now, #queue}", "{0, now, #queue + 1}"),
    ] {
        found_in_script(property, script, text, broken);
    }
}

#[test]
fn a_value_that_accepts_any_token_is_found_by_l7() {
    let check = "if mine < token then return {0, now, STALE, token} end";
    found_in_script(Property::L7, ScriptId::FencedWrite, check, "");
}

#[test]
fn a_lock_that_stays_taken_is_found_by_l8() {
    found(Property::L8, Scenario::of, || Bent {
        lock: Some(|reply| reply.answer = lock::Answer::Refused(None)),
        ..Bent::default()
    });
}

#[test]
fn calls_that_never_end_are_found_by_l8_and_d10() {
    for property in [Property::L8, Property::D10] {
        // They are not made smaller: smaller ones that do not end run until they are given up, too.
        let scenario = |seed| Scenario { timeout_us: 10, ..Scenario::of(seed) };
        seed_that_breaks(property, scenario, &mut Model::default());
    }
}

#[test]
fn a_retry_that_counts_twice_is_found_by_l10() {
    let check = "if is_known and is_held_by(who) then return grant() end";
    found_in_script(Property::L10, ScriptId::LockAcquire, check, "");
}

#[test]
fn a_late_acquire_that_is_not_refused_is_found_by_l10() {
    let check = "if now > tonumber(ARGV[7]) then return {0, now, TOO_LATE} end";
    found_in_script(Property::L10, ScriptId::LockAcquire, check, "");
}

#[track_caller]
pub(super) fn found_in_script(property: Property, script: ScriptId, text: &str, broken: &str) {
    found(property, Scenario::of, broken_script(script, text, broken));
}

/// Makes servers on which one script has another text.
#[track_caller]
fn broken_script(script: ScriptId, text: &str, broken: &str) -> impl Fn() -> Scripts {
    let source = lockage_lua::script(script).source();
    assert_eq!(source.matches(text).count(), 1, "{text}");
    let broken = source.replace(text, broken);
    // The slow path of a lock runs where the fast one does not.
    let is_slow_path = script.name().starts_with("lock_");
    let refuse = format!("return redis.error_reply('{} for tests')", lockage_lua::NEEDS_SLOW_PATH);
    let fast = [ScriptId::FastLockAcquire, ScriptId::FastLockRenew, ScriptId::FastLockRelease];
    move || {
        let store = SimStore::new().unwrap().with_script(script, broken.clone());
        let skipped = fast.into_iter().filter(|_| is_slow_path);
        Scripts::on(skipped.fold(store, |store, fast| store.with_script(fast, refuse.clone())))
    }
}

#[track_caller]
fn found_in_answers(property: Property, permit: impl Fn(&mut Decision)) {
    found(property, Scenario::of, || Bent { permit: Some(&permit), ..Bent::default() });
}

pub(super) fn found_in_outcomes(property: Property, any: &dyn Fn(&mut Ran)) {
    found(property, Scenario::of, || Bent { any: Some(any), ..Bent::default() });
}

/// Some world breaks the property on such a server, and so does a smaller one.
#[track_caller]
pub(super) fn found<S: Server>(
    property: Property,
    scenario: impl Fn(u64) -> Scenario,
    server: impl Fn() -> S,
) {
    let seed = seed_that_breaks(property, &scenario, &mut server());
    let failure = explain(&scenario(seed), &mut server()).unwrap();
    assert_eq!(failure.violation.property, property);
    let (jobs, faults) = (failure.scenario.jobs.len(), failure.scenario.faults.len());
    assert!(jobs <= 13 && faults <= 3, "{property}: {}", failure.scenario);
    let lines = failure.timeline.len();
    let text = failure.timeline.iter().map(|line| format!("{line}\n")).collect::<String>();
    assert!(
        lines <= 250 || failure.violation.what.contains("jobs are done"),
        "{}\n{text}",
        failure.scenario
    );
}

#[track_caller]
fn seed_that_breaks(
    property: Property,
    scenario: impl Fn(u64) -> Scenario,
    broken: &mut impl Server,
) -> u64 {
    let fails = |seed: &u64| {
        let violation = run(&scenario(*seed), broken, false).violation;
        violation.is_some_and(|violation| violation.property == property)
    };
    let seed = (0..SEEDS).find(fails);
    seed.unwrap_or_else(|| panic!("no world breaks {property}"))
}

/// The Rust machines, whose answers are changed on their way.
#[derive(Default)]
struct Bent<'a> {
    model: Model,
    any: Option<&'a dyn Fn(&mut Ran)>,
    lock: Option<fn(&mut lock::Reply)>,
    semaphore: Option<fn(&mut semaphore::Reply)>,
    rw_lock: Option<fn(&mut rw_lock::Reply)>,
    permit: Option<&'a dyn Fn(&mut Decision)>,
}

impl Server for Bent<'_> {
    fn clear(&mut self) {
        self.model.clear();
    }

    fn run(&mut self, key: usize, operation: &Operation, now: Timestamp) -> Result<Ran, String> {
        let mut ran = self.model.run(key, operation, now)?;
        self.any.iter().for_each(|bend| bend(&mut ran));
        match &mut ran {
            Ran::Lock(reply) => self.lock.iter().for_each(|bend| bend(reply)),
            Ran::Semaphore(reply) => self.semaphore.iter().for_each(|bend| bend(reply)),
            Ran::RwLock(reply) => self.rw_lock.iter().for_each(|bend| bend(reply)),
            Ran::Decision(decision) => self.permit.iter().for_each(|bend| bend(decision)),
            _ => {}
        }
        Ok(ran)
    }

    fn is_held(&mut self, key: usize, now: Timestamp) -> bool {
        self.model.is_held(key, now)
    }

    fn is_held_beside(&mut self, key: usize, id: RequestId, now: Timestamp) -> bool {
        self.model.is_held_beside(key, id, now)
    }

    fn held(&mut self, key: usize) -> Held {
        self.model.held(key)
    }

    fn hold(&mut self, key: usize, held: &Held) {
        self.model.hold(key, held);
    }
}
