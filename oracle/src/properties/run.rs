//! Runs a property on many cases, and reports how to repeat a failure.

use std::fmt::{self, Debug};
use std::path::Path;

use proptest::strategy::{NewTree, Strategy, ValueTree};
use proptest::test_runner::{
    Config, FileFailurePersistence, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner,
};

use super::Check;
use crate::config::Shape;
use crate::place::Place;

/// Returns the number of cases: `$PROPTEST_CASES`, or else `default`.
pub fn cases(default: u32) -> u32 {
    asked("PROPTEST_CASES", default)
}

fn asked(variable: &str, default: u32) -> u32 {
    let asked = std::env::var(variable).ok();
    asked
        .map_or(default, |count| count.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Checks the property `name` on `cases` inputs of `strategy`. Inputs that failed before, kept in
/// `tests/regressions/NAME.txt`, are tried first; without such a folder none are kept.
///
/// # Panics
/// With the smallest failing input, if there is one.
pub fn property<S>(name: &str, cases: u32, strategy: &S, check: impl Fn(S::Value) -> Check)
where
    S: Strategy,
    S::Value: Debug,
{
    let tree = |runner: &mut TestRunner| Input::tree(strategy, &check, runner);
    property_of(name, cases, &Inputs(&tree));
}

fn property_of(name: &str, cases: u32, inputs: &Inputs) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let file = kept.join(format!("{name}.txt"));
    // proptest takes a name that lives forever; there is one per property.
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
    let failure_persistence = Some(Box::new(persistence) as _);
    let runner = TestRunner::new(Config { failure_persistence, ..config(cases) });
    run(name, runner, inputs, &format!("its seed {seed}"));
}

/// Checks the property `name` on this place, on its share of `cases`, or on `$PROPTEST_CASES`.
///
/// # Panics
/// As [`property`].
pub(crate) fn property_on<S>(
    place: &impl Place,
    name: &str,
    cases: u32,
    strategy: &S,
    check: impl Fn(S::Value) -> Check,
) where
    S: Strategy,
    S::Value: Debug,
{
    let cases = self::cases(cases / place.one_case_in());
    let Some(seed) = place.seed() else { return property(name, cases, strategy, check) };
    let config = Config { failure_persistence: None, ..config(cases) };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let runner = TestRunner::new_with_rng(config, rng);
    let tree = |runner: &mut TestRunner| Input::tree(strategy, &check, runner);
    run(name, runner, &Inputs(&tree), "the next run tries the same inputs");
}

fn config(cases: u32) -> Config {
    // Filters are rare, and a slow shrink of a long trace is worth its time.
    let max_shrink_iters = asked("PROPTEST_MAX_SHRINK_ITERS", 20_000);
    Config { cases, max_shrink_iters, ..Config::default() }
}

fn run(name: &str, runner: TestRunner, inputs: &Inputs, again: &str) {
    match inputs.run(runner) {
        Ok(()) => {}
        Err(TestError::Fail(reason, input)) => {
            panic!("{name} does not hold: {reason}\nsmallest input: {input:#?}\n{again}")
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

/// Checks `cases` inputs, the same ones every time, without a record, to show that a check passes or fails as it
/// should.
///
/// # Errors
/// The first input on which the check fails, and the reason. It is not shrunk: most failures here are expected.
pub fn try_out<S>(cases: u32, strategy: &S, check: impl Fn(S::Value) -> Check) -> Result<(), String>
where
    S: Strategy,
    S::Value: Debug,
{
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let tree = |runner: &mut TestRunner| Input::tree(strategy, &check, runner);
    Inputs(&tree).run(TestRunner::new_with_rng(config, rng)).map_err(|error| error.to_string())
}

/// Checks that `shipped` passes and `mutant` fails on one of `cases` inputs, the same ones every time. No later input
/// is tried: other properties check more of the shipped one.
///
/// # Errors
/// The input on which `shipped` fails, or that `mutant` passes on all.
pub fn kills<S>(
    cases: u32,
    strategy: &S,
    shipped: impl Fn(&S::Value) -> Check,
    mutant: impl Fn(&S::Value) -> Check,
) -> Result<(), String>
where
    S: Strategy,
    S::Value: Debug,
{
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for _ in 0..cases {
        // Invariant: strategies filter little enough.
        let input = strategy.new_tree(&mut runner).expect("an input").current();
        if let Err(failure) = shipped(&input) {
            return Err(format!("what is shipped fails: {}\ninput: {input:#?}", failure.0));
        }
        if mutant(&input).is_err() {
            return Ok(());
        }
    }
    Err(format!("the mutant lives through {cases} cases"))
}

/// The inputs of a property, without their type: so proptest's runner is compiled once, not for each property.
struct Inputs<'c>(&'c dyn Fn(&mut TestRunner) -> NewTree<Inputs<'c>>);

impl<'c> Inputs<'c> {
    fn run(&self, mut runner: TestRunner) -> Result<(), TestError<Box<dyn Checked + 'c>>> {
        runner.run(self, |input| input.check().map_err(|failure| TestCaseError::fail(failure.0)))
    }
}

impl<'c> Strategy for Inputs<'c> {
    type Tree = Box<dyn ValueTree<Value = Self::Value> + 'c>;
    type Value = Box<dyn Checked + 'c>;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        (self.0)(runner)
    }
}

impl Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").finish_non_exhaustive()
    }
}

/// An input with its check.
trait Checked: Debug {
    fn check(self: Box<Self>) -> Check;
}

/// A value, or a tree of values, with their check.
struct Input<'c, T, C>(T, &'c C);

impl<'c, T: ValueTree<Value: 'c> + 'c, C: Fn(T::Value) -> Check> Input<'c, T, C> {
    fn tree<S>(strategy: &S, check: &'c C, runner: &mut TestRunner) -> NewTree<Inputs<'c>>
    where
        S: Strategy<Tree = T>,
    {
        Ok(Box::new(Input(strategy.new_tree(runner)?, check)))
    }
}

impl<'c, T: ValueTree<Value: 'c>, C: Fn(T::Value) -> Check> ValueTree for Input<'c, T, C> {
    type Value = Box<dyn Checked + 'c>;

    fn current(&self) -> Self::Value {
        Box::new(Input(self.0.current(), self.1))
    }

    fn simplify(&mut self) -> bool {
        self.0.simplify()
    }

    fn complicate(&mut self) -> bool {
        self.0.complicate()
    }
}

impl<T: Debug, C: Fn(T) -> Check> Checked for Input<'_, T, C> {
    fn check(self: Box<Self>) -> Check {
        (self.1)(self.0)
    }
}

impl<T: Debug, C> Debug for Input<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
