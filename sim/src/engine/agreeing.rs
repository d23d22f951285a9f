//! Scripts and machines side by side.

use lockage_core::{Acquire, Decision, Timestamp};

use super::{Engine, EngineError, ModelEngine, StoreUse};

/// Decides by scripts, and holds every field of each decision against that of the Rust machines.
#[derive(Debug)]
pub struct AgreeingEngine<E> {
    scripts: E,
    machines: ModelEngine,
}

impl<E: Engine> AgreeingEngine<E> {
    /// Creates an engine of scripts that have decided nothing so far.
    pub fn new(scripts: E) -> AgreeingEngine<E> {
        AgreeingEngine { scripts, machines: ModelEngine::default() }
    }
}

impl<E: Engine> Engine for AgreeingEngine<E> {
    /// # Errors
    /// [`EngineError::Disagree`] if the two differ, also in their refusals.
    fn acquire(
        &mut self,
        key: &str,
        request: &Acquire,
        now: Timestamp,
    ) -> Result<Decision, EngineError> {
        let told =
            |result: Result<Decision, EngineError>| Box::new(result.map_err(|e| e.to_string()));
        match (self.scripts.acquire(key, request, now), self.machines.acquire(key, request, now)) {
            (Ok(scripts), Ok(machines)) if scripts == machines => Ok(scripts),
            (scripts, machines) => {
                Err(EngineError::Disagree { scripts: told(scripts), machines: told(machines) })
            }
        }
    }

    fn store_use(&self) -> Option<StoreUse> {
        self.scripts.store_use()
    }
}

#[cfg(test)]
mod tests {
    use lockage_core::Limit;

    use super::*;

    /// Reports one more than remains.
    struct Wrong(ModelEngine);

    impl Engine for Wrong {
        fn acquire(
            &mut self,
            key: &str,
            request: &Acquire,
            now: Timestamp,
        ) -> Result<Decision, EngineError> {
            let mut decision = self.0.acquire(key, request, now)?;
            decision.remaining += 1;
            Ok(decision)
        }
    }

    #[test]
    fn differing_fields_are_reported_with_both_decisions() {
        let request = Acquire::new("fixed-window 5/s".parse::<Limit>().unwrap(), 1).unwrap();
        let mut engine = AgreeingEngine::new(Wrong(ModelEngine::default()));
        let error = engine.acquire("a", &request, Timestamp::EPOCH).unwrap_err();
        assert!(matches!(error, EngineError::Disagree { .. }), "{error}");
        assert!(error.to_string().contains("remaining: 5"), "{error}");
        let mut engine = AgreeingEngine::new(ModelEngine::default());
        let decided = engine.acquire("a", &request, Timestamp::EPOCH).unwrap();
        assert_eq!(decided.remaining, 4);
    }
}
