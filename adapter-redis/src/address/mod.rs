//! Addresses as written in configurations.

#[cfg(feature = "address")]
use url::Url;

#[cfg(feature = "address")]
use crate::link::host_and_port;

/// The forms of addresses, for errors.
pub const ADDRESSES: &str = "an address is redis://user:password@host:6379/0, rediss:// (TLS), redis+unix:///path, \
                             redis-sentinel://host:26379?sentinelServiceName=name or redis-cluster://host:6379, and \
                             the latter two take more nodes, as in ?node=host:port";

/// Checks the scheme of an address, and that TLS is available if requested, since not every client does: one would send
/// in plain text. `tls_by` names the feature that would provide it, if it is missing.
///
/// # Errors
/// The problem and its remedy, without the address, which may have a password.
pub fn check_scheme(address: &str, tls_by: Option<&str>) -> Result<(), String> {
    let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
    let (base, _) = scheme.split_once(['-', '+']).unwrap_or((scheme, ""));
    match (base, tls_by) {
        ("rediss" | "valkeys", Some(feature)) => Err(format!("{scheme}:// needs {feature}")),
        ("redis" | "rediss" | "valkey" | "valkeys" | "unix", _) => Ok(()),
        _ => Err(format!("{scheme:?} is no scheme: {ADDRESSES}")),
    }
}

/// The target of an address, as addresses of single servers, which clients know.
#[cfg(feature = "address")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// One server.
    Server(String),
    /// The master that sentinels name.
    Master {
        /// The sentinels.
        sentinels: Vec<String>,
        /// The name of the service.
        service: String,
        /// A server with the master's credentials, database and TLS. Its host is not the master's.
        like: String,
    },
    /// The initial nodes of a cluster.
    Cluster(Vec<String>),
}

#[cfg(feature = "address")]
impl Address {
    /// Reads an address. Those of sentinels and clusters have the form of the `fred` crate. `tls_by` is as for
    /// [`check_scheme`].
    ///
    /// # Errors
    /// The problem and its remedy, without the address, which may have a password.
    pub fn read(address: &str, tls_by: Option<&str>) -> Result<Self, String> {
        check_scheme(address, tls_by)?;
        let mut node = Url::parse(address).map_err(|error| wrong(&error))?;
        let scheme = node.scheme().to_owned();
        let (base, kind) = match scheme.split_once(['-', '+']) {
            None | Some((_, "unix")) => return Ok(Address::Server(address.to_owned())),
            Some((base, kind @ ("sentinel" | "cluster"))) if base != "unix" => (base, kind),
            Some(_) => return Err(wrong(&scheme)),
        };
        let asked = node.clone();
        node.set_query(None);
        node.set_scheme(base).map_err(|()| wrong(&scheme))?;
        if node.port().is_none() && kind == "sentinel" {
            node.set_port(Some(26379)).map_err(|()| wrong(&"no host"))?;
        }
        // The sentinels' own credentials stand in the query, and they have no databases.
        let like = node.to_string();
        if kind == "sentinel" {
            node.set_path("");
            let set = node.set_username("").and_then(|()| node.set_password(None));
            set.map_err(|()| wrong(&"no host"))?;
        }
        let (mut hosts, mut service) = (Vec::new(), None);
        for (name, value) in asked.query_pairs() {
            match &*name {
                "node" => hosts.push(value.into_owned()),
                "sentinelServiceName" => service = Some(value.into_owned()),
                "sentinelUsername" => node.set_username(&value).map_err(|()| wrong(&name))?,
                "sentinelPassword" => node.set_password(Some(&value)).map_err(|()| wrong(&name))?,
                _ => return Err(wrong(&name)),
            }
        }
        let mut nodes = vec![node.to_string()];
        for host in hosts {
            let is_set = host_and_port(&host).is_some_and(|(host, port)| {
                node.set_host(Some(host)).is_ok() && node.set_port(Some(port)).is_ok()
            });
            if !is_set {
                return Err(format!("{host:?} is no node: a node is host:port"));
            }
            nodes.push(node.to_string());
        }
        match (kind, service) {
            ("cluster", _) => Ok(Address::Cluster(nodes)),
            (_, Some(service)) => Ok(Address::Master { sentinels: nodes, service, like }),
            (_, None) => Err(wrong(&"no sentinelServiceName")),
        }
    }
}

#[cfg(feature = "address")]
fn wrong(part: &dyn std::fmt::Display) -> String {
    format!("{part}: {ADDRESSES}")
}

#[cfg(all(test, feature = "address", not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sentinels_and_nodes_are_addresses_of_their_own() {
        let read = |address| Address::read(address, None).unwrap();
        let server = "redis://user:secret@host:1/2?protocol=resp3";
        assert_eq!(read(server), Address::Server(server.to_owned()));
        assert_eq!(
            read("rediss-cluster://user:secret@a?node=b:2&node=[::1]:3"),
            Address::Cluster(
                [
                    "rediss://user:secret@a",
                    "rediss://user:secret@b:2",
                    "rediss://user:secret@[::1]:3"
                ]
                .map(str::to_owned)
                .into()
            )
        );
        let sentinels = "redis-sentinel://user:secret@a/2?sentinelServiceName=one&node=b:2\
                         &sentinelUsername=watcher&sentinelPassword=p%40ss";
        let nodes = ["redis://watcher:p%40ss@a:26379", "redis://watcher:p%40ss@b:2"];
        assert_eq!(
            read(sentinels),
            Address::Master {
                sentinels: nodes.map(str::to_owned).into(),
                service: "one".to_owned(),
                like: "redis://user:secret@a:26379/2".to_owned(),
            }
        );
    }

    #[test]
    fn an_address_by_tls_is_refused_without_it() {
        for scheme in ["rediss", "valkeys", "rediss-sentinel", "rediss-cluster"] {
            let error =
                Address::read(&format!("{scheme}://a"), Some("the feature `b`")).unwrap_err();
            assert_eq!(error, format!("{scheme}:// needs the feature `b`"));
        }
    }

    #[test]
    fn what_is_no_address_is_told_without_its_secret() {
        for (address, what) in [
            ("host:1", "redis://user:password@host:6379/0"),
            ("redis-ring://:secret@host", "redis-ring: an address is"),
            ("redis-sentinel://:secret@host", "no sentinelServiceName"),
            ("redis-cluster://:secret@host?nodes=b:2", "nodes: an address is"),
            ("redis-cluster://:secret@host?node=b", "\"b\" is no node: a node is host:port"),
        ] {
            let error = Address::read(address, None).unwrap_err();
            assert!(error.contains(what) && !error.contains("secret"), "{error}");
        }
    }
}
