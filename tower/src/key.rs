//! The key of a limit: the part of a request that makes the id.

use std::fmt::Write;
use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;
use sha2::{Digest, Sha256};

use crate::client_ip::ClientIp;
use crate::cost::OfRequest;
use crate::error::SetupError;
use crate::rejection::Reason;

/// A part of a key with more bytes is hashed.
const LONGEST: usize = 64;

/// Which requests share a limit: those with the same client, header, route, or result of a function.
///
/// Each part carries its kind, as in `ip:192.0.2.1,route:/login`, so that no client can choose another one's key.
/// Ambiguous bytes are written as `%2C`. A part longer than 64 bytes is replaced by half of its SHA-256. A shorter API
/// key is plain text in the store's key: if readers of the store must not see it, hash it in a function ([`Key::of`]).
#[derive(Clone)]
pub struct Key {
    sources: Vec<Source>,
}

/// One part of a key.
#[derive(Clone)]
enum Source {
    Ip(ClientIp),
    Header(HeaderName),
    #[cfg(feature = "axum")]
    Route,
    Of(Box<str>, OfRequest<Option<String>>),
    Shared,
    Either(Box<[Key; 2]>),
}

/// Returns the key of the value of a header field, such as an API key. A request without it is answered 401.
///
/// A proxy or a load balancer may put several values into one field: they count as one value, unchanged.
///
/// # Errors
/// [`SetupError::HeaderName`].
pub fn header(name: &str) -> Result<Key, SetupError> {
    let name = HeaderName::try_from(name).map_err(|_| SetupError::HeaderName(name.into()))?;
    Ok(Source::Header(name).into())
}

/// Returns the key of a request's matched route, such as `/users/{id}`; never of its path, since clients can invent any
/// number of paths. Requests without a route share one key.
#[cfg(feature = "axum")]
pub fn route() -> Key {
    Source::Route.into()
}

impl Key {
    /// Returns the key that a function makes of a request, such as its authenticated tenant. If it returns `None`, the
    /// request is answered 401. `kind` names it in the store's keys.
    pub fn of(
        kind: &str,
        function: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Source::Of(kind.into(), Arc::new(function)).into()
    }

    /// Returns one key for all requests.
    pub fn shared() -> Self {
        Source::Shared.into()
    }

    /// Returns the key of both: a limit for each pair.
    pub fn and(mut self, other: impl Into<Key>) -> Self {
        self.sources.extend(other.into().sources);
        self
    }

    /// Returns this key or, for requests that lack it, the other one, as in `header("x-api-key")?.or(ip())`.
    ///
    /// Clients can invent values of a field, each with a limit of its own: refuse unknown ones first, or limit addresses,
    /// too.
    pub fn or(self, other: impl Into<Key>) -> Self {
        Source::Either(Box::new([self, other.into()])).into()
    }

    /// Returns the id of a request.
    pub(crate) fn id(&self, parts: &Parts) -> Result<String, Reason> {
        let mut id = String::with_capacity(32);
        for source in &self.sources {
            if !id.is_empty() {
                id.push(',');
            }
            source.write(parts, &mut id)?;
        }
        Ok(id)
    }
}

impl Source {
    fn write(&self, parts: &Parts, id: &mut String) -> Result<(), Reason> {
        match self {
            Source::Ip(client) => {
                id.push_str("ip:");
                client.of(parts)?.write(id);
            }
            Source::Header(name) => {
                id.push_str(name.as_str());
                id.push(':');
                let mut values = parts.headers.get_all(name).iter();
                let missing = || Reason::NoKey(name.as_str().into());
                let first = values.next().ok_or_else(missing)?;
                match values.next() {
                    None => write_value(first.as_bytes(), id),
                    Some(_) => {
                        let all = parts.headers.get_all(name).iter();
                        let all: Vec<_> = all.map(|value| value.as_bytes()).collect();
                        write_value(&all.join(&b", "[..]), id);
                    }
                }
            }
            #[cfg(feature = "axum")]
            Source::Route => {
                id.push_str("route:");
                if let Some(path) = parts.extensions.get::<axum::extract::MatchedPath>() {
                    write_value(path.as_str().as_bytes(), id);
                }
            }
            Source::Of(kind, function) => {
                let value = function(parts).ok_or_else(|| Reason::NoKey(kind.clone()))?;
                write_value(kind.as_bytes(), id);
                id.push(':');
                write_value(value.as_bytes(), id);
            }
            Source::Shared => id.push_str("all"),
            Source::Either(keys) => id.push_str(&match keys[0].id(parts) {
                Err(Reason::NoKey(_)) => keys[1].id(parts)?,
                own => own?,
            }),
        }
        Ok(())
    }
}

/// Writes a value so that different values, and different lists of values, are written differently.
fn write_value(value: &[u8], id: &mut String) {
    if value.len() > LONGEST {
        id.push('#');
        for byte in &Sha256::digest(value)[..16] {
            // Writing to a string never fails.
            let _ = write!(id, "{byte:02x}");
        }
        return;
    }
    for &byte in value {
        match byte {
            b'%' | b',' | b'#' | b':' | b'{' | b'}' => {
                let _ = write!(id, "%{byte:02X}");
            }
            b'!'..=b'~' => id.push(byte.into()),
            _ => {
                let _ = write!(id, "%{byte:02X}");
            }
        }
    }
}

impl From<Source> for Key {
    fn from(source: Source) -> Self {
        Key { sources: vec![source] }
    }
}

impl From<ClientIp> for Key {
    fn from(client: ClientIp) -> Self {
        Source::Ip(client).into()
    }
}

impl ClientIp {
    /// Returns the key of both: a limit for each pair.
    pub fn and(self, other: impl Into<Key>) -> Key {
        Key::from(self).and(other)
    }
}
