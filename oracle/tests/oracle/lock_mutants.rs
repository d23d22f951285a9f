//! The laws of the lock have teeth: each kills shipped scripts with one text replaced, by the same checks that the
//! scripts pass as they are shipped. The museum has the bugs that others shipped.

use std::cell::RefCell;

use lockage_core::ScriptId::{
    self, LockAcquire as Acquire, LockForceRelease as Force, LockRelease as Release,
    LockWithdraw as Withdraw,
};
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
    for (store, cases) in [(store(), CASES), (without_fast_scripts(store()), CASES / 3)] {
        let store = RefCell::new(store);
        assert_eq!(try_out(cases, &traces(), |trace| on(&LAWS, &store, &trace)), Ok(()));
    }
}

#[test]
fn broken_scripts_of_the_fast_path_are_killed_by_the_laws() {
    use ScriptId::{
        FastLockAcquire as Acquire, FastLockRelease as Release, FastLockRenew as Renew,
    };
    let longer = "if deadline < now + lease then deadline = now + lease end";
    // Records are refused in which a token is behind the time of its grant.
    let at_least_now = "if token < now then token = now end\n  deadline, ahead, holds, owner = \
        now + lease, token - now,";
    let restarts = "deadline, ahead, holds, owner = now + lease, 0,";
    let ended = "if holds > 0 and not live then return redis.error_reply(NEEDS_SLOW_PATH) end";
    let forgets = "if holds > 0 and not live then old, entries, holds = string.sub(old, 1, 69) .. \
        string.sub(old, 70 + 34 * holds), entries - holds, 0 end";
    let forgotten = "if gone > forgotten then forgotten = gone end";
    let bound = "local till = not_after < 6755399441055743 and not_after or 0";
    killed(&[
        (Law::L1, Acquire, "elseif owner == who and holds < 64 then", "elseif holds < 256 then"),
        (Law::L2, Release, "4, token, holds - 1)", "4, token, 0)"),
        (Law::L3, Release, "not live or owner ~= who or", "not live or"),
        (Law::L3, Renew, "if not live or owner ~= who or", "if not live or"),
        (Law::L4, Renew, "if not live or owner", "if holds == 0 or owner"),
        (Law::L4, Acquire, longer, "deadline = now + lease"),
        (Law::L5, Acquire, at_least_now, restarts),
        (Law::L5, Acquire, "token = token + 1\n", ""),
        (Law::L8, Acquire, "if now > not_after or", "if now >= not_after or"),
        (Law::L10, Acquire, "if at then", "if false then"),
        (Law::L10, Acquire, ended, forgets),
        (Law::L10, Acquire, "if now > not_after or", "if now > not_after + 1 or"),
        (Law::L10, Acquire, "if entries > 3 then", "if entries > 2 then"),
        (Law::L10, Acquire, "not_after <= forgotten then", "not_after < forgotten then"),
        (Law::L10, Acquire, forgotten, ""),
        (Law::L10, Release, forgotten, ""),
        (Law::L10, Acquire, "if struct.unpack('<d', old, at + 25) < till then", "if false then"),
        (Law::L10, Acquire, "'h', id, token, 0, till, behind)", "'h', id, token, 0, 0, behind)"),
        (Law::L10, Release, "(struct.unpack('<d', old, at + 25))", "0"),
        // A caller without a bound would keep all others out.
        (Law::L10, Acquire, bound, "local till = not_after - 1"),
    ]);
}

#[test]
fn broken_scripts_of_the_slow_path_are_killed_by_the_laws_of_holders() {
    let own = "is_held_by(ARGV[4]) then at, behind, till = find(held, id .. ' (%d+)') end";
    let (shipped, restarts) = ("max(now, token + 1)\n  ahead, label = token - now,", "token + 1");
    let deleted =
        "if held == '' then redis.call('DEL', key) return {0, now, RELEASED, token, 0} end";
    killed(&[
        (Law::L1, Acquire, "held ~= '' and now < deadline", "held ~= '' and now + 1 < deadline"),
        (
            Law::L1,
            Acquire,
            "elseif is_held_by(who) and holds() < MAX_HOLDS then",
            "elseif is_live() then",
        ),
        (Law::L2, Release, "of, left = token, holds()", "held, of, left = '', token, 0"),
        (
            Law::L3,
            Release,
            own,
            "is_held_by(ARGV[4]) then at, behind, till = find(held, '%x+ (%d+)') end",
        ),
        (Law::L3, Force, "if not is_live() or token ~= broken then", "if not is_live() then"),
        (Law::L4, Acquire, "hold, max(deadline, lease_end)", "hold, lease_end"),
        (Law::L5, Acquire, shipped, &format!("{restarts}\n  ahead, label = 0,")),
        // A release deletes the key.
        (Law::L5, Release, "  commit(tonumber(ARGV[3]))", deleted),
    ]);
}

