//! Locks of ids, on a fixed number of stripes.

use std::collections::BTreeSet;

use lockage::Error;
use lockage::locks::StripedLocks;
use lockage::store::lock::Stripes;
use lockage::store::{ConfigError, KeyError};

use super::*;

fn accounts(stripes: u32) -> (StripedLocks<Memory, Tokio>, Memory) {
    let (locks, store) = locks();
    (locks.striped("accounts", stripes).unwrap(), store)
}

/// L13: ids of one stripe exclude each other, those of others do not, and a lock of this name elsewhere is the same one.
#[tokio::test(start_paused = true)]
async fn l13_ids_of_one_stripe_exclude_each_other() {
    let (locks, store) = locks();
    let accounts = locks.striped("accounts", 8).unwrap();
    let stripe = accounts.stripe_of("user:42");
    let ids: Vec<String> = (0..200).map(|number| format!("user:{number}")).collect();
    let (same, others): (Vec<_>, Vec<_>) =
        ids.iter().partition(|id| accounts.stripe_of(id) == stripe);
    assert!(same.len() > 10 && others.len() > 100);

    let guard = accounts.lock("user:42").unwrap().acquire().await.unwrap();
    let elsewhere = Locks::new(RetryStore::new(store, Tokio, SECOND), LEASE).unwrap();
    let named = elsewhere.lock(&format!("accounts#{stripe}/8")).unwrap().try_acquire().await;
    let elsewhere = elsewhere.striped("accounts", 8).unwrap();
    let mut busy = vec![named.unwrap()];
    for id in same {
        busy.push(elsewhere.lock(id).unwrap().try_acquire().await.unwrap());
    }
    for refused in busy {
        assert!(matches!(refused, TryLock::Busy(Busy::Held(it)) if it.owner == guard.owner()));
    }
    for id in others {
        drop(taken(elsewhere.lock(id).unwrap().try_acquire().await.unwrap()));
        sleep(MILLI).await;
    }
    // One stripe less, and it is another lock.
    drop(taken(
        locks.striped("accounts", 7).unwrap().lock("user:42").unwrap().try_acquire().await.unwrap(),
    ));
}

#[tokio::test(start_paused = true)]
async fn invalid_stripes_are_refused() {
    let (locks, store) = locks();
    for (name, stripes) in [("accounts", 0), ("accounts", 65_537)] {
        let refused = locks.striped(name, stripes);
        assert!(matches!(
            refused,
            Err(Error::Config(ConfigError::Zero { .. } | ConfigError::TooLarge { .. }))
        ));
    }
    assert!(matches!(locks.striped("", 8), Err(Error::Key(KeyError::EmptyId))));
    assert!(matches!(locks.striped("}", 8), Err(Error::Key(KeyError::BraceFirstInId))));
    let accounts = locks.striped("accounts", 1).unwrap();
    assert!(matches!(accounts.lock(""), Err(KeyError::EmptyId)));
    assert!(matches!(accounts.many(["a", ""]), Err(KeyError::EmptyId)));
    assert_eq!(store.calls(), 0);
}

/// Each stripe is held once, whichever ids are of it, and given back.
#[tokio::test(start_paused = true)]
async fn many_ids_are_held_by_their_stripes() {
    let (accounts, _) = accounts(4);
    let ids: Vec<String> = (0..40).map(|number| format!("user:{number}")).collect();
    let many = accounts.many(ids.iter().map(String::as_str)).unwrap();
    let guard = many.acquire().await.unwrap();
    for id in &ids {
        let held = guard.of(&accounts.lock_name(id)).unwrap().token();
        let refused = accounts.lock(id).unwrap().try_acquire().await.unwrap();
        assert!(matches!(refused, TryLock::Busy(Busy::Held(it)) if it.hold.token == held));
    }
    let released = guard.release().await.unwrap();
    let names: Vec<&str> = released.keys().map(|name| &**name).collect();
    assert_eq!(names, ["accounts#0/4", "accounts#1/4", "accounts#2/4", "accounts#3/4"]);
    assert!(released.into_values().all(|released| released == Released::Free));
}

