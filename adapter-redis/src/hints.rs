//! Errors of a server that repeat until someone changes something, and their remedies.

use crate::link::LinkError;

const PASSWORD: &str = "the user, the password, or both are wrong in the address, or missing there; special characters \
                        are written as %40 and the like";
const SENTINEL_PASSWORD: &str =
    "sentinelUsername, sentinelPassword, or both are wrong in the address, or missing there";
const SENTINEL_NO_PASSWORD: &str =
    "sentinels ask for no password: leave sentinelPassword out of the address";
const NO_PASSWORD: &str = "the server asks for no password: leave it out of the address";
const RIGHTS: &str =
    "grant the user this command, key or channel: `Permissions` in the documentation has a list";
const RIGHTS_OF_SCRIPTS: &str = "grant the user all commands that `Permissions` in the documentation lists: a script \
                                 ends at the first one that is missing, also half way";
const UNKNOWN: &str = "the server is none that runs scripts, such as a sentinel, or has this command renamed or turned off; \
                       Redis 6.2 or later, or Valkey, is needed";
const COMPILER: &str =
    "the server's Lua does not take the script: Redis 6.2 or later, or Valkey, is needed";
const CLUSTER: &str = "the server is a node of a cluster: an address that begins with redis-cluster:// leads to all its \
                       nodes, as in open(\"redis-cluster://host:6379\")";
const NO_CLUSTER: &str = "the server is no cluster: its address begins with redis://";
const DATABASE: &str =
    "the address ends with a database that the server does not have; a cluster has only 0";
const PROTECTED: &str =
    "the server only takes connections of its own machine: see its `protected-mode`";
const PROTOCOL: &str = "the server does not speak this version of the protocol: Redis 6.2 or later, or Valkey, is needed";

/// The hint for a peer that answers in another protocol.
pub const NO_REDIS: &str = "no Redis server answers there by this protocol: see the host, the port, and whether it speaks \
                            TLS, as addresses do that begin with rediss://";

/// Parts of a server's errors, with the hint for each. The first match counts.
const HINTS: [(&str, &str); 24] = [
    // By their codes.
    ("WRONGPASS ", PASSWORD),
    ("NOAUTH ", PASSWORD),
    // In a script: from 7.0 on, and before.
    ("ACL failure in script", RIGHTS_OF_SCRIPTS),
    ("The user executing the script can't", RIGHTS_OF_SCRIPTS),
    ("The user executing the script is lacking", RIGHTS_OF_SCRIPTS),
    ("NOPERM ", RIGHTS),
    ("MOVED ", CLUSTER),
    ("ASK ", CLUSTER),
    ("CROSSSLOT ", CLUSTER),
    ("DENIED ", PROTECTED),
    ("NOPROTO ", PROTOCOL),
    // By their words.
    ("without any password configured", NO_PASSWORD),
    ("no password is set", NO_PASSWORD),
    ("invalid password", PASSWORD),
    ("invalid username-password pair", PASSWORD),
    ("unknown command", UNKNOWN),
    ("nknown Redis command", UNKNOWN),
    ("not allowed from script", UNKNOWN),
    ("Error compiling script", COMPILER),
    ("cluster support disabled", NO_CLUSTER),
    ("SELECT is not allowed in cluster mode", DATABASE),
    ("DB index is out of range", DATABASE),
    ("invalid DB index", DATABASE),
    ("unsupported protocol version", PROTOCOL),
];

/// Returns the remedy, if a server's error with this text repeats until someone changes something.
///
/// Other errors pass: a server may load its keys, be full, be busy, follow a master for a while, or have no connection
/// left.
pub fn hint(error: &str) -> Option<&'static str> {
    // A code stands first, or, up to Redis 6.2, behind the words about the script that got it.
    let has = |part: &str| match part.strip_suffix(' ') {
        Some(code) => {
            let starts = |text: &str| {
                text.strip_prefix(code)
                    .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
            };
            starts(error)
                || error.contains(&format!("-{part}"))
                || error.contains(&format!(" {part}"))
        }
        None => error.contains(part),
    };
    HINTS.iter().find(|(part, _)| has(part)).map(|(_, hint)| *hint)
}

impl LinkError {
    /// Marks an error of sentinels: their credentials are other ones than the master's.
    #[must_use]
    pub fn of_sentinels(self) -> Self {
        let hint = match self.hint() {
            Some(PASSWORD) => Some(SENTINEL_PASSWORD),
            Some(NO_PASSWORD) => Some(SENTINEL_NO_PASSWORD),
            other => other,
        };
        self.misconfigured(hint).at(Some("the sentinels".to_owned()))
    }

