//! IPv6 clients by their networks.

use std::fmt;
use std::net::Ipv6Addr;

/// The network of an IPv6 address, which as text is the id of a client: `2001:db8:1:2::/64`.
///
/// A client has any number of addresses in its network, and would have as many limits. `lockage-tower` and
/// `lockage-sim` identify IPv6 clients by it.
///
/// ```
/// use lockage::limiter::Ipv6Network;
///
/// let address = "2001:db8:1:2:3:4:5:6".parse()?;
/// let id = Ipv6Network::new(address, Ipv6Network::DEFAULT_BITS).to_string();
/// assert_eq!(id, "2001:db8:1:2::/64");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Network {
    first: Ipv6Addr,
    bits: u8,
}

impl Ipv6Network {
    /// The bits of the network that most providers give to one customer.
    pub const DEFAULT_BITS: u8 = 64;

    /// Returns the network of this address, by its first `bits` bits; all of them for more than 128.
    pub fn new(address: Ipv6Addr, bits: u8) -> Self {
        let bits = bits.min(128);
        let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        Ipv6Network { first: Ipv6Addr::from_bits(address.to_bits() & mask), bits }
    }

    /// Returns the first address of the network.
    pub fn first(&self) -> Ipv6Addr {
        self.first
    }
}

impl fmt::Display for Ipv6Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_any_length() {
        let address = "2001:db8:1:234:5::6".parse().unwrap();
        for (bits, id) in [
            (0, "::/0"),
            (1, "::/1"),
            (48, "2001:db8:1::/48"),
            (56, "2001:db8:1:200::/56"),
            (64, "2001:db8:1:234::/64"),
            (128, "2001:db8:1:234:5::6/128"),
            (255, "2001:db8:1:234:5::6/128"),
        ] {
            assert_eq!(Ipv6Network::new(address, bits).to_string(), id);
        }
    }
}