/// L13: the stripe of an id follows its definition, and stripes are taken in the order of their names, whatever
/// the order of the ids.
#[test]
fn l13_stripes_are_stable_and_in_one_order() {
    let ids = prop::collection::vec(("\\PC{1,20}", any::<u64>()), 1..12);
    property("l13_stripes", cases(500), &(ids, 1..=65_536_u32), |(mut ids, count)| {
        let store = RetryStore::new(MemoryStore::new(), Tokio, SECOND);
        let locks = Locks::new(store, LEASE).unwrap();
        let accounts = locks.striped("accounts", count).unwrap();
        let mut names = BTreeSet::new();
        for (id, _) in &ids {
            // FNV-1a in whole numbers that do not overflow.
            let hash = id.bytes().fold(14_695_981_039_346_656_037_u128, |hash, byte| {
                (hash ^ u128::from(byte)) * 1_099_511_628_211 % (1 << 64)
            });
            let stripe = (((hash >> 32) ^ (hash % (1 << 32))) % u128::from(count)) as u32;
            require(accounts.stripe_of(id) == stripe, || format!("{id:?} is not of {stripe}"))?;
            require(Stripes::new(count).unwrap().of(id) == stripe, || format!("{id:?}"))?;
            names.insert(format!("accounts#{stripe}/{count}"));
        }
        let order = |ids: &[(String, u64)]| {
            let many = accounts.many(ids.iter().map(|(id, _)| id.as_str())).unwrap();
            format!("{many:?}")
        };
        let first = order(&ids);
        let mut rest = first.as_str();
        for name in &names {
            let Some((_, after)) = rest.split_once(&format!("{name:?}")) else {
                return require(false, || format!("{name} is not in its place: {first}"));
            };
            rest = after;
        }
        ids.sort_by_key(|(_, place)| *place);
        require(order(&ids) == first, || format!("{ids:?} are in another order"))
    });
}

/// L13: tasks that take overlapping sets never wait for each other for ever, and never hold a stripe together: also where
/// some give up, are dropped, or take single ids.
#[tokio::test(start_paused = true)]
async fn l13_overlapping_sets_neither_block_nor_overlap() {
    for (seed, stripes) in [1, 2, 5, 16, 64, 5, 16, 2].into_iter().enumerate() {
        let (accounts, _) = accounts(stripes);
        let held: Arc<Mutex<Vec<u32>>> = Arc::default();
        let mut all = JoinSet::new();
        for task in 0..12 {
            let (accounts, held) = (accounts.clone(), Arc::clone(&held));
            let mut chance = fastrand::Rng::with_seed((seed << 8 | task) as u64);
            all.spawn(async move {
                let mut done = 0;
                while done < 15 {
                    let ids = (0..chance.usize(1..6)).map(|_| format!("user:{}", chance.u8(0..40)));
                    let ids: Vec<String> = ids.collect();
                    let many = accounts.many(ids.iter().map(String::as_str)).unwrap();
                    let patience = MILLI * chance.u32(1..2_000);
                    let guard = match chance.u8(0..4) {
                        0 => many.try_acquire().await.unwrap().taken(),
                        1 => timeout(patience, many.acquire()).await.ok().map(Result::unwrap),
                        2 => many.acquire_within(patience).await.unwrap().taken(),
                        _ => Some(many.acquire().await.unwrap()),
                    };
                    let Some(guard) = guard else {
                        sleep(MILLI).await;
                        continue;
                    };
                    let mine: BTreeSet<u32> = ids.iter().map(|id| accounts.stripe_of(id)).collect();
                    {
                        let mut held = held.lock().unwrap();
                        assert!(
                            mine.iter().all(|stripe| !held.contains(stripe)),
                            "{mine:?} {held:?}"
                        );
                        held.extend(&mine);
                    }
                    guard.run(sleep(MILLI * chance.u32(0..50))).await.unwrap();
                    held.lock().unwrap().retain(|stripe| !mine.contains(stripe));
                    if chance.bool() {
                        drop(guard);
                    } else {
                        guard.release().await.unwrap();
                    }
                    done += 1;
                }
            });
        }
        timeout(SECOND * 3600, all.join_all()).await.expect("nobody waits for ever");
    }
}
