//! Tests that are worth a long run: a short slice by default, the whole campaign by `./check --long`.

mod contention;
mod election;
mod full_memory;
mod renewals;
mod script_mutation;
