//! What must be true when nothing is due any more: ledger, records, the provider's log and the clients' history say the
//! same.
//!
//! For each record the one right end is computed from the provider's log. A record may be left without an end only if
//! nobody can know it: the provider knows nothing of it, and has never promised that this proves anything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pix_domain::audit;
use pix_domain::charges::{Charge, ChargeState};
use pix_domain::error::ServiceError;
use pix_domain::fees::{FeeSchedule, Operation as Fee};
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::provider::Payment;
use pix_domain::splits::Part;
use pix_domain::transition::Record;
use pix_domain::wallet::Posting;
use pix_domain::withdrawals::{OutgoingState, RESOLVED_FAILED};
use uuid::Uuid;

use crate::clients::{Intent, SHARE_OF_A_MILLION, Told, means_nothing_was_done};
use crate::desk::{Fate, Operation};
use crate::model::{Outgoing, changed_though_final, is_final, outgoing, state_name, tag};
use crate::sim::{State, number, sent_as, short};
use crate::world::World;

/// How long after healing whatever the provider knows the end of may take to end, counted from when it is due.
pub const SETTLES_WITHIN: Duration = Duration::from_mins(5);

/// What is wrong with a world that was healed; `None` when nothing is.
pub fn check(world: &mut World) -> Option<String> {
    let found = |world: &World| world.sim.with(|state| state.violation.clone());
    if let Some(violation) = found(world) {
        return Some(violation);
    }
    if let Some(wrong) = in_time(world).or_else(|| ends(world, Knowledge::AsTold)) {
        return Some(format!("at rest: {wrong}"));
    }
    world.ask_about_all();
    found(world)
        .or_else(|| ends(world, Knowledge::Everything))
        .or_else(|| books(world))
        .or_else(|| torn(world))
        .or_else(|| cash(world))
        .or_else(|| history(world))
}

/// How much can be known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Knowledge {
    /// What the schedule asks for, and what callbacks tell of.
    AsTold,
    /// All: every record was asked about.
    Everything,
}

/// Whatever the provider knew the end of when it was healed has ended in time.
fn in_time(world: &World) -> Option<String> {
    world.sim.with(|state| {
        world.due_when_healed.iter().find_map(|(resource, due)| {
            let known = match resource.kind {
                ResourceKind::Charge => state.desk.charges.get(&resource.id).is_some_and(|charge| {
                    charge.payments.iter().any(|paid| paid.payment.paid_at <= world.healed_at)
                }),
                _ => state.desk.report(sent_as(resource), world.healed_at).is_some(),
            };
            let limit = (*due).max(world.healed_at).plus(SETTLES_WITHIN);
            let ended = state.model.final_at.get(resource).is_some_and(|at| *at <= limit);
            (known && !ended).then(|| format!("{}: it did not end in time", short(*resource)))
        })
    })
}

/// Every record has the one end that the provider's log calls for.
fn ends(world: &World, knowledge: Knowledge) -> Option<String> {
    world.sim.with(|state| {
        state.model.records.iter().find_map(|(resource, record)| {
            let was_open = knowledge == Knowledge::Everything || world.due_when_healed.contains_key(resource);
            let wrong = match record {
                Record::Charge(charge) => wrong_charge(state, charge, was_open)
                    .or_else(|| wrong_charge_fee(&world.fees, state, charge))
                    .or_else(|| wrong_share(&world.fees, state, charge)),
                other => outgoing(other).and_then(|outgoing| {
                    wrong_end(state, *resource, outgoing, was_open)
                        .or_else(|| wrong_fee(&world.fees, *resource, outgoing))
                }),
            };
            wrong.map(|wrong| format!("{} is {}: {wrong}", short(*resource), state_name(record)))
        })
    })
}

