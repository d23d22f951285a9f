//! Subscriptions of a process to the simulated store.

use std::sync::{Arc, Mutex, Weak};

use lockage::notifications::{Subscriber, Subscribing, SubscriptionSink, SubscriptionSinks};

use super::waits::send;
use super::{Out, Ports, lock};

/// The subscriptions of a life: on one connection at a time.
pub(super) struct Connection {
    pub(super) ports: Weak<Mutex<Ports>>,
    pub(super) sinks: SubscriptionSinks,
    pub(super) sink: Arc<Mutex<Option<SubscriptionSink>>>,
}

impl Subscriber for Connection {
    fn subscribe(&self, channel: &str) -> Subscribing {
        let Some(ports) = self.ports.upgrade() else { return Box::pin(std::future::pending()) };
        let (sinks, sink, channel) = (self.sinks.clone(), self.sink.clone(), channel.to_owned());
        Box::pin(async move {
            // The caller has locked the channels.
            let is_open = lock(&sink).as_ref().is_some_and(|sink| !sink.has_ended());
            if !is_open {
                *lock(&sink) = Some(sinks.open());
            }
            let connects = !is_open;
            let told = send(&ports, |call| Out::Subscribe { call, channel, connects }).await;
            told.map(drop).map_err(|error| Arc::new(error) as _)
        })
    }

    fn unsubscribe(&self, channel: &str) {
        let Some(ports) = self.ports.upgrade() else { return };
        let mut ports = lock(&ports);
        let (number, channel) = (ports.number(), channel.to_owned());
        if !ports.is_dead {
            ports.out.push(Out::Unsubscribe { number, channel });
        }
    }
}
