//! A cluster of three masters with a replica each.

use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue, RedisResult};

use super::topology::{Node, roles};
use super::{Proxy, Server, Setup, until};
use lockage_suite::ports::{BUS_OFFSET, on_free_port};

const MASTERS: usize = 3;
const SLOTS: usize = 16_384;

// Options that shorten waits of the tests; all else is as for users, so that an uncovered slot, say, makes the
// whole cluster say CLUSTERDOWN.
const OPTIONS: [&str; 8] = [
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "1000",
    "--cluster-replica-validity-factor",
    "0",
    "--repl-diskless-sync-delay",
    "0",
];

/// The time for which a node goes on trying a manual failover.
const FAILOVER_ATTEMPT: Duration = Duration::from_secs(2);

/// A running cluster: nodes 0 to 2 start as masters, node `n + 3` as the replica of node `n`. Dropping it kills
/// every node.
///
/// Methods that change the cluster wait until every live node sees it, and panic when that takes longer than 40
/// seconds.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    /// One for each node, or none.
    proxies: Vec<Proxy>,
    ids: Vec<String>,
    up: Vec<bool>,
}

impl Cluster {
    /// Starts a cluster and waits until every node agrees that it is up.
    ///
    /// # Panics
    ///
    /// As [`Server::start`].
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a cluster whose nodes have these options as well (`&["--maxmemory", "1mb"]`).
    ///
    /// # Panics
    ///
    /// As [`Server::start`].
    pub fn start_with(options: &[&str]) -> Self {
        Self::launch(options, false)
    }

    /// Starts a cluster with a [`Proxy`] before each node. The nodes announce the ports of the
    /// proxies, so that clients that learn which node has which slots go through them. The nodes' own
    /// traffic, on the bus and in replication, knows no faults.
    ///
    /// # Panics
    ///
    /// As [`Server::start`].
    pub fn start_behind_proxies() -> Self {
        Self::launch(&[], true)
    }

    /// Returns the URL of each node that a client is given: of its proxy, if it has one.
    pub fn urls(&self) -> Vec<String> {
        match self.proxies.is_empty() {
            true => self.nodes.iter().map(Server::url).collect(),
            false => self.proxies.iter().map(Proxy::url).collect(),
        }
    }

    /// Returns the servers, those that were killed among them.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Returns the proxy before a node.
    ///
    /// # Panics
    ///
    /// When the cluster was not started behind proxies.
    pub fn proxy(&self, index: usize) -> &Proxy {
        &self.proxies[index]
    }

    /// Returns a new blocking connection to a node, past its proxy.
    ///
    /// # Panics
    ///
    /// When the node is down.
    pub fn connection(&self, index: usize) -> Connection {
        self.nodes[index].connection()
    }

    /// Returns how many scripts the live nodes have executed, see [`Server::executions`].
    pub fn executions(&self) -> u64 {
        self.live().map(|index| self.nodes[index].executions()).sum()
    }

    /// Returns the node that has the slot of `key`.
    ///
    /// # Panics
    ///
    /// When no live node has it.
    pub fn master_of(&self, key: &str) -> usize {
        let slot = self.slot_of(key);
        let nodes = self.nodes_seen_by(self.first_live());
        let master = nodes.iter().find(|node| node.has(slot)).expect("every slot has a master");
        self.index_of(&master.id)
    }

