//! The laws of the lock have teeth: bugs that others shipped, put into the shipped scripts one text
//! at a time, and killed by the same checks that the unchanged scripts pass.
//!
//! The numbers are those of the bugs in the contract; mutants without one make every law fail at
//! least once.

use std::cell::RefCell;

use lockage_core::ScriptId;
use lockage_oracle::lock::watch::{LAWS, d9_a_forgettable_lock_is_fresh, obeys};
use lockage_oracle::lock::{OnKey, Trace, trace};
use lockage_oracle::place::Time;
use lockage_oracle::properties::{Check, kills, try_out};
use lockage_oracle::property::Property as Law;
use lockage_sim::store::{SimStore, Simulated};
use proptest::prelude::*;

use super::scripts::broken;

const CASES: u32 = 1_500;

/// The longest trace: a few grants, more operations than are remembered, and several waiters in
/// line.
const STEPS: usize = 48;

#[test]
fn the_shipped_scripts_obey_every_law() {
    for (store, cases) in [(store(), CASES), (without_plain_scripts(store()), CASES / 3)] {
        let store = RefCell::new(store);
        assert_eq!(try_out(cases, &traces(), |trace| on(&LAWS, &store, &trace)), Ok(()));
    }
}

#[test]
fn plain_scripts_that_are_broken_are_killed() {
    use ScriptId::{
        FastLockAcquire as Acquire, FastLockRelease as Release, FastLockRenew as Renew,
    };
    killed(Law::L1, Acquire, "elseif owner == who and holds < 64 then", "elseif holds < 256 then");
    killed(Law::L2, Release, "4, token, holds - 1)", "4, token, 0)");
    killed(Law::L3, Release, "not live or owner ~= who or", "not live or");
    killed(Law::L3, Renew, "if not live or owner ~= who or", "if not live or");
    killed(Law::L4, Renew, "if not live or owner", "if holds == 0 or owner");
    let longer = "if deadline < now + lease then deadline = now + lease end";
    killed(Law::L4, Acquire, longer, "deadline = now + lease");
    // Records are refused in which a token is behind the time of its grant.
    let at_least_now = "if token < now then token = now end\n  deadline, ahead, holds, owner = \
        now + lease, token - now,";
    let restarts = "deadline, ahead, holds, owner = now + lease, 0,";
    killed(Law::L5, Acquire, at_least_now, restarts);
    killed(Law::L5, Acquire, "token = token + 1\n", "");
    killed(Law::L10, Acquire, "if at then", "if false then");
    killed(Law::L8, Acquire, "if now > not_after or", "if now >= not_after or");
    let ended = "if holds > 0 and not live then return redis.error_reply(NEEDS_SLOW_PATH) end";
    let forgets = "if holds > 0 and not live then old, entries, holds = string.sub(old, 1, 69) .. \
        string.sub(old, 70 + 34 * holds), entries - holds, 0 end";
    killed(Law::L10, Acquire, ended, forgets);
    killed(Law::L10, Acquire, "if now > not_after or", "if now > not_after + 1 or");
    killed(Law::L10, Acquire, "if entries > 3 then", "if entries > 2 then");
    killed(Law::L10, Acquire, "not_after <= forgotten then", "not_after < forgotten then");
    for script in [Acquire, Release] {
        killed(Law::L10, script, "if gone > forgotten then forgotten = gone end", "");
    }
    killed(Law::L10, Acquire, "if struct.unpack('<d', old, at + 25) < till then", "if false then");
    killed(Law::L10, Acquire, "'h', id, token, 0, till, behind)", "'h', id, token, 0, 0, behind)");
    killed(Law::L10, Release, "(struct.unpack('<d', old, at + 25))", "0");
}

#[test]
fn bug_23_an_unlock_without_an_owner_check_is_killed_by_l3() {
    let check = "is_held_by(ARGV[4]) then at, behind, till = find(held, id .. ' (%d+)') end";
    let any = "is_live() then at, behind, till = find(held, id .. ' (%d+)') end";
    killed(Law::L3, ScriptId::LockRelease, check, any);
}

#[test]
fn bug_24_a_renewal_that_resurrects_an_expired_lock_is_killed_by_l4() {
    let check = "if not is_held_by(ARGV[4], tonumber(ARGV[5])) then";
    killed(Law::L4, ScriptId::LockRenew, check, "if held == '' or owner ~= ARGV[4] then");
}

#[test]
fn bug_27_a_retry_that_counts_twice_is_killed_by_l10() {
    let check = "if is_known and is_held_by(who) then";
    killed(Law::L10, ScriptId::LockAcquire, check, "if false then");
}

#[test]
fn bug_28_a_re_entry_that_shortens_the_lease_is_killed_by_l4() {
    killed(Law::L4, ScriptId::LockAcquire, "hold, max(deadline, lease_end)", "hold, lease_end");
}

