//! The one statement that applies transitions.
//!
//! What happens in it, in this order; each step selects from the one before, so a refused transition writes nothing:
//!
//! | Step | Reads and locks | Says |
//! |---|---|---|
//! | `refused` | locks the records that change, by key, in the order given; looks for taken ids, names, handles, receipts, and for wallets that must be there | why a transition can't be |
//! | `guarded` | | one code a transition: 0, or its first refusal |
//! | `purse` | locks the wallets, in the order of their keys | what is in them |
//! | `decided` | | for every transition that moves money: whether it has enough after those before it, and leaves no money beside a debt |
//! | `verdict` | | one code a transition, and the wallet just before it |
//! | the rest | | writes what has code 0 |
//!
//! Within a wallet, transitions are decided in order. The first that lacks money, or doesn't fit what is owed, is refused.
//! One after it may have been counted on money that didn't move, so it is refused only when it could not have had enough
//! in any case, and else [`Code::Again`]: the next group decides it.
//!
//! Transitions that only bring money lack none, whatever is in the wallet: [`Verdict::Credits`]. A group of such, and of
//! those that move none, needs nothing decided about its wallets, and so doesn't lock them before it has changed its
//! records. So one such group changes its records while another one of the same wallet commits. Instead of `purse` and
//! `decided` it has one step that changes its wallets and says what is in them after the group; from that follows what was
//! in them before each. A debt that it would leave money beside breaks the rule of the schema, and undoes the group: then
//! the same group is sent once more, to be weighed.
//!
//! A transition with parts is sent alone, its parts beside it as transitions of their own, and [`Fate::Shared`]: when one of
//! them is refused, all are.
//!
//! Where money is weighed, so is a debt, after each transition, though a CHECK of the schema says the same: that one sees
//! a group's end only, where money that had to pay the debt may have been spent, and it would undo the group of everybody
//! else.
//!
//! Joins are looked up by key (subqueries that can't be flattened, upserts) or by subscript (an array in the place of a
//! table), because a prepared statement keeps the plan that suited its tables when it was first run.

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{Array, Integer};
use pix_domain::error::{ApplyError, StoreError, UniqueKey};
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::events::Told;
use pix_domain::transition::{Guard, Record, Transition};
use pix_domain::wallet::Account;
use uuid::Uuid;

use super::columns::{
    Charges, Deliveries, Events, EvidenceRows, Findings, Form, Handles, Money, Owners, Postings, Read,
    Receipts, Refunds, Splits, ToldEvents, Twins, Wallets, Withdrawals,
};
use crate::codec::{self, DbId, DbTime};
use crate::rows::{ChargeRow, ReceiptRow, RefundRow, SplitRow, TwinRow, WithdrawalRow, snapshot_text};

/// How far apart the codes of two places in a transition are.
const PLACE: i32 = 16;
const NO_INTEGRATOR: i32 = 1;
const STALE: i32 = 1;
const TAKEN_ID: i32 = 2;
const TAKEN_EXTERNAL_ID: i32 = 3;
/// Above every place of a write.
const TAKEN_HANDLE: i32 = 1_000_000;
const TAKEN_RECEIPT: i32 = 1_000_001;
const TAKEN_TWIN: i32 = 1_000_002;
const INSUFFICIENT: i32 = 1_000_003;
const OWING: i32 = 1_000_004;
const AGAIN: i32 = 1_000_005;

/// What the statement says of one transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// It happened, or was refused.
    Decided(Result<(), ApplyError>),
    /// One before it in its wallet was refused: it has to be asked again.
    Again,
}

impl Code {
    fn read(code: i32) -> Self {
        Self::Decided(match code {
            0 => Ok(()),
            NO_INTEGRATOR => Err(rejected("no such integrator")),
            TAKEN_HANDLE => Err(ApplyError::Duplicate(UniqueKey::IdempotencyKey)),
            TAKEN_RECEIPT => Err(ApplyError::Duplicate(UniqueKey::Receipt)),
            TAKEN_TWIN => Err(ApplyError::Duplicate(UniqueKey::Twin)),
            INSUFFICIENT => Err(ApplyError::InsufficientFunds),
            OWING => Err(ApplyError::Owing),
            AGAIN => return Self::Again,
            other => Err(match other % PLACE {
                STALE => ApplyError::Stale,
                TAKEN_ID => ApplyError::Duplicate(UniqueKey::Id),
                TAKEN_EXTERNAL_ID => ApplyError::Duplicate(UniqueKey::ExternalId),
                _ => StoreError::Damaged(format!("the answer of a statement is {other}")).into(),
            }),
        })
    }
}

fn rejected(why: &str) -> ApplyError {
    ApplyError::Store(StoreError::Rejected(why.to_owned()))
}

/// What the refusal of one transition of a statement means to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing: each happens or not on its own.
    Own,
    /// None of them happens.
    Shared,
}

/// How it is decided whether money may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The wallets are locked, and each transition is weighed against what is in them.
    Weighed,
    /// All of them may, since none takes any.
    Credits,
}

/// Whether it takes nothing out of its wallet, at no step, and neither pays nor makes a debt. Whoever numbers an event in a
/// wallet and moves nothing takes nothing. One with a finding is none: findings are numbered, by whoever has the wallet.
pub fn is_credit(transition: &Transition) -> bool {
    let mut available = 0_i64;
    transition.parts.is_empty()
        && transition.findings.is_empty()
        && transition.postings.iter().all(|posting| {
            available = available.saturating_add(posting.effect_cents(Account::Available));
            let moves = |account| posting.effect_cents(account) != 0;
            available >= 0 && !moves(Account::Held) && !moves(Account::Owed)
        })
}

