//! Why a link has no reply.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use lockage::StoreError;

use super::Health;

/// Why a request got no reply.
#[derive(Clone)]
pub struct LinkError {
    was_sent: bool,
    health: Health,
    server: Option<Arc<str>>,
    /// The remedy for an error that repeats until someone changes something.
    hint: Option<&'static str>,
    cause: Arc<dyn Error + Send + Sync>,
}

impl LinkError {
    /// Returns an error of a request that was certainly not sent, on a connection that is lost.
    pub fn not_sent(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let (health, cause) = (Health::Lost, Arc::from(cause.into()));
        LinkError { was_sent: false, health, server: None, hint: None, cause }
    }

    /// Returns an error of a request that is not sent, because of the client's setup or use.
    pub fn refused(why: &'static str) -> Self {
        LinkError::not_sent(why).on(Health::Good)
    }

    /// Returns an error of a request that may have run, on a connection that is lost.
    pub fn unanswered(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        LinkError { was_sent: true, ..LinkError::not_sent(cause) }
    }

    /// Returns this error of a client, of a request that may have run if it `was_sent`.
    pub fn of(
        cause: impl Into<Box<dyn Error + Send + Sync>>,
        was_sent: bool,
        health: Health,
    ) -> Self {
        LinkError { was_sent, ..LinkError::not_sent(cause).on(health) }
    }

    /// Sets the health of the connection.
    #[must_use]
    pub fn on(self, health: Health) -> Self {
        LinkError { health, ..self }
    }

    /// Marks an error that repeats until someone changes something, if there is a `hint` for it: see
    /// [`hint`](crate::hint).
    #[must_use]
    pub fn misconfigured(self, hint: Option<&'static str>) -> Self {
        LinkError { hint: hint.or(self.hint), ..self }
    }

    /// Returns the remedy, for an error that repeats until someone changes something.
    pub fn hint(&self) -> Option<&'static str> {
        self.hint
    }

    /// Adds the server's address, unless it has one.
    #[must_use]
    pub fn at(self, server: Option<String>) -> Self {
        LinkError { server: self.server.or(server.map(Arc::from)), ..self }
    }

    /// Marks an error of connecting: nothing was sent, whatever the client's error.
    #[must_use]
    pub fn before_sending(self) -> Self {
        self.unsent().on(Health::Lost)
    }

    /// Marks an error of a request that was not sent after all, such as one of a check.
    #[must_use]
    pub fn unsent(self) -> Self {
        LinkError { was_sent: false, ..self }
    }

    /// Returns the health of the connection.
    pub fn health(&self) -> Health {
        self.health
    }

    /// Returns whether the request may have run.
    pub fn was_sent(&self) -> bool {
        self.was_sent
    }

    /// Returns the client's error.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
    }
}

impl fmt::Debug for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.was_sent { "Unanswered" } else { "NotSent" };
        f.debug_tuple(name).field(&self.to_string()).finish()
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(f, "{server}: ")?;
        }
        self.cause.fmt(f)?;
        self.hint.map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

impl Error for LinkError {
    /// Returns the cause's own source, unless the cause's text ends with it, as that of the `redis` crate does.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let said = self.cause.to_string();
        self.cause.source().filter(|source| !said.ends_with(&source.to_string()))
    }
}

impl From<LinkError> for StoreError {
    fn from(error: LinkError) -> Self {
        match (error.was_sent, error.hint) {
            (true, _) => StoreError::Unknown(Box::new(error)),
            (false, Some(_)) => StoreError::Misconfigured(Box::new(error)),
            (false, None) => StoreError::NotDone(Box::new(error)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_server_once() {
        let error = LinkError::not_sent("Connection refused").at(None);
        assert_eq!(error.to_string(), "Connection refused");
        let error = error.at(Some("a:1".to_owned())).at(Some("b:2".to_owned()));
        assert_eq!(error.to_string(), "a:1: Connection refused");
        let error = StoreError::from(error);
        assert_eq!(error.to_string(), "not done: a:1: Connection refused");
        // A `main` that returns it prints this.
        let error = lockage::Error::from(error);
        assert_eq!(format!("{error:?}"), r#"Store(NotDone("a:1: Connection refused"))"#);
    }

    #[test]
    fn an_error_shows_whether_it_was_sent_and_the_cause_of_its_cause() {
        #[derive(Debug)]
        struct Caused(fmt::Error, &'static str);
        impl fmt::Display for Caused {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.1)
            }
        }
        impl Error for Caused {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let repeated = LinkError::not_sent(Caused(
            fmt::Error,
            "error: an error occurred when formatting an argument",
        ));
        assert!(repeated.source().is_none(), "a report of the chain repeats nothing");
        let error = LinkError::not_sent(Caused(fmt::Error, "caused"));
        assert!(error.source().is_some_and(|cause| cause.is::<fmt::Error>()));
        assert_eq!(format!("{error:?}"), r#"NotSent("caused")"#);
        let error = LinkError::unanswered("late");
        assert!(error.source().is_none());
        assert_eq!(format!("{error:?}"), r#"Unanswered("late")"#);
    }
}
