//! A server whose memory is full (`maxmemory`, `noeviction`): each script either has the same outcome as with
//! memory left, or is refused before it has changed anything (D12); a call that frees or keeps something is never
//! refused.

// Prints the calls and refusals of each script, for the judgement of it.
#![allow(clippy::print_stdout)]

use lockage_core::ScriptId;
use lockage_sim::store::SimStore;
use lockage_tests::mutation::corpus::Corpus;
use lockage_tests::mutation::full::WhereFull;

#[test]
fn commands_that_free_memory_are_done_and_others_done_or_refused() {
    let is_long = std::env::var("LOCKAGE_MUTANTS").is_ok_and(|wanted| wanted == "all");
    let is_short = |script: &ScriptId| {
        let long = ["acquire", "reserve", "peek", "limiter"];
        long.iter().all(|it| !script.name().contains(it))
    };
    let around = ScriptId::ALL.into_iter().filter(|script| is_long || is_short(script)).collect();
    let corpus = Corpus::record(2, &around, 2);
    let mut store = SimStore::new().expect("Lua gets its memory");
    let mut full = WhereFull::default();
    corpus.traces.iter().for_each(|trace| full.run(trace, &mut store));
    println!("{full:?}");
    // The check is one: there are refusals, of each kind of script that takes memory.
    for script in [
        ScriptId::LimiterAcquire,
        ScriptId::LimiterReserve,
        ScriptId::LimiterAdjust,
        ScriptId::LimiterSet,
        ScriptId::LockAcquire,
        ScriptId::SemaphoreAcquire,
        ScriptId::RwLockAcquire,
        ScriptId::LatchSet,
        ScriptId::FencedWrite,
    ] {
        let [calls, refused] = full.0.get(&script).copied().unwrap_or_default();
        assert!(refused > 0 && refused < calls, "{script:?}: {refused} of {calls}");
    }
}
