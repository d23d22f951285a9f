//! What was asked and answered, as those see it who know nothing of the store but its clock.

use lockage_core::Timestamp;

use super::message::Request;
use super::scenario::Scenario;
use super::server::{Operation, Outcome, Server};
use super::{Log, World};

/// One request that was sent, or one of the copies of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The key that it is for.
    pub key: usize,
    /// What it asks for.
    pub operation: Operation,
    /// When it was sent: true time, in microseconds from the world's beginning.
    pub sent_us: u64,
    /// By the store's clock when it was carried out; of one that was not, when it was sent.
    pub now: Timestamp,
    /// When it was answered, and how; nothing where nobody knows what became of it.
    pub answer: Option<(u64, Outcome)>,
}

/// A request as it is followed.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    pub(super) request: Request,
    pub(super) sent_us: u64,
    pub(super) now: Timestamp,
    pub(super) outcome: Option<Outcome>,
    /// When an answer to it arrived.
    pub(super) told_us: Option<u64>,
}

/// Plays a scenario to its end, whatever comes of it, and tells what was asked of the keys. What was certainly
/// not done, since the store said so, is no part of it.
pub fn history(scenario: &Scenario, server: &mut dyn Server) -> Vec<Sent> {
    let machines = scenario.machines();
    let mut world = World::new(scenario, server, Log::new(false));
    world.stage.history = Some(Vec::new());
    world.play_on();
    let copies = world.stage.history.unwrap_or_default();
    let seen = copies.into_iter().filter(|it| it.told_us.is_none() || it.outcome.is_some());
    let sent = |it: Copied| {
        let Request { key, ask, .. } = it.request;
        let operation = ask.operation(&machines[key])?;
        let is_on_key = !matches!(operation, Operation::Write(_));
        let answer = it.told_us.zip(it.outcome);
        let sent = Sent { key, operation, sent_us: it.sent_us, now: it.now, answer };
        is_on_key.then_some(sent)
    };
    seen.filter_map(sent).collect()
}
