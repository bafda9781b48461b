//! Rows of charges and of the PIX received on them.

use diesel::{AsChangeset, Insertable, Selectable};
use pix_domain::charges::{Charge, ChargeState, Credited, Failure, Receipt};
use pix_domain::error::StoreError;
use pix_domain::ids::{ChargeId, IntegratorId, Version};
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::provider::{Party, Payment, ProviderBody, Ticket};
use pix_domain::text::{Email, PayerQuestion, PostbackUrl};
use pix_domain::time::Timestamp;

use super::people::{ERASED, LOCKED};
use super::reading::read_in_place;
use super::splits::{shares, to_shares};
use crate::codec::{self, DbId, DbTime, damaged};
use crate::schema::{charges, receipts};

/// A document, unless it is erased.
pub(super) fn present(document: Option<String>) -> Option<String> {
    document.filter(|document| document != ERASED)
}

/// A document as it is kept, or what stands for one of an erased person.
pub(super) fn kept(party: &Party, is_erased: bool) -> Option<String> {
    if is_erased { Some(LOCKED.to_owned()) } else { codec::document_of(party) }
}

read_in_place! {
    /// A charge as it is kept.
    #[derive(Selectable, Insertable, AsChangeset)]
    #[diesel(primary_key(integrator_id, id))]
    #[diesel(treat_none_as_null = true, treat_none_as_default_value = false)]
    pub struct ChargeRow of charges {
        pub integrator_id: DbId,
        pub id: DbId,
        pub version: i64,
        pub external_id: String,
        pub external_id_given: bool,
        pub amount_cents: i64,
        pub payer_name: Option<String>,
        pub payer_document: Option<String>,
        pub payer_email: Option<String>,
        pub payer_question: Option<String>,
        pub postback_url: Option<String>,
        pub fee_version: i64,
        pub state: String,
        pub failure_code: Option<String>,
        pub failure_message: Option<String>,
        pub provider_id: Option<String>,
        pub qrcode: Option<String>,
        pub provider_body: Option<String>,
        pub amount_paid_cents: i64,
        pub paid_fee_cents: Option<i64>,
        pub first_receipt_key: Option<String>,
        pub paid_by_name: Option<String>,
        pub paid_by_document: Option<String>,
        pub paid_at: Option<DbTime>,
        pub late: Option<bool>,
        pub payments: Option<i64>,
        pub refund_reserved_cents: i64,
        pub refunded_cents: i64,
        pub expires_at: DbTime,
        pub created_at: DbTime,
        pub updated_at: DbTime,
        pub follow_up_at: Option<DbTime>,
        pub follow_up_attempts: i64,
        pub taken_back_cents: i64,
        pub postback_all: bool,
        pub metadata: Option<String>,
        pub split: Option<String>,
    }
}