fn wrong_end(state: &State, resource: ResourceRef, record: Outgoing<'_>, was_open: bool) -> Option<String> {
    let operation = state.desk.outgoing.get(&sent_as(&resource));
    let provable = state.desk.style.proof_after.is_some();
    let failed = matches!(record.state, OutgoingState::Failed(_));
    let decided = matches!(record.state, OutgoingState::Failed(failure) if failure.code == RESOLVED_FAILED);
    let in_review = *record.state == OutgoingState::NeedsReview;
    let fails = |right: bool, what: &str| (!right).then(|| what.to_owned());
    match operation {
        None if provable => fails(failed, "the provider never had it, and says so: it should have failed"),
        // That it failed for a reason was judged when it did.
        None => fails(failed || in_review, "nobody can know it: it should be in review, or never sent"),
        Some(Operation { fate: Fate::Fail, .. }) => fails(failed, "the provider failed it"),
        Some(Operation { fate: Fate::Refuse, refusal_heard, .. }) => {
            let known = provable || state.desk.style.remembers_refusals;
            if known {
                return fails(failed, "the provider refused it, and says so");
            }
            fails(
                in_review || (failed && (*refusal_heard || decided)),
                "nobody can know that it was refused: it should be in review",
            )
        }
        Some(operation) => {
            let (known, told) = (operation.returned, operation.returned_told);
            let returned = record.returned;
            let right = if was_open { returned == known } else { told <= returned && returned <= known };
            if !right {
                return Some(format!("{returned} came back, it should be {known} ({told} by callback)"));
            }
            let whole = returned == operation.amount.cents();
            let right = match record.state {
                OutgoingState::Completed => !whole,
                OutgoingState::Returned => whole,
                _ => false,
            };
            fails(right, "the provider has executed it")
        }
    }
}

fn wrong_charge(state: &State, charge: &Charge, was_open: bool) -> Option<String> {
    let made = state.desk.charges.get(&charge.id.0).filter(|made| !made.refused);
    let credited = |key: &str| {
        let credited = state.model.receipts.get(&(charge.integrator_id, key.to_owned()));
        credited == Some(&charge.resource())
    };
    for paid in made.into_iter().flat_map(|made| &made.payments) {
        if (was_open || paid.told) && !credited(&paid.payment.key.to_text()) {
            return Some(format!("a payment of {} is not credited", paid.payment.amount));
        }
    }
    if let Some(wrong) = wrongly_taken_back(state, charge, was_open) {
        return Some(wrong);
    }
    let payments = state.model.receipts.values().filter(|of| **of == charge.resource()).count();
    let right = match charge.state {
        ChargeState::Paid => payments > 0,
        ChargeState::Expired => payments == 0 && made.is_some(),
        // That they are so for a reason was judged when they became it.
        ChargeState::Canceled | ChargeState::Failed(_) => payments == 0,
        ChargeState::Creating | ChargeState::Pending => false,
    };
    let told = charge.credited.as_ref().map_or(0, |credited| credited.payments);
    let same = usize::try_from(told) == Ok(payments);
    (!right || !same).then(|| format!("it has {payments} payments, and says {told}"))
}

/// What the provider sent back by itself is taken back: less only by what a refund that nobody knows the end of may be.
fn wrongly_taken_back(state: &State, charge: &Charge, was_open: bool) -> Option<String> {
    let made = state.desk.charges.get(&charge.id.0)?;
    let sent_back = if was_open { made.forced } else { made.forced_told };
    let least = sent_back.get() - charge.refund_reserved.get();
    let taken = charge.taken_back.get();
    (taken < least || taken > made.forced.get())
        .then(|| format!("{taken} is taken back, the provider sent {} back by itself", made.forced))
}

fn schedule(
    fees: &BTreeMap<IntegratorId, Vec<FeeSchedule>>,
    owner: IntegratorId,
    version: u32,
) -> Option<FeeSchedule> {
    let set = fees.get(&owner).into_iter().flatten().find(|schedule| schedule.version == version).cloned();
    set.or_else(|| (version == 0).then(FeeSchedule::free))
}

fn wrong_fee(
    fees: &BTreeMap<IntegratorId, Vec<FeeSchedule>>,
    resource: ResourceRef,
    record: Outgoing<'_>,
) -> Option<String> {
    let operation = if resource.kind == ResourceKind::Refund { Fee::Refund } else { Fee::CashOut };
    let schedule = schedule(fees, resource.integrator_id, record.fee_version)?;
    let expected = schedule.rule(operation).fee(record.amount);
    (expected != record.fee).then(|| format!("its fee is {}, by its schedule {expected}", record.fee))
}

