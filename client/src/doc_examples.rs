//! The common lines of the verbs' examples, so that each example shows only its own lines.

/// Makes an example of these lines with a `store`; the first lines are hidden.
macro_rules! example {
    ([$($hidden:expr),*] $($line:literal)*) => {
        concat!(
            "\n```\n",
            "# #[cfg(feature = \"tokio\")] {\n",
            "# use std::time::Duration;\n",
            "# use lockage::{Limiter, Locks, RetryStore, limiter::*, locks::*};\n",
            "# tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {\n",
            "# let store = lockage_memory::MemoryStore::new();\n",
            "# let store = RetryStore::new(store, lockage::runtime::Tokio, Duration::from_secs(1));\n",
            $("# ", $hidden, "\n",)*
            $($line, "\n",)*
            "# Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }\n",
            "```\n"
        )
    };
}

/// Makes an example of lines with a `limiter`: of stored limits, under this one, or else under `fixed-window 10/min`.
macro_rules! limiter_example {
    (stored: $($line:literal)*) => {
        example!(
            ["let limiter = Limiter::stored(store, StoredLimits::new()).with_prefix(\"login\")?;"]
            $($line)*
        )
    };
    (under $limit:literal: $($line:literal)*) => {
        example!(
            [
                concat!("let limit = \"", $limit, "\".parse()?;"),
                "let limiter = Limiter::new(store, limit).with_prefix(\"login\")?;"
            ]
            $($line)*
        )
    };
    ($($line:literal)*) => {
        limiter_example!(under "fixed-window 10/min": $($line)*)
    };
}

/// Makes an example of lines with `locks`.
macro_rules! locks_example {
    ($($line:literal)*) => {
        example!(["let locks = Locks::new(store, Duration::from_secs(30))?;"] $($line)*)
    };
}
