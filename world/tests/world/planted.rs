//! Bugs in the client's environment: in scripts, one text at a time, in answers, and in the world
//! itself. Each is found within some seeds, and shown by a world that is much smaller. Bugs in the
//! client are in `planted/bugs.toml`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use lockage_core::ScriptId::{self, *};
use lockage_core::{
    Adjusted, AnyOutcome, Decision, Settlement, Turn, Verdict, lock, rw_lock, semaphore,
};
use lockage_world::simulation::{Engine, Failure, Kind, Plan, Planted, Stage};

/// The seeds whose worlds find most bugs; the other worlds are played after them.
const FIRST: [u64; 47] = [
    0, 12, 4, 2, 3, 5, 7, 15, 19, 20, 494, 590, 1, 6, 9, 11, 16, 17, 29, 32, 38, 45, 55, 56, 71,
    73, 76, 92, 102, 130, 132, 146, 154, 238, 269, 496, 547, 699, 795, 819, 1024, 1216, 1291, 1392,
    1438, 2384, 6848,
];

const SEEDS: u64 = 3000;

const US: Duration = Duration::from_micros(1);

/// A text that has changed in its file is planted no more, and nothing would find it.
#[test]
fn each_bug_of_the_client_has_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let bugs = fs::read_to_string(root.join("world/planted/bugs.toml")).unwrap();
    let bugs: toml::Table = bugs.parse().unwrap();
    let bugs = bugs["bug"].as_array().unwrap();
    assert!(bugs.len() > 200, "{}", bugs.len());
    for bug in bugs {
        let of = |name: &str| bug[name].as_str().unwrap();
        let (name, file) = (of("name"), of("file"));
        let folder = if file.contains("src/") { "" } else { "client/src/" };
        let text = fs::read_to_string(root.join(folder).join(file)).expect(name);
        assert_eq!(text.matches(of("old")).count(), 1, "{name}: {file} has its text once");
    }
}

