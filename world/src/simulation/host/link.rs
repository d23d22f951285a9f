//! The shipped store of a process, over connections to simulated servers.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use lockage::runtime::Runtime;
use lockage::store::Replicated;
use lockage::{Key, Store, StoreError};
use lockage_core::{AcquireAll, AcquireEach, AnyCommand, Command, Limit, OneOutcome};
use lockage_redis::{Connections, LuaStore, subscriptions};

use super::socket::Connection;
use super::{Host, Out, Ports, lock};
use crate::simulation::calls::{Calls, Tracked, Way};
use crate::simulation::plan::{Link, SERVERS};
use crate::simulation::wire::limiter_of_call;

/// The stores of a life, one for each server, and the record of their calls.
pub(super) struct Linked {
    stores: Vec<LuaStore<Connections<Connection>>>,
    calls: Calls,
    life: (usize, u32),
}

impl Linked {
    pub(super) fn new(
        link: Link,
        calls: &Calls,
        life: (usize, u32),
        ports: &Arc<std::sync::Mutex<Ports>>,
    ) -> Self {
        let ways = |server: usize| {
            let (ports, calls) = (Arc::downgrade(ports), calls.clone());
            move |sink| {
                let is_cluster = link.is_cluster && server == 0;
                Connection::connect(ports.clone(), calls.clone(), (server, is_cluster), sink)
            }
        };
        let store = |server: usize| {
            let connect = ways(server);
            let connect = move || connect(None);
            LuaStore::new(match link.is_cluster && server == 0 {
                true => Connections::of_cluster(connect),
                false => Connections::new(connect),
            })
        };
        let mut stores: Vec<_> = (0..SERVERS).map(store).collect();
        let listen = ways(0);
        let first = stores.remove(0).listening(subscriptions(move |sink| listen(Some(sink))));
        stores.insert(0, first);
        Linked { stores, calls: calls.clone(), life }
    }

    pub(super) fn store(&self, server: usize) -> &LuaStore<Connections<Connection>> {
        &self.stores[server]
    }
}

/// A call whose caller waits.
struct Called<'a> {
    host: &'a Host,
    calls: &'a Calls,
    number: u64,
    patience: Duration,
    is_over: bool,
}

impl<'a> Called<'a> {
    /// Begins a call, which callers of limiters may share or not.
    fn begin<'k, C: Command>(
        host: &'a Host,
        link: &'a Linked,
        each: impl Iterator<Item = (&'k Key, &'k C)>,
        (patience, is_shared): (Duration, bool),
    ) -> Self {
        let (node, life) = link.life;
        let all: Vec<_> = each
            .map(|(key, command)| (key.as_str().to_owned(), AnyCommand::new(command.clone())))
            .collect();
        let limiter = |(key, command): &(String, AnyCommand)| limiter_of_call(key, command);
        let limiters: Vec<_> = all.iter().filter_map(limiter).filter(|_| is_shared).collect();
        let way: Way = (node, life, host.server, all.len() > 1);
        let mut ports = host.ports();
        let number = link.calls.begin(way, all.into_iter(), ports.now_us);
        if !ports.is_dead {
            ports.out.push(Out::Called { limiters: limiters.clone() });
        }
        ports.called.insert(number, limiters);
        Called { host, calls: &link.calls, number, patience, is_over: false }
    }

    async fn track<F: Future>(&self, future: F) -> F::Output {
        Tracked { number: self.number, future: Box::pin(future) }.await
    }

    fn answered<T: 'static>(&mut self, index: usize, answer: &Result<T, StoreError>) {
        self.is_over = true;
        let answer = answer.as_ref().map(|outcome| outcome as &dyn Any);
        self.calls.answered((self.number, index), answer);
    }

    fn failed(&mut self, index: usize, error: &StoreError) {
        self.is_over = true;
        self.calls.answered((self.number, index), Err(error));
    }
}

