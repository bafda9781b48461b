//! Seals: the chain is as it is documented, a right book is sealed, and whatever is changed is found.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::seals::service::{MAX_OVERTAKEN, MAX_STRETCH, Proof, Sealed, Sealer, Turn, prove};
use pix_domain::seals::store::SealStore;
use pix_domain::seals::{Head, KeptDifference, Seal, SealHash, Stretch, Unsealed, root};
use pix_domain::time::MockClock;
use pix_domain::wallet::store::{EntryQuery, WalletStore};
use pix_domain::wallet::{Account, Entry, Posting, Reason, Wallet};
use uuid::Uuid;

use crate::samples::{INTEGRATOR, OTHER, T0, at, cents};

#[derive(Clone, Default)]
struct Book {
    wallet: Wallet,
    entries: Vec<Entry>,
    seals: Vec<Seal>,
}

impl Book {
    fn post(&mut self, owner: IntegratorId, reason: Reason, amount: i64, id: u128) {
        let kind = reason.kind().unwrap_or(ResourceKind::Charge);
        let resource = ResourceRef { integrator_id: owner, kind, id: Uuid::from_u128(id) };
        let posting = Posting::of(reason, cents(amount), resource).unwrap();
        self.wallet = self.wallet.after(&posting).unwrap();
        self.entries.push(Entry {
            integrator_id: owner,
            number: self.wallet.entries,
            posting,
            available_after: self.wallet.available,
            held_after: self.wallet.held,
            at: at(self.wallet.entries),
        });
    }
}

/// Books that anybody can write to.
#[derive(Clone, Default)]
struct Books {
    kept: Arc<Mutex<BTreeMap<IntegratorId, Book>>>,
    differences: Arc<Mutex<BTreeMap<IntegratorId, KeptDifference>>>,
    unreadable: Arc<Mutex<bool>>,
    /// What the next seals that are made are answered: somebody else was first, or nobody knows.
    overtaken: Arc<Mutex<Vec<Result<bool, StoreError>>>>,
}

impl Books {
    fn with<T>(&self, owner: IntegratorId, change: impl FnOnce(&mut Book) -> T) -> T {
        change(self.kept.lock().unwrap().entry(owner).or_default())
    }

    fn post(&self, reason: Reason, amount: i64, id: u128) {
        self.with(INTEGRATOR, |book| book.post(INTEGRATOR, reason, amount, id));
    }

    fn sealer(&self) -> Sealer {
        let mut clock = MockClock::new();
        clock.expect_now().return_const(at(1_000));
        Sealer::new(Arc::new(self.clone()), Arc::new(clock))
    }

    async fn turn(&self) -> Turn {
        self.sealer().turn(u64::MAX).await.unwrap()
    }

    async fn proof(&self) -> Proof {
        prove(self, self, INTEGRATOR).await.unwrap()
    }
}

#[async_trait]
impl SealStore for Books {
    async fn heads(&self, after: Option<IntegratorId>, limit: u32) -> Result<Vec<Head>, StoreError> {
        let books = self.kept.lock().unwrap();
        let page = books.iter().filter(|(id, _)| after.is_none_or(|after| **id > after));
        let head = |(id, book): (&IntegratorId, &Book)| Head {
            integrator_id: *id,
            wallet: book.wallet,
            newest: book.seals.last().copied(),
        };
        Ok(page.map(head).take(limit.try_into().unwrap()).collect())
    }

    async fn unsealed(&self, owner: IntegratorId, limit: u32) -> Result<Unsealed, StoreError> {
        if *self.unreadable.lock().unwrap() {
            return Err(StoreError::Damaged("postings.reason is not a name".into()));
        }
        let book = self.with(owner, |book| book.clone());
        let newest = book.seals.last().copied();
        let after = newest.map_or(0, |seal| seal.through());
        let waits = book.entries.into_iter().filter(|entry| entry.number > after);
        Ok(Unsealed { newest, wallet: book.wallet, entries: waits.take(limit.try_into().unwrap()).collect() })
    }