/// Transitions as the rows of one statement. Each MUST have passed `check_shape`, and no two may touch the same record,
/// name, handle or receipt.
#[derive(Debug)]
pub struct Statement {
    form: Form,
    fate: Fate,
    verdict: Verdict,
    transitions: i32,
    new_charges: Charges,
    charges: Charges,
    new_withdrawals: Withdrawals,
    withdrawals: Withdrawals,
    new_refunds: Refunds,
    refunds: Refunds,
    new_splits: Splits,
    splits: Splits,
    owners: Owners,
    wallets: Wallets,
    money: Money,
    postings: Postings,
    events: Events,
    told: ToldEvents,
    deliveries: Deliveries,
    handles: Handles,
    receipts: Receipts,
    findings: Findings,
    twins: Twins,
    evidence: EvidenceRows,
}

impl Statement {
    /// The statement for `transitions`, each with the number that its events will carry. Where all of them only bring
    /// money, they are weighed only when that is asked for.
    pub fn new(transitions: &[(&Transition, Uuid)], form: Form, fate: Fate, weigh: bool) -> Self {
        let credits = transitions.iter().all(|(transition, _)| is_credit(transition));
        // A lone one is weighed: there is nobody beside it, and it is told why it is refused.
        let in_group = transitions.len() > 1 && fate == Fate::Own;
        let verdict = if credits && in_group && !weigh { Verdict::Credits } else { Verdict::Weighed };
        let mut statement = Self::empty(form, fate, verdict);
        // Locks are taken in the order of keys; the rows keep the number of their transition.
        let mut moving: Vec<IntegratorId> = transitions
            .iter()
            .filter(|(transition, _)| transition.takes_wallet())
            .map(|(transition, _)| transition.integrator_id)
            .collect();
        moving.sort_unstable();
        moving.dedup();
        for (index, owner) in moving.iter().enumerate() {
            statement.wallets.wallet.push(subscript(index));
            statement.wallets.integrator_id.push((*owner).into());
        }
        let mut writes = Vec::with_capacity(transitions.len());
        for (index, (transition, id)) in transitions.iter().enumerate() {
            let ord = subscript(index);
            statement.transitions = ord;
            statement.move_money(ord, transition, &moving);
            statement.happen(ord, transition, *id);
            statement.keep(ord, transition);
            writes.extend(transition.writes.iter().enumerate().map(|(place, write)| {
                (write.record.resource(), ord, subscript(place).saturating_mul(PLACE), write)
            }));
        }
        writes.sort_unstable_by_key(|(resource, ..)| *resource);
        for (_, ord, place, write) in writes {
            statement.write(ord, place, write);
        }
        statement.keep_twins(transitions);
        statement
    }

    fn empty(form: Form, fate: Fate, verdict: Verdict) -> Self {
        Self {
            form,
            fate,
            verdict,
            transitions: 0,
            new_charges: Charges::default(),
            charges: Charges::default(),
            new_withdrawals: Withdrawals::default(),
            withdrawals: Withdrawals::default(),
            new_refunds: Refunds::default(),
            refunds: Refunds::default(),
            new_splits: Splits::default(),
            splits: Splits::default(),
            owners: Owners::default(),
            wallets: Wallets::default(),
            money: Money::default(),
            postings: Postings::default(),
            events: Events::default(),
            told: ToldEvents::default(),
            deliveries: Deliveries::default(),
            handles: Handles::default(),
            receipts: Receipts::default(),
            findings: Findings::default(),
            twins: Twins::default(),
            evidence: EvidenceRows::default(),
        }
    }

    fn write(&mut self, ord: i32, place: i32, write: &pix_domain::transition::Write) {
        let new = write.guard == Guard::Absent;
        match &write.record {
            Record::Charge(charge) => {
                let row = ChargeRow::new(charge.as_ref().clone(), write.follow_up);
                if new { &mut self.new_charges } else { &mut self.charges }.push(ord, place, row);
            }
            Record::Withdrawal(withdrawal) => {
                let row = WithdrawalRow::new(withdrawal.as_ref().clone(), write.follow_up);
                if new { &mut self.new_withdrawals } else { &mut self.withdrawals }.push(ord, place, row);
            }
            Record::Refund(refund) => {
                let row = RefundRow::new(refund.as_ref().clone(), write.follow_up);
                if new { &mut self.new_refunds } else { &mut self.refunds }.push(ord, place, row);
            }
            Record::Split(split) => {
                let row = SplitRow::from(split.as_ref().clone());
                if new { &mut self.new_splits } else { &mut self.splits }.push(ord, place, row);
            }
        }
    }

    fn move_money(&mut self, ord: i32, transition: &Transition, moving: &[IntegratorId]) {
        let owner = DbId::from(transition.integrator_id);
        if !transition.takes_wallet() {
            self.owners.ord.push(ord);
            self.owners.integrator_id.push(owner);
            return;
        }
        let (mut available, mut held, mut owed) = (0_i64, 0_i64, 0_i64);
        let (mut least_available, mut least_held, mut least_owed) = (0_i64, 0_i64, 0_i64);
        let mut entries = 0_i64;
        for posting in &transition.postings {
            available = available.saturating_add(posting.effect_cents(Account::Available));
            held = held.saturating_add(posting.effect_cents(Account::Held));
            owed = owed.saturating_sub(posting.effect_cents(Account::Owed));
            least_available = least_available.min(available);
            least_held = least_held.min(held);
            least_owed = least_owed.min(owed);
            entries = entries.saturating_add(1);
            let rows = &mut self.postings;
            rows.ord.push(ord);
            rows.number.push(entries);
            rows.integrator_id.push(owner);
            rows.debit.push(posting.debit.as_str());
            rows.credit.push(posting.credit.as_str());
            rows.amount_cents.push(posting.amount.get());
            rows.reason.push(posting.reason.as_str());
            rows.resource_kind.push(posting.resource.kind.as_str());
            rows.resource_id.push(DbId(posting.resource.id));
            rows.available.push(available);
            rows.held.push(held);
            rows.created_at.push(DbTime(transition.at));
        }
        let wallet = moving.binary_search(&transition.integrator_id).unwrap_or_else(|place| place);
        self.money.ord.push(ord);
        self.money.wallet.push(subscript(wallet));
        self.money.available.push(available);
        self.money.held.push(held);
        self.money.owed.push(owed);
        self.money.entries.push(entries);
        self.money.told.push(i64::try_from(transition.told_count()).unwrap_or(i64::MAX));
        self.money.need_available.push(least_available.saturating_neg());
        self.money.need_held.push(least_held.saturating_neg());
        self.money.need_owed.push(least_owed.saturating_neg());
    }

