//! Rules: their files, those that a request meets, and what limits decide.

mod book;
mod given;
mod import;
mod index;
mod language;
mod limiter;
mod live;
mod mistakes;
mod speed;