    async fn append(&self, seal: Seal) -> Result<bool, StoreError> {
        if let Some(answer) = self.overtaken.lock().unwrap().pop() {
            return answer;
        }
        self.with(seal.integrator_id, |book| book.seals.push(seal));
        Ok(true)
    }

    async fn seals(&self, owner: IntegratorId, after: u64, limit: u32) -> Result<Vec<Seal>, StoreError> {
        let seals = self.with(owner, |book| book.seals.clone());
        Ok(seals.into_iter().filter(|seal| seal.number > after).take(limit.try_into().unwrap()).collect())
    }

    async fn set_difference(
        &self,
        owner: IntegratorId,
        difference: Option<KeptDifference>,
    ) -> Result<(), StoreError> {
        let mut differences = self.differences.lock().unwrap();
        match difference {
            Some(difference) => drop(differences.insert(owner, difference)),
            None => drop(differences.remove(&owner)),
        }
        Ok(())
    }

    async fn differences(&self, _limit: u32) -> Result<Vec<KeptDifference>, StoreError> {
        Ok(self.differences.lock().unwrap().values().cloned().collect())
    }
}

#[async_trait]
impl WalletStore for Books {
    async fn wallet(&self, owner: IntegratorId) -> Result<Wallet, StoreError> {
        Ok(self.with(owner, |book| book.wallet))
    }

    async fn entries(&self, owner: IntegratorId, query: &EntryQuery) -> Result<Vec<Entry>, StoreError> {
        let mut entries = self.with(owner, |book| book.entries.clone());
        entries.retain(|entry| query.wants(entry));
        entries.sort_by_key(|entry| entry.number);
        entries.truncate(query.limit.try_into().unwrap());
        Ok(entries)
    }
}

/// A book of ten entries in three seals: up to the fourth, the eighth and the tenth.
async fn sealed_books() -> Books {
    let books = Books::default();
    let all = [
        (Reason::ChargePaid, 1_000, 1),
        (Reason::ChargeFee, 10, 1),
        (Reason::WithdrawalHold, 100, 2),
        (Reason::WithdrawalHold, 100, 3),
        (Reason::WithdrawalSettle, 90, 2),
        (Reason::WithdrawalFee, 10, 2),
        (Reason::ChargePaid, 500, 4),
        (Reason::ChargePaid, 500, 5),
        (Reason::WithdrawalRelease, 100, 3),
        (Reason::ChargeFee, 5, 4),
    ];
    for (place, (reason, amount, id)) in all.into_iter().enumerate() {
        books.post(reason, amount, id);
        if [3, 7, 9].contains(&place) {
            assert_eq!(books.turn().await.seals, 1);
        }
    }
    books
}

#[test]
fn the_hash_of_a_seal_is_the_documented_one() {
    let mut book = Book::default();
    for (reason, amount, id) in
        [(Reason::ChargePaid, 1_000, 1), (Reason::ChargeFee, 10, 1), (Reason::WithdrawalHold, 500, 2)]
    {
        book.post(INTEGRATOR, reason, amount, id);
    }
    let seal = |newest: Option<&Seal>, entries: &[Entry], secs| {
        let mut stretch = Stretch::after(INTEGRATOR, newest);
        for entry in entries {
            stretch.follow(entry).unwrap();
        }
        stretch.seal(at(secs))
    };
    let first = seal(None, &book.entries[..2], 9);
    let second = seal(Some(&first), &book.entries[2..], 10);
    // Made by another program, from the table in the documentation of the module.
    assert_eq!(first.hash.to_string(), "26b12825ceec7a6287a9f48012148e94601192ad0a763f613b5a5bab602c89aa");
    assert_eq!(second.hash.to_string(), "976ac4783c119ed384a7669ce11ce38f7ef5e71a4d9c1eb392a5b3a7ca3a19b3");
    assert_eq!(
        root([second]).to_string(),
        "617abdc602b0ddfaddf61643eccb3ad23144e80d386747f7efad50a6e6adf1d3"
    );
    let other = Seal { integrator_id: OTHER, ..first };
    assert_eq!(root([second, other]), root([other, second]));
    assert_ne!(root([second, other]), root([second]));
    assert_eq!(SealHash::parse(&first.hash.to_string()), Some(first.hash));
    assert_eq!(SealHash::parse("x"), None);
}