#[test]
fn planted_bugs_in_limiter_scripts_are_found() {
    let scripts = [
        // Charges that are not stored (E1 to E6).
        (FixedWindowAcquire, "used = used + cost", "used = used"),
        (SlidingLogAcquire, "true, total + cost", "true, total + 1"),
        (SlidingWindowAcquire, "current = current + cost", "current = current"),
        (TokenBucketAcquire, "deficit = deficit + cost * unit", "deficit = deficit"),
        (LeakyBucketAcquire, "deficit = deficit + cost * unit", "deficit = deficit"),
        (IntervalBucketAcquire, "deficit = deficit + cost\n", "deficit = deficit\n"),
        // Keys that are dropped too soon (D9), also if their expiry is kept.
        (TokenBucketAcquire, "math.ceil((till - now) / 1000) + skew", "1 + skew"),
        (TokenBucketAcquire, "if till == new_till then", "if till > 0 then"),
        (TokenBucketReserve, "'PX', math.ceil(hold / 500) + skew", "'PX', 1"),
        (LimiterReserve, "'PX', ttl_ms(2 * till - now)", "'PX', 1"),
        (LeakyBucketCancel, "'PX', ttl_ms(max(keep, till))", "'PX', ttl_ms(now)"),
        (LimiterAcquire, "keep = max(keep, now + policy.keep)", ""),
        // Requests that are charged twice or repeated (D11).
        (FixedWindowAcquire, "id then\n  if are_known then", "id then\n  if false then"),
        (LimiterAcquire, "known, is_newer = request, #requests <= next_one", ""),
        (LimiterAdjust, "if again then return told(again) end", ""),
        (LimiterReserve, "reply = {0, reservation.made, ", "reply = {0, now, "),
        // An error (D12).
        (
            TokenBucketAcquire,
            "local new_state\n",
            "if now % 10 == 0 then error('a tenth') end local new_state\n",
        ),
        // A question that writes (D5).
        (
            LimiterPeek,
            "local reply = blocked and {BLOCKED, now, blocked} or {0, now}",
            "if form then redis.call('PEXPIRE', key, 100000) end local reply = blocked and {BLOCKED, now, blocked} or {0, now}",
        ),
        // Wrong adjustments and settlements (D15): one gives back more than counts, one shortens a
        // block, one settles an expired reservation.
        (LimiterAdjust, "done = max(done, math.min(cost, used(part)))", "done = amount"),
        (LimiterAdjust, "blocked = max(blocked or now, now + amount)", "blocked = now + amount"),
        (LimiterSettle, "now < till and UNKNOWN or EXPIRED", "UNKNOWN"),
        (TokenBucketSettle, "low and low < total and total - low or 0", "0"),
        (LimiterAdjust, "counter_give_back(part, cost)", "counter_give_back(part, 2 * cost)"),
        // A limit that gives something away, another one than the stored one, or one that applies
        // to other clients.
        (LimiterAcquire, "charge_fresh(part, most)", "charge_fresh(part, 0)"),
        (LimiterSet, "if mode == 'a' and policy then return {0, now, 0} end", ""),
        (LimiterAcquire, "= policy.scope == 'c' and 1 or 0", "= 0"),
        (LimiterAcquire, "if not only_asks then store() end", ""),
        // Lists of costs of which only the first is charged, or the last.
        (FixedWindowAcquire, "if at > size then break end", "if true then break end"),
        (LimiterAcquire, "    charge(cost)\n", "    if i == costs then charge(cost) end\n"),
        // Turns that are cancelled although others came later, or after their time, or not at all
        // (D14).
        (LeakyBucketCancel, "if state ~= after then return {0, now, 1} end", ""),
        (LeakyBucketCancel, "if now >= turn then return {0, now, 2} end", ""),
        (LeakyBucketCancel, "packed(head .. before .. behind)", "packed(head .. after .. behind)"),
        // Windows that end a microsecond late, or early.
        (FixedWindowAcquire, "now >= opened + window", "now > opened + window"),
        (LimiterAcquire, "now >= opened + window", "now > opened + window"),
        (LimiterAcquire, "find_entry(1, at - log.window + 1)", "find_entry(1, at - log.window)"),
        // A change of another key (D12).
        (LimiterAcquire, "local key = KEYS[1]", "local key = string.gsub(KEYS[1], '{b}', '{a}')"),
        (TokenBucketAcquire, "call = KEYS[1], ", "call = (string.gsub(KEYS[1], '{b}', '{a}')), "),
    ];
    let lives = scripts
        .into_iter()
        .filter(|(script, text, broken)| !is_found_in_script(*script, text, broken));
    assert_eq!(lives.collect::<Vec<_>>(), []);
}