#[test]
fn bug_29_a_re_entry_that_bumps_the_token_is_killed_by_l5() {
    let re_entry = "held, deadline = held .. ' ' .. hold, max(deadline, lease_end)";
    let bumped = "held, deadline, token = held .. ' ' .. hold, max(deadline, lease_end), token + 1";
    killed(Law::L5, ScriptId::LockAcquire, re_entry, bumped);
}

#[test]
fn bug_29_a_token_that_restarts_at_1_when_the_key_is_gone_is_killed_by_l5() {
    // Records are refused in which a token is behind the time of its grant.
    let shipped = "max(now, token + 1)\n  ahead, label = token - now,";
    killed(Law::L5, ScriptId::LockAcquire, shipped, "token + 1\n  ahead, label = 0,");
}

#[test]
fn bug_29_a_release_that_deletes_the_key_is_killed_by_l5() {
    let deleted =
        "if held == '' then redis.call('DEL', key) return {0, now, RELEASED, token, 0} end";
    killed(Law::L5, ScriptId::LockRelease, "  commit(tonumber(ARGV[3]))", deleted);
}

#[test]
fn a_grant_before_the_lease_is_over_is_killed_by_l1() {
    killed(
        Law::L1,
        ScriptId::LockAcquire,
        "held ~= '' and now < deadline",
        "held ~= '' and now + 1 < deadline",
    );
}

#[test]
fn an_acquire_that_takes_everybody_for_the_owner_is_killed_by_l1() {
    killed(
        Law::L1,
        ScriptId::LockAcquire,
        "elseif is_held_by(who) and holds() < MAX_HOLDS then",
        "elseif is_live() then",
    );
}

#[test]
fn a_grant_to_the_first_caller_is_killed_by_l9() {
    killed(
        Law::L9,
        ScriptId::LockAcquire,
        "if not is_live() and is_next then",
        "if not is_live() then",
    );
}

#[test]
fn a_grant_to_a_caller_outside_the_line_is_killed_by_l9() {
    let barging = "local is_next = ARGV[9] == '' or not queue[1]";
    killed(Law::L9, ScriptId::LockAcquire, "local is_next = not queue[1]", barging);
}

#[test]
fn a_holder_that_has_to_wait_for_others_is_killed_by_l9() {
    killed(
        Law::L9,
        ScriptId::LockAcquire,
        "elseif is_held_by(who) and",
        "elseif is_next and is_held_by(who) and",
    );
}

#[test]
fn a_caller_that_asks_again_and_moves_to_the_end_is_killed_by_l9() {
    let kept = "  queue[at or #queue + 1] = {";
    let moved = "  if at then table.remove(queue, at) end\n  queue[#queue + 1] = {";
    killed(Law::L9, ScriptId::LockAcquire, kept, moved);
}

#[test]
fn a_place_that_asking_again_does_not_keep_is_killed_by_l9() {
    killed(Law::L9, ScriptId::LockAcquire, "if at and queue[at].till >= now + span or", "if at or");
}

#[test]
fn a_place_that_is_written_too_late_is_killed_by_l9() {
    let late = "if at and queue[at].till >= now + floor(span / 2) or";
    killed(Law::L9, ScriptId::LockAcquire, "if at and queue[at].till >= now + span or", late);
}

#[test]
fn a_place_that_never_ends_is_killed_by_l9() {
    killed(Law::L9, ScriptId::LockAcquire, "if now < till then", "if true then");
}

#[test]
fn a_place_that_a_grant_leaves_is_killed_by_l9() {
    killed(Law::L9, ScriptId::LockAcquire, "leave(who)\ncommit", "commit");
}

#[test]
fn a_withdrawal_that_leaves_the_place_is_killed_by_l9() {
    killed(Law::L9, ScriptId::LockWithdraw, "if leave(ARGV[3]) then store() end", "");
}

#[test]
fn a_record_that_does_not_outlive_its_places_is_killed_by_l9() {
    killed(Law::L9, ScriptId::LockAcquire, "  keep = max(keep, till)\n", "");
}

#[test]
fn a_release_of_all_holds_at_once_is_killed_by_l2() {
    let one = "of, left = token, holds()";
    killed(Law::L2, ScriptId::LockRelease, one, "held, of, left = '', token, 0");
}

#[test]
fn a_release_that_takes_another_hold_is_killed_by_l3() {
    let check = "is_held_by(ARGV[4]) then at, behind, till = find(held, id .. ' (%d+)') end";
    let first = "is_held_by(ARGV[4]) then at, behind, till = find(held, '%x+ (%d+)') end";
    killed(Law::L3, ScriptId::LockRelease, check, first);
}

