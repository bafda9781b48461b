//! Seals: a book in a chain of hashes, made behind those who write, by any number of nodes.

use std::sync::Arc;
use std::time::Duration;

use pix_domain::ids::IntegratorId;
use pix_domain::seals::service::{MAX_STRETCH, Sealer, Turn, all_heads, prove};
use pix_domain::seals::{Head, KeptDifference, Seal, SealHash, Stretch, root};
use pix_domain::wallet::Wallet;

use crate::builders::{some_fees, withdrawal_command};
use crate::{Answer, Services, StoreHarness, services};

fn sealer(services: &Services) -> Sealer {
    Sealer::new(services.stores.seals.clone(), services.clock.clone())
}

async fn turn(services: &Services) -> Turn {
    let turn = sealer(services).turn(u64::MAX).await.expect("a turn");
    assert_eq!((&turn.found, turn.differing), (&Vec::new(), 0), "a right book has no difference");
    turn
}

async fn seals(services: &Services, integrator_id: IntegratorId) -> Vec<Seal> {
    services.stores.seals.seals(integrator_id, 0, 1_000).await.expect("seals")
}

/// The seal of the first `limit` entries that wait.
async fn next_seal(services: &Services, integrator_id: IntegratorId, limit: u32) -> Seal {
    let read = services.stores.seals.unsealed(integrator_id, limit).await.expect("what waits");
    let mut stretch = Stretch::after(integrator_id, read.newest.as_ref());
    for entry in &read.entries {
        stretch.follow(entry).expect("a right entry");
    }
    stretch.seal(services.now())
}

