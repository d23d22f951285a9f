//! The description of the HTTP interface, from which clients can be made.

use utoipa::OpenApi;

use crate::admin;
use crate::api::{limits, locks};

/// Limits and locks that all processes share.
#[derive(OpenApi)]
#[openapi(
    info(title = "lockage-server", license(name = "MIT OR Apache-2.0")),
    paths(
        limits::decide, limits::peek, limits::refund, limits::reserve, limits::settle, limits::block, limits::unblock,
        limits::reset, locks::acquire, locks::renew, locks::release, locks::inspect, locks::force_release,
        admin::rules, admin::reload,
    ),
    tags(
        (name = "limits", description = "Decisions by rules, or by an id and a limit of the request's own"),
        (name = "locks", description = "Locks with fencing tokens"),
        (name = "admin", description = "On the port of operators alone"),
    )
)]
struct Description;

/// Returns the description of the HTTP interface, in JSON.
///
/// # Panics
/// Never: it is JSON.
pub fn openapi() -> String {
    Description::openapi().to_pretty_json().expect("it is JSON")
}
