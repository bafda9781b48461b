//! The one statement that applies payments of charges, which is most of what happens to a wallet.
//!
//! `statement` can apply whatever there is. This one applies what [`Settling::of`] finds in a transition and nothing else:
//! the first payment of a charge, by one PIX of the amount that was asked for. It is the same change, in the same order of
//! locks, with half of the work for the server: a row an entry in the arrays, of what a payment changes alone; and a record
//! is found, compared with what is expected of it, locked and changed in one step.
//!
//! | Step | Locks | Does |
//! |---|---|---|
//! | `paid` | the charges, in the order of their keys | changes those that are as they were read, whose PIX nobody has credited, and whose wallet is there |
//! | the follow-ups, deliveries | | what is of a locked charge alone |
//! | `_wallets` | the wallets, in the order of their keys | adds what was paid, and says what is in them after the group |
//! | `numbered` | | from that, what was in them before each payment |
//! | the rest | | postings, events, receipts |
//!
//! The answer is the numbers of those that were paid. Why another one was not is for `statement` to say: it is sent there.

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{Array, Integer};
use pix_domain::charges::{Charge, ChargeState, Credited, Receipt};
use pix_domain::ids::{IntegratorId, ResourceKind};
use pix_domain::postbacks::events::Told;
use pix_domain::transition::{EventKind, Guard, Record, Transition};
use pix_domain::wallet::Reason;
use uuid::Uuid;

use super::columns::{Form, Payments, push_named};
use crate::codec::{self, DbId, DbTime};
use crate::rows::snapshot_text;

/// A transition that is the first payment of a charge and nothing else.
#[derive(Debug)]
pub struct Settling<'a> {
    transition: &'a Transition,
    charge: &'a Charge,
    credited: &'a Credited,
    receipt: &'a Receipt,
    told: Told,
}

impl<'a> Settling<'a> {
    /// The payment that a transition is; `None` when it is anything else, or does anything besides.
    pub fn of(transition: &'a Transition) -> Option<Self> {
        let Transition {
            integrator_id: _,
            at: _,
            writes,
            postings,
            receipt,
            handle,
            twins,
            evidence,
            findings,
            parts,
        } = transition;
        let is_alone = parts.is_empty() && findings.is_empty() && evidence.is_empty() && twins.is_empty();
        let ([write], Some(receipt), None, true) = (writes.as_slice(), receipt, handle, is_alone) else {
            return None;
        };
        let Record::Charge(charge) = &write.record else { return None };
        let credited = charge.credited.as_ref()?;
        let payment = &receipt.payment;
        let is_first = write.event == EventKind::ChargePaid
            && write.guard != Guard::Absent
            && write.follow_up.is_none()
            && charge.state == ChargeState::Paid
            && charge.split.is_empty()
            && charge.updated_at == transition.at
            && [charge.refund_reserved, charge.refunded, charge.taken_back].iter().all(|gone| gone.is_zero())
            && receipt.charge_id == charge.id
            && credited.payments == 1
            && credited.amount_paid == payment.amount.cents()
            && credited.first == payment.key
            && credited.paid_at == payment.paid_at;
        let moved = [(Reason::ChargePaid, credited.amount_paid), (Reason::ChargeFee, credited.fee)];
        let moved = moved.into_iter().filter(|(_, cents)| !cents.is_zero());
        let moves_that = postings.len() == moved.clone().count()
            && postings.iter().zip(moved).all(|(posting, (reason, cents))| {
                posting.reason == reason
                    && (posting.debit, posting.credit) == reason.accounts()
                    && posting.amount == cents
                    && posting.resource == charge.resource()
            });
        let mut told = transition.told();
        let (Some(told), None) = (told.next(), told.next()) else { return None };
        let tells_that = told.moved == credited.amount_paid && told.related.is_none();
        (is_first && moves_that && tells_that).then_some(Self { transition, charge, credited, receipt, told })
    }