    /// Marks an error of the master that sentinels name.
    #[must_use]
    pub fn of_master(self) -> Self {
        self.at(Some("the master".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_errors_have_a_hint() {
        for (error, expected) in [
            ("WRONGPASS invalid username-password pair or user is disabled.", PASSWORD),
            ("WRONGPASS", PASSWORD),
            ("invalid username-password pair or user is disabled.", PASSWORD),
            ("NOAUTH Authentication required.", PASSWORD),
            ("NOAUTH HELLO must be called with the client already authenticated", PASSWORD),
            ("ERR invalid password", PASSWORD),
            ("ERR Client sent AUTH, but no password is set", NO_PASSWORD),
            (
                "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                 your configuration is correct?",
                NO_PASSWORD,
            ),
            ("NOPERM this user has no permissions to run the 'evalsha' command", RIGHTS),
            ("NOPERM No permissions to access a key", RIGHTS),
            ("ERR Error running script (call to f_4f): @user_script:9: -NOPERM no", RIGHTS),
            ("Authentication failed: WRONGPASS invalid username-password pair", PASSWORD),
            (
                "NOPERM ACL failure in script: this user has no permissions to run the 'set' command script: 4f on \
                 @user_script:61.",
                RIGHTS_OF_SCRIPTS,
            ),
            (
                "ERR Error running script (call to f_4f): @user_script:61: The user executing the script can't run \
                 this command or subcommand",
                RIGHTS_OF_SCRIPTS,
            ),
            (
                "ERR Error running script (call to f_4f): @user_script:9: The user executing the script is lacking \
                 the permissions for the command",
                RIGHTS_OF_SCRIPTS,
            ),
            ("ERR This Redis command is not allowed from script script: 4f", UNKNOWN),
            ("ERR unknown command 'EVALSHA', with args beginning with: '4f' '1'", UNKNOWN),
            ("ERR unknown command `EVALSHA`, with args beginning with: `4f`", UNKNOWN),
            (
                "ERR Unknown Redis command called from script script: 4f, on @user_script:9.",
                UNKNOWN,
            ),
            (
                "ERR Error running script: @user_script:9: Unknown Redis command called from Lua script",
                UNKNOWN,
            ),
            ("ERR Error compiling script (new function): user_script:1: '=' expected", COMPILER),
            ("MOVED 3999 127.0.0.1:6381", CLUSTER),
            ("MOVED", CLUSTER),
            ("ASK 3999 127.0.0.1:6381", CLUSTER),
            ("CROSSSLOT Keys in request don't hash to the same slot", CLUSTER),
            ("ERR This instance has cluster support disabled", NO_CLUSTER),
            ("ERR SELECT is not allowed in cluster mode", DATABASE),
            ("ERR DB index is out of range", DATABASE),
            ("ERR invalid DB index", DATABASE),
            (
                "DENIED Redis is running in protected mode because protected mode is enabled",
                PROTECTED,
            ),
            ("NOPROTO sorry, this protocol version is not supported.", PROTOCOL),
            ("unsupported protocol version", PROTOCOL),
        ] {
            assert_eq!(hint(error), Some(expected), "{error}");
        }
    }

    #[test]
    fn credentials_of_sentinels_have_hints_of_their_own() {
        for (error, expected) in [
            ("NOAUTH Authentication required.", Some(SENTINEL_PASSWORD)),
            ("ERR Client sent AUTH, but no password is set", Some(SENTINEL_NO_PASSWORD)),
            ("NOPERM no", Some(RIGHTS)),
            ("LOADING", None),
        ] {
            let error = LinkError::not_sent(error).misconfigured(hint(error)).of_sentinels();
            assert_eq!(error.hint(), expected);
            assert!(error.to_string().starts_with("the sentinels: "), "{error}");
        }
    }

    #[test]
    fn transient_errors_have_no_hint() {
        for error in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "-OOM command not allowed when used memory > 'maxmemory'.",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "READONLY You can't write against a read only replica.",
            "ERR Error running script (call to f_4f): @user_script:9: -READONLY You can't write",
            "NOREPLICAS Not enough good replicas to write.",
            "LOADING Redis is loading the dataset in memory",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "UNKILLABLE Sorry the script already executed write commands",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "CLUSTERDOWN The cluster is down",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "ERR max number of clients reached",
            "NOSCRIPT No matching script. Please use EVAL.",
            "ERR Error running script",
            "MOVEDX",
            "",
        ] {
            assert_eq!(hint(error), None, "{error}");
        }
    }
}
