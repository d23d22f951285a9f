//! Worlds whose clients are the shipped ones: programs on the public API of `lockage` run on a deterministic executor,
//! in virtual time, over a network and a store in which everything goes wrong that can.
//!
//! A [`Plan`] says what there is and what goes wrong, all of it drawn from one seed. A [`Stage`] plays it. Each node is
//! one process: it has a clock of its own, crashes, stands still, loses its connections, and its tasks are cancelled.
//! Nothing but the answers of the API is believed: a judge compares them with what the store has charged
//! and granted. From [`Plan::heal_us`] on nothing goes wrong any more; then every job ends, and nothing is left taken.
//!
//! A program stands on a [`Place`]. One in a process that calls real servers is judged by [`Outside`].

mod calls;
mod campaign;
mod draw;
mod events;
mod host;
mod jobs;
mod judge;
mod log;
mod node;
mod now;
mod outside;
mod place;
mod plan;
mod play;
mod prompt;
mod rare;
mod same;
mod servers;
mod slots;
mod stage;
mod store;
mod trouble;
mod wire;

pub use campaign::{Campaign, Results};
pub use jobs::Life;
pub use judge::{Answer, Exempt, Exemptions, Fault as Violation, Kind, Op, Seen};
pub use log::{Line, Who};
pub use outside::{Admitted, Outside, Told};
pub use place::Place;
pub use plan::{Plan, Theme, What, Work};
pub use play::Outcome;
pub use rare::{Counts, Rare};
pub use stage::{Engine, Failure, Planted, Stage};