/// A seal stands for all that was written since the one before, and says what the wallet says; what is sealed can be proven.
pub async fn a_book_is_sealed_as_it_goes_on(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    services.set_fees(integrator_id, some_fees()).await;
    assert_eq!(turn(&services).await, Turn::default());
    services.paid_charge(integrator_id, 100_000).await;
    let first = turn(&services).await;
    assert_eq!((first.seals, first.entries, first.left, first.behind), (1, 2, 0, 0));
    for answer in [Answer::Complete, Answer::Fail, Answer::Accept] {
        services.provider.answers_next(answer);
        services.withdrawals.create(withdrawal_command(integrator_id, 3_000)).await.expect("a withdrawal");
    }
    services.wait(Duration::from_secs(1));
    assert_eq!(turn(&services).await.seals, 1);
    assert_eq!(turn(&services).await, Turn::default());

    let kept = seals(&services, integrator_id).await;
    let wallet = services.wallet(integrator_id).await;
    assert_eq!(kept.iter().map(|seal| seal.number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((kept[1].reckoning.wallet, kept[1].sealed_at), (wallet, services.now()));
    // 0.10 and 1 % of what came in, 0.50 of the withdrawal that was made.
    assert_eq!((kept[1].reckoning.fees, kept[1].reckoning.is_balanced()), (1_010 + 50, true));
    let stores = &services.stores;
    let proof = prove(&*stores.seals, &*stores.domain.wallets, integrator_id).await.expect("a proof");
    assert_eq!((proof.newest, proof.entries, proof.unsealed), (Some(kept[1]), wallet.entries, 0));
    assert_eq!((proof.seals, proof.differences), (2, Vec::new()));
    assert_eq!(stores.seals.seals(integrator_id, 1, 10).await, Ok(vec![kept[1]]));
    assert_eq!(stores.seals.seals(integrator_id, 0, 1).await, Ok(vec![kept[0]]));
    assert_eq!(stores.seals.seals(integrator_id, u64::MAX, 1).await, Ok(Vec::new()));
}

/// What waits is read in pieces, and another's is never among it.
pub async fn what_waits_is_read_in_pieces(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let owners = [services.integrator().await, services.integrator().await];
    for _ in 0..5 {
        for owner in owners {
            services.paid_charge(owner, 100).await;
        }
    }
    let store = services.stores.seals.clone();
    for through in [2, 4, 5] {
        let seal = next_seal(&services, owners[0], 2).await;
        assert_eq!((seal.integrator_id, seal.through()), (owners[0], through));
        assert_eq!(store.append(seal).await, Ok(true));
    }
    let read = store.unsealed(owners[0], 2).await.expect("what waits");
    assert_eq!((read.entries, read.wallet.entries), (Vec::new(), 5));
    assert_eq!(store.unsealed(owners[1], MAX_STRETCH).await.expect("what waits").entries.len(), 5);
    let nobody = store.unsealed(IntegratorId(services.id()), 9).await.expect("what waits");
    assert_eq!((nobody.newest, nobody.wallet, nobody.entries), (None, Wallet::default(), Vec::new()));
}

/// A seal that doesn't follow from the newest one isn't kept, and one that is kept isn't replaced.
pub async fn a_seal_out_of_turn_is_not_kept(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(100).await;
    let store = services.stores.seals.clone();
    let first = next_seal(&services, integrator_id, 1).await;
    assert_eq!(store.append(Seal { number: 2, ..first }).await, Ok(false));
    assert_eq!(store.append(first).await, Ok(true));
    assert_eq!(store.append(first).await, Ok(false));
    assert_eq!(store.append(Seal { hash: SealHash([7; 32]), ..first }).await, Ok(false));
    assert_eq!(store.append(Seal { number: 2, ..first }).await, Ok(false), "its last entry is sealed");
    services.paid_charge(integrator_id, 100).await;
    let second = next_seal(&services, integrator_id, 1).await;
    assert_eq!(store.append(Seal { number: 3, ..second }).await, Ok(false));
    assert_eq!(store.append(second).await, Ok(true));
    assert_eq!(seals(&services, integrator_id).await, [first, second]);
}

/// All wallets are listed in pages, in the order of their integrators, each with its newest seal.
pub async fn wallets_are_listed_with_their_newest_seals(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let mut owners = Vec::new();
    for cents in 1..=5 {
        owners.push(services.funded(cents).await);
    }
    turn(&services).await;
    services.paid_charge(owners[1], 70).await;
    turn(&services).await;
    services.paid_charge(owners[2], 70).await;
    owners.sort_unstable();
    let store = services.stores.seals.clone();
    let all = store.heads(None, 100).await.expect("heads");
    assert_eq!(all.iter().map(|head| head.integrator_id).collect::<Vec<_>>(), owners);
    assert_eq!(store.heads(None, 2).await.expect("heads"), all[..2]);
    assert_eq!(store.heads(Some(owners[1]), 2).await.expect("heads"), all[2..4]);
    assert_eq!(store.heads(Some(owners[4]), 2).await.expect("heads"), []);
    assert_eq!(store.heads(Some(IntegratorId(uuid::Uuid::max())), 2).await.expect("heads"), []);
    assert_eq!(all_heads(&*store).await, Ok(all.clone()));
    for head in &all {
        let kept = seals(&services, head.integrator_id).await;
        assert_eq!(
            (head.newest, head.wallet),
            (kept.last().copied(), services.wallet(head.integrator_id).await)
        );
        assert_eq!(head.is_sealed(), head.unsealed() == 0);
    }
    assert_eq!(all.iter().map(Head::unsealed).sum::<u64>(), 1);
    let newest = || all.iter().filter_map(|head| head.newest);
    assert_eq!(root(newest()), root(newest().rev()), "the order doesn't matter");
}

/// Any number of nodes seal at once: one chain comes of it, with everything in it.
pub async fn many_seal_at_once_and_one_chain_comes_of_it(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let owners = [services.funded(100).await, services.funded(100).await, services.funded(100).await];
    for _ in 0..4 {
        for owner in owners {
            services.paid_charge(owner, 100).await;
        }
        let nodes = (0..6).map(|_| {
            let sealer = sealer(&services);
            tokio::spawn(async move { sealer.turn(u64::MAX).await.expect("a turn") })
        });
        for node in nodes.collect::<Vec<_>>() {
            assert_eq!(node.await.expect("a node").found, Vec::new());
        }
    }
    let heads = all_heads(&*services.stores.seals).await.expect("heads");
    assert!(heads.iter().all(Head::is_sealed), "{heads:?}");
}

/// What is being written meanwhile is never taken for a contradiction, and in the end all of it is sealed.
pub async fn sealing_is_right_while_others_write(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    let writers = (0..4).map(|_| {
        let services = services.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                let command = withdrawal_command(integrator_id, 100);
                services.withdrawals.create(command).await.expect("a withdrawal");
            }
        })
    });
    let mut writers: Vec<_> = writers.collect();
    let mut entries = 0;
    while !writers.is_empty() {
        entries += turn(&services).await.entries;
        if writers[0].is_finished() {
            writers.remove(0).await.expect("a writer");
        }
        tokio::task::yield_now().await;
    }
    entries += turn(&services).await.entries;
    assert_eq!(entries, services.wallet(integrator_id).await.entries);
}

