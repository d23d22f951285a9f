//! The parts of each kind of limit, from one table: see [`Limit`](super::Limit).

use core::fmt;

use super::machine::{Config, Machine, State};
use super::share::Shares;
use super::{Limit, Single, SlidingLog};
use crate::error::ConfigError;
use crate::script::ScriptId;

/// The properties of a kind.
pub(crate) struct Row {
    /// The kind and version of its record, such as `F1`. Its letter is no other kind's.
    pub(crate) tag: &'static str,
    /// The first word of its text.
    pub(super) word: &'static str,
    /// Whether its record is a list.
    pub(crate) is_log: bool,
    /// The script of its acquire command.
    pub(crate) acquire: ScriptId,
    /// The number of its configuration's numbers.
    pub(crate) config_len: usize,
    /// The number of further numbers in each call.
    pub(crate) given_len: usize,
    /// The number of its state's numbers.
    pub(crate) state_len: usize,
    pub(super) read: fn(&[u64]) -> Option<Single>,
}

/// How a limit counts.
pub(crate) enum Algorithm<'a> {
    /// By a state of a few integers.
    Machine(&'a dyn Machine),
    /// By a list of the admitted requests.
    Log(&'a SlidingLog),
}

/// Makes the items of each kind from its row `Kind { ARM of Algorithm, tag, word, script, config LEN, given LEN, state
/// LEN }`.
macro_rules! kinds {
    (
        $(#[$doc:meta])*
        pub enum Limit;
        $($kind:ident {
            $arm:ident, $tag:literal, $word:literal, $acquire:ident, config $config:literal, given $given:tt, state $state:literal
        })*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[expect(clippy::large_enum_variant, reason = "a limit is a constant, and is copied")]
        pub enum Limit {
            $(
                #[doc = concat!("See [`", stringify!($kind), "`].")]
                $kind($kind),
            )*
            /// See [`Limit::all`].
            Composite(Composite),
        }

        /// A limit that is not a composite.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Single {
            $($kind($kind),)*
        }

        impl Single {
            /// All kinds.
            pub(crate) const ROWS: &[Row] = &[$($kind::ROW,)*];

            pub(crate) fn row(&self) -> &'static Row {
                match self {
                    $(Single::$kind(_) => const { &$kind::ROW },)*
                }
            }

            pub(super) fn kind(&self) -> &dyn Kind {
                match self {
                    $(Single::$kind(limit) => limit,)*
                }
            }

            /// Parses the text after the word from `from` to here, if it is that of a kind.
            pub(super) const fn parse(
                input: &mut Input<'_>,
                from: usize,
            ) -> Option<Result<Limit, Refusal>> {
                $(
                    if input.is(from, $word) {
                        return Some($kind::parse(input));
                    }
                )*
                None
            }

            /// Returns it with the numbers that calls carry besides the configuration.
            fn with_given(self, given: &[u64]) -> Self {
                match self {
                    $(Single::$kind(limit) => Single::$kind(limit.with_given(given)),)*
                }
            }

            /// Returns how it counts.
            pub(crate) fn algorithm(&self) -> Algorithm<'_> {
                match self {
                    $(Single::$kind(limit) => Algorithm::$arm(limit),)*
                }
            }
        }

        impl Limit {
            /// Returns it, unless it is a composite.
            pub(crate) const fn single(&self) -> Option<Single> {
                match *self {
                    $(Limit::$kind(limit) => Some(Single::$kind(limit)),)*
                    Limit::Composite(_) => None,
                }
            }

            /// Returns it if it is one counter: neither a log nor a composite.
            pub(crate) fn counter(&self) -> Option<Single> {
                self.single().filter(|single| !single.is_log())
            }

            /// Returns its parts: itself, or those of a composite.
            pub(crate) fn singles(&self) -> Singles<'_> {
                match self {
                    $(Limit::$kind(limit) => Singles::One(Single::$kind(*limit)),)*
                    Limit::Composite(all) => Singles::All(all),
                }
            }
        }

        impl From<Single> for Limit {
            fn from(single: Single) -> Self {
                match single {
                    $(Single::$kind(limit) => Limit::$kind(limit),)*
                }
            }
        }

        $(
            impl $kind {
                pub(crate) const ROW: Row = Row {
                    tag: $tag,
                    word: $word,
                    is_log: kinds!(@is_log $arm),
                    acquire: ScriptId::$acquire,
                    config_len: $config,
                    given_len: $given,
                    state_len: $state,
                    read: |config| <$kind as Kind>::read(config).map(Single::$kind),
                };
            }

            impl From<$kind> for Single {
                fn from(limit: $kind) -> Self {
                    Single::$kind(limit)
                }
            }

            impl From<$kind> for Limit {
                fn from(limit: $kind) -> Self {
                    Limit::$kind(limit)
                }
            }

            kinds!(@meter $arm $kind $given $state);
        )*
    };
    (@meter Machine $kind:ident 0 $state:literal) => {
        impl Meter for $kind {
            type Kept = [u64; $state];
        }
    };
    (@is_log Machine) => { false };
    (@is_log Log) => { true };
    // A log has no state of constant size, and a state alone does not determine the numbers that calls carry.
    (@meter $arm:ident $kind:ident $given:tt $state:literal) => {};
}

