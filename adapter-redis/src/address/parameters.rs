//! The parameters of an address.

use super::{Kind, Login, Node, Protocol, database, decode, read_host, with_escapes};

const CREDENTIALS: [&str; 4] = ["user", "pass", "sentinelUsername", "sentinelPassword"];

/// Decoded parameters, all of them known.
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads a query of an address of this kind.
    pub(super) fn read(query: &str, kind: Kind) -> Result<Self, String> {
        let mut read: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if pair.contains('+') {
                // Some clients read it as a space, and others as a plus.
                return Err(with_escapes("a parameter contains a +"));
            }
            let (name, value) = pair.split_once('=').ok_or_else(|| unknown(None, kind))?;
            let (name, value) = (decode(name)?, decode(value)?);
            if !known(kind).contains(&&*name) {
                // After an `&` in a password it is a part of that.
                let is_safe = !read.iter().any(|(other, _)| CREDENTIALS.contains(&&**other));
                return Err(unknown(is_safe.then_some(&name), kind));
            }
            if name != "node" && read.iter().any(|(other, _)| *other == name) {
                return Err(format!("it contains {name} twice"));
            }
            read.push((name, value));
        }
        Ok(Parameters(read))
    }

    /// Returns the value of this parameter, if it is there.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(other, _)| other == name)?;
        Some(self.0.remove(at).1)
    }

    /// Returns these credentials, if one of them is there.
    pub(super) fn login(&mut self, user: &str, password: &str) -> Option<Login> {
        let login = Login { user: self.take(user), password: self.take(password) };
        (login != Login::default()).then_some(login)
    }

    pub(super) fn database(&mut self) -> Result<u32, String> {
        self.take("db").map_or(Ok(0), |number| database(&number))
    }

    pub(super) fn protocol(&mut self) -> Result<Option<Protocol>, String> {
        match self.take("protocol").as_deref() {
            None => Ok(None),
            Some("2" | "resp2") => Ok(Some(Protocol::Resp2)),
            Some("3" | "resp3") => Ok(Some(Protocol::Resp3)),
            Some(_) => Err("protocol is resp2 or resp3".into()),
        }
    }

    /// Returns the first node and all others.
    pub(super) fn nodes(&mut self, first: Node) -> Result<Vec<Node>, String> {
        let mut nodes = vec![first];
        while let Some(node) = self.take("node") {
            let has_port = !node.ends_with(']') && node.contains(':');
            let node = has_port.then(|| read_host(&node, 0)).and_then(Result::ok);
            nodes.push(node.ok_or("a node is host:port, without a user and a password")?);
        }
        Ok(nodes)
    }
}

/// Returns the names of parameters of this kind of address.
fn known(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Server => &["protocol"],
        Kind::Socket => &["db", "user", "pass", "protocol"],
        Kind::Sentinel => {
            &["sentinelServiceName", "node", "sentinelUsername", "sentinelPassword", "protocol"]
        }
        Kind::Cluster => &["node", "protocol"],
    }
}

/// Returns the error for an unknown parameter, with its name if that is a word.
fn unknown(name: Option<&String>, kind: Kind) -> String {
    let is_word = |name: &&String| {
        (1..=32).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let name = name.filter(is_word).map_or(String::new(), |name| format!(" {name:?}"));
    let known = known(kind).join(", ");
    let database = match kind {
        Kind::Server | Kind::Sentinel => {
            "; the database follows the host, as in redis://host:6379/3"
        }
        Kind::Socket | Kind::Cluster => "",
    };
    with_escapes(&format!("no parameter{name} is known here, only {known}{database}"))
}