#[test]
fn broken_scripts_of_the_slow_path_are_killed_by_the_law_of_the_line() {
    let (kept, moved) = (
        "  queue[at or #queue + 1] = {",
        "  if at then table.remove(queue, at) end\n  queue[#queue + 1] = {",
    );
    let written = "if at and queue[at].till >= now + span or";
    let too_late = "if at and queue[at].till >= now + floor(span / 2) or";
    let barging = "local is_next = ARGV[9] == '' or not queue[1]";
    killed(&[
        (Law::L9, Acquire, "if not is_live() and is_next then", "if not is_live() then"),
        // A caller outside the line is granted the lock.
        (Law::L9, Acquire, "local is_next = not queue[1]", barging),
        // A holder has to wait for others.
        (Law::L9, Acquire, "elseif is_held_by(who) and", "elseif is_next and is_held_by(who) and"),
        // A caller that asks again moves to the end, or does not keep its place.
        (Law::L9, Acquire, kept, moved),
        (Law::L9, Acquire, written, "if at or"),
        (Law::L9, Acquire, written, too_late),
        // A place never ends, outlives its grant or its withdrawal, or does not keep the record.
        (Law::L9, Acquire, "if now < till then", "if true then"),
        (Law::L9, Acquire, "leave(who)\ncommit", "commit"),
        (Law::L9, Withdraw, "if leave(ARGV[3]) then store() end", ""),
        (Law::L9, Acquire, "  keep = max(keep, till)\n", ""),
    ]);
}

#[test]
fn broken_scripts_of_the_slow_path_are_killed_by_the_law_of_repetitions() {
    let refused = "if not_after <= forgotten then";
    let kept = "forgotten, ended = max(forgotten, tonumber(till)), rest";
    let lost = [Acquire, Force, Release].into_iter().flat_map(|script| {
        ["ended = rest", "forgotten, ended = tonumber(till), rest"]
            .map(|to| (Law::L10, script, kept, to))
    });
    let bound = "local till = not_after < 6755399441055743 and not_after or 0";
    let mutants = [
        (Law::L10, Acquire, "if is_known and is_held_by(who) then", "if false then"),
        (Law::L10, Acquire, "find(ended, id)", "false"),
        (Law::L10, Acquire, "  end_all('x', '')\n", ""),
        (Law::L10, Force, "end_all('f', ' ' .. of)", "held = ''"),
        (Law::L10, Acquire, "if now > not_after then", "if now > not_after + 1 then"),
        (Law::L10, Acquire, refused, "if false then"),
        (Law::L10, Acquire, refused, "if not_after < forgotten then"),
        // A copy that may arrive for longer than the one that was granted.
        (Law::L10, Acquire, "if tonumber(known_till) < till then", "if false then"),
        (Law::L10, Acquire, bound, "local till = not_after - 1"),
        // A memory of three.
        (Law::L10, Release, "(|[^|]*|[^|]*|[^|]*)$')", "(|[^|]*|[^|]*)$')"),
    ];
    killed(&mutants.into_iter().chain(lost).collect::<Vec<_>>());
}

#[test]
fn a_record_that_outlives_its_time_is_killed_by_d9() {
    let shipped = lockage_lua::script(Acquire).source();
    let mutant = broken(shipped, "  if now >= k then return end\n", "");
    let input = (traces(), trace(STEPS, false));
    let on = |source: &str| {
        let store = without_fast_scripts(store()).with_script(Acquire, source);
        let store = RefCell::new(store);
        move |(trace, then): &(Trace, Trace)| {
            store.borrow_mut().flush_all();
            let [mut kept, mut dropped] =
                ["kept", "dropped"].map(|id| OnKey(Simulated::new(&store, Time::Store, id)));
            d9_a_forgettable_lock_is_fresh((&mut kept, &mut dropped), trace, then)
        }
    };
    assert_eq!(kills(CASES, &input, on(shipped), on(&mutant)), Ok(()));
}

/// Checks that a law fails with one text of a script replaced. [`the_shipped_scripts_obey_every_law`] on the same cases.
fn killed(mutants: &[(Law, ScriptId, &str, &str)]) {
    for (law, script, from, to) in mutants {
        let mutant = broken(lockage_lua::script(*script).source(), from, to);
        let is_fast_path = script.name().starts_with("fast_");
        let store = if is_fast_path { store() } else { without_fast_scripts(store()) };
        let store = RefCell::new(store.with_script(*script, mutant));
        let outcome = try_out(CASES, &traces(), |trace| on(&[*law], &store, &trace));
        outcome.expect_err(&format!("{law}: the mutant lives with {to}"));
    }
}

/// Returns a store on which every call takes the slow path.
fn without_fast_scripts(store: SimStore) -> SimStore {
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
