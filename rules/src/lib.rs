//! Rate limits in a file: from the values of a request to the limits that it meets.
//!
//! ```
//! use lockage_rules::{Costs, Format, Request, RuleLimit, Rules};
//!
//! let rules = Rules::parse(
//!     r#"
//!     [[rules]]
//!     name = "search"
//!     when = { route = "/search/*", method = ["GET", "POST"] }
//!     id = "user:{user}"
//!     limit = "token-bucket 100/min burst 20"
//!     cost = 5
//!     "#,
//!     Format::Toml,
//! )?;
//! let request = Request::new().route("/search/books").method("GET").user("42");
//! let [matched] = &rules.matches(&request)[..] else { panic!("one rule matches") };
//! assert_eq!((matched.rule.name.as_str(), matched.id.as_str()), ("search", "user:42"));
//! assert_eq!(*matched.limit(), RuleLimit::Given("token-bucket 100/min burst 20".parse()?));
//! assert_eq!(matched.costs, Costs::One(5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Rules::matches`] needs no store: it returns the ids, limits and costs that are to be decided, all or none, and
//! [`RuleLimiter`] decides them. [`LiveRules`] follows a file. The language is described in the book, under "Rules in a file".
//!
//! All mistakes of a file are found in one run, each with its line and column:
//!
//! ```
//! use lockage_rules::{Format, Rules};
//!
//! let text = "[[rules]]\nname = \"a\"\nid = \"ip:{address}\"\nlimit = \"fixed-window 10/fortnight\"\nshadwo = true\n";
//! let mistakes = Rules::parse(text, Format::Toml).unwrap_err().in_file("rules.toml");
//! let lines: Vec<String> = mistakes.to_string().lines().map(str::to_owned).collect();
//! assert!(lines[0].starts_with("rules.toml:4:26: expected a duration"), "{mistakes}");
//! assert_eq!(lines[1], "rules.toml:5:1: unknown key `shadwo` of a rule: did you mean `shadow`?");
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod check;
mod condition;
mod decision;
mod fields;
mod file;
mod given;
pub mod import;
mod in_flight;
mod index;
mod keys;
mod limiter;
mod limits;
mod live;
mod mistake;
mod request;
mod rule;
mod rules;
mod settings;
mod settle;
mod syntax;
mod template;
mod tree;

pub use decision::{Met, RuleDecision};
pub use given::GivenLimit;
pub use in_flight::{Place, Shed};
pub use limiter::RuleLimiter;
pub use limits::RuleLimit;
pub use live::{LiveRules, Reload, ReloadEvent, ReloadStatus};
pub use mistake::{Mistake, Mistakes};
pub use request::{Request, RequestError};
pub use rule::{Costs, Match, Matched, Rule};
pub use rules::{LoadError, Rules};
pub use settings::{ClientView, Priority, RuleFallback};
pub use syntax::Format;

/// The programs and the file of the book's page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rules.md")]
struct Book;
