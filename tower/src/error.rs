//! Errors of building a layer.

use lockage::Limit;

/// Why a layer cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// This is not a network of proxies.
    #[error("`{text}` is no network of trusted proxies: {why}")]
    Cidr {
        /// The given network.
        text: Box<str>,
        /// The correct form.
        why: &'static str,
    },
    /// No IPv6 network has this many bits.
    #[error("`{0}` is no length of an IPv6 prefix: write one from 1 to 128, such as 56")]
    Ipv6Prefix(u8),
    /// This is not the name of a header field.
    #[error("`{0}` is no name of a header field: write one such as x-api-key")]
    HeaderName(Box<str>),
    /// This is not a form of header fields.
    #[error("`{0}` is no form of header fields: there are draft-11, x-ratelimit and none")]
    Fields(Box<str>),
    /// This is not the name of a policy.
    #[error(
        "`{0}` is no name of a policy: use 1 to 64 letters, digits, dots, dashes and underscores"
    )]
    Name(Box<str>),
    /// There must be a name for each limit.
    #[error("a name for each of {limits} limits is needed, and there are {names}")]
    NameCount {
        /// The number of given names.
        names: usize,
        /// The number of limits.
        limits: usize,
    },
    /// This is not the place of a value in a JSON document.
    #[error(
        "`{0}` is no JSON pointer: write the keys on the way, each after a slash, as in /usage/total_tokens"
    )]
    Pointer(Box<str>),
    /// Costs are for parts of other names than the limit has, or than have an estimate.
    #[error("there is no part `{name}` in `{within}`")]
    NoPart {
        /// The name.
        name: Box<str>,
        /// The limit, or the parts that have a cost.
        within: Box<str>,
    },
    /// Two policies have the same name, so clients could not distinguish them.
    #[error("two policies have the name `{0}`: name each by `named`")]
    DuplicateName(Box<str>),
    /// Requests of this limit have turns, which a layer must wait for.
    #[error("requests of `{0}` have turns: say how long one may wait, by `waiting`")]
    TurnsWithoutWaiting(Box<Limit>),
    /// Requests of this limit have places, which reservations alone give back.
    #[error(
        "requests of `{0}` have places, which they give back at their end only if they reserve: call `reserve`"
    )]
    PlacesWithoutReserving(Box<Limit>),
    /// These two exclude each other.
    #[error("a layer with {0} cannot have {1}")]
    Conflict(&'static str, &'static str),
    /// The options of a semaphore or a reservation are out of range.
    #[error(transparent)]
    Config(#[from] lockage::store::ConfigError),
}
