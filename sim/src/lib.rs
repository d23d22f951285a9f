//! Simulated stores, traffic and the explorer of lockage: see how a limit behaves before you ship it.
//!
//! | module | does |
//! |---|---|
//! | [`trace`], [`input`] | reads requests from a file |
//! | [`traffic`], [`scenario`] | generates requests |
//! | [`engine`], [`store`] | decide: the scripts in real Lua 5.1 over a simulated keyspace, or the Rust machines |
//! | [`replay`], [`waiting`], [`clocks`] | put a trace through limits, with waiting callers, with clocks that are off |
//! | `by_rules` | puts a log through rules in a file |
//! | [`answers`], [`report`] | measure and print the results |
//! | [`advise`], [`worst`] | propose limits for a log; search for the worst trace of a limit |
//! | [`study`] | answers the questions of a command or a page |
//! | [`ask`] | answers questions in JSON, as the page in a browser asks them |
//! | `cli`, `terminal` | are the program `lockage-sim`, and its output |

//!
//! # A limiter of your own
//!
//! [`store::SimStore`] runs any Lua script that speaks to Redis by `redis.call`, in simulated time, so a limiter of
//! your own meets the same traffic and the same measures as those of lockage. This one sets its expiry again at each
//! request, and never ends its window while requests keep coming:
//!
//! ```
//! # #[cfg(feature = "lua")] {
//! use lockage_core::Limit;
//! use lockage_sim::answers::AgainstLog;
//! use lockage_sim::replay::Outcome;
//! use lockage_sim::store::{RespValue, SimStore};
//! use lockage_sim::traffic::Plan;
//!
//! const SCRIPT: &str = "
//!     local count = redis.call('INCR', KEYS[1])
//!     redis.call('PEXPIRE', KEYS[1], 1000)
//!     if count <= 10 then return 1 else return 0 end
//! ";
//!
//! let limit: Limit = "fixed-window 10/s".parse()?; // as it is meant
//! let trace = Plan::new("poisson 20/s".parse()?).generate()?;
//! let mut store = SimStore::new()?;
//! let mut outcomes = Vec::new();
//! for request in trace.requests() {
//!     store.set_now(request.at);
//!     let key = trace.key(request.key).as_bytes();
//!     let is_admitted = store.eval(SCRIPT, &[key], &[])? == RespValue::Integer(1);
//!     outcomes.push(if is_admitted { Outcome::Admitted } else { Outcome::Denied });
//! }
//! let judged = AgainstLog::of(&limit, &trace, &outcomes);
//! println!("{judged:?}");
//! // Ten minutes have room for 6,000 requests.
//! let admitted = outcomes.iter().filter(|outcome| **outcome == Outcome::Admitted).count();
//! assert!(admitted < 100, "{admitted}");
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client of your own that is built on `lockage::Limiter` runs on [`engine::ScriptStore`], or in the simulated worlds
//! of `lockage-world`, with networks and failing servers.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod advise;
pub mod answers;
pub mod ask;
#[cfg(feature = "cli")]
pub mod by_rules;
#[cfg(feature = "cli")]
pub mod cli;
pub mod clocks;
mod dates;
pub mod engine;
pub mod input;
pub mod replay;
pub mod report;
pub mod scenario;
pub mod store;
pub mod study;
#[cfg(feature = "cli")]
pub mod terminal;
pub mod trace;
pub mod traffic;
pub mod waiting;
pub mod worst;
