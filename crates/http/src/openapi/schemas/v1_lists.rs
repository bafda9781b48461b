//! Pages and lists of v1.

use utoipa::ToSchema;

use super::scalars::{
    Currency, EntryType, EvidenceKindWord, Id, Money, ProofWord, ResourceType, SignedMoney, Time,
};
use super::v1::{Charge, Refund, Split, Withdrawal};

/// A page of charges, newest first.
#[derive(ToSchema)]
pub(in crate::openapi) struct ChargePage {
    #[schema(max_items = 100)]
    data: Vec<Charge>,
    meta: PageMeta,
    links: PageLinks,
}

/// A page of withdrawals, newest first.
#[derive(ToSchema)]
pub(in crate::openapi) struct WithdrawalPage {
    #[schema(max_items = 100)]
    data: Vec<Withdrawal>,
    meta: PageMeta,
    links: PageLinks,
}

/// A page of splits, newest first.
#[derive(ToSchema)]
pub(in crate::openapi) struct SplitPage {
    #[schema(max_items = 100)]
    data: Vec<Split>,
    meta: PageMeta,
    links: PageLinks,
}

/// A page of the statement, newest first.
#[derive(ToSchema)]
pub(in crate::openapi) struct StatementPage {
    #[schema(max_items = 100)]
    data: Vec<StatementEntry>,
    meta: PageMeta,
    links: PageLinks,
}

/// A movement of money in the wallet.
#[derive(ToSchema)]
pub(in crate::openapi) struct StatementEntry {
    /// Its number in your book: 1, 2, 3, … without gaps.
    #[schema(minimum = 1)]
    number: u64,
    r#type: EntryType,
    /// How much moved.
    amount: Money,
    /// What it did to the available balance.
    available_change: SignedMoney,
    /// What it did to what is held.
    held_change: SignedMoney,
    /// What it did to what is owed.
    owed_change: SignedMoney,
    /// The available balance after it.
    available_balance: Money,
    /// What is held after it.
    held_balance: Money,
    currency: Currency,
    resource: MovedResource,
    created_at: Time,
}

/// What it moved for.
#[derive(ToSchema)]
pub(in crate::openapi) struct MovedResource {
    r#type: ResourceType,
    uuid: Id,
}

/// Where this page lies.
#[derive(ToSchema)]
pub(in crate::openapi) struct PageMeta {
    #[schema(minimum = 1, maximum = 100)]
    per_page: u32,
    /// For `cursor`, of the page of older ones; `null` on the last page.
    #[schema(required = true)]
    next_cursor: Option<String>,
    /// For `cursor`, of the page of newer ones; `null` on the first page.
    #[schema(required = true)]
    prev_cursor: Option<String>,
}

/// The pages beside this one, with the same filters.
#[derive(ToSchema)]
pub(in crate::openapi) struct PageLinks {
    #[schema(required = true, format = "uri")]
    next: Option<String>,
    #[schema(required = true, format = "uri")]
    prev: Option<String>,
}

/// All refunds of a charge, oldest first.
#[derive(ToSchema)]
pub(in crate::openapi) struct RefundList {
    data: Vec<Refund>,
}

/// What was done and heard about a withdrawal or refund, oldest first.
#[derive(ToSchema)]
pub(in crate::openapi) struct EvidenceList {
    data: Vec<Evidence>,
}

/// One thing that was done or heard.
#[derive(ToSchema)]
pub(in crate::openapi) struct Evidence {
    at: Time,
    kind: EvidenceKindWord,
    proves: ProofWord,
    /// In words: our reference and the digest of what was sent, the provider's id, who decided and why.
    detail: String,
}
