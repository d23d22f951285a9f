//! The stage on which worlds are played: the machines, and in some worlds also the scripts.

use lockage_core::{AnyOutcome, ScriptId};
use lockage_sim::store::{SimError, SimStore};

use super::judge::Fault;
use super::log::Line;
use super::plan::Plan;
use super::play::{self, Outcome};
use super::rare::Rare;

/// The engine that decides in worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// The Rust machines
    Model,
    /// The machines, and also the shipped Lua scripts on a simulated store, which must do the same
    Lua,
}

impl Engine {
    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Model => "model",
            Engine::Lua => "lua",
        }
    }
}

/// A bug of the world, planted to check that it is found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    /// Changes the answers of the machines.
    pub spoil: Option<fn(&mut AnyOutcome)>,
    /// Whether nothing is excused by a failover that loses writes, or by a store's clock that is
    /// set.
    pub excuses_nothing: bool,
    /// By how many millionths the clocks of all nodes are slower than drawn.
    pub slower_ppm: i64,
    /// How much longer than drawn messages take.
    pub later_us: u64,
}

/// A world that failed, shrunk.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the original world.
    pub seed: u64,
    /// The fault.
    pub violation: Fault,
    /// The shrunk plan.
    pub plan: Plan,
    /// Its events.
    pub timeline: Vec<Line>,
}

/// Plays plans.
pub struct Stage {
    scripts: SimStore,
    /// The scripts run in one of this many worlds; in none if this is zero.
    one_in: u64,
    planted: Planted,
}

impl Stage {
    /// Returns a stage with the machines, and with the scripts in one of eight worlds, unless an
    /// engine is named.
    ///
    /// # Errors
    /// [`SimError`] where Lua cannot get memory.
    pub fn new(engine: Option<Engine>) -> Result<Self, SimError> {
        let one_in = match engine {
            None => 8,
            Some(Engine::Lua) => 1,
            Some(Engine::Model) => 0,
        };
        Ok(Stage {
            scripts: SimStore::new()?.with_keys_noted(),
            one_in,
            planted: Planted::default(),
        })
    }

    /// Returns the stage with another source for a script.
    pub fn with_script(self, script: ScriptId, source: impl Into<String>) -> Self {
        Stage { scripts: self.scripts.with_script(script, source), ..self }
    }

    /// Returns the stage with a bug.
    pub fn with_planted(self, planted: Planted) -> Self {
        Stage { planted, ..self }
    }

    /// Returns the scripts that ran.
    pub fn scripts_run(&self) -> impl Iterator<Item = ScriptId> {
        self.scripts.scripts_run()
    }

    /// Plays a plan.
    pub fn play(&mut self, plan: &Plan, with_timeline: bool) -> Outcome {
        let is_scripted = self.one_in > 0 && plan.seed.is_multiple_of(self.one_in);
        // Servers run scripts.
        let is_scripted = is_scripted || plan.link.is_some();
        play::run(plan, is_scripted.then_some(&mut self.scripts), self.planted, with_timeline)
    }

    /// Returns the smallest plan found that fails in the same way; nothing if the plan does not
    /// fail.
    pub fn explain(&mut self, plan: &Plan) -> Option<Failure> {
        let kind = self.play(plan, false).violation?.kind;
        let mut fails = |plan: &Plan| {
            let violation = self.play(plan, false).violation;
            violation.is_some_and(|violation| violation.kind == kind)
        };
        let mut plan = plan.clone();
        loop {
            let Some(smaller) = plan.smaller().find(&mut fails) else { break };
            plan = smaller;
        }
        let outcome = self.play(&plan, true);
        let violation = outcome.violation?;
        Some(Failure { seed: plan.seed, violation, plan, timeline: outcome.timeline })
    }

    /// Plays a plan once for each poll of each job, and drops the job's future there. Returns the
    /// number of plays.
    ///
    /// # Errors
    /// Returns the first plan that fails, shrunk.
    pub fn cancel_everywhere(&mut self, plan: &Plan) -> Result<u64, Box<Failure>> {
        let mut cancelled = 0;
        for job in 0..plan.jobs() {
            for (polls, when_woken) in (1..).flat_map(|polls| [(polls, false), (polls, true)]) {
                let plan = plan.cancelled(job, polls, when_woken);
                let outcome = self.play(&plan, false);
                if outcome.violation.is_some()
                    && let Some(failure) = self.explain(&plan)
                {
                    return Err(Box::new(failure));
                }
                if outcome.rare.of(Rare::Dropped) == 0 {
                    break;
                }
                cancelled += 1;
            }
        }
        Ok(cancelled)
    }
}
