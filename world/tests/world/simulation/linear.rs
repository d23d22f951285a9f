//! Another look at what is judged while a world runs: from what was asked and answered alone, with what became of
//! unanswered requests left open, some order of the requests must explain the answers. Each request is carried out
//! between its sending and its answer, one without an answer at any time after its sending or never.

use std::collections::HashSet;

use lockage_core::ScriptId;
use lockage_sim::store::SimStore;
use lockage_world::simulation::{Model, Scenario, Scripts, Sent, Server, Trouble, history};

/// Longer histories are not searched.
const MOST: usize = 12;

#[test]
fn some_order_explains_all_answers() {
    let mut searched = 0;
    for seed in 0..900 {
        for sent in histories(&small(seed), &mut Model::default()) {
            searched += u32::from(sent.len() > 2);
            assert!(is_explained(&sent), "seed {seed}: {sent:#?}");
        }
    }
    assert!(searched >= 300, "{searched} histories were searched");
}

#[test]
fn answers_that_no_order_explains_are_found() {
    for (script, text, broken) in [
        (ScriptId::FixedWindowAcquire, "used = used + cost", "used = used"),
        (ScriptId::LockAcquire, "max(now, token + 1)", "token + 1"),
        (
            ScriptId::LimiterAdjust,
            "counter_give_back(part, amount)",
            "counter_give_back(part, 2 * amount)",
        ),
    ] {
        let source = lockage_lua::script(script).source();
        assert_eq!(source.matches(text).count(), 1, "{text}");
        let store = SimStore::new().unwrap().with_script(script, source.replace(text, broken));
        let mut server = Scripts::on(store);
        let is_unexplained =
            |seed| histories(&small(seed), &mut server).iter().any(|sent| !is_explained(sent));
        assert!((0..4000).any(is_unexplained), "{broken}");
    }
}

/// A world with a few jobs, in which no write is lost.
fn small(seed: u64) -> Scenario {
    let mut scenario = Scenario::of(seed);
    let loses = |trouble| matches!(trouble, Trouble::Failover { .. } | Trouble::Split { .. });
    scenario.faults.retain(|fault| !loses(fault.trouble));
    scenario.jobs.retain(|job| job.at_us < scenario.heal_us);
    scenario.jobs.sort_by_key(|job| job.at_us);
    scenario.jobs.truncate(4);
    scenario
}

/// Of each key, where it is short enough.
fn histories(scenario: &Scenario, server: &mut dyn Server) -> Vec<Vec<Sent>> {
    let all = history(scenario, server);
    let of_key = |key| all.iter().filter(|sent| sent.key == key).cloned().collect();
    let histories = (0..=scenario.beside.len()).map(of_key);
    histories.filter(|sent: &Vec<Sent>| (1..=MOST).contains(&sent.len())).collect()
}

fn is_explained(sent: &[Sent]) -> bool {
    let mut order: Vec<&Sent> = sent.iter().collect();
    order.sort_by_key(|one| one.now);
    Search { sent: order, seen: HashSet::new() }.goes_on(0, &mut Model::default())
}

struct Search<'a> {
    sent: Vec<&'a Sent>,
    /// Which were carried out, and what the key held then.
    seen: HashSet<(u32, String)>,
}

impl Search<'_> {
    /// Whether the rest can be carried out, once those of `done` are.
    fn goes_on(&mut self, done: u32, store: &mut Model) -> bool {
        let is_left = |index: &usize| done & (1 << index) == 0;
        let left: Vec<usize> = (0..self.sent.len()).filter(is_left).collect();
        let answered = |index: &usize| self.sent[*index].answer.as_ref().map(|(at_us, _)| *at_us);
        let Some(first_answer_us) = left.iter().filter_map(answered).min() else { return true };
        if !self.seen.insert((done, format!("{:?}", store.held(0)))) {
            return false;
        }
        // What was sent after an answer is carried out after what was answered.
        let may_be_next =
            left.into_iter().filter(|index| self.sent[*index].sent_us <= first_answer_us);
        may_be_next.collect::<Vec<_>>().into_iter().any(|index| {
            let Sent { operation, now, answer, .. } = self.sent[index];
            let mut store = store.clone();
            let outcome = store.run(0, operation, *now);
            let is_right = answer.as_ref().is_none_or(|(_, told)| outcome.as_ref() == Ok(told));
            is_right && self.goes_on(done | 1 << index, &mut store)
        })
    }
}