    /// Whether somebody is told of it at a postback URL.
    pub const fn is_delivered(&self) -> bool {
        self.told.lane.is_some()
    }
}

/// Payments of different charges as one statement. `LONE`: whether it is one payment, which is sent as plain values;
/// `DELIVERED`: whether any is told of at a postback URL. Four statements, each with a text that never changes.
#[derive(Debug)]
pub struct Payment<const LONE: bool, const DELIVERED: bool> {
    payments: Payments,
}

impl<const LONE: bool, const DELIVERED: bool> Payment<LONE, DELIVERED> {
    /// The statement for `settlings`, each with the number that its event will carry. Each MUST have passed `check_shape`,
    /// and no two may be of the same charge or the same PIX.
    pub fn new(settlings: &[(Settling<'_>, Uuid)]) -> Self {
        // Charges and wallets are locked in the order of their keys.
        let mut order: Vec<usize> = (0..settlings.len()).collect();
        order.sort_unstable_by_key(|place| settlings.get(*place).map(|(of, _)| of.charge.resource()));
        let mut payments = Payments::default();
        let mut last: Option<IntegratorId> = None;
        let mut wallet = 0_i32;
        for place in order {
            let Some((of, id)) = settlings.get(place) else { continue };
            if last.replace(of.transition.integrator_id) != Some(of.transition.integrator_id) {
                wallet = wallet.saturating_add(1);
            }
            payments.push(i32::try_from(place).unwrap_or(i32::MAX), wallet, of, *id);
        }
        Self { payments }
    }
}

impl Payments {
    fn push(&mut self, ord: i32, wallet: i32, of: &Settling<'_>, id: Uuid) {
        let payment = &of.receipt.payment;
        self.ord.push(ord);
        self.wallet.push(wallet);
        self.integrator_id.push(of.transition.integrator_id.into());
        self.id.push(DbId(of.charge.id.0));
        self.version.push(of.charge.version.0.into());
        self.amount_cents.push(of.credited.amount_paid.get());
        self.fee_cents.push(of.credited.fee.get());
        self.receipt_key.push(payment.key.to_text());
        self.paid_at.push(DbTime(payment.paid_at));
        self.payer_name.push(codec::name_of(&payment.payer));
        self.payer_document.push(codec::document_of(&payment.payer));
        self.paid_by_name.push(codec::name_of(&of.credited.paid_by));
        self.paid_by_document.push(codec::document_of(&of.credited.paid_by));
        self.late.push(of.credited.late);
        self.created_at.push(DbTime(of.transition.at));
        self.transition_id.push(DbId(id));
        self.snapshot.push(snapshot_text(&of.told.snapshot));
        self.lane.push(of.told.lane.map(|lane| DbId(lane.0)));
    }
}

impl<const LONE: bool, const DELIVERED: bool> QueryId for Payment<LONE, DELIVERED> {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl<const LONE: bool, const DELIVERED: bool> Query for Payment<LONE, DELIVERED> {
    type SqlType = Array<Integer>;
}

impl<const LONE: bool, const DELIVERED: bool, Conn> diesel::query_dsl::RunQueryDsl<Conn>
    for Payment<LONE, DELIVERED>
{
}

impl<const LONE: bool, const DELIVERED: bool> QueryFragment<Pg> for Payment<LONE, DELIVERED> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH ");
        self.walk_charges(&mut out)?;
        // The server runs what changes something from the end of the list to its beginning: see `statement`.
        push_receipts(&mut out);
        push_wallets(&mut out);
        push_booked(&mut out);
        push_of_charges(DELIVERED, &mut out);
        out.push_sql(" SELECT coalesce(array_agg(ord), '{}') FROM paid");
        Ok(())
    }
}

impl<const LONE: bool, const DELIVERED: bool> Payment<LONE, DELIVERED> {
    /// `paid`.
    fn walk_charges<'b>(&'b self, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(&format!(
            "paid AS (UPDATE charges AS t SET version = n.version, state = '{}', failure_code = NULL, \
             failure_message = NULL, amount_paid_cents = n.amount_cents, paid_fee_cents = n.fee_cents, \
             first_receipt_key = n.receipt_key, paid_by_name = n.paid_by_name, paid_by_document = n.paid_by_document, \
             paid_at = n.paid_at, late = n.late, payments = 1, updated_at = n.created_at, follow_up_at = NULL, \
             follow_up_attempts = 0 FROM (",
            ChargeState::Paid.name()
        ));
        self.payments.walk_rows(if LONE { Form::Plain } else { Form::Arrays }, out)?;
        push_named(") AS n", Payments::COLUMNS, out);
        // The two that are looked up are subqueries with a limit, which aren't flattened into joins: they come before the
        // charge is looked for.
        out.push_sql(
            " WHERE t.integrator_id = n.integrator_id AND t.id = n.id AND t.version = n.version - 1 \
             AND (SELECT true FROM receipts r WHERE r.integrator_id = n.integrator_id \
             AND r.receipt_key = n.receipt_key LIMIT 1) IS NULL \
             AND (SELECT true FROM wallets w WHERE w.integrator_id = n.integrator_id LIMIT 1) \
             RETURNING n.ord, n.wallet, n.integrator_id, n.id, n.version, n.amount_cents, n.fee_cents, n.receipt_key, \
             n.paid_at, n.payer_name, n.payer_document, n.created_at, n.transition_id, n.snapshot, n.lane), ",
        );
        Ok(())
    }
}

