//! For those who write adapters: a connection that is made anew when it is lost.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

/// After so many uses in a row that nobody waited for to the end, a connection counts as lost: a
/// server that is cut off says nothing, and a caller's timeout may be shorter than the client's.
const ABANDONED: u32 = 3;

/// A connection (or the error of making one) that is made at its first use, and anew by the next
/// use after it was lost. All who wait for it wait for one attempt. Clones share it.
pub struct Renewed<T>(Arc<Inner<T>>);

struct Inner<T> {
    make: Box<dyn Fn() -> BoxFuture<'static, T> + Send + Sync>,
    current: Mutex<Arc<Attempt<T>>>,
}

/// One connection, from the attempt to make it on.
struct Attempt<T> {
    made: Shared<BoxFuture<'static, T>>,
    abandoned: AtomicU32,
}

impl<T: Clone + Send + Sync + 'static> Renewed<T> {
    /// Made by `make`, which is not asked before the first use.
    pub fn new<F>(make: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let make = Box::new(move || make().boxed());
        let current = Mutex::new(Attempt::new(make()));
        Renewed(Arc::new(Inner { make, current }))
    }

    /// Begins a use of the present one.
    pub fn begin(&self) -> Use<'_, T> {
        Use { all: self, attempt: Arc::clone(&self.current()), ended: false }
    }

    fn current(&self) -> MutexGuard<'_, Arc<Attempt<T>>> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next use begin with a new one, unless another use has seen to that already.
    fn leave(&self, lost: &Arc<Attempt<T>>) {
        let mut current = self.current();
        if Arc::ptr_eq(&current, lost) {
            *current = Attempt::new((self.0.make)());
        }
    }
}

impl<T: Clone> Attempt<T> {
    fn new(making: BoxFuture<'static, T>) -> Arc<Self> {
        Arc::new(Attempt { made: making.shared(), abandoned: AtomicU32::new(0) })
    }
}

/// A use that is under way. Dropped without [`Use::end`] it was abandoned; after several of those
/// in a row, the next use begins with a new connection.
pub struct Use<'a, T: Clone + Send + Sync + 'static> {
    all: &'a Renewed<T>,
    attempt: Arc<Attempt<T>>,
    ended: bool,
}

impl<T: Clone + Send + Sync + 'static> Use<'_, T> {
    /// The connection, once it is made.
    pub async fn get(&self) -> T {
        self.attempt.made.clone().await
    }

    /// Ends the use. `lost` says that the connection is of no more use to anybody.
    pub fn end(mut self, lost: bool) {
        self.ended = true;
        self.attempt.abandoned.store(0, Ordering::Relaxed);
        if lost {
            self.all.leave(&self.attempt);
        }
    }
}

impl<T: Clone + Send + Sync + 'static> Drop for Use<'_, T> {
    fn drop(&mut self) {
        if !self.ended && self.attempt.abandoned.fetch_add(1, Ordering::Relaxed) + 1 >= ABANDONED {
            self.all.leave(&self.attempt);
        }
    }
}

impl<T> Clone for Renewed<T> {
    fn clone(&self) -> Self {
        Renewed(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Renewed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").finish_non_exhaustive()
    }
}

impl<T: Clone + Send + Sync + 'static> fmt::Debug for Use<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Use").field("ended", &self.ended).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how often it was made.
    fn counted() -> Renewed<u32> {
        let count = Arc::new(AtomicU32::new(0));
        Renewed::new(move || {
            let count = Arc::clone(&count);
            async move { count.fetch_add(1, Ordering::Relaxed) + 1 }
        })
    }

    fn current(renewed: &Renewed<u32>) -> u32 {
        let begun = renewed.begin();
        let made = pollster::block_on(begun.get());
        begun.end(false);
        made
    }

    #[test]
    fn it_is_made_once_until_it_is_lost() {
        let renewed = counted();
        assert_eq!((current(&renewed), current(&renewed)), (1, 1));
        let (first, second) = (renewed.begin(), renewed.begin());
        pollster::block_on(first.get());
        first.end(true);
        assert_eq!(current(&renewed), 2);
        // This one was lost with it, and is no news of the new one.
        second.end(true);
        assert_eq!(current(&renewed), 2);
    }

    #[test]
    fn one_that_nobody_waits_for_is_lost() {
        let renewed = counted();
        assert_eq!(current(&renewed), 1);
        drop((renewed.begin(), renewed.begin()));
        assert_eq!(current(&renewed), 1, "an answer in between starts the count anew");
        drop((renewed.begin(), renewed.begin(), renewed.begin()));
        assert_eq!(current(&renewed), 2);
    }
}
