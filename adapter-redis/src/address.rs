//! Addresses as configurations write them.

/// The forms of addresses, for errors.
pub const ADDRESSES: &str = "an address is redis://user:password@host:6379/0, rediss:// (TLS), redis+unix:///path, \
                             redis-sentinel://host:26379?sentinelServiceName=name or redis-cluster://host:6379, and \
                             the latter two take more nodes, as in ?node=host:port";

/// Checks the scheme of an address, and that TLS is there where it is asked for, which not every client does: one would
/// send in plain text. `tls_by` is the feature by which it would be, where it is not.
///
/// # Errors
/// What is wrong and what would be right, without the address, which may have a password.
pub fn check_scheme(address: &str, tls_by: Option<&str>) -> Result<(), String> {
    let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
    let (base, _) = scheme.split_once(['-', '+']).unwrap_or((scheme, ""));
    match (base, tls_by) {
        ("rediss" | "valkeys", Some(feature)) => {
            Err(format!("{scheme}:// needs the feature `{feature}`"))
        }
        ("redis" | "rediss" | "valkey" | "valkeys" | "unix", _) => Ok(()),
        _ => Err(format!("{scheme:?} is no scheme: {ADDRESSES}")),
    }
}