    /// Kills a node (SIGKILL). The others notice after about a second.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].kill();
        self.up[index] = false;
    }

    /// Stops a node (SIGSTOP): like [`kill`](Self::kill), but it comes back as it was, see
    /// [`Server::freeze`].
    ///
    /// # Panics
    ///
    /// When the node is down.
    pub fn freeze(&mut self, index: usize) {
        self.nodes[index].freeze();
        self.up[index] = false;
    }

    /// Lets a frozen node go on, and does not wait: until it hears of a failover, it may go on as a
    /// master too.
    ///
    /// # Panics
    ///
    /// When the node is down.
    pub fn thaw(&mut self, index: usize) {
        self.nodes[index].thaw();
        self.up[index] = true;
    }

    /// Waits until another node has the slots of a master that was killed or frozen.
    ///
    /// # Panics
    ///
    /// When that does not happen.
    pub fn wait_for_failover_of(&self, index: usize) {
        until(&format!("another node has the slots of node {index}"), || {
            let nodes = self.nodes_seen_by(self.first_live());
            if nodes.iter().any(|node| node.id == self.ids[index] && node.has_slots()) {
                return Err("it still has them".to_owned());
            }
            self.check()
        });
    }

    /// Makes a replica of the master of `key` master in its place, without a loss: CLUSTER FAILOVER.
    ///
    /// # Panics
    ///
    /// When the master has no live replica.
    pub fn fail_over(&self, key: &str) {
        self.wait_until_settled();
        let slot = self.slot_of(key);
        let old = self.master_of(key);
        let nodes = self.nodes_seen_by(old);
        let replica = self
            .live()
            .find(|index| {
                nodes.iter().any(|n| n.id == self.ids[*index] && n.is_replica_of(&self.ids[old]))
            })
            .unwrap_or_else(|| panic!("node {old} has no live replica"));
        let mut asked: Option<Instant> = None;
        until(&format!("node {replica} has the slots of node {old}"), || {
            let nodes = self.nodes_seen_by(replica);
            if nodes.iter().any(|node| node.id == self.ids[replica] && node.has(slot)) {
                return self.check();
            }
            // The others may refuse it a vote so soon after an earlier failover.
            if asked.is_none_or(|asked| asked.elapsed() > FAILOVER_ATTEMPT) {
                self.cluster::<()>(replica, &["FAILOVER"]).map_err(|error| error.to_string())?;
                asked = Some(Instant::now());
            }
            Err("it was asked to".to_owned())
        });
    }

    /// Starts a killed node again on the same port and waits until it has rejoined: as a replica, if
    /// another node has its slots by now. Its keys are those of its master then, and gone otherwise.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub fn restart(&mut self, index: usize) {
        self.nodes[index].restart();
        self.up[index] = true;
        self.wait_until_settled();
    }

    /// Restarts a live master on the same port, with its keys and slots, and waits until it has rejoined.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub fn restart_with_keys(&mut self, index: usize) {
        self.nodes[index].restart_with_keys();
        self.wait_until_settled();
    }

    /// Begins to move the slot of `key` to another master. From now on its master says ASK for keys
    /// that it does not have.
    ///
    /// # Panics
    ///
    /// When `to` is no other master.
    pub fn begin_migration(&self, key: &str, to: usize) {
        self.wait_until_settled();
        let (slot, from) = (self.slot_of(key).to_string(), self.master_of(key));
        let (from_id, to_id) = (&self.ids[from], &self.ids[to]);
        self.cluster::<()>(to, &["SETSLOT", &slot, "IMPORTING", from_id])
            .expect("a master imports slots of others");
        self.cluster::<()>(from, &["SETSLOT", &slot, "MIGRATING", to_id])
            .expect("a master gives away its own slots");
    }

    /// Moves every key of the slot of `key` that is there, and returns their number.
    ///
    /// # Panics
    ///
    /// When no migration of the slot has begun.
    pub fn move_keys(&self, key: &str) -> usize {
        let (slot, from, to) = self.migration_of(key);
        let mut connection = self.connection(from);
        let slot = slot.to_string();
        let mut moved = 0;
        loop {
            let keys: Vec<Vec<u8>> =
                self.cluster(from, &["GETKEYSINSLOT", &slot, "100"]).expect("the node is up");
            if keys.is_empty() {
                return moved;
            }
            moved += keys.len();
            redis::cmd("MIGRATE")
                .arg(("127.0.0.1", self.nodes[to].port(), "", 0, 5000, "KEYS"))
                .arg(keys)
                .exec(&mut connection)
                .expect("a node takes the keys of a slot that it imports");
        }
    }

    /// Ends the migration of the slot of `key`: every node knows its new master.
    ///
    /// # Panics
    ///
    /// When no migration of the slot has begun, or keys are left where they were.
    pub fn end_migration(&self, key: &str) {
        let (slot, from, to) = self.migration_of(key);
        // The new master first: the slot is never without one.
        for index in [to, from] {
            self.cluster::<()>(index, &["SETSLOT", &slot.to_string(), "NODE", &self.ids[to]])
                .expect("no key is left at the old master");
        }
        until(&format!("node {to} has slot {slot}"), || {
            let nodes = self.nodes_seen_by(self.first_live());
            if !nodes.iter().any(|node| node.id == self.ids[to] && node.has(slot)) {
                return Err("it has not".to_owned());
            }
            self.check()
        });
    }

    fn launch(options: &[&str], behind_proxies: bool) -> Self {
        let options = [&OPTIONS, options].concat();
        let mut cluster = Self { nodes: vec![], proxies: vec![], ids: vec![], up: vec![] };
        for _ in 0..2 * MASTERS {
            let (node, proxy) = launch_node(&options, behind_proxies);
            cluster.nodes.push(node);
            cluster.proxies.extend(proxy);
            cluster.up.push(true);
        }
        cluster.ids = (0..cluster.nodes.len())
            .map(|index| cluster.cluster(index, &["MYID"]).expect("the node is up"))
            .collect();
        cluster.join();
        cluster.nodes[..MASTERS].iter().for_each(|master| master.wait_for_replicas(1));
        cluster
    }

    fn join(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            let epoch = (index + 1).to_string();
            self.cluster::<()>(index, &["SET-CONFIG-EPOCH", &epoch]).expect("the node is new");
            let port = self.proxies.get(index).map_or(node.port(), Proxy::port).to_string();
            let bus_port = (node.port() + BUS_OFFSET).to_string();
            // All of them, since hearsay takes seconds.
            for other in 0..index {
                self.cluster::<()>(other, &["MEET", "127.0.0.1", &port, &bus_port])
                    .expect("an address is an address");
            }
        }
        for master in 0..MASTERS {
            let slots = master * SLOTS / MASTERS..(master + 1) * SLOTS / MASTERS;
            redis::cmd("CLUSTER")
                .arg("ADDSLOTS")
                .arg(slots.collect::<Vec<_>>())
                .exec(&mut self.connection(master))
                .expect("every slot is free");
        }
        for master in 0..MASTERS {
            until(&format!("node {} knows its master", master + MASTERS), || {
                self.cluster::<()>(master + MASTERS, &["REPLICATE", &self.ids[master]])
                    .map_err(|error| error.to_string())
            });
        }
        self.wait_until_settled();
    }

    fn wait_until_settled(&self) {
        until("every node agrees that the cluster is up", || self.check());
    }

    /// Checks that all live nodes see each other, agree on the owner of each slot, and have their data.
    fn check(&self) -> Result<(), String> {
        let agreed = self.nodes_seen_by(self.first_live());
        for index in self.live() {
            let info: String = self.cluster(index, &["INFO"]).expect("the node is up");
            let nodes = self.nodes_seen_by(index);
            let reached = self.live().all(|other| {
                nodes.iter().any(|node| node.id == self.ids[other] && node.is_reached())
            });
            if !info.contains("cluster_state:ok") || !reached || roles(&nodes) != roles(&agreed) {
                return Err(format!("node {index} says {info}{nodes:#?}"));
            }
            let is_master = |node: &Node| node.id == self.ids[index] && node.is_master();
            let replication: String = redis::cmd("INFO")
                .arg("replication")
                .query(&mut self.connection(index))
                .expect("the node is up");
            if !nodes.iter().any(is_master) && !replication.contains("master_link_status:up") {
                return Err(format!("node {index} says {replication}"));
            }
        }
        Ok(())
    }

    fn migration_of(&self, key: &str) -> (u16, usize, usize) {
        let (slot, from) = (self.slot_of(key), self.master_of(key));
        let to = self.nodes_seen_by(from).into_iter().flat_map(|node| node.migrating);
        let (_, to) = to
            .into_iter()
            .find(|(migrating, _)| *migrating == slot)
            .unwrap_or_else(|| panic!("no migration of slot {slot} has begun"));
        (slot, from, self.index_of(&to))
    }

    fn slot_of(&self, key: &str) -> u16 {
        self.cluster(self.first_live(), &["KEYSLOT", key]).expect("the node is up")
    }

    fn nodes_seen_by(&self, index: usize) -> Vec<Node> {
        let text: String = self.cluster(index, &["NODES"]).expect("the node is up");
        Node::read_all(&text)
    }

    fn cluster<T: FromRedisValue>(&self, index: usize, words: &[&str]) -> RedisResult<T> {
        redis::cmd("CLUSTER").arg(words).query(&mut self.connection(index))
    }

    fn index_of(&self, id: &str) -> usize {
        let index = self.ids.iter().position(|own| own == id);
        index.expect("the cluster has no other nodes than these")
    }

    fn live(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|index| self.up[*index])
    }

    fn first_live(&self) -> usize {
        self.live().next().expect("a node is up")
    }
}

fn launch_node(options: &[&str], behind_proxy: bool) -> (Server, Option<Proxy>) {
    on_free_port(|port| {
        let proxy = behind_proxy.then(|| Proxy::start(port));
        // Every version allows to announce the bus where it is anyway.
        let announced = proxy.as_ref().map_or(port, Proxy::port).to_string();
        let bus = (port + BUS_OFFSET).to_string();
        let announcement = [
            "--cluster-announce-ip",
            "127.0.0.1",
            "--cluster-announce-port",
            &announced,
            "--cluster-announce-bus-port",
            &bus,
        ];
        let options = [options, &announcement].concat();
        let node = Server::try_launch(Setup { options: &options, ..Setup::default() }, port)?;
        Some((node, proxy))
    })
}