/// What was received: the first of each charge.
fn push_receipts(out: &mut AstPass<'_, '_, Pg>) {
    out.push_sql(
        "_receipts AS (INSERT INTO receipts (integrator_id, receipt_key, charge_id, number, amount_cents, paid_at, \
         payer_name, payer_document, created_at) SELECT integrator_id, receipt_key, id, 1, amount_cents, paid_at, \
         payer_name, payer_document, created_at FROM paid), ",
    );
}

/// `_wallets`, and from what is in them after the group, `numbered`: what was in them before each payment.
fn push_wallets(out: &mut AstPass<'_, '_, Pg>) {
    out.push_sql(
        "_wallets AS (INSERT INTO wallets (integrator_id, available_cents, held_cents, entries, owed_cents, told) \
         SELECT integrator_id, sum(amount_cents - fee_cents)::bigint, 0, \
         count(*) + count(*) FILTER (WHERE fee_cents > 0), 0, count(*) FROM paid \
         GROUP BY integrator_id ORDER BY integrator_id ON CONFLICT (integrator_id) DO UPDATE SET \
         available_cents = wallets.available_cents + excluded.available_cents, \
         entries = wallets.entries + excluded.entries, told = wallets.told + excluded.told \
         RETURNING integrator_id, available_cents, held_cents, entries, told), \
         purse AS MATERIALIZED (SELECT array_agg(available_cents ORDER BY integrator_id) AS available, \
         array_agg(held_cents ORDER BY integrator_id) AS held, array_agg(entries ORDER BY integrator_id) AS entries, \
         array_agg(told ORDER BY integrator_id) AS told FROM _wallets), \
         numbered AS MATERIALIZED (SELECT m.*, \
         ((SELECT available FROM purse))[place] - available_on AS available_before, \
         ((SELECT held FROM purse))[place] AS held, ((SELECT entries FROM purse))[place] - entries_on AS entries_before, \
         ((SELECT told FROM purse))[place] - told_on + 1 AS number FROM (\
         SELECT p.*, dense_rank() OVER (ORDER BY wallet) AS place, \
         (sum(amount_cents - fee_cents) OVER on_from)::bigint AS available_on, \
         count(*) OVER on_from + count(*) FILTER (WHERE fee_cents > 0) OVER on_from AS entries_on, \
         count(*) OVER on_from AS told_on FROM paid p WINDOW on_from AS (PARTITION BY wallet ORDER BY ord DESC \
         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) m), ",
    );
}

