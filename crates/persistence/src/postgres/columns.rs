//! Rows of many transitions, column by column: what an array of PostgreSQL wants.
//!
//! A relation here is a common table expression of the statement. Its rows reach the server as one array a column, or,
//! when there is exactly one row, as plain values: cheaper to read for the server, and the same relation to the rest of
//! the statement.

use diesel::dsl::SqlTypeOf;
use diesel::pg::Pg;
use diesel::query_builder::AstPass;
use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text};

use crate::codec::{DbId, DbTime, Id, Instant};
use crate::rows::{ChargeRow, RefundRow, SplitRow, WithdrawalRow};
use crate::schema::{charges, refunds, splits, withdrawals};

/// Whether a relation of one row may be sent as plain values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// It may.
    Plain,
    /// Arrays always: groups of any size share their prepared statements.
    Arrays,
}

/// How often a statement reads a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// In one place, once.
    Once,
    /// Several times.
    Often,
}

macro_rules! columns {
    ($(#[$doc:meta])* $name:ident { $($column:ident: $kind:ty => $sql:ty),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $name {
            $(pub $column: Vec<$kind>,)+
        }

        impl $name {
            /// The columns, in order.
            pub const COLUMNS: &'static [&'static str] = &[$(stringify!($column)),+];

            /// Writes the rows, as `VALUES (columns…)` or `SELECT unnest(column), …`.
            ///
            /// The arrays are of one length. In the list of a `SELECT` the server takes the next element of each for the
            /// next row; of `FROM unnest(columns…)` it keeps all elements of each column apart first, in 16 KiB or more.
            pub fn walk_rows<'b>(&'b self, form: Form, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
                let mut before;
                if let (Form::Plain, ($([$column],)+)) = (form, ($(self.$column.as_slice(),)+)) {
                    before = "VALUES (";
                    $(
                        out.push_sql(before);
                        out.push_bind_param::<$sql, _>($column)?;
                        before = ", ";
                    )+
                } else {
                    before = "SELECT unnest(";
                    $(
                        out.push_sql(before);
                        out.push_bind_param::<Array<$sql>, _>(&self.$column)?;
                        before = "), unnest(";
                    )+
                }
                let _ = before;
                out.push_sql(")");
                Ok(())
            }
        }
    };
}

