//! Worlds whose clients are the shipped ones: programs on the public API of `lockage` run on a
//! deterministic executor, in virtual time, over a network and a store with every kind of failure.
//!
//! A [`Plan`] lists the parts of a world and its failures, all of them drawn from one seed. A
//! [`Stage`] plays it. Each node is one process: it has a clock of its own, crashes, stands still,
//! loses its connections, and its tasks are cancelled. A judge compares the answers of the API with
//! the store's charges and grants. After [`Plan::heal_us`] nothing goes wrong; then every job ends,
//! and no grant is left.
//!
//! A program runs on a [`Place`]. [`Outside`] judges programs that call real servers.

mod by_part;
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
mod output;
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
mod together;
mod trouble;
mod wire;

pub use campaign::{Campaign, Results};
pub use jobs::Life;
pub use judge::{Answer, Exempt, Exemptions, Fault as Violation, Kind, Op, Seen};
pub use log::{Line, Who};
pub use outside::{Admitted, Outside, Told};
pub use place::Place;
pub use plan::{LEADERS, Plan, Theme, Verb, WARMUP, What, Work};
pub use play::Outcome;
pub use rare::{Counts, Rare};
pub use stage::{Engine, Failure, Planted, Stage};
