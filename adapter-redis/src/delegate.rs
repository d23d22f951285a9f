//! The traits of a client's own type of store.

/// Delegates a client's own type to its [`LuaStore`](crate::LuaStore): `with_clock`, `with_idle_check`,
/// `Store`, `Notifications` and `Replicated`; with `blocking`, the options and `BlockingStore`.
#[macro_export]
macro_rules! delegate_store {
    (@options $store:ident$(<$of:ident>)?) => {
        impl$(<$of: $crate::Link>)? $store$(<$of>)? {
            /// Lets the caller's clock decide instead of the server's: see
            /// [`TimeSource::caller`](::lockage_redis::TimeSource::caller).
            #[must_use]
            pub fn with_clock(
                self,
                clock: ::std::sync::Arc<dyn ::lockage::store::Clock>,
                skew: ::std::time::Duration,
            ) -> Self {
                $store(self.0.with_clock(clock, skew))
            }

            /// Sets how long a connection may be idle before a `PING` checks it, ahead of the next call: 500 ms by
            /// default.
            ///
            /// `Duration::ZERO` checks before each call, which takes a round trip more; `Duration::MAX` never does.
            /// The check has half of an attempt: a timeout below sixteen round trips may leave too little for it.
            #[must_use]
            pub fn with_idle_check(self, after: ::std::time::Duration) -> Self {
                $store(self.0.map_link(|link| $crate::Link::checked_after(link, after)))
            }
        }
    };
    (blocking $store:ident) => {
        $crate::delegate_store!(@options $store);

        impl $store {
            /// Closes this store and all its clones. Its connections end, each after its call.
            ///
            /// Later calls are [`StoreError::NotDone`](::lockage::StoreError::NotDone).
            pub fn close(&self) {
                self.0.close_blocking();
            }
        }

        impl ::lockage::store::BlockingStore for $store {
            fn execute<C: ::lockage::store::Command>(
                &self,
                key: &::lockage::Key,
                command: &C,
                patience: ::std::time::Duration,
            ) -> Result<C::Outcome, ::lockage::StoreError> {
                self.0.call_blocking(key, command, patience)
            }

            fn identity(&self) -> Option<::lockage::store::Identity> {
                ::lockage::Store::identity(&self.0)
            }

            fn execute_all(
                &self,
                keys: &[::lockage::Key],
                command: &::lockage::store::AcquireAll,
                patience: ::std::time::Duration,
            ) -> Result<Vec<::lockage::store::OneOutcome>, ::lockage::StoreError> {
                self.0.call_all_blocking(keys, command, patience)
            }
        }
    };
    ($store:ident) => {
        $crate::delegate_store!(@options $store<L>);

        impl<L: $crate::Link> $store<L> {
            /// Closes this store and all its clones. It ends its own connections, each after the calls in flight on it,
            /// and its listening. A connection of the application's own stays open.
            ///
            /// Later calls are [`StoreError::NotDone`](::lockage::StoreError::NotDone), and so are new listeners.
            pub async fn close(&self) {
                self.0.close().await;
            }
        }

        impl<L: $crate::Link> ::lockage::Store for $store<L> {
            async fn execute<C>(
                &self,
                key: &::lockage::Key,
                command: &C,
            ) -> Result<C::Outcome, ::lockage::StoreError>
            where
                C: ::lockage::store::Command<Outcome: Send> + Sync,
            {
                self.0.execute(key, command).await
            }

            async fn execute_within<C>(
                &self,
                key: &::lockage::Key,
                command: &C,
                patience: ::std::time::Duration,
            ) -> Result<C::Outcome, ::lockage::StoreError>
            where
                C: ::lockage::store::Command<Outcome: Send> + Sync,
            {
                self.0.execute_within(key, command, patience).await
            }

            fn supports_batch(&self) -> bool {
                self.0.supports_batch()
            }

            fn server(&self) -> Option<String> {
                ::lockage::Store::server(&self.0)
            }

            async fn execute_batch<C>(
                &self,
                calls: &[(&::lockage::Key, &C)],
                patience: ::std::time::Duration,
            ) -> Vec<Result<C::Outcome, ::lockage::StoreError>>
            where
                C: ::lockage::store::Command<Outcome: Send> + Sync,
            {
                self.0.execute_batch(calls, patience).await
            }

            fn identity(&self) -> Option<::lockage::store::Identity> {
                ::lockage::Store::identity(&self.0)
            }

            async fn execute_all(
                &self,
                keys: &[::lockage::Key],
                command: &::lockage::store::AcquireAll,
                patience: ::std::time::Duration,
            ) -> Result<Vec<::lockage::store::OneOutcome>, ::lockage::StoreError> {
                ::lockage::Store::execute_all(&self.0, keys, command, patience).await
            }
        }

        impl<L: $crate::Link> ::lockage::notifications::Notifications for $store<L> {
            async fn listen(
                &self,
                key: &::lockage::Key,
                wake: ::lockage::notifications::Wake,
            ) -> Result<::lockage::notifications::Listener, ::lockage::StoreError> {
                self.0.listen(key, wake).await
            }
        }

        impl<L: $crate::Acknowledging> ::lockage::store::Replicated for $store<L> {
            async fn execute_acknowledged<C>(
                &self,
                key: &::lockage::Key,
                command: &C,
                replicas: u32,
                patience: ::std::time::Duration,
            ) -> Result<(C::Outcome, u32), ::lockage::StoreError>
            where
                C: ::lockage::store::Command<Outcome: Send> + Sync,
            {
                self.0.execute_acknowledged(key, command, replicas, patience).await
            }
        }
    };
}
