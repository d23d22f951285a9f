//! The place of programs in a simulated process.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use lockage::Locks;
use lockage_core::Timestamp;

use super::{FIRST_US, Host, Out};
use crate::simulation::judge::Seen;
use crate::simulation::place::Place;
use crate::simulation::store::BEGINNING_US;

impl Place for Host {
    type Store = Host;
    type Runtime = Host;

    fn store(&self) -> Host {
        self.clone()
    }

    fn runtime(&self) -> Host {
        self.clone()
    }

    fn saw(&self, seen: Seen) {
        let mut ports = self.ports();
        let (polled_us, executor) = (ports.polled_us, ports.executor);
        ports.out.push(Out::Saw { seen, polled_us, executor });
    }

    fn draw(&self, most: u64) -> u64 {
        self.ports().draw.between(0, most)
    }

    fn now_us(&self) -> u64 {
        self.ports().now_us
    }

    fn true_us_in(&self, duration: Duration) -> u64 {
        self.ports().true_us_in(duration)
    }

    fn clock_us(&self) -> u64 {
        self.ports().clock().as_micros() as u64 // far below 2^63
    }

    fn time_of_day(&self) -> Timestamp {
        let now_us = BEGINNING_US + self.clock_us() - FIRST_US;
        Timestamp::from_micros(now_us).expect("some days after 2025")
    }

    fn move_to(&self, runtime: u64) -> impl Future<Output = ()> + Send {
        let mut has_moved = false;
        poll_fn(move |context| {
            if std::mem::replace(&mut has_moved, true) {
                return Poll::Ready(());
            }
            self.ports().moves_to = Some(runtime);
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    fn server(&self, server: usize) -> Host {
        Host { server, ..self.clone() }
    }

    fn replicated(&self, locks: Locks<Host, Host>) -> Locks<Host, Host> {
        locks.with_replicas(1)
    }
}