#[test]
fn planted_bugs_in_lock_scripts_are_found() {
    let scripts = [
        (LockAcquire, "'PX', ttl_ms(keep)", "'PX', ttl_ms(deadline)"),
        (
            LockAcquire,
            "return held ~= '' and now < deadline",
            "return held ~= '' and now + 50000 < deadline",
        ),
        (LockRelease, "of, left = token, holds()", "held, of, left = '', token, 0"),
        (
            LockRelease,
            "if is_held_by(ARGV[4]) then at, behind, till = find(held, id .. ' (%d+)') end",
            "if is_live() then at, behind, till = find(held, '%x+ (%d+)') end",
        ),
        (LockRelease, "find(held, id .. ' (%d+)')", "find(held, '%x+ (%d+)')"),
        (
            LockAcquire,
            "local lease_end = now + tonumber(ARGV[6])",
            "local lease_end = now + tonumber(ARGV[6]) - 1",
        ),
        (LockAcquire, "max(now, token + 1)", "token + 1"),
        (LockAcquire, "if is_known and is_held_by(who) then", "if false then"),
        (LockAcquire, "if now > not_after then", "if false then"),
        (LockAcquire, "if not_after <= forgotten then", "if false then"),
        // A line that is jumped.
        (LockAcquire, "not queue[1] or queue[1].owner == who", "true"),
        (LockWithdraw, "if leave(ARGV[3]) then", "if false then"),
        // A forced release of another grant, or one that does not recognize its repetition.
        (LockForceRelease, "if not is_live() or token ~= broken", "if not is_live()"),
        (LockForceRelease, "end_all('f', ' ' .. of)", "end_all('x', '')"),
        (LockInspect, "{0, now, #queue}", "{0, now, #queue + 1}"),
        (FencedWrite, "if mine < token then return {0, now, STALE, token} end", ""),
        (
            LockAcquire,
            "local key = KEYS[1]",
            "local key = string.gsub(KEYS[1], '{other}', '{lock}')",
        ),
        (SemaphoreAcquire, "used > room", "used - permits > room"),
        (SemaphoreRenew, "deadline = lease_end\n", "deadline = lease_end - 1\n"),
        (SemaphoreAcquire, "max(now, token + 1)", "token + 1"),
        (SemaphoreRelease, "keep = max(keep, unpack('<d', one, 25))", ""),
        (RwLockAcquire, "      till = max(till, grant.deadline)\n", ""),
        (
            RwLockAcquire,
            "if readers >= READERS then return first, TOO_MANY",
            "if readers > 0 then return first, REFUSED",
        ),
        (RwLockAcquire, "first, till = 0, nil, kept_till", "first, till = 0, nil, 0"),
        // Wrong sides of a lock: a reader that writes next to others, or waits for them, a writer
        // that must not read, a read side that ends with the write side.
        (RwLockAcquire, "why = UPGRADE\n", "return nil\n"),
        (RwLockAcquire, "why = UPGRADE\n", "why = REFUSED\n"),
        (RwLockAcquire, "      till = 0\n", "      till = kept_till\n"),
        (
            RwLockRelease,
            "if grant.holds == 0 then table.remove(grants, at) end",
            "if grant.holds == 0 then grants = {} end",
        ),
        (LatchCountDown, "max(0, left - count)", "max(0, left - 1)"),
        (LatchCountDown, " or answered('c', ARGV[3], count)", ""),
        (LatchCountDown, "DONE, left, 1}", "DONE, left, 0}"),
        (LatchSet, "'PX', ttl_ms(max(till, latest + 1))", "'PX', ttl_ms(now)"),
    ];
    let lives = scripts
        .into_iter()
        .filter(|(script, text, broken)| !is_found_in_script(*script, text, broken));
    assert_eq!(lives.collect::<Vec<_>>(), []);
}

/// Answers that are wrong in one field: the judge compares all fields with the machines.
#[test]
fn planted_bugs_in_answers_are_found() {
    for (name, spoil) in [
        (
            "a denial (D1)",
            (|it| {
                decision(it, |it| {
                    if it.is_allowed() {
                        it.verdict = Verdict::denied(Duration::from_secs(1));
                    }
                })
            }) as fn(&mut AnyOutcome),
        ),
        ("a retry that is late (D2)", |it| {
            decision(it, |it| {
                if let Verdict::Denied { retry_after, .. } = &mut it.verdict {
                    *retry_after += US;
                }
            })
        }),
        ("a retry that is early (D2)", |it| {
            decision(it, |it| {
                if let Verdict::Denied { retry_after, .. } = &mut it.verdict {
                    *retry_after = retry_after.saturating_sub(US);
                }
            })
        }),
        ("one more is left (D4)", |it| decision(it, |it| it.remaining += 1)),
        ("a later reset (D4)", |it| decision(it, |it| it.reset_after += US)),
        ("a later turn (D13)", |it| {
            if let Some(it) = it.downcast_mut::<Turn>() {
                it.decision.turn_after += US;
            }
        }),
        ("one more is left after an adjustment", |it| {
            if let Some(it) = it.downcast_mut::<Adjusted>() {
                it.after.remaining += 1;
            }
        }),
        ("one more is left after a settlement", |it| {
            if let Some(Settlement::Settled { after, .. }) = it.downcast_mut() {
                after.remaining += 1;
            }
        }),
        ("decisions in another order", |it| {
            if let Some(it) = it.downcast_mut::<Vec<Decision>>() {
                it.reverse();
            }
        }),
        ("a decision too few", |it| {
            if let Some(it) = it.downcast_mut::<Vec<Decision>>() {
                it.pop();
            }
        }),
        ("a lock that is never free (L8)", |it| {
            if let Some(it) = it.downcast_mut::<lock::Reply>() {
                it.answer = lock::Answer::Refused(None);
            }
        }),
        ("permits that fit later (L2)", |it| {
            if let Some(semaphore::Reply { answer: semaphore::Answer::Full { fits_at }, .. }) =
                it.downcast_mut()
            {
                *fits_at = fits_at.saturating_add(US);
            }
        }),
        ("a release of what is not held (L3)", |it| {
            if let Some(it) = it.downcast_mut::<semaphore::Reply>()
                && it.answer == semaphore::Answer::NotHeld
            {
                it.answer = semaphore::Answer::Released { token: 7 };
            }
        }),
        ("a lease that is longer (L4)", |it| {
            if let Some(rw_lock::Reply { answer: rw_lock::Answer::Held(hold), .. }) =
                it.downcast_mut()
            {
                hold.deadline = hold.deadline.saturating_add(US);
            }
        }),
    ] {
        let planted = Planted { spoil: Some(spoil), ..Planted::default() };
        assert!(
            is_found(Kind::Script, || stage(Engine::Lua).with_planted(planted), name),
            "{name}"
        );
    }
}

