//! What is refused when a layer is built.

use lockage::Limit;

/// Why a layer cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// This names no network of proxies.
    #[error("`{text}` is no network of trusted proxies: {why}")]
    Cidr {
        /// The network, as it was given.
        text: Box<str>,
        /// What would be right.
        why: &'static str,
    },
    /// This is no name of a header field.
    #[error("`{0}` is no name of a header field: write one such as x-api-key")]
    HeaderName(Box<str>),
    /// This names no form of header fields.
    #[error("`{0}` is no form of header fields: there are draft-11, x-ratelimit and none")]
    Fields(Box<str>),
    /// This is no name of a policy.
    #[error(
        "`{0}` is no name of a policy: use 1 to 64 letters, digits, dots, dashes and underscores"
    )]
    Name(Box<str>),
    /// There must be a name for each limit.
    #[error("a name for each of {limits} limits is needed, and there are {names}")]
    NameCount {
        /// How many names were given.
        names: usize,
        /// How many limits there are.
        limits: usize,
    },
    /// Two policies have the same name, so that clients could not tell them apart.
    #[error("two policies have the name `{0}`: name each by `named`")]
    DuplicateName(Box<str>),
    /// Requests of this limit have turns, which a layer has to wait for.
    #[error("requests of `{0}` have turns: say how long one may wait, by `waiting`")]
    TurnsWithoutWaiting(Box<Limit>),
    /// These two exclude each other.
    #[error("a layer with {0} cannot have {1}")]
    Conflict(&'static str, &'static str),
    /// What a semaphore or a reservation is made of is out of range.
    #[error(transparent)]
    Config(#[from] lockage::store::ConfigError),
}
