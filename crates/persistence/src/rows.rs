//! Records as rows and rows as records. Shared by every database; knows none.

mod audit_log;
mod books;
mod callbacks;
mod charges;
mod evidence;
mod limits;
mod people;
mod postbacks;
mod reading;
mod refunds;
mod seals;
mod settings;
mod splits;
mod withdrawals;

pub use audit_log::LogRow;
pub use books::{EventRow, FindingRow, HandleRow, PostingRow, WalletRow};
pub use callbacks::{CallbackRow, due_of, state_of};
pub use charges::{ChargeRow, ReceiptRow};
pub use evidence::{EvidenceRow, TwinRow};
pub use limits::{AskSent, AskSentTo, LimitRow, MOST_LIMITS, sent, sent_to};
pub use people::{LOCKED, Locked, LockedRow, Locking, PayeeKeyRow, PersonRow, Personal, ends, walked};
pub(crate) use people::{lockable_charges, lockable_withdrawals};
pub use postbacks::{
    AttemptRow, DeliveryRow, EndpointRow, SecretRow, ToldRow, key_of, snapshot_text, standing_of,
    state_of_standing,
};
pub use refunds::RefundRow;
pub use seals::{SealDifferenceRow, SealRow};
pub use settings::{ApiKeyRow, FeeScheduleRow, IntegratorRow, KeyChangeRow, KeySecretsRow, status_name};
pub use splits::SplitRow;
pub use withdrawals::WithdrawalRow;