impl ChargeRow {
    /// The row of `charge`, to be asked about at `follow_up`.
    pub fn new(charge: Charge, follow_up: Option<Timestamp>) -> Self {
        let state = charge.state.name().to_owned();
        let (failure_code, failure_message) = match charge.state {
            ChargeState::Failed(Failure { code, message }) => (Some(code), Some(message)),
            _ => (None, None),
        };
        let (provider_id, qrcode, provider_body) = match charge.ticket {
            Some(ticket) => {
                (Some(ticket.provider_id.as_str().to_owned()), Some(ticket.qrcode), Some(ticket.body.0))
            }
            None => (None, None, None),
        };
        let credited = charge.credited.as_ref();
        Self {
            integrator_id: charge.integrator_id.into(),
            id: DbId(charge.id.0),
            version: charge.version.0.into(),
            external_id: charge.external_id.as_str().to_owned(),
            external_id_given: charge.external_id_given,
            amount_cents: charge.amount.cents().get(),
            payer_name: codec::name_of(&charge.payer),
            payer_document: kept(&charge.payer, charge.payer_erased),
            payer_email: charge.payer_email.map(|email| email.as_str().to_owned()),
            payer_question: charge.payer_question.map(|question| question.as_str().to_owned()),
            postback_url: charge.postback_url.map(|url| url.as_str().to_owned()),
            fee_version: charge.fee_version.into(),
            state,
            failure_code,
            failure_message,
            provider_id,
            qrcode,
            provider_body,
            amount_paid_cents: credited.map_or(0, |credited| credited.amount_paid.get()),
            paid_fee_cents: credited.map(|credited| credited.fee.get()),
            first_receipt_key: credited.map(|credited| credited.first.to_text()),
            paid_by_name: credited.and_then(|credited| codec::name_of(&credited.paid_by)),
            paid_by_document: credited.and_then(|credited| codec::document_of(&credited.paid_by)),
            paid_at: credited.map(|credited| DbTime(credited.paid_at)),
            late: credited.map(|credited| credited.late),
            payments: credited.map(|credited| credited.payments.into()),
            refund_reserved_cents: charge.refund_reserved.get(),
            refunded_cents: charge.refunded.get(),
            expires_at: DbTime(charge.expires_at),
            created_at: DbTime(charge.created_at),
            updated_at: DbTime(charge.updated_at),
            follow_up_at: follow_up.map(DbTime),
            follow_up_attempts: 0,
            taken_back_cents: charge.taken_back.get(),
            postback_all: charge.postback_scope == PostbackScope::All,
            metadata: codec::to_metadata(&charge.metadata),
            split: to_shares(&charge.split),
        }
    }

    fn state(&mut self) -> Result<ChargeState, StoreError> {
        Ok(match self.state.as_str() {
            "creating" => ChargeState::Creating,
            "pending" => ChargeState::Pending,
            "paid" => ChargeState::Paid,
            "expired" => ChargeState::Expired,
            "canceled" => ChargeState::Canceled,
            "failed" => {
                let (code, message) = (self.failure_code.take(), self.failure_message.take());
                ChargeState::Failed(codec::failure("charges.failure_code", code, message)?)
            }
            _ => return Err(damaged("charges.state", "a state this program knows")),
        })
    }

    fn credited(&mut self) -> Result<Option<Credited>, StoreError> {
        match (self.paid_at, self.paid_fee_cents, &self.first_receipt_key, self.late, self.payments) {
            (None, None, None, None, None) => Ok(None),
            (Some(paid_at), Some(fee), Some(first), Some(late), Some(payments)) => Ok(Some(Credited {
                amount_paid: codec::cents("charges.amount_paid_cents", self.amount_paid_cents)?,
                fee: codec::cents("charges.paid_fee_cents", fee)?,
                first: codec::receipt_key("charges.first_receipt_key", first)?,
                paid_by: codec::party(
                    "charges.paid_by_*",
                    self.paid_by_name.take(),
                    present(self.paid_by_document.take()),
                )?,
                paid_at: paid_at.0,
                late,
                payments: codec::number("charges.payments", payments)?,
            })),
            _ => Err(damaged("charges.paid_at", "there together with the rest of the credit")),
        }
    }
}

fn ticket(
    provider_id: Option<String>,
    qrcode: Option<String>,
    body: Option<String>,
) -> Result<Option<Ticket>, StoreError> {
    match (provider_id, qrcode, body) {
        (None, None, None) => Ok(None),
        (Some(provider_id), Some(qrcode), Some(body)) => Ok(Some(Ticket {
            provider_id: codec::provider_id("charges.provider_id", provider_id)?,
            qrcode,
            body: ProviderBody(body),
        })),
        _ => Err(damaged("charges.provider_id", "there together with qrcode and provider_body")),
    }
}

impl TryFrom<ChargeRow> for Charge {
    type Error = StoreError;

    fn try_from(row: ChargeRow) -> Result<Self, StoreError> {
        Self::try_from(Box::new(row))
    }
}

impl TryFrom<Box<ChargeRow>> for Charge {
    type Error = StoreError;