/// What is wrong with a book is kept once an integrator, and a later word takes the place of an earlier one.
pub async fn a_difference_is_kept_once_an_integrator(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let mut owners = [services.integrator().await, services.integrator().await];
    owners.sort_unstable();
    let store = services.stores.seals.clone();
    let difference = |integrator_id, seal, what: &str| KeptDifference {
        integrator_id,
        seal,
        from: 2,
        to: 3,
        code: "hash".into(),
        what: what.into(),
        found_at: services.now(),
    };
    let (one, other) = (difference(owners[0], 1, "ção"), difference(owners[1], 4, "b"));
    for each in [&other, &one] {
        store.set_difference(each.integrator_id, Some(each.clone())).await.expect("it is kept");
    }
    assert_eq!(store.differences(9).await, Ok(vec![one.clone(), other.clone()]));
    assert_eq!(store.differences(1).await, Ok(vec![one]));
    let later = difference(owners[0], 2, "c");
    store.set_difference(owners[0], Some(later.clone())).await.expect("it is kept");
    assert_eq!(store.differences(9).await, Ok(vec![later, other.clone()]));
    store.set_difference(owners[0], None).await.expect("it is gone");
    store.set_difference(owners[0], None).await.expect("it was gone");
    assert_eq!(store.differences(9).await, Ok(vec![other]));
    // The book of the other is right after all: its difference ends with the next turn.
    let ended = sealer(&services).turn(u64::MAX).await.expect("a turn").ended;
    assert_eq!(ended.len(), 1);
    assert_eq!(store.differences(9).await, Ok(Vec::new()));
}

/// Seals outlive the process, and the chain goes on from them.
pub async fn a_chain_goes_on_after_reopening(harness: &mut dyn StoreHarness) {
    let first = services(harness);
    let integrator_id = first.funded(100).await;
    turn(&first).await;
    let kept = seals(&first, integrator_id).await;
    drop(first);
    harness.reopen().await;
    let again = Services::over(harness.stores(), 1);
    assert_eq!(seals(&again, integrator_id).await, kept);
    again.paid_charge(integrator_id, 100).await;
    assert_eq!(turn(&again).await.seals, 1);
    assert_eq!(seals(&again, integrator_id).await.len(), 2);
}

/// Seals all that waits in every book and proves every chain: what every case ends with.
pub(crate) async fn assert_books_can_be_sealed(harness: &dyn StoreHarness) {
    let stores = harness.stores();
    let sealer = Sealer::new(stores.seals.clone(), Arc::new(crate::FixedClock::default()));
    let turn = sealer.turn(u64::MAX).await.expect("a turn");
    assert_eq!((turn.found, turn.left), (Vec::new(), 0), "a book contradicts itself");
    for head in all_heads(&*stores.seals).await.expect("heads") {
        let proof =
            prove(&*stores.seals, &*stores.domain.wallets, head.integrator_id).await.expect("a proof");
        assert_eq!((proof.differences, proof.unsealed), (Vec::new(), 0), "a chain is broken");
    }
}
