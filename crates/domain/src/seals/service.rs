//! Sealing, and proving what is sealed.
//!
//! | Step of a turn | Reads or writes | Ends it |
//! |---|---|---|
//! | all wallets with their newest seals, a page at a time | reads | the store can't be reached |
//! | of each that isn't as its seal says: what follows that seal, a stretch at most | reads, one view | |
//! | the rules of every entry, and of the wallet when nothing is left after them | | a difference: kept, and nothing is sealed |
//! | the seal | writes one row | another node was first: nothing is written |
//!
//! Where it stands is the newest seal, so any number of nodes can do this at once, and whoever ends in the middle leaves
//! nothing behind. The writers of the book are never waited for, and wait for nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::store::SealStore;
use super::{Head, KeptDifference, Seal, SealDifference, SealFault, Stretch, Unsealed};
use crate::error::StoreError;
use crate::ids::IntegratorId;
use crate::time::Clock;
use crate::wallet::Entry;
use crate::wallet::store::{EntryQuery, WalletStore};

/// How many entries one seal covers at the most.
pub const MAX_STRETCH: u32 = 1_000;

/// How many wallets are looked at in one read.
pub const HEADS_PAGE: u32 = 200;

/// How many seals are verified in one read.
const SEALS_PAGE: u32 = 200;

/// How often who was overtaken looks again, for what the other one has left.
pub const MAX_OVERTAKEN: u32 = 8;

/// How many differences are kept in mind at once.
pub const MAX_DIFFERENCES: u32 = 1_000;

/// Seals what there is to seal.
#[derive(Clone)]
pub struct Sealer {
    store: Arc<dyn SealStore>,
    clock: Arc<dyn Clock>,
}

/// What a turn did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn {
    /// How many seals were made.
    pub seals: u64,
    /// How many entries they cover.
    pub entries: u64,
    /// How many entries are left.
    pub left: u64,
    /// How many integrators are left, those with a difference among them.
    pub behind: u64,
    /// How many of them somebody else was sealing: how much of theirs is left isn't known.
    pub overtaken: u64,
    /// How many books have a difference.
    pub differing: u64,
    /// Differences that were not known before.
    pub found: Vec<SealDifference>,
    /// Differences that were known and are no more.
    pub ended: Vec<KeptDifference>,
}

/// What became of one stretch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sealed {
    /// Nothing was left to seal, and the wallet is as the newest seal says.
    Nothing,
    /// It is sealed now.
    Done {
        /// The seal.
        seal: Seal,
        /// How many entries it covers.
        entries: u64,
        /// How many there were after it when the book was read.
        left: u64,
    },
    /// Somebody else was first.
    Overtaken,
    /// Something is wrong with it.
    Differs(SealDifference),
}