#[tokio::test]
async fn a_right_book_is_sealed_stretch_by_stretch_and_proven() {
    let books = Books::default();
    for id in 0..=u128::from(MAX_STRETCH) * 2 {
        books.post(Reason::ChargePaid, 1, id);
    }
    let turn = books.turn().await;
    assert_eq!((turn.seals, turn.entries, turn.left), (3, 2_001, 0));
    let proof = books.proof().await;
    assert_eq!((proof.seals, proof.entries, proof.unsealed), (3, 2_001, 0));
    assert_eq!(proof.differences, []);
    books.post(Reason::ChargePaid, 1, 7);
    assert_eq!(books.proof().await.unsealed, 1);
}

#[tokio::test]
async fn a_turn_ends_with_the_round_in_which_it_has_sealed_enough() {
    let books = Books::default();
    for id in 0..=u128::from(MAX_STRETCH) + 1 {
        books.post(Reason::ChargePaid, 1, id);
        books.with(OTHER, |book| book.post(OTHER, Reason::ChargePaid, 1, id));
    }
    let turn = books.sealer().turn(1).await.unwrap();
    assert_eq!((turn.seals, turn.entries, turn.left, turn.behind), (2, 2_000, 4, 2));
    let turn = books.turn().await;
    assert_eq!((turn.seals, turn.entries, turn.left, turn.behind), (2, 4, 0, 0));
}

/// What another node seals, and how much of it, isn't known here: it doesn't count as sealed.
#[tokio::test]
async fn who_was_overtaken_does_not_say_that_all_is_sealed() {
    for answer in [Ok(false), Err(StoreError::Unknown("connection lost".into()))] {
        let books = Books::default();
        books.post(Reason::ChargePaid, 1, 1);
        books.overtaken.lock().unwrap().push(answer);
        let turn = books.turn().await;
        assert_eq!((turn.seals, turn.left, turn.behind), (0, 1, 1));
        let turn = books.turn().await;
        assert_eq!((turn.seals, turn.left, turn.behind), (1, 0, 0));
    }
}

/// Who wants all of it sealed now isn't told that some is left only because a worker was at it.
#[tokio::test]
async fn who_wants_all_sealed_looks_again_at_what_somebody_else_was_sealing() {
    let most = usize::try_from(MAX_OVERTAKEN).unwrap();
    for (times, done) in [(0, 1), (1, 1), (most, 1), (most + 1, 0)] {
        let books = Books::default();
        books.post(Reason::ChargePaid, 1, 1);
        *books.overtaken.lock().unwrap() = vec![Ok(false); times];
        // What is found the first time is told, however often is looked.
        books.with(OTHER, |book| book.wallet.available = cents(1));
        let all = books.sealer().all().await.unwrap();
        assert_eq!((all.found.len(), all.differing), (1, 1), "{times}");
        assert_eq!(
            (all.seals, all.entries, all.left, all.overtaken),
            (done, done, 1 - done, 1 - done),
            "{times}"
        );
        assert!(books.overtaken.lock().unwrap().is_empty(), "{times}");
    }
}

/// What is left is what the book had after the stretch when it was read, not what was left of it before.
#[tokio::test]
async fn what_another_node_has_sealed_since_does_not_count_as_left() {
    let books = Books::default();
    for id in 1..=3 {
        books.post(Reason::ChargePaid, 1, id);
    }
    let mut heads = books.heads(None, 1).await.unwrap();
    let before = heads.remove(0);
    assert_eq!(books.turn().await.left, 0);
    books.post(Reason::ChargePaid, 1, 4);
    let sealed = books.sealer().seal_next(&before).await.unwrap();
    assert!(matches!(sealed, Sealed::Done { entries: 1, left: 0, .. }), "{sealed:?}");
}

