//! How values are stored as bytes.

use std::fmt;

use crate::store::Cause;

/// How a value is stored as bytes: [`String`] as text, `Vec<u8>` as it is, `Json<T>` (with the feature `serde`) as
/// JSON, and others by your own implementation.
///
/// ```
/// use lockage::locks::Encoding;
/// use lockage::store::Cause;
///
/// struct Celsius; // an `i32`, of four bytes
///
/// impl Encoding for Celsius {
///     type Value = i32;
///
///     fn encode(value: &i32) -> Result<Vec<u8>, Cause> {
///         Ok(value.to_le_bytes().to_vec())
///     }
///
///     fn decode(bytes: Vec<u8>) -> Result<i32, Cause> {
///         Ok(i32::from_le_bytes(bytes.as_slice().try_into()?))
///     }
/// }
///
/// assert_eq!(Celsius::decode(Celsius::encode(&-7)?)?, -7);
/// assert!(Celsius::decode(b"cold".to_vec()).is_ok() && Celsius::decode(b"warm?".to_vec()).is_err());
/// # Ok::<(), Cause>(())
/// ```
pub trait Encoding {
    /// The type of the values.
    type Value;

    /// Returns the bytes of a value.
    ///
    /// # Errors
    /// Any, for a value that cannot be encoded.
    fn encode(value: &Self::Value) -> Result<Vec<u8>, Cause>;

    /// Returns the value of these bytes, which another program may have written.
    ///
    /// # Errors
    /// Any, for bytes that cannot be decoded.
    fn decode(bytes: Vec<u8>) -> Result<Self::Value, Cause>;
}

/// Text, in UTF-8.
impl Encoding for String {
    type Value = String;

    fn encode(value: &String) -> Result<Vec<u8>, Cause> {
        Ok(value.as_bytes().to_vec())
    }

    fn decode(bytes: Vec<u8>) -> Result<String, Cause> {
        Ok(String::from_utf8(bytes)?)
    }
}

/// Any bytes.
impl Encoding for Vec<u8> {
    type Value = Vec<u8>;

    fn encode(value: &Vec<u8>) -> Result<Vec<u8>, Cause> {
        Ok(value.clone())
    }

    fn decode(bytes: Vec<u8>) -> Result<Vec<u8>, Cause> {
        Ok(bytes)
    }
}

/// A `T` as JSON.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::time::Duration;
/// use lockage::runtime::Tokio;
/// use lockage::locks::{Json, RunOnce};
/// use lockage::{Locks, RetryStore};
/// # use lockage_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let store = MemoryStore::new();
/// let store = RetryStore::new(store, Tokio, Duration::from_secs(1));
/// let locks = Locks::new(store, Duration::from_secs(30))?;
/// let once = RunOnce::new(&locks, Duration::from_secs(3600))?.with_encoding::<Json<(u64, String)>>();
/// for _ in 0..2 {
///     let ran = once.run("charge:8241", async |_token| Ok::<_, String>((77, "receipt".into()))).await?;
///     assert_eq!(ran.result, (77, "receipt".into()));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
/// ```
#[cfg(feature = "serde")]
pub struct Json<T>(std::marker::PhantomData<fn() -> T>);

#[cfg(feature = "serde")]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Encoding for Json<T> {
    type Value = T;

    fn encode(value: &T) -> Result<Vec<u8>, Cause> {
        Ok(serde_json::to_vec(value)?)
    }

    fn decode(bytes: Vec<u8>) -> Result<T, Cause> {
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// A value that its [`Encoding`] cannot write, or a stored one that it cannot read.
///
/// Its text includes that of its [cause](ValueError::cause). [`source`](std::error::Error::source) is therefore the
/// cause's own source.
#[derive(Debug)]
pub struct ValueError {
    id: Box<str>,
    done: &'static str,
    cause: Cause,
}

impl ValueError {
    /// Returns the bytes of the value of this id.
    pub(super) fn encoded<V: Encoding>(id: &str, value: &V::Value) -> Result<Vec<u8>, ValueError> {
        V::encode(value).map_err(|cause| ValueError { id: id.into(), done: "encoded", cause })
    }

    /// Returns the value of this id from these bytes.
    pub(super) fn decoded<V: Encoding>(id: &str, bytes: Vec<u8>) -> Result<V::Value, ValueError> {
        V::decode(bytes).map_err(|cause| ValueError { id: id.into(), done: "decoded", cause })
    }

    /// Returns the id of the value.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the error of the [`Encoding`].
    pub fn cause(&self) -> &(dyn std::error::Error + 'static) {
        &*self.cause
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value of {:?} cannot be {}: {}", self.id, self.done, self.cause)
    }
}

impl std::error::Error for ValueError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}