macro_rules! relation {
    ($(#[$doc:meta])* $name:ident { $($column:ident: $kind:ty => $sql:ty),+ $(,)? }) => {
        columns! {
            $(#[$doc])*
            $name { $($column: $kind => $sql),+ }
        }

        impl $name {
            /// Writes `name(columns…) AS (rows)`, or `AS MATERIALIZED` where they are read more than once: the server
            /// keeps those apart, and reads the others where they are asked for.
            pub fn walk<'b>(
                &'b self,
                name: &str,
                form: Form,
                read: Read,
                out: &mut AstPass<'_, 'b, Pg>,
            ) -> QueryResult<()> {
                push_named(name, Self::COLUMNS, out);
                out.push_sql(match read {
                    Read::Once => " AS (",
                    Read::Often => " AS MATERIALIZED (",
                });
                self.walk_rows(form, out)?;
                out.push_sql(")");
                Ok(())
            }
        }
    };
}

/// A relation whose rows are a table's, with the number of their transition and their place in it.
macro_rules! records {
    ($(#[$doc:meta])* $name:ident, $row:ident of $table:ident { $($column:ident: $kind:ty),+ $(,)? }) => {
        relation! {
            $(#[$doc])*
            $name {
                ord: i32 => Integer,
                place: i32 => Integer,
                $($column: $kind => SqlTypeOf<$table::$column>),+
            }
        }

        impl $name {
            /// The columns of the table, in order.
            pub const TABLE: &'static [&'static str] = &[$(stringify!($column)),+];

            /// Adds a row.
            pub fn push(&mut self, ord: i32, place: i32, row: $row) {
                self.ord.push(ord);
                self.place.push(place);
                $(self.$column.push(row.$column);)+
            }
        }
    };
}

/// Writes `name(columns…)`.
pub fn push_named(name: &str, columns: &[&str], out: &mut AstPass<'_, '_, Pg>) {
    out.push_sql(name);
    out.push_sql("(");
    for (index, column) in columns.iter().enumerate() {
        out.push_sql(if index == 0 { "" } else { ", " });
        out.push_sql(column);
    }
    out.push_sql(")");
}

records! {
    /// Charges, as they are to be.
    Charges, ChargeRow of charges {
        integrator_id: DbId,
        id: DbId,
        version: i64,
        external_id: String,
        external_id_given: bool,
        amount_cents: i64,
        payer_name: Option<String>,
        payer_document: Option<String>,
        payer_email: Option<String>,
        payer_question: Option<String>,
        postback_url: Option<String>,
        fee_version: i64,
        state: String,
        failure_code: Option<String>,
        failure_message: Option<String>,
        provider_id: Option<String>,
        qrcode: Option<String>,
        provider_body: Option<String>,
        amount_paid_cents: i64,
        paid_fee_cents: Option<i64>,
        first_receipt_key: Option<String>,
        paid_by_name: Option<String>,
        paid_by_document: Option<String>,
        paid_at: Option<DbTime>,
        late: Option<bool>,
        payments: Option<i64>,
        refund_reserved_cents: i64,
        refunded_cents: i64,
        expires_at: DbTime,
        created_at: DbTime,
        updated_at: DbTime,
        follow_up_at: Option<DbTime>,
        follow_up_attempts: i64,
        taken_back_cents: i64,
        postback_all: bool,
        metadata: Option<String>,
        split: Option<String>,
    }
}

records! {
    /// Withdrawals, as they are to be.
    Withdrawals, WithdrawalRow of withdrawals {
        integrator_id: DbId,
        id: DbId,
        version: i64,
        external_id: String,
        external_id_given: bool,
        amount_cents: i64,
        fee_cents: i64,
        fee_version: i64,
        payee_name: Option<String>,
        payee_document: Option<String>,
        payee_key_type: String,
        payee_key: String,
        description: Option<String>,
        postback_url: Option<String>,
        state: String,
        failure_code: Option<String>,
        failure_message: Option<String>,
        provider_id: Option<String>,
        provider_body: Option<String>,
        end_to_end_id: Option<String>,
        returned_cents: i64,
        submitted_at: DbTime,
        completed_at: Option<DbTime>,
        created_at: DbTime,
        updated_at: DbTime,
        follow_up_at: Option<DbTime>,
        follow_up_attempts: i64,
        settled_late: bool,
        postback_all: bool,
        metadata: Option<String>,
    }
}

records! {
    /// Refunds, as they are to be.
    Refunds, RefundRow of refunds {
        integrator_id: DbId,
        id: DbId,
        version: i64,
        charge_id: DbId,
        charge_provider_id: String,
        external_id: String,
        external_id_given: bool,
        amount_cents: i64,
        amount_given: bool,
        fee_cents: i64,
        fee_version: i64,
        description: Option<String>,
        state: String,
        failure_code: Option<String>,
        failure_message: Option<String>,
        provider_id: Option<String>,
        provider_body: Option<String>,
        return_id: Option<String>,
        submitted_at: DbTime,
        completed_at: Option<DbTime>,
        created_at: DbTime,
        updated_at: DbTime,
        follow_up_at: Option<DbTime>,
        follow_up_attempts: i64,
    }
}

records! {
    /// Splits, as they are to be.
    Splits, SplitRow of splits {
        integrator_id: DbId,
        id: DbId,
        version: i64,
        from_id: DbId,
        charge_id: DbId,
        amount_cents: i64,
        taken_back_cents: i64,
        postback_url: Option<String>,
        created_at: DbTime,
        updated_at: DbTime,
    }
}

relation! {
    /// Integrators whose wallet has to be there, though no money of theirs moves.
    Owners {
        ord: i32 => Integer,
        integrator_id: DbId => Id,
    }
}

relation! {
    /// The wallets that money moves in, numbered from 1 in the order of their keys: that of the locks.
    Wallets {
        wallet: i32 => Integer,
        integrator_id: DbId => Id,
    }
}

relation! {
    /// What a transition does to its wallet.
    Money {
        ord: i32 => Integer,
        wallet: i32 => Integer,
        // How much more is in it afterwards.
        available: i64 => BigInt,
        held: i64 => BigInt,
        owed: i64 => BigInt,
        entries: i64 => BigInt,
        // How many events of it are told.
        told: i64 => BigInt,
        // How much has to be in it before, so that no posting leaves less than nothing, or repays more than is owed.
        need_available: i64 => BigInt,
        need_held: i64 => BigInt,
        need_owed: i64 => BigInt,
    }
}

relation! {
    /// Postings, each with its number in its transition and what the transition's postings did up to and with it.
    Postings {
        ord: i32 => Integer,
        number: i64 => BigInt,
        integrator_id: DbId => Id,
        debit: &'static str => Text,
        credit: &'static str => Text,
        amount_cents: i64 => BigInt,
        reason: &'static str => Text,
        resource_kind: &'static str => Text,
        resource_id: DbId => Id,
        available: i64 => BigInt,
        held: i64 => BigInt,
        created_at: DbTime => Instant,
    }
}

relation! {
    /// Events.
    Events {
        ord: i32 => Integer,
        integrator_id: DbId => Id,
        resource_kind: &'static str => Text,
        resource_id: DbId => Id,
        sequence: i64 => BigInt,
        kind: &'static str => Text,
        created_at: DbTime => Instant,
        transition_id: DbId => Id,
    }
}

relation! {
    /// Events that are told, each with its number among those of its transition.
    ToldEvents {
        ord: i32 => Integer,
        integrator_id: DbId => Id,
        resource_kind: &'static str => Text,
        resource_id: DbId => Id,
        sequence: i64 => BigInt,
        kind: &'static str => Text,
        created_at: DbTime => Instant,
        transition_id: DbId => Id,
        number: i64 => BigInt,
        moved_cents: i64 => BigInt,
        related_id: Option<DbId> => Nullable<Id>,
        snapshot: String => Text,
    }
}

relation! {
    /// What goes to a receiver.
    Deliveries {
        ord: i32 => Integer,
        integrator_id: DbId => Id,
        resource_kind: &'static str => Text,
        resource_id: DbId => Id,
        sequence: i64 => BigInt,
        lane: DbId => Id,
        created_at: DbTime => Instant,
    }
}

relation! {
    /// Idempotency keys.
    Handles {
        ord: i32 => Integer,
        integrator_id: DbId => Id,
        kind: &'static str => Text,
        key: String => Text,
        resource_id: DbId => Id,
        created_at: DbTime => Instant,
    }
}

relation! {
    /// Incoming PIX.
    Receipts {
        ord: i32 => Integer,
        integrator_id: DbId => Id,
        receipt_key: String => Text,
        charge_id: DbId => Id,
        amount_cents: i64 => BigInt,
        paid_at: DbTime => Instant,
        payer_name: Option<String> => Nullable<Text>,
        payer_document: Option<String> => Nullable<Text>,
        created_at: DbTime => Instant,
    }
}

relation! {
    /// Twins' keys: who has them before, and who after.
    Twins {
        ord: i32 => Integer,
        integrator_id: DbId => Id,
        key: DbId => Id,
        resource_id: DbId => Id,
        others: String => Text,
        expected: Option<DbId> => Nullable<Id>,
        created_at: DbTime => Instant,
    }
}

relation! {
    /// Evidence.
    EvidenceRows {
        ord: i32 => Integer,
        integrator_id: DbId => Id,
        resource_kind: &'static str => Text,
        resource_id: DbId => Id,
        id: DbId => Id,
        kind: &'static str => Text,
        proof: &'static str => Text,
        detail: String => Text,
        created_at: DbTime => Instant,
    }
}

relation! {
    /// Findings, each with its number among those of its integrator here.
    Findings {
        ord: i32 => Integer,
        number: i64 => BigInt,
        integrator_id: DbId => Id,
        resource_kind: &'static str => Text,
        resource_id: DbId => Id,
        code: &'static str => Text,
        detail: String => Text,
        created_at: DbTime => Instant,
    }
}

columns! {
    /// First payments of charges, each of them whole: one row a transition.
    Payments {
        ord: i32 => Integer,
        wallet: i32 => Integer,
        integrator_id: DbId => Id,
        id: DbId => Id,
        version: i64 => BigInt,
        amount_cents: i64 => BigInt,
        fee_cents: i64 => BigInt,
        receipt_key: String => Text,
        paid_at: DbTime => Instant,
        payer_name: Option<String> => Nullable<Text>,
        payer_document: Option<String> => Nullable<Text>,
        paid_by_name: Option<String> => Nullable<Text>,
        paid_by_document: Option<String> => Nullable<Text>,
        late: bool => Bool,
        created_at: DbTime => Instant,
        transition_id: DbId => Id,
        snapshot: String => Text,
        lane: Option<DbId> => Nullable<Id>,
    }
}

columns! {
    /// Callbacks as they come.
    Inbox {
        id: DbId => Id,
        reference: Option<DbId> => Nullable<Id>,
        body: String => Text,
        digest: DbId => Id,
        received_at: DbTime => Instant,
        state: &'static str => Text,
        due_at: Option<DbTime> => Nullable<Instant>,
        attempts: i64 => BigInt,
    }
}

columns! {
    /// Where callbacks stand that were claimed.
    Endings {
        id: DbId => Id,
        state: &'static str => Text,
        due_at: Option<DbTime> => Nullable<Instant>,
        claimed_until: DbTime => Instant,
        attempts: i64 => BigInt,
    }
}