type Change = fn(&mut Book);

/// What is done to the sealed book, the seal that tells, and how.
const CHANGES: &[(&str, Change, u64, &str)] = &[
    ("an amount is changed", |book| book.entries[4].posting.amount = cents(80), 2, "not_following"),
    (
        "an amount is changed with all balances after it in the stretch",
        |book| {
            book.entries[8].posting.amount = cents(90);
            for entry in &mut book.entries[8..] {
                entry.available_after = cents(entry.available_after.get() - 10);
                entry.held_after = cents(entry.held_after.get() + 10);
            }
        },
        3,
        "balances",
    ),
    ("a record is changed", |book| book.entries[1].posting.resource.id = Uuid::from_u128(9), 1, "hash"),
    ("a time is changed", |book| book.entries[5].at = T0, 2, "hash"),
    (
        "two of the same amount are swapped",
        |book| {
            let (one, other) = (book.entries[6].posting, book.entries[7].posting);
            (book.entries[6].posting, book.entries[7].posting) = (other, one);
        },
        2,
        "hash",
    ),
    (
        "two are swapped",
        |book| {
            let (one, other) = (book.entries[4].posting, book.entries[5].posting);
            (book.entries[4].posting, book.entries[5].posting) = (other, one);
        },
        2,
        "not_following",
    ),
    (
        "accounts are exchanged",
        |book| {
            let posting = &mut book.entries[6].posting;
            (posting.debit, posting.credit) = (posting.credit, posting.debit);
        },
        2,
        "other_accounts",
    ),
    ("an account is changed", |book| book.entries[1].posting.credit = Account::Clearing, 1, "other_accounts"),
    (
        "an entry is removed",
        |book| {
            let _ = book.entries.remove(1);
        },
        1,
        "out_of_place",
    ),
    (
        "the last of a stretch is removed",
        |book| {
            let _ = book.entries.remove(7);
        },
        2,
        "missing",
    ),
    (
        "the last of all is removed",
        |book| {
            let _ = book.entries.pop();
        },
        3,
        "missing",
    ),
    ("an entry is another's", |book| book.entries[2].posting.resource.integrator_id = OTHER, 1, "foreign"),
    ("the hash of a seal is changed", |book| book.seals[2].hash = SealHash([9; 32]), 3, "hash"),
    ("the time of a seal is changed", |book| book.seals[1].sealed_at = T0, 2, "hash"),
    ("the fees of a seal are changed", |book| book.seals[0].reckoning.fees += 1, 1, "balances"),
    (
        "the balance of a seal is changed",
        |book| book.seals[1].reckoning.wallet.available = cents(7),
        2,
        "balances",
    ),
    (
        "a seal is removed",
        |book| {
            let _ = book.seals.remove(1);
        },
        3,
        "unchained",
    ),
    ("the end of a stretch is moved", |book| book.seals[1].reckoning.wallet.entries = 7, 2, "balances"),
];

#[tokio::test]
async fn whatever_is_changed_is_found_and_named() {
    assert_eq!(sealed_books().await.proof().await.differences, []);
    for (what, change, seal, code) in CHANGES {
        let books = sealed_books().await;
        books.with(INTEGRATOR, change);
        let found = books.proof().await.differences;
        let first = found.first().unwrap_or_else(|| panic!("{what}: not found"));
        assert_eq!((first.seal, first.fault.code()), (*seal, *code), "{what}: {found:?}");
    }
}

#[tokio::test]
async fn only_what_was_changed_is_named() {
    for (place, seal, range) in [(1, 1, (1, 4)), (5, 2, (5, 8)), (8, 3, (9, 10))] {
        let books = sealed_books().await;
        books.with(INTEGRATOR, |book| book.entries[place].at = T0);
        let found = books.proof().await.differences;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].seal, (found[0].from, found[0].to)), (seal, range));
        assert!(found[0].to_string().contains("the hash is not that of the entries"), "{}", found[0]);
    }
}

