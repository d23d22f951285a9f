//! Scripts that are put to laws, as they are shipped and with one text replaced.

use std::cell::RefCell;
use std::fmt::Debug;

use lockage_core::ScriptId;
use lockage_oracle::place::Time;
use lockage_oracle::properties::{Check, try_out};
use lockage_sim::store::{SimStore, Simulated};
use proptest::prelude::*;

/// A law that fails, the script, the text that is replaced, and its replacement.
pub(crate) type Mutant<L> = (L, ScriptId, &'static str, &'static str);

/// Checks that the shipped scripts obey each law, and that each mutant fails the law that it names.
pub(crate) fn judged<L: Copy + Debug, T: Debug>(
    laws: &[L],
    mutants: &[Mutant<L>],
    (cases, traces): (u32, impl Strategy<Value = T>),
    obeys: impl Fn(&[L], &mut Simulated<'_>, &T) -> Check,
) {
    let judge = |laws: &[L], store: SimStore| {
        let store = RefCell::new(store);
        try_out(cases, &traces, |trace| {
            store.borrow_mut().flush_all();
            obeys(laws, &mut Simulated::new(&store, Time::Store, "one"), &trace)
        })
    };
    let store = || SimStore::new().expect("Lua gets its memory");
    assert_eq!(judge(laws, store()), Ok(()));
    for (law, script, from, to) in mutants {
        let mutant = broken(lockage_lua::script(*script).source(), from, to);
        let seen = judge(&[*law], store().with_script(*script, mutant));
        let seen = seen.expect_err(&format!("{law:?}: it lives with {to}"));
        assert!(!seen.contains("is Failed"), "the mutant runs: {seen}");
    }
}

/// Returns `source` with one text replaced.
pub(crate) fn broken(source: &str, from: &str, to: &str) -> String {
    assert_eq!(source.matches(from).count(), 1, "the text to break is there once: {from}");
    source.replacen(from, to, 1)
}