impl Sealer {
    /// A sealer of `store`.
    pub const fn new(store: Arc<dyn SealStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Seals what there is, going round the integrators a stretch each, until nothing is left or a round ends with `most`
    /// entries sealed. Errors are those of the store; what was sealed before stays sealed.
    pub async fn turn(&self, most: u64) -> Result<Turn, StoreError> {
        let mut turn = Turn::default();
        self.go_on(&mut turn, most).await?;
        Ok(turn)
    }

    /// Goes on with a turn.
    async fn go_on(&self, turn: &mut Turn, most: u64) -> Result<(), StoreError> {
        let kept = self.store.differences(MAX_DIFFERENCES).await?;
        let mut known: BTreeMap<_, _> = kept.into_iter().map(|kept| (kept.integrator_id, kept)).collect();
        let mut differing = BTreeSet::new();
        while self.round(turn, &mut known, &mut differing).await? && turn.entries < most {}
        turn.differing = u64::try_from(differing.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Seals all there is, and looks again where somebody else was first: what was posted before this call is sealed when
    /// it returns with nothing left. Who was overtaken [`MAX_OVERTAKEN`] times ends with what is left. Errors are those of
    /// the store; what was sealed before stays sealed.
    pub async fn all(&self) -> Result<Turn, StoreError> {
        let mut turn = self.turn(u64::MAX).await?;
        for _ in 0..MAX_OVERTAKEN {
            if turn.overtaken == 0 {
                break;
            }
            self.go_on(&mut turn, u64::MAX).await?;
        }
        Ok(turn)
    }

    /// One round: a stretch of each integrator. Whether somebody has more.
    async fn round(
        &self,
        turn: &mut Turn,
        known: &mut BTreeMap<IntegratorId, KeptDifference>,
        differing: &mut BTreeSet<IntegratorId>,
    ) -> Result<bool, StoreError> {
        (turn.left, turn.behind, turn.overtaken) = (0, 0, 0);
        let (mut more, mut after) = (false, None);
        loop {
            let heads = self.store.heads(after, HEADS_PAGE).await?;
            let full = heads.len() >= usize::try_from(HEADS_PAGE).unwrap_or(usize::MAX);
            after = heads.last().map(|head| head.integrator_id);
            for head in heads {
                let owner = head.integrator_id;
                let mut left = head.unsealed();
                if differing.contains(&owner) {
                    turn.behind = turn.behind.saturating_add(1);
                } else if !head.is_sealed() || known.contains_key(&owner) {
                    let sealed = self.seal_next(&head).await?;
                    if !matches!(sealed, Sealed::Differs(_) | Sealed::Overtaken)
                        && let Some(ended) = known.remove(&owner)
                    {
                        self.store.set_difference(owner, None).await?;
                        turn.ended.push(ended);
                    }
                    match sealed {
                        Sealed::Nothing => left = 0,
                        // Somebody has sealed some of it: how much of it, and whether it is kept, the next turn sees.
                        Sealed::Overtaken => {
                            turn.overtaken = turn.overtaken.saturating_add(1);
                            left = left.max(1);
                        }
                        Sealed::Done { entries, left: after_it, .. } => {
                            turn.seals = turn.seals.saturating_add(1);
                            turn.entries = turn.entries.saturating_add(entries);
                            left = after_it;
                            more |= left > 0;
                        }
                        Sealed::Differs(difference) => {
                            differing.insert(owner);
                            self.tell(turn, known.get(&owner), difference).await?;
                        }
                    }
                    turn.behind =
                        turn.behind.saturating_add(u64::from(left > 0 || differing.contains(&owner)));
                }
                turn.left = turn.left.saturating_add(left);
            }
            if !full {
                return Ok(more);
            }
        }
    }

    /// Keeps a difference, unless it is known.
    async fn tell(
        &self,
        turn: &mut Turn,
        known: Option<&KeptDifference>,
        difference: SealDifference,
    ) -> Result<(), StoreError> {
        if known.is_some_and(|known| known.is(&difference)) {
            return Ok(());
        }
        let kept = KeptDifference::of(&difference, self.clock.now());
        self.store.set_difference(difference.integrator_id, Some(kept)).await?;
        turn.found.push(difference);
        Ok(())
    }

    /// Seals the next stretch of one book, which stood so a moment ago.
    pub async fn seal_next(&self, head: &Head) -> Result<Sealed, StoreError> {
        let integrator_id = head.integrator_id;
        let read = match self.store.unsealed(integrator_id, MAX_STRETCH).await {
            Ok(read) => read,
            Err(StoreError::Damaged(what)) => {
                let stretch = Stretch::after(integrator_id, head.newest.as_ref());
                return Ok(Sealed::Differs(stretch.differs(SealFault::Unreadable(what))));
            }
            Err(error) => return Err(error),
        };
        let stretch = match follow(integrator_id, &read) {
            Ok(stretch) => stretch,
            Err(difference) => return Ok(Sealed::Differs(difference)),
        };
        if read.entries.is_empty() {
            return Ok(Sealed::Nothing);
        }
        let left = read.wallet.entries.saturating_sub(stretch.reckoning().wallet.entries);
        let seal = stretch.seal(self.clock.now());
        let entries = u64::try_from(read.entries.len()).unwrap_or(u64::MAX);
        match self.store.append(seal).await {
            Ok(true) => Ok(Sealed::Done { seal, entries, left }),
            // Of one that may be kept the next turn finds out.
            Ok(false) | Err(StoreError::Unknown(_)) => Ok(Sealed::Overtaken),
            Err(error) => Err(error),
        }
    }
}

/// What was read, followed from its seal to its end, and held against the wallet's row when nothing is left after it.
fn follow(integrator_id: IntegratorId, read: &Unsealed) -> Result<Stretch, SealDifference> {
    let mut stretch = Stretch::after(integrator_id, read.newest.as_ref());
    for entry in &read.entries {
        stretch.follow(entry).map_err(|fault| stretch.differs(fault.into()))?;
    }
    let postings = stretch.reckoning().wallet;
    let is_whole = read.entries.len() < usize::try_from(MAX_STRETCH).unwrap_or(usize::MAX);
    if read.wallet != postings && (is_whole || read.wallet.entries <= postings.entries) {
        return Err(stretch.differs(SealFault::Wallet { says: read.wallet, postings }));
    }
    Ok(stretch)
}

/// What a proof of one chain found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Whose chain.
    pub integrator_id: IntegratorId,
    /// Its newest seal; `None` while nothing is sealed.
    pub newest: Option<Seal>,
    /// How many seals there are.
    pub seals: u64,
    /// How many entries were read, sealed or not.
    pub entries: u64,
    /// How many of them are not sealed.
    pub unsealed: u64,
    /// What is wrong; at most [`MAX_DIFFERENCES`].
    pub differences: Vec<SealDifference>,
    /// What the next stretch goes on from.
    from: Option<Seal>,
}

/// Proves the chain of one integrator: reads its whole book from the beginning, in pieces, and makes every seal again. Each
/// seal is held against what is kept of the one before it, so what is named is what was changed, and not all that follows.
/// Errors are those of the store.
pub async fn prove(
    seals: &dyn SealStore,
    wallets: &dyn WalletStore,
    integrator_id: IntegratorId,
) -> Result<Proof, StoreError> {
    let mut proof = Proof {
        integrator_id,
        newest: None,
        seals: 0,
        entries: 0,
        unsealed: 0,
        differences: Vec::new(),
        from: None,
    };
    loop {
        let after = proof.newest.map_or(0, |seal| seal.number);
        let page = match seals.seals(integrator_id, after, SEALS_PAGE).await {
            Err(StoreError::Damaged(what)) => {
                let stretch = Stretch::after(integrator_id, proof.from.as_ref());
                proof.say(stretch.differs(SealFault::Unreadable(what)));
                break;
            }
            page => page?,
        };
        if page.is_empty() {
            break;
        }
        for seal in page {
            proof.seals = proof.seals.saturating_add(1);
            proof.stretch(wallets, Some(seal)).await?;
        }
    }
    proof.stretch(wallets, None).await?;
    Ok(proof)
}

impl Proof {
    fn say(&mut self, difference: SealDifference) {
        if self.differences.len() < usize::try_from(MAX_DIFFERENCES).unwrap_or(usize::MAX) {
            self.differences.push(difference);
        }
    }

    /// Makes `seal` again and goes on from it; without one, follows what isn't sealed.
    async fn stretch(&mut self, wallets: &dyn WalletStore, seal: Option<Seal>) -> Result<(), StoreError> {
        let mut stretch = Stretch::after(self.integrator_id, self.from.as_ref());
        let first = stretch.reckoning().wallet.entries;
        let last = seal.map_or(u64::MAX, |seal| seal.through());
        let unchained = seal.is_some_and(|seal| seal.number != stretch.number || last <= first);
        let mut fault = unchained.then_some(SealFault::Unchained);
        let mut read = first;
        while read < last {
            let page = match entries(wallets, self.integrator_id, read, last).await {
                Err(StoreError::Damaged(what)) => {
                    fault.get_or_insert(SealFault::Unreadable(what));
                    break;
                }
                page => page?,
            };
            let Some(newest) = page.last() else { break };
            read = newest.number;
            for entry in &page {
                self.entries = self.entries.saturating_add(1);
                self.unsealed = self.unsealed.saturating_add(u64::from(seal.is_none()));
                if let Err(wrong) = stretch.follow(entry) {
                    fault.get_or_insert(wrong.into());
                }
            }
        }
        if let Some(seal) = seal {
            if read < last {
                fault.get_or_insert(SealFault::Missing(read.saturating_add(1)));
            }
            fault = fault.or_else(|| compare(&stretch, &seal));
            // What was changed is this seal, then, and not the entries after it.
            let of_seal = matches!(fault, Some(SealFault::Balances));
            let reckoning = if of_seal { *stretch.reckoning() } else { seal.reckoning };
            (self.newest, self.from) = (Some(seal), Some(Seal { reckoning, ..seal }));
        }
        if let Some(fault) = fault {
            let difference = stretch.differs(fault);
            self.say(match seal {
                Some(seal) => SealDifference { seal: seal.number, to: seal.through(), ..difference },
                None => difference,
            });
        }
        Ok(())
    }
}

async fn entries(
    wallets: &dyn WalletStore,
    integrator_id: IntegratorId,
    after: u64,
    last: u64,
) -> Result<Vec<Entry>, StoreError> {
    let query = EntryQuery { before: last.saturating_add(1), ..EntryQuery::after(after, MAX_STRETCH) };
    wallets.entries(integrator_id, &query).await
}

fn compare(stretch: &Stretch, seal: &Seal) -> Option<SealFault> {
    let again = stretch.clone().seal(seal.sealed_at);
    if again.reckoning != seal.reckoning {
        return Some(SealFault::Balances);
    }
    (again.hash != seal.hash).then_some(SealFault::Hash)
}

/// All wallets with their newest seals, in the order of the integrators. Errors are those of the store.
pub async fn all_heads(seals: &dyn SealStore) -> Result<Vec<Head>, StoreError> {
    let mut all: Vec<Head> = Vec::new();
    loop {
        let after = all.last().map(|head| head.integrator_id);
        let page = seals.heads(after, HEADS_PAGE).await?;
        let full = page.len() >= usize::try_from(HEADS_PAGE).unwrap_or(usize::MAX);
        all.extend(page);
        if !full {
            return Ok(all);
        }
    }
}
