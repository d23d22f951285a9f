//! The estimate that a layer has read from a request's body.

/// The estimate that a request's body states, in the extensions of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimated {
    /// The size of an answer, such as `max_tokens`, if the body has it.
    pub answer: Option<u64>,
    /// The number of answers, 1 if the body does not have it.
    pub answers: u64,
    /// The size of the prompt, by its bytes.
    pub prompt: u64,
}

impl Default for Estimated {
    fn default() -> Self {
        Estimated { answer: None, answers: 1, prompt: 0 }
    }
}

impl Estimated {
    /// Returns the cost, at least 1. An answer of unknown size counts as `default`.
    pub fn cost(&self, default: u64) -> u64 {
        let answers = self.answer.unwrap_or(default).saturating_mul(self.answers);
        answers.saturating_add(self.prompt).max(1)
    }
}