/// What is numbered in the wallets: postings and events.
fn push_booked(out: &mut AstPass<'_, '_, Pg>) {
    let charge = ResourceKind::Charge.as_str();
    let posting = |reason: Reason, number: u8, cents: &str, after: &str, rest: &str| {
        let (debit, credit) = reason.accounts();
        format!(
            "SELECT integrator_id, entries_before + {number}, '{}', '{}', {cents}, '{}', '{charge}', id, \
             available_before + {after}, held, created_at FROM numbered{rest}",
            debit.as_str(),
            credit.as_str(),
            reason.as_str()
        )
    };
    out.push_sql(&format!(
        "_postings AS (INSERT INTO postings (integrator_id, entry, debit, credit, amount_cents, reason, \
         resource_kind, resource_id, available_after_cents, held_after_cents, created_at) {} UNION ALL {}), \
         _told AS (INSERT INTO events (integrator_id, resource_kind, resource_id, sequence, kind, created_at, \
         transition_id, number, moved_cents, snapshot) SELECT integrator_id, '{charge}', id, version, '{}', \
         created_at, transition_id, number, amount_cents, snapshot FROM numbered), ",
        posting(Reason::ChargePaid, 1, "amount_cents", "amount_cents", ""),
        posting(Reason::ChargeFee, 2, "fee_cents", "amount_cents - fee_cents", " WHERE fee_cents > 0"),
        EventKind::ChargePaid.as_str()
    ));
}

