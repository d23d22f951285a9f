//! What lists verbs once for asynchronous and for blocking callers.

/// Declares verbs of a `Limiter`, and the same verbs of a `BlockingLimiter`.
macro_rules! verbs {
    ($(
        $(#[$about:meta])*
        impl<S: Store> Limiter<S> {
            $(
                $(#[$doc:meta])*
                pub async fn $verb:ident(&$self:ident $(, $argument:ident: $type:ty)* $(,)?) -> $result:ty
                $(where S: $bound:ident)? $body:block
            )*
        }
    )*) => {
        $(
            $(#[$about])*
            impl<S: Store> Limiter<S> {
                $(
                    $(#[$doc])*
                    pub async fn $verb(&$self $(, $argument: $type)*) -> $result
                    $(where S: $bound)? $body
                )*
            }
        )*

        #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
        impl<S: BlockingStore> BlockingLimiter<S> {
            $($(
                #[doc = concat!("Does what [`Limiter::", stringify!($verb), "`] does, and blocks the thread meanwhile.")]
                ///
                /// # Errors
                /// [`Error`].
                pub fn $verb(&self $(, $argument: $type)*) -> $result {
                    block_on(self.limiter().$verb($($argument),*))
                }
            )*)*
        }

        /// The names of all verbs, asynchronous and blocking.
        #[cfg(test)]
        pub(crate) const VERBS: &[&str] = &[$($(stringify!($verb)),*),*];
    };
}

pub(super) use verbs;
