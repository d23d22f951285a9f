//! Tests of the core through its public API.

mod by_part;
mod changes;
mod flows;
mod leases;
mod read_back;
mod records;
mod repeatable;
mod requests;
mod reservations;
mod strings;
mod turns;
mod values;
mod views;
mod wakes;
