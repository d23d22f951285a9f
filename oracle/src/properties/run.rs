//! Runs a property on many cases, and says how to see a failure again.

use std::fmt::Debug;
use std::path::Path;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{
    Config, FileFailurePersistence, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner,
};

use super::Check;
use crate::config::Shape;
use crate::place::Place;

/// How many cases to run: `$PROPTEST_CASES`, or else `default`.
pub fn cases(default: u32) -> u32 {
    asked("PROPTEST_CASES", default)
}

/// How many cases to run on this place: `$PROPTEST_CASES`, or else its share of `default`.
pub(crate) fn cases_on(place: &impl Place, default: u32) -> u32 {
    cases(default / place.one_case_in())
}

fn asked(variable: &str, default: u32) -> u32 {
    let asked = std::env::var(variable).ok();
    asked
        .map_or(default, |count| count.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Checks the property `name` on `cases` inputs of `strategy`. Inputs that failed before, kept in
/// `tests/regressions/NAME.txt`, are tried first; where there is no such folder, none are kept.
///
/// # Panics
/// With the smallest failing input, where there is one.
pub fn property<S>(name: &str, cases: u32, strategy: &S, check: impl Fn(S::Value) -> Check)
where
    S: Strategy,
    S::Value: Debug,
{
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let file = kept.join(format!("{name}.txt"));
    // proptest takes a name that lives for ever; there is one per property.
    let file: &'static str = Box::leak(file.display().to_string().into_boxed_str());
    let (persistence, seed) = match kept.is_dir() {
        true => (
            FileFailurePersistence::Direct(file),
            format!("is now the last line of {file}, and is tried first from now on"),
        ),
        false => {
            (FileFailurePersistence::Off, format!("is not kept: there is no {}", kept.display()))
        }
    };
    let config = Config {
        cases,
        failure_persistence: Some(Box::new(persistence)),
        // Filters are few, and a slow shrink of a long trace is worth its wait.
        max_shrink_iters: asked("PROPTEST_MAX_SHRINK_ITERS", 20_000),
        ..Config::default()
    };
    let outcome = TestRunner::new(config)
        .run(strategy, |input| check(input).map_err(|failure| TestCaseError::fail(failure.0)));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, input)) => {
            panic!("{name} does not hold: {reason}\nsmallest input: {input:#?}\nits seed {seed}")
        }
        Err(TestError::Abort(reason)) => panic!("{name} could not be checked: {reason}"),
    }
}

/// Checks a property on each of `shapes`, under the name of both.
pub fn each<S>(
    name: &str,
    cases: u32,
    shapes: impl IntoIterator<Item = Shape>,
    input: impl Fn(Shape) -> S,
    check: impl Fn(S::Value) -> Check,
) where
    S: Strategy,
    S::Value: Debug,
{
    for shape in shapes {
        let name = format!("{name}_{}", shape.name());
        property(&name, cases, &input(shape), &check);
    }
}

/// Checks on `cases` inputs, the same ones every time, and keeps no record: to see that a check
/// passes or fails as it should.
///
/// # Errors
/// The first input on which the check fails, and why it does. It is not shrunk: most failures here
/// are expected.
pub fn try_out<S>(cases: u32, strategy: &S, check: impl Fn(S::Value) -> Check) -> Result<(), String>
where
    S: Strategy,
    S::Value: Debug,
{
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng)
        .run(strategy, |input| check(input).map_err(|failure| TestCaseError::fail(failure.0)))
        .map_err(|error| error.to_string())
}

/// Checks that `shipped` passes and `mutant` fails on one of `cases` inputs, the same ones every
/// time. No input is tried after that one: other properties check more of what is shipped.
///
/// # Panics
/// With the input on which `shipped` fails, or where `mutant` passes on all.
pub fn kills<S>(
    cases: u32,
    strategy: &S,
    shipped: impl Fn(&S::Value) -> Check,
    mutant: impl Fn(&S::Value) -> Check,
) where
    S: Strategy,
    S::Value: Debug,
{
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for _ in 0..cases {
        // Invariant: strategies filter little enough.
        let input = strategy.new_tree(&mut runner).expect("an input").current();
        if let Err(failure) = shipped(&input) {
            panic!("what is shipped fails: {}\ninput: {input:#?}", failure.0);
        }
        if mutant(&input).is_err() {
            return;
        }
    }
    panic!("the mutant lives through {cases} cases");
}