    fn try_from(mut row: Box<ChargeRow>) -> Result<Self, StoreError> {
        let (state, credited) = (row.state()?, row.credited()?);
        let payer_erased = row.payer_document.as_deref() == Some(ERASED);
        Ok(Self {
            id: ChargeId(row.id.0),
            integrator_id: IntegratorId(row.integrator_id.0),
            version: Version(codec::number("charges.version", row.version)?),
            external_id: codec::owned_text("charges.external_id", row.external_id)?,
            external_id_given: row.external_id_given,
            amount: codec::amount("charges.amount_cents", row.amount_cents)?,
            payer: codec::party("charges.payer_*", row.payer_name, present(row.payer_document))?,
            payer_erased,
            payer_email: codec::optional_text(
                "charges.payer_email",
                row.payer_email.as_deref(),
                Email::parse,
            )?,
            payer_question: codec::optional_text(
                "charges.payer_question",
                row.payer_question.as_deref(),
                PayerQuestion::parse,
            )?,
            postback_url: codec::optional_text(
                "charges.postback_url",
                row.postback_url.as_deref(),
                PostbackUrl::parse,
            )?,
            postback_scope: codec::postback_scope(row.postback_all),
            metadata: codec::metadata("charges.metadata", row.metadata.as_deref())?,
            fee_version: codec::number("charges.fee_version", row.fee_version)?,
            state,
            ticket: ticket(row.provider_id, row.qrcode, row.provider_body)?,
            credited,
            refund_reserved: codec::cents("charges.refund_reserved_cents", row.refund_reserved_cents)?,
            refunded: codec::cents("charges.refunded_cents", row.refunded_cents)?,
            taken_back: codec::cents("charges.taken_back_cents", row.taken_back_cents)?,
            split: shares(row.split.as_deref())?,
            expires_at: row.expires_at.0,
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
        })
    }
}

read_in_place! {
    /// A received PIX as it is kept.
    #[derive(Selectable, Insertable)]
    #[diesel(treat_none_as_default_value = false)]
    pub struct ReceiptRow of receipts {
        pub integrator_id: DbId,
        pub receipt_key: String,
        pub charge_id: DbId,
        pub number: i64,
        pub amount_cents: i64,
        pub paid_at: DbTime,
        pub payer_name: Option<String>,
        pub payer_document: Option<String>,
        pub created_at: DbTime,
    }
}

impl ReceiptRow {
    /// The row of `receipt`, the charge's `number`-th.
    pub fn new(receipt: &Receipt, number: i64, at: Timestamp) -> Self {
        Self {
            integrator_id: receipt.integrator_id.into(),
            receipt_key: receipt.payment.key.to_text(),
            charge_id: DbId(receipt.charge_id.0),
            number,
            amount_cents: receipt.payment.amount.cents().get(),
            paid_at: DbTime(receipt.payment.paid_at),
            payer_name: codec::name_of(&receipt.payment.payer),
            payer_document: codec::document_of(&receipt.payment.payer),
            created_at: DbTime(at),
        }
    }
}

impl TryFrom<ReceiptRow> for Receipt {
    type Error = StoreError;

    fn try_from(row: ReceiptRow) -> Result<Self, StoreError> {
        Self::try_from(Box::new(row))
    }
}

impl TryFrom<Box<ReceiptRow>> for Receipt {
    type Error = StoreError;

    fn try_from(row: Box<ReceiptRow>) -> Result<Self, StoreError> {
        Ok(Self {
            integrator_id: IntegratorId(row.integrator_id.0),
            charge_id: ChargeId(row.charge_id.0),
            payment: Payment {
                key: codec::receipt_key("receipts.receipt_key", &row.receipt_key)?,
                amount: codec::amount("receipts.amount_cents", row.amount_cents)?,
                paid_at: row.paid_at.0,
                payer: codec::party("receipts.payer_*", row.payer_name, present(row.payer_document))?,
            },
        })
    }
}
