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
        (ScriptId::LimiterReserve, "reply = {0, reservation.made, ", "reply = {0, now, "),
        (
            ScriptId::LimiterSettle,
            "if actual ~= reservation.cost or not reservation.is_own then return told({0, now, ALREADY_SETTLED}) end",
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
        // A reservation that has expired and is settled all the same.
        (ScriptId::LimiterSettle, "now < till and UNKNOWN or EXPIRED", "UNKNOWN"),
    ] {
        found_in_script(Property::D15, script, text, broken);
    }
}

#[test]
fn what_had_come_back_by_itself_and_comes_back_once_more_is_found_by_d12() {
    // Less than nothing is charged then.
    let fold = "low and low < total and total - low or 0";
    found_in_script(Property::D12, ScriptId::TokenBucketSettle, fold, "0");
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
    let kept = "'PX', math.ceil(hold / 500) + skew";
    found_in_script(Property::D9, ScriptId::TokenBucketReserve, kept, "'PX', 1");
    let kept = "'PX', ttl_ms(2 * till - now)";
    found_in_script(Property::D9, ScriptId::LimiterReserve, kept, "'PX', 1");
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
        let broken = "local key = string.gsub(KEYS[1], '#%d', '#0')";
        found_in_script(Property::D12, script, key, broken);
    }
    let key = "call = KEYS[1], ";
    let broken = "call = (string.gsub(KEYS[1], '#%d', '#0')), ";
    found_in_script(Property::D12, ScriptId::TokenBucketAcquire, key, broken);
}