/// The payments on a charge that are credited to it.
fn credited_on<'a>(state: &'a State, charge: &'a Charge) -> impl Iterator<Item = &'a Payment> {
    let made = state.desk.charges.get(&charge.id.0);
    made.into_iter().flat_map(|made| &made.payments).map(|paid| &paid.payment).filter(move |payment| {
        let key = (charge.integrator_id, payment.key.to_text());
        state.model.receipts.get(&key) == Some(&charge.resource())
    })
}

fn wrong_charge_fee(
    fees: &BTreeMap<IntegratorId, Vec<FeeSchedule>>,
    state: &State,
    charge: &Charge,
) -> Option<String> {
    let schedule = schedule(fees, charge.integrator_id, charge.fee_version)?;
    let (mut sum, mut fee) = (0, 0);
    for payment in credited_on(state, charge) {
        sum += payment.amount.cents().get();
        fee += schedule.rule(Fee::CashIn).fee_within(payment.amount).get();
    }
    let said = charge.credited.as_ref().map_or((0, 0), |said| (said.amount_paid.get(), said.fee.get()));
    (said != (sum, fee)).then(|| format!("it says {said:?} of payments and fees, they are {:?}", (sum, fee)))
}

/// A share is what the payments on its charge call for, and of it is taken back what belongs to what went back of them. No
/// charge has more than one.
fn wrong_share(
    fees: &BTreeMap<IntegratorId, Vec<FeeSchedule>>,
    state: &State,
    charge: &Charge,
) -> Option<String> {
    let share = charge.split.first()?;
    let schedule = schedule(fees, charge.integrator_id, charge.fee_version)?;
    let rule = schedule.rule(Fee::CashIn);
    let net = |payment: &Payment| payment.amount.cents().get() - rule.fee_within(payment.amount).get();
    let nets: Vec<i64> = credited_on(state, charge).map(net).collect();
    let brought: i64 = match &share.part {
        Part::Percentage(_) => nets.iter().map(|net| net * SHARE_OF_A_MILLION / 1_000_000).sum(),
        Part::Amount(most) => nets.iter().sum::<i64>().min(most.cents().get()),
    };
    let (paid, back) = (charge.amount_paid().get(), charge.sent_back().get());
    let part = |of: i64| if paid > 0 { (brought * of + paid - 1) / paid } else { 0 };
    // What went back before a further payment was a part of less; a refund takes what is there, and a centavo is rounded
    // for refunds and for what is forced.
    let plain = nets.len() <= 1 && charge.refunded.is_zero();
    let (least, most) = if plain { (part(back), part(back)) } else { (0, brought) };
    let (amount, taken_back) = (share.amount.get(), share.taken_back.get());
    let right = amount == brought && (least..=most).contains(&taken_back);
    (!right).then(|| {
        format!("it gave {amount} and took back {taken_back}; it should be {brought}, and {least} to {most}")
    })
}

/// What one integrator was given is what another one gave.
fn torn(world: &World) -> Option<String> {
    world.torn().first().map(|difference| format!("between integrators: {}", difference.what))
}

