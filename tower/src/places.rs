//! The bound on the requests that are served at once.

use std::any::Any;

use lockage::locks::Locks;
use lockage::runtime::Spawn;
use lockage::{Error, Store};

use crate::background::BoxFuture;

/// A bound on the requests that are served at once.
pub(crate) trait Places: Send + Sync {
    /// Takes a place, which is returned when the permit is dropped.
    fn take<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Permit>, Error>>;
}

pub(crate) type Permit = Box<dyn Any + Send>;

pub(crate) struct Semaphores<S, R> {
    pub(crate) locks: Locks<S, R>,
    pub(crate) permits: u64,
}

impl<S: Store + 'static, R: Spawn> Semaphores<S, R> {
    /// Checks the number of permits.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.locks.semaphore("a name", self.permits).map(drop)
    }
}

impl<S: Store + 'static, R: Spawn> Places for Semaphores<S, R> {
    fn take<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Permit>, Error>> {
        Box::pin(async move {
            let permit = self.locks.semaphore(id, self.permits)?.try_acquire().await?.taken();
            Ok(permit.map(|permit| Box::new(permit) as Permit))
        })
    }
}