    fn happen(&mut self, ord: i32, transition: &Transition, id: Uuid) {
        let mut told = transition.told().peekable();
        let mut number = 0_i64;
        for write in &transition.writes {
            if told.peek().is_some_and(|next| next.key.resource == write.record.resource()) {
                number = number.saturating_add(1);
                if let Some(next) = told.next() {
                    self.tell(ord, &next, number, id);
                }
                continue;
            }
            let rows = &mut self.events;
            let resource = write.record.resource();
            rows.ord.push(ord);
            rows.integrator_id.push(resource.integrator_id.into());
            rows.resource_kind.push(resource.kind.as_str());
            rows.resource_id.push(DbId(resource.id));
            rows.sequence.push(write.record.version().0.into());
            rows.kind.push(write.event.as_str());
            rows.created_at.push(DbTime(transition.at));
            rows.transition_id.push(DbId(id));
        }
    }

    fn tell(&mut self, ord: i32, told: &Told, number: i64, id: Uuid) {
        let (owner, kind) = (DbId::from(told.key.resource.integrator_id), told.key.resource.kind.as_str());
        let (resource_id, sequence) = (DbId(told.key.resource.id), i64::from(told.key.sequence.0));
        let rows = &mut self.told;
        rows.ord.push(ord);
        rows.integrator_id.push(owner);
        rows.resource_kind.push(kind);
        rows.resource_id.push(resource_id);
        rows.sequence.push(sequence);
        rows.kind.push(told.kind.as_str());
        rows.created_at.push(DbTime(told.at));
        rows.transition_id.push(DbId(id));
        rows.number.push(number);
        rows.moved_cents.push(told.moved.get());
        rows.related_id.push(told.related.map(DbId));
        rows.snapshot.push(snapshot_text(&told.snapshot));
        if let Some(lane) = told.lane {
            let rows = &mut self.deliveries;
            rows.ord.push(ord);
            rows.integrator_id.push(owner);
            rows.resource_kind.push(kind);
            rows.resource_id.push(resource_id);
            rows.sequence.push(sequence);
            rows.lane.push(DbId(lane.0));
            rows.created_at.push(DbTime(told.at));
        }
    }

    /// The keys of twins, in their order: that of their locks.
    fn keep_twins(&mut self, transitions: &[(&Transition, Uuid)]) {
        let mut twins = Vec::new();
        for (index, (transition, _)) in transitions.iter().enumerate() {
            let owner = DbId::from(transition.integrator_id);
            twins.extend(transition.twins.iter().filter_map(|twin| {
                Some((subscript(index), twin.expected, TwinRow::new(owner, twin, transition.at)?))
            }));
        }
        twins.sort_unstable_by_key(|(_, _, row)| (row.integrator_id, row.key));
        for (ord, expected, row) in twins {
            let rows = &mut self.twins;
            rows.ord.push(ord);
            rows.integrator_id.push(row.integrator_id);
            rows.key.push(row.key);
            rows.resource_id.push(row.resource_id);
            rows.others.push(row.others);
            rows.expected.push(expected.map(DbId));
            rows.created_at.push(row.created_at);
        }
    }

    fn keep(&mut self, ord: i32, transition: &Transition) {
        let (owner, at) = (DbId::from(transition.integrator_id), DbTime(transition.at));
        if let Some(handle) = &transition.handle {
            let rows = &mut self.handles;
            rows.ord.push(ord);
            rows.integrator_id.push(owner);
            rows.kind.push(handle.kind.as_str());
            rows.key.push(handle.key.as_str().to_owned());
            rows.resource_id.push(DbId(handle.id));
            rows.created_at.push(at);
        }
        if let Some(receipt) = &transition.receipt {
            // Numbered by the statement.
            let row = ReceiptRow::new(receipt, 0, transition.at);
            let rows = &mut self.receipts;
            rows.ord.push(ord);
            rows.integrator_id.push(row.integrator_id);
            rows.receipt_key.push(row.receipt_key);
            rows.charge_id.push(row.charge_id);
            rows.amount_cents.push(row.amount_cents);
            rows.paid_at.push(row.paid_at);
            rows.payer_name.push(row.payer_name);
            rows.payer_document.push(row.payer_document);
            rows.created_at.push(row.created_at);
        }
        for evidence in &transition.evidence {
            let rows = &mut self.evidence;
            rows.ord.push(ord);
            rows.integrator_id.push(owner);
            rows.resource_kind.push(evidence.resource.kind.as_str());
            rows.resource_id.push(DbId(evidence.resource.id));
            rows.id.push(DbId(evidence.id));
            rows.kind.push(evidence.kind.as_str());
            rows.proof.push(evidence.proof.as_str());
            rows.detail.push(evidence.detail.clone());
            rows.created_at.push(DbTime(evidence.at));
        }
        for finding in &transition.findings {
            let rows = &mut self.findings;
            let before = rows.integrator_id.iter().filter(|other| **other == owner).count();
            rows.ord.push(ord);
            rows.number.push(i64::from(subscript(before)));
            rows.integrator_id.push(owner);
            rows.resource_kind.push(finding.resource.kind.as_str());
            rows.resource_id.push(DbId(finding.resource.id));
            rows.code.push(finding.code);
            rows.detail.push(finding.detail.clone());
            rows.created_at.push(at);
        }
    }

