//! The servers of a run, and the faults of the servers and of the processes that call them.

use std::fmt;
use std::time::Duration;

use lockage_world::simulation::Theme;
use rustix::process::Signal;

use super::Worker;
use super::worker::{Servers, Workload};
use crate::server::{Proxy, Sentinels, Server};

/// The trouble during a run, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// The server is killed and started with its keys.
    Restarted,
    /// It is killed, and started without its keys.
    Killed,
    /// It is stopped for longer than a lease.
    Paused,
    /// A process that wants and holds locks is stopped for longer than a lease.
    HolderPaused,
    /// Such a process is killed, and another one begins.
    HolderKilled,
    /// All connections are cut, a few times.
    Cut,
    /// Replies are lost and late, and connections are cut before and after requests.
    Lossy,
    /// The master is killed, and sentinels name another one.
    MasterKilled,
    /// Sentinels name another master on request, while the old one goes on.
    FailedOver,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Trouble; 10] = [
        Trouble::None,
        Trouble::HolderKilled,
        Trouble::HolderPaused,
        Trouble::Cut,
        Trouble::Lossy,
        Trouble::Paused,
        Trouble::Restarted,
        Trouble::Killed,
        Trouble::MasterKilled,
        Trouble::FailedOver,
    ];

    /// Returns whether the store keeps all that it has answered for.
    pub(super) fn keeps_grants(self) -> bool {
        !matches!(self, Trouble::Killed | Trouble::MasterKilled | Trouble::FailedOver)
    }

    /// Returns whether a history has all calls: a process that is killed writes down none that is under way.
    pub(super) fn keeps_history(self) -> bool {
        self != Trouble::HolderKilled
    }

    fn needs_proxy(self) -> bool {
        matches!(self, Trouble::Cut | Trouble::Lossy)
    }

    fn needs_sentinels(self) -> bool {
        matches!(self, Trouble::MasterKilled | Trouble::FailedOver)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trouble::None => "none",
            Trouble::Restarted => "server restarted with its keys",
            Trouble::Killed => "server killed (SIGKILL), keys lost",
            Trouble::Paused => "server stopped (SIGSTOP)",
            Trouble::HolderPaused => "client stopped (SIGSTOP)",
            Trouble::HolderKilled => "client killed (SIGKILL)",
            Trouble::Cut => "connections cut",
            Trouble::Lossy => "replies lost and late, requests cut",
            Trouble::MasterKilled => "failover: master killed",
            Trouble::FailedOver => "failover on request, two masters",
        })
    }
}

/// The servers of a run.
pub(super) struct Stage {
    one: Option<Server>,
    /// The way to that one, where it has trouble.
    proxy: Option<Proxy>,
    sentinels: Option<Sentinels>,
    pub(super) values: Server,
    /// The other servers of a quorum. They have no trouble.
    others: Vec<Server>,
}

impl Stage {
    pub(super) fn new(trouble: Trouble, workload: Workload) -> Self {
        let watched = trouble.needs_sentinels();
        let one = (!watched).then(Server::start);
        let sentinels = watched.then(Sentinels::start);
        let proxy = one.as_ref().filter(|_| trouble.needs_proxy());
        let proxy = proxy.map(|server| Proxy::start(server.port()));
        let has_quorum = workload == Workload::Programs(Theme::Quorum);
        let others = (0..if has_quorum { 2 } else { 0 }).map(|_| Server::start()).collect();
        Stage { one, proxy, sentinels, values: Server::start(), others }
    }

    pub(super) fn servers(&self) -> Servers {
        match (&self.one, &self.proxy, &self.sentinels) {
            (_, Some(proxy), _) => Servers::One(proxy.url()),
            (Some(server), ..) => Servers::One(server.url()),
            (.., Some(sentinels)) => Servers::Sentinels {
                urls: sentinels.sentinel_urls(),
                service: sentinels.service_name().to_owned(),
            },
            _ => unreachable!("there are locks"),
        }
    }

    pub(super) fn others(&self) -> Vec<Servers> {
        self.others.iter().map(|server| Servers::One(server.url())).collect()
    }

    /// Makes trouble once, and waits until it is over.
    pub(super) fn make(&mut self, trouble: Trouble, worker: &Worker, lease: Duration) {
        let longer = lease + lease / 2;
        if let Some(proxy) = &self.proxy {
            return disturb(proxy, trouble, lease);
        }
        match (trouble, &mut self.one, &mut self.sentinels) {
            (Trouble::Restarted, Some(server), _) => server.restart_with_keys(),
            (Trouble::Killed, Some(server), _) => {
                server.kill();
                std::thread::sleep(lease / 8);
                server.restart();
            }
            (Trouble::Paused, Some(server), _) => {
                server.freeze();
                std::thread::sleep(longer);
                server.thaw();
            }
            (Trouble::HolderPaused, ..) => {
                worker.signal(Signal::STOP);
                std::thread::sleep(longer);
                worker.signal(Signal::CONT);
            }
            (Trouble::MasterKilled, _, Some(sentinels)) => {
                let master = sentinels.master();
                sentinels.kill(master);
                sentinels.wait_for_failover();
                sentinels.restart(master);
            }
            (Trouble::FailedOver, _, Some(sentinels)) => {
                let master = sentinels.master();
                sentinels.fail_over();
                sentinels.wait_until_replica(master);
            }
            _ => unreachable!("each trouble has its servers"),
        }
    }
}

/// Makes trouble on the way to a server, for about a lease.
fn disturb(proxy: &Proxy, trouble: Trouble, lease: Duration) {
    let rest = lease / 10;
    for _ in 0..3 {
        if trouble == Trouble::Lossy {
            proxy.swallow_replies(3);
            std::thread::sleep(rest);
            proxy.cut_after_request(3);
            proxy.cut_before_request(3);
            proxy.delay_replies(rest / 2);
            std::thread::sleep(rest);
            proxy.delay_replies(Duration::ZERO);
        } else {
            proxy.disconnect();
        }
        std::thread::sleep(rest);
    }
}