impl Drop for Called<'_> {
    fn drop(&mut self) {
        let mut ports = lock(&self.host.ports);
        ports.called.remove(&self.number);
        let (now_us, is_dead) = (ports.now_us, ports.is_dead);
        drop(ports);
        let patience_us = u64::try_from(self.patience.as_micros()).unwrap_or(u64::MAX);
        if !is_dead {
            self.calls.ends(self.number, (!self.is_over).then_some(patience_us), now_us);
        }
    }
}

impl Linked {
    pub(super) async fn execute<C>(
        &self,
        host: &Host,
        key: &Key,
        command: &C,
        patience: Option<Duration>,
    ) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let each = std::iter::once((key, command));
        let mut called = Called::begin(host, self, each, (patience.unwrap_or(Duration::MAX), true));
        let store = self.store(host.server);
        let answer = match patience {
            Some(patience) => called.track(store.execute_within(key, command, patience)).await,
            None => called.track(store.execute(key, command)).await,
        };
        called.answered(0, &answer);
        answer
    }

    pub(super) async fn execute_batch<C>(
        &self,
        host: &Host,
        calls: &[(&Key, &C)],
        patience: Duration,
    ) -> Vec<Result<C::Outcome, StoreError>>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let mut called = Called::begin(host, self, calls.iter().copied(), (patience, true));
        let answers = called.track(self.store(host.server).execute_batch(calls, patience)).await;
        answers.iter().enumerate().for_each(|(index, answer)| called.answered(index, answer));
        answers
    }

    pub(super) async fn execute_all(
        &self,
        host: &Host,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        let each = keys.iter().zip(command.requests());
        let mut called = Called::begin(host, self, each, (patience, false));
        self.calls.are_together(called.number, command);
        let store = self.store(host.server);
        let answer = called.track(store.execute_all(keys, command, patience)).await;
        for index in 0..keys.len() {
            match &answer {
                Ok(decisions) => called.answered(index, &Ok(decisions[index].clone())),
                Err(error) => called.failed(index, error),
            }
        }
        answer
    }

    pub(super) async fn execute_acknowledged<C>(
        &self,
        host: &Host,
        key: &Key,
        command: &C,
        replicas: u32,
        patience: Duration,
    ) -> Result<(C::Outcome, u32), StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let each = std::iter::once((key, command));
        let mut called = Called::begin(host, self, each, (patience, true));
        let store = self.store(host.server);
        let call = store.execute_acknowledged(key, command, replicas, patience);
        match called.track(call).await {
            Ok((outcome, count)) => {
                self.calls.is_acknowledged(called.number, count);
                let outcome = Ok(outcome);
                called.answered(0, &outcome);
                outcome.map(|outcome| (outcome, count))
            }
            Err(error) => {
                let answer = Err::<C::Outcome, _>(error);
                called.answered(0, &answer);
                answer.map(|outcome| (outcome, 0))
            }
        }
    }
}

/// The number of keys in a sweep: more than one call takes of a log.
const KEYS: usize = 7;

impl Host {
    /// Calls many keys at once, with more costs than a call on the slow path takes. It alternates
    /// between two limits: values stored under one take the slow path for the other. It makes
    /// `rounds` rounds, with a pause of `every` after each.
    pub(in crate::simulation) async fn sweep(
        self,
        timeout: Duration,
        rounds: u64,
        every: Duration,
    ) {
        let limits: [Limit; 2] =
            ["sliding-log 900/s", "token-bucket 900/s"].map(|text| text.parse().expect("a limit"));
        let costs = 1 + super::Place::draw(&self, 9) as usize;
        let keys: Vec<Key> =
            (0..KEYS).map(|at| Key::new("sweep", &at.to_string()).expect("a key")).collect();
        for round in 0..rounds {
            let each: Vec<AcquireEach> = (0..KEYS)
                .map(|at| {
                    let limit = limits[usize::from(round % 2 == 1 && at % 2 == 0)];
                    AcquireEach::new(limit, vec![1 + at as u64 % 3; costs])
                        .expect("below the limit")
                })
                .collect();
            let calls: Vec<_> = keys.iter().zip(&each).collect();
            _ = Store::execute_batch(&self, &calls, timeout).await;
            self.sleep(every).await;
        }
    }
}