    /// What the statement's answer says of each transition.
    pub fn read(&self, codes: &[i32]) -> Result<Vec<Code>, StoreError> {
        if i32::try_from(codes.len()).ok() != Some(self.transitions) {
            return Err(codec::damaged("the answer of a statement", "one code a transition"));
        }
        Ok(codes.iter().copied().map(Code::read).collect())
    }
}

/// The place of an element in an array of PostgreSQL.
fn subscript(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX).saturating_add(1)
}

impl QueryId for Statement {
    type QueryId = ();

    // Its text depends on which relations have rows; it is kept by that text.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for Statement {
    type SqlType = Array<Integer>;
}

impl<Conn> diesel::query_dsl::RunQueryDsl<Conn> for Statement {}

impl QueryFragment<Pg> for Statement {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH ");
        self.walk_rows(&mut out)?;
        self.walk_guards(&mut out);
        self.walk_money(&mut out);
        self.walk_writes(&mut out);
        out.push_sql("SELECT codes FROM ");
        out.push_sql(self.codes());
        Ok(())
    }
}

impl Statement {
    fn walk_rows<'b>(&'b self, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        macro_rules! rows {
            ($read:expr, $($relation:ident),+) => {$(
                if !self.$relation.integrator_id.is_empty() {
                    self.$relation.walk(concat!("in_", stringify!($relation)), self.form, $read, out)?;
                    out.push_sql(", ");
                }
            )+};
        }
        let (once, often) = (Read::Once, Read::Often);
        rows!(
            often,
            new_charges,
            charges,
            new_withdrawals,
            withdrawals,
            new_refunds,
            refunds,
            new_splits,
            splits
        );
        rows!(once, owners, wallets, postings, events, told, deliveries, findings, evidence);
        rows!(often, handles, receipts, twins);
        if self.moves_money() {
            let read = if self.verdict == Verdict::Credits { often } else { once };
            self.money.walk("in_money", self.form, read, out)?;
            out.push_sql(", ");
        }
        out.push_sql("numbers(ord) AS MATERIALIZED (SELECT generate_series(1, ");
        out.push_bind_param::<Integer, _>(&self.transitions)?;
        out.push_sql(")), ");
        Ok(())
    }

    fn moves_money(&self) -> bool {
        !self.money.ord.is_empty()
    }

    /// The relation whose one row has the codes that stand.
    const fn codes(&self) -> &'static str {
        match self.verdict {
            Verdict::Weighed => "verdict",
            Verdict::Credits => "guarded",
        }
    }

    /// Whether the code of a row's transition is 0. There is one row of codes, so this is a subscript and no join.
    const fn accepted(&self) -> &'static str {
        match self.verdict {
            Verdict::Weighed => " WHERE ((SELECT codes FROM verdict))[n.ord] = 0",
            Verdict::Credits => " WHERE ((SELECT codes FROM guarded))[n.ord] = 0",
        }
    }

    /// `refused` and `guarded`.
    fn walk_guards(&self, out: &mut AstPass<'_, '_, Pg>) {
        out.push_sql("refused(ord, code) AS MATERIALIZED (SELECT ord, 0 FROM numbers");
        self.walk_record_guards(out);
        if !self.owners.ord.is_empty() {
            out.push_sql(" UNION ALL SELECT n.ord, ");
            push_number(NO_INTEGRATOR, out);
            out.push_sql(
                " FROM in_owners n WHERE (SELECT true FROM wallets w \
                 WHERE w.integrator_id = n.integrator_id LIMIT 1) IS NULL",
            );
        }
        if !self.handles.ord.is_empty() {
            out.push_sql(" UNION ALL SELECT n.ord, ");
            push_number(TAKEN_HANDLE, out);
            out.push_sql(
                " FROM in_handles n WHERE (SELECT true FROM handles t WHERE t.integrator_id = n.integrator_id \
                 AND t.kind = n.kind AND t.key = n.key LIMIT 1)",
            );
        }
        if !self.receipts.ord.is_empty() {
            out.push_sql(" UNION ALL SELECT n.ord, ");
            push_number(TAKEN_RECEIPT, out);
            out.push_sql(
                " FROM in_receipts n WHERE (SELECT true FROM receipts t WHERE t.integrator_id = n.integrator_id \
                 AND t.receipt_key = n.receipt_key LIMIT 1)",
            );
        }
        if !self.twins.ord.is_empty() {
            out.push_sql(" UNION ALL SELECT n.ord, ");
            push_number(TAKEN_TWIN, out);
            out.push_sql(
                " FROM in_twins n WHERE (SELECT t.resource_id FROM twins t WHERE t.integrator_id = n.integrator_id \
                 AND t.key = n.key LIMIT 1 FOR UPDATE) IS DISTINCT FROM n.expected",
            );
        }
        out.push_sql("), guarded(codes) AS MATERIALIZED (SELECT array_agg(");
        self.push_code(out);
        out.push_sql(
            " ORDER BY ord) FROM (\
             SELECT ord, coalesce(min(nullif(code, 0)), 0) AS code",
        );
        self.push_worst("coalesce(min(nullif(code, 0)), 0)", out);
        out.push_sql(" FROM refused GROUP BY ord) g), ");
    }

    /// Where fate is shared, the greatest `code` of all rows.
    fn push_worst(&self, code: &str, out: &mut AstPass<'_, '_, Pg>) {
        if self.fate == Fate::Shared {
            out.push_sql(", max(");
            out.push_sql(code);
            out.push_sql(") OVER () AS worst");
        }
    }

    /// The code of a row of codes; where fate is shared, not 0 unless all of them are.
    fn push_code(&self, out: &mut AstPass<'_, '_, Pg>) {
        match self.fate {
            Fate::Own => out.push_sql("code"),
            Fate::Shared => {
                out.push_sql("CASE WHEN code = 0 AND worst <> 0 THEN ");
                push_number(AGAIN, out);
                out.push_sql(" ELSE code END");
            }
        }
    }

    fn walk_record_guards(&self, out: &mut AstPass<'_, '_, Pg>) {
        for (table, _, none_changes, none_is_new) in self.tables() {
            if !none_changes {
                out.push_sql(" UNION ALL SELECT n.ord, n.place + ");
                push_number(STALE, out);
                out.push_sql(" FROM in_");
                out.push_sql(table);
                out.push_sql(" n WHERE (SELECT true FROM ");
                out.push_sql(table);
                out.push_sql(
                    " t WHERE t.integrator_id = n.integrator_id AND t.id = n.id AND t.version = n.version - 1 \
                     LIMIT 1 FOR UPDATE) IS NULL",
                );
            }
            if !none_is_new {
                // Ids are unique over all integrators, which no key of the schema says.
                let id = (TAKEN_ID, "t.id = n.id");
                let named = "t.integrator_id = n.integrator_id AND t.external_id = n.external_id";
                // A split has no name.
                let name = (table != "splits").then_some((TAKEN_EXTERNAL_ID, named));
                for (code, condition) in std::iter::once(id).chain(name) {
                    out.push_sql(" UNION ALL SELECT n.ord, n.place + ");
                    push_number(code, out);
                    out.push_sql(" FROM in_new_");
                    out.push_sql(table);
                    out.push_sql(" n WHERE (SELECT true FROM ");
                    out.push_sql(table);
                    out.push_sql(" t WHERE ");
                    out.push_sql(condition);
                    out.push_sql(" LIMIT 1)");
                }
            }
        }
    }

    /// `purse`, `decided` and `verdict`.
    fn walk_money(&self, out: &mut AstPass<'_, '_, Pg>) {
        match self.verdict {
            Verdict::Credits => {}
            Verdict::Weighed if self.moves_money() => self.weigh(out),
            Verdict::Weighed => out.push_sql("verdict AS MATERIALIZED (SELECT codes FROM guarded), "),
        }
    }

    fn weigh(&self, out: &mut AstPass<'_, '_, Pg>) {
        out.push_sql(
            "purse AS MATERIALIZED (SELECT array_agg(n.integrator_id ORDER BY n.wallet) AS owners, \
             array_agg(coalesce(w.available_cents, -1) ORDER BY n.wallet) AS available, \
             array_agg(coalesce(w.held_cents, -1) ORDER BY n.wallet) AS held, \
             array_agg(coalesce(w.owed_cents, -1) ORDER BY n.wallet) AS owed, \
             array_agg(coalesce(w.entries, -1) ORDER BY n.wallet) AS entries, \
             array_agg(coalesce(w.told, -1) ORDER BY n.wallet) AS told \
             FROM in_wallets n LEFT JOIN LATERAL (SELECT t.available_cents, t.held_cents, t.owed_cents, t.entries, t.told \
             FROM wallets t WHERE t.integrator_id = n.integrator_id LIMIT 1 FOR UPDATE) w ON true \
             WHERE (SELECT codes FROM guarded) IS NOT NULL), ",
        );
        out.push_sql(
            "ran AS MATERIALIZED (SELECT n.*, ((SELECT available FROM purse))[n.wallet] AS available_at_first, \
             ((SELECT held FROM purse))[n.wallet] AS held_at_first, \
             ((SELECT owed FROM purse))[n.wallet] AS owed_at_first, \
             ((SELECT entries FROM purse))[n.wallet] AS entries_at_first, \
             ((SELECT told FROM purse))[n.wallet] AS told_at_first, \
             coalesce(sum(n.available) OVER earlier, 0)::bigint AS available_so_far, \
             coalesce(sum(n.held) OVER earlier, 0)::bigint AS held_so_far, \
             coalesce(sum(n.owed) OVER earlier, 0)::bigint AS owed_so_far, \
             coalesce(sum(n.entries) OVER earlier, 0)::bigint AS entries_so_far, \
             coalesce(sum(n.told) OVER earlier, 0)::bigint AS told_so_far, \
             coalesce(sum(greatest(n.available, 0)) OVER earlier, 0)::bigint AS available_gained, \
             coalesce(sum(greatest(n.held, 0)) OVER earlier, 0)::bigint AS held_gained \
             FROM in_money n WHERE ((SELECT codes FROM guarded))[n.ord] = 0 \
             WINDOW earlier AS (PARTITION BY n.wallet ORDER BY n.ord \
             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)), ",
        );
        out.push_sql(
            "weighed AS MATERIALIZED (SELECT *, available_at_first + available_so_far < need_available \
             OR held_at_first + held_so_far < need_held AS lacks, owed_at_first + owed_so_far < need_owed \
             OR owed_at_first + owed_so_far + owed > 0 AND available_at_first + available_so_far + available > 0 \
             AS owes FROM ran), \
             decided AS MATERIALIZED (SELECT *, CASE WHEN available_at_first < 0 THEN ",
        );
        push_number(NO_INTEGRATOR, out);
        out.push_sql(
            " WHEN NOT bool_or(lacks OR owes) OVER until THEN 0 \
             WHEN NOT coalesce(bool_or(lacks OR owes) OVER before, false) THEN CASE WHEN lacks THEN ",
        );
        push_number(INSUFFICIENT, out);
        out.push_sql(" ELSE ");
        push_number(OWING, out);
        out.push_sql(" END");
        out.push_sql(
            " WHEN available_at_first + available_gained < need_available OR held_at_first + held_gained < need_held THEN ",
        );
        push_number(INSUFFICIENT, out);
        out.push_sql(" ELSE ");
        push_number(AGAIN, out);
        out.push_sql(
            " END AS code FROM weighed WINDOW until AS (PARTITION BY wallet ORDER BY ord \
             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), before AS (PARTITION BY wallet ORDER BY ord \
             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)), ",
        );
        out.push_sql("verdict AS MATERIALIZED (SELECT array_agg(");
        self.push_code(out);
        out.push_sql(
            " ORDER BY ord) AS codes, \
             array_agg(available ORDER BY ord) AS available, array_agg(held ORDER BY ord) AS held, \
             array_agg(entries ORDER BY ord) AS entries, array_agg(told ORDER BY ord) AS told \
             FROM (SELECT ord, max(code) AS code",
        );
        self.push_worst("max(code)", out);
        out.push_sql(
            ", max(available) AS available, max(held) AS held, max(entries) AS entries, max(told) AS told FROM (\
             SELECT ord, code, available_at_first + available_so_far AS available, \
             held_at_first + held_so_far AS held, entries_at_first + entries_so_far AS entries, \
             told_at_first + told_so_far AS told FROM decided \
             UNION ALL SELECT ord, ((SELECT codes FROM guarded))[ord], -1, -1, -1, -1 FROM numbers) a GROUP BY ord) v), ",
        );
    }

    /// Changes the wallets of credits; `verdict` is what was in them just before each.
    fn credit(&self, out: &mut AstPass<'_, '_, Pg>) {
        out.push_sql(
            "_wallets AS (INSERT INTO wallets (integrator_id, available_cents, held_cents, entries, owed_cents, told) \
             SELECT ((SELECT array_agg(integrator_id ORDER BY wallet) FROM in_wallets))[n.wallet], \
             sum(n.available)::bigint, 0, sum(n.entries)::bigint, 0, sum(n.told)::bigint FROM in_money n",
        );
        out.push_sql(self.accepted());
        // In the order of keys, since each is locked here.
        out.push_sql(
            " GROUP BY n.wallet ORDER BY n.wallet ON CONFLICT (integrator_id) DO UPDATE SET \
             available_cents = wallets.available_cents + excluded.available_cents, \
             entries = wallets.entries + excluded.entries, told = wallets.told + excluded.told \
             RETURNING integrator_id, available_cents, held_cents, entries, told), \
             purse AS MATERIALIZED (SELECT array_agg(available_cents ORDER BY integrator_id) AS available, \
             array_agg(held_cents ORDER BY integrator_id) AS held, array_agg(entries ORDER BY integrator_id) AS entries, \
             array_agg(told ORDER BY integrator_id) AS told FROM _wallets), \
             moved AS MATERIALIZED (SELECT n.ord, dense_rank() OVER (ORDER BY n.wallet) AS place, \
             sum(n.available) OVER on_from AS available, sum(n.entries) OVER on_from AS entries, \
             sum(n.told) OVER on_from AS told FROM in_money n",
        );
        out.push_sql(self.accepted());
        out.push_sql(
            " WINDOW on_from AS (PARTITION BY n.wallet ORDER BY n.ord DESC \
             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)), \
             verdict AS MATERIALIZED (SELECT array_agg(available ORDER BY ord) AS available, \
             array_agg(held ORDER BY ord) AS held, array_agg(entries ORDER BY ord) AS entries, \
             array_agg(told ORDER BY ord) AS told FROM (SELECT ord, max(available)::bigint AS available, \
             max(held) AS held, max(entries)::bigint AS entries, max(told)::bigint AS told FROM (\
             SELECT ord, ((SELECT available FROM purse))[place] - available AS available, \
             ((SELECT held FROM purse))[place] AS held, ((SELECT entries FROM purse))[place] - entries AS entries, \
             ((SELECT told FROM purse))[place] - told AS told FROM moved \
             UNION ALL SELECT ord, -1, -1, -1, -1 FROM numbers) a GROUP BY ord) v), ",
        );
    }

    /// What is written of money.
    fn walk_books(&self, out: &mut AstPass<'_, '_, Pg>) {
        if self.moves_money() && self.verdict == Verdict::Credits {
            self.credit(out);
        } else if self.moves_money() {
            // Locked above: what was read there is what is there.
            out.push_sql(
                "_wallets AS (INSERT INTO wallets (integrator_id, available_cents, held_cents, entries, owed_cents, told) \
                 SELECT ((SELECT owners FROM purse))[n.wallet], max(n.available_at_first) + sum(n.available)::bigint, \
                 max(n.held_at_first) + sum(n.held)::bigint, max(n.entries_at_first) + sum(n.entries)::bigint, \
                 max(n.owed_at_first) + sum(n.owed)::bigint, max(n.told_at_first) + sum(n.told)::bigint \
                 FROM decided n WHERE n.code = 0",
            );
            if self.fate == Fate::Shared {
                out.push_sql(" AND ((SELECT codes FROM verdict))[n.ord] = 0");
            }
            out.push_sql(
                " GROUP BY n.wallet \
                 ON CONFLICT (integrator_id) DO UPDATE SET available_cents = excluded.available_cents, \
                 held_cents = excluded.held_cents, entries = excluded.entries, owed_cents = excluded.owed_cents, \
                 told = excluded.told), ",
            );
        }
        if !self.postings.ord.is_empty() {
            out.push_sql(
                "_postings AS (INSERT INTO postings (integrator_id, entry, debit, credit, amount_cents, reason, \
                 resource_kind, resource_id, available_after_cents, held_after_cents, created_at) \
                 SELECT n.integrator_id, ((SELECT entries FROM verdict))[n.ord] + n.number, n.debit, n.credit, \
                 n.amount_cents, n.reason, n.resource_kind, n.resource_id, \
                 ((SELECT available FROM verdict))[n.ord] + n.available, \
                 ((SELECT held FROM verdict))[n.ord] + n.held, n.created_at FROM in_postings n",
            );
            out.push_sql(self.accepted());
            out.push_sql("), ");
        }
    }

    /// Everything that is written.
    ///
    /// The server runs what is in the list from its end to its beginning. Nothing depends on it but how long others wait:
    /// credits change their wallets, and so lock them, when that is first asked for. What comes after the wallets in the
    /// list is written before: what is of a locked record alone. What has a name that somebody else may be writing too
    /// comes before them: nobody waits for a wallet with a name in hand that the holder of the wallet may want.
    fn walk_writes(&self, out: &mut AstPass<'_, '_, Pg>) {
        self.walk_named(out);
        self.walk_books(out);
        self.walk_told(out);
        self.walk_changed(out);
        self.walk_follow_ups(out);
        self.walk_happened(out);
        // Ends the list.
        out.push_sql("_done AS (SELECT true) ");
    }

    /// What takes a name: new records, handles, the keys of twins, receipts, findings and evidence.
    fn walk_named(&self, out: &mut AstPass<'_, '_, Pg>) {
        for (table, columns, _, none_is_new) in self.tables() {
            if !none_is_new {
                out.push_sql("_new_");
                out.push_sql(table);
                out.push_sql(" AS (");
                push_insert(table, &format!("in_new_{table}"), columns, self.accepted(), out);
                out.push_sql("), ");
            }
        }
        if !self.handles.ord.is_empty() {
            out.push_sql("_handles AS (");
            push_insert(
                "handles",
                "in_handles",
                Handles::COLUMNS.get(1..).unwrap_or_default(),
                self.accepted(),
                out,
            );
            out.push_sql("), ");
        }
        if !self.twins.ord.is_empty() {
            // One that nobody had is inserted as such: two who come at once for it can't both have it.
            out.push_sql(
                "_new_twins AS (INSERT INTO twins (integrator_id, key, resource_id, others, created_at) \
                 SELECT n.integrator_id, n.key, n.resource_id, n.others, n.created_at FROM in_twins n",
            );
            out.push_sql(self.accepted());
            out.push_sql(
                " AND n.expected IS NULL), \
                 _twins AS (INSERT INTO twins (integrator_id, key, resource_id, others, created_at) \
                 SELECT n.integrator_id, n.key, n.resource_id, n.others, n.created_at FROM in_twins n",
            );
            out.push_sql(self.accepted());
            out.push_sql(
                " AND n.expected IS NOT NULL ON CONFLICT (integrator_id, key) DO UPDATE SET \
                 resource_id = excluded.resource_id, others = excluded.others, created_at = excluded.created_at), ",
            );
        }
        if !self.receipts.ord.is_empty() {
            out.push_sql(
                "_receipts AS (INSERT INTO receipts (integrator_id, receipt_key, charge_id, number, \
                 amount_cents, paid_at, payer_name, payer_document, created_at) \
                 SELECT n.integrator_id, n.receipt_key, n.charge_id, 1 + (SELECT count(*) FROM receipts t \
                 WHERE t.integrator_id = n.integrator_id AND t.charge_id = n.charge_id), n.amount_cents, n.paid_at, \
                 n.payer_name, n.payer_document, n.created_at FROM in_receipts n",
            );
            out.push_sql(self.accepted());
            out.push_sql("), ");
        }
        if !self.findings.ord.is_empty() {
            // A finding with the same record and code is kept once: the first.
            out.push_sql(
                "_findings AS (INSERT INTO findings (integrator_id, number, resource_kind, resource_id, code, \
                 detail, created_at) SELECT n.integrator_id, n.number + coalesce((SELECT max(t.number) \
                 FROM findings t WHERE t.integrator_id = n.integrator_id), 0), n.resource_kind, \
                 n.resource_id, n.code, n.detail, n.created_at FROM in_findings n",
            );
            out.push_sql(self.accepted());
            out.push_sql(" ON CONFLICT ON CONSTRAINT findings_code_key DO NOTHING), ");
        }
        if !self.evidence.ord.is_empty() {
            out.push_sql("_evidence AS (");
            push_insert(
                "evidence",
                "in_evidence",
                EvidenceRows::COLUMNS.get(1..).unwrap_or_default(),
                self.accepted(),
                out,
            );
            out.push_sql(" ON CONFLICT ON CONSTRAINT evidence_pkey DO NOTHING), ");
        }
    }

    /// What is numbered in the wallet.
    fn walk_told(&self, out: &mut AstPass<'_, '_, Pg>) {
        if !self.told.ord.is_empty() {
            out.push_sql(
                "_told AS (INSERT INTO events (integrator_id, resource_kind, resource_id, sequence, kind, created_at, \
                 transition_id, number, moved_cents, related_id, snapshot) SELECT n.integrator_id, n.resource_kind, \
                 n.resource_id, n.sequence, n.kind, n.created_at, n.transition_id, \
                 ((SELECT told FROM verdict))[n.ord] + n.number, n.moved_cents, n.related_id, n.snapshot \
                 FROM in_told n",
            );
            out.push_sql(self.accepted());
            out.push_sql("), ");
        }
    }

    /// When charges are asked about next. That of another record is a column of its own.
    fn walk_follow_ups(&self, out: &mut AstPass<'_, '_, Pg>) {
        for (relation, is_empty) in
            [("in_new_charges", self.new_charges.ord.is_empty()), ("in_charges", self.charges.ord.is_empty())]
        {
            if is_empty {
                continue;
            }
            out.push_sql(&format!(
                "_due_{relation} AS (INSERT INTO charge_follow_ups (integrator_id, id, due_at, attempts) \
                 SELECT n.integrator_id, n.id, n.follow_up_at, n.follow_up_attempts FROM {relation} n{} \
                 AND n.follow_up_at IS NOT NULL ON CONFLICT (integrator_id, id) DO UPDATE SET \
                 due_at = excluded.due_at, attempts = excluded.attempts), ",
                self.accepted()
            ));
        }
        if !self.charges.ord.is_empty() {
            out.push_sql(&format!(
                "_not_due AS (DELETE FROM charge_follow_ups f USING in_charges n{} AND n.follow_up_at IS NULL \
                 AND f.integrator_id = n.integrator_id AND f.id = n.id), ",
                self.accepted()
            ));
        }
    }

    /// What happened, beside the records.
    fn walk_happened(&self, out: &mut AstPass<'_, '_, Pg>) {
        if !self.events.ord.is_empty() {
            out.push_sql("_events AS (");
            push_insert(
                "events",
                "in_events",
                Events::COLUMNS.get(1..).unwrap_or_default(),
                self.accepted(),
                out,
            );
            out.push_sql("), ");
        }
        if !self.deliveries.ord.is_empty() {
            out.push_sql(
                "_deliveries AS (INSERT INTO deliveries (integrator_id, resource_kind, resource_id, sequence, lane, \
                 state, due_at, attempts, claims, created_at) SELECT n.integrator_id, n.resource_kind, n.resource_id, \
                 n.sequence, n.lane, 'waiting', n.created_at, 0, 0, n.created_at FROM in_deliveries n",
            );
            out.push_sql(self.accepted());
            out.push_sql("), ");
        }
    }

    /// Each table of records with its columns, and whether none of it changes and none is new.
    const fn tables(&self) -> [(&'static str, &'static [&'static str], bool, bool); 4] {
        [
            ("charges", Charges::TABLE, self.charges.ord.is_empty(), self.new_charges.ord.is_empty()),
            (
                "withdrawals",
                Withdrawals::TABLE,
                self.withdrawals.ord.is_empty(),
                self.new_withdrawals.ord.is_empty(),
            ),
            ("refunds", Refunds::TABLE, self.refunds.ord.is_empty(), self.new_refunds.ord.is_empty()),
            ("splits", Splits::TABLE, self.splits.ord.is_empty(), self.new_splits.ord.is_empty()),
        ]
    }

    /// The records that change.
    fn walk_changed(&self, out: &mut AstPass<'_, '_, Pg>) {
        for (table, columns, none_changes, _) in self.tables() {
            if none_changes {
                continue;
            }
            out.push_sql("_");
            out.push_sql(table);
            out.push_sql(" AS (");
            push_insert(table, &format!("in_{table}"), columns, self.accepted(), out);
            // Every one of them is there, and locked: it is always an update, found by its key.
            out.push_sql(" ON CONFLICT (integrator_id, id) DO UPDATE SET ");
            for (index, column) in columns.iter().skip(2).enumerate() {
                out.push_sql(if index == 0 { "" } else { ", " });
                out.push_sql(column);
                out.push_sql(" = excluded.");
                out.push_sql(column);
            }
            out.push_sql("), ");
        }
    }
}

/// Whether a column is of programs before migration 13: nothing is written there any more.
fn is_past(table: &str, column: &str) -> bool {
    (table, column) == ("charges", "follow_up_at")
}

/// `INSERT INTO table (columns…) SELECT columns… FROM source`, of what was accepted.
fn push_insert(
    table: &str,
    source: &str,
    columns: &[&str],
    accepted: &'static str,
    out: &mut AstPass<'_, '_, Pg>,
) {
    out.push_sql("INSERT INTO ");
    out.push_sql(table);
    out.push_sql(" (");
    for (index, column) in columns.iter().enumerate() {
        out.push_sql(if index == 0 { "" } else { ", " });
        out.push_sql(column);
    }
    out.push_sql(") SELECT ");
    for (index, column) in columns.iter().enumerate() {
        out.push_sql(if index == 0 { "" } else { ", " });
        if is_past(table, column) {
            out.push_sql("NULL::bigint");
        } else {
            out.push_sql("n.");
            out.push_sql(column);
        }
    }
    out.push_sql(" FROM ");
    out.push_sql(source);
    out.push_sql(" n");
    out.push_sql(accepted);
}

fn push_number(number: i32, out: &mut AstPass<'_, '_, Pg>) {
    out.push_sql(&number.to_string());
}

#[cfg(test)]
mod tests {
    use pix_domain::ids::{ResourceKind, ResourceRef};
    use pix_domain::money::Cents;
    use pix_domain::time::Timestamp;
    use pix_domain::wallet::{Posting, Reason};

    use super::*;

    const OWNER: IntegratorId = IntegratorId(Uuid::nil());
    const RESOURCE: ResourceRef =
        ResourceRef { integrator_id: OWNER, kind: ResourceKind::Charge, id: Uuid::nil() };

    fn moving(moves: &[(Account, Account)]) -> Transition {
        let mut transition = Transition::new(OWNER, Timestamp::from_micros(0));
        transition.postings.extend(moves.iter().map(|(debit, credit)| Posting {
            debit: *debit,
            credit: *credit,
            amount: Cents::new(1).unwrap(),
            reason: Reason::ChargePaid,
            resource: RESOURCE,
        }));
        transition
    }

    #[test]
    fn a_credit_takes_nothing_at_any_step() {
        use Account::{Available, Clearing, Fees, Held, Owed};

        let brings = (Clearing, Available);
        for (moves, expected) in [
            (&[][..], true),
            (&[brings], true),
            (&[brings, (Available, Fees)], true),
            (&[brings, (Available, Fees), (Available, Fees)], false),
            (&[(Available, Fees), brings], false),
            (&[brings, (Available, Held)], false),
            (&[(Clearing, Held)], false),
            (&[brings, (Available, Owed)], false),
            (&[(Owed, Clearing)], false),
        ] {
            assert_eq!(is_credit(&moving(moves)), expected, "{moves:?}");
        }
        // Whoever numbers a finding, or waits for several wallets, has the wallet alone.
        assert!(!is_credit(&moving(&[brings]).find(RESOURCE, "odd", "odd".into())));
        let mut with_part = moving(&[brings]);
        with_part.parts.push(moving(&[]));
        assert!(!is_credit(&with_part));
    }
}
