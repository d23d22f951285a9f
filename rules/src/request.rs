//! A request, as rules see it.

use std::borrow::Cow;
use std::net::IpAddr;

use smallvec::SmallVec;

use crate::template::{write_address, write_value};

/// A request: values by their keys, the client's address, and costs that the program has computed.
///
/// An empty value is as good as none, and a later value of a key replaces an earlier one. Only keys that are in the
/// rules matter: [`Rules::keys`](crate::Rules::keys).
///
/// ```
/// use lockage_rules::Request;
///
/// let request = Request::new()
///     .route("/v1/chat")
///     .method("POST")
///     .header("X-Plan", "gold")
///     .address([192, 0, 2, 7])
///     .with("model", "large-2")
///     .cost("tokens", 950);
/// # let _ = request;
/// ```
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub(crate) entries: SmallVec<[Entry<'a>; 8]>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) costs: SmallVec<[(Cow<'a, str>, u64); 2]>,
    pub(crate) hits: u64,
}

impl Default for Request<'_> {
    fn default() -> Self {
        let (entries, costs) = Default::default();
        Request { entries, address: None, costs, hits: 1 }
    }
}

/// A key of this kind, and its value.
type Entry<'a> = (Kind, Cow<'a, str>, Cow<'a, str>);

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Descriptor,
    Header,
}

/// The key of the client's address.
pub(crate) const ADDRESS: &str = "address";
/// The key of the tier that chooses among limits of one name.
pub(crate) const TIER: &str = "tier";
/// The beginning of the keys of headers.
pub(crate) const HEADER: &str = "header.";

macro_rules! descriptors {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $($(#[$doc])*
        pub fn $name(self, value: impl Into<Cow<'a, str>>) -> Self {
            self.with(stringify!($name), value)
        })*
    };
}

impl<'a> Request<'a> {
    /// Creates a request without values.
    pub fn new() -> Self {
        Request::default()
    }

    descriptors! {
        /// Sets the route: the path, or better the registered route, such as `/users/{id}`.
        route
        /// Sets the method, such as `POST`.
        method
        /// Sets the tenant or organisation.
        tenant
        /// Sets the tier, which chooses among limits of one name.
        tier
        /// Sets the user.
        user
    }

    /// Sets the value of a key. The client's address is set by [`address`](Self::address) alone, and a header by
    /// [`header`](Self::header).
    pub fn with(mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        self.put(Kind::Descriptor, key.into(), value.into());
        self
    }

    /// Sets the value of a header, whose name is the same in all cases.
    pub fn header(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        let mut name = name.into();
        if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            name = name.to_ascii_lowercase().into();
        }
        self.put(Kind::Header, name, value.into());
        self
    }

    /// Sets the client's address. An IPv4 address in IPv6 form is the IPv4 address.
    pub fn address(mut self, address: impl Into<IpAddr>) -> Self {
        self.address = Some(address.into().to_canonical());
        self
    }

    /// Sets a cost that rules name.
    pub fn cost(mut self, name: impl Into<Cow<'a, str>>, amount: u64) -> Self {
        let name = name.into();
        self.costs.retain(|(other, _)| *other != name);
        self.costs.push((name, amount));
        self
    }

    /// Sets the number of such requests that this one stands for (1): all costs are multiplied by it. With 0 it charges
    /// nothing.
    pub fn hits(mut self, hits: u64) -> Self {
        self.hits = hits;
        self
    }

    /// Sets a value by its key as rules name it, also `address`, `header.NAME` and, with a number, `cost.NAME`.
    ///
    /// # Errors
    /// [`RequestError`] for an address or a cost that is none.
    pub fn with_text(
        self,
        key: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, str>>,
    ) -> Result<Self, RequestError> {
        let (key, value) = (key.into(), value.into());
        if key == ADDRESS {
            let address: Result<IpAddr, _> = value.parse();
            return match address {
                Ok(address) => Ok(self.address(address)),
                Err(_) => Err(RequestError::Address(value.into_owned())),
            };
        }
        if let Some(name) = key.strip_prefix("cost.") {
            return match value.parse() {
                Ok(amount) => Ok(self.cost(name.to_owned(), amount)),
                Err(_) => Err(RequestError::Cost(value.into_owned())),
            };
        }
        Ok(match key.strip_prefix(HEADER) {
            Some(name) => self.header(name.to_owned(), value),
            None => self.with(key, value),
        })
    }

    /// Returns an id of all its values, in their order: `key:value,key:value`, written as values in the ids of rules.
    pub fn id(&self) -> String {
        let mut id = String::new();
        for (kind, key, value) in &self.entries {
            if !id.is_empty() {
                id.push(',');
            }
            if *kind == Kind::Header {
                id.push_str(HEADER);
            }
            write_value(key, &mut id);
            id.push(':');
            write_value(value, &mut id);
        }
        if let Some(address) = self.address {
            id.push_str(if id.is_empty() { "address:" } else { ",address:" });
            write_address(address, &mut id);
        }
        id
    }

    fn put(&mut self, kind: Kind, key: Cow<'a, str>, value: Cow<'a, str>) {
        let is_other = |entry: &mut Entry<'a>| entry.0 != kind || entry.1 != key;
        self.entries.retain(is_other);
        if !value.is_empty() {
            self.entries.push((kind, key, value));
        }
    }

    /// Returns the number of different keys that have values.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() + usize::from(self.address.is_some())
    }
}

/// A value that a key cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not an address.
    #[error("{0:?} is no address: expected one such as 192.0.2.7 or 2001:db8::7")]
    Address(String),
    /// Not a cost.
    #[error("{0:?} is no cost: expected a whole number")]
    Cost(String),
}