fn decision(outcome: &mut AnyOutcome, spoil: fn(&mut Decision)) {
    if let Some(decision) = outcome.downcast_mut() {
        spoil(decision);
    }
}

/// L11: a store that forgets a grant gives it away twice. Nothing else excuses that.
#[test]
fn a_failover_that_excuses_nothing_is_found() {
    let planted = Planted { excuses_nothing: true, ..Planted::default() };
    assert!(is_found(Kind::Exclusion, || stage(Engine::Model).with_planted(planted), "a failover"));
}

/// L6: a lease ends before its holder's clock shows that.
#[test]
fn clocks_that_are_off_by_more_than_is_allowed_are_found() {
    let planted = Planted { slower_ppm: 20_000, ..Planted::default() };
    assert!(is_found(Kind::Lease, || stage(Engine::Model).with_planted(planted), "a slow clock"));
}

/// D11: a copy arrives after the store has forgotten the request.
#[test]
fn messages_that_take_longer_than_is_assumed_are_found() {
    let planted = Planted { later_us: 30_000_000, ..Planted::default() };
    let stage = || stage(Engine::Model).with_planted(planted);
    assert!(
        (0..SEEDS).any(|seed| stage().play(&Plan::without_link(seed), false).violation.is_some())
    );
}

fn stage(engine: Engine) -> Stage {
    Stage::new(Some(engine)).unwrap()
}

/// Returns whether some world finds that a script with another text differs from its machine.
fn is_found_in_script(script: ScriptId, text: &str, broken: &str) -> bool {
    let source = lockage_lua::script(script).source();
    assert_eq!(source.matches(text).count(), 1, "{text}");
    let broken = source.replace(text, broken);
    let refuse = format!("return redis.error_reply('{} for tests')", lockage_lua::NEEDS_SLOW_PATH);
    // The slow path of a lock runs where the fast one does not.
    let fast: &[_] = match script.name().starts_with("lock_") {
        true => &[FastLockAcquire, FastLockRenew, FastLockRelease],
        false => &[],
    };
    let stage = || {
        let stage = stage(Engine::Lua).with_script(script, broken.clone());
        fast.iter().fold(stage, |stage, fast| stage.with_script(*fast, refuse.clone()))
    };
    is_found(Kind::Script, stage, text)
}

/// Returns whether some world breaks it, and so does a smaller one.
fn is_found(kind: Kind, stage: impl Fn() -> Stage, what: &str) -> bool {
    let mut searching = stage();
    let fails = |seed: &u64| {
        let violation = searching.play(&Plan::without_link(*seed), false).violation;
        violation.is_some_and(|violation| violation.kind == kind)
    };
    let Some(seed) = FIRST.into_iter().chain(0..SEEDS).find(fails) else { return false };
    let failure = stage().explain(&Plan::without_link(seed)).unwrap();
    let Failure { violation, plan, timeline, .. } = &failure;
    assert_eq!(violation.kind, kind);
    let jobs = plan.works().count();
    assert!(jobs <= 6 && timeline.len() <= 400, "{what}: {violation}\n{plan}");
    true
}
