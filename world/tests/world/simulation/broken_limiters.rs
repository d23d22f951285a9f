//! The same for what is done with limiters besides asking for permits, and for several keys.

use lockage_core::{ScriptId, Settlement};
use lockage_world::simulation::{Property, Ran};

use super::broken::{found_in_outcomes, found_in_script};

#[test]
fn a_question_that_writes_is_found_by_d5() {
    let reply = "local reply = blocked and {BLOCKED, now, blocked} or {0, now}";
    let broken = format!("if form then redis.call('PEXPIRE', key, 100000) end {reply}");
    found_in_script(Property::D5, ScriptId::LimiterPeek, reply, &broken);
}

#[test]
fn adjustments_and_settlements_that_are_done_again_are_found_by_d11() {
    for (script, text, broken) in [
        (ScriptId::LimiterAdjust, "if again then return told(again) end", ""),
        (
            ScriptId::LimiterAcquire,
            "again = {0, unpack(reserved, 3, reserved.places)}",
            "again = nil reserved = nil",
        ),
        (
            ScriptId::LimiterSettle,
            "if actual ~= reserved[2] then return told({0, now, ALREADY_SETTLED}) end",
            "",
        ),
    ] {
        found_in_script(Property::D11, script, text, broken);
    }
}

#[test]
fn adjustments_and_settlements_that_do_something_else_are_found_by_d15() {
    for (script, text, broken) in [
        // A refund that gives back more than counts.
        (
            ScriptId::LimiterAdjust,
            "done = max(done, math.min(amount, used(part)))",
            "done = amount",
        ),
        // A block that a shorter one shortens.
        (
            ScriptId::LimiterAdjust,
            "blocked = max(blocked or now, now + amount)",
            "blocked = now + amount",
        ),
        // What had come back by itself comes back once more.
        (
            ScriptId::LimiterSettle,
            "local given = math.min(units * part.unit, upto)",
            "local given = math.min(units * part.unit, part.state[counted(part, when)] or 0)",
        ),
        // A reservation that has expired and is settled all the same.
        (ScriptId::LimiterSettle, "now < till and UNKNOWN or EXPIRED", "UNKNOWN"),
    ] {
        found_in_script(Property::D15, script, text, broken);
    }
}

#[test]
fn what_is_told_of_a_key_after_an_adjustment_is_judged() {
    let refund = "counter_give_back(part, amount)";
    found_in_script(
        Property::D4,
        ScriptId::LimiterAdjust,
        refund,
        "counter_give_back(part, 2 * amount)",
    );
    let one_more = |ran: &mut Ran| match ran {
        Ran::Adjusted(adjusted) => adjusted.after.remaining += 1,
        Ran::Settled(Settlement::Settled { after, .. }) => after.remaining += 1,
        _ => {}
    };
    found_in_outcomes(Property::D4, &one_more);
}

#[test]
fn a_reservation_that_is_dropped_too_soon_is_found_by_d9() {
    let kept = "behind, keep = behind .. more, max(keep, till, states_kept_until(parts))";
    let broken = "behind, keep = behind .. more, max(keep, states_kept_until(parts))";
    found_in_script(Property::D9, ScriptId::LimiterSettle, kept, broken);
    found_in_script(Property::D9, ScriptId::LimiterAcquire, kept, broken);
}

#[test]
fn a_change_that_gives_something_away_is_found() {
    let carried = "charge_fresh(part, most)";
    found_in_script(Property::D4, ScriptId::LimiterAcquire, carried, "charge_fresh(part, 0)");
}

#[test]
fn a_stored_limit_that_is_not_the_one_is_found_by_d12() {
    let stands = "if mode == 'a' and policy then return {0, now, 0} end";
    found_in_script(Property::D12, ScriptId::LimiterSet, stands, "");
}

#[test]
fn what_is_wrong_with_how_long_and_for_whom_limits_are_stored_is_found() {
    for (property, script, text, broken) in [
        // It is kept for no longer than what was used counts.
        (Property::D9, ScriptId::LimiterAcquire, "keep = max(keep, now + policy.keep)", ""),
        // One that is for each client is told as one for all of them.
        (Property::D12, ScriptId::LimiterAcquire, "= policy.scope == 'c' and 1 or 0", "= 0"),
        // It is told, and not kept on.
        (Property::D9, ScriptId::LimiterAcquire, "if not only_asks then store() end", ""),
    ] {
        found_in_script(property, script, text, broken);
    }
}

#[test]
fn a_call_that_changes_another_key_is_found_by_d12() {
    for script in [ScriptId::LockAcquire, ScriptId::LimiterAcquire] {
        let key = "local key = KEYS[1]";
        let broken = "local key = string.gsub(KEYS[1], '%d', '')";
        found_in_script(Property::D12, script, key, broken);
    }
    let key = "call = KEYS[1], ";
    let broken = "call = (string.gsub(KEYS[1], '%d', '')), ";
    found_in_script(Property::D12, ScriptId::TokenBucketAcquire, key, broken);
}