#[test]
fn a_hold_that_has_ended_and_is_taken_again_is_killed_by_l10() {
    let known = "find(ended, id)";
    killed(Law::L10, ScriptId::LockAcquire, known, "false");
    killed(Law::L10, ScriptId::LockAcquire, "  end_all('x', '')\n", "");
    killed(Law::L10, ScriptId::LockForceRelease, "end_all('f', ' ' .. of)", "held = ''");
}

#[test]
fn a_forced_release_that_ignores_the_token_is_killed_by_l3() {
    let check = "if not is_live() or token ~= broken then";
    killed(Law::L3, ScriptId::LockForceRelease, check, "if not is_live() then");
}

#[test]
fn a_late_acquire_that_is_granted_is_killed_by_l10() {
    killed(
        Law::L10,
        ScriptId::LockAcquire,
        "if now > not_after then",
        "if now > not_after + 1 then",
    );
}

#[test]
fn a_late_acquire_of_a_forgotten_hold_that_is_granted_is_killed_by_l10() {
    use ScriptId::{LockAcquire as Acquire, LockForceRelease as Force, LockRelease as Release};
    let refused = "if not_after <= forgotten then";
    killed(Law::L10, Acquire, refused, "if false then");
    killed(Law::L10, Acquire, refused, "if not_after < forgotten then");
    let kept = "forgotten, ended = max(forgotten, tonumber(till)), rest";
    for script in [Acquire, Force, Release] {
        killed(Law::L10, script, kept, "ended = rest");
        killed(Law::L10, script, kept, "forgotten, ended = tonumber(till), rest");
    }
    // A copy that may arrive for longer than the one that was granted.
    killed(Law::L10, Acquire, "if tonumber(known_till) < till then", "if false then");
}

/// A caller without a bound would keep all others out.
#[test]
fn a_forgotten_hold_without_a_bound_that_counts_is_killed_by_l10() {
    let bound = "local till = not_after < 6755399441055743 and not_after or 0";
    for script in [ScriptId::LockAcquire, ScriptId::FastLockAcquire] {
        killed(Law::L10, script, bound, "local till = not_after - 1");
    }
}

#[test]
fn a_memory_of_three_is_killed_by_l10() {
    let four = "(|[^|]*|[^|]*|[^|]*)$')";
    let three = "(|[^|]*|[^|]*)$')";
    killed(Law::L10, ScriptId::LockRelease, four, three);
}

#[test]
fn a_record_that_outlives_its_time_is_killed_by_d9() {
    let shipped = lockage_lua::script(ScriptId::LockAcquire).source();
    let mutant = broken(shipped, "  if now >= k then return end\n", "");
    let input = (traces(), trace(STEPS, false));
    let on = |source: &str| {
        let store = without_plain_scripts(store()).with_script(ScriptId::LockAcquire, source);
        let store = RefCell::new(store);
        move |(trace, then): &(Trace, Trace)| {
            store.borrow_mut().flush_all();
            let [mut kept, mut dropped] =
                ["kept", "dropped"].map(|id| OnKey(Simulated::new(&store, Time::Store, id)));
            d9_a_forgettable_lock_is_fresh((&mut kept, &mut dropped), trace, then)
        }
    };
    kills(CASES, &input, on(shipped), on(&mutant));
}

/// Checks that `law` fails with one text of a script replaced. That it holds for the unchanged
/// script, on the same cases, is `the_shipped_scripts_obey_every_law`.
#[track_caller]
fn killed(law: Law, script: ScriptId, from: &str, to: &str) {
    let mutant = broken(lockage_lua::script(script).source(), from, to);
    let is_fast_path = script.name().starts_with("fast_");
    let store = if is_fast_path { store() } else { without_plain_scripts(store()) };
    let store = RefCell::new(store.with_script(script, mutant));
    let outcome = try_out(CASES, &traces(), |trace| on(&[law], &store, &trace));
    outcome.expect_err(&format!("{law}: the mutant lives with {to}"));
}

/// Returns a store on which every call takes the slow path.
fn without_plain_scripts(store: SimStore) -> SimStore {
    let refuse = format!("return redis.error_reply('{} for tests')", lockage_lua::NEEDS_SLOW_PATH);
    let fast = [ScriptId::FastLockAcquire, ScriptId::FastLockRenew, ScriptId::FastLockRelease];
    fast.into_iter().fold(store, |store, script| store.with_script(script, refuse.clone()))
}

fn on(laws: &[Law], store: &RefCell<SimStore>, trace: &Trace) -> Check {
    store.borrow_mut().flush_all();
    obeys(laws, &mut OnKey(Simulated::new(store, Time::Store, "one")), trace)
}

fn store() -> SimStore {
    SimStore::new().expect("Lua gets its memory")
}

fn traces() -> impl Strategy<Value = Trace> {
    any::<bool>().prop_flat_map(|backwards| trace(STEPS, backwards))
}