/// What is of a locked charge alone.
fn push_of_charges(delivered: bool, out: &mut AstPass<'_, '_, Pg>) {
    out.push_sql(
        "_follow_ups AS (DELETE FROM charge_follow_ups f USING paid p WHERE f.integrator_id = p.integrator_id \
         AND f.id = p.id)",
    );
    if delivered {
        out.push_sql(&format!(
            ", _deliveries AS (INSERT INTO deliveries (integrator_id, resource_kind, resource_id, sequence, lane, \
             state, due_at, attempts, claims, created_at) SELECT integrator_id, '{}', id, version, lane, \
             'waiting', created_at, 0, 0, created_at FROM paid WHERE lane IS NOT NULL)",
            ResourceKind::Charge.as_str()
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pix_domain::charges::{NewCharge, state};
    use pix_domain::end_to_end::EndToEndId;
    use pix_domain::fees::{FeeRule, Percent};
    use pix_domain::ids::ChargeId;
    use pix_domain::metadata::Metadata;
    use pix_domain::money::{Amount, Cents};
    use pix_domain::postbacks::events::PostbackScope;
    use pix_domain::provider::{Party, Payment, ProviderBody, ProviderId, ReceiptKey, Ticket};
    use pix_domain::text::ExternalId;
    use pix_domain::time::Timestamp;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn charge() -> Charge {
        let new = NewCharge {
            id: ChargeId(Uuid::from_u128(7)),
            integrator_id: IntegratorId(Uuid::from_u128(1)),
            external_id: ExternalId::parse("order-7").unwrap(),
            external_id_given: true,
            amount: Amount::from_cents(1_000).unwrap(),
            payer: Party::default(),
            payer_email: None,
            payer_question: None,
            metadata: Metadata::default(),
            postback_url: None,
            postback_scope: PostbackScope::Outcomes,
            expires_in: Duration::from_mins(1),
            split: Vec::new(),
            fee_version: 0,
        };
        let provider_id = ProviderId::parse("provider-7").unwrap();
        let ticket = Ticket { provider_id, qrcode: "qr".into(), body: ProviderBody("{}".into()) };
        state::open(new, ticket, at(0)).charge().unwrap().clone()
    }

    fn payment(letter: char, cents: i64) -> Payment {
        let id = format!("E12345678202611211200000{}", letter.to_string().repeat(8));
        Payment {
            key: ReceiptKey::EndToEnd(EndToEndId::parse(&id).unwrap()),
            amount: Amount::from_cents(cents).unwrap(),
            paid_at: at(1),
            payer: Party::default(),
        }
    }

    fn paid(charge: Charge, letter: char, cents: i64) -> Transition {
        let fee = FeeRule::new(Cents::new(3).unwrap(), Percent::zero(), Cents::ZERO, None).unwrap();
        charge.pay(payment(letter, cents), &fee, at(2)).next().unwrap()
    }

    fn is_payment(transition: &Transition) -> bool {
        Settling::of(transition).is_some()
    }

    #[test]
    fn the_first_payment_of_a_charge_is_one() {
        assert!(is_payment(&paid(charge(), 'a', 1_000)));
        // A late one.
        let late = Charge { state: ChargeState::Expired, ..charge() };
        assert!(is_payment(&paid(late, 'a', 1_000)));
        let free = charge().pay(payment('a', 1_000), &FeeRule::free(), at(2)).next().unwrap();
        assert!(is_payment(&free));
    }

    #[test]
    fn what_does_anything_besides_is_none() {
        let first = paid(charge(), 'a', 1_000);
        let charge_paid = first.charge().unwrap().clone();
        // These leave findings.
        assert!(!is_payment(&paid(charge(), 'a', 999)));
        assert!(!is_payment(&paid(charge_paid.clone(), 'b', 1_000)));
        assert!(!is_payment(&charge().cancel(at(2)).next().unwrap()));
        let changes: [fn(&mut Transition); 9] = [
            |of| of.parts.push(of.clone()),
            |of| of.receipt = None,
            |of| of.writes.extend(of.writes.clone()),
            |of| of.writes.clear(),
            |of| of.postings.truncate(1),
            |of| of.postings.reverse(),
            |of| of.postings.iter_mut().for_each(|posting| posting.amount = Cents::new(5).unwrap()),
            |of| of.writes.iter_mut().for_each(|write| write.follow_up = Some(at(9))),
            |of| of.writes.iter_mut().for_each(|write| write.guard = Guard::Absent),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut other = first.clone();
            change(&mut other);
            assert!(!is_payment(&other), "{number}");
        }
        let mut of_another = first.clone();
        let receipt = of_another.receipt.as_mut().unwrap();
        receipt.payment.key = payment('b', 1_000).key;
        assert!(!is_payment(&of_another));
    }

    /// The statement leaves the other columns as they are.
    #[test]
    fn a_payment_changes_nothing_of_a_charge_but_what_is_written() {
        let unconfirmed = Charge { state: ChargeState::Creating, ticket: None, ..charge() };
        let canceled = Charge { state: ChargeState::Canceled, ..charge() };
        for before in [charge(), unconfirmed, canceled] {
            let transition = paid(before.clone(), 'a', 1_000);
            assert!(is_payment(&transition));
            let after = transition.charge().unwrap().clone();
            assert!(after.credited.is_some() && after.state == ChargeState::Paid);
            let back = Charge {
                version: before.version,
                state: before.state.clone(),
                credited: None,
                updated_at: before.updated_at,
                ..after
            };
            assert_eq!(back, before);
        }
    }

    #[test]
    fn charges_and_wallets_are_locked_in_the_order_of_their_keys() {
        let of = |owner: u128, id: u128| {
            let (owner, id) = (IntegratorId(Uuid::from_u128(owner)), ChargeId(Uuid::from_u128(id)));
            paid(Charge { id, integrator_id: owner, ..charge() }, 'a', 1_000)
        };
        let transitions = [of(2, 1), of(1, 9), of(2, 0), of(1, 3)];
        let payments: Vec<_> =
            transitions.iter().map(|of| (Settling::of(of).unwrap(), Uuid::nil())).collect();
        let Payments { ord, wallet, id, .. } = super::Payment::<false, false>::new(&payments).payments;
        assert_eq!(ord, [3, 1, 2, 0]);
        assert_eq!(wallet, [1, 1, 2, 2]);
        assert_eq!(id, [3, 9, 0, 1].map(|id| DbId(Uuid::from_u128(id))));
    }
}
