//! A master with two replicas that three sentinels watch.

use std::collections::HashMap;

use redis::{Connection, FromRedisValue};

use super::{Proxy, Server, Setup, program, until};

const SERVERS: usize = 3;
const SENTINELS: usize = 3;
const QUORUM: usize = 2;
const SERVICE: &str = "lockage";

/// A running service: server 0 starts as the master. Dropping it kills every server and sentinel.
///
/// Methods that change the service wait until a majority of the sentinels sees it, and panic when that takes
/// longer than 40 seconds.
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
    /// The master when it was last waited for.
    master: usize,
    /// Before server 0, or none.
    proxy: Option<Proxy>,
}

impl Sentinels {
    /// Starts three servers and three sentinels, and waits until all know each other.
    ///
    /// # Panics
    ///
    /// As [`Server::start`].
    pub fn start() -> Self {
        Self::launch(false)
    }

    /// Starts a service whose master stands behind a [`Proxy`]: the sentinels name the proxy, and replicas follow it.
    /// The sentinels take the master for down after a minute alone.
    ///
    /// # Panics
    ///
    /// As [`Server::start`].
    pub fn start_behind_a_proxy() -> Self {
        Self::launch(true)
    }

    fn launch(behind_proxy: bool) -> Self {
        let master = launch_server("");
        let proxy = behind_proxy.then(|| Proxy::start(master.port()));
        let port = proxy.as_ref().map_or(master.port(), Proxy::port).to_string();
        let mut servers = vec![master];
        for _ in 1..SERVERS {
            // In the file, where a sentinel can change it for good.
            servers.push(launch_server(&format!("replicaof 127.0.0.1 {port}\n")));
        }
        let down_after_ms = if behind_proxy { 60_000 } else { DOWN_AFTER_MS };
        let sentinels = (0..SENTINELS).map(|_| launch_sentinel(&port, down_after_ms)).collect();
        let service = Self { servers, sentinels, master: 0, proxy };
        service.wait_until_settled();
        service.servers[0].wait_for_replicas(SERVERS - 1);
        service
    }