pub(super) use kinds;

impl Single {
    /// Returns the row of a tag, if there is such a kind.
    pub(crate) fn row_of(tag: &str) -> Option<&'static Row> {
        Single::ROWS.iter().find(|row| row.tag == tag)
    }

    /// Returns the row of the tag that begins with this letter.
    pub(crate) fn row_of_letter(letter: char) -> Option<&'static Row> {
        Single::ROWS.iter().find(|row| row.tag.starts_with(letter))
    }

    /// Returns the limit of this tag and configuration, if it is valid.
    pub(crate) fn read(tag: &str, config: &[u64]) -> Option<Single> {
        (Single::row_of(tag)?.read)(config)
    }

    /// Returns whether the two act alike.
    pub(crate) fn acts_as(&self, other: &Single) -> bool {
        // Most often they are the same, which is quicker to see.
        self == other || (self.row().tag == other.row().tag && self.config() == other.config())
    }

    pub(crate) fn config(&self) -> Config {
        self.kind().config()
    }

    /// Returns the numbers that calls carry besides the configuration.
    pub(crate) fn given(&self) -> &[u64] {
        self.kind().given()
    }

    /// Returns it with the numbers of one of `others`, or with none. That one may differ in its capacity, the first
    /// number of a configuration.
    pub(crate) fn given_by(self, others: &[Single]) -> Single {
        let lends =
            |it: &&Single| it.row().tag == self.row().tag && it.config()[1..] == self.config()[1..];
        match self.row().given_len {
            0 => self,
            _ => {
                let lender = others.iter().find(lends);
                self.with_given(lender.map_or(&[], |it| it.given()))
            }
        }
    }

    /// Returns whether scripts reply its state settled, not as it was stored: without the call's numbers it could not
    /// be settled later, as for a remembered request.
    pub(crate) fn replies_settled(&self) -> bool {
        self.row().given_len > 0
    }

    /// Returns whether a state, or `None`, can be settled at `now`: see [`Machine::can_settle`].
    pub(crate) fn can_settle(&self, state: Option<State>, now: u64) -> bool {
        self.machine().is_none_or(|machine| machine.can_settle(state, now))
    }

    pub(super) fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().print(f)
    }

    pub(super) fn share(&self, shares: Shares) -> Result<Limit, ConfigError> {
        self.kind().share(shares)
    }

    pub(crate) fn capacity(&self) -> u64 {
        match self.algorithm() {
            Algorithm::Machine(machine) => machine.capacity(),
            Algorithm::Log(log) => log.limit(),
        }
    }

    /// Returns the machine, unless it is a log.
    pub(crate) fn machine(&self) -> Option<&dyn Machine> {
        match self.algorithm() {
            Algorithm::Machine(machine) => Some(machine),
            Algorithm::Log(_) => None,
        }
    }

    pub(crate) fn is_log(&self) -> bool {
        self.row().is_log
    }

    /// Returns whether it is a bucket: neither a log nor one with windows.
    pub(crate) fn is_bucket(&self) -> bool {
        self.machine().is_some_and(|machine| machine.window_of(State::default()).is_none())
    }

    /// Returns its lease, if it counts places that are given back: see [`Machine::lease_us`].
    pub(crate) fn lease_us(&self) -> Option<u64> {
        self.machine()?.lease_us()
    }

    /// Returns whether its admissions wait for their turn.
    pub(crate) fn has_turns(&self) -> bool {
        let fresh = |machine: &dyn Machine| machine.turn_at(machine.settle(None, 0));
        self.machine().and_then(fresh).is_some()
    }
}