/// The books are right in themselves, and are what was committed.
fn books(world: &World) -> Option<String> {
    for (owner, book, findings) in world.books() {
        if let Some(difference) = audit::check(owner, &book).first() {
            return Some(format!("the audit says: {}", difference.what));
        }
        let charges = book.charges.iter().map(|charge| Record::Charge(Box::new(charge.clone())));
        let withdrawals = book.withdrawals.iter().map(|record| Record::Withdrawal(Box::new(record.clone())));
        let refunds = book.refunds.iter().map(|record| Record::Refund(Box::new(record.clone())));
        let splits = book.splits.iter().map(|record| Record::Split(Box::new(record.clone())));
        let all = charges.chain(withdrawals).chain(refunds).chain(splits);
        let stored: BTreeMap<ResourceRef, Record> = all.map(|record| (record.resource(), record)).collect();
        let wrong = world.sim.with(|state| {
            let model = &state.model;
            let committed = model.records.iter().filter(|(resource, _)| resource.integrator_id == owner);
            for (resource, record) in committed.clone() {
                if stored.get(resource) != Some(record) {
                    return Some(format!("{} is not stored as it was committed", short(*resource)));
                }
            }
            if committed.count() != stored.len() {
                return Some("there are records that were never committed".into());
            }
            let postings: Vec<Posting> = book.entries.iter().map(|entry| entry.posting).collect();
            if model.postings.get(&owner).map_or(&[][..], Vec::as_slice) != postings {
                return Some("the book is not what was posted".into());
            }
            None
        });
        let again = |charge: &&Charge| charge.credited.as_ref().is_some_and(|credited| credited.payments > 1);
        let untold = book.charges.iter().filter(again).find(|charge| {
            !findings.iter().any(|found| found.resource == charge.resource() && found.code == "paid_again")
        });
        let untold = untold
            .map(|charge| format!("{}: no finding tells that it was paid again", short(charge.resource())));
        if let Some(wrong) = wrong.or(untold) {
            return Some(wrong);
        }
    }
    None
}

/// What came in and did not go out is what the books say there is: to the centavo.
fn cash(world: &World) -> Option<String> {
    world.sim.with(|state| {
        let (mut cash, mut booked): (BTreeMap<IntegratorId, i64>, BTreeMap<IntegratorId, i64>) =
            Default::default();
        for (resource, record) in &state.model.records {
            let cash = cash.entry(resource.integrator_id).or_default();
            match record {
                Record::Charge(charge) => {
                    let hidden = state.desk.forced_cents(resource.id) - charge.taken_back.get();
                    // What a refund without end may be is judged with the charge.
                    let hidden = if charge.refund_reserved.is_zero() { 0 } else { hidden };
                    *cash += state.desk.paid_cents(resource.id) - state.desk.forced_cents(resource.id);
                    *cash += hidden;
                    *cash -= charge.split.iter().map(|share| share.kept().get()).sum::<i64>();
                }
                // No cash at all: what one has more another has less.
                Record::Split(split) => *cash += split.kept().get(),
                _ => *cash -= state.desk.outgoing.get(&sent_as(resource)).map_or(0, gone_cents),
            }
        }
        for (owner, postings) in &state.model.postings {
            let clearing = |posting: &Posting| posting.effect_cents(pix_domain::wallet::Account::Clearing);
            booked.insert(*owner, -postings.iter().map(clearing).sum::<i64>());
        }
        let nobodys =
            state.desk.outgoing.keys().find(|reference| {
                !state.model.records.keys().any(|resource| sent_as(resource) == **reference)
            });
        if let Some(reference) = nobodys {
            return Some(format!("money of {} was sent, and there is no record of it", number(*reference)));
        }
        cash.iter().find_map(|(owner, cash)| {
            let booked = booked.get(owner).copied().unwrap_or(0);
            (booked != *cash).then(|| format!("the provider holds {cash} centavos, the books say {booked}"))
        })
    })
}

fn gone_cents(operation: &Operation) -> i64 {
    if operation.fate != Fate::Complete {
        return 0;
    }
    operation.amount.cents().get() * i64::from(operation.executions) - operation.returned.get()
}