    /// Returns the URL of each sentinel.
    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Server::url).collect()
    }

    /// Returns the name under which the sentinels know the master.
    pub fn service_name(&self) -> &str {
        SERVICE
    }

    /// Returns the servers that the sentinels watch, those that were killed among them.
    pub fn nodes(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the proxy before server 0.
    ///
    /// # Panics
    ///
    /// When the service was not started behind one.
    pub fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("it was started behind a proxy")
    }

    /// Returns the server that a majority of the sentinels names as the master.
    ///
    /// # Panics
    ///
    /// When they do not agree for long.
    pub fn master(&self) -> usize {
        until("a majority of the sentinels names a master", || self.named_master())
    }

    /// Returns a new blocking connection to a server.
    ///
    /// # Panics
    ///
    /// When it is down.
    pub fn connection(&self, index: usize) -> Connection {
        self.servers[index].connection()
    }

    /// Kills a server (SIGKILL). The sentinels notice after one and a half seconds.
    pub fn kill(&mut self, index: usize) {
        self.servers[index].kill();
    }

    /// Waits until the sentinels name another master than when the service started, or than they did
    /// after the last failover, and it is one.
    ///
    /// # Panics
    ///
    /// When that does not happen.
    pub fn wait_for_failover(&mut self) {
        let old = self.master;
        self.master = until(&format!("another server is master than {old}"), || {
            let named = self.named_master()?;
            if named == old {
                return Err("the sentinels name it still".to_owned());
            }
            match info(&mut self.connection(named), "role")?.as_str() {
                "master" => Ok(named),
                role => Err(format!("server {named} is a {role}")),
            }
        });
    }

    /// Makes another server the master: SENTINEL FAILOVER. The old one stays up, and goes on as a
    /// master until a sentinel demotes it, after about two seconds (ten before Redis 7.0).
    ///
    /// # Panics
    ///
    /// When that does not happen.
    pub fn fail_over(&mut self) {
        // A sentinel that has not finished an earlier failover can give this one up.
        self.wait_until_settled();
        self.master = self.master();
        until("a sentinel begins a failover", || {
            // Right after an earlier one, it knows of no good replica yet.
            ask::<()>(&self.sentinels[0], "FAILOVER")
        });
        self.wait_for_failover();
    }

    /// Waits until a former master has become a replica.
    ///
    /// # Panics
    ///
    /// When that does not happen.
    pub fn wait_until_replica(&self, index: usize) {
        until(&format!("server {index} is a replica"), || {
            match info(&mut self.connection(index), "role")?.as_str() {
                "slave" => Ok(()),
                role => Err(format!("it is a {role}")),
            }
        });
    }

    /// Starts a killed server again on the same port and waits until the service is whole: a former
    /// master has become a replica. That takes about five seconds, and twenty before Redis 7.0.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub fn restart(&mut self, index: usize) {
        self.servers[index].restart();
        self.wait_until_settled();
        self.master = self.master();
    }

    /// Restarts a live server on the same port, with its keys: too fast for the sentinels.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub fn restart_with_keys(&mut self, index: usize) {
        self.servers[index].restart_with_keys();
    }

    /// Returns the port at which the others find a server.
    fn port(&self, index: usize) -> u16 {
        let proxy = self.proxy.as_ref().filter(|_| index == 0);
        proxy.map_or(self.servers[index].port(), Proxy::port)
    }

    fn wait_until_settled(&self) {
        until("all sentinels know all servers and each other", || self.check());
    }

    /// Checks that every sentinel sees the same master, all others, and nothing wrong with any.
    fn check(&self) -> Result<(), String> {
        let master = self.named_master()?;
        let port = self.port(master).to_string();
        for own in &self.sentinels {
            let seen: HashMap<String, String> = ask(own, "MASTER")?;
            let expected = [
                ("port", port.clone()),
                ("flags", "master".to_owned()),
                ("num-slaves", (SERVERS - 1).to_string()),
                ("num-other-sentinels", (SENTINELS - 1).to_string()),
            ];
            if expected.iter().any(|(field, value)| seen.get(*field) != Some(value)) {
                return Err(format!("a sentinel says {seen:?}"));
            }
            let replicas: Vec<HashMap<String, String>> = ask(own, "REPLICAS")?;
            let expected = [("flags", "slave"), ("master-link-status", "ok")];
            for replica in replicas {
                let is = |(field, value): &(&str, &str)| replica[*field] == *value;
                if !expected.iter().all(is) || replica["master-port"] != port {
                    return Err(format!("a sentinel says {replica:?}"));
                }
            }
            let others: Vec<HashMap<String, String>> = ask(own, "SENTINELS")?;
            // That one of them has found a master to be down is not forgotten on every server.
            let well = ["sentinel", "sentinel,master_down"];
            if others.iter().any(|other| !well.contains(&other["flags"].as_str())) {
                return Err(format!("a sentinel says {others:?}"));
            }
        }
        for (index, server) in self.servers.iter().enumerate().filter(|(index, _)| *index != master)
        {
            // The sentinels' knowledge of it may be a second old.
            let status = info(&mut server.connection(), "master_link_status")?;
            if status != "up" || info(&mut server.connection(), "master_port")? != port {
                return Err(format!("server {index} is {status}"));
            }
        }
        Ok(())
    }

    fn named_master(&self) -> Result<usize, String> {
        let mut named = Vec::new();
        for own in &self.sentinels {
            let (_, port): (String, u16) = ask(own, "GET-MASTER-ADDR-BY-NAME")?;
            named.push((0..SERVERS).find(|index| self.port(*index) == port));
        }
        let votes = |index: &usize| named.iter().filter(|name| **name == Some(*index)).count();
        (0..SERVERS).find(|index| votes(index) >= QUORUM).ok_or(format!("they name {named:?}"))
    }
}

fn launch_server(file: &str) -> Server {
    let options = &["--repl-diskless-sync-delay", "0"];
    Server::launch(Setup { file, options, ..Setup::default() })
}

/// Longer than the second between two pings, or a server whose role has just changed is taken for down.
const DOWN_AFTER_MS: u32 = 1500;

fn launch_sentinel(master_port: &str, down_after_ms: u32) -> Server {
    let file = &format!(
        "sentinel monitor {SERVICE} 127.0.0.1 {master_port} {QUORUM}\n\
         sentinel down-after-milliseconds {SERVICE} {down_after_ms}\n\
         sentinel failover-timeout {SERVICE} 3000\n"
    );
    let server = Server::launch(Setup { file, options: &["--sentinel"], ..Setup::default() });
    if program::major_version() >= 7 {
        // A new sentinel and a change of roles are otherwise known after up to ten seconds.
        let periods = ("DEBUG", "PUBLISH-PERIOD", 500, "INFO-PERIOD", 500);
        redis::cmd("SENTINEL").arg(periods).exec(&mut server.connection()).expect("since 7.0");
    }
    server
}

fn ask<T: FromRedisValue>(of: &Server, command: &str) -> Result<T, String> {
    redis::cmd("SENTINEL")
        .arg(command)
        .arg(SERVICE)
        .query(&mut of.connection())
        .map_err(|error| error.to_string())
}

/// Returns a field of INFO replication.
fn info(connection: &mut Connection, field: &str) -> Result<String, String> {
    let info: String = redis::cmd("INFO")
        .arg("replication")
        .query(connection)
        .map_err(|error| error.to_string())?;
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    let value = fields.find(|(name, _)| *name == field).map(|(_, value)| value.to_owned());
    value.ok_or_else(|| format!("no {field} in {info}"))
}
