//! Connections and checks that come when their caller has given up.

use super::*;

/// A connection that comes when its caller has given up carries nothing, nor does one that never comes.
#[test]
fn a_call_that_has_no_connection_in_time_is_not_sent() {
    let spans = [20_000, 400].map(Duration::from_micros);
    for (comes, patience) in [true, false].into_iter().flat_map(|it| spans.map(|span| (it, span))) {
        let begun = Instant::now();
        simulate_time(Some(begun));
        let reconnecting = Reconnecting::<u32>::new(move || {
            std::future::poll_fn(move |_| match comes && now() > begun {
                true => Poll::Ready(Ok(1)),
                false => Poll::Pending,
            })
        });
        let ping = ping().by(Some(begun + patience));
        let mut call = Box::pin(reconnecting.with(&ping, async |_| panic!("it is sent")));
        let mut poll = || {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let polled: Poll<Result<(), LinkError>> = call.poll_unpin(&mut context);
            polled
        };
        assert!(poll().is_pending());
        simulate_time(Some(begun + patience));
        let Poll::Ready(Err(error)) = poll() else { panic!("its caller has given up") };
        assert!(!error.was_sent(), "{error:?}");
        simulate_time(None);
    }
}

/// Callers that are not polled until their time is over, one after the other: the first check is enough for all.
#[test]
fn a_check_that_passes_too_late_for_its_caller_is_no_doubt() {
    #[derive(Clone)]
    struct Slow(u32);
    impl Link for Slow {
        async fn send(&self, _request: &Request<'_>) -> Result<Reply, LinkError> {
            let sent = now();
            let reply =
                std::future::poll_fn(
                    |_| if now() > sent { Poll::Ready(()) } else { Poll::Pending },
                );
            reply.await;
            Ok(Reply::Integer(self.0.into()))
        }
    }
    let (begun, patience) = (Instant::now(), Duration::from_millis(100));
    simulate_time(Some(begun));
    let count = AtomicU32::new(0);
    let reconnecting = Reconnecting::new(move || {
        std::future::ready(Ok(Slow(count.fetch_add(1, Ordering::Relaxed))))
    });
    let mut time = begun;
    let mut ask = |pause: Duration| {
        time += pause;
        simulate_time(Some(time));
        let ping = ping().by(Some(time + patience));
        let mut call = Box::pin(reconnecting.send(&ping));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(call.poll_unpin(&mut context).is_pending());
        time += patience;
        simulate_time(Some(time));
        match call.poll_unpin(&mut context) {
            Poll::Ready(result) => result.map_err(|error| error.was_sent()),
            Poll::Pending => Err(true),
        }
    };
    assert_eq!(ask(Duration::ZERO), Ok(Reply::Integer(0)));
    for doubts in [0, 0, 1] {
        reconnecting.state().doubts = doubts;
        // It was idle, for longer than the shortest age of one that is replaced.
        assert_eq!(ask(2 * AGE), Err(false));
        assert_eq!(ask(Duration::ZERO), Ok(Reply::Integer(0)));
    }
    simulate_time(None);
}

/// A connection that is made after this time.
fn made_after(begun: Instant) -> (Reconnecting<Tested>, Arc<Behaviour>) {
    let behaviour = Arc::<Behaviour>::default();
    let of = Arc::clone(&behaviour);
    let reconnecting = Reconnecting::new(move || {
        let made = Tested(1, Arc::clone(&of));
        std::future::poll_fn(move |_| match now() > begun {
            true => Poll::Ready(Ok(made.clone())),
            false => Poll::Pending,
        })
    });
    (reconnecting, behaviour)
}

/// A caller that is not polled until its time is over has sent nothing, so it shows nothing of the connection.
#[test]
fn a_call_that_comes_too_late_is_no_use() {
    let begun = Instant::now();
    simulate_time(Some(begun));
    let all = made_after(begun);
    let ping = ping().by(Some(begun + IDLE / 2));
    let mut late = Box::pin(all.0.with(&ping, async |_| panic!("it is sent")));
    let mut poll = || -> Poll<Result<(), LinkError>> {
        late.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    };
    assert!(poll().is_pending(), "it waits for a connection");
    simulate_time(Some(begun + Duration::from_millis(1)));
    assert_eq!(sent(&all, Health::Good), (1, 0));
    simulate_time(Some(begun + IDLE));
    let Poll::Ready(Err(error)) = poll() else { panic!("its time is over") };
    assert!(!error.was_sent(), "{error:?}");
    simulate_time(Some(begun + IDLE + Duration::from_millis(1)));
    assert_eq!(sent(&all, Health::Good), (1, 1), "the connection has been idle");
    simulate_time(None);
}

/// It has waited for the connection, and was not polled until its time was over.
#[test]
fn a_connection_that_comes_too_late_for_one_call_needs_no_check_for_the_next() {
    let begun = Instant::now();
    simulate_time(Some(begun));
    let all = made_after(begun);
    let ping = ping().by(Some(begun + IDLE / 2));
    let mut late = Box::pin(all.0.with(&ping, async |_| ((), Health::Good)));
    let mut poll = || {
        late.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop()))
            .map(|it| it.map_err(|error| error.was_sent()))
    };
    assert!(poll().is_pending());
    simulate_time(Some(begun + IDLE / 2));
    assert_eq!(poll(), Poll::Ready(Err(false)));
    assert_eq!(sent(&all, Health::Good), (1, 0));
    simulate_time(None);
}

/// The error of a check is reported also to a call that is not polled until its time is over.
#[test]
fn a_check_that_fails_too_late_has_its_own_error() {
    let begun = Instant::now();
    simulate_time(Some(begun));
    let ping = ping().by(Some(begun + IDLE));
    let needed = std::future::poll_fn(|_| match now() > begun {
        true => Poll::Ready(Err::<(), _>(LinkError::not_sent("broken pipe"))),
        false => Poll::Pending,
    });
    let mut late = Box::pin(before_sending(&ping, needed));
    let mut poll =
        || late.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(poll().is_pending());
    simulate_time(Some(begun + IDLE));
    let Poll::Ready(Err(error)) = poll() else { panic!("its time is over") };
    assert_eq!((error.to_string().as_str(), error.health()), ("broken pipe", Health::Lost));
    simulate_time(None);
}