/// What each client was told is so.
fn history(world: &World) -> Option<String> {
    let records = world.sim.with(|state| state.model.records.clone());
    let mut answered: BTreeMap<(IntegratorId, ResourceKind, String), Uuid> = BTreeMap::new();
    for (place, intent) in world.intents.iter().enumerate() {
        let (name, key) = intent.command.handles();
        let handles = name.map(|name| format!("name {name}")).into_iter();
        let handles: Vec<String> = handles.chain(key.map(|key| format!("key {}", key.as_str()))).collect();
        for told in &intent.told {
            let wrong = match told {
                Told::Ok(told) => wrong_answer(&records, intent, told).or_else(|| {
                    handles.iter().find_map(|handle| {
                        let owner = intent.command.integrator_id();
                        let handle = (owner, intent.command.kind(), handle.clone());
                        let id = told.resource().id;
                        let first = *answered.entry(handle).or_insert(id);
                        (first != id).then(|| "one handle is answered with two records".to_owned())
                    })
                }),
                Told::Refused(error) => world.sim.with(|state| wrong_refusal(state, intent, error)),
            };
            if let Some(wrong) = wrong {
                return Some(format!("intent {place}: {wrong}"));
            }
        }
        if let Some(wrong) = wrong_count(&records, intent) {
            return Some(format!("intent {place}: {wrong}"));
        }
    }
    None
}

fn wrong_answer(records: &BTreeMap<ResourceRef, Record>, intent: &Intent, told: &Record) -> Option<String> {
    let Some(stored) = records.get(&told.resource()) else {
        return Some(format!("it was told of the {}, which is lost", short(told.resource())));
    };
    if stored.version() < told.version() {
        return Some(format!("the {} went back to an earlier version", short(told.resource())));
    }
    if tag(stored) != intent.command.tag() {
        return Some("it was answered with what somebody else had asked for".into());
    }
    let amount = match stored {
        Record::Charge(charge) => charge.amount,
        other => outgoing(other)?.amount,
    };
    if intent.command.amount().is_some_and(|asked| asked != amount) {
        return Some("it was answered with another amount".into());
    }
    let changed = state_name(told) != state_name(stored) && is_final(told);
    changed.then(|| changed_though_final(told, stored)).flatten()
}

fn wrong_refusal(state: &State, intent: &Intent, error: &ServiceError) -> Option<String> {
    let (name, key) = intent.command.handles();
    let (owner, kind) = (intent.command.integrator_id(), intent.command.kind());
    let by_key = key.and_then(|key| state.model.handles.get(&(owner, kind, key.clone())));
    let by_key =
        by_key.and_then(|id| state.model.records.get(&ResourceRef { integrator_id: owner, kind, id: *id }));
    let by_name = name.and_then(|name| {
        let named = |record: &&Record| match record {
            Record::Charge(charge) => charge.external_id == *name,
            Record::Withdrawal(withdrawal) => withdrawal.external_id == *name,
            Record::Refund(refund) => refund.external_id == *name,
            Record::Split(_) => false,
        };
        let alike = |record: &&Record| {
            let resource = record.resource();
            resource.integrator_id == owner && resource.kind == kind
        };
        state.model.records.values().filter(alike).find(named)
    });
    let holder = match error {
        ServiceError::IdempotencyMismatch => by_key,
        ServiceError::ExternalIdConflict => by_name,
        _ => return None,
    };
    match holder {
        None => Some("its handle was refused, and nobody has it".into()),
        Some(record) if tag(record) == intent.command.tag() => Some("its own handle was refused".into()),
        Some(_) => None,
    }
}

/// What a client asked for was made once if it had a handle, and at most once a request that was not refused else.
fn wrong_count(records: &BTreeMap<ResourceRef, Record>, intent: &Intent) -> Option<String> {
    let command = &intent.command;
    let of_owner = records.iter().filter(|(resource, _)| {
        resource.integrator_id == command.integrator_id() && resource.kind == command.kind()
    });
    let made: BTreeSet<Uuid> = of_owner
        .filter(|(_, record)| tag(record) == command.tag())
        .map(|(resource, _)| resource.id)
        .collect();
    let nothing = intent
        .told
        .iter()
        .filter(|told| matches!(told, Told::Refused(error) if means_nothing_was_done(error)));
    let asked = usize::try_from(intent.asked).unwrap_or(usize::MAX);
    let may_have_made = asked.saturating_sub(nothing.count());
    let most = if command.has_handle() { may_have_made.min(1) } else { may_have_made };
    if made.len() > most {
        let kind = command.kind().as_str();
        return Some(format!(
            "it has {} {kind} records, and at most {most} of its requests can have made one",
            made.len()
        ));
    }
    None
}