#[tokio::test]
async fn the_hash_of_the_last_seal_tells_that_all_was_made_anew() {
    let books = sealed_books().await;
    let kept = root(books.with(INTEGRATOR, |book| book.seals.last().copied()));
    books.with(INTEGRATOR, |book| {
        book.entries[1].posting.resource.id = Uuid::from_u128(9);
        book.seals.clear();
    });
    books.turn().await;
    let proof = books.proof().await;
    assert_eq!(proof.differences, [], "the chain alone doesn't tell");
    assert_ne!(root(proof.newest), kept);
}

/// What is done to what waits, and how it is found.
const WRONG: &[(&str, Change, &str)] = &[
    ("an amount is changed", |book| book.entries[10].posting.amount = cents(8), "not_following"),
    (
        "an entry is removed",
        |book| {
            let _ = book.entries.remove(10);
        },
        "out_of_place",
    ),
    (
        "the last one is removed",
        |book| {
            let _ = book.entries.pop();
        },
        "wallet",
    ),
    (
        "an entry is more than there is",
        |book| {
            book.entries[10].posting = Posting { amount: cents(i64::MAX), ..book.entries[9].posting };
        },
        "below_zero",
    ),
    ("the wallet has more", |book| book.wallet.available = cents(9_999), "wallet"),
    ("the wallet has fewer entries", |book| book.wallet.entries = 10, "wallet"),
];

#[tokio::test]
async fn a_contradiction_stops_the_sealing_of_that_book_and_of_no_other() {
    for (what, change, code) in WRONG {
        let books = sealed_books().await;
        books.post(Reason::ChargePaid, 7, 8);
        books.post(Reason::ChargePaid, 7, 9);
        let right = books.with(INTEGRATOR, |book| book.clone());
        books.with(INTEGRATOR, change);
        books.with(OTHER, |book| book.post(OTHER, Reason::ChargePaid, 1, 10));
        let turn = books.turn().await;
        let found: Vec<_> = turn.found.iter().map(|found| found.fault.code()).collect();
        assert_eq!((&found[..], turn.differing, turn.seals), (&[*code][..], 1, 1), "{what}");
        let kept = books.differences(9).await.unwrap();
        assert_eq!((kept[0].integrator_id, kept[0].seal, kept[0].from), (INTEGRATOR, 4, 11), "{what}");
        let again = books.turn().await;
        assert_eq!((again.found.len(), again.differing, again.seals), (0, 1, 0), "{what}: told once");
        assert_eq!(books.with(INTEGRATOR, |book| book.seals.len()), 3, "{what}");
        books.with(INTEGRATOR, |book| *book = right);
        let turn = books.turn().await;
        assert_eq!((turn.ended.len(), turn.differing, turn.seals), (1, 0, 1), "{what}");
        assert_eq!(books.differences(9).await, Ok(Vec::new()));
    }
}

#[tokio::test]
async fn a_wallet_that_is_changed_while_nothing_waits_is_found() {
    let books = sealed_books().await;
    let right = books.with(INTEGRATOR, |book| book.wallet);
    books.with(INTEGRATOR, |book| book.wallet.available = cents(right.available.get() + 1));
    assert_eq!(books.turn().await.found.len(), 1);
    books.with(INTEGRATOR, |book| book.wallet = right);
    assert_eq!(books.turn().await.ended.len(), 1);
}

#[tokio::test]
async fn what_can_not_be_understood_is_a_difference() {
    let books = sealed_books().await;
    books.post(Reason::ChargePaid, 7, 8);
    *books.unreadable.lock().unwrap() = true;
    let found = books.turn().await.found;
    assert_eq!((found.len(), found[0].fault.code(), found[0].seal), (1, "unreadable", 4));
}
